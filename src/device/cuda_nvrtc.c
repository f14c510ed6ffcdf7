/* cuda_nvrtc.c - compiles the kernels' source at run time with NVRTC, if a CUDA toolkit is installed. The library is
 * loaded like the driver's. Knows nothing of a device but its compute capability. */
#include "cuda_device.h"

#include <dlfcn.h>
#include <stdio.h>
#include <string.h>

typedef struct nvrtc_program_object *nvrtc_program;

/* X(name in the table, name in the library, result, parameters) */
// clang-format off
#define NVRTC_FUNCTIONS(X)                                                                                             \
    X(error_text, nvrtcGetErrorString, const char *, (int result))                                                     \
    X(version, nvrtcVersion, int, (int *major, int *minor))                                                            \
    X(create, nvrtcCreateProgram, int,                                                                                 \
      (nvrtc_program *program, const char *source, const char *name, int headers, const char *const *texts,            \
       const char *const *names))                                                                                      \
    X(destroy, nvrtcDestroyProgram, int, (nvrtc_program *program))                                                     \
    X(compile, nvrtcCompileProgram, int, (nvrtc_program program, int count, const char *const *options))               \
    X(log_size, nvrtcGetProgramLogSize, int, (nvrtc_program program, size_t *size))                                    \
    X(log, nvrtcGetProgramLog, int, (nvrtc_program program, char *out))                                                \
    X(ptx_size, nvrtcGetPTXSize, int, (nvrtc_program program, size_t *size))                                           \
    X(ptx, nvrtcGetPTX, int, (nvrtc_program program, char *out))
// clang-format on

typedef struct nvrtc_api {
#define X(name, symbol, type, parameters) type(*name) parameters;
    NVRTC_FUNCTIONS(X)
#undef X
} nvrtc_api;

static const char *const libraries[] = {"libnvrtc.so.13", "libnvrtc.so.12", "libnvrtc.so.11.2", "libnvrtc.so"};

/* The result of compiling for a capability that NVRTC does not know. */
enum { NVRTC_INVALID_OPTION = 5 };

/* Targets, newest first; tried from the device's own capability downwards, because each NVRTC supports only some. PTX
 * for an older capability runs on a newer device. */
static const int capabilities[] = {120, 100, 90, 89, 86, 80, 75, 70, 61, 60};

/* Loads NVRTC and fills the table. */
static hearth_status open_library(nvrtc_api *out, hearth_error *error)
{
    void *library = NULL;
    for (size_t i = 0; i < sizeof libraries / sizeof *libraries && library == NULL; i++)
        library = dlopen(libraries[i], RTLD_NOW | RTLD_LOCAL | RTLD_NODELETE);
    if (library == NULL)
        return fail(error, HEARTH_DEVICE, "cuda: NVRTC (libnvrtc.so) is not there");
    const char *missing = NULL;
#define X(name, symbol, type, parameters)           \
    *(void **)&out->name = dlsym(library, #symbol); \
    if (out->name == NULL)                          \
        missing = #symbol;
    NVRTC_FUNCTIONS(X)
#undef X
    dlclose(library);
    return missing == NULL ? HEARTH_OK : fail(error, HEARTH_DEVICE, "cuda: NVRTC has no function %s", missing);
}

/* Reports the first line of the log with "error" in it, or else the name of the result. */
static hearth_status fail_compiling(const nvrtc_api *api, nvrtc_program program, int result, hearth_error *error)
{
    size_t size = 0;
    char *log = NULL;
    if (api->log_size(program, &size) == 0 && size > 1)
        log = mem_new(size + 1);
    const char *line = NULL;
    if (log != NULL && api->log(program, log) == 0) {
        line = strstr(log, "error");
        while (line != NULL && line > log && line[-1] != '\n')
            line--;
    }
    hearth_status status =
        fail(error, HEARTH_DEVICE, "cuda: NVRTC: %.*s", line != NULL ? (int)strcspn(line, "\n") : 200,
             line != NULL ? line : api->error_text(result));
    mem_free(log);
    return status;
}

/* Copies the PTX of a compiled program to *out. */
static hearth_status take_ptx(const nvrtc_api *api, nvrtc_program program, char **out, hearth_error *error)
{
    size_t size = 0;
    int result = api->ptx_size(program, &size);
    if (result != 0)
        return fail_compiling(api, program, result, error);
    char *text = mem_new(size + 1);
    if (text == NULL)
        return fail_memory(error, "cuda: PTX", size + 1);
    result = api->ptx(program, text);
    if (result != 0) {
        mem_free(text);
        return fail_compiling(api, program, result, error);
    }
    *out = text;
    return HEARTH_OK;
}

hearth_status cuda_nvrtc_compile(char **out, int capability, char version[16], hearth_error *error)
{
    nvrtc_api api = {0};
    TRY(open_library(&api, error));
    int major = 0, minor = 0;
    api.version(&major, &minor);
    snprintf(version, 16, "%d.%d", major, minor);
    size_t size = 0;
    const char *source = kernels_source(&size);
    nvrtc_program program = NULL;
    int result = api.create(&program, source, "kernels.cu", 0, NULL, NULL);
    if (result != 0)
        return fail(error, HEARTH_DEVICE, "cuda: NVRTC: %s", api.error_text(result));
    hearth_status status = HEARTH_DEVICE;
    result = NVRTC_INVALID_OPTION;
    for (size_t i = 0; i < sizeof capabilities / sizeof *capabilities && result == NVRTC_INVALID_OPTION; i++) {
        if (capabilities[i] > capability)
            continue;
        char target[48];
        snprintf(target, sizeof target, "--gpu-architecture=compute_%d", capabilities[i]);
        const char *options[] = {target, "--std=c++14"};
        result = api.compile(program, sizeof options / sizeof *options, options);
        status = result == 0 ? take_ptx(&api, program, out, error) : fail_compiling(&api, program, result, error);
    }
    api.destroy(&program);
    if (result == NVRTC_INVALID_OPTION)
        return fail(error, HEARTH_DEVICE, "cuda: NVRTC %s has no target for capability %d", version, capability);
    return status;
}
