/* engine_ffn.c - select, gather, accumulate: every form of a feed-forward network, with and without biases, in both
 * layouts, on every rung, in several formats, against a plain loop in double precision (ffn_build.h). */
#include "ffn_build.h"

/* The tokens are fed in these portions: one; few, whose lists are united; more than are ever united. */
static const size_t portions[] = {1, 2, 15, 17, 1, 4};

/* More rows than are accumulated together. */
enum { LONG = 300 };

static const struct {
    number_format format, down;
    uint32_t d, rank;
} formats[] = {
    {FORMAT_F32, FORMAT_F32, 42, 5},      {FORMAT_F16, FORMAT_F16, 48, 20},   {FORMAT_BF16, FORMAT_BF16, 300, 33},
    {FORMAT_Q8_0, FORMAT_Q8_0, 64, 32},   {FORMAT_Q4_0, FORMAT_Q4_0, 96, 64}, {FORMAT_F16, FORMAT_Q8_0, 320, 7},
    {FORMAT_Q4_K, FORMAT_Q6_K, 256, 256},
};

/* ThreadSanitizer, under which a test takes twenty times as long, looks at who touches what and not at arithmetic: few
 * formats do. */
#ifdef __SANITIZE_THREAD__
enum { FORMATS_USED = 2 };
#else
enum { FORMATS_USED = sizeof formats / sizeof *formats };
#endif

/* Of 32, which blocks of a stock down demand; no multiple of anything; fewer than there are slices; many. 3 divides
 * none. The last two only with the first formats, for time's sake. */
static const uint32_t neuron_counts[] = {128, 37, 5, 515};
enum { FEW_COUNTS = 2, ALL_COUNTS_FORMATS = 2 };

static void read_portions(stack *s, float *logits)
{
    size_t d = s->info.vocabulary_size, at = 0;
    assert_int_equal(hearth_session_truncate(s->session, 0, 0, NULL), HEARTH_OK);
    for (size_t p = 0; p < sizeof portions / sizeof *portions; at += portions[p++]) {
        int32_t ids[BUILT_TOKENS];
        for (size_t i = 0; i < portions[p]; i++)
            ids[i] = (int32_t)(at + i);
        stack_feed(s, 0, ids, portions[p], logits + at * d);
    }
    assert_int_equal(at, BUILT_TOKENS);
}

/* ------------------------------------------------------------------ observers */

typedef struct watch {
    const built *b;
    hearth_rung rung;
    double most; /* the largest activation of all tokens */
    size_t calls;
} watch;

static const char *describe(const built_shape *o, hearth_rung rung, bool plain)
{
    static char text[200];
    snprintf(text, sizeof text, "form %d, %s/%s, d %u, f %u, rank %u%s%s%s, silence %g, %s%s", (int)o->form,
             number_formats[o->format].name, number_formats[o->down].name, o->d, o->f, o->rank,
             o->biases ? ", biases" : "", o->stock ? ", stock" : "", o->ordered ? ", ordered" : "", (double)o->silence,
             hearth_rung_name(rung), plain ? ", plain" : "");
    return text;
}

static bool let_through(const built *b, hearth_rung rung, size_t at)
{
    return rung != HEARTH_RUNG_PREDICTED || b->score[at] >= (double)b->threshold;
}

static void watch_row(void *user, const hearth_observation *o)
{
    watch *w = user;
    const built *b = w->b;
    size_t f = b->shape.f, at = o->position * f, listed = 0;
    bool list[1024] = {false};
    float seen[1024] = {0};
    w->calls++;
    assert_int_equal(o->neurons == NULL, w->rung == HEARTH_RUNG_DENSE);
    for (size_t i = 0; i < o->neuron_count; i++) {
        size_t neuron = o->neurons ? o->neurons[i] : i;
        assert_true(neuron < f && (i == 0 || !o->neurons || o->neurons[i - 1] < neuron));
        list[neuron] = true;
        seen[neuron] = o->activations[i];
    }
    for (size_t row = 0; row < f; row++) {
        size_t neuron = (size_t)b->order[row];
        bool want = w->rung == HEARTH_RUNG_DENSE ||
                    (w->rung == HEARTH_RUNG_EXACT ? b->h[at + row] != 0 : let_through(b, w->rung, at + row));
        listed += want;
        assert_int_equal(list[neuron], want);
        if (!(fabs((double)seen[neuron] - b->h[at + row]) <= 1e-5 * w->most) ||
            (seen[neuron] != 0) != (b->h[at + row] != 0))
            fail_msg("%s: token %u, neuron %zu: %g, expected %g", describe(&b->shape, w->rung, true), o->position,
                     neuron, (double)seen[neuron], b->h[at + row]);
    }
    assert_int_equal(o->neuron_count, listed);
    for (size_t i = 0; i < b->shape.d; i++)
        assert_true((double)o->residual[i] == b->embedding.values[o->position * b->shape.d + i]);
}

