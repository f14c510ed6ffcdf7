/* file_safetensors.c - Hugging Face folders: those of the goldens, and hostile ones. */
#include "file_build.h"

#define PATH "evil.safetensors"

static checkpoint *create(void)
{
    checkpoint *c;
    assert_int_equal(checkpoint_create(&c, "folder", NULL), HEARTH_OK);
    return c;
}

static hearth_status parse(const uint8_t *data, size_t size, hearth_error *error)
{
    checkpoint *c;
    TRY(checkpoint_create(&c, PATH, error));
    hearth_status status = safetensors_parse(c, data, size, PATH, error);
    checkpoint_close(c);
    return status;
}

/* A file from its header and data of the bytes 0, 1, 2 ... */
static buffer make_file(const char *json, size_t data_bytes)
{
    buffer b = {0};
    put_u64(&b, strlen(json));
    put(&b, json, strlen(json));
    for (size_t i = 0; i < data_bytes; i++)
        put(&b, &(uint8_t){(uint8_t)i}, 1);
    return b;
}

#define TENSOR(name, dtype, shape, offsets) \
    "\"" name "\":{\"dtype\":\"" dtype "\",\"shape\":[" shape "],\"data_offsets\":[" offsets "]}"
#define META "\"__metadata__\":{\"format\":\"pt\"}"

// clang-format off
static const char sample[] = "{" META ","
    TENSOR("a", "F32", "2,3", "0,24") ","
    TENSOR("b", "BF16", "4", "32,40") ","
    TENSOR("c", "F16", "1,2,1,2", "24,32") ","
    TENSOR("d", "F32", "", "40,44") "}   ";
// clang-format on

/* ----------------------------------------------------------------- goldens */

/* Counts, formats and shapes as python's json and struct read them. */
static void golden_folders(void **state)
{
    (void)state;
    static const struct {
        const char *folder;
        size_t count;
        const char *tensor;
        number_format format;
        uint64_t columns, rows;
    } cases[] = {
        {"golden/llama", 30, "model.layers.2.mlp.down_proj.weight", FORMAT_F32, 96, 64},
        {"golden/llama-gqa", 20, "model.layers.0.self_attn.k_proj.weight", FORMAT_BF16, 64, 32},
        {"golden/gemma3n", 107, "model.embed_tokens.weight", FORMAT_BF16, 64, 272},
        {"models/stories260K", 47, "model.embed_tokens.weight", FORMAT_F32, 64, 512},
    };
    for (size_t i = 0; i < sizeof(cases) / sizeof(*cases); i++) {
        char path[1024];
        hearth_error error = {0};
        checkpoint *c = create();
        snprintf(path, sizeof(path), HEARTH_DATA "/%s", cases[i].folder);
        if (weights_add_folder(c, path, &error) != HEARTH_OK)
            fail_msg("%s", error.text);
        assert_int_equal(c->tensor_count, cases[i].count);
        const stored_tensor *t = checkpoint_find_tensor(c, cases[i].tensor);
        assert_non_null(t);
        assert_int_equal(t->format, cases[i].format);
        assert_int_equal(t->rank, 2);
        assert_int_equal(t->shape[0], cases[i].columns);
        assert_int_equal(t->shape[1], cases[i].rows);
        assert_int_equal(t->shape[2] * t->shape[3], 1);
        checkpoint_close(c);
    }
}

/* ---------------------------------------------------------------- one file */

static void sample_is_read(void **state)
{
    (void)state;
    static const struct {
        const char *name;
        number_format format;
        uint32_t rank;
        uint64_t shape[4];
        size_t offset, size;
    } expected[] = {
        {"a", FORMAT_F32, 2, {3, 2, 1, 1}, 0, 24},
        {"b", FORMAT_BF16, 1, {4, 1, 1, 1}, 32, 8},
        {"c", FORMAT_F16, 4, {2, 1, 2, 1}, 24, 8},
        {"d", FORMAT_F32, 1, {1, 1, 1, 1}, 40, 4},
    };
    buffer b = make_file(sample, 44);
    hearth_error error = {0};
    checkpoint *c = create();
    if (safetensors_parse(c, (const uint8_t *)b.data, b.size, PATH, &error) != HEARTH_OK)
        fail_msg("%s", error.text);
    assert_int_equal(c->tensor_count, 4);
    for (size_t i = 0; i < 4; i++) {
        const stored_tensor *t = checkpoint_find_tensor(c, expected[i].name);
        assert_non_null(t);
        assert_int_equal(t->format, expected[i].format);
        assert_int_equal(t->rank, expected[i].rank);
        assert_memory_equal(t->shape, expected[i].shape, sizeof(t->shape));
        assert_int_equal(t->size_bytes, expected[i].size);
        assert_int_equal(*(const uint8_t *)t->data, expected[i].offset);
    }
    checkpoint_close(c);
    buffer_free(&b);
}

