/* text_detokenizer.c - ids to text: whole characters as soon as they are known, invalid bytes as Unicode says,
 * and what was tokenized comes back. */
#include "text_helpers.h"

/* A vocabulary of bytes and a few pieces. */
enum { BYTE_0 = 3, PIECES_FROM = 259 };

static checkpoint *byte_checkpoint(const piece *more, size_t more_count)
{
    static char names[256][8];
    static piece pieces[PIECES_MAX];
    pieces[0] = (piece){"<unk>", 0, UNKNOWN};
    pieces[1] = (piece){"<s>", 0, CONTROL};
    pieces[2] = (piece){"</s>", 0, CONTROL};
    for (unsigned b = 0; b < 256; b++) {
        snprintf(names[b], sizeof names[b], "<0x%02X>", b);
        pieces[BYTE_0 + b] = (piece){names[b], 0, BYTE};
    }
    for (size_t i = 0; i < more_count; i++)
        pieces[PIECES_FROM + i] = more[i];
    return new_checkpoint(pieces, PIECES_FROM + more_count);
}

static tokenizer *byte_tokenizer(const piece *more, size_t more_count)
{
    checkpoint *c = byte_checkpoint(more, more_count);
    tokenizer *t = new_tokenizer(c);
    checkpoint_close(c);
    return t;
}

static void expect_text(const tokenizer *t, const int32_t *ids, size_t count, unsigned flags, span expected)
{
    buffer got = detokenize(t, ids, count, flags);
    if (!span_equal((span){got.data, got.size}, expected))
        fail_msg("expected \"%.*s\", got \"%.*s\"", (int)expected.size, expected.data, (int)got.size, got.data);
    buffer_free(&got);
}

/* -------------------------------------------------------------- characters */

/* The second decoder: the state machine of WHATWG's Encoding Standard (UTF-8 decoder), which follows the
 * maximal-subpart rule. At the end it leaves an incomplete character out unless `at_end`. */
static buffer decode(const uint8_t *bytes, size_t size, bool at_end)
{
    buffer out = {0};
    unsigned needed = 0, lower = 0x80, upper = 0xbf;
    uint8_t held[4];
    size_t held_size = 0;
    for (size_t i = 0; i < size; i++) {
        uint8_t byte = bytes[i];
        if (needed > 0 && (byte < lower || byte > upper)) {
            assert_true(buffer_put(&out, "\xef\xbf\xbd", 3));
            needed = 0;
            held_size = 0;
            lower = 0x80;
            upper = 0xbf;
        }
        if (needed > 0) {
            held[held_size++] = byte;
            lower = 0x80;
            upper = 0xbf;
            if (--needed == 0) {
                assert_true(buffer_put(&out, held, held_size));
                held_size = 0;
            }
        } else if (byte < 0x80) {
            assert_true(buffer_put(&out, &byte, 1));
        } else if (byte >= 0xc2 && byte <= 0xf4) {
            needed = byte < 0xe0 ? 1 : byte < 0xf0 ? 2 : 3;
            lower = byte == 0xe0 ? 0xa0 : byte == 0xf0 ? 0x90 : 0x80;
            upper = byte == 0xed ? 0x9f : byte == 0xf4 ? 0x8f : 0xbf;
            held[held_size++] = byte;
        } else {
            assert_true(buffer_put(&out, "\xef\xbf\xbd", 3));
        }
    }
    if (needed > 0 && at_end)
        assert_true(buffer_put(&out, "\xef\xbf\xbd", 3));
    return out;
}

/* The Unicode Standard, version 15, tables 3-8 to 3-11. */
static void unicode_examples(void **state)
{
    (void)state;
#define R "\xef\xbf\xbd"
    static const struct {
        const char *bytes, *text;
    } rows[] = {
        {"\xc0\xaf\xe0\x80\xbf\xf0\x81\x82\x41", R R R R R R R R "A"},
        {"\xed\xa0\x80\xed\xbf\xbf\xed\xaf\x41", R R R R R R R R "A"},
        {"\xf4\x91\x92\x93\xff\x41\x80\xbf\x42", R R R R R "A" R R "B"},
        {"\xe1\x80\xe2\xf0\x91\x92\xf1\xbf\x41", R R R R "A"},
        {"\xf0\x9f\x98", R},
        {"a\xc3", "a" R},
    };
#undef R
    tokenizer *t = byte_tokenizer(NULL, 0);
    for (size_t r = 0; r < COUNT(rows); r++) {
        int32_t ids[16];
        size_t count = strlen(rows[r].bytes);
        for (size_t i = 0; i < count; i++)
            ids[i] = BYTE_0 + (uint8_t)rows[r].bytes[i];
        expect_text(t, ids, count, 0, span_of(rows[r].text));
    }
    tokenizer_destroy(t);
}

