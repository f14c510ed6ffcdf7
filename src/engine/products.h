/* products.h - multiplies rows of the batch with whole matrices, on the threads of the pool. */
#ifndef ENGINE_PRODUCTS_H
#define ENGINE_PRODUCTS_H

#include "engine.h"

/* y [count][rows of w] = x times the rows of w. */
typedef struct product {
    const matrix *w;
    float *y;
} product;

#define MAX_PRODUCTS 6

/* y [x's tokens][rows] = each token of x times the rows of its expert: `rows` of them, from row expert * stride of w on. */
typedef struct expert_product {
    const matrix *w;
    float *y;
    uint32_t rows;
    size_t stride;
} expert_product;

/* Prepares x [count][columns] as input of the kernels. What the n matrices and the engine's activations ask for is included and
 * stored in `to`: x rounded to 8 bits where one is in a block format, and to bfloat16 where many rows are multiplied so. */
kernel_input products_input(const hearth_session *s, const float *x, size_t count, size_t columns,
                            const matrix *const *matrices, size_t n, const rounded_rows *to);

/* Multiplies x [count][columns] with up to MAX_PRODUCTS matrices of that many columns at once. */
void multiply(const hearth_session *s, const float *x, size_t count, const product *products, size_t n);

/* Multiplies groups of tokens of x, which is of products_input, with the rows of their experts, of up to MAX_PRODUCTS matrices at
 * once: as one job, however few tokens a group has. */
void multiply_experts(const hearth_session *s, const kernel_input *x, const expert_group *groups, size_t group_count,
                      const expert_product *products, size_t n);

#endif
