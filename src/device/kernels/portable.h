/* portable.h - what makes one text C for the host, OpenCL C, and CUDA C++ (nvcc, NVRTC, clang for NVPTX).
 *
 * A kernel is written for one *lane*. LANES lanes form a group and share its items; GROUPS groups share all items:
 *
 *     KERNEL(name, P_NAME)
 *     {
 *         LOCAL_ARRAY(float, scratch, GROUP_SCRATCH);            -- of the group; outermost scope of the kernel only
 *         for (uint item = GROUP; item < items; item += GROUPS)  -- the same for all lanes of a group
 *             for (uint i = LANE; i < n; i += LANES)
 *                 ...
 *     }
 *
 * On the host a group has one lane and barriers are nothing; what SIMD there is comes from float8 and the wide types
 * below, which hold eight values there and one elsewhere. Pointers carry GLOBAL or LOCAL; helpers are INLINE, and what
 * is constant where they are called (a format, a number of tokens) is folded away.
 *
 *     LANE LANES GROUP GROUPS    who am I            MOST_LANES      at most; for LOCAL_ARRAYs
 *     BARRIER()                  of a group          UNROLL          before a loop of constant length
 *     ONE_COPY                   like INLINE, kept    UNROLL_4        before another: on GPUs, four turns at once
 *                                small where that costs little       NO_UNROLL       never
 *     MANY_TOKENS                whose sums fit into registers, each with PRODUCT_ROWS rows
 *     EXP SQRT DIVIDE FMA RINT AS_UINT AS_FLOAT      arithmetic; DIVIDE and SQRT are correctly rounded
 *     half_value half_bits bfloat_value              16 bits to float and back (to nearest, ties to even)
 *     group_sums group_sum group_max group_sum_uint  over all lanes, the result in every lane */
#ifndef DEVICE_KERNELS_PORTABLE_H
#define DEVICE_KERNELS_PORTABLE_H

/* Rows whose sums a group adds up at once, and the size of the scratch for it. */
#define SUMS_AT_ONCE 4

#if defined(__OPENCL_VERSION__) || defined(__OPENCL_C_VERSION__)
/* ================================================================== OpenCL C */
#define ON_HOST 0
#define GLOBAL  __global
#define LOCAL   __local
#define INLINE  static inline __attribute__((always_inline))
#define ONE_COPY INLINE
#define UNROLL  _Pragma("unroll")
#define UNROLL_4 _Pragma("unroll 4")
#define NO_UNROLL _Pragma("nounroll")

/* The driver says how many lanes every group has, so that compilers know it: on a CPU device, where it is one, all that
 * is done for the sake of groups vanishes. */
#ifndef GROUP_LANES
#define GROUP_LANES 64
#endif
#define MOST_LANES GROUP_LANES
#define MANY_TOKENS 4 /* with 8 PoCL works half a minute on a kernel */
#define LANES      ((uint)GROUP_LANES)
#define GROUP      ((uint)get_group_id(0))
#define GROUPS     ((uint)get_num_groups(0))
#if GROUP_LANES > 1
#define LANE       ((uint)get_local_id(0))
#define BARRIER()  barrier(CLK_LOCAL_MEM_FENCE | CLK_GLOBAL_MEM_FENCE)
#else
#define LANE       0u
#define BARRIER()  ((void)0)
#endif

/* OpenCL has no pointers into buffers: a kernel gets each buffer whole, with an offset in units of 16 bytes, and calls
 * its body with pointers to where the arguments begin. NULL comes with offset 0 and stays NULL. */
#define KERNEL_B(type, name)     , __global type *name
#define KERNEL_V(name)           , uint name
#define KERNEL_F(name)           , float name
#define KERNEL_WHOLE(type, name) , __global type *name, uint name##_at
#define KERNEL_FROM(type, name)  , (__global type *)((__global const uchar *)name + 16 * (size_t)name##_at)
#define KERNEL_PASS(name)        , name
#define KERNEL(name, PARAMETERS)                                                                                  \
    INLINE void body_##name(__local ulong *local_memory,                                                          \
                            __global const step_record *step PARAMETERS(KERNEL_B, KERNEL_V, KERNEL_F));           \
    __kernel __attribute__((reqd_work_group_size(GROUP_LANES, 1, 1))) void                                        \
    name(__global const step_record *step,                                                                        \
         uint step_at PARAMETERS(KERNEL_WHOLE, KERNEL_V, KERNEL_F))                                               \
    {                                                                                                             \
        __local ulong local_memory[LOCAL_BYTES / 8];                                                              \
        body_##name(local_memory KERNEL_FROM(const step_record, step)                                             \
                        PARAMETERS(KERNEL_FROM, KERNEL_PASS, KERNEL_PASS));                                       \
    }                                                                                                             \
    INLINE void body_##name(__local ulong *local_memory,                                                          \
                            __global const step_record *step PARAMETERS(KERNEL_B, KERNEL_V, KERNEL_F))
