/* gbnf.c - a parser by recursive descent; only groups make it call itself, GRAMMAR_DEPTH_LIMIT deep at most. */
#include "gbnf.h"

#include <stdio.h>
#include <string.h>

enum { CLASS_LIMIT = 1024 /* ranges in a class */ };

typedef struct parser {
    grammar *g;
    span text;
    size_t at;
    uint32_t line;
    size_t line_begin;
    uint32_t depth;
    uint32_t *by_name; /* [name_size] a hash table of rules with names */
    size_t name_size, name_count;
    hearth_error *error;
} parser;

static hearth_status complain(const parser *p, const char *what)
{
    return fail(p->error, HEARTH_FORMAT, "grammar: line %u, column %zu: %s", p->line, p->at - p->line_begin + 1, what);
}

/* The byte at an offset from here; 0 behind the end (a 0 in the text is refused first). */
static char peek(const parser *p, size_t offset)
{
    return p->at + offset < p->text.size ? p->text.data[p->at + offset] : 0;
}

static bool take(parser *p, char c)
{
    if (peek(p, 0) != c)
        return false;
    p->at++;
    return true;
}

/* Skips blanks and comments, and with new_lines also ends of lines. */
static void skip_white(parser *p, bool new_lines)
{
    for (;;) {
        char c = peek(p, 0);
        if (c == '#') {
            while (p->at < p->text.size && peek(p, 0) != '\n' && peek(p, 0) != '\r')
                p->at++;
        } else if (c == ' ' || c == '\t' || (new_lines && c == '\r')) {
            p->at++;
        } else if (new_lines && c == '\n') {
            p->at++;
            p->line++;
            p->line_begin = p->at;
        } else {
            return;
        }
    }
}

static bool is_name(char c)
{
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '-' || c == '_';
}

static span take_name(parser *p)
{
    span name = {p->text.data + p->at, 0};
    while (is_name(peek(p, 0))) {
        p->at++;
        name.size++;
    }
    return name;
}

/* ---- rules by name */

static size_t name_hash(span name)
{
    size_t hash = 2166136261u; /* FNV-1a */
    for (size_t i = 0; i < name.size; i++)
        hash = (hash ^ (uint8_t)name.data[i]) * 16777619u;
    return hash ^ hash >> 15;
}

/* Returns the slot of a name, which may be free (GRAMMAR_NONE). */
static uint32_t *find_slot(const parser *p, span name)
{
    size_t i = name_hash(name) & (p->name_size - 1);
    while (p->by_name[i] != GRAMMAR_NONE && !span_equal(p->g->rules[p->by_name[i]].name, name))
        i = (i + 1) & (p->name_size - 1);
    return &p->by_name[i];
}

static bool make_table(parser *p, size_t size)
{
    uint32_t *old = p->by_name;
    size_t old_size = p->name_size;
    uint32_t *table = mem_new_array(size, sizeof *table);
    if (!table)
        return false;
    memset(table, 0xFF, size * sizeof *table);
    p->by_name = table;
    p->name_size = size;
    for (size_t i = 0; i < old_size; i++)
        if (old[i] != GRAMMAR_NONE)
            *find_slot(p, p->g->rules[old[i]].name) = old[i];
    mem_free(old);
    return true;
}

/* Finds or makes the rule of a name. */
static hearth_status rule_of(parser *p, span name, uint32_t *rule)
{
    if (p->name_count >= p->name_size / 2 && !make_table(p, p->name_size > 0 ? 2 * p->name_size : 64))
        return fail_memory(p->error, "grammar", p->name_size * sizeof *p->by_name);
    uint32_t *slot = find_slot(p, name);
    if (*slot == GRAMMAR_NONE) {
        uint32_t made = grammar_rule_new(p->g, name, p->line);
        TRY(grammar_result(p->g, "grammar", p->error));
        *slot = made;
        p->name_count++;
    }
    *rule = *slot;
    return HEARTH_OK;
}

/* ---- characters */

static hearth_status take_hex(parser *p, size_t digits, uint32_t *out)
{
    uint32_t value = 0;
    for (size_t i = 0; i < digits; i++) {
        char c = peek(p, 0);
        uint32_t digit = c >= '0' && c <= '9'   ? (uint32_t)(c - '0')
                         : c >= 'a' && c <= 'f' ? (uint32_t)(c - 'a' + 10)
                         : c >= 'A' && c <= 'F' ? (uint32_t)(c - 'A' + 10)
                                                : 16;
        if (digit == 16)
            return complain(p, "expected a hexadecimal digit");
        value = value << 4 | digit;
        p->at++;
    }
    if (value > 0x10FFFF || (value >= 0xD800 && value <= 0xDFFF))
        return complain(p, "the number before this is no character");
    *out = value;
    return HEARTH_OK;
}

