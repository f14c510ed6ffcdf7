/* opencl_api.h - declarations that the files of the OpenCL driver share: the table of OpenCL's functions, which are
 * loaded at run time, the names of its errors, and the driver's structs.
 *
 * hearth is never linked with OpenCL. The loader, libOpenCL.so.1, is opened on the first use of the driver and stays in
 * the process, since the platforms behind it run threads of their own. A missing or broken part is an error with a
 * text; it never ends the process. Nothing here knows what the kernels compute.
 *
 * opencl_api.c loads the functions; opencl.c finds and opens devices and manages memory; opencl_program.c runs
 * programs. */
#ifndef DEVICE_OPENCL_API_H
#define DEVICE_OPENCL_API_H

#include "driver.h"

#ifdef HEARTH_HAVE_OPENCL

#define OPENCL_LIBRARY "libOpenCL.so.1" /* the ICD loader */

#define CL_TARGET_OPENCL_VERSION 120
#include <CL/cl.h>

/* Every OpenCL function that is used; all belong to OpenCL 1.2. */
// clang-format off
#define OPENCL_CALLS(X)                                                                     \
    X(GetPlatformIDs) X(GetPlatformInfo) X(GetDeviceIDs) X(GetDeviceInfo)                   \
    X(CreateContext) X(ReleaseContext) X(CreateCommandQueue) X(ReleaseCommandQueue)         \
    X(CreateBuffer) X(ReleaseMemObject) X(EnqueueMapBuffer) X(EnqueueUnmapMemObject)        \
    X(EnqueueFillBuffer) X(EnqueueReadBuffer) X(EnqueueWriteBuffer) X(EnqueueCopyBuffer)    \
    X(CreateProgramWithSource) X(BuildProgram) X(GetProgramBuildInfo) X(ReleaseProgram)     \
    X(CreateKernel) X(SetKernelArg) X(GetKernelWorkGroupInfo) X(ReleaseKernel)              \
    X(EnqueueNDRangeKernel) X(EnqueueMarkerWithWaitList) X(EnqueueBarrierWithWaitList)      \
    X(GetEventInfo)                                                                         \
    X(GetEventProfilingInfo) X(WaitForEvents) X(ReleaseEvent) X(Flush) X(Finish)
// clang-format on

typedef struct opencl_api {
    void *library;
#define X(name) __typeof__(cl##name) *name;
    OPENCL_CALLS(X)
#undef X
} opencl_api;

/* Loads the functions. HEARTH_DEVICE: the loader is missing, or lacks a function; the text says which. */
hearth_status opencl_load(opencl_api *api, hearth_error *error);
void opencl_unload(opencl_api *api);

/* Returns the name of an error: "CL_OUT_OF_RESOURCES"; "an unknown OpenCL error" if it is not in the table. */
const char *opencl_error_name(cl_int code);

/* An open device. */
typedef struct opencl_device {
    device base;
    opencl_api cl;
    cl_device_id id;
    cl_context context;
    cl_command_queue queue;         /* in order, with profiling */
    cl_command_queue copy_queue;    /* likewise, for QUEUE_COPY; made for the first program that needs it */
    cl_program program;             /* all kernels */
    cl_mem no_rows;                 /* a step record of T = 0 rows */
    size_t largest_bytes;           /* of one buffer */
    bool warm[DEVICE_KERNEL_COUNT]; /* was launched once, so nothing is left to compile */
} opencl_device;

/* Calls fail(): "DEVICE: WHAT: CL_NAME (code)". HEARTH_NO_MEMORY if the code says so, else HEARTH_DEVICE. */
hearth_status opencl_fail(const opencl_device *d, const char *what, cl_int code, hearth_error *error);

/* Returns the OpenCL handle of a buffer. */
static inline cl_mem opencl_memory(const device_buffer *b)
{
    return (cl_mem)(uintptr_t)b->own;
}

/* Creates a queue. On failure *out is NULL. */
cl_int opencl_create_queue(const opencl_device *d, cl_command_queue *out);
/* Enqueues a copy between any two buffers that are not both pinned. Does not wait. */
cl_int opencl_enqueue_copy(const opencl_device *d, cl_command_queue queue, const device_buffer *to, size_t to_offset,
                           const device_buffer *from, size_t from_offset, size_t size_bytes);

/* The functions of driver_opencl that are in opencl_program.c. */
hearth_status opencl_seal(device_program *p, hearth_error *error);
void opencl_program_destroy(device_program *p);
hearth_status opencl_start(device_program *p, hearth_error *error);
hearth_status opencl_published(device_program *p, unsigned slot, bool *out, hearth_error *error);
void opencl_answer(device_program *p, unsigned slot);
hearth_status opencl_done(device_program *p, bool *out, hearth_error *error);
double opencl_stamp_seconds(const device_program *p, unsigned stamp);

#endif
#endif
