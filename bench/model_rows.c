/* model_rows.c - see model_rows.h. */
#include "model_internal.h"

#include <math.h> /* sqrt: exact by IEEE 754 */
#include <string.h>

#define LOGIT_SPREAD   2.5 /* standard deviation of the logits */
#define LOGIT_DOMAIN   3.0 /* what is added to those of the token's own domain, where there are several */
#define ROUTER_DOMAIN  0.7 /* deviation of what a domain adds to a router's product, which has 1 of itself */
#define BIAS_DEVIATION 0.5
#define DECAY_LOW      1.0 /* A of recurrent mixers, and their step sizes */
#define DECAY_HIGH     16.0
#define STEP_LOW       0.001
#define STEP_HIGH      0.1

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
    size_t most = 0;
    for (unsigned i = 0; i < MATRIX_COUNT; i++)
        most = model_matrix_columns(m, i) > most ? model_matrix_columns(m, i) : most;
    return most;
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

/* Biases of the first matrix, four neurons at a time: first is a multiple of 4. */
static void make_biases(const model_design *m, uint32_t layer, uint32_t first, uint32_t count, float *out)
{
    counter_normals(&m->normals, key_of(m, VECTOR_FIRST_BIAS, layer), first, count, BIAS_DEVIATION, out);
}

static double bias_of(const model_design *m, uint32_t layer, uint32_t neuron)
{
    float biases[4] = {0};
    if (m->shape.family->biases)
        make_biases(m, layer, neuron / 4 * 4, 4, biases);
    return (double)biases[neuron % 4];
}

static void set_thresholds(const model_design *m, const model_layer_plan *p, uint32_t neuron, double length, float *row)
{
    double bias = bias_of(m, p->layer, neuron);
    for (uint32_t n = 0; n < m->domains; n++) {
        double t = m->curve.t[rank_of(m, p, n, neuron)] + bias;
        row[32 * n] = (float)(-t * length * p->stream / m->constant);
    }
}

