/* device.h - devices: memory with a budget, programs of kernels and copies, and the exchange.
 *
 * A device computes a part of the model beside the CPU. Its work is the same for every token: the same kernels, copies
 * and exchanges in the same order, on the same buffers. So the work is recorded once, as a *program*, and started for
 * every token. The values that differ (token, position) are in a buffer that the program copies in first. Each driver
 * turns a program into the form that suits its hardware: a list of commands for a thread, commands for a queue, a CUDA
 * graph. While a program runs, hearth allocates no memory and wakes no thread; a driver library may do either.
 *
 * The exchange: a program *publishes* a slot when all commands recorded before it are done. The CPU spins in
 * device_await_published until it sees the slot. The CPU then *answers* the slot, and the program continues after the
 * matching *await*. Data travels in pinned buffers, by copies recorded before the publish and after the await.
 *
 * A program has two queues: the main one, and one for copies that run while the main one computes. Each runs its commands in
 * order, at the same time as the other; a *signal* in one and a *wait* in the other order them where they meet.
 *
 * Ownership: the caller owns the buffers and programs, and destroys them before it closes the device. One thread at a
 * time uses a device and everything that belongs to it. This interface knows nothing of layers, models and neurons.
 *
 * Drivers: host.c (its own threads), opencl.c and cuda.c; driver.h declares what they share. */
#ifndef DEVICE_DEVICE_H
#define DEVICE_DEVICE_H

#include "../base/error.h"
#include "kernels/kernels.h"

typedef struct device device;
typedef struct device_buffer device_buffer;
typedef struct device_program device_program;

/* ------------------------------------------------------------------ which there are */

/* A device that was found, or the reason why a driver found none. */
typedef struct device_found {
    char spec[32];  /* for device_open: "host", "opencl:0", "cuda:1" */
    char name[128]; /* "NVIDIA GeForce RTX 4090"; empty if the driver itself is missing */
    uint64_t memory_bytes;
    bool usable;
    bool is_gpu;       /* false: it runs on the cores of the CPU (host, PoCL) and is never a default */
    char problem[256]; /* why it is not usable: "libcuda.so.1 is not there"; else empty */
} device_found;

/* More rows than device_list gives on any machine: a size for its callers. */
#define MAX_DEVICES 64

/* Lists the devices of every driver. Writes at most `capacity` rows and returns how many there are in all. A driver
 * without devices gives one row with the reason. A broken driver gives such a row too and never fails the call, not
 * even by a crash: each driver is first asked in a child process (probe.h). The result is stored in cache_folder, which
 * must exist (NULL: not stored). */
size_t device_list(device_found *out, size_t capacity, const char *cache_folder);
/* Removes the results stored in cache_folder, so that the next call asks the drivers again. */
void device_forget(const char *cache_folder);

/* The properties of an open device. */
typedef struct device_info {
    const char *driver;              /* "host", "opencl", "cuda"                                            */
    const char *name;                /* owned by the device */
    uint64_t memory_bytes;           /* in all */
    uint64_t free_bytes;             /* at the time of opening; 0: unknown */
    uint64_t budget_bytes;           /* for all buffers in its memory together */
    uint64_t used_bytes, peak_bytes; /* of buffers in its memory */
    uint64_t pinned_bytes;           /* of buffers in main memory */
    unsigned units;                  /* compute units: groups run side by side */
    unsigned group;                  /* lanes of a group; fewer for a kernel that allows only fewer */
    const char *kernels;             /* how they were compiled: "AVX2", "PTX (nvcc, 7.5)", "NVRTC 12.4", "OpenCL C" */
    const char *exchange;            /* how a slot is published: "memory", "stream memory operations" ... */
    bool is_gpu;                     /* as in device_found */
} device_info;

