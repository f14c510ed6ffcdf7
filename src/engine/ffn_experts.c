/* ffn_experts.c - layers with experts: the router chooses, the chosen experts compute, their results are added up.
 *
 * One token: the chosen experts are a list of rows of the layer's matrices, and one job takes them through select, gather
 * and accumulate (ffn_steps.c); the share of an expert is multiplied into the activations of its neurons. Many tokens:
 * tokens are grouped by expert, so that an expert's weights are read once and those of experts that nobody chose are not
 * read. Whole experts are computed together (ffn_whole_experts.c); where neurons are left out each expert is a job of its
 * own. The expert that every token uses is a job as well, over all tokens. */
#include "../base/clock.h"
#include "device_session.h"
#include "ffn_job.h"
#include "forward.h"
#include "inputs_internal.h"
#include "products.h"

#include <float.h>
#include <math.h>
#include <string.h>

/* ------------------------------------------------------------------ the router */

static float sigmoid(float x)
{
    return 1 / (1 + expf(-x));
}

/* Turns the router's products of one token into scores. Those of ROUTER_SIGMOID_OF_CHOSEN stay what they are. */
static void score(const router_shape *r, float *values)
{
    float largest = values[0], sum = 0;
    for (uint32_t e = 0; r->scoring == ROUTER_SIGMOID && e < r->expert_count; e++)
        values[e] = sigmoid(values[e]);
    for (uint32_t e = 0; r->scoring == ROUTER_ROOT_SOFTPLUS && e < r->expert_count; e++)
        values[e] = sqrtf(forward_softplus(values[e]));
    if (r->scoring != ROUTER_SOFTMAX)
        return;
    for (uint32_t e = 1; e < r->expert_count; e++)
        largest = fmaxf(largest, values[e]);
    for (uint32_t e = 0; e < r->expert_count; e++)
        sum += values[e] = expf(values[e] - largest);
    for (uint32_t e = 0; e < r->expert_count; e++)
        values[e] /= sum;
}

/* Marks the largest of n values that is not marked yet; the first of equal ones. Returns its index. NaN is the greatest,
 * so that a broken expert is chosen and the check of the residual stream reports it. */
static uint32_t take_largest(const float *values, uint32_t n, uint8_t *taken)
{
    uint32_t best = n;
    for (uint32_t i = 0; i < n; i++)
        if (!taken[i] && (best == n || values[i] > values[best] || (isnan(values[i]) && !isnan(values[best]))))
            best = i;
    taken[best] = 1;
    return best;
}

/* Returns the sum of the two largest of n values; NaN where one is not finite. */
static float best_two(const float *values, uint32_t n)
{
    float first = -INFINITY, second = -INFINITY, wrong = 0;
    for (uint32_t i = 0; i < n; i++) {
        wrong += values[i] - values[i];
        second = values[i] > first ? first : values[i] > second ? values[i] : second;
        first = values[i] > first ? values[i] : first;
    }
    return wrong + (n > 1 ? first + second : first);
}

/* Marks the experts of all groups but the best ones as taken. */
static void leave_out_groups(const router_shape *r, const float *ranks, uint8_t *taken)
{
    uint32_t each = r->expert_count / r->group_count;
    float sums[EXPERT_LIMIT] = {0};
    uint8_t stays[EXPERT_LIMIT] = {0};
    for (uint32_t g = 0; g < r->group_count; g++)
        sums[g] = best_two(ranks + g * each, each);
    for (uint32_t i = 0; i < r->group_used; i++)
        take_largest(sums, r->group_count, stays);
    for (uint32_t g = 0; g < r->group_count; g++)
        memset(taken + g * each, !stays[g], each);
}

/* Chooses the experts of one token: writes their shares to shares [expert_count], 0 for the others. values: the router's
 * products, which become scores. given [used]: the experts that it has; NULL: it chooses. */
