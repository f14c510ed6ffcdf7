/* ffn_build.h - a model that is nothing but one feed-forward network, and the same in plain double precision.
 *
 * Attention's matrices are zero and the head is the identity, so that the logits are the normed sum of a token's
 * embedding and what the network made of it, whatever else was fed. The loop below knows nothing of lists, slices or
 * kernels: it takes the weights as `decode` gives them. */
#ifndef TESTS_FFN_BUILD_H
#define TESTS_FFN_BUILD_H

#include "../src/model/tune.h"
#include "../src/number/half.h"
#include "modes.h"

enum { BUILT_TOKENS = 40, BUILT_HEAD = 2 };

typedef struct built_shape {
    number_format format; /* of all matrices but ...                          */
    number_format down;   /* ... this one                                     */
    ffn_gating gating;
    uint32_t d, f, rank;        /* d >= BUILT_TOKENS                                */
    float activation_threshold; /* FATReLU's threshold; 0: ReLU                     */
    bool biases, stock;         /* layout                                           */
    bool ordered;               /* rows lie in another order                        */
    bool silu;                  /* instead of ReLU                                  */
    bool normed;                /* the predictor reads what the network reads       */
    bool coarse;                /* it is a coarse copy in the format ...            */
    number_format copy;         /* ... which fits d                                 */
} built_shape;

/* `values` of gate, up, down_t, fc1 and fc2 are what the reference reads. */
typedef struct built_matrix {
    matrix stored;
    double *values; /* [rows][columns] decoded                          */
} built_matrix;

typedef struct built {
    built_shape shape;
    checkpoint source;
    struct hearth_model model;
    model_layer layer;
    built_matrix gate, up, down_t, down, fc1, fc2, copy, embedding, head, nothing;
    float *gate_bias, *up_bias, *down_bias, *norm, *ones;
    int32_t *order; /* [f] the neuron that each row is                  */
    double frequency;
    rotary rotary;
    tune learnt; /* the model's: its one layer has the predictor */
    tune_layer learnt_layer;
    float threshold;           /* no score is near it; of a coarse copy, the margin */
    double passes;             /* what scores have to reach                        */
    float cut;                 /* in mode pruned: no size of an activated first value is near it */
    double *spread;            /* [f] by which rows of the copy are off             */
    double *score, *first, *h; /* [BUILT_TOKENS][f] by row                     */
    double *out;               /* [BUILT_TOKENS][d] logits; of the mode that was asked for */
} built;

static inline float built_random(uint32_t *seed)
{
    *seed = *seed * 1664525u + 1013904223u;
    return (float)(*seed >> 8) / 8388608.0f - 1.0f;
}

static inline float *built_vector(uint32_t n, float mean, float spread, uint32_t *seed)
{
    float *v = malloc(n * sizeof *v);
    for (uint32_t i = 0; i < n; i++)
        v[i] = mean + spread * built_random(seed);
    return v;
}

/* Encodes values [rows][columns], which it frees. */
static inline built_matrix built_store(float *values, number_format format, uint32_t rows, uint32_t columns)
{
    built_matrix m = {.stored = {.format = format, .rows = rows, .columns = columns}};
    assert_true(number_row_bytes(format, columns, &m.stored.row_bytes));
    char *data = malloc(rows * m.stored.row_bytes);
    m.values = malloc((size_t)rows * columns * sizeof *m.values);
    float *row = malloc(columns * sizeof *row);
    for (uint32_t r = 0; r < rows; r++) {
        number_formats[format].encode(values + (size_t)r * columns, NULL, data + r * m.stored.row_bytes, columns);
        number_formats[format].decode(data + r * m.stored.row_bytes, row, columns);
        for (uint32_t c = 0; c < columns; c++)
            m.values[(size_t)r * columns + c] = (double)row[c];
    }
    free(row);
    free(values);
    m.stored.data = data;
    return m;
}

static inline built_matrix built_random_matrix(number_format format, uint32_t rows, uint32_t columns, uint32_t *seed)
{
    return built_store(built_vector(rows * columns, 0, 2.0f / sqrtf((float)columns), seed), format, rows, columns);
}

