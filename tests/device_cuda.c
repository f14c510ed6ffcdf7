/* The CUDA driver on fake_cuda.c, a driver library without a GPU: its three exchanges, copies of all kinds, faults of
 * the device at every kernel, and everything that can be missing. Skipped where LD_LIBRARY_PATH does not lead to the
 * fake. */
#include "../src/base/clock.h"
#include "../src/base/memory.h"
#include "../src/device/cuda_device.h"

#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "skip.h"

static const char *const ways[] = {"memory", "kernel", "events"};

enum { WAYS = sizeof ways / sizeof *ways, SLOTS = 6, STAMPS = 2 };

/* The fake's settings, all of them: what one test sets, no other sees. */
static const char *const settings[] = {"FAKE_CUDA_DEVICES",    "FAKE_CUDA_START",      "FAKE_CUDA_VERSION",
                                       "FAKE_CUDA_CAPABILITY", "FAKE_CUDA_MEMORY",     "FAKE_CUDA_FAULT",
                                       "FAKE_CUDA_LAUNCHES",   "FAKE_CUDA_PTX",        "FAKE_CUDA_OPERATIONS",
                                       "FAKE_CUDA_LIMITED",    "FAKE_NVRTC_FAILS",     "FAKE_NVRTC_NEWEST",
                                       "FAKE_CUDA_ONE_QUEUE",  "CUDA_LAUNCH_BLOCKING", "CUDA_DEVICE_MAX_CONNECTIONS"};

static int unset_all(void **state)
{
    (void)state;
    for (size_t i = 0; i < sizeof settings / sizeof *settings; i++)
        unsetenv(settings[i]);
    device_fail_at(-1);
    mem_fail_at(-1);
    return 0;
}

static void set(const char *name, long value)
{
    char text[32];
    snprintf(text, sizeof text, "%ld", value);
    assert_int_equal(setenv(name, text, 1), 0);
}

static bool fake_is_there(void)
{
    hearth_error error = {0};
    cuda_api api;
    char name[64] = "";
    unset_all(NULL);
    return cuda_api_load(&api, &error) == HEARTH_OK && api.device_name(name, sizeof name, 0) == CUDA_OK &&
           strncmp(name, "fake", 4) == 0;
}

static void ok(hearth_status status, const hearth_error *error)
{
    if (status != HEARTH_OK)
        fail_msg("%s", error->text);
}

static void assert_says(const char *text, const char *part)
{
    if (strstr(text, part) == NULL)
        fail_msg("'%s' does not say '%s'", text, part);
}

/* ------------------------------------------------------------------ a program with every kind of copy */

/* What goes round in each slot: out to the CPU, which changes it, and in again. Offsets that are not multiples of 16 and
 * sizes above 64 KiB are the copy engine's, the rest a kernel's. */
static const struct {
    size_t offset, size;
} parts[SLOTS] = {{0, 4096}, {16, 1}, {32, 65536}, {1, 4096}, {48, 100001}, {64, 31}};

enum { BYTES = 128 * 1024 };

typedef struct rig {
    device *d;
    device_buffer *x, *out, *in;
    device_program *program;
} rig;

static hearth_status rig_build(rig *r, const char *spec, hearth_error *error)
{
    *r = (rig){0};
    TRY(device_open(&r->d, spec, NULL, error));
    TRY(device_buffer_create(&r->x, r->d, DEVICE_MEMORY, BYTES, "x", error));
    TRY(device_buffer_create(&r->out, r->d, DEVICE_PINNED, BYTES, "out", error));
    TRY(device_buffer_create(&r->in, r->d, DEVICE_PINNED, BYTES, "in", error));
    TRY(device_program_create(&r->program, r->d, SLOTS, STAMPS, error));
    device_stamp(r->program, 0);
    for (unsigned slot = 0; slot < SLOTS; slot++) {
        device_copy(r->program, r->out, parts[slot].offset, r->x, parts[slot].offset, parts[slot].size);
        device_publish(r->program, slot);
        device_await(r->program, slot);
        device_copy(r->program, r->x, parts[slot].offset, r->in, parts[slot].offset, parts[slot].size);
    }
    device_stamp(r->program, 1);
    return device_program_seal(r->program, error);
}

