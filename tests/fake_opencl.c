/* A libOpenCL.so.1 with one device that computes nothing and fails where FAKE_OPENCL says, for device_opencl.c. Copies
 * are done as they are enqueued, which OpenCL allows: what is written to main memory later does not get there. It counts
 * its objects: what fake_opencl_live() says in the end was not released; and fake_opencl_early() how often memory was
 * released while, for all that the program had asked, commands were under way. */
#pragma GCC visibility push(default)
#define CL_TARGET_OPENCL_VERSION 120
#include <CL/cl.h>

#include <fcntl.h>
#include <signal.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <unistd.h>

/* Every object is one of these. */
typedef struct object {
    void *memory;
    cl_int state;
} object;

static long live, launches, markers;
static long under_way, early; /* commands since the queue was last known to be empty; see above */
static unsigned lanes;        /* of the last build */
static object the_platform, the_device;

long fake_opencl_live(void);
long fake_opencl_live(void)
{
    return live;
}

long fake_opencl_early(void);
long fake_opencl_early(void)
{
    return early;
}

static bool told(const char *fault)
{
    const char *wanted = getenv("FAKE_OPENCL");
    return wanted && strcmp(wanted, fault) == 0;
}

static void *new_object(cl_int *code, size_t size)
{
    object *o = calloc(1, sizeof *o);
    o->memory = size > 0 ? calloc(1, size) : NULL;
    live++;
    if (code)
        *code = CL_SUCCESS;
    return o;
}

static cl_int release(void *handle)
{
    object *o = handle;
    free(o->memory);
    free(o);
    live--;
    return CL_SUCCESS;
}

static cl_int give(const void *value, size_t size, size_t capacity, void *out, size_t *out_size)
{
    if (out && capacity < size)
        return CL_INVALID_VALUE;
    if (out)
        memcpy(out, value, size);
    if (out_size)
        *out_size = size;
    return CL_SUCCESS;
}

static cl_int finish_command(cl_event *event)
{
    if (!event)
        return CL_SUCCESS;
    *event = new_object(NULL, 0);
    ((object *)*event)->state = told("event") ? CL_OUT_OF_RESOURCES : CL_COMPLETE;
    return CL_SUCCESS;
}

/* ------------------------------------------------------------------ what there is */

/* What ends or stops the program that asks. Counts in the file that FAKE_OPENCL_LOG names how often it was asked. */
static void misbehave(void)
{
    const char *path = getenv("FAKE_OPENCL_LOG");
    FILE *log = path ? fopen(path, "a") : NULL;
    if (log) {
        fputs("asked\n", log);
        fclose(log);
    }
    if (told("abort")) {
        fputs("starting\nNot enough \x1b[31mmemory to run on this device.\n", stderr);
        abort();
    }
    if (told("crash"))
        raise(SIGSEGV);
    if (told("exit"))
        exit(0);
    if (told("exit at once"))
        _exit(0);
    if (told("talk"))
        for (int i = 0; i < 100000; i++)
            puts("a line of what nobody wants to know");
    while (told("flood"))
        puts("and on");
    if (told("killed"))
        raise(SIGKILL);
    /* It holds a lock on the log for as long as it lives. */
    int locked = told("leaves a process") ? open(path, O_RDONLY) : -1;
    if (locked >= 0 && flock(locked, LOCK_EX) == 0 && fork() == 0)
        for (;;)
            pause();
    while (told("hang"))
        pause();
}

static void on_signal(int number)
{
    _exit(128 + number);
}

/* What a compiler inside a driver does. */
static void take_signals(void)
{
    static const int numbers[] = {SIGBUS, SIGINT, SIGPIPE, SIGFPE};
    for (size_t i = 0; told("signals") && i < sizeof numbers / sizeof *numbers; i++)
        signal(numbers[i], on_signal);
}

