/* bind.c - from a checkpoint to a model: every rule of the family finds its tensor, every tensor its rule.
 *
 * Matrices stay where they lie, in the file's mapping. Copied are vectors that are not float32 or not
 * aligned, and q and k of a folder, whose rows have to be put in the order of rotary pairs. */
#include "huggingface.h"
#include "hyper.h"
#include "rope.h"

#include "../file/gguf.h"

#include <fnmatch.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

/* What is built, and from what. */
typedef struct binder {
    hearth_model *model;
    const checkpoint *source;
    const hearth_progress *progress;
    uint64_t bytes_done, bytes_total; /* of matrices put in order                   */
    bool copies;                      /* false: everything is only checked          */
    bool folder;                      /* errors spell tensors as the folder does    */
    hearth_error *error;
} binder;

static hearth_status fail_tensor(const binder *b, const tensor_rule *rule, uint32_t layer, const char *reason)
{
    char name[TENSOR_NAME_SIZE];
    tensor_rule_name(name, rule, layer, b->folder);
    return fail(b->error, HEARTH_FORMAT, "%s: tensor %s: %s", b->source->path, name, reason);
}

/* "4096 x 14336" */
static void print_shape(char *out, size_t size, const uint64_t *shape, uint32_t rank)
{
    size_t used = 0;
    for (uint32_t i = 0; i < rank && used < size; i++)
        used += (size_t)snprintf(out + used, size - used, "%s%llu", i ? " x " : "", (unsigned long long)shape[i]);
}

static hearth_status check_shape(const binder *b, const tensor_rule *rule, uint32_t layer, const stored_tensor *t)
{
    const hyperparameters *h = &b->model->hyper;
    uint64_t expected[2] = {hyper_dimension(h, rule->columns), hyper_dimension(h, rule->rows)};
    uint32_t rank = rule->rows == DIMENSION_NONE ? 1 : 2;
    if (t->rank == rank && t->shape[0] == expected[0] && (rank == 1 || t->shape[1] == expected[1]))
        return HEARTH_OK;
    char is[128], wanted[64], reason[256];
    print_shape(is, sizeof is, t->shape, t->rank);
    print_shape(wanted, sizeof wanted, expected, rank);
    snprintf(reason, sizeof reason, "is %s, expected %s", is, wanted);
    return fail_tensor(b, rule, layer, reason);
}

/* A vector in float32: where it lies, or decoded into the model's memory. */
static hearth_status bind_vector(binder *b, const float **out, const tensor_rule *rule, uint32_t layer,
                                 const stored_tensor *t)
{
    if (number_is_block(t->format)) {
        char reason[96];
        snprintf(reason, sizeof reason, "is %s, a vector must be float", number_formats[t->format].name);
        return fail_tensor(b, rule, layer, reason);
    }
    if (t->format == FORMAT_F32 && (uintptr_t)t->data % _Alignof(float) == 0) {
        *out = t->data;
        return HEARTH_OK;
    }
    size_t count = (size_t)t->shape[0];
    float *values = arena_new_array(&b->model->memory, count, sizeof *values);
    if (!values)
        return fail_memory(b->error, t->name, count * sizeof *values);
    number_formats[t->format].decode(t->data, values, count);
    *out = values;
    return HEARTH_OK;
}

/* A copy of the rows in the order in which they are meant. */
static hearth_status put_in_order(binder *b, matrix *m, const stored_tensor *t)
{
    char *rows = arena_new_array(&b->model->memory, m->rows, m->row_bytes);
    if (!rows)
        return fail_memory(b->error, t->name, t->size_bytes);
    for (size_t i = 0; i < m->rows; i++)
        memcpy(rows + i * m->row_bytes, (const char *)t->data + stored_tensor_row(t, i) * m->row_bytes, m->row_bytes);
    m->data = rows;
    checkpoint_drop(b->source, t);
    b->bytes_done += t->size_bytes;
    if (b->progress && b->progress->report &&
        !b->progress->report(b->progress->user, "ordering rows", b->bytes_done, b->bytes_total))
        return fail(b->error, HEARTH_CANCELLED, "%s: opening was cancelled", b->source->path);
    return HEARTH_OK;
}

