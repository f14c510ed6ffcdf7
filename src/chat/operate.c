/* operate.c - arithmetic, as Python has it for numbers, texts and lists. */
#include "builtins.h"

#include <math.h>
#include <string.h>

static hearth_status refuse_operands(rendering *r, const char *symbol, const value *a, const value *b)
{
    return rendering_fail(r, HEARTH_INVALID, "unsupported operand type(s) for %s: '%s' and '%s'", symbol,
                          value_kind_name(a), value_kind_name(b));
}

static const char *const symbols[] = {
    [OPERATOR_ADD] = "+",           [OPERATOR_SUBTRACT] = "-",  [OPERATOR_MULTIPLY] = "*", [OPERATOR_DIVIDE] = "/",
    [OPERATOR_FLOOR_DIVIDE] = "//", [OPERATOR_REMAINDER] = "%", [OPERATOR_POWER] = "**",
};

/* ------------------------------------------------------------------ texts and lists */

/* Appends a text to one that is marked as safe: with & < > ' " escaped, unless it is marked, too. */
static hearth_status put_safely(rendering *r, growing *g, const value *v, bool escapes)
{
    span escaped = v->as.text;
    if (escapes && !v->is_safe) {
        value out;
        TRY(function_call(r, filter_find(span_of("escape")), v, &(arguments){0}, &out));
        escaped = out.as.text;
    }
    return growing_put(r, g, escaped.data, escaped.size);
}

static hearth_status add_texts(rendering *r, const value *a, const value *b, value *out)
{
    growing text = {0};
    bool is_safe = a->is_safe || b->is_safe;
    TRY(rendering_spend_on(r, a));
    TRY(rendering_spend_on(r, b));
    TRY(put_safely(r, &text, a, is_safe));
    TRY(put_safely(r, &text, b, is_safe));
    *out = growing_value(&text);
    out->is_safe = is_safe;
    return HEARTH_OK;
}

static hearth_status add_lists(rendering *r, const value *a, const value *b, value *out)
{
    size_t count = a->as.list.count + b->as.list.count;
    value *items = rendering_claim(r, count, sizeof *items);
    if (!items)
        return HEARTH_NO_MEMORY;
    TRY(rendering_spend(r, count / ITEMS_PER_STEP));
    if (a->as.list.count > 0)
        memcpy(items, a->as.list.items, a->as.list.count * sizeof *items);
    if (b->as.list.count > 0)
        memcpy(items + a->as.list.count, b->as.list.items, b->as.list.count * sizeof *items);
    out->kind = a->kind;
    out->as.list = (value_list){items, count};
    return HEARTH_OK;
}

/* Repeats a text or list. */
static hearth_status repeat(rendering *r, const value *what, int64_t times, value *out)
{
    size_t count = times > 0 ? (size_t)times : 0, size = is_text(what) ? what->as.text.size : what->as.list.count,
           total;
    size_t item_bytes = is_text(what) ? 1 : sizeof(value);
    if (!size_multiply(count, size, &total))
        total = SIZE_MAX;
    char *all = rendering_claim(r, total, item_bytes);
    if (!all)
        return HEARTH_NO_MEMORY;
    TRY(rendering_spend(r, total / BYTES_PER_STEP));
    const void *from = is_text(what) ? (const void *)what->as.text.data : what->as.list.items;
    for (size_t i = 0; i < count && size > 0; i++)
        memcpy(all + i * size * item_bytes, from, size * item_bytes);
    *out = *what;
    if (is_text(what))
        out->as.text = (span){all, total};
    else
        out->as.list = (value_list){(value *)(void *)all, total};
    return HEARTH_OK;
}

/* ------------------------------------------------------------------ numbers */

static hearth_status too_large(rendering *r)
{
    return rendering_fail(r, HEARTH_UNSUPPORTED, "an integer is larger than 64 bits hold");
}

static hearth_status divides_by_zero(rendering *r)
{
    return rendering_fail(r, HEARTH_INVALID, "division by zero");
}

/* Divides downwards, as Python does: -7 // 2 is -4, and -7 % 2 is 1. */
static hearth_status floor_integers(rendering *r, int64_t a, int64_t b, bool wants_remainder, int64_t *out)
{
    if (b == 0)
        return divides_by_zero(r);
    if (b == -1) { /* the one quotient that does not fit is -INT64_MIN */
        *out = 0;
        return !wants_remainder && __builtin_sub_overflow((int64_t)0, a, out) ? too_large(r) : HEARTH_OK;
    }
    int64_t quotient = a / b, remainder = a % b;
    bool is_below = remainder != 0 && (remainder < 0) != (b < 0);
    *out = wants_remainder ? remainder + (is_below ? b : 0) : quotient - is_below;
    return HEARTH_OK;
}

