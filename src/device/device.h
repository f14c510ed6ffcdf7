/* device.h - devices: memory with a budget, programs of kernels and copies, and the exchange.
 *
 * A device is a side of the computation besides the CPU. What it does for a token never changes from one token to the
 * next: the same kernels, copies and exchanges in the same order, on the same buffers. So it is recorded once, as a
 * *program*, and started for every token; whatever differs (token, position) lies in a buffer that the program copies
 * in at its beginning. A driver may turn a program into what its hardware likes best: a list for a thread, commands for
 * a queue, a CUDA graph. While a program runs hearth allocates nothing and wakes nobody; what a driver library does for
 * a command is its own affair.
 *
 * The exchange: a program *publishes* a slot when what it recorded before is done, and the CPU, spinning in
 * device_await_published, sees it; the CPU *answers* the slot, and what the program recorded behind the matching
 * *await* goes on. Contents travel in pinned buffers, by copies recorded before the publish and behind the await.
 *
 * Ownership: a device owns nothing that it hands out; buffers and programs are destroyed before it is closed. A device
 * and all that belongs to it is used by one thread at a time. Layers, models and neurons are unknown here.
 *
 * Drivers: host.c (threads of its own), opencl.c, cuda.c; driver.h is what they share. */
#ifndef DEVICE_DEVICE_H
#define DEVICE_DEVICE_H

#include "../base/error.h"
#include "kernels/kernels.h"

typedef struct device device;
typedef struct device_buffer device_buffer;
typedef struct device_program device_program;

/* ------------------------------------------------------------------ which there are */

/* A device that was found, or what a driver failed over. */
typedef struct device_found {
    char spec[32];  /* what device_open takes: "host", "opencl:0", "cuda:1"                         */
    char name[128]; /* "NVIDIA GeForce RTX 4090"; empty where the driver itself is missing          */
    uint64_t memory_bytes;
    bool usable;
    bool is_gpu;       /* a processor beside the CPU; false: host, PoCL, which share its cores: nobody's default */
    char problem[256]; /* why not: "libcuda.so.1 is not there"; empty where it is usable               */
} device_found;

/* Asks every driver. Writes at most `capacity` rows (a driver that finds nothing gives one row with the reason);
 * returns how many there are. A broken driver is a row, never a failure, whatever it does: a driver is first asked in a
 * child process (probe.h), and what came of that is remembered in cache_folder, a folder that exists (NULL: nowhere). */
size_t device_list(device_found *out, size_t capacity, const char *cache_folder);
/* Removes what is remembered there. */
void device_forget(const char *cache_folder);

/* What there is to know of an open device. */
typedef struct device_info {
    const char *driver;              /* "host", "opencl", "cuda"                                            */
    const char *name;                /* owned by the device                                                 */
    uint64_t memory_bytes;           /* in all                                                            */
    uint64_t free_bytes;             /* when it was opened; 0: it does not say                              */
    uint64_t budget_bytes;           /* that buffers may take together                                    */
    uint64_t used_bytes, peak_bytes; /* of buffers in its memory                                */
    uint64_t pinned_bytes;           /* of buffers in main memory                                         */
    unsigned units;                  /* compute units: groups that run side by side                       */
    unsigned group;                  /* lanes of a group, unless a kernel needs another number            */
    const char *kernels;             /* how the kernels came to be: "AVX2", "PTX (nvcc)", "NVRTC", "OpenCL C" */
    const char *exchange;            /* how a slot is raised: "memory", "stream memory operations" ...    */
} device_info;

/* Opens the device of a spec, whose driver is asked as for device_list: NAME[:INDEX][,KEY=VALUE]... with the keys
 *     memory=SIZE   budget ("512M", "8G", bytes; 1K is 1000); else nine tenths of what is free; where that is not said,
 *                   three quarters of all, or a quarter of main memory where it works on that
 *                   (host: at most the machine's memory)
 *     group=N       lanes of a group, for tests; else what suits the device
 *     threads=N     host: its threads; else 1
 *     speed=F       host: share of its speed, 0 < F <= 1: it waits after each command, to look like a slower device
 *     exchange=HOW  cuda: memory, kernel or events; else the best that works
 * HEARTH_INVALID: no such driver or key (named). HEARTH_DEVICE: the driver is missing or broken, or has no such
 * device; the text says why. */
