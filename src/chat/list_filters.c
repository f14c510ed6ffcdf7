/* list_filters.c - filters of lists and dicts. */
#include "filters.h"

#include <string.h>

/* ------------------------------------------------------------------ attributes of items */

/* Follows "name.0.name" from an item. */
static hearth_status follow_path(rendering *r, value v, span path, value *out)
{
    while (path.size > 0) {
        const char *dot = memchr(path.data, '.', path.size);
        span name = {path.data, dot ? (size_t)(dot - path.data) : path.size};
        size_t used = name.size + (dot ? 1 : 0);
        path = (span){path.data + used, path.size - used};
        bool is_index = name.size > 0 && name.size < 10;
        int64_t index = 0;
        for (size_t i = 0; i < name.size && is_index; i++) {
            is_index = name.data[i] >= '0' && name.data[i] <= '9';
            index = index * 10 + (name.data[i] - '0');
        }
        const value key = is_index ? value_integer(index) : value_text(name);
        TRY(value_item(r, &v, &key, &v));
    }
    *out = v;
    return HEARTH_OK;
}

/* Finds the attribute that a filter goes by, given as a name or an index; itself where there is none. */
static hearth_status item_key(rendering *r, const value *item, const value *attribute, value *out)
{
    *out = *item;
    if (attribute->kind == VALUE_ABSENT || attribute->kind == VALUE_NONE)
        return HEARTH_OK;
    if (is_text(attribute))
        return follow_path(r, *item, attribute->as.text, out);
    return value_item(r, item, attribute, out);
}

/* Folds the case of a text, unless case matters. */
static hearth_status fold_case(rendering *r, bool case_sensitive, value *v)
{
    if (case_sensitive || !is_text(v))
        return HEARTH_OK;
    return function_call(r, method_find(v, span_of("lower")), v, &(arguments){0}, v);
}

/* Finds the attributes "a,b" of an item, as a tuple. */
static hearth_status item_keys(rendering *r, const value *item, span attributes, bool case_sensitive, value *out)
{
    growing_list keys = {0};
    for (bool more = true; more;) {
        const char *comma = attributes.size > 0 ? memchr(attributes.data, ',', attributes.size) : NULL;
        span name = {attributes.data, comma ? (size_t)(comma - attributes.data) : attributes.size};
        const value attribute = value_text(name);
        value key;
        TRY(item_key(r, item, &attribute, &key));
        TRY(fold_case(r, case_sensitive, &key));
        TRY(growing_add(r, &keys, key));
        more = comma != NULL;
        if (more)
            attributes = (span){comma + 1, attributes.size - name.size - 1};
    }
    *out = (value){.kind = VALUE_TUPLE, .as.list = {keys.items, keys.count}};
    return HEARTH_OK;
}

/* ------------------------------------------------------------------ first, last, length, join ... */

static hearth_status run_length(rendering *r, const call *c, value *out)
{
    size_t length;
    TRY(value_length(r, &c->subject, &length));
    *out = value_integer((int64_t)length);
    return HEARTH_OK;
}

static hearth_status pick_end(rendering *r, const call *c, bool last, value *out)
{
    value_list items;
    TRY(value_items(r, &c->subject, &items));
    if (items.count > 0)
        *out = items.items[last ? items.count - 1 : 0];
    else
        *out = value_undefined(last ? span_of("No last item, sequence was empty.")
                                    : span_of("No first item, sequence was empty."));
    return HEARTH_OK;
}

static hearth_status run_first(rendering *r, const call *c, value *out)
{
    return pick_end(r, c, false, out);
}

static hearth_status run_last(rendering *r, const call *c, value *out)
{
    return pick_end(r, c, true, out);
}

static hearth_status run_list(rendering *r, const call *c, value *out)
{
    *out = value_list_of(NULL, 0);
    return value_items(r, &c->subject, &out->as.list);
}

static hearth_status run_items(rendering *r, const call *c, value *out)
{
    *out = value_list_of(NULL, 0);
    return is_missing(&c->subject) ? HEARTH_OK : value_pairs(r, &c->subject, &out->as.list);
}

