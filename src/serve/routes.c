/* routes.c - which handler answers which path. */
#include "api.h"

#include <string.h>

static const route routes[] = {
    {"GET", "/health", true, state_health, false, &problem_openai},
    {"GET", "/live", false, state_live, false, &problem_openai},
    {"GET", "/metrics", false, state_metrics, false, &problem_openai},
    {"GET", "/props", false, state_props, false, &problem_openai},
    {"GET", "/tokenizer_info", false, state_tokenizer, false, &problem_openai},
    {"GET", "/slots", false, state_slots, false, &problem_openai},
    {"GET", "/v1/models", false, state_models, false, &problem_openai},
    {"GET", "/v1/models/", false, state_model, true, &problem_openai},
    {"POST", "/v1/chat/completions", false, chat_answer_request, false, &problem_openai},
    {"POST", "/v1/completions", false, completion_answer_request, false, &problem_openai},
    {"POST", "/v1/embeddings", false, embeddings_answer_request, false, &problem_openai},
    {"POST", "/v1/messages", false, messages_answer_request, false, &problem_anthropic},
    {"POST", "/v1/messages/count_tokens", false, messages_count_tokens, false, &problem_anthropic},
    {"POST", "/v1/responses", false, responses_answer_request, false, &problem_openai},
    {"POST", "/tokenize", false, text_tokenize, false, &problem_openai},
    {"POST", "/detokenize", false, text_detokenize, false, &problem_openai},
    {"POST", "/apply-template", false, text_apply_template, false, &problem_openai},
};

/* Of the files of the page, which ask for no key: they hold nothing that is not public. */
static const route page_route = {"GET", NULL, true, NULL, false, &problem_openai};

static bool matches(const route *r, const char *path)
{
    return r->has_rest ? strncmp(r->path, path, strlen(r->path)) == 0 : strcmp(r->path, path) == 0;
}

const route *route_find(const char *method, const char *path, const route **nearest, problem *p)
{
    if (strcmp(method, "HEAD") == 0)
        method = "GET";
    *nearest = page_find(path) ? &page_route : NULL;
    for (const route *r = routes; r < routes + sizeof routes / sizeof *routes; r++) {
        if (!matches(r, path))
            continue;
        *nearest = r;
        if (strcmp(r->method, method) == 0)
            return r;
    }
    if (!*nearest)
        (void)problem_set(p, 404, "unknown_path", "%.64s: there is nothing of this name", path);
    else if (*nearest == &page_route && strcmp(method, "GET") == 0)
        return &page_route;
    else
        (void)problem_set(p, 405, "method_not_allowed", "%.64s: takes %s, not %.16s", path, (*nearest)->method, method);
    return NULL;
}
