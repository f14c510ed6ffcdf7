/* matcher.c - states, transitions and masks.
 *
 * A frame is a node and the frame to go back to when its rule ends, so a frame is a whole stack; equal stacks are one
 * frame, and equal sets of stacks one state (both by hashing). Frames whose node reads a byte make up a state. What a
 * call returns to is not pushed where the calling rule ends there too, so that lists written by recursion need no deep
 * stack.
 *
 * A walk over the trie costs a table look-up per node once its states are known; the first walk from a state of a new
 * kind pays for making them. Strings with a bound are the worst case: every character leads to a state, and thereby a
 * mask, of its own. */
#include "matcher.h"

#include <stdlib.h>
#include <string.h>

enum {
    STATE_DEAD = 0,    /* no way goes on, and the text is none of the grammar's */
    STATE_ENDED = 1,   /* behind the token that ends the answer                 */
    FIRST_TABLE = 256, /* slots; a power of two */
    PLAIN_LIMIT = 32,  /* few tokens have more plain bytes behind each other; those are walked through */
    PLAIN_UNKNOWN = 255,
    FRAME_EFFORT = 4 /* steps that a new frame counts for, besides its visit */
};
#define UNKNOWN UINT32_MAX

typedef struct frame {
    uint32_t node, parent; /* parent UNKNOWN: the root */
    uint32_t depth;
    uint32_t visit; /* number of the step that came by last */
} frame;

typedef struct state {
    uint32_t first, count; /* its stacks, ascending, in matcher.stacks      */
    uint32_t mask;         /* index in matcher.masks, or UNKNOWN             */
    uint8_t plain; /* so many plain bytes may follow, whichever they are, at most PLAIN_LIMIT; or PLAIN_UNKNOWN */
    bool can_end;
} state;

/* A hash table of indices, a power of two of them; UNKNOWN: free. */
typedef struct index_table {
    uint32_t *slots;
    uint32_t size, used;
} index_table;

/* All that is learnt, and may be forgotten. */
typedef struct automaton {
    frame *frames; /* [frame_count] */
    size_t frame_count, frame_capacity;
    index_table frame_table;
    state *states; /* [state_count] */
    size_t state_count, state_capacity;
    index_table state_table;
    uint32_t *stacks; /* [stack_count] frames */
    size_t stack_count, stack_capacity;
    uint32_t *next; /* [state_count][classes] states, or UNKNOWN */
    size_t next_capacity;
    uint32_t *work; /* [work_count] frames that a step still has to visit */
    size_t work_count, work_capacity;
    uint32_t visit;
} automaton;

struct matcher {
    const grammar *grammar;
    const token_trie *tokens;
    automaton a;
    uint32_t start, now;            /* states */
    size_t effort, effort_limit;    /* of the present call, see MATCHER_EFFORT_LIMIT       */
    uint32_t *way;                  /* [longest token + 1] states along the trie           */
    uint64_t *masks;                /* [MATCHER_MASK_LIMIT][words]                         */
    uint32_t *mask_owner;           /* [MATCHER_MASK_LIMIT] states, or UNKNOWN             */
    uint32_t mask_count, mask_next; /* made; the one to be replaced next                   */
    size_t words;
    size_t mask_capacity; /* words */
    uint8_t plain[256];   /* [plain_count] a byte of each class of plain ones */
    uint32_t plain_count;
};

/* ---- tables */

static uint32_t mix(uint32_t hash, uint32_t value)
{
    uint64_t x = ((uint64_t)hash << 32 | value) * 0x9e3779b97f4a7c15u;
    x ^= x >> 29;
    x *= 0xbf58476d1ce4e5b9u;
    return (uint32_t)(x >> 32);
}

static uint32_t frame_hash(const automaton *a, uint32_t i)
{
    return mix(a->frames[i].parent, a->frames[i].node);
}

static uint32_t state_hash(const automaton *a, uint32_t i)
{
    uint32_t hash = a->states[i].can_end;
    for (uint32_t k = 0; k < a->states[i].count; k++)
        hash = mix(hash, a->stacks[a->states[i].first + k]);
    return hash;
}

