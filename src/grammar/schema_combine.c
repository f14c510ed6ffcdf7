/* schema_combine.c - two schemas at once: both hold (allOf), or never both (oneOf). */
#include "schema_internal.h"

#include <string.h>

/* ---- what it costs */

hearth_status schema_spend(schema_compiler *c, const char *keyword, size_t members)
{
    c->effort += members < SCHEMA_EFFORT_LIMIT ? members : SCHEMA_EFFORT_LIMIT;
    return c->effort < SCHEMA_EFFORT_LIMIT
               ? HEARTH_OK
               : schema_fail(c, HEARTH_UNSUPPORTED, keyword, "combining schemas takes more than %d steps",
                             SCHEMA_EFFORT_LIMIT);
}

static size_t size_of(const json_t *value)
{
    return 1 + json_array_size(value) + json_object_size(value);
}

/* Members of a schema, and of those. */
static size_t weight(const json_t *schema)
{
    const char *name;
    json_t *value;
    size_t sum = 0;
    json_object_foreach((json_t *)schema, name, value)
    {
        sum += size_of(value);
    }
    return sum;
}

/* What a comparison looks at: values, and texts by their length. */
static size_t values_of(const json_t *value)
{
    return json_bytes(value) / JSON_VALUE_BYTES;
}

/* ---- both hold */

/* Whether names has this one. What is no string is in no list, however much there is to it; it is refused later. */
static bool lists(const json_t *names, const json_t *name)
{
    const json_t *one;
    size_t i;
    json_array_foreach(names, i, one)
    {
        if (json_is_string(one) && json_equal(one, name))
            return true;
    }
    return false;
}

/* Adds all members of `from` that `to` does not have, which for other keywords than required must be equal. */
static hearth_status merge_member(schema_compiler *c, json_t *to, const char *keyword, json_t *value)
{
    json_t *had = json_object_get(to, keyword), *one;
    const char *name;
    size_t i;
    bool ok = true;
    if (!had) {
        /* Copied: what is added to it must not appear in the schema that it is from. */
        ok = json_object_set_new(to, keyword, json_copy(value)) == 0;
    } else if (strcmp(keyword, "required") == 0) {
        TRY(schema_spend(c, keyword, json_array_size(had) * json_array_size(value)));
        json_array_foreach(value, i, one)
        {
            ok = ok && (lists(had, one) || json_array_append(had, one) == 0);
        }
    } else if (strcmp(keyword, "properties") == 0) {
        json_object_foreach(value, name, one)
        {
            const json_t *same = json_object_get(had, name);
            if (same)
                TRY(schema_spend(c, keyword, values_of(one)));
            if (same && !json_equal(same, one))
                return schema_fail(c, HEARTH_UNSUPPORTED, "allOf", "property '%.60s' is in several of them", name);
            ok = ok && json_object_set(had, name, one) == 0;
        }
    } else {
        TRY(schema_spend(c, keyword, values_of(value)));
        if (!json_equal(had, value))
            return schema_fail(c, HEARTH_UNSUPPORTED, "allOf", "several of them have %s", keyword);
    }
    return ok ? HEARTH_OK : fail_memory(c->error, "schema", 0);
}

/* Whether one of them speaks of what the other does not list: such keywords mean less side by side than merged. */
static bool depends(const json_t *a, const json_t *b)
{
    static const char *const rows[][2] = {{"additionalProperties", "properties"}, {"items", "prefixItems"}};
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++)
        if ((json_object_get(a, rows[i][0]) && json_object_get(b, rows[i][1])) ||
            (json_object_get(b, rows[i][0]) && json_object_get(a, rows[i][1])))
            return true;
    return false;
}

hearth_status schema_merge(schema_compiler *c, const json_t *a, const json_t *b, json_t **out)
{
    const char *name;
    json_t *value;
    a = schema_resolve(c, a);
    b = schema_resolve(c, b);
    TRY(schema_spend(c, "allOf", 0));
    if (!json_is_object(a) || !json_is_object(b))
        return schema_fail(c, HEARTH_UNSUPPORTED, "allOf", "only objects can be merged");
    TRY(schema_spend(c, "allOf", SCHEMA_COPY_EFFORT + weight(a) + weight(b)));
    bool alone = true; /* nothing but notes in a */
    json_object_foreach((json_t *)a, name, value)
    {
        alone = alone && schema_is_note(name, value);
    }
    if (!alone && depends(a, b))
        return schema_fail(c, HEARTH_UNSUPPORTED, "allOf",
                           "additionalProperties or items in one and what they depend on in another");
    *out = json_object();
    if (!*out || json_array_append_new(c->made, *out) != 0)
        return fail_memory(c->error, "schema", 0);
    json_object_foreach((json_t *)a, name, value)
    {
        if (!schema_is_note(name, value))
            TRY(merge_member(c, *out, name, value));
    }
    json_object_foreach((json_t *)b, name, value)
    {
        if (!schema_is_note(name, value))
            TRY(merge_member(c, *out, name, value));
    }
    return HEARTH_OK;
}

