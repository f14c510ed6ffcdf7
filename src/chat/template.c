/* template.c - a parsed template, and one rendering of it. */
#include "template.h"

#include "../base/error.h"
#include "node.h"
#include "statement.h"

#include <string.h>

struct template
{
    arena memory;
    const char *name;
    node_list body;
};

hearth_status template_create(template **out, span source, const char *name, hearth_error *error)
{
    *out = NULL;
    if (source.size > TEMPLATE_LIMIT)
        return fail(error, HEARTH_FORMAT, "%s: has %zu bytes, a template at most %zu", name, source.size,
                    TEMPLATE_LIMIT);
    if (!utf8_is_valid(source.data, source.size))
        return fail(error, HEARTH_FORMAT, "%s: is not UTF-8", name);
    template *t = mem_new(sizeof *t);
    if (!t)
        return fail_memory(error, name, sizeof *t);
    hearth_error own = {0}; /* the parser always has one to write to */
    t->name = arena_copy_text(&t->memory, name, strlen(name));
    hearth_status status = t->name ? parse_template(source, t->name, &t->memory, &t->body, error ? error : &own)
                                   : fail_memory(error, name, strlen(name));
    if (status != HEARTH_OK) {
        template_destroy(t);
        return status;
    }
    *out = t;
    return HEARTH_OK;
}

void template_destroy(template *t)
{
    if (!t)
        return;
    arena_clear(&t->memory);
    mem_free(t);
}

/* ------------------------------------------------------------------ JSON to values */

static hearth_status to_value(rendering *r, const json_t *json, value *out);

static hearth_status copy_text(rendering *r, span text, value *out)
{
    char *copy = rendering_claim(r, text.size, 1);
    if (!copy)
        return HEARTH_NO_MEMORY;
    memcpy(copy, text.data, text.size);
    *out = value_text((span){copy, text.size});
    return HEARTH_OK;
}

static hearth_status to_list(rendering *r, const json_t *json, value *out)
{
    size_t count = json_array_size(json);
    value *items = rendering_claim(r, count, sizeof *items);
    if (!items)
        return HEARTH_NO_MEMORY;
    for (size_t i = 0; i < count; i++)
        TRY(to_value(r, json_array_get(json, i), &items[i]));
    *out = value_list_of(items, count);
    return HEARTH_OK;
}

/* Keys of a JSON object differ, so that entries need not be searched for. */
static hearth_status to_dict(rendering *r, const json_t *json, dict *d)
{
    const char *key;
    json_t *item;
    d->capacity = json_object_size(json);
    d->entries = rendering_claim(r, d->capacity, sizeof *d->entries);
    if (!d->entries)
        return HEARTH_NO_MEMORY;
    json_object_foreach((json_t *)json, key, item)
    {
        struct entry *e = &d->entries[d->count++];
        TRY(copy_text(r, span_of(key), &e->key));
        TRY(to_value(r, item, &e->value));
    }
    return HEARTH_OK;
}

static hearth_status to_any_value(rendering *r, const json_t *json, value *out)
{
    switch (json_typeof(json)) {
    case JSON_OBJECT: {
        dict *d = dict_new(r);
        *out = (value){.kind = VALUE_DICT, .as.dict = d};
        return d ? to_dict(r, json, d) : HEARTH_NO_MEMORY;
    }
    case JSON_ARRAY:
        return to_list(r, json, out);
    case JSON_STRING:
        return copy_text(r, (span){json_string_value(json), json_string_length(json)}, out);
    case JSON_INTEGER:
        *out = value_integer(json_integer_value(json));
        return HEARTH_OK;
    case JSON_REAL:
        *out = value_float(json_real_value(json));
        return HEARTH_OK;
    case JSON_TRUE:
    case JSON_FALSE:
        *out = value_bool(json_is_true(json));
        return HEARTH_OK;
    default:
        *out = value_none();
        return HEARTH_OK;
    }
}

static hearth_status to_value(rendering *r, const json_t *json, value *out)
{
    TRY(rendering_spend(r, 1));
    TRY(rendering_enter(r));
    hearth_status status = to_any_value(r, json, out);
    rendering_leave(r);
    return status;
}

/* ------------------------------------------------------------------ rendering */

/* The variables of the caller are around those that the template sets. */
static hearth_status render(rendering *r, const template *t, const json_t *variables)
{
    frame outer = {.names = dict_new(r)}, own = {.names = dict_new(r), .parent = &outer};
    if (!outer.names || !own.names)
        return HEARTH_NO_MEMORY;
    TRY(to_dict(r, variables, outer.names));
    return run_statements(r, &own, &t->body);
}

hearth_status template_render(const template *t, const json_t *variables, const struct tm *now, buffer *out,
                              hearth_error *error)
{
    growing text = {0};
    hearth_error own = {0};
    rendering r = {.name = t->name,
                   .line = 1,
                   .memory_left = MEMORY_LIMIT,
                   .steps_left = STEPS_LIMIT,
                   .now = now,
                   .out = &text,
                   .error = error ? error : &own};
    hearth_status status = render(&r, t, variables);
    if (status == HEARTH_OK && !buffer_put(out, text.data, text.size))
        status = fail_memory(error, t->name, text.size);
    arena_clear(&r.memory);
    return status;
}
