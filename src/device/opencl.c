/* opencl.c - the driver for any OpenCL 1.2 device: listing devices, opening them, their memory. opencl_program.c runs
 * programs, opencl_api.c loads the functions.
 *
 * The devices of all platforms are numbered in the order in which OpenCL lists them; "opencl:0" is the first. Each
 * problem becomes a row with the reason: no loader, a loader without platforms (the loader itself skips a vendor's
 * library that does not load), a platform that answers with errors, a device that lacks what the kernels need.
 *
 * A pinned buffer is allocated by the device in main memory (CL_MEM_ALLOC_HOST_PTR) and stays mapped while it exists.
 * The driver copies from and to the mapped address with ordinary reads and writes; vendors recommend this for pinned
 * memory. */
#include "opencl_api.h"

#include <stdio.h>
#include <string.h>

#ifndef HEARTH_HAVE_OPENCL

static const char missing[] = "built without OpenCL headers";

static size_t opencl_list(device_found *rows, size_t capacity)
{
    if (capacity > 0) {
        rows[0] = (device_found){.spec = "opencl"};
        snprintf(rows[0].problem, sizeof rows[0].problem, "%s", missing);
    }
    return 1;
}

static hearth_status opencl_open(device **out, const device_options *options, hearth_error *error)
{
    (void)options;
    *out = NULL;
    return fail(error, HEARTH_DEVICE, "opencl: %s", missing);
}

const driver driver_opencl = {.name = "opencl", .list = opencl_list, .open = opencl_open};

#else

/* ------------------------------------------------------------------ which there are */

/* A device. `device` NULL: a platform without devices; `platform` NULL as well: no platform at all. */
typedef struct place {
    cl_platform_id platform;
    cl_device_id device;
    cl_int trouble; /* the error if there is no device */
} place;

enum { MOST_PLATFORMS = 16, MOST_PLACES = 64 };

/* Lists the devices of all platforms, and the platforms without devices. Returns the number of rows, at least 1. */
static size_t find_places(const opencl_api *cl, place places[MOST_PLACES])
{
    cl_platform_id platforms[MOST_PLATFORMS];
    cl_uint platform_count = 0;
    cl_int code = cl->GetPlatformIDs(MOST_PLATFORMS, platforms, &platform_count);
    if (code != CL_SUCCESS || platform_count == 0) {
        places[0] = (place){.trouble = code};
        return 1;
    }
    size_t count = 0;
    for (cl_uint i = 0; i < platform_count && i < MOST_PLATFORMS && count < MOST_PLACES; i++) {
        cl_device_id devices[MOST_PLACES];
        cl_uint device_count = 0;
        code = cl->GetDeviceIDs(platforms[i], CL_DEVICE_TYPE_ALL, MOST_PLACES, devices, &device_count);
        if (code != CL_SUCCESS || device_count == 0)
            places[count++] = (place){.platform = platforms[i], .trouble = code};
        for (cl_uint j = 0; code == CL_SUCCESS && j < device_count && count < MOST_PLACES; j++)
            places[count++] = (place){.platform = platforms[i], .device = devices[j]};
    }
    return count;
}

/* Reads a text that describes a device; empty if the query fails or the text is too long. */
static void device_text(const opencl_api *cl, cl_device_id id, cl_device_info what, char *out, size_t capacity)
{
    size_t size = 0;
    if (cl->GetDeviceInfo(id, what, capacity - 1, out, &size) != CL_SUCCESS || size > capacity - 1)
        size = 0;
    out[size] = 0;
}

/* Returns a number that describes a device, 0 if the query fails. `bytes`: the size that OpenCL defines for it. */
static uint64_t device_number(const opencl_api *cl, cl_device_id id, cl_device_info what, size_t bytes)
{
    uint64_t wide = 0; /* this machine is little-endian, so narrower values work too */
    return cl->GetDeviceInfo(id, what, bytes, &wide, NULL) == CL_SUCCESS ? wide : 0;
}

