/* measure.c - counts scores by their rank in the order of all floats, and scores rows with the engine's kernels.
 *
 * The margin that a neuron which fired needs of a coarse copy is how far the product of its copied row falls short, in
 * standard deviations of the copy's error. At the margin that is found, some neurons that do not fire are let through
 * as well. */
#include "measure.h"

#include "../base/float_order.h"
#include "../base/memory.h"
#include "../engine/coarse.h"

#include <float.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

/* A place is a float's 32-bit rank: UPPER_BITS select the bin, LOWER_BITS the place within it. */
#define UPPER_BITS 18
#define LOWER_BITS (32 - UPPER_BITS)

/* Limit of scores of coarse copies, beyond any sensible margin: makes those of copies without any error finite and
 * comparable. */
#define MOST_DEVIATIONS 1e6f

/* ------------------------------------------------------------------ recall */

/* Scores in one bin. */
typedef struct share_count {
    uint64_t all, fired;
} share_count;

static void add(share_count *to, const share_count *more)
{
    to->all += more->all;
    to->fired += more->fired;
}

typedef struct counting {
    const recall_task *task;
    bool lower; /* true: counts the scores in `bin` by their lower bits; false: all scores by their upper bits */
    uint32_t bin;
    size_t row_count, words;
    size_t bins;
    share_count *tallies; /* [threads][bins]                      */
    float *scores;        /* [threads][RECALL_ROWS][neuron_count] */
    uint64_t *fired;      /* [threads][RECALL_ROWS][words]        */
} counting;

/* Counts the scores of neurons [begin, end) of one row. */
static void count_neurons(const counting *c, const float *scores, const uint64_t *fired, size_t begin, size_t end,
                          share_count *to)
{
    for (size_t i = begin; i < end; i++) {
        uint32_t place = float_place(scores[i]), upper = place >> LOWER_BITS;
        if (c->lower && upper != c->bin)
            continue;
        share_count *t = &to[c->lower ? place & ((1u << LOWER_BITS) - 1) : upper];
        t->all++;
        t->fired += fired[i / 64] >> (i % 64) & 1;
    }
}

/* Counts the scores of one row. */
static void count_row(const counting *c, const float *scores, const uint64_t *fired, share_count *to)
{
    size_t n = c->task->neuron_count, each = c->task->expert_neurons, routed = each > 0 ? c->task->routed : 0;
    for (size_t begin = 0; begin < routed; begin += each)
        if (bits_any(fired, begin, begin + each))
            count_neurons(c, scores, fired, begin, begin + each, to);
    count_neurons(c, scores, fired, routed, n, to);
}

/* Work items are the task's rows. */
static void count_rows(void *context, size_t begin, size_t end, unsigned worker)
{
    const counting *c = context;
    const recall_task *t = c->task;
    float *scores = c->scores + (size_t)worker * RECALL_ROWS * t->neuron_count;
    uint64_t *fired = c->fired + (size_t)worker * RECALL_ROWS * c->words;
    for (size_t from = begin; from < end; from += RECALL_ROWS) {
        uint32_t rows[RECALL_ROWS];
        size_t n = end - from < RECALL_ROWS ? end - from : RECALL_ROWS;
        for (size_t i = 0; i < n; i++)
            rows[i] = (uint32_t)(t->first + (from + i) * t->stride);
        states_read(t->rows, rows, n, false, NULL, fired);
        t->score(t->context, rows, n, worker, scores);
        for (size_t i = 0; i < n; i++)
            count_row(c, scores + i * t->neuron_count, fired + i * c->words, c->tallies + worker * c->bins);
    }
}

/* Counts all rows; the sums of all workers are in the first worker's tallies afterwards. */
static void count(counting *c)
{
    size_t threads = pool_threads(c->task->threads);
    memset(c->tallies, 0, threads * c->bins * sizeof *c->tallies);
    pool_run(c->task->threads, c->row_count, RECALL_ROWS, count_rows, c);
    for (size_t w = 1; w < threads; w++)
        for (size_t i = 0; i < c->bins; i++)
            add(&c->tallies[i], &c->tallies[w * c->bins + i]);
}

