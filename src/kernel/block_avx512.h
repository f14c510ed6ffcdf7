/* block_avx512.h - block formats times one token of 8 bits, compiled with VNNI (block_avx512vnni.c defines WITH_VNNI)
 * and without (block_avx512.c).
 *
 * The speed is limited by memory only if a block takes few instructions. So everything that depends only on the token
 * (its values in the order of the format's nibbles, the format's offset times their sums, its scales) is prepared
 * once and shared by eight rows. The instructions multiply unsigned with signed bytes: weights are made unsigned by an
 * offset, and a lane's sum starts with a correction for it. VNNI adds four products in 32 bits, which is exact. Without
 * VNNI, maddubs adds two products in 16 bits WITH saturation, so for every format they must fit:
 *   Q4_0   2 * 15 * 127 = 3810, low and high nibbles together 7620
 *   Q4_K   3810          Q6_K   2 * 63 * 127 = 16002
 *   Q8_0   2 * 128 * 127 = 32512, of |w| and q with the sign of w: |-128| is 128 as an unsigned byte, and a q of
 *          kernel_input is never -128, so it can always be negated
 *
 * Instructions per row with VNNI; the second number counts those on ports 0 and 5, the only ports with 512-bit
 * arithmetic:
 *   Q8_0  12 per 2 blocks (68 bytes),  9      Q4_K  ~50 per block (144 bytes), 36
 *   Q4_0  15 per 4 blocks (72 bytes), 12      Q6_K  ~42 per block (210 bytes), 38
 * The bytes divided by half of the second number are the bytes that a cycle can process: 15, 12, 8 and 11. Without VNNI
 * Q8_0 takes 3 instructions more, Q4_0 3, Q4_K 8 and Q6_K 8. */
#ifndef KERNEL_BLOCK_AVX512_H
#define KERNEL_BLOCK_AVX512_H

#include "avx512.h"

/* Returns start + the four products of each lane's bytes, u unsigned, s signed. */
ALWAYS_INLINE __m512i dot_bytes(__m512i start, __m512i u, __m512i s)
{
#ifdef WITH_VNNI
    return _mm512_dpbusd_epi32(start, u, s);
#else
    return _mm512_add_epi32(start, _mm512_madd_epi16(_mm512_maddubs_epi16(u, s), _mm512_set1_epi16(1)));
#endif
}

/* Returns start + the products of both pairs of registers, which together must fit 16 bits. */
ALWAYS_INLINE __m512i dot_nibbles(__m512i start, __m512i first, __m512i first_s, __m512i second, __m512i second_s)
{
#ifdef WITH_VNNI
    return dot_bytes(dot_bytes(start, first, first_s), second, second_s);
#else
    __m512i pairs = _mm512_add_epi16(_mm512_maddubs_epi16(first, first_s), _mm512_maddubs_epi16(second, second_s));
    return _mm512_add_epi32(start, _mm512_madd_epi16(pairs, _mm512_set1_epi16(1)));
#endif
}

/* Returns start - offset times the sum of each lane's four signed bytes. */
ALWAYS_INLINE __m512i minus_offset(__m512i start, uint8_t offset, __m512i s)
{
    __m512i sums = dot_bytes(_mm512_setzero_si512(), _mm512_set1_epi8((char)offset), s);
    return _mm512_sub_epi32(start, sums);
}

/* Returns the four products of each lane's bytes added up, both factors signed. of_128: -128 times the sum of each
 * lane's q. */
ALWAYS_INLINE __m512i dot_signed(__m512i weights, __m512i q, __m512i of_128)
{
#ifdef WITH_VNNI
    return dot_bytes(of_128, _mm512_xor_si512(weights, _mm512_set1_epi8((char)0x80)), q);
#else
    (void)of_128;
    __m512i turned = _mm512_mask_sub_epi8(q, _mm512_movepi8_mask(weights), _mm512_setzero_si512(), q);
    return dot_bytes(_mm512_setzero_si512(), _mm512_abs_epi8(weights), turned);
#endif
}

/* sum + dot * d * dx */
ALWAYS_INLINE __m512 add_scaled(__m512 sum, __m512i dot, __m512 d, __m512 dx)
{
    return _mm512_fmadd_ps(_mm512_cvtepi32_ps(dot), _mm512_mul_ps(d, dx), sum);
}

