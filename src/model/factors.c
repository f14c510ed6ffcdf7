/* factors.c - see factors.h. */
#include "factors.h"

#include "../base/memory.h"
#include "../base/text.h"

#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

static const char weight_ending[] = ".weight", factor_ending[] = ".scale", input_ending[] = ".input_scale";

typedef struct application {
    checkpoint *c;
    const family *family;
    uint32_t layers;
    hearth_error *error;
} application;

/* Returns whether a tensor has such an ending, and is no part of the family nor of blocks behind its layers. */
static bool ends_beside(const application *a, const char *name, const char *ending)
{
    uint32_t layer, expert, block;
    bool behind = sscanf(name, "blk.%" SCNu32 ".", &block) == 1 && block >= a->layers;
    return !behind && text_ends_with(name, ending) && !family_find_rule(a->family, name, false, &layer, &expert);
}

/* Returns the tensor whose name has ".weight" in place of an ending; NULL: there is none. */
static stored_tensor *find_owner(const application *a, const char *name, const char *ending)
{
    char weight[2 * TENSOR_NAME_SIZE];
    size_t stem = strlen(name) - strlen(ending);
    if (stem + sizeof weight_ending > sizeof weight)
        return NULL;
    snprintf(weight, sizeof weight, "%.*s%s", (int)stem, name, weight_ending);
    const stored_tensor *owner = checkpoint_find_tensor(a->c, weight);
    return owner ? &a->c->tensors[owner - a->c->tensors] : NULL;
}

static bool is_factor(const application *a, const stored_tensor *t)
{
    return ends_beside(a, t->name, factor_ending);
}

/* Returns whether a tensor is how the input of another one could be rounded. */
static bool is_of_input(const application *a, const stored_tensor *t)
{
    return ends_beside(a, t->name, input_ending) && find_owner(a, t->name, input_ending);
}

/* Returns whether a tensor is a matrix, or stacked ones, of floats or blocks. A vector may have two dimensions, and is read as it is. */
static bool is_matrix(const application *a, const stored_tensor *t)
{
    uint32_t layer, expert;
    const tensor_rule *rule = t ? family_find_rule(a->family, t->name, false, &layer, &expert) : NULL;
    return rule && rule->rows != DIMENSION_NONE && !(rule->flags & (TENSOR_FLAT | TENSOR_INTEGERS)) && !t->foreign &&
           t->rank >= 2 && t->rank <= 3 && number_formats[t->format].decode;
}

static bool all_are_finite(const stored_tensor *factors)
{
    bool finite = true;
    for (size_t i = 0; i < factors->size_bytes / sizeof(float); i++) {
        float value;
        memcpy(&value, (const char *)factors->data + i * sizeof value, sizeof value);
        finite &= isfinite(value);
    }
    return finite;
}

static hearth_status check(const application *a, const stored_tensor *factor)
{
    const stored_tensor *owner = find_owner(a, factor->name, factor_ending);
    const char *problem = NULL;
    size_t row_bytes, size_bytes;
    if (!is_matrix(a, owner))
        problem = "is the factor of no matrix";
    else if (factor->foreign || factor->format != FORMAT_F32)
        problem = "is a factor, and not of f32";
    else if (factor->size_bytes != owner->shape[2] * sizeof(float))
        problem = "has not one factor for each matrix";
    else if (!all_are_finite(factor))
        problem = "has a factor that is not finite";
    else if (!number_row_bytes(FORMAT_F32, owner->shape[0], &row_bytes) ||
             !size_multiply(row_bytes, (size_t)stored_tensor_rows(owner), &size_bytes))
        problem = "is the factor of a matrix that is too large";
    return problem ? fail(a->error, HEARTH_FORMAT, "%s: tensor %.128s: %s", a->c->path, factor->name, problem)
                   : HEARTH_OK;
}

/* Makes the rows of a tensor such that are multiplied with their factor. */
static hearth_status apply(const application *a, const stored_tensor *factor)
{
    stored_tensor *t = find_owner(a, factor->name, factor_ending);
    size_t count = (size_t)t->shape[2], values = (size_t)(t->shape[0] * stored_tensor_rows(t));
    scaled_rows *rows = arena_new_array(&a->c->memory, 1, sizeof *rows);
    const void **each = arena_new_array(&a->c->memory, count, sizeof *each);
    factored_matrix *matrices = arena_new_array(&a->c->memory, count, sizeof *matrices);
    if (!rows || !each || !matrices)
        return fail_memory(a->error, t->name, count * sizeof *matrices);
    for (size_t i = 0; i < count; i++) {
        float value;
        memcpy(&value, (const char *)factor->data + i * sizeof value, sizeof value);
        matrices[i].factor = (double)value;
        each[i] = &matrices[i];
    }
    *rows = (scaled_rows){
        .kind = SCALED_TIMES, .scales = each, .scale_format = t->format, .stored_rows = t->shape[1], .step = 1};
    t->format = FORMAT_F32;
    t->size_bytes = values * sizeof(float);
    t->scaled = rows;
    return HEARTH_OK;
}

/* Takes out all tensors that are applied, or not used. */
static hearth_status drop(const application *a)
{
    size_t count = a->c->tensor_count;
    bool *goes = mem_new_array(count, sizeof *goes);
    if (!goes)
        return fail_memory(a->error, a->c->path, count * sizeof *goes);
    for (size_t i = 0; i < count; i++)
        goes[i] = is_factor(a, &a->c->tensors[i]) || is_of_input(a, &a->c->tensors[i]);
    stored_tensor *taken = checkpoint_take_tensors(a->c, &count);
    hearth_status status = HEARTH_OK;
    for (size_t i = 0; i < count && status == HEARTH_OK; i++)
        if (!goes[i])
            status = checkpoint_add_tensor(a->c, &taken[i], a->error);
    mem_free(taken);
    mem_free(goes);
    return status;
}

hearth_status factors_apply(checkpoint *c, const family *f, uint32_t layers, hearth_error *error)
{
    const application a = {c, f, layers, error};
    bool any = false, applied = false;
    for (size_t i = 0; i < c->tensor_count; i++) {
        if (is_factor(&a, &c->tensors[i]))
            TRY(check(&a, &c->tensors[i]));
        any |= is_factor(&a, &c->tensors[i]) || is_of_input(&a, &c->tensors[i]);
    }
    if (!any)
        return HEARTH_OK;
    for (size_t i = 0; i < c->tensor_count; i++)
        if (is_factor(&a, &c->tensors[i])) {
            TRY(apply(&a, &c->tensors[i]));
            applied = true;
        }
    TRY(drop(&a));
    return applied ? checkpoint_set_file_type(c, error) : HEARTH_OK;
}
