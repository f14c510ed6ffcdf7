/* device_record_neurons.c - records the neurons of a step: select, gather and accumulate (ffn.c), on lists that never leave
 * the device. */
#include "device_record_internal.h"

#include <float.h>

_Static_assert(EXPERT_LIMIT == MOST_EXPERTS, "what a layer can have, a device can choose from");

/* ------------------------------------------------------------------ neurons */

/* The values of a portion in a buffer of lists, scores or activations. */
#define OF_PORTION(p, buffer) BUFFER_FROM(buffer, (p)->at * sizeof(float))

/* Keeps in a list (or of all rows) what passes the rule; adds the number to `column` of the totals of the layer. */
static row_list filter(const recorder *r, uint32_t layer, const portion *p, row_list from, const device_buffer *values,
                       const device_buffer *bias, const device_buffer *selected, unsigned column, unsigned rule,
                       float threshold)
{
    const device_vectors *v = r->v;
    row_list to = {v->lists[column], p->listed[column], p->at};
    size_t totals = device_totals_at(layer, r->rows) * sizeof(uint32_t);
    LAUNCH(r, DEVICE_compact, r->rows, OF_PORTION(p, values), BUFFER(bias), LIST(from), LIST(to),
           selected ? OF_PORTION(p, selected) : NO_BUFFER, BUFFER_FROM(v->totals, totals),
           UINT(r->s->engine->uploaded->layers[layer].width), UINT(rule), UINT(column), FLOAT(threshold));
    return to;
}

/* The kernels' numbers of ways to make scores. */
static const unsigned scorings[ROUTER_SCORINGS] = {[ROUTER_SOFTMAX] = SCORING_SOFTMAX,
                                                   [ROUTER_SIGMOID] = SCORING_SIGMOID,
                                                   [ROUTER_ROOT_SOFTPLUS] = SCORING_ROOT_SOFTPLUS,
                                                   [ROUTER_SIGMOID_OF_CHOSEN] = SCORING_SIGMOID_OF_CHOSEN};

void record_route(const recorder *r, uint32_t layer, const device_buffer *from)
{
    const device_layer *l = &r->s->engine->uploaded->layers[layer];
    const ffn_shape *f = &r->model->layers[layer].ffn;
    const router_shape *router = &f->router;
    const device_vectors *v = r->v;
    uint32_t experts = router->expert_count;
    if (l->router_norm.weight) { /* what attention added is in the residual stream by now */
        record_norm(r, &l->router_norm, v->x, l->router.columns, v->added);
        from = v->added;
    }
    input in = record_prepare(r, from, l->router.columns, (const device_matrix *[]){&l->router}, 1);
    record_product(r, &l->router, &in, all_rows, v->router, FINISH_STORE);
    if (l->shared_gate.w)
        record_product(r, &l->shared_gate, &in, all_rows, v->shared_gate, FINISH_STORE);
    LAUNCH(r, DEVICE_route, r->rows, BUFFER(v->router), BUFFER(l->router_bias), BUFFER(l->router_correction),
           BUFFER(l->expert_scales), BUFFER(l->shared_gate.w ? v->shared_gate : NULL), BUFFER(l->token_experts),
           BUFFER(v->shares), UINT(experts), UINT(router->used), UINT(router->group_count), UINT(router->group_used),
           UINT(scorings[router->scoring]), UINT(router->shares), FLOAT(router->input_scale), FLOAT(router->scale),
           FLOAT(f->shared_neurons > 0 ? router->shared_scale : 0));
    LAUNCH(r, DEVICE_compact, r->rows, BUFFER(v->shares), NO_BUFFER, NO_BUFFER, NO_BUFFER, BUFFER(v->chosen),
           BUFFER(v->chosen_count), BUFFER(v->chosen_shares), NO_BUFFER, UINT(experts + 1), UINT(RULE_BEYOND), UINT(0),
           FLOAT(0)); /* an expert's scale may be below zero; NaN is chosen, too, and seen in the result */
}

