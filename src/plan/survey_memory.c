/* survey_memory.c - the key of a survey, and its file:
 *
 *     {"hearth.survey": 1, "key": "...", "head": [0.001, 0.0002], "token": 0.0001, "crossing": 0.00002,
 *      "scratch_bytes": 1200000, "layers": {"0": [cpu_mixer, ..., exchange], "7": [...]},
 *      "ratios": [one per term], "tried": "hash of a plan", "trial": [predicted, achieved, on the CPU, by whole layers, and one per term]}
 *
 * A file that deviates in any point is treated as missing. The worst that a forged one can do is a slow plan. */
#include "survey_memory.h"

#include "../base/file.h"
#include "../base/hash.h"
#include "../engine/engine.h"
#include "guard_memory.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* Increment when something else is measured. */
#define SURVEY_VERSION 1
#define KIND           "hearth.survey"
/* More than any layer takes. */
#define MOST_SECONDS 1e4
/* Figures of a trial before its terms. */
#define TRIAL 4

_Static_assert(SURVEY_KEY_SIZE == GUARD_KEY_SIZE, "a survey's key is made like the guard's");

/* The members of a layer, in the order of the file. */
static const size_t members[] = {offsetof(survey_layer, cpu_mixer),    offsetof(survey_layer, cpu_network),
                                 offsetof(survey_layer, device_mixer), offsetof(survey_layer, device_network),
                                 offsetof(survey_layer, split_cpu),    offsetof(survey_layer, split_device),
                                 offsetof(survey_layer, exchange)};
#define MEMBERS (sizeof members / sizeof *members)

static double *member_of(survey_layer *l, size_t i)
{
    return (double *)(void *)((char *)l + members[i]);
}

void survey_key(char out[SURVEY_KEY_SIZE], const hearth_engine *engine, const model_load *load, const cost_model *cost,
                const survey_options *options)
{
    char guard[GUARD_KEY_SIZE];
    hash128 h = hash_begin();
    guard_key(guard, engine->runtime, engine->model, engine->activations);
    hash_text(&h, guard);
    const uint64_t session[] = {options->context, options->sequences, options->states, options->kv};
    for (size_t i = 0; i < sizeof session / sizeof *session; i++)
        hash_number(&h, session[i]);
    device_info info = {0};
    if (engine->runtime->device)
        device_describe(engine->runtime->device, &info);
    hash_text(&h, info.driver ? info.driver : "");
    hash_text(&h, info.name ? info.name : "");
    hash_text(&h, info.kernels ? info.kernels : "");
    hash_text(&h, cost->device ? cost->device->spec : "");
    hash_number(&h, info.units);
    hash_number(&h, info.group);
    for (uint32_t i = 0; i < load->layer_count; i++) {
        const layer_load *l = &load->layers[i];
        hash_number(&h, engine->layers[i].selector);
        hash_bytes(&h, &engine->layers[i].threshold, sizeof engine->layers[i].threshold);
        hash_number(&h, (uint64_t)(l->fire * 1e6));
        hash_number(&h, l->needs != NULL);
        hash_number(&h, l->unit);
    }
    hash_print(out, &h);
}

static char *file_path(const char *folder, const char *key)
{
    char name[SURVEY_KEY_SIZE + 16];
    snprintf(name, sizeof name, "survey-%s.json", key);
    return folder ? file_join(folder, name) : NULL;
}

/* Reads a number from 0 to `most`; returns false for anything else. */
static bool read_figure(const json_t *value, double most, double *out)
{
    double read = json_number_value(value);
    if (!json_is_number(value) || !(read >= 0 && read <= most))
        return false;
    *out = read;
    return true;
}

static bool read_layers(survey *s, const json_t *layers)
{
    const char *name;
    json_t *values;
    if (!json_is_object(layers))
        return false;
    json_object_foreach((json_t *)layers, name, values)
    {
        char *end;
        unsigned long i = strtoul(name, &end, 10);
        if (*end || i >= s->layer_count || json_array_size(values) != MEMBERS)
            return false;
        for (size_t k = 0; k < MEMBERS; k++)
            if (!read_figure(json_array_get(values, k), MOST_SECONDS, member_of(&s->layers[i], k)))
                return false;
    }
    return true;
}

