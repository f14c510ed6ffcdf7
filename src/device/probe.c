/* probe.c - the child process that asks a driver, and the parent that waits for it. probe_memory.c stores
 * the result.
 *
 * The child is a fork. POSIX guarantees little for the child of a process with threads. But the locks of the C library
 * are usable there (glibc, musl), and the driver's library is not loaded yet, so its locks do not exist. If the child
 * hangs nevertheless, only this call gets a wrong answer: a hang is stored only if the process had a single thread. */
#include "probe.h"

#include "../base/clock.h"

#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

enum {
    VERDICT_FD = 3, /* the child writes here that the driver answered */
    MOST_FOUND = 64,
    POLL_MILLISECONDS = 20 /* between checks of a child whose pipes other processes may hold open */
};

/* ------------------------------------------------------------------ the child */

/* Ends the child in exit() before the inherited exit handlers, which must not run twice. */
static void leave(void)
{
    _exit(1);
}

/* Drops as much as possible of what the child inherited: signal handlers, open files, the terminal's Ctrl-C. */
static void become_plain(int verdict, int said)
{
    static const int signals[] = {SIGABRT, SIGSEGV, SIGBUS, SIGFPE, SIGILL,  SIGTRAP,
                                  SIGSYS,  SIGTERM, SIGINT, SIGHUP, SIGPIPE, SIGALRM};
    setpgid(0, 0);
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    for (size_t i = 0; i < sizeof signals / sizeof *signals; i++)
        signal(signals[i], SIG_DFL);
    sigset_t none;
    sigemptyset(&none);
    sigprocmask(SIG_SETMASK, &none, NULL);
    setrlimit(RLIMIT_CORE, &(struct rlimit){0, 0});
    int nothing = open("/dev/null", O_RDONLY | O_CLOEXEC);
    dup2(nothing, STDIN_FILENO);
    dup2(said, STDOUT_FILENO);
    dup2(said, STDERR_FILENO);
    dup2(verdict, VERDICT_FD);
#ifdef SYS_close_range
    syscall(SYS_close_range, VERDICT_FD + 1, ~0u, 0);
#endif
}

/* The main function of the child: lists the driver's devices and reports success. */
static _Noreturn void ask(const driver *d, int verdict, int said)
{
    /* Moved above the descriptors that become_plain overwrites. */
    verdict = fcntl(verdict, F_DUPFD, VERDICT_FD + 1);
    said = fcntl(said, F_DUPFD, VERDICT_FD + 1);
    become_plain(verdict, said);
    atexit(leave);
    static device_found rows[MOST_FOUND];
    (void)d->list(rows, MOST_FOUND);
    ssize_t written = write(VERDICT_FD, "y", 1);
    _exit(written == 1 ? 0 : 1);
}

/* ------------------------------------------------------------------ the parent */

typedef struct inquiry {
    pid_t child;
    int verdict, said; /* pipes to read from, non-blocking */
    bool silent;       /* `said` is at its end */
    bool mute;         /* `verdict` is at its end */
    bool answered;
    char text[200]; /* the end of what the driver printed */
    size_t used;
} inquiry;

static bool open_pipe(int ends[2])
{
    if (pipe2(ends, O_CLOEXEC) != 0)
        return false;
    return fcntl(ends[0], F_SETFL, O_NONBLOCK) == 0;
}

static void close_ends(const int ends[2])
{
    for (int i = 0; i < 2; i++)
        if (ends[i] >= 0)
            close(ends[i]);
}

/* Starts the child. False: errno says why. */
static bool begin(inquiry *q, const driver *d)
{
    int verdict[2] = {-1, -1}, said[2] = {-1, -1};
    pid_t child = open_pipe(verdict) && open_pipe(said) ? fork() : -1;
    if (child == 0)
        ask(d, verdict[1], said[1]);
    if (child < 0) {
        int reason = errno;
        close_ends(verdict);
        close_ends(said);
        errno = reason;
        return false;
    }
    setpgid(child, child); /* also in the child; either may run first */
    close(verdict[1]);
    close(said[1]);
    *q = (inquiry){.child = child, .verdict = verdict[0], .said = said[0]};
    return true;
}

/* Reads what the pipes contain and keeps the end of it. Limited, since a driver may print without end. */
static void listen_to(inquiry *q)
{
    enum { MOST_PIECES = 256 }; /* a pipe holds 64 KiB */
    char piece[256], c;
    ssize_t n = 1;
    for (int i = 0; i < MOST_PIECES && (n = read(q->said, piece, sizeof piece)) > 0; i++)
        for (ssize_t k = 0; k < n; k++) {
            if (q->used == sizeof q->text - 1)
                memmove(q->text, q->text + 1, --q->used);
            q->text[q->used++] = piece[k];
        }
    q->silent = n == 0;
    n = read(q->verdict, &c, 1);
    q->mute = n == 0;
    q->answered |= n == 1 && c == 'y';
}

