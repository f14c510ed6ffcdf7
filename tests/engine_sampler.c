/* engine_sampler.c - the sampler against a plain second implementation (sort everything, in double), sets worked out by
 * hand, and the statistics of its draws. Seeds are fixed, so a run either always passes or always fails. */
#include "../src/base/error.h"
#include "../src/base/memory.h"

#include <float.h>
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#define MANY 1200

static const hearth_sampling plain = {.temperature = 1.0f, .top_p = 1.0f, .repeat_penalty = 1.0f};

static hearth_sampler *create(const hearth_sampling *options, uint32_t vocabulary_size)
{
    hearth_sampler *s = NULL;
    hearth_error error;
    if (hearth_sampler_create(&s, options, vocabulary_size, &error) != HEARTH_OK)
        fail_msg("%s", error.text);
    return s;
}

/* Natural logarithms of probabilities are logits. */
static void logits_of(const double *probabilities, size_t n, float *logits)
{
    for (size_t i = 0; i < n; i++)
        logits[i] = (float)log(probabilities[i]);
}

/* How often each token comes in n draws. */
static void count_draws(const hearth_sampling *options, const float *logits, uint32_t vocabulary_size, size_t n,
                        size_t *counts)
{
    hearth_sampler *s = create(options, vocabulary_size);
    memset(counts, 0, vocabulary_size * sizeof *counts);
    for (size_t i = 0; i < n; i++) {
        int32_t token = hearth_sampler_pick(s, logits);
        assert_in_range(token, 0, vocabulary_size - 1);
        counts[token]++;
    }
    hearth_sampler_destroy(s);
}

/* ---- the second implementation */

typedef struct entry {
    double logit;
    size_t id;
} entry;

static int by_logit(const void *a, const void *b)
{
    const entry *x = a, *y = b;
    if (x->logit != y->logit)
        return x->logit > y->logit ? -1 : 1;
    return x->id < y->id ? -1 : 1;
}

/* Probabilities of sorted entries [0, n) at a temperature. */
static void softmax(const entry *e, size_t n, double temperature, double *p)
{
    double sum = 0.0;
    for (size_t i = 0; i < n; i++)
        sum += p[i] = exp((e[i].logit - e[0].logit) / temperature);
    for (size_t i = 0; i < n; i++)
        p[i] /= sum;
}

/* The probability of every token by the book: each filter renormalises before the next one looks. */
static void expected_probabilities(const hearth_sampling *o, const float *logits, size_t n, double *probabilities)
{
    static entry e[MANY];
    static double p[MANY];
    for (size_t i = 0; i < n; i++)
        e[i] = (entry){(double)logits[i], i};
    qsort(e, n, sizeof *e, by_logit);
    size_t kept = o->top_k > 0 && o->top_k < n ? o->top_k : n;
    softmax(e, kept, 1.0, p);
    if (o->top_p < 1.0f) {
        double sum = 0.0;
        size_t i = 0;
        while (i < kept && (i == 0 || sum < (double)o->top_p))
            sum += p[i++];
        kept = i;
    }
    softmax(e, kept, 1.0, p);
    size_t i = 0;
    while (i < kept && p[i] >= (double)o->min_p * p[0])
        i++;
    kept = i;
    softmax(e, kept, (double)o->temperature, p);
    for (i = 0; i < n; i++)
        probabilities[i] = 0.0;
    for (i = 0; i < kept; i++)
        probabilities[e[i].id] = p[i];
}

static double next_uniform(uint32_t *state)
{
    *state = *state * 1664525u + 1013904223u;
    return (double)(*state >> 8) / 16777216.0;
}

/* Pearson's statistic stays below mean + 6 deviations of its distribution (df, sqrt(2 df)), which for these
 * degrees of freedom is passed by chance less than once in 10^4; and the seeds are fixed. */
