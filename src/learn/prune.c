/* prune.c - measures on hidden states how much each layer can be pruned, and shares out a budget among the layers.
 *
 * For a few hundred tokens, the activations of a layer are computed once and sorted into
 * bands by magnitude. The change of the layer's output when the bands up to k are dropped is
 * a running sum, so all grades together take one pass through the network. Only the layer's
 * own output is considered; how later layers amplify the error is left out, as in TEAL.
 *
 * Of a layer with experts the neurons of those that a token chose are considered, as if all had the same share; they are
 * known by what fired. The expert that every token uses is left out. Of experts of another width, the change of the
 * layer's output is estimated from that of their results, as if these had no preferred direction. */
#include "prune.h"

#include "../base/memory.h"
#include "../engine/engine.h"
#include "../model/neuron_major.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

/* Most tokens that are used: with f neurons each, f * 256 activations determine the thresholds. */
#define ROWS_MOST 256
/* Rows of weights per work item: whole tiles of the matrix kernels. */
#define RUN_ROWS 32

/* ------------------------------------------------------------------ dealing */

/* Returns the share of a layer's activations that one grade prunes. */
static double grade_share(const prune_curve *c)
{
    return (1 - c->natural) / PRUNE_GRADES;
}

/* Returns the cost of raising a layer from grade k to the next, per share of neurons. It is never less than that of an
 * earlier raise: otherwise
 * a dent in a noisy curve would prune one of two equal layers much and the other not at all. */
static double raise_cost(const prune_curve *c, uint32_t k)
{
    double most = 0;
    for (uint32_t i = 0; i <= k; i++)
        most = fmax(most, (c->errors[i + 1] - c->errors[i]) / grade_share(c));
    return most;
}

/* Returns the layer to prune next: the cheapest; of equally cheap ones the least pruned. `layers`: none is left. */
static size_t choose_layer(const prune_curve *curves, const uint32_t *now, const double *costs, size_t layers)
{
    size_t best = layers;
    for (size_t i = 0; i < layers; i++) {
        if (now[i * PRUNE_LEVELS] + 1 >= PRUNE_GRADES || grade_share(&curves[i]) <= 0)
            continue;
        if (best == layers || costs[i] < costs[best] ||
            (costs[i] == costs[best] && now[i * PRUNE_LEVELS] < now[best * PRUNE_LEVELS]))
            best = i;
    }
    return best;
}

/* Raises layers until the level's target is reached. `now` is the level's column of grades, costs [layers] are those of
 * the next raises. */
static void deal_level(double target, uint32_t *now, double *costs, const prune_curve *curves, size_t layers)
{
    double total = 0;
    for (size_t i = 0; i < layers; i++)
        total += curves[i].natural + grade_share(&curves[i]) * now[i * PRUNE_LEVELS];
    while (total < target - 1e-9) {
        size_t chosen = choose_layer(curves, now, costs, layers);
        if (chosen == layers)
            return;
        total += grade_share(&curves[chosen]);
        uint32_t k = ++now[chosen * PRUNE_LEVELS];
        costs[chosen] = k + 1 < PRUNE_GRADES ? raise_cost(&curves[chosen], k) : INFINITY;
    }
}

/* Computes all levels, each from the grades of the one before. */
static void spread(float *levels, uint32_t *grades, double *costs, const prune_curve *curves, size_t layers)
{
    double natural = 0;
    for (size_t i = 0; i < layers; i++) {
        natural += curves[i].natural / (double)layers;
        costs[i] = grade_share(&curves[i]) > 0 ? raise_cost(&curves[i], 0) : INFINITY;
        grades[i * PRUNE_LEVELS] = 0;
    }
    for (size_t l = 0; l < PRUNE_LEVELS; l++) {
        double level = natural + (1 - natural) * (double)l / PRUNE_LEVELS;
        levels[l] = (float)level;
        for (size_t i = 0; l > 0 && i < layers; i++)
            grades[i * PRUNE_LEVELS + l] = grades[i * PRUNE_LEVELS + l - 1];
        deal_level(level * (double)layers, grades + l, costs, curves, layers);
    }
}

hearth_status prune_spread(float *levels, uint32_t *grades, const prune_curve *curves, size_t layers,
                           hearth_error *error)
{
    double *costs = mem_new_array(layers, sizeof *costs);
    if (!costs)
        return fail_memory(error, "prune", layers * sizeof *costs);
    spread(levels, grades, costs, curves, layers);
    mem_free(costs);
    return HEARTH_OK;
}

/* ------------------------------------------------------------------ measuring a layer */

