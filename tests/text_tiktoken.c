/* text_tiktoken.c - tiktoken's list of pieces: the merges that it leaves out are those that GPT-2's authors published with the same
 * pieces, and lists that are damaged. tests/compare_tiktoken.py compares ids with the tiktoken package. */
#include "../src/text/byte_alphabet.h"
#include "../src/text/tiktoken.h"

#include "text_helpers.h"
#include "tiktoken_list.h"

#define GPT2 HEARTH_DATA "/golden/tokenizers/gpt-2.gguf"

static const key_value *texts_of(const checkpoint *c, const char *key)
{
    const key_value *texts;
    assert_int_equal(checkpoint_get_array(c, key, VALUE_STRING, &texts, NULL, NULL), HEARTH_OK);
    assert_non_null(texts);
    return texts;
}

static void merges_are_those_published(void **state)
{
    (void)state;
    checkpoint *published, *made;
    hearth_error error;
    buffer list = {0};
    char bytes[1024];
    if (gguf_open(&published, GPT2, &error) != HEARTH_OK)
        fail_msg("%s", error.text);
    const key_value *pieces = texts_of(published, "tokenizer.ggml.tokens");
    size_t count = pieces->count - 1; /* the last one is <|endoftext|> */
    assert_int_equal(count, 50256);
    for (size_t rank = 0; rank < count; rank++) {
        assert_true(pieces->as.strings[rank].size <= sizeof bytes);
        add_piece(&list, bytes, alphabet_read(pieces->as.strings[rank], bytes), rank);
    }
    assert_int_equal(checkpoint_create(&made, "made", NULL), HEARTH_OK);
    if (tiktoken_parse(made, (span){list.data, list.size}, "list", &error) != HEARTH_OK)
        fail_msg("%s", error.text);
    const key_value *again = texts_of(made, "tokenizer.ggml.tokens");
    assert_int_equal(again->count, count);
    for (size_t i = 0; i < count; i++)
        assert_true(span_equal(again->as.strings[i], pieces->as.strings[i]));
    const key_value *wanted = texts_of(published, "tokenizer.ggml.merges");
    const key_value *found = texts_of(made, "tokenizer.ggml.merges");
    assert_int_equal(wanted->count, 50000);
    assert_int_equal(found->count, wanted->count);
    for (size_t i = 0; i < found->count; i++)
        if (!span_equal(found->as.strings[i], wanted->as.strings[i]))
            fail_msg("merge %zu is '%.*s', published is '%.*s'", i, (int)found->as.strings[i].size,
                     found->as.strings[i].data, (int)wanted->as.strings[i].size, wanted->as.strings[i].data);
    checkpoint_close(made);
    checkpoint_close(published);
    buffer_free(&list);
}

static hearth_status parse(const buffer *list, checkpoint **c, hearth_error *error)
{
    assert_int_equal(checkpoint_create(c, "list", NULL), HEARTH_OK);
    return tiktoken_parse(*c, (span){list->data, list->size}, "list", error);
}

/* A piece that its bytes do not come down to is in the vocabulary, and no merge makes it. */
static void pieces_that_nothing_makes(void **state)
{
    (void)state;
    buffer list = all_bytes();
    checkpoint *c;
    hearth_error error;
    add_piece(&list, "abcd", 4, 256);
    add_piece(&list, "ab", 2, 257); /* comes too late for that one */
    add_piece(&list, "abc", 3, 258);
    if (parse(&list, &c, &error) != HEARTH_OK)
        fail_msg("%s", error.text);
    const key_value *merges = texts_of(c, "tokenizer.ggml.merges");
    assert_int_equal(texts_of(c, "tokenizer.ggml.tokens")->count, 259);
    assert_int_equal(merges->count, 2);
    assert_true(span_equal(merges->as.strings[0], span_of("a b")));
    assert_true(span_equal(merges->as.strings[1], span_of("ab c")));
    checkpoint_close(c);
    buffer_free(&list);
}

static void damaged_lists(void **state)
{
    (void)state;
    static const struct {
        const char *behind, *text; /* what stands behind the lines of all bytes */
    } rows[] = {
        {"YWI=\n", "list: line 257: is not a piece and the rank 256"},
        {"YWI= 257\n", "line 257: is not a piece and the rank 256"},
        {"YWI= 256 \n", "line 257: is not a piece and the rank 256"},
        {"YWI= 0256\n", "line 257: is not a piece and the rank 256"},
        {" 256\n", "line 257: is not base64 of 1 to 1024 bytes"},
        {"YWI 256\n", "line 257: is not base64"},
        {"Y!I= 256\n", "line 257: is not base64"},
        {"Y=I= 256\n", "line 257: is not base64"},
        {"==== 256\n", "line 257: is not base64"},
        {"YQ== 256\n", "list: the pieces of ranks 97 and 256 are alike"},
    };
    for (size_t i = 0; i < COUNT(rows); i++) {
        buffer list = all_bytes();
        checkpoint *c;
        hearth_error error;
        assert_true(buffer_print(&list, "%s", rows[i].behind));
        assert_int_equal(parse(&list, &c, &error), HEARTH_FORMAT);
        if (!strstr(error.text, rows[i].text))
            fail_msg("'%s': %s", rows[i].behind, error.text);
        checkpoint_close(c);
        buffer_free(&list);
    }
}

static void too_long_and_too_few(void **state)
{
    (void)state;
    static char longer[1025];
    for (size_t size = 1024; size <= 1025; size++) {
        buffer list = all_bytes();
        checkpoint *c;
        hearth_error error;
        memset(longer, 'a', size);
        add_piece(&list, longer, size, 256);
        assert_int_equal(parse(&list, &c, &error), size == 1024 ? HEARTH_OK : HEARTH_FORMAT);
        checkpoint_close(c);
        buffer_free(&list);
    }
    buffer list = all_bytes();
    checkpoint *c;
    hearth_error error;
    list.size -= strlen("/w== 255\n");
    assert_int_equal(parse(&list, &c, &error), HEARTH_FORMAT);
    assert_string_equal(error.text, "list: has no piece for the byte 0xff");
    checkpoint_close(c);
    list.size = 0;
    assert_int_equal(parse(&list, &c, &error), HEARTH_FORMAT);
    assert_string_equal(error.text, "list: has no piece for the byte 0x00");
    checkpoint_close(c);
    buffer_free(&list);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(merges_are_those_published),
        cmocka_unit_test(pieces_that_nothing_makes),
        cmocka_unit_test(damaged_lists),
        cmocka_unit_test(too_long_and_too_few),
    };
    return run_group(tests, NULL, NULL);
}
