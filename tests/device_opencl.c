/* The OpenCL driver: on the first usable device (PoCL where there is no GPU) offsets into buffers, numbers of lanes, copies of
 * all kinds, a failure of every command, giving up anywhere; and, in processes of their own, everything that can be
 * broken about OpenCL: the loader, platforms, devices, compilers (fake_opencl.c). What every device must do is in
 * device_core.c. */
#include "../src/base/clock.h"
#include "../src/base/memory.h"
#include "../src/device/driver.h"

#include <dlfcn.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>

#include "skip.h"

enum { SLOTS = 3, COLUMNS = 12, ROW = COLUMNS * sizeof(float), MOST_FOUND = 32 };

static char usable[sizeof((device_found *)0)->spec]; /* the spec of a device; empty: there is none */
static const char *reason = "";                      /* why                                     */
static const char *myself;                           /* this program's path                     */

static int find_device(void **state)
{
    (void)state;
    static device_found found[MOST_FOUND];
    size_t count = device_list(found, MOST_FOUND, NULL);
    for (size_t i = 0; i < count && i < MOST_FOUND && !*usable; i++) {
        if (strncmp(found[i].spec, "opencl", 6) != 0)
            continue;
        reason = found[i].problem;
        if (found[i].usable)
            memcpy(usable, found[i].spec, sizeof usable);
    }
    return 0;
}

static void need_device(void)
{
    if (*usable)
        return;
    print_message("skipped: no OpenCL device: %s\n", reason);
    skipped_tests++;
    skip();
}

static void ok(hearth_status status, const hearth_error *error)
{
    if (status != HEARTH_OK)
        fail_msg("%s", error->text);
}

/* ------------------------------------------------------------------ a device that adds what the CPU answers */

/* In every slot x goes out, the answer comes in, and x += answer, by a kernel that reaches both at offsets that are
 * multiples of 16 and of nothing more. */
typedef struct rig {
    device *d;
    device_buffer *step, *x, *answer; /* the device's */
    device_buffer *sent, *received;   /* pinned       */
    device_program *program;
} rig;

enum { STEP_AT = 48, X_AT = 16, ANSWER_AT = 80, AROUND = 256 };

static hearth_status set_up(rig *r, const char *spec, hearth_error *error)
{
    *r = (rig){0};
    TRY(device_open(&r->d, spec, NULL, error));
    TRY(device_buffer_create(&r->step, r->d, DEVICE_MEMORY, STEP_AT + sizeof(step_record), "step", error));
    TRY(device_buffer_create(&r->x, r->d, DEVICE_MEMORY, AROUND, "x", error));
    TRY(device_buffer_create(&r->answer, r->d, DEVICE_MEMORY, AROUND, "answer", error));
    TRY(device_buffer_create(&r->sent, r->d, DEVICE_PINNED, SLOTS * ROW, "sent", error));
    TRY(device_buffer_create(&r->received, r->d, DEVICE_PINNED, SLOTS * ROW, "received", error));
    step_record step = {.count = 1};
    TRY(device_write(r->step, STEP_AT, &step, sizeof step, error));
    TRY(device_program_create(&r->program, r->d, SLOTS, SLOTS + 1, error));
    const device_argument arguments[] = {BUFFER_FROM(r->step, STEP_AT),
                                         NO_BUFFER,
                                         NO_BUFFER,
                                         BUFFER_FROM(r->answer, ANSWER_AT),
                                         BUFFER_FROM(r->x, X_AT),
                                         UINT(COLUMNS),
                                         UINT(0),
                                         UINT(FINISH_ADD),
                                         FLOAT(1)};
    for (unsigned i = 0; i < SLOTS; i++) {
        device_stamp(r->program, i);
        device_copy(r->program, r->received, i * ROW, r->x, X_AT, ROW);
        device_publish(r->program, i);
        device_await(r->program, i);
        device_copy(r->program, r->answer, ANSWER_AT, r->sent, i * ROW, ROW);
        device_launch(r->program, DEVICE_reduce, STEP_ROWS, arguments, 9);
    }
    device_stamp(r->program, SLOTS);
    return device_program_seal(r->program, error);
}

