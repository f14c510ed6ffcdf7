/* lowrank_begin.c - the closed form without training: the first matrix cut to its strongest directions.
 *
 * Let x be the inputs, with second moment C. Among all matrices of rank k, the best approximation of W x in the mean
 * square is U U' W, where U holds the first k eigenvectors of W C W' (reduced-rank regression). So P = U' W gives k
 * values, and U computes all neurons from them. relu(P x) and relu(-P x) together carry P x, with 2 k hidden units.
 *
 * If the inputs contain something nearly constant (v . x, with v the best linear estimate of 1), one unit per direction
 * is enough: relu(P x + M v . x) equals P x + M v . x if M is so large that it is hardly ever cut off, and one more
 * unit carries v . x to subtract it again: rank - 1 directions instead of rank / 2. On stories-relu, layer 2, rank 32,
 * recall 0.98, this start lets 31.5 % of all neurons through, the other one 39.2 %.
 *
 * What the cut leaves out of a neuron's row has its own variance, and the same score above zero is less certain where
 * that variance is large. So rows are divided by its root: scores are in standard deviations, and a single threshold
 * for all neurons is the best possible as far as the rest is normally distributed. Multiplied by 1.7, a score is nearly
 * a logit (the logistic and the normal distribution differ by less than 0.01), from which training continues.
 *
 * If the input is the residual stream, its direction is used: normed
 * = x * w / rms, so W diag(w) x has the right sign whatever rms is. */
#include "lowrank_internal.h"

#include "../base/memory.h"
#include "../base/random.h"

#include <math.h>
#include <string.h>

/* Rows from which the second moment is computed: a few times d, so that the noise in C is small against C. */
#define SAMPLE_FACTOR 8
#define SAMPLE_LEAST  4096
#define SAMPLE_MOST   32768
#define SAMPLE_CHUNK  512
/* Neurons from which W'W is computed, as a multiple of d, spread evenly over all: of a mixture with hundreds of thousands,
 * many times d give the same directions. */
#define NEURON_FACTOR 16
/* Neurons that are worked on between two looks at whether to go on. */
#define NEURON_CHUNK 4096
/* Rounds of the subspace iteration. Each reduces the error of a
 * direction by the ratio of the first eigenvalue left out to its own. */
#define ROUNDS 8
/* Rows that are orthogonalised against the others at once. */
#define BASIS_BLOCK 32
/* Relative rest below which a row lies in the span of the others; its unit is dead. */
#define DEPENDENT 1e-5
#define LOGIT     1.7f
/* Share of a neuron's own variance that is added to the rest,
 * so that rows without a rest do not get infinite weight. */
#define LEAST_VARIANCE 1e-3
#define SOLVE_ROUNDS   64
/* M of the file head; directions have variance 1. */
#define SHIFT 3.0f
#define RIDGE 1e-4

/* State of one closed form; U, P, W, C and v as in the file head. */
typedef struct start {
    const lowrank_job *job;
    size_t k;
    /* All zero at first; all in one block (lay_out). */
    float *w;          /* [f][d] the first matrix, by neuron number, for inputs divided by their root mean square */
    float *moment;     /* [d][d]                                                                                  */
    float *mean;       /* [d]                                                                                     */
    float *basis;      /* [k][f] U'                                                                               */
    float *reduced;    /* [k][d] P                                                                                */
    float *image;      /* [widest of d, NEURON_CHUNK][d]: P C, a part of W C, or W'W                              */
    float *turn;       /* [d][d] C W'W                                                                            */
    float *chunk;      /* [SAMPLE_CHUNK][d]                                                                       */
    float *products;   /* [BASIS_BLOCK][k]                                                                        */
    float *constant;   /* [d] v                                                                                   */
    float *offsets;    /* [f] what a score has beside w . x, less the value at which the neuron fires              */
    float *along;      /* [f] component of W along the constant, where shifted                                    */
    float *sizes;      /* [k] standard deviations of the directions                                               */
    float *deviations; /* [f] standard deviations of what the cut leaves out                                      */
    bool shifted;
    double explained; /* E (v . x)^2: the explained share of a constant 1 */
} start;

