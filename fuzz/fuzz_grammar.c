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
 * Covers: src/grammar/token_trie.c
 *
 * Whatever they are: no fault, an end within the bounds, nothing left behind; and the mask allows a byte exactly where the
 * matcher takes it. */
#include "../src/grammar/gbnf.h"
#include "../src/grammar/matcher.h"
#include "../src/grammar/schema.h"

#include <stdlib.h>
#include <string.h>

enum { BYTES = 256, TEXT_LIMIT = 64 };

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

/* All bytes, some longer tokens, and one that ends the answer. */
static token_trie *make_tokens(void)
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
    token_trie *t;
    if (token_trie_create(&t, texts, ends, ALL, NULL) != HEARTH_OK)
        abort();
    return t;
}

/* Follows the text, skipping what the grammar does not take. */
static void follow(const grammar *g, const token_trie *t, span text)
{
    matcher *m;
    hearth_error error;
    if (matcher_create(&m, g, t, &error) != HEARTH_OK)
        abort();
    for (size_t i = 0; i < text.size && i < TEXT_LIMIT; i++) {
        const uint64_t *bits;
        uint8_t byte = (uint8_t)text.data[i];
        if (matcher_mask(m, &bits, &error) != HEARTH_OK)
            break;
        bool allowed = bits[byte / 64] >> (byte % 64) & 1;
        hearth_status status = matcher_accept_token(m, byte, &error);
        if (status != HEARTH_OK && status != HEARTH_INVALID)
            break;
        if (allowed != (status == HEARTH_OK))
            abort();
    }
    matcher_destroy(m);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    const uint8_t *end = size > 0 ? memchr(data, 0, size) : NULL;
    span source = {(const char *)data, end ? (size_t)(end - data) : size};
    span text = {end ? (const char *)end + 1 : NULL, end ? size - source.size - 1 : 0};
    grammar *g = NULL;
    hearth_error error = {0};
    bool is_schema = source.size > 0 && *source.data == '{';
    hearth_status status = is_schema ? schema_parse(&g, source, &error) : gbnf_parse(&g, source, &error);
    if ((status == HEARTH_OK) != (error.text[0] == 0))
        abort();
    if (status == HEARTH_OK) {
        token_trie *t = make_tokens();
        follow(g, t, text);
        token_trie_destroy(t);
    }
    grammar_destroy(g);
    if (mem_live() != 0)
        abort();
    return 0;
}
