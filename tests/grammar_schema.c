/* grammar_schema.c - schemas against a small validator that shares nothing with them: what random walks write is valid,
 * and valid documents that were made in another way are taken. */
#include "../src/grammar/schema.h"

#include "grammar_helpers.h"
#include "schemas.h"

static words vocabulary;

static token_trie *json_tokens(void)
{
    /* The last are the ones that random walks prefer: those that end something. */
    static const char *const texts[] = {
        "{\"", "\": ", "\":",  ", \"", "[{\"",  "true",  "false", "null",     "12",
        "00",  "0.5",  "e1",   "-1",   "2024-", "02-29", "T1",    "\xc3\xa9", "\xf0\x9f\x98\x80",
        "\\u", "\\n",  "\\\"", "ab",   "aa",    "a\":",  "b\": ", "\"x",      "[]",
        "{}",  "]}",   "\"}",  "}]",   "1",     "0",     "a",     "b",        ",",
        ", ",  "\"",   "\",",  "\"]",  "}",     "]"};
    words_begin(&vocabulary);
    for (size_t i = 0; i < COUNT(texts); i++)
        words_add(&vocabulary, texts[i]);
    return words_end(&vocabulary);
}

/* ---- */

static grammar *grammar_of_schema(const json_t *schema)
{
    grammar *g = NULL;
    hearth_error error = {0};
    if (schema_compile(&g, schema, &error) != HEARTH_OK) {
        char *text = json_dumps(schema, JSON_ENCODE_ANY);
        fail_msg("%s: %s", text, error.text);
    }
    return g;
}

/* Every format and pattern, many times. */
static void formats_and_patterns(void **state)
{
    (void)state;
    token_trie *t = json_tokens();
    for (size_t i = 0; i < COUNT(formats) + COUNT(patterns); i++) {
        bool is_format = i < COUNT(formats);
        json_t *schema =
            json_pack("{s:s}", is_format ? "format" : "pattern", is_format ? formats[i] : patterns[i - COUNT(formats)]);
        grammar *g = grammar_of_schema(schema);
        matcher *m;
        assert_int_equal(matcher_create(&m, g, t, NULL), HEARTH_OK);
        for (int k = 0; k < 200; k++) {
            buffer text = {0};
            if (random_walk(m, NULL, &vocabulary, &seed, &text, 500, 0, 3))
                check_text(schema, (span){text.data, text.size});
            buffer_free(&text);
        }
        matcher_destroy(m);
        grammar_destroy(g);
        json_decref(schema);
    }
    token_trie_destroy(t);
}

static void random_walks(void **state)
{
    (void)state;
    token_trie *t = json_tokens();
    size_t ended = 0, all = 0;
    for (int round = 0; round < 1000; round++) {
        json_t *schema = with_definitions(random_schema(3));
        grammar *g = NULL;
        hearth_error error = {0};
        hearth_status status = schema_compile(&g, schema, &error);
        if (status != HEARTH_OK) { /* bounds without a number between, or more prefixItems than maxItems allow */
            char *shown = json_dumps(schema, JSON_ENCODE_ANY);
            if (!strstr(error.text, "no number lies") && !strstr(error.text, "no array has"))
                fail_msg("%s: %s", shown, error.text);
            free(shown);
            json_decref(schema);
            continue;
        }
        matcher *m, *other;
        assert_int_equal(matcher_create(&m, g, t, NULL), HEARTH_OK);
        assert_int_equal(matcher_create(&other, g, t, NULL), HEARTH_OK);
        for (int k = 0; k < 3; k++) {
            buffer text = {0};
            bool checks = round % 50 == 0 && k == 0;
            all++;
            if (random_walk(m, other, &vocabulary, &seed, &text, checks ? 30 : 300, checks ? 5 : 0, 3)) {
                ended++;
                check_text(schema, (span){text.data, text.size});
            }
            buffer_free(&text);
        }
        matcher_destroy(m);
        matcher_destroy(other);
        grammar_destroy(g);
        json_decref(schema);
    }
    print_message("%zu of %zu walks came to an end\n", ended, all);
    assert_true(ended > all / 2);
    token_trie_destroy(t);
}

/* ---- documents made of schemas, as another program would write them */

static json_t *document(const json_t *schema, int depth);

