/* model_rows.c - see model_rows.h. Sums that decide bytes are taken in four lanes in double precision, in the order that
 * is written here. */
#include "model_rows.h"

#include "../src/base/memory.h"

#include <math.h> /* sqrt: exact by IEEE 754 */
#include <string.h>

/* Variance that all layers together add to the stream, whose tokens begin with 1. The networks' part is known in
 * advance, so thresholds take it into account. Attention's is not: over n unrelated tokens it averages to e / n of
 * what is given here (the weights are the exponentials of normal scores); so it is kept small. */
#define FFN_GROWTH       0.25
#define ATTENTION_GROWTH 0.05
#define LOGIT_SPREAD     2.5 /* standard deviation of the logits */
#define LOGIT_DOMAIN     3.0 /* what is added to those of the token's own domain, where there are several */
#define NORM_EPSILON     1e-5
#define HIDDEN_CONSTANT  8.0 /* of the predictor's units for the domains, large so that what multiplies it is small */
#define OFFSET           6.0 /* of the other units, in standard deviations: relu cuts off what lies below -6 */
#define OTHERS           4   /* directions that a neuron has besides its cluster's */
#define SAMPLE           65536

/* Streams of random numbers that belong to no matrix. */
enum { STREAM_RANKS = MATRIX_COUNT, STREAM_MOVES, STREAM_OTHERS, STREAM_SAMPLE };

static uint64_t key_of(const model_design *m, unsigned stream, uint32_t layer)
{
    return counter_key(m->seed, stream, layer);
}

static uint32_t free_of(const model_design *m)
{
    return m->shape.width - m->reserved;
}

static uint32_t directions_of(const model_design *m)
{
    return m->shape.rank - m->reserved;
}

/* Sum of a[i] * b[i]; n is a multiple of 4. */
static double dot(const float *a, const float *b, size_t n)
{
    double lane[4] = {0};
    for (size_t i = 0; i < n; i += 4)
        for (size_t k = 0; k < 4; k++)
            lane[k] += (double)a[i + k] * (double)b[i + k];
    return (lane[0] + lane[2]) + (lane[1] + lane[3]);
}

static void encode(number_format format, const float *values, uint32_t n, void *out)
{
    number_formats[format].encode(values, out, n);
}

static void decode(number_format format, const void *blocks, uint32_t n, float *out)
{
    number_formats[format].decode(blocks, out, n);
}

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

/* Standard deviation of the free coordinates behind so many layers, and the root mean square of all. */
static void stream_at(const model_design *m, uint32_t layers, double *stream, double *norm)
{
    double square = m->embedding_square + FFN_GROWTH * layers / m->shape.layers;
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

/* Ranks of the first domain at random; in the others, those of the neurons that move change places. */
static void deal_ranks(uint32_t *ranks, const model_design *m, uint32_t layer)
{
    uint32_t f = m->shape.neurons;
    for (uint32_t i = 0; i < f; i++)
        ranks[i] = i;
    for (uint32_t i = f; i-- > 1;)
        swap_values(&ranks[i], &ranks[counter_below(key_of(m, STREAM_RANKS, layer), i, i + 1)]);
    /* Neurons are in no order of hotness, so the first of them are as good a choice as any. */
    uint32_t moving = f - (uint32_t)(m->shared * f);
    for (uint32_t n = 1; n < m->domains; n++) {
        uint32_t *mine = ranks + (size_t)n * f;
        uint64_t key = counter_key(key_of(m, STREAM_MOVES, layer), n, 0);
        memcpy(mine, ranks, f * sizeof *mine);
        for (uint32_t i = moving; i-- > 1;)
            swap_values(&mine[i], &mine[counter_below(key, i, i + 1)]);
    }
}

static void fill_fc1_row(const model_design *m, const model_layer_plan *p, uint32_t row, float *out)
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
        fill_fc1_row(m, p, m->reserved + k, row);
        encode(format, row, d, blocks);
        decode(format, blocks, d, direction);
    }
}

