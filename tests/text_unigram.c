/* text_unigram.c - a small unigram vocabulary of SentencePiece with a normalisation of its own: ids against the program that
 * trained it (tests/make_unigram_cases.py), and damaged tables. */
#include "../src/base/file.h"
#include "../src/base/json.h"
#include "../src/file/sentencepiece.h"
#include "../src/text/charsmap.h"

#include "text_helpers.h"

#include <stdlib.h>

#define FOLDER HEARTH_MODELS "/../tests/data/"

static tokenizer *open_model(void)
{
    checkpoint *c;
    tokenizer *t = NULL;
    hearth_error error = {0};
    assert_int_equal(checkpoint_create(&c, "unigram", NULL), HEARTH_OK);
    if (sentencepiece_add(c, FOLDER "unigram-tokenizer.model", &error) != HEARTH_OK ||
        tokenizer_create(&t, c, &error) != HEARTH_OK)
        fail_msg("%s", error.text);
    checkpoint_close(c);
    return t;
}

static json_t *read_cases(void)
{
    json_t *root;
    assert_int_equal(json_parse_file(&root, FOLDER "unigram-cases.json", NULL), HEARTH_OK);
    return root;
}

static void ids_are_those_of_sentencepiece(void **state)
{
    (void)state;
    tokenizer *t = open_model();
    json_t *root = read_cases();
    const json_t *cases = json_object_get(root, "cases");
    assert_int_equal(json_array_size(cases), 312);
    for (size_t i = 0; i < json_array_size(cases); i++) {
        const json_t *row = json_array_get(cases, i), *ids = json_object_get(row, "ids");
        const json_t *text = json_object_get(row, "text");
        int32_t *got;
        size_t count;
        hearth_error error;
        assert_int_equal(
            tokenizer_encode(t, (span){json_string_value(text), json_string_length(text)}, 0, &got, &count, &error),
            HEARTH_OK);
        bool same = count == json_array_size(ids);
        for (size_t k = 0; same && k < count; k++)
            same = got[k] == json_integer_value(json_array_get(ids, k));
        if (!same)
            fail_msg("case %zu: '%s'", i, json_string_value(text));
        mem_free(got);
    }
    json_decref(root);
    tokenizer_destroy(t);
}

/* A megabyte of one letter, and of words: nothing is quadratic, or this would not end. */
static void long_texts_end(void **state)
{
    (void)state;
    tokenizer *t = open_model();
    enum { SIZE = 1 << 20 };
    char *text = malloc(SIZE);
    assert_non_null(text);
    for (int step = 1; step < 10; step += 8) {
        for (size_t i = 0; i < SIZE; i++)
            text[i] = step > 1 && i % (size_t)step == 0 ? ' ' : 'a';
        int32_t *ids;
        size_t count;
        assert_int_equal(tokenizer_encode(t, (span){text, SIZE}, 0, &ids, &count, NULL), HEARTH_OK);
        assert_in_range(count, 1, SIZE);
        mem_free(ids);
    }
    free(text);
    tokenizer_destroy(t);
}

static uint8_t *decode_base64(const char *text, size_t *size)
{
    static const char digits[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
    uint8_t *out = malloc(strlen(text));
    uint32_t bits = 0;
    assert_non_null(out);
    *size = 0;
    for (size_t i = 0; text[i] && text[i] != '='; i++) {
        const char *digit = strchr(digits, text[i]);
        assert_non_null(digit);
        bits = bits << 6 | (uint32_t)(digit - digits);
        if (i % 4 > 0)
            out[(*size)++] = (uint8_t)(bits >> (6 - 2 * (i % 4)));
    }
    return out;
}

/* Whatever is wrong with a table: no fault, and a valid text unless its replacements are not. */
static void damaged_tables_are_survived(void **state)
{
    (void)state;
    json_t *root = read_cases();
    size_t size;
    uint8_t *blob = decode_base64(json_string_value(json_object_get(root, "charsmap")), &size);
    const span text = span_of("AbA \xef\xac\x81x \xc3\xa9 e\xcc\x81\t\xe3\x80\x80.");
    buffer out = {0};
    charsmap map;
    assert_int_equal(size, 1038);
    assert_true(charsmap_read(&map, (span){(const char *)blob, size}));
    assert_true(charsmap_write(&map, text, &out));
    assert_true(span_equal((span){out.data, out.size}, span_of("aba fix e e  .")));
    for (size_t i = 0; i < size; i++)
        for (int bit = 0; bit < 8; bit++) {
            blob[i] ^= (uint8_t)(1 << bit);
            uint8_t *copy = malloc(size); /* so that a sanitizer sees what lies behind it */
            assert_non_null(copy);
            memcpy(copy, blob, size);
            if (charsmap_read(&map, (span){(const char *)copy, size}))
                assert_true(charsmap_write(&map, text, &out));
            free(copy);
            blob[i] ^= (uint8_t)(1 << bit);
        }
    for (size_t i = 1; i < size - 8; i++)
        if (charsmap_read(&map, (span){(const char *)blob, i}))
            assert_int_equal(blob[i - 1], 0); /* the end of a replacement */
    buffer_free(&out);
    free(blob);
    json_decref(root);
}

/* A table whose path of an 'a' leads back to itself is left after some bytes: a long text takes no square of its length. */
static void a_path_in_a_circle(void **state)
{
    (void)state;
    enum { SIZE = 1 << 20, A = 'a' };
    struct {
        uint32_t size, units[2];
        char end[4];
    } table = {8, {(A ^ 1) << 10, (uint32_t)A << 10 | A}, ""};
    char *text = malloc(SIZE);
    charsmap map;
    buffer out = {0};
    assert_non_null(text);
    memset(text, A, SIZE);
    assert_true(charsmap_read(&map, (span){(const char *)&table, sizeof table}));
    assert_true(charsmap_write(&map, (span){text, SIZE}, &out));
    assert_true(span_equal((span){out.data, out.size}, (span){text, SIZE}));
    buffer_free(&out);
    free(text);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(ids_are_those_of_sentencepiece),
        cmocka_unit_test(long_texts_end),
        cmocka_unit_test(damaged_tables_are_survived),
        cmocka_unit_test(a_path_in_a_circle),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
