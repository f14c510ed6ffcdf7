/* convert.c - writes a checkpoint as GGUF: opens and checks the source, makes the plan, sets keys, writes tensor by
 * tensor.
 *
 * What becomes of each tensor is decided in convert_plan.c and done in convert_tensor.c. */
#include "convert.h"

#include "../file/gguf.h"
#include "../file/gguf_split.h"
#include "../file/importance.h"
#include "convert_plan.h"
#include "convert_tensor.h"
#include "hyper.h"
#include "mix.h"

#include <dirent.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>

/* Version of the block layouts, as ggml counts them; all block formats here have version 2. */
static const uint32_t quantization_version = 2;
/* Version of packed files (README.md). */
static const uint32_t pack_version = 1;

/* ------------------------------------------------------------------- keys */

/* Sets keys for what the magic of a PowerInfer file implied: the new file does not have that magic. */
static hearth_status set_implied_keys(const convert_plan *p, checkpoint *source, hearth_error *error)
{
    char key[KEY_SIZE];
    hyper_key(key, p->model->family, "hidden_activation");
    const hyperparameters *h = &p->model->hyper;
    TRY(checkpoint_set_string(source, key, span_of(ffn_activations[p->model->layers[0].ffn.activation].name), error));
    if (h->position_offset > 0) {
        TRY(checkpoint_set_u32(source, "hearth.pack.position_offset", h->position_offset, error));
        hyper_key(key, p->model->family, "attention.layer_norm_epsilon");
        TRY(checkpoint_set_f32(source, key, h->norm_epsilon, error));
    }
    return checkpoint_set_f32(source, "powerinfer.sparse_threshold", h->predictor_threshold, error);
}

static hearth_status set_pack_keys(const convert_plan *p, checkpoint *source, hearth_error *error)
{
    TRY(checkpoint_set_u32(source, "hearth.pack.version", pack_version, error));
    return source->powerinfer ? set_implied_keys(p, source, error) : HEARTH_OK;
}

/* Sets keys for what a reader of the magic of a PowerInfer file would otherwise take for granted: ReLU, and a table of
 * positions that begins with rows that are not used. */
static hearth_status set_powerinfer_keys(const convert_plan *p, checkpoint *source, hearth_error *error)
{
    char key[KEY_SIZE];
    ffn_activation activation = p->model->layers[0].ffn.activation;
    uint32_t more = convert_extra_positions(p), offset = p->model->hyper.position_offset;
    if (p->added->has_threshold)
        TRY(checkpoint_set_f32(source, "powerinfer.sparse_threshold", p->added->threshold, error));
    if (more > 0) {
        hyper_key(key, p->model->family, "context_length");
        TRY(checkpoint_set_u32(source, key, p->model->hyper.context_length + offset + more, error));
    }
    hyper_key(key, p->model->family, "hidden_activation");
    return activation == FFN_RELU
               ? HEARTH_OK
               : checkpoint_set_string(source, key, span_of(ffn_activations[activation].name), error);
}

/* Sets the keys that follow from the options; all other keys are copied from the source. */
static hearth_status set_keys(const convert_plan *p, checkpoint *source, hearth_error *error)
{
    const convert_options *o = p->options;
    if (o->format != FORMAT_COUNT)
        TRY(checkpoint_set_u32(source, "general.file_type",
                               o->mix ? o->mix->file_type : number_formats[o->format].file_type, error));
    TRY(checkpoint_set_u32(source, "general.quantization_version", quantization_version, error));
    if (o->neuron_major)
        TRY(set_pack_keys(p, source, error));
    if (p->requantised)
        TRY(checkpoint_set_bool(source, "hearth.pack.requantised", true, error));
    if (p->added)
        TRY(set_powerinfer_keys(p, source, error));
    char key[KEY_SIZE];
    hyper_key(key, p->model->family, "hidden_activation");
    return o->ffn_activation ? checkpoint_set_string(source, key, span_of(o->ffn_activation), error) : HEARTH_OK;
}

/* ------------------------------------------------------------- predictors */

/* Notes where PowerInfer itself would read the new file differently from hearth, or not at all. */
static void note_powerinfer(const convert_plan *p)
{
    const convert_options *o = p->options;
    if (!o->note || !p->added)
        return;
    if (p->added->note[0])
        o->note(o->user, p->added->note);
    if (p->model->family->dropped_positions > 0 && p->model->hyper.norm_epsilon > 0)
        o->note(o->user, "PowerInfer itself computes the norms of this family with an epsilon of 0");
    if (p->model->layers[0].ffn.activation != FFN_RELU)
        o->note(o->user, "PowerInfer itself computes every model as ReLU, whatever the file says of its activation");
    for (size_t i = 0; i < p->count; i++) {
        number_format to = p->items[i].step.to;
        if (!p->items[i].step.is_down_t || to == FORMAT_F16 || to == FORMAT_Q4_0)
            continue;
        o->note(o->user, "PowerInfer itself reads transposed down matrices in f16 and q4_0 only");
        return;
    }
}

/* Checks that predictors can be added: the model skips neurons without loss, has no predictors yet, and its neurons
 * are in their original order. */
