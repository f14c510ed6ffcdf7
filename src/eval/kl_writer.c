/* kl_writer.c - writes a logits file row by row. */
#include "kl_file.h"
#include "windows.h"

#include "../base/memory.h"

#include <assert.h>
#include <math.h>
#include <string.h>

struct kl_writer {
    file_writer *file;
    uint32_t vocabulary_size;
    size_t row_values; /* including head and padding */
    size_t rows_left;
    uint16_t *row; /* [row_values]; the padding stays zero */
};

/* Finds the smallest logit. false: not all are finite. */
static bool find_least(const float *logits, size_t n, float *least)
{
    *least = logits[0];
    for (size_t i = 0; i < n; i++) {
        if (!isfinite(logits[i]))
            return false;
        if (logits[i] < *least)
            *least = logits[i];
    }
    return true;
}

/* Encodes a row: its head, then n values. false: not all logits are finite. */
static bool encode(uint16_t *row, const float *logits, size_t n)
{
    float least;
    size_t top;
    if (!find_least(logits, n, &least))
        return false;
    double log_sum = rows_log_sum(logits, n, &top);
    double from = fmax(least, (double)logits[top] - KL_RANGE);
    double range = logits[top] - from;
    /* Rounds with the same float32 scale that readers multiply with. */
    float head[2] = {(float)(range / KL_LARGEST), (float)(from - log_sum)};
    memcpy(row, head, sizeof head);
    for (size_t i = 0; i < n; i++) {
        double q = logits[i] > from && head[0] > 0 ? nearbyint((logits[i] - from) / head[0]) : 0;
        row[4 + i] = (uint16_t)fmin(q, KL_LARGEST);
    }
    return true;
}

static hearth_status write_head(kl_writer *w, uint32_t context, const int32_t *ids, uint32_t windows,
                                hearth_error *error)
{
    const int32_t figures[3] = {(int32_t)context, (int32_t)w->vocabulary_size, (int32_t)windows};
    TRY(file_writer_put(w->file, "_logits_", 8, error));
    TRY(file_writer_put(w->file, figures, sizeof figures, error));
    return file_writer_put(w->file, ids, (size_t)windows * context * sizeof *ids, error);
}

hearth_status kl_writer_open(kl_writer **out, const char *path, uint32_t context, uint32_t vocabulary_size,
                             const int32_t *ids, uint32_t windows, hearth_error *error)
{
    size_t total;
    if (context < 4 || context > INT32_MAX || vocabulary_size < 1 || vocabulary_size > INT32_MAX || windows < 1 ||
        windows > INT32_MAX || !kl_file_bytes(context, vocabulary_size, windows, &total))
        return fail(error, HEARTH_INVALID, "%s: size: %u windows of %u tokens, a vocabulary of %u: cannot be written",
                    path, windows, context, vocabulary_size);
    kl_writer *w = mem_new(sizeof *w);
    if (!w)
        return fail_memory(error, path, sizeof *w);
    w->vocabulary_size = vocabulary_size;
    w->row_values = kl_row_values(vocabulary_size);
    w->rows_left = windows * kl_rows_per_window(context);
    w->row = mem_new_array(w->row_values, sizeof *w->row);
    hearth_status status = w->row ? HEARTH_OK : fail_memory(error, path, w->row_values * sizeof *w->row);
    if (status == HEARTH_OK)
        status = file_writer_open(&w->file, path, error);
    if (status == HEARTH_OK)
        status = write_head(w, context, ids, windows, error);
    if (status != HEARTH_OK) {
        kl_writer_discard(w);
        return status;
    }
    *out = w;
    return HEARTH_OK;
}

hearth_status kl_writer_add(kl_writer *w, const float *logits, size_t count, hearth_error *error)
{
    assert(count <= w->rows_left);
    for (size_t i = 0; i < count; i++) {
        if (!encode(w->row, logits + i * w->vocabulary_size, w->vocabulary_size))
            return fail(error, HEARTH_INVALID, "logits: row: has values that are not finite");
        TRY(file_writer_put(w->file, w->row, w->row_values * sizeof *w->row, error));
        w->rows_left--;
    }
    return HEARTH_OK;
}

hearth_status kl_writer_commit(kl_writer *w, hearth_error *error)
{
    assert(w->rows_left == 0);
    hearth_status status = file_writer_commit(w->file, error);
    w->file = NULL;
    kl_writer_discard(w);
    return status;
}

void kl_writer_discard(kl_writer *w)
{
    if (!w)
        return;
    file_writer_discard(w->file);
    mem_free(w->row);
    mem_free(w);
}
