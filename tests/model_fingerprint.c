/* model_fingerprint - one model has one fingerprint whatever was done to its file, and no other model has it. */
#include "pack_build.h"

#include "../src/model/fingerprint.h"

#include <math.h>

static void fingerprint_of(char out[FINGERPRINT_SIZE], const char *path)
{
    hearth_model *m = open_model(path);
    model_fingerprint(out, m);
    hearth_model_close(m);
    assert_int_equal(strspn(out, "0123456789abcdef"), 32);
}

/* What convert, quantize and pack make of `from` has its fingerprint. */
static void survives(const char *from, convert_options o, const char *wanted)
{
    char got[FINGERPRINT_SIZE];
    seen s;
    hearth_error error;
    must(convert(from, out_path, o, &s, &error), &error);
    fingerprint_of(got, out_path);
    assert_string_equal(got, wanted);
}

static void survives_everything(const char *path)
{
    char wanted[FINGERPRINT_SIZE];
    fingerprint_of(wanted, path);
    hearth_model *m = open_model(path);
    uint32_t f = m->layers[0].ffn.neuron_count, layers = m->hyper.layer_count;
    hearth_model_close(m);
    uint32_t *backwards = malloc(f * sizeof *backwards);
    const uint32_t **order = malloc(layers * sizeof *order);
    for (uint32_t i = 0; i < f; i++)
        backwards[i] = f - 1 - i;
    for (uint32_t i = 0; i < layers; i++)
        order[i] = backwards;
    survives(path, (convert_options){.format = FORMAT_COUNT}, wanted);
    survives(path, (convert_options){.format = FORMAT_Q8_0, .head_apart = true}, wanted);
    survives(path, (convert_options){.format = FORMAT_Q4_0, .head_apart = true}, wanted);
    survives(path, (convert_options){PACK}, wanted);
    survives(path, (convert_options){PACK, .order = order}, wanted);
    /* and what was made of what was made */
    assert_int_equal(rename(out_path, more_path), 0);
    survives(more_path, (convert_options){.format = FORMAT_Q8_0}, wanted);
    free(order);
    free(backwards);
}

static void test_survives(void **state)
{
    (void)state;
    survives_everything(GOLDEN "llama-relu");
    survives_everything(GOLDEN "mistral");
    survives_everything(GOLDEN "llama-rope-yarn");
    survives_everything(GOLDEN "llama-fatrelu");
    survives_everything(HEARTH_DATA "/models/stories-relu");
}

/* A folder, the PowerInfer file of it and its predictors, and that one packed. */
static void test_powerinfer(void **state)
{
    (void)state;
    char wanted[FINGERPRINT_SIZE], plain[FINGERPRINT_SIZE];
    fingerprint_of(wanted, PWRI "llama/f16.gguf");
    survives(PWRI "llama/f16.gguf", (convert_options){PACK}, wanted);
    survives(PWRI "llama/f16.gguf", (convert_options){.format = FORMAT_Q4_0}, wanted);
    fingerprint_of(plain, PWRI "llama/hf");
    survives(PWRI "llama/hf", (convert_options){.format = FORMAT_COUNT, .predictors = PWRI "llama/hf/predictors"},
             plain);
}

/* Real models have one each. */
static void test_differs(void **state)
{
    (void)state;
    static const char *const paths[] = {GOLDEN "llama",
                                        GOLDEN "llama-relu",
                                        GOLDEN "llama-fatrelu",
                                        GOLDEN "llama-rope-yarn",
                                        GOLDEN "llama-rope-linear",
                                        GOLDEN "mistral",
                                        GOLDEN "bamboo",
                                        HEARTH_DATA "/models/stories-relu",
                                        HEARTH_DATA "/models/stories260K",
                                        HEARTH_DATA "/models/stories260K-relu"};
    enum { COUNT = sizeof paths / sizeof *paths };
    char all[COUNT][FINGERPRINT_SIZE];
    for (size_t i = 0; i < COUNT; i++) {
        fingerprint_of(all[i], paths[i]);
        for (size_t k = 0; k < i; k++)
            if (strcmp(all[i], all[k]) == 0)
                fail_msg("%s and %s have the same fingerprint", paths[i], paths[k]);
    }
}

/* ------------------------------------------------------------------ one change at a time */