static void every_truncation_is_refused(void **state)
{
    (void)state;
    buffer b = make_file(sample, 44);
    check_truncations(parse, b.data, b.size, PATH);
    buffer_free(&b);
}

static void every_flip_is_survived(void **state)
{
    (void)state;
    buffer b = make_file(sample, 44);
    assert_in_range(check_flips(parse, b.data, b.size), b.size * 2, b.size * 10);
    buffer_free(&b);
}

static void every_failed_allocation_is_survived(void **state)
{
    (void)state;
    buffer b = make_file(sample, 44);
    assert_in_range(check_allocation_failures(parse, (const uint8_t *)b.data, b.size), 5, 100);
    buffer_free(&b);
}

// clang-format off
static const struct {
    const char *json;
    size_t data_bytes;
    hearth_status status;
    const char *fragment;
} headers[] = {
    {"", 0, HEARTH_FORMAT, ""},
    {"{", 0, HEARTH_FORMAT, ""},
    {"{}x", 0, HEARTH_FORMAT, ""},
    {"[]", 0, HEARTH_FORMAT, "header: expected a JSON object"},
    {"{}", 1, HEARTH_FORMAT, "data: 1 bytes, but the tensors fill only 0"},
    {"{\"__metadata__\":[]}", 0, HEARTH_FORMAT, "__metadata__: expected an object of strings"},
    {"{\"__metadata__\":{\"a\":1}}", 0, HEARTH_FORMAT, "__metadata__: expected an object of strings"},
    {"{\"a\":[]}", 0, HEARTH_FORMAT, "tensor a: expected a name and an object"},
    {"{" TENSOR("", "F32", "1", "0,4") "}", 4, HEARTH_FORMAT, "tensor : expected a name"},
    {"{" TENSOR("a\\u0000", "F32", "1", "0,4") "}", 4, HEARTH_FORMAT, ""},
    {"{" TENSOR("a", "F32", "1", "0,4") "," TENSOR("a", "F32", "1", "4,8") "}", 8, HEARTH_FORMAT, "duplicate"},
    {"{\"a\":{\"shape\":[1],\"data_offsets\":[0,4]}}", 4, HEARTH_FORMAT, "tensor a: dtype is missing"},
    {"{\"a\":{\"dtype\":1,\"shape\":[1],\"data_offsets\":[0,4]}}", 4, HEARTH_FORMAT,
     "tensor a: dtype is missing or no"},
    {"{" TENSOR("a", "U32", "1", "0,4") "}", 4, HEARTH_UNSUPPORTED, "tensor a: dtype U32 is not supported"},
    {"{" TENSOR("a", "I64", "1", "0,4") "}", 4, HEARTH_FORMAT, "tensor a: has 4 bytes, but its shape and dtype make 8"},
    {"{" TENSOR("a", "F8_E5M2", "1", "0,1") "}", 1, HEARTH_UNSUPPORTED, "tensor a: dtype F8_E5M2 is not supported"},
    {"{" TENSOR("a", "f32", "1", "0,4") "}", 4, HEARTH_UNSUPPORTED, "tensor a: dtype f32 is not supported"},
    {"{\"a\":{\"dtype\":\"F32\",\"data_offsets\":[0,4]}}", 4, HEARTH_FORMAT, "tensor a: shape is missing or no array"},
    {"{\"a\":{\"dtype\":\"F32\",\"shape\":{},\"data_offsets\":[0,4]}}", 4, HEARTH_FORMAT, "tensor a: shape is missing"},
    {"{" TENSOR("a", "F32", "1,1,1,1,1,1,1,1,1", "0,4") "}", 4, HEARTH_UNSUPPORTED, "tensor a: has 9 dimensions"},
    {"{" TENSOR("a", "F32", "1,2,1,1,1", "0,4") "}", 4, HEARTH_FORMAT, "tensor a: has 4 bytes, but its shape and dtype make 8"},
    {"{" TENSOR("a", "F32", "1,1,0,1,1", "0,4") "}", 4, HEARTH_FORMAT, "tensor a: dimension 2 is not a size, is 0"},
    {"{" TENSOR("a", "F32", "1,-1", "0,4") "}", 4, HEARTH_FORMAT, "tensor a: dimension 1 is not a size"},
    {"{" TENSOR("a", "F32", "1.0", "0,4") "}", 4, HEARTH_FORMAT, "tensor a: dimension 0 is not a size"},
    {"{" TENSOR("a", "F32", "0,4", "0,0") "}", 0, HEARTH_FORMAT, "tensor a: dimension 0 is 0"},
    {"{" TENSOR("a", "F32", "4294967296,4294967296", "0,0") "}", 0, HEARTH_FORMAT, "tensor a: the shape is too large"},
    {"{" TENSOR("a", "F32", "9223372036854775807", "0,4") "}", 4, HEARTH_FORMAT, "tensor a: the shape is too large"},
    {"{" TENSOR("a", "F32", "9223372036854775808", "0,4") "}", 4, HEARTH_FORMAT, ""},
    {"{\"a\":{\"dtype\":\"F32\",\"shape\":[1]}}", 4, HEARTH_FORMAT, "tensor a: data_offsets is not a pair"},
    {"{" TENSOR("a", "F32", "1", "0") "}", 4, HEARTH_FORMAT, "tensor a: data_offsets is not a pair"},
    {"{" TENSOR("a", "F32", "1", "0,4,4") "}", 4, HEARTH_FORMAT, "tensor a: data_offsets is not a pair"},
    {"{" TENSOR("a", "F32", "1", "-4,0") "}", 4, HEARTH_FORMAT, "tensor a: data_offsets is not a pair"},
    {"{" TENSOR("a", "F32", "1", "4,0") "}", 4, HEARTH_FORMAT, "tensor a: bytes 4 to 0 of the data"},
    {"{" TENSOR("a", "F32", "2", "0,8") "}", 7, HEARTH_FORMAT, "tensor a: bytes 0 to 8 of the data, which has only 7"},
    {"{" TENSOR("a", "F32", "2", "0,4") "}", 4, HEARTH_FORMAT, "tensor a: has 4 bytes, but its shape and dtype make 8"},
    {"{" TENSOR("a", "F32", "1", "0,4") "," TENSOR("b", "F32", "1", "8,12") "}", 12, HEARTH_FORMAT,
     "tensor b: begins at byte 8 of the data, expected 4"},
    {"{" TENSOR("a", "F32", "2", "0,8") "," TENSOR("b", "F32", "1", "4,8") "}", 8, HEARTH_FORMAT,
     "tensor b: begins at byte 4 of the data, expected 8"},
    {"{" TENSOR("a", "F32", "1", "4,8") "}", 8, HEARTH_FORMAT, "tensor a: begins at byte 4 of the data, expected 0"},
    {"{" TENSOR("a", "F32", "1", "0,4") "}", 5, HEARTH_FORMAT, "data: 5 bytes, but the tensors fill only 4"},
};
// clang-format on

