/* kl_file.h - a model's log probabilities for every token, in the format of llama.cpp's logits files (docs/files.md).
 *
 *   "_logits_"                             8 bytes
 *   n_ctx, n_vocab, n_chunk                int32: N, V, windows
 *   tokens                                 int32 [windows][N], as in the text, without added BOS
 *   rows                                   [windows][N - 1 - N / 2]: for each position p of a window from N / 2 on, the
 *                                          prediction of token p + 1
 *   a row                                  float32 scale, min; uint16 q [V], and one of padding where V is odd;
 *                                          log p = min + scale * q
 *
 * The largest logit has q 65535. The smallest has 0, and so have all that lie KL_RANGE or more below the largest: a row
 * says nothing more about these. Little-endian without padding. hearth reads llama.cpp's files, and llama.cpp reads
 * hearth's. */
#ifndef EVAL_KL_FILE_H
#define EVAL_KL_FILE_H

#include "../base/file.h"

#include <stddef.h>

/* Nats between the largest logit and the smallest one that a row resolves. */
#define KL_RANGE   16
#define KL_LARGEST 65535 /* the largest value of a row */

/* Rows per window of `context` tokens; uint16 values per row, with its head and padding. */
static inline size_t kl_rows_per_window(uint64_t context)
{
    return (size_t)(context - 1 - context / 2);
}
static inline size_t kl_row_values(uint64_t vocabulary_size)
{
    return (size_t)((vocabulary_size + 1) / 2 * 2 + 4);
}

/* A mapped file, or bytes owned by somebody else. Read-only; may be used by any number of threads. */
typedef struct kl_file {
    uint32_t context, vocabulary_size, window_count;
    size_t rows_per_window;
    size_t row_bytes;
    const uint8_t *tokens, *rows;
    const char *path; /* for messages; belongs to the caller */
    file_map map;     /* empty: not mapped by this module */
} kl_file;

/* Opens the file and checks everything but the rows' values. `path` must outlive it.
 * HEARTH_FORMAT: not such a file, a truncated one, or ids that are not in its vocabulary. */
hearth_status kl_file_open(kl_file *out, const char *path, hearth_error *error);
/* Does the same with bytes, which must outlive it and be aligned to 4. */
hearth_status kl_file_parse(kl_file *out, const uint8_t *data, size_t size_bytes, const char *path,
                            hearth_error *error);
void kl_file_close(kl_file *f);

/* Copies the ids [context] of a window, as in the text. */
void kl_file_window(const kl_file *f, uint32_t window, int32_t *ids);
/* Tells the system that the window's pages will not be read again soon. */
void kl_file_drop(const kl_file *f, uint32_t window);

/* The prediction at one position: log p of token i is min + scale * values[i]. */
typedef struct kl_row {
    float scale, min;
    const uint16_t *values; /* [vocabulary_size] */
    bool clipped;           /* a value of 0 only means that the token is at most as likely as min */
} kl_row;

/* Reads row `row` of a window, below rows_per_window. HEARTH_FORMAT: its numbers are not log probabilities. */
hearth_status kl_file_row(const kl_file *f, uint32_t window, size_t row, kl_row *out, hearth_error *error);

/* ------------------------------------------------------------------ writing (kl_writer.c) */

typedef struct kl_writer kl_writer;

/* Computes the size of a file in bytes. false: it does not fit a size_t. */
bool kl_file_bytes(uint32_t context, uint32_t vocabulary_size, uint32_t windows, size_t *out);

/* Starts a file; ids [windows * context]. It appears at `path` when it is committed. HEARTH_INVALID: figures that such
 * a file cannot hold. */
hearth_status kl_writer_open(kl_writer **out, const char *path, uint32_t context, uint32_t vocabulary_size,
                             const int32_t *ids, uint32_t windows, hearth_error *error);
/* Adds the next rows, from logits [count][vocabulary_size]. HEARTH_INVALID: not all are finite. */
hearth_status kl_writer_add(kl_writer *w, const float *logits, size_t count, hearth_error *error);
/* Completes the file once all rows were added. Frees the writer, on failure too, and then leaves no file. */
hearth_status kl_writer_commit(kl_writer *w, hearth_error *error);
void kl_writer_discard(kl_writer *w);

#endif
