/* finish.c - what must be known of a grammar before it is followed: whether rules are defined, end and do not call
 * themselves first; which nodes lead to an end; which bytes are told apart. All of it takes time in proportion to the
 * grammar's size, whatever it looks like. */
#include "grammar.h"

#include <string.h>

/* Fails with a rule's name and line. */
static hearth_status complain(const grammar *g, uint32_t rule, const char *where, const char *what, hearth_error *error)
{
    const grammar_rule *r = &g->rules[rule];
    int size = r->name.size < 200 ? (int)r->name.size : 200;
    if (r->line > 0)
        return fail(error, HEARTH_FORMAT, "%s: line %u: rule '%.*s' %s", where, r->line, size, r->name.data, what);
    return fail(error, HEARTH_FORMAT, "%s: '%.*s' %s", where, size, r->name.data, what);
}

static bool is_link(const grammar *g, uint32_t node)
{
    return node != GRAMMAR_NONE && g->nodes[node].kind == NODE_SPLIT && g->nodes[node].other == GRAMMAR_NONE;
}

/* Returns the first node from `node` on that is not a mere link. Lets the links on the way lead there at once, so that
 * long chains are followed only once. */
static uint32_t resolve(grammar *g, uint32_t node)
{
    uint32_t target = node;
    while (is_link(g, target))
        target = g->nodes[target].next;
    while (is_link(g, node)) {
        uint32_t next = g->nodes[node].next;
        g->nodes[node].next = target;
        node = next;
    }
    return target;
}

/* Lets every node lead past links. */
static void skip_links(grammar *g)
{
    for (size_t i = 0; i < g->node_count; i++) {
        grammar_node *n = &g->nodes[i];
        n->next = resolve(g, n->next);
        if (n->kind == NODE_SPLIT)
            n->other = resolve(g, n->other);
    }
    for (size_t i = 0; i < g->rule_count; i++)
        g->rules[i].start = resolve(g, g->rules[i].start);
}

/* ---- which nodes reach an end */

/* The edges backwards: who leads to a node, and who calls a rule. */
typedef struct backwards {
    uint32_t *first; /* [nodes] of a node: an edge, or GRAMMAR_NONE                            */
    uint32_t *edge;  /* [2 * nodes] edge 2i comes from node i's next, 2i + 1 from its other;
                       * holds the following edge to the same node                               */
    uint32_t *queue; /* [nodes] */
    uint8_t *half;   /* [nodes] CALL: 1 the rule ends, 2 what follows ends                     */
} backwards;

static void backwards_free(backwards *b)
{
    mem_free(b->first);
    mem_free(b->edge);
    mem_free(b->queue);
    mem_free(b->half);
}

/* A node's second way: SPLIT's, or the start of the rule that is called. */
static uint32_t other_way(const grammar *g, const grammar_node *n)
{
    if (n->kind == NODE_CALL)
        return g->rules[n->other].start;
    return n->kind == NODE_SPLIT ? n->other : GRAMMAR_NONE;
}

static hearth_status backwards_make(backwards *b, const grammar *g, hearth_error *error)
{
    size_t n = g->node_count;
    *b = (backwards){mem_new_array(n, sizeof(uint32_t)), mem_new_array(2 * n, sizeof(uint32_t)),
                     mem_new_array(n, sizeof(uint32_t)), mem_new_array(n, 1)};
    if (!b->first || !b->edge || !b->queue || !b->half)
        return fail_memory(error, "grammar", n * 17);
    memset(b->first, 0xFF, n * sizeof *b->first);
    for (uint32_t i = 0; i < n; i++) {
        const uint32_t to[2] = {g->nodes[i].next, other_way(g, &g->nodes[i])};
        for (uint32_t k = 0; k < 2; k++) {
            if (to[k] == GRAMMAR_NONE)
                continue;
            b->edge[2 * i + k] = b->first[to[k]];
            b->first[to[k]] = 2 * i + k;
        }
    }
    return HEARTH_OK;
}

/* Marks [nodes] which nodes can reach their rule's end; without through_bytes: without reading anything. */
static void mark_ends(const grammar *g, backwards *b, bool through_bytes, bool *marked)
{
    size_t count = 0;
    memset(marked, 0, g->node_count);
    memset(b->half, 0, g->node_count);
    for (uint32_t i = 0; i < g->node_count; i++)
        if (g->nodes[i].kind == NODE_END) {
            marked[i] = true;
            b->queue[count++] = i;
        }
    while (count > 0) {
        uint32_t node = b->queue[--count];
        for (uint32_t edge = b->first[node]; edge != GRAMMAR_NONE; edge = b->edge[edge]) {
            uint32_t from = edge / 2;
            const grammar_node *n = &g->nodes[from];
            if (marked[from] || (n->kind == NODE_BYTES && (!through_bytes || n->low > n->high)))
                continue;
            if (n->kind == NODE_CALL) {
                b->half[from] |= edge % 2 ? 1 : 2;
                if (b->half[from] != 3)
                    continue;
            }
            marked[from] = true;
            b->queue[count++] = from;
        }
    }
}

/* ---- left recursion */

/* Lists in first [out, at most nodes] the rules that a rule may call before it reads a byte; returns how many. stack
 * is [nodes], seen [nodes] holds the last rule that came by. */
