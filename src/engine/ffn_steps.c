/* ffn_steps.c - the three steps of a feed-forward network: select, gather, accumulate.
 *
 *   select      chooses the neurons to compute: all; or those whose activation is not zero, as the first matrix (gate,
 *               or up if there is no gate) tells; or of these only what a predictor or a coarse copy of the first
 *               matrix lets through; or those whose activation is large
 *   gather      multiplies the listed rows of the second matrix (up)
 *   accumulate  adds up the listed rows of down_t, times their activations
 *
 * Neurons are cut by number into slices, and threads take parts of one or more slices. With one token or few a thread takes
 * a part through all steps at once. The lists of several tokens are joined. With many tokens accumulate is a separate pass,
 * divided by columns. All give the same sums: one chain of additions per slice in the order of the neurons, then slice
 * after slice. */
#include "ffn_job.h"

#include <math.h>
#include <string.h>

/* Up to this many tokens share a joined list; the union of more would leave out hardly any neuron. */
#define UNION_TOKENS 16
/* A union with at least this share of the neurons is not worth a list. */
#define UNION_SHARE 0.75

/* ------------------------------------------------------------------ steps of a part */

/* Multiplies the neurons of a part with every token; y [count][f], at the offset of the part in every row. */
static void multiply_part(const ffn_job *job, const ffn_part *v, const matrix *w, const kernel_input *x, float *y)
{
    kernel_product *multiply_rows = kernels_of(job)->product[w->format];
    if (v->list)
        multiply_rows(w, v->list, 0, v->count, x, y + v->begin, job->neuron_count);
    else
        multiply_rows(w, NULL, v->begin, v->begin + v->count, x, y, job->neuron_count);
}

/* As multiply_part, of gate or up. Where gate and up of listed experts lie in one matrix, their rows have other numbers
 * there than the neurons. */
static void multiply_neurons(const ffn_job *job, const ffn_part *v, const matrix *w, float *y)
{
    ffn_part placed = *v;
    uint32_t each = job->l->ffn.expert_neurons;
    if (job->stride == 0) {
        multiply_part(job, v, w, &job->normed, y);
        return;
    }
    uint32_t *places = job->s->scratch.expert_places + v->begin;
    for (size_t i = 0; i < v->count; i++)
        places[i] = v->list[i] / each * job->stride + v->list[i] % each;
    placed.list = places;
    multiply_part(job, &placed, w, &job->normed, y);
}

/* Adds the bias of the neurons of a part for every token; bias may be NULL. */
static void add_bias(const ffn_job *job, const ffn_part *v, const float *bias, float *y)
{
    for (size_t t = 0; bias && t < job->count; t++)
        for (size_t i = 0; i < v->count; i++)
            y[t * job->neuron_count + v->begin + i] += bias[neuron_at(v, i)];
}

static activation_terms terms_of(const ffn_job *job)
{
    return (activation_terms){job->activation_threshold, job->l->ffn.curve};
}

void ffn_activate_first(const ffn_job *job, const float *first, size_t n, float *to)
{
    kernels_of(job)->activate[job->activation->kernel](first, NULL, terms_of(job), n, to);
}

/* Computes h of n neurons of one token whose first values are already activated: values up to the threshold in size
 * become zero, others are multiplied by up. NaN passes, as no comparison with it holds. */
static void prune(const ffn_job *job, const float *gate, const float *up, size_t n, float *h)
{
    float threshold = job->threshold, limit = job->activation->limits ? job->activation_threshold : 0;
    for (size_t i = 0; i < n; i++)
        h[i] = fabsf(gate[i]) <= threshold ? 0 : up ? gate[i] * kernel_limited(up[i], limit) : gate[i];
}

/* Computes the activations h of n neurons of one token; h is gate or up. */
void ffn_activate(const ffn_job *job, float *gate, float *up, size_t n, float *h)
{
    kernel_activation kind = job->activation->kernel;
    const ffn_shape *shape = &job->l->ffn;
    if (shape->gating == FFN_GATED_BOTH)
        kernels_of(job)->activate[kind](up, NULL, ffn_terms(shape), n, up);
    if (job->prunes)
        prune(job, gate, job->second.data ? up : NULL, n, h);
    else
        kernels_of(job)->activate[kind](gate, job->second.data ? up : NULL, terms_of(job), n, h);
}

