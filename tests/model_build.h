/* model_build.h - a tiny llama in memory, as a GGUF or a folder would give it, and helpers to spoil it. */
#ifndef TESTS_MODEL_BUILD_H
#define TESTS_MODEL_BUILD_H

#include "../src/base/json.h"
#include "../src/model/huggingface.h"
#include "../src/model/model.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "skip.h"

enum { TINY_D = 16, TINY_F = 24, TINY_HEADS = 4, TINY_KV_HEADS = 2, TINY_HEAD = 4, TINY_LAYERS = 2, TINY_VOCAB = 12 };

static const char tiny_config[] =
    "{\"model_type\": \"llama\", \"architectures\": [\"LlamaForCausalLM\"], \"vocab_size\": 12, \"hidden_size\": 16,"
    " \"intermediate_size\": 24, \"num_hidden_layers\": 2, \"num_attention_heads\": 4, \"num_key_value_heads\": 2,"
    " \"max_position_embeddings\": 64, \"rms_norm_eps\": 1e-5, \"rope_theta\": 10000.0, \"hidden_act\": \"silu\"}";

typedef struct tiny_tensor {
    const char *name, *folder_name;
    uint32_t rank;
    uint64_t columns, rows;
} tiny_tensor;

/* Written out by hand, so that the loader's table is held against something. %d is the layer. */
static const tiny_tensor tiny_tensors[] = {
    {"token_embd.weight", "model.embed_tokens.weight", 2, TINY_D, TINY_VOCAB},
    {"output_norm.weight", "model.norm.weight", 1, TINY_D, 1},
    {"output.weight", "lm_head.weight", 2, TINY_D, TINY_VOCAB},
    {"blk.%d.attn_norm.weight", "model.layers.%d.input_layernorm.weight", 1, TINY_D, 1},
    {"blk.%d.attn_q.weight", "model.layers.%d.self_attn.q_proj.weight", 2, TINY_D, TINY_HEADS *TINY_HEAD},
    {"blk.%d.attn_k.weight", "model.layers.%d.self_attn.k_proj.weight", 2, TINY_D, TINY_KV_HEADS *TINY_HEAD},
    {"blk.%d.attn_v.weight", "model.layers.%d.self_attn.v_proj.weight", 2, TINY_D, TINY_KV_HEADS *TINY_HEAD},
    {"blk.%d.attn_output.weight", "model.layers.%d.self_attn.o_proj.weight", 2, TINY_HEADS *TINY_HEAD, TINY_D},
    {"blk.%d.ffn_norm.weight", "model.layers.%d.post_attention_layernorm.weight", 1, TINY_D, 1},
    {"blk.%d.ffn_gate.weight", "model.layers.%d.mlp.gate_proj.weight", 2, TINY_D, TINY_F},
    {"blk.%d.ffn_up.weight", "model.layers.%d.mlp.up_proj.weight", 2, TINY_D, TINY_F},
    {"blk.%d.ffn_down.weight", "model.layers.%d.mlp.down_proj.weight", 2, TINY_F, TINY_D},
};
#define TINY_TENSORS (sizeof tiny_tensors / sizeof *tiny_tensors)

/* Every tensor's values begin at a place of their own, so that no two are equal. */
static float tiny_values[4096];

static inline void must(hearth_status status, const hearth_error *error)
{
    if (status != HEARTH_OK)
        fail_msg("%s", error->text);
}

static inline void tiny_add(checkpoint *c, const tiny_tensor *t, int layer, bool folder)
{
    hearth_error error;
    char name[128];
    snprintf(name, sizeof name, folder ? t->folder_name : t->name, layer);
    for (size_t i = 0; i < 4096; i++)
        tiny_values[i] = (float)i;
    stored_tensor stored = {.name = name,
                            .format = FORMAT_F32,
                            .rank = t->rank,
                            .shape = {t->columns, t->rows, 1, 1},
                            .data = tiny_values + 64 * layer + 128 * (t - tiny_tensors),
                            .size_bytes = t->columns * t->rows * sizeof(float)};
    must(checkpoint_add_tensor(c, &stored, &error), &error);
}

/* All tensors but `without` (NULL: all), under GGUF's names or a folder's. */
static inline checkpoint *tiny_stored(bool folder, const char *without)
{
    checkpoint *c;
    hearth_error error;
    must(checkpoint_create(&c, "tiny", &error), &error);
    for (size_t i = 0; i < TINY_TENSORS; i++)
        for (int layer = 0; layer < (strchr(tiny_tensors[i].name, '%') ? TINY_LAYERS : 1); layer++) {
            char name[128];
            snprintf(name, sizeof name, tiny_tensors[i].name, layer);
            if (!without || strcmp(name, without) != 0)
                tiny_add(c, &tiny_tensors[i], layer, folder);
        }
    return c;
}

static inline void tiny_keys(checkpoint *c)
{
    static const struct {
        const char *key;
        uint32_t value;
    } sizes[] = {{"llama.block_count", TINY_LAYERS},         {"llama.context_length", 64},
                 {"llama.embedding_length", TINY_D},         {"llama.feed_forward_length", TINY_F},
                 {"llama.attention.head_count", TINY_HEADS}, {"llama.attention.head_count_kv", TINY_KV_HEADS}};
    hearth_error error;
    must(checkpoint_set_string(c, "general.architecture", span_of("llama"), &error), &error);
    for (size_t i = 0; i < sizeof sizes / sizeof *sizes; i++)
        must(checkpoint_set_u32(c, sizes[i].key, sizes[i].value, &error), &error);
    must(checkpoint_set_f32(c, "llama.attention.layer_norm_rms_epsilon", 1e-5f, &error), &error);
}

/* What a GGUF reader would give; add keys or tensors, then bind. */
static inline checkpoint *tiny_gguf(const char *without)
{
    checkpoint *c = tiny_stored(false, without);
    tiny_keys(c);
    return c;
}

/* A folder of these tensors and this config; takes over both. */
static inline hearth_status tiny_folder(hearth_model **out, checkpoint *stored, json_t *config, hearth_error *error)
{
    checkpoint *c;
    must(checkpoint_create(&c, "tiny", error), error);
    hearth_status status = huggingface_understand(c, stored, config, "config.json", error);
    checkpoint_close(stored);
    json_decref(config);
    if (status != HEARTH_OK) {
        checkpoint_close(c);
        return status;
    }
    return model_bind(out, c, NULL, error);
}

static inline json_t *tiny_json(void)
{
    json_t *config;
    hearth_error error;
    must(json_parse(&config, tiny_config, sizeof tiny_config - 1, "config.json", &error), &error);
    return config;
}

static inline void expect_text(const hearth_error *error, const char *part)
{
    if (!strstr(error->text, part))
        fail_msg("expected \"%s\" in \"%s\"", part, error->text);
}

/* Matrices of any two formats hold the same values. */
static inline void expect_same_matrix(const matrix *a, const matrix *b)
{
    assert_int_equal(a->rows, b->rows);
    assert_int_equal(a->columns, b->columns);
    float *x = malloc(a->columns * sizeof *x), *y = malloc(a->columns * sizeof *y);
    for (size_t row = 0; row < a->rows; row++) {
        number_formats[a->format].decode(matrix_row(a, row), x, a->columns);
        number_formats[b->format].decode(matrix_row(b, row), y, a->columns);
        assert_memory_equal(x, y, a->columns * sizeof *x);
    }
    free(x);
    free(y);
}

#endif
