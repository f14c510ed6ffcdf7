/* problem.c - errors in the words of HTTP and of each API. */
#include "problem.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>

typedef struct problem_type {
    unsigned status;
    const char *name;
} problem_type;

/* What the library's errors are to a client; HEARTH_OK ends the list. */
static const struct meaning {
    hearth_status status;
    unsigned http;
    const char *code;
} meanings[] = {
    {HEARTH_INVALID, 400, "invalid_value"},   {HEARTH_FORMAT, 400, "invalid_value"},
    {HEARTH_UNSUPPORTED, 400, "unsupported"}, {HEARTH_FULL, 400, "context_length_exceeded"},
    {HEARTH_NO_MEMORY, 503, "out_of_memory"}, {HEARTH_CANCELLED, 503, "cancelled"},
    {HEARTH_OK, 500, "internal_error"},
};

bool problem_set(problem *p, unsigned status, const char *code, const char *format, ...)
{
    va_list values;
    *p = (problem){.status = status, .code = code};
    va_start(values, format);
    vsnprintf(p->message, sizeof p->message, format, values);
    va_end(values);
    return false;
}

bool problem_field(problem *p, const char *param, const char *code, const char *format, ...)
{
    va_list values;
    *p = (problem){.status = 400, .code = code};
    snprintf(p->param, sizeof p->param, "%s", param);
    va_start(values, format);
    vsnprintf(p->message, sizeof p->message, format, values);
    va_end(values);
    return false;
}

bool problem_of(problem *p, const char *param, hearth_status status, const char *text)
{
    const struct meaning *m = meanings;
    while (m->status != HEARTH_OK && m->status != status)
        m++;
    problem_set(p, m->http, m->code, "%s", text);
    snprintf(p->param, sizeof p->param, "%s", param ? param : "");
    return false;
}

/* ------------------------------------------------------------------ forms */

static const problem_type openai_types[] = {
    {401, "authentication_error"}, {403, "permission_error"}, {404, "not_found_error"},     {429, "rate_limit_error"},
    {500, "server_error"},         {503, "server_error"},     {0, "invalid_request_error"},
};

static json_t *print_openai(const problem *p, const char *type_name)
{
    return json_pack("{s:{s:o, s:s, s:o, s:o}}", "error", "message", json_text(span_of(p->message)), "type", type_name,
                     "param", p->param[0] ? json_text(span_of(p->param)) : json_null(), "code",
                     p->code ? json_string(p->code) : json_null());
}

const problem_form problem_openai = {openai_types, print_openai};

static const problem_type anthropic_types[] = {
    {401, "authentication_error"}, {403, "permission_error"}, {404, "not_found_error"},
    {413, "request_too_large"},    {429, "rate_limit_error"}, {500, "api_error"},
    {503, "overloaded_error"},     {529, "overloaded_error"}, {0, "invalid_request_error"},
};

/* Clients that find no conversations stored know it by details, and bring the whole conversation. */
static json_t *print_anthropic(const problem *p, const char *type_name)
{
    json_t *details = p->code && strcmp(p->code, PROBLEM_NO_THREADS) == 0
                          ? json_pack("{s:s, s:[s]}", "error_code", p->code, "unsupported", p->param)
                          : NULL;
    return json_pack("{s:s, s:{s:s, s:o, s:o*}}", "type", "error", "error", "type", type_name, "message",
                     json_text(span_of(p->message)), "details", details);
}

const problem_form problem_anthropic = {anthropic_types, print_anthropic};

json_t *problem_json(const problem *p, const problem_form *form)
{
    const problem_form *own = form ? form : &problem_openai;
    const problem_type *t = own->types;
    while (t->status != 0 && t->status != p->status)
        t++;
    return own->print(p, t->name);
}
