/* transfer.h - one GET over HTTP: redirects, the token, limits of time. What an answer means is decided by the caller.
 *
 * Redirects are followed here and not by libcurl, so that these rules stand in one place: only http and https; from https
 * never to http; at most ten; and the token goes to the origin (scheme, host and port) that it is for, to no other. */
#ifndef PULL_TRANSFER_H
#define PULL_TRANSFER_H

#include "../base/error.h"

#include <stddef.h>
#include <stdint.h>

/* Connections, which stay open from one GET to the next. For one thread. */
typedef struct transfer transfer;

typedef struct transfer_options {
    const char *token;         /* NULL: none                                                            */
    const char *token_origin;  /* a URL of the origin that the token is for                              */
    const char *certificates;  /* a file of certificates to trust; NULL: those of the system            */
    uint32_t timeout_seconds;  /* without a connection, or with less than 1000 bytes/s, it is given up   */
    bool (*go_on)(void *user); /* asked at least once a second; false cancels. NULL: nobody is asked     */
    void *user;
} transfer_options;

/* The head of an answer that is no redirect. Texts are NULL where a header is missing, and valid during the call. */
typedef struct transfer_head {
    long status;
    uint64_t length;       /* of the body; SIZE_UNKNOWN (http_values.h): not said */
    uint32_t wait_seconds; /* what Retry-After asks for; 0: nothing               */
    const char *content_range, *content_type, *content_encoding, *etag, *last_modified, *link;
    const char *reason; /* the Hub's own words on an error */
} transfer_head;

typedef struct transfer_request {
    const char *url;
    uint64_t offset;       /* asks for the bytes from here on; 0: for all           */
    const char *validator; /* of the content that these must belong to; NULL: none */
    /* Called once, before the body. *stop: the body is not wanted. */
    hearth_status (*head)(void *user, const transfer_head *head, bool *stop, hearth_error *error);
    hearth_status (*body)(void *user, const void *data, size_t size_bytes, hearth_error *error);
    void *user;
} transfer_request;

/* HEARTH_NO_MEMORY, HEARTH_IO: libcurl cannot begin. `options` must live as long. */
hearth_status transfer_open(transfer **out, const transfer_options *options, hearth_error *error);
void transfer_close(transfer *t);

/* Asks, and passes on the answer. *transient: on failure, whether the same may succeed later (the connection broke, the host
 * was not reached). HEARTH_IO: the network's or the server's fault. HEARTH_CANCELLED: go_on said so. Else what a callback
 * returned. */
hearth_status transfer_run(transfer *t, const transfer_request *request, bool *transient, hearth_error *error);

#endif
