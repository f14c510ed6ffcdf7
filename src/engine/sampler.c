/* sampler.c - chooses a token from logits.
 *
 * The order is the one that users of llama.cpp expect: biases, penalties, top-k, top-p, min-p, temperature, draw. The
 * candidates are always a prefix of the tokens sorted by logit (lower id first if equal), so each filter only says
 * where to cut. Sorting a whole vocabulary would cost more than everything else together, so the best few are kept in a
 * heap while the logits are scanned once.
 *
 * Create allocates everything; pick allocates nothing. Logits may have any value: NaN counts as -infinity, +infinity as
 * the largest float. */
#include "sampler.h"

#include "../base/error.h"
#include "../base/memory.h"
#include "../base/random.h"
#include "../base/sized.h"

#include <float.h>
#include <math.h>
#include <string.h>

/* Largest penalty window; longer than any context. */
#define WINDOW_MAX (1u << 20)
/* Without top-k, top-p and min-p do not say how many candidates they need: try so many, then NEXT_TRY times as many. */
#define FIRST_TRY 256
#define NEXT_TRY  8 /* times as many */

typedef struct candidate {
    float logit;
    int32_t id;
    double weight; /* exp((logit - best) / temperature) */
} candidate;

struct hearth_sampler {
    hearth_sampling options; /* its biases are the copy of the sampler */
    uint32_t vocabulary_size;
    float *logits;         /* [vocabulary_size] after biases and penalties */
    candidate *candidates; /* [candidate_limit]                            */
    uint32_t candidate_limit;
    int32_t *window;       /* [penalty_window] ring of accepted tokens; NULL: no penalties */
    uint32_t window_count; /* filled                                                       */
    uint32_t window_next;  /* index of the next token, the oldest when full                */
    int32_t *seen;         /* [vocabulary_size] times in the window                        */
    uint64_t random;       /* state of splitmix64                                          */
};

void hearth_sampling_default_sized(hearth_sampling *out, size_t out_size)
{
    static const hearth_sampling defaults = {
        .temperature = 0.8f, .top_k = 40, .top_p = 0.95f, .min_p = 0.05f, .repeat_penalty = 1.0f, .penalty_window = 64};
    sized_write(out, out_size, &defaults, sizeof defaults);
}

/* ---- options */

/* Checks the ranges of all numbers; NaN fits none. */
static hearth_status check_numbers(const hearth_sampling *o, hearth_error *error)
{
    const struct {
        const char *name;
        float value, low, high;
        const char *expected;
    } rows[] = {
        {"temperature", o->temperature, 0.0f, FLT_MAX, "0 or more"},
        {"top_p", o->top_p, 0.0f, 1.0f, "0 to 1"},
        {"min_p", o->min_p, 0.0f, 1.0f, "0 to 1"},
        {"repeat_penalty", o->repeat_penalty, FLT_MIN, FLT_MAX, "more than 0"},
        {"presence_penalty", o->presence_penalty, -FLT_MAX, FLT_MAX, "a finite number"},
        {"frequency_penalty", o->frequency_penalty, -FLT_MAX, FLT_MAX, "a finite number"},
    };
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++)
        if (!(rows[i].value >= rows[i].low && rows[i].value <= rows[i].high))
            return fail(error, HEARTH_INVALID, "sampling: %s is %g, expected %s", rows[i].name, (double)rows[i].value,
                        rows[i].expected);
    if (o->penalty_window > WINDOW_MAX)
        return fail(error, HEARTH_INVALID, "sampling: penalty_window is %u, expected 0 to %u", o->penalty_window,
                    WINDOW_MAX);
    return HEARTH_OK;
}

static hearth_status check_biases(const hearth_sampling *o, uint32_t vocabulary_size, hearth_error *error)
{
    if (o->bias_count > 0 && !o->biases)
        return fail(error, HEARTH_INVALID, "sampling: biases is NULL, expected %zu", o->bias_count);
    for (size_t i = 0; i < o->bias_count; i++) {
        const hearth_logit_bias *bias = &o->biases[i];
        if (bias->token < 0 || (uint32_t)bias->token >= vocabulary_size)
            return fail(error, HEARTH_INVALID, "sampling: biases[%zu].token is %d, expected 0 to %u", i, bias->token,
                        vocabulary_size - 1);
        if (!(bias->bias <= FLT_MAX)) /* NaN as well */
            return fail(error, HEARTH_INVALID, "sampling: biases[%zu].bias is %g, expected a number or -inf", i,
                        (double)bias->bias);
    }
    return HEARTH_OK;
}

