/* rendering.c - the bounds of a rendering, and what grows within them. */
#include "rendering.h"

#include "../base/error.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>

hearth_status(rendering_fail)(const rendering *r, hearth_status status, const char *format, ...)
{
    char text[sizeof r->error->text];
    va_list arguments;
    va_start(arguments, format);
    vsnprintf(text, sizeof text, format, arguments);
    va_end(arguments);
    return fail(r->error, status, "%s: line %u: %s", r->name, r->line, text);
}

void *rendering_claim(rendering *r, size_t count, size_t size_bytes)
{
    size_t bytes;
    if (!size_multiply(count, size_bytes, &bytes) || bytes > r->memory_left) {
        rendering_fail(r, HEARTH_NO_MEMORY, "the template needs more than %zu MB", MEMORY_LIMIT >> 20);
        return NULL;
    }
    r->memory_left -= bytes;
    void *block = arena_new(&r->memory, bytes);
    if (!block)
        fail_memory(r->error, r->name, bytes);
    return block;
}

hearth_status rendering_spend(rendering *r, size_t steps)
{
    if (steps > r->steps_left)
        return rendering_fail(r, HEARTH_INVALID, "the template takes more than %zu steps", STEPS_LIMIT);
    r->steps_left -= steps;
    return HEARTH_OK;
}

hearth_status rendering_spend_on(rendering *r, const value *v)
{
    size_t steps = 1;
    if (is_text(v))
        steps += v->as.text.size / BYTES_PER_STEP;
    else if (is_list(v))
        steps += v->as.list.count / ITEMS_PER_STEP;
    else if (v->kind == VALUE_DICT || v->kind == VALUE_NAMESPACE)
        steps += v->as.dict->count / ITEMS_PER_STEP;
    return rendering_spend(r, steps);
}

hearth_status rendering_enter(rendering *r)
{
    if (r->depth >= DEPTH_LIMIT)
        return rendering_fail(r, HEARTH_INVALID, "more than %u nested calls, blocks or values", DEPTH_LIMIT);
    r->depth++;
    return HEARTH_OK;
}

/* What grows begins with so many bytes: two entries of a dict, as most frames of loops have. */
#define FIRST_BYTES (2 * sizeof(struct entry))

/* Returns where `count` items have room behind the first `used`: the old place, or a new one of twice the size, which
 * `items` is copied to. */
static void *make_room(rendering *r, void *items, size_t *capacity, size_t used, size_t count, size_t item_bytes)
{
    size_t wanted;
    if (count <= *capacity - used)
        return items;
    if (!size_add(used, count, &wanted))
        wanted = SIZE_MAX;
    if (wanted < 2 * *capacity)
        wanted = 2 * *capacity;
    if (wanted < FIRST_BYTES / item_bytes)
        wanted = FIRST_BYTES / item_bytes;
    void *grown = rendering_claim(r, wanted, item_bytes);
    if (!grown)
        return NULL;
    if (items && used > 0)
        memcpy(grown, items, used * item_bytes);
    *capacity = wanted;
    return grown;
}

hearth_status growing_put(rendering *r, growing *g, const void *data, size_t size)
{
    if (size == 0)
        return HEARTH_OK;
    char *grown = make_room(r, g->data, &g->capacity, g->size, size, 1);
    if (!grown)
        return HEARTH_NO_MEMORY;
    g->data = grown;
    memcpy(g->data + g->size, data, size);
    g->size += size;
    return HEARTH_OK;
}

hearth_status growing_put_text(rendering *r, growing *g, const char *terminated)
{
    return growing_put(r, g, terminated, strlen(terminated));
}

hearth_status growing_add(rendering *r, growing_list *g, value item)
{
    value *grown = make_room(r, g->items, &g->capacity, g->count, 1, sizeof *grown);
    if (!grown)
        return HEARTH_NO_MEMORY;
    g->items = grown;
    g->items[g->count++] = item;
    return HEARTH_OK;
}

dict *dict_new(rendering *r)
{
    return rendering_claim(r, 1, sizeof(dict));
}

value *dict_find_text(const dict *d, span key)
{
    for (size_t i = 0; i < d->count; i++)
        if (is_text(&d->entries[i].key) && span_equal(d->entries[i].key.as.text, key))
            return &d->entries[i].value;
    return NULL;
}

hearth_status dict_find(rendering *r, const dict *d, const value *key, value **out)
{
    *out = NULL;
    TRY(rendering_spend(r, 1 + d->count / ITEMS_PER_STEP));
    if (is_text(key)) {
        *out = dict_find_text(d, key->as.text);
        return HEARTH_OK;
    }
    for (size_t i = 0; i < d->count; i++) {
        bool equal;
        TRY(value_equal(r, &d->entries[i].key, key, &equal));
        if (equal) {
            *out = &d->entries[i].value;
            break;
        }
    }
    return HEARTH_OK;
}

hearth_status dict_set(rendering *r, dict *d, value key, value item)
{
    value *found;
    if (key.kind == VALUE_LIST || key.kind == VALUE_DICT)
        return rendering_fail(r, HEARTH_INVALID, "a %s cannot be the key of a dict", value_kind_name(&key));
    TRY(dict_find(r, d, &key, &found));
    if (found) {
        *found = item;
        return HEARTH_OK;
    }
    struct entry *grown = make_room(r, d->entries, &d->capacity, d->count, 1, sizeof *grown);
    if (!grown)
        return HEARTH_NO_MEMORY;
    d->entries = grown;
    d->entries[d->count++] = (struct entry){key, item};
    return HEARTH_OK;
}
