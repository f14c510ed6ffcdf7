/* float_order.h - maps floats to integers of the same order, so that floats can be counted and chosen by radix. */
#ifndef BASE_FLOAT_ORDER_H
#define BASE_FLOAT_ORDER_H

#include <math.h>
#include <stdint.h>
#include <string.h>

/* Returns the place of a value, ascending with it. Both zeros have one place; NaN is above all, so that what is broken is chosen and
 * shows. */
static inline uint32_t float_place(float value)
{
    uint32_t bits;
    if (isnan(value))
        return UINT32_MAX;
    value += 0.0f; /* makes -0 equal to 0 */
    memcpy(&bits, &value, sizeof bits);
    return bits >> 31 ? ~bits : bits | 0x80000000u;
}

/* Returns the float at a place: the inverse of float_place. */
static inline float float_at_place(uint32_t place)
{
    uint32_t bits = place >> 31 ? place & 0x7fffffffu : ~place;
    float value;
    memcpy(&value, &bits, sizeof value);
    return value;
}

#endif
