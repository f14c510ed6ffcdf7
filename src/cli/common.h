/* common.h - shared by all commands that compute: options of runtime, model, engine and session, and opening them. */
#ifndef CLI_COMMON_H
#define CLI_COMMON_H

#include "../base/json.h"
#include "../plan/tally.h"
#include "../text/tokenizer.h"
#include "command.h"
#include "progress.h"

typedef struct model_options {
    const char *model; /* -m; else the first operand                     */
    const char *ffn_activation;
    const char *tune; /* a file, or "none"; NULL: the one beside the model */
} model_options;

/* How much a command says on standard error besides errors: by default warnings and one line of status. */
typedef struct message_options {
    bool verbose, quiet;
} message_options;

typedef struct engine_options {
    model_options model;
    uint32_t threads;
    const char *cpu;
    uint32_t context;
    unsigned kv;          /* index into the choices f16, f32: hearth_kv     */
    unsigned activations; /* hearth_activations                             */
    unsigned stream;      /* auto, on, off: hearth_stream                   */
    const char *place;
    unsigned sparsity;          /* auto, dense, exact, predicted, pruned: hearth_mode */
    optional_number threshold;  /* of predictors, or of pruning                       */
    optional_number recall;     /* that predictors hold                               */
    optional_number prune;      /* share that is pruned                               */
    optional_number prune_loss; /* or the loss that pruning may cause, in nats */
    bool no_guard;
    bool measure_again;        /* the guard measures even if an earlier run cached its result */
    const char *device;        /* in device_open's syntax; NULL: none, or the best GPU where one is needed */
    optional_count gpu_layers; /* how much of the model the device gets, as for hearth_placement_use_device */
    optional_count gpu_neurons;
    unsigned hot_set;     /* auto, off, then those of hearth_hot_set (hot_set.h)                     */
    uint64_t vram, ram;   /* bytes that a plan may take; 0: the device's budget, and what is free */
    bool plans;           /* set by commands that let the model place itself beside a device         */
    uint32_t sequences;   /* that such a plan leaves room for; 0: one                                */
    bool measures_device; /* set by commands that need loaded.device_bandwidth                     */
    message_options messages;
} engine_options;

/* Longest text that is read at once. */
#define COMMON_TEXT_BYTES ((size_t)1 << 30)

/* Rows for OPTION_TABLE, for records of type model_options, engine_options and message_options. */
#define MODEL_OPTION_COUNT  3
#define MODEL_PATH_COUNT    1 /* the first rows, for commands that compute nothing: -m alone */
#define MODEL_PLAIN_COUNT   2 /* the first rows, for commands that write the tune file        */
#define ENGINE_OPTION_COUNT 20
#define ENGINE_CPU_COUNT    3 /* the first rows, for commands that choose the length of texts themselves, too */
#define ENGINE_PLAIN_COUNT  5 /* the first rows, for commands that choose themselves what is skipped, and where */
extern const option model_option_rows[MODEL_OPTION_COUNT];
#define MESSAGE_OPTION_COUNT 2
extern const option engine_option_rows[ENGINE_OPTION_COUNT];
extern const option message_option_rows[MESSAGE_OPTION_COUNT];

/* The tables of a command whose values hold an engine_options at offset `base`. */
#define ENGINE_TABLES(base)                                                                     \
    {"model", model_option_rows, MODEL_OPTION_COUNT, (base) + offsetof(engine_options, model)}, \
    {                                                                                           \
        "computing", engine_option_rows, ENGINE_OPTION_COUNT, (base)                            \
    }
#define MESSAGE_TABLE(base)                                                                                \
    {                                                                                                      \
        "messages", message_option_rows, MESSAGE_OPTION_COUNT, (base) + offsetof(engine_options, messages) \
    }

/* HEARTH_INVALID: both --verbose and --quiet were given. common_load calls it. */
hearth_status common_check_messages(const message_options *o, hearth_error *error);

/* HEARTH_INVALID: options contradict each other. common_load calls it. */
hearth_status common_check_options(const engine_options *o, hearth_error *error);

