/* avx2.h - helpers that the AVX2 files share. All are `static inline`: nothing here may become a symbol that code
 * without these instructions could be linked to. */
#ifndef KERNEL_AVX2_H
#define KERNEL_AVX2_H

#include <immintrin.h>

typedef __m256 group_sums;

#include "streams.h"

#define LANES 8 /* float32 values in a register */

/* Fully unrolls the next loop. Loops over an array of registers need it: otherwise gcc keeps the array in memory and
 * stores it at every step (the float tile then runs at a third of its speed). */
#define UNROLLED _Pragma("GCC unroll 16")

/* Products of block formats with float32 activations (float_avx2.c), and with many tokens of 8 bits (tile_avx2.c). */
kernel_product avx2_product_decoded, avx2_product_tiles;

/* Returns a mask of the first n of 8 lanes; all for n >= 8. */
static inline __m256i first_lanes(size_t n)
{
    const __m256i index = _mm256_set_epi32(7, 6, 5, 4, 3, 2, 1, 0);
    return _mm256_cmpgt_epi32(_mm256_set1_epi32(n < LANES ? (int)n : LANES), index);
}

/* Loads the first n of 8 floats; the other lanes are 0. */
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

/* Loads the first n of 8 float16 as float32; the other lanes are 0. (AVX2 has no masked load of 16 bits.) */
static inline __m256 load_first_halves(const void *at, size_t n)
{
    if (n >= LANES)
        return _mm256_cvtph_ps(_mm_loadu_si128(at));
    uint16_t halves[LANES] = {0};
    memcpy(halves, at, n * sizeof(*halves));
    return _mm256_cvtph_ps(_mm_loadu_si128((const void *)halves));
}

/* Returns the scales of eight Q4_0 blocks, in order, as float16. Loading them one by one takes three times as many
 * instructions. A block has 18 bytes; so of the eight 32-bit words from byte 32 i on, word i has the scale of block 2 i
 * in its lower half, and word 4 + i has that of block 2 i + 1 in its upper half. */
static inline __m128i scales_of_8(const block_q4_0 block[8])
{
    __m256i v[4];
    for (int i = 0; i < 4; i++)
        v[i] = _mm256_loadu_si256((const void *)((const uint8_t *)block + 32 * i));
    __m256i words =
        _mm256_blend_epi32(_mm256_blend_epi32(v[0], v[1], 0x22), _mm256_blend_epi32(v[2], v[3], 0x88), 0xcc);
    return _mm_blend_epi16(_mm256_castsi256_si128(words), _mm256_extracti128_si256(words, 1), 0xaa);
}

/* Returns the sum of each of eight registers, in order. */
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

/* ---- one token ---- */

ALWAYS_INLINE void clear(__m256 sum[GROUP])
{
    for (size_t r = 0; r < GROUP; r++)
        sum[r] = _mm256_setzero_ps();
}

#endif
