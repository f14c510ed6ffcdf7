/* tool_conventions.c - the table of conventions. Sources: the chat templates that the models were published with, and for
 * gpt-oss the description of its format, harmony; DeepSeek V3.2 and Gemma by their documentation.
 *
 * Left out: calls in Python's notation (LFM2, Llama 4), of which the templates' sources show no mark, and blocks of
 * Markdown (Command R+), which look like any other answer. */
#include "tool_conventions.h"

#include "tool_calls.h"

#include <string.h>

/* DeepSeek's marks have a wide bar for |, and a low block for a space. */
#define BAR             "\xef\xbd\x9c"
#define BLANK           "\xe2\x96\x81"
#define DEEPSEEK(words) "<" BAR words BAR ">"
#define CALLS_BEGIN     DEEPSEEK("tool" BLANK "calls" BLANK "begin")
#define CALLS_END       DEEPSEEK("tool" BLANK "calls" BLANK "end")
#define CALL_BEGIN      DEEPSEEK("tool" BLANK "call" BLANK "begin")
#define CALL_END        DEEPSEEK("tool" BLANK "call" BLANK "end")
#define SEPARATOR       DEEPSEEK("tool" BLANK "sep")
#define DSML            BAR "DSML" BAR

/* What stands before each of MiniMax M3's marks. */
#define M3 "]<]minimax[>["

#define ANYWHERE(text_)                              \
    {                                                \
        .text = (text_), .place = TOOL_MARK_ANYWHERE \
    }
#define AT_START(text_)                              \
    {                                                \
        .text = (text_), .place = TOOL_MARK_AT_START \
    }
#define AFTER_CALL(text_)                              \
    {                                                  \
        .text = (text_), .place = TOOL_MARK_AFTER_CALL \
    }

static const tool_tags coder = {"<parameter=", ">", "", "</parameter>", true};
static const tool_tags seed = {"<parameter=", ">", "", "</parameter>", false};
static const tool_tags minimax = {"<parameter name=\"", "\">", "", "</parameter>", false};
static const tool_tags minimax_m3 = {M3 "<", ">", "", M3 "</", false};
static const tool_tags glm = {"<arg_key>", "</arg_key>", "<arg_value>", "</arg_value>", false};
static const tool_tags dsml = {"<" DSML "parameter name=\"", "\"", ">", "</" DSML "parameter>", false};

