/* huggingface_float4.c - matrices of a folder that are floats of 4 bits, two in a byte, with their scales in tensors beside them:
 * of gpt-oss, DeepSeek V4, compressed-tensors and NVIDIA's ModelOpt. Those whose scales are powers of two become MXFP4, in which
 * nothing changes. Those of NVFP4 have a factor of the whole matrix, for which GGUF has no place in a block: they become float32.
 *
 * Sources: OCP Microscaling Formats 1.0; ModelOpt's torch/quantization/qtensor/nvfp4_tensor.py; compressed-tensors'
 * compressors/nvfp4. */
#include "folder_reader.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

#define MXFP4_BYTES 16 /* of the numbers of a block */
#define NVFP4_BYTES 8

/* How matrices are stored: the ending of the numbers, that of their scales and its dtype, and that of a factor. */
typedef struct float4_form {
    const char *numbers, *scales, *dtype;
    const char *factor; /* NULL: MXFP4, which has none */
    bool divides;       /* by it */
} float4_form;

static const float4_form forms[] = {
    {".weight", ".scale", DTYPE_POWER, NULL, false}, /* DeepSeek V4 */
    {PACKED_WEIGHT, ".weight_scale", DTYPE_BYTE, NULL, false},
    {".weight", ".weight_scale", DTYPE_F8, ".weight_scale_2", false}, /* ModelOpt */
    {PACKED_WEIGHT, ".weight_scale", DTYPE_F8, ".weight_global_scale", true},
};

/* Returns in which form a tensor is the numbers of a matrix, and their scales; NULL: it is not. */
static const float4_form *find_form(const folder_reader *r, const stored_tensor *stored, const stored_tensor **scales)
{
    for (size_t i = 0; i < sizeof forms / sizeof *forms; i++) {
        *scales = folder_find_other(r, stored->name, forms[i].numbers, forms[i].scales);
        if (folder_is_of(*scales, forms[i].dtype))
            return &forms[i];
    }
    return NULL;
}

bool folder_is_float4(const folder_reader *r, const tensor_rule *rule, const stored_tensor *stored)
{
    bool bytes = folder_is_of(stored, DTYPE_BYTE);
    if (r->scaled == FOLDER_MXFP4)
        return bytes && (rule->flags & TENSOR_EXPERTS) && text_ends_with(stored->name, FLOAT4_BLOCKS);
    return r->scaled == FOLDER_FLOATS && (bytes || folder_is_of(stored, DTYPE_SIGNED_BYTE));
}

/* gpt-oss: blocks [experts][rows][blocks of a row][16 bytes], with a byte as the scale of each block. */
static hearth_status take_stacked(folder_reader *r, const tensor_rule *rule, const stored_tensor *stored,
                                  stored_tensor *t)
{
    char name[2 * TENSOR_NAME_SIZE], plain[2 * TENSOR_NAME_SIZE];
    folder_plain_name(r, stored->name, plain);
    snprintf(name, sizeof name, "%.*s%s", 2 * TENSOR_NAME_SIZE - 16, plain, FLOAT4_SCALES);
    const stored_tensor *scales = checkpoint_find_tensor(r->folder, name);
    const number_traits *made = &number_formats[FORMAT_MXFP4];
    uint64_t halves = rule->flags & (TENSOR_EVEN | TENSOR_ODD) ? 2 : 1;
    if (t->rank != 4 || t->shape[0] != MXFP4_BYTES || t->shape[2] % halves != 0)
        return folder_refuse_tensor(r, stored, "is not of blocks of 16 bytes, by experts and rows");
    if (!folder_is_of(scales, DTYPE_BYTE) || scales->shape[0] != t->shape[1] || scales->shape[1] != t->shape[2] ||
        scales->shape[2] != t->shape[3] || scales->shape[3] != 1)
        return folder_refuse_tensor(r, stored, "has no scales of one byte for each block");
    uint64_t blocks = t->shape[1], stored_rows = t->shape[2], experts = t->shape[3];
    *t = (stored_tensor){.name = t->name,
                         .format = FORMAT_MXFP4,
                         .rank = 3,
                         .shape = {blocks * made->block_values, stored_rows / halves, experts, 1},
                         .data = t->data,
                         .size_bytes = t->size_bytes / MXFP4_BYTES / (size_t)halves * made->block_bytes};
    scaled_rows *rows = NULL;
    TRY(folder_new_rows(r, stored, experts, &rows));
    rows->kind = SCALED_MXFP4;
    rows->stored_rows = stored_rows;
    rows->step = halves;
    rows->first = rule->flags & TENSOR_ODD ? 1 : 0;
    for (uint64_t i = 0; i < experts; i++)
        rows->scales[i] = (const char *)scales->data + i * stored_rows * blocks;
    t->scaled = rows;
    return HEARTH_OK;
}

