/* part.h - a file on its way: FILE.part, which becomes FILE once it is complete, and FILE.part.json, which says of what
 * content it is a part.
 *
 * Unlike base's file_writer it is meant to be found again: whatever ends the program, the bytes that came stay, and the
 * next try goes on behind them. Nothing else bears FILE's name before all of it is there and on disk. */
#ifndef PULL_PART_H
#define PULL_PART_H

#include "digest.h"

typedef struct part part;

/* What is wanted, and what to call while bytes that are there already are hashed again. */
typedef struct part_options {
    const char *target; /* FILE */
    const char *url;
    digest digest; /* of the content; unknown: nothing is compared          */
    uint64_t size; /* of the content; SIZE_UNKNOWN (http_values.h): any      */
    hearth_progress progress;
    const char *checking; /* what the progress is of */
} part_options;

/* Opens FILE.part and hashes what it holds, or empties it: where it came from another URL, belongs to another digest, or
 * nothing can tell whether the content is still the same. `o` must live as long. HEARTH_IO: it cannot be opened, is not a
 * plain file, or another process has it open for the same purpose. HEARTH_CANCELLED: by the progress. */
hearth_status part_open(part **out, const part_options *o, hearth_error *error);
/* Closes it. It stays where a later try can go on with it (part_is_useful), else it is removed. */
void part_close(part *p);

/* Returns whether it holds bytes that belong to something: to what a validator names, or to a digest. */
bool part_is_useful(const part *p);
uint64_t part_size(const part *p);
/* Returns the path of FILE.part. */
const char *part_path(const part *p);
/* Returns the bytes of the whole content, as wanted or as a server said; SIZE_UNKNOWN: nobody said. */
uint64_t part_total(const part *p);
/* Returns what a server called the content of these bytes, for If-Range (an entity tag, or a date); NULL: nothing. */
const char *part_validator(const part *p);

/* Empties it. */
hearth_status part_restart(part *p, hearth_error *error);
/* Writes down what the server calls the content whose bytes follow (NULL: nothing), and its size. A failure costs a later
 * try the bytes that came, and is no error. */
void part_remember(part *p, const char *validator, uint64_t total);
/* Appends. HEARTH_IO: for example a full disk; what was written before stays. */
hearth_status part_put(part *p, const void *data, size_t size_bytes, hearth_error *error);

/* Computes the digest of all bytes; only part_restart, part_commit or part_remove may follow. */
hearth_status part_digest(part *p, digest *out, hearth_error *error);
/* Brings it to disk and names it FILE. replace: an existing FILE is replaced; else HEARTH_IO. */
hearth_status part_commit(part *p, bool replace, hearth_error *error);
/* Removes both files. */
void part_remove(part *p);

/* Computes the digest of a file that is there. */
hearth_status part_hash_file(const char *path, digest_kind kind, hearth_progress progress, const char *checking,
                             digest *out, hearth_error *error);

#endif
