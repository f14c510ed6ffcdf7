/* The sandbox, from outside: it is cancelled, hearth is held up or killed, bubblewrap is killed or not there, memory or
 * descriptors are short. Nothing stays behind, and reasons are named. */
#include "../src/base/clock.h"
#include "../src/base/memory.h"

#include <signal.h>
#include <sys/resource.h>
#include <sys/stat.h>

#include "sandbox_box.h"

static bool stop_after(void *user)
{
    int *left = user;
    return (*left)-- > 0;
}

static void it_can_be_cancelled(void **state)
{
    (void)state;
    need_box(__FILE__, __LINE__);
    const char *const command[] = {"sleep", "1000", NULL};
    hearth_error error;
    sandbox_result r;
    for (int turns = 0; turns < 4; turns++) {
        int left = turns;
        const sandbox_job job = {.command = command,
                                 .wall_seconds = 1000,
                                 .memory_bytes = MEMORY,
                                 .output_bytes = OUTPUT_BYTES,
                                 .go_on = stop_after,
                                 .user = &left};
        size_t descriptors = count_entries("/proc/self/fd");
        assert_int_equal(sandbox_run(box, &job, &r, &error), HEARTH_CANCELLED);
        assert_string_equal(error.text, "sandbox: cancelled");
        assert_nothing_is_left(descriptors);
    }
}

static bool look_away_once(void *user)
{
    bool *away = user;
    if (*away)
        usleep(4000000);
    *away = false;
    return true;
}

/* A program that ended in time did so, even if hearth itself was held up and comes too late to see it. */
static void whoever_is_in_time_is_not_late(void **state)
{
    (void)state;
    need_box(__FILE__, __LINE__);
    const char *const command[] = {"sleep", "0.4", NULL};
    bool away = true;
    const sandbox_job job = {.command = command,
                             .wall_seconds = 3,
                             .memory_bytes = MEMORY,
                             .output_bytes = OUTPUT_BYTES,
                             .go_on = look_away_once,
                             .user = &away};
    sandbox_result r;
    assert_int_equal(sandbox_run(box, &job, &r, NULL), HEARTH_OK);
    assert_true(!away && r.seconds > 3.5);
    assert_int_equal(r.end, SANDBOX_EXITED);
    assert_int_equal(r.code, 0);
}

/* The first child of a process that has one thread; 0: it has none. */
static int child_of(int pid)
{
    char path[64], text[64] = "";
    snprintf(path, sizeof path, "/proc/%d/task/%d/children", pid, pid);
    read_some(path, text, sizeof text - 1);
    return atoi(text);
}

/* Not before the program runs, half a second later. */
static bool kill_bubblewrap(void *user)
{
    const double *begin = user;
    int keeper = child_of(getpid()), bwrap = keeper > 0 ? child_of(keeper) : 0;
    if (bwrap > 0 && clock_seconds() - *begin > 0.5)
        kill(bwrap, SIGKILL);
    return true;
}

/* Words of a program are not taken for bubblewrap's reason. */
static void bubblewrap_may_be_killed(void **state)
{
    (void)state;
    need_box(__FILE__, __LINE__);
    need("/proc/thread-self/children");
    double begin = clock_seconds();
    const char *const command[] = {"python3", "-c", "import time\nprint('a reason', flush=True)\ntime.sleep(1000)\n",
                                   mark, NULL};
    const sandbox_job job = {.command = command,
                             .wall_seconds = 1000,
                             .memory_bytes = MEMORY,
                             .output_bytes = OUTPUT_BYTES,
                             .go_on = kill_bubblewrap,
                             .user = &begin};
    hearth_error error;
    sandbox_result r;
    size_t descriptors = count_entries("/proc/self/fd");
    assert_int_equal(sandbox_run(box, &job, &r, &error), HEARTH_IO);
    assert_string_equal(error.text, "sandbox: bubblewrap was killed");
    assert_nothing_is_left(descriptors);
}

/* Where it cannot be built nothing runs, and the error says why. */
static void reasons_are_named(void **state)
{
    (void)state;
    char *path = strdup(getenv("PATH"));
    sandbox *none = NULL;
    hearth_error error;
    setenv("PATH", "/nowhere:/nowhere/else", 1);
    assert_int_equal(sandbox_open(&none, &error), HEARTH_UNSUPPORTED);
    assert_string_equal(error.text, "sandbox: bwrap: is not installed (Debian's package bubblewrap); nothing is run "
                                    "without it");
    assert_null(none);
    /* One that fails, as it does where namespaces are forbidden. */
    char folder[] = "/tmp/hearth-test-bwrap.XXXXXX", file[64];
    assert_non_null(mkdtemp(folder));
    chmod(folder, 0755);
    snprintf(file, sizeof file, "%s/bwrap", folder);
    FILE *f = fopen(file, "w");
    assert_non_null(f);
    fputs("#!/bin/sh\necho 'bwrap: Creating new namespace failed: Operation not permitted' >&2\nexit 1\n", f);
    fclose(f);
    chmod(file, 0755);
    setenv("PATH", folder, 1);
    assert_int_equal(sandbox_open(&none, &error), HEARTH_UNSUPPORTED);
    assert_string_equal(error.text, "sandbox: bwrap: Creating new namespace failed: Operation not permitted");
    unlink(file);
    rmdir(folder);
    setenv("PATH", path, 1);
    free(path);
    need_box(__FILE__, __LINE__);
    const char *const command[] = {"there-is-no-such-program", NULL};
    const sandbox_job job = {
        .command = command, .wall_seconds = 1, .memory_bytes = MEMORY, .output_bytes = OUTPUT_BYTES};
    sandbox_result r;
    hearth_status status = sandbox_run(box, &job, &r, &error);
    if (status == HEARTH_OK) /* without a user namespace it is another program's business to find it */
        assert_int_equal(r.code, 127);
    else
        assert_non_null(strstr(error.text, "there-is-no-such-program"));
}

