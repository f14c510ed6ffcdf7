/* model_bind - a folder and the GGUF made from it are the same model.
 *
 * The golden GGUF files were written by another program from the weights of the folders beside them,
 * q and k permuted there; equal matrices here mean that renaming, reversing and permuting are right. */
#include "model_build.h"

#include <math.h>

#define GOLDEN HEARTH_DATA "/golden/"
#define MODELS HEARTH_DATA "/models/"

static hearth_model *open_model(const char *path)
{
    hearth_model *m;
    hearth_error error;
    must(hearth_model_open(&m, path, NULL, &error), &error);
    return m;
}

/* ----------------------------------------------------------------- goldens */

/* What all layers have in common, and the rotaries: llama3's factors are rounded by whoever wrote them. */
static void expect_same_hyper(const hearth_model *a, const hearth_model *b)
{
    assert_memory_equal(&a->hyper, &b->hyper, sizeof a->hyper);
    assert_int_equal(a->rotary_count, b->rotary_count);
    for (uint32_t r = 0; r < a->rotary_count; r++) {
        const rotary *x = &a->rotaries[r], *y = &b->rotaries[r];
        assert_true(x->pairs == y->pairs && x->pairing == y->pairing);
        assert_true(fabsf(x->magnitude / y->magnitude - 1) < 2e-7f);
        for (uint32_t i = 0; i < x->pairs; i++)
            assert_true(fabs(x->frequencies[i] / y->frequencies[i] - 1) < 2e-7);
    }
}

static void expect_same_floats(const float *a, const float *b, size_t n)
{
    assert_int_equal(!a, !b);
    if (a)
        assert_memory_equal(a, b, n * sizeof *a);
}

static void expect_same_norm(const norm_weights *a, const norm_weights *b, size_t n)
{
    expect_same_floats(a->weight, b->weight, n);
    expect_same_floats(a->bias, b->bias, n);
}

static void expect_same_layer(const hearth_model *of, const hearth_model *other, uint32_t layer)
{
    const model_layer *a = &of->layers[layer], *b = &other->layers[layer];
    size_t d = of->hyper.embedding_length, f = a->ffn.neuron_count;
    attention_shape x = a->attention, y = b->attention;
    size_t query = query_width(&x), key = key_width(&x);
    assert_int_equal(x.rotary ? x.rotary - of->rotaries : -1, y.rotary ? y.rotary - other->rotaries : -1);
    assert_true(fabsf(x.scale / y.scale - 1) < 2e-7f);
    x.rotary = y.rotary = NULL;
    x.scale = y.scale = 0;
    assert_memory_equal(&x, &y, sizeof x);
    assert_memory_equal(&a->ffn, &b->ffn, sizeof a->ffn);
    assert_int_equal(a->wiring, b->wiring);
    expect_same_norm(&a->attention_norm, &b->attention_norm, d);
    expect_same_norm(&a->attention_post_norm, &b->attention_post_norm, d);
    expect_same_norm(&a->attention_inner_norm, &b->attention_inner_norm, query);
    expect_same_norm(&a->query_norm, &b->query_norm, x.norm_whole ? query : x.head_length);
    expect_same_norm(&a->key_norm, &b->key_norm, x.norm_whole ? key : x.head_length);
    expect_same_norm(&a->ffn_norm, &b->ffn_norm, d);
    expect_same_norm(&a->ffn_post_norm, &b->ffn_post_norm, d);
    expect_same_norm(&a->ffn_inner_norm, &b->ffn_inner_norm, f);
    expect_same_matrix(&a->q, &b->q);
    expect_same_matrix(&a->k, &b->k);
    expect_same_matrix(&a->v, &b->v);
    expect_same_matrix(&a->attention_output, &b->attention_output);
    expect_same_matrix(&a->gate, &b->gate);
    expect_same_matrix(&a->up, &b->up);
    expect_same_matrix(&a->down, &b->down);
    expect_same_floats(a->q_bias, b->q_bias, query);
    expect_same_floats(a->k_bias, b->k_bias, key);
    expect_same_floats(a->v_bias, b->v_bias, key);
    expect_same_floats(a->attention_output_bias, b->attention_output_bias, d);
    expect_same_floats(a->gate_bias, b->gate_bias, f);
    expect_same_floats(a->up_bias, b->up_bias, f);
    expect_same_floats(a->down_bias, b->down_bias, d);
    expect_same_floats(a->sinks, b->sinks, x.head_count);
}

