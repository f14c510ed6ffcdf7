/* kcheck_devices.c - finds the devices, and runs their kernels one at a time for the checks beside it.
 *
 * Every device that opens is checked with several sizes of groups, where its driver lets them be chosen. The kernels
 * compiled for the host are checked once more without a device, each table with numbers of groups that the driver
 * never picks. A device that is not there is a printed line; PoCL being installed and its kernels not having run is a
 * failure, because otherwise a broken driver would look like a missing one. */
#include "kcheck_device.h"

#include "../src/device/kernels/host_table.h"
#include "../src/kernel/cpu.h"

#include <glob.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define GUARD         64   /* bytes before a piece; a multiple of 16, as arguments begin at */
#define GUARD_PATTERN 0xff /* four of them are a NaN that no kernel computes                */

/* What is under way: which kernels of the device ran; which table is run directly, and with how many groups. */
static struct {
    bool ran[DEVICE_KERNEL_COUNT];
    const host_table *table; /* NULL: through the device */
    size_t turn;
} now;

static void must(hearth_status status, const hearth_error *error)
{
    if (status == HEARTH_OK)
        return;
    printf("FAILED kcheck: %s\n", error->text);
    exit(1);
}

void *array_new(size_t count, size_t size)
{
    void *p = calloc(count ? count : 1, size ? size : 1);
    if (!p) {
        fprintf(stderr, "kcheck: out of memory\n");
        exit(1);
    }
    return p;
}

/* ---- buffers ---- */

room room_new(device *d, const void *content, size_t size)
{
    room r = {.size = size, .behind = now.turn++ % 2 ? 0 : GUARD};
    hearth_error error = {0};
    size_t all = GUARD + size + r.behind;
    unsigned char *bytes = array_new(all, 1);
    memset(bytes, GUARD_PATTERN, all);
    if (content && size > 0)
        memcpy(bytes + GUARD, content, size);
    must(device_buffer_create(&r.buffer, d, DEVICE_MEMORY, all, "kcheck", &error), &error);
    must(device_write(r.buffer, 0, bytes, all, &error), &error);
    free(bytes);
    return r;
}

void room_free(room *r)
{
    device_buffer_destroy(r->buffer);
    *r = (room){0};
}

device_argument room_of(const room *r)
{
    return BUFFER_FROM(r->buffer, GUARD);
}

void room_read(check *c, const room *r, void *out)
{
    hearth_error error = {0};
    unsigned char guards[2 * GUARD];
    must(device_read(r->buffer, 0, guards, GUARD, &error), &error);
    if (r->behind > 0)
        must(device_read(r->buffer, GUARD + r->size, guards + GUARD, r->behind, &error), &error);
    bool before = true, behind = true;
    for (size_t i = 0; i < GUARD; i++) {
        before &= guards[i] == GUARD_PATTERN;
        behind &= r->behind == 0 || guards[GUARD + i] == GUARD_PATTERN;
    }
    expect(c, "wrote before a buffer", before);
    expect(c, "wrote behind a buffer", behind);
    if (out && r->size > 0)
        must(device_read(r->buffer, GUARD, out, r->size, &error), &error);
}

float step_gain(uint32_t position)
{
    return 0.25f * (float)(position % 3);
}

room step_new(device *d, uint32_t count, const uint32_t *sequence, const uint32_t *position, const uint32_t *token)
{
    step_record step = {.count = count};
    for (uint32_t t = 0; t < count; t++) {
        float gain = step_gain(position ? position[t] : 0);
        step.row[t] = (step_row){.sequence = sequence ? sequence[t] : 0,
                                 .position = position ? position[t] : 0,
                                 .token = token ? token[t] : 0};
        memcpy(&step.row[t].score_gain, &gain, sizeof gain);
    }
    return room_new(d, &step, offsetof(step_record, row) + count * sizeof(step_row));
}

/* ---- kernels ---- */

/* All groups of a launch, last to first: their order must not matter. */
static void run_table(device_kernel kernel, size_t items, const device_argument *arguments)
{
    const size_t counts[] = {1, 2, 3, items, items + 5};
    uint32_t groups = (uint32_t)counts[now.turn++ % (sizeof(counts) / sizeof(*counts))];
    for (uint32_t group = groups; group-- > 0;)
        now.table->run[kernel](arguments, group, groups);
}

void device_do(check *c, device *d, device_kernel kernel, size_t items, const device_argument *arguments, size_t count)
{
    (void)c;
    now.ran[kernel] = true;
    if (now.table) {
        run_table(kernel, items, arguments);
        return;
    }
    hearth_error error = {0};
    device_program *p = NULL;
    must(device_program_create(&p, d, 0, 0, &error), &error);
    device_launch(p, kernel, items, arguments, count);
    must(device_program_seal(p, &error), &error);
    must(device_start(p, &error), &error);
    must(device_finish(p, &error), &error);
    device_program_destroy(p);
}

/* ---- devices ---- */

/* Checks one device; name: for the report. Returns how many comparisons failed. */
static size_t check_device(device *d, const char *name, uint64_t seed)
{
    memset(now.ran, 0, sizeof(now.ran));
    check c = {.level = name};
    check_watch(&c);
    check_device_products(&c, d, seed);
    check_device_vectors(&c, d, seed);
    size_t ran = 0;
    check_begin(&c, "kernels");
    for (size_t k = 0; k < DEVICE_KERNEL_COUNT; k++) {
        snprintf(c.size, sizeof(c.size), "%s", device_kernels[k].name);
        expect(&c, "was not run", now.ran[k]);
        ran += now.ran[k];
    }
    device_info info;
    device_describe(d, &info);
    printf("%-8s %zu of %d kernels (%s, groups of %u), %zu comparisons, %zu failed\n", name, ran, DEVICE_KERNEL_COUNT,
           now.table ? now.table->name : info.kernels, info.group, c.cases, c.bad);
    fflush(stdout);
    return c.bad;
}