/* A change of the tiny model; key NULL: of a tensor's first value. */
static const struct {
    const char *key, *tensor, *text;
    double number; /* of a key: u32 where it is whole and text is NULL, unless it is below 1 */
    bool counts;   /* another model afterwards */
} changes[] = {
    {"llama.hidden_activation", NULL, "relu", 0, true},
    {"llama.attention.layer_norm_rms_epsilon", NULL, NULL, 1e-6, true},
    {"llama.rope.freq_base", NULL, NULL, 0.5e6, true},
    {"llama.attention.sliding_window", NULL, NULL, 8, true},
    {"llama.context_length", NULL, NULL, 128, false},
    {"general.name", NULL, "another", 0, false},
    {"powerinfer.sparse_threshold", NULL, NULL, 0.25, false},
    {NULL, "output_norm.weight", NULL, 0, true},
    {NULL, "blk.0.attn_norm.weight", NULL, 0, true},
    {NULL, "blk.1.ffn_norm.weight", NULL, 0, true},
    {NULL, "blk.1.ffn_up.weight", NULL, 0, false},
    {NULL, "token_embd.weight", NULL, 0, false},
    {"tokens", NULL, "other", 0, true},
    {"tokens", NULL, NULL, 0, true}, /* none at all */
};

/* tokens: the last of the pieces; NULL: no vocabulary. */
static void set_tokens(checkpoint *c, const char *last)
{
    hearth_error error;
    span pieces[TINY_VOCAB];
    for (int i = 0; i < TINY_VOCAB; i++)
        pieces[i] = span_of(i == TINY_VOCAB - 1 ? last : i % 2 ? "x" : "");
    must(checkpoint_set_strings(c, "tokenizer.ggml.tokens", pieces, TINY_VOCAB, &error), &error);
}

static void change_tensor(checkpoint *c, const char *name)
{
    for (size_t i = 0; i < c->tensor_count; i++)
        if (strcmp(c->tensors[i].name, name) == 0) {
            float *copy = arena_new(&c->memory, c->tensors[i].size_bytes);
            memcpy(copy, c->tensors[i].data, c->tensors[i].size_bytes);
            copy[3] = nextafterf(copy[3], 1e9f);
            c->tensors[i].data = copy;
            return;
        }
    fail_msg("%s", name);
}

static checkpoint *changed(size_t i)
{
    hearth_error error;
    const char *key = changes[i].key;
    checkpoint *c = tiny_gguf(NULL);
    bool is_tokens = key && strcmp(key, "tokens") == 0;
    if (!is_tokens || changes[i].text)
        set_tokens(c, is_tokens ? changes[i].text : "last");
    if (!key)
        change_tensor(c, changes[i].tensor);
    else if (!is_tokens && changes[i].text)
        must(checkpoint_set_string(c, key, span_of(changes[i].text), &error), &error);
    else if (!is_tokens && (changes[i].number < 1 || changes[i].number > 1e5))
        must(checkpoint_set_f32(c, key, (float)changes[i].number, &error), &error);
    else if (!is_tokens)
        must(checkpoint_set_u32(c, key, (uint32_t)changes[i].number, &error), &error);
    return c;
}

static void fingerprint_tiny(char out[FINGERPRINT_SIZE], checkpoint *c)
{
    hearth_error error;
    hearth_model *m;
    must(model_bind(&m, c, NULL, &error), &error);
    model_fingerprint(out, m);
    hearth_model_close(m);
}

static void test_changes(void **state)
{
    (void)state;
    enum { COUNT = sizeof changes / sizeof *changes };
    char base[FINGERPRINT_SIZE], all[COUNT][FINGERPRINT_SIZE];
    checkpoint *c = tiny_gguf(NULL);
    set_tokens(c, "last");
    fingerprint_tiny(base, c);
    for (size_t i = 0; i < COUNT; i++) {
        fingerprint_tiny(all[i], changed(i));
        if ((strcmp(all[i], base) != 0) != changes[i].counts)
            fail_msg("change %zu (%s)", i, changes[i].key ? changes[i].key : changes[i].tensor);
        for (size_t k = 0; k < i && changes[i].counts; k++)
            assert_string_not_equal(all[i], all[k]);
    }
    /* an override computes another function */
    char overridden[FINGERPRINT_SIZE];
    hearth_error error;
    hearth_model *m;
    hearth_model_options options = {.ffn_activation = "relu"};
    c = tiny_gguf(NULL);
    set_tokens(c, "last");
    must(model_bind(&m, c, &options, &error), &error);
    model_fingerprint(overridden, m);
    assert_string_equal(overridden, all[0]);
    hearth_model_close(m);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_changes),
        cmocka_unit_test(test_survives),
        cmocka_unit_test(test_powerinfer),
        cmocka_unit_test(test_differs),
    };
    return run_group(tests, set_up, tear_down);
}