static hearth_status run_join(rendering *r, const call *c, value *out)
{
    value_list items;
    growing text = {0};
    TRY(value_items(r, &c->subject, &items));
    for (size_t i = 0; i < items.count; i++) {
        value item;
        TRY(item_key(r, &items.items[i], &c->parameters[1], &item));
        if (i > 0 && c->parameters[0].kind != VALUE_ABSENT)
            TRY(value_put(r, &text, &c->parameters[0]));
        TRY(value_put(r, &text, &item));
    }
    *out = growing_value(&text);
    return HEARTH_OK;
}

static hearth_status run_reverse(rendering *r, const call *c, value *out)
{
    value_list items;
    growing text = {0};
    TRY(value_items(r, &c->subject, &items));
    value *reversed = rendering_claim(r, items.count, sizeof *reversed);
    if (!reversed)
        return HEARTH_NO_MEMORY;
    for (size_t i = 0; i < items.count; i++)
        reversed[i] = items.items[items.count - 1 - i];
    *out = value_list_of(reversed, items.count);
    if (!is_text(&c->subject))
        return HEARTH_OK;
    for (size_t i = 0; i < items.count; i++)
        TRY(value_put(r, &text, &reversed[i]));
    *out = growing_value(&text);
    return HEARTH_OK;
}

static hearth_status run_sum(rendering *r, const call *c, value *out)
{
    value_list items;
    *out = c->parameters[1].kind == VALUE_ABSENT ? value_integer(0) : c->parameters[1];
    TRY(value_items(r, &c->subject, &items));
    for (size_t i = 0; i < items.count; i++) {
        value item;
        TRY(item_key(r, &items.items[i], &c->parameters[0], &item));
        TRY(value_operate(r, OPERATOR_ADD, out, &item, out));
    }
    return HEARTH_OK;
}

/* ------------------------------------------------------------------ order */

/* An item and what it is ordered by. */
typedef struct keyed {
    value key, item;
} keyed;

static hearth_status merge_runs(rendering *r, const keyed *from, keyed *to, size_t begin, size_t middle, size_t end,
                                bool reverse)
{
    size_t a = begin, b = middle;
    for (size_t i = begin; i < end; i++) {
        int order = 0;
        if (a < middle && b < end)
            TRY(value_order(r, &from[a].key, &from[b].key, &order));
        bool takes_left = b >= end || (a < middle && (reverse ? order >= 0 : order <= 0));
        to[i] = takes_left ? from[a++] : from[b++];
    }
    return HEARTH_OK;
}

/* Sorts stably, by merging runs of 1, 2, 4 ... items; `reverse` keeps equal items in their order, as Python does. */
static hearth_status sort_keyed(rendering *r, keyed *items, size_t count, bool reverse)
{
    keyed *other = rendering_claim(r, count, sizeof *other), *from = items, *to = other;
    if (!other)
        return HEARTH_NO_MEMORY;
    for (size_t width = 1; width < count; width *= 2) {
        for (size_t begin = 0; begin < count; begin += 2 * width) {
            size_t middle = begin + width < count ? begin + width : count;
            size_t end = begin + 2 * width < count ? begin + 2 * width : count;
            TRY(merge_runs(r, from, to, begin, middle, end, reverse));
        }
        keyed *swapped = from;
        from = to;
        to = swapped;
    }
    if (from != items && count > 0)
        memcpy(items, from, count * sizeof *items);
    return HEARTH_OK;
}

/* Makes the list of items with their keys. */
static hearth_status key_items(rendering *r, value_list items, const value *attribute, bool case_sensitive, keyed **out)
{
    keyed *all = rendering_claim(r, items.count, sizeof *all);
    bool several = is_text(attribute) && attribute->as.text.size > 0 &&
                   memchr(attribute->as.text.data, ',', attribute->as.text.size);
    *out = all;
    if (!all)
        return HEARTH_NO_MEMORY;
    for (size_t i = 0; i < items.count; i++) {
        all[i].item = items.items[i];
        if (several) {
            TRY(item_keys(r, &items.items[i], attribute->as.text, case_sensitive, &all[i].key));
            continue;
        }
        TRY(item_key(r, &items.items[i], attribute, &all[i].key));
        TRY(fold_case(r, case_sensitive, &all[i].key));
    }
    return HEARTH_OK;
}

