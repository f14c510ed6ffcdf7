/* device_weights.c - uploads weights (see device_weights.h): what a layer has beside its neurons, and all layers. Neurons are
 * in device_weights_neurons.c. */
#include "device_weights_internal.h"

#include "../base/memory.h"
#include "../base/text.h"

#include <assert.h>
#include <stdio.h>
#include <string.h>

/* ------------------------------------------------------------------ a layer */

/* Uploads the biases of query, key and value as one vector, as their products lie in the stack. */
static hearth_status upload_qkv_bias(loader *l, device_layer *to, const model_layer *from)
{
    const struct {
        const float *bias;
        uint32_t rows;
    } each[] = {{from->q_bias, query_width(&from->attention)},
                {from->k_bias, key_width(&from->attention)},
                {from->v_bias, value_width(&from->attention)}};
    uint32_t all = 0, at = 0;
    if (!from->q_bias && !from->k_bias && !from->v_bias)
        return HEARTH_OK;
    for (size_t i = 0; i < 3; i++)
        all += stacked(each[i].rows);
    float *biases = mem_new_array(all, sizeof *biases);
    if (!biases)
        return fail_memory(l->error, "biases", all * sizeof *biases);
    for (size_t i = 0; i < 3; at += stacked(each[i].rows), i++)
        if (each[i].bias)
            memcpy(biases + at, each[i].bias, each[i].rows * sizeof *biases);
    hearth_status status = upload_floats(l, &to->qkv_bias, biases, NULL, all, "biases");
    mem_free(biases);
    return status;
}

void device_mixer_inputs(const model_layer *l, mixer_input out[MIXER_INPUTS])
{
    const attention_shape *a = &l->attention;
    uint32_t query = query_width(a), key = a->keys_back > 0 ? 0 : key_width(a),
             value = a->keys_back > 0 ? 0 : value_width(a);
    const mixer_input gates = {layer_gates_in_query(l) ? &l->q : &l->attention_gate, gate_width(a), "attn_gate"};
    const mixer_input latent[MIXER_INPUTS] = {
        [MIXER_QUERY] = {a->query_rank > 0 ? &l->query_in : &l->q, a->query_rank > 0 ? a->query_rank : l->q.rows,
                         "attn_q"},
        [MIXER_KEY] = {&l->k, key, "attn_kv_a_mqa"},
        [MIXER_INDEX_KEY] = {&l->index_key, a->index.head_length, "indexer.attn_k"},
        [MIXER_GATE] = gates,
        [MIXER_INDEX_WEIGHT] = {&l->index_weight, a->index.head_count, "indexer.proj"},
        [MIXER_INDEX_GATE] = {&l->index_gate, l->index_gate.rows, "indexer_compressor_gate"}};
    const mixer_input one_key[MIXER_INPUTS] = {
        [MIXER_QUERY] = {&l->query_in, a->query_rank, "attn_q_a"},
        [MIXER_KEY] = {&l->k, key, "attn_kv"},
        [MIXER_INDEX_KEY] = {&l->index_key, l->index_key.rows, "indexer_compressor_kv"},
        [MIXER_INDEX_WEIGHT] = {&l->index_weight, a->index.head_count, "indexer.proj"},
        [MIXER_INDEX_GATE] = {&l->index_gate, l->index_gate.rows, "indexer_compressor_gate"},
        [MIXER_SUMMARY_VALUE] = {&l->summary_value, l->summary_value.rows, "attn_compressor_kv"},
        [MIXER_SUMMARY_GATE] = {&l->summary_gate, l->summary_gate.rows, "attn_compressor_gate"}};
    const mixer_input attention[MIXER_INPUTS] = {
        [MIXER_QUERY] = {&l->q, query, "attn_q"},
        [MIXER_KEY] = {&l->k, key, "attn_k"},
        [MIXER_VALUE] = {l->v.data ? &l->v : &l->k, value, "attn_v"},
        [MIXER_GATE] = gates,
        [MIXER_PLAIN_KEY] = {&l->index_key, a->index.head_length, "indexer.k_proj"},
        [MIXER_PLAIN_QUERY] = {&l->index_query, l->index_query.rows, "indexer.q_proj"}};
    const mixer_input recurrent[MIXER_INPUTS] = {
        [MIXER_CONVOLVED] = {&l->convolved, l->convolved.rows, "attn_qkv"},
        [MIXER_RECURRENT_GATE] = {&l->recurrent_gate, l->recurrent_gate.rows, "attn_gate"},
        [MIXER_STEP] = {&l->step, l->step.rows, "ssm_alpha"},
        [MIXER_BETA] = {&l->beta, l->beta.data ? l->beta.rows : 0, "ssm_beta"}};
    const mixer_input convolution[MIXER_INPUTS] = {
        [MIXER_CONVOLVED] = {&l->convolved, l->convolved.rows, "shortconv"},
        [MIXER_RECURRENT_GATE] = {&l->recurrent_gate, l->recurrent_gate.rows, "shortconv gate"},
        [MIXER_INPUT_GATE] = {&l->input_gate, l->input_gate.rows, "shortconv input gate"}};
    const mixer_input rwkv[MIXER_INPUTS] = {[MIXER_QUERY] = {&l->q, l->q.rows, "time_mix_receptance"},
                                            [MIXER_KEY] = {&l->k, l->k.rows, "time_mix_key"},
                                            [MIXER_VALUE] = {&l->v, l->v.rows, "time_mix_value"}};
    const mixer_input kda[MIXER_INPUTS] = {[MIXER_QUERY] = {&l->q, l->q.rows, "attn_q"},
                                           [MIXER_KEY] = {&l->k, l->k.rows, "attn_k"},
                                           [MIXER_VALUE] = {&l->v, l->v.rows, "attn_v"},
                                           [MIXER_BETA] = {&l->beta, l->beta.rows, "ssm_beta"}};
    const mixer_input *inputs = a->compressed > 0 ? latent : a->one_key ? one_key : attention;
    if (l->mixer == MIXER_RECURRENT)
        inputs = l->recurrent.rule == RECURRENCE_SHORT   ? convolution
                 : l->recurrent.rule == RECURRENCE_RWKV7 ? rwkv
                 : l->recurrent.rule == RECURRENCE_KDA   ? kda
                                                         : recurrent;
    memset(out, 0, MIXER_INPUTS * sizeof *out);
    if (l->mixer != MIXER_NONE)
        memcpy(out, inputs, sizeof attention);
}

