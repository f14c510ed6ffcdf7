/* engine_rewind.c - sequences of models with recurrent layers: forked, saved, restored, cut to kept lengths, and feeds that
 * fail, on the CPU, on every device, and on both sides in turns. After a storm of these a sequence gives the bytes that the
 * same feeds give when they are all computed anew. */
#include "../src/base/random.h"

#include "placements.h"

#define STORMS     300
#define SEQUENCES  3 /* in the storm; one more computes anew */
#define CONTEXT    48
#define VOCABULARY 272
#define LONGEST    9 /* tokens of a feed */

/* A golden, and the format of the cache. The keys by which glm5-next chooses positions change once pools of them are whole; deepseek4 keeps
 * unfinished summaries as recurrent layers keep states. */
typedef struct storm_case {
    const char *name;
    hearth_kv kv;
} storm_case;

static const storm_case cases[] = {
    {"nemotron-h", HEARTH_KV_F16},   {"nemotron-h-moe", HEARTH_KV_F16}, {"qwen3-5", HEARTH_KV_F16},
    {"qwen3-5-moe", HEARTH_KV_F16},  {"lfm2", HEARTH_KV_F16},           {"lfm2-moe", HEARTH_KV_F16},
    {"ling3", HEARTH_KV_F16},        {"glm5-next", HEARTH_KV_F16},      {"glm5-next", HEARTH_KV_Q8_0},
    {"qwen3-8-next", HEARTH_KV_F16}, {"deepseek4", HEARTH_KV_F16},      {"deepseek4", HEARTH_KV_Q8_0}};

/* How a sequence came to be: its tokens, and how many each feed had. */
typedef struct history {
    int32_t ids[CONTEXT];
    size_t cuts[CONTEXT];
    size_t feeds, length;
} history;

typedef struct storm {
    stack s;
    history histories[SEQUENCES];
    hearth_checkpoint *saved;
    history saved_history;
    uint64_t random;
    bool fails; /* the next feed is cancelled after its first layer */
} storm;

static size_t below(storm *t, size_t n)
{
    return (size_t)(random_next(&t->random) % n);
}

static bool cancel(void *user, const char *what, uint64_t done, uint64_t total)
{
    (void)what, (void)done, (void)total;
    return !((storm *)user)->fails;
}

static void feed(storm *t, uint32_t sequence, size_t count)
{
    history *h = &t->histories[sequence];
    hearth_row rows[LONGEST];
    hearth_error error;
    for (size_t i = 0; i < count; i++) {
        h->ids[h->length + i] = (int32_t)(3 + below(t, VOCABULARY - 3));
        rows[i] = (hearth_row){h->ids[h->length + i], sequence, false};
    }
    t->fails = count > 1 && below(t, 4) == 0;
    hearth_status status = hearth_session_feed(t->s.session, rows, count, &error);
    assert_int_equal(status, t->fails ? HEARTH_CANCELLED : HEARTH_OK);
    if (t->fails)
        return;
    h->length += count;
    h->cuts[h->feeds++] = count;
}

/* Cuts a sequence to a random length, or to the next shorter one that is kept. */
static void cut(storm *t, uint32_t sequence)
{
    history *h = &t->histories[sequence];
    hearth_error error;
    uint32_t wanted = (uint32_t)below(t, h->length + 1), kept = hearth_session_reach(t->s.session, sequence, wanted);
    assert_true(kept <= wanted);
    if (kept < wanted) {
        hearth_status status = hearth_session_truncate(t->s.session, sequence, wanted, &error);
        assert_int_equal(status, HEARTH_UNSUPPORTED);
        assert_non_null(strstr(error.text, "its recurrent state is not kept of"));
    }
    stack_check(hearth_session_truncate(t->s.session, sequence, kept, &error), &error);
    while (h->length > kept)
        h->length -= h->cuts[--h->feeds];
    assert_int_equal(h->length, kept); /* only lengths between feeds are kept */
}

/* Feeds one more token to a sequence, and the same feeds to an empty one. */
static void compare(storm *t, uint32_t sequence)
{
    float got[VOCABULARY], want[VOCABULARY];
    history *h = &t->histories[sequence];
    hearth_error error;
    int32_t id = (int32_t)(3 + below(t, VOCABULARY - 3));
    t->fails = false;
    stack_feed(&t->s, sequence, &id, 1, got);
    stack_check(hearth_session_truncate(t->s.session, SEQUENCES, 0, &error), &error);
    for (size_t i = 0, at = 0; i < h->feeds; at += h->cuts[i++])
        stack_feed(&t->s, SEQUENCES, h->ids + at, h->cuts[i], NULL);
    stack_feed(&t->s, SEQUENCES, &id, 1, want);
    assert_memory_equal(got, want, sizeof got);
    h->ids[h->length++] = id;
    h->cuts[h->feeds++] = 1;
}

static void change(storm *t)
{
    hearth_error error;
    uint32_t sequence = (uint32_t)below(t, SEQUENCES), other = (uint32_t)below(t, SEQUENCES);
    history *h = &t->histories[sequence];
    switch (below(t, 6)) {
    case 0:
        stack_check(hearth_session_fork(t->s.session, sequence, other, &error), &error);
        t->histories[other] = *h;
        break;
    case 1:
        hearth_checkpoint_destroy(t->saved);
        stack_check(hearth_session_save(t->s.session, sequence, &t->saved, &error), &error);
        t->saved_history = *h;
        break;
    case 2:
        if (!t->saved)
            break;
        stack_check(hearth_session_restore(t->s.session, sequence, t->saved, &error), &error);
        *h = t->saved_history;
        break;
    case 3:
        cut(t, sequence);
        break;
    default:
        if (h->length + LONGEST < CONTEXT)
            feed(t, sequence, 1 + below(t, LONGEST));
        else
            cut(t, sequence);
    }
}

