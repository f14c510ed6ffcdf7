/* cuda_kernels.c - loads the kernels of a CUDA device: from PTX that was compiled when hearth was built, if nvcc or
 * clang was installed then (HEARTH_PTX in CMakeLists.txt), else with NVRTC. The driver compiles PTX to the device's
 * machine code and caches the result. */
#include "cuda_device.h"

#include "../base/memory.h"

#include <stdio.h>
#include <string.h>

typedef struct built_in_kernels {
    const char *ptx;
    int capability; /* the least of devices that can load it, as in cuda_device */
} built_in_kernels;

#ifdef HEARTH_PTX_FILE
/* The assembler includes a file as text and appends a zero byte. */
#define EMBED(name, file)                                           \
    extern const char name[] __attribute__((visibility("hidden"))); \
    __asm__(".pushsection .rodata\n"                                \
            ".global " #name "\n"                                   \
            ".hidden " #name "\n" #name ":\n"                       \
            ".incbin \"" file "\"\n"                                \
            ".byte 0\n"                                             \
            ".popsection\n")
EMBED(cuda_built_in_ptx, HEARTH_PTX_FILE);
#ifdef HEARTH_PTX_MATRIX_FILE
EMBED(cuda_built_in_matrix_ptx, HEARTH_PTX_MATRIX_FILE);
#endif
#endif

/* The same kernels: with what only newer devices have first. */
static const built_in_kernels built_in[] = {
#ifdef HEARTH_PTX_MATRIX_FILE
    {cuda_built_in_matrix_ptx, HEARTH_PTX_MATRIX_TARGET},
#endif
#ifdef HEARTH_PTX_FILE
    {cuda_built_in_ptx, HEARTH_PTX_TARGET},
#else
    {NULL, 0},
#define HEARTH_PTX_BY ""
#endif
};

char *cuda_ptx_for_early(const char *ptx)
{
    size_t size = strlen(ptx) + 1, found = 0;
    char *out = mem_new(size);
    if (out == NULL)
        return NULL;
    memcpy(out, ptx, size);
    /* Nothing changes its length. */
    for (char *at = out; (at = strstr(at, FROM_SM_90)) != NULL; found++)
        memset(at, ' ', sizeof FROM_SM_90 - 1);
    char *version = strstr(out, ".version "), *target = strstr(out, ".target sm_");
    if (found == 0 || version == NULL || target == NULL) {
        mem_free(out);
        return NULL;
    }
    version += sizeof ".version " - 1;
    if (version[1] == '.' && version[0] < '8')
        version[0] = '8', version[2] = '0';
    target += sizeof ".target sm_" - 1;
    target[0] = '9', target[1] = '0';
    return out;
}

/* Loads PTX into the driver. HEARTH_DEVICE: it rejects the PTX; the first line of its log is in the text. */
static hearth_status load_module(cuda_device *d, cuda_module *out, const char *ptx, const char *what,
                                 hearth_error *error)
{
    char log[1024] = "";
    int options[] = {CUDA_JIT_ERROR_LOG, CUDA_JIT_ERROR_LENGTH};
    void *values[] = {log, (void *)(uintptr_t)(sizeof log - 1)};
    cuda_result result = d->api.module_load(out, ptx, 2, options, values);
    if (result == CUDA_OK)
        return HEARTH_OK;
    char text[160];
    cuda_result_text(&d->api, result, text, sizeof text);
    return fail(error, result == CUDA_NO_MEMORY ? HEARTH_NO_MEMORY : HEARTH_DEVICE, "cuda:%u: %s: %s%s%.*s",
                d->base.options.index, what, text, *log ? ": " : "", (int)strcspn(log, "\n"), log);
}

static hearth_status find_function(const cuda_device *d, cuda_function *out, cuda_module module, const char *name,
                                   hearth_error *error)
{
    cuda_result result = d->api.module_function(out, module, name);
    return result == CUDA_OK ? HEARTH_OK : cuda_fail(d, result, name, error);
}

