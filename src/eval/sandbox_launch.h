/* sandbox_launch.h - the steps that lead to a program in the sandbox: descriptors, bwrap's arguments, the child that
 * keeps bwrap. Between sandbox.c and sandbox_launch.c; what happens afterwards is sandbox.c's. */
#ifndef EVAL_SANDBOX_LAUNCH_H
#define EVAL_SANDBOX_LAUNCH_H

#include "../base/memory.h"
#include "sandbox.h"
#include "sandbox_filter.h"

#include <sys/types.h>

typedef struct sandbox_way {
    const char *name;
    bool for_root;      /* only root can go it, and goes no other                     */
    bool become_nobody; /* the child takes the user nobody before bwrap begins        */
    bool user_namespace;
} sandbox_way;

struct sandbox {
    char *bwrap; /* path */
    const sandbox_way *way;
    size_t filter_size; /* in instructions */
    struct sock_filter filter[SANDBOX_FILTER_ROOM];
};

/* Descriptors as the child has them, behind 0, 1 and 2. All are bwrap's but one, which only the keeper holds: the other
 * end of the status, or bwrap could not write it where hearth is gone. */
enum { STATUS_FD = 3, STATUS_END_FD, BLOCK_FD, FILTER_FD, FILE_FD };

#define LAUNCH_ARGUMENTS 160

typedef struct launch {
    const sandbox *sandbox;
    const sandbox_job *job;
    arena memory; /* of arguments */
    const char *arguments[LAUNCH_ARGUMENTS];
    size_t argument_count;
    bool overflow;                      /* an argument had no room, or no memory              */
    int given[FILE_FD + SANDBOX_FILES]; /* [given_count] what the child lines up as 0, 1, 2 ... */
    size_t given_count;
    int output, status; /* pipes that we read: the program's words, bwrap's status            */
    int block;          /* socket: a byte into it lets the program begin; closed: all of it ends */
} launch;

/* Everything that the child needs. l: zeroed but for sandbox and job; launch_close in any case. */
hearth_status launch_prepare(launch *l, hearth_error *error);
/* The child, after the fork: begins bwrap and ends when all of that is gone, which is seen to a little while after
 * `block` is closed, as it is when hearth is killed. Its exit status: 128 + the signal that killed bwrap, else less. */
_Noreturn void launch_become_keeper(const launch *l);
/* In the parent, after the fork: what was the child's. */
void launch_close_given(launch *l);
/* The same as when hearth is gone. */
void launch_close_block(launch *l);
void launch_close(launch *l);

#endif