static json_t *any_document(int depth)
{
    static const char *const texts[] = {"", "a", "é\"\\\n\t", "\xf0\x9f\x98\x80", "\x01/"};
    switch (below(depth > 0 ? 8 : 5)) {
    case 0:
        return json_null();
    case 1:
        return json_boolean(below(2));
    case 2:
        return json_integer((json_int_t)(random_next(&seed) >> below(60) >> 5));
    case 3:
        return json_real((below(2000) - 1000) / 8.0 + 0.0625);
    case 4:
        return json_string(texts[below(COUNT(texts))]);
    case 5:
        return json_array();
    case 6:
        return json_pack("[o,o]", any_document(depth - 1), any_document(depth - 1));
    default:
        return json_pack("{s:o,s:o}", names[below(3)], any_document(depth - 1), names[3 + below(3)],
                         any_document(depth - 1));
    }
}

static json_t *string_document(const json_t *schema)
{
    static const char *const letters[] = {"a", "é", "\xf0\x9f\x98\x80", "\"", "\n", "\x02", "\x7f"};
    const char *pattern = json_string_value(json_object_get(schema, "pattern"));
    const char *format = json_string_value(json_object_get(schema, "format"));
    for (size_t i = 0; pattern && i < COUNT(patterns); i++)
        if (strcmp(pattern, patterns[i]) == 0)
            return json_string(matching[i][below(2)]);
    for (size_t i = 0; format && i < COUNT(formats); i++)
        if (strcmp(format, formats[i]) == 0)
            return json_string(formatted[i][below(2)]);
    int least = (int)json_integer_value(json_object_get(schema, "minLength"));
    const json_t *limit = json_object_get(schema, "maxLength");
    int most = limit ? (int)json_integer_value(limit) : least + 5, count = least + below(most - least + 1);
    char text[64] = "";
    while (count-- > 0)
        strcat(text, letters[below(COUNT(letters))]);
    return json_string(text);
}

/* Tries numbers until one fits; NULL: none was found. */
static json_t *number_document(const json_t *schema, bool integer)
{
    for (int i = 0; i < 5000; i++) {
        int n = below(2) ? below(8400) - 4200 : below(80) - 40;
        json_t *value = integer || below(2) ? json_integer(n) : json_real(n + 0.25 * (1 + below(3)));
        if (number_fits(schema, value))
            return value;
        json_decref(value);
    }
    return NULL;
}

static json_t *object_document(const json_t *schema, int depth)
{
    const char *name;
    json_t *member, *all = json_object();
    const json_t *additional = json_object_get(schema, "additionalProperties");
    const json_t *required = json_object_get(schema, "required");
    json_object_foreach(json_object_get(schema, "properties"), name, member)
    {
        bool must = false;
        for (size_t i = 0; i < json_array_size(required); i++)
            must = must || strcmp(json_string_value(json_array_get(required, i)), name) == 0;
        if (!must && below(2))
            continue;
        json_t *value = document(member, depth - 1);
        if (!value) {
            json_decref(all);
            return NULL;
        }
        json_object_set_new(all, name, value);
    }
    for (int i = json_is_object(additional) || json_is_true(additional) ? below(3) : 0; i > 0; i--) {
        static const char *const others[] = {"other", "a ", "abc", "éé"};
        json_t *value = document(additional, depth - 1);
        if (value)
            json_object_set_new(all, others[below(COUNT(others))], value);
    }
    return all;
}

static json_t *array_document(const json_t *schema, int depth)
{
    const json_t *prefix = json_object_get(schema, "prefixItems"), *items = json_object_get(schema, "items");
    const json_t *limit = json_object_get(schema, "maxItems");
    int first = (int)json_array_size(prefix), least = (int)json_integer_value(json_object_get(schema, "minItems"));
    int most = least + 3;
    if (prefix && !items && least <= first && most > first)
        most = first; /* nothing comes behind them then */
    if (limit && json_integer_value(limit) < most)
        most = (int)json_integer_value(limit);
    if (json_is_false(items) && most > first)
        most = first;
    json_t *all = json_array();
    for (int i = 0, count = least + below(most - least + 1); i < count; i++) {
        json_t *value = i < first ? document(json_array_get(prefix, (size_t)i), depth - 1)
                        : items   ? document(items, depth - 1)
                                  : any_document(1);
        if (!value) {
            json_decref(all);
            return NULL;
        }
        json_array_append_new(all, value);
    }
    return all;
}

