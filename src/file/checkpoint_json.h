/* checkpoint_json.h - values of a checkpoint's keys: the items of arrays, and JSON. */
#ifndef FILE_CHECKPOINT_JSON_H
#define FILE_CHECKPOINT_JSON_H

#include "checkpoint.h"

#include "../base/json.h"

/* Returns item `index` of an array as a value of its own, which points where the array does. */
key_value key_value_item(const key_value *array, uint64_t index);

/* Returns a value as JSON, of an array at most its first `most` items. Numbers that are not finite become null, integers
 * above 2^63 - 1, which jansson lacks, become text, and bytes that are not UTF-8 become U+FFFD. NULL: no memory. */
json_t *key_value_json(const key_value *e, uint64_t most);

#endif
