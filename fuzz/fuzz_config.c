/* fuzz_config.c - any bytes as the config.json of a folder that holds the tensors of a tiny llama, or as the
 * keys of a GGUF that does.
 *
 * Covers: src/model/bind_tensor.c
 * Covers: src/model/huggingface.c
 * Covers: src/model/hyper.c
 * Covers: src/model/rope.c
 *
 * The bytes are JSON. An object with a member "general.architecture" stands for a GGUF: every member is a key, but
 * for "PWRI" (whether that is its magic), "tensors" (which sets of the table below there are) and "order"
 * (blk.N.ffn_order). A config that is accepted must fit these tensors, so what a hostile one can ask for is bounded;
 * every weight of the model that comes out is read once. */
#include "touch.h"

#include "../src/base/json.h"
#include "../src/model/huggingface.h"
#include "../src/model/model.h"

#include <math.h>
#include <stdio.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

/* d 8, f 12, 2 heads of 4, 1 key/value head, 6 tokens, 2 layers. */
static const struct {
    char set; /* a: always, s: stock layout, n: neuron-major, p: predictors of rank 4, b: biases */
    const char *folder, *gguf;
    uint32_t rank;
    uint64_t columns, rows;
} tensors[] = {
    {'a', "model.embed_tokens.weight", "token_embd.weight", 2, 8, 6},
    {'a', "model.norm.weight", "output_norm.weight", 1, 8, 1},
    {'a', "lm_head.weight", "output.weight", 2, 8, 6},
    {'a', "model.layers.%d.input_layernorm.weight", "blk.%d.attn_norm.weight", 1, 8, 1},
    {'a', "model.layers.%d.self_attn.q_proj.weight", "blk.%d.attn_q.weight", 2, 8, 8},
    {'a', "model.layers.%d.self_attn.k_proj.weight", "blk.%d.attn_k.weight", 2, 8, 4},
    {'a', "model.layers.%d.self_attn.v_proj.weight", "blk.%d.attn_v.weight", 2, 8, 4},
    {'a', "model.layers.%d.self_attn.o_proj.weight", "blk.%d.attn_output.weight", 2, 8, 8},
    {'a', "model.layers.%d.post_attention_layernorm.weight", "blk.%d.ffn_norm.weight", 1, 8, 1},
    {'a', "model.layers.%d.mlp.gate_proj.weight", "blk.%d.ffn_gate.weight", 2, 8, 12},
    {'a', "model.layers.%d.mlp.up_proj.weight", "blk.%d.ffn_up.weight", 2, 8, 12},
    {'s', "model.layers.%d.mlp.down_proj.weight", "blk.%d.ffn_down.weight", 2, 12, 8},
    {'a', "model.layers.%d.self_attn.rotary_emb.inv_freq", "blk.%d.attn_rot_embd.weight", 1, 2, 1},
    {'n', "", "blk.%d.ffn_down_t.weight", 2, 8, 12},
    {'p', "", "blk.%d.fc1.weight", 2, 8, 4},
    {'p', "", "blk.%d.fc2.weight", 2, 4, 12},
    {'b', "model.layers.%d.mlp.gate_proj.bias", "blk.%d.ffn_gate.bias", 1, 12, 1},
    {'b', "model.layers.%d.mlp.up_proj.bias", "blk.%d.ffn_up.bias", 1, 12, 1},
    {'b', "model.layers.%d.mlp.down_proj.bias", "blk.%d.ffn_down.bias", 1, 8, 1},
};

static const uint16_t values[8 * 12];

/* sets: the letters of those that there are. */
static hearth_status add_tensors(checkpoint *c, bool folder, const char *sets)
{
    for (size_t i = 0; i < sizeof(tensors) / sizeof(*tensors); i++)
        for (int layer = 0; layer < (strchr(tensors[i].gguf, '%') ? 2 : 1); layer++) {
            char name[96];
            if (!strchr(sets, tensors[i].set))
                continue;
            snprintf(name, sizeof(name), folder ? tensors[i].folder : tensors[i].gguf, layer);
            stored_tensor t = {.name = name,
                               .format = FORMAT_BF16,
                               .rank = tensors[i].rank,
                               .shape = {tensors[i].columns, tensors[i].rows, 1, 1},
                               .data = values,
                               .size_bytes = tensors[i].columns * tensors[i].rows * sizeof(*values)};
            TRY(checkpoint_add_tensor(c, &t, NULL));
        }
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
    touch_norm(&m->output_norm, h->embedding_length);
    for (uint32_t i = 0; i < h->layer_count; i++) {
        const model_layer *l = &m->layers[i];
        const matrix *all[] = {&l->q,      &l->k,   &l->v,  &l->attention_output, &l->gate, &l->up, &l->down,
                               &l->down_t, &l->fc1, &l->fc2};
        for (size_t k = 0; k < sizeof(all) / sizeof(*all); k++)
            touch_matrix(all[k]);
        uint32_t d = h->embedding_length, f = l->ffn.neuron_count;
        uint32_t query = query_width(&l->attention), key = key_width(&l->attention);
        const norm_weights *const norms[] = {&l->attention_norm, &l->attention_post_norm, &l->ffn_norm,
                                             &l->ffn_post_norm};
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
                       {l->down_bias, d},
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
        if (!l->down.data == !l->down_t.data || !l->fc1.data != !l->fc2.data || l->fc1.rows != l->fc2.columns)
            abort();
    }
    for (uint32_t r = 0; r < m->rotary_count; r++)
        for (uint32_t i = 0; i < m->rotaries[r].pairs; i++)
            if (!isfinite(m->rotaries[r].frequencies[i]) || !isfinite(m->rotaries[r].magnitude))
                abort();
    if (!(h->norm_epsilon > 0))
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
    value_type type = json_is_real(json_array_get(value, 0)) ? VALUE_F32 : VALUE_U32;
    return checkpoint_set_numbers(c, key, type, items, count, NULL);
}

static hearth_status set_keys(checkpoint *c, json_t *keys)
{
    const char *key;
    json_t *value;
    c->powerinfer = json_is_true(json_object_get(keys, "PWRI"));
    const char *sets = json_string_value(json_object_get(keys, "tensors"));
    TRY(add_tensors(c, false, sets ? sets : "as"));
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

static hearth_status open_model(hearth_model **out, const uint8_t *data, size_t size, hearth_error *error)
{
    json_t *config;
    checkpoint *stored = NULL, *c = NULL;
    TRY(json_parse(&config, (const char *)data, size, "config.json", error));
    hearth_status status;
    TRY_OR(done, status, checkpoint_create(&stored, "fuzz", error));
    TRY_OR(done, status, checkpoint_create(&c, "fuzz", error));
    if (json_object_get(config, "general.architecture"))
        status = set_keys(c, config);
    else if ((status = add_tensors(stored, true, json_is_true(json_object_get(config, "mlp_bias")) ? "asb" : "as")) ==
             HEARTH_OK)
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
