/* progress.h - a line with percent and time left, and the keys that end long work.
 *
 * The signal flag is the program's one piece of global state: a handler can reach nothing else. */
#ifndef CLI_PROGRESS_H
#define CLI_PROGRESS_H

#include <hearth.h>

typedef struct progress {
    const char *what; /* of the last report                              */
    double start;     /* when `what` began                               */
    double printed;   /* when the line was last written                  */
    uint64_t done;
    bool shown;    /* there is a line on the terminal                 */
    bool terminal; /* standard error is one                           */
} progress;

void progress_init(progress *p);
/* Reports to p: shows a line on a terminal for what lasts longer than a second, and cancels once interrupted. */
hearth_progress progress_to(progress *p);
/* Removes the line, before anything else is printed. */
void progress_clear(progress *p);

/* SIGINT, SIGTERM and SIGHUP raise a flag that long work sees; a second one, later, ends the program at once. Write
 * errors (closed pipes, file size limits) become returned errors. */
void interrupt_install(void);
/* The signal that came, 0: none. */
int interrupt_signal(void);
/* For interactive use: SIGINT never ends the program, and a raised flag is taken back. */
void interrupt_only_flag(void);
void interrupt_reset(void);

#endif
