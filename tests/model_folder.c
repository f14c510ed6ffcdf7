/* model_folder - what is special about Hugging Face folders: the order of rows, tied heads, vocabularies. */
#include "model_build.h"

#include "../src/file/gguf.h"
#include "../src/file/weights.h"
#include "file_build.h"
#include "tiktoken_list.h"

#include <math.h>

#define GOLDEN HEARTH_DATA "/golden/"
#define MODELS HEARTH_DATA "/models/"

/* Rows of a folder's q pair halves: row 2 i + s of a head is stored as row s * 2 + i (heads of 4 rows). */
static void test_order(void **state)
{
    (void)state;
    static const int order[] = {0, 2, 1, 3};
    hearth_error error;
    hearth_model *m;
    must(tiny_folder(&m, tiny_stored(true, NULL), tiny_json(), &error), &error);
    const stored_tensor *q = checkpoint_find_tensor(m->source, "blk.1.attn_q.weight");
    const float *stored = q->data;
    for (int row = 0; row < TINY_HEADS * TINY_HEAD; row++) {
        const float *meant = matrix_row(&m->layers[1].q, (size_t)row);
        assert_memory_equal(meant, stored + (row / 4 * 4 + order[row % 4]) * TINY_D, TINY_D * sizeof(float));
    }
    assert_ptr_equal(m->layers[1].v.data, checkpoint_find_tensor(m->source, "blk.1.attn_v.weight")->data);
    hearth_model_close(m);
}

/* Tied: the embedding gives the logits, also where a head lies in the folder. Rotary buffers are left out. */
static void test_tied(void **state)
{
    (void)state;
    static const struct {
        bool has_head, tie, own;
    } rows[] = {{true, false, true}, {true, true, false}, {false, true, false}};
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        hearth_error error;
        hearth_model *m;
        json_t *config = tiny_json();
        checkpoint *stored = tiny_stored(true, rows[i].has_head ? NULL : "output.weight");
        stored_tensor extra = {.name = "model.layers.1.self_attn.rotary_emb.inv_freq",
                               .format = FORMAT_F32,
                               .rank = 1,
                               .shape = {2, 1, 1, 1},
                               .data = tiny_values,
                               .size_bytes = 8};
        must(checkpoint_add_tensor(stored, &extra, &error), &error);
        json_object_set_new(config, "tie_word_embeddings", json_boolean(rows[i].tie));
        must(tiny_folder(&m, stored, config, &error), &error);
        assert_int_equal(m->head.data != m->embedding.data, rows[i].own);
        hearth_model_close(m);
    }
}

/* About a folder's tensors an error speaks the folder's language. */
static void test_folder_names(void **state)
{
    (void)state;
    static const struct {
        const char *key;
        uint32_t value;
        const char *text;
    } rows[] = {{"num_hidden_layers", 3, "tensor model.layers.2.input_layernorm.weight: is missing"},
                {"intermediate_size", 32, "tensor model.layers.0.mlp.gate_proj.weight: is 64 x 96, expected 64 x 32"}};
    char folder[] = "/tmp/hearth-model-XXXXXX", config_path[64], weights_path[64];
    assert_non_null(mkdtemp(folder));
    snprintf(config_path, sizeof config_path, "%s/config.json", folder);
    snprintf(weights_path, sizeof weights_path, "%s/model.safetensors", folder);
    char *weights = realpath(GOLDEN "llama-gqa/model.safetensors", NULL);
    assert_int_equal(symlink(weights, weights_path), 0);
    free(weights);
    for (size_t i = 0; i < 2; i++) {
        json_t *config;
        hearth_error error;
        hearth_model *m;
        assert_int_equal(json_parse_file(&config, GOLDEN "llama-gqa/config.json", NULL), HEARTH_OK);
        json_object_set_new(config, rows[i].key, json_integer(rows[i].value));
        assert_int_equal(json_dump_file(config, config_path, 0), 0);
        json_decref(config);
        assert_int_equal(hearth_model_open(&m, folder, NULL, &error), HEARTH_FORMAT);
        expect_text(&error, folder);
        expect_text(&error, rows[i].text);
    }
    unlink(config_path);
    unlink(weights_path);
    rmdir(folder);
}

/* ------------------------------------------------------------- vocabulary */