/* Writes "PLATFORM: DEVICE". */
static void place_name(const opencl_api *cl, const place *p, char *out, size_t capacity)
{
    char platform[64] = "", name[256] = "";
    size_t size = 0;
    if (!p->platform || cl->GetPlatformInfo(p->platform, CL_PLATFORM_NAME, sizeof platform - 1, platform, &size))
        snprintf(platform, sizeof platform, "OpenCL");
    if (p->device)
        device_text(cl, p->device, CL_DEVICE_NAME, name, sizeof name);
    snprintf(out, capacity, "%s%s%.*s", platform, *name ? ": " : "", (int)strcspn(name, "\n"), name);
}

/* Returns why the kernels cannot run on a device; NULL: no query shows a reason. */
static const char *refusal(const opencl_api *cl, cl_device_id id)
{
    static const struct {
        cl_device_info what;
        const char *otherwise;
    } needed[] = {
        {CL_DEVICE_AVAILABLE, "it is not available"},
        {CL_DEVICE_COMPILER_AVAILABLE, "it has no compiler"},
        {CL_DEVICE_ENDIAN_LITTLE, "it is not little-endian"},
    };
    for (size_t i = 0; i < sizeof needed / sizeof needed[0]; i++) {
        if (!device_number(cl, id, needed[i].what, sizeof(cl_bool)))
            return needed[i].otherwise;
    }
    char text[128];
    device_text(cl, id, CL_DEVICE_PROFILE, text, sizeof text);
    if (strcmp(text, "FULL_PROFILE") != 0)
        return "it has not the full profile";
    device_text(cl, id, CL_DEVICE_VERSION, text, sizeof text);
    int major = 0, minor = 0;
    if (sscanf(text, "OpenCL %d.%d", &major, &minor) != 2 || major * 10 + minor < 12)
        return "its OpenCL is older than 1.2";
    if (!(device_number(cl, id, CL_DEVICE_SINGLE_FP_CONFIG, sizeof(cl_device_fp_config)) & CL_FP_INF_NAN))
        return "it does not know infinity and NaN";
    if (!device_number(cl, id, CL_DEVICE_MAX_WORK_GROUP_SIZE, sizeof(size_t)))
        return "it does not say how large its work-groups may be";
    return NULL;
}

/* Makes the row for device_list. */
static device_found describe(const opencl_api *cl, const place *p, unsigned index)
{
    device_found row = {.spec = "opencl"};
    if (!p->device) {
        if (p->platform)
            place_name(cl, p, row.name, sizeof row.name);
        snprintf(row.problem, sizeof row.problem, "%s: %s", p->platform ? "no devices" : "no platforms",
                 p->trouble == CL_SUCCESS ? "none is installed" : opencl_error_name(p->trouble));
        return row;
    }
    snprintf(row.spec, sizeof row.spec, "opencl:%u", index);
    place_name(cl, p, row.name, sizeof row.name);
    row.memory_bytes = device_number(cl, p->device, CL_DEVICE_GLOBAL_MEM_SIZE, sizeof(cl_ulong));
    row.is_gpu = !(device_number(cl, p->device, CL_DEVICE_TYPE, sizeof(cl_device_type)) & CL_DEVICE_TYPE_CPU);
    const char *problem = refusal(cl, p->device);
    row.usable = !problem;
    snprintf(row.problem, sizeof row.problem, "%s", problem ? problem : "");
    return row;
}

static size_t opencl_list(device_found *rows, size_t capacity)
{
    opencl_api cl;
    hearth_error why;
    if (opencl_load(&cl, &why) != HEARTH_OK) {
        if (capacity > 0) {
            rows[0] = (device_found){.spec = "opencl"};
            const char *text = strncmp(why.text, "opencl: ", 8) == 0 ? why.text + 8 : why.text;
            snprintf(rows[0].problem, sizeof rows[0].problem, "%.255s", text);
        }
        return 1;
    }
    place places[MOST_PLACES];
    size_t count = find_places(&cl, places);
    unsigned index = 0;
    for (size_t i = 0; i < count; i++) {
        if (i < capacity)
            rows[i] = describe(&cl, &places[i], index);
        index += places[i].device != NULL;
    }
    opencl_unload(&cl);
    return count;
}

/* ------------------------------------------------------------------ opening and closing */

static opencl_device *own(device *d)
{
    return (opencl_device *)d;
}

