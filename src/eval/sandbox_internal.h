/* sandbox_internal.h - shared by the files of the sandbox: the filter of system calls (sandbox_filter.c), and starting
 * a program (sandbox_launch.c): descriptors, bwrap's arguments, and the keeper, the child process that guards bwrap.
 * sandbox.c handles everything after the start. */
#ifndef EVAL_SANDBOX_INTERNAL_H
#define EVAL_SANDBOX_INTERNAL_H

#include "../base/memory.h"
#include "sandbox.h"

#include <linux/filter.h>
#include <sys/types.h>

/* An upper bound for the number of instructions. */
#define SANDBOX_FILTER_ROOM 400

/* Writes the filter program for this processor and returns its number of instructions; 0: there is none for this
 * processor. */
size_t sandbox_filter_build(struct sock_filter out[SANDBOX_FILTER_ROOM]);

typedef struct sandbox_way {
    const char *name;
    bool for_root;      /* works only for root; root uses no other */
    bool become_nobody; /* the child becomes the user nobody before it executes bwrap */
    bool user_namespace;
} sandbox_way;

struct sandbox {
    char *bwrap; /* path */
    const sandbox_way *way;
    size_t filter_size; /* in instructions */
    struct sock_filter filter[SANDBOX_FILTER_ROOM];
};

/* Descriptors in the child after 0, 1 and 2. All are passed to bwrap but STATUS_END_FD, which only the keeper holds: it
 * is the read end of the status pipe, and without it bwrap could not write its status once hearth is gone. */
enum { STATUS_FD = 3, STATUS_END_FD, BLOCK_FD, FILTER_FD, FILE_FD };

#define LAUNCH_ARGUMENTS 160

typedef struct launch {
    const sandbox *sandbox;
    const sandbox_job *job;
    arena memory; /* for the arguments */
    const char *arguments[LAUNCH_ARGUMENTS];
    size_t argument_count;
    bool overflow;                      /* an argument found no room, or no memory */
    int given[FILE_FD + SANDBOX_FILES]; /* [given_count] what the child makes descriptors 0, 1, 2 ... */
    size_t given_count;
    int output, status; /* read ends of pipes: the program's output, bwrap's status */
    int block;          /* socket: writing a byte starts the program; closing it ends everything */
} launch;

/* Prepares everything that the child needs. l: zeroed except sandbox and job; call launch_close in any case. */
hearth_status launch_prepare(launch *l, hearth_error *error);
/* Runs in the child, after the fork: starts bwrap and exits when bwrap and all its processes are gone. Enforces this
 * shortly after `block` is closed, which also happens when hearth is killed. Exit status: 128 + the signal that killed
 * bwrap, else less. */
_Noreturn void launch_become_keeper(const launch *l);
/* In the parent, after the fork: closes the child's descriptors. */
void launch_close_given(launch *l);
/* Has the same effect as the end of hearth: the keeper ends everything. */
void launch_close_block(launch *l);
void launch_close(launch *l);

#endif
