/* experts.c - see experts.h. */
#include "experts.h"

/* Adds the stacked tensor, of which all parts are still missing. */
static hearth_status add_empty(checkpoint *c, const char *name, const stored_tensor *one, uint32_t count,
                               hearth_error *error)
{
    stored_tensor all = *one;
    all.name = name;
    all.rank = 3;
    all.shape[2] = count;
    all.data = NULL;
    all.parts = arena_new_array(&c->memory, count, sizeof *all.parts);
    if (!all.parts || !size_multiply(one->size_bytes, count, &all.size_bytes))
        return fail_memory(error, name, count * sizeof *all.parts);
    if (one->scaled) {
        scaled_rows *rows = arena_new_array(&c->memory, 1, sizeof *rows);
        const void **scales = arena_new_array(&c->memory, count, sizeof *scales);
        if (!rows || !scales)
            return fail_memory(error, name, count * sizeof *scales);
        *rows = *one->scaled;
        rows->scales = scales;
        all.scaled = rows;
    }
    return checkpoint_add_tensor(c, &all, error);
}

/* Returns whether rows of two tensors are made in one way. */
static bool made_alike(const scaled_rows *a, const scaled_rows *b)
{
    return !a == !b && (!a || (a->kind == b->kind && a->scale_format == b->scale_format && a->bits == b->bits &&
                               a->block_rows == b->block_rows && a->block_columns == b->block_columns &&
                               a->stored_rows == b->stored_rows && a->first == b->first && a->step == b->step));
}

hearth_status experts_add(checkpoint *c, const char *name, const stored_tensor *one, expert_number number,
                          hearth_error *error)
{
    if (number.expert >= number.count)
        return fail(error, HEARTH_FORMAT, "%s: tensor %.128s: is of expert %u, the model has %u", c->path, one->name,
                    number.expert, number.count);
    if (number.count > number.available)
        return fail(error, HEARTH_FORMAT, "%s: tensor %.128s: is of one of %u experts, the file has %zu tensors",
                    c->path, one->name, number.count, number.available);
    if (!checkpoint_find_tensor(c, name))
        TRY(add_empty(c, name, one, number.count, error));
    const stored_tensor *all = checkpoint_find_tensor(c, name);
    if (!all->parts)
        return fail(error, HEARTH_FORMAT, "%s: tensor %s: holds all experts, and %.128s holds one of them", c->path,
                    name, one->name);
    if (one->rank != 2 || all->shape[0] != one->shape[0] || all->shape[1] != one->shape[1] ||
        all->format != one->format || !made_alike(all->scaled, one->scaled))
        return fail(error, HEARTH_FORMAT, "%s: tensor %.128s: differs in shape or format from those of other experts",
                    c->path, one->name);
    if (all->parts[number.expert])
        return fail(error, HEARTH_FORMAT, "%s: tensor %.128s: appears twice", c->path, one->name);
    all->parts[number.expert] = one->data;
    if (one->scaled)
        all->scaled->scales[number.expert] = one->scaled->scales[0];
    return HEARTH_OK;
}

hearth_status experts_check(const checkpoint *c, hearth_error *error)
{
    for (size_t i = 0; i < c->tensor_count; i++) {
        const stored_tensor *t = &c->tensors[i];
        for (uint64_t expert = 0; t->parts && expert < t->shape[2]; expert++)
            if (!t->parts[expert])
                return fail(error, HEARTH_FORMAT, "%s: tensor %s: that of expert %llu is missing", c->path, t->name,
                            (unsigned long long)expert);
    }
    return HEARTH_OK;
}

/* Returns the rule of a tensor of one expert in a GGUF, and its numbers; NULL: it is of no single expert. */
static const tensor_rule *single_rule(const family *f, const char *name, uint32_t *layer, uint32_t *expert)
{
    const tensor_rule *rule = family_find_rule(f, name, false, layer, expert);
    return rule && tensor_rule_is_single(rule, false) ? rule : NULL;
}

/* Returns the rule of all experts' tensor. */
static const tensor_rule *stacked_rule(const family *f, const tensor_rule *single)
{
    for (const tensor_rule *r = f->layer_tensors; r < f->layer_tensors + f->layer_tensor_count; r++)
        if (r->field == single->field && (r->flags & TENSOR_EXPERTS) && !(r->flags & TENSOR_ALIAS))
            return r;
    return single; /* no table lacks it */
}

/* Adds a tensor as it is, or to that of all experts. number: of its file; which expert is found here. */
static hearth_status add_one(checkpoint *c, const family *f, expert_number number, const stored_tensor *t,
                             hearth_error *error)
{
    uint32_t layer;
    const tensor_rule *rule = single_rule(f, t->name, &layer, &number.expert);
    char name[TENSOR_NAME_SIZE];
    if (!rule)
        return checkpoint_add_tensor(c, t, error);
    tensor_rule_name(name, stacked_rule(f, rule), layer, false);
    return experts_add(c, name, t, number, error);
}

/* Adds tensors again, as they were. */
static void put_back(checkpoint *c, const stored_tensor *taken, size_t count)
{
    size_t added;
    mem_free(checkpoint_take_tensors(c, &added));
    for (size_t i = 0; i < count; i++)
        if (checkpoint_add_tensor(c, &taken[i], NULL) != HEARTH_OK)
            return;
}

hearth_status experts_stack(checkpoint *c, const family *f, uint32_t count, hearth_error *error)
{
    size_t tensors, i = 0;
    uint32_t layer, expert;
    while (i < c->tensor_count && !single_rule(f, c->tensors[i].name, &layer, &expert))
        i++;
    if (i == c->tensor_count)
        return HEARTH_OK;
    stored_tensor *taken = checkpoint_take_tensors(c, &tensors);
    expert_number number = {.count = count, .available = tensors};
    hearth_status status = HEARTH_OK;
    for (i = 0; i < tensors && status == HEARTH_OK; i++)
        status = add_one(c, f, number, &taken[i], error);
    if (status == HEARTH_OK)
        status = experts_check(c, error);
    if (status != HEARTH_OK)
        put_back(c, taken, tensors);
    mem_free(taken);
    return status;
}
