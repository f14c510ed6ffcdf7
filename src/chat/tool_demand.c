/* tool_demand.c - see tool_demand.h. */
#include "tool_demand.h"

#include "tool_conventions.h"

#include <stdio.h>
#include <string.h>

/* Members whose values are data, not schemas. */
static bool holds_data(const char *key)
{
    static const char *const keys[] = {"const", "enum", "default", "examples"};
    for (size_t i = 0; i < sizeof keys / sizeof *keys; i++)
        if (strcmp(key, keys[i]) == 0)
            return true;
    return false;
}

/* Has the references within a schema, "#/$defs/a", begin at `place` of a larger one: "#/properties/arguments/$defs/a". false: no
 * memory. */
static bool move_references(json_t *schema, const char *place)
{
    const char *key;
    json_t *value;
    void *next;
    size_t i;
    bool ok = true;
    json_array_foreach(schema, i, value)
    {
        ok = ok && move_references(value, place);
    }
    json_object_foreach_safe(schema, next, key, value)
    {
        const char *to = json_string_value(value);
        if (strcmp(key, "$ref") == 0 && to && to[0] == '#')
            ok = ok && json_object_set_new(schema, key, json_sprintf("#%s%s", place, to + 1)) == 0;
        else if (!holds_data(key))
            ok = ok && move_references(value, place);
    }
    return ok;
}

/* Returns the schema of a tool's arguments, for a place in a larger one. */
static json_t *arguments_of(const json_t *tool, const char *place)
{
    json_t *parameters = json_object_get(json_object_get(tool, "function"), "parameters");
    json_t *own = json_is_object(parameters) ? json_deep_copy(parameters) : json_pack("{s:s}", "type", "object");
    (void)json_object_del(own, "$id");
    if (own && move_references(own, place))
        return own;
    json_decref(own);
    return NULL;
}

static json_t *name_of(const json_t *tool)
{
    return json_object_get(json_object_get(tool, "function"), "name");
}

span tool_name(const json_t *tool)
{
    const json_t *name = name_of(tool);
    return (span){json_string_value(name), json_string_length(name)};
}

/* Appends what is demanded of one tool: an object with its name, or the arguments alone. is_one: there is no other. */
static bool add(json_t *calls, const struct tool_convention *c, const json_t *tool, bool is_one)
{
    const char *key = c->demand.arguments, *list = c->demand.is_list ? "/items" : "";
    char place[96];
    if (!key)
        return json_array_append_new(calls, arguments_of(tool, "")) == 0;
    if (is_one)
        snprintf(place, sizeof place, "%s/properties/%s", list, key);
    else
        snprintf(place, sizeof place, "%s/anyOf/%zu/properties/%s", list, json_array_size(calls), key);
    return json_array_append_new(calls,
                                 json_pack("{s:s, s:{s:{s:O}, s:o}, s:[s, s], s:b}", "type", "object", "properties",
                                           "name", "const", name_of(tool), key, arguments_of(tool, place), "required",
                                           "name", key, "additionalProperties", 0)) == 0;
}

/* Fills in the schema of the calls; what they begin with, but for a name, is there. calls: released. */
static bool set_schema(tool_demand *out, const struct tool_convention *c, json_t *calls)
{
    json_t *one =
        json_array_size(calls) == 1 ? json_incref(json_array_get(calls, 0)) : json_pack("{s:O}", "anyOf", calls);
    json_decref(calls);
    out->schema = c->demand.is_list
                      ? json_pack("{s:s, s:o, s:i, s:i}", "type", "array", "items", one, "minItems", 1, "maxItems", 1)
                      : one;
    return out->schema != NULL;
}

static bool put_name(tool_demand *out, const struct tool_convention *c, const json_t *tool)
{
    span name = tool_name(tool);
    return buffer_put(&out->open, name.data, name.size) && buffer_put(&out->open, c->json_open, strlen(c->json_open));
}

hearth_status tool_demand_make(tool_demand *out, const struct tool_convention *convention, const json_t *tools,
                               span name, hearth_error *error)
{
    const struct tool_convention *c = convention;
    const json_t *last = NULL;
    bool is_one = name.data || json_array_size(tools) == 1;
    json_t *calls = json_array();
    bool ok = calls;
    *out = (tool_demand){0};
    if (!c || !c->demand.open) {
        json_decref(calls);
        return fail(error, HEARTH_UNSUPPORTED, "tool_choice: calls as this model writes them (%s) cannot be demanded",
                    c ? c->name : "no known form");
    }
    for (size_t i = 0; ok && i < json_array_size(tools); i++) {
        const json_t *tool = json_array_get(tools, i);
        if (name.data && !span_equal(name, tool_name(tool)))
            continue;
        last = tool;
        ok = add(calls, c, tool, is_one);
    }
    if (ok && !c->demand.arguments && json_array_size(calls) != 1) {
        json_decref(calls);
        return fail(error, HEARTH_UNSUPPORTED,
                    "tool_choice: of this model (%s) only a call of one tool can be demanded: name it", c->name);
    }
    ok = ok && buffer_put(&out->open, c->demand.open, strlen(c->demand.open)) &&
         (c->demand.arguments || put_name(out, c, last));
    ok = ok ? set_schema(out, c, calls) : (json_decref(calls), false);
    if (ok)
        return HEARTH_OK;
    tool_demand_free(out);
    return fail_memory(error, "tool_choice", 0);
}

void tool_demand_free(tool_demand *d)
{
    buffer_free(&d->open);
    json_decref(d->schema);
    *d = (tool_demand){0};
}
