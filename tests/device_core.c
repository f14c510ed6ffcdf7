/* Devices above their drivers: specs, budgets, copies, programs and the exchange, on every device that is here. */
#include "../src/base/clock.h"
#include "../src/base/file.h"
#include "../src/base/memory.h"
#include "../src/device/driver.h"
#include "../src/device/measure.h"
#include "host_only.h"

#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include <cmocka.h>

enum { MOST_DEVICES = 16 };

static device *open_device(const char *spec)
{
    hearth_error error = {0};
    device *d = NULL;
    if (device_open(&d, spec, NULL, &error) != HEARTH_OK)
        fail_msg("%s", error.text);
    return d;
}

/* Every device that works here, and the host with threads. */
static void on_every_device(void (*test)(const char *spec))
{
    static device_found found[MOST_DEVICES];
    size_t count = device_list(found, MOST_DEVICES, NULL);
    for (size_t i = 0; i < count && i < MOST_DEVICES; i++) {
        if (found[i].usable && (!host_only || strcmp(found[i].spec, "host") == 0))
            test(found[i].spec);
    }
    test("host,threads=3");
}

static device_buffer *new_buffer(device *d, device_place place, size_t size)
{
    device_buffer *b;
    hearth_error error;
    if (device_buffer_create(&b, d, place, size, "a test", &error) != HEARTH_OK)
        fail_msg("%s", error.text);
    return b;
}

static void ok(hearth_status status, const hearth_error *error)
{
    if (status != HEARTH_OK)
        fail_msg("%s", error->text);
}

/* ------------------------------------------------------------------ which there are */

