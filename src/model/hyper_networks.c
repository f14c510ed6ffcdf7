/* hyper_networks.c - reads the networks of layers: their activation and its limits, which have experts, and how those are chosen. */
#include "hyper_reader.h"

#include <math.h>
#include <stdio.h>

/* Most values that an expert reads where this is not the width of the embedding. */
#define LATENT_LIMIT (1u << 20)

hearth_status hyper_read_activation(const hyper_reader *r, ffn_shape *f, const char *override)
{
    char key[KEY_SIZE], known[ACTIVATION_LIST_SIZE];
    hyper_key(key, r->family, "hidden_activation");
    span name = span_of(ffn_activations[r->source->powerinfer ? FFN_RELU : r->family->activation].name);
    bool found;
    TRY(checkpoint_get_string(r->source, key, &name, &found, r->error));
    if (override)
        name = span_of(override);
    f->activation = ffn_activation_by_name(name.data, name.size);
    ffn_activation_list(known, sizeof known);
    if (f->activation == FFN_ACTIVATION_COUNT && override)
        return fail(r->error, HEARTH_INVALID, "FFN activation %s: is not known (there are: %s)", override, known);
    if (f->activation == FFN_ACTIVATION_COUNT)
        return fail(r->error, HEARTH_UNSUPPORTED, "%s: key %s: %.*s is not supported (known: %s)", r->source->path, key,
                    name.size < 100 ? (int)name.size : 100, name.data, known);
    if (ffn_activations[f->activation].of_both)
        f->gating = FFN_GATED_BOTH;
    if (ffn_activations[f->activation].limits && f->gating != FFN_GATED)
        return hyper_fail(r, HEARTH_UNSUPPORTED, "hidden_activation", "limits a gate, which this architecture has not");
    if (!ffn_activations[f->activation].has_threshold)
        return HEARTH_OK;
    hyper_key(key, r->family, "hidden_activation_param");
    f->threshold = r->family->default_threshold;
    TRY(checkpoint_get_f32(r->source, key, &f->threshold, f->threshold > 0 ? &found : NULL, r->error));
    if (!isfinite(f->threshold) || f->threshold < 0)
        return hyper_fail(r, HEARTH_FORMAT, "hidden_activation_param", "is not a threshold of 0 or more");
    return HEARTH_OK;
}

/* The last one is hearth's own. */
const uint32_t hyper_gating_functions[ROUTER_SCORINGS] = {
    [ROUTER_SOFTMAX] = 1, [ROUTER_SIGMOID] = 2, [ROUTER_ROOT_SOFTPLUS] = 4, [ROUTER_SIGMOID_OF_CHOSEN] = 256};

/* That of a softmax over the chosen ones, which is what shares of all experts become that are divided by their sum. */
#define SOFTMAX_OF_CHOSEN 3

/* Returns whether experts are chosen by a correction too, as the first layer that has them says. */
static bool has_correction(const hyper_reader *r, uint32_t layer)
{
    return hyper_layer_tensor(r, "blk.%u.exp_probs_b.bias", layer) != NULL;
}

/* Reads how scores are made. Files of GLM-4.7-Flash lack the key: with latent attention, only sigmoids are corrected. */
static hearth_status read_scoring(const hyper_reader *r, router_shape *out)
{
    uint32_t function = 0, dense = 0;
    bool found;
    TRY(hyper_size(r, "expert_gating_func", &function, &found));
    bool known = function == 0 || function == SOFTMAX_OF_CHOSEN;
    out->scoring = function == SOFTMAX_OF_CHOSEN ? ROUTER_SOFTMAX : out->scoring;
    for (router_scoring i = 0; i < ROUTER_SCORINGS && !known; i++) {
        known = hyper_gating_functions[i] == function;
        out->scoring = known ? i : out->scoring;
    }
    if (!known)
        return hyper_fail(r, HEARTH_UNSUPPORTED, "expert_gating_func", "is not supported");
    TRY(hyper_size(r, "leading_dense_block_count", &dense, &found));
    if (function == 0 && r->family->latent_attention && has_correction(r, dense))
        out->scoring = ROUTER_SIGMOID;
    return HEARTH_OK;
}

