/* tool_bodies.c - from the text of a call, as a model writes it, to a name and arguments in JSON.
 *
 * Arguments that are JSON already are taken as they stand, byte for byte: numbers keep all their digits. */
#include "tool_conventions.h"

#include <stdlib.h>
#include <string.h>

#define NAME_LIMIT 128
/* Numbers of any size are valid; the text is what counts, not what jansson makes of it. */
#define LOADING (JSON_ALLOW_NUL | JSON_REJECT_DUPLICATES | JSON_DECODE_INT_AS_REAL)

/* ------------------------------------------------------------------ spans */

static span skip(span text, size_t size)
{
    return (span){text.data + size, text.size - size};
}

static span skip_white(span text)
{
    while (text.size > 0 && is_white(text.data[0]))
        text = skip(text, 1);
    return text;
}

static span trim(span text)
{
    text = skip_white(text);
    while (text.size > 0 && is_white(text.data[text.size - 1]))
        text.size--;
    return text;
}

static bool is_one_of(char c, const char *set)
{
    return c && strchr(set, c);
}

static bool begins_with(span text, const char *mark)
{
    size_t size = strlen(mark);
    return text.size >= size && memcmp(text.data, mark, size) == 0;
}

/* Cuts a text at the first mark: *before, and *text behind it. false: there is none. */
static bool cut(span *text, const char *mark, span *before)
{
    const char *found = text->size > 0 ? memmem(text->data, text->size, mark, strlen(mark)) : NULL;
    if (!found)
        return false;
    *before = (span){text->data, (size_t)(found - text->data)};
    *text = skip(*text, before->size + strlen(mark));
    return true;
}

bool tool_name_byte(char c)
{
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '_' || c == '-' ||
           c == '.';
}

/* Takes the name that a text begins with; size 0: it does not. gpt-oss and Kimi put a namespace before it. */
static span take_name(span *text)
{
    static const char namespace[] = "functions.";
    *text = skip_white(*text);
    if (begins_with(*text, namespace))
        *text = skip(*text, sizeof namespace - 1);
    span name = {text->data, 0};
    while (name.size < text->size && tool_name_byte(text->data[name.size]))
        name.size++;
    *text = skip(*text, name.size);
    return name;
}

/* ------------------------------------------------------------------ JSON */

/* Returns the size of the string or of the brackets that a text begins with, or of anything else up to a comma, a bracket
 * or white space. 0: it has no end. Whether it is valid shows when it is parsed. */
static size_t value_size(span text)
{
    size_t depth = 0;
    bool is_quoted = false;
    for (size_t i = 0; i < text.size; i++) {
        char c = text.data[i];
        if (is_quoted) {
            i += c == '\\';
            is_quoted = c != '"';
        } else if (c == '"')
            is_quoted = true;
        else if (c == '{' || c == '[')
            depth++;
        else if (depth == 0 && (c == ',' || c == '}' || c == ']' || is_white(c)))
            return i;
        else if (c == '}' || c == ']')
            depth--;
        if (depth == 0 && !is_quoted && (c == '"' || c == '}' || c == ']'))
            return i + 1;
    }
    return depth == 0 && !is_quoted ? text.size : 0;
}

/* Returns what failed: memory, or the text. */
static tool_reading failure_of(const json_error_t *error)
{
    return json_error_code(error) == json_error_out_of_memory ? TOOL_NO_MEMORY : TOOL_BROKEN;
}

static tool_reading load_object(span text, json_t **out)
{
    json_error_t error = {0};
    *out = json_loadb(text.size ? text.data : "", text.size, LOADING, &error);
    if (*out && json_is_object(*out))
        return TOOL_READ;
    tool_reading read = *out ? TOOL_BROKEN : failure_of(&error);
    json_decref(*out);
    *out = NULL;
    return read;
}

/* Appends a call whose arguments are the text of an object, if they are valid. */
static tool_reading append(json_t *out, span name, span arguments)
{
    json_t *object;
    if (name.size == 0 || name.size > NAME_LIMIT)
        return TOOL_BROKEN;
    tool_reading read = load_object(arguments, &object);
    json_decref(object);
    if (read != TOOL_READ)
        return read;
    json_t *call = json_pack("{s:o, s:o}", "name", json_text(name), "arguments", json_text(arguments));
    return json_array_append_new(out, call) == 0 ? TOOL_READ : TOOL_NO_MEMORY;
}

