/* chat_tool_calls.c - calls of tools, found in what models answer: every convention, cut anywhere, and what only looks like
 * a call. */
#include "../src/base/file.h"
#include "../src/base/memory.h"
#include "../src/chat/conversation.h"
#include "../src/chat/tool_demand.h"
#include "../src/grammar/matcher.h"
#include "../src/grammar/schema.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#define TEMPLATES HEARTH_DATA "/golden/templates/"

/* DeepSeek's marks. */
#define DS(words)   "<\xef\xbd\x9c" words "\xef\xbd\x9c>"
#define BL          "\xe2\x96\x81"
#define SECTION     DS("tool" BL "calls" BL "begin")
#define SECTION_END DS("tool" BL "calls" BL "end")
#define CALL        DS("tool" BL "call" BL "begin")
#define CALL_END    DS("tool" BL "call" BL "end")
#define SEP         DS("tool" BL "sep")
#define DSML       \
    "\xef\xbd\x9c" \
    "DSML"         \
    "\xef\xbd\x9c"

/* What stands before MiniMax M3's. */
#define M3 "]<]minimax[>["

static const char tools_text[] =
    "[{\"type\": \"function\", \"function\": {\"name\": \"f\", \"parameters\": {\"type\": \"object\", \"properties\": {"
    "\"s\": {\"type\": \"string\"}, \"i\": {\"type\": \"integer\"}, \"n\": {\"type\": \"number\"}, "
    "\"b\": {\"type\": \"boolean\"}, \"l\": {\"type\": \"array\"}, \"o\": {\"type\": [\"object\", \"null\"]}, "
    "\"m\": {\"anyOf\": [{\"type\": \"string\"}, {\"type\": \"null\"}]}, \"any\": {}, "
    "\"p\": {\"anyOf\": [{\"type\": \"object\", \"properties\": {\"item\": {\"type\": \"string\"}, \"k\": {\"type\": "
    "\"integer\"}}}, {\"type\": \"null\"}]}, \"q\": {\"anyOf\": [{\"type\": \"array\", \"items\": {\"type\": "
    "\"string\"}}, "
    "{\"type\": \"null\"}]}, \"r\": {\"type\": [\"array\", \"null\"]}}}}}]";

