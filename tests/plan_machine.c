/* plan_machine.c - machines: files read, printed and refused; rates between those that are known; this machine measured,
 * stored and recalled. No test asserts a time. */
#include "../src/base/file.h"
#include "../src/base/memory.h"
#include "../src/device/device.h"
#include "../src/kernel/topology.h"
#include "../src/plan/machine.h"

#include <dirent.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "cache_folder.h"

#define MACHINES HEARTH_MODELS "/../machines"

/* cmocka's own compares floats. */
static void is_near(double got, double want, double most)
{
    if (!(fabs(got - want) <= most))
        fail_msg("%.17g instead of %.17g", got, want);
}

/* ------------------------------------------------------------------ figures */

static void figures_say_where_they_come_from(void **state)
{
    (void)state;
    static const char *const names[] = {"assumed", "derived", "stated", "measured"};
    for (int i = 0; i < FIGURE_SOURCES; i++) {
        json_t *o = figure_json((figure){2.5, (figure_source)i});
        assert_string_equal(json_string_value(json_object_get(o, "source")), names[i]);
        is_near(json_real_value(json_object_get(o, "value")), 2.5, 0);
        json_decref(o);
    }
}

/* Straight over the logarithm of the length, and even beyond both ends. */
static void rates_between_known_lengths(void **state)
{
    (void)state;
    const machine_rates r = {.listed = {{10, 0}, {20, 0}, {28, 0}, {32, 0}}};
    static const struct {
        double bytes, rate;
    } cases[] = {{0, 10},       {1, 10},    {1024, 10},      {1448.1547, 15}, {2048, 20},
                 {3444.31, 26}, {4096, 28}, {5792.6188, 30}, {8192, 32},      {1e9, 32}};
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) /* 2048 * 2^0.75 = 3444.31 */
        is_near(machine_listed_rate(&r, cases[i].bytes), cases[i].rate, 1e-3);
    is_near(machine_listed_rate(&r, (double)NAN), 10, 0);
    for (double bytes = 512, last = 0; bytes < 20000; bytes *= 1.01) {
        double rate = machine_listed_rate(&r, bytes);
        assert_true(rate >= last && rate >= 10 && rate <= 32);
        last = rate;
    }
}

static void longer_rows_are_read_faster(void **state)
{
    (void)state;
    for (int is_gpu = 0; is_gpu < 2; is_gpu++) {
        machine_rates r = {.whole = {1e9, FIGURE_MEASURED}};
        machine_derive_listed(&r, is_gpu);
        for (size_t i = 0; i < MACHINE_ROWS; i++) {
            assert_int_equal(r.listed[i].source, FIGURE_DERIVED);
            assert_true(r.listed[i].value > (i ? r.listed[i - 1].value : 0.3e9) && r.listed[i].value <= 1e9);
        }
    }
}

/* ------------------------------------------------------------------ files */

static void is_figure(figure f, double value, figure_source source)
{
    is_near(f.value, value, value * 1e-12);
    assert_int_equal(f.source, source);
}

/* Prints and parses; nothing is lost. */
static void survives_printing(const machine *m)
{
    machine back;
    hearth_error error = {0};
    json_t *first = machine_json(m);
    char *text = json_dumps(first, 0);
    json_t *parsed;
    assert_int_equal(json_parse(&parsed, text, strlen(text), "printed", &error), HEARTH_OK);
    if (machine_parse(&back, parsed, "printed", &error) != HEARTH_OK)
        fail_msg("%s", error.text);
    json_t *second = machine_json(&back);
    assert_true(json_equal(first, second));
    assert_int_equal(back.device_count, m->device_count);
    assert_string_equal(back.note, m->note);
    json_decref(second);
    json_decref(parsed);
    json_decref(first);
    free(text);
}

