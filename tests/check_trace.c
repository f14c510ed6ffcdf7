/* check_trace.c - is a file a Chrome trace, and could it have happened? For shell tests.
 *
 *   check_trace FILE [LAYER...]
 *
 * The file must be a JSON array of "X" events (name, ts, dur, pid, tid, args.layer) and of "M" events that name each
 * tid. Events of one tid must not overlap: a side does one thing at a time. Each LAYER must have "neurons" of the CPU
 * and of device0, equally often, at least once, and a "join" for each; in place of the CPU's there may be a "stream". The copies of
 * streamed parts are those that device0 computes, each after its copy. Prints how many events of what there are, a line
 * for each side and name. Exits 1 with a line that says what is wrong. */
#include <jansson.h>

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* Times are written to the nanosecond; what is rounded may touch. In microseconds. */
#define ROUNDING 0.0021
#define MAX_TIDS 16

typedef struct event {
    const char *name;
    json_int_t tid, layer;
    double begin, end;
} event;

static const char *sides[MAX_TIDS];

static void __attribute__((noreturn, format(printf, 1, 2))) wrong(const char *format, ...)
{
    va_list arguments;
    va_start(arguments, format);
    vfprintf(stderr, format, arguments);
    va_end(arguments);
    fputc('\n', stderr);
    exit(1);
}

static double number(const json_t *object, const char *key, size_t index)
{
    const json_t *value = json_object_get(object, key);
    if (!json_is_number(value))
        wrong("event %zu: %s is not a number", index, key);
    return json_number_value(value);
}

static json_int_t whole(const json_t *object, const char *key, size_t index)
{
    const json_t *value = json_object_get(object, key);
    if (!json_is_integer(value))
        wrong("event %zu: %s is not a whole number", index, key);
    return json_integer_value(value);
}

static void name_side(const json_t *object, size_t index)
{
    const char *what = json_string_value(json_object_get(object, "name"));
    const char *name = json_string_value(json_object_get(json_object_get(object, "args"), "name"));
    if (!what || !name)
        wrong("event %zu: names nothing", index);
    if (strcmp(what, "thread_name") != 0)
        return;
    json_int_t tid = whole(object, "tid", index);
    if (tid < 1 || tid >= MAX_TIDS || sides[tid])
        wrong("event %zu: tid %d is named twice, or out of range", index, (int)tid);
    sides[tid] = name;
}

static event read_event(const json_t *object, size_t index)
{
    event e = {json_string_value(json_object_get(object, "name")), whole(object, "tid", index),
               whole(json_object_get(object, "args"), "layer", index), number(object, "ts", index), 0};
    double length = number(object, "dur", index);
    e.end = e.begin + length;
    if (whole(object, "pid", index) != 1 || !e.name || e.begin < 0 || length < 0)
        wrong("event %zu: pid, name, ts or dur make no sense", index);
    if (e.tid < 1 || e.tid >= MAX_TIDS || !sides[e.tid])
        wrong("event %zu: nobody named its tid", index);
    return e;
}

static int by_time(const void *a, const void *b)
{
    const event *x = a, *y = b;
    if (x->tid != y->tid)
        return x->tid < y->tid ? -1 : 1;
    if (x->begin != y->begin)
        return x->begin < y->begin ? -1 : 1;
    return (x->end > y->end) - (x->end < y->end);
}

static size_t count(const event *events, size_t size, const char *side, const char *name, json_int_t layer)
{
    size_t found = 0;
    for (size_t i = 0; i < size; i++)
        found += strcmp(sides[events[i].tid], side) == 0 && strcmp(events[i].name, name) == 0 &&
                 (layer < 0 || events[i].layer == layer);
    return found;
}

static void check_layer(const event *events, size_t size, json_int_t layer)
{
    size_t cpu = count(events, size, "cpu", "neurons", layer) + count(events, size, "cpu", "stream", layer),
           device = count(events, size, "device0", "neurons", layer);
    size_t join = count(events, size, "device0", "join", layer);
    if (cpu == 0 || cpu != device || cpu != join)
        wrong("layer %d: neurons of cpu %zu, of device0 %zu, join %zu", (int)layer, cpu, device, join);
}

/* Returns the next event of a side with a name, from number `from` on; size: there is none. */
static size_t next(const event *events, size_t size, size_t from, const char *side, const char *name)
{
    while (from < size && (strcmp(sides[events[from].tid], side) != 0 || strcmp(events[from].name, name) != 0))
        from++;
    return from;
}

/* Events of a side are in the order of time. */
static void check_parts(const event *events, size_t size)
{
    size_t copy = next(events, size, 0, "bus", "copy"), part = next(events, size, 0, "device0", "streamed");
    for (; copy < size && part < size;
         copy = next(events, size, copy + 1, "bus", "copy"), part = next(events, size, part + 1, "device0", "streamed"))
        if (events[copy].end > events[part].begin + ROUNDING || events[copy].layer != events[part].layer)
            wrong("layer %d: a part is computed at %.3f, before its copy ends at %.3f", (int)events[part].layer,
                  events[part].begin, events[copy].end);
    if (copy < size || part < size)
        wrong("there are not as many streamed parts as copies");
}

int main(int argc, char **argv)
{
    if (argc < 2)
        return 2;
    json_error_t error;
    json_t *file = json_load_file(argv[1], JSON_REJECT_DUPLICATES, &error);
    if (!file)
        wrong("%s:%d: %s", argv[1], error.line, error.text);
    if (!json_is_array(file))
        wrong("%s: is not an array", argv[1]);
    event *events = calloc(json_array_size(file) + 1, sizeof *events);
    size_t size = 0;
    if (!events)
        wrong("out of memory");
    for (size_t i = 0; i < json_array_size(file); i++) {
        const json_t *object = json_array_get(file, i);
        const char *kind = json_string_value(json_object_get(object, "ph"));
        if (!kind || (strcmp(kind, "X") != 0 && strcmp(kind, "M") != 0))
            wrong("event %zu: ph is neither X nor M", i);
        if (*kind == 'M')
            name_side(object, i);
        else
            events[size++] = read_event(object, i);
    }
    qsort(events, size, sizeof *events, by_time);
    for (size_t i = 1; i < size; i++)
        if (events[i].tid == events[i - 1].tid && events[i].begin < events[i - 1].end - ROUNDING)
            wrong("%s: %s of layer %d [%.3f, %.3f] and %s of layer %d [%.3f, %.3f] overlap", sides[events[i].tid],
                  events[i - 1].name, (int)events[i - 1].layer, events[i - 1].begin, events[i - 1].end, events[i].name,
                  (int)events[i].layer, events[i].begin, events[i].end);
    check_parts(events, size);
    for (int i = 2; i < argc; i++)
        check_layer(events, size, atoll(argv[i]));
    for (size_t tid = 1; tid < MAX_TIDS; tid++)
        for (size_t what = 0; sides[tid] && what < 7; what++) {
            static const char *const names[] = {"attention", "neurons", "join", "wait", "stream", "copy", "streamed"};
            size_t n = count(events, size, sides[tid], names[what], -1);
            if (n > 0)
                printf("%s %s %zu\n", sides[tid], names[what], n);
        }
    free(events);
    json_decref(file);
    return 0;
}
