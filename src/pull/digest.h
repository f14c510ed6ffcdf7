/* digest.h - what a file's content must be, as a hash says it; and the hashing, by libcrypto (digest_crypto.c).
 *
 * The Hub names large files by their SHA-256. Small ones it names as git does: the SHA-1 of "blob SIZE", a zero byte and
 * the content. SHA-1 is broken against who writes both files, not against who wants to replace one. */
#ifndef PULL_DIGEST_H
#define PULL_DIGEST_H

#include "../base/error.h"

#include <stddef.h>
#include <stdint.h>

typedef enum digest_kind { DIGEST_SHA256, DIGEST_GIT_BLOB, DIGEST_KIND_COUNT } digest_kind;

#define DIGEST_TEXT_SIZE 65 /* the longest: 64 digits of SHA-256 and the terminating 0 */

typedef struct digest {
    digest_kind kind;
    char hex[DIGEST_TEXT_SIZE]; /* lower case; "": unknown */
} digest;

/* Reads hexadecimal digits of either case. false: not as many as the kind has, or something else; *out is then unknown. */
bool digest_parse(digest *out, digest_kind kind, const char *text);
bool digest_is_known(const digest *d);
/* Returns what the kind is called, for messages ("SHA-256") and in JSON ("sha256"). */
const char *digest_kind_name(digest_kind kind);
const char *digest_kind_key(digest_kind kind);

/* A hash over bytes that come one after the other. */
typedef struct hasher hasher;

/* size_bytes: of the whole content, which a git blob's hash begins with; SHA-256 does not need it. HEARTH_NO_MEMORY;
 * HEARTH_UNSUPPORTED: libcrypto was set up without this hash. */
hearth_status hasher_create(hasher **out, digest_kind kind, uint64_t size_bytes, hearth_error *error);
/* Begins anew. */
hearth_status hasher_restart(hasher *h, hearth_error *error);
hearth_status hasher_add(hasher *h, const void *data, size_t size_bytes, hearth_error *error);
/* Writes the hash of all that was added. Only hasher_restart may follow. */
hearth_status hasher_end(hasher *h, digest *out, hearth_error *error);
void hasher_destroy(hasher *h);

#endif
