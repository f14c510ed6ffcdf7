/* model_folder_rwkv.c - RWKV-7's folders: what their configs leave out or to their tensors, mixtures in one tensor, what the first
 * layer has though nothing uses it, and the keys that come with the list of pieces. */
#include "../src/chat/named.h"
#include "../src/file/weights.h"
#include "../src/text/rwkv_vocabulary.h"
#include "file_build.h"
#include "model_build.h"

#define GOLDEN HEARTH_DATA "/golden/rwkv7"
enum { WIDTH = 128, LAYERS = 3 }; /* of the golden model */

/* A changed copy of the golden folder. */
typedef struct rwkv_folder {
    json_t *config;
    checkpoint *files, *stored; /* files owns the values of the golden tensors */
} rwkv_folder;

static void open_folder(rwkv_folder *f)
{
    hearth_error error;
    must(json_parse_python(&f->config, GOLDEN "/config.json", &error), &error);
    must(checkpoint_create(&f->files, GOLDEN, &error), &error);
    must(weights_add_folder(f->files, GOLDEN, &error), &error);
    must(checkpoint_create(&f->stored, GOLDEN, &error), &error);
}

/* Copies all golden tensors but those whose names contain `without` (NULL: all). */
static void copy_tensors(rwkv_folder *f, const char *without)
{
    hearth_error error;
    for (size_t i = 0; i < f->files->tensor_count; i++)
        if (!without || !strstr(f->files->tensors[i].name, without))
            must(checkpoint_add_tensor(f->stored, &f->files->tensors[i], &error), &error);
}

static hearth_status understand(hearth_model **out, const rwkv_folder *f, hearth_error *error)
{
    checkpoint *c;
    must(checkpoint_create(&c, "golden", error), error);
    hearth_status status = huggingface_understand(c, f->stored, f->config, "config.json", error);
    if (status == HEARTH_OK)
        return model_bind(out, c, NULL, error);
    checkpoint_close(c);
    return status;
}

static void close_folder(rwkv_folder *f)
{
    checkpoint_close(f->stored);
    checkpoint_close(f->files);
    json_decref(f->config);
}

/* Sets a member of the config, as JSON; NULL removes it. */
static void set(rwkv_folder *f, const char *key, const char *json)
{
    hearth_error error;
    json_t *value;
    if (!json) {
        json_object_del(f->config, key);
        return;
    }
    char text[64];
    int length = snprintf(text, sizeof text, "{\"x\": %s}", json);
    must(json_parse(&value, text, (size_t)length, "value", &error), &error);
    json_object_set(f->config, key, json_object_get(value, "x"));
    json_decref(value);
}

/* The golden folder with up to two members of its config set. */
static void open_changed(rwkv_folder *f, const char *const keys[2], const char *const values[2])
{
    open_folder(f);
    copy_tensors(f, NULL);
    for (size_t k = 0; k < 2 && keys[k]; k++)
        set(f, keys[k], values[k]);
}

/* ------------------------------------------------------------------ configs */

/* What is said in another way, or not at all, is the same model. */
static void configs_of_one_model(void **state)
{
    (void)state;
    static const struct {
        const char *keys[2], *values[2];
    } rows[] = {
        {{NULL}, {NULL}},
        {{"head_dim"}, {NULL}}, /* 64 */
        {{"head_dim", "num_heads"}, {"null", "2"}},
        {{"num_heads"}, {"5"}}, /* head_dim counts */
        {{"intermediate_size", "hidden_ratio"}, {"null", "1.2"}},
        {{"decay_low_rank_dim", "a_low_rank_dim"}, {"null", "null"}},
        {{"v_low_rank_dim", "gate_low_rank_dim"}, {"null", "null"}},
        {{"norm_first", "norm_bias"}, {NULL, NULL}},
        {{"value_dim", "attn"}, {"128", NULL}},
    };
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        rwkv_folder f;
        hearth_model *m;
        hearth_error error;
        open_changed(&f, rows[i].keys, rows[i].values);
        must(understand(&m, &f, &error), &error);
        static const uint32_t ranks[LOW_RANK_MAPS] = {
            [MAP_DECAY] = 16, [MAP_RATE] = 20, [MAP_VALUE] = 12, [MAP_GATE] = 24};
        for (uint32_t layer = 0; layer < LAYERS; layer++) {
            const recurrent_shape *shape = &m->layers[layer].recurrent;
            assert_int_equal(shape->rule, RECURRENCE_RWKV7);
            assert_int_equal(shape->head_count, 2);
            assert_int_equal(shape->key_length, 64);
            for (size_t map = 0; map < LOW_RANK_MAPS; map++)
                assert_int_equal(shape->ranks[map], layer == 0 && map == MAP_VALUE ? 0 : ranks[map]);
            assert_int_equal(m->layers[layer].ffn.neuron_count, 160);
        }
        hearth_model_close(m);
        close_folder(&f);
    }
}

