/* lexer.c - from source to tokens. The rules are those of Jinja2's lexer (jinja2/lexer.py, version 3.1). */
#include "lexer.h"

#include "../base/error.h"
#include "characters.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

typedef struct lexer {
    span source; /* with \n as the only line break, without the last one */
    size_t at;
    uint32_t line;
    const char *name;
    arena *memory;
    token *tokens;
    size_t count, capacity;
    hearth_error *error;
} lexer;

static hearth_status refuse(const lexer *l, const char *why)
{
    return fail(l->error, HEARTH_FORMAT, "%s: line %u: %s", l->name, l->line, why);
}

static hearth_status add_token(lexer *l, token t)
{
    t.line = l->line;
    if (l->count == l->capacity) {
        size_t capacity = l->capacity ? 2 * l->capacity : 256;
        token *grown = arena_new_array(l->memory, capacity, sizeof *grown);
        if (!grown)
            return fail_memory(l->error, "tokens", capacity * sizeof *grown);
        if (l->count > 0)
            memcpy(grown, l->tokens, l->count * sizeof *grown);
        l->tokens = grown;
        l->capacity = capacity;
    }
    l->tokens[l->count++] = t;
    return HEARTH_OK;
}

static bool has(const lexer *l, size_t at, const char *text)
{
    size_t size = strlen(text);
    return size <= l->source.size - at && memcmp(l->source.data + at, text, size) == 0;
}

/* Returns the byte, 0 behind the end. */
static char peek(const lexer *l, size_t at)
{
    return at < l->source.size ? l->source.data[at] : 0;
}

/* Goes on to a place further behind, counting lines. */
static void advance(lexer *l, size_t to)
{
    for (; l->at < to; l->at++)
        l->line += l->source.data[l->at] == '\n';
}

/* Returns the place behind the white space that begins at `at`. */
static size_t skip_white(const lexer *l, size_t at)
{
    return at + white_prefix((span){l->source.data + at, l->source.size - at});
}

/* ------------------------------------------------------------------ text outside of blocks */

/* Adds the text [from, to) in front of a construct whose sign is `sign`. A minus takes all white space before it; else
 * a construct that `strips` takes the blanks of its line, if there is nothing but those. */
static hearth_status add_data(lexer *l, size_t from, size_t to, char sign, bool strips)
{
    span text = {l->source.data + from, to - from};
    if (sign == '-')
        text.size -= white_suffix(text);
    else if (sign != '+' && strips) {
        size_t begin = text.size;
        while (begin > 0 && text.data[begin - 1] != '\n')
            begin--;
        bool starts_line = begin > 0 || from == 0 || l->source.data[from - 1] == '\n';
        span blanks = {text.data + begin, text.size - begin};
        if (starts_line && white_prefix(blanks) == blanks.size)
            text.size = begin;
    }
    return text.size > 0 ? add_token(l, (token){.kind = TOKEN_DATA, .text = text}) : HEARTH_OK;
}

/* Returns the place behind the end of a block or comment ("%}" or "#}") that begins at `at`: with the white space that a
 * minus takes, or else one line break (trim_blocks) where there is no plus. `sign`: that of the end, or 0. */
static size_t behind_end(const lexer *l, size_t at, char sign)
{
    at += sign ? 3 : 2;
    if (sign == '-')
        return skip_white(l, at);
    return sign == 0 && peek(l, at) == '\n' ? at + 1 : at;
}

static char sign_at(const lexer *l, size_t at)
{
    char c = peek(l, at);
    return c == '-' || c == '+' ? c : 0;
}

static hearth_status skip_comment(lexer *l)
{
    size_t begin = l->at + 2 + (sign_at(l, l->at + 2) != 0), at = begin;
    while (at < l->source.size && !has(l, at, "#}"))
        at++;
    if (at >= l->source.size)
        return refuse(l, "a comment does not end: no '#}'");
    char before = l->source.data[at - 1];
    char sign = at > begin && (before == '-' || before == '+') ? before : 0;
    advance(l, behind_end(l, at - (sign != 0), sign));
    return HEARTH_OK;
}

