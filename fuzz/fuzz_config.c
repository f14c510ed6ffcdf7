/* fuzz_config.c - any bytes as the config.json of a folder that holds the tensors of a tiny model, or as the
 * keys of a GGUF that does.
 *
 * Covers: src/model/bind_tensor.c
 * Covers: src/model/experts.c
 * Covers: src/model/huggingface.c
 * Covers: src/model/huggingface_layers.c
 * Covers: src/model/huggingface_rope.c
 * Covers: src/model/huggingface_tensor.c
 * Covers: src/model/hyper.c
 * Covers: src/model/rope.c
 *
 * The bytes are JSON. An object with a member "general.architecture" stands for a GGUF: every member is a key, but
 * for "PWRI" (whether that is its magic), "tensors" (which there are, as is_there() reads it; also in a config) and
 * "order" (blk.N.ffn_order). The tensors are those of the family's rules. A config that is accepted must fit these tensors, so what a hostile one can ask for is bounded;
 * every weight of the model that comes out is read once. */
#include "touch.h"

#include "../src/base/json.h"
#include "../src/model/huggingface.h"
#include "../src/model/model.h"

#include <math.h>
#include <stdio.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

/* The tiny model, whatever the config says: 2 layers, d 8, f 12, 2 heads of 4, 1 key/value head, 6 tokens, 16 positions,
 * 4 experts of 3 neurons, a shared one of 3, predictors of rank 4. */
enum { LAYERS = 2, EXPERTS = 4 };
static const uint64_t sizes[DIMENSION_COUNT] = {
    [DIMENSION_NONE] = 1,           [DIMENSION_EMBEDDING] = 8,      [DIMENSION_NEURONS] = 12,
    [DIMENSION_GATE_UP] = 24,       [DIMENSION_QUERY] = 8,          [DIMENSION_KEY] = 4,
    [DIMENSION_QKV] = 16,           [DIMENSION_HEAD] = 4,           [DIMENSION_VOCABULARY] = 6,
    [DIMENSION_POSITIONS] = 16,     [DIMENSION_HEADS] = 2,          [DIMENSION_KV_HEADS] = 1,
    [DIMENSION_ROPE_PAIRS] = 2,     [DIMENSION_RANK] = 4,           [DIMENSION_EXPERTS] = EXPERTS,
    [DIMENSION_EXPERT_NEURONS] = 3, [DIMENSION_SHARED_NEURONS] = 3, [DIMENSION_EXPERT_GATE_UP] = 6,
    [DIMENSION_PER_LAYER] = 2,      [DIMENSION_PER_LAYERS] = 4,     [DIMENSION_PER_LAYER_VOCABULARY] = 6,
    [DIMENSION_STREAMS] = 2,        [DIMENSION_OTHER_STREAMS] = 1,  [DIMENSION_STREAM_PAIRS] = 4,
    [DIMENSION_LAUREL] = 3};

static const uint16_t values[EXPERTS * 24 * 8];

/* Returns the letter of the form of experts that has the tensor of a rule; 0: all forms, or it is not of experts. */
static char form_of(const tensor_rule *r)
{
    if (!(r->flags & TENSOR_EXPERTS))
        return 0;
    if (tensor_rule_is_single(r, false))
        return '1';
    return r->flags & TENSOR_ALIAS ? 'x' : tensor_rule_is_single(r, true) ? 'e' : 0;
}

/* Which tensors there are, as letters: s those of the stock layout, n neuron-major ones, p predictors, b biases of the
 * feed-forward network, o other optional ones, d no experts in layer 0; experts in one form or several: e as usual, x as
 * a folder of transformers 5 has them, 1 as early GGUF files do. */
static bool is_there(const family *f, const tensor_rule *r, const char *sets, uint32_t layer)
{
    const struct {
        unsigned flag;
        char letter;
    } needs[] = {{TENSOR_STOCK, 's'}, {TENSOR_NEURON_MAJOR, 'n'}, {TENSOR_PREDICTOR, 'p'}, {TENSOR_MLP_BIAS, 'b'}};
    bool has_experts = strpbrk(sets, "ex1") && !(layer == 0 && strchr(sets, 'd'));
    char form = form_of(r);
    if (r->flags & (!has_experts ? TENSOR_OF_EXPERTS : f->dense_beside ? 0 : TENSOR_OF_DENSE))
        return false;
    if (form ? !strchr(sets, form) : (r->flags & (TENSOR_ALIAS | TENSOR_INTEGERS | TENSOR_CONSTANT)) != 0)
        return false;
    for (size_t i = 0; i < sizeof(needs) / sizeof(*needs); i++)
        if ((r->flags & needs[i].flag) && !strchr(sets, needs[i].letter))
            return false;
    bool named = r->flags & (TENSOR_HEAD | TENSOR_MLP_BIAS);
    return !(r->flags & TENSOR_OPTIONAL) || named || strchr(sets, 'o');
}

