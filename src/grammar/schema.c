/* schema.c - what every schema may have: types, constants, references, combinations; and the table of keywords. */
#include "schema_internal.h"

#include <math.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* ---- places and errors */

hearth_status schema_fail(const schema_compiler *c, hearth_status status, const char *keyword, const char *format, ...)
{
    char text[256];
    va_list arguments;
    va_start(arguments, format);
    vsnprintf(text, sizeof text, format, arguments);
    va_end(arguments);
    if (keyword)
        return fail(c->error, status, "schema: %.300s: %.60s: %s", c->path, keyword, text);
    return fail(c->error, status, "schema: %.300s: %s", c->path, text);
}

size_t schema_enter(schema_compiler *c, const char *name)
{
    size_t before = strlen(c->path), size = before;
    if (size + 2 * strlen(name) + 2 > sizeof c->path)
        return before;
    c->path[size++] = '/';
    for (; *name; name++) {
        if (*name == '~' || *name == '/')
            c->path[size++] = '~';
        c->path[size++] = *name == '~' ? '0' : *name == '/' ? '1' : *name;
    }
    c->path[size] = 0;
    return before;
}

size_t schema_enter_item(schema_compiler *c, size_t index)
{
    char name[24];
    snprintf(name, sizeof name, "%zu", index);
    return schema_enter(c, name);
}

void schema_leave(schema_compiler *c, size_t size)
{
    c->path[size] = 0;
}

/* ---- keywords */

enum {
    UNSUPPORTED = 1 << 8,
    GENERAL = 1 << 9, /* not of certain types */
    NUMERIC = TYPE_INTEGER | TYPE_NUMBER
};

/* Keywords that decide which values fit, of all drafts. All others are notes, which change nothing (JSON Schema 2020-12, 6.5). */
static const struct keyword {
    const char *name;
    unsigned group; /* types, GENERAL or UNSUPPORTED */
} keywords[] = {
    {"type", GENERAL},
    {"enum", GENERAL},
    {"const", GENERAL},
    {"anyOf", GENERAL},
    {"oneOf", GENERAL},
    {"allOf", GENERAL},
    {"$ref", GENERAL},
    {"minLength", TYPE_STRING},
    {"maxLength", TYPE_STRING},
    {"pattern", TYPE_STRING},
    {"format", TYPE_STRING},
    {"minimum", NUMERIC},
    {"maximum", NUMERIC},
    {"exclusiveMinimum", NUMERIC},
    {"exclusiveMaximum", NUMERIC},
    {"items", TYPE_ARRAY},
    {"prefixItems", TYPE_ARRAY},
    {"minItems", TYPE_ARRAY},
    {"maxItems", TYPE_ARRAY},
    {"properties", TYPE_OBJECT},
    {"required", TYPE_OBJECT},
    {"additionalProperties", TYPE_OBJECT},
    {"propertyNames", TYPE_OBJECT},
    {"$dynamicRef", UNSUPPORTED},
    {"$recursiveRef", UNSUPPORTED},
    {"not", UNSUPPORTED},
    {"if", UNSUPPORTED},
    {"then", UNSUPPORTED},
    {"else", UNSUPPORTED},
    {"multipleOf", UNSUPPORTED},
    {"divisibleBy", UNSUPPORTED},
    {"uniqueItems", UNSUPPORTED},
    {"contains", UNSUPPORTED},
    {"minContains", UNSUPPORTED},
    {"maxContains", UNSUPPORTED},
    {"additionalItems", UNSUPPORTED},
    {"unevaluatedItems", UNSUPPORTED},
    {"minProperties", UNSUPPORTED},
    {"maxProperties", UNSUPPORTED},
    {"patternProperties", UNSUPPORTED},
    {"unevaluatedProperties", UNSUPPORTED},
    {"dependencies", UNSUPPORTED},
    {"dependentRequired", UNSUPPORTED},
    {"dependentSchemas", UNSUPPORTED},
    {"disallow", UNSUPPORTED},
    {"extends", UNSUPPORTED},
};

