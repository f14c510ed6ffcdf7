/* grammar_matcher.c - grammars made by hand: masks against brute force, limits, forgetting, failing allocations. */
#include "grammar_helpers.h"

static words vocabulary;

static token_trie *some_tokens(void)
{
    static const char *const texts[] = {"((",   "))",       "()",   ")(",       "(()",          "a",    "ab",
                                        "abc",  "bc",       "aa",   "aaaa",     "bb",           "a)",   ")b",
                                        "\xc3", "\xc3\xa9", "\xa9", "\xe2\x82", "\xe2\x82\xac", "\254a"};
    words_begin(&vocabulary);
    for (size_t i = 0; i < COUNT(texts); i++)
        words_add(&vocabulary, texts[i]);
    return words_end(&vocabulary);
}

/* S: empty or "(" S ")" S, of the builder's functions. */
static grammar *balanced(void)
{
    grammar *g = NULL;
    assert_int_equal(grammar_create(&g, NULL), HEARTH_OK);
    uint32_t s = grammar_rule_new(g, span_of("s"), 0);
    fragment f = grammar_then(g, grammar_literal(g, span_of("(")), grammar_call(g, s));
    f = grammar_then(g, f, grammar_literal(g, span_of(")")));
    f = grammar_then(g, f, grammar_call(g, s));
    grammar_rule_define(g, s, grammar_optional(g, f));
    assert_int_equal(grammar_finish(g, s, "test", NULL), HEARTH_OK);
    return g;
}

static void balanced_brackets(void **state)
{
    (void)state;
    static const struct {
        const char *text;
        bool follows, can_end;
    } rows[] = {{"", true, true},         {"(", true, false},   {"()", true, true},    {")", false, false},
                {"(()())()", true, true}, {"(()", true, false}, {"())", false, false}, {"((((()))))", true, true}};
    token_trie *t = some_tokens();
    grammar *g = balanced();
    matcher *m, *other;
    assert_int_equal(matcher_create(&m, g, t, NULL), HEARTH_OK);
    assert_int_equal(matcher_create(&other, g, t, NULL), HEARTH_OK);
    for (size_t i = 0; i < COUNT(rows); i++) {
        assert_int_equal(follows(m, span_of(rows[i].text)), rows[i].follows);
        if (!rows[i].follows)
            continue;
        assert_int_equal(matcher_can_end(m), rows[i].can_end);
        check_mask(m, other, &vocabulary, span_of(rows[i].text));
    }
    matcher_destroy(m);
    matcher_destroy(other);
    grammar_destroy(g);
    token_trie_destroy(t);
}

static void random_masks(void **state)
{
    (void)state;
    static const char *const grammars[] = {
        "root ::= \"a\"",
        "root ::= (\"a\" | \"ab\" | \"abc\")*",
        "root ::= \"(\" root \")\" | \"(\" root \"b\" | \"a\"", /* two ways to end every pair */
        "root ::= x{2,5} \"b\"?\nx ::= \"a\" | \"(\" root \")\"",
        "root ::= [^a]* \"a\" [\xc3\xa9\xe2\x82\xac-\xe2\x84\xa2]+",
        "root ::= \"a\" root \"a\" | \"b\"",
        "root ::= (\"a\"*)* \"b\"",                                              /* loops that need not read */
        "root ::= dead \"a\" | \"aa\" dead | \"ab\" root?\ndead ::= \"a\" dead", /* ways that never end */
        "root ::= . .{0,3} | \"abc\"{3,}",
    };
    token_trie *t = some_tokens();
    uint64_t seed = 1;
    for (size_t i = 0; i < COUNT(grammars); i++) {
        grammar *g = grammar_of(grammars[i]);
        matcher *m, *other;
        assert_int_equal(matcher_create(&m, g, t, NULL), HEARTH_OK);
        assert_int_equal(matcher_create(&other, g, t, NULL), HEARTH_OK);
        for (int k = 0; k < 5; k++) {
            buffer text = {0};
            if (random_walk(m, other, &vocabulary, &seed, &text, 40, 3, 4)) {
                const uint64_t *bits;
                assert_false(matcher_can_end(m));
                assert_int_equal(matcher_mask(m, &bits, NULL), HEARTH_OK);
                for (uint32_t id = 0; id < vocabulary.count; id++)
                    assert_false(has_bit(bits, id));
                assert_int_equal(matcher_accept_token(m, 'a', NULL), HEARTH_INVALID);
            }
            buffer_free(&text);
        }
        matcher_destroy(m);
        matcher_destroy(other);
        grammar_destroy(g);
    }
    token_trie_destroy(t);
}

