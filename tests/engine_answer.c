/* engine_answer.c - answers over a small vocabulary made here: stop strings cut anywhere, ends, limits, broken UTF-8;
 * and the public text functions. What random texts must give is worked out by naive search. */
#include "../src/model/model.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#define BLANK "\xe2\x96\x81"

/* Ids: <unk> 0, <s> 1, </s> 2, the byte b 3 + b, then these. */
static const char *const pieces[] = {BLANK "Hello", BLANK "wor", "ld", "EN",  "D",        "ab",   "a",     "b",
                                     "cd",          "\n\n",      "Us", "er:", "\xc3\xa9", "STOP", "<mark>"};
enum { HELLO = 259, WOR, LD, EN, D, AB, A, B, CD, LINES, US, ER, E_ACUTE, STOP, MARK, VOCABULARY };
#define BYTE(b) (3 + (b))

typedef struct fixture {
    checkpoint *source;
    hearth_model model;
} fixture;

static void check(hearth_status status, const hearth_error *error)
{
    if (status != HEARTH_OK)
        fail_msg("%s", error->text);
}

static void set_up(fixture *f)
{
    static char bytes[256][8];
    span texts[VOCABULARY] = {span_of("<unk>"), span_of("<s>"), span_of("</s>")};
    float scores[VOCABULARY] = {0};
    int32_t types[VOCABULARY] = {2, 3, 3};
    for (int b = 0; b < 256; b++) {
        snprintf(bytes[b], sizeof bytes[b], "<0x%02X>", (unsigned)b);
        texts[BYTE(b)] = span_of(bytes[b]);
        types[BYTE(b)] = 6;
    }
    for (size_t i = HELLO; i < VOCABULARY; i++) {
        texts[i] = span_of(pieces[i - HELLO]);
        scores[i] = -(float)i;
        types[i] = i == MARK ? 3 : 1;
    }
    hearth_error e;
    memset(f, 0, sizeof *f);
    check(checkpoint_create(&f->source, "tiny.gguf", &e), &e);
    check(checkpoint_set_string(f->source, "tokenizer.ggml.model", span_of("llama"), &e), &e);
    check(checkpoint_set_strings(f->source, "tokenizer.ggml.tokens", texts, VOCABULARY, &e), &e);
    check(checkpoint_set_numbers(f->source, "tokenizer.ggml.scores", VALUE_F32, scores, VOCABULARY, &e), &e);
    check(checkpoint_set_numbers(f->source, "tokenizer.ggml.token_type", VALUE_I32, types, VOCABULARY, &e), &e);
    check(tokenizer_create(&f->model.tokenizer, f->source, &e), &e);
    f->model.source = f->source;
}

static void tear_down(fixture *f)
{
    tokenizer_destroy(f->model.tokenizer);
    checkpoint_close(f->source);
}

/* What an answer hands out, push by push: "text|text|...|reason|rest". */
static void transcript(const fixture *f, const hearth_answer_options *options, const int32_t *tokens, size_t count,
                       buffer *out)
{
    hearth_answer *a;
    hearth_error error;
    check(hearth_answer_create(&a, &f->model, options, &error), &error);
    hearth_stop stop = HEARTH_STOP_NONE;
    const char *text;
    size_t size;
    for (size_t i = 0; i < count && stop == HEARTH_STOP_NONE; i++) {
        check(hearth_answer_push(a, tokens[i], &text, &size, &stop, &error), &error);
        assert_true(utf8_is_valid(text, size));
        assert_true(buffer_print(out, "%.*s|", (int)size, text));
    }
    if (stop != HEARTH_STOP_NONE)
        assert_int_equal(hearth_answer_push(a, A, &text, &size, &stop, &error), HEARTH_INVALID);
    hearth_answer_finish(a, &text, &size);
    assert_true(buffer_print(out, "%s|%.*s", hearth_stop_text(stop), (int)size, text));
    hearth_answer_finish(a, &text, &size); /* nothing comes twice */
    assert_int_equal(size, 0);
    hearth_answer_destroy(a);
}