enum { BEFORE_RUN = 8 /* opening, five buffers, a write, sealing */, IN_RUN = 1 + 6 * SLOTS + 1 };

static void tear_down(rig *r)
{
    device_program_destroy(r->program);
    device_buffer *const buffers[] = {r->step, r->x, r->answer, r->sent, r->received};
    for (size_t i = 0; i < sizeof buffers / sizeof *buffers; i++)
        device_buffer_destroy(buffers[i]);
    device_close(r->d);
}

/* Answers (slot + 1) * (column + 1); *sum is what of that x has so far. */
static hearth_status run(rig *r, float *sum, hearth_error *error)
{
    TRY(device_start(r->program, error));
    for (unsigned i = 0; i < SLOTS; i++) {
        TRY(device_await_published(r->program, i, error));
        const float *received = device_buffer_host(r->received);
        float *sent = device_buffer_host(r->sent);
        for (unsigned c = 0; c < COLUMNS; c++) {
            assert_true(received[i * COLUMNS + c] == *sum * (float)(c + 1));
            sent[i * COLUMNS + c] = (float)((i + 1) * (c + 1));
        }
        *sum += (float)(i + 1);
        device_answer(r->program, i);
    }
    return device_finish(r->program, error);
}

/* x has `sum` times its columns, and what lies around it was not touched. */
static void check_x(rig *r, float sum)
{
    float got[AROUND / sizeof(float)];
    hearth_error error;
    ok(device_read(r->x, 0, got, sizeof got, &error), &error);
    for (unsigned i = 0; i < AROUND / sizeof(float); i++) {
        unsigned c = i - X_AT / (unsigned)sizeof(float);
        float expected = c < COLUMNS ? sum * (float)(c + 1) : 0;
        if (got[i] != expected)
            fail_msg("word %u: %g, expected %g", i, (double)got[i], (double)expected);
    }
}

/* ------------------------------------------------------------------ what works */

static void two_hundred_runs(void **state)
{
    (void)state;
    need_device();
    rig r;
    hearth_error error;
    float sum = 0;
    ok(set_up(&r, usable, &error), &error);
    for (unsigned i = 0; i < 200; i++) {
        double begin = clock_seconds(), last = begin - 1e-3; /* a device's clock is read with some error */
        ok(run(&r, &sum, &error), &error);
        for (unsigned stamp = 0; stamp <= SLOTS; stamp++) {
            double now = device_stamp_seconds(r.program, stamp);
            assert_true(now >= last);
            last = now;
        }
        assert_true(last <= clock_seconds() + 1e-3);
    }
    assert_true(sum == 1200);
    check_x(&r, sum);
    tear_down(&r);
}

static void lanes_are_obeyed(void **state)
{
    (void)state;
    need_device();
    /* 1024: more than kernels take. */
    static const unsigned lanes[] = {1, 3, 32, 1024};
    for (size_t i = 0; i < sizeof lanes / sizeof *lanes; i++) {
        char spec[64];
        snprintf(spec, sizeof spec, "%s,group=%u", usable, lanes[i]);
        rig r;
        hearth_error error;
        float sum = 0;
        ok(set_up(&r, spec, &error), &error);
        device_info info;
        device_describe(r.d, &info);
        assert_true(info.group <= lanes[i] && info.group >= 1);
        if (lanes[i] <= 32)
            assert_int_equal(info.group, lanes[i]);
        ok(run(&r, &sum, &error), &error);
        check_x(&r, 6);
        tear_down(&r);
    }
}

