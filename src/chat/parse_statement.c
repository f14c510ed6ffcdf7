/* parse_statement.c - the statements of a template, and what all of the parser uses. */
#include "../base/error.h"
#include "parser.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>

/* ------------------------------------------------------------------ tokens and nodes */

hearth_status(parser_fail)(const parser *p, hearth_status status, const char *format, ...)
{
    char text[sizeof p->error->text];
    va_list arguments;
    va_start(arguments, format);
    vsnprintf(text, sizeof text, format, arguments);
    va_end(arguments);
    return fail(p->error, status, "%s: line %u: %s", p->name, p->at->line, text);
}

hearth_status parser_descend(parser *p)
{
    if (p->depth >= PARSE_DEPTH)
        return parser_fail(p, HEARTH_FORMAT, "more than %u expressions and blocks within each other", PARSE_DEPTH);
    p->depth++;
    return HEARTH_OK;
}

hearth_status(parser_expected)(const parser *p, const char *what)
{
    static const char *const names[] = {
        [TOKEN_END] = "the end of the template",
        [TOKEN_DATA] = "text",
        [TOKEN_PRINT_BEGIN] = "'{{'",
        [TOKEN_PRINT_END] = "'}}'",
        [TOKEN_BLOCK_BEGIN] = "'{%'",
        [TOKEN_BLOCK_END] = "'%}'",
        [TOKEN_NUMBER] = "a number",
        [TOKEN_STRING] = "a string",
    };
    if (p->at->kind == TOKEN_NAME || p->at->kind == TOKEN_OPERATOR)
        return parser_fail(p, HEARTH_FORMAT, "expected %s, got '%.*s'", what, (int)p->at->text.size, p->at->text.data);
    return parser_fail(p, HEARTH_FORMAT, "expected %s, got %s", what, names[p->at->kind]);
}

bool at_operator(const parser *p, const char *text)
{
    return p->at->kind == TOKEN_OPERATOR && span_equal(p->at->text, span_of(text));
}

bool at_name(const parser *p, const char *name)
{
    return p->at->kind == TOKEN_NAME && span_equal(p->at->text, span_of(name));
}

bool take_operator(parser *p, const char *text)
{
    bool is_there = at_operator(p, text);
    p->at += is_there;
    return is_there;
}

bool take_name(parser *p, const char *name)
{
    bool is_there = at_name(p, name);
    p->at += is_there;
    return is_there;
}

hearth_status expect_operator(parser *p, const char *text)
{
    char what[16];
    snprintf(what, sizeof what, "'%s'", text);
    return take_operator(p, text) ? HEARTH_OK : parser_expected(p, what);
}

hearth_status expect_any_name(parser *p, span *out)
{
    if (p->at->kind != TOKEN_NAME)
        return parser_expected(p, "a name");
    *out = p->at++->text;
    return HEARTH_OK;
}

static hearth_status expect_block_end(parser *p)
{
    if (p->at->kind != TOKEN_BLOCK_END)
        return parser_expected(p, "'%}'");
    p->at++;
    return HEARTH_OK;
}

hearth_status new_node(parser *p, node_kind kind, node **out)
{
    *out = arena_new(p->memory, sizeof **out);
    if (!*out)
        return fail_memory(p->error, p->name, sizeof **out);
    (*out)->kind = kind;
    (*out)->line = p->at->line;
    return HEARTH_OK;
}

void *array_for_one_more(const parser *p, void *items, size_t count, size_t item_bytes)
{
    const size_t least = 4;
    bool is_full = count == 0 || (count >= least && (count & (count - 1)) == 0);
    if (!is_full)
        return items;
    size_t capacity = count ? 2 * count : least;
    void *grown = arena_new_array(p->memory, capacity, item_bytes);
    if (!grown)
        fail_memory(p->error, p->name, capacity * item_bytes);
    else if (count > 0)
        memcpy(grown, items, count * item_bytes);
    return grown;
}

hearth_status add_node(parser *p, node_list *list, node *item)
{
    if (list->count == list->capacity) {
        size_t capacity = list->capacity ? 2 * list->capacity : 4;
        node **grown = arena_new_array(p->memory, capacity, sizeof *grown);
        if (!grown)
            return fail_memory(p->error, p->name, capacity * sizeof *grown);
        if (list->count > 0)
            memcpy(grown, list->items, list->count * sizeof *grown);
        list->items = grown;
        list->capacity = capacity;
    }
    list->items[list->count++] = item;
    return HEARTH_OK;
}

/* ------------------------------------------------------------------ bodies */

static hearth_status parse_statement(parser *p, node_list *body);

/* Parses statements up to a block whose name is one of the words (separated by blanks; NULL: up to the end of the
 * template), and stands at that name then. `opener`: what the body belongs to. */