/* What stands in the source of a template, what a model answers, and what comes of it: text, and calls as [name arguments]. */
static const struct example {
    const char *source, *answer, *events;
} examples[] = {
    /* Hermes */
    {"<tool_call>", "Look.\n<tool_call>\n{\"name\": \"f\", \"arguments\": {\"s\": \"x\"}}\n</tool_call>",
     "Look.\n[f {\"s\": \"x\"}]"},
    {"<tool_call>",
     "<tool_call>{\"name\":\"f\",\"arguments\":{}}</tool_call>\n <tool_call>{\"name\":\"g\",\"arguments\":{\"n\":1.10}}"
     "</tool_call>\n",
     "[f {}][g {\"n\":1.10}]"},
    {"<tool_call>", "<tool_call>{\"name\": \"f\", \"arguments\": {\"s\": \"\\\"</tool_call>{\"}}</tool_call> so",
     "[f {\"s\": \"\\\"</tool_call>{\"}]so"},
    {"<tool_call>", "<tool_call>{\"arguments\": {\"big\": 123456789012345678901234567890}, \"name\": \"f\"}",
     "[f {\"big\": 123456789012345678901234567890}]"},
    {"<tool_call>", "<tool_call>{\"name\": \"f\", \"arguments\": \"{\\\"s\\\": 1}\"}</tool_call>", "[f {\"s\": 1}]"},
    {"<tool_call>",
     "a <b> <tool_call <tool_call>{\"name\": \"w\xc3\xb6\", \"arguments\": {\"s\": \"\xe4\xbd\xa0\"}}</tool_call>",
     "a <b> <tool_call [w\xc3\xb6 {\"s\": \"\xe4\xbd\xa0\"}]"},
    {"<tool_call>", "between <tool_call> and <tool_call>{\"name\": \"f\", \"arguments\": {}}</tool_call>",
     "between <tool_call> and [f {}]"},
    {"<tool_call>",
     "<tool_call>{\"id\": 5, \"ok\" : true, \"x\": {\"arguments\": 1}, \"arguments\": {}, \"name\": \"f\"}</tool_call>",
     "[f {}]"},
    /* broken ones are text */
    {"<tool_call>", "<tool_call>{\"name\": \"f\", \"arguments\": {}</tool_call>",
     "<tool_call>{\"name\": \"f\", \"arguments\": {}</tool_call>"},
    {"<tool_call>", "<tool_call>{\"name\": \"f\", \"arguments\": {\"s\": \"x",
     "<tool_call>{\"name\": \"f\", \"arguments\": {\"s\": \"x"},
    {"<tool_call>", "<tool_call>{\"name\": \"f\", \"arguments\": [1]}</tool_call>",
     "<tool_call>{\"name\": \"f\", \"arguments\": [1]}</tool_call>"},
    {"<tool_call>", "<tool_call>{\"name\": 1, \"arguments\": {}}</tool_call>.",
     "<tool_call>{\"name\": 1, \"arguments\": {}}</tool_call>."},
    {"<tool_call>", "<tool_call>{\"name\": \"\", \"arguments\": {}}</tool_call>",
     "<tool_call>{\"name\": \"\", \"arguments\": {}}</tool_call>"},
    {"<tool_call>", "<tool_call></tool_call>", "<tool_call></tool_call>"},
    {"<tool_call>", "<tool_call>{\"name\": \"f\", \"arguments\": {}} no</tool_call>",
     "<tool_call>{\"name\": \"f\", \"arguments\": {}} no</tool_call>"},
    {"<tool_call>", "<tool_ca", "<tool_ca"},
    {"<tool_call>", "<tool_call>", "<tool_call>"},
    {"", "<tool_call>{\"name\": \"f\", \"arguments\": {}}</tool_call>",
     "<tool_call>{\"name\": \"f\", \"arguments\": {}}</tool_call>"},
    /* Llama 3 */
    {"<|start_header_id|>\"parameters\": ", "{\"name\": \"f\", \"parameters\": {\"s\": \"x\"}}", "[f {\"s\": \"x\"}]"},
    {"<|start_header_id|>\"parameters\": ",
     " {\n \"name\" : \"f\", \"parameters\": {}}; {\"name\": \"g\", \"parameters\": {}}\n", " [f {}][g {}]"},
    {"<|start_header_id|>\"parameters\": ",
     "\1<|python_tag|>\2{\"type\": \"function\", \"name\": \"f\", \"parameters\": {\"i\": 1}}", "[f {\"i\": 1}]"},
    {"<|start_header_id|>\"parameters\": ", "{\"name\": \"f\", \"parameters\": {}} is a call",
     "{\"name\": \"f\", \"parameters\": {}} is a call"},
    {"<|start_header_id|>\"parameters\": ", "{\"name\": \"John\"}", "{\"name\": \"John\"}"},
    {"<|start_header_id|>\"parameters\": ", "Try {\"name\": \"f\", \"parameters\": {}}",
     "Try {\"name\": \"f\", \"parameters\": {}}"},
    {"<|start_header_id|>\"parameters\": ", "\1<|python_tag|>\2print(1)", "print(1)"},
    /* Mistral */
    {"[TOOL_CALLS]",
     "\1[TOOL_CALLS]\2[{\"name\": \"f\", \"arguments\": {\"s\": \"]\"}}, {\"name\": \"g\", \"arguments\": {}, \"id\": "
     "\"1\"}]",
     "[f {\"s\": \"]\"}][g {}]"},
    {"[TOOL_CALLS][ARGS]",
     "So\1[TOOL_CALLS]\2f\1[ARGS]\2{\"s\": [1]}\1[TOOL_CALLS]\2g\1[CALL_ID]\2abcdefghi\1[ARGS]\2{}",
     "So[f {\"s\": [1]}][g {}]"},
    {"[TOOL_CALLS][ARGS]", "\1[TOOL_CALLS]\2f\1[ARGS]\2{\"s\": ", "f{\"s\": "},
    {"[TOOL_CALLS]", "\1[TOOL_CALLS]\2 none [1]", " none [1]"},
    /* Qwen3-Coder */
    {"<function=<parameter=",
     "Go\n<tool_call>\n<function=f>\n<parameter=s>\n5\n</parameter>\n<parameter=i>\n5\n</"
     "parameter>\n<parameter=n>\n1.10\n"
     "</parameter>\n<parameter=b>\nTrue\n</parameter>\n<parameter=l>\n[1, \"a\"]\n</parameter>\n<parameter=o>\nNone\n"
     "</parameter>\n<parameter=m>\nnull\n</parameter>\n<parameter=any>\n{\"k\": 1}\n</parameter>\n<parameter=new>\nx "
     "y\n"
     "</parameter>\n</function>\n</tool_call>\n",
     "Go\n[f {\"s\":\"5\",\"i\":5,\"n\":1.10,\"b\":true,\"l\":[1, \"a\"],\"o\":null,\"m\":null,\"any\":{\"k\": "
     "1},\"new\":\"x y\"}]"},
    {"<function=<parameter=",
     "<tool_call>\n<function=f>\n<parameter=s>\n\n</function>\"\\\n\n</parameter>\n</function>\n</tool_call>"
     "<tool_call>\n<function=g>\n</function>\n</tool_call>",
     "[f {\"s\":\"\\n</function>\\\"\\\\\\n\"}][g {}]"},
    {"<function=<parameter=", "<function=f><parameter=i>many</parameter></function> </tool_call>",
     "[f {\"i\":\"many\"}]"},
    {"<function=<parameter=", "<tool_call>\n<function=f>\n<parameter=s>\nx\n",
     "<tool_call>\n<function=f>\n<parameter=s>\nx\n"},
    {"<function=<parameter=", "<function=f><parameter=s>a</parameter><parameter=s>b</parameter></function>",
     "<function=f><parameter=s>a</parameter><parameter=s>b</parameter></function>"},
    {"<function=<parameter=", "<function=f> so <parameter=s>a</parameter></function>",
     "<function=f> so <parameter=s>a</parameter></function>"},
    {"<function=<parameter=", "<tool_call> </tool_call>", "<tool_call> </tool_call>"},
    {"<seed:tool_call>",
     "<seed:tool_call>\n<function=f>\n<parameter=s>a\n</parameter>\n<parameter=i>2</parameter>\n</function>\n</"
     "seed:tool_call>",
     "[f {\"s\":\"a\\n\",\"i\":2}]"},
    /* GLM */
    {"<arg_key>",
     "\n<tool_call>f\n<arg_key>s</arg_key>\n<arg_value>7\n</arg_value>\n<arg_key>i</arg_key>\n<arg_value>7</"
     "arg_value>\n</tool_call>",
     "\n[f {\"s\":\"7\\n\",\"i\":7}]"},
    {"<arg_key>",
     "<tool_call>f</tool_call><tool_call>g<arg_key>k</arg_key><arg_value></tool_call></arg_value></tool_call>",
     "[f {}][g {\"k\":\"</tool_call>\"}]"},
    {"<arg_key>", "<tool_call>f<arg_key>s</tool_call>", "<tool_call>f<arg_key>s</tool_call>"},
    /* MiniMax */
    {"<minimax:tool_call>",
     "<minimax:tool_call>\n<invoke name=\"f\">\n<parameter name=\"s\">a\n</parameter>\n<parameter "
     "name=\"i\">2</parameter>\n"
     "</invoke>\n<invoke name=\"g\">\n</invoke>\n</minimax:tool_call>",
     "[f {\"s\":\"a\\n\",\"i\":2}][g {}]"},
    {M3,
     "Hm" M3 "<tool_call>\n" M3 "<invoke name=\"f\">" M3 "<s>7\n" M3 "</s>" M3 "<i>7" M3 "</i>" M3 "</invoke>\n" M3
     "<invoke name=\"g\">" M3 "</invoke>\n" M3 "</tool_call>",
     "Hm[f {\"s\":\"7\\n\",\"i\":7}][g {}]"},
    {M3,
     M3 "<tool_call>" M3 "<invoke name=\"f\">" M3 "<l>" M3 "<item>1" M3 "</item>" M3 "<item>" M3 "<k>a <b>" M3 "</k>" M3
        "</item>" M3 "</l>" M3 "<any>" M3 "<item>" M3 "<item>x" M3 "</item>" M3 "</item>" M3 "</any>" M3 "</invoke>" M3
        "</tool_call>",
     "[f {\"l\":[1,{\"k\":\"a <b>\"}],\"any\":[[\"x\"]]}]"},
    {M3,
     M3 "<invoke name=\"f\">" M3 "<l>" M3 "</l>" M3 "<s>" M3 "</s>" M3 "<b>True" M3 "</b>" M3 "<o>\n" M3 "<item>2.50" M3
        "</item>\n" M3 "</o>" M3 "</invoke>",
     "[f {\"l\":[],\"s\":\"\",\"b\":true,\"o\":{\"item\":2.50}}]"},
    {M3,
     M3 "<invoke name=\"f\">" M3 "<p>" M3 "<item>12" M3 "</item>" M3 "<k>2" M3 "</k>" M3 "</p>" M3 "<q>" M3
        "<item>12" M3 "</item>" M3 "</q>" M3 "<r>" M3 "</r>" M3 "</invoke>",
     "[f {\"p\":{\"item\":\"12\",\"k\":2},\"q\":[\"12\"],\"r\":[]}]"},
    {M3, M3 "<invoke name=\"f\">" M3 "<s>x" M3 "</t>" M3 "</invoke>",
     M3 "<invoke name=\"f\">" M3 "<s>x" M3 "</t>" M3 "</invoke>"},
    {M3, M3 "<invoke name=\"f\">so" M3 "</invoke>", M3 "<invoke name=\"f\">so" M3 "</invoke>"},
    {M3, M3 "<invoke name=\"f\">" M3 "<s>a" M3 "</s>" M3 "<s>b" M3 "</s>" M3 "</invoke>",
     M3 "<invoke name=\"f\">" M3 "<s>a" M3 "</s>" M3 "<s>b" M3 "</s>" M3 "</invoke>"},
    {"<tool_calls>",
     "<tool_calls>\n{\"name\": \"f\", \"arguments\": {}}\n{\"name\": \"g\", \"arguments\": {\"s\": "
     "\"\"}}\n</tool_calls>",
     "[f {}][g {\"s\": \"\"}]"},
    /* DeepSeek */
    {CALL "```json",
     "\1" SECTION "\2\1" CALL "\2function\1" SEP "\2f\n```json\n{\"s\": \"x\"}\n```\1" CALL_END "\2\n\1" CALL
     "\2function\1" SEP "\2g\n```json\n{}\n```\1" CALL_END "\2\1" SECTION_END "\2",
     "[f {\"s\": \"x\"}][g {}]"},
    {CALL,
     "Hm\1" SECTION "\2\1" CALL "\2f\1" SEP "\2{\"s\": \"" CALL_END "\"}\1" CALL_END "\2\1" CALL "\2g\1" SEP
     "\2{}\1" CALL_END "\2\1" SECTION_END "\2",
     "Hm[f {\"s\": \"" CALL_END "\"}][g {}]"},
    {DSML,
     "<" DSML "function_calls>\n<" DSML "invoke name=\"f\">\n<" DSML "parameter name=\"s\" string=\"true\">3</" DSML
     "parameter>\n<" DSML "parameter name=\"i\" string=\"false\">3</" DSML "parameter>\n</" DSML "invoke>\n</" DSML
     "function_calls>",
     "[f {\"s\":\"3\",\"i\":3}]"},
    {DSML "tool_calls>",
     "Hm\n\n<" DSML "tool_calls>\n<" DSML "invoke name=\"f\">\n<" DSML
     "parameter name=\"s\" string=\"true\">a <b>\n</" DSML "parameter>\n<" DSML
     "parameter name=\"i\" string=\"false\">3</" DSML "parameter>\n</" DSML "invoke>\n<" DSML
     "invoke name=\"g\">\n</" DSML "invoke>\n</" DSML "tool_calls>",
     "Hm\n\n[f {\"s\":\"a <b>\\n\",\"i\":3}][g {}]"},
    /* Kimi */
    {"<|tool_call_begin|>",
     "\1<|tool_calls_section_begin|>\2\1<|tool_call_begin|>\2functions.f:0\1<|tool_call_argument_begin|>\2{\"s\": "
     "1}\1<|tool_call_end|>\2"
     "\1<|tool_call_begin|>\2g:1\1<|tool_call_argument_begin|>\2{}\1<|tool_call_end|>\2\1<|tool_calls_section_end|>\2",
     "[f {\"s\": 1}][g {}]"},
    /* gpt-oss */
    {"<|channel|>commentary",
     "\1<|channel|>\2commentary to=functions.f \1<|constrain|>\2json\1<|message|>\2{\"s\": \"}\"}\1<|call|>\2",
     "[f {\"s\": \"}\"}]"},
    {"<|channel|>commentary", "\1<|start|>\2assistant to=functions.f\1<|channel|>\2commentary json\1<|message|>\2{}",
     "[f {}]"},
    {"<|channel|>commentary", " to=functions.f\1<|channel|>\2commentary json\1<|message|>\2{}", " [f {}]"},
    {"<|channel|>commentary", "up to=functions.f", "up to=functions.f"},
    {"<|channel|>commentary", "\1<|channel|>\2commentary\1<|message|>\2Look", "commentaryLook"},
    /* Gemma */
    {"<|tool_call>",
     "\1<|tool_call>\2call:f{s:\1<|\"|>\2a \"}\\\1<|\"|>\2,i:1,l:[1,\1<|\"|>\2x\1<|\"|>\2],o:{k:true}, "
     "m:null}\1<tool_call|>\2",
     "[f {\"s\":\"a \\\"}\\\\\",\"i\":1,\"l\":[1,\"x\"],\"o\":{\"k\":true}, \"m\":null}]"},
    {"<|tool_call>", "\1<|tool_call>\2call:f{}\1<tool_call|>\2\1<|tool_call>\2call:g{\"s\": \"a:b\"}\1<tool_call|>\2",
     "[f {}][g {\"s\": \"a:b\"}]"},
    {"<|tool_call>", "\1<|tool_call>\2call:f{s:in Tokyo\1<|\"|>\2}\1<tool_call|>\2", "call:f{s:in Tokyo}"},
    {"<start_function_call>", "\1<start_function_call>\2call:f{s:\1<escape>\2x\1<escape>\2}\1<end_function_call>\2",
     "[f {\"s\":\"x\"}]"},
    /* others */
    {"<TOOLCALL>", "<TOOLCALL>[{\"name\": \"f\", \"arguments\": {}}, {\"name\": \"g\", \"arguments\": {}}]</TOOLCALL>",
     "[f {}][g {}]"},
    {"<|START_ACTION|>",
     "\1<|START_ACTION|>\2[\n    {\"tool_call_id\": \"0\", \"tool_name\": \"f\", \"parameters\": {\"s\": "
     "\"x\"}}\n]\1<|END_ACTION|>\2",
     "[f {\"s\": \"x\"}]"},
    {"<|tool_call|>", "\1<|tool_call|>\2[{\"name\": \"f\", \"arguments\": {}}]", "[f {}]"},
};