typedef struct example {
    int32_t tokens[8];    /* up to a 0 */
    const char *stops[4]; /* up to a NULL */
    uint32_t max_tokens;
    const char *expected;
} example;

/* clang-format off */
static const example examples[] = {
    /* no stop strings: all at once; the first blank belongs to the answer */
    {{HELLO, WOR, LD}, {NULL}, 0, " Hello| wor|ld|none|"},
    {{HELLO, 2}, {NULL}, 0, " Hello||end|"},
    {{HELLO, 1}, {NULL}, 0, " Hello||end|"},
    {{HELLO, WOR, LD}, {NULL}, 2, " Hello| wor|length|"},
    /* a stop string within a token, across tokens, at the very end of one */
    {{HELLO, WOR}, {"ell"}, 0, " H|string|"},
    {{HELLO, EN, D, A}, {"END"}, 0, " Hello|||string|"},
    {{HELLO, WOR, LD}, {" world"}, 0, " Hello|||string|"},
    {{HELLO}, {" Hello"}, 0, "|string|"},
    {{LINES, US, ER, A}, {"\n\nUser:"}, 0, "|||string|"},
    /* a beginning that leads to nothing comes late but whole */
    {{EN, A}, {"END"}, 0, "|ENa|none|"},
    {{EN, EN, D}, {"END"}, 0, "|EN||string|"},
    {{EN}, {"END"}, 0, "|none|EN"},
    {{EN, 2}, {"END"}, 0, "||end|EN"},
    {{A, EN}, {"END"}, 2, "a||length|EN"},
    /* a control token, which has no text: what was held back goes out with it, and nothing lies across it */
    {{EN, MARK, D, A}, {"END"}, 0, "|EN|D|a|none|"},
    {{A, MARK, EN, D}, {"aEND", "END"}, 0, "|a|||string|"},
    /* overlapping itself: aab in aaab, abab...  */
    {{A, A, A, B}, {"aab"}, 0, "||a||string|"},
    {{AB, AB, AB, CD}, {"ababcd"}, 0, "||ab||string|"},
    {{AB, AB, A, A}, {"ababcd"}, 0, "||ab|aba|none|a"},
    /* several: the one that is complete first; the longest where two end together */
    {{AB, CD}, {"bc", "abcd"}, 0, "|a|string|"},
    {{AB, CD}, {"cd", "bcd"}, 0, "a||string|"},
    {{HELLO, WOR, LD}, {"ld", "wor"}, 0, " Hello| |string|"},
    {{A, EN, B}, {"END", "Ex", "xN"}, 0, "a||ENb|none|"},
    /* a stop string beats the limit, the end beats both */
    {{A, STOP}, {"STOP"}, 2, "a||string|"},
    {{A, 2}, {NULL}, 2, "a||end|"},
    /* characters in pieces: held by the detokenizer, then by the stop string */
    {{BYTE(0xc3), BYTE(0xa9), A}, {NULL}, 0, "|\xc3\xa9|a|none|"},
    {{BYTE(0xc3), BYTE(0xa9), A}, {"\xc3\xa9" "ab"}, 0, "|||none|\xc3\xa9" "a"},
    {{A, BYTE(0xc3), BYTE(0xa9), B}, {"\xc3\xa9"}, 0, "a|||string|"},
    {{A, BYTE(0xc3), BYTE(0xa8), B}, {"\xc3\xa9"}, 0, "a||\xc3\xa8|b|none|"},
    {{A, BYTE(0xc3)}, {NULL}, 0, "a||none|\xef\xbf\xbd"},
    {{A, BYTE(0xc3), 2}, {"a\xef\xbf\xbd"}, 0, "|||end|"}, /* found in the very last bytes */
    {{BYTE(0xf0), BYTE(0x9f), BYTE(0x98), BYTE(0x80)}, {"\xf0\x9f\x98\x80"}, 0, "||||string|"},
};
/* clang-format on */