static void opencl_close(device *base)
{
    if (!base)
        return;
    opencl_device *d = own(base);
    const opencl_api *cl = &d->cl;
    /* A device that failed may never finish. */
    if (d->queue && !base->lost)
        cl->Finish(d->queue);
    if (d->copy_queue && !base->lost)
        cl->Finish(d->copy_queue);
    if (d->no_rows)
        cl->ReleaseMemObject(d->no_rows);
    if (d->program)
        cl->ReleaseProgram(d->program);
    if (d->copy_queue)
        cl->ReleaseCommandQueue(d->copy_queue);
    if (d->queue)
        cl->ReleaseCommandQueue(d->queue);
    if (d->context)
        cl->ReleaseContext(d->context);
    opencl_unload(&d->cl);
    mem_free(d);
}

/* Writes the beginning of the compiler's log, on one line. */
static void build_log(const opencl_device *d, char *out, size_t capacity)
{
    out[0] = 0;
    size_t size = 0;
    if (d->cl.GetProgramBuildInfo(d->program, d->id, CL_PROGRAM_BUILD_LOG, 0, NULL, &size) != CL_SUCCESS || size == 0)
        return;
    char *log = mem_new(size + 1);
    if (log && d->cl.GetProgramBuildInfo(d->program, d->id, CL_PROGRAM_BUILD_LOG, size, log, NULL) == CL_SUCCESS) {
        size_t used = 0;
        for (const char *c = log; *c && used + 1 < capacity; c++) {
            if (*c != '\n' || (used > 0 && out[used - 1] != ' '))
                out[used++] = *c == '\n' ? ' ' : *c;
        }
        out[used] = 0;
    }
    mem_free(log);
}

/* Compiles all kernels for groups of base.group lanes. */
static hearth_status build(opencl_device *d, hearth_error *error)
{
    size_t size;
    const char *source = kernels_source(&size);
    cl_int code;
    d->program = d->cl.CreateProgramWithSource(d->context, 1, &source, &size, &code);
    if (code != CL_SUCCESS)
        return opencl_fail(d, "kernels", code, error);
    /* Asks for correctly rounded division and square root if the device supports them. */
    uint64_t single = device_number(&d->cl, d->id, CL_DEVICE_SINGLE_FP_CONFIG, sizeof(cl_device_fp_config));
    char options[128];
    snprintf(options, sizeof options, "-w -cl-std=CL1.2 -DGROUP_LANES=%u%s", d->base.group,
             single & CL_FP_CORRECTLY_ROUNDED_DIVIDE_SQRT ? " -cl-fp32-correctly-rounded-divide-sqrt" : "");
    code = d->cl.BuildProgram(d->program, 1, &d->id, options, NULL, NULL);
    if (code == CL_SUCCESS)
        return HEARTH_OK;
    char log[512];
    build_log(d, log, sizeof log);
    return fail(error, HEARTH_DEVICE, "%s: kernels: %s: %s", d->base.name, opencl_error_name(code), log);
}

/* Sets *out to the lanes, at most base.group, that every kernel can be launched with. HEARTH_DEVICE: a kernel is
 * missing. */
static hearth_status common_lanes(const opencl_device *d, unsigned *out, hearth_error *error)
{
    *out = d->base.group;
    for (unsigned i = 0; i < DEVICE_KERNEL_COUNT; i++) {
        cl_int code;
        size_t limit = 0;
        cl_kernel kernel = d->cl.CreateKernel(d->program, device_kernels[i].name, &code);
        if (code != CL_SUCCESS)
            return opencl_fail(d, device_kernels[i].name, code, error);
        code = d->cl.GetKernelWorkGroupInfo(kernel, d->id, CL_KERNEL_WORK_GROUP_SIZE, sizeof limit, &limit, NULL);
        d->cl.ReleaseKernel(kernel);
        if (code != CL_SUCCESS || limit == 0)
            return opencl_fail(d, device_kernels[i].name, code != CL_SUCCESS ? code : CL_OUT_OF_RESOURCES, error);
        if (limit < *out)
            *out = (unsigned)limit;
    }
    return HEARTH_OK;
}

