/* float_avx512bf16.c - products of weights of 16 bits with many tokens, both rounded to bfloat16, two columns at a time: half of the
 * multiplications of float_avx512.c and half of the bytes in the caches. Few tokens, and those that are not rounded, are
 * multiplied in float32 there: with them reading the weights is what takes time.
 *
 * A word of a panel holds two neighbouring columns of a row, and one of a token the same two; vdpbf16ps adds both products to the
 * sum. It takes numbers below 2^-126 for zero. */
#include "avx512.h"

#define PANEL_ROWS    32
#define PANEL_COLUMNS 512 /* words */
#define WORD_COLUMNS  2
#define PANELS        4 /* filled before they are multiplied with the tokens */
#define TILE_TOKENS   12
#define NEXT_TILE     3 /* the cache that the tokens of the next tile are prefetched into (__builtin_prefetch) */

#define TILES(X) X(1) X(2) X(3) X(4) X(5) X(6) X(7) X(8) X(9) X(10) X(11) X(12)

ALWAYS_INLINE vector multiply_add(vector sum, vector a, vector b)
{
    return _mm512_dpbf16_ps(sum, (__m512bh)a, (__m512bh)b);
}

#include "panels.h"

/* Rounds 32 neighbouring values to sixteen words. */
ALWAYS_INLINE vector words_of(vector first, vector second)
{
    return (vector)_mm512_cvtne2ps_pbh(second, first);
}

/* Loads the first n (at most sixteen) words from index i of a row; the others are 0. */
ALWAYS_INLINE vector load_words_f16(const void *row, size_t i, size_t n)
{
    const uint16_t *at = (const uint16_t *)row + 2 * i;
    return words_of(load_first_halves(at, 2 * n), load_first_halves(at + LANES, n > LANES / 2 ? 2 * n - LANES : 0));
}

ALWAYS_INLINE vector load_words_bf16(const void *row, size_t i, size_t n)
{
    return load_first((const float *)row + i, n); /* which are such words */
}

/* Defines the product of a format whose load_words_NAME is defined. */
#define ROUNDED_PRODUCT(id, name)                                                                                \
    ALWAYS_INLINE void fill_##name(const matrix *w, const uint32_t *list, size_t i, size_t end, size_t start,    \
                                   size_t columns, panel *p)                                                     \
    {                                                                                                            \
        fill_from_floats(w, list, i, end, start, columns, p, load_words_##name);                                 \
    }                                                                                                            \
    static void product_##name##_avx512bf16(const matrix *w, const uint32_t *list, size_t begin, size_t end,     \
                                            const kernel_input *x, float *y, size_t y_stride)                    \
    {                                                                                                            \
        kernel_input words = {.count = x->count, .columns = x->columns / 2, .values = (const void *)x->bfloats}; \
        if (x->bfloats && x->count > FEW_OF_BFLOATS)                                                             \
            many_tokens(w, list, begin, end, &words, y, y_stride, fill_##name);                                  \
        else                                                                                                     \
            avx512_floats.product[FORMAT_##id](w, list, begin, end, x, y, y_stride);                             \
    }
ROUNDED_PRODUCT(F16, f16)
ROUNDED_PRODUCT(BF16, bf16)

static void to_bfloat_avx512bf16(const float *x, size_t n, uint16_t *out)
{
    for (size_t i = 0; i < n; i += LANES) {
        __m256i rounded = (__m256i)_mm512_cvtneps_pbh(load_first(x + i, n - i));
        _mm256_mask_storeu_epi16(out + i, first_lanes(n - i), rounded);
    }
}

const kernels avx512bf16_floats = {
    .product = {[FORMAT_F16] = product_f16_avx512bf16, [FORMAT_BF16] = product_bf16_avx512bf16},
    .to_bfloat = to_bfloat_avx512bf16,
};
