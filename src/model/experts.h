/* experts.h - puts the tensors of single experts together: folders of transformers 4 have one for each expert, and so have
 * GGUF files from before experts were stacked. All other modules see stacked ones, whose matrices lie at their own
 * places (stored_tensor.parts). */
#ifndef MODEL_EXPERTS_H
#define MODEL_EXPERTS_H

#include "../file/checkpoint.h"
#include "family.h"

/* Of which expert a tensor is. */
typedef struct expert_number {
    uint32_t expert;
    uint32_t count;   /* experts of the model                                                            */
    size_t available; /* tensors of the file, with which no more experts than that can be told one by one */
} expert_number;

/* Adds a tensor [rows][columns] of one expert to the stacked tensor of that name, which is created where it is missing.
 * HEARTH_FORMAT: the model has no such expert, or more experts than the file has tensors; the tensor differs from those
 * of other experts in shape or format, the expert was added before, or c has a tensor of that name that is of all
 * experts. */
hearth_status experts_add(checkpoint *c, const char *name, const stored_tensor *one, expert_number number,
                          hearth_error *error);
/* Checks that every tensor that was put together has a part of every expert. HEARTH_FORMAT: one is missing (named). */
hearth_status experts_check(const checkpoint *c, hearth_error *error);

/* Puts together the tensors of a GGUF whose names have the number of an expert, by the family's rules; without such
 * tensors c is unchanged. Pointers to tensors that were found before become invalid. Errors as above; c then has the
 * tensors that it had, unless memory is out: then some may be missing. */
hearth_status experts_stack(checkpoint *c, const family *f, uint32_t count, hearth_error *error);

#endif
