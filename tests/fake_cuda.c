/* fake_cuda.c - a libcuda.so.1 for tests: NVIDIA's driver API, as far as hearth uses it, on top of the kernels compiled
 * for the host. A stream is a thread that does one thing after the other, so that graphs, memory operations, spinning
 * kernels and events are as concurrent with the CPU as on a GPU. What it checks by itself: which kind of address is
 * handed where, and that graphs are chains. Must not be mistaken for a GPU: its name says what it is. All of the library is in
 * this file, since its objects are nobody else's.
 *
 * Addresses of the device's memory and of main memory as the device sees it are the CPU's with a mark, so that mixing
 * them up is found. Environment variables, read at every call, make it fail:
 *
 *     FAKE_CUDA_DEVICES=N     how many there are (1)
 *     FAKE_CUDA_START=RESULT  what cuInit answers (0)
 *     FAKE_CUDA_VERSION=N     of the driver (13000)
 *     FAKE_CUDA_CAPABILITY=N  of the devices (90)
 *     FAKE_CUDA_MEMORY=N      bytes of the device (1 GiB)
 *     FAKE_CUDA_FAULT=N       the N-th kernel from the opening on faults (0: the first); -1: none
 *     FAKE_CUDA_LAUNCHES=N    so many graphs can be started from the opening on; -1: any number
 *     FAKE_CUDA_OPERATIONS=0  no memory operations in graphs
 *     FAKE_CUDA_ONE_QUEUE=1   all streams are one queue of the device: what one waits for on the other never begins
 *     FAKE_CUDA_LIMITED=1     it ends kernels that run for seconds
 *     FAKE_CUDA_RUNS_PTX=1    kernels are what their PTX says (fake_ptx.h), not the host's of the same name
 *     FAKE_CUDA_PTX=0         PTX from nvcc or clang is refused as too new */
#include "../src/device/cuda_api.h"
#include "../src/device/kernels/host_table.h"

#include "fake_ptx.h"

#include <malloc.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#define X(name, symbol, parameters) __attribute__((visibility("default"))) cuda_result symbol parameters;
CUDA_FUNCTIONS(X)
CUDA_OPTIONAL_FUNCTIONS(X)
#undef X

enum { INVALID = 1, ILLEGAL_ADDRESS = 700, MOST_PARAMETERS = 32 };

static const cuda_address device_mark = 1ull << 62, host_mark = 1ull << 61;

static long setting(const char *name, long otherwise)
{
    const char *text = getenv(name);
    return text != NULL && *text ? strtol(text, NULL, 10) : otherwise;
}

/* ------------------------------------------------------------------ objects */

typedef enum work_kind {
    WORK_KERNEL,
    WORK_COPY,
    WORK_FILL,
    WORK_WRITE,
    WORK_WAIT,
    WORK_EVENT,
    WORK_EVENT_WAIT
} work_kind;

struct cuda_function_object {
    int kernel; /* of the products; -1: one of the exchange's own */
    const char *own;
    ptx_module *ptx;
    struct cuda_function_object *next;
};

struct cuda_module_object {
    char *text;
    ptx_module *ptx; /* NULL: kernels are the host's */
    struct cuda_function_object *functions;
};

struct cuda_event_object {
    bool done;
};

/* Something a stream does. */
typedef struct work {
    work_kind kind;
    struct cuda_function_object *function;
    uint32_t groups, lanes;
    size_t count;
    uint64_t values[MOST_PARAMETERS];
    cuda_address to, from; /* with marks */
    size_t size_bytes;
    uint32_t value;
    struct cuda_event_object *event;
    struct work *next;
} work;

typedef struct work_list {
    work *first, *last;
} work_list;

struct cuda_graph_object {
    work_list list;
    work *loose_after; /* the last node is a kernel that no edge yet leads to from this one; NULL: it has its edge */
};

struct cuda_executable_object {
    work_list list;
};

struct cuda_stream_object {
    pthread_t thread;
    work_list list;
    bool ends;
};

