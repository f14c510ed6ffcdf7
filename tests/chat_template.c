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

/* ------------------------------------------------------------------ bounds and faults */

static json_t *no_variables;

static void expect_error(const char *source, hearth_status status, const char *text)
{
    hearth_error error = {0};
    buffer out = {0};
    assert_int_equal(render_source(source, no_variables, &out, &error), status);
    if (!strstr(error.text, text))
        fail_msg("%s: expected %s", error.text, text);
    assert_int_equal(out.size, 0);
    assert_int_equal(mem_live(), 0);
}

/* What loops, recurses or grows ends with an error, and a line. */
static void stays_within_its_bounds(void **state)
{
    (void)state;
    static const struct {
        const char *source, *error;
    } cases[] = {
        {"\n\n{% for a in range(9999) %}{% for b in range(9999) %}x{% endfor %}{% endfor %}",
         "line 3: the template needs more than"},
        {"{% set s = 'ab' * 9000000 %}{% for a in range(99999) %}{% if 'ac' in s %}{% endif %}{% endfor %}",
         "more than 20000000 steps"},
        {"{% set n = namespace(x='a') %}{% for i in range(99) %}{% set n.x = n.x + n.x %}{% endfor %}",
         "needs more than 256 MB"},
        {"{{ 'a' * 1000000000 }}", "needs more than 256 MB"},
        {"{{ [0] * 999999999999999999 }}", "needs more than 256 MB"},
        {"{{ range(999999999999) }}", "needs more than 256 MB"},
        {"{{ 'a'.center(999999999999) }}", "more than 20000000 steps"},
        {"{% set t = 'a' * 100000000 %}{{ t.isalpha() }}{{ t|wordcount }}", "more than 20000000 steps"},
        {"{% macro m(x) %}{{ m(x) }}{% endmacro %}\n{{ m(1) }}", "more than 800 nested"},
        {"{% for x in [[1]] recursive %}{{ loop([x]) }}{% endfor %}", "more than 800 nested"},
        {"{% set n = namespace(x=[]) %}{% for i in range(9999) %}{% set n.x = [n.x] %}{% endfor %}{{ n.x }}",
         "more than 800 nested"},
        {"{% set n = namespace(x=[]) %}{% for i in range(9999) %}{% set n.x = [n.x] %}{% endfor %}{{ n.x|tojson }}",
         "more than 800 nested"},
        {"{% set n = namespace() %}{% set n.x = n %}{{ n }}", "more than 800 nested"},
        {"{% set n = namespace(x=[1]) %}{% for i in range(60) %}{% set n.x = [n.x, n.x] %}{% endfor %}{{ n.x == n.x }}",
         "more than 20000000 steps"},
        {"{{ 9223372036854775807 + 1 }}", "larger than 64 bits"},
        {"{{ 2 ** 64 }}", "larger than 64 bits"},
        {"{{ -9223372036854775807 - 2 }}", "larger than 64 bits"},
        {"{{ 99999999999999999999 }}", "larger than 64 bits"},
        {"{% include 'other' %}", "line 1: the statement 'include' is not supported"},
        {"a\n{{ x|shout }}", "line 2: the filter 'shout' is not known"},
        {"a\n{{ x is loud }}", "line 2: the test 'loud' is not known"},
        {"{{ 'abc'.encode() }}", "'str object' has no attribute 'encode'"},
        {"{{ 'x'|attr('__class__') }}{{ ''.__class__.x }}", "has no attribute '__class__'"},
        {"{{ strftime_now('%9999999Y') }}", "strftime_now: the format cannot be used"},
    };
    no_variables = json_object();
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        hearth_error error = {0};
        buffer out = {0};
        hearth_status status = render_source(cases[i].source, no_variables, &out, &error);
        if (status == HEARTH_OK || !strstr(error.text, cases[i].error))
            fail_msg("%s: expected %s, got %s", cases[i].source, cases[i].error, error.text);
        assert_int_equal(out.size, 0);
        assert_int_equal(mem_live(), 0);
    }
    expect_error("\xff", HEARTH_FORMAT, "is not UTF-8");
    json_decref(no_variables);
}