cl_int clGetPlatformIDs(cl_uint capacity, cl_platform_id *out, cl_uint *count)
{
    misbehave();
    take_signals();
    if (told("no platforms"))
        return -1001;
    *count = 1;
    if (capacity > 0 && out)
        out[0] = (cl_platform_id)&the_platform;
    return CL_SUCCESS;
}

cl_int clGetPlatformInfo(cl_platform_id p, cl_platform_info what, size_t capacity, void *out, size_t *size)
{
    (void)p, (void)what;
    return give("Fake", sizeof "Fake", capacity, out, size);
}

cl_int clGetDeviceIDs(cl_platform_id p, cl_device_type type, cl_uint capacity, cl_device_id *out, cl_uint *count)
{
    (void)p, (void)type;
    if (told("platform"))
        return CL_OUT_OF_HOST_MEMORY;
    if (told("no devices"))
        return CL_DEVICE_NOT_FOUND;
    *count = 1;
    if (capacity > 0 && out)
        out[0] = (cl_device_id)&the_device;
    return CL_SUCCESS;
}

cl_int clGetDeviceInfo(cl_device_id d, cl_device_info what, size_t capacity, void *out, size_t *size)
{
    (void)d;
    if (what == 0x4039) { /* AMD's */
        const size_t free_kib[2] = {told("amd") ? 1000 : 0, 500};
        return give(free_kib, sizeof free_kib, capacity, out, size);
    }
    const struct {
        cl_device_info what;
        size_t size;
        cl_ulong value;
    } numbers[] = {
        {CL_DEVICE_AVAILABLE, sizeof(cl_bool), !told("unavailable")},
        {CL_DEVICE_COMPILER_AVAILABLE, sizeof(cl_bool), !told("no compiler")},
        {CL_DEVICE_ENDIAN_LITTLE, sizeof(cl_bool), !told("big endian")},
        {CL_DEVICE_SINGLE_FP_CONFIG, sizeof(cl_device_fp_config), told("no infinity") ? 0 : CL_FP_INF_NAN},
        {CL_DEVICE_MAX_WORK_GROUP_SIZE, sizeof(size_t), 64},
        {CL_DEVICE_TYPE, sizeof(cl_device_type), CL_DEVICE_TYPE_GPU},
        {CL_DEVICE_GLOBAL_MEM_SIZE, sizeof(cl_ulong), 1 << 30},
        {CL_DEVICE_MAX_MEM_ALLOC_SIZE, sizeof(cl_ulong), 1 << 20},
        {CL_DEVICE_HOST_UNIFIED_MEMORY, sizeof(cl_bool), told("unified")},
        {CL_DEVICE_MAX_COMPUTE_UNITS, sizeof(cl_uint), 4},
    };
    for (size_t i = 0; i < sizeof numbers / sizeof *numbers; i++) {
        if (numbers[i].what == what)
            return give(&numbers[i].value, numbers[i].size, capacity, out, size);
    }
    const char *text =
        what == CL_DEVICE_NAME      ? "Toy"
        : what == CL_DEVICE_PROFILE ? (told("embedded") ? "EMBEDDED_PROFILE" : "FULL_PROFILE")
        : what == CL_DEVICE_EXTENSIONS
            ? (told("amd") || told("amd without an answer") ? "cl_x cl_amd_device_attribute_query" : "cl_x")
        : what == CL_DEVICE_VERSION ? (told("old") ? "OpenCL 1.1 x" : "OpenCL 1.2 x")
                                    : "";
    return give(text, strlen(text) + 1, capacity, out, size);
}

/* ------------------------------------------------------------------ objects */

cl_context clCreateContext(const cl_context_properties *p, cl_uint n, const cl_device_id *d,
                           void(CL_CALLBACK *notify)(const char *, const void *, size_t, void *), void *user,
                           cl_int *code)
{
    (void)p, (void)n, (void)d, (void)notify, (void)user;
    return new_object(code, 0);
}