/* One device is enough: all are the same. */
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static pthread_cond_t changed = PTHREAD_COND_INITIALIZER;
static int users;
static cuda_result broken; /* sticky until nobody uses the context */
static cuda_stream oldest; /* of the streams that there are        */
static unsigned busy;      /* streams that are doing something     */
static size_t used_bytes;
static long kernels_done, graphs_started;

static void *plain(cuda_address address)
{
    return (void *)(uintptr_t)(address & ~(device_mark | host_mark));
}

static void append(work_list *list, work *w)
{
    w->next = NULL;
    if (list->last != NULL)
        list->last->next = w;
    else
        list->first = w;
    list->last = w;
}

static work *copy_of(const work *w)
{
    work *copy = malloc(sizeof *copy);
    *copy = *w;
    return copy;
}

static void append_all(work_list *to, const work_list *from)
{
    for (const work *w = from->first; w != NULL; w = w->next)
        append(to, copy_of(w));
}

static void clear(work_list *list)
{
    for (work *w = list->first, *next; w != NULL; w = next) {
        next = w->next;
        free(w);
    }
    *list = (work_list){0};
}

/* ------------------------------------------------------------------ doing work */

static const char *parameters_of(const struct cuda_function_object *f)
{
    if (f->kernel >= 0)
        return device_kernels[f->kernel].parameters;
    bool joins = strcmp(f->own, "send") == 0 || strcmp(f->own, "receive") == 0;
    return strcmp(f->own, "copy") == 0 ? "bbu" : joins ? "bbub" : "b";
}

static cuda_result run_product(const work *w)
{
    device_argument arguments[MOST_PARAMETERS];
    device_buffer buffers[MOST_PARAMETERS];
    const char *parameters = parameters_of(w->function);
    for (size_t i = 0; i < w->count; i++) {
        uint32_t bits = (uint32_t)w->values[i];
        if (parameters[i] == 'b') {
            if (w->values[i] != 0 && !(w->values[i] & device_mark))
                return ILLEGAL_ADDRESS;
            buffers[i] = (device_buffer){.host = plain(w->values[i])};
            arguments[i] = w->values[i] != 0 ? BUFFER(&buffers[i]) : NO_BUFFER;
        } else if (parameters[i] == 'u') {
            arguments[i] = UINT(bits);
        } else {
            arguments[i] = FLOAT(0);
            memcpy(&arguments[i].f, &bits, sizeof bits);
        }
    }
    for (uint32_t group = 0; group < w->groups; group++)
        host_table_c.run[w->function->kernel](arguments, group, w->groups);
    return CUDA_OK;
}

static cuda_result copy_bytes(const work *w)
{
    if (w->values[0] % 16 != 0 || w->values[1] % 16 != 0)
        return ILLEGAL_ADDRESS;
    memcpy(plain(w->values[0]), plain(w->values[1]), (uint32_t)w->values[2]);
    return CUDA_OK;
}

static cuda_result run_copy(const work *w)
{
    size_t size = (uint32_t)w->values[2], threads = (size_t)w->groups * w->lanes;
    return threads < size / 16 + (size % 16 != 0) ? ILLEGAL_ADDRESS : copy_bytes(w);
}

static cuda_result wait_for_word(const uint32_t *word, uint32_t value)
{
    while ((int32_t)(__atomic_load_n(word, __ATOMIC_ACQUIRE) - value) < 0 &&
           __atomic_load_n(&broken, __ATOMIC_ACQUIRE) == CUDA_OK) /* of two streams the other may break the device */
        sched_yield();
    return CUDA_OK;
}

/* A copy with a word that is set when it is done, or waited for before it. */
static cuda_result run_joined(const work *w)
{
    bool sends = strcmp(w->function->own, "send") == 0;
    if (!(w->values[3] & host_mark) || w->groups != 1 || w->lanes < 16)
        return ILLEGAL_ADDRESS;
    if (!sends)
        wait_for_word(plain(w->values[3]), 1);
    cuda_result result = copy_bytes(w);
    if (sends && result == CUDA_OK)
        __atomic_store_n((uint32_t *)plain(w->values[3]), 1, __ATOMIC_RELEASE);
    return result;
}

