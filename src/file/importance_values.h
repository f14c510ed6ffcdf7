/* importance_values.h - what reading and writing an importance matrix share. */
#ifndef FILE_IMPORTANCE_VALUES_H
#define FILE_IMPORTANCE_VALUES_H

#include "importance.h"

#include <math.h>

/* Behind the name of a tensor: the sums of its squared inputs, and of how many inputs they are. */
#define SUMS   ".in_sum2"
#define COUNTS ".counts"

/* Returns whether a sum of squares, a count or a mean may have that value. */
static inline bool is_fit(float value)
{
    return isfinite(value) && value >= 0;
}

#endif