/* Opens the device that a spec names, after asking its driver as device_list does (cache_folder: as there).
 * A spec is NAME[:INDEX][,KEY=VALUE]... with the keys
 *     memory=SIZE   budget ("512M", "8G", bytes; 1K is 1000). Default: nine tenths of the free memory; if that is
 *                   unknown, three quarters of the device's memory, or a quarter if it uses main memory
 *                   (host: at most the machine's memory)
 *     group=N       lanes of a group, for tests. Default: what suits the device
 *     threads=N     host: number of threads. Default: 1
 *     speed=F       host: fraction of its speed, 0 < F <= 1; it waits after each command to imitate a slower device
 *     exchange=HOW  cuda: memory, kernel or events. Default: the first that works (cuda_exchange.c)
 *     launch=HOW    cuda: early, where kernels may begin before the one ahead of them has ended, which needs compute
 *                   capability 9.0 and a driver for CUDA 12.3; or late. Default: late
 *     times=FILE    writes there, as CSV, how long every command took (times.h); makes everything a little slower
 * HEARTH_INVALID: no such driver or key (named). HEARTH_DEVICE: the driver is missing or broken, or has no such
 * device; the text says why. */
hearth_status device_open(device **out, const char *spec, const char *cache_folder, hearth_error *error);
/* What device_open says of a spec before it opens anything: HEARTH_INVALID. */
hearth_status device_check_spec(const char *spec, hearth_error *error);
/* Closes it; NULL is allowed. A device whose program hangs is leaked, since that program may still use it. */
void device_close(device *d);
void device_describe(const device *d, device_info *out);

/* ------------------------------------------------------------------ memory */

typedef enum device_place {
    DEVICE_MEMORY, /* the device's memory, which kernels use; counts against the budget */
    DEVICE_PINNED, /* main memory for copies between both sides; not for arguments of kernels */
    DEVICE_PLACES
} device_place;

/* Creates a zeroed buffer. `what` names it in errors: "blk.3 gate". A size of 0 is allowed. HEARTH_NO_MEMORY: it does
 * not fit into the budget or the device; the text says how much was wanted, for what, and how much is left or in
 * use. */
hearth_status device_buffer_create(device_buffer **out, device *d, device_place place, size_t size_bytes,
                                   const char *what, hearth_error *error);
void device_buffer_destroy(device_buffer *b);
size_t device_buffer_bytes(const device_buffer *b);
/* Returns the address of a pinned buffer for the CPU; NULL for one in the device's memory. */
void *device_buffer_host(const device_buffer *b);

/* Copy data, for loading, saving and tests; no program may run meanwhile. Offsets are in bytes. device_write returns when `from` may be
 * used again, and what is read or started afterwards finds it written; a device that fails meanwhile says so then. */
hearth_status device_write(device_buffer *to, size_t offset, const void *from, size_t size_bytes, hearth_error *error);
hearth_status device_read(const device_buffer *from, size_t offset, void *to, size_t size_bytes, hearth_error *error);
hearth_status device_move(device_buffer *to, size_t to_offset, const device_buffer *from, size_t from_offset,
                          size_t size_bytes, hearth_error *error);

/* ------------------------------------------------------------------ programs */

#define ARGUMENT_ALIGNMENT 16

/* An argument of a kernel: a buffer starting at `offset` (buffer NULL: the kernel gets NULL), or a value. */
typedef struct device_argument {
    enum { ARGUMENT_BUFFER, ARGUMENT_UINT, ARGUMENT_FLOAT } kind;
    const device_buffer *buffer;
    size_t offset; /* bytes; a multiple of ARGUMENT_ALIGNMENT */
    uint32_t u;
    float f;
} device_argument;

#define BUFFER_FROM(b, bytes) ((device_argument){.kind = ARGUMENT_BUFFER, .buffer = (b), .offset = (bytes)})
#define BUFFER(b)             BUFFER_FROM(b, 0)
#define NO_BUFFER             BUFFER_FROM(NULL, 0)
#define UINT(value)           ((device_argument){.kind = ARGUMENT_UINT, .u = (uint32_t)(value)})
#define FLOAT(value)          ((device_argument){.kind = ARGUMENT_FLOAT, .f = (value)})

