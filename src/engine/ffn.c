/* ffn.c - the feed-forward network of a layer: what is computed (a job, ffn_job.h), in which layout, cut into parts; its
 * steps are in ffn_steps.c, layers with experts in ffn_experts.c. */
#include "device_session.h"
#include "ffn_job.h"
#include "follow.h"
#include "inputs_internal.h"
#include "products.h"

#include "../base/clock.h"

/* Most and least rows per work item when down matrices of experts are multiplied; several items per thread. Rows of an
 * expert are short, so that a stretch of them in memory is long enough only with many. */
#define DOWN_ROWS_MOST  256
#define DOWN_ROWS_LEAST 64
#define DOWN_ROWS_ITEMS 4
/* Columns per work item when the sums of slices are added. */
#define REDUCE_COLUMNS 512

/* Cuts the layer into parts. If the CPU has only some of the rows, places in their list are cut instead of neuron
 * numbers, so that the work is spread evenly whichever rows these are. */
static void cut(ffn_job *job)
{
    scratch *b = &job->s->scratch;
    size_t parts = FFN_PARTS_PER_THREAD * (size_t)pool_threads(job->s->engine->runtime->threads);
    size_t f = job->rows ? job->row_count : job->neuron_count;
    job->width = ffn_slice_width(f);
    job->slices = (f + job->width - 1) / job->width;
    job->part_slices = job->slices > parts ? job->slices / parts : 1;
    size_t part = job->part_slices * job->width;
    b->part_count = 0;
    for (size_t begin = 0; begin < f; begin += part) {
        ffn_part *v = &b->parts[b->part_count++];
        *v = (ffn_part){.begin = (uint32_t)begin,
                        .count = f - begin < part ? f - begin : part,
                        .list = job->rows ? job->rows + begin : NULL};
    }
}

/* Prepares the input of fc2: relu(fc1 . input), unless the device has computed it. */
static void predict(ffn_job *job, bool hidden_known)
{
    hearth_session *s = job->s;
    const matrix *fc1 = &job->fc1, *fc2 = &job->fc2;
    float *hidden = s->scratch.hidden;
    if (!hidden_known) {
        multiply(s, job->fc1_input, job->count, &(product){fc1, hidden}, 1);
        kernels_of(job)->activate[ACTIVATION_RELU](hidden, NULL, no_terms, job->count * fc1->rows, hidden);
    }
    job->hidden = products_input(s, hidden, job->count, fc1->rows, &fc2, 1, &s->scratch.rounded_hidden);
}

/* Runs a layer that has down_t, a row per neuron. */
static void neuron_major(ffn_job *job, bool hidden_known)
{
    hearth_session *s = job->s;
    pool *threads = s->engine->runtime->threads;
    size_t d = job->down_t.columns;
    if (job->fc1.data)
        predict(job, hidden_known);
    const matrix *reads[] = {&job->first, &job->second, &job->coarse.rows};
    job->normed = products_input(s, job->input, job->count, d, reads, 3, &s->scratch.rounded);
    for (size_t t = 0; job->e->selector == SELECTOR_COARSE && t < job->count; t++)
        s->scratch.size[t] = coarse_magnitude(job->input + t * d, d);
    if (job->cuts) {
        pool_run(threads, s->scratch.part_count, 1, ffn_multiply_first, job);
        pool_run(threads, job->count, 1, ffn_cut_rows, job);
    }
    bool normed = job->l->ffn_inner_norm.weight != NULL;
    bool few = job->count <= FFN_FEW;
    if (few && !normed) {
        pool_run(threads, s->scratch.part_count, 1, ffn_work_on_parts, job);
    } else {
        pool_run(threads, s->scratch.part_count, 1, ffn_choose, job);
        if (normed)
            pool_run(threads, job->count, 1, ffn_norm_activations, job);
        if (few)
            pool_run(threads, s->scratch.part_count, 1, ffn_accumulate_few, job);
    }
    if (few) {
        pool_run(threads, d, REDUCE_COLUMNS, ffn_add_slices, job);
    } else {
        size_t groups = (job->count + FFN_GROUP - 1) / FFN_GROUP;
        pool_run(threads, groups * ((d + ACCUMULATE_COLUMNS - 1) / ACCUMULATE_COLUMNS), 1, ffn_accumulate_many, job);
    }
}

void ffn_activate_row(const ffn_job *job, const float *first_bias, const float *second_bias, size_t i)
{
    const scratch *b = &job->s->scratch;
    size_t f = job->neuron_count;
    float *gate = b->gate + i * f, *up = b->up + i * f;
    if (first_bias)
        kernels_of(job)->add(first_bias, f, gate);
    if (second_bias)
        kernels_of(job)->add(second_bias, f, up);
    if (job->cuts)
        ffn_cut(job, gate);
    ffn_activate(job, gate, up, f, job->h + i * f);
}

