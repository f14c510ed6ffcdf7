/* prompts.c - prompts as OpenAI's API has them, of completions and embeddings; and how a job with prompts is sent. */
#include "api.h"

#include "../base/memory.h"

/* Reads a list of tokens. */
static bool read_tokens(const served *m, const json_t *list, const char *name, job_prompt *out, problem *p)
{
    size_t count = json_array_size(list);
    out->ids = mem_new_array(count ? count : 1, sizeof *out->ids);
    if (!out->ids)
        return problem_of(p, NULL, HEARTH_NO_MEMORY, "prompt: out of memory");
    out->count = count;
    for (size_t i = 0; i < count; i++) {
        const json_t *id = json_array_get(list, i);
        json_int_t value = json_integer_value(id);
        if (!json_is_integer(id) || value < 0 || value >= (json_int_t)m->info.vocabulary_size)
            return problem_field(p, name, "invalid_value", "%s: must hold tokens from 0 to %u", name,
                                 m->info.vocabulary_size - 1);
        out->ids[i] = (int32_t)value;
    }
    return true;
}

static bool read_text(const served *m, const json_t *text, const char *name, job_prompt *out, problem *p)
{
    hearth_error error = {0};
    hearth_status status =
        hearth_tokenize(m->model, json_string_value(text), json_string_length(text),
                        HEARTH_TEXT_SPECIAL | HEARTH_TEXT_PARSE_CONTROL, &out->ids, &out->count, &error);
    return status == HEARTH_OK || problem_of(p, name, status, error.text);
}

static bool read_prompt(const served *m, const json_t *value, const char *name, job_prompt *out, problem *p)
{
    if (json_is_string(value))
        return read_text(m, value, name, out, p);
    if (json_is_array(value))
        return read_tokens(m, value, name, out, p);
    return problem_field(p, name, "invalid_type",
                         "%s: must be a string, a list of strings, a list of tokens, or a list of such lists", name);
}

/* Returns whether a value is one prompt: a list of numbers is. */
static bool is_one(const json_t *value)
{
    return !json_is_array(value) || json_is_number(json_array_get(value, 0));
}

size_t prompts_count(const json_t *value)
{
    return is_one(value) ? 1 : json_array_size(value);
}

const json_t *prompts_get(const json_t *value, size_t i)
{
    return is_one(value) ? value : json_array_get(value, i);
}

bool prompts_read(const served *m, const json_t *value, const char *name, job *j, problem *p)
{
    for (size_t i = 0; i < j->prompt_count; i++)
        if (!read_prompt(m, prompts_get(value, i), name, &j->prompts[i], p))
            return false;
    return true;
}

bool prompts_check(const served *m, const job *j, const char *name, problem *p)
{
    uint32_t context = driver_context(m->driver);
    for (size_t i = 0; i < j->prompt_count; i++) {
        if (j->prompts[i].count == 0)
            return problem_field(p, name, "invalid_value", "%s: is empty, there is nothing to read", name);
        if (j->prompts[i].count > context)
            return problem_field(p, name, "context_length_exceeded", "%s: has %zu tokens, the context only %u", name,
                                 j->prompts[i].count, context);
    }
    return true;
}

bool prompts_send(served *m, job *j, problem *p)
{
    hearth_error error;
    switch (driver_send(m->driver, j)) {
    case MAILBOX_TAKEN:
        return true;
    case MAILBOX_FULL:
        return problem_set(p, 503, "queue_full", "too many answers wait already");
    default:
        return driver_is_well(m->driver, &error) ? problem_set(p, 503, "shutting_down", "the server is shutting down")
                                                 : problem_set(p, 503, "device_lost", "%s", error.text);
    }
}