/* ------------------------------------------------------------------ objects */

/* Returns the text of a member of an object that is valid JSON; size 0: it has none of this name. */
static span member_text(span object, const char *name)
{
    for (span rest = skip_white(skip(object, 1)); rest.size > 0 && rest.data[0] == '"';) {
        size_t size = value_size(rest);
        span key = {rest.data + 1, size - 2};
        rest = skip_white(skip_white(skip(rest, size)));
        rest = skip_white(skip(rest, 1)); /* the colon */
        size = value_size(rest);
        if (span_equal(key, span_of(name)))
            return (span){rest.data, size};
        rest = skip_white(skip(rest, size));
        rest = skip_white(skip(rest, rest.size > 0)); /* a comma, or the end */
    }
    return (span){0};
}

/* Some models write the object of the arguments into a string. */
static tool_reading append_of(json_t *out, span name, span object, const json_t *arguments, const char *key)
{
    if (json_is_string(arguments))
        return append(out, name, (span){json_string_value(arguments), json_string_length(arguments)});
    return append(out, name, member_text(object, key));
}

static tool_reading read_object(json_t *out, span text)
{
    json_t *object;
    tool_reading read = load_object(text, &object);
    if (read != TOOL_READ)
        return read;
    const json_t *name = json_object_get(object, "name"), *arguments = json_object_get(object, "arguments");
    const char *key = arguments ? "arguments" : "parameters";
    if (!name)
        name = json_object_get(object, "tool_name");
    if (!arguments)
        arguments = json_object_get(object, key);
    read = json_is_string(name) && arguments
               ? append_of(out, (span){json_string_value(name), json_string_length(name)}, text, arguments, key)
               : TOOL_BROKEN;
    json_decref(object);
    return read;
}

/* Skips what stands between calls, and around them. */
static span skip_separators(span text)
{
    while (text.size > 0 && (is_white(text.data[0]) || is_one_of(text.data[0], "[],;")))
        text = skip(text, 1);
    return text;
}

tool_reading tool_read_objects(const tool_convention *c, span body, const json_t *tools, json_t *out)
{
    (void)c;
    (void)tools;
    tool_reading read = TOOL_BROKEN;
    for (body = skip_separators(body); body.size > 0; body = skip_separators(body)) {
        size_t size = body.data[0] == '{' ? value_size(body) : 0;
        read = size > 0 ? read_object(out, (span){body.data, size}) : TOOL_BROKEN;
        if (read != TOOL_READ)
            break;
        body = skip(body, size);
    }
    return read;
}

/* ------------------------------------------------------------------ names before objects */

/* DeepSeek R1 ends the arguments with the end of a block of Markdown. */
tool_reading tool_read_named(const tool_convention *c, span body, const json_t *tools, json_t *out)
{
    (void)tools;
    span head;
    if (!cut(&body, c->json_open, &head))
        return TOOL_BROKEN;
    body = trim(body);
    for (int i = 0; i < 3 && body.size > 0 && body.data[body.size - 1] == '`'; i++)
        body.size--;
    return append(out, take_name(&head), trim(body));
}

/* ------------------------------------------------------------------ tags */

/* What Python calls values of JSON. */
static const struct python_value {
    const char *text, *json;
} python_values[] = {{"True", "true"}, {"False", "false"}, {"None", "null"}};

/* Returns the parameters of a tool with their schemas; NULL: nothing is known of them. */
static json_t *find_parameters(const json_t *tools, span tool)
{
    for (size_t i = 0; i < json_array_size(tools); i++) {
        const json_t *function = json_object_get(json_array_get(tools, i), "function");
        const char *name = json_string_value(json_object_get(function, "name"));
        if (name && span_equal(span_of(name), tool))
            return json_object_get(json_object_get(function, "parameters"), "properties");
    }
    return NULL;
}