/* Buffers of a worker: the neurons of a token by band. */
typedef struct bands {
    uint32_t *list; /* [f]                              */
    float *h;       /* [f] their activations            */
    uint8_t *band;  /* [f] band of each neuron          */
    float *lost;    /* [width] change of the network's results */
} bands;

/* Everything about one layer; the buffers are allocated once for all layers. */
typedef struct survey {
    const hearth_runtime *runtime;
    const hearth_model *model;
    const model_layer *layer;
    matrix down_t;    /* the file's, or rows in `transposed` */
    void *transposed; /* [transposed_bytes], enough for the largest layer so far */
    size_t transposed_bytes;
    size_t row_count, d, f;
    uint32_t *rows;  /* [row_count] numbers of the rows of hidden states */
    float *residual; /* [row_count][d]                                   */
    float *normed;   /* [row_count][d]                                   */
    float *latent;   /* [row_count][width] what experts of another width read */
    size_t width;    /* values that the network reads and writes         */
    double widens;   /* square of the layer's output over that of the network's results; 1 where they are the same */
    uint64_t *fired; /* [row_count][words]                               */
    size_t words;
    float *first;         /* [row_count][f] the activated first matrix        */
    float *h;             /* [row_count][f] the input of down                 */
    float *sorted;        /* [row_count * f] magnitudes that are not zero     */
    double *errors;       /* [row_count][PRUNE_GRADES]                         */
    bands *workers;       /* [threads]                                        */
    float *worker_floats; /* [threads][f + the largest width]                 */
    uint32_t *worker_lists;
    uint8_t *worker_bands;
    prune_curve *curve; /* of this layer */
} survey;

typedef struct survey_product {
    const survey *s;
    const matrix *w;
    const float *x;    /* [row_count][columns of w]          */
    const float *bias; /* [f], or NULL: none                 */
    float *y;          /* [row_count][rows of w]             */
} survey_product;

static void multiply_rows(void *context, size_t begin, size_t end, unsigned worker)
{
    (void)worker;
    const survey_product *p = context;
    const survey *s = p->s;
    kernel_input x = {.count = s->row_count, .columns = p->w->columns, .values = p->x};
    s->runtime->kernels.product[p->w->format](p->w, NULL, begin, end, &x, p->y, p->w->rows);
    for (size_t t = 0; p->bias && t < s->row_count; t++)
        for (size_t i = begin; i < end; i++)
            p->y[t * s->f + i] += p->bias[i];
}

static void multiply(const survey *s, const matrix *w, const float *x, const float *bias, float *y)
{
    survey_product p = {s, w, x, bias, y};
    pool_run(s->runtime->threads, w->rows, RUN_ROWS, multiply_rows, &p);
}

static double square(const float *x, size_t n)
{
    double sum = 0;
    for (size_t i = 0; i < n; i++)
        sum += (double)x[i] * x[i];
    return sum;
}

/* Returns what a norm divides n values of this sum of squares by. */
static double divisor(float epsilon, double squares, size_t n)
{
    return sqrt(squares / (double)n + (double)epsilon);
}

/* Makes the activations of a token zero where the neuron did not fire: its expert was not chosen. */
static void leave_fired(const survey *s, size_t t)
{
    float *first = s->first + t * s->f, *h = s->h + t * s->f;
    for (size_t i = 0; i < s->f; i++)
        if (!(s->fired[t * s->words + i / 64] >> i % 64 & 1))
            first[i] = h[i] = 0;
}

/* Items are tokens. */
static void activate_rows(void *context, size_t begin, size_t end, unsigned worker)
{
    (void)worker;
    const survey *s = context;
    const ffn_shape *shape = &s->layer->ffn;
    kernel_activation kind = ffn_activations[shape->activation].kernel;
    for (size_t t = begin; t < end; t++) {
        float *first = s->first + t * s->f, *h = s->h + t * s->f;
        s->runtime->kernels.activate[kind](first, NULL, ffn_terms(shape), s->f, first);
        if (shape->gating == FFN_GATED_BOTH)
            s->runtime->kernels.activate[kind](h, NULL, ffn_terms(shape), s->f, h);
        for (size_t i = 0; (kind == ACTIVATION_SILU_LIMITED || kind == ACTIVATION_SILU_CLAMPED) && i < s->f; i++)
            h[i] = kernel_limited(h[i], shape->threshold);
        for (size_t i = 0; i < s->f; i++)
            h[i] = shape->gating == FFN_PLAIN ? first[i] : first[i] == 0 ? 0 : first[i] * h[i];
        if (shape->router.expert_count > 0)
            leave_fired(s, t);
        const float *inner = s->layer->ffn_inner_norm.weight;
        float scale = inner ? (float)(1 / divisor(s->model->hyper.norm_epsilon, square(h, s->f), s->f)) : 1;
        for (size_t i = 0; inner && i < s->f; i++)
            h[i] *= scale * inner[i];
    }
}

