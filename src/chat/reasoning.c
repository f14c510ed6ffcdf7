/* reasoning.c - the marks of reasoning, found in a stream. */
#include "reasoning.h"

#include <string.h>

typedef enum effect { BEGINS, ENDS, STAYS } effect;

/* then: where a prompt ends with it, the mark behind which the answer begins; NULL: it begins at once. */
static const struct mark {
    const char *text;
    effect effect;
    const char *then;
} marks[] = {
    {"<think>", BEGINS, "</think>"},
    {"</think>", ENDS, NULL},
    {"<seed:think>", BEGINS, "</seed:think>"}, /* Seed-OSS */
    {"</seed:think>", ENDS, NULL},
    {"<mm:think>", BEGINS, "</mm:think>"}, /* MiniMax M3 */
    {"</mm:think>", ENDS, NULL},
    {"[THINK]", BEGINS, "[/THINK]"}, /* Magistral */
    {"[/THINK]", ENDS, NULL},
    {"<|START_THINKING|>", BEGINS, "<|START_RESPONSE|>"}, /* Command A */
    {"<|END_THINKING|>", ENDS, "<|START_RESPONSE|>"},
    {"<|START_RESPONSE|>", ENDS, NULL},
    {"<|END_RESPONSE|>", STAYS, NULL},
    {"<|channel|>analysis<|message|>", BEGINS, "<|channel|>final<|message|>"}, /* gpt-oss */
    {"<|channel|>final<|message|>", ENDS, NULL},
    {"<|channel|>commentary<|message|>", ENDS, NULL},
    {"<|start|>assistant", STAYS, "<|channel|>final<|message|>"},
    {"<|end|>", STAYS, NULL},
};

#define COUNT (sizeof marks / sizeof *marks)

/* Compares a text with the beginning of each mark. Returns the mark that it begins with; *may_become: it is itself the
 * beginning of one. */
static const struct mark *find_mark(span text, bool *may_become)
{
    *may_become = false;
    for (size_t i = 0; i < COUNT; i++) {
        size_t size = strlen(marks[i].text), common = size < text.size ? size : text.size;
        if (memcmp(marks[i].text, text.data, common) != 0)
            continue;
        if (common == size)
            return &marks[i];
        *may_become = true;
    }
    return NULL;
}

static void apply(reasoning *r, const struct mark *m)
{
    if (m->effect != STAYS)
        r->thinks = m->effect == BEGINS;
    r->has_text = false;
}

/* Hands on plain text, without the white space behind a mark. */
static void give(reasoning *r, span text, reasoning_sink *sink, void *user)
{
    while (!r->has_text && text.size > 0 && is_white(text.data[0]))
        text = (span){text.data + 1, text.size - 1};
    if (text.size == 0)
        return;
    r->has_text = true;
    sink(user, r->thinks, text);
}

/* Returns the mark that a prompt ends with, but for white space; NULL: none. No mark is the end of another one. */
static const struct mark *last_mark(span prompt)
{
    while (prompt.size > 0 && is_white(prompt.data[prompt.size - 1]))
        prompt.size--;
    for (size_t i = 0; i < COUNT; i++) {
        size_t size = strlen(marks[i].text);
        if (size <= prompt.size && memcmp(prompt.data + prompt.size - size, marks[i].text, size) == 0)
            return &marks[i];
    }
    return NULL;
}

void reasoning_begin(reasoning *r, span prompt)
{
    const struct mark *m = last_mark(prompt);
    *r = (reasoning){0};
    if (m)
        apply(r, m);
}

const char *reasoning_answer_mark(span prompt)
{
    const struct mark *m = last_mark(prompt);
    return m ? m->then : NULL;
}

/* Lets the first held byte go: it begins no mark. Of control tokens only marks matter. */
static void let_go(reasoning *r, reasoning_sink *sink, void *user)
{
    if (!r->is_control[0])
        give(r, (span){r->held, 1}, sink, user);
    r->held_size--;
    memmove(r->held, r->held + 1, r->held_size);
    memmove(r->is_control, r->is_control + 1, r->held_size);
}

/* Adds an ASCII byte to what is held back, and lets go of what does not begin a mark. */
static void push_byte(reasoning *r, char byte, bool is_control, reasoning_sink *sink, void *user)
{
    bool may_become;
    r->held[r->held_size] = byte;
    r->is_control[r->held_size++] = is_control;
    for (;;) {
        const struct mark *m = find_mark((span){r->held, r->held_size}, &may_become);
        if (m) {
            apply(r, m);
            r->held_size = 0;
            return;
        }
        if (may_become || r->held_size == 0)
            return;
        let_go(r, sink, user);
    }
}

void reasoning_finish(reasoning *r, reasoning_sink *sink, void *user)
{
    while (r->held_size > 0)
        let_go(r, sink, user);
}

void reasoning_push(reasoning *r, span text, reasoning_sink *sink, void *user)
{
    for (size_t i = 0; i < text.size;) {
        size_t end = i;
        if ((uint8_t)text.data[i] >= 0x80) /* marks are ASCII; so characters are never cut */
            reasoning_finish(r, sink, user);
        while (r->held_size == 0 && end < text.size && text.data[end] != '<' && text.data[end] != '[')
            end++;
        if (end > i)
            give(r, (span){text.data + i, end - i}, sink, user);
        if (end < text.size)
            push_byte(r, text.data[end++], false, sink, user);
        i = end;
    }
}

void reasoning_push_control(reasoning *r, span spelling, reasoning_sink *sink, void *user)
{
    for (size_t i = 0; i < spelling.size; i++)
        push_byte(r, spelling.data[i], true, sink, user);
}
