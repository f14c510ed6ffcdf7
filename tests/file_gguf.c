/* file_gguf.c - GGUF files made by other programs are read as they are, and written back as they were. */
#include "file_build.h"

#include <glob.h>

#define GOLDEN HEARTH_DATA "/golden"

static checkpoint *open_gguf(const char *path)
{
    checkpoint *c;
    hearth_error error = {0};
    if (gguf_open(&c, path, &error) != HEARTH_OK)
        fail_msg("%s", error.text);
    return c;
}

/* The folder that a file lies in, as a checkpoint; NULL where it has no tensors. */
static checkpoint *open_folder_of(const char *path)
{
    char folder[1024];
    snprintf(folder, sizeof(folder), "%.*s", (int)(strrchr(path, '/') - path), path);
    char *file = file_join(folder, "model.safetensors");
    bool exists = file_exists(file);
    mem_free(file);
    if (!exists)
        return NULL;
    checkpoint *c;
    hearth_error error = {0};
    assert_int_equal(checkpoint_create(&c, folder, &error), HEARTH_OK);
    if (weights_add_folder(c, folder, &error) != HEARTH_OK)
        fail_msg("%s", error.text);
    return c;
}

/* Meant row `row` of a tensor as float32. */
static void decode_row(const stored_tensor *t, uint64_t row, float *out)
{
    size_t row_bytes;
    assert_true(number_row_bytes(t->format, t->shape[0], &row_bytes));
    const char *data = (const char *)t->data + stored_tensor_row(t, row) * row_bytes;
    number_formats[t->format].decode(data, out, t->shape[0]);
}

/* Rows that differ between two tensors of the same shape. */
static size_t count_different_rows(const stored_tensor *a, const stored_tensor *b)
{
    for (size_t i = 0; i < TENSOR_MAX_RANK; i++)
        assert_int_equal(a->shape[i], b->shape[i]);
    size_t columns = a->shape[0], different = 0;
    float *x = mem_new_array(columns, sizeof(*x)), *y = mem_new_array(columns, sizeof(*y));
    for (uint64_t row = 0; row < a->shape[1] * a->shape[2] * a->shape[3]; row++) {
        decode_row(a, row, x);
        decode_row(b, row, y);
        different += memcmp(x, y, columns * sizeof(*x)) != 0;
    }
    mem_free(x);
    mem_free(y);
    return different;
}

/* ----------------------------------------------------------------- goldens */

/* What the embedding is called in a folder, by family. */
static const char *const embedding_names[] = {"model.embed_tokens.weight",
                                              "model.decoder.embed_tokens.weight",
                                              "transformer.wte.weight",
                                              "transformer.word_embeddings.weight",
                                              "model.language_model.embed_tokens.weight",
                                              "model.embeddings.weight",
                                              "backbone.embeddings.weight",
                                              "language_model.model.embed_tokens.weight",
                                              "model.word_embeddings.weight",
                                              "embed.weight",
                                              "embed_tokens.weight",
                                              "gpt_neox.embed_in.weight",
                                              "model.tok_embeddings.weight"};

static const stored_tensor *find_embedding(const checkpoint *c)
{
    const stored_tensor *t = NULL;
    for (size_t i = 0; !t && i < sizeof(embedding_names) / sizeof(*embedding_names); i++)
        t = checkpoint_find_tensor(c, embedding_names[i]);
    assert_non_null(t);
    return t;
}

