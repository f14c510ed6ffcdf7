/* kcheck_device_matrix.h - what checks of kernels that read matrices share: matrices of every format on a device, what is
 * multiplied with them, and how many additions a product may take. */
#ifndef TESTS_KCHECK_DEVICE_MATRIX_H
#define TESTS_KCHECK_DEVICE_MATRIX_H

#include "kcheck_device.h"

#define COUNT(array) (sizeof(array) / sizeof(*(array)))

/* Additions that the sum over the lanes of a group and everything behind it may add. */
#define DEPTH_BEHIND 48

/* Returns how many terms of a row meet in one lane: `at_once` neighbours at a time. */
double depth(const device *d, size_t terms, size_t at_once);
/* Returns the additions of a product with a row of `columns`. rounded: of values of 8 bits. */
double product_depth(const device *d, size_t columns, bool rounded);

/* Returns how many columns a matrix has in a turn: few and many, with a rest and without. */
uint32_t some_columns(number_format format, size_t turn);

/* A matrix in the file's layout, the same decoded, and some of its rows on the device. */
typedef struct placed {
    matrix m;
    void *blocks;
    float *decoded;    /* [rows][columns] of those on the device */
    float *magnitudes; /* the same: what bounds the parts of which a product takes a weight to be made */
    uint32_t rows;     /* there */
    room w, scales;
} placed;

/* hostile: its bytes may be anything, infinities and NaN as well. */
placed placed_new(device *d, number_format format, uint32_t rows, uint32_t columns, bool hostile, uint64_t *rng);
device_argument scales_argument(const placed *p);
void placed_free(placed *p);

/* What is multiplied with the rows: as floats, and as the device gets it. */
typedef struct input {
    float *values; /* [tokens][columns]; rounded: what the bytes stand for */
    room x, q, scales, sums;
} input;

input input_new(device *d, bool rounded, size_t tokens, size_t columns, uint64_t *rng);
void input_free(input *in);

/* Checks the kernels of a format that read a matrix of several, by heads or by experts. In kcheck_device_several.c. */
void check_device_several(check *c, device *d, number_format format, uint64_t *rng);

#endif
