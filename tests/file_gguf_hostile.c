/* file_gguf_hostile.c - GGUF files that are cut, damaged or made to harm: each is refused, for the right reason. */
#include "file_build.h"

#define PATH "evil.gguf"

static hearth_status parse(const uint8_t *data, size_t size, hearth_error *error)
{
    checkpoint *c;
    TRY(gguf_parse(&c, data, size, PATH, error));
    checkpoint_close(c);
    return HEARTH_OK;
}

static void put_head(buffer *b, uint32_t version, uint64_t tensors, uint64_t keys)
{
    put(b, "GGUF", 4);
    put_u32(b, version);
    put_u64(b, tensors);
    put_u64(b, keys);
}

static void put_text(buffer *b, const char *text)
{
    put_u64(b, strlen(text));
    put(b, text, strlen(text));
}

static void put_u32_key(buffer *b, const char *key, uint32_t value)
{
    put_text(b, key);
    put_u32(b, VALUE_U32);
    put_u32(b, value);
}

typedef struct tensor_record {
    const char *name;
    uint32_t rank;
    uint64_t shape[6];
    uint32_t type;
    uint64_t offset;
} tensor_record;

static void put_record(buffer *b, const tensor_record *t)
{
    put_text(b, t->name);
    put_u32(b, t->rank);
    for (uint32_t i = 0; i < t->rank && i < 6; i++)
        put_u64(b, t->shape[i]);
    put_u32(b, t->type);
    put_u64(b, t->offset);
}

static void put_data(buffer *b, size_t size)
{
    put_zeros(b, (32 - b->size % 32) % 32);
    put_zeros(b, size);
}

/* A small file with every kind of value and three tensors, which ends with the last tensor's last byte. */
static buffer make_sample(uint32_t version)
{
    static const tensor_record records[] = {
        {"a", 1, {3}, 0, 0},
        {"b", 2, {32, 2}, 8, 32},
        {"c", 3, {2, 2, 2}, 1, 128},
    };
    buffer b = {0};
    put_head(&b, version, 3, 17);
    put_u32_key(&b, "general.alignment", 32);
    for (uint32_t type = 0; type < VALUE_TYPE_COUNT; type++) {
        char key[2] = {(char)('a' + type), 0};
        put_text(&b, key);
        put_u32(&b, type);
        if (type == VALUE_STRING) {
            put_text(&b, "text");
        } else if (type == VALUE_ARRAY) {
            put_u32(&b, VALUE_STRING);
            put_u64(&b, 2);
            put_text(&b, "x");
            put_text(&b, "yz");
        } else {
            put(&b, "\1\0\0\0\0\0\0\0", value_size((value_type)type));
        }
    }
    // clang-format off
    put(&b, BYTES("\1\0\0\0\0\0\0\0" "n" "\11\0\0\0" "\2\0\0\0" "\2\0\0\0\0\0\0\0" "\1\0\2\0"));
    put(&b, BYTES("\1\0\0\0\0\0\0\0" "o" "\11\0\0\0" "\7\0\0\0" "\2\0\0\0\0\0\0\0" "\1\0"));
    put(&b, BYTES("\1\0\0\0\0\0\0\0" "p" "\11\0\0\0" "\14\0\0\0" "\1\0\0\0\0\0\0\0" "\0\0\0\0\0\0\xF0\x3F"));
    // clang-format on
    for (size_t i = 0; i < 3; i++)
        put_record(&b, &records[i]);
    put_data(&b, 128 + 16);
    return b;
}

static void sample_is_read(void **state)
{
    (void)state;
    for (uint32_t version = 2; version <= 3; version++) {
        buffer b = make_sample(version);
        hearth_error error = {0};
        checkpoint *c;
        if (gguf_parse(&c, (const uint8_t *)b.data, b.size, PATH, &error) != HEARTH_OK)
            fail_msg("%s", error.text);
        const key_value *found;
        assert_int_equal(c->entry_count, 17);
        assert_int_equal(checkpoint_get_array(c, "n", VALUE_U16, &found, NULL, NULL), HEARTH_OK);
        assert_int_equal(((const uint16_t *)found->as.items)[1], 2);
        assert_int_equal(checkpoint_get_array(c, "p", VALUE_F64, &found, NULL, NULL), HEARTH_OK);
        assert_true(((const double *)found->as.items)[0] == 1.0);
        const stored_tensor *t = checkpoint_find_tensor(c, "b");
        assert_non_null(t);
        assert_int_equal(t->size_bytes, 68);
        assert_ptr_equal(t->data, b.data + b.size - 144 + 32);
        checkpoint_close(c);
        buffer_free(&b);
    }
}

