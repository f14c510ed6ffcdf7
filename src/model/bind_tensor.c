/* bind_tensor.c - binds a tensor to every rule of the family and refuses tensors without a rule.
 *
 * Matrices stay where they are in the file's mapping. Copied are: vectors that are not float32 or not aligned; the
 * order of neurons, because readers rely on its numbers having been checked; and q and k of a folder, whose rows are
 * put in the order of rotary pairs. */
#include "bind.h"
#include "experts.h"
#include "factors.h"
#include "hyper.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

/* A size that is not known yet: any size is accepted. */
#define ANY_SIZE UINT64_MAX

/* Reports an error about the tensor of a rule, under the name that the source uses. */
static hearth_status fail_tensor(const binder *b, const tensor_rule *rule, uint32_t layer, const char *reason)
{
    char name[TENSOR_NAME_SIZE];
    tensor_rule_name(name, rule, layer, b->folder);
    return fail(b->error, HEARTH_FORMAT, "%s: tensor %s: %s", b->source->path, name, reason);
}

static const stored_tensor *find_tensor(const binder *b, const tensor_rule *rule, uint32_t layer)
{
    char name[TENSOR_NAME_SIZE];
    tensor_rule_name(name, rule, layer, false);
    return checkpoint_find_tensor(b->source, name);
}

/* ------------------------------------------------------------------ shapes */

/* Writes a shape as "4096 x 14336". */
static void print_shape(char *out, size_t size, const uint64_t *shape, uint32_t rank)
{
    size_t used = 0;
    for (uint32_t i = 0; i < rank && used < size; i++) {
        const char *by = i ? " x " : "";
        if (shape[i] == ANY_SIZE)
            used += (size_t)snprintf(out + used, size - used, "%sany", by);
        else
            used += (size_t)snprintf(out + used, size - used, "%s%llu", by, (unsigned long long)shape[i]);
    }
}

/* Returns the expected size of a dimension. Hyperparameters give all but the rank of a predictor, which comes from
 * the first of its tensors. */
static uint64_t expected_size(const binder *b, uint32_t layer, dimension d)
{
    if (d == DIMENSION_RANK)
        return b->rank ? b->rank : ANY_SIZE;
    return hyper_dimension(&b->model->hyper, &b->model->layers[layer], d);
}

static bool fits(uint64_t size, uint64_t expected)
{
    return expected == ANY_SIZE || size == expected;
}

/* Checks the shape of a tensor, and sets b->rank where its rank was not known yet. */
static hearth_status check_shape(binder *b, const tensor_rule *rule, uint32_t layer, const stored_tensor *t)
{
    uint64_t expected[3] = {expected_size(b, layer, rule->columns), expected_size(b, layer, rule->rows), 1};
    uint32_t dimensions = rule->rows == DIMENSION_NONE ? 1 : 2, rank = t->rank;
    uint64_t shape[TENSOR_MAX_RANK];
    memcpy(shape, t->shape, sizeof shape);
    char is[128], wanted[96], reason[256];
    if (rule->flags & TENSOR_EXPERTS)
        expected[dimensions++] = b->model->layers[layer].ffn.router.expert_count;
    else if (rule->flags & TENSOR_HEADS)
        expected[dimensions++] = b->model->layers[layer].attention.head_count;
    else if (rule->stack != DIMENSION_NONE)
        expected[dimensions++] = expected_size(b, layer, rule->stack);
    for (uint32_t i = rank; (rule->flags & TENSOR_FLAT) && i-- > 0 && rank > dimensions;)
        if (shape[i] == 1) /* a dimension of one value says nothing there */
            memmove(shape + i, shape + i + 1, (--rank - i) * sizeof *shape);
    for (uint32_t i = rank; i < TENSOR_MAX_RANK; i++)
        shape[i] = 1;
    if (rank != dimensions || !fits(shape[0], expected[0]) || !fits(shape[1], expected[1]) ||
        !fits(shape[2], expected[2])) {
        print_shape(is, sizeof is, t->shape, t->rank);
        print_shape(wanted, sizeof wanted, expected, dimensions);
        snprintf(reason, sizeof reason, "is %s, expected %s", is, wanted);
        return fail_tensor(b, rule, layer, reason);
    }
    if (expected[0] != ANY_SIZE && expected[1] != ANY_SIZE)
        return HEARTH_OK;
    uint64_t units = t->shape[expected[0] == ANY_SIZE ? 0 : 1];
    if (units < 1 || units > PREDICTOR_RANK_LIMIT) {
        snprintf(reason, sizeof reason, "has a rank of %llu, expected 1 to %llu", (unsigned long long)units,
                 (unsigned long long)PREDICTOR_RANK_LIMIT);
        return fail_tensor(b, rule, layer, reason);
    }
    b->rank = (uint32_t)units;
    return HEARTH_OK;
}