static void choose(const model_layer *l, const int32_t *given, float *values, float *shares)
{
    const router_shape *r = &l->ffn.router;
    float ranks[EXPERT_LIMIT] = {0}, sum = 0;
    uint8_t taken[EXPERT_LIMIT] = {0};
    score(r, values);
    for (uint32_t e = 0; e < r->expert_count; e++)
        ranks[e] = values[e] + (l->router_correction ? l->router_correction[e] : 0);
    if (r->group_count > 1)
        leave_out_groups(r, ranks, taken);
    memset(shares, 0, r->expert_count * sizeof *shares);
    for (uint32_t i = 0; i < r->used; i++) {
        uint32_t e = given ? (uint32_t)given[i] : take_largest(ranks, r->expert_count, taken);
        float value = r->scoring == ROUTER_SIGMOID_OF_CHOSEN ? sigmoid(values[e]) : values[e];
        shares[e] = isnan(ranks[e]) ? ranks[e] : value;
        sum += value;
    }
    float factor = r->scale / (r->shares && sum > 0 ? sum : 1);
    for (uint32_t e = 0; e < r->expert_count; e++)
        shares[e] = shares[e] != 0 ? shares[e] * factor : 0; /* an infinite factor must not make others NaN */
    for (uint32_t e = 0; l->expert_scales && e < r->expert_count; e++)
        shares[e] = shares[e] != 0 ? shares[e] * l->expert_scales[e] : 0;
}

typedef struct routing {
    const hearth_session *s;
    const model_layer *l;
} routing;

/* Items are rows of the batch. */
static void choose_rows(void *context, size_t begin, size_t end, unsigned worker)
{
    (void)worker;
    const routing *job = context;
    const scratch *b = &job->s->scratch;
    size_t experts = job->l->ffn.router.expert_count;
    for (size_t t = begin; t < end; t++) {
        float *values = b->router + t * experts;
        for (size_t e = 0; job->l->ffn.router.input_scale != 1 && e < experts; e++)
            values[e] *= job->l->ffn.router.input_scale;
        if (job->l->router_bias)
            job->s->engine->runtime->kernels.add(job->l->router_bias, experts, values);
        const int32_t *given = job->l->token_experts;
        if (given)
            given += (size_t)session_tokens(job->s, b->sequence[t])[b->position[t]] * job->l->ffn.router.used;
        choose(job->l, given, values, b->shares + t * experts);
    }
}

void feed_forward_route(const hearth_session *s, uint32_t layer, size_t count, const float *input)
{
    routing job = {s, &s->engine->model->layers[layer]};
    if (job.l->ffn.router.expert_count == 0)
        return;
    if (job.l->router_norm.weight) { /* what attention added is in the residual stream by now */
        forward_norm(s, &job.l->router_norm, s->engine->model->hyper.embedding_length, count, s->scratch.x,
                     s->scratch.added);
        input = s->scratch.added;
    }
    multiply(s, input, count, &(product){&job.l->router, s->scratch.router}, 1);
    pool_run(s->engine->runtime->threads, count, 1, choose_rows, &job);
}

/* ------------------------------------------------------------------ jobs */

/* Lists the CPU's neurons of an expert as rows of the layer; expert_count stands for the shared one. Returns how many. */
static uint32_t list_rows(const ffn_job *job, uint32_t expert, uint32_t *to)
{
    const uint32_t *begins = job->e->expert_begins;
    uint32_t f = job->l->ffn.expert_neurons, first = expert * f;
    uint32_t count = expert < job->l->ffn.router.expert_count ? f : job->l->ffn.shared_neurons;
    if (job->e->rows) {
        count = begins[expert + 1] - begins[expert];
        memcpy(to, job->e->rows + begins[expert], count * sizeof *to);
        return count;
    }
    for (uint32_t i = 0; i < count; i++)
        to[i] = first + i;
    return count;
}

