/* family.c - the tables: families, the tensors they have, FFN activations.
 *
 * To add a family, add a row to families[], with the rules of a related family or a table of its own. */
#include "family.h"

#include "model.h"

#include <stdio.h>
#include <string.h>

// clang-format off
const ffn_activation_row ffn_activations[FFN_ACTIVATION_COUNT] = {
    /*              name       kernel           threshold */
    [FFN_SILU]    = {"silu",    ACTIVATION_SILU, false},
    [FFN_RELU]    = {"relu",    ACTIVATION_RELU, false},
    [FFN_FATRELU] = {"fatrelu", ACTIVATION_RELU, true},
};

#define MODEL(field) offsetof(struct hearth_model, field)
#define LAYER(field) offsetof(model_layer, field)
#define NO_FIELD 0

static const tensor_rule llama_tensors[] = {
    {"token_embd.weight",  "model.embed_tokens.weight", MODEL(embedding),
        DIMENSION_VOCABULARY, DIMENSION_EMBEDDING, DIMENSION_NONE, TENSOR_EMBEDDING},
    {"output_norm.weight", "model.norm.weight",         MODEL(output_norm),
        DIMENSION_NONE, DIMENSION_EMBEDDING, DIMENSION_NONE, 0},
    {"output.weight",      "lm_head.weight",            MODEL(head),
        DIMENSION_VOCABULARY, DIMENSION_EMBEDDING, DIMENSION_NONE, TENSOR_HEAD | TENSOR_OPTIONAL},
    /* llama3's scaling: the divisor of each rotary frequency */
    {"rope_freqs.weight",  NULL,                        MODEL(rope_factors),
        DIMENSION_NONE, DIMENSION_ROPE_PAIRS, DIMENSION_NONE, TENSOR_CONSTANT | TENSOR_OPTIONAL},
};

#define FOLDER_LAYER "model.layers.%u."

static const tensor_rule llama_layer_tensors[] = {
    {"blk.%u.attn_norm.weight",   FOLDER_LAYER "input_layernorm.weight",          LAYER(attention_norm),
        DIMENSION_NONE,      DIMENSION_EMBEDDING, DIMENSION_NONE,     0},
    {"blk.%u.attn_q.weight",      FOLDER_LAYER "self_attn.q_proj.weight",         LAYER(q),
        DIMENSION_QUERY,     DIMENSION_EMBEDDING, DIMENSION_HEADS,    0},
    {"blk.%u.attn_k.weight",      FOLDER_LAYER "self_attn.k_proj.weight",         LAYER(k),
        DIMENSION_KEY,       DIMENSION_EMBEDDING, DIMENSION_KV_HEADS, 0},
    {"blk.%u.attn_v.weight",      FOLDER_LAYER "self_attn.v_proj.weight",         LAYER(v),
        DIMENSION_KEY,       DIMENSION_EMBEDDING, DIMENSION_NONE,     0},
    {"blk.%u.attn_output.weight", FOLDER_LAYER "self_attn.o_proj.weight",         LAYER(attention_output),
        DIMENSION_EMBEDDING, DIMENSION_QUERY,     DIMENSION_NONE,     0},
    {"blk.%u.ffn_norm.weight",    FOLDER_LAYER "post_attention_layernorm.weight", LAYER(ffn_norm),
        DIMENSION_NONE,      DIMENSION_EMBEDDING, DIMENSION_NONE,     0},
    {"blk.%u.ffn_gate.weight",    FOLDER_LAYER "mlp.gate_proj.weight",            LAYER(gate),
        DIMENSION_NEURONS,   DIMENSION_EMBEDDING, DIMENSION_NONE,     0},
    {"blk.%u.ffn_up.weight",      FOLDER_LAYER "mlp.up_proj.weight",              LAYER(up),
        DIMENSION_NEURONS,   DIMENSION_EMBEDDING, DIMENSION_NONE,     0},
    {"blk.%u.ffn_down.weight",    FOLDER_LAYER "mlp.down_proj.weight",            LAYER(down),
        DIMENSION_EMBEDDING, DIMENSION_NEURONS,   DIMENSION_NONE,     TENSOR_STOCK},
    {"blk.%u.ffn_down_t.weight",  NULL,                                           LAYER(down_t),
        DIMENSION_NEURONS,   DIMENSION_EMBEDDING, DIMENSION_NONE,     TENSOR_NEURON_MAJOR},
    {"blk.%u.ffn_order",          NULL,                                           LAYER(order),
        DIMENSION_NONE,      DIMENSION_NEURONS,   DIMENSION_NONE,     TENSOR_NEURON_MAJOR | TENSOR_INTEGERS |
                                                                      TENSOR_OPTIONAL},
    /* biases of the FFN; PowerInfer's name for the bias of down has the _t too, but it is the same vector */
    {"blk.%u.ffn_gate.bias",      FOLDER_LAYER "mlp.gate_proj.bias",              LAYER(gate_bias),
        DIMENSION_NONE,      DIMENSION_NEURONS,   DIMENSION_NONE,     TENSOR_MLP_BIAS | TENSOR_OPTIONAL},
    {"blk.%u.ffn_up.bias",        FOLDER_LAYER "mlp.up_proj.bias",                LAYER(up_bias),
        DIMENSION_NONE,      DIMENSION_NEURONS,   DIMENSION_NONE,     TENSOR_MLP_BIAS | TENSOR_OPTIONAL},
    {"blk.%u.ffn_down.bias",      FOLDER_LAYER "mlp.down_proj.bias",              LAYER(down_bias),
        DIMENSION_NONE,      DIMENSION_EMBEDDING, DIMENSION_NONE,     TENSOR_MLP_BIAS | TENSOR_OPTIONAL},
    {"blk.%u.ffn_down_t.bias",    NULL,                                           LAYER(down_bias),
        DIMENSION_NONE,      DIMENSION_EMBEDDING, DIMENSION_NONE,     TENSOR_NEURON_MAJOR | TENSOR_OPTIONAL},
    {"blk.%u.fc1.weight",         NULL,                                           LAYER(fc1),
        DIMENSION_RANK,      DIMENSION_EMBEDDING, DIMENSION_NONE,     TENSOR_PREDICTOR},
    {"blk.%u.fc2.weight",         NULL,                                           LAYER(fc2),
        DIMENSION_NEURONS,   DIMENSION_RANK,      DIMENSION_NONE,     TENSOR_PREDICTOR},
    /* unscaled rotary frequencies, which early converters and transformers stored */
    {"blk.%u.attn_rot_embd.weight", FOLDER_LAYER "self_attn.rotary_emb.inv_freq", NO_FIELD,
        DIMENSION_NONE,      DIMENSION_ROPE_PAIRS, DIMENSION_NONE,    TENSOR_IGNORED | TENSOR_OPTIONAL},
};

