/* device_record.c - records what the device does in a step.
 *
 * The steps are those of the CPU (forward.c, ffn.c), expressed in kernels of device/kernels/kernels.h, with the copies
 * and exchanges between the sides (docs/hybrid.md). Sparse layers work on lists that never leave the device. */
#include "device_state.h"

#include <float.h>
#include <math.h>

_Static_assert(EXPERT_LIMIT == MOST_EXPERTS, "what a layer can have, a device can choose from");

typedef struct recorder {
    device_program *program;
    const hearth_session *s;
    const hearth_model *model;
    const device_session *ds;
    const device_vectors *v;
    const device_mirror *mirror;
    size_t rows; /* most rows of the step: 1 or STEP_ROWS */
    bool observed, traced;
} recorder;

/* Launches a kernel; its first argument is always the step record. */
#define LAUNCH(r, kernel, items, ...)                                                                  \
    device_launch((r)->program, kernel, items, (device_argument[]){BUFFER((r)->v->step), __VA_ARGS__}, \
                  sizeof((device_argument[]){BUFFER((r)->v->step), __VA_ARGS__}) / sizeof(device_argument))

/* Notes the time of a moment of a layer, if the session is traced. */
static void stamp(const recorder *r, uint32_t layer, unsigned moment)
{
    if (r->traced)
        device_stamp(r->program, STAMP(layer, moment));
}

/* Copies the rows of a step, `width` floats each, from one side to the other. */
static void copy_rows(const recorder *r, device_buffer *to, const device_buffer *from, size_t width)
{
    device_copy(r->program, to, 0, from, 0, r->rows * width * sizeof(float));
}

/* ------------------------------------------------------------------ products */

/* A list of rows for each token, which begins at value `at` of a row of the buffer; NULL: all rows. */
typedef struct row_list {
    const device_buffer *list, *listed;
    size_t at;
} row_list;

#define LIST(rows) BUFFER_FROM((rows).list, (rows).at * sizeof(uint32_t)), BUFFER((rows).listed)

/* The vectors that matrices are multiplied with. rounded: q8 holds them in 8 bits. */
typedef struct input {
    const device_buffer *values;
    bool rounded;
} input;

/* Prepares an input; rounds it if one of the matrices is read in 8 bits, as products.c does on the CPU. */
static input prepare(const recorder *r, const device_buffer *values, size_t columns, const device_matrix *const *m,
                     size_t count)
{
    input in = {values, false};
    for (size_t i = 0; i < count; i++)
        in.rounded |= m[i]->w && number_is_block(m[i]->format);
    in.rounded &= r->s->engine->activations == HEARTH_ACTIVATIONS_AUTO;
    if (in.rounded)
        LAUNCH(r, DEVICE_quantize, items_of(r->rows * columns / 32, QUANTIZE_BLOCKS), BUFFER(values), BUFFER(r->v->q8),
               BUFFER(r->v->q8_scales), BUFFER(r->v->q8_sums), UINT(columns));
    return in;
}

/* Where the results of a product go: y [rows of the step][stride], beginning at column `at`. */
typedef struct output {
    const device_buffer *y;
    size_t at, stride; /* both in values; at is a multiple of STACK_ROWS */
} output;

/* Multiplies with the first `count` rows of the stack that begins with m. */
static void product_stack(const recorder *r, const device_matrix *m, uint32_t count, const input *in, row_list rows,
                          output out, unsigned finish)
{
    size_t items = items_of(count, PRODUCT_ROWS);
    device_argument w = BUFFER_FROM(m->w, m->w_at), scales = BUFFER_FROM(m->scales, m->scales_at);
    device_argument y = BUFFER_FROM(out.y, out.at * sizeof(float));
    if (in->rounded && number_is_block(m->format))
        LAUNCH(r, device_product_8(m->format), items, w, scales, LIST(rows), BUFFER(r->v->q8), BUFFER(r->v->q8_scales),
               BUFFER(r->v->q8_sums), y, UINT(count), UINT(m->columns), UINT(out.stride), UINT(finish));
    else
        LAUNCH(r, device_product(m->format), items, w, scales, LIST(rows), BUFFER(in->values), y, UINT(count),
               UINT(m->columns), UINT(out.stride), UINT(finish));
}

/* Multiplies with one matrix: y [rows of the step][m->rows]. */
static void product(const recorder *r, const device_matrix *m, const input *in, row_list rows, const device_buffer *y,
                    unsigned finish)
{
    product_stack(r, m, m->rows, in, rows, (output){y, 0, m->rows}, finish);
}

static const row_list all_rows = {NULL, NULL, 0};

/* ------------------------------------------------------------------ norms and blocks */

/* Ranges of the rows of a buffer: `count` neighbouring ones of `length` values in every row, from value `at` on; rows
 * are `stride` values apart. */
typedef struct ranges {
    const device_buffer *of;
    size_t at;
    uint32_t count, length, stride;
} ranges;

static const device_norm no_norm = {NULL, NULL};

/* Norms each range, without weights if they are NULL, and stores factor times the result at the same place of `to`, or adds it there. */
static void norm_ranges(const recorder *r, const device_norm *w, ranges x, const device_buffer *to, unsigned finish,
                        float factor)
{
    const hyperparameters *h = &r->model->hyper;
    LAUNCH(r, DEVICE_norm_ranges, r->rows * x.count, BUFFER_FROM(x.of, x.at * sizeof(float)), BUFFER(w->weight),
           BUFFER(w->bias), BUFFER_FROM(to, x.at * sizeof(float)), UINT(x.count), UINT(x.length), UINT(x.stride),
           UINT(h->norm == NORM_LAYER), UINT(finish), FLOAT(h->norm_epsilon), FLOAT(factor));
}

