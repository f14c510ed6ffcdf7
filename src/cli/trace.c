/* trace.c - writes spans as a JSON array in Chrome's trace format: an "X" event for each span, a thread for each
 * side. */
#include "trace.h"

#include "../base/clock.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>

/* The format is described in "Trace Event Format", JSON array: ts and dur are microseconds. */
#define PROCESS "\"pid\":1"

static void __attribute__((format(printf, 2, 3))) put(trace *t, const char *format, ...)
{
    char text[256];
    va_list arguments;
    va_start(arguments, format);
    int size = vsnprintf(text, sizeof text, format, arguments);
    va_end(arguments);
    if (t->status == HEARTH_OK && size > 0 && (size_t)size < sizeof text)
        t->status = file_writer_put(t->writer, text, (size_t)size, &t->error);
}

/* Returns the thread number of a side, and names the thread when the side first appears; sides beyond the limit share
 * the last thread. */
static size_t side_number(trace *t, const char *side)
{
    size_t i = 0;
    while (i < t->side_count && strcmp(t->sides[i], side) != 0)
        i++;
    if (i == MAX_TRACE_SIDES)
        return i - 1;
    if (i == t->side_count) {
        t->sides[t->side_count++] = side;
        put(t, ",\n{\"name\":\"thread_name\",\"ph\":\"M\"," PROCESS ",\"tid\":%zu,\"args\":{\"name\":\"%.40s\"}}",
            i + 1, side);
    }
    return i;
}

static void see(void *user, const hearth_span *s)
{
    trace *t = user;
    size_t tid = side_number(t, s->side) + 1;
    put(t,
        ",\n{\"name\":\"%.40s\",\"ph\":\"X\"," PROCESS ",\"tid\":%zu,\"ts\":%.3f,\"dur\":%.3f,\"args\":{\"layer\":%u}}",
        s->what, tid, (s->begin - t->start) * 1e6, (s->end - s->begin) * 1e6, s->layer);
}

hearth_status trace_open(trace *t, const char *command_path, const char *path, hearth_error *error)
{
    *t = (trace){.start = clock_seconds()};
    if (!path)
        return HEARTH_OK;
    if (!*path || strcmp(path, "-") == 0)
        return fail(error, HEARTH_INVALID, "%s: --trace: needs the name of a file", command_path);
    TRY(file_writer_open(&t->writer, path, error));
    put(t, "[\n{\"name\":\"process_name\",\"ph\":\"M\"," PROCESS ",\"args\":{\"name\":\"hearth\"}}");
    return HEARTH_OK;
}

hearth_tracer trace_to(trace *t)
{
    return t->writer ? (hearth_tracer){see, t} : (hearth_tracer){0};
}

hearth_status trace_close(trace *t, hearth_status status, hearth_error *error)
{
    if (!t->writer)
        return status;
    put(t, "\n]\n");
    if ((status == HEARTH_OK || status == HEARTH_CANCELLED) && t->status == HEARTH_OK) {
        hearth_status written = file_writer_commit(t->writer, error);
        status = written == HEARTH_OK ? status : written;
    } else {
        file_writer_discard(t->writer);
        if (status == HEARTH_OK)
            status = fail(error, t->status, "%s", t->error.text);
    }
    *t = (trace){0};
    return status;
}
