/* hyper_mixer.c - which mixer each layer of a GGUF file has, and the shapes of the recurrent ones. */
#include "hyper_reader.h"

#include <math.h>

/* Most values of the state of a recurrent layer. */
#define STATE_LIMIT (1u << 28)

/* Finds out which mixer a layer has where files list them. */
static hearth_status find_listed_mixer(const hyper_reader *r, uint32_t layer)
{
    model_layer *l = &r->model->layers[layer];
    layer_pattern full = {.period = 4}; /* where no key says it, as in llama.cpp */
    bool recurrent = false, found;
    TRY(hyper_layer_bool(r, "attention.recurrent_layers", layer, &recurrent, &found));
    if (!found) {
        TRY(hyper_size(r, "full_attention_interval", &full.period, &found));
        if (full.period == 0)
            return hyper_fail(r, HEARTH_FORMAT, "full_attention_interval", "is 0");
        recurrent = !in_pattern(full, layer);
    }
    l->mixer = recurrent ? MIXER_RECURRENT : MIXER_ATTENTION;
    if (recurrent)
        l->attention = (attention_shape){0};
    return HEARTH_OK;
}

hearth_status hyper_find_mixer(const hyper_reader *r, uint32_t layer)
{
    model_layer *l = &r->model->layers[layer];
    if (r->family->mixers == MIXERS_ATTENTION)
        return HEARTH_OK;
    if (r->family->mixers == MIXERS_LISTED)
        return find_listed_mixer(r, layer);
    if (r->family->mixers == MIXERS_RECURRENT) {
        l->mixer = MIXER_RECURRENT;
        l->attention = (attention_shape){0};
        return HEARTH_OK;
    }
    bool attends = l->attention.kv_head_count > 0;
    if (r->family->mixers == MIXERS_PARTS && !attends && l->attention.head_count > 0)
        return hyper_fail(r, HEARTH_UNSUPPORTED, "attention.head_count_kv",
                          "is 0 in a layer with heads: one matrix in place of attention is not supported");
    if (r->family->mixers == MIXERS_BLOCKS && attends && l->ffn.neuron_count > 0)
        return hyper_fail(r, HEARTH_FORMAT, "feed_forward_length",
                          "gives neurons to a layer that has heads of keys, too");
    bool none = r->family->mixers == MIXERS_PARTS ||
                (r->family->mixers == MIXERS_BLOCKS && l->ffn.neuron_count > 0); /* where there is no attention */
    l->mixer = attends ? MIXER_ATTENTION : none ? MIXER_NONE : MIXER_RECURRENT;
    if (!attends)
        l->attention = (attention_shape){0};
    return HEARTH_OK;
}

/* The keys of a recurrent mixer, in GGUF. */
static const struct {
    const char *key;
    uint32_t limit;
} recurrent_keys[] = {{"ssm.time_step_rank", 1u << 14}, /* heads */
                      {"ssm.inner_size", 1u << 20},     /* values of all heads */
                      {"ssm.group_count", 1u << 14},    /* keys */
                      {"ssm.state_size", 1u << 12},     /* values of a key */
                      {"ssm.conv_kernel", CONVOLUTION_LIMIT}};

/* Reads the shape of a short convolution. */
static hearth_status read_short(const hyper_reader *r, recurrent_shape *to)
{
    static const char key[] = "shortconv.l_cache";
    *to = (recurrent_shape){
        .rule = RECURRENCE_SHORT, .head_count = 1, .value_length = r->hyper->embedding_length, .key_count = 1};
    TRY(hyper_size(r, key, &to->window, NULL));
    return to->window > 1 && to->window <= CONVOLUTION_LIMIT
               ? HEARTH_OK
               : hyper_fail(r, HEARTH_FORMAT, key, "is below 2 or too large");
}

/* Reads the shape of RWKV-7's mixer. */
static hearth_status read_rwkv(const hyper_reader *r, uint32_t layer, recurrent_shape *to)
{
    static const char *const ranks[LOW_RANK_MAPS] = {
        [MAP_DECAY] = "attention.decay_lora_rank",
        [MAP_RATE] = "attention.iclr_lora_rank",
        [MAP_VALUE] = "attention.value_residual_mix_lora_rank",
        [MAP_GATE] = "attention.gate_lora_rank",
    };
    static const char length_key[] = "wkv.head_size";
    uint32_t length = 0, shifts = 2, width = r->hyper->embedding_length;
    bool found;
    *to = (recurrent_shape){.rule = RECURRENCE_RWKV7, .window = 2};
    TRY(hyper_size(r, length_key, &length, NULL));
    if (length == 0 || width % length != 0 || (uint64_t)length * width > STATE_LIMIT || 2 * width > HYPER_WIDTH_LIMIT)
        return hyper_fail(r, HEARTH_FORMAT, length_key, "does not divide embedding_length, or makes too large a state");
    to->head_count = to->key_count = width / length;
    to->value_length = to->key_length = length;
    for (size_t i = 0; i < LOW_RANK_MAPS; i++) {
        TRY(hyper_size(r, ranks[i], &to->ranks[i], NULL));
        if (to->ranks[i] == 0 || to->ranks[i] > HYPER_WIDTH_LIMIT)
            return hyper_fail(r, HEARTH_FORMAT, ranks[i], "is 0 or too large");
    }
    if (layer == 0)
        to->ranks[MAP_VALUE] = 0;
    TRY(hyper_size(r, "token_shift_count", &shifts, &found));
    return shifts == 2 ? HEARTH_OK
                       : hyper_fail(r, HEARTH_UNSUPPORTED, "token_shift_count", "is not 2, which alone is supported");
}

