/* probe.h - asks a driver for its devices in a child process before this process loads it.
 *
 * A driver is a foreign library, and some abort, crash or hang as soon as they are asked for their devices. In a child
 * process that does no harm. docs/decisions/007-asking-drivers.md says why it is a fork and what the child must not
 * do. */
#ifndef DEVICE_PROBE_H
#define DEVICE_PROBE_H

#include "driver.h"

/* How long a driver may take to list its devices. Starting the eight GPUs of a server takes several seconds. */
#define PROBE_PATIENCE_SECONDS 20

enum { PROBE_TEXT_SIZE = sizeof((device_found *)0)->problem };

/* Returns true if this process may use the driver: it answered in a child, now or according to the result stored in
 * cache_folder (NULL: nothing is stored), or its library is loaded here already, or it needs no library. If false,
 * `problem` says what happened. The child has ended when this returns. Any thread may call it. */
bool probe_driver(const driver *d, const char *cache_folder, double patience_seconds, char problem[PROBE_TEXT_SIZE]);

/* Removes the stored result of a driver. */
void probe_forget(const driver *d, const char *cache_folder);

/* ------------------------------------------------------------------ probe_memory.c */

/* Writes a hash, as 32 digits, of everything that a driver's answer depends on: its library and the files that name
 * other libraries, the environment, resource limits, the machine and the time of its last boot. */
#define PROBE_KEY_SIZE 33
void probe_key(char out[PROBE_KEY_SIZE], const driver *d);

/* Reads the result from folder/driver-NAME.json; `problem` is empty if the driver answered. False: no result for this
 * key. */
bool probe_recall(const driver *d, const char *folder, const char *key, char problem[PROBE_TEXT_SIZE]);
/* Writes the result, completely or not at all. A folder that cannot be written is not an error. */
void probe_remember(const driver *d, const char *folder, const char *key, const char *problem);

#endif
