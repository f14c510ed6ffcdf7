/* What cuda_api.h declares, held against NVIDIA's own cuda.h where that is installed; PTX and NVRTC where a CUDA toolkit
 * is. Each is skipped where its part is absent. */
#include "../src/base/memory.h"
#include "../src/device/cuda_device.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "skip.h"

#ifdef HEARTH_CUDA_HEADER
#include HEARTH_CUDA_HEADER

#define SAME(ours, theirs) _Static_assert((long long)(ours) == (long long)(theirs), #ours)
#define SAME_MEMBER(ours, our_member, theirs, their_member)           \
    SAME(offsetof(ours, our_member), offsetof(theirs, their_member)); \
    SAME(sizeof((ours){0}.our_member), sizeof((theirs){0}.their_member))

SAME(CUDA_OK, CUDA_SUCCESS);
SAME(CUDA_NO_MEMORY, CUDA_ERROR_OUT_OF_MEMORY);
SAME(CUDA_NO_DEVICE, CUDA_ERROR_NO_DEVICE);
SAME(CUDA_NO_KERNEL_IMAGE, CUDA_ERROR_NO_BINARY_FOR_GPU);
SAME(CUDA_PTX_TOO_NEW, CUDA_ERROR_UNSUPPORTED_PTX_VERSION);
SAME(CUDA_NOT_FOUND, CUDA_ERROR_NOT_FOUND);
SAME(CUDA_NOT_READY, CUDA_ERROR_NOT_READY);
SAME(CUDA_LAUNCH_FAILED, CUDA_ERROR_LAUNCH_FAILED);
SAME(CUDA_NOT_SUPPORTED, CUDA_ERROR_NOT_SUPPORTED);
SAME(CUDA_UNITS, CU_DEVICE_ATTRIBUTE_MULTIPROCESSOR_COUNT);
SAME(CUDA_KERNELS_LIMITED, CU_DEVICE_ATTRIBUTE_KERNEL_EXEC_TIMEOUT);
SAME(CUDA_MAPS_HOST, CU_DEVICE_ATTRIBUTE_CAN_MAP_HOST_MEMORY);
SAME(CUDA_COMPUTE_MODE, CU_DEVICE_ATTRIBUTE_COMPUTE_MODE);
SAME(CUDA_UNIFIED, CU_DEVICE_ATTRIBUTE_UNIFIED_ADDRESSING);
SAME(CUDA_MAJOR, CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR);
SAME(CUDA_MINOR, CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MINOR);
SAME(CUDA_COMPUTE_PROHIBITED, CU_COMPUTEMODE_PROHIBITED);
SAME(CUDA_MOST_THREADS, CU_FUNC_ATTRIBUTE_MAX_THREADS_PER_BLOCK);
SAME(CUDA_STREAM_ALONE, CU_STREAM_NON_BLOCKING);
SAME(CUDA_EVENT_UNTIMED, CU_EVENT_DISABLE_TIMING);
SAME(CUDA_HOST_PORTABLE, CU_MEMHOSTALLOC_PORTABLE);
SAME(CUDA_HOST_MAPPED, CU_MEMHOSTALLOC_DEVICEMAP);
SAME(CUDA_JIT_ERROR_LOG, CU_JIT_ERROR_LOG_BUFFER);
SAME(CUDA_JIT_ERROR_LENGTH, CU_JIT_ERROR_LOG_BUFFER_SIZE_BYTES);
SAME(CUDA_MEMORY_HOST, CU_MEMORYTYPE_HOST);
SAME(CUDA_MEMORY_DEVICE, CU_MEMORYTYPE_DEVICE);
SAME(CUDA_OPERATION_WAIT, CU_STREAM_MEM_OP_WAIT_VALUE_32);
SAME(CUDA_OPERATION_WRITE, CU_STREAM_MEM_OP_WRITE_VALUE_32);
SAME(CUDA_WAIT_AT_LEAST, CU_STREAM_WAIT_VALUE_GEQ);
SAME(sizeof(cuda_result), sizeof(CUresult));
SAME(sizeof(cuda_ordinal), sizeof(CUdevice));
SAME(sizeof(cuda_address), sizeof(CUdeviceptr));

