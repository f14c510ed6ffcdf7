/* huggingface_scaled.c - folders whose matrices are floats of 8 bits or blocks of 4 bits with their scales in tensors beside them:
 * DeepSeek V3 and others in "fp8", models that compressed-tensors has rounded to 8-bit floats, gpt-oss in "mxfp4", and DeepSeek V4,
 * whose experts are blocks of 4 bits and whose other matrices are floats of 8 bits, with powers of two as scales of both.
 *
 * Most of their rows are made when they are read (file/scaled.h). A matrix of which more is changed than the order of its rows is
 * made at once. Scales of activations are not used: hearth does not round these to 8-bit floats. */
#include "folder_reader.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

/* The dtypes of safetensors that are read here. */
#define F8          "F8_E4M3"
#define BYTE        "U8"
#define SIGNED_BYTE "I8"
#define POWER       "F8_E8M0" /* of two: a byte, the exponent plus 127; 255: NaN */

/* How gpt-oss calls the two parts of an expert's matrix. */
static const char blocks_ending[] = "_blocks", scales_ending[] = "_scales";

/* Endings of a matrix, and of its scales, where those replace it. */
static const char weight_ending[] = ".weight", scale_ending[] = ".scale";

/* Reads how many rows and columns share a scale: a list of both; without one, scales are of whole matrices or rows. */
static hearth_status read_blocks(folder_reader *r, const json_t *settings)
{
    const json_t *list = json_object_get(settings, "weight_block_size");
    if (!list || json_is_null(list))
        return HEARTH_OK;
    for (size_t i = 0; i < 2; i++) {
        json_int_t size = json_integer_value(json_array_get(list, i));
        if (json_array_size(list) != 2 || size < 1 || size > UINT32_MAX)
            return fail(r->error, HEARTH_FORMAT, "%s: quantization_config: weight_block_size: is not two sizes",
                        r->name);
        r->scale_block[i] = (uint32_t)size;
    }
    return HEARTH_OK;
}

hearth_status folder_read_quantization(folder_reader *r, const json_t *settings)
{
    const char *method = json_string_value(json_object_get(settings, "quant_method"));
    const char *format = json_string_value(json_object_get(settings, "format"));
    if (method && (strcmp(method, "fp8") == 0 ||
                   (strcmp(method, "compressed-tensors") == 0 && format && strcmp(format, "float-quantized") == 0))) {
        r->scaled = FOLDER_F8;
        return read_blocks(r, settings);
    }
    if (method && strcmp(method, "mxfp4") == 0) {
        r->scaled = FOLDER_MXFP4;
        return HEARTH_OK;
    }
    bool packed;
    TRY(folder_read_packed(r, settings, &packed));
    return packed ? HEARTH_OK : folder_read_ternary(r, settings);
}

const stored_tensor *folder_find_other(const folder_reader *r, const char *name, const char *ending, const char *other)
{
    char wanted[2 * TENSOR_NAME_SIZE];
    size_t size = strlen(name) - strlen(ending);
    if (!text_ends_with(name, ending) || size + strlen(other) >= sizeof wanted)
        return NULL;
    snprintf(wanted, sizeof wanted, "%.*s%s", (int)size, name, other);
    return checkpoint_find_tensor(r->folder, wanted);
}

bool folder_is_of(const stored_tensor *t, const char *dtype)
{
    return t && t->foreign && strcmp(t->foreign, dtype) == 0;
}

bool folder_is_scale(const folder_reader *r, const char *name)
{
    static const char *const endings[] = {".weight_scale_inv", ".weight_scale", ".activation_scale",
                                          ".input_scale",      ".k_scale",      ".v_scale"};
    if (r->scaled == FOLDER_PACKED)
        return folder_is_of_packed(r, name);
    for (size_t i = 0; r->scaled == FOLDER_F8 && i < sizeof endings / sizeof *endings; i++)
        if (text_ends_with(name, endings[i]))
            return true;
    if (r->scaled == FOLDER_F8 && folder_is_of(checkpoint_find_tensor(r->folder, name), POWER))
        return folder_find_other(r, name, scale_ending, weight_ending) != NULL;
    return r->scaled == FOLDER_MXFP4 && text_ends_with(name, scales_ending);
}

