/* tile_avx2.h - block formats times many tokens of 8 bits, compiled without VNNI (tile_avx2.c) and with AVX-VNNI, the
 * VNNI of client CPUs (tile_avxvnni.c defines WITH_VNNI).
 *
 * A panel of 16 rows x 512 columns is unpacked once, rows in lanes, four neighbouring columns of a row in each 32-bit
 * lane. Then every tile of 16 rows x 4 tokens multiplies it by broadcast values. maddubs adds two products of unsigned
 * weights and signed values in 16 bits, with saturation. So for every format two products must not saturate, and the
 * final sum in 16 bits, before it is widened, must fit (additions may wrap on the way: only the final sum matters):
 *   Q4_0   two products are at most 2 * 15 * 127 = 3810. Each of the two 16-bit lanes of a group begins with minus a
 *          quarter of 8 * (the sum of the group's 32 values), so its final sum consists of 16 products by (weight - 4)
 *          and 16 by -4: 16 * 11 * 127 + 16 * 4 * 127 = 30480 at most
 *   Q4_K   16 products of a lane are at most 16 * 15 * 127 = 30480; Q4_1 alike
 *   Q5_K   and Q5_1: 8 products, at most 8 * 31 * 127 = 31496, so a group is widened in two halves
 *   Q6_K   two products are at most 2 * 63 * 127 = 16002. A group of 16 columns begins with -32 times the sum of the 8
 *          values of each lane, so the final sum is 8 products by (weight - 32), at most 8 * 32 * 127 = 32512
 *   Q8_0   |weight| times the value with the weight's sign, at most 2 * 128 * 127 = 32512 (q is never -128, so it can
 *          always be negated); nothing can be added to that, so every pair is widened at once. The other formats with
 *          signed bytes (bytes_avx2.h) are multiplied alike
 * With 16 rows 4 multiplications need 3 loads of weights and values, with 8 rows 5, and the CPU has two loads per
 * cycle. Sums of floats are kept in memory, because the registers are needed for the 16-bit sums.
 *
 * VNNI adds four products in 32 bits, which is exact: all weights are made unsigned, Q8_0's by adding 128, and a group
 * begins with minus that offset times the sum of its values. */
#ifndef KERNEL_TILE_AVX2_H
#define KERNEL_TILE_AVX2_H

#include "avx2.h"

#include "bytes_avx2.h"

#define PANEL_ROWS     (2 * LANES)
#define PANEL_COLUMNS  512
#define PANELS         2 /* filled before they are multiplied with the tokens, which are prepared once for all panels */
#define TILE_TOKENS    4
#define TILES(X)       X(1) X(2) X(3) X(4)
#define FETCHES_TOKENS true
#define HALVED_TOKENS  0
#define STEP           32 /* columns of a group: one block of activations */

/* [..][r] belongs to row r. */
typedef struct panel {
    uint8_t weights[PANEL_COLUMNS / 4][PANEL_ROWS][4];
    float scales[PANEL_COLUMNS / STEP][PANEL_ROWS];
    float minima[PANEL_COLUMNS / STEP][PANEL_ROWS];
    int32_t steps[PANEL_COLUMNS / 16][PANEL_ROWS]; /* Q6_K: the integer scale of 16 columns, see step() */
} panel;

/* The tokens of a tile, from the panel's first column on. */
typedef struct tokens {
    const int8_t *q;     /* [TILE_TOKENS][stride] */
    const float *scales; /* [TILE_TOKENS][stride / 32] */
    size_t stride;
    /* The start value of a group: two 16-bit halves, with VNNI one 32-bit number. */
    int32_t begin[TILE_TOKENS][PANEL_COLUMNS / 16];
    /* Q4_K: scale times sum of a group; the group's minimum is multiplied with it. */
    float totals[TILE_TOKENS][PANEL_COLUMNS / STEP];
} token_tile;

typedef __m256i integers;