/* Adds the tensor of a rule as it is stored in a folder or in a GGUF. */
static hearth_status add_tensor(checkpoint *c, const family *f, const tensor_rule *r, bool folder, uint32_t layer)
{
    bool single = tensor_rule_is_single(r, folder);
    bool stacked = ((r->flags & TENSOR_EXPERTS) || r->stack != DIMENSION_NONE) && !single;
    uint64_t matrices = r->stack != DIMENSION_NONE ? sizes[r->stack] : EXPERTS;
    uint64_t columns = sizes[r->columns], rows = sizes[r->rows];
    if (folder && (!r->folder_name || (r->flags & (TENSOR_ODD | TENSOR_SECOND_HALF))))
        return HEARTH_OK; /* one tensor holds both */
    if (folder && r->rows == DIMENSION_POSITIONS)
        rows += f->dropped_positions;
    if (folder && (r->flags & TENSOR_TRANSPOSED)) {
        columns = sizes[r->rows];
        rows = sizes[r->columns];
    }
    if (folder && (r->flags & TENSOR_EVEN))
        columns *= 2;
    if (folder && (r->flags & TENSOR_FIRST_HALF))
        rows *= 2;
    stored_tensor t = {
        .format = FORMAT_BF16, .rank = r->rows == DIMENSION_NONE ? 1 : 2, .shape = {columns, rows, 1, 1}};
    if (stacked)
        t.shape[t.rank++] = matrices;
    t.data = values;
    t.size_bytes = t.shape[0] * t.shape[1] * t.shape[2] * sizeof(*values);
    for (uint32_t number = 0; number < (single ? matrices : 1); number++) {
        char name[TENSOR_NAME_SIZE];
        snprintf(name, sizeof(name), folder ? r->folder_name : r->name, r->stack != DIMENSION_NONE ? number : layer,
                 number);
        t.name = name;
        if (!checkpoint_find_tensor(c, name)) /* two rules may have one name */
            TRY(checkpoint_add_tensor(c, &t, NULL));
    }
    return HEARTH_OK;
}

static hearth_status add_tensors(checkpoint *c, const family *f, bool folder, const char *sets)
{
    for (size_t i = 0; i < f->tensor_count; i++)
        if (is_there(f, &f->tensors[i], sets, 0))
            TRY(add_tensor(c, f, &f->tensors[i], folder, 0));
    for (uint32_t layer = 0; layer < LAYERS; layer++)
        for (size_t i = 0; i < f->layer_tensor_count; i++)
            if (is_there(f, &f->layer_tensors[i], sets, layer))
                TRY(add_tensor(c, f, &f->layer_tensors[i], folder, layer));
    return HEARTH_OK;
}

/* The same for both layers. */
static hearth_status add_order(checkpoint *c, const json_t *order)
{
    size_t count = json_array_size(order);
    if (count == 0)
        return HEARTH_OK;
    int32_t *numbers = arena_new_array(&c->memory, count, sizeof(*numbers));
    if (!numbers)
        return HEARTH_NO_MEMORY;
    for (size_t i = 0; i < count; i++)
        numbers[i] = (int32_t)json_integer_value(json_array_get(order, i));
    stored_tensor t = {.format = FORMAT_I32,
                       .rank = 1,
                       .shape = {count, 1, 1, 1},
                       .data = numbers,
                       .size_bytes = count * sizeof(*numbers)};
    for (int layer = 0; layer < 2; layer++) {
        t.name = layer ? "blk.1.ffn_order" : "blk.0.ffn_order";
        TRY(checkpoint_add_tensor(c, &t, NULL));
    }
    return HEARTH_OK;
}

static void touch_matrix(const matrix *m)
{
    touch_bytes(m->data, m->rows * m->row_bytes);
}