static uint32_t number(const json_t *config, const char *key)
{
    return (uint32_t)json_integer_value(json_object_get(config, key));
}

/* The model is what config.json says, read here once more by hand. */
static void expect_config(const hearth_model *m, const char *path)
{
    json_t *config;
    assert_int_equal(json_parse_file(&config, path, NULL), HEARTH_OK);
    const hyperparameters *h = &m->hyper;
    const attention_shape *a = &m->layers[0].attention;
    const ffn_shape *f = &m->layers[0].ffn;
    assert_int_equal(h->layer_count, number(config, "num_hidden_layers"));
    assert_int_equal(h->embedding_length, number(config, "hidden_size"));
    assert_int_equal(f->neuron_count, number(config, "intermediate_size"));
    assert_int_equal(a->head_count, number(config, "num_attention_heads"));
    assert_int_equal(a->kv_head_count, number(config, "num_key_value_heads"));
    assert_int_equal(a->head_length, number(config, "hidden_size") / number(config, "num_attention_heads"));
    assert_int_equal(h->rope_pairs, a->head_length / 2);
    assert_int_equal(h->vocabulary_size, number(config, "vocab_size"));
    assert_int_equal(h->context_length, number(config, "max_position_embeddings"));
    assert_int_equal(a->window, number(config, "sliding_window"));
    assert_true(h->norm_epsilon == (float)json_number_value(json_object_get(config, "rms_norm_eps")));
    assert_true(f->threshold == (float)json_number_value(json_object_get(config, "hidden_act_param")));
    assert_string_equal(ffn_activations[f->activation].name, json_string_value(json_object_get(config, "hidden_act")));
    assert_true(fabs((double)a->scale - 1 / sqrt(a->head_length)) < 1e-7);
    bool tied = json_is_true(json_object_get(config, "tie_word_embeddings"));
    assert_int_equal(m->head.data == m->embedding.data, tied);
    uint64_t d = h->embedding_length, kv = (uint64_t)a->kv_head_count * a->head_length;
    uint64_t layer = 2 * d + 2 * d * d + 2 * kv * d + 3 * d * f->neuron_count;
    assert_int_equal(m->parameter_count, layer * h->layer_count + d + (tied ? 1 : 2) * d * h->vocabulary_size);
    json_decref(config);
}

static const char *const cases[] = {
    "llama",           "llama-gqa",     "llama-256",         "llama-relu",
    "llama-relu-gqa",  "llama-fatrelu", "llama-rope-linear", "llama-rope-llama3",
    "llama-rope-yarn", "mistral",       "llama-256-q4_0",    "llama-256-q4_k_m", /* no safetensors: GGUF only */
};

