/* listen.h - a socket that listens at an address. */
#ifndef SERVE_LISTEN_H
#define SERVE_LISTEN_H

#include "../base/error.h"

/* Listens at a host's first address that can be listened at. url [size]: "http://127.0.0.1:8080"; *is_local: it is
 * reached from this machine alone. HEARTH_IO: it cannot be listened at; the text says why. */
hearth_status listen_open(int *out, const char *host, uint16_t port, char *url, size_t size, bool *is_local,
                          hearth_error *error);

#endif
