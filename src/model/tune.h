/* tune.h - the tune file: what hearth has learnt about one model, beside its file as MODEL.tune.
 *
 * A GGUF file (version 3, little-endian) of the architecture "hearth-tune": validated, written atomically and looked at
 * as every other one. Keys and tensors, of layer N of L:
 *
 *   general.architecture                "hearth-tune"
 *   hearth.tune.version                 1; others are refused
 *   hearth.tune.fingerprint             of the model, as fingerprint.h makes it; another model's is refused
 *   hearth.tune.layers, .neurons        L and f
 *   hearth.tune.tokens                  read while counting
 *   hearth.tune.report                  JSON: how all of it came about and what was measured; nothing obeys it
 *   hearth.tune.levels                  [K] shares of activations pruned away, ascending, for which thresholds follow
 *   hearth.tune.losses                  F32 [K] what each level costs: mean KL divergence in nats from computing all of
 *                                       it, on text that nothing was learnt from; absent: not measured
 *   blk.N.counts                        I32 [f] how often each neuron fired; its own number, never a row of a packed file
 *   blk.N.magnitudes                    F32 [TUNE_QUANTILES] quantiles q / (TUNE_QUANTILES - 1) of |activation|
 *   blk.N.prune                         F32 [K] the layer's threshold on |activation| at each level
 *   hearth.tune.predictors              strings [L] "none", "low-rank", "coarse"; absent: nothing was learnt
 *   hearth.tune.inputs                  strings [L] "residual", "normed": what a low-rank predictor reads
 *   hearth.tune.coarse_types            strings [L] number format of the coarse copy, "" where there is none
 *   hearth.tune.thresholds              F32 [L] low-rank: of the score; coarse: the margin, see learned_predictor
 *   hearth.tune.recalls, .densities     F32 [L] of what fires, the share let through; of all, the share let through
 *   blk.N.fc1.weight, blk.N.fc2.weight  [rank][d], [f][rank] in any weight format; rows of fc2 by neuron number
 *
 * Sections may be absent, each for all layers (fc1 and fc2: those of low-rank layers exactly): counts with tokens;
 * magnitudes; prune with levels, and losses with them; predictors with the five keys that tell more of them, an input and a coarse type for
 * every layer, whether or not it uses one. What of this prefix is not in the list is refused. */
#ifndef MODEL_TUNE_H
#define MODEL_TUNE_H

#include "model.h"

/* By these a program that has no model knows the file, and whose it is. */
#define TUNE_ARCHITECTURE    "hearth-tune"
#define TUNE_KEY_FINGERPRINT "hearth.tune.fingerprint"

#define TUNE_VERSION      1
#define TUNE_QUANTILES    257
#define TUNE_LEVEL_LIMIT  256
#define TUNE_REPORT_LIMIT ((size_t)4 << 20) /* bytes */

/* "none", "low-rank", "coarse". */
const char *predictor_kind_name(predictor_kind kind);
/* Bytes that a predictor adds to a layer of this many neurons of width d: stored ones, or those of the coarse copy. */
uint64_t predictor_bytes(const learned_predictor *p, uint32_t neuron_count, uint32_t embedding_length);

/* What was learnt about one layer. Neurons go by their own numbers, rows of fc2 too, whatever the model's file does. */
typedef struct tune_layer {
    const int32_t *counts;   /* [f]; NULL: there is no profile                                             */
    const uint32_t *order;   /* [f] neurons, hottest first, ties by number; derived; NULL without counts   */
    const float *magnitudes; /* [TUNE_QUANTILES]; NULL: none                                               */
    const float *prune;      /* [level_count]; NULL: none                                                  */
    learned_predictor predictor;
    float recall, density; /* of the predictor, on the part of the corpus that was held out                */
} tune_layer;

/* Read-only once open; a writer fills one by hand (source NULL) with memory of its own. */
typedef struct tune {
    checkpoint *source; /* what the pointers point into                                                    */
    uint32_t layer_count, neuron_count;
    uint64_t tokens;
    const char *report; /* JSON, terminated; "" where there is none                                        */
    uint32_t level_count;
    const float *levels; /* [level_count]                                                                  */
    const float *losses; /* [level_count] nats, as measured; NULL: not measured                            */
    bool has_predictors; /* mode predicted can run, where at least one layer has one                   */
    tune_layer *layers;  /* [layer_count]                                                                  */
    arena memory;
} tune;

/* Reads and validates a tune file for a model. HEARTH_FORMAT: damaged, of another version, or of another model (said so
 * by name). HEARTH_UNSUPPORTED: a number format that hearth does not know. */
hearth_status tune_open(tune **out, const char *path, const hearth_model *model, hearth_error *error);
/* The same of bytes that outlive it; the fuzzer's way in. */
hearth_status tune_parse(tune **out, const uint8_t *data, size_t size_bytes, const char *path,
                         const hearth_model *model, hearth_error *error);
void tune_close(tune *t);

/* Writes all that t holds; the file appears when it is whole and on disk. HEARTH_INVALID: it holds what a reader would
 * refuse. */
hearth_status tune_write(const char *path, const tune *t, const hearth_model *model, hearth_error *error);

/* "MODEL.tune"; of a folder "FOLDER.tune", without slashes at its end. mem_free. NULL: no memory. */
char *tune_path(const char *model_path);

/* Gives the model's layers their predictors; the model owns t afterwards, one that it had is closed. There, but not in
 * t, rows of fc2 follow the file's order of neurons where it has one (a copy in t's memory). Where t has predictors,
 * those of the model's file give way in all layers; else they stay. t NULL: the model is as its own file says. Part of
 * opening a model: once anybody else knows it, it does not change.
 * HEARTH_NO_MEMORY: t is closed, the model as before. */
hearth_status tune_attach(hearth_model *model, tune *t, hearth_error *error);

/* The same model with another tune record, which it owns (on failure t is closed); t NULL: as its own file says. Shares
 * everything else with `of`, which stays as it is and outlives it. hearth_model_close. */
hearth_status tune_view(hearth_model **out, const hearth_model *of, tune *t, hearth_error *error);

#endif
