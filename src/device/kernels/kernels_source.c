/* kernels_source.c - the source of all kernels as one text, for compilation at run time. The build assembles it
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
