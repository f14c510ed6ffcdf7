/* float_neon.c - products in float32: weights in F32, F16, BF16, and block formats with unrounded activations.
 *
 * The plan of float_avx2.c: one token takes eight rows at a time; many tokens take a panel of 16 rows x 256 columns
 * (16 KiB), rows in lanes, in tiles of 16 rows x 6 tokens. The 24 sums of a tile leave eight of the 32 registers
 * free. */
#include "neon.h"

#define PANEL_ROWS    16
#define PANEL_COLUMNS 256
#define PANELS        1 /* filled before they are multiplied with the tokens; more have not been tried here */
#define TILE_TOKENS   6
#define NEXT_TILE     3 /* the cache that the tokens of the next tile are prefetched into (__builtin_prefetch) */

#define TILES(X) X(1) X(2) X(3) X(4) X(5) X(6)
#include "dots_in_pieces.h"
#include "floats.h"

FLOAT_PRODUCTS(neon)
