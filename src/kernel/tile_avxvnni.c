/* tile_avxvnni.c - block formats times many tokens of 8 bits, for AVX2 with AVX-VNNI. The AVX2 kernels are used for one
 * token, which is bound by memory, and for float activations, which gain nothing from VNNI. */
#define WITH_VNNI
#include "tile_avx2.h"

TILE_PRODUCTS(avxvnni)

/* Returns the product of AVX2: a format that has tiles is in one of its three tables. */
static kernel_product *product_avx2(number_format format)
{
    static const kernels *const others[] = {&avx2_blocks, &avx2_copies};
    for (size_t i = 0; i < sizeof others / sizeof *others; i++)
        if (others[i]->product[format])
            return others[i]->product[format];
    return avx2_bytes.product[format];
}

static void product_avxvnni(const matrix *w, const uint32_t *list, size_t begin, size_t end, const kernel_input *x,
                            float *y, size_t y_stride)
{
    kernel_product *chosen = x->q && x->count != 1 ? avxvnni_product_tiles : product_avx2(w->format);
    chosen(w, list, begin, end, x, y, y_stride);
}

#define VNNI_ROW(level, id, ...) [FORMAT_##id] = product_avxvnni,
const kernels avxvnni_tiles = {.product = {TILE_FORMATS(VNNI_ROW, avxvnni)}};