static void wrong_headers_are_named(void **state)
{
    (void)state;
    for (size_t i = 0; i < sizeof(headers) / sizeof(*headers); i++) {
        hearth_error error = {0};
        buffer b = make_file(headers[i].json, headers[i].data_bytes);
        uint8_t *copy = exact_copy(b.data, b.size);
        hearth_status status = parse(copy, b.size, &error);
        check_refusal(headers[i].json, status, &error, headers[i].status, PATH ": ", headers[i].fragment);
        free(copy);
        buffer_free(&b);
    }
}

static void wrong_lengths_are_named(void **state)
{
    (void)state;
    static const struct {
        uint64_t length;
        const char *fragment;
    } cases[] = {
        {3, "header: is said to have 3 bytes, but the file has only 2"},
        {100000000, "header: is said to have 100000000 bytes, but the file has only 2"},
        {100000001, "header: is said to have 100000001 bytes, at most 100000000"},
        {UINT64_MAX, "header: is said to have 18446744073709551615 bytes, at most"},
    };
    for (size_t i = 0; i < sizeof(cases) / sizeof(*cases); i++) {
        hearth_error error = {0};
        buffer b = {0};
        put_u64(&b, cases[i].length);
        put(&b, "{}", 2);
        hearth_status status = parse((const uint8_t *)b.data, b.size, &error);
        check_refusal("length", status, &error, HEARTH_FORMAT, PATH ": ", cases[i].fragment);
        buffer_free(&b);
    }
    hearth_error error = {0};
    check_refusal("short", parse((const uint8_t *)"\2\0\0\0\0\0\0", 7, &error), &error, HEARTH_FORMAT, PATH,
                  "header: 7 bytes are not a safetensors file");
}