/* A valid document of a random schema, with properties in the schema's order; NULL: none was found. */
static json_t *document(const json_t *schema, int depth)
{
    const json_t *k, *type = json_object_get(schema, "type");
    if (json_is_true(schema) || !json_is_object(schema))
        return any_document(2);
    if ((k = json_object_get(schema, "$ref")))
        return json_pack("{s:i,s:[{s:i}]}", "v", below(100), "sub", "v", -below(9));
    if ((k = json_object_get(schema, "enum")))
        return json_copy(json_array_get(k, (size_t)below((int)json_array_size(k))));
    if ((k = json_object_get(schema, "const")))
        return json_copy((json_t *)k);
    if ((k = json_object_get(schema, "anyOf")) || (k = json_object_get(schema, "oneOf")))
        return document(json_array_get(k, (size_t)below((int)json_array_size(k))), depth);
    if (json_is_array(type))
        return below(2) ? json_null() : json_integer(below(1000));
    const char *name = json_string_value(type);
    if (!name && json_object_get(schema, "minLength"))
        name = "string";
    if (!name)
        return any_document(2);
    if (strcmp(name, "object") == 0)
        return object_document(schema, depth);
    if (strcmp(name, "array") == 0)
        return array_document(schema, depth);
    if (strcmp(name, "string") == 0)
        return string_document(schema);
    if (strcmp(name, "boolean") == 0)
        return json_boolean(below(2));
    return strcmp(name, "null") == 0 ? json_null() : number_document(schema, strcmp(name, "integer") == 0);
}

static void documents(void **state)
{
    (void)state;
    token_trie *t = json_tokens();
    size_t tried = 0;
    for (int round = 0; round < 1000; round++) {
        json_t *schema = with_definitions(random_schema(3));
        grammar *g = NULL;
        matcher *m;
        if (schema_compile(&g, schema, NULL) != HEARTH_OK) { /* as above */
            json_decref(schema);
            continue;
        }
        assert_int_equal(matcher_create(&m, g, t, NULL), HEARTH_OK);
        for (int k = 0; k < 4; k++) {
            json_t *value = document(schema, 3);
            if (!value)
                continue;
            assert_true(is_valid(schema, schema, value));
            char *text = json_dumps(value, JSON_ENCODE_ANY | (k % 2 ? JSON_COMPACT : 0));
            tried++;
            if (!follows(m, span_of(text)) || !matcher_can_end(m)) {
                char *shown = json_dumps(schema, JSON_ENCODE_ANY);
                fail_msg("%s: %s is refused", shown, text);
            }
            free(text);
            json_decref(value);
        }
        matcher_destroy(m);
        grammar_destroy(g);
        json_decref(schema);
    }
    print_message("%zu documents\n", tried);
    assert_true(tried > 2000);
    token_trie_destroy(t);
}

/* Every integer around random bounds. */
static void integers(void **state)
{
    (void)state;
    token_trie *t = json_tokens();
    for (int round = 0; round < 200; round++) {
        int low = below(below(2) ? 3000 : 30) - below(below(2) ? 3000 : 30), high = low + below(below(2) ? 4000 : 40);
        json_t *schema = json_pack("{s:s,s:i,s:f}", "type", "integer", "minimum", low, "maximum", high + 0.5);
        grammar *g = grammar_of_schema(schema);
        matcher *m;
        assert_int_equal(matcher_create(&m, g, t, NULL), HEARTH_OK);
        for (int n = -8000; n <= 8000; n += abs(n - low) < 20 || abs(n - high) < 20 ? 1 : 7) {
            char text[16];
            snprintf(text, sizeof text, "%d", n);
            assert_int_equal(follows(m, span_of(text)) && matcher_can_end(m), n >= low && n <= high);
        }
        matcher_destroy(m);
        grammar_destroy(g);
        json_decref(schema);
    }
    token_trie_destroy(t);
}