/* Creates an empty program. slots: number of exchanges; stamps: number of points in time that it records. */
hearth_status device_program_create(device_program **out, device *d, unsigned slots, unsigned stamps,
                                    hearth_error *error);
/* Destroys a program; a running one is abandoned first. NULL is allowed. */
void device_program_destroy(device_program *p);

/* The queues of a program. A program that records nothing for the copy queue needs none. */
typedef enum device_queue { QUEUE_MAIN, QUEUE_COPY, DEVICE_QUEUES } device_queue;

/* Chooses the queue for the commands that are recorded next; at first it is the main one. */
void device_use_queue(device_program *p, device_queue queue);

/* The following functions record one command each. A command begins when the one before it in its queue is done. Recording
 * itself never fails: device_program_seal reports errors (no memory, a kernel that does not exist on this device). */

/* Launches a kernel of kernels.h over `items` items, in the main queue only. The arguments include the step, which comes first; their number
 * and kinds must be those of the kernel (asserted). Without items it records nothing. */
void device_launch(device_program *p, device_kernel kernel, size_t items, const device_argument *arguments,
                   size_t count);
/* Copies between any two buffers of this device, pinned or not; in the copy queue at most one of them is pinned. */
void device_copy(device_program *p, device_buffer *to, size_t to_offset, const device_buffer *from, size_t from_offset,
                 size_t size_bytes);
/* Publishes a slot. */
void device_publish(device_program *p, unsigned slot);
/* Waits until the CPU has answered a slot. */
void device_await(device_program *p, unsigned slot);
/* Order the queues: what follows a wait begins when the signal of the same event is done, and sees what its queue wrote before
 * it. An event is a number; it has one signal, which is recorded before all waits for it, so that queues cannot wait for each
 * other in a circle. */
void device_signal(device_program *p, unsigned event);
void device_wait(device_program *p, unsigned event);
/* Records the time, see device_stamp_seconds. */
void device_stamp(device_program *p, unsigned stamp);

/* Ends the recording; the program can then be started. */
hearth_status device_program_seal(device_program *p, hearth_error *error);

/* Starts a program and returns at once. At most one program of a device runs at a time (else HEARTH_INVALID).
 * HEARTH_DEVICE: the device failed, now or before. It is then lost: every later call except destroying fails. */
hearth_status device_start(device_program *p, hearth_error *error);
/* Spins until the running program has published `slot`. HEARTH_DEVICE: it failed, or did not publish it within
 * DEVICE_PATIENCE_SECONDS. */
hearth_status device_await_published(device_program *p, unsigned slot, hearth_error *error);
/* Lets the program pass the await of `slot`, even if it has not reached it yet. The commands after that await see what
 * the CPU wrote to pinned buffers before this call. */
void device_answer(device_program *p, unsigned slot);
/* Waits until the program is done. HEARTH_DEVICE: it failed, or was not done within DEVICE_PATIENCE_SECONDS. */
hearth_status device_finish(device_program *p, hearth_error *error);
/* Gives up a started program after an error on the CPU: it passes every await, and its results are worthless. Returns
 * when the device is idle or lost. */
void device_abandon(device_program *p);

/* Returns when the device reached a stamp in the last finished run, on the clock of clock_seconds. */
double device_stamp_seconds(const device_program *p, unsigned stamp);

/* After this many seconds without the expected progress a device counts as lost. */
#define DEVICE_PATIENCE_SECONDS 30

/* For tests: makes the n-th driver call from now on (0: the next) fail, and all calls after it; -1: none. The calls
 * that count are opening, creating a buffer, reading, writing, moving, sealing, starting, and each command in a run. */
void device_fail_at(long n);

#endif
