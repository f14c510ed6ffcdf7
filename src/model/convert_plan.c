/* convert_plan.c - applies the family's rules to decide for each tensor: format, layout, order of rows, and why.
 *
 * Apart from what mixes keep (mix_keeps), no tensor is known by its name here. The dimensions and flags of the rules say which
 * tensors have a row or a value per neuron, which one is down, and what it is called when transposed. */
#include "convert_plan.h"

#include "bind.h"
#include "mix.h"
#include "neuron_major.h"

#include <fnmatch.h>
#include <stdio.h>
#include <string.h>

/* ---------------------------------------------------------------- formats */

static double bits_per_weight(number_format f)
{
    return 8.0 * number_formats[f].block_bytes / number_formats[f].block_values;
}

/* Returns true for the tensor that computes the logits: the head, or the embedding where there is no head; then for that of each
 * layer too, as llama.cpp has it. */
static bool is_head(const convert_plan *p, const tensor_rule *rule)
{
    const family *f = p->model->family;
    bool of_layers =
        rule->field == offsetof(hearth_model, per_layer_tokens) || rule->field == offsetof(hearth_model, ngram_rows);
    bool each = of_layers && strchr(rule->name, '%') == NULL;
    if (!(rule->flags & TENSOR_EMBEDDING) && !each)
        return (rule->flags & TENSOR_HEAD) != 0;
    for (size_t i = 0; i < f->tensor_count; i++)
        if ((f->tensors[i].flags & TENSOR_HEAD) && checkpoint_find_tensor(p->source, f->tensors[i].name))
            return false;
    return true;
}

static bool override_matches(const convert_override *o, const char *name)
{
    return strcmp(o->pattern, name) == 0 || fnmatch(o->pattern, name, 0) == 0;
}

/* Returns the last override that matches; NULL: none does. */
static const convert_override *find_override(const convert_options *o, const char *name)
{
    const convert_override *last = NULL;
    for (size_t i = 0; i < o->override_count; i++)
        if (override_matches(&o->overrides[i], name))
            last = &o->overrides[i];
    return last;
}

/* Returns the format that the options ask for, before it is checked against the length of the matrix's rows. */
static number_format wanted_format(const convert_plan *p, const tensor_rule *rule, uint32_t layer,
                                   const convert_step *step, const char **reason)
{
    const convert_options *o = p->options;
    const convert_override *override = find_override(o, step->name);
    bool is_down = (rule->flags & TENSOR_NEURON_MAJOR) != 0;
    *reason = override ? "override" : "asked for";
    if (override)
        return override->format;
    const char *keeps = mix_keeps(p->model->family->name, step->name);
    if (keeps && o->format != FORMAT_COUNT && number_is_block(o->format)) {
        *reason = keeps;
        return step->from;
    }
    if (is_down && o->neuron_major && o->down_format != FORMAT_COUNT)
        return o->down_format;
    if (o->mix) {
        mix_traits traits = mix_traits_of(p->model, p->importance != NULL);
        mix_place place = mix_place_of(p->model, rule, layer, is_head(p, rule));
        number_format to = mix_format(o->mix, &traits, &place);
        if (to != o->mix->base)
            *reason = place.role == MIX_HEAD ? "head" : o->mix->name;
        return to;
    }
    if (o->format != FORMAT_COUNT && o->head_apart && is_head(p, rule) &&
        bits_per_weight(o->format) < bits_per_weight(FORMAT_Q6_K)) {
        *reason = "head";
        return FORMAT_Q6_K;
    }
    if (o->format != FORMAT_COUNT)
        return o->format;
    *reason = "as stored";
    if (step->transposed && number_is_block(step->from) && step->down_t_format != FORMAT_TQ2_0)
        *reason = "its blocks ran across neurons";
    return step->down_t_format;
}

/* Chooses the format and sets step->reason (a constant, or a text in the plan's memory). rule: of the tensor as it is
 * written. */