/* The node that the unversioned cuGraphAddKernelNode takes is the first version's. */
SAME(sizeof(cuda_kernel_node), sizeof(CUDA_KERNEL_NODE_PARAMS_v1));
SAME_MEMBER(cuda_kernel_node, function, CUDA_KERNEL_NODE_PARAMS_v1, func);
SAME_MEMBER(cuda_kernel_node, grid[2], CUDA_KERNEL_NODE_PARAMS_v1, gridDimZ);
SAME_MEMBER(cuda_kernel_node, block[2], CUDA_KERNEL_NODE_PARAMS_v1, blockDimZ);
SAME_MEMBER(cuda_kernel_node, shared_bytes, CUDA_KERNEL_NODE_PARAMS_v1, sharedMemBytes);
SAME_MEMBER(cuda_kernel_node, parameters, CUDA_KERNEL_NODE_PARAMS_v1, kernelParams);
SAME_MEMBER(cuda_kernel_node, extra, CUDA_KERNEL_NODE_PARAMS_v1, extra);

#if CUDA_VERSION >= 12030
SAME(sizeof(cuda_edge), sizeof(CUgraphEdgeData));
SAME_MEMBER(cuda_edge, from_port, CUgraphEdgeData, from_port);
SAME_MEMBER(cuda_edge, to_port, CUgraphEdgeData, to_port);
SAME_MEMBER(cuda_edge, type, CUgraphEdgeData, type);
SAME(CUDA_PORT_PROGRAMMATIC, CU_GRAPH_KERNEL_NODE_PORT_PROGRAMMATIC);
SAME(CUDA_EDGE_PROGRAMMATIC, CU_GRAPH_DEPENDENCY_TYPE_PROGRAMMATIC);
#endif

SAME(sizeof(cuda_copy_node), sizeof(CUDA_MEMCPY3D));
SAME_MEMBER(cuda_copy_node, from.x_bytes, CUDA_MEMCPY3D, srcXInBytes);
SAME_MEMBER(cuda_copy_node, from.kind, CUDA_MEMCPY3D, srcMemoryType);
SAME_MEMBER(cuda_copy_node, from.host, CUDA_MEMCPY3D, srcHost);
SAME_MEMBER(cuda_copy_node, from.address, CUDA_MEMCPY3D, srcDevice);
SAME_MEMBER(cuda_copy_node, from.array, CUDA_MEMCPY3D, srcArray);
SAME_MEMBER(cuda_copy_node, from.height, CUDA_MEMCPY3D, srcHeight);
SAME_MEMBER(cuda_copy_node, to.x_bytes, CUDA_MEMCPY3D, dstXInBytes);
SAME_MEMBER(cuda_copy_node, to.kind, CUDA_MEMCPY3D, dstMemoryType);
SAME_MEMBER(cuda_copy_node, to.host, CUDA_MEMCPY3D, dstHost);
SAME_MEMBER(cuda_copy_node, to.address, CUDA_MEMCPY3D, dstDevice);
SAME_MEMBER(cuda_copy_node, to.height, CUDA_MEMCPY3D, dstHeight);
SAME_MEMBER(cuda_copy_node, width_bytes, CUDA_MEMCPY3D, WidthInBytes);
SAME_MEMBER(cuda_copy_node, height, CUDA_MEMCPY3D, Height);
SAME_MEMBER(cuda_copy_node, depth, CUDA_MEMCPY3D, Depth);

SAME(sizeof(cuda_operation), sizeof(CUstreamBatchMemOpParams));
SAME_MEMBER(cuda_operation, word.kind, CUstreamBatchMemOpParams, waitValue.operation);
SAME_MEMBER(cuda_operation, word.address, CUstreamBatchMemOpParams, waitValue.address);
SAME_MEMBER(cuda_operation, word.value, CUstreamBatchMemOpParams, waitValue.value64);
SAME_MEMBER(cuda_operation, word.flags, CUstreamBatchMemOpParams, waitValue.flags);
SAME_MEMBER(cuda_operation, word.address, CUstreamBatchMemOpParams, writeValue.address);
SAME_MEMBER(cuda_operation, word.flags, CUstreamBatchMemOpParams, writeValue.flags);
SAME(sizeof(cuda_operations_node), sizeof(CUDA_BATCH_MEM_OP_NODE_PARAMS_v1));
SAME_MEMBER(cuda_operations_node, count, CUDA_BATCH_MEM_OP_NODE_PARAMS_v1, count);
SAME_MEMBER(cuda_operations_node, operations, CUDA_BATCH_MEM_OP_NODE_PARAMS_v1, paramArray);
SAME_MEMBER(cuda_operations_node, flags, CUDA_BATCH_MEM_OP_NODE_PARAMS_v1, flags);

