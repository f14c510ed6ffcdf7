/* machine_file.c - descriptions of machines as JSON: those that people write about machines which are not at hand, and
 * those that hearth stores of this one.
 *
 * A figure is a number, which the file states, or {"value": ..., "source": "measured"}, as machine_json prints all of
 * them. What a file leaves out is filled in below, and its source says so. */
#include "machine.h"

#include "members.h"

#include <stdio.h>
#include <string.h>

/* ------------------------------------------------------------------ what files leave out */

/* Shares of the whole rate that scattered rows of 1, 2, 4, 8 KiB reach, and of the memory's peak that reading from end to
 * end does. */
typedef struct shares {
    double listed[MACHINE_ROWS];
    double peak;
} shares;

/* Of the CPU: prefetchers have to find the beginning of each row anew. machine_measure says 0.61, 0.69, 0.66 and 0.72 on an
 * EPYC (Zen 4) with one and with two threads. Of the peak that the type of the memory promises, refreshing and changing
 * between rows of the chips take about a seventh on desktops. */
static const shares cpu_shares = {{0.61, 0.68, 0.69, 0.72}, 0.85};
/* Of a GPU, as expected, not measured: rows are read by many groups at once, which hides the delay of one, so that only
 * opening a page of the memory chips for a short row costs. The peak is that of the bus, of which kernels that only read
 * reach about nine tenths. */
static const shares gpu_shares = {{0.70, 0.80, 0.87, 0.92}, 0.90};

/* What is taken where a file is silent. */
static const struct {
    double budget_share, copy_rate, start_seconds, kernel_seconds, exchange_seconds, job_seconds;
} assumed = {
    .budget_share = 0.9,      /* of a device's memory: what device_open takes of the free memory                      */
    .copy_rate = 12e9,        /* 16 lanes of PCIe 3.0, the slowest in use, promise 15.75 GB/s                         */
    .start_seconds = 15e-6,   /* a CUDA graph: about 10 us until its first kernel runs, 5 us until its end is seen    */
    .kernel_seconds = 2e-6,   /* between two small kernels of a CUDA graph lie 1 to 2 us                              */
    .exchange_seconds = 8e-6, /* two writes across PCIe of about 1 us each, the GPU's polling, two small kernels      */
    .job_seconds = 2e-6,      /* two threads on an EPYC (Zen 4): 0.7 us; more threads are counted back one by one     */
};

void machine_derive_listed(machine_rates *r, bool is_gpu)
{
    const shares *s = is_gpu ? &gpu_shares : &cpu_shares;
    for (size_t i = 0; i < MACHINE_ROWS; i++)
        r->listed[i] = (figure){r->whole.value * s->listed[i], FIGURE_DERIVED};
}

/* ------------------------------------------------------------------ figures */

/* A range that leaves out slips of units, and what would overflow in sums and quotients. */
typedef struct range {
    double least, most;
} range;

static const range range_rate = {1e6, 1e16}; /* bytes per second */
static const range range_bytes = {1e6, 1e18};
static const range range_seconds = {0, 100};

/* Reads a figure of either form. key: for errors. */
static hearth_status parse_figure(figure *out, const json_t *value, range r, const char *key, const char *name,
                                  hearth_error *error)
{
    static const char *const members[] = {"value", "source"};
    double number = json_number_value(value);
    int source = FIGURE_STATED;
    if (json_is_object(value)) {
        char place[MEMBERS_PLACE];
        const char *text;
        members_place(place, name, "%s", key);
        TRY(members_known(value, members, sizeof members / sizeof *members, place, error));
        TRY(json_get_number(value, "value", &number, NULL, place, error));
        TRY(json_get_string(value, "source", &text, NULL, place, error));
        for (source = 0; source < FIGURE_SOURCES; source++)
            if (strcmp(text, figure_source_name((figure_source)source)) == 0)
                break;
        if (source == FIGURE_SOURCES)
            return fail(error, HEARTH_FORMAT, "%s: source: is not assumed, derived, stated or measured", place);
    } else if (!json_is_number(value)) {
        return fail(error, HEARTH_FORMAT, "%s: %s: is not a number", name, key);
    }
    double least = source == FIGURE_STATED ? r.least : r.least / 10; /* what is derived from the least may be less */
    if (!(number >= least && number <= r.most))
        return fail(error, HEARTH_FORMAT, "%s: %s: is %g, not from %g to %g", name, key, number, least, r.most);
    *out = (figure){number, (figure_source)source};
    return HEARTH_OK;
}

