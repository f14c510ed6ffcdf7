/* huggingface_tensor.c - the tensors of a folder under GGUF's names: most stay where they are; what a folder stores in
 * another way is marked (stored_tensor) or copied. */
#include "experts.h"
#include "folder_reader.h"

#include <fnmatch.h>
#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

/* Replaces a vector by its values plus one. */
static hearth_status add_one(folder_reader *r, stored_tensor *t)
{
    if (t->rank != 1 || number_is_block(t->format))
        return HEARTH_OK; /* binding refuses it */
    size_t count = (size_t)t->shape[0];
    float *values = arena_new_array(&r->out->memory, count, sizeof *values);
    if (!values)
        return fail_memory(r->error, t->name, count * sizeof *values);
    number_formats[t->format].decode(t->data, values, count);
    for (size_t i = 0; i < count; i++)
        values[i] += 1;
    t->data = values;
    t->format = FORMAT_F32;
    t->size_bytes = count * sizeof *values;
    return HEARTH_OK;
}

/* Replaces a vector of values a by -exp(a), or where maps are whole by exp(a). */
static hearth_status negate_exponents(folder_reader *r, stored_tensor *t)
{
    size_t count = (size_t)(t->shape[0] * t->shape[1]);
    float *values = number_is_block(t->format) ? NULL : arena_new_array(&r->out->memory, count, sizeof *values);
    if (!values)
        return number_is_block(t->format) ? HEARTH_OK : fail_memory(r->error, t->name, count * sizeof *values);
    number_formats[t->format].decode(t->data, values, count);
    for (size_t i = 0; i < count; i++)
        values[i] = (float)(r->family->whole_maps ? exp((double)values[i]) : -exp((double)values[i]));
    t->data = values;
    t->format = FORMAT_F32;
    t->size_bytes = count * sizeof *values;
    return HEARTH_OK;
}

/* Gives a tensor of values that are no matrix the shape that its rule says, if it has as many. */
static void flatten(const folder_reader *r, const tensor_rule *rule, stored_tensor *t)
{
    uint64_t columns = hyper_dimension(&r->hyper, &r->layer, rule->columns);
    uint64_t rows = hyper_dimension(&r->hyper, &r->layer, rule->rows), count = t->shape[0] * t->shape[1];
    for (uint32_t i = 2; i < t->rank && t->rank <= TENSOR_MAX_RANK; i++)
        count *= t->shape[i];
    if (rows == 0 || count != rows * columns)
        return; /* binding refuses it */
    t->rank = rule->rows == DIMENSION_NONE ? 1 : 2;
    t->shape[0] = columns;
    t->shape[1] = rows;
    t->shape[2] = t->shape[3] = 1;
}

/* Replaces a vector, or values that are no matrix, by a copy in their logical order. */
static hearth_status copy_in_order(folder_reader *r, stored_tensor *t)
{
    stored_tensor rows = *t;
    if (t->rank == 1) { /* rows of one value */
        rows.shape[0] = 1;
        rows.shape[1] = t->shape[0];
    }
    size_t count = (size_t)rows.shape[1], row_bytes = t->size_bytes / count;
    char *values = arena_new_array(&r->out->memory, count, row_bytes);
    if (!values)
        return fail_memory(r->error, t->name, t->size_bytes);
    for (size_t i = 0; i < count; i++)
        memcpy(values + i * row_bytes, (const char *)t->data + stored_tensor_row(&rows, i) * row_bytes, row_bytes);
    t->data = values;
    t->values = (head_order){0};
    t->fused_groups = t->fused_queries = 0;
    return HEARTH_OK;
}

/* Replaces a matrix of the rows of queries, keys and values by a copy of those that a rule is of. */
static hearth_status take_fused(folder_reader *r, const tensor_rule *rule, stored_tensor *t)
{
    const attention_shape *a = &r->layer.attention;
    size_t query = query_width(a), key = key_width(a), row_bytes = t->size_bytes / (size_t)t->shape[1];
    size_t first = rule->field == offsetof(model_layer, q)   ? 0
                   : rule->field == offsetof(model_layer, k) ? query
                                                             : query + key;
    size_t count = first == 0 ? query : key;
    char *values = arena_new_array(&r->out->memory, count, row_bytes);
    if (!values)
        return fail_memory(r->error, t->name, count * row_bytes);
    for (size_t i = 0; i < count; i++)
        stored_tensor_read(t, stored_tensor_row(t, first + i), row_bytes, values + i * row_bytes);
    t->data = values;
    t->scaled = NULL;
    t->shape[1] = count;
    t->size_bytes = count * row_bytes;
    t->fused_groups = t->fused_queries = 0;
    return HEARTH_OK;
}