static void those_that_come_with_hearth(void **state)
{
    (void)state;
    static const struct {
        const char *name;
        double peak, device_peak; /* as their makers say */
    } cases[] = {{"PC-High", 67.2e9, 1008e9},
                 {"PC-Low", 38.4e9, 616e9},
                 {"A100-80G", 204.8e9, 2039e9},
                 {"RTX-5090-DDR5", 96e9, 1792e9},
                 {"Laptop-8G", 83.2e9, 256e9}};
    machine m;
    hearth_error error = {0};
    size_t files = 0;
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        if (machine_read(&m, cases[i].name, MACHINES, &error) != HEARTH_OK)
            fail_msg("%s", error.text);
        assert_string_equal(m.name, cases[i].name);
        assert_int_equal(m.device_count, 1);
        assert_true(m.devices[0].is_gpu && m.note[0] && m.date[0]);
        assert_true(m.rates.whole.value < cases[i].peak && m.rates.whole.value > 0.7 * cases[i].peak);
        assert_true(m.devices[0].rates.whole.value < cases[i].device_peak);
        assert_true(m.devices[0].budget_bytes.value < m.devices[0].memory_bytes.value);
        survives_printing(&m);
    }
    DIR *d = opendir(MACHINES);
    assert_non_null(d);
    for (struct dirent *entry; (entry = readdir(d)) != NULL;)
        files += strstr(entry->d_name, ".json") != NULL;
    closedir(d);
    assert_int_equal(files, sizeof cases / sizeof *cases);

    assert_int_equal(machine_read(&m, MACHINES "/pc-high.json", NULL, &error), HEARTH_OK);
    assert_int_equal(m.threads, 8);
    is_figure(m.memory_bytes, 192e9, FIGURE_STATED);
    assert_int_equal(m.rates.whole.source, FIGURE_DERIVED);
    assert_int_equal(m.job_seconds.source, FIGURE_ASSUMED);
    assert_int_equal(m.read_count, 0);
    is_figure(m.devices[0].to_device_rate, 25e9, FIGURE_STATED);
    is_figure(m.devices[0].from_device_rate, 25e9, FIGURE_DERIVED);
    is_figure(m.devices[0].budget_bytes, 0.9 * 24564 * 1048576, FIGURE_DERIVED);
    assert_int_equal(m.devices[0].exchange_seconds.source, FIGURE_ASSUMED);

    assert_int_equal(machine_read(&m, "PC-Middle", MACHINES, &error), HEARTH_IO);
    assert_non_null(strstr(error.text, "PC-Middle: no such file, and no machine of that name in "));
    assert_int_equal(machine_read(&m, "PC-High", NULL, &error), HEARTH_IO);
    assert_int_equal(machine_read(&m, "../machines/PC-High", MACHINES, &error), HEARTH_IO);
}

/* Every member, in both forms of a figure. */
static const char valid[] =
    "{'name': 'N', 'note': 'from nowhere', 'date': '2026-01-02',\n"
    " 'cpu': {'name': 'C', 'threads': 4, 'memory_bytes': 8e9, 'read_rate': {'value': 20e9, 'source': 'measured'},\n"
    "         'listed_rates': [5e9, 6e9, 7e9, {'value': 8e9, 'source': 'assumed'}], 'job_seconds': 1e-6,\n"
    "         'reads': [{'threads': 1, 'bytes_per_second': 15e9}, {'threads': 4, 'bytes_per_second': 20e9}]},\n"
    " 'devices': [{'name': 'D', 'spec': 'cuda:1', 'gpu': true, 'memory_bytes': 4e9, 'budget_bytes': 3e9,\n"
    "              'peak_rate': 300e9, 'to_device_rate': 10e9, 'from_device_rate': 9e9, 'start_seconds': 1e-5,\n"
    "              'kernel_seconds': 0, 'exchange_seconds': 7e-6},\n"
    "             {'name': 'E', 'gpu': false, 'memory_bytes': 2e9, 'read_rate': 5e9}]}";

/* Returns `valid` with JSON's quotes and `from` replaced by `to`; free. */
static char *edited(const char *from, const char *to)
{
    const char *at = strstr(valid, from);
    if (!at)
        fail_msg("the valid text lacks %s", from);
    size_t size = sizeof valid + strlen(to);
    char *text = malloc(size);
    snprintf(text, size, "%.*s%s%s", (int)(at - valid), valid, to, at + strlen(from));
    for (char *c = text; *c; c++)
        *c = *c == '\'' ? '"' : *c;
    return text;
}

