/* checkpoint_json.c - turns values of a checkpoint's keys into JSON. */
#include "checkpoint_json.h"

#include <string.h>

static json_t *unsigned_json(uint64_t value)
{
    return value > INT64_MAX ? json_sprintf("%llu", (unsigned long long)value) : json_integer((json_int_t)value);
}

key_value key_value_item(const key_value *array, uint64_t index)
{
    key_value item = {.key = array->key, .type = array->item_type};
    value_kind kind = value_kind_of(array->item_type);
    if (kind == VALUE_IS_STRING) {
        item.as.string = array->as.strings[index];
        return item;
    }
    /* Numbers are little-endian. */
    size_t size = value_size(array->item_type);
    const char *at = (const char *)array->as.items + index * size;
    if (array->item_type == VALUE_F32) {
        float f;
        memcpy(&f, at, sizeof f);
        item.as.f = (double)f;
        return item;
    }
    memcpy(&item.as, at, size);
    unsigned unused = 64 - 8 * (unsigned)size; /* shifting left and back extends the sign */
    if (kind == VALUE_IS_SIGNED)
        item.as.i = (int64_t)(item.as.u << unused) >> unused;
    return item;
}

static json_t *array_json(const key_value *e, uint64_t most)
{
    json_t *array = json_array();
    for (uint64_t i = 0; array && i < e->count && i < most; i++) {
        key_value item = key_value_item(e, i);
        if (json_array_append_new(array, key_value_json(&item, 0)) != 0) {
            json_decref(array);
            return NULL;
        }
    }
    return array;
}

json_t *key_value_json(const key_value *e, uint64_t most)
{
    switch (value_kind_of(e->type)) {
    case VALUE_IS_UNSIGNED:
        return unsigned_json(e->as.u);
    case VALUE_IS_SIGNED:
        return json_integer(e->as.i);
    case VALUE_IS_FLOAT:
        return json_number(e->as.f);
    case VALUE_IS_BOOL:
        return json_boolean(e->as.u);
    case VALUE_IS_STRING:
        return json_text(e->as.string);
    case VALUE_IS_ARRAY:
        return array_json(e, most);
    }
    return NULL;
}