static hearth_status choose_format(convert_plan *p, convert_step *step, const tensor_rule *rule, uint32_t layer,
                                   hearth_error *error)
{
    size_t bytes;
    step->to = step->from;
    step->reason = "as stored";
    if (rule->flags & TENSOR_INTEGERS)
        return HEARTH_OK;
    if (rule->rows == DIMENSION_NONE || (rule->flags & TENSOR_FLAT)) { /* llama.cpp loads vectors only in float32 */
        step->to = FORMAT_F32;
        step->reason = rule->flags & TENSOR_CONSTANT ? "constant" : rule->flags & TENSOR_NORM ? "norm" : "bias";
        return HEARTH_OK;
    }
    number_format wanted = wanted_format(p, rule, layer, step, &step->reason);
    step->to = wanted;
    if (number_row_bytes(wanted, step->columns, &bytes))
        return HEARTH_OK;
    step->to = p->options->mix ? mix_fallback(wanted) : FORMAT_Q8_0;
    if (!number_row_bytes(step->to, step->columns, &bytes))
        step->to = FORMAT_F16;
    char text[96];
    int length = snprintf(text, sizeof text, "%s needs rows of a multiple of %u", number_formats[wanted].name,
                          number_formats[wanted].block_values);
    step->reason = arena_copy_text(&p->memory, text, (size_t)length);
    return step->reason ? HEARTH_OK : fail_memory(error, "conversion", (size_t)length);
}

/* ------------------------------------------------------------- neuron-major */

/* Returns the rule of the same tensor in a neuron-major file: for down that of down_t, which follows it, for a vector the
 * neuron-major rule with the same field; else the rule itself. */
static const tensor_rule *neuron_major_rule(const family *f, const tensor_rule *rule)
{
    for (size_t i = 0; i < f->layer_tensor_count; i++) {
        const tensor_rule *t = &f->layer_tensors[i];
        if (!(t->flags & TENSOR_NEURON_MAJOR) || (t->rows == DIMENSION_NONE) != (rule->rows == DIMENSION_NONE))
            continue;
        if (t->rows == DIMENSION_NONE ? t->field == rule->field : (rule->flags & TENSOR_STOCK) && t == rule + 1)
            return t;
    }
    return rule;
}

/* Returns true for tensors with one row, or one value, per neuron, or two. */
static bool is_per_neuron(const tensor_rule *rule)
{
    dimension n = rule->rows == DIMENSION_NONE ? rule->columns : rule->rows;
    return n == DIMENSION_NEURONS || n == DIMENSION_GATE_UP;
}

/* Finds which stored row each written row of a layer comes from: [2 f], since a joined gate and up have two per neuron.
 * The order is in original neuron numbers, while the source's rows may already have another order. HEARTH_INVALID: the
 * order is not a permutation. */
static hearth_status find_rows(convert_plan *p, uint32_t layer, const uint32_t **out, hearth_error *error)
{
    const uint32_t *order = p->options->order[layer];
    const int32_t *stored = p->model->layers[layer].order;
    uint32_t f = p->model->layers[layer].ffn.neuron_count;
    uint32_t *rows = arena_new_array(&p->memory, (size_t)2 * f, sizeof *rows);
    uint32_t *place = mem_new_array(f, sizeof *place); /* row of each neuron in the source; UINT32_MAX: already used */
    if (!rows || !place) {
        mem_free(place);
        return fail_memory(error, "order of neurons", f * sizeof *rows);
    }
    for (uint32_t r = 0; r < f; r++)
        place[stored ? (uint32_t)stored[r] : r] = r;
    hearth_status status = HEARTH_OK;
    for (uint32_t r = 0; r < f && status == HEARTH_OK; r++)
        if (order[r] >= f || place[order[r]] == UINT32_MAX) {
            status = fail(error, HEARTH_INVALID, "%s: order of layer %u: neuron %u %s", p->source->path, layer,
                          order[r], order[r] < f ? "comes twice" : "does not exist");
        } else {
            rows[r] = place[order[r]];
            rows[f + r] = f + rows[r];
            place[order[r]] = UINT32_MAX;
        }
    mem_free(place);
    *out = rows;
    return status;
}

