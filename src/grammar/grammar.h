/* grammar.h - a language over bytes: what an answer may be, as a graph.
 *
 * A rule is a graph of nodes that is walked from its start to an end. A walk reads bytes, chooses between two ways, or
 * calls a rule and goes on where that one ends. Rules may call themselves, but not before they have read a byte (left
 * recursion), as a matcher would never come to an end of calling.
 *
 * gbnf.h and schema.h make grammars of texts, piece by piece with the functions below; matcher.h follows one. A
 * finished grammar is read-only and may be shared between threads. It knows nothing of tokens. */
#ifndef GRAMMAR_GRAMMAR_H
#define GRAMMAR_GRAMMAR_H

#include "../base/memory.h"
#include "../base/text.h"

enum {
    GRAMMAR_NODE_LIMIT = 1 << 18,
    GRAMMAR_RULE_LIMIT = 1 << 16,
    GRAMMAR_REPEAT_LIMIT = 1 << 14, /* of the numbers in {m,n}: every repetition is a node or two */
    GRAMMAR_DEPTH_LIMIT = 64        /* of nested groups and schemas: parsers call themselves      */
};

#define GRAMMAR_NONE     UINT32_MAX /* no node, no rule            */
#define GRAMMAR_NO_LIMIT UINT32_MAX /* as the second number of {m,} */

typedef enum node_kind {
    NODE_BYTES, /* reads a byte low..high, then goes to next       */
    NODE_SPLIT, /* goes to next or to other (GRAMMAR_NONE: only next) */
    NODE_CALL,  /* walks rule `other`, then goes to next           */
    NODE_END    /* the rule ends                                   */
} node_kind;

typedef struct grammar_node {
    uint8_t kind; /* node_kind */
    uint8_t low, high;
    bool alive; /* an end can be reached from here; a matcher never enters others */
    uint32_t next, other;
} grammar_node;

typedef struct grammar_rule {
    span name;      /* in the grammar's arena                              */
    uint32_t line;  /* where it is first mentioned; 0: there are no lines  */
    uint32_t start; /* GRAMMAR_NONE: not defined                           */
} grammar_rule;

typedef struct grammar {
    arena memory;
    grammar_node *nodes; /* [node_count] */
    size_t node_count, node_capacity;
    grammar_rule *rules; /* [rule_count] */
    size_t rule_count, rule_capacity;
    uint32_t root;        /* rule                                                            */
    uint8_t classes[256]; /* byte -> class: bytes that no node tells apart have the same one */
    uint32_t class_count; /* at most 256                                                     */
    hearth_status status; /* of the functions below: the first failure                       */
} grammar;

/* ---- building. Where memory or a limit runs out, the grammar remembers it, and all further calls do nothing; a
 * parser asks grammar_result where it knows the place, and need not ask earlier. */

/* Part of a graph: the end is a node that leads nowhere as yet. Each is used once. */
typedef struct fragment {
    uint32_t start, end;
} fragment;

/* A range of code points. */
typedef struct character_range {
    uint32_t low, high;
} character_range;

hearth_status grammar_create(grammar **out, hearth_error *error);
void grammar_destroy(grammar *g);

/* Returns a new rule without a definition; line as in grammar_rule. GRAMMAR_NONE: failed. */
uint32_t grammar_rule_new(grammar *g, span name, uint32_t line);
void grammar_rule_define(grammar *g, uint32_t rule, fragment body);

fragment grammar_empty(grammar *g);
fragment grammar_bytes(grammar *g, uint8_t low, uint8_t high);
fragment grammar_literal(grammar *g, span text);
fragment grammar_call(grammar *g, uint32_t rule);
/* One character of the ranges [count], in any order, or (negated) one of none of them, in UTF-8. Surrogates are no
 * characters. No range: matches nothing. In characters.c. */
fragment grammar_characters(grammar *g, const character_range *ranges, size_t count, bool negated);
fragment grammar_then(grammar *g, fragment a, fragment b);
fragment grammar_either(grammar *g, fragment a, fragment b);
fragment grammar_optional(grammar *g, fragment a);
/* least to most times; most GRAMMAR_NO_LIMIT: any number. Numbers above GRAMMAR_REPEAT_LIMIT count as a limit that ran
 * out. */
fragment grammar_repeat(grammar *g, fragment a, uint32_t least, uint32_t most);
/* Makes a fragment's end lead to a node. */
void grammar_link(grammar *g, uint32_t end, uint32_t to);

/* HEARTH_OK, or the failure that happened: HEARTH_NO_MEMORY; HEARTH_UNSUPPORTED: the grammar is too large. The text
 * begins with `where`. */
hearth_status grammar_result(const grammar *g, const char *where, hearth_error *error);

/* Completes the grammar: finds out which nodes are alive, and the classes of bytes. In finish.c. HEARTH_FORMAT: a rule
 * is not defined, calls itself before it reads a byte, or (the root) can never end; named with its line. */
hearth_status grammar_finish(grammar *g, uint32_t root, const char *where, hearth_error *error);

#endif