static void every_truncation_is_refused(void **state)
{
    (void)state;
    buffer b = make_sample(3);
    check_truncations(parse, b.data, b.size, PATH);
    /* Whereas padding behind the last tensor is not needed and does no harm. */
    put_zeros(&b, 16);
    assert_int_equal(parse((const uint8_t *)b.data, b.size, NULL), HEARTH_OK);
    buffer_free(&b);
}

static void every_flip_is_survived(void **state)
{
    (void)state;
    buffer b = make_sample(3);
    size_t head = b.size - 144;
    size_t refused = check_flips(parse, b.data, b.size);
    /* Data, padding and values may be anything; about half of the head may not. */
    assert_in_range(refused, head * 10 / 3, head * 10);
    buffer_free(&b);
}

static void every_failed_allocation_is_survived(void **state)
{
    (void)state;
    buffer b = make_sample(3);
    /* Checkpoint, path, name buffer, entries, tensors, two tables of names, extents; an arena block or two. */
    assert_in_range(check_allocation_failures(parse, b.data, b.size), 8, 100);
    buffer_free(&b);
}

/* --------------------------------------------------------------- whole files */

// clang-format off
static const struct {
    const char *what, *data;
    size_t size;
    hearth_status status;
    const char *fragment;
} files[] = {
    {"empty", BYTES(""), HEARTH_FORMAT, "header: 0 bytes are not a GGUF file"},
    {"short", BYTES("GGU"), HEARTH_FORMAT, "header: 3 bytes are not a GGUF file"},
    {"other", BYTES("ELF\177xxxxxxxxxxxxxxxxxxxxxxx"), HEARTH_FORMAT, "is not a GGUF file"},
    {"PowerInfer", BYTES("PWRI\3\0\0\0"), HEARTH_FORMAT, "header: the file ends within the header"},
    {"PowerInfer backwards", BYTES("IRWP\3\0\0\0xxxxxxxxxxxxxxxxxxx"), HEARTH_FORMAT, "is not a GGUF file"},
    {"GGML", BYTES("lmgg\0\0\0\0"), HEARTH_UNSUPPORTED, "GGML file from before GGUF"},
    {"GGMF", BYTES("fmgg\1\0\0\0"), HEARTH_UNSUPPORTED, "GGMF file from before GGUF"},
    {"GGJT", BYTES("tjgg\3\0\0\0"), HEARTH_UNSUPPORTED, "GGJT file from before GGUF"},
    {"torch", BYTES("PK\3\4xxxx"), HEARTH_UNSUPPORTED, "archive"},
    {"version 0", BYTES("GGUF\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0"), HEARTH_UNSUPPORTED, "version 0"},
    {"version 1", BYTES("GGUF\1\0\0\0\0\0\0\0\0\0\0\0"), HEARTH_UNSUPPORTED, "version 1 is not supported; convert"},
    {"version 4", BYTES("GGUF\4\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0"), HEARTH_UNSUPPORTED, "version 4"},
    {"big-endian", BYTES("GGUF\0\0\0\3\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0"), HEARTH_UNSUPPORTED, "big-endian"},
    {"keys", BYTES("GGUF\3\0\0\0\0\0\0\0\0\0\0\0\1\0\0\0\0\0\0\0"), HEARTH_FORMAT, "1 keys and 0 tensors do not fit"},
    {"many keys", BYTES("GGUF\3\0\0\0\0\0\0\0\0\0\0\0\xFF\xFF\xFF\xFF\xFF\xFF\xFF\xFFxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxx"),
     HEARTH_FORMAT, "18446744073709551615 keys"},
    {"many tensors",
     BYTES("GGUF\3\0\0\0\xFF\xFF\xFF\xFF\xFF\xFF\xFF\x7F\0\0\0\0\0\0\0\0xxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxx"),
     HEARTH_FORMAT, "9223372036854775807 tensors"},
};
// clang-format on

