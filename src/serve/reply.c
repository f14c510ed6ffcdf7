/* reply.c - bodies of replies. */
#include "server.h"

#include <stdlib.h>
#include <string.h>

void reply_json(reply *r, json_t *value)
{
    char *text = value ? json_dumps(value, JSON_COMPACT) : NULL;
    json_decref(value);
    r->body.size = 0;
    r->type = "application/json";
    if (!text || !buffer_put(&r->body, text, strlen(text)) || !buffer_put(&r->body, "\n", 1)) {
        r->body.size = 0;
        r->status = 500;
    } else if (r->status == 0) {
        r->status = 200;
    }
    free(text);
}

void reply_problem(reply *r, const problem *p)
{
    r->status = p->status;
    reply_json(r, problem_json(p, r->errors));
}

/* Of a body: a megabyte of empty ones would take eighty in memory. */
#define MOST_CONTAINERS ((size_t)1 << 17)

/* Counts objects and lists of a JSON text. */
static size_t count_containers(span json)
{
    size_t count = 0;
    bool in_text = false;
    for (size_t i = 0; i < json.size; i++) {
        char c = json.data[i];
        if (in_text && c == '\\')
            i++;
        else if (c == '"')
            in_text = !in_text;
        else
            count += !in_text && (c == '{' || c == '[');
    }
    return count;
}

/* Parses the body of a request, which must be an object. NULL: *p says why. */
static json_t *parse(span body, problem *p)
{
    if (count_containers(body) > MOST_CONTAINERS) {
        (void)problem_set(p, 400, "out_of_range", "body: has more than %zu objects and lists", MOST_CONTAINERS);
        return NULL;
    }
    json_t *value;
    hearth_error error = {0};
    hearth_status status = json_parse(&value, body.size ? body.data : "", body.size, "body", &error);
    if (status != HEARTH_OK) {
        (void)problem_of(p, NULL, status, error.text);
        p->code = status == HEARTH_FORMAT ? "invalid_json" : p->code;
        return NULL;
    }
    if (json_is_object(value))
        return value;
    json_decref(value);
    (void)problem_set(p, 400, "invalid_type", "body: must be an object");
    return NULL;
}

/* Finds the model that a body names. Only where that decides does it matter what the name is. */
static served *choose(serve *s, const json_t *body, problem *p)
{
    const json_t *name = json_object_get(body, "model");
    if (s->model_count > 1 && name && !json_is_null(name) && !json_is_string(name)) {
        (void)problem_field(p, "model", "invalid_type", "model: must be a string");
        return NULL;
    }
    return served_choose(s, (span){json_string_value(name), json_string_length(name)}, p);
}

void reply_to_body(serve *s, span text, reply *out, body_handler *answer)
{
    problem p = {0};
    json_t *body = parse(text, &p);
    served *m = body ? choose(s, body, &p) : NULL;
    if (!m || !answer(m, body, out, &p))
        reply_problem(out, &p);
    json_decref(body);
}

void reply_of_model(serve *s, span name, reply *out, model_handler *answer)
{
    problem p;
    served *m = served_choose(s, name, &p);
    if (m)
        answer(m, out);
    else
        reply_problem(out, &p);
}
