/* huggingface.h - a Hugging Face folder as a checkpoint with GGUF's names and keys.
 *
 * config.json becomes the keys that llama.cpp's converter writes, tensors are renamed by the
 * family's rules, q and k are marked with rotary_heads. Nothing is copied but names and what has to be
 * computed (rope_freqs.weight of llama3 scaling). */
#ifndef MODEL_HUGGINGFACE_H
#define MODEL_HUGGINGFACE_H

#include "../base/json.h"
#include "../file/checkpoint.h"

/* HEARTH_FORMAT: no model folder, or damaged. HEARTH_UNSUPPORTED: family or setting that hearth does not run. */
hearth_status huggingface_open(checkpoint **out, const char *folder, hearth_error *error);

/* Fills the empty checkpoint c with the keys that follow from config and with the tensors of `folder` as GGUF
 * names them; their data stay where they are. name: what errors about the config begin with. The fuzzer's
 * way in. On failure c is good for closing only. */
hearth_status huggingface_understand(checkpoint *c, const checkpoint *folder, const json_t *config, const char *name,
                                     hearth_error *error);

/* huggingface_tokenizer.c: the vocabulary of tokenizer.model, with what tokenizer_config.json, added_tokens.json,
 * generation_config.json and config say about it; nothing where there is no tokenizer.model. */
hearth_status huggingface_add_tokenizer(checkpoint *c, const char *folder, const json_t *config, hearth_error *error);

#endif
