/* text_api.c - the text functions of hearth.h: the model's tokenizer behind the public names. */
#include "../model/model.h"

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

bool hearth_token_ends_answer(const hearth_model *model, int32_t id)
{
    return model->tokenizer && tokenizer_ends_answer(model->tokenizer, id);
}
