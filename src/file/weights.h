/* weights.h - reads the tensors of Hugging Face folders: model.safetensors, or pytorch_model.bin, or the index of either,
 * which names a shard for every tensor. */
#ifndef FILE_WEIGHTS_H
#define FILE_WEIGHTS_H

#include "checkpoint.h"

/* Adds all tensors of a folder to c, under their own names, with shapes in GGUF's order (reversed). safetensors go before
 * torch's archives, a single file before an index. Every tensor that an index names must be in a shard, whose name must
 * be a plain file name. Errors as safetensors_add and torch_add; HEARTH_FORMAT also: there is none of these files. On
 * failure some tensors may have been added: close c. */
hearth_status weights_add_folder(checkpoint *c, const char *folder, hearth_error *error);

#endif
