/* probe.h - asks a driver what it has in a child process, before this process relies on it.
 *
 * A driver is a foreign library, and some abort, crash or hang as soon as they are asked what there is. In a child that
 * costs a child. docs/decisions/007-asking-drivers.md says why a fork and what it must not do. */
#ifndef DEVICE_PROBE_H
#define DEVICE_PROBE_H

#include "driver.h"

/* How long a driver may take to say what there is. Starting a server's eight GPUs takes several seconds. */
#define PROBE_PATIENCE_SECONDS 20

enum { PROBE_TEXT_SIZE = sizeof((device_found *)0)->problem };

/* True: the driver may be asked in this process: it answered in a child now, or as cache_folder remembers (NULL:
 * nothing is remembered); or it is loaded here already, or opens no library at all. False: what it did instead, in
 * `problem`. The child is gone when this returns. Any thread may call it. */
bool probe_driver(const driver *d, const char *cache_folder, double patience_seconds, char problem[PROBE_TEXT_SIZE]);

/* Removes what is remembered of a driver. */
void probe_forget(const driver *d, const char *cache_folder);

/* ------------------------------------------------------------------ probe_memory.c */

/* What a driver's answer depends on, as 32 digits: its library and the files that name others, the environment, limits
 * and the machine since it started. */
#define PROBE_KEY_SIZE 33
void probe_key(char out[PROBE_KEY_SIZE], const driver *d);

/* The answer under that key, in folder/driver-NAME.json; `problem` is empty where the driver answered. False: none. */
bool probe_recall(const driver *d, const char *folder, const char *key, char problem[PROBE_TEXT_SIZE]);
/* Writes it, as a whole or not at all; a folder that cannot be written is nobody's error. */
void probe_remember(const driver *d, const char *folder, const char *key, const char *problem);

#endif