hearth_status model_layer_plan_make(model_layer_plan *p, const model_design *m, uint32_t layer, hearth_error *error)
{
    size_t d = m->shape.width, f = m->shape.neurons, k = directions_of(m);
    if (!p->ranks) {
        p->ranks = mem_new_array(m->domains * f, sizeof *p->ranks);
        p->directions = mem_new_array((k + 2) * d, sizeof *p->directions);
        if (!p->ranks || !p->directions)
            return fail_memory(error, "layer", m->domains * f * sizeof *p->ranks + (k + 2) * d * sizeof(float));
    }
    p->layer = layer;
    stream_at(m, layer, &p->stream, &p->norm);
    deal_ranks(p->ranks, m, layer);
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

/* A neuron as the predictor sees it. */
typedef struct insight {
    uint32_t neuron;
    uint32_t direction[1 + OTHERS]; /* the cluster's first */
    double ahead[1 + OTHERS];       /* weight of each, as wanted */
} insight;

static insight insight_of(const model_design *m, const model_layer_plan *p, uint32_t neuron)
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

/* The sum of the neuron's directions, with the weights of its row of fc2 as the file gives them: sum [d], of which the
 * reserved coordinates are the constants' part. Returns the length of its free part. */
static double sum_directions(const model_design *m, const model_layer_plan *p, const insight *in, const float *weights,
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
        double tau = m->curve.tau[p->ranks[(size_t)n * m->shape.neurons + neuron]];
        double offset = (double)sum[32 * n] * m->constant;
        row[32 * n] = (float)(-(offset + tau * length * p->stream) / HIDDEN_CONSTANT);
    }
}

/* Row of fc2 as wanted [rank], and what it decodes to. In the K formats the constants lie in one block with weights,
 * which are rounded with regard to them: so a first guess of them is rounded too. sum: scratch [d]. */
static void fill_fc2_row(const model_design *m, const model_layer_plan *p, const insight *in, float *row,
                         float *decoded, float *sum, void *blocks)
{
    uint32_t rank = m->shape.rank;
    number_format format = model_format(m->format, rank);
    memset(row, 0, rank * sizeof *row);
    for (uint32_t i = 0; i <= OTHERS; i++)
        row[m->reserved + in->direction[i]] = (float)in->ahead[i];
    memcpy(decoded, row, rank * sizeof *row);
    for (int guess = 0; guess < 2; guess++) {
        double length = sum_directions(m, p, in, decoded, sum);
        set_score_constants(m, p, in->neuron, sum, length, row);
        encode(format, row, rank, blocks);
        decode(format, blocks, rank, decoded);
    }
}

/* --------------------------------------------------------------------- rows */

/* What a thread works with. */
typedef struct workplace {
    float *band;    /* [MODEL_BAND][columns] what is encoded      */
    float *sum;     /* [d] */
    float *decoded; /* [max(d, rank)] */
    float *wanted;  /* [rank] */
    void *blocks;   /* a row of d or rank */
} workplace;

static size_t largest_columns(const model_design *m)
{
    size_t most = m->shape.width > m->shape.neurons ? m->shape.width : m->shape.neurons;
    return most > m->shape.rank ? most : m->shape.rank;
}

size_t model_band_scratch(const model_design *m)
{
    return (MODEL_BAND + 4) * largest_columns(m) * sizeof(float);
}

static workplace workplace_in(const model_design *m, void *scratch)
{
    size_t columns = largest_columns(m);
    float *next = (float *)scratch + MODEL_BAND * columns;
    return (workplace){scratch, next, next + columns, next + 2 * columns, next + 3 * columns};
}

/* Row of gate as wanted [d], but for the thresholds, which follow from what it decodes to. w->sum has the neuron's
 * directions; it becomes their unit vector. */
static void fill_gate_directions(const model_design *m, const model_layer_plan *p, uint32_t neuron, double length,
                                 float *sum, float *row)
{
    uint32_t d = m->shape.width, count = free_of(m);
    double rho = m->curve.rho, rest = 1 - rho * rho - m->rounding_noise;
    float *direction = sum + m->reserved, *noise = row + m->reserved;
    counter_normals(&m->normals, key_of(m, MATRIX_GATE, p->layer), (uint64_t)neuron * d, count, 1, noise);
    /* Noise without a part along the directions, so that the correlation is what it should be in any one row. */
    double along = dot(noise, direction, count) / (length * length);
    for (uint32_t c = 0; c < count; c++)
        noise[c] -= (float)along * direction[c];
    double noise_length = sqrt(dot(noise, noise, count)), scale = p->norm / p->stream;
    float of_noise = (float)(scale * sqrt(rest > 0 ? rest : 0) / noise_length);
    float of_sum = (float)(scale * rho / length);
    for (uint32_t c = 0; c < count; c++)
        noise[c] = of_noise * noise[c] + of_sum * direction[c];
}

