/* internal.h - the fields of a tokenizer; for tokenizer.c and detokenizer.c. */
#ifndef TEXT_INTERNAL_H
#define TEXT_INTERNAL_H

#include "kind.h"
#include "tokenizer.h"

struct tokenizer {
    const vocabulary_kind *kind;
    vocabulary vocabulary;
    void *tables;      /* of the kind; in the vocabulary's memory                            */
    uint32_t id_count; /* valid ids; those at or above the vocabulary's count are padding, without text */
};

#endif