static int ascending(const void *a, const void *b)
{
    float x = *(const float *)a, y = *(const float *)b;
    return (x > y) - (x < y);
}

/* Sets the share of zeros, and the threshold of each grade: a quantile of the non-zero magnitudes. */
static void place_thresholds(const survey *s)
{
    size_t all = s->row_count * s->f, n = 0;
    for (size_t i = 0; i < all; i++)
        if (isfinite(s->first[i]) && s->first[i] != 0)
            s->sorted[n++] = fabsf(s->first[i]);
    qsort(s->sorted, n, sizeof *s->sorted, ascending);
    s->curve->natural = 1 - (double)n / (double)all;
    for (size_t k = 0; k < PRUNE_GRADES; k++) {
        size_t taken = n * k / PRUNE_GRADES;
        s->curve->thresholds[k] = taken > 0 ? s->sorted[taken - 1] : 0;
    }
}

/* Returns the first grade that prunes a magnitude; PRUNE_GRADES: none does. */
static uint8_t band_of(const prune_curve *c, float magnitude)
{
    uint8_t low = 0, high = PRUNE_GRADES;
    while (low < high) {
        uint8_t middle = (uint8_t)((low + high) / 2);
        if (magnitude <= c->thresholds[middle])
            high = middle;
        else
            low = (uint8_t)(middle + 1);
    }
    return low;
}

/* Sorts a token's neurons by band, in ascending order within each band; band k ends at ends[k]. */
static void sort_into_bands(const survey *s, const bands *own, size_t t, size_t *ends)
{
    const float *first = s->first + t * s->f, *h = s->h + t * s->f;
    size_t counts[PRUNE_GRADES + 1] = {0}, at = 0;
    for (size_t i = 0; i < s->f; i++)
        counts[own->band[i] = band_of(s->curve, fabsf(first[i]))]++;
    for (size_t k = 0; k <= PRUNE_GRADES; k++) {
        ends[k] = at;
        at += counts[k];
    }
    for (size_t i = 0; i < s->f; i++) {
        size_t to = ends[own->band[i]]++;
        own->list[to] = (uint32_t)i;
        own->h[to] = h[i];
    }
}

/* Returns the weights [d] of the norm behind the network, or NULL; it is left out for experts of another width. */
static const float *post_weight(const survey *s)
{
    return s->width == s->d ? s->layer->ffn_post_norm.weight : NULL;
}

/* Returns the sum of the squares of what a change of the network's results is after the weights of that norm. */
static double post_square(const survey *s, const float *lost)
{
    const float *weight = post_weight(s);
    double sum = 0;
    for (size_t i = 0; weight && i < s->d; i++)
        sum += (double)lost[i] * weight[i] * ((double)lost[i] * weight[i]);
    return weight ? sum : s->widens * square(lost, s->width);
}

/* Computes, for each token (work item), the relative change of the layer's output at each grade. Band 0 holds the
 * zeros, which change nothing. A norm behind the network divides by what all neurons give. */
static void lose(void *context, size_t begin, size_t end, unsigned worker)
{
    const survey *s = context;
    const bands *own = &s->workers[worker];
    for (size_t t = begin; t < end; t++) {
        size_t ends[PRUNE_GRADES + 1];
        double size = square(s->residual + t * s->d, s->d);
        sort_into_bands(s, own, t, ends);
        memset(own->lost, 0, s->width * sizeof *own->lost);
        for (size_t k = 1; k < PRUNE_GRADES; k++) {
            s->runtime->kernels.accumulate[s->down_t.format](&s->down_t, own->list, ends[k - 1], ends[k], own->h, 0, 1,
                                                             own->lost, 0);
            s->errors[t * PRUNE_GRADES + k] = size > 0 ? post_square(s, own->lost) / size : 0;
        }
        if (!post_weight(s))
            continue;
        s->runtime->kernels.accumulate[s->down_t.format](&s->down_t, own->list, ends[PRUNE_GRADES - 1],
                                                         ends[PRUNE_GRADES], own->h, 0, 1, own->lost, 0);
        double whole = divisor(s->model->hyper.post_epsilon, square(own->lost, s->d), s->d);
        for (size_t k = 1; k < PRUNE_GRADES; k++)
            s->errors[t * PRUNE_GRADES + k] /= whole * whole;
    }
}

