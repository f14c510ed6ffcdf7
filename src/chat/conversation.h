/* conversation.h - what a chat template is given: messages, tools, the names of tokens.
 *
 * The variables are those of transformers' apply_chat_template(): messages, tools and documents (none where there are
 * none), add_generation_prompt, bos_token and eos_token, and whatever else the caller sets. */
#ifndef CHAT_CONVERSATION_H
#define CHAT_CONVERSATION_H

#include "template.h"

typedef struct conversation {
    const json_t *messages;  /* a list of objects                                                      */
    const json_t *tools;     /* a list; NULL: none                                                     */
    const json_t *variables; /* an object: set last, so that it may replace the others; NULL: no more  */
    span bos, eos;           /* the texts of these tokens; empty: the variable is not defined          */
    bool answers;            /* ends where the model's answer begins                                   */
} conversation;

/* Checks what a caller gave: messages are a list of objects, each with a text as its role; tools a list of objects;
 * variables an object. name: begins the errors. HEARTH_INVALID: they are not. */
hearth_status conversation_check(const conversation *c, const char *name, hearth_error *error);

/* Renders a checked conversation and appends it to out. now: what strftime_now gives; NULL: the local time. As
 * template_render. */
hearth_status conversation_render(const conversation *c, const template *t, const struct tm *now, buffer *out,
                                  hearth_error *error);

#endif
