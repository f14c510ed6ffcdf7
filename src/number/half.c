/* half.c - float16 and bfloat16 by integer arithmetic and two exact float operations.
 *
 * float16 is 1 sign, 5 exponent (bias 15), 10 fraction bits; float32 is 1, 8 (bias 127), 23; bfloat16 is
 * the upper half of a float32. The float operations are exact as long as nobody has told the
 * processor to flush subnormals to zero; hearth never does. */
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
    /* Moved to where float32 has exponent and fraction, the value is off by the difference of the
     * biases, 127 - 15; a subnormal float16 is a subnormal float32 then, and comes out right as well. */
    return float_of_bits(float_bits(float_of_bits(magnitude << 13) * 0x1p112f) | sign);
}

uint16_t half_from_float(float f)
{
    uint32_t bits = float_bits(f);
    uint32_t sign = bits >> 16 & 0x8000u;
    uint32_t magnitude = bits & 0x7fffffffu;
    if (magnitude > FLOAT_INFINITY)
        return (uint16_t)(sign | HALF_INFINITY | HALF_QUIET | (magnitude >> 13 & 0x3ffu));
    if (magnitude >= float_bits(65520.0f)) /* half way between the largest and what would follow: ties to even */
        return (uint16_t)(sign | HALF_INFINITY);
    if (magnitude < float_bits(0x1p-14f)) {
        /* Subnormal: a multiple of 2^-24, which is the last place of floats from 0.5 on. So the addition
         * rounds as we need it, and the low bits of the sum are the result. */
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
    return (uint16_t)((bits + 0x7fff + odd) >> 16); /* the largest floats round to infinity, as they should */
}
