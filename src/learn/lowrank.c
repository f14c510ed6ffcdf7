/* lowrank.c - runs the training: closed form, epochs while they help, conversion to the stored format.
 *
 * The state of a training is stored in a file, written whole after each epoch, so that a resumed training gives the
 * same bytes as an uninterrupted one. The file belongs to one machine and one program, and only it reads it back. */
#include "lowrank_internal.h"

#include "../base/file.h"
#include "../base/memory.h"
#include "measure.h"
#include "work.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

/* Training stops after this many epochs without a better one. */
#define PATIENCE 3
/* Rows from which the scale of the inputs is computed. */
#define SAMPLE 2048
/* From this explained share of a constant on, the shifted closed form is sure to be the better one. */
#define CONSTANT_SURE 0.9
/* Rows of a matrix that one work item encodes. */
#define ENCODED_ROWS 16

/* Rows whose content identifies the set of rows. */
#define WITNESSES 64

/* ------------------------------------------------------------------ rows */

void lowrank_read(const lowrank_job *job, const uint32_t *rows, size_t count, float *inputs, uint64_t *fired)
{
    states_read(job->rows, rows, count, job->options->normed, inputs, fired);
    float factor = 1 / job->scale;
    for (size_t i = 0; i < count * job->d; i++)
        inputs[i] *= factor;
}

/* Sets the scale to the root mean square of the inputs, on a sample of the training rows. */
static hearth_status choose_scale(lowrank_job *job, hearth_error *error)
{
    size_t n = job->training < SAMPLE ? job->training : SAMPLE;
    double squares = 0;
    float *x = mem_new_array(job->d, sizeof *x);
    if (!x)
        return fail_memory(error, job->thing, job->d * sizeof *x);
    for (size_t i = 0; i < n; i++) {
        uint32_t row = (uint32_t)((uint64_t)i * job->training / n);
        states_read(job->rows, &row, 1, job->options->normed, x, NULL);
        for (size_t c = 0; c < job->d; c++)
            squares += (double)x[c] * (double)x[c];
    }
    mem_free(x);
    if (!isfinite(squares))
        return fail(error, HEARTH_FORMAT, "%s: hidden states are not finite", job->thing);
    job->scale = squares > 0 ? (float)sqrt(squares / (double)(n * job->d)) : 1;
    return HEARTH_OK;
}

/* ------------------------------------------------------------------ checks */

static hearth_status check_options(const lowrank_job *job, hearth_error *error)
{
    const lowrank_options *o = job->options;
    const hyperparameters *h = &job->model->hyper;
    size_t bytes, f = job->f, least = h->embedding_length < f ? h->embedding_length : f;
    size_t most = 2 * least < PREDICTOR_RANK_LIMIT ? 2 * least : PREDICTOR_RANK_LIMIT;
    if (!ffn_predictable(&job->model->layers[job->layer].ffn))
        return fail(error, HEARTH_UNSUPPORTED, "%s: activation %s is never zero, there is nothing to predict",
                    job->thing, ffn_activations[job->model->layers[job->layer].ffn.activation].name);
    if (job->model->layers[job->layer].ffn.latent > h->embedding_length)
        return fail(error, HEARTH_UNSUPPORTED, "%s: experts wider than the model are not supported", job->thing);
    if (o->rank < 2 || o->rank % 2 || o->rank > most)
        return fail(error, HEARTH_UNSUPPORTED, "%s: rank %u: it has to be even, and from 2 to %zu", job->thing, o->rank,
                    most);
    if (!number_row_bytes(o->format, h->embedding_length, &bytes) || !number_row_bytes(o->format, o->rank, &bytes))
        return fail(error, HEARTH_UNSUPPORTED, "%s: rank %u: rows of %u and %u values are not whole blocks of %s",
                    job->thing, o->rank, h->embedding_length, o->rank, number_formats[o->format].name);
    if (!(o->recall > 0 && o->recall <= 1))
        return fail(error, HEARTH_INVALID, "%s: recall %g is not above 0 and at most 1", job->thing, (double)o->recall);
    if (job->training == 0 || job->count == job->training)
        return fail(error, HEARTH_INVALID, "%s: %zu rows are too few to hold some out", job->thing, job->count);
    return HEARTH_OK;
}

