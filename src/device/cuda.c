/* cuda.c - the driver for NVIDIA's devices: listing them, opening them, their memory. It uses the driver API, loaded at
 * run time (cuda_api.h); cuda_device.h says what is in the other files. */
#include "cuda_device.h"

#include <stdio.h>
#include <string.h>

enum {
    OLDEST_CAPABILITY = 61, /* the first with dp4a, the dot product of four bytes */
    LANES = 128             /* of a group, unless the spec says otherwise */
};

hearth_status cuda_enter(const device *d, hearth_error *error)
{
    const cuda_device *own = (const cuda_device *)d;
    CUDA_TRY(own, own->api.context_use(own->context), "its context");
    return HEARTH_OK;
}

hearth_status cuda_fail(const cuda_device *d, cuda_result result, const char *what, hearth_error *error)
{
    char text[200];
    return fail(error, result == CUDA_NO_MEMORY ? HEARTH_NO_MEMORY : HEARTH_DEVICE, "cuda:%u: %s: %s",
                d->base.options.index, what, cuda_result_text(&d->api, result, text, sizeof text));
}

/* ------------------------------------------------------------------ which there are */

/* Returns an attribute of a device, 0 if the driver does not know it. */
static int attribute(const cuda_api *api, cuda_ordinal ordinal, int what)
{
    int value = 0;
    return api->device_attribute(&value, what, ordinal) == CUDA_OK ? value : 0;
}

/* Returns the compute capability: 75 for 7.5. */
static int capability(const cuda_api *api, cuda_ordinal ordinal)
{
    return 10 * attribute(api, ordinal, CUDA_MAJOR) + attribute(api, ordinal, CUDA_MINOR);
}

/* Returns whether a device cannot be used, and why. */
static bool unusable(const cuda_api *api, cuda_ordinal ordinal, char *problem, size_t size)
{
    int has = capability(api, ordinal);
    if (has < OLDEST_CAPABILITY)
        snprintf(problem, size, "too old: compute capability %d.%d, needed is %d.%d", has / 10, has % 10,
                 OLDEST_CAPABILITY / 10, OLDEST_CAPABILITY % 10);
    else if (!attribute(api, ordinal, CUDA_MAPS_HOST) || !attribute(api, ordinal, CUDA_UNIFIED))
        snprintf(problem, size, "it does not reach main memory");
    else if (attribute(api, ordinal, CUDA_COMPUTE_MODE) == CUDA_COMPUTE_PROHIBITED)
        snprintf(problem, size, "its compute mode prohibits use (nvidia-smi -c)");
    else
        return false;
    return true;
}

/* Fills in the row of a device. */
static void describe(const cuda_api *api, int index, device_found *row)
{
    cuda_ordinal ordinal;
    size_t bytes = 0;
    snprintf(row->spec, sizeof row->spec, "cuda:%d", index);
    row->is_gpu = true;
    cuda_result result = api->device_get(&ordinal, index);
    if (result == CUDA_OK)
        result = api->device_name(row->name, (int)sizeof row->name, ordinal);
    if (result == CUDA_OK)
        result = api->device_memory(&bytes, ordinal);
    row->memory_bytes = bytes;
    if (result != CUDA_OK)
        cuda_result_text(api, result, row->problem, sizeof row->problem);
    else
        row->usable = !unusable(api, ordinal, row->problem, sizeof row->problem);
}

/* Loads the driver's library and counts its devices. HEARTH_DEVICE: there is no driver or no device. */
static hearth_status count_devices(cuda_api *api, int *count, hearth_error *error)
{
    TRY(cuda_api_load(api, error));
    cuda_result result = api->device_count(count);
    char text[200];
    if (result != CUDA_OK)
        return fail(error, HEARTH_DEVICE, "cuda: counting devices: %s",
                    cuda_result_text(api, result, text, sizeof text));
    return *count > 0 ? HEARTH_OK : fail(error, HEARTH_DEVICE, "cuda: the driver is there, but no device");
}

static size_t cuda_list(device_found *rows, size_t capacity)
{
    cuda_api api;
    hearth_error error = {0};
    int count = 0;
    if (count_devices(&api, &count, &error) != HEARTH_OK) {
        if (capacity > 0) {
            rows[0] = (device_found){.spec = "cuda"};
            const char *text = strncmp(error.text, "cuda: ", 6) == 0 ? error.text + 6 : error.text;
            snprintf(rows[0].problem, sizeof rows[0].problem, "%.255s", text);
        }
        return 1;
    }
    for (size_t i = 0; i < (size_t)count && i < capacity; i++) {
        rows[i] = (device_found){0};
        describe(&api, (int)i, &rows[i]);
    }
    return (size_t)count;
}

/* ------------------------------------------------------------------ opening and closing */

