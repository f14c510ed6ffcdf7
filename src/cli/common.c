/* common.c - turns options into an engine that is ready to run. */
#include "common.h"

#include "../base/text.h"
#include "../device/measure.h"
#include "../engine/engine.h"
#include "../kernel/topology.h"
#include "../model/model.h"
#include "../pull/reference.h"
#include "hot_set.h"

#include <errno.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

static const char *const kv_choices[] = {
    [HEARTH_KV_F16] = "f16", [HEARTH_KV_F32] = "f32", [HEARTH_KV_Q8_0] = "q8_0", NULL};
static const char *const activation_choices[] = {
    [HEARTH_ACTIVATIONS_AUTO] = "auto", [HEARTH_ACTIVATIONS_F32] = "f32", [HEARTH_ACTIVATIONS_BF16] = "bf16", NULL};
static const char *const stream_choices[] = {
    [HEARTH_STREAM_AUTO] = "auto", [HEARTH_STREAM_ON] = "on", [HEARTH_STREAM_OFF] = "off", NULL};
static const char *const hot_set_choices[] = {"auto", "off", "static", "adaptive", "frozen", NULL};
_Static_assert(HEARTH_HOT_SET_COUNT == 3, "off, and one of them");
static const char *const mode_choices[] = {
    "auto",
#define X(mode, name) name,
    HEARTH_MODES(X)
#undef X
        NULL,
};

const option model_option_rows[MODEL_OPTION_COUNT] = {
    {OPTION_ROW('m', "model", TEXT, model_options, model, "MODEL",
                "GGUF file or Hugging Face folder; the same as naming it without -m")},
    {OPTION_ROW(0, "ffn-activation", TEXT, model_options, ffn_activation, "NAME",
                "activation of the neurons, whatever the file says"),
     .list = ffn_activation_list},
    {OPTION_ROW(0, "tune", TEXT, model_options, tune, "FILE|none",
                "what `hearth tune` or `hearth profile` learnt about the model; else MODEL.tune where there is one, "
                "which is ignored with a warning where it is damaged or of another model")},
};

