/* block_dotprod.c - block formats times tokens of 8 bits, for ARM CPUs with the dot product instruction sdot. */
#include "block_neon.h"

PRODUCT(q8_0, dotprod)
PRODUCT(q4_0, dotprod)
PRODUCT(q4_k, dotprod)
PRODUCT(q6_k, dotprod)

const kernels dotprod_blocks = {
    .product =
        {
            [FORMAT_Q8_0] = product_q8_0_dotprod,
            [FORMAT_Q4_0] = product_q4_0_dotprod,
            [FORMAT_Q4_K] = product_q4_k_dotprod,
            [FORMAT_Q6_K] = product_q6_k_dotprod,
        },
};
