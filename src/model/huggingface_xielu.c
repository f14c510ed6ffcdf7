/* huggingface_xielu.c - Apertus' activation: a folder has its four numbers as tensors of each layer, GGUF as keys. */
#include "folder_reader.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

static const char *const terms[XIELU_TERMS] = XIELU_NAMES;

/* What stands before the number of a layer, of a model of text and of the text's part of a larger one. */
static const char *const before[] = {"model.layers.", "model.language_model.layers."};
enum { BEFORE = sizeof before / sizeof *before };

/* Writes the name of a number of a layer. */
static void write_name(char out[TENSOR_NAME_SIZE], size_t prefix, uint32_t layer, const char *term)
{
    snprintf(out, TENSOR_NAME_SIZE, "%s%" PRIu32 ".mlp.act_fn.%s", before[prefix], layer, term);
}

bool folder_leaves_to_xielu(const folder_reader *r, const char *name)
{
    for (size_t p = 0; r->family->activation == FFN_XIELU && p < BEFORE; p++) {
        size_t length = strlen(before[p]);
        uint32_t layer;
        char term[16], again[TENSOR_NAME_SIZE];
        if (strncmp(name, before[p], length) != 0 ||
            sscanf(name + length, "%" SCNu32 ".mlp.act_fn.%15s", &layer, term) != 2)
            continue;
        write_name(again, p, layer, term);
        for (size_t i = 0; i < XIELU_TERMS; i++)
            if (strcmp(term, terms[i]) == 0)
                return strcmp(again, name) == 0;
    }
    return false;
}

/* Reads a number of a layer. */
static hearth_status read_term(const folder_reader *r, uint32_t layer, const char *term, float *out)
{
    char name[TENSOR_NAME_SIZE];
    const stored_tensor *t = NULL;
    for (size_t p = BEFORE; p-- > 0 && !t;) { /* an error has the plain name */
        write_name(name, p, layer, term);
        t = checkpoint_find_tensor(r->folder, name);
    }
    if (!t || t->foreign || number_is_block(t->format) || t->shape[0] * stored_tensor_rows(t) != 1)
        return fail(r->error, HEARTH_FORMAT, "%s: tensor %s: is %s", r->out->path, name,
                    t ? "not one float" : "missing");
    number_formats[t->format].decode(t->data, out, 1);
    return HEARTH_OK;
}

hearth_status folder_add_xielu(folder_reader *r)
{
    uint32_t layers = r->hyper.layer_count;
    if (r->family->activation != FFN_XIELU)
        return HEARTH_OK;
    float *values = mem_new_array(layers, sizeof *values);
    hearth_status status = values ? HEARTH_OK : fail_memory(r->error, "xielu", layers * sizeof *values);
    for (size_t i = 0; i < XIELU_TERMS && status == HEARTH_OK; i++) {
        char key[KEY_SIZE];
        for (uint32_t layer = 0; layer < layers && status == HEARTH_OK; layer++)
            status = read_term(r, layer, terms[i], &values[layer]);
        snprintf(key, sizeof key, XIELU_KEY, terms[i]);
        if (status == HEARTH_OK)
            status = checkpoint_set_numbers(r->out, key, VALUE_F32, values, layers, r->error);
    }
    mem_free(values);
    return status;
}
