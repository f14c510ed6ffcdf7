/* huggingface_experts.c - experts of a folder: their sizes, how a router chooses them, and which layers have them, under the names
 * of all families. */
#include "folder_reader.h"

#include "../file/checkpoint.h"

#include <string.h>

/* Reads a size that a config may give as an array of one number per layer, all of which must be the same. *out is unchanged where
 * there is none. */
static hearth_status get_same(const folder_reader *r, const char *key, uint32_t *out, bool *found)
{
    const json_t *list = json_object_get(r->config, key), *first = json_array_get(list, 0);
    if (!json_is_array(list))
        return json_get_uint(r->config, key, out, found, r->name, r->error);
    for (size_t i = 0; i < json_array_size(list); i++)
        if (!json_equal(json_array_get(list, i), first))
            return fail(r->error, HEARTH_UNSUPPORTED, "%s: %s: differs between layers, which is not supported", r->name,
                        key);
    json_int_t value = json_integer_value(first);
    *found = true;
    if (!json_is_integer(first) || value < 0 || value > UINT32_MAX)
        return fail(r->error, HEARTH_FORMAT, "%s: %s: is not an array of whole numbers", r->name, key);
    *out = (uint32_t)value;
    return HEARTH_OK;
}

/* Finds a size under one of several names; *out is unchanged where the config has none of them. */
static hearth_status find_size(const folder_reader *r, const char *const *names, size_t count, uint32_t *out)
{
    bool found;
    for (size_t i = 0; i < count; i++)
        TRY(get_same(r, names[i], out, &found));
    return HEARTH_OK;
}

/* Reads how scores are made. */
static hearth_status read_scoring(const folder_reader *r, router_scoring *out)
{
    static const struct {
        const char *name;
        router_scoring scoring;
    } scorings[] = {{"softmax", ROUTER_SOFTMAX},
                    {"sigmoid", ROUTER_SIGMOID},
                    {"noaux_tc", ROUTER_SIGMOID}, /* dots.llm1's name of it */
                    {"sqrtsoftplus", ROUTER_ROOT_SOFTPLUS}};
    static const char *const keys[] = {"scoring_func", "score_function", "moe_router_activation", "expert_selection_fn",
                                       "moe_router_activation_func"};
    const char *key = keys[0], *name = NULL;
    bool found;
    for (size_t i = 0; i < sizeof keys / sizeof *keys; i++) {
        TRY(json_get_string(r->config, keys[i], &name, &found, r->name, r->error));
        key = found ? keys[i] : key;
    }
    if (!name)
        return HEARTH_OK;
    for (size_t i = 0; i < sizeof scorings / sizeof *scorings; i++)
        if (strcmp(name, scorings[i].name) == 0) {
            *out = scorings[i].scoring;
            return HEARTH_OK;
        }
    return fail(r->error, HEARTH_UNSUPPORTED, "%s: %s: %.64s is not supported (known: softmax, sigmoid, sqrtsoftplus)",
                r->name, key, name);
}

/* Refuses groups of experts that are chosen by their best one; others are by their best two. */
static hearth_status check_grouping(const folder_reader *r)
{
    const char *method = "";
    bool found;
    TRY(json_get_string(r->config, "topk_method", &method, &found, r->name, r->error));
    return strcmp(method, "group_limited_greedy") == 0
               ? fail(r->error, HEARTH_UNSUPPORTED, "%s: topk_method: %s is not supported", r->name, method)
               : HEARTH_OK;
}

/* Refuses a Cohere 2 with experts whose first layers have windows of their own, or whose shared expert is added otherwise. Its
 * scores are a softmax unless it says something else, and then always divided by their sum. */
static hearth_status check_average(const folder_reader *r, router_scoring *scoring)
{
    uint32_t period = 1;
    const char *strategy = "average";
    bool found;
    if (!r->family->shared_average)
        return HEARTH_OK;
    TRY(json_get_uint(r->config, "prefix_dense_sliding_window_pattern", &period, &found, r->name, r->error));
    TRY(json_get_string(r->config, "shared_expert_combination_strategy", &strategy, &found, r->name, r->error));
    if (period != 1 || !json_is_array(json_object_get(r->config, "layer_types")))
        return fail(r->error, HEARTH_UNSUPPORTED,
                    "%s: layer_types: is missing, or prefix_dense_sliding_window_pattern: is not 1", r->name);
    if (!json_is_string(json_object_get(r->config, "expert_selection_fn")))
        *scoring = ROUTER_SOFTMAX;
    if (*scoring == ROUTER_SOFTMAX && json_is_false(json_object_get(r->config, "norm_topk_prob")))
        return fail(r->error, HEARTH_UNSUPPORTED, "%s: norm_topk_prob: false is not supported with a softmax", r->name);
    return strcmp(strategy, "average") == 0
               ? HEARTH_OK
               : fail(r->error, HEARTH_UNSUPPORTED, "%s: shared_expert_combination_strategy: %.64s is not supported",
                      r->name, strategy);
}