/* Puts an index into a table that has room. */
static void table_put(index_table *t, uint32_t hash, uint32_t index)
{
    uint32_t at = hash & (t->size - 1);
    while (t->slots[at] != UNKNOWN)
        at = (at + 1) & (t->size - 1);
    t->slots[at] = index;
    t->used++;
}

/* Makes room for one more; items [used] are in the table. */
static bool table_reserve(index_table *t, const automaton *a, uint32_t (*hash)(const automaton *a, uint32_t i))
{
    if (t->size > 0 && t->used < t->size / 2)
        return true;
    uint32_t size = t->size > 0 ? 2 * t->size : FIRST_TABLE, used = t->used;
    uint32_t *slots = mem_new_array(size, sizeof *slots);
    if (!slots)
        return false;
    memset(slots, 0xFF, size * sizeof *slots);
    mem_free(t->slots);
    *t = (index_table){.slots = slots, .size = size};
    for (uint32_t i = 0; i < used; i++)
        table_put(t, hash(a, i), i);
    return true;
}

/* Returns the frame of a node above another frame, perhaps a new one; UNKNOWN: no memory. */
static uint32_t find_frame(automaton *a, uint32_t node, uint32_t parent)
{
    if (!table_reserve(&a->frame_table, a, frame_hash))
        return UNKNOWN;
    index_table *t = &a->frame_table;
    uint32_t hash = mix(parent, node);
    for (uint32_t at = hash & (t->size - 1); t->slots[at] != UNKNOWN; at = (at + 1) & (t->size - 1)) {
        const frame *f = &a->frames[t->slots[at]];
        if (f->node == node && f->parent == parent)
            return t->slots[at];
    }
    frame *frames = mem_grow(a->frames, &a->frame_capacity, a->frame_count, 1, sizeof *frames);
    if (!frames)
        return UNKNOWN;
    a->frames = frames;
    uint32_t depth = parent == UNKNOWN ? 0 : frames[parent].depth + 1;
    frames[a->frame_count] = (frame){node, parent, depth, 0};
    table_put(t, hash, (uint32_t)a->frame_count);
    return (uint32_t)a->frame_count++;
}

static int compare(const void *a, const void *b)
{
    uint32_t x = *(const uint32_t *)a, y = *(const uint32_t *)b;
    return (x > y) - (x < y);
}

/* Returns the state of the last `count` stacks, which it takes away where there is one already; UNKNOWN: no memory. */
static uint32_t find_state(automaton *a, uint32_t count, bool can_end, uint32_t classes)
{
    uint32_t first = (uint32_t)a->stack_count - count;
    if (count > 1)
        qsort(a->stacks + first, count, sizeof *a->stacks, compare);
    state *states = mem_grow(a->states, &a->state_capacity, a->state_count, 1, sizeof *states);
    if (!states)
        return UNKNOWN;
    a->states = states;
    uint32_t made = (uint32_t)a->state_count;
    states[made] = (state){first, count, UNKNOWN, PLAIN_UNKNOWN, can_end};
    if (!table_reserve(&a->state_table, a, state_hash))
        return UNKNOWN;
    index_table *t = &a->state_table;
    uint32_t hash = state_hash(a, made);
    for (uint32_t at = hash & (t->size - 1); t->slots[at] != UNKNOWN; at = (at + 1) & (t->size - 1)) {
        const state *s = &states[t->slots[at]];
        if (s->count == count && s->can_end == can_end &&
            (count == 0 || memcmp(a->stacks + s->first, a->stacks + first, count * sizeof *a->stacks) == 0)) {
            a->stack_count = first;
            return t->slots[at];
        }
    }
    uint32_t *next = mem_grow(a->next, &a->next_capacity, (size_t)made * classes, classes, sizeof *next);
    if (!next)
        return UNKNOWN;
    a->next = next;
    memset(next + (size_t)made * classes, 0xFF, classes * sizeof *next);
    table_put(t, hash, made);
    a->state_count++;
    return made;
}

static void automaton_free(automaton *a)
{
    mem_free(a->frames);
    mem_free(a->frame_table.slots);
    mem_free(a->states);
    mem_free(a->state_table.slots);
    mem_free(a->stacks);
    mem_free(a->next);
    mem_free(a->work);
    *a = (automaton){0};
}