#define COUNT (sizeof examples / sizeof *examples)

/* ------------------------------------------------------------------ events */

typedef struct events {
    buffer text;
    bool thinks;
    bool hides; /* texts of control tokens, as reasoning.h does */
} events;

static void on_text(void *user, span text, bool control)
{
    events *e = user;
    assert_true(text.size > 0);
    if (!control || !e->hides)
        assert_true(buffer_put(&e->text, text.data, text.size));
}

static void on_call(void *user, json_t *function)
{
    events *e = user;
    const char *name = json_string_value(json_object_get(function, "name"));
    const char *arguments = json_string_value(json_object_get(function, "arguments"));
    assert_true(name && arguments && buffer_print(&e->text, "[%s %s]", name, arguments));
}

static const tool_calls_sink sink = {on_text, on_call};

/* Pushes a text in which control tokens stand between \1 and \2. false: no memory. */
static bool push(tool_calls *t, const char *text, size_t size)
{
    for (size_t i = 0, end; i < size; i = end) {
        bool control = text[i] == '\1';
        i += control;
        for (end = i; end < size && text[end] != '\1' && text[end] != '\2';)
            end++;
        if (!(control ? tool_calls_push_control : tool_calls_push)(t, (span){text + i, end - i}))
            return false;
        end += control;
    }
    return true;
}

