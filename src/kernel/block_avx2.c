/* block_avx2.c - block formats times one token of 8 bits.
 *
 * The same plan as block_avx512.c: several rows share what depends on the token alone. Without VNNI bytes are
 * multiplied by maddubs, which takes one unsigned and one signed factor and adds two products into 16 bits WITH
 * saturation; so every format must show that two products fit:
 *   Q4_0, Q4_K   2 * 15 * 127 =  3810
 *   Q6_K         2 * 63 * 127 = 16002
 *   Q8_0         2 * 128 * 127 = 32512, of |w| and q with the sign of w: |-128| is 128 as an unsigned byte, and a
 *                q of kernel_input is never -128, so its sign can always be turned. */
#include "avx2.h"

ALWAYS_INLINE __m256i load_256(const void *at)
{
    return _mm256_loadu_si256(at);
}

/* Pairs of 16 bits added up to 32, as float32. */
ALWAYS_INLINE __m256 widen(__m256i pairs)
{
    return _mm256_cvtepi32_ps(_mm256_madd_epi16(pairs, _mm256_set1_epi16(1)));
}

ALWAYS_INLINE __m256i low_nibbles(__m256i bytes)
{
    return _mm256_and_si256(bytes, _mm256_set1_epi8(15));
}

/* ---- Q8_0 ---- */

ALWAYS_INLINE __m256 dot_q8_0(const row_group *rows, const kernel_input *x)
{
    __m256 sum[GROUP];
    clear(sum);
    for (size_t b = 0; b < x->columns / 32; b++) {
        fetch_ahead(rows, b * sizeof(block_q8_0), sizeof(block_q8_0));
        __m256i q = load_256(x->q + b * 32);
        float dx = x->scales[b];
        for (size_t r = 0; r < GROUP; r++) {
            const block_q8_0 *block = (const void *)(rows->now[r] + b * sizeof(block_q8_0));
            __m256i weights = load_256(block->q);
            __m256i dot = _mm256_maddubs_epi16(_mm256_abs_epi8(weights), _mm256_sign_epi8(q, weights));
            sum[r] = _mm256_fmadd_ps(widen(dot), _mm256_set1_ps(_cvtsh_ss(block->d) * dx), sum[r]);
        }
    }
    return sum_of_8(sum);
}

/* ---- Q4_0: two blocks at a time, one in each half of a register, low and high nibbles apart ---- */

/* What the token gives to two blocks; zeros in place of a second one that is not there. */
typedef struct token_q4_0 {
    __m256i low, high; /* the values that meet low nibbles (0..15 of each block) and high ones */
    __m256i offset;    /* 8 times their sums, in pairs of 16 bits */
    __m256 scale;
} token_q4_0;

ALWAYS_INLINE token_q4_0 read_token_q4_0(const kernel_input *x, size_t b, bool both)
{
    __m256i first = load_256(x->q + b * 32), second = _mm256_setzero_si256(), eight = _mm256_set1_epi8(8);
    if (both)
        second = load_256(x->q + b * 32 + 32);
    token_q4_0 token;
    token.low = _mm256_permute2x128_si256(first, second, 0x20);
    token.high = _mm256_permute2x128_si256(first, second, 0x31);
    token.offset = _mm256_add_epi16(_mm256_maddubs_epi16(eight, token.low), _mm256_maddubs_epi16(eight, token.high));
    token.scale = _mm256_set_m128(_mm_set1_ps(both ? x->scales[b + 1] : 0), _mm_set1_ps(x->scales[b]));
    return token;
}

/* Sums of products stay within 2 * 3810 and the offset within 2 * 2032, so 16 bits hold the difference. */
ALWAYS_INLINE __m256 add_q4_0(__m256 sum, __m256i nibbles, __m128i halves, const token_q4_0 *token)
{
    __m256i low = _mm256_maddubs_epi16(low_nibbles(nibbles), token->low);
    __m256i high = _mm256_maddubs_epi16(low_nibbles(_mm256_srli_epi16(nibbles, 4)), token->high);
    __m256i dot = _mm256_sub_epi16(_mm256_add_epi16(low, high), token->offset);
    return _mm256_fmadd_ps(widen(dot), _mm256_mul_ps(_mm256_cvtph_ps(halves), token->scale), sum);
}

