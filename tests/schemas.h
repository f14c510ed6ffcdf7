/* schemas.h - random JSON schemas, and a small validator, which shares nothing with what makes grammars of them. Patterns are
 * checked by PCRE2. */
#ifndef SCHEMAS_H
#define SCHEMAS_H

#define PCRE2_CODE_UNIT_WIDTH 8
#include "../src/base/json.h"
#include "../src/base/random.h"
#include "../src/base/text.h"

#include <arpa/inet.h>
#include <math.h>
#include <pcre2.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

/* ---- the validator */

static inline bool is_valid(const json_t *root, const json_t *schema, const json_t *value);

static inline bool has_type(const json_t *value, const char *type)
{
    switch (json_typeof(value)) {
    case JSON_OBJECT:
        return strcmp(type, "object") == 0;
    case JSON_ARRAY:
        return strcmp(type, "array") == 0;
    case JSON_STRING:
        return strcmp(type, "string") == 0;
    case JSON_NULL:
        return strcmp(type, "null") == 0;
    case JSON_INTEGER:
        return strcmp(type, "integer") == 0 || strcmp(type, "number") == 0;
    case JSON_REAL:
        return strcmp(type, "number") == 0 ||
               (strcmp(type, "integer") == 0 && floor(json_real_value(value)) == json_real_value(value));
    default:
        return strcmp(type, "boolean") == 0;
    }
}

static inline bool is_same(const json_t *a, const json_t *b)
{
    return json_is_number(a) && json_is_number(b) ? json_number_value(a) == json_number_value(b) : json_equal(a, b);
}

static inline bool finds(const char *pattern, const char *text)
{
    int code;
    size_t at;
    pcre2_code *compiled = pcre2_compile((PCRE2_SPTR)pattern, PCRE2_ZERO_TERMINATED, PCRE2_UTF, &code, &at, NULL);
    assert_non_null(compiled);
    pcre2_match_data *data = pcre2_match_data_create_from_pattern(compiled, NULL);
    int found = pcre2_match(compiled, (PCRE2_SPTR)text, strlen(text), 0, 0, data, NULL);
    pcre2_match_data_free(data);
    pcre2_code_free(compiled);
    return found >= 0;
}

static inline bool is_date(const char *text)
{
    static const int days[] = {31, 28, 31, 30, 31, 30, 31, 31, 30, 31, 30, 31};
    int year, month, day, used = 0;
    if (strlen(text) < 10 || sscanf(text, "%4d-%2d-%2d%n", &year, &month, &day, &used) != 3 || used != 10)
        return false;
    bool leap = (year % 4 == 0 && year % 100 != 0) || year % 400 == 0;
    return month >= 1 && month <= 12 && day >= 1 && day <= days[month - 1] + (month == 2 && leap);
}

static inline bool is_time(const char *text)
{
    int hour, minute, second, used = 0, zone_hour, zone_minute, zone_used = 0;
    if (sscanf(text, "%2d:%2d:%2d%n", &hour, &minute, &second, &used) != 3 || used != 8 || hour > 23 || minute > 59 ||
        second > 59)
        return false;
    text += used;
    if (*text == '.') {
        size_t digits = strspn(++text, "0123456789");
        if (digits == 0)
            return false;
        text += digits;
    }
    if (strcmp(text, "Z") == 0)
        return true;
    return (*text == '+' || *text == '-') && sscanf(text + 1, "%2d:%2d%n", &zone_hour, &zone_minute, &zone_used) == 2 &&
           zone_used == 5 && text[6] == 0 && zone_hour < 24 && zone_minute < 60;
}

static inline bool is_hostname(const char *text)
{
    for (size_t length; strlen(text) <= 253; text += length + 1) {
        length = strcspn(text, ".");
        if (length < 1 || length > 63 || text[0] == '-' || text[length - 1] == '-' ||
            strspn(text, "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789-") < length)
            return false;
        if (text[length] == 0)
            return true;
    }
    return false;
}

static inline bool is_email(const char *text)
{
    const char *at = strchr(text, '@');
    return at && at > text && text[0] != '.' && at[-1] != '.' && at - text <= 64 && !strstr(text, "..") &&
           !strpbrk(text, " \"(),:;<>[]\\") && is_hostname(at + 1) && strchr(at, '.');
}

