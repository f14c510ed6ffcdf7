/* machine_measure.c - measures this machine, once: the description is stored, and recalled while CPU, kernels, threads and
 * devices are the same.
 *
 * All is measured with what the engine reads with: its thread pool, and the kernels of either side. Devices are opened in
 * any case, since only then do drivers say how much memory is free. */
#include "machine.h"

#include "../base/clock.h"
#include "../base/file.h"
#include "../base/hash.h"
#include "../base/median.h"
#include "../base/memory.h"
#include "../base/pool.h"
#include "../base/wait.h"
#include "../device/device.h"
#include "../device/measure.h"
#include "../kernel/bandwidth.h"
#include "../kernel/kernel.h"
#include "../kernel/topology.h"
#include "guard.h"

#include <stdio.h>
#include <string.h>
#include <time.h>

/* Increment when something is measured differently. */
#define MACHINE_VERSION 1
#define KIND            "hearth.machine"

/* What is taken for main memory where the system does not say how much there is: what the smallest PCs have. */
#define LEAST_MEMORY 4e9

enum { RATE_ROUNDS = 3, POOLS = 5, JOBS = 101 };

/* How long a thread waits for the others in a job, and how long without giving up its core: some times what a job takes
 * between running threads. */
#define MEET_SECONDS      1e-3
#define MEET_SPIN_SECONDS 20e-6

/* A device that will be part of the description. */
typedef struct candidate {
    char spec[MACHINE_NAME], name[MACHINE_NAME];
    uint64_t memory_bytes;
    bool is_gpu;
} candidate;

typedef struct measuring {
    machine m;
    const machine_options *options;
    hearth_error *error;
    char *problem; /* [MACHINE_PROBLEM] */
    const char *level;
    candidate devices[MACHINE_DEVICES];
    size_t device_count;
    uint64_t done, total; /* measurements */
} measuring;

/* Reports that another measurement begins. */
static hearth_status step(measuring *s)
{
    const hearth_progress *p = &s->options->progress;
    if (p->report && !p->report(p->user, "measurements of this machine", s->done++, s->total))
        return fail(s->error, HEARTH_CANCELLED, "measuring this machine: cancelled");
    return HEARTH_OK;
}

static figure measured(double value)
{
    return (figure){value, FIGURE_MEASURED};
}

/* ------------------------------------------------------------------ the CPU */

/* Returns the next of 1, 2, 3, 4, 6, 8, 12 ...: few enough to measure quickly; always ends with all processors. */
static unsigned next_threads(unsigned threads, unsigned most)
{
    unsigned next = threads < 4                      ? threads + 1
                    : (threads & (threads - 1)) == 0 ? threads + threads / 2
                                                     : threads * 4 / 3;
    return threads < most && next > most ? most : next;
}

static hearth_status measure_read(machine_reads *r, unsigned threads, const char *level, hearth_error *error)
{
    bandwidth *b;
    TRY(bandwidth_create(&b, threads, level, error));
    *r = (machine_reads){threads, bandwidth_measure(b)};
    bandwidth_destroy(b);
    return HEARTH_OK;
}

hearth_status machine_measure_reads(machine_reads *reads, size_t *count, const char *level, hearth_error *error)
{
    unsigned most = topology_processors();
    *count = 0;
    for (unsigned t = 1; t <= most && *count < MACHINE_THREADS; t = next_threads(t, most)) {
        TRY(measure_read(&reads[*count], t, level, error));
        ++*count;
    }
    return HEARTH_OK;
}

static void keep_best(figure *f, double value)
{
    *f = measured(value > f->value ? value : f->value);
}

/* A job that all threads have a part in. */
typedef struct meeting {
    atomic_uint arrived;
    unsigned threads;
} meeting;

/* Waits until all threads are here. A pool does not wait for threads that sleep: without this the caller would do all
 * of the work, since there is none. A thread that lost its core is given up. */
static void meet(void *context, size_t begin, size_t end, unsigned worker)
{
    (void)begin;
    (void)end;
    (void)worker;
    meeting *m = context;
    waiter w = {0};
    atomic_fetch_add(&m->arrived, 1);
    while (atomic_load(&m->arrived) < m->threads && wait_once(&w, MEET_SPIN_SECONDS) < MEET_SECONDS)
        ;
}