/* Only a kernel itself may have variables of the group, so the arrays of a body, together at most LOCAL_BYTES, are cut
 * from one of its kernel's. */
#define LOCAL_BYTES (4 * MOST_LANES + 9216) /* attend needs the most */
#define LOCAL_ARRAY(type, name, n)                            \
    __local type *name = (__local type *)local_memory;        \
    local_memory += (sizeof(type) * (n) + 7) / 8

typedef signed char schar;

#define EXP(x)      exp(x)
#define SQRT(x)     sqrt_rounded(x)
#define DIVIDE(a, b) divide_rounded(a, b)
#define FMA(a, b, c) fma(a, b, c)
#define RINT(x)     rint(x)
#define AS_UINT(x)  as_uint(x)
#define AS_FLOAT(x) as_float(x)

/* OpenCL's division may be off by 2.5 units in the last place; one step of Newton's method on the exact remainder
 * makes it right (and leaves it where it was). Where the remainder is not finite, there is nothing to mend. */
INLINE float divide_rounded(float a, float b)
{
    float quotient = a / b, better = fma(fma(-quotient, b, a), 1.0f / b, quotient);
    return isfinite(better) ? better : quotient;
}

INLINE float sqrt_rounded(float a)
{
    float root = sqrt(a), better = fma(fma(-root, root, a), 0.5f / root, root);
    return isfinite(better) ? better : root;
}

INLINE float half_value(ushort bits)
{
    return vload_half(0, (const half *)&bits);
}

INLINE ushort half_bits(float value)
{
    ushort bits;
    vstore_half_rte(value, 0, (half *)&bits);
    return bits;
}

INLINE float8 float8_load(__global const float *p)
{
    return vload8(0, p);
}

INLINE void float8_store(__global float *p, float8 v)
{
    vstore8(v, 0, p);
}

INLINE float8 float8_all(float v)
{
    return (float8)(v);
}

INLINE float8 float8_times(float8 a, float8 b)
{
    return a * b;
}

INLINE float8 float8_fma(float8 a, float8 b, float8 c)
{
    return fma(a, b, c);
}

INLINE float8 float8_of_halves(__global const uchar *p)
{
    return vload_half8(0, (__global const half *)p);
}

INLINE float8 float8_of_bfloats(__global const uchar *p)
{
    return as_float8(convert_uint8(vload8(0, (__global const ushort *)p)) << 16);
}

INLINE float8 float8_of_bytes(__global const uchar *p)
{
    return convert_float8(vload8(0, (__global const char *)p));
}

INLINE float8 float8_of_nibbles(__global const uchar *p, uint shift)
{
    return convert_float8((vload8(0, p) >> (uchar)shift) & (uchar)15) - 8.0f;
}

typedef int8 block32; /* 32 signed bytes */

INLINE block32 block32_load(__global const uchar *p)
{
    return vload8(0, (__global const int *)p);
}

INLINE block32 block32_of_nibbles(__global const uchar *p)
{
    uint4 both = vload4(0, (__global const uint *)p);
    return (int8)(as_int4(both & 0x0f0f0f0fu), as_int4((both >> 4) & 0x0f0f0f0fu));
}

#if defined(__opencl_c_integer_dot_product_input_4x8bit_packed)
#define DOT4(a, b) dot_4x8packed_ss_int(as_uint(a), as_uint(b))