/* Multiplies activations of a part by the shares of their experts; rows ascend, and so do their experts. */
static void apply_shares(const ffn_job *job, const ffn_part *v, float *h)
{
    uint32_t each = job->l->ffn.expert_neurons, end = 0;
    float share = 0;
    for (size_t i = 0; i < v->count; i++) {
        uint32_t row = neuron_at(v, i);
        if (row >= end) {
            share = job->shares[row / each];
            end = (row / each + 1) * each;
        }
        h[i] *= share;
    }
}

/* Returns whether shares multiply what experts read: their products with it then, where tokens are one job. */
static bool weighs_input(const ffn_job *job)
{
    return job->shares && job->l->ffn.router.weighs_input;
}

/* Computes the scores of a coarse copy: upper bounds of the first values that are very likely to hold. y is laid out as
 * by multiply_part. */
static void score_coarsely(const ffn_job *job, const ffn_part *v, float *y)
{
    const coarse_copy *copy = &job->coarse;
    multiply_part(job, v, &copy->rows, &job->normed, y);
    add_bias(job, v, job->first_bias, y);
    for (size_t t = 0; t < job->count; t++)
        coarse_widen(copy, v->list, v->begin, v->count, job->threshold, job->s->scratch.size[t],
                     y + t * job->neuron_count + v->begin);
}

/* Computes the predictor's scores of a part that is still whole. They go to b->score by row, where zero_unpredicted()
 * and observers look them up. Returns them in the layout of multiply_part; if the CPU has only some of the rows, that
 * is b->up, which is free until the second matrix is multiplied. */
static const float *predict_part(const ffn_job *job, const ffn_part *v)
{
    const scratch *b = &job->s->scratch;
    float *y = v->list ? b->up : b->score;
    if (job->e->selector == SELECTOR_COARSE)
        score_coarsely(job, v, y);
    else
        multiply_part(job, v, &job->fc2, &job->hidden, y);
    if (job->recall)
        recall_probe(job, v, y);
    if (!v->list)
        return b->score;
    for (size_t t = 0; t < job->count; t++)
        for (size_t i = 0; i < v->count; i++)
            b->score[t * job->neuron_count + v->list[i]] = b->up[t * job->neuron_count + v->begin + i];
    return b->up;
}

/* Keeps in the part only the neurons that pass the rule, by `values` of the first token; `selected` receives the values
 * that remain, or is NULL. */
static void filter(const ffn_job *job, ffn_part *v, kernel_selection rule, const float *values, float threshold,
                   float *selected)
{
    uint32_t *list = job->s->scratch.list + v->begin;
    v->count = kernels_of(job)->select[rule](values, v->list, v->begin, v->count, threshold, list, selected);
    v->list = list;
}

/* Returns the value that first values must exceed for a neuron to fire. */
static float passing_value(const ffn_job *job)
{
    return job->prunes ? job->threshold : job->activation_threshold;
}

/* Returns how first values are compared with it. Where they were cut none is below 0, and NaN is to pass, as every value
 * is NaN where one was. */
static kernel_selection passing_rule(const ffn_job *job)
{
    return job->prunes || job->cuts ? SELECT_BEYOND : SELECT_ABOVE;
}

/* Computes the first values of a part for every token. */
static void multiply_first(const ffn_job *job, const ffn_part *v)
{
    multiply_neurons(job, v, &job->first, job->s->scratch.gate);
    if (weighs_input(job))
        apply_shares(job, v, job->s->scratch.gate + v->begin);
    add_bias(job, v, job->first_bias, job->s->scratch.gate);
}

/* Items are parts. */
void ffn_multiply_first(void *context, size_t begin, size_t end, unsigned worker)
{
    (void)worker;
    const ffn_job *job = context;
    for (size_t i = begin; i < end; i++)
        multiply_first(job, &job->s->scratch.parts[i]);
}

/* The sums are taken in the order of the neurons, so that all cuts of the work give the same. */
void ffn_cut(const ffn_job *job, float *first)
{
    size_t n = job->neuron_count;
    double sum = 0, squares = 0;
    for (size_t i = 0; i < n; i++)
        sum += (double)first[i];
    double mean = sum / (double)n;
    for (size_t i = 0; i < n; i++)
        squares += ((double)first[i] - mean) * ((double)first[i] - mean);
    double least = mean + (double)job->l->ffn.cut * sqrt(squares / (double)n);
    for (size_t i = 0; i < n; i++)
        first[i] = (double)first[i] <= least ? 0 : (float)((double)first[i] - least);
}