void folder_plain_name(const folder_reader *r, const char *name, char out[2 * TENSOR_NAME_SIZE])
{
    size_t size = strlen(name), packed = r->scaled == FOLDER_PACKED ? folder_packed_ending(r, name) : 0;
    if (r->scaled == FOLDER_MXFP4 && text_ends_with(name, blocks_ending))
        size -= sizeof blocks_ending - 1;
    snprintf(out, 2 * TENSOR_NAME_SIZE, "%.*s%s", (int)(size - packed), name, packed > 0 ? weight_ending : "");
}

static hearth_status refuse(const folder_reader *r, const stored_tensor *t, const char *why)
{
    return fail(r->error, HEARTH_FORMAT, "%s: tensor %.128s: %s", r->out->path, t->name, why);
}

/* Makes the description of a tensor's rows, with room for the scales of so many matrices. */
static hearth_status new_rows(folder_reader *r, const stored_tensor *t, uint64_t matrices, scaled_rows **out)
{
    scaled_rows *rows = arena_new_array(&r->out->memory, 1, sizeof *rows);
    const void **scales = arena_new_array(&r->out->memory, (size_t)matrices, sizeof *scales);
    if (!rows || !scales)
        return fail_memory(r->error, t->name, (size_t)matrices * sizeof *scales);
    *rows = (scaled_rows){.scales = scales, .stored_rows = t->shape[1], .step = 1};
    *out = rows;
    return HEARTH_OK;
}

/* Returns n / each, rounded up. */
static uint64_t parts_of(uint64_t n, uint64_t each)
{
    return n / each + (n % each != 0);
}

/* Finds out what shares a scale, by the shape of the scales [columns][rows][matrices]: a block, a whole matrix, or a row. A narrow
 * matrix may have as many blocks as rows. */
static bool fit_blocks(const folder_reader *r, const stored_tensor *t, const stored_tensor *scales, scaled_rows *rows)
{
    uint64_t matrices = t->shape[2], all = scales->shape[0] * scales->shape[1] * scales->shape[2] * scales->shape[3];
    rows->block_rows = r->scale_block[0];
    rows->block_columns = r->scale_block[1];
    if (r->scale_block[0] > 0 && scales->shape[0] == parts_of(t->shape[0], rows->block_columns) &&
        scales->shape[1] == parts_of(t->shape[1], rows->block_rows) && scales->shape[2] == matrices)
        return true;
    rows->block_columns = t->shape[0];
    rows->block_rows = all == matrices ? t->shape[1] : 1;
    return all == matrices || all == matrices * t->shape[1];
}

hearth_status folder_make_rows(folder_reader *r, stored_tensor *t)
{
    if (!t->scaled)
        return HEARTH_OK;
    size_t rows = (size_t)stored_tensor_rows(t), row_bytes = t->size_bytes / rows;
    char *values = arena_new_array(&r->out->memory, rows, row_bytes);
    if (!values)
        return fail_memory(r->error, t->name, t->size_bytes);
    for (size_t i = 0; i < rows; i++)
        stored_tensor_read(t, i, row_bytes, values + i * row_bytes);
    t->data = values;
    t->scaled = NULL;
    return HEARTH_OK;
}

/* What changes more of a tensor than the order of its rows. */
#define CHANGES                                                                                         \
    (TENSOR_HEADS | TENSOR_BY_KEYS | TENSOR_TRANSPOSED | TENSOR_EVEN | TENSOR_ODD | TENSOR_FIRST_HALF | \
     TENSOR_SECOND_HALF | TENSOR_VALUE_ROWS | TENSOR_VALUE_COLUMNS | TENSOR_FLAT | TENSOR_LESS_ONE |    \
     TENSOR_NEGATED_EXPONENT)

