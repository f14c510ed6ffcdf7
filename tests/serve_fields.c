/* serve_fields.c - requests are read by their tables: what has another type, range or size is refused by its name. */
#include "../src/serve/fields.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

typedef struct record {
    bool flag;
    uint32_t count;
    field_count maybe;
    field_seed seed;
    float number;
    span text;
    json_t *list, *either, *fixed, *empty;
} record;

static const field rows[] = {
    {FIELD_ROW("flag", BOOL, record, flag)},
    {FIELD_ROW("count", COUNT, record, count), .least = 1, .most = 10},
    {FIELD_ROW("maybe", MAYBE, record, maybe), .least = 0, .most = 4294967295.0},
    {FIELD_ROW("seed", SEED, record, seed)},
    {FIELD_ROW("number", NUMBER, record, number), .least = -1, .most = 1},
    {FIELD_ROW("text", TEXT, record, text)},
    {FIELD_ROW("list", JSON, record, list), .types = FIELD_LIST},
    {FIELD_ROW("either", JSON, record, either), .types = FIELD_STRING | FIELD_OBJECT},
    {FIELD_ROW("fixed", FIXED, record, fixed), .only = "{\"type\": \"text\"}"},
    {FIELD_ROW("none", FIXED, record, empty)},
};

static bool read(const char *text, record *out, problem *p, json_t **body)
{
    *body = json_loads(text, JSON_DECODE_ANY, NULL);
    assert_non_null(*body);
    *out = (record){.count = 5, .number = 0.5F};
    *p = (problem){0};
    return fields_read(FIELDS(rows), *body, "", out, p);
}

static void accepted(const char *text, record *out, json_t **body)
{
    problem p;
    if (!read(text, out, &p, body))
        fail_msg("%s: %s", text, p.message);
}

static void refused(const char *text, const char *param, const char *part)
{
    record r;
    problem p;
    json_t *body;
    if (read(text, &r, &p, &body))
        fail_msg("%s: was accepted", text);
    assert_int_equal(p.status, 400);
    assert_string_equal(p.param, param);
    if (!strstr(p.message, part) || !strstr(p.message, param))
        fail_msg("%s: '%s' lacks '%s'", text, p.message, part);
    json_decref(body);
}

static void reads_what_is_there(void **state)
{
    (void)state;
    record r;
    json_t *body;
    accepted("{\"flag\": true, \"count\": 10, \"maybe\": 4294967295, \"seed\": 9223372036854775807, \"number\": -1, "
             "\"text\": \"\", \"list\": [1], \"either\": \"x\", \"fixed\": {\"type\": \"text\"}, \"other\": []}",
             &r, &body);
    assert_true(r.flag && r.maybe.given && r.seed.given && r.text.data && r.text.size == 0);
    assert_int_equal(r.count, 10);
    assert_int_equal(r.maybe.value, UINT32_MAX);
    assert_int_equal(r.seed.value, INT64_MAX);
    assert_true(r.number == -1.0F);
    assert_int_equal(json_array_size(r.list), 1);
    assert_true(json_is_string(r.either));
    json_decref(body);
    accepted("{\"seed\": -1, \"either\": {}, \"number\": 1}", &r, &body);
    assert_true(!r.seed.given && json_is_object(r.either) && r.number == 1.0F);
    json_decref(body);
}

static void keeps_defaults(void **state)
{
    (void)state;
    record r;
    json_t *body;
    accepted("{\"flag\": null, \"count\": null, \"maybe\": null, \"seed\": null, \"number\": null, \"text\": null, "
             "\"list\": null, \"either\": null, \"fixed\": null, \"none\": null}",
             &r, &body);
    assert_true(!r.flag && r.count == 5 && !r.maybe.given && !r.seed.given && r.number == 0.5F);
    assert_true(!r.text.data && !r.list && !r.either);
    json_decref(body);
    problem p = {0};
    assert_true(fields_read(FIELDS(rows), NULL, "", &r, &p));
    assert_true(fields_read(FIELDS(rows), json_null(), "", &r, &p));
}