/* Norms whole rows of `width` values. */
static void norm(const recorder *r, const device_norm *w, const device_buffer *from, uint32_t width,
                 const device_buffer *to)
{
    const hyperparameters *h = &r->model->hyper;
    if (h->norm == NORM_RMS)
        LAUNCH(r, DEVICE_norm, r->rows, BUFFER(from), BUFFER(w->weight), BUFFER(to), UINT(width),
               FLOAT(h->norm_epsilon));
    else
        norm_ranges(r, w, (ranges){from, 0, 1, width, width}, to, FINISH_STORE, 1);
}

/* Norms the residual stream for a block. Returns the block's input: without a norm, the residual stream itself. */
static const device_buffer *norm_input(const recorder *r, const device_norm *w)
{
    if (!w->weight)
        return r->v->x;
    norm(r, w, r->v->x, r->model->hyper.embedding_length, r->v->normed);
    return r->v->normed;
}

/* What a block computed: the sum of all `parts` of sums [rows of the step][parts][d], the bias, and the answer of the
 * CPU; NULL (and parts 0): there is none. */
typedef struct block_result {
    const device_buffer *sums;
    uint32_t parts;
    const device_buffer *bias, *answer;
} block_result;

/* Adds the result of a block, or stores it in `to`. */
static void reduce(const recorder *r, const block_result *b, const device_buffer *to, unsigned finish, float factor)
{
    uint32_t d = r->model->hyper.embedding_length;
    LAUNCH(r, DEVICE_reduce, r->rows * items_of(d, REDUCE_COLUMNS_ITEM), BUFFER(b->sums), BUFFER(b->bias),
           BUFFER(b->answer), BUFFER(to), UINT(d), UINT(b->parts), UINT(finish), FLOAT(factor));
}

/* Adds the result of a block to the residual stream, after its post norm. */
static void add_to_residual(const recorder *r, const device_norm *post, block_result b)
{
    const hyperparameters *h = &r->model->hyper;
    uint32_t d = h->embedding_length;
    if (!post->weight) {
        reduce(r, &b, r->v->x, FINISH_ADD, h->residual_scale);
        return;
    }
    if (b.sums != r->v->added || b.bias || b.answer)
        reduce(r, &b, r->v->added, FINISH_STORE, 1);
    norm_ranges(r, post, (ranges){r->v->added, 0, 1, d, d}, r->v->x, FINISH_ADD, h->residual_scale);
}

/* Multiplies the values with the output matrix of a block. The result is added to the residual stream at once, or it is
 * in `added`; returns at_once. */
static bool multiply_output(const recorder *r, const device_matrix *m, const device_buffer *values, bool at_once)
{
    input in = prepare(r, values, m->columns, &m, 1);
    product(r, m, &in, all_rows, at_once ? r->v->x : r->v->added, at_once ? FINISH_ADD : FINISH_STORE);
    return at_once;
}

/* ------------------------------------------------------------------ attention */

/* Norms queries (or keys), which begin at value `at` of the rows of projected: each head alone, or all together. */
static void norm_heads(const recorder *r, const device_norm *w, const attention_shape *a, uint32_t heads, size_t at,
                       size_t stride)
{
    uint32_t count = a->norm_whole ? 1 : heads, length = a->norm_whole ? heads * a->head_length : a->head_length;
    if (w->weight)
        norm_ranges(r, w, (ranges){r->v->projected, at, count, length, (uint32_t)stride}, r->v->projected, FINISH_STORE,
                    1);
}

/* Multiplies the input of a layer's mixer with the matrices that read it. */
static mixer_row project(const recorder *r, uint32_t layer)
{
    const device_layer *l = &r->s->engine->uploaded->layers[layer];
    mixer_row row = device_mixer_row(&r->model->layers[layer]);
    const device_matrix *inputs[MIXER_INPUTS];
    for (unsigned i = 0; i < MIXER_INPUTS; i++)
        inputs[i] = &l->inputs[i];
    const device_buffer *normed = norm_input(r, &l->attention_norm);
    input in = prepare(r, normed, r->model->hyper.embedding_length, inputs, MIXER_INPUTS);
    for (unsigned i = 0; i < MIXER_INPUTS; i++)
        if (inputs[i]->stack_rows > 0)
            product_stack(r, inputs[i], inputs[i]->stack_rows, &in, all_rows,
                          (output){r->v->projected, row.at[i], row.stride}, FINISH_STORE);
    return row;
}