static void refused_configs(void **state)
{
    (void)state;
    static const struct {
        const char *keys[2], *values[2];
        hearth_status status;
        const char *text;
    } rows[] = {
        {{"head_dim"}, {"48"}, HEARTH_FORMAT, "head_dim: does not divide hidden_size"},
        {{"head_dim", "num_heads"}, {"null", "129"}, HEARTH_FORMAT, "num_heads: does not divide hidden_size"},
        {{"head_dim", "num_heads"}, {"null", "3"}, HEARTH_FORMAT, "num_heads: does not divide hidden_size"},
        {{"head_dim", "norm_eps"}, {"32", "2e-5"}, HEARTH_FORMAT, "r_k: is of heads of 64, and the config's have 32"},
        {{"norm_eps"}, {"1e-6"}, HEARTH_UNSUPPORTED, "norm_eps: times head_dim is 6.4e-05, and only"},
        {{"attn"}, {"{}"}, HEARTH_UNSUPPORTED, "attn: layers with attention"},
        {{"value_dim"}, {"[128, 256, 128]"}, HEARTH_UNSUPPORTED, "value_dim: values of another width"},
        {{"intermediate_size", "hidden_ratio"}, {"null", "1e300"}, HEARTH_FORMAT, "hidden_ratio: is 1e+300"},
        {{"intermediate_size", "hidden_ratio"}, {"null", "-1"}, HEARTH_FORMAT, "hidden_ratio: "},
        {{"gate_low_rank_dim"}, {"23"}, HEARTH_FORMAT, "time_mix_g1.weight: is 128 x 24, expected 128 x 23"},
        {{"norm_first"}, {"false"}, HEARTH_UNSUPPORTED, "norm_first"},
    };
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        rwkv_folder f;
        hearth_model *m;
        hearth_error error;
        open_changed(&f, rows[i].keys, rows[i].values);
        hearth_status status = understand(&m, &f, &error);
        if (status != rows[i].status)
            fail_msg("%s = %s: status %d", rows[i].keys[0], rows[i].values[0], status);
        expect_text(&error, rows[i].text);
        close_folder(&f);
    }
}

/* ------------------------------------------------------------------ tensors */

/* The mixtures of a layer may come in one tensor, in the order r, w, k, v, a, g. */
static void mixtures_in_one(void **state)
{
    (void)state;
    static const char letters[] = "rwkvag";
    rwkv_folder f;
    hearth_model *one_by_one, *in_one;
    hearth_error error;
    arena memory = {0};
    open_folder(&f);
    copy_tensors(&f, NULL);
    must(understand(&one_by_one, &f, &error), &error);
    checkpoint_close(f.stored);
    must(checkpoint_create(&f.stored, GOLDEN, &error), &error);
    copy_tensors(&f, ".attn.x_");
    for (uint32_t layer = 0; layer < LAYERS; layer++) {
        char name[64];
        float *values = arena_new_array(&memory, 6 * WIDTH, sizeof *values);
        for (size_t k = 0; k < 6; k++) {
            snprintf(name, sizeof name, "model.layers.%u.attn.x_%c", layer, letters[k]);
            const stored_tensor *t = checkpoint_find_tensor(f.files, name);
            assert_non_null(t);
            number_formats[t->format].decode(t->data, values + k * WIDTH, WIDTH);
        }
        snprintf(name, sizeof name, "model.layers.%u.attn.x_x", layer);
        const stored_tensor joined = {.name = name,
                                      .format = FORMAT_F32,
                                      .rank = 2,
                                      .shape = {WIDTH, 6, 1, 1},
                                      .data = values,
                                      .size_bytes = 6 * WIDTH * sizeof *values};
        must(checkpoint_add_tensor(f.stored, &joined, &error), &error);
    }
    must(understand(&in_one, &f, &error), &error);
    for (uint32_t layer = 0; layer < LAYERS; layer++) {
        char name[64];
        snprintf(name, sizeof name, "blk.%u.time_mix_lerp_fused.weight", layer);
        const stored_tensor *t = checkpoint_find_tensor(in_one->source, name);
        assert_non_null(t);
        assert_int_equal(t->rank, 4); /* as llama.cpp wants it */
        assert_int_equal(t->shape[3], 6);
        assert_memory_equal(in_one->layers[layer].input_mix, one_by_one->layers[layer].input_mix,
                            6 * WIDTH * sizeof(float));
    }
    hearth_model_close(in_one);
    hearth_model_close(one_by_one);
    close_folder(&f);
    arena_clear(&memory);
}

