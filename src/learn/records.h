/* records.h - stores the results of the stages of a tuning in the work folder, so that a run that was interrupted, even
 * killed, can be resumed.
 *
 * A record is a file, written whole or not at all, that holds the key under which
 * it was made: with another key, or damaged, it is treated as missing. Other
 * modules (states.h, profile.h, lowrank.h) keep their own files in this folder. */
#ifndef LEARN_RECORDS_H
#define LEARN_RECORDS_H

#include "../base/error.h"

#include <stdbool.h>
#include <stddef.h>

/* Prepares the folder for a tuning. key (here and below): identifies model and texts, one line without its line end.
 * Files left there under another key are removed, whichever module wrote them (*begun_anew is then true). */
hearth_status records_begin(const char *folder, const char *key, bool *begun_anew, hearth_error *error);
/* Removes everything in the folder, but not the folder. HEARTH_IO: something could not be removed. */
hearth_status records_end(const char *folder, hearth_error *error);

/* Writes a record. name: a file name without slashes. */
hearth_status record_put(const char *folder, const char *name, const char *key, const void *data, size_t size_bytes,
                         hearth_error *error);
/* Reads a record into data [size_bytes]. Returns false where
 * there is none with this key and size, or it cannot be read. */
bool record_get(const char *folder, const char *name, const char *key, void *data, size_t size_bytes);

#endif
