/* factors.c - see factors.h. */
#include "factors.h"

#include "../base/text.h"

#include <stdio.h>
#include <string.h>

static const char weight_ending[] = ".weight", factor_ending[] = ".scale", input_ending[] = ".input_scale";

/* Returns whether a tensor has such an ending, and is no part of the family. */
static bool is_beside(const family *f, const char *name, const char *ending)
{
    uint32_t layer, expert;
    return text_ends_with(name, ending) && !family_find_rule(f, name, false, &layer, &expert);
}

/* Returns the matrix, or the stacked ones, that a factor is of; NULL: there is none. */
static stored_tensor *find_owner(const checkpoint *c, const stored_tensor *factor)
{
    char name[2 * TENSOR_NAME_SIZE];
    size_t stem = strlen(factor->name) - (sizeof factor_ending - 1);
    if (stem + sizeof weight_ending > sizeof name)
        return NULL;
    snprintf(name, sizeof name, "%.*s%s", (int)stem, factor->name, weight_ending);
    const stored_tensor *owner = checkpoint_find_tensor(c, name);
    return owner ? &c->tensors[owner - c->tensors] : NULL;
}

static hearth_status check(const checkpoint *c, const stored_tensor *factor, hearth_error *error)
{
    const stored_tensor *owner = find_owner(c, factor);
    const char *problem = NULL;
    if (!owner || owner->foreign || owner->rank < 2 || owner->rank > 3 || !number_formats[owner->format].decode)
        problem = "is the factor of no matrix";
    else if (factor->foreign || factor->format != FORMAT_F32)
        problem = "is a factor, and not of f32";
    else if (factor->size_bytes != owner->shape[2] * sizeof(float))
        problem = "has not one factor for each matrix";
    return problem ? fail(error, HEARTH_FORMAT, "%s: tensor %.128s: %s", c->path, factor->name, problem) : HEARTH_OK;
}

/* Makes the rows of a tensor such that are multiplied with their factor. */
static hearth_status apply(checkpoint *c, const stored_tensor *factor, hearth_error *error)
{
    stored_tensor *t = find_owner(c, factor);
    size_t count = (size_t)t->shape[2], rows_in_all = (size_t)stored_tensor_rows(t), row_bytes;
    scaled_rows *rows = arena_new_array(&c->memory, 1, sizeof *rows);
    const void **each = arena_new_array(&c->memory, count, sizeof *each);
    factored_matrix *matrices = arena_new_array(&c->memory, count, sizeof *matrices);
    if (!rows || !each || !matrices)
        return fail_memory(error, t->name, count * sizeof *matrices);
    if (!number_row_bytes(FORMAT_F32, t->shape[0], &row_bytes) ||
        !size_multiply(row_bytes, rows_in_all, &t->size_bytes))
        return fail(error, HEARTH_FORMAT, "%s: tensor %s: is too large", c->path, t->name);
    for (size_t i = 0; i < count; i++) {
        float value;
        memcpy(&value, (const char *)factor->data + i * sizeof value, sizeof value);
        matrices[i].factor = (double)value;
        each[i] = &matrices[i];
    }
    *rows = (scaled_rows){
        .kind = SCALED_TIMES, .scales = each, .scale_format = t->format, .stored_rows = t->shape[1], .step = 1};
    t->format = FORMAT_F32;
    t->scaled = rows;
    return HEARTH_OK;
}

/* Takes out all tensors that are applied, or not used. */
static hearth_status drop(checkpoint *c, const family *f, hearth_error *error)
{
    size_t count;
    stored_tensor *taken = checkpoint_take_tensors(c, &count);
    hearth_status status = HEARTH_OK;
    for (size_t i = 0; i < count && status == HEARTH_OK; i++)
        if (!is_beside(f, taken[i].name, factor_ending) && !is_beside(f, taken[i].name, input_ending))
            status = checkpoint_add_tensor(c, &taken[i], error);
    mem_free(taken);
    return status;
}

hearth_status factors_apply(checkpoint *c, const family *f, hearth_error *error)
{
    bool any = false;
    for (size_t i = 0; i < c->tensor_count; i++)
        if (is_beside(f, c->tensors[i].name, factor_ending)) {
            TRY(check(c, &c->tensors[i], error));
            any = true;
        } else {
            any |= is_beside(f, c->tensors[i].name, input_ending);
        }
    if (!any)
        return HEARTH_OK;
    for (size_t i = 0; i < c->tensor_count; i++)
        if (is_beside(f, c->tensors[i].name, factor_ending))
            TRY(apply(c, &c->tensors[i], error));
    return drop(c, f, error);
}
