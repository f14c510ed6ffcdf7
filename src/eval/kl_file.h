/* kl_file.h - what a model said of every token, as llama.cpp's logits files keep it (docs/formats.md).
 *
 *   "_logits_"                             8 bytes
 *   n_ctx, n_vocab, n_chunk                int32: N, V, windows
 *   tokens                                 int32 [windows][N], as the text has them: no BOS was put in
 *   rows                                   [windows][N - 1 - N / 2]: position p of a window, from N / 2 on, and what
 *                                          it said of token p + 1
 *   a row                                  float32 scale, min; uint16 q [V], and one of padding where V is odd;
 *                                          log p = min + scale * q
 *
 * The largest logit has q 65535. The smallest has 0, and so have all that lie KL_RANGE or more below the largest: of
 * these a row tells no more than that. Little-endian without padding. Files go both ways between hearth and
 * llama.cpp. */
#ifndef EVAL_KL_FILE_H
#define EVAL_KL_FILE_H

#include "../base/file.h"

#include <stddef.h>

/* Nats between the largest logit and the smallest one that a row tells apart. */
#define KL_RANGE 16
#define KL_STEPS 65535

/* Of windows of `context` tokens, rows each; of a row, uint16 values with head and padding. */
static inline size_t kl_rows_per_window(uint64_t context)
{
    return (size_t)(context - 1 - context / 2);
}
static inline size_t kl_row_values(uint64_t vocabulary_size)
{
    return (size_t)((vocabulary_size + 1) / 2 * 2 + 4);
}

/* A file that is mapped, or bytes that somebody else owns. Read-only; any number of threads. */
typedef struct kl_file {
    uint32_t context, vocabulary_size, window_count;
    size_t rows_per_window;
    size_t row_bytes;
    const uint8_t *tokens, *rows;
    const char *path; /* for messages; the caller's */
    file_map map;     /* empty: not mapped by us    */
} kl_file;

/* Opens and checks everything but the rows' values. `path` has to outlive it.
 * HEARTH_FORMAT: not such a file, one that was cut short, or ids that are not in its vocabulary. */
hearth_status kl_file_open(kl_file *out, const char *path, hearth_error *error);
/* The same of bytes, which must outlive it and be aligned to 4. */
hearth_status kl_file_parse(kl_file *out, const uint8_t *data, size_t size_bytes, const char *path,
                            hearth_error *error);
void kl_file_close(kl_file *f);

/* ids [context] of a window, as the text has them. */
void kl_file_window(const kl_file *f, uint32_t window, int32_t *ids);
/* Their pages will not be read again soon. */
void kl_file_drop(const kl_file *f, uint32_t window);

/* What was said at one position: log p of token i is min + scale * values[i]. */
typedef struct kl_row {
    float scale, min;
    const uint16_t *values; /* [vocabulary_size] */
    bool clipped;           /* values of 0 only say that these tokens are not likelier than min */
} kl_row;

/* Row `row` of a window, of rows_per_window. HEARTH_FORMAT: numbers that are not logarithms of probabilities. */
hearth_status kl_file_row(const kl_file *f, uint32_t window, size_t row, kl_row *out, hearth_error *error);

/* ------------------------------------------------------------------ writing (kl_writer.c) */

typedef struct kl_writer kl_writer;

/* Bytes of a file. false: more than a size can say. */
bool kl_file_bytes(uint32_t context, uint32_t vocabulary_size, uint32_t windows, size_t *out);

/* ids [windows * context]. The file appears at `path` when it is committed. HEARTH_INVALID: figures that such a file
 * cannot hold. */
hearth_status kl_writer_open(kl_writer **out, const char *path, uint32_t context, uint32_t vocabulary_size,
                             const int32_t *ids, uint32_t windows, hearth_error *error);
/* The next rows, of logits [count][vocabulary_size]. HEARTH_INVALID: they are not all finite. */
hearth_status kl_writer_add(kl_writer *w, const float *logits, size_t count, hearth_error *error);
/* All rows were added. Frees the writer, on failure too, and then leaves nothing. */
hearth_status kl_writer_commit(kl_writer *w, hearth_error *error);
void kl_writer_discard(kl_writer *w);

#endif
