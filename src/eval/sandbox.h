/* sandbox.h - runs programs that nobody has read: those that a model wrote.
 *
 * A program runs under bubblewrap (bwrap, a command of its own) in namespaces of its own - no network, no other
 * process, no file of this machine but the system folders that a Python needs, read-only - as the user nobody, with
 * no environment and no open descriptor but 0, 1 and 2, and under a filter of system calls (sandbox_filter.h) that
 * refuses further processes and threads, sockets and whatever else an ordinary program does not need. Limits end what
 * takes too long, too much memory or too many words. When sandbox_run returns, everything that it started is gone,
 * and half a second after hearth itself was killed as well.
 *
 * Three ways to build it are tried, see sandbox_open; there is no way to run a program without it.
 * Knows nothing of Python or models. A sandbox may be used by several threads at once. */
#ifndef EVAL_SANDBOX_H
#define EVAL_SANDBOX_H

#include "../base/text.h"

typedef struct sandbox sandbox;

/* Finds a way to build sandboxes by building one: as this user with a user namespace; as root by becoming nobody first
 * and doing the same; as root without a user namespace, where those are forbidden.
 * HEARTH_UNSUPPORTED: none works here; the text says why, in bubblewrap's words where it has some. */
hearth_status sandbox_open(sandbox **out, hearth_error *error);
void sandbox_close(sandbox *s);
/* "bubblewrap, as the user nobody" ... */
const char *sandbox_describe(const sandbox *s);

/* A file that the program finds at `path` (absolute), read-only. */
typedef struct sandbox_file {
    const char *path;
    span content;
} sandbox_file;

#define SANDBOX_FILES 4 /* at most */

typedef struct sandbox_job {
    const char *const *command; /* NULL-terminated; found in the system's folders for programs */
    span input;                 /* what it reads from descriptor 0                             */
    const sandbox_file *files;
    size_t file_count;
    double wall_seconds; /* then it is killed         */
    size_t memory_bytes; /* address space, RLIMIT_AS  */
    /* Of /tmp, where it starts and may write; 0: it can write nowhere. Only bytes are counted: empty files are bounded
     * by time and by the system's limit for such folders, which is one file for every two pages of the machine's. */
    size_t folder_bytes;
    size_t output_bytes;       /* on descriptors 1 and 2 together; more ends it                   */
    bool (*go_on)(void *user); /* asked at least ten times a second; false kills it. NULL: nobody */
    void *user;
} sandbox_job;

typedef enum sandbox_end {
    SANDBOX_EXITED,    /* code: its exit status                                        */
    SANDBOX_SIGNALLED, /* code: the signal (an exit status above 128 reads the same)  */
    SANDBOX_TIMEOUT,   /* killed: wall time                                            */
    SANDBOX_OUTPUT     /* killed: output                                               */
} sandbox_end;

#define SANDBOX_KEPT_BYTES 2048

typedef struct sandbox_result {
    sandbox_end end;
    int code;
    double seconds;                   /* of wall time, building the sandbox included   */
    size_t output_size, output_total; /* bytes kept, and written                      */
    char output[SANDBOX_KEPT_BYTES];  /* its first bytes, not terminated: hostile text */
} sandbox_result;

/* Runs one program to its end. HEARTH_UNSUPPORTED: the sandbox could not be built, or the command is not in it (where
 * there is no user namespace that is exit status 127); nothing ran. HEARTH_CANCELLED: go_on said so. HEARTH_IO,
 * HEARTH_NO_MEMORY: descriptors, processes or memory are short; bubblewrap itself was killed. */
hearth_status sandbox_run(const sandbox *s, const sandbox_job *job, sandbox_result *out, hearth_error *error);

#endif
