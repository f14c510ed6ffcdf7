/* fetch.h - one URL to one file, or to memory: tries again where that may help, goes on where an earlier try ended, and
 * compares what came with what was promised.
 *
 * A server is not trusted: not to answer the range that was asked for, not to send as much as it announced, not to send what
 * it listed. What it sends instead ends in an error, or in beginning anew once, never in a file of the wanted name. */
#ifndef PULL_FETCH_H
#define PULL_FETCH_H

#include "digest.h"
#include "http_values.h"

#include "../base/memory.h"

typedef struct fetch_options {
    const char *token, *token_origin; /* as in transfer.h */
    const char *certificates;
    uint32_t timeout_seconds;
    uint32_t retries;     /* tries after a failed one, in a row; one that brought a megabyte counts as a success */
    double delay_seconds; /* before the first of these; doubles each time, up to a minute */
    bool replace;         /* existing files of other content */
    hearth_progress progress;
    hearth_log log; /* says why there is another try */
} fetch_options;

/* Connections and options. For one thread. */
typedef struct fetcher fetcher;

/* `o` must live as long. Errors as of transfer_open. */
hearth_status fetcher_open(fetcher **out, const fetch_options *o, hearth_error *error);
void fetcher_close(fetcher *f);

typedef struct fetch_source {
    const char *url;
    uint64_t size; /* SIZE_UNKNOWN: any                                     */
    digest digest; /* unknown: its kind is computed, and nothing is compared */
} fetch_source;

/* What became of a file, in words for JSON. */
#define FETCH_STATES(X)                           \
    X(DOWNLOADED, "downloaded")                   \
    X(RESUMED, "resumed") /* of an earlier run */ \
    X(PRESENT, "present") /* it was there, complete: nothing was written */

typedef enum fetch_state {
#define X(name, text) FETCH_##name,
    FETCH_STATES(X)
#undef X
} fetch_state;

const char *fetch_state_name(fetch_state state);

typedef struct fetch_result {
    fetch_state state;
    uint64_t size;
    uint64_t received; /* bytes of this run                       */
    digest digest;     /* unknown for what was present without one */
    double seconds;
} fetch_result;

/* Fetches a file. what: what progress calls it; it must live as long as the progress. HEARTH_IO: the network's, the server's
 * or the disk's fault; FILE.part stays where a later try can go on with it, and is removed where its digest is wrong. The
 * same where target exists and is another file, unless it may be replaced. HEARTH_CANCELLED: FILE.part stays, and the error
 * says so. */
hearth_status fetch_file(fetcher *f, const fetch_source *source, const char *target, const char *what,
                         fetch_result *out, hearth_error *error);

/* Fetches a text of at most `limit` bytes. *next: where its Link header says that it goes on (mem_free); NULL: nowhere. */
hearth_status fetch_text(fetcher *f, const char *url, size_t limit, buffer *out, char **next, hearth_error *error);

#endif