/* -------------------------------------------------------------------- plan */

uint32_t convert_extra_positions(const convert_plan *p)
{
    uint32_t wanted = p->added ? p->model->family->dropped_positions : 0, there = p->model->hyper.position_offset;
    return wanted > there ? wanted - there : 0;
}

/* Finds the weights of a matrix that changes its format; of a matrix that is transposed they would be those of rows. */
static hearth_status find_weights(const convert_plan *p, convert_item *item, hearth_error *error)
{
    convert_step *step = &item->step;
    const stored_tensor *t = p->importance ? checkpoint_find_tensor(p->importance, step->name) : NULL;
    if (!t || step->transposed || step->from == step->to || step->columns == 1)
        return HEARTH_OK;
    if (t->shape[0] != step->columns || (t->shape[1] != 1 && t->shape[1] != item->experts))
        return fail(error, HEARTH_FORMAT, "%s: %s: has weights of %llu columns of %llu matrices, the model %llu of %u",
                    p->importance->path, step->name, (unsigned long long)t->shape[0], (unsigned long long)t->shape[1],
                    (unsigned long long)step->columns, item->experts);
    if (!number_weighs(step->to))
        return HEARTH_OK;
    item->weights = t->data;
    item->weight_matrices = t->shape[1];
    step->weighed = true;
    return HEARTH_OK;
}

/* Refuses an importance file of another model. */
static hearth_status check_importance(const convert_plan *p, hearth_error *error)
{
    if (!p->importance)
        return HEARTH_OK;
    for (size_t i = 0; i < p->count; i++)
        if (checkpoint_find_tensor(p->importance, p->items[i].step.name))
            return HEARTH_OK;
    return fail(error, HEARTH_INVALID, "%s: importance: has none of the model's matrices", p->importance->path);
}

/* Adds a tensor to the plan. from, to: its rules as stored and as written; t: the stored tensor. */
static hearth_status plan_tensor(convert_plan *p, const tensor_rule *from, const tensor_rule *to, uint32_t layer,
                                 const stored_tensor *t, hearth_error *error)
{
    char name[TENSOR_NAME_SIZE];
    tensor_rule_name(name, to, layer, false);
    convert_item *item = &p->items[p->count];
    convert_step *step = &item->step;
    *item = (convert_item){.from = *t, .to = *t, .owner = p->source, .experts = 1, .scale = 1};
    bool stacked = (from->flags & (TENSOR_EXPERTS | TENSOR_HEADS)) && from->rows != DIMENSION_NONE;
    if (stacked || from->stack != DIMENSION_NONE)
        item->experts = (uint32_t)t->shape[2];
    step->name = arena_copy_text(&p->memory, name, strlen(name));
    if (!step->name)
        return fail_memory(error, "conversion", strlen(name));
    step->transposed = from != to && from->rows != DIMENSION_NONE;
    step->from = t->format;
    step->columns = t->shape[step->transposed ? 1 : 0];
    step->rows = step->transposed ? t->shape[0] * item->experts : stored_tensor_rows(t);
    step->from_bytes = t->size_bytes;
    const matrix down = {t->data, t->format, (uint32_t)(step->columns * item->experts), (uint32_t)t->shape[0],
                         step->transposed ? t->size_bytes / (step->columns * item->experts) : 0};
    step->down_t_format = step->transposed ? neuron_major_format(&down, item->experts) : step->from;
    TRY(choose_format(p, step, to, layer, error));
    TRY(find_weights(p, item, error));
    size_t row_bytes, size_bytes;
    if (!number_row_bytes(step->to, step->columns, &row_bytes) ||
        !size_multiply(row_bytes, (size_t)step->rows, &size_bytes))
        return fail(error, HEARTH_FORMAT, "%s: tensor %s: is too large for %s", p->source->path, step->name,
                    number_formats[step->to].name);
    step->to_bytes = size_bytes;
    item->to.name = step->name;
    item->to.format = step->to;
    if (step->transposed) {
        item->to.shape[0] = step->columns;
        item->to.shape[1] = t->shape[0];
    }
    item->zero_rows = to->rows == DIMENSION_POSITIONS ? convert_extra_positions(p) : 0;
    item->to.shape[1] += item->zero_rows;
    item->to.size_bytes = size_bytes + (size_t)item->zero_rows * row_bytes;
    item->to.rotary_heads = item->to.fused_groups = item->to.values.groups = 0;
    item->to.parts = NULL;
    item->to.part_rows = 0;
    item->to.scaled = NULL;
    step->is_down_t = to->rows != DIMENSION_NONE && (to->flags & TENSOR_NEURON_MAJOR);
    step->requantised = step->transposed && neuron_major_rounds(step->from, step->down_t_format, step->to);
    p->requantised |= step->requantised;
    p->bytes_total += t->size_bytes;
    p->count++;
    return HEARTH_OK;
}

