/* fingerprint.h - identifies a model independently of the file that holds it.
 *
 * The fingerprint covers what defines the function: the family, sizes and constants (an activation that was
 * overridden makes another function), the rotary frequencies, every piece of the vocabulary, and every norm. Norms
 * stay float32 in all formats and tell one training from another. Not covered, so that the fingerprint survives
 * convert, quantize and pack: number formats and weights, layout and order of neurons, predictors and their
 * threshold, names, and the context length, which only says how far the training went.
 *
 * The vocabulary is that of the file, whether or not hearth can use it. A file without a vocabulary is another model
 * than the same file with one, since the same texts cannot have become the same ids there. */
#ifndef MODEL_FINGERPRINT_H
#define MODEL_FINGERPRINT_H

#include "../base/hash.h"
#include "model.h"

#define FINGERPRINT_SIZE HASH_TEXT_SIZE

/* Writes the fingerprint of a model as text. */
void model_fingerprint(char out[FINGERPRINT_SIZE], const hearth_model *model);

#endif
