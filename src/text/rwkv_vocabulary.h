/* rwkv_vocabulary.h - reads the list of pieces that RWKV's folders have as keys of GGUF: tokenizer.ggml.model "rwkv" (longest.c),
 * .tokens, .token_type, and the ids of special tokens. */
#ifndef TEXT_RWKV_VOCABULARY_H
#define TEXT_RWKV_VOCABULARY_H

#include "../file/checkpoint.h"

#define RWKV_KIND            "rwkv"
#define RWKV_VOCABULARY_FILE "rwkv_vocab_v20230424.txt"

/* Adds the keys of a file; of a text in memory: a line for each piece, "ID LITERAL LENGTH", ids from 1 on, the literal one of
 * Python's texts or bytes, its length in bytes. Id 0 ends a text and has no line. HEARTH_FORMAT: a line is something else (named). */
hearth_status rwkv_vocabulary_add(checkpoint *c, const char *path, hearth_error *error);
hearth_status rwkv_vocabulary_parse(checkpoint *c, span text, const char *name, hearth_error *error);

/* Sets again what the other files of such a folder say wrongly: that id 0 begins and ends a text, and that an empty line ends an
 * answer. Other vocabularies stay as they are. */
hearth_status rwkv_vocabulary_finish(checkpoint *c, hearth_error *error);

#endif
