/* problem.h - why a request cannot be answered, as its client is told: a status of HTTP and an object in the form of the
 * API that was asked. */
#ifndef SERVE_PROBLEM_H
#define SERVE_PROBLEM_H

#include "../base/json.h"

/* The code of a request that goes on with a conversation which the server would have to keep. */
#define PROBLEM_NO_THREADS "thread_unsupported_request"

typedef struct problem {
    unsigned status;  /* of HTTP: 400, 404 ...; 0: there is no problem     */
    const char *code; /* "queue_full", a word for programs; NULL: none     */
    char param[96];   /* the field that is wrong: "messages[0].role"; "": none */
    char message[1024];
} problem;

/* Fill in a problem and return false, so that `return problem_field(...)` is one line. param: NULL: none. The text is cut
 * to fit; bytes that are not UTF-8 are replaced when it is printed. */
bool problem_set(problem *p, unsigned status, const char *code, const char *format, ...)
    __attribute__((format(printf, 4, 5)));
/* A field that is wrong: status 400. */
bool problem_field(problem *p, const char *param, const char *code, const char *format, ...)
    __attribute__((format(printf, 4, 5)));
/* What a function of the library reports about a request; param: as above. */
bool problem_of(problem *p, const char *param, hearth_status status, const char *text);

/* The form in which an API tells of errors. */
typedef struct problem_form {
    const struct problem_type *types;                          /* by status; 0 ends the list */
    json_t *(*print)(const problem *p, const char *type_name); /* NULL: no memory            */
} problem_form;

/* {"error": {"message", "type", "param", "code"}} */
extern const problem_form problem_openai;
/* {"type": "error", "error": {"type", "message"}}; the message begins with the field that is wrong. Of PROBLEM_NO_THREADS the
 * error also has "details": {"error_code", "unsupported"}. */
extern const problem_form problem_anthropic;

/* Returns the object; NULL: no memory. form: NULL: OpenAI's. */
json_t *problem_json(const problem *p, const problem_form *form);

#endif
