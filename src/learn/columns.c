/* columns.c - finds the tensors that read each input, and writes the importance matrix. */
#include "columns.h"

#include "../base/memory.h"
#include "../file/importance.h"
#include "../model/hyper.h"

#include <string.h>

/* The matrices that read each input, by their field in model_layer. mask_out has hidden units of its own as input, which
 * are not added up: it is small. */
static const struct reader {
    size_t field;
    input_place place;
} readers[] = {
    {offsetof(model_layer, q), INPUT_ATTENTION},
    {offsetof(model_layer, k), INPUT_ATTENTION},
    {offsetof(model_layer, v), INPUT_ATTENTION},
    {offsetof(model_layer, qkv), INPUT_ATTENTION},
    {offsetof(model_layer, attention_gate), INPUT_ATTENTION},
    {offsetof(model_layer, query_in), INPUT_ATTENTION},
    {offsetof(model_layer, index_key), INPUT_ATTENTION},
    {offsetof(model_layer, index_weight), INPUT_ATTENTION},
    {offsetof(model_layer, index_gate), INPUT_ATTENTION},
    {offsetof(model_layer, index_query), INPUT_QUERIES},
    {offsetof(model_layer, summary_value), INPUT_ATTENTION},
    {offsetof(model_layer, summary_gate), INPUT_ATTENTION},
    {offsetof(model_layer, output_in), INPUT_GROUPS},
    {offsetof(model_layer, attention_output), INPUT_ATTENTION_OUTPUT},
    {offsetof(model_layer, recurrent_in), INPUT_ATTENTION},
    {offsetof(model_layer, short_in), INPUT_ATTENTION},
    {offsetof(model_layer, delta_in), INPUT_ATTENTION},
    {offsetof(model_layer, beta_step), INPUT_ATTENTION},
    {offsetof(model_layer, recurrent_gate), INPUT_ATTENTION},
    {offsetof(model_layer, convolved), INPUT_ATTENTION},
    {offsetof(model_layer, step), INPUT_ATTENTION},
    {offsetof(model_layer, beta), INPUT_ATTENTION},
    {offsetof(model_layer, recurrent_output), INPUT_ATTENTION_OUTPUT},
    {offsetof(model_layer, latent_in), INPUT_LATENT_IN},
    {offsetof(model_layer, latent_out), INPUT_LATENT_OUT},
    {offsetof(model_layer, gate), INPUT_NETWORK},
    {offsetof(model_layer, up), INPUT_NETWORK},
    {offsetof(model_layer, gate_up), INPUT_NETWORK},
    {offsetof(model_layer, mask_in), INPUT_NETWORK},
    {offsetof(model_layer, down), INPUT_DOWN},
    {offsetof(model_layer, shared.gate), INPUT_SHARED},
    {offsetof(model_layer, shared.up), INPUT_SHARED},
    {offsetof(model_layer, shared.down), INPUT_SHARED_DOWN},
};
#define READERS (sizeof readers / sizeof *readers)

/* Returns the place of what a matrix reads: keys and values read mixtures of their own in layers that have such, and queries what
 * another matrix makes. Where queries that score positions are plain, they do not. */
static input_place place_of(const model_layer *l, const struct reader *reader)
{
    if (l->attention.query_rank > 0 && reader->field == offsetof(model_layer, q))
        return INPUT_QUERIES;
    if (l->attention.index.plain && reader->field == offsetof(model_layer, index_query))
        return INPUT_ATTENTION;
    if (l->input_mix && reader->field == offsetof(model_layer, k))
        return INPUT_MIXED_KEY;
    if (l->input_mix && reader->field == offsetof(model_layer, v))
        return INPUT_MIXED_VALUE;
    return reader->place;
}

/* The entries of a file, while they are collected. */
typedef struct listing {
    const input_sums *sums;
    const hearth_model *model;
    importance_entry *entries;
    size_t count;
    arena memory;
    columns_result *result;
} listing;

/* Returns the sums of what a tensor reads; NULL: the layer has no such matrix. */
static const input_squares *find_sums(const listing *l, const tensor_rule *rule, uint32_t layer)
{
    const model_layer *of = &l->model->layers[layer];
    bool has_experts = of->ffn.router.expert_count > 0;
    unsigned others = TENSOR_IGNORED | TENSOR_ALIAS | TENSOR_NEURON_MAJOR | TENSOR_PREDICTOR |
                      (has_experts ? TENSOR_OF_DENSE : TENSOR_OF_EXPERTS);
    if (!hyper_meets_needs(&l->model->hyper, of, rule->needs))
        return NULL;
    for (size_t i = 0; rule->rows != DIMENSION_NONE && !(rule->flags & others) && i < READERS; i++) {
        if (readers[i].field != rule->field)
            continue;
        const matrix *m = (const void *)((const char *)of + rule->field);
        const input_squares *sums = &l->sums->layers[layer][place_of(of, &readers[i])];
        bool is_there = m->data || (rule->flags & TENSOR_STOCK); /* a packed model has down_t in place of down */
        return is_there && sums->columns > 0 ? sums : NULL;
    }
    return NULL;
}

static hearth_status add(listing *l, const tensor_rule *rule, uint32_t layer, const input_squares *sums,
                         hearth_error *error)
{
    char name[TENSOR_NAME_SIZE];
    tensor_rule_name(name, rule, layer, false);
    const char *copy = arena_copy_text(&l->memory, name, strlen(name));
    if (!copy)
        return fail_memory(error, "importance", sizeof name);
    l->entries[l->count++] = (importance_entry){copy, sums->columns, sums->matrices, sums->sums, sums->rows};
    l->result->matrices += sums->matrices;
    for (uint32_t m = 0; m < sums->matrices; m++)
        l->result->unused += sums->rows[m] == 0;
    return HEARTH_OK;
}

/* Lists the tensors of all layers, and the head. */
static hearth_status list(listing *l, hearth_error *error)
{
    const hearth_model *m = l->model;
    const family *f = m->family;
    size_t most = f->tensor_count + m->hyper.layer_count * f->layer_tensor_count;
    l->entries = arena_new_array(&l->memory, most, sizeof *l->entries);
    if (!l->entries)
        return fail_memory(error, "importance", most * sizeof *l->entries);
    for (uint32_t layer = 0; layer < m->hyper.layer_count; layer++)
        for (size_t i = 0; i < f->layer_tensor_count; i++) {
            const input_squares *sums = find_sums(l, &f->layer_tensors[i], layer);
            if (sums)
                TRY(add(l, &f->layer_tensors[i], layer, sums, error));
        }
    for (size_t i = 0; i < f->tensor_count; i++)
        if ((f->tensors[i].flags & TENSOR_HEAD) && m->head.data != m->embedding.data)
            TRY(add(l, &f->tensors[i], 0, &l->sums->head, error));
    return HEARTH_OK;
}

hearth_status columns_write(columns_result *out, const char *path, const input_sums *sums, const hearth_model *model,
                            const corpus *texts, const span *names, size_t name_count, hearth_error *error)
{
    listing l = {.sums = sums, .model = model, .result = out};
    *out = (columns_result){0};
    importance_text text = {names, name_count, (uint32_t)texts->window_count, (uint32_t)corpus_longest(texts)};
    hearth_status status = list(&l, error);
    if (status == HEARTH_OK)
        status = importance_write(path, l.entries, l.count, &text, error);
    out->tensors = l.count;
    arena_clear(&l.memory);
    return status;
}