/* Lists the rows of the queries, or of the gates, of a matrix that has both in turns, head by head. */
static void list_heads(const attention_shape *a, bool gates, uint32_t *list)
{
    for (uint32_t i = 0; i < query_width(a); i++)
        list[i] = i + (i / a->head_length + gates) * a->head_length;
}

/* Uploads the matrices that read a mixer's input. */
static hearth_status upload_inputs(loader *l, device_layer *to, uint32_t layer)
{
    const model_layer *from = &l->model->layers[layer];
    const attention_shape *a = &from->attention;
    mixer_input inputs[MIXER_INPUTS];
    member members[MIXER_INPUTS];
    uint32_t *lists = NULL, query = query_width(a);
    size_t count = 0;
    bool in_turns = layer_gates_in_query(from);
    if (in_turns && !(lists = mem_new_array(2 * (size_t)query, sizeof *lists)))
        return fail_memory(l->error, "attn_q", 2 * query * sizeof *lists);
    for (unsigned gates = 0; in_turns && gates < 2; gates++)
        list_heads(a, gates, lists + gates * query);
    device_mixer_inputs(from, inputs);
    for (unsigned i = 0; i < MIXER_INPUTS; i++) {
        const uint32_t *list = !in_turns ? NULL : i == MIXER_QUERY ? lists : i == MIXER_GATE ? lists + query : NULL;
        if (inputs[i].rows > 0)
            members[count++] = (member){&to->inputs[i], inputs[i].of, inputs[i].rows, inputs[i].what, list, NULL, 0};
    }
    hearth_status status = upload_stacks(l, members, count, layer);
    mem_free(lists);
    return status;
}

/* Uploads what latent attention, and attention to chosen positions, has beside the matrices that read its input. */
static hearth_status upload_latent(loader *l, device_layer *to, uint32_t layer)
{
    const model_layer *from = &l->model->layers[layer];
    const attention_shape *a = &from->attention;
    if (a->index.head_count > 0) {
        TRY(upload_norm(l, &to->index_key_norm, &from->index_key_norm, NULL, a->index.head_length, "index key norm"));
        TRY(upload_norm(l, &to->index_query_norm, &from->index_query_norm, NULL, a->index.head_length,
                        "index query norm"));
    }
    if (a->compressed == 0)
        return HEARTH_OK;
    TRY(upload_norm(l, &to->query_in_norm, &from->query_in_norm, NULL, a->query_rank, "query norm"));
    TRY(upload_norm(l, &to->compressed_norm, &from->compressed_norm, NULL, a->compressed, "key norm"));
    if (a->query_rank > 0)
        TRY(upload_whole(l, &to->query_up, &from->q, layer, "attn_q_b"));
    TRY(upload_whole(l, &to->key_up, &from->key_up, layer, "attn_k_b"));
    if (a->index.head_count > 0) {
        TRY(upload_whole(l, &to->index_query, &from->index_query, layer, "indexer.attn_q_b"));
        TRY(upload_floats(l, &to->index_gate_bias, from->index_gate_bias, NULL, a->pool * a->index.head_length,
                          "bias of gates of pools"));
    }
    return upload_whole(l, &to->value_up, &from->value_up, layer, "attn_v_b");
}

