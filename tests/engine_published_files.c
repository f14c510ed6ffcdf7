/* engine_published_files.c - GGUF files as they were published, where they differ from what llama.cpp's converter makes today:
 * goldens, changed to that form, must give the same logits or be refused by name (engine_published.c: folders). */
#include "../src/engine/engine.h"
#include "../src/file/gguf.h"
#include "../src/model/hyper.h"

#include "golden.h"

static checkpoint *open_golden(const char *name)
{
    char path[600];
    hearth_error error;
    checkpoint *c;
    stack_check(gguf_open(&c, golden_path(path, sizeof path, name, "model.gguf"), &error), &error);
    return c;
}

/* Files of Step 3.5 have what guesses tokens ahead as one more layer, which all arrays count. */
static void step_with_drafts(void **state)
{
    (void)state;
    static const uint32_t heads[] = {4, 6, 6, 6, 4, 6, 6}, kv_heads[] = {2, 2, 2, 2, 2, 2, 2};
    static const float limits[] = {0, 0, 0, 0.5f, 0.5f, 0.5f, 0}, shared[] = {0, 0.25f, 0.5f, 0, 0.75f, 0.5f, 0};
    static const uint8_t windows[] = {0, 1, 1, 1, 0, 1, 1};
    static const struct {
        const char *key;
        value_type type;
        const void *items;
    } arrays[] = {{"step35.attention.head_count", VALUE_U32, heads},
                  {"step35.attention.head_count_kv", VALUE_U32, kv_heads},
                  {"step35.attention.sliding_window_pattern", VALUE_BOOL, windows},
                  {"step35.swiglu_clamp_exp", VALUE_F32, limits},
                  {"step35.swiglu_clamp_shexp", VALUE_F32, shared}};
    hearth_error error;
    hearth_model *m;
    checkpoint *c = open_golden("step3p5");
    stack_check(checkpoint_set_u32(c, "step35.block_count", 7, &error), &error);
    stack_check(checkpoint_set_u32(c, "step35.nextn_predict_layers", 1, &error), &error);
    for (size_t i = 0; i < sizeof arrays / sizeof *arrays; i++)
        stack_check(checkpoint_set_numbers(c, arrays[i].key, arrays[i].type, arrays[i].items, 7, &error), &error);
    const stored_tensor *norm = checkpoint_find_tensor(c, "blk.1.attn_norm.weight");
    assert_non_null(norm);
    stored_tensor draft = *norm;
    draft.name = "blk.6.nextn.enorm.weight";
    stack_check(checkpoint_add_tensor(c, &draft, &error), &error);
    stack_check(model_bind(&m, c, NULL, &error), &error);
    assert_int_equal(m->hyper.layer_count, 6);
    golden_expect_of(m, "step3p5");
}

/* Those of GLM-5.3-Flash have one, too; which layers choose is said of the others alone. One limit may be that of all networks, and
 * of every layer. */
static void glm5_with_drafts(void **state)
{
    (void)state;
    static const uint32_t kv_heads[] = {0, 1, 1, 0, 1, 1};
    static const char one_limit[] = "glm5-next.swiglu_clamp_exp", other_limit[] = "glm5-next.swiglu_clamp_shexp";
    hearth_error error;
    hearth_model *m;
    checkpoint *c = open_golden("glm5-next");
    stack_check(checkpoint_set_u32(c, "glm5-next.block_count", 6, &error), &error);
    stack_check(checkpoint_set_u32(c, "glm5-next.nextn_predict_layers", 1, &error), &error);
    stack_check(checkpoint_set_numbers(c, "glm5-next.attention.head_count_kv", VALUE_U32, kv_heads, 6, &error), &error);
    stack_check(checkpoint_remove_key(c, one_limit, &error), &error);
    stack_check(checkpoint_remove_key(c, other_limit, &error), &error);
    stack_check(checkpoint_set_f32(c, one_limit, 1.5f, &error), &error);
    const stored_tensor *norm = checkpoint_find_tensor(c, "blk.1.attn_norm.weight");
    assert_non_null(norm);
    stored_tensor draft = *norm;
    draft.name = "blk.5.nextn.enorm.weight";
    stack_check(checkpoint_add_tensor(c, &draft, &error), &error);
    stack_check(model_bind(&m, c, NULL, &error), &error);
    assert_int_equal(m->hyper.layer_count, 5);
    golden_expect_of(m, "glm5-next");
}

