/* generate.c - from the fields of a request to a job: what all APIs that write answers share. */
#include "api.h"

#include "../base/memory.h"

#include <errno.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>

#define MOST_CHOICES    128
#define MOST_STOPS      16
#define MOST_STOP_BYTES 4096 /* in all: every answer has a copy, and a table to search for them */
#define MOST_BIASES     1024

static const field rows[] = {
    GENERATION_TEMPERATURE,
    GENERATION_TOP_P,
    GENERATION_TOP_K,
    GENERATION_NUMBER("min_p", NUMBER, min_p, 0, 1),
    GENERATION_NUMBER("repeat_penalty", NUMBER, repeat_penalty, 1e-6, 100),
    GENERATION_NUMBER("repetition_penalty", NUMBER, repeat_penalty, 1e-6, 100),
    GENERATION_NUMBER("presence_penalty", NUMBER, presence_penalty, -100, 100),
    GENERATION_NUMBER("frequency_penalty", NUMBER, frequency_penalty, -100, 100),
    {FIELD_ROW("seed", SEED, generation, seed)},
    GENERATION_TOKENS("max_tokens", 0),
    GENERATION_TOKENS("max_completion_tokens", 0),
    {FIELD_ROW("n", COUNT, generation, count), .least = 1, .most = MOST_CHOICES},
    {FIELD_ROW("stream", BOOL, generation, streams)},
    {FIELD_ROW("ignore_eos", BOOL, generation, ignores_end)},
    {FIELD_ROW("stop", JSON, generation, stops), .types = FIELD_STRING | FIELD_LIST},
    {FIELD_ROW("logit_bias", JSON, generation, biases), .types = FIELD_OBJECT},
    {FIELD_ROW("stream_options", JSON, generation, stream_options), .types = FIELD_OBJECT},
    {FIELD_ROW("response_format", JSON, generation, response_format), .types = FIELD_OBJECT},
};

static const field format_rows[] = {
    {FIELD_ROW("grammar", JSON, generation, grammar), .types = FIELD_STRING},
    {FIELD_ROW("json_schema", JSON, generation, json_schema), .types = FIELD_OBJECT},
};

static const field stream_rows[] = {
    {FIELD_ROW("include_usage", BOOL, generation, wants_usage)},
};

bool generation_check_stops(const json_t *stops, const char *name, problem *p)
{
    size_t bytes = json_string_length(stops);
    if (json_is_string(stops) && json_string_length(stops) == 0)
        return problem_field(p, name, "invalid_value", "%s: must not be empty", name);
    if (json_array_size(stops) > MOST_STOPS)
        return problem_field(p, name, "out_of_range", "%s: has %zu strings, at most %d are allowed", name,
                             json_array_size(stops), MOST_STOPS);
    for (size_t i = 0; i < json_array_size(stops); i++)
        if (json_string_length(json_array_get(stops, i)) == 0)
            return problem_field(p, name, "invalid_type", "%s[%zu]: must be a string, and not empty", name, i);
        else
            bytes += json_string_length(json_array_get(stops, i));
    if (bytes > MOST_STOP_BYTES)
        return problem_field(p, name, "out_of_range", "%s: has %zu bytes, at most %d are allowed", name, bytes,
                             MOST_STOP_BYTES);
    return true;
}

generation generation_default(const served *m)
{
    return (generation){.sampling = m->options.sampling, .count = 1};
}

bool generation_read_format(const json_t *body, const char *path, generation *g, problem *p)
{
    return fields_read(FIELDS(format_rows), body, "", g, p) && format_read(g->response_format, path, &g->format, p) &&
           format_read_grammar(g->grammar, &g->format, p) && format_read_schema(g->json_schema, &g->format, p);
}

bool generation_read(const served *m, const json_t *body, uint32_t most_default, generation *out, problem *p)
{
    *out = generation_default(m);
    if (!fields_read(FIELDS(rows), body, "", out, p))
        return false;
    if (!fields_read(FIELDS(stream_rows), out->stream_options, "stream_options.", out, p))
        return false;
    if (out->stream_options && !out->streams)
        return problem_field(p, "stream_options", "invalid_value", "stream_options: needs \"stream\": true");
    if (!out->most_tokens.given)
        out->most_tokens.value = most_default;
    return generation_check_stops(out->stops, "stop", p) && generation_read_format(body, "response_format", out, p);
}

/* ------------------------------------------------------------------ what the library needs */

