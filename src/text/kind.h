/* kind.h - what a kind of vocabulary provides: how plain text is cut into tokens, and which bytes a token stands for.
 *
 * Private to the text module. A kind is a row of the table in tokenizer.c. The file that implements it knows nothing
 * of special tokens, flags or BOS, which all kinds share. */
#ifndef TEXT_KIND_H
#define TEXT_KIND_H

#include "vocabulary.h"

/* The result and the working memory of encoding one text. */
typedef struct encoding {
    int32_t *ids; /* [count] */
    size_t count, capacity;
    buffer text; /* for the kind: the fragment in the form that it works on */
    void *scratch;
    size_t scratch_bytes;
} encoding;

/* Appends an id. Returns false, and adds nothing, where there is no memory. */
bool encoding_add(encoding *e, int32_t id);
/* Returns a block of at least this size, reused for the next fragment; its content is undefined. NULL: no memory. */
void *encoding_scratch(encoding *e, size_t size_bytes);

typedef struct vocabulary_kind {
    const char *name; /* value of tokenizer.ggml.model */
    vocabulary_defaults defaults;
    const char *blank; /* how pieces spell a blank; also the character put in front of a text where adds_space_prefix
                          is set */
    /* Builds the tables for encode in v->memory; they are read-only afterwards. */
    hearth_status (*create)(void **tables, vocabulary *v, const checkpoint *c, hearth_error *error);
    /* Appends the ids of a text that holds no special tokens and is not empty. */
    hearth_status (*encode)(const void *tables, const vocabulary *v, span text, encoding *e, hearth_error *error);
    /* Writes the bytes of a token that is not a control token, with blanks as in `blank`; returns how many, at most
     * v->longest. */
    size_t (*spell)(const vocabulary *v, int32_t id, char *out);
} vocabulary_kind;

/* The kind "llama": SentencePiece's BPE. */
hearth_status sentencepiece_create(void **tables, vocabulary *v, const checkpoint *c, hearth_error *error);
hearth_status sentencepiece_encode(const void *tables, const vocabulary *v, span text, encoding *e,
                                   hearth_error *error);
size_t sentencepiece_spell(const vocabulary *v, int32_t id, char *out);

#endif
