/* sandbox_filter.h - which system calls a program in the sandbox may make, as a filter for the kernel (seccomp).
 *
 * The filter allows what it does not know to be harmful, up to the newest call it knows of; namespaces, limits and a
 * user without rights are what keeps a program in, the filter takes away what they leave: further processes and threads
 * (which would each have limits of their own), memory that no limit counts, locks that reach outside, and the parts of
 * the kernel in which most of its holes were found. */
#ifndef EVAL_SANDBOX_FILTER_H
#define EVAL_SANDBOX_FILTER_H

#include <linux/filter.h>
#include <stddef.h>

/* More instructions than the filter has. */
#define SANDBOX_FILTER_ROOM 400

/* Writes the program for this processor and returns how many instructions it has; 0: hearth has none for it. */
size_t sandbox_filter_build(struct sock_filter out[SANDBOX_FILTER_ROOM]);

#endif
