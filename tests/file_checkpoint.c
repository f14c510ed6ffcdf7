/* file_checkpoint.c - building a checkpoint, typed reading of its keys, and what happens without memory. */
#include "file_build.h"

#include <math.h>

static checkpoint *create(void)
{
    checkpoint *c;
    assert_int_equal(checkpoint_create(&c, "some/model", NULL), HEARTH_OK);
    return c;
}

static void add(checkpoint *c, key_value entry)
{
    assert_int_equal(checkpoint_add_entry(c, &entry, NULL), HEARTH_OK);
}

/* GGUF's numbers and sizes, from its specification. */
static void value_types(void **state)
{
    (void)state;
    static const struct {
        value_type type;
        int number;
        size_t size;
        const char *name;
    } rows[] = {
        {VALUE_U8, 0, 1, "u8"},       {VALUE_I8, 1, 1, "i8"},         {VALUE_U16, 2, 2, "u16"},
        {VALUE_I16, 3, 2, "i16"},     {VALUE_U32, 4, 4, "u32"},       {VALUE_I32, 5, 4, "i32"},
        {VALUE_F32, 6, 4, "f32"},     {VALUE_BOOL, 7, 1, "bool"},     {VALUE_U64, 10, 8, "u64"},
        {VALUE_I64, 11, 8, "i64"},    {VALUE_STRING, 8, 0, "string"}, {VALUE_F64, 12, 8, "f64"},
        {VALUE_ARRAY, 9, 0, "array"},
    };
    assert_int_equal(sizeof(rows) / sizeof(*rows), VALUE_TYPE_COUNT);
    for (size_t i = 0; i < VALUE_TYPE_COUNT; i++) {
        assert_int_equal(rows[i].type, rows[i].number);
        assert_int_equal(value_size(rows[i].type), rows[i].size);
        assert_string_equal(value_type_name(rows[i].type), rows[i].name);
    }
}

static void set_values_are_copied_and_replaced(void **state)
{
    (void)state;
    checkpoint *c = create();
    char key[] = "key", text[] = "text";
    float numbers[] = {1, 2, 3};
    const key_value *found;
    span string;
    uint32_t u;
    assert_int_equal(checkpoint_set_string(c, key, (span){text, 4}, NULL), HEARTH_OK);
    key[0] = text[0] = '?';
    assert_int_equal(checkpoint_get_string(c, "key", &string, NULL, NULL), HEARTH_OK);
    assert_true(span_equal(string, span_of("text")));
    assert_null(checkpoint_find(c, "?ey"));

    /* Another type under the same key: still one entry. */
    assert_int_equal(checkpoint_set_u32(c, "key", 7, NULL), HEARTH_OK);
    assert_int_equal(c->entry_count, 1);
    assert_int_equal(checkpoint_get_u32(c, "key", &u, NULL, NULL), HEARTH_OK);
    assert_int_equal(u, 7);

    assert_int_equal(checkpoint_set_numbers(c, "numbers", VALUE_F32, numbers, 3, NULL), HEARTH_OK);
    numbers[2] = 0;
    assert_int_equal(checkpoint_get_array(c, "numbers", VALUE_F32, &found, NULL, NULL), HEARTH_OK);
    assert_int_equal(found->count, 3);
    assert_true(((const float *)found->as.items)[2] == 3.0f);

    span strings[] = {{text, 4}, {"", 0}, {NULL, 0}};
    assert_int_equal(checkpoint_set_strings(c, "strings", strings, 3, NULL), HEARTH_OK);
    text[1] = '?';
    assert_int_equal(checkpoint_get_array(c, "strings", VALUE_STRING, &found, NULL, NULL), HEARTH_OK);
    assert_int_equal(found->count, 3);
    assert_true(span_equal(found->as.strings[0], span_of("?ext")));
    assert_int_equal(found->as.strings[2].size, 0);

    assert_int_equal(checkpoint_set_numbers(c, "none", VALUE_I32, NULL, 0, NULL), HEARTH_OK);
    assert_int_equal(checkpoint_set_strings(c, "no strings", NULL, 0, NULL), HEARTH_OK);
    assert_int_equal(checkpoint_get_array(c, "none", VALUE_I32, &found, NULL, NULL), HEARTH_OK);
    assert_int_equal(found->count, 0);
    checkpoint_close(c);
    checkpoint_close(NULL);
}