static hearth_status parse_edited(machine *m, const char *from, const char *to, hearth_error *error)
{
    json_t *root;
    char *text = edited(from, to);
    hearth_status status = json_parse(&root, text, strlen(text), "m.json", error);
    free(text);
    if (status == HEARTH_OK) {
        status = machine_parse(m, root, "m.json", error);
        json_decref(root);
    }
    return status;
}

static void every_member_is_read(void **state)
{
    (void)state;
    machine m;
    hearth_error error = {0};
    if (parse_edited(&m, "", "", &error) != HEARTH_OK)
        fail_msg("%s", error.text);
    assert_string_equal(m.name, "N");
    assert_string_equal(m.note, "from nowhere");
    assert_string_equal(m.date, "2026-01-02");
    assert_string_equal(m.cpu, "C");
    assert_int_equal(m.threads, 4);
    is_figure(m.memory_bytes, 8e9, FIGURE_STATED);
    is_figure(m.rates.whole, 20e9, FIGURE_MEASURED);
    is_figure(m.rates.listed[0], 5e9, FIGURE_STATED);
    is_figure(m.rates.listed[3], 8e9, FIGURE_ASSUMED);
    is_figure(m.job_seconds, 1e-6, FIGURE_STATED);
    assert_int_equal(m.read_count, 2);
    assert_int_equal(m.reads[1].threads, 4);
    is_near(m.reads[0].bytes_per_second, 15e9, 0);
    assert_int_equal(m.device_count, 2);
    const machine_device *d = &m.devices[0], *e = &m.devices[1];
    assert_string_equal(d->name, "D");
    assert_string_equal(d->spec, "cuda:1");
    assert_true(d->is_gpu);
    is_figure(d->memory_bytes, 4e9, FIGURE_STATED);
    is_figure(d->budget_bytes, 3e9, FIGURE_STATED);
    assert_int_equal(d->rates.whole.source, FIGURE_DERIVED);
    is_figure(d->to_device_rate, 10e9, FIGURE_STATED);
    is_figure(d->from_device_rate, 9e9, FIGURE_STATED);
    is_figure(d->start_seconds, 1e-5, FIGURE_STATED);
    is_figure(d->kernel_seconds, 0, FIGURE_STATED);
    is_figure(d->exchange_seconds, 7e-6, FIGURE_STATED);
    assert_false(e->is_gpu);
    assert_string_equal(e->spec, "");
    is_figure(e->rates.whole, 5e9, FIGURE_STATED);
    assert_int_equal(e->from_device_rate.source, FIGURE_ASSUMED); /* no surer than what it is derived from */
    survives_printing(&m);
}

#define LONG128                                                                                            \
    "0123456789012345678901234567890123456789012345678901234567890123456789012345678901234567890123456789" \
    "0123456789012345678901234567"