const option engine_option_rows[ENGINE_OPTION_COUNT] = {
    THREADS_ROW(engine_options, threads),
    CPU_ROW(engine_options, cpu),
    {OPTION_ROW(0, "activations", CHOICE, engine_options, activations, "auto|f32|bf16",
                "auto: 8 bits where block formats are read; f32: float32 everywhere, slow; bf16: as auto, but prompts "
                "meet F16 and BF16 weights in bfloat16, twice as fast, where the CPU can"),
     .choices = activation_choices},
    {OPTION_ROW('c', "context", COUNT, engine_options, context, "N",
                "positions that fit; else what the model was made for, or what memory holds"),
     .alias = "ctx-size", .least = 1, .most = 1 << 30},
    {OPTION_ROW(0, "kv", CHOICE, engine_options, kv, "f16|f32|q8_0", "format of the key/value cache (default f16)"),
     .choices = kv_choices},
    {OPTION_ROW(0, "place", TEXT, engine_options, place, "FILE",
                "placement (JSON): for each layer what lies where and what is skipped")},
    {OPTION_ROW(
         0, "sparsity", CHOICE, engine_options, sparsity, "MODE",
         "what is skipped: dense (nothing), exact (neurons that are zero), predicted (also those that predictors take "
         "for zero: lossy), pruned (those whose activation is small: lossy); auto: exact where the activation has "
         "zeros, else dense"),
     .choices = mode_choices},
    {OPTION_ROW(
        0, "threshold", GIVEN, engine_options, threshold, "X",
        "predicted: the score from which on a neuron is let through; pruned: the size that an activation has to "
        "exceed; else each layer's of the tune file, or the file's")},
    {OPTION_ROW(
         0, "recall", GIVEN, engine_options, recall, "X",
         "predicted: hold this share of the active neurons (0.98) whatever the text: one in 32 of the neurons that "
         "predictors reject is computed all the same, and thresholds follow from what they missed"),
     .least = 0, .most = 1},
    {OPTION_ROW(0, "prune", GIVEN, engine_options, prune, "SHARE",
                "pruned: the share of activations that count as zero, zeros included; each layer bears what it can, by "
                "the tune file; without it the most that --prune-loss allows"),
     .least = 0, .most = 1},
    {OPTION_ROW(0, "prune-loss", GIVEN, engine_options, prune_loss, "NATS",
                "pruned: what the tune file's level may cost, as measured while tuning: mean KL divergence per token "
                "(default 0.01)"),
     .least = 0, .most = 100},
    {OPTION_ROW(0, "no-guard", FLAG, engine_options, no_guard, NULL,
                "exact in every layer, also where computing every neuron is faster; without it a short measurement "
                "decides, once per machine and model")},
    {OPTION_ROW(0, "measure-again", FLAG, engine_options, measure_again, NULL,
                "the guard measures, whatever it found in an earlier run, and remembers that")},
    {OPTION_ROW(
        0, "device", TEXT, engine_options, device, "SPEC",
        "compute on cuda, opencl or host, or the N-th of them (opencl:1; `hearth devices` lists them), with a "
        "budget where ,memory=8G follows. `run` and `bench` then plan what lies there, as they do by themselves where "
        "there is a GPU; other commands put all layers there. --gpu-layers, --gpu-neurons and --place say what, "
        "and alone take the best GPU")},
    {OPTION_ROW(0, "gpu-layers", GIVEN_COUNT, engine_options, gpu_layers, "N",
                "the last N layers on the device (also -ngl); all where only --gpu-neurons says how much"),
     .alias = "n-gpu-layers", .word = "ngl"},
    {OPTION_ROW(0, "gpu-neurons", GIVEN_COUNT, engine_options, gpu_neurons, "K",
                "of these layers the first K neurons in the file's order (the hot ones of an ordered file), the others "
                "on the CPU at the same time; all where only --gpu-layers says how much")},
    {OPTION_ROW(
         0, "hot-set", CHOICE, engine_options, hot_set, "HOW",
         "which neurons the device has of layers on both sides: those of the placement (off; static also counts hits), "
         "those that are active most often lately (adaptive), or lately in the prompt (frozen: nothing changes during "
         "an answer). auto, the default: adaptive where the model placed itself, else off"),
     .choices = hot_set_choices},
    {OPTION_ROW(0, "vram", SIZE, engine_options, vram, "SIZE",
                "what a plan may take of the device's memory, such as 8G; else its budget"),
     .none = true},
    {OPTION_ROW(0, "ram", SIZE, engine_options, ram, "SIZE", "what a plan may take of main memory; else what is free"),
     .none = true},
    {OPTION_ROW(
         0, "stream", CHOICE, engine_options, stream, "auto|on|off",
         "experimental: while a prompt is read, neurons of the CPU are copied to the device and computed there, in "
         "layers whose attention is there; auto (the default): on a GPU, where it is measured to be faster"),
     .choices = stream_choices},
};

const option message_option_rows[MESSAGE_OPTION_COUNT] = {
    {OPTION_ROW('v', "verbose", FLAG, message_options, verbose, NULL,
                "also what runs where, what the guarantee means, what the guard found and, with `run`, the memory")},
    {OPTION_ROW('q', "quiet", FLAG, message_options, quiet, NULL,
                "prints only errors on standard error; with `run`, only the answer on standard output")},
};

/* ------------------------------------------------------------------ which model */

#define DEMO_MODEL "stories-relu-q8_0.gguf"

/* Finds what comes with hearth, from where the program lies: within `tree` of the source tree that it was built in, or where
 * it was installed. Writes its path and returns true where it is there. */
static bool find_own(char out[PATH_MAX], const char *tree, const char *name)
{
    const char *const folders[] = {tree, "../share/hearth"};
    char program[PATH_MAX], path[2 * PATH_MAX];
    ssize_t length = readlink("/proc/self/exe", program, sizeof program - 1);
    program[length > 0 ? length : 0] = 0;
    char *slash = strrchr(program, '/');
    for (size_t i = 0; slash && i < sizeof folders / sizeof *folders; i++) {
        snprintf(path, sizeof path, "%.*s/%s/%s", (int)(slash - program), program, folders[i], name);
        if (realpath(path, out))
            return true;
    }
    return false;
}

