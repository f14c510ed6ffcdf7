/* huggingface_packed.c - folders whose matrices GPTQ, AWQ or compressed-tensors ("pack-quantized", "int-quantized") have rounded to
 * numbers of 4 or 8 bits, which lie in words, or are bytes, beside their zeros and scales (file/packed.h). */
#include "folder_reader.h"

#include <stdio.h>
#include <string.h>
#include <strings.h>

/* How the tensors of a matrix end that is called X.weight; NULL: there is no such tensor. */
typedef struct packed_endings {
    const char *words, *scales, *zeros, *groups, *shape;
} packed_endings;

static const packed_endings of_bytes = {".weight", ".weight_scale", NULL, NULL, NULL},
                            of_words[] = {[PACKED_ROWS] = {PACKED_WEIGHT, ".weight_scale", ".weight_zero_point",
                                                           ".weight_g_idx", ".weight_shape"},
                                          [PACKED_COLUMNS] = {".qweight", ".scales", ".qzeros", ".g_idx", NULL},
                                          [PACKED_ACROSS] = {".qweight", ".scales", ".qzeros", NULL, NULL}};

static const packed_endings *endings_of(const folder_reader *r)
{
    return r->packed.flip ? &of_bytes : &of_words[r->packed.order];
}

/* ------------------------------------------------------------------ config */

static hearth_status refuse_setting(const folder_reader *r, const char *key, const char *why)
{
    return fail(r->error, HEARTH_UNSUPPORTED, "%s: quantization_config: %s: %s", r->name, key, why);
}

/* Reads the bits of a number and how many columns share a scale: -1 or null stand for all of a row. */
static hearth_status read_sizes(folder_reader *r, const json_t *settings, const char *bits_key, const char *group_key)
{
    json_int_t bits = json_integer_value(json_object_get(settings, bits_key));
    const json_t *group = json_object_get(settings, group_key);
    json_int_t size = json_integer_value(group);
    if (bits != 4 && bits != 8)
        return refuse_setting(r, bits_key, "others than 4 and 8 are not read");
    if ((group && !json_is_null(group) && !json_is_integer(group)) || size < -1 || size > UINT32_MAX)
        return refuse_setting(r, group_key, "is not a number of columns");
    r->packed.bits = (unsigned)bits;
    r->packed.group = size > 0 ? (uint64_t)size : 0;
    r->scaled = FOLDER_PACKED;
    return HEARTH_OK;
}

/* Returns whether GPTQModel's list of modules with settings of their own has sizes among them. */
static bool some_differ(json_t *modules)
{
    for (void *at = json_object_iter(modules); at; at = json_object_iter_next(modules, at)) {
        const json_t *own = json_object_iter_value(at);
        if (json_object_get(own, "bits") || json_object_get(own, "group_size"))
            return true;
    }
    return false;
}

static hearth_status read_gptq(folder_reader *r, const json_t *settings)
{
    const char *form = json_string_value(json_object_get(settings, "checkpoint_format"));
    const json_t *rotation = json_object_get(settings, "rotation");
    bool second = form && strcmp(form, "gptq_v2") == 0;
    if (rotation && !json_is_null(rotation)) /* which is no part of the weights */
        return refuse_setting(r, "rotation", "is not supported");
    if (some_differ(json_object_get(settings, "dynamic")))
        return refuse_setting(r, "dynamic", "modules of other bits or groups are not supported");
    if (form && !second && strcmp(form, "gptq") != 0)
        return refuse_setting(r, "checkpoint_format", "others than gptq and gptq_v2 are not read");
    r->packed.order = PACKED_COLUMNS;
    TRY(read_sizes(r, settings, "bits", "group_size"));
    r->packed.add = second ? 0 : UINT32_MAX / ((1u << r->packed.bits) - 1); /* 1 for each number */
    return HEARTH_OK;
}

static hearth_status read_awq(folder_reader *r, const json_t *settings)
{
    static const char *const keys[] = {"version", "format", "checkpoint_format"};
    for (size_t i = 0; i < sizeof keys / sizeof *keys; i++) {
        const char *version = json_string_value(json_object_get(settings, keys[i]));
        if (version && strcasecmp(version, "gemm") != 0)
            return refuse_setting(r, keys[i], "others than gemm are not read");
    }
    r->packed.order = PACKED_ACROSS;
    TRY(json_object_get(settings, "w_bit") ? read_sizes(r, settings, "w_bit", "q_group_size")
                                           : read_sizes(r, settings, "bits", "group_size"));
    return r->packed.bits == 4 ? HEARTH_OK : refuse_setting(r, "bits", "others than 4 are not read of awq");
}