/* Waits until the child answers or ends, then kills its process group; kills it also when the time is over. Returns its
 * status as from waitpid, 0 if another thread has already waited for it; *late: its time was over. */
static int wait_for(inquiry *q, double patience_seconds, bool *late)
{
    double end = clock_seconds() + patience_seconds;
    *late = false;
    for (;;) {
        struct pollfd fds[] = {{q->mute ? -1 : q->verdict, POLLIN, 0}, {q->silent ? -1 : q->said, POLLIN, 0}};
        poll(fds, 2, POLL_MILLISECONDS);
        listen_to(q);
        siginfo_t ended = {0}; /* WNOWAIT keeps the zombie, so that its number is not reused */
        bool gone = waitid(P_PID, (id_t)q->child, &ended, WEXITED | WNOHANG | WNOWAIT) != 0 || ended.si_pid != 0;
        if (!gone && !q->answered && clock_seconds() < end)
            continue;
        kill(-q->child, SIGKILL); /* and the processes that the driver has started */
        int status = 0;
        while (waitpid(q->child, &status, 0) < 0 && errno == EINTR)
            ;
        listen_to(q); /* what came in the meantime */
        *late = !gone && !q->answered;
        return status;
    }
}

/* Returns the last line that is not empty, in plain ASCII. */
static const char *last_line(inquiry *q)
{
    while (q->used > 0 && strchr("\r\n ", q->text[q->used - 1]))
        q->used--;
    q->text[q->used] = 0;
    char *newline = strrchr(q->text, '\n'), *line = newline ? newline + 1 : q->text;
    for (char *c = line; *c; c++)
        if (*c < ' ' || *c > '~')
            *c = '?';
    return line;
}

/* Returns whether a fault of the driver caused the signal, so that it will come again. */
static bool is_own(int signal_number)
{
    static const int own[] = {SIGABRT, SIGSEGV, SIGBUS, SIGFPE, SIGILL, SIGTRAP, SIGSYS};
    for (size_t i = 0; i < sizeof own / sizeof *own; i++)
        if (own[i] == signal_number)
            return true;
    return false;
}

/* Returns the number of threads of this process, 0 if unknown. */
static size_t thread_count(void)
{
    struct stat tasks;
    return stat("/proc/self/task", &tasks) == 0 && tasks.st_nlink > 2 ? tasks.st_nlink - 2 : 0;
}

/* Asks in a child; `problem` is empty if the driver answered. Returns whether the result should be stored. */
static bool ask_in_child(const driver *d, double patience_seconds, char problem[PROBE_TEXT_SIZE])
{
    inquiry q;
    bool alone = thread_count() == 1, late;
    problem[0] = 0;
    if (!begin(&q, d)) {
        snprintf(problem, PROBE_TEXT_SIZE, "cannot be asked in a process of its own: %s", strerror(errno));
        return false;
    }
    int status = wait_for(&q, patience_seconds, &late);
    close(q.verdict);
    close(q.said);
    if (q.answered)
        return true;
    const char *line = last_line(&q), *colon = *line ? ": " : "";
    if (late) {
        snprintf(problem, PROBE_TEXT_SIZE, "its driver does not answer within %g seconds%s%s", patience_seconds, colon,
                 line);
        return alone;
    }
    if (WIFSIGNALED(status)) {
        snprintf(problem, PROBE_TEXT_SIZE, "its driver kills the program that asks it (%s)%s%s",
                 strsignal(WTERMSIG(status)), colon, line);
        return is_own(WTERMSIG(status));
    }
    snprintf(problem, PROBE_TEXT_SIZE, "its driver ends the program that asks it%s%s", colon, line);
    return true;
}

/* Returns whether the driver's library is loaded in this process already, by an earlier call or by the program. A child
 * might not be able to use it then: CUDA does not work after a fork. */
static bool is_loaded(const driver *d)
{
    void *library = dlopen(d->library, RTLD_LAZY | RTLD_NOLOAD);
    if (library)
        dlclose(library);
    return library != NULL;
}

bool probe_driver(const driver *d, const char *cache_folder, double patience_seconds, char problem[PROBE_TEXT_SIZE])
{
    problem[0] = 0;
    if (!d->library || is_loaded(d))
        return true;
    char key[PROBE_KEY_SIZE];
    if (cache_folder) {
        probe_key(key, d);
        if (probe_recall(d, cache_folder, key, problem))
            return problem[0] == 0;
    }
    if (ask_in_child(d, patience_seconds, problem) && cache_folder)
        probe_remember(d, cache_folder, key, problem);
    return problem[0] == 0;
}
