/* host_table.h - the kernels compiled for the host device: a table for each instruction set they were compiled for. */
#ifndef DEVICE_KERNELS_HOST_TABLE_H
#define DEVICE_KERNELS_HOST_TABLE_H

#include "../driver.h"

/* Does what group `group` of `groups` has to do. arguments: as device_launch gets them, the step first; their buffers'
 * `host` is where they lie. Groups of one launch may run at once and in any order. */
typedef void host_kernel(const device_argument *arguments, uint32_t group, uint32_t groups);

typedef struct host_table {
    const char *name; /* "C", "AVX2" */
    host_kernel *run[DEVICE_KERNEL_COUNT];
} host_table;

extern const host_table host_table_c, host_table_avx2;

/* The tables that hearth was built with, from host_table_c to the best, and the features that each needs
 * (kernel/cpu.h); NULL behind the last. */
const host_table *host_table_at(size_t i, unsigned *features);

/* The best for a CPU with these features (kernel/cpu.h). */
const host_table *host_table_for(unsigned features);

#endif