/* Reads an array of `count` numbers up to `most`; returns false for anything else. */
static bool read_figures(const json_t *values, double most, double *out, size_t count)
{
    bool ok = json_array_size(values) == count;
    for (size_t i = 0; ok && i < count; i++)
        ok = read_figure(json_array_get(values, i), most, &out[i]);
    return ok;
}

static bool read_ratios(const json_t *values, double *out)
{
    bool ok = read_figures(values, SURVEY_RATIO_MOST, out, COST_TERMS);
    for (int k = 0; k < COST_TERMS; k++)
        ok = ok && out[k] >= 1 / SURVEY_RATIO_MOST;
    return ok;
}

/* Reads the hash of a plan, 16 hexadecimal digits. */
static bool read_hash(const json_t *value, uint64_t *out)
{
    const char *text = json_string_value(value);
    char *end;
    if (!text || strlen(text) != 16)
        return false;
    *out = strtoull(text, &end, 16);
    return !*end;
}

bool survey_recall(survey *s, const char *folder, const char *key)
{
    char *path = file_path(folder, key);
    json_t *root = path ? json_recall(path, KIND, SURVEY_VERSION, key) : NULL;
    survey read = *s;
    double trial[TRIAL + COST_TERMS];
    uint64_t tried = 0;
    bool found = root && read_layers(&read, json_object_get(root, "layers")) &&
                 read_figures(json_object_get(root, "head"), MOST_SECONDS, read.head, COST_SIDES) &&
                 read_ratios(json_object_get(root, "ratios"), read.ratios) &&
                 read_hash(json_object_get(root, "tried"), &tried) &&
                 read_figures(json_object_get(root, "trial"), MOST_SECONDS, trial, TRIAL + COST_TERMS) &&
                 read_figure(json_object_get(root, "token"), MOST_SECONDS, &read.token) &&
                 read_figure(json_object_get(root, "crossing"), MOST_SECONDS, &read.crossing) &&
                 read_figure(json_object_get(root, "scratch_bytes"), 1e15, &read.scratch_bytes);
    json_decref(root);
    mem_free(path);
    if (!found)
        return false;
    read.trial = (survey_trial){.plan_hash = tried,
                                .predicted = trial[0],
                                .seconds = trial[1],
                                .cpu_seconds = trial[2],
                                .layers_seconds = trial[3]};
    memcpy(read.trial.terms, trial + TRIAL, sizeof read.trial.terms);
    read.remembered = true;
    *s = read;
    return true;
}

/* Returns an array of numbers. NULL: no memory. */
static json_t *figures(const double *values, size_t count)
{
    json_t *out = json_array();
    for (size_t i = 0; i < count; i++)
        json_array_append_new(out, json_real(values[i]));
    return out;
}

void survey_remember(const survey *s, const char *folder)
{
    char *path = file_path(folder, s->key);
    double trial[TRIAL + COST_TERMS] = {s->trial.predicted, s->trial.seconds, s->trial.cpu_seconds,
                                        s->trial.layers_seconds};
    memcpy(trial + TRIAL, s->trial.terms, sizeof s->trial.terms);
    json_t *layers = json_object();
    bool complete = layers != NULL;
    for (uint32_t i = 0; i < s->layer_count; i++) {
        char name[16];
        json_t *values = json_array();
        bool any = false;
        for (size_t k = 0; k < MEMBERS; k++) {
            double value = *member_of(&s->layers[i], k);
            any |= value > 0;
            complete = complete && json_array_append_new(values, json_real(value)) == 0;
        }
        snprintf(name, sizeof name, "%u", i);
        if (any)
            complete = complete && json_object_set(layers, name, values) == 0;
        json_decref(values);
    }
    char tried[17];
    snprintf(tried, sizeof tried, "%016llx", (unsigned long long)s->trial.plan_hash);
    json_t *root =
        json_pack("{s:s, s:o, s:f, s:f, s:f, s:o, s:o, s:o}", "tried", tried, "head", figures(s->head, COST_SIDES),
                  "token", s->token, "crossing", s->crossing, "scratch_bytes", s->scratch_bytes, "ratios",
                  figures(s->ratios, COST_TERMS), "trial", figures(trial, TRIAL + COST_TERMS), "layers", layers);
    if (complete && path)
        json_remember(path, KIND, SURVEY_VERSION, s->key, root);
    json_decref(root);
    mem_free(path);
}

void survey_forget(const survey *s, const char *folder)
{
    char *path = file_path(folder, s->key);
    if (path)
        unlink(path);
    mem_free(path);
}