/* Returns the keyword of a member that is no note; NULL: it is one. */
static const struct keyword *find_keyword(const char *name, const json_t *value)
{
    for (size_t i = 0; i < sizeof keywords / sizeof *keywords; i++)
        if (strcmp(keywords[i].name, name) == 0)
            return strcmp(name, "format") == 0 && schema_format_is_note(value) ? NULL : &keywords[i];
    return NULL;
}

bool schema_is_note(const char *name, const json_t *value)
{
    return !find_keyword(name, value);
}

static hearth_status check_keywords(const schema_compiler *c, const json_t *schema)
{
    const char *name;
    json_t *value;
    json_object_foreach((json_t *)schema, name, value)
    {
        const struct keyword *k = find_keyword(name, value);
        if (k && k->group == UNSUPPORTED)
            return schema_fail(c, HEARTH_UNSUPPORTED, name, "this keyword is not supported");
    }
    return HEARTH_OK;
}

/* Returns a keyword that stands beside this one and is no note; NULL: there is none. types: `type` does not
 * count. */
static const char *beside(const json_t *schema, const char *keyword, bool types)
{
    const char *name;
    json_t *value;
    json_object_foreach((json_t *)schema, name, value)
    {
        if (strcmp(name, keyword) != 0 && !schema_is_note(name, value) && !(types && strcmp(name, "type") == 0))
            return name;
    }
    return NULL;
}

static hearth_status check_alone(const schema_compiler *c, const json_t *schema, const char *keyword, bool types)
{
    const char *other = beside(schema, keyword, types);
    return other ? schema_fail(c, HEARTH_UNSUPPORTED, other, "not supported beside %s", keyword) : HEARTH_OK;
}

hearth_status schema_count(const schema_compiler *c, const json_t *schema, const char *keyword, uint32_t *out)
{
    const json_t *value = json_object_get(schema, keyword);
    if (!value)
        return HEARTH_OK;
    if (!json_is_number(value) || json_number_value(value) < 0 ||
        json_number_value(value) != floor(json_number_value(value)))
        return schema_fail(c, HEARTH_FORMAT, keyword, "expected a number of 0 or more");
    if (json_number_value(value) > GRAMMAR_REPEAT_LIMIT)
        return schema_fail(c, HEARTH_UNSUPPORTED, keyword, "%.0f is more than the %d that are supported",
                           json_number_value(value), GRAMMAR_REPEAT_LIMIT);
    *out = (uint32_t)json_number_value(value);
    return HEARTH_OK;
}

/* ---- types */

static const struct type_name {
    const char *name;
    unsigned type;
} type_names[] = {{"null", TYPE_NULL},     {"boolean", TYPE_BOOLEAN}, {"integer", TYPE_INTEGER},
                  {"number", TYPE_NUMBER}, {"string", TYPE_STRING},   {"array", TYPE_ARRAY},
                  {"object", TYPE_OBJECT}};

static unsigned type_of_name(const json_t *name)
{
    for (size_t i = 0; json_is_string(name) && i < sizeof type_names / sizeof *type_names; i++)
        if (strcmp(type_names[i].name, json_string_value(name)) == 0)
            return type_names[i].type;
    return 0;
}

/* Returns the types that `type` names; 0: it is none, or not understood. */
static unsigned named_types(const json_t *type)
{
    unsigned types = type_of_name(type);
    const json_t *name;
    size_t i;
    json_array_foreach(type, i, name)
    {
        unsigned one = type_of_name(name);
        if (!one)
            return 0;
        types |= one;
    }
    return types;
}

static unsigned type_of_value(const json_t *value)
{
    switch (json_typeof(value)) {
    case JSON_OBJECT:
        return TYPE_OBJECT;
    case JSON_ARRAY:
        return TYPE_ARRAY;
    case JSON_STRING:
        return TYPE_STRING;
    case JSON_INTEGER:
        return TYPE_INTEGER;
    case JSON_REAL:
        return json_real_value(value) == floor(json_real_value(value)) ? TYPE_INTEGER : TYPE_NUMBER;
    case JSON_NULL:
        return TYPE_NULL;
    default:
        return TYPE_BOOLEAN;
    }
}