static void specs_are_strict(void **state)
{
    (void)state;
    static const struct {
        const char *spec;
        hearth_status status;
        const char *says;
    } cases[] = {
        {"", HEARTH_INVALID, "unknown driver"},
        {"hots", HEARTH_INVALID, "hots"},
        {"host2", HEARTH_INVALID, "host2"},
        {"host:", HEARTH_INVALID, "number of a device"},
        {"host:x", HEARTH_INVALID, "'x'"},
        {"host:-1", HEARTH_INVALID, "'-1'"},
        {"host:99999999999999999999", HEARTH_INVALID, "number of a device"},
        {"host:1", HEARTH_DEVICE, "host:1"},
        {"host,", HEARTH_INVALID, "''"},
        {"host,size=1", HEARTH_INVALID, "'size'"},
        {"host,memory", HEARTH_INVALID, "memory"},
        {"host,memory=", HEARTH_INVALID, "memory"},
        {"host,memory=M", HEARTH_INVALID, "'M'"},
        {"host,memory=0", HEARTH_INVALID, "'0'"},
        {"host,memory=1m", HEARTH_INVALID, "'1m'"},
        {"host,memory=1MM", HEARTH_INVALID, "'1MM'"},
        {"host,memory= 1M", HEARTH_INVALID, "' 1M'"},
        {"host,memory=-1", HEARTH_INVALID, "'-1'"},
        {"host,memory=18446744073709551616", HEARTH_INVALID, "memory"},
        {"host,memory=18446744073709551615K", HEARTH_INVALID, "memory"},
        {"host,memory=1M,memory=1M", HEARTH_INVALID, "twice"},
        {"host,memory=9999999G", HEARTH_INVALID, "10.0 PB asked for, this machine has "},
        {"host,threads=0", HEARTH_INVALID, "threads"},
        {"host,threads=5000", HEARTH_INVALID, "4096"},
        {"host,group=2", HEARTH_INVALID, "group"},
        {"host,group=4294967297", HEARTH_INVALID, "group"},
        {"host,speed=0", HEARTH_INVALID, "speed"},
        {"host,speed=1.5", HEARTH_INVALID, "speed"},
        {"host,speed=nan", HEARTH_INVALID, "speed"},
        {"host,speed=0x1p-1", HEARTH_INVALID, "speed"},
        {"host,speed=.", HEARTH_INVALID, "speed"},
        {"host,exchange=memory", HEARTH_INVALID, "only for cuda"},
        {"cuda,threads=2", HEARTH_INVALID, "only for host"},
        {"cuda,exchange=magic", HEARTH_INVALID, "events"},
        {"host,times=", HEARTH_INVALID, "the name of a file"},
        {"opencl,speed=0.5", HEARTH_INVALID, "only for host"},
        {"opencl:1000", HEARTH_DEVICE, "opencl"},
        {"cuda:1000", HEARTH_DEVICE, "cuda"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        hearth_error error = {0};
        device *d = NULL;
        hearth_status status = device_open(&d, cases[i].spec, NULL, &error);
        if (status != cases[i].status || !strstr(error.text, cases[i].says))
            fail_msg("%s: status %d, '%s'", cases[i].spec, status, error.text);
    }
}

static void specs_are_obeyed(void **state)
{
    (void)state;
    static const struct {
        const char *spec;
        uint64_t budget_bytes;
        unsigned units;
    } cases[] = {
        {"host,memory=1", 1, 1},
        {"host:0,memory=12K", 12000, 1},
        {"host,threads=2,memory=34M,speed=0.5", 34000000, 2},
        {"host,memory=2G,group=1,threads=1,speed=1", 2000000000, 1},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        device *d = open_device(cases[i].spec);
        device_info info;
        device_describe(d, &info);
        assert_int_equal(info.budget_bytes, cases[i].budget_bytes);
        assert_int_equal(info.units, cases[i].units);
        device_close(d);
    }
    device *d = open_device("host");
    device_info info;
    device_describe(d, &info);
    assert_string_equal(info.driver, "host");
    assert_int_equal(info.budget_bytes, info.memory_bytes / 4);
    assert_true(info.name[0] && info.kernels[0] && info.exchange[0]);
    device_close(d);
}

static void the_list_says_what_is_wrong(void **state)
{
    (void)state;
    static device_found found[MOST_DEVICES];
    size_t count = device_list(found, MOST_DEVICES, NULL);
    assert_true(count >= 3); /* a row of each driver at least */
    assert_int_equal(device_list(NULL, 0, NULL), count);
    assert_string_equal(found[0].spec, "host");
    assert_true(found[0].usable);
    for (size_t i = 0; i < count && i < MOST_DEVICES; i++) {
        assert_true(found[i].usable == (found[i].problem[0] == 0));
        device *d = NULL;
        if (host_only && i > 0)
            continue;
        hearth_status status = device_open(&d, found[i].spec, NULL, NULL);
        if (found[i].usable)
            assert_int_equal(status, HEARTH_OK);
        else
            assert_int_equal(status, HEARTH_DEVICE);
        if (status == HEARTH_OK)
            device_close(d);
    }
}

/* ------------------------------------------------------------------ memory */

static void check_used(const device *d, uint64_t used, uint64_t peak, uint64_t pinned)
{
    device_info info;
    device_describe(d, &info);
    assert_int_equal(info.used_bytes, used);
    assert_int_equal(info.peak_bytes, peak);
    assert_int_equal(info.pinned_bytes, pinned);
}

static void budgets_hold_to_the_byte(void **state)
{
    (void)state;
    device *d = open_device("host,memory=64M");
    device_buffer *a = new_buffer(d, DEVICE_MEMORY, 52000000), *refused = NULL;
    hearth_error error;
    assert_int_equal(device_buffer_create(&refused, d, DEVICE_MEMORY, 12000001, "blk.3 gate", &error),
                     HEARTH_NO_MEMORY);
    assert_string_equal(error.text, "host: blk.3 gate: 12.0 MB wanted, 12.0 MB of the budget of 64.0 MB left");
    check_used(d, 52000000, 52000000, 0);
    device_buffer *b = new_buffer(d, DEVICE_MEMORY, 12000000);
    check_used(d, 64000000, 64000000, 0);
    assert_int_equal(device_buffer_create(&refused, d, DEVICE_MEMORY, 1, "one", &error), HEARTH_NO_MEMORY);
    assert_string_equal(error.text, "host: one: 1 bytes wanted, 0 bytes of the budget of 64.0 MB left");
    assert_int_equal(device_buffer_create(&refused, d, DEVICE_MEMORY, SIZE_MAX, "all", &error), HEARTH_NO_MEMORY);
    device_buffer *empty = new_buffer(d, DEVICE_MEMORY, 0), *pinned = new_buffer(d, DEVICE_PINNED, 5000);
    check_used(d, 64000000, 64000000, 5000);
    assert_null(device_buffer_host(a));
    assert_non_null(device_buffer_host(pinned));
    assert_int_equal(device_buffer_bytes(empty), 0);
    device_buffer_destroy(a);
    check_used(d, 12000000, 64000000, 5000);
    device_buffer_destroy(pinned);
    device_buffer_destroy(b);
    device_buffer_destroy(empty);
    check_used(d, 0, 64000000, 0);
    device_close(d);
}

static void memory_is_zeroed_and_keeps(const char *spec)
{
    device *d = open_device(spec);
    static const size_t sizes[] = {0, 1, 17, 4096, 5 << 20};
    for (size_t s = 0; s < sizeof sizes / sizeof *sizes; s++) {
        size_t size = sizes[s];
        device_buffer *a = new_buffer(d, DEVICE_MEMORY, size), *b = new_buffer(d, DEVICE_PINNED, size);
        unsigned char *want = malloc(size + 1), *got = malloc(size + 1);
        hearth_error error;
        ok(device_read(a, 0, got, size, &error), &error);
        memset(want, 0, size);
        assert_memory_equal(got, want, size);
        for (size_t i = 0; i < size; i++)
            want[i] = (unsigned char)(i * 131 + s);
        size_t half = size / 2;
        ok(device_write(a, half, want + half, size - half, &error), &error);
        ok(device_write(a, 0, want, half, &error), &error);
        ok(device_move(b, 0, a, 0, size, &error), &error);
        if (size > 0)
            assert_memory_equal(device_buffer_host(b), want, size);
        ok(device_move(a, 0, b, half, size - half, &error), &error);
        ok(device_read(a, 0, got, size - half, &error), &error);
        assert_memory_equal(got, want + half, size - half);
        free(want);
        free(got);
        device_buffer_destroy(a);
        device_buffer_destroy(b);
    }
    device_close(d);
}

/* More writes, of all short sizes, than a driver sets aside, each from the same few bytes, which change right after it. */
static void short_writes_arrive(const char *spec)
{
    enum { PIECE = 3001, SIZE = 3 << 20 };
    device *d = open_device(spec);
    device_buffer *b = new_buffer(d, DEVICE_MEMORY, SIZE);
    unsigned char *want = malloc(SIZE), *got = malloc(SIZE), piece[PIECE];
    hearth_error error;
    size_t written = 0;
    for (size_t i = 0; i < SIZE; i++)
        want[i] = (unsigned char)(i * i / 97);
    for (size_t n = 1; written < SIZE; written += n) {
        n = (n * 7 + 3) % PIECE + 1;
        n = n < SIZE - written ? n : SIZE - written;
        memcpy(piece, want + written, n);
        ok(device_write(b, written, piece, n, &error), &error);
        memset(piece, 0xee, n);
    }
    ok(device_read(b, 0, got, SIZE, &error), &error);
    assert_memory_equal(got, want, SIZE);
    ok(device_write(b, 0, piece, PIECE, &error), &error); /* and the buffer ends at once */
    free(want);
    free(got);
    device_buffer_destroy(b);
    device_close(d);
}

static void memory_on_every_device(void **state)
{
    (void)state;
    on_every_device(memory_is_zeroed_and_keeps);
    on_every_device(short_writes_arrive);
}

/* ------------------------------------------------------------------ the exchange */

enum { COLUMNS = 8 };

/* What adds on the device what the CPU answers: x += answer. */
typedef struct adder {
    device *d;
    device_buffer *step, *x, *answer; /* of the device   */
    device_buffer *sent, *received;   /* pinned, [slots] */
    device_program *program;
    unsigned slots;
} adder;

static void launch_reduce(adder *a)
{
    const device_argument arguments[] = {BUFFER(a->step), NO_BUFFER, NO_BUFFER,        BUFFER(a->answer), BUFFER(a->x),
                                         UINT(COLUMNS),   UINT(0),   UINT(FINISH_ADD), FLOAT(1)};
    device_launch(a->program, DEVICE_reduce, STEP_ROWS * items_of(COLUMNS, REDUCE_COLUMNS_ITEM), arguments, 9);
}

static void open_adder(adder *a, const char *spec, unsigned slots)
{
    enum { ROW = COLUMNS * sizeof(float) };
    hearth_error error;
    *a = (adder){.d = open_device(spec), .slots = slots};
    a->step = new_buffer(a->d, DEVICE_MEMORY, sizeof(step_record));
    a->x = new_buffer(a->d, DEVICE_MEMORY, STEP_ROWS * ROW);
    a->answer = new_buffer(a->d, DEVICE_MEMORY, STEP_ROWS * ROW);
    a->sent = new_buffer(a->d, DEVICE_PINNED, slots * ROW);
    a->received = new_buffer(a->d, DEVICE_PINNED, slots * ROW);
    step_record step = {.count = 1};
    ok(device_write(a->step, 0, &step, sizeof step, &error), &error);
    ok(device_program_create(&a->program, a->d, slots, 2, &error), &error);
    device_stamp(a->program, 0);
    for (unsigned i = 0; i < slots; i++) {
        device_copy(a->program, a->received, i * ROW, a->x, 0, ROW);
        device_publish(a->program, i);
        device_await(a->program, i);
        device_copy(a->program, a->answer, 0, a->sent, i * ROW, ROW);
        launch_reduce(a);
    }
    device_stamp(a->program, 1);
    ok(device_program_seal(a->program, &error), &error);
}

static void close_adder(adder *a)
{
    device_program_destroy(a->program);
    device_buffer *const buffers[] = {a->step, a->x, a->answer, a->sent, a->received};
    for (size_t i = 0; i < sizeof buffers / sizeof *buffers; i++)
        device_buffer_destroy(buffers[i]);
    device_close(a->d);
}

/* One run: what the device has must be `before` at its beginning; the CPU answers i in slot i. Returns what it has
 * then. Sums of integers below 2^24, so float32 is exact. */
static float run_adder(adder *a, float before)
{
    hearth_error error;
    float *sent = device_buffer_host(a->sent);
    const float *received = device_buffer_host(a->received);
    ok(device_start(a->program, &error), &error);
    for (unsigned i = 0; i < a->slots; i++) {
        ok(device_await_published(a->program, i, &error), &error);
        for (unsigned c = 0; c < COLUMNS; c++) {
            if (received[i * COLUMNS + c] != before * (float)(c + 1))
                fail_msg("slot %u column %u: %g, expected %g", i, c, (double)received[i * COLUMNS + c],
                         (double)(before * (float)(c + 1)));
            sent[i * COLUMNS + c] = (float)(i * (c + 1));
        }
        before += (float)i;
        device_answer(a->program, i);
    }
    ok(device_finish(a->program, &error), &error);
    return before;
}

/* ------------------------------------------------------------------ times */

/* Every command of a program is in the file, with what comes from the program: runs, amounts, counts. */
static void times_are_written(const char *spec)
{
    enum { RUNS = 2, EXCHANGES = 3 };
    static const struct {
        const char *name;
        size_t amount, count;
    } rows[] = {{"stamp", 0, 2},
                {"copy and publish", COLUMNS * sizeof(float), EXCHANGES},
                {"await and copy", COLUMNS * sizeof(float), EXCHANGES},
                {"reduce", STEP_ROWS, EXCHANGES}};
    _Static_assert(COLUMNS <= REDUCE_COLUMNS_ITEM, "an item a row");
    char path[] = "times-XXXXXX", timed[128], line[256] = "";
    int made = mkstemp(path);
    assert_true(made >= 0);
    close(made);
    snprintf(timed, sizeof timed, "%.60s,times=%s", spec, path);
    adder a;
    open_adder(&a, timed, EXCHANGES);
    float x = 0;
    for (unsigned run = 0; run < RUNS; run++)
        x = run_adder(&a, x);
    close_adder(&a);
    FILE *f = fopen(path, "r");
    assert_non_null(f);
    assert_non_null(fgets(line, sizeof line, f));
    assert_string_equal(line, "program,runs,commands,command,items_or_bytes,count,mean_us,of_a_run_us\n");
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        unsigned program, runs;
        size_t commands, amount, count;
        char name[64];
        double mean, all;
        assert_non_null(fgets(line, sizeof line, f));
        if (sscanf(line, "%u,%u,%zu,%63[^,],%zu,%zu,%lf,%lf", &program, &runs, &commands, name, &amount, &count, &mean,
                   &all) != 8)
            fail_msg("%s: %s", spec, line);
        assert_string_equal(name, rows[i].name);
        assert_int_equal(amount, rows[i].amount);
        assert_int_equal(count, rows[i].count);
        assert_true(program == 0 && runs == RUNS && commands == 2 + 3 * EXCHANGES);
        if (!(fabs(all - mean * (double)count) <= 0.06 + 0.001 * (double)count)) /* as they are rounded */
            fail_msg("%s: %s", spec, line);
    }
    assert_null(fgets(line, sizeof line, f));
    fclose(f);
    remove(path);
}