/* What is refused leaves the matcher where it was. */
static void refusals(void **state)
{
    (void)state;
    token_trie *t = some_tokens();
    grammar *g = grammar_of("root ::= \"abc\"");
    matcher *m;
    hearth_error error = {0};
    assert_int_equal(matcher_create(&m, g, t, NULL), HEARTH_OK);
    assert_int_equal(matcher_accept(m, span_of("abd"), &error), HEARTH_INVALID);
    assert_string_equal(error.text, "grammar: byte 2 (0x64) cannot come there");
    assert_int_equal(matcher_accept_token(m, -1, NULL), HEARTH_INVALID);
    assert_int_equal(matcher_accept_token(m, (int32_t)vocabulary.count, NULL), HEARTH_INVALID);
    assert_int_equal(matcher_accept_token(m, (int32_t)vocabulary.count - 1, NULL), HEARTH_INVALID);
    assert_int_equal(matcher_accept_token(m, (int32_t)vocabulary.count - 2, NULL), HEARTH_INVALID);
    assert_int_equal(matcher_accept(m, span_of("abc"), NULL), HEARTH_OK);
    assert_int_equal(matcher_accept_token(m, (int32_t)vocabulary.count - 1, NULL), HEARTH_OK);
    assert_int_equal(matcher_accept_token(m, (int32_t)vocabulary.count - 1, NULL), HEARTH_INVALID);
    matcher_destroy(m);
    grammar_destroy(g);
    token_trie_destroy(t);
}

/* Nested as deep as the limit allows, and no deeper. */
static void depth(void **state)
{
    (void)state;
    token_trie *t = some_tokens();
    grammar *g = balanced();
    matcher *m;
    size_t deep = 0;
    assert_int_equal(matcher_create(&m, g, t, NULL), HEARTH_OK);
    while (deep < 2 * MATCHER_DEPTH_LIMIT && matcher_accept(m, span_of("("), NULL) == HEARTH_OK)
        deep++;
    assert_in_range(deep, MATCHER_DEPTH_LIMIT, MATCHER_DEPTH_LIMIT + 1);
    for (size_t i = 0; i < deep; i++)
        assert_int_equal(matcher_accept(m, span_of(")"), NULL), HEARTH_OK);
    assert_true(matcher_can_end(m));
    matcher_destroy(m);
    grammar_destroy(g);
    token_trie_destroy(t);
}

/* Every "(" can be closed in two ways, so that a hundred of them would make 2^100 stacks: an error, and in time. */
static void ambiguity(void **state)
{
    (void)state;
    token_trie *t = some_tokens();
    grammar *g = grammar_of("root ::= \"(\" root \")\" | \"(\" root \"b\" | \"a\"");
    matcher *m;
    hearth_error error = {0};
    hearth_status status = HEARTH_OK;
    size_t count = 0;
    assert_int_equal(matcher_create(&m, g, t, NULL), HEARTH_OK);
    for (; count < 100 && status == HEARTH_OK; count++)
        status = matcher_accept(m, span_of("("), &error);
    assert_int_equal(status, HEARTH_UNSUPPORTED);
    assert_in_range(count, 10, 30);
    assert_non_null(strstr(error.text, "too ambiguous"));
    matcher_reset(m);
    assert_int_equal(matcher_accept(m, span_of("(a)"), NULL), HEARTH_OK);
    matcher_destroy(m);
    grammar_destroy(g);
    token_trie_destroy(t);
}

