/* tiktoken.h - reads the vocabularies that tiktoken's files hold, as keys of GGUF: tokenizer.ggml.model "gpt2" (bpe.c), .tokens,
 * .token_type, .merges, and .pre. Format: tiktoken, load.py; the only published models that have such a file under this name, those
 * of Moonshot, cut texts in one way, which the file does not say. */
#ifndef TEXT_TIKTOKEN_H
#define TEXT_TIKTOKEN_H

#include "../file/checkpoint.h"

#define TIKTOKEN_FILE "tiktoken.model"

/* Adds the keys of a file; of a text in memory: a line for each piece, its bytes in base64, a blank, and its rank, which is its id,
 * from 0 on. The file has no list of merges: a piece is made of the two parts that its bytes merge into by pieces of lower rank, and
 * one whose bytes do not come down to two parts is never made. HEARTH_FORMAT: a line is something else (named), two pieces are alike,
 * or a byte has no piece. */
hearth_status tiktoken_add(checkpoint *c, const char *path, hearth_error *error);
hearth_status tiktoken_parse(checkpoint *c, span text, const char *name, hearth_error *error);

#endif
