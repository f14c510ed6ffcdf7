/* sandbox.c - runs one program at a time under bubblewrap.
 *
 *     hearth --fork--> keeper --fork--> child: limits, user nobody --exec--> bwrap --> init (process 1) --> the program
 *
 * bwrap builds the namespaces. It writes to a pipe the pid of its init and, at the end, the program's status; if no
 * status comes, nothing ran, and bwrap's output is the reason. bwrap waits before it starts the program, so that hearth
 * can open a handle of the init (a pidfd: pids are reused, handles are not) while the init certainly lives. Killing the
 * init kills everything in the namespace, and its handle tells when the last process is gone.
 *
 * If hearth itself is killed, the keeper notices and kills bwrap, and the kernel then kills the init. (If bwrap died
 * together with hearth, it could leave behind an init that is not yet bound to it and goes on; this happened at one in
 * six of the moments at which hearth was killed.) If the keeper is killed as well, the limit on processor time ends the
 * program. */
#include "sandbox_internal.h"

#include "../base/clock.h"
#include "../base/json.h"

#include <errno.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#define SETUP_SECONDS  30.0 /* for bwrap to report its init, on a busy machine */
#define ENDING_SECONDS 30.0 /* for killed processes to be gone */

static const sandbox_way ways[] = {
    {"bubblewrap, in a user namespace", false, false, true},
    {"bubblewrap, as the user nobody", true, true, true},
    {"bubblewrap, as the user nobody, without a user namespace", true, false, false},
};

/* A running job. */
typedef struct run {
    launch launch;
    int keeper, init; /* pidfds of the keeper and of the first process in the namespace */
    pid_t pid;        /* the keeper's; 0: there is none to wait for */
    char said[4096];  /* from bwrap's status pipe: the beginning of a line */
    size_t said_size;
    bool has_code;
    int wait_status; /* the keeper's, as waitpid gives it */
    sandbox_result result;
} run;

/* ------------------------------------------------------------------ handles of processes */

static int open_handle(pid_t pid)
{
    return (int)syscall(SYS_pidfd_open, pid, 0);
}

static void kill_by_handle(int handle)
{
    if (handle >= 0)
        syscall(SYS_pidfd_send_signal, handle, SIGKILL, NULL, 0);
}

/* Waits until the process of a handle is gone; false: it is still there. */
static bool wait_for_handle(int handle)
{
    double end = clock_seconds() + ENDING_SECONDS;
    struct pollfd what = {handle, POLLIN, 0};
    while (handle >= 0) {
        double left = end - clock_seconds();
        int ready = left > 0 ? poll(&what, 1, (int)(1e3 * left) + 1) : 0;
        if (ready > 0)
            return true;
        if (ready == 0 || errno != EINTR)
            return false;
    }
    return true;
}

/* ------------------------------------------------------------------ what comes through the pipes */

static bool may_come_more(ssize_t read_size)
{
    return read_size > 0 || (read_size < 0 && (errno == EAGAIN || errno == EINTR));
}

/* Reads the program's output; false once there will be no more. */
static bool take_output(run *r)
{
    char block[16384];
    sandbox_result *result = &r->result;
    ssize_t size = read(r->launch.output, block, sizeof block);
    if (size > 0) {
        size_t room = sizeof result->output - result->output_size;
        size_t stored = (size_t)size < room ? (size_t)size : room;
        memcpy(result->output + result->output_size, block, stored);
        result->output_size += stored;
        result->output_total += (size_t)size;
    }
    return may_come_more(size);
}

/* Opens a handle of the init, then tells bwrap to start the program. */
static hearth_status let_begin(run *r, pid_t init, hearth_error *error)
{
    r->init = open_handle(init);
    if (r->init < 0) {
        bool is_gone = errno == ESRCH;
        hearth_status status = fail_errno(error, "sandbox", "handle of its first process");
        if (!is_gone)
            kill(init, SIGKILL);
        return status;
    }
    if (send(r->launch.block, "", 1, MSG_NOSIGNAL) != 1)
        return fail_errno(error, "sandbox", "letting it begin");
    return HEARTH_OK;
}

