/* cpu.h - which instruction sets this CPU and its operating system offer. */
#ifndef KERNEL_CPU_H
#define KERNEL_CPU_H

#include <stdbool.h>
#include <stddef.h>

/* Features, of all processors that hearth knows: groups of instructions that a file of kernels needs as a whole.
 * A row is the name of the bit, and the group's name for people. cpu_ARCHITECTURE.c finds out which are there. */
#define CPU_FEATURES(X)             \
    X(AVX2, "AVX2 FMA F16C")        \
    X(AVX_VNNI, "AVX-VNNI")         \
    X(AVX512, "AVX-512 F BW DQ VL") \
    X(AVX512_VNNI, "AVX-512 VNNI")  \
    X(AVX512_VBMI, "AVX-512 VBMI")  \
    X(NEON, "NEON")                 \
    X(DOTPROD, "dot products of bytes (ASIMDDP)")

enum {
#define X(id, name) CPU_INDEX_##id,
    CPU_FEATURES(X)
#undef X
        CPU_FEATURE_COUNT
};

enum {
#define X(id, name) CPU_##id = 1 << CPU_INDEX_##id,
    CPU_FEATURES(X)
#undef X
};

/* Room for the names of all features. */
#define CPU_NAMES_SIZE 160

/* What there is, as a sum of bits. */
unsigned cpu_features(void);

/* The names of a set of features, "AVX2 FMA F16C, AVX-512 F BW DQ VL"; "any CPU" for none. Returns names. */
const char *cpu_feature_names(char names[CPU_NAMES_SIZE], unsigned features);

/* The CPU's own name for itself; false where it has none. */
bool cpu_brand(char *name, size_t size);

#endif