/* More states than are kept: what is forgotten changes nothing. */
static void forgetting(void **state)
{
    (void)state;
    token_trie *t = some_tokens();
    grammar *g = grammar_of("root ::= (x{3,16000} \"(\")*\nx ::= \"a\" | \"b\"");
    matcher *m;
    assert_int_equal(matcher_create(&m, g, t, NULL), HEARTH_OK);
    static char text[40001];
    memset(text, 'a', 40000);
    text[0] = 'b';
    text[15000] = text[16000] = text[32000] = '(';
    for (size_t i = 0, run = 0; i < 40000; i++) {
        run = text[i] == '(' ? 0 : run + 1;
        assert_int_equal(matcher_accept(m, (span){text + i, 1}, NULL), HEARTH_OK);
        assert_int_equal(matcher_can_end(m), text[i] == '(');
        if (i % 50 == 2) {
            const uint64_t *bits;
            assert_int_equal(matcher_mask(m, &bits, NULL), HEARTH_OK);
            assert_true(has_bit(bits, 'a') && has_bit(bits, 'b') && !has_bit(bits, ')'));
            assert_int_equal(has_bit(bits, '('), run >= 3);
        }
    }
    assert_true(mem_live_bytes() < (size_t)32 << 20);
    matcher_destroy(m);
    grammar_destroy(g);
    token_trie_destroy(t);
}

static void failing_allocations(void **state)
{
    (void)state;
    long live = mem_live();
    hearth_status status = HEARTH_NO_MEMORY;
    for (long n = 0; status != HEARTH_OK; n++) {
        grammar *g = NULL;
        token_trie *t = NULL;
        matcher *m = NULL;
        hearth_error error = {0};
        const uint64_t *bits;
        words_begin(&vocabulary);
        words_add(&vocabulary, "((");
        mem_fail_at(n);
        status = gbnf_parse(&g, span_of("root ::= \"(\" root{0,3} [d-z]\n"), &error);
        if (status == HEARTH_OK)
            status = token_trie_create(&t, vocabulary.texts, vocabulary.ends, vocabulary.count, &error);
        if (status == HEARTH_OK)
            status = matcher_create(&m, g, t, &error);
        for (int i = 0; i < 20 && status == HEARTH_OK; i++) {
            status = matcher_accept(m, span_of("(("), &error);
            if (status == HEARTH_OK)
                status = matcher_mask(m, &bits, &error);
        }
        mem_fail_at(-1);
        assert_true(status == HEARTH_OK || status == HEARTH_NO_MEMORY);
        assert_int_equal(status == HEARTH_OK, error.text[0] == 0);
        if (m && status != HEARTH_OK) { /* it can go on */
            matcher_reset(m);
            assert_int_equal(matcher_accept(m, span_of("(("), NULL), HEARTH_OK);
            assert_int_equal(matcher_mask(m, &bits, NULL), HEARTH_OK);
            assert_true(has_bit(bits, '(') && !has_bit(bits, 'a') && has_bit(bits, 'd'));
        }
        matcher_destroy(m);
        token_trie_destroy(t);
        grammar_destroy(g);
        assert_int_equal(mem_live(), live);
    }
}

/* A chain of rules, each of them two ways to the next one, so that the last has 2^count ways back; freed with mem_free. */
static char *chain_of(const char *root, int count, const char *last)
{
    buffer text = {0};
    bool ok = buffer_print(&text, "root ::= %s\n", root);
    for (int i = 0; i < count; i++)
        ok = ok && buffer_print(&text, "a%d ::= a%d \"x\" | a%d \"y\"\n", i, i + 1, i + 1);
    assert_true(ok && buffer_print(&text, "a%d ::= %s\n", count, last) && buffer_put(&text, "", 1));
    return text.data;
}