/* Checks that the number format suits the rule: i32 for numbers of neurons, float for vectors, any weight format for
 * matrices. */
static hearth_status check_format(const binder *b, const tensor_rule *rule, uint32_t layer, const stored_tensor *t)
{
    bool vector = rule->rows == DIMENSION_NONE; /* llama.cpp rounds what has rows, though nothing multiplies it */
    const char *expected = NULL;
    if (rule->flags & TENSOR_INTEGERS)
        expected = t->format == FORMAT_I32 ? NULL : "numbers of neurons or experts must be i32";
    else if (t->format == FORMAT_I32)
        expected = "weights must be float or blocks";
    else if (vector && number_is_block(t->format))
        expected = "a vector must be float";
    if (!expected)
        return HEARTH_OK;
    char reason[96];
    snprintf(reason, sizeof reason, "is %s, %s", number_formats[t->format].name, expected);
    return fail_tensor(b, rule, layer, reason);
}

/* ------------------------------------------------------------------- kinds */

/* Binds a vector as float32: in place, or decoded into the model's memory. */
static hearth_status bind_vector(binder *b, const float **out, const tensor_rule *rule, uint32_t layer,
                                 const stored_tensor *t)
{
    if (*out)
        return fail_tensor(b, rule, layer, "is there under another name too");
    if (t->scaled)
        return fail_tensor(b, rule, layer, "is to be made of other values, which is not supported of vectors");
    if (t->format == FORMAT_F32 && (uintptr_t)t->data % _Alignof(float) == 0) {
        *out = t->data;
        return HEARTH_OK;
    }
    size_t count = (size_t)(t->shape[0] * stored_tensor_rows(t));
    float *values = arena_new_array(&b->model->memory, count, sizeof *values);
    if (!values)
        return fail_memory(b->error, t->name, count * sizeof *values);
    number_formats[t->format].decode(t->data, values, count);
    *out = values;
    return HEARTH_OK;
}

/* Returns true where every number from 0 to count - 1 appears exactly once. seen: a bit set of [count / 8 + 1] zero
 * bytes. */
static bool is_permutation(const int32_t *numbers, size_t count, uint8_t *seen)
{
    for (size_t i = 0; i < count; i++) {
        if (numbers[i] < 0 || (size_t)numbers[i] >= count)
            return false;
        size_t n = (size_t)numbers[i];
        if (seen[n / 8] >> n % 8 & 1)
            return false;
        seen[n / 8] |= (uint8_t)(1 << n % 8);
    }
    return true;
}

/* Copies the order of neurons and checks that it is a permutation. */
static hearth_status bind_order(binder *b, const int32_t **out, const tensor_rule *rule, uint32_t layer,
                                const stored_tensor *t)
{
    size_t count = (size_t)t->shape[0];
    int32_t *numbers = arena_new_array(&b->model->memory, count, sizeof *numbers);
    uint8_t *seen = numbers ? mem_new(count / 8 + 1) : NULL;
    if (!seen)
        return fail_memory(b->error, t->name, count * sizeof *numbers);
    memcpy(numbers, t->data, count * sizeof *numbers);
    bool good = is_permutation(numbers, count, seen);
    mem_free(seen);
    *out = numbers;
    return good ? HEARTH_OK : fail_tensor(b, rule, layer, "does not hold the number of every neuron once");
}