/* Lists the rows of the chosen experts: those of their ranges. totals NULL: they are not counted. */
static void expand(const recorder *r, uint32_t layer, const device_buffer *of_experts, row_list to, uint32_t width,
                   const device_buffer *totals)
{
    size_t at = device_totals_at(layer, r->rows) * sizeof(uint32_t);
    LAUNCH(r, DEVICE_expand, r->rows, BUFFER(r->v->chosen), BUFFER(r->v->chosen_count), BUFFER(of_experts), LIST(to),
           totals ? BUFFER_FROM(totals, at) : NO_BUFFER, UINT(r->s->engine->uploaded->layers[layer].router.rows + 1),
           UINT(width), UINT(TOTAL_COMPUTED));
}

/* Lists the neurons of the chosen experts. Those that scores will choose from are counted later. */
static row_list neurons_of_chosen(const recorder *r, uint32_t layer, const portion *p)
{
    const device_layer *l = &r->s->engine->uploaded->layers[layer];
    row_list to = {r->v->lists[TOTAL_COMPUTED], p->listed[TOTAL_COMPUTED], p->at};
    expand(r, layer, p->ranges, to, l->width, device_scores(r->s, layer) ? NULL : r->v->totals);
    return to;
}

/* Keeps of the neurons of the chosen experts those with a score above zero: mask_out . relu(mask_in . input), by the
 * masks of their own expert. The masks of the chosen experts are computed one after the other. */
static row_list mask(const recorder *r, uint32_t layer, const portion *p, row_list rows)
{
    const device_layer *l = &r->s->engine->uploaded->layers[layer];
    const device_vectors *v = r->v;
    uint32_t width = device_mask_width(r->s, layer), used = r->model->layers[layer].ffn.router.used;
    row_list units = {v->mask_list, v->mask_listed, 0};
    expand(r, layer, l->mask_ranges, units, width, NULL);
    input in = record_prepare(r, p->input, l->mask_in.columns, (const device_matrix *[]){&l->mask_in}, 1);
    record_stack(r, &l->mask_in, width, &in, units, (output){v->hidden, 0, width}, FINISH_RELU);
    LAUNCH(r, device_kernel_of(OF_SCORE, l->mask_out.format), items_of(l->width, PRODUCT_ROWS), BUFFER(l->mask_out.w),
           BUFFER(l->mask_out.scales), LIST(rows), BUFFER(v->chosen), BUFFER(l->expert_owners), BUFFER(v->hidden),
           BUFFER(v->score), UINT(l->router.rows + 1), UINT(used), UINT(l->width), UINT(l->mask_out.columns));
    return filter(r, layer, p, rows, v->score, NULL, NULL, TOTAL_COMPUTED, RULE_FROM, FLT_MIN); /* NaN passes */
}

void record_predict(const recorder *r, uint32_t layer, const device_buffer *normed)
{
    const device_layer *l = &r->s->engine->uploaded->layers[layer];
    bool reads_normed = r->s->engine->layers[layer].predictor.reads_normed;
    input in =
        record_prepare(r, reads_normed ? normed : r->v->x, l->fc1.columns, (const device_matrix *[]){&l->fc1}, 1);
    record_product(r, &l->fc1, &in, all_rows, r->v->hidden, FINISH_RELU);
}