/* Reads a character of a text or a class, escaped or not. */
static hearth_status take_character(parser *p, uint32_t *out)
{
    static const char from[] = "nrt\\\"[]-^", to[] = "\n\r\t\\\"[]-^";
    if (take(p, '\\')) {
        char c = peek(p, 0);
        const char *known = c ? strchr(from, c) : NULL;
        if (!known && c != 'x' && c != 'u' && c != 'U')
            return complain(p, "unknown escape");
        p->at++;
        if (!known)
            return take_hex(p, c == 'x' ? 2 : c == 'u' ? 4 : 8, out);
        *out = (uint8_t)to[known - from];
        return HEARTH_OK;
    }
    const uint8_t *text = (const uint8_t *)p->text.data + p->at;
    size_t length = p->at < p->text.size ? utf8_length((const char *)text, p->text.size - p->at) : 0;
    if (length == 0 || *text == '\n' || *text == '\r')
        return complain(p, "expected a character");
    uint32_t c = length == 1 ? *text : *text & (0x7Fu >> length);
    for (size_t i = 1; i < length; i++)
        c = c << 6 | (text[i] & 0x3F);
    p->at += length;
    *out = c;
    return HEARTH_OK;
}

static hearth_status parse_text(parser *p, fragment *out)
{
    *out = grammar_empty(p->g);
    while (!take(p, '"')) {
        uint32_t c;
        TRY(take_character(p, &c));
        character_range one = {c, c};
        *out = grammar_then(p->g, *out, grammar_characters(p->g, &one, 1, false));
    }
    return HEARTH_OK;
}

static hearth_status parse_class(parser *p, fragment *out)
{
    character_range ranges[CLASS_LIMIT];
    size_t count = 0;
    bool negated = take(p, '^');
    while (!take(p, ']')) {
        if (count == CLASS_LIMIT)
            return complain(p, "too many characters in a class");
        character_range *r = &ranges[count++];
        TRY(take_character(p, &r->low));
        r->high = r->low;
        if (peek(p, 0) == '-' && peek(p, 1) != ']') {
            p->at++;
            TRY(take_character(p, &r->high));
            if (r->high < r->low)
                return complain(p, "the range before this is empty");
        }
    }
    *out = grammar_characters(p->g, ranges, count, negated);
    return HEARTH_OK;
}

/* ---- rules */

static hearth_status parse_alternatives(parser *p, fragment *out);

static hearth_status take_number(parser *p, uint32_t *out)
{
    uint32_t value = 0;
    if (peek(p, 0) < '0' || peek(p, 0) > '9')
        return complain(p, "expected a number");
    while (peek(p, 0) >= '0' && peek(p, 0) <= '9') {
        value = 10 * value + (uint32_t)(peek(p, 0) - '0');
        if (value > GRAMMAR_REPEAT_LIMIT)
            return fail(p->error, HEARTH_UNSUPPORTED, "grammar: line %u, column %zu: more than %d repetitions", p->line,
                        p->at - p->line_begin + 1, GRAMMAR_REPEAT_LIMIT);
        p->at++;
    }
    *out = value;
    return HEARTH_OK;
}

/* Reads m}, m,} or m,n} behind the brace. */
static hearth_status parse_braces(parser *p, uint32_t *least, uint32_t *most)
{
    skip_white(p, p->depth > 0);
    TRY(take_number(p, least));
    *most = *least;
    skip_white(p, p->depth > 0);
    if (take(p, ',')) {
        skip_white(p, p->depth > 0);
        *most = GRAMMAR_NO_LIMIT;
        if (peek(p, 0) != '}')
            TRY(take_number(p, most));
        skip_white(p, p->depth > 0);
    }
    if (!take(p, '}'))
        return complain(p, "expected }");
    return *most < *least ? complain(p, "the second number before this is smaller than the first") : HEARTH_OK;
}