/* Copies the experts of each token, and checks that there are such experts, each once. */
static hearth_status bind_token_experts(binder *b, const int32_t **out, const tensor_rule *rule, uint32_t layer,
                                        const stored_tensor *t)
{
    size_t used = (size_t)t->shape[0], count = used * (size_t)stored_tensor_rows(t);
    uint32_t experts = b->model->layers[layer].ffn.router.expert_count;
    int32_t *numbers = arena_new_array(&b->model->memory, count, sizeof *numbers);
    if (!numbers)
        return fail_memory(b->error, t->name, count * sizeof *numbers);
    memcpy(numbers, t->data, count * sizeof *numbers);
    for (size_t i = 0; i < count; i++) {
        bool good = numbers[i] >= 0 && (uint32_t)numbers[i] < experts;
        for (size_t k = i - i % used; k < i; k++)
            good &= numbers[k] != numbers[i];
        if (!good)
            return fail_tensor(b, rule, layer, "has a number that is no expert's, or that of one expert twice");
    }
    *out = numbers;
    return HEARTH_OK;
}

/* Copies the rows of a matrix into their logical order (stored_tensor) and reports progress. */
static hearth_status put_in_order(binder *b, matrix *m, const stored_tensor *t)
{
    char *rows = arena_new_array(&b->model->memory, m->rows, m->row_bytes);
    if (!rows)
        return fail_memory(b->error, t->name, t->size_bytes);
    for (size_t i = 0; i < m->rows; i++)
        stored_tensor_read(t, stored_tensor_row(t, i), m->row_bytes, rows + i * m->row_bytes);
    m->data = rows;
    checkpoint_drop(b->source, t);
    b->bytes_done += t->size_bytes;
    if (b->progress && b->progress->report &&
        !b->progress->report(b->progress->user, "ordering rows", b->bytes_done, b->bytes_total))
        return fail(b->error, HEARTH_CANCELLED, "%s: opening was cancelled", b->source->path);
    return HEARTH_OK;
}

/* Binds a matrix in place, unless its rows have to be put in order. */
static hearth_status bind_matrix(binder *b, matrix *out, const tensor_rule *rule, uint32_t layer,
                                 const stored_tensor *t)
{
    matrix m = {.data = t->parts ? t->parts[0] : t->data, /* those of other experts lie elsewhere until put in order */
                .format = t->format,
                .rows = (uint32_t)stored_tensor_rows(t),
                .columns = (uint32_t)t->shape[0]};
    if (stored_tensor_rows(t) > UINT32_MAX)
        return fail_tensor(b, rule, layer, "has too many rows");
    if (!number_row_bytes(t->format, t->shape[0], &m.row_bytes))
        return fail_tensor(b, rule, layer, "has rows that are not a whole number of blocks");
    if (stored_tensor_reordered(t) && b->copies)
        TRY(put_in_order(b, &m, t));
    *out = m;
    return HEARTH_OK;
}

/* ---------------------------------------------------------------- presence */

/* The kinds of layers, by the flags of the tensors that only they have. */
static const struct {
    unsigned flag;
    const char *reason; /* why another layer must not have such a tensor */
} layer_kinds[] = {
    {TENSOR_OF_EXPERTS, "is of a layer with experts, and this one has none"},
    {TENSOR_OF_DENSE, "is of a layer without experts, and this one has some"},
    {TENSOR_OF_ATTENTION, "is of a layer with attention, and this one has none"},
    {TENSOR_OF_RECURRENT, "is of a recurrent layer, and this one is not"},
    {TENSOR_OF_LATENT, "is of experts that read another width, and there are none"},
};

/* Returns the flags of the kinds that a layer is of. */
static unsigned kinds_of(const model_layer *l)
{
    const ffn_shape *f = &l->ffn;
    unsigned kinds = f->neuron_count == 0 ? 0 : f->router.expert_count > 0 ? TENSOR_OF_EXPERTS : TENSOR_OF_DENSE;
    kinds |= f->latent > 0 ? TENSOR_OF_LATENT : 0;
    return kinds | (l->mixer == MIXER_ATTENTION   ? TENSOR_OF_ATTENTION
                    : l->mixer == MIXER_RECURRENT ? TENSOR_OF_RECURRENT
                                                  : 0);
}