static void copies_of_all_kinds(void **state)
{
    (void)state;
    need_device();
    enum { BYTES = 1000, AT = 7, PART = 501 };
    hearth_error error;
    device *d;
    ok(device_open(&d, usable, NULL, &error), &error);
    /* 0, 1: pinned; 2, 3: the device's. Every pair is a copy from the first to the second. */
    device_buffer *buffers[4];
    for (unsigned i = 0; i < 4; i++)
        ok(device_buffer_create(&buffers[i], d, i < 2 ? DEVICE_PINNED : DEVICE_MEMORY, BYTES, "copy", &error), &error);
    for (unsigned pair = 0; pair < 16; pair++) {
        device_buffer *from = buffers[pair / 4], *to = buffers[pair % 4];
        unsigned char content[BYTES], got[BYTES], before[BYTES];
        if (from == to)
            continue;
        for (unsigned i = 0; i < BYTES; i++) {
            content[i] = (unsigned char)(i * 7 + pair);
            before[i] = (unsigned char)~i;
        }
        device_program *p;
        ok(device_program_create(&p, d, 0, 0, &error), &error);
        device_copy(p, to, AT, from, 2 * AT, PART);
        device_copy(p, to, AT, from, 2 * AT, 0);
        ok(device_program_seal(p, &error), &error);
        ok(device_write(from, 0, content, BYTES, &error), &error);
        ok(device_write(to, 0, before, BYTES, &error), &error);
        ok(device_start(p, &error), &error);
        ok(device_finish(p, &error), &error);
        ok(device_read(to, 0, got, BYTES, &error), &error);
        assert_memory_equal(got + AT, content + 2 * AT, PART);
        assert_memory_equal(got, before, AT);
        assert_memory_equal(got + AT + PART, before + AT + PART, BYTES - AT - PART);
        device_program_destroy(p);
    }
    for (unsigned i = 0; i < 4; i++)
        device_buffer_destroy(buffers[i]);
    device_close(d);
}

static void budgets_and_large_buffers(void **state)
{
    (void)state;
    need_device();
    char spec[64];
    snprintf(spec, sizeof spec, "%s,memory=1M", usable);
    hearth_error error;
    device *d;
    device_buffer *b = NULL;
    ok(device_open(&d, spec, NULL, &error), &error);
    assert_int_equal(device_buffer_create(&b, d, DEVICE_MEMORY, 1000001, "too much", &error), HEARTH_NO_MEMORY);
    ok(device_buffer_create(&b, d, DEVICE_MEMORY, 1000000, "just right", &error), &error);
    device_buffer_destroy(b);
    device_close(d);
    snprintf(spec, sizeof spec, "%s,memory=8000000G", usable);
    ok(device_open(&d, spec, NULL, &error), &error);
    assert_int_equal(device_buffer_create(&b, d, DEVICE_MEMORY, (size_t)1 << 50, "a mountain", &error),
                     HEARTH_NO_MEMORY);
    assert_non_null(strstr(error.text, "a mountain"));
    assert_non_null(strstr(error.text, "at most"));
    device_close(d);
}

/* ------------------------------------------------------------------ what goes wrong in a run */

static void every_call_fails_once(void **state)
{
    (void)state;
    need_device();
    long before = mem_live();
    for (long n = 0; n <= BEFORE_RUN + IN_RUN; n++) {
        rig r;
        hearth_error error = {0};
        float sum = 0;
        device_fail_at(n);
        hearth_status status = set_up(&r, usable, &error);
        assert_int_equal(status, n < BEFORE_RUN ? HEARTH_DEVICE : HEARTH_OK);
        if (status == HEARTH_OK)
            status = run(&r, &sum, &error);
        device_fail_at(-1);
        assert_int_equal(status, n < BEFORE_RUN + IN_RUN ? HEARTH_DEVICE : HEARTH_OK);
        if (status != HEARTH_OK && !strstr(error.text, "injected"))
            fail_msg("call %ld: '%s'", n, error.text);
        if (status != HEARTH_OK && n >= BEFORE_RUN) {
            /* It is lost, says so, and nothing of it still runs. */
            assert_true(r.d->lost && !r.d->running);
            assert_int_equal(device_start(r.program, &error), HEARTH_DEVICE);
            /* What came before the failure was done: all slots but those at and behind it. */
            assert_true(sum <= 6);
        }
        tear_down(&r);
        assert_int_equal(mem_live(), before);
    }
}