/* After every byte exactly that is out which no further byte can change. */
static void random_bytes(void **state)
{
    (void)state;
    tokenizer *t = byte_tokenizer(NULL, 0);
    uint32_t seed = 1;
    static const uint8_t likely[] = {0x41, 0x80, 0x8f, 0x90, 0x9f, 0xa0, 0xbf,
                                     0xc2, 0xe0, 0xe2, 0xed, 0xf0, 0xf4, 0xf5};
    for (int round = 0; round < 2000; round++) {
        uint8_t bytes[24];
        size_t size = 1 + draw(&seed, sizeof bytes);
        for (size_t i = 0; i < size; i++)
            bytes[i] = draw(&seed, 4) ? likely[draw(&seed, COUNT(likely))] : (uint8_t)draw(&seed, 256);
        detokenizer *d;
        assert_int_equal(detokenizer_create(&d, t, HEARTH_DETOKENIZE_CONTINUE, NULL), HEARTH_OK);
        buffer all = {0};
        for (size_t i = 0; i <= size; i++) {
            span text;
            if (i < size)
                assert_int_equal(detokenizer_push(d, BYTE_0 + bytes[i], &text, NULL), HEARTH_OK);
            else
                detokenizer_finish(d, &text);
            assert_true(buffer_put(&all, text.data, text.size));
            buffer expected = decode(bytes, i < size ? i + 1 : size, i == size);
            assert_true(span_equal((span){all.data, all.size}, (span){expected.data, expected.size}));
            buffer_free(&expected);
        }
        buffer_free(&all);
        detokenizer_destroy(d);
    }
    tokenizer_destroy(t);
}

/* Characters of one to four bytes, cut into two pieces at every byte, and into three. */
static void every_split(void **state)
{
    (void)state;
    static const char text[] = "a\xc3\xa4z\xe2\x82\xac\xf0\x9f\xa6\x99\xef\xbf\xbd!";
    enum { SIZE = sizeof text - 1 };
    static char parts[SIZE * (SIZE + 1) / 2][SIZE + 1];
    static int32_t id_of[SIZE + 1][SIZE + 1];
    piece pieces[COUNT(parts)];
    size_t count = 0;
    for (size_t from = 0; from < SIZE; from++)
        for (size_t to = from + 1; to <= SIZE; to++) {
            memcpy(parts[count], text + from, to - from);
            pieces[count] = (piece){parts[count], 0, NORMAL};
            id_of[from][to] = (int32_t)(PIECES_FROM + count++);
        }
    tokenizer *t = byte_tokenizer(pieces, count);
    for (size_t a = 1; a < SIZE; a++)
        for (size_t b = a; b < SIZE; b++) {
            int32_t ids[3] = {id_of[0][a], a < b ? id_of[a][b] : id_of[b][SIZE], id_of[b][SIZE]};
            expect_text(t, ids, a < b ? 3 : 2, 0, (span){text, SIZE});
        }
    tokenizer_destroy(t);
}

/* ------------------------------------------------------------------ blanks */

