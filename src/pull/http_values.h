/* http_values.h - the values of three headers, as RFC 9110 and RFC 8288 have them. */
#ifndef PULL_HTTP_VALUES_H
#define PULL_HTTP_VALUES_H

#include "../base/text.h"

#define SIZE_UNKNOWN UINT64_MAX

/* Content-Range: which bytes of a file an answer holds. */
typedef struct content_range {
    uint64_t first, last; /* both included                        */
    uint64_t total;       /* of the file; SIZE_UNKNOWN: not said  */
} content_range;

/* Reads "bytes FIRST-LAST/TOTAL", where TOTAL may be "*". false: anything else, as FIRST above LAST, or LAST not below
 * TOTAL. */
bool content_range_parse(content_range *out, const char *text);

/* Returns whether an entity tag may stand in If-Range: a quoted one, without the W/ of a weak one, which promises less than
 * equal bytes. */
bool etag_is_strong(const char *text);

/* Finds in a Link header the address of what comes next: <URL>; rel="next". false: there is none. */
bool link_next(span *out, const char *text);

#endif