/* Returns whether a block at `at` is "{% NAME %}", with any signs; *end is behind its %}, the signs taken off. */
static bool is_bare_block(const lexer *l, size_t at, const char *name, char *first_sign, char *last_sign, size_t *end)
{
    if (!has(l, at, "{%"))
        return false;
    at += 2;
    *first_sign = sign_at(l, at);
    at = skip_white(l, at + (*first_sign != 0));
    if (!has(l, at, name))
        return false;
    at = skip_white(l, at + strlen(name));
    *last_sign = sign_at(l, at);
    *end = at;
    return has(l, at + (*last_sign != 0), "%}");
}

/* Handles {% raw %}, whose text is data up to {% endraw %}. *is_raw: it is one. */
static hearth_status take_raw(lexer *l, bool *is_raw)
{
    char first, last;
    size_t end;
    *is_raw = is_bare_block(l, l->at, "raw", &first, &last, &end);
    if (!*is_raw)
        return HEARTH_OK;
    advance(l, last == '-' ? skip_white(l, end + 3) : end + 2 + (last != 0)); /* no line break is taken here */
    size_t from = l->at;
    for (size_t at = from; at < l->source.size; at++)
        if (is_bare_block(l, at, "endraw", &first, &last, &end)) {
            TRY(add_data(l, from, at, first, true));
            advance(l, behind_end(l, end, last));
            return HEARTH_OK;
        }
    return refuse(l, "'raw' does not end: no 'endraw'");
}

/* ------------------------------------------------------------------ tokens inside of blocks */

static bool is_digit(char c)
{
    return c >= '0' && c <= '9';
}

static bool is_name_byte(char c)
{
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || is_digit(c) || c == '_' || (uint8_t)c >= 0x80;
}

/* Copies digits without the underscores between them; returns the place behind. */
static size_t take_digits(const lexer *l, size_t at, char *out, size_t *size)
{
    while (is_digit(peek(l, at)) || (peek(l, at) == '_' && is_digit(peek(l, at + 1)))) {
        char c = l->source.data[at++];
        if (c != '_' && *size < 60)
            out[(*size)++] = c;
        else if (c != '_')
            ++*size;
    }
    return at;
}

static hearth_status take_number(lexer *l)
{
    char digits[80];
    size_t size = 0, at = take_digits(l, l->at, digits, &size);
    bool is_float = peek(l, at) == '.' && is_digit(peek(l, at + 1));
    if (is_float && size < 60) {
        digits[size++] = '.';
        at = take_digits(l, at + 1, digits, &size);
    }
    size_t power = at + 1 + (peek(l, at + 1) == '+' || peek(l, at + 1) == '-');
    if ((peek(l, at) == 'e' || peek(l, at) == 'E') && is_digit(peek(l, power)) && size < 56) {
        is_float = true;
        digits[size++] = 'e';
        if (power == at + 2)
            digits[size++] = l->source.data[at + 1];
        at = take_digits(l, power, digits, &size);
    }
    if (size >= 60)
        return refuse(l, "a number has too many digits");
    digits[size] = 0;
    errno = 0;
    value number = is_float ? value_float(strtod(digits, NULL)) : value_integer(strtoll(digits, NULL, 10));
    if (!is_float && errno == ERANGE)
        return refuse(l, "a number is larger than 64 bits hold");
    TRY(add_token(l, (token){.kind = TOKEN_NUMBER, .number = number}));
    advance(l, at);
    return HEARTH_OK;
}

/* Reads `digits` hexadecimal digits; -1: they are not there. */
static int32_t hexadecimal(span text, size_t at, size_t digits)
{
    int32_t code = 0;
    if (digits > text.size - at)
        return -1;
    for (size_t i = 0; i < digits; i++) {
        char c = text.data[at + i];
        int digit = is_digit(c)            ? c - '0'
                    : c >= 'a' && c <= 'f' ? c - 'a' + 10
                    : c >= 'A' && c <= 'F' ? c - 'A' + 10
                                           : -1;
        if (digit < 0 || code > 0x10ffff)
            return -1;
        code = code * 16 + digit;
    }
    return code;
}