/* Measures jobs that do nothing but reach every thread: the median. A pool whose threads were late once lets them sleep
 * earlier, which makes them late again, so several pools are tried, and the best of them counts. */
static hearth_status measure_jobs(measuring *s)
{
    figure *f = &s->m.job_seconds;
    for (size_t i = 0; i < POOLS; i++) {
        pool *threads;
        double seconds[JOBS];
        TRY(pool_create(&threads, s->m.threads, s->error));
        for (size_t k = 0; k < JOBS; k++) {
            meeting m = {.threads = s->m.threads};
            double begin = clock_seconds();
            pool_run(threads, s->m.threads, 1, meet, &m);
            seconds[k] = clock_seconds() - begin;
        }
        pool_destroy(threads);
        double middle = median(seconds, JOBS);
        if (f->source != FIGURE_MEASURED || middle < f->value)
            *f = measured(middle);
    }
    return HEARTH_OK;
}

/* Measures reading and jobs with the threads of the plan: the best of a few rounds, since memory and cores are slower
 * while neighbours use them. The rounds alternate, so that a slow second disturbs all alike. */
static hearth_status measure_threads(measuring *s, bandwidth *b)
{
    machine_rates *r = &s->m.rates;
    double times[1 + MACHINE_ROWS][RATE_ROUNDS]; /* of a byte */
    for (size_t round = 0; round < RATE_ROUNDS; round++) {
        TRY(step(s));
        double rate = bandwidth_measure(b);
        times[MACHINE_ROWS][round] = 1 / rate;
        keep_best(&r->whole, rate);
        for (size_t i = 0; i < MACHINE_ROWS; i++) {
            TRY(bandwidth_measure_rows(b, machine_row_bytes[i], &rate, s->error));
            times[i][round] = 1 / rate;
            keep_best(&r->listed[i], rate);
        }
        TRY(measure_jobs(s));
    }
    double scatter = s->options->scatter > 0 ? s->options->scatter : GUARD_SCATTER;
    for (size_t i = 0; i <= MACHINE_ROWS; i++)
        s->m.busy = s->m.busy || !guard_is_steady(times[i], RATE_ROUNDS, scatter);
    for (size_t i = 0; i < MACHINE_ROWS; i++) /* scattered rows are faster only where others disturbed the whole */
        if (r->listed[i].value > r->whole.value)
            r->listed[i].value = r->whole.value;
    return HEARTH_OK;
}

static hearth_status measure_cpu(measuring *s)
{
    bandwidth *b;
    machine *m = &s->m;
    unsigned most = topology_processors();
    for (unsigned t = 1; t <= most && m->read_count < MACHINE_THREADS; t = next_threads(t, most)) {
        TRY(step(s));
        TRY(measure_read(&m->reads[m->read_count], t, s->level, s->error));
        m->read_count++;
    }
    TRY(bandwidth_create(&b, m->threads, s->level, s->error));
    hearth_status status = measure_threads(s, b);
    bandwidth_destroy(b);
    return status;
}

/* Asks for free memory: all of it where the system does not say what is in use, the least there can be where it says
 * nothing. */
static figure free_memory(void)
{
    double available = (double)topology_available_bytes(), all = (double)topology_memory_bytes();
    return available > 0 ? (figure){available, FIGURE_MEASURED}
           : all > 0     ? (figure){all, FIGURE_DERIVED}
                         : (figure){LEAST_MEMORY, FIGURE_ASSUMED};
}

/* ------------------------------------------------------------------ devices */

/* Returns whether a row of device_list is the device that a spec names: "cuda" is "cuda:0", and keys follow a comma. */
static bool is_named(const device_found *found, const char *spec)
{
    size_t length = strcspn(spec, ",");
    return strncmp(found->spec, spec, length) == 0 &&
           (found->spec[length] == 0 || strcmp(found->spec + length, ":0") == 0);
}

static void add_candidate(measuring *s, const char *spec, const device_found *found)
{
    candidate *c = &s->devices[s->device_count++];
    snprintf(c->spec, sizeof c->spec, "%s", spec);
    snprintf(c->name, sizeof c->name, "%.*s", (int)sizeof c->name - 1, found->name);
    c->memory_bytes = found->memory_bytes;
    c->is_gpu = found->is_gpu;
}