/* Columns as rows, as the engine has to make them: the values of floats stay, those of blocks are rounded once more,
 * to Q8_0 with halves to even. Nothing is stored, the engine has only `m`. */
static inline built_matrix built_transposed(const built_matrix *m)
{
    uint32_t rows = m->stored.columns, columns = m->stored.rows;
    built_matrix out = {.values = malloc((size_t)rows * columns * sizeof *out.values)};
    for (uint32_t r = 0; r < rows; r++)
        for (uint32_t c = 0; c < columns; c++)
            out.values[(size_t)r * columns + c] = m->values[(size_t)c * rows + r];
    for (size_t b = 0; number_is_block(m->stored.format) && b < (size_t)rows * columns; b += 32) {
        float most = 0;
        for (size_t i = b; i < b + 32; i++)
            most = fmaxf(most, fabsf((float)out.values[i]));
        float scale = most / 127, stored = half_to_float(half_from_float(scale));
        for (size_t i = b; i < b + 32; i++)
            out.values[i] = most > 0 ? (double)(nearbyintf((float)out.values[i] * (1 / scale)) * stored) : 0;
    }
    return out;
}

static inline void built_free_matrix(built_matrix *m)
{
    free((void *)(uintptr_t)m->stored.data);
    free(m->values);
}

/* ------------------------------------------------------------------ the reference */

/* What a kernel reads where activations are rounded to 8 bits (kernel.h). */
static inline void built_round(double *x, size_t n)
{
    for (size_t b = 0; b < n; b += 32) {
        float most = 0;
        for (size_t i = b; i < b + 32; i++)
            most = fmaxf(most, fabsf((float)x[i]));
        for (size_t i = b; i < b + 32; i++)
            x[i] = most > 0 ? (double)(nearbyintf((float)x[i] * (127 / most)) * (most / 127)) : 0;
    }
}

/* y [rows] = m x, with x rounded where the format and `rounds` say so. */
static inline void built_multiply(const built_matrix *m, const double *x, bool rounds, double *y)
{
    size_t n = m->stored.columns;
    double *read = malloc(n * sizeof *read);
    memcpy(read, x, n * sizeof *read);
    if (rounds && number_is_block(m->stored.format))
        built_round(read, n);
    for (size_t r = 0; r < m->stored.rows; r++) {
        y[r] = 0;
        for (size_t c = 0; c < n; c++)
            y[r] += m->values[r * n + c] * read[c];
    }
    free(read);
}

static inline void built_norm(const double *x, const float *weight, size_t n, double *out)
{
    double squares = 0;
    for (size_t i = 0; i < n; i++)
        squares += x[i] * x[i];
    for (size_t i = 0; i < n; i++)
        out[i] = x[i] * (double)weight[i] / sqrt(squares / (double)n + 1e-5);
}

