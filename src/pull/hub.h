/* hub.h - the Hugging Face Hub, or a mirror of it: what a repository holds, and where its files are. */
#ifndef PULL_HUB_H
#define PULL_HUB_H

#include "fetch.h"
#include "listing.h"

#define HUB_ENDPOINT "https://huggingface.co"

/* A state of a repository. */
typedef struct hub_place {
    const char *endpoint;   /* URL of the Hub          */
    const char *repository; /* OWNER/REPO              */
    const char *revision;   /* branch, tag or commit   */
} hub_place;

/* Lists its files, however many answers that takes. Errors as of fetch_text and listing_add; what was listed so far stays in
 * `out`. */
hearth_status hub_list(listing *out, fetcher *f, const hub_place *place, hearth_error *error);
/* Returns the URL of a file; NULL: no memory. Free with mem_free. */
char *hub_file_url(const hub_place *place, const char *path);

#endif
