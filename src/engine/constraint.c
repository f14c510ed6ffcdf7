/* constraint.c - grammars of the library's users, and answers that are held to them.
 *
 * Before the text `behind` an answer is free, but may not end. Marks such as </think> are control tokens in some
 * vocabularies, which a grammar never allows, so this part is no grammar: it is looked for in the spelling of all tokens,
 * with the automaton of Knuth, Morris and Pratt. White space that stands behind it in the same token is dropped. */
#include "constraint.h"

#include "../grammar/gbnf.h"
#include "../grammar/matcher.h"
#include "../grammar/schema.h"
#include "../model/model.h"

#include <string.h>

#define MOST_BEHIND 256 /* bytes */

struct hearth_grammar {
    const hearth_model *model;
    const token_trie *tokens;
    grammar *language;
    uint64_t *goes_on; /* [words of a mask] all tokens but those that end an answer */
    char behind[MOST_BEHIND];
    uint16_t border[MOST_BEHIND]; /* [behind_size] longest proper prefix of behind[0..i] that it ends with */
    size_t behind_size;
};

struct constraint {
    const hearth_grammar *grammar;
    matcher *matcher;
    size_t matched;    /* bytes of `behind` that the answer ends with; all of them: the grammar has begun */
    uint64_t *allowed; /* [words of a mask] before that: what may come next                          */
};

/* ------------------------------------------------------------------ grammars */

static size_t mask_words(const hearth_grammar *g)
{
    return (g->tokens->vocabulary_size + 63) / 64;
}

/* Returns how many bytes of `behind` the text ends with after one more byte. */
static size_t advance(const hearth_grammar *g, size_t matched, char byte)
{
    while (g->behind[matched] != byte && matched > 0)
        matched = g->border[matched - 1];
    return matched + (g->behind[matched] == byte);
}

static hearth_status set_behind(hearth_grammar *g, const char *behind, hearth_error *error)
{
    size_t size = strlen(behind);
    if (size >= MOST_BEHIND)
        return fail(error, HEARTH_INVALID, "grammar: the text before it has %zu bytes, at most %d are allowed", size,
                    MOST_BEHIND - 1);
    memcpy(g->behind, behind, size);
    for (size_t i = 1; i < size; i++)
        g->border[i] = (uint16_t)advance(g, g->border[i - 1], behind[i]);
    g->behind_size = size;
    return HEARTH_OK;
}

static hearth_status find_going_on(hearth_grammar *g, hearth_error *error)
{
    g->goes_on = mem_new_array(mask_words(g), sizeof *g->goes_on);
    if (!g->goes_on)
        return fail_memory(error, "grammar", mask_words(g) * sizeof *g->goes_on);
    for (uint32_t i = 0; i < g->tokens->vocabulary_size; i++)
        if (!token_trie_ends(g->tokens, (int32_t)i))
            g->goes_on[i / 64] |= UINT64_C(1) << i % 64;
    return HEARTH_OK;
}

static hearth_status parse(grammar **out, hearth_grammar_form form, span text, hearth_error *error)
{
    switch (form) {
    case HEARTH_GRAMMAR_GBNF:
        return gbnf_parse(out, text, error);
    case HEARTH_GRAMMAR_JSON_SCHEMA:
        return schema_parse(out, text, error);
    }
    return fail(error, HEARTH_INVALID, "grammar: form %d is not known", (int)form);
}

hearth_status hearth_grammar_create(hearth_grammar **out, const hearth_model *model, hearth_grammar_form form,
                                    const char *text, size_t size, const char *behind, hearth_error *error)
{
    TRY(model_need_tokenizer(model, error));
    hearth_grammar *g = mem_new(sizeof *g);
    if (!g)
        return fail_memory(error, "grammar", sizeof *g);
    g->model = model;
    hearth_status status;
    TRY_OR(failed, status, parse(&g->language, form, (span){text, size}, error));
    TRY_OR(failed, status, spellings_tree(model->spellings, &g->tokens, error));
    TRY_OR(failed, status, set_behind(g, behind ? behind : "", error));
    TRY_OR(failed, status, find_going_on(g, error));
    *out = g;
    return HEARTH_OK;
failed:
    hearth_grammar_destroy(g);
    return status;
}

void hearth_grammar_destroy(hearth_grammar *g)
{
    if (!g)
        return;
    grammar_destroy(g->language);
    mem_free(g->goes_on);
    mem_free(g);
}

