/* statement.c - runs the statements of a template, its loops and its macros. */
#include "statement.h"

#include <string.h>

/* What a statement does to those behind it. */
typedef enum flow { FLOW_ON, FLOW_BREAK, FLOW_CONTINUE } flow;

static hearth_status run_body(rendering *r, frame *f, const node_list *body, flow *next);

static hearth_status open_frame(rendering *r, const frame *parent, frame **out)
{
    frame *f = rendering_claim(r, 1, sizeof *f);
    *out = f;
    if (!f)
        return HEARTH_NO_MEMORY;
    f->parent = parent;
    f->names = dict_new(r);
    return f->names ? HEARTH_OK : HEARTH_NO_MEMORY;
}

static hearth_status set_name(rendering *r, frame *f, span name, value v)
{
    return dict_set(r, f->names, value_text(name), v);
}

/* ------------------------------------------------------------------ assignments */

static hearth_status assign(rendering *r, frame *f, const node *target, const value *v);

static hearth_status assign_attribute(rendering *r, const frame *f, const node *target, const value *v)
{
    value object;
    TRY(evaluate(r, f, target->a, &object));
    if (object.kind != VALUE_NAMESPACE)
        return rendering_fail(r, HEARTH_INVALID, "cannot assign attribute on non-namespace object");
    return dict_set(r, object.as.dict, value_text(target->name), *v);
}

static hearth_status assign_tuple(rendering *r, frame *f, const node *target, const value *v)
{
    value_list items;
    TRY(value_items(r, v, &items));
    if (items.count != target->items.count)
        return rendering_fail(r, HEARTH_INVALID, "%s values to unpack (expected %zu, got %zu)",
                              items.count > target->items.count ? "too many" : "not enough", target->items.count,
                              items.count);
    for (size_t i = 0; i < items.count; i++)
        TRY(assign(r, f, target->items.items[i], &items.items[i]));
    return HEARTH_OK;
}

static hearth_status assign(rendering *r, frame *f, const node *target, const value *v)
{
    switch (target->kind) {
    case NODE_NAME:
        return set_name(r, f, target->name, *v);
    case NODE_ATTRIBUTE:
        return assign_attribute(r, f, target, v);
    default:
        return assign_tuple(r, f, target, v);
    }
}

static hearth_status run_set(rendering *r, frame *f, const node *n, flow *next)
{
    (void)next;
    value v;
    TRY(evaluate(r, f, n->b, &v));
    return assign(r, f, n->a, &v);
}

/* Runs a body in a frame of its own, and collects what it prints. */
static hearth_status collect(rendering *r, frame *f, const node_list *body, value *out)
{
    growing text = {0}, *before = r->out;
    flow next = FLOW_ON;
    r->out = &text;
    hearth_status status = run_body(r, f, body, &next);
    r->out = before;
    *out = growing_value(&text);
    return status;
}

/* Collects a body and applies its filters to it. */
static hearth_status collect_filtered(rendering *r, const frame *f, const node *n, value *out)
{
    frame *inner;
    TRY(open_frame(r, f, &inner));
    TRY(collect(r, inner, &n->items, out));
    TRY(set_name(r, inner, span_of(BODY_NAME), *out));
    return evaluate(r, inner, n->b, out);
}

static hearth_status run_set_block(rendering *r, frame *f, const node *n, flow *next)
{
    (void)next;
    value v;
    TRY(collect_filtered(r, f, n, &v));
    return assign(r, f, n->a, &v);
}

static hearth_status run_filter_block(rendering *r, frame *f, const node *n, flow *next)
{
    (void)next;
    value v;
    TRY(collect_filtered(r, f, n, &v));
    return value_put(r, r->out, &v);
}

/* ------------------------------------------------------------------ macros */

static hearth_status define_macro(rendering *r, const frame *f, const node *n, value *out)
{
    macro *m = rendering_claim(r, 1, sizeof *m);
    if (!m)
        return HEARTH_NO_MEMORY;
    *m = (macro){n, f};
    *out = (value){.kind = VALUE_MACRO, .as.macro = m};
    return HEARTH_OK;
}

static hearth_status run_macro(rendering *r, frame *f, const node *n, flow *next)
{
    (void)next;
    value v;
    TRY(define_macro(r, f, n, &v));
    return set_name(r, f, n->name, v);
}

/* Sets what is given beyond the parameters: varargs and kwargs, and `caller`. */
static hearth_status bind_rest(rendering *r, const macro *m, const arguments *a, frame *f)
{
    const parameters *p = &m->node->parameters;
    dict *rest = dict_new(r);
    if (!rest)
        return HEARTH_NO_MEMORY;
    for (size_t i = 0; i < a->named_count; i++) {
        size_t k = 0;
        while (k < p->count && !span_equal(p->names[k], a->names[i]))
            k++;
        if (k < p->count && k < a->count)
            return rendering_fail(r, HEARTH_INVALID, "macro '%.*s' got the argument '%.*s' twice",
                                  (int)m->node->name.size, m->node->name.data, (int)a->names[i].size, a->names[i].data);
        if (k < p->count || span_equal(a->names[i], span_of("caller")))
            TRY(set_name(r, f, a->names[i], a->named[i]));
        else
            TRY(dict_set(r, rest, value_text(a->names[i]), a->named[i]));
    }
    TRY(set_name(r, f, span_of("kwargs"), (value){.kind = VALUE_DICT, .as.dict = rest}));
    value more = {.kind = VALUE_TUPLE};
    if (a->count > p->count)
        more.as.list = (value_list){a->items + p->count, a->count - p->count};
    return set_name(r, f, span_of("varargs"), more);
}

