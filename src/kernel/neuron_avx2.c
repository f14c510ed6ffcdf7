/* neuron_avx2.c - neuron-major networks: selects the neurons that fire, and adds up their rows (neuron.h), with 32
 * columns in registers for one token, and tiles of 64 columns for many. */
#include "decode_avx2.h"

#define TILE_COLUMNS 64
#define PAIRS        false

/* NaN is not zero. */
ALWAYS_INLINE unsigned not_zero(__m256 v)
{
    return (unsigned)_mm256_movemask_ps(_mm256_cmp_ps(v, _mm256_setzero_ps(), _CMP_NEQ_UQ));
}

#include "neuron.h"

/* ---- which neurons fire ---- */

/* Returns which of 4 values pass, as bits. */
typedef int pass_function(__m128 value, __m128 threshold);

ALWAYS_INLINE int is_above(__m128 value, __m128 threshold)
{
    return _mm_movemask_ps(_mm_cmp_ps(value, threshold, _CMP_GT_OQ));
}

ALWAYS_INLINE int is_from(__m128 value, __m128 threshold)
{
    return _mm_movemask_ps(_mm_cmp_ps(value, threshold, _CMP_NLT_UQ));
}

/* !(|value| <= threshold), so that NaN passes */
ALWAYS_INLINE int is_beyond(__m128 value, __m128 threshold)
{
    return _mm_movemask_ps(_mm_cmp_ps(_mm_andnot_ps(_mm_set1_ps(-0.0f), value), threshold, _CMP_NLE_UQ));
}

/* The numbers of the bits that are set, in order; the entries after them do not matter. */
// clang-format off
static const int32_t packed_lanes[16][4] = {
    {0, 0, 0, 0}, {0, 0, 0, 0}, {1, 0, 0, 0}, {0, 1, 0, 0}, {2, 0, 0, 0}, {0, 2, 0, 0}, {1, 2, 0, 0}, {0, 1, 2, 0},
    {3, 0, 0, 0}, {0, 3, 0, 0}, {1, 3, 0, 0}, {0, 1, 3, 0}, {2, 3, 0, 0}, {0, 2, 3, 0}, {1, 2, 3, 0}, {0, 1, 2, 3},
};
// clang-format on

/* Selects from four values at a time. The selected ones are stored as a whole register. That never writes beyond what
 * has been read, so it is safe in place and within the n entries. */
ALWAYS_INLINE size_t select_passing(const float *values, const uint32_t *ids, uint32_t first, size_t n, float threshold,
                                    uint32_t *selected_ids, float *selected, pass_function *passes)
{
    const __m128i counting = _mm_set_epi32(3, 2, 1, 0);
    const __m128 limit = _mm_set1_ps(threshold);
    size_t count = 0, i = 0;
    for (; i + 4 <= n; i += 4) {
        __m128 value = _mm_loadu_ps(values + i);
        __m128i id = ids ? _mm_loadu_si128((const void *)(ids + i))
                         : _mm_add_epi32(counting, _mm_set1_epi32((int)(first + (uint32_t)i)));
        int pass = passes(value, limit);
        __m128i lanes = _mm_loadu_si128((const void *)packed_lanes[pass]);
        _mm_storeu_si128((void *)(selected_ids + count),
                         _mm_castps_si128(_mm_permutevar_ps(_mm_castsi128_ps(id), lanes)));
        if (selected)
            _mm_storeu_ps(selected + count, _mm_permutevar_ps(value, lanes));
        count += (size_t)__builtin_popcount((unsigned)pass);
    }
    for (; i < n; i++) {
        float value = values[i];
        uint32_t id = ids ? ids[i] : first + (uint32_t)i;
        if (passes(_mm_set1_ps(value), limit)) {
            selected_ids[count] = id;
            if (selected)
                selected[count] = value;
            count++;
        }
    }
    return count;
}

SELECT_KERNELS(avx2)

/* ---- the table ---- */

WEIGHT_DECODERS(NEURON_KERNELS, avx2)
BYTE_DECODERS(NEURON_KERNELS, avx2)

const kernels avx2_neurons = {
    .accumulate = {WEIGHT_DECODERS(ACCUMULATE, avx2) BYTE_DECODERS(ACCUMULATE, avx2)},
    .accumulate_many = {WEIGHT_DECODERS(ACCUMULATE_MANY, avx2) BYTE_DECODERS(ACCUMULATE_MANY, avx2)},
    .select = SELECTED(avx2),
};