static void meanings(void **state)
{
    (void)state;
    static const struct {
        const char *schema;
        const char *is[6], *is_not[6];
    } rows[] = {
        {"{}", {"{\"a\": [1,-2.5e3]}", "null", "\"\""}, {"", " 1", "{\"a\":  1}", "01", "\"\n\"", "[1,]"}},
        {"true", {"1"}, {"1 "}},
        {"{\"type\":\"string\"}",
         {"\"\\u00e9\\ud83d\\ude00\\/\"", "\"\\uD7FF\\uE000\"", "\"\x7f\""},
         {"\"\\u0000\"", "\"\\ud83d\"", "\"\\ude00\"", "\"\\x\"", "\"\xc0\x80\"", "\"\xff\""}},
        {"{\"properties\":{\"a\":{\"type\":\"null\"},\"b\":true},\"required\":[\"b\"]}",
         {"{\"b\":1}", "{\"a\": null, \"b\": []}"},
         {"{}", "{\"a\":null}", "{\"b\":1,\"a\":null}", "{\"b\":1,\"c\":1}", "{,\"b\":1}", "{\"a\":1,\"b\":1}"}},
        {"{\"properties\":{\"a\":{\"const\":1},\"b\":{\"const\":2},\"c\":{\"const\":3}}}",
         {"{}", "{\"a\":1}", "{\"c\":3}", "{\"a\":1,\"c\":3}", "{\"b\":2, \"c\":3}"},
         {"{\"a\":1,}", "{\"c\":3,\"a\":1}", "{\"a\":1\"b\":2}"}},
        {"{\"properties\":{\"ab\":true,\"a\":true},\"additionalProperties\":{\"type\":\"integer\"}}",
         {"{\"x\":1}", "{\"abc\":1}", "{\"a\":\"\",\"\":5}", "{\"b\":1,\"b\":2}"},
         {"{\"x\":\"\"}", "{\"x\":1,\"a\":1}", "{\"x\":1,\"ab\":1}", "{\"\\u0061\":1.5}"}},
        {"{\"propertyNames\":{\"type\":\"string\"},\"additionalProperties\":{\"type\":\"null\"}}",
         {"{\"a\":null}"},
         {"{\"a\":1}"}},
        {"{\"required\":[\"z\"]}", {"{\"z\":1}"}, {"{}"}},
        {"{\"type\":\"object\",\"additionalProperties\":false}", {"{}"}, {"{\"a\":1}"}},
        {"{\"items\":{\"type\":\"integer\"},\"prefixItems\":[{\"type\":\"null\"}],\"minItems\":1,\"maxItems\":3}",
         {"[null]", "[null,1]", "[null, 1, 2]"},
         {"[]", "[1]", "[null,1,2,3]"}},
        {"{\"prefixItems\":[{\"const\":1},{\"const\":2}]}", {"[]", "[1]", "[1,2]"}, {"[2]", "[1,2,3]"}},
        {"{\"type\":\"number\",\"minimum\":0,\"exclusiveMaximum\":2}",
         {"0", "1.999", "0.0", "1"},
         {"2", "2.0", "-0.1", "-0", "1e0"}},
        {"{\"type\":\"number\",\"exclusiveMinimum\":-1,\"maximum\":1}",
         {"-0.999", "1", "1.00", "0.5"},
         {"-1", "-1.0", "1.01"}},
        {"{\"exclusiveMinimum\":5,\"exclusiveMaximum\":7,\"type\":\"integer\"}", {"6"}, {"5", "7", "6.0"}},
        {"{\"enum\":[1,\"a\",null],\"type\":[\"string\",\"null\"]}", {"\"a\"", "null"}, {"1"}},
        {"{\"const\":{\"a\":[1,0.1]}}", {"{\"a\":[1,0.1]}"}, {"{}"}},
        {"{\"enum\":[0.1]}", {"0.1"}, {"0.10000000000000001"}},
        {"{\"allOf\":[{\"properties\":{\"a\":{\"const\":1}},\"required\":[\"a\"]},{\"$ref\":\"#/$defs/b\"}],"
         "\"$defs\":{\"b\":{\"properties\":{\"b\":{\"const\":2}}}}}",
         {"{\"a\":1}", "{\"a\":1,\"b\":2}"},
         {"{\"b\":2}"}},
        {"{\"type\":\"object\",\"properties\":{\"a\":true,\"b\":true},\"anyOf\":[{\"required\":[\"a\"]},{\"required\":["
         "\"b\"]}]}",
         {"{\"a\":1}", "{\"b\":1}", "{\"a\":1,\"b\":1}"},
         {"{}"}},
        {"{\"oneOf\":[{\"type\":\"string\"},{\"type\":\"integer\"}]}", {"1", "\"\""}, {"null"}},
        {"{\"oneOf\":[{\"properties\":{\"a\":{\"const\":1}},\"required\":[\"a\"]},{\"properties\":{\"b\":{\"const\":1}}"
         ","
         "\"required\":[\"b\"]}]}",
         {"{\"a\":1}", "{\"b\":1}"},
         {"{\"a\":1,\"b\":1}", "{}"}},
        {"{\"properties\":{\"next\":{\"$ref\":\"#\"}},\"additionalProperties\":false}",
         {"{}", "{\"next\":{\"next\":{}}}"},
         {"{\"next\":1}"}},
        {"{\"pattern\":\"^a\"}", {"\"a\"", "\"ab\\n\""}, {"\"ba\"", "\"\""}},
        {"{\"pattern\":\"^(?:a|b\\\\.)[\\\\]\\\\d-]{2}?$\"}", {"\"a1-\"", "\"b.]]\""}, {"\"a1\"", "\"bx11\""}},
        {"{\"pattern\":\"^[^\\\\s\\\\D]\\\\W\\\\S$\"}",
         {"\"1-\xc3\xa9\""},
         {"\"\xd9\xa3-a\"", "\"1\xc3\xa9z\"", "\"1-\xc2\xa0\"", "\"a-a\""}},
        {"{\"pattern\":\"^[^\\\\d]$\"}", {"\"a\""}, {"\"\xd9\xa3\"", "\"1\""}},
        {"{\"format\":\"date\"}",
         {"\"2000-02-29\""},
         {"\"1900-02-29\"", "\"2001-02-29\"", "\"2001-04-31\"", "\"2001-1-1\""}},
        /* notes */
        {"{\"format\":\"uri\",\"minLength\":1,\"maxLength\":3}", {"\"a:b\""}, {"\"\"", "\"a://\"", "1"}},
        {"{\"type\":\"integer\",\"format\":\"int32\",\"minimum\":0}", {"5"}, {"-1", "\"\""}},
        {"{\"format\":\"int32\",\"nullable\":true}", {"1", "null", "[]"}, {""}},
        {"{\"enum\":[\"a\"],\"format\":\"word\",\"x-order\":1,\"example\":\"b\"}", {"\"a\""}, {"\"b\""}},
        {"{\"$ref\":\"#/$defs/a\",\"format\":\"uri\",\"$defs\":{\"a\":{\"const\":1,\"not-known\":{}}}}", {"1"}, {"2"}},
        {"{\"allOf\":[{\"format\":\"a\"},{\"format\":\"b\",\"type\":\"null\"}]}", {"null"}, {"1"}},
        {"{\"propertyNames\":{\"format\":\"x\"},\"additionalProperties\":{\"type\":\"null\"}}",
         {"{\"a\":null}"},
         {"{\"a\":1}"}},
        {"{\"$defs\":{\"a/b~\":{\"const\":1}},\"$ref\":\"#/$defs/a~1b~0\"}", {"1"}, {"2"}},
    };
    token_trie *t = json_tokens();
    for (size_t i = 0; i < COUNT(rows); i++) {
        json_t *schema = json_loads(rows[i].schema, JSON_DECODE_ANY, NULL);
        grammar *g = grammar_of_schema(schema);
        matcher *m;
        assert_int_equal(matcher_create(&m, g, t, NULL), HEARTH_OK);
        for (size_t k = 0; k < COUNT(rows[i].is) && rows[i].is[k]; k++)
            if (!follows(m, span_of(rows[i].is[k])) || !matcher_can_end(m))
                fail_msg("%s: %s is refused", rows[i].schema, rows[i].is[k]);
        for (size_t k = 0; k < COUNT(rows[i].is_not) && rows[i].is_not[k]; k++)
            if (follows(m, span_of(rows[i].is_not[k])) && matcher_can_end(m))
                fail_msg("%s: %s is accepted", rows[i].schema, rows[i].is_not[k]);
        matcher_destroy(m);
        grammar_destroy(g);
        json_decref(schema);
    }
    token_trie_destroy(t);
}

