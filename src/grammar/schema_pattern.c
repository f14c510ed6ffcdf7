/* schema_pattern.c - regular expressions, as far as they are regular: of ECMA 262 all but look-around, back
 * references, \b, \p, \c, \u{...}, modes and anchors within. A pattern may match anywhere in a string, so what ^ and
 * $ do not tie down has any characters around it.
 *
 * Dialects differ in which characters \s, \w and \d have, and so in \S, \W and \D. Only what all of them agree on is
 * written: the letters and digits of ASCII, and what nobody counts as white. */
#include "schema_internal.h"

#include <stdlib.h>
#include <string.h>

enum { RANGE_LIMIT = 512 };

typedef struct parser {
    schema_compiler *c;
    const char *keyword;
    span text;
    size_t at;
    uint32_t depth;
    bool excludes; /* within [^...], where more characters in the class are fewer that match */
} parser;

typedef struct range_list {
    character_range items[RANGE_LIMIT];
    size_t count;
} range_list;

static hearth_status complain(const parser *p, const char *what)
{
    return schema_fail(p->c, HEARTH_UNSUPPORTED, p->keyword, "character %zu of '%.100s': %s", p->at + 1, p->text.data,
                       what);
}

static char peek(const parser *p, size_t offset)
{
    return p->at + offset < p->text.size ? p->text.data[p->at + offset] : 0;
}

static bool take(parser *p, char c)
{
    if (peek(p, 0) != c || p->at >= p->text.size)
        return false;
    p->at++;
    return true;
}

/* ---- characters */

static hearth_status add_range(const parser *p, range_list *list, uint32_t low, uint32_t high)
{
    if (list->count == RANGE_LIMIT)
        return complain(p, "too many characters in a class");
    list->items[list->count++] = (character_range){low, high};
    return HEARTH_OK;
}

static int compare(const void *a, const void *b)
{
    const character_range *x = a, *y = b;
    return (x->low > y->low) - (x->low < y->low);
}

/* Sorts and joins ranges, and with `negated` puts what lies between them in their place, which may be one more. */
static hearth_status tidy(const parser *p, range_list *list, bool negated)
{
    range_list result = {.count = 0};
    qsort(list->items, list->count, sizeof *list->items, compare);
    uint32_t next = 0;
    for (size_t i = 0; i < list->count; i++) {
        character_range r = list->items[i];
        if (negated && r.low > next)
            result.items[result.count++] = (character_range){next, r.low - 1};
        if (!negated && r.high >= next)
            result.items[result.count++] = (character_range){r.low > next ? r.low : next, r.high};
        if (r.high >= next)
            next = r.high + 1;
    }
    if (negated && next <= 0x10FFFF)
        TRY(add_range(p, &result, next, 0x10FFFF));
    *list = result;
    return HEARTH_OK;
}

/* The classes that a letter stands for: the first ranges are what all dialects agree on, all of them what any has. */
static const struct letter_class {
    char letter;
    uint8_t narrow, wide; /* ranges */
    character_range ranges[12];
} classes[] = {
    {'d', 1, 2, {{'0', '9'}, {0x80, 0x10FFFF}}},
    {'w', 4, 5, {{'0', '9'}, {'A', 'Z'}, {'a', 'z'}, {'_', '_'}, {0x80, 0x10FFFF}}},
    {'s',
     3,
     12,
     {{'\t', '\n'},
      {'\f', '\r'},
      {' ', ' '},
      {0x0B, 0x0B},
      {0x1C, 0x1F},
      {0x85, 0x85},
      {0xA0, 0xA0},
      {0x1680, 0x180E},
      {0x2000, 0x200A},
      {0x2028, 0x205F},
      {0x3000, 0x3000},
      {0xFEFF, 0xFEFF}}},
};

/* Adds the class of a letter. false: it has none. */
static bool letter_class(range_list *list, char letter, hearth_status *status, const parser *p)
{
    for (size_t i = 0; i < sizeof classes / sizeof *classes; i++) {
        const struct letter_class *k = &classes[i];
        bool negated = letter == k->letter - 'a' + 'A';
        if (letter != k->letter && !negated)
            continue;
        range_list part = {.count = negated != p->excludes ? k->wide : k->narrow};
        memcpy(part.items, k->ranges, part.count * sizeof *part.items);
        *status = tidy(p, &part, negated);
        for (size_t n = 0; n < part.count && *status == HEARTH_OK; n++)
            *status = add_range(p, list, part.items[n].low, part.items[n].high);
        return true;
    }
    return false;
}

