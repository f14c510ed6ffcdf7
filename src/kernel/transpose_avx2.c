/* transpose_avx2.c - transposition with the loops of transpose.h; rows are decoded in registers (decode.h). */
#include "decode_avx2.h"
#include "transpose.h"

WEIGHT_DECODERS(TRANSPOSE_KERNEL, avx2)
BYTE_DECODERS(TRANSPOSE_KERNEL, avx2)

const kernels avx2_transposes = {.transpose = {WEIGHT_DECODERS(TRANSPOSED, avx2) BYTE_DECODERS(TRANSPOSED, avx2)}};
