/* tune_internal.h - what reading, checking and writing tune files share: names, and the check of values. */
#ifndef MODEL_TUNE_INTERNAL_H
#define MODEL_TUNE_INTERNAL_H

#include "tune.h"

/* The keys besides general.architecture. */
#define TUNE_KEY_PREFIX     "hearth.tune."
#define TUNE_KEY_VERSION    TUNE_KEY_PREFIX "version"
#define TUNE_KEY_LAYERS     TUNE_KEY_PREFIX "layers"
#define TUNE_KEY_NEURONS    TUNE_KEY_PREFIX "neurons"
#define TUNE_KEY_TOKENS     TUNE_KEY_PREFIX "tokens"
#define TUNE_KEY_REPORT     TUNE_KEY_PREFIX "report"
#define TUNE_KEY_LEVELS     TUNE_KEY_PREFIX "levels"
#define TUNE_KEY_LOSSES     TUNE_KEY_PREFIX "losses"
#define TUNE_KEY_PREDICTORS TUNE_KEY_PREFIX "predictors"
#define TUNE_KEY_INPUTS     TUNE_KEY_PREFIX "inputs"
#define TUNE_KEY_COARSE     TUNE_KEY_PREFIX "coarse_types"
#define TUNE_KEY_THRESHOLDS TUNE_KEY_PREFIX "thresholds"
#define TUNE_KEY_RECALLS    TUNE_KEY_PREFIX "recalls"
#define TUNE_KEY_DENSITIES  TUNE_KEY_PREFIX "densities"

/* The keys about predictors, each an array with one value per layer: all of them exist, or none. */
enum tune_array {
    TUNE_KINDS, /* TUNE_KEY_PREDICTORS */
    TUNE_INPUTS,
    TUNE_COARSE,
    TUNE_THRESHOLDS,
    TUNE_RECALLS,
    TUNE_DENSITIES,
    TUNE_ARRAYS
};
typedef struct tune_array_row {
    const char *key;
    value_type type; /* of one value */
} tune_array_row;
extern const tune_array_row tune_arrays[TUNE_ARRAYS];

/* The tensors of a layer; tune_tensor_name() makes "blk.N.counts" and so on. */
enum tune_tensor { TUNE_COUNTS, TUNE_MAGNITUDES, TUNE_PRUNE, TUNE_FC1, TUNE_FC2, TUNE_TENSORS };
void tune_tensor_name(char out[TENSOR_NAME_SIZE], enum tune_tensor tensor, uint32_t layer);

extern const char *const tune_input_names[2]; /* indexed by reads_normed */

/* Checks that every value of t can be used safely: whatever both a file and a program can get wrong. path: of the
 * file, for the error text, which names the key or tensor. refusal: the status of a failed check, HEARTH_FORMAT for a
 * file, HEARTH_INVALID for a record that a program made. */
hearth_status tune_check(const tune *t, const hearth_model *model, const char *path, hearth_status refusal,
                         hearth_error *error);

#endif
