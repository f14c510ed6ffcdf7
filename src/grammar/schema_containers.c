/* schema_containers.c - arrays and objects.
 *
 * Optional properties with commas between those that are there: once one is there, each further one is a comma and
 * the property, or nothing. Before, each is the first one, which goes on in that row, or is left out. So a property
 * is written at two places, and called as a rule at both. */
#include "schema_internal.h"

#include <string.h>

/* Makes a rule of a fragment, so that it can stand at several places. */
static uint32_t rule_of(schema_compiler *c, const char *name, fragment body)
{
    uint32_t rule = grammar_rule_new(c->g, span_of(name), 0);
    grammar_rule_define(c->g, rule, body);
    return rule;
}

static fragment in_brackets(schema_compiler *c, char open, fragment inside, char close)
{
    fragment all = grammar_then(c->g, grammar_bytes(c->g, (uint8_t)open, (uint8_t)open), inside);
    return grammar_then(c->g, all, grammar_bytes(c->g, (uint8_t)close, (uint8_t)close));
}

/* ---- arrays */

/* rule, then as many others behind commas as least and most leave. */
static fragment list_of(schema_compiler *c, uint32_t rule, uint32_t least, uint32_t most)
{
    if (most == 0)
        return grammar_empty(c->g);
    fragment more = grammar_then(c->g, schema_mark(c, ','), grammar_call(c->g, rule));
    uint32_t most_more = most == GRAMMAR_NO_LIMIT ? most : most - 1;
    fragment all = grammar_call(c->g, rule);
    all = grammar_then(c->g, all, grammar_repeat(c->g, more, least > 0 ? least - 1 : 0, most_more));
    return least == 0 ? grammar_optional(c->g, all) : all;
}

/* Makes the rule of what comes behind the items of prefixItems; GRAMMAR_NONE: nothing does. */
static hearth_status item_rule(schema_compiler *c, const json_t *items, bool has_prefix, uint32_t *rule)
{
    *rule = GRAMMAR_NONE;
    fragment body;
    if (json_is_false(items) || (!items && has_prefix))
        return HEARTH_OK;
    if (json_is_array(items))
        return schema_fail(c, HEARTH_UNSUPPORTED, "items", "a list is not supported; see prefixItems");
    size_t path = schema_enter(c, "items");
    if (items)
        TRY(schema_value(c, items, &body));
    else
        body = schema_any(c);
    schema_leave(c, path);
    *rule = rule_of(c, c->path, body);
    return HEARTH_OK;
}

hearth_status schema_array(schema_compiler *c, const json_t *schema, fragment *out)
{
    const json_t *items = json_object_get(schema, "items"), *prefix = json_object_get(schema, "prefixItems");
    uint32_t least = 0, most = GRAMMAR_NO_LIMIT, rule;
    TRY(schema_count(c, schema, "minItems", &least));
    TRY(schema_count(c, schema, "maxItems", &most));
    if (prefix && !json_is_array(prefix))
        return schema_fail(c, HEARTH_FORMAT, "prefixItems", "expected a list of schemas");
    size_t first = json_array_size(prefix);
    if (first > GRAMMAR_REPEAT_LIMIT)
        return schema_fail(c, HEARTH_UNSUPPORTED, "prefixItems", "too many items");
    /* Where more items are asked for than the prefix has, any will do. */
    TRY(item_rule(c, items, prefix && least <= first, &rule));
    if (rule == GRAMMAR_NONE && most > first)
        most = (uint32_t)first;
    if (least > most)
        return schema_fail(c, HEARTH_FORMAT, "minItems", "no array has %u items and at most %u", least, most);
    /* From the last to the first, each with all that follows it. */
    uint32_t left = (uint32_t)first < most ? (uint32_t)first : most;
    fragment rest = grammar_empty(c->g);
    if (rule != GRAMMAR_NONE && most > left && first == 0) {
        *out = in_brackets(c, '[', list_of(c, rule, least, most), ']');
        return HEARTH_OK;
    }
    if (rule != GRAMMAR_NONE && most > left) {
        fragment more = grammar_then(c->g, schema_mark(c, ','), grammar_call(c->g, rule));
        rest =
            grammar_repeat(c->g, more, least > left ? least - left : 0, most == GRAMMAR_NO_LIMIT ? most : most - left);
    }
    size_t path = schema_enter(c, "prefixItems");
    for (uint32_t i = left; i-- > 0;) {
        fragment item;
        size_t place = schema_enter_item(c, i);
        TRY(schema_value(c, json_array_get(prefix, i), &item));
        schema_leave(c, place);
        if (i > 0)
            item = grammar_then(c->g, schema_mark(c, ','), item);
        rest = grammar_then(c->g, item, rest);
        if (i >= least)
            rest = grammar_optional(c->g, rest);
    }
    schema_leave(c, path);
    *out = in_brackets(c, '[', rest, ']');
    return HEARTH_OK;
}