static void test_goldens(void **state)
{
    (void)state;
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        char path[512];
        snprintf(path, sizeof path, GOLDEN "%s/model.gguf", cases[i]);
        hearth_model *gguf = open_model(path);
        snprintf(path, sizeof path, GOLDEN "%s/config.json", cases[i]);
        expect_config(gguf, path);
        assert_non_null(gguf->tokenizer);
        snprintf(path, sizeof path, GOLDEN "%s/model.safetensors", cases[i]);
        if (file_exists(path)) {
            snprintf(path, sizeof path, GOLDEN "%s", cases[i]);
            hearth_model *folder = open_model(path);
            expect_same_hyper(folder, gguf);
            for (uint32_t layer = 0; layer < folder->hyper.layer_count; layer++)
                expect_same_layer(folder, gguf, layer);
            expect_same_norm(&folder->output_norm, &gguf->output_norm, folder->hyper.embedding_length);
            expect_same_matrix(&folder->embedding, &gguf->embedding);
            expect_same_matrix(&folder->head, &gguf->head);
            assert_int_equal(folder->parameter_count, gguf->parameter_count);
            assert_string_equal(folder->name, cases[i]);
            assert_string_equal(folder->name, gguf->name);
            assert_null(folder->tokenizer);
            hearth_model_close(folder);
        }
        hearth_model_close(gguf);
    }
}

static void test_trained(void **state)
{
    (void)state;
    static const char *const names[] = {"stories-relu", "stories260K", "stories260K-relu"};
    for (size_t i = 0; i < 3; i++) {
        char path[512];
        hearth_model_info info;
        snprintf(path, sizeof path, MODELS "%s/", names[i]);
        hearth_model *m = open_model(path);
        snprintf(path, sizeof path, MODELS "%s/config.json", names[i]);
        expect_config(m, path);
        hearth_model_describe(m, &info);
        assert_string_equal(info.name, names[i]);
        assert_string_equal(info.family, "llama");
        assert_true(info.has_tokenizer);
        assert_int_equal(info.bos, 1);
        assert_int_equal(info.eos, 2);
        assert_int_equal(tokenizer_size(m->tokenizer), 512);
        assert_int_equal(info.vocabulary_size, 512);
        hearth_model_close(m);
    }
}

/* ----------------------------------------------------------------- tensors */

/* A norm that is not float32, and one that is not aligned, become float32. */
static void test_vectors(void **state)
{
    (void)state;
    static uint16_t half[TINY_D];
    static char unaligned[TINY_D * sizeof(float) + 1];
    float wanted[TINY_D];
    for (int i = 0; i < TINY_D; i++) {
        half[i] = (uint16_t)(0x3f80 + i); /* bfloat16: 1 + i / 128 */
        wanted[i] = 1 + (float)i / 128;
    }
    memcpy(unaligned + 1, wanted, sizeof wanted);
    hearth_error error;
    hearth_model *m;
    checkpoint *c = tiny_stored(false, "output_norm.weight");
    tiny_keys(c);
    stored_tensor norm = {.name = "output_norm.weight",
                          .format = FORMAT_BF16,
                          .rank = 1,
                          .shape = {TINY_D, 1, 1, 1},
                          .data = half,
                          .size_bytes = sizeof half};
    must(checkpoint_add_tensor(c, &norm, &error), &error);
    must(model_bind(&m, c, NULL, &error), &error);
    assert_memory_equal(m->output_norm.weight, wanted, sizeof wanted);
    hearth_model_close(m);

    c = tiny_gguf("blk.1.ffn_norm.weight");
    norm = (stored_tensor){.name = "blk.1.ffn_norm.weight",
                           .format = FORMAT_F32,
                           .rank = 1,
                           .shape = {TINY_D, 1, 1, 1},
                           .data = unaligned + 1,
                           .size_bytes = sizeof wanted};
    must(checkpoint_add_tensor(c, &norm, &error), &error);
    must(model_bind(&m, c, NULL, &error), &error);
    assert_memory_equal(m->layers[1].ffn_norm.weight, wanted, sizeof wanted);
    assert_int_equal((uintptr_t)m->layers[1].ffn_norm.weight % sizeof(float), 0);
    hearth_model_close(m);
}

