/* What goes wrong with a device: no memory, calls that fail, a CPU that gives up, a device that does not get on. Never
 * a hang, never a leak, never a wrong result; and later calls say what happened. */
#include "../src/base/clock.h"
#include "../src/base/memory.h"
#include "../src/device/driver.h"
#include "host_only.h"

#include <setjmp.h>
#include <stdarg.h>
#include <string.h>
#include <time.h>

#include <cmocka.h>

enum { SLOTS = 3, COLUMNS = 4, ROW = COLUMNS * sizeof(float) };

/* A device that adds up what the CPU answers: x += answer, in every slot. */
typedef struct rig {
    device *d;
    device_buffer *step, *x, *answer, *sent, *received;
    device_program *program;
} rig;

static void record(rig *r)
{
    device_program *p = r->program;
    const device_argument arguments[] = {BUFFER(r->step), NO_BUFFER, NO_BUFFER,        BUFFER(r->answer), BUFFER(r->x),
                                         UINT(COLUMNS),   UINT(0),   UINT(FINISH_ADD), FLOAT(1)};
    device_stamp(p, 0);
    for (unsigned i = 0; i < SLOTS; i++) {
        device_copy(p, r->received, i * ROW, r->x, 0, ROW);
        device_publish(p, i);
        device_await(p, i);
        device_copy(p, r->answer, 0, r->sent, i * ROW, ROW);
        device_launch(p, DEVICE_reduce, STEP_ROWS, arguments, 9);
    }
}

static hearth_status set_up(rig *r, const char *spec, hearth_error *error)
{
    static const char what[] = "a test";
    *r = (rig){0};
    TRY(device_open(&r->d, spec, NULL, error));
    TRY(device_buffer_create(&r->step, r->d, DEVICE_MEMORY, sizeof(step_record), what, error));
    TRY(device_buffer_create(&r->x, r->d, DEVICE_MEMORY, STEP_ROWS * ROW, what, error));
    TRY(device_buffer_create(&r->answer, r->d, DEVICE_MEMORY, STEP_ROWS * ROW, what, error));
    TRY(device_buffer_create(&r->sent, r->d, DEVICE_PINNED, SLOTS * ROW, what, error));
    TRY(device_buffer_create(&r->received, r->d, DEVICE_PINNED, SLOTS * ROW, what, error));
    step_record step = {.count = 1};
    TRY(device_write(r->step, 0, &step, sizeof step, error));
    TRY(device_program_create(&r->program, r->d, SLOTS, 1, error));
    record(r);
    return device_program_seal(r->program, error);
}

static void tear_down(rig *r)
{
    device_program_destroy(r->program);
    device_buffer_destroy(r->step);
    device_buffer_destroy(r->x);
    device_buffer_destroy(r->answer);
    device_buffer_destroy(r->sent);
    device_buffer_destroy(r->received);
    device_close(r->d);
}

static void answer(rig *r, unsigned slot, float value)
{
    float *sent = device_buffer_host(r->sent);
    for (unsigned c = 0; c < COLUMNS; c++)
        sent[slot * COLUMNS + c] = value;
    device_answer(r->program, slot);
}

/* A run that answers 1, 2, 3, and then one look at x. */
static hearth_status run(rig *r, float *x, hearth_error *error)
{
    TRY(device_start(r->program, error));
    for (unsigned i = 0; i < SLOTS; i++) {
        TRY(device_await_published(r->program, i, error));
        answer(r, i, (float)(i + 1));
    }
    TRY(device_finish(r->program, error));
    return device_read(r->x, 0, x, sizeof *x, error);
}

static void set_up_well(rig *r, const char *spec)
{
    hearth_error error;
    if (set_up(r, spec, &error) != HEARTH_OK)
        fail_msg("%s", error.text);
}

static void run_well(rig *r, float expected)
{
    hearth_error error;
    float x = 0;
    if (run(r, &x, &error) != HEARTH_OK)
        fail_msg("%s", error.text);
    assert_true(x == expected);
}

/* Every device that works here, and the host with threads. */
static void on_every_device(void (*test)(const char *spec))
{
    static device_found found[16];
    size_t count = device_list(found, 16, NULL);
    for (size_t i = 0; i < count && i < 16; i++) {
        if (found[i].usable && (!host_only || strcmp(found[i].spec, "host") == 0))
            test(found[i].spec);
    }
    test("host,threads=2");
}