/* Decodes what a backslash at text[at] begins, as Python's unicode-escape does; writes it to out (at most as long as
 * the escape). Returns the bytes used; 0: it is wrong. */
static size_t decode_escape(span text, size_t at, char *out, size_t *size)
{
    static const char letters[] = "\n\\\\''\"\"abfnrtv", values[] = "\0\\\\''\"\"\a\b\f\n\r\t\v";
    char c = at + 1 < text.size ? text.data[at + 1] : 0;
    if (c == '\n') /* a line goes on */
        return 2;
    const char *letter = c ? strchr(letters + 1, c) : NULL;
    if (letter) {
        out[(*size)++] = values[letter - letters];
        return 2;
    }
    size_t digits = c == 'x' ? 2 : c == 'u' ? 4 : c == 'U' ? 8 : 0;
    if (digits > 0) {
        int32_t code = hexadecimal(text, at + 2, digits);
        size_t length = code >= 0 ? put_character(out + *size, code) : 0;
        *size += length;
        return length ? 2 + digits : 0;
    }
    if (c >= '0' && c <= '7') {
        int32_t code = 0;
        size_t used = 1;
        for (; used < 4 && at + used < text.size && text.data[at + used] >= '0' && text.data[at + used] <= '7'; used++)
            code = code * 8 + (text.data[at + used] - '0');
        *size += put_character(out + *size, code);
        return used;
    }
    if (c == 'N' || c == 0)
        return 0;
    out[(*size)++] = '\\'; /* an escape that Python does not know stays as it is */
    return 1;
}

static hearth_status decode_string(lexer *l, span text, span *out)
{
    *out = text;
    if (text.size == 0 || !memchr(text.data, '\\', text.size))
        return HEARTH_OK;
    char *decoded = arena_new(l->memory, text.size);
    size_t size = 0;
    if (!decoded)
        return fail_memory(l->error, "text", text.size);
    for (size_t at = 0; at < text.size;) {
        if (text.data[at] != '\\') {
            decoded[size++] = text.data[at++];
            continue;
        }
        size_t used = decode_escape(text, at, decoded, &size);
        if (used == 0)
            return refuse(l, "an escape in a string names no character");
        at += used;
    }
    *out = (span){decoded, size};
    return HEARTH_OK;
}

static hearth_status take_string(lexer *l)
{
    char quote = l->source.data[l->at];
    size_t from = l->at + 1, at = from;
    while (at < l->source.size && l->source.data[at] != quote)
        at += l->source.data[at] == '\\' ? 2 : 1;
    if (at >= l->source.size)
        return refuse(l, "a string does not end");
    span text;
    TRY(decode_string(l, (span){l->source.data + from, at - from}, &text));
    TRY(add_token(l, (token){.kind = TOKEN_STRING, .text = text}));
    advance(l, at + 1);
    return HEARTH_OK;
}

static hearth_status take_operator(lexer *l)
{
    /* The longer ones first. */
    static const char *const operators[] = {"//", "**", "==", "!=", ">=", "<=", "+", "-", "/", "*", "%", "~", "[",
                                            "]",  "(",  ")",  "{",  "}",  ">",  "<", "=", ".", ":", "|", ",", ";"};
    for (size_t i = 0; i < sizeof operators / sizeof *operators; i++)
        if (has(l, l->at, operators[i])) {
            TRY(add_token(l, (token){.kind = TOKEN_OPERATOR, .text = span_of(operators[i])}));
            advance(l, l->at + strlen(operators[i]));
            return HEARTH_OK;
        }
    char why[] = "unexpected character ' '";
    why[sizeof why - 3] = l->source.data[l->at];
    return refuse(l, why);
}

