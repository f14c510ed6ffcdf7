/* huggingface_layers.c - what differs between the layers of a folder's model: sizes of heads, shared keys and values, widths
 * of networks, inputs of the layers' own; and the streams of the residual. */
#include "folder_reader.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

hearth_status folder_set_sizes(folder_reader *r, const char *name, const uint32_t *sizes)
{
    uint32_t layers = r->hyper.layer_count, same = 1;
    while (same < layers && sizes[same] == sizes[0])
        same++;
    char key[KEY_SIZE];
    hyper_key(key, r->family, name);
    if (same == layers)
        return checkpoint_set_u32(r->out, key, sizes[0], r->error);
    return checkpoint_set_numbers(r->out, key, VALUE_U32, sizes, layers, r->error);
}

hearth_status folder_read_size_list(folder_reader *r, const size_setting *s, const char *key, const json_t *list)
{
    uint32_t layers = r->hyper.layer_count;
    if (json_array_size(list) != layers)
        return fail(r->error, HEARTH_FORMAT, "%s: %s: is not an array of one number per layer", r->name, key);
    uint32_t *sizes = mem_new_array(layers, sizeof *sizes);
    if (!sizes)
        return fail_memory(r->error, key, layers * sizeof *sizes);
    hearth_status status = HEARTH_OK;
    for (uint32_t i = 0; i < layers && status == HEARTH_OK; i++) {
        json_int_t value = json_integer_value(json_array_get(list, i));
        sizes[i] = value > 0 && value <= UINT32_MAX ? (uint32_t)value : 0;
        status = hyper_check_size(s, sizes[i], r->name, "", key, r->error);
    }
    if (status == HEARTH_OK)
        status = folder_set_sizes(r, s->key, sizes);
    *size_field(s, &r->hyper, &r->layer) = sizes[0];
    mem_free(sizes);
    return status;
}

/* Reads how many heads each layer has, where a config says so for each. Where a folder's rows are in another order than GGUF's
 * that order depends on the heads, which must be the same in all layers then. */
static hearth_status read_layer_heads(folder_reader *r)
{
    static const char key[] = "num_attention_heads_per_layer";
    const json_t *list = json_object_get(r->config, key);
    const size_setting *s = size_settings;
    if (!list || json_is_null(list))
        return HEARTH_OK;
    if (r->family->pairing != ROPE_HALVES)
        return fail(r->error, HEARTH_UNSUPPORTED, "%s: %s: is not supported of a %s", r->name, key,
                    r->family->model_type);
    while (strcmp(s->key, "attention.head_count") != 0)
        s++;
    return folder_read_size_list(r, s, key, list);
}

bool folder_sees_all(const folder_reader *r, uint32_t layer)
{
    const char *type = json_string_value(json_array_get(json_object_get(r->config, "layer_types"), layer));
    if (type)
        return strcmp(type, "full_attention") == 0;
    return r->family->windows_listed || in_pattern(r->family->without_window, layer);
}

bool folder_all_see_all(const folder_reader *r)
{
    for (uint32_t i = 0; i < r->hyper.layer_count; i++)
        if (!folder_sees_all(r, i))
            return false;
    return true;
}

/* Adds one vector of n values. */
static hearth_status add_constant(folder_reader *r, const char *name, const float *values, uint32_t n)
{
    const stored_tensor t = {.name = name,
                             .format = FORMAT_F32,
                             .rank = 1,
                             .shape = {n, 1, 1, 1},
                             .data = values,
                             .size_bytes = n * sizeof *values};
    return checkpoint_add_tensor(r->out, &t, r->error);
}

/* The same for a layer; pattern: the name, with %u for the layer. */
static hearth_status add_constant_of(folder_reader *r, const char *pattern, uint32_t layer, const float *values,
                                     uint32_t n)
{
    char name[TENSOR_NAME_SIZE];
    snprintf(name, sizeof name, pattern, layer);
    return add_constant(r, name, values, n);
}

/* A family may norm queries and keys without weights, and multiply the queries with a number. GGUF has weights for that: the
 * number for queries, 1 for keys. */
