/* model_api.c - the functions of hearth.h that ask a model for its keys, its tokens, and its tokenizer. */
#include "../base/memory.h"
#include "../file/checkpoint_json.h"
#include "../model/model.h"

#include <stdlib.h>
#include <string.h>

/* ------------------------------------------------------------------ keys */

size_t hearth_model_key_count(const hearth_model *model)
{
    return model->source->entry_count;
}

const char *hearth_model_key(const hearth_model *model, size_t index)
{
    return index < model->source->entry_count ? model->source->entries[index].key : NULL;
}

hearth_status hearth_model_value(const hearth_model *model, const char *key, char **json, hearth_error *error)
{
    const key_value *e = checkpoint_find(model->source, key);
    if (!e)
        return fail(error, HEARTH_INVALID, "%s: key %.64s: is missing", model->source->path, key);
    json_t *value = key_value_json(e, e->count);
    char *text = value ? json_dumps(value, JSON_COMPACT | JSON_ENCODE_ANY) : NULL;
    char *copy = text ? mem_copy_text(text, strlen(text)) : NULL;
    json_decref(value);
    free(text); /* jansson's own */
    if (!copy)
        return fail(error, HEARTH_NO_MEMORY, "%s: key %.64s: out of memory", model->source->path, key);
    *json = copy;
    return HEARTH_OK;
}

const char *hearth_model_chat_template(const hearth_model *model, size_t *size)
{
    span text = {NULL, 0}; /* stays empty where the key is missing or no text */
    bool found;
    (void)checkpoint_get_string(model->source, "tokenizer.chat_template", &text, &found, NULL);
    *size = text.size;
    return text.data;
}

/* ------------------------------------------------------------------ text */

hearth_status hearth_tokenize(const hearth_model *model, const char *text, size_t size, unsigned flags, int32_t **ids,
                              size_t *count, hearth_error *error)
{
    TRY(model_need_tokenizer(model, error));
    return tokenizer_encode(model->tokenizer, (span){text, size}, flags, ids, count, error);
}

hearth_status hearth_detokenizer_create(hearth_detokenizer **out, const hearth_model *model, unsigned flags,
                                        hearth_error *error)
{
    TRY(model_need_tokenizer(model, error));
    return detokenizer_create(out, model->tokenizer, flags, error);
}

void hearth_detokenizer_destroy(hearth_detokenizer *d)
{
    detokenizer_destroy(d);
}

hearth_status hearth_detokenizer_push(hearth_detokenizer *d, int32_t id, const char **text, size_t *size,
                                      hearth_error *error)
{
    span piece;
    TRY(detokenizer_push(d, id, &piece, error));
    *text = piece.data;
    *size = piece.size;
    return HEARTH_OK;
}

void hearth_detokenizer_finish(hearth_detokenizer *d, const char **text, size_t *size)
{
    span piece;
    detokenizer_finish(d, &piece);
    *text = piece.data;
    *size = piece.size;
}

const char *hearth_token_text(const hearth_model *model, int32_t id, size_t *size)
{
    span piece = model->tokenizer ? tokenizer_piece(model->tokenizer, id) : (span){NULL, 0};
    *size = piece.size;
    return piece.data;
}

unsigned hearth_token_attributes(const hearth_model *model, int32_t id)
{
    return model->tokenizer ? tokenizer_attributes(model->tokenizer, id) : 0;
}

bool hearth_token_ends_answer(const hearth_model *model, int32_t id)
{
    return model->tokenizer && tokenizer_ends_answer(model->tokenizer, id);
}