/* Returns whether layers behind some with experts have none, by the number of the last that has; -1 is the last layer. */
static bool ends_early(const json_t *config, uint32_t layers)
{
    const json_t *end = json_object_get(config, "moe_layer_end_index");
    return json_is_integer(end) && json_integer_value(end) >= 0 && json_integer_value(end) + 1 < layers;
}

/* Returns whether a list of numbers of layers is of the first ones; also where there is none. */
static bool come_first(const json_t *list)
{
    for (size_t i = 0; i < json_array_size(list); i++)
        if (json_integer_value(json_array_get(list, i)) != (json_int_t)i)
            return false;
    return true;
}

/* Reads the layers without experts where they are named one by one: they must be the first. */
static hearth_status read_dense_layers(folder_reader *r)
{
    const json_t *list = json_object_get(r->config, "mlp_layer_types");
    size_t numbered = json_array_size(json_object_get(r->config, "mlp_only_layers"));
    uint32_t dense = 0, layers = r->hyper.layer_count;
    bool enumerated;
    TRY(folder_read_layers_with_experts(r, &dense, &enumerated));
    if (enumerated)
        return folder_set_size(r, "leading_dense_block_count", dense);
    if (!list || json_is_null(list) || r->family->summaries) /* of which read_given reads the list */
        return numbered > 0 ? folder_set_size(r, "leading_dense_block_count", (uint32_t)numbered) : HEARTH_OK;
    if (!folder_lists_layers(r, list))
        return fail(r->error, HEARTH_FORMAT, "%s: mlp_layer_types: is not an array of one name per layer", r->name);
    for (uint32_t i = 0; i < layers; i++) {
        const char *type = json_string_value(json_array_get(list, i));
        bool is_dense = type && strcmp(type, "dense") == 0;
        if ((!is_dense && (!type || strcmp(type, "sparse") != 0)) || (is_dense && dense < i))
            return fail(r->error, HEARTH_UNSUPPORTED,
                        "%s: mlp_layer_types: layer %u is not as supported: first dense, then sparse", r->name, i);
        dense += is_dense;
    }
    if (numbered > 0 && numbered != dense)
        return fail(r->error, HEARTH_FORMAT, "%s: mlp_only_layers: are not those of mlp_layer_types", r->name);
    return folder_set_size(r, "leading_dense_block_count", dense);
}

/* Refuses a list of the layers with experts that is not what their number says: the last of every `step` layers. */
static hearth_status check_moe_layers(const folder_reader *r)
{
    const json_t *list = json_object_get(r->config, "moe_layers");
    uint32_t step = 1, count = r->hyper.layer_count;
    bool found;
    TRY(json_get_uint(r->config, "interleave_moe_layer_step", &step, &found, r->name, r->error));
    if (!json_is_array(list))
        return HEARTH_OK;
    bool same = step > 0 && json_array_size(list) == count / step;
    for (size_t i = 0; same && i < json_array_size(list); i++)
        same = json_integer_value(json_array_get(list, i)) == (json_int_t)((i + 1) * step - 1);
    return same ? HEARTH_OK
                : fail(r->error, HEARTH_UNSUPPORTED, "%s: moe_layers: are not those of interleave_moe_layer_step",
                       r->name);
}

/* Reads the neurons of a network that is called shared although there are no experts. */
static hearth_status read_shared_width(folder_reader *r)
{
    static const char name[] = "shared_intermediate_size";
    uint32_t neurons = 0;
    bool found;
    TRY(json_get_uint(r->config, name, &neurons, &found, r->name, r->error));
    if (!found)
        return HEARTH_OK;
    if (neurons == 0 || neurons > UINT16_MAX * 256u)
        return fail(r->error, HEARTH_FORMAT, "%s: %s: is 0 or too large", r->name, name);
    r->layer.ffn.neuron_count = neurons;
    return folder_set_size(r, "feed_forward_length", neurons);
}

/* Reads what experts there are: how many a token uses, their neurons and groups, those that all tokens share. */
static hearth_status read_expert_sizes(folder_reader *r)
{
    static const char *const useds[] = {
        "num_experts_per_tok", "moe_num_active_primary_experts", "top_k_experts", "moe_k", "moe_topk",
        "moe_top_k",           "num_experts_per_token"};
    static const struct {
        const char *config_key, *key;
    } sizes[] = {{"n_group", "expert_group_count"},
                 {"num_expert_group", "expert_group_count"},
                 {"topk_group", "expert_group_used_count"},
                 {"n_shared_experts", "expert_shared_count"},
                 {"moe_num_shared_experts", "expert_shared_count"},
                 {"num_shared_experts", "expert_shared_count"},
                 {"num_shared_expert", "expert_shared_count"},
                 {"moe_shared_expert_intermediate_size", "expert_shared_feed_forward_length"},
                 {"moe_latent_size", "moe_latent_size"},
                 {"shared_expert_intermediate_size", "expert_shared_feed_forward_length"},
                 {"share_expert_dim", "expert_shared_feed_forward_length"},
                 {"shared_intermediate_size", "expert_shared_feed_forward_length"},
                 {"first_k_dense_replace", "leading_dense_block_count"},
                 {"num_dense_layers", "leading_dense_block_count"},
                 {"interleave_moe_layer_step", "interleave_moe_layer_step"},
                 {"moe_layer_start_index", "leading_dense_block_count"}};
    uint32_t used = 0, width = 0, size = 0;
    bool found, by_block;
    TRY(find_size(r, useds, sizeof useds / sizeof *useds, &used));
    TRY(folder_read_block_experts(r, &by_block));
    if (!by_block)
        TRY(folder_set_size(r, "expert_used_count", used));
    if (r->family->expert_width && !by_block) {
        TRY(get_same(r, r->family->expert_width, &width, &found));
        if (!found)
            return fail(r->error, HEARTH_FORMAT, "%s: %s: is missing", r->name, r->family->expert_width);
        TRY(folder_set_size(r, "expert_feed_forward_length", width));
    }
    r->layer.ffn.expert_neurons = r->family->expert_width ? width : r->layer.ffn.neuron_count;
    for (size_t i = 0; i < sizeof sizes / sizeof *sizes; i++) {
        TRY(get_same(r, sizes[i].config_key, &size, &found));
        if (found)
            TRY(folder_set_size(r, sizes[i].key, size));
    }
    return HEARTH_OK;
}