/* Lists the GPUs, or the device that the options name. */
static hearth_status find_candidates(measuring *s)
{
    const char *named = s->options->device;
    if (named && !named[0])
        return HEARTH_OK;
    if (named && strlen(named) >= MACHINE_NAME)
        return fail(s->error, HEARTH_INVALID, "%s: is longer than a device's name can be", named);
    if (named) /* before seconds of measuring */
        TRY(device_check_spec(named, s->error));
    device_found *found = mem_new_array(MAX_DEVICES, sizeof *found);
    if (!found)
        return fail_memory(s->error, "devices", MAX_DEVICES * sizeof *found);
    size_t count = device_list(found, MAX_DEVICES, s->options->cache_folder);
    count = count < MAX_DEVICES ? count : MAX_DEVICES;
    for (size_t i = 0; i < count && s->device_count < MACHINE_DEVICES; i++) {
        if (named ? s->device_count == 0 && is_named(&found[i], named) : found[i].usable && found[i].is_gpu)
            add_candidate(s, named ? named : found[i].spec, &found[i]);
    }
    if (named && s->device_count == 0) /* opening it says what is wrong */
        add_candidate(s, named, &(device_found){0});
    mem_free(found);
    return HEARTH_OK;
}

static void set_figures(machine_device *m, const device_figures *f)
{
    /* Exchanges are timed with and without a kernel between; noise may make the difference negative. */
    double kernel = f->kernel_seconds - f->exchange_seconds;
    m->rates.whole = measured(f->read_rate);
    m->to_device_rate = measured(f->to_device_rate);
    m->from_device_rate = measured(f->from_device_rate);
    m->start_seconds = measured(f->start_seconds);
    m->exchange_seconds = measured(f->exchange_seconds);
    m->kernel_seconds = measured(kernel > 0 ? kernel : 0);
}

static hearth_status measure_device(machine_device *m, device *d, hearth_error *error)
{
    device_figures figures;
    TRY(device_measure(d, &figures, error));
    set_figures(m, &figures);
    for (size_t i = 0; i < MACHINE_ROWS; i++) {
        double rate;
        TRY(device_measure_rows(d, machine_row_bytes[i], &rate, error));
        m->rates.listed[i] = measured(rate < figures.read_rate ? rate : figures.read_rate);
    }
    return HEARTH_OK;
}

/* Opens a device and fills what changes, its memory; measures the rest, unless it was recalled. */
static hearth_status describe_device(measuring *s, machine_device *m, const candidate *c, bool recalled,
                                     hearth_error *error)
{
    device *d;
    device_info info;
    TRY(device_open(&d, c->spec, s->options->cache_folder, error));
    device_describe(d, &info);
    snprintf(m->name, sizeof m->name, "%.*s", (int)sizeof m->name - 1, info.name);
    snprintf(m->spec, sizeof m->spec, "%s", c->spec);
    m->is_gpu = c->is_gpu;
    m->budget_bytes = measured((double)info.budget_bytes);
    m->memory_bytes = measured((double)(info.memory_bytes > info.budget_bytes ? info.memory_bytes : info.budget_bytes));
    hearth_status status = HEARTH_OK;
    if (!recalled)
        status = measure_device(m, d, error);
    device_close(d);
    return status;
}

/* Describes all candidates; recalled devices lie in s->m in the same order. */
static hearth_status describe_devices(measuring *s, bool recalled)
{
    machine *m = &s->m;
    m->device_count = 0;
    for (size_t i = 0; i < s->device_count; i++) {
        hearth_error error = {0};
        machine_device found = recalled ? m->devices[i] : (machine_device){0};
        if (!recalled)
            TRY(step(s));
        hearth_status status = describe_device(s, &found, &s->devices[i], recalled, &error);
        if (status != HEARTH_OK && s->options->device)
            return fail(s->error, status, "%s", error.text);
        if (status == HEARTH_OK)
            m->devices[m->device_count++] = found;
        else if (!s->problem[0])
            snprintf(s->problem, MACHINE_PROBLEM, "%.*s", MACHINE_PROBLEM - 1, error.text);
    }
    return HEARTH_OK;
}