/* Items are rows of the batch. */
static void activate_rows(void *context, size_t begin, size_t end, unsigned worker)
{
    (void)worker;
    const ffn_job *job = context;
    for (size_t i = begin; i < end; i++)
        ffn_activate_row(job, job->first_bias, job->second_bias, i);
}

/* Zeroes the activations of neurons that the model's own mask leaves out. */
static void apply_mask(const ffn_job *job, size_t t)
{
    const float *score = job->s->scratch.score + t * job->neuron_count;
    float *h = job->h + t * job->neuron_count;
    for (size_t i = 0; i < job->neuron_count; i++)
        h[i] = score[i] < job->passes ? 0 : h[i];
}

/* Runs a layer in the stock layout of files: down is multiplied whole, so nothing can be skipped. */
static void stock(ffn_job *job)
{
    hearth_session *s = job->s;
    const scratch *b = &s->scratch;
    multiply(s, job->input, job->count, (product[]){{&job->first, b->gate}, {&job->second, b->up}},
             job->second.data ? 2 : 1);
    pool_run(s->engine->runtime->threads, job->count, 1, activate_rows, job);
    if (job->fc1.data) {
        predict(job, false);
        multiply(s, s->scratch.hidden, job->count, &(product){&job->fc2, b->score}, 1);
        for (size_t t = 0; t < job->count; t++)
            apply_mask(job, t);
    }
    if (job->l->ffn_inner_norm.weight)
        pool_run(s->engine->runtime->threads, job->count, 1, ffn_norm_activations, job);
    multiply(s, job->h, job->count, &(product){&job->down, job->output}, 1);
    for (size_t i = 0; i < b->part_count; i++)
        b->parts[i].computed = b->parts[i].fired = b->parts[i].active = job->count * b->parts[i].count;
}

/* A row of the activations of one expert after the other, and the experts' down matrices. */
typedef struct expert_down {
    const ffn_job *job;
    kernel_input h; /* a row per expert that is used */
} expert_down;

static size_t expert_width(const ffn_job *job)
{
    return ffn_expert_width(&job->l->ffn, job->s->engine->model->hyper.embedding_length);
}

/* Items are rows of the down matrices. Adds up what the experts give. */
static void multiply_down(void *context, size_t begin, size_t end, unsigned worker)
{
    (void)worker;
    const expert_down *work = context;
    const ffn_job *job = work->job;
    size_t f = job->down.columns, d = expert_width(job);
    float *one = job->s->scratch.sums;
    for (size_t i = 0; i < work->h.count; i++) {
        kernel_input h = one_token(&work->h, i);
        matrix down = job->down;
        down.data = matrix_row(&job->down, job->rows[i * f] / f * d);
        down.rows = (uint32_t)d;
        float *y = i == 0 ? job->output : one;
        kernels_of(job)->product[down.format](&down, NULL, begin, end, &h, y, d);
        if (i > 0)
            kernels_of(job)->add(one + begin, end - begin, job->output + begin);
    }
}

/* Runs whole experts for one token in the stock layout: rows lists them one after another. */
static void stock_experts(ffn_job *job)
{
    hearth_session *s = job->s;
    pool *threads = s->engine->runtime->threads;
    const matrix *reads[] = {&job->first, &job->second}, *down = &job->down;
    size_t f = job->l->ffn.expert_neurons;
    job->normed = products_input(s, job->input, 1, job->first.columns, reads, 2, &s->scratch.rounded);
    pool_run(threads, s->scratch.part_count, 1, ffn_choose, job);
    expert_down work = {job, products_input(s, job->h, job->row_count / f, f, &down, 1, &s->scratch.rounded)};
    size_t d = expert_width(job), grain = DOWN_ROWS_MOST;
    while (grain > DOWN_ROWS_LEAST && d < grain * DOWN_ROWS_ITEMS * pool_threads(threads))
        grain /= 2;
    pool_run(threads, d, grain, multiply_down, &work);
}

static void add_counts(const ffn_job *job, hearth_counts *to)
{
    for (size_t i = 0; i < job->s->scratch.part_count; i++) {
        const ffn_part *v = &job->s->scratch.parts[i];
        to->computed += v->computed;
        to->fired += v->fired;
        to->active += v->active;
    }
}