static cuda_result run_own(const work *w)
{
    if (strcmp(w->function->own, "copy") == 0)
        return run_copy(w);
    if (strcmp(w->function->own, "send") == 0 || strcmp(w->function->own, "receive") == 0)
        return run_joined(w);
    if (!(w->values[0] & host_mark) || w->groups != 1 || w->lanes != 1)
        return ILLEGAL_ADDRESS;
    if (strcmp(w->function->own, "publish") == 0) {
        __atomic_store_n((uint32_t *)plain(w->values[0]), 1, __ATOMIC_RELEASE);
    } else if (strcmp(w->function->own, "await") == 0) {
        return wait_for_word(plain(w->values[0]), 1);
    } else {
        struct timespec now;
        clock_gettime(CLOCK_REALTIME, &now);
        uint64_t time_ns = (uint64_t)now.tv_sec * 1000000000u + (uint64_t)now.tv_nsec;
        __atomic_store_n((uint64_t *)plain(w->values[0]), time_ns, __ATOMIC_RELEASE);
    }
    return CUDA_OK;
}

static void *memory_at(uint64_t address)
{
    return plain(address);
}

/* Runs the text of a kernel. */
static cuda_result run_ptx(const work *w)
{
    char name[80], problem[PTX_PROBLEM];
    const struct cuda_function_object *f = w->function;
    snprintf(name, sizeof name, "%s%s", f->own ? "" : "kernel_", f->own ? f->own : device_kernels[f->kernel].name);
    if (ptx_run(f->ptx, name, w->groups, w->lanes, w->values, memory_at, problem))
        return CUDA_OK;
    fprintf(stderr, "fake CUDA: %s\n", problem);
    return ILLEGAL_ADDRESS;
}

static cuda_result run_kernel(const work *w)
{
    if (__atomic_fetch_add(&kernels_done, 1, __ATOMIC_SEQ_CST) == setting("FAKE_CUDA_FAULT", -1))
        return CUDA_LAUNCH_FAILED;
    if (w->function->ptx)
        return run_ptx(w);
    return w->function->kernel >= 0 ? run_product(w) : run_own(w);
}

/* Also ends when the device breaks. */
static cuda_result wait_for_event(const struct cuda_event_object *event)
{
    pthread_mutex_lock(&lock);
    while (!event->done && broken == CUDA_OK)
        pthread_cond_wait(&changed, &lock);
    pthread_mutex_unlock(&lock);
    return CUDA_OK;
}

static cuda_result perform(const work *w)
{
    switch (w->kind) {
    case WORK_KERNEL:
        return run_kernel(w);
    case WORK_COPY:
        memcpy(plain(w->to), plain(w->from), w->size_bytes);
        return CUDA_OK;
    case WORK_FILL:
        memset(plain(w->to), (int)w->value, w->size_bytes);
        return CUDA_OK;
    case WORK_WRITE:
        __atomic_store_n((uint32_t *)plain(w->to), w->value, __ATOMIC_RELEASE);
        return CUDA_OK;
    case WORK_WAIT:
        return wait_for_word(plain(w->to), w->value);
    case WORK_EVENT_WAIT:
        return wait_for_event(w->event);
    case WORK_EVENT:
        break;
    }
    return CUDA_OK;
}

/* The device is broken: what is left to do is dropped, as a GPU does. */
static void *stream_thread(void *argument)
{
    struct cuda_stream_object *s = argument;
    pthread_mutex_lock(&lock);
    while (!s->ends || s->list.first != NULL) {
        work *w = s->list.first;
        if (w == NULL) {
            pthread_cond_wait(&changed, &lock);
            continue;
        }
        cuda_result result = broken;
        if (result == CUDA_OK) {
            busy++;
            pthread_mutex_unlock(&lock);
            result = perform(w);
            pthread_mutex_lock(&lock);
            busy--;
        }
        if (broken == CUDA_OK)
            __atomic_store_n(&broken, result, __ATOMIC_RELEASE);
        if (w->kind == WORK_EVENT)
            w->event->done = true;
        s->list.first = w->next;
        if (s->list.first == NULL)
            s->list.last = NULL;
        free(w);
        pthread_cond_broadcast(&changed);
    }
    pthread_mutex_unlock(&lock);
    return NULL;
}

