/* reasoning.h - tells what a model thinks from what it answers, while both come in pieces.
 *
 * Models put their reasoning between marks such as <think> and </think>, or in channels (gpt-oss). The marks may be
 * control tokens or plain text, and may be cut anywhere between two pieces. */
#ifndef CHAT_REASONING_H
#define CHAT_REASONING_H

#include "../base/text.h"

#define REASONING_MARK_LIMIT 48

/* A zeroed one stands at the beginning of an answer. */
typedef struct reasoning {
    bool thinks;                           /* what comes next is reasoning                       */
    bool has_text;                         /* something but white space came since the last mark */
    char held[REASONING_MARK_LIMIT];       /* [held_size] what may be the beginning of a mark    */
    bool is_control[REASONING_MARK_LIMIT]; /* [held_size] the byte is of a control token         */
    size_t held_size;
} reasoning;

/* Receives what is neither a mark nor may become one; never called with an empty text. */
typedef void reasoning_sink(void *user, bool is_reasoning, span text);

/* Sets the state to that at the end of a prompt: many templates open the reasoning themselves. */
void reasoning_begin(reasoning *r, span prompt);
/* Returns the mark behind which an answer begins that does not begin with the end of the prompt; NULL: it does. */
const char *reasoning_answer_mark(span prompt);
/* Adds a piece of the answer's text. White space behind a mark is dropped. */
void reasoning_push(reasoning *r, span text, reasoning_sink *sink, void *user);
/* Adds a control token as the vocabulary spells it: it may be a mark or part of one, but is never text. */
void reasoning_push_control(reasoning *r, span spelling, reasoning_sink *sink, void *user);
/* Ends the answer: what was held back is text. */
void reasoning_finish(reasoning *r, reasoning_sink *sink, void *user);

#endif