static void by_hand(void **unused)
{
    (void)unused;
    fixture f;
    set_up(&f);
    for (size_t i = 0; i < sizeof examples / sizeof *examples; i++) {
        const example *e = &examples[i];
        size_t tokens = 0, stops = 0;
        while (tokens < 8 && e->tokens[tokens] != 0)
            tokens++;
        while (stops < 4 && e->stops[stops])
            stops++;
        hearth_answer_options options = {.stops = e->stops, .stop_count = stops, .max_tokens = e->max_tokens};
        buffer out = {0};
        transcript(&f, &options, e->tokens, tokens, &out);
        assert_string_equal(out.data, e->expected);
        buffer_free(&out);
    }
    tear_down(&f);
}

static void ends_may_be_ignored(void **unused)
{
    (void)unused;
    fixture f;
    set_up(&f);
    const int32_t tokens[] = {A, 2, B, 1, CD};
    hearth_answer_options options = {.ignore_end = true, .max_tokens = 5};
    buffer out = {0};
    transcript(&f, &options, tokens, 5, &out);
    assert_string_equal(out.data, "a||b||cd|length|");
    buffer_free(&out);
    transcript(&f, NULL, tokens, 5, &out);
    assert_string_equal(out.data, "a||end|");
    buffer_free(&out);
    tear_down(&f);
}

/* ---- random texts */

static uint32_t next(uint32_t *state, uint32_t below)
{
    *state = *state * 1664525u + 1013904223u;
    return (uint32_t)((uint64_t)*state * below >> 32);
}

/* Where the text ends by the first stop string that is complete; the whole size where none is. */
static size_t naive_end(const char *text, size_t size, const char *const *stops, size_t count, bool *found)
{
    for (size_t end = 1; end <= size; end++) {
        size_t longest = 0;
        for (size_t i = 0; i < count; i++) {
            size_t n = strlen(stops[i]);
            if (n <= end && n > longest && memcmp(text + end - n, stops[i], n) == 0)
                longest = n;
        }
        if (longest > 0) {
            *found = true;
            return end - longest;
        }
    }
    *found = false;
    return size;
}

/* The longest end of the text that begins a stop string. */
static size_t naive_held(const char *text, size_t size, const char *const *stops, size_t count)
{
    size_t most = 0;
    for (size_t i = 0; i < count; i++)
        for (size_t n = 1; n < strlen(stops[i]) && n <= size; n++)
            if (n > most && memcmp(text + size - n, stops[i], n) == 0)
                most = n;
    return most;
}

typedef struct story {
    int32_t tokens[40];
    size_t ends[40]; /* size of the text after each token, in whole characters */
    char text[200];
    size_t count, size;
} story;

static void make_story(story *s, uint32_t *state)
{
    s->count = s->size = 0;
    while (s->count < 36) {
        uint32_t kind = next(state, 4);
        if (kind == 3) { /* e acute in two bytes */
            s->ends[s->count] = s->size;
            s->tokens[s->count++] = BYTE(0xc3);
            s->tokens[s->count] = BYTE(0xa9);
            memcpy(s->text + s->size, "\xc3\xa9", 2);
            s->size += 2;
        } else {
            const char *const texts[] = {"a", "b", "ab"};
            const int32_t ids[] = {A, B, AB};
            s->tokens[s->count] = ids[kind];
            memcpy(s->text + s->size, texts[kind], strlen(texts[kind]));
            s->size += strlen(texts[kind]);
        }
        s->ends[s->count++] = s->size;
    }
}