/* Returns why a layer is not of the kind that has tensors of this rule; NULL: it is. */
static const char *of_other_kind(const hearth_model *m, const tensor_rule *rule, uint32_t layer)
{
    const model_layer *l = &m->layers[layer];
    unsigned missing = rule->flags & ~kinds_of(l);
    if (l->ffn.neuron_count == 0 && (missing & (TENSOR_OF_EXPERTS | TENSOR_OF_DENSE)))
        return "is of a layer with a network, and this one has none";
    for (size_t i = 0; i < sizeof layer_kinds / sizeof *layer_kinds; i++)
        if (missing & layer_kinds[i].flag)
            return layer_kinds[i].reason;
    if (hyper_meets_needs(&m->hyper, &m->layers[layer], rule->needs))
        return NULL;
    return rule->needs & NEEDS_PER_LAYER ? "is of inputs of the layers' own, and there are none"
                                         : "is of another kind of layer than this one";
}

bool bind_gives_way(const hearth_model *model, const tensor_rule *rule, uint32_t layer)
{
    const family *f = model->family;
    if (!of_other_kind(model, rule, layer))
        return false;
    for (const tensor_rule *r = f->layer_tensors; r < f->layer_tensors + f->layer_tensor_count; r++)
        if (r != rule && strcmp(r->name, rule->name) == 0 && !(r->flags & TENSOR_ALIAS) &&
            !of_other_kind(model, r, layer))
            return true;
    return false;
}

/* Returns the first layer of a kind that may have tensors of this rule; layer_count: there is none. */
static uint32_t first_of_kind(const binder *b, const tensor_rule *rule)
{
    uint32_t layer = 0;
    while (layer < b->model->hyper.layer_count && of_other_kind(b->model, rule, layer))
        layer++;
    return layer;
}

/* Returns true where the first layer of the right kind has one of the required tensors with this flag, which tells the
 * layout of the model. */
static bool first_layer_has(const binder *b, unsigned flag)
{
    const family *f = b->model->family;
    for (size_t i = 0; i < f->layer_tensor_count; i++) {
        const tensor_rule *rule = &f->layer_tensors[i];
        uint32_t layer = first_of_kind(b, rule);
        if ((rule->flags & flag) && !(rule->flags & TENSOR_OPTIONAL) && layer < b->model->hyper.layer_count &&
            find_tensor(b, rule, layer))
            return true;
    }
    return false;
}

/* Returns why a layer must not have a tensor of this rule; NULL: it may have it. */
static const char *unwanted(const binder *b, const tensor_rule *rule, uint32_t layer)
{
    const hearth_model *m = b->model;
    const char *reason = of_other_kind(m, rule, layer);
    if (reason)
        return reason;
    if (rule->columns == DIMENSION_SHARED_NEURONS || rule->rows == DIMENSION_SHARED_NEURONS)
        if (m->layers[layer].ffn.shared_neurons == 0)
            return "is of a shared expert, and there is none";
    if ((rule->flags & TENSOR_STOCK) && m->neuron_major)
        return "is of the stock layout, the model is neuron-major";
    if ((rule->flags & TENSOR_NEURON_MAJOR) && !m->neuron_major)
        return "is of the neuron-major layout, the model is of the stock one";
    if ((rule->flags & TENSOR_PREDICTOR) && !m->predictors)
        return "is part of a predictor, and layer 0 has none";
    return NULL;
}

/* Finds the tensor of a rule; *out is NULL where it is absent and not needed. All layers must have the same tensors
 * as the first: else a lost tensor would silently make another model. */
static hearth_status take_tensor(const binder *b, const stored_tensor **out, const tensor_rule *rule, uint32_t layer)
{
    const stored_tensor *t = find_tensor(b, rule, layer);
    const char *reason = unwanted(b, rule, layer);
    *out = t;
    if (reason && t && ((rule->needs & NEEDS_OR_UNUSED) || bind_gives_way(b->model, rule, layer)))
        *out = t = NULL;
    if (reason)
        return t ? fail_tensor(b, rule, layer, reason) : HEARTH_OK;
    if (!(rule->flags & TENSOR_OPTIONAL))
        return t ? HEARTH_OK : fail_tensor(b, rule, layer, "is missing");
    const uint32_t first = strchr(rule->name, '%') ? first_of_kind(b, rule) : layer;
    if (first == layer || !t == !find_tensor(b, rule, first))
        return HEARTH_OK;
    char reason_text[64];
    snprintf(reason_text, sizeof reason_text,
             t ? "is there, and layer %u has none" : "is missing, and layer %u has one", first);
    return fail_tensor(b, rule, layer, reason_text);
}