/* Every model file opens, has the vocabulary that golden/README.md describes, and its embedding is the folder's. */
static void goldens_open(void **state)
{
    (void)state;
    glob_t models, found;
    size_t folders = 0;
    assert_int_equal(glob(GOLDEN "/*/logits.f32", 0, NULL, &models), 0);
    assert_int_equal(glob(GOLDEN "/*/model.gguf", 0, NULL, &found), 0);
    /* all but apertus-1-5, bamboo, cosmos3-edge, cwm, deepseek4-fp4, flint, gpt-oss-fractional, hyperclovax, kolibri1, lfm3, llama4-chunks,
     * llama-awq, mixtral-drelu-predictor, nanochat and persimmon */
    assert_true(found.gl_pathc > 100);
    assert_int_equal(found.gl_pathc, models.gl_pathc - 15);
    globfree(&models);
    for (size_t i = 0; i < found.gl_pathc; i++) {
        checkpoint *c = open_gguf(found.gl_pathv[i]);
        const key_value *tokens;
        assert_string_equal(c->path, found.gl_pathv[i]);
        assert_int_equal(checkpoint_get_array(c, "tokenizer.ggml.tokens", VALUE_STRING, &tokens, NULL, NULL),
                         HEARTH_OK);
        assert_int_equal(tokens->count, 272);
        assert_true(span_equal(tokens->as.strings[0], span_of("<unk>")));
        assert_true(span_equal(tokens->as.strings[3 + 'A'], span_of("<0x41>")));
        checkpoint *folder = open_folder_of(found.gl_pathv[i]);
        if (folder) {
            const stored_tensor *mine = checkpoint_find_tensor(c, "token_embd.weight");
            assert_non_null(mine);
            assert_int_equal(count_different_rows(mine, find_embedding(folder)), 0);
            folders++;
        }
        checkpoint_close(folder);
        checkpoint_close(c);
    }
    assert_int_equal(folders, found.gl_pathc - 2); /* the two quantised cases have none */
    globfree(&found);
}

/* GGUF's name, the folder's name, and the key with the heads where the rows are in another order. */
static const struct {
    const char *gguf, *folder, *heads;
} layer_names[] = {
    {"attn_norm", "input_layernorm", NULL},
    {"attn_q", "self_attn.q_proj", "llama.attention.head_count"},
    {"attn_v", "self_attn.v_proj", NULL},
    {"attn_k", "self_attn.k_proj", "llama.attention.head_count_kv"},
    {"attn_output", "self_attn.o_proj", NULL},
    {"ffn_gate", "mlp.gate_proj", NULL},
    {"ffn_norm", "post_attention_layernorm", NULL},
    {"ffn_up", "mlp.up_proj", NULL},
    {"ffn_down", "mlp.down_proj", NULL},
};

static size_t compare_layer(const checkpoint *file, const checkpoint *folder, uint32_t layer)
{
    size_t compared = 0;
    char name[128];
    for (size_t i = 0; i < sizeof(layer_names) / sizeof(*layer_names); i++) {
        snprintf(name, sizeof(name), "blk.%u.%s.weight", layer, layer_names[i].gguf);
        const stored_tensor *mine = checkpoint_find_tensor(file, name);
        snprintf(name, sizeof(name), "model.layers.%u.%s.weight", layer, layer_names[i].folder);
        const stored_tensor *found = checkpoint_find_tensor(folder, name);
        assert_non_null(mine);
        assert_non_null(found);
        stored_tensor theirs = *found;
        if (layer_names[i].heads) {
            /* As they are stored the rows differ; as they are meant they do not. */
            assert_int_not_equal(count_different_rows(mine, &theirs), 0);
            assert_int_equal(checkpoint_get_u32(file, layer_names[i].heads, &theirs.rotary_heads, NULL, NULL), 0);
        }
        assert_int_equal(count_different_rows(mine, &theirs), 0);
        compared++;
    }
    return compared;
}

static void llama_equals_its_folder(void **state)
{
    (void)state;
    static const char *const cases[] = {"llama", "llama-gqa", "llama-256", "llama-relu-gqa", "mistral"};
    for (size_t i = 0; i < sizeof(cases) / sizeof(*cases); i++) {
        char path[1024];
        snprintf(path, sizeof(path), GOLDEN "/%s/model.gguf", cases[i]);
        checkpoint *file = open_gguf(path), *folder = open_folder_of(path);
        uint32_t layers;
        assert_int_equal(checkpoint_get_u32(file, "llama.block_count", &layers, NULL, NULL), HEARTH_OK);
        assert_int_equal(file->tensor_count, folder->tensor_count);
        size_t compared = 0;
        for (uint32_t layer = 0; layer < layers; layer++)
            compared += compare_layer(file, folder, layer);
        assert_in_range(file->tensor_count - compared, 2, 3); /* embedding, norm and, where not tied, head */
        checkpoint_close(folder);
        checkpoint_close(file);
    }
}

