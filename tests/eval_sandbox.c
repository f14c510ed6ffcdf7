/* The sandbox: programs that fork, loop, eat, write, listen, look around, flood and hide. Each is refused or ended
 * within its limits, and what it might have left outside is looked for: processes, descriptors, mounts, files. */
#include "../src/base/clock.h"

#include <signal.h>
#include <sys/resource.h>
#include <sys/stat.h>

#include "sandbox_box.h"

/* Runs a program of Python. */
static sandbox_result python_within(const char *program, double seconds)
{
    const char *const command[] = {"python3", "-s", "-S", "-B", "/program.py", mark, NULL};
    const sandbox_file file = {"/program.py", span_of(program)};
    const sandbox_job job = {.command = command,
                             .input = span_of("given"),
                             .files = &file,
                             .file_count = 1,
                             .wall_seconds = seconds,
                             .memory_bytes = MEMORY,
                             .folder_bytes = FOLDER,
                             .output_bytes = OUTPUT_BYTES};
    hearth_error error = {.text = ""};
    sandbox_result r = {.code = -1};
    need_box(__FILE__, __LINE__);
    size_t descriptors = count_entries("/proc/self/fd");
    if (sandbox_run(box, &job, &r, &error) != HEARTH_OK)
        fail_msg("%s", error.text);
    assert_nothing_is_left(descriptors);
    return r;
}

/* The program says what it saw; it must end well. */
static void says(const char *program, const char *expected)
{
    sandbox_result r = python_within(program, SECONDS);
    char said[SANDBOX_STORED_BYTES + 1];
    memcpy(said, r.output, r.output_size);
    said[r.output_size] = 0;
    assert_string_equal(said, expected);
    assert_int_equal(r.end, SANDBOX_EXITED);
    assert_int_equal(r.code, 0);
}

/* Prints what every attempt comes to: "ok", or the exception's errno. */
#define TRIES                                                                 \
    "import os, sys, errno, ctypes, socket, threading, signal, time, fcntl\n" \
    "libc = ctypes.CDLL(None, use_errno=True)\n"                              \
    "def call(*a):\n"                                                         \
    "    if libc.syscall(*a) < 0: raise OSError(ctypes.get_errno(), '')\n"    \
    "def attempt(what):\n"                                                    \
    "    try: what(); print('ok')\n"                                          \
    "    except OSError as e: print(errno.errorcode.get(e.errno, e.errno))\n" \
    "    except BaseException as e: print(type(e).__name__)\n"

/* ------------------------------------------------------------------ ordinary programs */

static void ordinary_programs_run(void **state)
{
    (void)state;
    says("import sys\nprint(sys.stdin.read(), 6 * 7)\n", "given 42\n");
    says("import os\nopen('a', 'w').write('x' * 1000)\nprint(os.stat('/tmp/a').st_size, os.getcwd())\n", "1000 /tmp\n");
    says("", "");
    says("import sys\nsys.stderr.write('both')\n", "both");
    /* What solutions import. */
    says("import math, re, heapq, hashlib, collections, typing, itertools, functools, decimal, random, json\n"
         "print(hashlib.md5(b'Hello world').hexdigest())\n",
         "3e25960a79dbc69b674cd4ec67a72c62\n"); /* HumanEval/162 */
}

static void ends_are_told_apart(void **state)
{
    (void)state;
    sandbox_result r = python_within("import sys\nsys.exit(7)\n", SECONDS);
    assert_int_equal(r.end, SANDBOX_EXITED);
    assert_int_equal(r.code, 7);
    r = python_within("import os, signal\nos.kill(os.getpid(), signal.SIGSEGV)\n", SECONDS);
    assert_int_equal(r.end, SANDBOX_SIGNALLED);
    assert_int_equal(r.code, SIGSEGV);
    r = python_within("raise ValueError('no')\n", SECONDS);
    assert_int_equal(r.code, 1);
    assert_non_null(memmem(r.output, r.output_size, "ValueError: no", 14));
    assert_true(r.seconds > 0 && r.seconds < SECONDS);
}