static void check_distribution(const double *p, const size_t *counts, size_t n, size_t draws)
{
    double statistic = 0.0, freedom = -1.0;
    for (size_t i = 0; i < n; i++) {
        if (p[i] == 0.0) {
            assert_int_equal(counts[i], 0);
            continue;
        }
        double mean = p[i] * (double)draws;
        statistic += ((double)counts[i] - mean) * ((double)counts[i] - mean) / mean;
        freedom += 1.0;
    }
    assert_true(freedom >= 0.0);
    if (statistic > freedom + 6.0 * sqrt(2.0 * freedom) + 1e-9)
        fail_msg("chi-square %.1f with %.0f degrees of freedom", statistic, freedom);
}

static void draws_follow_the_book(void **unused)
{
    (void)unused;
    const uint32_t ks[] = {0, 1, 3, 7, 12, 40};
    const float ps[] = {1.0f, 0.9f, 0.5f, 0.07f, 0.0f}, minima[] = {0.0f, 0.05f, 0.3f, 1.0f};
    const float temperatures[] = {0.3f, 1.0f, 2.5f};
    enum { N = 12, DRAWS = 5000 };
    uint32_t state = 3;
    for (size_t i = 0; i < 6 * 5 * 4 * 3; i++) {
        hearth_sampling o = plain;
        o.top_k = ks[i % 6];
        o.top_p = ps[i / 6 % 5];
        o.min_p = minima[i / 30 % 4];
        o.temperature = temperatures[i / 120];
        o.seed = i;
        float logits[N];
        double p[N];
        size_t counts[N];
        for (size_t j = 0; j < N; j++)
            logits[j] = (float)(6.0 * next_uniform(&state) - 3.0);
        expected_probabilities(&o, logits, N, p);
        count_draws(&o, logits, N, DRAWS, counts);
        check_distribution(p, counts, N, DRAWS);
    }
}

/* Sets that need more than the sampler's first try. At an enormous temperature all of a set are alike, so one of
 * up to 450 candidates is missed in 9000 draws with probability 450 exp(-20). */
static void large_vocabulary(void **unused)
{
    (void)unused;
    static float logits[MANY];
    static double p[MANY];
    static size_t counts[MANY];
    uint32_t state = 17;
    for (size_t i = 0; i < MANY; i++)
        logits[i] = (float)(3.0 * next_uniform(&state));
    const hearth_sampling options[] = {
        {.top_k = 100, .top_p = 1.0f},   {.top_k = 700, .top_p = 0.5f}, {.top_p = 0.05f}, {.top_p = 0.65f},
        {.top_p = 1.0f, .min_p = 0.45f}, {.top_k = 1, .top_p = 1.0f},
    };
    for (size_t i = 0; i < sizeof options / sizeof *options; i++) {
        hearth_sampling o = options[i];
        o.temperature = 1e9f;
        o.repeat_penalty = 1.0f;
        o.seed = i;
        expected_probabilities(&o, logits, MANY, p);
        count_draws(&o, logits, MANY, 9000, counts);
        size_t size = 0;
        for (size_t j = 0; j < MANY; j++) {
            assert_int_equal(counts[j] > 0, p[j] > 0.0);
            size += p[j] > 0.0;
        }
        assert_in_range(size, 1, 450);
    }
}

/* ---- by hand */

/* Bit i: token i was drawn, at a temperature where all that are left are alike. */
static unsigned drawn(hearth_sampling o, const float *logits, uint32_t n)
{
    size_t counts[32];
    o.temperature = 1e6f;
    count_draws(&o, logits, n, 400, counts);
    unsigned set = 0;
    for (uint32_t i = 0; i < n; i++)
        set |= (counts[i] > 0 ? 1u : 0u) << i;
    return set;
}