/* Returns whether a text may be cut before a byte: not within a character, nor a control token. */
static bool may_cut(const char *text, size_t at)
{
    bool control = false;
    for (size_t i = 0; i < at; i++)
        control = text[i] == '\1' || (control && text[i] != '\2');
    return !control && ((uint8_t)text[at] & 0xc0) != 0x80;
}

static void expect(const struct example *x, const events *e)
{
    if (e->text.size != strlen(x->events) || (e->text.size && memcmp(e->text.data, x->events, e->text.size) != 0))
        fail_msg("%s: %.*s, not %s", x->answer, (int)e->text.size, e->text.size ? e->text.data : "", x->events);
}

static json_t *load_tools(void)
{
    json_t *tools = json_loads(tools_text, 0, NULL);
    assert_non_null(tools);
    return tools;
}

static tool_calls begin(const struct example *x, const json_t *tools, events *e)
{
    return (tool_calls){
        .convention = tool_convention_find(span_of(x->source)), .tools = tools, .sink = &sink, .user = e};
}

/* cut: where the text is cut in two; 0: everywhere. */
static void run_cut(const struct example *x, const json_t *tools, size_t cut)
{
    events e = {.hides = true};
    tool_calls t = begin(x, tools, &e);
    for (size_t i = 0, end, size = strlen(x->answer); i < size; i = end) {
        for (end = i + 1; end < size && (!may_cut(x->answer, end) || (cut > 0 && end != cut));)
            end++;
        assert_true(push(&t, x->answer + i, end - i));
    }
    assert_true(tool_calls_finish(&t));
    tool_calls_free(&t);
    expect(x, &e);
    buffer_free(&e.text);
}

