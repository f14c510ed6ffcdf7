/* touch.h - reads every byte that a checkpoint points to, so that a wrong pointer or length is noticed. */
#ifndef FUZZ_TOUCH_H
#define FUZZ_TOUCH_H

#include "../src/file/checkpoint.h"

#include <stdlib.h>
#include <string.h>

static inline void touch_bytes(const void *data, size_t size)
{
    volatile uint8_t sum = 0;
    for (size_t i = 0; i < size; i++)
        sum = (uint8_t)(sum + ((const uint8_t *)data)[i]);
}

static inline void touch_entry(const key_value *entry)
{
    if (entry->type == VALUE_STRING)
        touch_bytes(entry->as.string.data, entry->as.string.size);
    if (entry->type != VALUE_ARRAY)
        return;
    size_t item = value_size(entry->item_type);
    if (item && (uintptr_t)entry->as.items % item != 0)
        abort();
    touch_bytes(entry->as.items, (size_t)entry->count * item);
    for (uint64_t i = 0; entry->item_type == VALUE_STRING && i < entry->count; i++)
        touch_bytes(entry->as.strings[i].data, entry->as.strings[i].size);
}

/* Reads the rows of a tensor that are made only then. */
static inline void touch_made_rows(const stored_tensor *t, size_t row_bytes)
{
    char *row = malloc(row_bytes);
    for (uint64_t i = 0; row && i < stored_tensor_rows(t); i++) {
        stored_tensor_read(t, i, row_bytes, row);
        touch_bytes(row, row_bytes);
    }
    free(row);
}

/* Everything is readable, and found under its own name. */
static inline void touch_checkpoint(const checkpoint *c)
{
    for (size_t i = 0; i < c->entry_count; i++) {
        touch_entry(&c->entries[i]);
        if (checkpoint_find(c, c->entries[i].key) != &c->entries[i])
            abort();
    }
    for (size_t i = 0; i < c->tensor_count; i++) {
        const stored_tensor *t = &c->tensors[i];
        size_t row_bytes = 0;
        if (!t->foreign && (!number_row_bytes(t->format, t->shape[0], &row_bytes) ||
                            row_bytes * t->shape[1] * t->shape[2] * t->shape[3] != t->size_bytes))
            abort();
        if (t->scaled)
            touch_made_rows(t, row_bytes);
        for (uint64_t k = 0; !t->scaled && t->parts && k < t->shape[2]; k++)
            touch_bytes(t->parts[k], t->size_bytes / (size_t)t->shape[2]);
        if (!t->scaled && !t->parts)
            touch_bytes(t->data, t->size_bytes);
        if (checkpoint_find_tensor(c, t->name) != t)
            abort();
    }
}

/* A refusal comes with a text, and nothing stays allocated. */
static inline void check_end(hearth_status status, const hearth_error *error, long live_before)
{
    if ((status == HEARTH_OK) != (error->text[0] == 0) || mem_live() != live_before)
        abort();
}

#endif
