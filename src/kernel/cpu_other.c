/* cpu_other.c - for processors that have only the kernels in plain C: no features, no name. */
#include "cpu.h"

unsigned cpu_features(void)
{
    return 0;
}

unsigned cpu_streams(void)
{
    return 8;
}

bool cpu_brand(char *name, size_t size)
{
    (void)name, (void)size;
    return false;
}