hearth_status device_open(device **out, const char *spec, const char *cache_folder, hearth_error *error);
void device_close(device *d);
void device_describe(const device *d, device_info *out);

/* ------------------------------------------------------------------ memory */

typedef enum device_place {
    DEVICE_MEMORY, /* where kernels work; counts against the budget                                  */
    DEVICE_PINNED, /* main memory that both sides reach by copies; no kernel's argument              */
    DEVICE_PLACES
} device_place;

/* Zeroed. `what` for errors and reports: "blk.3 gate". HEARTH_NO_MEMORY: the budget (or the device) has no room; the
 * text says how much was wanted, for what, and what is in use. A size of 0 is allowed. */
hearth_status device_buffer_create(device_buffer **out, device *d, device_place place, size_t size_bytes,
                                   const char *what, hearth_error *error);
void device_buffer_destroy(device_buffer *b);
size_t device_buffer_bytes(const device_buffer *b);
/* Where the CPU reaches a pinned buffer; NULL for one in the device's memory. */
void *device_buffer_host(const device_buffer *b);

/* Between programs only, for loading, saving and tests: they return when it is done. In bytes. */
hearth_status device_write(device_buffer *to, size_t offset, const void *from, size_t size_bytes, hearth_error *error);
hearth_status device_read(const device_buffer *from, size_t offset, void *to, size_t size_bytes, hearth_error *error);
hearth_status device_move(device_buffer *to, size_t to_offset, const device_buffer *from, size_t from_offset,
                          size_t size_bytes, hearth_error *error);

/* ------------------------------------------------------------------ programs */

#define ARGUMENT_ALIGNMENT 16

/* An argument of a kernel: a buffer from `offset` on (buffer NULL: the kernel gets NULL), or a value. */
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

/* slots: exchanges; stamps: moments that it notes down. */
hearth_status device_program_create(device_program **out, device *d, unsigned slots, unsigned stamps,
                                    hearth_error *error);
/* Also of a program that runs: abandons it first. */
void device_program_destroy(device_program *p);

/* Recording, in order. Each command begins when the one before it is done. They cannot fail: what goes wrong (no
 * memory, a kernel that does not exist on this device) is said by device_program_seal. */

/* A kernel of kernels.h over `items` items, its first argument (the step) included. The number and kinds of arguments
 * are the kernel's (asserted). */
void device_launch(device_program *p, device_kernel kernel, size_t items, const device_argument *arguments,
                   size_t count);
/* Between any two buffers of this device, pinned or not. */
void device_copy(device_program *p, device_buffer *to, size_t to_offset, const device_buffer *from, size_t from_offset,
                 size_t size_bytes);
void device_publish(device_program *p, unsigned slot);
void device_await(device_program *p, unsigned slot);
void device_stamp(device_program *p, unsigned stamp);

/* Ends recording; afterwards it can be started. */
hearth_status device_program_seal(device_program *p, hearth_error *error);

/* Starts it; returns at once. At most one program of a device runs at a time (HEARTH_INVALID). HEARTH_DEVICE: the
 * device failed, now or before; it is lost then, and everything but destroying answers so. */
hearth_status device_start(device_program *p, hearth_error *error);
/* Spins until the running program has published `slot`. HEARTH_DEVICE: it failed, or did not get there within
 * DEVICE_PATIENCE_SECONDS. */
hearth_status device_await_published(device_program *p, unsigned slot, hearth_error *error);
/* Lets the program pass the await of `slot`, which it may reach later. What the CPU wrote to pinned buffers before is
 * seen by what follows there. */
void device_answer(device_program *p, unsigned slot);
/* Waits until the program is done. */
hearth_status device_finish(device_program *p, hearth_error *error);
/* Gives a started program up, after an error on this side: every await passes, results are worthless. Returns when the
 * device is idle, or lost. */
void device_abandon(device_program *p);

/* When the device came by a stamp in the last finished run, on the clock of clock_seconds. */
double device_stamp_seconds(const device_program *p, unsigned stamp);

#define DEVICE_PATIENCE_SECONDS 30

/* For tests: the n-th call to a driver from now on (0: the next) that may fail does, and all after it; -1: none. Calls
 * are: opening, creating a buffer, reading, writing, moving, sealing, starting, and inside a run each command. */
void device_fail_at(long n);

#endif
