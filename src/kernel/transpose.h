/* transpose.h - transposition in plain C, which compilers vectorise with the flags of the file that includes it
 * (scalar_transpose.c, transpose_avx2.c, transpose_avx512.c). A level only adds its own way of decoding rows.
 *
 * Rows of the result lie far apart, so the order of the stores determines the speed. A stripe of columns is processed
 * through all rows, 32 rows at a time, so that every cache line of the result is completed while it is still in a
 * cache. Meanwhile the next 32 pieces of the source are prefetched, since the CPU cannot guess their addresses. */
#ifndef KERNEL_TRANSPOSE_H
#define KERNEL_TRANSPOSE_H

#include "levels.h"

#include <math.h>
#include <stdbool.h>

#define TURN_ROWS      32
#define FLOAT_STRIPE   64  /* columns of a float format at a time */
#define BLOCK_STRIPE   256 /* columns of a block format: a multiple of every block */
#define LARGEST_Q8_0   (127 * 65504.0f)
#define ROUND_TO_WHOLE 0x1.8p23f /* adding it leaves the rounded value (ties to even) in the low bits of the sum */

#define INLINE static inline __attribute__((always_inline))

/* Prefetches `bytes` bytes from byte `at` of rows [row, row + rows), which will be read next. */
INLINE void fetch_pieces(const matrix *w, size_t row, size_t rows, size_t at, size_t bytes)
{
    for (size_t r = row; r < row + rows; r++)
        for (size_t i = 0; i < bytes; i += 64)
            __builtin_prefetch((const uint8_t *)matrix_row(w, r) + at + i, 0, 2);
}

/* Prefetches the cache lines of a row of the result that will be written next, `bytes` bytes from `at` on. Without it
 * stores wait for one line after the other. (At the end of a row it prefetches lines that are not needed.) */
INLINE void fetch_result(uintptr_t at, size_t bytes)
{
    for (size_t i = 63; i < bytes + 63; i += 64)
        __builtin_prefetch((const void *)(at + (i < bytes ? i : bytes - 1)), 0, 2);
}

/* ---- float formats: values of `size` bytes are moved ---- */

INLINE void transpose_floats(const matrix *w, size_t row, size_t rows, size_t column, size_t columns, uint8_t *out,
                             size_t out_row_bytes, size_t size)
{
    uint8_t tile[FLOAT_STRIPE][TURN_ROWS * 4];
    for (size_t c0 = 0; c0 < columns; c0 += FLOAT_STRIPE) {
        size_t width = columns - c0 < FLOAT_STRIPE ? columns - c0 : FLOAT_STRIPE, at = (column + c0) * size;
        for (size_t r0 = 0; r0 < rows; r0 += TURN_ROWS) {
            size_t height = rows - r0 < TURN_ROWS ? rows - r0 : TURN_ROWS, left = rows - r0 - height;
            fetch_pieces(w, row + r0 + height, left < TURN_ROWS ? left : TURN_ROWS, at, width * size);
            for (size_t r = 0; r < height; r++) {
                const uint8_t *from = (const uint8_t *)matrix_row(w, row + r0 + r) + at;
                for (size_t c = 0; c < width; c++)
                    memcpy(tile[c] + r * size, from + c * size, size);
            }
            for (size_t c = 0; c < width; c++) {
                uint8_t *to = out + (c0 + c) * out_row_bytes + (row + r0) * size;
                memcpy(to, tile[c], height * size);
                fetch_result((uintptr_t)to + TURN_ROWS * size, TURN_ROWS * size);
            }
        }
    }
}

/* ---- block formats: decoded, and rounded to Q8_0 along the columns ---- */

/* Decodes `columns` values, a multiple of 32, of whole blocks. */
typedef void decode_function(const uint8_t *blocks, size_t columns, float *values);
/* Converts 32 floats, none above 65504, to float16. */
typedef void halves_function(const float *values, uint16_t *halves);

/* Values of 32 rows, row after row. */
typedef float decoded_tile[TURN_ROWS][BLOCK_STRIPE];

INLINE uint32_t bits_of(float f)
{
    uint32_t bits;
    memcpy(&bits, &f, sizeof(bits));
    return bits;
}

/* Replaces NaN by 0 and clamps values to what Q8_0 can hold, as the encoder does, in 32 columns. */
static __attribute__((noinline)) void make_finite(decoded_tile tile, size_t column)
{
    for (size_t r = 0; r < TURN_ROWS; r++)
        for (size_t c = column; c < column + 32; c++) {
            float x = tile[r][c];
            tile[r][c] = x > LARGEST_Q8_0 ? LARGEST_Q8_0 : x < -LARGEST_Q8_0 ? -LARGEST_Q8_0 : x == x ? x : 0.0f;
        }
}

/* Finds the largest magnitudes of 32 columns as bits, which have the order of the magnitudes, with NaN at the top. */
INLINE void magnitudes(decoded_tile tile, size_t column, int32_t top[32])
{
    for (size_t c = 0; c < 32; c++)
        top[c] = 0;
    for (size_t r = 0; r < TURN_ROWS; r++)
        for (size_t c = 0; c < 32; c++) {
            int32_t bits = (int32_t)(bits_of(tile[r][column + c]) & 0x7fffffff);
            top[c] = bits > top[c] ? bits : top[c];
        }
}

