/* block_neon.c - block formats times tokens of 8 bits, for every 64-bit ARM CPU. */
#include "block_neon.h"

TILE_PRODUCTS(neon)
BLOCK_PRODUCTS(neon)
