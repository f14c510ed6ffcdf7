/* device.c - devices and their memory: the table of drivers, budgets and memory in use, injected faults. Programs are
 * in program.c. Independent of how any driver works inside. */
#include "handlers.h"
#include "probe.h"
#include "times.h"

#include <assert.h>
#include <stdatomic.h>
#include <stdio.h>
#include <string.h>

/* To add a driver, add it here. Of two that reach the same device, the better one comes first. */
static const driver *const drivers[] = {&driver_host, &driver_cuda, &driver_opencl};

enum { DRIVERS = sizeof drivers / sizeof *drivers };

/* ------------------------------------------------------------------ faults for tests */

/* As in memory.c, the countdown stops at 0, so that all later calls fail as well. */
static const long fail_never = -1;
static atomic_long fail_after = -1; /* number of calls that still succeed; fail_never: all */

void device_fail_at(long n)
{
    atomic_store(&fail_after, n < 0 ? fail_never : n);
}

bool device_must_fail(void)
{
    long left = atomic_load_explicit(&fail_after, memory_order_relaxed);
    while (left > 0) {
        if (atomic_compare_exchange_weak(&fail_after, &left, left - 1))
            return false;
    }
    return left == 0;
}

hearth_status device_injected(const device *d, const char *what, hearth_error *error)
{
    return fail(error, HEARTH_DEVICE, "%s: %s: injected fault", d->driver->name, what);
}

/* Checks before a call of a driver that the device is not lost and that no test wants the call to fail. */
static hearth_status ready(const device *d, const char *what, hearth_error *error)
{
    if (d->lost)
        return device_lost(d, what, error);
    return device_must_fail() ? device_injected(d, what, error) : HEARTH_OK;
}

hearth_status device_lost(const device *d, const char *what, hearth_error *error)
{
    return fail(error, HEARTH_DEVICE, "%s: %s: the device is lost since a program failed", d->driver->name, what);
}

/* ------------------------------------------------------------------ devices */

/* Lists the devices of a driver; if the driver must not be loaded, gives one row with the reason. */
static size_t list_driver(const driver *d, const char *cache_folder, device_found *rows, size_t capacity)
{
    char problem[PROBE_TEXT_SIZE];
    if (probe_driver(d, cache_folder, PROBE_PATIENCE_SECONDS, problem)) {
        handlers program;
        handlers_save(&program);
        size_t count = d->list(rows, capacity);
        handlers_restore(&program);
        return count;
    }
    if (capacity > 0) {
        rows[0] = (device_found){0};
        snprintf(rows[0].spec, sizeof rows[0].spec, "%s", d->name);
        memcpy(rows[0].problem, problem, sizeof problem);
    }
    return 1;
}

size_t device_list(device_found *out, size_t capacity, const char *cache_folder)
{
    size_t count = 0;
    for (size_t i = 0; i < DRIVERS; i++) {
        size_t left = count < capacity ? capacity - count : 0;
        count += list_driver(drivers[i], cache_folder, left > 0 ? out + count : NULL, left);
    }
    return count;
}

void device_forget(const char *cache_folder)
{
    for (size_t i = 0; i < DRIVERS; i++)
        probe_forget(drivers[i], cache_folder);
}

/* Finds the driver that a spec names. */
static hearth_status find_driver(const driver **out, const char *spec, hearth_error *error)
{
    span name = spec_name(spec);
    for (size_t i = 0; i < DRIVERS; i++) {
        *out = drivers[i];
        if (span_equal(name, span_of(drivers[i]->name)))
            return HEARTH_OK;
    }
    return fail(error, HEARTH_INVALID, "device %s: unknown driver '%.*s'; there are host, opencl and cuda", spec,
                (int)name.size, name.data);
}

hearth_status device_check_spec(const char *spec, hearth_error *error)
{
    const driver *row;
    device_options options;
    TRY(find_driver(&row, spec, error));
    return spec_options(spec, &options, error);
}

hearth_status device_open(device **out, const char *spec, const char *cache_folder, hearth_error *error)
{
    const driver *row;
    device_options options;
    char problem[PROBE_TEXT_SIZE];
    TRY(find_driver(&row, spec, error));
    TRY(spec_options(spec, &options, error));
    if (device_must_fail())
        return fail(error, HEARTH_DEVICE, "%s: opening: injected fault", row->name);
    if (!probe_driver(row, cache_folder, PROBE_PATIENCE_SECONDS, problem))
        return fail(error, HEARTH_DEVICE, "%s: %s", row->name, problem);
    device *d = NULL;
    handlers program;
    handlers_save(&program);
    hearth_status status = row->open(&d, &options, error);
    handlers_restore(&program);
    if (status != HEARTH_OK)
        return status;
    d->driver = row;
    d->options = options;
    d->patience_seconds = DEVICE_PATIENCE_SECONDS;
    if (options.memory_bytes > 0)
        d->budget_bytes = options.memory_bytes;
    else if (d->budget_bytes == 0)
        d->budget_bytes = d->free_bytes / 10 * 9; /* the rest is for the driver and other programs */
    status = times_open(d, error);
    if (status != HEARTH_OK) {
        row->close(d);
        return status;
    }
    *out = d;
    return HEARTH_OK;
}

void device_close(device *d)
{
    if (!d)
        return;
    times_close(d);
    /* A program that hangs may still access its memory, so the device is leaked rather than closed. */
    if (d->running)
        return;
    d->driver->close(d);
}

