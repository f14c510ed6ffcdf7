/* grid_table.h - the grids of the IQ formats. A grid lists the codewords of 8 (or 4) values that one index of a block
 * stands for; the magnitudes of a format are few, so a codeword is a small number per value.
 *
 * Value j of codeword i, before scale and sign:
 *   IQ2  grid_levels_iq2[grid[i] >> 2 j & 3]        8 values
 *   IQ3  grid_levels_iq3_xxs or _s[grid[i] >> 3 j & 7]   4 values
 *   IQ1  (grid[i] >> 2 j & 3) - 1                   8 values: -1, 0 or 1 */
#ifndef NUMBER_GRID_TABLE_H
#define NUMBER_GRID_TABLE_H

#include <stdint.h>

extern const uint16_t grid_iq2_xxs[256], grid_iq2_xs[512], grid_iq2_s[1024], grid_iq3_xxs[256], grid_iq3_s[512],
    grid_iq1[2048];

static const uint8_t grid_levels_iq2[4] = {8, 25, 43, 0}; /* the last one is not used */
static const uint8_t grid_levels_iq3_xxs[8] = {4, 12, 20, 28, 36, 44, 52, 62};
static const uint8_t grid_levels_iq3_s[8] = {1, 3, 5, 7, 9, 11, 13, 15};

/* Returns the signs of 8 values, bit j set: value j is negative, from the 7 bits that the formats _xxs and IQ2_XS store:
 * the number of negative values is even, so the eighth bit is the parity of the others. */
static inline uint8_t grid_signs(unsigned seven)
{
    seven &= 127;
    return (uint8_t)(seven | (unsigned)__builtin_parity(seven) << 7);
}

#endif
