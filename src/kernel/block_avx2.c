/* block_avx2.c - block formats times one token of 8 bits.
 *
 * The same plan as block_avx512.h: eight rows share everything that depends only on the token. Without VNNI bytes are
 * multiplied by maddubs, which takes one unsigned and one signed factor and adds two products in 16 bits WITH
 * saturation. So for every format two products must fit 16 bits:
 *   Q4_0, Q4_K   2 * 15 * 127 =  3810
 *   Q6_K         2 * 63 * 127 = 16002
 *   Q8_0         2 * 128 * 127 = 32512, of |w| and q with the sign of w: |-128| is 128 as an unsigned byte, and a
 *                q of kernel_input is never -128, so it can always be negated. */
#include "avx2.h"

#include "bytes_avx2.h"
#include "fold_avx2.h"

ALWAYS_INLINE __m256i load_256(const void *at)
{
    return _mm256_loadu_si256(at);
}

/* Adds pairs of 16-bit integers to 32 bits and converts the sums to float32. */
ALWAYS_INLINE __m256 widen(__m256i pairs)
{
    return _mm256_cvtepi32_ps(_mm256_madd_epi16(pairs, _mm256_set1_epi16(1)));
}

ALWAYS_INLINE __m256i low_nibbles(__m256i bytes)
{
    return _mm256_and_si256(bytes, _mm256_set1_epi8(15));
}

/* ---- Q8_0 ---- */

ALWAYS_INLINE __m256 add_q8_0(__m256 sum, const block_q8_0 *block, const int8_t *q, float scale)
{
    __m256i weights = load_256(block->q);
    __m256i dot = _mm256_maddubs_epi16(_mm256_abs_epi8(weights), _mm256_sign_epi8(load_256(q), weights));
    return _mm256_fmadd_ps(widen(dot), _mm256_set1_ps(_cvtsh_ss(block->d) * scale), sum);
}

ALWAYS_INLINE void dot_q8_0(const row_group *rows, const kernel_input *x, size_t tokens, __m256 *sums)
{
    __m256 sum[TOKENS_AT_ONCE][GROUP];
    FOR_TOKENS clear(sum[t]);
    for (size_t b = 0; b < x->columns / 32; b++) {
        fetch_ahead(rows, b * sizeof(block_q8_0), sizeof(block_q8_0));
        UNROLLED
        for (size_t r = 0; r < GROUP; r++) {
            const block_q8_0 *block = (const void *)(rows->now[r] + b * sizeof(block_q8_0));
            FOR_TOKENS sum[t][r] = add_q8_0(sum[t][r], block, x[t].q + b * 32, x[t].scales[b]);
        }
    }
    FOR_TOKENS sums[t] = sum_of_8(sum[t]);
}

/* ---- Q4_0: eight blocks at a time, i and i + 4 in the halves of a register, low and high nibbles apart ---- */

#define EIGHT 8

/* What is prepared of the token for eight blocks. */
typedef struct token_q4_0 {
    __m256i low[4], high[4]; /* values for the low nibbles (0..15 of a block) and for the high ones */
    __m256i offset;          /* 8 times the sums of the blocks */
    __m256 scale;
} token_q4_0;

ALWAYS_INLINE token_q4_0 read_token_q4_0(const int8_t *q, const float *scales)
{
    const __m256i eight = _mm256_set1_epi8(8);
    token_q4_0 token;
    __m256i offset[4];
    for (int i = 0; i < 4; i++, q += 32) {
        __m256i first = load_256(q), second = load_256(q + 4 * 32);
        token.low[i] = _mm256_permute2x128_si256(first, second, 0x20);
        token.high[i] = _mm256_permute2x128_si256(first, second, 0x31);
        offset[i] =
            _mm256_add_epi16(_mm256_maddubs_epi16(eight, token.low[i]), _mm256_maddubs_epi16(eight, token.high[i]));
    }
    token.offset = fold_four(offset);
    token.scale = _mm256_loadu_ps(scales);
    return token;
}

/* Multiplies the nibbles of this block and of the fourth after it with values: sums of 16 bits, at most 2 * 3810. */
ALWAYS_INLINE __m256i multiply_two(const block_q4_0 *block, __m256i low, __m256i high)
{
    __m256i nibbles = _mm256_castsi128_si256(_mm_loadu_si128((const void *)block[0].nibbles));
    nibbles = _mm256_inserti128_si256(nibbles, _mm_loadu_si128((const void *)block[4].nibbles), 1);
    return _mm256_add_epi16(_mm256_maddubs_epi16(low_nibbles(nibbles), low),
                            _mm256_maddubs_epi16(low_nibbles(_mm256_srli_epi16(nibbles, 4)), high));
}