/* Returns the stream whose work a stream's is done with. */
static cuda_stream queue_of(cuda_stream s)
{
    return setting("FAKE_CUDA_ONE_QUEUE", 0) && oldest ? oldest : s;
}

static cuda_result enqueue(cuda_stream s, work w)
{
    s = queue_of(s);
    pthread_mutex_lock(&lock);
    cuda_result result = broken;
    if (result == CUDA_OK)
        append(&s->list, copy_of(&w));
    pthread_cond_broadcast(&changed);
    pthread_mutex_unlock(&lock);
    return result;
}

/* ------------------------------------------------------------------ the driver, devices, contexts */

cuda_result cuGetErrorString(cuda_result result, const char **text)
{
    static const struct {
        cuda_result result;
        const char *text;
    } known[] = {{CUDA_OK, "no error"},
                 {INVALID, "invalid argument"},
                 {CUDA_NO_MEMORY, "out of memory"},
                 {CUDA_NO_DEVICE, "no CUDA-capable device is detected"},
                 {CUDA_PTX_TOO_NEW, "the provided PTX was compiled with an unsupported toolchain."},
                 {CUDA_NOT_FOUND, "named symbol not found"},
                 {ILLEGAL_ADDRESS, "an illegal memory access was encountered"},
                 {CUDA_LAUNCH_FAILED, "unspecified launch failure"},
                 {CUDA_NOT_SUPPORTED, "operation not supported"}};
    for (size_t i = 0; i < sizeof known / sizeof *known; i++) {
        if (known[i].result == result) {
            *text = known[i].text;
            return CUDA_OK;
        }
    }
    return INVALID;
}

cuda_result cuGetErrorName(cuda_result result, const char **text)
{
    const char *sentence;
    *text = result == CUDA_LAUNCH_FAILED ? "CUDA_ERROR_LAUNCH_FAILED" : "CUDA_ERROR_FAKE";
    return cuGetErrorString(result, &sentence);
}

cuda_result cuInit(unsigned flags)
{
    (void)flags;
    return (cuda_result)setting("FAKE_CUDA_START", CUDA_OK);
}

cuda_result cuDriverGetVersion(int *version)
{
    *version = (int)setting("FAKE_CUDA_VERSION", 13000);
    return CUDA_OK;
}

cuda_result cuDeviceGetCount(int *count)
{
    *count = (int)setting("FAKE_CUDA_DEVICES", 1);
    return CUDA_OK;
}

cuda_result cuDeviceGet(cuda_ordinal *ordinal, int index)
{
    *ordinal = index;
    return index < setting("FAKE_CUDA_DEVICES", 1) ? CUDA_OK : INVALID;
}

cuda_result cuDeviceGetName(char *name, int length, cuda_ordinal ordinal)
{
    snprintf(name, (size_t)length, "fake device %d", ordinal);
    return CUDA_OK;
}

cuda_result cuDeviceTotalMem_v2(size_t *bytes, cuda_ordinal ordinal)
{
    (void)ordinal;
    *bytes = (size_t)setting("FAKE_CUDA_MEMORY", 1l << 30);
    return CUDA_OK;
}

cuda_result cuDeviceGetAttribute(int *value, int attribute, cuda_ordinal ordinal)
{
    (void)ordinal;
    int capability = (int)setting("FAKE_CUDA_CAPABILITY", 90);
    *value = attribute == CUDA_UNITS                                    ? 2
             : attribute == CUDA_KERNELS_LIMITED                        ? (int)setting("FAKE_CUDA_LIMITED", 0)
             : attribute == CUDA_MAPS_HOST || attribute == CUDA_UNIFIED ? 1
             : attribute == CUDA_MAJOR                                  ? capability / 10
             : attribute == CUDA_MINOR                                  ? capability % 10
                                                                        : 0;
    return CUDA_OK;
}

cuda_result cuDevicePrimaryCtxRetain(cuda_context *context, cuda_ordinal ordinal)
{
    (void)ordinal;
    pthread_mutex_lock(&lock);
    if (users++ == 0) {
        broken = CUDA_OK;
        kernels_done = graphs_started = 0;
    }
    pthread_mutex_unlock(&lock);
    *context = (cuda_context)(void *)&users;
    return CUDA_OK;
}

