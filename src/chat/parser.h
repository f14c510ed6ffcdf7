/* parser.h - shared by the two halves of the parser: expressions, and statements. */
#ifndef CHAT_PARSER_H
#define CHAT_PARSER_H

#include "lexer.h"
#include "node.h"

/* Nested expressions and statements; a real template has about ten. */
#define PARSE_DEPTH 100u

typedef struct parser {
    const token *at;
    const char *name;
    arena *memory;
    unsigned depth;
    unsigned loops;                 /* that the statement is within: break needs one */
    bool uses_varargs, uses_kwargs; /* the macro's body has these names, so far */
    hearth_error *error;
} parser;

/* Fails at the current token: "NAME: line N: FORMAT...". */
hearth_status parser_fail(const parser *p, hearth_status status, const char *format, ...)
    __attribute__((format(printf, 3, 4)));
/* Fails as the current token is not what was expected there. */
hearth_status parser_expected(const parser *p, const char *what);

/* Enters an expression or statement within another one; who leaves it decrements p->depth. */
hearth_status parser_descend(parser *p);

#ifdef __clang_analyzer__ /* which sees one file at a time: these never return HEARTH_OK */
#define parser_fail(p, status, ...) ((parser_fail)(p, status, __VA_ARGS__), (status))
#define parser_expected(p, what)    ((parser_expected)(p, what), HEARTH_FORMAT)
#endif

bool at_operator(const parser *p, const char *text);
bool at_name(const parser *p, const char *name);
/* Go on behind the operator (name) if it is there, and return whether it was. */
bool take_operator(parser *p, const char *text);
bool take_name(parser *p, const char *name);
hearth_status expect_operator(parser *p, const char *text);
/* Takes any name. */
hearth_status expect_any_name(parser *p, span *out);

hearth_status new_node(parser *p, node_kind kind, node **out);
hearth_status add_node(parser *p, node_list *list, node *item);
/* Returns an array of `count` items with room for one more: the same, or one of twice the size (4, 8, 16 ... items) that
 * they are copied to. NULL: HEARTH_NO_MEMORY, with its error. */
void *array_for_one_more(const parser *p, void *items, size_t count, size_t item_bytes);

/* Parse an expression; without_condition: not "a if b else c". */
hearth_status parse_expression(parser *p, node **out);
hearth_status parse_without_condition(parser *p, node **out);
/* Parses one expression, or several with commas between them: a tuple. */
hearth_status parse_tuple(parser *p, bool with_condition, node **out);
/* Parses what `set` and `for` assign to: a name, name.name where `namespaced`, or several names. */
hearth_status parse_target(parser *p, bool namespaced, node **out);
/* Parses "|name(arguments)|name ..." behind the subject; the first without its bar where starts_with_name. */
hearth_status parse_filters(parser *p, node *subject, bool starts_with_name, node **out);
/* Parses "(arguments)" into a call, filter or test. */
hearth_status parse_arguments(parser *p, node *call);

#endif