/* Allocates the buffers; end_counting frees them, after a failure too. */
static hearth_status begin_counting(counting *c, const recall_task *task, hearth_error *error)
{
    size_t threads = pool_threads(task->threads);
    *c = (counting){.task = task, .words = states_words(task->rows), .bins = (size_t)1 << UPPER_BITS};
    c->row_count = task->end > task->first ? (task->end - task->first + task->stride - 1) / task->stride : 0;
    c->tallies = mem_new_array(threads * c->bins, sizeof *c->tallies);
    c->scores = mem_new_array(threads * RECALL_ROWS * task->neuron_count, sizeof *c->scores);
    c->fired = mem_new_array(threads * RECALL_ROWS * c->words, sizeof *c->fired);
    if (c->tallies && c->scores && c->fired)
        return HEARTH_OK;
    return fail_memory(error, task->thing,
                       threads * (c->bins * sizeof(share_count) + RECALL_ROWS * task->neuron_count * 4));
}

static void end_counting(counting *c)
{
    mem_free(c->tallies);
    mem_free(c->scores);
    mem_free(c->fired);
}

/* Descends from the highest bin until at least `wanted` firing neurons are counted; returns the bin in which that
 * happens. *above: the sum of the bins above that one. */
static size_t descend(const share_count *tallies, size_t bins, uint64_t wanted, share_count *above)
{
    size_t at = bins - 1;
    while (at > 0 && above->fired + tallies[at].fired < wanted) {
        add(above, &tallies[at]);
        at--;
    }
    return at;
}

static share_count sum(const share_count *tallies, size_t from, size_t bins)
{
    share_count total = {0};
    for (size_t i = from; i < bins; i++)
        add(&total, &tallies[i]);
    return total;
}

/* Computes the shares from the neurons let through and from all. */
static recall_result shares(float threshold, share_count through, share_count all)
{
    return (recall_result){
        .threshold = threshold,
        .recall = all.fired ? (double)through.fired / (double)all.fired : 1,
        .density = all.all ? (double)through.all / (double)all.all : 0,
        .fired = through.all ? (double)through.fired / (double)through.all : 0,
    };
}

uint64_t recall_bytes(size_t neuron_count, size_t words, size_t threads)
{
    uint64_t row = neuron_count * sizeof(float) + words * sizeof(uint64_t);
    return threads * (((uint64_t)sizeof(share_count) << UPPER_BITS) + RECALL_ROWS * row);
}

hearth_status recall_find(const recall_task *task, float recall, bool rough, recall_result *out, hearth_error *error)
{
    counting c;
    hearth_status status;
    TRY_OR(done, status, begin_counting(&c, task, error));
    count(&c);
    share_count all = sum(c.tallies, 0, c.bins), above = {0};
    if (all.fired == 0) {
        *out = shares(FLT_MAX, above, all);
        goto done;
    }
    uint64_t wanted = (uint64_t)ceil((double)recall * (double)all.fired - 1e-9);
    wanted = wanted < 1 ? 1 : wanted > all.fired ? all.fired : wanted;
    c.bin = (uint32_t)descend(c.tallies, c.bins, wanted, &above);
    uint32_t place = c.bin << LOWER_BITS;
    if (rough) {
        add(&above, &c.tallies[c.bin]);
    } else {
        c.lower = true;
        count(&c);
        size_t at = descend(c.tallies, (size_t)1 << LOWER_BITS, wanted, &above);
        add(&above, &c.tallies[at]);
        place |= (uint32_t)at;
    }
    *out = shares(float_at_place(place), above, all);
    if (!isfinite(out->threshold))
        status = fail(error, HEARTH_FORMAT, "%s: its scores are not finite", task->thing);
done:
    end_counting(&c);
    return status;
}

