/* bind.h - what the parts of binding share: bind.c builds a model, bind_tensor.c finds its tensors. */
#ifndef MODEL_BIND_H
#define MODEL_BIND_H

#include "model.h"

/* What is built, and from what. */
typedef struct binder {
    hearth_model *model;
    const checkpoint *source;
    const hearth_progress *progress;
    uint64_t bytes_done, bytes_total; /* of matrices put in order                                           */
    uint32_t rank;                    /* of the predictor of the layer at hand; 0: none of its tensors seen */
    bool copies;                      /* false: everything is only checked                                  */
    bool folder;                      /* errors spell tensors as the folder does                            */
    hearth_error *error;
} binder;

/* Every rule of the family finds its tensor, every tensor its rule. The model has its hyperparameters and its layers'
 * memory already. HEARTH_FORMAT names the tensor. */
hearth_status bind_tensors(binder *b);

/* The predictor that a layer has from the model's own file: PowerInfer's, or none. */
learned_predictor model_stored_predictor(const hearth_model *model, uint32_t layer);

#endif
