/* tile_avxvnni.c - block formats times many tokens of 8 bits, for AVX2 with AVX-VNNI. The AVX2 kernels are used for one
 * token and for few, and for float activations, which gain nothing from VNNI. */
#define WITH_VNNI
#include "tile_avx2.h"

TILE_PRODUCTS(avxvnni)

static void product_avxvnni(const matrix *w, const uint32_t *list, size_t begin, size_t end, const kernel_input *x,
                            float *y, size_t y_stride)
{
    const kernels *avx2 = avx2_blocks.product[w->format]  ? &avx2_blocks
                          : avx2_bytes.product[w->format] ? &avx2_bytes
                                                          : &avx2_copies;
    kernel_product *chosen = x->q && x->count > FEW_OF_BLOCKS ? avxvnni_product_tiles : avx2->product[w->format];
    chosen(w, list, begin, end, x, y, y_stride);
}

#define VNNI_ROW(id, ...) [FORMAT_##id] = product_avxvnni,
const kernels avxvnni_tiles = {.product = {TILE_FORMATS(VNNI_ROW)}};
