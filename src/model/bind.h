/* bind.h - what bind.c, which builds a model, and bind_tensor.c, which finds its tensors, share. */
#ifndef MODEL_BIND_H
#define MODEL_BIND_H

#include "model.h"

/* The state of building a model from a checkpoint. */
typedef struct binder {
    hearth_model *model;
    const checkpoint *source;
    const hearth_progress *progress;
    uint64_t bytes_done, bytes_total; /* of matrices whose rows are put in order                            */
    uint32_t rank;                    /* of the current layer's predictor; 0: none of its tensors was seen yet */
    bool copies;                      /* false: no rows are put in order, everything is only checked        */
    bool folder;                      /* error texts use the tensor names of a folder                       */
    hearth_error *error;
} binder;

/* Binds a tensor to every rule of the family and checks that every tensor of the source has a rule. The model must
 * have its hyperparameters and the memory of its layers already. HEARTH_FORMAT: a tensor is missing, superfluous or
 * of another shape or format (named). */
hearth_status bind_tensors(binder *b);

/* Returns whether the tensor of a rule's name belongs to another rule in this layer, which is not of the rule's kind. */
bool bind_gives_way(const hearth_model *model, const tensor_rule *rule, uint32_t layer);

#endif
