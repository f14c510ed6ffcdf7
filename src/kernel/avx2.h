/* avx2.h - helpers that the AVX2 files share. All `static inline`: nothing here may become a symbol that code
 * without these instructions could be linked to. */
#ifndef KERNEL_AVX2_H
#define KERNEL_AVX2_H

#include "levels.h"

#include <immintrin.h>

#define LANES         8 /* float32 values of a register */
#define ALWAYS_INLINE static inline __attribute__((always_inline))

/* Block formats with float32 activations (float_avx2.c), and with many tokens of 8 bits (tile_avx2.c). */
kernel_product avx2_product_decoded, avx2_product_tiles;

/* A mask of the first n of 8 lanes; all for n >= 8. */
static inline __m256i first_lanes(size_t n)
{
    const __m256i index = _mm256_set_epi32(7, 6, 5, 4, 3, 2, 1, 0);
    return _mm256_cmpgt_epi32(_mm256_set1_epi32(n < LANES ? (int)n : LANES), index);
}

/* The first n of 8 floats, 0 behind them. */
static inline __m256 load_first(const float *at, size_t n)
{
    return n >= LANES ? _mm256_loadu_ps(at) : _mm256_maskload_ps(at, first_lanes(n));
}

static inline void store_first(float *at, size_t n, __m256 v)
{
    if (n >= LANES)
        _mm256_storeu_ps(at, v);
    else
        _mm256_maskstore_ps(at, first_lanes(n), v);
}

/* The first n of 8 float16 as float32, 0 behind them. There is no masked load of 16 bits. */
static inline __m256 load_first_halves(const void *at, size_t n)
{
    if (n >= LANES)
        return _mm256_cvtph_ps(_mm_loadu_si128(at));
    uint16_t halves[LANES] = {0};
    memcpy(halves, at, n * sizeof(*halves));
    return _mm256_cvtph_ps(_mm_loadu_si128((const void *)halves));
}

/* The sums of eight registers, in order. */
static inline __m256 sum_of_8(const __m256 v[8])
{
    __m256 a = _mm256_hadd_ps(_mm256_hadd_ps(v[0], v[1]), _mm256_hadd_ps(v[2], v[3]));
    __m256 b = _mm256_hadd_ps(_mm256_hadd_ps(v[4], v[5]), _mm256_hadd_ps(v[6], v[7]));
    return _mm256_add_ps(_mm256_permute2f128_ps(a, b, 0x20), _mm256_permute2f128_ps(a, b, 0x31));
}

static inline float sum_of(__m256 v)
{
    __m128 s = _mm_add_ps(_mm256_castps256_ps128(v), _mm256_extractf128_ps(v, 1));
    s = _mm_add_ps(s, _mm_movehl_ps(s, s));
    return _mm_cvtss_f32(_mm_add_ss(s, _mm_movehdup_ps(s)));
}

/* Transposes 8 x 8 words of 32 bits in place: first within 128-bit lanes, then the lanes. */
ALWAYS_INLINE void transpose_8(__m256i v[8])
{
    __m256i t[8];
    for (size_t i = 0; i < 8; i += 4) {
        __m256i a = _mm256_unpacklo_epi32(v[i], v[i + 1]), b = _mm256_unpackhi_epi32(v[i], v[i + 1]);
        __m256i c = _mm256_unpacklo_epi32(v[i + 2], v[i + 3]), d = _mm256_unpackhi_epi32(v[i + 2], v[i + 3]);
        t[i] = _mm256_unpacklo_epi64(a, c);
        t[i + 1] = _mm256_unpackhi_epi64(a, c);
        t[i + 2] = _mm256_unpacklo_epi64(b, d);
        t[i + 3] = _mm256_unpackhi_epi64(b, d);
    }
    for (size_t i = 0; i < 4; i++) {
        v[i] = _mm256_permute2x128_si256(t[i], t[i + 4], 0x20);
        v[i + 4] = _mm256_permute2x128_si256(t[i], t[i + 4], 0x31);
    }
}

/* ---- one token: the loop over rows that all formats share ---- */

#define GROUP 8   /* rows in flight */
#define AHEAD 512 /* bytes by which a stream is fetched ahead; 256 to 1024 are as good */

/* Rows in flight, and for each the bytes to fetch while it is multiplied. */
typedef struct row_group {
    const uint8_t *now[GROUP], *ahead[GROUP];
} row_group;

/* The products of a group of rows with the only token of x. */
typedef __m256 dot_function(const row_group *rows, const kernel_input *x);

/* To be called at every step that multiplies `bytes` bytes of each row from byte `at`. */
ALWAYS_INLINE void fetch_ahead(const row_group *rows, size_t at, size_t bytes)
{
    for (size_t r = 0; r < GROUP; r++)
        for (size_t i = 0; i < bytes; i += 64)
            _mm_prefetch((const char *)rows->ahead[r] + at + i, _MM_HINT_T0);
}

ALWAYS_INLINE void clear(__m256 sum[GROUP])
{
    for (size_t r = 0; r < GROUP; r++)
        sum[r] = _mm256_setzero_ps();
}

/* The rows in flight begin a part of the range apart, so that each is a stream of its own (avx512.h). */
ALWAYS_INLINE void rows_in_streams(const matrix *w, const uint32_t *list, size_t begin, size_t end,
                                   const kernel_input *x, float *y, dot_function *dot)
{
    size_t apart = (end - begin + GROUP - 1) / GROUP;
    for (size_t i = begin; i < begin + apart; i++) {
        row_group rows;
        for (size_t r = 0; r < GROUP; r++) { /* a group that is not full repeats the last row */
            size_t now = i + r * apart, next = now + 1;
            rows.now[r] = listed_row(w, list, now < end ? now : end - 1);
            rows.ahead[r] = list ? listed_row(w, list, next < end ? next : end - 1) : rows.now[r] + AHEAD;
        }
        if (i == begin) /* the streams' first bytes, at once: what follows is fetched on the way */
            for (size_t r = 0; r < GROUP; r++)
                for (size_t k = 0; k < AHEAD && k < w->row_bytes; k += 64)
                    _mm_prefetch((const char *)rows.now[r] + k, _MM_HINT_T0);
        float sums[GROUP];
        _mm256_storeu_ps(sums, dot(&rows, x));
        for (size_t r = 0; r < GROUP && i + r * apart < end; r++)
            y[i + r * apart] = sums[r];
    }
}

#endif