static void integers_that_fit(void **state)
{
    (void)state;
    static const struct {
        key_value entry;
        int64_t expected; /* -1: refused */
        const char *fragment;
    } rows[] = {
        {{.key = "u8", .type = VALUE_U8, .as.u = 255}, 255, ""},
        {{.key = "i8", .type = VALUE_I8, .as.i = 5}, 5, ""},
        {{.key = "u64", .type = VALUE_U64, .as.u = UINT32_MAX}, UINT32_MAX, ""},
        {{.key = "i64", .type = VALUE_I64, .as.i = UINT32_MAX}, UINT32_MAX, ""},
        {{.key = "big", .type = VALUE_U64, .as.u = UINT64_C(1) << 32},
         -1,
         "key big: is 4294967296, expected an integer of 32"},
        {{.key = "long", .type = VALUE_I64, .as.i = INT64_MAX}, -1, "key long: is 9223372036854775807, expected"},
        {{.key = "minus", .type = VALUE_I32, .as.i = -1}, -1, "key minus: is -1, expected an integer of at least 0"},
        {{.key = "float", .type = VALUE_F32, .as.f = 1}, -1, "key float: is a float, expected an integer"},
        {{.key = "bool", .type = VALUE_BOOL, .as.u = 1}, -1, "key bool: is a bool, expected an integer"},
        {{.key = "string", .type = VALUE_STRING, .as.string = {"1", 1}},
         -1,
         "key string: is a string, expected an integer"},
        {{.key = "array", .type = VALUE_ARRAY, .item_type = VALUE_U8},
         -1,
         "key array: is an array, expected an integer"},
    };
    checkpoint *c = create();
    for (size_t i = 0; i < sizeof(rows) / sizeof(*rows); i++) {
        hearth_error error = {0};
        uint32_t value = 12345;
        add(c, rows[i].entry);
        hearth_status status = checkpoint_get_u32(c, rows[i].entry.key, &value, NULL, &error);
        if (rows[i].expected >= 0) {
            assert_int_equal(status, HEARTH_OK);
            assert_int_equal(value, rows[i].expected);
        } else {
            check_refusal("u32", status, &error, HEARTH_FORMAT, "some/model: ", rows[i].fragment);
            assert_int_equal(value, 12345);
        }
    }
    checkpoint_close(c);
}

static void other_types(void **state)
{
    (void)state;
    checkpoint *c = create();
    hearth_error error = {0};
    float f = -1;
    bool b = false, found = true;
    span s = {0};
    const key_value *array = NULL;
    add(c, (key_value){.key = "f32", .type = VALUE_F32, .as.f = 0.5});
    add(c, (key_value){.key = "f64", .type = VALUE_F64, .as.f = 0.1});
    add(c, (key_value){.key = "huge", .type = VALUE_F64, .as.f = 1e39});
    add(c, (key_value){.key = "infinite", .type = VALUE_F64, .as.f = (double)INFINITY});
    add(c, (key_value){.key = "true", .type = VALUE_BOOL, .as.u = 1});
    add(c, (key_value){.key = "u32", .type = VALUE_U32, .as.u = 1});
    add(c, (key_value){.key = "array", .type = VALUE_ARRAY, .item_type = VALUE_I32});
    assert_int_equal(checkpoint_get_f32(c, "f32", &f, NULL, NULL), HEARTH_OK);
    assert_true(f == 0.5f);
    assert_int_equal(checkpoint_get_f32(c, "f64", &f, &found, NULL), HEARTH_OK);
    assert_true(f == 0.1f && found);
    assert_int_equal(checkpoint_get_f32(c, "infinite", &f, NULL, NULL), HEARTH_OK);
    assert_true(isinf(f));
    check_refusal("huge", checkpoint_get_f32(c, "huge", &f, NULL, &error), &error, HEARTH_FORMAT,
                  "some/model: ", "key huge: is 1e+39, expected a float of 32 bits");
    check_refusal("f32", checkpoint_get_f32(c, "u32", &f, NULL, &error), &error, HEARTH_FORMAT,
                  "some/model: ", "key u32: is an integer, expected a float");
    assert_int_equal(checkpoint_get_bool(c, "true", &b, NULL, NULL), HEARTH_OK);
    assert_true(b);
    check_refusal("bool", checkpoint_get_bool(c, "u32", &b, NULL, &error), &error, HEARTH_FORMAT,
                  "some/model: ", "key u32: is an integer, expected a bool");
    check_refusal("string", checkpoint_get_string(c, "u32", &s, NULL, &error), &error, HEARTH_FORMAT,
                  "some/model: ", "key u32: is an integer, expected a string");
    check_refusal("array", checkpoint_get_array(c, "u32", VALUE_I32, &array, NULL, &error), &error, HEARTH_FORMAT,
                  "some/model: ", "key u32: is an integer, expected an array");
    check_refusal("items", checkpoint_get_array(c, "array", VALUE_F32, &array, NULL, &error), &error, HEARTH_FORMAT,
                  "some/model: ", "key array: is an array of i32, expected one of f32");
    assert_int_equal(checkpoint_get_array(c, "array", VALUE_I32, &array, NULL, NULL), HEARTH_OK);
    assert_ptr_equal(array, checkpoint_find(c, "array"));
    checkpoint_close(c);
}