static void every_allocation_fails_once(void **state)
{
    (void)state;
    need_device();
    long before = mem_live();
    for (long n = 0;; n++) {
        rig r;
        hearth_error error = {0};
        mem_fail_at(n);
        hearth_status status = set_up(&r, usable, &error);
        mem_fail_at(-1);
        float sum = 0;
        if (status == HEARTH_OK)
            ok(run(&r, &sum, &error), &error);
        else
            assert_int_equal(status, HEARTH_NO_MEMORY);
        tear_down(&r);
        assert_int_equal(mem_live(), before);
        if (status == HEARTH_OK) {
            assert_true(n > 5);
            return;
        }
    }
}

static void given_up_anywhere(void **state)
{
    (void)state;
    need_device();
    rig r;
    hearth_error error;
    ok(set_up(&r, usable, &error), &error);
    for (unsigned answered = 0; answered <= SLOTS; answered++) {
        ok(device_start(r.program, &error), &error);
        for (unsigned i = 0; i < answered; i++) {
            ok(device_await_published(r.program, i, &error), &error);
            device_answer(r.program, i);
        }
        device_abandon(r.program);
        assert_true(!r.d->running && !r.d->lost);
        const char zero[AROUND] = {0};
        ok(device_write(r.x, 0, zero, sizeof zero, &error), &error);
        float sum = 0;
        ok(run(&r, &sum, &error), &error);
        check_x(&r, 6);
        ok(device_write(r.x, 0, zero, sizeof zero, &error), &error);
    }
    /* Destroying gives up, too. */
    ok(device_start(r.program, &error), &error);
    tear_down(&r);
}

/* ------------------------------------------------------------------ what is broken: processes of their own */

#define PATIENCE_SECONDS 0.5

/* The CPU's part: what it answers it writes when the program has been started, and answers the later await first. */
static hearth_status answer_backwards(device_program *p, device_buffer *x, device_buffer *in, hearth_error *error)
{
    unsigned char *sent = device_buffer_host(in), got[2 * 64];
    TRY(device_start(p, error));
    TRY(device_await_published(p, 0, error));
    for (unsigned slot = 2; slot-- > 0;) {
        memset(sent + 64 * slot, 'a' + (int)slot, 64);
        device_answer(p, slot);
    }
    TRY(device_finish(p, error));
    TRY(device_read(x, 0, got, sizeof got, error));
    for (unsigned i = 0; i < sizeof got; i++) {
        if (got[i] != 'a' + i / 64) {
            snprintf(error->text, sizeof error->text, "byte %u of the answers is %u", i, got[i]);
            return HEARTH_DEVICE;
        }
    }
    return HEARTH_OK;
}

/* A number that the fake counted; 0 without the fake. */
static long fake_count(const char *name)
{
    /* The loader stays in the process: this is the one that was used. */
    void *library = dlopen("libOpenCL.so.1", RTLD_NOW | RTLD_NOLOAD);
    long (*count)(void) = library ? (long (*)(void))dlsym(library, name) : NULL;
    return count ? count() : 0;
}

static void on_signal(int number)
{
    (void)number;
}

/* Who handles four signals. */
static void print_signals(const char *when)
{
    static const int numbers[] = {SIGBUS, SIGINT, SIGPIPE, SIGFPE};
    printf("%s:", when);
    for (size_t i = 0; i < sizeof numbers / sizeof *numbers; i++) {
        struct sigaction now;
        sigaction(numbers[i], NULL, &now);
        printf(" %s", now.sa_handler == on_signal ? "program"
                      : now.sa_handler == SIG_IGN ? "ignored"
                      : now.sa_handler == SIG_DFL ? "nobody"
                                                  : "driver");
    }
    putchar('\n');
}

static void watch_signals(void)
{
    static device_found found[MOST_FOUND];
    device *d = NULL;
    signal(SIGBUS, on_signal);
    signal(SIGINT, on_signal);
    signal(SIGPIPE, SIG_IGN);
    signal(SIGFPE, SIG_DFL);
    device_list(found, MOST_FOUND, NULL);
    print_signals("listed");
    if (device_open(&d, "opencl:0", NULL, NULL) == HEARTH_OK)
        print_signals("opened");
    device_close(d);
}

