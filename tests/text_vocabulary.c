/* text_vocabulary.c - vocabularies that are not as they should be, what absent keys mean, which tokens end an
 * answer, failing allocations, and the time that large texts take (printed, not judged). */
#include "../src/base/clock.h"
#include "../src/text/tokenizer_json.h"

#include "text_helpers.h"

static const piece good[] = {
    {"<unk>", 0, UNKNOWN}, {"<s>", 0, CONTROL}, {"</s>", 0, CONTROL},    {BLANK, -3, NORMAL},
    {"a", -2, NORMAL},     {"b", -1, NORMAL},   {BLANK "a", -4, NORMAL}, {"[U]", 0, USER_DEFINED},
};
enum { GOOD = COUNT(good) };

#define KEY(name) "tokenizer.ggml." name

/* ---------------------------------------------------------------- refusals */

static void set_type(checkpoint *c, const char *key, int32_t type)
{
    (void)key;
    piece pieces[GOOD];
    memcpy(pieces, good, sizeof good);
    pieces[GOOD - 1].type = type;
    set_pieces(c, pieces, GOOD);
}

static void set_id(checkpoint *c, const char *key, int32_t id)
{
    assert_int_equal(checkpoint_set_u32(c, key, (uint32_t)id, NULL), HEARTH_OK);
}

static void set_text(checkpoint *c, const char *key, int32_t unused)
{
    (void)unused;
    assert_int_equal(checkpoint_set_string(c, key, span_of("hello"), NULL), HEARTH_OK);
}

static void set_floats(checkpoint *c, const char *key, int32_t count)
{
    float values[2 * GOOD] = {0};
    assert_int_equal(checkpoint_set_numbers(c, key, VALUE_F32, values, (size_t)count, NULL), HEARTH_OK);
}

static void set_ints(checkpoint *c, const char *key, int32_t count)
{
    int32_t values[2 * GOOD];
    for (size_t i = 0; i < COUNT(values); i++)
        values[i] = NORMAL;
    assert_int_equal(checkpoint_set_numbers(c, key, VALUE_I32, values, (size_t)count, NULL), HEARTH_OK);
}

static void set_strings(checkpoint *c, const char *key, int32_t count)
{
    span values[2 * GOOD];
    for (size_t i = 0; i < COUNT(values); i++)
        values[i] = span_of("x");
    assert_int_equal(checkpoint_set_strings(c, key, values, (size_t)count, NULL), HEARTH_OK);
}

static void set_not_a_number(checkpoint *c, const char *key, int32_t unused)
{
    (void)key;
    (void)unused;
    piece pieces[GOOD];
    memcpy(pieces, good, sizeof good);
    pieces[4].score = __builtin_nanf("");
    set_pieces(c, pieces, GOOD);
}

static void set_no_unknown(checkpoint *c, const char *key, int32_t unused)
{
    (void)key;
    (void)unused;
    set_pieces(c, good + 3, GOOD - 3);
}

static void set_long(checkpoint *c, const char *key, int32_t size)
{
    static char text[1 << 16];
    memset(text, 'x', sizeof text);
    text[size] = 0;
    piece pieces[GOOD];
    memcpy(pieces, good, sizeof good);
    pieces[5].text = text;
    (void)key;
    set_pieces(c, pieces, GOOD);
}