static void errors(void **state)
{
    (void)state;
    static const struct {
        const char *schema, *error;
        hearth_status status;
    } rows[] = {
        {"{\"properties\":{\"a\":{\"multipleOf\":3}}}", "#/properties/a: multipleOf: this keyword", HEARTH_UNSUPPORTED},
        {"{\"items\":{\"uniqueItems\":true}}", "#/items: uniqueItems", HEARTH_UNSUPPORTED},
        {"{\"anyOf\":[true,{\"not\":{}}]}", "#/anyOf/1: not", HEARTH_UNSUPPORTED},
        {"{\"properties\":{\"a/b\":3}}", "#/properties/a~1b: expected a schema", HEARTH_FORMAT},
        {"[1]", "#: expected a schema", HEARTH_FORMAT},
        {"{\"type\":\"text\"}", "#: type: expected names of types", HEARTH_FORMAT},
        {"{\"type\":[]}", "#: type: expected names", HEARTH_FORMAT},
        {"{\"enum\":[]}", "no value fits", HEARTH_FORMAT},
        {"{\"enum\":[1],\"type\":\"string\"}", "no value fits", HEARTH_FORMAT},
        {"{\"enum\":[1],\"minimum\":0}", "#: minimum: not supported beside enum", HEARTH_UNSUPPORTED},
        {"{\"items\":false,\"minItems\":1}", "#: minItems: no array has", HEARTH_FORMAT},
        {"{\"minLength\":3,\"maxLength\":2}", "#: minLength: no string has", HEARTH_FORMAT},
        {"{\"maxLength\":-1}", "#: maxLength: expected a number", HEARTH_FORMAT},
        {"{\"maxLength\":1000000}", "#: maxLength: 1000000 is more", HEARTH_UNSUPPORTED},
        {"{\"minimum\":2,\"maximum\":1,\"type\":\"integer\"}", "no number lies", HEARTH_FORMAT},
        {"{\"minimum\":0.5,\"type\":\"number\"}", "#: minimum: 0.5: of numbers only whole bounds", HEARTH_UNSUPPORTED},
        {"{\"exclusiveMinimum\":true}", "#: exclusiveMinimum: expected a number", HEARTH_FORMAT},
        {"{\"format\":3}", "#: format: expected a string", HEARTH_FORMAT},
        {"{\"format\":\"date\",\"maxLength\":3}", "#: format: not supported beside minLength", HEARTH_UNSUPPORTED},
        {"{\"propertyNames\":{\"maxLength\":3}}", "#: propertyNames: only supported", HEARTH_UNSUPPORTED},
        {"{\"pattern\":\"a\",\"maxLength\":3}", "#: pattern: not supported beside minLength", HEARTH_UNSUPPORTED},
        {"{\"pattern\":\"(?=a)\"}", "#: pattern: character 2 of '(?=a)': this kind of group", HEARTH_UNSUPPORTED},
        {"{\"pattern\":\"\\\\bx\"}", "this escape is not supported", HEARTH_UNSUPPORTED},
        {"{\"pattern\":\"a^\"}", "anchors within", HEARTH_UNSUPPORTED},
        {"{\"pattern\":\"a)\"}", "what it would close", HEARTH_UNSUPPORTED},
        {"{\"pattern\":\"a**\"}", "expected something to match", HEARTH_UNSUPPORTED},
        {"{\"$ref\":\"#/$defs/x\"}", "#: $ref: '#/$defs/x' is nothing", HEARTH_UNSUPPORTED},
        {"{\"$ref\":\"http://example.org\"}", "is nothing in this schema", HEARTH_UNSUPPORTED},
        {"{\"items\":{\"$id\":\"x\"}}", "#/items: $id: only supported at the top", HEARTH_UNSUPPORTED},
        {"{\"$ref\":\"#\"}", "'#' calls itself", HEARTH_FORMAT},
        {"{\"properties\":{\"a\":{\"$ref\":\"#\"}},\"required\":[\"a\"]}", "'#' can never end", HEARTH_FORMAT},
        {"{\"oneOf\":[{\"type\":\"number\"},{\"type\":\"integer\"}]}", "#: oneOf: alternatives 0 and 1",
         HEARTH_UNSUPPORTED},
        {"{\"required\":[\"a\"],\"additionalProperties\":false}", "#: required: 'a'", HEARTH_FORMAT},
        {"{\"properties\":{\"a\":false},\"required\":[\"a\"]}", "#/properties/a: no value fits", HEARTH_FORMAT},
        {"{\"allOf\":[{\"properties\":{\"a\":{}}},{\"properties\":{\"a\":{\"type\":\"null\"}}}]}",
         "#: allOf: property 'a'", HEARTH_UNSUPPORTED},
    };
    for (size_t i = 0; i < COUNT(rows); i++) {
        grammar *g = NULL;
        hearth_error error = {0};
        long live = mem_live();
        hearth_status status = schema_parse(&g, span_of(rows[i].schema), &error);
        if (status != rows[i].status || !strstr(error.text, rows[i].error))
            fail_msg("%s: status %d, '%s', expected %d, '%s'", rows[i].schema, status, error.text, rows[i].status,
                     rows[i].error);
        assert_int_equal(mem_live(), live);
    }
}

