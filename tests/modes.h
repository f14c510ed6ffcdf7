/* modes.h - a model in one mode, at one level of the CPU, with a number of threads: what the tests of sparse decoding
 * open again and again, and how they feed it. */
#ifndef TESTS_MODES_H
#define TESTS_MODES_H

#include "../src/kernel/kernel.h"

#include "golden.h"

typedef struct setup {
    hearth_mode mode;
    const char *level; /* NULL: the best                                       */
    unsigned threads;  /* 0: two                                               */
    bool plain;        /* float32 activations and cache, as the references have */
    bool permissive;   /* predictors let everything through                    */
    bool mute;         /* predictors let nothing through                       */
    float pruned_at;   /* threshold of mode pruned                             */
    uint32_t context;  /* 0: 64                                                */
} setup;

/* Names of the levels that this CPU has, from scalar up; NULL behind the last. */
static inline const char *level_at(size_t i)
{
    for (size_t level = 0; level < kernel_level_count(); level++)
        if (kernel_level_present(level) && i-- == 0)
            return kernel_level_name(level);
    return NULL;
}

/* s->runtime and s->model are open; the rest follows. */
static inline void stack_open_engine(stack *s, const setup *o)
{
    hearth_error error;
    hearth_placement *placement;
    stack_check(hearth_placement_create(&placement, s->model, o->mode, &error), &error);
    if (o->permissive || o->mute)
        hearth_placement_set_threshold(placement, o->mute ? 1e30f : -1e30f);
    if (o->mode == HEARTH_MODE_PRUNED)
        hearth_placement_set_threshold(placement, o->pruned_at);
    hearth_engine_options engine = {.placement = placement,
                                    .activations = o->plain ? HEARTH_ACTIVATIONS_F32 : HEARTH_ACTIVATIONS_AUTO};
    uint32_t context = o->context ? o->context : 64;
    hearth_session_options session = {
        .context = context, .output_rows = context, .kv = o->plain ? HEARTH_KV_F32 : HEARTH_KV_F16};
    stack_check(hearth_engine_create(&s->engine, s->runtime, s->model, &engine, &error), &error);
    hearth_placement_destroy(placement);
    stack_check(hearth_session_create(&s->session, s->engine, &session, &error), &error);
}

static inline void stack_open_mode(stack *s, const char *path, const setup *o)
{
    hearth_error error;
    memset(s, 0, sizeof *s);
    hearth_runtime_options runtime = {.threads = o->threads ? o->threads : 2, .cpu_level = o->level};
    stack_check(hearth_runtime_create(&s->runtime, &runtime, &error), &error);
    stack_check(hearth_model_open(&s->model, path, NULL, &error), &error);
    hearth_model_describe(s->model, &s->info);
    stack_open_engine(s, o);
}

/* Logits [count][vocabulary] of all ids, read in one feed or one by one, in an empty sequence. */
static inline void stack_read(stack *s, const int32_t *ids, size_t count, bool one_by_one, float *logits)
{
    assert_int_equal(hearth_session_truncate(s->session, 0, 0, NULL), HEARTH_OK);
    for (size_t i = 0; i < (one_by_one ? count : 1); i++)
        stack_feed(s, 0, ids + i, one_by_one ? 1 : count, logits + i * s->info.vocabulary_size);
}

/* The same from a stack of its own. logits: freed with free. */
static inline float *read_model(const char *path, const setup *o, const int32_t *ids, size_t count, bool one_by_one)
{
    stack s;
    stack_open_mode(&s, path, o);
    float *logits = malloc(count * s.info.vocabulary_size * sizeof *logits);
    stack_read(&s, ids, count, one_by_one, logits);
    stack_close(&s);
    return logits;
}

/* Exact and dense give the same bytes: in one feed and token by token, with one, two and three threads, at every level,
 * with and without rounded activations. */
static inline void expect_exact_is_dense(const char *path, const int32_t *ids, size_t count, uint32_t vocabulary)
{
    const char *level;
    for (size_t l = 0; (level = level_at(l)) != NULL; l++)
        for (int plain = 0; plain < 2; plain++)
            for (int one_by_one = 0; one_by_one < 2; one_by_one++) {
                setup dense = {.mode = HEARTH_MODE_DENSE, .level = level, .threads = 1, .plain = plain};
                float *want = read_model(path, &dense, ids, count, one_by_one);
                for (unsigned threads = 1; threads <= 3; threads++)
                    for (int r = HEARTH_MODE_DENSE; r <= HEARTH_MODE_EXACT; r++) {
                        setup o = {.mode = (hearth_mode)r, .level = level, .threads = threads, .plain = plain};
                        float *got = read_model(path, &o, ids, count, one_by_one);
                        if (memcmp(got, want, count * vocabulary * sizeof *got) != 0)
                            fail_msg("%s: %s on %s with %u threads%s%s is not dense", path, hearth_mode_name(o.mode),
                                     level, threads, plain ? ", plain" : "", one_by_one ? ", one by one" : "");
                        free(got);
                    }
                free(want);
            }
}

#endif
