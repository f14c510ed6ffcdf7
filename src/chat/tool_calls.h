/* tool_calls.h - finds the calls of tools in what a model answers, while it comes in pieces.
 *
 * Each family of models writes calls in its own way (tool_conventions.c). Which one a model was trained for stands in the
 * source of its chat template. A call is reported once it is complete and its arguments are an object in valid JSON;
 * until then its text is held back, and if it never becomes one, the text is given out as it came. So nothing is lost,
 * and a client never has to take back a call that it has seen.
 *
 * Answers go through here before reasoning.h tells thoughts from text, since marks of calls are often control tokens,
 * and sections of calls stand among those of thoughts. What is within thoughts is no call, in most conventions. */
#ifndef CHAT_TOOL_CALLS_H
#define CHAT_TOOL_CALLS_H

#include "../base/json.h"

/* A call with more text than this is given out as text. */
#define TOOL_CALL_LIMIT_BYTES ((size_t)4 << 20)

struct tool_convention;

/* Receives an answer in its order. */
typedef struct tool_calls_sink {
    /* Text outside of calls, in whole characters by the end of each push; control: of the spelling of control tokens. */
    void (*text)(void *user, span text, bool control);
    /* A call: {"name": "weather", "arguments": "{\"at\": \"x\"}"}, where arguments are the text of an object. Who keeps it
     * takes a reference. */
    void (*call)(void *user, json_t *function);
} tool_calls_sink;

/* How calls are read in one answer. A zeroed one that has a sink hands on all as text. */
typedef struct tool_calls {
    const struct tool_convention *convention; /* NULL: nothing is a call                            */
    const json_t *tools;                      /* what the request offers, as OpenAI's chat has them */
    const bool *thinks;                       /* what comes next is a thought; NULL: never          */
    bool only_one;                            /* what follows the first call is dropped             */
    const tool_calls_sink *sink;
    void *user;
    /* What has not been given out: the beginning of a mark, or a call so far. */
    buffer held;
    buffer control; /* [held.size] 1: the byte is of a control token */
    bool in_call;
    size_t body;              /* where the call begins in held, behind its mark     */
    bool in_json;             /* of a call: strings and brackets are JSON's         */
    bool is_quoted, escapes;  /* the next byte is within a string; behind \         */
    bool has_body;            /* something but white space came                     */
    size_t depth;             /* brackets that are open                             */
    bool has_text, has_calls; /* something but white space was given out; a call    */
    bool after_call;          /* white space and marks of ends are dropped          */
} tool_calls;

/* Returns the convention of models with a chat template of this source; NULL: none is known, or it knows no tools. */
const struct tool_convention *tool_convention_find(span source);
/* Returns its name, "hermes". */
const char *tool_convention_name(const struct tool_convention *c);

/* Add a piece of an answer: text in whole characters, and the spelling of a control token, which may be a mark or part
 * of one, or stand within a call. false: no memory; the answer cannot go on. */
bool tool_calls_push(tool_calls *t, span text);
bool tool_calls_push_control(tool_calls *t, span spelling);
/* Ends the answer: what was held back is a call that is complete but for its closing mark, or text. */
bool tool_calls_finish(tool_calls *t);
/* Releases what is held back. */
void tool_calls_free(tool_calls *t);

#endif
