/* attend_neon.c - attention (attend.h): scores in tiles of 2 queries x 4 positions, values in tiles of 4 queries x 16
 * dimensions; 16 of the 32 registers hold sums. */
#include "decode_neon.h"

#include "exponent_neon.h"

#define TILE_POSITIONS  4
#define TILE_REGISTERS  2
#define BLOCK_POSITIONS KV_PAGE /* shorter ones have not been tried here */

ALWAYS_INLINE void store_scores(const vector sum[8], float scale, size_t left, float *first, float *second)
{
    vector both = vector_multiply(sum_of_8(sum), vector_of(scale));
    size_t present = left < TILE_POSITIONS ? left : TILE_POSITIONS;
    store_first(first, present, both);
    store_first(second, present, (vector){both.high, both.low});
}

ALWAYS_INLINE float largest_lane(vector v)
{
    return vmaxvq_f32(vmaxq_f32(v.low, v.high));
}

#include "attend.h"

/* The tiles of float_neon.c. */
#define PANEL_ROWS    16
#define PANEL_COLUMNS 256
#define TILE_TOKENS   6
#define NEXT_TILE     3 /* nothing is prefetched: a run's queries are in the cache */

#define TILES(X) X(1) X(2) X(3) X(4) X(5) X(6)
#include "attend_rows.h"

ATTENTION(neon)
