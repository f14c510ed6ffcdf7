/* block_neon.c - block formats times tokens of 8 bits, for every 64-bit ARM CPU. */
#include "block_neon.h"

PRODUCT(q8_0, neon)
PRODUCT(q4_0, neon)
PRODUCT(q4_k, neon)
PRODUCT(q6_k, neon)

const kernels neon_blocks = {
    .product =
        {
            [FORMAT_Q8_0] = product_q8_0_neon,
            [FORMAT_Q4_0] = product_q4_0_neon,
            [FORMAT_Q4_K] = product_q4_k_neon,
            [FORMAT_Q6_K] = product_q6_k_neon,
        },
};
