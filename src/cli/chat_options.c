/* chat_options.c - the options of chat templates. */
#include "chat_options.h"

#include "../base/file.h"
#include "../model/chat.h"

#include <stdio.h>
#include <string.h>

const option chat_option_rows[CHAT_OPTION_COUNT] = {
    {OPTION_ROW(
        0, "chat-template", TEXT, chat_options, template, "NAME|FILE",
        "the template: a name such as chatml, llama3, mistral, gemma, one of the model's others, or a file with "
        "Jinja; else the model's own")},
    {OPTION_ROW(0, "set", TEXTS, chat_options, variables, "NAME=VALUE",
                "a variable of the template: enable_thinking=false, reasoning_effort=high; VALUE is JSON or text; "
                "strftime_now=2026-01-31T12:00:00 fixes its clock; may be given several times")},
};

/* "2026-01-31T12:00:00" */
static hearth_status read_clock(chat_form *f, const char *path, const char *text, hearth_error *error)
{
    const char *end = strptime(text, "%Y-%m-%dT%H:%M:%S", &f->now);
    f->has_now = end && !*end;
    if (!f->has_now)
        return fail(error, HEARTH_INVALID, "%s: --set: strftime_now=%s: is not a time such as 2026-01-31T12:00:00",
                    path, text);
    return HEARTH_OK;
}

static hearth_status set_variable(chat_form *f, const char *path, const char *text, hearth_error *error)
{
    const char *equal = strchr(text, '=');
    char name[64];
    if (!equal || equal == text || (size_t)(equal - text) >= sizeof name)
        return fail(error, HEARTH_INVALID, "%s: --set: %s: is not NAME=VALUE", path, text);
    snprintf(name, sizeof name, "%.*s", (int)(equal - text), text);
    if (strcmp(name, "strftime_now") == 0)
        return read_clock(f, path, equal + 1, error);
    json_t *value = json_loads(equal + 1, JSON_DECODE_ANY | JSON_REJECT_DUPLICATES, NULL);
    if (!value)
        value = json_text(span_of(equal + 1));
    return json_object_set_new(f->variables, name, value) == 0 ? HEARTH_OK : fail_memory(error, "--set", strlen(text));
}

hearth_status chat_form_open(chat_form *out, const char *path, const chat_options *o, span source, const char *name,
                             hearth_error *error)
{
    *out = (chat_form){.variables = json_object()};
    hearth_status status = out->variables ? HEARTH_OK : fail_memory(error, "--set", 0);
    for (size_t i = 0; status == HEARTH_OK && i < o->variables.count; i++)
        status = set_variable(out, path, o->variables.items[i], error);
    if (status == HEARTH_OK)
        status = template_create(&out->template, source, name, error);
    if (status != HEARTH_OK)
        chat_form_close(out);
    return status;
}

void chat_form_close(chat_form *f)
{
    template_destroy(f->template);
    json_decref(f->variables);
    *f = (chat_form){0};
}

hearth_status chat_source(const chat_options *o, const checkpoint *c, span *out, char **owned, hearth_error *error)
{
    *owned = NULL;
    bool is_file = o->template && (strpbrk(o->template, "./") || file_exists(o->template));
    if (!is_file)
        return model_chat_source(c, o->template, out, error);
    TRY(file_read(owned, &out->size, o->template, TEMPLATE_LIMIT, error));
    out->data = *owned;
    return HEARTH_OK;
}

hearth_status chat_form_render(const chat_form *f, conversation c, buffer *out, hearth_error *error)
{
    c.variables = f->variables;
    return conversation_render(&c, f->template, f->has_now ? &f->now : NULL, out, error);
}
