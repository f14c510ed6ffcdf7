/* wakeup.h - waits for input until a signal arrives.
 *
 * A signal handler that only sets a flag is not enough: a signal that arrives just before read() does not interrupt
 * it, because only a call that is already waiting is interrupted. So wakeup_wait() waits for two things: the input, and
 * an event that the handler raises and that stays raised (the "self-pipe trick", D. J. Bernstein).
 *
 * Signals belong to the process, so there is one event per process. If it is never raised, waits are ordinary. */
#ifndef BASE_WAKEUP_H
#define BASE_WAKEUP_H

#include <stdbool.h>

/* Creates the event; call it before handlers are installed. If the system cannot create one, only a signal that
 * arrives during a wait ends it. */
void wakeup_prepare(void);
/* Raises the event: ends the current wait and all later ones. May be called from a signal handler. */
void wakeup_raise(void);
/* Clears the event. */
void wakeup_reset(void);

/* Waits until fd can be read without blocking or is at its end; returns at once for plain files.
 * false with errno EINTR: the event is raised, or a handled signal arrived. Another errno: the system's reason. */
bool wakeup_wait(int fd);

#endif
