/* wakeup.h - waiting for input, ended by a signal.
 *
 * A program that sets a flag in its signal handler and then reads would sleep through a signal that came a moment before
 * the read began: the system call is interrupted only if it is already waiting. So whoever waits here waits for two
 * things, the input and an event that the handler raises and that stays raised (the "self-pipe trick", D. J. Bernstein).
 *
 * Signals belong to the process, and so does the event. A program that never raises it notices nothing. */
#ifndef BASE_WAKEUP_H
#define BASE_WAKEUP_H

#include <stdbool.h>

/* Once, before handlers are installed. Where the system has no room for the event, waits end only as reads do. */
void wakeup_prepare(void);
/* From a signal handler: waits end, those to come too. */
void wakeup_raise(void);
/* Takes it back. */
void wakeup_reset(void);

/* Returns when fd can be read without waiting, or is at its end; at once where it never waits (plain files).
 * false with errno EINTR: the event is raised, or a handled signal came. Another errno: the system's reason. */
bool wakeup_wait(int fd);

#endif
