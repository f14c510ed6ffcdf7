/* builtins.c - calls of what is built in, and the functions that every template can use. */
#include "builtins.h"

#include "characters.h"

#include <stdio.h>
#include <string.h>

/* ------------------------------------------------------------------ arguments to parameters */

/* Cuts the next name off a row's parameters; *may_miss: it has a "?". */
static span next_parameter(const char **at, bool *may_miss)
{
    size_t length = strcspn(*at, " ");
    span name = {*at, length};
    *at += length + ((*at)[length] == ' ');
    *may_miss = length > 0 && name.data[length - 1] == '?';
    name.size -= *may_miss;
    return name;
}

static hearth_status bind_named(rendering *r, const function *f, const arguments *a, size_t index, call *c)
{
    bool may_miss;
    const char *at = f->parameters;
    for (size_t i = 0; *at; i++) {
        if (!span_equal(next_parameter(&at, &may_miss), a->names[index]))
            continue;
        if (c->parameters[i].kind != VALUE_ABSENT)
            return rendering_fail(r, HEARTH_INVALID, "%s: the argument '%.*s' is given twice", f->name,
                                  (int)a->names[index].size, a->names[index].data);
        c->parameters[i] = a->named[index];
        return HEARTH_OK;
    }
    return rendering_fail(r, HEARTH_INVALID, "%s: has no argument '%.*s'", f->name, (int)a->names[index].size,
                          a->names[index].data);
}

static hearth_status bind(rendering *r, const function *f, const arguments *a, call *c)
{
    bool may_miss;
    size_t count = 0;
    for (const char *at = f->parameters; *at; count++)
        next_parameter(&at, &may_miss);
    if (a->count > count)
        return rendering_fail(r, HEARTH_INVALID, "%s: takes at most %zu arguments, got %zu", f->name, count, a->count);
    for (size_t i = 0; i < a->count; i++)
        c->parameters[i] = a->items[i];
    for (size_t i = 0; i < a->named_count; i++)
        TRY(bind_named(r, f, a, i, c));
    const char *at = f->parameters;
    for (size_t i = 0; i < count; i++) {
        span name = next_parameter(&at, &may_miss);
        if (!may_miss && c->parameters[i].kind == VALUE_ABSENT)
            return rendering_fail(r, HEARTH_INVALID, "%s: the argument '%.*s' is missing", f->name, (int)name.size,
                                  name.data);
    }
    return HEARTH_OK;
}

hearth_status function_call(rendering *r, const function *f, const value *subject, const arguments *a, value *out)
{
    call c = {.name = f->name, .all = a};
    if (subject) {
        c.subject = *subject;
        TRY(rendering_spend_on(r, subject));
    }
    for (size_t i = 0; i < a->count; i++)
        TRY(rendering_spend_on(r, &a->items[i]));
    if (strcmp(f->parameters, "*") != 0)
        TRY(bind(r, f, a, &c));
    return f->run(r, &c, out);
}

hearth_status call_text(rendering *r, const call *c, size_t index, const char *fallback, span *out)
{
    const value *v = &c->parameters[index];
    *out = fallback ? span_of(fallback) : (span){0};
    if (v->kind == VALUE_ABSENT || (v->kind == VALUE_NONE && !fallback))
        return HEARTH_OK;
    if (!is_text(v))
        return rendering_fail(r, HEARTH_INVALID, "%s: expected a str, got %s", c->name, value_kind_name(v));
    *out = v->as.text;
    return HEARTH_OK;
}

hearth_status call_integer(rendering *r, const call *c, size_t index, int64_t fallback, int64_t *out)
{
    const value *v = &c->parameters[index];
    *out = fallback;
    if (v->kind == VALUE_ABSENT || v->kind == VALUE_NONE)
        return HEARTH_OK;
    if (!is_integer(v))
        return rendering_fail(r, HEARTH_INVALID, "%s: expected an int, got %s", c->name, value_kind_name(v));
    *out = value_as_integer(v);
    return HEARTH_OK;
}

bool call_flag(const call *c, size_t index, bool fallback)
{
    return c->parameters[index].kind == VALUE_ABSENT ? fallback : value_is_true(&c->parameters[index]);
}

/* ------------------------------------------------------------------ functions of every template */

static hearth_status run_raise(rendering *r, const call *c, value *out)
{
    (void)out;
    span text;
    TRY(value_to_text(r, &c->parameters[0], &text));
    return rendering_fail(r, HEARTH_INVALID, "%.*s", (int)text.size, text.data);
}

