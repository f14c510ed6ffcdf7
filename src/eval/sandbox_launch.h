/* sandbox_launch.h - the steps that lead to a program in the sandbox: descriptors, bwrap's arguments, the child that
 * becomes bwrap. Between sandbox.c and sandbox_launch.c; what happens afterwards is sandbox.c's. */
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

/* Descriptors as bwrap is given them, behind 0, 1 and 2. */
enum { STATUS_FD = 3, BLOCK_FD, FILTER_FD, FILE_FD };

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
    int block;          /* socket: a byte into it lets the program begin                      */
    pid_t parent;
} launch;

/* Everything that the child needs. l: zeroed but for sandbox and job; launch_close in any case. */
hearth_status launch_prepare(launch *l, hearth_error *error);
/* In the child, after the fork. */
_Noreturn void launch_become_bwrap(const launch *l);
/* In the parent, after the fork: what was the child's. */
void launch_close_given(launch *l);
void launch_close(launch *l);

#endif