static void rig_free(rig *r)
{
    device_program_destroy(r->program);
    device_buffer_destroy(r->x);
    device_buffer_destroy(r->out);
    device_buffer_destroy(r->in);
    device_close(r->d);
}

/* The CPU's part of one run: takes what is published, adds one to each byte and answers. want: what x should hold. */
static hearth_status rig_run(rig *r, unsigned char *want, hearth_error *error)
{
    unsigned char *in = device_buffer_host(r->in);
    const unsigned char *out = device_buffer_host(r->out);
    TRY(device_start(r->program, error));
    for (unsigned slot = 0; slot < SLOTS; slot++) {
        TRY(device_await_published(r->program, slot, error));
        size_t begin = parts[slot].offset, end = begin + parts[slot].size;
        assert_memory_equal(out + begin, want + begin, end - begin);
        for (size_t i = begin; i < end; i++)
            in[i] = ++want[i];
        device_answer(r->program, slot);
    }
    return device_finish(r->program, error);
}

static void open_rig(rig *r, const char *way, unsigned char *want)
{
    char spec[64];
    hearth_error error = {0};
    snprintf(spec, sizeof spec, "cuda,exchange=%s", way);
    ok(rig_build(r, spec, &error), &error);
    for (size_t i = 0; i < BYTES; i++)
        want[i] = (unsigned char)(i * 7);
    ok(device_write(r->x, 0, want, BYTES, &error), &error);
}

static void contents_go_round(void **state)
{
    (void)state;
    static unsigned char want[BYTES], got[BYTES];
    for (size_t way = 0; way < WAYS; way++) {
        rig r;
        hearth_error error = {0};
        open_rig(&r, ways[way], want);
        for (int run = 0; run < 20; run++)
            ok(rig_run(&r, want, &error), &error);
        ok(device_read(r.x, 0, got, BYTES, &error), &error);
        assert_memory_equal(got, want, BYTES);
        rig_free(&r);
    }
}

static void stamps_are_on_our_clock(void **state)
{
    (void)state;
    static unsigned char want[BYTES];
    for (size_t way = 0; way < WAYS; way++) {
        rig r;
        hearth_error error = {0};
        open_rig(&r, ways[way], want);
        double before = clock_seconds();
        ok(rig_run(&r, want, &error), &error);
        double after = clock_seconds(), first = device_stamp_seconds(r.program, 0);
        double last = device_stamp_seconds(r.program, 1);
        assert_true(first < last);
        assert_true(first > before - 1e-3 && last < after + 1e-3);
        rig_free(&r);
    }
}

/* Given up at every slot, and run again as if nothing had been. */
static void abandoning_leaves_it_usable(void **state)
{
    (void)state;
    static unsigned char want[BYTES];
    for (size_t way = 0; way < WAYS; way++) {
        rig r;
        hearth_error error = {0};
        open_rig(&r, ways[way], want);
        for (unsigned until = 0; until < SLOTS; until++) {
            ok(device_start(r.program, &error), &error);
            for (unsigned slot = 0; slot < until; slot++) {
                ok(device_await_published(r.program, slot, &error), &error);
                device_answer(r.program, slot);
            }
            device_abandon(r.program);
        }
        ok(device_write(r.x, 0, want, BYTES, &error), &error);
        ok(rig_run(&r, want, &error), &error);
        ok(device_start(r.program, &error), &error);
        rig_free(&r); /* while it runs */
    }
}

/* ------------------------------------------------------------------ faults */

