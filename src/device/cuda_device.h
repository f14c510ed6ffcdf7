/* cuda_device.h - declarations that the files of the CUDA driver share: cuda.c (devices, memory), cuda_kernels.c
 * (loading kernels), cuda_nvrtc.c (compiling them at run time), cuda_exchange.c (slots and the clock), cuda_program.c
 * (programs as graphs). */
#ifndef DEVICE_CUDA_DEVICE_H
#define DEVICE_CUDA_DEVICE_H

#include "cuda_api.h"
#include "driver.h"

typedef struct cuda_kernel {
    cuda_function function;
    unsigned most_lanes; /* the largest group (block) that it can run with */
} cuda_kernel;

/* The driver's own kernels, whose source is in cuda_exchange.c and not in kernels/. */
#define CUDA_OWN_KERNELS(X) X(publish) X(await) X(stamp) X(copy) X(send) X(receive)

typedef enum cuda_own_kernel {
#define X(name) CUDA_OWN_##name,
    CUDA_OWN_KERNELS(X)
#undef X
        CUDA_OWN_COUNT
} cuda_own_kernel;

enum { CUDA_STAGING_BYTES = 1 << 20 };

/* How a slot is published and awaited; cuda_exchange.c describes the three ways. */
typedef enum cuda_how { CUDA_BY_MEMORY, CUDA_BY_KERNEL, CUDA_BY_EVENTS } cuda_how;

typedef struct cuda_exchange {
    const char *name; /* value of the key exchange= */
    const char *text; /* for device_info */
    cuda_how how;
} cuda_exchange;

typedef struct cuda_device {
    device base;
    cuda_api api;
    cuda_ordinal ordinal;
    int capability;       /* 10 * major + minor */
    bool kernels_limited; /* a kernel that runs for seconds is ended: the device has a display, too */
    cuda_context context;
    cuda_stream stream;
    cuda_stream copy_stream; /* of QUEUE_COPY */
    cuda_module module, own_module;
    cuda_kernel kernels[DEVICE_KERNEL_COUNT];
    cuda_function own[CUDA_OWN_COUNT];
    const cuda_exchange *exchange;
    char made[48]; /* text that base.kernels points to */
    /* The device writes its clock to this word of pinned memory (cuda_clock_read). */
    volatile uint64_t *clock_word; /* pinned */
    cuda_address clock_address;
    double clock_offset, clock_read_at; /* clock_seconds() = globaltimer / 1e9 + offset */
    /* Short writes wait here, in pinned memory, until the stream has come to them (cuda_write). */
    unsigned char *staging; /* [CUDA_STAGING_BYTES] */
    size_t staged_bytes;    /* in use; 0: none is under way */
    bool stuck;             /* a program hangs on it; the device is leaked, since freeing it would wait forever */
} cuda_device;

/* Makes the device's context current in the calling thread; every later call to the API needs this. */
hearth_status cuda_enter(const device *d, hearth_error *error);
/* Waits for writes that were set aside, which other streams than the device's own do not wait for. */
hearth_status cuda_settle(cuda_device *d, hearth_error *error);
/* Calls fail(): "cuda:0: WHAT: text of the result". HEARTH_NO_MEMORY if the driver ran out of memory, else
 * HEARTH_DEVICE. */
hearth_status cuda_fail(const cuda_device *d, cuda_result result, const char *what, hearth_error *error);

#define CUDA_TRY(d, call, what)                                \
    do {                                                       \
        cuda_result cuda_try_result = (call);                  \
        if (cuda_try_result != CUDA_OK)                        \
            return cuda_fail(d, cuda_try_result, what, error); \
    } while (0)

/* ------------------------------------------------------------------ cuda_kernels.c */

/* Returns a copy of built-in PTX in which what newer devices need to begin kernels early is no comment any more, to be freed with
 * mem_free. NULL: it has no such comments, or memory is short. */
char *cuda_ptx_for_early(const char *ptx);
/* Loads every kernel, from built-in PTX or else compiled with NVRTC. Sets kernels, own and made. */
hearth_status cuda_kernels_load(cuda_device *d, hearth_error *error);

/* ------------------------------------------------------------------ cuda_nvrtc.c */

/* Compiles the kernels' source for a compute capability (75). *out is PTX, to be freed with mem_free; `version` gets
 * the version of NVRTC, "13.0". HEARTH_DEVICE: NVRTC is missing, or rejects the source (its first error is in the
 * text). */
hearth_status cuda_nvrtc_compile(char **out, int capability, char version[16], hearth_error *error);

/* ------------------------------------------------------------------ cuda_exchange.c */

/* Returns the source of the driver's own kernels, in PTX. */
const char *cuda_exchange_ptx(void);
/* Chooses the exchange: the one in the options, or the first that works. The kernels must be loaded. */
hearth_status cuda_exchange_choose(cuda_device *d, hearth_error *error);
/* Compares the device's clock with clock_seconds(). Only while nothing runs. */
hearth_status cuda_clock_read(cuda_device *d, hearth_error *error);

/* ------------------------------------------------------------------ cuda_program.c */

hearth_status cuda_seal(device_program *p, hearth_error *error);
void cuda_program_destroy(device_program *p);
/* cuda_start injects the faults of tests; cuda_run does not, and is also used to try out the exchange. */
hearth_status cuda_start(device_program *p, hearth_error *error);
hearth_status cuda_run(device_program *p, hearth_error *error);
hearth_status cuda_published(device_program *p, unsigned slot, bool *out, hearth_error *error);
void cuda_answer(device_program *p, unsigned slot);
hearth_status cuda_done(device_program *p, bool *out, hearth_error *error);
double cuda_stamp_seconds(const device_program *p, unsigned stamp);

#endif