static product_factor as_is(const float *values, size_t stride)
{
    return (product_factor){values, stride, false};
}

static product_factor transposed(const float *values, size_t stride)
{
    return (product_factor){values, stride, true};
}

/* ------------------------------------------------------------------ inputs */

static size_t sample_count(const lowrank_job *job)
{
    size_t n = SAMPLE_FACTOR * job->d;
    n = n < SAMPLE_LEAST ? SAMPLE_LEAST : n > SAMPLE_MOST ? SAMPLE_MOST : n;
    return n < job->training ? n : job->training;
}

/* Scales an input to root mean square 1: only the direction of the residual stream matters. */
static void take_direction(float *x, size_t d)
{
    double squares = 0;
    for (size_t i = 0; i < d; i++)
        squares += (double)x[i] * (double)x[i];
    float factor = squares > 0 ? (float)(1 / sqrt(squares / (double)d)) : 0;
    for (size_t i = 0; i < d; i++)
        x[i] *= factor;
}

/* Computes second moment and mean of the inputs, from rows spread evenly over those for training. */
static void measure_inputs(const start *s)
{
    const lowrank_job *job = s->job;
    size_t d = job->d, n = sample_count(job);
    for (size_t from = 0; from < n; from += SAMPLE_CHUNK) {
        uint32_t rows[SAMPLE_CHUNK];
        size_t count = n - from < SAMPLE_CHUNK ? n - from : SAMPLE_CHUNK;
        for (size_t i = 0; i < count; i++)
            rows[i] = (uint32_t)((uint64_t)(from + i) * job->training / n);
        lowrank_read(job, rows, count, s->chunk, NULL);
        for (size_t i = 0; i < count; i++) {
            float *x = s->chunk + i * d;
            if (!job->options->normed)
                take_direction(x, d);
            for (size_t c = 0; c < d; c++)
                s->mean[c] += x[c] / (float)n;
        }
        multiply_matrices_wide(&job->kernels, job->threads, d, d, count, 1 / (float)n, transposed(s->chunk, d),
                               as_is(s->chunk, d), 1, s->moment, d);
    }
}

static void subtract_mean(float *values, size_t n)
{
    double sum = 0;
    for (size_t i = 0; i < n; i++)
        sum += (double)values[i];
    for (size_t i = 0; i < n; i++)
        values[i] -= (float)(sum / (double)n);
}

static double dot(const float *a, const float *b, size_t n)
{
    double sum = 0;
    for (size_t i = 0; i < n; i++)
        sum += (double)a[i] * (double)b[i];
    return sum;
}

/* Multiplies the rows of experts of another width with the matrix that leads there, rows by neuron number: their products
 * with what the layer reads. The buffers are free at this point; check_options sees to it that they suffice. */
static void decode_latent(const start *s)
{
    const lowrank_job *job = s->job;
    const model_layer *l = &job->model->layers[job->layer];
    const matrix *first = layer_first_matrix(l);
    size_t d = job->d, latent = l->latent_in.rows, routed = ffn_routed(&l->ffn), most = SAMPLE_CHUNK * d / latent;
    most = most < d ? most : d;
    for (size_t i = 0; i < latent; i++)
        number_formats[l->latent_in.format].decode(matrix_row(&l->latent_in, i), s->image + i * d, d);
    for (size_t from = 0; from < routed; from += most) {
        size_t count = routed - from < most ? routed - from : most;
        for (size_t i = 0; i < count; i++)
            number_formats[first->format].decode(matrix_row(first, from + i), s->chunk + i * latent, latent);
        multiply_matrices_wide(&job->kernels, job->threads, count, d, latent, 1, as_is(s->chunk, latent),
                               as_is(s->image, d), 0, s->turn, d);
        for (size_t i = 0; i < count; i++)
            memcpy(s->w + (l->order ? (size_t)l->order[from + i] : from + i) * d, s->turn + i * d, d * sizeof *s->w);
    }
}