static void touch_norm(const norm_weights *n, uint32_t count)
{
    touch_bytes(n->weight, n->weight ? count * sizeof(float) : 0);
    touch_bytes(n->bias, n->bias ? count * sizeof(float) : 0);
}

static void touch_model(const hearth_model *m)
{
    const hyperparameters *h = &m->hyper;
    touch_matrix(&m->embedding);
    touch_matrix(&m->head);
    touch_matrix(&m->positions);
    touch_matrix(&m->per_layer_tokens);
    touch_matrix(&m->per_layer_projection);
    touch_norm(&m->per_layer_norm, h->per_layer_length);
    touch_matrix(&m->stream_in);
    touch_matrix(&m->stream_out);
    touch_norm(&m->output_norm, h->embedding_length);
    for (uint32_t i = 0; i < h->layer_count; i++) {
        const model_layer *l = &m->layers[i];
        const matrix *all[] = {&l->q,
                               &l->k,
                               &l->v,
                               &l->attention_output,
                               &l->gate,
                               &l->up,
                               &l->down,
                               &l->down_t,
                               &l->fc1,
                               &l->fc2,
                               &l->router,
                               &l->mask_in,
                               &l->mask_out,
                               &l->shared.gate,
                               &l->shared.up,
                               &l->shared.down,
                               &l->shared.down_t,
                               &l->gate_up,
                               &l->per_layer_gate,
                               &l->per_layer_output,
                               &l->streams.router,
                               &l->streams.laurel_in,
                               &l->streams.laurel_out};
        for (size_t k = 0; k < sizeof(all) / sizeof(*all); k++)
            touch_matrix(all[k]);
        uint32_t d = h->embedding_length, f = ffn_routed(&l->ffn), experts = l->ffn.router.expert_count;
        uint32_t query = query_width(&l->attention), key = key_width(&l->attention);
        const norm_weights *const norms[] = {&l->attention_norm,      &l->attention_post_norm, &l->ffn_norm,
                                             &l->ffn_post_norm,       &l->experts_norm,        &l->experts_post_norm,
                                             &l->router_norm,         &l->shared_post_norm,    &l->per_layer_post_norm,
                                             &l->streams.router_norm, &l->streams.laurel_norm};
        for (size_t k = 0; k < sizeof(norms) / sizeof(*norms); k++)
            touch_norm(norms[k], d);
        touch_norm(&l->query_norm, l->attention.norm_whole ? query : l->attention.head_length);
        touch_norm(&l->key_norm, l->attention.norm_whole ? key : l->attention.head_length);
        touch_norm(&l->attention_inner_norm, query);
        touch_norm(&l->ffn_inner_norm, f);
        const struct {
            const float *values;
            uint32_t count;
        } vectors[] = {{l->gate_bias, f},
                       {l->up_bias, f},
                       {l->down_bias, d * ffn_experts(&l->ffn)},
                       {l->router_bias, experts},
                       {l->router_correction, experts},
                       {l->expert_scales, experts},
                       {l->output_scale, 1},
                       {l->streams.predict, h->stream_count * h->stream_count * h->stream_count},
                       {l->streams.correct, h->stream_count * h->stream_count},
                       {l->streams.correct_scale, d},
                       {l->sinks, l->attention.head_count},
                       {l->q_bias, query},
                       {l->k_bias, key},
                       {l->v_bias, key},
                       {l->attention_output_bias, d}};
        for (size_t k = 0; k < sizeof(vectors) / sizeof(*vectors); k++)
            touch_bytes(vectors[k].values, vectors[k].values ? vectors[k].count * sizeof(float) : 0);
        for (uint32_t k = 0; l->order && k < f; k++)
            if (l->order[k] < 0 || (uint32_t)l->order[k] >= f)
                abort();
        if (l->attention.head_count % l->attention.kv_head_count != 0)
            abort();
        if (experts > 0 && (l->ffn.router.used == 0 || l->ffn.router.used > experts))
            abort();
        if (!l->down.data == !l->down_t.data || !l->fc1.data != !l->fc2.data || l->fc1.rows != l->fc2.columns)
            abort();
    }
    for (uint32_t r = 0; r < m->rotary_count; r++)
        for (uint32_t i = 0; i < m->rotaries[r].pairs; i++)
            if (!isfinite(m->rotaries[r].frequencies[i]) || !isfinite(m->rotaries[r].magnitude))
                abort();
    if (!(h->norm_epsilon >= 0))
        abort();
}

