/* grammar_gbnf.c - what texts in GBNF mean, and how errors are told. */
#include "grammar_helpers.h"

static words vocabulary;

/* Whether a whole text is one of the grammar's. */
static bool matches(matcher *m, span text)
{
    return follows(m, text) && matcher_can_end(m);
}

static void meanings(void **state)
{
    (void)state;
    static const struct {
        const char *grammar;
        const char *is[6], *is_not[6];
    } rows[] = {
        {"root ::= \"a\"", {"a"}, {"", "b", "aa"}},
        {"root ::= \"\"", {""}, {"a"}},
        {"root ::=", {""}, {"a"}},
        {"root ::= \"\\n\\t\\\\\\\"\\x41\\u00e9\\U0001F600\"", {"\n\t\\\"A\xc3\xa9\xf0\x9f\x98\x80"}, {"n"}},
        {"root ::= [a-c] [^a-c]", {"ad", "c\n", "b\xe2\x82\xac"}, {"aa", "d", "a\xff", "a\xed\xa0\x80"}},
        {"root ::= [a\\-c]", {"a", "-", "c"}, {"b"}},
        {"root ::= [-a] [a-]", {"-a", "a-", "--"}, {"b-"}},
        {"root ::= [\\]\\[] .", {"]x", "[\n", "]\xf0\x90\x80\x80"}, {"x]", "]\xf5\x80\x80\x80", "]\xc0\x80"}},
        {"root ::= a | b\na ::= \"x\"+\nb ::= \"y\"*", {"", "x", "xxx", "y", "yyy"}, {"xy", "yx"}},
        {"root ::= (\"a\" |\n  \"b\" # first\n)? \"c\" # more\n# last", {"ac", "bc", "c"}, {"abc", "a"}},
        {"root ::= \"a\" |\n \"b\"", {"a", "b"}, {"ab"}},
        {"root ::= \"a\"{3}", {"aaa"}, {"aa", "aaaa"}},
        {"root ::= \"a\"{2,}", {"aa", "aaaaa"}, {"a", ""}},
        {"root ::= \"a\"{0,2} \"b\"{1,1}", {"b", "ab", "aab"}, {"aaab", "aa"}},
        {"root ::= \"a\"{0} \"b\"{0,0}", {""}, {"a", "b"}},
        {"root ::= (\"a\" \"b\"?){2,3}", {"aa", "abab", "aaab"}, {"a", "aaaa", "abba"}},
        {"root ::= \"a\" root \"b\" | \"c\"", {"c", "acb", "aacbb"}, {"acbb", "ab"}},
        {"root ::= item (\",\" item)*\r\nitem ::= [0-9]+\r\n", {"1", "12,3,4"}, {",1", "1,", ""}},
        {"root::=a-b\na-b::=\"z\"", {"z"}, {"a"}},
        {"root ::= [\xc3\xa0-\xc3\xbf]", {"\xc3\xa9", "\xc3\xbf"}, {"\xc3\x9f", "\xc3", "e"}},
        {"root ::= [\\u07ff-\\U00010000]",
         {"\xdf\xbf", "\xe0\xa0\x80", "\xed\x9f\xbf", "\xee\x80\x80", "\xef\xbf\xbf", "\xf0\x90\x80\x80"},
         {"\xdf\xbe", "\xf0\x90\x80\x81", "\xed\xa0\x80"}},
    };
    words_begin(&vocabulary);
    token_trie *t = words_end(&vocabulary);
    for (size_t i = 0; i < COUNT(rows); i++) {
        grammar *g = grammar_of(rows[i].grammar);
        matcher *m;
        assert_int_equal(matcher_create(&m, g, t, NULL), HEARTH_OK);
        for (size_t k = 0; k < COUNT(rows[i].is) && rows[i].is[k]; k++)
            if (!matches(m, span_of(rows[i].is[k])))
                fail_msg("%s: '%s' is refused", rows[i].grammar, rows[i].is[k]);
        for (size_t k = 0; k < COUNT(rows[i].is_not) && rows[i].is_not[k]; k++)
            if (matches(m, span_of(rows[i].is_not[k])))
                fail_msg("%s: '%s' is accepted", rows[i].grammar, rows[i].is_not[k]);
        matcher_destroy(m);
        grammar_destroy(g);
    }
    token_trie_destroy(t);
}

