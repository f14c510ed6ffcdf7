/* splitter.c - words by PCRE2. */
#include "splitter.h"

#include "../base/memory.h"

#define PCRE2_CODE_UNIT_WIDTH 8
#include <pcre2.h>
#include <string.h>

/* Bounds of one match. An expression of a real vocabulary needs a few steps per character. */
enum { MATCH_STEPS = 2000000, MATCH_KB = 65536, STACK_BYTES = 1 << 20, FIRST_STACK_BYTES = 1 << 15 };

/* Bytes of the longest expression that is accepted; the longest known one has about 2,000. */
enum { PATTERN_LIMIT = 1 << 16 };

typedef struct compiled_rule {
    pcre2_code *code;
    split_behaviour behaviour;
    bool inverted;
} compiled_rule;

struct splitter {
    compiled_rule *rules; /* [count] */
    size_t count;
};

const char *split_behaviour_name(split_behaviour behaviour)
{
    static const char *const names[SPLIT_BEHAVIOUR_COUNT] = {
        [SPLIT_ISOLATED] = "isolated",
        [SPLIT_REMOVED] = "removed",
        [SPLIT_MERGED_WITH_PREVIOUS] = "merged_with_previous",
        [SPLIT_MERGED_WITH_NEXT] = "merged_with_next",
        [SPLIT_CONTIGUOUS] = "contiguous",
    };
    return names[behaviour];
}

static void *allocate(PCRE2_SIZE size, void *unused)
{
    (void)unused;
    return mem_new(size);
}

static void release(void *block, void *unused)
{
    (void)unused;
    mem_free(block);
}

/* ----------------------------------------------------------------- compile */

/* Published expressions that cut digits into groups of three, counted from the right. They look ahead to the end of the
 * run from each group, so that a run of n digits takes n * n steps. The same in n steps: a group begins where the run
 * does, or where the search goes on (\G) behind another one, and is whole then. `slow` is isolated, `fast` as it says. */
static const struct {
    const char *slow, *fast;
    split_behaviour behaviour;
} in_one_pass[] = {
    {"\\p{N}{1,3}(?=(?:\\p{N}{3})*(?!\\p{N}))",
     "(?<=\\p{N})\\G\\p{N}{3}|(?<!\\p{N})\\p{N}{1,3}(?=(?:\\p{N}{3})*(?!\\p{N}))", SPLIT_ISOLATED},
    {"\\d{1,3}(?=(?:\\d{3})*\\b)", "(?<=\\d)\\G\\d{3}|(?<!\\d)\\d{1,3}(?=(?:\\d{3})*\\b)", SPLIT_ISOLATED},
    /* Matches nothing, where a part begins. */
    {"(?=(\\d{3})+(?!\\d))", "(?<=\\d)\\G\\d{3}|\\d{3}(?=(?:\\d{3})*(?!\\d))", SPLIT_MERGED_WITH_NEXT},
};

/* Returns the rule, or one that finds the same in fewer steps. */
static split_rule faster(split_rule rule)
{
    if (rule.behaviour == SPLIT_ISOLATED && !rule.inverted)
        for (size_t i = 0; i < sizeof in_one_pass / sizeof *in_one_pass; i++)
            if (strcmp(rule.pattern, in_one_pass[i].slow) == 0)
                return (split_rule){in_one_pass[i].fast, in_one_pass[i].behaviour, false};
    return rule;
}

/* Unicode's White_Space, as Oniguruma's \s has it: that of PCRE2 has U+180E too, which is none since Unicode 6.3. */
#define SPACES "\\t-\\r \\x{85}\\p{Z}"

/* Writes an expression with \s and \S in other words, outside and inside of classes. Returns NULL, or what of it means
 * something else to PCRE2 than to Oniguruma. */
static const char *translate(const char *pattern, buffer *out)
{
    bool in_class = false;
    for (const char *p = pattern; *p;) {
        size_t length = p[0] == '\\' && p[1] ? 2 : 1;
        const char *text = p;
        size_t size = length;
        if (length == 2 && p[1] == 's')
            text = in_class ? SPACES : "[" SPACES "]";
        else if (length == 2 && p[1] == 'S' && !in_class)
            text = "[^" SPACES "]";
        else if (in_class && ((*p == '[' && p[1] != ':') || (p[0] == '&' && p[1] == '&')))
            return "a class within a class";
        else if (*p == '[' && !in_class) {
            in_class = true;
            size_t begin = p[1] == '^' ? 2 : 1;
            length = size = begin + (p[begin] == ']' ? 1 : 0); /* a bracket that comes first is a character */
        } else if (*p == '[')
            length = size = strcspn(p, "]") + (strchr(p, ']') ? 1 : 0); /* [:alpha:] */
        else if (*p == ']')
            in_class = false;
        if (text != p)
            size = strlen(text);
        if (!buffer_put(out, text, size))
            return "out of memory";
        p += length;
    }
    return NULL;
}