/* Gives a matrix its scales and the factor. */
static hearth_status add_factor(folder_reader *r, const float4_form *form, const stored_tensor *stored,
                                const stored_tensor *scales, scaled_rows *rows)
{
    const stored_tensor *factor = folder_find_other(r, stored->name, form->numbers, form->factor);
    factored_matrix *m = arena_new_array(&r->out->memory, 1, sizeof *m);
    float value;
    if (!m)
        return fail_memory(r->error, stored->name, sizeof *m);
    if (!factor || factor->foreign || factor->format != FORMAT_F32 || factor->size_bytes != sizeof value)
        return folder_refuse_tensor(r, stored, "has no factor, one number of float32, beside it");
    memcpy(&value, factor->data, sizeof value);
    *m = (factored_matrix){scales->data, form->divides ? 1 / (double)value : (double)value};
    if (!isfinite(m->factor))
        return folder_refuse_tensor(r, stored, "has a factor that is not finite");
    rows->kind = SCALED_NVFP4;
    rows->scales[0] = m;
    return HEARTH_OK;
}

/* A matrix of rows of numbers, of which 32 or 16 share a scale. */
static hearth_status take_matrix(folder_reader *r, const tensor_rule *rule, const stored_tensor *stored,
                                 stored_tensor *t)
{
    const stored_tensor *scales;
    const float4_form *form = find_form(r, stored, &scales);
    if (!form)
        return folder_refuse_tensor(r, stored, "is of bytes, and has no scales of a known type beside it");
    uint64_t bytes = form->factor ? NVFP4_BYTES : MXFP4_BYTES, blocks = t->shape[0] / bytes, count = t->shape[1];
    if (t->rank != 2 || t->shape[0] % bytes != 0)
        return folder_refuse_tensor(
            r, stored, form->factor ? "is not of rows of blocks of 8 bytes" : "is not of rows of blocks of 16 bytes");
    if (scales->rank != 2 || scales->shape[0] != blocks || scales->shape[1] != count)
        return folder_refuse_tensor(
            r, stored, form->factor ? "has no scale of one byte for each 8" : "has no scale of one byte for each 16");
    if (!form->factor && (rule->flags & FOLDER_CHANGES))
        return folder_refuse_tensor(r, stored,
                                    "is of MXFP4, and more of it would have to change than the order of its rows");
    scaled_rows *rows = NULL;
    TRY(folder_new_rows(r, stored, 1, &rows));
    rows->kind = SCALED_MXFP4;
    rows->scales[0] = scales->data;
    if (form->factor)
        TRY(add_factor(r, form, stored, scales, rows));
    t->format = form->factor ? FORMAT_F32 : FORMAT_MXFP4;
    t->foreign = NULL;
    t->shape[0] = blocks * bytes * 2;
    t->scaled = rows;
    size_t row_bytes;
    return number_row_bytes(t->format, t->shape[0], &row_bytes) &&
                   size_multiply(row_bytes, (size_t)count, &t->size_bytes)
               ? HEARTH_OK
               : folder_refuse_tensor(r, stored, "is too large");
}

hearth_status folder_take_float4(folder_reader *r, const tensor_rule *rule, const stored_tensor *stored,
                                 stored_tensor *t)
{
    return r->scaled == FOLDER_MXFP4 ? take_stacked(r, rule, stored, t) : take_matrix(r, rule, stored, t);
}
