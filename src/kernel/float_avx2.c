/* float_avx2.c - products in float32: weights in F32, F16, BF16, and block formats with unrounded activations.
 *
 * The same plan as float_avx512.c with half as many registers of half the width: one token takes eight rows at a time;
 * many tokens take panels of 16 rows x 256 columns (16 KiB), rows in lanes, in tiles of 16 rows x 6 tokens.
 * Panels stay in the L2 cache and a tile's tokens in the L1 cache. Share of the peak rate of multiply-adds, for 512
 * tokens of 2048 columns (8 KiB apart) and of 5632: one panel 0.73 and 0.77; four panels 0.79 and 0.80; four panels
 * with tokens copied together 0.84 and 0.79; eight panels with tokens copied together 0.86 and 0.83. */
#include "avx2.h"

#define PANEL_ROWS    16
#define PANEL_COLUMNS 256
#define PANELS        8 /* filled before they are multiplied with the tokens: 128 KiB */
#define TILE_TOKENS   6
#define NEXT_TILE     2 /* the cache that the tokens of the next tile are prefetched into (__builtin_prefetch) */

#define TILES(X) X(1) X(2) X(3) X(4) X(5) X(6)
#include "dots_in_pieces.h"
#include "floats.h"

FLOAT_PRODUCTS(avx2)
