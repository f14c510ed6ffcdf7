/* float_avx512.c - products in float32: weights in F32, F16, BF16, and block formats with unrounded activations.
 *
 * One token: eight rows at a time are converted in registers and share each load of the token. A row's sum never
 * depends on the other rows.
 *
 * Many tokens: 32 rows x 512 columns of weights are converted once into a panel on the stack (64 KiB), rows in lanes:
 * panel[column][row]. The sums of a tile of 32 rows x 12 tokens then fit 24 registers; each step takes one column of the
 * panel and one value per token. No sums across lanes are needed; the cost is one transposition of the panel, which pays
 * off with 80 tokens. Four panels stay in the L2 cache, and a tile's tokens, copied together, in the L1 cache. A core whose peak
 * is 260 GFLOP/s (Zen 5) does, with 512 tokens of 2048 columns and of 5632, GFLOP/s: one panel of 256 columns 218 and 221, four
 * of 512 226 and 225, four of 256 3 % less; with 128 tokens 189 and 182, 200 and 198.
 * Tried instead: rows x tokens with lanes along the columns. That needs no transposition, but the sums across lanes at
 * the end of every 1024 columns cost 7 %. */
#include "avx512.h"

#define PANEL_ROWS    32
#define PANEL_COLUMNS 512
#define PANELS        4 /* filled before they are multiplied with the tokens */
#define TILE_TOKENS   12
#define NEXT_TILE     3 /* the cache that the tokens of the next tile are prefetched into (__builtin_prefetch) */

#define TILES(X) X(1) X(2) X(3) X(4) X(5) X(6) X(7) X(8) X(9) X(10) X(11) X(12)
#include "dots.h"
#include "floats.h"

FLOAT_PRODUCTS(avx512)
