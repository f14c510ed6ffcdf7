/* model_plan.c - the design of a made model, what is common to the neurons of a layer, and what a predictor knows of
 * them: see model_rows.h. */
#include "model_internal.h"

#include "../src/base/memory.h"

#include <math.h> /* sqrt: exact by IEEE 754 */
#include <string.h>

#define NORM_EPSILON    1e-5
#define HIDDEN_CONSTANT 8.0 /* of the predictor's units for the domains, large so that what multiplies it is small */
#define OFFSET          6.0 /* of the other units, in standard deviations: relu cuts off what lies below -6 */
#define SAMPLE          65536

/* ------------------------------------------------------------------- design */

number_format model_format(number_format wanted, uint32_t columns)
{
    const number_format order[] = {wanted, FORMAT_Q8_0, FORMAT_F16};
    size_t i = 0;
    while (i < 2 && columns % number_formats[order[i]].block_values != 0)
        i++;
    return order[i];
}

/* What rounding makes of normal numbers x of variance 1: *gain is the mean of y^2; *noise the variance of y / b - x,
 * where b is the slope of y over x. */
static hearth_status measure_rounding(const model_design *m, double *gain, double *noise, hearth_error *error)
{
    number_format format = model_format(m->format, m->shape.width);
    float *x = mem_new_array(3 * (size_t)SAMPLE, sizeof *x);
    if (!x)
        return fail_memory(error, "rounding", 3 * (size_t)SAMPLE * sizeof *x);
    float *y = x + SAMPLE, *blocks = y + SAMPLE;
    counter_normals(&m->normals, key_of(m, STREAM_SAMPLE, 0), 0, SAMPLE, 1, x);
    encode(format, x, SAMPLE, blocks);
    decode(format, blocks, SAMPLE, y);
    double xx = dot(x, x, SAMPLE), xy = dot(x, y, SAMPLE), yy = dot(y, y, SAMPLE);
    *gain = yy / SAMPLE;
    *noise = (yy * xx / (xy * xy) - 1) * xx / SAMPLE;
    mem_free(x);
    return HEARTH_OK;
}

const layer_kind *model_kind(const model_shape *s, uint32_t layer)
{
    const model_family *f = s->family;
    const layer_kind *kind = f->kinds;
    char letter = s->pattern ? s->pattern[layer % strlen(s->pattern)] : 0;
    while (kind->letter != letter && kind < f->kinds + f->kind_count - 1)
        kind++;
    return kind;
}

layer_count model_count_layers(const model_shape *s, uint32_t before)
{
    layer_count count = {0};
    for (uint32_t i = 0; i < before; i++) {
        count.networks += model_kind(s, i)->network;
        count.recurrent += model_kind(s, i)->recurrent;
    }
    return count;
}

hearth_status model_design_finish(model_design *m, hearth_error *error)
{
    m->reserved = 32 * m->domains;
    if (2 * m->reserved > m->shape.width || 2 * m->reserved > m->shape.rank)
        return fail(error, HEARTH_INVALID, "%u domains need a model and a predictor of width %u, not %u and %u",
                    m->domains, 2 * m->reserved, m->shape.width, m->shape.rank);
    if (m->together > m->curve.rho * m->curve.rho)
        return fail(error, HEARTH_INVALID,
                    "together %g: neurons of a cluster cannot be more alike than the predictor knows them, %.3f",
                    m->together, m->curve.rho * m->curve.rho);
    m->constant = 0.5 * sqrt(m->shape.width);
    normal_table_fill(&m->normals);
    return measure_rounding(m, &m->embedding_square, &m->rounding_noise, error);
}

void model_stream_at(const model_design *m, uint32_t layers, double *stream, double *norm)
{
    layer_count all = model_count_layers(&m->shape, m->shape.layers), before = model_count_layers(&m->shape, layers);
    double square = m->embedding_square + (all.networks ? FFN_GROWTH * before.networks / all.networks : 0);
    square += m->shape.family->positions ? POSITION_SQUARE : 0;
    square += all.recurrent ? RECURRENT_GROWTH * before.recurrent / all.recurrent : 0;
    *stream = sqrt(square);
    *norm = sqrt((m->constant * m->constant + free_of(m) * square) / m->shape.width + NORM_EPSILON);
}

/* -------------------------------------------------------------------- layers */

static void swap_values(uint32_t *a, uint32_t *b)
{
    uint32_t kept = *a;
    *a = *b;
    *b = kept;
}

/* Ranks of an expert's neurons. Those of the first domain at random; in the others, those of the neurons that move
 * change places. */
static void deal_ranks(uint32_t *ranks, const model_design *m, uint32_t layer, uint32_t expert)
{
    uint32_t f = m->shape.neurons, all = all_neurons_of(m), at = expert * f;
    uint32_t *first = ranks + at;
    for (uint32_t i = 0; i < f; i++)
        first[i] = i;
    for (uint32_t i = f; i-- > 1;)
        swap_values(&first[i], &first[counter_below(key_of(m, STREAM_RANKS, layer), at + i, i + 1)]);
    /* Neurons are in no order of hotness, so the first of them are as good a choice as any. */
    uint32_t moving = f - (uint32_t)(m->shared * f);
    for (uint32_t n = 1; n < m->domains; n++) {
        uint32_t *mine = first + (size_t)n * all;
        uint64_t key = counter_key(key_of(m, STREAM_MOVES, layer), n, 0);
        memcpy(mine, first, f * sizeof *mine);
        for (uint32_t i = moving; i-- > 1;)
            swap_values(&mine[i], &mine[counter_below(key, at + i, i + 1)]);
    }
}

