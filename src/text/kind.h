/* kind.h - what a kind of vocabulary does: how plain text is cut into tokens, and what bytes a token stands for.
 *
 * Private to the text module. A kind is a row of the table in tokenizer.c; the file that implements it knows
 * nothing of special tokens, flags or BOS, which are the same for all kinds. */
#ifndef TEXT_KIND_H
#define TEXT_KIND_H

#include "vocabulary.h"

/* What is built up while one text is encoded. */
typedef struct encoding {
    int32_t *ids; /* [count] */
    size_t count, capacity;
    buffer text; /* the kind's: the fragment as the kind wants it */
    void *scratch;
    size_t scratch_bytes;
} encoding;

/* false: no memory, nothing was added. */
bool encoding_add(encoding *e, int32_t id);
/* A block of at least this size, kept for the next fragment; its content is undefined. NULL: no memory. */
void *encoding_scratch(encoding *e, size_t size_bytes);

typedef struct vocabulary_kind {
    const char *name; /* value of tokenizer.ggml.model */
    vocabulary_defaults defaults;
    const char *blank; /* how pieces spell a blank, and the character that begins a text with a space prefix */
    /* Tables for encode, from v->memory; read-only once created. */
    hearth_status (*create)(void **tables, vocabulary *v, const checkpoint *c, hearth_error *error);
    /* Adds the ids of text without special tokens; text is not empty. */
    hearth_status (*encode)(const void *tables, const vocabulary *v, span text, encoding *e, hearth_error *error);
    /* The bytes of a token that is not a control token, at most v->longest, with blanks as in `blank`. */
    size_t (*spell)(const vocabulary *v, int32_t id, char *out);
} vocabulary_kind;

/* The kind "llama": SentencePiece's BPE. */
hearth_status sentencepiece_create(void **tables, vocabulary *v, const checkpoint *c, hearth_error *error);
hearth_status sentencepiece_encode(const void *tables, const vocabulary *v, span text, encoding *e,
                                   hearth_error *error);
size_t sentencepiece_spell(const vocabulary *v, int32_t id, char *out);

#endif
