/* kernels_source.c - the kernels' one source as text, for compilers at run time. The build puts it together
 * (embed.cmake). */
#include "../driver.h"

static const unsigned char text[] = {
#include <kernels_text.inc>
    0,
};

const char *kernels_source(size_t *size_bytes)
{
    *size_bytes = sizeof(text) - 1;
    return (const char *)text;
}