/* The first row fits whose evidence is all there. */
static const tool_convention conventions[] = {
    {.name = "deepseek-v4",
     .evidence = {DSML, "tool_calls>"},
     .marks = {ANYWHERE("<" DSML "tool_calls> <" DSML "invoke name=\""), ANYWHERE("<" DSML "invoke name=\""),
               AFTER_CALL("</" DSML "tool_calls>")},
     .close = "</" DSML "invoke>",
     .read = tool_read_tagged,
     .tags = &dsml},
    {.name = "deepseek-v3.2",
     .evidence = {DSML},
     .marks = {ANYWHERE("<" DSML "function_calls> <" DSML "invoke name=\""), ANYWHERE("<" DSML "invoke name=\""),
               AFTER_CALL("</" DSML "function_calls>")},
     .close = "</" DSML "invoke>",
     .read = tool_read_tagged,
     .tags = &dsml},
    {.name = "deepseek-r1", /* and V3 */
     .evidence = {CALL_BEGIN, "```json"},
     .marks = {ANYWHERE(CALLS_BEGIN " " CALL_BEGIN "function" SEPARATOR), ANYWHERE(CALL_BEGIN "function" SEPARATOR),
               AFTER_CALL(CALLS_END)},
     .close = CALL_END,
     .read = tool_read_named,
     .json_open = "```json"},
    {.name = "deepseek-v3.1",
     .evidence = {CALL_BEGIN},
     .marks = {ANYWHERE(CALLS_BEGIN " " CALL_BEGIN), ANYWHERE(CALL_BEGIN), AFTER_CALL(CALLS_END)},
     .close = CALL_END,
     .read = tool_read_named,
     .json_open = SEPARATOR},
    {.name = "kimi",
     .evidence = {"<|tool_call_begin|>"},
     .marks = {ANYWHERE("<|tool_calls_section_begin|> <|tool_call_begin|>"), ANYWHERE("<|tool_call_begin|>"),
               AFTER_CALL("<|tool_calls_section_end|>")},
     .close = "<|tool_call_end|>",
     .read = tool_read_named,
     .json_open = "<|tool_call_argument_begin|>",
     .in_thoughts = true},
    {.name = "gpt-oss", /* the recipient stands in the role or in the channel, and the prompt may end with the role */
     .evidence = {"<|channel|>commentary"},
     .marks = {ANYWHERE("<|channel|>commentary to=functions."), ANYWHERE("<|start|>assistant to=functions."),
               AT_START("to=functions."), AFTER_CALL("<|call|>")},
     .end = TOOL_END_BRACKET,
     .read = tool_read_named,
     .json_open = "<|message|>",
     .in_thoughts = true},
    {.name = "gemma4",
     .evidence = {"<|tool_call>"},
     .marks = {ANYWHERE("<|tool_call> call:")},
     .close = "<tool_call|>",
     .read = tool_read_bare,
     .quote = "<|\"|>"},
    {.name = "functiongemma",
     .evidence = {"<start_function_call>"},
     .marks = {ANYWHERE("<start_function_call> call:")},
     .close = "<end_function_call>",
     .read = tool_read_bare,
     .quote = "<escape>"},
    {.name = "minimax-m3",
     .evidence = {M3},
     .marks = {ANYWHERE(M3 "<tool_call> " M3 "<invoke name=\""), ANYWHERE(M3 "<invoke name=\""),
               AFTER_CALL(M3 "</tool_call>")},
     .close = M3 "</invoke>",
     .read = tool_read_nested,
     .tags = &minimax_m3},
    {.name = "minimax-m2",
     .evidence = {"<minimax:tool_call>"},
     .marks = {ANYWHERE("<minimax:tool_call> <invoke name=\""), ANYWHERE("<invoke name=\""),
               AFTER_CALL("</minimax:tool_call>")},
     .close = "</invoke>",
     .read = tool_read_tagged,
     .tags = &minimax},
    {.name = "minimax-m1",
     .evidence = {"<tool_calls>"},
     .marks = {ANYWHERE("<tool_calls>")},
     .close = "</tool_calls>",
     .read = tool_read_objects,
     .demand = {"<tool_calls>\n", "arguments", false}},
    {.name = "seed-oss",
     .evidence = {"<seed:tool_call>"},
     .marks = {ANYWHERE("<seed:tool_call> <function="), ANYWHERE("<function="), AFTER_CALL("</seed:tool_call>")},
     .close = "</function>",
     .read = tool_read_tagged,
     .tags = &seed},
    {.name = "qwen3-coder", /* which forgets the outer mark now and then */
     .evidence = {"<function=", "<parameter="},
     .marks = {ANYWHERE("<tool_call> <function="), ANYWHERE("<function="), AFTER_CALL("</tool_call>")},
     .close = "</function>",
     .read = tool_read_tagged,
     .tags = &coder},
    {.name = "glm", /* 4.5 and later */
     .evidence = {"<arg_key>"},
     .marks = {ANYWHERE("<tool_call>")},
     .close = "</tool_call>",
     .read = tool_read_tagged,
     .tags = &glm},
    {.name = "hermes", /* Qwen 2.5, Qwen 3 and many more */
     .evidence = {"<tool_call>"},
     .marks = {ANYWHERE("<tool_call>")},
     .close = "</tool_call>",
     .read = tool_read_objects,
     .demand = {"<tool_call>\n", "arguments", false}},
    {.name = "mistral", /* since the end of 2024 */
     .evidence = {"[TOOL_CALLS]", "[ARGS]"},
     .marks = {ANYWHERE("[TOOL_CALLS]")},
     .end = TOOL_END_BRACKET,
     .read = tool_read_named,
     .json_open = "[ARGS]",
     .demand = {"[TOOL_CALLS]", NULL, false}},
    {.name = "mistral-list",
     .evidence = {"[TOOL_CALLS]"},
     .marks = {ANYWHERE("[TOOL_CALLS]")},
     .end = TOOL_END_BRACKET,
     .read = tool_read_objects,
     .demand = {"[TOOL_CALLS]", "arguments", true}},
    {.name = "nemotron",
     .evidence = {"<TOOLCALL>"},
     .marks = {ANYWHERE("<TOOLCALL>")},
     .close = "</TOOLCALL>",
     .read = tool_read_objects,
     .demand = {"<TOOLCALL>", "arguments", true}},
    {.name = "command", /* Command R7B, Command A */
     .evidence = {"<|START_ACTION|>"},
     .marks = {ANYWHERE("<|START_ACTION|>")},
     .close = "<|END_ACTION|>",
     .read = tool_read_objects},
    {.name = "granite", /* 3 */
     .evidence = {"<|tool_call|>"},
     .marks = {ANYWHERE("<|tool_call|>")},
     .end = TOOL_END_BRACKET,
     .read = tool_read_objects,
     .demand = {"<|tool_call|>", "arguments", true}},
    {.name = "llama3", /* no mark tells a call from another object, but it is the whole answer */
     .evidence = {"<|start_header_id|>", "\"parameters\": "},
     .marks = {ANYWHERE("<|python_tag|>"),
               {.text = "{ \"name\" :", .place = TOOL_MARK_AT_START, .in_body = true},
               {.text = "{ \"type\" : \"function\"", .place = TOOL_MARK_AT_START, .in_body = true}},
     .end = TOOL_END_ANSWER,
     .read = tool_read_objects,
     .demand = {"", "parameters", false}},
};

static bool stands_in(const char *text, span source)
{
    return !text || (source.size > 0 && memmem(source.data, source.size, text, strlen(text)));
}

const tool_convention *tool_convention_find(span source)
{
    for (size_t i = 0; i < sizeof conventions / sizeof *conventions; i++)
        if (stands_in(conventions[i].evidence[0], source) && stands_in(conventions[i].evidence[1], source))
            return &conventions[i];
    return NULL;
}

const char *tool_convention_name(const tool_convention *c)
{
    return c->name;
}