/* Opens the vocabulary of a model, or of a file that has nothing else; both are the caller's. HEARTH_UNSUPPORTED: there
 * is none. */
hearth_status common_open_tokenizer(checkpoint **c, tokenizer **t, const char *path, hearth_error *error);

/* Finds the model's path: -m, or the first operand, which is removed from `rest`; else, if `demo` allows it,
 * $HEARTH_MODEL or the model that comes with hearth. More than `others` remaining operands are wrong use.
 * HEARTH_INVALID: no model was named. */
hearth_status common_take_model(const char *command_path, model_options *o, operands *rest, size_t others, bool demo,
                                hearth_error *error);

/* Opens the model with the tune file that the options select. p: NULL: no progress is shown. */
hearth_status common_open_model(hearth_model **out, const model_options *o, progress *p, hearth_error *error);
/* Writes the number of neurons of a layer: "176", or "176 to 352" where layers differ. Returns out. */
#define NEURONS_TEXT 32
const char *common_neurons(char out[NEURONS_TEXT], const hearth_model *model);
/* Everything up to an engine; a zeroed record is closed. */
typedef struct loaded {
    hearth_runtime *runtime;
    hearth_model *model;
    hearth_placement *placement; /* the engine's, where it uses a device; else NULL */
    hearth_engine *engine;       /* owned by `guarded` where there is a guard */
    bool is_guarded;             /* the guard chose between exact and dense */
    bool is_planned;             /* `planned` owns the engine and what the guard opened */
    guarded guarded;
    planned planned;
    hearth_model_info info;
    double device_bandwidth; /* bytes per second that the device reads: of a plan's machine, or where
                              * engine_options.measures_device asked for it; 0: not known */
} loaded;

/* Opens all of it and, unless it is to be quiet, says what common_say_warnings says. */
hearth_status common_load(loaded *out, const engine_options *o, progress *p, hearth_error *error);
void common_unload(loaded *l);
/* Returns what the options say of an engine; placement: NULL: the default one. */
hearth_engine_options common_engine_options(const engine_options *o, const hearth_placement *placement, progress *p);

/* Returns a folder that comes with hearth, "machines" or "shapes", found from where the program lies; NULL: it is not
 * there, or no memory. Free with mem_free. */
char *common_own_folder(const char *name);
/* Returns the path of one of the user's own files, "$VARIABLE/NAME" or else "~/FALLBACK/NAME", and creates missing
 * folders; NAME may end in '/'. NULL: there is no place for it. Free with mem_free. */
char *common_user_path(const char *variable, const char *fallback, const char *name);
/* Returns the folder where results of the guard and of the drivers are cached; NULL: nowhere, as with $HEARTH_NO_CACHE.
 * Free with mem_free. */
char *common_cache_folder(void);

/* ------------------------------------------------------------------ what runs where (placing.c) */

/* Builds the placement that the options ask for by --place, or by naming a device and its share; *out NULL: none. */
hearth_status common_place(hearth_placement **out, const hearth_model *model, const engine_options *o,
                           hearth_error *error);
/* Does the same for a given mode, ignoring --place; uses the CPU alone where no device was asked for. */
hearth_status common_place_mode(hearth_placement **out, const hearth_model *model, hearth_mode mode,
                                const engine_options *o, hearth_error *error);
/* Chooses the device for a placement that needs one: --device, else the best GPU, whose spec is written to `found`.
 * HEARTH_DEVICE: there is none; the error lists what there is. */
hearth_status common_choose_device(const char **spec, char found[32], const engine_options *o, hearth_error *error);

/* ------------------------------------------------------------------ a model that places itself (planning.c) */

/* Returns whether a model is to place itself: the command lets it, nothing says where things are to be, and there is a
 * device. *spec: that device, owned by `found`. */
bool planning_wanted(const engine_options *o, const char **spec, char found[32]);
/* Opens runtime, plan and engine of a model that is open. spec: NULL: no device. plan_only: no engine with the device is
 * made. On failure the caller closes *out with common_unload. */
