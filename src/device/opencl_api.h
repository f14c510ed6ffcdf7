/* opencl_api.h - OpenCL as this driver reaches it: the loader opened at run time, a table of its functions, the names
 * of its errors, and the driver's own structs.
 *
 * hearth is never linked with OpenCL. libOpenCL.so.1, the loader, is opened when somebody asks for devices and stays in
 * the process from then on, since the platforms behind it run threads of their own. Whatever of this is missing or
 * broken is an error with a text, never the end. Nothing here knows what the kernels compute.
 *
 * opencl_api.c loads; opencl.c finds, opens and moves memory; opencl_program.c runs programs. */
#ifndef DEVICE_OPENCL_API_H
#define DEVICE_OPENCL_API_H

#include "driver.h"

#ifdef HEARTH_HAVE_OPENCL

#define OPENCL_LIBRARY "libOpenCL.so.1" /* the loader of platforms */

#define CL_TARGET_OPENCL_VERSION 120
#include <CL/cl.h>

/* Every function that is used, all of OpenCL 1.2. */
// clang-format off
#define OPENCL_CALLS(X)                                                                     \
    X(GetPlatformIDs) X(GetPlatformInfo) X(GetDeviceIDs) X(GetDeviceInfo)                   \
    X(CreateContext) X(ReleaseContext) X(CreateCommandQueue) X(ReleaseCommandQueue)         \
    X(CreateBuffer) X(ReleaseMemObject) X(EnqueueMapBuffer) X(EnqueueUnmapMemObject)        \
    X(EnqueueFillBuffer) X(EnqueueReadBuffer) X(EnqueueWriteBuffer) X(EnqueueCopyBuffer)    \
    X(CreateProgramWithSource) X(BuildProgram) X(GetProgramBuildInfo) X(ReleaseProgram)     \
    X(CreateKernel) X(SetKernelArg) X(GetKernelWorkGroupInfo) X(ReleaseKernel)              \
    X(EnqueueNDRangeKernel) X(EnqueueMarkerWithWaitList) X(GetEventInfo)                    \
    X(GetEventProfilingInfo) X(WaitForEvents) X(ReleaseEvent) X(Flush) X(Finish)
// clang-format on

typedef struct opencl_api {
    void *library;
#define X(name) __typeof__(cl##name) *name;
    OPENCL_CALLS(X)
#undef X
} opencl_api;

/* HEARTH_DEVICE: the loader is not there, or lacks a function; the text says which. */
hearth_status opencl_load(opencl_api *api, hearth_error *error);
void opencl_unload(opencl_api *api);

/* "CL_OUT_OF_RESOURCES"; "an unknown OpenCL error" for what the table lacks. */
const char *opencl_error_name(cl_int code);

/* An open device. */
typedef struct opencl_device {
    device base;
    opencl_api cl;
    cl_device_id id;
    cl_context context;
    cl_command_queue queue;         /* in order, with profiling */
    cl_program program;             /* all kernels              */
    cl_mem no_rows;                 /* a step record of T = 0   */
    size_t largest_bytes;           /* of one buffer            */
    bool warm[DEVICE_KERNEL_COUNT]; /* has been launched once, so that nothing is left to be compiled */
} opencl_device;

/* DEVICE: WHAT: CL_NAME. HEARTH_NO_MEMORY where the code says so, else HEARTH_DEVICE. */
hearth_status opencl_fail(const opencl_device *d, const char *what, cl_int code, hearth_error *error);

static inline cl_mem opencl_memory(const device_buffer *b)
{
    return (cl_mem)(uintptr_t)b->own;
}

/* Enqueues a copy between any two buffers that are not both pinned. Does not wait. */
cl_int opencl_enqueue_copy(const opencl_device *d, const device_buffer *to, size_t to_offset, const device_buffer *from,
                           size_t from_offset, size_t size_bytes);

/* Columns of the driver's row that opencl_program.c has. */
hearth_status opencl_seal(device_program *p, hearth_error *error);
void opencl_program_destroy(device_program *p);
hearth_status opencl_start(device_program *p, hearth_error *error);
hearth_status opencl_published(device_program *p, unsigned slot, bool *out, hearth_error *error);
void opencl_answer(device_program *p, unsigned slot);
hearth_status opencl_done(device_program *p, bool *out, hearth_error *error);
double opencl_stamp_seconds(const device_program *p, unsigned stamp);

#endif
#endif