size_t record_divide(const recorder *r, uint32_t layer, const device_buffer *normed, portion out[PORTIONS])
{
    const device_layer *l = &r->s->engine->uploaded->layers[layer];
    const ffn_shape *f = &r->model->layers[layer].ffn;
    const device_vectors *v = r->v;
    size_t count = 0;
    portion own = {.gate = &l->gate,
                   .up = &l->up,
                   .down_t = &l->down_t,
                   .down = &l->down,
                   .shared_down = l->shared_count > 0 ? NULL : &l->shared.down,
                   .places = l->ranges ? l->ranges[2 * (size_t)l->router.rows] : 0,
                   .fc2 = &l->fc2,
                   .gate_bias = l->gate_bias,
                   .up_bias = l->up_bias,
                   .ranges = l->expert_ranges,
                   .owners = l->expert_owners,
                   .listed = v->listed,
                   .input = normed,
                   .threshold = f->threshold,
                   .width = l->shared_count > 0 ? l->own_width : l->width};
    portion shared = {.gate = &l->shared.gate,
                      .up = &l->shared.up,
                      .down_t = &l->shared.down_t,
                      .shared_down = &l->shared.down,
                      .fc2 = &l->shared.fc2,
                      .ranges = l->shared_ranges,
                      .owners = l->shared_owners,
                      .listed = v->shared_listed,
                      .input = normed,
                      .threshold = f->shared_threshold,
                      .width = l->shared_count,
                      .at = l->shared_at};
    if (l->latent_in.w && own.width > 0) {
        input in = record_prepare(r, normed, l->latent_in.columns, (const device_matrix *[]){&l->latent_in}, 1);
        record_product(r, &l->latent_in, &in, all_rows, v->apart, FINISH_STORE);
        own.input = v->apart;
    }
    if (l->experts_norm.weight && own.width > 0) {
        record_norm(r, &l->experts_norm, v->x, r->model->hyper.embedding_length, v->apart);
        own.input = v->apart;
    }
    if (own.width > 0)
        out[count++] = own;
    if (l->shared_count > 0)
        out[count++] = shared;
    return count;
}

/* Multiplies values of listed neurons by the shares of their experts. */
static void weigh(const recorder *r, const device_layer *l, const portion *p, const device_buffer *values,
                  row_list rows)
{
    LAUNCH(r, DEVICE_weigh, r->rows * items_of(l->width, ACTIVATE_NEURONS), OF_PORTION(p, values), LIST(rows),
           BUFFER(r->v->shares), BUFFER(p->owners), UINT(l->router.rows + 1), UINT(l->width));
}

row_list record_activations(const recorder *r, uint32_t layer, const portion *p)
{
    const device_layer *l = &r->s->engine->uploaded->layers[layer];
    const engine_layer *e = &r->s->engine->layers[layer];
    const device_vectors *v = r->v;
    const ffn_shape *f = &r->model->layers[layer].ffn;
    bool gated = f->gating != FFN_PLAIN, skips = selectors[e->selector].skips && ffn_skippable(f);
    const device_matrix *first = gated ? p->gate : p->up;
    const device_buffer *first_bias = gated ? p->gate_bias : p->up_bias;
    row_list rows = p->ranges ? neurons_of_chosen(r, layer, p) : all_rows;
    if (l->mask_in.w)
        rows = mask(r, layer, p, rows);
    if (e->selector == SELECTOR_LOW_RANK) {
        input hidden = record_prepare(r, v->hidden, p->fc2->columns, &p->fc2, 1);
        record_stack(r, p->fc2, p->width, &hidden, rows, (output){v->score, p->at, l->width}, FINISH_STORE);
        rows = filter(r, layer, p, rows, v->score, NULL, NULL, TOTAL_COMPUTED, RULE_FROM, e->threshold);
    }
    input in = record_prepare(r, p->input, first->columns, (const device_matrix *[]){p->gate, p->up}, 2);
    /* For one token that needs gate and up whole, one launch computes both; the results of up follow those of gate. */
    output own = {v->first, p->at, l->width}, others = {v->second, p->at, l->width};
    bool together = r->rows == 1 && gated && !skips && !rows.list && p->up->stack_rows == 0;
    size_t second_at = together ? stacked(l->neuron_count) : 0;
    if (together)
        record_stack(r, first, first->stack_rows, &in, rows, (output){v->first, 0, first->stack_rows}, FINISH_STORE);
    else
        record_stack(r, first, p->width, &in, rows, own, FINISH_STORE);
    if (f->cuts)
        LAUNCH(r, DEVICE_cut, r->rows, BUFFER(v->first), UINT(l->width), FLOAT(f->cut));
    if (skips) {
        rows = filter(r, layer, p, rows, v->first, first_bias, v->first, TOTAL_FIRED,
                      f->cuts ? RULE_BEYOND : RULE_ABOVE, p->threshold);
        first_bias = NULL; /* already added */
    }
    if (gated && !together)
        record_stack(r, p->up, p->width, &in, rows, others, FINISH_STORE);
    device_argument second = !gated     ? NO_BUFFER
                             : together ? BUFFER_FROM(v->first, second_at * sizeof(float))
                                        : OF_PORTION(p, v->second);
    bool weighs_input =
        p->ranges && f->router.weighs_input; /* a share multiplies the products with what it would multiply */
    for (int i = 0; weighs_input && i < (gated ? 2 : 1); i++)
        weigh(r, l, p, i == 0 ? v->first : v->second, rows);
    LAUNCH(r, DEVICE_activate, r->rows * items_of(l->width, ACTIVATE_NEURONS), OF_PORTION(p, v->first), second,
           BUFFER(first_bias), BUFFER(gated ? p->up_bias : NULL), LIST(rows), UINT(l->width),
           ACTIVATION_OF(f, record_gating[f->gating], p->threshold));
    if (skips && f->gating == FFN_GATED_BOTH)
        rows = filter(r, layer, p, rows, v->first, NULL, v->first, TOTAL_ACTIVE, RULE_ABOVE, 0);
    if (l->ffn_inner_norm.weight)
        LAUNCH(r, DEVICE_norm_neurons, r->rows, BUFFER(v->first), BUFFER(l->ffn_inner_norm.weight), LIST(rows),
               BUFFER(device_joins_norm(r->s, layer) ? v->squares : NULL), UINT(l->width),
               FLOAT(r->model->hyper.norm_epsilon));
    if (p->ranges && !weighs_input)
        weigh(r, l, p, v->first, rows);
    return rows;
}