/* The 256 bytes, then many words, which lead through many states: their characters have one to four bytes. */
static token_trie *many_tokens(void)
{
    enum { WORDS = 4000, CHARACTERS = 40 };
    static const char *const characters[] = {"a", "b", "c", "d", "\xc3\xa9", "\xe2\x82\xac", "\xf0\x9f\x98\x80"};
    static char bytes[256], words_of[WORDS][4 * CHARACTERS];
    static span texts[256 + WORDS];
    static bool ends[256 + WORDS];
    token_trie *t = NULL;
    uint64_t seed = 3;
    for (int i = 0; i < 256; i++) {
        bytes[i] = (char)i;
        texts[i] = (span){&bytes[i], 1};
    }
    for (int i = 0; i < WORDS; i++) {
        size_t size = 0;
        for (int k = 0; k < CHARACTERS; k++) {
            span one = span_of(characters[random_next(&seed) % COUNT(characters)]);
            memcpy(words_of[i] + size, one.data, one.size);
            size += one.size;
        }
        texts[256 + i] = (span){words_of[i], size};
    }
    assert_int_equal(token_trie_create(&t, texts, ends, 256 + WORDS, NULL), HEARTH_OK);
    return t;
}

/* Small grammars whose ways are beyond count: a call fails after a bounded number of steps and with little memory, and
 * leaves the matcher where it was. */
static void work_is_bounded(void **state)
{
    (void)state;
    /* Bytes that are told apart make more transitions. */
    static const char apart[] =
        "a0 | \"\\x01\" \"abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789 .,;:!?()-\"";
    const struct {
        const char *text;
        char *chain;
        const char *before; /* what is accepted; NULL: no matcher can be made */
    } rows[] = {
        {NULL, chain_of("a0", 30, "\"z\""), NULL},
        {NULL, chain_of(apart, 17, "[ -~]+"), NULL},
        {NULL, chain_of(apart, 15, "[ -~]+"), ""},
        {"root ::= [q] ((((\"a\"?){100}){100}){100}){100} [q]", NULL, ""},
        {"root ::= \"'\" ([^']{1,200}){1,200} \"'\"", NULL, "'abcdefgh"},
        {"root ::= \"'\" (([^']{1,30}){1,30}){1,30} \"'\"", NULL, "'abcdefgh"},
    };
    token_trie *t = many_tokens();
    for (size_t i = 0; i < COUNT(rows); i++) {
        grammar *g = grammar_of(rows[i].text ? rows[i].text : rows[i].chain);
        matcher *m = NULL;
        hearth_error error = {0};
        const uint64_t *bits;
        size_t live = mem_live_bytes();
        hearth_status status = matcher_create(&m, g, t, &error);
        assert_int_equal(status, rows[i].before ? HEARTH_OK : HEARTH_UNSUPPORTED);
        if (m)
            assert_int_equal(matcher_accept(m, span_of(rows[i].before), NULL), HEARTH_OK);
        for (int n = 0; m && n < 4; n++) {
            bool can_end = matcher_can_end(m);
            status = n % 2 == 0 || i != 3 ? matcher_mask(m, &bits, &error) : matcher_accept(m, span_of("q"), &error);
            if (status != HEARTH_UNSUPPORTED)
                fail_msg("row %zu: status %d after %zu steps", i, status, matcher_effort(m));
            assert_in_range(matcher_effort(m), MATCHER_EFFORT_LIMIT, 2 * MATCHER_EFFORT_LIMIT);
            assert_int_equal(matcher_can_end(m), can_end);
            assert_true(mem_live_bytes() - live < (size_t)64 << 20);
        }
        assert_non_null(strstr(error.text, "too ambiguous: the next bytes or token need more than"));
        matcher_destroy(m);
        grammar_destroy(g);
        mem_free(rows[i].chain);
    }
    token_trie_destroy(t);
}

