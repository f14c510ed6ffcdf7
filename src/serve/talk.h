/* talk.h - an answer on its way to a client: takes the events of a job and makes of them what the API says.
 *
 * Text and probabilities are gathered for each choice. A stream says what was gathered each time it is asked, so that a
 * slow client gets fewer, larger pieces; a whole answer says it once, at the end. */
#ifndef SERVE_TALK_H
#define SERVE_TALK_H

#include "fields.h"
#include "job.h"
#include "server.h"

#include "../chat/reasoning.h"
#include "../chat/tool_calls.h"

struct talk;

/* A choice as far as it was said. */
typedef struct said {
    uint32_t number;
    buffer text, thoughts; /* gathered */
    tool_calls tools;      /* its sink gets what the model says, and hands text on to: */
    reasoning reasoning;
    json_t *calls;              /* gathered: a list, as in a message of OpenAI's chat; NULL: none */
    uint32_t call_count;        /* of the answer so far                                           */
    uint64_t call_number;       /* of the ids of its calls                                        */
    json_t *probabilities;      /* gathered, in the API's form; NULL: none            */
    hearth_detokenizer *reader; /* of a prompt that is scored                         */
    size_t characters;          /* of the text so far                                 */
    size_t prompt_characters;   /* of an echoed prompt: where the answer begins        */
    bool answers;               /* a token of the answer came                          */
    bool has_news, has_begun, has_ended, no_memory;
    ending ending;
} said;

/* How an API says an answer: a row of functions. Those that return bool say false where there is no memory. */
typedef struct talk_api {
    const char *id_prefix;
    bool names_events; /* in a stream "event: TYPE" stands before each, which is its member `type` */
    const char *beat;  /* what a stream says while it has nothing to say; NULL: a comment */
    size_t own_size;   /* of talk.own */
    /* Gathers an event of a token. */
    bool (*add)(struct talk *t, said *c, const event *e);
    /* Returns the body of a whole answer, of what was gathered. NULL: no memory. */
    json_t *(*whole)(struct talk *t);
    /* Append events to a stream, by talk_put: at its beginning; what is new of a choice that has not failed; at its end. */
    bool (*begin)(struct talk *t, buffer *out); /* NULL: nothing */
    bool (*news)(struct talk *t, said *c, buffer *out);
    bool (*end)(struct talk *t, buffer *out);
    /* Returns the event that ends a stream which failed. NULL: no memory. */
    json_t *(*failure)(struct talk *t, const problem *p);
    /* Releases what talk.own holds. NULL: nothing. */
    void (*drop)(void *own);
} talk_api;

typedef struct talk {
    served *served;
    const talk_api *api;
    void *own; /* [api->own_size] the API's, zeroed at first */
    job *job;
    json_t *tools; /* that the request offers; NULL: none */
    bool has_begun, has_beat, wants_usage, wants_probabilities;
    double wrote; /* time of the last event of a stream */
    char id[48];
    int64_t created;
    hearth_detokenizer *speller; /* of single tokens */
    size_t count;                /* choices          */
    said *choices;               /* [count]          */
    size_t prompt_tokens, reused_tokens, answer_tokens;
    bool is_complete; /* nothing is computed any more */
} talk;

/* Creates the talk of a job, which it shares, and which is sent later. NULL: no memory. */
talk *talk_new(served *m, const talk_api *api, job *j);
/* Ends its job, if that goes on. NULL: none. */
void talk_free(talk *t);

/* Takes what came. Streams: appends it to out as events of SSE; *ended: those were the last. false: no memory. */
bool talk_stream(talk *t, buffer *out, bool *ended);
/* Whole answers: takes what came; once that is all, fills in the reply and returns true. */
bool talk_collect(talk *t, reply *out);
/* Waits for more, see outbox_rest. */
bool talk_rest(talk *t, const waiter *w);

/* Appends an event to a stream, and releases its value (NULL: no memory). */
bool talk_put(const talk *t, buffer *out, json_t *value);
/* Returns the text of a token, for people; NULL: no memory. */
json_t *talk_token_text(talk *t, int32_t token);
/* Returns a log-probability as JSON, which has no infinity. */
json_t *talk_probability(double log_probability);
/* Returns whether an answer ended for want of room: max_tokens, or the context. */
bool talk_is_cut(const said *c);
/* Returns what was gathered as text, and removes it. */
json_t *talk_take_text(buffer *b);

#endif
