/* copy_blocks.c - formats of coarse copies (engine/coarse.h): SIGNS1 (-d, d) and LEVELS2 (-3 d, -d, d, 3 d).
 *
 * A copy only has to tell products near zero from those far below, so what counts is the squared error of a row. Of
 * signs it is least if d is the mean magnitude of the block. Of four levels it is least for one of 65 choices of which
 * magnitudes, the largest ones, stand at the outer level; a few steps of Lloyd's method (assign, then fit d) find a
 * choice that is as good or within a percent of it (tests/number_copies.c). Normally distributed weights keep 0.36 of
 * their squares as error in SIGNS1 and 0.12 in LEVELS2. */
#include "codec.h"

#define VALUES 64

/* ---- SIGNS1 */

static inline void decode_signs1(const block_signs1 *block, float *y)
{
    float d = half_to_float(block->d);
    for (size_t i = 0; i < VALUES; i++)
        y[i] = block->bits[i / 32 * 4 + i % 4] >> i % 32 / 4 & 1 ? d : -d;
}

static inline void encode_signs1(const float *values, const float *importance, block_signs1 *block)
{
    (void)importance;
    float x[VALUES], sum = 0;
    load_finite(values, VALUES, 65504.0f, x);
    for (size_t i = 0; i < VALUES; i++) {
        size_t at = i / 32 * 4 + i % 4;
        block->bits[at] = (uint8_t)(block->bits[at] | (x[i] >= 0.0f) << i % 32 / 4);
        sum += x[i] < 0.0f ? -x[i] : x[i];
    }
    block->d = half_scale(sum / VALUES);
}

DECODES_BLOCKS(SIGNS1, block_signs1, decode_signs1)
ENCODES_BLOCKS(SIGNS1, block_signs1, encode_signs1)

/* ---- LEVELS2 */

#define STEPS 4       /* of Lloyd's method; normally distributed blocks change no more after three or four */
#define UNITS 1023    /* magnitudes are compared and added as integers up to this, which compilers vectorise */
#define START 1.2476f /* twice the best d for normal values, as a share of their mean magnitude             */

static inline void decode_levels2(const block_levels2 *block, float *y)
{
    float d = half_to_float(block->d);
    for (size_t i = 0; i < VALUES; i++)
        y[i] = (float)((block->q[i / 16 * 4 + i % 4] >> i % 16 / 4 * 2 & 3) * 2 - 3) * d;
}

/* Returns how many magnitudes are beyond `bound`; *sum: what they add up to. */
static inline uint32_t count_beyond(const uint16_t m[VALUES], uint16_t bound, uint32_t *sum)
{
    uint16_t count = 0;
    uint32_t total = 0;
    for (size_t i = 0; i < VALUES; i++)
        count = (uint16_t)(count + (m[i] > bound));
    for (size_t i = 0; i < VALUES; i++)
        total += m[i] > bound ? m[i] : 0u;
    *sum = total;
    return count;
}

/* Returns the bound beyond which magnitudes belong to the outer level: twice the scale that fits the choice best. */
static inline uint16_t find_bound(const uint16_t m[VALUES])
{
    uint32_t all, outer;
    count_beyond(m, 0, &all);
    uint32_t bound = (uint32_t)(START * (float)all / VALUES);
    for (size_t step = 0; step < STEPS; step++) {
        uint32_t count = count_beyond(m, (uint16_t)bound, &outer);
        bound =
            2 * (all + 2 * outer) / (VALUES + 8 * count); /* of levels 1 and 3 sum(level m) / sum(level^2) is best */
    }
    return (uint16_t)bound;
}

static inline void encode_levels2(const float *values, const float *importance, block_levels2 *block)
{
    (void)importance;
    float x[VALUES], fit = 0, squares = 0;
    uint16_t m[VALUES];
    float most = load_finite(values, VALUES, 65504.0f, x), factor = most > 0.0f ? UNITS / most : 0.0f;
    if (factor > FLT_MAX)
        factor = 0.0f;
    for (size_t i = 0; i < VALUES; i++)
        m[i] = (uint16_t)(int32_t)((x[i] < 0.0f ? -x[i] : x[i]) * factor);
    uint16_t bound = find_bound(m);
    for (size_t i = 0; i < VALUES; i++) {
        bool outer = m[i] > bound, negative = x[i] < 0.0f;
        size_t at = i / 16 * 4 + i % 4;
        int32_t level = outer ? 3 : 1;
        uint32_t q = negative ? outer ? 0u : 1u : outer ? 3u : 2u;
        block->q[at] = (uint8_t)(block->q[at] | q << i % 16 / 4 * 2);
        fit += (float)level * (negative ? -x[i] : x[i]);
        squares += (float)(level * level);
    }
    block->d = half_scale(fit / squares);
}

DECODES_BLOCKS(LEVELS2, block_levels2, decode_levels2)
ENCODES_BLOCKS(LEVELS2, block_levels2, encode_levels2)
