/* engine_pages.c - the pages of the cache: sequences that share them, copies on write, a cache that is full; and a storm of all
 * that sequences can do, on the CPU, on every device, and on both sides in turns, after which a sequence gives the bytes that
 * the same feeds give to a fresh one. The same with a cache in Q8_0, and how far that is from one in float32. */
#include "../src/base/memory.h"
#include "../src/base/random.h"
#include "../src/engine/engine.h"

#include "placements.h"
#include "storms.h"

#define STORIES HEARTH_MODELS "/stories-relu-q8_0.gguf"

/* ------------------------------------------------------------------ texts */

/* One feed: tokens drawn from a seed, of which a later cut has left the first `kept`. */
typedef struct fed {
    uint64_t seed;
    uint32_t count, kept;
} fed;

#define MOST_FEEDS 400

/* How a sequence came to be. */
typedef struct history {
    fed feeds[MOST_FEEDS];
    size_t count;
    uint32_t length;
} history;

/* Writes rows of a sequence for a feed; only the last is an output row. */
static void draw_rows(const hearth_model *m, fed f, uint32_t sequence, hearth_row *rows)
{
    for (uint32_t i = 0; i < f.count; i++)
        rows[i] = (hearth_row){(int32_t)(3 + random_next(&f.seed) % (m->hyper.vocabulary_size - 3)), sequence,
                               i + 1 == f.count};
}

static void remember(history *h, fed f)
{
    f.kept = f.count;
    h->feeds[h->count++] = f;
    h->length += f.count;
}

static void forget_after(history *h, uint32_t length)
{
    while (h->length > length) {
        fed *last = &h->feeds[h->count - 1];
        uint32_t surplus = h->length - length, less = last->kept < surplus ? last->kept : surplus;
        last->kept -= less;
        h->length -= less;
        h->count -= last->kept == 0;
    }
}

/* ------------------------------------------------------------------ sharing */

#define FORKS  16
#define PREFIX 300 /* three pages, the last one not full */

static void open_stories(stack *s, hearth_session_options options)
{
    stack_open(s, STORIES, 2, HEARTH_ACTIVATIONS_AUTO, options);
}

static void expect(hearth_status want, hearth_status got, const hearth_error *error, const char *fragment)
{
    if (got != want || !strstr(error->text, fragment))
        fail_msg("status %d \"%s\", expected %d with \"%s\"", (int)got, error->text, (int)want, fragment);
}

static uint32_t pages_free(const stack *s)
{
    uint64_t positions = hearth_session_free_positions(s->session);
    uint32_t context = hearth_session_context(s->session), page = context < KV_PAGE ? context : KV_PAGE;
    assert_int_equal(positions % page, 0);
    return (uint32_t)(positions / page);
}

/* Feeds the prefix to sequence 0 and makes all others copies of it. */
static void fork_prefix(stack *s)
{
    static hearth_row rows[PREFIX];
    hearth_error error;
    draw_rows(s->model, (fed){5, PREFIX, 0}, 0, rows);
    stack_check(hearth_session_feed(s->session, rows, PREFIX, &error), &error);
    for (uint32_t i = 1; i < FORKS; i++)
        stack_check(hearth_session_fork(s->session, 0, i, &error), &error);
}

/* One token for each copy. */
static void next_rows(hearth_row *rows)
{
    for (uint32_t i = 0; i < FORKS; i++)
        rows[i] = (hearth_row){(int32_t)(10 + i), i, true};
}

/* Copies take no pages; each that goes on takes one, for its last page, but the last of them. Pages come back at once. */
static void copies_share_pages(void **state)
{
    (void)state;
    stack s;
    hearth_error error;
    hearth_row rows[FORKS];
    open_stories(&s, (hearth_session_options){.context = 512, .sequences = FORKS});
    assert_int_equal(pages_free(&s), 4 * FORKS);
    fork_prefix(&s);
    assert_int_equal(pages_free(&s), 4 * FORKS - 3);
    next_rows(rows);
    stack_check(hearth_session_feed(s.session, rows, FORKS, &error), &error);
    assert_int_equal(pages_free(&s), 4 * FORKS - 3 - (FORKS - 1));
    stack_check(hearth_session_truncate(s.session, 3, 256, &error), &error); /* its own page */
    assert_int_equal(pages_free(&s), 4 * FORKS - 3 - (FORKS - 2));
    stack_check(hearth_session_truncate(s.session, 0, 0, &error), &error); /* its own page; the others are shared */
    assert_int_equal(pages_free(&s), 4 * FORKS - 3 - (FORKS - 3));
    for (uint32_t i = 1; i < FORKS; i++)
        stack_check(hearth_session_truncate(s.session, i, 0, &error), &error);
    assert_int_equal(pages_free(&s), 4 * FORKS);
    stack_close(&s);
}

