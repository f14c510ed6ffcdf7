/* kl_file.c - reads logits files, which are untrusted until parsed, and writes them row by row. */
#include "kl_file.h"

#include "../base/memory.h"
#include "windows.h"

#include <assert.h>
#include <math.h>
#include <string.h>

static const char magic[8] = {'_', 'l', 'o', 'g', 'i', 't', 's', '_'};

#define HEAD_BYTES (sizeof magic + 3 * sizeof(int32_t))

/* The largest value of a row. */
#define LARGEST_VALUE 65535
/* Bound for the logarithm of a probability after rounding to float32 and to 16 bits. */
#define LARGEST_LOG 1e-3
/* How far a row's range may exceed KL_RANGE: its ends were rounded to float32, by up to 1e-3 for logits of some
 * thousands. */
#define RANGE_ROUNDING 1e-2

/* Returns the rows of a window of `context` tokens. */
static size_t rows_of_window(uint64_t context)
{
    return (size_t)(context - 1 - context / 2);
}

/* Returns the uint16 values of a row, with its head and padding. */
static size_t values_of_row(uint64_t vocabulary_size)
{
    return (size_t)((vocabulary_size + 1) / 2 * 2 + 4);
}

/* Computes the size of a file in bytes. false: it does not fit a size_t. */
static bool file_bytes(uint32_t context, uint32_t vocabulary_size, uint32_t windows, size_t *out)
{
    size_t tokens, rows;
    return size_multiply(context, windows, &tokens) && size_multiply(tokens, sizeof(int32_t), &tokens) &&
           size_multiply(rows_of_window(context), windows, &rows) &&
           size_multiply(rows, values_of_row(vocabulary_size) * sizeof(uint16_t), &rows) &&
           size_add(tokens, rows, out) && size_add(*out, HEAD_BYTES, out);
}

/* ------------------------------------------------------------------ reading */

static int32_t int_at(const uint8_t *data)
{
    int32_t value;
    memcpy(&value, data, sizeof value);
    return value;
}

/* Reads the three numbers of the header. */
static hearth_status read_head(kl_file *f, const uint8_t *data, size_t size_bytes, hearth_error *error)
{
    if (size_bytes < HEAD_BYTES || memcmp(data, magic, sizeof magic) != 0)
        return fail(error, HEARTH_FORMAT, "%s: head: is not that of a logits file", f->path);
    int32_t figures[3]; /* n_ctx, n_vocab, n_chunk */
    for (size_t i = 0; i < 3; i++)
        figures[i] = int_at(data + sizeof magic + i * sizeof(int32_t));
    if (figures[0] < 4 || figures[1] < 1 || figures[2] < 1)
        return fail(error, HEARTH_FORMAT, "%s: head: %d windows of %d tokens, a vocabulary of %d: cannot be", f->path,
                    figures[2], figures[0], figures[1]);
    f->context = (uint32_t)figures[0];
    f->vocabulary_size = (uint32_t)figures[1];
    f->window_count = (uint32_t)figures[2];
    return HEARTH_OK;
}

/* Checks that the file has exactly the size that its header implies. */
static hearth_status check_size(const kl_file *f, size_t size_bytes, hearth_error *error)
{
    size_t expected;
    if (!file_bytes(f->context, f->vocabulary_size, f->window_count, &expected))
        return fail(error, HEARTH_FORMAT, "%s: head: %u windows of %u tokens, a vocabulary of %u: overflows", f->path,
                    f->window_count, f->context, f->vocabulary_size);
    if (size_bytes == expected)
        return HEARTH_OK;
    return fail(error, HEARTH_FORMAT,
                "%s: size: is %zu bytes, %u windows of %u tokens with a vocabulary of %u are %zu%s", f->path,
                size_bytes, f->window_count, f->context, f->vocabulary_size, expected,
                size_bytes < expected ? ": it was cut short" : "");
}

static hearth_status check_ids(const kl_file *f, hearth_error *error)
{
    size_t count = (size_t)f->window_count * f->context;
    for (size_t i = 0; i < count; i++) {
        int32_t id = int_at(f->tokens + i * sizeof id);
        if (id < 0 || (uint32_t)id >= f->vocabulary_size)
            return fail(error, HEARTH_FORMAT, "%s: token %zu: is %d, the vocabulary has %u", f->path, i, id,
                        f->vocabulary_size);
    }
    return HEARTH_OK;
}

