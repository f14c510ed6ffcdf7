/* machine.h - a machine as the planner sees it: what each side can move in a second, and what it costs to go between them.
 *
 * A description is measured on this machine (machine_measure.c) or read from a file that describes another one
 * (machine_file.c). Every figure says where it comes from, so that a plan can. */
#ifndef PLAN_MACHINE_H
#define PLAN_MACHINE_H

#include "../base/json.h"

/* Where a figure comes from, the least certain first. */
typedef enum figure_source {
    FIGURE_ASSUMED,  /* by hearth, because nobody said                        */
    FIGURE_DERIVED,  /* computed from figures that were measured or published */
    FIGURE_STATED,   /* by a file                                             */
    FIGURE_MEASURED, /* on this machine                                       */
    FIGURE_SOURCES
} figure_source;

typedef struct figure {
    double value;
    figure_source source;
} figure;

/* Returns "assumed", "derived", "stated" or "measured". */
const char *figure_source_name(figure_source source);
/* Returns {"value": ..., "source": "measured"}. NULL: no memory. */
json_t *figure_json(figure f);

/* Listed rows: rows of so many bytes, scattered over a matrix that no cache holds. */
#define MACHINE_ROWS 4
extern const size_t machine_row_bytes[MACHINE_ROWS]; /* 1, 2, 4, 8 KiB */

/* What a side reads from its own memory, in bytes per second. */
typedef struct machine_rates {
    figure whole;                /* from end to end */
    figure listed[MACHINE_ROWS]; /* scattered rows  */
} machine_rates;

#define MACHINE_THREADS 16 /* numbers of threads that the CPU is measured with, at most */
#define MACHINE_DEVICES 8
#define MACHINE_NAME    128

/* The CPU's bandwidth with some number of threads. */
typedef struct machine_reads {
    unsigned threads;
    double bytes_per_second;
} machine_reads;

typedef struct machine_device {
    char name[MACHINE_NAME];
    char spec[MACHINE_NAME]; /* as for --device; empty: a machine from a file */
    bool is_gpu;
    figure memory_bytes; /* in all                          */
    figure budget_bytes; /* of that, what a plan may take   */
    machine_rates rates;
    figure to_device_rate, from_device_rate; /* of copies, bytes per second                                  */
    figure start_seconds;                    /* of a token's work on it, however small                       */
    figure kernel_seconds;                   /* what one more launch takes that does nothing                 */
    figure exchange_seconds;                 /* one side hands a vector to the other and is answered         */
} machine_device;

typedef struct machine {
    char name[MACHINE_NAME]; /* of a file: "PC-High"; else the CPU's     */
    char cpu[MACHINE_NAME];
    char date[24];                        /* "2026-11-25", when it was measured or written; may be empty */
    char note[512];                       /* of a file: where its figures come from   */
    unsigned threads;                     /* that a plan is for                       */
    figure memory_bytes;                  /* main memory that a model may take        */
    machine_rates rates;                  /* of the CPU with `threads`                */
    machine_reads reads[MACHINE_THREADS]; /* [read_count] whole, ascending by threads; none in a file */
    size_t read_count;
    bool busy;          /* this machine, and its rates scattered too much; the next run measures again */
    figure job_seconds; /* to hand a job to all threads and to wait for the last one */
    machine_device devices[MACHINE_DEVICES];
    size_t device_count;
} machine;

/* Returns a side's rate for scattered rows of a length, between those that are known: below the first and beyond the
 * last it is theirs. */
double machine_listed_rate(const machine_rates *r, double row_bytes);

/* Fills the listed rates with the shares of the whole one that are common on GPUs, or on CPUs; they count as derived. */
void machine_derive_listed(machine_rates *r, bool is_gpu);

/* ------------------------------------------------------------------ this machine (machine_measure.c) */

typedef struct machine_options {
    unsigned threads;         /* 0: one per physical core                                                   */
    const char *cpu_level;    /* of the kernels that read; NULL: the best                                   */
    const char *device;       /* measures only this one (a spec, with its budget); "": none; NULL: all GPUs */
    const char *cache_folder; /* where descriptions are stored, and drivers' answers; NULL: nowhere         */
    bool again;               /* measures even where a description is stored                                */
    double scatter;           /* limit for guard_is_steady; 0: GUARD_SCATTER                                */
    hearth_progress progress;
} machine_options;

/* Describes this machine: recalls what was stored for the same CPU, threads and devices, or measures, which takes a few
 * seconds, and stores it with the date, unless the CPU was busy with other work meanwhile. Free memory is always asked anew. A device that cannot be opened or measured is
 * left out, nothing is stored then, and its reason is written to `problem` [MACHINE_PROBLEM] (empty: none), unless
 * options.device names it: HEARTH_DEVICE, or what else opening it fails with. HEARTH_CANCELLED through progress.
 * HEARTH_INVALID: no such CPU level or device. On failure *out is unchanged. */
#define MACHINE_PROBLEM 512
hearth_status machine_measure(machine *out, const machine_options *options, char *problem, hearth_error *error);

/* Measures what 1, 2, 3, 4, 6, 8, 12 ... threads, and as many as there are processors, read from end to end. reads
 * [MACHINE_THREADS]. level: of the kernels that read; NULL: the best. */
hearth_status machine_measure_reads(machine_reads *reads, size_t *count, const char *level, hearth_error *error);

/* ------------------------------------------------------------------ machines in files (machine_file.c) */

/* Reads a description, docs/plan.md says of what form. What the file does not say is derived or assumed. path: a file, or
 * the name of one that comes with hearth ("PC-High"), which is looked for in `folder` (NULL: nowhere).
 * HEARTH_FORMAT: it is not one; the text names the member. HEARTH_IO. */
hearth_status machine_read(machine *out, const char *path, const char *folder, hearth_error *error);
/* Returns the description as JSON, which machine_parse reads. NULL: no memory. */
json_t *machine_json(const machine *m);
/* As machine_read, of an object; name: for errors. */
hearth_status machine_parse(machine *out, const json_t *object, const char *name, hearth_error *error);

#endif