/* A folder with the pieces of a trained model and these files of JSON beside them. */
typedef struct vocabulary_folder {
    char path[300];
    checkpoint *c; /* with an embedding of 515 rows; the pieces are 512 */
} vocabulary_folder;

static void put_json(const vocabulary_folder *v, const char *name, const char *json)
{
    char path[512];
    snprintf(path, sizeof path, "%s/%s", v->path, name);
    write_file(path, json, strlen(json));
}

static void open_vocabulary(vocabulary_folder *v)
{
    size_t size;
    hearth_error error;
    char path[512];
    make_folder(v->path, sizeof v->path);
    uint8_t *pieces = load_file(MODELS "stories260K/tokenizer.model", &size);
    snprintf(path, sizeof path, "%s/tokenizer.model", v->path);
    write_file(path, pieces, size);
    free(pieces);
    must(checkpoint_create(&v->c, v->path, &error), &error);
    stored_tensor rows = {.name = "token_embd.weight",
                          .format = FORMAT_F32,
                          .rank = 2,
                          .shape = {1, 515, 1, 1},
                          .data = tiny_values,
                          .size_bytes = 515 * sizeof(float)};
    must(checkpoint_add_tensor(v->c, &rows, &error), &error);
}

static void close_vocabulary(vocabulary_folder *v)
{
    checkpoint_close(v->c);
    remove_folder(v->path);
}

static uint64_t number_of(const checkpoint *c, const char *key)
{
    const key_value *e = checkpoint_find(c, key);
    assert_non_null(e);
    return e->as.u;
}

/* Tokens beyond tokenizer.model: named by the folder, else filled up to the embedding's rows. */
static void test_added_tokens(void **state)
{
    (void)state;
    vocabulary_folder v;
    hearth_error error;
    open_vocabulary(&v);
    put_json(&v, "tokenizer_config.json",
             "{\"add_bos_token\": false, \"chat_template\": \"{{ x }}\", \"added_tokens_decoder\":"
             " {\"0\": {\"content\": \"<unk>\", \"special\": true},"
             " \"512\": {\"content\": \"<|end|>\", \"special\": true},"
             " \"600\": {\"content\": \"<no row>\"}}}");
    put_json(&v, "added_tokens.json", "{\"<tool>\": 513}");
    put_json(&v, "generation_config.json", "{\"eos_token_id\": [512, 2]}");
    json_t *config = json_pack("{s:i, s:i}", "vocab_size", 515, "bos_token_id", 1);
    must(huggingface_add_tokenizer(v.c, v.path, config, &error), &error);
    json_decref(config);
    const key_value *tokens = checkpoint_find(v.c, "tokenizer.ggml.tokens");
    const int32_t *types = checkpoint_find(v.c, "tokenizer.ggml.token_type")->as.items;
    assert_int_equal(tokens->count, 515);
    assert_true(span_equal(tokens->as.strings[512], span_of("<|end|>")));
    assert_true(span_equal(tokens->as.strings[513], span_of("<tool>")));
    assert_true(span_equal(tokens->as.strings[514], span_of("[PAD514]")));
    assert_int_equal(types[0], 2); /* the unknown token stays what it is */
    assert_int_equal(types[512], 3);
    assert_int_equal(types[513], 4);
    assert_int_equal(types[514], 5);
    assert_int_equal(number_of(v.c, "tokenizer.ggml.bos_token_id"), 1);
    assert_int_equal(number_of(v.c, "tokenizer.ggml.eos_token_id"), 512);
    assert_int_equal(number_of(v.c, "tokenizer.ggml.add_bos_token"), 0);
    assert_true(span_equal(checkpoint_find(v.c, "tokenizer.chat_template")->as.string, span_of("{{ x }}")));
    close_vocabulary(&v);
}