/* A layer that lacks one of its mixtures is refused. */
static void missing_mixture(void **state)
{
    (void)state;
    rwkv_folder f;
    hearth_model *m;
    hearth_error error;
    open_folder(&f);
    copy_tensors(&f, "layers.1.attn.x_g");
    assert_int_equal(understand(&m, &f, &error), HEARTH_FORMAT);
    expect_text(&error, "tensor model.layers.1.attn.x_g: is missing");
    close_folder(&f);
}

/* The first layer mixes no values of a layer before it. Whether or not a folder has the map for that, GGUF gets one, which is that
 * of the rate, as from llama.cpp's converter. */
static void first_layer(void **state)
{
    (void)state;
    for (int has = 0; has < 2; has++) {
        rwkv_folder f;
        hearth_model *m;
        hearth_error error;
        static const float zeros[WIDTH];
        open_folder(&f);
        copy_tensors(&f, "layers.0.attn.v_lora.");
        const stored_tensor own = {.name = "model.layers.0.attn.v_lora.lora.2.bias",
                                   .format = FORMAT_F32,
                                   .rank = 1,
                                   .shape = {WIDTH, 1, 1, 1},
                                   .data = zeros,
                                   .size_bytes = sizeof zeros};
        if (has)
            must(checkpoint_add_tensor(f.stored, &own, &error), &error);
        must(understand(&m, &f, &error), &error);
        const stored_tensor *v = checkpoint_find_tensor(m->source, "blk.0.time_mix_v0.weight");
        assert_non_null(v);
        assert_ptr_equal(v->data, checkpoint_find_tensor(m->source, "blk.0.time_mix_a0.weight")->data);
        hearth_model_close(m);
        close_folder(&f);
    }
}

/* --------------------------------------------------------------- vocabulary */

/* A folder's list of pieces brings its ids and its template with it, whatever the config says of them. */
static void vocabulary(void **state)
{
    (void)state;
    static const char config_text[] = "{\"vocab_size\": 300, \"bos_token_id\": 1, \"eos_token_id\": 2}";
    char folder[300], path[512];
    buffer list = {0};
    checkpoint *c;
    json_t *config;
    hearth_error error;
    for (unsigned byte = 0; byte < 256; byte++)
        assert_true(buffer_print(&list, byte < 0x80 ? "%u '\\x%02x' 1\n" : "%u b'\\x%02x' 1\n", byte + 1, byte));
    assert_true(buffer_print(&list, "257 '\\n\\n' 2\n258 ' the' 4\n"));
    make_folder(folder, sizeof folder);
    snprintf(path, sizeof path, "%s/" RWKV_VOCABULARY_FILE, folder);
    write_file(path, list.data, list.size);
    must(checkpoint_create(&c, folder, &error), &error);
    const stored_tensor rows = {.name = "token_embd.weight",
                                .format = FORMAT_F32,
                                .rank = 2,
                                .shape = {1, 300, 1, 1},
                                .data = tiny_values,
                                .size_bytes = 300 * sizeof(float)};
    must(checkpoint_add_tensor(c, &rows, &error), &error);
    must(json_parse(&config, config_text, strlen(config_text), "config", &error), &error);
    must(huggingface_add_tokenizer(c, folder, config, &error), &error);
    assert_int_equal(checkpoint_find(c, "tokenizer.ggml.tokens")->count, 300); /* as many as rows */
    assert_int_equal(checkpoint_find(c, "tokenizer.ggml.bos_token_id")->as.u, 0);
    assert_int_equal(checkpoint_find(c, "tokenizer.ggml.eos_token_id")->as.u, 0);
    assert_int_equal(checkpoint_find(c, "tokenizer.ggml.eot_token_id")->as.u, 257);
    assert_null(checkpoint_find(c, "tokenizer.hearth.end_tokens"));
    assert_true(
        span_equal(checkpoint_find(c, "tokenizer.chat_template")->as.string, named_template_find("rwkv-world")));
    json_decref(config);
    checkpoint_close(c);
    remove_folder(folder);
    buffer_free(&list);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(configs_of_one_model), cmocka_unit_test(refused_configs),
                                       cmocka_unit_test(mixtures_in_one),      cmocka_unit_test(missing_mixture),
                                       cmocka_unit_test(first_layer),          cmocka_unit_test(vocabulary)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
