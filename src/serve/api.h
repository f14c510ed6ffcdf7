/* api.h - the handlers, by file; and what those that write answers share. */
#ifndef SERVE_API_H
#define SERVE_API_H

#include "server.h"
#include "talk.h"

#include "../chat/tool_demand.h"

/* state_api.c: what there is, and how it is. */
handler state_health, state_live, state_metrics, state_props, state_tokenizer, state_slots, state_models, state_model;
/* text_api.c: text and tokens, without computing. */
handler text_tokenize, text_detokenize, text_apply_template;
/* embeddings_api.c: vectors of texts. */
handler embeddings_answer_request;
/* chat_api.c, completion_api.c: answers. */
handler chat_answer_request, completion_answer_request;
/* messages_api.c: Anthropic's. */
handler messages_answer_request, messages_count_tokens;
/* responses_api.c: OpenAI's newer one. */
handler responses_answer_request;

/* ------------------------------------------------------------------ format.c */

/* What an answer must be. A zeroed one: any text. */
typedef struct answer_format {
    char param[96]; /* the field that says so; "": none does */
    hearth_grammar_form form;
    const json_t *value; /* owned by the body: a schema, a text with a grammar; NULL: any object of JSON */
} answer_format;

/* Read {"type": "json_schema", "schema": ...} or the like, a grammar, or a schema; each may be NULL: it is not there. path: of
 * the object. One request has one format. */
bool format_read(const json_t *object, const char *path, answer_format *out, problem *p);
bool format_read_grammar(const json_t *text, answer_format *out, problem *p);
bool format_read_schema(const json_t *schema, answer_format *out, problem *p);
/* Returns the format that a schema is; param: what errors name. */
answer_format format_of_schema(const json_t *schema, const char *param);
/* Makes the grammar; without a format *out stays as it is. behind: as hearth_grammar_create has it. */
bool format_make(const served *m, const answer_format *f, const char *behind, hearth_grammar **out, problem *p);

/* ------------------------------------------------------------------ generate.c */

/* What requests for answers have in common. */
typedef struct generation {
    hearth_sampling sampling;
    field_seed seed;
    field_count most_tokens;
    uint32_t count;           /* n */
    uint32_t candidates;      /* of chats: likeliest tokens that are told with each */
    bool wants_probabilities; /* of chats                                           */
    bool streams, ignores_end;
    json_t *stops, *biases, *stream_options;         /* owned by the body */
    json_t *response_format, *grammar, *json_schema; /* likewise          */
    answer_format format;
    const char *behind; /* the format begins behind this text; NULL: with the answer */
    bool wants_usage;
} generation;

/* Rows of members of a generation, with the ranges that all APIs share. */
#define GENERATION_MOST_TOKENS (1 << 30)
#define GENERATION_NUMBER(name_, kind_, field_, least_, most_)                                   \
    {                                                                                            \
        FIELD_ROW(name_, kind_, generation, sampling.field_), .least = (least_), .most = (most_) \
    }
#define GENERATION_TEMPERATURE GENERATION_NUMBER("temperature", NUMBER, temperature, 0, 100)
#define GENERATION_TOP_P       GENERATION_NUMBER("top_p", NUMBER, top_p, 0, 1)
#define GENERATION_TOP_K       GENERATION_NUMBER("top_k", COUNT, top_k, 0, INT32_MAX)
#define GENERATION_TOKENS(name_, least_)                                                                    \
    {                                                                                                       \
        FIELD_ROW(name_, MAYBE, generation, most_tokens), .least = (least_), .most = GENERATION_MOST_TOKENS \
    }

/* Returns what holds where a request says nothing. */
generation generation_default(const served *m);
/* Checks stop strings, which are a field of that name. */
bool generation_check_stops(const json_t *stops, const char *name, problem *p);
/* Reads what the answer must be: g->response_format, which path names, or a member of the body that all APIs share. */
bool generation_read_format(const json_t *body, const char *path, generation *g, problem *p);
/* Reads these fields by their names in chats and completions of OpenAI's API. most_default: tokens of an answer where
 * nothing says how many; 0: until it ends. */
