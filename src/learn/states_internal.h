/* states_internal.h - shared by the writer and the reader of hidden states: the format of rows and of the manifest.
 *
 * Row r of a layer's file belongs to the one token drawn from tokens [r * stride, (r + 1) * stride), so its place
 * follows from the token alone: writing a row twice does no harm, and nothing beyond the manifest's count is read. The
 * manifest is replaced whole after the rows are on disk. */
#ifndef LEARN_STATES_INTERNAL_H
#define LEARN_STATES_INTERNAL_H

#include "../model/fingerprint.h"
#include "states.h"

#define MANIFEST_NAME "states"

/* Layout of a row: bits [words] (uint64), root mean square
 * (float), the stream divided by it [d] (float16), padded to 8. */
typedef struct row_shape {
    uint32_t d, f;
    size_t words, bytes;
} row_shape;

row_shape row_shape_of(const hearth_model *m);
/* Encodes an observation. row [bytes], aligned to 8. */
void row_encode(const row_shape *s, const hearth_observation *seen, uint8_t *row);
/* Decodes the residual stream or, where norm [d] (the weights of the norm) is given, the normed input. input [d] */
void row_decode(const row_shape *s, const uint8_t *row, const float *norm, float epsilon, float *input);

typedef struct manifest {
    char fingerprint[FINGERPRINT_SIZE], digest[HASH_TEXT_SIZE];
    uint64_t corpus_tokens, stride; /* tokens of the corpus; one of `stride` is kept */
    uint64_t tokens;                /* tokens handled so far                         */
    uint32_t layers, d, f;
} manifest;

/* Returns the token kept of tokens [group * stride, (group + 1) * stride); the last group may be shorter. */
uint64_t manifest_kept_of(const manifest *m, uint64_t group);
/* Returns the rows that belong to the first `tokens` tokens. */
uint64_t manifest_rows_before(const manifest *m, uint64_t tokens);
/* Reads the manifest of a folder. HEARTH_FORMAT: it is damaged. HEARTH_IO: it cannot be read. */
hearth_status manifest_read(manifest *out, const char *folder, hearth_error *error);
hearth_status manifest_write(const manifest *m, const char *folder, hearth_error *error);

/* Returns the path of a layer's file; mem_free. NULL: no memory. */
char *states_layer_path(const char *folder, uint32_t layer);

#endif
