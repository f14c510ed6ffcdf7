/* tile_avxvnni.c - block formats times many tokens of 8 bits, for AVX2 with AVX-VNNI. The AVX2 kernels are used for one
 * token, which is bound by memory, and for float activations, which gain nothing from VNNI. */
#define WITH_VNNI
#include "tile_avx2.h"

TILE_PRODUCTS(avxvnni)

static void product_avxvnni(const matrix *w, const uint32_t *list, size_t begin, size_t end, const kernel_input *x,
                            float *y, size_t y_stride)
{
    kernel_product *chosen = x->q && x->count != 1 ? avxvnni_product_tiles : avx2_blocks.product[w->format];
    chosen(w, list, begin, end, x, y, y_stride);
}

const kernels avxvnni_tiles = {
    .product =
        {
            [FORMAT_Q8_0] = product_avxvnni,
            [FORMAT_Q4_0] = product_avxvnni,
            [FORMAT_Q4_K] = product_avxvnni,
            [FORMAT_Q6_K] = product_avxvnni,
        },
};
