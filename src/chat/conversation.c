/* conversation.c - the variables of a chat template. */
#include "conversation.h"

static hearth_status check_list(const json_t *list, const char *name, const char *what, hearth_error *error)
{
    if (!json_is_array(list))
        return fail(error, HEARTH_INVALID, "%s: %ss: is not a list", name, what);
    for (size_t i = 0; i < json_array_size(list); i++)
        if (!json_is_object(json_array_get(list, i)))
            return fail(error, HEARTH_INVALID, "%s: %s %zu: is not an object", name, what, i + 1);
    return HEARTH_OK;
}

hearth_status conversation_check(const conversation *c, const char *name, hearth_error *error)
{
    TRY(check_list(c->messages, name, "message", error));
    if (c->tools)
        TRY(check_list(c->tools, name, "tool", error));
    if (c->variables && !json_is_object(c->variables))
        return fail(error, HEARTH_INVALID, "%s: variables: are not an object", name);
    for (size_t i = 0; i < json_array_size(c->messages); i++)
        if (!json_is_string(json_object_get(json_array_get(c->messages, i), "role")))
            return fail(error, HEARTH_INVALID, "%s: message %zu: has no role", name, i + 1);
    return HEARTH_OK;
}

/* Sets a variable; takes the value over. NULL: there was no memory for it. */
static bool set(json_t *variables, const char *name, json_t *value)
{
    return json_object_set_new(variables, name, value) == 0; /* also where value is NULL */
}

static bool set_token(json_t *variables, const char *name, span token)
{
    return token.size == 0 || set(variables, name, json_text(token));
}

/* Values of the caller are shared, not copied: nothing changes them. */
static bool fill_variables(json_t *variables, const conversation *c)
{
    bool ok = set(variables, "messages", json_incref((json_t *)c->messages)) &&
              set(variables, "tools", c->tools ? json_incref((json_t *)c->tools) : json_null()) &&
              set(variables, "documents", json_null()) &&
              set(variables, "add_generation_prompt", json_boolean(c->answers)) &&
              set_token(variables, "bos_token", c->bos) && set_token(variables, "eos_token", c->eos);
    return ok && (!c->variables || json_object_update(variables, (json_t *)c->variables) == 0);
}

hearth_status conversation_render(const conversation *c, const template *t, const struct tm *now, buffer *out,
                                  hearth_error *error)
{
    json_t *variables = json_object();
    struct tm local;
    if (!now) {
        const time_t seconds = time(NULL);
        now = localtime_r(&seconds, &local);
    }
    hearth_status status = HEARTH_OK;
    if (!variables || !fill_variables(variables, c))
        status = fail_memory(error, "chat", 0);
    else if (!now)
        status = fail(error, HEARTH_IO, "chat: the system has no local time");
    else
        status = template_render(t, variables, now, out, error);
    json_decref(variables);
    return status;
}