/* strftime of the C library, in its "C" locale, as Python's datetime has it. */
static hearth_status run_strftime(rendering *r, const call *c, value *out)
{
    enum { FORMAT_SIZE = 256, TIME_SIZE = 2048 };
    char format[FORMAT_SIZE + 1], *text = rendering_claim(r, TIME_SIZE, 1);
    span wanted;
    if (!text)
        return HEARTH_NO_MEMORY;
    TRY(call_text(r, c, 0, "", &wanted));
    if (wanted.size > FORMAT_SIZE - 1)
        return rendering_fail(r, HEARTH_INVALID, "strftime_now: the format has more than %d bytes", FORMAT_SIZE - 1);
    snprintf(format, sizeof format, "%.*s ", (int)wanted.size, wanted.data); /* the blank: 0 is an error then */
    size_t size = strftime(text, TIME_SIZE, format, r->now);
    if (size == 0 || !utf8_is_valid(text, size))
        return rendering_fail(r, HEARTH_INVALID, "strftime_now: the format cannot be used");
    *out = value_text((span){text, size - 1});
    return HEARTH_OK;
}

static hearth_status run_range(rendering *r, const call *c, value *out)
{
    int64_t from = 0, to, step;
    TRY(call_integer(r, c, 0, 0, &to));
    TRY(call_integer(r, c, 2, 1, &step));
    if (c->parameters[1].kind != VALUE_ABSENT) {
        from = to;
        TRY(call_integer(r, c, 1, 0, &to));
    }
    if (step == 0)
        return rendering_fail(r, HEARTH_INVALID, "range: the step is 0");
    /* As unsigned numbers the difference of two int64_t always fits. */
    bool is_empty = step > 0 ? from >= to : from <= to;
    uint64_t distance = is_empty ? 0 : step > 0 ? (uint64_t)to - (uint64_t)from : (uint64_t)from - (uint64_t)to;
    uint64_t stride = step > 0 ? (uint64_t)step : -(uint64_t)step;
    uint64_t count = distance / stride + (distance % stride != 0);
    value *items = rendering_claim(r, count, sizeof *items);
    if (!items)
        return HEARTH_NO_MEMORY;
    TRY(rendering_spend(r, count / ITEMS_PER_STEP));
    for (uint64_t i = 0; i < count; i++)
        items[i] = value_integer((int64_t)((uint64_t)from + i * (uint64_t)step));
    *out = value_list_of(items, count);
    return HEARTH_OK;
}

/* Fills a dict from the arguments: a dict of another, and names. */
static hearth_status fill_dict(rendering *r, const call *c, dict *d)
{
    if (c->all->count > 1 || (c->all->count == 1 && c->all->items[0].kind != VALUE_DICT))
        return rendering_fail(r, HEARTH_INVALID, "%s: takes one dict and named arguments", c->name);
    for (size_t i = 0; c->all->count == 1 && i < c->all->items[0].as.dict->count; i++) {
        const struct entry *e = &c->all->items[0].as.dict->entries[i];
        TRY(dict_set(r, d, e->key, e->value));
    }
    for (size_t i = 0; i < c->all->named_count; i++)
        TRY(dict_set(r, d, value_text(c->all->names[i]), c->all->named[i]));
    return HEARTH_OK;
}

static hearth_status run_dict(rendering *r, const call *c, value *out)
{
    dict *d = dict_new(r);
    if (!d)
        return HEARTH_NO_MEMORY;
    *out = (value){.kind = VALUE_DICT, .as.dict = d};
    return fill_dict(r, c, d);
}

static hearth_status run_namespace(rendering *r, const call *c, value *out)
{
    TRY(run_dict(r, c, out));
    out->kind = VALUE_NAMESPACE;
    return HEARTH_OK;
}

static const function globals[] = {
    {"raise_exception", "message", run_raise},
    {"strftime_now", "format", run_strftime},
    {"range", "start stop? step?", run_range},
    {"namespace", "*", run_namespace},
    {"dict", "*", run_dict},
};

const function *global_at(size_t index)
{
    return index < sizeof globals / sizeof *globals ? &globals[index] : NULL;
}

const function *global_find(span name)
{
    const function *f;
    for (size_t i = 0; (f = global_at(i)); i++)
        if (span_equal(name, span_of(f->name)))
            return f;
    return NULL;
}