/* A broken device says so, does not hang, and is as new once nobody uses it. */
static void faults_anywhere(const char *setting)
{
    static unsigned char want[BYTES];
    for (size_t way = 0; way < WAYS; way++) {
        char spec[64];
        snprintf(spec, sizeof spec, "cuda,exchange=%s", ways[way]);
        hearth_status status = HEARTH_DEVICE;
        int faults = 0;
        for (; status != HEARTH_OK; faults++) {
            rig r;
            hearth_error error = {0};
            memset(want, 0, sizeof want);
            set(setting, faults);
            status = rig_build(&r, spec, &error);
            if (status == HEARTH_OK)
                status = rig_run(&r, want, &error);
            if (status != HEARTH_OK) {
                assert_int_equal(status, HEARTH_DEVICE);
                assert_says(error.text, "CUDA_ERROR_LAUNCH_FAILED");
                if (r.program != NULL && r.program->sealed)
                    assert_int_not_equal(device_start(r.program, &error), HEARTH_OK);
            }
            rig_free(&r);
        }
        assert_true(faults > (strcmp(setting, "FAKE_CUDA_FAULT") == 0 ? 2 * SLOTS : 3));
        unsetenv(setting);
    }
}

static void kernels_may_fault(void **state)
{
    (void)state;
    faults_anywhere("FAKE_CUDA_FAULT");
}

static void starting_may_fail(void **state)
{
    (void)state;
    faults_anywhere("FAKE_CUDA_LAUNCHES");
}

/* Each call to the driver and each command of a run, made to fail in turn; and each allocation. */
static void everything_may_fail(void (*arm)(long n), hearth_status expected)
{
    static unsigned char want[BYTES];
    long live = mem_live();
    for (size_t way = 0; way < WAYS; way++) {
        char spec[64];
        snprintf(spec, sizeof spec, "cuda,exchange=%s", ways[way]);
        hearth_status status = expected;
        long n = 0;
        for (; status != HEARTH_OK; n++) {
            rig r;
            hearth_error error = {0};
            memset(want, 0, sizeof want);
            arm(n);
            status = rig_build(&r, spec, &error);
            if (status == HEARTH_OK)
                status = rig_run(&r, want, &error);
            if (status != HEARTH_OK) {
                assert_int_equal(status, expected);
                assert_true(error.text[0] != 0);
            }
            arm(-1);
            rig_free(&r);
            assert_int_equal(mem_live(), live);
        }
        assert_true(n > 5);
    }
}

static void injected_faults(void **state)
{
    (void)state;
    everything_may_fail(device_fail_at, HEARTH_DEVICE);
}

/* A device on which something fails in the middle of a program while what was started before goes on. */
enum { UNDER_WAY = 5 /* as often as it is asked after the failure */ };

static int records_left, queries_left;
static cuda_api working;

static cuda_result record_fails(cuda_event event, cuda_stream stream)
{
    if (records_left-- > 0)
        return working.event_record(event, stream);
    queries_left = UNDER_WAY;
    return CUDA_NOT_SUPPORTED;
}

static cuda_result query_under_way(cuda_stream stream)
{
    return queries_left > 0 && queries_left-- > 0 ? CUDA_NOT_READY : working.stream_query(stream);
}

static cuda_result wait_under_way(cuda_stream stream)
{
    queries_left = 0;
    return working.stream_wait(stream);
}

static void a_failed_run_is_over_when_the_device_is(void **state)
{
    (void)state;
    static unsigned char want[BYTES];
    for (int fails_at = 0; fails_at < SLOTS; fails_at++) {
        rig r;
        hearth_error error = {0};
        open_rig(&r, "events", want);
        cuda_api *api = &((cuda_device *)r.d)->api;
        working = *api;
        api->event_record = record_fails;
        api->stream_query = query_under_way;
        api->stream_wait = wait_under_way;
        records_left = fails_at;
        assert_int_equal(rig_run(&r, want, &error), HEARTH_DEVICE);
        assert_says(error.text, "publishing");
        assert_true(r.d->lost && !r.d->running);
        assert_int_equal(queries_left, 0);
        *api = working;
        rig_free(&r);
    }
}

static void no_memory(void **state)
{
    (void)state;
    everything_may_fail(mem_fail_at, HEARTH_NO_MEMORY);
}