static hearth_status parse_element(parser *p, fragment *out)
{
    static const character_range any = {0, 0x10FFFF};
    if (take(p, '"'))
        return parse_text(p, out);
    if (take(p, '['))
        return parse_class(p, out);
    if (take(p, '.')) {
        *out = grammar_characters(p->g, &any, 1, false);
        return HEARTH_OK;
    }
    if (take(p, '(')) {
        if (++p->depth > GRAMMAR_DEPTH_LIMIT)
            return fail(p->error, HEARTH_UNSUPPORTED, "grammar: line %u, column %zu: more than %d groups in each other",
                        p->line, p->at - p->line_begin + 1, GRAMMAR_DEPTH_LIMIT);
        TRY(parse_alternatives(p, out));
        if (!take(p, ')'))
            return complain(p, "expected )");
        p->depth--;
        return HEARTH_OK;
    }
    uint32_t rule;
    TRY(rule_of(p, take_name(p), &rule));
    *out = grammar_call(p->g, rule);
    return HEARTH_OK;
}

/* Reads elements with their repetitions, as long as there are any. */
static hearth_status parse_sequence(parser *p, fragment *out)
{
    *out = grammar_empty(p->g);
    for (;;) {
        skip_white(p, p->depth > 0);
        char c = peek(p, 0);
        if (c != '"' && c != '[' && c != '.' && c != '(' && !is_name(c))
            return HEARTH_OK;
        fragment element;
        TRY(parse_element(p, &element));
        skip_white(p, p->depth > 0);
        for (c = peek(p, 0); c == '*' || c == '+' || c == '?' || c == '{'; c = peek(p, 0)) {
            uint32_t least = c == '+', most = c == '?' ? 1 : GRAMMAR_NO_LIMIT;
            p->at++;
            if (c == '{')
                TRY(parse_braces(p, &least, &most));
            element = grammar_repeat(p->g, element, least, most);
            skip_white(p, p->depth > 0);
        }
        *out = grammar_then(p->g, *out, element);
        if (p->g->status != HEARTH_OK) {
            char where[64];
            snprintf(where, sizeof where, "grammar: line %u", p->line);
            return grammar_result(p->g, where, p->error);
        }
    }
}

static hearth_status parse_alternatives(parser *p, fragment *out)
{
    TRY(parse_sequence(p, out));
    while (take(p, '|')) {
        fragment other;
        skip_white(p, true);
        TRY(parse_sequence(p, &other));
        *out = grammar_either(p->g, *out, other);
    }
    return HEARTH_OK;
}

static hearth_status parse_rule(parser *p)
{
    uint32_t rule;
    size_t begin = p->at;
    span name = take_name(p);
    if (name.size == 0)
        return complain(p, "expected the name of a rule");
    TRY(rule_of(p, name, &rule));
    if (p->g->rules[rule].start != GRAMMAR_NONE) {
        p->at = begin;
        return complain(p, "this rule is defined already");
    }
    skip_white(p, false);
    if (!take(p, ':') || !take(p, ':') || !take(p, '='))
        return complain(p, "expected ::=");
    skip_white(p, true);
    fragment body;
    TRY(parse_alternatives(p, &body));
    if (p->at < p->text.size && peek(p, 0) != '\n' && peek(p, 0) != '\r')
        return complain(p, peek(p, 0) == '<' || peek(p, 0) == '!' ? "tokens cannot be part of a grammar here"
                                                                  : "expected an element, | or the end of the line");
    grammar_rule_define(p->g, rule, body);
    return HEARTH_OK;
}

static hearth_status parse(parser *p)
{
    if (!utf8_is_valid(p->text.data, p->text.size) || memchr(p->text.data, 0, p->text.size))
        return fail(p->error, HEARTH_FORMAT, "grammar: not text in UTF-8");
    for (skip_white(p, true); p->at < p->text.size; skip_white(p, true))
        TRY(parse_rule(p));
    uint32_t root = p->name_size > 0 ? *find_slot(p, span_of("root")) : GRAMMAR_NONE;
    if (root == GRAMMAR_NONE)
        return fail(p->error, HEARTH_FORMAT, "grammar: there is no rule 'root'");
    return grammar_finish(p->g, root, "grammar", p->error);
}

hearth_status gbnf_parse(grammar **out, span text, hearth_error *error)
{
    parser p = {.text = {text.data ? text.data : "", text.size}, .line = 1, .error = error};
    TRY(grammar_create(&p.g, error));
    hearth_status status = parse(&p);
    mem_free(p.by_name);
    if (status == HEARTH_OK)
        *out = p.g;
    else
        grammar_destroy(p.g);
    return status;
}
