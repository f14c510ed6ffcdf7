/* grid_table.h - the grids of the IQ formats. A grid lists the codewords of 8 (or 4) values that one index of a block
 * stands for. Byte j of a codeword, from the lowest on, is its value j before scale and sign; in IQ1 a signed byte, eight
 * times the value: -8, 0 or 8. */
#ifndef NUMBER_GRID_TABLE_H
#define NUMBER_GRID_TABLE_H

#include <stdint.h>

extern const uint64_t grid_iq2_xxs[256], grid_iq2_xs[512], grid_iq2_s[1024], grid_iq1[2048];
extern const uint32_t grid_iq3_xxs[256], grid_iq3_s[512];

/* The same grids for look-ups of bytes, aligned to 64 bytes. IQ2: numbers of two bits, 0 to 2 for the values 8, 25, 43; [0]
 * has those of values 0 to 3, [1] those of values 4 to 7. IQ3: two nibbles in a byte, [0] has those of values 0 and 1, [1]
 * those of values 2 and 3: numbers 0 to 7 of the values 4, 12, ... 52, 62, or in IQ3_S the values themselves. */
extern const uint8_t numbers_iq2_xxs[2][256], numbers_iq2_xs[2][512], numbers_iq2_s[2][1024];
extern const uint8_t numbers_iq3_xxs[2][256], nibbles_iq3_s[2][512];

/* Returns the signs of 8 values, bit j set: value j is negative, from the 7 bits that the formats _xxs and IQ2_XS store:
 * the number of negative values is even, so the eighth bit is the parity of the others. */
static inline uint8_t grid_signs(unsigned seven)
{
    seven &= 127;
    return (uint8_t)(seven | (unsigned)__builtin_parity(seven) << 7);
}

#endif
