/* common.h - what the commands that compute share: options of runtime, model, engine and session, and opening them. */
#ifndef CLI_COMMON_H
#define CLI_COMMON_H

#include "command.h"
#include "progress.h"

typedef struct model_options {
    const char *model; /* -m; else the first operand                     */
    const char *ffn_activation;
} model_options;

typedef struct engine_options {
    model_options model;
    uint32_t threads;
    const char *cpu;
    uint32_t context;
    unsigned kv;          /* index into the choices f16, f32: hearth_kv     */
    unsigned activations; /* auto, f32: hearth_activations                  */
    const char *place;
    unsigned sparsity; /* dense, then the rungs that are still to come   */
    bool no_guard;
    const char *device; /* the devices that are still to come, and what of the model goes there */
    uint32_t gpu_layers, gpu_neurons;
} engine_options;

/* Rows for OPTION_TABLE; records of model_options and engine_options. */
#define MODEL_OPTION_COUNT  2
#define MODEL_PATH_COUNT    1 /* the first rows, for commands that compute nothing: -m alone */
#define ENGINE_OPTION_COUNT 11
extern const option model_option_rows[MODEL_OPTION_COUNT];
extern const option engine_option_rows[ENGINE_OPTION_COUNT];

/* The tables of a command whose values hold an engine_options at `base`. */
#define ENGINE_TABLES(base)                                                                     \
    {"model", model_option_rows, MODEL_OPTION_COUNT, (base) + offsetof(engine_options, model)}, \
    {                                                                                           \
        "computing", engine_option_rows, ENGINE_OPTION_COUNT, (base)                            \
    }

/* The model's path: -m, or the operand that stands first, which is taken off `rest`; else, where `demo` allows it,
 * $HEARTH_MODEL or the model that comes with hearth. Left over operands beyond `others` are wrong use.
 * HEARTH_INVALID: no model was named. */
hearth_status common_take_model(const char *command_path, model_options *o, operands *rest, size_t others, bool demo,
                                hearth_error *error);

/* Everything up to an engine; zeroed is closed. */
typedef struct loaded {
    hearth_runtime *runtime;
    hearth_model *model;
    hearth_engine *engine;
    hearth_model_info info;
} loaded;

hearth_status common_load(loaded *out, const engine_options *o, progress *p, hearth_error *error);
void common_unload(loaded *l);

/* Says in one line on standard error what runs where and what memory it takes. */
hearth_status common_announce(const loaded *l, const hearth_session_options *o, hearth_error *error);

#endif