static hearth_status list_of_keyed(rendering *r, const keyed *all, size_t count, value *out)
{
    growing_list list = {0};
    for (size_t i = 0; i < count; i++)
        TRY(growing_add(r, &list, all[i].item));
    *out = growing_list_value(&list);
    return HEARTH_OK;
}

static hearth_status run_sort(rendering *r, const call *c, value *out)
{
    value_list items;
    keyed *all;
    TRY(value_items(r, &c->subject, &items));
    TRY(key_items(r, items, &c->parameters[2], call_flag(c, 1, false), &all));
    TRY(sort_keyed(r, all, items.count, call_flag(c, 0, false)));
    return list_of_keyed(r, all, items.count, out);
}

static hearth_status run_dictsort(rendering *r, const call *c, value *out)
{
    value_list pairs;
    keyed *all;
    span by;
    TRY(call_text(r, c, 1, "key", &by));
    TRY(value_pairs(r, &c->subject, &pairs));
    const value index = value_integer(span_equal(by, span_of("value")) ? 1 : 0);
    TRY(key_items(r, pairs, &index, call_flag(c, 0, false), &all));
    TRY(sort_keyed(r, all, pairs.count, call_flag(c, 2, false)));
    return list_of_keyed(r, all, pairs.count, out);
}

/* Picks the first of the largest (smallest) items. */
static hearth_status pick_extreme(rendering *r, const call *c, int sign, value *out)
{
    value_list items;
    keyed *all;
    size_t best = 0;
    TRY(value_items(r, &c->subject, &items));
    TRY(key_items(r, items, &c->parameters[1], call_flag(c, 0, false), &all));
    *out = value_undefined(span_of("No aggregated item, sequence was empty."));
    for (size_t i = 1; i < items.count; i++) {
        int order;
        TRY(value_order(r, &all[i].key, &all[best].key, &order));
        best = order * sign > 0 ? i : best;
    }
    if (items.count > 0)
        *out = all[best].item;
    return HEARTH_OK;
}

static hearth_status run_max(rendering *r, const call *c, value *out)
{
    return pick_extreme(r, c, 1, out);
}

static hearth_status run_min(rendering *r, const call *c, value *out)
{
    return pick_extreme(r, c, -1, out);
}

static hearth_status run_unique(rendering *r, const call *c, value *out)
{
    value_list items;
    keyed *all;
    growing_list kept = {0};
    dict *seen = dict_new(r);
    if (!seen)
        return HEARTH_NO_MEMORY;
    TRY(value_items(r, &c->subject, &items));
    TRY(key_items(r, items, &c->parameters[1], call_flag(c, 0, false), &all));
    for (size_t i = 0; i < items.count; i++) {
        value *found;
        TRY(dict_find(r, seen, &all[i].key, &found));
        if (found)
            continue;
        TRY(dict_set(r, seen, all[i].key, value_none()));
        TRY(growing_add(r, &kept, all[i].item));
    }
    *out = growing_list_value(&kept);
    return HEARTH_OK;
}

/* ------------------------------------------------------------------ groups */

static hearth_status add_group(rendering *r, const value *key, const growing_list *members, growing_list *groups)
{
    value *pair = rendering_claim(r, 2, sizeof *pair);
    if (!pair)
        return HEARTH_NO_MEMORY;
    pair[0] = *key;
    pair[1] = growing_list_value(members);
    return growing_add(r, groups, (value){.kind = VALUE_TUPLE, .as.list = {pair, 2}});
}