static void wrong_files_are_named(void **state)
{
    (void)state;
    for (size_t i = 0; i < sizeof(files) / sizeof(*files); i++) {
        hearth_error error = {0};
        uint8_t *copy = exact_copy(files[i].data, files[i].size);
        hearth_status status = parse(copy, files[i].size, &error);
        check_refusal(files[i].what, status, &error, files[i].status, PATH ": header: ", files[i].fragment);
        free(copy);
    }
}

/* ---------------------------------------------------------------------- keys */

#define K     "\1\0\0\0\0\0\0\0k" /* a key named k */
#define ARRAY "\11\0\0\0"

/* The keys of a file that has nothing else; 64 zeros follow, so that counts alone do not stop them. */
// clang-format off
static const struct {
    const char *what, *data;
    size_t size;
    uint64_t count;
    hearth_status status;
    const char *fragment;
} keys[] = {
    {"empty name", BYTES("\0\0\0\0\0\0\0\0" "\4\0\0\0" "\0\0\0\0"), 1, HEARTH_FORMAT,
     "key number 1: the name is empty"},
    {"long name", BYTES("\xFF\xFF\xFF\xFF\xFF\xFF\xFF\xFFk"), 1, HEARTH_FORMAT,
     "key number 1: the name is said to have 18446744073709551615 bytes"},
    {"NUL", BYTES("\3\0\0\0\0\0\0\0" "k\0k" "\0\0\0\0" "\1"), 1, HEARTH_FORMAT,
     "key number 1: the name is not valid UTF-8"},
    {"overlong", BYTES("\2\0\0\0\0\0\0\0\xC0\x80" "\0\0\0\0" "\1"), 1, HEARTH_FORMAT, "the name is not valid UTF-8"},
    {"surrogate", BYTES("\3\0\0\0\0\0\0\0\xED\xA0\x80" "\0\0\0\0" "\1"), 1, HEARTH_FORMAT,
     "the name is not valid UTF-8"},
    {"second", BYTES(K "\0\0\0\0" "\1" "\0\0\0\0\0\0\0\0"), 2, HEARTH_FORMAT, "key number 2: the name is empty"},
    {"twice", BYTES(K "\0\0\0\0" "\1" K "\0\0\0\0" "\2"), 2, HEARTH_FORMAT, "key k: appears twice"},
    {"type", BYTES(K "\15\0\0\0"), 1, HEARTH_FORMAT, "key k: type 13 does not exist"},
    {"type", BYTES(K "\xFF\xFF\xFF\xFF"), 1, HEARTH_FORMAT, "key k: type 4294967295 does not exist"},
    {"bool", BYTES(K "\7\0\0\0" "\2"), 1, HEARTH_FORMAT, "key k: holds 2 where 0 or 1"},
    {"string", BYTES(K "\10\0\0\0" "\0\0\0\0\0\0\0\x80"), 1, HEARTH_FORMAT,
     "key k: the string is said to have 9223372036854775808 bytes"},
    {"item type", BYTES(K ARRAY "\20\0\0\0" "\0\0\0\0\0\0\0\0"), 1, HEARTH_FORMAT, "key k: type 16 does not exist"},
    {"nested", BYTES(K ARRAY ARRAY "\1\0\0\0\0\0\0\0"), 1, HEARTH_UNSUPPORTED, "key k: is an array of arrays"},
    {"bytes", BYTES(K ARRAY "\0\0\0\0" "\xFF\xFF\xFF\xFF\xFF\xFF\xFF\xFF"), 1, HEARTH_FORMAT,
     "key k: the array is said to have 18446744073709551615 items"},
    /* Times eight this is 8 in 64 bits. */
    {"overflow", BYTES(K ARRAY "\12\0\0\0" "\1\0\0\0\0\0\0\x20"), 1, HEARTH_FORMAT, "2305843009213693953 items"},
    {"one too many", BYTES(K ARRAY "\12\0\0\0" "\11\0\0\0\0\0\0\0"), 1, HEARTH_FORMAT,
     "9 items, but the file has only 64"},
    {"strings", BYTES(K ARRAY "\10\0\0\0" "\0\0\0\0\0\0\0\x10"), 1, HEARTH_FORMAT, "1152921504606846976 items"},
    {"string in array", BYTES(K ARRAY "\10\0\0\0" "\1\0\0\0\0\0\0\0" "\101\0\0\0\0\0\0\0"), 1, HEARTH_FORMAT,
     "key k: the array is said to have 65 bytes, but the file has only 64"},
    {"bools", BYTES(K ARRAY "\7\0\0\0" "\2\0\0\0\0\0\0\0" "\1\3"), 1, HEARTH_FORMAT, "key k: holds 3"},
    {"alignment type", BYTES("\x11\0\0\0\0\0\0\0general.alignment" "\5\0\0\0" "\40\0\0\0"), 1, HEARTH_FORMAT,
     "key general.alignment: is of type i32, expected u32"},
    {"alignment 0", BYTES("\x11\0\0\0\0\0\0\0general.alignment" "\4\0\0\0" "\0\0\0\0"), 1, HEARTH_FORMAT,
     "key general.alignment: is 0, expected a power of two"},
    {"alignment 4", BYTES("\x11\0\0\0\0\0\0\0general.alignment" "\4\0\0\0" "\4\0\0\0"), 1, HEARTH_FORMAT,
     "is 4, expected"},
    {"alignment 24", BYTES("\x11\0\0\0\0\0\0\0general.alignment" "\4\0\0\0" "\30\0\0\0"), 1, HEARTH_FORMAT,
     "is 24, expected"},
};
// clang-format on