static void it_is_a_place_of_its_own(void **state)
{
    (void)state;
    setenv("HEARTH_SECRET", "environment", 1);
    int leak = open("/dev/null", O_RDONLY); /* without O_CLOEXEC */
    assert_true(leak > 2);
    says("import os\n"
         "print(os.getuid(), os.geteuid(), os.getgid(), os.getgroups(), os.getpid() < 9, os.uname().nodename)\n"
         "print(sorted(os.environ) , sorted(os.listdir('/')) == sorted(set(os.listdir('/')) & {'bin', 'dev', 'lib',"
         " 'lib64', 'program.py', 'tmp', 'usr'}), os.listdir('/tmp'), sorted(os.listdir('/dev')))\n"
         "def is_open(fd):\n"
         "    try: os.fstat(fd); return True\n"
         "    except OSError: return False\n"
         "print([fd for fd in range(4096) if is_open(fd)], os.getsid(0) > 0)\n",
         "65534 65534 65534 [] True sandbox\n['HOME', 'LANG', 'PATH', 'PWD'] True [] ['null', 'urandom']\n"
         "[0, 1, 2] True\n");
    close(leak);
    unsetenv("HEARTH_SECRET");
}

/* ------------------------------------------------------------------ processes */

static void no_further_process_begins(void **state)
{
    (void)state;
    says(TRIES "attempt(os.fork)\n"
               "attempt(lambda: threading.Thread(target=print).start())\n"
               "attempt(lambda: os.posix_spawn('/usr/bin/true', ['true'], {}))\n"
               "attempt(lambda: __import__('subprocess').run(['true']))\n"
               "attempt(lambda: call(435, 0, 0))\n" /* clone3: "not there" */
               "attempt(lambda: call(100000))\n",
         "EPERM\nRuntimeError\nEPERM\nEPERM\nENOSYS\nENOSYS\n");
    /* Another program is under the same filter. */
    says("import os, sys\n"
         "os.execv(sys.executable, ['python3', '-c', 'import os\\ntry: os.fork()\\nexcept PermissionError: "
         "print(1)'])\n",
         "1\n");
    /* A fork bomb that does not give up, and does not look at errors. */
    sandbox_result r = python_within("import os\n"
                                     "while True:\n"
                                     "    try: os.fork()\n"
                                     "    except OSError: pass\n",
                                     1.0);
    assert_int_equal(r.end, SANDBOX_TIMEOUT);
    assert_true(r.seconds < 1.0 + SECONDS);
}

/* A daemon is a process that forks and forgets its parent; without the fork what is left is to go on, deaf to
 * signals, after all descriptors are closed. */
static void nothing_stays_behind(void **state)
{
    (void)state;
    sandbox_result r = python_within("import os, signal, time\n"
                                     "for s in range(1, 65):\n"
                                     "    try: signal.signal(s, signal.SIG_IGN)\n"
                                     "    except (OSError, ValueError): pass\n"
                                     "try: os.setsid()\n"
                                     "except OSError: pass\n"
                                     "os.closerange(0, 4096)\n"
                                     "while True: time.sleep(1000)\n",
                                     1.0);
    assert_int_equal(r.end, SANDBOX_TIMEOUT);
    /* It may not end its parent either, nor anybody else: there is nobody but the first process, which is immune (or,
     * without a user namespace, root's). */
    says(TRIES "def end(pid):\n"
               "    try: os.kill(pid, 9)\n"
               "    except (ProcessLookupError, PermissionError): pass\n"
               "end(1)\n"
               "end(os.getppid())\n"
               "end(-1)\n"
               "attempt(lambda: os.kill(2 ** 22 - 1, 9))\n"
               "time.sleep(0.2)\n"
               "print(os.getppid())\n",
         "ESRCH\n1\n");
}

static void time_is_limited(void **state)
{
    (void)state;
    double begin = clock_seconds();
    sandbox_result r = python_within("while True: pass\n", 1.0);
    assert_int_equal(r.end, SANDBOX_TIMEOUT);
    assert_true(r.seconds >= 1.0 && clock_seconds() - begin < 1.0 + SECONDS);
    r = python_within("import time\ntime.sleep(1000)\n", 0.5);
    assert_int_equal(r.end, SANDBOX_TIMEOUT);
    /* Nobody watches it: the limit on processor time, of 2 x 5 + 2 seconds here, is known to it. */
    says("import resource as r\nprint(r.getrlimit(r.RLIMIT_CPU))\n", "(12, 13)\n");
    /* Nor does it help to stand still. */
    r = python_within("import os, signal\nos.kill(os.getpid(), signal.SIGSTOP)\n", 0.5);
    assert_int_equal(r.end, SANDBOX_TIMEOUT);
}

typedef struct limit_row {
    __rlimit_resource_t resource;
    const char *name;
    rlim_t most;
} limit_row;

