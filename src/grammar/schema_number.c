/* schema_number.c - integers in an exact range, and numbers between whole bounds.
 *
 * Numbers with a fraction have few enough digits behind the point that a program which reads them as doubles does not
 * round them onto a bound, or over it. */
#include "schema_internal.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

enum { DIGITS = 18, DOUBLE_DIGITS = 15 };
#define INTEGER_MAX 999999999999999999 /* 18 digits, which fit into 64 bits */

static fragment digits(schema_compiler *c, uint32_t least, uint32_t most)
{
    return grammar_repeat(c->g, grammar_bytes(c->g, '0', '9'), least, most);
}

static fragment with_minus(schema_compiler *c, fragment f)
{
    return grammar_then(c->g, grammar_bytes(c->g, '-', '-'), f);
}

/* Alternatives so far. */
typedef struct choice {
    schema_compiler *c;
    fragment all;
    bool any;
} choice;

static void add(choice *to, fragment one)
{
    to->all = to->any ? grammar_either(to->c->g, to->all, one) : one;
    to->any = true;
}

/* The numbers low..high, both of `count` digits. It calls itself at most twice per digit. */
static fragment same_length(schema_compiler *c, const char *low, const char *high, uint32_t count)
{
    if (count == 0)
        return grammar_empty(c->g);
    char nines[DIGITS + 1], zeros[DIGITS + 1];
    memset(nines, '9', count);
    memset(zeros, '0', count);
    if (memcmp(low, zeros, count) == 0 && memcmp(high, nines, count) == 0)
        return digits(c, count, count);
    uint8_t first = (uint8_t)low[0], last = (uint8_t)high[0];
    if (first == last)
        return grammar_then(c->g, grammar_bytes(c->g, first, first), same_length(c, low + 1, high + 1, count - 1));
    choice to = {.c = c};
    if (memcmp(low + 1, zeros, count - 1) != 0) {
        add(&to, grammar_then(c->g, grammar_bytes(c->g, first, first), same_length(c, low + 1, nines, count - 1)));
        first++;
    }
    bool whole = memcmp(high + 1, nines, count - 1) == 0;
    if (!whole)
        last--;
    if (first <= last)
        add(&to, grammar_then(c->g, grammar_bytes(c->g, first, last), digits(c, count - 1, count - 1)));
    if (!whole)
        add(&to, grammar_then(c->g, grammar_bytes(c->g, (uint8_t)(last + 1), (uint8_t)(last + 1)),
                              same_length(c, zeros, high + 1, count - 1)));
    return to.all;
}

/* The integers low..high, 0 <= low <= high <= INTEGER_MAX. */
static fragment natural_range(schema_compiler *c, int64_t low, int64_t high)
{
    char low_text[DIGITS + 3], high_text[DIGITS + 3];
    choice to = {.c = c};
    int64_t power = 10; /* above the numbers of `count` digits */
    uint32_t whole_from = 0, count = 1;
    for (;; count++, power *= 10) {
        int64_t least = count == 1 ? 0 : power / 10, most = power - 1;
        if (low <= most && high >= least) {
            int64_t from = low > least ? low : least, to_here = high < most ? high : most;
            if (count > 1 && from == least && to_here == most) {
                whole_from = whole_from > 0 ? whole_from : count;
            } else {
                snprintf(low_text, sizeof low_text, "%lld", (long long)from);
                snprintf(high_text, sizeof high_text, "%lld", (long long)to_here);
                add(&to, same_length(c, low_text, high_text, count));
            }
        }
        /* Lengths of which all numbers belong to the range are one alternative. */
        bool last = count == DIGITS || high <= most;
        if (whole_from > 0 && (last || high < 10 * power - 1)) {
            uint32_t whole_to = high >= most ? count : count - 1;
            add(&to, grammar_then(c->g, grammar_bytes(c->g, '1', '9'), digits(c, whole_from - 1, whole_to - 1)));
            whole_from = 0;
        }
        if (last)
            return to.all;
    }
}

static fragment integer_range(schema_compiler *c, int64_t low, int64_t high)
{
    choice to = {.c = c};
    if (low < 0)
        add(&to, with_minus(c, natural_range(c, high < 0 ? -high : 1, -low)));
    if (high >= 0)
        add(&to, natural_range(c, low > 0 ? low : 0, high));
    return to.all;
}

/* ---- bounds */

typedef struct bounds {
    int64_t low, high;
    bool has_low, has_high;
    bool low_open, high_open; /* only of numbers: the bound itself is excluded */
} bounds;

/* Reads one bound of integers (rounded to where they begin) or numbers (only whole ones). */
static hearth_status read_bound(const schema_compiler *c, const json_t *schema, const char *keyword, bool is_low,
                                bool open, bool integer, bounds *b)
{
    const json_t *value = json_object_get(schema, keyword);
    if (!value)
        return HEARTH_OK;
    double real = json_number_value(value);
    if (!json_is_number(value))
        return schema_fail(c, HEARTH_FORMAT, keyword, "expected a number");
    if (fabs(real) > (integer ? 9e17 : 9e13))
        return schema_fail(c, HEARTH_UNSUPPORTED, keyword, "%g is too large a bound", real);
    bool whole = real == floor(real);
    if (!integer && !whole)
        return schema_fail(c, HEARTH_UNSUPPORTED, keyword, "%g: of numbers only whole bounds are supported", real);
    int64_t bound = json_is_integer(value) ? json_integer_value(value) : (int64_t)(is_low ? ceil(real) : floor(real));
    if (integer && open && whole)
        bound += is_low ? 1 : -1;
    open = open && !integer;
    if (is_low && (!b->has_low || bound > b->low || (bound == b->low && open))) {
        b->low = bound;
        b->low_open = open;
        b->has_low = true;
    }
    if (!is_low && (!b->has_high || bound < b->high || (bound == b->high && open))) {
        b->high = bound;
        b->high_open = open;
        b->has_high = true;
    }
    return HEARTH_OK;
}

