/* golden.h - reference models and logits for tests (tests/data/README.md). */
#ifndef TESTS_GOLDEN_H
#define TESTS_GOLDEN_H

#include <hearth.h>

#include "../src/base/file.h"
#include "../src/base/json.h"
#include "../src/base/memory.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "skip.h"

#define GOLDEN HEARTH_DATA "/golden"

/* Tokens of the longest text. */
enum { GOLDEN_MOST = 192 };

typedef struct golden {
    char folder[512];
    int32_t ids[GOLDEN_MOST]; /* prompt, then the greedy continuation */
    size_t prompt, total;
    uint32_t vocabulary;
    float *logits; /* [total][vocabulary]; freed with free */
} golden;

static inline char *golden_path(char *out, size_t size, const char *name, const char *file)
{
    snprintf(out, size, GOLDEN "/%s%s%s", name, *file ? "/" : "", file);
    return out;
}

/* Reads ids [GOLDEN_MOST]; returns how many there are. */
static inline size_t golden_read_ids(const json_t *array, int32_t *ids)
{
    assert_true(json_array_size(array) <= GOLDEN_MOST);
    for (size_t i = 0; i < json_array_size(array); i++)
        ids[i] = (int32_t)json_integer_value(json_array_get(array, i));
    return json_array_size(array);
}

static inline void golden_load(golden *g, const char *name)
{
    char path[600];
    json_t *root;
    golden_path(g->folder, sizeof g->folder, name, "");
    assert_int_equal(json_parse_file(&root, golden_path(path, sizeof path, name, "golden.json"), NULL), HEARTH_OK);
    g->prompt = golden_read_ids(json_object_get(root, "ids"), g->ids);
    int32_t greedy[GOLDEN_MOST];
    g->total = g->prompt + golden_read_ids(json_object_get(root, "greedy"), greedy);
    g->vocabulary = (uint32_t)json_integer_value(json_object_get(root, "n_vocab"));
    json_decref(root);
    assert_true(g->prompt >= 24 && g->total == g->prompt + 16 && g->total <= GOLDEN_MOST);

    memcpy(g->ids + g->prompt, greedy, (g->total - g->prompt) * sizeof *greedy);
    size_t n = g->total * g->vocabulary;
    g->logits = malloc(n * sizeof(float));
    FILE *f = fopen(golden_path(path, sizeof path, name, "logits.f32"), "rb");
    assert_non_null(f);
    assert_int_equal(fread(g->logits, sizeof(float), n, f), n);
    fclose(f);
}

static inline void golden_free(golden *g)
{
    free(g->logits);
}

/* |got - want| / |want| over n values. */
static inline double relative_l2(const float *got, const float *want, size_t n)
{
    double difference = 0, size = 0;
    for (size_t i = 0; i < n; i++) {
        difference += ((double)got[i] - want[i]) * ((double)got[i] - want[i]);
        size += (double)want[i] * want[i];
    }
    return sqrt(difference / size);
}

static inline int32_t argmax(const float *logits, size_t n)
{
    size_t best = 0;
    for (size_t i = 1; i < n; i++)
        if (logits[i] > logits[best])
            best = i;
    return (int32_t)best;
}

/* A model with everything above it, opened in one go; any failure fails the test with its text. A level of the CPU
 * may be named, or NULL. */
typedef struct stack {
    hearth_runtime *runtime;
    hearth_model *model;
    hearth_engine *engine;
    hearth_session *session;
    hearth_model_info info;
} stack;

static inline void stack_check(hearth_status status, const hearth_error *error)
{
    if (status != HEARTH_OK)
        fail_msg("%s", error->text);
}

static inline void stack_open_at(stack *s, const char *level, const char *path, unsigned threads,
                                 hearth_activations activations, hearth_session_options session)
{
    hearth_error error;
    memset(s, 0, sizeof *s);
    hearth_runtime_options runtime = {.threads = threads, .cpu_level = level};
    hearth_engine_options engine = {.activations = activations};
    stack_check(hearth_runtime_create(&s->runtime, &runtime, &error), &error);
    stack_check(hearth_model_open(&s->model, path, NULL, &error), &error);
    stack_check(hearth_engine_create(&s->engine, s->runtime, s->model, &engine, &error), &error);
    stack_check(hearth_session_create(&s->session, s->engine, &session, &error), &error);
    hearth_model_describe(s->model, &s->info);
}

static inline void stack_open(stack *s, const char *path, unsigned threads, hearth_activations activations,
                              hearth_session_options session)
{
    stack_open_at(s, NULL, path, threads, activations, session);
}

static inline void stack_close(stack *s)
{
    hearth_session_destroy(s->session);
    hearth_engine_destroy(s->engine);
    hearth_model_close(s->model);
    hearth_runtime_destroy(s->runtime);
}

/* Feeds ids to a sequence, in one feed, and reads the logits of every row into logits [count][vocabulary]. */
static inline void stack_feed(stack *s, uint32_t sequence, const int32_t *ids, size_t count, float *logits)
{
    hearth_error error;
    hearth_row rows[GOLDEN_MOST];
    assert_true(count <= GOLDEN_MOST);
    for (size_t i = 0; i < count; i++)
        rows[i] = (hearth_row){ids[i], sequence, logits != NULL};
    stack_check(hearth_session_feed(s->session, rows, count, &error), &error);
    if (logits)
        stack_check(hearth_session_logits(s->session, 0, count, logits, &error), &error);
}

/* A session for such a text. */
static inline hearth_session_options golden_session(const golden *of)
{
    uint32_t context = of->total > 64 ? (uint32_t)of->total : 64;
    return (hearth_session_options){.context = context, .output_rows = context, .kv = HEARTH_KV_F32};
}

/* Computes the logits of a golden's text in float32 with a model, which is closed; the caller frees them. */
static inline float *golden_compute(hearth_model *model, const golden *of)
{
    hearth_error error;
    stack s = {.model = model};
    hearth_runtime_options threads = {.threads = 2};
    hearth_engine_options options = {.activations = HEARTH_ACTIVATIONS_F32};
    const hearth_session_options rows = golden_session(of);
    stack_check(hearth_runtime_create(&s.runtime, &threads, &error), &error);
    stack_check(hearth_engine_create(&s.engine, s.runtime, model, &options, &error), &error);
    stack_check(hearth_session_create(&s.session, s.engine, &rows, &error), &error);
    hearth_model_describe(model, &s.info);
    float *got = malloc(of->total * of->vocabulary * sizeof *got);
    stack_feed(&s, 0, of->ids, of->total, got);
    stack_close(&s);
    return got;
}

/* They must be the golden's. */
static inline void golden_expect(hearth_model *model, const golden *of)
{
    float *got = golden_compute(model, of);
    assert_true(relative_l2(got, of->logits, of->total * of->vocabulary) <= 1e-5);
    free(got);
}

/* Compares a model, which is closed, with a golden of this name. */
static inline void golden_expect_of(hearth_model *model, const char *name)
{
    golden g;
    golden_load(&g, name);
    golden_expect(model, &g);
    golden_free(&g);
}

#endif
