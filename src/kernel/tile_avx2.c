/* tile_avx2.c - block formats times many tokens of 8 bits, for AVX2. */
#include "tile_avx2.h"

TILE_PRODUCTS(avx2)