/* A model of text and pictures says the ids in its text's config, or nothing, and the size of the vocabulary likewise. */
static void test_nested_vocabulary(void **state)
{
    (void)state;
    static const char *const configs[] = {
        "{\"text_config\": {\"vocab_size\": 515, \"bos_token_id\": 1, \"eos_token_id\": [2, 512]}}",
        "{\"bos_token_id\": 1, \"eos_token_id\": [2, 512], \"text_config\": {}}"};
    for (size_t i = 0; i < sizeof configs / sizeof *configs; i++) {
        vocabulary_folder v;
        hearth_error error;
        json_t *config;
        must(json_parse(&config, configs[i], strlen(configs[i]), "config", &error), &error);
        open_vocabulary(&v);
        must(huggingface_add_tokenizer(v.c, v.path, config, &error), &error);
        assert_int_equal(checkpoint_find(v.c, "tokenizer.ggml.tokens")->count, 515);
        assert_int_equal(number_of(v.c, "tokenizer.ggml.bos_token_id"), 1);
        assert_int_equal(number_of(v.c, "tokenizer.ggml.eos_token_id"), 2);
        assert_int_equal(checkpoint_find(v.c, "tokenizer.hearth.end_tokens")->count, 2);
        json_decref(config);
        close_vocabulary(&v);
    }
}

/* tiktoken's list has no special tokens: they follow it. How its texts are cut is known of one class. */
static void test_ranks(void **state)
{
    (void)state;
    static const struct {
        const char *class, *problem;
    } rows[] = {{"TikTokenTokenizer", NULL}, {"OtherTokenizer", "tokenizer_class 'OtherTokenizer': how it cuts texts"}};
    for (size_t i = 0; i < 2; i++) {
        vocabulary_folder v;
        hearth_error error;
        char path[512], json[512];
        buffer list = all_bytes();
        add_piece(&list, "th", 2, 256);
        open_vocabulary(&v);
        snprintf(path, sizeof path, "%s/tokenizer.model", v.path);
        remove(path);
        snprintf(path, sizeof path, "%s/tiktoken.model", v.path);
        write_file(path, list.data, list.size);
        snprintf(json, sizeof json,
                 "{\"tokenizer_class\": \"%s\", \"eos_token\": \"[EOS]\", \"added_tokens_decoder\":"
                 " {\"257\": {\"content\": \"[EOS]\", \"special\": true}}}",
                 rows[i].class);
        put_json(&v, "tokenizer_config.json", json);
        json_t *config = json_pack("{s:i}", "vocab_size", 515);
        must(huggingface_add_tokenizer(v.c, v.path, config, &error), &error);
        if (rows[i].problem) {
            assert_null(checkpoint_find(v.c, "tokenizer.ggml.tokens"));
            assert_non_null(strstr(v.c->vocabulary_problem, rows[i].problem));
        } else {
            const key_value *tokens = checkpoint_find(v.c, "tokenizer.ggml.tokens");
            assert_true(span_equal(checkpoint_find(v.c, "tokenizer.ggml.pre")->as.string, span_of("kimi-k2")));
            assert_int_equal(tokens->count, 515);
            assert_true(span_equal(tokens->as.strings[256], span_of("th")));
            assert_true(span_equal(tokens->as.strings[257], span_of("[EOS]")));
            assert_int_equal(number_of(v.c, "tokenizer.ggml.eos_token_id"), 257);
            assert_int_equal(checkpoint_find(v.c, "tokenizer.ggml.merges")->count, 1);
        }
        json_decref(config);
        buffer_free(&list);
        close_vocabulary(&v);
    }
}

static void test_bad_tokenizers(void **state)
{
    (void)state;
    static const struct {
        const char *file, *json, *text;
    } rows[] = {
        {"added_tokens.json", "[]", "added_tokens.json: is not an object"},
        {"added_tokens.json", "{\"a\": -1}", "added_tokens.json: a: is not a token id"},
        {"added_tokens.json", "{", "added_tokens.json: line 1"},
        {"tokenizer_config.json", "{\"added_tokens_decoder\": 1}", "added_tokens_decoder: is not an object"},
        {"tokenizer_config.json", "{\"added_tokens_decoder\": {\"x\": {\"content\": \"a\"}}}",
         "added_tokens_decoder: x: is not an id with content"},
        {"tokenizer_config.json", "{\"added_tokens_decoder\": {\"1\": {}}}", "1: is not an id with content"},
        {"tokenizer_config.json", "{\"added_tokens_decoder\": {\"99999999999999999999\": {\"content\": \"a\"}}}",
         "99999999999999999999: is not an id with content"},
        {"tokenizer_config.json", "{\"add_eos_token\": 1}", "add_eos_token: is not true or false"},
        {"tokenizer_config.json", "[]", "add_bos_token: expected inside an object"},
        {"generation_config.json", "{\"eos_token_id\": 515}",
         "generation_config.json: eos_token_id: is not a token id below 515"},
        {"generation_config.json", "{\"bos_token_id\": \"<s>\"}", "bos_token_id: is not a token id below 515"},
    };
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        vocabulary_folder v;
        hearth_error error = {0};
        json_t *config = json_pack("{s:i}", "vocab_size", 515);
        open_vocabulary(&v);
        put_json(&v, rows[i].file, rows[i].json);
        assert_int_equal(huggingface_add_tokenizer(v.c, v.path, config, &error), HEARTH_FORMAT);
        expect_text(&error, v.path);
        expect_text(&error, rows[i].text);
        json_decref(config);
        close_vocabulary(&v);
    }
}

