/* pingpong.c - times the exchange between the CPU and every device, in each way that it can be done: pingpong --help.
 *
 * One program of 200 slots, as a model with 200 split layers would have it. A round trip begins when the CPU answers a
 * slot and ends when it sees the next one published; in between the device goes on, does what a column says, and
 * publishes. Nothing else should run meanwhile. */
#include "../src/base/clock.h"
#include "../src/base/memory.h"
#include "../src/device/device.h"

#include <getopt.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { SLOTS = 200, MOST_DEVICES = 32, MOST_BYTES = (1 << 20) + 16 };

/* What the device does between two exchanges. Both copies of `bytes`: in behind the await, out before the publish. */
static const struct layout {
    const char *name;
    bool kernel;
    size_t bytes;
} layouts[] = {
    // clang-format off
    {"nothing",             false, 0},
    {"kernel",              true,  0},
    {"kernel, 4 KiB",       true,  4 << 10},
    {"kernel, 16 KiB",      true,  16 << 10},
    {"kernel, 64 KiB",      true,  64 << 10},        /* the longest copies that CUDA joins with the exchange ... */
    {"kernel, 64 KiB + 16", true,  (64 << 10) + 16}, /* ... and the shortest by kernels of their own             */
    {"kernel, 1 MiB",       true,  1 << 20},         /* the longest of those, ...                                */
    {"kernel, 1 MiB + 16",  true,  MOST_BYTES},      /* ... and the shortest by the copy engine                  */
    // clang-format on
};

enum { LAYOUTS = sizeof layouts / sizeof *layouts };

typedef struct rig {
    device *d;
    device_buffer *step, *logits, *best, *data, *in, *out;
} rig;

typedef struct settings {
    unsigned runs;
    bool csv;
} settings;

static void stop(const char *what)
{
    fprintf(stderr, "pingpong: %s\n", what);
    exit(1);
}

static void must(hearth_status status, const hearth_error *error)
{
    if (status != HEARTH_OK)
        stop(error->text);
}

static device_buffer *new_buffer(device *d, device_place place, size_t bytes)
{
    device_buffer *b = NULL;
    hearth_error error = {0};
    must(device_buffer_create(&b, d, place, bytes, "pingpong", &error), &error);
    return b;
}

static void rig_open(rig *r, device *d)
{
    r->d = d;
    r->step = new_buffer(d, DEVICE_MEMORY, sizeof(step_record));
    r->logits = new_buffer(d, DEVICE_MEMORY, STEP_ROWS * sizeof(float));
    r->best = new_buffer(d, DEVICE_MEMORY, STEP_ROWS * sizeof(uint32_t));
    r->data = new_buffer(d, DEVICE_MEMORY, MOST_BYTES);
    r->in = new_buffer(d, DEVICE_PINNED, MOST_BYTES);
    r->out = new_buffer(d, DEVICE_PINNED, MOST_BYTES);
    step_record step = {.count = 1};
    hearth_error error = {0};
    must(device_write(r->step, 0, &step, sizeof step, &error), &error);
}

static void rig_close(rig *r)
{
    device_buffer *const buffers[] = {r->step, r->logits, r->best, r->data, r->in, r->out};
    for (size_t i = 0; i < sizeof buffers / sizeof *buffers; i++)
        device_buffer_destroy(buffers[i]);
}

static device_program *record(const rig *r, const struct layout *f)
{
    device_program *p = NULL;
    hearth_error error = {0};
    must(device_program_create(&p, r->d, SLOTS, 0, &error), &error);
    const device_argument arguments[] = {BUFFER(r->step), BUFFER(r->logits), BUFFER(r->best), UINT(1)};
    for (unsigned slot = 0; slot < SLOTS; slot++) {
        if (f->bytes > 0)
            device_copy(p, r->out, 0, r->data, 0, f->bytes);
        device_publish(p, slot);
        device_await(p, slot);
        if (f->bytes > 0)
            device_copy(p, r->data, 0, r->in, 0, f->bytes);
        if (f->kernel)
            device_launch(p, DEVICE_argmax, STEP_ROWS, arguments, sizeof arguments / sizeof *arguments);
    }
    must(device_program_seal(p, &error), &error);
    return p;
}