static void test_factors(void **state)
{
    (void)state;
    static const float bad[] = {1, 0};
    hearth_error error;
    hearth_model *m;
    checkpoint *c = tiny_gguf(NULL);
    stored_tensor t = {.name = "rope_freqs.weight",
                       .format = FORMAT_F32,
                       .rank = 1,
                       .shape = {2, 1, 1, 1},
                       .data = bad,
                       .size_bytes = sizeof bad};
    must(checkpoint_add_tensor(c, &t, &error), &error);
    assert_int_equal(model_bind(&m, c, NULL, &error), HEARTH_FORMAT);
    expect_text(&error, "tensor rope_freqs.weight: value 1 is not a positive number");
}

/* Sizes by layer: one for all, or an array over the layers. */
static void test_arrays(void **state)
{
    (void)state;
    static const uint32_t same[] = {TINY_F, TINY_F};
    static const int32_t unlike[] = {TINY_HEADS, 3}, few[] = {TINY_HEADS};
    hearth_error error;
    hearth_model *m;
    checkpoint *c = tiny_gguf(NULL);
    must(checkpoint_set_numbers(c, "llama.feed_forward_length", VALUE_U32, same, 2, &error), &error);
    must(model_bind(&m, c, NULL, &error), &error);
    assert_int_equal(m->layers[0].ffn.neuron_count, TINY_F);
    hearth_model_close(m);

    c = tiny_gguf(NULL);
    must(checkpoint_set_numbers(c, "llama.attention.head_count", VALUE_I32, unlike, 2, &error), &error);
    assert_int_equal(model_bind(&m, c, NULL, &error), HEARTH_FORMAT);
    expect_text(&error, "key llama.attention.head_count_kv: does not divide attention.head_count");

    c = tiny_gguf(NULL);
    must(checkpoint_set_numbers(c, "llama.attention.head_count", VALUE_I32, few, 1, &error), &error);
    assert_int_equal(model_bind(&m, c, NULL, &error), HEARTH_FORMAT);
    expect_text(&error, "key llama.attention.head_count: has 1 items, the model has 2 layers");

    c = tiny_gguf(NULL);
    must(checkpoint_set_numbers(c, "llama.attention.head_count", VALUE_F32, same, 2, &error), &error);
    assert_int_equal(model_bind(&m, c, NULL, &error), HEARTH_FORMAT);
    expect_text(&error, "key llama.attention.head_count: is an array of f32, expected an integer");
}

static void test_activation(void **state)
{
    (void)state;
    hearth_error error;
    hearth_model *m;
    hearth_model_options options = {.ffn_activation = "relu"};
    must(model_bind(&m, tiny_gguf(NULL), &options, &error), &error);
    assert_int_equal(m->layers[0].ffn.activation, FFN_RELU);
    hearth_model_close(m);
    options.ffn_activation = "softplus";
    assert_int_equal(model_bind(&m, tiny_gguf(NULL), &options, &error), HEARTH_INVALID);
    expect_text(&error, "FFN activation softplus: is not known (there are: silu, relu, fatrelu, ");
}

static const struct {
    const char *name, *folder_name;
    uint64_t size;
} tiny_biases[] = {
    {"blk.%d.ffn_gate.bias", "model.layers.%d.mlp.gate_proj.bias", TINY_F},
    {"blk.%d.ffn_up.bias", "model.layers.%d.mlp.up_proj.bias", TINY_F},
    {"blk.%d.ffn_down.bias", "model.layers.%d.mlp.down_proj.bias", TINY_D},
};

static const float *tiny_bias(int layer, size_t i)
{
    return tiny_values + 1000 + 100 * layer + 10 * i;
}

static void add_biases(checkpoint *c, bool folder)
{
    hearth_error error;
    for (int layer = 0; layer < TINY_LAYERS; layer++)
        for (size_t i = 0; i < 3; i++) {
            char name[128];
            snprintf(name, sizeof name, folder ? tiny_biases[i].folder_name : tiny_biases[i].name, layer);
            stored_tensor t = {.name = name,
                               .format = FORMAT_F32,
                               .rank = 1,
                               .shape = {tiny_biases[i].size, 1, 1, 1},
                               .data = tiny_bias(layer, i)};
            t.size_bytes = (size_t)tiny_biases[i].size * sizeof(float);
            must(checkpoint_add_tensor(c, &t, &error), &error);
        }
}