/* Bytes of the logits of all copies, each with its own token, and of sequences that read everything themselves. */
static void copies_do_not_touch(void **state)
{
    (void)state;
    stack s, alone;
    hearth_error error;
    hearth_row rows[FORKS];
    open_stories(&s, (hearth_session_options){.context = 512, .sequences = FORKS});
    open_stories(&alone, (hearth_session_options){.context = 512});
    size_t v = s.info.vocabulary_size;
    float *got = malloc(v * sizeof *got), *want = malloc(v * sizeof *want);
    fork_prefix(&s);
    next_rows(rows);
    for (uint32_t again = 0; again < 2; again++) /* into a copied page, and into the sequence's own */
        for (uint32_t i = 0; i < FORKS; i++) {
            static hearth_row prefix[PREFIX];
            stack_feed(&s, i, &rows[i].token, 1, got);
            draw_rows(s.model, (fed){5, PREFIX, 0}, 0, prefix);
            stack_check(hearth_session_truncate(alone.session, 0, 0, &error), &error);
            stack_check(hearth_session_feed(alone.session, prefix, PREFIX, &error), &error);
            for (uint32_t k = 0; k <= again; k++)
                stack_feed(&alone, 0, &rows[i].token, 1, want);
            assert_memory_equal(got, want, v * sizeof *got);
        }
    free(got), free(want);
    stack_close(&s);
    stack_close(&alone);
}

/* A cache with exactly the pages that a feed takes, and with one less: then the feed is refused, and nothing has changed. So is
 * a checkpoint. */
static void a_full_cache_refuses(void **state)
{
    (void)state;
    hearth_error e;
    hearth_row rows[FORKS];
    hearth_checkpoint *saved;
    for (uint32_t pages = 3 + FORKS - 2; pages <= 3 + FORKS - 1; pages++) {
        stack s;
        bool fits = pages == 3 + FORKS - 1;
        open_stories(
            &s, (hearth_session_options){.context = 512, .sequences = FORKS, .cache_positions = pages * KV_PAGE - 5});
        assert_int_equal(pages_free(&s), pages);
        fork_prefix(&s);
        uint32_t before = pages_free(&s);
        next_rows(rows);
        hearth_status status = hearth_session_feed(s.session, rows, FORKS, &e);
        if (fits) {
            assert_int_equal(status, HEARTH_OK);
            assert_int_equal(pages_free(&s), 0);
            hearth_row more[KV_PAGE];
            fed rest = {7, KV_PAGE - PREFIX % KV_PAGE - 1, 0}; /* of its own page */
            draw_rows(s.model, rest, 2, more);
            stack_check(hearth_session_feed(s.session, more, rest.count, &e), &e);
            rows[0].sequence = 2;
            expect(HEARTH_FULL, hearth_session_feed(s.session, rows, 1, &e), &e, "0 are free, the feed takes 128 more");
        } else {
            expect(HEARTH_FULL, status, &e, "1792 are free, the feed takes 1920 more");
            assert_int_equal(pages_free(&s), before);
            for (uint32_t i = 0; i < FORKS; i++)
                assert_int_equal(hearth_session_length(s.session, i), PREFIX);
            stack_check(hearth_session_feed(s.session, rows, FORKS - 2, &e), &e);
            stack_check(hearth_session_save(s.session, 0, &saved, &e), &e);
            expect(HEARTH_FULL, hearth_session_restore(s.session, 1, saved, &e), &e, "has 301 tokens");
            assert_int_equal(hearth_session_length(s.session, 1), PREFIX + 1);
            hearth_checkpoint_destroy(saved);
        }
        stack_close(&s);
    }
}

