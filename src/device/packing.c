/* packing.c - rows of a matrix as devices store them: float formats as they are, blocks in two arrays, so that values
 * begin at multiples of 16 bytes whatever a format puts in front of them. */
#include "packing.h"

#include "kernels/kernels.h"

#include <assert.h>
#include <string.h>

/* Both block formats begin with a float16 scale; what follows are the values, in the order of the file. */
#define SCALE_BYTES sizeof(uint16_t)

size_t device_packed_bytes(number_format format, size_t rows, size_t columns, size_t *scale_bytes)
{
    assert(device_has_format(format));
    const number_traits *traits = &number_formats[format];
    size_t blocks = columns / traits->block_values;
    assert(columns % traits->block_values == 0);
    bool block = number_is_block(format);
    *scale_bytes = block ? rows * blocks * SCALE_BYTES : 0;
    return rows * blocks * (traits->block_bytes - (block ? SCALE_BYTES : 0));
}

static void pack_blocks(const uint8_t *row, size_t blocks, size_t block_bytes, uint8_t *w, uint16_t *scales)
{
    size_t value_bytes = block_bytes - SCALE_BYTES;
    for (size_t b = 0; b < blocks; b++, row += block_bytes, w += value_bytes) {
        memcpy(&scales[b], row, SCALE_BYTES);
        memcpy(w, row + SCALE_BYTES, value_bytes);
    }
}

void device_pack(const matrix *m, const uint32_t *list, size_t first, size_t count, void *w, uint16_t *scales)
{
    size_t row_scales, row_bytes = device_packed_bytes(m->format, 1, m->columns, &row_scales);
    uint8_t *out = w;
    for (size_t i = 0; i < count; i++, out += row_bytes) {
        size_t row = list ? list[i] : first + i;
        assert(row < m->rows);
        if (row_scales == 0)
            memcpy(out, matrix_row(m, row), row_bytes);
        else
            pack_blocks(matrix_row(m, row), row_scales / SCALE_BYTES, number_formats[m->format].block_bytes, out,
                        scales + i * (row_scales / SCALE_BYTES));
    }
}
