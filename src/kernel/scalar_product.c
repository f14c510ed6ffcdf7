/* scalar_product.c - the definition of every product, in plain C.
 *
 * Two methods cover all formats: decode and multiply in float32, or, in block formats with a function here, sum the
 * integers of a block exactly and scale the sum. A new format needs nothing here: it is decoded. The code need not be
 * fast; every other file is tested against it (tests/kcheck.c). */
#include "levels.h"

#include "../number/half.h"

/* Values decoded at a time: a multiple of every format's block. */
#define CHUNK 256

/* Activations are rounded by Q8_BLOCK, so a block that is decoded begins where a scale of theirs does. */
#define X(id, name, gguf_type, file_type, values, ...) \
    _Static_assert(CHUNK % (values) == 0 && ((values) == 1 || (values) % Q8_BLOCK == 0), name ": length of a block");
NUMBER_FORMATS(X)
#undef X

static float dot(const float *a, const float *b, size_t n)
{
    float sum = 0;
    for (size_t i = 0; i < n; i++)
        sum += a[i] * b[i];
    return sum;
}

/* y[t * y_stride] = row . x[t], in float32. */
static void row_float(const number_traits *traits, const uint8_t *row, const kernel_input *x, float *y, size_t y_stride)
{
    float weights[CHUNK];
    for (size_t t = 0; t < x->count; t++)
        y[t * y_stride] = 0;
    for (size_t start = 0; start < x->columns; start += CHUNK) {
        size_t n = x->columns - start < CHUNK ? x->columns - start : CHUNK;
        traits->decode(row + start / traits->block_values * traits->block_bytes, weights, n);
        for (size_t t = 0; t < x->count; t++)
            y[t * y_stride] += dot(weights, x->values + t * x->columns + start, n);
    }
}

/* Returns what one block of weights adds to the product; q, scales and sums begin at the block's own values. */
typedef float block_product(const void *block, const int8_t *q, const float *scales, const int16_t *sums);

static float block_q8_0_product(const void *block, const int8_t *q, const float *scales, const int16_t *sums)
{
    (void)sums;
    const block_q8_0 *b = block;
    int32_t sum = 0;
    for (size_t i = 0; i < 32; i++)
        sum += b->q[i] * q[i];
    return half_to_float(b->d) * scales[0] * (float)sum;
}

static float block_q4_0_product(const void *block, const int8_t *q, const float *scales, const int16_t *sums)
{
    const block_q4_0 *b = block;
    int32_t sum = -8 * (sums[0] + sums[1]);
    for (size_t i = 0; i < 16; i++)
        sum += (b->nibbles[i] & 15) * q[i] + (b->nibbles[i] >> 4) * q[i + 16];
    return half_to_float(b->d) * scales[0] * (float)sum;
}

static float block_q4_k_product(const void *block, const int8_t *q, const float *scales, const int16_t *sums)
{
    const block_q4_k *b = block;
    uint64_t sub_scale, sub_minimum;
    sub_scales(b->scales, &sub_scale, &sub_minimum);
    float d = half_to_float(b->d), dmin = half_to_float(b->dmin), total = 0;
    for (size_t s = 0; s < 8; s++) {
        const uint8_t *nibbles = b->nibbles + s / 2 * 32;
        int32_t sum = 0;
        for (size_t i = 0; i < 32; i++)
            sum += (nibbles[i] >> (s % 2 * 4) & 15) * q[s * 32 + i];
        float scale = d * (float)(sub_scale >> (8 * s) & 255), minimum = dmin * (float)(sub_minimum >> (8 * s) & 255);
        total += scale * scales[s] * (float)sum - minimum * scales[s] * (float)(sums[2 * s] + sums[2 * s + 1]);
    }
    return total;
}

