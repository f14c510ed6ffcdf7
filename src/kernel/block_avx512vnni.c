/* block_avx512vnni.c - block formats times one token of 8 bits, for AVX-512 with VNNI. */
#define WITH_VNNI
#include "block_avx512.h"

#define avx512vnni_product_decoded avx512_product_decoded /* float activations gain nothing from VNNI */
BLOCK_PRODUCTS(avx512vnni)