/* Returns whether any penalty has an effect. */
static bool has_penalties(const hearth_sampling *o)
{
    return o->penalty_window > 0 &&
           (o->repeat_penalty != 1.0f || o->presence_penalty != 0.0f || o->frequency_penalty != 0.0f);
}

/* Allocates everything that pick needs, and copies the biases. */
static hearth_status allocate(hearth_sampler *s, hearth_error *error)
{
    size_t n = s->vocabulary_size, biases = s->options.bias_count;
    hearth_logit_bias *copy = mem_new_array(biases, sizeof *copy);
    const hearth_logit_bias *given = s->options.biases;
    s->options.biases = copy;
    s->logits = mem_new_array(n, sizeof *s->logits);
    s->candidates = mem_new_array(s->candidate_limit, sizeof *s->candidates);
    bool complete = copy && s->logits && s->candidates;
    if (complete && has_penalties(&s->options)) {
        s->window = mem_new_array(s->options.penalty_window, sizeof *s->window);
        s->seen = mem_new_array(n, sizeof *s->seen);
        complete = s->window && s->seen;
    }
    if (!complete)
        return fail_memory(error, "sampler", n * (sizeof *s->logits + sizeof *s->seen));
    if (biases > 0)
        memcpy(copy, given, biases * sizeof *copy);
    return HEARTH_OK;
}

hearth_status hearth_sampler_create_sized(hearth_sampler **out, const hearth_sampling *given, size_t options_size,
                                          uint32_t vocabulary_size, hearth_error *error)
{
    hearth_sampling own = hearth_sampling_default(), *options = &own;
    if (given)
        TRY(sized_read(&own, sizeof own, given, options_size, "hearth_sampling", error));
    if (vocabulary_size == 0 || vocabulary_size > INT32_MAX)
        return fail(error, HEARTH_INVALID, "sampling: vocabulary_size is %u, expected 1 to %d", vocabulary_size,
                    INT32_MAX);
    TRY(check_numbers(options, error));
    TRY(check_biases(options, vocabulary_size, error));
    hearth_sampler *s = mem_new(sizeof *s);
    if (!s)
        return fail_memory(error, "sampler", sizeof *s);
    s->options = *options;
    s->vocabulary_size = vocabulary_size;
    s->candidate_limit = options->top_k > 0 && options->top_k < vocabulary_size ? options->top_k : vocabulary_size;
    s->random = options->seed;
    hearth_status status = allocate(s, error);
    if (status == HEARTH_OK)
        *out = s;
    else
        hearth_sampler_destroy(s);
    return status;
}

void hearth_sampler_destroy(hearth_sampler *sampler)
{
    if (!sampler)
        return;
    mem_free((void *)(uintptr_t)sampler->options.biases); /* const for users; create made a copy */
    mem_free(sampler->logits);
    mem_free(sampler->candidates);
    mem_free(sampler->window);
    mem_free(sampler->seen);
    mem_free(sampler);
}

uint32_t sampler_vocabulary(const hearth_sampler *sampler)
{
    return sampler->vocabulary_size;
}

/* ---- history */

void hearth_sampler_accept(hearth_sampler *sampler, int32_t token)
{
    hearth_sampler *s = sampler;
    if (!s->window || token < 0 || (uint32_t)token >= s->vocabulary_size)
        return;
    if (s->window_count == s->options.penalty_window)
        s->seen[s->window[s->window_next]]--;
    else
        s->window_count++;
    s->window[s->window_next] = token;
    s->seen[token]++;
    s->window_next = (s->window_next + 1) % s->options.penalty_window;
}

void hearth_sampler_reset(hearth_sampler *sampler)
{
    hearth_sampler *s = sampler;
    s->random = s->options.seed;
    for (uint32_t i = 0; i < s->window_count; i++)
        s->seen[s->window[i]] = 0;
    s->window_count = s->window_next = 0;
}

/* ---- biases and penalties */

/* Maps a computed logit to the range from -infinity to FLT_MAX; NaN becomes -infinity. */
static inline float tame(float logit)
{
    if (logit <= FLT_MAX)
        return logit;
    return logit > FLT_MAX ? FLT_MAX : -INFINITY;
}

static void add_biases(hearth_sampler *s)
{
    for (size_t i = 0; i < s->options.bias_count; i++) {
        const hearth_logit_bias *bias = &s->options.biases[i];
        s->logits[bias->token] = tame(s->logits[bias->token] + bias->bias);
    }
}

/* Applies the penalties once for each token in the window: a negative count in `seen` marks a token as done; the second
 * loop restores the signs. */