/* "list": a row of the list per line. "signals": who handles some after a list and after opening. "run": opens opencl:0 and
 * runs a small program; what came of it, how many objects of the fake were not released, and how many too early. Returns the
 * exit status. */
static int child(const char *what)
{
    if (strcmp(what, "list") == 0) {
        static device_found found[MOST_FOUND];
        size_t count = device_list(found, MOST_FOUND, NULL);
        for (size_t i = 0; i < count && i < MOST_FOUND; i++) {
            if (strncmp(found[i].spec, "opencl", 6) == 0)
                printf("%s|%s|%d|%s\n", found[i].spec, found[i].name, found[i].usable, found[i].problem);
        }
        return 0;
    }
    if (strcmp(what, "signals") == 0) {
        watch_signals();
        return 0;
    }
    hearth_error error = {0};
    device *d = NULL;
    device_buffer *step = NULL, *x = NULL, *out = NULL, *in = NULL;
    device_program *p = NULL;
    hearth_status status = device_open(&d, "opencl:0", NULL, &error);
    if (status == HEARTH_OK)
        status = device_buffer_create(&step, d, DEVICE_MEMORY, sizeof(step_record), "step", &error);
    if (status == HEARTH_OK)
        status = device_buffer_create(&x, d, DEVICE_MEMORY, 65536, "x", &error);
    if (status == HEARTH_OK)
        status = device_buffer_create(&out, d, DEVICE_PINNED, 65536, "out", &error);
    if (status == HEARTH_OK)
        status = device_buffer_create(&in, d, DEVICE_PINNED, 128, "in", &error);
    if (status == HEARTH_OK)
        status = device_program_create(&p, d, 2, 1, &error);
    if (status == HEARTH_OK) {
        const device_argument arguments[] = {BUFFER(step), NO_BUFFER, NO_BUFFER,        NO_BUFFER, BUFFER(x),
                                             UINT(16),     UINT(0),   UINT(FINISH_ADD), FLOAT(1)};
        device_stamp(p, 0);
        device_launch(p, DEVICE_reduce, STEP_ROWS, arguments, 9);
        device_copy(p, out, 0, x, 0, 64);
        device_publish(p, 0);
        for (unsigned slot = 0; slot < 2; slot++) {
            device_await(p, slot);
            device_copy(p, x, 64 * slot, in, 64 * slot, 64);
        }
        status = device_program_seal(p, &error);
    }
    if (d)
        d->patience_seconds = PATIENCE_SECONDS;
    if (status == HEARTH_OK)
        status = answer_backwards(p, x, in, &error);
    bool hangs = d && d->running;
    unsigned lanes = 0;
    unsigned long long free_bytes = 0, budget = 0;
    if (d) {
        device_info info;
        device_describe(d, &info);
        lanes = info.group;
        free_bytes = info.free_bytes;
        budget = info.budget_bytes;
    }
    device_program_destroy(p);
    device_buffer_destroy(step);
    device_buffer_destroy(x);
    device_buffer_destroy(out);
    device_buffer_destroy(in);
    device_close(d);
    printf("%s%s|%u lanes|%llu of %llu free|%ld objects|%ld blocks|%ld early\n", status == HEARTH_OK ? "fine" : "",
           error.text, lanes, budget, free_bytes, fake_count("fake_opencl_live"), mem_live(),
           fake_count("fake_opencl_early"));
    fflush(stdout);
    if (hangs)
        _exit(0); /* what is leaked then is leaked on purpose */
    return 0;
}

/* What a child prints that is given one more variable. */
static const char *output_of(const char *what, const char *variable, const char *value)
{
    static char text[4096];
    char command[1024];
    assert_int_equal(setenv(variable, value, 1), 0);
    snprintf(command, sizeof command, "'%s' %s 2>&1", myself, what);
    FILE *pipe = popen(command, "r");
    assert_non_null(pipe);
    size_t size = fread(text, 1, sizeof text - 1, pipe);
    text[size] = 0;
    int status = pclose(pipe);
    assert_int_equal(unsetenv(variable), 0);
    if (!WIFEXITED(status) || WEXITSTATUS(status) != 0)
        fail_msg("%s with %s=%s: status %d: '%s'", what, variable, value, status, text);
    return text;
}

