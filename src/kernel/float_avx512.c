/* float_avx512.c - products in float32: weights in F32, F16, BF16, and block formats with unrounded activations.
 *
 * One token: eight rows at a time are converted in registers and share each load of the token. A row's sum never
 * depends on the other rows.
 *
 * Many tokens: 32 rows x 256 columns of weights are converted once into a panel on the stack (32 KiB, which stay in the
 * L1 cache), rows in lanes: panel[column][row]. The sums of a tile of 32 rows x 12 tokens then fit 24 registers; each
 * step takes one column of the panel and one value per token. No sums across lanes are needed; the cost is one
 * transposition of the panel, which pays off with 12 tokens.
 * Tried instead: rows x tokens with lanes along the columns. That needs no transposition, but the sums across lanes at
 * the end of every 1024 columns cost 7 %. */
#include "avx512.h"

#define PANEL_ROWS    32
#define PANEL_COLUMNS 256
#define PANELS        1 /* filled before they are multiplied with the tokens; more have not been tried here */
#define TILE_TOKENS   12
#define LINE          16 /* values of a token in 64 bytes */

/* Loads sixteen weights of a row from column i as float32; lanes that are not in `lanes` become 0. */
typedef __m512 load_weights(const uint8_t *row, size_t i, __mmask16 lanes);

ALWAYS_INLINE __m512 load_f32(const uint8_t *row, size_t i, __mmask16 lanes)
{
    return lanes == 0xffff ? _mm512_loadu_ps(row + 4 * i) : _mm512_maskz_loadu_ps(lanes, row + 4 * i);
}

ALWAYS_INLINE __m256i load_halves(const uint8_t *row, size_t i, __mmask16 lanes)
{
    const void *at = row + 2 * i;
    return lanes == 0xffff ? _mm256_loadu_si256(at) : _mm256_maskz_loadu_epi16(lanes, at);
}

ALWAYS_INLINE __m512 load_f16(const uint8_t *row, size_t i, __mmask16 lanes)
{
    return _mm512_cvtph_ps(load_halves(row, i, lanes));
}

/* A bfloat16 is the upper half of a float32. */
ALWAYS_INLINE __m512 load_bf16(const uint8_t *row, size_t i, __mmask16 lanes)
{
    return _mm512_castsi512_ps(_mm512_slli_epi32(_mm512_cvtepu16_epi32(load_halves(row, i, lanes)), 16));
}

/* ---- one token ---- */

ALWAYS_INLINE __m256 dot_rows(const row_group *rows, const kernel_input *x, size_t bytes, load_weights *load)
{
    __m512 sum[GROUP];
    clear(sum);
    size_t i = 0, line = 64 / bytes;
    for (; i + line <= x->columns; i += line) {
        fetch_ahead(rows, i * bytes, 64);
        for (size_t k = i; k < i + line; k += LANES) {
            __m512 token = _mm512_loadu_ps(x->values + k);
            for (size_t r = 0; r < GROUP; r++)
                sum[r] = _mm512_fmadd_ps(load(rows->now[r], k, 0xffff), token, sum[r]);
        }
    }
    for (; i < x->columns; i += LANES) {
        __mmask16 lanes = first_lanes(x->columns - i);
        __m512 token = _mm512_maskz_loadu_ps(lanes, x->values + i);
        for (size_t r = 0; r < GROUP; r++)
            sum[r] = _mm512_fmadd_ps(load(rows->now[r], i, lanes), token, sum[r]);
    }
    return sum_of_8(sum);
}

/* ---- many tokens ---- */

typedef struct panel {
    float weights[PANEL_COLUMNS][PANEL_ROWS];
} panel;

/* Fills sixteen rows of the panel with `columns` columns from `start` of sixteen matrix rows (NULL: zeros). */
ALWAYS_INLINE void fill_rows(const uint8_t *const row[LANES], size_t start, size_t columns, load_weights *load,
                             float (*out)[PANEL_ROWS])
{
    for (size_t c = 0; c < columns; c += LANES) {
        __mmask16 lanes = first_lanes(columns - c);
        __m512i v[LANES];
        for (size_t r = 0; r < LANES; r++)
            v[r] = row[r] ? _mm512_castps_si512(load(row[r], start + c, lanes)) : _mm512_setzero_si512();
        transpose_16(v);
        for (size_t k = 0; k < LANES; k++) /* rows of `out` after the last column are never read */
            _mm512_store_si512(out[c + k], v[k]);
    }
}

/* Multiplies 32 rows with `tokens` tokens over `columns` columns; adds the sums to y, or writes them if `first`. */
ALWAYS_INLINE void tile(const panel *p, size_t columns, const tile_tokens *x, size_t tokens, bool first, size_t rows,
                        float *y, size_t y_stride)
{
    __m512 sum[TILE_TOKENS][2];
    for (size_t t = 0; t < tokens; t++)
        sum[t][0] = sum[t][1] = _mm512_setzero_ps();
    for (size_t line = 0; line < columns; line += LINE) {
        for (size_t t = 0; t < tokens && x->next; t++)
            _mm_prefetch(next_token(x, t, line), _MM_HINT_T0);
        size_t end = columns - line < LINE ? columns : line + LINE;
        for (size_t k = line; k < end; k++) {
            __m512 a = _mm512_load_ps(p->weights[k]), b = _mm512_load_ps(p->weights[k] + LANES);
            for (size_t t = 0; t < tokens; t++) {
                __m512 value = _mm512_set1_ps(x->values[t * x->stride + k]);
                sum[t][0] = _mm512_fmadd_ps(a, value, sum[t][0]);
                sum[t][1] = _mm512_fmadd_ps(b, value, sum[t][1]);
            }
        }
    }
    for (size_t t = 0; t < tokens; t++)
        for (size_t h = 0; h < 2; h++) {
            __mmask16 lanes = rows > h * LANES ? first_lanes(rows - h * LANES) : 0;
            float *out = y + t * y_stride + h * LANES;
            if (!first)
                sum[t][h] = _mm512_add_ps(_mm512_maskz_loadu_ps(lanes, out), sum[t][h]);
            _mm512_mask_storeu_ps(out, lanes, sum[t][h]);
        }
}

#define TILES(X) X(1) X(2) X(3) X(4) X(5) X(6) X(7) X(8) X(9) X(10) X(11) X(12)
#include "panels.h"

/* The product of block formats with float32 activations: decodes to float32, then multiplies as above. */
void avx512_product_decoded(const matrix *w, const uint32_t *list, size_t begin, size_t end, const kernel_input *x,
                            float *y, size_t y_stride)
{
    many_tokens(w, list, begin, end, x, y, y_stride, fill_from_blocks);
}

FLOAT_PRODUCT(f32, 4, avx512)
FLOAT_PRODUCT(f16, 2, avx512)
FLOAT_PRODUCT(bf16, 2, avx512)

const kernels avx512_floats = {
    .product =
        {
            [FORMAT_F32] = product_f32_avx512,
            [FORMAT_F16] = product_f16_avx512,
            [FORMAT_BF16] = product_bf16_avx512,
        },
};