/* Makes a job that computes one expert compute only the CPU's neurons of it. */
static void restrict_job(ffn_job *job, uint32_t expert)
{
    uint32_t *rows = job->s->scratch.expert_rows;
    job->rows = NULL;
    if (!job->e->rows)
        return;
    job->rows = rows;
    job->row_count = list_rows(job, expert, rows);
    for (size_t i = 0; i < job->row_count; i++)
        rows[i] -= job->first_neuron;
}

/* Returns the values that a layer's experts read and write. */
static size_t expert_width(const hearth_session *s, uint32_t layer)
{
    return ffn_expert_width(&s->engine->model->layers[layer].ffn, s->engine->model->hyper.embedding_length);
}

/* Computes a job, which may have no neurons; width: of its results. */
static void compute(ffn_job *job, uint32_t layer, size_t width)
{
    if (job->rows && job->row_count == 0) {
        memset(job->output, 0, job->count * width * sizeof *job->output);
        return;
    }
    ffn_compute(job, layer, false);
    if (job->s->observer.see) /* then there is one row */
        ffn_show(job, 0);
}

/* Returns what a layer's predictor reads [B][d] where this is not what its experts read; NULL: it is. */
static const float *predictor_input(const hearth_session *s, uint32_t layer)
{
    const engine_layer *e = &s->engine->layers[layer];
    if (e->selector != SELECTOR_LOW_RANK)
        return NULL;
    if (!e->predictor.reads_normed)
        return s->scratch.x;
    const model_layer *l = &s->engine->model->layers[layer];
    bool others = l->ffn.latent > 0 || l->experts_norm.weight || l->ffn.router.weighs_input;
    return others ? s->scratch.normed : NULL;
}

/* Describes one expert's work for `count` rows at scratch.expert_in; what its predictor reads may be at .expert_x. */
static ffn_job describe_expert(hearth_session *s, uint32_t layer, uint32_t expert, size_t count)
{
    ffn_job job = ffn_describe(s, layer, count);
    uint32_t f = job.l->ffn.expert_neurons, row = expert * f;
    size_t width = expert_width(s, layer);
    job.first = matrix_rows(&job.first, (size_t)expert * job.l->expert_stride, f);
    job.second = matrix_rows(&job.second, (size_t)expert * job.l->expert_stride, f);
    job.down = matrix_rows(&job.down, expert * width, (uint32_t)width);
    job.down_t = matrix_rows(&job.down_t, row, f);
    job.first_bias = job.first_bias ? job.first_bias + row : NULL;
    job.second_bias = job.second_bias ? job.second_bias + row : NULL;
    job.fc1_input = predictor_input(s, layer) ? s->scratch.expert_x : s->scratch.expert_in;
    job.fc2 = matrix_rows(&job.fc2, row, f);
    job.coarse.rows = matrix_rows(&job.coarse.rows, row, f);
    job.coarse.spread += job.coarse.rows.data ? row : 0;
    if (job.l->mask_in.data) {
        uint32_t rank = job.l->mask_out.columns;
        job.fc1 = matrix_rows(&job.l->mask_in, (size_t)expert * rank, rank);
        job.fc2 = matrix_rows(&job.l->mask_out, row, f);
        job.predicts = true;
        job.recall = NULL;         /* a mask is the model's own and misses nothing */
        job.passes = FLT_TRUE_MIN; /* the score must be above 0 */
    }
    job.input = s->scratch.expert_in;
    job.output = s->scratch.expert_out;
    job.neuron_count = f;
    job.first_neuron = row;
    restrict_job(&job, expert);
    return job;
}

/* Describes the work of the expert that every token uses, for `count` rows from row `first` on. Coarse copies have no
 * rows of it. */
