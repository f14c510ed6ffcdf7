/* states_internal.h - what the writer and the reader of hidden states share: how rows and the manifest lie on disk.
 *
 * Row r of a layer's file belongs to the one token that was drawn from tokens [r * stride, (r + 1) * stride), so its
 * place follows from the token alone: writing a row twice does no harm, and what lies beyond the manifest is never
 * looked at. The manifest is replaced whole after the rows are on disk. */
#ifndef LEARN_STATES_INTERNAL_H
#define LEARN_STATES_INTERNAL_H

#include "../model/fingerprint.h"
#include "states.h"

#define MANIFEST_NAME "states"

/* A row: bits [words] (uint64), root mean square (float), the stream divided by it [d] (float16), padded to 8. */
typedef struct row_shape {
    uint32_t d, f;
    size_t words, bytes;
} row_shape;

row_shape row_shape_of(const hearth_model *m);
/* row [bytes], aligned to 8. */
void row_encode(const row_shape *s, const hearth_observation *seen, uint8_t *row);
/* The residual stream; where norm [d] is given (its weights), what the network reads. input [d] */
void row_decode(const row_shape *s, const uint8_t *row, const float *norm, float epsilon, float *input);

typedef struct manifest {
    char fingerprint[FINGERPRINT_SIZE], digest[HASH_TEXT_SIZE];
    uint64_t corpus_tokens, stride; /* the corpus and of how many of its tokens one is kept */
    uint64_t tokens;                /* dealt with                                           */
    uint32_t layers, d, f;
} manifest;

/* The token that is kept of tokens [group * stride, (group + 1) * stride), the last of which may be fewer. */
uint64_t manifest_kept_of(const manifest *m, uint64_t group);
/* Rows that belong to the first `tokens` tokens. */
uint64_t manifest_rows_before(const manifest *m, uint64_t tokens);
/* HEARTH_FORMAT: it is damaged. HEARTH_IO: it cannot be read. */
hearth_status manifest_read(manifest *out, const char *folder, hearth_error *error);
hearth_status manifest_write(const manifest *m, const char *folder, hearth_error *error);

/* Of a layer's file; mem_free. NULL: no memory. */
char *states_layer_path(const char *folder, uint32_t layer);

#endif
