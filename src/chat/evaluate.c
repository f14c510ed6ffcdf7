/* evaluate.c - expressions to values. */
#include "evaluate.h"

#include "builtins.h"
#include "characters.h"

#include <stdio.h>
#include <string.h>

/* ------------------------------------------------------------------ names, attributes, items */

hearth_status frame_find(rendering *r, const frame *f, span name, const value **out)
{
    size_t searched = 0;
    *out = NULL;
    for (; f && !*out; f = f->parent) {
        searched += 1 + f->names->count;
        *out = dict_find_text(f->names, name);
    }
    return rendering_spend(r, 1 + searched / ITEMS_PER_STEP);
}

/* Makes an undefined value that says why, should somebody use it. */
static hearth_status undefined(rendering *r, value *out, const char *format, const char *kind, span name)
{
    char why[256];
    int size = snprintf(why, sizeof why, format, kind, (int)(name.size < 100 ? name.size : 100), name.data);
    char *copy = rendering_claim(r, (size_t)size, 1);
    if (!copy)
        return HEARTH_NO_MEMORY;
    memcpy(copy, why, (size_t)size);
    *out = value_undefined((span){copy, (size_t)size});
    return HEARTH_OK;
}

static hearth_status evaluate_name(rendering *r, const frame *f, const node *n, value *out)
{
    const value *found;
    TRY(frame_find(r, f, n->name, &found));
    const function *global = found ? NULL : global_find(n->name);
    if (found)
        *out = *found;
    else if (global)
        *out = (value){.kind = VALUE_FUNCTION, .as.function = global};
    else
        return undefined(r, out, "%s'%.*s' is undefined", "", n->name);
    return HEARTH_OK;
}

static hearth_status bind_method(rendering *r, const value *v, const function *row, value *out)
{
    method *m = rendering_claim(r, 1, sizeof *m);
    if (!m)
        return HEARTH_NO_MEMORY;
    *m = (method){row, *v};
    *out = (value){.kind = VALUE_METHOD, .as.method = m};
    return HEARTH_OK;
}

/* The attributes of `loop`; false: it has no such one. */
static bool loop_attribute(const loop *l, span name, value *out)
{
    const size_t count = l->items.count, index = l->index;
    const struct {
        const char *name;
        value value;
    } attributes[] = {
        {"index", value_integer((int64_t)index + 1)},
        {"index0", value_integer((int64_t)index)},
        {"revindex", value_integer((int64_t)(count - index))},
        {"revindex0", value_integer((int64_t)(count - index) - 1)},
        {"first", value_bool(index == 0)},
        {"last", value_bool(index + 1 == count)},
        {"length", value_integer((int64_t)count)},
        {"depth", value_integer((int64_t)l->depth + 1)},
        {"depth0", value_integer((int64_t)l->depth)},
        {"previtem", index > 0 ? l->items.items[index - 1] : value_undefined(span_of("there is no previous item"))},
        {"nextitem", index + 1 < count ? l->items.items[index + 1] : value_undefined(span_of("there is no next item"))},
    };
    for (size_t i = 0; i < sizeof attributes / sizeof *attributes; i++)
        if (span_equal(name, span_of(attributes[i].name))) {
            *out = attributes[i].value;
            return true;
        }
    return false;
}

static hearth_status no_attribute(rendering *r, const value *v, span name, value *out)
{
    return undefined(r, out, "'%s object' has no attribute '%.*s'", value_kind_name(v), name);
}

static hearth_status use_undefined(rendering *r, const value *v)
{
    return rendering_fail(r, HEARTH_INVALID, "%.*s", (int)v->as.text.size, v->as.text.data);
}

hearth_status value_attribute(rendering *r, const value *v, span name, value *out)
{
    if (is_missing(v))
        return use_undefined(r, v);
    const function *row = method_find(v, name);
    if (row)
        return bind_method(r, v, row, out);
    if (v->kind == VALUE_LOOP && loop_attribute(v->as.loop, name, out))
        return HEARTH_OK;
    if (v->kind == VALUE_DICT || v->kind == VALUE_NAMESPACE) {
        value *found, key = value_text(name);
        TRY(dict_find(r, v->as.dict, &key, &found));
        if (found) {
            *out = *found;
            return HEARTH_OK;
        }
    }
    return no_attribute(r, v, name, out);
}

