/* factors.h - matrices of a GGUF that have a factor in a tensor beside them: X.scale is that of X.weight, one number, or one for
 * each expert. llama.cpp's converter writes such files of folders in NVFP4. A product with such a matrix is multiplied with the
 * factor; here its rows become float32 times the factor when they are read (file/scaled.h). X.input_scale says how activations could
 * be rounded, and is not used. */
#ifndef MODEL_FACTORS_H
#define MODEL_FACTORS_H

#include "../file/checkpoint.h"
#include "family.h"

/* Applies factors to the tensors of c, and takes theirs out, but for those that are a part of the family, or of blocks behind its
 * `layers`, which guess tokens ahead; without any c is unchanged. Pointers to tensors that were found before become invalid.
 * HEARTH_FORMAT: factors are not finite or not of float32, are not as many as there are matrices, or belong to no matrix; c is unchanged
 * then. HEARTH_NO_MEMORY: c can only be closed. */
hearth_status factors_apply(checkpoint *c, const family *f, uint32_t layers, hearth_error *error);

#endif