/* Schemas with more of something than is read: each row is repeated so often within the head and the tail. */
static void limits(void **state)
{
    (void)state;
    static const struct {
        const char *head, *row, *tail, *error;
        int count;
    } rows[] = {
        {"{\"properties\":{", "\"p%d\":{},", "\"x\":{}}}", "#: properties: more than 1024", 1024},
        {"{\"required\":[", "\"p%d\",", "\"x\"]}", "#: required: more than 1024", 1024},
        {"{\"oneOf\":[", "{\"const\":%d},", "{\"const\":-1}]}", "#: oneOf: more than 32", 32},
        {"{\"allOf\":[", "{\"title\":\"%d\"},", "{}]}", "#: allOf: more than 32", 32},
        {"{\"anyOf\":[", "{\"maxLength\":%d},", "{}]}", "the grammar is too large", 3000},
        {"{\"items\":", "{\"title\":\"%d\",\"items\":", "{", "more than 64 schemas in each other", 64},
        {"{\"items\":[", "%d,", "0]}", "#: items: a list is not supported", 1},
    };
    for (size_t i = 0; i < COUNT(rows); i++) {
        grammar *g = NULL;
        hearth_error error = {0};
        buffer text = {0};
        assert_true(buffer_put(&text, rows[i].head, strlen(rows[i].head)));
        for (int k = 0; k < rows[i].count; k++) {
            char row[64];
            snprintf(row, sizeof row, rows[i].row, k);
            assert_true(buffer_put(&text, row, strlen(row)));
        }
        assert_true(buffer_put(&text, rows[i].tail, strlen(rows[i].tail)));
        for (int k = 0; k < rows[i].count + 2 && rows[i].tail[0] == '{' && rows[i].tail[1] == 0; k++)
            assert_true(buffer_put(&text, "}", 1));
        hearth_status status = schema_parse(&g, (span){text.data, text.size}, &error);
        if (status == HEARTH_OK || !strstr(error.text, rows[i].error))
            fail_msg("row %zu: status %d, '%s', expected '%s'", i, status, error.text, rows[i].error);
        assert_int_equal(status, HEARTH_UNSUPPORTED);
        buffer_free(&text);
    }
}

