/* chat.h - the chat template of a model: where it is, and what it needs of the vocabulary. */
#ifndef MODEL_CHAT_H
#define MODEL_CHAT_H

#include "../chat/conversation.h"
#include "../file/checkpoint.h"
#include "../text/tokenizer.h"

/* Finds the source of a template: the model's own (name NULL), one of the model's others by its name ("tool_use"), or one
 * of hearth's own (chat/named.h). *out is valid as long as the checkpoint.
 * HEARTH_UNSUPPORTED: the model has none. HEARTH_INVALID: there is none of that name. HEARTH_FORMAT: it is no text. */
hearth_status model_chat_source(const checkpoint *c, const char *name, span *out, hearth_error *error);

/* Sets what a conversation needs of the vocabulary: the texts of BOS and EOS. t may be NULL. */
void model_chat_tokens(const tokenizer *t, conversation *out);

/* Turns a rendered conversation into ids: control tokens in it are recognised, EOS is not added, and BOS only where the
 * vocabulary wants one and the template did not write it. As tokenizer_encode. */
hearth_status model_chat_encode(const tokenizer *t, span text, int32_t **ids, size_t *count, hearth_error *error);

#endif
