/* spellings.h - the bytes of a model's tokens as a tree (grammar/token_trie.h), for answers that are held to a grammar.
 *
 * It takes tens of milliseconds and some megabytes, and few programs need it: it is made when it is first asked for, and
 * then serves all threads. */
#ifndef MODEL_SPELLINGS_H
#define MODEL_SPELLINGS_H

#include "../grammar/token_trie.h"

typedef struct spellings spellings;

/* The tokenizer must outlive it. vocabulary_size: ids, padding included. */
hearth_status spellings_create(spellings **out, const tokenizer *of, uint32_t vocabulary_size, hearth_error *error);
void spellings_destroy(spellings *s);

/* Points *out to the tree, which lives as long as the spellings. Any thread may call it.
 * HEARTH_NO_MEMORY; HEARTH_UNSUPPORTED: a token has more than 65535 bytes. */
hearth_status spellings_tree(spellings *s, const token_trie **out, hearth_error *error);

#endif
