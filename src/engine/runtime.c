/* runtime.c - the runtime: the threads, the kernels and the device that engines run on. */
#include "engine.h"

#include "../base/memory.h"
#include "../kernel/topology.h"

/* More than any machine has; a larger number is a typing error. */
#define MAX_THREADS 1024

hearth_status hearth_runtime_create(hearth_runtime **out, const hearth_runtime_options *options, hearth_error *error)
{
    static const hearth_runtime_options defaults = {0};
    if (!options)
        options = &defaults;
    size_t level;
    TRY(kernel_level_choose(&level, options->cpu_level, error));
    unsigned threads = options->threads ? options->threads : topology_cores();
    if (threads > MAX_THREADS)
        return fail(error, HEARTH_INVALID, "runtime: %u threads are more than the %d that make sense", threads,
                    MAX_THREADS);

    hearth_runtime *r = mem_new(sizeof *r);
    if (!r)
        return fail_memory(error, "runtime", sizeof *r);
    r->level = level;
    size_t memory = topology_memory_bytes();
    r->memory_bytes = options->memory_bytes ? options->memory_bytes : memory ? memory : UINT64_MAX;
    pthread_mutex_init(&r->device_lock, NULL);
    kernels_for(level, &r->kernels);
    /* The device comes first: its driver is tried in a forked child, which is safest with few threads. */
    hearth_status status = HEARTH_OK;
    if (options->device)
        status = device_open(&r->device, options->device, options->cache_folder, error);
    if (status == HEARTH_OK)
        status = pool_create(&r->threads, threads, error);
    if (status != HEARTH_OK) {
        hearth_runtime_destroy(r);
        return status;
    }
    *out = r;
    return HEARTH_OK;
}

void hearth_runtime_destroy(hearth_runtime *runtime)
{
    if (!runtime)
        return;
    device_close(runtime->device);
    pool_destroy(runtime->threads);
    pthread_mutex_destroy(&runtime->device_lock);
    mem_free(runtime);
}

unsigned hearth_runtime_threads(const hearth_runtime *runtime)
{
    return pool_threads(runtime->threads);
}

const char *hearth_runtime_cpu_level(const hearth_runtime *runtime)
{
    return kernel_level_name(runtime->level);
}

void device_lock(hearth_runtime *r)
{
    pthread_mutex_lock(&r->device_lock);
}

void device_unlock(hearth_runtime *r)
{
    pthread_mutex_unlock(&r->device_lock);
}

bool hearth_runtime_device(const hearth_runtime *runtime, hearth_device_info *out)
{
    if (!runtime->device)
        return false;
    device_info info;
    device_describe(runtime->device, &info);
    *out = (hearth_device_info){info.driver,       info.name,       info.memory_bytes,
                                info.budget_bytes, info.used_bytes, info.peak_bytes};
    return true;
}
