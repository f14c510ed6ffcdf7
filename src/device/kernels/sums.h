/* sums.h - partial sums of one lane (wide) and sums over the lanes of a group, and before them a few functions that are
 * the same for all compilers. */
#ifndef DEVICE_KERNELS_SUMS_H
#define DEVICE_KERNELS_SUMS_H

/* The most sums that one call of group_sums adds up. */
#define SUMS_AT_ONCE 4

#ifdef DEVICE_KERNEL_SOURCE
typedef struct step_row {
#define STEP_WORD(field) uint field;
    STEP_ROW_FIELDS(STEP_WORD)
#undef STEP_WORD
} step_row;

typedef struct step_record {
    uint count;
    step_row row[PROMPT_ROWS];
} step_record;
#endif

#if !ON_CUDA
#define KERNEL_AHEAD(name, PARAMETERS, ahead) KERNEL(name, PARAMETERS)
#define block32_read(q)                       block32_load((GLOBAL const uchar *)(q))
#define cache_8_of_halves                     float8_of_halves
#define cache_8_of_bytes                      float8_of_bytes
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

INLINE float magnitude_of(float x)
{
    return AS_FLOAT(AS_UINT(x) & 0x7fffffffu);
}

INLINE void local_store8(LOCAL float *to, float8 v)
{
#if ON_OPENCL
    vstore8(v, 0, to);
#elif ON_HOST
    float8_store(to, v);
#else
    UNROLL
    for (uint i = 0; i < 8; i++)
        to[i] = v.v[i];
#endif
}

/* Returns the logistic function. */
INLINE float sigmoid_of(float x)
{
    return DIVIDE(1.0f, 1.0f + EXP(-x));
}

/* Returns log(1 + exp(x)) as max(x, 0) + log(1 + y), with y = exp(-|x|) at most 1. log(1 + y) = 2 atanh(s) with
 * s = y / (2 + y) at most 1/3; the next term of its series is less than 2^-30 of it. */
INLINE float softplus_of(float x)
{
    float y = EXP(-magnitude_of(x)), s = DIVIDE(y, 2.0f + y), square = s * s, series = 1.0f / 17.0f;
    series = FMA(series, square, 1.0f / 15.0f);
    series = FMA(series, square, 1.0f / 13.0f);
    series = FMA(series, square, 1.0f / 11.0f);
    series = FMA(series, square, 1.0f / 9.0f);
    series = FMA(series, square, 1.0f / 7.0f);
    series = FMA(series, square, 1.0f / 5.0f);
    series = FMA(series, square, 1.0f / 3.0f);
    return (x > 0.0f ? x : 0.0f) + 2.0f * FMA(s * square, series, s);
}

/* Returns tanh(x): near zero by the Taylor series, whose next term is less than 2^-27 of the result there, elsewhere by
 * exp. */
INLINE float tanh_of(float x)
{
    float size = magnitude_of(x), s = x * x, series = 21844.0f / 6081075.0f;
    float far = 1.0f - DIVIDE(2.0f, EXP(2.0f * size) + 1.0f);
    series = FMA(series, s, -1382.0f / 155925.0f);
    series = FMA(series, s, 62.0f / 2835.0f);
    series = FMA(series, s, -17.0f / 315.0f);
    series = FMA(series, s, 2.0f / 15.0f);
    series = FMA(series, s, -1.0f / 3.0f);
    return size < 0.4f ? FMA(x * s, series, x) : x < 0.0f ? -far : far;
}

/* Returns 1 - erf(x) for x >= 0, off by at most 1.5e-7 before rounding (Abramowitz and Stegun, Handbook of Mathematical
 * Functions, 7.1.26). */
INLINE float erfc_of(float x)
{
    float t = DIVIDE(1.0f, FMA(0.3275911f, x, 1.0f)), sum = 1.061405429f;
    sum = FMA(sum, t, -1.453152027f);
    sum = FMA(sum, t, 1.421413741f);
    sum = FMA(sum, t, -0.284496736f);
    sum = FMA(sum, t, 0.254829592f);
    return sum * t * EXP(-x * x);
}

/* A partial sum: eight side by side on the host, for SIMD; one elsewhere. */
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

/* sum + scale * (dot - correction), where dot is the result of block32_dot */
INLINE wide wide_block(wide sum, float scale, int8 dot, int correction)
{
    (void)correction; /* block32_of_nibbles has subtracted it already */
    return scale * __builtin_convertvector(dot, float8) + sum;
}

/* The same with two scales, one for the first 16 values and one for the others. */
INLINE wide wide_halves(wide sum, float first, float second, block32 w, block32 x)
{
    float8 scales = {first, first, first, first, second, second, second, second};
    return scales * __builtin_convertvector(block32_dot(w, x), float8) + sum;
}

/* Returns the whole sum. */
INLINE float wide_total(wide v)
{
    return ((v[0] + v[4]) + (v[2] + v[6])) + ((v[1] + v[5]) + (v[3] + v[7]));
}

/* How many of the first columns of a row in a float format can be read eight at a time. */
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

INLINE wide wide_halves(wide sum, float first, float second, block32 w, block32 x)
{
    sum = FMA(first, (float)block32_dot_half(w, x, 0), sum);
    return FMA(second, (float)block32_dot_half(w, x, 1), sum);
}