/* Marks the order in which a folder has the rows of queries, keys and values. A vector, and what GGUF has apart, is put in order
 * at once. */
static hearth_status order_fused(folder_reader *r, const tensor_rule *rule, stored_tensor *t)
{
    const attention_shape *a = &r->layer.attention;
    uint64_t rows = query_width(a) + 2 * (uint64_t)key_width(a);
    bool apart = rule->rows == DIMENSION_QUERY || rule->rows == DIMENSION_KEY;
    if (t->rank > 2 || (t->rank == 1 && number_is_block(t->format)) || t->shape[t->rank - 1] != rows ||
        a->head_count % a->kv_head_count != 0 || (!apart && a->kv_head_count < 2))
        return HEARTH_OK; /* they are in order, or binding refuses it */
    t->fused_groups = a->kv_head_count;
    t->fused_queries = a->head_count / a->kv_head_count;
    if (apart && t->rank == 2)
        return take_fused(r, rule, t);
    return t->rank == 1 ? copy_in_order(r, t) : HEARTH_OK;
}

/* Marks the order in which a folder has the heads of values. Others than matrices are put in order at once. */
static hearth_status order_values(folder_reader *r, const tensor_rule *rule, stored_tensor *t)
{
    const recurrent_shape *shape = &r->layer.recurrent;
    bool vector = rule->rows == DIMENSION_NONE, columns = rule->flags & TENSOR_VALUE_COLUMNS;
    dimension of = vector || columns ? rule->columns : rule->rows;
    if (t->rank != (vector ? 1 : 2) || number_is_block(t->format) ||
        t->shape[vector || columns ? 0 : 1] != hyper_dimension(&r->hyper, &r->layer, of))
        return HEARTH_OK; /* binding refuses it */
    t->values = (head_order){.groups = shape->key_count,
                             .heads = shape->head_count,
                             .length = of == DIMENSION_RECURRENT_HEADS ? 1 : shape->value_length,
                             .columns = columns};
    return vector || (rule->flags & TENSOR_FLAT) ? copy_in_order(r, t) : HEARTH_OK;
}

/* Returns whether stacked matrices of experts have a row per input, as `down` beside them tells by its shape: Qwen3-VL-MoE was
 * published so, and transformers 5 writes it otherwise under the same names. stored: the name of one of them. */
static bool experts_lie_transposed(const folder_reader *r, const char *stored)
{
    static const char both[] = "gate_up_proj", down_name[] = "down_proj";
    const char *at = strstr(stored, both), *behind = at ? at + sizeof both - 1 : NULL;
    char name[2 * TENSOR_NAME_SIZE];
    uint64_t width = r->layer.ffn.expert_neurons, d = r->hyper.embedding_length;
    if (!at && !strstr(stored, down_name))
        return false;
    if (at)
        snprintf(name, sizeof name, "%.*s%s%s", (int)(at - stored), stored, down_name, behind);
    else
        snprintf(name, sizeof name, "%s", stored);
    const stored_tensor *down = checkpoint_find_tensor(r->folder, name);
    return down && down->rank == 3 && width != d && down->shape[0] == d && down->shape[1] == width;
}

/* Replaces floats that were not stored as GGUF stores them by a copy: with a row per output where they have a row per
 * input, of each of stacked matrices, and with half of the values of a row where two tensors take turns in it, or follow each
 * other. */
static hearth_status rearrange(folder_reader *r, const tensor_rule *rule, bool transposed, stored_tensor *t)
{
    bool halves = rule->flags & (TENSOR_FIRST_HALF | TENSOR_SECOND_HALF);
    size_t step = rule->flags & (TENSOR_EVEN | TENSOR_ODD) ? 2 : 1, first = rule->flags & TENSOR_ODD ? 1 : 0;
    if (t->rank < 2 || t->rank > 3 || number_is_block(t->format) || t->shape[0] % (halves ? 2 : step) != 0)
        return HEARTH_OK; /* binding refuses it */
    size_t width = (size_t)t->shape[0], height = (size_t)t->shape[1], count = (size_t)t->shape[2];
    size_t bytes = number_formats[t->format].block_bytes, taken = width / (halves ? 2 : step);
    first = rule->flags & TENSOR_SECOND_HALF ? taken : first;
    char *values = arena_new_array(&r->out->memory, count * height * taken, bytes), *to = values;
    if (!values)
        return fail_memory(r->error, t->name, t->size_bytes);
    size_t rows = transposed ? taken : height, columns = transposed ? height : taken;
    for (size_t i = 0; i < count * rows * columns; i++, to += bytes) {
        size_t matrix_at = i / (rows * columns), row = i / columns % rows, column = i % columns;
        size_t y = transposed ? column : row, x = first + (transposed ? row : column) * step;
        memcpy(to, (const char *)t->data + ((matrix_at * height + y) * width + x) * bytes, bytes);
    }
    t->data = values;
    t->shape[0] = columns;
    t->shape[1] = rows;
    t->size_bytes = count * rows * columns * bytes;
    return HEARTH_OK;
}

