/* bench_report.h - prints results of `hearth bench` as a table, CSV, JSON or a picture, and reads them back from
 * JSON. */
#ifndef CLI_BENCH_REPORT_H
#define CLI_BENCH_REPORT_H

#include "../base/json.h"
#include "../base/memory.h"
#include "../eval/bench.h"

typedef struct bench_report {
    const char *machine, *model, *cpu_level; /* model: its path */
    unsigned threads;
    double read_bandwidth;   /* mean over the rows                                    */
    double device_bandwidth; /* bytes per second; 0: there is no device, or not known */
    const bench_row *rows;   /* [count]                              */
    size_t count;
    uint32_t layer_count;       /* of every row's layers; 0: not known   */
    json_t *guard;              /* what the guard found; null or NULL: there was no guard */
    json_t *device, *placement; /* null or NULL: the CPU alone */
} bench_report;

/* Prints everything, layer by layer, as one object. */
hearth_status bench_report_json(const bench_report *r, hearth_error *error);
/* Prints all rows of reports [count] under one heading. */
void bench_report_csv(const bench_report *reports, size_t count);
/* Prints a table for people; `layers`: with a line for each layer. */
void bench_report_table(const bench_report *r, bool layers);
/* Draws speed and bytes of every row as SVG. */
hearth_status bench_report_plot(const bench_report *reports, size_t count, const char *path, hearth_error *error);

/* Reads a file written by --json; everything is allocated in `memory`. HEARTH_FORMAT: it is something else (the error
 * names the member). */
hearth_status bench_report_read(bench_report *out, const char *path, arena *memory, hearth_error *error);

#endif
