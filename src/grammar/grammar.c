/* grammar.c - nodes and fragments: how the graph of a grammar grows.
 *
 * A fragment ends in a SPLIT with a single way, which is linked when something follows; grammar_finish skips these.
 * What is repeated a number of times becomes a rule that is called as often, so the nodes of nested repetitions add up
 * and do not multiply. The stacks of a matcher still multiply: ((a?){100}){100} has 10,000 places to be at. */
#include "grammar.h"

hearth_status grammar_create(grammar **out, hearth_error *error)
{
    grammar *g = mem_new(sizeof *g);
    if (!g)
        return fail_memory(error, "grammar", sizeof *g);
    g->root = GRAMMAR_NONE;
    *out = g;
    return HEARTH_OK;
}

void grammar_destroy(grammar *g)
{
    if (!g)
        return;
    arena_clear(&g->memory);
    mem_free(g->nodes);
    mem_free(g->rules);
    mem_free(g);
}

static void *give_up(grammar *g, hearth_status status)
{
    if (g->status == HEARTH_OK)
        g->status = status;
    return NULL;
}

/* Returns the index of a new node. After a failure there may be none at all, so indices are not to be used then. */
static uint32_t add_node(grammar *g, node_kind kind, uint32_t next, uint32_t other)
{
    if (g->node_count >= GRAMMAR_NODE_LIMIT)
        give_up(g, HEARTH_UNSUPPORTED);
    if (g->status != HEARTH_OK)
        return GRAMMAR_NONE;
    grammar_node *nodes = mem_grow(g->nodes, &g->node_capacity, g->node_count, 1, sizeof *nodes);
    if (!nodes) {
        give_up(g, HEARTH_NO_MEMORY);
        return GRAMMAR_NONE;
    }
    g->nodes = nodes;
    nodes[g->node_count] = (grammar_node){.kind = (uint8_t)kind, .next = next, .other = other};
    return (uint32_t)g->node_count++;
}

static uint32_t add_open_end(grammar *g)
{
    return add_node(g, NODE_SPLIT, GRAMMAR_NONE, GRAMMAR_NONE);
}

void grammar_link(grammar *g, uint32_t end, uint32_t to)
{
    if (g->status == HEARTH_OK)
        g->nodes[end].next = to;
}

uint32_t grammar_rule_new(grammar *g, span name, uint32_t line)
{
    if (g->rule_count >= GRAMMAR_RULE_LIMIT)
        give_up(g, HEARTH_UNSUPPORTED);
    if (g->status != HEARTH_OK)
        return GRAMMAR_NONE;
    grammar_rule *rules = mem_grow(g->rules, &g->rule_capacity, g->rule_count, 1, sizeof *rules);
    if (rules)
        g->rules = rules;
    const char *copy = arena_copy_text(&g->memory, name.data ? name.data : "", name.size);
    if (!rules || !copy) {
        give_up(g, HEARTH_NO_MEMORY);
        return GRAMMAR_NONE;
    }
    rules[g->rule_count] = (grammar_rule){.name = {copy, name.size}, .line = line, .start = GRAMMAR_NONE};
    return (uint32_t)g->rule_count++;
}

void grammar_rule_define(grammar *g, uint32_t rule, fragment body)
{
    uint32_t end = add_node(g, NODE_END, GRAMMAR_NONE, GRAMMAR_NONE);
    grammar_link(g, body.end, end);
    if (g->status == HEARTH_OK)
        g->rules[rule].start = body.start;
}

fragment grammar_empty(grammar *g)
{
    uint32_t node = add_open_end(g);
    return (fragment){node, node};
}

fragment grammar_bytes(grammar *g, uint8_t low, uint8_t high)
{
    uint32_t end = add_open_end(g);
    uint32_t node = add_node(g, NODE_BYTES, end, GRAMMAR_NONE);
    if (g->status == HEARTH_OK) {
        g->nodes[node].low = low;
        g->nodes[node].high = high;
    }
    return (fragment){node, end};
}

fragment grammar_literal(grammar *g, span text)
{
    fragment all = grammar_empty(g);
    for (size_t i = 0; i < text.size; i++)
        all = grammar_then(g, all, grammar_bytes(g, (uint8_t)text.data[i], (uint8_t)text.data[i]));
    return all;
}

fragment grammar_call(grammar *g, uint32_t rule)
{
    uint32_t end = add_open_end(g);
    return (fragment){add_node(g, NODE_CALL, end, rule), end};
}

fragment grammar_then(grammar *g, fragment a, fragment b)
{
    grammar_link(g, a.end, b.start);
    return (fragment){a.start, b.end};
}

fragment grammar_either(grammar *g, fragment a, fragment b)
{
    uint32_t end = add_open_end(g);
    grammar_link(g, a.end, end);
    grammar_link(g, b.end, end);
    return (fragment){add_node(g, NODE_SPLIT, a.start, b.start), end};
}

fragment grammar_optional(grammar *g, fragment a)
{
    return grammar_either(g, a, grammar_empty(g));
}

/* Any number of times, at least `least` (0 or 1) times: a loop. */
static fragment loop(grammar *g, fragment a, uint32_t least)
{
    uint32_t end = add_open_end(g);
    uint32_t again = add_node(g, NODE_SPLIT, a.start, end);
    grammar_link(g, a.end, again);
    return (fragment){least == 0 ? again : a.start, end};
}

fragment grammar_repeat(grammar *g, fragment a, uint32_t least, uint32_t most)
{
    if (most == GRAMMAR_NO_LIMIT && least <= 1)
        return loop(g, a, least);
    if (least == 1 && most == 1)
        return a;
    if (least == 0 && most == 1)
        return grammar_optional(g, a);
    if (least > GRAMMAR_REPEAT_LIMIT || (most != GRAMMAR_NO_LIMIT && most > GRAMMAR_REPEAT_LIMIT))
        give_up(g, HEARTH_UNSUPPORTED);
    uint32_t rule = grammar_rule_new(g, span_of("(repeated)"), 0);
    grammar_rule_define(g, rule, a);
    fragment all = grammar_empty(g);
    for (uint32_t i = 0; i < least && g->status == HEARTH_OK; i++)
        all = grammar_then(g, all, grammar_call(g, rule));
    if (most == GRAMMAR_NO_LIMIT)
        return grammar_then(g, all, loop(g, grammar_call(g, rule), 0));
    /* One within the other, (a (a (a)?)?)?, so that a matcher has two ways at each and not as many as are left. */
    uint32_t end = add_open_end(g);
    for (uint32_t i = least; i < most && g->status == HEARTH_OK; i++) {
        fragment more = grammar_call(g, rule);
        uint32_t choice = add_node(g, NODE_SPLIT, more.start, end);
        grammar_link(g, all.end, choice);
        all.end = more.end;
    }
    grammar_link(g, all.end, end);
    return (fragment){all.start, end};
}

hearth_status grammar_result(const grammar *g, const char *where, hearth_error *error)
{
    if (g->status == HEARTH_NO_MEMORY)
        return fail(error, HEARTH_NO_MEMORY, "%s: out of memory after %zu nodes of the grammar", where, g->node_count);
    if (g->status != HEARTH_OK)
        return fail(error, g->status, "%s: the grammar is too large: more than %d nodes, %d rules or %d repetitions",
                    where, GRAMMAR_NODE_LIMIT, GRAMMAR_RULE_LIMIT, GRAMMAR_REPEAT_LIMIT);
    return HEARTH_OK;
}
