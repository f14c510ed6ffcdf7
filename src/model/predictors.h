/* predictors.h - a folder of predictors as PowerInfer's users keep them: model_N.pt for every layer, a state dict with
 * fc1.weight [rank][d] and fc2.weight [f][rank], and maybe config.json with sparse_threshold.
 *
 * The ranks may differ from layer to layer. How the files are made of bytes is file/torch_archive.h's matter; what is
 * done with the tensors is the caller's. */
#ifndef MODEL_PREDICTORS_H
#define MODEL_PREDICTORS_H

#include "model.h"

typedef struct predictors {
    const family *family;
    checkpoint **layers; /* [layer_count] the opened files; checked: exactly the tensors below           */
    uint32_t layer_count;
    bool has_threshold; /* config.json names one                                                        */
    float threshold;
} predictors;

/* HEARTH_FORMAT: a layer's file or tensor is missing, superfluous or of another shape than h asks for; the text
 * names the file. HEARTH_UNSUPPORTED: a family without predictors. *out needs closing also on failure. */
hearth_status predictors_open(predictors *out, const char *folder, const family *f, const hyperparameters *h,
                              hearth_error *error);
void predictors_close(predictors *p);

/* The tensor that a rule flagged TENSOR_PREDICTOR wants for a layer, under the name it has in its file. */
const stored_tensor *predictors_find(const predictors *p, const tensor_rule *rule, uint32_t layer);

#endif
