/* value.h - the values of a template: Python's, as far as a template can see them.
 *
 * Values are small and copied freely. What they point to lives in the memory of one rendering, until its end, and does
 * not change once it can be seen; only a namespace does. So lists and texts share memory with the parts cut from them. */
#ifndef CHAT_VALUE_H
#define CHAT_VALUE_H

#include "../base/text.h"

typedef enum value_kind {
    VALUE_ABSENT,    /* an argument that was not given; never seen by a template    */
    VALUE_UNDEFINED, /* the name, attribute or item does not exist; `text` says why */
    VALUE_NONE,
    VALUE_BOOL,
    VALUE_INTEGER, /* Python's without its size: 64 bits, an overflow is an error */
    VALUE_FLOAT,
    VALUE_TEXT, /* valid UTF-8; indexed by character, as in Python */
    VALUE_LIST,
    VALUE_TUPLE,
    VALUE_DICT,      /* in the order of insertion */
    VALUE_NAMESPACE, /* namespace(...): a dict whose entries `set` can change */
    VALUE_FUNCTION,  /* raise_exception, range ... */
    VALUE_METHOD,    /* of a value: message.get */
    VALUE_MACRO,
    VALUE_LOOP, /* the variable `loop` */
} value_kind;

typedef struct value value;

typedef struct value_list {
    const value *items; /* [count] */
    size_t count;
} value_list;

struct value {
    value_kind kind;
    bool is_safe; /* TEXT: marked by `safe` or `escape`: adding another text to it escapes that one */
    union {
        bool truth;
        int64_t integer;
        double real;
        span text;       /* TEXT, UNDEFINED */
        value_list list; /* LIST, TUPLE */
        struct dict *dict;
        const struct function *function;
        const struct method *method;
        const struct macro *macro;
        struct loop *loop;
    } as;
};

typedef struct dict {
    struct entry {
        value key, value;
    } * entries;
    size_t count, capacity;
} dict;

static inline value value_none(void)
{
    return (value){.kind = VALUE_NONE};
}
static inline value value_bool(bool truth)
{
    return (value){.kind = VALUE_BOOL, .as.truth = truth};
}
static inline value value_integer(int64_t integer)
{
    return (value){.kind = VALUE_INTEGER, .as.integer = integer};
}
static inline value value_float(double real)
{
    return (value){.kind = VALUE_FLOAT, .as.real = real};
}
static inline value value_text(span text)
{
    return (value){.kind = VALUE_TEXT, .as.text = text};
}
static inline value value_list_of(const value *items, size_t count)
{
    return (value){.kind = VALUE_LIST, .as.list = {items, count}};
}
/* why: for the error if the value is used, such as "'name' is undefined"; lives as long as the value. */
static inline value value_undefined(span why)
{
    return (value){.kind = VALUE_UNDEFINED, .as.text = why};
}

static inline bool is_text(const value *v)
{
    return v->kind == VALUE_TEXT;
}
static inline bool is_list(const value *v)
{
    return v->kind == VALUE_LIST || v->kind == VALUE_TUPLE;
}
/* Returns true for integers and truth values, which count as 0 and 1. */
static inline bool is_integer(const value *v)
{
    return v->kind == VALUE_INTEGER || v->kind == VALUE_BOOL;
}
static inline bool is_number(const value *v)
{
    return is_integer(v) || v->kind == VALUE_FLOAT;
}
static inline bool is_missing(const value *v)
{
    return v->kind == VALUE_UNDEFINED || v->kind == VALUE_ABSENT;
}

/* The number of an integer or truth value; the number of any number. */
int64_t value_as_integer(const value *v);
double value_as_float(const value *v);

/* Returns Python's name of the kind, as its errors have it: "str", "dict" ... */
const char *value_kind_name(const value *v);
/* Returns false for what Python takes as false: none, undefined, zero, and everything empty. */
bool value_is_true(const value *v);

/* Returns the entry of a key that is a text; NULL: there is none. */
value *dict_find_text(const dict *d, span key);

#endif
