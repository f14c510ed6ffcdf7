/* importance.h - reads and writes importance matrices: how strongly each column of each matrix was used over some text.
 *
 * llama.cpp's program imatrix writes them, as GGUF (general.type "imatrix"; NAME.in_sum2, the sums of the squared inputs of
 * each column, and NAME.counts, of how many tokens, for each expert) or, before 2025, as a list of its own ("imatrix.dat":
 * the number of entries; of each the length of its name, the name, the number of calls, the number of values, and the
 * values; all numbers are of 32 bits). `hearth quantize --importance` weighs rounding errors with them. `hearth profile
 * --importance` writes the GGUF kind, which llama.cpp's quantizer reads too. */
#ifndef FILE_IMPORTANCE_H
#define FILE_IMPORTANCE_H

#include "checkpoint.h"

/* Opens a file of either kind as a checkpoint with a tensor for each matrix, named as in the model: float32, rank 2, shape
 * {columns, matrices}: the mean square of each column, or 1 for all columns of an expert that was never used.
 * HEARTH_FORMAT: damaged, or no importance matrix. */
hearth_status importance_open(checkpoint **out, const char *path, hearth_error *error);
/* The same of a file in memory, which need not outlive the checkpoint. */
hearth_status importance_parse(checkpoint **out, const uint8_t *data, size_t size_bytes, const char *path,
                               hearth_error *error);

/* What was added up for a tensor: a matrix, or one of each expert. */
typedef struct importance_entry {
    const char *name; /* of the tensor in the model                 */
    uint32_t columns, matrices;
    const double *sums; /* [matrices][columns] of the squared inputs  */
    const double *rows; /* [matrices] how many inputs these were      */
} importance_entry;

/* The text that they were added up over. */
typedef struct importance_text {
    const span *names; /* [name_count] of its files                  */
    size_t name_count;
    uint32_t windows, window_tokens;
} importance_text;

/* Writes entries [count] as GGUF, whole or not at all, in place of a file that is there. HEARTH_INVALID: a sum is too
 * large for float32. */
hearth_status importance_write(const char *path, const importance_entry *entries, size_t count,
                               const importance_text *text, hearth_error *error);

#endif