/* The golden folder of a family as config and tensors; tensors get a prefix in front of their names. */
static void load_golden(const char *name, const char *prefix, json_t **config, checkpoint **files, checkpoint **stored)
{
    hearth_error error;
    char path[512];
    snprintf(path, sizeof path, GOLDEN "%s/config.json", name);
    must(json_parse_python(config, path, &error), &error);
    snprintf(path, sizeof path, GOLDEN "%s", name);
    must(checkpoint_create(files, path, &error), &error);
    must(weights_add_folder(*files, path, &error), &error);
    must(checkpoint_create(stored, path, &error), &error);
    for (size_t i = 0; i < (*files)->tensor_count; i++) {
        char longer[256];
        stored_tensor t = (*files)->tensors[i];
        snprintf(longer, sizeof longer, "%s%s", prefix, t.name + (strcmp(prefix, "model.language_model.") ? 0 : 6));
        t.name = longer;
        must(checkpoint_add_tensor(*stored, &t, &error), &error);
    }
}

static void add_small(checkpoint *c, const char *name)
{
    hearth_error error;
    stored_tensor t = {
        .name = name, .format = FORMAT_F32, .rank = 1, .shape = {4, 1, 1, 1}, .data = tiny_values, .size_bytes = 16};
    must(checkpoint_add_tensor(c, &t, &error), &error);
}

static hearth_status understand(hearth_model **out, const checkpoint *stored, const json_t *config, hearth_error *error)
{
    checkpoint *c;
    TRY(checkpoint_create(&c, "golden", error));
    hearth_status status = huggingface_understand(c, stored, config, "config.json", error);
    if (status == HEARTH_OK)
        return model_bind(out, c, NULL, error);
    checkpoint_close(c);
    return status;
}

/* The text's part of a model of text and pictures is the model; what belongs to pictures is left out. */
static void test_nested(void **state)
{
    (void)state;
    static const char *const prefixes[] = {"language_model.", "model.language_model."};
    for (size_t i = 0; i < 2; i++) {
        json_t *text, *config = json_object();
        checkpoint *files, *stored;
        hearth_model *m;
        hearth_error error;
        load_golden("gemma3", prefixes[i], &text, &files, &stored);
        add_small(stored, "vision_tower.embeddings.weight");
        add_small(stored, "model.multi_modal_projector.weight");
        json_object_set_new(config, "architectures", json_pack("[s]", "Gemma3ForConditionalGeneration"));
        json_object_set_new(config, "model_type", json_string("gemma3"));
        json_object_set_new(config, "text_config", text);
        json_object_del(text, "rms_norm_eps"); /* published configs leave out what is transformers' default */
        must(understand(&m, stored, config, &error), &error);
        assert_true(m->hyper.norm_epsilon == 1e-6f);
        assert_int_equal(m->hyper.layer_count, 6);
        assert_int_equal(m->layers[5].attention.window, 0);
        hearth_model_close(m);
        add_small(stored, "model.layers.0.unheard_of.weight");
        assert_int_equal(understand(&m, stored, config, &error), HEARTH_FORMAT);
        expect_text(&error, "tensor model.layers.0.unheard_of.weight: is not part of a gemma3 model");
        checkpoint_close(stored);
        checkpoint_close(files);
        json_decref(config);
    }
}