/* A name that was versioned is a macro in cuda.h for the version that its declarations mean. */
#define TEXT_OF(x) #x
#define TEXT(x)    TEXT_OF(x)

static void versions_are_those_of_the_header(void **state)
{
    (void)state;
    static const char *const pairs[][2] = {
        {TEXT(cuDeviceTotalMem), "cuDeviceTotalMem_v2"},
        {TEXT(cuDevicePrimaryCtxRelease), "cuDevicePrimaryCtxRelease_v2"},
        {TEXT(cuMemGetInfo), "cuMemGetInfo_v2"},
        {TEXT(cuMemAlloc), "cuMemAlloc_v2"},
        {TEXT(cuMemFree), "cuMemFree_v2"},
        {TEXT(cuMemHostGetDevicePointer), "cuMemHostGetDevicePointer_v2"},
        {TEXT(cuMemcpyHtoDAsync), "cuMemcpyHtoDAsync_v2"},
        {TEXT(cuMemcpyDtoHAsync), "cuMemcpyDtoHAsync_v2"},
        {TEXT(cuStreamDestroy), "cuStreamDestroy_v2"},
        {TEXT(cuEventDestroy), "cuEventDestroy_v2"},
        {TEXT(cuGraphInstantiate), "cuGraphInstantiateWithFlags"},
        {TEXT(cuMemHostAlloc), "cuMemHostAlloc"},
        {TEXT(cuMemFreeHost), "cuMemFreeHost"},
        {TEXT(cuMemcpyAsync), "cuMemcpyAsync"},
        {TEXT(cuMemsetD8Async), "cuMemsetD8Async"},
        {TEXT(cuStreamCreate), "cuStreamCreate"},
        {TEXT(cuStreamQuery), "cuStreamQuery"},
        {TEXT(cuStreamSynchronize), "cuStreamSynchronize"},
        {TEXT(cuEventCreate), "cuEventCreate"},
        {TEXT(cuEventRecord), "cuEventRecord"},
        {TEXT(cuLaunchKernel), "cuLaunchKernel"},
        {TEXT(cuModuleLoadDataEx), "cuModuleLoadDataEx"},
        {TEXT(cuGraphAddMemcpyNode), "cuGraphAddMemcpyNode"},
        {TEXT(cuGraphAddBatchMemOpNode), "cuGraphAddBatchMemOpNode"},
        {TEXT(cuGraphLaunch), "cuGraphLaunch"},
        {TEXT(cuGraphUpload), "cuGraphUpload"},
    };
    for (size_t i = 0; i < sizeof pairs / sizeof *pairs; i++)
        assert_string_equal(pairs[i][0], pairs[i][1]);
}
#else
static void versions_are_those_of_the_header(void **state)
{
    (void)state;
    need("cuda.h");
}
#endif

/* ------------------------------------------------------------------ the assembler, NVRTC */

static const char *const targets[] = {"sm_90", "sm_86", "sm_75"};

enum { TARGETS = sizeof targets / sizeof *targets };

/* Assembles a text for the first `count` of the targets; a complaint of any kind, spilled registers too, fails. */
static void assemble(const char *text, size_t count)
{
    char path[] = "/tmp/hearth-test-XXXXXX", command[512];
    int file = mkstemp(path);
    assert_true(file >= 0);
    assert_int_equal(write(file, text, strlen(text)), (ssize_t)strlen(text));
    close(file);
    int failed = 0;
    for (size_t i = 0; i < count; i++) {
        snprintf(command, sizeof command, "%s -arch=%s --warn-on-spills --warning-as-error -o /dev/null %s",
                 HEARTH_PTXAS, targets[i], path);
        failed += system(command) != 0;
    }
    unlink(path);
    assert_int_equal(failed, 0);
}

static void need_assembler(void)
{
    need(HEARTH_PTXAS[0] ? HEARTH_PTXAS : "ptxas");
}

static void the_exchange_assembles(void **state)
{
    (void)state;
    need_assembler();
    assemble(cuda_exchange_ptx(), TARGETS);
}

