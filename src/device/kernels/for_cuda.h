/* for_cuda.h - the macros and functions of portable.h in CUDA C++, for nvcc, NVRTC and clang. It needs no header of
 * CUDA: what is not part of the language is inline PTX, which all three compilers accept. */
#ifndef DEVICE_KERNELS_FOR_CUDA_H
#define DEVICE_KERNELS_FOR_CUDA_H

#if ON_CUDA
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
/* 8 would double the registers, so that fewer groups run at once, which makes a single token slower. */
#define MANY_TOKENS                4
#define LOCAL_ARRAY(type, name, n) __shared__ type name[n]

#define KERNEL_B(type, name) , type *name
#define KERNEL_V(name)       , uint name
#define KERNEL_F(name)       , float name
#define PASSED_B(type, name) , name
#define PASSED_V(name)       , name
#define PASSED_F(name)       , name

/* From compute capability 9.0 on, a kernel may begin while the one before it ends (CUDA: programmatic dependent launch). It
 * lets the next one begin at once, does what needs nothing that others compute (`ahead`), and then waits until the one before it
 * has ended and what it wrote can be seen. Here those instructions are comments, since older devices do not have them; the loader
 * makes instructions of them where that is asked for (cuda_kernels.c). */
#define LET_NEXT_BEGIN() asm volatile(FROM_SM_90 "griddepcontrol.launch_dependents;" ::: "memory")
#define AWAIT_INPUT()    asm volatile(FROM_SM_90 "griddepcontrol.wait;" ::: "memory")
#define KERNEL_AHEAD(name, PARAMETERS, ahead)                                                                  \
    INLINE void body_##name(const step_record *step PARAMETERS(KERNEL_B, KERNEL_V, KERNEL_F));                 \
    extern "C" __global__ void kernel_##name(const step_record *step PARAMETERS(KERNEL_B, KERNEL_V, KERNEL_F)) \
    {                                                                                                          \
        LET_NEXT_BEGIN();                                                                                      \
        if (begins_early()) {                                                                                  \
            ahead;                                                                                             \
        }                                                                                                      \
        AWAIT_INPUT();                                                                                         \
        body_##name(step PARAMETERS(PASSED_B, PASSED_V, PASSED_F));                                            \
    }                                                                                                          \
    INLINE void body_##name(const step_record *step PARAMETERS(KERNEL_B, KERNEL_V, KERNEL_F))
#define KERNEL(name, PARAMETERS) KERNEL_AHEAD(name, PARAMETERS, )

typedef unsigned char uchar;
typedef signed char schar;
typedef unsigned short ushort;
typedef unsigned int uint;
typedef unsigned long ulong;