/* ------------------------------------------------------------------ folder */

typedef struct folder_file {
    const char *name, *text; /* text of an index, or header of a safetensors file */
    size_t data_bytes;       /* SIZE_MAX: the text is the whole file              */
} folder_file;

static void make_files(const char *folder, const folder_file *files, size_t count)
{
    char path[1024];
    for (size_t i = 0; i < count && files[i].name; i++) {
        bool plain = files[i].data_bytes == SIZE_MAX;
        buffer b = {0};
        if (plain)
            put(&b, files[i].text, strlen(files[i].text));
        else
            b = make_file(files[i].text, files[i].data_bytes);
        snprintf(path, sizeof(path), "%s/%s", folder, files[i].name);
        write_file(path, b.data, b.size);
        buffer_free(&b);
    }
}

// clang-format off
#define INDEX "model.safetensors.index.json"
#define MAP(entries) "{\"metadata\":{\"total_size\":12},\"weight_map\":{" entries "}}"
#define SHARD_1 {"1.safetensors", "{" TENSOR("a", "F32", "1", "0,4") "," TENSOR("b", "F32", "1", "4,8") "}", 8}
#define SHARD_2 {"2.safetensors", "{" TENSOR("c", "F32", "1", "0,4") "}", 4}
// clang-format on

/* The index's shards alternate, so that one is met again after another. */
static const folder_file sharded[] = {
    {INDEX, MAP("\"a\":\"1.safetensors\",\"c\":\"2.safetensors\",\"b\":\"1.safetensors\""), SIZE_MAX},
    SHARD_1,
    SHARD_2};

static hearth_status add_folder(const char *folder, hearth_error *error)
{
    checkpoint *c;
    TRY(checkpoint_create(&c, folder, error));
    hearth_status status = weights_add_folder(c, folder, error);
    checkpoint_close(c);
    return status;
}

static void shards_are_read(void **state)
{
    (void)state;
    char folder[512];
    hearth_error error = {0};
    make_folder(folder, sizeof(folder));
    make_files(folder, sharded, 3);
    checkpoint *c = create();
    if (weights_add_folder(c, folder, &error) != HEARTH_OK)
        fail_msg("%s", error.text);
    assert_int_equal(c->tensor_count, 3);
    assert_int_equal(c->map_count, 2);
    assert_int_equal(*(const uint8_t *)checkpoint_find_tensor(c, "b")->data, 4);
    assert_int_equal(*(const uint8_t *)checkpoint_find_tensor(c, "c")->data, 0);
    checkpoint_close(c);

    /* Where a folder has the single file as well, the index does not count. */
    make_files(folder, &(folder_file){"model.safetensors", "{" TENSOR("z", "F32", "1", "0,4") "}", 4}, 1);
    c = create();
    assert_int_equal(weights_add_folder(c, folder, &error), HEARTH_OK);
    assert_int_equal(c->tensor_count, 1);
    assert_non_null(checkpoint_find_tensor(c, "z"));
    checkpoint_close(c);
    remove_folder(folder);
}

