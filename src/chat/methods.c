/* methods.c - the methods of dicts, lists and loops, and the way to those of texts. A method that changes its value
 * (append, update ...) does not exist, as in the sandbox that transformers uses. */
#include "methods.h"

#include <string.h>

/* ------------------------------------------------------------------ dicts */

static hearth_status run_get(rendering *r, const call *c, value *out)
{
    value *found;
    TRY(dict_find(r, c->subject.as.dict, &c->parameters[0], &found));
    *out = found ? *found : c->parameters[1].kind != VALUE_ABSENT ? c->parameters[1] : value_none();
    return HEARTH_OK;
}

static hearth_status run_items(rendering *r, const call *c, value *out)
{
    out->kind = VALUE_LIST;
    return value_pairs(r, &c->subject, &out->as.list);
}

static hearth_status run_keys(rendering *r, const call *c, value *out)
{
    out->kind = VALUE_LIST;
    return value_items(r, &c->subject, &out->as.list);
}

static hearth_status run_values(rendering *r, const call *c, value *out)
{
    const dict *d = c->subject.as.dict;
    value *items = rendering_claim(r, d->count, sizeof *items);
    if (!items)
        return HEARTH_NO_MEMORY;
    for (size_t i = 0; i < d->count; i++)
        items[i] = d->entries[i].value;
    *out = value_list_of(items, d->count);
    return HEARTH_OK;
}

/* Nothing changes a value, so it can be its own copy. */
static hearth_status run_copy(rendering *r, const call *c, value *out)
{
    (void)r;
    *out = c->subject;
    return HEARTH_OK;
}

static const function dict_methods[] = {
    {"get", "key default?", run_get}, {"items", "", run_items}, {"keys", "", run_keys},
    {"values", "", run_values},       {"copy", "", run_copy},   {NULL, NULL, NULL},
};

/* ------------------------------------------------------------------ lists */

static hearth_status count_equal(rendering *r, const call *c, size_t *first, int64_t *count)
{
    value_list items = c->subject.as.list;
    *count = 0;
    for (size_t i = items.count; i-- > 0;) {
        bool equal;
        TRY(value_equal(r, &items.items[i], &c->parameters[0], &equal));
        *count += equal;
        *first = equal ? i : *first;
    }
    return HEARTH_OK;
}

static hearth_status run_count(rendering *r, const call *c, value *out)
{
    size_t first = 0;
    int64_t count;
    TRY(count_equal(r, c, &first, &count));
    *out = value_integer(count);
    return HEARTH_OK;
}

static hearth_status run_index(rendering *r, const call *c, value *out)
{
    size_t first = 0;
    int64_t count;
    TRY(count_equal(r, c, &first, &count));
    *out = value_integer((int64_t)first);
    return count > 0 ? HEARTH_OK : rendering_fail(r, HEARTH_INVALID, "the value is not in list");
}

static const function list_methods[] = {
    {"count", "value", run_count},
    {"index", "value", run_index},
    {"copy", "", run_copy},
    {NULL, NULL, NULL},
};

/* ------------------------------------------------------------------ loops */

static hearth_status run_cycle(rendering *r, const call *c, value *out)
{
    if (c->all->count == 0)
        return rendering_fail(r, HEARTH_INVALID, "no items for cycling given");
    *out = c->all->items[c->subject.as.loop->index % c->all->count];
    return HEARTH_OK;
}

/* True if the arguments are not those of the last call. */
static hearth_status run_changed(rendering *r, const call *c, value *out)
{
    value now = {.kind = VALUE_TUPLE, .as.list = {c->all->items, c->all->count}};
    bool equal;
    TRY(value_equal(r, &now, &c->subject.as.loop->last_changed, &equal));
    c->subject.as.loop->last_changed = now;
    *out = value_bool(!equal);
    return HEARTH_OK;
}

static const function loop_methods[] = {
    {"cycle", "*", run_cycle},
    {"changed", "*", run_changed},
    {NULL, NULL, NULL},
};

/* ------------------------------------------------------------------ all of them */

static const struct {
    value_kind kind;
    const function *methods;
} kinds[] = {
    {VALUE_TEXT, text_methods},  {VALUE_DICT, dict_methods}, {VALUE_LIST, list_methods},
    {VALUE_TUPLE, list_methods}, {VALUE_LOOP, loop_methods},
};

const function *method_find(const value *of, span name)
{
    for (size_t i = 0; i < sizeof kinds / sizeof *kinds; i++)
        for (const function *f = kinds[i].methods; kinds[i].kind == of->kind && f->name; f++)
            if (span_equal(name, span_of(f->name)))
                return f;
    return NULL;
}

const function *method_at(size_t index, value_kind *kind)
{
    for (size_t i = 0; i < sizeof kinds / sizeof *kinds; i++)
        for (const function *f = kinds[i].methods; f->name; f++)
            if (index-- == 0) {
                *kind = kinds[i].kind;
                return f;
            }
    return NULL;
}