static hearth_status bind_matrix(binder *b, matrix *out, const tensor_rule *rule, uint32_t layer,
                                 const stored_tensor *t)
{
    matrix m = {.data = t->data, .format = t->format, .rows = (uint32_t)t->shape[1], .columns = (uint32_t)t->shape[0]};
    if (!number_row_bytes(t->format, t->shape[0], &m.row_bytes))
        return fail_tensor(b, rule, layer, "has rows that are no whole number of blocks");
    if (t->rotary_heads > 0 && b->copies)
        TRY(put_in_order(b, &m, t));
    *out = m;
    return HEARTH_OK;
}

/* Finds, checks and places one tensor. owner: the model or a layer, where the rule's field lies. */
static hearth_status bind_tensor(binder *b, void *owner, const tensor_rule *rule, uint32_t layer)
{
    if (rule->flags & TENSOR_IGNORED)
        return HEARTH_OK;
    char name[TENSOR_NAME_SIZE];
    tensor_rule_name(name, rule, layer, false);
    const stored_tensor *t = checkpoint_find_tensor(b->source, name);
    if (!t && (rule->flags & TENSOR_OPTIONAL))
        return HEARTH_OK;
    if (!t)
        return fail_tensor(b, rule, layer, "is missing");
    TRY(check_shape(b, rule, layer, t));
    void *field = (char *)owner + rule->field;
    if (rule->rows == DIMENSION_NONE)
        TRY(bind_vector(b, field, rule, layer, t));
    else
        TRY(bind_matrix(b, field, rule, layer, t));
    if (!(rule->flags & TENSOR_CONSTANT))
        b->model->parameter_count += t->shape[0] * t->shape[1];
    b->model->weight_bytes += t->size_bytes;
    return HEARTH_OK;
}

static hearth_status bind_tensors(binder *b)
{
    hearth_model *m = b->model;
    const family *f = m->family;
    for (size_t i = 0; i < b->source->tensor_count; i++)
        if (b->source->tensors[i].rotary_heads > 0)
            b->bytes_total += b->source->tensors[i].size_bytes;
    for (size_t i = 0; i < f->tensor_count; i++)
        TRY(bind_tensor(b, m, &f->tensors[i], 0));
    for (uint32_t layer = 0; layer < m->hyper.layer_count; layer++)
        for (size_t i = 0; i < f->layer_tensor_count; i++)
            TRY(bind_tensor(b, &m->layers[layer], &f->layer_tensors[i], layer));
    if (!m->head.data)
        m->head = m->embedding;
    return HEARTH_OK;
}

/* A tensor that no rule wants changes what the model computes: better refused than left out. */
static hearth_status check_extras(const binder *b)
{
    const family *f = b->model->family;
    for (size_t i = 0; i < b->source->tensor_count; i++) {
        const char *name = b->source->tensors[i].name;
        uint32_t layer, layers = b->model->hyper.layer_count;
        const tensor_rule *rule = family_find_rule(f, name, false, &layer);
        if (!rule)
            return fail(b->error, HEARTH_FORMAT, "%s: tensor %.128s: is not part of a %s model", b->source->path, name,
                        f->name);
        if (layer >= layers)
            return fail(b->error, HEARTH_FORMAT, "%s: tensor %s: is not part of a model of %u layers", b->source->path,
                        name, layers);
    }
    return HEARTH_OK;
}