static void every_allocation_fails_once(const char *spec)
{
    long before = mem_live(), n = 0;
    for (hearth_status status = HEARTH_NO_MEMORY; status != HEARTH_OK; n++) {
        rig r;
        hearth_error error = {0};
        float x = 0;
        mem_fail_at(n);
        status = set_up(&r, spec, &error);
        if (status == HEARTH_OK)
            status = run(&r, &x, &error);
        mem_fail_at(-1);
        if (status == HEARTH_OK)
            assert_true(x == 6);
        else if (status != HEARTH_NO_MEMORY || !strstr(error.text, "memory"))
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

/* After a program failed everything says so; before that, only the call itself. */
static void check_after_failure(rig *r, bool ran)
{
    hearth_error error = {0};
    device_buffer *b = NULL;
    device_program *p = NULL;
    if (!ran) {
        if (r->d && device_buffer_create(&b, r->d, DEVICE_MEMORY, 1, "b", &error) == HEARTH_OK)
            device_buffer_destroy(b);
        assert_string_equal(error.text, "");
        return;
    }
    assert_true(r->d->lost && !r->d->running);
    assert_int_equal(device_buffer_create(&b, r->d, DEVICE_MEMORY, 1, "b", &error), HEARTH_DEVICE);
    assert_non_null(strstr(error.text, "lost"));
    assert_int_equal(device_read(r->x, 0, &(float){0}, sizeof(float), NULL), HEARTH_DEVICE);
    assert_int_equal(device_write(r->x, 0, &(float){0}, sizeof(float), NULL), HEARTH_DEVICE);
    assert_int_equal(device_move(r->x, 0, r->answer, 0, 4, NULL), HEARTH_DEVICE);
    assert_int_equal(device_program_create(&p, r->d, 1, 1, NULL), HEARTH_DEVICE);
    assert_int_equal(device_start(r->program, NULL), HEARTH_DEVICE);
    assert_int_equal(device_await_published(r->program, 0, NULL), HEARTH_DEVICE);
    device_answer(r->program, 0);
    assert_int_equal(device_finish(r->program, NULL), HEARTH_DEVICE);
    device_abandon(r->program);
}

static void every_call_fails_once(const char *spec)
{
    /* Opening, five buffers, a write, sealing; starting, a stamp, five commands of each slot; reading. */
    enum { BEFORE_RUN = 8, IN_RUN = 2 + 5 * SLOTS, CALLS = BEFORE_RUN + IN_RUN + 1 };
    long before = mem_live();
    for (long n = 0; n <= CALLS; n++) {
        rig r;
        hearth_error error = {0};
        float x = 0;
        device_fail_at(n);
        hearth_status status = set_up(&r, spec, &error);
        assert_int_equal(status, n < BEFORE_RUN ? HEARTH_DEVICE : HEARTH_OK);
        if (status == HEARTH_OK)
            status = run(&r, &x, &error);
        device_fail_at(-1);
        if (status != (n < CALLS ? HEARTH_DEVICE : HEARTH_OK) || (n < CALLS && !strstr(error.text, "injected")))
            fail_msg("%s: call %ld: status %d, '%s'", spec, n, status, error.text);
        if (n == CALLS)
            assert_true(x == 6);
        check_after_failure(&r, n >= BEFORE_RUN && n < BEFORE_RUN + IN_RUN);
        tear_down(&r);
        assert_int_equal(mem_live(), before);
    }
}

static void calls_fail(void **state)
{
    (void)state;
    on_every_device(every_call_fails_once);
}

static void clear_x(rig *r)
{
    float zero[COLUMNS] = {0};
    assert_int_equal(device_write(r->x, 0, zero, sizeof zero, NULL), HEARTH_OK);
}

/* A CPU that gives up when it has seen so many slots and answered so many; the device is as good as before. */
static void abandon_at(rig *r, unsigned seen, unsigned answered)
{
    assert_int_equal(device_start(r->program, NULL), HEARTH_OK);
    for (unsigned i = 0; i < seen; i++) {
        assert_int_equal(device_await_published(r->program, i, NULL), HEARTH_OK);
        if (i < answered)
            answer(r, i, 0);
    }
    device_abandon(r->program);
    assert_true(!r->d->running && !r->d->lost);
    clear_x(r);
    run_well(r, 6);
    clear_x(r);
}

static void abandon_everywhere(const char *spec)
{
    long before = mem_live();
    rig r;
    set_up_well(&r, spec);
    for (unsigned answered = 0; answered <= SLOTS; answered++) {
        abandon_at(&r, answered, answered);
        if (answered < SLOTS)
            abandon_at(&r, answered + 1, answered);
    }
    /* Destroying abandons. */
    assert_int_equal(device_start(r.program, NULL), HEARTH_OK);
    tear_down(&r);
    assert_int_equal(mem_live(), before);
}

static void abandoned_in_the_middle(void **state)
{
    (void)state;
    on_every_device(abandon_everywhere);
}

/* Even an abandoned program may fail on its way to its end. */
static void abandoned_and_failing(void **state)
{
    (void)state;
    rig r;
    set_up_well(&r, "host");
    assert_int_equal(device_start(r.program, NULL), HEARTH_OK);
    assert_int_equal(device_await_published(r.program, 0, NULL), HEARTH_OK);
    device_fail_at(1); /* the await is under way or will be; what follows fails */
    device_abandon(r.program);
    device_fail_at(-1);
    check_after_failure(&r, true);
    tear_down(&r);
}

static void one_program_at_a_time(void **state)
{
    (void)state;
    rig r;
    set_up_well(&r, "host");
    device_program *other;
    hearth_error error;
    assert_int_equal(device_program_create(&other, r.d, 0, 0, NULL), HEARTH_OK);
    assert_int_equal(device_program_seal(other, NULL), HEARTH_OK);
    assert_int_equal(device_finish(r.program, &error), HEARTH_INVALID);
    assert_int_equal(device_await_published(r.program, 0, &error), HEARTH_INVALID);
    assert_int_equal(device_start(r.program, NULL), HEARTH_OK);
    assert_int_equal(device_start(other, &error), HEARTH_INVALID);
    assert_non_null(strstr(error.text, "runs already"));
    device_abandon(other); /* does not run: nothing happens */
    assert_int_equal(device_await_published(r.program, 0, NULL), HEARTH_OK);
    device_abandon(r.program);
    assert_int_equal(device_start(other, NULL), HEARTH_OK);
    assert_int_equal(device_finish(other, NULL), HEARTH_OK);
    run_well(&r, 6); /* x was 0: nothing had been answered but zeros */
    device_program_destroy(other);
    tear_down(&r);
}

/* The device waits for an answer that does not come. */
static void wait_too_long(const char *spec, bool for_slot)
{
    long before = mem_live();
    rig r;
    hearth_error error = {0};
    set_up_well(&r, spec);
    r.d->patience_seconds = 0.05;
    assert_int_equal(device_start(r.program, NULL), HEARTH_OK);
    double begin = clock_seconds();
    hearth_status status = for_slot ? device_await_published(r.program, 1, &error) : device_finish(r.program, &error);
    double seconds = clock_seconds() - begin;
    assert_int_equal(status, HEARTH_DEVICE);
    assert_non_null(strstr(error.text, "within"));
    assert_true(seconds >= 0.05 && seconds < 5);
    check_after_failure(&r, true);
    tear_down(&r);
    assert_int_equal(mem_live(), before);
}

static void patience_ends_on(const char *spec)
{
    wait_too_long(spec, true);
    wait_too_long(spec, false);
}

static void patience_ends(void **state)
{
    (void)state;
    on_every_device(patience_ends_on);
}

static hearth_status never_done(device_program *p, bool *out, hearth_error *error)
{
    (void)p;
    (void)error;
    *out = false;
    return HEARTH_OK;
}

/* What does not even end when every await is answered keeps all that it may still touch. */
static void a_device_that_hangs_is_left_alone(void **state)
{
    (void)state;
    rig r;
    set_up_well(&r, "host");
    const driver *host = r.d->driver;
    driver hanging = *host;
    hanging.done = never_done;
    r.d->driver = &hanging;
    r.d->patience_seconds = 0.02;
    assert_int_equal(device_start(r.program, NULL), HEARTH_OK);
    double begin = clock_seconds();
    assert_int_equal(device_finish(r.program, NULL), HEARTH_DEVICE);
    assert_true(r.d->lost && r.d->running == r.program);
    long before = mem_live();
    tear_down(&r);
    assert_true(clock_seconds() - begin < 5);
    assert_int_equal(mem_live(), before);
    /* This one does end, and may be waited for after all. */
    r.d->driver = host;
    r.d->lost = false;
    r.d->patience_seconds = DEVICE_PATIENCE_SECONDS;
    tear_down(&r);
    assert_true(mem_live() < before);
}

/* The CPU may take its time, as long as the device does not. (It has a second, for a machine with much else to do.) */
static void patience_is_for_the_device(void **state)
{
    (void)state;
    rig r;
    set_up_well(&r, "host");
    r.d->patience_seconds = 1;
    struct timespec rest = {1, 200000000};
    assert_int_equal(device_start(r.program, NULL), HEARTH_OK);
    for (unsigned i = 0; i < SLOTS; i++) {
        assert_int_equal(device_await_published(r.program, i, NULL), HEARTH_OK);
        nanosleep(&rest, NULL);
        answer(&r, i, 1);
    }
    nanosleep(&rest, NULL);
    assert_int_equal(device_finish(r.program, NULL), HEARTH_OK);
    run_well(&r, 3 + 6);
    tear_down(&r);
}

/* A call to the driver that takes half a second stands for a process that was stopped (Ctrl-Z, a debugger). */
static unsigned calls_until_stopped;
static const driver *driver_that_stops;

static bool was_stopped(bool *out)
{
    struct timespec rest = {0, 500000000};
    if (calls_until_stopped == 0)
        return false;
    if (--calls_until_stopped == 0)
        nanosleep(&rest, NULL);
    *out = false;
    return true;
}

static hearth_status published_late(device_program *p, unsigned slot, bool *out, hearth_error *error)
{
    return was_stopped(out) ? HEARTH_OK : driver_that_stops->published(p, slot, out, error);
}

static hearth_status done_late(device_program *p, bool *out, hearth_error *error)
{
    return was_stopped(out) ? HEARTH_OK : driver_that_stops->done(p, out, error);
}

/* It wakes up with its patience gone by the clock, but the device has been done for long. */
static void stopped_for_a_while(double patience_seconds)
{
    rig r;
    set_up_well(&r, "host");
    driver_that_stops = r.d->driver;
    driver late = *driver_that_stops;
    late.published = published_late;
    late.done = done_late;
    r.d->driver = &late;
    r.d->patience_seconds = patience_seconds;
    assert_int_equal(device_start(r.program, NULL), HEARTH_OK);
    for (unsigned i = 0; i < SLOTS; i++) {
        calls_until_stopped = i == 1 ? 2 : 0;
        r.d->eager_seconds = 0; /* so that every step looks at the clock */
        assert_int_equal(device_await_published(r.program, i, NULL), HEARTH_OK);
        answer(&r, i, 1);
    }
    calls_until_stopped = 2;
    r.d->eager_seconds = 0;
    assert_int_equal(device_finish(r.program, NULL), HEARTH_OK);
    assert_int_equal(calls_until_stopped, 0);
    assert_int_equal(device_start(r.program, NULL), HEARTH_OK);
    calls_until_stopped = 2;
    device_abandon(r.program);
    assert_true(!r.d->lost && !r.d->running);
    r.d->driver = driver_that_stops;
    tear_down(&r);
}

static void a_stopped_process_loses_nothing(void **state)
{
    (void)state;
    stopped_for_a_while(0.4);  /* more than a step counts */
    stopped_for_a_while(0.05); /* less: it is asked once more */
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(allocations_fail),
        cmocka_unit_test(calls_fail),
        cmocka_unit_test(abandoned_in_the_middle),
        cmocka_unit_test(abandoned_and_failing),
        cmocka_unit_test(one_program_at_a_time),
        cmocka_unit_test(patience_ends),
        cmocka_unit_test(a_device_that_hangs_is_left_alone),
        cmocka_unit_test(patience_is_for_the_device),
        cmocka_unit_test(a_stopped_process_loses_nothing),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