/* Reads a member that is a figure; absent: *found is false and *out unchanged. */
static hearth_status get_figure(figure *out, const json_t *object, const char *key, range r, bool *found,
                                const char *name, hearth_error *error)
{
    const json_t *value = json_object_get(object, key);
    *found = value != NULL;
    return value ? parse_figure(out, value, r, key, name, error) : HEARTH_OK;
}

static hearth_status need_figure(figure *out, const json_t *object, const char *key, range r, const char *name,
                                 hearth_error *error)
{
    bool found;
    TRY(get_figure(out, object, key, r, &found, name, error));
    return found ? HEARTH_OK : fail(error, HEARTH_FORMAT, "%s: %s: is missing", name, key);
}

/* Reads read_rate, or peak_rate of which it is a share; and listed_rates, or derives them. */
static hearth_status parse_rates(machine_rates *out, const json_t *object, bool is_gpu, const char *name,
                                 hearth_error *error)
{
    bool whole, peak, listed;
    figure most = {0};
    TRY(get_figure(&out->whole, object, "read_rate", range_rate, &whole, name, error));
    TRY(get_figure(&most, object, "peak_rate", range_rate, &peak, name, error));
    if (whole == peak)
        return fail(error, HEARTH_FORMAT,
                    whole ? "%s: peak_rate: read_rate is there already" : "%s: read_rate: is missing", name);
    if (peak)
        out->whole = (figure){most.value * (is_gpu ? gpu_shares : cpu_shares).peak, FIGURE_DERIVED};
    const json_t *list;
    TRY(members_list(object, "listed_rates", MACHINE_ROWS, &list, &listed, name, error));
    if (!listed) {
        machine_derive_listed(out, is_gpu);
        return HEARTH_OK;
    }
    if (json_array_size(list) != MACHINE_ROWS)
        return fail(error, HEARTH_FORMAT, "%s: listed_rates: needs %d items, got %zu", name, MACHINE_ROWS,
                    json_array_size(list));
    for (size_t i = 0; i < MACHINE_ROWS; i++) {
        char key[32];
        snprintf(key, sizeof key, "listed_rates[%zu]", i);
        TRY(parse_figure(&out->listed[i], json_array_get(list, i), range_rate, key, name, error));
    }
    return HEARTH_OK;
}

/* ------------------------------------------------------------------ a device */

/* A device's figures that stand alone: member, where it goes, and what is taken where it is absent. */
static const struct device_row {
    const char *key;
    size_t offset;
    range r;
    const double
        *otherwise; /* NULL: derived from the row above (from_device_rate), or from the memory (budget_bytes) */
} device_rows[] = {
    {"to_device_rate", offsetof(machine_device, to_device_rate), {1e6, 1e16}, &assumed.copy_rate},
    {"from_device_rate", offsetof(machine_device, from_device_rate), {1e6, 1e16}, NULL},
    {"start_seconds", offsetof(machine_device, start_seconds), {0, 100}, &assumed.start_seconds},
    {"kernel_seconds", offsetof(machine_device, kernel_seconds), {0, 100}, &assumed.kernel_seconds},
    {"exchange_seconds", offsetof(machine_device, exchange_seconds), {0, 100}, &assumed.exchange_seconds},
};
#define DEVICE_ROWS (sizeof device_rows / sizeof *device_rows)

static figure *row_figure(machine_device *d, size_t row)
{
    return (figure *)(void *)((char *)d + device_rows[row].offset);
}

