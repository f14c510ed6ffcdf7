/* topology.c - cores, caches and memory, through hwloc if it is built in, else from Linux.
 *
 * hwloc takes cpusets (containers, taskset) and hyper-threads into account. Loading its topology takes
 * milliseconds, so callers ask once, at start. */
#include "topology.h"

#include "cpu.h"

#include <sched.h>
#include <stdio.h>
#include <unistd.h>

unsigned topology_processors(void)
{
    cpu_set_t set;
    if (sched_getaffinity(0, sizeof(set), &set) == 0 && CPU_COUNT(&set) > 0)
        return (unsigned)CPU_COUNT(&set);
    long online = sysconf(_SC_NPROCESSORS_ONLN);
    return online > 0 ? (unsigned)online : 1;
}

size_t topology_memory_bytes(void)
{
    long pages = sysconf(_SC_PHYS_PAGES), size = sysconf(_SC_PAGESIZE);
    return pages > 0 && size > 0 ? (size_t)pages * (size_t)size : 0;
}

size_t topology_available_bytes(void)
{
    FILE *file = fopen("/proc/meminfo", "r");
    char line[128];
    unsigned long long kilobytes = 0;
    while (file && kilobytes == 0 && fgets(line, sizeof line, file))
        if (sscanf(line, "MemAvailable: %llu kB", &kilobytes) != 1)
            kilobytes = 0;
    if (file)
        fclose(file);
    return (size_t)kilobytes * 1024;
}

void topology_cpu_name(char *name, size_t size)
{
    if (!cpu_brand(name, size))
        snprintf(name, size, "unknown CPU");
}

#ifdef HEARTH_HAVE_HWLOC

#include <hwloc.h>

/* Loads hwloc's topology; NULL if hwloc cannot read this machine. */
static hwloc_topology_t load(void)
{
    hwloc_topology_t topology;
    if (hwloc_topology_init(&topology) != 0)
        return NULL;
    if (hwloc_topology_load(topology) == 0)
        return topology;
    hwloc_topology_destroy(topology);
    return NULL;
}

unsigned topology_cores(void)
{
    unsigned processors = topology_processors(), cores = 0;
    hwloc_topology_t topology = load();
    if (!topology)
        return processors;
    hwloc_bitmap_t mine = hwloc_bitmap_alloc();
    if (mine && hwloc_get_cpubind(topology, mine, HWLOC_CPUBIND_PROCESS) == 0)
        for (hwloc_obj_t core = NULL; (core = hwloc_get_next_obj_by_type(topology, HWLOC_OBJ_CORE, core));)
            cores += hwloc_bitmap_intersects(core->cpuset, mine) != 0;
    hwloc_bitmap_free(mine);
    hwloc_topology_destroy(topology);
    return cores > 0 && cores < processors ? cores : processors;
}

size_t topology_cache_bytes(void)
{
    static const hwloc_obj_type_t types[] = {HWLOC_OBJ_L3CACHE, HWLOC_OBJ_L2CACHE, HWLOC_OBJ_L1CACHE};
    hwloc_topology_t topology = load();
    if (!topology)
        return 0;
    size_t bytes = 0;
    for (size_t i = 0; i < sizeof(types) / sizeof(*types) && bytes == 0; i++) {
        hwloc_obj_t cache = hwloc_get_next_obj_by_type(topology, types[i], NULL);
        bytes = cache ? (size_t)cache->attr->cache.size : 0;
    }
    hwloc_topology_destroy(topology);
    return bytes;
}

#else

/* Returns the first number of a file, 0 if there is none. A suffix K multiplies by 1024. */
static size_t number_in(const char *path)
{
    FILE *file = fopen(path, "r");
    if (!file)
        return 0;
    unsigned long value = 0;
    char unit = '\0';
    int got = fscanf(file, "%lu%c", &value, &unit);
    fclose(file);
    return got < 1 ? 0 : (size_t)value * (unit == 'K' ? 1024 : 1);
}

unsigned topology_cores(void)
{
    cpu_set_t mine;
    if (sched_getaffinity(0, sizeof(mine), &mine) != 0)
        return topology_processors();
    /* A core is identified by the first of its hyper-threads (the lowest, even if this process may not run there). */
    unsigned cores = 0;
    cpu_set_t counted;
    CPU_ZERO(&counted);
    for (unsigned cpu = 0; cpu < CPU_SETSIZE; cpu++) {
        if (!CPU_ISSET(cpu, &mine))
            continue;
        char path[96];
        snprintf(path, sizeof(path), "/sys/devices/system/cpu/cpu%u/topology/thread_siblings_list", cpu);
        size_t first = access(path, R_OK) == 0 ? number_in(path) : cpu;
        if (first >= CPU_SETSIZE || CPU_ISSET(first, &counted))
            continue;
        CPU_SET(first, &counted);
        cores++;
    }
    return cores > 0 ? cores : 1;
}

size_t topology_cache_bytes(void)
{
    size_t bytes = 0;
    for (unsigned index = 0; index < 8; index++) { /* the highest level comes last */
        char path[96];
        snprintf(path, sizeof(path), "/sys/devices/system/cpu/cpu0/cache/index%u/size", index);
        size_t found = number_in(path);
        bytes = found ? found : bytes;
    }
    return bytes;
}

#endif