ALWAYS_INLINE __m512i load_256(const void *at)
{
    return _mm512_castsi256_si512(_mm256_loadu_si256(at));
}

/* Picks sixteen 16-bit words of `from` by index and converts them from float16 to float32. */
ALWAYS_INLINE __m512 pick_halves(__m256i words, __m512i from)
{
    __m512i picked = _mm512_permutexvar_epi16(_mm512_castsi256_si512(words), from);
    return _mm512_cvtph_ps(_mm512_castsi512_si256(picked));
}

ALWAYS_INLINE __m512 every_lane(uint16_t half)
{
    return _mm512_set1_ps(_cvtsh_ss(half));
}

/* ---- Q8_0: two blocks at a time, one in each half of a register ---- */

/* What is prepared of the token for two blocks. */
typedef struct token_q8_0 {
    __m512i q, start; /* the values, and -128 times their sums */
    __m512 scale;
} token_q8_0;

/* Prepares two blocks from block b, or the last one of an odd number, whose register has zeros above. */
ALWAYS_INLINE token_q8_0 read_token_q8_0(const kernel_input *x, size_t b, size_t blocks)
{
    const __m512i lane_block = _mm512_set_epi32(1, 1, 1, 1, 1, 1, 1, 1, 0, 0, 0, 0, 0, 0, 0, 0);
    token_q8_0 token;
    if (blocks >= 2) {
        __m128 two = _mm_castsi128_ps(_mm_loadl_epi64((const void *)(x->scales + b)));
        token.q = _mm512_loadu_si512(x->q + b * 32);
        token.scale = _mm512_permutexvar_ps(lane_block, _mm512_castps128_ps512(two));
    } else {
        token.q = _mm512_zextsi256_si512(_mm256_loadu_si256((const void *)(x->q + b * 32)));
        token.scale = _mm512_set1_ps(x->scales[b]);
    }
    token.start = minus_offset(_mm512_setzero_si512(), 128, token.q);
    return token;
}

ALWAYS_INLINE __m512 add_q8_0(__m512 sum, __m512i weights, __m512 d, const token_q8_0 *token)
{
    return add_scaled(sum, dot_signed(weights, token->q, token->start), d, token->scale);
}

ALWAYS_INLINE void dot_q8_0(const row_group *rows, const kernel_input *x, size_t tokens, __m256 *sums)
{
    /* The scales are words 0 and 17 of a pair of blocks. */
    const __m256i scale_words = _mm256_set_m128i(_mm_set1_epi16(17), _mm_set1_epi16(0));
    size_t blocks = x->columns / 32, b = 0;
    __m512 sum[TOKENS_AT_ONCE][GROUP];
    token_q8_0 token[TOKENS_AT_ONCE];
    FOR_TOKENS clear(sum[t]);
    for (; b + 2 <= blocks; b += 2) {
        fetch_ahead(rows, b * sizeof(block_q8_0), 2 * sizeof(block_q8_0));
        FOR_TOKENS token[t] = read_token_q8_0(&x[t], b, 2);
        for (size_t r = 0; r < rows->count; r++) {
            const uint8_t *at = rows->now[r] + b * sizeof(block_q8_0);
            __m512i weights = _mm512_inserti64x4(load_256(at + 2), _mm256_loadu_si256((const void *)(at + 36)), 1);
            __m512 d = pick_halves(scale_words, _mm512_loadu_si512(at));
            FOR_TOKENS sum[t][r] = add_q8_0(sum[t][r], weights, d, &token[t]);
        }
    }
    if (b < blocks) {
        FOR_TOKENS token[t] = read_token_q8_0(&x[t], b, 1);
        for (size_t r = 0; r < rows->count; r++) {
            const block_q8_0 *at = (const void *)(rows->now[r] + b * sizeof(block_q8_0));
            FOR_TOKENS sum[t][r] = add_q8_0(sum[t][r], load_256(at->q), every_lane(at->d), &token[t]);
        }
    }
    FOR_TOKENS sums[t] = sum_of_8(sum[t]);
}

/* ---- Q4_0: four blocks at a time, one in each quarter of a register, low and high nibbles apart ---- */

/* What is prepared of the token for four blocks. */
typedef struct token_q4_0 {
    __m512i low, high; /* the values for the low nibbles (0..15 of each block) and for the high ones */
    __m512i start;     /* -8 times their sums */
    __m512 scale;
} token_q4_0;