/* Computes what experts of another width read. Sets width and widens: for results without a preferred direction the mean
 * square of what the matrix behind them makes of them follows from the sum of its squares. */
static hearth_status take_width(survey *s, hearth_error *error)
{
    const matrix *in = &s->layer->latent_in, *out = &s->layer->latent_out;
    s->width = ffn_expert_width(&s->layer->ffn, (uint32_t)s->d);
    s->widens = 1;
    if (s->layer->ffn.latent == 0)
        return HEARTH_OK;
    float *row = mem_new_array(out->columns, sizeof *row);
    if (!row)
        return fail_memory(error, "prune", out->columns * sizeof *row);
    double squares = 0;
    for (uint32_t i = 0; i < out->rows; i++) {
        number_formats[out->format].decode(matrix_row(out, i), row, out->columns);
        squares += square(row, out->columns);
    }
    mem_free(row);
    s->widens = squares / out->columns;
    multiply(s, in, s->normed, NULL, s->latent);
    return HEARTH_OK;
}

/* Sets down_t of the layer: the file's, or a temporary copy. */
static hearth_status take_down(survey *s, hearth_error *error)
{
    s->down_t = s->layer->down_t;
    if (s->down_t.data)
        return HEARTH_OK;
    uint32_t experts = ffn_experts(&s->layer->ffn);
    TRY(neuron_major_shape(&s->down_t, &s->layer->down, experts, s->model->source->path, "ffn_down", error));
    size_t bytes;
    if (!size_multiply(s->down_t.rows, s->down_t.row_bytes, &bytes))
        return fail(error, HEARTH_UNSUPPORTED, "%s: ffn_down: too large to transpose", s->model->source->path);
    if (bytes > s->transposed_bytes) { /* layers may have different formats */
        mem_free(s->transposed);
        s->transposed = mem_new(bytes);
        s->transposed_bytes = s->transposed ? bytes : 0;
    }
    if (!s->transposed)
        return fail_memory(error, "prune", bytes);
    s->down_t.data = s->transposed;
    neuron_major_transpose(&s->runtime->kernels, s->runtime->threads, &s->layer->down, experts, &s->down_t,
                           s->transposed);
    return HEARTH_OK;
}

/* Picks rows evenly over those for training. */
static void pick_rows(survey *s, size_t training)
{
    s->row_count = training < ROWS_MOST ? training : ROWS_MOST;
    for (size_t i = 0; i < s->row_count; i++)
        s->rows[i] = (uint32_t)(training * i / s->row_count);
}

/* Measures the curve of one layer. */
static hearth_status survey_layer(survey *s, uint32_t layer, const char *folder, hearth_error *error)
{
    states *from;
    TRY(states_open(&from, folder, s->model, layer, error));
    pick_rows(s, states_training_count(from));
    s->words = states_words(from);
    states_read(from, s->rows, s->row_count, false, s->residual, s->fired);
    states_read(from, s->rows, s->row_count, true, s->normed, NULL);
    states_close(from);
    if (s->row_count == 0)
        return fail(error, HEARTH_FORMAT, "%s: layer %u: has no hidden states to learn from", folder, layer);
    const model_layer *l = s->layer = &s->model->layers[layer];
    s->f = ffn_routed(&l->ffn);
    TRY(take_down(s, error));
    TRY(take_width(s, error));
    const float *x = l->ffn.latent > 0 ? s->latent : s->normed;
    multiply(s, layer_first_matrix(l), x, layer_first_bias(l), s->first);
    if (l->ffn.gating != FFN_PLAIN)
        multiply(s, &l->up, x, l->up_bias, s->h);
    pool_run(s->runtime->threads, s->row_count, 1, activate_rows, s);
    place_thresholds(s);
    pool_run(s->runtime->threads, s->row_count, 1, lose, s);
    for (size_t k = 0; k < PRUNE_GRADES; k++)
        for (size_t t = 0; t < s->row_count; t++)
            s->curve->errors[k] += s->errors[t * PRUNE_GRADES + k] / (double)s->row_count;
    return HEARTH_OK;
}

/* ------------------------------------------------------------------ all layers */