static void sets_by_hand(void **unused)
{
    (void)unused;
    const double p[5] = {0.1, 0.4, 0.05, 0.25, 0.2};
    float logits[5];
    logits_of(p, 5, logits);
    hearth_sampling o = plain;
    assert_int_equal(drawn(o, logits, 5), 0x1f);
    o.top_k = 2; /* 0.4 0.25 */
    assert_int_equal(drawn(o, logits, 5), 0x0a);
    o.top_k = 0;
    o.top_p = 0.6f; /* 0.4 is less, 0.65 is enough */
    assert_int_equal(drawn(o, logits, 5), 0x0a);
    o.top_p = 0.7f; /* 0.4 0.25 0.2 */
    assert_int_equal(drawn(o, logits, 5), 0x1a);
    o.top_k = 3; /* 0.4 is 0.47 of what is left, 0.65 is 0.76 */
    assert_int_equal(drawn(o, logits, 5), 0x0a);
    o.top_k = 0;
    o.top_p = 0.0f; /* one at least */
    assert_int_equal(drawn(o, logits, 5), 0x02);
    o.top_p = 1.0f;
    o.min_p = 0.45f; /* at least 0.18 */
    assert_int_equal(drawn(o, logits, 5), 0x1a);
    o.min_p = 1.0f;
    assert_int_equal(drawn(o, logits, 5), 0x02);
    const float same[5] = {1, 1, 1, 1, 1};
    o = plain;
    o.top_k = 2; /* lowest ids first */
    assert_int_equal(drawn(o, same, 5), 0x03);
}

static int32_t pick_once(const hearth_sampling *o, const float *logits, uint32_t n, const int32_t *history,
                         size_t count)
{
    hearth_sampler *s = create(o, n);
    for (size_t i = 0; i < count; i++)
        hearth_sampler_accept(s, history[i]);
    int32_t token = hearth_sampler_pick(s, logits);
    assert_int_equal(hearth_sampler_pick(s, logits), token); /* picking changes no penalties */
    hearth_sampler_destroy(s);
    return token;
}

static void greedy(void **unused)
{
    (void)unused;
    hearth_sampling o = plain;
    o.temperature = 0.0f;
    const float logits[6] = {-1.0f, 2.0f, 3.5f, 3.5f, -7.0f, 0.0f};
    assert_int_equal(pick_once(&o, logits, 6, NULL, 0), 2); /* of equal ones the first */
    const hearth_logit_bias biases[] = {{2, -1.0f}, {3, -INFINITY}, {5, 2.75f}};
    o.biases = biases;
    o.bias_count = 3;
    assert_int_equal(pick_once(&o, logits, 6, NULL, 0), 5);
    const float negative[3] = {-3.0f, -2.0f, -INFINITY};
    o.bias_count = 0;
    assert_int_equal(pick_once(&o, negative, 3, NULL, 0), 1);
}

/* Each case: penalties, a history, and which of two tokens is ahead by how much. */
static void penalties(void **unused)
{
    (void)unused;
    hearth_sampling o = plain;
    o.temperature = 0.0f;
    o.penalty_window = 4;
    const int32_t history[] = {0, 0, 1, 0};

    o.repeat_penalty = 2.0f; /* 3 / 2 < 1.6; once, however often it was seen */
    const float positive[4] = {3.0f, -9.0f, 1.6f, -9.0f};
    assert_int_equal(pick_once(&o, positive, 4, history, 4), 2);
    const float less[4] = {3.0f, -9.0f, 1.4f, -9.0f};
    assert_int_equal(pick_once(&o, less, 4, history, 4), 0);
    const float negative[4] = {-1.0f, -9.0f, -1.9f, -9.0f}; /* -1 * 2 < -1.9 */
    assert_int_equal(pick_once(&o, negative, 4, history, 4), 2);

    o.repeat_penalty = 1.0f;
    o.presence_penalty = 1.0f; /* 3 - 1, once */
    const float present[4] = {3.0f, -9.0f, 2.1f, 1.9f};
    assert_int_equal(pick_once(&o, present, 4, history, 4), 2);
    const float still[4] = {3.0f, -9.0f, 1.9f, 1.9f};
    assert_int_equal(pick_once(&o, still, 4, history, 4), 0);

    o.presence_penalty = 0.0f;
    o.frequency_penalty = 0.5f; /* 3 - 3 * 0.5 against 2.1 - 0.5 */
    const float frequent[4] = {3.0f, 2.1f, 0.0f, 0.0f};
    assert_int_equal(pick_once(&o, frequent, 4, history, 4), 1);
    assert_int_equal(pick_once(&o, frequent, 4, history, 3), 0); /* 3 - 2 * 0.5 against 2.1 - 0.5 */

    /* The window holds the latest four: 1 2 2 3. */
    const int32_t longer[] = {0, 0, 0, 0, 1, 2, 2, 3};
    o.frequency_penalty = 1.0f;
    const float seen[4] = {1.0f, 1.9f, 2.9f, 1.9f};
    assert_int_equal(pick_once(&o, seen, 4, longer, 8), 0);
    o.penalty_window = 0; /* nothing counts */
    assert_int_equal(pick_once(&o, seen, 4, longer, 8), 2);
    o.penalty_window = 3; /* 2 2 3: token 1 is free again */
    assert_int_equal(pick_once(&o, seen, 4, longer, 8), 1);
}

