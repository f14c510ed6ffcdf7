/* JSON: what is refused and how it is named; members of every type. */
#include "../src/base/file.h"
#include "../src/base/json.h"
#include "../src/base/memory.h"

#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

static json_t *parse(const char *text)
{
    json_t *value = NULL;
    hearth_error error;
    if (json_parse(&value, text, strlen(text), "test", &error) != HEARTH_OK)
        fail_msg("%s", error.text);
    return value;
}

/* What Python writes for values that JSON cannot express: no numbers, and nothing inside strings is changed. */
static void words_of_python(void **state)
{
    (void)state;
    static const char text[] =
        "{\"a\": [0.0, Infinity], \"Infinity\": \"NaN \\\" Infinity\", \"b\": -Infinity, \"c\": NaN}";
    char path[] = "/tmp/hearth-json-XXXXXX";
    int file = mkstemp(path);
    assert_true(file >= 0 && write(file, text, sizeof text - 1) == (ssize_t)(sizeof text - 1));
    close(file);
    json_t *value = NULL;
    hearth_error error;
    assert_int_equal(json_parse_small(&value, path, &error), HEARTH_FORMAT);
    assert_int_equal(json_parse_python(&value, path, &error), HEARTH_OK);
    assert_true(json_is_null(json_array_get(json_object_get(value, "a"), 1)));
    assert_string_equal(json_string_value(json_object_get(value, "Infinity")), "NaN \" Infinity");
    assert_true(json_is_null(json_object_get(value, "b")));
    assert_true(json_is_string(json_object_get(value, "c")));
    json_decref(value);
    unlink(path);
}

static void malformed_text_is_refused(void **state)
{
    (void)state;
    static char deep[100000];
    memset(deep, '[', sizeof deep - 1);
    const char *const texts[] = {
        "",      "{",        "{}x",     "{\"a\":1,\"a\":2}",      "[1,]", "{\"a\":\"\xff\"}", "[01]",
        "[nan]", "{'a': 1}", "[1e999]", "[99999999999999999999]", deep,
    };
    for (size_t i = 0; i < sizeof texts / sizeof *texts; i++) {
        json_t *value = NULL;
        hearth_error error;
        assert_int_equal(json_parse(&value, texts[i], strlen(texts[i]), "config.json", &error), HEARTH_FORMAT);
        assert_null(value);
        assert_memory_equal(error.text, "config.json: line 1, column ", 28);
    }
}

/* JSON has no word for what is not a number. */
static void numbers_are_finite(void **state)
{
    (void)state;
    static const double none[] = {NAN, INFINITY, -INFINITY};
    for (size_t i = 0; i < sizeof none / sizeof *none; i++) {
        json_t *value = json_number(none[i]);
        assert_true(json_is_null(value));
        json_decref(value);
    }
    json_t *value = json_number(-0.25);
    assert_true(json_is_real(value) && json_real_value(value) == -0.25);
    json_decref(value);
}

static void members_are_read(void **state)
{
    (void)state;
    json_t *object = parse("{\"u\": 4294967295, \"i\": 3, \"r\": -2.5, \"b\": true, \"s\": \"text\", \"n\": null}");
    uint32_t u = 0;
    double r = 0;
    bool b = false, found = false;
    const char *s = NULL;
    assert_int_equal(json_get_uint(object, "u", &u, NULL, "f", NULL), HEARTH_OK);
    assert_int_equal(u, UINT32_MAX);
    assert_int_equal(json_get_number(object, "r", &r, &found, "f", NULL), HEARTH_OK);
    assert_true(found && r == -2.5);
    assert_int_equal(json_get_number(object, "i", &r, NULL, "f", NULL), HEARTH_OK);
    assert_true(r == 3);
    assert_int_equal(json_get_bool(object, "b", &b, NULL, "f", NULL), HEARTH_OK);
    assert_true(b);
    assert_int_equal(json_get_string(object, "s", &s, NULL, "f", NULL), HEARTH_OK);
    assert_string_equal(s, "text");
    json_decref(object);
}

static void absent_members_are_optional_or_named(void **state)
{
    (void)state;
    json_t *object = parse("{\"n\": null}");
    static const char *const keys[] = {"n", "missing"};
    for (size_t i = 0; i < 2; i++) {
        uint32_t u = 7;
        bool found = true;
        hearth_error error;
        assert_int_equal(json_get_uint(object, keys[i], &u, &found, "config.json", &error), HEARTH_OK);
        assert_false(found);
        assert_int_equal(u, 7);
        assert_int_equal(json_get_uint(object, keys[i], &u, NULL, "config.json", &error), HEARTH_FORMAT);
        char expected[64];
        snprintf(expected, sizeof expected, "config.json: %s: is missing", keys[i]);
        assert_string_equal(error.text, expected);
    }
    json_decref(object);
}

