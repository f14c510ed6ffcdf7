/* avx512.h - helpers that the AVX-512 files share. All are `static inline`: nothing here may become a symbol that code
 * without these instructions could be linked to. */
#ifndef KERNEL_AVX512_H
#define KERNEL_AVX512_H

#include <immintrin.h>

typedef __m256 group_sums;

#include "streams.h"

#define LANES 16 /* float32 values in a register */

/* Products of block formats with float32 activations (float_avx512.c), and with many tokens of 8 bits
 * (tile_avx512.h). */
kernel_product avx512_product_decoded, avx512_product_tiles, avx512vnni_product_tiles;

/* Returns a mask of the first n of 16 lanes; all for n >= 16. */
static inline __mmask16 first_lanes(size_t n)
{
    return (__mmask16)(n >= LANES ? 0xffffu : (1u << n) - 1);
}

/* Returns a mask of the first n of 64 bytes; all for n >= 64. */
static inline __mmask64 first_bytes(size_t n)
{
    return n >= 64 ? ~0ull : (1ull << n) - 1;
}

/* Adds up the four floats of each 128-bit lane of a, b, c and d; the same lane of the result holds these four sums, in
 * this order. */
static inline __m512 add_neighbours(__m512 a, __m512 b, __m512 c, __m512 d)
{
    __m512d ab = _mm512_castps_pd(_mm512_add_ps(_mm512_unpacklo_ps(a, b), _mm512_unpackhi_ps(a, b)));
    __m512d cd = _mm512_castps_pd(_mm512_add_ps(_mm512_unpacklo_ps(c, d), _mm512_unpackhi_ps(c, d)));
    return _mm512_add_ps(_mm512_castpd_ps(_mm512_unpacklo_pd(ab, cd)), _mm512_castpd_ps(_mm512_unpackhi_pd(ab, cd)));
}

/* Returns the sum of each of eight registers, in order. */
static inline __m256 sum_of_8(const __m512 v[8])
{
    __m512 a = add_neighbours(v[0], v[1], v[2], v[3]), b = add_neighbours(v[4], v[5], v[6], v[7]);
    __m512 ab = _mm512_add_ps(_mm512_shuffle_f32x4(a, b, 0x88), _mm512_shuffle_f32x4(a, b, 0xdd));
    return _mm256_add_ps(_mm512_castps512_ps256(_mm512_shuffle_f32x4(ab, ab, 0x08)),
                         _mm512_castps512_ps256(_mm512_shuffle_f32x4(ab, ab, 0x0d)));
}

/* Returns the sum of each of sixteen registers, in order, in 45 instructions; sixteen single sums take 112. */
ALWAYS_INLINE __m512 sum_of_16(const __m512 v[16])
{
    __m512 a = add_neighbours(v[0], v[1], v[2], v[3]), b = add_neighbours(v[4], v[5], v[6], v[7]);
    __m512 c = add_neighbours(v[8], v[9], v[10], v[11]), d = add_neighbours(v[12], v[13], v[14], v[15]);
    __m512 ab = _mm512_add_ps(_mm512_shuffle_f32x4(a, b, 0x88), _mm512_shuffle_f32x4(a, b, 0xdd));
    __m512 cd = _mm512_add_ps(_mm512_shuffle_f32x4(c, d, 0x88), _mm512_shuffle_f32x4(c, d, 0xdd));
    return _mm512_add_ps(_mm512_shuffle_f32x4(ab, cd, 0x88), _mm512_shuffle_f32x4(ab, cd, 0xdd));
}

/* Transposes 16 x 16 words of 32 bits in place: first within 128-bit lanes, then the lanes. */
ALWAYS_INLINE void transpose_16(__m512i v[16])
{
    __m512i t[16];
    for (size_t i = 0; i < 16; i += 4) {
        __m512i a = _mm512_unpacklo_epi32(v[i], v[i + 1]), b = _mm512_unpackhi_epi32(v[i], v[i + 1]);
        __m512i c = _mm512_unpacklo_epi32(v[i + 2], v[i + 3]), d = _mm512_unpackhi_epi32(v[i + 2], v[i + 3]);
        t[i] = _mm512_unpacklo_epi64(a, c);
        t[i + 1] = _mm512_unpackhi_epi64(a, c);
        t[i + 2] = _mm512_unpacklo_epi64(b, d);
        t[i + 3] = _mm512_unpackhi_epi64(b, d);
    }
    for (size_t i = 0; i < 4; i++) {
        __m512i a = _mm512_shuffle_i32x4(t[i], t[i + 4], 0x88), b = _mm512_shuffle_i32x4(t[i], t[i + 4], 0xdd);
        __m512i c = _mm512_shuffle_i32x4(t[i + 8], t[i + 12], 0x88),
                d = _mm512_shuffle_i32x4(t[i + 8], t[i + 12], 0xdd);
        v[i] = _mm512_shuffle_i32x4(a, c, 0x88);
        v[i + 4] = _mm512_shuffle_i32x4(b, d, 0x88);
        v[i + 8] = _mm512_shuffle_i32x4(a, c, 0xdd);
        v[i + 12] = _mm512_shuffle_i32x4(b, d, 0xdd);
    }
}

/* ---- one token ---- */

ALWAYS_INLINE void clear(__m512 sum[GROUP])
{
    for (size_t r = 0; r < GROUP; r++)
        sum[r] = _mm512_setzero_ps();
}

#endif