/* Its first GGUF files name it otherwise, and leave out which layers choose and whether the tail is seen. */
static void glm5_under_another_name(void **state)
{
    (void)state;
    static const char prefix[] = "glm5-next.", other[] = "glm5next.";
    hearth_error error;
    hearth_model *m;
    checkpoint *c = open_golden("glm5-next");
    size_t count = c->entry_count, renamed = 0;
    stack_check(checkpoint_remove_key(c, "glm5-next.attention.indexer.types", &error), &error);
    stack_check(checkpoint_remove_key(c, "glm5-next.attention.indexer.kpool_select_tail", &error), &error);
    assert_int_equal(c->entry_count, count - 2);
    for (size_t i = 0; i < c->entry_count; i++) {
        key_value e = c->entries[i];
        if (strncmp(e.key, prefix, strlen(prefix)) != 0)
            continue;
        char *key = arena_new(&c->memory, strlen(e.key) + 1);
        sprintf(key, "%s%s", other, e.key + strlen(prefix));
        e.key = key;
        stack_check(checkpoint_add_entry(c, &e, &error), &error);
        renamed++;
    }
    assert_true(renamed > 20);
    stack_check(checkpoint_set_string(c, "general.architecture", span_of("glm5next"), &error), &error);
    stack_check(model_bind(&m, c, NULL, &error), &error);
    golden_expect_of(m, "glm5-next");
}

/* The first GGUF files of GLM-4.7-Flash do not say that scores are sigmoids. */
static void sigmoids_unsaid(void **state)
{
    (void)state;
    hearth_error error;
    hearth_model *m;
    checkpoint *c = open_golden("glm4-moe-lite");
    assert_non_null(checkpoint_find(c, "deepseek2.expert_gating_func"));
    stack_check(checkpoint_remove_key(c, "deepseek2.expert_gating_func", &error), &error);
    stack_check(model_bind(&m, c, NULL, &error), &error);
    golden_expect_of(m, "glm4-moe-lite");
}

/* Joins what makes keys and values of each head, as files from before April 2025 have it. */
static void join_heads(checkpoint *c, stored_tensor *keys, const stored_tensor *values, number_format format)
{
    char name[64];
    hearth_error error;
    size_t n = keys->shape[0], width = keys->shape[1], heads = keys->shape[2], v = values->shape[1], row_bytes;
    stored_tensor both = {.name = name, .format = format, .rank = 2, .shape = {width, heads * (n + v), 1, 1}};
    assert_true(keys->format == FORMAT_F32 && values->format == FORMAT_F32);
    assert_true(number_row_bytes(format, width, &row_bytes));
    snprintf(name, sizeof name, "%.*sattn_kv_b.weight", (int)(strstr(keys->name, "attn_k_b") - keys->name), keys->name);
    both.size_bytes = heads * (n + v) * row_bytes;
    char *to = arena_new(&c->memory, both.size_bytes);
    float *row = arena_new(&c->memory, width * sizeof *row);
    both.data = to;
    for (size_t h = 0; h < heads; h++)
        for (size_t i = 0; i < n + v; i++, to += row_bytes) {
            for (size_t k = 0; k < width; k++)
                row[k] = i < n ? ((const float *)keys->data)[(h * width + k) * n + i]
                               : ((const float *)values->data)[(h * v + i - n) * width + k];
            number_formats[format].encode(row, NULL, to, width);
        }
    stack_check(checkpoint_add_tensor(c, &both, &error), &error);
}

