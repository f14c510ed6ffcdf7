/* median.h - the middle of measured values. */
#ifndef BASE_MEDIAN_H
#define BASE_MEDIAN_H

#include <stddef.h>

/* Sorts values [count] and returns their median; the mean of the middle two if count is even. count > 0. */
double median(double *values, size_t count);

#endif