/* Handles a line of JSON: the init's pid, or at the end the status. */
static hearth_status read_line(run *r, const char *line, size_t size, hearth_error *error)
{
    static const char name[] = "sandbox: status";
    json_t *o;
    uint32_t number;
    bool found = false;
    TRY(json_parse(&o, line, size, name, error));
    hearth_status status = json_get_uint(o, "exit-code", &number, &found, name, error);
    if (status == HEARTH_OK && found) {
        r->has_code = true;
        r->result.code = (int)number;
    } else if (status == HEARTH_OK) {
        status = json_get_uint(o, "child-pid", &number, &found, name, error);
        if (status == HEARTH_OK && found && r->init < 0)
            status = let_begin(r, (pid_t)number, error);
    }
    json_decref(o);
    return status;
}

/* Reads bwrap's status lines; *more: false once there will be no more. */
static hearth_status take_status(run *r, bool *more, hearth_error *error)
{
    ssize_t size = read(r->launch.status, r->said + r->said_size, sizeof r->said - r->said_size);
    *more = may_come_more(size);
    r->said_size += size > 0 ? (size_t)size : 0;
    for (char *end; (end = memchr(r->said, '\n', r->said_size));) {
        size_t line = (size_t)(end - r->said);
        hearth_status status = read_line(r, r->said, line, error);
        r->said_size -= line + 1;
        memmove(r->said, end + 1, r->said_size);
        TRY(status);
    }
    return r->said_size < sizeof r->said ? HEARTH_OK
                                         : fail(error, HEARTH_UNSUPPORTED, "sandbox: status: a line has no end");
}

/* ------------------------------------------------------------------ watching */

/* Decides whether the program has to be ended, and as what. While its init is unknown bwrap is left alone: killing it
 * then would leave behind a process that waits for it. */
static bool is_over(run *r, double seconds, hearth_status *status, hearth_error *error)
{
    const sandbox_job *job = r->launch.job;
    if (r->init < 0 && seconds < SETUP_SECONDS)
        return false;
    if (r->init < 0)
        *status = fail(error, HEARTH_UNSUPPORTED, "sandbox: bubblewrap does not begin");
    else if (job->go_on && !job->go_on(job->user))
        *status = fail(error, HEARTH_CANCELLED, "sandbox: cancelled");
    else if (r->result.output_total > job->output_bytes)
        r->result.end = SANDBOX_OUTPUT;
    else if (seconds >= job->wall_seconds)
        r->result.end = SANDBOX_TIMEOUT;
    else
        return false;
    return true;
}

/* Returns the milliseconds until the next check is due. */
static int patience(const run *r, double seconds)
{
    const int regular = 100;
    double left = 1e3 * (r->launch.job->wall_seconds - seconds);
    if (r->init < 0 || left > regular)
        return regular;
    return left > 0 ? (int)left + 1 : 0;
}

/* Runs until everything has ended, or has to be ended. */
static hearth_status watch(run *r, hearth_error *error)
{
    enum { OUTPUT, STATUS, KEEPER, COUNT };
    struct pollfd all[COUNT] = {{r->launch.output, POLLIN, 0}, {r->launch.status, POLLIN, 0}, {r->keeper, POLLIN, 0}};
    hearth_status status = HEARTH_OK;
    double begin = clock_seconds();
    for (;;) {
        bool started = r->init >= 0, more = true;
        int ready = poll(all, COUNT, patience(r, clock_seconds() - begin));
        if (ready < 0 && errno != EINTR)
            return fail_errno(error, "sandbox", "poll");
        if (ready > 0 && all[OUTPUT].revents && !take_output(r))
            all[OUTPUT].fd = -1; /* all write ends are closed */
        if (ready > 0 && all[STATUS].revents)
            TRY(take_status(r, &more, error));
        if (!more)
            all[STATUS].fd = -1;
        if (!started && r->init >= 0)
            begin = clock_seconds(); /* the time limit counts from here */
        /* A program that has ended did so in time, even if this loop notices late. */
        bool ended = ready > 0 && all[KEEPER].revents;
        if (ended || is_over(r, clock_seconds() - begin, &status, error))
            return status;
    }
}