static void wrong_keys_are_named(void **state)
{
    (void)state;
    for (size_t i = 0; i < sizeof(keys) / sizeof(*keys); i++) {
        hearth_error error = {0};
        buffer b = {0};
        put_head(&b, 3, 0, keys[i].count);
        put(&b, keys[i].data, keys[i].size);
        put_zeros(&b, 64);
        hearth_status status = parse((const uint8_t *)b.data, b.size, &error);
        check_refusal(keys[i].what, status, &error, keys[i].status, PATH ": key ", keys[i].fragment);
        buffer_free(&b);
    }
}

static void long_keys(void **state)
{
    (void)state;
    for (size_t size = 65535; size <= 65536; size++) {
        hearth_error error = {0};
        buffer b = {0};
        put_head(&b, 3, 0, 1);
        put_u64(&b, size);
        for (size_t i = 0; i < size; i++)
            put(&b, "k", 1);
        put_u32(&b, VALUE_U8);
        put_u32(&b, 1);
        hearth_status status = parse((const uint8_t *)b.data, b.size, &error);
        if (size == 65535)
            assert_int_equal(status, HEARTH_OK);
        else
            check_refusal("long", status, &error, HEARTH_FORMAT, PATH, "has 65536 bytes, expected at most 65535");
        buffer_free(&b);
    }
}

/* ------------------------------------------------------------------- tensors */

#define BIG (UINT64_C(1) << 62)

