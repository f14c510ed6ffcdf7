/* tokenizer.h - text to token ids and back, from GGUF's vocabulary keys.
 *
 * A tokenizer is immutable once it is created (and padded) and may be shared between threads. The kinds of vocabulary
 * are rows of one table (tokenizer.ggml.model -> functions): "llama", SentencePiece's BPE; "t5", its unigram; "gpt2",
 * byte-pair encoding over bytes; "gemma4", over characters. */
#ifndef TEXT_TOKENIZER_H
#define TEXT_TOKENIZER_H

#include "../file/checkpoint.h"

typedef struct tokenizer tokenizer;

/* Builds a tokenizer from the keys of a checkpoint. Returns HEARTH_OK with *out = NULL where it has no vocabulary (no
 * tokenizer.ggml.model key). Everything is validated: array lengths agree, ids are in range, token types are known.
 * HEARTH_FORMAT: they are not. HEARTH_UNSUPPORTED: a kind of vocabulary that hearth does not know (named), or a piece
 * longer than PIECE_LIMIT. */
hearth_status tokenizer_create(tokenizer **out, const checkpoint *c, hearth_error *error);
void tokenizer_destroy(tokenizer *t);

/* Makes the ids from the vocabulary's size up to id_count valid; they stand for no text. Embeddings often have more
 * rows than the vocabulary has pieces. To be called before the tokenizer is used; a smaller id_count changes
 * nothing. */
void tokenizer_pad(tokenizer *t, uint32_t id_count);

/* Returns the number of pieces, without padding. */
uint32_t tokenizer_size(const tokenizer *t);
/* Returns an id, or -1 where the vocabulary has no such token. */
int32_t tokenizer_bos(const tokenizer *t);
int32_t tokenizer_eos(const tokenizer *t);
bool tokenizer_adds_bos(const tokenizer *t);
/* Returns true for a token that ends an answer: EOS, EOT, other end-of-turn tokens, and BOS. */
bool tokenizer_ends_answer(const tokenizer *t, int32_t id);
/* Returns the piece as the vocabulary spells it; NULL of size 0 for an id outside the vocabulary. */
span tokenizer_piece(const tokenizer *t, int32_t id);
/* Returns its hearth_token_attributes; 0 for an id outside the vocabulary. */
unsigned tokenizer_attributes(const tokenizer *t, int32_t id);
/* Appends the bytes that a token adds in the midst of a text, which need not be whole characters; nothing for control
 * tokens, the unknown one, unused ones, padding and ids outside the vocabulary. false: no memory. */
bool tokenizer_bytes(const tokenizer *t, int32_t id, buffer *out);

/* Turns text into ids. flags: hearth_text_flags. The caller frees *ids with mem_free; it is NULL where *count is 0.
 * User-defined tokens are always recognised in the text. Invalid UTF-8 becomes byte tokens (or the unknown token). */
hearth_status tokenizer_encode(const tokenizer *t, span text, unsigned flags, int32_t **ids, size_t *count,
                               hearth_error *error);

/* A shorter name for hearth.h's opaque detokenizer. */
typedef struct hearth_detokenizer detokenizer;

/* Creates a detokenizer; t must outlive it. flags: hearth_detokenize_flags. */
hearth_status detokenizer_create(detokenizer **out, const tokenizer *t, unsigned flags, hearth_error *error);
void detokenizer_destroy(detokenizer *d);
/* As hearth_detokenizer_push and _finish in hearth.h. */
hearth_status detokenizer_push(detokenizer *d, int32_t id, span *text, hearth_error *error);
void detokenizer_finish(detokenizer *d, span *text);

#endif