static void refuses_by_name(void **state)
{
    (void)state;
    refused("[]", "body", "must be an object, but is a list");
    refused("{\"flag\": 1}", "flag", "true or false, but is an integer");
    refused("{\"flag\": \"true\"}", "flag", "a string");
    refused("{\"count\": 0}", "count", "from 1 to 10, but is 0");
    refused("{\"count\": 11}", "count", "from 1 to 10");
    refused("{\"count\": -9223372036854775808}", "count", "from 1 to 10");
    refused("{\"count\": 1.0}", "count", "an integer, but is a number");
    refused("{\"maybe\": 4294967296}", "maybe", "4294967296");
    refused("{\"maybe\": true}", "maybe", "true");
    refused("{\"seed\": 0.5}", "seed", "an integer");
    refused("{\"number\": 1.01}", "number", "from -1 to 1");
    refused("{\"number\": -1e300}", "number", "from -1 to 1");
    refused("{\"number\": \"0\"}", "number", "a number, but is a string");
    refused("{\"text\": 1}", "text", "a string");
    refused("{\"list\": {}}", "list", "a list, but is an object");
    refused("{\"either\": []}", "either", "an object or a string, but is a list");
    refused("{\"fixed\": {\"type\": \"json\"}}", "fixed", "not supported");
    refused("{\"none\": 0}", "none", "not supported");
}

static void names_what_is_inside(void **state)
{
    (void)state;
    record r = {0};
    problem p = {0};
    json_t *object = json_pack("{s:s}", "count", "x"), *text = json_string("x");
    assert_false(fields_read(FIELDS(rows), object, "messages[3].", &r, &p));
    assert_string_equal(p.param, "messages[3].count");
    assert_false(fields_read(FIELDS(rows), text, "messages[3].", &r, &p));
    assert_string_equal(p.param, "messages[3]");
    json_decref(object);
    json_decref(text);
}

static void problems_are_objects(void **state)
{
    (void)state;
    problem p = {0};
    char longest[3000];
    memset(longest, 'x', sizeof longest - 1);
    longest[sizeof longest - 1] = 0;
    longest[700] = (char)0xff;
    assert_false(problem_field(&p, longest, "code", "%s", longest));
    json_t *object = problem_json(&p, NULL), *error = json_object_get(object, "error");
    assert_string_equal(json_string_value(json_object_get(error, "type")), "invalid_request_error");
    assert_string_equal(json_string_value(json_object_get(error, "code")), "code");
    assert_true(json_is_string(json_object_get(error, "param")) && json_is_string(json_object_get(error, "message")));
    json_decref(object);
    assert_false(problem_of(&p, NULL, HEARTH_NO_MEMORY, "text"));
    assert_int_equal(p.status, 503);
    object = problem_json(&p, NULL);
    assert_true(json_is_null(json_object_get(json_object_get(object, "error"), "param")));
    json_decref(object);
}

/* Each API's own name for what happened. */
static void problems_have_the_form_of_their_api(void **state)
{
    (void)state;
    static const struct {
        unsigned status;
        const char *openai, *anthropic;
    } names[] = {
        {400, "invalid_request_error", "invalid_request_error"},
        {401, "authentication_error", "authentication_error"},
        {403, "permission_error", "permission_error"},
        {404, "not_found_error", "not_found_error"},
        {405, "invalid_request_error", "invalid_request_error"},
        {413, "invalid_request_error", "request_too_large"},
        {500, "server_error", "api_error"},
        {503, "server_error", "overloaded_error"},
    };
    for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
        const problem p = {.status = names[i].status, .message = "why"};
        json_t *openai = problem_json(&p, &problem_openai), *anthropic = problem_json(&p, &problem_anthropic);
        json_t *error = json_object_get(anthropic, "error");
        assert_string_equal(json_string_value(json_object_get(json_object_get(openai, "error"), "type")),
                            names[i].openai);
        assert_string_equal(json_string_value(json_object_get(error, "type")), names[i].anthropic);
        assert_string_equal(json_string_value(json_object_get(error, "message")), "why");
        assert_int_equal(json_object_size(error), 2);
        assert_string_equal(json_string_value(json_object_get(anthropic, "type")), "error");
        json_decref(openai);
        json_decref(anthropic);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(reads_what_is_there),  cmocka_unit_test(keeps_defaults),
        cmocka_unit_test(refuses_by_name),      cmocka_unit_test(names_what_is_inside),
        cmocka_unit_test(problems_are_objects), cmocka_unit_test(problems_have_the_form_of_their_api),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