static hearth_status add_query_gain(folder_reader *r)
{
    double gain = (double)r->family->query_gain;
    uint32_t n = r->layer.attention.head_length;
    bool found;
    if (gain == 0)
        return HEARTH_OK;
    TRY(folder_get_positive(r, r->config, r->name, "qk_scale_factor", &gain, &found));
    float *weights = arena_new_array(&r->out->memory, (size_t)2 * n, sizeof *weights);
    if (!weights)
        return fail_memory(r->error, "norms", 2 * n * sizeof *weights);
    for (uint32_t i = 0; i < n; i++) {
        weights[i] = (float)gain;
        weights[n + i] = 1;
    }
    for (uint32_t layer = 0; layer < r->hyper.layer_count; layer++) {
        TRY(add_constant_of(r, "blk.%u.attn_q_norm.weight", layer, weights, n));
        TRY(add_constant_of(r, "blk.%u.attn_k_norm.weight", layer, weights + n, n));
    }
    return HEARTH_OK;
}

/* A family may have norms without weights, for which GGUF has ones. */
static hearth_status add_plain_norms(folder_reader *r)
{
    uint32_t n = r->hyper.embedding_length;
    if (!r->family->plain_norms)
        return HEARTH_OK;
    float *ones = arena_new_array(&r->out->memory, n, sizeof *ones);
    if (!ones)
        return fail_memory(r->error, "norms", n * sizeof *ones);
    for (uint32_t i = 0; i < n; i++)
        ones[i] = 1;
    TRY(add_constant(r, "output_norm.weight", ones, n));
    for (uint32_t layer = 0; layer < r->hyper.layer_count; layer++) {
        TRY(add_constant_of(r, "blk.%u.attn_norm.weight", layer, ones, n));
        TRY(add_constant_of(r, "blk.%u.ffn_norm.weight", layer, ones, n));
    }
    return HEARTH_OK;
}

/* Reads a size of the layers that see all positions: under a name of its own, or from per_layer_config, where transformers writes
 * under a layer's number what differs there. *size is that of the other layers, and stays where neither says anything. */
static hearth_status get_global(const folder_reader *r, const char *name, const char *layer_name, uint32_t *size,
                                bool *found)
{
    const json_t *list = json_object_get(r->config, "per_layer_config");
    const uint32_t usual = *size;
    bool first = true;
    TRY(json_get_uint(r->config, name, size, found, r->name, r->error));
    for (uint32_t i = 0; !*found && json_is_object(list) && i < r->hyper.layer_count; i++) {
        char number[16];
        snprintf(number, sizeof number, "%u", i);
        const json_t *layer = json_object_get(list, number);
        bool global = folder_sees_all(r, i), said;
        uint32_t own = usual, expected = global ? *size : usual;
        TRY(layer ? json_get_uint(layer, layer_name, &own, &said, r->name, r->error) : HEARTH_OK);
        if (own != expected && !(global && first))
            return fail(r->error, HEARTH_UNSUPPORTED, "%s: per_layer_config: layer %u: %s: is %u, expected %u", r->name,
                        i, layer_name, own, expected);
        *size = global ? own : *size;
        first &= !global;
    }
    *found |= *size != usual;
    return HEARTH_OK;
}

hearth_status folder_read_global_heads(folder_reader *r)
{
    uint32_t own = r->layer.attention.head_length, global = own;
    bool found;
    TRY(get_global(r, "global_head_dim", "head_dim", &global, &found));
    if (!found)
        return HEARTH_OK;
    if (global == 0 || global > HEAD_LIMIT || global % 2 != 0 || own % 2 != 0)
        return fail(r->error, HEARTH_FORMAT, "%s: global_head_dim: is %u, expected an even number up to %u", r->name,
                    global, HEAD_LIMIT);
    const struct {
        const char *key;
        uint32_t value;
    } sizes[] = {{"attention.key_length", global},
                 {"attention.value_length", global},
                 {"attention.key_length_swa", own},
                 {"attention.value_length_swa", own},
                 {"rope.dimension_count_swa", own}};
    for (size_t i = 0; i < sizeof sizes / sizeof *sizes; i++)
        TRY(folder_set_size(r, sizes[i].key, sizes[i].value));
    r->layer.attention.head_length = global;
    return HEARTH_OK;
}

