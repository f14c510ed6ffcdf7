/* runtime.c - the runtime: the threads, the kernels and the device that engines run on; the list of devices. */
#include "engine.h"

#include "../base/memory.h"
#include "../base/sized.h"
#include "../base/text.h"
#include "../kernel/cpu.h"
#include "../kernel/topology.h"

#include <string.h>

/* More than any machine has; a larger number is a typing error. */
#define MAX_THREADS 1024

/* Reports what the runtime consists of. */
static void log_runtime(const hearth_runtime *r)
{
    hearth_device_info d;
    char budget[16];
    log_line(&r->log, HEARTH_LOG_INFO, "runtime: %u threads, CPU level %s", hearth_runtime_threads(r),
             hearth_runtime_cpu_level(r));
    if (hearth_runtime_device(r, &d))
        log_line(&r->log, HEARTH_LOG_INFO, "runtime: device0 is %s, %s, budget %s", d.driver, d.name,
                 text_size(budget, (double)d.budget_bytes));
}

hearth_status hearth_runtime_create_sized(hearth_runtime **out, const hearth_runtime_options *given,
                                          size_t options_size, hearth_error *error)
{
    hearth_runtime_options own, *options = &own;
    size_t level;
    TRY(sized_read(&own, sizeof own, given, options_size, "hearth_runtime_options", error));
    TRY(kernel_level_choose(&level, options->cpu_level, error));
    unsigned threads = options->threads ? options->threads : topology_cores();
    if (threads > MAX_THREADS)
        return fail(error, HEARTH_INVALID, "runtime: %u threads are more than the %d that make sense", threads,
                    MAX_THREADS);

    hearth_runtime *r = mem_new(sizeof *r);
    if (!r)
        return fail_memory(error, "runtime", sizeof *r);
    r->level = level;
    r->log = options->log;
    size_t memory = topology_memory_bytes();
    r->memory_bytes = options->memory_bytes ? options->memory_bytes : memory ? memory : UINT64_MAX;
    pthread_mutex_init(&r->device_lock, NULL);
    kernels_for(level, &r->kernels);
    r->streams = cpu_streams();
    /* The device comes first: its driver is tried in a forked child, which is safest with few threads. */
    hearth_status status;
    if (options->device) {
        r->device_spec = mem_copy_text(options->device, strlen(options->device));
        if (!r->device_spec) {
            status = fail_memory(error, "runtime", strlen(options->device));
            goto failed;
        }
        TRY_OR(failed, status, device_open(&r->device, options->device, options->cache_folder, error));
    }
    TRY_OR(failed, status, pool_create(&r->threads, threads, error));
    log_runtime(r);
    *out = r;
    return HEARTH_OK;
failed:
    hearth_runtime_destroy(r);
    return status;
}

void hearth_runtime_destroy(hearth_runtime *runtime)
{
    if (!runtime)
        return;
    device_close(runtime->device);
    mem_free(runtime->device_spec);
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

bool hearth_runtime_device_sized(const hearth_runtime *runtime, hearth_device_info *out, size_t out_size)
{
    if (!runtime->device)
        return false;
    device_info info;
    device_describe(runtime->device, &info);
    hearth_device_info own = {info.driver,       info.name,       info.memory_bytes,
                              info.budget_bytes, info.used_bytes, info.peak_bytes};
    sized_write(out, out_size, &own, sizeof own);
    return true;
}

/* ------------------------------------------------------------------ the devices of this machine */

struct hearth_device_list {
    size_t count;
    device_found found[MAX_DEVICES];
};

hearth_status hearth_device_list_create(hearth_device_list **out, const char *cache_folder, hearth_error *error)
{
    hearth_device_list *list = mem_new(sizeof *list);
    if (!list)
        return fail_memory(error, "list of devices", sizeof *list);
    size_t count = device_list(list->found, MAX_DEVICES, cache_folder);
    list->count = count < MAX_DEVICES ? count : MAX_DEVICES;
    *out = list;
    return HEARTH_OK;
}

void hearth_device_list_destroy(hearth_device_list *list)
{
    mem_free(list);
}

size_t hearth_device_list_count(const hearth_device_list *list)
{
    return list->count;
}

bool hearth_device_list_get_sized(const hearth_device_list *list, size_t index, hearth_device_entry *out,
                                  size_t out_size)
{
    if (index >= list->count)
        return false;
    const device_found *f = &list->found[index];
    hearth_device_entry own = {.device = f->spec,
                               .name = f->name,
                               .problem = f->usable ? NULL : f->problem,
                               .is_gpu = f->is_gpu,
                               .memory_bytes = f->memory_bytes};
    sized_write(out, out_size, &own, sizeof own);
    return true;
}