/* Returns the number of arrays of a state: without epochs there are no moments. */
static size_t array_count(const lowrank_job *job)
{
    return job->options->epochs ? 4 : 2;
}

/* Checks the peak of memory: the arrays of the state, and either the buffers of the closed form, or those of training
 * (which stay during validation) with those of validation. */
static hearth_status check_memory(const lowrank_job *job, hearth_error *error)
{
    uint64_t limit = job->options->memory_bytes, begin = lowrank_begin_bytes(job);
    uint64_t train = (job->options->epochs ? fit_bytes(job) : 0) + lowrank_validate_bytes(job);
    uint64_t wanted = array_count(job) * sizeof(float) * (uint64_t)job->weight_count + (begin > train ? begin : train);
    if (limit && wanted > limit)
        return fail(error, HEARTH_NO_MEMORY, "%s: rank %zu: training needs %llu MB of memory, %llu MB are allowed",
                    job->thing, job->rank, (unsigned long long)(wanted / 1000000),
                    (unsigned long long)(limit / 1000000));
    return HEARTH_OK;
}

/* ------------------------------------------------------------------ the state as a file */

/* Identifies the training to which a state belongs; the state of another training is replaced. All members have 8 bytes
 * or are arrays of them, so that there is no padding with undefined content. */
typedef struct state_head {
    char magic[8];
    uint64_t d, f, rank, normed, recall_bits, epochs, seed, count, training;
    hash128 rows; /* hash of some rows */
    uint64_t epoch, best_epoch, fresh, done;
    double beginning, best_density, rates[2];
    hash128 check; /* hash of all other bytes of the file; must be last */
} state_head;

static const char state_magic[8] = "HLRSTAT2";

/* Computes the hash of some rows. */
static hearth_status digest_rows(const lowrank_job *job, hash128 *out, hearth_error *error)
{
    float *x = mem_new_array(job->d, sizeof *x);
    uint64_t *fired = mem_new_array(job->words, sizeof *fired);
    hash128 h = hash_begin();
    for (size_t i = 0; x && fired && i < WITNESSES; i++) {
        uint32_t row = (uint32_t)((uint64_t)i * job->count / WITNESSES);
        states_read(job->rows, &row, 1, false, x, fired);
        hash_bytes(&h, x, job->d * sizeof *x);
        hash_bytes(&h, fired, job->words * sizeof *fired);
    }
    mem_free(x);
    mem_free(fired);
    *out = h;
    return x && fired ? HEARTH_OK : fail_memory(error, job->thing, job->d * sizeof *x);
}

/* Makes the head of a file; `check` is left zero. */
static hearth_status make_head(const lowrank_job *job, const lowrank_state *s, state_head *out, hearth_error *error)
{
    const lowrank_options *o = job->options;
    uint32_t recall_bits;
    memcpy(&recall_bits, &o->recall, sizeof recall_bits);
    *out = (state_head){.d = job->d,
                        .f = job->f,
                        .rank = job->rank,
                        .normed = o->normed,
                        .recall_bits = recall_bits,
                        .epochs = o->epochs,
                        .seed = o->seed,
                        .count = job->count,
                        .training = job->training,
                        .epoch = s->epoch,
                        .best_epoch = s->best_epoch,
                        .fresh = s->fresh,
                        .done = s->done,
                        .beginning = s->beginning,
                        .best_density = s->best_density,
                        .rates = {(double)s->rates[0], (double)s->rates[1]}};
    memcpy(out->magic, state_magic, sizeof state_magic);
    return digest_rows(job, &out->rows, error);
}

