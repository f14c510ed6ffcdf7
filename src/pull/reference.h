/* reference.h - a model on the Hugging Face Hub, as a user names it: OWNER/REPO, OWNER/REPO:QUANT or OWNER/REPO/FILE. */
#ifndef PULL_REFERENCE_H
#define PULL_REFERENCE_H

#include "../base/memory.h"
#include "../base/text.h"

typedef struct reference {
    const char *repository;   /* OWNER/REPO                                */
    const char *file;         /* path within it; NULL: not named           */
    const char *quantization; /* as in "Q4_K_M"; NULL: not named           */
} reference;

/* Reads it; texts are copied to `memory`. HEARTH_INVALID: it has another form; the error says which is expected. */
hearth_status reference_parse(reference *out, const char *text, arena *memory, hearth_error *error);
/* Returns whether a name is meant to be a URL, and so no reference. */
bool reference_is_url(const char *name);
/* Returns whether a text may be a revision of a repository: a branch, tag or commit. */
bool reference_is_revision(const char *text);

#endif
