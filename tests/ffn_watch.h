/* ffn_watch.h - the networks of ffn_build.h that tests go through, how they are fed, and what an observer must see of
 * them. */
#ifndef TESTS_FFN_WATCH_H
#define TESTS_FFN_WATCH_H

#include "ffn_build.h"

/* ------------------------------------------------------------------ shapes */

static const struct {
    number_format format, down;
    uint32_t d, rank;
} formats[] = {
    {FORMAT_F32, FORMAT_F32, 42, 5},      {FORMAT_F16, FORMAT_F16, 48, 20},   {FORMAT_BF16, FORMAT_BF16, 300, 33},
    {FORMAT_Q8_0, FORMAT_Q8_0, 64, 32},   {FORMAT_Q4_0, FORMAT_Q4_0, 96, 64}, {FORMAT_F16, FORMAT_Q8_0, 320, 7},
    {FORMAT_Q4_K, FORMAT_Q6_K, 256, 256},
};

/* Sanitizers, under which a test takes five to twenty times as long, look at who touches what and not at arithmetic: few
 * formats do. */
#ifdef __SANITIZE_THREAD__
enum { FORMATS_USED = 2 };
#elif defined __SANITIZE_ADDRESS__
enum { FORMATS_USED = 4 };
#else
enum { FORMATS_USED = sizeof formats / sizeof *formats };
#endif

/* Of 32, which blocks of a stock down demand; no multiple of anything; fewer than there are slices; many. 3 divides
 * none. The last two only with the first formats, for time's sake. */
static const uint32_t neuron_counts[] = {128, 37, 5, 515};
enum { FEW_COUNTS = 2, ALL_COUNTS_FORMATS = 2 };

/* All shapes there are, one after the other; false at the end. */
static inline bool next_shape(built_shape *o, size_t *i)
{
    for (;; ++*i) {
        size_t k = *i, format, f;
        *o = (built_shape){0};
        o->gating = (ffn_gating)(k % FFN_GATING_COUNT), k /= FFN_GATING_COUNT;
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
        o->activation_threshold = o->biases ? 0.25f : 0;
        if ((format >= ALL_COUNTS_FORMATS && f >= FEW_COUNTS) ||
            (o->stock && o->f % number_formats[o->down].block_values != 0)) /* there is no such file */
            continue;
        ++*i;
        return true;
    }
}

/* ------------------------------------------------------------------ reading */

/* An engine and a session for a network under a placement, which it takes. plain: with float32 activations. */
static inline void open_network(stack *s, hearth_runtime *runtime, const built *b, hearth_placement *placement,
                                bool plain)
{
    hearth_error error;
    *s = (stack){.runtime = runtime, .info = {.vocabulary_size = b->shape.d}};
    hearth_engine_options engine = {.placement = placement,
                                    .activations = plain ? HEARTH_ACTIVATIONS_F32 : HEARTH_ACTIVATIONS_AUTO};
    hearth_session_options session = {.context = BUILT_TOKENS, .output_rows = BUILT_TOKENS, .kv = HEARTH_KV_F32};
    stack_check(hearth_engine_create(&s->engine, runtime, &b->model, &engine, &error), &error);
    hearth_placement_destroy(placement);
    stack_check(hearth_session_create(&s->session, s->engine, &session, &error), &error);
}

static inline void close_network(stack *s)
{
    hearth_session_destroy(s->session);
    hearth_engine_destroy(s->engine);
}

/* The tokens are fed in these portions: one; few, whose lists are joined; more than are ever joined. */
static const size_t portions[] = {1, 2, 15, 17, 1, 4};

static inline void read_portions(stack *s, float *logits)
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
    hearth_mode mode;
    double most; /* the largest activation of all tokens */
    size_t calls;
} watch;

static inline const char *describe(const built_shape *o, hearth_mode mode, bool plain)
{
    static char text[200];
    snprintf(text, sizeof text, "gating %d, %s/%s, d %u, f %u, rank %u%s%s%s, activation_threshold %g, %s%s",
             (int)o->gating, number_formats[o->format].name, number_formats[o->down].name, o->d, o->f, o->rank,
             o->biases ? ", biases" : "", o->stock ? ", stock" : "", o->ordered ? ", ordered" : "",
             (double)o->activation_threshold, hearth_mode_name(mode), plain ? ", plain" : "");
    return text;
}

static inline bool let_through(const built *b, hearth_mode mode, size_t at)
{
    return mode != HEARTH_MODE_PREDICTED || b->score[at] >= b->passes;
}

static inline void watch_row(void *user, const hearth_observation *o)
{
    watch *w = user;
    const built *b = w->b;
    size_t f = b->shape.f, at = o->position * f, listed = 0;
    bool list[1024] = {false};
    float seen[1024] = {0};
    w->calls++;
    assert_int_equal(o->neurons == NULL, w->mode == HEARTH_MODE_DENSE);
    for (size_t i = 0; i < o->neuron_count; i++) {
        size_t neuron = o->neurons ? o->neurons[i] : i;
        assert_true(neuron < f && (i == 0 || !o->neurons || o->neurons[i - 1] < neuron));
        list[neuron] = true;
        seen[neuron] = o->activations[i];
    }
    for (size_t row = 0; row < f; row++) {
        size_t neuron = (size_t)b->order[row];
        bool want = w->mode == HEARTH_MODE_DENSE ||
                    (w->mode == HEARTH_MODE_PREDICTED ? let_through(b, w->mode, at + row) : b->h[at + row] != 0);
        listed += want;
        assert_int_equal(list[neuron], want);
        if (!(fabs((double)seen[neuron] - b->h[at + row]) <= 1e-5 * w->most) ||
            (seen[neuron] != 0) != (b->h[at + row] != 0))
            fail_msg("%s: token %u, neuron %zu: %g, expected %g", describe(&b->shape, w->mode, true), o->position,
                     neuron, (double)seen[neuron], b->h[at + row]);
    }
    assert_int_equal(o->neuron_count, listed);
    for (size_t i = 0; i < b->shape.d; i++)
        assert_true((double)o->residual[i] == b->embedding.values[o->position * b->shape.d + i]);
}

/* Before the logits are read; the reference has been computed. */
static inline watch watch_begin(const built *b, hearth_mode mode)
{
    watch w = {.b = b, .mode = mode};
    for (size_t i = 0; i < (size_t)BUILT_TOKENS * b->shape.f; i++)
        w.most = fmax(w.most, fabs(b->h[i]));
    return w;
}

/* Sums over all rows, of the reference. Dense computes everything. */
static inline void check_counts(const stack *s, const built *b, hearth_mode mode)
{
    hearth_counts want = {.rows = BUILT_TOKENS}, got;
    bool all = mode == HEARTH_MODE_DENSE;
    for (size_t i = 0; i < (size_t)BUILT_TOKENS * b->shape.f; i++) {
        bool computed = let_through(b, mode, i),
             fired = computed && b->first[i] > (double)b->shape.activation_threshold;
        if (mode == HEARTH_MODE_PRUNED)
            fired = built_size(b, i) > (double)b->cut;
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

#endif