/* Adds the biases of the chosen experts, of both sides, to a result. */
static void add_expert_biases(const recorder *r, const device_layer *l, block_result *result)
{
    const device_vectors *v = r->v;
    uint32_t d = r->model->hyper.embedding_length;
    LAUNCH(r, DEVICE_accumulate_f32, r->rows * items_of(d, ACCUMULATE_COLUMNS_ITEM), BUFFER(l->down_bias), NO_BUFFER,
           BUFFER(v->chosen), BUFFER(v->chosen_count), BUFFER(v->chosen_shares), BUFFER(v->added),
           UINT(l->router.rows + 1), UINT(d), UINT(1));
    block_result both = {result->sums, result->parts, NULL, v->added};
    record_reduce(r, &both, v->added, FINISH_STORE, 1);
    result->sums = v->added, result->parts = 1;
}

/* Accumulates a portion: sums [rows of the step][device_parts][columns of its down_t]. */
static void accumulate_rows(const recorder *r, const device_layer *l, const portion *p, row_list rows)
{
    uint32_t columns = p->down_t->columns, parts = device_parts(r->rows);
    if (record_in_tiles(r, rows)) {
        LAUNCH(r, device_kernel_of(OF_ACCUMULATE_MANY, p->down_t->format),
               items_of(r->rows, TILE_TOKENS) * parts * items_of(columns, TILE_ROWS), BUFFER(p->down_t->w),
               BUFFER(p->down_t->scales), OF_PORTION(p, r->v->first), BUFFER(r->v->sums), UINT(l->width), UINT(columns),
               UINT(parts));
        return;
    }
    LAUNCH(r, device_kernel_of(OF_ACCUMULATE, p->down_t->format),
           r->rows * parts * items_of(columns, ACCUMULATE_COLUMNS_ITEM), BUFFER(p->down_t->w),
           BUFFER(p->down_t->scales), LIST(rows), OF_PORTION(p, r->v->first), BUFFER(r->v->sums), UINT(l->width),
           UINT(columns), UINT(parts));
}