static inline int built_compare(const void *a, const void *b)
{
    double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

/* Where n values have the widest gap, from rank `from` to rank `to`. */
static inline float built_gap(const double *values, size_t n, size_t from, size_t to)
{
    double *sorted = malloc(n * sizeof *sorted), widest = 0;
    float middle = 0;
    memcpy(sorted, values, n * sizeof *sorted);
    qsort(sorted, n, sizeof *sorted, built_compare);
    for (size_t i = from; i < to; i++)
        if (sorted[i + 1] - sorted[i] > widest) {
            widest = sorted[i + 1] - sorted[i];
            middle = (float)((sorted[i] + sorted[i + 1]) / 2);
        }
    free(sorted);
    return middle;
}

static inline double built_act(const built *b, double x)
{
    if (b->shape.silu)
        return x / (1 + exp(-x));
    return x > (double)b->shape.activation_threshold ? x : 0;
}

/* The size of an activation before it meets up. */
static inline double built_size(const built *b, size_t at)
{
    return fabs(built_act(b, b->first[at]));
}

/* A score is what the copy makes of the input, widened by `threshold` deviations of its error: what rounding does to a
 * row, times the root mean square of the input, is the deviation over directions. */
static inline void built_score_coarsely(const built *b, const double *normed, bool rounds, double *score)
{
    const built_shape *o = &b->shape;
    const float *bias = o->gating == FFN_PLAIN ? b->up_bias : b->gate_bias;
    double squares = 0;
    for (size_t c = 0; c < o->d; c++)
        squares += normed[c] * normed[c];
    built_multiply(&b->copy, normed, rounds, score);
    for (size_t i = 0; i < o->f; i++)
        score[i] += (o->biases ? (double)bias[i] : 0) + (double)b->threshold * b->spread[i] * sqrt(squares / o->d);
}

/* A margin at which no score is near what makes a neuron fire. */
static inline void built_compute(built *b, hearth_mode mode, bool rounds);
static inline void built_choose_margin(built *b)
{
    double best = -1;
    float margin = 0;
    for (b->threshold = 0.5f; b->threshold < 1.5f; b->threshold += 0.0625f) {
        built_compute(b, HEARTH_MODE_DENSE, false);
        double nearest = INFINITY;
        for (size_t i = 0; i < (size_t)BUILT_TOKENS * b->shape.f; i++)
            nearest = fmin(nearest, fabs(b->score[i] - b->passes));
        if (nearest > best) {
            best = nearest;
            margin = b->threshold;
        }
    }
    b->threshold = margin;
}

static inline void built_choose_cut(built *b)
{
    size_t n = (size_t)BUILT_TOKENS * b->shape.f;
    double *sizes = malloc(n * sizeof *sizes);
    for (size_t i = 0; i < n; i++)
        sizes[i] = built_size(b, i);
    b->cut = built_gap(sizes, n, n * 5 / 8, n * 7 / 8); /* ReLU makes about half of them zero anyway */
    free(sizes);
}

/* Scores, first values, activations and logits of all tokens in a mode. */
static inline void built_compute(built *b, hearth_mode mode, bool rounds)
{
    const built_shape *o = &b->shape;
    double normed[512], hidden[512], x[512], *up = malloc(o->f * sizeof *up);
    bool whole = o->stock && mode == HEARTH_MODE_DENSE;
    for (size_t t = 0; t < BUILT_TOKENS; t++) {
        const double *residual = b->embedding.values + t * o->d;
        double *score = b->score + t * o->f, *first = b->first + t * o->f, *h = b->h + t * o->f;
        built_norm(residual, b->norm, o->d, normed);
        built_multiply(&b->fc1, o->normed ? normed : residual, rounds, hidden);
        for (size_t i = 0; i < o->rank; i++)
            hidden[i] = fmax(hidden[i], 0);
        if (o->coarse)
            built_score_coarsely(b, normed, rounds, score);
        else
            built_multiply(&b->fc2, hidden, rounds, score);
        built_multiply(o->gating == FFN_PLAIN ? &b->up : &b->gate, normed, rounds, first);
        built_multiply(&b->up, normed, rounds, up);
        const float *first_bias = o->gating == FFN_PLAIN ? b->up_bias : b->gate_bias;
        for (size_t i = 0; i < o->f; i++) {
            first[i] += o->biases ? (double)first_bias[i] : 0;
            up[i] += o->biases ? (double)b->up_bias[i] : 0;
            h[i] = built_act(b, first[i]);
            if (o->gating != FFN_PLAIN)
                h[i] *= o->gating == FFN_GATED_BOTH ? built_act(b, up[i]) : up[i];
            if (mode == HEARTH_MODE_PREDICTED && b->threshold != 0 && score[i] < b->passes)
                h[i] = 0;
            if (mode == HEARTH_MODE_PRUNED && built_size(b, t * o->f + i) <= (double)b->cut)
                h[i] = 0;
        }
        double *spoken = malloc(o->f * sizeof *spoken);
        memcpy(spoken, h, o->f * sizeof *spoken);
        if (whole && rounds && number_is_block(o->down))
            built_round(spoken, o->f);
        for (size_t c = 0; c < o->d; c++)
            x[c] = residual[c] + (o->biases ? (double)b->down_bias[c] : 0);
        for (size_t i = 0; i < o->f; i++)
            for (size_t c = 0; c < o->d; c++)
                x[c] += spoken[i] * (whole ? b->down.values[c * o->f + i] : b->down_t.values[i * o->d + c]);
        built_norm(x, b->ones, o->d, b->out + t * o->d);
        free(spoken);
    }
    free(up);
}

/* ------------------------------------------------------------------ the model */

static inline void built_make_copy(built *b)
{
    const built_shape *o = &b->shape;
    const built_matrix *first = o->gating == FFN_PLAIN ? &b->up : &b->gate;
    size_t n = (size_t)o->f * o->d;
    float *values = malloc(n * sizeof *values);
    for (size_t i = 0; i < n; i++)
        values[i] = (float)first->values[i];
    b->copy = built_store(values, o->copy, o->f, o->d);
    b->spread = calloc(o->f, sizeof *b->spread);
    for (size_t i = 0; i < n; i++)
        b->spread[i / o->d] += (first->values[i] - b->copy.values[i]) * (first->values[i] - b->copy.values[i]);
    for (size_t i = 0; i < o->f; i++)
        b->spread[i] = sqrt(b->spread[i]);
}

static inline void built_make_matrices(built *b, uint32_t *seed)
{
    const built_shape *o = &b->shape;
    b->gate = built_random_matrix(o->format, o->f, o->d, seed);
    b->up = built_random_matrix(o->format, o->f, o->d, seed);
    b->fc1 = built_random_matrix(o->format, o->rank, o->d, seed);
    b->fc2 = built_random_matrix(o->format, o->f, o->rank, seed);
    b->embedding = built_random_matrix(FORMAT_F32, o->d, o->d, seed);
    if (o->coarse)
        built_make_copy(b);
    if (o->stock) {
        b->down = built_random_matrix(o->down, o->d, o->f, seed);
        b->down_t = built_transposed(&b->down);
    } else {
        b->down_t = built_random_matrix(o->down, o->f, o->d, seed);
    }
    b->nothing = built_store(calloc((size_t)o->d * o->d, sizeof(float)), FORMAT_F32, o->d, o->d);
    float *identity = calloc((size_t)o->d * o->d, sizeof *identity);
    for (uint32_t i = 0; i < o->d; i++)
        identity[i * o->d + i] = 1;
    b->head = built_store(identity, FORMAT_F32, o->d, o->d);
}

static inline void built_make_model(built *b)
{
    const built_shape *o = &b->shape;
    /* attention that adds nothing, as small as can be: one head of two values */
    matrix in = b->nothing.stored, out = b->nothing.stored;
    in.rows = out.columns = BUILT_HEAD;
    out.row_bytes = BUILT_HEAD * sizeof(float);
    b->source.path = "built";
    b->rotary = (rotary){.pairs = 1, .magnitude = 1, .frequencies = &b->frequency};
    b->layer = (model_layer){.attention = {.head_count = 1,
                                           .kv_head_count = 1,
                                           .head_length = BUILT_HEAD,
                                           .value_length = BUILT_HEAD,
                                           .scale = 1,
                                           .value_scale = 1,
                                           .rotary = &b->rotary},
                             .ffn = {.neuron_count = o->f,
                                     .expert_neurons = o->f,
                                     .gating = o->gating,
                                     .activation = o->silu                       ? FFN_SILU
                                                   : o->activation_threshold > 0 ? FFN_FATRELU
                                                                                 : FFN_RELU,
                                     .threshold = o->silu ? 0 : o->activation_threshold},
                             .attention_norm = {.weight = b->ones},
                             .q = in,
                             .k = in,
                             .v = in,
                             .attention_output = out,
                             .ffn_norm = {.weight = b->norm},
                             .up = b->up.stored};
    learned_predictor coarse = {.kind = PREDICTOR_COARSE, .coarse_format = o->copy};
    learned_predictor low_rank = {.kind = PREDICTOR_LOW_RANK, .reads_normed = o->normed, .fc1 = b->fc1.stored};
    b->learnt_layer.predictor = o->coarse ? coarse : low_rank;
    if (!o->coarse)
        b->learnt_layer.fc2_by_row = b->fc2.stored;
    b->learnt = (tune){.layer_count = 1, .report = "", .has_predictors = true, .layers = &b->learnt_layer};
    if (o->gating != FFN_PLAIN)
        b->layer.gate = b->gate.stored;
    if (o->biases && o->gating != FFN_PLAIN)
        b->layer.gate_bias = b->gate_bias;
    if (o->biases)
        b->layer.up_bias = b->up_bias, b->layer.down_bias = b->down_bias;
    if (o->ordered)
        b->layer.order = b->order;
    *(o->stock ? &b->layer.down : &b->layer.down_t) = o->stock ? b->down.stored : b->down_t.stored;
    b->model = (struct hearth_model){.source = &b->source,
                                     .family = &families[0],
                                     .name = "built",
                                     .embedding = b->embedding.stored,
                                     .output_norm = {.weight = b->ones},
                                     .head = b->head.stored,
                                     .layers = &b->layer,
                                     .rotaries = &b->rotary,
                                     .rotary_count = 1,
                                     .neuron_major = !o->stock,
                                     .tune = &b->learnt};
    b->model.hyper = (hyperparameters){.layer_count = 1,
                                       .embedding_length = o->d,
                                       .vocabulary_size = o->d,
                                       .context_length = 512,
                                       .rope_pairs = 1,
                                       .norm_epsilon = 1e-5f,
                                       .embedding_scale = 1,
                                       .residual_scale = 1,
                                       .logit_scale = 1};
}

static inline built *built_new(const built_shape *shape)
{
    uint32_t seed = 7 + shape->f + 1000 * (uint32_t)shape->format;
    built *b = calloc(1, sizeof *b);
    const built_shape *o = &b->shape;
    b->shape = *shape;
    built_make_matrices(b, &seed);
    b->gate_bias = built_vector(o->f, 0, 0.5f, &seed);
    b->up_bias = built_vector(o->f, 0, 0.5f, &seed);
    b->down_bias = built_vector(o->d, 0, 0.5f, &seed);
    b->norm = built_vector(o->d, 1, 0.25f, &seed);
    b->ones = built_vector(o->d, 1, 0, &seed);
    b->order = malloc(o->f * sizeof *b->order);
    for (uint32_t i = 0; i < o->f; i++) /* 3 divides no f in use, so that this is every number once */
        b->order[i] = (int32_t)(o->ordered ? (3 * i + 1) % o->f : i);
    b->score = malloc((size_t)BUILT_TOKENS * o->f * sizeof *b->score);
    b->first = malloc((size_t)BUILT_TOKENS * o->f * sizeof *b->first);
    b->h = malloc((size_t)BUILT_TOKENS * o->f * sizeof *b->h);
    b->out = malloc((size_t)BUILT_TOKENS * o->d * sizeof *b->out);
    built_make_model(b);
    b->passes = o->silu ? 0 : (double)o->activation_threshold;
    if (o->coarse)
        built_choose_margin(b);
    built_compute(b, HEARTH_MODE_DENSE, false);
    size_t n = (size_t)BUILT_TOKENS * o->f;
    if (!o->coarse)
        b->passes = (double)(b->threshold = built_gap(b->score, n, n / 3, n * 2 / 3));
    built_choose_cut(b);
    return b;
}

static inline void built_free(built *b)
{
    built_matrix *all[] = {&b->gate, &b->up,   &b->down_t,    &b->down, &b->fc1,
                           &b->fc2,  &b->copy, &b->embedding, &b->head, &b->nothing};
    void *rest[] = {b->gate_bias, b->up_bias, b->down_bias, b->norm, b->ones,   b->order,
                    b->score,     b->first,   b->h,         b->out,  b->spread, b};
    for (size_t i = 0; i < sizeof all / sizeof *all; i++)
        built_free_matrix(all[i]);
    for (size_t i = 0; i < sizeof rest / sizeof *rest; i++)
        free(rest[i]);
}

#endif