/* Writes the file name of the state. */
static void print_state_name(char out[96], const lowrank_job *job)
{
    snprintf(out, 96, "lowrank-%u-%zu-%s.state", job->layer, job->rank, job->options->normed ? "normed" : "residual");
}

/* Returns the number of arrays in the file: once training is done, only the best values are stored. */
static size_t stored_arrays(const state_head *h)
{
    return h->done ? 1 : 4;
}

/* Checks a file. Returns false where it is damaged. *found: it belongs to this training and is whole. */
static bool check_file(const file_map *file, const state_head *wanted, state_head *head, bool *found)
{
    if (file->size_bytes < sizeof *head)
        return false;
    memcpy(head, file->data, sizeof *head);
    size_t values = (size_t)(wanted->rank * (wanted->d + wanted->f)) * sizeof(float);
    bool same = memcmp(head, wanted, offsetof(state_head, epoch)) == 0;
    if (memcmp(head->magic, state_magic, sizeof state_magic) == 0 && !same)
        return true;
    hash128 check = hash_begin();
    hash_bytes(&check, head, offsetof(state_head, check));
    hash_bytes(&check, file->data + sizeof *head, file->size_bytes - sizeof *head);
    *found = same && file->size_bytes == sizeof *head + stored_arrays(head) * values && check.a == head->check.a &&
             check.b == head->check.b;
    return *found;
}

/* Copies a checked file into the state. */
static void take(const lowrank_job *job, lowrank_state *s, const state_head *head, const uint8_t *arrays)
{
    size_t bytes = job->weight_count * sizeof(float);
    float *all[] = {s->best, s->values, s->first_moment, s->second_moment};
    for (size_t i = 0; i < stored_arrays(head); i++)
        memcpy(all[i], arrays + i * bytes, bytes);
    s->epoch = (uint32_t)head->epoch;
    s->best_epoch = (uint32_t)head->best_epoch;
    s->fresh = (uint32_t)head->fresh;
    s->done = head->done;
    s->beginning = head->beginning;
    s->best_density = head->best_density;
    s->rates[0] = (float)head->rates[0];
    s->rates[1] = (float)head->rates[1];
}

/* Reads the stored state. *found is false where there is none
 * for these options and rows, or it is damaged (*damaged). */
static hearth_status state_read(const lowrank_job *job, lowrank_state *state, bool *found, bool *damaged,
                                hearth_error *error)
{
    *found = *damaged = false;
    if (!job->options->folder)
        return HEARTH_OK;
    char name[96];
    print_state_name(name, job);
    char *path = file_join(job->options->folder, name);
    if (!path)
        return fail_memory(error, job->thing, 0);
    file_map file = {0};
    state_head wanted, head;
    hearth_status status = HEARTH_OK;
    if (!file_exists(path))
        goto done;
    TRY_OR(done, status, make_head(job, state, &wanted, error));
    TRY_OR(done, status, file_map_open(&file, path, error));
    *damaged = !check_file(&file, &wanted, &head, found);
    if (*found)
        take(job, state, &head, file.data + sizeof head);
done:
    file_map_close(&file);
    mem_free(path);
    return status;
}

/* Writes the state to the folder of the options, whole or not at all; does nothing without a folder. */
static hearth_status state_write(const lowrank_job *job, const lowrank_state *state, hearth_error *error)
{
    if (!job->options->folder)
        return HEARTH_OK;
    char name[96];
    state_head head;
    TRY(make_head(job, state, &head, error));
    print_state_name(name, job);
    size_t bytes = job->weight_count * sizeof(float), count = stored_arrays(&head);
    const work_piece pieces[] = {{&head, sizeof head},
                                 {state->best, bytes},
                                 {state->values, bytes},
                                 {state->first_moment, bytes},
                                 {state->second_moment, bytes}};
    hash128 check = hash_begin();
    hash_bytes(&check, &head, offsetof(state_head, check));
    for (size_t i = 1; i <= count; i++)
        hash_bytes(&check, pieces[i].data, bytes);
    head.check = check;
    return work_write(job->options->folder, name, pieces, 1 + count, error);
}

