/* products.h - multiplies rows of the batch with whole matrices, on the threads of the pool. */
#ifndef ENGINE_PRODUCTS_H
#define ENGINE_PRODUCTS_H

#include "engine.h"

/* y [count][rows of w] = x times the rows of w. */
typedef struct product {
    const matrix *w;
    float *y;
} product;

#define MAX_PRODUCTS 4

/* Prepares x [count][columns] as input of the kernels. What the n matrices and the engine's activations ask for is included and
 * stored in `to`: x rounded to 8 bits where one is in a block format, and to bfloat16 where many rows are multiplied so. */
kernel_input products_input(const hearth_session *s, const float *x, size_t count, size_t columns,
                            const matrix *const *matrices, size_t n, const rounded_rows *to);

/* Multiplies x [count][columns] with up to MAX_PRODUCTS matrices of that many columns at once. */
void multiply(const hearth_session *s, const float *x, size_t count, const product *products, size_t n);

#endif
