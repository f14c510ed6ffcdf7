/* bench_report.h - what `hearth bench` found: as a table, as CSV, as JSON, as a picture; and read back from its
 * JSON. */
#ifndef CLI_BENCH_REPORT_H
#define CLI_BENCH_REPORT_H

#include "../base/json.h"
#include "../base/memory.h"
#include "../eval/bench.h"

typedef struct bench_report {
    const char *machine, *model, *cpu_level; /* model: its path */
    unsigned threads;
    double read_bandwidth; /* mean of the rows'                    */
    const bench_row *rows; /* [count]                              */
    size_t count;
    uint32_t layer_count;       /* of every row's layers; 0: not known   */
    json_t *guard;              /* what it found; null, or NULL: nothing */
    json_t *device, *placement; /* null, or NULL: the CPU alone    */
} bench_report;

/* Everything, layer by layer, as one object. */
hearth_status bench_report_json(const bench_report *r, hearth_error *error);
/* All rows of reports [count] under one heading. */
void bench_report_csv(const bench_report *reports, size_t count);
/* For people; `layers`: a line for each. */
void bench_report_table(const bench_report *r, bool layers);
/* Speed and bytes of every row, as SVG. */
hearth_status bench_report_plot(const bench_report *reports, size_t count, const char *path, hearth_error *error);

/* Reads what --json wrote; everything lives in `memory`. HEARTH_FORMAT: it is something else (the member is named). */
hearth_status bench_report_read(bench_report *out, const char *path, arena *memory, hearth_error *error);

#endif
