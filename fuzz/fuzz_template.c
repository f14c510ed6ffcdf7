/* fuzz_template.c - a chat template, and behind a zero byte the variables it is rendered with, as JSON.
 *
 * Covers: src/chat/lexer.c
 * Covers: src/chat/parse_expression.c
 * Covers: src/chat/parse_statement.c
 * Covers: src/chat/evaluate.c
 * Covers: src/chat/statement.c
 * Covers: src/chat/operate.c
 * Covers: src/chat/builtins.c
 * Covers: src/chat/filters.c
 * Covers: src/chat/list_filters.c
 * Covers: src/chat/methods.c
 * Covers: src/chat/text_methods.c
 * Covers: src/chat/tests.c
 * Covers: src/chat/value.c
 * Covers: src/chat/value_text.c
 * Covers: src/chat/rendering.c
 * Covers: src/chat/template.c
 *
 * Whatever they are: no fault, an end within the bounds, and valid UTF-8. */
#include "../src/base/memory.h"
#include "../src/chat/template.h"

#include <stdlib.h>
#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    const uint8_t *end = size > 0 ? memchr(data, 0, size) : NULL;
    size_t source_size = end ? (size_t)(end - data) : size;
    const struct tm now = {.tm_year = 126, .tm_mday = 2, .tm_hour = 3, .tm_wday = 5, .tm_yday = 1};
    template *t;
    hearth_error error;
    if (template_create(&t, (span){(const char *)data, source_size}, "fuzz", &error) != HEARTH_OK)
        return 0;
    json_t *variables = end ? json_loadb((const char *)end + 1, size - source_size - 1, 0, NULL) : NULL;
    if (!json_is_object(variables)) {
        json_decref(variables);
        variables = json_object();
    }
    buffer text = {0};
    hearth_status status = template_render(t, variables, &now, &text, &error);
    if (status == HEARTH_OK && !utf8_is_valid(text.data, text.size))
        abort();
    if (status != HEARTH_OK && text.size > 0)
        abort();
    buffer_free(&text);
    json_decref(variables);
    template_destroy(t);
    if (mem_live() != 0)
        abort();
    return 0;
}