static hearth_status take_hex(parser *p, int digits, uint32_t *out)
{
    uint32_t value = 0;
    for (; digits > 0; digits--) {
        static const char all[] = "0123456789abcdefABCDEF";
        const char *found = peek(p, 0) ? strchr(all, peek(p, 0)) : NULL;
        if (!found)
            return complain(p, "expected a hexadecimal digit");
        uint32_t digit = (uint32_t)(found - all);
        value = value << 4 | (digit < 16 ? digit : digit - 6);
        p->at++;
    }
    if (value >= 0xD800 && value <= 0xDFFF)
        return complain(p, "half a character is not supported");
    *out = value;
    return HEARTH_OK;
}

/* Reads what stands behind a backslash: a class, *single false, or one character. */
static hearth_status take_escape(parser *p, range_list *list, bool *single)
{
    static const char from[] = "nrtfv", to[] = "\n\r\t\f\v";
    hearth_status status = HEARTH_OK;
    char c = peek(p, 0);
    *single = false;
    if (letter_class(list, c, &status, p)) {
        p->at++;
        return status;
    }
    const char *control = c ? strchr(from, c) : NULL;
    uint32_t character = (uint8_t)(control ? to[control - from] : c);
    bool is_word = (c >= '0' && c <= '9') || (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z');
    if (!control && c != 'x' && c != 'u' && (is_word || (uint8_t)c < 0x20 || (uint8_t)c >= 0x7F))
        return complain(p, "this escape is not supported");
    p->at++;
    if (c == 'x' || c == 'u')
        TRY(take_hex(p, c == 'x' ? 2 : 4, &character));
    *single = true;
    return add_range(p, list, character, character);
}

/* Reads one character, or an escape. */
static hearth_status take_character(parser *p, range_list *list, bool *single)
{
    if (take(p, '\\'))
        return take_escape(p, list, single);
    if (p->at >= p->text.size)
        return complain(p, "the pattern ends too early");
    const uint8_t *t = (const uint8_t *)p->text.data + p->at;
    size_t length = utf8_length((const char *)t, p->text.size - p->at);
    if (length == 0)
        return complain(p, "not UTF-8");
    uint32_t c = length == 1 ? *t : *t & (0x7Fu >> length);
    for (size_t i = 1; i < length; i++)
        c = c << 6 | (t[i] & 0x3F);
    p->at += length;
    *single = true;
    return add_range(p, list, c, c);
}

static hearth_status parse_class(parser *p, fragment *out)
{
    range_list list = {.count = 0};
    bool negated = take(p, '^'), single, last;
    p->excludes = negated;
    while (!take(p, ']')) {
        TRY(take_character(p, &list, &single));
        if (peek(p, 0) != '-' || peek(p, 1) == ']')
            continue;
        if (!single)
            return complain(p, "a range begins with a class");
        character_range *r = &list.items[list.count - 1];
        p->at++;
        TRY(take_character(p, &list, &last));
        if (!last || list.items[--list.count].low < r->low)
            return complain(p, "the range before this is empty or ends with a class");
        r->high = list.items[list.count].high;
    }
    p->excludes = false;
    TRY(tidy(p, &list, negated));
    *out = schema_characters(p->c, list.items, list.count);
    return HEARTH_OK;
}

/* ---- expressions */

static hearth_status parse_alternatives(parser *p, fragment *out);

static hearth_status parse_group(parser *p, fragment *out)
{
    if (peek(p, 0) == '?' && peek(p, 1) != ':')
        return complain(p, "this kind of group is not supported");
    if (peek(p, 0) == '?')
        p->at += 2;
    if (++p->depth > GRAMMAR_DEPTH_LIMIT)
        return complain(p, "too many groups in each other");
    TRY(parse_alternatives(p, out));
    p->depth--;
    return take(p, ')') ? HEARTH_OK : complain(p, "expected )");
}

static hearth_status parse_atom(parser *p, fragment *out)
{
    static const character_range line[] = {{0, '\t'}, {0x0B, 0x0C}, {0x0E, 0x84}, {0x86, 0x2027}, {0x202A, 0x10FFFF}};
    if (take(p, '('))
        return parse_group(p, out);
    if (take(p, '['))
        return parse_class(p, out);
    if (take(p, '.')) {
        *out = schema_characters(p->c, line, sizeof line / sizeof *line);
        return HEARTH_OK;
    }
    if (peek(p, 0) && strchr("*+?{}]^$", peek(p, 0)))
        return complain(p, peek(p, 0) == '^' || peek(p, 0) == '$' ? "anchors within are not supported"
                                                                  : "expected something to match");
    range_list list = {.count = 0};
    bool single;
    TRY(take_character(p, &list, &single));
    TRY(tidy(p, &list, false));
    *out = schema_characters(p->c, list.items, list.count);
    return HEARTH_OK;
}

static hearth_status take_number(parser *p, uint32_t *out)
{
    uint32_t value = 0;
    if (peek(p, 0) < '0' || peek(p, 0) > '9')
        return complain(p, "expected a number");
    while (peek(p, 0) >= '0' && peek(p, 0) <= '9') {
        value = 10 * value + (uint32_t)(p->text.data[p->at++] - '0');
        if (value > GRAMMAR_REPEAT_LIMIT)
            return complain(p, "too many repetitions");
    }
    *out = value;
    return HEARTH_OK;
}

/* Reads * + ? or {m,n}, if there is one. Lazy ones match the same strings. */
static hearth_status parse_repetition(parser *p, fragment *atom)
{
    char c = peek(p, 0);
    uint32_t least = c == '+', most = c == '?' ? 1 : GRAMMAR_NO_LIMIT;
    if (!c || !strchr("*+?{", c))
        return HEARTH_OK;
    p->at++;
    if (c == '{') {
        TRY(take_number(p, &least));
        most = least;
        if (take(p, ',')) {
            most = GRAMMAR_NO_LIMIT;
            if (peek(p, 0) != '}')
                TRY(take_number(p, &most));
        }
        if (!take(p, '}') || most < least)
            return complain(p, "expected }, and no fewer than the first number");
    }
    take(p, '?');
    *atom = grammar_repeat(p->c->g, *atom, least, most);
    return HEARTH_OK;
}

static hearth_status parse_sequence(parser *p, fragment *out)
{
    *out = grammar_empty(p->c->g);
    while (p->at < p->text.size && !strchr("|)$", peek(p, 0))) {
        fragment atom = {GRAMMAR_NONE, GRAMMAR_NONE};
        TRY(parse_atom(p, &atom));
        TRY(parse_repetition(p, &atom));
        *out = grammar_then(p->c->g, *out, atom);
        if (p->c->g->status != HEARTH_OK)
            return complain(p, "out of memory, or the grammar is too large");
    }
    return HEARTH_OK;
}

/* Puts any characters at one end. */
static fragment anything(parser *p)
{
    return grammar_repeat(p->c->g, schema_any_character(p->c), 0, GRAMMAR_NO_LIMIT);
}

static hearth_status parse_alternatives(parser *p, fragment *out)
{
    grammar *g = p->c->g;
    bool any = false, outermost = p->depth == 0;
    do {
        fragment one = {GRAMMAR_NONE, GRAMMAR_NONE};
        bool begins = !outermost || take(p, '^');
        TRY(parse_sequence(p, &one));
        bool ends = !outermost || take(p, '$');
        if (!begins)
            one = grammar_then(g, anything(p), one);
        if (!ends)
            one = grammar_then(g, one, anything(p));
        *out = any ? grammar_either(g, *out, one) : one;
        any = true;
    } while (take(p, '|'));
    return HEARTH_OK;
}

hearth_status schema_pattern(schema_compiler *c, const char *keyword, span pattern, fragment *out)
{
    parser p = {.c = c, .keyword = keyword, .text = pattern};
    hearth_status status = parse_alternatives(&p, out);
    if (c->g->status == HEARTH_NO_MEMORY)
        return fail_memory(c->error, "schema", pattern.size);
    TRY(status);
    return p.at < pattern.size ? complain(&p, "expected the end, or what it would close is not open") : HEARTH_OK;
}