cuda_result cuDevicePrimaryCtxRelease_v2(cuda_ordinal ordinal)
{
    (void)ordinal;
    pthread_mutex_lock(&lock);
    users--;
    pthread_mutex_unlock(&lock);
    return CUDA_OK;
}

cuda_result cuCtxSetCurrent(cuda_context context)
{
    return context == (cuda_context)(void *)&users ? CUDA_OK : INVALID;
}

/* ------------------------------------------------------------------ memory */

cuda_result cuMemGetInfo_v2(size_t *free_bytes, size_t *total_bytes)
{
    cuDeviceTotalMem_v2(total_bytes, 0);
    *free_bytes = *total_bytes - used_bytes;
    return CUDA_OK;
}

/* Not zeroed, as on a GPU; addresses are multiples of 256. */
cuda_result cuMemAlloc_v2(cuda_address *address, size_t size_bytes)
{
    size_t total_bytes, free_bytes;
    cuMemGetInfo_v2(&free_bytes, &total_bytes);
    if (size_bytes == 0)
        return INVALID;
    void *block = NULL;
    if (size_bytes > free_bytes || posix_memalign(&block, 256, size_bytes) != 0)
        return CUDA_NO_MEMORY;
    memset(block, 0xcd, size_bytes);
    used_bytes += malloc_usable_size(block);
    *address = (cuda_address)(uintptr_t)block | device_mark;
    return CUDA_OK;
}

cuda_result cuMemFree_v2(cuda_address address)
{
    if (!(address & device_mark))
        return INVALID;
    used_bytes -= malloc_usable_size(plain(address));
    free(plain(address));
    return CUDA_OK;
}

cuda_result cuMemHostAlloc(void **host, size_t size_bytes, unsigned flags)
{
    if (size_bytes == 0 || flags != (CUDA_HOST_PORTABLE | CUDA_HOST_MAPPED))
        return INVALID;
    if (posix_memalign(host, 256, size_bytes) != 0)
        return CUDA_NO_MEMORY;
    memset(*host, 0xcd, size_bytes);
    return CUDA_OK;
}

/* Waits for a broken device to come to rest, as the driver does: a stream may still look at a word there. */
cuda_result cuMemFreeHost(void *host)
{
    pthread_mutex_lock(&lock);
    while (broken != CUDA_OK && busy > 0)
        pthread_cond_wait(&changed, &lock);
    pthread_mutex_unlock(&lock);
    free(host);
    return CUDA_OK;
}

cuda_result cuMemHostGetDevicePointer_v2(cuda_address *address, void *host, unsigned flags)
{
    (void)flags;
    *address = (cuda_address)(uintptr_t)host | host_mark;
    return CUDA_OK;
}

cuda_result cuMemcpyHtoDAsync_v2(cuda_address to, const void *from, size_t size_bytes, cuda_stream stream)
{
    cuda_address source = (cuda_address)(uintptr_t)from;
    return to & device_mark ? cuMemcpyAsync(to, source, size_bytes, stream) : INVALID;
}

cuda_result cuMemcpyDtoHAsync_v2(void *to, cuda_address from, size_t size_bytes, cuda_stream stream)
{
    cuda_address target = (cuda_address)(uintptr_t)to;
    return from & device_mark ? cuMemcpyAsync(target, from, size_bytes, stream) : INVALID;
}

cuda_result cuMemcpyAsync(cuda_address to, cuda_address from, size_t size_bytes, cuda_stream stream)
{
    return enqueue(stream, (work){.kind = WORK_COPY, .to = to, .from = from, .size_bytes = size_bytes});
}

cuda_result cuMemsetD8Async(cuda_address to, unsigned char value, size_t size_bytes, cuda_stream stream)
{
    if (!(to & device_mark))
        return INVALID;
    return enqueue(stream, (work){.kind = WORK_FILL, .to = to, .value = value, .size_bytes = size_bytes});
}

/* ------------------------------------------------------------------ streams and events */

