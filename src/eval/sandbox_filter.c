/* sandbox_filter.c - the filter of system calls (seccomp) for a program in the sandbox, as the kernel reads it: classic
 * BPF over struct seccomp_data.
 *
 * The filter allows every call that is not known to be harmful, up to the newest call it knows of. Namespaces, limits
 * and an unprivileged user isolate the program; the filter removes what these leave open: further processes and threads
 * (each would have its own limits), memory that no limit counts, locks that are visible outside, and the parts of the
 * kernel in which most security holes were found.
 *
 * The meaning of a call's number depends on the processor and its mode, so the filter checks the architecture first: a
 * 64-bit x86 process can also make calls by the 32-bit numbers (int 0x80) and by those of x32, which would bypass any
 * list of 64-bit numbers. Both end the process. */
#include "sandbox_internal.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/audit.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/syscall.h>

#if defined(__x86_64__)
#define ARCHITECTURE AUDIT_ARCH_X86_64
#define X32_BIT      0x40000000u
#elif defined(__aarch64__)
#define ARCHITECTURE AUDIT_ARCH_AARCH64
#endif

#ifdef ARCHITECTURE

/* The newest call that the list below was checked against (mseal, Linux 6.10; numbers from 424 on are the same on all
 * processors). Later calls fail with ENOSYS. */
#define NEWEST_CALL 462

/* Numbers that Debian 12's headers lack; the same on all processors. */
#define CALL_MAP_SHADOW_STACK 453
#define CALL_LSM_SET_SELF     460

/* One row per call; not every processor has all of them. */
static const uint16_t refused[] = {
/* Processes and threads: one is enough, and every limit is per process. clone3 is handled below. */
#ifdef __NR_fork
    __NR_fork,
#endif
#ifdef __NR_vfork
    __NR_vfork,
#endif
    __NR_clone,
    __NR_unshare,
    __NR_setns,
    /* Other processes, and what they see. */
    __NR_ptrace,
    __NR_process_vm_readv,
    __NR_process_vm_writev,
    __NR_process_madvise,
    __NR_process_mrelease,
    __NR_kcmp,
    __NR_pidfd_open,
    __NR_pidfd_getfd,
    __NR_pidfd_send_signal,
    __NR_personality,
#ifdef __NR_setrlimit
    __NR_setrlimit, /* limits stay as they are; prlimit64 is handled below */
#endif
    /* The network and similar channels. */
    __NR_socket,
    __NR_socketpair,
    /* File systems. */
    __NR_mount,
    __NR_umount2,
    __NR_pivot_root,
    __NR_chroot,
    __NR_open_tree,
    __NR_move_mount,
    __NR_fsopen,
    __NR_fsconfig,
    __NR_fsmount,
    __NR_fspick,
    __NR_mount_setattr,
    __NR_quotactl,
    __NR_quotactl_fd,
    __NR_name_to_handle_at,
    __NR_open_by_handle_at,
    __NR_swapon,
    __NR_swapoff,
    __NR_acct,
    __NR_fanotify_init,
    __NR_fanotify_mark,
#ifdef __NR_inotify_init
    __NR_inotify_init,
#endif
    __NR_inotify_init1,
    __NR_flock, /* a lock on a system file would be seen outside */
    /* Memory that RLIMIT_AS does not count, or that outlives the process. */
    __NR_memfd_create,
    __NR_memfd_secret,
    __NR_shmget,
    __NR_shmat,
    __NR_shmctl,
    __NR_msgget,
    __NR_msgsnd,
    __NR_semget,
    __NR_mq_open,
    /* Pages passed on without a copy: a bug there (Dirty Pipe, CVE-2022-0847) let read-only files be overwritten. */
    __NR_splice,
    __NR_tee,
    __NR_vmsplice,
    __NR_userfaultfd,
    __NR_mbind,
    __NR_migrate_pages,
    __NR_move_pages,
    __NR_io_setup,
    __NR_io_uring_setup,
    __NR_io_uring_enter,
    __NR_io_uring_register,
    CALL_MAP_SHADOW_STACK,
    /* Keys, BPF programs, performance counters, filters. */
    __NR_add_key,
    __NR_request_key,
    __NR_keyctl,
    __NR_bpf,
    __NR_perf_event_open,
    __NR_seccomp,
    CALL_LSM_SET_SELF,
    /* Administration of the machine. */
    __NR_init_module,
    __NR_finit_module,
    __NR_delete_module,
    __NR_kexec_load,
#ifdef __NR_kexec_file_load
    __NR_kexec_file_load,
#endif
    __NR_reboot,
    __NR_syslog,
    __NR_sethostname,
    __NR_setdomainname,
    __NR_settimeofday,
    __NR_clock_settime,
    __NR_clock_adjtime,
    __NR_adjtimex,
    __NR_vhangup,
    __NR_sync, /* affects everybody's files */
    __NR_syncfs,
    __NR_lookup_dcookie,
#ifdef __x86_64__
    __NR_ioperm,
    __NR_iopl,
    __NR_modify_ldt,
    __NR_uselib,
    __NR_ustat,
    __NR_sysfs,
    __NR__sysctl,
#endif
};