/* Only a macro that uses varargs or kwargs takes more than its parameters. */
static hearth_status check_arguments(rendering *r, const macro *m, const arguments *a, const frame *f)
{
    const node *n = m->node;
    const value *rest = dict_find_text(f->names, span_of("kwargs"));
    if (a->count > n->parameters.count && !n->parameters.uses_varargs)
        return rendering_fail(r, HEARTH_INVALID, "macro '%.*s' takes not more than %zu argument(s)", (int)n->name.size,
                              n->name.data, n->parameters.count);
    if (rest->as.dict->count > 0 && !n->parameters.uses_kwargs) {
        const span name = rest->as.dict->entries[0].key.as.text;
        return rendering_fail(r, HEARTH_INVALID, "macro '%.*s' takes no keyword argument '%.*s'", (int)n->name.size,
                              n->name.data, (int)name.size, name.data);
    }
    return HEARTH_OK;
}

/* Sets the parameters that were not given: to their default, which may use those before them, or to undefined. */
static hearth_status bind_defaults(rendering *r, const macro *m, const arguments *a, frame *f)
{
    const parameters *p = &m->node->parameters;
    size_t first_default = p->count - p->defaults.count;
    for (size_t i = 0; i < p->count; i++) {
        value v = value_undefined(span_of("parameter was not provided"));
        if (i < a->count)
            v = a->items[i];
        else if (dict_find_text(f->names, p->names[i]))
            continue;
        else if (i >= first_default)
            TRY(evaluate(r, f, p->defaults.items[i - first_default], &v));
        TRY(set_name(r, f, p->names[i], v));
    }
    return HEARTH_OK;
}

hearth_status macro_call(rendering *r, const macro *m, const arguments *a, value *out)
{
    frame *f;
    TRY(rendering_enter(r));
    TRY(open_frame(r, m->scope, &f));
    TRY(bind_rest(r, m, a, f));
    TRY(check_arguments(r, m, a, f));
    TRY(bind_defaults(r, m, a, f));
    TRY(collect(r, f, &m->node->items, out));
    rendering_leave(r);
    return HEARTH_OK;
}

/* {% call(x) m(...) %}body{% endcall %}: m gets the body as the macro `caller`. */
static hearth_status run_call_block(rendering *r, frame *f, const node *n, flow *next)
{
    (void)next;
    value callee, out;
    growing_list items = {0}, named = {0};
    const node *call = n->a;
    span *names = rendering_claim(r, call->named.count + 1, sizeof *names);
    if (!names)
        return HEARTH_NO_MEMORY;
    if (call->star || call->double_star)
        return rendering_fail(r, HEARTH_UNSUPPORTED, "* and ** in a call block are not supported");
    TRY(evaluate(r, f, call->a, &callee));
    for (size_t i = 0; i < call->items.count; i++) {
        TRY(evaluate(r, f, call->items.items[i], &out));
        TRY(growing_add(r, &items, out));
    }
    for (size_t i = 0; i < call->named.count; i++) {
        TRY(evaluate(r, f, call->named.items[i], &out));
        TRY(growing_add(r, &named, out));
        names[i] = call->names[i];
    }
    TRY(define_macro(r, f, n, &out));
    names[call->named.count] = span_of("caller");
    TRY(growing_add(r, &named, out));
    TRY(value_call(r, &callee, &(arguments){items.items, items.count, names, named.items, named.count}, &out));
    return value_put(r, r->out, &out);
}

/* ------------------------------------------------------------------ loops */

/* Keeps the items for which the condition of the loop holds. */
static hearth_status filter_items(rendering *r, const frame *f, const node *n, value_list *items)
{
    growing_list kept = {0};
    frame *inner;
    for (size_t i = 0; n->c && i < items->count; i++) {
        value holds;
        TRY(open_frame(r, f, &inner));
        TRY(assign(r, inner, n->a, &items->items[i]));
        TRY(evaluate(r, inner, n->c, &holds));
        if (value_is_true(&holds))
            TRY(growing_add(r, &kept, items->items[i]));
    }
    if (n->c)
        *items = (value_list){kept.items, kept.count};
    return HEARTH_OK;
}

