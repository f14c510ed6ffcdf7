/* for_host.h - the macros and functions of portable.h in C, with AVX2 intrinsics where the compiler does not vectorise
 * well by itself. */
#ifndef DEVICE_KERNELS_FOR_HOST_H
#define DEVICE_KERNELS_FOR_HOST_H

#if ON_HOST
#define GLOBAL
#define LOCAL
#define INLINE   static inline __attribute__((always_inline))
#define ONE_COPY INLINE
#define UNROLL   _Pragma("GCC unroll 8")
#define UNROLL_4
#define NO_UNROLL

#define LANE                       0u
#define LANES                      1u
#define BARRIER()                  ((void)0)
#define MOST_LANES                 1
#define MANY_TOKENS                2
#define LOCAL_ARRAY(type, name, n) type name[n]

/* On the host a kernel is a function with GROUP and GROUPS as parameters. */
#define KERNEL_B(type, name) type *name,
#define KERNEL_V(name)       uint name,
#define KERNEL_F(name)       float name,
#define KERNEL(name, PARAMETERS) \
    static void kernel_##name(const step_record *step, PARAMETERS(KERNEL_B, KERNEL_V, KERNEL_F) uint GROUP, uint GROUPS)

#include <math.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>
#ifdef __AVX2__
#include <immintrin.h>
#endif

typedef unsigned char uchar;
typedef signed char schar;
typedef unsigned short ushort;
typedef unsigned int uint;
typedef unsigned long ulong;

#define EXP(x)       expf(x)
#define SQRT(x)      sqrtf(x)
#define DIVIDE(a, b) ((a) / (b))
#define FMA(a, b, c) ((a) * (b) + (c)) /* fused if the CPU can: compiled with -ffp-contract=fast */
#define RINT(x)      rintf(x)

INLINE uint AS_UINT(float f)
{
    uint bits;
    memcpy(&bits, &f, sizeof(bits));
    return bits;
}

INLINE float AS_FLOAT(uint bits)
{
    float f;
    memcpy(&f, &bits, sizeof(f));
    return f;
}

/* Convert float16 to float32 and back. float16 has thirteen bits less, and its exponent differs by 112. number/half.c
 * explains why this is also correct for subnormal numbers. */
INLINE float half_value(ushort bits)
{
#ifdef __F16C__
    return _cvtsh_ss(bits);
#else
    uint magnitude = bits & 0x7fffu, sign = (uint)(bits & 0x8000u) << 16;
    uint finite = AS_UINT(AS_FLOAT(magnitude << 13) * 0x1p112f);
    return AS_FLOAT((magnitude >= 0x7c00u ? 0x7f800000u | magnitude << 13 : finite) | sign);
#endif
}

INLINE ushort half_bits(float value)
{
    uint bits = AS_UINT(value), sign = bits >> 16 & 0x8000u, magnitude = bits & 0x7fffffffu;
    uint subnormal = AS_UINT(AS_FLOAT(magnitude) + 0.5f) - AS_UINT(0.5f);
    uint normal = ((magnitude + 0xfffu + (magnitude >> 13 & 1u)) >> 13) - (112u << 10);
    uint large = magnitude > 0x7f800000u ? 0x7e00u | (magnitude >> 13 & 0x3ffu) : 0x7c00u;
    return (ushort)(sign | (magnitude >= 0x477ff000u ? large : magnitude < 0x38800000u ? subnormal : normal));
}

typedef float float8 __attribute__((vector_size(32)));
typedef int int8 __attribute__((vector_size(32)));
typedef schar block32 __attribute__((vector_size(32))); /* 32 signed bytes */
typedef short short16 __attribute__((vector_size(32)));

INLINE float8 float8_load(const float *p)
{
    float8 v;
    memcpy(&v, p, sizeof(v));
    return v;
}

INLINE void float8_store(float *p, float8 v)
{
    memcpy(p, &v, sizeof(v));
}

INLINE float8 float8_all(float v)
{
    return (float8){v, v, v, v, v, v, v, v};
}

INLINE float8 float8_times(float8 a, float8 b)
{
    return a * b;
}

INLINE float8 float8_fma(float8 a, float8 b, float8 c)
{
    return a * b + c;
}

INLINE float8 float8_of_halves(const uchar *p)
{
#ifdef __F16C__
    return (float8)_mm256_cvtph_ps(_mm_loadu_si128((const __m128i *)(const void *)p));
#else
    ushort bits[8];
    memcpy(bits, p, sizeof(bits));
    float8 v;
    for (int i = 0; i < 8; i++)
        v[i] = half_value(bits[i]);
    return v;
#endif
}

INLINE float8 float8_of_bfloats(const uchar *p)
{
    typedef ushort ushort8 __attribute__((vector_size(16)));
    typedef uint uint8 __attribute__((vector_size(32)));
    ushort8 v;
    memcpy(&v, p, sizeof(v));
    return (float8)(__builtin_convertvector(v, uint8) << 16);
}

/* Eight signed bytes. */
INLINE float8 float8_of_bytes(const uchar *p)
{
#ifdef __AVX2__
    return (float8)_mm256_cvtepi32_ps(_mm256_cvtepi8_epi32(_mm_loadl_epi64((const __m128i *)(const void *)p)));
#else
    schar bytes[8];
    memcpy(bytes, p, sizeof(bytes));
    int8 v;
    for (int i = 0; i < 8; i++)
        v[i] = (int)bytes[i];
    return __builtin_convertvector(v, float8);
#endif
}