/* Finds and checks one tensor and sets its field. owner: the model or the layer that has the field. */
static hearth_status bind_tensor(binder *b, void *owner, const tensor_rule *rule, uint32_t layer)
{
    if (rule->flags & (TENSOR_IGNORED | TENSOR_ALIAS))
        return HEARTH_OK;
    const stored_tensor *t;
    TRY(take_tensor(b, &t, rule, layer));
    if (!t)
        return HEARTH_OK;
    TRY(check_shape(b, rule, layer, t));
    TRY(check_format(b, rule, layer, t));
    void *field = (char *)owner + rule->field;
    if ((rule->flags & TENSOR_INTEGERS) && rule->rows != DIMENSION_NONE)
        TRY(bind_token_experts(b, field, rule, layer, t));
    else if (rule->rows != DIMENSION_NONE && !(rule->flags & TENSOR_FLAT))
        TRY(bind_matrix(b, field, rule, layer, t));
    else if (rule->flags & TENSOR_INTEGERS)
        TRY(bind_order(b, field, rule, layer, t));
    else
        TRY(bind_vector(b, field, rule, layer, t));
    /* Predictors are not counted: they are not parameters of the trained model. */
    if (!(rule->flags & (TENSOR_CONSTANT | TENSOR_INTEGERS | TENSOR_PREDICTOR)))
        b->model->parameter_count += t->shape[0] * stored_tensor_rows(t);
    b->model->weight_bytes += t->size_bytes;
    return HEARTH_OK;
}

/* Returns whether a tensor is of a block behind the layers that guesses tokens ahead. */
static bool is_of_draft(const binder *b, const char *name)
{
    const hyperparameters *h = &b->model->hyper;
    uint32_t block;
    return sscanf(name, "blk.%" SCNu32 ".", &block) == 1 && block >= h->layer_count &&
           block - h->layer_count < h->draft_layers;
}

/* Refuses tensors without a rule: they would change what the model computes, so they must not be ignored. */
static hearth_status check_extras(const binder *b)
{
    const family *f = b->model->family;
    for (size_t i = 0; i < b->source->tensor_count; i++) {
        const char *name = b->source->tensors[i].name;
        uint32_t layer, expert, layers = b->model->hyper.layer_count;
        if (is_of_draft(b, name))
            continue;
        const tensor_rule *rule = family_find_rule(f, name, false, &layer, &expert);
        if (!rule)
            return fail(b->error, HEARTH_FORMAT, "%s: tensor %.128s: is not part of a %s model", b->source->path, name,
                        f->name);
        if (layer >= layers)
            return fail(b->error, HEARTH_FORMAT, "%s: tensor %s: is not part of a model of %u layers", b->source->path,
                        name, layers);
    }
    return HEARTH_OK;
}

/* Rows that a file has joined in one matrix, by keys: of each key it has `length` rows, of which `count` from `first` on are
 * meant. */
typedef struct rows_of_keys {
    uint32_t keys, length, first, count;
} rows_of_keys;

/* Copies such rows into the model's memory, behind `done` rows of a matrix that has all its fields but the rows. */
static void copy_rows(const matrix *from, rows_of_keys r, const matrix *to, size_t done)
{
    char *rows = (char *)to->data + done * to->row_bytes;
    for (size_t k = 0; k < r.keys; k++)
        memcpy(rows + k * r.count * to->row_bytes, (const char *)from->data + (k * r.length + r.first) * to->row_bytes,
               r.count * to->row_bytes);
}