static ffn_job describe_shared(hearth_session *s, uint32_t layer, size_t first, size_t count)
{
    ffn_job job = ffn_describe(s, layer, count);
    const ffn_network *n = &job.l->shared;
    size_t d = s->engine->model->hyper.embedding_length;
    uint32_t routed = ffn_routed(&job.l->ffn);
    job.input = s->scratch.normed + first * d;
    job.fc1_input += job.fc1.data ? first * d : 0;
    job.fc2 = matrix_rows(&job.fc2, routed, job.l->ffn.shared_neurons);
    job.coarse = (coarse_copy){0};
    if (job.activation->limits)
        job.activation_threshold = job.l->ffn.shared_threshold;
    job.predicts = job.fc2.data != NULL;
    job.recall = job.predicts ? job.recall : NULL;
    bool gated = job.l->ffn.gating != FFN_PLAIN;
    job.first = gated ? n->gate : n->up;
    job.second = gated ? n->up : (matrix){.data = NULL};
    job.down = n->down;
    job.down_t = job.e->shared_down_t;
    job.first_bias = job.second_bias = NULL;
    job.output = s->scratch.expert_out;
    job.neuron_count = job.l->ffn.shared_neurons;
    job.first_neuron = routed;
    restrict_job(&job, job.l->ffn.router.expert_count);
    return job;
}

const float *ffn_down_biases(const hearth_session *s, uint32_t layer)
{
    return s->engine->layers[layer].form == FORM_SPLIT ? NULL : s->engine->model->layers[layer].down_bias;
}

/* Adds the biases of the experts' down matrices to the result of row t, by their shares. */
static void add_down_biases(const hearth_session *s, uint32_t layer, size_t t, float *to)
{
    size_t width = expert_width(s, layer);
    size_t experts = s->engine->model->layers[layer].ffn.router.expert_count;
    const float *shares = s->scratch.shares + t * experts, *biases = ffn_down_biases(s, layer);
    for (size_t e = 0; biases && e < experts; e++)
        for (size_t i = 0; shares[e] != 0 && i < width; i++)
            to[i] += shares[e] * biases[e * width + i];
}

/* ------------------------------------------------------------------ one token */

/* Computes row t with the experts that it chose, as one list of rows. */
static void compute_listed(hearth_session *s, uint32_t layer, size_t t)
{
    const model_layer *l = &s->engine->model->layers[layer];
    const scratch *b = &s->scratch;
    size_t d = s->engine->model->hyper.embedding_length, width = expert_width(s, layer);
    uint32_t experts = l->ffn.router.expert_count, rows = 0;
    const float *shares = b->shares + (size_t)t * experts;
    ffn_job job = ffn_describe(s, layer, 1);
    for (uint32_t e = 0; e < experts; e++)
        if (shares[e] != 0)
            rows += list_rows(&job, e, b->expert_rows + rows);
    job.input += t * width;
    job.fc1_input += job.fc1.data ? t * d : 0;
    job.output += t * width;
    job.rows = b->expert_rows;
    job.row_count = rows;
    job.shares = shares;
    job.stride = l->expert_stride == l->ffn.expert_neurons ? 0 : l->expert_stride;
    compute(&job, layer, width);
    add_down_biases(s, layer, t, job.output);
}

/* ------------------------------------------------------------------ many tokens */

/* Some rows of the batch, those that chose one expert. */
typedef struct group {
    const hearth_session *s;
    const experts_io *io;
    const float *shares; /* of the expert; a row's is `stride` values after the row's before it */
    size_t stride;
    bool weighs_input;
    const float *predicts; /* [B][d] what a predictor reads of the rows; NULL: what experts read */
} group;

/* Items are places in the group. Copies the rows' inputs next to each other. */
static void collect_rows(void *context, size_t begin, size_t end, unsigned worker)
{
    (void)worker;
    const group *g = context;
    const scratch *b = &g->s->scratch;
    size_t d = g->s->engine->model->hyper.embedding_length, width = g->io->width;
    for (size_t i = begin; i < end; i++) {
        memcpy(b->expert_in + i * width, g->io->from + b->members[i] * width, width * sizeof *b->expert_in);
        if (g->weighs_input)
            forward_scale(g->shares[b->members[i] * g->stride], width, b->expert_in + i * width);
        if (g->predicts)
            memcpy(b->expert_x + i * d, g->predicts + b->members[i] * d, d * sizeof *b->expert_x);
    }
}

