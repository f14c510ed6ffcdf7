/* bench_prompts.c - see bench_prompts.h. */
#include "bench_prompts.h"

#include "../base/file.h"
#include "../base/memory.h"
#include "../base/text.h"
#include "../eval/humaneval.h"

#include <string.h>

#define MAX_PROMPTS_BYTES ((size_t)64 << 20)

static hearth_status add_ids(bench_prompts *p, const int32_t *ids, size_t count, hearth_error *error)
{
    size_t bytes = (p->id_count + count) * sizeof *p->ids;
    int32_t *all = mem_resize(p->ids, bytes);
    if (!all)
        return fail_memory(error, "prompts", bytes);
    memcpy(all + p->id_count, ids, count * sizeof *ids);
    p->ids = all;
    p->id_count += count;
    return HEARTH_OK;
}

/* Appends the tokens of text; it begins a prompt unless it goes on with one. */
static hearth_status add_text(bench_prompts *p, const hearth_model *model, span text, bool goes_on, hearth_error *error)
{
    int32_t *ids;
    size_t count;
    TRY(hearth_tokenize(model, text.data, text.size, goes_on ? 0 : HEARTH_TEXT_SPECIAL, &ids, &count, error));
    if (!goes_on && count > 0)
        p->starts[p->start_count++] = p->id_count;
    hearth_status status = count > 0 ? add_ids(p, ids, count, error) : HEARTH_OK;
    hearth_free(ids);
    return status;
}

static hearth_status take_starts(bench_prompts *p, size_t most, hearth_error *error)
{
    p->starts = mem_new_array(most, sizeof *p->starts);
    return p->starts ? HEARTH_OK : fail_memory(error, "prompts", most * sizeof *p->starts);
}

/* ------------------------------------------------------------------ files */

static hearth_status add_lines(bench_prompts *p, const hearth_model *model, span text, hearth_error *error)
{
    size_t lines = 1;
    for (size_t i = 0; i < text.size; i++)
        lines += text.data[i] == '\n';
    TRY(take_starts(p, lines, error));
    for (size_t at = 0; at < text.size;) {
        const char *end = memchr(text.data + at, '\n', text.size - at);
        size_t size = end ? (size_t)(end - text.data) - at : text.size - at;
        if (size > 0)
            TRY(add_text(p, model, (span){text.data + at, size}, false, error));
        at += size + 1;
    }
    return HEARTH_OK;
}

static hearth_status add_problems(bench_prompts *p, const hearth_model *model, const humaneval_problems *problems,
                                  hearth_error *error)
{
    TRY(take_starts(p, problems->count + 1, error));
    for (size_t i = 0; i < problems->count; i++) {
        const humaneval_problem *one = &problems->items[i];
        TRY(add_text(p, model, span_of(one->prompt), false, error));
        if (one->canonical)
            TRY(add_text(p, model, span_of(one->canonical), true, error));
    }
    return HEARTH_OK;
}

static hearth_status read_problems(bench_prompts *out, const hearth_model *model, const char *path, hearth_error *error)
{
    humaneval_problems problems = {0};
    hearth_status status = humaneval_read(&problems, path, error);
    if (status == HEARTH_OK)
        status = add_problems(out, model, &problems, error);
    humaneval_problems_free(&problems);
    return status;
}

static hearth_status read_lines(bench_prompts *out, const hearth_model *model, const char *path, hearth_error *error)
{
    char *text;
    size_t size;
    TRY(file_read(&text, &size, path, MAX_PROMPTS_BYTES, error));
    hearth_status status = add_lines(out, model, (span){text, size}, error);
    mem_free(text);
    return status;
}

hearth_status bench_prompts_read(bench_prompts *out, const hearth_model *model, const char *path, hearth_error *error)
{
    bool problems = text_ends_with(path, ".jsonl") || text_ends_with(path, ".jsonl.gz");
    TRY(problems ? read_problems(out, model, path, error) : read_lines(out, model, path, error));
    return out->start_count > 0 ? HEARTH_OK : fail(error, HEARTH_FORMAT, "%s: prompts: there are none", path);
}

void bench_prompts_free(bench_prompts *p)
{
    mem_free(p->ids);
    mem_free(p->starts);
    *p = (bench_prompts){0};
}
