/* model_converter.c - what `hearth convert` makes of a folder, against the GGUF that llama.cpp's converter made of it: names,
 * shapes and values of all tensors; and the keys of models with recurrent layers. Of some others it leaves out keys that say
 * what is meant without them. */
#include "../src/file/gguf.h"
#include "pack_build.h"

#include "family_cases.h"

#include <math.h>

#define HEAD_LENGTH     20 /* of the tiny Nemotron-H models */
#define GLM_HEAD_LENGTH 16 /* of glm4v, half of which rotates */

/* Tensors that both compute, each with its own rounding. */
static bool is_computed(const char *name)
{
    static const char *const computed[] = {"rope_freqs", "rope_factors", "ssm_a", "activation_sparsity_scale"};
    for (size_t i = 0; i < sizeof computed / sizeof *computed; i++)
        if (strstr(name, computed[i]))
            return true;
    return false;
}

/* Returns the values of a tensor; freed with free. */
static float *values_of(const stored_tensor *t, size_t count)
{
    float *values = malloc(count * sizeof *values);
    if (t->format != FORMAT_I32)
        number_formats[t->format].decode(t->data, values, count);
    for (size_t i = 0; t->format == FORMAT_I32 && i < count; i++)
        values[i] = (float)((const int32_t *)t->data)[i];
    return values;
}

/* Puts the first `pairs` pairs of rows of each head of `length` in the order of halves. llama.cpp's converter puts those of
 * Nemotron-H's queries and keys in the order of neighbouring pairs, although nothing rotates them, and those of GLM-4 with
 * pictures, which are neighbours, in the order of halves; hearth leaves them where they are. */
static void part_pairs(const stored_tensor *t, float *values, size_t count, size_t length, size_t pairs)
{
    size_t columns = t->rank == 1 ? 1 : (size_t)t->shape[0];
    float *paired = malloc(count * sizeof *paired);
    memcpy(paired, values, count * sizeof *paired);
    for (size_t row = 0; row < count / columns; row++) {
        size_t head = row / length, at = row % length;
        if (at < 2 * pairs)
            memcpy(values + row * columns, paired + (head * length + 2 * (at % pairs) + at / pairs) * columns,
                   columns * sizeof *paired);
    }
    free(paired);
}

/* llama.cpp's converter takes their mean from the values that correct Sarvam's scores, which changes no choice. */
static void take_mean(float *values, size_t count)
{
    double sum = 0;
    for (size_t i = 0; i < count; i++)
        sum += (double)values[i];
    for (size_t i = 0; i < count; i++)
        values[i] -= (float)(sum / (double)count);
}

static void compare_tensor(const char *model, const stored_tensor *want, const stored_tensor *got)
{
    size_t count = (size_t)(want->shape[0] * stored_tensor_rows(want));
    if (!got || memcmp(got->shape, want->shape, sizeof want->shape) != 0)
        fail_msg("%s: %s: %s", model, want->name, got ? "has another shape" : "is missing");
    float *wanted = values_of(want, count), *written = values_of(got, count);
    bool paired = strstr(want->name, "attn_q.") || strstr(want->name, "attn_k.");
    if (paired && strncmp(model, "nemotron-h", 10) == 0)
        part_pairs(want, wanted, count, HEAD_LENGTH, HEAD_LENGTH / 2);
    if (paired && strcmp(model, "glm4v") == 0)
        part_pairs(want, written, count, GLM_HEAD_LENGTH, GLM_HEAD_LENGTH / 4);
    bool centred = strcmp(model, "sarvam-moe") == 0 && strstr(want->name, "exp_probs_b");
    if (centred)
        take_mean(written, count);
    float bound = centred ? 1e-6f : is_computed(want->name) ? 2e-7f : 0;
    for (size_t i = 0; i < count; i++)
        if (!(fabsf(written[i] - wanted[i]) <= bound * fabsf(wanted[i])))
            fail_msg("%s: %s: value %zu is %.9g, expected %.9g", model, want->name, i, (double)written[i],
                     (double)wanted[i]);
    free(wanted);
    free(written);
}

/* The same for gate and up of experts that one has in one tensor, of each expert one after the other. */
static bool compare_joined(const char *model, const stored_tensor *want, const checkpoint *got)
{
    static const char joined[] = "gate_up_exps";
    const char *at = strstr(want->name, joined);
    if (!at || checkpoint_find_tensor(got, want->name))
        return false;
    size_t half = (size_t)(want->shape[0] * want->shape[1] / 2), experts = (size_t)want->shape[2];
    float *wanted = values_of(want, 2 * half * experts);
    for (size_t i = 0; i < 2; i++) {
        char name[128];
        snprintf(name, sizeof name, "%.*s%s%s", (int)(at - want->name), want->name, i ? "up_exps" : "gate_exps",
                 at + strlen(joined));
        const stored_tensor *part = checkpoint_find_tensor(got, name);
        assert_non_null(part);
        assert_int_equal(part->shape[0] * part->shape[1] * part->shape[2], half * experts);
        float *written = values_of(part, half * experts);
        for (size_t e = 0; e < experts; e++)
            if (memcmp(written + e * half, wanted + (2 * e + i) * half, half * sizeof *written) != 0)
                fail_msg("%s: %s: expert %zu differs", model, name, e);
        free(written);
    }
    free(wanted);
    return true;
}