/* Opens a golden as such a file; decoded: with the values that the format keeps, as float32. */
static hearth_model *open_joined(const char *name, number_format format, bool decoded)
{
    hearth_error error;
    hearth_model *m;
    uint32_t heads, length, values;
    size_t count;
    checkpoint *c = open_golden(name);
    stack_check(checkpoint_get_u32(c, "deepseek2.attention.head_count", &heads, NULL, &error), &error);
    stack_check(checkpoint_get_u32(c, "deepseek2.attention.key_length_mla", &length, NULL, &error), &error);
    stack_check(checkpoint_get_u32(c, "deepseek2.attention.value_length_mla", &values, NULL, &error), &error);
    stack_check(checkpoint_set_u32(c, "deepseek2.attention.value_length", values, &error), &error);
    stack_check(checkpoint_set_u32(c, "deepseek2.attention.key_length", length, &error), &error);
    stack_check(checkpoint_set_u32(c, "deepseek2.attention.head_count_kv", heads, &error), &error);
    stack_check(checkpoint_remove_key(c, "deepseek2.attention.key_length_mla", &error), &error);
    stack_check(checkpoint_remove_key(c, "deepseek2.attention.value_length_mla", &error), &error);
    stored_tensor *tensors = checkpoint_take_tensors(c, &count), *keys = NULL;
    for (size_t i = 0; i < count; i++) {
        if (strstr(tensors[i].name, "attn_k_b"))
            keys = &tensors[i];
        else if (strstr(tensors[i].name, "attn_v_b"))
            join_heads(c, keys, &tensors[i], format);
        else
            stack_check(checkpoint_add_tensor(c, &tensors[i], &error), &error);
    }
    mem_free(tensors);
    for (size_t i = 0; decoded && i < c->tensor_count; i++) {
        stored_tensor *t = &c->tensors[i];
        if (!strstr(t->name, "attn_kv_b"))
            continue;
        size_t n = (size_t)(t->shape[0] * t->shape[1]);
        float *plain = arena_new(&c->memory, n * sizeof *plain);
        number_formats[format].decode(t->data, plain, n);
        t->format = FORMAT_F32, t->data = plain, t->size_bytes = n * sizeof *plain;
    }
    stack_check(model_bind(&m, c, NULL, &error), &error);
    return m;
}

/* Floats are divided exactly; of blocks the keys are rounded to float16, which has three digits more. */
static void keys_and_values_joined(void **state)
{
    (void)state;
    static const char *const names[] = {"deepseek2-lite", "deepseek3", "glm4-moe-lite"};
    for (size_t i = 0; i < sizeof names / sizeof *names; i++)
        golden_expect_of(open_joined(names[i], FORMAT_F32, false), names[i]);
    golden g;
    golden_load(&g, names[2]); /* whose rows are whole blocks */
    float *got = golden_compute(open_joined(names[2], FORMAT_Q8_0, false), &g);
    float *plain = golden_compute(open_joined(names[2], FORMAT_Q8_0, true), &g);
    double rounding = relative_l2(got, plain, g.total * g.vocabulary);
    assert_true(rounding > 0 && rounding < 2e-3);
    assert_true(relative_l2(got, g.logits, g.total * g.vocabulary) < 0.1);
    free(got), free(plain);
    golden_free(&g);
}

/* Joins the rows of queries, keys and values of a layer. */
static void join_rows(checkpoint *c, const stored_tensor *const parts[3])
{
    char name[64];
    stored_tensor all = *parts[0];
    snprintf(name, sizeof name, "%.*sattn_qkv.weight", (int)(strstr(all.name, "attn_q") - all.name), all.name);
    all.name = name;
    all.shape[1] = parts[0]->shape[1] + parts[1]->shape[1] + parts[2]->shape[1];
    all.size_bytes = parts[0]->size_bytes + parts[1]->size_bytes + parts[2]->size_bytes;
    char *to = arena_new(&c->memory, all.size_bytes);
    all.data = to;
    for (size_t i = 0; i < 3; to += parts[i]->size_bytes, i++)
        memcpy(to, parts[i]->data, parts[i]->size_bytes);
    stack_check(checkpoint_add_tensor(c, &all, NULL), NULL);
}

/* MiMo V2.5 has queries, keys and values in one matrix; values are shorter than keys. */
static void short_values_joined(void **state)
{
    (void)state;
    hearth_error error;
    hearth_model *m;
    size_t count;
    checkpoint *c = open_golden("mimo2");
    stored_tensor *tensors = checkpoint_take_tensors(c, &count);
    for (size_t i = 0; i < count; i++) {
        static const char *const endings[] = {"attn_q.weight", "attn_k.weight", "attn_v.weight"};
        const char *query = strstr(tensors[i].name, endings[0]);
        const stored_tensor *parts[3] = {NULL};
        for (size_t k = 0; query && k < count; k++)
            for (size_t p = 0; p < 3; p++)
                if (strncmp(tensors[k].name, tensors[i].name, (size_t)(query - tensors[i].name)) == 0 &&
                    strstr(tensors[k].name, endings[p]))
                    parts[p] = &tensors[k];
        if (query)
            join_rows(c, parts);
        else if (!strstr(tensors[i].name, endings[1]) && !strstr(tensors[i].name, endings[2]))
            stack_check(checkpoint_add_tensor(c, &tensors[i], &error), &error);
    }
    mem_free(tensors);
    stack_check(model_bind(&m, c, NULL, &error), &error);
    assert_non_null(m->layers[0].qkv.data);
    golden_expect_of(m, "mimo2");
}

