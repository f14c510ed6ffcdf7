/* packing.h - rows of a matrix as devices store them (kernels.h). */
#ifndef DEVICE_PACKING_H
#define DEVICE_PACKING_H

#include "../number/format.h"

#include <stdbool.h>

/* Bytes of `rows` rows of a format that devices have: of w, and of scales (0 for float formats). */
size_t device_packed_bytes(number_format format, size_t rows, size_t columns, size_t *scale_bytes);

/* Rows list[0..count) of m (list NULL: the rows from `first` on) in order into w and scales. */
void device_pack(const matrix *m, const uint32_t *list, size_t first, size_t count, void *w, uint16_t *scales);

#endif