static bool read_bias(const served *m, const char *key, const json_t *value, hearth_logit_bias *out)
{
    char *end;
    errno = 0;
    long id = strtol(key, &end, 10);
    double bias = json_number_value(value);
    *out = (hearth_logit_bias){(int32_t)id, (float)bias};
    return end > key && !*end && !errno && id >= 0 && id < (long)m->info.vocabulary_size && json_is_number(value) &&
           bias >= -100 && bias <= 100;
}

/* Reads {"15043": -1.5} into biases [MOST_BIASES]. */
static bool read_biases(const served *m, const generation *g, hearth_logit_bias *biases, size_t *count, problem *p)
{
    const char *key;
    json_t *value;
    *count = 0;
    if (json_object_size(g->biases) > MOST_BIASES)
        return problem_field(p, "logit_bias", "out_of_range", "logit_bias: has more than %d tokens", MOST_BIASES);
    json_object_foreach(g->biases, key, value)
    {
        if (!read_bias(m, key, value, &biases[(*count)++]))
            return problem_field(
                p, "logit_bias", "invalid_value",
                "logit_bias: must map the numbers of tokens to numbers from -100 to 100, but has \"%.32s\"", key);
    }
    return true;
}

static uint64_t choose_seed(const served *m, const generation *g, uint32_t number)
{
    uint64_t seed = m->options.sampling.seed;
    if (g->seed.given)
        return g->seed.value + number;
    if (m->options.has_seed)
        return seed + number;
    if (getrandom(&seed, sizeof seed, GRND_NONBLOCK) != (ssize_t)sizeof seed)
        seed += number;
    return seed;
}

/* Creates the samplers and answers of a job. */
static hearth_status fill_choices(const served *m, const generation *g, job *j, const hearth_sampling *sampling,
                                  hearth_error *error)
{
    const char *stops[MOST_STOPS];
    hearth_answer_options answer = {.stops = stops,
                                    .ignore_end = g->ignores_end,
                                    .max_tokens = g->most_tokens.value,
                                    .draft_tokens = m->options.draft,
                                    .grammar = j->grammar};
    if (json_is_string(g->stops))
        stops[answer.stop_count++] = json_string_value(g->stops);
    for (size_t i = 0; i < json_array_size(g->stops); i++)
        stops[answer.stop_count++] = json_string_value(json_array_get(g->stops, i));
    for (size_t i = 0; i < j->choice_count; i++) {
        job_choice *c = &j->choices[i];
        hearth_sampling own = *sampling;
        own.seed = choose_seed(m, g, c->number % g->count); /* those of a prompt are what it gets alone */
        c->prompt = (uint32_t)(i / (j->choice_count / j->prompt_count));
        TRY(hearth_sampler_create(&c->sampler, &own, m->info.vocabulary_size, error));
        TRY(hearth_answer_create(&c->answer, m->model, &answer, error));
    }
    return HEARTH_OK;
}

size_t generation_choices(const served *m, const generation *g, size_t prompts, const char *param, problem *p)
{
    size_t choices = prompts * g->count, room = driver_room(m->driver);
    if (choices <= room)
        return choices;
    (void)problem_field(p, prompts > 1 ? param : "n", "out_of_range",
                        "%s: asks for %zu answers at once, more than the %zu that can wait", prompts > 1 ? param : "n",
                        choices, room);
    return 0;
}

bool generation_send(served *m, const generation *g, job *j, const char *param, problem *p)
{
    hearth_sampling sampling = g->sampling;
    hearth_error error = {0};
    if (!prompts_check(m, j, param, p) || !format_make(m, &g->format, g->behind, &j->grammar, p))
        return false;
    hearth_logit_bias *biases = g->biases ? mem_new_array(MOST_BIASES, sizeof *biases) : NULL;
    if (g->biases && !biases)
        return problem_of(p, NULL, HEARTH_NO_MEMORY, "logit_bias: out of memory");
    bool ok = !biases || read_biases(m, g, biases, &sampling.bias_count, p);
    if (biases)
        sampling.biases = biases;
    hearth_status status = ok ? fill_choices(m, g, j, &sampling, &error) : HEARTH_OK;
    mem_free(biases);
    if (!ok)
        return false;
    if (status != HEARTH_OK)
        return problem_of(p, NULL, status, error.text);
    j->most_tokens = g->most_tokens.value;
    j->streams = g->streams;
    return prompts_send(m, j, p);
}