/* Row 2i + s of a head of 8 lies at s * 4 + i: the first half of the stored rows are the pairs' first members. */
static void rotary_rows(void **state)
{
    (void)state;
    static const uint64_t expected[16] = {0, 4, 1, 5, 2, 6, 3, 7, 8, 12, 9, 13, 10, 14, 11, 15};
    stored_tensor t = {.rank = 2, .shape = {4, 16, 1, 1}, .rotary_heads = 2};
    for (uint64_t row = 0; row < 16; row++)
        assert_int_equal(stored_tensor_row(&t, row), expected[row]);
    t.rotary_heads = 0;
    assert_int_equal(stored_tensor_row(&t, 13), 13);
}

/* Six heads of two values, two of which share a key: 0 1 2 3 4 5 there are 0 2 4 1 3 5 here. In rows they are the last ones. */
static void heads_of_values(void **state)
{
    (void)state;
    static const uint64_t expected[13] = {0, 1, 2, 5, 6, 9, 10, 3, 4, 7, 8, 11, 12};
    float stored[2][12], row[12];
    stored_tensor t = {.rank = 2, .shape = {4, 13, 1, 1}, .values = {.groups = 3, .heads = 6, .length = 2}};
    assert_true(stored_tensor_reordered(&t));
    for (uint64_t i = 0; i < 13; i++)
        assert_int_equal(stored_tensor_row(&t, i), expected[i]);
    for (size_t i = 0; i < 24; i++)
        stored[i / 12][i % 12] = (float)i;
    stored_tensor columns = {.rank = 2, .shape = {12, 2, 1, 1}, .data = stored, .values = t.values};
    columns.values.columns = true;
    assert_int_equal(stored_tensor_row(&columns, 1), 1);
    stored_tensor_read(&columns, 1, sizeof row, row);
    for (size_t i = 0; i < 12; i++)
        assert_int_equal((int)row[i], 12 + (int)expected[i + 1] - 1);
}

/* Block formats: what llama.cpp's quantiser chose for each tensor, as golden.json lists it. */
static void quantised_formats(void **state)
{
    (void)state;
    static const struct {
        const char *path, *tensor, *format;
    } cases[] = {
        {GOLDEN "/llama-256-q4_k_m/model.gguf", "token_embd.weight", "q6_K"},
        {GOLDEN "/llama-256-q4_k_m/model.gguf", "blk.0.attn_k.weight", "q4_K"},
        {GOLDEN "/llama-256-q4_k_m/model.gguf", "blk.1.ffn_down.weight", "q6_K"},
        {GOLDEN "/llama-256-q4_k_m/model.gguf", "output_norm.weight", "f32"},
        {GOLDEN "/llama-256-q4_0/model.gguf", "blk.0.attn_k.weight", "q4_0"},
        {GOLDEN "/llama-256/model.gguf", "blk.0.attn_k.weight", "bf16"},
    };
    for (size_t i = 0; i < sizeof(cases) / sizeof(*cases); i++) {
        checkpoint *c = open_gguf(cases[i].path);
        const stored_tensor *t = checkpoint_find_tensor(c, cases[i].tensor);
        assert_non_null(t);
        assert_string_equal(number_formats[t->format].name, cases[i].format);
        checkpoint_close(c);
    }
}

