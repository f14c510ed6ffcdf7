/* tests.c - what may follow `is`. */
#include "builtins.h"

#include <string.h>

#define KIND_TEST(kind_name, condition)                                           \
    static hearth_status run_##kind_name(rendering *r, const call *c, value *out) \
    {                                                                             \
        (void)r;                                                                  \
        const value *v = &c->subject;                                             \
        *out = value_bool(condition);                                             \
        return HEARTH_OK;                                                         \
    }

KIND_TEST(defined, !is_missing(v))
KIND_TEST(undefined, is_missing(v))
KIND_TEST(none, v->kind == VALUE_NONE)
KIND_TEST(boolean, v->kind == VALUE_BOOL)
KIND_TEST(is_true, v->kind == VALUE_BOOL && v->as.truth)
KIND_TEST(is_false, v->kind == VALUE_BOOL && !v->as.truth)
KIND_TEST(integer, v->kind == VALUE_INTEGER)
KIND_TEST(real, v->kind == VALUE_FLOAT)
KIND_TEST(number, is_number(v))
KIND_TEST(string, is_text(v))
KIND_TEST(mapping, v->kind == VALUE_DICT)
KIND_TEST(iterable, is_missing(v) || is_text(v) || is_list(v) || v->kind == VALUE_DICT || v->kind == VALUE_LOOP)
KIND_TEST(sequence, is_missing(v) || is_text(v) || is_list(v) || v->kind == VALUE_DICT)
KIND_TEST(callable, v->kind == VALUE_FUNCTION || v->kind == VALUE_METHOD || v->kind == VALUE_MACRO)
KIND_TEST(escaped, is_text(v) && v->is_safe)
KIND_TEST(is_filter, is_text(v) && filter_find(v->as.text))
KIND_TEST(is_test, is_text(v) && test_find(v->as.text))

/* Returns whether all letters are of one case, and there is one: no change by that case, but by the other. */
static hearth_status test_case(rendering *r, const call *c, const char *method_name, value *out)
{
    value text = c->subject;
    if (!is_text(&text)) {
        span written;
        TRY(value_to_text(r, &text, &written));
        text = value_text(written);
    }
    return function_call(r, method_find(&text, span_of(method_name)), &text, &(arguments){0}, out);
}

static hearth_status run_lower(rendering *r, const call *c, value *out)
{
    return test_case(r, c, "islower", out);
}

static hearth_status run_upper(rendering *r, const call *c, value *out)
{
    return test_case(r, c, "isupper", out);
}

static hearth_status test_remainder(rendering *r, const call *c, int64_t divisor, int64_t wanted, value *out)
{
    if (!is_integer(&c->subject) || divisor == 0)
        return rendering_fail(r, HEARTH_INVALID, "%s: needs an int, got %s", c->name,
                              divisor == 0 ? "0" : value_kind_name(&c->subject));
    int64_t number = value_as_integer(&c->subject);
    int64_t remainder = divisor == -1 ? 0 : number % divisor;
    *out = value_bool((remainder != 0) == (wanted != 0));
    return HEARTH_OK;
}

static hearth_status run_even(rendering *r, const call *c, value *out)
{
    return test_remainder(r, c, 2, 0, out);
}

static hearth_status run_odd(rendering *r, const call *c, value *out)
{
    return test_remainder(r, c, 2, 1, out);
}

static hearth_status run_divisible(rendering *r, const call *c, value *out)
{
    int64_t divisor;
    TRY(call_integer(r, c, 0, 0, &divisor));
    return test_remainder(r, c, divisor, 0, out);
}

static hearth_status run_equal(rendering *r, const call *c, value *out)
{
    bool equal;
    TRY(value_equal(r, &c->subject, &c->parameters[0], &equal));
    *out = value_bool(equal);
    return HEARTH_OK;
}

static hearth_status run_not_equal(rendering *r, const call *c, value *out)
{
    bool equal;
    TRY(value_equal(r, &c->subject, &c->parameters[0], &equal));
    *out = value_bool(!equal);
    return HEARTH_OK;
}

#define ORDER_TEST(order_name, condition)                                          \
    static hearth_status run_##order_name(rendering *r, const call *c, value *out) \
    {                                                                              \
        int order;                                                                 \
        TRY(value_order(r, &c->subject, &c->parameters[0], &order));               \
        *out = value_bool(condition);                                              \
        return HEARTH_OK;                                                          \
    }

ORDER_TEST(less, order < 0)
ORDER_TEST(less_equal, order <= 0)
ORDER_TEST(greater, order > 0)
ORDER_TEST(greater_equal, order >= 0)

static hearth_status run_in(rendering *r, const call *c, value *out)
{
    bool found;
    TRY(value_contains(r, &c->parameters[0], &c->subject, &found));
    *out = value_bool(found);
    return HEARTH_OK;
}

/* The same object in Python: for what has no identity here, an equal value of the same kind. */
static hearth_status run_same(rendering *r, const call *c, value *out)
{
    if (c->subject.kind == c->parameters[0].kind)
        return run_equal(r, c, out);
    *out = value_bool(false);
    return HEARTH_OK;
}

static const function rows[] = {
    {"defined", "", run_defined},
    {"undefined", "", run_undefined},
    {"none", "", run_none},
    {"boolean", "", run_boolean},
    {"true", "", run_is_true},
    {"false", "", run_is_false},
    {"integer", "", run_integer},
    {"float", "", run_real},
    {"number", "", run_number},
    {"string", "", run_string},
    {"mapping", "", run_mapping},
    {"iterable", "", run_iterable},
    {"sequence", "", run_sequence},
    {"callable", "", run_callable},
    {"escaped", "", run_escaped},
    {"filter", "", run_is_filter},
    {"test", "", run_is_test},
    {"lower", "", run_lower},
    {"upper", "", run_upper},
    {"even", "", run_even},
    {"odd", "", run_odd},
    {"divisibleby", "num", run_divisible},
    {"eq", "other", run_equal},
    {"equalto", "other", run_equal},
    {"==", "other", run_equal},
    {"ne", "other", run_not_equal},
    {"!=", "other", run_not_equal},
    {"lt", "other", run_less},
    {"lessthan", "other", run_less},
    {"<", "other", run_less},
    {"le", "other", run_less_equal},
    {"<=", "other", run_less_equal},
    {"gt", "other", run_greater},
    {"greaterthan", "other", run_greater},
    {">", "other", run_greater},
    {"ge", "other", run_greater_equal},
    {">=", "other", run_greater_equal},
    {"in", "seq", run_in},
    {"sameas", "other", run_same},
};

const function *test_at(size_t index)
{
    return index < sizeof rows / sizeof *rows ? &rows[index] : NULL;
}

const function *test_find(span name)
{
    const function *f;
    for (size_t i = 0; (f = test_at(i)); i++)
        if (span_equal(name, span_of(f->name)))
            return f;
    return NULL;
}