static void fill_gate_row(const model_design *m, const model_layer_plan *p, uint32_t neuron, const workplace *w,
                          float *row)
{
    uint32_t d = m->shape.width;
    number_format format = model_format(m->format, d);
    insight in = model_insight(m, p, neuron);
    model_fc2_row(m, p, &in, w->wanted, w->decoded, w->sum, w->blocks);
    double length = model_sum_directions(m, p, &in, w->decoded, w->sum);
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
    const model_layer_plan *p;
    uint64_t key; /* of the matrix */
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

/* And, where there are several domains, what makes an expert more or less welcome in each: in part the same in all. */
static void fill_router(const band_job *job)
{
    enum { MOST = 64 }; /* domains */
    const model_design *m = job->m;
    float likes[1 + MOST + 3]; /* in all of them, and in each */
    double scale = job->p->norm / m->constant;
    fill_reader(job);
    for (uint32_t i = 0; i < job->count && m->domains > 1; i++) {
        counter_normals(&m->normals, counter_key(job->key, job->first + i, 1), 0, (m->domains + 4) / 4 * 4,
                        (float)(ROUTER_DOMAIN * scale), likes);
        for (uint32_t n = 0; n < m->domains; n++)
            row_of(job, i)[32 * n] = (float)sqrt(m->shared) * likes[0] + (float)sqrt(1 - m->shared) * likes[1 + n];
    }
}

/* Rows are counted from the last one, as PowerInfer's files have some before the first position. */
static void fill_positions(const band_job *job)
{
    const model_design *m = job->m;
    for (uint32_t i = 0; i < job->count; i++) {
        float *row = row_of(job, i);
        memset(row, 0, m->reserved * sizeof *row);
        counter_normals(&m->normals, job->key, (uint64_t)(m->shape.positions - 1 - job->first - i) * m->shape.width,
                        free_of(m), (float)sqrt(POSITION_SQUARE), row + m->reserved);
    }
}

static void fill_ones(const band_job *job)
{
    for (uint32_t i = 0; i < job->count * job->columns; i++)
        job->w.band[i] = 1;
}

static void fill_zeros(const band_job *job)
{
    memset(job->w.band, 0, job->columns * sizeof *job->w.band);
}

/* Values of variance 1 make values of variance 1. */
static void fill_convolution(const band_job *job)
{
    uint32_t n = job->columns;
    for (uint32_t i = 0; i < job->count; i++)
        for (uint32_t k = 0; k < n; k++) {
            float value[4];
            uint64_t at = (uint64_t)(job->first + i) * n + k;
            counter_normals(&job->m->normals, job->key, at / 4 * 4, 4, (float)(1 / sqrt(n)), value);
            row_of(job, i)[k] = value[at % 4];
        }
}

/* A number from 0 to 1. */
static double uniform_at(uint64_t key, uint64_t n)
{
    return (double)(random_at(key, n) >> 11) * 0x1p-53;
}

/* -A, a row per head or a vector of them. */
static void fill_decay(const band_job *job)
{
    for (uint32_t i = 0; i < job->count * job->columns; i++)
        job->w.band[i] =
            -(float)(DECAY_LOW + (DECAY_HIGH - DECAY_LOW) * uniform_at(job->key, job->first * job->columns + i));
}

/* What softplus makes the step size of. */
static void fill_step_bias(const band_job *job)
{
    double low = plant_log(STEP_LOW), high = plant_log(STEP_HIGH);
    for (uint32_t i = 0; i < job->columns; i++)
        job->w.band[i] = (float)plant_log(plant_exp(plant_exp(low + (high - low) * uniform_at(job->key, i))) - 1);
}

static void fill_first_bias(const band_job *job)
{
    make_biases(job->m, job->p->layer, 0, job->columns, job->w.band);
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
    model_stream_at(m, m->shape.layers, &stream, &norm);
    fill_free(job, LOGIT_SPREAD * norm / (stream * sqrt(free_of(m))));
    for (uint32_t i = 0; i < job->count && m->domains > 1; i++)
        row_of(job, i)[32 * domain_of_token(m, job->first + i)] = (float)(LOGIT_DOMAIN * norm / m->constant);
}

/* Where the embedding is the head, the last norm gives logits their spread. */
static void fill_output_norm(const band_job *job)
{
    const model_design *m = job->m;
    double stream, norm;
    model_stream_at(m, m->shape.layers, &stream, &norm);
    float value = m->shape.family->tied ? (float)(LOGIT_SPREAD * norm / (stream * sqrt(free_of(m)))) : 1;
    for (uint32_t i = 0; i < job->columns; i++)
        job->w.band[i] = value;
}

/* A row per coordinate that is written, of a mixer that adds `growth` to the variance of the stream. Bands are reserved or
 * free as a whole. */
static void fill_mixer_output(const band_job *job, double growth)
{
    const model_design *m = job->m;
    uint32_t n = job->columns;
    float deviation = (float)sqrt(growth / n);
    memset(job->w.band, 0, (size_t)job->count * n * sizeof(float));
    if (job->first < m->reserved)
        return;
    for (uint32_t i = 0; i < job->count; i++)
        counter_normals(&m->normals, job->key, (uint64_t)(job->first + i) * n, n, deviation, row_of(job, i));
}

static void fill_attention_output(const band_job *job)
{
    fill_mixer_output(job, ATTENTION_GROWTH / job->m->shape.layers);
}

static void fill_recurrent_output(const band_job *job)
{
    fill_mixer_output(job, RECURRENT_GROWTH / model_count_layers(&job->m->shape, job->m->shape.layers).recurrent);
}

/* Growth that one network owes to the chosen experts together, or to the shared one. */
static double network_growth(const model_design *m)
{
    double growth = FFN_GROWTH / model_count_layers(&m->shape, m->shape.layers).networks;
    return m->shape.shared_neurons > 0 ? growth / 2 : growth;
}

/* Mean sum of the squares of f activations. */
static double mean_square(const model_design *m)
{
    return m->squared ? m->curve.fourth : m->curve.square;
}

/* Each of the experts that a token is sent to adds its part of the output: the mean of them, about. */
static double down_deviation(const model_design *m)
{
    double scale = m->shape.routed_scale > 0 ? (double)m->shape.routed_scale : 1;
    return sqrt(network_growth(m) * m->shape.used / mean_square(m)) / scale;
}

static double shared_down_deviation(const model_design *m)
{
    return sqrt(network_growth(m) * m->shape.neurons / m->shape.shared_neurons / mean_square(m));
}

static void fill_down_t(const band_job *job)
{
    fill_free(job, down_deviation(job->m));
}

static void fill_shared_down_t(const band_job *job)
{
    fill_free(job, shared_down_deviation(job->m));
}

/* The same numbers as in the matrix with a row per neuron. */
static void fill_transposed(const band_job *job, model_matrix of, float deviation)
{
    const model_design *m = job->m;
    uint64_t key = key_of(m, of, job->p->layer);
    uint32_t d = m->shape.width, f = job->columns, expert = job->first / d, at = job->first % d;
    float column[MODEL_BAND];
    memset(job->w.band, 0, (size_t)job->count * f * sizeof(float));
    for (uint32_t n = 0; n < f && at >= m->reserved; n++) {
        counter_normals(&m->normals, key, ((uint64_t)expert * f + n) * d + at, job->count, deviation, column);
        for (uint32_t i = 0; i < job->count; i++)
            row_of(job, i)[n] = column[i];
    }
}

static void fill_down(const band_job *job)
{
    fill_transposed(job, MATRIX_DOWN_T, (float)down_deviation(job->m));
}

static void fill_shared_down(const band_job *job)
{
    fill_transposed(job, MATRIX_SHARED_DOWN_T, (float)shared_down_deviation(job->m));
}

static void fill_gate(const band_job *job)
{
    for (uint32_t i = 0; i < job->count; i++)
        fill_gate_row(job->m, job->p, job->first + i, &job->w, row_of(job, i));
}

static void fill_shared_gate(const band_job *job)
{
    for (uint32_t i = 0; i < job->count; i++)
        fill_gate_row(job->m, job->p, neurons_of(job->m) + job->first + i, &job->w, row_of(job, i));
}

static void fill_fc1(const band_job *job)
{
    for (uint32_t i = 0; i < job->count; i++)
        model_fc1_row(job->m, job->p, job->first + i, row_of(job, i));
}

static void fill_fc2(const band_job *job)
{
    for (uint32_t i = 0; i < job->count; i++) {
        insight in = model_insight(job->m, job->p, job->first + i);
        model_fc2_row(job->m, job->p, &in, row_of(job, i), job->w.decoded, job->w.sum, job->w.blocks);
    }
}

/* ----------------------------------------------------------------- matrices */

typedef enum extent {
    ONE,
    WIDTH,
    NETWORK, /* neurons of one network */
    NEURONS, /* of all experts         */
    OUTPUTS, /* of all experts         */
    VOCABULARY,
    QUERIES,
    KEYS,
    QKV,
    HEAD,
    RANK,
    EXPERTS,
    POSITIONS,
    SHARED, /* neurons of the shared expert */
    GATED,
    CHANNELS, /* of the convolution */
    WINDOW,   /* of the convolution */
    STEPS,    /* heads of a recurrent mixer */
    VALUES,   /* of all of them */
    VALUE,    /* of one */
    GROUPS,
    GROUP, /* values of one */
    RECURRENT,
    EXTENT_COUNT
} extent;

static uint32_t extent_of(const model_design *m, extent which)
{
    const model_shape *s = &m->shape;
    uint32_t queries = s->heads * s->head_length, keys = s->kv_heads * s->head_length;
    uint32_t values = s->recurrent.heads * s->recurrent.head_length;
    uint32_t channels = values + 2 * s->recurrent.groups * s->recurrent.state;
    const uint32_t extents[EXTENT_COUNT] = {
        [ONE] = 1,
        [WIDTH] = s->width,
        [NETWORK] = s->neurons,
        [NEURONS] = neurons_of(m),
        [OUTPUTS] = s->experts * s->width,
        [VOCABULARY] = s->vocabulary,
        [QUERIES] = queries,
        [KEYS] = keys,
        [QKV] = queries + 2 * keys,
        [HEAD] = s->head_length,
        [RANK] = s->rank,
        [EXPERTS] = s->experts,
        [POSITIONS] = s->positions,
        [SHARED] = s->shared_neurons,
        [GATED] = 2 * queries,
        [CHANNELS] = channels,
        [WINDOW] = s->recurrent.window,
        [STEPS] = s->recurrent.heads,
        [VALUES] = values,
        [VALUE] = s->recurrent.head_length,
        [GROUPS] = s->recurrent.groups,
        [GROUP] = s->recurrent.groups > 0 ? values / s->recurrent.groups : 0,
        [RECURRENT] = values + channels + s->recurrent.heads,
    };
    return extents[which];
}

// clang-format off
static const struct {
    extent rows, columns;
    void (*fill)(const band_job *job);
    bool exact; /* float32, though it is no vector */
} matrices[MATRIX_COUNT] = {
    [MATRIX_EMBEDDING]         = {VOCABULARY, WIDTH,    fill_embedding,         false},
    [MATRIX_HEAD]              = {VOCABULARY, WIDTH,    fill_head,              false},
    [MATRIX_QUERY]             = {QUERIES,    WIDTH,    fill_reader,            false},
    [MATRIX_KEY]               = {KEYS,       WIDTH,    fill_reader,            false},
    [MATRIX_VALUE]             = {KEYS,       WIDTH,    fill_reader,            false},
    [MATRIX_ATTENTION_OUTPUT]  = {WIDTH,      QUERIES,  fill_attention_output,  false},
    [MATRIX_GATE]              = {NEURONS,    WIDTH,    fill_gate,              false},
    [MATRIX_UP]                = {NEURONS,    WIDTH,    fill_reader,            false},
    [MATRIX_DOWN]              = {OUTPUTS,    NETWORK,  fill_down,              false},
    [MATRIX_DOWN_T]            = {NEURONS,    WIDTH,    fill_down_t,            false},
    [MATRIX_FC1]               = {RANK,       WIDTH,    fill_fc1,               false},
    [MATRIX_FC2]               = {NEURONS,    RANK,     fill_fc2,               false},
    [MATRIX_QKV]               = {QKV,        WIDTH,    fill_reader,            false},
    [MATRIX_POSITIONS]         = {POSITIONS,  WIDTH,    fill_positions,         false},
    [MATRIX_ROUTER]            = {EXPERTS,    WIDTH,    fill_router,            true},
    [VECTOR_NORM]              = {ONE,        WIDTH,    fill_ones,              false},
    [VECTOR_OUTPUT_NORM]       = {ONE,        WIDTH,    fill_output_norm,       false},
    [VECTOR_HEAD_NORM]         = {ONE,        HEAD,     fill_ones,              false},
    [VECTOR_FIRST_BIAS]        = {ONE,        NEURONS,  fill_first_bias,        false},
    [VECTOR_ZEROS]             = {ONE,        WIDTH,    fill_zeros,             false},
    [VECTOR_KEY_ZEROS]         = {ONE,        KEYS,     fill_zeros,             false},
    [MATRIX_SHARED_GATE]       = {SHARED,     WIDTH,    fill_shared_gate,       false},
    [MATRIX_SHARED_UP]         = {SHARED,     WIDTH,    fill_reader,            false},
    [MATRIX_SHARED_DOWN]       = {WIDTH,      SHARED,   fill_shared_down,       false},
    [MATRIX_SHARED_DOWN_T]     = {SHARED,     WIDTH,    fill_shared_down_t,     false},
    [VECTOR_SHARED_WEIGHT]     = {ONE,        WIDTH,    fill_reader,            false},
    [VECTOR_ROUTER_CORRECTION] = {ONE,        EXPERTS,  fill_zeros,             false},
    [MATRIX_RECURRENT_IN]      = {RECURRENT,  WIDTH,    fill_reader,            false},
    [MATRIX_RECURRENT_QKV]     = {CHANNELS,   WIDTH,    fill_reader,            false},
    [MATRIX_RECURRENT_GATE]    = {VALUES,     WIDTH,    fill_reader,            false},
    [MATRIX_RECURRENT_STEP]    = {STEPS,      WIDTH,    fill_reader,            false},
    [MATRIX_RECURRENT_BETA]    = {STEPS,      WIDTH,    fill_reader,            false},
    [MATRIX_CONVOLUTION]       = {CHANNELS,   WINDOW,   fill_convolution,       true},
    [VECTOR_CONVOLUTION_BIAS]  = {ONE,        CHANNELS, fill_zeros,             false},
    [VECTOR_STEP_BIAS]         = {ONE,        STEPS,    fill_step_bias,         false},
    [MATRIX_DECAY]             = {STEPS,      ONE,      fill_decay,             true},
    [VECTOR_DECAY]             = {ONE,        STEPS,    fill_decay,             false},
    [MATRIX_SKIP]              = {STEPS,      ONE,      fill_ones,              true},
    [MATRIX_RECURRENT_NORM]    = {GROUPS,     GROUP,    fill_ones,              true},
    [VECTOR_RECURRENT_NORM]    = {ONE,        VALUE,    fill_ones,              false},
    [MATRIX_RECURRENT_OUTPUT]  = {WIDTH,      VALUES,   fill_recurrent_output,  false},
    [MATRIX_GATED_QUERY]       = {GATED,      WIDTH,    fill_reader,            false},
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

bool model_matrix_is_exact(const model_design *m, model_matrix which)
{
    return matrices[which].exact || model_matrix_rows(m, which) == 1;
}

bool model_matrix_of_experts(const model_design *m, model_matrix which)
{
    extent rows = matrices[which].rows;
    return m->shape.experts > 1 && (rows == NEURONS || rows == OUTPUTS);
}

void model_band(const model_design *m, const model_layer_plan *plan, model_matrix which, number_format format,
                uint32_t first, uint32_t count, void *scratch, void *out)
{
    band_job job = {.m = m,
                    .p = plan,
                    .key = key_of(m, which, plan->layer),
                    .first = first,
                    .count = count,
                    .columns = model_matrix_columns(m, which),
                    .w = workplace_in(m, scratch)};
    matrices[which].fill(&job);
    encode(format, job.w.band, count * job.columns, out);
}