static void assert_says(const char *text, const char *part)
{
    if (strstr(text, part) == NULL)
        fail_msg("'%s' does not say '%s'", text, part);
}

/* A folder of its own, with one file in it. */
static void make_folder(char *folder, const char *name, const char *content)
{
    char path[256];
    strcpy(folder, "/tmp/hearth-opencl-XXXXXX");
    assert_non_null(mkdtemp(folder));
    snprintf(path, sizeof path, "%s/%s", folder, name);
    FILE *file = fopen(path, "w");
    assert_non_null(file);
    assert_true(fputs(content, file) >= 0);
    assert_int_equal(fclose(file), 0);
}

static void remove_folder(const char *folder, const char *name)
{
    char path[256];
    snprintf(path, sizeof path, "%s/%s", folder, name);
    assert_int_equal(unlink(path), 0);
    assert_int_equal(rmdir(folder), 0);
}

static void a_loader_that_is_none(void **state)
{
    (void)state;
    if (strstr(reason, "built without"))
        need_device();
    static const char name[] = "libOpenCL.so.1";
    char folder[64];
    make_folder(folder, name, "this is not a library");
    const char *text = output_of("list", "LD_LIBRARY_PATH", folder);
    assert_says(text, "opencl||0|");
    assert_says(text, name);
    assert_says(output_of("run", "LD_LIBRARY_PATH", folder), "opencl: ");
    /* A library, but another one. */
    Dl_info self;
    assert_true(dladdr((void *)(uintptr_t)&cmocka_set_message_output, &self) != 0);
    remove_folder(folder, name);
    strcpy(folder, "/tmp/hearth-opencl-XXXXXX");
    assert_non_null(mkdtemp(folder));
    char path[256];
    snprintf(path, sizeof path, "%s/%s", folder, name);
    assert_int_equal(symlink(self.dli_fname, path), 0);
    text = output_of("list", "LD_LIBRARY_PATH", folder);
    remove_folder(folder, name);
    assert_says(text, "opencl||0|libOpenCL.so.1: it has no cl");
}

static void vendors_that_are_none(void **state)
{
    (void)state;
    need_device(); /* there is a loader, then */
    char folder[64];
    make_folder(folder, "broken.icd", "libnot-there-at-all.so\n");
    const char *text = output_of("list", "OCL_ICD_VENDORS", folder);
    assert_says(text, "opencl||0|no platforms");
    assert_says(output_of("run", "OCL_ICD_VENDORS", folder), "no platforms");
    remove_folder(folder, "broken.icd");
    /* A library that is none, by its path. */
    char other[64], content[128];
    make_folder(other, "libbroken.so", "no library");
    snprintf(content, sizeof content, "%s/libbroken.so\n", other);
    make_folder(folder, "broken.icd", content);
    assert_says(output_of("list", "OCL_ICD_VENDORS", folder), "no platforms");
    remove_folder(folder, "broken.icd");
    remove_folder(other, "libbroken.so");
}