/* Where the nibbles of four blocks lie in the first 64 of their 72 bytes: words 1..8, 10..17, 19..26, and the rest behind
 * them. Permutes of bytes (VBMI) would not be faster than these of words (BW). */
ALWAYS_INLINE __m512i nibble_words(void)
{
    return _mm512_set_epi32(0, 0, 0, 0, 0x001a0019, 0x00180017, 0x00160015, 0x00140013, 0x00110010, 0x000f000e,
                            0x000d000c, 0x000b000a, 0x00080007, 0x00060005, 0x00040003, 0x00020001);
}

/* Prepares four blocks from block b; values after the first `blocks` of them become 0. */
ALWAYS_INLINE token_q4_0 read_token_q4_0(const kernel_input *x, size_t b, size_t blocks)
{
    const int8_t *at = x->q + b * 32;
    __m512i first, second;
    __m128 scales;
    if (blocks >= 4) {
        first = _mm512_loadu_si512(at);
        second = _mm512_loadu_si512(at + 64);
        scales = _mm_loadu_ps(x->scales + b);
    } else {
        first = _mm512_maskz_loadu_epi8(first_bytes(blocks * 32), at);
        second = _mm512_maskz_loadu_epi8(first_bytes(blocks > 2 ? (blocks - 2) * 32 : 0), at + 64);
        scales = _mm_maskz_loadu_ps((__mmask8)first_lanes(blocks), x->scales + b);
    }
    const __m512i lane_block = _mm512_set_epi32(3, 3, 3, 3, 2, 2, 2, 2, 1, 1, 1, 1, 0, 0, 0, 0);
    token_q4_0 token;
    token.low = _mm512_shuffle_i32x4(first, second, 0x88);
    token.high = _mm512_shuffle_i32x4(first, second, 0xdd);
    token.start = minus_offset(minus_offset(_mm512_setzero_si512(), 8, token.low), 8, token.high);
    token.scale = _mm512_permutexvar_ps(lane_block, _mm512_castps128_ps512(scales));
    return token;
}

/* Adds four blocks. nibbles: the 16 bytes of each block. d: their scales times the token's, each in four lanes. */
ALWAYS_INLINE __m512 add_q4_0(__m512 sum, __m512i nibbles, __m512 d, const token_q4_0 *token)
{
    const __m512i mask = _mm512_set1_epi8(15);
    __m512i low = _mm512_and_si512(nibbles, mask), high = _mm512_and_si512(_mm512_srli_epi16(nibbles, 4), mask);
    __m512i dot = dot_nibbles(token->start, low, token->low, high, token->high);
    return _mm512_fmadd_ps(_mm512_cvtepi32_ps(dot), d, sum);
}

/* Makes the compiler load into a register: otherwise gcc loads again where it is used again, here from two cache lines each
 * time, or through the stack. Emulated registers (tests/emulate) are memory. */
#ifdef __AVX512F__
#define LOAD_ONCE(v) __asm__("" : "+v"(v))
#else
#define LOAD_ONCE(v) (void)(v)
#endif

/* Copies float `lane` of each 128 bits to all four. */
ALWAYS_INLINE __m512 copy_lane(__m512 v, size_t lane)
{
    return lane == 0   ? _mm512_permute_ps(v, 0x00)
           : lane == 1 ? _mm512_permute_ps(v, 0x55)
           : lane == 2 ? _mm512_permute_ps(v, 0xaa)
                       : _mm512_permute_ps(v, 0xff);
}

/* Adds four blocks, from byte `at` of each row on, of four rows from row `first` on, whose scales are converted together: a
 * register has those of block b in its b-th 128 bits, of one row after the other. */
