/* profile_json.c - a profile as JSON, for programs and for tune files. */
#include "profile.h"

static json_t *unions_json(const profile_layer *l)
{
    json_t *a = json_array();
    for (size_t k = 1; k <= PROFILE_UNION; k++)
        json_array_append_new(a, json_real(l->union_density[k]));
    return a;
}

static json_t *bins_json(const profile_layer *l)
{
    json_t *a = json_array();
    for (size_t i = 0; i < PROFILE_BINS; i++)
        json_array_append_new(a, json_integer((json_int_t)l->by_density[i]));
    return a;
}

/* The figures of experts, each by its number. */
static json_t *experts_json(const profile_layer *l)
{
    json_t *tokens = json_array(), *density = json_array();
    for (uint32_t e = 0; e < l->expert_count; e++) {
        json_array_append_new(tokens, json_integer((json_int_t)l->experts[e].tokens));
        json_array_append_new(density, l->experts[e].tokens > 0 ? json_real(l->experts[e].density) : json_null());
    }
    return json_pack("{s:f, s:f, s:o, s:o}", "routed_density", l->routed_density, "shared_density", l->shared_density,
                     "tokens", tokens, "density", density);
}

/* Returns null for a layer without a network. */
static json_t *layer_json(const profile_layer *l)
{
    if (l->neuron_count == 0)
        return json_null();
    json_t *o = json_pack("{s:i, s:f, s:f, s:f, s:f, s:f, s:f, s:f, s:f, s:o, s:o}", "neurons", (int)l->neuron_count,
                          "density", l->density, "considered_density", l->considered_density, "least_density",
                          l->least_density, "median_density", l->median_density, "high_density", l->high_density,
                          "gate_density", l->gate_density, "hot_share_80", l->hot_share[0], "hot_share_95",
                          l->hot_share[1], "union_density", unions_json(l), "tokens_by_density", bins_json(l));
    if (o && l->above > 0)
        json_object_set_new(o, "counted_above", json_real((double)l->above));
    if (o && l->expert_count > 0)
        json_object_set_new(o, "experts", experts_json(l));
    return o;
}

/* Returns the agreement of the hot neurons alone; null where it was not measured. */
static json_t *probes_json(const profile *p)
{
    if (p->probed_tokens == 0)
        return json_null();
    json_t *a = json_array();
    for (size_t i = 0; i < PROFILE_PROBES; i++)
        json_array_append_new(
            a, json_pack("{s:f, s:f}", "share", profile_probe_shares[i], "agreement", p->hot_only_agreement[i]));
    return json_pack("{s:I, s:o}", "tokens", (json_int_t)p->probed_tokens, "top1", a);
}

json_t *profile_json(const profile *p)
{
    json_t *layers = json_array(), *unions = json_array();
    for (uint32_t i = 0; i < p->layer_count; i++)
        json_array_append_new(layers, layer_json(&p->layers[i]));
    for (size_t k = 1; k <= PROFILE_UNION; k++) {
        double sum = 0;
        for (uint32_t i = 0; i < p->layer_count; i++)
            sum += p->layers[i].union_density[k];
        json_array_append_new(unions, json_real(sum / p->networks));
    }
    return json_pack("{s:I, s:I, s:f, s:f, s:f, s:f, s:f, s:o, s:o, s:o}", "tokens", (json_int_t)p->tokens,
                     "measured_tokens", (json_int_t)p->measured_tokens, "seconds", p->seconds, "density", p->density,
                     "considered_density", p->considered_density, "hot_share_80", p->hot_share[0], "hot_share_95",
                     p->hot_share[1], "union_density", unions, "hot_only", probes_json(p), "layers", layers);
}