/* Two tensors in a file with 256 bytes of data. */
// clang-format off
static const struct {
    const char *what;
    tensor_record a, b;
    hearth_status status;
    const char *fragment;
} records[] = {
    {"good", {"a", 1, {8}, 0, 0}, {"b", 4, {8, 1, 1, 2}, 0, 192}, HEARTH_OK, ""},
    {"any order", {"a", 1, {8}, 0, 224}, {"b", 1, {8}, 0, 0}, HEARTH_OK, ""},
    {"twice", {"a", 1, {8}, 0, 0}, {"a", 1, {8}, 0, 32}, HEARTH_FORMAT, "tensor a: appears twice"},
    {"no name", {"a", 1, {8}, 0, 0}, {"", 1, {8}, 0, 32}, HEARTH_FORMAT, "tensor number 2: the name is empty"},
    {"no text", {"\xFF", 1, {8}, 0, 0}, {"b", 1, {8}, 0, 32}, HEARTH_FORMAT, "tensor number 1: the name is not valid"},
    {"rank 0", {"a", 0, {0}, 0, 0}, {"b", 1, {8}, 0, 32}, HEARTH_FORMAT, "tensor a: has 0 dimensions"},
    {"rank 5", {"a", 5, {1, 1, 1, 1, 1}, 0, 0}, {"b", 1, {8}, 0, 32}, HEARTH_FORMAT, "tensor a: has 5 dimensions"},
    {"rank", {"a", 0xFFFFFFFF, {1}, 0, 0}, {"b", 1, {8}, 0, 32}, HEARTH_FORMAT, "tensor a: has 4294967295 dimensions"},
    {"zero", {"a", 2, {8, 0}, 0, 0}, {"b", 1, {8}, 0, 32}, HEARTH_FORMAT, "tensor a: dimension 1 is 0"},
    {"values", {"a", 2, {BIG, 4}, 0, 0}, {"b", 1, {8}, 0, 32}, HEARTH_FORMAT, "tensor a: the shape is too large"},
    {"row", {"a", 1, {BIG}, 0, 0}, {"b", 1, {8}, 0, 32}, HEARTH_FORMAT, "tensor a: the shape is too large"},
    {"rows", {"a", 2, {2, BIG}, 0, 0}, {"b", 1, {8}, 0, 32}, HEARTH_FORMAT, "tensor a: the shape is too large"},
    {"blocks", {"a", 1, {8}, 0, 0}, {"b", 2, {33, 1}, 8, 32}, HEARTH_FORMAT,
     "tensor b: rows of 33 values are not a whole"},
    {"q8_K", {"a", 1, {256}, 15, 0}, {"b", 1, {8}, 0, 32}, HEARTH_UNSUPPORTED, "tensor a: is of type q8_K, which"},
    {"q4_0_4_8", {"a", 1, {8}, 0, 0}, {"b", 1, {256}, 32, 32}, HEARTH_UNSUPPORTED, "tensor b: is of type q4_0_4_8"},
    {"i32", {"a", 1, {8}, 26, 0}, {"b", 1, {8}, 0, 32}, HEARTH_OK, ""},
    {"i32 too long", {"a", 1, {9}, 26, 0}, {"b", 1, {8}, 0, 32}, HEARTH_FORMAT, "tensor b: overlaps tensor a"},
    {"i64", {"a", 1, {4}, 27, 0}, {"b", 1, {8}, 0, 32}, HEARTH_UNSUPPORTED, "tensor a: is of type i64"},
    {"type", {"a", 1, {8}, 999, 0}, {"b", 1, {8}, 0, 32}, HEARTH_UNSUPPORTED, "tensor a: is of type number 999"},
    {"misaligned", {"a", 1, {8}, 0, 0}, {"b", 1, {8}, 0, 40}, HEARTH_FORMAT, "tensor b: offset 40 is not a multiple"},
    {"overlap", {"a", 1, {9}, 0, 0}, {"b", 1, {8}, 0, 32}, HEARTH_FORMAT, "tensor b: overlaps tensor a"},
    {"same place", {"b", 1, {8}, 0, 64}, {"a", 1, {8}, 0, 64}, HEARTH_FORMAT, "overlaps tensor"},
    {"inside", {"a", 1, {1}, 0, 32}, {"b", 1, {64}, 0, 0}, HEARTH_FORMAT, "tensor a: overlaps tensor b"},
    {"behind", {"a", 1, {8}, 0, 0}, {"b", 1, {9}, 0, 224}, HEARTH_FORMAT,
     "tensor b: ends at byte 260 of the data, but the file has only 256"},
    {"far behind", {"a", 1, {8}, 0, 0}, {"b", 1, {8}, 0, UINT64_MAX - 31}, HEARTH_FORMAT, "tensor b: offset"},
    {"wraps", {"a", 1, {8}, 0, 0}, {"b", 1, {4096}, 0, UINT64_MAX - 4095}, HEARTH_FORMAT, "too large"},
};
// clang-format on

static void wrong_tensors_are_named(void **state)
{
    (void)state;
    for (size_t i = 0; i < sizeof(records) / sizeof(*records); i++) {
        hearth_error error = {0};
        buffer b = {0};
        put_head(&b, 3, 2, 0);
        put_record(&b, &records[i].a);
        put_record(&b, &records[i].b);
        put_data(&b, 256);
        hearth_status status = parse((const uint8_t *)b.data, b.size, &error);
        if (records[i].status == HEARTH_OK)
            assert_int_equal(status, HEARTH_OK);
        else
            check_refusal(records[i].what, status, &error, records[i].status, PATH ": ", records[i].fragment);
        buffer_free(&b);
    }
}