/* Counts an index from the end if it is negative; false: it is outside. */
static bool resolve_index(int64_t index, size_t count, size_t *out)
{
    if (index < 0)
        index += (int64_t)count;
    *out = (size_t)index;
    return index >= 0 && (size_t)index < count;
}

static hearth_status item_by_index(rendering *r, const value *v, int64_t index, value *out)
{
    size_t count, at;
    TRY(value_length(r, v, &count));
    if (!resolve_index(index, count, &at))
        return undefined(r, out, "'%s object' has no such item%.*s", value_kind_name(v), (span){"", 0});
    if (is_list(v)) {
        *out = v->as.list.items[at];
        return HEARTH_OK;
    }
    span rest = v->as.text;
    size_t before = characters_bytes(rest, at);
    rest = (span){rest.data + before, rest.size - before};
    *out = value_text((span){rest.data, utf8_length(rest.data, rest.size)});
    return HEARTH_OK;
}

hearth_status value_item(rendering *r, const value *v, const value *key, value *out)
{
    if (is_missing(v))
        return use_undefined(r, v);
    if ((is_list(v) || is_text(v)) && is_integer(key))
        return item_by_index(r, v, value_as_integer(key), out);
    if (v->kind == VALUE_DICT || v->kind == VALUE_NAMESPACE) {
        value *found;
        TRY(dict_find(r, v->as.dict, key, &found));
        if (found) {
            *out = *found;
            return HEARTH_OK;
        }
    }
    if (is_text(key))
        return value_attribute(r, v, key->as.text, out);
    return undefined(r, out, "'%s object' has no such item%.*s", value_kind_name(v), (span){"", 0});
}

/* ------------------------------------------------------------------ slices */

/* Where a slice begins, in which steps it goes, and how many items it has: Python's PySlice_AdjustIndices. */
typedef struct slice_plan {
    size_t from, count;
    int64_t step;
} slice_plan;

/* Reads a part of a slice; *given: it is there. */
static hearth_status slice_part(rendering *r, const frame *f, const node *n, int64_t *out, bool *given)
{
    value v = value_none();
    if (n)
        TRY(evaluate(r, f, n, &v));
    *given = v.kind != VALUE_NONE;
    if (*given && !is_integer(&v))
        return is_missing(&v) ? use_undefined(r, &v)
                              : rendering_fail(r, HEARTH_INVALID, "slice indices must be integers or None, not %s",
                                               value_kind_name(&v));
    *out = *given ? value_as_integer(&v) : 0;
    return HEARTH_OK;
}

/* Brings a limit into [least, most]; a negative one counts from the end. */
static int64_t clamp_limit(int64_t limit, int64_t count, int64_t least, int64_t most)
{
    if (limit < 0)
        limit = limit < -count ? least : limit + count;
    return limit < least ? least : limit > most ? most : limit;
}

static hearth_status plan_slice(rendering *r, const frame *f, const node *n, size_t count, slice_plan *out)
{
    int64_t from, to, step, length = (int64_t)count;
    bool has_from, has_to, has_step;
    TRY(slice_part(r, f, n->items.items[0], &from, &has_from));
    TRY(slice_part(r, f, n->items.items[1], &to, &has_to));
    TRY(slice_part(r, f, n->items.items[2], &step, &has_step));
    step = has_step ? step : 1;
    if (step == 0)
        return rendering_fail(r, HEARTH_INVALID, "slice step cannot be zero");
    if (step < -length - 1) /* no more than the first item, either way; and the negation below fits */
        step = -length - 1;
    int64_t least = step > 0 ? 0 : -1, most = step > 0 ? length : length - 1;
    from = has_from ? clamp_limit(from, length, least, most) : step > 0 ? 0 : length - 1;
    to = has_to ? clamp_limit(to, length, least, most) : step > 0 ? length : -1;
    int64_t distance = step > 0 ? to - from : from - to, stride = step > 0 ? step : -step;
    *out = (slice_plan){(size_t)from, distance > 0 ? (size_t)((distance - 1) / stride + 1) : 0, step};
    return HEARTH_OK;
}

