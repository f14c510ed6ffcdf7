/* scaled_blocks.c - formats with a signed scale per sub-block and no minimum: Q3_K, Q6_K, IQ4_XS, IQ4_NL. value =
 * d * scale * q, where q is an integer, or a value of a list that has finer steps near 0 (IQ4). IQ4_NL has a single
 * sub-block, whose scale is the float16 alone.
 *
 * The layouts are GGUF's (blocks.h); the encoder's search is hearth's own (scaled_search.h). */
#include "scaled_search.h"

#define VALUES 256

/* With 64 integers for 16 values quite different steps are possible (Q6_K); with 8 the largest value may be cut (Q3_K). */
static const scaled_shape q3_k_shape = {16, 16, -4.0f, 3.0f, false, 31.0f, -4.9f, 0.2f, 14};
static const scaled_shape q6_k_shape = {16, 16, -32.0f, 31.0f, false, 127.0f, -32.75f, 0.75f, 12};
static const scaled_shape iq4_xs_shape = {8, 32, -127.0f, 113.0f, true, 31.0f, -145.0f, 4.0f, 14};
static const scaled_shape iq4_nl_shape = {1, 32, -127.0f, 113.0f, true, 1.0f, -145.0f, 4.0f, 14};

/* ---- Q3_K */

/* Scale s without the 32 that is added to it. */
static inline int q3_k_scale(const uint8_t packed[12], size_t s)
{
    return ((packed[s % 8] >> s / 8 * 4 & 15) | (packed[8 + s % 4] >> s / 4 * 2 & 3) << 4) - 32;
}

static inline void decode_q3_k(const block_q3_k *block, float *y)
{
    float d = half_to_float(block->d);
    for (size_t j = 0; j < 16; j++) {
        const uint8_t *low = block->low + j / 8 * 32 + j % 2 * 16, *high = block->high + j % 2 * 16;
        float step = d * (float)q3_k_scale(block->scales, j);
        for (size_t i = 0; i < 16; i++)
            y[j * 16 + i] = step * (float)(((low[i] >> j / 2 % 4 * 2 & 3) | (high[i] >> j / 2 & 1) << 2) - 4);
    }
}

static void encode_q3_k(const float *values, const float *importance, block_q3_k *block)
{
    scaled_block found;
    for (size_t i = 0; i < 4; i++)
        block->scales[8 + i] = 0xaa; /* the upper bits of 32, a scale of 0 */
    if (!search_scaled(values, importance, &q3_k_shape, &found))
        return;
    block->d = found.d;
    memset(block->scales, 0, sizeof block->scales);
    for (size_t j = 0; j < 16; j++) {
        int scale = found.scale[j] + 32;
        block->scales[j % 8] = (uint8_t)(block->scales[j % 8] | (scale & 15) << j / 8 * 4);
        block->scales[8 + j % 4] = (uint8_t)(block->scales[8 + j % 4] | scale >> 4 << j / 4 * 2);
        uint8_t *low = block->low + j / 8 * 32 + j % 2 * 16, *high = block->high + j % 2 * 16;
        for (size_t i = 0; i < 16; i++) {
            int q = found.q[j * 16 + i] + 4;
            low[i] = (uint8_t)(low[i] | (q & 3) << j / 2 % 4 * 2);
            high[i] = (uint8_t)(high[i] | q >> 2 << j / 2);
        }
    }
}

DECODES_BLOCKS(Q3_K, block_q3_k, decode_q3_k)
ENCODES_BLOCKS(Q3_K, block_q3_k, encode_q3_k)

/* ---- Q6_K */

/* Half a block is 128 values: four quarters of 32 that share 64 bytes of `low` and 32 bytes of `high`. The upper two
 * bits of quarter k are bits 2k and 2k + 1 of the bytes of `high`. Its lower four bits are the low (k < 2) or high
 * nibbles of bytes 0..31 (k even) or 32..63 (k odd) of `low`. */
