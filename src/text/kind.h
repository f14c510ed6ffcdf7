/* kind.h - what a kind of vocabulary provides: how plain text is cut into tokens, and which bytes a token stands for.
 *
 * Private to the text module. A kind is a row of the table in tokenizer.c. The file that implements it knows nothing
 * of special tokens, flags or BOS, which all kinds share. */
#ifndef TEXT_KIND_H
#define TEXT_KIND_H

#include "splitter.h"
#include "vocabulary.h"

/* The result and the working memory of encoding one text. */
typedef struct encoding {
    int32_t *ids; /* [count] */
    size_t count, capacity;
    bool at_begin; /* the fragment is the first of the text, and no special token stands before it */
    buffer text;   /* for the kind: the fragment in the form that it works on */
    buffer formed; /* the fragment in its normal form; for tokenizer.c */
    buffer mapped; /* ... after SentencePiece's normalisation */
    void *scratch;
    size_t scratch_bytes;
    split_memory split;
} encoding;

/* Appends an id. Returns false, and adds nothing, where there is no memory. */
bool encoding_add(encoding *e, int32_t id);
/* Returns a block of at least this size, reused for the next fragment; its content is undefined. NULL: no memory. */
void *encoding_scratch(encoding *e, size_t size_bytes);

typedef struct vocabulary_kind {
    const char *name; /* value of tokenizer.ggml.model */
    vocabulary_defaults defaults;
    /* Builds the tables for encode in v->memory; they are read-only afterwards. */
    hearth_status (*create)(void **tables, vocabulary *v, const checkpoint *c, hearth_error *error);
    /* Frees what of the tables does not lie in v->memory; NULL: there is nothing such. */
    void (*destroy)(void *tables);
    /* Changes the defaults by what else the checkpoint says; NULL: they are the same for all. */
    hearth_status (*adjust)(vocabulary_defaults *defaults, const checkpoint *c, hearth_error *error);
    /* Appends the ids of a text that holds no special tokens and is not empty. */
    hearth_status (*encode)(const void *tables, const vocabulary *v, span text, encoding *e, hearth_error *error);
    /* Writes the bytes of a token that is not a control token, with blanks as in v->blank; returns how many, at most
     * v->longest. */
    size_t (*spell)(const vocabulary *v, int32_t id, char *out);
} vocabulary_kind;

/* Copies a fragment to e->text with blanks as U+2581, and with one more in front where the vocabulary asks for it; drops extra
 * blanks where it asks for that. The result may be empty. Returns false where there is no memory. */
bool blanks_write(const vocabulary *v, span text, encoding *e);

/* The kind "llama": SentencePiece's BPE. */
hearth_status sentencepiece_create(void **tables, vocabulary *v, const checkpoint *c, hearth_error *error);
hearth_status unigram_create(void **tables, vocabulary *v, const checkpoint *c, hearth_error *error);
hearth_status unigram_encode(const void *tables, const vocabulary *v, span text, encoding *e, hearth_error *error);
hearth_status sentencepiece_encode(const void *tables, const vocabulary *v, span text, encoding *e,
                                   hearth_error *error);
size_t sentencepiece_spell(const vocabulary *v, int32_t id, char *out);

/* The kind "rwkv": the longest piece at each place. */
hearth_status longest_create(void **tables, vocabulary *v, const checkpoint *c, hearth_error *error);
hearth_status longest_encode(const void *tables, const vocabulary *v, span text, encoding *e, hearth_error *error);
size_t longest_spell(const vocabulary *v, int32_t id, char *out);

/* The kinds "gpt2" (of bytes) and "gemma4" (of characters): byte-pair encoding by ranks. */
hearth_status bpe_create_bytes(void **tables, vocabulary *v, const checkpoint *c, hearth_error *error);
hearth_status bpe_create_characters(void **tables, vocabulary *v, const checkpoint *c, hearth_error *error);
void bpe_destroy(void *tables);
hearth_status bpe_adjust(vocabulary_defaults *defaults, const checkpoint *c, hearth_error *error);
hearth_status bpe_encode(const void *tables, const vocabulary *v, span text, encoding *e, hearth_error *error);
size_t bpe_spell_bytes(const vocabulary *v, int32_t id, char *out);

#endif
