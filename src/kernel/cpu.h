/* cpu.h - detects the instruction sets that this CPU and its operating system support. */
#ifndef KERNEL_CPU_H
#define KERNEL_CPU_H

#include <stdbool.h>
#include <stddef.h>

/* The features of all architectures: groups of instruction sets that a file of kernels needs together.
 * A row has the name of the bit and the name to print. cpu_ARCHITECTURE.c detects which are present. */
#define CPU_FEATURES(X)             \
    X(AVX2, "AVX2 FMA F16C")        \
    X(AVX_VNNI, "AVX-VNNI")         \
    X(AVX512, "AVX-512 F BW DQ VL") \
    X(AVX512_VNNI, "AVX-512 VNNI")  \
    X(AVX512_VBMI, "AVX-512 VBMI")  \
    X(AVX512_BF16, "AVX-512 BF16")  \
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

/* Bytes for the names of all features. */
#define CPU_NAMES_SIZE 160

/* Returns the present features, as bits. */
unsigned cpu_features(void);

/* Writes the names of a set of features, "AVX2 FMA F16C, AVX-512 F BW DQ VL", or "any CPU" for none. Returns names. */
const char *cpu_feature_names(char names[CPU_NAMES_SIZE], unsigned features);

/* Returns how many rows this CPU best reads from memory at once, for kernel_input. */
unsigned cpu_streams(void);

/* Gets the CPU's name; false if it is not known. */
bool cpu_brand(char *name, size_t size);

#endif