static void forgetting_is_complete(void **unused)
{
    (void)unused;
    hearth_sampling o = plain;
    o.temperature = 0.0f;
    o.frequency_penalty = 1.0f;
    o.penalty_window = 7;
    hearth_sampler *s = create(&o, 10);
    const float logits[10] = {0};
    uint32_t state = 5;
    for (int i = 0; i < 1000; i++)
        hearth_sampler_accept(s, (int32_t)(10.0 * next_uniform(&state)));
    hearth_sampler_accept(s, -1); /* no tokens: ignored */
    hearth_sampler_accept(s, 10);
    for (int i = 0; i < 7; i++)
        hearth_sampler_accept(s, 3);
    assert_int_equal(hearth_sampler_pick(s, logits), 0); /* none but 3 is penalised */
    float three[10] = {0};
    three[3] = 7.5f;
    assert_int_equal(hearth_sampler_pick(s, three), 3);
    three[3] = 6.5f;
    assert_int_equal(hearth_sampler_pick(s, three), 0);
    hearth_sampler_destroy(s);
}

static void bias_shifts_probability(void **unused)
{
    (void)unused;
    const hearth_logit_bias biases[] = {{0, (float)log(3.0)}, {2, -INFINITY}, {2, 100.0f}};
    hearth_sampling o = plain;
    o.biases = biases;
    o.bias_count = 3;
    const float logits[4] = {0, 0, 50, 0}; /* 3 : 1 : forbidden : 1 */
    const double p[4] = {0.6, 0.2, 0, 0.2};
    size_t counts[4];
    count_draws(&o, logits, 4, 10000, counts);
    check_distribution(p, counts, 4, 10000);
}

/* ---- bad logits, seeds, errors, memory */

static void bad_logits(void **unused)
{
    (void)unused;
    const hearth_logit_bias biases[] = {{0, -INFINITY}, {1, -INFINITY}};
    hearth_sampling o = hearth_sampling_default();
    const float nan[4] = {NAN, NAN, NAN, NAN}, nothing[4] = {-INFINITY, -INFINITY, -INFINITY, -INFINITY};
    const float one[4] = {NAN, -INFINITY, -FLT_MAX, NAN}, top[4] = {0.0f, INFINITY, FLT_MAX, NAN};
    for (int i = 0; i < 4; i++) {
        o.temperature = i < 2 ? 0.0f : 0.8f;
        o.top_k = i % 2 ? 2 : 0;
        o.min_p = i == 3 ? 0.0f : 0.05f;
        o.biases = NULL;
        o.bias_count = 0;
        assert_int_equal(pick_once(&o, nan, 4, NULL, 0), 0);
        assert_int_equal(pick_once(&o, nothing, 4, NULL, 0), 0);
        assert_int_equal(pick_once(&o, one, 4, NULL, 0), 2);
        hearth_sampler *s = create(&o, 4);
        for (int j = 0; j < 20; j++)
            assert_in_range(hearth_sampler_pick(s, top), 1, 2);
        hearth_sampler_destroy(s);
        o.biases = biases;
        o.bias_count = 2;
        assert_int_equal(pick_once(&o, nan, 4, NULL, 0), 2); /* the lowest that is not forbidden */
        assert_int_equal(pick_once(&o, nothing, 4, NULL, 0), 2);
    }
    const hearth_logit_bias all[] = {{0, -INFINITY}, {1, -INFINITY}};
    o.biases = all;
    assert_int_equal(pick_once(&o, nothing, 2, NULL, 0), 0);
    /* Arithmetic that overflows stays a choice. */
    o = plain;
    o.repeat_penalty = 1e-30f;
    o.frequency_penalty = 3e38f;
    o.penalty_window = 8;
    const float huge[3] = {FLT_MAX, -FLT_MAX, 0.0f};
    const int32_t history[] = {0, 0, 1, 1, 0};
    assert_int_equal(pick_once(&o, huge, 3, history, 5), 2);
}