static hearth_status evaluate_slice(rendering *r, const frame *f, const node *n, value *out)
{
    value subject;
    slice_plan plan = {0};
    value_list items;
    size_t count;
    TRY(evaluate(r, f, n->a, &subject));
    if (is_missing(&subject))
        return use_undefined(r, &subject);
    if (!is_text(&subject) && !is_list(&subject))
        return rendering_fail(r, HEARTH_INVALID, "'%s' object cannot be sliced", value_kind_name(&subject));
    TRY(value_length(r, &subject, &count));
    TRY(plan_slice(r, f, n, count, &plan));
    *out = subject;
    if (is_text(&subject) && plan.step == 1) {
        span text = subject.as.text;
        size_t before = characters_bytes(text, plan.from);
        text = (span){text.data + before, text.size - before};
        out->as.text = (span){text.data, characters_bytes(text, plan.count)};
        return HEARTH_OK;
    }
    if (plan.step == 1) {
        out->as.list = (value_list){subject.as.list.items + plan.from, plan.count};
        return HEARTH_OK;
    }
    TRY(value_items(r, &subject, &items));
    growing text = {0};
    growing_list list = {0};
    for (size_t i = 0; i < plan.count; i++) {
        const value *item = &items.items[(int64_t)plan.from + (int64_t)i * plan.step];
        if (is_text(&subject))
            TRY(growing_put(r, &text, item->as.text.data, item->as.text.size));
        else
            TRY(growing_add(r, &list, *item));
    }
    if (is_text(&subject))
        out->as.text = growing_value(&text).as.text;
    else
        out->as.list = (value_list){list.items, list.count};
    return HEARTH_OK;
}

/* ------------------------------------------------------------------ calls */

hearth_status value_call(rendering *r, const value *v, const arguments *a, value *out)
{
    switch (v->kind) {
    case VALUE_FUNCTION:
        return function_call(r, v->as.function, NULL, a, out);
    case VALUE_METHOD:
        return function_call(r, v->as.method->function, &v->as.method->self, a, out);
    case VALUE_MACRO:
        return macro_call(r, v->as.macro, a, out);
    case VALUE_LOOP:
        return loop_call(r, v->as.loop, a, out);
    case VALUE_UNDEFINED:
        return use_undefined(r, v);
    default:
        return rendering_fail(r, HEARTH_INVALID, "'%s' object is not callable", value_kind_name(v));
    }
}

/* Evaluates a list of expressions into a growing list. */
static hearth_status evaluate_all(rendering *r, const frame *f, const node_list *nodes, growing_list *out)
{
    for (size_t i = 0; i < nodes->count; i++) {
        value item;
        TRY(evaluate(r, f, nodes->items[i], &item));
        TRY(growing_add(r, out, item));
    }
    return HEARTH_OK;
}

/* Adds the items of *list and the entries of **dict. */
static hearth_status spread(rendering *r, const frame *f, const node *n, growing_list *items, growing_list *named,
                            span **names)
{
    value v;
    if (n->star) {
        value_list more;
        TRY(evaluate(r, f, n->star, &v));
        TRY(value_items(r, &v, &more));
        for (size_t i = 0; i < more.count; i++)
            TRY(growing_add(r, items, more.items[i]));
    }
    if (!n->double_star)
        return HEARTH_OK;
    TRY(evaluate(r, f, n->double_star, &v));
    if (v.kind != VALUE_DICT)
        return rendering_fail(r, HEARTH_INVALID, "argument after ** must be a mapping, not %s", value_kind_name(&v));
    span *all = rendering_claim(r, named->count + v.as.dict->count, sizeof *all);
    if (!all)
        return HEARTH_NO_MEMORY;
    if (named->count > 0)
        memcpy(all, *names, named->count * sizeof *all);
    *names = all;
    for (size_t i = 0; i < v.as.dict->count; i++) {
        const struct entry *e = &v.as.dict->entries[i];
        if (!is_text(&e->key))
            return rendering_fail(r, HEARTH_INVALID, "keywords must be strings");
        all[named->count] = e->key.as.text;
        TRY(growing_add(r, named, e->value));
    }
    return HEARTH_OK;
}

static hearth_status evaluate_arguments(rendering *r, const frame *f, const node *n, arguments *out)
{
    growing_list items = {0}, named = {0};
    span *names = n->names;
    TRY(evaluate_all(r, f, &n->items, &items));
    TRY(evaluate_all(r, f, &n->named, &named));
    TRY(spread(r, f, n, &items, &named, &names));
    *out = (arguments){items.items, items.count, names, named.items, named.count};
    return HEARTH_OK;
}

