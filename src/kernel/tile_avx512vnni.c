/* tile_avx512vnni.c - block formats times many tokens of 8 bits, for AVX-512 with VNNI. Formats that are unpacked to bytes
 * have kernels for few tokens at AVX2, which these tiles join here. */
#define WITH_VNNI
#include "tile_avx512.h"

TILE_PRODUCTS(avx512vnni)

/* Tokens up to which AVX2's kernels for few are as fast as these tiles. Q5_K, Zen 5, tokens/s of all sequences: 273 with eight,
 * and with tiles 305 with nine, 358 with twelve. */
#define FEW_BEFORE_TILES 8

static void product_bytes_avx512vnni(const matrix *w, const uint32_t *list, size_t begin, size_t end,
                                     const kernel_input *x, float *y, size_t y_stride)
{
    kernel_product *chosen =
        x->q && x->count > FEW_BEFORE_TILES ? avx512vnni_product_tiles : avx2_bytes.product[w->format];
    chosen(w, list, begin, end, x, y, y_stride);
}

#define BYTE_ROW(level, id, ...) [FORMAT_##id] = product_bytes_avx512vnni,
const kernels avx512vnni_bytes = {.product = {BYTE_FORMATS(BYTE_ROW, avx512vnni)}};
