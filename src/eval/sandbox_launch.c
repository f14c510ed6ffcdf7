/* sandbox_launch.c - builds bwrap's arguments, and the keeper process that guards bwrap.
 *
 * Between fork and exec the child of a multithreaded program may only make system calls, so everything that it needs is
 * prepared before the fork. RLIMIT_NPROC is not used: it counts all processes of a user, so bwrap itself would fail for
 * a user who has many, and it does not apply to root; the filter refuses the first new process instead. There is no
 * /proc: Python does not need it, and without it sandboxes can be built in containers that forbid mounting it. */
#include "sandbox_internal.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#define NOBODY     65534
#define FIRST_FREE 32  /* the parent's descriptors lie above those that the child arranges for bwrap */
#define GRACE_MS   500 /* see watch() */

static void close_one(int *fd)
{
    if (*fd >= 0)
        close(*fd);
    *fd = -1;
}

/* ------------------------------------------------------------------ bwrap's arguments */

static void add(launch *l, const char *argument)
{
    l->overflow = l->overflow || !argument || l->argument_count + 1 >= LAUNCH_ARGUMENTS;
    if (!l->overflow)
        l->arguments[l->argument_count++] = argument;
}

static void add_all(launch *l, const char *const *arguments)
{
    for (; *arguments; arguments++)
        add(l, *arguments);
}

static void add_number(launch *l, size_t number)
{
    char text[24];
    int size = snprintf(text, sizeof text, "%zu", number);
    add(l, arena_copy_text(&l->memory, text, (size_t)size));
}

#define ADD(l, ...) add_all(l, (const char *const[]){__VA_ARGS__, NULL})

/* Binds the folders of the system's programs and creates their parents; symbolic links stay links. Parents come before
 * the folders inside them. */
static void add_folders(launch *l)
{
    static const char *const parents[] = {"/usr", "/usr/local"};
    static const char *const folders[] = {"/usr/bin",       "/usr/lib", "/usr/lib64", "/usr/local/bin",
                                          "/usr/local/lib", "/bin",     "/lib",       "/lib64"};
    for (size_t i = 0; i < sizeof parents / sizeof *parents; i++)
        ADD(l, "--perms", "0755", "--dir", parents[i]);
    for (size_t i = 0; i < sizeof folders / sizeof *folders; i++) {
        struct stat about;
        char target[256];
        if (lstat(folders[i], &about) != 0)
            continue;
        ssize_t size = S_ISLNK(about.st_mode) ? readlink(folders[i], target, sizeof target - 1) : 0;
        if (S_ISDIR(about.st_mode)) {
            ADD(l, "--ro-bind", folders[i], folders[i]);
        } else if (size > 0) {
            add(l, "--symlink"); /* not by ADD, whose list would end at a NULL from a failed copy */
            add(l, arena_copy_text(&l->memory, target, (size_t)size));
            add(l, folders[i]);
        }
    }
    /* Single devices instead of bwrap's --dev, whose /dev/shm is writable without a limit. */
    ADD(l, "--perms", "0755", "--dir", "/dev", "--dev-bind", "/dev/null", "/dev/null", "--dev-bind", "/dev/urandom",
        "/dev/urandom");
}

static void add_files(launch *l)
{
    for (size_t i = 0; i < l->job->file_count; i++) {
        ADD(l, "--perms", "0444", "--file");
        add_number(l, FILE_FD + i);
        add(l, l->job->files[i].path);
    }
    if (l->job->folder_bytes > 0) {
        ADD(l, "--perms", "1777", "--size");
        add_number(l, l->job->folder_bytes);
        ADD(l, "--tmpfs", "/tmp");
    }
    ADD(l, "--remount-ro", "/", "--chdir", l->job->folder_bytes > 0 ? "/tmp" : "/");
}