/* Groups the sorted items by an attribute: (value of the first, list) each. */
static hearth_status run_groupby(rendering *r, const call *c, value *out)
{
    value_list items;
    keyed *all;
    growing_list groups = {0}, members = {0};
    bool case_sensitive = call_flag(c, 2, false);
    TRY(value_items(r, &c->subject, &items));
    TRY(key_items(r, items, &c->parameters[0], case_sensitive, &all));
    for (size_t i = 0; i < items.count; i++)
        if (is_missing(&all[i].key) && c->parameters[1].kind != VALUE_ABSENT)
            all[i].key = c->parameters[1];
    TRY(sort_keyed(r, all, items.count, false));
    for (size_t i = 0; i < items.count; i++) {
        bool equal = true;
        if (i > 0)
            TRY(value_equal(r, &all[i - 1].key, &all[i].key, &equal));
        if (!equal) {
            TRY(add_group(r, &all[i - 1].key, &members, &groups));
            members = (growing_list){0};
        }
        TRY(growing_add(r, &members, all[i].item));
    }
    if (items.count > 0)
        TRY(add_group(r, &all[items.count - 1].key, &members, &groups));
    *out = growing_list_value(&groups);
    return HEARTH_OK;
}

/* Adds the items [from, to) as a list, filled up to `full` items with `fill`, unless it is absent. */
static hearth_status add_part(rendering *r, value_list items, size_t from, size_t to, size_t full, const value *fill,
                              growing_list *out)
{
    growing_list part = {0};
    for (size_t i = from; i < to; i++)
        TRY(growing_add(r, &part, items.items[i]));
    while (part.count < full && fill->kind != VALUE_ABSENT && fill->kind != VALUE_NONE)
        TRY(growing_add(r, &part, *fill));
    return growing_add(r, out, growing_list_value(&part));
}

static hearth_status run_batch(rendering *r, const call *c, value *out)
{
    value_list items;
    growing_list parts = {0};
    int64_t size;
    TRY(value_items(r, &c->subject, &items));
    TRY(call_integer(r, c, 0, 0, &size));
    if (size < 1 || size > UINT32_MAX)
        return rendering_fail(r, HEARTH_INVALID, "batch: needs a positive number");
    for (size_t from = 0, to; from < items.count; from = to) {
        to = items.count - from < (size_t)size ? items.count : from + (size_t)size;
        TRY(add_part(r, items, from, to, (size_t)size, &c->parameters[1], &parts));
    }
    *out = growing_list_value(&parts);
    return HEARTH_OK;
}

/* Cuts into a number of lists whose sizes differ by one at most. */
static hearth_status run_slice(rendering *r, const call *c, value *out)
{
    value_list items;
    growing_list parts = {0};
    int64_t count;
    TRY(value_items(r, &c->subject, &items));
    TRY(call_integer(r, c, 0, 0, &count));
    if (count < 1 || count > UINT32_MAX)
        return rendering_fail(r, HEARTH_INVALID, "slice: needs a positive number");
    size_t size = items.count / (size_t)count, longer = items.count % (size_t)count, from = 0;
    for (size_t i = 0; i < (size_t)count; i++) {
        size_t to = from + size + (i < longer);
        TRY(add_part(r, items, from, to, longer ? size + 1 : 0, &c->parameters[1], &parts));
        from = to;
    }
    *out = growing_list_value(&parts);
    return HEARTH_OK;
}

/* ------------------------------------------------------------------ map and select */