/* Uploads what attention with one key has beside them. */
static hearth_status upload_one_key(loader *l, device_layer *to, uint32_t layer)
{
    const model_layer *from = &l->model->layers[layer];
    const attention_shape *a = &from->attention;
    uint32_t together = a->summary.together, parts = a->summary.parts, index = a->index.head_length;
    if (!a->one_key)
        return HEARTH_OK;
    TRY(upload_norm(l, &to->query_in_norm, &from->query_in_norm, NULL, a->query_rank, "query norm"));
    TRY(upload_whole(l, &to->query_up, &from->q, layer, "attn_q_b"));
    TRY(upload_whole(l, &to->output_in, &from->output_in, layer, "attn_output_a"));
    TRY(upload_norm(l, &to->summary_norm, &from->summary_norm, NULL, a->head_length, "norm of summaries"));
    TRY(upload_floats(l, &to->summary_bias, from->summary_bias, NULL, together * parts * a->head_length,
                      "bias of gates of summaries"));
    TRY(upload_whole(l, &to->index_query, &from->index_query, layer, "indexer.attn_q_b"));
    return upload_floats(l, &to->index_gate_bias, from->index_gate_bias, NULL, together * parts * index,
                         "bias of gates of summaries");
}

/* Uploads what wkv_prepare reads besides. */
static hearth_status upload_parameters(loader *l, device_layer *to, const model_layer *from)
{
    uint32_t d = recurrent_width(&from->recurrent);
    const float *const each[WKV_PARAMETERS] = {[WKV_REMOVAL_SCALE] = from->removal_scale,
                                               [WKV_RATE_SHARE] = from->rate_share,
                                               [WKV_DECAY_BIAS] = from->low_rank[MAP_DECAY].bias,
                                               [WKV_RATE_BIAS] = from->low_rank[MAP_RATE].bias,
                                               [WKV_SHARE_BIAS] = from->low_rank[MAP_VALUE].bias};
    float *all = mem_new_array((size_t)WKV_PARAMETERS * d, sizeof *all);
    if (!all)
        return fail_memory(l->error, "parameters", (size_t)WKV_PARAMETERS * d * sizeof *all);
    for (size_t i = 0; i < WKV_PARAMETERS; i++)
        if (each[i])
            memcpy(all + i * d, each[i], d * sizeof *all);
    hearth_status status = upload_floats(l, &to->wkv_parameters, all, NULL, WKV_PARAMETERS * d, "parameters");
    mem_free(all);
    return status;
}

/* Uploads what the mixer of RWKV-7 has beside the matrices that read its input, and the mixture that its network reads. */
static hearth_status upload_rwkv(loader *l, device_layer *to, uint32_t layer)
{
    static const char *const names[LOW_RANK_MAPS] = {
        [MAP_DECAY] = "time_mix_w", [MAP_RATE] = "time_mix_a", [MAP_VALUE] = "time_mix_v", [MAP_GATE] = "time_mix_g"};
    const model_layer *from = &l->model->layers[layer];
    uint32_t d = recurrent_width(&from->recurrent);
    for (size_t i = 0; i < LOW_RANK_MAPS; i++) {
        TRY(upload_whole(l, &to->low_rank[i].in, &from->low_rank[i].in, layer, names[i]));
        TRY(upload_whole(l, &to->low_rank[i].out, &from->low_rank[i].out, layer, names[i]));
    }
    TRY(upload_parameters(l, to, from));
    TRY(upload_floats(l, &to->input_mix, from->input_mix, NULL, RWKV_INPUTS * d, "mixtures"));
    TRY(upload_floats(l, &to->network_mix, from->network_mix, NULL, d, "mixture"));
    TRY(upload_floats(l, &to->bonus, from->bonus, NULL, d, "bonus"));
    TRY(upload_floats(l, &to->recurrent_norm, from->recurrent_norm, NULL, d, "recurrent norm"));
    return upload_floats(l, &to->recurrent_norm_bias, from->recurrent_norm_bias, NULL, d, "recurrent norm's bias");
}

/* Uploads what Kimi Delta Attention has beside the matrices that read its input. */
static hearth_status upload_kda(loader *l, device_layer *to, uint32_t layer)
{
    const model_layer *from = &l->model->layers[layer];
    const recurrent_shape *r = &from->recurrent;
    uint32_t width = recurrent_width(r);
    TRY(upload_whole(l, &to->low_rank[MAP_DECAY].in, &from->low_rank[MAP_DECAY].in, layer, "ssm_f_a"));
    TRY(upload_whole(l, &to->low_rank[MAP_DECAY].out, &from->low_rank[MAP_DECAY].out, layer, "ssm_f_b"));
    TRY(upload_whole(l, &to->low_rank[MAP_GATE].in, &from->low_rank[MAP_GATE].in, layer, "ssm_g_a"));
    TRY(upload_whole(l, &to->low_rank[MAP_GATE].out, &from->low_rank[MAP_GATE].out, layer, "ssm_g_b"));
    TRY(upload_floats(l, &to->convolution, from->convolution, NULL, recurrent_channels(r) * r->window, "convolution"));
    TRY(upload_floats(l, &to->step_bias, from->low_rank[MAP_DECAY].bias, NULL, width, "step bias"));
    TRY(upload_floats(l, &to->decay, from->decay, NULL, r->head_count, "decay"));
    return upload_floats(l, &to->recurrent_norm, from->recurrent_norm, NULL, r->value_length, "recurrent norm");
}

