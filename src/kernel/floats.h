/* floats.h - the products in float32, shared by all vector levels. float_LEVEL.c includes it after dots.h or dots_in_pieces.h, whose
 * few_NAME multiplies with at most FEW_OF_FLOATS tokens, and after it has defined what panels.h needs. */
#ifndef KERNEL_FLOATS_H
#define KERNEL_FLOATS_H

#include "panels.h"

/* Defines the product of a float format of `bytes` bytes per value whose load_NAME is defined. */
#define FLOAT_PRODUCT(name, bytes, level)                                                                     \
    FEW_PRODUCT(name, bytes)                                                                                  \
    ALWAYS_INLINE void fill_##name(const matrix *w, const uint32_t *list, size_t i, size_t end, size_t start, \
                                   size_t columns, panel *p)                                                  \
    {                                                                                                         \
        fill_from_floats(w, list, i, end, start, columns, p, load_##name);                                    \
    }                                                                                                         \
    static void product_##name##_##level(const matrix *w, const uint32_t *list, size_t begin, size_t end,     \
                                         const kernel_input *x, float *y, size_t y_stride)                    \
    {                                                                                                         \
        if (x->count <= FEW_OF_FLOATS)                                                                        \
            few_##name(w, list, begin, end, x, y, y_stride);                                                  \
        else                                                                                                  \
            many_tokens(w, list, begin, end, x, y, y_stride, fill_##name);                                    \
    }

/* Defines the products of a level: of block formats with float32 activations, for which weights are decoded to float32,
 * and of float formats. */
#define FLOAT_PRODUCTS(level)                                                                     \
    void level##_product_decoded(const matrix *w, const uint32_t *list, size_t begin, size_t end, \
                                 const kernel_input *x, float *y, size_t y_stride)                \
    {                                                                                             \
        many_tokens(w, list, begin, end, x, y, y_stride, fill_from_blocks);                       \
    }                                                                                             \
    FLOAT_PRODUCT(f32, 4, level)                                                                  \
    FLOAT_PRODUCT(f16, 2, level)                                                                  \
    FLOAT_PRODUCT(bf16, 2, level)                                                                 \
    const kernels level##_floats = {                                                              \
        .product = {[FORMAT_F32] = product_f32_##level,                                           \
                    [FORMAT_F16] = product_f16_##level,                                           \
                    [FORMAT_BF16] = product_bf16_##level},                                        \
    };

#endif
