/* evaluate.h - expressions to values, and what calls other than a template's own do with values. */
#ifndef CHAT_EVALUATE_H
#define CHAT_EVALUATE_H

#include "node.h"
#include "rendering.h"

/* The names of a scope. A body of a loop or macro has a frame of its own, within the one it stands in. */
typedef struct frame {
    dict *names;
    const struct frame *parent; /* NULL: the template's own */
} frame;

/* What a macro is: its node, and the scope it was defined in. */
typedef struct macro {
    const node *node;
    const frame *scope;
} macro;

/* A loop that runs. */
typedef struct loop {
    const node *node;
    const frame *scope; /* around the loop: for loop(...) of a recursive one */
    value_list items;
    size_t index;   /* from 0 */
    unsigned depth; /* from 0 */
    value last_changed;
} loop;

/* The arguments of a call. */
typedef struct arguments {
    const value *items; /* [count] */
    size_t count;
    const span *names; /* [named_count] */
    const value *named;
    size_t named_count;
} arguments;

hearth_status evaluate(rendering *r, const frame *f, const node *n, value *out);

/* v.name, as Jinja2 finds it: a method or attribute first, then an item. Undefined where there is none; HEARTH_INVALID: v
 * is undefined itself. */
hearth_status value_attribute(rendering *r, const value *v, span name, value *out);
/* v[key]: an item first, then a method. */
hearth_status value_item(rendering *r, const value *v, const value *key, value *out);
/* Calls a macro, function, method or recursive loop. HEARTH_INVALID: v cannot be called, or not so. */
hearth_status value_call(rendering *r, const value *v, const arguments *a, value *out);
/* a operator b, of the arithmetic ones. */
hearth_status value_operate(rendering *r, operator_kind operator, const value * a, const value *b, value *out);

/* Run a macro or a recursive loop, and collect what it prints (statement.c). */
hearth_status macro_call(rendering *r, const macro *m, const arguments *a, value *out);
hearth_status loop_call(rendering *r, const loop *l, const arguments *a, value *out);

/* Finds a name's value; *out is NULL where nobody set it. */
hearth_status frame_find(rendering *r, const frame *f, span name, const value **out);

#endif
