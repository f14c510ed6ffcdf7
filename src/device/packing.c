/* packing.c - converts rows of a matrix to the layout of devices (kernels.h). Float formats are copied unchanged. Block
 * formats are split into two arrays, values and scales, so that values begin at multiples of 16 bytes, and
 * are reordered so that the values of 32 neighbours lie together. */
#include "packing.h"

#include "kernels/kernels.h"

#include <assert.h>
#include <string.h>

/* Sub-blocks of the formats with blocks of 256. */
enum { SUBS = 8, SUB_VALUES = 32, SUB_BYTES = SUB_VALUES / 2 };

size_t device_packed_bytes(number_format format, size_t rows, size_t columns, size_t *scale_bytes)
{
    const device_format *f = device_format_find(format);
    uint32_t block_values = number_formats[format].block_values;
    assert(f && columns % block_values == 0);
    size_t blocks = rows * (columns / block_values);
    *scale_bytes = blocks * f->scale_bytes;
    return blocks * f->value_bytes;
}

/* ------------------------------------------------------------------ one block to its values and its scales */

/* Packs one block as it is in a file. */
typedef void pack_block(const uint8_t *block, uint8_t *w, uint8_t *scales);

/* In a file: a float16 scale, then the values. */
static void pack_q8_0(const uint8_t *block, uint8_t *w, uint8_t *scales)
{
    memcpy(scales, block, 2);
    memcpy(w, block + 2, 32);
}

static void pack_q4_0(const uint8_t *block, uint8_t *w, uint8_t *scales)
{
    memcpy(scales, block, 2);
    memcpy(w, block + 2, 16);
}

static void pack_q4_1(const uint8_t *block, uint8_t *w, uint8_t *scales)
{
    memcpy(scales, block, 4);
    memcpy(w, block + 4, 16);
}

/* Packs 32 values of four bits: the first 16 into the low nibbles, the others into the high ones. */
static void pack_nibbles(const uint8_t values[SUB_VALUES], uint8_t out[SUB_BYTES])
{
    for (size_t i = 0; i < SUB_BYTES; i++)
        out[i] = (uint8_t)(values[i] | values[i + SUB_BYTES] << 4);
}

/* Packs what begins a block of q4_K and q5_K: d, dmin, and the scales and minima of the sub-blocks. */
static void pack_scales(const uint8_t *block, uint8_t *scales)
{
    const uint8_t *packed = block + 4;
    memcpy(scales, block, 4);
    memset(scales + 4, 0, 12);
    for (size_t j = 0; j < SUBS; j++) {
        unsigned scale = j < 4 ? packed[j] & 63u : (packed[j + 4] & 15u) | (packed[j - 4] & 0xc0u) >> 2;
        unsigned minimum = j < 4 ? packed[j + 4] & 63u : (unsigned)packed[j + 4] >> 4 | (packed[j] & 0xc0u) >> 2;
        scales[4 + j] = (uint8_t)((scale & 15) | (minimum & 15) << 4);
        scales[12 + j / 2] |= (uint8_t)((scale >> 4 | minimum >> 4 << 2) << j % 2 * 4);
    }
}

/* number/k_blocks.c describes the blocks in a file. */
static void pack_q4_K(const uint8_t *block, uint8_t *w, uint8_t *scales)
{
    const uint8_t *q = block + 16;
    pack_scales(block, scales);
    for (size_t j = 0; j < SUBS; j++) {
        uint8_t values[SUB_VALUES];
        for (size_t i = 0; i < SUB_VALUES; i++)
            values[i] = q[j / 2 * SUB_VALUES + i] >> j % 2 * 4 & 15;
        pack_nibbles(values, w + j * SUB_BYTES);
    }
}

static void pack_q5_K(const uint8_t *block, uint8_t *w, uint8_t *scales)
{
    const uint8_t *high = block + 16, *q = block + 48;
    pack_scales(block, scales);
    uint8_t *upper = w + SUBS * SUB_BYTES;
    memset(upper, 0, SUBS * 4);
    for (size_t j = 0; j < SUBS; j++, upper += 4) {
        uint8_t values[SUB_VALUES];
        for (size_t i = 0; i < SUB_VALUES; i++) {
            values[i] = q[j / 2 * SUB_VALUES + i] >> j % 2 * 4 & 15;
            upper[i % 4] |= (uint8_t)((high[i] >> j & 1u) << i / 4);
        }
        pack_nibbles(values, w + j * SUB_BYTES);
    }
}

static void pack_q6_K(const uint8_t *block, uint8_t *w, uint8_t *scales)
{
    const uint8_t *low = block, *high = block + 128;
    memcpy(scales, block + 208, 2); /* d */
    memcpy(scales + 2, block + 192, 16);
    uint8_t *upper = w + SUBS * SUB_BYTES;
    memset(upper, 0, 64);
    for (size_t j = 0; j < SUBS; j++, upper += 8) {
        size_t half = j / 4, quarter = j % 4;
        uint8_t values[SUB_VALUES];
        for (size_t i = 0; i < SUB_VALUES; i++) {
            values[i] = low[half * 64 + quarter % 2 * 32 + i] >> quarter / 2 * 4 & 15;
            unsigned bits = high[half * 32 + i] >> quarter * 2 & 3u;
            upper[i / 16 * 4 + i % 4] |= (uint8_t)(bits << i / 4 % 4 * 2);
        }
        pack_nibbles(values, w + j * SUB_BYTES);
    }
}

/* In a file: an exponent e, then the values. The scale 2^(e - 128) is a bfloat16, below e = 2 a subnormal one. */
static void pack_mxfp4(const uint8_t *block, uint8_t *w, uint8_t *scales)
{
    uint16_t scale = (uint16_t)(block[0] < 2 ? 0x20u << block[0] : (block[0] - 1u) << 7);
    memcpy(scales, &scale, 2);
    memcpy(w, block + 1, 16);
}

/* NULL: rows are copied unchanged. */
static pack_block *const packers[FORMAT_COUNT] = {
#define X(ID, name, values, value_bytes, scale_bytes) [FORMAT_##ID] = pack_##name,
    DEVICE_BLOCK_FORMATS(X)
#undef X
};

/* ------------------------------------------------------------------ rows */

void device_pack(const matrix *m, const uint32_t *list, size_t first, size_t count, void *w, uint16_t *scales)
{
    const device_format *f = device_format_find(m->format);
    size_t row_scales, row_bytes = device_packed_bytes(m->format, 1, m->columns, &row_scales);
    size_t blocks = m->columns / number_formats[m->format].block_values,
           block_bytes = number_formats[m->format].block_bytes;
    pack_block *pack = packers[m->format];
    assert((pack != NULL) == (f->scale_bytes > 0));
    uint8_t *out = w, *out_scales = (uint8_t *)scales;
    for (size_t i = 0; i < count; i++) {
        size_t row = list ? list[i] : first + i;
        assert(row < m->rows);
        const uint8_t *from = matrix_row(m, row);
        if (!pack)
            memcpy(out + i * row_bytes, from, row_bytes);
        for (size_t b = 0; pack && b < blocks; b++)
            pack(from + b * block_bytes, out + i * row_bytes + b * f->value_bytes,
                 out_scales + i * row_scales + b * f->scale_bytes);
    }
}
