/* predictors.h - reads the predictors for a PowerInfer file from one of two sources.
 *
 * The first is a folder as PowerInfer's users have it: model_N.pt for every layer, a state dict with fc1.weight
 * [rank][d] and fc2.weight [f][rank], and optionally config.json with sparse_threshold. The second is a tune file
 * whose predictors are all low-rank and read the residual stream: PowerInfer supports no others. PowerInfer also has
 * one threshold for all layers, while a tune file has one for each. Scores may be scaled by a positive number, so fc2
 * is scaled until one threshold fits all layers.
 *
 * The rank may differ from layer to layer. The bytes of the archives are read by file/torch_archive.h; what is done
 * with the tensors is up to the caller. */
#ifndef MODEL_PREDICTORS_H
#define MODEL_PREDICTORS_H

#include "tune.h"

typedef struct predictors {
    const family *family;
    checkpoint **layers; /* [layer_count] of a folder: the opened files, checked to hold exactly the expected tensors;
                            else NULL */
    tune *learnt;        /* the tune file; else NULL                                                       */
    float *scales;       /* [layer_count] of a tune file: the factor for fc2, at least 0; else NULL         */
    uint32_t layer_count;
    bool has_threshold; /* the source gives a threshold                                                    */
    float threshold;
    char note[256]; /* says how many layers let more neurons through than by their own threshold; "" where none does */
} predictors;

/* Opens and checks the predictors at path: a folder, or a tune file of the model. *out must be closed also on
 * failure. HEARTH_FORMAT: a layer's file or tensor is missing, superfluous or of another shape than the model needs
 * (the text names the file), or tune_open refuses the tune file. HEARTH_UNSUPPORTED: a family without predictors, or
 * a tune file with predictors that PowerInfer does not support. HEARTH_IO: path is neither a folder nor a tune
 * file. */
hearth_status predictors_open(predictors *out, const char *path, const hearth_model *model, hearth_error *error);
void predictors_close(predictors *p);

/* Returns the tensor of a layer for a rule flagged TENSOR_PREDICTOR; it has the name of its source file. */
const stored_tensor *predictors_find(const predictors *p, const tensor_rule *rule, uint32_t layer);
/* Returns the factor by which the values of that tensor are to be multiplied; 1: they stay as they are. */
float predictors_scale(const predictors *p, const tensor_rule *rule, uint32_t layer);
/* Returns the checkpoint that holds a layer's tensors. */
const checkpoint *predictors_source(const predictors *p, uint32_t layer);

#endif
