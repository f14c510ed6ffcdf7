/* mix.c - the table of llama.cpp's mixes, and how its conditions are understood. */
#include "mix.h"

#include <fnmatch.h>
#include <stddef.h>
#include <string.h>
#include <strings.h>

/* ------------------------------------------------------------------ conditions */

static bool holds(mix_condition when, const mix_traits *t, const mix_place *p)
{
    uint32_t eighth = p->count / 8;
    bool first = p->index < eighth;
    switch (when) {
    case ALWAYS:
        return true;
    case FIRST_TWO:
        return p->index < 2;
    case FIRST_FOUR:
        return p->index < 4;
    case FIRST_SIXTEENTH:
        return p->index < p->count / 16;
    case FIRST_EIGHTH:
        return first;
    case FIRST_EIGHTH_ALIKE:
        return first && !t->importance;
    case FIRST_EIGHTH_WEIGHTED:
        return first && t->importance;
    case OUTER_AND_THIRD:
        return first || p->index >= 7 * p->count / 8 || (p->index - eighth) % 3 == 2;
    case FOUR_SHARE:
        return t->queries_per_key >= 4;
    case EIGHT_EXPERTS:
        return t->expert_count == 8;
    case OTHER_EXPERTS:
        return t->expert_count != 8;
    case OF_EXPERTS:
        return p->of_experts;
    case FINE_QUERIES:
        return t->fine_queries;
    }
    return false;
}

/* ------------------------------------------------------------------ the table */

/* The output of attention has five bits in most mixes where there are eight experts. */
#define FINE_OUTPUT                                      \
    {                                                    \
        MIX_ATTENTION_OUTPUT, EIGHT_EXPERTS, FORMAT_Q5_K \
    }

// clang-format off
static const quantize_mix mixes[] = {
    {"q2_k",      10, FORMAT_Q2_K,   {{MIX_VALUE, FOUR_SHARE, FORMAT_Q4_K}, {MIX_VALUE, ALWAYS, FORMAT_Q3_K}, {MIX_DOWN, ALWAYS, FORMAT_Q3_K},
                                      FINE_OUTPUT, {MIX_ATTENTION_OUTPUT, ALWAYS, FORMAT_Q3_K}}},
    {"q3_k_s",    11, FORMAT_Q3_K,   {FINE_OUTPUT}},
    {"q3_k_m",    12, FORMAT_Q3_K,   {{MIX_VALUE, FIRST_TWO, FORMAT_Q5_K}, {MIX_VALUE, ALWAYS, FORMAT_Q4_K},
                                      {MIX_DOWN, FIRST_SIXTEENTH, FORMAT_Q5_K}, {MIX_DOWN, ALWAYS, FORMAT_Q4_K},
                                      FINE_OUTPUT, {MIX_ATTENTION_OUTPUT, ALWAYS, FORMAT_Q4_K}}},
    {"q3_k_l",    13, FORMAT_Q3_K,   {{MIX_VALUE, ALWAYS, FORMAT_Q5_K}, {MIX_DOWN, ALWAYS, FORMAT_Q5_K},
                                      {MIX_ATTENTION_OUTPUT, OTHER_EXPERTS, FORMAT_Q5_K}}},
    {"q4_k_s",    14, FORMAT_Q4_K,   {{MIX_VALUE, FIRST_FOUR, FORMAT_Q5_K}, {MIX_DOWN, FIRST_EIGHTH, FORMAT_Q5_K}, FINE_OUTPUT}},
    {"q4_k_m",    15, FORMAT_Q4_K,   {{MIX_VALUE, OUTER_AND_THIRD, FORMAT_Q6_K}, {MIX_DOWN, OUTER_AND_THIRD, FORMAT_Q6_K}, FINE_OUTPUT}},
    {"q5_k_s",    16, FORMAT_Q5_K,   {{0}}},
    {"q5_k_m",    17, FORMAT_Q5_K,   {{MIX_VALUE, OUTER_AND_THIRD, FORMAT_Q6_K}, {MIX_DOWN, OUTER_AND_THIRD, FORMAT_Q6_K}}},
    {"q6_k",      18, FORMAT_Q6_K,   {{0}}},
    {"q4_0",       2, FORMAT_Q4_0,   {{MIX_DOWN, FIRST_EIGHTH_WEIGHTED, FORMAT_Q4_1}}},
    {"q4_1",       3, FORMAT_Q4_1,   {{0}}},
    {"q5_0",       8, FORMAT_Q5_0,   {{MIX_DOWN, FIRST_EIGHTH_WEIGHTED, FORMAT_Q5_1}}},
    {"q5_1",       9, FORMAT_Q5_1,   {{0}}},
    {"q8_0",       7, FORMAT_Q8_0,   {{0}}},
    {"iq4_nl",    25, FORMAT_IQ4_NL, {{MIX_VALUE, FOUR_SHARE, FORMAT_Q5_K}, {MIX_DOWN, FIRST_EIGHTH_ALIKE, FORMAT_Q5_K}, FINE_OUTPUT}},
    {"iq4_xs",    30, FORMAT_IQ4_XS, {{MIX_VALUE, FOUR_SHARE, FORMAT_Q5_K}, {MIX_DOWN, FIRST_EIGHTH_ALIKE, FORMAT_Q5_K}, FINE_OUTPUT}},
    {"mxfp4_moe", 38, FORMAT_Q8_0,   {{MIX_ROLES, OF_EXPERTS, FORMAT_MXFP4}}},
};
#define MIXES (sizeof mixes / sizeof *mixes)

