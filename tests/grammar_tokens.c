/* grammar_tokens.c - the vocabularies of known models: the bytes of tokens, their tree, masks along a text. The time
 * that masks take is printed, not judged. */
#include "../src/base/clock.h"
#include "../src/base/random.h"
#include "../src/grammar/gbnf.h"
#include "../src/grammar/matcher.h"
#include "../src/grammar/schema.h"

#include "text_helpers.h"

#include <stdlib.h>

static const char json_grammar[] = "root ::= [ ]? value\n"
                                   "value ::= object | array | string | number | \"true\" | \"false\" | \"null\"\n"
                                   "object ::= \"{\" (pair (\", \" pair)*)? \"}\"\n"
                                   "pair ::= string \": \" value\n"
                                   "array ::= \"[\" (value (\", \" value)*)? \"]\"\n"
                                   "string ::= \"\\\"\" ([^\"\\\\\\x01-\\x1f] | \"\\\\\" [\"\\\\/bfnrt])* \"\\\"\"\n"
                                   "number ::= \"-\"? [0-9]+ (\".\" [0-9]+)?\n";

static const char answer_text[] =
    "{\"name\": \"Zo\xc3\xab pays \xe2\x82\xac 20\", \"list\": [1, -2.75, true, null, {\"a\": \"\xf0\x9f\x98\x80\"}], "
    "\"long\": \"It was a dark and stormy night; the rain fell in torrents.\"}";

static bool has_bit(const uint64_t *bits, int32_t i)
{
    return bits[i / 64] >> (i % 64) & 1;
}

/* Compares some bits of the mask with what a second matcher takes, which has come as far as this one. */
static void check_some(const grammar *g, const token_trie *tokens, span before, const uint64_t *bits, uint64_t *seed)
{
    matcher *m;
    assert_int_equal(matcher_create(&m, g, tokens, NULL), HEARTH_OK);
    for (int i = 0; i < 300; i++) {
        int32_t id = (int32_t)(random_next(seed) % tokens->vocabulary_size);
        matcher_reset(m);
        assert_int_equal(matcher_accept(m, before, NULL), HEARTH_OK);
        assert_int_equal(matcher_accept_token(m, id, NULL) == HEARTH_OK, has_bit(bits, id));
    }
    matcher_destroy(m);
}

static void follow_text(const tokenizer *t)
{
    enum { PADDING = 70 };
    uint32_t count = tokenizer_size(t) + PADDING;
    grammar *g;
    token_trie *tokens;
    matcher *m;
    int32_t *ids;
    size_t id_count;
    buffer text = {0};
    uint64_t seed = 5;
    const uint64_t *bits;
    assert_int_equal(gbnf_parse(&g, span_of(json_grammar), NULL), HEARTH_OK);
    assert_int_equal(token_trie_of(&tokens, t, count, NULL), HEARTH_OK);
    assert_int_equal(tokens->vocabulary_size, count);
    assert_int_equal(matcher_create(&m, g, tokens, NULL), HEARTH_OK);
    assert_int_equal(tokenizer_encode(t, span_of(answer_text), 0, &ids, &id_count, NULL), HEARTH_OK);
    for (size_t i = 0; i < id_count; i++) {
        assert_int_equal(matcher_mask(m, &bits, NULL), HEARTH_OK);
        assert_true(has_bit(bits, ids[i]));
        if (i % 5 == 0)
            check_some(g, tokens, (span){text.data, text.size}, bits, &seed);
        for (int32_t id = 0; id < (int32_t)count; id++)
            if (tokenizer_attributes(t, id) & (HEARTH_TOKEN_CONTROL | HEARTH_TOKEN_UNKNOWN | HEARTH_TOKEN_ENDS_ANSWER))
                assert_false(has_bit(bits, id));
        for (uint32_t id = count - PADDING; id < count; id++)
            assert_false(has_bit(bits, (int32_t)id));
        assert_int_equal(matcher_accept_token(m, ids[i], NULL), HEARTH_OK);
        assert_true(tokenizer_bytes(t, ids[i], &text));
    }
    size_t blank = text.size > 0 && text.data[0] == ' '; /* that SentencePiece puts in front of a text */
    assert_int_equal(text.size, blank + strlen(answer_text));
    assert_memory_equal(text.data + blank, answer_text, strlen(answer_text));
    assert_int_equal(matcher_mask(m, &bits, NULL), HEARTH_OK);
    for (int32_t id = 0; id < (int32_t)count; id++)
        assert_int_equal(has_bit(bits, id), tokenizer_ends_answer(t, id));
    buffer_free(&text);
    mem_free(ids);
    matcher_destroy(m);
    token_trie_destroy(tokens);
    grammar_destroy(g);
}

static void known_vocabularies(void **state)
{
    (void)state;
    static const char *const names[] = {"gpt-2", "llama-spm", "phi-3-trimmed", "qwen2-trimmed", "llama-bpe-trimmed"};
    for (size_t i = 0; i < COUNT(names); i++) {
        tokenizer *t = golden_tokenizer(names[i]);
        follow_text(t);
        tokenizer_destroy(t);
    }
}