cl_command_queue clCreateCommandQueue(cl_context c, cl_device_id d, cl_command_queue_properties p, cl_int *code)
{
    (void)c, (void)d, (void)p;
    return new_object(code, 0);
}

cl_mem clCreateBuffer(cl_context c, cl_mem_flags flags, size_t size, void *host, cl_int *code)
{
    (void)c, (void)flags, (void)host;
    return new_object(code, size);
}

cl_program clCreateProgramWithSource(cl_context c, cl_uint n, const char **text, const size_t *size, cl_int *code)
{
    (void)c, (void)n, (void)text, (void)size;
    return new_object(code, 0);
}

cl_int clBuildProgram(cl_program p, cl_uint n, const cl_device_id *d, const char *options,
                      void(CL_CALLBACK *notify)(cl_program, void *), void *user)
{
    (void)p, (void)n, (void)d, (void)notify, (void)user;
    const char *at = strstr(options, "-DGROUP_LANES=");
    lanes = at ? (unsigned)atoi(at + strlen("-DGROUP_LANES=")) : 0;
    return told("build") ? CL_BUILD_PROGRAM_FAILURE : CL_SUCCESS;
}

cl_int clGetProgramBuildInfo(cl_program p, cl_device_id d, cl_program_build_info what, size_t capacity, void *out,
                             size_t *size)
{
    (void)p, (void)d, (void)what;
    static const char log[] = "line 7: no such type\n\nline 9: enough\n";
    return give(log, sizeof log, capacity, out, size);
}

cl_kernel clCreateKernel(cl_program p, const char *name, cl_int *code)
{
    (void)p;
    if (told("kernel") && strcmp(name, "reduce") == 0) {
        *code = CL_INVALID_KERNEL_NAME;
        return NULL;
    }
    return new_object(code, 0);
}

cl_int clGetKernelWorkGroupInfo(cl_kernel k, cl_device_id d, cl_kernel_work_group_info what, size_t capacity, void *out,
                                size_t *size)
{
    (void)k, (void)d, (void)what;
    /* A kernel of fewer lanes needs more registers for each. */
    const size_t limit = told("lanes") ? (lanes > 48 ? 48 : lanes > 24 ? 24 : 32) : 64;
    return give(&limit, sizeof limit, capacity, out, size);
}

cl_int clSetKernelArg(cl_kernel k, cl_uint index, size_t size, const void *value)
{
    (void)k, (void)index, (void)size, (void)value;
    return CL_SUCCESS;
}

cl_int clReleaseContext(cl_context o)
{
    return release(o);
}

cl_int clReleaseCommandQueue(cl_command_queue o)
{
    return release(o);
}

cl_int clReleaseMemObject(cl_mem o)
{
    early += under_way > 0;
    return release(o);
}

cl_int clReleaseProgram(cl_program o)
{
    return release(o);
}

cl_int clReleaseKernel(cl_kernel o)
{
    return release(o);
}

cl_int clReleaseEvent(cl_event o)
{
    return release(o);
}

/* ------------------------------------------------------------------ commands */

void *clEnqueueMapBuffer(cl_command_queue q, cl_mem m, cl_bool wait, cl_map_flags flags, size_t offset, size_t size,
                         cl_uint n, const cl_event *list, cl_event *event, cl_int *code)
{
    (void)q, (void)wait, (void)flags, (void)size, (void)n, (void)list;
    *code = told("map") ? CL_MAP_FAILURE : finish_command(event);
    return (char *)((object *)m)->memory + offset;
}

cl_int clEnqueueUnmapMemObject(cl_command_queue q, cl_mem m, void *host, cl_uint n, const cl_event *list,
                               cl_event *event)
{
    (void)q, (void)m, (void)host, (void)n, (void)list;
    return finish_command(event);
}

