/* fields.c - the reader of requests. */
#include "fields.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

/* Returns what a value is, for people. */
static const char *type_name(const json_t *value)
{
    static const char *const names[] = {"an object", "a list", "a string", "an integer",
                                        "a number",  "true",   "false",    "null"};
    return names[json_typeof(value)];
}

static bool wrong_type(const char *name, const json_t *value, const char *wanted, problem *p)
{
    return problem_field(p, name, "invalid_type", "%s: must be %s, but is %s", name, wanted, type_name(value));
}

static bool wrong_range(const field *f, const char *name, double value, problem *p)
{
    return problem_field(p, name, "out_of_range", "%s: must be from %.10g to %.10g, but is %.10g", name, f->least,
                         f->most, value);
}

static bool read_bool(const field *f, const char *name, const json_t *value, void *to, problem *p)
{
    (void)f;
    if (!json_is_boolean(value))
        return wrong_type(name, value, "true or false", p);
    *(bool *)to = json_is_true(value);
    return true;
}

static bool read_count(const field *f, const char *name, const json_t *value, void *to, problem *p)
{
    if (!json_is_integer(value))
        return wrong_type(name, value, "an integer", p);
    json_int_t n = json_integer_value(value);
    if ((double)n < f->least || (double)n > f->most)
        return wrong_range(f, name, (double)n, p);
    *(uint32_t *)to = (uint32_t)n;
    return true;
}

static bool read_maybe(const field *f, const char *name, const json_t *value, void *to, problem *p)
{
    field_count *out = to;
    out->given = read_count(f, name, value, &out->value, p);
    return out->given;
}

static bool read_seed(const field *f, const char *name, const json_t *value, void *to, problem *p)
{
    (void)f;
    field_seed *out = to;
    if (!json_is_integer(value))
        return wrong_type(name, value, "an integer", p);
    out->given = json_integer_value(value) >= 0;
    out->value = out->given ? (uint64_t)json_integer_value(value) : 0;
    return true;
}

static bool read_number(const field *f, const char *name, const json_t *value, void *to, problem *p)
{
    if (!json_is_number(value))
        return wrong_type(name, value, "a number", p);
    double n = json_number_value(value);
    if (!isfinite(n) || n < f->least || n > f->most)
        return wrong_range(f, name, n, p);
    *(float *)to = (float)n;
    return true;
}

static bool read_text(const field *f, const char *name, const json_t *value, void *to, problem *p)
{
    (void)f;
    if (!json_is_string(value))
        return wrong_type(name, value, "a string", p);
    *(span *)to = (span){json_string_value(value), json_string_length(value)};
    return true;
}

static bool read_json(const field *f, const char *name, const json_t *value, void *to, problem *p)
{
    static const struct {
        unsigned type;
        json_type json;
        const char *name;
    } rows[] = {{FIELD_LIST, JSON_ARRAY, "a list"},
                {FIELD_OBJECT, JSON_OBJECT, "an object"},
                {FIELD_STRING, JSON_STRING, "a string"}};
    char wanted[64] = "";
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        if (!(f->types & rows[i].type))
            continue;
        if (json_typeof(value) == rows[i].json) {
            *(const json_t **)to = value;
            return true;
        }
        size_t used = strlen(wanted);
        snprintf(wanted + used, sizeof wanted - used, "%s%s", used ? " or " : "", rows[i].name);
    }
    return wrong_type(name, value, wanted, p);
}

static bool read_fixed(const field *f, const char *name, const json_t *value, void *to, problem *p)
{
    (void)to;
    json_t *only = f->only ? json_loads(f->only, JSON_DECODE_ANY, NULL) : NULL;
    bool same = only && json_equal(only, value);
    json_decref(only);
    return same || problem_field(p, name, "unsupported", "%s: is not supported by this server%s%s", name,
                                 f->only ? ", but as " : "", f->only ? f->only : "");
}

static bool (*const readers[FIELD_KIND_COUNT])(const field *, const char *, const json_t *, void *, problem *) = {
    [FIELD_BOOL] = read_bool,     [FIELD_COUNT] = read_count, [FIELD_MAYBE] = read_maybe, [FIELD_SEED] = read_seed,
    [FIELD_NUMBER] = read_number, [FIELD_TEXT] = read_text,   [FIELD_JSON] = read_json,   [FIELD_FIXED] = read_fixed,
};

/* path: "messages[0].": without its end that is the name of the value itself. */
static bool not_an_object(const char *path, const json_t *value, problem *p)
{
    char name[96];
    size_t size = strlen(path);
    snprintf(name, sizeof name, "%.*s", size ? (int)size - 1 : 0, path);
    return wrong_type(size ? name : "body", value, "an object", p);
}

bool fields_read(const field *rows, size_t count, const json_t *object, const char *path, void *record, problem *p)
{
    if (!object || json_is_null(object))
        return true;
    if (!json_is_object(object))
        return not_an_object(path, object, p);
    for (const field *f = rows; f < rows + count; f++) {
        char name[96];
        const json_t *value = json_object_get(object, f->name);
        if (!value || json_is_null(value))
            continue;
        snprintf(name, sizeof name, "%s%s", path, f->name);
        if (!readers[f->kind](f, name, value, (char *)record + f->target, p))
            return false;
    }
    return true;
}

#define MOST_BYTES ((size_t)2 << 20)

bool fields_check_size(const json_t *value, const char *name, problem *p)
{
    size_t size = json_bytes(value);
    return size <= MOST_BYTES || problem_field(p, name, "out_of_range", "%s: takes %zu bytes, at most %zu are allowed",
                                               name, size, MOST_BYTES);
}