/* Computes the scales of 32 columns and the factors of their values; a factor that would not be finite becomes 0. */
INLINE void scales_of(const int32_t top[32], float scales[32], float factors[32])
{
    for (size_t c = 0; c < 32; c++) {
        float magnitude;
        memcpy(&magnitude, &top[c], sizeof(magnitude));
        float scale = magnitude / 127.0f, factor = 1.0f / scale;
        scales[c] = scale;
        factors[c] = factor < INFINITY ? factor : 0.0f;
    }
}

/* Encodes 32 columns of a tile into the blocks at out, out + out_row_bytes, ... */
INLINE void encode_columns(decoded_tile tile, size_t column, uint8_t *out, size_t out_row_bytes,
                           halves_function *to_halves)
{
    int32_t top[32], beyond = 0, limit = (int32_t)bits_of(LARGEST_Q8_0);
    magnitudes(tile, column, top);
    for (size_t c = 0; c < 32; c++)
        beyond |= limit - top[c];
    if (beyond < 0) {
        make_finite(tile, column);
        magnitudes(tile, column, top);
    }
    float scales[32], factors[32];
    uint16_t halves[32];
    scales_of(top, scales, factors);
    to_halves(scales, halves);
    /* Packs four rows into the bytes of a word, so that columns are stored in words. */
    uint32_t words[TURN_ROWS / 4][32];
    for (size_t r = 0; r < TURN_ROWS; r += 4)
        for (size_t c = 0; c < 32; c++) {
            uint32_t a = bits_of(tile[r][column + c] * factors[c] + ROUND_TO_WHOLE) & 255;
            uint32_t b = bits_of(tile[r + 1][column + c] * factors[c] + ROUND_TO_WHOLE) & 255;
            uint32_t d = bits_of(tile[r + 2][column + c] * factors[c] + ROUND_TO_WHOLE) & 255;
            uint32_t e = bits_of(tile[r + 3][column + c] * factors[c] + ROUND_TO_WHOLE);
            words[r / 4][c] = a | b << 8 | d << 16 | e << 24;
        }
    for (size_t c = 0; c < 32; c++) {
        block_q8_0 *block = (void *)(out + c * out_row_bytes);
        block->d = halves[c];
        for (size_t k = 0; k < TURN_ROWS / 4; k++)
            memcpy(block->q + 4 * k, &words[k][c], 4);
        fetch_result((uintptr_t)(block + 1), sizeof(*block));
    }
}

INLINE void transpose_blocks(const matrix *w, size_t row, size_t rows, size_t column, size_t columns, uint8_t *out,
                             size_t out_row_bytes, decode_function *decode, halves_function *to_halves)
{
    const number_traits *format = &number_formats[w->format];
    _Alignas(64) decoded_tile tile;
    for (size_t c0 = column, next; c0 < column + columns; c0 = next) {
        /* The blocks that hold columns [c0, next); blocks of 256 values may begin before them and end after them. */
        size_t start = c0 / format->block_values * format->block_values;
        next = start + BLOCK_STRIPE < column + columns ? start + BLOCK_STRIPE : column + columns;
        size_t blocks = (next - start + format->block_values - 1) / format->block_values;
        size_t at = start / format->block_values * format->block_bytes;
        for (size_t r0 = row; r0 < row + rows; r0 += TURN_ROWS) {
            bool more = r0 + TURN_ROWS < row + rows;
            for (size_t r = r0; r < r0 + TURN_ROWS; r++) {
                fetch_pieces(w, more ? r + TURN_ROWS : r, 1, at, blocks * format->block_bytes);
                decode((const uint8_t *)matrix_row(w, r) + at, blocks * format->block_values, tile[r - r0]);
            }
            for (size_t c = c0; c < next; c += 32)
                encode_columns(tile, c - start,
                               out + (c - column) * out_row_bytes + r0 / TURN_ROWS * sizeof(block_q8_0), out_row_bytes,
                               to_halves);
        }
    }
}

/* Defines the transposition of a format at a level with decode.h. */
#define TRANSPOSE_KERNEL(level, id, name, scales)                                                                   \
    ALWAYS_INLINE void decode_##name##_row(const uint8_t *blocks, size_t columns, float *out)                       \
    {                                                                                                               \
        decode_columns(blocks, columns, 0, columns, out, WEIGHT_DECODER(id, name, scales));                         \
    }                                                                                                               \
    static void transpose_##name##_##level(const matrix *w, size_t row, size_t rows, size_t column, size_t columns, \
                                           void *out, size_t out_row_bytes)                                         \
    {                                                                                                               \
        if (FORMAT_VALUES_##id > 1)                                                                                 \
            transpose_blocks(w, row, rows, column, columns, out, out_row_bytes, decode_##name##_row, store_halves); \
        else                                                                                                        \
            transpose_floats(w, row, rows, column, columns, out, out_row_bytes, FORMAT_BYTES_##id);                 \
    }
#define TRANSPOSED(level, id, name, scales) [FORMAT_##id] = transpose_##name##_##level,

#endif