ffn_job ffn_describe(hearth_session *s, uint32_t layer, size_t count)
{
    const model_layer *l = &s->engine->model->layers[layer];
    const engine_layer *e = &s->engine->layers[layer];
    bool gated = l->ffn.gating != FFN_PLAIN;
    ffn_job job = {
        .s = s,
        .l = l,
        .e = e,
        .activation = &ffn_activations[l->ffn.activation],
        .first = *layer_first_matrix(l),
        .second = gated ? l->up : (matrix){.data = NULL},
        .first_bias = layer_first_bias(l),
        .second_bias = gated ? l->up_bias : NULL,
        .down = l->down,
        .down_t = e->down_t,
        .input = s->scratch.normed,
        .output = s->scratch.added,
        .rows = e->rows,
        .row_count = e->row_count,
        .recall = s->recall && selectors[e->selector].predictor != PREDICTOR_NONE ? &s->recall[layer] : NULL,
        .activation_threshold = l->ffn.threshold,
        .cuts = l->ffn.cuts,
        .h = s->observer.gates && e->selector == SELECTOR_ALL ? s->scratch.up : s->scratch.gate,
        .count = count,
        .neuron_count = ffn_routed(&l->ffn),
    };
    if (l->ffn.latent > 0) {
        job.input = s->scratch.latent_in;
        job.output = s->scratch.latent_out;
    }
    if (l->experts_norm.weight)
        job.input = s->scratch.expert_normed;
    bool zeros = ffn_skippable(&l->ffn), magnitude = e->selector == SELECTOR_MAGNITUDE;
    bool own_size = job.activation->kernel == ACTIVATION_RELU; /* values above zero stay as they are */
    if (e->selector == SELECTOR_LOW_RANK) {
        job.fc1 = e->predictor.fc1;
        job.fc2 = e->predictor.fc2;
        job.fc1_input = e->predictor.reads_normed ? s->scratch.normed : s->scratch.x;
    }
    job.coarse = e->coarse;
    job.prunes = magnitude && !own_size;
    job.threshold = job.recall ? job.recall->threshold : e->threshold;
    if (magnitude && own_size && job.threshold > job.activation_threshold)
        job.activation_threshold = job.threshold;
    job.predicts = selectors[e->selector].predictor != PREDICTOR_NONE;
    job.passes = e->selector == SELECTOR_COARSE ? job.activation_threshold : job.threshold;
    job.skips_zeros = job.prunes || (selectors[e->selector].skips && zeros);
    return job;
}

void ffn_compute(ffn_job *job, uint32_t layer, bool hidden_known)
{
    cut(job);
    if (job->down_t.data)
        neuron_major(job, hidden_known);
    else if (job->shares)
        stock_experts(job);
    else
        stock(job);
    if (job->s->inputs)
        inputs_add_network(job, layer);
    if (job->recall)
        recall_count(job);
    add_counts(job, &job->s->counts[layer]);
}

/* Computes a layer without experts, as feed_forward does. */
static void compute_plain(hearth_session *s, uint32_t layer, size_t count)
{
    double begin = clock_seconds();
    ffn_job job = ffn_describe(s, layer, count);
    size_t d = s->engine->model->hyper.embedding_length;
    ffn_compute(&job, layer, false);
    for (size_t t = 0; job.l->down_bias && t < count; t++)
        kernels_of(&job)->add(job.l->down_bias, d, s->scratch.added + t * d);
    double worked = clock_seconds();       /* the time of observers is not counted                                */
    feed_forward_observe(s, layer, count); /* before x changes: observers see the residual as the network read it */
    s->ffn_seconds[layer] += worked - begin;
}

void feed_forward(hearth_session *s, uint32_t layer, size_t count)
{
    s->counts[layer].rows += count;
    if (s->engine->model->layers[layer].ffn.router.expert_count > 0)
        ffn_experts_compute(s, layer, count);
    else
        compute_plain(s, layer, count);
    if (s->recall)
        recall_learn(&s->recall[layer], count);
}

void feed_forward_share(hearth_session *s, uint32_t layer, size_t count, bool hidden_known)
{
    if (s->engine->model->layers[layer].ffn.router.expert_count > 0) {
        feed_forward(s, layer, count);
        if (device_step_tallies(s))
            follow_count_experts(s->engine, layer, s->scratch.shares, count);
        return;
    }
    double begin = clock_seconds();
    s->counts[layer].rows += count;
    ffn_job job = ffn_describe(s, layer, count);
    ffn_compute(&job, layer, hidden_known);
    if (device_step_tallies(s))
        follow_count(s->engine, layer, &job);
    s->ffn_seconds[layer] += clock_seconds() - begin;
}
