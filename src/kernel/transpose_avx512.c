/* transpose_avx512.c - transposition with the loops of transpose.h; rows are decoded in registers (decode.h). */
#include "decode_avx512.h"
#include "transpose.h"

WEIGHT_DECODERS(TRANSPOSE_KERNEL, avx512)

const kernels avx512_transposes = {.transpose = {WEIGHT_DECODERS(TRANSPOSED, avx512)}};