static void expect_biases(const hearth_model *m)
{
    for (int layer = 0; layer < TINY_LAYERS; layer++) {
        assert_ptr_equal(m->layers[layer].gate_bias, tiny_bias(layer, 0));
        assert_ptr_equal(m->layers[layer].up_bias, tiny_bias(layer, 1));
        assert_ptr_equal(m->layers[layer].down_bias, tiny_bias(layer, 2));
    }
}

/* Biases of the FFN in a GGUF, and in a folder whose config announces them. */
static void test_biases(void **state)
{
    (void)state;
    hearth_error error;
    hearth_model *m;
    must(model_bind(&m, tiny_gguf(NULL), NULL, &error), &error);
    uint64_t parameters = m->parameter_count;
    assert_null(m->layers[0].gate_bias);
    assert_null(m->layers[0].up_bias);
    assert_null(m->layers[0].down_bias);
    hearth_model_close(m);

    checkpoint *c = tiny_gguf(NULL);
    add_biases(c, false);
    must(model_bind(&m, c, NULL, &error), &error);
    expect_biases(m);
    assert_int_equal(m->parameter_count, parameters + TINY_LAYERS * (2 * TINY_F + TINY_D));
    hearth_model_close(m);

    c = tiny_stored(true, NULL);
    add_biases(c, true);
    json_t *config = tiny_json();
    json_object_set_new(config, "mlp_bias", json_true());
    must(tiny_folder(&m, c, config, &error), &error);
    expect_biases(m);
    hearth_model_close(m);

    c = tiny_stored(true, NULL);
    add_biases(c, true);
    assert_int_equal(tiny_folder(&m, c, tiny_json(), &error), HEARTH_FORMAT);
    expect_text(&error, "tensor model.layers.0.mlp.gate_proj.bias: is there, and mlp_bias is not true");
}

/* A folder of bamboo: llama's tensors, a ReLU on gate and on up, which needs no key in GGUF. */
static void test_bamboo_folder(void **state)
{
    (void)state;
    hearth_error error;
    hearth_model *m;
    json_t *config = tiny_json();
    json_object_set_new(config, "model_type", json_string("bamboo"));
    json_object_set_new(config, "architectures", json_pack("[s]", "BambooForCausalLM"));
    json_object_set_new(config, "hidden_act", json_string("relu"));
    json_object_set_new(config, "sliding_window", json_integer(32));
    must(tiny_folder(&m, tiny_stored(true, NULL), config, &error), &error);
    assert_string_equal(m->family->name, "bamboo");
    assert_int_equal(m->layers[0].ffn.gating, FFN_GATED_BOTH);
    assert_int_equal(m->layers[0].ffn.activation, FFN_RELU);
    assert_int_equal(m->layers[0].attention.window, 32);
    assert_null(checkpoint_find(m->source, "bamboo.hidden_activation"));
    hearth_model_close(m);
}

/* The window of a mistral whose config.json has this value; NULL: it lacks the key. */
static uint32_t mistral_window(json_t *value)
{
    hearth_error error;
    hearth_model *m;
    json_t *config = tiny_json();
    json_object_set_new(config, "model_type", json_string("mistral"));
    json_object_set_new(config, "architectures", json_pack("[s]", "MistralForCausalLM"));
    json_object_del(config, "sliding_window");
    if (value)
        json_object_set_new(config, "sliding_window", value);
    must(tiny_folder(&m, tiny_stored(true, NULL), config, &error), &error);
    uint32_t window = m->layers[0].attention.window;
    hearth_model_close(m);
    return window;
}