static void blanks_and_special_tokens(void **state)
{
    (void)state;
    enum { A = PIECES_FROM, BLANK_A, BLANKS, USER, USER_BLANKS, SPARE, MARK };
    static const piece pieces[] = {
        // clang-format off
        {"a", 0, NORMAL}, {BLANK "a", 0, NORMAL}, {BLANK BLANK, 0, NORMAL}, {"[U]", 0, USER_DEFINED},
        {BLANK BLANK BLANK, 0, USER_DEFINED}, {"spare", 0, UNUSED}, {"<x" BLANK "y>", 0, CONTROL},
        // clang-format on
    };
    tokenizer *t = byte_tokenizer(pieces, COUNT(pieces));
    const unsigned shown = HEARTH_DETOKENIZE_CONTROL, go_on = HEARTH_DETOKENIZE_CONTINUE;
    const int32_t space = BYTE_0 + ' ';
    static const struct {
        unsigned flags;
        size_t count;
        int32_t ids[6];
        const char *text;
    } rows[] = {
        {0, 2, {BLANK_A, BLANK_A}, "a a"},
        {go_on, 2, {BLANK_A, BLANK_A}, " a a"},
        {0, 2, {BLANKS, A}, " a"},
        {0, 2, {A, BLANK_A}, "a a"},
        {0, 2, {space, A}, " a"},                                      /* that one was not put in */
        {0, 4, {BYTE_0 + 0xe2, BYTE_0 + 0x96, BYTE_0 + 0x81, A}, "a"}, /* U+2581 in bytes */
        {0, 5, {A, BYTE_0 + 0xe2, BYTE_0 + 0x96, BYTE_0 + 0x81, A}, "a a"},
        {0, 3, {1, BLANK_A, 2}, "a"},
        {0, 3, {A, 1, BLANK_A}, "a a"}, /* hidden: as if it were not there */
        {shown, 4, {1, BLANK_A, 2, BLANK_A}, "<s>a</s>a"},
        {shown, 2, {MARK, 0}, "<x" BLANK "y><unk>"}, /* as spelled */
        {0, 2, {MARK, 0}, ""},
        {0, 3, {USER, BLANK_A, BLANK_A}, "[U]a a"},
        {0, 3, {USER_BLANKS, BLANK_A, USER_BLANKS}, "   a   "},
        {0, 2, {A, SPARE}, "aspare"},
        {0, 3, {BYTE_0 + 0xe2, 1, BYTE_0 + 0x96}, "\xef\xbf\xbd\xef\xbf\xbd"}, /* a token between ends it */
        {0, 3, {BYTE_0 + 0xe2, USER, BYTE_0 + 0x96}, "\xef\xbf\xbd[U]\xef\xbf\xbd"},
    };
    for (size_t r = 0; r < COUNT(rows); r++)
        expect_text(t, rows[r].ids, rows[r].count, rows[r].flags, span_of(rows[r].text));

    detokenizer *d;
    span text;
    hearth_error error;
    assert_int_equal(detokenizer_create(&d, t, 0, NULL), HEARTH_OK);
    assert_int_equal(detokenizer_push(d, -1, &text, &error), HEARTH_INVALID);
    assert_int_equal(detokenizer_push(d, (int32_t)tokenizer_size(t), &text, &error), HEARTH_INVALID);
    assert_non_null(strstr(error.text, "266"));
    for (int again = 0; again < 2; again++) { /* finished: as new, the blank in front is dropped again */
        assert_int_equal(detokenizer_push(d, BLANK_A, &text, NULL), HEARTH_OK);
        assert_true(span_equal(text, span_of("a")));
        assert_int_equal(detokenizer_push(d, BYTE_0 + 0xf0, &text, NULL), HEARTH_OK);
        assert_int_equal(text.size, 0);
        detokenizer_finish(d, &text);
        assert_true(span_equal(text, span_of("\xef\xbf\xbd")));
    }
    detokenizer_finish(d, &text);
    assert_int_equal(text.size, 0);

    /* Padding: no text of its own, and it ends a character that was begun, as any token without text. */
    int32_t end = (int32_t)tokenizer_size(t);
    tokenizer_pad(t, 4);
    assert_int_equal(detokenizer_push(d, end, &text, NULL), HEARTH_INVALID);
    tokenizer_pad(t, (uint32_t)end + 2);
    expect_text(t, (int32_t[]){A, end, end + 1, A}, 4, HEARTH_DETOKENIZE_CONTROL, span_of("aa"));
    expect_text(t, (int32_t[]){BYTE_0 + 0xe2, end, A}, 3, 0,
                span_of("\xef\xbf\xbd"
                        "a"));
    assert_int_equal(detokenizer_push(d, end + 2, &text, NULL), HEARTH_INVALID);
    detokenizer_destroy(d);
    tokenizer_destroy(t);
}

static void no_prefix_no_drop(void **state)
{
    (void)state;
    static const piece pieces[] = {{BLANK "a", 0, NORMAL}};
    checkpoint *c = byte_checkpoint(pieces, 1);
    assert_int_equal(checkpoint_set_bool(c, "tokenizer.ggml.add_space_prefix", false, NULL), HEARTH_OK);
    tokenizer *t = new_tokenizer(c);
    expect_text(t, (int32_t[]){PIECES_FROM, PIECES_FROM}, 2, 0, span_of(" a a"));
    tokenizer_destroy(t);
    checkpoint_close(c);
}

/* ------------------------------------------------------------- round trips */

static void there_and_back(const tokenizer *t, span text, unsigned text_flags, unsigned flags)
{
    int32_t *ids;
    size_t count;
    assert_int_equal(tokenizer_encode(t, text, text_flags, &ids, &count, NULL), HEARTH_OK);
    buffer expected = decode((const uint8_t *)text.data, text.size, true);
    /* U+2581 in a text cannot be told from a blank: it becomes one. */
    for (char *mark; expected.size > 0 && (mark = memmem(expected.data, expected.size, BLANK, 3));) {
        *mark = ' ';
        expected.size -= 2;
        memmove(mark + 1, mark + 3, expected.size - (size_t)(mark + 1 - expected.data));
    }
    expect_text(t, ids, count, flags, (span){expected.data, expected.size});
    buffer_free(&expected);
    mem_free(ids);
}