/* Reads the heads of keys of layers that see all positions and take the keys as values. */
static hearth_status read_global_keys(folder_reader *r)
{
    uint32_t layers = r->hyper.layer_count, global = r->layer.attention.kv_head_count;
    bool found, alone = false;
    TRY(json_get_bool(r->config, "attention_k_eq_v", &alone, &found, r->name, r->error));
    if (!alone)
        return HEARTH_OK;
    TRY(get_global(r, "num_global_key_value_heads", "num_key_value_heads", &global, &found));
    uint32_t *heads = mem_new_array(layers, sizeof *heads);
    if (!heads)
        return fail_memory(r->error, "layers", layers * sizeof *heads);
    for (uint32_t i = 0; i < layers; i++)
        heads[i] = folder_sees_all(r, i) ? global : r->layer.attention.kv_head_count;
    hearth_status status = folder_set_sizes(r, "attention.head_count_kv", heads);
    mem_free(heads);
    return status;
}

/* Reads how many layers read the keys and values of others; their networks may have twice the neurons. */
static hearth_status read_shared_layers(folder_reader *r)
{
    uint32_t layers = r->hyper.layer_count, shared = 0;
    bool found, wide = false;
    TRY(json_get_uint(r->config, "num_kv_shared_layers", &shared, NULL, r->name, r->error));
    TRY(json_get_bool(r->config, "use_double_wide_mlp", &wide, &found, r->name, r->error));
    TRY(folder_set_size(r, "attention.shared_kv_layers", shared));
    if (!wide || shared == 0)
        return HEARTH_OK;
    uint32_t *widths = mem_new_array(layers, sizeof *widths);
    if (!widths)
        return fail_memory(r->error, "layers", layers * sizeof *widths);
    for (uint32_t i = 0; i < layers; i++)
        widths[i] = r->layer.ffn.neuron_count * (i + (uint64_t)shared >= layers ? 2 : 1);
    hearth_status status = folder_set_sizes(r, "feed_forward_length", widths);
    mem_free(widths);
    return status;
}

/* Returns the value that a share p of a standard normal distribution is below, by bisection. */
static double normal_quantile(double p)
{
    double low = -40, high = 40;
    for (int i = 0; i < 100; i++) {
        double middle = (low + high) / 2;
        if (0.5 * erfc(-middle / sqrt(2)) < p)
            low = middle;
        else
            high = middle;
    }
    return low;
}

/* Reads which share of its neurons each layer leaves out, and sets how far above their mean the others are: as many
 * standard deviations as in a normal distribution. Without the setting it is that of transformers: 95 % in the first ten
 * layers of models with more. */
static hearth_status read_sparsity(folder_reader *r)
{
    static const char name[] = "activation_sparsity_pattern";
    uint32_t layers = r->hyper.layer_count;
    const json_t *given = json_object_get(r->config, name);
    bool all = json_is_number(given), some = json_is_array(given) && json_array_size(given) == layers;
    if (given && !json_is_null(given) && !all && !some)
        return fail(r->error, HEARTH_FORMAT, "%s: %s: is not a number, or one per layer", r->name, name);
    float *cuts = mem_new_array(layers, sizeof *cuts);
    if (!cuts)
        return fail_memory(r->error, name, layers * sizeof *cuts);
    hearth_status status = HEARTH_OK;
    for (uint32_t i = 0; i < layers; i++) {
        double share = layers > 10 && i < 10 ? 0.95 : 0;
        if (all || some)
            share = json_number_value(some ? json_array_get(given, i) : given);
        cuts[i] = share > 0 ? (float)normal_quantile(share) : -INFINITY;
        if (!(share >= 0 && share < 1))
            status = fail(r->error, HEARTH_FORMAT, "%s: %s: %g is not a share of 1", r->name, name, share);
    }
    char key[KEY_SIZE];
    hyper_key(key, r->family, ACTIVATION_CUTS);
    if (status == HEARTH_OK)
        status = checkpoint_set_numbers(r->out, key, VALUE_F32, cuts, layers, r->error);
    mem_free(cuts);
    return status;
}