static void seeds(void **unused)
{
    (void)unused;
    float logits[100];
    uint32_t state = 1;
    for (size_t i = 0; i < 100; i++)
        logits[i] = (float)next_uniform(&state);
    int32_t picks[3][50];
    const uint64_t seed[3] = {42, 42, 43};
    for (size_t k = 0; k < 3; k++) {
        hearth_sampling o = plain;
        o.seed = seed[k];
        hearth_sampler *s = create(&o, 100);
        for (size_t i = 0; i < 50; i++)
            picks[k][i] = hearth_sampler_pick(s, logits);
        hearth_sampler_destroy(s);
    }
    assert_memory_equal(picks[0], picks[1], sizeof picks[0]);
    assert_memory_not_equal(picks[0], picks[2], sizeof picks[0]);
}

/* After a reset the same choices come again, with the penalties of an empty window. */
static void reset_is_as_new(void **unused)
{
    (void)unused;
    hearth_sampling o = hearth_sampling_default();
    hearth_sampler *s;
    float logits[50];
    int32_t first[40];
    o.repeat_penalty = 1.5f;
    o.seed = 7;
    for (size_t i = 0; i < 50; i++)
        logits[i] = (float)(i % 7);
    assert_int_equal(hearth_sampler_create(&s, &o, 50, NULL), HEARTH_OK);
    for (size_t round = 0; round < 2; round++) {
        for (size_t i = 0; i < 40; i++) {
            int32_t id = hearth_sampler_pick(s, logits);
            hearth_sampler_accept(s, id);
            if (round == 0)
                first[i] = id;
            assert_int_equal(id, first[i]);
        }
        hearth_sampler_reset(s);
    }
    hearth_sampler_destroy(s);
}

static void defaults(void **unused)
{
    (void)unused;
    hearth_sampling o = hearth_sampling_default();
    assert_true(o.temperature == 0.8f && o.top_k == 40 && o.top_p == 0.95f && o.min_p == 0.05f);
    assert_true(o.repeat_penalty == 1.0f && o.presence_penalty == 0.0f && o.frequency_penalty == 0.0f);
    assert_true(o.penalty_window == 64 && o.bias_count == 0 && o.seed == 0);
    hearth_sampler_destroy(create(&o, 32000));
    hearth_sampler_destroy(NULL);
}

static void refuse(hearth_sampling o, uint32_t vocabulary_size, const char *text)
{
    hearth_sampler *s = NULL;
    hearth_error error;
    assert_int_equal(hearth_sampler_create(&s, &o, vocabulary_size, &error), HEARTH_INVALID);
    assert_string_equal(error.text, text);
    assert_null(s);
}

