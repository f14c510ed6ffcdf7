/* sized.c - copies structs whose size differs between the caller and the library. */
#include "sized.h"

#include <string.h>

hearth_status sized_read(void *to, size_t to_size, const void *from, size_t from_size, const char *name,
                         hearth_error *error)
{
    size_t known = from_size < to_size ? from_size : to_size;
    memset(to, 0, to_size);
    if (!from)
        return HEARTH_OK;
    for (size_t i = known; i < from_size; i++)
        if (((const char *)from)[i] != 0)
            return fail(error, HEARTH_UNSUPPORTED, "%s: a member is set that hearth %s does not know", name,
                        HEARTH_VERSION);
    memcpy(to, from, known);
    return HEARTH_OK;
}

void sized_write(void *to, size_t to_size, const void *from, size_t from_size)
{
    size_t known = from_size < to_size ? from_size : to_size;
    memcpy(to, from, known);
    memset((char *)to + known, 0, to_size - known);
}