/* ------------------------------------------------------------------ answers */

hearth_status constraint_create(constraint **out, const hearth_grammar *g, const hearth_model *model,
                                hearth_error *error)
{
    if (g->model->spellings != model->spellings)
        return fail(error, HEARTH_INVALID, "grammar: was made for another model");
    constraint *c = mem_new(sizeof *c);
    if (!c)
        return fail_memory(error, "grammar", sizeof *c);
    c->grammar = g;
    c->allowed = mem_new_array(mask_words(g), sizeof *c->allowed);
    hearth_status status = c->allowed ? matcher_create(&c->matcher, g->language, g->tokens, error)
                                      : fail_memory(error, "grammar", mask_words(g) * sizeof *c->allowed);
    if (status == HEARTH_OK)
        *out = c;
    else
        constraint_destroy(c);
    return status;
}

void constraint_destroy(constraint *c)
{
    if (!c)
        return;
    matcher_destroy(c->matcher);
    mem_free(c->allowed);
    mem_free(c);
}

static bool is_free(const constraint *c)
{
    return c->matched < c->grammar->behind_size;
}

/* Returns whether none of the tokens of a mask is in another one; NULL: whether it has none. */
static bool is_empty(const uint64_t *bits, const uint64_t *but, size_t words)
{
    for (size_t i = 0; i < words; i++)
        if (bits[i] & (but ? but[i] : UINT64_MAX))
            return false;
    return true;
}

hearth_status constraint_mask(constraint *c, const uint64_t **bits, hearth_error *error)
{
    size_t words = mask_words(c->grammar);
    if (is_free(c)) {
        memcpy(c->allowed, c->grammar->goes_on, words * sizeof *c->allowed);
        *bits = c->allowed;
        return HEARTH_OK;
    }
    TRY(matcher_mask(c->matcher, bits, error));
    if (is_empty(*bits, NULL, words))
        return fail(error, HEARTH_UNSUPPORTED, "grammar: no token of the vocabulary can come next");
    return HEARTH_OK;
}

/* Reads a token before the grammar has begun: returns what `behind` is matched to then, and where what follows it in the
 * token begins, which belongs to the grammar. */
static size_t read_before(const constraint *c, int32_t token, span *rest)
{
    const hearth_model *model = c->grammar->model;
    span text = token_trie_bytes(c->grammar->tokens, token);
    if (hearth_token_attributes(model, token) & HEARTH_TOKEN_CONTROL)
        text.data = hearth_token_text(model, token, &text.size);
    size_t i = 0, matched = c->matched;
    while (i < text.size && matched < c->grammar->behind_size)
        matched = advance(c->grammar, matched, text.data[i++]);
    while (i < text.size && is_white(text.data[i]))
        i++;
    *rest = i < text.size ? (span){text.data + i, text.size - i} : (span){0};
    return matched;
}

bool constraint_fits(constraint *c, int32_t token)
{
    span rest;
    if (!is_free(c))
        return true;
    (void)read_before(c, token, &rest);
    bool fits = rest.size == 0 || matcher_accept(c->matcher, rest, NULL) == HEARTH_OK;
    matcher_reset(c->matcher);
    if (!fits)
        c->allowed[token / 64] &= ~(UINT64_C(1) << token % 64);
    return fits;
}

static hearth_status accept_before(constraint *c, int32_t token, hearth_error *error)
{
    span rest;
    if (token_trie_ends(c->grammar->tokens, token))
        return fail(error, HEARTH_INVALID, "grammar: an answer may not end before it has said \"%s\"",
                    c->grammar->behind);
    size_t matched = read_before(c, token, &rest);
    if (rest.size > 0)
        TRY(matcher_accept(c->matcher, rest, error));
    c->matched = matched;
    return HEARTH_OK;
}

hearth_status constraint_accept(constraint *c, int32_t token, hearth_error *error)
{
    return is_free(c) ? accept_before(c, token, error) : matcher_accept_token(c->matcher, token, error);
}

bool constraint_has_ended(constraint *c)
{
    const uint64_t *bits;
    return !is_free(c) && matcher_can_end(c->matcher) && matcher_mask(c->matcher, &bits, NULL) == HEARTH_OK &&
           is_empty(bits, c->grammar->goes_on, mask_words(c->grammar));
}
