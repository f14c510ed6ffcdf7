/* work.h - the folder in which long work is kept so that it can be gone on with: MODEL.tune.work. */
#ifndef LEARN_WORK_H
#define LEARN_WORK_H

#include "../base/hash.h"
#include "../model/model.h"

/* Tells apart the model files whose work must not be mixed: other models, and other formats of the same one, which
 * differ in their last digits. */
void work_model_key(char out[HASH_TEXT_SIZE], const hearth_model *model);

/* Held by one run at a time. */
typedef struct work_folder {
    char *path; /* NULL: none */
    int lock;
} work_folder;

/* "MODEL.tune.work" of a tune file's path; mem_free. NULL: no memory. */
char *work_path(const char *tune_path);
/* Makes the folder where it is missing. */
hearth_status work_make(const char *path, hearth_error *error);
/* Makes it and locks it. HEARTH_IO: another run works there. */
hearth_status work_open(work_folder *out, const char *path, hearth_error *error);
/* Lets go of it, and removes it where nothing is left in it. A zeroed one is nothing. */
void work_close(work_folder *w);

#endif