static hearth_status run_loop(rendering *r, const frame *f, const node *n, const value *through, unsigned depth)
{
    loop *l = rendering_claim(r, 1, sizeof *l);
    if (!l)
        return HEARTH_NO_MEMORY;
    *l = (loop){.node = n, .scope = f, .depth = depth};
    TRY(value_items(r, through, &l->items));
    TRY(filter_items(r, f, n, &l->items));
    for (; l->index < l->items.count; l->index++) {
        frame *inner;
        flow next = FLOW_ON;
        TRY(open_frame(r, f, &inner));
        TRY(set_name(r, inner, span_of("loop"), (value){.kind = VALUE_LOOP, .as.loop = l}));
        TRY(assign(r, inner, n->a, &l->items.items[l->index]));
        TRY(run_body(r, inner, &n->items, &next));
        if (next == FLOW_BREAK)
            break;
    }
    if (l->items.count > 0)
        return HEARTH_OK;
    frame *inner;
    flow next = FLOW_ON;
    TRY(open_frame(r, f, &inner));
    return run_body(r, inner, &n->other, &next);
}

static hearth_status run_for(rendering *r, frame *f, const node *n, flow *next)
{
    (void)next;
    value through;
    TRY(evaluate(r, f, n->b, &through));
    return run_loop(r, f, n, &through, 0);
}

hearth_status loop_call(rendering *r, const loop *l, const arguments *a, value *out)
{
    if (!l->node->is_recursive)
        return rendering_fail(r, HEARTH_INVALID, "The loop must have the 'recursive' marker to be called recursively.");
    if (a->count != 1 || a->named_count > 0)
        return rendering_fail(r, HEARTH_INVALID, "loop: takes one argument");
    growing text = {0}, *before = r->out;
    TRY(rendering_enter(r));
    r->out = &text;
    hearth_status status = run_loop(r, l->scope, l->node, &a->items[0], l->depth + 1);
    r->out = before;
    rendering_leave(r);
    *out = growing_value(&text);
    return status;
}

static hearth_status run_break(rendering *r, frame *f, const node *n, flow *next)
{
    (void)r, (void)f;
    *next = n->kind == NODE_BREAK ? FLOW_BREAK : FLOW_CONTINUE;
    return HEARTH_OK;
}

/* ------------------------------------------------------------------ the others */

static hearth_status run_data(rendering *r, frame *f, const node *n, flow *next)
{
    (void)f, (void)next;
    return growing_put(r, r->out, n->name.data, n->name.size);
}

static hearth_status run_print(rendering *r, frame *f, const node *n, flow *next)
{
    (void)next;
    value v;
    TRY(evaluate(r, f, n->a, &v));
    return value_put(r, r->out, &v);
}

static hearth_status run_if(rendering *r, frame *f, const node *n, flow *next)
{
    for (;;) {
        value holds;
        r->line = n->line;
        TRY(rendering_spend(r, 1));
        TRY(evaluate(r, f, n->a, &holds));
        if (value_is_true(&holds))
            return run_body(r, f, &n->items, next);
        if (n->other.count != 1 || n->other.items[0]->kind != NODE_IF)
            return run_body(r, f, &n->other, next);
        n = n->other.items[0]; /* elif */
    }
}

static hearth_status run_with(rendering *r, frame *f, const node *n, flow *next)
{
    frame *inner;
    TRY(open_frame(r, f, &inner));
    for (size_t i = 0; i < n->other.count; i++) {
        value v;
        TRY(evaluate(r, f, n->other.items[i], &v)); /* not in the new frame: a target does not see those before it */
        TRY(assign(r, inner, n->named.items[i], &v));
    }
    return run_body(r, inner, &n->items, next);
}

static hearth_status run_scope(rendering *r, frame *f, const node *n, flow *next)
{
    frame *inner;
    TRY(open_frame(r, f, &inner));
    return run_body(r, inner, &n->items, next);
}

/* Runs statements one by one until one of them leaves the loop around them. */
static hearth_status run_body(rendering *r, frame *f, const node_list *body, flow *next)
{
    static hearth_status (*const table[])(rendering * r, frame * f, const node *n, flow *next) = {
        [NODE_DATA] = run_data,      [NODE_PRINT] = run_print, [NODE_IF] = run_if,
        [NODE_FOR] = run_for,        [NODE_SET] = run_set,     [NODE_SET_BLOCK] = run_set_block,
        [NODE_MACRO] = run_macro,    [NODE_BREAK] = run_break, [NODE_CALL_BLOCK] = run_call_block,
        [NODE_CONTINUE] = run_break, [NODE_WITH] = run_with,   [NODE_FILTER_BLOCK] = run_filter_block,
        [NODE_SCOPE] = run_scope,
    };
    TRY(rendering_enter(r));
    for (size_t i = 0; i < body->count && *next == FLOW_ON; i++) {
        const node *n = body->items[i];
        r->line = n->line;
        TRY(rendering_spend(r, 1));
        TRY(table[n->kind](r, f, n, next));
    }
    rendering_leave(r);
    return HEARTH_OK;
}

hearth_status run_statements(rendering *r, frame *f, const node_list *body)
{
    flow next = FLOW_ON;
    return run_body(r, f, body, &next);
}
