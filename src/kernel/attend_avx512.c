/* attend_avx512.c - attention (attend.h): scores in tiles of 2 queries x 8 positions, values in tiles of 4 queries x 64
 * dimensions, which stay in registers during the loop over the positions of a block. Eight heads and 16384 positions from
 * memory (Zen 5, one thread): without blocks 352 us, with prefetches (attend.h) and blocks of 256 positions 238, of 64
 * positions 212; with pages in any order 253. Arithmetic is the bound, from the cache (6.5 us for 512 positions) as from memory. Tried:
 * tiles of 4 queries x 4 positions (2 % faster); weights block by block with a running maximum, as attend_rows.h has them, so that
 * memory is never idle (220 us became 270). */
#include "decode_avx512.h"

#include "exponent_avx512.h"

#define TILE_POSITIONS  8
#define TILE_REGISTERS  4
#define BLOCK_POSITIONS 64

ALWAYS_INLINE void store_scores(const __m512 sum[16], float scale, size_t left, float *first, float *second)
{
    __m512 both = _mm512_mul_ps(sum_of_16(sum), _mm512_set1_ps(scale));
    __mmask8 present = (__mmask8)first_lanes(left < TILE_POSITIONS ? left : TILE_POSITIONS);
    _mm256_mask_storeu_ps(first, present, _mm512_castps512_ps256(both));
    /* Not extractf32x8: compilers fuse that with the store, and the fused store traps on lanes that it does not
     * write. */
    __m512 swapped = _mm512_shuffle_f32x4(both, both, 0x4e);
    _mm256_mask_storeu_ps(second, present, _mm512_castps512_ps256(swapped));
}

ALWAYS_INLINE float largest_lane(__m512 v)
{
    return _mm512_reduce_max_ps(v);
}

#include "attend.h"

/* The tiles of float_avx512.c. */
#define PANEL_ROWS    32
#define PANEL_COLUMNS 256
#define TILE_TOKENS   12
#define NEXT_TILE     3 /* nothing is prefetched: a run's queries are in the cache */

#define TILES(X) X(1) X(2) X(3) X(4) X(5) X(6) X(7) X(8) X(9) X(10) X(11) X(12)
#include "attend_rows.h"

ATTENTION(avx512)
