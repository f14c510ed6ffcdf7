/* handlers.h - keeps the program's signal handlers while a driver is loaded.
 *
 * A driver is a foreign library, and some replace handlers of the process that loads them: PoCL's LLVM takes SIGINT, SIGBUS and
 * twelve more, calls what was there before it only from the first thread that gets the signal, and lets it kill the process
 * in a second one. */
#ifndef DEVICE_HANDLERS_H
#define DEVICE_HANDLERS_H

#include <signal.h>

enum { HANDLERS_END = 32 }; /* real-time signals begin here; a driver may have those */

typedef struct handlers {
    struct sigaction of[HANDLERS_END]; /* by number, from 1 */
} handlers;

/* Reads what the process does on each signal. */
void handlers_save(handlers *out);

/* Sets again what a driver has replaced since. A signal that nobody handled stays the driver's, which may need it. A handler
 * that another thread installs meanwhile is lost. */
void handlers_restore(const handlers *saved);

#endif