/* Uploads what a recurrent mixer has beside its matrices. */
static hearth_status upload_recurrent(loader *l, device_layer *to, uint32_t layer)
{
    const model_layer *from = &l->model->layers[layer];
    const recurrent_shape *r = &from->recurrent;
    if (r->rule == RECURRENCE_RWKV7)
        return upload_rwkv(l, to, layer);
    if (r->rule == RECURRENCE_KDA)
        return upload_kda(l, to, layer);
    uint32_t channels = recurrent_channels(r), heads = r->head_count;
    const struct {
        device_buffer **to;
        const float *values;
        uint32_t n;
        const char *what;
    } each[] = {
        {&to->convolution, from->convolution, channels * r->window, "convolution"},
        {&to->convolution_bias, from->convolution_bias, channels, "convolution bias"},
        {&to->step_bias, from->step_bias, heads, "step bias"},
        {&to->decay, from->decay, heads, "decay"},
        {&to->skip, from->skip, heads, "skip"},
        {&to->recurrent_norm, from->recurrent_norm, r->rule == RECURRENCE_MAMBA2 ? recurrent_width(r) : r->value_length,
         "recurrent norm"},
    };
    for (size_t i = 0; i < sizeof each / sizeof *each; i++)
        TRY(upload_floats(l, each[i].to, each[i].values, NULL, each[i].n, each[i].what));
    return HEARTH_OK;
}

/* Uploads the gates of one block; what: names them in errors. */
static hearth_status upload_block_gates(loader *l, device_gates *to, const gated_connection *from, uint32_t layer,
                                        const char *what)
{
    TRY(upload_floats(l, &to->norm, from->norm, NULL, from->down.columns, what));
    TRY(upload_whole(l, &to->down, &from->down, layer, what));
    TRY(upload_whole(l, &to->up, &from->up, layer, what));
    return upload_whole(l, &to->inject, &from->inject, layer, what);
}

/* Uploads the gates that connect a layer's blocks with the streams, and what adds n-grams to these. */
static hearth_status upload_gates(loader *l, device_layer *to, uint32_t layer)
{
    const model_layer *from = &l->model->layers[layer];
    uint32_t all = l->model->hyper.stream_count * l->model->hyper.embedding_length;
    TRY(upload_block_gates(l, &to->mixer_gates, &from->mixer_gates, layer, "gates of hc_attn"));
    TRY(upload_block_gates(l, &to->network_gates, &from->network_gates, layer, "gates of hc_ffn"));
    if (!from->ngrams)
        return HEARTH_OK;
    TRY(upload_floats(l, &to->ngram.stream_norm, from->ngram.stream_norm, NULL, all, "ple_norm_query"));
    TRY(upload_floats(l, &to->ngram.convolved_norm, from->ngram.convolved_norm, NULL, all, "ple_norm_conv"));
    return upload_floats(l, &to->ngram.convolution, from->ngram.convolution, NULL, all * l->model->hyper.ngrams.window,
                         "ple_conv1d");
}

/* Uploads what connects a layer's blocks with the streams. */
static hearth_status upload_connections(loader *l, device_layer *to, uint32_t layer)
{
    const model_layer *from = &l->model->layers[layer];
    uint32_t n = hyper_connections(&l->model->hyper),
             scales = l->model->hyper.connection_steps > 0 ? CONNECTION_SCALES : 2;
    if (l->model->hyper.connection_rank > 0)
        return upload_gates(l, to, layer);
    TRY(upload_floats(l, &to->mixer_connection.base, from->mixer_connection.base, NULL, n, "hc_attn_base"));
    TRY(upload_floats(l, &to->mixer_connection.scale, from->mixer_connection.scale, NULL, scales, "hc_attn_scale"));
    TRY(upload_whole(l, &to->mixer_connection.weights, &from->mixer_connection.weights, layer, "hc_attn_fn"));
    TRY(upload_floats(l, &to->network_connection.base, from->network_connection.base, NULL, n, "hc_ffn_base"));
    TRY(upload_floats(l, &to->network_connection.scale, from->network_connection.scale, NULL, scales, "hc_ffn_scale"));
    return upload_whole(l, &to->network_connection.weights, &from->network_connection.weights, layer, "hc_ffn_fn");
}