/* Compiles the kernels, again with fewer lanes while any kernel does not support base.group lanes. */
static hearth_status build_all(opencl_device *d, hearth_error *error)
{
    for (;;) {
        TRY(build(d, error));
        unsigned lanes;
        TRY(common_lanes(d, &lanes, error));
        if (lanes == d->base.group)
            return HEARTH_OK;
        d->base.group = lanes;
        d->cl.ReleaseProgram(d->program);
        d->program = NULL;
    }
}

static bool is_cpu(const opencl_device *d)
{
    return device_number(&d->cl, d->id, CL_DEVICE_TYPE, sizeof(cl_device_type)) & CL_DEVICE_TYPE_CPU;
}

/* Sets *free_bytes if the device tells its free memory, else *budget_bytes to a share of its memory. OpenCL has no
 * query for free memory; only an extension of AMD has one. If the budget is too large, creating a buffer fails, see
 * zeroed_buffer. */
static void find_memory(opencl_device *d, uint64_t *free_bytes, uint64_t *budget_bytes)
{
    const cl_device_info free_amd = 0x4039; /* of cl_amd_device_attribute_query, in KiB */
    uint64_t all = d->base.memory_bytes;
    char extensions[4096];
    device_text(&d->cl, d->id, CL_DEVICE_EXTENSIONS, extensions, sizeof extensions);
    if (strstr(extensions, "cl_amd_device_attribute_query")) {
        size_t kib[2] = {0};
        if (d->cl.GetDeviceInfo(d->id, free_amd, sizeof kib, kib, NULL) == CL_SUCCESS && kib[0] > 0) {
            *free_bytes = (uint64_t)kib[0] * 1024;
            return;
        }
    }
    /* Of main memory the share that the host device takes, too; of a card, what a desktop leaves. */
    bool shared = is_cpu(d) || device_number(&d->cl, d->id, CL_DEVICE_HOST_UNIFIED_MEMORY, sizeof(cl_bool));
    *budget_bytes = shared ? all / 4 : all / 4 * 3;
}

/* Chooses the lanes of a group. GPUs need many to fill their registers and to hide latency. On a CPU the lanes are a
 * loop around the kernel, which every barrier splits: one lane runs fastest and compiles fastest by far. */
static unsigned choose_group(const opencl_device *d)
{
    enum { MOST = 256 }; /* keeps LOCAL_BYTES of for_opencl.h within the 32 KiB that OpenCL guarantees */
    unsigned wanted = d->base.options.group ? d->base.options.group : is_cpu(d) ? 1 : 64;
    size_t limit = device_number(&d->cl, d->id, CL_DEVICE_MAX_WORK_GROUP_SIZE, sizeof(size_t));
    if (limit > MOST)
        limit = MOST;
    return wanted < limit ? wanted : (unsigned)limit;
}

/* Creates a zeroed buffer in the device's memory. On failure *out may hold a buffer to release. */
static hearth_status zeroed_buffer(const opencl_device *d, cl_mem *out, size_t size_bytes, const char *what,
                                   hearth_error *error)
{
    /* Rounded up to whole vectors, so that a kernel that reads 16 bytes at once stays inside. */
    const cl_uint zero[4] = {0};
    size_t rounded;
    if (!size_add(size_bytes, sizeof zero - 1, &rounded))
        return fail_memory(error, what, size_bytes);
    rounded -= rounded % sizeof zero;
    cl_int code;
    *out = d->cl.CreateBuffer(d->context, CL_MEM_READ_WRITE, rounded, NULL, &code);
    if (code == CL_SUCCESS)
        code = d->cl.EnqueueFillBuffer(d->queue, *out, zero, sizeof zero, 0, rounded, 0, NULL, NULL);
    /* Memory is often allocated on first use only; waiting here reveals the lack of it. */
    if (code == CL_SUCCESS)
        code = d->cl.Finish(d->queue);
    return code == CL_SUCCESS ? HEARTH_OK : opencl_fail(d, what, code, error);
}

cl_int opencl_create_queue(const opencl_device *d, cl_command_queue *out)
{
    cl_int code;
    *out = d->cl.CreateCommandQueue(d->context, d->id, CL_QUEUE_PROFILING_ENABLE, &code);
    return code;
}