/* Memory of the cache follows the positions that were asked for, and never exceeds what sequences can use. */
static void memory_follows_positions(void **state)
{
    (void)state;
    stack s;
    hearth_memory one, some, all, more;
    open_stories(&s, (hearth_session_options){.context = 512});
    hearth_session_options options = {.context = 512, .sequences = 4, .cache_positions = 1};
    assert_int_equal(hearth_session_memory(s.engine, &options, &one, NULL), HEARTH_OK);
    options.cache_positions = 3 * KV_PAGE;
    assert_int_equal(hearth_session_memory(s.engine, &options, &some, NULL), HEARTH_OK);
    options.cache_positions = 0;
    assert_int_equal(hearth_session_memory(s.engine, &options, &all, NULL), HEARTH_OK);
    options.cache_positions = UINT64_MAX;
    assert_int_equal(hearth_session_memory(s.engine, &options, &more, NULL), HEARTH_OK);
    assert_int_equal(some.kv_bytes, 3 * one.kv_bytes);
    assert_int_equal(all.kv_bytes, 16 * one.kv_bytes);
    assert_int_equal(more.kv_bytes, all.kv_bytes);
    stack_close(&s);
}

/* ------------------------------------------------------------------ storms */

#define SEQUENCES 6
#define LONGEST   150

/* What a storm is about: the cache has fewer pages than full sequences take. */
typedef struct weather {
    const char *path;
    hearth_kv kv;
    uint32_t context, pages;
} weather;

static const weather long_texts = {STORIES, HEARTH_KV_F16, 400, 7};
static const weather small_blocks = {HEARTH_DATA "/golden/llama-256/model.gguf", HEARTH_KV_Q8_0, 101, 4};
static const weather short_values = {HEARTH_DATA "/golden/mimo2/model.gguf", HEARTH_KV_Q8_0, 101, 4};
static const weather recurrent = {HEARTH_DATA "/golden/nemotron-h/model.gguf", HEARTH_KV_F16, 400, 7};
static const weather recurrent_blocks = {HEARTH_DATA "/golden/qwen3-5/model.gguf", HEARTH_KV_Q8_0, 128, 4};

