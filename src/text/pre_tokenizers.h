/* pre_tokenizers.h - how published vocabularies of byte-pair encoding cut a text into words, by name.
 *
 * Private to the text module. GGUF files name their pre-tokenizer (tokenizer.ggml.pre); the expressions themselves are
 * those of the models' tokenizer.json. What llama.cpp knows of a name, such as whether BOS is added, is here too. */
#ifndef TEXT_PRE_TOKENIZERS_H
#define TEXT_PRE_TOKENIZERS_H

#include "../base/text.h"

enum { PRE_TOKENIZER_RULES = 6 };

typedef struct pre_tokenizer {
    const char *names;                            /* values of the key, separated by blanks                    */
    const char *expressions[PRE_TOKENIZER_RULES]; /* matches are isolated (splitter.h); NULL behind the last   */
    bool ignores_merges; /* a word that is a piece is that piece, whether or not merges lead to it             */
    bool adds_bos;       /* where no key says                                                                  */
} pre_tokenizer;

/* Returns the row of a name, or NULL where hearth does not know it. */
const pre_tokenizer *pre_tokenizer_find(span name);
/* Returns row `index`, in the order of the table; NULL behind the last. */
const pre_tokenizer *pre_tokenizer_at(size_t index);

#endif
