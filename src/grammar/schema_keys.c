/* schema_keys.c - keys of an object that are none of the listed ones.
 *
 * The listed keys make a tree of characters: where a key branches off from all of them, anything may follow; where it
 * is one of them, it may not end. There are no escapes, since these could spell a listed key in another way, and so
 * listed keys that cannot be written without do not count. */
#include "schema_internal.h"

#include <stdlib.h>
#include <string.h>

enum { KEY_LIMIT = 256 /* bytes of a listed key: the functions below call themselves for every character */ };

static const character_range specials[] = {{0, 0x1F}, {'"', '"'}, {'\\', '\\'}};
enum { SPECIALS = sizeof specials / sizeof *specials };

static int compare(const void *a, const void *b)
{
    return strcmp(*(const char *const *)a, *(const char *const *)b);
}

static uint32_t decode(const char *text, size_t length)
{
    const uint8_t *t = (const uint8_t *)text;
    uint32_t c = length == 1 ? t[0] : t[0] & (0x7Fu >> length);
    for (size_t i = 1; i < length; i++)
        c = c << 6 | (t[i] & 0x3F);
    return c;
}

static bool is_plain(const char *key)
{
    for (; *key; key++)
        if ((uint8_t)*key < 0x20 || *key == '"' || *key == '\\')
            return false;
    return true;
}

/* keys [count], sorted, share their first `at` bytes. Makes what may follow these, the closing quote included. */
static hearth_status branch(schema_compiler *c, const char *const *keys, size_t count, size_t at, uint32_t tail,
                            fragment *out)
{
    grammar *g = c->g;
    bool ends = keys[0][at] == 0; /* one of them ends here; equal ones were left out */
    size_t first = ends, branches = 0;
    character_range *others = mem_new_array(SPECIALS + count, sizeof *others);
    if (!others)
        return fail_memory(c->error, "schema", count * sizeof *others);
    memcpy(others, specials, sizeof specials);
    fragment ways[2]; /* so far, and one more */
    bool any = false;
    for (size_t i = first; i < count;) {
        size_t length = utf8_length(keys[i] + at, strlen(keys[i] + at)), same = i + 1;
        uint32_t character = decode(keys[i] + at, length);
        while (same < count && strncmp(keys[same] + at, keys[i] + at, length) == 0)
            same++;
        hearth_status status = branch(c, keys + i, same - i, at + length, tail, &ways[1]);
        if (status != HEARTH_OK) {
            mem_free(others);
            return status;
        }
        ways[1] = grammar_then(g, grammar_literal(g, (span){keys[i] + at, length}), ways[1]);
        ways[0] = any ? grammar_either(g, ways[0], ways[1]) : ways[1];
        any = true;
        others[SPECIALS + branches++] = (character_range){character, character};
        i = same;
    }
    fragment other = grammar_characters(g, others, SPECIALS + branches, true);
    mem_free(others);
    other = grammar_then(g, other, grammar_call(g, tail));
    *out = any ? grammar_either(g, ways[0], other) : other;
    if (!ends)
        *out = grammar_either(g, *out, grammar_bytes(g, '"', '"'));
    return HEARTH_OK;
}

hearth_status schema_other_key(schema_compiler *c, const char *const *keys, size_t count, fragment *out)
{
    grammar *g = c->g;
    if (count == 0)
        return schema_string(c, NULL, out);
    const char **sorted = mem_new_array(count, sizeof *sorted);
    if (!sorted)
        return fail_memory(c->error, "schema", count * sizeof *sorted);
    /* The rest of a key that is no longer like any. */
    uint32_t tail = grammar_rule_new(g, span_of("key"), 0);
    fragment body = grammar_repeat(g, grammar_characters(g, specials, SPECIALS, true), 0, GRAMMAR_NO_LIMIT);
    grammar_rule_define(g, tail, grammar_then(g, body, grammar_bytes(g, '"', '"')));
    size_t used = 0;
    hearth_status status = HEARTH_OK;
    for (size_t i = 0; i < count && status == HEARTH_OK; i++) {
        if (!is_plain(keys[i]))
            continue;
        if (strlen(keys[i]) > KEY_LIMIT)
            status = schema_fail(c, HEARTH_UNSUPPORTED, NULL, "beside a key of more than %d bytes", KEY_LIMIT);
        sorted[used++] = keys[i];
    }
    qsort(sorted, used, sizeof *sorted, compare);
    fragment inside = grammar_call(g, tail);
    if (status == HEARTH_OK && used > 0)
        status = branch(c, sorted, used, 0, tail, &inside);
    mem_free(sorted);
    TRY(status);
    *out = grammar_then(g, grammar_bytes(g, '"', '"'), inside);
    return HEARTH_OK;
}