/* Returns the stored tensor of a rule, in the source or in the added predictors. NULL: there is none (the check of
 * the source has accepted that). */
static const stored_tensor *find_stored(const convert_plan *p, const tensor_rule *rule, uint32_t layer)
{
    char name[TENSOR_NAME_SIZE];
    if (rule->flags & (TENSOR_IGNORED | TENSOR_ALIAS))
        return NULL;
    if (p->added && (rule->flags & TENSOR_PREDICTOR))
        return predictors_find(p->added, rule, layer);
    tensor_rule_name(name, rule, layer, false);
    return checkpoint_find_tensor(p->source, name);
}

/* Completes the item of an added predictor's tensor: its source file and its factor. */
static hearth_status plan_added(convert_plan *p, convert_item *item, const tensor_rule *rule, uint32_t layer,
                                hearth_error *error)
{
    char text[96];
    item->owner = predictors_source(p->added, layer);
    item->scale = predictors_scale(p->added, rule, layer);
    if (item->scale == 1)
        return HEARTH_OK;
    if (!number_is_written(item->step.to)) /* scaled, so it must be encoded again */
        return fail(error, HEARTH_UNSUPPORTED, "%s: tensor %s: is %s, which can be read, not written",
                    item->owner->path, item->step.name, number_formats[item->step.to].name);
    int length =
        snprintf(text, sizeof text, "times %.4g, so that one threshold serves all layers", (double)item->scale);
    item->step.reason = arena_copy_text(&p->memory, text, (size_t)length);
    return item->step.reason ? HEARTH_OK : fail_memory(error, "conversion", (size_t)length);
}

/* Adds the tensor of a layer's rule to the plan, if the layer has one. rows: NULL where the order stays. */
static hearth_status plan_layer_tensor(convert_plan *p, const tensor_rule *rule, uint32_t layer, const uint32_t *rows,
                                       hearth_error *error)
{
    uint32_t f = p->model->layers[layer].ffn.neuron_count;
    stored_tensor numbers = {.format = FORMAT_I32, .rank = 1, .shape = {f, 1, 1, 1}};
    bool is_order = rows && f > 0 && (rule->flags & TENSOR_INTEGERS) != 0;
    if (is_order) { /* uint32_t as I32: the numbers are far below 2^31       */
        numbers.data = p->options->order[layer];
        numbers.size_bytes = f * sizeof **p->options->order;
    }
    const stored_tensor *t = is_order ? &numbers : find_stored(p, rule, layer);
    if (!t || bind_gives_way(p->model, rule, layer))
        return HEARTH_OK;
    const tensor_rule *to = p->neuron_major ? neuron_major_rule(p->model->family, rule) : rule;
    if (to != rule && find_stored(p, to, layer)) /* exists under both names: the model uses the other one */
        return HEARTH_OK;
    TRY(plan_tensor(p, rule, to, layer, t, error));
    convert_item *item = &p->items[p->count - 1];
    if (is_order)
        item->owner = NULL;
    else if (p->added && (rule->flags & TENSOR_PREDICTOR))
        TRY(plan_added(p, item, rule, layer, error));
    if (rows && !is_order && is_per_neuron(to))
        item->rows = rows;
    return HEARTH_OK;
}

