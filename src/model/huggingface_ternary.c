/* huggingface_ternary.c - BitNet's folders, whose matrices are -s, 0 and s: read as TQ2_0, or as floats where rows are no whole
 * blocks of it.
 *
 * Two forms are published. "online": weights that are rounded whenever they are multiplied, with s the mean of their sizes;
 * here they are rounded once, to the same. "offline": four numbers of two bits in a byte, the value plus one, of rows that lie a
 * quarter of the matrix apart, and s in a tensor of its own. Source: transformers, integrations/bitnet.py; TQ2_0 holds s as a half
 * float, which is at most 2^-11 off, for all of a matrix alike. */
#include "folder_reader.h"

#include "../base/memory.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

/* s is at least this, as in transformers. */
#define LEAST_SIZE 1e-5

hearth_status folder_read_ternary(folder_reader *r, const json_t *settings)
{
    const char *method = json_string_value(json_object_get(settings, "quant_method"));
    const char *mode = json_string_value(json_object_get(settings, "quantization_mode"));
    const char *layers = json_string_value(json_object_get(settings, "linear_class"));
    bool multiplies = layers && strcmp(layers, "autobitlinear") == 0;
    bool online = multiplies && mode && strcmp(mode, "online") == 0;
    if (!r->family->ternary || !method || strcmp(method, "bitnet") != 0)
        return fail(r->error, HEARTH_UNSUPPORTED,
                    "%s: quantization_config: %.64s is not read: use the original or a GGUF (known: awq, bitnet, fp8, "
                    "gptq, modelopt, mxfp4, float-, int-, pack-, mxfp4-pack- and nvfp4-pack-quantized of "
                    "compressed-tensors)",
                    r->name, method ? method : "a folder without quant_method");
    if (json_is_true(json_object_get(settings, "use_rms_norm")) ||
        json_array_size(json_object_get(settings, "modules_to_not_convert")) > 0)
        return fail(r->error, HEARTH_UNSUPPORTED,
                    "%s: quantization_config: use_rms_norm and modules_to_not_convert are not supported", r->name);
    r->ternary = online ? TERNARY_ONLINE : multiplies ? TERNARY_MULTIPLIED : TERNARY_DIVIDED;
    return HEARTH_OK;
}

bool folder_is_ternary_scale(const folder_reader *r, const char *name)
{
    static const char ending[] = "_proj.weight_scale";
    size_t size = strlen(name);
    return r->ternary > TERNARY_ONLINE && size > sizeof ending &&
           strcmp(name + size - (sizeof ending - 1), ending) == 0;
}

/* A matrix on its way. */
typedef struct ternary_matrix {
    folder_reader *r;
    const stored_tensor *from;
    size_t rows, columns;
    float size; /* s */
    float *row; /* [columns] */
} ternary_matrix;

static hearth_status refuse(const ternary_matrix *m, const char *why)
{
    return fail(m->r->error, HEARTH_FORMAT, "%s: tensor %.128s: %s", m->r->out->path, m->from->name, why);
}

/* Decodes row `i` of floats into m->row. */
static void decode_row(const ternary_matrix *m, size_t i)
{
    const stored_tensor *t = m->from;
    size_t row_bytes = t->size_bytes / m->rows;
    number_formats[t->format].decode((const char *)t->data + i * row_bytes, m->row, m->columns);
}

/* Finds s of weights that are yet to be rounded. */
static hearth_status measure(ternary_matrix *m)
{
    double sum = 0;
    for (size_t i = 0; i < m->rows; i++) {
        double of_row = 0;
        decode_row(m, i);
        for (size_t k = 0; k < m->columns; k++)
            of_row += fabs((double)m->row[k]);
        sum += of_row;
    }
    double mean = sum / ((double)m->rows * (double)m->columns);
    m->size = (float)(mean < LEAST_SIZE ? LEAST_SIZE : mean); /* NaN stays what it is */
    return isfinite(m->size) ? HEARTH_OK : refuse(m, "has values that are not finite");
}

