/* tile_avx512vnni.c - block formats times many tokens of 8 bits, for AVX-512 with VNNI. */
#define WITH_VNNI
#include "tile_avx512.h"

TILE_PRODUCTS(avx512vnni)