static void failing_allocations_leave_nothing(void **state)
{
    (void)state;
    need_box(__FILE__, __LINE__);
    const char *const command[] = {"true", NULL};
    const sandbox_job job = {
        .command = command, .wall_seconds = SECONDS, .memory_bytes = MEMORY, .output_bytes = OUTPUT_BYTES};
    sandbox_result r;
    hearth_status status;
    long live = mem_live(), n = 0;
    size_t descriptors = count_entries("/proc/self/fd");
    do {
        mem_fail_at(n++);
        status = sandbox_run(box, &job, &r, NULL);
        mem_fail_at(-1);
        assert_int_equal(mem_live(), live);
        assert_nothing_is_left(descriptors);
        assert_true(status == HEARTH_OK || status == HEARTH_NO_MEMORY);
    } while (status != HEARTH_OK);
    assert_true(n > 2);
    n = 0;
    do {
        sandbox *other = NULL;
        mem_fail_at(n++);
        status = sandbox_open(&other, NULL);
        mem_fail_at(-1);
        sandbox_close(other);
        assert_int_equal(mem_live(), live);
        assert_nothing_is_left(descriptors);
        assert_true(status == HEARTH_OK || status == HEARTH_NO_MEMORY);
    } while (status != HEARTH_OK);
    assert_true(n > 4);
}

/* Descriptors may be short as well. */
static void failing_descriptors_leave_nothing(void **state)
{
    (void)state;
    need_box(__FILE__, __LINE__);
    const char *const command[] = {"true", NULL};
    const sandbox_job job = {
        .command = command, .wall_seconds = SECONDS, .memory_bytes = MEMORY, .output_bytes = OUTPUT_BYTES};
    struct rlimit most, now;
    sandbox_result r;
    hearth_error error;
    size_t descriptors = count_entries("/proc/self/fd");
    assert_int_equal(getrlimit(RLIMIT_NOFILE, &most), 0);
    hearth_status status = HEARTH_IO;
    for (rlim_t files = 4; status != HEARTH_OK; files++) {
        assert_true(files < 64);
        now = (struct rlimit){files, most.rlim_max};
        setrlimit(RLIMIT_NOFILE, &now);
        status = sandbox_run(box, &job, &r, &error);
        setrlimit(RLIMIT_NOFILE, &most);
        assert_nothing_is_left(descriptors);
        assert_true(status == HEARTH_OK || status == HEARTH_IO || status == HEARTH_UNSUPPORTED);
    }
}

/* A process that runs a program which takes its time. */
static pid_t begin_parent(void)
{
    pid_t child = fork();
    if (child == 0) {
        const char *const python[] = {"python3", "-c", "import time\ntime.sleep(1000)\n", mark, NULL};
        const sandbox_job job = {
            .command = python, .wall_seconds = 1000, .memory_bytes = MEMORY, .output_bytes = OUTPUT_BYTES};
        sandbox_result r;
        sandbox_run(box, &job, &r, NULL);
        _exit(0);
    }
    assert_true(child > 0);
    return child;
}

static void end_parent(pid_t child)
{
    kill(child, SIGKILL);
    waitpid(child, NULL, 0);
}

static void wait_for_marked(size_t count)
{
    double begin = clock_seconds();
    while (count_marked() != count && clock_seconds() - begin < 20)
        usleep(10000);
    assert_int_equal(count_marked(), count);
}

/* hearth itself is killed: so is what it runs. */
static void it_dies_with_its_parent(void **state)
{
    (void)state;
    need_box(__FILE__, __LINE__);
    pid_t child = begin_parent();
    wait_for_marked(3); /* bwrap, its init, Python */
    usleep(200000);
    end_parent(child);
    wait_for_marked(0);
    /* Also while it is being built. */
    for (unsigned moment = 0; moment < 40; moment++) {
        child = begin_parent();
        usleep(1000 * moment);
        end_parent(child);
    }
    wait_for_marked(0);
}

int main(void)
{
    open_box();
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(it_can_be_cancelled),
        cmocka_unit_test(whoever_is_in_time_is_not_late),
        cmocka_unit_test(bubblewrap_may_be_killed),
        cmocka_unit_test(reasons_are_named),
        cmocka_unit_test(failing_allocations_leave_nothing),
        cmocka_unit_test(failing_descriptors_leave_nothing),
        cmocka_unit_test(it_dies_with_its_parent),
    };
    int status = run_group(tests, NULL, NULL);
    sandbox_close(box);
    return status;
}