/* Decodes the first matrix, rows by neuron number, scaled so that its product with such an input has the sign of the
 * network's, once the offset is added: the bias, and for the residual stream what the bias of the norm gives. */
static void decode_first(const start *s)
{
    const lowrank_job *job = s->job;
    const model_layer *l = &job->model->layers[job->layer];
    const norm_weights *norm = &l->ffn_norm;
    const float *bias = layer_first_bias(l);
    const matrix *of_all = l->ffn.gating == FFN_PLAIN ? &l->shared.up : &l->shared.gate;
    size_t routed = ffn_routed(&l->ffn);
    if (l->ffn.latent > 0)
        decode_latent(s);
    for (size_t i = 0; i < job->f; i++) {
        bool shared = i >= routed; /* of the expert that every token uses, which has no biases */
        size_t neuron = l->order ? (size_t)l->order[i] : i;
        float *row = s->w + neuron * job->d;
        const matrix *first = shared ? of_all : layer_first_matrix(l);
        if (shared || l->ffn.latent == 0)
            number_formats[first->format].decode(matrix_row(first, shared ? i - routed : i), row, job->d);
        s->offsets[neuron] = (bias && !shared ? bias[i] : 0) - l->ffn.threshold;
        if (!job->options->normed && norm->bias)
            s->offsets[neuron] += (float)dot(row, norm->bias, job->d);
        for (size_t c = 0; c < job->d; c++)
            row[c] *= job->options->normed ? job->scale : norm->weight ? norm->weight[c] : 1;
        if (!job->options->normed && job->model->hyper.norm == NORM_LAYER)
            subtract_mean(row, job->d); /* so that the mean of the input does not matter, which the norm takes away */
    }
}

/* ------------------------------------------------------------------ constants */

/* Solves (C + ridge) v = mean by conjugate gradients: v . x is the best linear estimate of 1. */
static void solve_constant(start *s)
{
    size_t d = s->job->d;
    float *v = s->constant, *work = s->chunk, *residue = work, *direction = work + d, *image = work + 2 * d;
    double ridge = 0;
    for (size_t i = 0; i < d; i++)
        ridge += RIDGE * (double)s->moment[i * d + i] / (double)d;
    memset(v, 0, d * sizeof *v);
    memcpy(residue, s->mean, d * sizeof *residue);
    memcpy(direction, s->mean, d * sizeof *direction);
    double size = dot(residue, residue, d), enough = size * 1e-10;
    for (int round = 0; round < SOLVE_ROUNDS && size > enough; round++) {
        multiply_matrices(&s->job->kernels, 1, d, d, 1, as_is(direction, d), as_is(s->moment, d), 0, image, d);
        for (size_t i = 0; i < d; i++)
            image[i] += (float)ridge * direction[i];
        double length = size / dot(direction, image, d), before = size;
        for (size_t i = 0; i < d; i++) {
            v[i] += (float)length * direction[i];
            residue[i] -= (float)length * image[i];
        }
        size = dot(residue, residue, d);
        for (size_t i = 0; i < d; i++)
            direction[i] = residue[i] + (float)(size / before) * direction[i];
    }
    s->explained = dot(v, s->mean, d);
}

/* A neuron fires where w . x plus its offset exceeds 0. Adds the offset to w, by way of the estimate of a constant. */
static void fold_constants(const start *s)
{
    for (size_t i = 0; i < s->job->f; i++) {
        float *row = s->w + i * s->job->d;
        for (size_t c = 0; s->offsets[i] != 0 && c < s->job->d; c++)
            row[c] += s->offsets[i] * s->constant[c];
    }
}

/* Removes from every row its component along the constant, so that the rest is uncorrelated with it. */
static void split_constant(const start *s)
{
    const lowrank_job *job = s->job;
    for (size_t i = 0; i < job->f; i++) {
        float *row = s->w + i * job->d;
        s->along[i] = (float)(dot(row, s->mean, job->d) / s->explained);
        for (size_t c = 0; c < job->d; c++)
            row[c] -= s->along[i] * s->constant[c];
    }
}