static void calls_are_found_wherever_text_is_cut(void **state)
{
    (void)state;
    json_t *tools = load_tools();
    for (size_t i = 0; i < COUNT; i++)
        for (size_t cut = 0; cut <= strlen(examples[i].answer); cut++)
            if (cut == 0 || may_cut(examples[i].answer, cut))
                run_cut(&examples[i], tools, cut);
    json_decref(tools);
}

/* Removes the signs of control tokens. */
static void strip(const char *text, char *out)
{
    for (; *text; text++)
        if (*text != '\1' && *text != '\2')
            *out++ = *text;
    *out = '\0';
}

/* Where marks are no control tokens, calls are found as well, and what is none comes out byte by byte. */
static void marks_may_be_text(void **state)
{
    (void)state;
    json_t *tools = load_tools();
    for (size_t i = 0; i < COUNT; i++) {
        char text[1024];
        events e = {0}, other = {0};
        tool_calls t = begin(&examples[i], tools, &e), none = {.sink = &sink, .user = &other};
        strip(examples[i].answer, text);
        assert_true(push(&t, text, strlen(text)) && tool_calls_finish(&t));
        assert_true(push(&none, text, strlen(text)) && tool_calls_finish(&none));
        if (strchr(examples[i].events, '[') && examples[i].events[strlen(examples[i].events) - 1] == ']' && t.has_calls)
            expect(&examples[i], &e);
        if (!t.has_calls)
            assert_true(e.text.size == other.text.size && memcmp(e.text.data, other.text.data, e.text.size) == 0);
        tool_calls_free(&t);
        tool_calls_free(&none);
        buffer_free(&e.text);
        buffer_free(&other.text);
    }
    json_decref(tools);
}

/* ------------------------------------------------------------------ rules */

static void thoughts_have_no_calls(void **state)
{
    (void)state;
    static const char call[] = "<tool_call>{\"name\": \"f\", \"arguments\": {}}</tool_call>";
    static const char harmony[] = "<|channel|>commentary to=functions.f<|message|>{}";
    static const struct example x[] = {{"<tool_call>", call, ""}, {"<|channel|>commentary", harmony, ""}};
    for (size_t i = 0; i < 2; i++) {
        events e = {.thinks = true};
        tool_calls t = begin(&x[i], NULL, &e);
        t.thinks = &e.thinks;
        assert_true(push(&t, x[i].answer, strlen(x[i].answer)) && tool_calls_finish(&t));
        assert_int_equal(t.has_calls, i == 1); /* its calls stand in a channel of their own */
        tool_calls_free(&t);
        buffer_free(&e.text);
    }
}

static void only_one_call_where_asked(void **state)
{
    (void)state;
    static const struct example x = {"<tool_call>",
                                     "a<tool_call>{\"name\": \"f\", \"arguments\": "
                                     "{}}</tool_call>b<tool_call>{\"name\": \"g\", \"arguments\": {}}</tool_call>c",
                                     "a[f {}]"};
    events e = {0};
    tool_calls t = begin(&x, NULL, &e);
    t.only_one = true;
    assert_true(push(&t, x.answer, strlen(x.answer)) && tool_calls_finish(&t));
    expect(&x, &e);
    tool_calls_free(&t);
    buffer_free(&e.text);
}

