/* parse_expression.c - expressions, by recursive descent. Precedence is Jinja2's, from the loosest: if else, or, and, not,
 * comparisons, + -, ~, * / // %, **, signs, then attributes, items, calls, filters and tests. */
#include "../base/error.h"
#include "parser.h"

#include <string.h>

static hearth_status parse_unary(parser *p, bool with_filters, node **out);

static hearth_status new_binary(parser *p, node_kind kind, node *a, node *b, node **out)
{
    TRY(new_node(p, kind, out));
    (*out)->a = a;
    (*out)->b = b;
    return HEARTH_OK;
}

/* ------------------------------------------------------------------ operands */

static hearth_status parse_constant(parser *p, value constant, node **out)
{
    TRY(new_node(p, NODE_CONSTANT, out));
    (*out)->constant = constant;
    p->at++;
    return HEARTH_OK;
}

static hearth_status parse_name(parser *p, node **out)
{
    static const struct {
        const char *name;
        value constant;
    } constants[] = {
        {"true", {.kind = VALUE_BOOL, .as.truth = true}},
        {"True", {.kind = VALUE_BOOL, .as.truth = true}},
        {"false", {.kind = VALUE_BOOL, .as.truth = false}},
        {"False", {.kind = VALUE_BOOL, .as.truth = false}},
        {"none", {.kind = VALUE_NONE}},
        {"None", {.kind = VALUE_NONE}},
    };
    for (size_t i = 0; i < sizeof constants / sizeof *constants; i++)
        if (at_name(p, constants[i].name))
            return parse_constant(p, constants[i].constant, out);
    p->uses_varargs = p->uses_varargs || at_name(p, "varargs");
    p->uses_kwargs = p->uses_kwargs || at_name(p, "kwargs");
    TRY(new_node(p, NODE_NAME, out));
    return expect_any_name(p, &(*out)->name);
}

/* Strings that follow each other are one. */
static hearth_status parse_string(parser *p, node **out)
{
    size_t size = 0, at = 0;
    const token *first = p->at;
    for (const token *t = first; t->kind == TOKEN_STRING; t++)
        size += t->text.size;
    if (first[1].kind != TOKEN_STRING)
        return parse_constant(p, value_text(first->text), out);
    char *joined = arena_new(p->memory, size + 1);
    if (!joined)
        return fail_memory(p->error, p->name, size);
    for (; p->at->kind == TOKEN_STRING; p->at++) {
        if (p->at->text.size > 0)
            memcpy(joined + at, p->at->text.data, p->at->text.size);
        at += p->at->text.size;
    }
    p->at--;
    return parse_constant(p, value_text((span){joined, size}), out);
}

static hearth_status parse_list(parser *p, node **out)
{
    TRY(new_node(p, NODE_LIST, out));
    TRY(expect_operator(p, "["));
    while (!at_operator(p, "]")) {
        node *item;
        TRY(parse_expression(p, &item));
        TRY(add_node(p, &(*out)->items, item));
        if (!take_operator(p, ","))
            break;
    }
    return expect_operator(p, "]");
}

static hearth_status parse_dict(parser *p, node **out)
{
    TRY(new_node(p, NODE_DICT, out));
    TRY(expect_operator(p, "{"));
    while (!at_operator(p, "}")) {
        node *key, *item;
        TRY(parse_expression(p, &key));
        TRY(expect_operator(p, ":"));
        TRY(parse_expression(p, &item));
        TRY(add_node(p, &(*out)->items, key));
        TRY(add_node(p, &(*out)->items, item));
        if (!take_operator(p, ","))
            break;
    }
    return expect_operator(p, "}");
}

static hearth_status parse_parentheses(parser *p, node **out)
{
    TRY(expect_operator(p, "("));
    if (at_operator(p, ")"))
        TRY(new_node(p, NODE_TUPLE, out));
    else
        TRY(parse_tuple(p, true, out));
    return expect_operator(p, ")");
}

static hearth_status parse_operand(parser *p, node **out)
{
    switch (p->at->kind) {
    case TOKEN_NAME:
        return parse_name(p, out);
    case TOKEN_STRING:
        return parse_string(p, out);
    case TOKEN_NUMBER:
        return parse_constant(p, p->at->number, out);
    default:
        if (at_operator(p, "("))
            return parse_parentheses(p, out);
        if (at_operator(p, "["))
            return parse_list(p, out);
        if (at_operator(p, "{"))
            return parse_dict(p, out);
        return parser_expected(p, "an expression");
    }
}

/* ------------------------------------------------------------------ what follows an operand */

static hearth_status add_named(parser *p, node *call, span name, node *item)
{
    span *names = array_for_one_more(p, call->names, call->named.count, sizeof *names);
    if (!names)
        return HEARTH_NO_MEMORY;
    names[call->named.count] = name;
    call->names = names;
    return add_node(p, &call->named, item);
}