INLINE int block32_dot(block32 a, block32 b)
{
    return DOT4(a.s0, b.s0) + DOT4(a.s1, b.s1) + DOT4(a.s2, b.s2) + DOT4(a.s3, b.s3) + DOT4(a.s4, b.s4) +
           DOT4(a.s5, b.s5) + DOT4(a.s6, b.s6) + DOT4(a.s7, b.s7);
}
#else
/* In vectors, which is what CPUs want: products of bytes fit into 16 bits. */
INLINE int block32_dot(block32 a, block32 b)
{
    short16 low = convert_short16(as_char16(a.lo)) * convert_short16(as_char16(b.lo));
    short16 high = convert_short16(as_char16(a.hi)) * convert_short16(as_char16(b.hi));
    int16 both = convert_int16(low) + convert_int16(high);
    int8 sums = both.lo + both.hi;
    int4 fewer = sums.lo + sums.hi;
    return fewer.x + fewer.y + fewer.z + fewer.w;
}
#endif

INLINE uint sum_of_16(__global const uchar *p)
{
    uint4 v = vload4(0, (__global const uint *)p);
    return v.x + v.y + v.z + v.w;
}

#elif defined(__CUDACC__) || defined(__CUDACC_RTC__) || defined(__CUDA__)
/* ================================================================== CUDA C++
 * No header of CUDA is needed: what is not in the language is asked for by the name of its instruction, which all three
 * compilers understand. */
#define ON_HOST 0
#define GLOBAL
#define LOCAL
#if !defined(__CUDACC__) || defined(__clang__) /* clang brings no header of its own */
#if !defined(__global__)
#define __global__ __attribute__((global))
#define __device__ __attribute__((device))
#define __shared__ __attribute__((shared))
#endif
#define INLINE    static __device__ inline __attribute__((always_inline))
#define ONE_COPY  static __device__ __attribute__((noinline))
#define LANE      __nvvm_read_ptx_sreg_tid_x()
#define LANES     __nvvm_read_ptx_sreg_ntid_x()
#define GROUP     __nvvm_read_ptx_sreg_ctaid_x()
#define GROUPS    __nvvm_read_ptx_sreg_nctaid_x()
#define BARRIER() __syncthreads()
typedef __SIZE_TYPE__ size_t;
struct __attribute__((aligned(8))) uint2 {
    unsigned x, y;
};
struct __attribute__((aligned(16))) uint4 {
    unsigned x, y, z, w;
};
struct __attribute__((aligned(16))) float4 {
    float x, y, z, w;
};
#else
#define INLINE    static __device__ __forceinline__
#define ONE_COPY  static __device__ __noinline__
#define LANE      threadIdx.x
#define LANES     blockDim.x
#define GROUP     blockIdx.x
#define GROUPS    gridDim.x
#define BARRIER() __syncthreads()
#endif
#define UNROLL     _Pragma("unroll")
#define UNROLL_4   _Pragma("unroll 4")
#define NO_UNROLL  _Pragma("unroll 1")
#define MOST_LANES 1024
#define MANY_TOKENS 4 /* 8 would double the registers, which one token would pay for with fewer groups at work */
#define LOCAL_ARRAY(type, name, n) __shared__ type name[n]

#define KERNEL_B(type, name) , type *name
#define KERNEL_V(name)       , uint name
#define KERNEL_F(name)       , float name
#define KERNEL(name, PARAMETERS) \
    extern "C" __global__ void kernel_##name(const step_record *step PARAMETERS(KERNEL_B, KERNEL_V, KERNEL_F))

typedef unsigned char uchar;
typedef signed char schar;
typedef unsigned short ushort;
typedef unsigned int uint;
typedef unsigned long ulong;

/* One instruction from one or two or three operands. */
#define INSTRUCTION_1(name, text, to, to_type, a_kind, a_type)          \
    INLINE to_type name(a_type a)                                       \
    {                                                                   \
        to_type result;                                                 \
        asm(text " %0, %1;" : to(result) : a_kind(a));                  \
        return result;                                                  \
    }
INSTRUCTION_1(half_value, "cvt.f32.f16", "=f", float, "h", ushort)
INSTRUCTION_1(half_bits, "cvt.rn.f16.f32", "=h", ushort, "f", float)
INSTRUCTION_1(RINT, "cvt.rni.f32.f32", "=f", float, "f", float)
INSTRUCTION_1(SQRT, "sqrt.rn.f32", "=f", float, "f", float)
INSTRUCTION_1(power_of_two, "ex2.approx.f32", "=f", float, "f", float)
INSTRUCTION_1(AS_UINT, "mov.b32", "=r", uint, "f", float)
INSTRUCTION_1(AS_FLOAT, "mov.b32", "=f", float, "r", uint)