/* Sums over all rows, of the reference. Dense computes everything. */
static void check_counts(const stack *s, const built *b, hearth_rung rung)
{
    hearth_counts want = {.rows = BUILT_TOKENS}, got;
    bool all = rung == HEARTH_RUNG_DENSE;
    for (size_t i = 0; i < (size_t)BUILT_TOKENS * b->shape.f; i++) {
        bool computed = let_through(b, rung, i), fired = computed && b->first[i] > (double)b->shape.silence;
        want.computed += computed;
        want.fired += all || fired;
        want.active += all || b->h[i] != 0;
    }
    assert_int_equal(hearth_session_counts(s->session, 0, &got, NULL), HEARTH_OK);
    assert_int_equal(got.rows, want.rows);
    assert_int_equal(got.computed, want.computed);
    assert_int_equal(got.fired, want.fired);
    assert_int_equal(got.active, want.active);
}

/* ------------------------------------------------------------------ one network */

/* The runtime is opened once for many networks. */
static void open_built(stack *s, hearth_runtime *runtime, const built *b, hearth_rung rung, bool plain)
{
    hearth_error error;
    hearth_placement *placement;
    *s = (stack){.runtime = runtime, .info = {.vocabulary_size = b->shape.d}};
    stack_check(hearth_placement_create(&placement, &b->model, rung, &error), &error);
    hearth_placement_set_threshold(placement, b->threshold);
    hearth_engine_options engine = {.placement = placement,
                                    .activations = plain ? HEARTH_ACTIVATIONS_F32 : HEARTH_ACTIVATIONS_AUTO};
    hearth_session_options session = {.context = LONG, .output_rows = 64, .kv = HEARTH_KV_F32};
    stack_check(hearth_engine_create(&s->engine, runtime, &b->model, &engine, &error), &error);
    hearth_placement_destroy(placement);
    stack_check(hearth_session_create(&s->session, s->engine, &session, &error), &error);
}

static void close_built(stack *s)
{
    hearth_session_destroy(s->session);
    hearth_engine_destroy(s->engine);
}

/* The reference has been computed. Returns the distance from it. */
static double check_network(hearth_runtime *runtime, const built *b, hearth_rung rung, bool plain)
{
    stack s;
    size_t n = (size_t)BUILT_TOKENS * b->shape.d;
    float *logits = malloc(n * sizeof *logits), *want = malloc(n * sizeof *want);
    open_built(&s, runtime, b, rung, plain);
    watch w = {.b = b, .rung = rung};
    for (size_t i = 0; i < (size_t)BUILT_TOKENS * b->shape.f; i++)
        w.most = fmax(w.most, fabs(b->h[i]));
    if (plain) {
        hearth_session_observe(s.session, &(hearth_observer){watch_row, &w});
        read_portions(&s, logits);
        assert_int_equal(w.calls, BUILT_TOKENS);
        check_counts(&s, b, rung);
    } else {
        read_portions(&s, logits);
    }
    for (size_t i = 0; i < n; i++)
        want[i] = (float)b->out[i];
    double distance = relative_l2(logits, want, n);
    /* Rounding to 8 bits is emulated, but now and then a value lies so near a half that float32 and double
     * round it to different neighbours: one part in 127 of one of the values that a sum has. */
    if (!(distance <= (plain ? 2e-6 : 5e-4)))
        fail_msg("%s on %s: relative distance %.2e", describe(&b->shape, rung, plain),
                 hearth_runtime_cpu_level(runtime), distance);
    close_built(&s);
    free(logits);
    free(want);
    return distance;
}