/* What published configs leave out, and what transformers takes for it then; null is another thing than nothing. */
static void test_defaults(void **state)
{
    (void)state;
    static const struct {
        const char *golden, *key;
        bool is_null;
        double base, share, score_cap, logit_cap; /* -1: not looked at */
    } rows[] = {
        {"gemma3", "rope_theta", false, 1e6, -1, 0, 0},
        {"gemma3n", "rope_theta", false, 1e6, -1, 0, -1},
        {"gemma3n", "final_logit_softcapping", false, -1, -1, 0, 30},
        {"smollm3", "rope_theta", false, 2e6, -1, 0, 0},
        {"mixtral", "rope_theta", false, 1e6, -1, 0, 0},
        {"glm4-moe", "partial_rotary_factor", false, -1, 0.5, 0, 0},
        {"nemotron", "partial_rotary_factor", false, -1, 0.5, 0, 0},
        {"gemma2", "attn_logit_softcapping", false, -1, -1, 50, -1},
        {"gemma2", "final_logit_softcapping", false, -1, -1, -1, 30},
        {"gemma2", "attn_logit_softcapping", true, -1, -1, 0, -1},
        {"gemma2", "final_logit_softcapping", true, -1, -1, -1, 0},
        {"llama", "rope_theta", false, 10000, -1, 0, 0},
    };
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        json_t *config;
        checkpoint *files, *stored;
        hearth_model *m;
        hearth_error error;
        load_golden(rows[i].golden, "", &config, &files, &stored);
        json_object_del(config, rows[i].key);
        if (rows[i].is_null)
            json_object_set_new(config, rows[i].key, json_null());
        must(understand(&m, stored, config, &error), &error);
        const model_layer *l = m->layers;
        while (l->attention.window > 0 && l < m->layers + m->hyper.layer_count - 1)
            l++;
        const rotary *turns = l->attention.rotary;
        double base = pow(turns->frequencies[1], -(double)turns->pairs);
        double share = 2.0 * turns->pairs / l->attention.head_length;
        if ((rows[i].base >= 0 && fabs(base / rows[i].base - 1) > 1e-9) ||
            (rows[i].share >= 0 && share != rows[i].share) ||
            (rows[i].score_cap >= 0 && (double)l->attention.softcap != rows[i].score_cap) ||
            (rows[i].logit_cap >= 0 && (double)m->hyper.logit_softcap != rows[i].logit_cap))
            fail_msg("%s without %s: base %g, share %g, caps %g and %g", rows[i].golden, rows[i].key, base, share,
                     (double)l->attention.softcap, (double)m->hyper.logit_softcap);
        hearth_model_close(m);
        checkpoint_close(stored);
        checkpoint_close(files);
        json_decref(config);
    }
}

/* The size s of the values -s, 0 and s that a matrix gets, by the definition. */
static void size_of_three(const float *w, size_t count, double *size)
{
    double sum = 0;
    for (size_t i = 0; i < count; i++)
        sum += fabs((double)w[i]);
    *size = fmax(sum / (double)count, 1e-5);
}

