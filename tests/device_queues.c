/* device_queues.c - programs with two queues: parts that are copied while others are worked on. The sums are right, copies run
 * ahead of the work but never over it; a failing command, and a CPU that gives up, end both queues. */
#include "../src/base/memory.h"
#include "../src/device/driver.h"
#include "host_only.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

enum { PARTS = 7, BUFFERS = 2, COLUMNS = 4000, PART_BYTES = COLUMNS * sizeof(float), MOST_DEVICES = 16 };
enum { SUM_OF_PARTS = PARTS * (PARTS + 1) / 2 }; /* 1 + 2 + ... */

/* Stamps of a part. */
enum { COPY_BEGINS, COPY_ENDS, WORK_BEGINS, WORK_ENDS, STAMPS };

/* A device to which the CPU sends parts, each of which it adds to x. */
typedef struct rig {
    device *d;
    device_buffer *step, *x, *staged[BUFFERS], *parts[BUFFERS];
    device_program *program;
} rig;

static unsigned copied(unsigned part)
{
    return 2 * part;
}

static unsigned worked(unsigned part)
{
    return 2 * part + 1;
}

static void record(rig *r)
{
    device_program *p = r->program;
    for (unsigned i = 0; i < PARTS; i++) {
        const device_argument arguments[] = {BUFFER(r->step), NO_BUFFER,     NO_BUFFER, BUFFER(r->parts[i % BUFFERS]),
                                             BUFFER(r->x),    UINT(COLUMNS), UINT(0),   UINT(FINISH_ADD),
                                             FLOAT(1)};
        device_use_queue(p, QUEUE_COPY);
        if (i >= BUFFERS)
            device_wait(p, worked(i - BUFFERS));
        device_await(p, i);
        device_stamp(p, i * STAMPS + COPY_BEGINS);
        device_copy(p, r->parts[i % BUFFERS], 0, r->staged[i % BUFFERS], 0, PART_BYTES);
        device_stamp(p, i * STAMPS + COPY_ENDS);
        device_signal(p, copied(i));
        device_publish(p, i);
        device_use_queue(p, QUEUE_MAIN);
        device_wait(p, copied(i));
        device_stamp(p, i * STAMPS + WORK_BEGINS);
        device_launch(p, DEVICE_reduce, STEP_ROWS * ((COLUMNS + REDUCE_COLUMNS_ITEM - 1) / REDUCE_COLUMNS_ITEM),
                      arguments, sizeof arguments / sizeof *arguments);
        device_stamp(p, i * STAMPS + WORK_ENDS);
        device_signal(p, worked(i));
    }
}

static hearth_status set_up(rig *r, const char *spec, hearth_error *error)
{
    static const char what[] = "a test";
    const step_record step = {.count = 1};
    *r = (rig){0};
    TRY(device_open(&r->d, spec, NULL, error));
    TRY(device_buffer_create(&r->step, r->d, DEVICE_MEMORY, sizeof step, what, error));
    TRY(device_buffer_create(&r->x, r->d, DEVICE_MEMORY, STEP_ROWS * PART_BYTES, what, error));
    for (size_t i = 0; i < BUFFERS; i++) {
        TRY(device_buffer_create(&r->staged[i], r->d, DEVICE_PINNED, PART_BYTES, what, error));
        TRY(device_buffer_create(&r->parts[i], r->d, DEVICE_MEMORY, STEP_ROWS * PART_BYTES, what, error));
    }
    TRY(device_write(r->step, 0, &step, sizeof step, error));
    TRY(device_program_create(&r->program, r->d, PARTS, PARTS * STAMPS, error));
    record(r);
    return device_program_seal(r->program, error);
}

static void tear_down(rig *r)
{
    device_program_destroy(r->program);
    device_buffer_destroy(r->step);
    device_buffer_destroy(r->x);
    for (size_t i = 0; i < BUFFERS; i++) {
        device_buffer_destroy(r->staged[i]);
        device_buffer_destroy(r->parts[i]);
    }
    device_close(r->d);
}

/* Stages the parts [0, count): part i is i + 1 everywhere. */
static hearth_status stage_parts(rig *r, unsigned count, hearth_error *error)
{
    for (unsigned i = 0; i < count; i++) {
        if (i >= BUFFERS)
            TRY(device_await_published(r->program, i - BUFFERS, error));
        float *to = device_buffer_host(r->staged[i % BUFFERS]);
        for (size_t c = 0; c < COLUMNS; c++)
            to[c] = (float)(i + 1);
        device_answer(r->program, i);
    }
    return HEARTH_OK;
}

static hearth_status run(rig *r, float x[COLUMNS], hearth_error *error)
{
    TRY(device_start(r->program, error));
    TRY(stage_parts(r, PARTS, error));
    TRY(device_finish(r->program, error));
    return device_read(r->x, 0, x, PART_BYTES, error);
}

static void set_up_well(rig *r, const char *spec)
{
    hearth_error error;
    if (set_up(r, spec, &error) != HEARTH_OK)
        fail_msg("%s: %s", spec, error.text);
}

/* Runs once more; expects that x grew by all parts. */
static void run_well(rig *r, unsigned times)
{
    static float x[COLUMNS];
    hearth_error error;
    if (run(r, x, &error) != HEARTH_OK)
        fail_msg("%s", error.text);
    for (size_t c = 0; c < COLUMNS; c++)
        assert_true(x[c] == (float)(times * SUM_OF_PARTS));
}

