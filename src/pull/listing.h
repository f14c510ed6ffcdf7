/* listing.h - the files of a repository on the Hugging Face Hub, as its API lists them.
 *
 * An answer of /api/models/OWNER/REPO/tree/REVISION is an array of objects: "type" ("file", "directory"), "path", "size",
 * "oid" (git's hash of the file, or of its pointer), and for large files "lfs" with "oid", the SHA-256. */
#ifndef PULL_LISTING_H
#define PULL_LISTING_H

#include "../base/memory.h"
#include "../base/text.h"
#include "digest.h"

typedef struct listed_file {
    const char *path; /* within the repository; safe, as remote_name.h says */
    uint64_t size;
    digest digest; /* unknown where the listing has none */
} listed_file;

/* A zeroed one is empty. */
typedef struct listing {
    listed_file *files; /* [count] in the order of the API */
    size_t count, capacity;
    arena memory; /* of the paths */
} listing;

/* Adds the files of one answer. name: begins the errors. HEARTH_FORMAT: it is no such array, a path is not safe, a size
 * or a hash is none, or there are more than 20000 files; the listing may then hold some files of the answer. */
hearth_status listing_add(listing *l, span json, const char *name, hearth_error *error);
/* Returns the file of that path; NULL: there is none. */
const listed_file *listing_find(const listing *l, const char *path);
void listing_free(listing *l);

#endif