static hearth_status parse_argument(parser *p, node *call)
{
    node *item;
    if (at_operator(p, "*") || at_operator(p, "**")) {
        node **place = at_operator(p, "*") ? &call->star : &call->double_star;
        if (*place)
            return parser_expected(p, "one * and one ** at most");
        p->at++;
        return parse_expression(p, place);
    }
    bool is_named =
        p->at->kind == TOKEN_NAME && p->at[1].kind == TOKEN_OPERATOR && span_equal(p->at[1].text, span_of("="));
    span name = p->at->text;
    if (is_named)
        p->at += 2;
    else if (call->named.count > 0)
        return parser_fail(p, HEARTH_FORMAT, "an argument without a name follows one with a name");
    TRY(parse_expression(p, &item));
    return is_named ? add_named(p, call, name, item) : add_node(p, &call->items, item);
}

hearth_status parse_arguments(parser *p, node *call)
{
    TRY(expect_operator(p, "("));
    while (!at_operator(p, ")")) {
        TRY(parse_argument(p, call));
        if (!take_operator(p, ","))
            break;
    }
    return expect_operator(p, ")");
}

/* Parses one of the three parts of a slice; NULL: it is left out. */
static hearth_status parse_slice_part(parser *p, node **out)
{
    *out = NULL;
    return at_operator(p, ":") || at_operator(p, "]") ? HEARTH_OK : parse_expression(p, out);
}

/* Parses "[index]" or "[from:to:step]". */
static hearth_status parse_brackets(parser *p, node *subject, node **out)
{
    node *part[3] = {NULL};
    TRY(expect_operator(p, "["));
    TRY(parse_slice_part(p, &part[0]));
    if (part[0] && at_operator(p, "]")) {
        TRY(new_binary(p, NODE_ITEM, subject, part[0], out));
        return expect_operator(p, "]");
    }
    TRY(expect_operator(p, ":"));
    TRY(parse_slice_part(p, &part[1]));
    if (take_operator(p, ":"))
        TRY(parse_slice_part(p, &part[2]));
    TRY(new_node(p, NODE_SLICE, out));
    (*out)->a = subject;
    for (size_t i = 0; i < 3; i++)
        TRY(add_node(p, &(*out)->items, part[i]));
    return expect_operator(p, "]");
}

static hearth_status parse_dot(parser *p, node *subject, node **out)
{
    TRY(expect_operator(p, "."));
    if (p->at->kind == TOKEN_NUMBER) {
        node *index;
        TRY(parse_constant(p, p->at->number, &index));
        return new_binary(p, NODE_ITEM, subject, index, out);
    }
    TRY(new_node(p, NODE_ATTRIBUTE, out));
    (*out)->a = subject;
    return expect_any_name(p, &(*out)->name);
}

static hearth_status parse_call(parser *p, node *subject, node **out)
{
    TRY(new_node(p, NODE_CALL, out));
    (*out)->a = subject;
    return parse_arguments(p, *out);
}

static hearth_status parse_postfix(parser *p, node *subject, node **out)
{
    for (;;) {
        if (at_operator(p, "."))
            TRY(parse_dot(p, subject, &subject));
        else if (at_operator(p, "["))
            TRY(parse_brackets(p, subject, &subject));
        else if (at_operator(p, "("))
            TRY(parse_call(p, subject, &subject));
        else
            break;
    }
    *out = subject;
    return HEARTH_OK;
}

hearth_status parse_filters(parser *p, node *subject, bool starts_with_name, node **out)
{
    while (starts_with_name || take_operator(p, "|")) {
        node *filter;
        starts_with_name = false;
        TRY(new_node(p, NODE_FILTER, &filter));
        filter->a = subject;
        TRY(expect_any_name(p, &filter->name));
        if (at_operator(p, "("))
            TRY(parse_arguments(p, filter));
        subject = filter;
    }
    *out = subject;
    return HEARTH_OK;
}

/* Returns whether the argument of a test without parentheses begins here: "is divisibleby 3". */
static bool at_test_argument(const parser *p)
{
    static const char *const words[] = {"else", "or", "and", "is", "if", "in", "not"};
    for (size_t i = 0; i < sizeof words / sizeof *words; i++)
        if (at_name(p, words[i]))
            return false;
    return p->at->kind == TOKEN_NAME || p->at->kind == TOKEN_STRING || p->at->kind == TOKEN_NUMBER ||
           at_operator(p, "[") || at_operator(p, "{");
}