/* Reads how a layer's experts are chosen. */
static hearth_status read_router(const hyper_reader *r, uint32_t layer, router_shape *out)
{
    bool found;
    char key[KEY_SIZE];
    uint32_t by_token = 0;
    TRY(hyper_size(r, "hash_layer_count", &by_token, &found));
    *out = (router_shape){.scoring = r->family->scoring,
                          .by_token = r->family->summaries && layer < by_token,
                          .shares = !r->family->file_unshared,
                          .early = r->family->router_early,
                          .weighs_input = r->family->input_shares,
                          .input_scale = 1,
                          .shared_scale = 1,
                          .scale = 1};
    TRY(hyper_size(r, "expert_count", &out->expert_count, NULL));
    TRY(hyper_layer_size(r, "expert_used_count", layer, &out->used, NULL));
    TRY(hyper_size(r, "expert_group_count", &out->group_count, &found));
    TRY(hyper_size(r, "expert_group_used_count", &out->group_used, &found));
    TRY(hyper_positive(r, "expert_weights_scale", &out->scale, &found));
    hyper_key(key, r->family, "expert_weights_norm");
    TRY(checkpoint_get_bool(r->source, key, &out->shares, &found, r->error));
    TRY(read_scoring(r, out));
    if (out->group_count > 1 && out->scoring == ROUTER_SOFTMAX && r->family->latent_attention)
        return hyper_fail(r, HEARTH_UNSUPPORTED, "expert_group_count",
                          "groups chosen by their best expert are not supported");
    if (out->expert_count > EXPERT_LIMIT)
        return hyper_fail(r, HEARTH_FORMAT, "expert_count", "is too large");
    if (out->used == 0 || out->used > out->expert_count)
        return hyper_fail(r, HEARTH_FORMAT, "expert_used_count", "is not a number from 1 to expert_count");
    if (out->group_count > 1 &&
        (out->expert_count % out->group_count != 0 || out->group_used == 0 || out->group_used > out->group_count ||
         out->used > out->expert_count / out->group_count * out->group_used))
        return hyper_fail(r, HEARTH_FORMAT, "expert_group_count",
                          "does not fit expert_count and the numbers that are used");
    return HEARTH_OK;
}

/* Returns whether a layer has a network. Where all have experts, its neurons are not known before those. */
static bool is_network(const hyper_reader *r, const ffn_shape *f)
{
    return f->neuron_count > 0 || (r->family->mixers != MIXERS_BLOCKS && r->family->mixers != MIXERS_PARTS);
}

/* Returns how many layers without a router lie before the first that has one; 0 where none has. */
static uint32_t layers_without_router(const hyper_reader *r)
{
    for (uint32_t i = 0; i < r->hyper->layer_count; i++)
        if (hyper_layer_tensor(r, "blk.%u.ffn_gate_inp.weight", i))
            return i;
    return 0;
}

