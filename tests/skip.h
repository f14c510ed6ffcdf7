/* skip.h - what a test needs and may not find (a tool, a library, a device): without it the test is skipped with a message
 * "skipped: ...", which tools/count-skips counts, and the program's exit status says so. cmocka on its own ends with 0, as if everything had been seen.
 *
 * Comes last among the includes: cmocka's macro fail() hides the function of base/error.h. */
#ifndef TESTS_SKIP_H
#define TESTS_SKIP_H

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <unistd.h>

#include <cmocka.h>

enum { SKIPPED = 77 }; /* the exit status that tests/CMakeLists.txt tells ctest */

static int skipped_tests;

static inline void need_at(const char *path, const char *file, int line)
{
    if (access(path, R_OK) == 0)
        return;
    print_message("skipped: %s is absent\n", path);
    skipped_tests++;
    _skip(file, line);
}

/* Within a test: skips it where there is no such file or folder. */
#define need(path) need_at(path, __FILE__, __LINE__)

static inline int exit_status(int failed)
{
    return failed ? 1 : skipped_tests ? SKIPPED : 0;
}

/* Runs all tests; what main returns. A failure weighs more than a test that was skipped. */
#define run_group(tests, set_up, tear_down) exit_status(cmocka_run_group_tests(tests, set_up, tear_down))

#endif