static hearth_status parse_device(machine_device *d, const json_t *object, const char *name, hearth_error *error)
{
    static const char *const members[] = {"name",
                                          "spec",
                                          "gpu",
                                          "memory_bytes",
                                          "budget_bytes",
                                          "read_rate",
                                          "peak_rate",
                                          "listed_rates",
                                          "to_device_rate",
                                          "from_device_rate",
                                          "start_seconds",
                                          "kernel_seconds",
                                          "exchange_seconds"};
    bool found;
    d->is_gpu = true;
    TRY(members_known(object, members, sizeof members / sizeof *members, name, error));
    TRY(members_text(object, "name", d->name, sizeof d->name, NULL, name, error));
    TRY(members_text(object, "spec", d->spec, sizeof d->spec, &found, name, error));
    TRY(json_get_bool(object, "gpu", &d->is_gpu, &found, name, error));
    TRY(need_figure(&d->memory_bytes, object, "memory_bytes", range_bytes, name, error));
    d->budget_bytes = (figure){d->memory_bytes.value * assumed.budget_share, FIGURE_DERIVED};
    TRY(get_figure(&d->budget_bytes, object, "budget_bytes", range_bytes, &found, name, error));
    if (d->budget_bytes.value > d->memory_bytes.value)
        return fail(error, HEARTH_FORMAT, "%s: budget_bytes: is more than memory_bytes", name);
    TRY(parse_rates(&d->rates, object, d->is_gpu, name, error));
    for (size_t i = 0; i < DEVICE_ROWS; i++) {
        const struct device_row *row = &device_rows[i];
        figure *f = row_figure(d, i);
        *f = row->otherwise ? (figure){*row->otherwise, FIGURE_ASSUMED} : *row_figure(d, i - 1);
        if (!row->otherwise && f->source > FIGURE_DERIVED)
            f->source = FIGURE_DERIVED;
        TRY(get_figure(f, object, row->key, row->r, &found, name, error));
    }
    return HEARTH_OK;
}

/* ------------------------------------------------------------------ the CPU, and all of it */

static hearth_status parse_reads(machine *m, const json_t *object, const char *name, hearth_error *error)
{
    static const char *const members[] = {"threads", "bytes_per_second"};
    const json_t *list;
    bool found;
    TRY(members_list(object, "reads", MACHINE_THREADS, &list, &found, name, error));
    for (size_t i = 0; found && i < json_array_size(list); i++) {
        char place[MEMBERS_PLACE];
        const json_t *item = json_array_get(list, i);
        machine_reads *r = &m->reads[i];
        members_place(place, name, "reads[%zu]", i);
        TRY(members_known(item, members, sizeof members / sizeof *members, place, error));
        TRY(members_count(item, "threads", i > 0 ? r[-1].threads + 1 : 1, 4096, &r->threads, NULL, place, error));
        TRY(members_number(item, "bytes_per_second", range_rate.least, range_rate.most, &r->bytes_per_second, NULL,
                           place, error));
        m->read_count = i + 1;
    }
    return HEARTH_OK;
}

static hearth_status parse_cpu(machine *m, const json_t *object, const char *name, hearth_error *error)
{
    static const char *const members[] = {"name",      "threads",      "memory_bytes", "read_rate",
                                          "peak_rate", "listed_rates", "job_seconds",  "reads"};
    bool found;
    TRY(members_known(object, members, sizeof members / sizeof *members, name, error));
    TRY(members_text(object, "name", m->cpu, sizeof m->cpu, NULL, name, error));
    TRY(members_count(object, "threads", 1, 4096, &m->threads, NULL, name, error)); /* 4096: as many as a pool has */
    TRY(need_figure(&m->memory_bytes, object, "memory_bytes", range_bytes, name, error));
    TRY(parse_rates(&m->rates, object, false, name, error));
    m->job_seconds = (figure){assumed.job_seconds, FIGURE_ASSUMED};
    TRY(get_figure(&m->job_seconds, object, "job_seconds", range_seconds, &found, name, error));
    return parse_reads(m, object, name, error);
}