ALWAYS_INLINE void add_rows_q4_0(__m512 (*sum)[GROUP], const row_group *group, size_t first, size_t at,
                                 const token_q4_0 *token, size_t tokens)
{
    const uint8_t *const *rows = group->now + first;
    /* The first 64 bytes hold all scales too: words 0, 9, 18 and 27. */
    const __m512i scale_words = _mm512_set_epi32(0, 0, 0, 0, 0, 0, 0, 0, 0x001b001b, 0x001b001b, 0x00120012, 0x00120012,
                                                 0x00090009, 0x00090009, 0, 0);
    __m512i nibbles[4], halves = _mm512_setzero_si512();
    UNROLLED for (size_t r = 0; r < 4; r++)
    {
        __m512i bytes = _mm512_loadu_si512(rows[r] + at);
        LOAD_ONCE(bytes);
        nibbles[r] = _mm512_permutexvar_epi16(nibble_words(), bytes);
        nibbles[r] = _mm512_inserti32x4(nibbles[r], _mm_loadu_si128((const void *)(rows[r] + at + 56)), 3);
        halves = _mm512_mask_permutexvar_epi16(halves, 0x1111u << r, scale_words, bytes);
    }
    __m512 scales = _mm512_cvtph_ps(_mm512_castsi512_si256(halves)), d[TOKENS_AT_ONCE];
    FOR_TOKENS d[t] = _mm512_mul_ps(scales, token[t].scale);
    UNROLLED for (size_t r = 0; r < 4; r++) FOR_TOKENS sum[t][first + r] =
        add_q4_0(sum[t][first + r], nibbles[r], copy_lane(d[t], r), &token[t]);
}

ALWAYS_INLINE void dot_q4_0(const row_group *rows, const kernel_input *x, size_t tokens, __m256 *sums)
{
    const __m256i scale_words = _mm256_set_epi16(27, 27, 27, 27, 18, 18, 18, 18, 9, 9, 9, 9, 0, 0, 0, 0);
    size_t blocks = x->columns / 32, b = 0;
    __m512 sum[TOKENS_AT_ONCE][GROUP];
    token_q4_0 token[TOKENS_AT_ONCE];
    FOR_TOKENS clear(sum[t]);
    for (; b + 4 <= blocks; b += 4) {
        fetch_ahead(rows, b * sizeof(block_q4_0), 4 * sizeof(block_q4_0));
        FOR_TOKENS token[t] = read_token_q4_0(&x[t], b, 4);
        for (size_t r = 0; r < rows->count; r += 4)
            add_rows_q4_0(sum, rows, r, b * sizeof(block_q4_0), token, tokens);
    }
    if (b < blocks) {
        FOR_TOKENS token[t] = read_token_q4_0(&x[t], b, blocks - b);
        for (size_t r = 0; r < rows->count; r++) {
            const uint8_t *at = rows->now[r] + b * sizeof(block_q4_0);
            __m512i bytes = _mm512_maskz_loadu_epi8(first_bytes((blocks - b) * sizeof(block_q4_0)), at);
            __m512i nibbles = _mm512_permutexvar_epi16(nibble_words(), bytes);
            __m512 d = pick_halves(scale_words, bytes);
            FOR_TOKENS sum[t][r] = add_q4_0(sum[t][r], nibbles, _mm512_mul_ps(d, token[t].scale), &token[t]);
        }
    }
    FOR_TOKENS sums[t] = sum_of_8(sum[t]);
}

/* ---- Q4_K: a block of 256 at a time ---- */

/* Returns the eight scales of a block (lanes 0..7) times d and its eight minima (8..15) times dmin. It unpacks them
 * like sub_scales() of levels.h: bytes 4..15 of a block are three words a, b, c. The low six bits of the bytes of a
 * and b are the first four scales and minima; the nibbles of c are the low bits of the others, whose high bits are the
 * top two bits of the bytes of a and b. */
ALWAYS_INLINE __m512 scales_and_minima(const block_q4_k *block)
{
    const __m128i low_bytes = _mm_set_epi32(0x0f0e0d0c, 0x0b0a0908, 0x0f0e0d0c, 0x07060504); /* a c b c */
    const __m128i high_bytes = _mm_set_epi32(0x0b0a0908, -1, 0x07060504, -1);                /* - a - b */
    const __m128i low_mask = _mm_set_epi32(0x0f0f0f0f, 0x3f3f3f3f, 0x0f0f0f0f, 0x3f3f3f3f);
    const __m256i units = _mm256_set_m128i(_mm_set1_epi16(1), _mm_set1_epi16(0)); /* d, dmin */
    __m128i head = _mm_loadu_si128((const void *)block);
    __m128i low = _mm_srlv_epi32(_mm_shuffle_epi8(head, low_bytes), _mm_set_epi32(4, 0, 0, 0));
    __m128i high = _mm_srli_epi16(_mm_shuffle_epi8(head, high_bytes), 2);
    high = _mm_and_si128(high, _mm_set1_epi8(0x30));
    __m512i numbers = _mm512_cvtepu8_epi32(_mm_or_si128(_mm_and_si128(low, low_mask), high));
    __m512 unit = _mm512_cvtph_ps(_mm256_permutexvar_epi16(units, _mm256_castsi128_si256(head)));
    return _mm512_mul_ps(_mm512_cvtepi32_ps(numbers), unit);
}