/* Records the attention of a layer up to its output matrix. */
static void attention(const recorder *r, uint32_t layer)
{
    const device_layer *l = &r->s->engine->uploaded->layers[layer];
    const device_vectors *v = r->v;
    const attention_shape *a = &r->model->layers[layer].attention;
    const kv_format_row *kv = &kv_formats[r->s->cache.format];
    cached_layer at = device_cache_layer(r->s, r->s->engine->layers[layer].cache_index);
    size_t keys = at.begin, values = at.begin + at.half_bytes;
    size_t first_angle = a->rotary ? a->rotary->first : 0;
    size_t cosine = STEP_ANGLES + STEP_ROWS * first_angle * sizeof(float);
    size_t sine = cosine + STEP_ROWS * (size_t)model_largest(r->model).rotated * sizeof(float);
    size_t splits = items_of(r->s->context, ATTEND_POSITIONS);
    uint32_t own_keys = a->keys_back > 0 ? 0 : a->kv_head_count; /* heads; else another layer has stored them */

    mixer_row row = project(r, layer);
    size_t key_at = row.at[MIXER_KEY], value_at = row.at[MIXER_VALUE], stride = row.stride;
    if (l->qkv_bias)
        LAUNCH(r, DEVICE_reduce, r->rows * items_of(stride, REDUCE_COLUMNS_ITEM), NO_BUFFER, BUFFER(l->qkv_bias),
               NO_BUFFER, BUFFER(v->projected), UINT(stride), UINT(0), UINT(FINISH_ADD), FLOAT(1));
    norm_heads(r, &l->query_norm, a, a->head_count, 0, stride);
    if (a->keys_back == 0)
        norm_heads(r, &l->key_norm, a, own_keys, key_at, stride);
    if (a->keys_back == 0 && a->norm_values)
        norm_ranges(r, &no_norm, (ranges){v->projected, value_at, own_keys, a->head_length, (uint32_t)stride},
                    v->projected, FINISH_STORE, 1);
    LAUNCH(r, kv->place, r->rows * (a->head_count + own_keys), BUFFER(v->projected),
           BUFFER_FROM(v->projected, key_at * sizeof(float)), BUFFER_FROM(v->projected, value_at * sizeof(float)),
           BUFFER_FROM(v->step, cosine), BUFFER_FROM(v->step, sine), BUFFER_FROM(v->cache, keys),
           BUFFER_FROM(v->cache, values), UINT(a->head_count), UINT(own_keys), UINT(a->head_length),
           UINT(a->rotary ? a->rotary->pairs : 0), UINT(a->rotary && a->rotary->pairing == ROPE_HALVES),
           UINT(r->s->context), UINT(stride), UINT(stride));
    LAUNCH(r, kv->attend, r->rows * ATTEND_ITEMS(a->head_count, a->kv_head_count, splits), BUFFER(v->projected),
           BUFFER_FROM(v->cache, keys), BUFFER_FROM(v->cache, values), BUFFER(v->partial), UINT(a->head_count),
           UINT(a->kv_head_count), UINT(a->head_length), UINT(r->s->context), UINT(a->window), UINT(splits),
           UINT(stride), FLOAT(a->scale), FLOAT(a->softcap));
    device_argument gates = a->gated ? BUFFER_FROM(v->projected, row.at[MIXER_GATE] * sizeof(float)) : NO_BUFFER;
    LAUNCH(r, DEVICE_attend_join, r->rows * a->head_count, BUFFER(v->partial), BUFFER(l->sinks), gates,
           BUFFER(v->mixed), UINT(a->head_count), UINT(a->head_length), UINT(splits), UINT(stride));
    if (l->attention_inner_norm.weight)
        norm(r, &l->attention_inner_norm, v->mixed, query_width(a), v->mixed);
}

/* Records a recurrent mixer up to its output matrix (recurrent_shape in model/layer.h). */
static void recurrent_mixer(const recorder *r, uint32_t layer)
{
    const device_layer *l = &r->s->engine->uploaded->layers[layer];
    const device_vectors *v = r->v;
    const recurrent_states *states = &r->ds->recurrent;
    const recurrent_shape *shape = &r->model->layers[layer].recurrent;
    bool delta = shape->rule == RECURRENCE_DELTA;
    uint32_t keys = shape->key_count, n = shape->key_length, width = recurrent_width(shape);
    size_t begin = states->layers[r->s->engine->layers[layer].cache_index].begin;
    size_t inputs_begin = begin + recurrent_inputs_at(shape);

    mixer_row row = project(r, layer);
    device_argument x = BUFFER_FROM(v->projected, row.at[MIXER_CONVOLVED] * sizeof(float));
    device_argument gates = BUFFER_FROM(v->projected, row.at[MIXER_SILU_GATE] * sizeof(float));
    device_argument steps = BUFFER_FROM(v->projected, row.at[MIXER_STEP] * sizeof(float));
    device_argument betas = delta ? BUFFER_FROM(v->projected, row.at[MIXER_BETA] * sizeof(float)) : NO_BUFFER;
    uint32_t channels = recurrent_channels(shape), stride = (uint32_t)row.stride, length = (uint32_t)states->length;
    LAUNCH(r, DEVICE_convolve, items_of(channels, CONVOLVE_CHANNELS), x, BUFFER(l->convolution),
           BUFFER(l->convolution_bias), BUFFER_FROM(v->states, inputs_begin * sizeof(float)), UINT(channels),
           UINT(shape->window), UINT(stride), UINT(length));
    if (delta) /* scales queries and keys to a length of 1; a norm by the root of the mean square would give sqrt(n) */
        LAUNCH(r, DEVICE_norm_ranges, r->rows * 2 * keys, x, NO_BUFFER, NO_BUFFER, x, UINT(2 * keys), UINT(n),
               UINT(stride), UINT(0), UINT(FINISH_STORE), FLOAT(1e-6f / (float)n), FLOAT(1 / sqrtf((float)n)));
    LAUNCH(r, DEVICE_recur, shape->head_count * items_of(shape->value_length, RECUR_ROWS), x, steps, betas,
           BUFFER(l->step_bias), BUFFER(l->decay), BUFFER(l->skip), BUFFER_FROM(v->states, begin * sizeof(float)),
           BUFFER(v->mixed), UINT(shape->head_count), UINT(shape->value_length), UINT(keys), UINT(n), UINT(delta),
           UINT(stride), UINT(length), FLOAT(delta ? 1 / sqrtf((float)n) : 1));
    uint32_t normed = delta ? shape->head_count : keys;
    LAUNCH(r, DEVICE_norm_gated, r->rows * normed, BUFFER(v->mixed), gates, BUFFER(l->recurrent_norm), UINT(normed),
           UINT(width / normed), UINT(stride), UINT(!delta), FLOAT(r->model->hyper.norm_epsilon));
}