/* Returns the schema of a parameter; NULL: there is none. */
static const json_t *find_schema(json_t *parameters, span key)
{
    const char *name;
    json_t *schema;
    json_object_foreach(parameters, name, schema)
    {
        if (span_equal(span_of(name), key))
            return schema;
    }
    return NULL;
}

/* Whether a schema's type, or list of types, has a value's. */
static bool type_allows(const json_t *type, const json_t *value)
{
    static const char *const names[][2] = {
        [JSON_OBJECT] = {"object"}, [JSON_ARRAY] = {"array"},
        [JSON_STRING] = {"string"}, [JSON_INTEGER] = {"integer", "number"},
        [JSON_REAL] = {"number"},   [JSON_TRUE] = {"boolean"},
        [JSON_FALSE] = {"boolean"}, [JSON_NULL] = {"null"},
    };
    const char *text = json_string_value(type);
    const char *const *own = names[json_typeof(value)];
    if (text)
        return strcmp(text, own[0]) == 0 || (own[1] && strcmp(text, own[1]) == 0);
    for (size_t i = 0; i < json_array_size(type); i++)
        if (json_is_string(json_array_get(type, i)) && type_allows(json_array_get(type, i), value))
            return true;
    return false;
}

/* Whether a schema may mean a value: its type, or that of an alternative. A schema without either allows all. */
static bool schema_allows(const json_t *schema, const json_t *value)
{
    static const char *const alternatives[] = {"anyOf", "oneOf"};
    const json_t *type = json_object_get(schema, "type");
    bool is_open = !type;
    if (type && type_allows(type, value))
        return true;
    for (size_t k = 0; k < 2; k++) {
        const json_t *list = json_object_get(schema, alternatives[k]);
        is_open &= !list;
        for (size_t i = 0; i < json_array_size(list); i++)
            if (type_allows(json_object_get(json_array_get(list, i), "type"), value))
                return true;
    }
    return is_open;
}

/* Appends a text as a string in JSON. */
static bool put_string(buffer *out, span text)
{
    json_t *string = json_text(text);
    char *quoted = string ? json_dumps(string, JSON_ENCODE_ANY) : NULL;
    bool ok = quoted && buffer_put(out, quoted, strlen(quoted));
    json_decref(string);
    free(quoted);
    return ok;
}

/* Appends a value that was written without quotes: as it stands where it is JSON that the schema allows, else as a
 * string. */
static bool put_value(buffer *out, span text, const json_t *schema)
{
    json_error_t error = {0};
    span given = trim(text);
    for (size_t i = 0; i < sizeof python_values / sizeof *python_values; i++)
        if (span_equal(given, span_of(python_values[i].text)))
            given = span_of(python_values[i].json);
    json_t *value = given.size ? json_loadb(given.data, given.size, JSON_ALLOW_NUL | JSON_DECODE_ANY, &error) : NULL;
    bool has_memory = value || given.size == 0 || failure_of(&error) == TOOL_BROKEN;
    bool is_json = value && !json_is_string(value) && schema_allows(schema, value);
    json_decref(value);
    return has_memory && (is_json ? buffer_put(out, given.data, given.size) : put_string(out, text));
}

/* Removes a line break from each end of a value. */
static span unpad(span text)
{
    if (text.size > 0 && text.data[0] == '\n')
        text = skip(text, 1);
    if (text.size > 0 && text.data[text.size - 1] == '\n')
        text.size--;
    return text;
}

/* Appends a key and its value to an object in JSON, and removes them from the text. */
static tool_reading put_pair(const tool_tags *tags, span *text, json_t *parameters, buffer *out)
{
    span key, none, value;
    if (!begins_with(*text, tags->key_open))
        return TOOL_BROKEN;
    *text = skip(*text, strlen(tags->key_open));
    if (!cut(text, tags->key_close, &key) || !cut(text, tags->value_open, &none) ||
        !cut(text, tags->value_close, &value))
        return TOOL_BROKEN;
    if (tags->is_padded)
        value = unpad(value);
    bool ok = (out->size == 1 || buffer_put(out, ",", 1)) && put_string(out, key) && buffer_put(out, ":", 1) &&
              put_value(out, value, find_schema(parameters, key));
    return ok ? TOOL_READ : TOOL_NO_MEMORY;
}