/* Whether a value's type is one of these; an integer is a number too. */
static bool fits_types(const json_t *value, unsigned types)
{
    unsigned type = type_of_value(value);
    return (type & types) || (type == TYPE_INTEGER && (types & TYPE_NUMBER));
}

unsigned schema_types(const json_t *schema)
{
    if (!json_is_object(schema))
        return TYPE_ALL;
    const json_t *type = json_object_get(schema, "type"), *value, *only = json_object_get(schema, "const");
    const json_t *list = json_object_get(schema, "enum");
    size_t i;
    unsigned types = 0;
    if (only)
        return type_of_value(only);
    json_array_foreach(list, i, value)
    {
        types |= type_of_value(value);
    }
    if (types)
        return types;
    if (type)
        return named_types(type);
    const char *name;
    json_t *member;
    json_object_foreach((json_t *)schema, name, member)
    {
        const struct keyword *k = find_keyword(name, member);
        types |= k && k->group < UNSUPPORTED ? k->group : 0;
        if (k && k->group == GENERAL)
            return TYPE_ALL;
    }
    return types ? types : TYPE_ALL;
}

/* ---- values */

fragment schema_mark(schema_compiler *c, char mark)
{
    fragment f = grammar_bytes(c->g, (uint8_t)mark, (uint8_t)mark);
    return grammar_then(c->g, f, grammar_optional(c->g, grammar_bytes(c->g, ' ', ' ')));
}

/* Prints a value with as many digits of reals as tell them from others, 0.1 as 0.1; freed with free. NULL: no memory. */
static char *print_value(const json_t *value)
{
    for (size_t digits = 15;; digits++) {
        char *text = json_dumps(value, JSON_COMPACT | JSON_ENCODE_ANY | JSON_REAL_PRECISION(digits));
        json_t *again = text && digits < 17 ? json_loads(text, JSON_DECODE_ANY, NULL) : NULL;
        bool same = json_equal(again, value);
        json_decref(again);
        if (!text || same || digits == 17)
            return text;
        free(text);
    }
}

hearth_status schema_constant(schema_compiler *c, const json_t *value, fragment *out)
{
    char *text = print_value(value);
    if (!text)
        return fail_memory(c->error, "schema", 0);
    *out = grammar_literal(c->g, span_of(text));
    free(text);
    return HEARTH_OK;
}

static fragment word(schema_compiler *c, const char *text)
{
    return grammar_literal(c->g, span_of(text));
}

/* Appends one more alternative. */
static void add_choice(schema_compiler *c, fragment *all, bool *any, fragment one)
{
    *all = *any ? grammar_either(c->g, *all, one) : one;
    *any = true;
}

/* An empty schema, for which the functions of the types make what JSON allows. */
static hearth_status any_of_types(schema_compiler *c, const json_t *schema, unsigned types, fragment *out)
{
    bool any = false;
    if (types & TYPE_NULL)
        add_choice(c, out, &any, word(c, "null"));
    if (types & TYPE_BOOLEAN)
        add_choice(c, out, &any, grammar_either(c->g, word(c, "true"), word(c, "false")));
    static const struct {
        unsigned type;
        hearth_status (*make)(schema_compiler *c, const json_t *schema, fragment *out);
    } rows[] = {{TYPE_STRING, schema_string}, {TYPE_ARRAY, schema_array}, {TYPE_OBJECT, schema_object}};
    fragment one = {GRAMMAR_NONE, GRAMMAR_NONE};
    if (types & NUMERIC) {
        TRY(schema_number(c, schema, !(types & TYPE_NUMBER), &one));
        add_choice(c, out, &any, one);
    }
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++)
        if (types & rows[i].type) {
            TRY(rows[i].make(c, schema, &one));
            add_choice(c, out, &any, one);
        }
    return HEARTH_OK;
}

fragment schema_any(schema_compiler *c)
{
    if (c->any == GRAMMAR_NONE) {
        fragment body = {GRAMMAR_NONE, GRAMMAR_NONE};
        c->any = grammar_rule_new(c->g, span_of("any value"), 0);
        if (c->any == GRAMMAR_NONE) /* without a rule, arrays of any value would ask for it for ever */
            return grammar_empty(c->g);
        hearth_status status = any_of_types(c, NULL, TYPE_ALL, &body);
        if (status != HEARTH_OK && c->g->status == HEARTH_OK)
            c->g->status = status;
        grammar_rule_define(c->g, c->any, body);
    }
    return grammar_call(c->g, c->any);
}

