/* kl_file.c - reads logits files, which are untrusted until parsed. kl_writer.c writes them. */
#include "kl_file.h"

#include "../base/memory.h"

#include <math.h>
#include <string.h>

static const char magic[8] = {'_', 'l', 'o', 'g', 'i', 't', 's', '_'};

#define HEAD_BYTES (sizeof magic + 3 * sizeof(int32_t))

/* Bound for the logarithm of a probability after rounding to float32 and to 16 bits. */
#define LARGEST_LOG 1e-3
/* How far a row's range may exceed KL_RANGE: its ends were rounded to float32, by up to 1e-3 for logits of some
 * thousands. */
#define RANGE_ROUNDING 1e-2

bool kl_file_bytes(uint32_t context, uint32_t vocabulary_size, uint32_t windows, size_t *out)
{
    size_t tokens, rows;
    return size_multiply(context, windows, &tokens) && size_multiply(tokens, sizeof(int32_t), &tokens) &&
           size_multiply(kl_rows_per_window(context), windows, &rows) &&
           size_multiply(rows, kl_row_values(vocabulary_size) * sizeof(uint16_t), &rows) &&
           size_add(tokens, rows, out) && size_add(*out, HEAD_BYTES, out);
}

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
    if (!kl_file_bytes(f->context, f->vocabulary_size, f->window_count, &expected))
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
    f.row_bytes = kl_row_values(f.vocabulary_size) * sizeof(uint16_t);
    f.rows_per_window = kl_rows_per_window(f.context);
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
    double range = (double)r.scale * KL_LARGEST;
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
