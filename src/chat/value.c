/* value.c - what all values have: a kind, a truth, equality, an order, items. */
#include "rendering.h"

#include <math.h>
#include <string.h>

int64_t value_as_integer(const value *v)
{
    return v->kind == VALUE_BOOL ? v->as.truth : v->as.integer;
}

double value_as_float(const value *v)
{
    return v->kind == VALUE_FLOAT ? v->as.real : (double)value_as_integer(v);
}

const char *value_kind_name(const value *v)
{
    static const char *const names[] = {
        [VALUE_ABSENT] = "Undefined", [VALUE_UNDEFINED] = "Undefined", [VALUE_NONE] = "NoneType",
        [VALUE_BOOL] = "bool",        [VALUE_INTEGER] = "int",         [VALUE_FLOAT] = "float",
        [VALUE_TEXT] = "str",         [VALUE_LIST] = "list",           [VALUE_TUPLE] = "tuple",
        [VALUE_DICT] = "dict",        [VALUE_NAMESPACE] = "Namespace", [VALUE_FUNCTION] = "function",
        [VALUE_METHOD] = "method",    [VALUE_MACRO] = "Macro",         [VALUE_LOOP] = "LoopContext",
    };
    return names[v->kind];
}

bool value_is_true(const value *v)
{
    switch (v->kind) {
    case VALUE_ABSENT:
    case VALUE_UNDEFINED:
    case VALUE_NONE:
        return false;
    case VALUE_BOOL:
        return v->as.truth;
    case VALUE_INTEGER:
        return v->as.integer != 0;
    case VALUE_FLOAT:
        return v->as.real != 0;
    case VALUE_TEXT:
        return v->as.text.size > 0;
    case VALUE_LIST:
    case VALUE_TUPLE:
        return v->as.list.count > 0;
    case VALUE_DICT:
        return v->as.dict->count > 0;
    default:
        return true;
    }
}

static hearth_status equal_lists(rendering *r, value_list a, value_list b, bool *equal)
{
    *equal = a.count == b.count;
    for (size_t i = 0; i < a.count && *equal; i++)
        TRY(value_equal(r, &a.items[i], &b.items[i], equal));
    return HEARTH_OK;
}

static hearth_status equal_dicts(rendering *r, const dict *a, const dict *b, bool *equal)
{
    *equal = a->count == b->count;
    for (size_t i = 0; i < a->count && *equal; i++) {
        value *other;
        TRY(dict_find(r, b, &a->entries[i].key, &other));
        *equal = other != NULL;
        if (other)
            TRY(value_equal(r, &a->entries[i].value, other, equal));
    }
    return HEARTH_OK;
}

/* Compares numbers; integers exactly. */
static int order_numbers(const value *a, const value *b)
{
    if (is_integer(a) && is_integer(b)) {
        int64_t x = value_as_integer(a), y = value_as_integer(b);
        return (x > y) - (x < y);
    }
    double x = value_as_float(a), y = value_as_float(b);
    return (x > y) - (x < y);
}

/* By byte, which is by character in UTF-8. */
static int order_texts(span a, span b)
{
    int order = memcmp(a.data, b.data, a.size < b.size ? a.size : b.size);
    return order ? order : (a.size > b.size) - (a.size < b.size);
}

hearth_status value_equal(rendering *r, const value *a, const value *b, bool *equal)
{
    hearth_status status = HEARTH_OK;
    TRY(rendering_spend_on(r, a));
    TRY(rendering_enter(r));
    if (is_number(a) && is_number(b))
        *equal = order_numbers(a, b) == 0 && !isnan(value_as_float(a)) && !isnan(value_as_float(b));
    else if (a->kind != b->kind)
        *equal = false;
    else if (is_text(a))
        *equal = span_equal(a->as.text, b->as.text);
    else if (is_list(a))
        status = equal_lists(r, a->as.list, b->as.list, equal);
    else if (a->kind == VALUE_DICT)
        status = equal_dicts(r, a->as.dict, b->as.dict, equal);
    else if (a->kind == VALUE_NONE || a->kind == VALUE_UNDEFINED)
        *equal = true;
    else /* the others are themselves only */
        *equal = a->as.dict == b->as.dict;
    rendering_leave(r);
    return status;
}

static hearth_status order_lists(rendering *r, value_list a, value_list b, int *order)
{
    for (size_t i = 0; i < a.count && i < b.count; i++) {
        bool equal;
        TRY(value_equal(r, &a.items[i], &b.items[i], &equal));
        if (!equal)
            return value_order(r, &a.items[i], &b.items[i], order);
    }
    *order = (a.count > b.count) - (a.count < b.count);
    return HEARTH_OK;
}