static hearth_status plan_layer(convert_plan *p, uint32_t layer, hearth_error *error)
{
    const family *f = p->model->family;
    const uint32_t *rows = NULL;
    if (p->options->order && p->model->layers[layer].ffn.neuron_count > 0)
        TRY(find_rows(p, layer, &rows, error));
    for (size_t i = 0; i < f->layer_tensor_count; i++)
        TRY(plan_layer_tensor(p, &f->layer_tensors[i], layer, rows, error));
    return HEARTH_OK;
}

/* Refuses a format that no encoder writes; FORMAT_COUNT stands for none. */
static hearth_status check_written(const convert_plan *p, number_format format, hearth_error *error)
{
    if (format == FORMAT_COUNT || number_is_written(format))
        return HEARTH_OK;
    return fail(error, HEARTH_UNSUPPORTED, "%s: format %s: can be read, not written", p->source->path,
                number_formats[format].name);
}

/* Refuses options that ask for such a format. */
static hearth_status check_formats(const convert_plan *p, hearth_error *error)
{
    const convert_options *o = p->options;
    TRY(check_written(p, o->format, error));
    if (o->neuron_major)
        TRY(check_written(p, o->down_format, error));
    for (size_t i = 0; i < o->override_count; i++)
        TRY(check_written(p, o->overrides[i].format, error));
    return HEARTH_OK;
}

/* Refuses an override that matches no tensor: it is most likely a typing error. */
static hearth_status check_overrides(const convert_plan *p, hearth_error *error)
{
    for (size_t i = 0; i < p->options->override_count; i++) {
        const convert_override *override = &p->options->overrides[i];
        bool matches = false;
        for (size_t k = 0; k < p->count && !matches; k++)
            matches = override_matches(override, p->items[k].step.name);
        if (!matches)
            return fail(error, HEARTH_INVALID, "%s: override %s: matches no tensor", p->source->path,
                        override->pattern);
    }
    return HEARTH_OK;
}

hearth_status convert_plan_make(convert_plan *p, hearth_error *error)
{
    const family *f = p->model->family;
    uint32_t layers = p->model->hyper.layer_count;
    if (p->options->order && !p->options->neuron_major)
        return fail(error, HEARTH_INVALID, "%s: order: needs a neuron-major file", p->source->path);
    if (p->options->order && model_largest(p->model).experts > 0)
        return fail(error, HEARTH_UNSUPPORTED, "%s: order: neurons of experts stay where they are", p->source->path);
    TRY(check_formats(p, error));
    p->neuron_major = p->options->neuron_major || p->added || p->model->neuron_major;
    size_t most = f->tensor_count + layers * f->layer_tensor_count;
    p->items = arena_new_array(&p->memory, most, sizeof *p->items);
    if (!p->items)
        return fail_memory(error, "conversion", most * sizeof *p->items);
    for (size_t i = 0; i < f->tensor_count; i++) {
        const stored_tensor *t = find_stored(p, &f->tensors[i], 0);
        if (t)
            TRY(plan_tensor(p, &f->tensors[i], &f->tensors[i], 0, t, error));
    }
    for (uint32_t layer = 0; layer < layers; layer++)
        TRY(plan_layer(p, layer, error));
    TRY(check_importance(p, error));
    return check_overrides(p, error);
}