/* ------------------------------------------------------------------ training */

static hearth_status make_state(const lowrank_job *job, lowrank_state *s, hearth_error *error)
{
    float **all[] = {&s->values, &s->best, &s->first_moment, &s->second_moment};
    size_t count = array_count(job);
    for (size_t i = 0; i < count; i++) {
        *all[i] = mem_new_array(job->weight_count, sizeof(float));
        if (!*all[i])
            return fail_memory(error, job->thing, count * job->weight_count * sizeof(float));
    }
    return HEARTH_OK;
}

static void free_state(lowrank_state *s)
{
    mem_free(s->values);
    mem_free(s->first_moment);
    mem_free(s->second_moment);
    mem_free(s->best);
}

/* Stores the values as the best if their density is lower. Returns false where it is not. */
static bool save_best(const lowrank_job *job, lowrank_state *s, double density)
{
    if (!(density < s->best_density))
        return false;
    s->best_density = density;
    s->best_epoch = s->epoch;
    memcpy(s->best, s->values, job->weight_count * sizeof(float));
    return true;
}

/* Computes one closed form and validates it; skips the shifted one where the inputs have no constant. */
static hearth_status try_beginning(const lowrank_job *job, bool shifted, lowrank_state *s, double *explained,
                                   hearth_error *error)
{
    double density;
    memset(s->values, 0, job->weight_count * sizeof *s->values);
    TRY(lowrank_begin(job, shifted, weights_of(job, s->values), explained, error));
    if (shifted && *explained < CONSTANT_LEAST)
        return HEARTH_OK;
    TRY(lowrank_validate(job, s->values, &density, error));
    save_best(job, s, density);
    return HEARTH_OK;
}

/* Starts from the better closed form; the shifted one alone where it is sure to be better. */
static hearth_status begin(const lowrank_job *job, lowrank_state *s, hearth_error *error)
{
    double explained;
    s->best_density = INFINITY;
    TRY(try_beginning(job, true, s, &explained, error));
    if (explained < CONSTANT_SURE)
        TRY(try_beginning(job, false, s, &explained, error));
    s->beginning = s->best_density;
    memcpy(s->values, s->best, job->weight_count * sizeof *s->values);
    fit_choose_rates(job, s);
    return HEARTH_OK;
}

/* Trains until the last epoch, or until PATIENCE epochs bring no gain; stores the state after each. */
static hearth_status train(const lowrank_job *job, lowrank_state *s, hearth_error *error)
{
    fit *f = NULL;
    hearth_status status = fit_create(&f, job, s, error);
    while (status == HEARTH_OK && !s->done) {
        double density;
        TRY_OR(done, status, fit_epoch(f, error));
        s->epoch++;
        TRY_OR(done, status, lowrank_validate(job, s->values, &density, error));
        if (!save_best(job, s, density))
            fit_retreat(job, s);
        s->done = s->epoch >= job->options->epochs || s->epoch - s->best_epoch >= PATIENCE;
        TRY_OR(done, status, state_write(job, s, error));
    }
done:
    fit_destroy(f);
    return status;
}

/* ------------------------------------------------------------------ the result */

typedef struct encode_job {
    const float *values;
    const matrix *to;
} encode_job;

/* Work items are rows. */
static void encode_rows(void *context, size_t begin, size_t end, unsigned worker)
{
    (void)worker;
    const encode_job *job = context;
    for (size_t i = begin; i < end; i++)
        number_formats[job->to->format].encode(job->values + i * job->to->columns, NULL,
                                               (char *)job->to->data + i * job->to->row_bytes, job->to->columns);
}