/* Items are places in the group. Adds an expert's results to those of the rows, by their shares. */
static void scatter_rows(void *context, size_t begin, size_t end, unsigned worker)
{
    (void)worker;
    const group *g = context;
    const scratch *b = &g->s->scratch;
    size_t width = g->io->width;
    for (size_t i = begin; i < end; i++) {
        float share = g->weighs_input ? 1 : g->shares[b->members[i] * g->stride],
              *to = g->io->to + b->members[i] * width;
        const float *from = b->expert_out + i * width;
        for (size_t c = 0; c < width; c++)
            to[c] += share * from[c];
    }
}

/* Computes one expert for those of rows [first, first + count) that chose it. */
static void compute_expert(hearth_session *s, const experts_io *io, uint32_t expert, size_t first, size_t count)
{
    uint32_t layer = io->layer;
    const model_layer *l = &s->engine->model->layers[layer];
    const scratch *b = &s->scratch;
    size_t width = io->width, members = 0;
    group g = {.s = s,
               .io = io,
               .shares = b->shares + expert,
               .stride = l->ffn.router.expert_count,
               .weighs_input = l->ffn.router.weighs_input,
               .predicts = predictor_input(s, layer)};
    for (size_t t = first; t < first + count; t++)
        if (g.shares[t * g.stride] != 0)
            b->members[members++] = (uint32_t)t;
    if (members == 0)
        return;
    pool *threads = s->engine->runtime->threads;
    pool_run(threads, members, 1, collect_rows, &g);
    ffn_job job = describe_expert(s, layer, expert, members);
    compute(&job, layer, width);
    for (uint32_t i = 0; s->observer.see && i < job.neuron_count; i++) /* there is one row, which chose the expert */
        b->seen[job.first_neuron + i] *= g.weighs_input ? 1 : g.shares[first * g.stride];
    const float *biases = ffn_down_biases(s, layer);
    for (size_t i = 0; biases && i < members; i++)
        s->engine->runtime->kernels.add(biases + expert * width, width, job.output + i * width);
    pool_run(threads, members, 1, scatter_rows, &g);
}

/* ------------------------------------------------------------------ the layer */

/* Multiplies the results of the shared expert [count][d] with the logistic function of its gate's product, a number per
 * token. */
static void gate_shared(const hearth_session *s, uint32_t layer, size_t first, size_t count, float *results)
{
    const model_layer *l = &s->engine->model->layers[layer];
    const scratch *b = &s->scratch;
    uint32_t d = s->engine->model->hyper.embedding_length;
    const matrix gate = {l->shared_gate, FORMAT_F32, 1, d, d * sizeof(float)};
    multiply(s, b->normed + (size_t)first * d, count, &(product){&gate, b->shared_shares}, 1);
    for (size_t t = 0; t < count; t++) {
        float share = sigmoid(b->shared_shares[t]);
        for (size_t i = t * d; i < (t + 1) * d; i++)
            results[i] *= share;
        for (size_t i = ffn_routed(&l->ffn); s->observer.see && i < l->ffn.neuron_count; i++) /* there is one row */
            b->seen[i] *= share;
    }
}

/* Multiplies n results of the expert that every token uses with its share. */
static void scale_shared(const hearth_session *s, const model_layer *l, size_t n, float *results)
{
    float share = l->ffn.router.shared_scale;
    forward_scale(share, n, results);
    if (s->observer.see) /* then there is one row */
        forward_scale(share, l->ffn.shared_neurons, s->scratch.seen + ffn_routed(&l->ffn));
}

