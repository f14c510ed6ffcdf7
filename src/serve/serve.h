/* serve.h - answers requests over HTTP, with an engine for each model that it serves.
 *
 * A server owns a thread that computes for each model (driver.h), a few that speak HTTP (http.c), and the sessions between
 * them. Engines, their models and what the options point to stay the caller's, and outlive it. It prints nothing. */
#ifndef SERVE_SERVE_H
#define SERVE_SERVE_H

#include "../base/error.h"
#include "pooling.h"

typedef struct serve serve;

/* A model, and what holds for it alone. */
typedef struct served_options {
    const char *name; /* as clients see it */
    const hearth_engine *engine;
    const char *template_text; /* of chats, as in hearth_chat_options; both NULL: the model's own */
    const char *template_name;
    const char *variables;          /* of the template: JSON, an object; NULL: none */
    hearth_sampling sampling;       /* where a request says nothing                 */
    bool has_seed;                  /* that of `sampling` is meant; else every answer draws its own */
    hearth_session_options session; /* its sequences: answers that are written at once              */
    uint64_t cache_bytes;           /* for keys and values of all sequences; 0: as many as they can have */
    const char *cache_folder;       /* keeps what was read when the server ends; NULL: nothing is kept  */
    double predicted;               /* tokens per second of one answer, by the plan; 0: unknown     */
    uint32_t prompt_rows;           /* tokens of prompts in a step; 0: as in hearth_scheduler_options */
    uint32_t draft;                 /* hearth_answer_options.draft_tokens of every answer           */
    uint32_t queue;                 /* most answers that wait                                       */
    pooling pooling;                /* of /v1/embeddings                                            */
} served_options;

typedef struct serve_options {
    const char *host;        /* a name or an address to listen at */
    uint16_t port;           /* 0: any free one                   */
    const char *const *keys; /* [key_count] of which a client must show one; none: anybody may ask */
    size_t key_count;
    /* [model_count], at least one; the first answers where no name is given. No two names are the same, also with each '/'
     * read as '_' where they have one cache_folder. */
    const served_options *models;
    size_t model_count;
    uint32_t connections; /* most at once                                                 */
    uint32_t beat;        /* seconds after which a stream that waits says so; 0: it never does */
    uint32_t patience;    /* seconds without a sign of life after which a connection ends */
    size_t body_bytes;    /* most of one request                                          */
} serve_options;

/* HEARTH_UNSUPPORTED: hearth was built without libmicrohttpd; so it can be said before a model is loaded. */
hearth_status serve_check(hearth_error *error);
/* Listens and answers from then on. HEARTH_UNSUPPORTED: hearth was built without libmicrohttpd, or a model has no
 * tokenizer. HEARTH_IO: the address cannot be listened at. Else as hearth_session_create. */
hearth_status serve_open(serve **out, const serve_options *options, hearth_error *error);
/* Tells clients that the server ends, and frees it, within a few seconds. NULL: none. *error: why not all of what was read
 * could be stored; it is freed nevertheless. */
hearth_status serve_close(serve *s, hearth_error *error);

/* Returns "http://127.0.0.1:8080", valid as long as the server. */
const char *serve_url(const serve *s);
/* Returns the positions of a sequence of that model. */
uint32_t serve_context(const serve *s, size_t model);
/* Returns how many sequences of that model came out of the folder; *refusal: why the first of those that did not was refused,
 * NULL: all did. */
uint32_t serve_restored(const serve *s, size_t model, const char **refusal);
/* Returns a descriptor that can be read once the server cannot compute any more: one of its models cannot. */
int serve_lost(const serve *s);
/* Returns why it cannot: HEARTH_OK: it can. */
hearth_status serve_state(serve *s, hearth_error *error);

#endif
