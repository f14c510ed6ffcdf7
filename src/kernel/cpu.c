/* cpu.c - names of features. */
#include "cpu.h"

#include <stdio.h>

static const char *const feature_names[CPU_FEATURE_COUNT] = {
#define X(id, name) name,
    CPU_FEATURES(X)
#undef X
};

const char *cpu_feature_names(char names[CPU_NAMES_SIZE], unsigned features)
{
    size_t length = 0;
    snprintf(names, CPU_NAMES_SIZE, "any CPU");
    for (size_t i = 0; i < CPU_FEATURE_COUNT && length < CPU_NAMES_SIZE; i++)
        if (features >> i & 1)
            length +=
                (size_t)snprintf(names + length, CPU_NAMES_SIZE - length, "%s%s", length ? ", " : "", feature_names[i]);
    return names;
}