static inline void decode_q6_k(const block_q6_k *block, float *y)
{
    float d = half_to_float(block->d);
    for (size_t j = 0; j < 16; j++) {
        size_t half = j / 8, quarter = j / 2 % 4, from = j % 2 * 16;
        const uint8_t *low = block->low + half * 64 + quarter % 2 * 32 + from, *high = block->high + half * 32 + from;
        float step = d * (float)block->scales[j];
        for (size_t i = 0; i < 16; i++) {
            int q = ((low[i] >> quarter / 2 * 4 & 15) | (high[i] >> quarter * 2 & 3) << 4) - 32;
            y[j * 16 + i] = step * (float)q;
        }
    }
}

static void encode_q6_k(const float *values, const float *importance, block_q6_k *block)
{
    scaled_block found;
    if (!search_scaled(values, importance, &q6_k_shape, &found))
        return;
    block->d = found.d;
    memcpy(block->scales, found.scale, sizeof block->scales);
    for (size_t k = 0; k < VALUES / 32; k++) {
        size_t half = k / 4, quarter = k % 4;
        uint8_t *low = block->low + half * 64 + quarter % 2 * 32, *high = block->high + half * 32;
        for (size_t i = 0; i < 32; i++) {
            int v = found.q[k * 32 + i] + 32;
            low[i] = (uint8_t)(low[i] | (v & 15) << quarter / 2 * 4);
            high[i] = (uint8_t)(high[i] | v >> 4 << quarter * 2);
        }
    }
}

DECODES_BLOCKS(Q6_K, block_q6_k, decode_q6_k)
ENCODES_BLOCKS(Q6_K, block_q6_k, encode_q6_k)

/* ---- IQ4_NL and IQ4_XS */

/* Decodes and packs 32 values, of which byte i holds values i and i + 16. */
static inline void put_listed(float step, const uint8_t *nibbles, float *y)
{
    for (size_t i = 0; i < 16; i++) {
        y[i] = step * (float)iq4_values[nibbles[i] & 15];
        y[i + 16] = step * (float)iq4_values[nibbles[i] >> 4];
    }
}

static inline void pack_listed(const int8_t *q, uint8_t *nibbles)
{
    for (size_t i = 0; i < 16; i++)
        nibbles[i] = (uint8_t)(q[i] | q[i + 16] << 4);
}

static inline void decode_iq4_nl(const block_iq4_nl *block, float *y)
{
    put_listed(half_to_float(block->d), block->nibbles, y);
}

static void encode_iq4_nl(const float *values, const float *importance, block_iq4_nl *block)
{
    scaled_block found;
    if (!search_scaled(values, importance, &iq4_nl_shape, &found))
        return;
    block->d = found.d;
    pack_listed(found.q, block->nibbles);
}

DECODES_BLOCKS(IQ4_NL, block_iq4_nl, decode_iq4_nl)
ENCODES_BLOCKS(IQ4_NL, block_iq4_nl, encode_iq4_nl)

static inline void decode_iq4_xs(const block_iq4_xs *block, float *y)
{
    float d = half_to_float(block->d);
    for (size_t j = 0; j < 8; j++) {
        int scale = (block->low_scales[j / 2] >> j % 2 * 4 & 15) | (block->high_scales >> 2 * j & 3) << 4;
        put_listed(d * (float)(scale - 32), block->nibbles + j * 16, y + j * 32);
    }
}

static void encode_iq4_xs(const float *values, const float *importance, block_iq4_xs *block)
{
    scaled_block found;
    block->high_scales = 0xaaaa; /* the upper bits of 32, a scale of 0 */
    if (!search_scaled(values, importance, &iq4_xs_shape, &found))
        return;
    block->d = found.d;
    unsigned high = 0;
    for (size_t j = 0; j < 8; j++) {
        int scale = found.scale[j] + 32;
        block->low_scales[j / 2] = (uint8_t)(block->low_scales[j / 2] | (scale & 15) << j % 2 * 4);
        high |= (unsigned)scale >> 4 << 2 * j;
        pack_listed(found.q + j * 32, block->nibbles + j * 16);
    }
    block->high_scales = (uint16_t)high;
}

DECODES_BLOCKS(IQ4_XS, block_iq4_xs, decode_iq4_xs)
ENCODES_BLOCKS(IQ4_XS, block_iq4_xs, encode_iq4_xs)
