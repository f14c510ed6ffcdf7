/* host_table.h - the kernels compiled for the host device: one table per instruction set. */
#ifndef DEVICE_KERNELS_HOST_TABLE_H
#define DEVICE_KERNELS_HOST_TABLE_H

#include "../driver.h"

/* Runs group `group` of `groups`. arguments: as for device_launch, the step first; the address of a buffer is its
 * `host`. Groups of one launch may run concurrently and in any order. */
typedef void host_kernel(const device_argument *arguments, uint32_t group, uint32_t groups);

typedef struct host_table {
    const char *name; /* "C", "AVX2" */
    host_kernel *run[DEVICE_KERNEL_COUNT];
} host_table;

extern const host_table host_table_c, host_table_avx2;

/* Returns the i-th table that hearth was built with, from host_table_c to the best, and in *features the CPU features
 * that it needs (kernel/cpu.h); NULL after the last. */
const host_table *host_table_at(size_t i, unsigned *features);

/* Returns the best table for a CPU with these features (kernel/cpu.h). */
const host_table *host_table_for(unsigned features);

#endif