/* Cuts the end of the mark of a name off. */
static void skip_mark_end(span *body)
{
    while (body->size > 0 && (is_white(body->data[0]) || is_one_of(body->data[0], "\">")))
        *body = skip(*body, 1);
}

tool_reading tool_read_tagged(const tool_convention *c, span body, const json_t *tools, json_t *out)
{
    buffer arguments = {0};
    span name = take_name(&body);
    json_t *parameters = find_parameters(tools, name);
    tool_reading read = buffer_put(&arguments, "{", 1) ? TOOL_READ : TOOL_NO_MEMORY;
    skip_mark_end(&body);
    for (; read == TOOL_READ && body.size > 0; body = skip_white(body))
        read = put_pair(c->tags, &body, parameters, &arguments);
    if (read == TOOL_READ)
        read =
            buffer_put(&arguments, "}", 1) ? append(out, name, (span){arguments.data, arguments.size}) : TOOL_NO_MEMORY;
    buffer_free(&arguments);
    return read;
}

/* ------------------------------------------------------------------ elements within elements */

/* Elements may lie so deep: more than any tool's arguments, and little of a stack. */
#define DEPTH_LIMIT 64

/* Whether a type of a schema, or a list of types, has one of that name. */
static bool type_has(const json_t *type, const char *name)
{
    const char *own = json_string_value(type);
    for (size_t i = 0; !own && i < json_array_size(type); i++)
        if (json_is_string(json_array_get(type, i)) && type_has(json_array_get(type, i), name))
            return true;
    return own && strcmp(own, name) == 0;
}

/* Returns the schema, or the alternative of it, whose values may be of a type; NULL: none may be. */
static const json_t *schema_of_type(const json_t *schema, const char *name)
{
    static const char *const alternatives[] = {"anyOf", "oneOf"};
    if (type_has(json_object_get(schema, "type"), name))
        return schema;
    for (size_t k = 0; k < 2; k++) {
        const json_t *list = json_object_get(schema, alternatives[k]);
        for (size_t i = 0; i < json_array_size(list); i++)
            if (type_has(json_object_get(json_array_get(list, i), "type"), name))
                return json_array_get(list, i);
    }
    return NULL;
}

/* Cuts the key of the element that a text begins with off. false: it begins with none. */
static bool take_key(const tool_tags *tags, span *text, span *key)
{
    if (!begins_with(*text, tags->key_open) || begins_with(*text, tags->value_close))
        return false;
    *text = skip(*text, strlen(tags->key_open));
    return cut(text, tags->key_close, key);
}

static tool_reading put_content(const tool_tags *tags, span *text, const json_t *schema, unsigned depth, buffer *out);

/* Appends the elements that a text begins with as an object in JSON, or as an array if the keys do not count, and removes them. */
static tool_reading put_elements(const tool_tags *tags, span *text, bool is_array, const json_t *schema, unsigned depth,
                                 buffer *out)
{
    json_t *properties = json_object_get(schema, "properties");
    const json_t *items = json_object_get(schema, "items");
    span key, end;
    bool ok = buffer_put(out, is_array ? "[" : "{", 1);
    *text = skip_white(*text);
    for (size_t n = 0; ok && take_key(tags, text, &key); n++) {
        ok = n == 0 || buffer_put(out, ",", 1);
        ok = ok && (is_array || (put_string(out, key) && buffer_put(out, ":", 1)));
        tool_reading read =
            ok ? put_content(tags, text, is_array ? items : find_schema(properties, key), depth, out) : TOOL_NO_MEMORY;
        if (read != TOOL_READ)
            return read;
        if (!begins_with(*text, tags->value_close))
            return TOOL_BROKEN;
        *text = skip(*text, strlen(tags->value_close));
        if (!cut(text, tags->key_close, &end) || !span_equal(key, end))
            return TOOL_BROKEN;
        *text = skip_white(*text);
    }
    return ok && buffer_put(out, is_array ? "]" : "}", 1) ? TOOL_READ : TOOL_NO_MEMORY;
}