static hearth_status take_inner(lexer *l)
{
    char c = l->source.data[l->at];
    if (is_digit(c))
        return take_number(l);
    if (c == '\'' || c == '"')
        return take_string(l);
    if (!is_name_byte(c))
        return take_operator(l);
    size_t at = l->at;
    while (is_name_byte(peek(l, at)))
        at++;
    TRY(add_token(l, (token){.kind = TOKEN_NAME, .text = {l->source.data + l->at, at - l->at}}));
    advance(l, at);
    return HEARTH_OK;
}

/* Cuts what is between {{ and }}, or {% and %}. Within brackets an end is none: }} may close two dicts. */
static hearth_status take_block(lexer *l, bool is_print)
{
    uint32_t begin = l->line;
    size_t open = 0;
    TRY(add_token(l, (token){.kind = is_print ? TOKEN_PRINT_BEGIN : TOKEN_BLOCK_BEGIN}));
    advance(l, l->at + 2 + (sign_at(l, l->at + 2) != 0));
    for (;;) {
        advance(l, skip_white(l, l->at));
        if (l->at >= l->source.size)
            break;
        char sign = sign_at(l, l->at);
        if (is_print && sign == '+')
            sign = 0; /* only blocks end so */
        if (open == 0 && has(l, l->at + (sign != 0), is_print ? "}}" : "%}")) {
            TRY(add_token(l, (token){.kind = is_print ? TOKEN_PRINT_END : TOKEN_BLOCK_END}));
            size_t end = l->at + 2 + (sign != 0);
            advance(l, !is_print ? behind_end(l, l->at, sign) : sign == '-' ? skip_white(l, end) : end);
            return HEARTH_OK;
        }
        char c = l->source.data[l->at];
        if (c == '(' || c == '[' || c == '{')
            open++;
        else if (open > 0 && (c == ')' || c == ']' || c == '}'))
            open--;
        TRY(take_inner(l));
    }
    l->line = begin;
    return refuse(l, is_print ? "'{{' without '}}'" : "'{%' without '%}'");
}

/* ------------------------------------------------------------------ all of it */

/* Returns the place of the next {{, {% or {#; the end where there is none. */
static size_t next_construct(const lexer *l)
{
    for (size_t at = l->at; at + 1 < l->source.size; at++) {
        char kind = l->source.data[at + 1];
        if (l->source.data[at] == '{' && (kind == '{' || kind == '%' || kind == '#'))
            return at;
    }
    return l->source.size;
}

static hearth_status take_construct(lexer *l, size_t at)
{
    char kind = l->source.data[at + 1];
    TRY(add_data(l, l->at, at, sign_at(l, at + 2), kind != '{'));
    advance(l, at);
    bool is_raw;
    if (kind == '#')
        return skip_comment(l);
    TRY(take_raw(l, &is_raw));
    return is_raw ? HEARTH_OK : take_block(l, kind == '{');
}

/* Copies the source with every line break as \n, without the one at its end. */
static hearth_status normalize(lexer *l, span source)
{
    char *text = arena_new(l->memory, source.size + 1);
    size_t size = 0;
    if (!text)
        return fail_memory(l->error, l->name, source.size);
    for (size_t i = 0; i < source.size; i++) {
        bool is_return = source.data[i] == '\r';
        if (is_return && i + 1 < source.size && source.data[i + 1] == '\n')
            i++;
        text[size++] = is_return ? '\n' : source.data[i];
    }
    l->source = (span){text, size > 0 && text[size - 1] == '\n' ? size - 1 : size};
    return HEARTH_OK;
}

hearth_status lexer_run(span source, const char *name, arena *memory, token **out, hearth_error *error)
{
    lexer l = {.line = 1, .name = name, .memory = memory, .error = error};
    TRY(normalize(&l, source));
    for (;;) {
        size_t at = next_construct(&l);
        if (at >= l.source.size) {
            TRY(add_data(&l, l.at, l.source.size, '+', false));
            break;
        }
        TRY(take_construct(&l, at));
    }
    advance(&l, l.source.size);
    TRY(add_token(&l, (token){.kind = TOKEN_END}));
    *out = l.tokens;
    return HEARTH_OK;
}