/* Every device that works here, the host with threads, and all exchanges of CUDA. */
static void on_every_device(void (*test)(const char *spec))
{
    static const char *const ways[] = {"memory", "kernel", "events"};
    static device_found found[MOST_DEVICES];
    size_t count = device_list(found, MOST_DEVICES, NULL);
    for (size_t i = 0; i < count && i < MOST_DEVICES; i++) {
        bool cuda = strncmp(found[i].spec, "cuda", 4) == 0;
        if (!found[i].usable || (host_only && strcmp(found[i].spec, "host") != 0))
            continue;
        test(found[i].spec);
        for (size_t way = 0; cuda && way < sizeof ways / sizeof *ways; way++) {
            char spec[64];
            snprintf(spec, sizeof spec, "%.31s,exchange=%s", found[i].spec, ways[way]);
            test(spec);
        }
    }
    test("host,threads=2");
}

/* ------------------------------------------------------------------ what works */

static double at(const rig *r, unsigned part, unsigned moment)
{
    return device_stamp_seconds(r->program, part * STAMPS + moment);
}

static void add_parts(const char *spec)
{
    rig r;
    set_up_well(&r, spec);
    for (unsigned times = 1; times <= 20; times++) {
        run_well(&r, times);
        for (unsigned i = 0; i < PARTS; i++) {
            assert_true(at(&r, i, COPY_BEGINS) <= at(&r, i, COPY_ENDS));
            assert_true(at(&r, i, WORK_BEGINS) <= at(&r, i, WORK_ENDS));
            /* Work waits for its copy, and a copy for the work on what lay there; the clocks of OpenCL and CUDA have errors of
             * their own. */
            if (strncmp(spec, "host", 4) != 0)
                continue;
            assert_true(at(&r, i, COPY_ENDS) <= at(&r, i, WORK_BEGINS));
            assert_true(i < BUFFERS || at(&r, i - BUFFERS, WORK_ENDS) <= at(&r, i, COPY_BEGINS));
        }
    }
    tear_down(&r);
}

static void parts_add_up(void **state)
{
    (void)state;
    on_every_device(add_parts);
}

/* On a slow host the copy of the next part begins before the work on the one before it ends, whatever the machine is busy
 * with: the work lasts until that copy has come. */
static void copies_run_ahead(void **state)
{
    (void)state;
    rig r;
    set_up_well(&r, "host,speed=0.05");
    run_well(&r, 1);
    unsigned ahead = 0;
    for (unsigned i = 0; i + 1 < PARTS; i++)
        ahead += at(&r, i + 1, COPY_BEGINS) < at(&r, i, WORK_ENDS);
    assert_true(ahead > 0);
    tear_down(&r);
}

/* A CPU that gives up after some parts; afterwards the device is as before. */
static void abandon_everywhere(const char *spec)
{
    rig r;
    hearth_error error;
    float zeros[COLUMNS] = {0};
    set_up_well(&r, spec);
    for (unsigned until = 0; until <= PARTS; until++) {
        assert_int_equal(device_start(r.program, &error), HEARTH_OK);
        assert_int_equal(stage_parts(&r, until, &error), HEARTH_OK);
        device_abandon(r.program);
    }
    assert_int_equal(device_write(r.x, 0, zeros, sizeof zeros, &error), HEARTH_OK);
    run_well(&r, 1);
    assert_int_equal(device_start(r.program, &error), HEARTH_OK);
    tear_down(&r); /* while it runs */
}

static void abandoning(void **state)
{
    (void)state;
    on_every_device(abandon_everywhere);
}

/* ------------------------------------------------------------------ what fails */

static void every_call_fails_once(const char *spec)
{
    /* Opening, six buffers, a write, sealing; starting, then of each part two stamps, a copy, an await, a publish, two signals
     * and one or two waits, a launch, two more stamps; reading. */
    enum { BEFORE_RUN = 9, IN_RUN = 1 + 12 * PARTS - BUFFERS, CALLS = BEFORE_RUN + IN_RUN + 1 };
    static float x[COLUMNS];
    long before = mem_live();
    for (long n = 0; n <= CALLS; n++) {
        rig r;
        hearth_error error = {0};
        device_fail_at(n);
        hearth_status status = set_up(&r, spec, &error);
        assert_int_equal(status, n < BEFORE_RUN ? HEARTH_DEVICE : HEARTH_OK);
        if (status == HEARTH_OK)
            status = run(&r, x, &error);
        device_fail_at(-1);
        if (status != (n < CALLS ? HEARTH_DEVICE : HEARTH_OK) || (n < CALLS && !strstr(error.text, "injected")))
            fail_msg("%s: call %ld: status %d, '%s'", spec, n, status, error.text);
        assert_true(n < CALLS || x[0] == (float)SUM_OF_PARTS);
        assert_true(!r.d || !r.d->running);
        tear_down(&r);
        assert_int_equal(mem_live(), before);
    }
}

static void calls_fail(void **state)
{
    (void)state;
    on_every_device(every_call_fails_once);
}

static void every_allocation_fails_once(const char *spec)
{
    static float x[COLUMNS];
    long before = mem_live(), n = 0;
    for (hearth_status status = HEARTH_NO_MEMORY; status != HEARTH_OK; n++) {
        rig r;
        hearth_error error = {0};
        mem_fail_at(n);
        status = set_up(&r, spec, &error);
        if (status == HEARTH_OK)
            status = run(&r, x, &error);
        mem_fail_at(-1);
        if (status != HEARTH_OK && (status != HEARTH_NO_MEMORY || !strstr(error.text, "memory")))
            fail_msg("%s: allocation %ld: status %d, '%s'", spec, n, status, error.text);
        tear_down(&r);
        assert_int_equal(mem_live(), before);
    }
    assert_true(n > 10);
}

static void allocations_fail(void **state)
{
    (void)state;
    on_every_device(every_allocation_fails_once);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(parts_add_up), cmocka_unit_test(copies_run_ahead), cmocka_unit_test(abandoning),
        cmocka_unit_test(calls_fail),   cmocka_unit_test(allocations_fail),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