/* Layers that read keys of others have values as long as theirs, and no file lacks values of its own. */
static void short_values_of_others(void **state)
{
    (void)state;
    static const uint32_t lengths[] = {64, 64, 64, 96};
    hearth_error error;
    hearth_model *m;
    size_t count;
    checkpoint *c = open_golden("mimo2");
    stack_check(checkpoint_set_numbers(c, "mimo2.attention.value_length", VALUE_U32, lengths, 4, &error), &error);
    stack_check(checkpoint_set_u32(c, "mimo2.attention.shared_kv_layers", 1, &error), &error);
    assert_int_equal(model_check(&m, c, NULL, &error), HEARTH_FORMAT);
    assert_non_null(strstr(error.text, "attention.shared_kv_layers: lets a layer read keys of another shape"));
    checkpoint_close(c);
    c = open_golden("mimo2");
    stored_tensor *tensors = checkpoint_take_tensors(c, &count);
    for (size_t i = 0; i < count; i++)
        if (!strstr(tensors[i].name, "attn_v.weight"))
            stack_check(checkpoint_add_tensor(c, &tensors[i], &error), &error);
    mem_free(tensors);
    assert_int_equal(model_check(&m, c, NULL, &error), HEARTH_FORMAT);
    assert_non_null(strstr(error.text, "layer 0: tensor attn_v.weight or attn_qkv.weight: is missing"));
    checkpoint_close(c);
}

/* Latent attention has keys of its own in every layer. */
static void latent_keys_of_others(void **state)
{
    (void)state;
    hearth_error error;
    hearth_model *m;
    checkpoint *c = open_golden("deepseek3");
    stack_check(checkpoint_set_u32(c, "deepseek2.attention.shared_kv_layers", 1, &error), &error);
    assert_int_equal(model_check(&m, c, NULL, &error), HEARTH_UNSUPPORTED);
    assert_non_null(strstr(error.text, "attention.shared_kv_layers: is not supported with latent attention"));
    checkpoint_close(c);
}

/* Only where a family knows them are there norms without weights, whatever a file says: of latent attention queries are another
 * product. */
static void norms_of_others(void **state)
{
    (void)state;
    static const struct {
        const char *model, *key;
        bool known;
    } cases[] = {{"deepseek3", "deepseek2." PLAIN_NORM_KEY, false}, {"llama4", "llama4." PLAIN_NORM_KEY, true}};
    for (size_t i = 0; i < 2; i++)
        for (int said = 0; said < 2; said++) {
            hearth_error error;
            hearth_model *m;
            checkpoint *c = open_golden(cases[i].model);
            stack_check(checkpoint_set_bool(c, cases[i].key, said, &error), &error);
            stack_check(model_bind(&m, c, NULL, &error), &error);
            assert_int_equal(m->layers[0].attention.norm_plain, cases[i].known && said);
            assert_false(
                m->layers[m->hyper.layer_count - 1].attention.norm_plain); /* which of Llama 4 does not rotate */
            hearth_model_close(m);
        }
}

/* Which layers of a file of Cohere's have windows need not be said; arrays may leave out what guesses ahead. */
static void cohere_files(void **state)
{
    (void)state;
    static const uint8_t windows[] = {0, 1, 1, 1, 0, 1};
    for (int said = 0; said < 2; said++) {
        hearth_error error;
        hearth_model *m;
        static const char key[] = "cohere2moe.attention.sliding_window_pattern";
        checkpoint *c = open_golden("cohere2-moe");
        stack_check(checkpoint_remove_key(c, key, &error), &error);
        if (said) {
            stack_check(checkpoint_set_numbers(c, key, VALUE_BOOL, windows, 6, &error), &error);
            stack_check(checkpoint_set_u32(c, "cohere2moe.block_count", 7, &error), &error);
            stack_check(checkpoint_set_u32(c, "cohere2moe.nextn_predict_layers", 1, &error), &error);
        }
        stack_check(model_bind(&m, c, NULL, &error), &error);
        golden_expect_of(m, "cohere2-moe");
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(cohere_files),          cmocka_unit_test(step_with_drafts),
        cmocka_unit_test(glm5_with_drafts),      cmocka_unit_test(glm5_under_another_name),
        cmocka_unit_test(sigmoids_unsaid),       cmocka_unit_test(keys_and_values_joined),
        cmocka_unit_test(latent_keys_of_others), cmocka_unit_test(norms_of_others),
        cmocka_unit_test(short_values_joined),   cmocka_unit_test(short_values_of_others)};
    return run_group(tests, NULL, NULL);
}