/* The text names the file and the member. */
static void wrong_files_are_refused(void **state)
{
    (void)state;
    static const struct {
        const char *from, *to, *text;
    } cases[] = {
        {"'name': 'N', ", "", "m.json: name: is missing"},
        {"'name': 'N'", "'name': 5", "m.json: name: is not a string"},
        {"'name': 'N'", "'name': '" LONG128 "'", "m.json: name: has 128 bytes"},
        {"'note'", "'notes'", "m.json: notes: unknown member"},
        {"'2026-01-02'", "20260102", "m.json: date: is not a string"},
        {"'cpu'", "'gpu'", "m.json: gpu: unknown member"},
        {"'threads': 4, 'memory", "'memory", "m.json: cpu: threads: is missing"},
        {"'threads': 4", "'threads': 0", "m.json: cpu: threads: is 0, not from 1"},
        {"'threads': 4", "'threads': 4.5", "m.json: cpu: threads: is not an integer"},
        {"'threads': 4", "'threads': 5000", "m.json: cpu: threads: is 5000"},
        {"'memory_bytes': 8e9, ", "", "m.json: cpu: memory_bytes: is missing"},
        {"'memory_bytes': 8e9", "'memory_bytes': 0", "m.json: cpu: memory_bytes: is 0, not from"},
        {"'memory_bytes': 8e9", "'memory_bytes': '8G'", "m.json: cpu: memory_bytes: is not a number"},
        {"'memory_bytes': 8e9", "'memory_bytes': null", "m.json: cpu: memory_bytes: is not a number"},
        {"'memory_bytes': 8e9", "'memory_bytes': -8e9", "m.json: cpu: memory_bytes: is -8e+09"},
        {"'memory_bytes': 8e9", "'memory_bytes': 1e300", "m.json: cpu: memory_bytes: is 1e+300"},
        {"'memory_bytes': 8e9", "'memory_byte': 8e9", "m.json: cpu: memory_byte: unknown member"},
        {"'read_rate': {'value': 20e9, 'source': 'measured'},", "", "m.json: cpu: read_rate: is missing"},
        {"'read_rate': {'value': 20e9", "'read_rate': {'value': 20", "m.json: cpu: read_rate: is 20, not from"},
        {"'read_rate': {'value': 20e9, ", "'read_rate': {", "m.json: cpu: read_rate: value: is missing"},
        {"'source': 'measured'", "'source': 'guessed'", "m.json: cpu: read_rate: source: is not assumed"},
        {"'source': 'measured'", "'from': 'measured'", "m.json: cpu: read_rate: from: unknown member"},
        {", 'source': 'measured'", "", "m.json: cpu: read_rate: source: is missing"},
        {"'job_seconds'", "'peak_rate': 30e9, 'job_seconds'", "m.json: cpu: peak_rate: read_rate is there already"},
        {"[5e9, ", "[", "m.json: cpu: listed_rates: needs 4 items, got 3"},
        {"[5e9, ", "[1e9, 5e9, ", "m.json: cpu: listed_rates: has 5 items, at most 4"},
        {"[5e9, ", "['5', ", "m.json: cpu: listed_rates[0]: is not a number"},
        {"[5e9, 6e9, 7e9, {'value': 8e9, 'source': 'assumed'}]", "7e9", "m.json: cpu: listed_rates: is not a list"},
        {"'job_seconds': 1e-6", "'job_seconds': -1", "m.json: cpu: job_seconds: is -1"},
        {"{'threads': 1, ", "{'threads': 4, ", "m.json: cpu: reads[1]: threads: is 4, not from 5"},
        {"{'threads': 1, ", "{", "m.json: cpu: reads[0]: threads: is missing"},
        {"'bytes_per_second': 20e9", "'bytes_per_second': 0", "m.json: cpu: reads[1]: bytes_per_second: is 0"},
        {"{'threads': 1, 'bytes_per_second': 15e9}", "15e9", "m.json: cpu: reads[0]: is not an object"},
        {"'devices': [{'name': 'D',", "'devices': [{", "m.json: devices[0]: name: is missing"},
        {"'devices': [", "'devices': [[], ", "m.json: devices[0]: is not an object"},
        {"'spec': 'cuda:1'", "'spec': 1", "m.json: devices[0]: spec: is not a string"},
        {"'gpu': true", "'gpu': 1", "m.json: devices[0]: gpu: is not true or false"},
        {"'memory_bytes': 4e9, ", "", "m.json: devices[0]: memory_bytes: is missing"},
        {"'budget_bytes': 3e9", "'budget_bytes': 5e9", "m.json: devices[0]: budget_bytes: is more than memory_bytes"},
        {"'peak_rate': 300e9", "'peak_rate': 300", "m.json: devices[0]: peak_rate: is 300"},
        {"'peak_rate': 300e9,", "", "m.json: devices[0]: read_rate: is missing"},
        {"'to_device_rate': 10e9", "'to_device_rate': 0", "m.json: devices[0]: to_device_rate: is 0"},
        {"'from_device_rate': 9e9", "'from_device_rate': []", "m.json: devices[0]: from_device_rate: is not a number"},
        {"'start_seconds': 1e-5", "'start_seconds': 1000", "m.json: devices[0]: start_seconds: is 1000"},
        {"'kernel_seconds': 0", "'kernel_seconds': true", "m.json: devices[0]: kernel_seconds: is not a number"},
        {"'exchange_seconds'", "'exchange'", "m.json: devices[0]: exchange: unknown member"},
        {"'read_rate': 5e9", "'read_rate': 5e18", "m.json: devices[1]: read_rate: is 5e+18"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        machine m = {.threads = 77};
        hearth_error error = {0};
        assert_int_equal(parse_edited(&m, cases[i].from, cases[i].to, &error), HEARTH_FORMAT);
        if (!strstr(error.text, cases[i].text))
            fail_msg("%s -> %s: \"%s\" instead of \"%s\"", cases[i].from, cases[i].to, error.text, cases[i].text);
        assert_int_equal(m.threads, 77); /* unchanged */
    }
    static const char *const others[] = {"[]", "7", "null", "\"PC-High\"", "{}"};
    for (size_t i = 0; i < sizeof others / sizeof *others; i++) {
        machine m;
        json_t *root = json_loads(others[i], JSON_DECODE_ANY, NULL);
        assert_int_equal(machine_parse(&m, root, "m.json", NULL), HEARTH_FORMAT);
        json_decref(root);
    }
}

/* What is derived from the least of figures is less than they may be, and survives all the same. */
static void the_slowest_machine(void **state)
{
    (void)state;
    machine m;
    hearth_error error = {0};
    assert_int_equal(parse_edited(&m, "'peak_rate': 300e9", "'peak_rate': 1e6", &error), HEARTH_OK);
    assert_true(m.devices[0].rates.listed[0].value < 1e6);
    survives_printing(&m);
}

static void too_many_devices(void **state)
{
    (void)state;
    machine m;
    hearth_error error = {0};
    json_t *root, *item = json_pack("{s:s, s:f, s:f}", "name", "D", "memory_bytes", 1e9, "read_rate", 1e9);
    char *text = edited("", "");
    assert_int_equal(json_parse(&root, text, strlen(text), "m.json", &error), HEARTH_OK);
    json_t *devices = json_object_get(root, "devices");
    while (json_array_size(devices) < MACHINE_DEVICES)
        json_array_append(devices, item);
    assert_int_equal(machine_parse(&m, root, "m.json", &error), HEARTH_OK);
    assert_int_equal(m.device_count, MACHINE_DEVICES);
    json_array_append(devices, item);
    assert_int_equal(machine_parse(&m, root, "m.json", &error), HEARTH_FORMAT);
    assert_non_null(strstr(error.text, "m.json: devices: has 9 items"));
    json_decref(item);
    json_decref(root);
    free(text);
}

/* ------------------------------------------------------------------ this machine */

/* Counts reports, and cancels at one of them. */
typedef struct counter {
    uint64_t reports, total, cancel_at;
} counter;

static bool count_reports(void *user, const char *what, uint64_t done, uint64_t total)
{
    counter *c = user;
    assert_non_null(what);
    assert_true(done < total);
    c->total = total;
    return ++c->reports != c->cancel_at;
}

#define HOST "host,memory=16M"

static hearth_status measure(machine *m, const char *spec, const char *cache, counter *c, char *problem,
                             hearth_error *error)
{
    const machine_options options = {.threads = 1,
                                     .device = spec,
                                     .cache_folder = cache,
                                     .scatter = 1e9, /* whatever else this machine does */
                                     .progress = {.report = count_reports, .user = c}};
    return machine_measure(m, &options, problem, error);
}

/* The only file in the folder whose name begins so. */
static void stored_path(char out[512])
{
    DIR *d = opendir(folder);
    assert_non_null(d);
    out[0] = 0;
    for (struct dirent *entry; (entry = readdir(d)) != NULL;)
        if (strncmp(entry->d_name, "machine-", 8) == 0) {
            assert_int_equal(out[0], 0);
            snprintf(out, 512, "%s/%s", folder, entry->d_name);
        }
    closedir(d);
}

static void write_file(const char *path, const char *text, size_t size)
{
    FILE *f = fopen(path, "wb");
    assert_non_null(f);
    assert_int_equal(fwrite(text, 1, size, f), size);
    fclose(f);
}

static void has_rates(const machine_rates *r, figure_source whole, figure_source listed)
{
    assert_int_equal(r->whole.source, whole);
    assert_true(r->whole.value > 0);
    for (size_t i = 0; i < MACHINE_ROWS; i++) {
        assert_int_equal(r->listed[i].source, listed);
        assert_true(r->listed[i].value > 0 && r->listed[i].value <= r->whole.value);
    }
}

static void measured_once_and_recalled(void **state)
{
    (void)state;
    machine first, second;
    counter c = {0}, again = {0};
    char problem[MACHINE_PROBLEM], path[512];
    hearth_error error = {0};
    if (measure(&first, HOST, folder, &c, problem, &error) != HEARTH_OK)
        fail_msg("%s", error.text);
    assert_string_equal(problem, "");
    assert_false(first.busy);
    assert_int_equal(c.reports, c.total);
    assert_int_equal(first.threads, 1);
    assert_int_equal(strlen(first.date), 10);
    has_rates(&first.rates, FIGURE_MEASURED, FIGURE_MEASURED);
    assert_int_equal(first.job_seconds.source, FIGURE_MEASURED);
    assert_true(first.read_count > 0 && first.reads[0].threads == 1);
    assert_int_equal(first.reads[first.read_count - 1].threads, topology_processors());
    assert_true(first.memory_bytes.value <= (double)topology_memory_bytes());
    assert_int_equal(first.device_count, 1);
    const machine_device *d = &first.devices[0];
    assert_string_equal(d->spec, HOST);
    assert_false(d->is_gpu);
    is_figure(d->budget_bytes, 16e6, FIGURE_MEASURED);
    has_rates(&d->rates, FIGURE_MEASURED, FIGURE_MEASURED);
    assert_true(d->to_device_rate.value > 0 && d->from_device_rate.value > 0 && d->exchange_seconds.value > 0);
    assert_true(d->kernel_seconds.value >= 0 && d->start_seconds.value > 0);
    survives_printing(&first);

    assert_int_equal(measure(&second, HOST, folder, &again, problem, &error), HEARTH_OK);
    assert_int_equal(again.reports, 0); /* nothing was measured */
    is_near(second.rates.whole.value / first.rates.whole.value, 1, 1e-6);
    is_near(second.rates.listed[2].value / first.rates.listed[2].value, 1, 1e-6);
    is_near(second.devices[0].rates.whole.value / d->rates.whole.value, 1, 1e-6);
    assert_int_equal(second.devices[0].rates.whole.source, FIGURE_MEASURED);
    assert_int_equal(second.read_count, first.read_count);
    assert_string_equal(second.date, first.date);

    /* Another budget, another number of threads, and being told to: all of them measure, and are cancelled. */
    const machine_options others[] = {{.threads = 1, .device = "host,memory=17M"},
                                      {.threads = 2, .device = HOST},
                                      {.threads = 1, .device = HOST, .cpu_level = "scalar"},
                                      {.threads = 1, .device = ""},
                                      {.threads = 1, .device = HOST, .again = true}};
    for (size_t i = 0; i < sizeof others / sizeof *others; i++) {
        machine_options o = others[i];
        counter stop = {.cancel_at = 1};
        o.cache_folder = folder;
        o.progress = (hearth_progress){.report = count_reports, .user = &stop};
        assert_int_equal(machine_measure(&second, &o, problem, &error), HEARTH_CANCELLED);
    }
    stored_path(path);
    assert_true(path[0]);
}

/* Rates that scatter are not stored. */
static void a_busy_machine_is_measured_again(void **state)
{
    (void)state;
    char problem[MACHINE_PROBLEM], path[512], *before, *after;
    size_t before_size, after_size;
    machine m;
    hearth_error error = {0};
    stored_path(path);
    assert_int_equal(file_read(&before, &before_size, path, 1 << 16, &error), HEARTH_OK);
    const machine_options options = {
        .threads = 1, .device = HOST, .cache_folder = folder, .again = true, .scatter = 1e-12};
    assert_int_equal(machine_measure(&m, &options, problem, &error), HEARTH_OK);
    assert_true(m.busy);
    assert_string_equal(problem, "");
    assert_int_equal(file_read(&after, &after_size, path, 1 << 16, &error), HEARTH_OK);
    assert_int_equal(after_size, before_size);
    assert_memory_equal(after, before, before_size);
    mem_free(after);
    mem_free(before);
}

/* A file that is damaged in any way is as none: the machine is measured, which here is cancelled at once. */
static void damage_is_ignored(void **state)
{
    (void)state;
    char path[512], problem[MACHINE_PROBLEM], *text;
    size_t size;
    machine m;
    hearth_error error = {0};
    stored_path(path);
    assert_true(path[0]);
    assert_int_equal(file_read(&text, &size, path, 1 << 16, &error), HEARTH_OK);
    for (size_t cut = 0; cut + 1 < size; cut += cut < 64 ? 1 : 37) {
        counter stop = {.cancel_at = 1};
        write_file(path, text, cut);
        assert_int_equal(measure(&m, HOST, folder, &stop, problem, &error), HEARTH_CANCELLED);
    }
    static const struct {
        const char *from, *to;
    } edits[] = {{"\"hearth.machine\":", "\"hearth.machine\":9"},
                 {"\"key\":\"", "\"key\":\"f"},
                 {"\"machine\":", "\"machines\":"},
                 {"\"read_rate\":", "\"rate\":"},
                 {"\"threads\":1,", "\"threads\":2,"},
                 {"\"devices\":[", "\"devices\":[7,"},
                 {"\"devices\":[{", "\"devices\":[],\"note\":[{"}};
    for (size_t i = 0; i < sizeof edits / sizeof *edits; i++) {
        counter stop = {.cancel_at = 1};
        const char *at = strstr(text, edits[i].from);
        assert_non_null(at);
        FILE *f = fopen(path, "wb");
        fprintf(f, "%.*s%s%s", (int)(at - text), text, edits[i].to, at + strlen(edits[i].from));
        fclose(f);
        if (measure(&m, HOST, folder, &stop, problem, &error) != HEARTH_CANCELLED)
            fail_msg("taken with %s for %s", edits[i].to, edits[i].from);
    }
    write_file(path, text, size);
    counter none = {0};
    assert_int_equal(measure(&m, HOST, folder, &none, problem, &error), HEARTH_OK);
    assert_int_equal(none.reports, 0);
    mem_free(text);
}

static void cancelled_at_any_report(void **state)
{
    (void)state;
    char problem[MACHINE_PROBLEM];
    long live = mem_live();
    counter c = {.cancel_at = 1};
    for (uint64_t total = 1; c.cancel_at <= total; total = c.total, c.cancel_at++) {
        machine m = {.threads = 77};
        hearth_error error = {0};
        c.reports = 0;
        assert_int_equal(measure(&m, HOST, NULL, &c, problem, &error), HEARTH_CANCELLED);
        assert_non_null(strstr(error.text, "cancelled"));
        assert_int_equal(m.threads, 77);
        assert_int_equal(mem_live(), live);
    }
}

/* Devices that are not there, and one that fails: an error where it was named. */
static void devices_that_fail(void **state)
{
    (void)state;
    static const struct {
        const char *device;
        hearth_status status;
        const char *text;
    } cases[] = {{"nonsense", HEARTH_INVALID, "nonsense"},
                 {"host,colour=red", HEARTH_INVALID, "colour"},
                 {"host:7", HEARTH_DEVICE, "host"},
                 {LONG128, HEARTH_INVALID, "longer"}};
    char problem[MACHINE_PROBLEM];
    machine m;
    hearth_error error = {0};
    counter c = {0};
    /* Recalled, only the device is opened. */
    for (long n = 0; n < 2; n++) {
        device_fail_at(n);
        hearth_status status = measure(&m, HOST, folder, &c, problem, &error);
        device_fail_at(-1);
        assert_true(n > 0 || status != HEARTH_OK);
    }
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        hearth_status status = measure(&m, cases[i].device, NULL, &c, problem, &error);
        if (status != cases[i].status || !strstr(error.text, cases[i].text))
            fail_msg("%s: status %d, %s", cases[i].device, (int)status, error.text);
    }
}