static hearth_status parse_test(parser *p, node *subject, node **out)
{
    node *test, *argument;
    p->at++;
    TRY(new_node(p, NODE_TEST, &test));
    test->a = subject;
    test->is_negated = take_name(p, "not");
    TRY(expect_any_name(p, &test->name));
    *out = test;
    if (at_operator(p, "("))
        return parse_arguments(p, test);
    if (at_name(p, "is"))
        return parser_fail(p, HEARTH_FORMAT, "tests cannot be chained with 'is'");
    if (!at_test_argument(p))
        return HEARTH_OK;
    TRY(parse_operand(p, &argument));
    TRY(parse_postfix(p, argument, &argument));
    return add_node(p, &test->items, argument);
}

static hearth_status parse_filters_and_tests(parser *p, node *subject, node **out)
{
    for (;;) {
        if (at_operator(p, "|"))
            TRY(parse_filters(p, subject, false, &subject));
        else if (at_name(p, "is"))
            TRY(parse_test(p, subject, &subject));
        else if (at_operator(p, "("))
            TRY(parse_call(p, subject, &subject));
        else
            break;
    }
    *out = subject;
    return HEARTH_OK;
}

/* ------------------------------------------------------------------ operators */

static hearth_status parse_signed(parser *p, node **out)
{
    node *unary;
    TRY(new_node(p, NODE_UNARY, &unary));
    unary->operator= at_operator(p, "-") ? OPERATOR_SUBTRACT : OPERATOR_ADD;
    p->at++;
    TRY(parse_unary(p, false, &unary->a));
    *out = unary;
    return HEARTH_OK;
}

static hearth_status parse_unary(parser *p, bool with_filters, node **out)
{
    TRY(parser_descend(p));
    if (at_operator(p, "-") || at_operator(p, "+"))
        TRY(parse_signed(p, out));
    else
        TRY(parse_operand(p, out));
    TRY(parse_postfix(p, *out, out));
    if (with_filters)
        TRY(parse_filters_and_tests(p, *out, out));
    p->depth--;
    return HEARTH_OK;
}

/* Operators of one level of precedence, which bind to the left. */
typedef struct level {
    size_t count;
    struct {
        const char *text;
        operator_kind kind;
    } operators[4];
} level;

static const level power = {1, {{"**", OPERATOR_POWER}}};
static const level product = {
    4, {{"*", OPERATOR_MULTIPLY}, {"/", OPERATOR_DIVIDE}, {"//", OPERATOR_FLOOR_DIVIDE}, {"%", OPERATOR_REMAINDER}}};
static const level sum = {2, {{"+", OPERATOR_ADD}, {"-", OPERATOR_SUBTRACT}}};

static bool take_level(parser *p, const level *l, operator_kind *out)
{
    for (size_t i = 0; i < l->count; i++)
        if (take_operator(p, l->operators[i].text)) {
            *out = l->operators[i].kind;
            return true;
        }
    return false;
}

typedef hearth_status parse_operands(parser *p, node **out);

static hearth_status parse_level(parser *p, const level *l, parse_operands *operands, node **out)
{
    operator_kind kind;
    TRY(operands(p, out));
    while (take_level(p, l, &kind)) {
        node *right;
        TRY(operands(p, &right));
        TRY(new_binary(p, NODE_BINARY, *out, right, out));
        (*out)->operator= kind;
    }
    return HEARTH_OK;
}

static hearth_status parse_whole_operand(parser *p, node **out)
{
    return parse_unary(p, true, out);
}

static hearth_status parse_power(parser *p, node **out)
{
    return parse_level(p, &power, parse_whole_operand, out);
}

static hearth_status parse_product(parser *p, node **out)
{
    return parse_level(p, &product, parse_power, out);
}

static hearth_status parse_concat(parser *p, node **out)
{
    node *first, *concat;
    TRY(parse_product(p, &first));
    *out = first;
    if (!at_operator(p, "~"))
        return HEARTH_OK;
    TRY(new_node(p, NODE_CONCAT, &concat));
    TRY(add_node(p, &concat->items, first));
    while (take_operator(p, "~")) {
        node *next;
        TRY(parse_product(p, &next));
        TRY(add_node(p, &concat->items, next));
    }
    *out = concat;
    return HEARTH_OK;
}

static hearth_status parse_sum(parser *p, node **out)
{
    return parse_level(p, &sum, parse_concat, out);
}

static bool take_comparison(parser *p, operator_kind *out)
{
    static const level comparisons[] = {
        {4, {{"==", OPERATOR_EQUAL}, {"!=", OPERATOR_NOT_EQUAL}, {"<=", OPERATOR_LESS_EQUAL}, {"<", OPERATOR_LESS}}},
        {2, {{">=", OPERATOR_GREATER_EQUAL}, {">", OPERATOR_GREATER}}},
    };
    if (take_level(p, &comparisons[0], out) || take_level(p, &comparisons[1], out))
        return true;
    *out = OPERATOR_IN;
    if (take_name(p, "in"))
        return true;
    bool is_not_in = at_name(p, "not") && p->at[1].kind == TOKEN_NAME && span_equal(p->at[1].text, span_of("in"));
    *out = OPERATOR_NOT_IN;
    p->at += is_not_in ? 2 : 0;
    return is_not_in;
}

