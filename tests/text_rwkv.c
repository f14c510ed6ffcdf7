/* text_rwkv.c - RWKV's vocabulary: its list of pieces as keys of GGUF, ids against a search that can be seen to be right, and lists
 * that are damaged. tests/compare_rwkv.py compares with its publisher's program. */
#include "../src/base/text.h"
#include "../src/text/escapes.h"
#include "../src/text/rwkv_vocabulary.h"

#include "text_helpers.h"

#include <stdlib.h>

/* Pieces behind the 256 bytes, as the list has them, and as GGUF does: repr() of Python's bytes. */
static const struct {
    const char *literal, *spelled, *bytes;
    size_t size;
} pieces[] = {
    {"'\\n\\n'", "\\n\\n", "\n\n", 2},
    {"' the'", " the", " the", 4},
    {"'he'", "he", "he", 2},
    {"'\\r\\n'", "\\r\\n", "\r\n", 2},
    {"\"don't\"", "don't", "don't", 5},
    {"'\"'", "\"", "\"", 1}, /* again: the byte comes first */
    {"'\\'\"'", "\\'\"", "'\"", 2},
    {"'a\\\\'", "a\\\\", "a\\", 2},
    {"'\xc3\xbc'", "\\xc3\\xbc", "\xc3\xbc", 2}, /* u with two dots */
    {"'\\u3000'", "\\xe3\\x80\\x80", "\xe3\x80\x80", 3},
    {"'\\xa0x'", "\\xc2\\xa0x", "\xc2\xa0x", 3},
    {"b'\\xe3\\x80'", "\\xe3\\x80", "\xe3\x80", 2},
    {"' t'", " t", " t", 2},
    {"'tt'", "tt", "tt", 2},
};
#define PIECES     (sizeof pieces / sizeof *pieces)
#define FIRST      257 /* id of the first of them */
#define EVERYTHING (FIRST + PIECES)

/* Writes the list: a line for every byte, then the pieces. */
static buffer write_list(void)
{
    buffer list = {0};
    for (unsigned byte = 0; byte < 256; byte++)
        assert_true(buffer_print(&list, byte < 0x80 ? "%u '\\x%02x' 1\n" : "%u b'\\x%02x' 1\n", byte + 1, byte));
    for (size_t i = 0; i < PIECES; i++)
        assert_true(buffer_print(&list, "%zu %s %zu\n", FIRST + i, pieces[i].literal, pieces[i].size));
    return list;
}

static checkpoint *open_list(span list)
{
    checkpoint *c;
    hearth_error error;
    assert_int_equal(checkpoint_create(&c, "list", NULL), HEARTH_OK);
    if (rwkv_vocabulary_parse(c, list, "list", &error) != HEARTH_OK)
        fail_msg("%s", error.text);
    return c;
}

static uint32_t number_of(const checkpoint *c, const char *key)
{
    uint32_t value = UINT32_MAX;
    assert_int_equal(checkpoint_get_u32(c, key, &value, NULL, NULL), HEARTH_OK);
    return value;
}

static void list_becomes_keys(void **state)
{
    (void)state;
    buffer list = write_list();
    checkpoint *c = open_list((span){list.data, list.size});
    const key_value *tokens, *types;
    assert_int_equal(checkpoint_get_array(c, "tokenizer.ggml.tokens", VALUE_STRING, &tokens, NULL, NULL), HEARTH_OK);
    assert_int_equal(checkpoint_get_array(c, "tokenizer.ggml.token_type", VALUE_I32, &types, NULL, NULL), HEARTH_OK);
    assert_int_equal(tokens->count, EVERYTHING);
    assert_true(span_equal(tokens->as.strings[0], span_of("<s>")));
    assert_true(span_equal(tokens->as.strings[1], span_of("\\x00")));
    assert_true(span_equal(tokens->as.strings[1 + '\n'], span_of("\\n")));
    assert_true(span_equal(tokens->as.strings[1 + '\\'], span_of("\\\\")));
    assert_true(span_equal(tokens->as.strings[1 + '\''], span_of("'")));
    assert_true(span_equal(tokens->as.strings[1 + 0x7f], span_of("\\x7f")));
    assert_true(span_equal(tokens->as.strings[1 + 0xff], span_of("\\xff")));
    for (size_t i = 0; i < PIECES; i++)
        if (!span_equal(tokens->as.strings[FIRST + i], span_of(pieces[i].spelled)))
            fail_msg("%s is spelled '%.*s'", pieces[i].literal, (int)tokens->as.strings[FIRST + i].size,
                     tokens->as.strings[FIRST + i].data);
    const int32_t *type = types->as.items;
    assert_int_equal(type[0], CONTROL);
    assert_int_equal(type[1], NORMAL);
    assert_int_equal(number_of(c, "tokenizer.ggml.bos_token_id"), 0);
    assert_int_equal(number_of(c, "tokenizer.ggml.eos_token_id"), 0);
    assert_int_equal(number_of(c, "tokenizer.ggml.eot_token_id"), FIRST);
    checkpoint_close(c);
    buffer_free(&list);
}

/* Returns the id of the longest piece with which a text begins: every piece is tried. */
static int32_t longest(span text, size_t *size)
{
    int32_t found = 1 + (uint8_t)text.data[0];
    *size = 1;
    for (size_t i = 0; i < PIECES; i++)
        if (pieces[i].size > *size && pieces[i].size <= text.size &&
            memcmp(pieces[i].bytes, text.data, pieces[i].size) == 0) {
            *size = pieces[i].size;
            found = (int32_t)(FIRST + i);
        }
    return found;
}