static hearth_status build_arguments(launch *l, hearth_error *error)
{
    const sandbox_way *w = l->sandbox->way;
    ADD(l, "bwrap", "--unshare-ipc", "--unshare-pid", "--unshare-net", "--unshare-uts", "--unshare-cgroup-try",
        "--die-with-parent", "--new-session", "--hostname", "sandbox", "--clearenv");
    if (w->user_namespace)
        ADD(l, "--unshare-user", "--uid", "65534", "--gid", "65534");
    else /* setpriv, below, drops these */
        ADD(l, "--cap-drop", "ALL", "--cap-add", "CAP_SETUID", "--cap-add", "CAP_SETGID", "--cap-add", "CAP_SETPCAP");
    ADD(l, "--setenv", "PATH", "/usr/bin:/bin:/usr/local/bin", "--setenv", "HOME", "/", "--setenv", "LANG", "C.UTF-8");
    add_folders(l);
    add_files(l);
    ADD(l, "--json-status-fd");
    add_number(l, STATUS_FD);
    ADD(l, "--block-fd");
    add_number(l, BLOCK_FD);
    ADD(l, "--seccomp");
    add_number(l, FILTER_FD);
    add(l, "--");
    if (!w->user_namespace)
        ADD(l, "setpriv", "--reuid", "65534", "--regid", "65534", "--clear-groups", "--bounding-set=-all",
            "--inh-caps=-all", "--");
    add_all(l, l->job->command);
    return l->overflow ? fail(error, HEARTH_NO_MEMORY, "sandbox: arguments: too many, or no memory for them")
                       : HEARTH_OK;
}

/* ------------------------------------------------------------------ descriptors */

/* Moves a descriptor above those that the child arranges. false: errno. */
static bool lift(int *fd)
{
    int lifted = fcntl(*fd, F_DUPFD_CLOEXEC, FIRST_FREE);
    close(*fd);
    *fd = lifted;
    return lifted >= 0;
}

/* Gives one end to the child; the parent has the other, made non-blocking. */
static hearth_status share_ends(launch *l, int *ours, const int ends[2], hearth_error *error)
{
    int *theirs = &l->given[l->given_count++];
    *ours = ends[0];
    *theirs = ends[1];
    bool lifted = lift(ours); /* both, or one would stay open */
    if (!lift(theirs) || !lifted || fcntl(*ours, F_SETFL, O_NONBLOCK) != 0)
        return fail_errno(error, "sandbox", "descriptors");
    return HEARTH_OK;
}

/* Opens a pipe that the child writes and the parent reads. */
static hearth_status open_pipe(launch *l, int *ours, hearth_error *error)
{
    int ends[2];
    return pipe2(ends, O_CLOEXEC) == 0 ? share_ends(l, ours, ends, error) : fail_errno(error, "sandbox", "pipe");
}

static hearth_status give_copy(launch *l, int fd, hearth_error *error)
{
    int *copy = &l->given[l->given_count++];
    *copy = fcntl(fd, F_DUPFD_CLOEXEC, FIRST_FREE);
    return *copy >= 0 ? HEARTH_OK : fail_errno(error, "sandbox", "descriptors");
}

/* Opens the channel in the other direction: a socket, because its writes can avoid SIGPIPE. */
static hearth_status open_block(launch *l, hearth_error *error)
{
    int ends[2];
    return socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends) == 0 ? share_ends(l, &l->block, ends, error)
                                                                         : fail_errno(error, "sandbox", "socket");
}

static bool write_whole(int fd, const char *data, size_t size)
{
    while (size > 0) {
        ssize_t written = write(fd, data, size);
        if (written < 0 && errno == EINTR)
            continue;
        if (written <= 0)
            return false;
        data += written;
        size -= (size_t)written;
    }
    return true;
}

/* Puts the content in a memory file that is sealed against changes and is read from its beginning. */
static hearth_status open_content(launch *l, span content, hearth_error *error)
{
    int *fd = &l->given[l->given_count++];
    *fd = memfd_create("hearth-sandbox", MFD_CLOEXEC | MFD_ALLOW_SEALING);
    if (*fd < 0 || !lift(fd) || !write_whole(*fd, content.data, content.size) || lseek(*fd, 0, SEEK_SET) != 0 ||
        fcntl(*fd, F_ADD_SEALS, F_SEAL_SEAL | F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_WRITE) != 0)
        return fail_errno(error, "sandbox", "file in memory");
    return HEARTH_OK;
}