/* One run; round trips to seconds [SLOTS - 1] unless NULL. */
static void run(device_program *p, double *seconds)
{
    hearth_error error = {0};
    must(device_start(p, &error), &error);
    double answered = 0;
    for (unsigned slot = 0; slot < SLOTS; slot++) {
        must(device_await_published(p, slot, &error), &error);
        double seen = clock_seconds();
        if (slot > 0 && seconds)
            seconds[slot - 1] = seen - answered;
        answered = clock_seconds();
        device_answer(p, slot);
    }
    must(device_finish(p, &error), &error);
}

static int ascending(const void *a, const void *b)
{
    double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

static void measure(const settings *set, const char *spec, const rig *r, const struct layout *f)
{
    size_t count = (size_t)set->runs * (SLOTS - 1);
    double *seconds = mem_new_array(count, sizeof *seconds);
    if (!seconds)
        stop("out of memory");
    device_program *p = record(r, f);
    run(p, NULL);
    run(p, NULL);
    for (unsigned i = 0; i < set->runs; i++)
        run(p, seconds + (size_t)i * (SLOTS - 1));
    qsort(seconds, count, sizeof *seconds, ascending);
    double least = 1e6 * seconds[0], median = 1e6 * seconds[count / 2], most = 1e6 * seconds[count * 95 / 100];
    printf(set->csv ? "\"%s\",\"%s\",%.2f,%.2f,%.2f\n" : "%-24s %-20s %9.2f %9.2f %9.2f\n", spec, f->name, least,
           median, most);
    fflush(stdout);
    device_program_destroy(p);
    mem_free(seconds);
}

/* A device that does not open is a line, not an end: others follow. */
static void measure_device(const settings *set, const char *spec)
{
    device *d = NULL;
    hearth_error error = {0};
    if (device_open(&d, spec, NULL, &error) != HEARTH_OK) {
        printf("# %s: %s\n", spec, error.text);
        return;
    }
    device_info info;
    device_describe(d, &info);
    printf("# %s: %s, kernels %s, exchange by %s\n", spec, info.name, info.kernels, info.exchange);
    rig r;
    rig_open(&r, d);
    for (size_t i = 0; i < LAYOUTS; i++)
        measure(set, spec, &r, &layouts[i]);
    rig_close(&r);
    device_close(d);
}

/* Every device there is; those of CUDA in all three ways. */
static void measure_all(const settings *set)
{
    static const char *const ways[] = {",exchange=memory", ",exchange=kernel", ",exchange=events"};
    static device_found found[MOST_DEVICES];
    size_t count = device_list(found, MOST_DEVICES, NULL);
    for (size_t i = 0; i < count && i < MOST_DEVICES; i++) {
        bool cuda = strncmp(found[i].spec, "cuda", 4) == 0;
        if (!found[i].usable)
            printf("# %s: %s\n", found[i].spec, found[i].problem);
        for (size_t way = 0; found[i].usable && way < (cuda ? 3 : 1); way++) {
            char spec[64];
            snprintf(spec, sizeof spec, "%.31s%s", found[i].spec, cuda ? ways[way] : "");
            measure_device(set, spec);
        }
    }
}

static void help(void)
{
    printf("usage: pingpong [--csv] [--runs N] [DEVICE...]\n\n"
           "Microseconds from the CPU's answer to the next slot that it sees published, for one slot of %d in a "
           "program:\nthe least, the median, and what 95 of 100 keep to; over N runs (20). Without devices: all there "
           "are, CUDA's in every\nway of exchange=.\n",
           SLOTS);
}

int main(int argc, char **argv)
{
    static const struct option options[] = {
        {"csv", no_argument, NULL, 'c'}, {"runs", required_argument, NULL, 'r'}, {"help", no_argument, NULL, 'h'}, {0}};
    settings set = {.runs = 20};
    for (int letter; (letter = getopt_long(argc, argv, "", options, NULL)) != -1;) {
        if (letter == 'c') {
            set.csv = true;
        } else if (letter == 'r') {
            int runs = atoi(optarg);
            if (runs < 1 || runs > 100000)
                stop("--runs: a number from 1 to 100000");
            set.runs = (unsigned)runs;
        } else {
            help();
            return letter == 'h' ? 0 : 2;
        }
    }
    if (set.csv)
        puts("device,between,least_us,median_us,p95_us");
    else
        printf("%-24s %-20s %9s %9s %9s   us per slot\n", "device", "between", "least", "median", "95 %");
    if (optind == argc)
        measure_all(&set);
    for (int i = optind; i < argc; i++)
        measure_device(&set, argv[i]);
    return 0;
}