INLINE float DIVIDE(float a, float b)
{
    float result;
    asm("div.rn.f32 %0, %1, %2;" : "=f"(result) : "f"(a), "f"(b));
    return result;
}

INLINE float FMA(float a, float b, float c)
{
    float result;
    asm("fma.rn.f32 %0, %1, %2, %3;" : "=f"(result) : "f"(a), "f"(b), "f"(c));
    return result;
}

/* e^x = 2^(x / ln 2), the quotient in two parts so that large x lose nothing. */
INLINE float EXP(float x)
{
    float bounded = x < -104.0f ? -104.0f : x > 89.0f ? 89.0f : x;
    float whole = bounded * 1.44269504f, rest = FMA(bounded, 1.44269504f, -whole) + bounded * 1.92596299e-8f;
    float power = power_of_two(whole);
    return x != x ? x : whole < -126.0f ? power : FMA(power, rest * 0.69314718f, power);
}

/* Sixteen and eight bytes at once, of memory that no kernel of this launch writes. */
INLINE uint4 load_16(const uchar *p)
{
    uint4 v;
    asm("ld.global.nc.v4.u32 {%0, %1, %2, %3}, [%4];" : "=r"(v.x), "=r"(v.y), "=r"(v.z), "=r"(v.w) : "l"(p));
    return v;
}

INLINE uint2 load_8(const uchar *p)
{
    uint2 v;
    asm("ld.global.nc.v2.u32 {%0, %1}, [%2];" : "=r"(v.x), "=r"(v.y) : "l"(p));
    return v;
}

struct float8 {
    float v[8];
};

INLINE float8 float8_load(const float *p)
{
    float4 a = ((const float4 *)p)[0], b = ((const float4 *)p)[1];
    float8 out = {{a.x, a.y, a.z, a.w, b.x, b.y, b.z, b.w}};
    return out;
}

INLINE void float8_store(float *p, float8 v)
{
    float4 a = {v.v[0], v.v[1], v.v[2], v.v[3]}, b = {v.v[4], v.v[5], v.v[6], v.v[7]};
    ((float4 *)p)[0] = a;
    ((float4 *)p)[1] = b;
}

INLINE float8 float8_all(float x)
{
    float8 out = {{x, x, x, x, x, x, x, x}};
    return out;
}

INLINE float8 float8_times(float8 a, float8 b)
{
    UNROLL
    for (int i = 0; i < 8; i++)
        a.v[i] *= b.v[i];
    return a;
}

INLINE float8 float8_fma(float8 a, float8 b, float8 c)
{
    UNROLL
    for (int i = 0; i < 8; i++)
        c.v[i] = FMA(a.v[i], b.v[i], c.v[i]);
    return c;
}

INLINE float8 float8_of_halves(const uchar *p)
{
    uint4 v = load_16(p);
    float8 out = {{half_value((ushort)v.x), half_value((ushort)(v.x >> 16)), half_value((ushort)v.y),
                   half_value((ushort)(v.y >> 16)), half_value((ushort)v.z), half_value((ushort)(v.z >> 16)),
                   half_value((ushort)v.w), half_value((ushort)(v.w >> 16))}};
    return out;
}

INLINE float8 float8_of_bfloats(const uchar *p)
{
    uint4 v = load_16(p);
    float8 out = {{AS_FLOAT(v.x << 16), AS_FLOAT(v.x & 0xffff0000u), AS_FLOAT(v.y << 16), AS_FLOAT(v.y & 0xffff0000u),
                   AS_FLOAT(v.z << 16), AS_FLOAT(v.z & 0xffff0000u), AS_FLOAT(v.w << 16), AS_FLOAT(v.w & 0xffff0000u)}};
    return out;
}

INLINE float8 float8_of_bytes(const uchar *p)
{
    uint2 v = load_8(p);
    float8 out;
    UNROLL
    for (int i = 0; i < 4; i++) {
        out.v[i] = (float)(schar)(v.x >> (8 * i));
        out.v[i + 4] = (float)(schar)(v.y >> (8 * i));
    }
    return out;
}

INLINE float8 float8_of_nibbles(const uchar *p, uint shift)
{
    uint2 v = load_8(p);
    float8 out;
    UNROLL
    for (int i = 0; i < 4; i++) {
        out.v[i] = (float)((int)((v.x >> (8 * i + shift)) & 15u) - 8);
        out.v[i + 4] = (float)((int)((v.y >> (8 * i + shift)) & 15u) - 8);
    }
    return out;
}