/* Adds the expert that every token uses, for `count` rows from row `first` on. */
static void add_shared(hearth_session *s, uint32_t layer, size_t first, size_t count)
{
    size_t d = s->engine->model->hyper.embedding_length;
    if (s->engine->model->layers[layer].ffn.shared_neurons == 0)
        return;
    ffn_job job = describe_shared(s, layer, first, count);
    bool apart = device_answers_twice(s, layer); /* then the device adds its neurons before the norm */
    if (apart)
        job.output = s->scratch.beside + first * d;
    compute(&job, layer, d);
    if (apart)
        return;
    forward_norm(s, &job.l->shared_post_norm, d, count, job.output, job.output);
    if (job.l->shared_gate)
        gate_shared(s, layer, first, count, job.output);
    scale_shared(s, job.l, count * d, job.output);
    s->engine->runtime->kernels.add(job.output, count * d, s->scratch.added + first * d);
}

/* Computes rows [first, first + count). */
static void compute_rows(hearth_session *s, uint32_t layer, size_t first, size_t count)
{
    const model_layer *l = &s->engine->model->layers[layer];
    const scratch *b = &s->scratch;
    size_t d = s->engine->model->hyper.embedding_length, width = expert_width(s, layer);
    experts_io io = {layer, width,
                     l->ffn.latent            ? b->latent_in
                     : l->experts_norm.weight ? b->expert_normed
                                              : b->normed,
                     l->ffn.latent ? b->latent_out : b->added};
    if (l->experts_norm.weight)
        forward_norm(s, &l->experts_norm, d, count, b->x + first * d, b->expert_normed + first * d);
    if (l->ffn.latent) {
        inputs_see(s, layer, INPUT_LATENT_IN, b->normed + first * d, count);
        multiply(s, b->normed + first * d, count, &(product){&l->latent_in, b->latent_in + first * width}, 1);
    }
    if (count == 1 && !l->mask_in.data) {
        compute_listed(s, layer, first);
    } else {
        memset(io.to + first * width, 0, count * width * sizeof *io.to);
        if (ffn_takes_whole_experts(s, layer))
            ffn_compute_whole_experts(s, &io, first, count);
        else
            for (uint32_t e = 0; e < l->ffn.router.expert_count; e++)
                compute_expert(s, &io, e, first, count);
    }
    if (l->ffn.latent) {
        inputs_see(s, layer, INPUT_LATENT_OUT, io.to + first * width, count);
        multiply(s, io.to + first * width, count, &(product){&l->latent_out, b->added + first * d}, 1);
    }
    if (l->experts_post_norm.weight && !device_answers_twice(s, layer))
        forward_norm(s, &l->experts_post_norm, d, count, b->added + first * d, b->added + first * d);
    add_shared(s, layer, first, count);
}

/* An observer sees one row at a time, of which all neurons are marked. Returns the seconds that it took by itself. */
static double compute_observed(hearth_session *s, uint32_t layer, size_t count)
{
    const scratch *b = &s->scratch;
    size_t f = s->engine->model->layers[layer].ffn.neuron_count;
    double watched = 0;
    for (size_t t = 0; t < count; t++) {
        memset(b->seen, 0, f * sizeof *b->seen);
        memset(b->wanted, 0, f * sizeof *b->wanted);
        memset(b->seen_gates, 0, f * sizeof *b->seen_gates);
        compute_rows(s, layer, t, 1);
        double worked = clock_seconds();
        if (s->engine->layers[layer].form == FORM_SPLIT)
            device_step_show(s, layer, t);
        ffn_tell(s, layer, t);
        watched += clock_seconds() - worked;
    }
    return watched;
}

void ffn_experts_compute(hearth_session *s, uint32_t layer, size_t count)
{
    double begin = clock_seconds(), watched = 0;
    if (s->observer.see)
        watched = compute_observed(s, layer, count);
    else
        compute_rows(s, layer, 0, count);
    s->ffn_seconds[layer] += clock_seconds() - begin - watched;
}
