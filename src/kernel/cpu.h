/* cpu.h - which instruction sets this CPU and its operating system offer. */
#ifndef KERNEL_CPU_H
#define KERNEL_CPU_H

#include <stdbool.h>
#include <stddef.h>

/* Groups of instructions, each of which a level needs as a whole. */
enum {
    CPU_AVX2 = 1,   /* AVX2, FMA, F16C                                 */
    CPU_AVX512 = 2, /* F, BW, DQ, VL, VNNI, VBMI: Ice Lake, Zen 4, ... */
};

unsigned cpu_features(void);

/* The CPU's own name for itself; false where it has none. */
bool cpu_brand(char *name, size_t size);

#endif