/* Replaces scales that are powers of two by float32. */
static hearth_status read_powers(folder_reader *r, stored_tensor *scales)
{
    size_t count = scales->size_bytes;
    float *values = arena_new_array(&r->out->memory, count, sizeof *values);
    if (!values)
        return fail_memory(r->error, scales->name, count * sizeof *values);
    for (size_t i = 0; i < count; i++) {
        uint8_t code = ((const uint8_t *)scales->data)[i];
        values[i] = code == UINT8_MAX ? NAN : ldexpf(1, code - 127);
    }
    scales->data = values;
    scales->format = FORMAT_F32;
    scales->foreign = NULL;
    scales->size_bytes = count * sizeof *values;
    return HEARTH_OK;
}

static hearth_status take_f8(folder_reader *r, const tensor_rule *rule, const stored_tensor *stored, stored_tensor *t)
{
    char inverse[2 * TENSOR_NAME_SIZE], plain[2 * TENSOR_NAME_SIZE];
    snprintf(inverse, sizeof inverse, "%.*s_scale_inv", 2 * TENSOR_NAME_SIZE - 16, stored->name);
    snprintf(plain, sizeof plain, "%.*s_scale", 2 * TENSOR_NAME_SIZE - 16, stored->name);
    const stored_tensor *scales = checkpoint_find_tensor(r->folder, inverse);
    scales = scales ? scales : checkpoint_find_tensor(r->folder, plain);
    scales = scales ? scales : folder_find_other(r, stored->name, weight_ending, scale_ending);
    stored_tensor powers;
    if (folder_is_of(scales, POWER)) {
        powers = *scales;
        TRY(read_powers(r, &powers));
        scales = &powers;
    }
    if (!scales || scales->foreign || number_is_block(scales->format))
        return refuse(r, stored, "has no weight_scale_inv, weight_scale or scale of floats");
    if (t->rank < 2 || t->rank > 3)
        return refuse(r, stored, "is of 8-bit floats and no matrix");
    scaled_rows *rows = NULL;
    TRY(new_rows(r, stored, t->shape[2], &rows));
    rows->kind = SCALED_F8;
    rows->scale_format = scales->format;
    if (!fit_blocks(r, t, scales, rows))
        return refuse(r, stored, "has scales that do not fit its shape and weight_block_size");
    size_t each = scales->size_bytes / (size_t)t->shape[2];
    for (uint64_t i = 0; i < t->shape[2]; i++)
        rows->scales[i] = (const char *)scales->data + i * each;
    if (!size_multiply(t->size_bytes, sizeof(float), &t->size_bytes))
        return refuse(r, stored, "is too large");
    t->format = FORMAT_F32;
    t->foreign = NULL;
    t->scaled = rows;
    return rule->flags & CHANGES ? folder_make_rows(r, t) : HEARTH_OK;
}