INLINE float wide_total(wide v)
{
    return v;
}

#if ON_OPENCL
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

/* All or none: if rows are not made of whole vectors, most are not aligned, and a device may need alignment. */
#define COLUMNS_BY_8(columns) ((columns) % 8u == 0u ? (columns) : 0u)
#endif

/* ------------------------------------------------------------------ over the lanes of a group
 * All lanes of a group must call these functions, and all get the result. scratch is LOCAL_ARRAY(float or uint, ...,
 * GROUP_SCRATCH). group_sums replaces each of `n` values by its sum. The order of a sum depends only on LANES. */
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

#elif ON_OPENCL
#define GROUP_SCRATCH (SUMS_AT_ONCE * MOST_LANES)

/* Reduces in local memory as a tree; the last one of an odd number waits for the next level. */
#define GROUP_TREE(COMBINE)                                      \
    for (uint left = LANES, half_of; left > 1; left = half_of) { \
        half_of = (left + 1) / 2;                                \
        if (LANE < left - half_of) {                             \
            COMBINE                                              \
        }                                                        \
        BARRIER();                                               \
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
#define WARP          32u

/* Returns the value of the lane `distance` further on in the warp, of which the first `lanes` lanes are active. */
INLINE uint shuffled_down(uint value, uint distance, uint lanes)
{
    uint result;
    asm volatile("shfl.sync.down.b32 %0, %1, %2, 31, %3;"
                 : "=r"(result)
                 : "r"(value), "r"(distance), "r"(0xffffffffu >> (32u - lanes)));
    return result;
}

/* Reduces within each warp (the last may be incomplete); then every lane combines the results of all warps. */
#define GROUP_REDUCE(type, TO_BITS, FROM_BITS, a, b, COMBINE)                \
    uint warp = LANE / 32u, place = LANE % 32u, warps = (LANES + 31u) / 32u; \
    uint lanes = least(32u, LANES - warp * 32u);                             \
    for (uint i = 0; i < n; i++) {                                           \
        type a = values[i];                                                  \
        UNROLL                                                               \
        for (uint distance = 16; distance > 0; distance /= 2) {              \
            type b = FROM_BITS(shuffled_down(TO_BITS(a), distance, lanes));  \
            if (place + distance < lanes)                                    \
                a = COMBINE;                                                 \
        }                                                                    \
        if (place == 0)                                                      \
            scratch[i * warps + warp] = a;                                   \
    }                                                                        \
    BARRIER();                                                               \
    for (uint i = 0; i < n; i++) {                                           \
        type a = scratch[i * warps];                                         \
        for (uint other = 1; other < warps; other++) {                       \
            type b = scratch[i * warps + other];                             \
            a = COMBINE;                                                     \
        }                                                                    \
        values[i] = a;                                                       \
    }                                                                        \
    BARRIER();

INLINE void group_sums(float *values, uint n, float *scratch){GROUP_REDUCE(float, AS_UINT, AS_FLOAT, a, b, a + b)}

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

/* ------------------------------------------------------------------ over the lanes of a team
 * The lanes of a group form teams that work by themselves: on CUDA its warps, if it is made of whole ones; elsewhere the
 * group is one team. So code that teams run in different numbers of rounds must have no barrier of its own. All lanes of a
 * team must call team_sums and team_max, which are as group_sums and group_max. */
#if ON_CUDA
#define WHOLE_WARPS (LANES % WARP == 0)
#define TEAM_LANES  (WHOLE_WARPS ? WARP : LANES)
#define TEAM        (WHOLE_WARPS ? LANE / WARP : 0u)
#define TEAMS       (WHOLE_WARPS ? LANES / WARP : 1u)
#define TEAM_LANE   (WHOLE_WARPS ? LANE % WARP : LANE)

/* Combines the values of the 32 lanes of a whole warp; every lane gets the result. */
#define WARP_REDUCE(a, b, COMBINE)                                                                                    \
    UNROLL                                                                                                            \
    for (uint distance = WARP / 2; distance > 0; distance /= 2) {                                                     \
        uint bits;                                                                                                    \
        asm volatile("shfl.sync.bfly.b32 %0, %1, %2, 31, 0xffffffff;" : "=r"(bits) : "r"(AS_UINT(a)), "r"(distance)); \
        float b = AS_FLOAT(bits);                                                                                     \
        a = COMBINE;                                                                                                  \
    }

INLINE void team_sums(float *values, uint n, float *scratch)
{
    if (WHOLE_WARPS) {
        for (uint i = 0; i < n; i++) {
            WARP_REDUCE(values[i], other, values[i] + other)
        }
    } else {
        group_sums(values, n, scratch);
    }
}

INLINE float team_max(float value, float *scratch)
{
    if (!WHOLE_WARPS)
        return group_max(value, scratch);
    WARP_REDUCE(value, other, value > other ? value : other)
    return value;
}
#else
#define TEAM_LANES LANES
#define TEAM       0u
#define TEAMS      1u
#define TEAM_LANE  LANE
#define team_sums  group_sums
#define team_max   group_max
#endif

INLINE float team_sum(float value, LOCAL float *scratch)
{
    team_sums(&value, 1, scratch);
    return value;
}

#endif