/* Appends what an element has, up to the mark that closes it, which stays. Elements called item are those of an array, unless the schema
 * has an object with such a key, or no array; without elements it is a value. */
static tool_reading put_content(const tool_tags *tags, span *text, const json_t *schema, unsigned depth, buffer *out)
{
    static const char item[] = "item";
    const json_t *array = schema_of_type(schema, "array"), *object = schema_of_type(schema, "object");
    span ahead = skip_white(*text), key, value;
    if (depth == DEPTH_LIMIT)
        return TOOL_BROKEN;
    if (take_key(tags, &ahead, &key)) {
        bool is_known = find_schema(json_object_get(object, "properties"), key) != NULL;
        bool is_array = !is_known &&
                        (array ? !object || span_equal(key, span_of(item)) : !object && span_equal(key, span_of(item)));
        return put_elements(tags, text, is_array, is_array ? array : object, depth + 1, out);
    }
    span rest = *text;
    if (!cut(&rest, tags->value_close, &value))
        return TOOL_BROKEN;
    *text = skip(*text, value.size);
    bool is_empty = trim(value).size == 0 && (array || object) && !schema_of_type(schema, "string");
    if (is_empty)
        return buffer_put(out, array ? "[]" : "{}", 2) ? TOOL_READ : TOOL_NO_MEMORY;
    return put_value(out, value, schema) ? TOOL_READ : TOOL_NO_MEMORY;
}

tool_reading tool_read_nested(const tool_convention *c, span body, const json_t *tools, json_t *out)
{
    static const char properties[] = "properties";
    buffer arguments = {0};
    span name = take_name(&body);
    json_t *parameters = find_parameters(tools, name), *schema = json_object();
    bool ok = schema && (!parameters || json_object_set(schema, properties, parameters) == 0);
    tool_reading read = ok ? TOOL_READ : TOOL_NO_MEMORY;
    skip_mark_end(&body);
    if (read == TOOL_READ)
        read = put_elements(c->tags, &body, false, schema, 0, &arguments);
    if (read == TOOL_READ)
        read = body.size > 0 ? TOOL_BROKEN : append(out, name, (span){arguments.data, arguments.size});
    json_decref(schema);
    buffer_free(&arguments);
    return read;
}

/* ------------------------------------------------------------------ bare keys */

/* Returns the size of a word: what is neither white space, a bracket, punctuation nor a quotation mark. */
static size_t word_size(span text, const char *quote)
{
    size_t size = 0;
    while (size < text.size && !is_white(text.data[size]) && !is_one_of(text.data[size], "{}[],:\"") &&
           !begins_with(skip(text, size), quote))
        size++;
    return size;
}

/* Appends the next part of {at:<|"|>x<|"|>,days:[1,2]} as JSON, and removes it from the text. */
static tool_reading put_part(span *text, const char *quote, buffer *out)
{
    span part;
    size_t word = word_size(*text, quote);
    bool ok;
    if (begins_with(*text, quote)) {
        *text = skip(*text, strlen(quote));
        if (!cut(text, quote, &part))
            return TOOL_BROKEN;
        return put_string(out, part) ? TOOL_READ : TOOL_NO_MEMORY;
    }
    part = (span){text->data, word > 0 ? word : text->data[0] == '"' ? value_size(*text) : 1};
    if (part.size == 0)
        return TOOL_BROKEN;
    *text = skip(*text, part.size);
    span next = skip_white(*text);
    bool is_key = word > 0 && next.size > 0 && next.data[0] == ':';
    ok = is_key ? put_string(out, part) : buffer_put(out, part.data, part.size);
    return ok ? TOOL_READ : TOOL_NO_MEMORY;
}

tool_reading tool_read_bare(const tool_convention *c, span body, const json_t *tools, json_t *out)
{
    (void)tools;
    buffer json = {0};
    span name = take_name(&body);
    tool_reading read = TOOL_READ;
    while (read == TOOL_READ && body.size > 0)
        read = put_part(&body, c->quote, &json);
    if (read == TOOL_READ)
        read = append(out, name, trim((span){json.size ? json.data : "", json.size}));
    buffer_free(&json);
    return read;
}