/* Items are tokens. */
void ffn_cut_rows(void *context, size_t begin, size_t end, unsigned worker)
{
    (void)worker;
    const ffn_job *job = context;
    for (size_t t = begin; t < end; t++)
        ffn_cut(job, job->s->scratch.gate + t * job->neuron_count);
}

/* ------------------------------------------------------------------ one token */

/* Selects the neurons of a part for one token: by its predictor, then by first values. */
static void select_one(const ffn_job *job, ffn_part *v)
{
    const scratch *b = &job->s->scratch;
    float *first = b->gate + v->begin;
    if (job->predicts)
        filter(job, v, SELECT_FROM, predict_part(job, v) + v->begin, job->passes, NULL);
    v->computed = v->count;
    if (!job->cuts)
        multiply_first(job, v);
    if (job->prunes)
        ffn_activate_first(job, first, v->count, first);
    if (job->skips_zeros)
        filter(job, v, passing_rule(job), first, passing_value(job), first);
    v->fired = v->count;
}

/* Computes the second values and the activations of the neurons that remain. */
static void gather_one(const ffn_job *job, ffn_part *v)
{
    const scratch *b = &job->s->scratch;
    if (job->second.data) {
        multiply_neurons(job, v, &job->second, b->up);
        if (weighs_input(job))
            apply_shares(job, v, b->up + v->begin);
        add_bias(job, v, job->second_bias, b->up);
    }
    float *h = job->h + v->begin;
    ffn_activate(job, b->gate + v->begin, b->up + v->begin, v->count, h);
    if (job->skips_zeros && job->l->ffn.gating == FFN_GATED_BOTH)
        filter(job, v, SELECT_ABOVE, h, 0, h);
    if (job->shares && !weighs_input(job))
        apply_shares(job, v, h);
    v->active = v->count;
}

/* Returns the row of the neuron at a place among those that the CPU computes; for places beyond the last one, a number
 * above all rows. */
static size_t number_at(const ffn_job *job, size_t place)
{
    return !job->rows ? place : place < job->row_count ? job->rows[place] : job->neuron_count;
}

/* Finds the neurons of a part that belong to a slice, as a range for the kernels: [*from, *to) of the list, or of all
 * rows if there is none. *h is the array that the range indexes. */
static void find_slice(const ffn_job *job, const ffn_part *v, size_t slice, size_t *from, size_t *to, const float **h)
{
    size_t begin = slice * job->width, end = begin + job->width, last = v->begin + v->count;
    *from = v->list ? count_below(v->list, v->count, number_at(job, begin)) : begin;
    *to = v->list ? count_below(v->list, v->count, number_at(job, end)) : end < last ? end : last;
    *h = job->h + (v->list ? v->begin : 0);
}

/* ------------------------------------------------------------------ several tokens */

/* Sets wanted for each value that passes; returns how many do. */
typedef size_t mark_row(const float *values, size_t n, float threshold, uint8_t *wanted);

/* Defines a function for each rule of kernel.h; with the condition fixed and bytes instead of bool, compilers vectorise
 * the loop. */
/* clang-format off */
#define MARK(rule, condition)                                                                   \
    static size_t mark_##rule(const float *values, size_t n, float threshold, uint8_t *wanted)  \
    {                                                                                           \
        unsigned passed = 0;                                                                    \
        for (size_t i = 0; i < n; i++) {                                                        \
            unsigned passes = condition;                                                        \
            wanted[i] |= (uint8_t)passes;                                                       \
            passed += passes;                                                                   \
        }                                                                                       \
        return passed;                                                                          \
    }
MARK(above, values[i] > threshold)
MARK(from, !(values[i] < threshold))
MARK(beyond, !(fabsf(values[i]) <= threshold))
/* clang-format on */

static mark_row *const mark_rows[SELECT_COUNT] = {
    [SELECT_ABOVE] = mark_above, [SELECT_FROM] = mark_from, [SELECT_BEYOND] = mark_beyond};

/* Marks the neurons of the part that pass for any token; returns how often one passed. values [count][f] */
static size_t mark(const ffn_job *job, const ffn_part *v, kernel_selection rule, const float *values, float threshold)
{
    uint8_t *wanted = job->s->scratch.wanted + v->begin;
    size_t total = 0;
    memset(wanted, 0, v->count);
    for (size_t t = 0; t < job->count; t++)
        total += mark_rows[rule](values + t * job->neuron_count + v->begin, v->count, threshold, wanted);
    return total;
}

