/* chat_template.c - published chat templates against what Jinja2 renders (golden/templates), and its bounds. */
#include "../src/base/file.h"
#include "../src/base/memory.h"
#include "../src/chat/conversation.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#define TEMPLATES HEARTH_DATA "/golden/templates/"

/* The moment of strftime_now in the references. */
static const struct tm moment = {
    .tm_year = 126, .tm_mon = 0, .tm_mday = 2, .tm_hour = 3, .tm_min = 4, .tm_sec = 5, .tm_wday = 5, .tm_yday = 1};

static span read_text(const char *name, const char *ending)
{
    char path[512], *text;
    size_t size;
    snprintf(path, sizeof path, TEMPLATES "%s%s", name, ending);
    assert_int_equal(file_read(&text, &size, path, 1 << 20, NULL), HEARTH_OK);
    return (span){text, size};
}

static json_t *read_json(const char *path)
{
    json_t *json;
    assert_int_equal(json_parse_file(&json, path, NULL), HEARTH_OK);
    return json;
}

/* Renders with and without the generation prompt. */
static void expect_reference(const char *name, const json_t *row, const json_t *messages)
{
    static const char *const endings[] = {".txt", ".gen.txt"};
    span source = read_text(name, ".jinja");
    hearth_error error = {0};
    template *t;
    if (template_create(&t, source, name, &error) != HEARTH_OK)
        fail_msg("%s", error.text);
    for (int answers = 0; answers < 2; answers++) {
        const char *which = json_string_value(json_object_get(row, "messages"));
        conversation c = {.messages = json_object_get(json_object_get(messages, "conversations"), which),
                          .tools =
                              json_is_true(json_object_get(row, "tools")) ? json_object_get(messages, "tools") : NULL,
                          .variables = json_object_get(row, "variables"),
                          .answers = answers};
        buffer out = {0};
        assert_int_equal(conversation_check(&c, name, &error), HEARTH_OK);
        if (conversation_render(&c, t, &moment, &out, &error) != HEARTH_OK)
            fail_msg("%s", error.text);
        span expected = read_text(name, endings[answers]);
        if (!span_equal(expected, (span){out.data, out.size}))
            fail_msg("%s: expected\n%.*s\ngot\n%.*s", name, (int)expected.size, expected.data, (int)out.size, out.data);
        mem_free((void *)expected.data);
        buffer_free(&out);
    }
    template_destroy(t);
    mem_free((void *)source.data);
}

static void renders_published_templates(void **state)
{
    (void)state;
    json_t *index = read_json(TEMPLATES "index.json"), *messages = read_json(TEMPLATES "messages.json");
    json_t *row;
    const char *name;
    size_t count = 0;
    json_object_foreach(json_object_get(index, "templates"), name, row)
    {
        expect_reference(name, row, messages);
        count++;
    }
    assert_int_equal(count, 22);
    json_decref(index);
    json_decref(messages);
    assert_int_equal(mem_live(), 0);
}

/* ------------------------------------------------------------------ small templates */

/* Renders a source; the status of the first step that fails. */
static hearth_status render_source(const char *source, const json_t *variables, buffer *out, hearth_error *error)
{
    template *t;
    TRY(template_create(&t, span_of(source), "case", error));
    hearth_status status = template_render(t, variables, &moment, out, error);
    template_destroy(t);
    return status;
}

/* Prints every case that differs from what Jinja2 gives; returns how many those are. */
static size_t count_wrong_cases(const json_t *cases, const json_t *variables)
{
    size_t wrong = 0;
    for (size_t i = 0; i < json_array_size(cases); i++) {
        const json_t *row = json_array_get(cases, i), *told = json_object_get(row, "error");
        const char *source = json_string_value(json_object_get(row, "template"));
        const char *text = json_string_value(json_object_get(row, "text"));
        hearth_error error = {0};
        buffer out = {0};
        hearth_status status = render_source(source, variables, &out, &error);
        bool fails = status == HEARTH_INVALID || status == HEARTH_FORMAT || status == HEARTH_UNSUPPORTED;
        bool same = text ? status == HEARTH_OK && span_equal((span){out.data, out.size}, span_of(text))
                         : fails && (json_is_null(told) || strstr(error.text, json_string_value(told)));
        if (!same) {
            print_error("%s\n  expected %s\n  got      %.*s%s\n", source, text ? text : "an error", (int)out.size,
                        out.data ? out.data : "", error.text);
            wrong++;
        }
        buffer_free(&out);
    }
    return wrong;
}

static void renders_as_jinja2(void **state)
{
    (void)state;
    json_t *root = read_json(HEARTH_MODELS "/../tests/data/template-cases.json");
    const json_t *cases = json_object_get(root, "cases");
    assert_in_range(json_array_size(cases), 500, 5000);
    assert_int_equal(count_wrong_cases(cases, json_object_get(root, "variables")), 0);
    json_decref(root);
    assert_int_equal(mem_live(), 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(renders_published_templates),
        cmocka_unit_test(renders_as_jinja2),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