static void refusals(void **state)
{
    (void)state;
    static const struct {
        void (*damage)(checkpoint *c, const char *key, int32_t argument);
        const char *key;
        int32_t argument;
        hearth_status status;
        const char *text; /* somewhere in the error */
    } rows[] = {
        {set_text, KEY("model"), 0, HEARTH_UNSUPPORTED, "'hello'"},
        {set_id, KEY("model"), 0, HEARTH_FORMAT, KEY("model")},
        {set_text, KEY("tokens"), 0, HEARTH_FORMAT, KEY("tokens")},
        {set_ints, KEY("tokens"), GOOD, HEARTH_FORMAT, KEY("tokens")},
        {set_strings, KEY("tokens"), 0, HEARTH_FORMAT, "0 items"},
        {set_strings, KEY("tokens"), GOOD - 1, HEARTH_FORMAT, "8 items, but there are 7 tokens"},
        {set_floats, KEY("scores"), GOOD + 1, HEARTH_FORMAT, KEY("scores")},
        {set_floats, KEY("scores"), 0, HEARTH_FORMAT, KEY("scores")},
        {set_ints, KEY("scores"), GOOD, HEARTH_FORMAT, KEY("scores")},
        {set_not_a_number, NULL, 0, HEARTH_FORMAT, "token 4"},
        {set_ints, KEY("token_type"), GOOD - 1, HEARTH_FORMAT, KEY("token_type")},
        {set_floats, KEY("token_type"), GOOD, HEARTH_FORMAT, KEY("token_type")},
        {set_type, NULL, 0, HEARTH_FORMAT, "token type 0"},
        {set_type, NULL, 7, HEARTH_FORMAT, "token type 7"},
        {set_type, NULL, -1, HEARTH_FORMAT, "token type -1"},
        {set_type, NULL, BYTE, HEARTH_FORMAT, "[U]"}, /* not <0xXX> */
        {set_id, KEY("bos_token_id"), GOOD, HEARTH_FORMAT, KEY("bos_token_id")},
        {set_id, KEY("eos_token_id"), -1, HEARTH_FORMAT, KEY("eos_token_id")},
        {set_id, KEY("eot_token_id"), GOOD, HEARTH_FORMAT, KEY("eot_token_id")},
        {set_id, KEY("unknown_token_id"), 1 << 30, HEARTH_FORMAT, KEY("unknown_token_id")},
        {set_text, KEY("bos_token_id"), 0, HEARTH_FORMAT, KEY("bos_token_id")},
        {set_text, KEY("add_bos_token"), 0, HEARTH_FORMAT, KEY("add_bos_token")},
        {set_text, KEY("add_space_prefix"), 0, HEARTH_FORMAT, KEY("add_space_prefix")},
        {set_text, KEY("remove_extra_whitespaces"), 0, HEARTH_FORMAT, KEY("remove_extra_whitespaces")},
        {set_no_unknown, NULL, 0, HEARTH_FORMAT, "byte 0"},
        {set_long, NULL, 4097, HEARTH_UNSUPPORTED, "token 5"},
    };
    long live = mem_live();
    for (size_t r = 0; r < COUNT(rows); r++) {
        checkpoint *c = new_checkpoint(good, GOOD);
        rows[r].damage(c, rows[r].key, rows[r].argument);
        tokenizer *t = (tokenizer *)&t; /* must stay as it is */
        hearth_error error = {0};
        hearth_status status = tokenizer_create(&t, c, &error);
        if (status != rows[r].status || !strstr(error.text, rows[r].text) || !strstr(error.text, "test.gguf"))
            fail_msg("row %zu: status %d, \"%s\"", r, (int)status, error.text);
        assert_ptr_equal(t, &t);
        assert_int_equal(tokenizer_create(&t, c, NULL), rows[r].status);
        checkpoint_close(c);
    }
    assert_int_equal(mem_live(), live);
}

static void missing_arrays(void **state)
{
    (void)state;
    static const char *const keys[] = {KEY("tokens"), KEY("scores"), KEY("token_type")};
    for (size_t missing = 0; missing < COUNT(keys); missing++) {
        checkpoint *c;
        assert_int_equal(checkpoint_create(&c, "test.gguf", NULL), HEARTH_OK);
        set_text(c, "general.name", 0);
        tokenizer *t = (tokenizer *)&t;
        assert_int_equal(tokenizer_create(&t, c, NULL), HEARTH_OK); /* no vocabulary at all */
        assert_null(t);
        assert_int_equal(checkpoint_set_string(c, KEY("model"), span_of("llama"), NULL), HEARTH_OK);
        if (missing != 0)
            set_strings(c, keys[0], GOOD);
        if (missing != 1)
            set_floats(c, keys[1], GOOD);
        if (missing != 2)
            set_ints(c, keys[2], GOOD);
        hearth_error error = {0};
        assert_int_equal(tokenizer_create(&t, c, &error), HEARTH_FORMAT);
        assert_non_null(strstr(error.text, keys[missing]));
        checkpoint_close(c);
    }
}