static void no_mixer(const recorder *r, uint32_t layer)
{
    (void)r, (void)layer;
}

/* Record a mixer up to its output matrix. */
static void (*const mixers[MIXER_COUNT])(const recorder *r, uint32_t layer) = {
    [MIXER_NONE] = no_mixer, [MIXER_ATTENTION] = attention, [MIXER_RECURRENT] = recurrent_mixer};

/* Multiplies the result of a mixer with its output matrix and adds it to the residual stream. */
static void mixer_output(const recorder *r, uint32_t layer)
{
    const device_layer *l = &r->s->engine->uploaded->layers[layer];
    const device_norm *post = &l->attention_post_norm;
    bool at_once = !post->weight && !l->attention_output_bias && r->model->hyper.residual_scale == 1;
    if (!l->mixer_output.w)
        return;
    if (!multiply_output(r, &l->mixer_output, r->v->mixed, at_once))
        add_to_residual(r, post, (block_result){r->v->added, 1, l->attention_output_bias, NULL});
}

/* ------------------------------------------------------------------ neurons */

/* Neurons of a layer that are computed together: all of the device; or, where experts read vectors of another width than the
 * shared one, those of the chosen experts, and those of the shared one. */
typedef struct portion {
    const device_matrix *gate, *up, *down_t, *fc2;
    const device_buffer *gate_bias, *up_bias;
    const device_buffer *begins;  /* of the neurons of each expert; NULL: there are none          */
    device_buffer *const *listed; /* [TOTALS]                                                     */
    const device_buffer *input;
    uint32_t width; /* the most neurons that a token uses                           */
    size_t at;      /* where they begin in a row of lists, scores and activations   */
} portion;

#define PORTIONS 2

/* The values of a portion in a buffer of lists, scores or activations. */
#define OF_PORTION(p, buffer) BUFFER_FROM(buffer, (p)->at * sizeof(float))

/* Keeps in a list (or of all rows) what passes the rule; adds the number to `column` of the totals of the layer. */
static row_list filter(const recorder *r, uint32_t layer, const portion *p, row_list from, const device_buffer *values,
                       const device_buffer *bias, const device_buffer *selected, unsigned column, unsigned rule,
                       float threshold)
{
    const device_vectors *v = r->v;
    row_list to = {v->lists[column], p->listed[column], p->at};
    size_t totals = (size_t)layer * STEP_ROWS * TOTALS * sizeof(uint32_t);
    LAUNCH(r, DEVICE_compact, r->rows, OF_PORTION(p, values), BUFFER(bias), LIST(from), LIST(to),
           selected ? OF_PORTION(p, selected) : NO_BUFFER, BUFFER_FROM(v->totals, totals),
           UINT(r->s->engine->uploaded->layers[layer].width), UINT(rule), UINT(column), FLOAT(threshold));
    return to;
}

/* Chooses the experts of each token. from: what the router reads. */
static void route(const recorder *r, uint32_t layer, const device_buffer *from)
{
    const device_layer *l = &r->s->engine->uploaded->layers[layer];
    const router_shape *router = &r->model->layers[layer].ffn.router;
    const device_vectors *v = r->v;
    uint32_t experts = router->expert_count;
    input in = prepare(r, from, l->router.columns, (const device_matrix *[]){&l->router}, 1);
    product(r, &l->router, &in, all_rows, v->router, FINISH_STORE);
    if (l->shared_gate.w)
        product(r, &l->shared_gate, &in, all_rows, v->shared_gate, FINISH_STORE);
    LAUNCH(r, DEVICE_route, r->rows, BUFFER(v->router), BUFFER(l->router_bias), BUFFER(l->router_correction),
           BUFFER(l->shared_gate.w ? v->shared_gate : NULL), BUFFER(v->shares), UINT(experts), UINT(router->used),
           UINT(router->group_count), UINT(router->group_used), UINT(router->scoring == ROUTER_SIGMOID),
           UINT(router->shares), FLOAT(router->scale), FLOAT(r->model->layers[layer].ffn.shared_neurons > 0));
    LAUNCH(r, DEVICE_compact, r->rows, BUFFER(v->shares), NO_BUFFER, NO_BUFFER, NO_BUFFER, BUFFER(v->chosen),
           BUFFER(v->chosen_count), BUFFER(v->chosen_shares), NO_BUFFER, UINT(experts + 1), UINT(RULE_FROM), UINT(0),
           FLOAT(FLT_MIN)); /* so that NaN is chosen, and seen in the result */
}

/* Lists the rows of the chosen experts: those between their `begins`. totals NULL: they are not counted. */
static void expand(const recorder *r, uint32_t layer, const device_buffer *begins, row_list to, uint32_t width,
                   const device_buffer *totals)
{
    size_t at = (size_t)layer * STEP_ROWS * TOTALS * sizeof(uint32_t);
    LAUNCH(r, DEVICE_expand, r->rows, BUFFER(r->v->chosen), BUFFER(r->v->chosen_count), BUFFER(begins), LIST(to),
           totals ? BUFFER_FROM(totals, at) : NO_BUFFER, UINT(r->s->engine->uploaded->layers[layer].router.rows + 1),
           UINT(width), UINT(TOTAL_COMPUTED));
}