/* Vocabularies without tensors; sizes and ids are those the originals were published with. */
static void vocabularies_open(void **state)
{
    (void)state;
    static const struct {
        const char *path;
        size_t count, id;
        const char *token;
    } whole[] = {
        {GOLDEN "/tokenizers/llama-spm.gguf", 32000, 29871, "\xE2\x96\x81"},
        {GOLDEN "/tokenizers/gpt-2.gguf", 50257, 50256, "<|endoftext|>"},
    };
    glob_t found;
    assert_int_equal(glob(GOLDEN "/tokenizers/*.gguf", 0, NULL, &found), 0);
    assert_int_equal(found.gl_pathc, 13);
    for (size_t i = 0; i < found.gl_pathc; i++) {
        checkpoint *c = open_gguf(found.gl_pathv[i]);
        assert_int_equal(c->tensor_count, 0);
        assert_non_null(checkpoint_find(c, "tokenizer.ggml.tokens"));
        checkpoint_close(c);
    }
    globfree(&found);
    for (size_t i = 0; i < sizeof(whole) / sizeof(*whole); i++) {
        checkpoint *c = open_gguf(whole[i].path);
        const key_value *tokens;
        assert_int_equal(checkpoint_get_array(c, "tokenizer.ggml.tokens", VALUE_STRING, &tokens, NULL, NULL),
                         HEARTH_OK);
        assert_int_equal(tokens->count, whole[i].count);
        assert_true(span_equal(tokens->as.strings[whole[i].id], span_of(whole[i].token)));
        checkpoint_close(c);
    }
}

/* ----------------------------------------------------------------- writing */

/* Writes what was read to another file; HEARTH_OK or the first failure, after which nothing is left open. */
static hearth_status write_again(const checkpoint *c, const char *path, size_t piece_bytes, hearth_error *error)
{
    gguf_writer *w;
    TRY(gguf_writer_open(&w, path, false, c->entries, c->entry_count, c->tensors, c->tensor_count, error));
    for (size_t i = 0; i < c->tensor_count; i++) {
        const char *data = c->tensors[i].data;
        for (size_t left = c->tensors[i].size_bytes; left;) {
            size_t piece = left < piece_bytes ? left : piece_bytes;
            hearth_status status = gguf_writer_put(w, data, piece, error);
            if (status != HEARTH_OK) {
                gguf_writer_discard(w);
                return status;
            }
            data += piece;
            left -= piece;
        }
    }
    return gguf_writer_commit(w, error);
}

/* A file that another program wrote comes back byte for byte. */
static void goldens_are_written_as_they_were(void **state)
{
    (void)state;
    char folder[512], path[1024];
    glob_t found;
    hearth_error error = {0};
    make_folder(folder, sizeof(folder));
    snprintf(path, sizeof(path), "%s/again.gguf", folder);
    assert_int_equal(glob(GOLDEN "/*/model.gguf", 0, NULL, &found), 0);
    for (size_t i = 0; i < found.gl_pathc; i++) {
        checkpoint *c = open_gguf(found.gl_pathv[i]);
        if (write_again(c, path, 4099, &error) != HEARTH_OK)
            fail_msg("%s", error.text);
        size_t size, again_size;
        uint8_t *data = load_file(found.gl_pathv[i], &size), *again = load_file(path, &again_size);
        assert_int_equal(size, again_size);
        assert_memory_equal(data, again, size);
        free(data);
        free(again);
        checkpoint_close(c);
    }
    globfree(&found);
    assert_int_equal(count_files(folder), 1);
    remove_folder(folder);
}

static const uint16_t numbers_u16[3] = {1, 2, 65535};
static const double numbers_f64[2] = {1e300, -0.5};
static const uint8_t numbers_bool[3] = {1, 0, 1};
static const span texts[3] = {{"one", 3}, {"", 0}, {"zero\0inside", 11}};

