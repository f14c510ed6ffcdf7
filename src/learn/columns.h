/* columns.h - how strongly a corpus uses the columns of each weight matrix: the sums of engine/inputs.h under the names of
 * the model's tensors, as an importance matrix.
 *
 * All matrices of layers are there, and the head where the model has one of its own: a tied embedding is read by tokens
 * too, for whom all columns count alike. Down matrices have their usual name and the neurons' original order, also
 * where the model is packed. */
#ifndef LEARN_COLUMNS_H
#define LEARN_COLUMNS_H

#include "../engine/inputs.h"
#include "corpus.h"

typedef struct columns_result {
    size_t tensors;          /* that were written                                     */
    size_t matrices, unused; /* of these tensors, experts' counted one by one; without a token that used them */
} columns_result;

/* Writes the sums over a corpus as an importance matrix (file/importance.h). names [name_count]: what the corpus was read
 * from. */
hearth_status columns_write(columns_result *out, const char *path, const input_sums *sums, const hearth_model *model,
                            const corpus *texts, const span *names, size_t name_count, hearth_error *error);

#endif