/* All GPUs and nothing else, without being named; those that fail are left out with a reason, and nothing is stored. (The
 * driver of fake_cuda.c is one where there is none.) */
static void gpus_are_found(void **state)
{
    (void)state;
    static device_found found[MAX_DEVICES];
    char problem[MACHINE_PROBLEM], path[512], stored[512];
    machine m;
    hearth_error error = {0};
    size_t count = device_list(found, MAX_DEVICES, folder), gpus = 0;
    for (size_t i = 0; i < count && i < MAX_DEVICES; i++)
        gpus += found[i].usable && found[i].is_gpu;
    counter c = {0};
    stored_path(path);
    remove(path);
    device_fail_at(0);
    hearth_status status = measure(&m, NULL, folder, &c, problem, &error);
    device_fail_at(-1);
    assert_int_equal(status, HEARTH_OK);
    assert_int_equal(m.device_count, 0);
    assert_int_equal(problem[0] != 0, gpus > 0);
    stored_path(stored);
    assert_int_equal(stored[0] == 0, gpus > 0);
    if (gpus == 0)
        return;
    for (int recalled = 0; recalled < 2; recalled++) {
        c = (counter){0};
        assert_int_equal(measure(&m, NULL, folder, &c, problem, &error), HEARTH_OK);
        assert_string_equal(problem, "");
        assert_int_equal(m.device_count, gpus < MACHINE_DEVICES ? gpus : MACHINE_DEVICES);
        assert_true(m.devices[0].is_gpu && m.devices[0].rates.whole.value > 0);
        assert_int_equal(c.reports, recalled ? 0 : c.total);
    }
    print_message("%s: %.1f GB/s\n", m.devices[0].name, m.devices[0].rates.whole.value * 1e-9);
    device_fail_at(0); /* also where the rest is recalled */
    assert_int_equal(measure(&m, NULL, folder, &c, problem, &error), HEARTH_OK);
    device_fail_at(-1);
    assert_true(m.device_count == 0 && problem[0]);
}