/* Keeps in the part only the marked neurons; position i of every token's row then belongs to the i-th of them. `values`
 * [count][f] are moved accordingly, or NULL. With many tokens, or if most neurons are marked, the part stays as it
 * is. */
static void join_lists(const ffn_job *job, ffn_part *v, float *values)
{
    const uint8_t *wanted = job->s->scratch.wanted + v->begin;
    size_t n = 0, joined = 0;
    for (size_t i = 0; i < v->count; i++)
        n += wanted[i];
    if (job->count > UNION_TOKENS || (double)n >= UNION_SHARE * (double)v->count)
        return;
    uint32_t *list = job->s->scratch.list + v->begin;
    for (size_t i = 0; i < v->count; i++) {
        if (!wanted[i])
            continue;
        list[joined] = neuron_at(v, i);
        for (size_t t = 0; values && t < job->count; t++) {
            float *row = values + t * job->neuron_count + v->begin;
            row[joined] = row[i];
        }
        joined++;
    }
    v->list = list;
    v->count = joined;
}

/* Zeroes for each token the neurons that its own predictor scores reject: another token put them on the list. */
static void zero_unpredicted(const ffn_job *job, const ffn_part *v)
{
    const scratch *b = &job->s->scratch;
    float zero = job->activation->limits ? 0 : job->activation_threshold;
    for (size_t t = 0; t < job->count; t++) {
        const float *score = b->score + t * job->neuron_count;
        float *first = b->gate + t * job->neuron_count + v->begin;
        for (size_t i = 0; i < v->count; i++)
            first[i] = score[neuron_at(v, i)] < job->passes ? zero : first[i];
    }
}

/* Selects the neurons of a part for several tokens, whose lists are joined. */
static void select_many(const ffn_job *job, ffn_part *v)
{
    const scratch *b = &job->s->scratch;
    v->computed = job->count * v->count;
    if (job->predicts) {
        v->computed = mark(job, v, SELECT_FROM, predict_part(job, v), job->passes);
        join_lists(job, v, NULL);
    }
    if (!job->cuts)
        multiply_first(job, v);
    if (job->predicts)
        zero_unpredicted(job, v);
    for (size_t t = 0; job->prunes && t < job->count; t++) {
        float *first = b->gate + t * job->neuron_count + v->begin;
        ffn_activate_first(job, first, v->count, first);
    }
    v->fired = v->computed;
    if (job->skips_zeros) {
        v->fired = mark(job, v, passing_rule(job), b->gate, passing_value(job));
        join_lists(job, v, b->gate);
    }
}

/* Computes second values and activations for every token, and counts the activations that are not zero. */
static void gather_many(const ffn_job *job, ffn_part *v)
{
    const scratch *b = &job->s->scratch;
    if (job->second.data) {
        multiply_neurons(job, v, &job->second, b->up);
        add_bias(job, v, job->second_bias, b->up);
    }
    size_t active = 0;
    for (size_t t = 0; t < job->count; t++) {
        size_t at = t * job->neuron_count + v->begin;
        float *h = job->h + at;
        ffn_activate(job, b->gate + at, b->up + at, v->count, h);
        unsigned nonzero = 0;
        for (size_t i = 0; i < v->count; i++)
            nonzero += h[i] != 0;
        active += nonzero;
    }
    v->active = job->skips_zeros ? active : v->fired;
}

/* ------------------------------------------------------------------ parts */

/* Items are parts. Selects and gathers. */
void ffn_choose(void *context, size_t begin, size_t end, unsigned worker)
{
    (void)worker;
    const ffn_job *job = context;
    for (size_t i = begin; i < end; i++) {
        ffn_part *v = &job->s->scratch.parts[i];
        (job->count == 1 ? select_one : select_many)(job, v);
        (job->count == 1 ? gather_one : gather_many)(job, v);
    }
}

/* Items are tokens. Applies the norm of the activations. The squares are added in the order of the neurons, so that a
 * skipped zero changes nothing. Where a device has neurons of the layer, it divides the sum of both sides by the
 * norm, and receives the squares for that. */