/* gpt-oss: blocks [experts][rows][blocks of a row][16 bytes], with a byte as the scale of each block. */
static hearth_status take_mxfp4(folder_reader *r, const tensor_rule *rule, const stored_tensor *stored,
                                stored_tensor *t)
{
    char name[2 * TENSOR_NAME_SIZE], plain[2 * TENSOR_NAME_SIZE];
    folder_plain_name(r, stored->name, plain);
    snprintf(name, sizeof name, "%.*s%s", 2 * TENSOR_NAME_SIZE - 16, plain, scales_ending);
    const stored_tensor *scales = checkpoint_find_tensor(r->folder, name);
    uint64_t halves = rule->flags & (TENSOR_EVEN | TENSOR_ODD) ? 2 : 1;
    if (t->rank != 4 || t->shape[0] != 16 || t->shape[2] % halves != 0)
        return refuse(r, stored, "is not of blocks of 16 bytes, by experts and rows");
    if (!folder_is_of(scales, BYTE) || scales->shape[0] != t->shape[1] || scales->shape[1] != t->shape[2] ||
        scales->shape[2] != t->shape[3] || scales->shape[3] != 1)
        return refuse(r, stored, "has no scales of one byte for each block");
    uint64_t blocks = t->shape[1], stored_rows = t->shape[2], experts = t->shape[3];
    *t =
        (stored_tensor){.name = t->name,
                        .format = FORMAT_MXFP4,
                        .rank = 3,
                        .shape = {blocks * number_formats[FORMAT_MXFP4].block_values, stored_rows / halves, experts, 1},
                        .data = t->data,
                        .size_bytes = t->size_bytes / 16 / (size_t)halves * number_formats[FORMAT_MXFP4].block_bytes};
    scaled_rows *rows = NULL;
    TRY(new_rows(r, stored, experts, &rows));
    rows->kind = SCALED_MXFP4;
    rows->stored_rows = stored_rows;
    rows->step = halves;
    rows->first = rule->flags & TENSOR_ODD ? 1 : 0;
    for (uint64_t i = 0; i < experts; i++)
        rows->scales[i] = (const char *)scales->data + i * stored_rows * blocks;
    t->scaled = rows;
    return HEARTH_OK;
}

/* DeepSeek V4: of an expert's matrix rows of 4-bit numbers, two in a byte, of which each 32 share a scale. */
static hearth_status take_fp4(folder_reader *r, const stored_tensor *stored, stored_tensor *t)
{
    const stored_tensor *scales = folder_find_other(r, stored->name, weight_ending, scale_ending);
    const number_traits *mxfp4 = &number_formats[FORMAT_MXFP4];
    if (t->rank != 2 || t->shape[0] % 16 != 0)
        return refuse(r, stored, "is not of rows of blocks of 16 bytes");
    uint64_t blocks = t->shape[0] / 16, count = t->shape[1];
    if (!folder_is_of(scales, POWER) || scales->shape[0] != blocks || scales->shape[1] != count ||
        scales->shape[2] != 1)
        return refuse(r, stored, "has no scale of one byte for each 16");
    scaled_rows *rows = NULL;
    TRY(new_rows(r, stored, 1, &rows));
    rows->kind = SCALED_MXFP4;
    rows->scales[0] = scales->data;
    t->format = FORMAT_MXFP4;
    t->foreign = NULL;
    t->shape[0] = blocks * mxfp4->block_values;
    t->size_bytes = (size_t)(blocks * count) * mxfp4->block_bytes;
    t->scaled = rows;
    return HEARTH_OK;
}

bool folder_has_scales(const folder_reader *r, const tensor_rule *rule, const stored_tensor *stored)
{
    bool experts = rule->flags & TENSOR_EXPERTS;
    if (r->scaled == FOLDER_PACKED)
        return folder_is_packed(r, stored);
    if (r->scaled == FOLDER_F8)
        return folder_is_of(stored, F8) ||
               (experts && (folder_is_of(stored, SIGNED_BYTE) || folder_is_of(stored, BYTE)));
    return r->scaled == FOLDER_MXFP4 && experts && text_ends_with(stored->name, blocks_ending) &&
           folder_is_of(stored, BYTE);
}

hearth_status folder_take_scaled(folder_reader *r, const tensor_rule *rule, const stored_tensor *stored,
                                 stored_tensor *t)
{
    if (r->scaled == FOLDER_PACKED) {
        TRY(folder_take_packed(r, stored, rule->flags & CHANGES, t));
        return rule->flags & CHANGES ? folder_make_rows(r, t) : HEARTH_OK;
    }
    if (r->scaled == FOLDER_F8)
        return folder_is_of(stored, F8) ? take_f8(r, rule, stored, t) : take_fp4(r, stored, t);
    return take_mxfp4(r, rule, stored, t);
}
