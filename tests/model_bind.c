/* model_bind - a folder and the GGUF made from it are the same model; what is wrong with either is named.
 *
 * The golden GGUF files were written by another program from the weights of the folders beside them,
 * q and k permuted there; equal matrices here mean that renaming, reversing and permuting are right. */
#include "model_build.h"

#include <math.h>

#define GOLDEN HEARTH_SHARED "/golden/"
#define MODELS HEARTH_SHARED "/models/"

static hearth_model *open_model(const char *path)
{
    hearth_model *m;
    hearth_error error;
    must(hearth_model_open(&m, path, NULL, &error), &error);
    return m;
}

/* ----------------------------------------------------------------- goldens */

static void expect_same_hyper(const hyperparameters *a, const hyperparameters *b)
{
    hyperparameters x = *a, y = *b;
    assert_int_equal(x.rope_pairs, y.rope_pairs);
    for (uint32_t i = 0; i < x.rope_pairs; i++) /* llama3's factors are rounded by whoever wrote them */
        assert_true(fabs(x.rope_frequencies[i] / y.rope_frequencies[i] - 1) < 2e-7);
    x.rope_frequencies = y.rope_frequencies = NULL;
    assert_memory_equal(&x, &y, sizeof x);
}

static void expect_same_layer(const model_layer *a, const model_layer *b, size_t d)
{
    assert_memory_equal(a->attention_norm, b->attention_norm, d * sizeof(float));
    assert_memory_equal(a->ffn_norm, b->ffn_norm, d * sizeof(float));
    expect_same_matrix(&a->q, &b->q);
    expect_same_matrix(&a->k, &b->k);
    expect_same_matrix(&a->v, &b->v);
    expect_same_matrix(&a->attention_output, &b->attention_output);
    expect_same_matrix(&a->gate, &b->gate);
    expect_same_matrix(&a->up, &b->up);
    expect_same_matrix(&a->down, &b->down);
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
    assert_int_equal(h->layer_count, number(config, "num_hidden_layers"));
    assert_int_equal(h->embedding_length, number(config, "hidden_size"));
    assert_int_equal(h->neuron_count, number(config, "intermediate_size"));
    assert_int_equal(h->head_count, number(config, "num_attention_heads"));
    assert_int_equal(h->kv_head_count, number(config, "num_key_value_heads"));
    assert_int_equal(h->head_length, number(config, "hidden_size") / number(config, "num_attention_heads"));
    assert_int_equal(h->rope_pairs, h->head_length / 2);
    assert_int_equal(h->vocabulary_size, number(config, "vocab_size"));
    assert_int_equal(h->context_length, number(config, "max_position_embeddings"));
    assert_int_equal(h->sliding_window, number(config, "sliding_window"));
    assert_true(h->norm_epsilon == (float)json_number_value(json_object_get(config, "rms_norm_eps")));
    assert_true(h->activation_threshold == (float)json_number_value(json_object_get(config, "hidden_act_param")));
    assert_string_equal(ffn_activations[h->activation].name, json_string_value(json_object_get(config, "hidden_act")));
    assert_true(fabs((double)h->attention_scale - 1 / sqrt(h->head_length)) < 1e-7);
    bool tied = json_is_true(json_object_get(config, "tie_word_embeddings"));
    assert_int_equal(m->head.data == m->embedding.data, tied);
    uint64_t d = h->embedding_length, kv = (uint64_t)h->kv_head_count * h->head_length;
    uint64_t layer = 2 * d + 2 * d * d + 2 * kv * d + 3 * d * h->neuron_count;
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
    if (!file_is_folder(GOLDEN))
        skip();
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
            size_t d = folder->hyper.embedding_length;
            expect_same_hyper(&folder->hyper, &gguf->hyper);
            for (uint32_t layer = 0; layer < folder->hyper.layer_count; layer++)
                expect_same_layer(&folder->layers[layer], &gguf->layers[layer], d);
            assert_memory_equal(folder->output_norm, gguf->output_norm, d * sizeof(float));
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
    if (!file_is_folder(MODELS))
        skip();
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

/* A tensor put in the place of one of the tiny model's, or beside them. */
typedef struct spoiled {
    const char *without, *name;
    uint32_t rank;
    uint64_t columns, rows;
    number_format format;
    const char *text;
} spoiled;

static const spoiled spoiled_tensors[] = {
    {"blk.1.ffn_up.weight", NULL, 0, 0, 0, 0, "tiny: tensor blk.1.ffn_up.weight: is missing"},
    {"token_embd.weight", NULL, 0, 0, 0, 0, "tiny: tensor token_embd.weight: is missing"},
    {"blk.1.ffn_up.weight", "blk.1.ffn_up.weight", 2, 16, 32, FORMAT_F32,
     "tiny: tensor blk.1.ffn_up.weight: is 16 x 32, expected 16 x 24"},
    {"blk.1.ffn_up.weight", "blk.1.ffn_up.weight", 1, 384, 1, FORMAT_F32, "is 384, expected 16 x 24"},
    {"blk.0.attn_k.weight", "blk.0.attn_k.weight", 2, 8, 16, FORMAT_F32, "is 8 x 16, expected 16 x 8"},
    {"blk.0.attn_norm.weight", "blk.0.attn_norm.weight", 2, 16, 1, FORMAT_F32, "is 16 x 1, expected 16"},
    {"blk.0.attn_norm.weight", "blk.0.attn_norm.weight", 1, 16, 1, FORMAT_Q8_0,
     "tensor blk.0.attn_norm.weight: is q8_0, a vector must be float"},
    {"output.weight", "output.weight", 2, 16, 11, FORMAT_F32, "is 16 x 11, expected 16 x 12"},
    {"token_embd.weight", "token_embd.weight", 1, 16, 1, FORMAT_F32, "tensor token_embd.weight: is no matrix"},
    {NULL, "blk.0.attn_q.bias", 1, 16, 1, FORMAT_F32, "tensor blk.0.attn_q.bias: is not part of a llama model"},
    {NULL, "blk.2.attn_q.weight", 2, 16, 16, FORMAT_F32,
     "tensor blk.2.attn_q.weight: is not part of a model of 2 layers"},
    {NULL, "blk.01.attn_q.weight", 2, 16, 16, FORMAT_F32, "is not part of a llama model"},
    {NULL, "rope_freqs.weight", 1, 3, 1, FORMAT_F32, "tensor rope_freqs.weight: is 3, expected 2"},
    {NULL, "blk.1.attn_rot_embd.weight", 1, 2, 1, FORMAT_F32, NULL}, /* needed by nobody, tolerated */
};

static void test_spoiled_tensors(void **state)
{
    (void)state;
    for (size_t i = 0; i < sizeof spoiled_tensors / sizeof *spoiled_tensors; i++) {
        const spoiled *s = &spoiled_tensors[i];
        long live = mem_live();
        hearth_error error;
        hearth_model *m;
        checkpoint *c = tiny_gguf(s->without);
        stored_tensor t = {.name = s->name,
                           .format = s->format,
                           .rank = s->rank,
                           .shape = {s->columns, s->rows, 1, 1},
                           .data = tiny_values,
                           .size_bytes = s->columns * s->rows * sizeof(float)};
        if (s->name)
            must(checkpoint_add_tensor(c, &t, &error), &error);
        hearth_status status = model_bind(&m, c, NULL, &error);
        if (s->text) {
            assert_int_equal(status, HEARTH_FORMAT);
            expect_text(&error, s->text);
        } else {
            must(status, &error);
            hearth_model_close(m);
        }
        assert_int_equal(mem_live(), live);
    }
}

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
    stored_tensor norm = {"output_norm.weight", FORMAT_BF16, 1, {TINY_D, 1, 1, 1}, half, sizeof half, 0};
    must(checkpoint_add_tensor(c, &norm, &error), &error);
    must(model_bind(&m, c, NULL, &error), &error);
    assert_memory_equal(m->output_norm, wanted, sizeof wanted);
    hearth_model_close(m);

    c = tiny_gguf("blk.1.ffn_norm.weight");
    norm = (stored_tensor){"blk.1.ffn_norm.weight", FORMAT_F32, 1, {TINY_D, 1, 1, 1}, unaligned + 1, sizeof wanted, 0};
    must(checkpoint_add_tensor(c, &norm, &error), &error);
    must(model_bind(&m, c, NULL, &error), &error);
    assert_memory_equal(m->layers[1].ffn_norm, wanted, sizeof wanted);
    assert_int_equal((uintptr_t)m->layers[1].ffn_norm % sizeof(float), 0);
    hearth_model_close(m);
}

