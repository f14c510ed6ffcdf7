/* kcheck_device_matrix.c - matrices and inputs for the checks of a device's products. */
#include "kcheck_device_matrix.h"

#include "../src/device/packing.h"
#include "../src/number/half.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

double depth(const device *d, size_t terms, size_t at_once)
{
    device_info info;
    device_describe(d, &info);
    size_t pieces = items_of(terms, at_once), rounds = items_of(pieces, info.group);
    return (double)(rounds * at_once) + DEPTH_BEHIND;
}

double product_depth(const device *d, size_t columns, bool rounded)
{
    return depth(d, columns, rounded ? 32 : 8);
}

static const uint32_t value_columns[] = {1, 7, 8, 33, 64, 100, 513, 1100};
static const uint32_t block_columns[] = {32, 64, 96, 288, 544, 1056}; /* of blocks of 32 */

uint32_t some_columns(number_format format, size_t turn)
{
    uint32_t values = number_formats[format].block_values;
    return values == 1    ? value_columns[turn % COUNT(value_columns)]
           : values == 32 ? block_columns[turn % COUNT(block_columns)]
                          : values * (1 + (uint32_t)turn % 5);
}

static void fill_row(uint8_t *row, number_format format, size_t columns, bool hostile, uint64_t *rng)
{
    float *values = array_new(columns, sizeof(float));
    for (size_t i = 0; i < columns; i++)
        values[i] = random_rough(rng);
    number_formats[format].encode(values, NULL, row, columns);
    free(values);
    size_t bytes;
    if (!hostile || !number_row_bytes(format, columns, &bytes))
        return;
    for (size_t i = 0; i < bytes; i++) /* any bits at all: infinities and NaN as well */
        row[i] = random_below(rng, 2) ? (uint8_t)random_bits(rng) : row[i];
}

/* Formats with an offset have two parts, which kernels add up apart: the first is what the block decodes to where the
 * float16 of the offset is 0. */
static void bound_parts(float *magnitudes, const float *decoded, number_format format, const void *row, size_t columns)
{
    const number_traits *traits = &number_formats[format];
    size_t bytes = columns / traits->block_values * traits->block_bytes;
    uint8_t *copy = array_new(bytes, 1);
    memcpy(copy, row, bytes);
    for (size_t b = 0; scales_at[format].count == 2 && b < bytes; b += traits->block_bytes)
        memset(copy + b + scales_at[format].at[1], 0, 2);
    traits->decode(copy, magnitudes, columns);
    for (size_t i = 0; i < columns; i++)
        magnitudes[i] = fabsf(magnitudes[i]) + fabsf(magnitudes[i] - decoded[i]);
    free(copy);
}

/* `rows` rows on the device, taken from a matrix that has some more; by a list or from some row on. */
placed placed_new(device *d, number_format format, uint32_t rows, uint32_t columns, bool hostile, uint64_t *rng)
{
    uint32_t all = rows + (uint32_t)random_below(rng, 4);
    placed p = {.m = {.format = format, .rows = all, .columns = columns}, .rows = rows};
    if (!number_row_bytes(format, columns, &p.m.row_bytes)) {
        fprintf(stderr, "kcheck: bad columns\n");
        exit(1);
    }
    p.blocks = array_new(all, p.m.row_bytes);
    p.m.data = p.blocks;
    for (size_t r = 0; r < all; r++)
        fill_row((uint8_t *)p.blocks + r * p.m.row_bytes, format, columns, hostile, rng);

    bool by_list = random_below(rng, 2);
    uint32_t first = (uint32_t)random_below(rng, all - rows + 1), *list = array_new(rows, sizeof(*list));
    p.decoded = array_new((size_t)rows * columns, sizeof(float));
    p.magnitudes = array_new((size_t)rows * columns, sizeof(float));
    for (uint32_t r = 0; r < rows; r++) {
        list[r] = by_list ? (uint32_t)random_below(rng, all) : first + r;
        float *decoded = p.decoded + (size_t)r * columns;
        number_formats[format].decode(matrix_row(&p.m, list[r]), decoded, columns);
        bound_parts(p.magnitudes + (size_t)r * columns, decoded, format, matrix_row(&p.m, list[r]), columns);
    }
    size_t scale_bytes, bytes = device_packed_bytes(format, rows, columns, &scale_bytes);
    void *w = array_new(bytes, 1), *scales = array_new(scale_bytes, 1);
    device_pack(&p.m, by_list ? list : NULL, first, rows, w, scales);
    p.w = room_new(d, w, bytes);
    p.scales = room_new(d, scales, scale_bytes);
    free(w);
    free(scales);
    free(list);
    return p;
}

device_argument scales_argument(const placed *p)
{
    return number_is_block(p->m.format) ? room_of(&p->scales) : NO_BUFFER;
}

void placed_free(placed *p)
{
    room_free(&p->w);
    room_free(&p->scales);
    free(p->blocks);
    free(p->decoded);
    free(p->magnitudes);
}

input input_new(device *d, bool rounded, size_t tokens, size_t columns, uint64_t *rng)
{
    size_t n = tokens * columns;
    input in = {.values = array_new(n, sizeof(float))};
    for (size_t i = 0; i < n; i++)
        in.values[i] = random_rough(rng);
    if (!rounded) {
        in.x = room_new(d, in.values, n * sizeof(float));
        return in;
    }
    kernels scalar;
    kernels_for(0, &scalar);
    int8_t *q = array_new(n, 1);
    float *scales = array_new(n / Q8_BLOCK, sizeof(float));
    int16_t *halves = array_new(n / Q8_SUM, sizeof(int16_t));
    int32_t *sums = array_new(n / Q8_BLOCK, sizeof(int32_t));
    scalar.quantize(in.values, n, q, scales, halves);
    for (size_t i = 0; i < n; i++)
        in.values[i] = (float)q[i] * scales[i / Q8_BLOCK];
    for (size_t b = 0; b < n / Q8_BLOCK; b++)
        sums[b] = halves[2 * b] + halves[2 * b + 1];
    in.q = room_new(d, q, n);
    in.scales = room_new(d, scales, n / Q8_BLOCK * sizeof(float));
    in.sums = room_new(d, sums, n / Q8_BLOCK * sizeof(int32_t));
    free(q);
    free(scales);
    free(halves);
    free(sums);
    return in;
}

void input_free(input *in)
{
    room *rooms[] = {&in->x, &in->q, &in->scales, &in->sums};
    for (size_t i = 0; i < COUNT(rooms); i++)
        if (rooms[i]->buffer)
            room_free(rooms[i]);
    free(in->values);
}
