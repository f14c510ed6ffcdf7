/* grid_blocks.c - the IQ formats of 1 to 3 bits: IQ1_S, IQ1_M, IQ2_XXS, IQ2_XS, IQ2_S, IQ3_XXS, IQ3_S. They are only read.
 *
 * Eight (or four) values are one index into a grid of codewords, with signs and scales beside it; blocks.h has the
 * layouts, grid_table.h the codewords. Products are computed in the order of llama.cpp's decoder, so that the floats are
 * the same. Encoding would be a search through the grids, which is worth little without importance. */
#include "codec.h"
#include "grid_table.h"

#define GROUPS 8 /* of 32 values */

/* y[j] = scale * codeword value j, negative where bit j of signs is set, for 8 values. */
static inline void put_values(float scale, uint64_t codeword, unsigned signs, float *y)
{
    for (size_t j = 0; j < 8; j++) {
        float magnitude = scale * (float)(codeword >> 8 * j & 255);
        y[j] = signs >> j & 1 ? -magnitude : magnitude;
    }
}

/* Joins two codewords of 4 values. */
static inline uint64_t both(uint32_t first, uint32_t second)
{
    return first | (uint64_t)second << 32;
}

/* ---- IQ2 */

static inline void decode_iq2_xxs(const block_iq2_xxs *block, float *y)
{
    float d = half_to_float(block->d);
    for (size_t g = 0; g < GROUPS; g++) {
        uint32_t indices = block->words[2 * g], rest = block->words[2 * g + 1];
        float scale = d * (0.5f + (float)(rest >> 28)) * 0.25f;
        for (size_t l = 0; l < 4; l++)
            put_values(scale, grid_iq2_xxs[indices >> 8 * l & 255], grid_signs(rest >> 7 * l), y + g * 32 + l * 8);
    }
}

/* The scale of codeword l of a group in IQ2_XS and IQ2_S, where each nibble is for 16 values. */
static inline float scale_of_half(float d, uint8_t scales, size_t l)
{
    return d * (0.5f + (float)(scales >> l / 2 * 4 & 15)) * 0.25f;
}

static inline void decode_iq2_xs(const block_iq2_xs *block, float *y)
{
    float d = half_to_float(block->d);
    for (size_t g = 0; g < GROUPS; g++)
        for (size_t l = 0; l < 4; l++) {
            unsigned word = block->words[4 * g + l];
            put_values(scale_of_half(d, block->scales[g], l), grid_iq2_xs[word & 511], grid_signs(word >> 9),
                       y + g * 32 + l * 8);
        }
}

static inline void decode_iq2_s(const block_iq2_s *block, float *y)
{
    float d = half_to_float(block->d);
    for (size_t g = 0; g < GROUPS; g++)
        for (size_t l = 0; l < 4; l++) {
            unsigned index = block->index[4 * g + l] | (block->high[g] >> 2 * l & 3u) << 8;
            put_values(scale_of_half(d, block->scales[g], l), grid_iq2_s[index], block->signs[4 * g + l],
                       y + g * 32 + l * 8);
        }
}

DECODES_BLOCKS(IQ2_XXS, block_iq2_xxs, decode_iq2_xxs)
DECODES_BLOCKS(IQ2_XS, block_iq2_xs, decode_iq2_xs)
DECODES_BLOCKS(IQ2_S, block_iq2_s, decode_iq2_s)

/* ---- IQ3 */

static inline void decode_iq3_xxs(const block_iq3_xxs *block, float *y)
{
    float d = half_to_float(block->d);
    for (size_t g = 0; g < GROUPS; g++) {
        uint32_t rest = block->words[g];
        float scale = d * (0.5f + (float)(rest >> 28)) * 0.5f;
        for (size_t l = 0; l < 4; l++) {
            const uint8_t *index = block->index + 8 * g + 2 * l;
            put_values(scale, both(grid_iq3_xxs[index[0]], grid_iq3_xxs[index[1]]), grid_signs(rest >> 7 * l),
                       y + g * 32 + l * 8);
        }
    }
}

static inline void decode_iq3_s(const block_iq3_s *block, float *y)
{
    float d = half_to_float(block->d);
    for (size_t g = 0; g < GROUPS; g++) {
        float scale = d * (float)(1 + 2 * (block->scales[g / 2] >> g % 2 * 4 & 15));
        for (size_t l = 0; l < 4; l++) {
            const uint8_t *index = block->index + 8 * g + 2 * l;
            unsigned high = block->high[g] >> 2 * l;
            uint64_t codeword =
                both(grid_iq3_s[index[0] | (high & 1) << 8], grid_iq3_s[index[1] | (high >> 1 & 1) << 8]);
            put_values(scale, codeword, block->signs[4 * g + l], y + g * 32 + l * 8);
        }
    }
}

DECODES_BLOCKS(IQ3_XXS, block_iq3_xxs, decode_iq3_xxs)
DECODES_BLOCKS(IQ3_S, block_iq3_s, decode_iq3_s)

/* ---- IQ1 */

/* y[j] = scale * (codeword value j + delta) for 8 values; negative: delta is. */
static inline void put_iq1(float scale, uint64_t codeword, bool negative, float *y)
{
    const float delta = negative ? -0.125f : 0.125f;
    for (size_t j = 0; j < 8; j++)
        y[j] = scale * ((float)(int8_t)(codeword >> 8 * j) * 0.125f + delta);
}

static inline void decode_iq1_s(const block_iq1_s *block, float *y)
{
    float d = half_to_float(block->d);
    for (size_t g = 0; g < GROUPS; g++) {
        unsigned high = block->high[g];
        float scale = d * (float)(2 * (high >> 12 & 7) + 1);
        for (size_t l = 0; l < 4; l++)
            put_iq1(scale, grid_iq1[block->index[4 * g + l] | (high >> 3 * l & 7) << 8], high >> 15,
                    y + g * 32 + l * 8);
    }
}

static inline void decode_iq1_m(const block_iq1_m *block, float *y)
{
    unsigned d_bits = 0;
    for (size_t k = 0; k < 4; k++)
        d_bits |= (unsigned)(block->scales[k] >> 12) << 4 * k;
    float d = half_to_float((uint16_t)d_bits);
    for (size_t g = 0; g < GROUPS; g++)
        for (size_t l = 0; l < 4; l++) {
            unsigned nibble = (unsigned)block->high[2 * g + l / 2] >> l % 2 * 4;
            unsigned s = (unsigned)block->scales[g / 2] >> (g % 2 * 6 + l / 2 * 3) & 7;
            put_iq1(d * (float)(2 * s + 1), grid_iq1[block->index[4 * g + l] | (nibble & 7) << 8], nibble >> 3 & 1,
                    y + g * 32 + l * 8);
        }
}

DECODES_BLOCKS(IQ1_S, block_iq1_s, decode_iq1_s)
DECODES_BLOCKS(IQ1_M, block_iq1_m, decode_iq1_m)