/* Leaves out the last rows of an embedding that has more than the model can say: of pictures and sound. */
static void keep_text(const folder_reader *r, stored_tensor *t)
{
    uint64_t said = r->hyper.vocabulary_size, rows = t->shape[1];
    if (!r->family->said_alone || t->rank != 2 || rows <= said)
        return; /* where it does not fit binding refuses it */
    t->size_bytes = t->size_bytes / (size_t)rows * (size_t)said;
    t->shape[1] = said;
}

/* Leaves out the first rows of a table of positions. */
static hearth_status drop_rows(folder_reader *r, stored_tensor *t, uint32_t count)
{
    if (t->rank != 2 || t->shape[1] <= count)
        return HEARTH_OK; /* binding refuses it */
    TRY(folder_make_rows(r, t));
    size_t row_bytes = t->size_bytes / (size_t)t->shape[1];
    t->data = (const char *)t->data + count * row_bytes;
    t->shape[1] -= count;
    t->size_bytes -= count * row_bytes;
    return HEARTH_OK;
}

/* Takes half of the rows of each of a matrix, or of each of stacked ones, where they lie. */
static hearth_status take_half(folder_reader *r, const tensor_rule *rule, const char *stored, stored_tensor *t)
{
    if (t->rank == 2 && t->shape[1] % 2 == 0) {
        t->shape[1] /= 2;
        t->size_bytes /= 2;
        t->data = (const char *)t->data + (rule->flags & TENSOR_SECOND_HALF ? t->size_bytes : 0);
        return HEARTH_OK;
    }
    if (t->rank != 3 || t->shape[1] % 2 != 0)
        return fail(r->error, HEARTH_FORMAT, "%s: tensor %.128s: is not of matrices with an even number of rows",
                    r->out->path, stored);
    size_t count = (size_t)t->shape[2], each = t->size_bytes / count;
    const char *from = (const char *)t->data + (rule->flags & TENSOR_SECOND_HALF ? each / 2 : 0);
    t->parts = arena_new_array(&r->out->memory, count, sizeof *t->parts);
    if (!t->parts)
        return fail_memory(r->error, t->name, count * sizeof *t->parts);
    for (size_t i = 0; i < count; i++)
        t->parts[i] = from + i * each;
    t->data = NULL;
    t->shape[1] /= 2;
    t->size_bytes /= 2;
    return HEARTH_OK;
}

/* Returns how many heads the rows of a layer's matrix are of. */
static uint32_t rotary_heads(const folder_reader *r, const tensor_rule *rule, uint32_t layer)
{
    model_layer l = r->layer;
    if (r->kv_heads && layer < r->hyper.layer_count)
        l.attention.kv_head_count = r->kv_heads[layer];
    return (uint32_t)hyper_dimension(&r->hyper, &l, rule->rotary);
}

