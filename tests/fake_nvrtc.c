/* fake_nvrtc.c - a libnvrtc.so.13 for tests beside fake_cuda.c: "compiles" the kernels' source to a list of its
 * kernels. FAKE_NVRTC_FAILS: it complains instead. FAKE_NVRTC_NEWEST: the newest capability that it knows. */
#include "../src/device/kernels/kernels.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define PUBLIC __attribute__((visibility("default")))

typedef struct fake_program {
    bool compiled;
} * fake_program;

PUBLIC const char *nvrtcGetErrorString(int result);
PUBLIC int nvrtcVersion(int *major, int *minor);
PUBLIC int nvrtcCreateProgram(fake_program *program, const char *source, const char *name, int headers,
                              const char *const *texts, const char *const *names);
PUBLIC int nvrtcDestroyProgram(fake_program *program);
PUBLIC int nvrtcCompileProgram(fake_program program, int count, const char *const *options);
PUBLIC int nvrtcGetProgramLogSize(fake_program program, size_t *size);
PUBLIC int nvrtcGetProgramLog(fake_program program, char *out);
PUBLIC int nvrtcGetPTXSize(fake_program program, size_t *size);
PUBLIC int nvrtcGetPTX(fake_program program, char *out);

enum { INVALID_OPTION = 5, COMPILATION = 6 };

static const char complaint[] = "kernels.cu(1): warning: never mind\nkernels.cu(2): error: what is this\nand more\n";

static const char ptx[] = "// fake NVRTC\n"
#define X(name, parameters, taker) ".entry kernel_" #name "(\n"
    DEVICE_KERNELS(X);
#undef X

const char *nvrtcGetErrorString(int result)
{
    return result == INVALID_OPTION ? "NVRTC_ERROR_INVALID_OPTION" : "NVRTC_ERROR_COMPILATION";
}

int nvrtcVersion(int *major, int *minor)
{
    *major = 12;
    *minor = 3;
    return 0;
}

int nvrtcCreateProgram(fake_program *program, const char *source, const char *name, int headers,
                       const char *const *texts, const char *const *names)
{
    (void)name, (void)texts, (void)names;
    *program = calloc(1, sizeof **program);
    return headers == 0 && strstr(source, "product_8_##name") != NULL ? 0 : COMPILATION;
}

int nvrtcDestroyProgram(fake_program *program)
{
    free(*program);
    *program = NULL;
    return 0;
}

int nvrtcCompileProgram(fake_program program, int count, const char *const *options)
{
    const char *newest = getenv("FAKE_NVRTC_NEWEST");
    int capability = 0;
    if (count < 1 || sscanf(options[0], "--gpu-architecture=compute_%d", &capability) != 1 ||
        capability > (newest ? atoi(newest) : 120))
        return INVALID_OPTION;
    if (getenv("FAKE_NVRTC_FAILS"))
        return COMPILATION;
    program->compiled = true;
    return 0;
}

int nvrtcGetProgramLogSize(fake_program program, size_t *size)
{
    *size = program->compiled ? 1 : sizeof complaint;
    return 0;
}

int nvrtcGetProgramLog(fake_program program, char *out)
{
    strcpy(out, program->compiled ? "" : complaint);
    return 0;
}

int nvrtcGetPTXSize(fake_program program, size_t *size)
{
    *size = program->compiled ? sizeof ptx : 1;
    return 0;
}

int nvrtcGetPTX(fake_program program, char *out)
{
    memcpy(out, program->compiled ? ptx : "", program->compiled ? sizeof ptx : 1);
    return 0;
}