/* Looks up every kernel. In CUDA their names have the prefix kernel_, because CUDA's headers define norm(). */
static hearth_status find_kernels(cuda_device *d, hearth_error *error)
{
    for (size_t i = 0; i < DEVICE_KERNEL_COUNT; i++) {
        cuda_kernel *k = &d->kernels[i];
        char name[64];
        snprintf(name, sizeof name, "kernel_%s", device_kernels[i].name);
        TRY(find_function(d, &k->function, d->module, name, error));
        int most = 0;
        CUDA_TRY(d, d->api.function_attribute(&most, CUDA_MOST_THREADS, k->function), name);
        k->most_lanes = most > 0 ? (unsigned)most : 1;
    }
    return HEARTH_OK;
}

/* Loads the driver's own kernels. */
static hearth_status load_own(cuda_device *d, hearth_error *error)
{
    static const char *const names[] = {
#define X(name) #name,
        CUDA_OWN_KERNELS(X)
#undef X
    };
    TRY(load_module(d, &d->own_module, cuda_exchange_ptx(), "the exchange's kernels", error));
    for (size_t i = 0; i < CUDA_OWN_COUNT; i++)
        TRY(find_function(d, &d->own[i], d->own_module, names[i], error));
    return HEARTH_OK;
}

/* Compiles the kernels with NVRTC and loads them. */
static hearth_status load_compiled(cuda_device *d, hearth_error *error)
{
    char *ptx = NULL, version[16] = "";
    TRY(cuda_nvrtc_compile(&ptx, d->capability, version, error));
    hearth_status status = load_module(d, &d->module, ptx, "kernels from NVRTC", error);
    mem_free(ptx);
    if (status == HEARTH_OK)
        snprintf(d->made, sizeof d->made, "NVRTC %s", version);
    return status;
}

/* Loads built-in PTX so that kernels may begin early. */
static hearth_status load_early(cuda_device *d, hearth_error *error)
{
    if (d->capability < 90 || d->api.graph_depend == NULL)
        return fail(error, HEARTH_DEVICE,
                    "cuda:%u: launch=early needs compute capability 9.0 and a driver for CUDA 12.3%s",
                    d->base.options.index, d->capability < 90 ? "; the device is older" : "; the driver is older");
    if (built_in[0].ptx == NULL)
        return fail(error, HEARTH_DEVICE, "cuda:%u: launch=early needs kernels that were built in",
                    d->base.options.index);
    char *ptx = cuda_ptx_for_early(built_in[0].ptx);
    if (ptx == NULL)
        return fail(error, HEARTH_NO_MEMORY, "cuda:%u: out of memory for the text of kernels", d->base.options.index);
    hearth_status status = load_module(d, &d->module, ptx, "built-in kernels for early launches", error);
    mem_free(ptx);
    snprintf(d->made, sizeof d->made, "PTX (%s, 9.0), launched early", HEARTH_PTX_BY);
    return status;
}

/* Loads the kernels of kernels/: the newest built-in PTX that the device can load. It fails if the driver is older than the
 * nvcc that made it; NVRTC from an older toolkit may still work. If all fail, reports the first error. */
static hearth_status load_products(cuda_device *d, hearth_error *error)
{
    hearth_status first = HEARTH_OK;
    for (size_t i = 0; i < sizeof built_in / sizeof *built_in && built_in[i].ptx; i++) {
        bool fits = d->capability >= built_in[i].capability, is_last = i + 1 == sizeof built_in / sizeof *built_in;
        if (!fits && !is_last)
            continue;
        hearth_status status =
            load_module(d, &d->module, built_in[i].ptx, "built-in kernels", first == HEARTH_OK ? error : NULL);
        if (status == HEARTH_OK) {
            snprintf(d->made, sizeof d->made, "PTX (%s, %d.%d)", HEARTH_PTX_BY, built_in[i].capability / 10,
                     built_in[i].capability % 10);
            return HEARTH_OK;
        }
        first = first == HEARTH_OK ? status : first;
    }
    if (first == HEARTH_OK)
        return load_compiled(d, error);
    return load_compiled(d, NULL) == HEARTH_OK ? HEARTH_OK : first;
}

hearth_status cuda_kernels_load(cuda_device *d, hearth_error *error)
{
    TRY(load_own(d, error));
    TRY(d->base.options.early ? load_early(d, error) : load_products(d, error));
    d->base.kernels = d->made;
    return find_kernels(d, error);
}
