/* chat_api.c - hearth_chat_render: messages as JSON to the text and the ids that a model reads. */
#include "../base/memory.h"
#include "../base/sized.h"
#include "../model/chat.h"
#include "../model/model.h"

#include <string.h>

/* What a caller gave, parsed. */
typedef struct request {
    json_t *messages, *tools, *variables;
    template *template;
} request;

static hearth_status parse_part(json_t **out, const char *text, const char *what, hearth_error *error)
{
    return text ? json_parse(out, text, strlen(text), what, error) : HEARTH_OK;
}

static hearth_status parse_request(request *r, const hearth_model *model, const char *messages,
                                   const hearth_chat_options *o, hearth_error *error)
{
    span source;
    TRY(parse_part(&r->messages, messages, "chat: messages", error));
    TRY(parse_part(&r->tools, o->tools, "chat: tools", error));
    TRY(parse_part(&r->variables, o->variables, "chat: variables", error));
    if (o->template_text)
        source = span_of(o->template_text);
    else
        TRY(model_chat_source(model->source, o->template_name, &source, error));
    return template_create(&r->template, source, "chat template", error);
}

static hearth_status render(const request *r, const hearth_model *model, bool no_answer, buffer *text,
                            hearth_error *error)
{
    conversation c = {.messages = r->messages, .tools = r->tools, .variables = r->variables, .answers = !no_answer};
    model_chat_tokens(model->tokenizer, &c);
    TRY(conversation_check(&c, "chat", error));
    TRY(conversation_render(&c, r->template, NULL, text, error));
    return buffer_put(text, "", 1) ? HEARTH_OK : fail_memory(error, "chat", text->size);
}

hearth_status hearth_chat_render_sized(const hearth_model *model, const char *messages,
                                       const hearth_chat_options *options, size_t options_size, char **text,
                                       size_t *size, int32_t **ids, size_t *count, hearth_error *error)
{
    hearth_chat_options own;
    request r = {0};
    buffer rendered = {0};
    if (ids)
        TRY(model_need_tokenizer(model, error));
    TRY(sized_read(&own, sizeof own, options, options_size, "hearth_chat_options", error));
    hearth_status status = parse_request(&r, model, messages, &own, error);
    if (status == HEARTH_OK)
        status = render(&r, model, own.no_answer, &rendered, error);
    if (status == HEARTH_OK && ids)
        status = model_chat_encode(model->tokenizer, (span){rendered.data, rendered.size - 1}, ids, count, error);
    json_decref(r.messages);
    json_decref(r.tools);
    json_decref(r.variables);
    template_destroy(r.template);
    if (status == HEARTH_OK && text) {
        *text = rendered.data;
        *size = rendered.size - 1;
    } else
        buffer_free(&rendered);
    return status;
}