static void every_text_of(const tokenizer *t, const char *name, unsigned text_flags, unsigned flags)
{
    char path[512];
    snprintf(path, sizeof path, HEARTH_DATA "/golden/tokenizers/%s", name);
    span texts = read_whole(path), rest = texts;
    while (rest.size > 0)
        there_and_back(t, next_part(&rest, TEXT_SEPARATOR), text_flags, flags);
    there_and_back(t, texts, text_flags, flags);
    mem_free((void *)texts.data);
}

/* Characters of all lengths, blanks in a row, and now and then a byte that is none. */
static size_t random_text(uint32_t *seed, char *out, size_t limit, bool valid)
{
    size_t size = 0, wanted = draw(seed, (uint32_t)limit - 4);
    while (size < wanted) {
        uint32_t code = draw(seed, 3) ? draw(seed, 0x80) : draw(seed, 2) ? draw(seed, 0x3000) : draw(seed, 0x110000);
        if (draw(seed, 5) == 0)
            code = draw(seed, 2) ? ' ' : 0x2581;
        if (code >= 0xd800 && code < 0xe000)
            code = 0x10ffff;
        if (!valid && draw(seed, 4) == 0) {
            out[size++] = (char)draw(seed, 256);
        } else if (code < 0x80) {
            out[size++] = (char)code;
        } else if (code < 0x800) {
            out[size++] = (char)(0xc0 | code >> 6);
            out[size++] = (char)(0x80 | (code & 0x3f));
        } else if (code < 0x10000) {
            out[size++] = (char)(0xe0 | code >> 12);
            out[size++] = (char)(0x80 | (code >> 6 & 0x3f));
            out[size++] = (char)(0x80 | (code & 0x3f));
        } else {
            out[size++] = (char)(0xf0 | code >> 18);
            out[size++] = (char)(0x80 | (code >> 12 & 0x3f));
            out[size++] = (char)(0x80 | (code >> 6 & 0x3f));
            out[size++] = (char)(0x80 | (code & 0x3f));
        }
    }
    assert_true(!valid || utf8_is_valid(out, size));
    return size;
}

static void golden_texts_come_back(void **state)
{
    (void)state;
    static const char *const names[] = {"llama-spm", "phi-3-trimmed"};
    for (size_t n = 0; n < COUNT(names); n++) {
        tokenizer *t = golden_tokenizer(names[n]);
        every_text_of(t, "llama-spm.inp", 0, 0);
        every_text_of(t, "extra.inp", 0, 0);
        every_text_of(t, "phi-3-trimmed.special.inp", 0, 0);
        uint32_t seed = 99;
        for (int i = 0; i < 2000; i++) {
            char text[128];
            there_and_back(t, (span){text, random_text(&seed, text, sizeof text, i % 2)}, 0, 0);
        }
        tokenizer_destroy(t);
    }
    /* With control tokens read and shown (Phi-3's swallow white space, so not there). */
    tokenizer *t = golden_tokenizer("llama-spm");
    every_text_of(t, "llama-spm.special.inp", HEARTH_TEXT_PARSE_CONTROL, HEARTH_DETOKENIZE_CONTROL);
    tokenizer_destroy(t);
}

/* Also where there is next to no piece, not even one for the blank, and with user-defined blanks. */
static void random_texts_come_back(void **state)
{
    (void)state;
    static const piece pieces[] = {
        // clang-format off
        {BLANK BLANK, 0, USER_DEFINED}, {BLANK BLANK BLANK, 0, USER_DEFINED}, {"a", -1, NORMAL},
        {BLANK "a", -1, NORMAL}, {"A", 0, USER_DEFINED}, {"<0x41", 0, NORMAL}, {BLANK, -3, NORMAL},
        // clang-format on
    };
    for (size_t count = 0; count <= COUNT(pieces); count++)
        for (int prefix = 0; prefix < 2; prefix++) {
            checkpoint *c = byte_checkpoint(pieces, count);
            assert_int_equal(checkpoint_set_bool(c, "tokenizer.ggml.add_space_prefix", prefix, NULL), HEARTH_OK);
            tokenizer *t = new_tokenizer(c);
            uint32_t seed = 5;
            for (int i = 0; i < 500; i++) {
                char text[64];
                there_and_back(t, (span){text, random_text(&seed, text, sizeof text, i % 2)}, 0, 0);
            }
            tokenizer_destroy(t);
            checkpoint_close(c);
        }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(unicode_examples),
        cmocka_unit_test(random_bytes),
        cmocka_unit_test(every_split),
        cmocka_unit_test(blanks_and_special_tokens),
        cmocka_unit_test(no_prefix_no_drop),
        cmocka_unit_test(golden_texts_come_back),
        cmocka_unit_test(random_texts_come_back),
    };
    return run_group(tests, NULL, NULL);
}
