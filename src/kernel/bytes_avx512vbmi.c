/* bytes_avx512vbmi.c - formats that are unpacked to bytes times one token of 8 bits, for AVX-512 with VNNI and VBMI. */
#include "grids_avx512.h"

kernel_product avx512vnni_product_tiles;
#define avx512vbmi_product_decoded avx2_product_decoded
#define avx512vbmi_product_tiles   avx512vnni_product_tiles
NIBBLE_FORMATS(WIDE_PRODUCT, avx512vbmi)
GRID_FORMATS(WIDE_PRODUCT, avx512vbmi)

const kernels avx512vbmi_bytes = {
    .product = {NIBBLE_FORMATS(WIDE_ROW, avx512vbmi) GRID_FORMATS(WIDE_ROW, avx512vbmi)},
};
