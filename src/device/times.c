/* times.c - see times.h. */
#include "times.h"

#include "../base/file.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>

/* The times of a program. Commands that a driver may join have no stamp between them, and one row for both. */
struct device_times {
    unsigned first_stamp; /* the moment before all commands; the others follow in their order */
    size_t count;         /* timed pieces */
    size_t *last;         /* [count] the last command of each piece */
    double *seconds;      /* [count] of all runs */
    unsigned runs;
};

/* What a row is about. */
typedef struct piece {
    const char *first, *second; /* names; second "": it is one command */
    size_t amount;              /* items of a launch, bytes of a copy */
} piece;

/* Appends a line; if that cannot be written, there will be no file. */
__attribute__((format(printf, 2, 3))) static void put_line(device *d, const char *format, ...)
{
    char line[256];
    va_list list;
    va_start(list, format);
    int length = vsnprintf(line, sizeof line, format, list);
    va_end(list);
    if (file_writer_put(d->times, line, (size_t)length, NULL) != HEARTH_OK) {
        file_writer_discard(d->times);
        d->times = NULL;
    }
}

hearth_status times_open(device *d, hearth_error *error)
{
    if (!d->options.times[0])
        return HEARTH_OK;
    TRY(file_writer_open(&d->times, d->options.times, error));
    put_line(d, "program,runs,commands,command,items_or_bytes,count,mean_us,of_a_run_us\n");
    return HEARTH_OK;
}

void times_close(device *d)
{
    if (d->times)
        (void)file_writer_commit(d->times, NULL);
    d->times = NULL;
}

/* ------------------------------------------------------------------ recording */

/* Returns whether a driver may make one of two commands: a copy and what publishes it, an await and the copy of what came. */
static bool may_join(const device_command *a, const device_command *b)
{
    return (a->kind == COMMAND_COPY && b->kind == COMMAND_PUBLISH) ||
           (a->kind == COMMAND_AWAIT && b->kind == COMMAND_COPY);
}

/* Returns whether a command of the main queue goes on in the next command. */
static bool goes_on(const device_program *p, size_t i)
{
    const device_command *c = &p->commands[i];
    return i + 1 < p->command_count && c[1].queue == QUEUE_MAIN && may_join(c, c + 1);
}

/* Replaces the commands by themselves with stamps between. room: for all. */
static void put_stamps(device_program *p, struct device_times *t, device_command *to)
{
    size_t n = 0;
    bool joins = false; /* the command goes on in the next one; no more than two do */
    to[n++] = (device_command){.kind = COMMAND_STAMP, .index = t->first_stamp};
    for (size_t i = 0; i < p->command_count; i++) {
        to[n++] = p->commands[i];
        if (p->commands[i].queue != QUEUE_MAIN)
            continue;
        joins = !joins && goes_on(p, i);
        if (joins)
            continue;
        t->last[t->count++] = n - 1;
        to[n++] = (device_command){.kind = COMMAND_STAMP, .index = t->first_stamp + (unsigned)t->count};
    }
    mem_free(p->commands);
    p->commands = to;
    p->command_count = p->capacity = n;
    p->stamp_count += (unsigned)t->count + 1;
}

hearth_status times_record(device_program *p, hearth_error *error)
{
    if (!p->device->times || p->command_count == 0 || p->times)
        return HEARTH_OK;
    struct device_times *t = p->times = mem_new(sizeof *t);
    size_t most = 2 * p->command_count + 1;
    device_command *to = t ? mem_new_array(most, sizeof *to) : NULL;
    if (to) {
        t->first_stamp = p->stamp_count;
        t->last = mem_new_array(p->command_count, sizeof *t->last);
        t->seconds = mem_new_array(p->command_count, sizeof *t->seconds);
    }
    if (!to || !t->last || !t->seconds) {
        mem_free(to);
        return fail_memory(error, "times of a program", most * sizeof *to);
    }
    put_stamps(p, t, to);
    return HEARTH_OK;
}

void times_note(device_program *p)
{
    struct device_times *t = p->times;
    if (!t)
        return;
    double before = device_stamp_seconds(p, t->first_stamp);
    for (size_t i = 0; i < t->count; i++) {
        double now = device_stamp_seconds(p, t->first_stamp + 1 + (unsigned)i);
        t->seconds[i] += now - before;
        before = now;
    }
    t->runs++;
}

/* ------------------------------------------------------------------ writing */

static const char *name_of(const device_command *c)
{
    static const char *const names[] = {
        [COMMAND_COPY] = "copy",     [COMMAND_PUBLISH] = "publish", [COMMAND_AWAIT] = "await",
        [COMMAND_SIGNAL] = "signal", [COMMAND_WAIT] = "wait",       [COMMAND_STAMP] = "stamp"};
    return c->kind == COMMAND_LAUNCH ? device_kernels[c->index].name : names[c->kind];
}

static size_t amount_of(const device_command *c)
{
    return c->kind == COMMAND_LAUNCH ? c->items : c->kind == COMMAND_COPY ? c->size_bytes : 0;
}

static piece piece_of(const device_program *p, size_t i)
{
    size_t last = p->times->last[i]; /* not 0: the first command is a stamp */
    const device_command *c = &p->commands[last], *before = &p->commands[last - 1];
    if (before->queue == QUEUE_MAIN && may_join(before, c))
        return (piece){name_of(before), name_of(c), amount_of(before) + amount_of(c)};
    return (piece){name_of(c), "", amount_of(c)};
}

static bool is_same(piece a, piece b)
{
    return strcmp(a.first, b.first) == 0 && strcmp(a.second, b.second) == 0 && a.amount == b.amount;
}

void times_write(device_program *p)
{
    struct device_times *t = p->times;
    device *d = p->device;
    for (size_t i = 0; t && t->runs > 0 && d->times && i < t->count; i++) {
        piece of = piece_of(p, i);
        double sum = 0;
        size_t count = 0;
        bool is_first = true;
        for (size_t j = 0; j < t->count && is_first; j++)
            if (is_same(of, piece_of(p, j))) {
                is_first = j >= i;
                sum += t->seconds[j];
                count++;
            }
        if (is_first)
            put_line(d, "%u,%u,%zu,%s%s%s,%zu,%zu,%.3f,%.1f\n", d->programs_timed, t->runs, t->count, of.first,
                     of.second[0] ? " and " : "", of.second, of.amount, count, 1e6 * sum / t->runs / (double)count,
                     1e6 * sum / t->runs);
    }
    if (t) {
        d->programs_timed += t->runs > 0;
        mem_free(t->last);
        mem_free(t->seconds);
        mem_free(t);
    }
    p->times = NULL;
}
