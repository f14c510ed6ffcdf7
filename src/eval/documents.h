/* documents.h - the documents of a text that has a separator between them. */
#ifndef EVAL_DOCUMENTS_H
#define EVAL_DOCUMENTS_H

#include "../base/text.h"

typedef struct documents {
    span text;
    const char *separator; /* not empty                                           */
    size_t at;             /* bytes of the text that are behind us, for progress  */
    uint32_t left;         /* documents that may still come                       */
} documents;

/* limit: only so many documents; 0: all. */
documents documents_of(span text, const char *separator, uint32_t limit);

/* The next one without ASCII blanks around it, which may leave nothing; false: there are no more. */
bool documents_next(documents *d, span *out);

#endif
