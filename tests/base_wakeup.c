/* base_wakeup - a signal that comes before the wait ends it as surely as one that comes during it. */
#include "../src/base/file.h"
#include "../src/base/wakeup.h"

#include <errno.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <sys/time.h>
#include <unistd.h>

#include <cmocka.h>

static void on_alarm(int number)
{
    (void)number;
    wakeup_raise();
}

/* One alarm while we wait; restarted calls would wait on. */
static void set_alarm(void)
{
    struct sigaction action = {.sa_handler = on_alarm, .sa_flags = SA_RESTART};
    sigaction(SIGALRM, &action, NULL);
    setitimer(ITIMER_REAL, &(struct itimerval){.it_value = {.tv_usec = 20000}}, NULL);
}

static void test_wait(void **state)
{
    (void)state;
    int ends[2];
    assert_int_equal(pipe(ends), 0);
    wakeup_raise(); /* before, and twice: it stays raised however many waits it ends */
    wakeup_raise();
    for (int i = 0; i < 2; i++) {
        errno = 0;
        assert_false(wakeup_wait(ends[0]));
        assert_int_equal(errno, EINTR);
    }
    wakeup_reset();
    set_alarm(); /* during */
    assert_false(wakeup_wait(ends[0]));
    assert_int_equal(errno, EINTR);
    wakeup_reset();
    assert_int_equal(write(ends[1], "x", 1), 1); /* input */
    assert_true(wakeup_wait(ends[0]));
    char byte;
    assert_int_equal(read(ends[0], &byte, 1), 1);
    close(ends[1]); /* its end */
    assert_true(wakeup_wait(ends[0]));
    close(ends[0]);
}

static void test_file_read(void **state)
{
    (void)state;
    int ends[2];
    char path[64], *data = NULL;
    size_t size = 0;
    hearth_error error = {0};
    assert_int_equal(pipe(ends), 0);
    assert_int_equal(write(ends[1], "half a line", 11), 11);
    snprintf(path, sizeof path, "/dev/fd/%d", ends[0]);
    set_alarm();
    assert_int_equal(file_read(&data, &size, path, 100, &error), HEARTH_CANCELLED);
    assert_non_null(strstr(error.text, ": reading: interrupted"));
    assert_null(data);
    assert_int_equal(file_read(&data, &size, path, 100, &error), HEARTH_CANCELLED);
    wakeup_reset();
    close(ends[0]);
    close(ends[1]);
}

int main(void)
{
    wakeup_prepare();
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_wait), cmocka_unit_test(test_file_read)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
