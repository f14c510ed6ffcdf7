/* fuzz_unpickle.c - any bytes as a pickle.
 * Covers: src/file/unpickle.c src/file/unpickle_names.c */
#include "touch.h"

#include "../src/file/unpickle.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void touch_tuple(const pickle_tuple *t)
{
    for (size_t i = 0; i < t->count; i++)
        if ((unsigned)t->items[i].kind >= PICKLE_KIND_COUNT)
            abort();
}

/* A value and what lies one step below it: deeper ones may lead back. */
static void touch_value(const pickle_value *value)
{
    if (*pickle_kind_phrase(value->kind) == 0)
        abort();
    if (value->kind == PICKLE_TEXT)
        touch_bytes(value->as.text->data, value->as.text->size);
    if (value->kind == PICKLE_TUPLE)
        touch_tuple(value->as.tuple);
    if (value->kind == PICKLE_STORAGE)
        touch_bytes(value->as.storage->key.data, value->as.storage->key.size);
    if (value->kind == PICKLE_TENSOR && value->as.tensor->shape->count != value->as.tensor->strides->count)
        abort();
}

static void touch_root(const pickle_value *root)
{
    touch_value(root);
    if (root->kind != PICKLE_DICT)
        return;
    for (const pickle_items *items = root->as.dict->first; items; items = items->next)
        for (size_t i = 0; i < 2 * items->count; i++)
            touch_value(&items->pairs[i]);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    arena memory = {0};
    pickle_value root;
    hearth_error error = {0};
    long before = mem_live();
    hearth_status status = unpickle(&root, &memory, data, size, "fuzz.pkl", &error);
    if (status == HEARTH_OK)
        touch_root(&root);
    arena_clear(&memory);
    check_end(status, &error, before);
    return 0;
}