/* fcntl commands that take locks (visible to others who hold the file), leases and notifications. */
static const uint16_t refused_commands[] = {F_SETLK,  F_SETLKW, F_OFD_SETLK, F_OFD_SETLKW, F_SETLEASE,
                                            F_NOTIFY, F_SETOWN, F_SETOWN_EX, F_SETSIG};

typedef struct program {
    struct sock_filter *code;
    size_t count;
} program;

static void put(program *p, uint16_t code, uint32_t value, uint8_t if_true, uint8_t if_false)
{
    p->code[p->count++] = (struct sock_filter){code, if_true, if_false, value};
}

static void load(program *p, size_t offset)
{
    put(p, BPF_LD | BPF_W | BPF_ABS, (uint32_t)offset, 0, 0);
}

static void finish(program *p, uint32_t action)
{
    put(p, BPF_RET | BPF_K, action, 0, 0);
}

/* Returns `action` where the loaded value equals `value`. */
static void finish_if(program *p, uint32_t value, uint32_t action)
{
    put(p, BPF_JMP | BPF_JEQ | BPF_K, value, 0, 1);
    finish(p, action);
}

/* Returns `action` where the loaded value is at least `value`. */
static void finish_from(program *p, uint32_t value, uint32_t action)
{
    put(p, BPF_JMP | BPF_JGE | BPF_K, value, 0, 1);
    finish(p, action);
}

/* Returns `action` where a 64-bit argument is not zero: three instructions for each half. */
static void finish_unless_zero(program *p, size_t argument, uint32_t action)
{
    for (size_t half = 0; half < 2; half++) {
        load(p, offsetof(struct seccomp_data, args) + 8 * argument + 4 * half);
        put(p, BPF_JMP | BPF_JEQ | BPF_K, 0, 1, 0);
        finish(p, action);
    }
}

size_t sandbox_filter_build(struct sock_filter out[SANDBOX_FILTER_ROOM])
{
    const uint32_t no = SECCOMP_RET_ERRNO | EPERM, unknown = SECCOMP_RET_ERRNO | ENOSYS;
    const size_t commands = sizeof refused_commands / sizeof *refused_commands;
    _Static_assert(2 * (sizeof refused / sizeof *refused + sizeof refused_commands / sizeof *refused_commands) + 24 <
                       SANDBOX_FILTER_ROOM,
                   "the filter has room");
    program p = {out, 0};
    load(&p, offsetof(struct seccomp_data, arch));
    put(&p, BPF_JMP | BPF_JEQ | BPF_K, ARCHITECTURE, 1, 0);
    finish(&p, SECCOMP_RET_KILL_PROCESS);
    load(&p, offsetof(struct seccomp_data, nr));
#ifdef X32_BIT
    finish_from(&p, X32_BIT, SECCOMP_RET_KILL_PROCESS);
#endif
    finish_from(&p, NEWEST_CALL + 1, unknown);
    /* ENOSYS rather than EPERM: the C library then falls back to clone, which is refused. */
    finish_if(&p, __NR_clone3, unknown);
    for (size_t i = 0; i < sizeof refused / sizeof *refused; i++)
        finish_if(&p, refused[i], no);
    put(&p, BPF_JMP | BPF_JEQ | BPF_K, __NR_prlimit64, 0, 7); /* may read limits (getrlimit uses it), not set them */
    finish_unless_zero(&p, 2, no);
    finish(&p, SECCOMP_RET_ALLOW);
    put(&p, BPF_JMP | BPF_JEQ | BPF_K, __NR_fcntl, 0, (uint8_t)(1 + 2 * commands));
    load(&p, offsetof(struct seccomp_data, args[1])); /* the low half: both processors are little-endian */
    for (size_t i = 0; i < commands; i++)
        finish_if(&p, refused_commands[i], no);
    finish(&p, SECCOMP_RET_ALLOW);
    return p.count;
}

#else

size_t sandbox_filter_build(struct sock_filter out[SANDBOX_FILTER_ROOM])
{
    (void)out;
    return 0;
}

#endif