typedef struct tile_kind {
    size_t group; /* always STEP */
    bool has_minima;
    /* Fills begin or totals of token t from the sums and values of `columns` columns; NULL: not needed. */
    void (*prepare)(token_tile *x, size_t t, const int16_t *sums, size_t columns);
    void (*dot)(const panel *p, size_t g, const token_tile *x, size_t count, __m256i dot[TILE_TOKENS][2]);
} tile_kind;

/* Unpacks 32 weights of a row, from a column that is a multiple of 32, and writes those of their scale, minimum and two
 * steps that the format has. Entries of a row are PANEL_ROWS apart. */
typedef __m256i unpack_function(const uint8_t *row, size_t column, float *scale, float *minimum, int32_t *steps);

/* ---- unpacking ---- */

ALWAYS_INLINE __m256i low_nibbles(__m256i bytes)
{
    return _mm256_and_si256(bytes, _mm256_set1_epi8(15));
}

/* Returns a 16-bit number in both halves of 32 bits. */
ALWAYS_INLINE int32_t in_both_halves(int number)
{
    return (int32_t)((uint32_t)(uint16_t)number * 0x10001u);
}

/* Returns an integer scale of Q6_K in the form that dot_sixes needs. */
ALWAYS_INLINE int32_t step(int number)
{
#ifdef WITH_VNNI
    return number;
#else
    return in_both_halves(number);
#endif
}

ALWAYS_INLINE __m256i unpack_q8_0(const uint8_t *row, size_t column, float *scale, float *minimum, int32_t *steps)
{
    (void)minimum, (void)steps;
    const block_q8_0 *block = (const void *)(row + column / 32 * sizeof(block_q8_0));
    scale[0] = _cvtsh_ss(block->d);
    __m256i weights = _mm256_loadu_si256((const void *)block->q);
#ifdef WITH_VNNI
    weights = _mm256_xor_si256(weights, _mm256_set1_epi8((char)0x80)); /* + 128 */
#endif
    return weights;
}

ALWAYS_INLINE __m256i unpack_q4_0(const uint8_t *row, size_t column, float *scale, float *minimum, int32_t *steps)
{
    (void)minimum, (void)steps;
    const block_q4_0 *block = (const void *)(row + column / 32 * sizeof(block_q4_0));
    __m128i bytes = _mm_loadu_si128((const void *)block->nibbles);
    scale[0] = _cvtsh_ss(block->d);
    return low_nibbles(_mm256_set_m128i(_mm_srli_epi16(bytes, 4), bytes));
}

ALWAYS_INLINE __m256i unpack_q4_k(const uint8_t *row, size_t column, float *scale, float *minimum, int32_t *steps)
{
    (void)steps;
    const block_q4_k *block = (const void *)(row + column / 256 * sizeof(block_q4_k));
    size_t sub = column % 256 / 32;
    uint64_t sub_scale, sub_minimum;
    sub_scales(block->scales, &sub_scale, &sub_minimum);
    scale[0] = _cvtsh_ss(block->d) * (float)(sub_scale >> 8 * sub & 255);
    minimum[0] = _cvtsh_ss(block->dmin) * (float)(sub_minimum >> 8 * sub & 255);
    __m256i nibbles = _mm256_loadu_si256((const void *)(block->nibbles + sub / 2 * 32));
    return low_nibbles(sub % 2 ? _mm256_srli_epi16(nibbles, 4) : nibbles);
}

ALWAYS_INLINE __m256i unpack_q6_k(const uint8_t *row, size_t column, float *scale, float *minimum, int32_t *steps)
{
    (void)minimum;
    const block_q6_k *block = (const void *)(row + column / 256 * sizeof(block_q6_k));
    size_t part = column % 256 / 32, half = part / 4, quarter = part % 4;
    scale[0] = _cvtsh_ss(block->d);
    steps[0] = step(block->scales[2 * part]);
    steps[PANEL_ROWS] = step(block->scales[2 * part + 1]);
    __m256i low = _mm256_loadu_si256((const void *)(block->low + half * 64 + quarter % 2 * 32));
    __m256i high = _mm256_loadu_si256((const void *)(block->high + half * 32));
    /* The upper two bits lie at bits 0, 2, 4 and 6 of a byte, by quarter, and are moved to bit 4. */
    __m128i up = _mm_cvtsi32_si128(quarter == 0   ? 4
                                   : quarter == 1 ? 2
                                                  : 0),
            down = _mm_cvtsi32_si128(quarter == 3 ? 2 : 0);
    high = _mm256_srl_epi16(_mm256_sll_epi16(high, up), down);
    low = quarter / 2 ? _mm256_srli_epi16(low, 4) : low;
    return _mm256_or_si256(low_nibbles(low), _mm256_and_si256(high, _mm256_set1_epi8(0x30)));
}