/* ------------------------------------------------------------------ stored */

static void make_key(char key[HASH_TEXT_SIZE], const measuring *s)
{
    hash128 h = hash_begin();
    hash_number(&h, MACHINE_VERSION);
    hash_text(&h, HEARTH_VERSION);
    hash_text(&h, s->m.cpu);
    hash_number(&h, topology_cache_bytes());
    hash_number(&h, topology_processors());
    hash_text(&h, s->level);
    hash_number(&h, s->m.threads);
    for (size_t i = 0; i < s->device_count; i++) {
        hash_text(&h, s->devices[i].spec); /* with its budget, if the user gave one */
        hash_text(&h, s->devices[i].name);
        hash_number(&h, s->devices[i].memory_bytes);
    }
    hash_print(key, &h);
}

/* Returns "FOLDER/machine-KEY.json"; mem_free. NULL: no folder, or no memory. */
static char *file_path(const char *folder, const char *key)
{
    char name[HASH_TEXT_SIZE + 16];
    snprintf(name, sizeof name, "machine-%s.json", key);
    return folder ? file_join(folder, name) : NULL;
}

/* Takes what is stored, if it fits the devices that are there. */
static bool recall(measuring *s, const char *path, const char *key)
{
    machine stored;
    json_t *root = json_recall(path, KIND, MACHINE_VERSION, key);
    bool found = root && machine_parse(&stored, json_object_get(root, "machine"), path, NULL) == HEARTH_OK &&
                 stored.threads == s->m.threads && stored.device_count == s->device_count;
    if (found)
        s->m = stored;
    json_decref(root);
    return found;
}

static void remember(const measuring *s, const char *path, const char *key)
{
    json_t *members = json_pack("{s:o}", "machine", machine_json(&s->m));
    json_remember(path, KIND, MACHINE_VERSION, key, members);
    json_decref(members);
}

/* ------------------------------------------------------------------ all of it */

static void write_date(char *date, size_t size)
{
    time_t now = time(NULL);
    struct tm parts;
    if (!gmtime_r(&now, &parts) || strftime(date, size, "%Y-%m-%d", &parts) == 0)
        date[0] = 0;
}

/* Sets what is known without measuring, and what measuring depends on. */
static hearth_status prepare(measuring *s)
{
    size_t level;
    machine *m = &s->m;
    TRY(kernel_level_choose(&level, s->options->cpu_level, s->error));
    s->level = kernel_level_name(level);
    topology_cpu_name(m->cpu, sizeof m->cpu);
    memcpy(m->name, m->cpu, sizeof m->name);
    m->threads = s->options->threads ? s->options->threads : topology_cores();
    write_date(m->date, sizeof m->date);
    TRY(find_candidates(s));
    unsigned most = topology_processors();
    size_t reads = 0;
    for (unsigned t = 1; t <= most && reads < MACHINE_THREADS; t = next_threads(t, most))
        reads++;
    s->total = reads + RATE_ROUNDS + s->device_count;
    return HEARTH_OK;
}

static hearth_status run_survey(measuring *s)
{
    char key[HASH_TEXT_SIZE];
    TRY(prepare(s));
    make_key(key, s);
    char *path = file_path(s->options->cache_folder, key);
    bool recalled = !s->options->again && recall(s, path, key);
    hearth_status status = recalled ? HEARTH_OK : measure_cpu(s);
    if (status == HEARTH_OK)
        status = describe_devices(s, recalled);
    s->m.memory_bytes = free_memory();
    if (status == HEARTH_OK && !recalled && !s->problem[0] && !s->m.busy)
        remember(s, path, key);
    mem_free(path);
    return status;
}

hearth_status machine_measure(machine *out, const machine_options *options, char *problem, hearth_error *error)
{
    measuring *s = mem_new(sizeof *s); /* too large for a stack */
    if (!s)
        return fail_memory(error, "measuring this machine", sizeof *s);
    s->options = options;
    s->error = error;
    s->problem = problem;
    problem[0] = 0;
    hearth_status status = run_survey(s);
    if (status == HEARTH_OK)
        *out = s->m;
    mem_free(s);
    return status;
}