/* Allows ourselves more than the sandbox gives, where that can be done; what is narrower already must stay so. */
static rlim_t widen(const limit_row *row, struct rlimit *before)
{
    struct rlimit now;
    assert_int_equal(getrlimit(row->resource, before), 0);
    now = *before;
    now.rlim_max = now.rlim_max > row->most + 10 ? now.rlim_max : row->most + 10;
    now.rlim_cur = now.rlim_max;
    if (setrlimit(row->resource, &now) != 0) /* only root may raise them */
        now = *before;
    return now.rlim_max < row->most ? now.rlim_max : row->most;
}

static void limits_are_narrow_and_stay(void **state)
{
    (void)state;
    static const limit_row rows[] = {
        {RLIMIT_CORE, "CORE", 1},         {RLIMIT_MEMLOCK, "MEMLOCK", 0},
        {RLIMIT_MSGQUEUE, "MSGQUEUE", 0}, {RLIMIT_SIGPENDING, "SIGPENDING", 64},
        {RLIMIT_RTPRIO, "RTPRIO", 0},     {RLIMIT_NICE, "NICE", 0},
        {RLIMIT_NOFILE, "NOFILE", 64},    {RLIMIT_STACK, "STACK", 64 << 20},
    };
    need_box(__FILE__, __LINE__);
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        struct rlimit before;
        char program[256], expected[64];
        unsigned long long most = widen(&rows[i], &before);
        snprintf(program, sizeof program,
                 "import os, resource as r\n"
                 "print(r.getrlimit(r.RLIMIT_%s))\n"
                 "try: os.sched_setscheduler(0, os.SCHED_FIFO, os.sched_param(1)); print('before everybody')\n"
                 "except PermissionError: pass\n",
                 rows[i].name);
        snprintf(expected, sizeof expected, "(%llu, %llu)\n", most, most);
        says(program, expected);
        setrlimit(rows[i].resource, &before);
    }
    /* Nobody in it changes them, for itself or for the first process; reading them is fine. */
    says(TRIES "prlimit, setrlimit = (302, 160) if os.uname().machine == 'x86_64' else (261, 164)\n"
               "two = (ctypes.c_uint64 * 2)(10, 10)\n"
               "attempt(lambda: call(prlimit, 0, 7, two, None))\n"
               "attempt(lambda: call(prlimit, 1, 7, two, None))\n"
               "attempt(lambda: call(setrlimit, 7, two))\n"
               "attempt(lambda: call(prlimit, 0, 7, None, two))\n"
               "print(*two)\n",
         "EPERM\nEPERM\nEPERM\nok\n64 64\n");
}

/* ------------------------------------------------------------------ memory, files, output */

static void memory_is_limited(void **state)
{
    (void)state;
    says("try:\n"
         "    a = []\n"
         "    while True: a.append(bytearray(1 << 20))\n"
         "except MemoryError:\n"
         "    n = len(a); del a; print(100 < n < 300)\n",
         "True\n");
    sandbox_result r = python_within("a = [0]\nwhile True: a += a\n", SECONDS);
    assert_true(r.end != SANDBOX_EXITED || r.code != 0);
    /* Memory that this limit does not count is not to be had. */
    says(TRIES "attempt(lambda: os.memfd_create('x'))\n"
               "attempt(lambda: call({'x86_64': 29}.get(os.uname().machine, 194), 0, 4096, 0o1600))\n"
               "attempt(lambda: call(425, 8, 0))\n"                                       /* io_uring_setup */
               "attempt(lambda: call({'x86_64': 253}.get(os.uname().machine, 26), 0))\n", /* inotify_init(1) */
         "EPERM\nEPERM\nEPERM\nEPERM\n");
}

static void files_are_limited(void **state)
{
    (void)state;
    says(TRIES "def fill():\n"
               "    with open('/tmp/full', 'wb', buffering=0) as f:\n"
               "        while True: f.write(b'x' * 65536)\n"
               "attempt(fill)\n"
               "print(3 << 20 < os.stat('/tmp/full').st_size <= 4 << 20)\n"
               "attempt(lambda: open('/tmp/more', 'wb').write(b'x' * 65536))\n",
         "ENOSPC\nTrue\nENOSPC\n");
    says(TRIES "def all():\n"
               "    keep = []\n"
               "    while True: keep.append(open('/dev/null'))\n"
               "attempt(all)\n",
         "EMFILE\n");
    /* A large file of holes; links to what is outside. */
    says(TRIES "open('/tmp/holes', 'w').close()\n"
               "attempt(lambda: os.truncate('/tmp/holes', 1 << 40))\n"
               "attempt(lambda: os.link('/usr/bin/env', '/tmp/env'))\n"
               "attempt(lambda: os.symlink('/etc/passwd', '/tmp/passwd'))\n"
               "attempt(lambda: open('/tmp/passwd'))\n",
         "EFBIG\nEXDEV\nok\nENOENT\n");
    /* Files without content end with the time. */
    sandbox_result r = python_within("i = 0\nwhile True:\n    open('/tmp/%d' % i, 'w').close()\n    i += 1\n", 1.0);
    assert_true(r.end == SANDBOX_TIMEOUT || r.code == 1);
}