struct block32 { /* 32 signed bytes */
    uint v[8];
};

INLINE block32 block32_load(const uchar *p)
{
    uint4 a = load_16(p), b = load_16(p + 16);
    block32 out = {{a.x, a.y, a.z, a.w, b.x, b.y, b.z, b.w}};
    return out;
}

INLINE block32 block32_of_nibbles(const uchar *p)
{
    uint4 a = load_16(p);
    block32 out = {{a.x & 0x0f0f0f0fu, a.y & 0x0f0f0f0fu, a.z & 0x0f0f0f0fu, a.w & 0x0f0f0f0fu,
                    (a.x >> 4) & 0x0f0f0f0fu, (a.y >> 4) & 0x0f0f0f0fu, (a.z >> 4) & 0x0f0f0f0fu,
                    (a.w >> 4) & 0x0f0f0f0fu}};
    return out;
}

INLINE int DOT4(uint a, uint b, int sum)
{
    asm("dp4a.s32.s32 %0, %1, %2, %0;" : "+r"(sum) : "r"(a), "r"(b));
    return sum;
}

INLINE int block32_dot(block32 a, block32 b)
{
    int sum = 0;
    UNROLL
    for (int i = 0; i < 8; i++)
        sum = DOT4(a.v[i], b.v[i], sum);
    return sum;
}

INLINE uint sum_of_16(const uchar *p)
{
    uint4 v = load_16(p);
    return v.x + v.y + v.z + v.w;
}

#else
/* ================================================================== C for the host */
#define ON_HOST 1
#define GLOBAL
#define LOCAL
#define INLINE static inline __attribute__((always_inline))
#define ONE_COPY INLINE
#define UNROLL _Pragma("GCC unroll 8")
#define UNROLL_4
#define NO_UNROLL

#define LANE       0u
#define LANES      1u
#define BARRIER()  ((void)0)
#define MOST_LANES 1
#define MANY_TOKENS 2
#define LOCAL_ARRAY(type, name, n) type name[n]

/* GROUP and GROUPS are parameters here. */
#define KERNEL_B(type, name) type *name,
#define KERNEL_V(name)       uint name,
#define KERNEL_F(name)       float name,
#define KERNEL(name, PARAMETERS)                                                                   \
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
#define FMA(a, b, c) ((a) * (b) + (c)) /* fused where the instruction set has it: these files contract */
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

/* float16 is float32 with the exponent moved by 112 and thirteen bits less; see number/half.c, which says why these
 * are right for subnormal numbers, too. */
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

INLINE float8 float8_of_bytes(const uchar *p)
{
#ifdef __AVX2__
    return (float8)_mm256_cvtepi32_ps(_mm256_cvtepi8_epi32(_mm_loadl_epi64((const __m128i *)(const void *)p)));
#else
    schar bytes[8];
    memcpy(bytes, p, sizeof(bytes));
    int8 v;
    for (int i = 0; i < 8; i++)
        v[i] = bytes[i];
    return __builtin_convertvector(v, float8);
#endif
}

INLINE float8 float8_of_nibbles(const uchar *p, uint shift)
{
#ifdef __AVX2__
    __m128i bytes = _mm_loadl_epi64((const __m128i *)(const void *)p);
    __m256i nibbles = _mm256_and_si256(_mm256_srli_epi32(_mm256_cvtepu8_epi32(bytes), (int)shift), _mm256_set1_epi32(15));
    return (float8)_mm256_cvtepi32_ps(_mm256_sub_epi32(nibbles, _mm256_set1_epi32(8)));
#else
    int8 v;
    for (int i = 0; i < 8; i++)
        v[i] = (p[i] >> shift & 15) - 8;
    return __builtin_convertvector(v, float8);
#endif
}

INLINE block32 block32_load(const uchar *p)
{
    block32 v;
    memcpy(&v, p, sizeof(v));
    return v;
}