/* ---- references */

/* Returns what a JSON pointer behind # leads to; NULL: nothing. */
static const json_t *follow_pointer(const json_t *at, const char *pointer)
{
    char name[SCHEMA_PATH_LIMIT];
    while (at && *pointer == '/') {
        size_t size = 0;
        for (pointer++; *pointer && *pointer != '/'; pointer++) {
            if (size + 1 >= sizeof name)
                return NULL;
            char next = *pointer;
            if (next == '~' && (pointer[1] == '0' || pointer[1] == '1'))
                next = *++pointer == '0' ? '~' : '/';
            name[size++] = next;
        }
        name[size] = 0;
        char *end;
        unsigned long index = strtoul(name, &end, 10);
        at = json_is_array(at) ? (*end || size == 0 ? NULL : json_array_get(at, index)) : json_object_get(at, name);
    }
    return *pointer ? NULL : at;
}

static const json_t *reference_target(const schema_compiler *c, const json_t *schema)
{
    const char *text = json_string_value(json_object_get(schema, "$ref"));
    return text && *text == '#' ? follow_pointer(c->root, text + 1) : NULL;
}

const json_t *schema_resolve(schema_compiler *c, const json_t *schema)
{
    for (uint32_t i = 0; i < GRAMMAR_DEPTH_LIMIT && schema; i++) {
        if (!json_object_get(schema, "$ref"))
            return schema;
        c->effort += 1 + json_string_length(json_object_get(schema, "$ref")) / 16;
        schema = reference_target(c, schema);
    }
    return NULL;
}

static hearth_status compile_reference(schema_compiler *c, const json_t *schema, fragment *out)
{
    const json_t *text = json_object_get(schema, "$ref"), *target = reference_target(c, schema);
    TRY(check_alone(c, schema, "$ref", false));
    if (!json_is_string(text))
        return schema_fail(c, HEARTH_FORMAT, "$ref", "expected a string");
    if (!target)
        return schema_fail(c, HEARTH_UNSUPPORTED, "$ref", "'%.100s' is nothing in this schema",
                           json_string_value(text));
    for (size_t i = 0; i < c->reference_count; i++)
        if (c->references[i].schema == target) {
            *out = grammar_call(c->g, c->references[i].rule);
            return HEARTH_OK;
        }
    if (c->reference_count == SCHEMA_REFERENCE_LIMIT)
        return schema_fail(c, HEARTH_UNSUPPORTED, "$ref", "more than %d references", SCHEMA_REFERENCE_LIMIT);
    reference *r = mem_grow(c->references, &c->reference_capacity, c->reference_count, 1, sizeof *r);
    if (!r)
        return fail_memory(c->error, "schema", c->reference_count * sizeof *r);
    c->references = r;
    uint32_t rule = grammar_rule_new(c->g, span_of(json_string_value(text)), 0);
    r[c->reference_count++] = (reference){target, rule};
    *out = grammar_call(c->g, rule);
    return HEARTH_OK;
}

/* ---- combinations */

/* enum, or const as a list of one. */
static hearth_status compile_values(schema_compiler *c, const json_t *schema, const char *keyword, fragment *out)
{
    const json_t *type = json_object_get(schema, "type"), *values = json_object_get(schema, keyword);
    bool is_list = strcmp(keyword, "enum") == 0, any = false;
    TRY(check_alone(c, schema, keyword, true));
    if (is_list && !json_is_array(values))
        return schema_fail(c, HEARTH_FORMAT, keyword, "expected a list");
    unsigned types = type ? named_types(type) : TYPE_ALL;
    if (!types)
        return schema_fail(c, HEARTH_FORMAT, "type", "expected names of types");
    for (size_t i = 0; i < (is_list ? json_array_size(values) : 1); i++) {
        const json_t *value = is_list ? json_array_get(values, i) : values;
        fragment one = {GRAMMAR_NONE, GRAMMAR_NONE};
        if (!fits_types(value, types))
            continue;
        TRY(schema_constant(c, value, &one));
        add_choice(c, out, &any, one);
    }
    return any ? HEARTH_OK : schema_fail(c, HEARTH_FORMAT, keyword, "no value fits");
}

