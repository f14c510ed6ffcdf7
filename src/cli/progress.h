/* progress.h - a progress line with a bar, percentage and time left, and the signals that end long work.
 *
 * The signal flag is the program's only global state, because a signal handler has no other way to communicate. */
#ifndef CLI_PROGRESS_H
#define CLI_PROGRESS_H

#include <hearth.h>

typedef struct progress {
    const char *what; /* the work last reported */
    double start;     /* when `what` began                               */
    double printed;   /* when the line was last written                  */
    uint64_t first;   /* units that were done by then, perhaps by an earlier run */
    uint64_t done;
    bool shown;    /* the line is on the terminal */
    bool terminal; /* standard error is a terminal that can replace a line; may be set to false */
} progress;

void progress_init(progress *p);
/* Returns a callback that reports to p: it shows the line, on a terminal and for work longer than a second, and cancels
 * the work once a signal came. */
hearth_progress progress_to(progress *p);
/* Removes the line; call it before printing anything else. */
void progress_clear(progress *p);

/* Makes SIGINT, SIGTERM and SIGHUP raise a flag that long work checks; a second, later signal ends the program at once.
 * Write errors (closed pipes, file size limits) become returned errors instead of signals. */
void interrupt_install(void);
/* Returns the signal that came; 0: none. */
int interrupt_signal(void);
/* For interactive use: the first makes SIGINT only raise the flag, the second clears the flag. */
void interrupt_only_flag(void);
void interrupt_reset(void);

#endif