/* Marks or changes what a folder stores in another way than GGUF. stored: as it is there. */
static hearth_status adapt(folder_reader *r, const tensor_rule *rule, const stored_tensor *stored, uint32_t layer,
                           stored_tensor *t)
{
    if (r->ternary != TERNARY_NONE && strchr(rule->name, '%') && rule->rows != DIMENSION_NONE)
        TRY(folder_make_ternary(r, stored, t));
    TRY(folder_narrow_numbers(r, rule, t));
    if (t->foreign) /* it has neither values nor a format; binding refuses it */
        return HEARTH_OK;
    TRY(folder_divide_heads(r, rule, t));
    TRY(folder_divide_keys(r, rule, t));
    TRY(folder_divide_scorer(r, rule, t));
    if (rule->rotary != DIMENSION_NONE)
        t->rotary_heads = rotary_heads(r, rule, layer);
    if (rule->flags & TENSOR_FUSED)
        TRY(order_fused(r, rule, t));
    if (rule->flags & TENSOR_EMBEDDING)
        keep_text(r, t);
    if (rule->columns == DIMENSION_EMBEDDING && rule->rows == DIMENSION_POSITIONS)
        TRY(drop_rows(r, t, r->family->dropped_positions));
    if (rule->flags & TENSOR_LESS_ONE)
        TRY(add_one(r, t));
    if (rule->flags & TENSOR_FLAT)
        flatten(r, rule, t);
    if ((rule->flags & TENSOR_NEGATED_EXPONENT) && t->rank <= 2)
        TRY(negate_exponents(r, t));
    if (rule->flags & (TENSOR_VALUE_ROWS | TENSOR_VALUE_COLUMNS))
        TRY(order_values(r, rule, t));
    bool transposed = (rule->flags & TENSOR_TRANSPOSED) ||
                      ((rule->flags & TENSOR_EXPERTS) && t->rank == 3 && experts_lie_transposed(r, stored->name));
    if ((rule->flags & (TENSOR_FIRST_HALF | TENSOR_SECOND_HALF)) && !transposed)
        return take_half(r, rule, stored->name, t);
    return transposed || (rule->flags & (TENSOR_EVEN | TENSOR_ODD)) ? rearrange(r, rule, transposed, t) : HEARTH_OK;
}

/* Refuses a folder of which some tensors hold all experts of a layer and others a single one. */
static hearth_status check_form(folder_reader *r, const tensor_rule *rule, const char *name)
{
    bool single = tensor_rule_is_single(rule, true);
    if (!(rule->flags & TENSOR_EXPERTS))
        return HEARTH_OK;
    if (!r->of_experts[single])
        r->of_experts[single] = name;
    return !r->of_experts[!single]
               ? HEARTH_OK
               : fail(r->error, HEARTH_FORMAT, "%s: tensor %.96s: holds all experts, and %.96s holds one of them",
                      r->out->path, r->of_experts[false], r->of_experts[true]);
}

/* Adds one tensor as its rule says. */
static hearth_status add_ruled(folder_reader *r, const stored_tensor *stored, const tensor_rule *rule, uint32_t layer,
                               uint32_t expert)
{
    stored_tensor t = *stored;
    char name[TENSOR_NAME_SIZE];
    expert_number number = {expert, r->layer.ffn.router.expert_count, r->folder->tensor_count};
    tensor_rule_name(name, rule, layer, false);
    TRY(check_form(r, rule, stored->name));
    bool scaled = folder_has_scales(r, rule, stored);
    if (scaled)
        TRY(folder_take_scaled(r, rule, stored, &t));
    if (rule->stack != DIMENSION_NONE) { /* the number in its name is its own */
        number.expert = layer;
        number.count = (uint32_t)hyper_dimension(&r->hyper, &r->layer, rule->stack);
    }
    if (rule->stack != DIMENSION_NONE || tensor_rule_is_single(rule, true))
        return experts_add(r->out, name, &t, number, r->error);
    t.name = name;
    if (!scaled || r->scaled != FOLDER_MXFP4) /* which is as GGUF has it */
        TRY(adapt(r, rule, stored, layer, &t));
    return checkpoint_add_tensor(r->out, &t, r->error);
}

/* Prefixes that the names of some published folders have besides, or lack. */
static const struct {
    const char *has, *lacks;
} prefixes[] = {
    {"", ""},
    {"language_model.", ""},             /* the text's part of a model of text and pictures */
    {"model.language_model.", "model."}, /* ... since transformers 5 */
    {"", "transformer."},                /* a GPT-2 that was stored without its head */
    {"", "model."},                      /* Cosmos 3 Edge as it was published */
    {"model.", "backbone."},             /* Nemotron 3 Puzzle */
};

/* Finds the rule for a tensor, also where its name differs by such a prefix. */
static const tensor_rule *find_rule(const folder_reader *r, const char *name, uint32_t *layer, uint32_t *expert)
{
    const tensor_rule *rule = NULL;
    for (size_t i = 0; i < sizeof prefixes / sizeof *prefixes && !rule; i++) {
        char usual[3 * TENSOR_NAME_SIZE];
        size_t has = strlen(prefixes[i].has);
        if (strncmp(name, prefixes[i].has, has) == 0 && strlen(name) < sizeof usual - TENSOR_NAME_SIZE) {
            snprintf(usual, sizeof usual, "%s%s", prefixes[i].lacks, name + has);
            rule = family_find_rule(r->family, usual, true, layer, expert);
        }
    }
    return rule;
}