cl_int clEnqueueFillBuffer(cl_command_queue q, cl_mem m, const void *pattern, size_t pattern_size, size_t offset,
                           size_t size, cl_uint n, const cl_event *list, cl_event *event)
{
    (void)q, (void)m, (void)pattern, (void)pattern_size, (void)offset, (void)n, (void)list;
    return told("memory") && size > 32768 ? CL_MEM_OBJECT_ALLOCATION_FAILURE : finish_command(event);
}

cl_int clEnqueueReadBuffer(cl_command_queue q, cl_mem m, cl_bool wait, size_t offset, size_t size, void *to, cl_uint n,
                           const cl_event *list, cl_event *event)
{
    (void)q, (void)n, (void)list;
    under_way += !wait;
    memcpy(to, (const char *)((object *)m)->memory + offset, size);
    return told("copy") ? CL_OUT_OF_RESOURCES : finish_command(event);
}

cl_int clEnqueueWriteBuffer(cl_command_queue q, cl_mem m, cl_bool wait, size_t offset, size_t size, const void *from,
                            cl_uint n, const cl_event *list, cl_event *event)
{
    (void)q, (void)n, (void)list;
    under_way += !wait;
    memcpy((char *)((object *)m)->memory + offset, from, size);
    return told("write") && !wait ? CL_OUT_OF_RESOURCES : finish_command(event);
}

cl_int clEnqueueCopyBuffer(cl_command_queue q, cl_mem from, cl_mem to, size_t from_offset, size_t to_offset,
                           size_t size, cl_uint n, const cl_event *list, cl_event *event)
{
    (void)q, (void)n, (void)list;
    under_way++;
    memcpy((char *)((object *)to)->memory + to_offset, (const char *)((object *)from)->memory + from_offset, size);
    return finish_command(event);
}

cl_int clEnqueueNDRangeKernel(cl_command_queue q, cl_kernel k, cl_uint dimensions, const size_t *offset,
                              const size_t *threads, const size_t *group, cl_uint n, const cl_event *list,
                              cl_event *event)
{
    (void)q, (void)k, (void)dimensions, (void)offset, (void)n, (void)list;
    launches++;
    if (told("first launch") || (told("second launch") && launches == 2))
        return CL_OUT_OF_RESOURCES;
    under_way++;
    return *group == lanes && *threads % *group == 0 ? finish_command(event) : CL_INVALID_WORK_GROUP_SIZE;
}

cl_int clEnqueueMarkerWithWaitList(cl_command_queue q, cl_uint n, const cl_event *list, cl_event *event)
{
    (void)q, (void)n, (void)list;
    markers++;
    bool last = (told("last marker") || told("stuck")) && markers == 3;
    return told("marker") || last ? CL_OUT_OF_HOST_MEMORY : finish_command(event);
}

cl_int clEnqueueBarrierWithWaitList(cl_command_queue q, cl_uint n, const cl_event *list, cl_event *event)
{
    (void)q, (void)n, (void)list;
    return finish_command(event);
}

cl_int clGetEventInfo(cl_event e, cl_event_info what, size_t capacity, void *out, size_t *size)
{
    (void)what;
    if (((object *)e)->state == CL_COMPLETE)
        under_way = 0;
    return give(&((object *)e)->state, sizeof(cl_int), capacity, out, size);
}

cl_int clGetEventProfilingInfo(cl_event e, cl_profiling_info what, size_t capacity, void *out, size_t *size)
{
    (void)e, (void)what;
    const cl_ulong nanoseconds = 1000;
    return give(&nanoseconds, sizeof nanoseconds, capacity, out, size);
}

cl_int clWaitForEvents(cl_uint n, const cl_event *list)
{
    (void)n, (void)list;
    return CL_SUCCESS;
}

cl_int clFlush(cl_command_queue q)
{
    (void)q;
    return CL_SUCCESS;
}

cl_int clFinish(cl_command_queue q)
{
    while (told("stuck") && markers >= 3)
        pause();
    under_way = 0;
    (void)q;
    return CL_SUCCESS;
}