/* Returns the blocks of a file behind its layers, which are not read. */
static uint32_t drafts_of(const checkpoint *c, const char *architecture, uint32_t *layers)
{
    char key[128];
    uint32_t drafts = 0;
    bool found;
    snprintf(key, sizeof key, "%s.nextn_predict_layers", architecture);
    assert_int_equal(checkpoint_get_u32(c, key, &drafts, &found, NULL), HEARTH_OK);
    snprintf(key, sizeof key, "%s.block_count", architecture);
    assert_int_equal(checkpoint_get_u32(c, key, layers, NULL, NULL), HEARTH_OK);
    *layers -= drafts;
    return drafts;
}

/* Keys that mean nothing: llama.cpp's converter gives Nemotron-H and Granite 4 a context of 2^20 tokens and a rotation, the
 * former the epsilon of another kind of norm, whatever the config says, and the latter experts where there are none; Kimi Linear
 * the base of a rotation that it has not, and head_dim for the length of values that are compressed. */
static bool is_void(const char *model, const char *key)
{
    bool nemotron = strncmp(key, "nemotron_h", 10) == 0, granite = strncmp(key, "granitehybrid", 13) == 0;
    if (strcmp(key, "kimi-linear.rope.freq_base") == 0 || strcmp(key, "kimi-linear.attention.value_length") == 0)
        return true;
    if (nemotron && (strstr(key, ".rope.") || strstr(key, ".layer_norm_epsilon")))
        return true;
    if (granite &&
        (strstr(key, ".rope.dimension_count") || (strstr(key, ".expert_") && strcmp(model, "granite-hybrid") == 0)))
        return true;
    return (nemotron || granite) && strstr(key, ".context_length");
}

static void compare_key(const char *model, const key_value *want, const key_value *got, uint32_t layers,
                        uint32_t drafts)
{
    if (strstr(want->key, ".block_count") || strstr(want->key, ".nextn_predict_layers") || is_void(model, want->key))
        return;
    if (!got || got->type != want->type)
        fail_msg("%s: %s: %s", model, want->key, got ? "has another type" : "is missing");
    if (want->type == VALUE_STRING) {
        assert_true(span_equal(want->as.string, got->as.string));
    } else if (want->type == VALUE_ARRAY) {
        size_t of_drafts = want->count == layers + drafts ? drafts : 0;
        assert_int_equal(got->count, want->count - of_drafts);
        assert_int_equal(got->item_type, want->item_type);
        assert_memory_equal(got->as.items, want->as.items, got->count * value_size(got->item_type));
    } else if (want->as.u != got->as.u) {
        fail_msg("%s: %s: has another value", model, want->key);
    }
}

static bool has_recurrent_layers(const char *path)
{
    hearth_model *m = open_model(path);
    bool some = false;
    for (uint32_t i = 0; i < m->hyper.layer_count; i++)
        some |= m->layers[i].mixer == MIXER_RECURRENT;
    hearth_model_close(m);
    return some;
}

static void compare(const char *model)
{
    char source[600], path[600], prefix[64];
    hearth_error error;
    checkpoint *want, *got;
    seen s;
    span architecture;
    uint32_t layers, block;
    snprintf(source, sizeof source, GOLDEN "%s", model);
    snprintf(path, sizeof path, GOLDEN "%s/model.gguf", model);
    if (!file_exists(path))
        return;
    must(convert(source, out_path, (convert_options){.format = FORMAT_F32}, &s, &error), &error);
    must(gguf_open(&want, path, &error), &error);
    must(gguf_open(&got, out_path, &error), &error);
    assert_int_equal(checkpoint_get_string(want, "general.architecture", &architecture, NULL, NULL), HEARTH_OK);
    snprintf(prefix, sizeof prefix, "%.*s", (int)architecture.size, architecture.data);
    bool recurrent = has_recurrent_layers(path);
    uint32_t drafts = drafts_of(want, prefix, &layers);
    size_t compared = 0;
    for (size_t i = 0; i < want->tensor_count; i++) {
        const stored_tensor *t = &want->tensors[i];
        if (sscanf(t->name, "blk.%u.", &block) == 1 && block >= layers)
            continue;
        bool joined = compare_joined(model, t, got);
        if (!joined)
            compare_tensor(model, t, checkpoint_find_tensor(got, t->name));
        compared += joined ? 2 : 1;
    }
    assert_int_equal(got->tensor_count, compared);
    for (size_t i = 0; recurrent && i < want->entry_count; i++)
        if (strncmp(want->entries[i].key, prefix, strlen(prefix)) == 0)
            compare_key(model, &want->entries[i], checkpoint_find(got, want->entries[i].key), layers, drafts);
    print_message("%-18s %zu tensors\n", model, compared);
    checkpoint_close(want);
    checkpoint_close(got);
}

static void all_families(void **state)
{
    (void)state;
    for (size_t i = 0; i < FAMILY_CASES; i++)
        compare(family_cases[i]);
    static const char *const rounded[] = {"gpt-oss-mxfp4", "llama-gptq", "llama-gptq-order",
                                          "llama-packed",  "llama-int8", "qwen3-moe-packed"};
    for (size_t i = 0; i < sizeof rounded / sizeof *rounded; i++)
        compare(rounded[i]);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(all_families)};
    return run_group(tests, set_up, tear_down);
}
