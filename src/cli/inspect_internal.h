/* inspect_internal.h - what the files of `hearth inspect` share: what the layers compute; what a tune file holds, as text
 * and as a picture. */
#ifndef CLI_INSPECT_INTERNAL_H
#define CLI_INSPECT_INTERNAL_H

#include "../base/json.h"
#include "../model/layer_describe.h"
#include "../model/tune.h"
#include "common.h"

/* PowerInfer's measure of locality: the share of neurons that produces this share of all activations. */
#define INSPECT_HOT_ACTIVATIONS 0.8
/* What counts as firing where an activation is never zero: the definition that learn/profile.h counts by. */
#define INSPECT_SMOOTH_FIRES "a neuron fires where it is among the largest quarter of its layer's"

/* The tune file of a model, as far as it could be opened; zeroed is nothing. */
typedef struct inspected_tune {
    tune *tune;       /* NULL: there is none, or it could not be read ... */
    hearth_error why; /* ... for this reason; empty: there is none */
    char *path;       /* of the file; NULL: no file was looked for */
} inspected_tune;

/* Opens the tune file. named: the value of --tune; NULL: the file beside the model, where one that cannot be read is no
 * error but stored in `why`. */
hearth_status inspect_tune_open(inspected_tune *out, const char *model_path, const char *named,
                                const hearth_model *model, hearth_error *error);
void inspect_tune_close(inspected_tune *t);

void inspect_tune_print(const inspected_tune *t, const hearth_model *model);
/* Returns null where there is no tune file. NULL: no memory. */
json_t *inspect_tune_json(const inspected_tune *t, const hearth_model *model);

/* Tell whether the file itself is a tune file, which can only be checked with its model, and print what can be said
 * without it. */
bool inspect_is_tune(const checkpoint *file);
void inspect_tune_print_file(const checkpoint *file);
json_t *inspect_tune_json_file(const checkpoint *file);

/* Describes all layers of a model: *out [layer_count], freed with mem_free. The others show them: in groups of layers
 * that are alike; as an array of one object per layer (NULL: no memory). */
hearth_status inspect_layers_open(layer_words **out, const hearth_model *model, hearth_error *error);
void inspect_layers_print(const layer_words *words, uint32_t count);
json_t *inspect_layers_json(const layer_words *words, const hearth_model *model);

/* Opens the model with its tune file and draws what the file says of its neurons. HEARTH_UNSUPPORTED: there is no such
 * file, or it has no counts; the error says how to get them. */
hearth_status inspect_plot(const model_options *o, const char *path, hearth_error *error);

#endif