static void subtract_penalties(hearth_sampler *s)
{
    const hearth_sampling *o = &s->options;
    for (uint32_t i = 0; i < s->window_count; i++) {
        int32_t token = s->window[i];
        int32_t times = s->seen[token];
        if (times < 0)
            continue;
        float logit = s->logits[token];
        logit = logit > 0.0f ? logit / o->repeat_penalty : logit * o->repeat_penalty;
        s->logits[token] = tame(logit - o->presence_penalty - (float)times * o->frequency_penalty);
        s->seen[token] = -times;
    }
    for (uint32_t i = 0; i < s->window_count; i++) {
        int32_t *times = &s->seen[s->window[i]];
        *times = *times < 0 ? -*times : *times;
    }
}

/* Forbids the tokens whose bit is not set. */
static void forbid_others(hearth_sampler *s, const uint64_t *allowed)
{
    for (uint32_t i = 0; i < s->vocabulary_size; i++)
        if (!(allowed[i / 64] >> i % 64 & 1))
            s->logits[i] = -INFINITY;
}

/* Copies the logits, applies biases and penalties, and forbids what is not allowed (NULL: nothing). */
static void adjust(hearth_sampler *s, const float *logits, const uint64_t *allowed)
{
    for (uint32_t i = 0; i < s->vocabulary_size; i++)
        s->logits[i] = tame(logits[i]);
    add_biases(s);
    if (s->window)
        subtract_penalties(s);
    if (allowed)
        forbid_others(s, allowed);
}

/* Returns the lowest id with the largest logit; -1 if all are -infinity. */
static int32_t best_token(const float *logits, uint32_t n)
{
    int32_t best = -1;
    float top = -INFINITY;
    for (uint32_t i = 0; i < n; i++) {
        if (logits[i] > top) {
            top = logits[i];
            best = (int32_t)i;
        }
    }
    return best;
}

/* Returns the token for logits that allow none: the lowest id that is allowed and that no bias forbids; if all are
 * forbidden, the lowest that is allowed. */
static int32_t fallback(hearth_sampler *s, const uint64_t *allowed)
{
    memset(s->logits, 0, s->vocabulary_size * sizeof *s->logits);
    if (allowed)
        forbid_others(s, allowed);
    int32_t lowest = best_token(s->logits, s->vocabulary_size);
    for (size_t i = 0; i < s->options.bias_count; i++)
        if (s->options.biases[i].bias == -INFINITY)
            s->logits[s->options.biases[i].token] = -INFINITY;
    int32_t unbiased = best_token(s->logits, s->vocabulary_size);
    return unbiased < 0 ? lowest : unbiased;
}

/* ---- candidates */

/* Returns whether a comes before b: higher logit, or lower id if equal. */
static inline bool before(candidate a, candidate b)
{
    return a.logit > b.logit || (a.logit == b.logit && a.id < b.id);
}

/* Lets the candidate at `at` sink to its place in a heap whose root is the last in order. */
static void sink(candidate *c, size_t n, size_t at)
{
    candidate moving = c[at];
    for (;;) {
        size_t child = 2 * at + 1;
        if (child >= n)
            break;
        if (child + 1 < n && before(c[child], c[child + 1]))
            child++;
        if (!before(moving, c[child]))
            break;
        c[at] = c[child];
        at = child;
    }
    c[at] = moving;
}

static void make_heap(candidate *c, size_t n)
{
    for (size_t i = n / 2; i > 0; i--)
        sink(c, n, i - 1);
}

/* Selects the first `want` tokens in order (fewer if the rest is -infinity); returns how many. */
static size_t select_best(hearth_sampler *s, size_t want)
{
    candidate *c = s->candidates;
    size_t n = 0;
    for (uint32_t i = 0; i < s->vocabulary_size; i++) {
        float logit = s->logits[i];
        if (n == want) {
            if (logit > c[0].logit) { /* an equal one has a higher id than those in the heap */
                c[0] = (candidate){logit, (int32_t)i, 0.0};
                sink(c, n, 0);
            }
        } else if (logit > -INFINITY) {
            c[n++] = (candidate){logit, (int32_t)i, 0.0};
            if (n == want)
                make_heap(c, n);
        }
    }
    if (n < want)
        make_heap(c, n);
    for (size_t left = n; left > 1; left--) { /* heap sort: moves the last in order to the end */
        candidate last = c[0];
        c[0] = c[left - 1];
        c[left - 1] = last;
        sink(c, left - 1, 0);
    }
    return n;
}