/* Unpacks a format of bytes_avx2.h whose scales belong to 32 weights. Blocks of 32 are spans by themselves here, since
 * what follows a block may not be there. */
ALWAYS_INLINE __m256i unpack_bytes(const uint8_t *row, size_t column, float *scale, float *minimum, byte_format format)
{
    size_t part = column % format.block_values / 32;
    const uint8_t *block = row + column / format.block_values * format.block_bytes;
    float scales[LANES], minima[LANES];
    span_scales s = format.scales(block, format.block_values / 32);
    _mm256_storeu_ps(scales, s.scale[0]);
    scale[0] = scales[part];
    if (format.has_minima) {
        _mm256_storeu_ps(minima, s.minimum[0]);
        minimum[0] = minima[part];
    }
    __m256i bytes = _mm256_sub_epi8(format.bytes(block, part), _mm256_set1_epi8((char)format.offset));
#ifdef WITH_VNNI
    if (!format.has_minima)
        bytes = _mm256_xor_si256(bytes, _mm256_set1_epi8((char)0x80)); /* + 128 */
#endif
    return bytes;
}

#define UNPACK_BYTES(level, id, name, ...)                                                               \
    ALWAYS_INLINE __m256i unpack_##name(const uint8_t *row, size_t column, float *scale, float *minimum, \
                                        int32_t *steps)                                                  \
    {                                                                                                    \
        (void)steps;                                                                                     \
        return unpack_bytes(row, column, scale, minimum, BYTE_FORMAT(id, name, __VA_ARGS__));            \
    }
BYTE_FORMATS_BY_32(UNPACK_BYTES, avx2)
COPY_BYTE_FORMATS(UNPACK_BYTES, avx2)

ALWAYS_INLINE void fill_rows(const uint8_t *const row[PANEL_ROWS], size_t start, size_t columns, panel *p,
                             unpack_function *unpack)
{
    for (size_t c = 0; c < columns; c += STEP)
        for (size_t half = 0; half < PANEL_ROWS; half += LANES) {
            __m256i v[LANES];
            for (size_t i = 0; i < LANES; i++) {
                size_t r = half + i;
                float *scale = &p->scales[c / STEP][r], *minimum = &p->minima[c / STEP][r];
                int32_t *steps = &p->steps[c / 16][r];
                if (row[r]) {
                    v[i] = unpack(row[r], start + c, scale, minimum, steps);
                } else { /* a row after the last one: computed but never stored, so any finite values will do */
                    v[i] = _mm256_setzero_si256();
                    scale[0] = minimum[0] = 0;
                    steps[0] = steps[PANEL_ROWS] = 0;
                }
            }
            transpose_8(v);
            for (size_t k = 0; k < STEP / 4; k++)
                _mm256_store_si256((void *)p->weights[c / 4 + k][half], v[k]);
        }
}

// clang-format off
#define TILE_FORMATS(X)           \
    X(Q8_0, q8_0, bytes)          \
    X(Q4_0, q4_0, nibbles)        \
    X(Q4_K, q4_k, nibbles_minima) \
    X(Q6_K, q6_k, sixes)          \
    X(Q4_1, q4_1, nibbles_minima) \
    X(Q5_0, q5_0, bytes)          \
    X(Q5_1, q5_1, fives_minima)   \
    X(Q5_K, q5_k, fives_minima)   \
    X(IQ4_NL, iq4_nl, bytes)      \
    X(IQ4_XS, iq4_xs, bytes)      \
    X(MXFP4, mxfp4, bytes)        \
    X(TQ1_0, tq1_0, bytes)        \
    X(TQ2_0, tq2_0, bytes)        \
    X(Q1_0, q1_0, bytes)          \
    X(Q2_0, q2_0, bytes)          \
    X(SIGNS1, signs1, bytes)      \
    X(LEVELS2, levels2, bytes)    \
    X(IQ1_S, iq1_s, bytes)        \
    X(IQ2_XXS, iq2_xxs, bytes)    \
    X(IQ3_XXS, iq3_xxs, bytes)    \
    X(IQ3_S, iq3_s, bytes)