bool generation_read(const served *m, const json_t *body, uint32_t most_default, generation *out, problem *p);
/* Checks the prompts of a job, creates its samplers and answers, `count` for each prompt, and sends it. param: the field of the prompts. */
bool generation_send(served *m, const generation *g, job *j, const char *param, problem *p);
/* Returns the choices of a request with so many prompts; 0: *p says that they are too many. */
size_t generation_choices(const served *m, const generation *g, size_t prompts, const char *param, problem *p);

/* ------------------------------------------------------------------ prompts.c */

/* Prompts of a field: a string, a list of strings, a list of tokens, or a list of such lists. */
size_t prompts_count(const json_t *value);
/* Returns the value of one of them, owned by that of the field. */
const json_t *prompts_get(const json_t *value, size_t i);
/* Reads the field of that name into a job with so many prompts. */
bool prompts_read(const served *m, const json_t *value, const char *name, job *j, problem *p);
/* Refuses prompts that are empty or do not fit into the context; name: the field they come from. */
bool prompts_check(const served *m, const job *j, const char *name, problem *p);
/* Sends a complete job to the driver. false: *p says why it is not taken. */
bool prompts_send(served *m, job *j, problem *p);

/* ------------------------------------------------------------------ conversation_fields.c */

/* The conversation of a request: its messages with all content as text, and how they are rendered. */
typedef struct conversation_fields {
    const char *name;                     /* of the field with the messages, for errors */
    json_t *messages, *tools, *variables; /* owned by the body                          */
    json_t *tool_choice;
    bool parallel_calls; /* an answer may call more than one tool      */
    bool demands_call;   /* it has to call one ...                      */
    span demanded;       /* ... of this name; data NULL: whichever      */
    bool no_prompt;      /* the text ends with the last message   */
} conversation_fields;

/* Reads the fields of a conversation from a body, which it may change: parts of content are joined. */
bool conversation_read(json_t *body, conversation_fields *out, problem *p);
/* Appends the text of a content: a string, or a list of parts of these types (NULL ends the list). path: of the content,
 * "messages[0].content". */
bool conversation_join(const json_t *content, const char *path, const char *const types[], buffer *out, problem *p);
/* Appends a tool as OpenAI's chats describe it, its description before its parameters, as models have mostly seen it. description.data
 * and parameters may be NULL. false: no memory. */
bool conversation_put_tool(json_t *tools, span name, span description, json_t *parameters);
/* Replaces the arguments of a call, where they are the text of an object, by that object. */
void conversation_parse_arguments(json_t *call);
/* Renders it. text [size] and ids [count] are freed with hearth_free; each pointer may be NULL. */
bool conversation_text(const served *m, const conversation_fields *c, char **text, size_t *size, int32_t **ids,
                       size_t *count, problem *p);

/* ------------------------------------------------------------------ tool_choice.c */

/* Reads the field of that name (NULL: it is not there) of any API into a conversation whose tools are known. */
bool tool_choice_read(const json_t *choice, conversation_fields *c, problem *p);
/* Where a call is demanded: makes the prompt, whose text this is, end with what a call begins with. *out is to be freed, also
 * after a failure. */
bool tool_choice_demand(const served *m, const conversation_fields *c, span text, job_prompt *prompt, tool_demand *out,
                        problem *p);

/* ------------------------------------------------------------------ messages_fields.c, responses_fields.c */

/* Read the conversation of a request in the form of these APIs, and put it into the body in that of chats. */
bool messages_read(json_t *body, conversation_fields *out, problem *p);
bool responses_read(json_t *body, conversation_fields *out, problem *p);

/* ------------------------------------------------------------------ conversation.c */

/* Sends a conversation; out->talk is the answer to it. */
bool conversation_answer(served *m, const talk_api *api, const conversation_fields *c, const generation *g, reply *out,
                         problem *p);
/* Returns how the model writes calls of tools, by the source of the template that is used; NULL: it is not known. */
const struct tool_convention *conversation_convention(const served *m);
/* Gathers a token in text, thoughts or calls. false: no memory. */
bool conversation_add(talk *t, said *c, const event *e);
/* Must precede each use of what was gathered: gathers what was held back, once the answer has ended. false: no memory. */
bool conversation_finish(said *c);

#endif
