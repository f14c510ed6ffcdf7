/* rendering.h - the state of one rendering: its bounds, its memory and its clock.
 *
 * A template comes with a model's file, so it is as hostile as that. Whatever it does ends within STEPS_LIMIT steps,
 * MEMORY_LIMIT bytes and DEPTH_LIMIT nested calls; each of the three is an error with a line. Nothing is freed before the
 * end, so the bytes that a template touches are bounded, too. */
#ifndef CHAT_RENDERING_H
#define CHAT_RENDERING_H

#include "value.h"

#include "../base/memory.h"

#include <time.h>

/* A conversation of 1,000 messages takes less than a million steps, and about a megabyte. */
#define STEPS_LIMIT  ((size_t)20000000)
#define MEMORY_LIMIT ((size_t)256 << 20)
/* Expressions and statements within each other, counted through macros. A macro that calls itself for each level of a
 * JSON schema adds about ten per level. */
#define DEPTH_LIMIT 800u

/* Bytes of text that are copied, characters that are looked at one by one, or items of a list, that count as one step. */
#define BYTES_PER_STEP      64u
#define CHARACTERS_PER_STEP 8u
#define ITEMS_PER_STEP      4u

typedef struct rendering {
    const char *name; /* of the template: begins every error */
    uint32_t line;    /* of the statement that runs          */
    arena memory;
    size_t memory_left, steps_left;
    unsigned depth;
    const struct tm *now;
    struct growing *out; /* where text goes: the result, or what a macro collects */
    hearth_error *error;
} rendering;

/* Fails with "NAME: line N: FORMAT...". */
hearth_status rendering_fail(const rendering *r, hearth_status status, const char *format, ...)
    __attribute__((format(printf, 3, 4)));
#ifdef __clang_analyzer__ /* which sees one file at a time: this never returns HEARTH_OK */
#define rendering_fail(r, status, ...) ((rendering_fail)(r, status, __VA_ARGS__), (status))
#endif

/* Returns zeroed memory that lives until the end; NULL: out of memory, or beyond the limit (the error is filled, and the
 * caller returns HEARTH_NO_MEMORY). */
void *rendering_claim(rendering *r, size_t count, size_t size_bytes);
/* Counts steps. HEARTH_INVALID: too many. */
hearth_status rendering_spend(rendering *r, size_t steps);
/* Counts the steps of looking at all of a value: its bytes or items, but not those within its items. */
hearth_status rendering_spend_on(rendering *r, const value *v);
/* Begin and end something nested; a failed begin needs no end. HEARTH_INVALID: too deep. */
hearth_status rendering_enter(rendering *r);
static inline void rendering_leave(rendering *r)
{
    r->depth--;
}

/* A text that grows within the memory of the rendering. A zeroed one is empty. */
typedef struct growing {
    char *data;
    size_t size, capacity;
} growing;

hearth_status growing_put(rendering *r, growing *g, const void *data, size_t size);
hearth_status growing_put_text(rendering *r, growing *g, const char *terminated);
static inline value growing_value(const growing *g)
{
    return value_text((span){g->data ? g->data : "", g->size});
}

/* A list that grows likewise. */
typedef struct growing_list {
    value *items;
    size_t count, capacity;
} growing_list;

hearth_status growing_add(rendering *r, growing_list *g, value item);
static inline value growing_list_value(const growing_list *g)
{
    return value_list_of(g->items, g->count);
}

/* Makes an empty dict; NULL: as rendering_claim. */
dict *dict_new(rendering *r);
/* Sets an entry; a new key becomes the last. HEARTH_INVALID: the key is a list or a dict. */
hearth_status dict_set(rendering *r, dict *d, value key, value item);
/* Finds an entry by any key; *out is NULL where there is none. */
hearth_status dict_find(rendering *r, const dict *d, const value *key, value **out);

/* Compare as Python's == and <. *order: negative, 0 or positive. HEARTH_INVALID: the two have no order. */
hearth_status value_equal(rendering *r, const value *a, const value *b, bool *equal);
hearth_status value_order(rendering *r, const value *a, const value *b, int *order);
/* Returns whether a text, list or dict contains an item, as Python's `in`. HEARTH_INVALID: it is none of these. */
hearth_status value_contains(rendering *r, const value *in, const value *item, bool *found);
/* Makes the list of what a loop over the value meets: characters, items, keys; nothing for an undefined one.
 * HEARTH_INVALID: it cannot be iterated over. */
hearth_status value_items(rendering *r, const value *v, value_list *out);
/* Makes the pairs of a dict as tuples. */
hearth_status value_pairs(rendering *r, const value *v, value_list *out);
/* Returns the number of characters, items or entries. HEARTH_INVALID: it has no length. */
hearth_status value_length(rendering *r, const value *v, size_t *out);

/* Appends a value as Python's str() writes it; value_put_repr: as repr() does. */
hearth_status value_put(rendering *r, growing *g, const value *v);
hearth_status value_put_repr(rendering *r, growing *g, const value *v);
/* Makes the text of a value: itself if it is one. */
hearth_status value_to_text(rendering *r, const value *v, span *out);
/* Prints a number as Python's repr(): the fewest digits that give the same number. */
void print_float(char out[32], double number);

/* How tojson writes, as json.dumps() has it. */
typedef struct json_style {
    bool is_ascii, is_sorted;
    bool has_lines; /* every item on a line of its own, behind `indent` per level */
    span indent;
    span item_separator, key_separator;
} json_style;

/* Appends a value as JSON. HEARTH_INVALID: JSON has no such value. */
hearth_status value_put_json(rendering *r, growing *g, const value *v, const json_style *style);

#endif
