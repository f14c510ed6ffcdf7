/* fingerprint.h - which model a file holds, whatever was done to the file.
 *
 * Covers what defines the function: the family, sizes and constants (an activation that was overridden is another
 * function), the rotary frequencies, every piece of the vocabulary, and every norm, which stays float32 in all formats
 * and tells one training from another. Not covered, so that it survives convert, quantize and pack: number formats and
 * weights, layout and order of neurons, predictors and their threshold, names, and the context, which only says how far
 * the training went.
 *
 * The vocabulary is that of the file, whether or not hearth can use it; a file without one is another model than the
 * same file with one, since texts cannot have become the same ids there. */
#ifndef MODEL_FINGERPRINT_H
#define MODEL_FINGERPRINT_H

#include "../base/hash.h"
#include "model.h"

#define FINGERPRINT_SIZE HASH_TEXT_SIZE

void model_fingerprint(char out[FINGERPRINT_SIZE], const hearth_model *model);

#endif