/* Nested more than the parser takes, in every way that nests. */
static void nesting_is_bounded(void **state)
{
    (void)state;
    static const char *const pieces[] = {"(",    "[",  "{1:", "-", "not ", "x[", "f(", "1 if 1 else ",
                                         "x|f(", "1+", "x.y."};
    no_variables = json_object();
    for (size_t i = 0; i < sizeof pieces / sizeof *pieces; i++) {
        buffer source = {0}, out = {0};
        hearth_error error = {0};
        assert_true(buffer_put(&source, "{{ ", 3));
        for (int n = 0; n < 20000; n++)
            assert_true(buffer_put(&source, pieces[i], strlen(pieces[i])));
        assert_true(buffer_put(&source, "1", 2));
        assert_int_not_equal(render_source(source.data, no_variables, &out, &error), HEARTH_OK);
        buffer_free(&source);
        buffer_free(&out);
    }
    buffer source = {0}, out = {0};
    hearth_error error = {0};
    for (int n = 0; n < 20000; n++)
        assert_true(buffer_put(&source, "{% if 1 %}", 10));
    assert_true(buffer_put(&source, "", 1));
    assert_int_equal(render_source(source.data, no_variables, &out, &error), HEARTH_FORMAT);
    assert_non_null(strstr(error.text, "within each other"));
    /* Many elifs are no nesting. */
    source.size = 0;
    assert_true(buffer_put(&source, "{% if 0 %}", 10));
    for (int n = 0; n < 20000; n++)
        assert_true(buffer_put(&source, "{% elif 0 %}", 12));
    assert_true(buffer_put(&source, "{% else %}end{% endif %}", 25));
    assert_int_equal(render_source(source.data, no_variables, &out, &error), HEARTH_OK);
    assert_true(span_equal((span){out.data, out.size}, span_of("end")));
    buffer_free(&source);
    buffer_free(&out);
    json_decref(no_variables);
}

/* As many arguments, parameters and comparisons as a source of TEMPLATE_LIMIT bytes holds: parsing takes time and memory
 * in proportion to it, where a copy for each of them would need gigabytes. */
static void long_lists_are_parsed(void **state)
{
    (void)state;
    static const struct {
        const char *begin, *item, *end;
    } cases[] = {
        {"{{ 0", "<1", " }}"},
        {"{{ dict(", "a=1,", ") }}"},
        {"{% macro m(", "a=1,", ") %}{% endmacro %}{{ m() }}"},
    };
    no_variables = json_object();
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        buffer source = {0}, out = {0};
        hearth_error error = {0};
        assert_true(buffer_print(&source, "%s", cases[i].begin));
        while (source.size + 100 < TEMPLATE_LIMIT)
            assert_true(buffer_print(&source, "%s", cases[i].item));
        assert_true(buffer_print(&source, "%s", cases[i].end) && buffer_put(&source, "", 1));
        assert_int_equal(render_source(source.data, no_variables, &out, &error), HEARTH_OK);
        buffer_free(&source);
        buffer_free(&out);
    }
    json_decref(no_variables);
}

/* Without memory at any of its allocations: the status says so, and nothing leaks. */
static void survives_without_memory(void **state)
{
    (void)state;
    span source = read_text("Qwen3-Coder", ".jinja");
    json_t *messages = read_json(TEMPLATES "messages.json");
    conversation c = {.messages = json_object_get(json_object_get(messages, "conversations"), "system"),
                      .tools = json_object_get(messages, "tools")};
    long live = mem_live(), failures = 0;
    hearth_status status = HEARTH_NO_MEMORY;
    for (; status != HEARTH_OK; failures++) {
        template *t = NULL;
        buffer out = {0};
        hearth_error error;
        mem_fail_at(failures);
        status = template_create(&t, source, "Qwen3-Coder", &error);
        if (status == HEARTH_OK)
            status = conversation_render(&c, t, &moment, &out, &error);
        mem_fail_at(-1);
        assert_true(status == HEARTH_OK || status == HEARTH_NO_MEMORY);
        template_destroy(t);
        buffer_free(&out);
        assert_int_equal(mem_live(), live);
    }
    assert_in_range(failures, 4, 1000);
    json_decref(messages);
    mem_free((void *)source.data);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(renders_published_templates), cmocka_unit_test(renders_as_jinja2),
        cmocka_unit_test(stays_within_its_bounds),     cmocka_unit_test(nesting_is_bounded),
        cmocka_unit_test(long_lists_are_parsed),       cmocka_unit_test(survives_without_memory),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
