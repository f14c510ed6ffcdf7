/* api.h - the handlers, by file; and what those that write answers share. */
#ifndef SERVE_API_H
#define SERVE_API_H

#include "server.h"
#include "talk.h"

/* state_api.c: what there is, and how it is. */
handler state_health, state_live, state_metrics, state_props, state_slots, state_models, state_model;
/* text_api.c: text and tokens, without computing. */
handler text_tokenize, text_detokenize, text_apply_template;
/* chat_api.c, completion_api.c: answers. */
handler chat_answer_request, completion_answer_request;

/* The conversation of a request: its messages with all content as text, and how they are rendered. */
typedef struct conversation_fields {
    json_t *messages, *tools, *variables; /* owned by the body */
    json_t *tool_choice;
    bool no_prompt; /* the text ends with the last message */
} conversation_fields;

/* Reads the fields of a conversation from a body, which it may change: parts of content are joined. */
bool conversation_read(json_t *body, conversation_fields *out, problem *p);
/* Renders it. text [size] and ids [count] are freed with hearth_free; each pointer may be NULL. */
bool conversation_text(const serve *s, const conversation_fields *c, char **text, size_t *size, int32_t **ids,
                       size_t *count, problem *p);

/* What requests for answers have in common. */
typedef struct generation {
    hearth_sampling sampling;
    field_seed seed;
    field_count most_tokens;
    uint32_t count; /* n */
    bool streams, ignores_end;
    json_t *stops, *biases, *stream_options; /* owned by the body */
    bool wants_usage;
} generation;

/* Reads these fields. most_default: tokens of an answer where nothing says how many; 0: until it ends. */
bool generation_read(const serve *s, const json_t *body, uint32_t most_default, generation *out, problem *p);
/* Checks the prompts of a job, creates its samplers and answers, `count` for each prompt, and sends it. param: the field of the prompts. */
bool generation_send(serve *s, const generation *g, job *j, const char *param, problem *p);
/* Returns the choices of a request with so many prompts; 0: *p says that they are too many. */
size_t generation_choices(const serve *s, const generation *g, size_t prompts, const char *param, problem *p);

#endif