/* Finds the model that comes with hearth. */
static hearth_status find_demo(const char *command_path, const char **out, arena *memory, hearth_error *error)
{
    char path[PATH_MAX];
    if (!find_own(path, "../../models", DEMO_MODEL))
        return fail(error, HEARTH_INVALID, "%s: MODEL: is missing, and " DEMO_MODEL " is not beside the program",
                    command_path);
    *out = arena_copy_text(memory, path, strlen(path));
    return *out ? HEARTH_OK : fail_memory(error, "path", strlen(path));
}

char *common_own_folder(const char *name)
{
    char path[PATH_MAX];
    return find_own(path, "../..", name) ? mem_copy_text(path, strlen(path)) : NULL;
}

hearth_status common_open_tokenizer(checkpoint **c, tokenizer **t, const char *path, hearth_error *error)
{
    TRY(model_open_checkpoint(c, path, error));
    hearth_status status = tokenizer_create(t, *c, error);
    if (status == HEARTH_OK && !*t)
        status = fail(error, HEARTH_UNSUPPORTED, "%s: tokenizer: %s", path, model_tokenizer_missing(*c));
    if (status != HEARTH_OK)
        checkpoint_close(*c);
    return status;
}

hearth_status common_take_model(const char *command_path, model_options *o, operands *rest, size_t others, bool demo,
                                hearth_error *error)
{
    if (!o->model && rest->count > 0) {
        o->model = rest->items[0];
        rest->items++;
        rest->count--;
    }
    if (rest->count > others)
        return fail(error, HEARTH_INVALID, "%s: %s: is one argument too many", command_path, rest->items[others]);
    if (o->model && !*o->model)
        return fail(error, HEARTH_INVALID, "%s: MODEL: is empty", command_path);
    if (o->model)
        return HEARTH_OK;
    if (!demo)
        return fail(error, HEARTH_INVALID, "%s: MODEL: is missing", command_path);
    o->model = getenv("HEARTH_MODEL");
    return o->model && *o->model ? HEARTH_OK : find_demo(command_path, &o->model, rest->memory, error);
}

/* ------------------------------------------------------------------ the user's own files */

char *common_user_path(const char *variable, const char *fallback, const char *name)
{
    const char *folder = getenv(variable), *home = getenv("HOME");
    buffer path = {0};
    /* The XDG Base Directory Specification says to ignore a relative path in such a variable. */
    bool ok = folder && *folder == '/' ? buffer_print(&path, "%s", folder)
                                       : home && *home && buffer_print(&path, "%s/%s", home, fallback);
    ok = ok && buffer_print(&path, "/%s", name) && buffer_put(&path, "", 1);
    for (char *slash = ok ? strchr(path.data + 1, '/') : NULL; ok && slash; slash = strchr(slash + 1, '/')) {
        *slash = 0;
        ok = mkdir(path.data, 0700) == 0 || errno == EEXIST;
        *slash = '/';
    }
    if (!ok)
        buffer_free(&path);
    return path.data;
}

char *common_cache_folder(void)
{
    const char *none = getenv("HEARTH_NO_CACHE");
    return none && *none ? NULL : common_user_path("XDG_CACHE_HOME", ".cache", "hearth/");
}

/* ------------------------------------------------------------------ loading */

hearth_engine_options common_engine_options(const engine_options *o, const hearth_placement *placement, progress *p)
{
    return (hearth_engine_options){.placement = placement,
                                   .activations = (hearth_activations)o->activations,
                                   .progress = progress_to(p),
                                   .stream = (hearth_stream)o->stream};
}

/* Creates an engine with a given placement; NULL: the default one. */
static hearth_status open_placed(loaded *l, const engine_options *o, const hearth_placement *placement, progress *p,
                                 hearth_error *error)
{
    hearth_engine_options options = common_engine_options(o, placement, p);
    return hearth_engine_create(&l->engine, l->runtime, l->model, &options, error);
}

/* Creates an engine for a mode; the placement is needed only until then. */
static hearth_status open_mode(loaded *l, const engine_options *o, hearth_mode mode, progress *p, hearth_error *error)
{
    hearth_placement *placement;
    TRY(common_place_mode(&placement, l->model, mode, o, error));
    hearth_status status = open_placed(l, o, placement, p, error);
    hearth_placement_destroy(placement);
    return status;
}