static void bad_options(void **unused)
{
    (void)unused;
    const hearth_sampling good = hearth_sampling_default();
    hearth_sampling o = good;
    o.top_p = 1.5f;
    refuse(o, 10, "sampling: top_p is 1.5, expected 0 to 1");
    o = good;
    o.temperature = -0.5f;
    refuse(o, 10, "sampling: temperature is -0.5, expected 0 or more");
    o.temperature = INFINITY;
    refuse(o, 10, "sampling: temperature is inf, expected 0 or more");
    o = good;
    o.min_p = NAN;
    refuse(o, 10, "sampling: min_p is nan, expected 0 to 1");
    o = good;
    o.repeat_penalty = 0.0f;
    refuse(o, 10, "sampling: repeat_penalty is 0, expected more than 0");
    o = good;
    o.presence_penalty = -INFINITY;
    refuse(o, 10, "sampling: presence_penalty is -inf, expected a finite number");
    o = good;
    o.penalty_window = 1u << 21;
    refuse(o, 10, "sampling: penalty_window is 2097152, expected 0 to 1048576");
    hearth_logit_bias bias = {10, 0.0f};
    o = good;
    o.bias_count = 1;
    refuse(o, 10, "sampling: biases is NULL, expected 1");
    o.biases = &bias;
    refuse(o, 10, "sampling: biases[0].token is 10, expected 0 to 9");
    bias = (hearth_logit_bias){3, INFINITY};
    refuse(o, 10, "sampling: biases[0].bias is inf, expected a number or -inf");
    refuse(good, 0, "sampling: vocabulary_size is 0, expected 1 to 2147483647");
}

static void memory(void **unused)
{
    (void)unused;
    long before = mem_live();
    const hearth_logit_bias bias = {1, 0.5f};
    hearth_sampling o = hearth_sampling_default();
    o.repeat_penalty = 1.1f;
    o.biases = &bias;
    o.bias_count = 1;
    long n = 0;
    for (;; n++) {
        hearth_sampler *s = NULL;
        hearth_error error;
        mem_fail_at(n);
        hearth_status status = hearth_sampler_create(&s, &o, 100, &error);
        if (status == HEARTH_OK) {
            const float logits[100] = {0}; /* every allocation fails by now or would soon: none must be tried */
            mem_fail_at(0);
            hearth_sampler_accept(s, 5);
            assert_in_range(hearth_sampler_pick(s, logits), 0, 99);
            mem_fail_at(-1);
            hearth_sampler_destroy(s);
            break;
        }
        assert_int_equal(status, HEARTH_NO_MEMORY);
        assert_int_equal(mem_live(), before);
    }
    assert_true(n >= 4);
    assert_int_equal(mem_live(), before);
}

static void log_probabilities(void **unused)
{
    (void)unused;
    const double p[4] = {0.5, 0.25, 0.2, 0.05};
    float logits[4];
    logits_of(p, 4, logits);
    for (int32_t i = 0; i < 4; i++)
        assert_true(fabs(hearth_log_probability(logits, 4, i) - log(p[i])) < 1e-6);
    for (int32_t i = 0; i < 4; i++)
        logits[i] += 5000.0f; /* a common term changes nothing but the rounding of the logits, 2^-12 */
    for (int32_t i = 0; i < 4; i++)
        assert_true(fabs(hearth_log_probability(logits, 4, i) - log(p[i])) < 0x1p-11);
    assert_true(hearth_log_probability(logits, 4, 4) == -INFINITY);
    assert_true(hearth_log_probability(logits, 4, -1) == -INFINITY);
    const float odd[3] = {NAN, 0.0f, 0.0f};
    assert_true(hearth_log_probability(odd, 3, 0) == -INFINITY);
    assert_true(fabs(hearth_log_probability(odd, 3, 1) + log(2.0)) < 1e-12);
    assert_true(hearth_log_probability(odd, 1, 0) == -INFINITY);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(draws_follow_the_book),
        cmocka_unit_test(large_vocabulary),
        cmocka_unit_test(sets_by_hand),
        cmocka_unit_test(greedy),
        cmocka_unit_test(penalties),
        cmocka_unit_test(forgetting_is_complete),
        cmocka_unit_test(bias_shifts_probability),
        cmocka_unit_test(bad_logits),
        cmocka_unit_test(seeds),
        cmocka_unit_test(reset_is_as_new),
        cmocka_unit_test(defaults),
        cmocka_unit_test(bad_options),
        cmocka_unit_test(memory),
        cmocka_unit_test(log_probabilities),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