/* ---- steps */

/* Counts steps of the present call. false: they are too many. */
static bool spend(matcher *m, size_t steps)
{
    m->effort += steps;
    return m->effort <= m->effort_limit;
}

/* find_frame, counted: a new frame is memory, and far from what the processor has at hand. UNKNOWN: no memory, or too
 * much effort. */
static uint32_t reach_frame(matcher *m, uint32_t node, uint32_t parent)
{
    size_t before = m->a.frame_count;
    uint32_t f = find_frame(&m->a, node, parent);
    return spend(m, m->a.frame_count > before ? FRAME_EFFORT : 0) ? f : UNKNOWN;
}

/* Has a step visit a node above a frame, unless it has done so or nothing lies there. false: no memory, or too much
 * effort. */
static bool visit(matcher *m, uint32_t node, uint32_t parent)
{
    automaton *a = &m->a;
    if (!spend(m, 1))
        return false;
    if (node == GRAMMAR_NONE || !m->grammar->nodes[node].alive)
        return true;
    uint32_t f = reach_frame(m, node, parent);
    if (f == UNKNOWN)
        return false;
    if (a->frames[f].visit == a->visit || a->frames[f].depth > MATCHER_DEPTH_LIMIT)
        return true;
    a->frames[f].visit = a->visit;
    uint32_t *work = mem_grow(a->work, &a->work_capacity, a->work_count, 1, sizeof *work);
    if (!work)
        return false;
    a->work = work;
    work[a->work_count++] = f;
    return true;
}

static bool keep_stack(automaton *a, uint32_t f)
{
    uint32_t *stacks = mem_grow(a->stacks, &a->stack_capacity, a->stack_count, 1, sizeof *stacks);
    if (!stacks)
        return false;
    a->stacks = stacks;
    stacks[a->stack_count++] = f;
    return true;
}

/* Visits all that lies on the work list or is reached from there without a byte, and returns the state that this makes;
 * UNKNOWN: no memory, or too much effort. */
static uint32_t close_over(matcher *m)
{
    automaton *a = &m->a;
    const grammar *g = m->grammar;
    uint32_t count = 0;
    bool can_end = false, ok = true;
    while (ok && a->work_count > 0) {
        uint32_t f = a->work[--a->work_count], parent = a->frames[f].parent;
        const grammar_node *n = &g->nodes[a->frames[f].node];
        switch ((node_kind)n->kind) {
        case NODE_BYTES:
            ok = keep_stack(a, f);
            count += ok;
            break;
        case NODE_SPLIT:
            ok = visit(m, n->next, parent) && visit(m, n->other, parent);
            break;
        case NODE_CALL: {
            bool is_last = g->nodes[n->next].kind == NODE_END;
            uint32_t back = is_last ? parent : reach_frame(m, n->next, parent);
            ok = (is_last || back != UNKNOWN) && visit(m, g->rules[n->other].start, back);
            break;
        }
        case NODE_END:
            if (parent == UNKNOWN)
                can_end = true;
            else
                ok = visit(m, a->frames[parent].node, a->frames[parent].parent);
            break;
        }
    }
    ok = ok && spend(m, count);
    uint32_t made = ok ? find_state(a, count, can_end, g->class_count) : UNKNOWN;
    if (made == UNKNOWN) {
        a->stack_count -= count;
        a->work_count = 0;
    }
    return made;
}

/* Returns the state that a byte leads to; UNKNOWN: see step_failed. */
static uint32_t step(matcher *m, uint32_t from, uint8_t byte)
{
    automaton *a = &m->a;
    size_t cell = (size_t)from * m->grammar->class_count + m->grammar->classes[byte];
    if (a->next[cell] != UNKNOWN)
        return a->next[cell];
    if (a->state_count >= MATCHER_STEP_FACTOR * (size_t)MATCHER_STATE_LIMIT ||
        a->frame_count >= MATCHER_STEP_FACTOR * (size_t)MATCHER_STACK_LIMIT ||
        a->stack_count >= MATCHER_STEP_FACTOR * (size_t)MATCHER_STACK_LIMIT)
        return UNKNOWN;
    state s = a->states[from];
    if (!spend(m, s.count)) /* here too: bytes that lead nowhere visit nothing */
        return UNKNOWN;
    a->visit++;
    for (uint32_t i = 0; i < s.count; i++) {
        frame f = a->frames[a->stacks[s.first + i]];
        const grammar_node *n = &m->grammar->nodes[f.node];
        if (byte >= n->low && byte <= n->high && !visit(m, n->next, f.parent)) {
            a->work_count = 0;
            return UNKNOWN;
        }
    }
    uint32_t to = close_over(m);
    if (to != UNKNOWN)
        a->next[cell] = to;
    return to;
}