static float block_q6_k_product(const void *block, const int8_t *q, const float *scales, const int16_t *sums)
{
    const block_q6_k *b = block;
    float d = half_to_float(b->d), total = 0;
    for (size_t s = 0; s < 16; s++) { /* sub-block s: half s / 8, quarter s / 2 % 4 of it, values from s % 2 * 16 */
        const uint8_t *low = b->low + s / 8 * 64 + s / 2 % 2 * 32 + s % 2 * 16;
        const uint8_t *high = b->high + s / 8 * 32 + s % 2 * 16;
        size_t low_shift = s / 4 % 2 * 4, high_shift = s / 2 % 4 * 2;
        int32_t sum = -32 * sums[s];
        for (size_t i = 0; i < 16; i++)
            sum += ((low[i] >> low_shift & 15) | (high[i] >> high_shift & 3) << 4) * q[s * 16 + i];
        total += d * (float)b->scales[s] * scales[s / 2] * (float)sum;
    }
    return total;
}

static float block_signs1_product(const void *block, const int8_t *q, const float *scales, const int16_t *sums)
{
    const block_signs1 *b = block;
    float total = 0;
    for (size_t run = 0; run < 2; run++) {
        int32_t sum = -(sums[2 * run] + sums[2 * run + 1]);
        for (size_t i = 0; i < 32; i++)
            sum += 2 * (b->bits[run * 4 + i % 4] >> i / 4 & 1) * q[run * 32 + i];
        total += scales[run] * (float)sum;
    }
    return half_to_float(b->d) * total;
}

static float block_levels2_product(const void *block, const int8_t *q, const float *scales, const int16_t *sums)
{
    const block_levels2 *b = block;
    float total = 0;
    for (size_t run = 0; run < 4; run++) {
        int32_t sum = -3 * sums[run];
        for (size_t i = 0; i < 16; i++)
            sum += 2 * (b->q[run * 4 + i % 4] >> i / 4 * 2 & 3) * q[run * 16 + i];
        total += scales[run / 2] * (float)sum;
    }
    return half_to_float(b->d) * total;
}

static block_product *const block_products[FORMAT_COUNT] = {
    [FORMAT_Q8_0] = block_q8_0_product,     [FORMAT_Q4_0] = block_q4_0_product,
    [FORMAT_Q4_K] = block_q4_k_product,     [FORMAT_Q6_K] = block_q6_k_product,
    [FORMAT_SIGNS1] = block_signs1_product, [FORMAT_LEVELS2] = block_levels2_product,
};

/* Returns what a block adds in a format without such a function: its decoded weights are multiplied with the rounded
 * activations in float32. */
static float decoded_product(const number_traits *traits, const void *block, const int8_t *q, const float *scales)
{
    float weights[CHUNK], total = 0;
    traits->decode(block, weights, traits->block_values);
    for (size_t b = 0; b < traits->block_values; b += Q8_BLOCK) {
        float sum = 0;
        for (size_t i = b; i < b + Q8_BLOCK; i++)
            sum += weights[i] * (float)q[i];
        total += scales[b / Q8_BLOCK] * sum;
    }
    return total;
}

static void product_scalar(const matrix *w, const uint32_t *list, size_t begin, size_t end, const kernel_input *x,
                           float *y, size_t y_stride)
{
    const number_traits *traits = &number_formats[w->format];
    block_product *product = block_products[w->format];
    size_t n = traits->block_values, blocks = x->columns / n;
    for (size_t i = begin; i < end; i++) {
        const uint8_t *row = listed_row(w, list, i);
        if (!x->q || n == 1) {
            row_float(traits, row, x, y + i, y_stride);
            continue;
        }
        for (size_t t = 0; t < x->count; t++) {
            const uint8_t *block = row;
            size_t at = t * x->columns;
            float sum = 0;
            for (size_t b = 0; b < blocks; b++, at += n, block += traits->block_bytes) {
                const float *scales = x->scales + at / Q8_BLOCK;
                sum += product ? product(block, x->q + at, scales, x->sums + at / Q8_SUM)
                               : decoded_product(traits, block, x->q + at, scales);
            }
            y[t * y_stride + i] = sum;
        }
    }
}

/* One function for all formats: it reads the format from the matrix. */
const kernels scalar_products = {
#define X(id, ...) .product[FORMAT_##id] = product_scalar,
    NUMBER_FORMATS(X)
#undef X
};
