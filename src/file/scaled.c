/* scaled.c - see scaled.h. */
#include "scaled.h"

#include "../number/blocks.h"

#include <math.h>
#include <string.h>

#define MXFP4_VALUES 32
#define NVFP4_VALUES 16

const char *scaled_source(const scaled_rows *s)
{
    static const char *const names[] = {
        [SCALED_F8] = "f8", [SCALED_MXFP4] = "mxfp4", [SCALED_NVFP4] = "nvfp4", [SCALED_PACKED] = "words"};
    return s->kind == SCALED_TIMES ? number_formats[s->scale_format].name : names[s->kind];
}

size_t scaled_row_bytes(const scaled_rows *s, uint64_t columns)
{
    const number_traits *format = &number_formats[s->scale_format];
    switch (s->kind) {
    case SCALED_F8:
        return (size_t)columns;
    case SCALED_TIMES:
        return (size_t)(columns / format->block_values) * format->block_bytes;
    case SCALED_PACKED:
        return (size_t)(columns * s->bits / 8);
    default:
        return (size_t)(columns / 2);
    }
}

/* Returns the scales of a row of so many columns, of F8 or MXFP4. */
static uint64_t row_scales(const scaled_rows *s, uint64_t columns)
{
    uint64_t block = s->kind == SCALED_F8 ? s->block_columns : MXFP4_VALUES;
    return columns / block + (columns % block != 0);
}

static float decode_f8(uint8_t byte)
{
    unsigned exponent = byte >> 3 & 15, fraction = byte & 7;
    float size = exponent > 0 ? ldexpf((float)(8 + fraction), (int)exponent - 10) : ldexpf((float)fraction, -9);
    if ((byte & 0x7F) == 0x7F)
        size = NAN;
    return byte & 0x80 ? -size : size;
}

static void read_f8(const scaled_rows *s, const uint8_t *values, const char *scales, uint64_t columns, float *out)
{
    const number_traits *format = &number_formats[s->scale_format];
    for (uint64_t c = 0, end; c < columns; c = end) {
        float scale;
        format->decode(scales + c / s->block_columns * format->block_bytes, &scale, 1);
        end = columns - c < s->block_columns ? columns : c + s->block_columns;
        for (uint64_t i = c; i < end; i++)
            out[i] = decode_f8(values[i]) * scale;
    }
}

static void read_mxfp4(const uint8_t *values, const uint8_t *scales, uint64_t columns, block_mxfp4 *out)
{
    enum { HALF = MXFP4_VALUES / 2 };
    for (uint64_t b = 0; b < columns / MXFP4_VALUES; b++, values += HALF) {
        out[b].exponent = scales[b];
        for (size_t i = 0; i < HALF; i++) { /* the format has values i and i + 16 in byte i */
            uint8_t low = values[i / 2] >> i % 2 * 4 & 15, high = values[(i + HALF) / 2] >> i % 2 * 4 & 15;
            out[b].nibbles[i] = (uint8_t)(low | high << 4);
        }
    }
}

static void read_nvfp4(const factored_matrix *m, const uint8_t *values, const uint8_t *scales, uint64_t columns,
                       float *out)
{
    for (uint64_t b = 0; b < columns / NVFP4_VALUES; b++, values += NVFP4_VALUES / 2, out += NVFP4_VALUES) {
        double unit = (double)decode_f8(scales[b]) * m->factor / 2; /* float4_values are doubled */
        for (size_t i = 0; i < NVFP4_VALUES; i++)
            out[i] = (float)(float4_values[values[i / 2] >> i % 2 * 4 & 15] * unit);
    }
}

static void read_times(const factored_matrix *m, number_format format, const uint8_t *values, uint64_t columns,
                       float *out)
{
    number_formats[format].decode(values, out, columns);
    for (uint64_t c = 0; c < columns; c++)
        out[c] = (float)((double)out[c] * m->factor);
}

/* Makes a row of a matrix that has a factor, from its own values. */
static void read_factored(const scaled_rows *s, const factored_matrix *m, const uint8_t *values, uint64_t row,
                          uint64_t columns, float *out)
{
    if (s->kind == SCALED_NVFP4)
        read_nvfp4(m, values, (const uint8_t *)m->scales + row * (columns / NVFP4_VALUES), columns, out);
    else
        read_times(m, s->scale_format, values, columns, out);
}

void scaled_read(const scaled_rows *s, const void *values, uint64_t number, uint64_t row, uint64_t columns, void *out)
{
    if (s->kind == SCALED_PACKED) {
        packed_read(s->scales[number], values, row, s->made, out);
        return;
    }
    if (s->kind == SCALED_NVFP4 || s->kind == SCALED_TIMES) {
        read_factored(s, s->scales[number], (const uint8_t *)values + (size_t)row * scaled_row_bytes(s, columns), row,
                      columns, out);
        return;
    }
    uint64_t stored = s->first + row * s->step, group = s->kind == SCALED_F8 ? stored / s->block_rows : stored;
    size_t scale_bytes = s->kind == SCALED_F8 ? number_formats[s->scale_format].block_bytes : 1;
    const uint8_t *from = (const uint8_t *)values + (size_t)stored * scaled_row_bytes(s, columns);
    const char *scales = (const char *)s->scales[number] + (size_t)(group * row_scales(s, columns)) * scale_bytes;
    if (s->kind == SCALED_F8)
        read_f8(s, from, scales, columns, out);
    else
        read_mxfp4(from, (const uint8_t *)scales, columns, out);
}
