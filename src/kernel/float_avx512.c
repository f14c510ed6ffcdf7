/* float_avx512.c - products in float32: weights in F32, F16, BF16, and block formats with unrounded activations.
 *
 * One token: eight rows at a time are converted in registers and share each load of the token. A row's sum never
 * depends on the other rows.
 *
 * Many tokens: 32 rows x 256 columns of weights are converted once into a panel on the stack (32 KiB, which stay in the
 * L1 cache), rows in lanes: panel[column][row]. The sums of a tile of 32 rows x 12 tokens then fit 24 registers; each
 * step takes one column of the panel and one value per token. No sums across lanes are needed; the cost is one
 * transposition of the panel, which pays off with 12 tokens.
 * Tried: several panels, and a tile's tokens copied together as at AVX2. On a CPU whose peak is 275 GFLOP/s (Zen 5) 128 tokens of
 * 2048 columns gain (one panel 215 GFLOP/s, four 236, eight 242), but prompts of 512 lose (1b, F16, tokens/s: 575, 538, 532).
 * Tried instead: rows x tokens with lanes along the columns. That needs no transposition, but the sums across lanes at
 * the end of every 1024 columns cost 7 %. */
#include "avx512.h"

#define PANEL_ROWS    32
#define PANEL_COLUMNS 256
#define PANELS        1 /* filled before they are multiplied with the tokens */
#define TILE_TOKENS   12
#define NEXT_TILE     3 /* the cache that the tokens of the next tile are prefetched into (__builtin_prefetch) */

#define TILES(X) X(1) X(2) X(3) X(4) X(5) X(6) X(7) X(8) X(9) X(10) X(11) X(12)
#include "panels.h"

FLOAT_PRODUCTS(avx512)
