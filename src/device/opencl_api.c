/* opencl_api.c - loads OpenCL's functions and names its errors. Knows nothing of devices. */
#include "opencl_api.h"

#ifdef HEARTH_HAVE_OPENCL

#include <dlfcn.h>

hearth_status opencl_load(opencl_api *api, hearth_error *error)
{
    /* The library is never unloaded: platforms have threads and exit handlers in this process. */
    *api = (opencl_api){.library = dlopen(OPENCL_LIBRARY, RTLD_NOW | RTLD_LOCAL | RTLD_NODELETE)};
    if (!api->library)
        return fail(error, HEARTH_DEVICE, "opencl: %s", dlerror());
#define X(name)                                                                              \
    api->name = (__typeof__(api->name))dlsym(api->library, "cl" #name);                      \
    if (!api->name) {                                                                        \
        opencl_unload(api);                                                                  \
        return fail(error, HEARTH_DEVICE, "opencl: " OPENCL_LIBRARY ": it has no cl" #name); \
    }
    OPENCL_CALLS(X)
#undef X
    return HEARTH_OK;
}

void opencl_unload(opencl_api *api)
{
    if (api->library)
        dlclose(api->library);
    api->library = NULL;
}

const char *opencl_error_name(cl_int code)
{
    static const struct {
        cl_int code;
        const char *name;
    } names[] = {
// clang-format off
#define X(name) {name, #name},
        X(CL_DEVICE_NOT_FOUND) X(CL_DEVICE_NOT_AVAILABLE) X(CL_COMPILER_NOT_AVAILABLE)
        X(CL_MEM_OBJECT_ALLOCATION_FAILURE) X(CL_OUT_OF_RESOURCES) X(CL_OUT_OF_HOST_MEMORY)
        X(CL_PROFILING_INFO_NOT_AVAILABLE) X(CL_MEM_COPY_OVERLAP) X(CL_BUILD_PROGRAM_FAILURE) X(CL_MAP_FAILURE)
        X(CL_EXEC_STATUS_ERROR_FOR_EVENTS_IN_WAIT_LIST) X(CL_COMPILE_PROGRAM_FAILURE) X(CL_LINKER_NOT_AVAILABLE)
        X(CL_LINK_PROGRAM_FAILURE) X(CL_INVALID_VALUE) X(CL_INVALID_PLATFORM) X(CL_INVALID_DEVICE)
        X(CL_INVALID_CONTEXT) X(CL_INVALID_QUEUE_PROPERTIES) X(CL_INVALID_COMMAND_QUEUE) X(CL_INVALID_MEM_OBJECT)
        X(CL_INVALID_BINARY) X(CL_INVALID_BUILD_OPTIONS) X(CL_INVALID_PROGRAM) X(CL_INVALID_PROGRAM_EXECUTABLE)
        X(CL_INVALID_KERNEL_NAME) X(CL_INVALID_KERNEL) X(CL_INVALID_ARG_INDEX) X(CL_INVALID_ARG_VALUE)
        X(CL_INVALID_ARG_SIZE) X(CL_INVALID_KERNEL_ARGS) X(CL_INVALID_WORK_DIMENSION)
        X(CL_INVALID_WORK_GROUP_SIZE) X(CL_INVALID_WORK_ITEM_SIZE) X(CL_INVALID_GLOBAL_OFFSET)
        X(CL_INVALID_EVENT_WAIT_LIST) X(CL_INVALID_EVENT) X(CL_INVALID_OPERATION) X(CL_INVALID_BUFFER_SIZE)
        X(CL_INVALID_GLOBAL_WORK_SIZE)
#undef X
        {-1001, "CL_PLATFORM_NOT_FOUND_KHR"}, /* an error of the loader, from cl_khr_icd */
        // clang-format on
    };
    for (size_t i = 0; i < sizeof names / sizeof names[0]; i++) {
        if (names[i].code == code)
            return names[i].name;
    }
    return "an unknown OpenCL error";
}

hearth_status opencl_fail(const opencl_device *d, const char *what, cl_int code, hearth_error *error)
{
    bool memory = code == CL_MEM_OBJECT_ALLOCATION_FAILURE || code == CL_OUT_OF_HOST_MEMORY;
    return fail(error, memory ? HEARTH_NO_MEMORY : HEARTH_DEVICE, "%s: %s: %s (%d)", d->base.name, what,
                opencl_error_name(code), code);
}

#endif
