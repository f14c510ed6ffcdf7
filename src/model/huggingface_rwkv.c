/* huggingface_rwkv.c - a folder of RWKV-7, as flash-linear-attention writes it: the sizes of its mixers, and what GGUF has in one
 * tensor, or needs besides. */
#include "folder_reader.h"

#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

/* The mixtures of a mixer's inputs that a folder has one by one, in GGUF's order (rwkv_input). */
static const char mixture_letters[RWKV_INPUTS + 1] = "rwkvag";
#define MIXTURE  "model.layers.%" PRIu32 ".attn.x_%c"
#define LOW_RANK "model.layers.%" PRIu32 ".attn.%c_lora.lora.0.weight"

/* What llama.cpp wants of the first layer too, where it uses none of it, and what its converter takes in its place. */
static const struct {
    const char *name, *of;
} unused[] = {{"blk.0.time_mix_v0.weight", "blk.0.time_mix_a0.weight"},
              {"blk.0.time_mix_v1.weight", "blk.0.time_mix_a1.weight"},
              {"blk.0.time_mix_v2.weight", "blk.0.time_mix_a2.weight"}};

/* The deviation of a head is taken with this epsilon, whatever that of other norms is (RWKV_HEAD_EPSILON); a folder's is that of
 * other norms times the length of a head. */
static hearth_status check_epsilon(const folder_reader *r, uint32_t length)
{
    double epsilon = (double)r->family->default_epsilon;
    bool found;
    TRY(folder_get_positive(r, r->config, r->name, r->family->epsilon, &epsilon, &found));
    return fabs(epsilon * length / (double)RWKV_HEAD_EPSILON - 1) < 1e-6
               ? HEARTH_OK
               : fail(r->error, HEARTH_UNSUPPORTED, "%s: %s: times head_dim is %g, and only %g is supported", r->name,
                      r->family->epsilon, epsilon * length, (double)RWKV_HEAD_EPSILON);
}

/* Refuses layers with attention, and values that are wider than the model. */
static hearth_status check_layers(const folder_reader *r)
{
    const json_t *attention = json_object_get(r->config, "attn"), *widths = json_object_get(r->config, "value_dim");
    if (attention && !json_is_null(attention))
        return fail(r->error, HEARTH_UNSUPPORTED, "%s: attn: layers with attention among others are not supported",
                    r->name);
    size_t count = json_is_array(widths) ? json_array_size(widths) : json_is_integer(widths) ? 1 : 0;
    for (size_t i = 0; i < count; i++)
        if (json_integer_value(json_is_array(widths) ? json_array_get(widths, i) : widths) !=
            (json_int_t)r->hyper.embedding_length)
            return fail(r->error, HEARTH_UNSUPPORTED, "%s: value_dim: values of another width are not supported",
                        r->name);
    return HEARTH_OK;
}

/* Finds the length of a head: head_dim, whose default is 64; where it is null, it follows from their number. */
static hearth_status find_length(const folder_reader *r, uint32_t *length)
{
    static const char length_key[] = "head_dim", heads_key[] = "num_heads";
    uint32_t heads = 0, width = r->hyper.embedding_length;
    const json_t *said = json_object_get(r->config, length_key);
    bool found;
    TRY(json_get_uint(r->config, heads_key, &heads, &found, r->name, r->error));
    bool by_heads = said && json_is_null(said) && heads > 0;
    *length = by_heads ? width / heads : r->layer.attention.head_length > 0 ? r->layer.attention.head_length : 64;
    return *length > 0 && width % *length == 0 ? HEARTH_OK
                                               : fail(r->error, HEARTH_FORMAT, "%s: %s: does not divide hidden_size",
                                                      r->name, by_heads ? heads_key : length_key);
}

/* Finds the rank of a map of low rank, which a config may leave to the width of the model: as the tensor of the last layer has it. */
static uint32_t rank_of_tensor(const folder_reader *r, char letter)
{
    char name[TENSOR_NAME_SIZE];
    snprintf(name, sizeof name, LOW_RANK, r->hyper.layer_count - 1, letter);
    const stored_tensor *t = checkpoint_find_tensor(r->folder, name);
    return t && t->rank == 2 && t->shape[1] <= UINT16_MAX ? (uint32_t)t->shape[1] : 0;
}

/* Sets the neurons of a network where the config has only their ratio to the width. */
static hearth_status read_neurons(folder_reader *r)
{
    double ratio = 4;
    bool found;
    if (json_is_integer(json_object_get(r->config, "intermediate_size")))
        return HEARTH_OK;
    TRY(folder_get_positive(r, r->config, r->name, "hidden_ratio", &ratio, &found));
    double neurons = floor(ratio * r->hyper.embedding_length);
    if (neurons < 1 || neurons > UINT32_MAX / 2)
        return fail(r->error, HEARTH_FORMAT, "%s: hidden_ratio: is %g, which is too small or too large", r->name,
                    ratio);
    r->layer.ffn.neuron_count = ((uint32_t)neurons + 31) / 32 * 32;
    return folder_set_size(r, "feed_forward_length", r->layer.ffn.neuron_count);
}

