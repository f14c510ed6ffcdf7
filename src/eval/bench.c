/* bench.c - timed runs, alternating, between two looks at the memory. */
#include "bench.h"

#include "../base/clock.h"
#include "../base/memory.h"
#include "bandwidth.h"

#include <stdlib.h>

/* The figures of one timed run; a row keeps [repeats] of each. */
enum { PREFILL, DECODE, BANDWIDTH, SHARE, FIGURES };

typedef struct bencher {
    const bench_options *options;
    hearth_model_info info;
    bandwidth *memory;
    hearth_session *session;
    hearth_sampler *sampler;
    float *logits;    /* [vocabulary_size]                 */
    hearth_row *rows; /* [longest feed]                    */
    double *figures;  /* [prompt lengths][FIGURES][repeats] of the context at hand */
    uint64_t weight_bytes;
    uint64_t done;
} bencher;

static int ascending(const void *a, const void *b)
{
    double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

double bench_median(double *values, size_t count)
{
    qsort(values, count, sizeof *values, ascending);
    return count % 2 ? values[count / 2] : (values[count / 2 - 1] + values[count / 2]) / 2;
}

/* ------------------------------------------------------------------ what is read */

/* Token number `at` of repetition `repeat`. Without ids: a fixed scramble (splitmix64's) of the number, so that
 * neighbours differ and every run reads the same. */
static int32_t token_at(const bencher *b, uint32_t repeat, size_t at)
{
    const bench_options *o = b->options;
    if (o->ids)
        return o->ids[(at + (o->starts ? o->starts[repeat % o->start_count] : 0)) % o->id_count];
    uint64_t x = (at + 1) * 0x9e3779b97f4a7c15u;
    x = (x ^ (x >> 30)) * 0xbf58476d1ce4e5b9u;
    x = (x ^ (x >> 27)) * 0x94d049bb133111ebu;
    return (int32_t)((x ^ (x >> 31)) % b->info.vocabulary_size);
}

static hearth_status feed(bencher *b, uint32_t repeat, size_t from, size_t count, bool output, hearth_error *error)
{
    for (size_t i = 0; i < count; i++)
        b->rows[i] = (hearth_row){token_at(b, repeat, from + i), 0, output && i + 1 == count};
    return hearth_session_feed(b->session, b->rows, count, error);
}

static hearth_status choose(bencher *b, hearth_error *error)
{
    TRY(hearth_session_logits(b->session, 0, 1, b->logits, error));
    hearth_sampler_pick(b->sampler, b->logits);
    return HEARTH_OK;
}

/* ------------------------------------------------------------------ one timed run */

/* Mean bytes of the cache that a decoded token reads: its own position and all before it. */
static double kv_bytes(const bencher *b, uint32_t context, uint32_t prompt_length)
{
    double width = b->options->kv == HEARTH_KV_F32 ? sizeof(float) : sizeof(uint16_t);
    double position = 2.0 * b->info.layer_count * b->info.kv_head_count * b->info.head_length * width;
    return position * (context + prompt_length + (b->options->decode_tokens + 1) / 2.0);
}

static hearth_status time_run(bencher *b, uint32_t repeat, uint32_t context, uint32_t prompt_length,
                              double figures[FIGURES], hearth_error *error)
{
    uint32_t n = b->options->decode_tokens;
    TRY(hearth_session_truncate(b->session, 0, context, error));
    double start = clock_seconds();
    TRY(feed(b, repeat, context, prompt_length, true, error));
    TRY(choose(b, error));
    figures[PREFILL] = prompt_length / (clock_seconds() - start);

    double before = bandwidth_measure(b->memory);
    start = clock_seconds();
    for (uint32_t i = 0; i < n; i++) {
        TRY(feed(b, repeat, (size_t)context + prompt_length + i, 1, true, error));
        TRY(choose(b, error));
    }
    figures[DECODE] = n / (clock_seconds() - start);
    figures[BANDWIDTH] = (before + bandwidth_measure(b->memory)) / 2;
    double bytes = (double)b->weight_bytes + kv_bytes(b, context, prompt_length);
    figures[SHARE] = bytes * figures[DECODE] / figures[BANDWIDTH];
    return HEARTH_OK;
}

/* Timed runs done so far; also from within a feed, where only cancelling matters. */
static bool report(void *user, const char *what, uint64_t done, uint64_t total)
{
    (void)what, (void)done, (void)total;
    bencher *b = user;
    const bench_options *o = b->options;
    uint64_t runs = (uint64_t)o->context_count * o->prompt_length_count * o->repeats;
    return !o->progress.report || o->progress.report(o->progress.user, "benchmark", b->done, runs);
}

/* All prompt lengths at one context: read once, cut back before every run. Runs alternate, so that a
 * neighbour of the machine disturbs all rows alike. */
static hearth_status bench_context(bencher *b, uint32_t context, bench_row *rows, hearth_error *error)
{
    const bench_options *o = b->options;
    TRY(hearth_session_truncate(b->session, 0, 0, error));
    if (context > 0)
        TRY(feed(b, 0, 0, context, false, error));
    for (uint32_t repeat = 0; repeat < o->repeats; repeat++)
        for (size_t p = 0; p < o->prompt_length_count; p++) {
            double figures[FIGURES];
            TRY(time_run(b, repeat, context, (uint32_t)o->prompt_lengths[p], figures, error));
            b->done++;
            for (size_t i = 0; i < FIGURES; i++)
                b->figures[(p * FIGURES + i) * o->repeats + repeat] = figures[i];
        }
    for (size_t p = 0; p < o->prompt_length_count; p++) {
        double median[FIGURES];
        for (size_t i = 0; i < FIGURES; i++)
            median[i] = bench_median(b->figures + (p * FIGURES + i) * o->repeats, o->repeats);
        uint32_t length = (uint32_t)o->prompt_lengths[p];
        double kv = kv_bytes(b, context, length);
        rows[p] = (bench_row){length,
                              context,
                              median[PREFILL],
                              median[DECODE],
                              median[BANDWIDTH],
                              (double)b->weight_bytes + kv,
                              kv,
                              median[SHARE],
                              1};
    }
    return HEARTH_OK;
}

/* ------------------------------------------------------------------ all of it */

/* The session's context, and the longest feed that the rows ask for. */
static hearth_status measure_need(const bencher *b, size_t *context, size_t *longest, hearth_error *error)
{
    const bench_options *o = b->options;
    size_t prompt = 0, before = 0;
    for (size_t i = 0; i < o->prompt_length_count; i++)
        prompt = (size_t)o->prompt_lengths[i] > prompt ? (size_t)o->prompt_lengths[i] : prompt;
    for (size_t i = 0; i < o->context_count; i++)
        before = (size_t)o->contexts[i] > before ? (size_t)o->contexts[i] : before;
    size_t need = before + prompt + o->decode_tokens;
    *longest = before > prompt ? before : prompt;
    *context = o->context ? o->context : need;
    uint32_t limit = o->context ? o->context : b->info.context_length;
    if (need > limit)
        return fail(error, HEARTH_INVALID,
                    "%s: context: %zu tokens before, %zu of the prompt and %u after it are more than %s %u",
                    b->info.path, before, prompt, o->decode_tokens, o->context ? "the" : "the model's", limit);
    return HEARTH_OK;
}

static hearth_status prepare(bencher *b, const hearth_engine *engine, unsigned threads, const char *cpu_level,
                             hearth_error *error)
{
    const bench_options *o = b->options;
    size_t context, longest, vocabulary = b->info.vocabulary_size;
    TRY(measure_need(b, &context, &longest, error));
    hearth_session_options session = {.context = (uint32_t)context, .kv = o->kv, .progress = {report, b}};
    hearth_sampling greedy = hearth_sampling_default();
    greedy.temperature = 0;
    TRY(hearth_session_create(&b->session, engine, &session, error));
    TRY(hearth_sampler_create(&b->sampler, &greedy, b->info.vocabulary_size, error));
    TRY(bandwidth_create(&b->memory, threads, cpu_level, error));
    b->weight_bytes = hearth_engine_token_bytes(engine);
    b->logits = mem_new_array(vocabulary, sizeof *b->logits);
    b->rows = mem_new_array(longest, sizeof *b->rows);
    b->figures = mem_new_array(o->prompt_length_count * FIGURES, o->repeats * sizeof *b->figures);
    if (!b->logits || !b->rows || !b->figures)
        return fail_memory(error, "benchmark", longest * sizeof *b->rows);
    /* Once before anything is timed: brings the weights into memory. */
    return feed(b, 0, 0, 1, true, error);
}

hearth_status bench_run(bench_row *rows, const hearth_engine *engine, unsigned threads, const char *cpu_level,
                        const bench_options *options, hearth_error *error)
{
    bencher b = {.options = options};
    hearth_model_describe(hearth_engine_model(engine), &b.info);
    hearth_status status = prepare(&b, engine, threads, cpu_level, error);
    for (size_t i = 0; status == HEARTH_OK && i < options->context_count; i++)
        status = bench_context(&b, (uint32_t)options->contexts[i], rows + i * options->prompt_length_count, error);
    bandwidth_destroy(b.memory);
    hearth_sampler_destroy(b.sampler);
    hearth_session_destroy(b.session);
    mem_free(b.logits);
    mem_free(b.rows);
    mem_free(b.figures);
    return status;
}