static hearth_status compile(compiled_rule *r, split_rule rule, pcre2_compile_context *context, const char *name,
                             hearth_error *error)
{
    size_t length = strlen(rule.pattern);
    if (length > PATTERN_LIMIT)
        return fail(error, HEARTH_UNSUPPORTED, "%s: an expression has %zu bytes, more than %d", name, length,
                    PATTERN_LIMIT);
    buffer translated = {0};
    const char *problem = translate(rule.pattern, &translated);
    if (problem) {
        buffer_free(&translated);
        return fail(error, HEARTH_UNSUPPORTED, "%s: expression '%.200s': %s", name, rule.pattern, problem);
    }
    int number;
    PCRE2_SIZE offset;
    r->code = pcre2_compile((PCRE2_SPTR)translated.data, translated.size, PCRE2_UTF | PCRE2_UCP | PCRE2_MULTILINE,
                            &number, &offset, context);
    buffer_free(&translated);
    if (!r->code) {
        char reason[128];
        pcre2_get_error_message(number, (PCRE2_UCHAR *)reason, sizeof reason);
        return fail(error, HEARTH_UNSUPPORTED, "%s: expression '%.200s': %s", name, rule.pattern, reason);
    }
    pcre2_jit_compile(r->code, PCRE2_JIT_COMPLETE); /* where it cannot, PCRE2 interprets: the result is the same */
    r->behaviour = rule.behaviour;
    r->inverted = rule.inverted;
    return HEARTH_OK;
}

hearth_status splitter_create(splitter **out, const split_rule *rules, size_t count, const char *name,
                              hearth_error *error)
{
    splitter *s = mem_new(sizeof *s);
    if (!s)
        return fail_memory(error, name, sizeof *s);
    hearth_status status = HEARTH_OK;
    pcre2_general_context *memory = pcre2_general_context_create(allocate, release, NULL);
    pcre2_compile_context *context = memory ? pcre2_compile_context_create(memory) : NULL;
    s->rules = mem_new_array(count, sizeof *s->rules);
    if (!context || !s->rules)
        status = fail_memory(error, name, count * sizeof *s->rules);
    for (; status == HEARTH_OK && s->count < count; s->count += status == HEARTH_OK)
        status = compile(&s->rules[s->count], faster(rules[s->count]), context, name, error);
    pcre2_compile_context_free(context);
    pcre2_general_context_free(memory);
    if (status == HEARTH_OK)
        *out = s;
    else
        splitter_destroy(s);
    return status;
}

void splitter_destroy(splitter *s)
{
    if (!s)
        return;
    for (size_t i = 0; s->rules && i < s->count; i++)
        pcre2_code_free(s->rules[i].code);
    mem_free(s->rules);
    mem_free(s);
}

/* ------------------------------------------------------------------- split */

static bool memory_fill(split_memory *m)
{
    if (m->match)
        return true;
    pcre2_general_context *memory = pcre2_general_context_create(allocate, release, NULL);
    if (!memory)
        return false;
    pcre2_match_context *context = pcre2_match_context_create(memory);
    m->context = context;
    m->match = pcre2_match_data_create(1, memory);
    m->stack = pcre2_jit_stack_create(FIRST_STACK_BYTES, STACK_BYTES, memory); /* NULL: without JIT */
    pcre2_general_context_free(memory);
    if (!m->context || !m->match) {
        split_memory_free(m);
        return false;
    }
    pcre2_set_match_limit(context, MATCH_STEPS);
    pcre2_set_heap_limit(context, MATCH_KB);
    if (m->stack)
        pcre2_jit_stack_assign(context, NULL, m->stack);
    return true;
}

void split_memory_free(split_memory *m)
{
    pcre2_match_data_free(m->match);
    pcre2_match_context_free(m->context);
    pcre2_jit_stack_free(m->stack);
    *m = (split_memory){0};
}

typedef struct walk {
    const splitter *splitter;
    const split_memory *memory;
    hearth_status (*take)(void *user, span word, hearth_error *error);
    void *user;
    hearth_error *error;
} walk;

static hearth_status cut(walk *w, size_t level, span part);

/* The part of a rule's cutting that may still grow. */
typedef struct growing {
    walk *walk;
    size_t level; /* of the rules behind this one */
    split_behaviour behaviour;
    span part; /* NULL: none */
    bool is_match;
} growing;

static hearth_status flush(growing *g)
{
    span part = g->part;
    g->part = (span){NULL, 0};
    return part.size > 0 ? cut(g->walk, g->level, part) : HEARTH_OK;
}

