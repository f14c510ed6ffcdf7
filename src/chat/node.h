/* node.h - the syntax tree of a template. Nodes never change once parsed, so that a template can be rendered by several
 * threads at once. */
#ifndef CHAT_NODE_H
#define CHAT_NODE_H

#include "value.h"

#include "../base/memory.h"

typedef struct node node;

/* The name of what a filter block printed, for its filters; no name of a template looks like it. */
#define BODY_NAME "{% %}"

/* What the members of a node hold, by kind. `items` are always expressions, but for the statements of a body. */
typedef enum node_kind {
    /* Expressions. */
    NODE_CONSTANT,  /* constant                                                             */
    NODE_NAME,      /* name                                                                 */
    NODE_LIST,      /* items                                                                */
    NODE_TUPLE,     /* items                                                                */
    NODE_DICT,      /* items: key, value, key, value ...                                    */
    NODE_ATTRIBUTE, /* a.name                                                               */
    NODE_ITEM,      /* a[b]                                                                 */
    NODE_SLICE,     /* a[items[0]:items[1]:items[2]], NULL where left out                   */
    NODE_CALL,      /* a(items, names=...)                                                  */
    NODE_FILTER,    /* a|name(items, names=...)                                             */
    NODE_TEST,      /* a is name(items)                                                     */
    NODE_NOT,       /* not a                                                                */
    NODE_AND,       /* a and b                                                              */
    NODE_OR,        /* a or b                                                               */
    NODE_UNARY,     /* operator a: + -                                                      */
    NODE_BINARY,    /* a operator b                                                         */
    NODE_CONCAT,    /* items[0] ~ items[1] ~ ...                                            */
    NODE_COMPARE,   /* a, then each of `operators` with the item of the same index          */
    NODE_CONDITION, /* a if b else c; c may be NULL                                         */
    /* Statements. */
    NODE_DATA,         /* name: the text                                                    */
    NODE_PRINT,        /* a                                                                 */
    NODE_IF,           /* a; items: what runs if so, other: if not                          */
    NODE_FOR,          /* a: the target, b: what it goes through, c: the condition, or NULL;
                          items: the body, other: what runs if nothing was met;
                          is_recursive                                                      */
    NODE_SET,          /* a: the target, b: the value                                       */
    NODE_SET_BLOCK,    /* a: the target, b: filters of the name BODY_NAME; items: the body  */
    NODE_MACRO,        /* name, parameters; items: the body                                 */
    NODE_CALL_BLOCK,   /* a: the call; parameters, items: the macro `caller`                */
    NODE_FILTER_BLOCK, /* b: filters of the name BODY_NAME; items: the body                 */
    NODE_WITH,         /* named: the targets, other: their values; items: the body          */
    NODE_SCOPE,        /* items: the body, as it is (generation)                            */
    NODE_BREAK,
    NODE_CONTINUE,
} node_kind;

typedef enum operator_kind {
    OPERATOR_ADD,
    OPERATOR_SUBTRACT,
    OPERATOR_MULTIPLY,
    OPERATOR_DIVIDE,
    OPERATOR_FLOOR_DIVIDE,
    OPERATOR_REMAINDER,
    OPERATOR_POWER,
    OPERATOR_EQUAL,
    OPERATOR_NOT_EQUAL,
    OPERATOR_LESS,
    OPERATOR_LESS_EQUAL,
    OPERATOR_GREATER,
    OPERATOR_GREATER_EQUAL,
    OPERATOR_IN,
    OPERATOR_NOT_IN,
} operator_kind;

typedef struct node_list {
    node **items; /* [count] */
    size_t count, capacity;
} node_list;

/* The parameters of a macro; the last `defaults.count` have a default. */
typedef struct parameters {
    span *names; /* [count] */
    size_t count;
    node_list defaults;
    bool uses_varargs, uses_kwargs; /* the body has these names */
} parameters;

struct node {
    node_kind kind;
    uint32_t line;
    operator_kind operator;
    bool is_recursive;
    bool is_negated; /* TEST: is not */
    span name;
    value constant;
    node *a, *b, *c;
    node_list items, other;
    operator_kind *operators; /* COMPARE: [items.count]                                    */
    span *names;              /* CALL, FILTER, TEST: [named.count] of the named arguments  */
    node_list named;          /* their values                                              */
    node *star, *double_star; /* CALL: *list and **dict, or NULL                           */
    parameters parameters;
};

/* Returns the name of a statement of Jinja2 by its index in the table, and whether it is supported; NULL: no more. */
const char *statement_at(size_t index, bool *is_supported);

/* Parses a template [valid UTF-8]. All memory is of `memory`, the texts too. HEARTH_FORMAT: what is wrong, with name and
 * line. HEARTH_UNSUPPORTED: a statement that this interpreter lacks, such as `include`. HEARTH_NO_MEMORY. */
hearth_status parse_template(span source, const char *name, arena *memory, node_list *out, hearth_error *error);

#endif
