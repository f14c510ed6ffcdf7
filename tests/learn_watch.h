/* learn_watch.h - what observers see of a corpus, all of it, for tests that compare what was counted or stored with it;
 * and a dense engine to see it on. */
#ifndef TESTS_LEARN_WATCH_H
#define TESTS_LEARN_WATCH_H

#include "../src/learn/corpus.h"
#include "../src/model/model.h"

#include "golden.h"

typedef struct dense {
    hearth_runtime *runtime;
    hearth_model *model;
    hearth_engine *engine;
    hearth_model_info info;
} dense;

static inline dense dense_open(const char *path, unsigned threads)
{
    dense d = {0};
    hearth_placement *placement;
    hearth_runtime_options runtime = {.threads = threads};
    hearth_model_options without = {.tune = ""};
    assert_int_equal(hearth_runtime_create(&d.runtime, &runtime, NULL), HEARTH_OK);
    assert_int_equal(hearth_model_open(&d.model, path, &without, NULL), HEARTH_OK);
    hearth_model_describe(d.model, &d.info);
    assert_int_equal(hearth_placement_create(&placement, d.model, HEARTH_MODE_DENSE, NULL), HEARTH_OK);
    hearth_engine_options options = {.placement = placement, .activations = HEARTH_ACTIVATIONS_F32};
    assert_int_equal(hearth_engine_create(&d.engine, d.runtime, d.model, &options, NULL), HEARTH_OK);
    hearth_placement_destroy(placement);
    return d;
}

static inline void dense_close(dense *d)
{
    hearth_engine_destroy(d->engine);
    hearth_model_close(d->model);
    hearth_runtime_destroy(d->runtime);
}

/* Every layer and token of a corpus. */
typedef struct watched {
    size_t layers, tokens, d, f, begin;
    float *activations, *gates; /* [layers][tokens][f] */
    float *residual, *input;    /* [layers][tokens][d] */
} watched;

static inline void watched_see(void *user, const hearth_observation *o)
{
    watched *w = user;
    size_t at = o->layer * w->tokens + w->begin + o->position;
    assert_null(o->neurons);
    assert_int_equal(o->neuron_count, w->f);
    assert_non_null(o->gates);
    memcpy(w->activations + at * w->f, o->activations, w->f * sizeof(float));
    memcpy(w->gates + at * w->f, o->gates, w->f * sizeof(float));
    memcpy(w->residual + at * w->d, o->residual, w->d * sizeof(float));
    memcpy(w->input + at * w->d, o->ffn_input, w->d * sizeof(float));
}

static inline watched watch(const dense *d, const corpus *c)
{
    watched w = {d->info.layer_count, c->id_count, d->info.embedding_length, d->info.neuron_count, 0, 0, 0, 0, 0};
    size_t n = w.layers * w.tokens;
    w.activations = calloc(n * w.f, sizeof(float));
    w.gates = calloc(n * w.f, sizeof(float));
    w.residual = calloc(n * w.d, sizeof(float));
    w.input = calloc(n * w.d, sizeof(float));
    hearth_session *session;
    assert_int_equal(hearth_session_create(&session, d->engine, NULL, NULL), HEARTH_OK);
    hearth_session_observe(session, &(hearth_observer){.see = watched_see, .user = &w, .gates = true});
    for (size_t i = 0; i < c->window_count; i++) {
        hearth_row rows[512] = {0};
        size_t count = c->starts[i + 1] - c->starts[i];
        assert_true(count <= 512);
        for (size_t t = 0; t < count; t++)
            rows[t].token = c->ids[c->starts[i] + t];
        w.begin = c->starts[i];
        assert_int_equal(hearth_session_truncate(session, 0, 0, NULL), HEARTH_OK);
        assert_int_equal(hearth_session_feed(session, rows, count, NULL), HEARTH_OK);
    }
    hearth_session_destroy(session);
    return w;
}

static inline void watched_free(watched *w)
{
    free(w->activations);
    free(w->gates);
    free(w->residual);
    free(w->input);
}

/* A folder of the test's own. */
static inline char *scratch_folder(void)
{
    static char path[64];
    snprintf(path, sizeof path, "/tmp/hearth-learn-XXXXXX");
    assert_non_null(mkdtemp(path));
    return path;
}

static inline void scratch_remove(const char *folder)
{
    char command[128];
    snprintf(command, sizeof command, "rm -rf '%s'", folder);
    assert_int_equal(system(command), 0);
}

/* Ids from a seed, in windows. */
static inline corpus random_corpus(const dense *d, size_t count, uint32_t window)
{
    corpus c;
    int32_t *ids = malloc(count * sizeof *ids);
    uint64_t seed = 7;
    for (size_t i = 0; i < count; i++) {
        seed = seed * 6364136223846793005u + 1442695040888963407u;
        ids[i] = (int32_t)((seed >> 33) % d->info.vocabulary_size);
    }
    assert_int_equal(corpus_of_ids(&c, d->model, ids, count, window, NULL), HEARTH_OK);
    free(ids);
    return c;
}

#endif
