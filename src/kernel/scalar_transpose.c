/* scalar_transpose.c - transposition in plain C: the definition. */
#include "transpose.h"

#include "../number/half.h"

static void to_halves(const float *values, uint16_t *halves)
{
    for (size_t i = 0; i < 32; i++)
        halves[i] = half_from_float(values[i]);
}

#define X(id, name, gguf_type, file_type, block_values, block_bytes, ...)                                        \
    static void decode_##id(const uint8_t *blocks, size_t columns, float *values)                                \
    {                                                                                                            \
        number_formats[FORMAT_##id].decode(blocks, values, columns);                                             \
    }                                                                                                            \
    static void transpose_##id##_scalar(const matrix *w, size_t row, size_t rows, size_t column, size_t columns, \
                                        void *out, size_t out_row_bytes)                                         \
    {                                                                                                            \
        if ((block_values) > 1)                                                                                  \
            transpose_blocks(w, row, rows, column, columns, out, out_row_bytes, decode_##id, to_halves);         \
        else                                                                                                     \
            transpose_floats(w, row, rows, column, columns, out, out_row_bytes, block_bytes);                    \
    }
NUMBER_FORMATS(X)
#undef X

const kernels scalar_transposes = {
#define X(id, ...) .transpose[FORMAT_##id] = transpose_##id##_scalar,
    NUMBER_FORMATS(X)
#undef X
};