/* Schemas that are small, but much work to combine: the work has an end, and says so. */
static void work_is_bounded(void **state)
{
    (void)state;
    /* Chains of definitions, each two alternatives of the next, beside which something stands; long lists of names; and equal
     * values that are large, deep within, to be compared again and again. */
    for (int kind = 0; kind < 4; kind++) {
        buffer text = {0};
        grammar *g = NULL;
        hearth_error error = {0};
        bool ok = buffer_print(&text,
                               kind == 0   ? "{\"$ref\":\"#/$defs/d0\",\"$defs\":{"
                               : kind == 3 ? "{\"type\":\"null\""
                                           : "{\"%s\":[",
                               kind == 1 ? "allOf" : "oneOf");
        for (int k = 0; ok && kind == 3 && k < 2; k++) {
            ok = buffer_print(&text, "%s", k > 0 ? ",\"x\":{\"items\":{\"d\":[0" : ",\"items\":{\"d\":[0");
            for (int i = 0; ok && i < 50000; i++)
                ok = buffer_print(&text, ",1");
            ok = ok && buffer_print(&text, "%s", k > 0 ? "]}}" : "]}");
        }
        for (int i = 0; ok && kind == 3 && i < 200; i++)
            ok = buffer_print(&text, "%s{\"$ref\":\"#/x\"}", i > 0 ? "," : ",\"anyOf\":[");
        for (int k = 0; ok && kind == 0 && k < 18; k++) {
            ok = buffer_print(&text, "\"d%d\":{\"type\":\"string\",\"required\":[", k);
            for (int i = 0; ok && k == 0 && i < 1000; i++)
                ok = buffer_print(&text, "\"n%d\",", i);
            ok = ok && buffer_print(&text, "\"x\"],\"anyOf\":[{\"$ref\":\"#/$defs/d%d\"},{\"$ref\":\"#/$defs/d%d\"}]},",
                                    k + 1, k + 1);
        }
        for (int k = 0; ok && (kind == 1 || kind == 2) && k < 2; k++) {
            ok = buffer_print(&text, "%s{\"type\":\"object\",\"properties\":{},\"required\":[", k > 0 ? "," : "");
            for (int i = 0; ok && i < 20000; i++)
                ok = buffer_print(&text, "\"%c%d\",", 'a' + k, i);
            ok = ok && buffer_print(&text, "\"x\"]}");
        }
        ok = ok && buffer_print(&text, "%s", kind == 0 ? "\"d18\":{\"minLength\":1}}}" : "]}");
        assert_true(ok);
        hearth_status status = schema_parse(&g, (span){text.data, text.size}, &error);
        if (status != HEARTH_UNSUPPORTED ||
            !strstr(error.text, kind != 2 ? "combining schemas takes more than" : "may both hold"))
            fail_msg("kind %d: status %d, '%s'", kind, status, error.text);
        buffer_free(&text);
    }
}

