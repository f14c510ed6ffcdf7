/* Drivers that end, crash or stop whoever asks them (fake_opencl.c, told so by FAKE_OPENCL): they do it in a child, and
 * what they did is remembered for as long as nothing has changed. Each case is a process of its own, since a library
 * stays in the process that loaded it. */
#include "../src/base/memory.h"
#include "../src/device/probe.h"

#include <fcntl.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "skip.h"

#define PATIENCE "0.4"

static const char *myself, *fake; /* this program; the folder of the library that misbehaves */

/* ------------------------------------------------------------------ the process that asks */

static const char *log_path; /* FAKE_OPENCL_LOG */

/* Appends size_bytes to the log; may be called in a signal handler. */
static void note(const char *line, size_t size_bytes)
{
    int log = open(log_path, O_WRONLY | O_APPEND | O_CREAT | O_CLOEXEC, 0600);
    if (log < 0 || write(log, line, size_bytes) != (ssize_t)size_bytes)
        _exit(8);
    close(log);
}

static void at_exit(void)
{
    note("handler\n", 8);
}

static void on_abort(int signal_number)
{
    (void)signal_number;
    note("caught\n", 7);
    _exit(9);
}

static void *sit(void *unused)
{
    (void)unused;
    for (;;)
        pause();
    return NULL;
}

/* Asks as `how` says, and prints "1|" or "0|what the driver did". */
static int child(const char *how)
{
    char problem[PROBE_TEXT_SIZE];
    const char *folder = getenv("PROBE_FOLDER"), *log = getenv("FAKE_OPENCL_LOG");
    pthread_t thread;
    log_path = log ? log : "/dev/null";
    if (strcmp(how, "threads") == 0)
        assert_int_equal(pthread_create(&thread, NULL, sit, NULL), 0);
    if (strcmp(how, "ignores children") == 0)
        signal(SIGCHLD, SIG_IGN);
    if (strcmp(how, "has handlers") == 0) {
        atexit(at_exit);
        signal(SIGABRT, on_abort);
    }
    if (strcmp(how, "forgets") == 0)
        probe_forget(&driver_opencl, folder);
    printf("unwritten "); /* what lies in a buffer is written once */
    const char *fault = getenv("FAKE_OPENCL");
    bool hangs =
        strcmp(fault, "hang") == 0 || strcmp(fault, "flood") == 0; /* others have time, on a busy machine too */
    bool answered = probe_driver(&driver_opencl, folder, hangs ? strtod(PATIENCE, NULL) : 60, problem);
    printf("%d|%s|%ld", answered, problem, mem_live());
    return 0;
}

/* ------------------------------------------------------------------ asking it */

typedef struct place {
    char folder[64], log[80];
} place;

static place make_place(void)
{
    place p = {.folder = "/tmp/hearth-probe-XXXXXX"};
    assert_non_null(mkdtemp(p.folder));
    snprintf(p.log, sizeof p.log, "%s/log", p.folder);
    return p;
}

static void remove_place(const place *p)
{
    char command[128];
    snprintf(command, sizeof command, "rm -r '%s'", p->folder);
    assert_int_equal(system(command), 0);
}

/* What a process prints that asks so, of a library with that fault. remembers: with the place as its cache folder. */
static const char *ask(const place *p, const char *how, const char *fault, bool remembers)
{
    static char text[2048];
    char command[1024];
    snprintf(command, sizeof command, "LD_LIBRARY_PATH='%s' FAKE_OPENCL='%s' FAKE_OPENCL_LOG='%s' %s%s '%s' '%s' 2>&1",
             fake, fault, p->log, remembers ? "PROBE_FOLDER=" : "", remembers ? p->folder : "", myself, how);
    FILE *pipe = popen(command, "r");
    assert_non_null(pipe);
    size_t size = fread(text, 1, sizeof text - 1, pipe);
    text[size] = 0;
    int status = pclose(pipe);
    if (status != 0)
        fail_msg("%s of '%s': status %d: '%s'", how, fault, status, text);
    return text;
}

/* How many lines of the log are `line`. */
static unsigned count(const place *p, const char *line)
{
    FILE *log = fopen(p->log, "r");
    char got[64];
    unsigned n = 0;
    while (log && fgets(got, sizeof got, log))
        n += strncmp(got, line, strlen(line)) == 0;
    if (log)
        fclose(log);
    return n;
}

static void expect_text(const char *got, const char *expected)
{
    if (strncmp(got, expected, strlen(expected)) != 0)
        fail_msg("'%s' does not begin with '%s'", got, expected);
}

#define ANSWERED "unwritten 1||0"
#define FAULT    "unwritten 0|its driver "

/* ------------------------------------------------------------------ tests */

static const struct {
    const char *fault, *text;
    bool remembered;
} cases[] = {
    {"", ANSWERED, true},
    {"no platforms", ANSWERED, true}, /* the driver's own list says that */
    {"talk", ANSWERED, true},         /* more than a pipe holds */
    {"abort", FAULT "kills the program that asks it (Aborted): Not enough ?[31mmemory to run on this device.|0", true},
    {"crash", FAULT "kills the program that asks it (Segmentation fault)|0", true},
    {"exit", FAULT "ends the program that asks it|0", true},
    {"exit at once", FAULT "ends the program that asks it|0", true},
    {"hang", FAULT "does not answer within " PATIENCE " seconds|0", true},
    {"flood", FAULT "does not answer within " PATIENCE " seconds: ", true},
    {"killed", FAULT "kills the program that asks it (Killed)|0", false}, /* not the driver's own doing */
};

