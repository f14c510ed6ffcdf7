/* float4_blocks.c - MXFP4 and NVFP4: values are floats of 4 bits (E2M1: 0, 0.5, 1, 1.5, 2, 3, 4, 6 with a sign) times a
 * scale per block that has few bits itself: a power of two, or a float of 7 bits.
 *
 * MXFP4's specification (OCP Microscaling Formats 1.0) scales so that the largest magnitude keeps its exponent, which cuts
 * values from 7 to 8 times the scale down to 6. The encoder here also tries the next larger power of two and keeps
 * what has the smaller error. NVFP4 is only read. */
#include "codec.h"

#include <math.h>

#define VALUES 32
#define HALF   16

/* Largest exponent whose largest value, 12 * 2^(e - 128), is finite. */
#define MOST_EXPONENT 252

/* Decodes 2 * n values whose first half is in low nibbles. */
static inline void put_float4(float d, const uint8_t *nibbles, size_t n, float *y)
{
    for (size_t i = 0; i < n; i++) {
        y[i] = (float)float4_values[nibbles[i] & 15] * d;
        y[i + n] = (float)float4_values[nibbles[i] >> 4] * d;
    }
}

/* ---- MXFP4 */

/* Returns 2^(exponent - 128); the smallest ones are subnormal. */
static inline float mxfp4_scale(uint8_t exponent)
{
    return float_of_bits(exponent < 2 ? (uint32_t)0x00200000 << exponent : (uint32_t)(exponent - 1) << 23);
}

static inline void decode_mxfp4(const block_mxfp4 *block, float *y)
{
    put_float4(mxfp4_scale(block->exponent), block->nibbles, HALF, y);
}

/* Rounds values to numbers of float4_values times d; returns the error that counts. A value in the middle goes to the
 * smaller magnitude. */
static inline float round_float4(const float x[VALUES], const float *weights, float d, uint8_t q[VALUES])
{
    static const float middles[7] = {0.5f, 1.5f, 2.5f, 3.5f, 5.0f, 7.0f, 10.0f};
    float error = 0.0f;
    for (size_t i = 0; i < VALUES; i++) {
        float magnitude = fabsf(x[i]) / d;
        unsigned number = 0;
        for (size_t k = 0; k < 7; k++)
            number += magnitude > middles[k];
        /* In units of d, so that no square overflows or vanishes. */
        float off = magnitude - (float)float4_values[number];
        error += (weights ? weights[i] : 1.0f) * off * off;
        q[i] = (uint8_t)(number | (number > 0 && x[i] < 0.0f ? 8u : 0u));
    }
    return error;
}

static inline void encode_mxfp4(const float *values, const float *importance, block_mxfp4 *block)
{
    float x[VALUES], loaded[VALUES];
    const float *weights = load_importance(importance, VALUES, loaded);
    float top = load_finite(values, VALUES, 0x1.8p127f, x);
    int exponent;
    frexpf(top, &exponent); /* top = f * 2^exponent, f in [0.5, 1): 4 to 8 times the scale's unit of 2^(exponent - 3) */
    int first = exponent - 4 + 128;
    uint8_t q[2][VALUES];
    if (top == 0.0f || first < 0)
        first = 0;
    else if (first > MOST_EXPONENT - 1)
        first = MOST_EXPONENT - 1;
    float small = round_float4(x, weights, mxfp4_scale((uint8_t)first), q[0]);
    float large = round_float4(x, weights, mxfp4_scale((uint8_t)(first + 1)), q[1]);
    unsigned better = 4.0f * large < small; /* the unit of the error is twice as long */
    block->exponent = (uint8_t)(top == 0.0f ? 0 : first + (int)better);
    for (size_t i = 0; i < HALF; i++)
        block->nibbles[i] = (uint8_t)(q[better][i] | q[better][i + HALF] << 4);
}

DECODES_BLOCKS(MXFP4, block_mxfp4, decode_mxfp4)
ENCODES_BLOCKS(MXFP4, block_mxfp4, encode_mxfp4)

/* ---- NVFP4 */

/* Returns half of the float with 4 bits exponent (bias 7) and 3 bits fraction. */
static inline float nvfp4_scale(uint8_t bits)
{
    int exponent = bits >> 3 & 15, fraction = bits & 7;
    if (bits == 0x7f)
        return 0.0f;
    return exponent == 0 ? ldexpf((float)fraction, -10) : ldexpf((float)(8 + fraction), exponent - 11);
}

static inline void decode_nvfp4(const block_nvfp4 *block, float *y)
{
    for (size_t s = 0; s < sizeof block->scales; s++)
        put_float4(nvfp4_scale(block->scales[s]), block->nibbles + 8 * s, 8, y + 16 * s);
}

DECODES_BLOCKS(NVFP4, block_nvfp4, decode_nvfp4)