/* Tokens that share bytes, are equal or are the beginning of each other; tokens without bytes. */
static void tree(void **state)
{
    (void)state;
    static const span texts[] = {{"ab", 2}, {"a", 1},    {"abc", 3},  {"", 0},
                                 {"ab", 2}, {"b\0c", 3}, {"</s>", 4}, {"b", 1}};
    static const bool ends[COUNT(texts)] = {[6] = true};
    static const int32_t sorted[] = {1, 0, 4, 2, 7, 5};
    token_trie *t;
    assert_int_equal(token_trie_create(&t, texts, ends, COUNT(texts), NULL), HEARTH_OK);
    assert_int_equal(t->id_count, COUNT(sorted));
    assert_memory_equal(t->ids, sorted, sizeof sorted);
    assert_int_equal(t->node_count, 6); /* a b c, b 0 c */
    static const trie_node nodes[] = {
        {3, 0, 0, 2, 'a'}, {3, 1, 1, 1, 'b'}, {3, 3, 2, 0, 'c'}, {6, 4, 0, TRIE_NOT_PLAIN, 'b'},
        {6, 5, 1, 1, 0},   {6, 5, 2, 0, 'c'}, {6, 6, 0, 0, 0}};
    for (size_t i = 0; i < COUNT(nodes); i++) {
        assert_int_equal(t->nodes[i].skip, nodes[i].skip);
        assert_int_equal(t->nodes[i].tokens, nodes[i].tokens);
        assert_int_equal(t->nodes[i].depth, nodes[i].depth);
        assert_int_equal(t->nodes[i].plain, nodes[i].plain);
        assert_int_equal(t->nodes[i].byte, nodes[i].byte);
    }
    assert_true(token_trie_ends(t, 6) && !token_trie_ends(t, 5) && !token_trie_ends(t, -1) && !token_trie_ends(t, 8));
    assert_int_equal(token_trie_bytes(t, 5).size, 3);
    assert_int_equal(token_trie_bytes(t, 6).size, 0);
    token_trie_destroy(t);
    assert_int_equal(token_trie_create(&t, NULL, NULL, 0, NULL), HEARTH_OK);
    token_trie_destroy(t);
}

/* ---- time */

enum { MANY = 150000 };

/* The tokens of GPT-2, and pairs of them up to MANY. */
static token_trie *many_tokens(const tokenizer *t)
{
    span *texts = mem_new_array(MANY, sizeof *texts);
    bool *ends = mem_new_array(MANY, sizeof *ends);
    buffer *bytes = mem_new_array(MANY, sizeof *bytes);
    uint32_t size = tokenizer_size(t);
    uint64_t seed = 9;
    token_trie *tokens;
    for (uint32_t i = 0; i < MANY; i++) {
        if (i < size) {
            assert_true(tokenizer_bytes(t, (int32_t)i, &bytes[i]));
        } else {
            assert_true(tokenizer_bytes(t, (int32_t)(random_next(&seed) % 5000), &bytes[i]));
            assert_true(tokenizer_bytes(t, (int32_t)(random_next(&seed) % size), &bytes[i]));
        }
        texts[i] = (span){bytes[i].data, bytes[i].size};
        ends[i] = i < size && tokenizer_ends_answer(t, (int32_t)i);
    }
    double begin = clock_seconds();
    assert_int_equal(token_trie_create(&tokens, texts, ends, MANY, NULL), HEARTH_OK);
    print_message("a tree of %d tokens, %u nodes: %.1f ms\n", MANY, tokens->node_count,
                  1e3 * (clock_seconds() - begin));
    for (uint32_t i = 0; i < MANY; i++)
        buffer_free(&bytes[i]);
    mem_free(bytes);
    mem_free(texts);
    mem_free(ends);
    return tokens;
}

static void time_of_masks(void **state)
{
    (void)state;
    static const char *const schemas[] = {
        "{}",
        "{\"properties\":{\"name\":{\"type\":\"string\"},\"list\":true,\"long\":{\"type\":\"string\"}},\"required\":["
        "\"name\"]}",
        "{\"properties\":{\"name\":{\"maxLength\":100},\"list\":true,\"long\":{\"maxLength\":500}},\"required\":["
        "\"name\"]}",
    };
    tokenizer *t = golden_tokenizer("gpt-2");
    token_trie *tokens = many_tokens(t);
    int32_t *ids;
    size_t count;
    assert_int_equal(tokenizer_encode(t, span_of(answer_text), 0, &ids, &count, NULL), HEARTH_OK);
    for (size_t i = 0; i < COUNT(schemas); i++) {
        grammar *g;
        matcher *m;
        const uint64_t *bits;
        double begin = clock_seconds();
        assert_int_equal(schema_parse(&g, span_of(schemas[i]), NULL), HEARTH_OK);
        assert_int_equal(matcher_create(&m, g, tokens, NULL), HEARTH_OK);
        double made = clock_seconds() - begin;
        for (int round = 0; round < 2; round++) {
            double sum = 0, longest = 0;
            matcher_reset(m);
            for (size_t k = 0; k < count; k++) {
                begin = clock_seconds();
                assert_int_equal(matcher_mask(m, &bits, NULL), HEARTH_OK);
                assert_true(has_bit(bits, ids[k]));
                assert_int_equal(matcher_accept_token(m, ids[k], NULL), HEARTH_OK);
                double time = clock_seconds() - begin;
                sum += time;
                longest = time > longest ? time : longest;
            }
            print_message("%.50s: compiled in %.2f ms; %s: %.3f ms a token, at most %.2f ms\n", schemas[i], 1e3 * made,
                          round == 0 ? "first" : "again", 1e3 * sum / (double)count, 1e3 * longest);
        }
        matcher_destroy(m);
        grammar_destroy(g);
    }
    mem_free(ids);
    token_trie_destroy(tokens);
    tokenizer_destroy(t);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(tree),
        cmocka_unit_test(known_vocabularies),
        cmocka_unit_test(time_of_masks),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