/* Adds the next part, a match or what lies between two: it grows the last one, or takes its place. */
static hearth_status add(growing *g, span part, bool is_match)
{
    if (part.size == 0 || (is_match && g->behaviour == SPLIT_REMOVED))
        return HEARTH_OK;
    bool joins = false;
    if (g->part.data)
        joins = (g->behaviour == SPLIT_CONTIGUOUS && is_match == g->is_match) ||
                (g->behaviour == SPLIT_MERGED_WITH_PREVIOUS && is_match && !g->is_match) ||
                (g->behaviour == SPLIT_MERGED_WITH_NEXT && !is_match && g->is_match);
    if (joins) {
        g->part.size += part.size;
        g->is_match = g->behaviour == SPLIT_MERGED_WITH_NEXT ? false : is_match;
        return HEARTH_OK;
    }
    TRY(flush(g));
    g->part = part;
    g->is_match = is_match;
    return HEARTH_OK;
}

static int match(const walk *w, const compiled_rule *r, span part, size_t at, uint32_t options)
{
    return pcre2_match(r->code, (PCRE2_SPTR)part.data, part.size, at, options, w->memory->match, w->memory->context);
}

/* Finds the next match that is not empty, or an empty one behind `least`. Returns false where there is none; *begin and
 * *end are its bounds. */
static hearth_status find(const walk *w, const compiled_rule *r, span part, size_t from, size_t least, bool *found,
                          size_t *begin, size_t *end)
{
    *found = false;
    for (size_t at = from; at <= part.size;) {
        int count = match(w, r, part, at, PCRE2_NO_UTF_CHECK);
        if (count == PCRE2_ERROR_JIT_STACKLIMIT) /* the interpreter has more memory */
            count = match(w, r, part, at, PCRE2_NO_UTF_CHECK | PCRE2_NO_JIT);
        if (count == PCRE2_ERROR_NOMATCH)
            return HEARTH_OK;
        if (count < 0) {
            char reason[128];
            pcre2_get_error_message(count, (PCRE2_UCHAR *)reason, sizeof reason);
            return fail(w->error, HEARTH_UNSUPPORTED, "text: the vocabulary's pre-tokenizer gives up: %s", reason);
        }
        const PCRE2_SIZE *bounds = pcre2_get_ovector_pointer(w->memory->match);
        *begin = bounds[0];
        *end = bounds[1];
        if (*end > *begin || *begin > least) {
            *found = true;
            return HEARTH_OK;
        }
        at = at < part.size ? at + utf8_length(part.data + at, part.size - at) : at + 1;
    }
    return HEARTH_OK;
}

/* Cuts a part by the rule of this level, and hands what comes out to the next level. */
static hearth_status cut(walk *w, size_t level, span part)
{
    if (level == w->splitter->count)
        return w->take(w->user, part, w->error);
    const compiled_rule *r = &w->splitter->rules[level];
    growing g = {.walk = w, .level = level + 1, .behaviour = r->behaviour};
    size_t done = 0, begin = 0, end = 0;
    for (bool found; done < part.size; done = end) {
        TRY(find(w, r, part, done, done, &found, &begin, &end));
        if (!found)
            break;
        TRY(add(&g, (span){part.data + done, begin - done}, r->inverted));
        if (end == begin) /* an empty match separates, but is no part */
            TRY(flush(&g));
        TRY(add(&g, (span){part.data + begin, end - begin}, !r->inverted));
    }
    TRY(add(&g, (span){part.data + done, part.size - done}, r->inverted));
    return flush(&g);
}

/* Returns how many bytes at the start of a text are valid UTF-8. */
static size_t valid_prefix(span text)
{
    size_t i = 0;
    while (i < text.size) {
        if ((uint8_t)text.data[i] < 0x80) {
            i++;
            continue;
        }
        size_t length = utf8_length(text.data + i, text.size - i);
        if (length == 0)
            break;
        i += length;
    }
    return i;
}

hearth_status splitter_split(const splitter *s, span text, split_memory *memory,
                             hearth_status (*take)(void *user, span word, hearth_error *error), void *user,
                             hearth_error *error)
{
    if (s->count > 0 && !memory_fill(memory))
        return fail_memory(error, "text", text.size);
    walk w = {s, memory, take, user, error};
    while (text.size > 0) {
        size_t valid = valid_prefix(text);
        if (valid > 0)
            TRY(cut(&w, 0, (span){text.data, valid}));
        size_t end = valid;
        while (end < text.size && utf8_length(text.data + end, text.size - end) == 0)
            end++;
        if (end > valid)
            TRY(take(user, (span){text.data + valid, end - valid}, error));
        text = (span){text.data + end, text.size - end};
    }
    return HEARTH_OK;
}
