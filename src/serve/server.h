/* server.h - what the files of the server share: the server itself, and how a request is answered.
 *
 * A handler is given the body of a request and fills in a reply: a whole one, or a talk that is still to be computed. It
 * knows nothing of connections, so only http.c needs libmicrohttpd. */
#ifndef SERVE_SERVER_H
#define SERVE_SERVER_H

#include "driver.h"
#include "page.h"
#include "problem.h"
#include "serve.h"

/* A model, and the thread that computes with it. */
typedef struct served {
    serve *serve;
    served_options options;
    const hearth_model *model;
    hearth_model_info info;
    driver *driver;
    metrics metrics; /* those of the model */
} served;

struct serve {
    serve_options options;
    served *models; /* [model_count] */
    size_t model_count;
    ticket_lock computing;     /* its drivers hold it for each step           */
    metrics metrics;           /* those of the server                         */
    int64_t started;           /* seconds since 1970                          */
    bool is_local;             /* listens at loopback alone                   */
    bool listens;              /* all of it has been opened                   */
    atomic_bool closing;       /* requests are refused                        */
    atomic_size_t body_bytes;  /* of all bodies that are held                 */
    atomic_size_t reply_bytes; /* of all replies that are not streams, until they are read */
    atomic_size_t exchanges;   /* requests that are being read or answered    */
    atomic_size_t replies;     /* of these, that are being answered           */
    atomic_uint_fast64_t ids;  /* of answers                                  */
    int lost;                  /* a descriptor: can be read once nothing can be computed */
    char url[300];
    struct http *http;
};

/* How a request is answered: with a body, a file of the page, or by a talk, whose answer comes while it is written. */
typedef struct reply {
    unsigned status;
    const char *type; /* of the body */
    buffer body;
    const page_file *file;      /* in place of the body; NULL: none */
    struct talk *talk;          /* NULL: the body is all */
    const char *allow;          /* of status 405: "GET"; else NULL */
    const problem_form *errors; /* how the route tells of errors; NULL: as OpenAI */
} reply;

/* Fill in the body of a reply; without memory the status is 500 and the body empty. reply_json releases the value (NULL: no memory). */
void reply_json(reply *r, json_t *value);
void reply_problem(reply *r, const problem *p);

/* body: the whole of it; with GET the rest of the path where the route has one, else the model that the query names, mostly
 * nothing. */
typedef void handler(serve *s, span body, reply *out);

/* Fills in the reply of a model to a body that has been parsed; false: *p says why not. */
typedef bool body_handler(served *m, json_t *body, reply *out, problem *p);
/* Parses the body of a request, which must be an object, and has it answered by the model that it names; or says what is
 * wrong. */
void reply_to_body(serve *s, span text, reply *out, body_handler *answer);

/* Fills in what there is to say of a model. */
typedef void model_handler(served *m, reply *out);
/* Has the model of that name answer, or says that there is none. */
void reply_of_model(serve *s, span name, reply *out, model_handler *answer);

/* ------------------------------------------------------------------ served.c */

/* Opens a model of a server and starts its thread; as serve_open. What has been opened is to be closed also after a failure. */
hearth_status served_open(served *m, serve *s, const served_options *options, hearth_error *error);
/* Stores what it has read; *error: why that is not all. */
hearth_status served_close(served *m, hearth_error *error);

/* Finds a model by its name; NULL: *p says that there is none, and which there are. */
served *served_find(serve *s, span name, problem *p);
/* Finds the model that a request asks by a name: without one the first. A server with one model has it answer to any. */
served *served_choose(serve *s, span name, problem *p);

/* ------------------------------------------------------------------ serve.c */

/* Raises serve_lost. Any thread. */
void serve_lose(serve *s);

/* ------------------------------------------------------------------ http.c */

/* Starts and ends the threads that speak HTTP. After http_close_door no connection is accepted. http_close: the driver
 * has been stopped, so no connection waits for it. */
hearth_status http_open(serve *s, hearth_error *error);
void http_close_door(serve *s);
void http_close(serve *s);

/* ------------------------------------------------------------------ routes.c */

typedef struct route {
    const char *method, *path;
    bool is_open;    /* needs no key */
    handler *answer; /* NULL: the file of the page at this path */
    bool has_rest;   /* the path may go on; what follows is given to the handler as the body */
    const problem_form *errors;
} route;

/* Finds the route of a request; HEAD is that of GET. NULL: *p says why. *nearest: it, or that of this path with another
 * method; NULL: nothing has this path. */
const route *route_find(const char *method, const char *path, const route **nearest, problem *p);

/* ------------------------------------------------------------------ access.c */

/* Headers of a request, NULL: absent. */
typedef struct credentials {
    const char *host, *origin, *authorization;
    const char *key; /* x-api-key */
} credentials;

/* Checks where a request says that it comes from, and its key. false: *p says why not. */
bool access_check(const serve *s, const route *to, const credentials *c, problem *p);

#endif