cuda_result cuStreamCreate(cuda_stream *stream, unsigned flags)
{
    if (flags != CUDA_STREAM_ALONE)
        return INVALID;
    struct cuda_stream_object *s = calloc(1, sizeof *s);
    if (pthread_create(&s->thread, NULL, stream_thread, s) != 0) {
        free(s);
        return CUDA_NO_MEMORY;
    }
    *stream = s;
    oldest = oldest ? oldest : s;
    return CUDA_OK;
}

cuda_result cuStreamDestroy_v2(cuda_stream stream)
{
    pthread_mutex_lock(&lock);
    oldest = oldest == stream ? NULL : oldest;
    stream->ends = true;
    pthread_cond_broadcast(&changed);
    pthread_mutex_unlock(&lock);
    pthread_join(stream->thread, NULL);
    free(stream);
    return CUDA_OK;
}

cuda_result cuStreamSynchronize(cuda_stream stream)
{
    stream = queue_of(stream);
    pthread_mutex_lock(&lock);
    while (stream->list.first != NULL)
        pthread_cond_wait(&changed, &lock);
    cuda_result result = broken;
    pthread_mutex_unlock(&lock);
    return result;
}

cuda_result cuStreamQuery(cuda_stream stream)
{
    stream = queue_of(stream);
    pthread_mutex_lock(&lock);
    cuda_result result = broken != CUDA_OK ? broken : stream->list.first != NULL ? CUDA_NOT_READY : CUDA_OK;
    pthread_mutex_unlock(&lock);
    return result;
}

cuda_result cuStreamWaitEvent(cuda_stream stream, cuda_event event, unsigned flags)
{
    return flags == 0 ? enqueue(stream, (work){.kind = WORK_EVENT_WAIT, .event = event}) : INVALID;
}

cuda_result cuEventCreate(cuda_event *event, unsigned flags)
{
    *event = calloc(1, sizeof **event);
    (*event)->done = true;
    return flags == CUDA_EVENT_UNTIMED ? CUDA_OK : INVALID;
}

cuda_result cuEventDestroy_v2(cuda_event event)
{
    free(event);
    return CUDA_OK;
}

cuda_result cuEventRecord(cuda_event event, cuda_stream stream)
{
    pthread_mutex_lock(&lock);
    event->done = false;
    pthread_mutex_unlock(&lock);
    return enqueue(stream, (work){.kind = WORK_EVENT, .event = event});
}

cuda_result cuEventQuery(cuda_event event)
{
    pthread_mutex_lock(&lock);
    cuda_result result = broken != CUDA_OK ? broken : event->done ? CUDA_OK : CUDA_NOT_READY;
    pthread_mutex_unlock(&lock);
    return result;
}

/* ------------------------------------------------------------------ modules and kernels */

cuda_result cuModuleLoadDataEx(cuda_module *module, const void *image, unsigned count, int *options, void **values)
{
    if (setting("FAKE_CUDA_PTX", 1) == 0 && strstr(image, "kernel_") != NULL && strstr(image, "fake NVRTC") == NULL) {
        for (unsigned i = 0; i < count; i++) {
            if (options[i] == CUDA_JIT_ERROR_LOG)
                strcpy(values[i], "ptxas: unsupported .version\nand more");
        }
        return CUDA_PTX_TOO_NEW;
    }
    *module = calloc(1, sizeof **module);
    (*module)->text = strdup(image);
    char problem[PTX_PROBLEM] = "";
    if (setting("FAKE_CUDA_RUNS_PTX", 0))
        (*module)->ptx = ptx_parse(image, problem);
    if (problem[0])
        fprintf(stderr, "fake CUDA: %s\n", problem);
    return problem[0] ? INVALID : CUDA_OK;
}

cuda_result cuModuleUnload(cuda_module module)
{
    for (struct cuda_function_object *f = module->functions, *next; f != NULL; f = next) {
        next = f->next;
        free(f);
    }
    ptx_free(module->ptx);
    free(module->text);
    free(module);
    return CUDA_OK;
}