/* Returns the number of the layer in the name of a tensor that has no rule; UINT32_MAX where it names none of the text's. */
static uint32_t layer_of_name(const char *name)
{
    static const char *const before[] = {"model.", "model.language_model.", "language_model.model."};
    uint32_t number;
    for (size_t i = 0; i < sizeof before / sizeof *before; i++) {
        size_t length = strlen(before[i]);
        if (strncmp(name, before[i], length) == 0 && sscanf(name + length, "layers.%" SCNu32 ".", &number) == 1)
            return number;
    }
    return UINT32_MAX;
}

/* Returns whether a tensor without a rule, by its whole name, takes no part in the text model: frequencies, which early versions of
 * transformers stored, and Cosmos 3 Edge's generator of pictures, part of which lies in the layers. */
static bool is_unused(const folder_reader *r, const char *name)
{
    static const char *const generator[] = {
        "*norm_moe_gen.*",
        "*.mlp_moe_gen.*",
        "*.self_attn.add_[qkv]_proj.*",
        "*.self_attn.to_add_out.*",
        "*.self_attn.norm_added_[qk].*",
        "*.self_attn.k_norm_und_for_gen.*",
        "*action_modality_embed",
        "*action_proj_*",
        "*time_embedder.*",
        "proj_in.*",
        "proj_out.*",
        "model.language_model.proj_in.*",
        "model.language_model.proj_out.*",
    };
    for (size_t i = 0; r->pictures && i < sizeof generator / sizeof *generator; i++)
        if (fnmatch(generator[i], name, 0) == 0)
            return true;
    return fnmatch("*.rotary_emb.inv_freq", name, 0) == 0;
}

/* Returns whether a tensor takes no part in the text model: one for pictures or sound, or of a draft head, which guesses
 * tokens ahead and lies behind the last layer. */
static bool is_beside(const folder_reader *r, const char *name, const tensor_rule *rule, uint32_t layer)
{
    static const char *const others[] = {
        "vision_model.",    "vision_tower.",    "multi_modal_projector.", "audio_tower.",       "visual.",
        "embed_vision.",    "embed_audio.",     "vision_adapter.",        "vision_projection.", "vit_large_projector.",
        "vision_embedder.", "patch_merge_mlp.", "vision_tokenizer.",      "audio_tokenizer.",   "projector."};
    uint32_t layers = r->hyper.layer_count, number = rule ? UINT32_MAX : layer_of_name(name);
    if (!rule && is_unused(r, name))
        return true;
    if (strncmp(name, "mtp.", 4) == 0 || strncmp(name, "model.mtp_", 10) == 0 || strncmp(name, "model.mtp.", 10) == 0)
        return true;
    if (number != UINT32_MAX)
        return number >= layers && number - layers < r->draft_layers;
    if (rule && strchr(rule->folder_name, '%'))
        return layer >= layers && layer - layers < r->draft_layers;
    const char *from = strncmp(name, "model.", 6) == 0 ? name + 6 : name;
    for (size_t i = 0; r->pictures && i < sizeof others / sizeof *others; i++)
        if (strncmp(from, others[i], strlen(others[i])) == 0)
            return true;
    return false;
}

/* Returns whether a rule is of layers with experts, in a model without, or the other way round, or of layers with another mixer,
 * and another one of the right kind has the same name in the folder. */
static bool gives_way(const folder_reader *r, const tensor_rule *rule, uint32_t layer)
{
    const family *f = r->family;
    unsigned other = r->layer.ffn.router.expert_count > 0 ? TENSOR_OF_DENSE : TENSOR_OF_EXPERTS;
    if (r->kv_heads)
        other |= r->kv_heads[layer] > 0 ? TENSOR_OF_RECURRENT : TENSOR_OF_ATTENTION;
    if (!(rule->flags & other) || !rule->folder_name)
        return false;
    for (const tensor_rule *x = f->layer_tensors; x < f->layer_tensors + f->layer_tensor_count; x++)
        if (x != rule && x->folder_name && strcmp(x->folder_name, rule->folder_name) == 0 && !(x->flags & other))
            return true;
    return false;
}

/* Adds one tensor under GGUF's name, or several that it has in one. A tensor without a rule keeps its name, so that
 * binding can refuse it by name. */
