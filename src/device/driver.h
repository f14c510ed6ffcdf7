/* driver.h - the interface that a driver implements. device.c and program.c check arguments, count memory and inject
 * faults, so a driver only gets valid calls. device.c has a table of the drivers. */
#ifndef DEVICE_DRIVER_H
#define DEVICE_DRIVER_H

#include "device.h"

#include "../base/memory.h"
#include "../base/text.h"

/* The options of a spec, as spec.c reads them. Zero or empty: not given. */
typedef struct device_options {
    unsigned index;
    uint64_t memory_bytes;
    unsigned group, threads;
    double speed;
    char exchange[16];
    bool early;      /* kernels may begin before the one ahead of them has ended */
    char times[256]; /* a file (times.h); "": none */
} device_options;

/* One recorded command. A driver gets the list of them when a program is sealed. */
typedef struct device_command {
    enum {
        COMMAND_LAUNCH,
        COMMAND_COPY,
        COMMAND_PUBLISH,
        COMMAND_AWAIT,
        COMMAND_SIGNAL,
        COMMAND_WAIT,
        COMMAND_STAMP
    } kind;
    device_queue queue;
    unsigned index;                   /* kernel, slot, event or stamp */
    size_t items;                     /* of a launch */
    const device_argument *arguments; /* [count] of a launch; valid as long as the program */
    size_t count;
    device_buffer *to;
    const device_buffer *from;
    size_t to_offset, from_offset, size_bytes; /* of a copy */
} device_command;

typedef struct driver driver;

/* The struct of a driver's device begins with this one. */
struct device {
    const driver *driver;
    device_options options;
    char name[128];
    const char *kernels, *exchange;    /* see device_info */
    uint64_t memory_bytes, free_bytes; /* set by the driver's open; free 0: unknown */
    unsigned units, group;
    bool is_gpu;                                                 /* set by the driver's open */
    uint64_t budget_bytes, used_bytes, peak_bytes, pinned_bytes; /* of device.c; open may set the budget */
    device_program *running;                                     /* set by program.c */
    bool lost;                                                   /* a program failed; set by program.c */
    double eager_seconds;                                        /* of program.c: see wait_learn in base/wait.h */
    double patience_seconds;   /* set by device.c: DEVICE_PATIENCE_SECONDS, less in tests */
    struct file_writer *times; /* of times.c */
    unsigned programs_timed;
};

struct device_buffer {
    device *device;
    device_place place;
    size_t size_bytes;
    void *host;   /* of pinned buffers; of all buffers if the device uses main memory */
    uint64_t own; /* the driver's handle or device address */
};

struct device_program {
    device *device;
    bool given_up; /* its run: what it computes does not matter, only that it ends */
    unsigned slot_count, stamp_count, event_count;
    device_command *commands; /* [command_count] */
    size_t command_count;
    bool uses_queue[DEVICE_QUEUES]; /* it has commands there; the main one always counts as used */
    void *own;                      /* the driver's data, made by seal */
    /* of program.c: */
    device_queue queue; /* of the next command */
    size_t capacity;
    arena memory;
    hearth_status problem; /* the first error while recording */
    bool sealed;
    struct device_times *times; /* of times.c; NULL: it is not timed */
};

struct driver {
    const char *name;
    const char *library; /* the shared library that it opens; NULL: none. See probe.h */
    /* Writes the devices it finds to rows [capacity]; returns how many rows it has, at least one. */
    size_t (*list)(device_found *rows, size_t capacity);
    /* Opens a device. Sets name, kernels, exchange, memory_bytes, units, group, is_gpu, and free_bytes or budget_bytes (budget
     * 0: device.c takes nine tenths of free_bytes). If this call or one of those below fails, it frees what it had
     * allocated. */
    hearth_status (*open)(device **out, const device_options *options, hearth_error *error);
    void (*close)(device *d);
    /* Allocates zeroed memory for size_bytes > 0; sets host and own. */
    hearth_status (*buffer_create)(device_buffer *b, hearth_error *error);
    void (*buffer_destroy)(device_buffer *b);
    /* Synchronous copies with size_bytes > 0. A pinned buffer is read or written at its `host`. */
    hearth_status (*write)(device_buffer *to, size_t offset, const void *from, size_t size_bytes, hearth_error *error);
    hearth_status (*read)(const device_buffer *from, size_t offset, void *to, size_t size_bytes, hearth_error *error);
    hearth_status (*move)(device_buffer *to, size_t to_offset, const device_buffer *from, size_t from_offset,
                          size_t size_bytes, hearth_error *error);
    /* Translates the recorded commands into `own`. */
    hearth_status (*seal)(device_program *p, hearth_error *error);
    void (*program_destroy)(device_program *p); /* only if own is not NULL, never while it runs */
    /* Starts a run. HEARTH_DEVICE here and below: the device failed and is lost. If start fails, nothing runs. */
    hearth_status (*start)(device_program *p, hearth_error *error);
    /* Tells whether the run has published `slot`. Never blocks. After a failure the run may still be going on. */
    hearth_status (*published)(device_program *p, unsigned slot, bool *out, hearth_error *error);
    /* Answers a slot. Answering twice, or a slot that is never awaited, is harmless. */
    void (*answer)(device_program *p, unsigned slot);
    /* Tells whether the run is over. Never blocks. If this fails, the run is over, too. */
    hearth_status (*done)(device_program *p, bool *out, hearth_error *error);
    /* Returns the time of a stamp in the last finished run, on the clock of clock_seconds. */
    double (*stamp_seconds)(const device_program *p, unsigned stamp);
};

extern const driver driver_host, driver_opencl, driver_cuda;

/* Returns the name of the driver, a part of `spec` (spec.c; device_open in device.h says what a spec is). */
span spec_name(const char *spec);
/* Reads the index and options after the name. HEARTH_INVALID: the text names the bad key or value. */
hearth_status spec_options(const char *spec, device_options *out, hearth_error *error);

/* Counts one call that may fail and returns whether it has to, for tests (device_fail_at). */
bool device_must_fail(void);
/* Calls fail() for an injected fault: "DRIVER: WHAT: injected fault". */
hearth_status device_injected(const device *d, const char *what, hearth_error *error);

/* Calls fail() for a call to a lost device: "DRIVER: WHAT: the device is lost ...". */
hearth_status device_lost(const device *d, const char *what, hearth_error *error);
/* Returns whether a range lies within a buffer. */
bool device_holds(const device_buffer *b, size_t offset, size_t size_bytes);

/* Returns the source of all kernels as one text, for compilation at run time (kernels_source.c). */
const char *kernels_source(size_t *size_bytes);

#endif