/* Reads the ranks of the maps of low rank. */
static hearth_status read_ranks(folder_reader *r)
{
    static const struct {
        const char *config_key, *key;
        char letter;
        uint32_t usual; /* where the config lacks it */
    } ranks[] = {{"decay_low_rank_dim", "attention.decay_lora_rank", 'w', 64},
                 {"a_low_rank_dim", "attention.iclr_lora_rank", 'a', 64},
                 {"v_low_rank_dim", "attention.value_residual_mix_lora_rank", 'v', 16},
                 {"gate_low_rank_dim", "attention.gate_lora_rank", 'g', 128}};
    for (size_t i = 0; i < sizeof ranks / sizeof *ranks; i++) {
        uint32_t rank = ranks[i].usual, stored = rank_of_tensor(r, ranks[i].letter);
        bool found;
        if (json_is_null(json_object_get(r->config, ranks[i].config_key)) && stored > 0)
            rank = stored;
        TRY(json_get_uint(r->config, ranks[i].config_key, &rank, &found, r->name, r->error));
        TRY(folder_set_size(r, ranks[i].key, rank));
    }
    return HEARTH_OK;
}

hearth_status folder_read_rwkv(folder_reader *r)
{
    uint32_t length, width = r->hyper.embedding_length;
    TRY(find_length(r, &length));
    TRY(check_layers(r));
    TRY(check_epsilon(r, length));
    r->layer.recurrent = (recurrent_shape){.rule = RECURRENCE_RWKV7,
                                           .head_count = width / length,
                                           .key_count = width / length,
                                           .value_length = length,
                                           .key_length = length,
                                           .window = 2};
    TRY(read_neurons(r));
    TRY(read_ranks(r));
    TRY(folder_set_size(r, "attention.head_count", 0));  /* llama.cpp wants it */
    TRY(folder_set_size(r, "context_length", 1u << 20)); /* as its converter says: there is no limit */
    return folder_set_size(r, "wkv.head_size", length);
}

bool folder_leaves_to_rwkv(const folder_reader *r, const char *name)
{
    static const char first_share[] = "model.layers.0.attn.v_lora.";
    uint32_t layer;
    char letter, again[TENSOR_NAME_SIZE];
    if (r->family->recurrence != RECURRENCE_RWKV7)
        return false;
    if (strncmp(name, first_share, sizeof first_share - 1) == 0) /* which nothing reads */
        return true;
    if (sscanf(name, "model.layers.%" SCNu32 ".attn.x_%c", &layer, &letter) != 2)
        return false;
    snprintf(again, sizeof again, MIXTURE, layer, letter);
    return strcmp(again, name) == 0 && strchr(mixture_letters, letter);
}

/* Refuses heads of another length than the config's: what is stored by heads says theirs. */
static hearth_status check_heads(const folder_reader *r)
{
    static const char name[] = "model.layers.0.attn.r_k";
    const stored_tensor *t = checkpoint_find_tensor(r->folder, name);
    return !t || t->rank != 2 || t->shape[0] == r->layer.recurrent.key_length
               ? HEARTH_OK
               : fail(r->error, HEARTH_FORMAT, "%s: tensor %s: is of heads of %llu, and the config's have %u",
                      r->out->path, name, (unsigned long long)t->shape[0], r->layer.recurrent.key_length);
}

/* Makes the mixtures of a layer one tensor. */
static hearth_status join_mixtures(folder_reader *r, uint32_t layer)
{
    char name[TENSOR_NAME_SIZE];
    size_t d = r->hyper.embedding_length;
    float *values = arena_new_array(&r->out->memory, RWKV_INPUTS * d, sizeof *values);
    if (!values)
        return fail_memory(r->error, "mixtures", RWKV_INPUTS * d * sizeof *values);
    for (size_t i = 0; i < RWKV_INPUTS; i++) {
        snprintf(name, sizeof name, MIXTURE, layer, mixture_letters[i]);
        const stored_tensor *t = checkpoint_find_tensor(r->folder, name);
        if (!t || t->foreign || number_is_block(t->format) || t->shape[0] * stored_tensor_rows(t) != d)
            return fail(r->error, HEARTH_FORMAT, "%s: tensor %s: is %s", r->out->path, name,
                        t ? "not of hidden_size floats" : "missing");
        number_formats[t->format].decode(t->data, values + i * d, d);
    }
    snprintf(name, sizeof name, "blk.%" PRIu32 ".time_mix_lerp_fused.weight", layer);
    const stored_tensor joined = {.name = name,
                                  .rank = 2,
                                  .shape = {d, RWKV_INPUTS, 1, 1},
                                  .format = FORMAT_F32,
                                  .data = values,
                                  .size_bytes = RWKV_INPUTS * d * sizeof *values};
    return checkpoint_add_tensor(r->out, &joined, r->error);
}

hearth_status folder_add_rwkv(folder_reader *r)
{
    char name[TENSOR_NAME_SIZE];
    if (r->family->recurrence != RECURRENCE_RWKV7)
        return HEARTH_OK;
    for (uint32_t i = 0; i < r->hyper.layer_count; i++) {
        snprintf(name, sizeof name, MIXTURE, i, mixture_letters[0]);
        if (checkpoint_find_tensor(r->folder, name)) /* else it has all of a layer in one */
            TRY(join_mixtures(r, i));
    }
    TRY(check_heads(r));
    for (size_t i = 0; i < sizeof unused / sizeof *unused; i++) {
        const stored_tensor *of = checkpoint_find_tensor(r->out, unused[i].of);
        if (!of || checkpoint_find_tensor(r->out, unused[i].name))
            continue;
        stored_tensor copy = *of;
        copy.name = unused[i].name;
        TRY(checkpoint_add_tensor(r->out, &copy, r->error));
    }
    return HEARTH_OK;
}