static hearth_status add_tensor(folder_reader *r, const stored_tensor *stored, bool tied)
{
    uint32_t layer = 0, expert = 0;
    char plain[2 * TENSOR_NAME_SIZE];
    folder_plain_name(r, stored->name, plain);
    const tensor_rule *rule = find_rule(r, plain, &layer, &expert);
    if ((rule && (rule->flags & TENSOR_IGNORED)) || folder_is_ternary_scale(r, stored->name) ||
        folder_is_scale(r, stored->name) || folder_leaves_to_rwkv(r, stored->name) ||
        folder_leaves_to_ngrams(r, stored->name) || folder_leaves_to_xielu(r, stored->name) ||
        is_beside(r, stored->name, rule, layer) || folder_is_void_bias(r, stored, rule))
        return HEARTH_OK;
    if (rule && (rule->flags & TENSOR_HEAD) && tied) /* transformers then uses the embedding even where a head exists */
        return HEARTH_OK;
    if (!rule)
        return checkpoint_add_tensor(r->out, stored, r->error);
    if (strchr(rule->folder_name, '%') && layer >= r->hyper.layer_count) /* which binding refuses by name */
        return add_ruled(r, stored, rule, layer, expert);
    for (; rule; rule = family_next_rule(r->family, rule))
        if (!gives_way(r, rule, layer))
            TRY(add_ruled(r, stored, rule, layer, expert));
    return HEARTH_OK;
}

/* Checks that a folder whose embedding is not tied has a head. A GGUF without a head is tied; so without this check a
 * lost shard would silently make another model. */
static hearth_status require_head(const folder_reader *r)
{
    for (size_t i = 0; i < r->family->tensor_count; i++) {
        const tensor_rule *rule = &r->family->tensors[i];
        if ((rule->flags & TENSOR_HEAD) && !checkpoint_find_tensor(r->out, rule->name))
            return fail(r->error, HEARTH_FORMAT, "%s: tensor %s: is missing, and tie_word_embeddings is not true",
                        r->out->path, rule->folder_name);
    }
    return HEARTH_OK;
}

/* Checks that layer 0 has FFN biases exactly where config.json's mlp_bias says so, as transformers ignores biases
 * without it. Binding checks that all layers are like the first. */
static hearth_status check_biases(const folder_reader *r)
{
    bool announced = false, found;
    TRY(json_get_bool(r->config, "mlp_bias", &announced, &found, r->name, r->error));
    for (size_t i = 0; i < r->family->layer_tensor_count; i++) {
        const tensor_rule *rule = &r->family->layer_tensors[i];
        char name[TENSOR_NAME_SIZE], folder_name[TENSOR_NAME_SIZE];
        if (!(rule->flags & TENSOR_MLP_BIAS))
            continue;
        tensor_rule_name(name, rule, 0, false);
        tensor_rule_name(folder_name, rule, 0, true);
        bool there = checkpoint_find_tensor(r->out, name) != NULL;
        if (there != announced)
            return fail(r->error, HEARTH_FORMAT, "%s: tensor %s: %s", r->out->path, folder_name,
                        announced ? "is missing, and mlp_bias is true" : "is there, and mlp_bias is not true");
    }
    return HEARTH_OK;
}

/* Gives matrices whose rows llama.cpp wants in another dimension than the second, with ones between, that shape. */
static void spread(folder_reader *r)
{
    static const struct {
        const char *pattern;
        uint32_t of_rows; /* the dimension */
    } wanted[] = {{"blk.*.ssm_conv1d_[qkv].weight", 2}, {"blk.*.time_mix_lerp_fused.weight", 3}};
    for (size_t i = 0; i < r->out->tensor_count; i++) {
        stored_tensor *t = &r->out->tensors[i];
        for (size_t k = 0; k < sizeof wanted / sizeof *wanted; k++) {
            if (t->rank != 2 || fnmatch(wanted[k].pattern, t->name, 0) != 0)
                continue;
            t->rank = 4;
            t->shape[wanted[k].of_rows] = t->shape[1];
            t->shape[1] = 1;
        }
    }
}

hearth_status folder_add_tensors(folder_reader *r, bool tied)
{
    for (size_t i = 0; i < r->folder->tensor_count; i++)
        TRY(add_tensor(r, &r->folder->tensors[i], tied));
    TRY(experts_check(r->out, r->error));
    TRY(folder_add_rwkv(r));
    TRY(folder_add_xielu(r));
    TRY(r->hyper.ngrams.longest > 0 ? folder_add_ngrams(r) : HEARTH_OK);
    spread(r);
    if (!tied)
        TRY(require_head(r));
    TRY(check_biases(r));
    return checkpoint_set_file_type(r->out, r->error);
}