/* Reads s of packed weights. */
static hearth_status find_size(ternary_matrix *m)
{
    char name[TENSOR_NAME_SIZE + 16];
    snprintf(name, sizeof name, "%s_scale", m->from->name);
    const stored_tensor *t = checkpoint_find_tensor(m->r->folder, name);
    if (!t || t->foreign || t->rank != 1 || t->shape[0] != 1 || number_is_block(t->format))
        return refuse(m, "has no weight_scale of one number");
    number_formats[t->format].decode(t->data, &m->size, 1);
    m->size = m->r->ternary == TERNARY_DIVIDED ? 1 / m->size : m->size;
    return isfinite(m->size) && m->size > 0 ? HEARTH_OK : refuse(m, "its weight_scale is not a positive number");
}

/* Writes row i, of values -s, 0 and s, to m->row. */
static hearth_status round_row(ternary_matrix *m, size_t i)
{
    const float scale = 1 / m->size;
    decode_row(m, i);
    for (size_t k = 0; k < m->columns; k++)
        m->row[k] = fminf(fmaxf(nearbyintf(m->row[k] * scale), -1), 1) * m->size;
    return HEARTH_OK;
}

static hearth_status unpack_row(ternary_matrix *m, size_t i)
{
    size_t quarter = m->rows / 4;
    const uint8_t *packed = (const uint8_t *)m->from->data + i % quarter * m->columns;
    unsigned shift = (unsigned)(i / quarter) * 2, largest = 0;
    for (size_t k = 0; k < m->columns; k++) {
        unsigned number = packed[k] >> shift & 3;
        largest = number > largest ? number : largest;
        m->row[k] = (float)((int)number - 1) * m->size;
    }
    return largest < 3 ? HEARTH_OK : refuse(m, "holds a number that is none of -1, 0 and 1");
}

/* Writes all rows. */
static hearth_status convert(ternary_matrix *m, stored_tensor *to)
{
    bool packed = m->r->ternary != TERNARY_ONLINE;
    number_format format = m->columns % number_formats[FORMAT_TQ2_0].block_values == 0 ? FORMAT_TQ2_0 : FORMAT_F32;
    size_t row_bytes;
    if (!number_row_bytes(format, m->columns, &row_bytes))
        return refuse(m, "its rows are too long");
    char *rows = arena_new_array(&m->r->out->memory, m->rows, row_bytes);
    if (!rows)
        return fail_memory(m->r->error, m->from->name, m->rows * row_bytes);
    TRY(packed ? find_size(m) : measure(m));
    for (size_t i = 0; i < m->rows; i++) {
        TRY(packed ? unpack_row(m, i) : round_row(m, i));
        number_formats[format].encode(m->row, NULL, rows + i * row_bytes, m->columns);
    }
    to->data = rows;
    to->format = format;
    to->foreign = NULL;
    to->rank = 2;
    to->shape[0] = m->columns;
    to->shape[1] = m->rows;
    to->size_bytes = m->rows * row_bytes;
    return HEARTH_OK;
}

hearth_status folder_make_ternary(folder_reader *r, const stored_tensor *stored, stored_tensor *to)
{
    bool packed = r->ternary != TERNARY_ONLINE;
    ternary_matrix m = {.r = r, .from = stored, .columns = (size_t)stored->shape[0]};
    if (stored->rank != 2 || (packed ? !stored->foreign || strcmp(stored->foreign, DTYPE_BYTE) != 0
                                     : stored->foreign || number_is_block(stored->format)))
        return refuse(&m, packed ? "is not packed: a matrix of type U8 is expected" : "is not a matrix of floats");
    m.rows = (size_t)stored->shape[1] * (packed ? 4 : 1);
    m.row = mem_new_array(m.columns, sizeof *m.row);
    if (!m.row)
        return fail_memory(r->error, stored->name, m.columns * sizeof *m.row);
    hearth_status status = convert(&m, to);
    mem_free(m.row);
    return status;
}
