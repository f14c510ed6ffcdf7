/* fuzz_grammar.c - a grammar in GBNF or (if it begins with a brace) a JSON schema, and behind a zero byte a text.
 *
 * Covers: src/grammar/characters.c
 * Covers: src/grammar/finish.c
 * Covers: src/grammar/gbnf.c
 * Covers: src/grammar/grammar.c
 * Covers: src/grammar/matcher.c
 * Covers: src/grammar/schema.c
 * Covers: src/grammar/schema_combine.c
 * Covers: src/grammar/schema_containers.c
 * Covers: src/grammar/schema_keys.c
 * Covers: src/grammar/schema_number.c
 * Covers: src/grammar/schema_pattern.c
 * Covers: src/grammar/schema_string.c
 *
 * Whatever they are: no fault, an end within the bounds, nothing left behind, also where memory ends; and the mask
 * allows a byte exactly where the matcher takes it. */
#include "../src/grammar/gbnf.h"
#include "../src/grammar/matcher.h"
#include "../src/grammar/schema.h"

#include <stdlib.h>
#include <string.h>

enum { BYTES = 256, TEXT_LIMIT = 64, FAILURES = 97 /* allocations before the one that fails */ };

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

/* All bytes, some longer tokens, and one that ends the answer. */
static hearth_status make_tokens(token_trie **out, hearth_error *error)
{
    static const char *const longer[] = {"aa", "\",", "\":", "{\"", "12", "]}", "\xc3\xa9", "true"};
    enum { ALL = BYTES + sizeof longer / sizeof *longer + 1 };
    static char bytes[BYTES];
    span texts[ALL];
    bool ends[ALL] = {false};
    for (size_t i = 0; i < BYTES; i++) {
        bytes[i] = (char)i;
        texts[i] = (span){&bytes[i], 1};
    }
    for (size_t i = BYTES; i < ALL - 1; i++)
        texts[i] = span_of(longer[i - BYTES]);
    texts[ALL - 1] = span_of("</s>");
    ends[ALL - 1] = true;
    return token_trie_create(out, texts, ends, ALL, error);
}

/* Follows the text, skipping what the grammar does not take, and ends the answer if that is allowed. */
static hearth_status follow(matcher *m, int32_t end, span text, hearth_error *error)
{
    for (size_t i = 0; i <= text.size && i <= TEXT_LIMIT; i++) {
        const uint64_t *bits;
        int32_t id = i < text.size && i < TEXT_LIMIT ? (uint8_t)text.data[i] : end;
        TRY(matcher_mask(m, &bits, error));
        bool allowed = bits[id / 64] >> (id % 64) & 1;
        hearth_status status = matcher_accept_token(m, id, NULL);
        if (status != HEARTH_OK && status != HEARTH_INVALID)
            return matcher_accept_token(m, id, error);
        if (allowed != (status == HEARTH_OK))
            abort();
    }
    matcher_reset(m);
    return HEARTH_OK;
}

static void run(span source, span text)
{
    bool is_schema = source.size > 0 && *source.data == '{';
    grammar *g = NULL;
    token_trie *t = NULL;
    matcher *m = NULL;
    hearth_error error = {0};
    hearth_status status = is_schema ? schema_parse(&g, source, &error) : gbnf_parse(&g, source, &error);
    if (status == HEARTH_OK)
        status = make_tokens(&t, &error);
    if (status == HEARTH_OK)
        status = matcher_create(&m, g, t, &error);
    if (status == HEARTH_OK)
        status = follow(m, (int32_t)t->vocabulary_size - 1, text, &error);
    if ((status == HEARTH_OK) != (error.text[0] == 0))
        abort();
    matcher_destroy(m);
    token_trie_destroy(t);
    grammar_destroy(g);
    if (mem_live() != 0)
        abort();
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    const uint8_t *end = size > 0 ? memchr(data, 0, size) : NULL;
    span source = {(const char *)data, end ? (size_t)(end - data) : size};
    span text = {end ? (const char *)end + 1 : NULL, end ? size - source.size - 1 : 0};
    run(source, text);
    mem_fail_at((long)(size % FAILURES));
    run(source, text);
    mem_fail_at(-1);
    return 0;
}