void ffn_norm_activations(void *context, size_t begin, size_t end, unsigned worker)
{
    (void)worker;
    const ffn_job *job = context;
    const scratch *b = &job->s->scratch;
    const float *weight = job->l->ffn_inner_norm.weight;
    for (size_t t = begin; t < end; t++) {
        float *h = job->h + t * job->neuron_count;
        double squares = 0;
        for (const ffn_part *v = b->parts; v < b->parts + b->part_count; v++)
            for (size_t i = 0; i < v->count; i++)
                squares += (double)h[v->begin + i] * (double)h[v->begin + i];
        double mean = squares / (double)job->neuron_count;
        float scale = (float)(1 / sqrt(mean + (double)job->s->engine->model->hyper.norm_epsilon));
        b->squares[t] = (float)squares;
        scale = job->e->form == FORM_SPLIT ? 1 : scale;
        for (const ffn_part *v = b->parts; v < b->parts + b->part_count; v++)
            for (size_t i = 0; i < v->count; i++)
                h[v->begin + i] *= scale * weight[neuron_at(v, i)];
    }
}

/* Items are parts. Leaves the sums of each slice for one token or few in b->sums: [slices][count][columns]. */
void ffn_accumulate_few(void *context, size_t begin, size_t end, unsigned worker)
{
    (void)worker;
    const ffn_job *job = context;
    const scratch *b = &job->s->scratch;
    const matrix *down = &job->down_t;
    size_t values = job->count * down->columns;
    for (size_t i = begin; i < end; i++) {
        const ffn_part *v = &b->parts[i];
        for (size_t slice = i * job->part_slices; slice < (i + 1) * job->part_slices && slice < job->slices; slice++) {
            const float *h;
            size_t from, to;
            find_slice(job, v, slice, &from, &to, &h);
            memset(b->sums + slice * values, 0, values * sizeof *b->sums);
            kernels_of(job)->accumulate[down->format](down, v->list, from, to, h, job->neuron_count, job->count,
                                                      b->sums + slice * values, down->columns);
        }
    }
}

/* Items are parts. Takes each through all steps. */
void ffn_work_on_parts(void *context, size_t begin, size_t end, unsigned worker)
{
    ffn_choose(context, begin, end, worker);
    ffn_accumulate_few(context, begin, end, worker);
}

/* Items are columns. Adds the sums of the slices of few tokens in order. */
void ffn_add_slices(void *context, size_t begin, size_t end, unsigned worker)
{
    (void)worker;
    const ffn_job *job = context;
    const scratch *b = &job->s->scratch;
    size_t d = job->down_t.columns;
    for (size_t t = 0; t < job->count; t++) {
        float *out = job->output + t * d + begin;
        memcpy(out, b->sums + t * d + begin, (end - begin) * sizeof *out);
        for (size_t i = 1; i < job->slices; i++)
            kernels_of(job)->add(b->sums + (i * job->count + t) * d + begin, end - begin, out);
    }
}

/* Items are pairs (group of tokens, chunk of columns). Sums each slice separately and adds it to the result. */
void ffn_accumulate_many(void *context, size_t begin, size_t end, unsigned worker)
{
    const ffn_job *job = context;
    const scratch *b = &job->s->scratch;
    const matrix *down = &job->down_t;
    size_t d = down->columns, f = job->neuron_count, chunks = (d + ACCUMULATE_COLUMNS - 1) / ACCUMULATE_COLUMNS;
    float *sum = b->chunk_sums + (size_t)worker * FFN_GROUP * ACCUMULATE_COLUMNS;
    kernel_accumulate_many *accumulate = kernels_of(job)->accumulate_many[down->format];
    for (size_t item = begin; item < end; item++) {
        size_t token = item / chunks * FFN_GROUP, column = item % chunks * ACCUMULATE_COLUMNS;
        size_t tokens = job->count - token < FFN_GROUP ? job->count - token : FFN_GROUP;
        size_t columns = d - column < ACCUMULATE_COLUMNS ? d - column : ACCUMULATE_COLUMNS;
        float *y = job->output + token * d + column;
        for (size_t i = 0; i < job->slices; i++) {
            const ffn_part *v = &b->parts[i / job->part_slices];
            const float *h;
            size_t from, to;
            find_slice(job, v, i, &from, &to, &h);
            memset(sum, 0, tokens * columns * sizeof *sum);
            accumulate(down, v->list, from, to, column, columns, h + token * f, f, tokens, sum, columns);
            for (size_t t = 0; t < tokens; t++)
                if (i == 0)
                    memcpy(y + t * d, sum + t * columns, columns * sizeof *sum);
                else
                    kernels_of(job)->add(sum + t * columns, columns, y + t * d);
        }
    }
}