static void long_tensor_names(void **state)
{
    (void)state;
    for (size_t size = 255; size <= 256; size++) {
        char name[257] = {0};
        hearth_error error = {0};
        buffer b = {0};
        memset(name, 'n', size);
        put_head(&b, 3, 1, 0);
        put_record(&b, &(tensor_record){name, 1, {8}, 0, 0});
        put_data(&b, 32);
        hearth_status status = parse((const uint8_t *)b.data, b.size, &error);
        if (size == 255)
            assert_int_equal(status, HEARTH_OK);
        else
            check_refusal("long", status, &error, HEARTH_FORMAT, PATH, "has 256 bytes, expected at most 255");
        buffer_free(&b);
    }
}

/* ---------------------------------------------------------------------- size */

/* A quarter of a million keys and tensors: any quadratic step would take minutes. */
static void many_names(void **state)
{
    (void)state;
    enum { COUNT = 250000 };
    buffer b = {0};
    char name[32];
    put_head(&b, 3, COUNT, COUNT);
    for (uint32_t i = 0; i < COUNT; i++) {
        snprintf(name, sizeof(name), "key.%u", i);
        put_u32_key(&b, name, i);
    }
    for (uint32_t i = 0; i < COUNT; i++) {
        snprintf(name, sizeof(name), "tensor.%u", i);
        /* Backwards, so that sorting has something to do. */
        put_record(&b, &(tensor_record){name, 1, {8}, 0, (uint64_t)(COUNT - 1 - i) * 32});
    }
    put_data(&b, (size_t)COUNT * 32);
    checkpoint *c;
    hearth_error error = {0};
    if (gguf_parse(&c, (const uint8_t *)b.data, b.size, PATH, &error) != HEARTH_OK)
        fail_msg("%s", error.text);
    uint32_t value;
    assert_int_equal(checkpoint_get_u32(c, "key.123456", &value, NULL, NULL), HEARTH_OK);
    assert_int_equal(value, 123456);
    assert_ptr_equal(checkpoint_find_tensor(c, "tensor.249999")->data, b.data + b.size - (size_t)COUNT * 32);
    assert_null(checkpoint_find_tensor(c, "tensor.250000"));
    checkpoint_close(c);
    buffer_free(&b);
}

static void missing_files(void **state)
{
    (void)state;
    hearth_error error = {0};
    checkpoint *c;
    long before = mem_live();
    check_refusal("missing", gguf_open(&c, "/nonexistent/m.gguf", &error), &error, HEARTH_IO, "/nonexistent/m.gguf",
                  "");
    check_refusal("folder", gguf_open(&c, "/tmp", &error), &error, HEARTH_IO, "/tmp", "");
    assert_int_equal(mem_live(), before);
}

/* Opening a real file, with each allocation and each read failing in turn. */
static void failed_opens(void **state)
{
    (void)state;
    static void (*const fault[])(long) = {file_fail_at, mem_fail_at};
    static const hearth_status expected[] = {HEARTH_IO, HEARTH_NO_MEMORY};
    char folder[512], path[1024];
    buffer b = make_sample(3);
    make_folder(folder, sizeof(folder));
    snprintf(path, sizeof(path), "%s/sample.gguf", folder);
    write_file(path, b.data, b.size);
    buffer_free(&b);
    long before = mem_live();
    for (size_t kind = 0; kind < 2; kind++) {
        long n = 0;
        for (;; n++) {
            checkpoint *c;
            hearth_error error = {0};
            fault[kind](n);
            hearth_status status = gguf_open(&c, path, &error);
            fault[kind](-1);
            if (status == HEARTH_OK) {
                checkpoint_close(c);
                break;
            }
            assert_int_equal(status, expected[kind]);
            assert_int_equal(mem_live(), before);
        }
        assert_true(n >= 1);
        assert_int_equal(mem_live(), before);
    }
    remove_folder(folder);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(sample_is_read),
        cmocka_unit_test(every_truncation_is_refused),
        cmocka_unit_test(every_flip_is_survived),
        cmocka_unit_test(every_failed_allocation_is_survived),
        cmocka_unit_test(wrong_files_are_named),
        cmocka_unit_test(wrong_keys_are_named),
        cmocka_unit_test(long_keys),
        cmocka_unit_test(wrong_tensors_are_named),
        cmocka_unit_test(long_tensor_names),
        cmocka_unit_test(many_names),
        cmocka_unit_test(missing_files),
        cmocka_unit_test(failed_opens),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
