/* tuning.h - all that hearth learns about a model, in one go: profile, thresholds, predictors, the choice among them, the
 * tune file.
 *
 * A tuning goes through stages (tuning.c), each of which keeps what it found in a work folder (records.h): one that was
 * interrupted goes on where it stopped. With TUNING_BYTES nothing depends on a clock, so the file is the same byte for
 * byte, however often it was interrupted and on any number of threads (on one CPU level; where memory_bytes are that few
 * that ranks are left out, also on one number of threads, each of which takes some). */
#ifndef LEARN_TUNING_H
#define LEARN_TUNING_H

#include "../base/json.h"
#include "choose.h"
#include "loss.h"
#include "lowrank.h"
#include "profile.h"
#include "prune.h"

/* By what the predictor of a layer is chosen: seconds measured while decoding, or bytes read, counted. */
typedef enum tuning_choice { TUNING_TIME, TUNING_BYTES } tuning_choice;

/* Rows that the training of a layer looks at where nobody says how many epochs: 2 to 20 times those there are. More were
 * tried on half a million tokens of stories-relu: 20 epochs let no less through than 4. */
#define TUNING_ROWS 2000000

typedef struct tuning_options {
    const char *folder;    /* the work folder, which is there and locked (work.h)                        */
    uint64_t disk_bytes;   /* for hidden states, at most                                                 */
    uint64_t memory_bytes; /* for training, at most                                                      */
    float recall;          /* wanted of every predictor: share of what fires that is let through         */
    double budget;         /* share of the model's weight bytes that all predictors may take             */
    tuning_choice choice;
    bool for_powerinfer; /* low-rank in every layer, reading the residual stream: what PowerInfer can run; the smallest
                            also where the budget is too little for it */
    uint32_t epochs;     /* of training, at most; 0: by the number of rows, TUNING_ROWS in all           */
    const char *origin;  /* JSON object that tells of corpus and command, for the report; NULL: nothing  */
    hearth_progress progress;
} tuning_options;

/* What a layer could have: nothing, a low-rank predictor, coarse copies. Kind none beyond the first: there is none. */
enum { TUNING_NONE, TUNING_LOW_RANK, TUNING_COARSE, TUNING_CANDIDATES = TUNING_COARSE + CHOOSE_COARSE };

typedef struct tuning_layer {
    choose_layer shape;
    candidate starts[CHOOSE_RANKS]; /* [start_count] low-rank ones before training              */
    size_t start_count;
    size_t aim; /* of the starts, the one that was trained; start_count: none promised anything */
    candidate candidates[TUNING_CANDIDATES];
    lowrank trained;   /* of candidate TUNING_LOW_RANK                                               */
    char dropped[256]; /* why some rank was not tried, or nothing at all; "": all were */
    size_t chosen;
} tuning_layer;

/* Things that are told but stop nothing: what became of an earlier run's work. */
#define TUNING_NOTES 4

typedef struct tuning_result {
    uint32_t layer_count;
    tuning_layer *layers; /* [layer_count] */
    profile counted;
    prune_table prune;
    bool prunes;           /* some level that leaves out more than zeros costs at most HEARTH_PRUNE_LOSS ... */
    uint32_t prune_level;  /* ... and this is the highest                              */
    bool has_zeros;        /* the activation has: predictors were looked for                */
    char no_low_rank[160]; /* why there is no low-rank predictor at all; "": there are some   */
    double budget_bytes, spent_bytes;
    float recall; /* as wanted                                                           */
    tuning_choice choice;
    loss loss;                     /* on what training did not see; no tokens: nothing is predicted, or it saw all */
    char notes[TUNING_NOTES][256]; /* for people, none twice; "" behind the last */
    bool begun_anew;               /* the work folder held a tuning of something else, which is gone              */
} tuning_result;

/* Learns, and writes the tune file to `path`. The model was opened without one. What was found lies in the folder, also
 * when it succeeds (records_end). HEARTH_CANCELLED through progress. Zeroed is empty; free also on failure. */
hearth_status tuning_run(tuning_result *out, hearth_runtime *runtime, const hearth_model *model, const corpus *texts,
                         const char *path, const tuning_options *options, hearth_error *error);
void tuning_free(tuning_result *r);

/* What a layer got ("low-rank 64, normed"), and why, for people. */
void tuning_describe(char *out, size_t size, const candidate *c);
void tuning_explain(char *out, size_t size, const tuning_result *r, uint32_t layer);
/* All of it as JSON; measured seconds only where they decided. NULL: no memory. */
json_t *tuning_report(const tuning_result *r);

#endif
