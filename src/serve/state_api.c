/* state_api.c - what there is, and how it is: /health, /v1/models, /props, /tokenizer_info, /slots, /metrics. */
#include "api.h"

#include "../base/memory.h"

#include <time.h>

void state_health(serve *s, span body, reply *out)
{
    (void)body;
    hearth_error error;
    problem p;
    if (driver_is_well(s->driver, &error) && !atomic_load(&s->closing)) {
        reply_json(out, json_pack("{s:s}", "status", "ok"));
        return;
    }
    bool is_lost = error.status != HEARTH_OK;
    (void)problem_set(&p, 503, is_lost ? "device_lost" : "shutting_down", "%s",
                      is_lost ? error.text : "the server is shutting down");
    reply_problem(out, &p);
}

void state_live(serve *s, span body, reply *out)
{
    (void)body;
    reply_json(out, driver_live(s->driver));
}

/* What OpenAI's API says of a model, and Anthropic's, which has other names for the same; and what hearth knows of it. */
static json_t *model_json(const serve *s)
{
    char created[32] = "1970-01-01T00:00:00Z";
    time_t started = (time_t)s->started;
    struct tm parts;
    if (gmtime_r(&started, &parts))
        (void)strftime(created, sizeof created, "%Y-%m-%dT%H:%M:%SZ", &parts);
    json_t *name = json_text(span_of(s->options.name));
    return json_pack("{s:o, s:s, s:I, s:s, s:s, s:O, s:s, s:s, s:{s:s, s:I, s:I, s:I}}", "id", name, "object", "model",
                     "created", (json_int_t)s->started, "owned_by", "hearth", "type", "model", "display_name", name,
                     "created_at", created, "lifecycle", "active", "meta", "family", s->info.family, "n_vocab",
                     (json_int_t)s->info.vocabulary_size, "n_ctx", (json_int_t)driver_context(s->driver), "n_params",
                     (json_int_t)s->info.parameter_count);
}

void state_models(serve *s, span body, reply *out)
{
    (void)body;
    json_t *name = json_text(span_of(s->options.name));
    reply_json(out, json_pack("{s:s, s:[o], s:b, s:o, s:O}", "object", "list", "data", model_json(s), "has_more", false,
                              "first_id", name, "last_id", name));
}

void state_model(serve *s, span name, reply *out)
{
    problem p;
    if (span_equal(name, span_of(s->options.name))) {
        reply_json(out, model_json(s));
        return;
    }
    (void)problem_set(&p, 404, "model_not_found", "%.*s: there is no such model, only %s",
                      (int)(name.size < 256 ? name.size : 256), name.data, s->options.name);
    reply_problem(out, &p);
}

/* The model's own template, or what the server was told to use. null: there is none, or only a name and no name is taken. */
static json_t *template_json(const serve *s, bool takes_name)
{
    span own = {0};
    if (s->options.template_text)
        own = span_of(s->options.template_text);
    else if (!s->options.template_name)
        own.data = hearth_model_chat_template(s->model, &own.size);
    else if (takes_name)
        own = span_of(s->options.template_name);
    return own.data ? json_text(own) : json_null();
}

void state_props(serve *s, span body, reply *out)
{
    (void)body;
    const hearth_sampling *o = &s->options.sampling;
    const struct tool_convention *convention = conversation_convention(s);
    json_t *settings = json_pack("{s:f, s:I, s:f, s:f, s:f, s:f, s:f}", "temperature", (double)o->temperature, "top_k",
                                 (json_int_t)o->top_k, "top_p", (double)o->top_p, "min_p", (double)o->min_p,
                                 "repeat_penalty", (double)o->repeat_penalty, "presence_penalty",
                                 (double)o->presence_penalty, "frequency_penalty", (double)o->frequency_penalty);
    reply_json(
        out,
        json_pack("{s:o, s:s, s:s, s:s, s:I, s:I, s:I, s:o, s:s?, s:o}", "model", json_text(span_of(s->options.name)),
                  "build", "hearth " HEARTH_VERSION, "mode", hearth_mode_name(hearth_engine_mode(s->engine)),
                  "guarantee", hearth_guarantee_name(hearth_engine_guarantee(s->engine)), "n_ctx",
                  (json_int_t)driver_context(s->driver), "total_slots", (json_int_t)s->options.session.sequences,
                  "queue", (json_int_t)s->options.queue, "chat_template", template_json(s, true), "tool_calls",
                  convention ? tool_convention_name(convention) : NULL, "default_generation_settings", settings));
}

static json_t *token_json(const serve *s, int32_t id)
{
    span spelling = {0};
    if (id >= 0)
        spelling.data = hearth_token_text(s->model, id, &spelling.size);
    return spelling.data ? json_text(spelling) : json_null();
}

/* What vLLM's server says of its tokenizer, and lm-eval asks before it lets a server tokenize. */
void state_tokenizer(serve *s, span body, reply *out)
{
    (void)body;
    reply_json(out, json_pack("{s:o, s:o, s:I, s:o}", "bos_token", token_json(s, s->info.bos), "eos_token",
                              token_json(s, s->info.eos), "model_max_length", (json_int_t)driver_context(s->driver),
                              "chat_template", template_json(s, false)));
}

static json_t *slot_json(const serve *s, size_t number, const driver_answer *a)
{
    json_t *out = json_pack("{s:I, s:b, s:I}", "id", (json_int_t)number, "is_processing", a != NULL, "n_ctx",
                            (json_int_t)driver_context(s->driver));
    if (a && out) {
        (void)json_object_set_new(out, "prompt_tokens", json_integer((json_int_t)a->prompt_tokens));
        (void)json_object_set_new(out, "answer_tokens", json_integer((json_int_t)a->answer_tokens));
        (void)json_object_set_new(out, "seconds", json_real(a->seconds));
    }
    return out;
}

/* Lists the places for answers, the oldest answer first. Nothing is told of what is asked or answered. */
void state_slots(serve *s, span body, reply *out)
{
    (void)body;
    size_t count = s->options.session.sequences, running, waiting;
    driver_answer *answers = mem_new_array(count, sizeof *answers);
    json_t *list = json_array();
    if (!answers || !list) {
        mem_free(answers);
        json_decref(list);
        reply_json(out, NULL);
        return;
    }
    size_t listed = driver_list(s->driver, answers, count, &running, &waiting);
    for (size_t i = 0; i < count; i++)
        (void)json_array_append_new(list, slot_json(s, i, i < listed ? &answers[i] : NULL));
    mem_free(answers);
    reply_json(out, list);
}

void state_metrics(serve *s, span body, reply *out)
{
    (void)body;
    size_t running, waiting;
    driver_answer none;
    (void)driver_list(s->driver, &none, 0, &running, &waiting);
    metrics_set(&s->metrics, METRIC_RUNNING, running);
    metrics_set(&s->metrics, METRIC_WAITING, waiting);
    metrics_set(&s->metrics, METRIC_CONNECTIONS, atomic_load(&s->exchanges));
    if (!metrics_print(&s->metrics, &out->body)) {
        reply_json(out, NULL);
        return;
    }
    out->status = 200;
    out->type = "text/plain; version=0.0.4; charset=utf-8";
}
