/* predictors.h - the predictors of a PowerInfer file, from one of two sources.
 *
 * A folder as PowerInfer's users keep it: model_N.pt for every layer, a state dict with fc1.weight [rank][d] and
 * fc2.weight [f][rank], and maybe config.json with sparse_threshold. Or a tune file whose predictors are all low-rank
 * and read the residual stream: PowerInfer knows no others. It also knows one threshold for all layers, and a tune file
 * has one for each; but scores may be scaled by a positive number, so fc2 is scaled until one threshold serves all.
 *
 * The ranks may differ from layer to layer. How the files are made of bytes is file/torch_archive.h's matter; what is
 * done with the tensors is the caller's. */
#ifndef MODEL_PREDICTORS_H
#define MODEL_PREDICTORS_H

#include "tune.h"

typedef struct predictors {
    const family *family;
    checkpoint **layers; /* [layer_count] of a folder: the opened files; checked: exactly the tensors below */
    tune *learnt;        /* or the tune file                                                               */
    float *scales;       /* [layer_count] of a tune file: what fc2 is to be multiplied by; not negative     */
    uint32_t layer_count;
    bool has_threshold; /* the source names one                                                            */
    float threshold;
    char note[256]; /* where layers let more through than their own threshold would; "" where none does    */
} predictors;

/* path: a folder, or a tune file of the model. HEARTH_FORMAT: a layer's file or tensor is missing, superfluous or of
 * another shape than the model asks for (the text names the file), or what tune_open refuses. HEARTH_UNSUPPORTED: a
 * family without predictors, or a tune file with other predictors than PowerInfer's. HEARTH_IO: there is neither at
 * path. *out needs closing also on failure. */
hearth_status predictors_open(predictors *out, const char *path, const hearth_model *model, hearth_error *error);
void predictors_close(predictors *p);

/* The tensor that a rule flagged TENSOR_PREDICTOR wants for a layer, under the name it has in its file. */
const stored_tensor *predictors_find(const predictors *p, const tensor_rule *rule, uint32_t layer);
/* What its values are to be multiplied by; 1: nothing. */
float predictors_scale(const predictors *p, const tensor_rule *rule, uint32_t layer);
/* The file that a layer's tensors lie in. */
const checkpoint *predictors_source(const predictors *p, uint32_t layer);

#endif