/* Where the layers of a model lie: on the CPU, all on a device, or every other one. */
typedef enum where { ON_CPU, ON_DEVICE, ON_BOTH, PLACES } where;

static void run_storm(hearth_runtime *runtime, const storm_case *of, where place, uint64_t seed)
{
    storm t = {.random = seed};
    char path[600], *json = NULL;
    golden_path(path, sizeof path, of->name, "model.gguf");
    open_placed_model(&t.s, runtime, path);
    placed_shape shape = shape_of(&t.s, HEARTH_MODE_DENSE);
    placed_form forms[MOST_LAYERS];
    uint32_t cuts = 1;
    for (uint32_t i = 0; i < shape.layers; i++)
        forms[i] = place == ON_BOTH && i / 2 % 2 ? PLACED_HOST : PLACED_DEVICE;
    if (place != ON_CPU)
        json = print_placed(&shape, forms, false, false, &cuts);
    open_placed(&t.s, json, HEARTH_MODE_DENSE, false,
                (hearth_session_options){.context = CONTEXT,
                                         .kv = of->kv,
                                         .sequences = SEQUENCES + 1,
                                         .batch = 4,
                                         .output_rows = 1,
                                         .progress = {cancel, &t}});
    for (size_t i = 0; i < STORMS; i++) {
        change(&t);
        uint32_t sequence = (uint32_t)below(&t, SEQUENCES);
        if (i % 5 == 0 && t.histories[sequence].length < CONTEXT - 1)
            compare(&t, sequence);
    }
    hearth_checkpoint_destroy(t.saved);
    close_placed(&t.s);
    hearth_model_close(t.s.model);
    free(json);
}

static void storms(void **state)
{
    (void)state;
    hearth_runtime *runtime = open_runtime(NULL, 2);
    for (size_t c = 0; c < sizeof cases / sizeof *cases; c++)
        run_storm(runtime, &cases[c], ON_CPU, 7 + c);
    hearth_runtime_destroy(runtime);
}

static void storms_on_devices(void **state)
{
    (void)state;
    const device_specs *specs = usable_devices();
    for (size_t i = 0; i < specs->count; i++) {
        hearth_runtime *runtime = open_runtime(specs->text[i], 2);
        for (size_t c = 0; c < sizeof cases / sizeof *cases; c++)
            for (where place = ON_DEVICE; place < PLACES; place++)
                run_storm(runtime, &cases[c], place, 70 + 10 * place + c);
        assert_int_equal(device_used(runtime), 0);
        hearth_runtime_destroy(runtime);
    }
}

/* The lengths that are kept: those at which feeds of several tokens began and ended, the last ones of them. */
static void lengths_in_reach(void **state)
{
    (void)state;
    char path[600];
    stack s;
    int32_t ids[CONTEXT] = {5, 6, 7, 8, 9};
    hearth_error error;
    golden_path(path, sizeof path, "nemotron-h", "model.gguf");
    stack_open(&s, path, 1, HEARTH_ACTIVATIONS_AUTO, (hearth_session_options){.context = CONTEXT, .marks = 3});
    stack_feed(&s, 0, ids, 5, NULL); /* 5 */
    stack_feed(&s, 0, ids, 1, NULL);
    stack_feed(&s, 0, ids, 1, NULL);
    assert_int_equal(hearth_session_reach(s.session, 0, 7), 7);
    assert_int_equal(hearth_session_reach(s.session, 0, 6), 5);
    assert_int_equal(hearth_session_reach(s.session, 0, 4), 0);
    assert_int_equal(hearth_session_reach(s.session, 1, 4), 0);
    stack_feed(&s, 0, ids, 3, NULL); /* 7, 10 */
    assert_int_equal(hearth_session_reach(s.session, 0, 9), 7);
    assert_int_equal(hearth_session_reach(s.session, 0, 6), 5);
    stack_feed(&s, 0, ids, 2, NULL); /* 12, in place of 5 */
    assert_int_equal(hearth_session_reach(s.session, 0, 6), 0);
    stack_check(hearth_session_truncate(s.session, 0, 7, &error), &error);
    assert_int_equal(hearth_session_reach(s.session, 0, 12), 7);
    stack_close(&s);
}

/* Of a long text that was read in many feeds the lengths stay spread over it: with eight of them no cut of 48 tokens reads
 * more than 12 again, and the last two are always there. */
static void reach_is_spread(void **state)
{
    (void)state;
    enum { EACH = 2, FEEDS = CONTEXT / EACH };
    char path[600];
    stack s;
    int32_t ids[EACH] = {5, 6};
    golden_path(path, sizeof path, "nemotron-h", "model.gguf");
    stack_open(&s, path, 1, HEARTH_ACTIVATIONS_AUTO, (hearth_session_options){.context = CONTEXT, .marks = 8});
    for (uint32_t i = 1; i <= FEEDS; i++) {
        stack_feed(&s, 0, ids, EACH, NULL);
        assert_int_equal(hearth_session_reach(s.session, 0, EACH * i - 1), EACH * (i - 1));
        assert_int_equal(hearth_session_reach(s.session, 0, EACH * (i - 1)), EACH * (i - 1));
    }
    for (uint32_t length = 0; length < EACH * FEEDS; length++)
        assert_in_range(length - hearth_session_reach(s.session, 0, length), 0, 12);
    stack_close(&s);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(storms), cmocka_unit_test(storms_on_devices),
                                       cmocka_unit_test(lengths_in_reach), cmocka_unit_test(reach_is_spread)};
    return run_group(tests, NULL, NULL);
}