static void every_way_to_go(void **state)
{
    (void)state;
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        place p = make_place();
        expect_text(ask(&p, "", cases[i].fault, false), cases[i].text);
        assert_int_equal(count(&p, "asked"), 1);
        remove_place(&p);
    }
}

/* The same in programs that have threads, wait for no child, or have handlers of their own, which a child must not run. */
static void every_kind_of_program(void **state)
{
    (void)state;
    static const char *const kinds[] = {"threads", "ignores children", "has handlers"};
    for (size_t k = 0; k < sizeof kinds / sizeof *kinds; k++)
        for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
            place p = make_place();
            const char *got = ask(&p, kinds[k], cases[i].fault, false);
            /* Without the status of its child a program cannot tell how it ended. */
            if (k == 1 && strstr(cases[i].text, "kills"))
                expect_text(got, FAULT "ends the program that asks it");
            else
                expect_text(got, cases[i].text);
            assert_int_equal(count(&p, "handler"), k == 2);
            assert_int_equal(count(&p, "caught"), 0);
            remove_place(&p);
        }
}

static void what_is_remembered(void **state)
{
    (void)state;
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        place p = make_place();
        expect_text(ask(&p, "", cases[i].fault, true), cases[i].text);
        const char *again = ask(&p, "", cases[i].fault, true);
        assert_int_equal(count(&p, "asked"), cases[i].remembered ? 1 : 2);
        bool answered = strcmp(cases[i].text, ANSWERED) == 0;
        if (answered)
            expect_text(again, ANSWERED);
        else if (cases[i].remembered && !strstr(again, "(`hearth devices` asks again)|0"))
            fail_msg("'%s' does not say that it was remembered", again);
        ask(&p, "forgets", cases[i].fault, true);
        assert_int_equal(count(&p, "asked"), cases[i].remembered ? 2 : 3);
        remove_place(&p);
    }
}

/* A hang may be the fork's fault where there were threads. */
static void a_hang_beside_threads_is_not_remembered(void **state)
{
    (void)state;
    place p = make_place();
    ask(&p, "threads", "hang", true);
    expect_text(ask(&p, "threads", "hang", true), FAULT "does not answer within " PATIENCE " seconds|0");
    assert_int_equal(count(&p, "asked"), 2);
    remove_place(&p);
}

static void write_file(const char *path, const char *text)
{
    FILE *file = fopen(path, "w");
    assert_non_null(file);
    assert_true(fputs(text, file) >= 0);
    assert_int_equal(fclose(file), 0);
}

/* Another environment, another library, a damaged file: asked again. A folder that is none: asked every time. */
static void what_has_changed_is_asked_again(void **state)
{
    (void)state;
    place p = make_place();
    char path[128];
    ask(&p, "", "abort", true);
    expect_text(ask(&p, "", "", true), ANSWERED);
    assert_int_equal(count(&p, "asked"), 2);
    snprintf(path, sizeof path, "%s/driver-opencl.json", p.folder);
    static const char *const damages[] = {"", "{", "[1]", "{\"hearth.driver\": 1, \"key\": \"x\", \"problem\": \"\"}",
                                          "{\"hearth.driver\": 1, \"problem\": 3}"};
    for (unsigned i = 0; i < sizeof damages / sizeof *damages; i++) {
        write_file(path, damages[i]);
        expect_text(ask(&p, "", "", true), ANSWERED);
        assert_int_equal(count(&p, "asked"), 3 + i);
    }
    expect_text(ask(&p, "", "", true), ANSWERED);
    assert_int_equal(count(&p, "asked"), 7);
    /* A library that was installed anew has another time. */
    char library[512];
    struct timespec times[2] = {{.tv_nsec = UTIME_OMIT}, {.tv_nsec = UTIME_NOW}};
    snprintf(library, sizeof library, "%s/libOpenCL.so.1", fake);
    assert_int_equal(utimensat(AT_FDCWD, library, times, 0), 0);
    ask(&p, "", "", true);
    assert_int_equal(count(&p, "asked"), 8);
    strcat(p.folder, "/none");
    ask(&p, "", "", true);
    ask(&p, "", "", true);
    assert_int_equal(count(&p, "asked"), 10);
    *strrchr(p.folder, '/') = 0;
    remove_place(&p);
}

/* What a driver leaves running ends with the child that asked it, and with that its lock on the log. */
static void no_process_stays(void **state)
{
    (void)state;
    place p = make_place();
    expect_text(ask(&p, "", "leaves a process", false), ANSWERED);
    int log = open(p.log, O_RDONLY), taken = -1;
    assert_true(log >= 0);
    for (unsigned tries = 0; tries < 1000 && taken != 0; tries++) { /* being killed takes a moment */
        taken = flock(log, LOCK_EX | LOCK_NB);
        usleep(10000);
    }
    assert_int_equal(taken, 0);
    close(log);
    remove_place(&p);
}

int main(int argument_count, char **arguments)
{
    if (argument_count > 1)
        return child(arguments[1]);
    myself = arguments[0];
    fake = getenv("HEARTH_FAKE_OPENCL");
    if (!fake) {
        print_message("skipped: HEARTH_FAKE_OPENCL does not say where fake_opencl.c's library is\n");
        return 77;
    }
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_way_to_go),
        cmocka_unit_test(every_kind_of_program),
        cmocka_unit_test(what_is_remembered),
        cmocka_unit_test(a_hang_beside_threads_is_not_remembered),
        cmocka_unit_test(what_has_changed_is_asked_again),
        cmocka_unit_test(no_process_stays),
    };
    return run_group(tests, NULL, NULL);
}