/* Raises to a power of at least 0 by squaring. */
static hearth_status power_integers(rendering *r, int64_t base, int64_t exponent, int64_t *out)
{
    int64_t result = 1;
    bool overflows = false;
    for (; exponent > 0 && !overflows; exponent >>= 1) {
        if (exponent & 1)
            overflows = __builtin_mul_overflow(result, base, &result);
        if (exponent > 1)
            overflows = __builtin_mul_overflow(base, base, &base) || overflows;
    }
    *out = result;
    return overflows ? too_large(r) : HEARTH_OK;
}

static hearth_status operate_floats(rendering *r, operator_kind operator, double a, double b, value *out)
{
    bool divides = operator== OPERATOR_DIVIDE || operator== OPERATOR_FLOOR_DIVIDE || operator== OPERATOR_REMAINDER;
    if (divides && b == 0)
        return divides_by_zero(r);
    double result = 0;
    switch (operator) {
    case OPERATOR_ADD:
        result = a + b;
        break;
    case OPERATOR_SUBTRACT:
        result = a - b;
        break;
    case OPERATOR_MULTIPLY:
        result = a * b;
        break;
    case OPERATOR_DIVIDE:
        result = a / b;
        break;
    case OPERATOR_FLOOR_DIVIDE:
        result = floor(a / b);
        break;
    case OPERATOR_REMAINDER:
        result = fmod(a, b);
        if (result != 0 && (result < 0) != (b < 0))
            result += b;
        break;
    default:
        result = pow(a, b);
    }
    *out = value_float(result);
    return HEARTH_OK;
}

static hearth_status operate_integers(rendering *r, operator_kind operator, int64_t a, int64_t b, value *out)
{
    int64_t result = 0;
    bool overflows = false;
    switch (operator) {
    case OPERATOR_ADD:
        overflows = __builtin_add_overflow(a, b, &result);
        break;
    case OPERATOR_SUBTRACT:
        overflows = __builtin_sub_overflow(a, b, &result);
        break;
    case OPERATOR_MULTIPLY:
        overflows = __builtin_mul_overflow(a, b, &result);
        break;
    case OPERATOR_FLOOR_DIVIDE:
    case OPERATOR_REMAINDER:
        TRY(floor_integers(r, a, b, operator== OPERATOR_REMAINDER, &result));
        break;
    case OPERATOR_POWER:
        if (b < 0)
            return operate_floats(r, operator,(double) a, (double)b, out);
        TRY(power_integers(r, a, b, &result));
        break;
    default: /* a division is always a float */
        return operate_floats(r, operator,(double) a, (double)b, out);
    }
    *out = value_integer(result);
    return overflows ? too_large(r) : HEARTH_OK;
}

/* "text %s" % value, through the filter `format`. */
static hearth_status format_text(rendering *r, const value *text, const value *items, value *out)
{
    arguments a = {.items = items, .count = 1};
    if (items->kind == VALUE_TUPLE)
        a = (arguments){.items = items->as.list.items, .count = items->as.list.count};
    return function_call(r, filter_find(span_of("format")), text, &a, out);
}

hearth_status value_operate(rendering *r, operator_kind operator, const value * a, const value *b, value *out)
{
    bool adds = operator== OPERATOR_ADD, multiplies = operator== OPERATOR_MULTIPLY;
    if (is_integer(a) && is_integer(b))
        return operate_integers(r, operator, value_as_integer(a), value_as_integer(b), out);
    if (is_number(a) && is_number(b))
        return operate_floats(r, operator, value_as_float(a), value_as_float(b), out);
    if (adds && is_text(a) && is_text(b))
        return add_texts(r, a, b, out);
    if (adds && is_list(a) && a->kind == b->kind)
        return add_lists(r, a, b, out);
    if (multiplies && (is_text(a) || is_list(a)) && is_integer(b))
        return repeat(r, a, value_as_integer(b), out);
    if (multiplies && (is_text(b) || is_list(b)) && is_integer(a))
        return repeat(r, b, value_as_integer(a), out);
    if (operator== OPERATOR_REMAINDER && is_text(a))
        return format_text(r, a, b, out);
    return refuse_operands(r, symbols[operator], a, b);
}