typedef struct storm {
    stack s;
    hearth_session *fresh; /* computes anew */
    history histories[SEQUENCES], saved_history;
    hearth_checkpoint *saved;
    uint64_t random;
    uint32_t context;
    bool fails;           /* the next feed is cancelled after its first layer */
    size_t full, cancels; /* feeds that were refused, or cancelled */
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

/* Feeds some sequences at once, one feed each. Whatever is refused or fails has changed no sequence. */
static void feed(storm *t, const uint32_t *sequences, const fed *feeds, size_t n)
{
    static hearth_row rows[LONGEST];
    hearth_error error;
    uint32_t count = 0, most = 0, before = pages_free(&t->s), copied = 0;
    for (size_t i = 0; i < n; i++) {
        draw_rows(t->s.model, feeds[i], sequences[i], rows + count);
        count += feeds[i].count;
        most += (feeds[i].count + KV_PAGE - 1) / KV_PAGE + 2;
    }
    for (uint32_t i = 0; i < count; i++)
        rows[i].output = false;
    t->fails = count > 1 && below(t, 8) == 0; /* a single token is not asked about */
    hearth_status status = hearth_session_feed(t->s.session, rows, count, &error);
    if (status == HEARTH_FULL) {
        assert_true(before < most);
        assert_int_equal(pages_free(&t->s), before);
        t->full++;
    } else if (t->fails) {
        assert_int_equal(status, HEARTH_CANCELLED);
        copied = (uint32_t)n;
        assert_in_range(pages_free(&t->s), before >= copied ? before - copied : 0, before);
        t->cancels++;
    } else {
        stack_check(status, &error);
        for (size_t i = 0; i < n; i++)
            remember(&t->histories[sequences[i]], feeds[i]);
    }
    t->fails = false;
    for (uint32_t i = 0; i < SEQUENCES; i++)
        assert_int_equal(hearth_session_length(t->s.session, i), t->histories[i].length);
}

/* Up to three sequences, few tokens together, so that each gets the bytes that it gets alone. */
static void feed_several(storm *t)
{
    uint32_t sequences[3], first = (uint32_t)below(t, SEQUENCES);
    fed feeds[3];
    size_t n = 0;
    for (uint32_t i = 0; i < 3; i++) {
        uint32_t sequence = (first + i) % SEQUENCES;
        if (t->histories[sequence].length + 2 < t->context && t->histories[sequence].count < MOST_FEEDS - 1) {
            sequences[n] = sequence;
            feeds[n++] = (fed){random_next(&t->random), 1 + (uint32_t)below(t, 2), 0};
        }
    }
    if (n > 0)
        feed(t, sequences, feeds, n);
}

static void cut(storm *t, uint32_t sequence)
{
    hearth_error error;
    history *h = &t->histories[sequence];
    uint32_t wanted = below(t, 4) == 0 ? 0 : (uint32_t)below(t, h->length + (size_t)1);
    uint32_t kept = hearth_session_reach(t->s.session, sequence, wanted);
    stack_check(hearth_session_truncate(t->s.session, sequence, kept, &error), &error);
    forget_after(h, kept);
}

static void save(storm *t, uint32_t sequence)
{
    hearth_error error;
    uint32_t before = pages_free(&t->s);
    hearth_checkpoint_destroy(t->saved);
    t->saved = NULL;
    if (below(t, 3) == 0) {
        mem_fail_at((long)below(t, 2));
        hearth_status status = hearth_session_save(t->s.session, sequence, &t->saved, &error);
        mem_fail_at(-1);
        assert_int_equal(status, HEARTH_NO_MEMORY);
        assert_null(t->saved);
    }
    stack_check(hearth_session_save(t->s.session, sequence, &t->saved, &error), &error);
    assert_int_equal(pages_free(&t->s), before);
    t->saved_history = t->histories[sequence];
}

static void restore(storm *t, uint32_t sequence)
{
    hearth_error error;
    uint32_t before = pages_free(&t->s);
    hearth_status status = hearth_session_restore(t->s.session, sequence, t->saved, &error);
    if (status == HEARTH_FULL) {
        assert_true(before < (t->saved_history.length + KV_PAGE - 1) / KV_PAGE);
        assert_int_equal(pages_free(&t->s), before);
        t->full++;
        return;
    }
    stack_check(status, &error);
    t->histories[sequence] = t->saved_history;
}

static void change(storm *t)
{
    hearth_error error;
    uint32_t sequence = (uint32_t)below(t, SEQUENCES), other = (uint32_t)below(t, SEQUENCES);
    history *h = &t->histories[sequence];
    fed one = {random_next(&t->random), (uint32_t)(1 + below(t, below(t, 3) == 0 ? LONGEST : 8)), 0};
    switch (below(t, 9)) {
    case 0:
    case 1:
        stack_check(hearth_session_fork(t->s.session, sequence, other, &error), &error);
        t->histories[other] = *h;
        break;
    case 2:
        save(t, sequence);
        break;
    case 3:
        if (t->saved)
            restore(t, sequence);
        break;
    case 4:
        cut(t, sequence);
        break;
    case 5:
        feed_several(t);
        break;
    default:
        if (h->length + one.count < t->context && h->count < MOST_FEEDS - 1)
            feed(t, &sequence, &one, 1);
        else
            cut(t, sequence);
    }
}

/* Feeds rows and returns the logits of the last one. */
static void feed_rows(hearth_session *session, const hearth_row *rows, size_t count, float *logits)
{
    hearth_error error;
    stack_check(hearth_session_feed(session, rows, count, &error), &error);
    stack_check(hearth_session_logits(session, 0, 1, logits, &error), &error);
}

/* Feeds one more token to a sequence, and everything that it has read to a fresh one. */
static void compare(storm *t, uint32_t sequence)
{
    static hearth_row rows[LONGEST];
    history *h = &t->histories[sequence];
    hearth_error error;
    size_t v = t->s.info.vocabulary_size;
    float *got = malloc(v * sizeof *got), *want = malloc(v * sizeof *want);
    fed last = {random_next(&t->random), 1, 0};
    if (session_can_append(t->s.session, sequence) > 0 && h->count < MOST_FEEDS - 1) {
        uint32_t length = 0;
        stack_check(hearth_session_truncate(t->fresh, 0, 0, &error), &error);
        for (size_t i = 0; i < h->count; i++) {
            draw_rows(t->s.model, h->feeds[i], 0, rows);
            feed_rows(t->fresh, rows, h->feeds[i].count, want);
            length += h->feeds[i].kept;
            stack_check(hearth_session_truncate(t->fresh, 0, length, &error), &error);
        }
        draw_rows(t->s.model, last, 0, rows);
        feed_rows(t->fresh, rows, 1, want);
        draw_rows(t->s.model, last, sequence, rows);
        feed_rows(t->s.session, rows, 1, got);
        assert_memory_equal(got, want, v * sizeof *got);
        remember(h, last);
    }
    free(got), free(want);
}

/* Where the layers of a model lie: on the CPU, all on a device, or every other one. */
typedef enum where { ON_CPU, ON_DEVICE, ON_BOTH, PLACES } where;

static void run_storm(hearth_runtime *runtime, const weather *w, where place, size_t changes, uint64_t seed)
{
    static storm t;
    char *json = NULL;
    hearth_error error;
    uint32_t page = w->context < KV_PAGE ? w->context : KV_PAGE;
    t = (storm){.random = seed, .context = w->context};
    open_placed_model(&t.s, runtime, w->path);
    placed_shape shape = shape_of(&t.s, HEARTH_MODE_DENSE);
    placed_form forms[MOST_LAYERS];
    uint32_t cuts = 1;
    for (uint32_t i = 0; i < shape.layers; i++)
        forms[i] = place == ON_BOTH && i / 2 % 2 ? PLACED_HOST : PLACED_DEVICE;
    if (place != ON_CPU)
        json = print_placed(&shape, forms, false, false, &cuts);
    hearth_session_options options = {.context = w->context,
                                      .kv = w->kv,
                                      .sequences = SEQUENCES,
                                      .batch = 32,
                                      .output_rows = 1,
                                      .progress = {cancel, &t},
                                      .marks = 100,
                                      .cache_positions = w->pages * page};
    open_placed(&t.s, json, HEARTH_MODE_DENSE, false, options);
    options.sequences = 1;
    stack_check(hearth_session_create(&t.fresh, t.s.engine, &options, &error), &error);
    for (size_t i = 0; i < changes; i++) {
        change(&t);
        if (i % 10 == 0)
            compare(&t, (uint32_t)below(&t, SEQUENCES));
    }
    for (uint32_t i = 0; i < SEQUENCES; i++)
        compare(&t, i);
    print_message("%zu changes, %zu refused, %zu cancelled\n", changes, t.full, t.cancels);
    assert_true(t.full > 0 && t.cancels > 0);
    for (uint32_t i = 0; i < SEQUENCES; i++)
        stack_check(hearth_session_truncate(t.s.session, i, 0, &error), &error);
    assert_int_equal(pages_free(&t.s), w->pages);
    hearth_checkpoint_destroy(t.saved);
    hearth_session_destroy(t.fresh);
    close_placed(&t.s);
    hearth_model_close(t.s.model);
    free(json);
}

static void storms(void **state)
{
    (void)state;
    hearth_runtime *runtime = open_runtime(NULL, 2);
    long live = mem_live();
    run_storm(runtime, &long_texts, ON_CPU, storm_length(3000), 3);
    run_storm(runtime, &small_blocks, ON_CPU, storm_length(1000), 4);
    run_storm(runtime, &short_values, ON_CPU, storm_length(500), 5);
    run_storm(runtime, &recurrent, ON_CPU, storm_length(500), 4);
    run_storm(runtime, &recurrent_blocks, ON_CPU, storm_length(500), 4);
    assert_int_equal(mem_live(), live);
    hearth_runtime_destroy(runtime);
}

static void storms_on_devices(void **state)
{
    (void)state;
    const device_specs *specs = usable_devices();
    for (size_t i = 0; i < specs->count; i++) {
        hearth_runtime *runtime = open_runtime(specs->text[i], 2);
        for (where place = ON_DEVICE; place < PLACES; place++) {
            run_storm(runtime, &long_texts, place, storm_length(700), 20 + place);
            run_storm(runtime, &small_blocks, place, 300, 30 + place);
            run_storm(runtime, &short_values, place, 300, 40 + place);
        }
        assert_int_equal(device_used(runtime), 0);
        hearth_runtime_destroy(runtime);
    }
}

/* ------------------------------------------------------------------ Q8_0 */

/* Logits of the last of some tokens, the first of them in one feed, on the CPU or all on a device. */
static void last_logits(stack *s, hearth_kv kv, bool there, float *logits)
{
    enum { BEGIN = 60, ALL = 64 };
    hearth_row rows[ALL];
    placed_shape shape = shape_of(s, HEARTH_MODE_DENSE);
    placed_form forms[MOST_LAYERS];
    uint32_t cuts = 1;
    for (uint32_t i = 0; i < shape.layers; i++)
        forms[i] = PLACED_DEVICE;
    char *json = there ? print_placed(&shape, forms, false, false, &cuts) : NULL;
    open_placed(s, json, HEARTH_MODE_DENSE, true, (hearth_session_options){.context = 128, .kv = kv});
    draw_rows(s->model, (fed){9, ALL, 0}, 0, rows);
    rows[ALL - 1].output = false;
    hearth_error error;
    stack_check(hearth_session_feed(s->session, rows, BEGIN, &error), &error);
    rows[ALL - 1].output = true;
    stack_check(hearth_session_feed(s->session, rows + BEGIN, ALL - BEGIN, &error), &error);
    stack_check(hearth_session_logits(s->session, 0, 1, logits, &error), &error);
    close_placed(s);
    free(json);
}

/* A value of a block is off by at most half a step, 1 / 254 of the largest one of its block, and logits of this model, whose
 * weights are random, by less than ten times that. Both sides round the same values but for the last bits of a rotation, so a
 * value that lies on the border of two steps may go either way: one whole step for one of the 16384 values that are kept,
 * sqrt(12 / 16384) = 1 / 37 of what all the half steps together make. A tenth of that is a dozen such values. */
static void blocks_are_near(void **state)
{
    (void)state;
    const device_specs *specs = usable_devices();
    for (size_t i = 0; i < specs->count; i++) {
        hearth_runtime *runtime = open_runtime(specs->text[i], 2);
        stack s;
        open_placed_model(&s, runtime, small_blocks.path);
        size_t v = s.model->hyper.vocabulary_size;
        float *logits[3];
        for (size_t k = 0; k < 3; k++) {
            logits[k] = malloc(v * sizeof(float));
            last_logits(&s, k == 0 ? HEARTH_KV_F32 : HEARTH_KV_Q8_0, k == 2, logits[k]);
        }
        double off = relative_l2(logits[1], logits[0], v), apart = relative_l2(logits[2], logits[1], v);
        print_message("Q8_0 from F32: %.1e, device from CPU: %.1e\n", off, apart);
        assert_true(off > 0 && off < 10.0 / 254 && apart < off / 10);
        for (size_t k = 0; k < 3; k++)
            free(logits[k]);
        hearth_model_close(s.model);
        hearth_runtime_destroy(runtime);
    }
}

/* Heads of 16 values are no whole blocks. */
static void blocks_must_be_whole(void **state)
{
    (void)state;
    stack s;
    hearth_error e;
    hearth_session *session = NULL;
    open_stories(&s, (hearth_session_options){.context = 8});
    const hearth_session_options options = {.kv = HEARTH_KV_Q8_0};
    expect(HEARTH_UNSUPPORTED, hearth_session_create(&session, s.engine, &options, &e), &e,
           "kv format q8_0: heads have 16 values, which are no whole blocks of 32");
    assert_null(session);
    stack_close(&s);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(copies_share_pages),
                                       cmocka_unit_test(copies_do_not_touch),
                                       cmocka_unit_test(a_full_cache_refuses),
                                       cmocka_unit_test(memory_follows_positions),
                                       cmocka_unit_test(storms),
                                       cmocka_unit_test(storms_on_devices),
                                       cmocka_unit_test(blocks_are_near),
                                       cmocka_unit_test(blocks_must_be_whole)};
    return run_group(tests, NULL, NULL);
}
