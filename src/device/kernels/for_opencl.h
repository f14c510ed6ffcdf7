/* for_opencl.h - the macros and functions of portable.h in OpenCL C 1.2. */
#ifndef DEVICE_KERNELS_FOR_OPENCL_H
#define DEVICE_KERNELS_FOR_OPENCL_H

#if ON_OPENCL
#define GLOBAL    __global
#define LOCAL     __local
#define INLINE    static inline __attribute__((always_inline))
#define ONE_COPY  INLINE
#define UNROLL    _Pragma("unroll")
#define UNROLL_4  _Pragma("unroll 4")
#define NO_UNROLL _Pragma("nounroll")

/* The driver defines the number of lanes per group at compile time. On a CPU device it is one, and the compiler removes
 * all the code that combines lanes. */
#ifndef GROUP_LANES
#define GROUP_LANES 64
#endif
#define MOST_LANES  GROUP_LANES
#define MANY_TOKENS 4 /* with 8, PoCL compiles a kernel for half a minute */
#define LANES       ((uint)GROUP_LANES)
#define GROUP       ((uint)get_group_id(0))
#define GROUPS      ((uint)get_num_groups(0))
#if GROUP_LANES > 1
#define LANE      ((uint)get_local_id(0))
#define BARRIER() barrier(CLK_LOCAL_MEM_FENCE | CLK_GLOBAL_MEM_FENCE)
#else
#define LANE      0u
#define BARRIER() ((void)0)
#endif

/* OpenCL has no pointers into buffers. So a kernel gets each whole buffer with an offset in units of 16 bytes, and
 * calls its body with pointers to the beginnings of the arguments. NULL comes with offset 0 and stays NULL. */
#define KERNEL_B(type, name)     , __global type *name
#define KERNEL_V(name)           , uint name
#define KERNEL_F(name)           , float name
#define KERNEL_WHOLE(type, name) , __global type *name, uint name##_at
#define KERNEL_FROM(type, name)  , (__global type *)((__global const uchar *)name + 16 * (size_t)name##_at)
#define KERNEL_PASS(name)        , name
#define KERNEL(name, PARAMETERS)                                                                        \
    INLINE void body_##name(__local ulong *local_memory,                                                \
                            __global const step_record *step PARAMETERS(KERNEL_B, KERNEL_V, KERNEL_F)); \
    __kernel __attribute__((reqd_work_group_size(GROUP_LANES, 1, 1))) void name(                        \
        __global const step_record *step, uint step_at PARAMETERS(KERNEL_WHOLE, KERNEL_V, KERNEL_F))    \
    {                                                                                                   \
        __local ulong local_memory[LOCAL_BYTES / 8];                                                    \
        body_##name(local_memory KERNEL_FROM(const step_record, step)                                   \
                        PARAMETERS(KERNEL_FROM, KERNEL_PASS, KERNEL_PASS));                             \
    }                                                                                                   \
    INLINE void body_##name(__local ulong *local_memory,                                                \
                            __global const step_record *step PARAMETERS(KERNEL_B, KERNEL_V, KERNEL_F))
/* Only the kernel function itself may declare local memory. So it declares one array, and LOCAL_ARRAY takes the arrays
 * of the body from it; together they must not exceed LOCAL_BYTES. */
#define LOCAL_BYTES (16 * MOST_LANES + 18944) /* for group_sums, and for the arrays of attend_chosen, the largest */
#define LOCAL_ARRAY(type, name, n)                     \
    __local type *name = (__local type *)local_memory; \
    local_memory += (sizeof(type) * (n) + 7) / 8

typedef signed char schar;

#define EXP(x)       exp(x)
#define SQRT(x)      sqrt_rounded(x)
#define DIVIDE(a, b) divide_rounded(a, b)
#define FMA(a, b, c) fma(a, b, c)
#define RINT(x)      rint(x)
#define AS_UINT(x)   as_uint(x)
#define AS_FLOAT(x)  as_float(x)

/* Correctly rounded division. OpenCL's may be off by 2.5 units in the last place; one step of Newton's method with the
 * exact remainder corrects it, and keeps a result that is already correct. A result that is not finite is kept, too. */
INLINE float divide_rounded(float a, float b)
{
    float quotient = a / b, better = fma(fma(-quotient, b, a), 1.0f / b, quotient);
    return isfinite(better) ? better : quotient;
}

/* Correctly rounded square root, by the same method. */
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

INLINE float8 float8_of_nibbles(__global const uchar *p, uint shift, int less)
{
    return convert_float8((vload8(0, p) >> (uchar)shift) & (uchar)15) - (float)less;
}

INLINE float8 float8_of_sixes(__global const uchar *p, uint shift, __global const uchar *upper, uint upper_shift)
{
    uchar8 lower = (vload8(0, p) >> (uchar)shift) & (uchar)15;
    uchar4 u = vload4(0, upper) >> (uchar)upper_shift;
    return convert_float8(lower | ((uchar8)(u, u >> (uchar)2) & (uchar)3) << (uchar)4) - 32.0f;
}

INLINE float8 float8_of_fives(__global const uchar *p, uint shift, __global const uchar *upper, uint upper_shift)
{
    uchar8 lower = (vload8(0, p) >> (uchar)shift) & (uchar)15;
    uchar4 u = vload4(0, upper) >> (uchar)upper_shift;
    return convert_float8(lower | ((uchar8)(u, u >> (uchar)1) & (uchar)1) << (uchar)4);
}

/* Converts numbers of four bits, in the bytes of words, to signed bytes of twice their values. With m the lower three
 * bits, the size is m, and from m = 4 on m + r + (r == 3 ? 2 : 0), where r is m - 4. */