/* A function is there if the text has an entry of that name. */
cuda_result cuModuleGetFunction(cuda_function *function, cuda_module module, const char *name)
{
    static const char *const own[] = {"publish", "await", "stamp", "copy", "send", "receive"};
    char entry[80];
    snprintf(entry, sizeof entry, ".entry %s(", name);
    if (strstr(module->text, entry) == NULL)
        return CUDA_NOT_FOUND;
    struct cuda_function_object *f = calloc(1, sizeof *f);
    f->kernel = -1;
    f->ptx = module->ptx;
    f->next = module->functions;
    module->functions = f;
    *function = f;
    for (size_t i = 0; i < sizeof own / sizeof *own; i++) {
        if (strcmp(name, own[i]) == 0)
            f->own = own[i];
    }
    for (int i = 0; i < DEVICE_KERNEL_COUNT && f->own == NULL; i++) {
        if (strncmp(name, "kernel_", 7) == 0 && strcmp(name + 7, device_kernels[i].name) == 0)
            f->kernel = i;
    }
    return f->own != NULL || f->kernel >= 0 ? CUDA_OK : CUDA_NOT_FOUND;
}

cuda_result cuFuncGetAttribute(int *value, int attribute, cuda_function function)
{
    (void)function;
    *value = 256;
    return attribute == CUDA_MOST_THREADS ? CUDA_OK : INVALID;
}

static work kernel_work(cuda_function function, unsigned groups, unsigned lanes, void **parameters)
{
    work w = {.kind = WORK_KERNEL, .function = function, .groups = groups, .lanes = lanes};
    const char *kinds = parameters_of(function);
    for (w.count = 0; kinds[w.count]; w.count++)
        memcpy(&w.values[w.count], parameters[w.count], kinds[w.count] == 'b' ? sizeof(uint64_t) : sizeof(uint32_t));
    return w;
}

cuda_result cuLaunchKernel(cuda_function function, unsigned grid_x, unsigned grid_y, unsigned grid_z, unsigned block_x,
                           unsigned block_y, unsigned block_z, unsigned shared_bytes, cuda_stream stream,
                           void **parameters, void **extra)
{
    if (grid_x == 0 || grid_y != 1 || grid_z != 1 || block_x == 0 || block_x > 1024 || block_y != 1 || block_z != 1 ||
        shared_bytes != 0 || extra != NULL)
        return INVALID;
    return enqueue(stream, kernel_work(function, grid_x, block_x, parameters));
}

/* ------------------------------------------------------------------ graphs */

cuda_result cuGraphCreate(cuda_graph *graph, unsigned flags)
{
    *graph = calloc(1, sizeof **graph);
    return flags == 0 ? CUDA_OK : INVALID;
}

cuda_result cuGraphDestroy(cuda_graph graph)
{
    clear(&graph->list);
    free(graph);
    return CUDA_OK;
}

/* Only these let the next one begin early, and wait for the one before. */
static bool is_product(const work *w)
{
    return w->kind == WORK_KERNEL && w->function->kernel >= 0;
}

/* A node is a piece of work; the graph must be a chain, each depending on the last, if only by an edge that is added next. */
static cuda_result add_node(cuda_node *node, cuda_graph graph, const cuda_node *after, size_t count, work w)
{
    work *last = graph->list.last;
    bool chained = last == NULL ? count == 0 : count == 1 && *after == (void *)last;
    bool loose = last != NULL && count == 0 && is_product(last) && is_product(&w);
    if (graph->loose_after != NULL || !(chained || loose))
        return INVALID;
    graph->loose_after = loose ? last : NULL;
    append(&graph->list, copy_of(&w));
    *node = (cuda_node)(void *)graph->list.last;
    return CUDA_OK;
}

cuda_result cuGraphAddKernelNode(cuda_node *node, cuda_graph graph, const cuda_node *after, size_t count,
                                 const cuda_kernel_node *what)
{
    if (what->grid[0] == 0 || what->grid[1] != 1 || what->grid[2] != 1 || what->block[0] == 0 ||
        what->block[0] > 1024 || what->block[1] != 1 || what->block[2] != 1 || what->shared_bytes != 0 ||
        what->extra != NULL)
        return INVALID;
    return add_node(node, graph, after, count,
                    kernel_work(what->function, what->grid[0], what->block[0], what->parameters));
}