/* Makes a matrix of several such groups of rows, one group after the other. */
static hearth_status gather_rows(binder *b, const matrix *from, const rows_of_keys *groups, size_t count, matrix *out)
{
    *out = *from;
    out->rows = 0;
    for (size_t i = 0; i < count; i++)
        out->rows += groups[i].keys * groups[i].count;
    if (!b->copies)
        return HEARTH_OK;
    out->data = arena_new_array(&b->model->memory, out->rows, out->row_bytes);
    if (!out->data)
        return fail_memory(b->error, "rows", out->rows * out->row_bytes);
    for (size_t i = 0, done = 0; i < count; done += groups[i].keys * groups[i].count, i++)
        copy_rows(from, groups[i], out, done);
    return HEARTH_OK;
}

/* Sets the matrices of a gated delta rule that a file has joined by keys. */
static hearth_status divide_keys(binder *b, model_layer *l)
{
    const recurrent_shape *r = &l->recurrent;
    if (l->beta_step.data) {
        uint32_t heads = r->head_count / r->key_count;
        TRY(gather_rows(b, &l->beta_step, &(rows_of_keys){r->key_count, 2 * heads, 0, heads}, 1, &l->beta));
        TRY(gather_rows(b, &l->beta_step, &(rows_of_keys){r->key_count, 2 * heads, heads, heads}, 1, &l->step));
    }
    if (l->delta_in.data) {
        uint32_t n = r->key_length, values = recurrent_width(r) / r->key_count, all = 2 * n + 2 * values;
        const rows_of_keys convolved[] = {
            {r->key_count, all, 0, n}, {r->key_count, all, n, n}, {r->key_count, all, 2 * n, values}};
        TRY(gather_rows(b, &l->delta_in, convolved, 3, &l->convolved));
        TRY(gather_rows(b, &l->delta_in, &(rows_of_keys){r->key_count, all, 2 * n + values, values}, 1,
                        &l->recurrent_gate));
    }
    return HEARTH_OK;
}

/* Makes one convolution of those of queries, keys and values. */
static hearth_status join_convolutions(binder *b, model_layer *l)
{
    const float *const each[] = {l->query_convolution, l->key_convolution, l->value_convolution};
    size_t count = (size_t)recurrent_width(&l->recurrent) * l->recurrent.window;
    if (l->mixer != MIXER_RECURRENT || l->recurrent.rule != RECURRENCE_KDA)
        return HEARTH_OK;
    float *all = arena_new_array(&b->model->memory, 3 * count, sizeof *all);
    if (!all)
        return fail_memory(b->error, "convolution", 3 * count * sizeof *all);
    for (size_t i = 0; i < 3; i++)
        memcpy(all + i * count, each[i], count * sizeof *all);
    l->convolution = all;
    return HEARTH_OK;
}

/* Makes key_up of the rows of each head that made its keys: turned around, in float16 where they are blocks, whose rows would begin
 * elsewhere. */
static hearth_status turn_keys(binder *b, model_layer *l)
{
    const attention_shape *a = &l->attention;
    const matrix *both = &l->key_value_up;
    size_t n = a->unrotated, c = a->compressed, length = n + a->value_length;
    number_format format = number_is_block(both->format) ? FORMAT_F16 : both->format;
    l->key_up = (matrix){both->data, format, a->head_count * a->compressed, a->unrotated, 0};
    if (!number_row_bytes(format, n, &l->key_up.row_bytes) || !b->copies)
        return HEARTH_OK;
    char *to = arena_new_array(&b->model->memory, l->key_up.rows, l->key_up.row_bytes);
    float *row = mem_new_array(c + n * c, sizeof *row);
    if (!to || !row) {
        mem_free(row);
        return fail_memory(b->error, "keys", l->key_up.rows * l->key_up.row_bytes);
    }
    float *turned = row + c;
    l->key_up.data = to;
    for (size_t h = 0; h < a->head_count; h++) {
        for (size_t i = 0; i < n; i++) {
            number_formats[both->format].decode(matrix_row(both, h * length + i), row, c);
            for (size_t k = 0; k < c; k++)
                turned[k * n + i] = row[k];
        }
        for (size_t k = 0; k < c; k++, to += l->key_up.row_bytes)
            number_formats[format].encode(turned + k * n, NULL, to, n);
    }
    mem_free(row);
    return HEARTH_OK;
}