/* ---- never both */

/* Returns the list of the only values that a schema allows, const or enum; NULL: there is none. *one: const's. */
static const json_t *only_values(const json_t *schema, const json_t **one)
{
    *one = json_object_get(schema, "const");
    return *one ? NULL : json_object_get(schema, "enum");
}

/* A real that is whole equals an integer. */
static bool same_value(const json_t *a, const json_t *b)
{
    if (json_is_number(a) && json_is_number(b))
        return json_number_value(a) == json_number_value(b);
    return json_is_object(a) || json_is_array(a) || json_equal(a, b); /* of containers it is not known */
}

/* Counts steps like schema_spend, where too many are no failure. */
static bool can_spend(schema_compiler *c, size_t steps)
{
    if (c->effort >= SCHEMA_EFFORT_LIMIT || steps >= SCHEMA_EFFORT_LIMIT - c->effort)
        return false;
    c->effort += steps;
    return true;
}

/* Whether both have only certain values, and none in common; false if that is too much to find out. */
static bool other_values(schema_compiler *c, const json_t *a, const json_t *b)
{
    const json_t *one_a, *one_b, *list_a = only_values(a, &one_a), *list_b = only_values(b, &one_b);
    if ((!one_a && !json_is_array(list_a)) || (!one_b && !json_is_array(list_b)))
        return false;
    size_t count_a = one_a ? 1 : json_array_size(list_a), count_b = one_b ? 1 : json_array_size(list_b);
    if (count_a > SCHEMA_COMPARISON_LIMIT || count_a * count_b > SCHEMA_COMPARISON_LIMIT ||
        !can_spend(c, count_a * count_b))
        return false;
    for (size_t i = 0; i < count_a; i++)
        for (size_t k = 0; k < count_b; k++)
            if (same_value(one_a ? one_a : json_array_get(list_a, i), one_b ? one_b : json_array_get(list_b, k)))
                return false;
    return true;
}

static bool lists_text(const json_t *names, const char *name)
{
    const json_t *one;
    size_t i;
    json_array_foreach(names, i, one)
    {
        if (json_is_string(one) && strcmp(json_string_value(one), name) == 0)
            return true;
    }
    return false;
}

/* Whether an answer by `a` lacks a property that b requires: one that a's grammar does not write. */
static bool lacks(const json_t *a, const json_t *b)
{
    const json_t *properties = json_object_get(a, "properties"),
                 *additional = json_object_get(a, "additionalProperties");
    const json_t *one;
    size_t i;
    if (!properties || (additional && !json_is_false(additional)))
        return false;
    json_array_foreach(json_object_get(b, "required"), i, one)
    {
        if (json_is_string(one) && !json_object_get(properties, json_string_value(one)) &&
            !lists(json_object_get(a, "required"), one))
            return true;
    }
    return false;
}

/* Whether both require a property, with different values. */
static bool differ_in_property(schema_compiler *c, const json_t *a, const json_t *b)
{
    const char *name;
    json_t *in_a;
    json_object_foreach(json_object_get(a, "properties"), name, in_a)
    {
        const json_t *in_b = json_object_get(json_object_get(b, "properties"), name);
        if (in_b && lists_text(json_object_get(a, "required"), name) &&
            lists_text(json_object_get(b, "required"), name)) {
            const json_t *x = schema_resolve(c, in_a), *y = schema_resolve(c, in_b);
            if (json_is_object(x) && json_is_object(y) && other_values(c, x, y))
                return true;
        }
    }
    return false;
}

/* Steps that the functions above take at most. */
static size_t comparisons(const json_t *a, const json_t *b)
{
    size_t names = json_array_size(json_object_get(a, "required")) + json_array_size(json_object_get(b, "required"));
    return names * (names + json_object_size(json_object_get(a, "properties")));
}

bool schema_excludes(schema_compiler *c, const json_t *a, const json_t *b)
{
    a = schema_resolve(c, a);
    b = schema_resolve(c, b);
    if (!json_is_object(a) || !json_is_object(b))
        return false;
    unsigned x = schema_types(a), y = schema_types(b);
    bool number_and_integer = ((x | y) & TYPE_NUMBER) && ((x | y) & TYPE_INTEGER) &&
                              (x & (TYPE_NUMBER | TYPE_INTEGER)) && (y & (TYPE_NUMBER | TYPE_INTEGER));
    /* Types that only keywords hint at do not exclude others: the schema allows them, though no answer has them. */
    bool named = (json_object_get(a, "type") || json_object_get(a, "const") || json_object_get(a, "enum")) &&
                 (json_object_get(b, "type") || json_object_get(b, "const") || json_object_get(b, "enum"));
    if (named && !(x & y) && !number_and_integer)
        return true;
    if (other_values(c, a, b))
        return true;
    if (x != TYPE_OBJECT || y != TYPE_OBJECT)
        return false;
    if (!can_spend(c, comparisons(a, b)))
        return false;
    return differ_in_property(c, a, b) || (lacks(a, b) && lacks(b, a));
}
