/* block_avx512.c - block formats times one token of 8 bits, for AVX-512 without VNNI. */
#include "block_avx512.h"

BLOCK_PRODUCTS(avx512)
