/* token_trie.h - the tokens of a vocabulary as a tree of their bytes: tokens that begin alike share the way.
 *
 * Nodes lie in the order in which a walk visits them: a node comes before its children, and `skip` tells where the walk
 * goes on if it does not enter. The tree is read-only once it is made, and may be shared between threads. */
#ifndef GRAMMAR_TOKEN_TRIE_H
#define GRAMMAR_TOKEN_TRIE_H

#include "../text/tokenizer.h"

/* Bytes that most grammars treat alike within texts: printable ASCII but for the quote and the backslash. */
static inline bool trie_is_plain(uint8_t byte)
{
    return byte >= 0x20 && byte < 0x7F && byte != '"' && byte != '\\';
}

#define TRIE_NOT_PLAIN UINT16_MAX

typedef struct trie_node {
    uint32_t skip;   /* the next node that is not below this one                               */
    uint32_t tokens; /* the first of its tokens in `ids`; they end where those of the next begin */
    uint16_t depth;  /* bytes before this one                                                    */
    uint16_t plain;  /* the most bytes below it where all of them are plain; else TRIE_NOT_PLAIN      */
    uint8_t byte;
} trie_node;

typedef struct token_trie {
    trie_node *nodes; /* [node_count + 1] the last one only ends the tokens */
    uint32_t node_count;
    int32_t *ids;     /* [id_count] tokens that have bytes, in the order of these           */
    uint32_t *begins; /* [vocabulary_size + 1] token -> its first byte in `bytes`           */
    uint8_t *bytes;
    uint64_t *ends;           /* [(vocabulary_size + 63) / 64] bits: tokens that end an answer */
    uint32_t vocabulary_size; /* ids, padding included                                         */
    uint32_t id_count;
    uint32_t longest; /* bytes of the longest token */
} token_trie;

/* Tokens given by their bytes: texts [count]; empty ones are never allowed. ends [count]: whether a token ends an
 * answer; its text does not count then. HEARTH_UNSUPPORTED: a text of more than 65535 bytes, or 4 GB in all. */
hearth_status token_trie_create(token_trie **out, const span *texts, const bool *ends, uint32_t count,
                                hearth_error *error);
/* The tokens of a tokenizer, and padding up to id_count. Control tokens, the unknown token and unused ones have no
 * bytes. */
hearth_status token_trie_of(token_trie **out, const tokenizer *t, uint32_t id_count, hearth_error *error);
void token_trie_destroy(token_trie *t);

/* The bytes of a token; none for an id outside the vocabulary. */
span token_trie_bytes(const token_trie *t, int32_t id);
bool token_trie_ends(const token_trie *t, int32_t id);

#endif