/* ------------------------------------------------------------------ meaning */

static void absent_keys(void **state)
{
    (void)state;
    /* 0, 1 and 2 are ordinary pieces: nobody is BOS, EOS or unknown, so nothing is added. */
    piece pieces[256 + 3] = {{"a", 0, NORMAL}, {"b", 0, NORMAL}, {"", 0, NORMAL}};
    static char names[256][8];
    for (unsigned b = 0; b < 256; b++) {
        snprintf(names[b], sizeof names[b], "<0x%02X>", b);
        pieces[3 + b] = (piece){names[b], 0, BYTE};
    }
    checkpoint *c = new_checkpoint(pieces, COUNT(pieces));
    assert_int_equal(checkpoint_set_bool(c, KEY("add_eos_token"), true, NULL), HEARTH_OK);
    tokenizer *t = new_tokenizer(c);
    assert_int_equal(tokenizer_bos(t), -1);
    assert_int_equal(tokenizer_eos(t), -1);
    assert_false(tokenizer_adds_bos(t));
    assert_false(tokenizer_ends_answer(t, 1));
    assert_int_equal(tokenizer_size(t), 259);
    expect_ids(t, span_of("ab"), HEARTH_TEXT_SPECIAL, "229 153 132 0 1"); /* the blank: E2 96 81 */
    assert_true(span_equal(tokenizer_piece(t, 4), span_of("<0x01>")));
    assert_int_equal(tokenizer_piece(t, -1).size, 0);
    assert_int_equal(tokenizer_piece(t, 259).size, 0);
    tokenizer_destroy(t);
    checkpoint_close(c);
    tokenizer_destroy(NULL);
    detokenizer_destroy(NULL);
}

static bool ends(const piece *pieces, size_t count, const char *text, bool *is_text)
{
    checkpoint *c = new_checkpoint(pieces, count);
    tokenizer *t = new_tokenizer(c);
    int32_t id = 0;
    while (strcmp(pieces[id].text, text) != 0)
        id++;
    bool found = tokenizer_ends_answer(t, id);
    int32_t *ids;
    size_t size;
    assert_int_equal(tokenizer_encode(t, span_of(text), 0, &ids, &size, NULL), HEARTH_OK);
    *is_text = !(size == 1 && ids[0] == id); /* not recognised without HEARTH_TEXT_PARSE_CONTROL */
    mem_free(ids);
    tokenizer_destroy(t);
    checkpoint_close(c);
    return found;
}

static void ends_of_answers(void **state)
{
    (void)state;
    bool is_text;
    static const piece chat[] = {
        {"<unk>", 0, UNKNOWN},    {"<s>", 0, CONTROL},       {"<eos>", 0, CONTROL},           {"<|end|>", 0, CONTROL},
        {"<|user|>", 0, CONTROL}, {"</s>", 0, USER_DEFINED}, {"<|im_end|>", 0, USER_DEFINED}, {"[EOT]", 0, NORMAL},
    };
    assert_true(ends(chat, COUNT(chat), "<s>", &is_text)); /* BOS */
    assert_true(ends(chat, COUNT(chat), "<eos>", &is_text));
    assert_true(ends(chat, COUNT(chat), "<|end|>", &is_text));
    assert_false(ends(chat, COUNT(chat), "<|user|>", &is_text));
    assert_false(ends(chat, COUNT(chat), "<unk>", &is_text));
    assert_false(ends(chat, COUNT(chat), "[EOT]", &is_text)); /* an ordinary piece */
    /* Beside <eos> the other one is HTML, and stays user-defined. */
    assert_false(ends(chat, COUNT(chat), "</s>", &is_text));
    assert_false(is_text);
    /* Ends of turns that a file lists as user-defined are control tokens all the same. */
    assert_true(ends(chat, COUNT(chat), "<|im_end|>", &is_text));
    assert_true(is_text);

    static const piece harmony[] = {{"<unk>", 0, UNKNOWN},
                                    {"<|end|>", 0, CONTROL},
                                    {"</s>", 0, CONTROL},
                                    {"a", 0, CONTROL},
                                    {"<|return|>", 0, CONTROL}};
    checkpoint *c = new_checkpoint(harmony, COUNT(harmony));
    set_id(c, KEY("bos_token_id"), 3);
    set_id(c, KEY("eot_token_id"), 0);
    tokenizer *t = new_tokenizer(c);
    static const bool expected[] = {true, false, true, true, true}; /* the key's, a part's, EOS, BOS, the turn's */
    for (int32_t id = 0; id < (int32_t)COUNT(expected); id++)
        assert_int_equal(tokenizer_ends_answer(t, id), expected[id]);
    assert_false(tokenizer_ends_answer(t, -1));
    assert_false(tokenizer_ends_answer(t, (int32_t)COUNT(expected)));
    tokenizer_destroy(t);
    checkpoint_close(c);
}