/* One of every type, the arrays behind texts of odd lengths so that they lie misaligned in the file. */
static const key_value entries[] = {
    {.key = "general.alignment", .type = VALUE_U32, .as.u = 64},
    {.key = "u8", .type = VALUE_U8, .as.u = 200},
    {.key = "i8", .type = VALUE_I8, .as.i = -100},
    {.key = "u16", .type = VALUE_U16, .as.u = 60000},
    {.key = "i16", .type = VALUE_I16, .as.i = -30000},
    {.key = "i32", .type = VALUE_I32, .as.i = INT32_MIN},
    {.key = "f32", .type = VALUE_F32, .as.f = 0.1f},
    {.key = "bool", .type = VALUE_BOOL, .as.u = 1},
    {.key = "string", .type = VALUE_STRING, .as.string = {"h\xC3\xA4rth", 6}},
    {.key = "empty", .type = VALUE_STRING, .as.string = {"", 0}},
    {.key = "u64", .type = VALUE_U64, .as.u = UINT64_MAX},
    {.key = "i64", .type = VALUE_I64, .as.i = INT64_MIN},
    {.key = "f64", .type = VALUE_F64, .as.f = 1e-300},
    {.key = "u16s", .type = VALUE_ARRAY, .item_type = VALUE_U16, .count = 3, .as.items = numbers_u16},
    {.key = "f64s", .type = VALUE_ARRAY, .item_type = VALUE_F64, .count = 2, .as.items = numbers_f64},
    {.key = "bools", .type = VALUE_ARRAY, .item_type = VALUE_BOOL, .count = 3, .as.items = numbers_bool},
    {.key = "none", .type = VALUE_ARRAY, .item_type = VALUE_I32, .count = 0},
    {.key = "texts", .type = VALUE_ARRAY, .item_type = VALUE_STRING, .count = 3, .as.strings = texts},
    {.key = "no texts", .type = VALUE_ARRAY, .item_type = VALUE_STRING, .count = 0},
};
#define ENTRY_COUNT (sizeof(entries) / sizeof(*entries))

static const stored_tensor tensors[] = {
    {.name = "vector", .format = FORMAT_F32, .rank = 1, .shape = {5, 1, 1, 1}},
    {.name = "blocks", .format = FORMAT_Q8_0, .rank = 2, .shape = {64, 3, 1, 1}},
    {.name = "cube", .format = FORMAT_BF16, .rank = 3, .shape = {2, 3, 4, 1}},
    {.name = "four", .format = FORMAT_F16, .rank = 4, .shape = {1, 2, 3, 4}},
};
static const size_t tensor_sizes[] = {20, 204, 48, 48};
#define TENSOR_COUNT (sizeof(tensors) / sizeof(*tensors))

static uint8_t tensor_byte(size_t tensor, size_t at)
{
    return (uint8_t)(37 * tensor + 11 * at + 1);
}

/* Writes the file of all types; byte by byte where piecewise. */
static hearth_status write_sample(const char *path, bool piecewise, hearth_error *error)
{
    gguf_writer *w;
    TRY(gguf_writer_open(&w, path, false, entries, ENTRY_COUNT, tensors, TENSOR_COUNT, error));
    for (size_t t = 0; t < TENSOR_COUNT; t++) {
        uint8_t data[256];
        for (size_t i = 0; i < tensor_sizes[t]; i++)
            data[i] = tensor_byte(t, i);
        size_t step = piecewise ? 1 : tensor_sizes[t];
        for (size_t i = 0; i < tensor_sizes[t]; i += step) {
            hearth_status status = gguf_writer_put(w, data + i, step, error);
            if (status != HEARTH_OK) {
                gguf_writer_discard(w);
                return status;
            }
        }
    }
    return gguf_writer_commit(w, error);
}

static void check_entry(const key_value *found, const key_value *expected)
{
    assert_non_null(found);
    assert_string_equal(found->key, expected->key);
    assert_int_equal(found->type, expected->type);
    assert_int_equal(found->count, expected->count);
    if (expected->type == VALUE_STRING) {
        assert_true(span_equal(found->as.string, expected->as.string));
    } else if (expected->type != VALUE_ARRAY) {
        assert_memory_equal(&found->as, &expected->as, 8);
    } else if (expected->item_type == VALUE_STRING) {
        for (size_t i = 0; i < expected->count; i++)
            assert_true(span_equal(found->as.strings[i], expected->as.strings[i]));
    } else {
        size_t item = value_size(expected->item_type);
        assert_int_equal(found->item_type, expected->item_type);
        assert_int_equal((uintptr_t)found->as.items % item, 0);
        if (expected->count)
            assert_memory_equal(found->as.items, expected->as.items, expected->count * item);
    }
}