/* What is prepared of the token for one block. */
typedef struct token_q4_k {
    __m512i even[2], odd[2]; /* sub-blocks 0 and 2, 4 and 6; 1 and 3, 5 and 7 */
    __m512 scale;            /* of each sub-block (lanes 0..7), and minus that times its sum (8..15) */
} token_q4_k;

ALWAYS_INLINE token_q4_k read_token_q4_k(const kernel_input *x, size_t b)
{
    token_q4_k token;
    for (size_t h = 0; h < 2; h++) {
        const int8_t *at = x->q + b * 256 + h * 128;
        __m512i first = _mm512_loadu_si512(at), second = _mm512_loadu_si512(at + 64);
        token.even[h] = _mm512_shuffle_i64x2(first, second, 0x44);
        token.odd[h] = _mm512_shuffle_i64x2(first, second, 0xee);
    }
    __m256i sums = _mm256_madd_epi16(_mm256_loadu_si256((const void *)(x->sums + b * 16)), _mm256_set1_epi16(-1));
    __m256 scale = _mm256_loadu_ps(x->scales + b * 8), offset = _mm256_mul_ps(scale, _mm256_cvtepi32_ps(sums));
    token.scale = _mm512_insertf32x8(_mm512_castps256_ps512(scale), offset, 1);
    return token;
}

ALWAYS_INLINE __m512 add_q4_k(__m512 sum, const block_q4_k *block, const token_q4_k *token)
{
    const __m512i mask = _mm512_set1_epi8(15), zero = _mm512_setzero_si512();
    const __m512i even = _mm512_set_epi32(2, 2, 2, 2, 2, 2, 2, 2, 0, 0, 0, 0, 0, 0, 0, 0);
    __m512 d = _mm512_mul_ps(scales_and_minima(block), token->scale);
    sum = _mm512_mask_add_ps(sum, 0xff00, sum, d);
    for (int h = 0; h < 2; h++) {
        __m512i nibbles = _mm512_loadu_si512(block->nibbles + h * 64);
        __m512i low = dot_bytes(zero, _mm512_and_si512(nibbles, mask), token->even[h]);
        __m512i high = dot_bytes(zero, _mm512_and_si512(_mm512_srli_epi16(nibbles, 4), mask), token->odd[h]);
        __m512i lanes = _mm512_add_epi32(even, _mm512_set1_epi32(4 * h));
        sum = _mm512_fmadd_ps(_mm512_cvtepi32_ps(low), _mm512_permutexvar_ps(lanes, d), sum);
        lanes = _mm512_add_epi32(lanes, _mm512_set1_epi32(1));
        sum = _mm512_fmadd_ps(_mm512_cvtepi32_ps(high), _mm512_permutexvar_ps(lanes, d), sum);
    }
    return sum;
}

ALWAYS_INLINE void dot_q4_k(const row_group *rows, const kernel_input *x, size_t tokens, __m256 *sums)
{
    __m512 sum[TOKENS_AT_ONCE][GROUP];
    token_q4_k token[TOKENS_AT_ONCE];
    FOR_TOKENS clear(sum[t]);
    for (size_t b = 0; b < x->columns / 256; b++) {
        fetch_ahead(rows, b * sizeof(block_q4_k), sizeof(block_q4_k));
        FOR_TOKENS token[t] = read_token_q4_k(&x[t], b);
        for (size_t r = 0; r < rows->count; r++) {
            const block_q4_k *block = (const void *)(rows->now[r] + b * sizeof(block_q4_k));
            FOR_TOKENS sum[t][r] = add_q4_k(sum[t][r], block, &token[t]);
        }
    }
    FOR_TOKENS sums[t] = sum_of_8(sum[t]);
}

/* ---- Q6_K: a block of 256 at a time ---- */