static hearth_status read_compressed(folder_reader *r, const json_t *settings)
{
    static const char key[] = "config_groups";
    json_t *groups = json_object_get(settings, key);
    const json_t *weights = json_object_get(json_object_iter_value(json_object_iter(groups)), "weights");
    const char *type = json_string_value(json_object_get(weights, "type"));
    if (json_object_size(groups) != 1 || !json_is_object(weights))
        return refuse_setting(r, key, "others than one group with weights are not read");
    if (type && strcmp(type, "int") != 0)
        return refuse_setting(r, key, "weights of another type than int are not read");
    r->packed.order = PACKED_ROWS;
    TRY(read_sizes(r, weights, "num_bits", "group_size"));
    bool symmetric = !json_is_false(json_object_get(weights, "symmetric"));
    r->packed.zero = symmetric ? 1u << (r->packed.bits - 1) : 0;
    const char *format = json_string_value(json_object_get(settings, "format"));
    if (strcmp(format, "pack-quantized") == 0)
        return HEARTH_OK;
    r->packed.flip = 128;
    return r->packed.bits == 8 && symmetric
               ? HEARTH_OK
               : refuse_setting(r, key, "bytes other than of 8 bits without zeros are not read");
}

hearth_status folder_read_packed(folder_reader *r, const json_t *settings, bool *found)
{
    const char *method = json_string_value(json_object_get(settings, "quant_method"));
    const char *format = json_string_value(json_object_get(settings, "format"));
    *found = true;
    if (method && strcmp(method, "gptq") == 0)
        return read_gptq(r, settings);
    if (method && strcmp(method, "awq") == 0)
        return read_awq(r, settings);
    if (method && strcmp(method, "compressed-tensors") == 0 && format &&
        (strcmp(format, "pack-quantized") == 0 || strcmp(format, "int-quantized") == 0))
        return read_compressed(r, settings);
    *found = false;
    return HEARTH_OK;
}

/* ------------------------------------------------------------------ tensors */

size_t folder_packed_ending(const folder_reader *r, const char *name)
{
    const char *ending = endings_of(r)->words;
    return text_ends_with(name, ending) ? strlen(ending) : 0;
}

bool folder_is_packed(const folder_reader *r, const stored_tensor *t)
{
    return (!r->packed.flip || folder_is_of(t, DTYPE_SIGNED_BYTE)) && folder_packed_ending(r, t->name) > 0;
}

/* Scales of activations and of caches are not used: hearth does not round these as the folder says. */
bool folder_is_of_packed(const folder_reader *r, const char *name)
{
    const packed_endings *e = endings_of(r);
    const char *const others[] = {e->scales,           e->zeros,   e->groups, e->shape, ".input_scale",
                                  ".input_zero_point", ".k_scale", ".v_scale"};
    for (size_t i = 0; i < sizeof others / sizeof *others; i++)
        if (others[i] && text_ends_with(name, others[i]))
            return true;
    return false;
}

bool folder_is_void_bias(const folder_reader *r, const stored_tensor *t, const tensor_rule *rule)
{
    bool announced = json_is_true(json_object_get(r->config, "mlp_bias"));
    bool needless = !rule || ((rule->flags & TENSOR_MLP_BIAS) && !announced);
    if (r->scaled != FOLDER_PACKED || !needless || t->foreign || !text_ends_with(t->name, ".bias"))
        return false;
    for (size_t i = 0; i < t->size_bytes; i++)
        if (((const char *)t->data)[i] != 0)
            return false;
    return true;
}

/* Returns the tensor of the same matrix that ends so; NULL: there is none. */
static const stored_tensor *find_beside(const folder_reader *r, const stored_tensor *words, const char *ending)
{
    return ending ? folder_find_other(r, words->name, endings_of(r)->words, ending) : NULL;
}

/* Returns whether a tensor is of two dimensions of such lengths, the first the one in which neighbours lie together. */
static bool is_of_shape(const stored_tensor *t, uint64_t together, uint64_t apart)
{
    return t && t->rank == 2 && t->shape[0] == together && t->shape[1] == apart;
}

/* Compares the shape that compressed-tensors says with that of the words, which is larger where rows are padded. */
static hearth_status check_shape(const folder_reader *r, const stored_tensor *words, const packed_matrix *m)
{
    const stored_tensor *shape = find_beside(r, words, endings_of(r)->shape);
    int64_t said[2] = {0};
    if (!shape)
        return HEARTH_OK;
    if (shape->rank == 1 && shape->shape[0] == 2 && folder_is_of(shape, "I64"))
        memcpy(said, shape->data, sizeof said);
    else if (shape->rank == 1 && shape->shape[0] == 2 && folder_is_of(shape, "I32"))
        for (size_t i = 0; i < 2; i++)
            said[i] = packed_word(shape->data, i);
    else
        return folder_refuse_tensor(r, words, "has a weight_shape that is not two whole numbers");
    return said[0] == (int64_t)m->rows && said[1] == (int64_t)m->columns
               ? HEARTH_OK
               : folder_refuse_tensor(r, words,
                                      "has another weight_shape than its words: padded rows are not supported");
}