/* ---- objects */

typedef struct property {
    const char *name;
    uint32_t rule; /* "name": value */
    bool required;
} property;

typedef struct property_list {
    property *items; /* [count] */
    size_t count, capacity;
} property_list;

/* Adds "name": value. */
static hearth_status add_property(schema_compiler *c, property_list *list, const char *name, bool required,
                                  fragment value)
{
    json_t *text = json_string(name);
    fragment key;
    hearth_status status = text ? schema_constant(c, text, &key) : fail_memory(c->error, "schema", 0);
    json_decref(text);
    TRY(status);
    property *items = mem_grow(list->items, &list->capacity, list->count, 1, sizeof *items);
    if (!items)
        return fail_memory(c->error, "schema", list->count * sizeof *items);
    list->items = items;
    fragment all = grammar_then(c->g, grammar_then(c->g, key, schema_mark(c, ':')), value);
    items[list->count++] = (property){name, rule_of(c, c->path, all), required};
    return HEARTH_OK;
}

/* Returns an object with the names of `required` as keys, which finds one at once; NULL: no memory. */
static json_t *names_in(const json_t *required)
{
    json_t *names = json_object();
    const json_t *one;
    size_t i;
    json_array_foreach(required, i, one)
    {
        if (names && json_is_string(one) && json_object_set_new(names, json_string_value(one), json_true()) != 0) {
            json_decref(names);
            names = NULL;
        }
    }
    return names;
}

static hearth_status add_listed(schema_compiler *c, const json_t *schema, const json_t *wanted, property_list *list)
{
    const char *name;
    json_t *member;
    fragment value;
    size_t path = schema_enter(c, "properties");
    json_object_foreach(json_object_get(schema, "properties"), name, member)
    {
        bool must = json_object_get(wanted, name);
        if (json_is_false(member) && !must)
            continue;
        size_t place = schema_enter(c, name);
        TRY(schema_value(c, member, &value));
        TRY(add_property(c, list, name, must, value));
        schema_leave(c, place);
    }
    schema_leave(c, path);
    return HEARTH_OK;
}

/* Adds what is required beyond the properties; takes each name from `wanted`, as `required` may have it again. */
static hearth_status add_unlisted(schema_compiler *c, const json_t *schema, json_t *wanted, property_list *list)
{
    const json_t *properties = json_object_get(schema, "properties"), *one;
    const json_t *additional = json_object_get(schema, "additionalProperties");
    fragment value;
    size_t i;
    json_array_foreach(json_object_get(schema, "required"), i, one)
    {
        if (!json_is_string(one))
            return schema_fail(c, HEARTH_FORMAT, "required", "expected names of properties");
        const char *name = json_string_value(one);
        if (json_object_get(properties, name) || json_object_del(wanted, name) != 0)
            continue;
        if (json_is_false(additional))
            return schema_fail(c, HEARTH_FORMAT, "required", "'%.100s' is not among the properties", name);
        size_t path = schema_enter(c, "additionalProperties");
        if (additional)
            TRY(schema_value(c, additional, &value));
        else
            value = schema_any(c);
        schema_leave(c, path);
        TRY(add_property(c, list, name, true, value));
    }
    return HEARTH_OK;
}

/* The schema's properties in its order, then what is required beyond them. */
static hearth_status add_properties(schema_compiler *c, const json_t *schema, property_list *list)
{
    json_t *wanted = names_in(json_object_get(schema, "required"));
    if (!wanted)
        return fail_memory(c->error, "schema", 0);
    hearth_status status = add_listed(c, schema, wanted, list);
    if (status == HEARTH_OK)
        status = add_unlisted(c, schema, wanted, list);
    json_decref(wanted);
    return status;
}