static hearth_status find_frequencies(binder *b)
{
    hearth_model *m = b->model;
    rope_settings rope;
    TRY(rope_read(&rope, m->family, b->source, &m->hyper, b->error));
    for (uint32_t i = 0; m->rope_factors && i < rope.pairs; i++)
        if (!isfinite(m->rope_factors[i]) || !(m->rope_factors[i] > 0))
            return fail(b->error, HEARTH_FORMAT, "%s: tensor rope_freqs.weight: value %u is no positive number",
                        b->source->path, i);
    m->hyper.rope_magnitude = (float)rope.magnitude;
    if (!isfinite(m->hyper.rope_magnitude))
        return fail(b->error, HEARTH_FORMAT, "%s: rotary scaling: its factor on cosine and sine is too large",
                    b->source->path);
    double *frequencies = arena_new_array(&m->memory, rope.pairs, sizeof *frequencies);
    if (!frequencies)
        return fail_memory(b->error, "rope frequencies", rope.pairs * sizeof *frequencies);
    rope_frequencies(&rope, m->rope_factors, frequencies);
    m->hyper.rope_frequencies = frequencies;
    return HEARTH_OK;
}

static hearth_status find_family(binder *b)
{
    span name;
    TRY(checkpoint_get_string(b->source, "general.architecture", &name, NULL, b->error));
    b->model->family = family_by_name(name);
    if (b->model->family)
        return HEARTH_OK;
    char known[256];
    family_list(known, sizeof known, false);
    return fail(b->error, HEARTH_UNSUPPORTED, "%s: key general.architecture: %.*s is not supported (known: %s)",
                b->source->path, name.size < 100 ? (int)name.size : 100, name.data, known);
}

/* general.name, or what the path ends in. */
static hearth_status find_name(binder *b)
{
    const char *path = b->source->path, *slash = strrchr(path, '/');
    span name = span_of(slash && slash[1] ? slash + 1 : path);
    bool found;
    TRY(checkpoint_get_string(b->source, "general.name", &name, &found, b->error));
    b->model->name = arena_copy_text(&b->model->memory, name.data, name.size);
    return b->model->name ? HEARTH_OK : fail_memory(b->error, "name", name.size);
}

/* A vocabulary of a kind that hearth does not know keeps nobody from computing with ids, nor from quantising. */
static hearth_status find_tokenizer(binder *b)
{
    hearth_model *m = b->model;
    hearth_error why;
    hearth_status status = tokenizer_create(&m->tokenizer, b->source, &why);
    if (status == HEARTH_UNSUPPORTED) {
        size_t path = strlen(b->source->path) + strlen(": "); /* the reason alone */
        const char *text = strlen(why.text) > path ? why.text + path : why.text;
        m->tokenizer_problem = arena_copy_text(&m->memory, text, strlen(text));
        return m->tokenizer_problem ? HEARTH_OK : fail_memory(b->error, "tokenizer", strlen(text));
    }
    if (status != HEARTH_OK)
        return fail(b->error, status, "%s", why.text);
    if (!m->tokenizer)
        m->tokenizer_problem = model_tokenizer_missing(b->source->path);
    uint32_t size = m->tokenizer ? tokenizer_size(m->tokenizer) : 0;
    if (size > m->hyper.vocabulary_size)
        return fail(b->error, HEARTH_FORMAT, "%s: key tokenizer.ggml.tokens: has %u tokens, the model has %u",
                    b->source->path, size, m->hyper.vocabulary_size);
    if (m->tokenizer)
        tokenizer_pad(m->tokenizer, m->hyper.vocabulary_size);
    return HEARTH_OK;
}

static hearth_status bind_model(binder *b, const char *activation)
{
    hearth_model *m = b->model;
    if (b->source->tensor_count == 0 && checkpoint_find(b->source, "tokenizer.ggml.model"))
        return fail(b->error, HEARTH_FORMAT, "%s: tensors: has none, the file holds only a vocabulary",
                    b->source->path);
    TRY(find_family(b));
    TRY(find_name(b));
    TRY(hyper_read(&m->hyper, m->family, b->source, activation, b->error));
    size_t layers = m->hyper.layer_count;
    m->layers = arena_new_array(&m->memory, layers, sizeof *m->layers);
    if (!m->layers)
        return fail_memory(b->error, "layers", layers * sizeof *m->layers);
    TRY(bind_tensors(b));
    TRY(check_extras(b));
    TRY(find_frequencies(b));
    return find_tokenizer(b);
}

