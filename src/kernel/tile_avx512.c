/* tile_avx512.c - block formats times many tokens of 8 bits, for AVX-512 without VNNI. */
#include "tile_avx512.h"

TILE_PRODUCTS(avx512)