/* Opens mode exact with a guard. */
static hearth_status open_guarded(loaded *l, const engine_options *o, progress *p, hearth_error *error)
{
    char *folder = common_cache_folder();
    guard_options options = {
        .engine = common_engine_options(o, NULL, p),
        .cache_bytes = topology_cache_bytes(),
        .folder = folder,
        .may_be_dense = o->sparsity == HEARTH_MODE_AUTO,
        .again = o->measure_again,
    };
    hearth_status status = guard_open(&l->guarded, l->runtime, l->model, &options, error);
    mem_free(folder);
    l->is_guarded = status == HEARTH_OK;
    l->engine = l->guarded.engine;
    return status;
}

/* Chooses how the engine is created. placement: NULL where none was asked for; the mode then decides. */
static hearth_status load_engine(loaded *l, const engine_options *o, const hearth_placement *placement, progress *p,
                                 hearth_error *error)
{
    hearth_mode mode = (hearth_mode)o->sparsity;
    if (placement)
        return open_placed(l, o, placement, p, error);
    if (mode == HEARTH_MODE_AUTO)
        mode = placement_auto_mode(l->model);
    return mode == HEARTH_MODE_EXACT && !o->no_guard ? open_guarded(l, o, p, error) : open_mode(l, o, mode, p, error);
}

hearth_status common_check_messages(const message_options *o, hearth_error *error)
{
    return o->verbose && o->quiet ? fail(error, HEARTH_INVALID, "-q and -v exclude each other") : HEARTH_OK;
}

hearth_status common_check_options(const engine_options *o, hearth_error *error)
{
    TRY(common_check_messages(&o->messages, error));
    if (o->place && o->sparsity != HEARTH_MODE_AUTO)
        return fail(error, HEARTH_INVALID, "--sparsity %s: the file of --place says for each layer what is skipped",
                    mode_choices[o->sparsity]);
    if (o->place && (o->gpu_layers.given || o->gpu_neurons.given))
        return fail(error, HEARTH_INVALID, "--%s: the file of --place says what the device works on",
                    o->gpu_layers.given ? "gpu-layers" : "gpu-neurons");
    if (o->threshold.given && o->sparsity != HEARTH_MODE_PREDICTED && o->sparsity != HEARTH_MODE_PRUNED)
        return fail(error, HEARTH_INVALID, "--threshold: needs --sparsity predicted or pruned");
    if (o->threshold.given && o->sparsity == HEARTH_MODE_PRUNED && o->threshold.value < 0)
        return fail(error, HEARTH_INVALID, "--threshold: of --sparsity pruned is a size, and no size is below zero");
    if (o->recall.given && (o->sparsity != HEARTH_MODE_PREDICTED || o->threshold.given))
        return fail(error, HEARTH_INVALID, "--recall: needs --sparsity predicted, and no --threshold");
    if (o->prune.given && (o->sparsity != HEARTH_MODE_PRUNED || o->threshold.given))
        return fail(error, HEARTH_INVALID, "--prune: needs --sparsity pruned, and no --threshold");
    if (o->measure_again && o->no_guard)
        return fail(error, HEARTH_INVALID, "--measure-again: --no-guard measures nothing");
    if (o->prune_loss.given && (o->sparsity != HEARTH_MODE_PRUNED || o->threshold.given || o->prune.given))
        return fail(error, HEARTH_INVALID, "--prune-loss: needs --sparsity pruned, and no --threshold or --prune");
    if (o->device && !*o->device)
        return fail(error, HEARTH_INVALID, "--device: is empty");
    return HEARTH_OK;
}

/* Returns whether a file that is not there is named as what `hearth pull` gets: a URL, or OWNER/REPO where no such folder is. */
static bool may_be_pulled(const char *path)
{
    struct stat found;
    reference ref;
    char owner[PATH_MAX];
    const char *slash = strchr(path, '/');
    if (reference_is_url(path))
        return true;
    if (!slash || (size_t)(slash - path) >= sizeof owner || stat(path, &found) == 0)
        return false;
    memcpy(owner, path, (size_t)(slash - path));
    owner[slash - path] = 0;
    arena memory = {0};
    bool named = reference_parse(&ref, path, &memory, NULL) == HEARTH_OK && stat(owner, &found) != 0;
    arena_clear(&memory);
    return named;
}