/* ------------------------------------------------------------------- faults */

static void failing_allocations(void **state)
{
    (void)state;
    checkpoint *c = new_checkpoint(good, GOOD);
    tokenizer *t = NULL;
    hearth_error error;
    long live = mem_live(), tries = 0;
    for (hearth_status status = HEARTH_NO_MEMORY; status != HEARTH_OK; tries++) {
        mem_fail_at(tries);
        status = tokenizer_create(&t, c, &error);
        mem_fail_at(-1);
        assert_true(status == HEARTH_OK || status == HEARTH_NO_MEMORY);
        assert_true(status == HEARTH_OK ? t != NULL : t == NULL && mem_live() == live);
    }
    assert_true(tries >= 3);

    char text[1000];
    for (size_t i = 0; i < sizeof text; i++)
        text[i] = "ab [U]x"[i % 7];
    int32_t *ids = NULL;
    size_t count = 0;
    live = mem_live();
    tries = 0;
    for (hearth_status status = HEARTH_NO_MEMORY; status != HEARTH_OK; tries++) {
        mem_fail_at(tries);
        status = tokenizer_encode(t, (span){text, sizeof text}, HEARTH_TEXT_SPECIAL, &ids, &count, &error);
        mem_fail_at(-1);
        assert_true(status == HEARTH_OK || status == HEARTH_NO_MEMORY);
        assert_true(status == HEARTH_OK ? ids != NULL : ids == NULL && count == 0 && mem_live() == live);
    }
    assert_true(tries >= 4);
    assert_int_equal(mem_live(), live + 1);
    mem_free(ids);

    detokenizer *d = NULL;
    mem_fail_at(0);
    assert_int_equal(detokenizer_create(&d, t, 0, &error), HEARTH_NO_MEMORY);
    mem_fail_at(-1);
    assert_null(d);

    /* Nothing is allocated per token. */
    assert_int_equal(detokenizer_create(&d, t, 0, &error), HEARTH_OK);
    mem_fail_at(0);
    span out;
    for (int32_t id = 0; id < GOOD; id++)
        assert_int_equal(detokenizer_push(d, id, &out, NULL), HEARTH_OK);
    detokenizer_finish(d, &out);
    mem_fail_at(-1);
    detokenizer_destroy(d);
    tokenizer_destroy(t);
    checkpoint_close(c);
}

