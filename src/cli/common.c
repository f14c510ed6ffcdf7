/* common.c - from options to an engine that is ready to work. */
#include "common.h"

#include "../base/file.h"
#include "../model/family.h"
#include "output.h"

#include <limits.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* A placement names ranges of neurons; more than this is none. */
#define MAX_PLACEMENT_BYTES ((size_t)64 << 20)

static const char *const kv_choices[] = {[HEARTH_KV_F16] = "f16", [HEARTH_KV_F32] = "f32", NULL};
static const char *const activation_choices[] = {
    [HEARTH_ACTIVATIONS_AUTO] = "auto", [HEARTH_ACTIVATIONS_F32] = "f32", NULL};
static const char *const rung_choices[] = {"dense", "exact", "predicted", "pruned", NULL};

const option model_option_rows[MODEL_OPTION_COUNT] = {
    {OPTION_ROW('m', "model", TEXT, model_options, model, "MODEL",
                "GGUF file or Hugging Face folder; the same as naming it without -m")},
    {OPTION_ROW(0, "ffn-activation", TEXT, model_options, ffn_activation, "NAME",
                "activation of the neurons, whatever the file says"),
     .list = ffn_activation_list},
};

const option engine_option_rows[ENGINE_OPTION_COUNT] = {
    {OPTION_ROW('t', "threads", COUNT, engine_options, threads, "N", "threads; else one per physical core"), .least = 1,
     .most = 1024},
    {OPTION_ROW(0, "cpu", TEXT, engine_options, cpu, "LEVEL",
                "instruction set (`hearth devices` lists them); else the best there is")},
    {OPTION_ROW('c', "context", COUNT, engine_options, context, "N",
                "positions kept; else what the model was made for"),
     .alias = "ctx-size", .least = 1, .most = 1 << 30},
    {OPTION_ROW(0, "kv", CHOICE, engine_options, kv, "f16|f32", "format of the key/value cache; f16"),
     .choices = kv_choices},
    {OPTION_ROW(0, "activations", CHOICE, engine_options, activations, "auto|f32",
                "auto: 8 bits where block formats are read; f32: float32 everywhere, slow"),
     .choices = activation_choices},
    {OPTION_ROW(0, "place", TEXT, engine_options, place, "FILE", "placement (JSON); else everything on the CPU")},
    {OPTION_ROW(
         0, "sparsity", CHOICE, engine_options, sparsity, "RUNG",
         "the rung, that is how much is skipped: dense (nothing) is the only one of this version; the class that is "
         "reported beside it says how results compare with dense (bitwise: the same bytes)"),
     .choices = rung_choices},
    {OPTION_ROW(0, "no-guard", FLAG, engine_options, no_guard, NULL,
                "do not fall back to dense where it is faster (no effect while all is dense)")},
    {OPTION_ROW(0, "device", TEXT, engine_options, device, "host|opencl|cuda", "not in this version")},
    {OPTION_ROW(0, "gpu-layers", COUNT, engine_options, gpu_layers, "N", "not in this version; 0")},
    {OPTION_ROW(0, "gpu-neurons", COUNT, engine_options, gpu_neurons, "N", "not in this version; 0")},
};

/* ------------------------------------------------------------------ which model */

#define DEMO_MODEL "stories-relu-q8_0.gguf"

/* Where the program finds its own model: in the source tree it was built in, or where it was installed. */
static const char *const demo_folders[] = {"../../models", "../share/hearth"};

