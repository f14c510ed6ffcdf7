/* topology.h - cores, caches and memory of this machine, through hwloc if it is built in. */
#ifndef KERNEL_TOPOLOGY_H
#define KERNEL_TOPOLOGY_H

#include <stddef.h>

/* Returns the number of physical cores that this process may run on; at least 1. */
unsigned topology_cores(void);
/* Returns the number of logical processors that this process may run on; at least 1. */
unsigned topology_processors(void);
/* Returns the bytes of the last-level cache, 0 if unknown. */
size_t topology_cache_bytes(void);
/* Returns the bytes of main memory, 0 if unknown. */
size_t topology_memory_bytes(void);
/* Returns the bytes of main memory that could be allocated now without swapping, 0 if unknown. */
size_t topology_available_bytes(void);
/* Writes the CPU's name, like "Intel(R) Xeon(R) Processor"; "unknown CPU" if it is not known. */
void topology_cpu_name(char *name, size_t size);

#endif
