/* spellings.c - see spellings.h. */
#include "spellings.h"

#include "../base/memory.h"

#include <pthread.h>

struct spellings {
    const tokenizer *tokenizer;
    uint32_t vocabulary_size;
    pthread_mutex_t lock; /* of tree, until it is there */
    token_trie *tree;     /* NULL: nobody asked yet     */
};

hearth_status spellings_create(spellings **out, const tokenizer *of, uint32_t vocabulary_size, hearth_error *error)
{
    spellings *s = mem_new(sizeof *s);
    if (!s)
        return fail_memory(error, "tokenizer", sizeof *s);
    s->tokenizer = of;
    s->vocabulary_size = vocabulary_size;
    pthread_mutex_init(&s->lock, NULL);
    *out = s;
    return HEARTH_OK;
}

void spellings_destroy(spellings *s)
{
    if (!s)
        return;
    token_trie_destroy(s->tree);
    pthread_mutex_destroy(&s->lock);
    mem_free(s);
}

hearth_status spellings_tree(spellings *s, const token_trie **out, hearth_error *error)
{
    hearth_status status = HEARTH_OK;
    pthread_mutex_lock(&s->lock);
    if (!s->tree)
        status = token_trie_of(&s->tree, s->tokenizer, s->vocabulary_size, error);
    *out = s->tree;
    pthread_mutex_unlock(&s->lock);
    return status;
}