/* Ends everything and waits for the child, whatever happened before. The init goes first, so that bwrap and then the
 * keeper clean up and end by themselves; where the init is not known yet the keeper kills it. */
static hearth_status end_all(run *r, hearth_status status, hearth_error *error)
{
    kill_by_handle(r->init);
    launch_close_block(&r->launch);
    bool gone = wait_for_handle(r->keeper);
    if (!gone) {
        kill_by_handle(r->keeper);
        gone = wait_for_handle(r->keeper);
    }
    gone = wait_for_handle(r->init) && gone;
    while (waitpid(r->pid, &r->wait_status, gone ? 0 : WNOHANG) < 0 && errno == EINTR)
        ;
    if (!gone && status == HEARTH_OK)
        return fail(error, HEARTH_IO, "sandbox: a program that was killed does not end");
    return status;
}

/* Reads what is left in the pipes after all processes have ended. */
static hearth_status take_rest(run *r, hearth_error *error)
{
    bool more = true;
    for (size_t before = SIZE_MAX; before != r->result.output_total;) {
        before = r->result.output_total;
        take_output(r);
    }
    for (size_t before = SIZE_MAX; more && before != r->said_size;) {
        before = r->said_size;
        TRY(take_status(r, &more, error));
    }
    return HEARTH_OK;
}

/* Reports why bwrap gave no status: it could not start the program, and its message is in the common output. If bwrap
 * itself was killed, perhaps by the system for lack of memory, the output is the program's, and is not quoted. */
static hearth_status fail_build(const run *r, hearth_error *error)
{
    const sandbox_result *result = &r->result;
    size_t size = 0;
    if (WIFSIGNALED(r->wait_status) || WEXITSTATUS(r->wait_status) > 128)
        return fail(error, HEARTH_IO, "sandbox: bubblewrap was killed");
    while (size < result->output_size && result->output[size] != '\n')
        size++;
    if (size == 0)
        return fail(error, HEARTH_UNSUPPORTED, "sandbox: bubblewrap ended without a word");
    return fail(error, HEARTH_UNSUPPORTED, "sandbox: %.*s", (int)size, result->output);
}

static hearth_status conclude(run *r, hearth_error *error)
{
    sandbox_result *result = &r->result;
    TRY(take_rest(r, error));
    if (result->end == SANDBOX_TIMEOUT || result->end == SANDBOX_OUTPUT)
        return HEARTH_OK;
    if (!r->has_code)
        return fail_build(r, error);
    if (result->output_total > r->launch.job->output_bytes) {
        result->end = SANDBOX_OUTPUT;
    } else if (result->code > 128) {
        result->end = SANDBOX_SIGNALLED;
        result->code -= 128;
    }
    return HEARTH_OK;
}

/* ------------------------------------------------------------------ running */

static hearth_status start(run *r, hearth_error *error)
{
    TRY(launch_prepare(&r->launch, error));
    r->pid = fork();
    if (r->pid == 0)
        launch_become_keeper(&r->launch);
    if (r->pid < 0) {
        r->pid = 0;
        return fail_errno(error, "sandbox", "fork");
    }
    launch_close_given(&r->launch);
    r->keeper = open_handle(r->pid);
    return r->keeper >= 0 ? HEARTH_OK : fail_errno(error, "sandbox", "handle of a process");
}

static hearth_status check_job(const sandbox_job *job, hearth_error *error)
{
    if (!job->command || !*job->command || job->file_count > SANDBOX_FILES)
        return fail(error, HEARTH_INVALID, "sandbox: no command, or too many files");
    if (!(job->wall_seconds > 0 && job->wall_seconds < 1e6) || job->memory_bytes == 0)
        return fail(error, HEARTH_INVALID, "sandbox: a limit is missing");
    return HEARTH_OK;
}