static hearth_status open_queue(opencl_device *d, hearth_error *error)
{
    cl_int code;
    d->context = d->cl.CreateContext(NULL, 1, &d->id, NULL, NULL, &code);
    if (code != CL_SUCCESS)
        return opencl_fail(d, "context", code, error);
    code = opencl_create_queue(d, &d->queue);
    if (code != CL_SUCCESS)
        return opencl_fail(d, "queue", code, error);
    TRY(build_all(d, error));
    return zeroed_buffer(d, &d->no_rows, sizeof(step_record), "step of no rows", error);
}

/* Finds the device with the index of the spec and fills in its properties. */
static hearth_status choose(opencl_device *d, hearth_error *error)
{
    place places[MOST_PLACES];
    size_t count = find_places(&d->cl, places);
    unsigned index = 0;
    device_found row = {.problem = ""};
    for (size_t i = 0; i < count; i++) {
        row = describe(&d->cl, &places[i], index);
        if (places[i].device && index++ == d->base.options.index)
            d->id = places[i].device;
        if (d->id)
            break;
    }
    if (!d->id && index > 0)
        return fail(error, HEARTH_DEVICE, "opencl:%u: there is no such device: there are %u", d->base.options.index,
                    index);
    if (!d->id || !row.usable)
        return fail(error, HEARTH_DEVICE, "%s: %s%s%s", row.spec, row.name, *row.name ? ": " : "", row.problem);
    memcpy(d->base.name, row.name, sizeof d->base.name);
    d->base.memory_bytes = row.memory_bytes;
    find_memory(d, &d->base.free_bytes, &d->base.budget_bytes);
    d->base.units = (unsigned)device_number(&d->cl, d->id, CL_DEVICE_MAX_COMPUTE_UNITS, sizeof(cl_uint));
    d->base.group = choose_group(d);
    d->base.is_gpu = row.is_gpu;
    d->largest_bytes = device_number(&d->cl, d->id, CL_DEVICE_MAX_MEM_ALLOC_SIZE, sizeof(cl_ulong));
    return HEARTH_OK;
}

static hearth_status opencl_open(device **out, const device_options *options, hearth_error *error)
{
    *out = NULL;
    opencl_device *d = mem_new(sizeof *d);
    if (!d)
        return fail_memory(error, "opencl", sizeof *d);
    d->base = (device){.driver = &driver_opencl, .options = *options, .kernels = "OpenCL C", .exchange = "events"};
    hearth_status status;
    TRY_OR(failed, status, opencl_load(&d->cl, error));
    TRY_OR(failed, status, choose(d, error));
    TRY_OR(failed, status, open_queue(d, error));
    *out = &d->base;
    return HEARTH_OK;
failed:
    opencl_close(&d->base);
    return status;
}

/* ------------------------------------------------------------------ memory */

static hearth_status create_pinned(opencl_device *d, device_buffer *b, hearth_error *error)
{
    cl_int code;
    cl_mem memory =
        d->cl.CreateBuffer(d->context, CL_MEM_READ_WRITE | CL_MEM_ALLOC_HOST_PTR, b->size_bytes, NULL, &code);
    if (code != CL_SUCCESS)
        return opencl_fail(d, "pinned memory", code, error);
    b->host = d->cl.EnqueueMapBuffer(d->queue, memory, CL_TRUE, CL_MAP_READ | CL_MAP_WRITE, 0, b->size_bytes, 0, NULL,
                                     NULL, &code);
    if (code != CL_SUCCESS) {
        d->cl.ReleaseMemObject(memory);
        return opencl_fail(d, "pinned memory", code, error);
    }
    memset(b->host, 0, b->size_bytes);
    b->own = (uintptr_t)memory;
    return HEARTH_OK;
}

static hearth_status opencl_buffer_create(device_buffer *b, hearth_error *error)
{
    opencl_device *d = own(b->device);
    if (b->size_bytes > d->largest_bytes)
        return fail(error, HEARTH_NO_MEMORY, "%s: a buffer of %zu bytes: it gives at most %zu at once", d->base.name,
                    b->size_bytes, d->largest_bytes);
    if (b->place == DEVICE_PINNED)
        return create_pinned(d, b, error);
    cl_mem memory = NULL;
    hearth_status status = zeroed_buffer(d, &memory, b->size_bytes, "memory", error);
    if (status == HEARTH_OK)
        b->own = (uintptr_t)memory;
    else if (memory)
        d->cl.ReleaseMemObject(memory);
    return status;
}