hearth_status recall_at(const recall_task *task, float threshold, recall_result *out, hearth_error *error)
{
    counting c;
    hearth_status status;
    TRY_OR(done, status, begin_counting(&c, task, error));
    count(&c);
    uint32_t place = float_place(threshold), lower = place & ((1u << LOWER_BITS) - 1);
    c.bin = place >> LOWER_BITS;
    share_count all = sum(c.tallies, 0, c.bins), through = sum(c.tallies, c.bin + 1, c.bins);
    c.lower = true;
    count(&c);
    share_count of_bin = sum(c.tallies, lower, (size_t)1 << LOWER_BITS);
    add(&through, &of_bin);
    *out = shares(threshold, through, all);
done:
    end_counting(&c);
    return status;
}

/* ------------------------------------------------------------------ the engine's arithmetic */

/* Buffers of one thread, for RECALL_ROWS rows. */
typedef struct scoring_place {
    float *inputs; /* [RECALL_ROWS][input_width], for the caller */
    float *inner;  /* [RECALL_ROWS][inner_width], for the caller */
    int8_t *q;     /* the input of a product, quantised as kernel_input wants it */
    float *scales;
    int16_t *sums;
} scoring_place;

/* Multiplies matrices by rows of hidden states. A zeroed struct is closed. It must not be moved while it is open:
 * `kernels` may point into it. */
typedef struct scoring {
    const kernels *kernels;
    pool *threads;
    scoring_place *places; /* [threads] */
    kernels best;          /* used where no kernels were given */
    pool *own;             /* used where no threads were given */
} scoring;

/* Allocates the buffers of one thread. On failure some are missing; scoring_close frees the rest. */
static bool make_place(scoring_place *p, size_t input_width, size_t inner_width)
{
    size_t widest = input_width > inner_width ? input_width : inner_width;
    p->inputs = mem_new_array(RECALL_ROWS * input_width, sizeof *p->inputs);
    p->inner = mem_new_array(RECALL_ROWS * inner_width, sizeof *p->inner);
    p->q = mem_new_array(RECALL_ROWS, widest);
    p->scales = mem_new_array(RECALL_ROWS * (widest / Q8_BLOCK + 1), sizeof *p->scales);
    p->sums = mem_new_array(RECALL_ROWS * (widest / Q8_SUM + 1), sizeof *p->sums);
    return p->inputs && p->inner && p->q && p->scales && p->sums;
}

static void scoring_close(scoring *s)
{
    for (size_t i = 0; s->places && i < pool_threads(s->threads); i++) {
        scoring_place *p = &s->places[i];
        mem_free(p->inputs);
        mem_free(p->inner);
        mem_free(p->q);
        mem_free(p->scales);
        mem_free(p->sums);
    }
    mem_free(s->places);
    pool_destroy(s->own);
    *s = (scoring){0};
}

/* Allocates the buffers of all threads. by NULL: the kernels of kernel_level_choose(). threads NULL: the calling thread
 * alone. The widths are the most columns of any input. thing: for errors. On failure *s is closed. */
static hearth_status scoring_open(scoring *s, const kernels *by, pool *threads, size_t input_width, size_t inner_width,
                                  const char *thing, hearth_error *error)
{
    size_t level;
    *s = (scoring){.threads = threads, .kernels = by};
    TRY(kernel_level_choose(&level, NULL, error));
    if (!by) {
        kernels_for(level, &s->best);
        s->kernels = &s->best;
    }
    if (!threads) {
        TRY(pool_create(&s->own, 1, error));
        s->threads = s->own;
    }
    size_t count = pool_threads(s->threads);
    s->places = mem_new_array(count, sizeof *s->places);
    bool made = s->places != NULL;
    for (size_t i = 0; made && i < count; i++)
        made = make_place(&s->places[i], input_width, inner_width);
    if (made)
        return HEARTH_OK;
    scoring_close(s);
    return fail_memory(error, thing, count * RECALL_ROWS * (input_width + inner_width) * sizeof(float));
}

/* Computes y [count][rows of w] = x [count][columns of w] times all rows of w, for count <= RECALL_ROWS, on the thread
 * that owns `place`. */