/* Compares the ids of a text, and turns them back. */
static void compare(const tokenizer *t, span text)
{
    int32_t *ids;
    size_t count, at = 0;
    buffer back = {0};
    assert_int_equal(tokenizer_encode(t, text, HEARTH_TEXT_SPECIAL, &ids, &count, NULL), HEARTH_OK);
    for (size_t i = 0; i < count; i++) {
        size_t size;
        assert_true(at < text.size);
        assert_int_equal(ids[i], longest((span){text.data + at, text.size - at}, &size));
        assert_true(tokenizer_bytes(t, ids[i], &back));
        at += size;
    }
    assert_int_equal(at, text.size);
    assert_true(span_equal((span){back.data, back.size}, text));
    mem_free(ids);
    buffer_free(&back);
}

static void longest_piece_at_each_place(void **state)
{
    (void)state;
    buffer list = write_list();
    checkpoint *c = open_list((span){list.data, list.size});
    tokenizer *t = new_tokenizer(c);
    checkpoint_close(c);
    buffer_free(&list);
    uint32_t seed = 7;
    for (size_t n = 0; n < 2000; n++) {
        char text[64];
        size_t size = 0;
        while (size < 40) {
            seed = seed * 1664525 + 1013904223;
            size_t which = (seed >> 8) % (2 * PIECES);
            if (which < PIECES) {
                memcpy(text + size, pieces[which].bytes, pieces[which].size);
                size += pieces[which].size;
            } else {
                text[size++] = which % 2 ? " the\\'\"n\n"[(seed >> 20) % 9] : (char)(seed >> 24);
            }
        }
        compare(t, (span){text, size});
    }
    assert_true(tokenizer_ends_answer(t, FIRST));
    assert_true(tokenizer_ends_answer(t, 0));
    assert_false(tokenizer_adds_bos(t));
    tokenizer_destroy(t);
}

/* Lists, and what their errors say. */
static void damaged_lists(void **state)
{
    (void)state;
    static const struct {
        const char *list, *reason;
    } cases[] = {
        {"x 'a' 1\n", "line 1: is not a number, a piece and its length"},
        {"1 'a'\n", "line 1: is not a number, a piece and its length"},
        {"1\n", "line 1: is not a number, a piece and its length"},
        {"1 'a' 1\n3 'b' 1\n", "line 2: its number is not the next one"},
        {"1 'a\" 1\n", "line 1: its piece is no literal in quotes"},
        {"1 a 1\n", "line 1: its piece is no literal in quotes"},
        {"1 ' 1\n", "line 1: its piece is no literal in quotes"},
        {"1 'ab' 1\n", "line 1: its piece is empty or too long"},
        {"1 '' 0\n", "line 1: its piece is empty or too long"},
        {"1 '\\x0' 1\n", "line 1: its piece is empty or too long"},
        {"1 '\\q' 1\n", "line 1: its piece is empty or too long"},
        {"1 'a\\' 1\n", "line 1: its piece is empty or too long"},
        {"1 '\\ud800' 3\n", "line 1: its piece is empty or too long"},
        {"1 b'\\u3000' 3\n", "line 1: its piece is empty or too long"},
    };
    for (size_t i = 0; i < COUNT(cases); i++) {
        checkpoint *c;
        hearth_error error;
        assert_int_equal(checkpoint_create(&c, "list", NULL), HEARTH_OK);
        assert_int_equal(rwkv_vocabulary_parse(c, span_of(cases[i].list), "list", &error), HEARTH_FORMAT);
        if (!strstr(error.text, cases[i].reason))
            fail_msg("case %zu: %s", i, error.text);
        checkpoint_close(c);
    }
}

/* A file of GGUF may have fewer pieces than bytes, or spell one wrongly. */
static void damaged_vocabularies(void **state)
{
    (void)state;
    static const struct {
        const char *pieces[2];
        const char *reason;
    } cases[] = {{{"a", "\\x6"}, "token 1: has an escape that means no byte"},
                 {{"a", "b"}, "has neither an unknown token nor all bytes"}};
    for (size_t i = 0; i < COUNT(cases); i++) {
        const piece both[] = {{cases[i].pieces[0], 0, NORMAL}, {cases[i].pieces[1], 0, NORMAL}};
        checkpoint *c = new_checkpoint(both, 2);
        tokenizer *t;
        hearth_error error;
        assert_int_equal(checkpoint_set_string(c, "tokenizer.ggml.model", span_of("rwkv"), NULL), HEARTH_OK);
        assert_int_equal(tokenizer_create(&t, c, &error), HEARTH_FORMAT);
        if (!strstr(error.text, cases[i].reason))
            fail_msg("case %zu: %s", i, error.text);
        checkpoint_close(c);
    }
}

/* Without all bytes an unknown token stands for those that are missing. */
static void unknown_bytes(void **state)
{
    (void)state;
    const piece all[] = {{"<unk>", 0, UNKNOWN}, {"ab", 0, NORMAL}, {"a", 0, NORMAL}};
    checkpoint *c = new_checkpoint(all, 3);
    assert_int_equal(checkpoint_set_string(c, "tokenizer.ggml.model", span_of("rwkv"), NULL), HEARTH_OK);
    assert_int_equal(checkpoint_set_u32(c, "tokenizer.ggml.unknown_token_id", 0, NULL), HEARTH_OK);
    tokenizer *t = new_tokenizer(c);
    checkpoint_close(c);
    expect_ids(t, span_of("abxaa"), 0, "1 0 2 2");
    tokenizer_destroy(t);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(list_becomes_keys), cmocka_unit_test(longest_piece_at_each_place),
        cmocka_unit_test(damaged_lists),     cmocka_unit_test(damaged_vocabularies),
        cmocka_unit_test(unknown_bytes),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