/* Defines a function of one operand that is one PTX instruction. */
#define INSTRUCTION_1(name, text, to, to_type, a_kind, a_type) \
    INLINE to_type name(a_type a)                              \
    {                                                          \
        to_type result;                                        \
        asm(text " %0, %1;" : to(result) : a_kind(a));         \
        return result;                                         \
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

/* Computes e^x as 2^(x / ln 2), with the quotient in two parts so that a large x loses no accuracy. The second part is left
 * out where the power is subnormal, and where it is infinite, which times a rest of zero or below would be NaN. */
INLINE float EXP(float x)
{
    float bounded = x < -104.0f ? -104.0f : x > 89.0f ? 89.0f : x;
    float whole = bounded * 1.44269504f, rest = FMA(bounded, 1.44269504f, -whole) + bounded * 1.92596299e-8f;
    float power = power_of_two(whole);
    return x != x ? x : whole < -126.0f || whole >= 128.0f ? power : FMA(power, rest * 0.69314718f, power);
}

/* Load 16 or 8 bytes through the read-only cache; no kernel may write this memory while this one is on the device, which it may be
 * before the one ahead of it has ended (KERNEL_AHEAD). So what kernels write is read by block32_read and cache_8_of_*. */
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

/* Whether those comments are instructions. The assembler knows, so that code for the other case costs nothing. */
INLINE bool begins_early(void)
{
    uint on;
    asm("mov.u32 %0, 0;\n\t" FROM_SM_90 "mov.u32 %0, 1;" : "=r"(on));
    return on != 0;
}

/* The most bytes that a group fetches ahead: with all groups of a device less than half of a cache of 50 MB. */
#define MOST_AHEAD 16384u

/* Begins to bring what lies before `end`, at most MOST_AHEAD bytes of it, into the device's cache, unless it begins within 16 bytes. */
INLINE void fetch_ahead(const uchar *from, const uchar *end)
{
    uint bytes = (uint)(end - from) < MOST_AHEAD ? (uint)(end - from) : MOST_AHEAD;
    if (((size_t)from & 15) == 0 && bytes >= 16)
        asm volatile(FROM_SM_90 "cp.async.bulk.prefetch.L2.global [%0], %1;" ::"l"(from), "r"(bytes & ~15u) : "memory");
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

INLINE float8 float8_of_half_words(uint4 v)
{
    float8 out = {{half_value((ushort)v.x), half_value((ushort)(v.x >> 16)), half_value((ushort)v.y),
                   half_value((ushort)(v.y >> 16)), half_value((ushort)v.z), half_value((ushort)(v.z >> 16)),
                   half_value((ushort)v.w), half_value((ushort)(v.w >> 16))}};
    return out;
}

INLINE float8 float8_of_halves(const uchar *p)
{
    return float8_of_half_words(load_16(p));
}

INLINE float8 cache_8_of_halves(const uchar *p)
{
    return float8_of_half_words(*(const uint4 *)p);
}

INLINE float8 float8_of_bfloats(const uchar *p)
{
    uint4 v = load_16(p);
    float8 out = {{AS_FLOAT(v.x << 16), AS_FLOAT(v.x & 0xffff0000u), AS_FLOAT(v.y << 16), AS_FLOAT(v.y & 0xffff0000u),
                   AS_FLOAT(v.z << 16), AS_FLOAT(v.z & 0xffff0000u), AS_FLOAT(v.w << 16), AS_FLOAT(v.w & 0xffff0000u)}};
    return out;
}

/* Converts the unsigned bytes of two words to floats and subtracts `less`, at most 128. A byte below the exponent of 2^23 is a
 * float that is larger by 2^23: one instruction, where shifting, masking and converting are three. */
INLINE float8 float8_of_words(uint first, uint second, float less)
{
    float8 out;
    UNROLL
    for (uint i = 0; i < 8; i++) {
        uint bits;
        asm("prmt.b32 %0, %1, %2, %3;"
            : "=r"(bits)
            : "r"(i < 4 ? first : second), "r"(0x4b000000), "r"(0x7440 | i % 4));
        out.v[i] = AS_FLOAT(bits) - (8388608.0f + less);
    }
    return out;
}

/* The same for signed bytes. */
INLINE float8 float8_of_signed(uint first, uint second)
{
    return float8_of_words(first ^ 0x80808080u, second ^ 0x80808080u, 128.0f);
}

INLINE float8 float8_of_bytes(const uchar *p)
{
    uint2 v = load_8(p);
    return float8_of_signed(v.x, v.y);
}

INLINE float8 cache_8_of_bytes(const uchar *p)
{
    uint2 v = *(const uint2 *)p;
    return float8_of_signed(v.x, v.y);
}

/* Returns four values of four bits and, above them, those bits of `upper` that a mask selects. */
INLINE uint with_upper(uint lower, uint upper, uint mask)
{
    return (lower & 0x0f0f0f0fu) | (upper & mask) << 4;
}

INLINE float8 float8_of_nibbles(const uchar *p, uint shift, int less)
{
    uint2 v = load_8(p);
    return float8_of_words(v.x >> shift & 0x0f0f0f0fu, v.y >> shift & 0x0f0f0f0fu, (float)less);
}

INLINE float8 float8_of_sixes(const uchar *p, uint shift, const uchar *upper, uint upper_shift)
{
    uint2 v = load_8(p);
    uint u = *(const uint *)upper >> upper_shift;
    return float8_of_words(with_upper(v.x >> shift, u, 0x03030303u), with_upper(v.y >> shift, u >> 2, 0x03030303u),
                           32.0f);
}

INLINE float8 float8_of_fives(const uchar *p, uint shift, const uchar *upper, uint upper_shift)
{
    uint2 v = load_8(p);
    uint u = *(const uint *)upper >> upper_shift;
    return float8_of_words(with_upper(v.x >> shift, u, 0x01010101u), with_upper(v.y >> shift, u >> 1, 0x01010101u),
                           0.0f);
}

/* Converts four numbers of four bits, in the bytes of a word, to signed bytes of twice their values. With m the lower
 * three bits, the size is m, and from m = 4 on m + r + (r == 3 ? 2 : 0), where r is m - 4. */
INLINE uint signed_fp4(uint n)
{
    uint m = n & 0x07070707u, r = n & (n >> 2 & 0x01010101u) * 3u;
    uint size = m + r + ((r & r >> 1 & 0x01010101u) << 1);
    uint minus = n >> 3 & (m + 0x07070707u) >> 3 & 0x01010101u; /* not of zero, whose negation would carry */
    return (size ^ minus * 255u) + minus;
}

INLINE float8 float8_of_fp4(const uchar *p, uint shift)
{
    uint2 v = load_8(p);
    return float8_of_signed(signed_fp4(v.x >> shift & 0x0f0f0f0fu), signed_fp4(v.y >> shift & 0x0f0f0f0fu));
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

/* The same for memory that another kernel writes. */
INLINE block32 block32_read(const schar *p)
{
    uint4 a = ((const uint4 *)p)[0], b = ((const uint4 *)p)[1];
    block32 out = {{a.x, a.y, a.z, a.w, b.x, b.y, b.z, b.w}};
    return out;
}

INLINE block32 block32_of_nibbles(const uchar *p, int less)
{
    (void)less; /* wide_block subtracts it later */
    uint4 a = load_16(p);
    block32 out = {{a.x & 0x0f0f0f0fu, a.y & 0x0f0f0f0fu, a.z & 0x0f0f0f0fu, a.w & 0x0f0f0f0fu,
                    (a.x >> 4) & 0x0f0f0f0fu, (a.y >> 4) & 0x0f0f0f0fu, (a.z >> 4) & 0x0f0f0f0fu,
                    (a.w >> 4) & 0x0f0f0f0fu}};
    return out;
}

INLINE uint fives(uint lower, uint upper)
{
    return with_upper(lower, upper, 0x01010101u);
}

INLINE block32 block32_of_fives(const uchar *p, const uchar *upper)
{
    uint4 a = load_16(p);
    uint u = *(const uint *)upper;
    block32 out = {{fives(a.x, u), fives(a.y, u >> 1), fives(a.z, u >> 2), fives(a.w, u >> 3), fives(a.x >> 4, u >> 4),
                    fives(a.y >> 4, u >> 5), fives(a.z >> 4, u >> 6), fives(a.w >> 4, u >> 7)}};
    return out;
}

INLINE block32 block32_of_fp4(const uchar *p)
{
    block32 v = block32_of_nibbles(p, 0);
    UNROLL
    for (int i = 0; i < 8; i++)
        v.v[i] = signed_fp4(v.v[i]);
    return v;
}

/* Converts four values of six bits to signed bytes and subtracts 32: flips the sixth bit, which then is the sign, and
 * extends it to the upper bits. */
INLINE uint signed_sixes(uint lower, uint upper)
{
    uint v = with_upper(lower, upper, 0x03030303u) ^ 0x20202020u, sign = v & 0x20202020u;
    return v | sign << 1 | sign << 2;
}

INLINE block32 block32_of_sixes(const uchar *p, const uchar *upper)
{
    uint4 a = load_16(p);
    uint2 u = load_8(upper);
    block32 out = {{signed_sixes(a.x, u.x), signed_sixes(a.y, u.x >> 2), signed_sixes(a.z, u.x >> 4),
                    signed_sixes(a.w, u.x >> 6), signed_sixes(a.x >> 4, u.y), signed_sixes(a.y >> 4, u.y >> 2),
                    signed_sixes(a.z >> 4, u.y >> 4), signed_sixes(a.w >> 4, u.y >> 6)}};
    return out;
}

/* Adds the dot product of four signed bytes to a sum. */
INLINE int DOT4(uint a, uint b, int sum)
{
    asm("dp4a.s32.s32 %0, %1, %2, %0;" : "+r"(sum) : "r"(a), "r"(b));
    return sum;
}

/* The dot product of the first 16 bytes (half 0) or of the others (1). */
INLINE int block32_dot_half(block32 a, block32 b, int half)
{
    int sum = 0;
    UNROLL
    for (int i = 4 * half; i < 4 * half + 4; i++)
        sum = DOT4(a.v[i], b.v[i], sum);
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

/* The dot product of four signed bytes each. */
INLINE int dot_4(uint a, uint b)
{
    return DOT4(a, b, 0);
}

#if defined(__CUDA_ARCH__) && __CUDA_ARCH__ >= 750
/* Matrix units multiply what the 32 lanes of a warp have together. */
#define HAS_MATRIX_UNITS 1
#define WARP_LANES       32

/* Adds to sums, 8 rows by 8 columns, the products of rows and columns of 16 signed bytes. Lane 4 r + k brings the bytes 4 k to
 * 4 k + 3 of row r, and of column r; it has the sums of row r with the columns 2 k and 2 k + 1 (PTX ISA, mma.m8n8k16). */
INLINE void matrix_dot_16(int sums[2], uint row, uint column)
{
    asm volatile("mma.sync.aligned.m8n8k16.row.col.s32.s8.s8.s32 {%0, %1}, {%2}, {%3}, {%0, %1};"
                 : "+r"(sums[0]), "+r"(sums[1])
                 : "r"(row), "r"(column));
}
#endif

/* Copy the values of a vector to an array. */
INLINE void float8_values(float8 v, float *to)
{
    UNROLL
    for (int i = 0; i < 8; i++)
        to[i] = v.v[i];
}

INLINE void block32_words(block32 v, uint *to)
{
    UNROLL
    for (int i = 0; i < 8; i++)
        to[i] = v.v[i];
}

/* Load four neighbouring words of local memory, which are aligned to 16 bytes. */
INLINE void local_load4(const uint *from, uint *to)
{
    uint4 v = *(const uint4 *)from;
    to[0] = v.x, to[1] = v.y, to[2] = v.z, to[3] = v.w;
}

INLINE uint sum_of_16(const uchar *p)
{
    uint4 v = load_16(p);
    return v.x + v.y + v.z + v.w;
}

#endif
#endif
