/* sized.h - structs of hearth.h that may grow: copies between the caller's and the library's version of one.
 *
 * A caller passes the size that its struct had when it was compiled (the functions of hearth.h that end in _sized). As
 * with openat2(2) of Linux, members that one side does not know count as zero. */
#ifndef BASE_SIZED_H
#define BASE_SIZED_H

#include "error.h"

#include <stddef.h>

/* Copies the caller's struct `from` (NULL: zeros) of from_size bytes to `to` of to_size bytes; missing members become
 * zero. name: of the struct, for the error. HEARTH_UNSUPPORTED: the caller's is larger, and a byte that `to` has no
 * room for is not zero. */
hearth_status sized_read(void *to, size_t to_size, const void *from, size_t from_size, const char *name,
                         hearth_error *error);
/* Copies the library's struct `from` to the caller's `to`, of which no byte beyond to_size is written; members that the
 * library does not know become zero. */
void sized_write(void *to, size_t to_size, const void *from, size_t from_size);

#endif