/* ------------------------------------------------------------------ directions */

/* Makes `count` rows orthonormal among themselves (modified Gram-Schmidt). final: the second turn. */
static void orthonormalise_few(float *rows, size_t count, size_t n, bool final)
{
    for (size_t i = 0; i < count; i++) {
        float *row = rows + i * n;
        double before = sqrt(dot(row, row, n));
        for (size_t j = 0; j < i; j++) {
            float product = (float)dot(row, rows + j * n, n);
            for (size_t c = 0; c < n; c++)
                row[c] -= product * rows[j * n + c];
        }
        double size = sqrt(dot(row, row, n));
        /* In the second turn rows are unit vectors: one that becomes short was nearly dependent in the first. */
        float factor = size > DEPENDENT * before && (!final || size > 0.1) ? (float)(1 / size) : 0;
        for (size_t c = 0; c < n; c++)
            row[c] *= factor;
    }
}

/* Makes k rows of n values orthonormal, block by block, each against those before it; twice, to remove what rounding
 * left ("twice is enough", Parlett). Dependent rows become zero. */
static void orthonormalise(const start *s, float *basis, size_t n)
{
    const lowrank_job *job = s->job;
    for (size_t at = 0; at < s->k; at += BASIS_BLOCK) {
        float *rows = basis + at * n;
        size_t count = s->k - at < BASIS_BLOCK ? s->k - at : BASIS_BLOCK;
        for (int turn = 0; turn < 2; turn++) {
            if (at > 0) {
                multiply_matrices_wide(&job->kernels, job->threads, count, at, n, 1, as_is(rows, n),
                                       transposed(basis, n), 0, s->products, s->k);
                multiply_matrices_wide(&job->kernels, job->threads, count, n, at, -1, as_is(s->products, s->k),
                                       as_is(basis, n), 1, rows, n);
            }
            orthonormalise_few(rows, count, n, turn == 1);
        }
    }
}

/* Reports how far a stage is; HEARTH_CANCELLED where it is not to go on. */
static hearth_status report(const start *s, const char *stage, size_t done, size_t total, hearth_error *error)
{
    const hearth_progress *p = &s->job->options->progress;
    if (p->report && !p->report(p->user, stage, done, total))
        return fail(error, HEARTH_CANCELLED, "%s: cancelled", s->job->thing);
    return HEARTH_OK;
}

/* Computes W'W, up to a factor, into the image: from every `stride`-th neuron. */
static hearth_status multiply_neurons(const start *s, hearth_error *error)
{
    const lowrank_job *job = s->job;
    size_t d = job->d, stride = (job->f + NEURON_FACTOR * d - 1) / (NEURON_FACTOR * d), n = job->f / stride;
    for (size_t from = 0; from < n; from += NEURON_CHUNK) {
        size_t count = n - from < NEURON_CHUNK ? n - from : NEURON_CHUNK;
        product_factor rows = as_is(s->w + from * stride * d, stride * d), columns = rows;
        columns.transposed = true;
        TRY(report(s, "neurons", from, n, error));
        multiply_matrices_wide(&job->kernels, job->threads, d, d, count, 1, columns, rows, from > 0, s->image, d);
    }
    return HEARTH_OK;
}

/* Finds U and P by subspace iteration. P = U' W satisfies P C W'W = (eigenvalues) P, so it is enough to multiply k rows
 * of d values by one matrix [d][d] repeatedly, and to compute U from them at the end. */