INLINE uint4 signed_fp4(uint4 n)
{
    uint4 m = n & 0x07070707u, r = n & (n >> 2 & 0x01010101u) * 3u;
    uint4 size = m + r + ((r & r >> 1 & 0x01010101u) << 1);
    uint4 minus = n >> 3 & (m + 0x07070707u) >> 3 & 0x01010101u; /* not of zero, whose negation would carry */
    return (size ^ minus * 255u) + minus;
}

INLINE float8 float8_of_fp4(__global const uchar *p, uint shift)
{
    uint2 v = as_uint2((vload8(0, p) >> (uchar)shift) & (uchar)15);
    return convert_float8(as_char8(signed_fp4((uint4)(v, v)).lo));
}

typedef int8 block32; /* 32 signed bytes */

INLINE block32 block32_load(__global const uchar *p)
{
    return vload8(0, (__global const int *)p);
}

INLINE block32 block32_of_nibbles(__global const uchar *p, int less)
{
    (void)less; /* wide_block subtracts it later */
    uint4 both = vload4(0, (__global const uint *)p);
    return (int8)(as_int4(both & 0x0f0f0f0fu), as_int4((both >> 4) & 0x0f0f0f0fu));
}

INLINE int4 fives(uint4 lower, uint upper)
{
    uint4 bits = ((uint4)(upper) >> (uint4)(0, 1, 2, 3)) & 0x01010101u;
    return as_int4((lower & 0x0f0f0f0fu) | bits << 4);
}

INLINE block32 block32_of_fives(__global const uchar *p, __global const uchar *upper)
{
    uint4 both = vload4(0, (__global const uint *)p);
    uint u = *(__global const uint *)upper;
    return (int8)(fives(both, u), fives(both >> 4, u >> 4));
}

INLINE block32 block32_of_fp4(__global const uchar *p)
{
    uint4 both = vload4(0, (__global const uint *)p);
    return (int8)(as_int4(signed_fp4(both & 0x0f0f0f0fu)), as_int4(signed_fp4(both >> 4 & 0x0f0f0f0fu)));
}

/* Converts values of six bits to signed bytes and subtracts 32: flips the sixth bit, which then is the sign, and
 * extends it to the upper bits. */
INLINE int4 signed_sixes(uint4 lower, uint upper)
{
    uint4 bits = ((uint4)(upper) >> (uint4)(0, 2, 4, 6)) & 0x03030303u;
    uint4 v = ((lower & 0x0f0f0f0fu) | bits << 4) ^ 0x20202020u, sign = v & 0x20202020u;
    return as_int4(v | sign << 1 | sign << 2);
}

INLINE block32 block32_of_sixes(__global const uchar *p, __global const uchar *upper)
{
    uint4 both = vload4(0, (__global const uint *)p);
    uint2 u = vload2(0, (__global const uint *)upper);
    return (int8)(signed_sixes(both, u.x), signed_sixes(both >> 4, u.y));
}

#if defined(__opencl_c_integer_dot_product_input_4x8bit_packed)
#define DOT4(a, b) dot_4x8packed_ss_int(as_uint(a), as_uint(b))

INLINE int block32_dot(block32 a, block32 b)
{
    return DOT4(a.s0, b.s0) + DOT4(a.s1, b.s1) + DOT4(a.s2, b.s2) + DOT4(a.s3, b.s3) + DOT4(a.s4, b.s4) +
           DOT4(a.s5, b.s5) + DOT4(a.s6, b.s6) + DOT4(a.s7, b.s7);
}

/* The dot product of 16 bytes. */
INLINE int block16_dot(int4 a, int4 b)
{
    return DOT4(a.x, b.x) + DOT4(a.y, b.y) + DOT4(a.z, b.z) + DOT4(a.w, b.w);
}
#else
INLINE int block16_dot(int4 a, int4 b)
{
    int16 products = convert_int16(convert_short16(as_char16(a)) * convert_short16(as_char16(b)));
    int8 sums = products.lo + products.hi;
    int4 fewer = sums.lo + sums.hi;
    return fewer.x + fewer.y + fewer.z + fewer.w;
}

/* Written with vectors, which CPUs need; products of bytes fit into 16 bits. */
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

/* The dot product of the first 16 bytes (half_of 0) or of the others (1). */
INLINE int block32_dot_half(block32 a, block32 b, int half_of)
{
    return half_of == 0 ? block16_dot(a.lo, b.lo) : block16_dot(a.hi, b.hi);
}

/* The dot product of four signed bytes each. */
INLINE int dot_4(uint a, uint b)
{
#if defined(__opencl_c_integer_dot_product_input_4x8bit_packed)
    return DOT4(a, b);
#else
    short4 products = convert_short4(as_char4(a)) * convert_short4(as_char4(b));
    int2 both = convert_int2(products.lo) + convert_int2(products.hi);
    return both.x + both.y;
#endif
}

/* Copy the values of a vector to an array. */
INLINE void float8_values(float8 v, float *to)
{
    vstore8(v, 0, to);
}

INLINE void block32_words(block32 v, uint *to)
{
    vstore8(as_uint8(v), 0, to);
}

/* Load four neighbouring words of local memory. */
INLINE void local_load4(__local const uint *from, uint *to)
{
    vstore4(vload4(0, from), 0, to);
}

INLINE uint sum_of_16(__global const uchar *p)
{
    uint4 v = vload4(0, (__global const uint *)p);
    return v.x + v.y + v.z + v.w;
}

#endif
#endif
