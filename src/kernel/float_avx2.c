/* float_avx2.c - products in float32: weights in F32, F16, BF16, and block formats with unrounded activations.
 *
 * The same plan as float_avx512.c with half as many registers of half the width: one token takes eight rows at a time;
 * many tokens take panels of 16 rows x 256 columns (16 KiB), rows in lanes, in tiles of 16 rows x 6 tokens.
 * Panels stay in the L2 cache and a tile's tokens in the L1 cache. Share of the peak rate of multiply-adds, for 512
 * tokens of 2048 columns (8 KiB apart) and of 5632: one panel 0.73 and 0.77; four panels 0.79 and 0.80; four panels
 * with tokens copied together 0.84 and 0.79; eight panels with tokens copied together 0.86 and 0.83. */
#include "avx2.h"

#define PANEL_ROWS    16
#define PANEL_COLUMNS 256
#define PANELS        8 /* filled before they are multiplied with the tokens: 128 KiB */
#define TILE_TOKENS   6
#define LINE          16 /* values of a token in 64 bytes */

/* Loads the first n (at most 8) weights of a row from column i as float32; the other lanes are 0. */
typedef __m256 load_weights(const uint8_t *row, size_t i, size_t n);

ALWAYS_INLINE __m256 load_f32(const uint8_t *row, size_t i, size_t n)
{
    return load_first((const float *)(const void *)(row + 4 * i), n);
}

ALWAYS_INLINE __m256 load_f16(const uint8_t *row, size_t i, size_t n)
{
    return load_first_halves(row + 2 * i, n);
}

/* A bfloat16 is the upper half of a float32. */
ALWAYS_INLINE __m256 load_bf16(const uint8_t *row, size_t i, size_t n)
{
    uint16_t halves[LANES] = {0};
    if (n < LANES)
        memcpy(halves, row + 2 * i, n * sizeof(*halves));
    __m128i words = _mm_loadu_si128(n < LANES ? (const void *)halves : (const void *)(row + 2 * i));
    return _mm256_castsi256_ps(_mm256_slli_epi32(_mm256_cvtepu16_epi32(words), 16));
}

/* ---- one token ---- */

ALWAYS_INLINE __m256 dot_rows(const row_group *rows, const kernel_input *x, size_t bytes, load_weights *load)
{
    __m256 sum[GROUP];
    clear(sum);
    size_t i = 0, line = 64 / bytes;
    for (; i + line <= x->columns; i += line) {
        fetch_ahead(rows, i * bytes, 64);
        for (size_t k = i; k < i + line; k += LANES) {
            __m256 token = _mm256_loadu_ps(x->values + k);
            for (size_t r = 0; r < GROUP; r++)
                sum[r] = _mm256_fmadd_ps(load(rows->now[r], k, LANES), token, sum[r]);
        }
    }
    for (; i < x->columns; i += LANES) {
        __m256 token = load_first(x->values + i, x->columns - i);
        for (size_t r = 0; r < GROUP; r++)
            sum[r] = _mm256_fmadd_ps(load(rows->now[r], i, x->columns - i), token, sum[r]);
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
        __m256i v[LANES];
        for (size_t r = 0; r < LANES; r++)
            v[r] = row[r] ? _mm256_castps_si256(load(row[r], start + c, n)) : _mm256_setzero_si256();
        transpose_8(v);
        for (size_t k = 0; k < LANES; k++) /* rows of `out` after the last column are never read */
            _mm256_store_si256((void *)out[c + k], v[k]);
    }
}

/* Adds the first `rows` of 8 sums to `out`, or writes them if `first`. */
ALWAYS_INLINE void add_sums(__m256 sum, bool first, size_t rows, float *out)
{
    if (!first)
        sum = _mm256_add_ps(load_first(out, rows), sum);
    store_first(out, rows, sum);
}

/* Multiplies 16 rows with `tokens` tokens over `columns` columns; adds the sums to y, or writes them if `first`. */
ALWAYS_INLINE void tile(const panel *p, size_t columns, const tile_tokens *x, size_t tokens, bool first, size_t rows,
                        float *y, size_t y_stride)
{
    __m256 sum[TILE_TOKENS][2];
    UNROLLED
    for (size_t t = 0; t < tokens; t++)
        sum[t][0] = sum[t][1] = _mm256_setzero_ps();
    for (size_t line = 0; line < columns; line += LINE) {
        for (size_t t = 0; t < tokens && x->next; t++)
            _mm_prefetch(next_token(x, t, line), _MM_HINT_T1);
        size_t end = columns - line < LINE ? columns : line + LINE;
        for (size_t k = line; k < end; k++) {
            __m256 a = _mm256_load_ps(p->weights[k]), b = _mm256_load_ps(p->weights[k] + LANES);
            UNROLLED
            for (size_t t = 0; t < tokens; t++) {
                __m256 value = _mm256_broadcast_ss(x->values + t * x->stride + k);
                sum[t][0] = _mm256_fmadd_ps(a, value, sum[t][0]);
                sum[t][1] = _mm256_fmadd_ps(b, value, sum[t][1]);
            }
        }
    }
    UNROLLED
    for (size_t t = 0; t < tokens; t++) {
        add_sums(sum[t][0], first, rows, y + t * y_stride);
        if (rows > LANES)
            add_sums(sum[t][1], first, rows - LANES, y + t * y_stride + LANES);
    }
}

#define TILES(X) X(1) X(2) X(3) X(4) X(5) X(6)
#include "panels.h"

/* The product of block formats with float32 activations: decodes to float32, then multiplies as above. */
void avx2_product_decoded(const matrix *w, const uint32_t *list, size_t begin, size_t end, const kernel_input *x,
                          float *y, size_t y_stride)
{
    many_tokens(w, list, begin, end, x, y, y_stride, fill_from_blocks);
}

FLOAT_PRODUCT(f32, 4, avx2)
FLOAT_PRODUCT(f16, 2, avx2)
FLOAT_PRODUCT(bf16, 2, avx2)

const kernels avx2_floats = {
    .product =
        {
            [FORMAT_F32] = product_f32_avx2,
            [FORMAT_F16] = product_f16_avx2,
            [FORMAT_BF16] = product_bf16_avx2,
        },
};
