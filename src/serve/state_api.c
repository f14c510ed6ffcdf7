/* state_api.c - what there is, and how it is: /health, /v1/models, /props, /tokenizer_info, /slots, /metrics. */
#include "api.h"

#include "../base/memory.h"

#include <time.h>

/* It is well if every model can compute. */
void state_health(serve *s, span body, reply *out)
{
    (void)body;
    hearth_error error;
    problem p;
    bool is_lost = serve_state(s, &error) != HEARTH_OK;
    if (!is_lost && !atomic_load(&s->closing)) {
        reply_json(out, json_pack("{s:s}", "status", "ok"));
        return;
    }
    (void)problem_set(&p, 503, is_lost ? "device_lost" : "shutting_down", "%s",
                      is_lost ? error.text : "the server is shutting down");
    reply_problem(out, &p);
}

static void answer_live(served *m, reply *out)
{
    reply_json(out, driver_live(m->driver));
}

/* What OpenAI's API says of a model, and Anthropic's, which has other names for the same; and what hearth knows of it. */
static json_t *model_json(const served *m)
{
    char created[32] = "1970-01-01T00:00:00Z";
    time_t started = (time_t)m->serve->started;
    struct tm parts;
    if (gmtime_r(&started, &parts))
        (void)strftime(created, sizeof created, "%Y-%m-%dT%H:%M:%SZ", &parts);
    json_t *name = json_text(span_of(m->options.name));
    return json_pack("{s:o, s:s, s:I, s:s, s:s, s:O, s:s, s:s, s:{s:s, s:I, s:I, s:I}}", "id", name, "object", "model",
                     "created", (json_int_t)m->serve->started, "owned_by", "hearth", "type", "model", "display_name",
                     name, "created_at", created, "lifecycle", "active", "meta", "family", m->info.family, "n_vocab",
                     (json_int_t)m->info.vocabulary_size, "n_ctx", (json_int_t)driver_context(m->driver), "n_params",
                     (json_int_t)m->info.parameter_count);
}

void state_models(serve *s, span body, reply *out)
{
    (void)body;
    json_t *list = json_array();
    bool ok = list;
    for (size_t i = 0; i < s->model_count && ok; i++)
        ok = json_array_append_new(list, model_json(&s->models[i])) == 0;
    json_t *first = json_text(span_of(s->models[0].options.name));
    json_t *last = json_text(span_of(s->models[s->model_count - 1].options.name));
    json_t *all = json_pack("{s:s, s:o, s:b, s:o, s:o}", "object", "list", "data", list, "has_more", false, "first_id",
                            first, "last_id", last);
    if (!ok) {
        json_decref(all);
        all = NULL;
    }
    reply_json(out, all);
}

void state_model(serve *s, span name, reply *out)
{
    problem p;
    const served *m = served_find(s, name, &p);
    if (m)
        reply_json(out, model_json(m));
    else
        reply_problem(out, &p);
}

/* The model's own template, or what the server was told to use. null: there is none, or only a name and no name is taken. */
static json_t *template_json(const served *m, bool takes_name)
{
    span own = {0};
    if (m->options.template_text)
        own = span_of(m->options.template_text);
    else if (!m->options.template_name)
        own.data = hearth_model_chat_template(m->model, &own.size);
    else if (takes_name)
        own = span_of(m->options.template_name);
    return own.data ? json_text(own) : json_null();
}

static void answer_props(served *m, reply *out)
{
    const hearth_sampling *o = &m->options.sampling;
    const struct tool_convention *convention = conversation_convention(m);
    json_t *settings = json_pack("{s:f, s:I, s:f, s:f, s:f, s:f, s:f}", "temperature", (double)o->temperature, "top_k",
                                 (json_int_t)o->top_k, "top_p", (double)o->top_p, "min_p", (double)o->min_p,
                                 "repeat_penalty", (double)o->repeat_penalty, "presence_penalty",
                                 (double)o->presence_penalty, "frequency_penalty", (double)o->frequency_penalty);
    reply_json(
        out,
        json_pack("{s:o, s:s, s:s, s:s, s:I, s:I, s:I, s:o, s:s?, s:o}", "model", json_text(span_of(m->options.name)),
                  "build", "hearth " HEARTH_VERSION, "mode", hearth_mode_name(hearth_engine_mode(m->options.engine)),
                  "guarantee", hearth_guarantee_name(hearth_engine_guarantee(m->options.engine)), "n_ctx",
                  (json_int_t)driver_context(m->driver), "total_slots", (json_int_t)m->options.session.sequences,
                  "queue", (json_int_t)m->options.queue, "chat_template", template_json(m, true), "tool_calls",
                  convention ? tool_convention_name(convention) : NULL, "default_generation_settings", settings));
}