/* Uploads what a layer has for several streams of the residual. */
static hearth_status upload_streams(loader *l, device_layer *to, uint32_t layer)
{
    const stream_weights *from = &l->model->layers[layer].streams;
    uint32_t d = l->model->hyper.embedding_length, n = l->model->hyper.stream_count;
    if (l->model->layers[layer].wiring == WIRING_CONNECTED)
        return upload_connections(l, to, layer);
    if (l->model->layers[layer].wiring != WIRING_STREAMS)
        return HEARTH_OK;
    TRY(upload_norm(l, &to->streams.router_norm, &from->router_norm, NULL, d, "router norm of streams"));
    TRY(upload_norm(l, &to->streams.laurel_norm, &from->laurel_norm, NULL, d, "laurel norm"));
    TRY(upload_floats(l, &to->streams.predict, from->predict, NULL, n * n * n, "prediction of streams"));
    TRY(upload_floats(l, &to->streams.correct, from->correct, NULL, n * n, "correction of streams"));
    TRY(upload_floats(l, &to->streams.correct_scale, from->correct_scale, NULL, d, "scale of the corrected stream"));
    TRY(upload_whole(l, &to->streams.router, &from->router, layer, "altup_router"));
    TRY(upload_whole(l, &to->streams.laurel_in, &from->laurel_in, layer, "laurel_l"));
    return upload_whole(l, &to->streams.laurel_out, &from->laurel_out, layer, "laurel_r");
}

/* Uploads what a layer has beside its neurons: its mixer and norms. */
static hearth_status upload_mixer(loader *l, device_layer *to, uint32_t layer)
{
    const model_layer *from = &l->model->layers[layer];
    const attention_shape *a = &from->attention;
    uint32_t d = l->model->hyper.embedding_length, query = query_width(a), key = key_width(a);
    const struct {
        device_norm *to;
        const norm_weights *from;
        uint32_t n;
        const char *what;
    } norms[] = {
        {&to->attention_norm, &from->attention_norm, d, "attention norm"},
        {&to->query_norm, &from->query_norm, a->norm_whole ? query : a->head_length, "query norm"},
        {&to->key_norm, &from->key_norm, a->norm_whole ? key : a->head_length, "key norm"},
        {&to->attention_inner_norm, &from->attention_inner_norm, read_width(a), "attention inner norm"},
        {&to->attention_post_norm, &from->attention_post_norm, d, "attention post norm"},
        {&to->ffn_norm, &from->ffn_norm, d, "ffn norm"},
        {&to->ffn_post_norm, &from->ffn_post_norm, d, "ffn post norm"},
        {&to->per_layer_post_norm, &from->per_layer_post_norm, d, "post norm"},
    };
    for (size_t i = 0; i < sizeof norms / sizeof *norms; i++)
        TRY(upload_norm(l, norms[i].to, norms[i].from, NULL, norms[i].n, norms[i].what));
    TRY(upload_qkv_bias(l, to, from));
    TRY(upload_floats(l, &to->attention_output_bias, from->attention_output_bias, NULL, d, "attention bias"));
    TRY(upload_floats(l, &to->sinks, from->sinks, NULL, a->head_count, "sinks"));
    TRY(upload_inputs(l, to, layer));
    TRY(upload_latent(l, to, layer));
    TRY(upload_one_key(l, to, layer));
    TRY(upload_whole(l, &to->per_layer_gate, &from->per_layer_gate, layer, "inp_gate"));
    TRY(upload_whole(l, &to->per_layer_output, &from->per_layer_output, layer, "proj"));
    TRY(upload_streams(l, to, layer));
    if (from->mixer != MIXER_RECURRENT)
        return upload_whole(l, &to->mixer_output, &from->attention_output, layer, "attn_output");
    TRY(upload_recurrent(l, to, layer));
    return upload_whole(l, &to->mixer_output, &from->recurrent_output, layer, "ssm_out");
}

/* ------------------------------------------------------------------ all of them */

/* Estimates the bytes to upload, for progress: stored bytes, those of neurons by their share. */
static uint64_t estimate(const loader *l, const hearth_placement *p)
{
    uint64_t bytes = 0;
    for (uint32_t i = 0; i < p->layer_count; i++) {
        const model_layer *from = &l->model->layers[i];
        const engine_layer *e = &l->layers[i];
        if (!layer_uses_device(&p->layers[i]))
            continue;
        uint64_t neurons = layer_neurons(&p->layers[i], PLACEMENT_DEVICE), f = from->ffn.neuron_count;
        bytes += layer_mixer_bytes(from) + matrix_bytes(&from->per_layer_gate) + matrix_bytes(&from->per_layer_output) +
                 layer_stream_bytes(from);
        bool predicts = p->layers[i].selector == SELECTOR_LOW_RANK && neurons > 0;
        bytes += predicts ? matrix_bytes(&e->predictor.fc1) + matrix_bytes(&e->predictor.fc2) * neurons / f : 0;
        uint64_t all = matrix_bytes(&from->gate) + matrix_bytes(&from->up) + matrix_bytes(&from->shared.gate) +
                       matrix_bytes(&from->shared.up) + matrix_bytes(&e->down_t) + matrix_bytes(&e->shared_down_t) +
                       (e->down_t.data ? 0 : matrix_bytes(&from->down) + matrix_bytes(&from->shared.down));
        all += matrix_bytes(&from->mask_out);
        bytes += all * neurons / (f > 0 ? f : 1) +
                 (neurons > 0 ? matrix_bytes(&from->router) + matrix_bytes(&from->mask_in) : 0);
    }
    bytes += p->head == PLACEMENT_DEVICE ? matrix_bytes(&l->model->head) : 0;
    bool embeds = p->embedding == PLACEMENT_DEVICE;
    return bytes + (embeds ? matrix_bytes(&l->model->embedding) + matrix_bytes(&l->model->positions) : 0);
}