/* Every character, in and out of random ranges. */
static void characters(void **state)
{
    (void)state;
    static const uint32_t edges[] = {0,      1,      0x7F,   0x80,    0x7FF,   0x800,   0xFFF,    0x1000,
                                     0xD7FF, 0xE000, 0xFFFF, 0x10000, 0x3FFFF, 0x40000, 0x100000, 0x10FFFF};
    words_begin(&vocabulary);
    token_trie *t = words_end(&vocabulary);
    uint64_t seed = 7;
    for (int round = 0; round < 200; round++) {
        character_range ranges[3];
        size_t count = random_next(&seed) % 3 + 1;
        bool negated = random_next(&seed) % 2;
        for (size_t i = 0; i < count; i++) {
            uint32_t a = edges[random_next(&seed) % COUNT(edges)], b = (uint32_t)(random_next(&seed) % 0x110000);
            ranges[i] = (character_range){a < b ? a : b, a < b ? b : a};
        }
        grammar *g;
        matcher *m;
        assert_int_equal(grammar_create(&g, NULL), HEARTH_OK);
        uint32_t rule = grammar_rule_new(g, span_of("root"), 0);
        fragment f = grammar_either(g, grammar_characters(g, ranges, count, negated),
                                    grammar_literal(g, span_of("end"))); /* a class may be empty */
        grammar_rule_define(g, rule, f);
        assert_int_equal(grammar_finish(g, rule, "test", NULL), HEARTH_OK);
        assert_int_equal(matcher_create(&m, g, t, NULL), HEARTH_OK);
        for (size_t k = 0; k < 300; k++) {
            uint32_t c = k < 32 ? edges[k / 2] + (uint32_t)(k % 2) : (uint32_t)(random_next(&seed) % 0x110000);
            if (k >= 32 && k < 44)
                c = (k % 2 ? ranges[(k - 32) / 4 % count].low : ranges[(k - 32) / 4 % count].high) +
                    (uint32_t)(k / 2 % 2);
            if (c > 0x10FFFF || (c >= 0xD800 && c <= 0xDFFF))
                continue;
            char text[5];
            int size = c < 0x80    ? snprintf(text, 5, "%c", (int)c)
                       : c < 0x800 ? snprintf(text, 5, "%c%c", (int)(0xC0 | c >> 6), (int)(0x80 | (c & 0x3F)))
                       : c < 0x10000
                           ? snprintf(text, 5, "%c%c%c", (int)(0xE0 | c >> 12), (int)(0x80 | (c >> 6 & 0x3F)),
                                      (int)(0x80 | (c & 0x3F)))
                           : snprintf(text, 5, "%c%c%c%c", (int)(0xF0 | c >> 18), (int)(0x80 | (c >> 12 & 0x3F)),
                                      (int)(0x80 | (c >> 6 & 0x3F)), (int)(0x80 | (c & 0x3F)));
            bool within = false;
            for (size_t i = 0; i < count; i++)
                within = within || (c >= ranges[i].low && c <= ranges[i].high);
            assert_int_equal(matches(m, (span){text, (size_t)size}), within != negated);
        }
        matcher_destroy(m);
        grammar_destroy(g);
    }
    token_trie_destroy(t);
}