static void times_on_every_device(void **state)
{
    (void)state;
    on_every_device(times_are_written);
    hearth_error error = {0};
    device *d = NULL;
    assert_int_equal(device_open(&d, "host,times=/no/such/folder/times", NULL, &error), HEARTH_IO);
    assert_string_equal(error.text, "/no/such/folder/times: cannot create: No such file or directory");
    /* A disk that is full when the device is closed: no file, rather than a part of one. */
    char path[] = "times-XXXXXX", timed[64];
    int made = mkstemp(path);
    assert_true(made >= 0);
    close(made);
    remove(path);
    snprintf(timed, sizeof timed, "host,times=%s", path);
    d = open_device(timed);
    file_fail_at(0);
    device_close(d);
    file_fail_at(-1);
    assert_int_not_equal(access(path, F_OK), 0);
    device_close(open_device(timed));
    assert_int_equal(access(path, F_OK), 0);
    remove(path);
}

static void ping_pong(const char *spec)
{
    adder a;
    open_adder(&a, spec, 500);
    float x = 0;
    double begin = clock_seconds();
    for (unsigned run = 0; run < 2; run++)
        x = run_adder(&a, x);
    print_message("%s: %.1f us per exchange with two copies and a kernel\n", spec,
                  1e6 * (clock_seconds() - begin) / 1000);
    float got[COLUMNS];
    hearth_error error;
    ok(device_read(a.x, 0, got, sizeof got, &error), &error);
    for (unsigned c = 0; c < COLUMNS; c++)
        assert_true(got[c] == (float)(2 * 124750 * (c + 1))); /* 0 + 1 + ... + 499 = 124750 */
    close_adder(&a);
}

