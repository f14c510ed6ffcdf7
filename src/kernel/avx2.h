/* avx2.h - helpers that the AVX2 files share. All are `static inline`: nothing here may become a symbol that code
 * without these instructions could be linked to. */
#ifndef KERNEL_AVX2_H
#define KERNEL_AVX2_H

#include <immintrin.h>

#define LANES   8  /* float32 values in a register */
#define VECTORS 16 /* of that size                 */

typedef __m256 vector;
typedef __m256 group_sums;
#define LEVEL avx2
/* Tokens up to which rows are read end to end (streams.h) rather than in tiles, by measurement. */
#define FEW_OF_BLOCKS    8
#define FEW_OF_FLOATS    24
#define MAY_HALVE_GROUPS false

#include "streams.h"

/* Products of block formats with float32 activations (float_avx2.c), and with many tokens of 8 bits (tile_avx2.c). */
kernel_product avx2_product_decoded, avx2_product_tiles, avxvnni_product_tiles;

/* ---- vectors, by the names that the headers with shared loops use ---- */

ALWAYS_INLINE vector vector_of(float value)
{
    return _mm256_set1_ps(value);
}

ALWAYS_INLINE vector vector_load(const float *at)
{
    return _mm256_loadu_ps(at);
}

ALWAYS_INLINE void vector_store(float *at, vector v)
{
    _mm256_storeu_ps(at, v);
}

/* Returns v in such a way that it is loaded once: compilers would make it an operand in memory of each instruction that uses it. */
ALWAYS_INLINE vector in_register(vector v)
{
    __asm__("" : "+x"(v));
    return v;
}

/* Stores to an aligned address past the caches. Only vector_fence() makes it visible to other threads. */
ALWAYS_INLINE void vector_stream(float *at, vector v)
{
    _mm256_stream_ps(at, v);
}

ALWAYS_INLINE void vector_fence(void)
{
    _mm_sfence();
}

ALWAYS_INLINE vector vector_add(vector a, vector b)
{
    return _mm256_add_ps(a, b);
}

ALWAYS_INLINE vector vector_subtract(vector a, vector b)
{
    return _mm256_sub_ps(a, b);
}

ALWAYS_INLINE vector vector_max(vector a, vector b)
{
    return _mm256_max_ps(a, b);
}

ALWAYS_INLINE vector vector_multiply(vector a, vector b)
{
    return _mm256_mul_ps(a, b);
}

ALWAYS_INLINE vector vector_divide(vector a, vector b)
{
    return _mm256_div_ps(a, b);
}

/* sum + a * b, rounded once. */
ALWAYS_INLINE vector vector_fma(vector sum, vector a, vector b)
{
    return _mm256_fmadd_ps(a, b, sum);
}

/* sum - a * b, rounded once. */
ALWAYS_INLINE vector vector_fms(vector sum, vector a, vector b)
{
    return _mm256_fnmadd_ps(a, b, sum);
}

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

/* The same for bfloat16, which is the upper half of a float32. */
static inline __m256 load_first_bfloats(const void *at, size_t n)
{
    uint16_t halves[LANES] = {0};
    if (n < LANES)
        memcpy(halves, at, n * sizeof(*halves));
    __m128i words = _mm_loadu_si128(n < LANES ? (const void *)halves : at);
    return _mm256_castsi256_ps(_mm256_slli_epi32(_mm256_cvtepu16_epi32(words), 16));
}

/* Stores the first n of 8 floats as float16. */
static inline void store_first_halves(uint16_t *at, size_t n, __m256 v)
{
    __m128i words = _mm256_cvtps_ph(v, _MM_FROUND_TO_NEAREST_INT);
    uint16_t halves[LANES];
    _mm_storeu_si128((void *)(n >= LANES ? at : halves), words);
    if (n < LANES)
        memcpy(at, halves, n * sizeof(*halves));
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

/* Transposes 8 x 8 floats in place. */
ALWAYS_INLINE void transpose_vectors(vector v[LANES])
{
    __m256i words[LANES];
    for (size_t i = 0; i < LANES; i++)
        words[i] = _mm256_castps_si256(v[i]);
    transpose_8(words);
    for (size_t i = 0; i < LANES; i++)
        v[i] = _mm256_castsi256_ps(words[i]);
}

#include "vectors.h"

#endif