static hearth_status step_failed(const matcher *m, hearth_error *error)
{
    const automaton *a = &m->a;
    if (m->effort > m->effort_limit)
        return fail(error, HEARTH_UNSUPPORTED,
                    "grammar: too ambiguous: the next bytes or token need more than %zu steps", m->effort_limit);
    if (a->state_count >= MATCHER_STEP_FACTOR * (size_t)MATCHER_STATE_LIMIT ||
        a->frame_count >= MATCHER_STEP_FACTOR * (size_t)MATCHER_STACK_LIMIT ||
        a->stack_count >= MATCHER_STEP_FACTOR * (size_t)MATCHER_STACK_LIMIT)
        return fail(error, HEARTH_UNSUPPORTED, "grammar: too ambiguous: one token needs %zu states and %zu stacks",
                    a->state_count, a->stack_count);
    return fail_memory(error, "grammar", a->stack_count * sizeof *a->stacks);
}

/* Begins a call that reads so many bytes, or those of any one token. */
static void begin_effort(matcher *m, size_t bytes)
{
    m->effort = 0;
    m->effort_limit = MATCHER_EFFORT_LIMIT + bytes * MATCHER_EFFORT_OF_BYTE;
}

/* Makes the two fixed states and the first one. false: see step_failed. */
static bool begin(matcher *m)
{
    automaton *a = &m->a;
    uint32_t classes = m->grammar->class_count;
    if (find_state(a, 0, false, classes) != STATE_DEAD)
        return false;
    /* Like the dead one, but another; it is not found by its content. */
    state *states = mem_grow(a->states, &a->state_capacity, 1, 1, sizeof *states);
    if (!states)
        return false;
    a->states = states;
    uint32_t *next = mem_grow(a->next, &a->next_capacity, classes, classes, sizeof *next);
    if (!next)
        return false;
    a->next = next;
    states[STATE_ENDED] = (state){0, 0, UNKNOWN, 0, false};
    memset(next, 0, 2 * classes * sizeof *next); /* both lead to STATE_DEAD */
    a->state_count = 2;
    table_put(&a->state_table, state_hash(a, STATE_ENDED), STATE_ENDED);
    a->visit = 1;
    if (!visit(m, m->grammar->rules[m->grammar->root].start, UNKNOWN))
        return false;
    m->start = close_over(m);
    return m->start != UNKNOWN;
}

/* ---- forgetting */

/* Copies a stack of another automaton. Iteratively: from the root upwards. copies [from's frames] are what was copied
 * before, or UNKNOWN, so that what stacks share is copied once. UNKNOWN: no memory, or too much effort. */
static uint32_t copy_stack(matcher *m, const automaton *from, uint32_t *copies, uint32_t f)
{
    uint32_t way[MATCHER_DEPTH_LIMIT + 2], count = 0;
    for (; f != UNKNOWN && copies[f] == UNKNOWN; f = from->frames[f].parent)
        way[count++] = f;
    uint32_t copy = f == UNKNOWN ? UNKNOWN : copies[f];
    while (count > 0) {
        f = way[--count];
        copy = reach_frame(m, from->frames[f].node, copy);
        if (copy == UNKNOWN)
            return UNKNOWN;
        copies[f] = copy;
    }
    return copy;
}

/* Copies a state of another automaton; UNKNOWN: no memory, or too much effort. */
static uint32_t copy_state(matcher *m, const automaton *from, const state *s)
{
    uint32_t *copies = mem_new_array(from->frame_count, sizeof *copies);
    bool ok = copies && spend(m, s->count);
    if (copies)
        memset(copies, 0xFF, from->frame_count * sizeof *copies);
    for (uint32_t i = 0; i < s->count && ok; i++) {
        uint32_t f = copy_stack(m, from, copies, from->stacks[s->first + i]);
        ok = f != UNKNOWN && keep_stack(&m->a, f);
    }
    mem_free(copies);
    return ok ? find_state(&m->a, s->count, s->can_end, m->grammar->class_count) : UNKNOWN;
}