static void no_memory_on_the_device(void **state)
{
    (void)state;
    set("FAKE_CUDA_MEMORY", 10000000);
    device *d = NULL;
    device_buffer *a = NULL, *b = NULL;
    hearth_error error = {0};
    ok(device_open(&d, "cuda,memory=20M", NULL, &error), &error);
    ok(device_buffer_create(&a, d, DEVICE_MEMORY, 6000000, "blk.0 gate", &error), &error);
    assert_int_equal(device_buffer_create(&b, d, DEVICE_MEMORY, 6000000, "blk.1 gate", &error), HEARTH_NO_MEMORY);
    assert_says(error.text, "blk.1 gate");
    assert_says(error.text, "out of memory");
    device_buffer_destroy(a);
    ok(device_buffer_create(&b, d, DEVICE_MEMORY, 6000000, "blk.1 gate", &error), &error);
    device_buffer_destroy(b);
    device_close(d);
    ok(device_open(&d, "cuda", NULL, &error), &error);
    device_info info;
    device_describe(d, &info);
    assert_int_equal(info.budget_bytes, 9000000);
    device_close(d);
}

/* ------------------------------------------------------------------ what may be missing */

/* What opening and the list say of a driver that is missing something. */
static void refused(const char *setting, long value, const char *says)
{
    static device_found found[16];
    hearth_error error = {0};
    device *d = NULL;
    set(setting, value);
    assert_int_equal(device_open(&d, "cuda", NULL, &error), HEARTH_DEVICE);
    assert_says(error.text, says);
    size_t count = device_list(found, 16, NULL), rows = 0;
    for (size_t i = 0; i < count && i < 16; i++) {
        if (strncmp(found[i].spec, "cuda", 4) != 0)
            continue;
        rows++;
        assert_false(found[i].usable);
        assert_says(found[i].problem, says);
    }
    assert_int_equal(rows, 1);
    unsetenv(setting);
}

static void drivers_and_devices_that_will_not_do(void **state)
{
    (void)state;
    refused("FAKE_CUDA_START", CUDA_NO_DEVICE, "no CUDA-capable device");
    refused("FAKE_CUDA_START", 12345, "12345");
    refused("FAKE_CUDA_VERSION", 11020, "CUDA 11.2, needed is 11.4");
    refused("FAKE_CUDA_DEVICES", 0, "no device");
    refused("FAKE_CUDA_CAPABILITY", 60, "6.0");
}

static void devices_are_listed(void **state)
{
    (void)state;
    static device_found found[16];
    set("FAKE_CUDA_DEVICES", 2);
    set("FAKE_CUDA_MEMORY", 123456789);
    size_t count = device_list(found, 16, NULL), rows = 0;
    for (size_t i = 0; i < count && i < 16; i++) {
        char spec[16];
        snprintf(spec, sizeof spec, "cuda:%zu", rows);
        if (strcmp(found[i].spec, spec) != 0)
            continue;
        rows++;
        assert_true(found[i].usable);
        assert_says(found[i].name, "fake device");
        assert_int_equal(found[i].memory_bytes, 123456789);
    }
    assert_int_equal(rows, 2);
    device *d = NULL;
    hearth_error error = {0};
    assert_int_equal(device_open(&d, "cuda:2", NULL, &error), HEARTH_DEVICE);
    assert_says(error.text, "only 2 devices");
    ok(device_open(&d, "cuda:1", NULL, &error), &error);
    device_close(d);
}

static void check_exchange(const char *spec, const char *says)
{
    device *d = NULL;
    hearth_error error = {0};
    ok(device_open(&d, spec, NULL, &error), &error);
    device_info info;
    device_describe(d, &info);
    assert_says(info.exchange, says);
    device_close(d);
}