static void a_thousand_exchanges(void **state)
{
    (void)state;
    on_every_device(ping_pong);
}

/* Answers may come before the device gets to the await, even before anything is published. */
static void answers_come_early(const char *spec)
{
    adder a;
    open_adder(&a, spec, 3);
    hearth_error error;
    for (unsigned run = 1; run <= 20; run++) {
        float *sent = device_buffer_host(a.sent), got[COLUMNS];
        for (unsigned i = 0; i < 3 * COLUMNS; i++)
            sent[i] = 1;
        ok(device_start(a.program, &error), &error);
        for (unsigned i = 0; i < 3; i++)
            device_answer(a.program, i);
        ok(device_finish(a.program, &error), &error);
        ok(device_read(a.x, 0, got, sizeof got, &error), &error);
        assert_true(got[0] == (float)(3 * run) && got[COLUMNS - 1] == (float)(3 * run));
    }
    close_adder(&a);
}

static void early_answers_on_every_device(void **state)
{
    (void)state;
    on_every_device(answers_come_early);
}

static void stamps_ascend(const char *spec)
{
    enum { STAMPS = 20 };
    device *d = open_device(spec);
    device_buffer *from = new_buffer(d, DEVICE_MEMORY, 1 << 20), *to = new_buffer(d, DEVICE_PINNED, 1 << 20);
    device_program *p;
    hearth_error error;
    ok(device_program_create(&p, d, 0, STAMPS, &error), &error);
    for (unsigned i = 0; i < STAMPS; i++) {
        device_stamp(p, i);
        device_copy(p, to, 0, from, 0, 1 << 20);
    }
    ok(device_program_seal(p, &error), &error);
    /* A device with a clock of its own has it set by ours; a millisecond is what that may cost. */
    double off = strncmp(spec, "host", 4) == 0 ? 0 : 1e-3;
    for (unsigned run = 0; run < 5; run++) {
        double begin = clock_seconds();
        ok(device_start(p, &error), &error);
        ok(device_finish(p, &error), &error);
        double end = clock_seconds(), before = begin - off;
        for (unsigned i = 0; i < STAMPS; i++) {
            double at = device_stamp_seconds(p, i);
            if (at < before || at > end + off)
                fail_msg("%s: stamp %u is %g s after the start of %g s, the one before %g", spec, i, at - begin,
                         end - begin, before - begin);
            before = at;
        }
    }
    device_program_destroy(p);
    device_buffer_destroy(from);
    device_buffer_destroy(to);
    device_close(d);
}

