/* topology.h - what the CPU is made of, through hwloc where it was built in. */
#ifndef KERNEL_TOPOLOGY_H
#define KERNEL_TOPOLOGY_H

#include <stddef.h>

/* Physical cores that this process may run on; at least 1. */
unsigned topology_cores(void);
/* Logical processors that this process may run on; at least 1. */
unsigned topology_processors(void);
/* Bytes of the last-level cache, 0 where unknown. */
size_t topology_cache_bytes(void);
/* Main memory in bytes, 0 where unknown. */
size_t topology_memory_bytes(void);
/* Of that, what could be taken now without swapping; 0 where unknown. */
size_t topology_available_bytes(void);
/* "Intel(R) Xeon(R) Processor"; "unknown CPU" where the system does not tell. */
void topology_cpu_name(char *name, size_t size);

#endif
