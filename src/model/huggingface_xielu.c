/* huggingface_xielu.c - Apertus' activation: a folder has its four numbers as tensors of each layer, GGUF as keys. */
#include "folder_reader.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#define TERM "model.layers.%" PRIu32 ".mlp.act_fn.%s"

static const char *const terms[XIELU_TERMS] = XIELU_NAMES;

bool folder_leaves_to_xielu(const folder_reader *r, const char *name)
{
    uint32_t layer;
    char term[16], again[TENSOR_NAME_SIZE];
    if (r->family->activation != FFN_XIELU ||
        sscanf(name, "model.layers.%" SCNu32 ".mlp.act_fn.%15s", &layer, term) != 2)
        return false;
    snprintf(again, sizeof again, TERM, layer, term);
    for (size_t i = 0; i < XIELU_TERMS; i++)
        if (strcmp(term, terms[i]) == 0)
            return strcmp(again, name) == 0;
    return false;
}

hearth_status folder_add_xielu(folder_reader *r)
{
    uint32_t layers = r->hyper.layer_count;
    if (r->family->activation != FFN_XIELU)
        return HEARTH_OK;
    float *values = mem_new_array(layers, sizeof *values);
    hearth_status status = values ? HEARTH_OK : fail_memory(r->error, "xielu", layers * sizeof *values);
    for (size_t i = 0; i < XIELU_TERMS && status == HEARTH_OK; i++) {
        char name[TENSOR_NAME_SIZE], key[KEY_SIZE];
        for (uint32_t layer = 0; layer < layers && status == HEARTH_OK; layer++) {
            snprintf(name, sizeof name, TERM, layer, terms[i]);
            const stored_tensor *t = checkpoint_find_tensor(r->folder, name);
            if (!t || t->foreign || number_is_block(t->format) || t->shape[0] * stored_tensor_rows(t) != 1)
                status = fail(r->error, HEARTH_FORMAT, "%s: tensor %s: is %s", r->out->path, name,
                              t ? "not one float" : "missing");
            else
                number_formats[t->format].decode(t->data, &values[layer], 1);
        }
        snprintf(key, sizeof key, XIELU_KEY, terms[i]);
        if (status == HEARTH_OK)
            status = checkpoint_set_numbers(r->out, key, VALUE_F32, values, layers, r->error);
    }
    mem_free(values);
    return status;
}