static void wrong_types_are_named(void **state)
{
    (void)state;
    json_t *object = parse("{\"neg\": -1, \"big\": 4294967296, \"real\": 2.0, \"s\": \"1\", \"list\": []}");
    static const char *const not_uint[] = {"neg", "big", "real", "s", "list"};
    hearth_error error;
    bool found = false;
    for (size_t i = 0; i < sizeof not_uint / sizeof *not_uint; i++) {
        uint32_t u = 7;
        assert_int_equal(json_get_uint(object, not_uint[i], &u, &found, "f", &error), HEARTH_FORMAT);
        assert_int_equal(u, 7);
    }
    assert_string_equal(error.text, "f: list: is not an integer from 0 to 4294967295");
    double r;
    bool b;
    const char *s;
    assert_int_equal(json_get_number(object, "s", &r, &found, "f", &error), HEARTH_FORMAT);
    assert_string_equal(error.text, "f: s: is not a number");
    assert_int_equal(json_get_bool(object, "neg", &b, &found, "f", &error), HEARTH_FORMAT);
    assert_string_equal(error.text, "f: neg: is not true or false");
    assert_int_equal(json_get_string(object, "neg", &s, &found, "f", &error), HEARTH_FORMAT);
    assert_string_equal(error.text, "f: neg: is not a string");
    assert_int_equal(json_get_string(json_object_get(object, "list"), "k", &s, &found, "f", &error), HEARTH_FORMAT);
    assert_int_equal(json_get_string(NULL, "k", &s, &found, "f", &error), HEARTH_FORMAT);
    json_decref(object);
}

static void files_are_parsed(void **state)
{
    (void)state;
    char path[] = "/tmp/hearth base json XXXXXX";
    int fd = mkstemp(path);
    assert_int_equal(write(fd, "{\"layers\": 12}", 14), 14);
    long before = mem_live();
    json_t *object;
    hearth_error error;
    uint32_t layers = 0;
    assert_int_equal(json_parse_file(&object, path, &error), HEARTH_OK);
    assert_int_equal(json_get_uint(object, "layers", &layers, NULL, path, &error), HEARTH_OK);
    assert_int_equal(layers, 12);
    json_decref(object);
    assert_int_equal(ftruncate(fd, 5), 0);
    assert_int_equal(json_parse_file(&object, path, &error), HEARTH_FORMAT);
    assert_non_null(strstr(error.text, path));
    close(fd);
    unlink(path);
    assert_int_equal(json_parse_file(&object, path, &error), HEARTH_IO);
    assert_int_equal(mem_live(), before);
}

/* Recalls what is stored under a kind, version and key; -1: nothing. */
static long recalled(const char *path, const char *kind, int version, const char *key)
{
    json_t *root = json_recall(path, kind, version, key);
    long layers = root ? (long)json_integer_value(json_object_get(root, "layers")) : -1;
    json_decref(root);
    return layers;
}

static void what_is_stored_is_recalled(void **state)
{
    (void)state;
    char path[] = "/tmp/hearth base json XXXXXX";
    int fd = mkstemp(path);
    long before = mem_live();
    json_t *members = json_pack("{s:i}", "layers", 12);
    assert_int_equal(recalled(path, "test", 1, "a"), -1);
    json_remember(path, "test", 1, "a", NULL);
    assert_int_equal(recalled(path, "test", 1, "a"), -1);
    json_remember(path, "test", 1, "a", members);
    assert_int_equal(recalled(path, "test", 1, "a"), 12);
    assert_int_equal(recalled(path, "test", 2, "a"), -1);
    assert_int_equal(recalled(path, "test", 1, "b"), -1);
    assert_int_equal(recalled(path, "other", 1, "a"), -1);
    file_fail_at(0);
    json_remember(path, "test", 1, "b", members);
    file_fail_at(-1);
    assert_int_equal(recalled(path, "test", 1, "a"), 12);
    json_remember(NULL, "test", 1, "a", members);
    assert_int_equal(recalled(NULL, "test", 1, "a"), -1);
    assert_int_equal(truncate(path, 9), 0);
    assert_int_equal(recalled(path, "test", 1, "a"), -1);
    json_decref(members);
    close(fd);
    unlink(path);
    assert_int_equal(mem_live(), before);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(malformed_text_is_refused), cmocka_unit_test(numbers_are_finite),
        cmocka_unit_test(members_are_read),          cmocka_unit_test(absent_members_are_optional_or_named),
        cmocka_unit_test(wrong_types_are_named),     cmocka_unit_test(files_are_parsed),
        cmocka_unit_test(words_of_python),           cmocka_unit_test(what_is_stored_is_recalled),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