ALWAYS_INLINE __m256 dot_q4_0(const row_group *rows, const kernel_input *x)
{
    __m256 sum[GROUP];
    clear(sum);
    size_t blocks = x->columns / 32, b = 0;
    for (; b + 2 <= blocks; b += 2) {
        fetch_ahead(rows, b * sizeof(block_q4_0), 2 * sizeof(block_q4_0));
        token_q4_0 token = read_token_q4_0(x, b, true);
        for (size_t r = 0; r < GROUP; r++) {
            const block_q4_0 *block = (const void *)(rows->now[r] + b * sizeof(block_q4_0));
            __m256i nibbles = _mm256_castsi128_si256(_mm_loadu_si128((const void *)block[0].nibbles));
            nibbles = _mm256_inserti128_si256(nibbles, _mm_loadu_si128((const void *)block[1].nibbles), 1);
            __m128i first = _mm_set1_epi16((short)block[0].d), second = _mm_set1_epi16((short)block[1].d);
            sum[r] = add_q4_0(sum[r], nibbles, _mm_unpacklo_epi64(first, second), &token);
        }
    }
    if (b < blocks) {
        token_q4_0 token = read_token_q4_0(x, b, false);
        for (size_t r = 0; r < GROUP; r++) {
            const block_q4_0 *block = (const void *)(rows->now[r] + b * sizeof(block_q4_0));
            __m256i nibbles = _mm256_zextsi128_si256(_mm_loadu_si128((const void *)block->nibbles));
            sum[r] = add_q4_0(sum[r], nibbles, _mm_set1_epi16((short)block->d), &token);
        }
    }
    return sum_of_8(sum);
}

/* ---- Q4_K ---- */

/* The eight 6-bit numbers in the bytes of `packed`, times `unit`. */
ALWAYS_INLINE __m256 scale_bytes(uint64_t packed, float unit)
{
    __m256i numbers = _mm256_cvtepu8_epi32(_mm_cvtsi64_si128((long long)packed));
    return _mm256_mul_ps(_mm256_cvtepi32_ps(numbers), _mm256_set1_ps(unit));
}

/* scale: of the token's eight blocks of 32. offset: that times the sum of each. */
ALWAYS_INLINE __m256 add_q4_k(__m256 sum, const block_q4_k *block, const int8_t *q, __m256 scale, __m256 offset)
{
    uint64_t scales, minima;
    sub_scales(block->scales, &scales, &minima);
    __m256 d = _mm256_mul_ps(scale_bytes(scales, _cvtsh_ss(block->d)), scale);
    sum = _mm256_fnmadd_ps(scale_bytes(minima, _cvtsh_ss(block->dmin)), offset, sum);
    for (int g = 0; g < 4; g++) {
        __m256i nibbles = load_256(block->nibbles + g * 32);
        __m256i low = _mm256_maddubs_epi16(low_nibbles(nibbles), load_256(q + g * 64));
        __m256i high = _mm256_maddubs_epi16(low_nibbles(_mm256_srli_epi16(nibbles, 4)), load_256(q + g * 64 + 32));
        sum = _mm256_fmadd_ps(widen(low), _mm256_permutevar8x32_ps(d, _mm256_set1_epi32(2 * g)), sum);
        sum = _mm256_fmadd_ps(widen(high), _mm256_permutevar8x32_ps(d, _mm256_set1_epi32(2 * g + 1)), sum);
    }
    return sum;
}

ALWAYS_INLINE __m256 dot_q4_k(const row_group *rows, const kernel_input *x)
{
    __m256 sum[GROUP];
    clear(sum);
    for (size_t b = 0; b < x->columns / 256; b++) {
        fetch_ahead(rows, b * sizeof(block_q4_k), sizeof(block_q4_k));
        __m256 scale = _mm256_loadu_ps(x->scales + b * 8);
        __m256 offset = _mm256_mul_ps(scale, widen(load_256(x->sums + b * 16)));
        for (size_t r = 0; r < GROUP; r++) {
            const block_q4_k *block = (const void *)(rows->now[r] + b * sizeof(block_q4_k));
            sum[r] = add_q4_k(sum[r], block, x->q + b * 256, scale, offset);
        }
    }
    return sum_of_8(sum);
}

