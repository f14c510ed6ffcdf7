/* huggingface_scaled.c - folders whose matrices are floats of 8 or 4 bits with their scales in tensors beside them: DeepSeek V3 and
 * others in "fp8", what compressed-tensors and NVIDIA's ModelOpt have rounded to floats, gpt-oss in "mxfp4", and DeepSeek V4. Those of
 * 4 bits, which may lie among others, are read in huggingface_float4.c.
 *
 * Most of their rows are made when they are read (file/scaled.h). A matrix of which more is changed than the order of its rows is
 * made at once. Scales of activations are not used: hearth does not round these to 8-bit floats. */
#include "folder_reader.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

/* Endings of a matrix, and of its scales, where those replace it. */
static const char weight_ending[] = ".weight", scale_ending[] = ".scale";

/* Returns the sizes that compressed-tensors gives blocks of a group; NULL: none. */
static const json_t *block_structure(const json_t *settings)
{
    json_t *groups = json_object_get(settings, "config_groups");
    const json_t *found = NULL;
    for (void *at = json_object_iter(groups); at && !found; at = json_object_iter_next(groups, at)) {
        found = json_object_get(json_object_get(json_object_iter_value(at), "weights"), "block_structure");
        found = json_is_array(found) ? found : NULL;
    }
    return found;
}

/* Reads how many rows and columns share a scale: a list of both; without one, scales are of whole matrices or rows. */
static hearth_status read_blocks(folder_reader *r, const json_t *settings)
{
    const json_t *list = json_object_get(settings, "weight_block_size");
    if (!list || json_is_null(list))
        list = block_structure(settings);
    for (size_t i = 0; list && i < 2; i++) {
        json_int_t size = json_integer_value(json_array_get(list, i));
        if (json_array_size(list) != 2 || size < 1 || size > UINT32_MAX)
            return fail(r->error, HEARTH_FORMAT, "%s: quantization_config: weight_block_size: is not two sizes",
                        r->name);
        r->scale_block[i] = (uint32_t)size;
    }
    return HEARTH_OK;
}

/* Who else rounds to floats: the keys that say how, of a whole model and of its parts, which are objects by name; the word for a
 * model whose parts differ; and what is known. */
static const struct float_maker {
    const char *method, *key, *mixed, *parts;
    const char *known[6]; /* ends with NULL */
    bool only_floats;     /* nothing else of it is read, and what it does not say tensors do */
} makers[] = {
    {"modelopt",
     "quant_algo",
     "MIXED_PRECISION",
     "quantized_layers",
     {"FP8", "FP8_PER_CHANNEL_PER_TOKEN", "NVFP4", "W4A16_NVFP4", "W4A8_NVFP4_FP8"},
     true},
    {"compressed-tensors",
     "format",
     "mixed-precision",
     "config_groups",
     {"float-quantized", "nvfp4-pack-quantized", "mxfp4-pack-quantized"},
     false},
};

/* Returns whether what a model, or a part of one, says of itself is known. */
static bool says_known(const struct float_maker *m, const json_t *settings)
{
    const char *said = json_string_value(json_object_get(settings, m->key));
    for (size_t i = 0; said && m->known[i]; i++)
        if (strcmp(said, m->known[i]) == 0)
            return true;
    return !said && m->only_floats;
}

/* Returns whether all of a model has been rounded to floats, the same or others in each part. */
static bool is_all_floats(const struct float_maker *m, const json_t *settings)
{
    const char *said = json_string_value(json_object_get(settings, m->key));
    json_t *parts = json_object_get(settings, m->parts);
    if (!said || strcmp(said, m->mixed) != 0)
        return says_known(m, settings);
    for (void *at = json_object_iter(parts); at; at = json_object_iter_next(parts, at))
        if (!says_known(m, json_object_iter_value(at)))
            return false;
    return json_object_size(parts) > 0 || m->only_floats;
}

/* Finds out whether the matrices of a folder have been rounded to floats by one of these. */
static hearth_status read_makers(folder_reader *r, const char *method, const json_t *settings, bool *found)
{
    *found = false;
    for (const struct float_maker *m = makers; method && m < makers + sizeof makers / sizeof *makers; m++) {
        const char *said = json_string_value(json_object_get(settings, m->key));
        if (strcmp(method, m->method) != 0)
            continue;
        *found = is_all_floats(m, settings);
        if (!*found && m->only_floats)
            return fail(r->error, HEARTH_UNSUPPORTED,
                        "%s: quantization_config: %s: %.64s is not read of %s (known: FP8 and NVFP4)", r->name, m->key,
                        said ? said : "a folder without it", method);
    }
    r->scaled = *found ? FOLDER_FLOATS : r->scaled;
    return HEARTH_OK;
}