/* BitNet's folders: weights to be rounded, and the same packed, with s and with 1 / s, are one model. */
static void test_three_values(void **state)
{
    (void)state;
    static const char *const settings[] = {
        "{\"quant_method\": \"bitnet\", \"linear_class\": \"autobitlinear\", \"quantization_mode\": \"online\"}",
        "{\"quant_method\": \"bitnet\", \"linear_class\": \"autobitlinear\", \"quantization_mode\": \"offline\"}",
        "{\"quant_method\": \"bitnet\"}",
    };
    static const char name[] = "model.layers.1.mlp.gate_proj.weight",
                      scale_name[] = "model.layers.1.mlp.gate_proj.weight_scale";
    json_t *config;
    checkpoint *files, *stored;
    hearth_error error = {0};
    load_golden("bitnet", "", &config, &files, &stored);
    const stored_tensor *gate = checkpoint_find_tensor(stored, name);
    size_t columns = (size_t)gate->shape[0], rows = (size_t)gate->shape[1], count = rows * columns, zeros = 0;
    float *w = malloc(count * sizeof *w), *row = malloc(columns * sizeof *row);
    assert_non_null(w);
    assert_non_null(row);
    number_formats[gate->format].decode(gate->data, w, count);
    double size;
    size_of_three(w, count, &size);
    assert_int_equal(rows % 4, 0);
    for (size_t s = 0; s < sizeof settings / sizeof *settings; s++) {
        json_t *quantization;
        checkpoint *given;
        hearth_model *m;
        arena memory = {0};
        must(json_parse(&quantization, settings[s], strlen(settings[s]), "settings", &error), &error);
        json_object_set_new(config, "quantization_config", quantization);
        must(checkpoint_create(&given, "given", &error), &error);
        for (size_t i = 0; i < stored->tensor_count; i++) {
            stored_tensor t = stored->tensors[i];
            float *scale = arena_new_array(&memory, 1, sizeof *scale);
            if (s > 0 && strstr(t.name, "_proj.weight")) { /* packed as its publisher does it */
                size_t width = (size_t)t.shape[0], height = (size_t)t.shape[1];
                float *all = malloc(width * height * sizeof *all);
                uint8_t *packed = arena_new_array(&memory, height / 4, width);
                char other[128];
                double own;
                assert_non_null(all);
                number_formats[t.format].decode(t.data, all, width * height);
                size_of_three(all, width * height, &own);
                *scale = (float)(s == 1 ? own : 1 / own);
                for (size_t y = 0; y < height; y++)
                    for (size_t x = 0; x < width; x++) {
                        double v = fmin(fmax(nearbyint((double)all[y * width + x] / own), -1), 1);
                        packed[y % (height / 4) * width + x] |= (uint8_t)((unsigned)(v + 1) << y / (height / 4) * 2);
                    }
                free(all);
                t.data = packed;
                t.format = FORMAT_STORED_COUNT;
                t.foreign = "U8";
                t.shape[1] /= 4;
                t.size_bytes = width * height / 4;
                snprintf(other, sizeof other, "%s_scale", t.name);
                stored_tensor one = {.name = other,
                                     .format = FORMAT_F32,
                                     .rank = 1,
                                     .shape = {1, 1, 1, 1},
                                     .data = scale,
                                     .size_bytes = 4};
                must(checkpoint_add_tensor(given, &one, &error), &error);
            }
            must(checkpoint_add_tensor(given, &t, &error), &error);
        }
        must(understand(&m, given, config, &error), &error);
        const matrix *read = &m->layers[1].gate;
        assert_int_equal(read->rows, rows);
        for (size_t y = 0; y < rows; y++) {
            number_formats[read->format].decode(matrix_row(read, y), row, columns);
            for (size_t x = 0; x < columns; x++) {
                double expected = fmin(fmax(nearbyint((double)w[y * columns + x] / size), -1), 1) * size;
                if (fabs((double)row[x] - expected) > size / 1024)
                    fail_msg("%s: row %zu, column %zu: is %g, expected %g", settings[s], y, x, (double)row[x],
                             expected);
                zeros += expected == 0;
            }
        }
        assert_true(zeros > 0 && zeros < 3 * count);
        hearth_model_close(m);
        if (s == 1) { /* a number that is none, and an s that is missing */
            stored_tensor *t = NULL;
            for (size_t i = 0; i < given->tensor_count; i++)
                if (strcmp(given->tensors[i].name, name) == 0)
                    t = &given->tensors[i];
            ((uint8_t *)(uintptr_t)t->data)[5] = 0xff;
            assert_int_equal(understand(&m, given, config, &error), HEARTH_FORMAT);
            expect_text(&error, "none of -1, 0 and 1");
            for (size_t i = 0; i < given->tensor_count; i++)
                if (strcmp(given->tensors[i].name, scale_name) == 0)
                    *(float *)(uintptr_t)given->tensors[i].data = 0;
            assert_int_equal(understand(&m, given, config, &error), HEARTH_FORMAT);
            expect_text(&error, "weight_scale is not a positive number");
        }
        checkpoint_close(given);
        arena_clear(&memory);
    }
    free(w);
    free(row);
    uint32_t not_a_number = 0x7fc00000, four[] = {0, 0, not_a_number, 0};
    hearth_model *none;
    json_object_set_new(config, "quantization_config",
                        json_pack("{s:s, s:s, s:s}", "quant_method", "bitnet", "linear_class", "autobitlinear",
                                  "quantization_mode", "online"));
    for (size_t i = 0; i < stored->tensor_count; i++)
        if (strcmp(stored->tensors[i].name, name) == 0) {
            stored->tensors[i].format = FORMAT_F32;
            stored->tensors[i].data = four;
            stored->tensors[i].shape[0] = stored->tensors[i].shape[1] = 2;
            stored->tensors[i].size_bytes = sizeof four;
        }
    assert_int_equal(understand(&none, stored, config, &error), HEARTH_FORMAT);
    expect_text(&error, "not finite");
    json_object_set_new(config, "quantization_config", json_pack("{s:s}", "quant_method", "hqq"));
    assert_int_equal(understand(&none, stored, config, &error), HEARTH_UNSUPPORTED);
    expect_text(&error, "quantization_config: hqq is not read");
    checkpoint_close(stored);
    checkpoint_close(files);
    json_decref(config);
}