/* Reads which layers have experts. */
static hearth_status read_expert_layers(folder_reader *r)
{
    uint32_t period = 1;
    bool found;
    TRY(json_get_uint(r->config, "decoder_sparse_step", &period, &found, r->name, r->error));
    TRY(json_get_uint(r->config, "moe_layer_interval", &period, &found, r->name, r->error));
    TRY(folder_read_expert_list(r, &found));
    if (!found)
        TRY(json_get_uint(r->config, "moe_layer_freq", &period, &found, r->name, r->error));
    TRY(json_get_uint(r->config, "moe_every_n_layer", &period, &found, r->name, r->error));
    if (period != 1 || !come_first(json_object_get(r->config, "mlp_only_layers")) ||
        ends_early(r->config, r->hyper.layer_count))
        return fail(
            r->error, HEARTH_UNSUPPORTED,
            "%s: decoder_sparse_step, moe_layer_interval, moe_layer_freq, moe_every_n_layer, moe_layer_end_index, "
            "mlp_only_layers: layers without experts "
            "among others are not supported",
            r->name);
    TRY(read_dense_layers(r));
    return check_moe_layers(r);
}

/* Reads how scores choose experts and weigh them. */
static hearth_status read_shares(folder_reader *r)
{
    static const char *const scales[] = {"routed_scaling_factor", "route_scale", "router_scaling_factor",
                                         "moe_routed_scaling_factor", "moe_router_scaling_factor"};
    bool found, shares = !r->family->unshared, softmax = r->family->scoring == ROUTER_SOFTMAX;
    router_scoring scoring = r->family->scoring;
    double scale = 1;
    if (json_number_value(json_object_get(r->config, "moe_router_logit_softcapping")) != 0)
        return fail(r->error, HEARTH_UNSUPPORTED, "%s: moe_router_logit_softcapping: a cap is not supported", r->name);
    for (size_t i = 0; i < sizeof scales / sizeof *scales; i++) {
        TRY(folder_get_positive(r, r->config, r->name, scales[i], &scale, &found));
        if (found)
            TRY(folder_set_number(r, "expert_weights_scale", scale));
    }
    TRY(json_get_bool(r->config, "moe_primary_router_apply_softmax", &softmax, &found, r->name, r->error));
    if (softmax != (scoring == ROUTER_SOFTMAX))
        scoring = softmax ? ROUTER_SOFTMAX : ROUTER_SIGMOID;
    TRY(read_scoring(r, &scoring));
    TRY(check_average(r, &scoring));
    TRY(check_grouping(r));
    TRY(folder_set_size(r, "expert_gating_func", hyper_gating_functions[scoring]));
    TRY(json_get_bool(r->config, "norm_topk_prob", &shares, &found, r->name, r->error));
    TRY(json_get_bool(r->config, "moe_renormalize", &shares, &found, r->name, r->error));
    char key[KEY_SIZE];
    hyper_key(key, r->family, "expert_weights_norm");
    return checkpoint_set_bool(r->out, key, shares, r->error);
}

hearth_status folder_read_experts(folder_reader *r)
{
    static const char *const counts[] = {"num_local_experts", "num_experts", "n_routed_experts",
                                         "moe_num_primary_experts", "moe_num_experts"};
    uint32_t count = 0;
    bool found, has = true;
    TRY(find_size(r, counts, sizeof counts / sizeof *counts, &count));
    TRY(json_get_bool(r->config, "enable_moe_block", &has, &found, r->name, r->error));
    if (r->family->mixers == MIXERS_BLOCKS) /* transformers writes sizes of experts in any case */
        has = r->family->mixture;
    if (count == 0 || !has)
        return read_shared_width(r);
    r->layer.ffn.router.expert_count = count;
    TRY(folder_set_size(r, "expert_count", count));
    TRY(read_expert_sizes(r));
    TRY(read_expert_layers(r));
    return read_shares(r);
}
