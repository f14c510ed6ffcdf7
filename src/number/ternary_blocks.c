/* ternary_blocks.c - formats of two and three values: TQ1_0, TQ2_0 (-d, 0, d), Q1_0 (-d, d), Q2_0 (-d, 0, d, 2 d).
 *
 * The first two are encoded by a fixed rule: d is the largest magnitude, and a value is rounded to the nearest of the
 * three, halves away from zero. They are for models that were trained with such weights; others lose nearly everything.
 * Q1_0 and Q2_0 are only read. */
#include "codec.h"

#define VALUES 256

/* Rounds a block to q in 0..2, where 1 stands for 0; returns d. */
static inline float round_ternary(const float *values, uint8_t q[VALUES])
{
    float x[VALUES];
    float d = load_finite(values, VALUES, 65504.0f, x);
    float factor = d > 0.0f ? 1.0f / d : 0.0f;
    if (factor > FLT_MAX)
        factor = 0.0f;
    for (size_t i = 0; i < VALUES; i++) {
        float v = x[i] * factor;
        q[i] = (uint8_t)(1 + (v >= 0.5f) - (v <= -0.5f));
    }
    return d;
}

/* ---- TQ1_0: five values in a byte */

/* The bytes of a block in three runs: `bytes` from byte `at` on hold `digits` values each, `bytes` apart from each other,
 * from value `first` on. */
typedef struct ternary_run {
    size_t at, bytes, digits, first;
} ternary_run;

static const ternary_run runs[] = {{0, 32, 5, 0}, {32, 16, 5, 160}, {48, 4, 4, 240}};
#define RUNS (sizeof runs / sizeof *runs)

static inline void decode_tq1_0(const block_tq1_0 *block, float *y)
{
    float d = half_to_float(block->d);
    uint8_t bytes[sizeof block->five + sizeof block->four];
    memcpy(bytes, block->five, sizeof block->five);
    memcpy(bytes + sizeof block->five, block->four, sizeof block->four);
    for (const ternary_run *r = runs; r < runs + RUNS; r++)
        for (size_t i = 0; i < r->bytes; i++) {
            uint8_t rest = bytes[r->at + i]; /* of the fraction: its next digit is the whole part of three times it */
            for (size_t k = 0; k < r->digits; k++) {
                int32_t three = rest * 3;
                y[r->first + k * r->bytes + i] = (float)((three >> 8) - 1) * d;
                rest = (uint8_t)three;
            }
        }
}

static inline void encode_tq1_0(const float *values, const float *importance, block_tq1_0 *block)
{
    (void)importance;
    uint8_t q[VALUES], bytes[sizeof block->five + sizeof block->four];
    block->d = half_scale(round_ternary(values, q));
    for (const ternary_run *r = runs; r < runs + RUNS; r++)
        for (size_t i = 0; i < r->bytes; i++) {
            uint32_t number = 0;
            for (size_t k = 0; k < 5; k++)
                number = number * 3 + (k < r->digits ? q[r->first + k * r->bytes + i] : 0u);
            bytes[r->at + i] = (uint8_t)((number * 256 + 242) / 243); /* rounded up, so that digits come back whole */
        }
    memcpy(block->five, bytes, sizeof block->five);
    memcpy(block->four, bytes + sizeof block->five, sizeof block->four);
}

DECODES_BLOCKS(TQ1_0, block_tq1_0, decode_tq1_0)
ENCODES_BLOCKS(TQ1_0, block_tq1_0, encode_tq1_0)

/* ---- TQ2_0: two bits */

static inline void decode_tq2_0(const block_tq2_0 *block, float *y)
{
    float d = half_to_float(block->d);
    for (size_t k = 0; k < VALUES / 32; k++)
        for (size_t i = 0; i < 32; i++)
            y[k * 32 + i] = (float)((block->q[k / 4 * 32 + i] >> k % 4 * 2 & 3) - 1) * d;
}

static inline void encode_tq2_0(const float *values, const float *importance, block_tq2_0 *block)
{
    (void)importance;
    uint8_t q[VALUES];
    block->d = half_scale(round_ternary(values, q));
    for (size_t k = 0; k < VALUES / 32; k++)
        for (size_t i = 0; i < 32; i++)
            block->q[k / 4 * 32 + i] = (uint8_t)(block->q[k / 4 * 32 + i] | q[k * 32 + i] << k % 4 * 2);
}

DECODES_BLOCKS(TQ2_0, block_tq2_0, decode_tq2_0)
ENCODES_BLOCKS(TQ2_0, block_tq2_0, encode_tq2_0)

/* ---- Q1_0 and Q2_0 */

static inline void decode_q1_0(const block_q1_0 *block, float *y)
{
    float d = half_to_float(block->d);
    for (size_t i = 0; i < BLOCK_VALUES_Q1_0; i++)
        y[i] = block->bits[i / 8] >> i % 8 & 1 ? d : -d;
}

DECODES_BLOCKS(Q1_0, block_q1_0, decode_q1_0)

static inline void decode_q2_0(const block_q2_0 *block, float *y)
{
    float d = half_to_float(block->d);
    for (size_t i = 0; i < BLOCK_VALUES_Q2_0; i++)
        y[i] = (float)((block->q[i / 4] >> i % 4 * 2 & 3) - 1) * d;
}

DECODES_BLOCKS(Q2_0, block_q2_0, decode_q2_0)
