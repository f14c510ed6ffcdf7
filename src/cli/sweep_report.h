/* sweep_report.h - prints results of `hearth eval sparsity` as a table, CSV, JSON or a picture. */
#ifndef CLI_SWEEP_REPORT_H
#define CLI_SWEEP_REPORT_H

#include "../base/json.h"
#include "../eval/sweep.h"

typedef struct sweep_report {
    sweep_task task;
    const char *model, *text; /* paths */
    const char *machine, *cpu_level;
    unsigned threads;
    const sweep_row *rows; /* [count] */
    size_t count;
} sweep_report;

/* Prints a table for people. */
void sweep_report_table(const sweep_report *r);
/* Writes a line per setting under a heading; path "-" is standard output. */
hearth_status sweep_report_csv(const sweep_report *r, const char *path, hearth_error *error);
hearth_status sweep_report_json(const sweep_report *r, hearth_error *error);
/* Draws quality against density, bytes and, where it was measured, speed. */
hearth_status sweep_report_plot(const sweep_report *r, const char *path, hearth_error *error);

#endif
