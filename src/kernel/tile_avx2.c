/* tile_avx2.c - block formats times many tokens of 8 bits, for AVX2. */
#include "tile_avx2.h"

TILE_PRODUCTS(avx2)

void avx2_product_tiles(const matrix *w, const uint32_t *list, size_t begin, size_t end, const kernel_input *x,
                        float *y, size_t y_stride)
{
    products[w->format](w, list, begin, end, x, y, y_stride);
}
