/* chat_reasoning.c - what a model thinks and what it says, told apart however the text is cut. */
#include "../src/base/memory.h"
#include "../src/chat/reasoning.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

typedef struct parts {
    buffer thoughts, answer;
} parts;

static void collect(void *user, bool is_reasoning, span text)
{
    parts *p = user;
    assert_true(text.size > 0);
    assert_true(utf8_is_valid(text.data, text.size));
    assert_true(buffer_put(is_reasoning ? &p->thoughts : &p->answer, text.data, text.size));
}

static void expect_text(const buffer *got, const char *expected)
{
    if (!span_equal((span){got->data, got->size}, span_of(expected)))
        fail_msg("expected '%s', got '%.*s'", expected, (int)got->size, got->data);
}

/* Cuts a text into pieces of `size` bytes, whole characters each. */
static void expect_parts(const char *prompt, const char *text, const char *thoughts, const char *answer)
{
    for (size_t size = 1; size <= strlen(text) + 1; size++) {
        parts p = {0};
        reasoning r;
        reasoning_begin(&r, span_of(prompt));
        for (size_t at = 0; at < strlen(text);) {
            size_t end = at + size < strlen(text) ? at + size : strlen(text);
            while (((uint8_t)text[end] & 0xc0) == 0x80)
                end++;
            reasoning_push(&r, (span){text + at, end - at}, collect, &p);
            at = end;
        }
        reasoning_finish(&r, collect, &p);
        expect_text(&p.thoughts, thoughts);
        expect_text(&p.answer, answer);
        buffer_free(&p.thoughts);
        buffer_free(&p.answer);
    }
}

static void tells_thoughts_from_answers(void **state)
{
    (void)state;
    expect_parts("", "Hello, w\u00f6rld", "", "Hello, w\u00f6rld");
    expect_parts("", "<think>\nhm \u4f60\n</think>\n\nYes", "hm \u4f60\n", "Yes");
    expect_parts("assistant\n<think>\n", "hm</think>Yes", "hm", "Yes");
    expect_parts("assistant\n<think>\n\n</think>\n\n", "Yes", "", "Yes");
    expect_parts("", "a < b, <thin>, <th\u00e9, <<think>x</think>y<", "x", "a < b, <thin>, <th\u00e9, <y<");
    expect_parts("", "[THINK]x[/THINK]y [1]", "x", "y [1]");
    expect_parts("<|start|>assistant",
                 "<|channel|>analysis<|message|>We\nmust<|end|><|start|>assistant<|channel|>final<|message|>Four",
                 "We\nmust", "Four");
    expect_parts("", "<mm:think>x</mm:think>y <mm>", "x", "y <mm>");
    expect_parts("]~b]ai\n</mm:think>", "y", "", "y");
    expect_parts("", "<think>never ends", "never ends", "");
    expect_parts("", "  blank", "", "blank");
    expect_parts("", "", "", "");
}

/* Pieces in turn: text, control token, text ... */
static void expect_pieces(const char *const *pieces, const char *thoughts, const char *answer)
{
    parts p = {0};
    reasoning r = {0};
    for (size_t i = 0; pieces[i]; i++)
        (i % 2 ? reasoning_push_control : reasoning_push)(&r, span_of(pieces[i]), collect, &p);
    reasoning_finish(&r, collect, &p);
    expect_text(&p.thoughts, thoughts);
    expect_text(&p.answer, answer);
    buffer_free(&p.thoughts);
    buffer_free(&p.answer);
}

static void control_tokens_are_no_text(void **state)
{
    (void)state;
    expect_pieces((const char *const[]){"", "<think>", "hm", "</think>", "Yes", "<|im_end|>", NULL}, "hm", "Yes");
    expect_pieces((const char *const[]){"a", "<s>", "b", "<", "<c", "[TH", "INC] d", "</s>", "<", NULL}, "",
                  "ab<cINC] d<");
    expect_pieces((const char *const[]){"", "<|channel|>", "analysis", "<|message|>", "We", "<|end|>", "", "<|start|>",
                                        "assistant", "<|channel|>", "final", "<|message|>", "Four", NULL},
                  "We", "Four");
    expect_pieces((const char *const[]){"a", "\u2581<x", "b", NULL}, "", "ab");
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(tells_thoughts_from_answers),
                                       cmocka_unit_test(control_tokens_are_no_text)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