static json_t *token_json(const served *m, int32_t id)
{
    span spelling = {0};
    if (id >= 0)
        spelling.data = hearth_token_text(m->model, id, &spelling.size);
    return spelling.data ? json_text(spelling) : json_null();
}

/* What vLLM's server says of its tokenizer, and lm-eval asks before it lets a server tokenize. */
static void answer_tokenizer(served *m, reply *out)
{
    reply_json(out, json_pack("{s:o, s:o, s:I, s:o}", "bos_token", token_json(m, m->info.bos), "eos_token",
                              token_json(m, m->info.eos), "model_max_length", (json_int_t)driver_context(m->driver),
                              "chat_template", template_json(m, false)));
}

static json_t *slot_json(const served *m, size_t number, const driver_answer *a)
{
    json_t *out = json_pack("{s:I, s:b, s:I}", "id", (json_int_t)number, "is_processing", a != NULL, "n_ctx",
                            (json_int_t)driver_context(m->driver));
    if (a && out) {
        (void)json_object_set_new(out, "prompt_tokens", json_integer((json_int_t)a->prompt_tokens));
        (void)json_object_set_new(out, "answer_tokens", json_integer((json_int_t)a->answer_tokens));
        (void)json_object_set_new(out, "seconds", json_real(a->seconds));
    }
    return out;
}

/* Lists the places for answers, the oldest answer first. Nothing is told of what is asked or answered. */
static void answer_slots(served *m, reply *out)
{
    size_t count = m->options.session.sequences, running, waiting;
    driver_answer *answers = mem_new_array(count, sizeof *answers);
    json_t *list = json_array();
    if (!answers || !list) {
        mem_free(answers);
        json_decref(list);
        reply_json(out, NULL);
        return;
    }
    size_t listed = driver_list(m->driver, answers, count, &running, &waiting);
    for (size_t i = 0; i < count; i++)
        (void)json_array_append_new(list, slot_json(m, i, i < listed ? &answers[i] : NULL));
    mem_free(answers);
    reply_json(out, list);
}

void state_live(serve *s, span name, reply *out)
{
    reply_of_model(s, name, out, answer_live);
}

void state_props(serve *s, span name, reply *out)
{
    reply_of_model(s, name, out, answer_props);
}

void state_tokenizer(serve *s, span name, reply *out)
{
    reply_of_model(s, name, out, answer_tokenizer);
}

void state_slots(serve *s, span name, reply *out)
{
    reply_of_model(s, name, out, answer_slots);
}

/* Sets the gauges of a model. */
static void measure(served *m)
{
    size_t running, waiting;
    driver_answer none;
    (void)driver_list(m->driver, &none, 0, &running, &waiting);
    metrics_set(&m->metrics, METRIC_RUNNING, running);
    metrics_set(&m->metrics, METRIC_WAITING, waiting);
}

/* Samples have the name of their model only where there are several, as one needs no telling apart. */
void state_metrics(serve *s, span body, reply *out)
{
    (void)body;
    metrics_of *models = mem_new_array(s->model_count, sizeof *models);
    for (size_t i = 0; i < s->model_count && models; i++) {
        served *m = &s->models[i];
        measure(m);
        models[i] = (metrics_of){.model = s->model_count > 1 ? m->options.name : NULL, .metrics = &m->metrics};
    }
    metrics_set(&s->metrics, METRIC_CONNECTIONS, atomic_load(&s->exchanges));
    bool ok = models && metrics_print(&s->metrics, models, s->model_count, &out->body);
    mem_free(models);
    if (!ok) {
        reply_json(out, NULL);
        return;
    }
    out->status = 200;
    out->type = "text/plain; version=0.0.4; charset=utf-8";
}