static void the_best_exchange_that_works(void **state)
{
    (void)state;
    check_exchange("cuda", "kernel");
    check_exchange("cuda,exchange=memory", "memory operations");
    check_exchange("cuda,exchange=events", "events");
    set("FAKE_CUDA_LIMITED", 1);
    check_exchange("cuda", "memory operations");
    check_exchange("cuda,exchange=kernel", "kernel");
    set("FAKE_CUDA_OPERATIONS", 0);
    check_exchange("cuda", "events");
    set("FAKE_CUDA_LIMITED", 0);
    check_exchange("cuda", "kernel");
    device *d = NULL;
    hearth_error error = {0};
    assert_int_equal(device_open(&d, "cuda,exchange=memory", NULL, &error), HEARTH_DEVICE);
    assert_says(error.text, "memory operations");
    set("FAKE_CUDA_OPERATIONS", 1);
    set("CUDA_LAUNCH_BLOCKING", 0);
    check_exchange("cuda", "kernel");
    set("CUDA_LAUNCH_BLOCKING", 1);
    check_exchange("cuda", "events");
    assert_int_equal(device_open(&d, "cuda,exchange=memory", NULL, &error), HEARTH_DEVICE);
    assert_says(error.text, "CUDA_LAUNCH_BLOCKING");
    set("CUDA_LAUNCH_BLOCKING", 0);
    set("CUDA_DEVICE_MAX_CONNECTIONS", 8);
    check_exchange("cuda", "kernel");
    set("CUDA_DEVICE_MAX_CONNECTIONS", 1);
    check_exchange("cuda", "events");
    assert_int_equal(device_open(&d, "cuda,exchange=kernel", NULL, &error), HEARTH_DEVICE);
    assert_says(error.text, "CUDA_DEVICE_MAX_CONNECTIONS");
}

/* Returns how many edges of graphs so far let a kernel begin early. */
static long early_edges(void)
{
    void *library = dlopen("libcuda.so.1", RTLD_NOW | RTLD_LOCAL);
    long (*count)(void) = NULL;
    *(void **)&count = dlsym(library, "fake_cuda_early_edges");
    assert_non_null(count);
    long edges = count();
    dlclose(library);
    return edges;
}

/* Seals two kernels, a copy, a kernel, a stamp, and two kernels; only the second of two may begin early. */
static void seal_kernels(const char *spec, long expected)
{
    rig r = {0};
    hearth_error error = {0};
    long before = early_edges();
    ok(device_open(&r.d, spec, NULL, &error), &error);
    ok(device_buffer_create(&r.x, r.d, DEVICE_MEMORY, BYTES, "x", &error), &error);
    ok(device_program_create(&r.program, r.d, 0, 1, &error), &error);
    device_argument read[] = {{.kind = ARGUMENT_BUFFER, .buffer = r.x},
                              {.kind = ARGUMENT_BUFFER, .buffer = r.x},
                              {.kind = ARGUMENT_BUFFER, .buffer = r.x, .offset = BYTES / 2},
                              {.kind = ARGUMENT_UINT, .u = 0}};
    for (int i = 0; i < 5; i++) {
        device_launch(r.program, DEVICE_read, 1, read, 4);
        if (i == 1)
            device_copy(r.program, r.x, 0, r.x, 4096, 64);
        if (i == 2)
            device_stamp(r.program, 0);
    }
    ok(device_program_seal(r.program, &error), &error);
    ok(device_start(r.program, &error), &error);
    ok(device_finish(r.program, &error), &error);
    assert_int_equal(early_edges() - before, expected);
    rig_free(&r);
}

static void kernels_that_begin_early(void **state)
{
    (void)state;
    device *d = NULL;
    hearth_error error = {0};
    assert_int_equal(device_open(&d, "cuda,launch=soon", NULL, &error), HEARTH_INVALID);
    assert_says(error.text, "early or late");
    set("FAKE_CUDA_CAPABILITY", 89);
    assert_int_equal(device_open(&d, "cuda,launch=early", NULL, &error), HEARTH_DEVICE);
    assert_says(error.text, "the device is older");
    set("FAKE_CUDA_CAPABILITY", 90);
    if (device_open(&d, "cuda,launch=early", NULL, &error) != HEARTH_OK) {
        assert_says(error.text, "kernels that were built in"); /* where neither nvcc nor clang was there */
        return;
    }
    device_info info;
    device_describe(d, &info);
    assert_says(info.kernels, "launched early");
    device_close(d);
    static unsigned char want[BYTES], got[BYTES];
    for (size_t way = 0; way < WAYS; way++) {
        char early[32];
        snprintf(early, sizeof early, "%s,launch=early", ways[way]);
        rig r;
        open_rig(&r, early, want);
        for (int run = 0; run < 20; run++)
            ok(rig_run(&r, want, &error), &error);
        ok(device_read(r.x, 0, got, BYTES, &error), &error);
        assert_memory_equal(got, want, BYTES);
        rig_free(&r);
    }
    seal_kernels("cuda", 0);
    seal_kernels("cuda,launch=late", 0);
    seal_kernels("cuda,launch=early", 2);
}

