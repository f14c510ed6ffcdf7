/* sweep.h - measures what skipping neurons costs: one model at many settings, each with its density, bytes, speed and
 * output quality.
 *
 * A setting is a way of skipping neurons, in most cases with an amount. Density and bytes are measured on the beginning
 * of the text whose quality is measured, up to activity_tokens tokens, in windows of the same length; speed is measured
 * last, with the settings taking turns. Engines of one model share the matrices that were transposed. */
#ifndef EVAL_SWEEP_H
#define EVAL_SWEEP_H

#include "../base/text.h"
#include "humaneval.h"

typedef enum sweep_kind {
    SWEEP_DENSE,
    SWEEP_EXACT,
    SWEEP_PREDICTED, /* value: the threshold of every layer; none: as tuned for each layer */
    SWEEP_PRUNED,    /* value: the share of activations that count as zero */
    SWEEP_HOT_ONLY,  /* value: the share of each layer's neurons that is used, the hottest or ... */
    SWEEP_COLD_ONLY, /* ... the coldest; the others count as zero, whatever their true value */
    SWEEP_KINDS
} sweep_kind;

typedef struct sweep_setting {
    sweep_kind kind;
    double value; /* NAN: none */
} sweep_setting;

#define SWEEP_SETTINGS 64
#define SWEEP_NAME     32

/* ------------------------------------------------------------------ settings (sweep_settings.c) */

const char *sweep_kind_name(sweep_kind kind);
/* Formats a setting: "pruned=0.5", "dense". */
void sweep_setting_name(char out[SWEEP_NAME], const sweep_setting *setting);
/* Parses a list such as "dense,predicted,pruned=0.3:0.9:0.1,hot-only=0.2": single values or FROM:TO:STEP. pruned
 * without a value stands for each level of the tune file, hot-only and cold-only for 0.2 to 0.8. *count is the number
 * of settings, at most SWEEP_SETTINGS.
 * HEARTH_INVALID: a malformed entry (named in the error). HEARTH_UNSUPPORTED: the model has no levels. */
hearth_status sweep_parse(sweep_setting out[SWEEP_SETTINGS], size_t *count, const char *text, const hearth_model *model,
                          hearth_error *error);
/* Chooses all kinds of settings that this model supports, a few of each. */
void sweep_defaults(sweep_setting out[SWEEP_SETTINGS], size_t *count, const hearth_model *model);
/* Builds the placement of a setting. HEARTH_UNSUPPORTED: the model, or its tune file, lacks what it needs. */
hearth_status sweep_place(hearth_placement **out, const hearth_model *model, const sweep_setting *setting,
                          hearth_error *error);

/* ------------------------------------------------------------------ activity (sweep_activity.c) */

/* How a text is read: whole, in windows that start with BOS where the model has one; or document by document, each with
 * its BOS and cut at the window (perplexity.h). */
typedef struct sweep_text {
    span text;
    const char *name;
    const char *separator;   /* NULL: one text */
    uint32_t document_limit; /* 0: all         */
} sweep_text;

/* What the rows of a text needed, as means over rows and layers. */
typedef struct sweep_activity {
    uint64_t tokens;
    double let_through; /* share of neurons whose first matrix was read, mean over layers with a network */
    double density;     /* share whose row of down was read, likewise                                    */
    double weight_bytes;
} sweep_activity;

/* Measures the first `tokens` tokens of a text, up to the end of a window; 0: all. context: 0: the model's.
 * layers [layer_count]: density of each, NAN where it has no network; may be NULL. HEARTH_FORMAT: a text without tokens. */
hearth_status sweep_measure_activity(sweep_activity *out, double *layers, const hearth_engine *engine,
                                     const sweep_text *text, uint64_t tokens, uint32_t context, hearth_kv kv,
                                     const hearth_progress *progress, hearth_error *error);

/* ------------------------------------------------------------------ all of it (sweep.c) */

typedef enum sweep_task { SWEEP_PPL, SWEEP_KL, SWEEP_HUMANEVAL, SWEEP_TASKS } sweep_task;

const char *sweep_task_name(sweep_task task);

typedef struct sweep_options {
    sweep_task task;
    sweep_text text;                    /* humaneval: only its name is used ... */
    const humaneval_problems *problems; /* ... and these are read and solved */
    uint32_t limit;                     /* kl: windows; humaneval: problems; 0: all            */
    double timeout_seconds;             /* humaneval: per program; 0: the default of humaneval.h */
    uint32_t context;                   /* of the windows; 0: the task's default */
    const char *const *tunes;           /* [tune_count] further tune files of the model: mode predicted with */
    size_t tune_count;                  /* each of them is an additional setting */
    uint64_t activity_tokens;
    uint32_t decode_tokens, repeats; /* of the speed measurement; repeats 0: no speed */
    hearth_activations activations;
    hearth_kv kv;
    hearth_progress progress;
} sweep_options;

/* NAN: not measured. */
typedef struct sweep_row {
    sweep_setting setting;
    const char *tune; /* predicted: the further tune file used; NULL: the model's own */
    double recall;    /* predicted without a threshold: as tuned, mean over layers with a predictor */
    const char *mode, *guarantee;
    sweep_activity activity;
    double quality; /* kl: mean divergence from the dense model, in nats; ppl: perplexity; humaneval: pass@1 */
    double quality_error;
    double perplexity;        /* ppl, kl                                                         */
    double same_top;          /* kl: share of positions whose top token is the dense model's */
    uint64_t scored;          /* tokens, or problems                                             */
    double tokens_per_second; /* decoding, median */
    double relative_speed;    /* over dense in the same round, median */
} sweep_row;

/* A zeroed result is empty. */
typedef struct sweep_result {
    sweep_row *rows; /* [count] one per setting, in order, then one per further tune file */
    size_t count;
    double dense_speed; /* tokens per second of dense, whether or not it is a setting */
} sweep_result;

/* Measures all settings. kl stores the dense model's logits in a nameless file (divergence_write_temporary). humaneval
 * runs programs that the model writes; call humaneval_can_check first to find out whether that is possible.
 * HEARTH_UNSUPPORTED: a setting needs what the model or a tune file lacks, or there is no sandbox. */
hearth_status sweep_run(sweep_result *out, hearth_runtime *runtime, const hearth_model *model,
                        const sweep_setting *settings, size_t count, const sweep_options *options, hearth_error *error);
void sweep_free(sweep_result *result);
/* Formats the name of a row: "pruned=0.5"; for a further tune file "predicted@0.95", from its recall, or
 * "predicted@none" where no layer has a predictor. */
void sweep_row_name(char out[SWEEP_NAME], const sweep_row *row);

#endif
