/* work.h - the folder MODEL.tune.work, which stores long work so that a run that was interrupted, even killed, can be
 * resumed: its lock, and the results of the stages of a tuning as records.
 *
 * A record is a file, written whole or not at all, that holds the key under which
 * it was made: with another key, or damaged, it is treated as missing. Other
 * modules (states.h, profile.h, lowrank.h) store their own files in this folder. */
#ifndef LEARN_WORK_H
#define LEARN_WORK_H

#include "../base/hash.h"
#include "../model/model.h"

/* Computes a key of the model file: it differs for other models, and for other formats of the same model, whose results
 * differ in the last digits. */
void work_model_key(char out[HASH_TEXT_SIZE], const hearth_model *model);

/* A work folder, locked by one run at a time. */
typedef struct work_folder {
    char *path; /* NULL: not open */
    int lock;
} work_folder;

/* Returns "MODEL.tune.work" for a tune file's path; mem_free. NULL: no memory. */
char *work_path(const char *tune_path);
/* Creates the folder if it is missing. */
hearth_status work_make(const char *path, hearth_error *error);
/* Creates the folder and locks it. HEARTH_IO: another run works there. */
hearth_status work_open(work_folder *out, const char *path, hearth_error *error);
/* Unlocks the folder, and removes it if it is empty. A zeroed struct: does nothing. */
void work_close(work_folder *w);

/* Consecutive bytes of a file that is written. */
typedef struct work_piece {
    const void *data;
    size_t size_bytes;
} work_piece;

/* Writes pieces [count] as folder/name, whole or not at all, in place of a file that is there. */
hearth_status work_write(const char *folder, const char *name, const work_piece *pieces, size_t count,
                         hearth_error *error);

/* ------------------------------------------------------------------ records */

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