static void all_types_come_back(void **state)
{
    (void)state;
    char folder[512], path[1024];
    hearth_error error = {0};
    make_folder(folder, sizeof(folder));
    snprintf(path, sizeof(path), "%s/sample.gguf", folder);
    for (int piecewise = 0; piecewise < 2; piecewise++) {
        assert_int_equal(write_sample(path, piecewise, &error), HEARTH_OK);
        checkpoint *c = open_gguf(path);
        assert_int_equal(c->entry_count, ENTRY_COUNT);
        for (size_t i = 0; i < ENTRY_COUNT; i++)
            check_entry(checkpoint_find(c, entries[i].key), &entries[i]);
        assert_int_equal(c->tensor_count, TENSOR_COUNT);
        for (size_t t = 0; t < TENSOR_COUNT; t++) {
            const stored_tensor *found = checkpoint_find_tensor(c, tensors[t].name);
            assert_non_null(found);
            assert_int_equal(found->format, tensors[t].format);
            assert_int_equal(found->rank, tensors[t].rank);
            assert_int_equal(found->rotary_heads, 0);
            assert_memory_equal(found->shape, tensors[t].shape, sizeof(found->shape));
            assert_int_equal(found->size_bytes, tensor_sizes[t]);
            assert_int_equal(((const char *)found->data - (const char *)c->maps[0].data) % 64, 0);
            for (size_t i = 0; i < tensor_sizes[t]; i++)
                assert_int_equal(((const uint8_t *)found->data)[i], tensor_byte(t, i));
        }
        checkpoint_close(c);
    }
    remove_folder(folder);
}

/* Each failing write, then each failing allocation: the old file stays, nothing new is left. */
static void failed_writes_leave_nothing(void **state)
{
    (void)state;
    static void (*const fault[])(long) = {file_fail_at, mem_fail_at};
    static const hearth_status expected[] = {HEARTH_IO, HEARTH_NO_MEMORY};
    char folder[512], path[1024];
    make_folder(folder, sizeof(folder));
    snprintf(path, sizeof(path), "%s/sample.gguf", folder);
    long before = mem_live();
    for (size_t kind = 0; kind < 2; kind++) {
        long failures = 0;
        write_file(path, "old", 3);
        for (;; failures++) {
            hearth_error error = {0};
            fault[kind](failures);
            hearth_status status = write_sample(path, false, &error);
            fault[kind](-1);
            assert_int_equal(mem_live(), before);
            assert_int_equal(count_files(folder), 1);
            if (status == HEARTH_OK)
                break;
            /* The writer's last step learns of missing memory through errno. */
            if (status != expected[kind])
                assert_non_null(strstr(error.text, "Cannot allocate memory"));
            assert_non_null(strstr(error.text, "sample.gguf"));
            size_t size;
            uint8_t *old = load_file(path, &size);
            assert_int_equal(size, 3);
            free(old);
        }
        assert_true(failures >= 2);
        checkpoint_close(open_gguf(path));
    }
    remove_folder(folder);
}

