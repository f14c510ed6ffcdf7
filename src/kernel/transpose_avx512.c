/* transpose_avx512.c - transposition with the loops of transpose.h; rows are decoded in registers. */
#include "decode_avx512.h"
#include "transpose.h"

static void to_halves(const float *values, uint16_t *halves)
{
    for (size_t i = 0; i < 32; i += LANES)
        _mm256_storeu_si256((void *)(halves + i),
                            _mm512_cvtps_ph(_mm512_loadu_ps(values + i), _MM_FROUND_TO_NEAREST_INT));
}

#define X(id, name, scales, values, bytes, span, least)                                                            \
    ALWAYS_INLINE void decode_##name##_row(const uint8_t *blocks, size_t columns, float *out)                      \
    {                                                                                                              \
        weight_decoder format = {values, bytes, span, least, scales, decode_##name};                               \
        decode_columns(blocks, 0, columns, out, format);                                                           \
    }                                                                                                              \
    static void transpose_##name##_avx512(const matrix *w, size_t row, size_t rows, size_t column, size_t columns, \
                                          void *out, size_t out_row_bytes)                                         \
    {                                                                                                              \
        if (values > 1)                                                                                            \
            transpose_blocks(w, row, rows, column, columns, out, out_row_bytes, decode_##name##_row, to_halves);   \
        else                                                                                                       \
            transpose_floats(w, row, rows, column, columns, out, out_row_bytes, bytes);                            \
    }
WEIGHT_DECODERS(X)
#undef X

const kernels avx512_transposes = {
#define X(id, name, ...) [FORMAT_##id] = transpose_##name##_avx512,
    .transpose = {WEIGHT_DECODERS(X)},
#undef X
};
