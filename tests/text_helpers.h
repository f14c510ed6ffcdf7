/* text_helpers.h - small vocabularies made by hand, golden texts, and numbers drawn from a seed. */
#ifndef TESTS_TEXT_HELPERS_H
#define TESTS_TEXT_HELPERS_H

#include "../src/file/gguf.h"
#include "../src/text/tokenizer.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "skip.h"

#define COUNT(array) (sizeof(array) / sizeof *(array))
#define BLANK        "\xe2\x96\x81" /* U+2581 */

enum { NORMAL = 1, UNKNOWN, CONTROL, USER_DEFINED, UNUSED, BYTE };

typedef struct piece {
    const char *text;
    float score;
    int32_t type;
} piece;

enum { PIECES_MAX = 1024 };

/* Writes the arrays of a vocabulary into a checkpoint. */
static inline void set_pieces(checkpoint *c, const piece *pieces, size_t count)
{
    static span texts[PIECES_MAX];
    static float scores[PIECES_MAX];
    static int32_t types[PIECES_MAX];
    assert_true(count <= PIECES_MAX);
    for (size_t i = 0; i < count; i++) {
        texts[i] = span_of(pieces[i].text);
        scores[i] = pieces[i].score;
        types[i] = pieces[i].type;
    }
    const char *prefix = "tokenizer.ggml.";
    char key[64];
    snprintf(key, sizeof key, "%smodel", prefix);
    assert_int_equal(checkpoint_set_string(c, key, span_of("llama"), NULL), HEARTH_OK);
    snprintf(key, sizeof key, "%stokens", prefix);
    assert_int_equal(checkpoint_set_strings(c, key, texts, count, NULL), HEARTH_OK);
    snprintf(key, sizeof key, "%sscores", prefix);
    assert_int_equal(checkpoint_set_numbers(c, key, VALUE_F32, scores, count, NULL), HEARTH_OK);
    snprintf(key, sizeof key, "%stoken_type", prefix);
    assert_int_equal(checkpoint_set_numbers(c, key, VALUE_I32, types, count, NULL), HEARTH_OK);
}

static inline checkpoint *new_checkpoint(const piece *pieces, size_t count)
{
    checkpoint *c;
    assert_int_equal(checkpoint_create(&c, "test.gguf", NULL), HEARTH_OK);
    set_pieces(c, pieces, count);
    return c;
}

static inline tokenizer *new_tokenizer(const checkpoint *c)
{
    tokenizer *t = NULL;
    hearth_error error = {0};
    if (tokenizer_create(&t, c, &error) != HEARTH_OK)
        fail_msg("%s", error.text);
    assert_non_null(t);
    return t;
}

/* The tokenizer of golden/tokenizers/NAME.gguf; skips the test where it is absent. */
static inline tokenizer *golden_tokenizer(const char *name)
{
    char path[512];
    snprintf(path, sizeof path, HEARTH_DATA "/golden/tokenizers/%s.gguf", name);
    checkpoint *c;
    hearth_error error = {0};
    if (gguf_open(&c, path, &error) != HEARTH_OK)
        fail_msg("%s", error.text);
    tokenizer *t = new_tokenizer(c);
    checkpoint_close(c); /* a tokenizer must not need it any more */
    return t;
}

static inline span read_whole(const char *path)
{
    char *data;
    size_t size;
    hearth_error error = {0};
    if (file_read(&data, &size, path, (size_t)64 << 20, &error) != HEARTH_OK)
        fail_msg("%s", error.text);
    return (span){data, size};
}

/* Cuts off what comes before the separator; the last part has none behind it. */
static inline span next_part(span *rest, const char *separator)
{
    size_t length = strlen(separator);
    char *end = memmem(rest->data, rest->size, separator, length);
    span part = {rest->data, end ? (size_t)(end - rest->data) : rest->size};
    size_t used = part.size + (end ? length : 0);
    *rest = (span){rest->data + used, rest->size - used};
    return part;
}

#define TEXT_SEPARATOR "\n__ggml_vocab_test__\n"

/* ids as "1 2 3"; freed with buffer_free. */
static inline buffer print_ids(const int32_t *ids, size_t count)
{
    buffer b = {0};
    for (size_t i = 0; i < count; i++)
        assert_true(buffer_print(&b, i > 0 ? " %d" : "%d", ids[i]));
    assert_true(buffer_put(&b, "", 1));
    return b;
}

static inline void expect_ids(const tokenizer *t, span text, unsigned flags, const char *expected)
{
    int32_t *ids = NULL;
    size_t count = 0;
    assert_int_equal(tokenizer_encode(t, text, flags, &ids, &count, NULL), HEARTH_OK);
    buffer got = print_ids(ids, count);
    if (strcmp(got.data, expected) != 0)
        fail_msg("text \"%.*s\": expected %s, got %s", (int)text.size, text.data, expected, got.data);
    buffer_free(&got);
    mem_free(ids);
}

/* All that comes of pushing these ids and finishing; freed with buffer_free. */
static inline buffer detokenize(const tokenizer *t, const int32_t *ids, size_t count, unsigned flags)
{
    detokenizer *d = NULL;
    span text = {0};
    assert_int_equal(detokenizer_create(&d, t, flags, NULL), HEARTH_OK);
    buffer all = {0};
    for (size_t i = 0; i <= count; i++) {
        if (i < count)
            assert_int_equal(detokenizer_push(d, ids[i], &text, NULL), HEARTH_OK);
        else
            detokenizer_finish(d, &text);
        assert_true(utf8_is_valid(text.data, text.size));
        assert_true(buffer_put(&all, text.data, text.size));
    }
    detokenizer_destroy(d);
    return all;
}

/* xorshift32: any seed but 0. */
static inline uint32_t draw(uint32_t *state, uint32_t below)
{
    *state ^= *state << 13;
    *state ^= *state >> 17;
    *state ^= *state << 5;
    return *state % below;
}

#endif