hearth_status kl_file_parse(kl_file *out, const uint8_t *data, size_t size_bytes, const char *path, hearth_error *error)
{
    kl_file f = {.path = path};
    TRY(read_head(&f, data, size_bytes, error));
    TRY(check_size(&f, size_bytes, error));
    f.row_bytes = values_of_row(f.vocabulary_size) * sizeof(uint16_t);
    f.rows_per_window = rows_of_window(f.context);
    f.tokens = data + HEAD_BYTES;
    f.rows = f.tokens + (size_t)f.window_count * f.context * sizeof(int32_t);
    TRY(check_ids(&f, error));
    *out = f;
    return HEARTH_OK;
}

hearth_status kl_file_open(kl_file *out, const char *path, hearth_error *error)
{
    file_map map;
    TRY(file_map_open(&map, path, error));
    hearth_status status = kl_file_parse(out, map.data, map.size_bytes, path, error);
    if (status != HEARTH_OK)
        file_map_close(&map);
    else
        out->map = map;
    return status;
}

void kl_file_close(kl_file *f)
{
    file_map_close(&f->map);
    *f = (kl_file){0};
}

void kl_file_window(const kl_file *f, uint32_t window, int32_t *ids)
{
    memcpy(ids, f->tokens + (size_t)window * f->context * sizeof *ids, f->context * sizeof *ids);
}

void kl_file_drop(const kl_file *f, uint32_t window)
{
    size_t bytes = f->rows_per_window * f->row_bytes;
    file_map_drop(&f->map, f->rows + window * bytes, bytes);
}

hearth_status kl_file_row(const kl_file *f, uint32_t window, size_t row, kl_row *out, hearth_error *error)
{
    const uint8_t *data = f->rows + (window * f->rows_per_window + row) * f->row_bytes;
    kl_row r;
    memcpy(&r.scale, data, sizeof r.scale);
    memcpy(&r.min, data + sizeof r.scale, sizeof r.min);
    r.values = (const uint16_t *)(data + 2 * sizeof(float));
    double range = (double)r.scale * LARGEST_VALUE;
    /* A clipped row spans KL_RANGE up to rounding. */
    r.clipped = range > KL_RANGE - 1e-3;
    if (range > KL_RANGE + RANGE_ROUNDING)
        return fail(error, HEARTH_FORMAT, "%s: row %zu of window %u: spans %g nats, a row has at most %d", f->path, row,
                    window, range, KL_RANGE);
    /* A single condition, so that NaN fails it. */
    if (isfinite(r.min) && isfinite(r.scale) && r.scale >= 0 && r.min <= LARGEST_LOG && r.min + range <= LARGEST_LOG) {
        *out = r;
        return HEARTH_OK;
    }
    return fail(error, HEARTH_FORMAT,
                "%s: row %zu of window %u: goes from %g in steps of %g: these are not probabilities", f->path, row,
                window, (double)r.min, (double)r.scale);
}

/* ------------------------------------------------------------------ writing */

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
    float head[2] = {(float)(range / LARGEST_VALUE), (float)(from - log_sum)};
    memcpy(row, head, sizeof head);
    for (size_t i = 0; i < n; i++) {
        double q = logits[i] > from && head[0] > 0 ? nearbyint((logits[i] - from) / head[0]) : 0;
        row[4 + i] = (uint16_t)fmin(q, LARGEST_VALUE);
    }
    return true;
}

static hearth_status write_head(kl_writer *w, uint32_t context, const int32_t *ids, uint32_t windows,
                                hearth_error *error)
{
    const int32_t figures[3] = {(int32_t)context, (int32_t)w->vocabulary_size, (int32_t)windows};
    TRY(file_writer_put(w->file, magic, sizeof magic, error));
    TRY(file_writer_put(w->file, figures, sizeof figures, error));
    return file_writer_put(w->file, ids, (size_t)windows * context * sizeof *ids, error);
}

hearth_status kl_writer_open(kl_writer **out, const char *path, uint32_t context, uint32_t vocabulary_size,
                             const int32_t *ids, uint32_t windows, hearth_error *error)
{
    size_t total;
    if (context < 4 || context > INT32_MAX || vocabulary_size < 1 || vocabulary_size > INT32_MAX || windows < 1 ||
        windows > INT32_MAX || !file_bytes(context, vocabulary_size, windows, &total))
        return fail(error, HEARTH_INVALID, "%s: size: %u windows of %u tokens, a vocabulary of %u: cannot be written",
                    path, windows, context, vocabulary_size);
    kl_writer *w = mem_new(sizeof *w);
    if (!w)
        return fail_memory(error, path, sizeof *w);
    w->vocabulary_size = vocabulary_size;
    w->row_values = values_of_row(vocabulary_size);
    w->rows_left = windows * rows_of_window(context);
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
