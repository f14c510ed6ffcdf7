/* cuda_api.h - the part of NVIDIA's driver API that hearth uses, declared here so that building needs no CUDA toolkit.
 *
 * libcuda.so.1 belongs to the driver and is opened at run time. One list names its functions, by the symbols with the
 * version suffix that matches the parameters here. tests/device_cuda_api.c compares types and constants with cuda.h if
 * that is installed. */
#ifndef DEVICE_CUDA_API_H
#define DEVICE_CUDA_API_H

#include "../base/error.h"

#include <stddef.h>
#include <stdint.h>

typedef int cuda_result;
typedef int cuda_ordinal;
typedef unsigned long long cuda_address;
typedef struct cuda_context_object *cuda_context;
typedef struct cuda_stream_object *cuda_stream;
typedef struct cuda_event_object *cuda_event;
typedef struct cuda_module_object *cuda_module;
typedef struct cuda_function_object *cuda_function;
typedef struct cuda_graph_object *cuda_graph;
typedef struct cuda_node_object *cuda_node;
typedef struct cuda_executable_object *cuda_executable;

/* The results that hearth distinguishes; of all others it only prints the name. */
enum {
    CUDA_OK = 0,
    CUDA_NO_MEMORY = 2,
    CUDA_NO_DEVICE = 100,
    CUDA_NO_KERNEL_IMAGE = 209,
    CUDA_PTX_TOO_NEW = 222,
    CUDA_NOT_FOUND = 500,
    CUDA_NOT_READY = 600,
    CUDA_LAUNCH_FAILED = 719,
    CUDA_NOT_SUPPORTED = 801
};

enum { /* attributes of a device */
       CUDA_UNITS = 16,
       CUDA_KERNELS_LIMITED = 17,
       CUDA_MAPS_HOST = 19,
       CUDA_COMPUTE_MODE = 20,
       CUDA_UNIFIED = 41,
       CUDA_MAJOR = 75,
       CUDA_MINOR = 76
};
#define CUDA_LIBRARY "libcuda.so.1"

#define CUDA_COMPUTE_PROHIBITED 2

#define CUDA_MOST_THREADS     0 /* attribute of a function: threads that a block of it may have */
#define CUDA_STREAM_ALONE     1 /* does not wait for the default stream */
#define CUDA_EVENT_UNTIMED    2
#define CUDA_HOST_PORTABLE    1
#define CUDA_HOST_MAPPED      2
#define CUDA_JIT_ERROR_LOG    5
#define CUDA_JIT_ERROR_LENGTH 6
#define CUDA_MEMORY_HOST      1
#define CUDA_MEMORY_DEVICE    2
#define CUDA_OPERATION_WAIT   1 /* of a word of 32 bits */
#define CUDA_OPERATION_WRITE  2
#define CUDA_WAIT_AT_LEAST    0 /* cyclic: (int32_t)(word - value) >= 0 */

typedef struct cuda_kernel_node {
    cuda_function function;
    unsigned grid[3], block[3], shared_bytes;
    void **parameters; /* addresses of the values */
    void **extra;
} cuda_kernel_node;

/* What of a node an edge waits for. */
typedef struct cuda_edge {
    unsigned char from_port, to_port, type, reserved[5];
} cuda_edge;
#define CUDA_PORT_PROGRAMMATIC 1 /* of a kernel: until it lets the next one begin */
#define CUDA_EDGE_PROGRAMMATIC 1

/* One end of a copy. */
typedef struct cuda_place {
    size_t x_bytes, y, z, level;
    unsigned kind; /* CUDA_MEMORY_ */
    void *host;
    cuda_address address;
    void *array, *reserved;
    size_t pitch, height;
} cuda_place;

typedef struct cuda_copy_node {
    cuda_place from, to;
    size_t width_bytes, height, depth;
} cuda_copy_node;

/* A stream memory operation. Waits and writes have the same fields; the union is as long as the API's longest one. */
typedef union cuda_operation {
    struct {
        unsigned kind; /* CUDA_OPERATION_ */
        cuda_address address;
        uint64_t value;
        unsigned flags;
        cuda_address alias;
    } word;
    uint64_t room[6];
} cuda_operation;

typedef struct cuda_operations_node {
    cuda_context context;
    unsigned count;
    cuda_operation *operations;
    unsigned flags;
} cuda_operations_node;