hearth_status sandbox_run(const sandbox *s, const sandbox_job *job, sandbox_result *out, hearth_error *error)
{
    TRY(check_job(job, error));
    run *r = mem_new(sizeof *r);
    if (!r)
        return fail_memory(error, "sandbox", sizeof *r);
    r->launch.sandbox = s;
    r->launch.job = job;
    r->keeper = r->init = -1;
    double begin = clock_seconds();
    hearth_status status = start(r, error);
    if (status == HEARTH_OK)
        status = watch(r, error);
    if (r->pid > 0)
        status = end_all(r, status, error);
    if (status == HEARTH_OK)
        status = conclude(r, error);
    r->result.seconds = clock_seconds() - begin;
    if (status == HEARTH_OK)
        *out = r->result;
    launch_close(&r->launch);
    if (r->keeper >= 0)
        close(r->keeper);
    if (r->init >= 0)
        close(r->init);
    mem_free(r);
    return status;
}

/* ------------------------------------------------------------------ finding a way */

/* Finds bwrap on the user's PATH. */
static hearth_status find_bwrap(char **out, hearth_error *error)
{
    const char *path = getenv("PATH");
    for (const char *at = path ? path : "/usr/bin:/bin", *end; *at; at = *end ? end + 1 : end) {
        end = strchrnul(at, ':');
        buffer candidate = {0};
        if (*at != '/')
            continue;
        if (!buffer_put(&candidate, at, (size_t)(end - at)) || !buffer_put(&candidate, "/bwrap", sizeof "/bwrap")) {
            buffer_free(&candidate);
            return fail_memory(error, "sandbox", sizeof "/bwrap");
        }
        if (access(candidate.data, X_OK) == 0) {
            *out = candidate.data;
            return HEARTH_OK;
        }
        buffer_free(&candidate);
    }
    return fail(error, HEARTH_UNSUPPORTED,
                "sandbox: bwrap: is not installed (Debian's package bubblewrap); nothing is run without it");
}

/* Checks whether a program runs this way and succeeds. */
static hearth_status try_way(const sandbox *s, hearth_error *error)
{
    static const char *const command[] = {"true", NULL};
    const sandbox_job job = {.command = command,
                             .wall_seconds = SETUP_SECONDS,
                             .memory_bytes = (size_t)1 << 30,
                             .folder_bytes = 1 << 16,
                             .output_bytes = 1 << 16};
    sandbox_result result;
    TRY(sandbox_run(s, &job, &result, error));
    if (result.end == SANDBOX_EXITED && result.code == 0)
        return HEARTH_OK;
    return fail(error, HEARTH_UNSUPPORTED, "sandbox: `true` fails in it: %.*s", (int)result.output_size, result.output);
}

/* Takes the first way that works. If none does, reports the failure of the first, preferred one. */
static hearth_status find_way(sandbox *s, hearth_error *error)
{
    bool root = geteuid() == 0;
    hearth_error reason = {.status = HEARTH_OK};
    for (size_t i = 0; i < sizeof ways / sizeof *ways; i++) {
        hearth_error now;
        if (ways[i].for_root != root)
            continue;
        s->way = &ways[i];
        hearth_status status = try_way(s, &now);
        if (status == HEARTH_OK)
            return HEARTH_OK;
        if (status != HEARTH_UNSUPPORTED)
            return fail(error, status, "%s", now.text);
        if (reason.status == HEARTH_OK)
            reason = now;
    }
    return fail(error, HEARTH_UNSUPPORTED, "%s", reason.text);
}

hearth_status sandbox_open(sandbox **out, hearth_error *error)
{
    sandbox *s = mem_new(sizeof *s);
    if (!s)
        return fail_memory(error, "sandbox", sizeof *s);
    hearth_status status;
    s->filter_size = sandbox_filter_build(s->filter);
    if (s->filter_size == 0)
        status = fail(error, HEARTH_UNSUPPORTED, "sandbox: hearth has no filter of system calls for this processor");
    else
        status = find_bwrap(&s->bwrap, error);
    if (status == HEARTH_OK)
        status = find_way(s, error);
    if (status != HEARTH_OK) {
        sandbox_close(s);
        return status;
    }
    *out = s;
    return HEARTH_OK;
}

const char *sandbox_describe(const sandbox *s)
{
    return s->way->name;
}

void sandbox_close(sandbox *s)
{
    if (!s)
        return;
    mem_free(s->bwrap);
    mem_free(s);
}
