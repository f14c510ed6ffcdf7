/* engine_finite.c - weights that are infinite or not a number, and results that are: an error that names the tensor, or
 * the layer where every weight is a number; on one side and on two. */
#include "../src/engine/engine.h"

#include "model_build.h"

#include <math.h>

/* Where a value is planted. */
typedef struct planted {
    const char *tensor;
    uint64_t index;
    float value;
    const char *says;
} planted;

enum { MOST_VALUES = TINY_D * TINY_F };

/* A tiny model with small weights, in memory that outlives it. */
static float weights[TINY_TENSORS * TINY_LAYERS][MOST_VALUES];

static hearth_model *plant(const planted *p)
{
    hearth_error error;
    hearth_model *model;
    checkpoint *c;
    uint32_t seed = 5;
    size_t at = 0;
    bool found = p->tensor == NULL;
    must(checkpoint_create(&c, "tiny", &error), &error);
    for (size_t i = 0; i < TINY_TENSORS; i++)
        for (int layer = 0; layer < (strchr(tiny_tensors[i].name, '%') ? TINY_LAYERS : 1); layer++, at++) {
            const tiny_tensor *t = &tiny_tensors[i];
            char name[128];
            snprintf(name, sizeof name, t->name, layer);
            size_t n = t->columns * t->rows;
            assert_true(n <= MOST_VALUES);
            for (size_t k = 0; k < n; k++) {
                seed = seed * 1664525u + 1013904223u;
                weights[at][k] = (float)(seed >> 8) / (1 << 24) - 0.5f;
            }
            if (p->tensor && strcmp(name, p->tensor) == 0) {
                weights[at][p->index] = p->value;
                found = true;
            }
            stored_tensor stored = {.name = name,
                                    .format = FORMAT_F32,
                                    .rank = t->rank,
                                    .shape = {t->columns, t->rows, 1, 1},
                                    .data = weights[at],
                                    .size_bytes = n * sizeof(float)};
            must(checkpoint_add_tensor(c, &stored, &error), &error);
        }
    assert_true(found);
    tiny_keys(c);
    must(model_bind(&model, c, NULL, &error), &error);
    return model;
}

/* What reading three tokens and asking for logits ends in. On device `spec` from the first layer on, or NULL. */
static hearth_status read_tokens(hearth_model *model, const char *spec, hearth_error *error)
{
    hearth_runtime *runtime;
    hearth_placement *placement;
    hearth_engine *engine;
    hearth_session *session;
    const hearth_row rows[] = {{1, 0, false}, {2, 0, false}, {3, 0, true}};
    float logits[TINY_VOCAB];
    hearth_runtime_options options = {.threads = 1, .device = spec};
    must(hearth_runtime_create(&runtime, &options, error), error);
    must(hearth_placement_create(&placement, model, HEARTH_MODE_DENSE, error), error);
    if (spec)
        must(hearth_placement_use_device(placement, model, TINY_LAYERS, TINY_F / 2, error), error);
    hearth_engine_options placed = {.placement = placement};
    must(hearth_engine_create(&engine, runtime, model, &placed, error), error);
    must(hearth_session_create(&session, engine, NULL, error), error);
    hearth_status status = hearth_session_feed(session, rows, 3, error);
    if (status != HEARTH_OK)
        assert_int_equal(hearth_session_length(session, 0), 0);
    else
        status = hearth_session_logits(session, 0, 1, logits, error);
    hearth_session_destroy(session);
    hearth_engine_destroy(engine);
    hearth_placement_destroy(placement);
    hearth_runtime_destroy(runtime);
    return status;
}

static void check(const planted *p, const char *spec)
{
    hearth_error error = {0};
    hearth_model *model = plant(p);
    hearth_status status = read_tokens(model, spec, &error);
    if (status != (p->says ? HEARTH_FORMAT : HEARTH_OK) || !strstr(error.text, p->says ? p->says : ""))
        fail_msg("%s on %s: status %d, '%s', expected '%s'", p->tensor ? p->tensor : "nothing", spec ? spec : "cpu",
                 (int)status, error.text, p->says ? p->says : "success");
    hearth_model_close(model);
}

static void names_the_tensor(void **state)
{
    (void)state;
    static const planted cases[] = {
        {NULL, 0, 0, NULL},
        {"token_embd.weight", 1 * TINY_D, NAN, "tiny: tensor token_embd.weight: has values that are not finite"},
        {"token_embd.weight", 2 * TINY_D + 3, INFINITY, "tensor token_embd.weight:"},
        {"token_embd.weight", 9 * TINY_D, NAN, NULL}, /* a token that nobody reads */
        {"blk.0.attn_norm.weight", 2, NAN, "tensor blk.0.attn_norm.weight:"},
        {"blk.0.attn_q.weight", 0, INFINITY, "tensor blk.0.attn_q.weight:"},
        {"blk.1.attn_k.weight", 5, NAN, "tensor blk.1.attn_k.weight:"},
        {"blk.1.attn_v.weight", 5, -INFINITY, "tensor blk.1.attn_v.weight:"},
        {"blk.0.attn_output.weight", 7, NAN, "tensor blk.0.attn_output.weight:"},
        {"blk.1.ffn_norm.weight", 0, NAN, "tensor blk.1.ffn_norm.weight:"},
        {"blk.0.ffn_gate.weight", 9, NAN, "tensor blk.0.ffn_gate.weight:"},
        {"blk.1.ffn_up.weight", 11, NAN, "tensor blk.1.ffn_up.weight:"},
        {"blk.1.ffn_down.weight", TINY_D * TINY_F - 1, INFINITY, "tensor blk.1.ffn_down.weight:"},
        {"output_norm.weight", 3, NAN, "tensor output_norm.weight:"},
        {"output.weight", TINY_D * TINY_VOCAB - 1, NAN, "tensor output.weight:"},
        {"output.weight", 0, -INFINITY, "tensor output.weight:"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        check(&cases[i], NULL);
        check(&cases[i], "host");
    }
}

/* Weights that are numbers, and too large together: 1e38 of up, times a gate, times a down of 1e38. */
static void names_the_layer(void **state)
{
    (void)state;
    const planted large = {"blk.1.ffn_down.weight", 0, 3e38f, "tiny: layer 1: what comes out is not finite"};
    hearth_error error = {0};
    hearth_model *model = plant(&large);
    float *up = (float *)(uintptr_t)model->layers[1].up.data;
    for (size_t i = 0; i < (size_t)TINY_D * TINY_F; i++)
        up[i] = 1e37f * (float)(1 + i % 3);
    assert_int_equal(read_tokens(model, NULL, &error), HEARTH_FORMAT);
    assert_string_equal(error.text, "tiny: layer 1: what comes out is not finite, though every weight is");
    assert_int_equal(read_tokens(model, "host", &error), HEARTH_FORMAT);
    assert_string_equal(error.text, "tiny: layers 0 to 1: what comes out is not finite, though every weight is");
    hearth_model_close(model);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(names_the_tensor),
        cmocka_unit_test(names_the_layer),
    };
    return run_group(tests, NULL, NULL);
}