static void scoring_multiply(const scoring *s, const scoring_place *place, const matrix *w, const float *x,
                             size_t count, float *y)
{
    kernel_input in = {.count = count, .columns = w->columns, .values = x};
    if (number_is_block(w->format)) {
        s->kernels->quantize(x, count * w->columns, place->q, place->scales, place->sums);
        in.q = place->q;
        in.scales = place->scales;
        in.sums = place->sums;
    }
    s->kernels->product[w->format](w, NULL, 0, w->rows, &in, y, w->rows);
}

/* Returns the task of all held-out rows. */
static recall_task held_out(const states *rows, const ffn_shape *shape, size_t neuron_count, const scoring *with,
                            recall_score *score, void *context, const char *thing)
{
    return (recall_task){.rows = rows,
                         .first = states_training_count(rows),
                         .end = states_count(rows),
                         .stride = 1,
                         .neuron_count = neuron_count,
                         .expert_neurons = shape->router.expert_count > 0 ? shape->expert_neurons : 0,
                         .routed = ffn_routed(shape),
                         .threads = with->threads,
                         .score = score,
                         .context = context,
                         .thing = thing};
}

/* ------------------------------------------------------------------ low-rank */

/* Context of score_lowrank. */
typedef struct lowrank_scores {
    const lowrank *predictor;
    const states *rows;
    bool normed;
    scoring with; /* inner: hidden units */
} lowrank_scores;

/* A recall_score with the engine's kernels, on stored matrices. */
static void score_lowrank(void *context, const uint32_t *rows, size_t count, unsigned worker, float *scores)
{
    const lowrank_scores *s = context;
    const matrix *fc1 = &s->predictor->fc1, *fc2 = &s->predictor->fc2;
    const scoring_place *place = &s->with.places[worker];
    states_read(s->rows, rows, count, s->normed, place->inputs, NULL);
    scoring_multiply(&s->with, place, fc1, place->inputs, count, place->inner);
    s->with.kernels->activate[ACTIVATION_RELU](place->inner, NULL, no_terms, count * fc1->rows, place->inner);
    scoring_multiply(&s->with, place, fc2, place->inner, count, scores);
}

static hearth_status check_shapes(const lowrank *l, const hearth_model *model, uint32_t layer, const char *thing,
                                  hearth_error *error)
{
    uint32_t d = model->hyper.embedding_length, f = model->layers[layer].ffn.neuron_count;
    if (l->fc1.columns != d || l->fc2.columns != l->fc1.rows || l->fc2.rows != f || l->fc1.rows == 0 ||
        l->fc1.rows > PREDICTOR_RANK_LIMIT)
        return fail(error, HEARTH_INVALID, "%s: predictor: its matrices are %u x %u and %u x %u", thing, l->fc1.rows,
                    l->fc1.columns, l->fc2.rows, l->fc2.columns);
    return HEARTH_OK;
}

hearth_status measure_lowrank(lowrank *io, const hearth_model *model, uint32_t layer, const states *rows, bool normed,
                              float recall, float threshold, const kernels *by, pool *threads, hearth_error *error)
{
    char thing[512];
    lowrank_scores s = {.predictor = io, .rows = rows, .normed = normed};
    recall_result result;
    const ffn_shape *shape = &model->layers[layer].ffn;
    snprintf(thing, sizeof thing, "%s: layer %u: predictor", model->source->path, layer);
    TRY(check_shapes(io, model, layer, model->source->path, error));
    TRY(scoring_open(&s.with, by, threads, io->fc1.columns, io->fc1.rows, thing, error));
    recall_task task = held_out(rows, shape, shape->neuron_count, &s.with, score_lowrank, &s, thing);
    hearth_status status = isfinite(threshold) ? recall_at(&task, threshold, &result, error)
                                               : recall_find(&task, recall, false, &result, error);
    scoring_close(&s.with);
    TRY(status);
    io->rank = io->fc1.rows;
    io->threshold = result.threshold;
    io->recall = result.recall;
    io->density = result.density;
    io->fired = result.fired;
    return HEARTH_OK;
}