static void opencl_buffer_destroy(device_buffer *b)
{
    const opencl_device *d = own(b->device);
    cl_mem memory = opencl_memory(b);
    if (!memory)
        return;
    /* The queue is in order, so this happens after any command still in it. */
    if (b->host)
        d->cl.EnqueueUnmapMemObject(d->queue, memory, b->host, 0, NULL, NULL);
    d->cl.ReleaseMemObject(memory);
}

cl_int opencl_enqueue_copy(const opencl_device *d, cl_command_queue queue, const device_buffer *to, size_t to_offset,
                           const device_buffer *from, size_t from_offset, size_t size_bytes)
{
    if (to->host)
        return d->cl.EnqueueReadBuffer(queue, opencl_memory(from), CL_FALSE, from_offset, size_bytes,
                                       (char *)to->host + to_offset, 0, NULL, NULL);
    if (from->host)
        return d->cl.EnqueueWriteBuffer(queue, opencl_memory(to), CL_FALSE, to_offset, size_bytes,
                                        (const char *)from->host + from_offset, 0, NULL, NULL);
    return d->cl.EnqueueCopyBuffer(queue, opencl_memory(from), opencl_memory(to), from_offset, to_offset, size_bytes, 0,
                                   NULL, NULL);
}

static hearth_status opencl_write(device_buffer *to, size_t offset, const void *from, size_t size_bytes,
                                  hearth_error *error)
{
    const opencl_device *d = own(to->device);
    if (to->host) {
        memcpy((char *)to->host + offset, from, size_bytes);
        return HEARTH_OK;
    }
    cl_int code =
        d->cl.EnqueueWriteBuffer(d->queue, opencl_memory(to), CL_TRUE, offset, size_bytes, from, 0, NULL, NULL);
    return code == CL_SUCCESS ? HEARTH_OK : opencl_fail(d, "write", code, error);
}

static hearth_status opencl_read(const device_buffer *from, size_t offset, void *to, size_t size_bytes,
                                 hearth_error *error)
{
    const opencl_device *d = own(from->device);
    if (from->host) {
        memcpy(to, (const char *)from->host + offset, size_bytes);
        return HEARTH_OK;
    }
    cl_int code =
        d->cl.EnqueueReadBuffer(d->queue, opencl_memory(from), CL_TRUE, offset, size_bytes, to, 0, NULL, NULL);
    return code == CL_SUCCESS ? HEARTH_OK : opencl_fail(d, "read", code, error);
}

static hearth_status opencl_move(device_buffer *to, size_t to_offset, const device_buffer *from, size_t from_offset,
                                 size_t size_bytes, hearth_error *error)
{
    const opencl_device *d = own(to->device);
    if (to->host && from->host) {
        memmove((char *)to->host + to_offset, (const char *)from->host + from_offset, size_bytes);
        return HEARTH_OK;
    }
    cl_int code = opencl_enqueue_copy(d, d->queue, to, to_offset, from, from_offset, size_bytes);
    if (code == CL_SUCCESS)
        code = d->cl.Finish(d->queue);
    return code == CL_SUCCESS ? HEARTH_OK : opencl_fail(d, "move", code, error);
}

const driver driver_opencl = {
    .name = "opencl",
    .library = OPENCL_LIBRARY,
    .list = opencl_list,
    .open = opencl_open,
    .close = opencl_close,
    .buffer_create = opencl_buffer_create,
    .buffer_destroy = opencl_buffer_destroy,
    .write = opencl_write,
    .read = opencl_read,
    .move = opencl_move,
    .seal = opencl_seal,
    .program_destroy = opencl_program_destroy,
    .start = opencl_start,
    .published = opencl_published,
    .answer = opencl_answer,
    .done = opencl_done,
    .stamp_seconds = opencl_stamp_seconds,
};

#endif