hearth_status model_bind(hearth_model **out, checkpoint *source, const hearth_model_options *options,
                         hearth_error *error)
{
    hearth_model *m = mem_new(sizeof *m);
    if (!m) {
        checkpoint_close(source);
        return fail_memory(error, "model", sizeof *m);
    }
    m->source = source;
    m->owns_source = true;
    binder b = {.model = m, .source = source, .copies = true, .folder = file_is_folder(source->path), .error = error};
    b.progress = options ? &options->progress : NULL;
    hearth_status status = bind_model(&b, options ? options->ffn_activation : NULL);
    if (status != HEARTH_OK) {
        hearth_model_close(m);
        return status;
    }
    *out = m;
    return HEARTH_OK;
}

hearth_status model_check(hearth_model **out, checkpoint *source, const hearth_model_options *options,
                          hearth_error *error)
{
    hearth_model *m = mem_new(sizeof *m);
    if (!m)
        return fail_memory(error, "model", sizeof *m);
    m->source = source;
    binder b = {.model = m, .source = source, .folder = file_is_folder(source->path), .error = error};
    hearth_status status = bind_model(&b, options ? options->ffn_activation : NULL);
    if (status != HEARTH_OK) {
        hearth_model_close(m);
        return status;
    }
    *out = m;
    return HEARTH_OK;
}

hearth_status model_open_checkpoint(checkpoint **out, const char *path, hearth_error *error)
{
    if (file_is_folder(path))
        return huggingface_open(out, path, error);
    hearth_status status = gguf_open(out, path, error);
    if (status == HEARTH_FORMAT && fnmatch("*.safetensors", path, 0) == 0)
        return fail(error, status, "%s: is a safetensors file; name its folder", path);
    return status;
}

hearth_status hearth_model_open(hearth_model **out, const char *path, const hearth_model_options *options,
                                hearth_error *error)
{
    checkpoint *source;
    TRY(model_open_checkpoint(&source, path, error));
    return model_bind(out, source, options, error);
}

void hearth_model_close(hearth_model *model)
{
    if (!model)
        return;
    tokenizer_destroy(model->tokenizer);
    if (model->owns_source)
        checkpoint_close(model->source);
    arena_clear(&model->memory);
    mem_free(model);
}

void hearth_model_describe(const hearth_model *model, hearth_model_info *out)
{
    const hyperparameters *h = &model->hyper;
    *out = (hearth_model_info){
        .path = model->source->path,
        .name = model->name,
        .family = model->family->name,
        .activation = ffn_activations[h->activation].name,
        .layer_count = h->layer_count,
        .embedding_length = h->embedding_length,
        .neuron_count = h->neuron_count,
        .head_count = h->head_count,
        .kv_head_count = h->kv_head_count,
        .head_length = h->head_length,
        .vocabulary_size = h->vocabulary_size,
        .context_length = h->context_length,
        .parameter_count = model->parameter_count,
        .weight_bytes = model->weight_bytes,
        .has_tokenizer = model->tokenizer != NULL,
        .bos = model->tokenizer ? tokenizer_bos(model->tokenizer) : -1,
        .eos = model->tokenizer ? tokenizer_eos(model->tokenizer) : -1,
    };
}

hearth_status model_need_tokenizer(const hearth_model *model, hearth_error *error)
{
    if (model->tokenizer)
        return HEARTH_OK;
    return fail(error, HEARTH_UNSUPPORTED, "%s: tokenizer: %s", model->source->path, model->tokenizer_problem);
}
