/* scalar_neuron.c - the kernels of neuron-major networks in plain C: select the neurons that fire, and add up their
 * rows. These define what the kernels compute. */
#include "levels.h"

#include <math.h>

/* Values decoded at a time: a multiple of every format's block. */
#define CHUNK 256

static void accumulate_scalar(const matrix *w, const uint32_t *list, size_t begin, size_t end, const float *h,
                              size_t h_stride, size_t tokens, float *y, size_t y_stride)
{
    const number_traits *format = &number_formats[w->format];
    float values[CHUNK];
    for (size_t i = begin; i < end; i++) {
        const uint8_t *row = listed_row(w, list, i);
        for (size_t at = 0; at < w->columns; at += CHUNK) {
            size_t n = w->columns - at < CHUNK ? w->columns - at : CHUNK;
            format->decode(row + at / format->block_values * format->block_bytes, values, n);
            for (size_t t = 0; t < tokens; t++)
                for (size_t c = 0; c < n; c++)
                    y[t * y_stride + at + c] = fmaf(h[t * h_stride + i], values[c], y[t * y_stride + at + c]);
        }
    }
}

static void accumulate_many_scalar(const matrix *w, const uint32_t *list, size_t begin, size_t end, size_t column,
                                   size_t columns, const float *h, size_t h_stride, size_t tokens, float *y,
                                   size_t y_stride)
{
    const number_traits *format = &number_formats[w->format];
    float values[ACCUMULATE_COLUMNS];
    for (size_t i = begin; i < end; i++) {
        format->decode(listed_row(w, list, i) + column / format->block_values * format->block_bytes, values, columns);
        for (size_t t = 0; t < tokens; t++)
            if (h[t * h_stride + i] != 0)
                for (size_t c = 0; c < columns; c++)
                    y[t * y_stride + c] = fmaf(h[t * h_stride + i], values[c], y[t * y_stride + c]);
    }
}

/* Returns whether a value passes a threshold. */
typedef bool pass_function(float value, float threshold);

static bool is_above(float value, float threshold)
{
    return value > threshold;
}

static bool is_from(float value, float threshold)
{
    return !(value < threshold);
}

static bool is_beyond(float value, float threshold)
{
    return !(fabsf(value) <= threshold);
}

static inline __attribute__((always_inline)) size_t select_passing(const float *values, const uint32_t *ids,
                                                                   uint32_t first, size_t n, float threshold,
                                                                   uint32_t *selected_ids, float *selected,
                                                                   pass_function *passes)
{
    size_t count = 0;
    for (size_t i = 0; i < n; i++)
        if (passes(values[i], threshold)) {
            selected_ids[count] = ids ? ids[i] : first + (uint32_t)i;
            if (selected)
                selected[count] = values[i];
            count++;
        }
    return count;
}

SELECT_KERNELS(scalar)

/* One function for all formats: it reads the format from the matrix. */
const kernels scalar_neurons = {
#define X(id, ...) .accumulate[FORMAT_##id] = accumulate_scalar, .accumulate_many[FORMAT_##id] = accumulate_many_scalar,
    NUMBER_FORMATS(X)
#undef X
        .select = SELECTED(scalar),
};