static hearth_status survey_open(survey *s, const hearth_runtime *runtime, const hearth_model *model,
                                 hearth_error *error)
{
    layer_sizes most = model_largest(model);
    size_t d = model->hyper.embedding_length, f = most.neurons, n = ROWS_MOST,
           width = d > most.latent ? d : most.latent;
    size_t threads = pool_threads(runtime->threads);
    *s = (survey){.runtime = runtime, .model = model, .d = d};
    s->rows = mem_new_array(n, sizeof *s->rows);
    s->residual = mem_new_array(n * d, sizeof *s->residual);
    s->normed = mem_new_array(n * d, sizeof *s->normed);
    s->latent = mem_new_array(n * most.latent, sizeof *s->latent);
    s->fired = mem_new_array(n * bits_words(f), sizeof *s->fired);
    s->first = mem_new_array(n * f, sizeof *s->first);
    s->h = mem_new_array(n * f, sizeof *s->h);
    s->sorted = mem_new_array(n * f, sizeof *s->sorted);
    s->errors = mem_new_array(n * PRUNE_GRADES, sizeof *s->errors);
    s->workers = mem_new_array(threads, sizeof *s->workers);
    s->worker_floats = mem_new_array(threads * (f + width), sizeof *s->worker_floats);
    s->worker_lists = mem_new_array(threads * f, sizeof *s->worker_lists);
    s->worker_bands = mem_new_array(threads, f);
    if (!s->rows || !s->residual || !s->normed || !s->latent || !s->fired || !s->first || !s->h || !s->sorted ||
        !s->errors || !s->workers || !s->worker_floats || !s->worker_lists || !s->worker_bands)
        return fail_memory(error, "prune", n * (2 * d + 3 * f) * sizeof(float));
    for (size_t i = 0; i < threads; i++)
        s->workers[i] = (bands){s->worker_lists + i * f, s->worker_floats + i * (f + width), s->worker_bands + i * f,
                                s->worker_floats + i * (f + width) + f};
    return HEARTH_OK;
}

static void survey_close(survey *s)
{
    void *const blocks[] = {s->rows,   s->residual,  s->normed,  s->fired,         s->first,        s->h,
                            s->sorted, s->errors,    s->workers, s->worker_floats, s->worker_lists, s->worker_bands,
                            s->latent, s->transposed};
    for (size_t i = 0; i < sizeof blocks / sizeof *blocks; i++)
        mem_free(blocks[i]);
}

/* Measures the layers that have a network. curves [model_networks] */
static hearth_status survey_all(prune_curve *curves, const hearth_runtime *runtime, const hearth_model *model,
                                const char *folder, hearth_progress progress, hearth_error *error)
{
    survey s;
    uint32_t layers = model->hyper.layer_count;
    hearth_status status = survey_open(&s, runtime, model, error);
    for (uint32_t i = 0; status == HEARTH_OK && i < layers; i++) {
        if (model->layers[i].ffn.neuron_count == 0)
            continue;
        s.curve = curves++;
        if (progress.report && !progress.report(progress.user, "dealing thresholds", i, layers))
            status = fail(error, HEARTH_CANCELLED, "%s: pruning: cancelled", model->source->path);
        else
            status = survey_layer(&s, i, folder, error);
    }
    survey_close(&s);
    return status;
}

/* Computes levels and thresholds from the curves [networks]; those of layers without a network are 0. */
static hearth_status deal(prune_table *out, const prune_curve *curves, size_t networks, const hearth_model *model,
                          hearth_error *error)
{
    size_t layers = model->hyper.layer_count, at = 0;
    uint32_t *grades = mem_new_array(layers, PRUNE_LEVELS * sizeof *grades);
    out->thresholds = mem_new_array(layers, PRUNE_LEVELS * sizeof *out->thresholds);
    hearth_status status = grades && out->thresholds
                               ? prune_spread(out->levels, grades, curves, networks, error)
                               : fail_memory(error, "prune", layers * PRUNE_LEVELS * sizeof *grades);
    for (size_t i = 0; status == HEARTH_OK && i < layers; i++) {
        bool network = model->layers[i].ffn.neuron_count > 0;
        for (size_t k = 0; network && k < PRUNE_LEVELS; k++)
            out->thresholds[i * PRUNE_LEVELS + k] = curves[at].thresholds[grades[at * PRUNE_LEVELS + k]];
        at += network;
    }
    mem_free(grades);
    return status;
}

hearth_status prune_deal(prune_table *out, hearth_runtime *runtime, const hearth_model *model, const char *folder,
                         hearth_progress progress, hearth_error *error)
{
    size_t networks = model_networks(model);
    *out = (prune_table){0};
    prune_curve *curves = mem_new_array(networks, sizeof *curves);
    if (!curves)
        return fail_memory(error, "prune", networks * sizeof *curves);
    hearth_status status = survey_all(curves, runtime, model, folder, progress, error);
    if (status == HEARTH_OK)
        status = deal(out, curves, networks, model, error);
    mem_free(curves);
    if (status != HEARTH_OK)
        prune_free(out);
    return status;
}

void prune_free(prune_table *t)
{
    mem_free(t->thresholds);
    *t = (prune_table){0};
}