static void stamps_on_every_device(void **state)
{
    (void)state;
    on_every_device(stamps_ascend);
}

/* Every item once, however many threads share them: sums of words are known. */
static void read_sums_every_item(const char *spec)
{
    enum { ITEMS = 37, WORDS = READ_BYTES / 4 };
    device *d = open_device(spec);
    device_buffer *data = new_buffer(d, DEVICE_MEMORY, ITEMS * READ_BYTES);
    device_buffer *sums = new_buffer(d, DEVICE_MEMORY, ITEMS * 4), *step = new_buffer(d, DEVICE_MEMORY, 128);
    uint32_t *words = malloc(ITEMS * READ_BYTES), want[ITEMS] = {0}, got[ITEMS];
    for (uint32_t i = 0; i < ITEMS * WORDS; i++) {
        words[i] = i * 2654435761u;
        want[i / WORDS] += words[i];
    }
    hearth_error error;
    ok(device_write(data, 0, words, ITEMS * READ_BYTES, &error), &error);
    free(words);
    device_program *p;
    ok(device_program_create(&p, d, 0, 0, &error), &error);
    const device_argument arguments[] = {BUFFER(step), BUFFER(data), BUFFER(sums), UINT(ITEMS)};
    device_launch(p, DEVICE_read, ITEMS, arguments, 4);
    ok(device_program_seal(p, &error), &error);
    ok(device_start(p, &error), &error);
    ok(device_finish(p, &error), &error);
    ok(device_read(sums, 0, got, sizeof got, &error), &error);
    assert_memory_equal(got, want, sizeof got);
    device_program_destroy(p);
    device_buffer_destroy(data);
    device_buffer_destroy(sums);
    device_buffer_destroy(step);
    device_close(d);
}