/* As transformers' MistralConfig has it: 4096 unless the file says otherwise, and null says that there is none. */
static void test_mistral_window(void **state)
{
    (void)state;
    assert_int_equal(mistral_window(NULL), 4096);
    assert_int_equal(mistral_window(json_null()), 0);
    assert_int_equal(mistral_window(json_integer(32)), 32);
}

/* ----------------------------------------------------------------- failure */

/* Every allocation of an opening fails once; nothing is lost and the cause is told. */
static void fail_allocations(const char *path)
{
    hearth_status status;
    long live = mem_live(), n = 0;
    do {
        hearth_error error = {0};
        hearth_model *m = NULL;
        mem_fail_at(n++);
        status = hearth_model_open(&m, path, NULL, &error);
        mem_fail_at(-1);
        if (status == HEARTH_OK)
            hearth_model_close(m);
        else if (status != HEARTH_NO_MEMORY || !strstr(error.text, "out of memory"))
            fail_msg("allocation %ld: status %d: %s", n - 1, (int)status, error.text);
        assert_int_equal(mem_live(), live);
        assert_true(n < 100000);
    } while (status != HEARTH_OK);
    assert_true(n > 10);
}

static void test_no_memory(void **state)
{
    (void)state;
    fail_allocations(GOLDEN "llama-rope-llama3");
    fail_allocations(GOLDEN "llama-gqa/model.gguf");
    fail_allocations(MODELS "stories260K");
}

static void test_read_failures(void **state)
{
    (void)state;
    hearth_status status;
    long live = mem_live(), n = 0;
    do {
        hearth_error error = {0};
        hearth_model *m = NULL;
        file_fail_at(n++);
        status = hearth_model_open(&m, MODELS "stories260K", NULL, &error);
        file_fail_at(-1);
        if (status == HEARTH_OK)
            hearth_model_close(m);
        else
            assert_int_equal(status, HEARTH_IO);
        assert_int_equal(mem_live(), live);
        assert_true(n < 10000); /* or it cannot be opened at all */
    } while (status != HEARTH_OK);
    assert_true(n > 3);
}

static bool cancel(void *user, const char *what, uint64_t done, uint64_t total)
{
    int *calls = user;
    assert_non_null(what);
    assert_true(done <= total);
    return ++*calls < 2;
}

static void test_cancel(void **state)
{
    (void)state;
    int calls = 0;
    long live = mem_live();
    hearth_error error;
    hearth_model *m;
    hearth_model_options options = {.progress = {cancel, &calls}};
    assert_int_equal(hearth_model_open(&m, GOLDEN "llama", &options, &error), HEARTH_CANCELLED);
    assert_int_equal(calls, 2);
    assert_int_equal(mem_live(), live);
}

static void test_missing(void **state)
{
    (void)state;
    hearth_error error;
    hearth_model *m;
    char folder[] = "/tmp/hearth-model-XXXXXX";
    assert_non_null(mkdtemp(folder));
    assert_int_equal(hearth_model_open(&m, folder, NULL, &error), HEARTH_FORMAT);
    expect_text(&error, "config.json: is missing: not a model folder");
    rmdir(folder);
    assert_int_equal(hearth_model_open(&m, folder, NULL, &error), HEARTH_IO);
    expect_text(&error, folder);
    assert_string_equal(model_tokenizer_missing(&(checkpoint){.path = folder}), "the file holds no vocabulary");
}