static hearth_status read_bounds(const schema_compiler *c, const json_t *schema, bool integer, bounds *b)
{
    static const struct {
        const char *keyword;
        bool is_low, open;
    } rows[] = {{"minimum", true, false},
                {"exclusiveMinimum", true, true},
                {"maximum", false, false},
                {"exclusiveMaximum", false, true}};
    *b = (bounds){.low = -INTEGER_MAX, .high = INTEGER_MAX};
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++)
        TRY(read_bound(c, schema, rows[i].keyword, rows[i].is_low, rows[i].open, integer, b));
    if (b->low > b->high || (b->low == b->high && (b->low_open || b->high_open)))
        return schema_fail(c, HEARTH_FORMAT, NULL, "no number lies within the bounds");
    return HEARTH_OK;
}

/* ---- numbers */

/* The numbers between low and high, which are 0 or more, as decimals without an exponent; behind the point there are
 * at most `places` digits. */
static fragment decimal_range(schema_compiler *c, int64_t low, bool low_open, int64_t high, bool high_open,
                              uint32_t places)
{
    grammar *g = c->g;
    choice to = {.c = c};
    int64_t from = low;
    if (low_open) { /* low.0001: a digit that is not 0 comes last */
        fragment f = grammar_then(g, natural_range(c, low, low), grammar_bytes(g, '.', '.'));
        f = grammar_then(g, f, digits(c, 0, places - 1));
        add(&to, grammar_then(g, f, grammar_bytes(g, '1', '9')));
        from++;
    }
    if (from < high) {
        fragment fraction = grammar_then(g, grammar_bytes(g, '.', '.'), digits(c, 1, places));
        add(&to, grammar_then(g, natural_range(c, from, high - 1), grammar_optional(g, fraction)));
    }
    if (!high_open && from <= high) {
        fragment zeros = grammar_repeat(g, grammar_bytes(g, '0', '0'), 1, places);
        zeros = grammar_then(g, grammar_bytes(g, '.', '.'), zeros);
        add(&to, grammar_then(g, natural_range(c, high, high), grammar_optional(g, zeros)));
    }
    return to.all;
}

static fragment bounded_number(schema_compiler *c, const bounds *b)
{
    char text[DIGITS + 4];
    int64_t largest = b->has_low && b->low != 0 ? (b->low < 0 ? -b->low : b->low) : 1;
    int64_t other = b->has_high ? (b->high < 0 ? -b->high : b->high) : 1;
    int used = snprintf(text, sizeof text, "%lld", (long long)(other > largest ? other : largest));
    uint32_t places = (uint32_t)(DOUBLE_DIGITS - used);
    choice to = {.c = c};
    if (b->low < 0) { /* -0 is 0, and left to the others */
        bool to_zero = b->high >= 0;
        add(&to, with_minus(c, decimal_range(c, to_zero ? 0 : -b->high, to_zero || b->high_open, -b->low, b->low_open,
                                             places)));
    }
    if (b->high > 0 || (b->high == 0 && !b->high_open))
        add(&to, decimal_range(c, b->low > 0 ? b->low : 0, b->low >= 0 && b->low_open, b->high, b->high_open, places));
    return to.all;
}

/* Any number: as JSON writes it, each part with a bound. */
static fragment any_number(schema_compiler *c)
{
    grammar *g = c->g;
    fragment f = grammar_then(g, grammar_optional(g, grammar_bytes(g, '-', '-')), natural_range(c, 0, INTEGER_MAX));
    fragment fraction = grammar_then(g, grammar_bytes(g, '.', '.'), digits(c, 1, DIGITS));
    fragment sign = grammar_either(g, grammar_bytes(g, '+', '+'), grammar_bytes(g, '-', '-'));
    fragment exponent = grammar_either(g, grammar_bytes(g, 'e', 'e'), grammar_bytes(g, 'E', 'E'));
    exponent = grammar_then(g, grammar_then(g, exponent, grammar_optional(g, sign)), digits(c, 1, 2));
    f = grammar_then(g, f, grammar_optional(g, fraction));
    return grammar_then(g, f, grammar_optional(g, exponent));
}

hearth_status schema_number(schema_compiler *c, const json_t *schema, bool integer, fragment *out)
{
    bounds b;
    TRY(read_bounds(c, schema, integer, &b));
    if (b.has_low || b.has_high) {
        *out = integer ? integer_range(c, b.low, b.high) : bounded_number(c, &b);
        return HEARTH_OK;
    }
    uint32_t *rule = integer ? &c->integer : &c->number;
    if (*rule == GRAMMAR_NONE) {
        *rule = grammar_rule_new(c->g, span_of(integer ? "integer" : "number"), 0);
        grammar_rule_define(c->g, *rule, integer ? integer_range(c, b.low, b.high) : any_number(c));
    }
    *out = grammar_call(c->g, *rule);
    return HEARTH_OK;
}
