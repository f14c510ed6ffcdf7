/* lowrank_state.c - stores the state of a training in a file, written whole after
 * each epoch, so that a resumed training gives the same bytes as an uninterrupted
 * one. The file belongs to one machine and one program, and only it reads it back. */
#include "lowrank_internal.h"

#include "../base/file.h"
#include "../base/hash.h"
#include "../base/memory.h"

#include <stdio.h>
#include <string.h>

/* Rows whose content identifies the set of rows. */
#define WITNESSES 64

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

static const char magic[8] = "HLRSTAT2";

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
    memcpy(out->magic, magic, sizeof magic);
    return digest_rows(job, &out->rows, error);
}

/* Returns the path of the state; mem_free. NULL: no memory. */
static char *state_path(const lowrank_job *job)
{
    char name[96];
    snprintf(name, sizeof name, "lowrank-%u-%zu-%s.state", job->layer, job->rank,
             job->options->normed ? "normed" : "residual");
    return file_join(job->options->folder, name);
}

/* Returns the number of arrays in the file: once training is done, only the best values are stored. */
static size_t array_count(const state_head *h)
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
    if (memcmp(head->magic, magic, sizeof magic) == 0 && !same)
        return true;
    hash128 check = hash_begin();
    hash_bytes(&check, head, offsetof(state_head, check));
    hash_bytes(&check, file->data + sizeof *head, file->size_bytes - sizeof *head);
    *found = same && file->size_bytes == sizeof *head + array_count(head) * values && check.a == head->check.a &&
             check.b == head->check.b;
    return *found;
}

/* Copies a checked file into the state. */
static void take(const lowrank_job *job, lowrank_state *s, const state_head *head, const uint8_t *arrays)
{
    size_t bytes = job->weight_count * sizeof(float);
    float *all[] = {s->best, s->values, s->first_moment, s->second_moment};
    for (size_t i = 0; i < array_count(head); i++)
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

hearth_status lowrank_state_read(const lowrank_job *job, lowrank_state *state, bool *found, bool *damaged,
                                 hearth_error *error)
{
    *found = *damaged = false;
    if (!job->options->folder)
        return HEARTH_OK;
    char *path = state_path(job);
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

hearth_status lowrank_state_write(const lowrank_job *job, const lowrank_state *state, hearth_error *error)
{
    if (!job->options->folder)
        return HEARTH_OK;
    state_head head;
    TRY(make_head(job, state, &head, error));
    char *path = state_path(job);
    if (!path)
        return fail_memory(error, job->thing, 0);
    const float *all[] = {state->best, state->values, state->first_moment, state->second_moment};
    size_t bytes = job->weight_count * sizeof(float);
    hash128 check = hash_begin();
    hash_bytes(&check, &head, offsetof(state_head, check));
    for (size_t i = 0; i < array_count(&head); i++)
        hash_bytes(&check, all[i], bytes);
    head.check = check;
    file_writer *writer = NULL;
    hearth_status status;
    TRY_OR(done, status, file_writer_open(&writer, path, error));
    TRY_OR(done, status, file_writer_put(writer, &head, sizeof head, error));
    for (size_t i = 0; i < array_count(&head); i++)
        TRY_OR(done, status, file_writer_put(writer, all[i], bytes, error));
    status = file_writer_commit(writer, error);
    writer = NULL;
done:
    if (writer)
        file_writer_discard(writer);
    mem_free(path);
    return status;
}