/* A call without end is held back up to a bound, and then given out. */
static void sizes_are_bounded(void **state)
{
    (void)state;
    static char many[1 << 16];
    const struct example x = {"<tool_call>", "", ""};
    events e = {0};
    tool_calls t = begin(&x, NULL, &e);
    memset(many, 'x', sizeof many);
    assert_true(push(&t, "<tool_call>{\"", 13));
    for (size_t i = 0; i <= TOOL_CALL_LIMIT_BYTES / sizeof many; i++)
        assert_true(push(&t, many, sizeof many));
    assert_true(t.held.size == 0 && e.text.size == 13 + (TOOL_CALL_LIMIT_BYTES / sizeof many + 1) * sizeof many);
    tool_calls_free(&t);
    buffer_free(&e.text);
}

/* Whatever allocation fails, it is said, and nothing is left behind. */
static void every_allocation_may_fail(void **state)
{
    (void)state;
    static const char room[2048];
    json_t *tools = load_tools();
    for (size_t i = 0; i < COUNT; i++) {
        long before = mem_live(), n = 0;
        for (bool ok = false; !ok; n++) {
            events e = {.hides = true};
            tool_calls t = begin(&examples[i], tools, &e);
            assert_true(buffer_put(&e.text, room, sizeof room)); /* its own allocations do not count */
            e.text.size = 0;
            mem_fail_at(n);
            ok = push(&t, examples[i].answer, strlen(examples[i].answer)) && tool_calls_finish(&t);
            mem_fail_at(-1);
            if (ok)
                expect(&examples[i], &e);
            tool_calls_free(&t);
            buffer_free(&e.text);
            assert_true(mem_live() == before && n < 1000);
        }
    }
    json_decref(tools);
}

/* ------------------------------------------------------------------ templates */

/* Published templates: their convention (NULL: none is known), and what they write behind the calls of an answer that is
 * no text when a model answers. */
static const struct published {
    const char *file, *name, *end;
    enum {
        OBJECT,
        TEXT,
        NOTHING
    } writes; /* calls whose arguments are given as an object, as a text; no calls at all */
} published[] = {
    {"CohereForAI-c4ai-command-r7b-12-2024-tool_use", "command", NULL, OBJECT},
    {"CohereForAI-c4ai-command-r-plus-tool_use", NULL, NULL, NOTHING},
    {"deepseek-ai-DeepSeek-R1-Distill-Llama-8B", "deepseek-r1", NULL, TEXT},
    {"deepseek-ai-DeepSeek-V3.1", "deepseek-v3.1", NULL, OBJECT},
    {"GLM-4.6", "glm", NULL, OBJECT},
    {"google-gemma-2-2b-it", NULL, NULL, NOTHING},
    {"ibm-granite-granite-3.3-2B-Instruct", "granite", NULL, NOTHING},
    {"meta-llama-Llama-3.1-8B-Instruct", "llama3", "<|eot_id|>", OBJECT},
    {"meta-llama-Llama-3.2-3B-Instruct", "llama3", "<|eot_id|>", OBJECT},
    {"microsoft-Phi-3.5-mini-instruct", NULL, NULL, NOTHING},
    {"MiniMax-M1", "minimax-m1", NULL, OBJECT},
    {"MiniMax-M2", "minimax-m2", NULL, OBJECT},
    {"mistralai-Mistral-Nemo-Instruct-2407", "mistral-list", NULL, OBJECT},
    {"Mistral-Small-3.2-24B-Instruct-2506", "mistral", NULL, OBJECT},
    {"moonshotai-Kimi-K2", "kimi", NULL, OBJECT},
    {"NVIDIA-Nemotron-Nano-v2", "nemotron", NULL, OBJECT},
    {"openai-gpt-oss-120b", "gpt-oss", NULL, OBJECT},
    {"Qwen3-Coder", "qwen3-coder", NULL, OBJECT},
    {"Qwen-Qwen2.5-7B-Instruct", "hermes", NULL, OBJECT},
    {"Qwen-Qwen3-0.6B", "hermes", NULL, OBJECT},
};

static span read_source(const struct published *p)
{
    char path[512], *text;
    size_t size;
    snprintf(path, sizeof path, TEMPLATES "%s.jinja", p->file);
    assert_int_equal(file_read(&text, &size, path, 1 << 20, NULL), HEARTH_OK);
    return (span){text, size};
}

/* What stands in the source of a template, what a prompt then ends with, and answers that fit: what is read is the call. */
static const struct demand {
    const char *source, *open, *answer;
    bool is_one; /* only one tool can be demanded */
} demands[] = {
    {"<tool_call>", "<tool_call>\n", "{\"name\": \"f\", \"arguments\": {\"s\": \"x\"}}", false},
    {"<tool_calls>", "<tool_calls>\n", "{\"name\": \"f\", \"arguments\": {\"s\": \"x\"}}", false},
    {"[TOOL_CALLS]", "[TOOL_CALLS]", "[{\"name\": \"f\", \"arguments\": {\"s\": \"x\"}}]", false},
    {"<TOOLCALL>", "<TOOLCALL>", "[{\"name\": \"f\", \"arguments\": {\"s\": \"x\"}}]", false},
    {"<|tool_call|>", "<|tool_call|>", "[{\"name\": \"f\", \"arguments\": {\"s\": \"x\"}}]", false},
    {"<|start_header_id|> \"parameters\": ", "", "{\"name\": \"f\", \"parameters\": {\"s\": \"x\"}}", false},
    {"[TOOL_CALLS] [ARGS]", "[TOOL_CALLS]f[ARGS]", "{\"s\": \"x\"}", true},
};

