/* half.h - float16 and bfloat16 to float32 and back, one value at a time.
 * Rounding is to nearest, ties to even; subnormals are kept; NaN stays a quiet NaN. */
#ifndef NUMBER_HALF_H
#define NUMBER_HALF_H

#include <stdint.h>

float half_to_float(uint16_t h);
uint16_t half_from_float(float f);
float bfloat_to_float(uint16_t b);
uint16_t bfloat_from_float(float f);

#endif