static hearth_status find_directions(const start *s, hearth_error *error)
{
    const lowrank_job *job = s->job;
    size_t d = job->d, f = job->f, k = s->k;
    uint64_t seed = job->options->seed;
    TRY(multiply_neurons(s, error));
    multiply_matrices_wide(&job->kernels, job->threads, d, d, d, 1, as_is(s->moment, d), as_is(s->image, d), 0, s->turn,
                           d);
    for (size_t i = 0; i < k * d; i++)
        s->reduced[i] = (float)(random_next(&seed) >> 40) / 8388608.0f - 1;
    for (int round = 0; round < ROUNDS; round++) {
        TRY(report(s, "directions", (size_t)round, ROUNDS, error));
        orthonormalise(s, s->reduced, d);
        multiply_matrices_wide(&job->kernels, job->threads, k, d, d, 1, as_is(s->reduced, d), as_is(s->turn, d), 0,
                               s->image, d);
        memcpy(s->reduced, s->image, k * d * sizeof *s->reduced);
    }
    orthonormalise(s, s->reduced, d);
    multiply_matrices_wide(&job->kernels, job->threads, k, d, d, 1, as_is(s->reduced, d), as_is(s->moment, d), 0,
                           s->image, d);
    multiply_matrices_wide(&job->kernels, job->threads, k, f, d, 1, as_is(s->image, d), transposed(s->w, d), 0,
                           s->basis, f);
    orthonormalise(s, s->basis, f);
    multiply_matrices_wide(&job->kernels, job->threads, k, d, f, 1, as_is(s->basis, f), as_is(s->w, d), 0, s->reduced,
                           d);
    return HEARTH_OK;
}

/* ------------------------------------------------------------------ both matrices */

/* Returns the factor of the constant's unit. Its column of fc2 would be about SHIFT sqrt(k) times as large as the
 * others, and block formats, in which neighbours share a scale, tolerate that as badly in fc2 as in the hidden units:
 * each takes the square root of it. */
static float unit_of_constant(const start *s)
{
    return sqrtf(SHIFT * sqrtf((float)s->k));
}

/* Writes fc1 with hidden units near 1: P divided by its standard deviations, which fc2 multiplies; each direction with
 * both signs, or shifted. */
static void write_fc1(const start *s, float *fc1)
{
    const lowrank_job *job = s->job;
    size_t d = job->d, k = s->k;
    multiply_matrices_wide(&job->kernels, job->threads, k, d, d, 1, as_is(s->reduced, d), as_is(s->moment, d), 0,
                           s->image, d);
    for (size_t j = 0; j < k; j++) {
        const float *row = s->reduced + j * d;
        double variance = dot(row, s->image + j * d, d);
        s->sizes[j] = variance > 0 ? (float)sqrt(variance) : 0;
        for (size_t c = 0; c < d; c++) {
            float value = s->sizes[j] > 0 ? row[c] / s->sizes[j] : 0;
            fc1[j * d + c] = value + (s->shifted ? SHIFT * s->constant[c] : 0);
            if (!s->shifted)
                fc1[(j + k) * d + c] = -value;
        }
    }
    for (size_t c = 0; s->shifted && c < d; c++)
        fc1[k * d + c] = unit_of_constant(s) * s->constant[c];
}

/* Computes the standard deviation of what the cut leaves out of each neuron; W becomes that rest. Of the neuron's own
 * variance, which only keeps the deviation off zero, the cut's part is taken as that of independent directions. */
static hearth_status measure_rest(const start *s, hearth_error *error)
{
    const lowrank_job *job = s->job;
    size_t d = job->d, f = job->f, k = s->k;
    for (size_t from = 0; from < f; from += NEURON_CHUNK) {
        size_t count = f - from < NEURON_CHUNK ? f - from : NEURON_CHUNK;
        float *rows = s->w + from * d;
        TRY(report(s, "deviations", from, f, error));
        multiply_matrices_wide(&job->kernels, job->threads, count, d, k, -1, transposed(s->basis + from, f),
                               as_is(s->reduced, d), 1, rows, d);
        multiply_matrices_wide(&job->kernels, job->threads, count, d, d, 1, as_is(rows, d), as_is(s->moment, d), 0,
                               s->image, d);
        for (size_t i = 0; i < count; i++) {
            double rest = fmax(0, dot(rows + i * d, s->image + i * d, d)), own = rest;
            for (size_t j = 0; j < k; j++) {
                double part = (double)s->basis[j * f + from + i] * (double)s->sizes[j];
                own += part * part;
            }
            double variance = rest + LEAST_VARIANCE * own;
            s->deviations[from + i] = variance > 0 ? (float)sqrt(variance) : 1;
        }
    }
    return HEARTH_OK;
}