/* Opens all descriptors in the order in which the child numbers them. */
static hearth_status open_descriptors(launch *l, hearth_error *error)
{
    const sandbox *s = l->sandbox;
    TRY(open_content(l, l->job->input, error));
    TRY(open_pipe(l, &l->output, error));
    TRY(give_copy(l, l->given[1], error)); /* descriptor 2 is the same pipe as 1 */
    TRY(open_pipe(l, &l->status, error));
    TRY(give_copy(l, l->status, error));
    TRY(open_block(l, error));
    TRY(open_content(l, (span){(const char *)s->filter, s->filter_size * sizeof *s->filter}, error));
    for (size_t i = 0; i < l->job->file_count; i++)
        TRY(open_content(l, l->job->files[i].content, error));
    return HEARTH_OK;
}

hearth_status launch_prepare(launch *l, hearth_error *error)
{
    l->output = l->status = l->block = -1;
    TRY(open_descriptors(l, error));
    return build_arguments(l, error);
}

void launch_close_given(launch *l)
{
    for (size_t i = 0; i < l->given_count; i++)
        close_one(&l->given[i]);
}

void launch_close_block(launch *l)
{
    close_one(&l->block);
}

void launch_close(launch *l)
{
    launch_close_given(l);
    launch_close_block(l);
    close_one(&l->output);
    close_one(&l->status);
    arena_clear(&l->memory);
}

/* ------------------------------------------------------------------ the child */

/* Writes the reason to standard error, where bwrap writes its own. */
static _Noreturn void give_up(const char *why)
{
    ssize_t written = write(STDERR_FILENO, why, strlen(why));
    (void)written;
    _exit(126);
}

/* Uses system calls directly: the GNU C library's functions would signal all threads, which the child does not have. */
static bool become_nobody(void)
{
    return syscall(SYS_setgroups, 0, NULL) == 0 && syscall(SYS_setresgid, NOBODY, NOBODY, NOBODY) == 0 &&
           syscall(SYS_setresuid, NOBODY, NOBODY, NOBODY) == 0;
}

/* Lowers a limit to `most`; a stricter one stays. The filter refuses all further changes. */
static void limit(int resource, rlim_t most, rlim_t hard)
{
    struct rlimit now, wanted;
    if (syscall(SYS_prlimit64, 0, resource, NULL, &now) != 0)
        give_up("cannot read a limit");
    wanted.rlim_max = hard < now.rlim_max ? hard : now.rlim_max;
    wanted.rlim_cur = most < wanted.rlim_max ? most : wanted.rlim_max;
    if (syscall(SYS_prlimit64, 0, resource, &wanted, NULL) != 0)
        give_up("cannot set a limit");
}

/* Limits that are the same for every job. */
static const struct {
    int resource;
    rlim_t most;
} fixed_limits[] = {
    {RLIMIT_CORE, 1}, /* 1 byte: no core file; for 0 the system would still call a crash handler */
    {RLIMIT_MEMLOCK, 0},
    {RLIMIT_MSGQUEUE, 0},
    {RLIMIT_SIGPENDING, 64}, /* the system counts them per user, not per sandbox */
    {RLIMIT_RTPRIO, 0},      /* no real-time priority, even if the user may use it (as for audio) */
    {RLIMIT_NICE, 0},
    {RLIMIT_NOFILE, 64},
    {RLIMIT_STACK, (rlim_t)64 << 20},
};

static void set_limits(const sandbox_job *job)
{
    /* Twice the wall time plus two seconds: the wall clock ends a program first, as long as hearth and the keeper
     * live. */
    const rlim_t cpu = (rlim_t)(2 * job->wall_seconds) + 2;
    const rlim_t least_file = 16u << 20, file = job->folder_bytes > least_file ? job->folder_bytes : least_file;
    for (size_t i = 0; i < sizeof fixed_limits / sizeof *fixed_limits; i++)
        limit(fixed_limits[i].resource, fixed_limits[i].most, fixed_limits[i].most);
    limit(RLIMIT_CPU, cpu, cpu + 1);
    limit(RLIMIT_FSIZE, file, file);
    /* Last, because it may leave this process no memory at all */
    limit(RLIMIT_AS, job->memory_bytes, job->memory_bytes);
}

