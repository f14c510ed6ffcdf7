/* neuron_avx512.h - adds up the rows of neurons (neuron.h), compiled with VBMI (neuron_avx512vbmi.c) and without
 * (neuron_avx512.c): 128 columns in registers for one token, tiles of 128 columns (32 KiB) for many. */
#ifndef KERNEL_NEURON_AVX512_H
#define KERNEL_NEURON_AVX512_H

#include "decode_avx512.h"

#define TILE_COLUMNS 128
#define PAIRS        true

/* NaN is not zero. */
ALWAYS_INLINE unsigned not_zero(__m512 v)
{
    return _mm512_cmp_ps_mask(v, _mm512_setzero_ps(), _CMP_NEQ_UQ);
}

#include "neuron.h"

#endif