ALWAYS_INLINE __m256 add_q4_0(__m256 sum, const block_q4_0 block[EIGHT], const token_q4_0 *token)
{
    __m256i products[4];
    UNROLLED
    for (int i = 0; i < 4; i++)
        products[i] = multiply_two(block + i, token->low[i], token->high[i]);
    __m256i dot = _mm256_sub_epi32(fold_four(products), token->offset);
    __m256 scale = _mm256_mul_ps(_mm256_cvtph_ps(scales_of_8(block)), token->scale);
    return _mm256_fmadd_ps(_mm256_cvtepi32_ps(dot), scale, sum);
}

ALWAYS_INLINE void dot_q4_0(const row_group *rows, const kernel_input *x, size_t tokens, __m256 *sums)
{
    __m256 sum[TOKENS_AT_ONCE][GROUP];
    FOR_TOKENS clear(sum[t]);
    token_q4_0 token[TOKENS_AT_ONCE];
    size_t blocks = x->columns / 32, b = 0;
    for (; b + EIGHT <= blocks; b += EIGHT) {
        fetch_ahead(rows, b * sizeof(block_q4_0), EIGHT * sizeof(block_q4_0));
        FOR_TOKENS token[t] = read_token_q4_0(x[t].q + b * 32, x[t].scales + b);
        UNROLLED
        for (size_t r = 0; r < GROUP; r++) {
            const block_q4_0 *block = (const void *)(rows->now[r] + b * sizeof(block_q4_0));
            FOR_TOKENS sum[t][r] = add_q4_0(sum[t][r], block, &token[t]);
        }
    }
    if (b < blocks) { /* the last, fewer than eight blocks, filled up with zeros */
        for (size_t t = 0; t < tokens; t++) {
            int8_t q[EIGHT * 32] = {0};
            float scales[EIGHT] = {0};
            memcpy(q, x[t].q + b * 32, (blocks - b) * 32);
            memcpy(scales, x[t].scales + b, (blocks - b) * sizeof(*scales));
            token[t] = read_token_q4_0(q, scales);
        }
        for (size_t r = 0; r < GROUP; r++) {
            block_q4_0 last[EIGHT] = {{0, {0}}};
            memcpy(last, rows->now[r] + b * sizeof(*last), (blocks - b) * sizeof(*last));
            FOR_TOKENS sum[t][r] = add_q4_0(sum[t][r], last, &token[t]);
        }
    }
    FOR_TOKENS sums[t] = sum_of_8(sum[t]);
}

/* ---- Q4_K ---- */

/* Returns the eight 6-bit numbers in the bytes of `packed`, times `unit`. */
ALWAYS_INLINE __m256 scale_bytes(uint64_t packed, __m256 unit)
{
    __m256i numbers = _mm256_cvtepu8_epi32(_mm_cvtsi64_si128((long long)packed));
    return _mm256_mul_ps(_mm256_cvtepi32_ps(numbers), unit);
}

/* Adds one block. scale: of the token's eight blocks of 32. offset: scale times the sum of each block. */
ALWAYS_INLINE __m256 add_q4_k(__m256 sum, const block_q4_k *block, const int8_t *q, __m256 scale, __m256 offset)
{
    uint64_t scales, minima;
    int32_t both; /* d and dmin */
    sub_scales(block->scales, &scales, &minima);
    memcpy(&both, block, sizeof(both));
    __m256 units = _mm256_cvtph_ps(_mm_set1_epi32(both));
    sum = _mm256_fnmadd_ps(scale_bytes(minima, _mm256_movehdup_ps(units)), offset, sum);
    __m256i half[2];
    UNROLLED
    for (int h = 0; h < 2; h++) { /* four sub-blocks */
        __m256i products[4];
        UNROLLED
        for (int i = 0; i < 4; i += 2) {
            const int8_t *values = q + h * 128 + i * 32;
            __m256i nibbles = load_256(block->nibbles + h * 64 + i * 16);
            products[i] = _mm256_maddubs_epi16(low_nibbles(nibbles), load_256(values));
            products[i + 1] = _mm256_maddubs_epi16(low_nibbles(_mm256_srli_epi16(nibbles, 4)), load_256(values + 32));
        }
        half[h] = fold_four(products);
    }
    __m256i dot = _mm256_add_epi32(_mm256_permute2x128_si256(half[0], half[1], 0x20),
                                   _mm256_permute2x128_si256(half[0], half[1], 0x31));
    __m256 d = _mm256_mul_ps(scale_bytes(scales, _mm256_moveldup_ps(units)), scale);
    return _mm256_fmadd_ps(_mm256_cvtepi32_ps(dot), d, sum);
}

