/* avx512.h - helpers that the AVX-512 files share. All are `static inline`: nothing here may become a symbol that code
 * without these instructions could be linked to. */
#ifndef KERNEL_AVX512_H
#define KERNEL_AVX512_H

#include <immintrin.h>

#define LANES 16 /* float32 values in a register */

typedef __m512 vector;
typedef __m256 group_sums;
#define LEVEL avx512
/* Tokens up to which rows are read end to end (streams.h) rather than in tiles, by measurement. */
#define FEW_OF_BLOCKS    8
#define FEW_OF_FLOATS    64
#define MAY_HALVE_GROUPS true

#include "streams.h"

/* Products of block formats with float32 activations (float_avx512.c), and with many tokens of 8 bits
 * (tile_avx512.h). */
kernel_product avx512_product_decoded, avx512_product_tiles, avx512vnni_product_tiles;

/* Returns a mask of the first n of 16 lanes; all for n >= 16. */
static inline __mmask16 first_lanes(size_t n)
{
    return (__mmask16)(n >= LANES ? 0xffffu : (1u << n) - 1);
}

/* ---- vectors, by the names that the headers with shared loops use ---- */

ALWAYS_INLINE vector vector_of(float value)
{
    return _mm512_set1_ps(value);
}

ALWAYS_INLINE vector vector_load(const float *at)
{
    return _mm512_loadu_ps(at);
}

ALWAYS_INLINE void vector_store(float *at, vector v)
{
    _mm512_storeu_ps(at, v);
}

/* Returns v in such a way that it is loaded once: compilers would make it an operand in memory of each instruction that uses it. */
ALWAYS_INLINE vector in_register(vector v)
{
#ifdef __AVX512F__ /* else emulated, in memory */
    __asm__("" : "+v"(v));
#endif
    return v;
}

/* Stores to an aligned address past the caches. Only vector_fence() makes it visible to other threads. */
ALWAYS_INLINE void vector_stream(float *at, vector v)
{
    _mm512_stream_ps(at, v);
}

ALWAYS_INLINE void vector_fence(void)
{
    _mm_sfence();
}

ALWAYS_INLINE vector vector_add(vector a, vector b)
{
    return _mm512_add_ps(a, b);
}

ALWAYS_INLINE vector vector_subtract(vector a, vector b)
{
    return _mm512_sub_ps(a, b);
}

ALWAYS_INLINE vector vector_max(vector a, vector b)
{
    return _mm512_max_ps(a, b);
}

ALWAYS_INLINE vector vector_multiply(vector a, vector b)
{
    return _mm512_mul_ps(a, b);
}

ALWAYS_INLINE vector vector_divide(vector a, vector b)
{
    return _mm512_div_ps(a, b);
}

/* sum + a * b, rounded once. */
ALWAYS_INLINE vector vector_fma(vector sum, vector a, vector b)
{
    return _mm512_fmadd_ps(a, b, sum);
}

/* sum - a * b, rounded once. */
ALWAYS_INLINE vector vector_fms(vector sum, vector a, vector b)
{
    return _mm512_fnmadd_ps(a, b, sum);
}

/* True if the compiler knows that all lanes are meant: then no mask is needed. (If it does not know, a branch would
 * cost more than the mask.) */
#define IS_WHOLE(n) (__builtin_constant_p((n) >= LANES) && (n) >= LANES)

/* Loads the first n of 16 floats; the other lanes are 0. */
ALWAYS_INLINE vector load_first(const float *at, size_t n)
{
    return IS_WHOLE(n) ? _mm512_loadu_ps(at) : _mm512_maskz_loadu_ps(first_lanes(n), at);
}

ALWAYS_INLINE void store_first(float *at, size_t n, vector v)
{
    if (IS_WHOLE(n))
        _mm512_storeu_ps(at, v);
    else
        _mm512_mask_storeu_ps(at, first_lanes(n), v);
}

/* Loads the first n of 16 words of 16 bits; the others are 0. */
ALWAYS_INLINE __m256i load_first_words(const void *at, size_t n)
{
    return IS_WHOLE(n) ? _mm256_loadu_si256(at) : _mm256_maskz_loadu_epi16(first_lanes(n), at);
}

/* Loads the first n of 16 float16 as float32; the other lanes are 0. */
ALWAYS_INLINE vector load_first_halves(const void *at, size_t n)
{
    return _mm512_cvtph_ps(load_first_words(at, n));
}

/* The same for bfloat16, which is the upper half of a float32. */
ALWAYS_INLINE vector load_first_bfloats(const void *at, size_t n)
{
    return _mm512_castsi512_ps(_mm512_slli_epi32(_mm512_cvtepu16_epi32(load_first_words(at, n)), 16));
}

/* Stores the first n of 16 floats as float16. */
ALWAYS_INLINE void store_first_halves(uint16_t *at, size_t n, vector v)
{
    __m256i halves = _mm512_cvtps_ph(v, _MM_FROUND_TO_NEAREST_INT);
    if (IS_WHOLE(n))
        _mm256_storeu_si256((void *)at, halves);
    else
        _mm256_mask_storeu_epi16(at, first_lanes(n), halves);
}

ALWAYS_INLINE float sum_of(vector v)
{
    return _mm512_reduce_add_ps(v);
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

/* Transposes 16 x 16 floats in place. */
ALWAYS_INLINE void transpose_vectors(vector v[LANES])
{
    __m512i words[LANES];
    for (size_t i = 0; i < LANES; i++)
        words[i] = _mm512_castps_si512(v[i]);
    transpose_16(words);
    for (size_t i = 0; i < LANES; i++)
        v[i] = _mm512_castsi512_ps(words[i]);
}

#include "vectors.h"

#endif