static void set_thresholds(const model_design *m, const model_layer_plan *p, uint32_t neuron, double length, float *row)
{
    for (uint32_t n = 0; n < m->domains; n++) {
        double t = m->curve.t[p->ranks[(size_t)n * m->shape.neurons + neuron]];
        row[32 * n] = (float)(-t * length * p->stream / m->constant);
    }
}

static void fill_gate_row(const model_design *m, const model_layer_plan *p, uint32_t neuron, const workplace *w,
                          float *row)
{
    uint32_t d = m->shape.width;
    number_format format = model_format(m->format, d);
    insight in = insight_of(m, p, neuron);
    fill_fc2_row(m, p, &in, w->wanted, w->decoded, w->sum, w->blocks);
    double length = sum_directions(m, p, &in, w->decoded, w->sum);
    memset(row, 0, d * sizeof *row);
    fill_gate_directions(m, p, neuron, length, w->sum, row);
    /* The thresholds belong to the row as it is read: with its true length, which rounding changes. */
    set_thresholds(m, p, neuron, p->norm / p->stream, row);
    encode(format, row, d, w->blocks);
    decode(format, w->blocks, d, w->decoded);
    const float *read = w->decoded + m->reserved;
    set_thresholds(m, p, neuron, sqrt(dot(read, read, free_of(m))), row);
}

/* Rows first .. first + count - 1 of a matrix, to be made in w.band. */
typedef struct band_job {
    const model_design *m;
    const model_layer_plan *p; /* NULL: of embedding and head */
    uint64_t key;              /* of the matrix */
    uint32_t first, count, columns;
    workplace w;
} band_job;

static float *row_of(const band_job *job, uint32_t i)
{
    return job->w.band + (size_t)i * job->columns;
}

/* Number of the first random number of row i's free part. */
static uint64_t number_of(const band_job *job, uint32_t i)
{
    return (uint64_t)(job->first + i) * job->m->shape.width + job->m->reserved;
}

static uint32_t domain_of_token(const model_design *m, uint32_t id)
{
    return (uint32_t)((uint64_t)id * m->domains / m->shape.vocabulary);
}

/* Random free parts, and zeros where the stream is reserved. */
static void fill_free(const band_job *job, double deviation)
{
    const model_design *m = job->m;
    for (uint32_t i = 0; i < job->count; i++) {
        float *row = row_of(job, i);
        memset(row, 0, m->reserved * sizeof *row);
        counter_normals(&m->normals, job->key, number_of(job, i), free_of(m), (float)deviation, row + m->reserved);
    }
}

/* What reads the stream, normed: products have variance 1. */
static void fill_reader(const band_job *job)
{
    fill_free(job, job->p->norm / (job->p->stream * sqrt(free_of(job->m))));
}

static void fill_embedding(const band_job *job)
{
    fill_free(job, 1);
    for (uint32_t i = 0; i < job->count; i++)
        row_of(job, i)[32 * domain_of_token(job->m, job->first + i)] = (float)job->m->constant;
}

static void fill_head(const band_job *job)
{
    const model_design *m = job->m;
    double stream, norm;
    stream_at(m, m->shape.layers, &stream, &norm);
    fill_free(job, LOGIT_SPREAD * norm / (stream * sqrt(free_of(m))));
    for (uint32_t i = 0; i < job->count && m->domains > 1; i++)
        row_of(job, i)[32 * domain_of_token(m, job->first + i)] = (float)(LOGIT_DOMAIN * norm / m->constant);
}

/* A row per coordinate that is written. Bands are reserved or free as a whole. */
static void fill_attention_output(const band_job *job)
{
    const model_design *m = job->m;
    uint32_t d = m->shape.width;
    float deviation = (float)sqrt(ATTENTION_GROWTH / m->shape.layers / d);
    memset(job->w.band, 0, (size_t)job->count * d * sizeof(float));
    if (job->first < m->reserved)
        return;
    for (uint32_t i = 0; i < job->count; i++)
        counter_normals(&m->normals, job->key, (uint64_t)(job->first + i) * d, d, deviation, row_of(job, i));
}