/* Makes the rule of any other member, "key": value; GRAMMAR_NONE: there may be none. */
static hearth_status other_rule(schema_compiler *c, const json_t *schema, const property_list *list, uint32_t *rule)
{
    const json_t *additional = json_object_get(schema, "additionalProperties");
    const json_t *properties = json_object_get(schema, "properties");
    fragment key, value;
    *rule = GRAMMAR_NONE;
    if (json_is_false(additional) || (!additional && (properties || list->count > 0)))
        return HEARTH_OK;
    size_t path = schema_enter(c, "additionalProperties"), count = 0;
    const char **names = mem_new_array(json_object_size(properties) + list->count, sizeof *names);
    if (!names)
        return fail_memory(c->error, "schema", 0);
    const char *name;
    json_t *member;
    json_object_foreach((json_t *)properties, name, member)
    {
        names[count++] = name;
    }
    for (size_t i = 0; i < list->count; i++)
        if (!json_object_get(properties, list->items[i].name))
            names[count++] = list->items[i].name;
    hearth_status status = schema_other_key(c, names, count, &key);
    if (status == HEARTH_OK && additional)
        status = schema_value(c, additional, &value);
    else
        value = schema_any(c);
    mem_free(names);
    TRY(status);
    schema_leave(c, path);
    *rule = rule_of(c, c->path, grammar_then(c->g, grammar_then(c->g, key, schema_mark(c, ':')), value));
    return HEARTH_OK;
}

/* Joins properties and other members with commas. */
static fragment join(schema_compiler *c, const property_list *list, uint32_t other)
{
    grammar *g = c->g;
    /* all: what begins with a first member. rest: what comes behind one. Both from the end to the beginning. */
    fragment rest = grammar_empty(g), all = grammar_empty(g);
    uint32_t end = all.end;
    if (other != GRAMMAR_NONE) {
        fragment more = grammar_then(g, schema_mark(c, ','), grammar_call(g, other));
        rest = grammar_repeat(g, more, 0, GRAMMAR_NO_LIMIT);
        fragment first = grammar_call(g, other);
        grammar_link(g, first.end, rest.start);
        all = grammar_either(g, (fragment){first.start, grammar_empty(g).end}, all);
        end = all.end;
    }
    grammar_link(g, rest.end, end);
    for (size_t i = list->count; i-- > 0;) {
        const property *p = &list->items[i];
        fragment first = grammar_call(g, p->rule);
        grammar_link(g, first.end, rest.start);
        if (p->required)
            all.start = first.start;
        else
            all.start = grammar_either(g, (fragment){first.start, grammar_empty(g).end},
                                       (fragment){all.start, grammar_empty(g).end})
                            .start;
        fragment more = grammar_then(g, schema_mark(c, ','), grammar_call(g, p->rule));
        if (!p->required)
            more = grammar_optional(g, more);
        grammar_link(g, more.end, rest.start);
        rest.start = more.start;
    }
    return (fragment){all.start, end};
}

/* Whether a schema allows every string: all that is understood of propertyNames. */
static bool allows_strings(const json_t *schema)
{
    const char *name;
    json_t *value;
    if (!json_is_object(schema))
        return json_is_true(schema);
    json_object_foreach((json_t *)schema, name, value)
    {
        if (!schema_is_note(name, value) && !(strcmp(name, "type") == 0 && (schema_types(schema) & TYPE_STRING)))
            return false;
    }
    return true;
}

hearth_status schema_object(schema_compiler *c, const json_t *schema, fragment *out)
{
    const json_t *properties = json_object_get(schema, "properties"), *required = json_object_get(schema, "required");
    if (properties && !json_is_object(properties))
        return schema_fail(c, HEARTH_FORMAT, "properties", "expected an object of schemas");
    const json_t *names = json_object_get(schema, "propertyNames");
    if (names && !allows_strings(names))
        return schema_fail(c, HEARTH_UNSUPPORTED, "propertyNames", "only supported where it allows every name");
    if (required && !json_is_array(required))
        return schema_fail(c, HEARTH_FORMAT, "required", "expected a list of names");
    if (json_object_size(properties) > SCHEMA_PROPERTY_LIMIT || json_array_size(required) > SCHEMA_PROPERTY_LIMIT)
        return schema_fail(c, HEARTH_UNSUPPORTED, properties ? "properties" : "required", "more than %d names",
                           SCHEMA_PROPERTY_LIMIT);
    property_list list = {0};
    uint32_t other;
    hearth_status status = add_properties(c, schema, &list);
    if (status == HEARTH_OK)
        status = other_rule(c, schema, &list, &other);
    if (status == HEARTH_OK)
        *out = in_brackets(c, '{', join(c, &list, other), '}');
    mem_free(list.items);
    return status;
}
