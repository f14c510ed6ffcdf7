/* huggingface_chat.c - the chat templates of a Hugging Face folder, as llama.cpp's converter writes them: the keys
 * tokenizer.chat_template, and tokenizer.chat_template.NAME for further ones. */
#include "huggingface.h"

#include "../base/file.h"
#include "../base/memory.h"
#include "../chat/named.h"
#include "../chat/template.h"
#include "../text/rwkv_vocabulary.h"

#include <string.h>

#define KEY_TEMPLATE "tokenizer.chat_template"

static hearth_status set_template(checkpoint *c, const char *name, span text, hearth_error *error)
{
    char key[128];
    bool is_default = strcmp(name, "default") == 0;
    snprintf(key, sizeof key, "%s%s%s", KEY_TEMPLATE, is_default ? "" : ".", is_default ? "" : name);
    return checkpoint_set_string(c, key, text, error);
}

/* Adds what tokenizer_config.json has: one template, or a list of named ones. */
static hearth_status add_settings(checkpoint *c, const json_t *templates, const char *file, hearth_error *error)
{
    if (json_is_string(templates))
        return set_template(c, "default", (span){json_string_value(templates), json_string_length(templates)}, error);
    for (size_t i = 0; i < json_array_size(templates); i++) {
        const json_t *row = json_array_get(templates, i), *text = json_object_get(row, "template");
        const char *name = json_string_value(json_object_get(row, "name"));
        if (!name || !json_is_string(text) || strlen(name) > 64)
            return fail(error, HEARTH_FORMAT, "%s: chat_template: item %zu: is no template with a name", file, i + 1);
        TRY(set_template(c, name, (span){json_string_value(text), json_string_length(text)}, error));
    }
    return HEARTH_OK;
}

/* Adds chat_template.jinja, which goes before tokenizer_config.json. */
static hearth_status add_file(checkpoint *c, const char *folder, hearth_error *error)
{
    char *path = file_join(folder, "chat_template.jinja"), *text;
    size_t size;
    if (!path)
        return fail_memory(error, folder, strlen(folder));
    hearth_status status = HEARTH_OK;
    if (file_exists(path)) {
        status = file_read(&text, &size, path, TEMPLATE_LIMIT, error);
        if (status == HEARTH_OK) {
            status = set_template(c, "default", (span){text, size}, error);
            mem_free(text);
        }
    }
    mem_free(path);
    return status;
}

/* Adds the format of RWKV's chats where a folder with its vocabulary has none, as llama.cpp's converter does. */
static hearth_status add_world(checkpoint *c, hearth_error *error)
{
    span kind;
    bool found;
    TRY(checkpoint_get_string(c, "tokenizer.ggml.model", &kind, &found, error));
    if (!found || !span_equal(kind, span_of(RWKV_KIND)) || checkpoint_find(c, KEY_TEMPLATE))
        return HEARTH_OK;
    return set_template(c, "default", named_template_find("rwkv-world"), error);
}

hearth_status huggingface_add_chat(checkpoint *c, const char *folder, const json_t *settings, const char *name,
                                   hearth_error *error)
{
    TRY(add_settings(c, json_object_get(settings, "chat_template"), name, error));
    TRY(add_file(c, folder, error));
    return add_world(c, error);
}