// clang-format off
static const struct {
    folder_file files[3];
    hearth_status status;
    const char *fragment;
} folders[] = {
    {{{0}}, HEARTH_FORMAT, "model.safetensors: is missing, and so are " INDEX " and pytorch_model.bin"},
    {{{"pytorch_model.bin", "", SIZE_MAX}}, HEARTH_FORMAT, "pytorch_model.bin: header: is not an archive"},
    {{{"pytorch_model.bin.index.json", "", SIZE_MAX}}, HEARTH_FORMAT, "pytorch_model.bin.index.json"},
    {{{"pytorch_model.bin.index.json", MAP("\"a\":\"1.bin\""), SIZE_MAX}}, HEARTH_IO, "1.bin: "},
    {{{"pytorch_model.bin.index.json", MAP("\"a\":\"../1.bin\""), SIZE_MAX}},
     HEARTH_FORMAT, "tensor a: expected the name of a file in"},
    {{{"model.safetensors", "", SIZE_MAX}}, HEARTH_FORMAT, "model.safetensors: header: 0 bytes"},
    {{{INDEX, "{", SIZE_MAX}}, HEARTH_FORMAT, INDEX},
    {{{INDEX, "{}", SIZE_MAX}}, HEARTH_FORMAT, INDEX ": weight_map: expected an object"},
    {{{INDEX, "[]", SIZE_MAX}}, HEARTH_FORMAT, INDEX ": weight_map: expected an object"},
    {{{INDEX, "{\"weight_map\":[]}", SIZE_MAX}}, HEARTH_FORMAT, INDEX ": weight_map: expected an object"},
    {{{INDEX, MAP("\"a\":1"), SIZE_MAX}},
     HEARTH_FORMAT, INDEX ": tensor a: expected the name of a file in this folder"},
    {{{INDEX, MAP("\"a\":\"../1.safetensors\""), SIZE_MAX}}, HEARTH_FORMAT, "tensor a: expected the name of a file in"},
    {{{INDEX, MAP("\"a\":\"/etc/passwd\""), SIZE_MAX}}, HEARTH_FORMAT, "tensor a: expected the name of a file in"},
    {{{INDEX, MAP("\"a\":\"..\""), SIZE_MAX}}, HEARTH_FORMAT, "tensor a: expected the name of a file in"},
    {{{INDEX, MAP("\"a\":\"\""), SIZE_MAX}}, HEARTH_FORMAT, "tensor a: expected the name of a file in"},
    {{{INDEX, MAP("\"a\":\"1.safetensors\""), SIZE_MAX}}, HEARTH_IO, "1.safetensors: "},
    {{{INDEX, MAP("\"a\":\"1.safetensors\""), SIZE_MAX}, SHARD_1}, HEARTH_FORMAT,
     "1.safetensors: tensor b: lies in this file, but not according to " INDEX},
    {{{INDEX, MAP("\"a\":\"1.safetensors\",\"b\":\"1.safetensors\",\"d\":\"1.safetensors\""), SIZE_MAX}, SHARD_1},
     HEARTH_FORMAT, INDEX ": tensor d: is not in 1.safetensors"},
    {{{INDEX, MAP("\"c\":\"2.safetensors\",\"a\":\"2.safetensors\",\"b\":\"1.safetensors\""), SIZE_MAX},
      SHARD_1,
      SHARD_2},
     HEARTH_FORMAT, "1.safetensors: tensor a: lies in this file, but not"},
};
// clang-format on

static void wrong_folders_are_named(void **state)
{
    (void)state;
    char folder[512];
    long before = mem_live();
    for (size_t i = 0; i < sizeof(folders) / sizeof(*folders); i++) {
        hearth_error error = {0};
        make_folder(folder, sizeof(folder));
        make_files(folder, folders[i].files, 3);
        check_refusal(folders[i].fragment, add_folder(folder, &error), &error, folders[i].status, folder,
                      folders[i].fragment);
        remove_folder(folder);
    }
    assert_int_equal(mem_live(), before);
}

static void failed_folders(void **state)
{
    (void)state;
    static void (*const fault[])(long) = {file_fail_at, mem_fail_at};
    static const hearth_status expected[] = {HEARTH_IO, HEARTH_NO_MEMORY};
    char folder[512];
    make_folder(folder, sizeof(folder));
    make_files(folder, sharded, 3);
    long before = mem_live();
    for (size_t kind = 0; kind < 2; kind++) {
        long n = 0;
        for (;; n++) {
            hearth_error error = {0};
            fault[kind](n);
            hearth_status status = add_folder(folder, &error);
            fault[kind](-1);
            assert_int_equal(mem_live(), before);
            if (status == HEARTH_OK)
                break;
            assert_int_equal(status, expected[kind]);
        }
        assert_true(n >= 3); /* index and two shards */
    }
    remove_folder(folder);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(golden_folders),
        cmocka_unit_test(sample_is_read),
        cmocka_unit_test(every_truncation_is_refused),
        cmocka_unit_test(every_flip_is_survived),
        cmocka_unit_test(every_failed_allocation_is_survived),
        cmocka_unit_test(wrong_headers_are_named),
        cmocka_unit_test(wrong_lengths_are_named),
        cmocka_unit_test(shards_are_read),
        cmocka_unit_test(wrong_folders_are_named),
        cmocka_unit_test(failed_folders),
    };
    return run_group(tests, NULL, NULL);
}