/* Forgets all states but the first and the present one, if there are many. A failure leaves everything as it was. */
static hearth_status tidy(matcher *m, hearth_error *error)
{
    automaton *a = &m->a;
    if (a->state_count < MATCHER_STATE_LIMIT && a->frame_count < MATCHER_STACK_LIMIT &&
        a->stack_count < MATCHER_STACK_LIMIT)
        return HEARTH_OK;
    automaton old = *a;
    uint32_t start = m->start, now = m->now;
    *a = (automaton){0};
    bool ok = begin(m);
    if (ok && now != STATE_ENDED && now != start) {
        m->now = copy_state(m, &old, &old.states[now]);
        ok = m->now != UNKNOWN;
    } else if (ok && now == start) {
        m->now = m->start;
    }
    if (!ok) {
        automaton_free(a);
        *a = old;
        m->start = start;
        m->now = now;
        return step_failed(m, error);
    }
    automaton_free(&old);
    m->mask_count = m->mask_next = 0;
    return HEARTH_OK;
}

/* ---- the interface */

hearth_status matcher_create(matcher **out, const grammar *g, const token_trie *tokens, hearth_error *error)
{
    matcher *m = mem_new(sizeof *m);
    if (!m)
        return fail_memory(error, "grammar", sizeof *m);
    m->grammar = g;
    m->tokens = tokens;
    m->words = ((size_t)tokens->vocabulary_size + 63) / 64;
    bool seen[256] = {false};
    for (uint32_t byte = 0; byte < 256; byte++)
        if (trie_is_plain((uint8_t)byte) && !seen[g->classes[byte]]) {
            seen[g->classes[byte]] = true;
            m->plain[m->plain_count++] = (uint8_t)byte;
        }
    m->way = mem_new_array((size_t)tokens->longest + 1, sizeof *m->way);
    m->mask_owner = mem_new_array(MATCHER_MASK_LIMIT, sizeof *m->mask_owner);
    begin_effort(m, 0);
    if (!m->way || !m->mask_owner || !begin(m)) {
        hearth_status status = step_failed(m, error);
        matcher_destroy(m);
        return status;
    }
    m->now = m->start;
    *out = m;
    return HEARTH_OK;
}

void matcher_destroy(matcher *m)
{
    if (!m)
        return;
    automaton_free(&m->a);
    mem_free(m->way);
    mem_free(m->masks);
    mem_free(m->mask_owner);
    mem_free(m);
}

void matcher_reset(matcher *m)
{
    m->now = m->start;
}

hearth_status matcher_accept(matcher *m, span bytes, hearth_error *error)
{
    begin_effort(m, bytes.size);
    TRY(tidy(m, error));
    uint32_t now = m->now;
    for (size_t i = 0; i < bytes.size; i++) {
        now = step(m, now, (uint8_t)bytes.data[i]);
        if (now == UNKNOWN)
            return step_failed(m, error);
        if (now == STATE_DEAD)
            return fail(error, HEARTH_INVALID, "grammar: byte %zu (0x%02x) cannot come there", i,
                        (unsigned)(uint8_t)bytes.data[i]);
    }
    m->now = now;
    return HEARTH_OK;
}

hearth_status matcher_accept_token(matcher *m, int32_t id, hearth_error *error)
{
    if (token_trie_ends(m->tokens, id) && matcher_can_end(m)) {
        m->now = STATE_ENDED;
        return HEARTH_OK;
    }
    span bytes = token_trie_bytes(m->tokens, id);
    if (bytes.size == 0)
        return fail(error, HEARTH_INVALID, "grammar: token %d cannot come there", id);
    return matcher_accept(m, bytes, error);
}

size_t matcher_effort(const matcher *m)
{
    return m->effort;
}

bool matcher_can_end(const matcher *m)
{
    return m->a.states[m->now].can_end;
}