static double down_deviation(const model_design *m)
{
    return sqrt(FFN_GROWTH / m->shape.layers / m->curve.square);
}

static void fill_down_t(const band_job *job)
{
    fill_free(job, down_deviation(job->m));
}

/* The same numbers as in down_t. */
static void fill_down(const band_job *job)
{
    const model_design *m = job->m;
    uint64_t key = key_of(m, MATRIX_DOWN_T, job->p->layer);
    uint32_t d = m->shape.width, f = m->shape.neurons;
    float column[MODEL_BAND], deviation = (float)down_deviation(m);
    memset(job->w.band, 0, (size_t)job->count * f * sizeof(float));
    for (uint32_t n = 0; n < f && job->first >= m->reserved; n++) {
        counter_normals(&m->normals, key, (uint64_t)n * d + job->first, job->count, deviation, column);
        for (uint32_t i = 0; i < job->count; i++)
            row_of(job, i)[n] = column[i];
    }
}

static void fill_gate(const band_job *job)
{
    for (uint32_t i = 0; i < job->count; i++)
        fill_gate_row(job->m, job->p, job->first + i, &job->w, row_of(job, i));
}

static void fill_fc1(const band_job *job)
{
    for (uint32_t i = 0; i < job->count; i++)
        fill_fc1_row(job->m, job->p, job->first + i, row_of(job, i));
}

static void fill_fc2(const band_job *job)
{
    for (uint32_t i = 0; i < job->count; i++) {
        insight in = insight_of(job->m, job->p, job->first + i);
        fill_fc2_row(job->m, job->p, &in, row_of(job, i), job->w.decoded, job->w.sum, job->w.blocks);
    }
}

/* ----------------------------------------------------------------- matrices */

typedef enum extent { WIDTH, NEURONS, VOCABULARY, KEYS, RANK, EXTENT_COUNT } extent;

static uint32_t extent_of(const model_design *m, extent which)
{
    const model_shape *s = &m->shape;
    const uint32_t extents[EXTENT_COUNT] = {
        [WIDTH] = s->width,
        [NEURONS] = s->neurons,
        [VOCABULARY] = s->vocabulary,
        [KEYS] = s->width / s->heads * s->kv_heads,
        [RANK] = s->rank,
    };
    return extents[which];
}

// clang-format off
static const struct {
    extent rows, columns;
    void (*fill)(const band_job *job);
} matrices[MATRIX_COUNT] = {
    [MATRIX_EMBEDDING]        = {VOCABULARY, WIDTH,   fill_embedding},
    [MATRIX_HEAD]             = {VOCABULARY, WIDTH,   fill_head},
    [MATRIX_QUERY]            = {WIDTH,      WIDTH,   fill_reader},
    [MATRIX_KEY]              = {KEYS,       WIDTH,   fill_reader},
    [MATRIX_VALUE]            = {KEYS,       WIDTH,   fill_reader},
    [MATRIX_ATTENTION_OUTPUT] = {WIDTH,      WIDTH,   fill_attention_output},
    [MATRIX_GATE]             = {NEURONS,    WIDTH,   fill_gate},
    [MATRIX_UP]               = {NEURONS,    WIDTH,   fill_reader},
    [MATRIX_DOWN]             = {WIDTH,      NEURONS, fill_down},
    [MATRIX_DOWN_T]           = {NEURONS,    WIDTH,   fill_down_t},
    [MATRIX_FC1]              = {RANK,       WIDTH,   fill_fc1},
    [MATRIX_FC2]              = {NEURONS,    RANK,    fill_fc2},
};
// clang-format on

uint32_t model_matrix_rows(const model_design *m, model_matrix which)
{
    return extent_of(m, matrices[which].rows);
}

uint32_t model_matrix_columns(const model_design *m, model_matrix which)
{
    return extent_of(m, matrices[which].columns);
}

void model_band(const model_design *m, const model_layer_plan *plan, model_matrix which, number_format format,
                uint32_t first, uint32_t count, void *scratch, void *out)
{
    band_job job = {.m = m,
                    .p = plan,
                    .key = key_of(m, which, plan ? plan->layer : 0),
                    .first = first,
                    .count = count,
                    .columns = model_matrix_columns(m, which),
                    .w = workplace_in(m, scratch)};
    matrices[which].fill(&job);
    encode(format, job.w.band, count * job.columns, out);
}