// clang-format on

#define FILL(id, name, kind)                                                                              \
    static __attribute__((noinline)) void fill_##name(const uint8_t *const row[PANEL_ROWS], size_t start, \
                                                      size_t columns, panel *p)                           \
    {                                                                                                     \
        fill_rows(row, start, columns, p, unpack_##name);                                                 \
    }
TILE_FORMATS(FILL)

/* ---- start values of a token's groups ---- */

ALWAYS_INLINE void prepare_minima(token_tile *x, size_t t, const int16_t *sums, size_t columns)
{
    const float *scales = x->scales + t * (x->stride / STEP);
    for (size_t g = 0; g < columns / STEP; g++)
        x->totals[t][g] = scales[g] * (float)(sums[2 * g] + sums[2 * g + 1]);
}

#ifdef WITH_VNNI

ALWAYS_INLINE void prepare_bytes(token_tile *x, size_t t, const int16_t *sums, size_t columns)
{
    for (size_t g = 0; g < columns / STEP; g++)
        x->begin[t][g] = -128 * (sums[2 * g] + sums[2 * g + 1]);
}

ALWAYS_INLINE void prepare_nibbles(token_tile *x, size_t t, const int16_t *sums, size_t columns)
{
    for (size_t g = 0; g < columns / STEP; g++)
        x->begin[t][g] = -8 * (sums[2 * g] + sums[2 * g + 1]);
}

ALWAYS_INLINE void prepare_sixes(token_tile *x, size_t t, const int16_t *sums, size_t columns)
{
    for (size_t i = 0; i < columns / 16; i++)
        x->begin[t][i] = -32 * sums[i];
}

#else

#define prepare_bytes NULL

ALWAYS_INLINE void prepare_nibbles(token_tile *x, size_t t, const int16_t *sums, size_t columns)
{
    for (size_t g = 0; g < columns / STEP; g++)
        x->begin[t][g] = in_both_halves(-4 * (sums[2 * g] + sums[2 * g + 1]));
}

ALWAYS_INLINE void prepare_sixes(token_tile *x, size_t t, const int16_t *sums, size_t columns)
{
    (void)sums;
    for (size_t g = 0; g < columns / STEP; g++) {
        __m256i values = _mm256_loadu_si256((const void *)(x->q + t * x->stride + g * STEP));
        __m256i pairs = _mm256_maddubs_epi16(_mm256_set1_epi8(32), values);
        pairs = _mm256_add_epi16(pairs, _mm256_shuffle_epi32(pairs, 0x4e));
        pairs = _mm256_add_epi16(pairs, _mm256_shuffle_epi32(pairs, 0xb1));
        pairs = _mm256_sub_epi16(_mm256_setzero_si256(), pairs);
        x->begin[t][2 * g] = _mm256_extract_epi32(pairs, 0);
        x->begin[t][2 * g + 1] = _mm256_extract_epi32(pairs, 4);
    }
}

#endif

/* ---- multiplying ---- */

/* Keeps gcc from reordering the additions, which would need more registers than there are. */
#define IN_ORDER(v) __asm__("" : "+x"(v))

/* Returns the weights of 16 rows and four columns: two registers, of the first and the last eight rows. (Loops advance
 * this pointer; with indices gcc shifts at every step.) */
ALWAYS_INLINE const __m256i *weights_at(const panel *p, size_t k)
{
    return (const void *)p->weights[k / 4];
}

/* Broadcasts four neighbouring values of a token. */
ALWAYS_INLINE __m256i four_values(const int8_t *q)
{
    int32_t four;
    memcpy(&four, q, sizeof(four));
    return _mm256_set1_epi32(four);
}

/* Adds the products of columns [k, k + columns) of unsigned weights to sum, in 16 bits, or with VNNI in 32. */
ALWAYS_INLINE void add_products(const panel *p, size_t k, size_t columns, const token_tile *x, size_t count,
                                __m256i sum[TILE_TOKENS][2])
{
    const __m256i *weights = weights_at(p, k);
    const int8_t *q = x->q + k;
    UNROLLED
    for (size_t i = 0; i < columns / 4; i++) {
        __m256i first = _mm256_load_si256(weights + 2 * i), second = _mm256_load_si256(weights + 2 * i + 1);
        UNROLLED
        for (size_t t = 0; t < count; t++) {
            __m256i values = four_values(q + t * x->stride + 4 * i);
#ifdef WITH_VNNI
            sum[t][0] = _mm256_dpbusd_avx_epi32(sum[t][0], first, values);
            sum[t][1] = _mm256_dpbusd_avx_epi32(sum[t][1], second, values);
#else
            sum[t][0] = _mm256_add_epi16(sum[t][0], _mm256_maddubs_epi16(first, values));
            sum[t][1] = _mm256_add_epi16(sum[t][1], _mm256_maddubs_epi16(second, values));
#endif
            IN_ORDER(sum[t][0]);
            IN_ORDER(sum[t][1]);
        }
    }
}

/* Returns the sum of 16 or 32 columns in 32 bits, times `by`: 16 bits in both halves, or (with VNNI) one number. */
ALWAYS_INLINE __m256i widen_sum(__m256i sum, __m256i by)
{
#ifdef WITH_VNNI
    return _mm256_mullo_epi32(sum, by);
#else
    return _mm256_madd_epi16(sum, by);
#endif
}

/* Widens the sums of a group whose scale is not an integer. */
ALWAYS_INLINE void widen_sums(size_t count, __m256i dot[TILE_TOKENS][2])
{
#ifdef WITH_VNNI
    (void)count, (void)dot;
#else
    UNROLLED
    for (size_t i = 0; i < 2 * count; i++)
        dot[i / 2][i % 2] = widen_sum(dot[i / 2][i % 2], _mm256_set1_epi16(1));
#endif
}

ALWAYS_INLINE void dot_nibbles(const panel *p, size_t g, const token_tile *x, size_t count, __m256i dot[TILE_TOKENS][2])
{
    UNROLLED
    for (size_t t = 0; t < count; t++)
        dot[t][0] = dot[t][1] = _mm256_set1_epi32(x->begin[t][g]);
    add_products(p, g * STEP, STEP, x, count, dot);
    widen_sums(count, dot);
}

ALWAYS_INLINE void dot_nibbles_minima(const panel *p, size_t g, const token_tile *x, size_t count,
                                      __m256i dot[TILE_TOKENS][2])
{
    UNROLLED
    for (size_t t = 0; t < count; t++)
        dot[t][0] = dot[t][1] = _mm256_setzero_si256();
    add_products(p, g * STEP, STEP, x, count, dot);
    widen_sums(count, dot);
}

/* Weights of 5 bits: two products by 16 columns fit 16 bits. */
ALWAYS_INLINE void dot_fives_minima(const panel *p, size_t g, const token_tile *x, size_t count,
                                    __m256i dot[TILE_TOKENS][2])
{
    UNROLLED
    for (size_t half = 0; half < 2; half++) {
        __m256i sum[TILE_TOKENS][2];
        UNROLLED
        for (size_t t = 0; t < count; t++)
            sum[t][0] = sum[t][1] = _mm256_setzero_si256();
        add_products(p, g * STEP + half * 16, 16, x, count, sum);
        widen_sums(count, sum);
        UNROLLED
        for (size_t i = 0; i < 2 * count; i++)
            dot[i / 2][i % 2] = half == 0 ? sum[i / 2][i % 2] : _mm256_add_epi32(dot[i / 2][i % 2], sum[i / 2][i % 2]);
    }
}

/* The integer scales of 16 columns are multiplied with the sums when these are widened. The sum of 32 columns is at
 * most 2 * 128 * 16 * 32 * 127 < 2^24, so float32 represents it exactly. */
ALWAYS_INLINE void dot_sixes(const panel *p, size_t g, const token_tile *x, size_t count, __m256i dot[TILE_TOKENS][2])
{
    UNROLLED
    for (size_t half = 0; half < 2; half++) {
        __m256i sum[TILE_TOKENS][2];
        UNROLLED
        for (size_t t = 0; t < count; t++)
            sum[t][0] = sum[t][1] = _mm256_set1_epi32(x->begin[t][2 * g + half]);
        add_products(p, g * STEP + half * 16, 16, x, count, sum);
        UNROLLED
        for (size_t i = 0; i < 2 * count; i++) {
            __m256i steps = _mm256_load_si256((const void *)(p->steps[2 * g + half] + i % 2 * LANES));
            __m256i products = widen_sum(sum[i / 2][i % 2], steps);
            dot[i / 2][i % 2] = half == 0 ? products : _mm256_add_epi32(dot[i / 2][i % 2], products);
        }
    }
}

#ifdef WITH_VNNI

#define dot_bytes dot_nibbles /* they differ only in the offset */

#else

ALWAYS_INLINE void dot_bytes(const panel *p, size_t g, const token_tile *x, size_t count, __m256i dot[TILE_TOKENS][2])
{
    const __m256i ones = _mm256_set1_epi16(1), *weights = weights_at(p, g * STEP);
    const int8_t *q = x->q + g * STEP;
    UNROLLED
    for (size_t t = 0; t < count; t++)
        dot[t][0] = dot[t][1] = _mm256_setzero_si256();
    UNROLLED
    for (size_t i = 0; i < STEP / 4; i++) {
        __m256i first = _mm256_load_si256(weights + 2 * i), second = _mm256_load_si256(weights + 2 * i + 1);
        __m256i first_size = _mm256_abs_epi8(first), second_size = _mm256_abs_epi8(second);
        UNROLLED
        for (size_t t = 0; t < count; t++) {
            __m256i values = four_values(q + t * x->stride + 4 * i);
            __m256i a = _mm256_maddubs_epi16(first_size, _mm256_sign_epi8(values, first));
            __m256i b = _mm256_maddubs_epi16(second_size, _mm256_sign_epi8(values, second));
            dot[t][0] = _mm256_add_epi32(dot[t][0], _mm256_madd_epi16(a, ones));
            dot[t][1] = _mm256_add_epi32(dot[t][1], _mm256_madd_epi16(b, ones));
            IN_ORDER(dot[t][0]);
            IN_ORDER(dot[t][1]);
        }
    }
}

#endif

ALWAYS_INLINE vector to_floats(__m256i v)
{
    return _mm256_cvtepi32_ps(v);
}

ALWAYS_INLINE void prepare(token_tile *x, size_t t, const int16_t *sums, size_t columns, tile_kind kind)
{
    if (kind.prepare)
        kind.prepare(x, t, sums, columns);
}

ALWAYS_INLINE void dot_group(const panel *p, size_t g, const token_tile *x, size_t count, __m256i dot[TILE_TOKENS][2],
                             tile_kind kind)
{
    kind.dot(p, g, x, count, dot);
}

#define TILE_KINDS(X)                                                 \
    X(bytes, STEP, false, prepare_bytes, dot_bytes)                   \
    X(nibbles, STEP, false, prepare_nibbles, dot_nibbles)             \
    X(nibbles_minima, STEP, true, prepare_minima, dot_nibbles_minima) \
    X(fives_minima, STEP, true, prepare_minima, dot_fives_minima)     \
    X(sixes, STEP, false, prepare_sixes, dot_sixes)
#define X(kind, ...) static const tile_kind kind_##kind = {__VA_ARGS__};
TILE_KINDS(X)
#undef X

#include "tile.h"

#endif