static hearth_status upload_all(loader *l, const hearth_placement *p)
{
    for (uint32_t i = 0; i < p->layer_count; i++) {
        if (!layer_uses_device(&p->layers[i]))
            continue;
        TRY(upload_mixer(l, &l->to->layers[i], i));
        TRY(upload_neurons(l, &l->to->layers[i], &p->layers[i], i));
    }
    const hearth_model *m = l->model;
    if (p->embedding == PLACEMENT_DEVICE)
        TRY(upload_matrix(l, &l->to->embedding, &m->embedding, NULL, m->embedding.rows, "token_embd"));
    if (p->embedding == PLACEMENT_DEVICE && m->positions.data)
        TRY(upload_matrix(l, &l->to->positions, &m->positions, NULL, m->positions.rows, "position_embd"));
    if (p->embedding == PLACEMENT_DEVICE)
        TRY(upload_norm(l, &l->to->embedding_norm, &m->embedding_norm, NULL, m->hyper.embedding_length,
                        "embedding norm"));
    if (p->head == PLACEMENT_DEVICE)
        TRY(upload_matrix(l, &l->to->head, &m->head, NULL, m->head.rows, "output"));
    l->done = l->total;
    return upload_goes_on(l) ? HEARTH_OK : fail(l->error, HEARTH_CANCELLED, "%s: cancelled", m->source->path);
}

/* ------------------------------------------------------------------ what would fit */

/* Counts the bytes of one layer without uploading it. */
static hearth_status count_layer(const loader *l, const hearth_placement *p, uint32_t layer, uint64_t *bytes,
                                 hearth_error *error)
{
    device_weights counted = {0};
    device_layer to = {0};
    loader counter = {.to = &counted, .model = l->model, .layers = l->layers, .counts = true, .error = error};
    hearth_status status = upload_mixer(&counter, &to, layer);
    if (status == HEARTH_OK)
        status = upload_neurons(&counter, &to, &p->layers[layer], layer);
    mem_free(to.rows);
    mem_free(to.ranges);
    *bytes = counted.bytes;
    return status;
}

/* Adds to the error how many layers the budget would hold, counted from the last, as hearth_placement_use_device gives
 * them to a device. The weights that did not fit have already been freed. */
static void say_what_fits(const loader *l, const device *d, const hearth_placement *p)
{
    device_info info;
    uint32_t wanted = 0, fitting = 0;
    uint64_t sum = 0, bytes;
    device_describe(d, &info);
    for (uint32_t i = p->layer_count; i-- > 0;) {
        if (!layer_uses_device(&p->layers[i]))
            continue;
        if (count_layer(l, p, i, &bytes, NULL) != HEARTH_OK)
            return;
        sum += bytes;
        wanted++;
        if (sum <= info.budget_bytes - info.used_bytes)
            fitting = wanted;
    }
    char text[16], fits[64] = "not even one of them fits";
    if (fitting > 0)
        snprintf(fits, sizeof fits, "the last %u of them fit%s", fitting, fitting == 1 ? "s" : "");
    hearth_error first = *l->error;
    (void)fail(l->error, first.status, "%s; the weights of %u layer%s take %s there, %s", first.text, wanted,
               wanted == 1 ? "" : "s", text_size(text, (double)sum), fits);
}

/* ------------------------------------------------------------------ life */

/* Refuses a shared expert in another format than the others: their rows follow one another there. */
static hearth_status check_shared(const hearth_model *m, const engine_layer *e, uint32_t layer, hearth_error *error)
{
    const model_layer *from = &m->layers[layer];
    const matrix *const pairs[][2] = {
        {&from->gate, &from->shared.gate}, {&from->up, &from->shared.up}, {&e->down_t, &e->shared_down_t}};
    bool joined = from->ffn.shared_neurons > 0 && !device_apart(from);
    for (size_t i = 0; joined && i < sizeof pairs / sizeof *pairs; i++)
        if (pairs[i][0]->data && pairs[i][0]->format != pairs[i][1]->format)
            return fail(error, HEARTH_UNSUPPORTED,
                        "%s: layer %u: its shared expert is %s and the others are %s, which devices cannot do yet; "
                        "`hearth convert` makes them the same",
                        m->source->path, layer, number_formats[pairs[i][1]->format].name,
                        number_formats[pairs[i][0]->format].name);
    return HEARTH_OK;
}

/* Floats that kernels read at once: what an expert gives is as many, or a multiple. */
#define FLOAT_SPAN 8