static hearth_status parse_body(parser *p, const char *words, const node *opener, span opener_name, node_list *body)
{
    for (;;) {
        const token *t = p->at;
        if (t->kind == TOKEN_END) {
            if (!words)
                return HEARTH_OK;
            return fail(p->error, HEARTH_FORMAT, "%s: line %u: '%.*s' does not end: no '%s'", p->name, opener->line,
                        (int)opener_name.size, opener_name.data, strrchr(words, ' ') ? strrchr(words, ' ') + 1 : words);
        }
        if (t->kind == TOKEN_BLOCK_BEGIN && t[1].kind == TOKEN_NAME) {
            const char *word = words;
            for (size_t length; word && *word; word += length + (word[length] == ' ')) {
                length = strcspn(word, " ");
                if (span_equal(t[1].text, (span){word, length})) {
                    p->at++;
                    return HEARTH_OK;
                }
            }
        }
        TRY(parse_statement(p, body));
    }
}

/* Parses a body up to "{% endNAME %}", and goes on behind it. */
static hearth_status parse_whole_body(parser *p, const char *end, const node *opener, span opener_name, node_list *body)
{
    TRY(expect_block_end(p));
    TRY(parse_body(p, end, opener, opener_name, body));
    p->at++;
    return expect_block_end(p);
}

/* ------------------------------------------------------------------ one kind each; the name has been taken */

static hearth_status parse_if(parser *p, span name, node *out)
{
    const node *first = out;
    bool is_elif = true;
    while (is_elif) { /* each elif is an `if` in what runs otherwise */
        out->kind = NODE_IF;
        TRY(parse_expression(p, &out->a));
        TRY(expect_block_end(p));
        TRY(parse_body(p, "elif else endif", first, name, &out->items));
        is_elif = take_name(p, "elif");
        if (is_elif) {
            node *inner;
            TRY(new_node(p, NODE_IF, &inner));
            TRY(add_node(p, &out->other, inner));
            out = inner;
        }
    }
    if (take_name(p, "else")) {
        TRY(expect_block_end(p));
        TRY(parse_body(p, "endif", first, name, &out->other));
    }
    p->at++;
    return expect_block_end(p);
}

static hearth_status parse_for(parser *p, span name, node *out)
{
    out->kind = NODE_FOR;
    TRY(parse_target(p, false, &out->a));
    if (!take_name(p, "in"))
        return parser_expected(p, "'in'");
    TRY(parse_tuple(p, false, &out->b));
    if (take_name(p, "if"))
        TRY(parse_expression(p, &out->c));
    out->is_recursive = take_name(p, "recursive");
    TRY(expect_block_end(p));
    p->loops++;
    TRY(parse_body(p, "else endfor", out, name, &out->items));
    p->loops--;
    if (take_name(p, "else")) {
        TRY(expect_block_end(p));
        TRY(parse_body(p, "endfor", out, name, &out->other));
    }
    p->at++;
    return expect_block_end(p);
}

/* Parses the filters of what a block prints. */
static hearth_status parse_body_filters(parser *p, bool starts_with_name, node **out)
{
    node *body;
    TRY(new_node(p, NODE_NAME, &body));
    body->name = span_of(BODY_NAME);
    return parse_filters(p, body, starts_with_name, out);
}

static hearth_status parse_set(parser *p, span name, node *out)
{
    TRY(parse_target(p, true, &out->a));
    if (take_operator(p, "=")) {
        out->kind = NODE_SET;
        TRY(parse_tuple(p, true, &out->b));
        return expect_block_end(p);
    }
    out->kind = NODE_SET_BLOCK;
    TRY(parse_body_filters(p, false, &out->b));
    return parse_whole_body(p, "endset", out, name, &out->items);
}

static hearth_status parse_parameters(parser *p, parameters *out)
{
    TRY(expect_operator(p, "("));
    while (!at_operator(p, ")")) {
        span *names = array_for_one_more(p, out->names, out->count, sizeof *names);
        if (!names)
            return HEARTH_NO_MEMORY;
        out->names = names;
        TRY(expect_any_name(p, &names[out->count]));
        out->count++;
        if (take_operator(p, "=")) {
            node *fallback;
            TRY(parse_expression(p, &fallback));
            TRY(add_node(p, &out->defaults, fallback));
        } else if (out->defaults.count > 0)
            return parser_fail(p, HEARTH_FORMAT, "a parameter without a default follows one with a default");
        if (!take_operator(p, ","))
            break;
    }
    return expect_operator(p, ")");
}

/* A macro's body is no part of the loop around it. */
static hearth_status parse_macro_body(parser *p, const char *end, span name, node *out)
{
    const parser around = *p;
    p->loops = 0;
    p->uses_varargs = p->uses_kwargs = false;
    TRY(parse_whole_body(p, end, out, name, &out->items));
    out->parameters.uses_varargs = p->uses_varargs;
    out->parameters.uses_kwargs = p->uses_kwargs;
    p->loops = around.loops;
    p->uses_varargs = around.uses_varargs;
    p->uses_kwargs = around.uses_kwargs;
    return HEARTH_OK;
}

static hearth_status parse_macro(parser *p, span name, node *out)
{
    out->kind = NODE_MACRO;
    TRY(expect_any_name(p, &out->name));
    TRY(parse_parameters(p, &out->parameters));
    return parse_macro_body(p, "endmacro", name, out);
}