static size_t first_calls(const grammar *g, uint32_t rule, const bool *empty, uint32_t *stack, uint32_t *seen,
                          uint32_t *first)
{
    size_t count = 0, found = 0;
    stack[count++] = g->rules[rule].start;
    seen[g->rules[rule].start] = rule + 1;
    while (count > 0) {
        const grammar_node *n = &g->nodes[stack[--count]];
        uint32_t ways[2] = {GRAMMAR_NONE, GRAMMAR_NONE};
        if (n->kind == NODE_SPLIT) {
            ways[0] = n->next;
            ways[1] = n->other;
        } else if (n->kind == NODE_CALL) {
            first[found++] = n->other;
            if (empty[g->rules[n->other].start])
                ways[0] = n->next;
        }
        for (size_t k = 0; k < 2; k++)
            if (ways[k] != GRAMMAR_NONE && seen[ways[k]] != rule + 1) {
                seen[ways[k]] = rule + 1;
                stack[count++] = ways[k];
            }
    }
    return found;
}

/* Takes away, again and again, rules that call no rule first that is still there; what is left calls itself. A node
 * belongs to one rule, so all lists together have at most as many entries as there are nodes. */
static hearth_status refuse_left_recursion(const grammar *g, const bool *empty, const char *where, hearth_error *error)
{
    size_t n = g->node_count, r = g->rule_count;
    uint32_t *memory = mem_new_array(4 * n + 4 * r + 2, sizeof *memory);
    if (!memory)
        return fail_memory(error, "grammar", (4 * n + 4 * r + 2) * sizeof *memory);
    uint32_t *stack = memory, *seen = stack + n, *calls = seen + n, *callers = calls + n; /* [n] each */
    uint32_t *begin = callers + n, *caller_begin = begin + r + 1;                         /* [r + 1] each */
    uint32_t *left = caller_begin + r + 1, *queue = left + r;                             /* [r] each */
    uint32_t total = 0;
    for (uint32_t i = 0; i < r; i++) {
        begin[i] = total;
        left[i] = (uint32_t)first_calls(g, i, empty, stack, seen, calls + total);
        total += left[i];
    }
    begin[r] = total;
    for (uint32_t i = 0; i < total; i++)
        caller_begin[calls[i] + 1]++;
    for (uint32_t i = 0; i < r; i++)
        caller_begin[i + 1] += caller_begin[i];
    memset(stack, 0,
           n * sizeof *stack); /* now the number of a rule's callers so far; there are fewer rules than nodes */
    for (uint32_t i = 0; i < r; i++)
        for (uint32_t k = begin[i]; k < begin[i + 1]; k++)
            callers[caller_begin[calls[k]] + stack[calls[k]]++] = i;
    size_t count = 0, gone = 0;
    for (uint32_t i = 0; i < r; i++)
        if (left[i] == 0)
            queue[count++] = i;
    for (; gone < count; gone++)
        for (uint32_t k = caller_begin[queue[gone]]; k < caller_begin[queue[gone] + 1]; k++)
            if (--left[callers[k]] == 0)
                queue[count++] = callers[k];
    hearth_status status = HEARTH_OK;
    if (gone < r) {
        uint32_t rule = 0;
        while (left[rule] == 0)
            rule++;
        for (size_t step = 0; step < r; step++) { /* after as many steps it is one of a circle */
            uint32_t k = begin[rule];
            while (left[calls[k]] == 0)
                k++;
            rule = calls[k];
        }
        status = complain(g, rule, where, "calls itself before it reads anything (left recursion)", error);
    }
    mem_free(memory);
    return status;
}

/* ---- classes of bytes */

static void make_classes(grammar *g)
{
    bool begins[257] = {true};
    for (size_t i = 0; i < g->node_count; i++)
        if (g->nodes[i].kind == NODE_BYTES && g->nodes[i].alive) {
            begins[g->nodes[i].low] = true;
            begins[g->nodes[i].high + 1] = true;
        }
    uint32_t class = 0;
    for (uint32_t byte = 0; byte < 256; byte++) {
        class += byte > 0 && begins[byte];
        g->classes[byte] = (uint8_t) class;
    }
    g->class_count = class + 1;
}

hearth_status grammar_finish(grammar *g, uint32_t root, const char *where, hearth_error *error)
{
    TRY(grammar_result(g, where, error));
    for (uint32_t i = 0; i < g->rule_count; i++)
        if (g->rules[i].start == GRAMMAR_NONE)
            return complain(g, i, where, "is not defined", error);
    g->root = root;
    skip_links(g);
    backwards b;
    bool *marked = mem_new_array(g->node_count, sizeof *marked);
    hearth_status status = backwards_make(&b, g, error);
    if (status == HEARTH_OK && !marked)
        status = fail_memory(error, "grammar", g->node_count);
    if (status == HEARTH_OK) {
        mark_ends(g, &b, false, marked);
        status = refuse_left_recursion(g, marked, where, error);
    }
    if (status == HEARTH_OK) {
        mark_ends(g, &b, true, marked);
        for (size_t i = 0; i < g->node_count; i++)
            g->nodes[i].alive = marked[i];
        make_classes(g);
        if (!g->nodes[g->rules[root].start].alive)
            status = complain(g, root, where, "can never end", error);
    }
    backwards_free(&b);
    mem_free(marked);
    return status;
}