INLINE block32 block32_of_nibbles(const uchar *p)
{
#ifdef __AVX2__
    __m128i both = _mm_loadu_si128((const __m128i *)(const void *)p);
    __m256i apart = _mm256_inserti128_si256(_mm256_castsi128_si256(both), _mm_srli_epi16(both, 4), 1);
    return (block32)_mm256_sub_epi8(_mm256_and_si256(apart, _mm256_set1_epi8(15)), _mm256_set1_epi8(8));
#else
    block32 v;
    for (int i = 0; i < 16; i++) {
        v[i] = (schar)((p[i] & 15) - 8);
        v[i + 16] = (schar)((p[i] >> 4) - 8);
    }
    return v;
#endif
}

/* Sums of four neighbouring products each: |a b| summed over two is at most 2 * 128 * 127, which 16 bits hold. */
INLINE int8 block32_dot(block32 a, block32 b)
{
#ifdef __AVX2__
    __m256i pairs = _mm256_maddubs_epi16(_mm256_abs_epi8((__m256i)a), _mm256_sign_epi8((__m256i)b, (__m256i)a));
    return (int8)_mm256_madd_epi16(pairs, _mm256_set1_epi16(1));
#else
    int8 sums = {0};
    for (int part = 0; part < 32; part += 8)
        for (int i = 0; i < 8; i++)
            sums[i] += a[part + i] * b[part + i];
    return sums;
#endif
}

INLINE uint sum_of_16(const uchar *p)
{
    uint v[4];
    memcpy(v, p, sizeof(v));
    return v[0] + v[1] + v[2] + v[3];
}

#endif
/* ================================================================== the same for all */

#ifdef DEVICE_KERNEL_SOURCE
typedef struct step_record {
#define STEP_WORD(field) uint field;
    STEP_FIELDS(STEP_WORD)
#undef STEP_WORD
} step_record;
#endif

#define NEGATIVE_INFINITY AS_FLOAT(0xff800000u)

INLINE float bfloat_value(ushort bits)
{
    return AS_FLOAT((uint)bits << 16);
}

INLINE uint least(uint a, uint b)
{
    return a < b ? a : b;
}

/* A sum in the making: eight of them side by side where that is what SIMD likes, one elsewhere. */
#if ON_HOST
typedef float8 wide;

INLINE wide wide_zero(void)
{
    return (wide){0};
}

/* sum + w . x */
INLINE wide wide_dot(wide sum, float8 w, float8 x)
{
    return w * x + sum;
}

INLINE wide wide_add(wide sum, float x)
{
    sum[0] += x;
    return sum;
}

/* sum + scale * (what block32_dot gave - correction) */
INLINE wide wide_block(wide sum, float scale, int8 dot, int correction)
{
    (void)correction; /* nibbles were made signed on the way */
    return scale * __builtin_convertvector(dot, float8) + sum;
}

INLINE float wide_total(wide v)
{
    return ((v[0] + v[4]) + (v[2] + v[6])) + ((v[1] + v[5]) + (v[3] + v[7]));
}

/* Of so many columns of a float format the first ... can be read eight at a time. */
#define COLUMNS_BY_8(columns) ((columns) & ~7u)
#else
typedef float wide;

INLINE wide wide_zero(void)
{
    return 0.0f;
}

INLINE wide wide_add(wide sum, float x)
{
    return sum + x;
}

INLINE wide wide_block(wide sum, float scale, int dot, int correction)
{
    return FMA(scale, (float)(dot - correction), sum);
}

INLINE float wide_total(wide v)
{
    return v;
}

#if defined(__OPENCL_VERSION__) || defined(__OPENCL_C_VERSION__)
INLINE wide wide_dot(wide sum, float8 w, float8 x)
{
    return sum + (dot(w.lo, x.lo) + dot(w.hi, x.hi));
}
#else
INLINE wide wide_dot(wide sum, float8 w, float8 x)
{
    UNROLL
    for (int i = 0; i < 8; i++)
        sum = FMA(w.v[i], x.v[i], sum);
    return sum;
}
#endif

/* Where rows are not whole vectors they are not aligned either, which a device may not forgive. */
#define COLUMNS_BY_8(columns) ((columns) % 8u == 0u ? (columns) : 0u)
#endif

/* ------------------------------------------------------------------ over the lanes of a group
 * All lanes call these; scratch is LOCAL_ARRAY(float or uint, ..., GROUP_SCRATCH). The order of the sum depends on
 * LANES alone. */
#if ON_HOST
#define GROUP_SCRATCH 1

INLINE void group_sums(float *values, uint n, float *scratch)
{
    (void)values, (void)n, (void)scratch;
}

