/* cpu_other.c - a processor for which there are no kernels but those in plain C. */
#include "cpu.h"

unsigned cpu_features(void)
{
    return 0;
}

bool cpu_brand(char *name, size_t size)
{
    (void)name, (void)size;
    return false;
}
