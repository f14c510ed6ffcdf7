/* url.h - what must be known of a URL, as libcurl reads it: two readers of one URL may disagree, and that is a hole. */
#ifndef PULL_URL_H
#define PULL_URL_H

#include "../base/error.h"

/* HEARTH_INVALID: it is no URL, of another scheme than http and https, or has a user's name or password in it, which
 * messages would show. */
hearth_status url_check(const char *url, hearth_error *error);
/* Returns whether both, which were checked, have the same scheme, host and port. */
bool url_same_origin(const char *a, const char *b);
/* Returns whether one checked URL may lead on to another: not from https to http. */
bool url_may_redirect(const char *from, const char *to);
/* Returns the name of the file that a checked URL leads to, decoded; NULL: its path ends with no name that is safe here,
 * or no memory. Free with mem_free. */
char *url_file_name(const char *url);

#endif