static void faults_of_devices(void **state)
{
    (void)state;
    static const struct {
        const char *fault, *listed, *run;
    } cases[] = {
        {"", "opencl:0|Fake: Toy|1|\n", "fine|64 lanes|"},
        {"abort", "opencl||0|its driver kills the program that asks it (Aborted): Not enough",
         "opencl: its driver kills"},
        {"crash", "opencl||0|its driver kills the program that asks it (Seg", "opencl: its driver kills"},
        {"exit", "opencl||0|its driver ends the program that asks it", "opencl: its driver ends the program"},
        {"no platforms", "opencl||0|no platforms: CL_PLATFORM_NOT_FOUND_KHR", "no platforms: CL_PLATFORM_NOT_FOUND"},
        {"platform", "opencl|Fake|0|no devices: CL_OUT_OF_HOST_MEMORY", "Fake: no devices: CL_OUT_OF_HOST_MEMORY"},
        {"no devices", "opencl|Fake|0|no devices: CL_DEVICE_NOT_FOUND", "no devices"},
        {"unavailable", "opencl:0|Fake: Toy|0|it is not available", "opencl:0: Fake: Toy: it is not available"},
        {"no compiler", "|0|it has no compiler", "it has no compiler"},
        {"big endian", "|0|it is not little-endian", "it is not little-endian"},
        {"embedded", "|0|it has not the full profile", "full profile"},
        {"old", "|0|its OpenCL is older than 1.2", "older than 1.2"},
        {"no infinity", "|0|it does not know infinity", "infinity"},
        {"build", "|1|", "kernels: CL_BUILD_PROGRAM_FAILURE: line 7: no such type line 9: enough"},
        {"kernel", "|1|", "reduce: CL_INVALID_KERNEL_NAME"},
        {"lanes", "|1|", "fine|24 lanes|"},
        /* The budget of 1 GiB: three quarters, a quarter of main memory, nine tenths of the free 1000 KiB. */
        {"nothing", "|1|", "|805306368 of 0 free|"},
        {"unified", "|1|", "|268435456 of 0 free|"},
        {"amd", "|1|", "|921600 of 1024000 free|"},
        {"amd without an answer", "|1|", "|805306368 of 0 free|"},
        {"memory", "|1|", "x: 65536 bytes wanted, 12292 bytes in use: Fake: Toy: memory: CL_MEM_OBJECT_ALLOCATION"},
        {"map", "|1|", "pinned memory: CL_MAP_FAILURE"},
        {"first launch", "|1|", "reduce: CL_OUT_OF_RESOURCES"},
        {"second launch", "|1|", "reduce: CL_OUT_OF_RESOURCES"},
        {"copy", "|1|", "copy: CL_OUT_OF_RESOURCES"},
        {"write", "|1|", "copy: CL_OUT_OF_RESOURCES"},
        {"marker", "|1|", "stamp: CL_OUT_OF_HOST_MEMORY"},
        {"last marker", "|1|", "the end of a program: CL_OUT_OF_HOST_MEMORY"},
        {"event", "|1|", "publish: CL_OUT_OF_RESOURCES"},
    };
    const char *fake = getenv("HEARTH_FAKE_OPENCL");
    if (!fake) {
        print_message("skipped: HEARTH_FAKE_OPENCL does not say where fake_opencl.c's library is\n");
        skipped_tests++;
        skip();
    }
    const char *old = getenv("LD_LIBRARY_PATH");
    char *kept = old ? strdup(old) : NULL;
    assert_int_equal(setenv("LD_LIBRARY_PATH", fake, 1), 0);
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        assert_says(output_of("list", "FAKE_OPENCL", cases[i].fault), cases[i].listed);
        const char *text = output_of("run", "FAKE_OPENCL", cases[i].fault);
        assert_says(text, cases[i].run);
        assert_says(text, "|0 objects|0 blocks|0 early");
    }
    /* clFinish never returns either: nothing may be freed. */
    const char *text = output_of("run", "FAKE_OPENCL", "stuck");
    assert_says(text, "a program was not done within 0.5 seconds");
    assert_says(text, "|0 early");
    assert_string_equal(output_of("signals", "FAKE_OPENCL", "signals"), "listed: program program ignored driver\n"
                                                                        "opened: program program ignored driver\n");
    unsetenv("LD_LIBRARY_PATH");
    if (kept)
        setenv("LD_LIBRARY_PATH", kept, 1);
    free(kept);
}

int main(int argument_count, char **arguments)
{
    if (argument_count > 1)
        return child(arguments[1]);
    myself = arguments[0];
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(two_hundred_runs),      cmocka_unit_test(lanes_are_obeyed),
        cmocka_unit_test(copies_of_all_kinds),   cmocka_unit_test(budgets_and_large_buffers),
        cmocka_unit_test(every_call_fails_once), cmocka_unit_test(every_allocation_fails_once),
        cmocka_unit_test(given_up_anywhere),     cmocka_unit_test(a_loader_that_is_none),
        cmocka_unit_test(vendors_that_are_none), cmocka_unit_test(faults_of_devices),
    };
    return run_group(tests, find_device, NULL);
}