/* oneOf of objects whose properties have long lists of values with one in common, each list named by a short reference:
 * few of these are few steps, and many are not compared. */
static void values_of_alternatives(void **state)
{
    (void)state;
    for (int count = 2; count <= 10; count += 8) {
        buffer text = {0};
        grammar *g = NULL;
        hearth_error error = {0};
        bool ok = buffer_print(&text, "{\"$defs\":{");
        for (int k = 0; ok && k < count; k++) {
            ok = buffer_print(&text, "%s\"e%d\":{\"enum\":[", k > 0 ? "," : "", k);
            for (int i = 1; ok && i < 250; i++)
                ok = buffer_print(&text, "%d,", 1000 * k + i);
            ok = ok && buffer_print(&text, "0]}");
        }
        ok = ok && buffer_print(&text, "},\"oneOf\":[");
        for (int k = 0; ok && k < count; k++) {
            ok = buffer_print(&text, "%s{\"type\":\"object\",\"required\":[", k > 0 ? "," : "");
            for (int i = 0; ok && i < 5 * count; i++)
                ok = buffer_print(&text, "\"p%d\",", i);
            ok = ok && buffer_print(&text, "\"z\"],\"properties\":{");
            for (int i = 0; ok && i < 5 * count; i++)
                ok = buffer_print(&text, "\"p%d\":{\"$ref\":\"#/$defs/e%d\"},", i, k);
            ok = ok && buffer_print(&text, "\"z\":{\"const\":%d}}}", k);
        }
        assert_true(ok && buffer_print(&text, "]}"));
        hearth_status status = schema_parse(&g, (span){text.data, text.size}, &error);
        if (status != (count == 2 ? HEARTH_OK : HEARTH_UNSUPPORTED) ||
            (status != HEARTH_OK && !strstr(error.text, "may both hold")))
            fail_msg("%d: status %d, '%s'", count, status, error.text);
        grammar_destroy(g);
        buffer_free(&text);
    }
}

/* [^...] of characters that leave one more range between them than a class may have, and of one character fewer. */
static void full_classes(void **state)
{
    (void)state;
    for (uint32_t count = 511; count <= 512; count++) {
        buffer text = {0};
        grammar *g = NULL;
        hearth_error error = {0};
        bool ok = buffer_print(&text, "{\"type\":\"string\",\"pattern\":\"^[^");
        for (uint32_t i = 0; ok && i < count; i++)
            ok = buffer_print(&text, "%c%c", (int)(0xC4 + i / 32), (int)(0x80 + 2 * (i % 32)));
        assert_true(ok && buffer_print(&text, "]$\"}"));
        hearth_status status = schema_parse(&g, (span){text.data, text.size}, &error);
        if (status != (count == 511 ? HEARTH_OK : HEARTH_UNSUPPORTED) ||
            (status != HEARTH_OK && !strstr(error.text, "too many characters in a class")))
            fail_msg("%u: status %d, '%s'", count, status, error.text);
        grammar_destroy(g);
        buffer_free(&text);
    }
}

static void failing_allocations(void **state)
{
    (void)state;
    static const char text[] = "{\"properties\":{\"a\":{\"$ref\":\"#/$defs/x\"},\"b\":{\"pattern\":\"^[a-c]{3}|d\"}},"
                               "\"additionalProperties\":{\"type\":[\"integer\",\"array\"],\"minimum\":-70},"
                               "\"$defs\":{\"x\":{\"anyOf\":[{\"const\":1},{\"minLength\":1}]}}}";
    hearth_status status = HEARTH_NO_MEMORY;
    long live = mem_live();
    for (long n = 0; status != HEARTH_OK; n++) {
        grammar *g = NULL;
        hearth_error error = {0};
        mem_fail_at(n);
        status = schema_parse(&g, span_of(text), &error);
        mem_fail_at(-1);
        if (status != HEARTH_OK)
            assert_int_equal(status, HEARTH_NO_MEMORY);
        assert_int_equal(status == HEARTH_OK, error.text[0] == 0);
        grammar_destroy(g);
        assert_int_equal(mem_live(), live);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(meanings),
        cmocka_unit_test(errors),
        cmocka_unit_test(integers),
        cmocka_unit_test(limits),
        cmocka_unit_test(formats_and_patterns),
        cmocka_unit_test(random_walks),
        cmocka_unit_test(documents),
        cmocka_unit_test(work_is_bounded),
        cmocka_unit_test(values_of_alternatives),
        cmocka_unit_test(full_classes),
        cmocka_unit_test(failing_allocations),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