/* An embedding with more rows than the vocabulary has pieces: the ids behind them exist and stand for no text. */
static void test_padded_vocabulary(void **state)
{
    (void)state;
    static const span texts[] = {{"<unk>", 5}, {"<s>", 3}, {"</s>", 4}, {"a", 1}};
    static const float scores[] = {0, 0, 0, -1};
    static const int32_t types[] = {2, 3, 3, 1};
    hearth_error error = {0};
    hearth_model *m;
    checkpoint *c = tiny_gguf(NULL);
    must(checkpoint_set_string(c, "tokenizer.ggml.model", span_of("llama"), &error), &error);
    must(checkpoint_set_strings(c, "tokenizer.ggml.tokens", texts, 4, &error), &error);
    must(checkpoint_set_numbers(c, "tokenizer.ggml.scores", VALUE_F32, scores, 4, &error), &error);
    must(checkpoint_set_numbers(c, "tokenizer.ggml.token_type", VALUE_I32, types, 4, &error), &error);
    must(model_bind(&m, c, NULL, &error), &error);
    assert_int_equal(tokenizer_size(m->tokenizer), 4);
    detokenizer *d;
    span text;
    must(detokenizer_create(&d, m->tokenizer, HEARTH_DETOKENIZE_CONTROL, &error), &error);
    for (int32_t id = 4; id < TINY_VOCAB; id++) {
        must(detokenizer_push(d, id, &text, &error), &error);
        assert_int_equal(text.size, 0);
        assert_false(tokenizer_ends_answer(m->tokenizer, id));
    }
    must(detokenizer_push(d, 3, &text, &error), &error);
    assert_true(span_equal(text, span_of("a")));
    assert_int_equal(detokenizer_push(d, TINY_VOCAB, &text, &error), HEARTH_INVALID);
    expect_text(&error, "token 12: the vocabulary has 12 tokens");
    detokenizer_destroy(d);
    hearth_model_close(m);
}

/* Checked without being taken over: described, and the source is still there. */
static void test_check(void **state)
{
    (void)state;
    hearth_error error = {0};
    hearth_model *m;
    hearth_model_info info;
    checkpoint *c = tiny_gguf(NULL);
    long live = mem_live();
    must(model_check(&m, c, NULL, &error), &error);
    hearth_model_describe(m, &info);
    assert_string_equal(info.path, "tiny");
    assert_int_equal(info.layer_count, TINY_LAYERS);
    assert_true(info.parameter_count > 0);
    hearth_model_close(m);
    assert_int_equal(mem_live(), live);
    assert_non_null(checkpoint_find_tensor(c, "token_embd.weight"));
    checkpoint_close(c);
}

/* A vocabulary of an unknown kind: the model computes, and says why it has no tokenizer. */
static void test_unknown_vocabulary(void **state)
{
    (void)state;
    hearth_error error;
    hearth_model *m;
    hearth_model_info info;
    checkpoint *c = tiny_gguf(NULL);
    must(checkpoint_set_string(c, "tokenizer.ggml.model", span_of("gpt9"), &error), &error);
    must(model_bind(&m, c, NULL, &error), &error);
    hearth_model_describe(m, &info);
    assert_false(info.has_tokenizer);
    assert_int_equal(info.bos, -1);
    assert_string_equal(m->tokenizer_problem,
                        "key tokenizer.ggml.model: 'gpt9' is a kind of vocabulary that this version "
                        "does not read (it reads llama, t5, gpt2, gemma4, rwkv)");
    hearth_model_close(m);
    must(model_bind(&m, tiny_gguf(NULL), NULL, &error), &error);
    assert_string_equal(m->tokenizer_problem, "the file holds no vocabulary");
    hearth_model_close(m);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_goldens),
        cmocka_unit_test(test_trained),
        cmocka_unit_test(test_vectors),
        cmocka_unit_test(test_factors),
        cmocka_unit_test(test_arrays),
        cmocka_unit_test(test_activation),
        cmocka_unit_test(test_biases),
        cmocka_unit_test(test_bamboo_folder),
        cmocka_unit_test(test_mistral_window),
        cmocka_unit_test(test_no_memory),
        cmocka_unit_test(test_read_failures),
        cmocka_unit_test(test_cancel),
        cmocka_unit_test(test_missing),
        cmocka_unit_test(test_unknown_vocabulary),
        cmocka_unit_test(test_padded_vocabulary),
        cmocka_unit_test(test_check),
    };
    return run_group(tests, NULL, NULL);
}