static void follow_story(const fixture *f, const story *s, const char *const *stops, size_t stop_count)
{
    bool found;
    size_t expected = naive_end(s->text, s->size, stops, stop_count, &found);
    hearth_answer *a;
    hearth_error error;
    hearth_answer_options options = {.stops = stops, .stop_count = stop_count};
    check(hearth_answer_create(&a, &f->model, &options, &error), &error);
    hearth_stop stop = HEARTH_STOP_NONE;
    size_t at = 0, size;
    const char *text;
    for (size_t i = 0; i < s->count && stop == HEARTH_STOP_NONE; i++) {
        check(hearth_answer_push(a, s->tokens[i], &text, &size, &stop, &error), &error);
        assert_true(at + size <= s->size && memcmp(s->text + at, text, size) == 0 && utf8_is_valid(text, size));
        at += size;
        if (stop == HEARTH_STOP_NONE) /* all is shown but what must be held back */
            assert_int_equal(at, s->ends[i] - naive_held(s->text, s->ends[i], stops, stop_count));
    }
    hearth_answer_finish(a, &text, &size);
    at += size;
    assert_int_equal(stop, found ? HEARTH_STOP_STRING : HEARTH_STOP_NONE);
    assert_int_equal(at, expected);
    hearth_answer_destroy(a);
}

static void random_texts(void **unused)
{
    (void)unused;
    fixture f;
    set_up(&f);
    uint32_t state = 2024;
    for (int round = 0; round < 2000; round++) {
        char stops[3][24];
        const char *pointers[3] = {stops[0], stops[1], stops[2]};
        for (size_t i = 0; i < 3; i++) {
            const char *const letters[] = {"a", "b", "\xc3\xa9"};
            stops[i][0] = 0;
            for (uint32_t n = 3 + next(&state, 6); n > 0; n--)
                strcat(stops[i], letters[next(&state, 3)]);
        }
        story s;
        make_story(&s, &state);
        follow_story(&f, &s, pointers, 1 + next(&state, 3));
    }
    tear_down(&f);
}

/* ---- errors, memory, the thin functions */

static void bad_options(void **unused)
{
    (void)unused;
    fixture f;
    set_up(&f);
    hearth_answer *a = NULL;
    hearth_error error;
    const char *empty[] = {"x", ""}, *broken[] = {"a\xc3"};
    hearth_answer_options options = {.stops = empty, .stop_count = 2};
    assert_int_equal(hearth_answer_create(&a, &f.model, &options, &error), HEARTH_INVALID);
    assert_string_equal(error.text, "answer: stop string 1 is empty");
    options = (hearth_answer_options){.stops = broken, .stop_count = 1};
    assert_int_equal(hearth_answer_create(&a, &f.model, &options, &error), HEARTH_INVALID);
    assert_string_equal(error.text, "answer: stop string 0 is not valid UTF-8");
    options = (hearth_answer_options){.stop_count = 1};
    assert_int_equal(hearth_answer_create(&a, &f.model, &options, &error), HEARTH_INVALID);
    assert_null(a);

    check(hearth_answer_create(&a, &f.model, NULL, &error), &error);
    const char *text;
    size_t size;
    hearth_stop stop;
    assert_int_equal(hearth_answer_push(a, VOCABULARY, &text, &size, &stop, &error), HEARTH_INVALID);
    assert_int_equal(hearth_answer_push(a, -1, &text, &size, &stop, &error), HEARTH_INVALID);
    check(hearth_answer_push(a, A, &text, &size, &stop, &error), &error); /* it lives on */
    assert_int_equal(size, 1);
    hearth_answer_destroy(a);
    hearth_answer_destroy(NULL);
    tear_down(&f);
}

static void without_tokenizer(void **unused)
{
    (void)unused;
    hearth_error error;
    hearth_model model = {.tokenizer_problem = "the file holds no vocabulary"};
    check(checkpoint_create(&model.source, "bare.gguf", &error), &error);
    hearth_answer *a = NULL;
    hearth_detokenizer *d = NULL;
    int32_t *ids = NULL;
    size_t count;
    const char *expected = "bare.gguf: tokenizer: the file holds no vocabulary";
    assert_int_equal(hearth_answer_create(&a, &model, NULL, &error), HEARTH_UNSUPPORTED);
    assert_string_equal(error.text, expected);
    assert_int_equal(hearth_detokenizer_create(&d, &model, 0, &error), HEARTH_UNSUPPORTED);
    assert_string_equal(error.text, expected);
    assert_int_equal(hearth_tokenize(&model, "a", 1, 0, &ids, &count, &error), HEARTH_UNSUPPORTED);
    assert_string_equal(error.text, expected);
    assert_false(hearth_token_ends_answer(&model, 2));
    assert_true(!a && !d && !ids);
    checkpoint_close(model.source);
}