/* P, then numbers with units that get smaller one by one; T comes before those of a day. */
static inline bool is_duration(const char *text)
{
    const char *units = "YMD", *last = NULL;
    bool any = false;
    if (*text++ != 'P')
        return false;
    if (text[strlen(text) - 1] == 'W')
        return strspn(text, "0123456789") == strlen(text) - 1 && strlen(text) > 1;
    while (*text) {
        if (*text == 'T' && units[0] == 'Y') {
            units = "HMS";
            last = NULL;
            any = false;
            text++;
        }
        size_t digits = strspn(text, "0123456789");
        const char *unit = digits > 0 && text[digits] ? strchr(units, text[digits]) : NULL;
        if (!unit || (last && unit != last + 1))
            return false;
        last = unit;
        any = true;
        text += digits + 1;
    }
    return any;
}

static inline bool is_address(int family, const char *text)
{
    unsigned char address[16];
    return inet_pton(family, text, address) == 1;
}

static inline bool has_format(const char *format, const char *text)
{
    if (strcmp(format, "date") == 0)
        return is_date(text) && strlen(text) == 10;
    if (strcmp(format, "time") == 0)
        return is_time(text);
    if (strcmp(format, "date-time") == 0)
        return is_date(text) && text[10] == 'T' && is_time(text + 11);
    if (strcmp(format, "duration") == 0)
        return is_duration(text);
    if (strcmp(format, "hostname") == 0)
        return is_hostname(text);
    if (strcmp(format, "email") == 0)
        return is_email(text);
    if (strncmp(format, "ipv", 3) == 0)
        return is_address(format[3] == '4' ? AF_INET : AF_INET6, text);
    assert_string_equal(format, "uuid");
    return finds("^[[:xdigit:]]{8}-[[:xdigit:]]{4}-[[:xdigit:]]{4}-[[:xdigit:]]{4}-[[:xdigit:]]{12}\\z", text);
}

static inline bool string_fits(const json_t *schema, const json_t *value)
{
    const char *text = json_string_value(value);
    const json_t *limit;
    long length = 0;
    for (const char *t = text; *t; t++)
        length += (*t & 0xC0) != 0x80;
    return (!(limit = json_object_get(schema, "minLength")) || length >= json_integer_value(limit)) &&
           (!(limit = json_object_get(schema, "maxLength")) || length <= json_integer_value(limit)) &&
           (!(limit = json_object_get(schema, "pattern")) || finds(json_string_value(limit), text)) &&
           (!(limit = json_object_get(schema, "format")) || has_format(json_string_value(limit), text));
}

static inline bool number_fits(const json_t *schema, const json_t *value)
{
    const json_t *limit;
    double n = json_number_value(value);
    return (!(limit = json_object_get(schema, "minimum")) || n >= json_number_value(limit)) &&
           (!(limit = json_object_get(schema, "maximum")) || n <= json_number_value(limit)) &&
           (!(limit = json_object_get(schema, "exclusiveMinimum")) || n > json_number_value(limit)) &&
           (!(limit = json_object_get(schema, "exclusiveMaximum")) || n < json_number_value(limit));
}

static inline bool array_fits(const json_t *root, const json_t *schema, const json_t *value)
{
    const json_t *limit, *prefix = json_object_get(schema, "prefixItems"), *items = json_object_get(schema, "items");
    size_t count = json_array_size(value);
    if (((limit = json_object_get(schema, "minItems")) && count < (size_t)json_integer_value(limit)) ||
        ((limit = json_object_get(schema, "maxItems")) && count > (size_t)json_integer_value(limit)))
        return false;
    for (size_t i = 0; i < count; i++) {
        const json_t *one = i < json_array_size(prefix) ? json_array_get(prefix, i) : items;
        if (one && !is_valid(root, one, json_array_get(value, i)))
            return false;
    }
    return true;
}

static inline bool object_fits(const json_t *root, const json_t *schema, const json_t *value)
{
    const json_t *properties = json_object_get(schema, "properties"), *required = json_object_get(schema, "required");
    const json_t *additional = json_object_get(schema, "additionalProperties");
    const char *name;
    json_t *member;
    for (size_t i = 0; i < json_array_size(required); i++)
        if (!json_object_get(value, json_string_value(json_array_get(required, i))))
            return false;
    json_object_foreach((json_t *)value, name, member)
    {
        const json_t *one = json_object_get(properties, name);
        one = one ? one : additional;
        if (one && !is_valid(root, one, member))
            return false;
    }
    return true;
}

