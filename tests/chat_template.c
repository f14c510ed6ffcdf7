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
    .tm_year = 126, .tm_mon = 0, .tm_mday = 2, .tm_hour = 3, .tm_min = 4, .tm_sec = 5, .tm_wday = 5};

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

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(renders_published_templates),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