/* Reads the streams that are connected by gates (gated_connection); defaults are transformers'. */
static hearth_status read_gates(folder_reader *r)
{
    hyperparameters *h = &r->hyper;
    bool found;
    h->connection_rank = 320;
    TRY(json_get_uint(r->config, "hc_count", &h->stream_count, &found, r->name, r->error));
    TRY(json_get_uint(r->config, "hc_lowrank", &h->connection_rank, &found, r->name, r->error));
    TRY(folder_set_size(r, "hyper_connection.count", h->stream_count));
    return folder_set_size(r, "hyper_connection.low_rank", h->connection_rank);
}

/* Reads the streams of the residual that blocks are connected with (stream_connection); defaults are transformers'. */
static hearth_status read_connections(folder_reader *r)
{
    hyperparameters *h = &r->hyper;
    double epsilon = 1e-6, magnitude = 2;
    bool found;
    h->stream_count = 4;
    if (r->family->gated_connections)
        return read_gates(r);
    TRY(json_get_uint(r->config, "hc_mult", &h->stream_count, &found, r->name, r->error));
    TRY(json_get_number(r->config, "hc_eps", &epsilon, &found, r->name, r->error));
    TRY(folder_set_size(r, "hyper_connection.count", h->stream_count));
    TRY(folder_set_number(r, "hyper_connection.epsilon", epsilon));
    if (r->family->unmixed_streams) {
        h->connection_magnitude = (float)magnitude; /* there are connections, whatever it is */
        TRY(json_get_number(r->config, "hc_magnitude", &magnitude, &found, r->name, r->error));
        return folder_set_number(r, "hyper_connection.magnitude", magnitude);
    }
    h->connection_steps = 20;
    TRY(json_get_uint(r->config, "hc_sinkhorn_iters", &h->connection_steps, &found, r->name, r->error));
    return folder_set_size(r, "hyper_connection.sinkhorn_iterations", h->connection_steps);
}

/* Reads the streams of the residual. */
static hearth_status read_streams(folder_reader *r)
{
    hyperparameters *h = &r->hyper;
    bool found;
    h->stream_count = 1;
    if (r->family->wiring == WIRING_CONNECTED)
        return read_connections(r);
    if (r->family->wiring != WIRING_STREAMS)
        return HEARTH_OK;
    TRY(json_get_uint(r->config, "altup_num_inputs", &h->stream_count, NULL, r->name, r->error));
    TRY(json_get_uint(r->config, "altup_active_idx", &h->active_stream, &found, r->name, r->error));
    TRY(json_get_uint(r->config, "laurel_rank", &h->laurel_rank, &found, r->name, r->error));
    TRY(folder_set_size(r, "altup.num_inputs", h->stream_count));
    TRY(folder_set_size(r, "altup.active_idx", h->active_stream));
    return read_sparsity(r);
}

hearth_status folder_read_layers(folder_reader *r)
{
    hyperparameters *h = &r->hyper;
    bool found;
    TRY(read_streams(r));
    TRY(read_layer_heads(r));
    TRY(folder_read_step(r));
    TRY(folder_read_one_limit(r));
    TRY(folder_read_summaries(r));
    TRY(add_query_gain(r));
    TRY(add_plain_norms(r));
    if (!r->family->norm_values)
        return HEARTH_OK;
    TRY(read_global_keys(r));
    TRY(read_shared_layers(r));
    /* Gemma 4 12B has none; without them others' tensors for these inputs have no place. */
    TRY(json_get_uint(r->config, "hidden_size_per_layer_input", &h->per_layer_length, &found, r->name, r->error));
    return folder_set_size(r, "embedding_length_per_layer_input", h->per_layer_length);
}