/* Frees the schemas that were made after the first `count`, which are compiled. References lead into the root only. */
static void release(schema_compiler *c, size_t count)
{
    while (json_array_size(c->made) > count)
        json_array_remove(c->made, json_array_size(c->made) - 1);
}

/* Makes a copy of a schema without one of its keywords; owned by the compiler. */
static hearth_status without(schema_compiler *c, const json_t *schema, const char *keyword, json_t **out)
{
    TRY(schema_spend(c, keyword, SCHEMA_COPY_EFFORT + json_object_size(schema)));
    *out = json_copy((json_t *)schema);
    if (!*out || json_array_append_new(c->made, *out) != 0)
        return fail_memory(c->error, "schema", 0);
    json_object_del(*out, keyword);
    return HEARTH_OK;
}

/* anyOf or oneOf; what stands beside it holds for every alternative. */
static hearth_status compile_alternatives(schema_compiler *c, const json_t *schema, const char *keyword, fragment *out)
{
    const json_t *list = json_object_get(schema, keyword), *one;
    size_t i;
    bool any = false;
    json_t *rest;
    size_t made = json_array_size(c->made);
    if (!json_is_array(list) || json_array_size(list) == 0)
        return schema_fail(c, HEARTH_FORMAT, keyword, "expected a list of schemas");
    if (strcmp(keyword, "oneOf") == 0 && json_array_size(list) > SCHEMA_ALTERNATIVE_LIMIT)
        return schema_fail(c, HEARTH_UNSUPPORTED, keyword, "more than %d alternatives", SCHEMA_ALTERNATIVE_LIMIT);
    for (size_t k = 0; strcmp(keyword, "oneOf") == 0 && k < json_array_size(list); k++)
        for (size_t n = 0; n < k; n++)
            if (!schema_excludes(c, json_array_get(list, n), json_array_get(list, k)))
                return schema_fail(c, HEARTH_UNSUPPORTED, keyword,
                                   "alternatives %zu and %zu may both hold as far as hearth can see; anyOf allows that",
                                   n, k);
    TRY(without(c, schema, keyword, &rest));
    size_t path = schema_enter(c, keyword);
    json_array_foreach(list, i, one)
    {
        size_t item = schema_enter_item(c, i);
        fragment f = {GRAMMAR_NONE, GRAMMAR_NONE};
        json_t *merged;
        if (beside(schema, keyword, false)) {
            TRY(schema_merge(c, rest, one, &merged));
            one = merged;
        }
        TRY(schema_value(c, one, &f));
        add_choice(c, out, &any, f);
        schema_leave(c, item);
        release(c, made + 1); /* all but rest */
    }
    release(c, made);
    schema_leave(c, path);
    return HEARTH_OK;
}

static hearth_status compile_all(schema_compiler *c, const json_t *schema, fragment *out)
{
    const json_t *list = json_object_get(schema, "allOf"), *one;
    size_t i;
    json_t *all;
    size_t made = json_array_size(c->made);
    if (!json_is_array(list) || json_array_size(list) == 0)
        return schema_fail(c, HEARTH_FORMAT, "allOf", "expected a list of schemas");
    if (json_array_size(list) > SCHEMA_ALTERNATIVE_LIMIT)
        return schema_fail(c, HEARTH_UNSUPPORTED, "allOf", "more than %d schemas", SCHEMA_ALTERNATIVE_LIMIT);
    TRY(without(c, schema, "allOf", &all));
    json_array_foreach(list, i, one)
    {
        TRY(schema_merge(c, all, one, &all));
    }
    TRY(schema_value(c, all, out));
    release(c, made);
    return HEARTH_OK;
}