/* All shapes there are, one after the other; false at the end. */
static bool next_shape(built_shape *o, size_t *i)
{
    for (;; ++*i) {
        size_t k = *i, format, f;
        o->form = (ffn_form)(k % FFN_FORM_COUNT), k /= FFN_FORM_COUNT;
        o->biases = k % 2, k /= 2;
        size_t layout = k % 3; /* stock, neuron-major, neuron-major in another order */
        k /= 3;
        f = k % (sizeof neuron_counts / sizeof *neuron_counts), k /= sizeof neuron_counts / sizeof *neuron_counts;
        format = k;
        if (format >= FORMATS_USED)
            return false;
        o->format = formats[format].format, o->down = formats[format].down;
        o->d = formats[format].d, o->rank = formats[format].rank, o->f = neuron_counts[f];
        o->stock = layout == 0, o->ordered = layout == 2;
        o->silence = o->biases ? 0.25f : 0;
        if ((format >= ALL_COUNTS_FORMATS && f >= FEW_COUNTS) ||
            (o->stock && o->f % number_formats[o->down].block_values != 0)) /* there is no such file */
            continue;
        ++*i;
        return true;
    }
}

enum { MOST_LEVELS = 8 };

static void every_network(void **state)
{
    (void)state;
    hearth_runtime *runtimes[MOST_LEVELS];
    double worst[MOST_LEVELS][2] = {{0}};
    size_t levels = 0, networks = 0;
    for (; level_at(levels); levels++) {
        assert_true(levels < MOST_LEVELS);
        hearth_runtime_options options = {.threads = 2, .cpu_level = level_at(levels)};
        assert_int_equal(hearth_runtime_create(&runtimes[levels], &options, NULL), HEARTH_OK);
    }
    built_shape shape;
    for (size_t i = 0; next_shape(&shape, &i);) {
        built *b = built_new(&shape);
        bool rounds = number_is_block(shape.format) || number_is_block(shape.down);
        for (int rung = HEARTH_RUNG_DENSE; rung <= HEARTH_RUNG_PREDICTED; rung++)
            for (int plain = !rounds; plain < 2; plain++, networks++) {
                built_compute(b, (hearth_rung)rung, !plain);
                for (size_t l = 0; l < levels; l++)
                    worst[l][plain] = fmax(worst[l][plain], check_network(runtimes[l], b, (hearth_rung)rung, plain));
            }
        built_free(b);
    }
    for (size_t l = 0; l < levels; l++) {
        print_message("%-7s %zu networks, worst distance %.1e with rounded activations, %.1e without\n", level_at(l),
                      networks, worst[l][0], worst[l][1]);
        hearth_runtime_destroy(runtimes[l]);
    }
}

/* One, two and three threads, and a hundred runs: the same bytes; exact is dense to the byte, stock layout apart. */
static void deterministic(void **state)
{
    (void)state;
    hearth_runtime *runtimes[3];
    for (unsigned i = 0; i < 3; i++)
        assert_int_equal(hearth_runtime_create(&runtimes[i], &(hearth_runtime_options){.threads = i + 1}, NULL),
                         HEARTH_OK);
    built_shape shape;
    for (size_t i = 0; next_shape(&shape, &i);) {
        if (shape.f != 515 && shape.f != 5)
            continue;
        built *b = built_new(&shape);
        size_t size = (size_t)BUILT_TOKENS * shape.d * sizeof(float);
        float *want[HEARTH_RUNG_COUNT] = {0}, *got = calloc(1, size);
        for (int rung = HEARTH_RUNG_DENSE; rung <= HEARTH_RUNG_PREDICTED; rung++) {
            want[rung] = calloc(1, size);
            for (unsigned threads = 1; threads <= 3; threads++) {
                stack s;
                open_built(&s, runtimes[threads - 1], b, (hearth_rung)rung, false);
                unsigned runs = threads == 2 && shape.down == FORMAT_F16 && shape.f == 515 && shape.biases ? 100 : 1;
                for (unsigned run = 0; run < runs; run++) {
                    read_portions(&s, threads == 1 ? want[rung] : got);
                    if (threads > 1 && memcmp(got, want[rung], size) != 0)
                        fail_msg("%s: %u threads, run %u differs", describe(&shape, (hearth_rung)rung, false), threads,
                                 run);
                }
                close_built(&s);
            }
        }
        if (!shape.stock && memcmp(want[HEARTH_RUNG_EXACT], want[HEARTH_RUNG_DENSE], size) != 0)
            fail_msg("%s is not dense", describe(&shape, HEARTH_RUNG_EXACT, false));
        assert_true(memcmp(want[HEARTH_RUNG_PREDICTED], want[HEARTH_RUNG_DENSE], size) != 0);
        for (int rung = HEARTH_RUNG_DENSE; rung <= HEARTH_RUNG_PREDICTED; rung++)
            free(want[rung]);
        free(got);
        built_free(b);
    }
    for (unsigned i = 0; i < 3; i++)
        hearth_runtime_destroy(runtimes[i]);
}

