/* fuzz_humaneval.c - any bytes as HumanEval's problems; and, behind the first NUL, as completions of them.
 *
 * Covers: src/eval/humaneval_file.c
 *
 * What is accepted is read to its last byte, names functions that a program can call, and every task once. */
#include "touch.h"

#include "../src/eval/humaneval.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void touch_problems(const humaneval_problems *p)
{
    for (size_t i = 0; i < p->count; i++) {
        const humaneval_problem *one = &p->items[i];
        const char *const texts[] = {one->task_id, one->prompt, one->entry_point, one->test, one->canonical};
        for (size_t k = 0; k < sizeof(texts) / sizeof(*texts); k++)
            touch_bytes(texts[k], texts[k] ? strlen(texts[k]) : 0);
        if (!*one->entry_point || strpbrk(one->entry_point, "()\n\"'\\ "))
            abort();
        for (size_t k = 0; k < i; k++)
            if (strcmp(p->items[k].task_id, one->task_id) == 0)
                abort();
    }
}

static hearth_status read_both(const char *text, size_t size, hearth_error *error)
{
    humaneval_problems problems = {0};
    humaneval_completions completions = {0};
    const char *end = memchr(text, 0, size);
    size_t first = end ? (size_t)(end - text) : size;
    hearth_status status = humaneval_parse(&problems, (span){text, first}, "fuzz", error);
    if (status == HEARTH_OK) {
        touch_problems(&problems);
        span rest = {text + first + (end != NULL), size - first - (end != NULL)};
        status = humaneval_parse_completions(&completions, rest, "fuzz", &problems, error);
        for (size_t i = 0; i < completions.count; i++) {
            touch_bytes(completions.items[i].text.data, completions.items[i].text.size);
            if (completions.items[i].problem >= problems.count)
                abort();
        }
        if (status == HEARTH_OK && humaneval_check_complete(&completions, &problems, 0, "fuzz", NULL) == HEARTH_OK &&
            completions.count < problems.count)
            abort();
        if (humaneval_save("/dev/null", &problems, &completions, NULL) != HEARTH_OK)
            abort();
    }
    humaneval_completions_free(&completions);
    humaneval_problems_free(&problems);
    return status;
}

/* Packed problems hold NULs and come alone. */
int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    long live = mem_live();
    hearth_error error = {.text = ""};
    const char *text = (const char *)data;
    hearth_status status;
    if (size >= 2 && data[0] == 0x1f && data[1] == 0x8b) {
        humaneval_problems problems = {0};
        status = humaneval_parse(&problems, (span){text, size}, "fuzz", &error);
        if (status == HEARTH_OK)
            touch_problems(&problems);
        humaneval_problems_free(&problems);
    } else {
        status = read_both(text, size, &error);
    }
    check_end(status, &error, live);
    return 0;
}
