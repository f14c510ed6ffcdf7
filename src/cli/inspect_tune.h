/* inspect_tune.h - the part of `hearth inspect` that shows what a tune file holds. */
#ifndef CLI_INSPECT_TUNE_H
#define CLI_INSPECT_TUNE_H

#include "../base/json.h"
#include "../model/tune.h"

/* PowerInfer's measure of locality: the share of neurons that makes this share of all activations. */
#define INSPECT_HOT_ACTIVATIONS 0.8
/* What firing means where an activation is never zero: what learn/profile.h counts. */
#define INSPECT_SMOOTH_FIRES "a neuron fires where it is among the largest quarter of its layer's"

/* What was found out about the tune file of a model; zeroed is nothing. */
typedef struct inspected_tune {
    tune *tune;       /* NULL: there is none, or it could not be read ... */
    hearth_error why; /* ... for this reason; empty: there is none        */
    char *path;       /* of it; NULL: it was not looked for               */
} inspected_tune;

/* named: as --tune has it; NULL: beside the model, where a file that cannot be read is only told of. */
hearth_status inspect_tune_open(inspected_tune *out, const char *model_path, const char *named,
                                const hearth_model *model, hearth_error *error);
void inspect_tune_close(inspected_tune *t);

void inspect_tune_print(const inspected_tune *t, const hearth_model *model);
/* null where there is none. NULL: no memory. */
json_t *inspect_tune_json(const inspected_tune *t, const hearth_model *model);

/* Whether the file itself is a tune file, which has to be looked at with its model; and what may be said without. */
bool inspect_is_tune(const checkpoint *file);
void inspect_tune_print_file(const checkpoint *file);
json_t *inspect_tune_json_file(const checkpoint *file);

#endif
