/* half.c - converts float16 and bfloat16 by integer arithmetic and two float operations.
 *
 * float16 has 1 sign, 5 exponent (bias 15) and 10 fraction bits; float32 has 1, 8 (bias 127) and 23; bfloat16 is
 * the upper half of a float32. The float operations need subnormals: the processor must not flush them
 * to zero, and hearth never tells it to. */
#include "codec.h"

#define FLOAT_INFINITY 0x7f800000u
#define FLOAT_QUIET    0x00400000u
#define HALF_INFINITY  0x7c00u
#define HALF_QUIET     0x0200u

float half_to_float(uint16_t h)
{
    uint32_t magnitude = h & 0x7fffu;
    uint32_t sign = (uint32_t)(h & 0x8000u) << 16;
    if (magnitude >= HALF_INFINITY) {
        uint32_t quiet = magnitude > HALF_INFINITY ? FLOAT_QUIET : 0;
        return float_of_bits(sign | FLOAT_INFINITY | quiet | (magnitude & 0x3ffu) << 13);
    }
    /* After the shift, exponent and fraction are at their places in float32, and the value is too small by the
     * difference of the biases, 2^(127 - 15). A subnormal float16 is then a subnormal float32, so the product is
     * right for it too. */
    return float_of_bits(float_bits(float_of_bits(magnitude << 13) * 0x1p112f) | sign);
}

uint16_t half_from_float(float f)
{
    uint32_t bits = float_bits(f);
    uint32_t sign = bits >> 16 & 0x8000u;
    uint32_t magnitude = bits & 0x7fffffffu;
    if (magnitude > FLOAT_INFINITY)
        return (uint16_t)(sign | HALF_INFINITY | HALF_QUIET | (magnitude >> 13 & 0x3ffu));
    if (magnitude >= float_bits(65520.0f)) /* halfway between 65504 and the next step, 65536: ties to even */
        return (uint16_t)(sign | HALF_INFINITY);
    if (magnitude < float_bits(0x1p-14f)) {
        /* Subnormal: a multiple of 2^-24, which is the unit in the last place of floats in [0.5, 1). So the
         * addition rounds as wanted, and the low bits of the sum are the result. */
        return (uint16_t)(sign | (float_bits(float_of_bits(magnitude) + 0.5f) - float_bits(0.5f)));
    }
    uint32_t odd = magnitude >> 13 & 1;
    return (uint16_t)(sign | (((magnitude + 0xfff + odd) >> 13) - (112u << 10)));
}

float bfloat_to_float(uint16_t b)
{
    uint32_t bits = (uint32_t)b << 16;
    return float_of_bits((bits & 0x7fffffffu) > FLOAT_INFINITY ? bits | FLOAT_QUIET : bits);
}

uint16_t bfloat_from_float(float f)
{
    uint32_t bits = float_bits(f);
    if ((bits & 0x7fffffffu) > FLOAT_INFINITY)
        return (uint16_t)((bits | FLOAT_QUIET) >> 16);
    uint32_t odd = bits >> 16 & 1;
    return (uint16_t)((bits + 0x7fff + odd) >> 16); /* the largest floats correctly round to infinity */
}