/* Points *bits to a zeroed mask for a state, in the place of the oldest one where there are many. */
static hearth_status new_mask(matcher *m, uint32_t owner, uint64_t **bits, hearth_error *error)
{
    uint32_t at = m->mask_next;
    if (at == m->mask_count) {
        uint64_t *masks = m->masks;
        if ((at + 1) * m->words > m->mask_capacity || !masks)
            masks = mem_grow(m->masks, &m->mask_capacity, at * m->words, m->words > 0 ? m->words : 1, sizeof *masks);
        if (!masks)
            return fail_memory(error, "grammar", m->words * sizeof *masks);
        m->masks = masks;
        m->mask_count++;
    } else {
        m->a.states[m->mask_owner[at]].mask = UNKNOWN;
    }
    m->mask_owner[at] = owner;
    m->mask_next = at + 1 < MATCHER_MASK_LIMIT ? at + 1 : 0;
    *bits = m->masks + at * m->words;
    memset(*bits, 0, m->words * sizeof **bits);
    m->a.states[owner].mask = at;
    return HEARTH_OK;
}

/* Returns how many plain bytes may follow a state, whichever they are, up to PLAIN_LIMIT; no more than is certain. It
 * goes on as long as all of them lead to the same state, as within a string. */
static uint32_t count_plain(matcher *m, uint32_t from)
{
    uint32_t now = from, count = 0;
    if (m->a.states[from].plain != PLAIN_UNKNOWN)
        return m->a.states[from].plain;
    while (count < PLAIN_LIMIT) {
        uint32_t to = step(m, now, m->plain[0]), other = to;
        bool same = to != STATE_DEAD && to != UNKNOWN;
        for (uint32_t i = 1; same && i < m->plain_count; i++) {
            other = step(m, now, m->plain[i]);
            same = other == to;
        }
        if (other == UNKNOWN) /* the walk finds out why; the state may be asked again */
            return count;
        if (!same)
            break;
        count = to == now ? PLAIN_LIMIT : count + 1;
        now = to;
    }
    m->a.states[from].plain = (uint8_t)count;
    return count;
}

static void allow(const token_trie *t, uint32_t first, uint32_t end, uint64_t *bits)
{
    for (uint32_t k = first; k < end; k++)
        bits[t->ids[k] / 64] |= (uint64_t)1 << (t->ids[k] % 64);
}

/* Sets the bits of all tokens whose bytes lead somewhere. Does not enter where all that lies below is plain and sure
 * to be allowed, which is most of a vocabulary within strings. */
static hearth_status walk(matcher *m, uint64_t *bits, hearth_error *error)
{
    const token_trie *t = m->tokens;
    m->way[0] = m->now;
    for (uint32_t i = 0; i < t->node_count;) {
        const trie_node *n = &t->nodes[i];
        uint32_t to = step(m, m->way[n->depth], n->byte);
        if (to == UNKNOWN)
            return step_failed(m, error);
        if (to == STATE_DEAD) {
            i = n->skip;
            continue;
        }
        m->way[n->depth + 1] = to;
        bool enters = n->plain > PLAIN_LIMIT || (n->plain > 0 && n->plain > count_plain(m, to));
        uint32_t next = enters ? i + 1 : n->skip;
        allow(t, n->tokens, t->nodes[next].tokens, bits);
        i = next;
    }
    return HEARTH_OK;
}

hearth_status matcher_mask(matcher *m, const uint64_t **bits, hearth_error *error)
{
    begin_effort(m, 0);
    TRY(tidy(m, error));
    uint32_t now = m->now;
    if (m->a.states[now].mask == UNKNOWN) {
        uint64_t *made = NULL;
        TRY(new_mask(m, now, &made, error));
        hearth_status status = walk(m, made, error);
        if (status != HEARTH_OK) {
            m->mask_owner[m->a.states[now].mask] = STATE_DEAD;
            m->a.states[now].mask = UNKNOWN;
            return status;
        }
        for (size_t i = 0; m->a.states[now].can_end && i < m->words; i++)
            made[i] |= m->tokens->ends[i];
    }
    *bits = m->masks + m->a.states[now].mask * m->words;
    return HEARTH_OK;
}