/* A feed of many rows, whose last ones are held against the reference. */
static void long_prompts(void **state)
{
    (void)state;
    hearth_runtime *runtime;
    assert_int_equal(hearth_runtime_create(&runtime, &(hearth_runtime_options){.threads = 2}, NULL), HEARTH_OK);
    hearth_row rows[LONG];
    for (int i = 0; i < LONG; i++) /* ends with token 39, so that the last 40 are those of the reference in order */
        rows[i] = (hearth_row){(i + BUILT_TOKENS - LONG % BUILT_TOKENS) % BUILT_TOKENS, 0, i >= LONG - BUILT_TOKENS};
    built_shape shape;
    for (size_t i = 0; next_shape(&shape, &i);) {
        if (shape.format != FORMAT_BF16 || shape.f != 128)
            continue;
        built *b = built_new(&shape);
        for (int rung = HEARTH_RUNG_DENSE; rung <= HEARTH_RUNG_PREDICTED; rung++) {
            stack s;
            hearth_error error;
            size_t n = (size_t)BUILT_TOKENS * shape.d;
            float *logits = malloc(n * sizeof *logits), *want = malloc(n * sizeof *want);
            open_built(&s, runtime, b, (hearth_rung)rung, true);
            built_compute(b, (hearth_rung)rung, false);
            for (size_t k = 0; k < n; k++)
                want[k] = (float)b->out[k];
            stack_check(hearth_session_feed(s.session, rows, LONG, &error), &error);
            stack_check(hearth_session_logits(s.session, 0, BUILT_TOKENS, logits, &error), &error);
            if (!(relative_l2(logits, want, n) <= 2e-6))
                fail_msg("%s: relative distance %.2e", describe(&shape, (hearth_rung)rung, true),
                         relative_l2(logits, want, n));
            close_built(&s);
            free(logits);
            free(want);
        }
        built_free(b);
    }
    hearth_runtime_destroy(runtime);
}

/* PowerInfer's comparison is "below": a score equal to the threshold lets a neuron through, and so does one that is no
 * number. All scores being that, predicted is exact to the byte. */
static void scores_at_the_threshold(void **state)
{
    (void)state;
    static const float scores[] = {0, NAN};
    hearth_runtime *runtime;
    assert_int_equal(hearth_runtime_create(&runtime, &(hearth_runtime_options){.threads = 2}, NULL), HEARTH_OK);
    for (size_t i = 0; i < 2 * FFN_FORM_COUNT; i++) {
        built_shape shape = {.form = (ffn_form)(i / 2), .d = 64, .f = 37, .rank = 8};
        built *b = built_new(&shape);
        size_t n = (size_t)BUILT_TOKENS * shape.d;
        float *logits[HEARTH_RUNG_COUNT] = {0}, *fc2 = (float *)(uintptr_t)b->fc2.stored.data;
        for (size_t k = 0; k < (size_t)shape.f * shape.rank; k++)
            fc2[k] = scores[i % 2];
        b->threshold = 0;
        for (int rung = HEARTH_RUNG_EXACT; rung <= HEARTH_RUNG_PREDICTED; rung++) {
            stack s;
            logits[rung] = malloc(n * sizeof(float));
            open_built(&s, runtime, b, (hearth_rung)rung, true);
            read_portions(&s, logits[rung]);
            close_built(&s);
        }
        assert_memory_equal(logits[HEARTH_RUNG_PREDICTED], logits[HEARTH_RUNG_EXACT], n * sizeof(float));
        free(logits[HEARTH_RUNG_EXACT]);
        free(logits[HEARTH_RUNG_PREDICTED]);
        built_free(b);
    }
    hearth_runtime_destroy(runtime);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_network),
        cmocka_unit_test(deterministic),
        cmocka_unit_test(long_prompts),
        cmocka_unit_test(scores_at_the_threshold),
    };
    return run_group(tests, NULL, NULL);
}