/* After a failure, what is not too much is still answered: the failed mask is not taken for a made one. */
static void failed_mask(void **state)
{
    (void)state;
    token_trie *t = many_tokens();
    grammar *g = grammar_of("root ::= \"1\" ([^']{1,200}){1,200} \"'\" | \"2\" [a-c]");
    matcher *m;
    const uint64_t *bits;
    assert_int_equal(matcher_create(&m, g, t, NULL), HEARTH_OK);
    for (int i = 0; i < 3; i++) {
        matcher_reset(m);
        assert_int_equal(matcher_accept(m, span_of("1ab"), NULL), HEARTH_OK);
        assert_int_equal(matcher_mask(m, &bits, NULL), HEARTH_UNSUPPORTED);
        assert_int_equal(matcher_accept(m, span_of("a"), NULL), HEARTH_OK);
        matcher_reset(m);
        assert_int_equal(matcher_accept(m, span_of("2"), NULL), HEARTH_OK);
        assert_int_equal(matcher_mask(m, &bits, NULL), HEARTH_OK);
        assert_true(has_bit(bits, 'a') && has_bit(bits, 'c') && !has_bit(bits, 'd') && !has_bit(bits, '1'));
    }
    matcher_destroy(m);
    grammar_destroy(g);
    token_trie_destroy(t);
}

/* Strings with a large bound are no such grammars. */
static void long_bounds(void **state)
{
    (void)state;
    token_trie *t = many_tokens();
    grammar *g = grammar_of("root ::= \"'\" [^']{0,10000} \"'\"");
    matcher *m;
    assert_int_equal(matcher_create(&m, g, t, NULL), HEARTH_OK);
    assert_int_equal(matcher_accept(m, span_of("'"), NULL), HEARTH_OK);
    for (int i = 0; i <= 10000; i++) {
        if (i % 100 == 0 || i > 9990) {
            const uint64_t *bits;
            assert_int_equal(matcher_mask(m, &bits, NULL), HEARTH_OK);
            assert_true(matcher_effort(m) < MATCHER_EFFORT_LIMIT / 4);
            assert_true(has_bit(bits, '\'') && has_bit(bits, 'a') == (i < 10000));
        }
        assert_int_equal(matcher_accept(m, span_of(i < 10000 ? "a" : "'"), NULL), HEARTH_OK);
    }
    assert_true(matcher_can_end(m));
    matcher_destroy(m);
    grammar_destroy(g);
    token_trie_destroy(t);
}

/* Many stacks upon a deep one that they share: forgetting copies that one once. */
static void forgetting_shared_stacks(void **state)
{
    (void)state;
    token_trie *t = some_tokens();
    char *text = chain_of("\"(\" root \")\" | \"c\" a0", 10, "[ab]{1,16000}");
    grammar *g = grammar_of(text);
    matcher *m;
    size_t most = 0;
    assert_int_equal(matcher_create(&m, g, t, NULL), HEARTH_OK);
    for (int i = 0; i < 900; i++)
        assert_int_equal(matcher_accept(m, span_of("("), NULL), HEARTH_OK);
    assert_int_equal(matcher_accept(m, span_of("c"), NULL), HEARTH_OK);
    for (int i = 0; i < 1000; i++) {
        assert_int_equal(matcher_accept(m, span_of("a"), NULL), HEARTH_OK);
        most = matcher_effort(m) > most ? matcher_effort(m) : most;
    }
    assert_true(most < MATCHER_EFFORT_LIMIT / 8);
    matcher_destroy(m);
    grammar_destroy(g);
    token_trie_destroy(t);
    mem_free(text);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(balanced_brackets),
        cmocka_unit_test(random_masks),
        cmocka_unit_test(refusals),
        cmocka_unit_test(depth),
        cmocka_unit_test(ambiguity),
        cmocka_unit_test(forgetting),
        cmocka_unit_test(work_is_bounded),
        cmocka_unit_test(failed_mask),
        cmocka_unit_test(long_bounds),
        cmocka_unit_test(forgetting_shared_stacks),
        cmocka_unit_test(failing_allocations),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
