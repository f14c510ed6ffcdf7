/* float_neon.c - products in float32: weights in F32, F16, BF16, and block formats with unrounded activations.
 *
 * The plan of float_avx2.c: one token takes eight rows at a time; many tokens take a panel of 16 rows x 256 columns
 * (16 KiB), rows in lanes, in tiles of 16 rows x 6 tokens. The 24 sums of a tile leave eight of the 32 registers
 * free. */
#include "neon.h"

#define PANEL_ROWS    16
#define PANEL_COLUMNS 256
#define PANELS        1 /* filled before they are multiplied with the tokens; more have not been tried here */
#define TILE_TOKENS   6
#define LINE          16 /* values of a token in 64 bytes */

/* Loads the first n (at most 8) weights of a row from column i as float32; the other lanes are 0. */
typedef floats8 load_weights(const uint8_t *row, size_t i, size_t n);

ALWAYS_INLINE floats8 load_f32(const uint8_t *row, size_t i, size_t n)
{
    return load_first((const float *)(const void *)(row + 4 * i), n);
}

ALWAYS_INLINE floats8 load_f16(const uint8_t *row, size_t i, size_t n)
{
    return load_first_halves(row + 2 * i, n);
}

ALWAYS_INLINE floats8 load_bf16(const uint8_t *row, size_t i, size_t n)
{
    return load_first_bfloats(row + 2 * i, n);
}

/* ---- one token ---- */

ALWAYS_INLINE group_sums dot_rows(const row_group *rows, const kernel_input *x, size_t bytes, load_weights *load)
{
    floats8 sum[GROUP];
    for (size_t r = 0; r < GROUP; r++)
        sum[r] = all8(0);
    size_t i = 0, line = 64 / bytes;
    for (; i + line <= x->columns; i += line) {
        fetch_ahead(rows, i * bytes, 64);
        for (size_t k = i; k < i + line; k += LANES) {
            floats8 token = load8(x->values + k);
            for (size_t r = 0; r < GROUP; r++)
                sum[r] = fma8(sum[r], load(rows->now[r], k, LANES), token);
        }
    }
    for (; i < x->columns; i += LANES) {
        floats8 token = load_first(x->values + i, x->columns - i);
        for (size_t r = 0; r < GROUP; r++)
            sum[r] = fma8(sum[r], load(rows->now[r], i, x->columns - i), token);
    }
    return sum_of_8(sum);
}

/* ---- many tokens ---- */

typedef struct panel {
    float weights[PANEL_COLUMNS][PANEL_ROWS];
} panel;

/* Fills eight rows of the panel with `columns` columns from `start` of eight rows of the matrix (NULL: zeros). */
ALWAYS_INLINE void fill_rows(const uint8_t *const row[LANES], size_t start, size_t columns, load_weights *load,
                             float (*out)[PANEL_ROWS])
{
    for (size_t c = 0; c < columns; c += LANES) {
        size_t n = columns - c < LANES ? columns - c : LANES;
        for (size_t four = 0; four < LANES; four += 4) {
            float32x4_t low[4], high[4];
            for (size_t r = 0; r < 4; r++) {
                floats8 v = row[four + r] ? load(row[four + r], start + c, n) : all8(0);
                low[r] = v.low;
                high[r] = v.high;
            }
            transpose_4(low);
            transpose_4(high);
            for (size_t k = 0; k < 4; k++) { /* rows of `out` after the last column are never read */
                vst1q_f32(out[c + k] + four, low[k]);
                vst1q_f32(out[c + 4 + k] + four, high[k]);
            }
        }
    }
}

/* Multiplies 16 rows with `tokens` tokens over `columns` columns; adds the sums to y, or writes them if `first`. */
ALWAYS_INLINE void tile(const panel *p, size_t columns, const tile_tokens *x, size_t tokens, bool first, size_t rows,
                        float *y, size_t y_stride)
{
    floats8 sum[TILE_TOKENS][2];
    for (size_t t = 0; t < tokens; t++)
        sum[t][0] = sum[t][1] = all8(0);
    for (size_t line = 0; line < columns; line += LINE) {
        for (size_t t = 0; t < tokens && x->next; t++)
            __builtin_prefetch(next_token(x, t, line));
        size_t end = columns - line < LINE ? columns : line + LINE;
        for (size_t k = line; k < end; k++) {
            floats8 a = load8(p->weights[k]), b = load8(p->weights[k] + LANES);
            for (size_t t = 0; t < tokens; t++) {
                floats8 value = all8(x->values[t * x->stride + k]);
                sum[t][0] = fma8(sum[t][0], a, value);
                sum[t][1] = fma8(sum[t][1], b, value);
            }
        }
    }
    for (size_t t = 0; t < tokens; t++)
        for (size_t h = 0; h < 2 && h * LANES < rows; h++) {
            float *out = y + t * y_stride + h * LANES;
            if (!first)
                sum[t][h] = add8(load_first(out, rows - h * LANES), sum[t][h]);
            store_first(out, rows - h * LANES, sum[t][h]);
        }
}

#define TILES(X) X(1) X(2) X(3) X(4) X(5) X(6)
#include "panels.h"

/* The product of block formats with float32 activations: decodes to float32, then multiplies as above. */
void neon_product_decoded(const matrix *w, const uint32_t *list, size_t begin, size_t end, const kernel_input *x,
                          float *y, size_t y_stride)
{
    many_tokens(w, list, begin, end, x, y, y_stride, fill_from_blocks);
}

FLOAT_PRODUCT(f32, 4, neon)
FLOAT_PRODUCT(f16, 2, neon)
FLOAT_PRODUCT(bf16, 2, neon)

const kernels neon_floats = {
    .product =
        {
            [FORMAT_F32] = product_f32_neon,
            [FORMAT_F16] = product_f16_neon,
            [FORMAT_BF16] = product_bf16_neon,
        },
};