static hearth_status evaluate_call(rendering *r, const frame *f, const node *n, value *out)
{
    value callee;
    arguments a;
    TRY(evaluate(r, f, n->a, &callee));
    TRY(evaluate_arguments(r, f, n, &a));
    return value_call(r, &callee, &a, out);
}

static hearth_status evaluate_filter(rendering *r, const frame *f, const node *n, value *out)
{
    value subject;
    arguments a;
    const function *row = filter_find(n->name);
    if (!row)
        return rendering_fail(r, HEARTH_UNSUPPORTED, "the filter '%.*s' is not known", (int)n->name.size, n->name.data);
    TRY(evaluate(r, f, n->a, &subject));
    TRY(evaluate_arguments(r, f, n, &a));
    return function_call(r, row, &subject, &a, out);
}

static hearth_status evaluate_test(rendering *r, const frame *f, const node *n, value *out)
{
    value subject;
    arguments a;
    const function *row = test_find(n->name);
    if (!row)
        return rendering_fail(r, HEARTH_UNSUPPORTED, "the test '%.*s' is not known", (int)n->name.size, n->name.data);
    TRY(evaluate(r, f, n->a, &subject));
    TRY(evaluate_arguments(r, f, n, &a));
    TRY(function_call(r, row, &subject, &a, out));
    *out = value_bool(value_is_true(out) != n->is_negated);
    return HEARTH_OK;
}

/* ------------------------------------------------------------------ lists and operators */

static hearth_status evaluate_list(rendering *r, const frame *f, const node *n, value *out)
{
    growing_list items = {0};
    TRY(evaluate_all(r, f, &n->items, &items));
    *out = growing_list_value(&items);
    out->kind = n->kind == NODE_TUPLE ? VALUE_TUPLE : VALUE_LIST;
    return HEARTH_OK;
}

static hearth_status evaluate_dict(rendering *r, const frame *f, const node *n, value *out)
{
    dict *d = dict_new(r);
    if (!d)
        return HEARTH_NO_MEMORY;
    for (size_t i = 0; i < n->items.count; i += 2) {
        value key, item;
        TRY(evaluate(r, f, n->items.items[i], &key));
        TRY(evaluate(r, f, n->items.items[i + 1], &item));
        TRY(dict_set(r, d, key, item));
    }
    *out = (value){.kind = VALUE_DICT, .as.dict = d};
    return HEARTH_OK;
}

/* and, or: the operand that decides, not its truth. */
static hearth_status evaluate_logic(rendering *r, const frame *f, const node *n, value *out)
{
    TRY(evaluate(r, f, n->a, out));
    return value_is_true(out) == (n->kind == NODE_AND) ? evaluate(r, f, n->b, out) : HEARTH_OK;
}

static hearth_status evaluate_not(rendering *r, const frame *f, const node *n, value *out)
{
    TRY(evaluate(r, f, n->a, out));
    *out = value_bool(!value_is_true(out));
    return HEARTH_OK;
}

static hearth_status evaluate_condition(rendering *r, const frame *f, const node *n, value *out)
{
    TRY(evaluate(r, f, n->b, out));
    if (value_is_true(out))
        return evaluate(r, f, n->a, out);
    if (n->c)
        return evaluate(r, f, n->c, out);
    *out = value_undefined(span_of("the inline if-expression evaluated to false and no else section was defined."));
    return HEARTH_OK;
}

static hearth_status evaluate_unary(rendering *r, const frame *f, const node *n, value *out)
{
    TRY(evaluate(r, f, n->a, out));
    if (is_missing(out))
        return use_undefined(r, out);
    if (!is_number(out))
        return rendering_fail(r, HEARTH_INVALID, "bad operand type for unary %c: '%s'",
                              n->operator== OPERATOR_SUBTRACT ? '-' : '+', value_kind_name(out));
    const value zero = value_integer(0);
    const value number = *out;
    if (number.kind == VALUE_FLOAT && n->operator== OPERATOR_SUBTRACT)
        *out = value_float(-number.as.real); /* 0.0 becomes -0.0 */
    else if (number.kind != VALUE_FLOAT)
        return value_operate(r, n->operator, & zero, &number, out);
    return HEARTH_OK;
}