/* Encodes a matrix in the format of the options. */
static hearth_status store(const lowrank_job *job, const float *values, size_t rows, size_t columns, matrix *out,
                           hearth_error *error)
{
    matrix m = {.format = job->options->format, .rows = (uint32_t)rows, .columns = (uint32_t)columns};
    size_t bytes;
    if (!number_row_bytes(m.format, columns, &m.row_bytes) || !size_multiply(rows, m.row_bytes, &bytes))
        return fail(error, HEARTH_UNSUPPORTED, "%s: rows of %zu values", job->thing, columns);
    m.data = mem_new(bytes);
    if (!m.data)
        return fail_memory(error, job->thing, bytes);
    encode_job encode = {values, &m};
    pool_run(job->threads, rows, ENCODED_ROWS, encode_rows, &encode);
    *out = m;
    return HEARTH_OK;
}

/* Encodes both matrices for unscaled inputs, and measures them in the engine's arithmetic. */
static hearth_status finish(const lowrank_job *job, const lowrank_state *s, lowrank *out, hearth_error *error)
{
    weights w = weights_of(job, s->best);
    for (size_t i = 0; i < job->rank * job->d; i++)
        w.fc1[i] /= job->scale;
    TRY(store(job, w.fc1, job->rank, job->d, &out->fc1, error));
    TRY(store(job, w.fc2, job->f, job->rank, &out->fc2, error));
    TRY(measure_lowrank(out, job->model, job->layer, job->rows, job->options->normed, job->options->recall, NAN,
                        job->options->kernels, job->threads, error));
    out->beginning = s->beginning;
    out->epochs = s->epoch;
    return HEARTH_OK;
}

/* Checks, starts or resumes, trains, and stores the result in *made. */
static hearth_status begin_and_train(lowrank_job *job, lowrank_state *s, lowrank *made, hearth_error *error)
{
    bool found = false;
    TRY(check_options(job, error));
    TRY(check_memory(job, error));
    TRY(choose_scale(job, error));
    TRY(make_state(job, s, error));
    if (job->options->epochs)
        TRY(state_read(job, s, &found, &made->state_damaged, error));
    if (!found)
        TRY(begin(job, s, error));
    if (job->options->epochs)
        TRY(train(job, s, error));
    return finish(job, s, made, error);
}

static lowrank_job job_of(const hearth_model *model, uint32_t layer, const states *rows, const lowrank_options *options,
                          pool *threads)
{
    lowrank_job job = {.model = model,
                       .layer = layer,
                       .rows = rows,
                       .options = options,
                       .threads = threads,
                       .d = model->hyper.embedding_length,
                       .f = model->layers[layer].ffn.neuron_count,
                       .rank = options->rank,
                       .words = states_words(rows),
                       .training = states_training_count(rows),
                       .count = states_count(rows),
                       .scale = 1};
    job.weight_count = job.rank * (job.d + job.f);
    if (options->kernels)
        job.kernels = *options->kernels;
    else
        kernels_for(kernel_level_find(NULL), &job.kernels);
    snprintf(job.thing, sizeof job.thing, "%s: layer %u: predictor", model->source->path, layer);
    return job;
}

hearth_status lowrank_check(const hearth_model *model, uint32_t layer, const states *rows,
                            const lowrank_options *options, hearth_error *error)
{
    lowrank_job job = job_of(model, layer, rows, options, options->threads);
    TRY(check_options(&job, error));
    return check_memory(&job, error);
}

hearth_status lowrank_train(lowrank *out, const hearth_model *model, uint32_t layer, const states *rows,
                            const lowrank_options *options, hearth_error *error)
{
    pool *own = NULL;
    if (!options->threads)
        TRY(pool_create(&own, 1, error));
    lowrank_job job = job_of(model, layer, rows, options, own ? own : options->threads);
    lowrank_state state = {0};
    lowrank made = {0};
    hearth_status status = begin_and_train(&job, &state, &made, error);
    if (status == HEARTH_OK)
        *out = made;
    else
        lowrank_free(&made);
    free_state(&state);
    pool_destroy(own);
    return status;
}

void lowrank_free(lowrank *l)
{
    mem_free((void *)l->fc1.data);
    mem_free((void *)l->fc2.data);
    *l = (lowrank){0};
}
