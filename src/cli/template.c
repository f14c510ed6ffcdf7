/* template.c - `hearth template`: prints a conversation as the model would read it. */
#include "chat_options.h"
#include "common.h"

#include "../base/file.h"
#include "../model/chat.h"
#include "../model/model.h"
#include "output.h"

#include <string.h>

typedef struct template_values {
    model_options model;
    chat_options chat;
    const char *messages;
    const char *tools;
    bool no_generation_prompt;
} template_values;

static const option rows[] = {
    {OPTION_ROW(0, "messages", TEXT, template_values, messages, "FILE",
                "the conversation: a JSON list of objects with role and content; -: standard input")},
    {OPTION_ROW(0, "tools", TEXT, template_values, tools, "FILE", "the tools: a JSON list")},
    {OPTION_ROW(0, "no-generation-prompt", FLAG, template_values, no_generation_prompt, NULL,
                "end behind the last message, not where the answer begins")},
};

/* Renders what the files hold and prints it, byte for byte. */
static hearth_status print_conversation(const template_values *v, const chat_form *form, const tokenizer *t,
                                        hearth_error *error)
{
    json_t *messages = NULL, *tools = NULL;
    buffer text = {0};
    hearth_status status = json_parse_file(&messages, v->messages, error);
    if (status == HEARTH_OK && v->tools)
        status = json_parse_file(&tools, v->tools, error);
    conversation c = {.messages = messages, .tools = tools, .answers = !v->no_generation_prompt};
    if (status == HEARTH_OK)
        status = conversation_check(&c, v->messages, error);
    model_chat_tokens(t, &c);
    if (status == HEARTH_OK)
        status = chat_form_render(form, c, &text, error);
    if (status == HEARTH_OK && text.size > 0)
        fwrite(text.data, 1, text.size, stdout);
    json_decref(messages);
    json_decref(tools);
    buffer_free(&text);
    return status;
}

/* The template is a file of its own: there is no vocabulary. */
static hearth_status render_file(const template_values *v, hearth_error *error)
{
    char *text;
    size_t size;
    chat_form form;
    TRY(file_read(&text, &size, v->model.model, TEMPLATE_LIMIT, error));
    hearth_status status = chat_form_open(&form, "template", &v->chat, (span){text, size}, v->model.model, error);
    mem_free(text);
    if (status == HEARTH_OK) {
        status = print_conversation(v, &form, NULL, error);
        chat_form_close(&form);
    }
    return status;
}

static hearth_status render_model(const template_values *v, hearth_error *error)
{
    checkpoint *c;
    tokenizer *t = NULL;
    span source;
    char *owned = NULL;
    chat_form form;
    TRY(model_open_checkpoint(&c, v->model.model, error));
    hearth_status status = tokenizer_create(&t, c, error);
    if (status == HEARTH_OK)
        status = chat_source(&v->chat, c, &source, &owned, error);
    if (status == HEARTH_OK) {
        status = chat_form_open(&form, "template", &v->chat, source,
                                v->chat.template ? v->chat.template : "chat template", error);
        mem_free(owned);
    }
    if (status == HEARTH_OK) {
        status = print_conversation(v, &form, t, error);
        chat_form_close(&form);
    }
    tokenizer_destroy(t);
    checkpoint_close(c);
    return status;
}

static hearth_status run_template(void *values, operands *rest, hearth_error *error)
{
    template_values *v = values;
    TRY(common_take_model("template", &v->model, rest, 0, false, error));
    if (!v->messages)
        return fail(error, HEARTH_INVALID, "template: --messages: is missing");
    bool is_source = text_ends_with(v->model.model, ".jinja") || text_ends_with(v->model.model, ".j2");
    if (is_source && v->chat.template)
        return fail(error, HEARTH_INVALID, "template: %s: a file of Jinja and --chat-template cannot both be given",
                    v->model.model);
    return is_source ? render_file(v, error) : render_model(v, error);
}

const command command_template = {
    .name = "template",
    .path = "template",
    .summary = "print a conversation as a model reads it",
    .usage = "MODEL|FILE.jinja --messages FILE [--tools FILE] [--no-generation-prompt] [--set NAME=VALUE]",
    .about =
        "Renders messages by a chat template and prints the text, byte for byte, and nothing else. The template is "
        "the model's own, another one, or a file of its own, which needs the names of its tokens by --set "
        "bos_token=<s>. Nothing of a model but its vocabulary is read.",
    .example = "  $ echo '[{\"role\": \"user\", \"content\": \"Hi\"}]' > hi.json\n"
               "  $ hearth template stories-relu-q8_0.gguf --chat-template chatml --messages hi.json\n"
               "  <|im_start|>user\n"
               "  Hi<|im_end|>\n"
               "  <|im_start|>assistant",
    .tables = {OPTION_TABLE("options", rows, 0),
               {"template", chat_option_rows, CHAT_OPTION_COUNT, offsetof(template_values, chat)},
               {"model", model_option_rows, MODEL_PATH_COUNT, offsetof(template_values, model)}},
    .values_size = sizeof(template_values),
    .operands_most = 1,
    .run = run_template,
};