hearth_status planning_open(loaded *out, const engine_options *o, const char *spec, bool plan_only, progress *p,
                            hearth_error *error);
/* Does the same beside a device; where that cannot be opened, and nobody asked for it, warns and leaves *opened false, as if there were no
 * device. */
hearth_status planning_try(loaded *out, const engine_options *o, const char *spec, bool plan_only, progress *p,
                           bool *opened, hearth_error *error);
/* Says in at most six lines what the plan chose, why, and what came of it. */
void planning_say(const loaded *l);
/* An answer, to be compared with the plan. */
typedef struct planned_run {
    const tally *tally; /* of its tokens; NULL: only the whole is known  */
    size_t tokens;      /* that were read                                */
    double seconds;     /* they took                                     */
    double cached;      /* positions, on average                         */
} planned_run;

/* Returns the plan as JSON, with what an answer achieved (NULL: none); null where there is no plan. NULL: no memory. */
json_t *planning_json(const loaded *l, const planned_run *run);
/* Says, where there is a plan, what an answer achieved of it. */
void planning_say_run(const loaded *l, const planned_run *run);
/* Compares the speed of an answer with the plan; where it was wrong, the next run measures again, and unless it is to be quiet
 * this says so. */
void planning_check(const loaded *l, const planned_run *run, bool quiet);

/* ------------------------------------------------------------------ what is reported (announce.c) */

/* All of these print on standard error. */

/* Says in one line why the tune file beside the model is ignored; prints nothing if it is not. For commands that can go
 * on without it; the errors of the others give the same reason. */
void common_say_ignored(const hearth_model *model);
/* Says, a line each, what a run does otherwise than its user may expect: an ignored tune file, mode dense for want of
 * memory, weights rounded once more while loading. */
void common_say_warnings(const loaded *l);
/* Returns what prints, with --verbose, whether sessions stream neurons to a device, and why. */
hearth_log common_log(const message_options *o);
/* Say how much memory a session takes; and everything that --verbose prints before a session opens. */
hearth_status common_say_memory(const loaded *l, const hearth_session_options *o, hearth_error *error);
hearth_status common_announce(const loaded *l, const hearth_session_options *o, hearth_error *error);
/* Prints without a line break, for example, "mode exact, guarantee bitwise; 87 % of neurons skipped, 919 kB of 1.64 MB
 * read per token; 20 of 32 layers (45 % of neurons) on cuda". session NULL: nothing is known of what was skipped. */
void common_put_status(const loaded *l, const hearth_session *session);
/* Prints of that "; 87 % of neurons skipped, ..."; nothing where nothing is skipped. */
void common_put_skipped(const loaded *l, const hearth_session *session);
/* Says, after a measurement, that in one line; verbose: with what the guarantee means, what the guard found and what
 * ran on the device, a line each; quiet: nothing. */
void common_say_status(const loaded *l, const message_options *o);
/* Returns what mode pruned skips and the loss it causes; JSON null in other modes, or where thresholds were given.
 * NULL: no memory. */
json_t *common_pruning_json(const loaded *l);
/* Returns what the guard found; JSON null where there was no guard. NULL: no memory. */
json_t *common_guard_json(const loaded *l);
/* Return the device with its memory, and the placement on it; JSON null where nothing is placed there. NULL: no
 * memory. */
json_t *common_device_json(const loaded *l);
json_t *common_placement_json(const loaded *l);
/* Returns whether any layer has neurons on both sides. */
bool common_has_split(const loaded *l);

/* What a session skipped of the rows fed since its counts were last reset. */
typedef struct skipped {
    bool known;                                    /* some rows were fed */
    double let_through, density;                   /* shares of the neurons           */
    double bytes_per_token, dense_bytes_per_token; /* of weights                      */
    double recall_target, recall; /* since the session began, and by its probes; target 0: none is held */
} skipped;

skipped common_skipped(const loaded *l, const hearth_session *session);
/* Returns it as JSON; null where nothing was fed. NULL: no memory. */
json_t *common_skipped_json(const loaded *l, const hearth_session *session);

#endif