static void output_is_drained_and_limited(void **state)
{
    (void)state;
    /* More than a pipe holds, less than the limit: all of it is taken, its beginning kept. */
    sandbox_result r = python_within("print('a' * 1000000)\n", SECONDS);
    assert_int_equal(r.end, SANDBOX_EXITED);
    assert_int_equal(r.code, 0);
    assert_int_equal(r.output_total, 1000001);
    assert_int_equal(r.output_size, SANDBOX_STORED_BYTES);
    assert_int_equal(r.output[SANDBOX_STORED_BYTES - 1], 'a');
    /* A flood. */
    r = python_within("import os\nwhile True: os.write(2, b'x' * 65536)\n", SECONDS);
    assert_int_equal(r.end, SANDBOX_OUTPUT);
    assert_true(r.seconds < SECONDS);
    assert_true(r.output_total > OUTPUT_BYTES && r.output_total < 2 * OUTPUT_BYTES);
    /* Closing descriptors early keeps nobody waiting, nor does it count as the end. */
    r = python_within("import os, time\nos.closerange(0, 64)\ntime.sleep(0.5)\nos._exit(3)\n", SECONDS);
    assert_int_equal(r.end, SANDBOX_EXITED);
    assert_int_equal(r.code, 3);
    assert_true(r.seconds >= 0.5);
}

/* ------------------------------------------------------------------ the machine outside */

static void nothing_outside_can_be_written(void **state)
{
    (void)state;
    says(TRIES "for path in ['/x', '/usr/bin/x', '/usr/lib/x', '/bin/x', '/dev/x', '/program.py']:\n"
               "    attempt(lambda: open(path, 'w'))\n"
               "for path in ['/etc/x', '/home/x', '/root/x', '/var/tmp/x', '/dev/shm/x', '/proc/x', '/sys/x']:\n"
               "    attempt(lambda: open(path, 'w'))\n"
               "attempt(lambda: os.unlink('/program.py'))\n"
               "attempt(lambda: os.symlink('/usr', '/y'))\n",
         "EROFS\nEROFS\nEROFS\nEROFS\nEROFS\nEROFS\n"
         "ENOENT\nENOENT\nENOENT\nENOENT\nENOENT\nENOENT\nENOENT\nEROFS\nEROFS\n");
    /* What it wrote to its /tmp is not in ours. */
    char path[128], program[256];
    snprintf(path, sizeof path, "/tmp/%s", mark);
    snprintf(program, sizeof program, "open('%s', 'w').write('x')\n", path);
    says(program, "");
    assert_int_not_equal(access(path, F_OK), 0);
}

static void nothing_outside_can_be_read(void **state)
{
    (void)state;
    need_box(__FILE__, __LINE__);
    char folder[] = "/tmp/hearth-test-home.XXXXXX", program[1024];
    assert_non_null(mkdtemp(folder));
    snprintf(program, sizeof program,
             TRIES "for path in ['/etc/shadow', '/etc/passwd', '/proc/1/environ', '/proc/self/mem', '/sys/kernel']:\n"
                   "    attempt(lambda: open(path))\n"
                   "for path in ['%s', '/home', '/root', '/proc', '/run', '/var', '/etc', '/sys']:\n"
                   "    attempt(lambda: os.listdir(path))\n",
             folder);
    says(program, "ENOENT\nENOENT\nENOENT\nENOENT\nENOENT\nENOENT\nENOENT\nENOENT\nENOENT\nENOENT\nENOENT\nENOENT\n"
                  "ENOENT\n");
    rmdir(folder);
}

static void there_is_no_network(void **state)
{
    (void)state;
    says(TRIES "for kind in [socket.AF_INET, socket.AF_INET6, socket.AF_UNIX, socket.AF_NETLINK, socket.AF_PACKET]:\n"
               "    attempt(lambda: socket.socket(kind, socket.SOCK_DGRAM))\n"
               "attempt(lambda: socket.socketpair())\n",
         "EPERM\nEPERM\nEPERM\nEPERM\nEPERM\nEPERM\n");
}

