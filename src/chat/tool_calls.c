/* tool_calls.c - marks of calls, found in a stream, and what is held back until a call is complete.
 *
 * Every byte is looked at once, and again while it may belong to a mark, so the time is linear in the answer's length. */
#include "tool_calls.h"

#include "tool_conventions.h"

#include <string.h>

/* ------------------------------------------------------------------ marks */

typedef enum match { MATCH_NONE, MATCH_BEGINS, MATCH_WHOLE } match;

/* Compares a text with a mark. BEGINS: the text ends before the mark does. */
static match match_mark(const char *mark, span text)
{
    size_t at = 0;
    for (; *mark; mark++) {
        if (*mark == ' ') {
            for (size_t white = 0; white < TOOL_MARK_WHITE && at < text.size && is_white(text.data[at]); white++)
                at++;
            continue;
        }
        if (at == text.size)
            return MATCH_BEGINS;
        if (text.data[at++] != *mark)
            return MATCH_NONE;
    }
    return MATCH_WHOLE;
}

/* Whether calls cannot begin, since what comes next is a thought. */
static bool is_shut(const tool_calls *t)
{
    return t->thinks && *t->thinks && !t->convention->in_thoughts;
}

static bool counts_here(const tool_calls *t, const tool_mark *m)
{
    if (is_shut(t))
        return false;
    return m->place == TOOL_MARK_ANYWHERE || (m->place == TOOL_MARK_AT_START && !t->has_text && !t->has_calls) ||
           (m->place == TOOL_MARK_AFTER_CALL && t->after_call);
}

/* Returns the mark that a text begins with; *may_become: it is itself the beginning of one. */
static const tool_mark *find_mark(const tool_calls *t, span text, bool *may_become)
{
    *may_become = false;
    for (size_t i = 0; i < TOOL_MARK_COUNT; i++) {
        const tool_mark *m = &t->convention->marks[i];
        match found = counts_here(t, m) ? match_mark(m->text, text) : MATCH_NONE;
        if (found == MATCH_WHOLE)
            return m;
        *may_become |= found == MATCH_BEGINS;
    }
    return NULL;
}

/* ------------------------------------------------------------------ text */

/* Gives out text, or parts of control tokens, all of one kind. White space behind a call is dropped. */
static void give(tool_calls *t, span text, bool control)
{
    while (!control && t->after_call && text.size > 0 && is_white(text.data[0]))
        text = (span){text.data + 1, text.size - 1};
    if (text.size == 0 || (t->only_one && t->has_calls))
        return;
    t->after_call &= control;
    for (size_t i = 0; i < text.size && !control && !t->has_text; i++)
        t->has_text = !is_white(text.data[i]) && !(t->thinks && *t->thinks);
    t->sink->text(t->user, text, control);
}

/* Gives out the first bytes of what is held back. */
static void let_go(tool_calls *t, size_t size)
{
    if (size == 0)
        return;
    for (size_t i = 0, end; i < size; i = end) {
        bool control = t->control.data[i];
        for (end = i + 1; end < size && t->control.data[end] == t->control.data[i];)
            end++;
        give(t, (span){t->held.data + i, end - i}, control);
    }
    t->held.size -= size;
    t->control.size = t->held.size;
    memmove(t->held.data, t->held.data + size, t->held.size);
    memmove(t->control.data, t->control.data + size, t->held.size);
}

static void drop_held(tool_calls *t)
{
    t->held.size = t->control.size = 0;
}

/* ------------------------------------------------------------------ calls */

static void begin_call(tool_calls *t, const tool_mark *m)
{
    const tool_convention *c = t->convention;
    t->in_call = true;
    t->body = m->in_body ? 0 : t->held.size;
    t->in_json = !c->quote && !c->tags && !c->json_open;
    t->is_quoted = t->escapes = false;
    t->has_body = m->in_body;
    t->depth = m->in_body; /* its brace */
}

/* Takes what was held back for no mark, nor the beginning of one, and gives it out up to where one may begin. */
static void settle(tool_calls *t)
{
    while (t->held.size > 0) {
        bool may_become;
        const tool_mark *m = find_mark(t, (span){t->held.data, t->held.size}, &may_become);
        if (m && m->place == TOOL_MARK_AFTER_CALL)
            drop_held(t);
        else if (m)
            begin_call(t, m);
        if (m || may_become)
            return;
        let_go(t, 1);
    }
}

/* Gives out as text what looked like a call. keep: bytes at its end that may begin another one. */
static void give_up(tool_calls *t, size_t keep)
{
    t->in_call = false;
    let_go(t, t->held.size - keep);
    settle(t);
}