static void launches_on_every_device(void **state)
{
    (void)state;
    on_every_device(read_sums_every_item);
}

/* ------------------------------------------------------------------ the host's ways */

static double process_seconds(void)
{
    struct timespec now;
    clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &now);
    return (double)now.tv_sec + 1e-9 * (double)now.tv_nsec;
}

static void pause_for(double seconds)
{
    struct timespec rest = {(time_t)seconds, (long)(1e9 * (seconds - (double)(time_t)seconds))};
    nanosleep(&rest, NULL);
}

static void idle_devices_sleep_and_wake(void **state)
{
    (void)state;
    adder a;
    open_adder(&a, "host", 2);
    float x = 0;
    for (unsigned i = 0; i < 100; i++) {
        x = run_adder(&a, x);
        pause_for(20e-6 * (i % 8)); /* about when it goes to sleep */
    }
    pause_for(5e-3);
    double before = process_seconds();
    pause_for(0.1);
    assert_true(process_seconds() - before < 0.05);
    run_adder(&a, x);
    close_adder(&a);
}

/* A device of a hundredth of the speed needs at least a hundred times what no thread can beat: copying 100 GB in a
 * second. Whatever disturbs it only makes it slower. */
static void a_share_of_the_speed(void **state)
{
    (void)state;
    enum { SIZE = 4 << 20 };
    device *d = open_device("host,speed=0.01");
    device_buffer *from = new_buffer(d, DEVICE_MEMORY, SIZE), *to = new_buffer(d, DEVICE_MEMORY, SIZE);
    device_program *p;
    hearth_error error;
    ok(device_program_create(&p, d, 0, 0, &error), &error);
    device_copy(p, to, 0, from, 0, SIZE);
    ok(device_program_seal(p, &error), &error);
    double begin = clock_seconds();
    ok(device_start(p, &error), &error);
    ok(device_finish(p, &error), &error);
    assert_true(clock_seconds() - begin >= SIZE / 100e9 / 0.01);
    device_program_destroy(p);
    device_buffer_destroy(from);
    device_buffer_destroy(to);
    device_close(d);
}