hearth_status folder_read_quantization(folder_reader *r, const json_t *settings)
{
    const char *method = json_string_value(json_object_get(settings, "quant_method"));
    bool floats;
    if (method && strcmp(method, "fp8") == 0) {
        r->scaled = FOLDER_FLOATS;
        return read_blocks(r, settings);
    }
    if (method && strcmp(method, "mxfp4") == 0) {
        r->scaled = FOLDER_MXFP4;
        return HEARTH_OK;
    }
    TRY(read_makers(r, method, settings, &floats));
    if (floats)
        return read_blocks(r, settings);
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
    static const char *const endings[] = {".weight_scale_inv",
                                          ".weight_scale",
                                          ".weight_scale_2",
                                          ".weight_global_scale",
                                          ".input_global_scale",
                                          ".activation_scale",
                                          ".input_scale",
                                          ".k_scale",
                                          ".v_scale"};
    if (r->scaled == FOLDER_PACKED)
        return folder_is_of_packed(r, name);
    for (size_t i = 0; r->scaled == FOLDER_FLOATS && i < sizeof endings / sizeof *endings; i++)
        if (text_ends_with(name, endings[i]))
            return true;
    if (r->scaled == FOLDER_FLOATS && folder_is_of(checkpoint_find_tensor(r->folder, name), DTYPE_POWER))
        return folder_find_other(r, name, scale_ending, weight_ending) != NULL;
    return r->scaled == FOLDER_MXFP4 && text_ends_with(name, FLOAT4_SCALES);
}

void folder_plain_name(const folder_reader *r, const char *name, char out[2 * TENSOR_NAME_SIZE])
{
    size_t size = strlen(name), packed = r->scaled == FOLDER_PACKED ? folder_packed_ending(r, name) : 0;
    if (r->scaled == FOLDER_FLOATS && text_ends_with(name, PACKED_WEIGHT))
        packed = strlen(PACKED_WEIGHT);
    if (r->scaled == FOLDER_MXFP4 && text_ends_with(name, FLOAT4_BLOCKS))
        size -= strlen(FLOAT4_BLOCKS);
    snprintf(out, 2 * TENSOR_NAME_SIZE, "%.*s%s", (int)(size - packed), name, packed > 0 ? weight_ending : "");
}

hearth_status folder_refuse_tensor(const folder_reader *r, const stored_tensor *t, const char *why)
{
    return fail(r->error, HEARTH_FORMAT, "%s: tensor %.128s: %s", r->out->path, t->name, why);
}

hearth_status folder_new_rows(folder_reader *r, const stored_tensor *t, uint64_t matrices, scaled_rows **out)
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
    bool by_row = scales->shape[scales->shape[0] == 1] == t->shape[1] && all == matrices * t->shape[1];
    rows->block_columns = t->shape[0];
    rows->block_rows = all == matrices ? t->shape[1] : 1;
    return all == matrices || by_row;
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

static hearth_status take_f8(folder_reader *r, const stored_tensor *stored, stored_tensor *t)
{
    char inverse[2 * TENSOR_NAME_SIZE], plain[2 * TENSOR_NAME_SIZE];
    snprintf(inverse, sizeof inverse, "%.*s_scale_inv", 2 * TENSOR_NAME_SIZE - 16, stored->name);
    snprintf(plain, sizeof plain, "%.*s_scale", 2 * TENSOR_NAME_SIZE - 16, stored->name);
    const stored_tensor *scales = checkpoint_find_tensor(r->folder, inverse);
    scales = scales ? scales : checkpoint_find_tensor(r->folder, plain);
    scales = scales ? scales : folder_find_other(r, stored->name, weight_ending, scale_ending);
    stored_tensor powers;
    if (folder_is_of(scales, DTYPE_POWER)) {
        powers = *scales;
        TRY(read_powers(r, &powers));
        scales = &powers;
    }
    if (!scales || scales->foreign || number_is_block(scales->format))
        return folder_refuse_tensor(r, stored, "has no weight_scale_inv, weight_scale or scale of floats");
    if (t->rank < 2 || t->rank > 3)
        return folder_refuse_tensor(r, stored, "is of 8-bit floats and no matrix");
    scaled_rows *rows = NULL;
    TRY(folder_new_rows(r, stored, t->shape[2], &rows));
    rows->kind = SCALED_F8;
    rows->scale_format = scales->format;
    if (!fit_blocks(r, t, scales, rows))
        return folder_refuse_tensor(r, stored, "has scales that do not fit its shape and weight_block_size");
    size_t each = scales->size_bytes / (size_t)t->shape[2];
    for (uint64_t i = 0; i < t->shape[2]; i++)
        rows->scales[i] = (const char *)scales->data + i * each;
    if (!size_multiply(t->size_bytes, sizeof(float), &t->size_bytes))
        return folder_refuse_tensor(r, stored, "is too large");
    t->format = FORMAT_F32;
    t->foreign = NULL;
    t->scaled = rows;
    return HEARTH_OK;
}

bool folder_has_scales(const folder_reader *r, const tensor_rule *rule, const stored_tensor *stored)
{
    if (r->scaled == FOLDER_PACKED)
        return folder_is_packed(r, stored);
    return (r->scaled == FOLDER_FLOATS && folder_is_of(stored, DTYPE_F8)) || folder_is_float4(r, rule, stored);
}

hearth_status folder_take_scaled(folder_reader *r, const tensor_rule *rule, const stored_tensor *stored,
                                 stored_tensor *t)
{
    bool changes = rule->flags & FOLDER_CHANGES;
    if (r->scaled == FOLDER_PACKED)
        TRY(folder_take_packed(r, stored, changes, t));
    else if (folder_is_of(stored, DTYPE_F8))
        TRY(take_f8(r, stored, t));
    else
        TRY(folder_take_float4(r, rule, stored, t));
    /* blocks have no values that could be moved one by one */
    return changes && !number_is_block(t->format) ? folder_make_rows(r, t) : HEARTH_OK;
}
