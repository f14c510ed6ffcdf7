/* chat.c - chat templates of models. */
#include "chat.h"

#include "../base/memory.h"
#include "../chat/named.h"

#include <stdio.h>
#include <string.h>

#define KEY_TEMPLATE "tokenizer.chat_template"

static hearth_status unknown_name(const checkpoint *c, const char *name, hearth_error *error)
{
    char all[256] = "";
    const char *other;
    for (size_t i = 0; (other = named_template_at(i)); i++) {
        size_t used = strlen(all);
        snprintf(all + used, sizeof all - used, "%s%s", i ? ", " : "", other);
    }
    return fail(error, HEARTH_INVALID, "%s: chat template: there is none named '%s'; hearth has %s", c->path, name,
                all);
}

/* Replaces a template that is no more than the name of one that hearth has, as files of RWKV have it, by that one. */
static void use_named(span *source)
{
    const char *name;
    for (size_t i = 0; (name = named_template_at(i)); i++)
        if (span_equal(*source, span_of(name))) {
            *source = named_template_find(name);
            return;
        }
}

hearth_status model_chat_source(const checkpoint *c, const char *name, span *out, hearth_error *error)
{
    char key[128];
    bool found;
    snprintf(key, sizeof key, "%s%s%s", KEY_TEMPLATE, name ? "." : "", name ? name : "");
    TRY(checkpoint_get_string(c, key, out, &found, error));
    if (found) {
        use_named(out);
        return HEARTH_OK;
    }
    if (!name)
        return fail(error, HEARTH_UNSUPPORTED,
                    "%s: chat template: the model has none; --chat-template takes a name, such as chatml, or a file",
                    c->path);
    *out = named_template_find(name);
    return out->size > 0 ? HEARTH_OK : unknown_name(c, name, error);
}

void model_chat_tokens(const tokenizer *t, conversation *out)
{
    out->bos = t && tokenizer_bos(t) >= 0 ? tokenizer_piece(t, tokenizer_bos(t)) : (span){0};
    out->eos = t && tokenizer_eos(t) >= 0 ? tokenizer_piece(t, tokenizer_eos(t)) : (span){0};
}

hearth_status model_chat_encode(const tokenizer *t, span text, int32_t **ids, size_t *count, hearth_error *error)
{
    TRY(tokenizer_encode(t, text, HEARTH_TEXT_PARSE_CONTROL, ids, count, error));
    int32_t bos = tokenizer_bos(t);
    if (!tokenizer_adds_bos(t) || bos < 0 || (*count > 0 && (*ids)[0] == bos))
        return HEARTH_OK;
    int32_t *with_bos = mem_new_array(*count + 1, sizeof *with_bos);
    if (with_bos) {
        with_bos[0] = bos;
        if (*count > 0)
            memcpy(with_bos + 1, *ids, *count * sizeof *with_bos);
        ++*count;
    }
    mem_free(*ids);
    *ids = with_bos;
    return with_bos ? HEARTH_OK : fail_memory(error, "ids", *count * sizeof *with_bos);
}