/* Lists the neurons of the chosen experts. Those that scores will choose from are counted later. */
static row_list neurons_of_chosen(const recorder *r, uint32_t layer, const portion *p)
{
    const device_layer *l = &r->s->engine->uploaded->layers[layer];
    row_list to = {r->v->lists[TOTAL_COMPUTED], p->listed[TOTAL_COMPUTED], p->at};
    expand(r, layer, p->begins, to, l->width, device_scores(r->s, layer) ? NULL : r->v->totals);
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
    expand(r, layer, l->mask_begins, units, width, NULL);
    input in = prepare(r, p->input, l->mask_in.columns, (const device_matrix *[]){&l->mask_in}, 1);
    product_stack(r, &l->mask_in, width, &in, units, (output){v->hidden, 0, width}, FINISH_RELU);
    LAUNCH(r, device_score(l->mask_out.format), items_of(l->width, PRODUCT_ROWS), BUFFER(l->mask_out.w),
           BUFFER(l->mask_out.scales), LIST(rows), BUFFER(v->chosen), BUFFER(l->expert_begins), BUFFER(v->hidden),
           BUFFER(v->score), UINT(l->router.rows + 1), UINT(used), UINT(l->width), UINT(l->mask_out.columns));
    return filter(r, layer, p, rows, v->score, NULL, NULL, TOTAL_COMPUTED, RULE_FROM, FLT_MIN); /* NaN passes */
}

/* Computes hidden = relu(fc1 . input); normed: the input of the network. */
static void predict(const recorder *r, uint32_t layer, const device_buffer *normed)
{
    const device_layer *l = &r->s->engine->uploaded->layers[layer];
    bool reads_normed = r->s->engine->layers[layer].predictor.reads_normed;
    input in = prepare(r, reads_normed ? normed : r->v->x, l->fc1.columns, (const device_matrix *[]){&l->fc1}, 1);
    product(r, &l->fc1, &in, all_rows, r->v->hidden, FINISH_RELU);
}

static const unsigned kind_of[ACTIVATION_COUNT] = {
    [ACTIVATION_SILU] = KIND_SILU,           [ACTIVATION_RELU] = KIND_RELU,
    [ACTIVATION_RELU2] = KIND_RELU2,         [ACTIVATION_GELU] = KIND_GELU,
    [ACTIVATION_GELU_TANH] = KIND_GELU_TANH, [ACTIVATION_SWIGLU_CLAMPED] = KIND_SWIGLU_CLAMPED};

static const unsigned gating_of[] = {
    [FFN_GATED] = GATING_GATED, [FFN_GATED_BOTH] = GATING_BOTH, [FFN_PLAIN] = GATING_PLAIN};

/* Divides the neurons of the device into portions; returns how many there are. normed: the input of the network. */
static size_t divide(const recorder *r, uint32_t layer, const device_buffer *normed, portion out[PORTIONS])
{
    const device_layer *l = &r->s->engine->uploaded->layers[layer];
    const device_vectors *v = r->v;
    size_t count = 0;
    portion own = {.gate = &l->gate,
                   .up = &l->up,
                   .down_t = &l->down_t,
                   .fc2 = &l->fc2,
                   .gate_bias = l->gate_bias,
                   .up_bias = l->up_bias,
                   .begins = l->expert_begins,
                   .listed = v->listed,
                   .input = normed,
                   .width = l->shared_count > 0 ? l->own_width : l->width};
    portion shared = {.gate = &l->shared.gate,
                      .up = &l->shared.up,
                      .down_t = &l->shared.down_t,
                      .fc2 = &l->shared.fc2,
                      .begins = l->shared_begins,
                      .listed = v->shared_listed,
                      .input = normed,
                      .width = l->shared_count,
                      .at = l->shared_at};
    if (l->latent_in.w && own.width > 0) {
        input in = prepare(r, normed, l->latent_in.columns, (const device_matrix *[]){&l->latent_in}, 1);
        product(r, &l->latent_in, &in, all_rows, v->latent, FINISH_STORE);
        own.input = v->latent;
    }
    if (own.width > 0)
        out[count++] = own;
    if (l->shared_count > 0)
        out[count++] = shared;
    return count;
}

