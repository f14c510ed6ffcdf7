/* driver.h - what a driver implements. device.c checks arguments, keeps the accounts and injects faults (with
 * program.c), so a driver sees only calls that make sense. One row per driver in device.c. */
#ifndef DEVICE_DRIVER_H
#define DEVICE_DRIVER_H

#include "device.h"

#include "../base/memory.h"

/* The options of a spec, read by device.c. Zero or NULL: not given. */
typedef struct device_options {
    unsigned index;
    uint64_t memory_bytes;
    unsigned group, threads;
    double speed;
    char exchange[16];
} device_options;

/* One recorded command, as every driver gets it when a program is sealed. */
typedef struct device_command {
    enum { COMMAND_LAUNCH, COMMAND_COPY, COMMAND_PUBLISH, COMMAND_AWAIT, COMMAND_STAMP } kind;
    unsigned index;                   /* kernel, slot or stamp */
    size_t items;                     /* of a launch           */
    const device_argument *arguments; /* [count] of a launch; lives as long as the program */
    size_t count;
    device_buffer *to;
    const device_buffer *from;
    size_t to_offset, from_offset, size_bytes; /* of a copy */
} device_command;

typedef struct driver driver;

/* Every driver's own structs begin with these. */
struct device {
    const driver *driver;
    device_options options;
    char name[128];
    const char *kernels, *exchange;    /* see device_info */
    uint64_t memory_bytes, free_bytes; /* filled in by the driver's open; free 0: not known */
    unsigned units, group;
    uint64_t budget_bytes, used_bytes, peak_bytes, pinned_bytes; /* device.c's */
    device_program *running;                                     /* device.c's */
    bool lost;                                                   /* failed while something ran: device.c's */
    double eager_seconds;                                        /* device.c's: see wait_learn in base/wait.h */
    double patience_seconds; /* device.c's; DEVICE_PATIENCE_SECONDS, less in tests                          */
};

struct device_buffer {
    device *device;
    device_place place;
    size_t size_bytes;
    void *host;   /* of pinned buffers; a driver whose memory is main memory sets it for all */
    uint64_t own; /* the driver's handle or address */
};

struct device_program {
    device *device;
    unsigned slot_count, stamp_count;
    device_command *commands; /* [command_count] */
    size_t command_count;
    void *own; /* the driver's, made by seal */
    /* device.c's */
    size_t capacity;
    arena memory;
    hearth_status problem; /* of recording */
    bool sealed;
};

struct driver {
    const char *name;
    const char *library; /* that it opens when it is asked for anything; NULL: none. See probe.h */
    /* Appends what it finds to rows [capacity]; returns how many rows it has, at least one. */
    size_t (*list)(device_found *rows, size_t capacity);
    /* Fills in name, kernels, exchange, memory_bytes, units, group, and free_bytes or budget_bytes (0: nine tenths of
     * what is free). This call and those below: one that fails leaves nothing behind. */
    hearth_status (*open)(device **out, const device_options *options, hearth_error *error);
    void (*close)(device *d);
    /* size_bytes > 0. Fills in host and own; zeroed memory. */
    hearth_status (*buffer_create)(device_buffer *b, hearth_error *error);
    void (*buffer_destroy)(device_buffer *b);
    /* Synchronous; size_bytes > 0. The pinned side of a transfer is `host`. */
    hearth_status (*write)(device_buffer *to, size_t offset, const void *from, size_t size_bytes, hearth_error *error);
    hearth_status (*read)(const device_buffer *from, size_t offset, void *to, size_t size_bytes, hearth_error *error);
    hearth_status (*move)(device_buffer *to, size_t to_offset, const device_buffer *from, size_t from_offset,
                          size_t size_bytes, hearth_error *error);
    hearth_status (*seal)(device_program *p, hearth_error *error);
    void (*program_destroy)(device_program *p); /* where own is not NULL; never while it runs */
    /* HEARTH_DEVICE, as for all that follows: it failed, and the device is lost. Nothing of it runs then. */
    hearth_status (*start)(device_program *p, hearth_error *error);
    /* Has the run published `slot`? Never blocks. After a failure the run may still be on its way to its end. */
    hearth_status (*published)(device_program *p, unsigned slot, bool *out, hearth_error *error);
    /* Answering twice, or what is never awaited, does no harm. */
    void (*answer)(device_program *p, unsigned slot);
    /* Is the run over? Never blocks. Failing: it is over, too. */
    hearth_status (*done)(device_program *p, bool *out, hearth_error *error);
    double (*stamp_seconds)(const device_program *p, unsigned stamp);
};

extern const driver driver_host, driver_opencl, driver_cuda;

/* True where the call has to fail, for tests (device_fail_at). */
bool device_must_fail(void);
/* fail() for an injected fault: "DEVICE: WHAT: injected fault". */
hearth_status device_injected(const device *d, const char *what, hearth_error *error);

/* What device.c and program.c share: fail() for "DEVICE: WHAT: ..." on a lost device; whether a range lies within a
 * buffer. */
hearth_status device_lost(const device *d, const char *what, hearth_error *error);
bool device_holds(const device_buffer *b, size_t offset, size_t size_bytes);

/* The kernels' source as one text, for compilers at run time (kernels_source.c). */
const char *kernels_source(size_t *size_bytes);

#endif
