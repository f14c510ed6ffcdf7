/* tokenizer.h - text to token ids and back, from GGUF's vocabulary keys.
 *
 * A tokenizer is immutable once created (and padded) and may be shared between threads. The kinds of vocabulary are
 * rows of one table (tokenizer.ggml.model -> functions); the first is "llama", SentencePiece's BPE: the
 * pair with the best score is merged until none is left, bytes stand in for what has no piece. */
#ifndef TEXT_TOKENIZER_H
#define TEXT_TOKENIZER_H

#include "../file/checkpoint.h"

typedef struct tokenizer tokenizer;

/* *out = NULL with HEARTH_OK where the checkpoint has no vocabulary (no tokenizer.ggml.model key).
 * Everything is validated: array lengths agree, ids in range, token types known.
 * HEARTH_UNSUPPORTED: a kind of vocabulary that hearth does not know (named). */
hearth_status tokenizer_create(tokenizer **out, const checkpoint *c, hearth_error *error);
void tokenizer_destroy(tokenizer *t);

/* Embeddings often have more rows than the vocabulary has pieces: ids from its size up to id_count exist then, and
 * stand for no text. Before the tokenizer is used; a smaller id_count changes nothing. */
void tokenizer_pad(tokenizer *t, uint32_t id_count);

/* Pieces of the vocabulary, padding not counted. */
uint32_t tokenizer_size(const tokenizer *t);
/* Ids, or -1. */
int32_t tokenizer_bos(const tokenizer *t);
int32_t tokenizer_eos(const tokenizer *t);
bool tokenizer_adds_bos(const tokenizer *t);
/* EOS, EOT and their like, and BOS: whatever ends an answer. */
bool tokenizer_ends_answer(const tokenizer *t, int32_t id);
/* The piece as the vocabulary spells it. */
span tokenizer_piece(const tokenizer *t, int32_t id);

/* flags: hearth_text_flags. *ids by mem_new (mem_free), NULL when *count is 0. User-defined tokens are always
 * recognised in the text. Invalid UTF-8 becomes byte tokens (or the unknown token). */
hearth_status tokenizer_encode(const tokenizer *t, span text, unsigned flags, int32_t **ids, size_t *count,
                               hearth_error *error);

/* hearth.h's opaque detokenizer under the name it has here. */
typedef struct hearth_detokenizer detokenizer;

/* flags: hearth_detokenize_flags. */
hearth_status detokenizer_create(detokenizer **out, const tokenizer *t, unsigned flags, hearth_error *error);
void detokenizer_destroy(detokenizer *d);
/* See hearth_detokenizer_push and _finish. */
hearth_status detokenizer_push(detokenizer *d, int32_t id, span *text, hearth_error *error);
void detokenizer_finish(detokenizer *d, span *text);

#endif