static void measuring_gives_figures(const char *spec)
{
    char limited[64];
    snprintf(limited, sizeof limited, "%s,memory=32M", spec);
    device *d = open_device(limited);
    device_figures f;
    hearth_error error;
    ok(device_measure(d, &f, &error), &error);
    print_message("%s: reads %.1f GB/s, copies to %.1f and from %.1f GB/s; start %.1f us, exchange %.1f us, with a "
                  "kernel %.1f us\n",
                  spec, f.read_rate / 1e9, f.to_device_rate / 1e9, f.from_device_rate / 1e9, 1e6 * f.start_seconds,
                  1e6 * f.exchange_seconds, 1e6 * f.kernel_seconds);
    const double rates[] = {f.read_rate, f.to_device_rate, f.from_device_rate};
    for (size_t i = 0; i < 3; i++)
        assert_true(rates[i] > 1e6 && rates[i] < 1e14);
    const double times[] = {f.start_seconds, f.exchange_seconds, f.kernel_seconds};
    for (size_t i = 0; i < 3; i++)
        assert_true(times[i] > 0 && isfinite(times[i]));
    for (size_t bytes = 64; bytes <= READ_BYTES; bytes *= 32) { /* 64, 2048 and 65536 */
        double rate;
        ok(device_measure_rows(d, bytes, &rate, &error), &error);
        print_message("%s: rows of %zu bytes %.1f GB/s\n", spec, bytes, rate / 1e9);
        assert_true(rate > 1e5 && rate < 1e14);
    }
    device_info info;
    device_describe(d, &info);
    assert_int_equal(info.used_bytes, 0);
    assert_int_equal(info.pinned_bytes, 0);
    assert_true(info.peak_bytes > 15000000 && info.peak_bytes <= 32000000);
    device_close(d);
    /* Few rows fit, fewer than would give every token one. */
    snprintf(limited, sizeof limited, "%s,memory=1200K", spec);
    d = open_device(limited);
    double rate;
    ok(device_measure_rows(d, READ_BYTES, &rate, &error), &error);
    assert_true(rate > 0);
    device_close(d);
}

static void measuring_every_device(void **state)
{
    (void)state;
    on_every_device(measuring_gives_figures);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(specs_are_strict),
        cmocka_unit_test(specs_are_obeyed),
        cmocka_unit_test(the_list_says_what_is_wrong),
        cmocka_unit_test(budgets_hold_to_the_byte),
        cmocka_unit_test(memory_on_every_device),
        cmocka_unit_test(times_on_every_device),
        cmocka_unit_test(a_thousand_exchanges),
        cmocka_unit_test(early_answers_on_every_device),
        cmocka_unit_test(stamps_on_every_device),
        cmocka_unit_test(launches_on_every_device),
        cmocka_unit_test(idle_devices_sleep_and_wake),
        cmocka_unit_test(a_share_of_the_speed),
        cmocka_unit_test(measuring_every_device),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
