/* cuda_device.h - what the files of the CUDA driver share: cuda.c (devices, memory), cuda_kernels.c (how the kernels
 * come to be), cuda_nvrtc.c (compiling them at run time), cuda_exchange.c (words that both sides see, the clock),
 * cuda_program.c (programs as graphs). */
#ifndef DEVICE_CUDA_DEVICE_H
#define DEVICE_CUDA_DEVICE_H

#include "cuda_api.h"
#include "driver.h"

typedef struct cuda_kernel {
    cuda_function function;
    unsigned most_lanes; /* that a group of it may have */
} cuda_kernel;

/* The kernels of the exchange itself, whose text is in cuda_exchange.c and not among the products. */
#define CUDA_OWN_KERNELS(X) X(publish) X(await) X(stamp) X(copy)

typedef enum cuda_own_kernel {
#define X(name) CUDA_OWN_##name,
    CUDA_OWN_KERNELS(X)
#undef X
        CUDA_OWN_COUNT
} cuda_own_kernel;

/* How a slot is raised and waited for. */
typedef enum cuda_how { CUDA_BY_MEMORY, CUDA_BY_KERNEL, CUDA_BY_EVENTS } cuda_how;

typedef struct cuda_exchange {
    const char *name; /* of the key exchange=      */
    const char *text; /* for device_info           */
    cuda_how how;
} cuda_exchange;

typedef struct cuda_device {
    device base;
    cuda_api api;
    cuda_ordinal ordinal;
    int capability; /* 10 * major + minor */
    cuda_context context;
    cuda_stream stream;
    cuda_module module, own_module;
    cuda_kernel kernels[DEVICE_KERNEL_COUNT];
    cuda_function own[CUDA_OWN_COUNT];
    const cuda_exchange *exchange;
    char made[48]; /* what base.kernels points to */
    /* Where the clock is read: a word that both sides see. */
    volatile uint64_t *clock_word; /* pinned */
    cuda_address clock_address;
    double clock_offset, clock_read_at; /* clock_seconds() = globaltimer / 1e9 + offset */
    bool stuck; /* something on it does not come to rest: it is left behind, for giving back would wait for it */
} cuda_device;

/* Makes the device's context the calling thread's, which every call to the API below needs. */
hearth_status cuda_enter(const device *d, hearth_error *error);
/* fail(): "cuda:0: WHAT: what the driver says"; HEARTH_NO_MEMORY where it has none, else HEARTH_DEVICE. */
hearth_status cuda_fail(const cuda_device *d, cuda_result result, const char *what, hearth_error *error);

#define CUDA_TRY(d, call, what)                                \
    do {                                                       \
        cuda_result cuda_try_result = (call);                  \
        if (cuda_try_result != CUDA_OK)                        \
            return cuda_fail(d, cuda_try_result, what, error); \
    } while (0)

/* ------------------------------------------------------------------ cuda_kernels.c */

/* Loads every kernel: from PTX that was built in, else compiled now. Fills kernels, own, made. */
hearth_status cuda_kernels_load(cuda_device *d, hearth_error *error);

/* ------------------------------------------------------------------ cuda_nvrtc.c */

/* Compiles the kernels' source for a capability (75). *out is PTX, freed with mem_free; version gets NVRTC's, "13.0".
 * HEARTH_DEVICE: NVRTC is not there, or does not take the source (its first complaint is in the text). */
hearth_status cuda_nvrtc_compile(char **out, int capability, char version[16], hearth_error *error);

/* ------------------------------------------------------------------ cuda_exchange.c */

/* The text of the exchange's own kernels, for the driver's assembler. */
const char *cuda_exchange_ptx(void);
/* Chooses the exchange: that of the options, or the first that works. Needs the kernels. */
hearth_status cuda_exchange_choose(cuda_device *d, hearth_error *error);
/* Reads the device's clock beside ours. Only while nothing runs. */
hearth_status cuda_clock_read(cuda_device *d, hearth_error *error);

/* ------------------------------------------------------------------ cuda_program.c */

hearth_status cuda_seal(device_program *p, hearth_error *error);
void cuda_program_destroy(device_program *p);
/* With the faults that tests inject, and without: for trying out the exchange. */
hearth_status cuda_start(device_program *p, hearth_error *error);
hearth_status cuda_run(device_program *p, hearth_error *error);
hearth_status cuda_published(device_program *p, unsigned slot, bool *out, hearth_error *error);
void cuda_answer(device_program *p, unsigned slot);
hearth_status cuda_done(device_program *p, bool *out, hearth_error *error);
double cuda_stamp_seconds(const device_program *p, unsigned stamp);

#endif