bool device_takes_stock_experts(const model_layer *l, selector_kind selector)
{
    const ffn_shape *f = &l->ffn;
    const matrix *each[] = {&l->down, &l->shared.down};
    bool takes = f->router.expert_count > 0 && selector == SELECTOR_ALL && l->down.data && f->latent == 0 &&
                 !l->mask_in.data && !l->ffn_inner_norm.weight;
    uint32_t whole = FLOAT_SPAN;
    for (size_t i = 0; i < sizeof each / sizeof *each; i++) {
        takes = takes && (!each[i]->data || device_has_format(each[i]->format));
        whole = each[i]->data && number_is_block(each[i]->format) ? Q8_BLOCK : whole;
    }
    return takes && f->expert_neurons % whole == 0 && f->shared_neurons % whole == 0;
}

const char *device_lacks(const model_layer *l)
{
    const struct {
        bool has;
        const char *what;
    } lacking[] = {
        {recurrent_by_columns(&l->recurrent) && recurrent_width(&l->recurrent) % STACK_ROWS != 0,
         "has recurrent heads whose values together are no multiple of 8"},
        {l->shared_gate && (l->ffn.router.early || l->router_norm.weight || l->experts_norm.weight),
         "has a gated shared expert, and a router or other experts that read something else"},
        {device_apart(l) && (l->gate_bias || l->up_bias || l->down_bias || l->mask_in.data || l->ffn_inner_norm.weight),
         "has a shared expert apart from others with biases, masks or a norm"},
        {l->experts_norm.weight && (l->ffn.latent > 0 || l->wiring == WIRING_PARALLEL),
         "has experts beside a network that are of another width, or beside a mixer, too"},
        {l->ffn.cuts && (l->ffn.router.expert_count > 0 || layer_first_bias(l)),
         "cuts first values of experts, or with a bias"},
    };
    for (size_t i = 0; i < sizeof lacking / sizeof *lacking; i++)
        if (lacking[i].has)
            return lacking[i].what;
    return NULL;
}

/* Refuses what devices do not compute yet: of a layer at all, or in its form. */
static hearth_status check_layer(const hearth_model *m, const hearth_placement *p, uint32_t layer, hearth_error *error)
{
    const char *what = device_lacks(&m->layers[layer]);
    if (what)
        return fail(error, HEARTH_UNSUPPORTED, "%s: layer %u: %s, which devices cannot do yet", m->source->path, layer,
                    what);
    if (m->layers[layer].ffn.cuts && p->layers[layer].form == FORM_SPLIT)
        return fail(error, HEARTH_UNSUPPORTED,
                    "%s: layer %u: first values are cut above the mean of all neurons, so all must be on one side",
                    m->source->path, layer);
    return HEARTH_OK;
}

/* Refuses a layer that reads the keys and values of one on the other side. */
static hearth_status check_side(const hearth_model *m, const hearth_placement *p, uint32_t layer, hearth_error *error)
{
    uint32_t from = layer - m->layers[layer].attention.keys_back;
    bool on_device = layer_uses_device(&p->layers[from]);
    if (on_device == layer_uses_device(&p->layers[layer]))
        return HEARTH_OK;
    return fail(error, HEARTH_UNSUPPORTED,
                "%s: layer %u: reads the keys and values of layer %u, which is on the %s; both must be on one side",
                m->source->path, layer, from, on_device ? "device" : "CPU");
}

hearth_status device_weights_create(device_weights **out, device *d, const hearth_model *model,
                                    const hearth_placement *placement, const engine_layer *engine_layers,
                                    const hearth_progress *progress, hearth_error *error)
{
    for (uint32_t i = 0; i < placement->layer_count; i++) {
        if (layer_uses_device(&placement->layers[i]))
            TRY(check_layer(model, placement, i, error));
        TRY(check_side(model, placement, i, error));
    }
    if (placement->embedding == PLACEMENT_DEVICE && model->hyper.stream_count > 1)
        return fail(error, HEARTH_UNSUPPORTED, "%s: the embedding must be on the CPU, which makes more of it",
                    model->source->path);
    for (uint32_t i = 0; i < placement->layer_count; i++)
        if (layer_neurons(&placement->layers[i], PLACEMENT_DEVICE) > 0)
            TRY(check_shared(model, &engine_layers[i], i, error));
    device_weights *w = mem_new(sizeof *w);
    device_layer *layers = mem_new_array(model->hyper.layer_count, sizeof *layers);
    if (!w || !layers) {
        mem_free(w);
        mem_free(layers);
        return fail_memory(error, "device weights", model->hyper.layer_count * sizeof *layers);
    }
    *w = (device_weights){.device = d, .layer_count = model->hyper.layer_count, .layers = layers};
    loader l = {.to = w, .model = model, .layers = engine_layers, .progress = progress, .error = error};
    l.total = estimate(&l, placement);
    hearth_status status = upload_all(&l, placement);
    if (status == HEARTH_OK) {
        *out = w;
        return status;
    }
    device_weights_destroy(w);
    if (status == HEARTH_NO_MEMORY && error)
        say_what_fits(&l, d, placement);
    return status;
}

/* Frees the buffers of a stack. */
static void drop(device_matrix *m)
{
    if (m->stack_rows == 0)
        return; /* the first matrix of the stack owns the buffers */
    device_buffer_destroy(m->w);
    device_buffer_destroy(m->scales);
}