/* Selects and gathers: writes the activations of a portion to `first`; returns their list. */
static row_list activations(const recorder *r, uint32_t layer, const portion *p)
{
    const device_layer *l = &r->s->engine->uploaded->layers[layer];
    const engine_layer *e = &r->s->engine->layers[layer];
    const device_vectors *v = r->v;
    const ffn_shape *f = &r->model->layers[layer].ffn;
    bool gated = f->gating != FFN_PLAIN, skips = selectors[e->selector].skips && ffn_skippable(f);
    const device_matrix *first = gated ? p->gate : p->up;
    const device_buffer *first_bias = gated ? p->gate_bias : p->up_bias;
    row_list rows = p->begins ? neurons_of_chosen(r, layer, p) : all_rows;
    if (l->mask_in.w)
        rows = mask(r, layer, p, rows);
    if (e->selector == SELECTOR_LOW_RANK) {
        input hidden = prepare(r, v->hidden, p->fc2->columns, &p->fc2, 1);
        product_stack(r, p->fc2, p->width, &hidden, rows, (output){v->score, p->at, l->width}, FINISH_STORE);
        rows = filter(r, layer, p, rows, v->score, NULL, NULL, TOTAL_COMPUTED, RULE_FROM, e->threshold);
    }
    input in = prepare(r, p->input, first->columns, (const device_matrix *[]){p->gate, p->up}, 2);
    /* For one token that needs gate and up whole, one launch computes both; the results of up follow those of gate. */
    output own = {v->first, p->at, l->width}, others = {v->second, p->at, l->width};
    bool together = r->rows == 1 && gated && !skips && !rows.list && p->up->stack_rows == 0;
    size_t second_at = together ? stacked(l->neuron_count) : 0;
    if (together)
        product_stack(r, first, first->stack_rows, &in, rows, (output){v->first, 0, first->stack_rows}, FINISH_STORE);
    else
        product_stack(r, first, p->width, &in, rows, own, FINISH_STORE);
    if (skips) {
        rows = filter(r, layer, p, rows, v->first, first_bias, v->first, TOTAL_FIRED, RULE_ABOVE, f->threshold);
        first_bias = NULL; /* already added */
    }
    if (gated && !together)
        product_stack(r, p->up, p->width, &in, rows, others, FINISH_STORE);
    device_argument second = !gated     ? NO_BUFFER
                             : together ? BUFFER_FROM(v->first, second_at * sizeof(float))
                                        : OF_PORTION(p, v->second);
    LAUNCH(r, DEVICE_activate, r->rows * items_of(l->width, ACTIVATE_NEURONS), OF_PORTION(p, v->first), second,
           BUFFER(first_bias), BUFFER(gated ? p->up_bias : NULL), LIST(rows), UINT(l->width),
           UINT(kind_of[ffn_activations[f->activation].kernel]), UINT(gating_of[f->gating]), FLOAT(f->threshold));
    if (skips && f->gating == FFN_GATED_BOTH)
        rows = filter(r, layer, p, rows, v->first, NULL, v->first, TOTAL_ACTIVE, RULE_ABOVE, 0);
    if (l->ffn_inner_norm.weight)
        LAUNCH(r, DEVICE_norm_neurons, r->rows, BUFFER(v->first), BUFFER(l->ffn_inner_norm.weight), LIST(rows),
               BUFFER(device_joins_norm(r->s, layer) ? v->squares : NULL), UINT(l->width),
               FLOAT(r->model->hyper.norm_epsilon));
    if (p->begins)
        LAUNCH(r, DEVICE_weigh, r->rows * items_of(l->width, ACTIVATE_NEURONS), OF_PORTION(p, v->first), LIST(rows),
               BUFFER(v->shares), BUFFER(p->begins), UINT(l->router.rows + 1), UINT(l->width));
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
    reduce(r, &both, v->added, FINISH_STORE, 1);
    result->sums = v->added, result->parts = 1;
}

/* Accumulates a portion: sums [rows of the step][DEVICE_PARTS][columns of its down_t]. */
static void accumulate_rows(const recorder *r, const device_layer *l, const portion *p, row_list rows)
{
    uint32_t columns = p->down_t->columns;
    LAUNCH(r, device_accumulate(p->down_t->format), r->rows * DEVICE_PARTS * items_of(columns, ACCUMULATE_COLUMNS_ITEM),
           BUFFER(p->down_t->w), BUFFER(p->down_t->scales), LIST(rows), OF_PORTION(p, r->v->first), BUFFER(r->v->sums),
           UINT(l->width), UINT(columns), UINT(DEVICE_PARTS));
}

/* Accumulates a portion of a layer whose experts read and write vectors of another width. */
static void accumulate_apart(const recorder *r, const device_layer *l, const portion *p, row_list rows,
                             block_result *result)
{
    const device_vectors *v = r->v;
    accumulate_rows(r, l, p, rows);
    if (p->down_t == &l->down_t) { /* the chosen experts; they come first */
        uint32_t latent = l->latent_out.columns;
        LAUNCH(r, DEVICE_reduce, r->rows * items_of(latent, REDUCE_COLUMNS_ITEM), BUFFER(v->sums), NO_BUFFER, NO_BUFFER,
               BUFFER(v->latent), UINT(latent), UINT(DEVICE_PARTS), UINT(FINISH_STORE), FLOAT(1));
        multiply_output(r, &l->latent_out, v->latent, false);
        result->sums = v->added, result->parts = 1;
    } else if (result->sums) {
        reduce(r, &(block_result){v->sums, DEVICE_PARTS, NULL, NULL}, v->added, FINISH_ADD, 1);
    } else {
        result->sums = v->sums, result->parts = DEVICE_PARTS;
    }
}

/* Accumulates a portion of the neurons of the device. Sets `sums` of the result, unless it was added to the residual
 * stream. */
static void accumulate(const recorder *r, const device_layer *l, const portion *p, row_list rows, block_result *result)
{
    const device_vectors *v = r->v;
    if (l->latent_out.w) {
        accumulate_apart(r, l, p, rows, result);
        return;
    }
    if (!l->down_t.w) {
        bool at_once = !l->ffn_post_norm.weight && r->model->hyper.residual_scale == 1;
        if (!multiply_output(r, &l->down, v->first, at_once))
            result->sums = v->added, result->parts = 1;
        return;
    }
    accumulate_rows(r, l, p, rows);
    result->sums = v->sums, result->parts = DEVICE_PARTS;
    if (l->router.w && l->down_bias)
        add_expert_biases(r, l, result);
}

/* Divides what both sides have summed by the norm of their activations. */
static void join_norm(const recorder *r, uint32_t layer, block_result *result)
{
    const device_vectors *v = r->v;
    const hyperparameters *h = &r->model->hyper;
    copy_rows(r, v->answer_squares, r->mirror->answer_squares, 1);
    reduce(r, &(block_result){result->sums, result->parts, NULL, result->answer}, v->added, FINISH_STORE, 1);
    LAUNCH(r, DEVICE_norm_joined, r->rows, BUFFER(v->added), BUFFER(v->squares), BUFFER(v->answer_squares),
           UINT(h->embedding_length), UINT(r->model->layers[layer].ffn.neuron_count), FLOAT(h->norm_epsilon));
    *result = (block_result){v->added, 1, result->bias, NULL};
}