hearth_status value_order(rendering *r, const value *a, const value *b, int *order)
{
    hearth_status status = HEARTH_OK;
    TRY(rendering_spend_on(r, a));
    TRY(rendering_enter(r));
    if (is_number(a) && is_number(b))
        *order = order_numbers(a, b);
    else if (is_text(a) && is_text(b))
        *order = order_texts(a->as.text, b->as.text);
    else if (is_list(a) && a->kind == b->kind)
        status = order_lists(r, a->as.list, b->as.list, order);
    else if (a->kind == VALUE_UNDEFINED || b->kind == VALUE_UNDEFINED) {
        const span why = a->kind == VALUE_UNDEFINED ? a->as.text : b->as.text;
        status = rendering_fail(r, HEARTH_INVALID, "%.*s", (int)why.size, why.data);
    } else
        status = rendering_fail(r, HEARTH_INVALID, "'<' is not supported between '%s' and '%s'", value_kind_name(a),
                                value_kind_name(b));
    rendering_leave(r);
    return status;
}

hearth_status value_contains(rendering *r, const value *in, const value *item, bool *found)
{
    *found = false;
    TRY(rendering_spend_on(r, in));
    if (is_text(in)) {
        if (!is_text(item))
            return rendering_fail(r, HEARTH_INVALID, "'in <string>' requires string as left operand, not %s",
                                  value_kind_name(item));
        *found = memmem(in->as.text.data, in->as.text.size, item->as.text.data, item->as.text.size) != NULL;
        return HEARTH_OK;
    }
    if (in->kind == VALUE_DICT) {
        value *entry;
        TRY(dict_find(r, in->as.dict, item, &entry));
        *found = entry != NULL;
        return HEARTH_OK;
    }
    value_list items;
    TRY(value_items(r, in, &items));
    for (size_t i = 0; i < items.count && !*found; i++)
        TRY(value_equal(r, &items.items[i], item, found));
    return HEARTH_OK;
}

static hearth_status characters(rendering *r, span text, value_list *out)
{
    size_t count = 0;
    for (size_t i = 0; i < text.size; i++)
        count += ((uint8_t)text.data[i] & 0xc0) != 0x80;
    value *items = rendering_claim(r, count, sizeof *items);
    if (!items)
        return HEARTH_NO_MEMORY;
    const char *at = text.data;
    for (size_t i = 0; i < count; i++) {
        size_t length = utf8_length(at, (size_t)(text.data + text.size - at));
        items[i] = value_text((span){at, length});
        at += length;
    }
    *out = (value_list){items, count};
    return HEARTH_OK;
}

static hearth_status dict_keys(rendering *r, const dict *d, value_list *out)
{
    value *items = rendering_claim(r, d->count, sizeof *items);
    if (!items)
        return HEARTH_NO_MEMORY;
    for (size_t i = 0; i < d->count; i++)
        items[i] = d->entries[i].key;
    *out = (value_list){items, d->count};
    return HEARTH_OK;
}

hearth_status value_items(rendering *r, const value *v, value_list *out)
{
    *out = (value_list){0};
    if (is_missing(v))
        return HEARTH_OK;
    if (is_list(v)) {
        *out = v->as.list;
        return HEARTH_OK;
    }
    TRY(rendering_spend_on(r, v));
    if (is_text(v))
        return characters(r, v->as.text, out);
    if (v->kind == VALUE_DICT)
        return dict_keys(r, v->as.dict, out);
    return rendering_fail(r, HEARTH_INVALID, "'%s' object is not iterable", value_kind_name(v));
}

hearth_status value_pairs(rendering *r, const value *v, value_list *out)
{
    if (v->kind != VALUE_DICT)
        return rendering_fail(r, HEARTH_INVALID, "Can only get item pairs from a mapping.");
    const dict *d = v->as.dict;
    value *pairs = rendering_claim(r, d->count, sizeof *pairs);
    value *halves = rendering_claim(r, d->count, 2 * sizeof *halves);
    if (!pairs || !halves)
        return HEARTH_NO_MEMORY;
    for (size_t i = 0; i < d->count; i++) {
        halves[2 * i] = d->entries[i].key;
        halves[2 * i + 1] = d->entries[i].value;
        pairs[i] = (value){.kind = VALUE_TUPLE, .as.list = {halves + 2 * i, 2}};
    }
    *out = (value_list){pairs, d->count};
    return HEARTH_OK;
}

hearth_status value_length(rendering *r, const value *v, size_t *out)
{
    TRY(rendering_spend_on(r, v));
    *out = 0;
    if (is_missing(v))
        return HEARTH_OK;
    if (is_text(v)) {
        for (size_t i = 0; i < v->as.text.size; i++)
            *out += ((uint8_t)v->as.text.data[i] & 0xc0) != 0x80;
        return HEARTH_OK;
    }
    if (is_list(v)) {
        *out = v->as.list.count;
        return HEARTH_OK;
    }
    if (v->kind == VALUE_DICT) {
        *out = v->as.dict->count;
        return HEARTH_OK;
    }
    return rendering_fail(r, HEARTH_INVALID, "object of type '%s' has no len()", value_kind_name(v));
}