/* Frees the matrices that a layer has beside its blocks. */
static void drop_beside(device_layer *l)
{
    device_matrix *matrices[] = {
        &l->per_layer_gate,      &l->per_layer_output,           &l->streams.router,     &l->streams.laurel_in,
        &l->streams.laurel_out,  &l->mixer_connection.weights,   &l->mixer_gates.down,   &l->mixer_gates.up,
        &l->mixer_gates.inject,  &l->network_connection.weights, &l->network_gates.down, &l->network_gates.up,
        &l->network_gates.inject};
    for (size_t i = 0; i < sizeof matrices / sizeof *matrices; i++)
        drop(matrices[i]);
}

void device_weights_destroy(device_weights *w)
{
    if (!w)
        return;
    for (uint32_t i = 0; i < w->layer_count; i++) {
        device_layer *l = &w->layers[i];
        device_matrix *matrices[] = {&l->query_up,   &l->key_up,      &l->value_up,  &l->mixer_output,  &l->gate,
                                     &l->up,         &l->down_t,      &l->down,      &l->fc1,           &l->fc2,
                                     &l->router,     &l->mask_in,     &l->mask_out,  &l->shared_gate,   &l->latent_in,
                                     &l->latent_out, &l->shared.gate, &l->shared.up, &l->shared.down_t, &l->shared.down,
                                     &l->shared.fc2, &l->index_query, &l->output_in};
        const device_norm norms[] = {l->attention_norm,
                                     l->ffn_norm,
                                     l->attention_post_norm,
                                     l->ffn_post_norm,
                                     l->attention_inner_norm,
                                     l->query_norm,
                                     l->key_norm,
                                     l->ffn_inner_norm,
                                     l->per_layer_post_norm,
                                     l->router_norm,
                                     l->experts_norm,
                                     l->experts_post_norm,
                                     l->shared_post_norm,
                                     l->streams.router_norm,
                                     l->streams.laurel_norm,
                                     l->query_in_norm,
                                     l->compressed_norm,
                                     l->index_key_norm,
                                     l->index_query_norm,
                                     l->summary_norm};
        device_buffer *floats[] = {l->qkv_bias,
                                   l->attention_output_bias,
                                   l->sinks,
                                   l->gate_bias,
                                   l->up_bias,
                                   l->down_bias,
                                   l->router_bias,
                                   l->router_correction,
                                   l->token_experts,
                                   l->summary_bias,
                                   l->expert_scales,
                                   l->expert_ranges,
                                   l->expert_owners,
                                   l->mask_ranges,
                                   l->step_bias,
                                   l->decay,
                                   l->convolution,
                                   l->convolution_bias,
                                   l->shared_ranges,
                                   l->shared_owners,
                                   l->fired,
                                   l->skip,
                                   l->recurrent_norm,
                                   l->streams.predict,
                                   l->streams.correct,
                                   l->streams.correct_scale,
                                   l->mixer_connection.base,
                                   l->mixer_connection.scale,
                                   l->network_connection.base,
                                   l->network_connection.scale,
                                   l->mixer_gates.norm,
                                   l->network_gates.norm,
                                   l->ngram.stream_norm,
                                   l->ngram.convolved_norm,
                                   l->ngram.convolution,
                                   l->index_gate_bias,
                                   l->input_mix,
                                   l->network_mix,
                                   l->wkv_parameters,
                                   l->bonus,
                                   l->recurrent_norm_bias};
        for (size_t k = 0; k < MIXER_INPUTS; k++)
            drop(&l->inputs[k]);
        for (size_t k = 0; k < LOW_RANK_MAPS; k++) {
            drop(&l->low_rank[k].in);
            drop(&l->low_rank[k].out);
        }
        for (size_t k = 0; k < sizeof matrices / sizeof *matrices; k++)
            drop(matrices[k]);
        drop_beside(l);
        for (size_t k = 0; k < sizeof norms / sizeof *norms; k++) {
            device_buffer_destroy(norms[k].weight);
            device_buffer_destroy(norms[k].bias);
        }
        for (size_t k = 0; k < sizeof floats / sizeof *floats; k++)
            device_buffer_destroy(floats[k]);
        mem_free(l->rows);
        mem_free(l->ranges);
    }
    drop(&w->embedding);
    device_buffer_destroy(w->embedding_norm.weight);
    device_buffer_destroy(w->embedding_norm.bias);
    drop(&w->positions);
    drop(&w->head);
    mem_free(w->layers);
    mem_free(w);
}

hearth_status device_weights_count(uint64_t *bytes, const hearth_model *model, const hearth_placement *placement,
                                   const engine_layer *engine_layers, uint32_t layer, hearth_error *error)
{
    loader l = {.model = model, .layers = engine_layers};
    TRY(check_layer(model, placement, layer, error));
    if (layer_neurons(&placement->layers[layer], PLACEMENT_DEVICE) > 0)
        TRY(check_shared(model, &engine_layers[layer], layer, error));
    return count_layer(&l, placement, layer, bytes, error);
}