/* What is prepared of the token for one block. */
typedef struct token_q6_k {
    __m512i q[4], start[4]; /* 64 values each, and -32 times their sums */
    __m512 scale;           /* of each of the 16 sub-blocks */
} token_q6_k;

ALWAYS_INLINE token_q6_k read_token_q6_k(const kernel_input *x, size_t b)
{
    const __m512i twice = _mm512_set_epi32(7, 7, 6, 6, 5, 5, 4, 4, 3, 3, 2, 2, 1, 1, 0, 0);
    token_q6_k token;
    for (size_t i = 0; i < 4; i++) {
        token.q[i] = _mm512_loadu_si512(x->q + b * 256 + i * 64);
        token.start[i] = minus_offset(_mm512_setzero_si512(), 32, token.q[i]);
    }
    __m512 scales = _mm512_castps256_ps512(_mm256_loadu_ps(x->scales + b * 8));
    token.scale = _mm512_permutexvar_ps(twice, scales);
    return token;
}

ALWAYS_INLINE __m512 add_q6_k(__m512 sum, const block_q6_k *block, const token_q6_k *token)
{
    const __m512i low_mask = _mm512_set1_epi8(0x0f), high_mask = _mm512_set1_epi8(0x30);
    const __m512i lane_sub = _mm512_set_epi32(3, 3, 3, 3, 2, 2, 2, 2, 1, 1, 1, 1, 0, 0, 0, 0);
    /* The upper two bits of the weights lie at bits 0, 2, 4 and 6 of a byte and are moved to bit 4. */
    const __m512i up = _mm512_set_epi64(2, 2, 2, 2, 4, 4, 4, 4), down = _mm512_set_epi64(2, 2, 2, 2, 0, 0, 0, 0);
    __m512i numbers = _mm512_cvtepi8_epi32(_mm_loadu_si128((const void *)block->scales));
    __m512 d = _mm512_mul_ps(_mm512_cvtepi32_ps(numbers), every_lane(block->d));
    d = _mm512_mul_ps(d, token->scale);
    for (int i = 0; i < 4; i += 2) {
        __m512i low = _mm512_loadu_si512(block->low + i * 32);
        __m512i high = _mm512_broadcast_i64x4(_mm256_loadu_si256((const void *)(block->high + i * 16)));
        __m512i first_high = _mm512_and_si512(_mm512_sllv_epi64(high, up), high_mask);
        __m512i second_high = _mm512_and_si512(_mm512_srlv_epi64(high, down), high_mask);
        __m512i first = _mm512_or_si512(_mm512_and_si512(low, low_mask), first_high);
        __m512i second = _mm512_or_si512(_mm512_and_si512(_mm512_srli_epi16(low, 4), low_mask), second_high);
        __m512i lanes = _mm512_add_epi32(lane_sub, _mm512_set1_epi32(4 * i));
        __m512i dot = dot_bytes(token->start[i], first, token->q[i]);
        sum = _mm512_fmadd_ps(_mm512_cvtepi32_ps(dot), _mm512_permutexvar_ps(lanes, d), sum);
        lanes = _mm512_add_epi32(lanes, _mm512_set1_epi32(4));
        dot = dot_bytes(token->start[i + 1], second, token->q[i + 1]);
        sum = _mm512_fmadd_ps(_mm512_cvtepi32_ps(dot), _mm512_permutexvar_ps(lanes, d), sum);
    }
    return sum;
}

ALWAYS_INLINE void dot_q6_k(const row_group *rows, const kernel_input *x, size_t tokens, __m256 *sums)
{
    __m512 sum[TOKENS_AT_ONCE][GROUP];
    token_q6_k token[TOKENS_AT_ONCE];
    FOR_TOKENS clear(sum[t]);
    for (size_t b = 0; b < x->columns / 256; b++) {
        fetch_ahead(rows, b * sizeof(block_q6_k), sizeof(block_q6_k));
        FOR_TOKENS token[t] = read_token_q6_k(&x[t], b);
        for (size_t r = 0; r < rows->count; r++) {
            const block_q6_k *block = (const void *)(rows->now[r] + b * sizeof(block_q6_k));
            FOR_TOKENS sum[t][r] = add_q6_k(sum[t][r], block, &token[t]);
        }
    }
    FOR_TOKENS sums[t] = sum_of_8(sum[t]);
}

#endif