#define COUNT(table) (sizeof(table) / sizeof(table)[0])
#define LLAMA_TENSORS llama_tensors, COUNT(llama_tensors), llama_layer_tensors, COUNT(llama_layer_tensors)

const family families[] = {
    /* name     model_type architecture          window       gating          activation tensors */
    {"llama",   "llama",   "LlamaForCausalLM",   false, 0,    FFN_GATED,      FFN_SILU,  LLAMA_TENSORS},
    /* GGUF has no architecture for mistral: it is a llama with llama.attention.sliding_window */
    {"llama",   "mistral", "MistralForCausalLM", true,  4096, FFN_GATED,      FFN_SILU,  LLAMA_TENSORS},
    /* TurboSparse: mistral with a ReLU on gate and on up */
    {"bamboo",  "bamboo",  "BambooForCausalLM",  true,  0,    FFN_GATED_BOTH, FFN_RELU,  LLAMA_TENSORS},
};
const size_t family_count = COUNT(families);
// clang-format on

ffn_activation ffn_activation_by_name(const char *name, size_t size)
{
    size_t i = 0;
    while (i < FFN_ACTIVATION_COUNT && !span_equal(span_of(ffn_activations[i].name), (span){name, size}))
        i++;
    return (ffn_activation)i;
}

void append_name(char *out, size_t size, const char *name)
{
    size_t used = strlen(out);
    snprintf(out + used, size - used, "%s%s", used ? ", " : "", name);
}

void ffn_activation_list(char *out, size_t size)
{
    out[0] = 0;
    for (size_t i = 0; i < FFN_ACTIVATION_COUNT; i++)
        append_name(out, size, ffn_activations[i].name);
}

const family *family_by_name(span name)
{
    for (size_t i = 0; i < family_count; i++)
        if (span_equal(span_of(families[i].name), name))
            return &families[i];
    return NULL;
}

void family_list(char *out, size_t size, bool model_types)
{
    out[0] = 0;
    for (size_t i = 0; i < family_count; i++)
        if (model_types)
            append_name(out, size, families[i].model_type);
        else if (family_by_name(span_of(families[i].name)) == &families[i])
            append_name(out, size, families[i].name);
}

void tensor_rule_name(char out[TENSOR_NAME_SIZE], const tensor_rule *rule, uint32_t layer, bool folder)
{
    const char *pattern = folder && rule->folder_name ? rule->folder_name : rule->name;
    snprintf(out, TENSOR_NAME_SIZE, pattern, layer);
}

/* Returns true where name is the pattern with a plain decimal number (no leading zeros) in place of %u; *layer is
 * that number, or 0 where the pattern has no %u. */
static bool matches(const char *pattern, const char *name, uint32_t *layer)
{
    const char *hole = strstr(pattern, "%u");
    *layer = 0;
    if (!hole)
        return strcmp(pattern, name) == 0;
    size_t before = (size_t)(hole - pattern);
    if (strncmp(pattern, name, before) != 0)
        return false;
    const char *digits = name + before;
    size_t count = strspn(digits, "0123456789");
    if (count == 0 || count > 9 || (digits[0] == '0' && count > 1))
        return false;
    for (size_t i = 0; i < count; i++)
        *layer = *layer * 10 + (uint32_t)(digits[i] - '0');
    return strcmp(hole + 2, digits + count) == 0;
}

static const tensor_rule *find_in(const tensor_rule *rules, size_t count, const char *name, bool folder,
                                  uint32_t *layer)
{
    for (size_t i = 0; i < count; i++) {
        const char *pattern = folder ? rules[i].folder_name : rules[i].name;
        if (pattern && matches(pattern, name, layer))
            return &rules[i];
    }
    return NULL;
}

const tensor_rule *family_find_rule(const family *f, const char *name, bool folder, uint32_t *layer)
{
    const tensor_rule *rule = find_in(f->layer_tensors, f->layer_tensor_count, name, folder, layer);
    return rule ? rule : find_in(f->tensors, f->tensor_count, name, folder, layer);
}