/* Sets the matrices of latent attention's heads where a file has them in one. */
static hearth_status divide_heads(binder *b, model_layer *l, uint32_t layer)
{
    const attention_shape *a = &l->attention;
    if (a->compressed == 0 || (l->key_up.data && l->value_up.data))
        return HEARTH_OK;
    if (!l->key_value_up.data)
        return fail(b->error, HEARTH_FORMAT, "%s: layer %u: tensor attn_kv_b.weight, or attn_%s_b.weight: is missing",
                    b->source->path, layer, l->key_up.data ? "v" : "k");
    const rows_of_keys values = {a->head_count, a->unrotated + a->value_length, a->unrotated, a->value_length};
    TRY(gather_rows(b, &l->key_value_up, &values, 1, &l->value_up));
    return turn_keys(b, l);
}

/* Where queries and keys are normed after the rotation, multiplies the weights of both: a query's are then those of its products with
 * keys. */
static hearth_status join_turned_norms(binder *b, model_layer *l)
{
    uint32_t n = l->attention.head_length;
    if (l->mixer != MIXER_ATTENTION || !l->attention.norm_turned)
        return HEARTH_OK;
    float *products = arena_new_array(&b->model->memory, n, sizeof *products);
    if (!products)
        return fail_memory(b->error, "norms", n * sizeof *products);
    for (uint32_t i = 0; i < n; i++)
        products[i] = l->query_norm.weight[i] * l->key_norm.weight[i];
    l->query_norm.weight = products;
    l->key_norm.weight = NULL;
    return HEARTH_OK;
}

/* Refuses a layer without the first matrices of its neurons, which a file may have in several forms. */
static hearth_status check_neurons(const binder *b, const model_layer *l, uint32_t layer)
{
    bool gated = l->ffn.gating != FFN_PLAIN;
    if (l->ffn.neuron_count == 0 || (l->up.data && (l->gate.data || !gated)))
        return HEARTH_OK;
    const char *kind = l->ffn.router.expert_count > 0 ? "_exps" : "";
    return fail(b->error, HEARTH_FORMAT, "%s: tensor blk.%u.ffn_%s%s.weight: is missing", b->source->path, layer,
                l->up.data ? "gate" : "up", kind);
}

/* Refuses a layer with attention without its matrices, which a file may have in one or apart. */
static hearth_status check_attention(const binder *b, const model_layer *l, uint32_t layer)
{
    const attention_shape *a = &l->attention;
    bool own = a->keys_back == 0, values = b->model->family->short_values; /* of others keys may be values */
    const char *missing = !l->q.data ? "q" : own && !l->k.data ? "k" : own && values && !l->v.data ? "v" : NULL;
    if (l->mixer != MIXER_ATTENTION || !missing)
        return HEARTH_OK;
    return fail(b->error, HEARTH_FORMAT, "%s: layer %u: tensor attn_%s.weight or attn_qkv.weight: is missing",
                b->source->path, layer, missing);
}

/* Refuses a recurrent layer without the matrices that a file may have in several forms. */
static hearth_status check_recurrent(const binder *b, const model_layer *l, uint32_t layer)
{
    bool has_both = l->convolved.data && l->recurrent_gate.data;
    if (l->mixer != MIXER_RECURRENT || recurrent_by_columns(&l->recurrent) || has_both)
        return HEARTH_OK;
    return fail(b->error, HEARTH_FORMAT, "%s: layer %u: tensor attn_qkv.weight or attn_gate.weight: is missing",
                b->source->path, layer);
}

