/* huggingface_rwkv.c - a folder of RWKV-7, as flash-linear-attention writes it: the sizes of its mixers, and what GGUF has in one
 * tensor, or needs besides. */
#include "folder_reader.h"

#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

/* The mixtures of a mixer's inputs that a folder has one by one, in GGUF's order (rwkv_input). */
static const char mixture_letters[RWKV_INPUTS + 1] = "rwkvag";
#define MIXTURE "model.layers.%" PRIu32 ".attn.x_%c"

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

hearth_status folder_read_rwkv(folder_reader *r)
{
    static const struct {
        const char *config_key, *key;
        uint32_t usual; /* where the config lacks it; 0: it must be there */
    } sizes[] = {{"decay_low_rank_dim", "attention.decay_lora_rank", 64},
                 {"a_low_rank_dim", "attention.iclr_lora_rank", 64},
                 {"v_low_rank_dim", "attention.value_residual_mix_lora_rank", 16},
                 {"gate_low_rank_dim", "attention.gate_lora_rank", 128}};
    uint32_t length = r->layer.attention.head_length, heads = 0, width = r->hyper.embedding_length;
    bool found;
    TRY(json_get_uint(r->config, "num_heads", &heads, &found, r->name, r->error));
    if (length == 0)
        length = heads > 0 ? width / heads : 64;
    if (width % length != 0)
        return fail(r->error, HEARTH_FORMAT, "%s: head_dim: does not divide hidden_size", r->name);
    TRY(check_layers(r));
    TRY(check_epsilon(r, length));
    r->layer.recurrent = (recurrent_shape){.rule = RECURRENCE_RWKV7,
                                           .head_count = width / length,
                                           .key_count = width / length,
                                           .value_length = length,
                                           .key_length = length,
                                           .window = 2};
    for (size_t i = 0; i < sizeof sizes / sizeof *sizes; i++) {
        uint32_t rank = sizes[i].usual;
        TRY(json_get_uint(r->config, sizes[i].config_key, &rank, &found, r->name, r->error));
        TRY(folder_set_size(r, sizes[i].key, rank));
    }
    TRY(folder_set_size(r, "attention.head_count", 0));  /* llama.cpp wants it */
    TRY(folder_set_size(r, "context_length", 1u << 20)); /* as its converter says: there is no limit */
    return folder_set_size(r, "wkv.head_size", length);
}

bool folder_is_mixture(const folder_reader *r, const char *name)
{
    uint32_t layer;
    char letter, again[TENSOR_NAME_SIZE];
    if (r->family->recurrence != RECURRENCE_RWKV7 ||
        sscanf(name, "model.layers.%" SCNu32 ".attn.x_%c", &layer, &letter) != 2)
        return false;
    snprintf(again, sizeof again, MIXTURE, layer, letter);
    return strcmp(again, name) == 0 && strchr(mixture_letters, letter);
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
                                  .rank = 4,
                                  .shape = {d, 1, 1, RWKV_INPUTS},
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