static hearth_status parse_call_block(parser *p, span name, node *out)
{
    out->kind = NODE_CALL_BLOCK;
    out->name = span_of("caller");
    if (at_operator(p, "("))
        TRY(parse_parameters(p, &out->parameters));
    TRY(parse_expression(p, &out->a));
    if (out->a->kind != NODE_CALL)
        return parser_expected(p, "the call of a macro");
    return parse_macro_body(p, "endcall", name, out);
}

static hearth_status parse_filter_block(parser *p, span name, node *out)
{
    out->kind = NODE_FILTER_BLOCK;
    TRY(parse_body_filters(p, true, &out->b));
    return parse_whole_body(p, "endfilter", out, name, &out->items);
}

static hearth_status parse_with(parser *p, span name, node *out)
{
    out->kind = NODE_WITH;
    while (p->at->kind != TOKEN_BLOCK_END) {
        node *target, *item;
        TRY(parse_target(p, false, &target));
        TRY(expect_operator(p, "="));
        TRY(parse_expression(p, &item));
        TRY(add_node(p, &out->named, target));
        TRY(add_node(p, &out->other, item));
        if (!take_operator(p, ","))
            break;
    }
    return parse_whole_body(p, "endwith", out, name, &out->items);
}

/* {% generation %}: marks what an assistant said, for training; prints its body. */
static hearth_status parse_generation(parser *p, span name, node *out)
{
    out->kind = NODE_SCOPE;
    return parse_whole_body(p, "endgeneration", out, name, &out->items);
}

static hearth_status parse_jump(parser *p, span name, node *out)
{
    out->kind = span_equal(name, span_of("break")) ? NODE_BREAK : NODE_CONTINUE;
    if (p->loops == 0)
        return parser_fail(p, HEARTH_FORMAT, "'%.*s' outside of a loop", (int)name.size, name.data);
    return expect_block_end(p);
}

static const struct {
    const char *name;
    hearth_status (*parse)(parser *p, span name, node *out); /* NULL: not supported */
} statements[] = {
    {"if", parse_if},
    {"for", parse_for},
    {"set", parse_set},
    {"macro", parse_macro},
    {"call", parse_call_block},
    {"filter", parse_filter_block},
    {"with", parse_with},
    {"generation", parse_generation},
    {"break", parse_jump},
    {"continue", parse_jump},
    /* They need files beside the template, or extensions that chat templates do not have. */
    {"include", NULL},
    {"import", NULL},
    {"from", NULL},
    {"extends", NULL},
    {"block", NULL},
    {"autoescape", NULL},
    {"do", NULL},
    {"debug", NULL},
    {"trans", NULL},
};

const char *statement_at(size_t index, bool *is_supported)
{
    if (index >= sizeof statements / sizeof *statements)
        return NULL;
    *is_supported = statements[index].parse != NULL;
    return statements[index].name;
}

static hearth_status parse_block(parser *p, node_list *body)
{
    node *out;
    span name;
    TRY(new_node(p, NODE_SCOPE, &out));
    p->at++;
    const token *begin = p->at;
    TRY(expect_any_name(p, &name));
    for (size_t i = 0; i < sizeof statements / sizeof *statements; i++)
        if (span_equal(name, span_of(statements[i].name))) {
            p->at = statements[i].parse ? p->at : begin;
            if (!statements[i].parse)
                return parser_fail(p, HEARTH_UNSUPPORTED, "the statement '%s' is not supported", statements[i].name);
            TRY(statements[i].parse(p, name, out));
            return add_node(p, body, out);
        }
    p->at = begin;
    return parser_fail(p, HEARTH_FORMAT, "unknown statement '%.*s'", (int)name.size, name.data);
}

static hearth_status parse_print(parser *p, node_list *body)
{
    node *out;
    TRY(new_node(p, NODE_PRINT, &out));
    p->at++;
    TRY(parse_tuple(p, true, &out->a));
    if (p->at->kind != TOKEN_PRINT_END)
        return parser_expected(p, "'}}'");
    p->at++;
    return add_node(p, body, out);
}

static hearth_status parse_data(parser *p, node_list *body)
{
    node *out;
    TRY(new_node(p, NODE_DATA, &out));
    out->name = p->at++->text;
    return add_node(p, body, out);
}

static hearth_status parse_statement(parser *p, node_list *body)
{
    hearth_status status;
    TRY(parser_descend(p));
    if (p->at->kind == TOKEN_DATA)
        status = parse_data(p, body);
    else if (p->at->kind == TOKEN_PRINT_BEGIN)
        status = parse_print(p, body);
    else
        status = parse_block(p, body);
    p->depth--;
    return status;
}

hearth_status parse_template(span source, const char *name, arena *memory, node_list *out, hearth_error *error)
{
    token *tokens;
    *out = (node_list){0};
    TRY(lexer_run(source, name, memory, &tokens, error));
    parser p = {.at = tokens, .name = name, .memory = memory, .error = error};
    return parse_body(&p, NULL, NULL, (span){0}, out);
}
