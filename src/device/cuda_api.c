/* cuda_api.c - loads NVIDIA's driver library. Knows nothing of devices. */
#include "cuda_api.h"

#include <dlfcn.h>
#include <stdio.h>

const char *cuda_result_text(const cuda_api *api, cuda_result result, char *text, size_t size)
{
    const char *sentence = NULL, *name = NULL;
    if (api->error_text(result, &sentence) != CUDA_OK || sentence == NULL)
        sentence = "an error without a description";
    if (api->error_name(result, &name) == CUDA_OK && name != NULL)
        snprintf(text, size, "%s (%s)", sentence, name);
    else
        snprintf(text, size, "%s (%d)", sentence, result);
    return text;
}

/* Returns the address of a function as dlsym does, as void *. POSIX lets it be converted to a function pointer. */
static void *find(void *library, const char *symbol)
{
    return dlsym(library, symbol);
}

/* Fills the table. Returns the name of the first missing function, NULL if none is missing. */
static const char *fill_table(cuda_api *out, void *library)
{
    const char *missing = NULL;
#define X(name, symbol, parameters)                \
    *(void **)&out->name = find(library, #symbol); \
    if (out->name == NULL && missing == NULL)      \
        missing = #symbol;
    CUDA_FUNCTIONS(X)
#undef X
#define X(name, symbol, parameters) *(void **)&out->name = find(library, #symbol);
    CUDA_OPTIONAL_FUNCTIONS(X)
#undef X
    return missing;
}

hearth_status cuda_api_load(cuda_api *out, hearth_error *error)
{
    void *library = dlopen(CUDA_LIBRARY, RTLD_NOW | RTLD_LOCAL | RTLD_NODELETE);
    if (library == NULL) {
        const char *reason = dlerror();
        return fail(error, HEARTH_DEVICE, "cuda: no NVIDIA driver: %s", reason != NULL ? reason : CUDA_LIBRARY);
    }
    *out = (cuda_api){0};
    const char *missing = fill_table(out, library);
    /* Releases the reference. RTLD_NODELETE keeps the library loaded, since drivers may not survive unloading. */
    dlclose(library);
    int version = 0;
    bool known = out->version != NULL && out->version(&version) == CUDA_OK;
    if (known && version < CUDA_OLDEST_DRIVER)
        return fail(error, HEARTH_DEVICE, "cuda: the driver is too old: CUDA %d.%d, needed is %d.%d", version / 1000,
                    version % 1000 / 10, CUDA_OLDEST_DRIVER / 1000, CUDA_OLDEST_DRIVER % 1000 / 10);
    if (missing != NULL)
        return fail(error, HEARTH_DEVICE, "cuda: " CUDA_LIBRARY " has no function %s", missing);
    cuda_result result = out->initialize(0);
    if (result != CUDA_OK) {
        char text[160];
        return fail(error, HEARTH_DEVICE, "cuda: the driver does not start: %s",
                    cuda_result_text(out, result, text, sizeof text));
    }
    return HEARTH_OK;
}