/* A device as `spec` has it; false where it does not open. */
static bool check_spec(const char *spec, uint64_t seed, size_t *bad)
{
    device *d = NULL;
    hearth_error error = {0};
    if (device_open(&d, spec, NULL, &error) != HEARTH_OK) {
        printf("%-8s skipped: %s\n", spec, error.text);
        return false;
    }
    *bad += check_device(d, spec, seed);
    device_close(d);
    return true;
}

/* The host's tables, without threads or programs. */
static size_t check_tables(uint64_t seed)
{
    device *d = NULL;
    hearth_error error = {0};
    must(device_open(&d, "host", NULL, &error), &error);
    const host_table *table;
    size_t bad = 0;
    unsigned needed;
    for (size_t i = 0; (table = host_table_at(i, &needed)) != NULL; i++) {
        char names[CPU_NAMES_SIZE];
        if ((cpu_features() & needed) != needed) {
            printf("%-8s skipped: this CPU lacks %s\n", "host's", cpu_feature_names(names, needed));
            continue;
        }
        now.table = table;
        bad += check_device(d, "host's", seed);
    }
    now.table = NULL;
    device_close(d);
    return bad;
}

/* What else to ask of a device, as keys of its spec: groups of other sizes than it would take. Each costs OpenCL a
 * compilation, so some are kept for those who ask for the driver by name. */
static const struct driver_keys {
    const char *driver, *keys[4], *more[4];
} driver_keys[] = {
    {"host", {"", ",threads=2"}, {NULL}},
    {"opencl", {"", ",group=3"}, {",group=100", ",group=1", ",group=32", ",group=64"}},
    {"cuda", {"", ",group=1", ",group=100", ",group=512"}, {",group=3", ",group=32", ",group=64"}},
};

/* Adds to *ran how many of the keys gave a device that ran. One that ran must run with all of them. */
static void check_keys(const char *spec, const char *const keys[4], uint64_t seed, size_t *ran, size_t *bad)
{
    for (size_t k = 0; k < 4 && keys[k]; k++) {
        char whole[64];
        snprintf(whole, sizeof(whole), "%.31s%s", spec, keys[k]);
        if (check_spec(whole, seed, bad)) {
            (*ran)++;
        } else if (*ran > 0) {
            printf("FAILED %s: does not open, as it does with other keys\n", whole);
            (*bad)++;
        }
    }
}

static size_t check_found(const device_found *found, bool more, uint64_t seed, size_t *bad)
{
    size_t ran = 0;
    for (size_t i = 0; i < sizeof(driver_keys) / sizeof(*driver_keys); i++) {
        const struct driver_keys *row = &driver_keys[i];
        if (strncmp(found->spec, row->driver, strlen(row->driver)) != 0)
            continue;
        check_keys(found->spec, row->keys, seed, &ran, bad);
        if (more)
            check_keys(found->spec, row->more, seed, &ran, bad);
    }
    return ran;
}

/* Is PoCL there, whatever the driver thinks of it? */
static bool pocl_installed(void)
{
    static const char *const places[] = {"/etc/OpenCL/vendors/*pocl*.icd", "/usr/lib/libpocl.so*",
                                         "/usr/lib64/libpocl.so*", "/usr/lib/*/libpocl.so*",
                                         "/usr/local/lib/libpocl.so*"};
    bool there = false;
    for (size_t i = 0; i < sizeof(places) / sizeof(*places); i++) {
        glob_t found;
        there |= glob(places[i], 0, NULL, &found) == 0;
        globfree(&found);
    }
    return there;
}

/* PoCL names its devices after how it runs them. */
static bool is_pocl(const device_found *found)
{
    static const char *const names[] = {"pthread", "cpu-", "basic", "pocl", "PoCL", "Portable Computing"};
    bool is = false;
    for (size_t i = 0; i < sizeof(names) / sizeof(*names); i++)
        is |= strncmp(found->spec, "opencl", 6) == 0 && strstr(found->name, names[i]) != NULL;
    return is;
}

size_t check_devices(const char *only, uint64_t seed)
{
    device_found found[16];
    size_t count = device_list(found, 16, NULL), bad = 0, pocl = 0, all = 0;
    if (!only || strncmp(only, "host", strlen(only)) == 0)
        bad += check_tables(seed);
    if (only && strchr(only, ',')) { /* with options: that and nothing else */
        all = check_spec(only, seed, &bad);
        count = 0;
    }
    for (size_t i = 0; i < count && i < 16; i++) {
        if (only && strncmp(found[i].spec, only, strlen(only)) != 0)
            continue;
        if (!found[i].usable) {
            printf("%-8s skipped: %s\n", found[i].spec, found[i].problem);
            continue;
        }
        size_t ran = check_found(&found[i], only != NULL, seed, &bad);
        all += ran;
        pocl += is_pocl(&found[i]) ? ran : 0;
    }
    if (only && all == 0) {
        printf("FAILED %s: no such device ran\n", only);
        bad++;
    }
    if (!only && pocl == 0 && pocl_installed()) /* tests/skips.txt does not list that: CI fails */
        printf("opencl   skipped: PoCL is installed, but its kernels did not run\n");
    return bad;
}