/* Sets the matrices and vectors that a file has joined in one. */
static void divide_joined(model_layer *l)
{
    uint32_t query = query_width(&l->attention), key = key_width(&l->attention), f = ffn_routed(&l->ffn);
    uint32_t value = value_width(&l->attention);
    l->expert_stride = l->ffn.expert_neurons;
    if (l->qkv.data) {
        l->q = matrix_rows(&l->qkv, 0, query);
        l->k = matrix_rows(&l->qkv, query, key);
        l->v = matrix_rows(&l->qkv, query + key, value);
    }
    if (l->qkv_bias) {
        l->q_bias = l->qkv_bias;
        l->k_bias = l->qkv_bias + query;
        l->v_bias = l->qkv_bias + query + key;
    }
    if (l->gate_up.data) {
        bool experts = l->ffn.router.expert_count > 0;
        l->gate = matrix_rows(&l->gate_up, 0, f);
        l->up = matrix_rows(&l->gate_up, experts ? l->ffn.expert_neurons : f, f);
        l->expert_stride *= experts ? 2 : 1;
    }
    if (l->recurrent_in.data) {
        uint32_t width = recurrent_width(&l->recurrent), channels = recurrent_channels(&l->recurrent);
        l->recurrent_gate = matrix_rows(&l->recurrent_in, 0, width);
        l->convolved = matrix_rows(&l->recurrent_in, width, channels);
        l->step = matrix_rows(&l->recurrent_in, width + channels, l->recurrent.head_count);
    }
    if (l->short_in.data) {
        uint32_t width = recurrent_width(&l->recurrent);
        l->input_gate = matrix_rows(&l->short_in, 0, width);
        l->recurrent_gate = matrix_rows(&l->short_in, width, width);
        l->convolved = matrix_rows(&l->short_in, 2 * width, width);
    }
    /* A layer that is one block has one norm. */
    if (l->mixer == MIXER_NONE && l->attention_norm.weight)
        l->ffn_norm = l->attention_norm;
    /* Blocks side by side share the norm of the one that has it. */
    if (l->wiring == WIRING_PARALLEL && !l->attention_norm.weight)
        l->attention_norm = l->ffn_norm;
}

/* Refuses tensors of types that hearth has no format for, but for those that take no part in the model. */
static hearth_status refuse_foreign(const binder *b)
{
    for (size_t i = 0; i < b->source->tensor_count; i++) {
        const stored_tensor *t = &b->source->tensors[i];
        uint32_t layer, expert;
        if (!t->foreign || is_of_draft(b, t->name))
            continue;
        const tensor_rule *rule = family_find_rule(b->model->family, t->name, false, &layer, &expert);
        if (!rule || !(rule->flags & TENSOR_IGNORED))
            return fail(b->error, HEARTH_UNSUPPORTED, "%s: tensor %.128s: is of type %s, which is not supported",
                        b->source->path, t->name, t->foreign);
    }
    return HEARTH_OK;
}

hearth_status bind_tensors(binder *b)
{
    hearth_model *m = b->model;
    const family *f = m->family;
    TRY(refuse_foreign(b));
    if (!b->folder)
        TRY(factors_apply(m->source, f, m->hyper.layer_count, b->error));
    if (!b->folder)
        TRY(experts_stack(m->source, f, model_largest(m).experts, b->error));
    m->powerinfer = b->source->powerinfer;
    m->neuron_major = m->powerinfer || first_layer_has(b, TENSOR_NEURON_MAJOR);
    m->predictors = m->powerinfer || first_layer_has(b, TENSOR_PREDICTOR);
    for (size_t i = 0; i < b->source->tensor_count; i++)
        if (stored_tensor_reordered(&b->source->tensors[i]))
            b->bytes_total += b->source->tensors[i].size_bytes;
    for (size_t i = 0; i < f->tensor_count; i++)
        TRY(bind_tensor(b, m, &f->tensors[i], 0));
    for (uint32_t layer = 0; layer < m->hyper.layer_count; layer++) {
        b->rank = 0;
        for (size_t i = 0; i < f->layer_tensor_count; i++)
            TRY(bind_tensor(b, &m->layers[layer], &f->layer_tensors[i], layer));
        divide_joined(&m->layers[layer]);
        TRY(divide_keys(b, &m->layers[layer]));
        TRY(divide_heads(b, &m->layers[layer], layer));
        TRY(join_convolutions(b, &m->layers[layer]));
        TRY(join_turned_norms(b, &m->layers[layer]));
        TRY(check_attention(b, &m->layers[layer], layer));
        TRY(check_recurrent(b, &m->layers[layer], layer));
        TRY(check_neurons(b, &m->layers[layer], layer));
        if (!m->layers[layer].mask_in.data != !m->layers[layer].mask_out.data)
            return fail(b->error, HEARTH_FORMAT,
                        "%s: layer %u: has one of the two matrices that decide which neurons take "
                        "part",
                        b->source->path, layer);
    }
    if (!m->head.data)
        m->head = m->embedding;
    return check_extras(b);
}
