/* sandbox.h - runs untrusted programs: those that a model wrote.
 *
 * A program runs under bubblewrap (the command bwrap) in its own namespaces: no network, no other process, and of this
 * machine's files only the system folders that Python needs, read-only. It runs as the user nobody, with no environment
 * and no open descriptor but 0, 1 and 2, and under a filter of system calls (sandbox_filter.c) that refuses further
 * processes and threads, sockets and whatever else an ordinary program does not need. Limits end a program that takes
 * too much time or memory or writes too much output. When sandbox_run returns, everything that it started is gone; if
 * hearth itself is killed, everything is gone half a second later.
 *
 * Three ways to build the sandbox are tried, see sandbox_open; no program is ever run without it. Knows nothing of
 * Python or models. Several threads may use one sandbox at once. */
#ifndef EVAL_SANDBOX_H
#define EVAL_SANDBOX_H

#include "../base/text.h"

typedef struct sandbox sandbox;

/* Finds a way to build sandboxes by building one: as this user with a user namespace; as root by becoming nobody first
 * and doing the same; as root without a user namespace, where those are forbidden.
 * HEARTH_UNSUPPORTED: none works here; the error says why, quoting bubblewrap where possible. */
hearth_status sandbox_open(sandbox **out, hearth_error *error);
void sandbox_close(sandbox *s);
/* Returns a description, such as "bubblewrap, as the user nobody". */
const char *sandbox_describe(const sandbox *s);

/* A file that the program finds, read-only, at the absolute `path`. */
typedef struct sandbox_file {
    const char *path;
    span content;
} sandbox_file;

#define SANDBOX_FILES 4 /* at most */

typedef struct sandbox_job {
    const char *const *command; /* NULL-terminated; searched for in the system's program folders */
    span input;                 /* the program's standard input */
    const sandbox_file *files;
    size_t file_count;
    double wall_seconds; /* the program is killed after this */
    size_t memory_bytes; /* address space, RLIMIT_AS  */
    /* Size of /tmp, where the program starts and may write; 0: it can write nowhere. Only bytes are counted: the number
     * of empty files is bounded by time and by the system's limit for such folders, one file for every two pages of
     * memory. */
    size_t folder_bytes;
    size_t output_bytes;       /* on descriptors 1 and 2 together; the program is killed above it */
    bool (*go_on)(void *user); /* called at least ten times a second; false kills the program. NULL: not called */
    void *user;
} sandbox_job;

typedef enum sandbox_end {
    SANDBOX_EXITED,    /* code: the exit status */
    SANDBOX_SIGNALLED, /* code: the signal (an exit status above 128 reads the same)  */
    SANDBOX_TIMEOUT,   /* killed: out of wall time */
    SANDBOX_OUTPUT     /* killed: too much output */
} sandbox_end;

#define SANDBOX_STORED_BYTES 2048

typedef struct sandbox_result {
    sandbox_end end;
    int code;
    double seconds;                    /* wall time, including building the sandbox */
    size_t output_size, output_total;  /* bytes stored in `output`, and bytes written in all */
    char output[SANDBOX_STORED_BYTES]; /* the first bytes of the output, not terminated; untrusted text */
} sandbox_result;

/* Runs one program to its end. HEARTH_UNSUPPORTED: the sandbox could not be built, or the command is not in it (without
 * a user namespace this shows as exit status 127 instead); nothing ran. HEARTH_CANCELLED: go_on returned false.
 * HEARTH_IO, HEARTH_NO_MEMORY: descriptors, processes or memory are short, or bubblewrap itself was killed. */
hearth_status sandbox_run(const sandbox *s, const sandbox_job *job, sandbox_result *out, hearth_error *error);

#endif