/* A value of JSON as the key of GGUF that is most like it. */
static hearth_status set_key(checkpoint *c, const char *key, const json_t *value)
{
    uint32_t items[4] = {0};
    size_t count = json_array_size(value) < 4 ? json_array_size(value) : 4;
    for (size_t i = 0; i < count; i++)
        items[i] = (uint32_t)json_integer_value(json_array_get(value, i));
    if (json_is_integer(value))
        return checkpoint_set_u32(c, key, (uint32_t)json_integer_value(value), NULL);
    if (json_is_real(value))
        return checkpoint_set_f32(c, key, (float)json_real_value(value), NULL);
    if (json_is_boolean(value))
        return checkpoint_set_bool(c, key, json_is_true(value), NULL);
    if (json_is_string(value))
        return checkpoint_set_string(c, key, span_of(json_string_value(value)), NULL);
    if (json_is_boolean(json_array_get(value, 0))) {
        uint8_t flags[4];
        for (size_t i = 0; i < count; i++)
            flags[i] = json_is_true(json_array_get(value, i));
        return checkpoint_set_numbers(c, key, VALUE_BOOL, flags, count, NULL);
    }
    value_type type = json_is_real(json_array_get(value, 0)) ? VALUE_F32 : VALUE_U32;
    return checkpoint_set_numbers(c, key, type, items, count, NULL);
}

static hearth_status set_keys(checkpoint *c, json_t *keys)
{
    const char *key;
    json_t *value;
    c->powerinfer = json_is_true(json_object_get(keys, "PWRI"));
    const char *sets = json_string_value(json_object_get(keys, "tensors"));
    const char *architecture = json_string_value(json_object_get(keys, "general.architecture"));
    const family *f = architecture ? family_by_name(span_of(architecture)) : NULL;
    TRY(add_tensors(c, f ? f : &families[0], false, sets ? sets : "s"));
    TRY(add_order(c, json_object_get(keys, "order")));
    static const char *const members[] = {"PWRI", "tensors", "order"};
    for (size_t i = 0; i < sizeof(members) / sizeof(*members); i++)
        json_object_del(keys, members[i]);
    json_object_foreach(keys, key, value)
    {
        TRY(set_key(c, key, value));
    }
    return HEARTH_OK;
}

/* Adds the tensors of the family that the config names; of a llama where it names none. */
static hearth_status add_folder(checkpoint *c, const json_t *config)
{
    const char *type = json_string_value(json_object_get(config, "model_type"));
    const char *sets = json_string_value(json_object_get(config, "tensors"));
    const family *f = &families[0];
    for (size_t i = 0; type && i < family_count; i++)
        if (strcmp(families[i].model_type, type) == 0)
            f = &families[i];
    if (!sets)
        sets = json_is_true(json_object_get(config, "mlp_bias")) ? "sb" : "s";
    return add_tensors(c, f, true, sets);
}

static hearth_status open_model(hearth_model **out, const uint8_t *data, size_t size, hearth_error *error)
{
    json_t *config;
    checkpoint *stored = NULL, *c = NULL;
    TRY(json_parse(&config, (const char *)data, size, "config.json", error));
    hearth_status status;
    TRY_OR(done, status, checkpoint_create(&stored, "fuzzed", error));
    TRY_OR(done, status, checkpoint_create(&c, "fuzzed", error));
    if (json_object_get(config, "general.architecture"))
        status = set_keys(c, config);
    else if ((status = add_folder(stored, config)) == HEARTH_OK)
        status = huggingface_understand(c, stored, config, "config.json", error);
    if (status != HEARTH_OK)
        goto done;
    touch_checkpoint(c);
    status = model_bind(out, c, NULL, error);
    c = NULL;
done:
    checkpoint_close(c);
    checkpoint_close(stored);
    json_decref(config);
    return status;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    hearth_model *m;
    hearth_error error = {0};
    long before = mem_live();
    hearth_status status = open_model(&m, data, size, &error);
    if (status == HEARTH_OK) {
        touch_model(m);
        hearth_model_close(m);
    }
    check_end(status, &error, before);
    return 0;
}