void model_fc1_row(const model_design *m, const model_layer_plan *p, uint32_t row, float *out)
{
    uint32_t d = m->shape.width;
    memset(out, 0, d * sizeof *out);
    if (row < m->reserved && row % 32 == 0)
        out[row] = (float)(HIDDEN_CONSTANT / m->constant);
    if (row < m->reserved)
        return;
    for (uint32_t n = 0; n < m->reserved; n += 32)
        out[n] = (float)(OFFSET / m->constant);
    counter_normals(&m->normals, key_of(m, MATRIX_FC1, p->layer), (uint64_t)(row - m->reserved) * d, free_of(m),
                    (float)(1 / (p->stream * sqrt(free_of(m)))), out + m->reserved);
}

static void make_directions(model_layer_plan *p, const model_design *m, float *row, void *blocks)
{
    uint32_t d = m->shape.width;
    number_format format = model_format(m->format, d);
    for (uint32_t k = 0; k < directions_of(m); k++) {
        float *direction = p->directions + (size_t)k * d;
        model_fc1_row(m, p, m->reserved + k, row);
        encode(format, row, d, blocks);
        decode(format, blocks, d, direction);
    }
}

hearth_status model_layer_plan_make(model_layer_plan *p, const model_design *m, uint32_t layer, hearth_error *error)
{
    size_t d = m->shape.width, f = all_neurons_of(m), k = directions_of(m);
    if (!p->ranks) {
        p->ranks = mem_new_array(m->domains * f, sizeof *p->ranks);
        p->directions = mem_new_array((k + 2) * d, sizeof *p->directions);
        if (!p->ranks || !p->directions)
            return fail_memory(error, "layer", m->domains * f * sizeof *p->ranks + (k + 2) * d * sizeof(float));
    }
    p->layer = layer;
    model_stream_at(m, layer, &p->stream, &p->norm);
    for (uint32_t expert = 0; expert < f / m->shape.neurons; expert++)
        deal_ranks(p->ranks, m, layer, expert);
    float *scratch = p->directions + k * d;
    make_directions(p, m, scratch, scratch + d);
    return HEARTH_OK;
}

void model_layer_plan_free(model_layer_plan *p)
{
    mem_free(p->ranks);
    mem_free(p->directions);
    *p = (model_layer_plan){0};
}

/* ------------------------------------------------------- the predictor's part */

insight model_insight(const model_design *m, const model_layer_plan *p, uint32_t neuron)
{
    uint32_t count = directions_of(m);
    uint64_t key = counter_key(key_of(m, STREAM_OTHERS, p->layer), neuron, 0), at = 0;
    double alike = m->together / (m->curve.rho * m->curve.rho);
    insight in = {.neuron = neuron};
    in.direction[0] = (uint32_t)((uint64_t)p->ranks[neuron] * count / m->shape.neurons);
    in.ahead[0] = sqrt(alike);
    for (uint32_t i = 1; i <= OTHERS; i++) {
        bool taken = true;
        while (taken) {
            in.direction[i] = counter_below(key, at++, count);
            taken = false;
            for (uint32_t j = 0; j < i; j++)
                taken |= in.direction[j] == in.direction[i];
        }
        in.ahead[i] = sqrt((1 - alike) / OTHERS) * (random_at(key, at++) & 1 ? 1 : -1);
    }
    return in;
}

double model_sum_directions(const model_design *m, const model_layer_plan *p, const insight *in, const float *weights,
                            float *sum)
{
    uint32_t d = m->shape.width;
    memset(sum, 0, d * sizeof *sum);
    for (uint32_t i = 0; i <= OTHERS; i++) {
        const float *direction = p->directions + (size_t)in->direction[i] * d;
        float weight = weights[m->reserved + in->direction[i]];
        for (uint32_t c = 0; c < d; c++)
            sum[c] += weight * direction[c];
    }
    return sqrt(dot(sum + m->reserved, sum + m->reserved, free_of(m)));
}

/* The constants of the neuron's row of fc2: the score is sum . stream - tau * (its standard deviation). */
static void set_score_constants(const model_design *m, const model_layer_plan *p, uint32_t neuron, const float *sum,
                                double length, float *row)
{
    for (uint32_t n = 0; n < m->domains; n++) {
        double tau = m->curve.tau[rank_of(m, p, n, neuron)];
        double offset = (double)sum[32 * n] * m->constant;
        row[32 * n] = (float)(-(offset + tau * length * p->stream) / HIDDEN_CONSTANT);
    }
}

void model_fc2_row(const model_design *m, const model_layer_plan *p, const insight *in, float *row, float *decoded,
                   float *sum, void *blocks)
{
    uint32_t rank = m->shape.rank;
    number_format format = model_format(m->format, rank);
    memset(row, 0, rank * sizeof *row);
    for (uint32_t i = 0; i <= OTHERS; i++)
        row[m->reserved + in->direction[i]] = (float)in->ahead[i];
    memcpy(decoded, row, rank * sizeof *row);
    for (int guess = 0; guess < 2; guess++) {
        double length = model_sum_directions(m, p, in, decoded, sum);
        set_score_constants(m, p, in->neuron, sum, length, row);
        encode(format, row, rank, blocks);
        decode(format, blocks, rank, decoded);
    }
}
