/* huggingface.h - reads a Hugging Face folder as a checkpoint with GGUF's names and keys.
 *
 * config.json becomes the keys that llama.cpp's converter writes, tensors are renamed by the family's rules, q and k
 * are marked with rotary_heads. Nothing is copied but names and what has to be computed (rope_freqs.weight of llama3
 * scaling). */
#ifndef MODEL_HUGGINGFACE_H
#define MODEL_HUGGINGFACE_H

#include "../base/json.h"
#include "../file/checkpoint.h"

/* Opens a folder. HEARTH_FORMAT: not a model folder, or damaged. HEARTH_UNSUPPORTED: a family or a setting that
 * hearth does not support. */
hearth_status huggingface_open(checkpoint **out, const char *folder, hearth_error *error);

/* Fills the empty checkpoint c with the keys that follow from config and with the tensors of `folder` under GGUF's
 * names; their data stays where it is. name: what errors about the config begin with. Used by huggingface_open and
 * the fuzzer. On failure c can only be closed. */
hearth_status huggingface_understand(checkpoint *c, const checkpoint *folder, const json_t *config, const char *name,
                                     hearth_error *error);

/* Adds the vocabulary of the first of a folder's files that has one (tokenizer_files in huggingface_tokenizer.c), with what
 * tokenizer_config.json, added_tokens.json, generation_config.json and config say about it; adds nothing where there is none of
 * them. */
hearth_status huggingface_add_tokenizer(checkpoint *c, const char *folder, const json_t *config, hearth_error *error);

/* Adds the chat templates of tokenizer_config.json (`settings`, parsed; NULL: there is none; `name`: begins errors about
 * it) and of chat_template.jinja. In huggingface_chat.c. */
hearth_status huggingface_add_chat(checkpoint *c, const char *folder, const json_t *settings, const char *name,
                                   hearth_error *error);

#endif