static const schar fp4_values[16] = {0, 1, 2, 3, 4, 6, 8, 12, 0, -1, -2, -3, -4, -6, -8, -12};

/* Eight values of four bits, minus `less`: bits shift .. shift + 3 of eight bytes. */
INLINE float8 float8_of_nibbles(const uchar *p, uint shift, int less)
{
#ifdef __AVX2__
    __m128i bytes = _mm_loadl_epi64((const __m128i *)(const void *)p);
    __m256i nibbles =
        _mm256_and_si256(_mm256_srli_epi32(_mm256_cvtepu8_epi32(bytes), (int)shift), _mm256_set1_epi32(15));
    return (float8)_mm256_cvtepi32_ps(_mm256_sub_epi32(nibbles, _mm256_set1_epi32(less)));
#else
    int8 v;
    for (int i = 0; i < 8; i++)
        v[i] = (p[i] >> shift & 15) - less;
    return __builtin_convertvector(v, float8);
#endif
}

/* Eight values of five bits: four as in float8_of_nibbles, the upper one from 4 bytes of `upper` (see q5_K in
 * kernels.h). */
INLINE float8 float8_of_fives(const uchar *p, uint shift, const uchar *upper, uint upper_shift)
{
    int8 v;
    for (uint i = 0; i < 8; i++)
        v[i] = (p[i] >> shift & 15) | (upper[i % 4] >> (upper_shift + i / 4) & 1) << 4;
    return __builtin_convertvector(v, float8);
}

/* Eight numbers of four bits, times two: sign, two bits of exponent, one of fraction. */
INLINE float8 float8_of_fp4(const uchar *p, uint shift)
{
    float8 v;
    for (uint i = 0; i < 8; i++)
        v[i] = (float)fp4_values[p[i] >> shift & 15];
    return v;
}

/* Eight values of six bits, minus 32: four bits as in float8_of_nibbles, the upper two from 4 bytes of `upper` (see
 * q6_K in kernels.h). */
INLINE float8 float8_of_sixes(const uchar *p, uint shift, const uchar *upper, uint upper_shift)
{
    int8 v;
    for (uint i = 0; i < 8; i++)
        v[i] = ((p[i] >> shift & 15) | (upper[i % 4] >> (upper_shift + i / 4 * 2) & 3) << 4) - 32;
    return __builtin_convertvector(v, float8);
}

INLINE block32 block32_load(const uchar *p)
{
    block32 v;
    memcpy(&v, p, sizeof(v));
    return v;
}

/* 32 values of four bits, minus `less`: first the low nibbles of 16 bytes, then the high ones. */
INLINE block32 block32_of_nibbles(const uchar *p, int less)
{
#ifdef __AVX2__
    __m128i both = _mm_loadu_si128((const __m128i *)(const void *)p);
    __m256i apart = _mm256_inserti128_si256(_mm256_castsi128_si256(both), _mm_srli_epi16(both, 4), 1);
    return (block32)_mm256_sub_epi8(_mm256_and_si256(apart, _mm256_set1_epi8(15)), _mm256_set1_epi8((char)less));
#else
    block32 v;
    for (int i = 0; i < 16; i++) {
        v[i] = (schar)((p[i] & 15) - less);
        v[i + 16] = (schar)((p[i] >> 4) - less);
    }
    return v;
#endif
}

/* 32 values of five bits (q5_K in kernels.h). */
INLINE block32 block32_of_fives(const uchar *p, const uchar *upper)
{
    block32 v = block32_of_nibbles(p, 0);
    for (uint i = 0; i < 32; i++)
        v[i] = (schar)(v[i] | (upper[i % 4] >> i / 4 & 1) << 4);
    return v;
}

/* 32 numbers of four bits, times two. */
INLINE block32 block32_of_fp4(const uchar *p)
{
    block32 v = block32_of_nibbles(p, 0);
#ifdef __AVX2__
    __m256i table = _mm256_broadcastsi128_si256(_mm_loadu_si128((const __m128i *)(const void *)fp4_values));
    return (block32)_mm256_shuffle_epi8(table, (__m256i)v);
#else
    for (uint i = 0; i < 32; i++)
        v[i] = fp4_values[v[i]];
    return v;
#endif
}

/* 32 values of six bits, minus 32 (q6_K in kernels.h). */
INLINE block32 block32_of_sixes(const uchar *p, const uchar *upper)
{
    block32 v = block32_of_nibbles(p, 0);
    for (uint i = 0; i < 32; i++)
        v[i] = (schar)((v[i] | (upper[i / 16 * 4 + i % 4] >> i / 4 % 4 * 2 & 3) << 4) - 32);
    return v;
}

/* Returns eight sums of four neighbouring products each. The sum of two products is at most 2 * 128 * 127, which fits
 * into 16 bits. */
INLINE int8 block32_dot(block32 a, block32 b)
{
#ifdef __AVX2__
    __m256i pairs = _mm256_maddubs_epi16(_mm256_abs_epi8((__m256i)a), _mm256_sign_epi8((__m256i)b, (__m256i)a));
    return (int8)_mm256_madd_epi16(pairs, _mm256_set1_epi16(1));
#else
    int8 sums = {0};
    for (int i = 0; i < 32; i++)
        sums[i / 4] += a[i] * b[i];
    return sums;
#endif
}

/* Returns the sum of four 32-bit words. */
INLINE uint sum_of_16(const uchar *p)
{
    uint v[4];
    memcpy(v, p, sizeof(v));
    return v[0] + v[1] + v[2] + v[3];
}

#endif
#endif