static void absent_keys(void **state)
{
    (void)state;
    checkpoint *c = create();
    hearth_error error = {0};
    bool found = true;
    uint32_t u = 9;
    float f = 9;
    bool b = true;
    span s = {"9", 1};
    const key_value *array = &(key_value){0};
    assert_int_equal(checkpoint_get_u32(c, "x", &u, &found, &error), HEARTH_OK);
    assert_false(found);
    assert_int_equal(u, 9);
    assert_int_equal(checkpoint_get_f32(c, "x", &f, &found, &error), HEARTH_OK);
    assert_int_equal(checkpoint_get_bool(c, "x", &b, &found, &error), HEARTH_OK);
    assert_int_equal(checkpoint_get_string(c, "x", &s, &found, &error), HEARTH_OK);
    assert_int_equal(checkpoint_get_array(c, "x", VALUE_U8, &array, &found, &error), HEARTH_OK);
    assert_true(f == 9.0f && b && s.size == 1 && array);
    check_refusal("u32", checkpoint_get_u32(c, "x", &u, NULL, &error), &error, HEARTH_FORMAT,
                  "some/model: ", "key x: is missing");
    check_refusal("array", checkpoint_get_array(c, "x", VALUE_U8, &array, NULL, &error), &error, HEARTH_FORMAT,
                  "some/model: ", "key x: is missing");
    assert_null(checkpoint_find_tensor(c, "x"));
    checkpoint_close(c);
}

static void names_are_unique(void **state)
{
    (void)state;
    checkpoint *c = create();
    hearth_error error = {0};
    stored_tensor t = {.name = "t", .format = FORMAT_F32, .rank = 1, .shape = {1, 1, 1, 1}};
    key_value entry = {.key = "k", .type = VALUE_U8};
    add(c, entry);
    assert_int_equal(checkpoint_add_tensor(c, &t, NULL), HEARTH_OK);
    check_refusal("key", checkpoint_add_entry(c, &entry, &error), &error, HEARTH_FORMAT,
                  "some/model: ", "key k: appears twice");
    check_refusal("tensor", checkpoint_add_tensor(c, &t, &error), &error, HEARTH_FORMAT,
                  "some/model: ", "tensor t: appears twice");
    assert_int_equal(c->entry_count, 1);
    assert_int_equal(c->tensor_count, 1);
    checkpoint_close(c);
}

/* One of everything, in numbers that make the arrays and tables grow. */
static hearth_status build(const uint8_t *unused, size_t size, hearth_error *error)
{
    (void)unused;
    (void)size;
    checkpoint *c;
    char name[32];
    hearth_status status = HEARTH_OK;
    TRY(checkpoint_create(&c, "some/model", error));
    for (uint32_t i = 0; i < 100; i++) {
        stored_tensor t = {.name = name, .format = FORMAT_F32, .rank = 1, .shape = {1, 1, 1, 1}};
        snprintf(name, sizeof(name), "name.%u", i);
        TRY_OR(done, status, checkpoint_set_u32(c, name, i, error));
        TRY_OR(done, status, checkpoint_add_tensor(c, &t, error));
    }
    for (uint32_t i = 0; i < 100; i++) {
        uint32_t value = 0;
        snprintf(name, sizeof(name), "name.%u", i);
        TRY_OR(done, status, checkpoint_get_u32(c, name, &value, NULL, error));
        assert_int_equal(value, i);
        assert_ptr_equal(checkpoint_find_tensor(c, name), &c->tensors[i]);
    }
    TRY_OR(done, status, checkpoint_set_f32(c, "f", 1, error));
    TRY_OR(done, status, checkpoint_set_bool(c, "b", true, error));
    TRY_OR(done, status, checkpoint_set_string(c, "s", span_of("text"), error));
    TRY_OR(done, status, checkpoint_set_strings(c, "ss", &(span){"text", 4}, 1, error));
    TRY_OR(done, status, checkpoint_set_numbers(c, "n", VALUE_U32, &(uint32_t){1}, 1, error));
    TRY_OR(done, status, checkpoint_own_map(c, (file_map){0}, error));
    TRY_OR(done, status, checkpoint_own_map(c, (file_map){0}, error));
done:
    checkpoint_close(c);
    return status;
}

static void every_failed_allocation_is_survived(void **state)
{
    (void)state;
    assert_in_range(check_allocation_failures(build, NULL, 0), 10, 1000);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(value_types),
        cmocka_unit_test(set_values_are_copied_and_replaced),
        cmocka_unit_test(integers_that_fit),
        cmocka_unit_test(other_types),
        cmocka_unit_test(absent_keys),
        cmocka_unit_test(names_are_unique),
        cmocka_unit_test(every_failed_allocation_is_survived),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