static char kernels[16 << 20];

static void read_kernels(void)
{
    need(HEARTH_PTX_MADE);
    FILE *file = fopen(HEARTH_PTX_MADE, "rb");
    assert_non_null(file);
    size_t size = fread(kernels, 1, sizeof kernels - 1, file);
    fclose(file);
    assert_true(size > 1000 && size < sizeof kernels - 1);
    kernels[size] = 0;
}

static void the_kernels_assemble(void **state)
{
    (void)state;
    need_assembler();
    read_kernels();
    assemble(kernels, 1);
}

static void the_kernels_assemble_for_early_launches(void **state)
{
    (void)state;
    need_assembler();
    read_kernels();
    char *early = cuda_ptx_for_early(kernels);
    assert_non_null(early);
    assemble(early, 1);
    mem_free(early);
}

/* A kernel that begins early reads and writes nothing before what it depends on has ended. */
static void kernels_wait_before_they_touch_memory(void **state)
{
    (void)state;
    read_kernels();
    char *early = cuda_ptx_for_early(kernels);
    assert_non_null(early);
    size_t entries = 0;
    for (char *entry = early; (entry = strstr(entry, ".visible .entry ")) != NULL; entries++) {
        entry += sizeof ".visible .entry " - 1;
        char *end = strstr(entry, ".visible .entry ");
        if (end)
            *end = 0;
        static const char *const touches[] = {"ld.global", "st.global", "ld.volatile", "ld.v", "ld.u",
                                              "ld.f",      "ld.b",      "ld.s3",       "st.v", "st.u",
                                              "st.f",      "st.b",      "atom.",       "red.", "call"};
        const char *waits = strstr(entry, "griddepcontrol.wait;"),
                   *lets = strstr(entry, "griddepcontrol.launch_dependents;");
        assert_true(waits != NULL && lets != NULL && lets < waits);
        assert_null(strstr(waits + 1, "griddepcontrol."));
        for (size_t i = 0; i < sizeof touches / sizeof *touches; i++) {
            const char *first = strstr(entry, touches[i]);
            if (first != NULL && first < waits)
                fail_msg("%.40s: %s before it waits", entry, touches[i]);
        }
        if (end)
            *end = '.';
    }
    assert_int_equal(entries, DEVICE_KERNEL_COUNT);
    mem_free(early);
}

static void text_without_comments_for_newer_devices(void **state)
{
    (void)state;
    assert_null(cuda_ptx_for_early(".version 6.5\n.target sm_75\n"));
    char *early = cuda_ptx_for_early(".version 6.5\n.target sm_75\n//sm_90 griddepcontrol.wait;\n");
    assert_string_equal(early, ".version 8.0\n.target sm_90\n        griddepcontrol.wait;\n");
    mem_free(early);
    early = cuda_ptx_for_early(".version 8.7\n.target sm_75\n//sm_90 ;\n");
    assert_string_equal(early, ".version 8.7\n.target sm_90\n        ;\n");
    mem_free(early);
}

static void nvrtc_takes_the_source(void **state)
{
    (void)state;
    char *ptx = NULL, version[16];
    hearth_error error = {0};
    if (cuda_nvrtc_compile(&ptx, 75, version, &error) != HEARTH_OK) {
        if (strstr(error.text, "is not there") == NULL)
            fail_msg("%s", error.text);
        need("libnvrtc.so");
    }
    for (size_t i = 0; i < DEVICE_KERNEL_COUNT; i++) {
        char entry[80];
        snprintf(entry, sizeof entry, ".entry kernel_%s(", device_kernels[i].name);
        if (strstr(ptx, entry) == NULL)
            fail_msg("no %s", entry);
    }
    if (access(HEARTH_PTXAS, X_OK) == 0)
        assemble(ptx, 1);
    mem_free(ptx);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(versions_are_those_of_the_header),
        cmocka_unit_test(the_exchange_assembles),
        cmocka_unit_test(the_kernels_assemble),
        cmocka_unit_test(the_kernels_assemble_for_early_launches),
        cmocka_unit_test(kernels_wait_before_they_touch_memory),
        cmocka_unit_test(text_without_comments_for_newer_devices),
        cmocka_unit_test(nvrtc_takes_the_source),
    };
    return run_group(tests, NULL, NULL);
}
