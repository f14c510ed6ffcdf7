/* scalar_transpose.c - transposition in plain C: the definition. */
#include "transpose.h"

#include "../number/half.h"

static void transpose_2_scalar(const matrix *w, size_t row, size_t rows, size_t column, size_t columns, void *out,
                               size_t out_row_bytes)
{
    transpose_floats(w, row, rows, column, columns, out, out_row_bytes, 2);
}

static void transpose_4_scalar(const matrix *w, size_t row, size_t rows, size_t column, size_t columns, void *out,
                               size_t out_row_bytes)
{
    transpose_floats(w, row, rows, column, columns, out, out_row_bytes, 4);
}

static void to_halves(const float *values, uint16_t *halves)
{
    for (size_t i = 0; i < 32; i++)
        halves[i] = half_from_float(values[i]);
}

#define TRANSPOSE(id)                                                                                            \
    static void decode_##id(const uint8_t *blocks, size_t columns, float *values)                                \
    {                                                                                                            \
        number_formats[FORMAT_##id].decode(blocks, values, columns);                                             \
    }                                                                                                            \
    static void transpose_##id##_scalar(const matrix *w, size_t row, size_t rows, size_t column, size_t columns, \
                                        void *out, size_t out_row_bytes)                                         \
    {                                                                                                            \
        transpose_blocks(w, row, rows, column, columns, out, out_row_bytes, decode_##id, to_halves);             \
    }
TRANSPOSE(Q8_0)
TRANSPOSE(Q4_0)
TRANSPOSE(Q4_K)
TRANSPOSE(Q6_K)

const kernels scalar_transposes = {
    .transpose =
        {
            [FORMAT_F32] = transpose_4_scalar,
            [FORMAT_F16] = transpose_2_scalar,
            [FORMAT_BF16] = transpose_2_scalar,
            [FORMAT_Q8_0] = transpose_Q8_0_scalar,
            [FORMAT_Q4_0] = transpose_Q4_0_scalar,
            [FORMAT_Q4_K] = transpose_Q4_K_scalar,
            [FORMAT_Q6_K] = transpose_Q6_K_scalar,
        },
};