void device_describe(const device *d, device_info *out)
{
    *out = (device_info){
        .driver = d->driver->name,
        .name = d->name,
        .memory_bytes = d->memory_bytes,
        .free_bytes = d->free_bytes,
        .budget_bytes = d->budget_bytes,
        .used_bytes = d->used_bytes,
        .peak_bytes = d->peak_bytes,
        .pinned_bytes = d->pinned_bytes,
        .units = d->units,
        .group = d->group,
        .kernels = d->kernels,
        .exchange = d->exchange,
        .is_gpu = d->is_gpu,
    };
}

/* ------------------------------------------------------------------ memory */

/* Formats a size as "12.0 MB", a small one in bytes. */
static const char *size_text(char text[32], uint64_t size_bytes)
{
    if (size_bytes < 100000)
        snprintf(text, 32, "%u bytes", (unsigned)size_bytes);
    else
        snprintf(text, 32, "%.1f MB", (double)size_bytes / 1e6);
    return text;
}

/* Fails with HEARTH_NO_MEMORY if a buffer does not fit into what is left of the budget. */
static hearth_status check_budget(const device *d, size_t size_bytes, const char *what, hearth_error *error)
{
    uint64_t left = d->budget_bytes - d->used_bytes;
    if (size_bytes <= left)
        return HEARTH_OK;
    char wanted[32], rest[32], budget[32];
    return fail(error, HEARTH_NO_MEMORY, "%s: %s: %s wanted, %s of the budget of %s left", d->driver->name, what,
                size_text(wanted, size_bytes), size_text(rest, left), size_text(budget, d->budget_bytes));
}

/* Allocates the memory of a buffer through the driver and adds `what` and the sizes to its error. */
static hearth_status take_memory(device_buffer *b, const char *what, hearth_error *error)
{
    TRY(ready(b->device, what, error));
    if (b->size_bytes == 0)
        return HEARTH_OK;
    hearth_error inner = {0};
    hearth_status status = b->device->driver->buffer_create(b, &inner);
    if (status == HEARTH_OK)
        return status;
    char wanted[32], used[32];
    return fail(error, status, "%s: %s: %s wanted, %s in use: %s", b->device->driver->name, what,
                size_text(wanted, b->size_bytes), size_text(used, b->device->used_bytes), inner.text);
}

/* Adds a new buffer to the memory in use. */
static void account(device_buffer *b)
{
    device *d = b->device;
    if (b->place == DEVICE_PINNED) {
        d->pinned_bytes += b->size_bytes;
        return;
    }
    d->used_bytes += b->size_bytes;
    if (d->peak_bytes < d->used_bytes)
        d->peak_bytes = d->used_bytes;
}

hearth_status device_buffer_create(device_buffer **out, device *d, device_place place, size_t size_bytes,
                                   const char *what, hearth_error *error)
{
    if (place == DEVICE_MEMORY)
        TRY(check_budget(d, size_bytes, what, error));
    device_buffer *b = mem_new(sizeof *b);
    if (!b)
        return fail_memory(error, what, sizeof *b);
    *b = (device_buffer){.device = d, .place = place, .size_bytes = size_bytes};
    hearth_status status = take_memory(b, what, error);
    if (status != HEARTH_OK) {
        mem_free(b);
        return status;
    }
    account(b);
    *out = b;
    return HEARTH_OK;
}

void device_buffer_destroy(device_buffer *b)
{
    if (!b)
        return;
    device *d = b->device;
    *(b->place == DEVICE_PINNED ? &d->pinned_bytes : &d->used_bytes) -= b->size_bytes;
    if (d->running && d->lost)
        return; /* leaked, see device_close */
    assert(!d->running);
    if (b->size_bytes > 0)
        d->driver->buffer_destroy(b);
    mem_free(b);
}

size_t device_buffer_bytes(const device_buffer *b)
{
    return b->size_bytes;
}

void *device_buffer_host(const device_buffer *b)
{
    return b->place == DEVICE_PINNED ? b->host : NULL;
}

bool device_holds(const device_buffer *b, size_t offset, size_t size_bytes)
{
    return offset <= b->size_bytes && size_bytes <= b->size_bytes - offset;
}

hearth_status device_write(device_buffer *to, size_t offset, const void *from, size_t size_bytes, hearth_error *error)
{
    assert(device_holds(to, offset, size_bytes) && !(to->device->running && !to->device->lost));
    TRY(ready(to->device, "writing", error));
    return size_bytes > 0 ? to->device->driver->write(to, offset, from, size_bytes, error) : HEARTH_OK;
}

hearth_status device_read(const device_buffer *from, size_t offset, void *to, size_t size_bytes, hearth_error *error)
{
    assert(device_holds(from, offset, size_bytes) && !(from->device->running && !from->device->lost));
    TRY(ready(from->device, "reading", error));
    return size_bytes > 0 ? from->device->driver->read(from, offset, to, size_bytes, error) : HEARTH_OK;
}

hearth_status device_move(device_buffer *to, size_t to_offset, const device_buffer *from, size_t from_offset,
                          size_t size_bytes, hearth_error *error)
{
    device *d = to->device;
    assert(d == from->device && !(d->running && !d->lost));
    assert(device_holds(to, to_offset, size_bytes) && device_holds(from, from_offset, size_bytes));
    TRY(ready(d, "moving", error));
    return size_bytes > 0 ? d->driver->move(to, to_offset, from, from_offset, size_bytes, error) : HEARTH_OK;
}
