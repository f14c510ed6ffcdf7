/* trace.h - writes a Chrome trace of what the CPU and the device do, for chrome://tracing and
 * https://ui.perfetto.dev. */
#ifndef CLI_TRACE_H
#define CLI_TRACE_H

#include "../base/file.h"
#include "command.h"

#define MAX_TRACE_SIDES 8

/* A zeroed trace records nothing. Do not move it while it is open: the tracer points to it. */
typedef struct trace {
    file_writer *writer;
    double start; /* time 0 of the file, on the clock of the spans */
    const char *sides[MAX_TRACE_SIDES];
    size_t side_count;
    hearth_status status; /* of writing so far: the first failure, and its text */
    hearth_error error;
} trace;

/* An option row for a command whose values hold a `const char *trace`. */
#define TRACE_ROW(record)                                                                                   \
    {                                                                                                       \
        OPTION_ROW(0, "trace", TEXT, record, trace, "FILE",                                                 \
                   "write when each side did what, layer by layer (for chrome://tracing, ui.perfetto.dev)") \
    }

/* Opens the file. path NULL: no trace. HEARTH_IO: it cannot be written there. HEARTH_INVALID: it is "-" or empty. */
hearth_status trace_open(trace *t, const char *command_path, const char *path, hearth_error *error);
hearth_tracer trace_to(trace *t);
/* Completes the trace of a run that ended with `status`. The file appears if `status` is success or HEARTH_CANCELLED,
 * and is discarded otherwise. Returns `status`, or the reason why the trace could not be written. */
hearth_status trace_close(trace *t, hearth_status status, hearth_error *error);

#endif