/* A few bytes do not become a vocabulary of millions: ids that no token has are filled up, but not without end. */
static void ids_of_no_tokens(void **state)
{
    (void)state;
    static const struct {
        int id;
        hearth_status expected;
    } rows[] = {{1000, HEARTH_OK}, {65000, HEARTH_OK}, {70000, HEARTH_FORMAT}, {4194303, HEARTH_FORMAT}};
    for (size_t i = 0; i < COUNT(rows); i++) {
        char text[160];
        checkpoint *c;
        hearth_error error = {0};
        snprintf(text, sizeof text,
                 "{\"model\": {\"type\": \"BPE\", \"vocab\": {\"a\": %d}, \"merges\": []}, \"pre_tokenizer\": "
                 "{\"type\": \"ByteLevel\"}}",
                 rows[i].id);
        assert_int_equal(checkpoint_create(&c, "test", NULL), HEARTH_OK);
        assert_int_equal(tokenizer_json_parse(c, span_of(text), "test", &error), rows[i].expected);
        if (rows[i].expected != HEARTH_OK)
            assert_non_null(strstr(error.text, "too many ids are left out"));
        checkpoint_close(c);
    }
}

static void an_empty_text_has_no_ids(void **state)
{
    (void)state;
    checkpoint *c = new_checkpoint(good, GOOD);
    tokenizer *t = new_tokenizer(c);
    int32_t *ids = (int32_t *)&ids;
    size_t count = 77;
    long live = mem_live();
    assert_int_equal(tokenizer_encode(t, (span){NULL, 0}, 0, &ids, &count, NULL), HEARTH_OK);
    assert_null(ids);
    assert_int_equal(count, 0);
    assert_int_equal(mem_live(), live);
    tokenizer_destroy(t);
    checkpoint_close(c);
}

/* -------------------------------------------------------------------- time */

static void time_text(const tokenizer *t, const char *what, const char *text, size_t size)
{
    int32_t *ids;
    size_t count;
    double begin = clock_seconds();
    assert_int_equal(tokenizer_encode(t, (span){text, size}, HEARTH_TEXT_PARSE_CONTROL, &ids, &count, NULL), HEARTH_OK);
    double encoded = clock_seconds();
    buffer back = detokenize(t, ids, count, HEARTH_DETOKENIZE_CONTROL);
    print_message("%-28s %5.2f MB, %7zu tokens: to ids %.3f s, back %.3f s\n", what, (double)size / 1e6, count,
                  encoded - begin, clock_seconds() - encoded);
    assert_true(span_equal((span){back.data, back.size}, (span){text, size}));
    buffer_free(&back);
    mem_free(ids);
}

static void large_texts(void **state)
{
    (void)state;
    enum { SIZE = 1 << 20 };
    double begin = clock_seconds();
    tokenizer *t = golden_tokenizer("llama-spm");
    print_message("%-28s %.3f s\n", "vocabulary of 32000 pieces", clock_seconds() - begin);
    char *text = mem_new(SIZE);
    static const char *const files[] = {"english-prose.txt", "c-sample.c"};
    for (size_t f = 0; f < COUNT(files); f++) {
        char path[512];
        snprintf(path, sizeof path, HEARTH_DATA "/corpora/%s", files[f]);
        span content = read_whole(path);
        for (size_t i = 0; i < SIZE; i++)
            text[i] = content.data[i % content.size];
        /* Cut at the end of a character. */
        size_t size = SIZE;
        while (!utf8_is_valid(text, size))
            size--;
        time_text(t, files[f], text, size);
        mem_free((void *)content.data);
    }
    /* Texts that do not fall into words. */
    static const char *const repeated[] = {"a", " ", "ab", "the", "<", "\xf0\x9f\x99\x82"};
    for (size_t r = 0; r < COUNT(repeated); r++) {
        size_t size = SIZE - SIZE % strlen(repeated[r]);
        for (size_t i = 0; i < size; i++)
            text[i] = repeated[r][i % strlen(repeated[r])];
        char what[32];
        snprintf(what, sizeof what, "'%s' again and again", repeated[r]);
        time_text(t, what, text, size);
    }
    mem_free(text);
    tokenizer_destroy(t);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(refusals),
        cmocka_unit_test(missing_arrays),
        cmocka_unit_test(absent_keys),
        cmocka_unit_test(ends_of_answers),
        cmocka_unit_test(failing_allocations),
        cmocka_unit_test(ids_of_no_tokens),
        cmocka_unit_test(an_empty_text_has_no_ids),
        cmocka_unit_test(large_texts),
    };
    return run_group(tests, NULL, NULL);
}
