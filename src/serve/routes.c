/* routes.c - which handler answers which path. */
#include "api.h"

#include <string.h>

static const route routes[] = {
    {"GET", "/health", true, state_health, false},
    {"GET", "/live", false, state_live, false},
    {"GET", "/metrics", false, state_metrics, false},
    {"GET", "/props", false, state_props, false},
    {"GET", "/slots", false, state_slots, false},
    {"GET", "/v1/models", false, state_models, false},
    {"GET", "/v1/models/", false, state_model, true},
    {"POST", "/v1/chat/completions", false, chat_answer_request, false},
    {"POST", "/v1/completions", false, completion_answer_request, false},
    {"POST", "/tokenize", false, text_tokenize, false},
    {"POST", "/detokenize", false, text_detokenize, false},
    {"POST", "/apply-template", false, text_apply_template, false},
};

/* Of the files of the page, which ask for no key: they hold nothing that is not public. */
static const route page_route = {"GET", NULL, true, NULL, false};

static bool matches(const route *r, const char *path)
{
    return r->has_rest ? strncmp(r->path, path, strlen(r->path)) == 0 : strcmp(r->path, path) == 0;
}

const route *route_find(const char *method, const char *path, const char **allow, problem *p)
{
    if (strcmp(method, "HEAD") == 0)
        method = "GET";
    *allow = NULL;
    for (const route *r = routes; r < routes + sizeof routes / sizeof *routes; r++) {
        if (!matches(r, path))
            continue;
        if (strcmp(r->method, method) == 0)
            return r;
        *allow = r->method;
    }
    if (page_find(path) && strcmp(method, "GET") == 0)
        return &page_route;
    *allow = page_find(path) ? "GET" : *allow;
    if (*allow)
        (void)problem_set(p, 405, "method_not_allowed", "%.64s: takes %s, not %.16s", path, *allow, method);
    else
        (void)problem_set(p, 404, "unknown_path", "%.64s: there is nothing of this name", path);
    return NULL;
}