hearth_status machine_parse(machine *out, const json_t *object, const char *name, hearth_error *error)
{
    static const char *const members[] = {"name", "note", "date", "cpu", "devices"};
    machine m = {0};
    char place[MEMBERS_PLACE];
    bool found;
    const json_t *cpu = json_object_get(object, "cpu"), *devices;
    TRY(members_known(object, members, sizeof members / sizeof *members, name, error));
    TRY(members_text(object, "name", m.name, sizeof m.name, NULL, name, error));
    TRY(members_text(object, "note", m.note, sizeof m.note, &found, name, error));
    TRY(members_text(object, "date", m.date, sizeof m.date, &found, name, error));
    if (!cpu)
        return fail(error, HEARTH_FORMAT, "%s: cpu: is missing", name);
    members_place(place, name, "cpu");
    TRY(parse_cpu(&m, cpu, place, error));
    TRY(members_list(object, "devices", MACHINE_DEVICES, &devices, &found, name, error));
    for (size_t i = 0; found && i < json_array_size(devices); i++) {
        members_place(place, name, "devices[%zu]", i);
        TRY(parse_device(&m.devices[i], json_array_get(devices, i), place, error));
        m.device_count = i + 1;
    }
    *out = m;
    return HEARTH_OK;
}

hearth_status machine_read(machine *out, const char *path, const char *folder, hearth_error *error)
{
    json_t *root;
    TRY(members_read_file(&root, path, folder, "machine", error));
    hearth_status status = machine_parse(out, root, path, error);
    json_decref(root);
    return status;
}

/* ------------------------------------------------------------------ as JSON */

/* Sets a member; *complete becomes false if there is no memory, also for its value. */
static void put(json_t *object, const char *key, json_t *value, bool *complete)
{
    if (json_object_set_new(object, key, value) != 0)
        *complete = false;
}

static void put_text(json_t *object, const char *key, const char *text, bool *complete)
{
    put(object, key, json_text(span_of(text)), complete);
}

static void put_rates(json_t *object, const machine_rates *r, bool *complete)
{
    json_t *listed = json_array();
    for (size_t i = 0; i < MACHINE_ROWS; i++)
        if (json_array_append_new(listed, figure_json(r->listed[i])) != 0)
            *complete = false;
    put(object, "read_rate", figure_json(r->whole), complete);
    put(object, "listed_rates", listed, complete);
}

static json_t *device_json(const machine_device *device, bool *complete)
{
    machine_device d = *device;
    json_t *o = json_object();
    put_text(o, "name", d.name, complete);
    put_text(o, "spec", d.spec, complete);
    put(o, "gpu", json_boolean(d.is_gpu), complete);
    put(o, "memory_bytes", figure_json(d.memory_bytes), complete);
    put(o, "budget_bytes", figure_json(d.budget_bytes), complete);
    put_rates(o, &d.rates, complete);
    for (size_t i = 0; i < DEVICE_ROWS; i++)
        put(o, device_rows[i].key, figure_json(*row_figure(&d, i)), complete);
    return o;
}

static json_t *cpu_json(const machine *m, bool *complete)
{
    json_t *o = json_object(), *reads = json_array();
    put_text(o, "name", m->cpu, complete);
    put(o, "threads", json_integer(m->threads), complete);
    put(o, "memory_bytes", figure_json(m->memory_bytes), complete);
    put_rates(o, &m->rates, complete);
    put(o, "job_seconds", figure_json(m->job_seconds), complete);
    for (size_t i = 0; i < m->read_count; i++) {
        json_t *read = json_pack("{s:I, s:f}", "threads", (json_int_t)m->reads[i].threads, "bytes_per_second",
                                 m->reads[i].bytes_per_second);
        if (json_array_append_new(reads, read) != 0)
            *complete = false;
    }
    put(o, "reads", reads, complete);
    return o;
}

json_t *machine_json(const machine *m)
{
    bool complete = true;
    json_t *o = json_object(), *devices = json_array();
    put_text(o, "name", m->name, &complete);
    put_text(o, "note", m->note, &complete);
    put_text(o, "date", m->date, &complete);
    put(o, "cpu", cpu_json(m, &complete), &complete);
    for (size_t i = 0; i < m->device_count; i++)
        if (json_array_append_new(devices, device_json(&m->devices[i], &complete)) != 0)
            complete = false;
    put(o, "devices", devices, &complete);
    if (complete)
        return o;
    json_decref(o);
    return NULL;
}