/* What Falcon has in place of the mixes of these names: its matrices down and of attention's output bear coarser formats. */
static const quantize_mix falcon_mixes[] = {
    {"q2_k",      10, FORMAT_Q2_K,   {{MIX_VALUE, FOUR_SHARE, FORMAT_Q4_K}, {MIX_VALUE, ALWAYS, FORMAT_Q3_K}, {MIX_DOWN, ALWAYS, FORMAT_Q3_K}}},
    {"q3_k_m",    12, FORMAT_Q3_K,   {{MIX_VALUE, FIRST_TWO, FORMAT_Q5_K}, {MIX_VALUE, ALWAYS, FORMAT_Q4_K},
                                      {MIX_DOWN, FIRST_SIXTEENTH, FORMAT_Q5_K}, {MIX_DOWN, OUTER_AND_THIRD, FORMAT_Q4_K}}},
    {"q3_k_l",    13, FORMAT_Q3_K,   {{MIX_VALUE, ALWAYS, FORMAT_Q5_K}, {MIX_DOWN, ALWAYS, FORMAT_Q4_K},
                                      {MIX_ATTENTION_OUTPUT, ALWAYS, FORMAT_Q4_K}}},
    {"q4_k_s",    14, FORMAT_Q4_K,   {{MIX_VALUE, FIRST_FOUR, FORMAT_Q5_K}}},
    {"q4_k_m",    15, FORMAT_Q4_K,   {{MIX_VALUE, OUTER_AND_THIRD, FORMAT_Q6_K},
                                      {MIX_DOWN, FIRST_SIXTEENTH, FORMAT_Q6_K}, {MIX_DOWN, OUTER_AND_THIRD, FORMAT_Q5_K}}},
};

/* Matrices that keep their format, small ones all: llama.cpp's quantiser knows them by their names too. family: of which alone,
 * or NULL. */
static const struct {
    const char *family, *pattern, *reason;
} kept[] = {
    {NULL,        "*.ffn_gate_inp.weight",        "router"},
    {NULL,        "position_embd.weight",         "positions"},
    {NULL,        "*.time_mix_[wavg][12].weight", "low rank"},
    {NULL,        "*.laurel_[lr].weight",         "low rank"},
    {NULL,        "*altup_*",                     "streams"},
    {NULL,        "per_layer_model_proj.weight",  "small"},
    {"glm5*next", "*.hc_*",                       "streams"},
    {"glm5*next", "*.indexer*",                   "scores"},
    {"qwen4exp",  "*.indexer*",                  "scores"},
    {"minimax-m3", "*.indexer*",                 "scores"},
    {"glm5*next", "*.ssm_[fg]_[ab].weight",       "low rank"},
    {"glm5*next", "*.ssm_beta.weight",            "small"},
    {"glm5*next", "*.attn_kv_a_mqa.weight",       "compressed keys"},
    {"glm5*next", "*.attn_[kv]_b.weight",         "compressed keys"},
};