static void writer_refuses_what_cannot_be_read(void **state)
{
    (void)state;
    char folder[512], path[1024];
    gguf_writer *w;
    make_folder(folder, sizeof(folder));
    snprintf(path, sizeof(path), "%s/bad.gguf", folder);
    static const stored_tensor bad_tensors[] = {
        {.name = "t", .format = FORMAT_F32, .rank = 0, .shape = {1, 1, 1, 1}},
        {.name = "t", .format = FORMAT_F32, .rank = 5, .shape = {1, 1, 1, 1}},
        {.name = "t", .format = FORMAT_F32, .rank = 2, .shape = {1, 0, 1, 1}},
        {.name = "t", .format = FORMAT_Q4_0, .rank = 1, .shape = {33, 1, 1, 1}},
        {.name = "t", .format = FORMAT_F32, .rank = 2, .shape = {UINT64_C(1) << 40, UINT64_C(1) << 40, 1, 1}},
    };
    for (size_t i = 0; i < sizeof(bad_tensors) / sizeof(*bad_tensors); i++) {
        hearth_error error = {0};
        hearth_status status = gguf_writer_open(&w, path, false, NULL, 0, &bad_tensors[i], 1, &error);
        check_refusal("tensor", status, &error, HEARTH_INVALID, path, "tensor t: ");
    }
    static const key_value bad_alignments[] = {
        {.key = "general.alignment", .type = VALUE_U32, .as.u = 0},
        {.key = "general.alignment", .type = VALUE_U32, .as.u = 4},
        {.key = "general.alignment", .type = VALUE_U32, .as.u = 48},
        {.key = "general.alignment", .type = VALUE_U64, .as.u = 64},
    };
    for (size_t i = 0; i < sizeof(bad_alignments) / sizeof(*bad_alignments); i++) {
        hearth_error error = {0};
        hearth_status status = gguf_writer_open(&w, path, false, &bad_alignments[i], 1, NULL, 0, &error);
        check_refusal("alignment", status, &error, HEARTH_INVALID, path, "general.alignment: ");
    }
    assert_int_equal(count_files(folder), 0);
    remove_folder(folder);
}

static void writer_counts_bytes(void **state)
{
    (void)state;
    char folder[512], path[1024];
    uint8_t data[64] = {0};
    hearth_error error = {0};
    gguf_writer *w;
    make_folder(folder, sizeof(folder));
    snprintf(path, sizeof(path), "%s/short.gguf", folder);
    long before = mem_live();

    assert_int_equal(gguf_writer_open(&w, path, false, NULL, 0, tensors, 1, &error), HEARTH_OK);
    hearth_status status = gguf_writer_put(w, data, 21, &error);
    check_refusal("across", status, &error, HEARTH_INVALID, path, "tensor vector: 21 bytes given, but only 20");
    assert_int_equal(gguf_writer_put(w, data, 19, &error), HEARTH_OK);
    check_refusal("short", gguf_writer_commit(w, &error), &error, HEARTH_INVALID, path, "only 19 of 20 bytes");

    assert_int_equal(gguf_writer_open(&w, path, false, NULL, 0, tensors, 1, &error), HEARTH_OK);
    assert_int_equal(gguf_writer_put(w, data, 20, &error), HEARTH_OK);
    check_refusal("behind", gguf_writer_put(w, data, 1, &error), &error, HEARTH_INVALID, path, "1 bytes more");
    gguf_writer_discard(w);

    check_refusal("nowhere", gguf_writer_open(&w, "/nonexistent/x.gguf", false, NULL, 0, NULL, 0, &error), &error,
                  HEARTH_IO, "/nonexistent/x.gguf", "");
    gguf_writer_discard(NULL);
    assert_int_equal(mem_live(), before);
    assert_int_equal(count_files(folder), 0);
    remove_folder(folder);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(goldens_open),
        cmocka_unit_test(llama_equals_its_folder),
        cmocka_unit_test(rotary_rows),
        cmocka_unit_test(heads_of_values),
        cmocka_unit_test(quantised_formats),
        cmocka_unit_test(vocabularies_open),
        cmocka_unit_test(goldens_are_written_as_they_were),
        cmocka_unit_test(all_types_come_back),
        cmocka_unit_test(failed_writes_leave_nothing),
        cmocka_unit_test(writer_refuses_what_cannot_be_read),
        cmocka_unit_test(writer_counts_bytes),
    };
    return run_group(tests, NULL, NULL);
}
