/* grammar_helpers.h - small vocabularies, masks by brute force, and random walks through a grammar. */
#ifndef TESTS_GRAMMAR_HELPERS_H
#define TESTS_GRAMMAR_HELPERS_H

#include "../src/base/random.h"
#include "../src/grammar/gbnf.h"
#include "../src/grammar/matcher.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

#define COUNT(array) (sizeof(array) / sizeof *(array))

enum { TOKENS_MAX = 1024 };

/* A vocabulary under construction: every byte is a token, then come others; the last one ends the answer. */
typedef struct words {
    span texts[TOKENS_MAX];
    bool ends[TOKENS_MAX];
    char bytes[256];
    uint32_t count;
} words;

static inline void words_begin(words *w)
{
    memset(w, 0, sizeof *w);
    for (int i = 0; i < 256; i++) {
        w->bytes[i] = (char)i;
        w->texts[w->count++] = (span){&w->bytes[i], 1};
    }
}

static inline void words_add(words *w, const char *text)
{
    assert_true(w->count < TOKENS_MAX);
    w->texts[w->count++] = span_of(text);
}

/* Adds a token without text and one that ends an answer, and makes the tree. */
static inline token_trie *words_end(words *w)
{
    token_trie *t = NULL;
    words_add(w, "");
    w->ends[w->count] = true;
    words_add(w, "</s>");
    assert_int_equal(token_trie_create(&t, w->texts, w->ends, w->count, NULL), HEARTH_OK);
    return t;
}

static inline grammar *grammar_of(const char *text)
{
    grammar *g = NULL;
    hearth_error error = {0};
    if (gbnf_parse(&g, span_of(text), &error) != HEARTH_OK)
        fail_msg("%s: %s", text, error.text);
    return g;
}

/* Puts a fresh matcher behind a text. */
static inline bool follows(matcher *m, span text)
{
    matcher_reset(m);
    return matcher_accept(m, text, NULL) == HEARTH_OK;
}

static inline bool has_bit(const uint64_t *bits, uint32_t i)
{
    return bits[i / 64] >> (i % 64) & 1;
}

/* Compares the mask of m, which stands behind `text`, with a second matcher that tries the bytes of each token one by
 * one. */
static inline void check_mask(matcher *m, matcher *other, const words *w, span text)
{
    const uint64_t *bits = NULL;
    assert_int_equal(matcher_mask(m, &bits, NULL), HEARTH_OK);
    for (uint32_t id = 0; id < w->count; id++) {
        assert_true(follows(other, text));
        bool can = w->ends[id] ? matcher_can_end(other) : w->texts[id].size > 0;
        for (size_t i = 0; can && !w->ends[id] && i < w->texts[id].size; i++)
            can = matcher_accept(other, (span){w->texts[id].data + i, 1}, NULL) == HEARTH_OK;
        if (can != has_bit(bits, id))
            fail_msg("behind \"%.*s\": token %u (\"%.*s\") is %d in the mask, expected %d", (int)text.size, text.data,
                     id, (int)w->texts[id].size, w->texts[id].data, has_bit(bits, id), can);
    }
}

/* Appends tokens that the masks allow, at random, until the answer ends or has `most` tokens; every check_every-th
 * mask is checked (0: none). Longer tokens are preferred, and ends are taken with a chance of one in `patience`.
 * Returns whether it ended. */
static inline bool random_walk(matcher *m, matcher *other, const words *w, uint64_t *seed, buffer *text, size_t most,
                               size_t check_every, uint32_t patience)
{
    matcher_reset(m);
    for (size_t step = 0; step < most; step++) {
        const uint64_t *bits = NULL;
        if (check_every > 0 && step % check_every == 0)
            check_mask(m, other, w, (span){text->data, text->size});
        assert_int_equal(matcher_mask(m, &bits, NULL), HEARTH_OK);
        uint32_t allowed[TOKENS_MAX], count = 0, plain = 0;
        for (uint32_t id = 0; id < w->count; id++)
            if (has_bit(bits, id)) {
                allowed[count++] = id;
                plain += !w->ends[id];
            }
        if (count == 0)
            fail_msg("nothing may follow \"%.*s\"", (int)text->size, text->data);
        uint32_t id = allowed[random_next(seed) % count];
        if (random_next(seed) % 2) /* among 256 bytes words would be rare */
            id = allowed[count - 1 - random_next(seed) % (count < 8 ? count : 8)];
        if (matcher_can_end(m) && (plain == 0 || random_next(seed) % patience == 0))
            id = w->count - 1;
        else if (w->ends[id])
            id = allowed[0];
        assert_int_equal(matcher_accept_token(m, (int32_t)id, NULL), HEARTH_OK);
        if (w->ends[id])
            return true;
        assert_true(buffer_put(text, w->texts[id].data, w->texts[id].size));
    }
    return false;
}

#endif