/* Writes fc2: U times the standard deviations of P, per neuron in logits, and the correction of the shift. */
static void write_fc2(const start *s, float *fc2)
{
    size_t f = s->job->f, k = s->k, rank = s->job->rank;
    for (size_t i = 0; i < f; i++) {
        float *row = fc2 + i * rank, factor = LOGIT / s->deviations[i];
        double shift = 0;
        for (size_t j = 0; j < k; j++) {
            float value = s->basis[j * f + i] * s->sizes[j];
            shift += (double)SHIFT * (double)value;
            row[j] = factor * value;
            if (!s->shifted)
                row[k + j] = -factor * value;
        }
        if (s->shifted)
            row[k] = factor * (s->along[i] - (float)shift) / unit_of_constant(s);
    }
}

/* ------------------------------------------------------------------ the whole */

/* Returns the number of directions for the rank. */
static size_t directions(const lowrank_job *job, bool shifted)
{
    size_t least = job->d < job->f ? job->d : job->f, k = shifted ? job->rank - 1 : job->rank / 2;
    return k < least ? k : least;
}

/* Returns the floats of all arrays of a start; sets the pointers where `block` is given. */
static size_t lay_out(start *s, float *block)
{
    size_t d = s->job->d, f = s->job->f, k = s->k, total = 0;
    const struct array {
        float **at;
        size_t count;
    } arrays[] = {
        {&s->w, f * d},
        {&s->moment, d * d},
        {&s->mean, d},
        {&s->basis, k * f},
        {&s->reduced, k * d},
        {&s->image, (d > NEURON_CHUNK ? d : NEURON_CHUNK) * d},
        {&s->turn, d * d},
        {&s->chunk, SAMPLE_CHUNK * d},
        {&s->products, BASIS_BLOCK * k},
        {&s->constant, d},
        {&s->offsets, f},
        {&s->along, f},
        {&s->sizes, k},
        {&s->deviations, f},
    };
    for (size_t i = 0; i < sizeof arrays / sizeof *arrays; i++) {
        if (block)
            *arrays[i].at = block + total;
        total += arrays[i].count;
    }
    return total;
}

static start start_of(const lowrank_job *job, bool shifted)
{
    return (start){.job = job, .k = directions(job, shifted), .shifted = shifted};
}

/* The shifted form has more directions. */
uint64_t lowrank_begin_bytes(const lowrank_job *job)
{
    start s = start_of(job, true);
    return sizeof(float) * (uint64_t)lay_out(&s, NULL);
}

static hearth_status compute_start(start *s, weights out, hearth_error *error)
{
    measure_inputs(s);
    solve_constant(s);
    if (s->shifted && s->explained < CONSTANT_LEAST)
        return HEARTH_OK;
    decode_first(s);
    fold_constants(s);
    if (s->shifted)
        split_constant(s);
    TRY(find_directions(s, error));
    write_fc1(s, out.fc1);
    TRY(measure_rest(s, error));
    write_fc2(s, out.fc2);
    return HEARTH_OK;
}

hearth_status lowrank_begin(const lowrank_job *job, bool shifted, weights out, double *explained, hearth_error *error)
{
    start s = start_of(job, shifted);
    size_t total = lay_out(&s, NULL);
    float *block = mem_new_array(total, sizeof *block);
    if (!block)
        return fail_memory(error, job->thing, total * sizeof *block);
    lay_out(&s, block);
    hearth_status status = compute_start(&s, out, error);
    *explained = s.explained;
    mem_free(block);
    return status;
}
