/* attend_avx2.c - attention (attend.h): scores in tiles of 2 queries x 4 positions, values in tiles of 4 queries x 16
 * dimensions. These narrow tiles read the same keys and values several times, so positions are processed in blocks that
 * stay in the L1 cache. */
#include "decode_avx2.h"

#include "exponent_avx2.h"

#define TILE_POSITIONS  4
#define TILE_REGISTERS  2
#define BLOCK_POSITIONS 32

ALWAYS_INLINE void store_scores(const __m256 sum[8], float scale, size_t left, float *first, float *second)
{
    __m256 both = _mm256_mul_ps(sum_of_8(sum), _mm256_set1_ps(scale));
    if (left >= TILE_POSITIONS) { /* on some CPUs a masked store takes as long as a quarter of the tile */
        _mm_storeu_ps(first, _mm256_castps256_ps128(both));
        _mm_storeu_ps(second, _mm256_extractf128_ps(both, 1));
    } else {
        store_first(first, left, both);
        store_first(second, left, _mm256_permute2f128_ps(both, both, 1));
    }
}

ALWAYS_INLINE float largest_lane(__m256 v)
{
    __m128 m = _mm_max_ps(_mm256_castps256_ps128(v), _mm256_extractf128_ps(v, 1));
    m = _mm_max_ps(m, _mm_movehl_ps(m, m));
    return _mm_cvtss_f32(_mm_max_ss(m, _mm_movehdup_ps(m)));
}

#include "attend.h"

/* The tiles of float_avx2.c. */
#define PANEL_ROWS    16
#define PANEL_COLUMNS 256
#define TILE_TOKENS   6
#define NEXT_TILE     3 /* nothing is prefetched: a run's queries are in the cache */

#define TILES(X) X(1) X(2) X(3) X(4) X(5) X(6)
#include "attend_rows.h"

ATTENTION(avx2)