/* Makes the context, the streams, the word for the clock and the room for short writes. */
static hearth_status make_context(cuda_device *d, hearth_error *error)
{
    /* The primary context, which the whole process shares; it exists while anybody retains it. */
    cuda_context context = NULL;
    CUDA_TRY(d, d->api.context_retain(&context, d->ordinal), "opening");
    d->context = context;
    TRY(cuda_enter(&d->base, error));
    size_t free_bytes = 0, total_bytes = 0;
    CUDA_TRY(d, d->api.memory_info(&free_bytes, &total_bytes), "opening");
    d->base.free_bytes = free_bytes;
    d->base.memory_bytes = total_bytes;
    /* Together, so that the device's queues are shared out to both before others of this process take theirs. */
    CUDA_TRY(d, d->api.stream_new(&d->stream, CUDA_STREAM_ALONE), "opening");
    CUDA_TRY(d, d->api.stream_new(&d->copy_stream, CUDA_STREAM_ALONE), "opening");
    void *word = NULL;
    CUDA_TRY(d, d->api.host_new(&word, sizeof(uint64_t), CUDA_HOST_PORTABLE | CUDA_HOST_MAPPED), "opening");
    d->clock_word = word;
    CUDA_TRY(d, d->api.host_address(&d->clock_address, word, 0), "opening");
    void *staging = NULL;
    CUDA_TRY(d, d->api.host_new(&staging, CUDA_STAGING_BYTES, CUDA_HOST_PORTABLE | CUDA_HOST_MAPPED), "opening");
    d->staging = staging;
    return HEARTH_OK;
}

static hearth_status set_up(cuda_device *d, hearth_error *error)
{
    int count = 0;
    TRY(count_devices(&d->api, &count, error));
    unsigned index = d->base.options.index;
    if (index >= (unsigned)count)
        return fail(error, HEARTH_DEVICE, "cuda:%u: there %s only %d device%s", index, count == 1 ? "is" : "are", count,
                    count == 1 ? "" : "s");
    CUDA_TRY(d, d->api.device_get(&d->ordinal, (int)index), "opening");
    CUDA_TRY(d, d->api.device_name(d->base.name, (int)sizeof d->base.name, d->ordinal), "opening");
    char problem[160];
    if (unusable(&d->api, d->ordinal, problem, sizeof problem))
        return fail(error, HEARTH_DEVICE, "cuda:%u: %s", index, problem);
    d->capability = capability(&d->api, d->ordinal);
    d->kernels_limited = attribute(&d->api, d->ordinal, CUDA_KERNELS_LIMITED) != 0;
    int units = attribute(&d->api, d->ordinal, CUDA_UNITS);
    d->base.units = units > 0 ? (unsigned)units : 1;
    d->base.group = d->base.options.group > 0 ? d->base.options.group : LANES;
    d->base.is_gpu = true;
    TRY(make_context(d, error));
    TRY(cuda_kernels_load(d, error));
    return cuda_exchange_choose(d, error);
}

/* Waits until the stream is idle, so that all writes have arrived. */
static cuda_result settle(cuda_device *d)
{
    cuda_result result = d->api.stream_wait(d->stream);
    d->staged_bytes = 0;
    return result;
}

static void cuda_close(device *base)
{
    cuda_device *d = (cuda_device *)base;
    if (d->stuck)
        return; /* leaked, see cuda_device.h */
    if (d->context != NULL) {
        (void)cuda_enter(base, NULL);
        (void)cuda_settle(d, NULL);
        if (d->staging != NULL)
            d->api.host_free(d->staging);
        if (d->clock_word != NULL)
            d->api.host_free((void *)(uintptr_t)d->clock_word);
        if (d->module != NULL)
            d->api.module_free(d->module);
        if (d->own_module != NULL)
            d->api.module_free(d->own_module);
        if (d->copy_stream != NULL)
            d->api.stream_free(d->copy_stream);
        if (d->stream != NULL)
            d->api.stream_free(d->stream);
        d->api.context_use(NULL); /* nobody is left with a context that may be gone */
        d->api.context_release(d->ordinal);
    }
    mem_free(d);
}

static hearth_status cuda_open(device **out, const device_options *options, hearth_error *error)
{
    cuda_device *d = mem_new(sizeof *d);
    if (d == NULL)
        return fail_memory(error, "cuda: device", sizeof *d);
    d->base.driver = &driver_cuda;
    d->base.options = *options;
    hearth_status status = set_up(d, error);
    if (status != HEARTH_OK) {
        cuda_close(&d->base);
        return status;
    }
    *out = &d->base;
    return HEARTH_OK;
}

/* ------------------------------------------------------------------ memory */

/* Allocates main memory that the device can access; `own` is its address there. */
static hearth_status create_pinned(cuda_device *d, device_buffer *b, hearth_error *error)
{
    cuda_address at = 0;
    CUDA_TRY(d, d->api.host_new(&b->host, b->size_bytes, CUDA_HOST_PORTABLE | CUDA_HOST_MAPPED), "main memory");
    cuda_result result = d->api.host_address(&at, b->host, 0);
    if (result != CUDA_OK) {
        d->api.host_free(b->host);
        b->host = NULL;
        return cuda_fail(d, result, "main memory", error);
    }
    memset(b->host, 0, b->size_bytes);
    b->own = at;
    return HEARTH_OK;
}