/* Sets the shape of a matrix by that of its words. */
static hearth_status find_shape(const folder_reader *r, const stored_tensor *words, packed_matrix *m)
{
    uint64_t n = packed_in_word(m), together = words->shape[0], apart = words->shape[1];
    if (words->rank != 2 || together > UINT32_MAX || apart > UINT32_MAX)
        return folder_refuse_tensor(r, words, "is not a matrix");
    if (!folder_is_of(words, m->flip ? DTYPE_SIGNED_BYTE : "I32"))
        return folder_refuse_tensor(r, words, "is not of words of 32 bits");
    if (m->flip && together % n != 0)
        return folder_refuse_tensor(r, words, "has rows that are no multiples of 4 bytes");
    m->rows = m->order == PACKED_ACROSS ? together * n : m->order == PACKED_ROWS ? apart : together;
    m->columns = m->order == PACKED_ROWS      ? together * (m->flip ? 1 : n)
                 : m->order == PACKED_COLUMNS ? apart * n
                                              : apart;
    m->group = m->group > 0 && m->group < m->columns ? m->group : m->columns;
    return check_shape(r, words, m);
}

/* Finds the zeros of a matrix, and the scales. Words of zeros that go along a row of them, as GPTQ and AWQ have them, must be full. */
static hearth_status find_scales(const folder_reader *r, const stored_tensor *words, packed_matrix *m)
{
    bool by_row = m->order == PACKED_ROWS;
    uint64_t groups = packed_groups(m), n = packed_in_word(m), zero_words = (m->rows + n - 1) / n;
    const stored_tensor *scales = find_beside(r, words, endings_of(r)->scales);
    const stored_tensor *zeros = find_beside(r, words, endings_of(r)->zeros);
    if (!is_of_shape(scales, by_row ? groups : m->rows, by_row ? m->rows : groups) || scales->foreign ||
        number_is_block(scales->format))
        return folder_refuse_tensor(r, words, "has no scales of floats that fit its shape and the size of groups");
    m->scale_format = scales->format;
    m->scales = scales->data;
    if (m->zero > 0)
        return HEARTH_OK;
    if ((!by_row && m->rows % n != 0) ||
        !is_of_shape(zeros, by_row ? groups : zero_words, by_row ? zero_words : groups) || !folder_is_of(zeros, "I32"))
        return folder_refuse_tensor(r, words, "has no zeros in words that fit its shape and the size of groups");
    m->zeros = zeros->data;
    return HEARTH_OK;
}

/* Finds the group of each column, if they are not in order; -1 stands for one that is, as compressed-tensors means it. */
static hearth_status find_groups(const folder_reader *r, const stored_tensor *words, packed_matrix *m)
{
    const stored_tensor *groups = find_beside(r, words, endings_of(r)->groups);
    bool in_order = true;
    if (!groups)
        return HEARTH_OK;
    if (!folder_is_of(groups, "I32") || groups->rank != 1 || groups->shape[0] != m->columns)
        return folder_refuse_tensor(r, words, "has no number of a group for each column");
    for (uint64_t c = 0; c < m->columns; c++) {
        uint32_t group = packed_word(groups->data, c);
        if (group == UINT32_MAX)
            return HEARTH_OK;
        if (group >= packed_groups(m))
            return folder_refuse_tensor(r, words, "has a column of a group that is not there");
        in_order &= group == c / m->group;
    }
    m->groups = in_order ? NULL : groups->data;
    return HEARTH_OK;
}

hearth_status folder_take_packed(folder_reader *r, const stored_tensor *stored, bool as_floats, stored_tensor *t)
{
    packed_matrix *m = arena_new_array(&r->out->memory, 1, sizeof *m);
    scaled_rows *rows = arena_new_array(&r->out->memory, 1, sizeof *rows);
    const void **matrices = arena_new_array(&r->out->memory, 1, sizeof *matrices);
    if (!m || !rows || !matrices)
        return fail_memory(r->error, stored->name, sizeof *m);
    *m = r->packed;
    TRY(find_shape(r, stored, m));
    TRY(find_scales(r, stored, m));
    TRY(find_groups(r, stored, m));
    number_format format = as_floats ? FORMAT_F32 : packed_format(m);
    const number_traits *made = &number_formats[format];
    size_t blocks = (size_t)m->columns / made->block_values;
    matrices[0] = m;
    *rows = (scaled_rows){
        .kind = SCALED_PACKED, .scales = matrices, .stored_rows = m->rows, .bits = m->bits, .made = format, .step = 1};
    *t = (stored_tensor){.name = t->name,
                         .format = format,
                         .rank = 2,
                         .shape = {m->columns, m->rows, 1, 1},
                         .data = t->data,
                         .scaled = rows};
    return size_multiply(blocks * made->block_bytes, (size_t)m->rows, &t->size_bytes)
               ? HEARTH_OK
               : folder_refuse_tensor(r, stored, "is too large");
}