/* Reads the floor of decays (recurrent_shape.decay_floor). */
static hearth_status read_floor(const hyper_reader *r, recurrent_shape *to)
{
    static const char floor_key[] = "kda.gate_lower_bound", safe_key[] = "kda.safe_gate";
    char key[KEY_SIZE];
    bool safe = true, found;
    hyper_key(key, r->family, safe_key);
    TRY(checkpoint_get_bool(r->source, key, &safe, &found, r->error));
    if (!safe)
        return hyper_fail(r, HEARTH_UNSUPPORTED, safe_key, "is false, which is not supported");
    hyper_key(key, r->family, floor_key);
    TRY(checkpoint_get_f32(r->source, key, &to->decay_floor, r->family->whole_maps ? NULL : &found, r->error));
    if (!r->family->whole_maps && !found)
        return HEARTH_OK;
    return to->decay_floor < 0 && isfinite(to->decay_floor)
               ? HEARTH_OK
               : hyper_fail(r, HEARTH_FORMAT, floor_key, "is not a number below 0");
}

/* Reads the shape of Kimi Delta Attention. */
static hearth_status read_kda(const hyper_reader *r, uint32_t layer, recurrent_shape *to)
{
    static const char length_key[] = "kda.head_dim", window_key[] = "ssm.conv_kernel";
    uint32_t length = 0, heads = 0;
    *to = (recurrent_shape){.rule = RECURRENCE_KDA};
    TRY(hyper_size(r, length_key, &length, NULL));
    TRY(hyper_layer_size(r, "attention.head_count", layer, &heads, NULL));
    TRY(hyper_size(r, window_key, &to->window, NULL));
    if (to->window < 2 || to->window > CONVOLUTION_LIMIT)
        return hyper_fail(r, HEARTH_FORMAT, window_key, "is below 2 or too large");
    if (length == 0 || length > HEAD_LIMIT || heads == 0 || 3 * (uint64_t)length * heads > HYPER_WIDTH_LIMIT ||
        (uint64_t)length * length * heads > STATE_LIMIT)
        return hyper_fail(r, HEARTH_FORMAT, length_key, "or attention.head_count is 0, or makes too large a state");
    to->head_count = to->key_count = heads;
    to->value_length = to->key_length = length;
    to->ranks[MAP_DECAY] = to->ranks[MAP_GATE] = r->family->whole_maps ? 0 : length;
    return r->family->decay_floors ? read_floor(r, to) : HEARTH_OK;
}

hearth_status hyper_read_recurrent(const hyper_reader *r, uint32_t layer)
{
    recurrent_shape *to = &r->model->layers[layer].recurrent;
    uint32_t width = 0;
    if (r->family->recurrence == RECURRENCE_SHORT)
        return read_short(r, to);
    if (r->family->recurrence == RECURRENCE_RWKV7)
        return read_rwkv(r, layer, to);
    if (r->family->recurrence == RECURRENCE_KDA)
        return read_kda(r, layer, to);
    uint32_t *const fields[] = {&to->head_count, &width, &to->key_count, &to->key_length, &to->window};
    for (size_t i = 0; i < sizeof fields / sizeof *fields; i++) {
        TRY(hyper_size(r, recurrent_keys[i].key, fields[i], NULL));
        if (*fields[i] == 0 || *fields[i] > recurrent_keys[i].limit)
            return hyper_fail(r, HEARTH_FORMAT, recurrent_keys[i].key, "is 0 or too large");
    }
    if (width % to->head_count != 0)
        return hyper_fail(r, HEARTH_FORMAT, "ssm.inner_size", "is not a multiple of ssm.time_step_rank");
    if (to->head_count % to->key_count != 0)
        return hyper_fail(r, HEARTH_FORMAT, "ssm.group_count", "does not divide ssm.time_step_rank");
    to->rule = r->family->recurrence;
    to->gate_logistic = r->family->gate_logistic;
    to->neighbours = to->rule == RECURRENCE_MAMBA2 || r->family->neighbours_share;
    to->value_length = width / to->head_count;
    if ((uint64_t)width * to->key_length > STATE_LIMIT || recurrent_channels(to) > HYPER_WIDTH_LIMIT)
        return hyper_fail(r, HEARTH_FORMAT, "ssm.state_size", "makes too large a state");
    return HEARTH_OK;
}
