/* packing.h - converts rows of a matrix to the layout that devices store (kernels.h). */
#ifndef DEVICE_PACKING_H
#define DEVICE_PACKING_H

#include "../number/format.h"

#include <stdbool.h>

/* Returns the bytes of w for `rows` rows, and in *scale_bytes those of scales (0 for float formats). Devices must have
 * the format. */
size_t device_packed_bytes(number_format format, size_t rows, size_t columns, size_t *scale_bytes);

/* Packs the rows list[0..count) of m (list NULL: the `count` rows from `first` on) in this order into w and scales. */
void device_pack(const matrix *m, const uint32_t *list, size_t first, size_t count, void *w, uint16_t *scales);

#endif