INLINE float group_max(float value, float *scratch)
{
    (void)scratch;
    return value;
}

INLINE uint group_sum_uint(uint value, uint *scratch)
{
    (void)scratch;
    return value;
}

#elif defined(__OPENCL_C_VERSION__) || defined(__OPENCL_VERSION__)
#define GROUP_SCRATCH (SUMS_AT_ONCE * MOST_LANES)

/* A tree in local memory: what is left over in an odd row waits for the next. */
#define GROUP_TREE(COMBINE)                                                     \
    for (uint left = LANES, half_of; left > 1; left = half_of) {                \
        half_of = (left + 1) / 2;                                               \
        if (LANE < left - half_of) {                                            \
            COMBINE                                                             \
        }                                                                       \
        BARRIER();                                                              \
    }

INLINE void group_sums(float *values, uint n, __local float *scratch)
{
    if (LANES == 1)
        return;
    for (uint i = 0; i < n; i++)
        scratch[i * LANES + LANE] = values[i];
    BARRIER();
    GROUP_TREE(for (uint i = 0; i < n; i++) scratch[i * LANES + LANE] += scratch[i * LANES + LANE + half_of];)
    for (uint i = 0; i < n; i++)
        values[i] = scratch[i * LANES];
    BARRIER();
}

INLINE float group_max(float value, __local float *scratch)
{
    scratch[LANE] = value;
    BARRIER();
    GROUP_TREE(scratch[LANE] = fmax(scratch[LANE], scratch[LANE + half_of]);)
    value = scratch[0];
    BARRIER();
    return value;
}

INLINE uint group_sum_uint(uint value, __local uint *scratch)
{
    scratch[LANE] = value;
    BARRIER();
    GROUP_TREE(scratch[LANE] += scratch[LANE + half_of];)
    value = scratch[0];
    BARRIER();
    return value;
}

#else
#define GROUP_SCRATCH (SUMS_AT_ONCE * 32)

INLINE uint shuffled_down(uint value, uint distance, uint lanes)
{
    uint result;
    asm volatile("shfl.sync.down.b32 %0, %1, %2, 31, %3;"
                 : "=r"(result)
                 : "r"(value), "r"(distance), "r"(0xffffffffu >> (32u - lanes)));
    return result;
}

/* First within a warp (the last one may be a part), then, by every lane for itself, over the warps. */
#define GROUP_REDUCE(type, TO_BITS, FROM_BITS, a, b, COMBINE)                              \
    uint warp = LANE / 32u, place = LANE % 32u, warps = (LANES + 31u) / 32u;              \
    uint lanes = least(32u, LANES - warp * 32u);                                          \
    for (uint i = 0; i < n; i++) {                                                        \
        type a = values[i];                                                               \
        UNROLL                                                                            \
        for (uint distance = 16; distance > 0; distance /= 2) {                           \
            type b = FROM_BITS(shuffled_down(TO_BITS(a), distance, lanes));               \
            if (place + distance < lanes)                                                 \
                a = COMBINE;                                                              \
        }                                                                                 \
        if (place == 0)                                                                   \
            scratch[i * warps + warp] = a;                                                \
    }                                                                                     \
    BARRIER();                                                                            \
    for (uint i = 0; i < n; i++) {                                                        \
        type a = scratch[i * warps];                                                      \
        for (uint other = 1; other < warps; other++) {                                    \
            type b = scratch[i * warps + other];                                          \
            a = COMBINE;                                                                  \
        }                                                                                 \
        values[i] = a;                                                                    \
    }                                                                                     \
    BARRIER();

INLINE void group_sums(float *values, uint n, float *scratch)
{
    GROUP_REDUCE(float, AS_UINT, AS_FLOAT, a, b, a + b)
}

INLINE float group_max(float value, float *scratch)
{
    float values[1] = {value};
    const uint n = 1;
    GROUP_REDUCE(float, AS_UINT, AS_FLOAT, a, b, a > b ? a : b)
    return values[0];
}

INLINE uint group_sum_uint(uint value, uint *scratch)
{
    uint values[1] = {value};
    const uint n = 1;
    GROUP_REDUCE(uint, , , a, b, a + b)
    return values[0];
}
#endif

INLINE float group_sum(float value, LOCAL float *scratch)
{
    group_sums(&value, 1, scratch);
    return value;
}

#endif