/* Returns how many of n sorted candidates top-p and min-p leave. `total` is the sum of exp(logit - best) of all that
 * top-k lets through. min-p compares with the best candidate, so it may be applied in the same pass as top-p. */
static size_t cut(const hearth_sampler *s, size_t n, double total)
{
    const candidate *c = s->candidates;
    double sum = 0.0;
    for (size_t i = 0; i < n; i++) {
        double share = exp((double)c[i].logit - (double)c[0].logit);
        if (share < (double)s->options.min_p)
            return i;
        sum += share;
        if (s->options.top_p < 1.0f && sum >= (double)s->options.top_p * total)
            return i + 1;
    }
    return n;
}

/* Applies top-k, then top-p and min-p; returns how many candidates remain. */
static size_t cut_best(hearth_sampler *s)
{
    size_t n = select_best(s, s->candidate_limit);
    double total = 0.0;
    for (size_t i = 0; i < n; i++)
        total += exp((double)s->candidates[i].logit - (double)s->candidates[0].logit);
    return cut(s, n, total);
}

/* Applies top-p and min-p without top-k, sorting no more than the cut needs; returns how many candidates remain. */
static size_t cut_all(hearth_sampler *s, double best)
{
    double total = 0.0;
    for (uint32_t i = 0; i < s->vocabulary_size && s->options.top_p < 1.0f; i++)
        total += exp((double)s->logits[i] - best);
    size_t want = FIRST_TRY;
    for (;;) {
        want = want < s->candidate_limit ? want : s->candidate_limit;
        size_t n = select_best(s, want), kept = cut(s, n, total);
        if (kept < n || n < want || want == s->candidate_limit)
            return kept;
        want *= NEXT_TRY;
    }
}

/* Takes all tokens as candidates, unsorted, for options without a filter. */
static size_t take_all(hearth_sampler *s)
{
    size_t n = 0;
    for (uint32_t i = 0; i < s->vocabulary_size; i++)
        if (s->logits[i] > -INFINITY)
            s->candidates[n++] = (candidate){s->logits[i], (int32_t)i, 0.0};
    return n;
}

/* ---- drawing */

/* Returns 53 random bits as a number in [0, 1). */
static double draw_uniform(uint64_t *state)
{
    return (double)(random_next(state) >> 11) * 0x1p-53;
}

/* Draws one of n candidates. The best has weight 1, so the sum is at least 1. */
static int32_t draw(hearth_sampler *s, size_t n, float best)
{
    candidate *c = s->candidates;
    double temperature = (double)s->options.temperature, total = 0.0;
    for (size_t i = 0; i < n; i++) {
        c[i].weight = exp(((double)c[i].logit - (double)best) / temperature);
        total += c[i].weight;
    }
    double left = draw_uniform(&s->random) * total;
    size_t chosen = 0;
    for (size_t i = 0; i < n; i++) {
        if (c[i].weight <= 0.0)
            continue;
        chosen = i; /* if rounding leaves a remainder, the last candidate takes it */
        left -= c[i].weight;
        if (left < 0.0)
            break;
    }
    return c[chosen].id;
}

int32_t sampler_pick_among(hearth_sampler *sampler, const float *logits, const uint64_t *allowed)
{
    hearth_sampler *s = sampler;
    const hearth_sampling *o = &s->options;
    adjust(s, logits, allowed);
    int32_t best = best_token(s->logits, s->vocabulary_size);
    if (best < 0)
        return fallback(s, allowed);
    if (o->temperature == 0.0f)
        return best;
    float top = s->logits[best];
    size_t n;
    if (s->candidate_limit < s->vocabulary_size)
        n = cut_best(s);
    else if (o->top_p < 1.0f || o->min_p > 0.0f)
        n = cut_all(s, (double)top);
    else
        n = take_all(s);
    return draw(s, n, top);
}

int32_t hearth_sampler_pick(hearth_sampler *sampler, const float *logits)
{
    return sampler_pick_among(sampler, logits, NULL);
}

double hearth_log_probability(const float *logits, size_t vocabulary_size, int32_t token)
{
    if (token < 0 || (size_t)token >= vocabulary_size)
        return -INFINITY;
    float top = -INFINITY;
    for (size_t i = 0; i < vocabulary_size; i++) {
        float logit = tame(logits[i]);
        top = logit > top ? logit : top;
    }
    if (top == -INFINITY)
        return -INFINITY;
    double sum = 0.0;
    for (size_t i = 0; i < vocabulary_size; i++)
        sum += exp((double)tame(logits[i]) - (double)top);
    return (double)tame(logits[token]) - (double)top - log(sum);
}