/* Publishes the input of the CPU's neurons. What observers need is copied here too, since these buffers must not be
 * written again while the CPU reads them. */
static void publish_input(const recorder *r, uint32_t layer, const device_buffer *normed)
{
    const device_layer *l = &r->s->engine->uploaded->layers[layer];
    uint32_t d = r->model->hyper.embedding_length;
    bool sends = device_sends_hidden(r->s, layer), predicts = r->s->engine->layers[layer].selector == SELECTOR_LOW_RANK;
    copy_rows(r, r->mirror->normed, normed, d);
    if (sends)
        copy_rows(r, r->mirror->hidden, r->v->hidden, l->fc1.rows);
    if (r->observed || (predicts && !sends))
        copy_rows(r, r->mirror->x, r->v->x, d);
    if (l->router.w)
        copy_rows(r, r->mirror->shares, r->v->shares, l->router.rows + 1);
    device_publish(r->program, SLOT_NEURONS(layer));
}

/* Copies to the host what observers see of a layer and waits until they are done. */
static void stop_for_observer(const recorder *r, uint32_t layer, const device_buffer *normed)
{
    uint32_t n = r->s->engine->uploaded->layers[layer].width, d = r->model->hyper.embedding_length;
    if (r->s->engine->layers[layer].form == FORM_DEVICE) { /* else publish_input has copied them */
        copy_rows(r, r->mirror->x, r->v->x, d);
        copy_rows(r, r->mirror->normed, normed, d);
    }
    copy_rows(r, r->mirror->first, r->v->first, n);
    if (device_joins_norm(r->s, layer))
        copy_rows(r, r->mirror->squares, r->v->squares, 1);
    for (unsigned i = 0; i < TOTALS; i++) {
        copy_rows(r, r->mirror->lists[i], r->v->lists[i], n);
        copy_rows(r, r->mirror->listed[i], r->v->listed[i], 1);
        copy_rows(r, r->mirror->shared_listed[i], r->v->shared_listed[i], 1);
    }
    device_publish(r->program, SLOT_OBSERVED(layer));
    device_await(r->program, SLOT_OBSERVED(layer));
}

/* Norms the input of the feed-forward network and returns it. In a layer whose blocks are parallel, networks without a
 * norm of their own read the input of attention. */
static const device_buffer *ffn_input(const recorder *r, uint32_t layer)
{
    const model_layer *m = &r->model->layers[layer];
    bool shared = m->wiring == WIRING_PARALLEL && m->ffn_norm.weight && m->ffn_norm.weight == m->attention_norm.weight;
    return shared ? r->v->normed : norm_input(r, &r->s->engine->uploaded->layers[layer].ffn_norm);
}

/* Adds what the input of a layer's own makes of the residual stream (per_layer.h), and scales that. */
static void finish_layer(const recorder *r, uint32_t layer)
{
    const device_layer *l = &r->s->engine->uploaded->layers[layer];
    const model_layer *m = &r->model->layers[layer];
    const device_matrix *gate = &l->per_layer_gate;
    const device_vectors *v = r->v;
    if (gate->w) {
        size_t own = device_own_input(&r->model->hyper, layer, r->rows);
        input in = prepare(r, v->x, gate->columns, &gate, 1);
        product(r, gate, &in, all_rows, v->per_layer_gate, FINISH_STORE);
        LAUNCH(r, DEVICE_activate, r->rows * items_of(gate->rows, ACTIVATE_NEURONS), BUFFER(v->per_layer_gate),
               BUFFER_FROM(v->per_layer, own), NO_BUFFER, NO_BUFFER, LIST(all_rows), UINT(gate->rows),
               UINT(kind_of[ffn_activations[m->ffn.activation].kernel]), UINT(GATING_GATED), FLOAT(m->ffn.threshold));
        multiply_output(r, &l->per_layer_output, v->per_layer_gate, false);
        add_to_residual(r, &l->per_layer_post_norm, (block_result){v->added, 1, NULL, NULL});
    }
    if (m->output_scale)
        reduce(r, &(block_result){v->x, 1, NULL, NULL}, v->x, FINISH_STORE, m->output_scale[0]);
}

/* Notes the remaining moments of a layer that is a mixer alone. */
static void stamp_end(const recorder *r, uint32_t layer)
{
    for (unsigned moment = STAMP_NEURONS; moment < STAMPS; moment++)
        stamp(r, layer, moment);
}

/* Records a layer, with the exchange if the CPU has neurons of it. Parallel blocks read the same residual stream, so
 * the result of attention is not added before the neurons have been computed. */
