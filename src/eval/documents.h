/* documents.h - splits a text into documents at a separator. */
#ifndef EVAL_DOCUMENTS_H
#define EVAL_DOCUMENTS_H

#include "../base/text.h"

typedef struct documents {
    span text;
    const char *separator; /* not empty                                           */
    size_t at;             /* bytes of the text already consumed, for progress */
    uint32_t left;         /* documents that may still be returned */
} documents;

/* Starts at the beginning of the text. limit: at most this many documents; 0: all. */
documents documents_of(span text, const char *separator, uint32_t limit);

/* Returns the next document without the ASCII blanks around it (it may then be empty); false: there are no more. */
bool documents_next(documents *d, span *out);

#endif