/* Accumulates a portion of a layer whose experts read and write vectors of another width. */
static void accumulate_apart(const recorder *r, const device_layer *l, const portion *p, row_list rows,
                             block_result *result)
{
    const device_vectors *v = r->v;
    uint32_t parts = device_parts(r->rows);
    accumulate_rows(r, l, p, rows);
    if (p->down_t == &l->down_t) { /* the chosen experts; they come first */
        uint32_t latent = l->latent_out.columns;
        LAUNCH(r, DEVICE_reduce, r->rows * items_of(latent, REDUCE_COLUMNS_ITEM), BUFFER(v->sums), NO_BUFFER, NO_BUFFER,
               BUFFER(v->apart), UINT(latent), UINT(parts), UINT(FINISH_STORE), FLOAT(1));
        record_output(r, &l->latent_out, v->apart, false);
        result->sums = v->added, result->parts = 1;
    } else if (result->sums) {
        record_reduce(r, &(block_result){v->sums, parts, NULL, NULL}, v->added, FINISH_ADD, 1);
    } else {
        result->sums = v->sums, result->parts = parts;
    }
}

/* Multiplies the activations of those of a portion's experts with places [from, to) that a token chose with their matrices. */
static void multiply_chosen(const recorder *r, const device_layer *l, const portion *p, const device_matrix *m,
                            const input *in, uint32_t from, uint32_t to, const device_buffer *y, unsigned finish)
{
    const device_vectors *v = r->v;
    uint32_t experts = l->router.rows + 1, d = r->model->hyper.embedding_length;
    size_t items = r->rows * items_of(d, PRODUCT_ROWS), block = p->at / Q8_BLOCK;
    if (in->rounded && number_is_block(m->format))
        LAUNCH(r, device_kernel_of(OF_PRODUCT_CHOSEN_8, m->format), items, BUFFER(m->w), BUFFER(m->scales),
               BUFFER(v->chosen), BUFFER(v->chosen_count), BUFFER(p->ranges), BUFFER_FROM(v->q8, p->at),
               BUFFER_FROM(v->q8_scales, block * sizeof(float)), BUFFER_FROM(v->q8_sums, block * sizeof(int32_t)),
               BUFFER(y), UINT(experts), UINT(from), UINT(to), UINT(d), UINT(m->columns), UINT(l->width), UINT(finish));
    else
        LAUNCH(r, device_kernel_of(OF_PRODUCT_CHOSEN, m->format), items, BUFFER(m->w), BUFFER(m->scales),
               BUFFER(v->chosen), BUFFER(v->chosen_count), BUFFER(p->ranges), OF_PORTION(p, in->values), BUFFER(y),
               UINT(experts), UINT(from), UINT(to), UINT(d), UINT(m->columns), UINT(l->width), UINT(finish));
}

/* Accumulates to y [rows of the step][d] the experts of a portion whose matrices lie as a file stores them: all neurons of those
 * that a token chose and the device has. */
static void accumulate_stock(const recorder *r, const device_layer *l, const portion *p, const device_buffer *y)
{
    const device_matrix none = {0}, *each[] = {p->down ? p->down : &none, p->shared_down ? p->shared_down : &none};
    input in = record_prepare(r, r->v->first, l->width, each, 2);
    if (each[0]->w)
        multiply_chosen(r, l, p, each[0], &in, 0, p->places, y, FINISH_STORE);
    if (each[1]->w)
        multiply_chosen(r, l, p, each[1], &in, p->places, UINT32_MAX, y, each[0]->w ? FINISH_ADD : FINISH_STORE);
}

/* Accumulates a portion of a layer whose experts lie beside a network: the sum of the experts goes to `added`, that of the
 * network to `apart`, which the experts have read by then. */
static void accumulate_beside(const recorder *r, const device_layer *l, const portion *p, row_list rows)
{
    const device_buffer *to = p->down_t == &l->down_t ? r->v->added : r->v->apart;
    if (!p->down_t->w) {
        accumulate_stock(r, l, p, to);
        return;
    }
    accumulate_rows(r, l, p, rows);
    record_reduce(r, &(block_result){r->v->sums, device_parts(r->rows), NULL, NULL}, to, FINISH_STORE, 1);
}