static void layer_on_device(const recorder *r, uint32_t layer)
{
    const device_layer *l = &r->s->engine->uploaded->layers[layer];
    const engine_layer *e = &r->s->engine->layers[layer];
    bool both = e->form != FORM_DEVICE, parallel = r->model->layers[layer].wiring == WIRING_PARALLEL;
    bool routes = l->router.w != NULL, early = r->model->layers[layer].ffn.router.early;
    block_result result = {NULL, 0, routes ? NULL : l->down_bias, both ? r->v->answer : NULL};

    stamp(r, layer, STAMP_BEGIN);
    if (early && routes)
        route(r, layer, r->v->x);
    else if (early)
        copy_rows(r, r->mirror->entered, r->v->x, r->model->hyper.embedding_length);
    mixers[r->model->layers[layer].mixer](r, layer);
    if (!parallel)
        mixer_output(r, layer);
    if (r->model->layers[layer].ffn.neuron_count == 0) {
        finish_layer(r, layer);
        stamp_end(r, layer);
        return;
    }
    const device_buffer *normed = ffn_input(r, layer);
    if (routes && !early)
        route(r, layer, normed);
    if (e->selector == SELECTOR_LOW_RANK && l->neuron_count)
        predict(r, layer, normed);
    if (both)
        publish_input(r, layer, normed);
    stamp(r, layer, STAMP_NEURONS);
    portion portions[PORTIONS];
    row_list rows[PORTIONS] = {all_rows, all_rows};
    size_t portion_count = divide(r, layer, normed, portions);
    for (size_t i = 0; i < portion_count; i++)
        rows[i] = activations(r, layer, &portions[i]);
    if (r->observed)
        stop_for_observer(r, layer, normed);
    if (parallel)
        mixer_output(r, layer);
    for (size_t i = 0; i < portion_count; i++)
        accumulate(r, l, &portions[i], rows[i], &result);
    stamp(r, layer, STAMP_OWN_END);
    if (both)
        device_await(r->program, SLOT_NEURONS(layer));
    stamp(r, layer, STAMP_JOIN);
    if (both)
        copy_rows(r, r->v->answer, r->mirror->answer, r->model->hyper.embedding_length);
    if (device_joins_norm(r->s, layer))
        join_norm(r, layer, &result);
    if (result.sums || result.bias || result.answer)
        add_to_residual(r, &l->ffn_post_norm, result);
    finish_layer(r, layer);
    stamp(r, layer, STAMP_END);
}

/* ------------------------------------------------------------------ programs */

/* Makes the embedding of every row; where positions are learned, theirs is added. */
static void embed(const recorder *r)
{
    const device_weights *w = r->s->engine->uploaded;
    const hyperparameters *h = &r->model->hyper;
    LAUNCH(r, device_embed(w->embedding.format), r->rows, BUFFER(w->embedding.w), BUFFER(w->embedding.scales),
           BUFFER(r->v->x), UINT(h->embedding_length), UINT(0), UINT(0), UINT(FINISH_STORE), FLOAT(h->embedding_scale));
    if (w->positions.w)
        LAUNCH(r, device_embed(w->positions.format), r->rows, BUFFER(w->positions.w), BUFFER(w->positions.scales),
               BUFFER(r->v->x), UINT(h->embedding_length), UINT(1), UINT(h->position_offset), UINT(FINISH_ADD),
               FLOAT(1));
}

/* Records a step through all layers. */
static void record_layers(const recorder *r)
{
    const hearth_engine *e = r->s->engine;
    uint32_t layers = r->model->hyper.layer_count, d = r->model->hyper.embedding_length;
    const device_matrix *embedding = &e->uploaded->embedding;

    device_copy(r->program, r->v->step, 0, r->mirror->step, 0, device_buffer_bytes(r->v->step));
    if (r->v->per_layer)
        device_copy(r->program, r->v->per_layer, 0, r->mirror->per_layer, 0,
                    device_own_input(&r->model->hyper, layers, r->rows));
    if (embedding->w)
        embed(r);
    bool on_host = !embedding->w; /* true: the residual stream is on the CPU */
    for (uint32_t i = 0; i < layers; i++) {
        if (e->layers[i].form == FORM_HOST) {
            if (!on_host) {
                copy_rows(r, r->mirror->x, r->v->x, d);
                device_publish(r->program, SLOT_STREAM(i));
            }
            on_host = true;
            continue;
        }
        if (on_host) {
            if (i > 0) /* before layer 0 it is there when the step begins */
                device_await(r->program, SLOT_STREAM(i));
            copy_rows(r, r->v->x, r->mirror->x, d);
        }
        on_host = false;
        layer_on_device(r, i);
    }
    if (!on_host)
        copy_rows(r, r->mirror->x, r->v->x, d);
    device_copy(r->program, r->mirror->totals, 0, r->v->totals, 0, device_buffer_bytes(r->v->totals));
}

static void record_head(const recorder *r)
{
    const device_matrix *head = &r->s->engine->uploaded->head;
    device_copy(r->program, r->v->step, 0, r->mirror->step, 0, sizeof(step_record));
    copy_rows(r, r->v->normed, r->mirror->normed, head->columns);
    input in = prepare(r, r->v->normed, head->columns, &head, 1);
    product(r, head, &in, all_rows, r->v->logits, FINISH_STORE);
    copy_rows(r, r->mirror->logits, r->v->logits, head->rows);
}

hearth_status device_record(device_program **out, const hearth_session *s, const device_session *ds, program_kind kind,
                            hearth_error *error)
{
    static const struct {
        size_t rows;
        bool observed;
        void (*record)(const recorder *r);
    } kinds[PROGRAM_KINDS] = {
        [PROGRAM_ONE] = {1, false, record_layers},
        [PROGRAM_MANY] = {STEP_ROWS, false, record_layers},
        [PROGRAM_OBSERVED] = {STEP_ROWS, true, record_layers},
        [PROGRAM_HEAD_ONE] = {1, false, record_head},
        [PROGRAM_HEAD_MANY] = {STEP_ROWS, false, record_head},
    };
    uint32_t layers = s->engine->model->hyper.layer_count;
    bool traced = s->tracer.see != NULL;
    device_program *p;
    TRY(device_program_create(&p, ds->device, SLOT_COUNT(layers), traced ? STAMPS * layers : 0, error));
    recorder r = {p,     s, s->engine->model, ds, &ds->vectors, &ds->mirror, kinds[kind].rows, kinds[kind].observed,
                  traced};
    kinds[kind].record(&r);
    hearth_status status = device_program_seal(p, error);
    if (status == HEARTH_OK)
        *out = p;
    else
        device_program_destroy(p);
    return status;
}