static void the_kernel_is_out_of_reach(void **state)
{
    (void)state;
    /* Numbers of x86-64 and of arm64. */
    static const struct {
        const char *name;
        int x86, arm;
    } calls[] = {
        // clang-format off
        {"ptrace", 101, 117},            {"mount", 165, 40},              {"umount2", 166, 39},
        {"keyctl", 250, 219},            {"add_key", 248, 217},           {"bpf", 321, 280},
        {"unshare", 272, 97},            {"setns", 308, 268},             {"userfaultfd", 323, 282},
        {"perf_event_open", 298, 241},   {"seccomp", 317, 277},           {"chroot", 161, 51},
        {"pivot_root", 155, 41},         {"flock", 73, 32},               {"process_vm_readv", 310, 270},
        {"reboot", 169, 142},            {"open_by_handle_at", 304, 265}, {"pidfd_open", 434, 434},
        {"fsopen", 430, 430},            {"personality", 135, 92},        {"splice", 275, 76},
        {"tee", 276, 77},                {"vmsplice", 278, 75},           {"sync", 162, 81},
        {"syncfs", 306, 267},
        // clang-format on
    };
    for (size_t i = 0; i < sizeof calls / sizeof *calls; i++) {
        char program[1024];
        snprintf(program, sizeof program,
                 TRIES "attempt(lambda: call(%d if os.uname().machine == 'x86_64' else %d, 0, 0, 0, 0))\n",
                 calls[i].x86, calls[i].arm);
        says(program, "EPERM\n");
    }
    says(TRIES "f = open('/usr/bin/env', 'rb')\n"
               "attempt(lambda: fcntl.lockf(f, fcntl.LOCK_SH | fcntl.LOCK_NB))\n"
               "attempt(lambda: fcntl.fcntl(f, fcntl.F_SETOWN, 1))\n"
               "attempt(lambda: fcntl.fcntl(f, 15, b'\\1' + bytes(7)))\n" /* F_SETOWN_EX */
               "attempt(lambda: fcntl.fcntl(f, fcntl.F_GETFD))\n",
         "EPERM\nEPERM\nEPERM\nok\n");
}

#if defined(__x86_64__)
/* Calls by other numbers than those the filter lists end the program. */
static void other_numbers_of_calls_end_it(void **state)
{
    (void)state;
    sandbox_result r = python_within(TRIES "call(0x40000000 + 39)\nprint('still there')\n", SECONDS); /* x32: getpid */
    assert_int_equal(r.end, SANDBOX_SIGNALLED);
    assert_int_equal(r.code, SIGSYS);
    /* mov eax, 20 (getpid of 32 bits); int 0x80; ret. A kernel without such calls raises SIGSEGV. */
    r = python_within("import ctypes, mmap\n"
                      "m = mmap.mmap(-1, 4096, prot=7)\n"
                      "m.write(b'\\xb8\\x14\\x00\\x00\\x00\\xcd\\x80\\xc3')\n"
                      "at = ctypes.addressof(ctypes.c_char.from_buffer(m))\n"
                      "ctypes.CFUNCTYPE(ctypes.c_int)(at)()\n"
                      "print('still there')\n",
                      SECONDS);
    assert_int_equal(r.end, SANDBOX_SIGNALLED);
    assert_true(r.code == SIGSYS || r.code == SIGSEGV);
}
#endif

static void mounts_outside_stay_as_they_are(void **state)
{
    (void)state;
    static char before[1 << 16], after[1 << 16];
    size_t size = read_some("/proc/self/mounts", before, sizeof before);
    says("print(1)\n", "1\n");
    assert_int_equal(read_some("/proc/self/mounts", after, sizeof after), size);
    assert_memory_equal(before, after, size);
}

int main(void)
{
    open_box();
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(ordinary_programs_run),
        cmocka_unit_test(ends_are_told_apart),
        cmocka_unit_test(it_is_a_place_of_its_own),
        cmocka_unit_test(no_further_process_begins),
        cmocka_unit_test(nothing_stays_behind),
        cmocka_unit_test(time_is_limited),
        cmocka_unit_test(limits_are_narrow_and_stay),
        cmocka_unit_test(memory_is_limited),
        cmocka_unit_test(files_are_limited),
        cmocka_unit_test(output_is_drained_and_limited),
        cmocka_unit_test(nothing_outside_can_be_written),
        cmocka_unit_test(nothing_outside_can_be_read),
        cmocka_unit_test(there_is_no_network),
        cmocka_unit_test(the_kernel_is_out_of_reach),
#if defined(__x86_64__)
        cmocka_unit_test(other_numbers_of_calls_end_it),
#endif
        cmocka_unit_test(mounts_outside_stay_as_they_are),
    };
    int status = run_group(tests, NULL, NULL);
    sandbox_close(box);
    return status;
}