static hearth_status compile(schema_compiler *c, const json_t *schema, fragment *out)
{
    static const struct {
        const char *keyword;
        hearth_status (*make)(schema_compiler *c, const json_t *schema, const char *keyword, fragment *out);
    } rows[] = {{"const", compile_values},
                {"enum", compile_values},
                {"anyOf", compile_alternatives},
                {"oneOf", compile_alternatives}};
    if (json_is_true(schema)) {
        *out = schema_any(c);
        return HEARTH_OK;
    }
    if (json_is_false(schema))
        return schema_fail(c, HEARTH_FORMAT, NULL, "no value fits this schema");
    if (!json_is_object(schema))
        return schema_fail(c, HEARTH_FORMAT, NULL, "expected a schema, which is an object, true or false");
    TRY(check_keywords(c, schema));
    if (schema != c->root && json_object_get(schema, "$id"))
        return schema_fail(c, HEARTH_UNSUPPORTED, "$id", "only supported at the top: references would begin here");
    if (json_object_get(schema, "$ref"))
        return compile_reference(c, schema, out);
    if (json_object_get(schema, "allOf"))
        return compile_all(c, schema, out);
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++)
        if (json_object_get(schema, rows[i].keyword))
            return rows[i].make(c, schema, rows[i].keyword, out);
    const json_t *type = json_object_get(schema, "type");
    if (type && !named_types(type))
        return schema_fail(c, HEARTH_FORMAT, "type", "expected names of types");
    unsigned types = schema_types(schema);
    if (types == TYPE_ALL && !type) {
        *out = schema_any(c);
        return HEARTH_OK;
    }
    return any_of_types(c, schema, types, out);
}

hearth_status schema_value(schema_compiler *c, const json_t *schema, fragment *out)
{
    if (++c->depth > GRAMMAR_DEPTH_LIMIT)
        return schema_fail(c, HEARTH_UNSUPPORTED, NULL, "more than %d schemas in each other", GRAMMAR_DEPTH_LIMIT);
    *out = (fragment){GRAMMAR_NONE, GRAMMAR_NONE};
    TRY(compile(c, schema, out));
    c->depth--;
    char where[SCHEMA_PATH_LIMIT + 10];
    snprintf(where, sizeof where, "schema: %s", c->path);
    return grammar_result(c->g, where, c->error);
}

/* ---- the whole */

static hearth_status compile_root(schema_compiler *c)
{
    uint32_t root = grammar_rule_new(c->g, span_of("#"), 0);
    TRY(grammar_result(c->g, "schema", c->error));
    reference *r = mem_grow(NULL, &c->reference_capacity, 0, 1, sizeof *r);
    if (!r || !c->made) {
        mem_free(r);
        return fail_memory(c->error, "schema", sizeof *r);
    }
    r[0] = (reference){c->root, root};
    c->references = r;
    c->reference_count = 1;
    for (size_t i = 0; i < c->reference_count; i++) { /* the list grows */
        reference one = c->references[i];
        fragment body;
        span name = c->g->rules[one.rule].name;
        snprintf(c->path, sizeof c->path, "%.*s", (int)(name.size < 400 ? name.size : 400), name.data);
        c->depth = 0;
        TRY(schema_value(c, one.schema, &body));
        grammar_rule_define(c->g, one.rule, body);
        TRY(grammar_result(c->g, "schema", c->error));
    }
    return grammar_finish(c->g, root, "schema", c->error);
}

hearth_status schema_compile(grammar **out, const json_t *schema, hearth_error *error)
{
    schema_compiler c = {.root = schema,
                         .error = error,
                         .any = GRAMMAR_NONE,
                         .string = GRAMMAR_NONE,
                         .character = GRAMMAR_NONE,
                         .integer = GRAMMAR_NONE,
                         .number = GRAMMAR_NONE};
    TRY(grammar_create(&c.g, error));
    c.made = json_array();
    hearth_status status = compile_root(&c);
    mem_free(c.references);
    json_decref(c.made);
    if (status == HEARTH_OK)
        *out = c.g;
    else
        grammar_destroy(c.g);
    return status;
}

hearth_status schema_parse(grammar **out, span text, hearth_error *error)
{
    json_t *schema;
    TRY(json_parse(&schema, text.data ? text.data : "", text.size, "schema", error));
    hearth_status status = schema_compile(out, schema, error);
    json_decref(schema);
    return status;
}
