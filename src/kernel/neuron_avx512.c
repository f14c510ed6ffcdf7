/* neuron_avx512.c - neuron-major networks: selects the neurons that fire, and adds up their rows (neuron_avx512.h). */
#include "neuron_avx512.h"

/* ---- which neurons fire ---- */

/* Returns which of 16 values pass. */
typedef __mmask16 pass_function(__m512 value, __m512 threshold);

ALWAYS_INLINE __mmask16 is_above(__m512 value, __m512 threshold)
{
    return _mm512_cmp_ps_mask(value, threshold, _CMP_GT_OQ);
}

ALWAYS_INLINE __mmask16 is_from(__m512 value, __m512 threshold)
{
    return _mm512_cmp_ps_mask(value, threshold, _CMP_NLT_UQ);
}

/* !(|value| <= threshold), so that NaN passes */
ALWAYS_INLINE __mmask16 is_beyond(__m512 value, __m512 threshold)
{
    return _mm512_cmp_ps_mask(_mm512_abs_ps(value), threshold, _CMP_NLE_UQ);
}

/* Selects from sixteen values at a time. The selected ones are stored as a whole register. That never writes beyond
 * what has been read, so it is safe in place and within the n entries. (Compressing stores are slow on some CPUs.) */
ALWAYS_INLINE size_t select_passing(const float *values, const uint32_t *ids, uint32_t first, size_t n, float threshold,
                                    uint32_t *selected_ids, float *selected, pass_function *passes)
{
    const __m512i counting = _mm512_set_epi32(15, 14, 13, 12, 11, 10, 9, 8, 7, 6, 5, 4, 3, 2, 1, 0);
    size_t count = 0;
    for (size_t i = 0; i < n; i += LANES) {
        __mmask16 lanes = first_lanes(n - i);
        __m512 value = _mm512_maskz_loadu_ps(lanes, values + i);
        __m512i id = ids ? _mm512_maskz_loadu_epi32(lanes, ids + i)
                         : _mm512_add_epi32(counting, _mm512_set1_epi32((int)(first + (uint32_t)i)));
        __mmask16 pass = lanes & passes(value, _mm512_set1_ps(threshold));
        _mm512_mask_storeu_epi32(selected_ids + count, lanes, _mm512_maskz_compress_epi32(pass, id));
        if (selected)
            _mm512_mask_storeu_ps(selected + count, lanes, _mm512_maskz_compress_ps(pass, value));
        count += (size_t)__builtin_popcount(pass);
    }
    return count;
}

SELECT_KERNELS(avx512)

/* ---- the table ---- */

WEIGHT_DECODERS(NEURON_KERNELS, avx512)
NEURON_KERNELS(avx512, TQ2_0, tq2_0, scales_tq2_0)

const kernels avx512_neurons = {
    .accumulate = {WEIGHT_DECODERS(ACCUMULATE, avx512) ACCUMULATE(avx512, TQ2_0, tq2_0, scales_tq2_0)},
    .accumulate_many = {WEIGHT_DECODERS(ACCUMULATE_MANY, avx512) ACCUMULATE_MANY(avx512, TQ2_0, tq2_0, scales_tq2_0)},
    .select = SELECTED(avx512),
};