/* Allocates zeroed memory of the device. */
static hearth_status create_own(cuda_device *d, device_buffer *b, hearth_error *error)
{
    cuda_address at = 0;
    CUDA_TRY(d, d->api.memory_new(&at, b->size_bytes), "its memory");
    cuda_result result = d->api.fill(at, 0, b->size_bytes, d->stream);
    if (result == CUDA_OK)
        result = settle(d);
    if (result != CUDA_OK) {
        d->api.memory_free(at);
        return cuda_fail(d, result, "its memory", error);
    }
    b->own = at;
    return HEARTH_OK;
}

static hearth_status cuda_buffer_create(device_buffer *b, hearth_error *error)
{
    TRY(cuda_enter(b->device, error));
    cuda_device *d = (cuda_device *)b->device;
    return b->place == DEVICE_PINNED ? create_pinned(d, b, error) : create_own(d, b, error);
}

static void cuda_buffer_destroy(device_buffer *b)
{
    cuda_device *d = (cuda_device *)b->device;
    (void)cuda_enter(b->device, NULL);
    /* A write may be on its way to it, on a lost device, too: no program runs any more, so this waits for no answer. */
    (void)cuda_settle(d, NULL);
    if (b->place == DEVICE_PINNED)
        d->api.host_free(b->host);
    else
        d->api.memory_free(b->own);
}

/* Waits for the end of a transfer; `result` is what enqueueing it gave. */
static hearth_status wait_for(cuda_device *d, cuda_result result, const char *what, hearth_error *error)
{
    if (result == CUDA_OK)
        result = settle(d);
    return result == CUDA_OK ? HEARTH_OK : cuda_fail(d, result, what, error);
}

hearth_status cuda_settle(cuda_device *d, hearth_error *error)
{
    return d->staged_bytes == 0 ? HEARTH_OK : wait_for(d, CUDA_OK, "writing", error);
}

/* Copies what is to be written aside and returns at once: whatever the stream does later finds it written. A swap of neurons is
 * hundreds of such writes, each of which would wait longer than it takes. */
static hearth_status write_later(cuda_device *d, cuda_address to, const void *from, size_t size_bytes,
                                 hearth_error *error)
{
    if (size_bytes > CUDA_STAGING_BYTES - d->staged_bytes)
        CUDA_TRY(d, settle(d), "writing");
    unsigned char *staged = d->staging + d->staged_bytes;
    memcpy(staged, from, size_bytes);
    d->staged_bytes += (size_bytes + 15) / 16 * 16;
    CUDA_TRY(d, d->api.copy_in(to, staged, size_bytes, d->stream), "writing");
    return HEARTH_OK;
}

static hearth_status cuda_write(device_buffer *to, size_t offset, const void *from, size_t size_bytes,
                                hearth_error *error)
{
    cuda_device *d = (cuda_device *)to->device;
    if (to->place == DEVICE_PINNED) {
        memcpy((char *)to->host + offset, from, size_bytes);
        return HEARTH_OK;
    }
    TRY(cuda_enter(to->device, error));
    if (size_bytes <= CUDA_STAGING_BYTES / 16)
        return write_later(d, to->own + offset, from, size_bytes, error);
    return wait_for(d, d->api.copy_in(to->own + offset, from, size_bytes, d->stream), "writing", error);
}

static hearth_status cuda_read(const device_buffer *from, size_t offset, void *to, size_t size_bytes,
                               hearth_error *error)
{
    cuda_device *d = (cuda_device *)from->device;
    if (from->place == DEVICE_PINNED) {
        memcpy(to, (const char *)from->host + offset, size_bytes);
        return HEARTH_OK;
    }
    TRY(cuda_enter(from->device, error));
    return wait_for(d, d->api.copy_out(to, from->own + offset, size_bytes, d->stream), "reading", error);
}

static hearth_status cuda_move(device_buffer *to, size_t to_offset, const device_buffer *from, size_t from_offset,
                               size_t size_bytes, hearth_error *error)
{
    cuda_device *d = (cuda_device *)to->device;
    TRY(cuda_enter(to->device, error));
    return wait_for(d, d->api.copy(to->own + to_offset, from->own + from_offset, size_bytes, d->stream), "moving",
                    error);
}

const driver driver_cuda = {
    .name = "cuda",
    .library = CUDA_LIBRARY,
    .list = cuda_list,
    .open = cuda_open,
    .close = cuda_close,
    .buffer_create = cuda_buffer_create,
    .buffer_destroy = cuda_buffer_destroy,
    .write = cuda_write,
    .read = cuda_read,
    .move = cuda_move,
    .seal = cuda_seal,
    .program_destroy = cuda_program_destroy,
    .start = cuda_start,
    .published = cuda_published,
    .answer = cuda_answer,
    .done = cuda_done,
    .stamp_seconds = cuda_stamp_seconds,
};
