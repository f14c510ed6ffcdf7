/* tune.h - the tune file: what hearth has learnt about one model, stored next to it as MODEL.tune.
 *
 * It is a GGUF file (version 3, little-endian) of the architecture "hearth-tune", so it is validated, written
 * atomically and inspected like any other. Keys and tensors, for layer N of L:
 *
 *   general.architecture                "hearth-tune"
 *   hearth.tune.version                 1; others are refused
 *   hearth.tune.fingerprint             of the model (fingerprint.h); a file of another model is refused
 *   hearth.tune.layers, .neurons        L and f; where layers differ in f, .neurons is an array U32 [L]
 *   hearth.tune.tokens                  number of tokens read while counting
 *   hearth.tune.report                  JSON: how the file was made and what was measured; never used by the engine
 *   hearth.tune.levels                  F32 [K] shares of activations that are pruned, ascending; see blk.N.prune
 *   hearth.tune.losses                  F32 [K] the loss at each level: mean KL divergence in nats from computing all
 *                                       neurons, on text that nothing was learnt from; absent: not measured
 *   blk.N.counts                        I32 [f] how often each neuron fired, by neuron number, never by row of a
 *                                       packed file
 *   blk.N.magnitudes                    F32 [TUNE_QUANTILES] quantiles q / (TUNE_QUANTILES - 1) of |activation|
 *   blk.N.prune                         F32 [K] the layer's threshold on |activation| at each level
 *   hearth.tune.predictors              strings [L] "none", "low-rank", "coarse"; absent: no predictors were learnt
 *   hearth.tune.inputs                  strings [L] "residual", "normed": what a low-rank predictor reads
 *   hearth.tune.coarse_types            strings [L] number format of the coarse copy (signs1 and levels2 too); "" where
 *                                       there is none
 *   hearth.tune.thresholds              F32 [L] low-rank: of the score; coarse: the margin, see learned_predictor
 *   hearth.tune.recalls, .densities     F32 [L] share of the firing neurons, and of all neurons, that are let through;
 *                                       of experts those that a token chose count
 *   blk.N.fc1.weight, blk.N.fc2.weight  [rank][d], [f][rank] in any weight format; rows of fc2 by neuron number
 *
 * A section may be absent, but only for all layers at once (fc1 and fc2 exist for exactly the low-rank layers). A layer
 * without a feed-forward network (f is 0) has none of these tensors, and the predictor "none". The sections are: counts with tokens; magnitudes; prune with levels, optionally with losses; predictors with the other
 * five keys [L], which have a value for every layer, whether or not its predictor uses it. Keys with the prefix
 * "hearth.tune." that are not in the list are refused. */
#ifndef MODEL_TUNE_H
#define MODEL_TUNE_H

#include "model.h"

/* With these a program that has no model can recognise the file and the model that it belongs to. */
#define TUNE_ARCHITECTURE    "hearth-tune"
#define TUNE_KEY_FINGERPRINT "hearth.tune.fingerprint"

#define TUNE_VERSION      1
#define TUNE_QUANTILES    257
#define TUNE_LEVEL_LIMIT  256
#define TUNE_REPORT_LIMIT ((size_t)4 << 20) /* bytes */

/* Returns "none", "low-rank" or "coarse". */
const char *predictor_kind_name(predictor_kind kind);
/* Returns the bytes that a predictor adds to a layer: those of fc1 and fc2, or of the coarse copy
 * [neuron_count][embedding_length]; 0 for none. */
uint64_t predictor_bytes(const learned_predictor *p, uint32_t neuron_count, uint32_t embedding_length);

/* What was learnt about one layer. Everything but fc2_by_row goes by original neuron numbers, also the rows of the
 * predictor's fc2, whatever order the model's file has. */
typedef struct tune_layer {
    uint32_t neuron_count;   /* f                                                                          */
    const int32_t *counts;   /* [f] how often each neuron fired; NULL: not counted                         */
    const uint32_t *order;   /* [f] neurons by descending count, ties by number; derived when reading; NULL without
                                counts */
    const float *magnitudes; /* [TUNE_QUANTILES]; NULL: none                                               */
    const float *prune;      /* [level_count]; NULL: none                                                  */
    learned_predictor predictor;
    matrix fc2_by_row;     /* [f][rank] fc2 in the order of the model file's rows; no data before tune_bind */
    float recall, density; /* of the predictor, on the held-out part of the corpus; of experts, among the chosen */
} tune_layer;

/* The contents of a tune file. Read-only once open and bound. A writer fills one in itself (source NULL) and owns the
 * memory. */
typedef struct tune {
    checkpoint *source; /* what the pointers point into                                                    */
    uint32_t layer_count;
    uint64_t tokens;
    const char *report; /* JSON, terminated; "" where there is none                                        */
    uint32_t level_count;
    const float *levels; /* [level_count]                                                                  */
    const float *losses; /* [level_count] nats, as measured; NULL: not measured                            */
    bool has_predictors; /* mode predicted can run, where at least one layer has one                   */
    tune_layer *layers;  /* [layer_count]                                                                  */
    arena memory;
} tune;

/* Returns the first layer with neurons; layer 0 where none has any. All layers with neurons have the sections that it
 * has. */
static inline const tune_layer *tune_first(const tune *t)
{
    uint32_t i = 0;
    while (i + 1 < t->layer_count && t->layers[i].neuron_count == 0)
        i++;
    return &t->layers[i];
}

/* Reads and validates a tune file for a model. HEARTH_FORMAT: damaged, of another version, or of another model (the
 * text says which). HEARTH_UNSUPPORTED: a number format that hearth does not know. */
hearth_status tune_open(tune **out, const char *path, const hearth_model *model, hearth_error *error);
/* As tune_open, but from memory, which must outlive *out. Used by the fuzzer. */
hearth_status tune_parse(tune **out, const uint8_t *data, size_t size_bytes, const char *path,
                         const hearth_model *model, hearth_error *error);
/* Gives a record the layers of a model: layers [layer_count], zeroed, which get their neuron counts. */
void tune_set_layers(tune *t, tune_layer *layers, const hearth_model *model);
/* Frees a record that was opened, and its source; t may be NULL. */
void tune_close(tune *t);

/* Writes all that t holds; the file appears once it is complete and on disk. HEARTH_INVALID: t holds something that a
 * reader would refuse. */
hearth_status tune_write(const char *path, const tune *t, const hearth_model *model, hearth_error *error);

/* Returns "MODEL.tune", for a folder "FOLDER.tune" without its trailing slashes; free it with mem_free. NULL: no
 * memory. */
char *tune_path(const char *model_path);

/* Prepares a record for computing with the model: puts the rows of fc2 in the file's order of neurons where it has one
 * (a copy in t's memory). HEARTH_NO_MEMORY: t can only be closed. */
hearth_status tune_bind(tune *t, const hearth_model *model, hearth_error *error);

/* Binds a record to a model, which owns it afterwards and closes the one that it had; t NULL: the model has none. To be
 * called only while a model is being opened: a model that is in use does not change. HEARTH_NO_MEMORY: t is closed, the
 * model unchanged. */
hearth_status tune_attach(hearth_model *model, tune *t, hearth_error *error);

/* Return the predictor of a layer of the model, and whether any layer has one, under a record that was bound to it: the
 * record's, where it has predictors; else, or where t is NULL, those of the model's own file (PowerInfer's). Matrices
 * stay those of the record or of the model, with a row of fc2 for each row of gate. */
learned_predictor tune_predictor(const tune *t, const hearth_model *model, uint32_t layer);
bool tune_predicts(const tune *t, const hearth_model *model);

#endif