/* ---- Q6_K ---- */

/* 32 weights times q, minus 32 times q; d: the block's scales, of which numbers s and s + 1 belong to these. */
ALWAYS_INLINE __m256 add_q6_k_32(__m256 sum, __m256i low, __m256i high, const int8_t *q, __m256 d, int s)
{
    const __m256i lane_sub = _mm256_set_epi32(1, 1, 1, 1, 0, 0, 0, 0);
    __m256i weights = _mm256_or_si256(low_nibbles(low), _mm256_and_si256(high, _mm256_set1_epi8(0x30)));
    __m256i values = load_256(q), offset = _mm256_maddubs_epi16(_mm256_set1_epi8(32), values);
    __m256i dot = _mm256_sub_epi16(_mm256_maddubs_epi16(weights, values), offset);
    __m256i lanes = _mm256_add_epi32(lane_sub, _mm256_set1_epi32(s));
    return _mm256_fmadd_ps(widen(dot), _mm256_permutevar8x32_ps(d, lanes), sum);
}

/* Of each half of a block: scales (8 numbers) times d times the token's scales, each of which serves two. */
ALWAYS_INLINE __m256 scales_q6_k(const block_q6_k *block, int half, __m256 dx)
{
    __m128i bytes = _mm_loadl_epi64((const void *)(block->scales + half * 8));
    __m256 numbers = _mm256_cvtepi32_ps(_mm256_cvtepi8_epi32(bytes));
    return _mm256_mul_ps(_mm256_mul_ps(numbers, _mm256_set1_ps(_cvtsh_ss(block->d))), dx);
}

ALWAYS_INLINE __m256 add_q6_k(__m256 sum, const block_q6_k *block, const int8_t *q, const float *scales)
{
    for (int half = 0; half < 2; half++, q += 128) {
        const __m256i twice = _mm256_set_epi32(3, 3, 2, 2, 1, 1, 0, 0);
        __m256 dx = _mm256_permutevar8x32_ps(_mm256_castps128_ps256(_mm_loadu_ps(scales + half * 4)), twice);
        __m256 d = scales_q6_k(block, half, dx);
        __m256i first = load_256(block->low + half * 64), second = load_256(block->low + half * 64 + 32);
        __m256i high = load_256(block->high + half * 32);
        /* The upper bits of 32 weights lie 0, 2, 4 and 6 bits up in a byte and belong at bit 4. */
        sum = add_q6_k_32(sum, first, _mm256_slli_epi16(high, 4), q, d, 0);
        sum = add_q6_k_32(sum, second, _mm256_slli_epi16(high, 2), q + 32, d, 2);
        sum = add_q6_k_32(sum, _mm256_srli_epi16(first, 4), high, q + 64, d, 4);
        sum = add_q6_k_32(sum, _mm256_srli_epi16(second, 4), _mm256_srli_epi16(high, 2), q + 96, d, 6);
    }
    return sum;
}

ALWAYS_INLINE __m256 dot_q6_k(const row_group *rows, const kernel_input *x)
{
    __m256 sum[GROUP];
    clear(sum);
    for (size_t b = 0; b < x->columns / 256; b++) {
        fetch_ahead(rows, b * sizeof(block_q6_k), sizeof(block_q6_k));
        for (size_t r = 0; r < GROUP; r++) {
            const block_q6_k *block = (const void *)(rows->now[r] + b * sizeof(block_q6_k));
            sum[r] = add_q6_k(sum[r], block, x->q + b * 256, x->scales + b * 8);
        }
    }
    return sum_of_8(sum);
}

/* ---- the table ---- */

BLOCK_PRODUCT(q8_0, avx2)
BLOCK_PRODUCT(q4_0, avx2)
BLOCK_PRODUCT(q4_k, avx2)
BLOCK_PRODUCT(q6_k, avx2)

const kernels avx2_blocks = {
    .product =
        {
            [FORMAT_Q8_0] = product_q8_0_avx2,
            [FORMAT_Q4_0] = product_q4_0_avx2,
            [FORMAT_Q4_K] = product_q4_k_avx2,
            [FORMAT_Q6_K] = product_q6_k_avx2,
        },
};