/* Rules of all mixes, before their own: small matrices of a large model. */
static const mix_rule common_rules[] = {
    {MIX_VALUE, EIGHT_EXPERTS, FORMAT_Q8_0},
    {MIX_KEY,   EIGHT_EXPERTS, FORMAT_Q8_0},
    {MIX_QUERY_MAP, FINE_QUERIES, FORMAT_Q8_0},
};

/* What takes the place of a format with blocks of 256 where rows are no multiple of that. */
static const struct {
    number_format from, to;
} fallbacks[] = {
    {FORMAT_Q2_K, FORMAT_Q4_0}, {FORMAT_Q3_K, FORMAT_Q4_0}, {FORMAT_Q4_K,   FORMAT_Q5_0},
    {FORMAT_Q5_K, FORMAT_Q5_1}, {FORMAT_Q6_K, FORMAT_Q8_0}, {FORMAT_IQ4_XS, FORMAT_IQ4_NL},
};
// clang-format on

const quantize_mix *mix_by_name(const char *name)
{
    for (size_t i = 0; i < MIXES; i++)
        if (strcasecmp(mixes[i].name, name) == 0)
            return &mixes[i];
    return NULL;
}

void mix_list(char *out, size_t size)
{
    out[0] = 0;
    for (size_t i = 0; i < MIXES; i++)
        append_name(out, size, mixes[i].name);
}

/* ------------------------------------------------------------------ choosing */

const char *mix_keeps(const char *family_name, const char *name)
{
    for (size_t i = 0; i < sizeof kept / sizeof *kept; i++)
        if ((!kept[i].family || fnmatch(kept[i].family, family_name, 0) == 0) && fnmatch(kept[i].pattern, name, 0) == 0)
            return kept[i].reason;
    return NULL;
}

/* Returns the mix of the same name that counts for a model. */
static const quantize_mix *mix_for(const quantize_mix *mix, const mix_traits *t)
{
    for (size_t i = 0; t->falcon && i < sizeof falcon_mixes / sizeof *falcon_mixes; i++)
        if (falcon_mixes[i].file_type == mix->file_type)
            return &falcon_mixes[i];
    return mix;
}

/* Returns the first rule that applies; NULL: none does. */
static const mix_rule *find_rule(const mix_rule *rules, size_t count, const mix_traits *t, const mix_place *p)
{
    for (size_t i = 0; i < count && rules[i].to != FORMAT_F32; i++)
        if ((rules[i].role == p->role || rules[i].role == MIX_ROLES) && holds(rules[i].when, t, p))
            return &rules[i];
    return NULL;
}

number_format mix_format(const quantize_mix *mix, const mix_traits *t, const mix_place *p)
{
    mix = mix_for(mix, t);
    if (p->role == MIX_HEAD)
        return mix->base == FORMAT_Q8_0 || t->falcon ? FORMAT_Q8_0 : FORMAT_Q6_K;
    const mix_rule *rule = find_rule(common_rules, sizeof common_rules / sizeof *common_rules, t, p);
    if (!rule)
        rule = find_rule(mix->rules, MIX_RULES, t, p);
    number_format to = rule ? rule->to : mix->base;
    /* A model of Llama 70B's shape: its values are an eighth as large as its queries, so more bits cost little. */
    bool large = t->layers == 80 && t->queries_per_key > 1;
    if (p->role == MIX_VALUE && large && (to == FORMAT_Q3_K || to == FORMAT_Q4_K))
        return FORMAT_Q5_K;
    return to;
}

number_format mix_fallback(number_format wanted)
{
    for (size_t i = 0; i < sizeof fallbacks / sizeof *fallbacks; i++)
        if (fallbacks[i].from == wanted)
            return fallbacks[i].to;
    return FORMAT_F16;
}

/* ------------------------------------------------------------------ of a model */

/* Returns how many heads of queries share keys in the layer that llama.cpp asks: the first, which has none in families whose files
 * say it layer by layer and begin with a recurrent one. Files of latent attention with both its maps in one say that none do. */
static uint32_t group_of(const hearth_model *model)
{
    uint32_t i = 0;
    while (model->family->mixers == MIXERS_LISTED && i + 1 < model->hyper.layer_count &&
           !model->layers[i].attention.kv_head_count)
        i++;
    const attention_shape *a = &model->layers[i].attention;
    if (model->layers[i].key_value_up.rows > 0)
        return 1;
    return a->kv_head_count > 0 ? a->head_count / a->kv_head_count : 0;
}