static const char demanded_text[] =
    "[{\"function\": {\"name\": \"f\", \"parameters\": {\"properties\": {\"s\": {\"const\": \"x\"}}, \"required\": "
    "[\"s\"]}}}, {\"function\": {\"name\": \"g\"}}]";

/* Returns whether a schema takes a text, to its end. */
static bool takes(const json_t *schema, const char *text)
{
    static const bool ends[1] = {true};
    static const span none[1] = {{"", 0}};
    hearth_error error = {0};
    token_trie *t = NULL;
    grammar *g = NULL;
    matcher *m = NULL;
    if (schema_compile(&g, schema, &error) != HEARTH_OK)
        fail_msg("%s", error.text);
    assert_int_equal(token_trie_create(&t, none, ends, 1, NULL), HEARTH_OK);
    assert_int_equal(matcher_create(&m, g, t, NULL), HEARTH_OK);
    bool fits = matcher_accept(m, span_of(text), NULL) == HEARTH_OK && matcher_can_end(m);
    matcher_destroy(m);
    token_trie_destroy(t);
    grammar_destroy(g);
    return fits;
}

static void expect_demand(const struct demand *d, const json_t *tools)
{
    const struct tool_convention *c = tool_convention_find(span_of(d->source));
    const struct example x = {d->source, d->answer, "[f {\"s\": \"x\"}]"};
    tool_demand made;
    hearth_error error = {0};
    events e = {.hides = true};
    if (tool_demand_make(&made, c, tools, span_of("f"), &error) != HEARTH_OK)
        fail_msg("%s: %s", d->source, error.text);
    assert_int_equal(made.open.size, strlen(d->open));
    assert_true(made.open.size == 0 || memcmp(made.open.data, d->open, made.open.size) == 0);
    assert_true(takes(made.schema, d->answer));
    assert_false(takes(made.schema, "{\"name\": \"g\", \"arguments\": {}}"));
    tool_calls t = {.convention = c, .tools = tools, .sink = &sink, .user = &e};
    assert_true(made.open.size == 0 || tool_calls_push_control(&t, (span){made.open.data, made.open.size}));
    assert_true(tool_calls_push(&t, span_of(d->answer)) && tool_calls_finish(&t));
    expect(&x, &e);
    tool_calls_free(&t);
    buffer_free(&e.text);
    tool_demand_free(&made);
    hearth_status any = tool_demand_make(&made, c, tools, (span){0}, &error);
    assert_int_equal(any, d->is_one ? HEARTH_UNSUPPORTED : HEARTH_OK);
    assert_true(d->is_one || takes(made.schema, d->answer));
    tool_demand_free(&made);
}

/* References within a tool's parameters are its own, wherever these stand. */
static void references_of_demanded_tools(void **state)
{
    (void)state;
    static const char text[] =
        "{\"function\": {\"name\": \"f\", \"parameters\": {\"$id\": \"i\", \"$defs\": {\"P\": {\"const\": {\"$ref\": "
        "\"#\"}}}, "
        "\"properties\": {\"s\": {\"$ref\": \"#/$defs/P\"}, \"t\": {\"$ref\": \"#/properties/s\"}}, \"required\": "
        "[\"s\", \"t\"]}}}";
    json_t *tool = json_loads(text, 0, NULL);
    for (size_t i = 0; i < sizeof demands / sizeof *demands; i++)
        for (int count = 1; count <= 2; count++) {
            const struct tool_convention *c = tool_convention_find(span_of(demands[i].source));
            json_t *tools = json_pack("[{s:{s:s}}, O]", "function", "name", "g", tool);
            const char *begin = strstr(demands[i].answer, "{\"s\"");
            char answer[256];
            tool_demand made;
            hearth_error error = {0};
            span name = demands[i].is_one || count == 1 ? span_of("f") : (span){0};
            if (tool_demand_make(&made, c, tools, name, &error) != HEARTH_OK)
                fail_msg("%s", error.text);
            snprintf(answer, sizeof answer, "%.*s{\"s\":{\"$ref\":\"#\"},\"t\":{\"$ref\":\"#\"}}%s",
                     (int)(begin - demands[i].answer), demands[i].answer, strchr(begin, '}') + 1);
            if (!takes(made.schema, answer))
                fail_msg("%s: %s is not taken", demands[i].source, answer);
            tool_demand_free(&made);
            json_decref(tools);
        }
    json_decref(tool);
}

static void calls_can_be_demanded(void **state)
{
    (void)state;
    json_t *tools = json_loads(demanded_text, 0, NULL);
    tool_demand made;
    hearth_error error = {0};
    long live = mem_live();
    for (size_t i = 0; i < sizeof demands / sizeof *demands; i++)
        expect_demand(&demands[i], tools);
    assert_int_equal(tool_demand_make(&made, tool_convention_find(span_of("<arg_key>")), tools, span_of("f"), &error),
                     HEARTH_UNSUPPORTED);
    assert_non_null(strstr(error.text, "glm"));
    assert_int_equal(tool_demand_make(&made, NULL, tools, span_of("f"), &error), HEARTH_UNSUPPORTED);
    bool ended = false;
    for (int n = 0; !ended; n++) {
        mem_fail_at(n);
        hearth_status status =
            tool_demand_make(&made, tool_convention_find(span_of("[TOOL_CALLS] [ARGS]")), tools, span_of("f"), &error);
        mem_fail_at(-1);
        assert_true(status == HEARTH_OK || status == HEARTH_NO_MEMORY);
        ended = status == HEARTH_OK;
        tool_demand_free(&made);
        assert_int_equal(mem_live(), live);
    }
    json_decref(tools);
}