static void errors(void **state)
{
    (void)state;
    static const struct {
        const char *grammar, *error;
        hearth_status status;
    } rows[] = {
        {"", "there is no rule 'root'", HEARTH_FORMAT},
        {"a ::= \"x\"", "there is no rule 'root'", HEARTH_FORMAT},
        {"root ::= a", "line 1: rule 'a' is not defined", HEARTH_FORMAT},
        {"root ::= \"x\"\nb ::=\n c", "rule 'c' is not defined", HEARTH_FORMAT},
        {"root ::= root \"a\" | \"b\"", "line 1: rule 'root' calls itself before it reads anything", HEARTH_FORMAT},
        {"root ::= \"x\" a\na ::= b? c\nb ::= \"y\"\nc ::= \"\" a \"z\"", "(left recursion)", HEARTH_FORMAT},
        {"root ::= \"a\" root", "line 1: rule 'root' can never end", HEARTH_FORMAT},
        {"root ::= []", "can never end", HEARTH_FORMAT},
        {"root ::= \"a\"\nroot ::= \"b\"", "line 2, column 1: this rule is defined already", HEARTH_FORMAT},
        {"root = \"a\"", "line 1, column 6: expected ::=", HEARTH_FORMAT},
        {"::= \"a\"", "expected the name of a rule", HEARTH_FORMAT},
        {"root ::= \"a", "line 1, column 12: expected a character", HEARTH_FORMAT},
        {"root ::= \"a\n\"", "expected a character", HEARTH_FORMAT},
        {"root ::= [a", "expected a character", HEARTH_FORMAT},
        {"root ::= [z-a]", "the range before this is empty", HEARTH_FORMAT},
        {"root ::= \"\\q\"", "line 1, column 12: unknown escape", HEARTH_FORMAT},
        {"root ::= \"\\x4\"", "expected a hexadecimal digit", HEARTH_FORMAT},
        {"root ::= \"\\uD800\"", "is no character", HEARTH_FORMAT},
        {"root ::= \"\\U00110000\"", "is no character", HEARTH_FORMAT},
        {"root ::= (\"a\"", "expected )", HEARTH_FORMAT},
        {"root ::= \"a\")", "expected an element", HEARTH_FORMAT},
        {"root ::= * \"a\"", "expected an element", HEARTH_FORMAT},
        {"root ::= \"a\"{", "expected a number", HEARTH_FORMAT},
        {"root ::= \"a\"{,3}", "expected a number", HEARTH_FORMAT},
        {"root ::= \"a\"{3", "expected }", HEARTH_FORMAT},
        {"root ::= \"a\"{3,2}", "is smaller than the first", HEARTH_FORMAT},
        {"root ::= \"a\"{99999999999}", "more than 16384 repetitions", HEARTH_UNSUPPORTED},
        {"root ::= <think> \"a\"", "tokens cannot be part of a grammar", HEARTH_FORMAT},
        {"root ::= \"\xff\"", "not text in UTF-8", HEARTH_FORMAT},
        {"root ::= ((\"abcdefgh\"{9999}){2} [^a]{9999} [^b]{9999}){2} x{16000} x{16000} x{16000} x{16000} x{16000} "
         "x{16000} x{16000}\n"
         "x ::= \"a\"",
         "line 1: the grammar is too large", HEARTH_UNSUPPORTED},
    };
    for (size_t i = 0; i < COUNT(rows); i++) {
        grammar *g = NULL;
        hearth_error error = {0};
        long live = mem_live();
        hearth_status status = gbnf_parse(&g, span_of(rows[i].grammar), &error);
        if (status != rows[i].status || !strstr(error.text, rows[i].error))
            fail_msg("%s: status %d, '%s', expected %d, '%s'", rows[i].grammar, status, error.text, rows[i].status,
                     rows[i].error);
        assert_int_equal(mem_live(), live);
    }
}

/* Nested groups up to the limit, and above. */
static void nesting(void **state)
{
    (void)state;
    for (int deep = GRAMMAR_DEPTH_LIMIT; deep <= GRAMMAR_DEPTH_LIMIT + 1; deep++) {
        buffer text = {0};
        assert_true(buffer_print(&text, "root ::= "));
        for (int i = 0; i < deep; i++)
            assert_true(buffer_put(&text, "(", 1));
        assert_true(buffer_put(&text, "\"a\"", 3));
        for (int i = 0; i < deep; i++)
            assert_true(buffer_put(&text, ")", 1));
        grammar *g = NULL;
        hearth_error error = {0};
        hearth_status status = gbnf_parse(&g, (span){text.data, text.size}, &error);
        assert_int_equal(status, deep > GRAMMAR_DEPTH_LIMIT ? HEARTH_UNSUPPORTED : HEARTH_OK);
        grammar_destroy(g);
        buffer_free(&text);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(meanings),
        cmocka_unit_test(characters),
        cmocka_unit_test(errors),
        cmocka_unit_test(nesting),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
