/* sandbox_box.h - what the tests of the sandbox share: a sandbox, and a look at what is outside of it. */
#ifndef TESTS_SANDBOX_BOX_H
#define TESTS_SANDBOX_BOX_H

#include "../src/eval/sandbox.h"

#include <ctype.h>
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/types.h>
#include <sys/wait.h>

#include "skip.h"

#define SECONDS      5.0
#define MEMORY       ((size_t)300 << 20)
#define FOLDER       ((size_t)4 << 20)
#define OUTPUT_BYTES ((size_t)1 << 20)

static sandbox *box; /* NULL: it cannot be built here, and reason says why */
static hearth_error reason;
static char mark[64]; /* what every program of this test has among its arguments, and nobody else */

static inline void open_box(void)
{
    snprintf(mark, sizeof mark, "hearth-sandbox-test-%d.", (int)getpid());
    if (sandbox_open(&box, &reason) == HEARTH_OK)
        print_message("in %s\n", sandbox_describe(box));
}

static inline void need_box(const char *file, int line)
{
    if (!box) {
        print_message("skipped: %s\n", reason.text);
        skipped_tests++;
        _skip(file, line);
    }
}

/* ------------------------------------------------------------------ what is outside */

static inline size_t count_entries(const char *folder)
{
    size_t count = 0;
    DIR *d = opendir(folder);
    assert_non_null(d);
    while (readdir(d))
        count++;
    closedir(d);
    return count;
}

static inline size_t read_some(const char *path, char *out, size_t size)
{
    int fd = open(path, O_RDONLY | O_CLOEXEC);
    ssize_t got = fd >= 0 ? read(fd, out, size) : 0;
    if (fd >= 0)
        close(fd);
    return got > 0 ? (size_t)got : 0;
}

/* Processes with our mark among their arguments, in all of the machine. */
static inline size_t count_marked(void)
{
    static char text[65536];
    size_t count = 0;
    struct dirent *e;
    DIR *d = opendir("/proc");
    assert_non_null(d);
    while ((e = readdir(d))) {
        char path[300];
        snprintf(path, sizeof path, "/proc/%s/cmdline", e->d_name);
        if (isdigit((unsigned char)*e->d_name) && atoi(e->d_name) != getpid())
            count += memmem(text, read_some(path, text, sizeof text), mark, strlen(mark)) != NULL;
    }
    closedir(d);
    return count;
}

static inline void assert_nothing_is_left(size_t descriptors)
{
    assert_int_equal(count_marked(), 0);
    assert_int_equal(waitpid(-1, NULL, WNOHANG), -1);
    assert_int_equal(errno, ECHILD);
    assert_int_equal(count_entries("/proc/self/fd"), descriptors);
}

#endif