static void test_factors(void **state)
{
    (void)state;
    static const float bad[] = {1, 0};
    hearth_error error;
    hearth_model *m;
    checkpoint *c = tiny_gguf(NULL);
    stored_tensor t = {"rope_freqs.weight", FORMAT_F32, 1, {2, 1, 1, 1}, bad, sizeof bad, 0};
    must(checkpoint_add_tensor(c, &t, &error), &error);
    assert_int_equal(model_bind(&m, c, NULL, &error), HEARTH_FORMAT);
    expect_text(&error, "tensor rope_freqs.weight: value 1 is no positive number");
}

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
    } rows[] = {{true, false, true}, {true, true, false}, {false, false, false}, {false, true, false}};
    for (size_t i = 0; i < 4; i++) {
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

/* ------------------------------------------------------------ hostile input */

typedef struct bad_config {
    const char *key, *value; /* JSON; NULL removes the key */
    hearth_status status;
    const char *text;
} bad_config;

static const bad_config bad_configs[] = {
    {"model_type", "\"gpt9\"", HEARTH_UNSUPPORTED, "model_type: gpt9 is not supported (known: llama, mistral)"},
    {"model_type", "7", HEARTH_FORMAT, "model_type: is not a string"},
    {"architectures", "[\"LlamaForSequenceClassification\"]", HEARTH_UNSUPPORTED,
     "architectures: LlamaForSequenceClassification is not supported (known for llama: LlamaForCausalLM)"},
    {"architectures", "{}", HEARTH_FORMAT, "architectures: is not an array of strings"},
    {"architectures", "[]", HEARTH_FORMAT, "architectures: is not an array of strings"},
    {"hidden_size", NULL, HEARTH_FORMAT, "config.json: hidden_size: is missing"},
    {"hidden_size", "0", HEARTH_FORMAT, "config.json: hidden_size: is 0, expected 1 to 1048576"},
    {"hidden_size", "-16", HEARTH_FORMAT, "hidden_size: is not an integer"},
    {"hidden_size", "16.5", HEARTH_FORMAT, "hidden_size: is not an integer"},
    {"hidden_size", "4294967296", HEARTH_FORMAT, "hidden_size: is not an integer"},
    {"hidden_size", "1048577", HEARTH_FORMAT, "hidden_size: is 1048577, expected 1 to 1048576"},
    {"hidden_size", "17", HEARTH_FORMAT, "head_count: does not divide embedding_length"},
    {"hidden_size", "32", HEARTH_FORMAT, "token_embd.weight: is 16 x 12, expected 32 x 12"},
    {"num_hidden_layers", "3", HEARTH_FORMAT, "tensor blk.2.attn_norm.weight: is missing"},
    {"num_hidden_layers", "1", HEARTH_FORMAT, "is not part of a model of 1 layers"},
    {"num_hidden_layers", "5000", HEARTH_FORMAT, "num_hidden_layers: is 5000, expected 1 to 4096"},
    {"num_attention_heads", "3", HEARTH_FORMAT, "does not divide"},
    {"num_attention_heads", "65537", HEARTH_FORMAT, "num_attention_heads: is 65537"},
    {"num_key_value_heads", "3", HEARTH_FORMAT, "does not divide attention.head_count"},
    {"num_key_value_heads", "1", HEARTH_FORMAT, "blk.0.attn_k.weight: is 16 x 8, expected 16 x 4"},
    {"num_key_value_heads", "null", HEARTH_FORMAT, "blk.0.attn_k.weight: is 16 x 8, expected 16 x 16"},
    {"head_dim", "5", HEARTH_FORMAT, "is odd"},
    {"head_dim", "8", HEARTH_FORMAT, "blk.0.attn_q.weight: is 16 x 16, expected 16 x 32"},
    {"head_dim", "0", HEARTH_FORMAT, "head_dim: is 0"},
    {"vocab_size", "13", HEARTH_FORMAT, "token_embd.weight: is 16 x 12, expected 16 x 13"},
    {"vocab_size", "\"12\"", HEARTH_FORMAT, "vocab_size: is not an integer"},
    {"max_position_embeddings", "0", HEARTH_FORMAT, "max_position_embeddings: is 0"},
    {"rms_norm_eps", NULL, HEARTH_FORMAT, "rms_norm_eps: is missing"},
    {"rms_norm_eps", "0", HEARTH_FORMAT, "rms_norm_eps: is 0, expected a positive number"},
    {"rms_norm_eps", "1e-60", HEARTH_FORMAT, "rms_norm_eps: is 1e-60, expected a positive number"},
    {"hidden_act", "\"gelu\"", HEARTH_UNSUPPORTED, "hidden_act: gelu is not supported (known: silu, relu, fatrelu)"},
    {"hidden_act", "\"fatrelu\"", HEARTH_FORMAT, "hidden_act_param: is missing"},
    {"attention_bias", "true", HEARTH_UNSUPPORTED, "attention_bias: true is not supported"},
    {"mlp_bias", "true", HEARTH_UNSUPPORTED, "mlp_bias: true is not supported"},
    {"mlp_bias", "1", HEARTH_FORMAT, "mlp_bias: is not true or false"},
    {"quantization_config", "{\"bits\": 4}", HEARTH_UNSUPPORTED, "quantization_config: quantised folders"},
    {"partial_rotary_factor", "0.5", HEARTH_UNSUPPORTED, "partial_rotary_factor: is 0.5"},
    {"tie_word_embeddings", "\"yes\"", HEARTH_FORMAT, "tie_word_embeddings: is not true or false"},
    {"rope_theta", "-1", HEARTH_FORMAT, "rope_theta: is -1"},
    {"rope_theta", "1", HEARTH_FORMAT, "key llama.rope.freq_base: is 1, expected a number above 1"},
    {"rope_theta", "1e300", HEARTH_FORMAT, "rope_theta: is 1e+300"},
    {"rope_scaling", "7", HEARTH_FORMAT, "rope_scaling: rope_theta: expected inside an object"},
    {"rope_scaling", "{\"factor\": 2}", HEARTH_FORMAT, "rope_scaling: rope_type: is missing"},
    {"rope_scaling", "{\"type\": \"dynamic\", \"factor\": 2}", HEARTH_UNSUPPORTED,
     "rope_scaling: rope_type: dynamic is not supported (known: default, linear, yarn, llama3)"},
    {"rope_scaling", "{\"type\": \"linear\"}", HEARTH_FORMAT, "rope_scaling: factor: is missing"},
    {"rope_scaling", "{\"type\": \"linear\", \"factor\": 0}", HEARTH_FORMAT, "rope_scaling: factor: is 0"},
    {"rope_scaling", "{\"rope_type\": \"yarn\", \"factor\": 2, \"truncate\": false}", HEARTH_UNSUPPORTED,
     "rope_scaling: truncate: false"},
    {"rope_scaling", "{\"rope_type\": \"yarn\", \"factor\": 2, \"original_max_position_embeddings\": 0}", HEARTH_FORMAT,
     "original_context_length: is 0"},
    {"rope_scaling", "{\"rope_type\": \"yarn\", \"factor\": 2, \"beta_fast\": 1, \"beta_slow\": 2}", HEARTH_FORMAT,
     "yarn_beta_slow: is above yarn_beta_fast"},
    {"rope_scaling",
     "{\"rope_type\": \"llama3\", \"factor\": 8, \"low_freq_factor\": 1, \"high_freq_factor\": 1, "
     "\"original_max_position_embeddings\": 32}",
     HEARTH_FORMAT, "low_freq_factor: is not below high_freq_factor"},
    {"rope_scaling", "{\"rope_type\": \"llama3\", \"factor\": 8}", HEARTH_FORMAT, "low_freq_factor: is missing"},
    {"rope_parameters", "{\"full_attention\": {\"rope_type\": \"default\"}}", HEARTH_UNSUPPORTED,
     "rope_parameters: full_attention: rotation by layer is not supported"},
};

static void test_bad_configs(void **state)
{
    (void)state;
    for (size_t i = 0; i < sizeof bad_configs / sizeof *bad_configs; i++) {
        const bad_config *b = &bad_configs[i];
        long live = mem_live();
        hearth_error error = {0};
        hearth_model *m;
        json_t *config = tiny_json();
        if (b->value)
            json_object_set_new(config, b->key, json_loads(b->value, JSON_DECODE_ANY, NULL));
        else
            json_object_del(config, b->key);
        hearth_status status = tiny_folder(&m, tiny_stored(true, NULL), config, &error);
        if (status != b->status || error.status != status)
            fail_msg("%s %s: status %d: %s", b->key, b->value ? b->value : "removed", (int)status, error.text);
        expect_text(&error, b->text);
        assert_int_equal(mem_live(), live);
    }
}

typedef struct bad_key {
    const char *key;
    char kind; /* u: u32, f: f32, s: string, b: bool */
    double value;
    const char *string;
    hearth_status status;
    const char *text;
} bad_key;

static const bad_key bad_keys[] = {
    {"general.architecture", 's', 0, "qwen9", HEARTH_UNSUPPORTED,
     "tiny: key general.architecture: qwen9 is not supported (known: llama)"},
    {"general.architecture", 'u', 1, NULL, HEARTH_FORMAT, "key general.architecture: is an integer, expected a string"},
    {"general.name", 'u', 1, NULL, HEARTH_FORMAT, "key general.name: is an integer"},
    {"llama.block_count", 'u', 0, NULL, HEARTH_FORMAT, "tiny: key llama.block_count: is 0, expected 1 to 4096"},
    {"llama.block_count", 's', 0, "2", HEARTH_FORMAT, "key llama.block_count: is a string, expected an integer"},
    {"llama.embedding_length", 'u', 4294967295.0, NULL, HEARTH_FORMAT, "is 4294967295, expected 1 to 1048576"},
    {"llama.attention.head_count_kv", 'u', 3, NULL, HEARTH_FORMAT, "does not divide attention.head_count"},
    {"llama.attention.head_count", 'u', 6, NULL, HEARTH_FORMAT, "head_count: does not divide embedding_length"},
    {"llama.attention.key_length", 'u', 3, NULL, HEARTH_FORMAT, "key_length: is odd"},
    {"llama.attention.value_length", 'u', 8, NULL, HEARTH_UNSUPPORTED, "value_length: differs from"},
    {"llama.attention.scale", 'f', -1, NULL, HEARTH_FORMAT, "attention.scale: is -1, expected a positive number"},
    {"llama.attention.layer_norm_rms_epsilon", 'f', 0, NULL, HEARTH_FORMAT, "epsilon: is 0, expected a positive"},
    {"llama.attention.causal", 'b', 0, NULL, HEARTH_UNSUPPORTED, "attention.causal"},
    {"llama.rope.dimension_count", 'u', 3, NULL, HEARTH_FORMAT, "rope.dimension_count: is not an even number"},
    {"llama.rope.dimension_count", 'u', 8, NULL, HEARTH_FORMAT, "rope.dimension_count: is not an even number"},
    {"llama.rope.freq_base", 'f', 0.5, NULL, HEARTH_FORMAT, "rope.freq_base: is 0.5, expected a number above 1"},
    {"llama.rope.scaling.type", 's', 0, "longrope", HEARTH_UNSUPPORTED,
     "rope.scaling.type: longrope is not supported (known: none, linear, yarn)"},
    {"llama.rope.scaling.factor", 'f', -2, NULL, HEARTH_FORMAT, "rope.scaling.factor: is -2"},
    {"llama.vocab_size", 'u', 11, NULL, HEARTH_FORMAT, "token_embd.weight: is 16 x 12, expected 16 x 11"},
    {"llama.expert_count", 'u', 8, NULL, HEARTH_UNSUPPORTED, "expert_count: mixtures of experts"},
    {"llama.hidden_activation", 's', 0, "swish", HEARTH_UNSUPPORTED,
     "hidden_activation: swish is not supported (known: silu, relu, fatrelu)"},
    {"llama.hidden_activation", 's', 0, "fatrelu", HEARTH_FORMAT, "key llama.hidden_activation_param: is missing"},
    {"split.count", 'u', 4, NULL, HEARTH_UNSUPPORTED, "key split.count: is 4"},
};

static void set_key(checkpoint *c, const bad_key *b)
{
    hearth_error error;
    if (b->kind == 'u')
        must(checkpoint_set_u32(c, b->key, (uint32_t)b->value, &error), &error);
    if (b->kind == 'f')
        must(checkpoint_set_f32(c, b->key, (float)b->value, &error), &error);
    if (b->kind == 'b')
        must(checkpoint_set_bool(c, b->key, b->value != 0, &error), &error);
    if (b->kind == 's')
        must(checkpoint_set_string(c, b->key, span_of(b->string), &error), &error);
}

static void test_bad_keys(void **state)
{
    (void)state;
    for (size_t i = 0; i < sizeof bad_keys / sizeof *bad_keys; i++) {
        long live = mem_live();
        hearth_error error = {0};
        hearth_model *m;
        checkpoint *c = tiny_gguf(NULL);
        set_key(c, &bad_keys[i]);
        hearth_status status = model_bind(&m, c, NULL, &error);
        if (status != bad_keys[i].status)
            fail_msg("%s: status %d: %s", bad_keys[i].key, (int)status, error.text);
        expect_text(&error, bad_keys[i].text);
        assert_int_equal(mem_live(), live);
    }
}

/* Sizes by layer are read where all layers agree. */
static void test_arrays(void **state)
{
    (void)state;
    static const uint32_t same[] = {TINY_F, TINY_F};
    static const int32_t different[] = {TINY_HEADS, 2};
    hearth_error error;
    hearth_model *m;
    checkpoint *c = tiny_gguf(NULL);
    must(checkpoint_set_numbers(c, "llama.feed_forward_length", VALUE_U32, same, 2, &error), &error);
    must(model_bind(&m, c, NULL, &error), &error);
    assert_int_equal(m->hyper.neuron_count, TINY_F);
    hearth_model_close(m);

    c = tiny_gguf(NULL);
    must(checkpoint_set_numbers(c, "llama.attention.head_count", VALUE_I32, different, 2, &error), &error);
    assert_int_equal(model_bind(&m, c, NULL, &error), HEARTH_UNSUPPORTED);
    expect_text(&error, "key llama.attention.head_count: differs between layers");

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
    assert_int_equal(m->hyper.activation, FFN_RELU);
    hearth_model_close(m);
    options.ffn_activation = "swish";
    assert_int_equal(model_bind(&m, tiny_gguf(NULL), &options, &error), HEARTH_INVALID);
    expect_text(&error, "FFN activation swish: is not known (there are: silu, relu, fatrelu)");
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
    if (!file_is_folder(GOLDEN))
        skip();
    fail_allocations(GOLDEN "llama-rope-llama3");
    fail_allocations(GOLDEN "llama-gqa/model.gguf");
    fail_allocations(MODELS "stories260K");
}

static void test_read_failures(void **state)
{
    (void)state;
    if (!file_is_folder(MODELS))
        skip();
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
    if (!file_is_folder(GOLDEN))
        skip();
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
    assert_string_equal(model_tokenizer_missing(folder), "the file holds no vocabulary");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_goldens),
        cmocka_unit_test(test_trained),
        cmocka_unit_test(test_spoiled_tensors),
        cmocka_unit_test(test_vectors),
        cmocka_unit_test(test_factors),
        cmocka_unit_test(test_order),
        cmocka_unit_test(test_tied),
        cmocka_unit_test(test_bad_configs),
        cmocka_unit_test(test_bad_keys),
        cmocka_unit_test(test_arrays),
        cmocka_unit_test(test_activation),
        cmocka_unit_test(test_no_memory),
        cmocka_unit_test(test_read_failures),
        cmocka_unit_test(test_cancel),
        cmocka_unit_test(test_missing),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