/* Gives the layers their experts: those behind the leading ones without, and of these the last of every so many. */
static hearth_status read_experts(const hyper_reader *r)
{
    uint32_t count = 0, dense = 0, shared = r->family->one_shared, shared_neurons = 0, latent = 0, period = 1;
    bool found;
    TRY(hyper_size(r, "expert_count", &count, &found));
    if (count == 0)
        return HEARTH_OK;
    TRY(hyper_size(r, "leading_dense_block_count", &dense, &found));
    if (!found && r->family->dense_unsaid)
        dense = layers_without_router(r);
    TRY(hyper_size(r, "interleave_moe_layer_step", &period, &found));
    if (period == 0)
        return hyper_fail(r, HEARTH_FORMAT, "interleave_moe_layer_step", "is 0");
    TRY(hyper_size(r, "expert_shared_count", &shared, &found));
    TRY(hyper_size(r, "expert_shared_feed_forward_length", &shared_neurons, &found));
    TRY(hyper_size(r, "moe_latent_size", &latent, &found));
    if (latent > LATENT_LIMIT)
        return hyper_fail(r, HEARTH_FORMAT, "moe_latent_size", "is too large");
    if (latent > 0 && !family_has_latent_experts(r->family))
        return hyper_fail(r, HEARTH_UNSUPPORTED, "moe_latent_size", "no layer of this architecture has such experts");
    for (uint32_t i = dense; i < r->hyper->layer_count; i++) {
        ffn_shape *f = &r->model->layers[i].ffn;
        if (!is_network(r, f) || !in_pattern((layer_pattern){.period = period}, i))
            continue;
        f->latent = latent;
        TRY(hyper_layer_size(r, "expert_feed_forward_length", i, &f->expert_neurons, &found));
        TRY(read_router(r, i, &f->router));
        uint64_t routed = (uint64_t)count * f->expert_neurons;
        uint64_t unrouted = shared_neurons ? shared_neurons : (uint64_t)shared * f->expert_neurons;
        if (r->family->dense_beside) {
            unrouted = f->neuron_count;
            f->router.input_scale = (float)(1 / sqrt((double)r->hyper->embedding_length));
        }
        if (routed == 0 || routed > NEURON_LIMIT)
            return hyper_fail(r, HEARTH_FORMAT, "expert_feed_forward_length",
                              "times expert_count is not from 1 to 2^24");
        if (unrouted > 0 && !family_has_shared_expert(r->family))
            return hyper_fail(r, HEARTH_UNSUPPORTED,
                              shared ? "expert_shared_count" : "expert_shared_feed_forward_length",
                              "no layer of this architecture has a shared expert");
        if (unrouted > NEURON_LIMIT - routed)
            return hyper_fail(r, HEARTH_FORMAT,
                              shared_neurons ? "expert_shared_feed_forward_length" : "expert_shared_count",
                              "makes more than 2^24 neurons");
        if (r->family->shared_average && unrouted > 0) {
            f->router.scale /= 2;
            f->router.shared_scale = 0.5f;
        }
        f->shared_neurons = (uint32_t)unrouted;
        f->neuron_count = (uint32_t)(routed + unrouted);
    }
    return HEARTH_OK;
}

/* Refuses layers of a kind that the family does not have: with experts, or without. */
static hearth_status check_networks(const hyper_reader *r)
{
    bool some = false, all = true;
    for (uint32_t i = 0; i < r->hyper->layer_count; i++) {
        const ffn_shape *f = &r->model->layers[i].ffn;
        some |= f->router.expert_count > 0;
        all &= f->router.expert_count > 0 || !is_network(r, f);
    }
    if (some && !family_has_network(r->family, true))
        return hyper_fail(r, HEARTH_UNSUPPORTED, "expert_count", "no layer of this architecture has experts");
    if (!all && !family_has_network(r->family, false))
        return hyper_fail(r, HEARTH_UNSUPPORTED, some ? "leading_dense_block_count" : "expert_count",
                          "every layer of this architecture has experts");
    return HEARTH_OK;
}

/* Reads in which layers only first values far above their mean count. */
static hearth_status read_cuts(const hyper_reader *r)
{
    char key[KEY_SIZE];
    hyper_key(key, r->family, ACTIVATION_CUTS);
    const key_value *e = checkpoint_find(r->source, key);
    if (!e)
        return HEARTH_OK;
    if (e->type != VALUE_ARRAY || e->item_type != VALUE_F32 || e->count != r->hyper->layer_count)
        return hyper_fail(r, HEARTH_FORMAT, ACTIVATION_CUTS, "is not an array of one number per layer");
    for (uint32_t i = 0; i < r->hyper->layer_count; i++) {
        ffn_shape *f = &r->model->layers[i].ffn;
        float cut = ((const float *)e->as.items)[i];
        if (isinf(cut) && cut < 0)
            continue;
        if (!isfinite(cut) || f->router.expert_count > 0)
            return hyper_fail(r, HEARTH_FORMAT, ACTIVATION_CUTS,
                              "has a number that is not finite, or one of a layer with experts");
        f->cuts = true;
        f->cut = cut;
    }
    return HEARTH_OK;
}

/* Reads a number of xielu, of a layer. */
static hearth_status read_term(const hyper_reader *r, const char *name, uint32_t layer, float *out)
{
    char key[KEY_SIZE];
    snprintf(key, sizeof key, XIELU_KEY, name);
    const key_value *e = checkpoint_find(r->source, key);
    if (!e || e->type != VALUE_ARRAY)
        TRY(checkpoint_get_f32(r->source, key, out, NULL, r->error));
    else if (e->item_type != VALUE_F32 || e->count != r->hyper->layer_count)
        return fail(r->error, HEARTH_FORMAT, "%s: key %s: is not an array of one number per layer", r->source->path,
                    key);
    else
        *out = ((const float *)e->as.items)[layer];
    return isfinite(*out) ? HEARTH_OK
                          : fail(r->error, HEARTH_FORMAT, "%s: key %s: is not finite", r->source->path, key);
}