static hearth_status add_comparison(parser *p, node *compare, operator_kind kind, node *right)
{
    operator_kind *operators = array_for_one_more(p, compare->operators, compare->items.count, sizeof *operators);
    if (!operators)
        return HEARTH_NO_MEMORY;
    operators[compare->items.count] = kind;
    compare->operators = operators;
    return add_node(p, &compare->items, right);
}

static hearth_status parse_comparison(parser *p, node **out)
{
    operator_kind kind;
    node *compare = NULL;
    TRY(parse_sum(p, out));
    while (take_comparison(p, &kind)) {
        node *right;
        TRY(parse_sum(p, &right));
        if (!compare) {
            TRY(new_binary(p, NODE_COMPARE, *out, NULL, &compare));
            *out = compare;
        }
        TRY(add_comparison(p, compare, kind, right));
    }
    return HEARTH_OK;
}

static hearth_status parse_not(parser *p, node **out)
{
    size_t count = 0;
    while (take_name(p, "not"))
        count++;
    TRY(parse_comparison(p, out));
    for (size_t i = 0; i < count; i++)
        TRY(new_binary(p, NODE_NOT, *out, NULL, out));
    return HEARTH_OK;
}

static hearth_status parse_and(parser *p, node **out)
{
    TRY(parse_not(p, out));
    while (take_name(p, "and")) {
        node *right;
        TRY(parse_not(p, &right));
        TRY(new_binary(p, NODE_AND, *out, right, out));
    }
    return HEARTH_OK;
}

hearth_status parse_without_condition(parser *p, node **out)
{
    TRY(parse_and(p, out));
    while (take_name(p, "or")) {
        node *right;
        TRY(parse_and(p, &right));
        TRY(new_binary(p, NODE_OR, *out, right, out));
    }
    return HEARTH_OK;
}

hearth_status parse_expression(parser *p, node **out)
{
    TRY(parse_without_condition(p, out));
    while (take_name(p, "if")) {
        node *condition;
        TRY(parse_without_condition(p, &condition));
        TRY(new_binary(p, NODE_CONDITION, *out, condition, out));
        if (take_name(p, "else")) {
            TRY(parser_descend(p));
            TRY(parse_expression(p, &(*out)->c));
            p->depth--;
        }
    }
    return HEARTH_OK;
}

/* ------------------------------------------------------------------ several */

/* Returns whether a tuple ends here: nothing that an expression could begin with. */
static bool at_tuple_end(const parser *p)
{
    return p->at->kind == TOKEN_PRINT_END || p->at->kind == TOKEN_BLOCK_END || at_operator(p, ")") ||
           at_operator(p, "=") || at_name(p, "in") || at_name(p, "recursive");
}

hearth_status parse_tuple(parser *p, bool with_condition, node **out)
{
    parse_operands *parse = with_condition ? parse_expression : parse_without_condition;
    node *tuple, *item;
    TRY(parse(p, out));
    if (!at_operator(p, ","))
        return HEARTH_OK;
    TRY(new_node(p, NODE_TUPLE, &tuple));
    TRY(add_node(p, &tuple->items, *out));
    while (take_operator(p, ",")) {
        if (at_tuple_end(p))
            break;
        TRY(parse(p, &item));
        TRY(add_node(p, &tuple->items, item));
    }
    *out = tuple;
    return HEARTH_OK;
}

static hearth_status parse_one_target(parser *p, bool namespaced, node **out)
{
    if (take_operator(p, "(")) {
        TRY(parse_target(p, false, out));
        return expect_operator(p, ")");
    }
    TRY(new_node(p, NODE_NAME, out));
    TRY(expect_any_name(p, &(*out)->name));
    return namespaced && at_operator(p, ".") ? parse_dot(p, *out, out) : HEARTH_OK;
}

hearth_status parse_target(parser *p, bool namespaced, node **out)
{
    node *tuple, *item;
    TRY(parser_descend(p));
    TRY(parse_one_target(p, namespaced, out));
    p->depth--;
    if (!at_operator(p, ","))
        return HEARTH_OK;
    TRY(new_node(p, NODE_TUPLE, &tuple));
    TRY(add_node(p, &tuple->items, *out));
    while (take_operator(p, ",")) {
        if (at_tuple_end(p))
            break;
        TRY(parse_one_target(p, false, &item));
        TRY(add_node(p, &tuple->items, item));
    }
    *out = tuple;
    return HEARTH_OK;
}
