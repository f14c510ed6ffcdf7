/* records.h - what the stages of a tuning have found out so far, kept in the work folder, so that a run that was
 * interrupted, however rudely, goes on where it stopped.
 *
 * A record is a file, written whole or not at all, that knows what it was made under (its key): with another key, or
 * damaged, it is as none. Others (states.h, profile.h, lowrank.h) keep files of their own in the same folder. */
#ifndef LEARN_RECORDS_H
#define LEARN_RECORDS_H

#include "../base/error.h"

#include <stdbool.h>
#include <stddef.h>

/* key: of the model and the texts, a line without its end; so below. What was left there under another one is removed,
 * whoever kept it (*begun_anew). */
hearth_status records_begin(const char *folder, const char *key, bool *begun_anew, hearth_error *error);
/* Removes everything in the folder, which stays. HEARTH_IO: something would not go. */
hearth_status records_end(const char *folder, hearth_error *error);

/* name: of a file, without slashes. */
hearth_status record_put(const char *folder, const char *name, const char *key, const void *data, size_t size_bytes,
                         hearth_error *error);
/* Fills data [size_bytes]. false: there is none of this key and size, or it cannot be read. */
bool record_get(const char *folder, const char *name, const char *key, void *data, size_t size_bytes);

#endif