/* Tensors of other types than hearth knows, where a folder's tensors are put into another form than they are stored in. */
static void test_foreign_tensors(void **state)
{
    (void)state;
    static const char *const rows[][2] = {{"gemma3", "model.norm.weight"},
                                          {"gemma3", "model.layers.0.self_attn.q_proj.weight"},
                                          {"nemotron", "model.norm.weight"},
                                          {"nemotron-h", "backbone.layers.0.mixer.A_log"},
                                          {"gpt-oss", "model.layers.0.mlp.experts.gate_up_proj"}};
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        json_t *config;
        checkpoint *files, *stored;
        hearth_model *m;
        hearth_error error = {0};
        load_golden(rows[i][0], "", &config, &files, &stored);
        stored_tensor *t = NULL;
        for (size_t k = 0; k < stored->tensor_count; k++)
            if (strcmp(stored->tensors[k].name, rows[i][1]) == 0)
                t = &stored->tensors[k];
        assert_non_null(t);
        *t = (stored_tensor){
            .name = t->name, .format = FORMAT_STORED_COUNT, .rank = 1, .shape = {1, 1, 1, 1}, .foreign = "LongStorage"};
        assert_int_not_equal(understand(&m, stored, config, &error), HEARTH_OK);
        expect_text(&error, "LongStorage");
        checkpoint_close(stored);
        checkpoint_close(files);
        json_decref(config);
    }
}

/* A layer behind the last one that guesses tokens ahead is left out, where the config announces it. */
static void test_draft(void **state)
{
    (void)state;
    json_t *config;
    checkpoint *files, *stored;
    hearth_model *m;
    hearth_error error;
    load_golden("glm4-moe", "", &config, &files, &stored);
    add_small(stored, "model.layers.3.eh_proj.weight");
    add_small(stored, "model.layers.3.input_layernorm.weight");
    assert_int_equal(understand(&m, stored, config, &error), HEARTH_FORMAT);
    json_object_set_new(config, "num_nextn_predict_layers", json_integer(1));
    must(understand(&m, stored, config, &error), &error);
    assert_int_equal(m->hyper.layer_count, 3);
    hearth_model_close(m);
    checkpoint_close(stored);
    checkpoint_close(files);
    json_decref(config);

    checkpoint *c;
    must(gguf_open(&c, GOLDEN "glm4-moe/model.gguf", &error), &error);
    must(checkpoint_set_u32(c, "glm4moe.block_count", 4, &error), &error);
    must(checkpoint_set_u32(c, "glm4moe.nextn_predict_layers", 1, &error), &error);
    add_small(c, "blk.3.nextn.eh_proj.weight");
    must(model_bind(&m, c, NULL, &error), &error);
    assert_int_equal(m->hyper.layer_count, 3);
    assert_int_equal(m->hyper.draft_layers, 1);
    hearth_model_close(m);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_order),           cmocka_unit_test(test_tied),
        cmocka_unit_test(test_nested),          cmocka_unit_test(test_defaults),
        cmocka_unit_test(test_foreign_tensors), cmocka_unit_test(test_three_values),
        cmocka_unit_test(test_draft),           cmocka_unit_test(test_folder_names),
        cmocka_unit_test(test_added_tokens),    cmocka_unit_test(test_ranks),
        cmocka_unit_test(test_bad_tokenizers),  cmocka_unit_test(test_nested_vocabulary),
    };
    return run_group(tests, NULL, NULL);
}
