/* transpose_avx2.c - transposition with the loops of transpose.h; rows are decoded in registers. */
#include "decode_avx2.h"
#include "transpose.h"

static void to_halves(const float *values, uint16_t *halves)
{
    for (size_t i = 0; i < 32; i += LANES)
        _mm_storeu_si128((void *)(halves + i), _mm256_cvtps_ph(_mm256_loadu_ps(values + i), _MM_FROUND_TO_NEAREST_INT));
}

WEIGHT_DECODERS(TRANSPOSE_KERNEL, avx2)

const kernels avx2_transposes = {.transpose = {WEIGHT_DECODERS(TRANSPOSED, avx2)}};