static void without_a_device(void **state)
{
    (void)state;
    char problem[MACHINE_PROBLEM];
    machine m;
    hearth_error error = {0};
    counter c = {0};
    assert_int_equal(measure(&m, "", NULL, &c, problem, &error), HEARTH_OK);
    assert_int_equal(m.device_count, 0);
    assert_string_equal(problem, "");
    has_rates(&m.rates, FIGURE_MEASURED, FIGURE_MEASURED);
    const machine_options unknown = {.cpu_level = "sse9", .device = ""};
    assert_int_equal(machine_measure(&m, &unknown, problem, &error), HEARTH_INVALID);
    const machine_options many = {.threads = 100000, .device = ""};
    assert_int_equal(machine_measure(&m, &many, problem, &error), HEARTH_INVALID);
}

/* Recalling fails at any allocation, or measures again and fails there; nothing leaks. Measuring takes long, so that only
 * some of its allocations are tried. */
static void memory_runs_out(void **state)
{
    (void)state;
    char problem[MACHINE_PROBLEM];
    machine m;
    hearth_error error = {0};
    long live = mem_live();
    hearth_status status = HEARTH_NO_MEMORY;
    for (long n = 0; status != HEARTH_OK; n++) {
        counter c = {.cancel_at = 1};
        mem_fail_at(n);
        status = measure(&m, HOST, folder, &c, problem, &error);
        mem_fail_at(-1);
        assert_int_equal(mem_live(), live);
        assert_true(n < 100);
    }
    for (long n = 0; n < 60; n = n * 2 + 1) {
        counter c = {0};
        mem_fail_at(n);
        status = measure(&m, "", NULL, &c, problem, &error);
        mem_fail_at(-1);
        assert_true(status == HEARTH_NO_MEMORY || n > 30);
        assert_int_equal(mem_live(), live);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(figures_say_where_they_come_from),
        cmocka_unit_test(rates_between_known_lengths),
        cmocka_unit_test(longer_rows_are_read_faster),
        cmocka_unit_test(those_that_come_with_hearth),
        cmocka_unit_test(every_member_is_read),
        cmocka_unit_test(wrong_files_are_refused),
        cmocka_unit_test(the_slowest_machine),
        cmocka_unit_test(too_many_devices),
        cmocka_unit_test(measured_once_and_recalled), /* the next ones need what it stores */
        cmocka_unit_test(a_busy_machine_is_measured_again),
        cmocka_unit_test(damage_is_ignored),
        cmocka_unit_test(devices_that_fail),
        cmocka_unit_test(memory_runs_out),
        cmocka_unit_test(gpus_are_found),
        cmocka_unit_test(cancelled_at_any_report),
        cmocka_unit_test(without_a_device),
    };
    return run_group(tests, cache_folder_make, cache_folder_remove);
}