/* ------------------------------------------------------------------ coarse */

/* Context of score_coarsely. */
typedef struct coarse_scores {
    const hearth_model *model;
    const model_layer *layer;
    const states *rows;
    const matrix *first;
    const float *bias;
    coarse_copy copy;
    scoring with; /* inner: products by row of the matrix; inputs: states, then those of experts of another width */
} coarse_scores;

/* Returns by how many deviations a product exceeds the value at which the neuron fires. */
static float surplus(float value, float activation_threshold, float deviation)
{
    float missing = value - activation_threshold;
    if (!(missing < 0) && !(deviation > 0))
        return MOST_DEVIATIONS;
    float s = deviation > 0 ? missing / deviation : -MOST_DEVIATIONS;
    return s < -MOST_DEVIATIONS ? -MOST_DEVIATIONS : s > MOST_DEVIATIONS ? MOST_DEVIATIONS : s;
}

/* A recall_score: computes the surplus of every neuron. */
static void score_coarsely(void *context, const uint32_t *rows, size_t count, unsigned worker, float *scores)
{
    const coarse_scores *s = context;
    const scoring_place *place = &s->with.places[worker];
    const matrix *latent = &s->layer->latent_in;
    size_t d = s->first->columns, f = s->first->rows;
    float activation_threshold = s->layer->ffn.threshold, *inputs = place->inputs;
    states_read(s->rows, rows, count, true, inputs, NULL);
    if (latent->data) {
        inputs += RECALL_ROWS * (size_t)latent->columns;
        scoring_multiply(&s->with, place, latent, place->inputs, count, inputs);
    }
    scoring_multiply(&s->with, place, &s->copy.rows, inputs, count, place->inner);
    for (size_t t = 0; t < count; t++) {
        float size = coarse_magnitude(inputs + t * d, d);
        for (size_t i = 0; i < f; i++) {
            float value = place->inner[t * f + i] + (s->bias ? s->bias[i] : 0);
            size_t neuron = s->layer->order ? (size_t)s->layer->order[i] : i;
            scores[t * f + neuron] = surplus(value, activation_threshold, size * s->copy.spread[i]);
        }
    }
}

/* Makes the copy and finds the margin: the negated threshold of the surplus with the wanted recall. */
static hearth_status calibrate(coarse_scores *s, number_format format, float recall, recall_result *out,
                               hearth_error *error)
{
    const char *path = s->model->source->path;
    recall_task task = held_out(s->rows, &s->layer->ffn, s->first->rows, &s->with, score_coarsely, s, path);
    TRY(coarse_create(&s->copy, s->with.threads, s->first, format, path, error));
    TRY(recall_find(&task, recall, false, out, error));
    /* where nothing fired, any margin will do: takes the lowest finite one */
    out->threshold = fminf(fmaxf(-out->threshold, -MOST_DEVIATIONS), MOST_DEVIATIONS);
    return HEARTH_OK;
}

hearth_status measure_coarse(recall_result *out, const hearth_model *model, uint32_t layer, const states *rows,
                             number_format format, float recall, const kernels *by, pool *threads, hearth_error *error)
{
    if (!ffn_predictable(&model->layers[layer].ffn))
        return fail(error, HEARTH_UNSUPPORTED, "%s: layer %u: coarse copy: activation %s is never zero",
                    model->source->path, layer, ffn_activations[model->layers[layer].ffn.activation].name);
    coarse_scores s = {.model = model,
                       .layer = &model->layers[layer],
                       .rows = rows,
                       .first = layer_first_matrix(&model->layers[layer]),
                       .bias = layer_first_bias(&model->layers[layer])};
    size_t width = s.first->columns; /* of what states hold, and behind it what latent_in makes of it */
    if (s.layer->latent_in.data)
        width += s.layer->latent_in.columns;
    TRY(scoring_open(&s.with, by, threads, width, s.first->rows, model->source->path, error));
    hearth_status status = calibrate(&s, format, recall, out, error);
    coarse_free(&s.copy);
    scoring_close(&s.with);
    return status;
}