/* map('filter', arguments ...) or map(attribute='name', default=...). */
static hearth_status run_map(rendering *r, const call *c, value *out)
{
    const arguments *a = c->all;
    const value *attribute = NULL, *fallback = NULL;
    value_list items;
    growing_list mapped = {0};
    for (size_t i = 0; a->count == 0 && i < a->named_count; i++) {
        attribute = span_equal(a->names[i], span_of("attribute")) ? &a->named[i] : attribute;
        fallback = span_equal(a->names[i], span_of("default")) ? &a->named[i] : fallback;
    }
    if (!attribute && (a->count == 0 || !is_text(&a->items[0])))
        return rendering_fail(r, HEARTH_INVALID, "map requires a filter argument");
    const function *filter = attribute ? NULL : filter_find(a->items[0].as.text);
    if (!attribute && !filter)
        return rendering_fail(r, HEARTH_UNSUPPORTED, "the filter '%.*s' is not known", (int)a->items[0].as.text.size,
                              a->items[0].as.text.data);
    TRY(value_items(r, &c->subject, &items));
    for (size_t i = 0; i < items.count; i++) {
        value item;
        if (attribute)
            TRY(item_key(r, &items.items[i], attribute, &item));
        else
            TRY(function_call(r, filter, &items.items[i],
                              &(arguments){a->items + 1, a->count - 1, a->names, a->named, a->named_count}, &item));
        TRY(growing_add(r, &mapped, attribute && fallback && is_missing(&item) ? *fallback : item));
    }
    *out = growing_list_value(&mapped);
    return HEARTH_OK;
}

/* Keeps the items for which a test holds (fails): of the item, or of an attribute that the first argument names. */
static hearth_status select_items(rendering *r, const call *c, bool by_attribute, bool wanted, value *out)
{
    const arguments *a = c->all;
    size_t skipped = by_attribute;
    value_list items;
    growing_list kept = {0};
    if (a->count < skipped || (a->count > skipped && !is_text(&a->items[skipped])))
        return rendering_fail(r, HEARTH_INVALID, "%s: needs the name of %s", c->name,
                              a->count < skipped ? "an attribute" : "a test");
    const function *test = a->count > skipped ? test_find(a->items[skipped].as.text) : NULL;
    if (a->count > skipped && !test)
        return rendering_fail(r, HEARTH_UNSUPPORTED, "the test '%.*s' is not known",
                              (int)a->items[skipped].as.text.size, a->items[skipped].as.text.data);
    TRY(value_items(r, &c->subject, &items));
    for (size_t i = 0; i < items.count; i++) {
        value v = items.items[i];
        if (by_attribute)
            TRY(item_key(r, &items.items[i], &a->items[0], &v));
        if (test)
            TRY(function_call(r, test, &v,
                              &(arguments){.items = a->items + skipped + 1, .count = a->count - skipped - 1}, &v));
        if (value_is_true(&v) == wanted)
            TRY(growing_add(r, &kept, items.items[i]));
    }
    *out = growing_list_value(&kept);
    return HEARTH_OK;
}

static hearth_status run_select(rendering *r, const call *c, value *out)
{
    return select_items(r, c, false, true, out);
}

static hearth_status run_reject(rendering *r, const call *c, value *out)
{
    return select_items(r, c, false, false, out);
}

static hearth_status run_selectattr(rendering *r, const call *c, value *out)
{
    return select_items(r, c, true, true, out);
}

static hearth_status run_rejectattr(rendering *r, const call *c, value *out)
{
    return select_items(r, c, true, false, out);
}

const function list_filters[] = {
    {"batch", "linecount fill_with?", run_batch},
    {"count", "", run_length},
    {"dictsort", "case_sensitive? by? reverse?", run_dictsort},
    {"first", "", run_first},
    {"groupby", "attribute default? case_sensitive?", run_groupby},
    {"items", "", run_items},
    {"join", "d? attribute?", run_join},
    {"last", "", run_last},
    {"length", "", run_length},
    {"list", "", run_list},
    {"map", "*", run_map},
    {"max", "case_sensitive? attribute?", run_max},
    {"min", "case_sensitive? attribute?", run_min},
    {"reject", "*", run_reject},
    {"rejectattr", "*", run_rejectattr},
    {"reverse", "", run_reverse},
    {"select", "*", run_select},
    {"selectattr", "*", run_selectattr},
    {"slice", "slices fill_with?", run_slice},
    {"sort", "reverse? case_sensitive? attribute?", run_sort},
    {"sum", "attribute? start?", run_sum},
    {"unique", "case_sensitive? attribute?", run_unique},
};
const size_t list_filter_count = sizeof list_filters / sizeof *list_filters;