/* Reports the calls in what is held back, of which a mark of `close` bytes is the end. false: no memory. */
static bool end_call(tool_calls *t, size_t close)
{
    json_t *calls = json_array();
    span body = {t->held.data + t->body, t->held.size - t->body - close};
    tool_reading read = calls ? t->convention->read(t->convention, body, t->tools, calls) : TOOL_NO_MEMORY;
    if (read == TOOL_BROKEN)
        give_up(t, 0);
    for (size_t i = 0; read == TOOL_READ && i < json_array_size(calls); i++) {
        if (!t->only_one || !t->has_calls)
            t->sink->call(t->user, json_array_get(calls, i));
        t->has_calls = true;
    }
    if (read == TOOL_READ) {
        t->in_call = false;
        t->after_call = true;
        drop_held(t);
    }
    json_decref(calls);
    return read != TOOL_NO_MEMORY;
}

static bool ends_with(const tool_calls *t, const char *mark)
{
    size_t size = strlen(mark);
    return t->held.size - t->body >= size && memcmp(t->held.data + t->held.size - size, mark, size) == 0;
}

/* Follows JSON: whether the next byte is within a string, and how many brackets are open. */
static void follow_json(tool_calls *t, char byte)
{
    if (t->escapes)
        t->escapes = false;
    else if (t->is_quoted && byte == '\\')
        t->escapes = true;
    else if (byte == '"')
        t->is_quoted = !t->is_quoted;
    else if (!t->is_quoted && (byte == '{' || byte == '['))
        t->depth++;
    else if (!t->is_quoted && (byte == '}' || byte == ']') && t->depth > 0)
        t->depth--;
}

/* Follows what may hold a closing mark that does not count: strings, and values behind tags. */
static void follow(tool_calls *t, char byte)
{
    const tool_convention *c = t->convention;
    if (t->in_json)
        follow_json(t, byte);
    else if (c->json_open)
        t->in_json = ends_with(t, c->json_open);
    else if (t->is_quoted)
        t->is_quoted = !ends_with(t, c->tags ? c->tags->value_close : c->quote);
    else
        t->is_quoted = ends_with(t, c->tags ? c->tags->key_open : c->quote);
}

/* Whether a byte may be the first of a call behind its mark: a bracket, or a name's. */
static bool may_begin(const tool_calls *t, char byte)
{
    return t->in_json ? byte == '{' || byte == '[' : tool_name_byte(byte);
}

/* Looks at the last byte of what is held back, which is a call so far. false: no memory. */
static bool go_on(tool_calls *t)
{
    const tool_convention *c = t->convention;
    char byte = t->held.data[t->held.size - 1];
    if (!t->has_body && !is_white(byte)) {
        t->has_body = true;
        if (!may_begin(t, byte)) {
            give_up(t, 1);
            return true;
        }
    }
    bool in_json = t->in_json;
    follow(t, byte);
    if (c->end == TOOL_END_MARK && !t->is_quoted && ends_with(t, c->close))
        return end_call(t, strlen(c->close));
    if (c->end == TOOL_END_BRACKET && in_json && t->depth == 0 && (byte == '}' || byte == ']'))
        return end_call(t, 0);
    if (t->held.size >= TOOL_CALL_LIMIT_BYTES)
        give_up(t, 0);
    return true;
}

/* ------------------------------------------------------------------ pieces */

static bool push_byte(tool_calls *t, char byte, bool control)
{
    const char flag = control;
    if (!buffer_put(&t->held, &byte, 1))
        return false;
    if (!buffer_put(&t->control, &flag, 1)) {
        t->held.size--;
        return false;
    }
    if (t->in_call)
        return go_on(t);
    settle(t);
    return true;
}

/* Returns how many bytes at the beginning of a text begin no mark. Thoughts are given out byte by byte, as each may be the
 * last of one. */
static size_t plain_size(const tool_calls *t, span text)
{
    size_t size = 0;
    bool may_become = false;
    if (is_shut(t))
        return 1;
    while (size < text.size && !find_mark(t, (span){text.data + size, 1}, &may_become) && !may_become)
        size++;
    return size;
}

static bool push(tool_calls *t, span text, bool control)
{
    if (!t->convention && text.size > 0)
        t->sink->text(t->user, text, control);
    for (size_t i = 0; t->convention && i < text.size;) {
        size_t plain = t->held.size > 0 ? 0 : plain_size(t, (span){text.data + i, text.size - i});
        give(t, (span){text.data + i, plain}, control);
        i += plain;
        if (plain == 0 && !push_byte(t, text.data[i++], control))
            return false;
    }
    return true;
}

bool tool_calls_push(tool_calls *t, span text)
{
    return push(t, text, false);
}

bool tool_calls_push_control(tool_calls *t, span spelling)
{
    return push(t, spelling, true);
}

bool tool_calls_finish(tool_calls *t)
{
    bool ok = true;
    if (t->in_call && !t->convention->tags) /* of tags only the closing mark says that there are no more */
        ok = end_call(t, 0);
    if (ok) {
        t->in_call = false;
        let_go(t, t->held.size);
    }
    return ok;
}

void tool_calls_free(tool_calls *t)
{
    buffer_free(&t->held);
    buffer_free(&t->control);
}