/* Where both queues are one, the one that begins waits for the other for ever: it is given up, ends, and nothing is left of it. */
static void queues_that_are_one(void **state)
{
    (void)state;
    static const char *const specs[] = {"cuda,exchange=kernel", "cuda,exchange=memory"};
    set("FAKE_CUDA_ONE_QUEUE", 1);
    for (size_t i = 0; i < sizeof specs / sizeof *specs; i++) {
        long before = mem_live();
        rig r = {0};
        hearth_error error = {0};
        ok(device_open(&r.d, specs[i], NULL, &error), &error);
        ok(device_buffer_create(&r.x, r.d, DEVICE_MEMORY, BYTES, "x", &error), &error);
        ok(device_buffer_create(&r.in, r.d, DEVICE_PINNED, BYTES, "in", &error), &error);
        ok(device_program_create(&r.program, r.d, 1, 0, &error), &error);
        device_use_queue(r.program, QUEUE_COPY);
        device_await(r.program, 0);
        device_copy(r.program, r.x, 0, r.in, 0, BYTES);
        device_signal(r.program, 0);
        device_publish(r.program, 0);
        device_use_queue(r.program, QUEUE_MAIN);
        device_wait(r.program, 0);
        device_copy(r.program, r.in, 0, r.x, 0, BYTES);
        ok(device_program_seal(r.program, &error), &error);
        r.d->patience_seconds = 0.3;
        ok(device_start(r.program, &error), &error);
        device_answer(r.program, 0);
        assert_int_equal(device_await_published(r.program, 0, &error), HEARTH_DEVICE);
        assert_null(r.d->running);
        rig_free(&r);
        assert_int_equal(mem_live(), before);
    }
}

/* Built-in PTX is refused, or was not built in: NVRTC has to do. */
static void kernels_from_nvrtc(void **state)
{
    (void)state;
    set("FAKE_CUDA_PTX", 0);
    set("FAKE_NVRTC_NEWEST", 75);
    device *d = NULL;
    hearth_error error = {0};
    ok(device_open(&d, "cuda", NULL, &error), &error);
    device_info info;
    device_describe(d, &info);
    assert_string_equal(info.kernels, "NVRTC 12.3");
    device_close(d);
    set("FAKE_NVRTC_FAILS", 1);
    assert_int_equal(device_open(&d, "cuda", NULL, &error), HEARTH_DEVICE);
    /* The first complaint, of one line: of the driver where PTX was built in, of NVRTC where not. */
    assert_true(strstr(error.text, "kernels.cu(2): error: what is this") != NULL ||
                strstr(error.text, "unsupported .version") != NULL);
    assert_null(strstr(error.text, "more"));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup(contents_go_round, unset_all),
        cmocka_unit_test_setup(stamps_are_on_our_clock, unset_all),
        cmocka_unit_test_setup(abandoning_leaves_it_usable, unset_all),
        cmocka_unit_test_setup(kernels_may_fault, unset_all),
        cmocka_unit_test_setup(starting_may_fail, unset_all),
        cmocka_unit_test_setup(injected_faults, unset_all),
        cmocka_unit_test_setup(a_failed_run_is_over_when_the_device_is, unset_all),
        cmocka_unit_test_setup(no_memory, unset_all),
        cmocka_unit_test_setup(no_memory_on_the_device, unset_all),
        cmocka_unit_test_setup(drivers_and_devices_that_will_not_do, unset_all),
        cmocka_unit_test_setup(devices_are_listed, unset_all),
        cmocka_unit_test_setup(the_best_exchange_that_works, unset_all),
        cmocka_unit_test_setup(kernels_that_begin_early, unset_all),
        cmocka_unit_test_setup(queues_that_are_one, unset_all),
        cmocka_unit_test_setup(kernels_from_nvrtc, unset_all),
    };
    if (!fake_is_there()) {
        print_message("skipped: the fake driver is not where LD_LIBRARY_PATH leads\n");
        return SKIPPED;
    }
    return run_group(tests, NULL, NULL);
}