/* Accumulates a portion of a layer whose shared expert is apart for its limit alone: the sums of both are added up. */
static void accumulate_after(const recorder *r, const device_layer *l, const portion *p, row_list rows,
                             block_result *result)
{
    const device_vectors *v = r->v;
    block_result own = {v->sums, p->down_t->w ? device_parts(r->rows) : 1, NULL, NULL};
    if (p->down_t->w)
        accumulate_rows(r, l, p, rows);
    else
        accumulate_stock(r, l, p, v->sums);
    record_reduce(r, &own, v->added, result->sums ? FINISH_ADD : FINISH_STORE, 1);
    result->sums = v->added, result->parts = 1;
}

void record_accumulate(const recorder *r, uint32_t layer, const portion *p, row_list rows, block_result *result)
{
    const device_layer *l = &r->s->engine->uploaded->layers[layer];
    const device_vectors *v = r->v;
    if (l->experts_norm.weight) {
        accumulate_beside(r, l, p, rows);
        return;
    }
    if (l->latent_out.w) {
        accumulate_apart(r, l, p, rows, result);
        return;
    }
    if (l->shared_count > 0) {
        accumulate_after(r, l, p, rows, result);
        return;
    }
    if (!l->down_t.w && !l->router.w) {
        bool at_once = !l->ffn_post_norm.weight && r->model->hyper.residual_scale == 1;
        if (!record_output(r, &l->down, v->first, at_once))
            result->sums = v->added, result->parts = 1;
        return;
    }
    if (l->down_t.w) {
        accumulate_rows(r, l, p, rows);
        result->sums = v->sums, result->parts = device_parts(r->rows);
    } else {
        accumulate_stock(r, l, p, v->sums);
        result->sums = v->sums, result->parts = 1;
    }
    if (l->router.w && l->down_bias)
        add_expert_biases(r, l, result);
}

void record_join_norm(const recorder *r, uint32_t layer, block_result *result)
{
    const device_vectors *v = r->v;
    const hyperparameters *h = &r->model->hyper;
    record_copy_rows(r, v->answer_squares, r->mirror->answer_squares, 1);
    record_reduce(r, &(block_result){result->sums, result->parts, NULL, result->answer}, v->added, FINISH_STORE, 1);
    LAUNCH(r, DEVICE_norm_joined, r->rows, BUFFER(v->added), BUFFER(v->squares), BUFFER(v->answer_squares),
           UINT(h->embedding_length), UINT(r->model->layers[layer].ffn.neuron_count), FLOAT(h->norm_epsilon));
    *result = (block_result){v->added, 1, result->bias, NULL};
}

void record_join_beside(const recorder *r, uint32_t layer, block_result *result)
{
    const device_layer *l = &r->s->engine->uploaded->layers[layer];
    const device_vectors *v = r->v;
    uint32_t d = r->model->hyper.embedding_length;
    bool split = r->s->engine->layers[layer].form == FORM_SPLIT;
    const struct {
        bool there; /* the device has neurons of it, whose sum is in `to` */
        const device_buffer *to, *answer;
    } each[] = {{l->neuron_count > l->shared_count, v->added, split ? v->answer : NULL},
                {l->shared_count > 0, v->apart, split ? v->shared_answer : NULL}};
    for (size_t i = 0; split && i < 2; i++)
        record_reduce(r, &(block_result){each[i].there ? each[i].to : NULL, each[i].there, NULL, each[i].answer},
                      each[i].to, FINISH_STORE, 1);
    record_norm(r, &l->experts_post_norm, v->added, d, v->added);
    record_norm_ranges(r, &l->shared_post_norm, (ranges){v->apart, 0, 1, d, d}, v->added, FINISH_ADD, 1);
    *result = (block_result){v->added, 1, NULL, NULL};
}