static double softplus(double x)
{
    return x > 0 ? x + log1p(exp(-x)) : log1p(exp(x));
}

/* Reads what xielu is made of, in layers that have it. In the published program exp(x) - 1 is nowhere above exp(eps) - 1, which changes
 * values between a negative eps and zero by as much as eps: one further from zero than twice the usual -1e-6 is refused. */
static hearth_status read_curves(const hyper_reader *r)
{
    static const char *const names[XIELU_TERMS] = XIELU_NAMES;
    for (uint32_t i = 0; i < r->hyper->layer_count; i++) {
        ffn_shape *f = &r->model->layers[i].ffn;
        float terms[XIELU_TERMS] = {0};
        if (f->activation != FFN_XIELU)
            continue;
        for (size_t k = 0; k < XIELU_TERMS; k++)
            TRY(read_term(r, names[k], i, &terms[k]));
        if (terms[XIELU_EPS] < -2e-6f)
            return fail(r->error, HEARTH_UNSUPPORTED, "%s: key xielu.eps: %g is not supported", r->source->path,
                        (double)terms[XIELU_EPS]);
        f->curve = (activation_curve){(float)softplus((double)terms[XIELU_POSITIVE]),
                                      terms[XIELU_LINEAR] + (float)softplus((double)terms[XIELU_NEGATIVE]),
                                      terms[XIELU_LINEAR]};
        if (!isfinite(f->curve.negative))
            return fail(r->error, HEARTH_FORMAT, "%s: key xielu.alpha_n: with xielu.beta it is not finite",
                        r->source->path);
    }
    return HEARTH_OK;
}

/* Reads a limit of a layer's activations. */
static hearth_status read_limit(const hyper_reader *r, const char *name, uint32_t layer, float *out)
{
    char key[KEY_SIZE];
    hyper_key(key, r->family, name);
    const key_value *e = checkpoint_find(r->source, key);
    bool found;
    if (!e || e->type != VALUE_ARRAY)
        TRY(checkpoint_get_f32(r->source, key, out, &found, r->error));
    else if (e->item_type != VALUE_F32 || e->count != r->hyper->layer_count + (uint64_t)r->hyper->draft_layers)
        return hyper_fail(r, HEARTH_FORMAT, name, "is not an array of one number per layer");
    else
        *out = ((const float *)e->as.items)[layer];
    return isfinite(*out) && *out >= 0 ? HEARTH_OK : hyper_fail(r, HEARTH_FORMAT, name, "has no limit of 0 or more");
}

/* Reads the limits of SiLU: of experts, and of the shared one and of networks without experts. */
static hearth_status read_limits(const hyper_reader *r)
{
    for (uint32_t i = 0; i < r->hyper->layer_count; i++) {
        ffn_shape *f = &r->model->layers[i].ffn;
        float routed = 0, shared = 0;
        if (!r->family->silu_limits)
            return HEARTH_OK;
        TRY(read_limit(r, EXPERT_LIMITS_KEY, i, &routed));
        shared = r->family->limits_first && !r->family->limits_experts ? routed : 0;
        TRY(read_limit(r, SHARED_LIMITS_KEY, i, &shared));
        if (routed == 0 && shared == 0)
            continue;
        if (f->activation != FFN_SILU)
            return hyper_fail(r, HEARTH_UNSUPPORTED, EXPERT_LIMITS_KEY, "limits another activation than silu");
        f->threshold = f->router.expert_count > 0 ? routed : shared;
        f->shared_threshold = f->shared_neurons > 0 ? shared : f->threshold;
        bool limited = f->threshold > 0 || f->shared_threshold > 0;
        f->activation = !limited ? FFN_SILU : r->family->limits_first ? FFN_SILU_CLAMPED : FFN_SILU_LIMITED;
    }
    return HEARTH_OK;
}

hearth_status hyper_read_networks(const hyper_reader *r)
{
    TRY(read_experts(r));
    TRY(check_networks(r));
    TRY(read_cuts(r));
    TRY(read_curves(r));
    return read_limits(r);
}
