/* block_dotprod.c - block formats times tokens of 8 bits, for ARM CPUs with the dot product instruction sdot. */
#include "block_neon.h"

#define dotprod_product_decoded neon_product_decoded /* float activations gain nothing from sdot */
TILE_PRODUCTS(dotprod)
BLOCK_PRODUCTS(dotprod)