hearth_status common_open_model(hearth_model **out, const model_options *o, progress *p, hearth_error *error)
{
    hearth_model_options options = {.ffn_activation = o->ffn_activation,
                                    .tune = o->tune && strcmp(o->tune, "none") == 0 ? "" : o->tune,
                                    .progress = p ? progress_to(p) : (hearth_progress){0}};
    hearth_error why = {0};
    hearth_status status = hearth_model_open(out, o->model, &options, &why);
    if (status == HEARTH_OK)
        return HEARTH_OK;
    const char *advice = status == HEARTH_IO && may_be_pulled(o->model) ? "; `hearth pull` gets models" : "";
    return fail(error, status, "%s%s", why.text, advice);
}

const char *common_neurons(char out[NEURONS_TEXT], const hearth_model *model)
{
    uint32_t most = model_largest(model).neurons, least = most;
    for (uint32_t i = 0; i < model->hyper.layer_count; i++) {
        uint32_t f = model->layers[i].ffn.neuron_count;
        least = f > 0 && f < least ? f : least;
    }
    if (least < most)
        snprintf(out, NEURONS_TEXT, "%u to %u", least, most);
    else
        snprintf(out, NEURONS_TEXT, "%u", most);
    return out;
}

/* Measures how fast the device reads, before anything lies there; 0 where there is too little memory to tell. */
static hearth_status measure_device(loaded *l, hearth_error *error)
{
    hearth_error why = {0};
    hearth_status status = device_measure_read(l->runtime->device, &l->device_bandwidth, &why);
    if (status == HEARTH_OK)
        return HEARTH_OK;
    l->device_bandwidth = 0;
    return status == HEARTH_NO_MEMORY ? HEARTH_OK : fail(error, status, "%s", why.text);
}

/* Starts the runtime; opens a device only where something will run on it. */
static hearth_status start_runtime(loaded *l, const engine_options *o, bool needs_device, hearth_error *error)
{
    char found[32];
    hearth_runtime_options options = {.threads = o->threads, .cpu_level = o->cpu, .log = common_log(&o->messages)};
    if (needs_device)
        TRY(common_choose_device(&options.device, found, o, error));
    char *folder = needs_device ? common_cache_folder() : NULL;
    options.cache_folder = folder;
    hearth_status status = hearth_runtime_create(&l->runtime, &options, error);
    mem_free(folder);
    return status;
}

hearth_status common_load(loaded *out, const engine_options *o, progress *p, hearth_error *error)
{
    *out = (loaded){0};
    TRY(common_check_options(o, error));
    progress_init(p);
    p->terminal &= !o->messages.quiet;
    hearth_placement *placement = NULL;
    hearth_status status;
    TRY_OR(failed, status, common_open_model(&out->model, &o->model, p, error));
    hearth_model_describe(out->model, &out->info);
    char found[32];
    const char *spec;
    bool plans = planning_wanted(o, &spec, found);
    if (plans)
        TRY_OR(failed, status, planning_try(out, o, spec, false, p, &plans, error));
    if (plans) {
        progress_clear(p);
        if (!o->messages.quiet) {
            common_say_warnings(out);
            planning_say(out);
        }
        TRY_OR(failed, status, hot_set_follow(out, o, error));
        return HEARTH_OK;
    }
    TRY_OR(failed, status, common_place(&placement, out->model, o, error));
    bool needs_device = placement && placement_needs_device(placement);
    TRY_OR(failed, status, start_runtime(out, o, needs_device, error));
    if (needs_device && o->measures_device)
        TRY_OR(failed, status, measure_device(out, error));
    TRY_OR(failed, status, load_engine(out, o, placement, p, error));
    TRY_OR(failed, status, hot_set_follow(out, o, error));
    progress_clear(p);
    if (!o->messages.quiet)
        common_say_warnings(out);
    if (needs_device)
        out->placement = placement;
    else
        hearth_placement_destroy(placement);
    return HEARTH_OK;
failed:
    progress_clear(p);
    hearth_placement_destroy(placement);
    common_unload(out);
    return status;
}

void common_unload(loaded *l)
{
    if (l->is_planned)
        planned_close(&l->planned);
    else if (l->is_guarded)
        guard_close(&l->guarded);
    else
        hearth_engine_destroy(l->engine);
    hearth_placement_destroy(l->placement);
    hearth_model_close(l->model);
    hearth_runtime_destroy(l->runtime);
    *l = (loaded){0};
}