ALWAYS_INLINE void dot_q4_k(const row_group *rows, const kernel_input *x, size_t tokens, __m256 *sums)
{
    __m256 sum[TOKENS_AT_ONCE][GROUP];
    FOR_TOKENS clear(sum[t]);
    for (size_t b = 0; b < x->columns / 256; b++) {
        fetch_ahead(rows, b * sizeof(block_q4_k), sizeof(block_q4_k));
        __m256 scale[TOKENS_AT_ONCE], offset[TOKENS_AT_ONCE];
        FOR_TOKENS
        {
            scale[t] = _mm256_loadu_ps(x[t].scales + b * 8);
            offset[t] = _mm256_mul_ps(scale[t], widen(load_256(x[t].sums + b * 16)));
        }
        UNROLLED
        for (size_t r = 0; r < GROUP; r++) {
            const block_q4_k *block = (const void *)(rows->now[r] + b * sizeof(block_q4_k));
            FOR_TOKENS sum[t][r] = add_q4_k(sum[t][r], block, x[t].q + b * 256, scale[t], offset[t]);
        }
    }
    FOR_TOKENS sums[t] = sum_of_8(sum[t]);
}

/* ---- Q6_K ---- */

/* Multiplies 32 weights (stored with 32 added) with values and subtracts `offset`, which is 32 times the values. The
 * 16-bit results are at most 2 * 32 * 127. */
ALWAYS_INLINE __m256i multiply_q6_k(__m256i low, __m256i high, const int8_t *q, __m256i offset)
{
    __m256i weights = _mm256_or_si256(low_nibbles(low), _mm256_and_si256(high, _mm256_set1_epi8(0x30)));
    return _mm256_sub_epi16(_mm256_maddubs_epi16(weights, load_256(q)), offset);
}

/* Adds one block. scale: of the token's eight blocks of 32; offsets: 32 times its values, summed in pairs. */
ALWAYS_INLINE __m256 add_q6_k(__m256 sum, const block_q6_k *block, const int8_t *q, const __m256i offsets[8],
                              const float *scale)
{
    /* Scales of columns 0, 32, 64, 96 and of 16, 48, 80, 112: the order of the sums of fold_four(). */
    const __m128i order = _mm_set_epi8(15, 13, 11, 9, 14, 12, 10, 8, 7, 5, 3, 1, 6, 4, 2, 0);
    __m128i bytes = _mm_shuffle_epi8(_mm_loadu_si128((const void *)block->scales), order);
    __m256 d = _mm256_set1_ps(_cvtsh_ss(block->d));
    UNROLLED
    for (int half = 0; half < 2; half++, q += 128, offsets += 4, bytes = _mm_unpackhi_epi64(bytes, bytes)) {
        __m256i first = load_256(block->low + half * 64), second = load_256(block->low + half * 64 + 32);
        __m256i high = load_256(block->high + half * 32);
        /* The upper two bits of the weights lie at bits 0, 2, 4 and 6 of a byte and are moved to bit 4. */
        const __m256i products[4] = {
            multiply_q6_k(first, _mm256_slli_epi16(high, 4), q, offsets[0]),
            multiply_q6_k(second, _mm256_slli_epi16(high, 2), q + 32, offsets[1]),
            multiply_q6_k(_mm256_srli_epi16(first, 4), high, q + 64, offsets[2]),
            multiply_q6_k(_mm256_srli_epi16(second, 4), _mm256_srli_epi16(high, 2), q + 96, offsets[3]),
        };
        __m256 scales = _mm256_mul_ps(_mm256_cvtepi32_ps(_mm256_cvtepi8_epi32(bytes)), d);
        scales = _mm256_mul_ps(scales, _mm256_broadcast_ps((const void *)(scale + half * 4)));
        sum = _mm256_fmadd_ps(_mm256_cvtepi32_ps(fold_four(products)), scales, sum);
    }
    return sum;
}

ALWAYS_INLINE void dot_q6_k(const row_group *rows, const kernel_input *x, size_t tokens, __m256 *sums)
{
    __m256 sum[TOKENS_AT_ONCE][GROUP];
    FOR_TOKENS clear(sum[t]);
    for (size_t b = 0; b < x->columns / 256; b++) {
        fetch_ahead(rows, b * sizeof(block_q6_k), sizeof(block_q6_k));
        __m256i offsets[TOKENS_AT_ONCE][8];
        for (size_t i = 0; i < 8 * tokens; i++)
            offsets[i / 8][i % 8] =
                _mm256_maddubs_epi16(_mm256_set1_epi8(32), load_256(x[i / 8].q + b * 256 + i % 8 * 32));
        UNROLLED
        for (size_t r = 0; r < GROUP; r++) {
            const block_q6_k *block = (const void *)(rows->now[r] + b * sizeof(block_q6_k));
            FOR_TOKENS sum[t][r] = add_q6_k(sum[t][r], block, x[t].q + b * 256, offsets[t], x[t].scales + b * 8);
        }
    }
    FOR_TOKENS sums[t] = sum_of_8(sum[t]);
}

BLOCK_PRODUCTS(avx2)