static hearth_status find_demo(const char *command_path, const char **out, arena *memory, hearth_error *error)
{
    char program[PATH_MAX];
    ssize_t length = readlink("/proc/self/exe", program, sizeof program - 1);
    program[length > 0 ? length : 0] = 0;
    char *slash = strrchr(program, '/');
    for (size_t i = 0; slash && i < sizeof demo_folders / sizeof *demo_folders; i++) {
        char path[2 * PATH_MAX], plain[PATH_MAX];
        snprintf(path, sizeof path, "%.*s/%s/" DEMO_MODEL, (int)(slash - program), program, demo_folders[i]);
        if (realpath(path, plain)) {
            *out = arena_copy_text(memory, plain, strlen(plain));
            return *out ? HEARTH_OK : fail_memory(error, "path", strlen(plain));
        }
    }
    return fail(error, HEARTH_INVALID, "%s: MODEL: is missing, and " DEMO_MODEL " is not beside the program",
                command_path);
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

/* ------------------------------------------------------------------ loading */

static hearth_status read_placement(hearth_placement **out, const hearth_model *model, const char *path,
                                    hearth_error *error)
{
    char *json;
    size_t size;
    TRY(file_read(&json, &size, path, MAX_PLACEMENT_BYTES, error));
    hearth_error inner = {0};
    hearth_status status = hearth_placement_parse(out, model, json, size, &inner);
    mem_free(json);
    return status == HEARTH_OK ? status : fail(error, status, "%s: %s", path, inner.text);
}

static hearth_status load_engine(loaded *l, const engine_options *o, hearth_error *error)
{
    hearth_placement *placement = NULL;
    if (o->place)
        TRY(read_placement(&placement, l->model, o->place, error));
    hearth_engine_options options = {placement, (hearth_activations)o->activations};
    hearth_status status = hearth_engine_create(&l->engine, l->runtime, l->model, &options, error);
    hearth_placement_destroy(placement);
    return status;
}

/* What the command line understands already, and this version cannot do yet. */
static hearth_status check_supported(const engine_options *o, hearth_error *error)
{
    if (o->sparsity != 0)
        return fail(error, HEARTH_UNSUPPORTED, "--sparsity %s: rung: not in this version, which runs dense only",
                    rung_choices[o->sparsity]);
    if (o->device)
        return fail(error, HEARTH_UNSUPPORTED, "--device %s: there are no devices in this version", o->device);
    if (o->gpu_layers != 0)
        return fail(error, HEARTH_UNSUPPORTED, "--gpu-layers %u: there are no devices in this version", o->gpu_layers);
    if (o->gpu_neurons != 0)
        return fail(error, HEARTH_UNSUPPORTED, "--gpu-neurons %u: there are no devices in this version",
                    o->gpu_neurons);
    return HEARTH_OK;
}

hearth_status common_load(loaded *out, const engine_options *o, progress *p, hearth_error *error)
{
    *out = (loaded){0};
    TRY(check_supported(o, error));
    progress_init(p);
    hearth_runtime_options runtime = {o->threads, o->cpu};
    hearth_model_options model = {o->model.ffn_activation, progress_to(p)};
    hearth_status status;
    TRY_OR(failed, status, hearth_runtime_create(&out->runtime, &runtime, error));
    TRY_OR(failed, status, hearth_model_open(&out->model, o->model.model, &model, error));
    hearth_model_describe(out->model, &out->info);
    TRY_OR(failed, status, load_engine(out, o, error));
    progress_clear(p);
    return HEARTH_OK;
failed:
    progress_clear(p);
    common_unload(out);
    return status;
}

void common_unload(loaded *l)
{
    hearth_engine_destroy(l->engine);
    hearth_model_close(l->model);
    hearth_runtime_destroy(l->runtime);
    *l = (loaded){0};
}

hearth_status common_announce(const loaded *l, const hearth_session_options *o, hearth_error *error)
{
    hearth_memory m;
    TRY(hearth_session_memory(l->engine, o, &m, error));
    char weights[16], kv[16], scratch[16];
    unsigned threads = hearth_runtime_threads(l->runtime);
    output_safe(stderr, span_of(l->info.path), 200);
    fprintf(stderr, ": %s, %s; memory: weights %s, KV %s, scratch %s; %u thread%s, %s; rung %s, %s\n", l->info.family,
            l->info.activation, output_size(weights, (double)m.weight_bytes), output_size(kv, (double)m.kv_bytes),
            output_size(scratch, (double)m.scratch_bytes), threads, threads == 1 ? "" : "s",
            hearth_runtime_cpu_level(l->runtime), hearth_engine_rung(l->engine), hearth_engine_class(l->engine));
    return HEARTH_OK;
}