/* Makes descriptors 0 .. given_count - 1 what bwrap expects, and closes all others. */
static void line_up_descriptors(const launch *l)
{
    for (size_t i = 0; i < l->given_count; i++)
        if (dup2(l->given[i], (int)i) < 0)
            give_up("cannot pass descriptors on");
    if (syscall(SYS_close_range, (unsigned)l->given_count, ~0u, 0) != 0)
        give_up("cannot close descriptors");
}

static void reset_signals(void)
{
    sigset_t none;
    for (int number = 1; number < NSIG; number++)
        signal(number, SIG_DFL); /* fails for some, which cannot be changed */
    sigemptyset(&none);
    sigprocmask(SIG_SETMASK, &none, NULL);
}

/* Turns the child into bwrap, which dies when the keeper does. */
static _Noreturn void become_bwrap(const launch *l, pid_t keeper)
{
    static char *const no_environment[] = {NULL};
    close(STATUS_END_FD);
    setpgid(0, 0);
    if (l->sandbox->way->become_nobody && !become_nobody())
        give_up("cannot become the user nobody");
    if (prctl(PR_SET_PDEATHSIG, SIGKILL) != 0 || getppid() != keeper)
        give_up("cannot be bound to the life of its parent");
    set_limits(l->job);
    execve(l->sandbox->bwrap, (char *const *)(uintptr_t)l->arguments, no_environment);
    give_up("cannot execute bubblewrap");
}

static int wait_for(pid_t pid)
{
    int status = 0;
    while (waitpid(pid, &status, 0) < 0 && errno == EINTR)
        ;
    return status;
}

/* Waits until bwrap has ended, or hearth is gone and the grace time is over; then kills what is left and exits. While
 * bwrap builds its init, the init is in bwrap's process group and is killed with it; later the init is bound to the
 * life of bwrap. The grace time covers the moment between the two. (A program that waits to be started may begin during
 * it: closing the socket starts it, too.) */
static _Noreturn void watch(pid_t bwrap)
{
    enum { HEARTH, BWRAP, COUNT };
    syscall(SYS_close_range, 0, STATUS_FD, 0);
    syscall(SYS_close_range, BLOCK_FD + 1, ~0u, 0);
    struct pollfd both[COUNT] = {{BLOCK_FD, 0, 0}, {(int)syscall(SYS_pidfd_open, bwrap, 0), POLLIN, 0}};
    while (both[BWRAP].fd >= 0 && poll(both, COUNT, -1) < 0 && errno == EINTR)
        ;
    if (!both[BWRAP].revents)
        poll(&both[BWRAP], 1, GRACE_MS);
    kill(-bwrap, SIGKILL);
    kill(bwrap, SIGKILL); /* in case it has no group yet */
    int status = wait_for(bwrap);
    while (waitpid(-1, NULL, 0) > 0 || errno == EINTR)
        ; /* the init, which becomes a child of the keeper when bwrap is gone */
    _exit(WIFSIGNALED(status) ? 128 + WTERMSIG(status) : 0);
}

/* Runs after the fork: only system calls from here on. */
_Noreturn void launch_become_keeper(const launch *l)
{
    pid_t keeper = getpid();
    reset_signals();
    setsid(); /* Ctrl-C then reaches hearth alone, which ends the program in its own way */
    line_up_descriptors(l);
    if (prctl(PR_SET_CHILD_SUBREAPER, 1) != 0)
        give_up("cannot take care of orphans");
    /* fork() would run the fork handlers of libraries, which rely on threads that do not exist in the child. */
    pid_t bwrap = (pid_t)syscall(SYS_clone, SIGCHLD, 0, 0, 0, 0);
    if (bwrap < 0)
        give_up("cannot begin a process");
    if (bwrap == 0)
        become_bwrap(l, keeper);
    watch(bwrap);
}
