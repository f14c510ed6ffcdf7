/* work.h - the folder MODEL.tune.work, which stores long work so that it can be resumed. */
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

#endif