static void conventions_follow_from_templates(void **state)
{
    (void)state;
    for (size_t i = 0; i < sizeof published / sizeof *published; i++) {
        span source = read_source(&published[i]);
        const struct tool_convention *c = tool_convention_find(source);
        const char *name = c ? tool_convention_name(c) : NULL;
        if (published[i].name ? !name || strcmp(name, published[i].name) != 0 : name != NULL)
            fail_msg("%s: %s", published[i].file, name ? name : "none");
        mem_free((void *)source.data);
    }
    assert_null(tool_convention_find((span){0}));
}

#define ARGUMENTS "{\"city\": \"K\\u00f6ln \\\"]}\", \"days\": 2}"

/* Renders a question and, if it is there, the call that answers it. */
static void render(const struct published *p, span source, const json_t *tools, json_t *answer, buffer *out)
{
    hearth_error error = {0};
    template *t;
    json_t *messages = json_pack("[{s:s, s:s}]", "role", "user", "content", "How is the weather?");
    if (answer)
        assert_int_equal(json_array_append_new(messages, answer), 0);
    conversation c = {.messages = messages, .tools = tools, .eos = span_of("</s>"), .answers = !answer};
    if (template_create(&t, source, p->file, &error) != HEARTH_OK ||
        conversation_render(&c, t, NULL, out, &error) != HEARTH_OK)
        fail_msg("%s", error.text);
    template_destroy(t);
    json_decref(messages);
}

/* Returns a message with one call. */
static json_t *make_answer(const struct published *p)
{
    json_t *arguments = p->writes == TEXT ? json_string(ARGUMENTS) : json_loads(ARGUMENTS, 0, NULL);
    return json_pack("{s:s, s:o, s:s, s:[{s:s, s:s, s:{s:s, s:o}}]}", "role", "assistant", "content",
                     p->writes == TEXT ? json_null() : json_string(""), "reasoning_content", "", "tool_calls", "id",
                     "abcdefghi", "type", "function", "function", "name", "get_weather", "arguments", arguments);
}

/* Returns what a template writes of an answer alone: from where it differs from the question. */
static span answer_alone(const struct published *p, const buffer *asked, const buffer *answered)
{
    size_t at = 0, end = answered->size, last = p->end ? strlen(p->end) : 0;
    while (at < asked->size && at < end && asked->data[at] == answered->data[at])
        at++;
    at -= at > 0 && answered->data[at - 1] == '<'; /* of another mark */
    if (last > 0 && memcmp(answered->data + end - last, p->end, last) == 0)
        end -= last;
    return (span){answered->data + at, end - at};
}

static void expect_own_call(const struct published *p, const json_t *tools)
{
    static const char before[] = "[get_weather ";
    buffer asked = {0}, answered = {0};
    events e = {0};
    span source = read_source(p);
    tool_calls t = {.convention = tool_convention_find(source), .tools = tools, .sink = &sink, .user = &e};
    render(p, source, tools, NULL, &asked);
    render(p, source, tools, make_answer(p), &answered);
    assert_true(tool_calls_push(&t, answer_alone(p, &asked, &answered)) && tool_calls_finish(&t));
    assert_true(buffer_put(&e.text, "", 1));
    const char *call = strstr(e.text.data, before);
    if (!call)
        fail_msg("%s: no call in %s", p->file, e.text.data);
    json_t *got = json_loads(call + strlen(before), JSON_DISABLE_EOF_CHECK, NULL);
    json_t *wanted = json_loads(ARGUMENTS, 0, NULL);
    assert_true(json_equal(got, wanted));
    json_decref(got);
    json_decref(wanted);
    tool_calls_free(&t);
    buffer_free(&asked);
    buffer_free(&answered);
    buffer_free(&e.text);
    mem_free((void *)source.data);
}

/* What a template writes of a call is what the model writes: it is found, with the same arguments. */
static void calls_that_templates_write_are_found(void **state)
{
    (void)state;
    json_t *messages;
    assert_int_equal(json_parse_file(&messages, TEMPLATES "messages.json", NULL), HEARTH_OK);
    for (size_t i = 0; i < sizeof published / sizeof *published; i++)
        if (published[i].writes != NOTHING)
            expect_own_call(&published[i], json_object_get(messages, "tools"));
    json_decref(messages);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(calls_are_found_wherever_text_is_cut),
                                       cmocka_unit_test(marks_may_be_text),
                                       cmocka_unit_test(thoughts_have_no_calls),
                                       cmocka_unit_test(only_one_call_where_asked),
                                       cmocka_unit_test(sizes_are_bounded),
                                       cmocka_unit_test(every_allocation_may_fail),
                                       cmocka_unit_test(calls_can_be_demanded),
                                       cmocka_unit_test(references_of_demanded_tools),
                                       cmocka_unit_test(conventions_follow_from_templates),
                                       cmocka_unit_test(calls_that_templates_write_are_found)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
