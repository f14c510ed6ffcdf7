/* transpose_avx512.c - transposition with the loops of transpose.h; rows are decoded in registers. */
#include "decode_avx512.h"
#include "transpose.h"

static void to_halves(const float *values, uint16_t *halves)
{
    for (size_t i = 0; i < 32; i += LANES)
        _mm256_storeu_si256((void *)(halves + i),
                            _mm512_cvtps_ph(_mm512_loadu_ps(values + i), _MM_FROUND_TO_NEAREST_INT));
}

WEIGHT_DECODERS(TRANSPOSE_KERNEL, avx512)

const kernels avx512_transposes = {.transpose = {WEIGHT_DECODERS(TRANSPOSED, avx512)}};