static void memory_runs_out(void **unused)
{
    (void)unused;
    fixture f;
    set_up(&f);
    long before = mem_live();
    const char *stops[] = {"END", "ababcd"};
    hearth_answer_options options = {.stops = stops, .stop_count = 2};
    hearth_status status = HEARTH_NO_MEMORY;
    long n = 0;
    for (; status != HEARTH_OK; n++) {
        hearth_answer *a = NULL;
        hearth_error error;
        hearth_stop stop;
        const char *text;
        size_t size = 0;
        mem_fail_at(n);
        status = hearth_answer_create(&a, &f.model, &options, &error);
        if (status == HEARTH_OK)
            status = hearth_answer_push(a, HELLO, &text, &size, &stop, &error);
        mem_fail_at(-1);
        assert_true(status == HEARTH_OK || status == HEARTH_NO_MEMORY);
        hearth_answer_destroy(a);
        assert_int_equal(mem_live(), before);
    }
    assert_true(n >= 4);
    tear_down(&f);
}

static void text_functions(void **unused)
{
    (void)unused;
    fixture f;
    set_up(&f);
    hearth_error error;
    int32_t *ids;
    size_t count;
    const char *words = "Hello world", *text;
    check(hearth_tokenize(&f.model, words, strlen(words), HEARTH_TEXT_SPECIAL, &ids, &count, &error), &error);
    assert_true(count > 1 && ids[0] == 1);
    hearth_detokenizer *d;
    check(hearth_detokenizer_create(&d, &f.model, 0, &error), &error);
    buffer out = {0};
    size_t size;
    for (size_t i = 0; i < count; i++) {
        check(hearth_detokenizer_push(d, ids[i], &text, &size, &error), &error);
        assert_true(buffer_put(&out, text, size));
    }
    hearth_detokenizer_finish(d, &text, &size);
    assert_int_equal(size, 0);
    assert_true(span_equal((span){out.data, out.size}, span_of(words)));
    assert_int_equal(hearth_detokenizer_push(d, VOCABULARY, &text, &size, &error), HEARTH_INVALID);
    check(hearth_detokenizer_push(d, BYTE(0xc3), &text, &size, &error), &error);
    assert_int_equal(size, 0);
    hearth_detokenizer_finish(d, &text, &size);
    assert_true(span_equal((span){text, size}, span_of("\xef\xbf\xbd")));
    buffer_free(&out);
    hearth_free(ids);
    hearth_detokenizer_destroy(d);
    hearth_detokenizer_destroy(NULL);
    check(hearth_tokenize(&f.model, "", 0, 0, &ids, &count, &error), &error);
    assert_int_equal(count, 0);
    assert_null(ids);
    assert_true(hearth_token_ends_answer(&f.model, 1) && hearth_token_ends_answer(&f.model, 2));
    assert_false(hearth_token_ends_answer(&f.model, A) || hearth_token_ends_answer(&f.model, -1));
    assert_string_equal(hearth_stop_text(HEARTH_STOP_LENGTH), "length");
    assert_string_equal(hearth_stop_text((hearth_stop)99), "unknown");
    tear_down(&f);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(by_hand),        cmocka_unit_test(ends_may_be_ignored), cmocka_unit_test(random_texts),
        cmocka_unit_test(bad_options),    cmocka_unit_test(without_tokenizer),   cmocka_unit_test(memory_runs_out),
        cmocka_unit_test(text_functions),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