static inline size_t count_valid(const json_t *root, const json_t *list, const json_t *value)
{
    size_t count = 0;
    for (size_t i = 0; i < json_array_size(list); i++)
        count += is_valid(root, json_array_get(list, i), value);
    return count;
}

static inline bool is_valid(const json_t *root, const json_t *schema, const json_t *value)
{
    if (json_is_boolean(schema))
        return json_is_true(schema);
    const json_t *k;
    if ((k = json_object_get(schema, "$ref"))) {
        const char *text = json_string_value(k);
        const json_t *target =
            strcmp(text, "#") == 0 ? root : json_object_get(json_object_get(root, "$defs"), text + 8);
        if (!is_valid(root, target, value))
            return false;
    }
    if ((k = json_object_get(schema, "type"))) {
        bool any = json_is_string(k) && has_type(value, json_string_value(k));
        for (size_t i = 0; i < json_array_size(k); i++)
            any = any || has_type(value, json_string_value(json_array_get(k, i)));
        if (!any)
            return false;
    }
    if ((k = json_object_get(schema, "enum"))) {
        bool any = false;
        for (size_t i = 0; i < json_array_size(k); i++)
            any = any || is_same(json_array_get(k, i), value);
        if (!any)
            return false;
    }
    if ((k = json_object_get(schema, "const")) && !is_same(k, value))
        return false;
    if ((k = json_object_get(schema, "anyOf")) && count_valid(root, k, value) == 0)
        return false;
    if ((k = json_object_get(schema, "oneOf")) && count_valid(root, k, value) != 1)
        return false;
    if ((k = json_object_get(schema, "allOf")) && count_valid(root, k, value) != json_array_size(k))
        return false;
    return (!json_is_string(value) || string_fits(schema, value)) &&
           (!json_is_number(value) || number_fits(schema, value)) &&
           (!json_is_array(value) || array_fits(root, schema, value)) &&
           (!json_is_object(value) || object_fits(root, schema, value));
}

/* ---- random schemas, and the words that they are made of */

static uint64_t seed = 3;

static inline int below(int n)
{
    return (int)(random_next(&seed) % (uint64_t)n);
}

static const char *const patterns[] = {"^[a-c]+$",         "^\\d{2,4}-\\w*$", "x|^(yes|no)$",
                                       "^[^a-y\\s]{1,3}$", "^.?\"\\\\$",      "é+"};
static const char *const matching[][2] = {{"abc", "c"},   {"123-a_Z", "00-"}, {"yes", "axb"},
                                          {"z", "!\"\\"}, {"\"\\", "é\"\\"},  {"é", "xéé\ny"}};
static const char *const formats[] = {"date",     "time",  "date-time", "uuid", "duration",
                                      "hostname", "email", "ipv4",      "ipv6"};
static const char *const formatted[][2] = {
    {"2000-02-29", "1999-12-31"},
    {"23:59:59Z", "00:00:00.125+01:30"},
    {"2024-02-29T12:00:00Z", "1900-02-28T01:02:03-08:00"},
    {"01234567-89ab-cdef-0123-456789ABCDEF", "00000000-0000-0000-0000-000000000000"},
    {"P1Y2M30DT23H59M1S", "PT36H"},
    {"localhost", "a-b.Example.org"},
    {"a.b_c@example.org", "x+y@a-1.b.cd"},
    {"0.0.0.0", "255.249.199.10"},
    {"2001:db8:0:0:0:FFFF:1:2", "0:0:0:0:0:0:0:1"}};
static const char *const names[] = {"a", "ab", "b", "", "é", "q\"uote", "long name", "aa"};

static inline json_t *random_schema(int depth);

static inline json_t *random_string_schema(void)
{
    int least = below(4);
    switch (below(5)) {
    case 0:
        return json_pack("{s:s,s:i,s:i}", "type", "string", "minLength", least, "maxLength", least + below(5));
    case 1:
        return json_pack("{s:s,s:s}", "type", "string", "pattern", patterns[below(sizeof patterns / sizeof *patterns)]);
    case 2:
        return json_pack("{s:s,s:s}", "type", "string", "format", formats[below(sizeof formats / sizeof *formats)]);
    case 3:
        return json_pack("{s:i}", "minLength", least);
    default:
        return json_pack("{s:s,s:s}", "type", "string", "description", "a text");
    }
}

