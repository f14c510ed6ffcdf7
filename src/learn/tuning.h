/* tuning.h - learns everything about a model in one go: profile, thresholds, predictors, the choice among them, and the
 * tune file.
 *
 * A tuning consists of stages (tuning.c). Each stores its results in a work folder (work.h), so that an interrupted
 * tuning can be resumed. With TUNING_BYTES nothing depends on a clock: the file is the same byte for byte, however
 * often the tuning was interrupted, with any number of threads, on one CPU level. Exception: where memory_bytes are so
 * few that ranks are left out, the number of threads matters too, since each thread needs memory. */
#ifndef LEARN_TUNING_H
#define LEARN_TUNING_H

#include "../base/json.h"
#include "choose.h"
#include "loss.h"
#include "lowrank.h"
#include "profile.h"
#include "prune.h"

/* How the predictor of a layer is chosen: by seconds measured while decoding, or by counted bytes that are read. */
typedef enum tuning_choice { TUNING_TIME, TUNING_BYTES } tuning_choice;

/* Default length of training of a layer, in rows: 2 to 20 epochs. On half a million tokens of stories-relu, 20 epochs
 * let no fewer neurons through than 4. */
#define TUNING_ROWS 2000000

typedef struct tuning_options {
    const char *folder;    /* the work folder, which exists and is locked (work.h)                 */
    uint64_t disk_bytes;   /* most disk space for hidden states                                    */
    uint64_t memory_bytes; /* most memory for training; 0: no limit                                */
    float recall;          /* wanted of every predictor: share of what fires that is let through   */
    double budget;         /* most bytes of all predictors, as a share of the model's weight bytes */
    tuning_choice choice;
    bool for_powerinfer; /* low-rank in every layer, reading the residual stream, as PowerInfer can run it; at least
                            the smallest rank, even over budget */
    uint32_t epochs;     /* most epochs of training; 0: by the number of rows, TUNING_ROWS in all */
    const char *origin;  /* JSON object on corpus and command, for the report; NULL: none         */
    hearth_progress progress;
} tuning_options;

/* Candidates of a layer: none, a low-rank predictor, coarse
 * copies. An entry after the first whose kind is none is unused. */
enum { TUNING_NONE, TUNING_LOW_RANK, TUNING_COARSE, TUNING_CANDIDATES = TUNING_COARSE + CHOOSE_COARSE };

typedef struct tuning_layer {
    choose_layer shape;
    candidate starts[CHOOSE_RANKS]; /* [start_count] low-rank ones before training */
    size_t start_count;
    size_t aim; /* index of the start that was trained; start_count: none was worth training */
    candidate candidates[TUNING_CANDIDATES];
    lowrank trained;   /* the matrices of candidate TUNING_LOW_RANK                 */
    char dropped[256]; /* why a rank was not tried, or nothing at all; "": all were */
    size_t chosen;
} tuning_layer;

/* Most notes: messages for people on what became of an earlier run's work. They stop nothing. */
#define TUNING_NOTES 4

typedef struct tuning_result {
    uint32_t layer_count;
    tuning_layer *layers; /* [layer_count] */
    profile counted;
    prune_table prune;
    bool prunes;           /* some level above 0 has a loss of at most HEARTH_PRUNE_LOSS ... */
    uint32_t prune_level;  /* ... and this is the highest such level                         */
    bool has_zeros;        /* predictors could tell which neurons are zero, and were tried    */
    char no_low_rank[160]; /* why there is no low-rank predictor at all; "": there are some  */
    double budget_bytes, spent_bytes;
    float recall; /* as wanted */
    tuning_choice choice;
    loss loss;                     /* on tokens not trained on; no tokens: no predictor was chosen, or training saw
                                      all */
    char notes[TUNING_NOTES][256]; /* for people, none twice; "" ends the list               */
    bool begun_anew;               /* the work folder held another tuning, which was removed */
} tuning_result;

/* Tunes the model and writes the tune file to `path`. The model must have been opened without a tune file. The results
 * stay in the folder, also on success (records_end removes them). HEARTH_CANCELLED through progress. A zeroed result is
 * empty; call tuning_free after a failure too. */
hearth_status tuning_run(tuning_result *out, hearth_runtime *runtime, const hearth_model *model, const corpus *texts,
                         const char *path, const tuning_options *options, hearth_error *error);
void tuning_free(tuning_result *r);

/* Describes a candidate ("low-rank 64 normed"), and why a layer got it or none, for people. */
void tuning_describe(char *out, size_t size, const candidate *c);
void tuning_explain(char *out, size_t size, const tuning_result *r, uint32_t layer);
/* Returns the result as JSON; measured seconds only where they decided. NULL: no memory. */
json_t *tuning_report(const tuning_result *r);

#endif