__attribute__((visibility("default"))) long fake_cuda_early_edges(void);
static long early_edges;

/* Returns how many edges let a kernel begin early, for tests. */
long fake_cuda_early_edges(void)
{
    return early_edges;
}

cuda_result cuGraphAddDependencies_v2(cuda_graph graph, const cuda_node *from, const cuda_node *to,
                                      const cuda_edge *edges, size_t count)
{
    bool fine = count == 1 && graph->loose_after != NULL && *from == (void *)graph->loose_after &&
                *to == (void *)graph->list.last && edges->from_port == CUDA_PORT_PROGRAMMATIC &&
                edges->type == CUDA_EDGE_PROGRAMMATIC;
    graph->loose_after = fine ? NULL : graph->loose_after;
    early_edges += fine;
    return fine ? CUDA_OK : INVALID;
}

/* What an end of a copy means; 0: nothing that makes sense. */
static cuda_address end_of(const cuda_place *p)
{
    if (p->x_bytes != 0 || p->y != 0 || p->z != 0 || p->level != 0 || p->array != NULL || p->reserved != NULL)
        return 0;
    if (p->kind == CUDA_MEMORY_DEVICE)
        return p->address & device_mark ? p->address : 0;
    cuda_address host = (cuda_address)(uintptr_t)p->host;
    return p->kind == CUDA_MEMORY_HOST ? host : 0;
}

cuda_result cuGraphAddMemcpyNode(cuda_node *node, cuda_graph graph, const cuda_node *after, size_t count,
                                 const cuda_copy_node *what, cuda_context context)
{
    work w = {.kind = WORK_COPY, .to = end_of(&what->to), .from = end_of(&what->from), .size_bytes = what->width_bytes};
    if (w.to == 0 || w.from == 0 || what->height != 1 || what->depth != 1 || cuCtxSetCurrent(context) != CUDA_OK)
        return INVALID;
    return add_node(node, graph, after, count, w);
}

cuda_result cuGraphAddBatchMemOpNode(cuda_node *node, cuda_graph graph, const cuda_node *after, size_t count,
                                     const cuda_operations_node *what)
{
    if (setting("FAKE_CUDA_OPERATIONS", 1) == 0)
        return CUDA_NOT_SUPPORTED;
    const cuda_operation *o = what->operations;
    if (what->count != 1 || what->flags != 0 || cuCtxSetCurrent(what->context) != CUDA_OK ||
        !(o->word.address & host_mark) || o->word.flags != 0)
        return INVALID;
    work w = {.kind = o->word.kind == CUDA_OPERATION_WAIT ? WORK_WAIT : WORK_WRITE,
              .to = o->word.address,
              .value = (uint32_t)o->word.value};
    return add_node(node, graph, after, count, w);
}

cuda_result cuGraphInstantiateWithFlags(cuda_executable *made, cuda_graph graph, unsigned long long flags)
{
    if (flags != 0 || graph->loose_after != NULL)
        return INVALID;
    *made = calloc(1, sizeof **made);
    append_all(&(*made)->list, &graph->list);
    return CUDA_OK;
}

cuda_result cuGraphExecDestroy(cuda_executable made)
{
    clear(&made->list);
    free(made);
    return CUDA_OK;
}

cuda_result cuGraphUpload(cuda_executable made, cuda_stream stream)
{
    (void)made;
    return cuStreamQuery(stream) == CUDA_NOT_READY ? CUDA_OK : cuStreamQuery(stream);
}

cuda_result cuGraphLaunch(cuda_executable made, cuda_stream stream)
{
    stream = queue_of(stream);
    pthread_mutex_lock(&lock);
    long most = setting("FAKE_CUDA_LAUNCHES", -1);
    if (broken == CUDA_OK && most >= 0 && graphs_started >= most)
        broken = CUDA_LAUNCH_FAILED;
    graphs_started++;
    cuda_result result = broken;
    if (result == CUDA_OK)
        append_all(&stream->list, &made->list);
    pthread_cond_broadcast(&changed);
    pthread_mutex_unlock(&lock);
    return result;
}
