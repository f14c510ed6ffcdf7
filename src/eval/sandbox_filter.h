/* sandbox_filter.h - the filter of system calls (seccomp) for a program in the sandbox.
 *
 * The filter allows every call that is not known to be harmful, up to the newest call it knows of. Namespaces, limits
 * and an unprivileged user isolate the program; the filter removes what these leave open: further processes and threads
 * (each would have its own limits), memory that no limit counts, locks that are visible outside, and the parts of the
 * kernel in which most security holes were found. */
#ifndef EVAL_SANDBOX_FILTER_H
#define EVAL_SANDBOX_FILTER_H

#include <linux/filter.h>
#include <stddef.h>

/* An upper bound for the number of instructions. */
#define SANDBOX_FILTER_ROOM 400

/* Writes the filter program for this processor and returns its number of instructions; 0: there is none for this
 * processor. */
size_t sandbox_filter_build(struct sock_filter out[SANDBOX_FILTER_ROOM]);

#endif