static hearth_status evaluate_binary(rendering *r, const frame *f, const node *n, value *out)
{
    value a, b;
    TRY(evaluate(r, f, n->a, &a));
    TRY(evaluate(r, f, n->b, &b));
    if (is_missing(&a) || is_missing(&b))
        return use_undefined(r, is_missing(&a) ? &a : &b);
    return value_operate(r, n->operator, & a, &b, out);
}

static hearth_status evaluate_concat(rendering *r, const frame *f, const node *n, value *out)
{
    growing text = {0};
    for (size_t i = 0; i < n->items.count; i++) {
        value item;
        TRY(evaluate(r, f, n->items.items[i], &item));
        TRY(value_put(r, &text, &item));
    }
    *out = growing_value(&text);
    return HEARTH_OK;
}

static hearth_status compare(rendering *r, operator_kind operator, const value * a, const value *b, bool *out)
{
    int order = 0;
    switch (operator) {
    case OPERATOR_EQUAL:
    case OPERATOR_NOT_EQUAL:
        TRY(value_equal(r, a, b, out));
        *out = *out == (operator== OPERATOR_EQUAL);
        return HEARTH_OK;
    case OPERATOR_IN:
    case OPERATOR_NOT_IN:
        TRY(value_contains(r, b, a, out));
        *out = *out == (operator== OPERATOR_IN);
        return HEARTH_OK;
    default:
        TRY(value_order(r, a, b, &order));
        *out = operator== OPERATOR_LESS       ? order < 0 :
               operator== OPERATOR_LESS_EQUAL ? order <= 0
               :
               operator== OPERATOR_GREATER ? order > 0
                                           : order >= 0;
        return HEARTH_OK;
    }
}

/* a < b < c is a < b and b < c, with b evaluated once. */
static hearth_status evaluate_compare(rendering *r, const frame *f, const node *n, value *out)
{
    value left, right;
    bool holds = true;
    TRY(evaluate(r, f, n->a, &left));
    for (size_t i = 0; i < n->items.count && holds; i++) {
        TRY(evaluate(r, f, n->items.items[i], &right));
        TRY(compare(r, n->operators[i], &left, &right, &holds));
        left = right;
    }
    *out = value_bool(holds);
    return HEARTH_OK;
}

static hearth_status evaluate_constant(rendering *r, const frame *f, const node *n, value *out)
{
    (void)r, (void)f;
    *out = n->constant;
    return HEARTH_OK;
}

static hearth_status evaluate_attribute(rendering *r, const frame *f, const node *n, value *out)
{
    value subject;
    TRY(evaluate(r, f, n->a, &subject));
    return value_attribute(r, &subject, n->name, out);
}

static hearth_status evaluate_item(rendering *r, const frame *f, const node *n, value *out)
{
    value subject, key;
    TRY(evaluate(r, f, n->a, &subject));
    TRY(evaluate(r, f, n->b, &key));
    return value_item(r, &subject, &key, out);
}

hearth_status evaluate(rendering *r, const frame *f, const node *n, value *out)
{
    static hearth_status (*const table[])(rendering * r, const frame *f, const node *n, value *out) = {
        [NODE_CONSTANT] = evaluate_constant,   [NODE_NAME] = evaluate_name,     [NODE_LIST] = evaluate_list,
        [NODE_TUPLE] = evaluate_list,          [NODE_DICT] = evaluate_dict,     [NODE_ATTRIBUTE] = evaluate_attribute,
        [NODE_ITEM] = evaluate_item,           [NODE_SLICE] = evaluate_slice,   [NODE_CALL] = evaluate_call,
        [NODE_FILTER] = evaluate_filter,       [NODE_TEST] = evaluate_test,     [NODE_NOT] = evaluate_not,
        [NODE_AND] = evaluate_logic,           [NODE_OR] = evaluate_logic,      [NODE_UNARY] = evaluate_unary,
        [NODE_BINARY] = evaluate_binary,       [NODE_CONCAT] = evaluate_concat, [NODE_COMPARE] = evaluate_compare,
        [NODE_CONDITION] = evaluate_condition,
    };
    TRY(rendering_spend(r, 1));
    TRY(rendering_enter(r));
    uint32_t line = r->line;
    r->line = n->line;
    hearth_status status = table[n->kind](r, f, n, out);
    if (status == HEARTH_OK)
        r->line = line;
    rendering_leave(r);
    return status;
}