/* X(name in the table, name in the library, parameters) */
// clang-format off
#define CUDA_FUNCTIONS(X)                                                                                           \
    X(error_text, cuGetErrorString, (cuda_result result, const char **text))                                        \
    X(error_name, cuGetErrorName, (cuda_result result, const char **text))                                          \
    X(initialize, cuInit, (unsigned flags))                                                                         \
    X(version, cuDriverGetVersion, (int *version))                                                                  \
    X(device_count, cuDeviceGetCount, (int *count))                                                                 \
    X(device_get, cuDeviceGet, (cuda_ordinal * ordinal, int index))                                                 \
    X(device_name, cuDeviceGetName, (char *name, int length, cuda_ordinal device))                                  \
    X(device_memory, cuDeviceTotalMem_v2, (size_t *bytes, cuda_ordinal device))                                     \
    X(device_attribute, cuDeviceGetAttribute, (int *value, int attribute, cuda_ordinal device))                     \
    X(context_retain, cuDevicePrimaryCtxRetain, (cuda_context *context, cuda_ordinal device))                       \
    X(context_release, cuDevicePrimaryCtxRelease_v2, (cuda_ordinal device))                                         \
    X(context_use, cuCtxSetCurrent, (cuda_context context))                                                         \
    X(memory_info, cuMemGetInfo_v2, (size_t *free_bytes, size_t *total_bytes))                                      \
    X(memory_new, cuMemAlloc_v2, (cuda_address *address, size_t size_bytes))                                        \
    X(memory_free, cuMemFree_v2, (cuda_address address))                                                            \
    X(host_new, cuMemHostAlloc, (void **host, size_t size_bytes, unsigned flags))                                   \
    X(host_free, cuMemFreeHost, (void *host))                                                                       \
    X(host_address, cuMemHostGetDevicePointer_v2, (cuda_address *address, void *host, unsigned flags))              \
    X(copy_in, cuMemcpyHtoDAsync_v2, (cuda_address to, const void *from, size_t size_bytes, cuda_stream stream))    \
    X(copy_out, cuMemcpyDtoHAsync_v2, (void *to, cuda_address from, size_t size_bytes, cuda_stream stream))         \
    X(copy, cuMemcpyAsync, (cuda_address to, cuda_address from, size_t size_bytes, cuda_stream stream))             \
    X(fill, cuMemsetD8Async, (cuda_address to, unsigned char value, size_t size_bytes, cuda_stream stream))         \
    X(stream_new, cuStreamCreate, (cuda_stream *stream, unsigned flags))                                            \
    X(stream_free, cuStreamDestroy_v2, (cuda_stream stream))                                                        \
    X(stream_wait, cuStreamSynchronize, (cuda_stream stream))                                                       \
    X(stream_query, cuStreamQuery, (cuda_stream stream))                                                            \
    X(stream_wait_event, cuStreamWaitEvent, (cuda_stream stream, cuda_event event, unsigned flags))                 \
    X(event_new, cuEventCreate, (cuda_event *event, unsigned flags))                                                \
    X(event_free, cuEventDestroy_v2, (cuda_event event))                                                            \
    X(event_record, cuEventRecord, (cuda_event event, cuda_stream stream))                                          \
    X(event_query, cuEventQuery, (cuda_event event))                                                                \
    X(module_load, cuModuleLoadDataEx,                                                                              \
      (cuda_module *module, const void *image, unsigned count, int *options, void **values))                        \
    X(module_free, cuModuleUnload, (cuda_module module))                                                            \
    X(module_function, cuModuleGetFunction, (cuda_function *function, cuda_module module, const char *name))        \
    X(function_attribute, cuFuncGetAttribute, (int *value, int attribute, cuda_function function))                  \
    X(launch, cuLaunchKernel,                                                                                       \
      (cuda_function function, unsigned grid_x, unsigned grid_y, unsigned grid_z, unsigned block_x,                 \
       unsigned block_y, unsigned block_z, unsigned shared_bytes, cuda_stream stream, void **parameters,            \
       void **extra))                                                                                               \
    X(graph_new, cuGraphCreate, (cuda_graph *graph, unsigned flags))                                                \
    X(graph_free, cuGraphDestroy, (cuda_graph graph))                                                               \
    X(graph_kernel, cuGraphAddKernelNode,                                                                           \
      (cuda_node *node, cuda_graph graph, const cuda_node *after, size_t count, const cuda_kernel_node *what))      \
    X(graph_copy, cuGraphAddMemcpyNode,                                                                             \
      (cuda_node *node, cuda_graph graph, const cuda_node *after, size_t count, const cuda_copy_node *what,         \
       cuda_context context))                                                                                       \
    X(graph_finish, cuGraphInstantiateWithFlags, (cuda_executable *made, cuda_graph graph, unsigned long long flags)) \
    X(executable_free, cuGraphExecDestroy, (cuda_executable made))                                                  \
    X(executable_upload, cuGraphUpload, (cuda_executable made, cuda_stream stream))                                 \
    X(executable_launch, cuGraphLaunch, (cuda_executable made, cuda_stream stream))

/* Functions that older drivers lack; NULL there. */
#define CUDA_OPTIONAL_FUNCTIONS(X)                                                                                  \
    X(graph_depend, cuGraphAddDependencies_v2,                                                                      \
      (cuda_graph graph, const cuda_node *from, const cuda_node *to, const cuda_edge *edges, size_t count))         \
    X(graph_operations, cuGraphAddBatchMemOpNode,                                                                   \
      (cuda_node *node, cuda_graph graph, const cuda_node *after, size_t count, const cuda_operations_node *what))

// clang-format on

/* The oldest driver that has all of CUDA_FUNCTIONS, as cuDriverGetVersion counts: 1000 * major + 10 * minor. */
#define CUDA_OLDEST_DRIVER 11040

typedef struct cuda_api {
#define X(name, symbol, parameters) cuda_result(*name) parameters;
    CUDA_FUNCTIONS(X)
    CUDA_OPTIONAL_FUNCTIONS(X)
#undef X
} cuda_api;

/* Opens the library (which stays loaded), fills the table and initialises the driver. HEARTH_DEVICE: it is missing, too
 * old or does not start; the text says which. */
hearth_status cuda_api_load(cuda_api *out, hearth_error *error);

/* Writes "an illegal memory access was encountered (CUDA_ERROR_ILLEGAL_ADDRESS)" to text [size] and returns it. */
const char *cuda_result_text(const cuda_api *api, cuda_result result, char *text, size_t size);

#endif