mix_traits mix_traits_of(const hearth_model *model, bool importance)
{
    mix_traits t = {.layers = model->hyper.layer_count,
                    .queries_per_key = group_of(model),
                    .importance = importance,
                    .fine_queries = fnmatch("glm5*next", model->family->name, 0) == 0,
                    .falcon = strcmp(model->family->name, "falcon") == 0};
    for (uint32_t i = 0; i < t.layers; i++) {
        const model_layer *l = &model->layers[i];
        t.expert_count = l->ffn.router.expert_count > t.expert_count ? l->ffn.router.expert_count : t.expert_count;
    }
    return t;
}

/* The matrices whose role counts, and what is in their names: llama.cpp knows them by these, so that matrices of RWKV and of latent
 * attention under other names have no role. */
static const struct {
    size_t field; /* of model_layer */
    mix_role role;
    const char *named;
} roles[] = {
    {offsetof(model_layer, v), MIX_VALUE, "attn_v."},
    {offsetof(model_layer, qkv), MIX_VALUE, "attn_qkv."},
    {offsetof(model_layer, convolved), MIX_VALUE, "attn_qkv."},
    {offsetof(model_layer, key_value_up), MIX_VALUE, "attn_kv_b."},
    {offsetof(model_layer, k), MIX_KEY, "attn_k."},
    {offsetof(model_layer, index_key), MIX_KEY, "attn_k."},
    {offsetof(model_layer, attention_output), MIX_ATTENTION_OUTPUT, "attn_output."},
    {offsetof(model_layer, recurrent_output), MIX_ATTENTION_OUTPUT, "attn_output."},
    {offsetof(model_layer, query_in), MIX_QUERY_MAP, "attn_q_a."},
    {offsetof(model_layer, q), MIX_QUERY_MAP, "attn_q_b."},
    {offsetof(model_layer, down), MIX_DOWN, "ffn_down"},
    {offsetof(model_layer, down_t), MIX_DOWN, "ffn_down"},
    {offsetof(model_layer, shared.down), MIX_DOWN, "ffn_down"},
    {offsetof(model_layer, shared.down_t), MIX_DOWN, "ffn_down"},
    {offsetof(model_layer, network_gates.down), MIX_DOWN, "ffn_down"},
};

/* Returns whether a layer has the block that matrices of this role belong to. */
static bool has_role(const model_layer *l, mix_role role)
{
    if (role == MIX_DOWN || role == MIX_OTHER)
        return role == MIX_OTHER || l->ffn.neuron_count > 0;
    bool latent = l->attention.compressed > 0 && l->key_value_up.rows == 0;
    bool keys = l->mixer == MIXER_ATTENTION || l->recurrent.rule == RECURRENCE_KDA;
    bool joined = l->mixer == MIXER_RECURRENT && l->recurrent.rule == RECURRENCE_DELTA && l->delta_in.rows == 0;
    return role == MIX_VALUE ? (keys && !latent) || joined : keys;
}

/* Layers are counted among those that have such a matrix: all of them, except in models whose layers differ in kind. As llama.cpp does
 * it, those with a matrix down are so many of all layers, and with experts a layer's own number counts. */
mix_place mix_place_of(const hearth_model *model, const tensor_rule *rule, uint32_t layer, bool is_head)
{
    mix_place p = {.role = is_head ? MIX_HEAD : MIX_OTHER, .of_experts = (rule->flags & TENSOR_EXPERTS) != 0};
    bool of_layer = strchr(rule->name, '%') != NULL; /* else the field is one of the model */
    for (size_t i = 0; of_layer && i < sizeof roles / sizeof *roles; i++)
        if (roles[i].field == rule->field && strstr(rule->name, roles[i].named))
            p.role = roles[i].role;
    for (uint32_t i = 0; i < model->hyper.layer_count; i++) {
        bool counts = is_head || has_role(&model->layers[i], p.role);
        p.index += counts && i < layer;
        p.count += counts;
    }
    if (p.role == MIX_DOWN) {
        p.count = model->hyper.layer_count;
        p.index = model->layers[layer].ffn.router.expert_count > 0 ? layer : p.index;
    }
    return p;
}