static hearth_status check_predictable(const hearth_model *m, hearth_error *error)
{
    const char *reason = NULL;
    if (!model_predictable(m))
        reason = "a PowerInfer file is of a model whose neurons are often zero (ReLU), which this one's are not";
    else if (m->predictors)
        reason = "the model has some already";
    else if (m->layers[model_first_network(m)].order)
        reason = "the model's neurons are in another order; add them to the file it was packed from";
    return reason ? fail(error, HEARTH_UNSUPPORTED, "%s: predictors: %s", m->source->path, reason) : HEARTH_OK;
}

/* ----------------------------------------------------------------- writing */

/* Writes all tensors; the memory of each source tensor is released afterwards. */
static hearth_status write_tensors(convert_sink *s, const convert_plan *p)
{
    for (size_t i = 0; i < p->count; i++) {
        convert_item *item = &p->items[i];
        TRY(convert_tensor(s, item));
        if (p->options->step)
            p->options->step(p->options->user, &item->step);
        if (item->owner)
            checkpoint_drop(item->owner, &item->from);
    }
    return HEARTH_OK;
}

/* Writes the file: head, then tensors. level: of the CPU kernels. */
static hearth_status write_file(const convert_plan *p, size_t level, const char *path, pool *threads,
                                hearth_error *error)
{
    const checkpoint *c = p->source;
    bool powerinfer = p->added || (c->powerinfer && !p->options->neuron_major);
    convert_sink sink = {.threads = threads,
                         .path = c->path,
                         .allow_nonfinite = p->options->allow_nonfinite,
                         .progress = &p->options->progress,
                         .bytes_total = p->bytes_total,
                         .error = error};
    kernels_for(level, &sink.kernels);
    stored_tensor *announced = mem_new_array(p->count, sizeof *announced);
    if (!announced)
        return fail_memory(error, "conversion", p->count * sizeof *announced);
    for (size_t i = 0; i < p->count; i++)
        announced[i] = p->items[i].to;
    hearth_status status =
        gguf_writer_open(&sink.writer, path, powerinfer, c->entries, c->entry_count, announced, p->count, error);
    mem_free(announced);
    if (status != HEARTH_OK)
        return status;
    status = write_tensors(&sink, p);
    if (status == HEARTH_OK)
        return gguf_writer_commit(sink.writer, error);
    gguf_writer_discard(sink.writer);
    return status;
}

/* ------------------------------------------------------------------ source */

/* Returns true where `out` is a file of the folder other than a GGUF file: its config, tokenizer or weights. */
static bool folder_holds(const char *folder, const char *out)
{
    DIR *d = opendir(folder);
    bool holds = false;
    for (struct dirent *e; d && !holds && (e = readdir(d)) != NULL;) {
        const char *end = strrchr(e->d_name, '.');
        char *path = file_join(folder, e->d_name);
        holds = path && file_is_same(path, out) && !(end && strcmp(end, ".gguf") == 0);
        mem_free(path);
    }
    if (d)
        closedir(d);
    return holds;
}

/* Returns true where `out` is a part of the split model that the path is a part of. */
static bool is_part(const char *path, const char *out)
{
    gguf_part_name name;
    bool is = false;
    for (uint32_t i = 1; !is && gguf_part_name_read(&name, path) && i <= name.count; i++) {
        char *part = gguf_part_path(path, i);
        is = part && file_is_same(part, out);
        mem_free(part);
    }
    return is;
}

/* Refuses to overwrite a source. The new file replaces an old one only when it is complete, but even then the source
 * would be lost. */
static hearth_status check_paths(const char *source, const char *added, const char *out, hearth_error *error)
{
    struct stat about;
    if (stat(out, &about) != 0 || !S_ISREG(about.st_mode))
        return HEARTH_OK;
    if (file_is_same(source, out) || is_part(source, out) || (file_is_folder(source) && folder_holds(source, out)) ||
        (added && (file_is_same(added, out) || folder_holds(added, out))))
        return fail(error, HEARTH_INVALID, "%s: is what would be read: choose another name", out);
    return HEARTH_OK;
}

hearth_status convert_write(const char *source_path, const char *out_path, const convert_options *options,
                            pool *threads, hearth_error *error)
{
    checkpoint *source, *importance = NULL;
    hearth_model *checked = NULL;
    predictors added = {0};
    convert_plan p = {.options = options};
    hearth_status status;
    size_t level;
    TRY(kernel_level_choose(&level, options->cpu_level, error));
    TRY(check_paths(source_path, options->predictors, out_path, error));
    TRY(model_open_checkpoint(&source, source_path, error));
    hearth_model_options check = {.ffn_activation = options->ffn_activation};
    TRY_OR(done, status, model_check(&checked, source, &check, error));
    p.source = source;
    p.model = checked;
    if (options->predictors) {
        TRY_OR(done, status, check_predictable(checked, error));
        TRY_OR(done, status, predictors_open(&added, options->predictors, checked, error));
        p.added = &added;
    }
    if (options->importance) {
        TRY_OR(done, status, importance_open(&importance, options->importance, error));
        p.importance = importance;
    }
    TRY_OR(done, status, convert_plan_make(&p, error));
    TRY_OR(done, status, set_keys(&p, source, error));
    if (options->note && !checkpoint_find(source, "tokenizer.ggml.model"))
        options->note(options->user, model_tokenizer_missing(source));
    note_powerinfer(&p);
    status = write_file(&p, level, out_path, threads, error);
done:
    predictors_close(&added);
    hearth_model_close(checked);
    arena_clear(&p.memory);
    checkpoint_close(importance);
    checkpoint_close(source);
    return status;
}
