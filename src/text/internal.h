/* internal.h - what a tokenizer consists of; for tokenizer.c and detokenizer.c. */
#ifndef TEXT_INTERNAL_H
#define TEXT_INTERNAL_H

#include "kind.h"
#include "tokenizer.h"

struct tokenizer {
    const vocabulary_kind *kind;
    vocabulary vocabulary;
    void *tables;      /* the kind's, in the vocabulary's memory                             */
    uint32_t id_count; /* ids that exist; those behind the vocabulary's stand for no text    */
};

#endif