static inline json_t *random_number_schema(void)
{
    json_t *schema = json_pack("{s:s}", "type", below(2) ? "integer" : "number");
    int low = below(2000) - 1000, high = low + 2 + below(below(2) ? 5 : 3000);
    if (below(3))
        json_object_set_new(schema, below(2) ? "minimum" : "exclusiveMinimum", json_integer(low));
    if (below(3))
        json_object_set_new(schema, below(2) ? "maximum" : "exclusiveMaximum", json_integer(high));
    return schema;
}

static inline json_t *random_object_schema(int depth)
{
    json_t *properties = json_object(), *required = json_array();
    json_t *schema = json_pack("{s:s,s:o,s:o}", "type", "object", "properties", properties, "required", required);
    for (int i = below(5); i > 0; i--) {
        const char *name = names[below(sizeof names / sizeof *names)];
        if (json_object_get(properties, name))
            continue;
        json_object_set_new(properties, name, random_schema(depth - 1));
        if (below(2))
            json_array_append_new(required, json_string(name));
    }
    if (below(3) == 0)
        json_object_set_new(schema, "additionalProperties", below(2) ? json_false() : random_schema(depth - 1));
    return schema;
}

static inline json_t *random_array_schema(int depth)
{
    json_t *schema = json_pack("{s:s}", "type", "array");
    int least = below(3);
    if (below(3))
        json_object_set_new(schema, "items", random_schema(depth - 1));
    if (below(3) == 0)
        json_object_set_new(schema, "prefixItems",
                            json_pack("[o,o]", random_schema(depth - 1), random_schema(depth - 1)));
    if (below(2))
        json_object_set_new(schema, "minItems", json_integer(least));
    if (below(2))
        json_object_set_new(schema, "maxItems", json_integer(least + below(3)));
    return schema;
}

static inline json_t *random_schema(int depth)
{
    switch (below(depth > 0 ? 13 : 7)) {
    case 0:
        return json_pack("{s:s}", "type", below(2) ? "boolean" : "null");
    case 1:
    case 2:
        return random_string_schema();
    case 3:
    case 4:
        return random_number_schema();
    case 5:
        return json_pack("{s:[s,i,f,n]}", "enum", "one", -2, 2.5);
    case 6:
        return below(2) ? json_pack("{s:s}", "const", "né\n") : json_pack("{s:[s,s]}", "type", "integer", "null");
    case 7:
    case 8:
        return random_object_schema(depth);
    case 9:
        return random_array_schema(depth);
    case 10:
        return json_pack("{s:[o,o]}", "anyOf", random_schema(depth - 1), random_schema(depth - 1));
    case 11:
        return json_pack("{s:[{s:s},{s:s,s:{s:{s:s}},s:[s]},{s:s,s:{s:{s:s}},s:[s]}]}", "oneOf", "type", "number",
                         "type", "object", "properties", "k", "const", "x", "required", "k", "type", "object",
                         "properties", "k", "const", "y", "required", "k");
    default:
        return below(3) ? json_pack("{s:s}", "$ref", "#/$defs/tree") : below(2) ? json_object() : json_true();
    }
}

static inline json_t *with_definitions(json_t *schema)
{
    json_t *tree = json_pack("{s:s,s:{s:{s:s},s:{s:s,s:{s:s}}},s:[s]}", "type", "object", "properties", "v", "type",
                             "integer", "sub", "type", "array", "items", "$ref", "#/$defs/tree", "required", "v");
    if (json_is_object(schema))
        json_object_set_new(schema, "$defs", json_pack("{s:o}", "tree", tree));
    else
        json_decref(tree);
    return schema;
}

static inline void check_text(const json_t *schema, span text)
{
    json_error_t cause;
    json_t *value = json_loadb(text.data, text.size, JSON_DECODE_ANY, &cause);
    if (!value || !is_valid(schema, schema, value)) {
        char *shown = json_dumps(schema, JSON_ENCODE_ANY);
        fail_msg("%s: '%.*s' is not valid%s%s", shown, (int)text.size, text.data, value ? "" : ": ",
                 value ? "" : cause.text);
    }
    json_decref(value);
}

#endif
