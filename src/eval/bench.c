/* bench.c - timed runs with the engines taking turns, each decoding between two bandwidth measurements.
 *
 * Three sections: what is read, one timed run, and rows from the results of the runs. */
#include "bench.h"

#include "../base/clock.h"
#include "../base/median.h"
#include "../base/memory.h"
#include "../base/random.h"
#include "../engine/engine.h"
#include "../kernel/bandwidth.h"
#include "floor.h"

#include <math.h>
#include <string.h>

/* The figures of one timed run; a row stores [repeats] of each. */
enum { PREFILL, DECODE, BANDWIDTH, SHARE, FLOOR, DEVICE_BYTES, SPEED, FIGURES };

/* The most runs per row that measure the overlap: each gives one sample per token and split layer. */
#define TRACED_RUNS 3

/* An engine under test. */
typedef struct lane {
    const hearth_engine *engine;
    hearth_session *session;
} lane;

/* How far apart the tokens of the sequences of a batch are. */
#define SEQUENCE_APART 7919

/* A prompt length and a number of sequences. */
typedef struct bench_case {
    uint32_t prompt_length, batch;
} bench_case;

/* The sums over the runs of one row. */
typedef struct tally {
    double *figures;            /* [FIGURES][repeats]                  */
    hearth_counts *counts;      /* [layers] of the decoded tokens       */
    double weight_bytes;        /* bytes of weights per decoded token, summed over the runs */
    uint64_t active, on_device; /* neurons of all layers, and of these the device's         */
    uint64_t found, missed;     /* as in hearth_recall              */
} tally;

typedef struct bencher {
    const bench_options *options;
    hearth_model_info info;
    bandwidth *memory;
    hearth_sampler *sampler;
    float *logits;     /* [largest batch][vocabulary_size]                       */
    hearth_row *rows;  /* [longest feed]                                         */
    bench_case *cases; /* [case_count] of every context                          */
    size_t case_count;
    uint32_t largest; /* batch                                                  */
    lane *lanes;      /* [lane_count]                                           */
    size_t lane_count;
    tally *tallies;                     /* [case_count][lane_count] of the current context */
    double *figures;                    /* pointed to by the tallies */
    hearth_counts *counts;              /* pointed to by the tallies */
    overlap overlap;                    /* of the current row */
    bool watching;                      /* a traced run is decoding: its spans count */
    double cpu_seconds, device_seconds; /* in the traced runs of the current row */
    uint64_t done;
} bencher;

/* ------------------------------------------------------------------ what is read */

/* Returns the greatest of some numbers. */
static size_t largest_of(const int32_t *numbers, size_t count)
{
    size_t largest = 0;
    for (size_t i = 0; i < count; i++)
        largest = (size_t)numbers[i] > largest ? (size_t)numbers[i] : largest;
    return largest;
}

/* Returns the positions of the longest row. */
static size_t positions(const bench_options *o)
{
    return largest_of(o->contexts, o->context_count) + largest_of(o->prompt_lengths, o->prompt_length_count) +
           o->decode_tokens;
}

hearth_status bench_check(const bench_options *o, const hearth_model_info *info, hearth_error *error)
{
    uint32_t limit = o->context ? o->context : info->context_length;
    if (positions(o) > limit)
        return fail(error, HEARTH_INVALID,
                    "%s: context: %zu tokens before, %zu of the prompt and %u after it are more than %s %u", info->path,
                    largest_of(o->contexts, o->context_count), largest_of(o->prompt_lengths, o->prompt_length_count),
                    o->decode_tokens, o->context ? "the" : "the model's", limit);
    return HEARTH_OK;
}

hearth_session_options bench_session(const bench_options *o)
{
    uint32_t batch = o->batches ? (uint32_t)largest_of(o->batches, o->batch_count) : 1;
    return (hearth_session_options){.context = o->context ? o->context : (uint32_t)positions(o),
                                    .sequences = batch,
                                    .output_rows = batch,
                                    .kv = o->kv};
}

/* Returns token number `at` of repetition `repeat`. Without ids: a fixed hash of the number, so that
 * neighbouring tokens differ and every run reads the same ones. */
static int32_t token_at(const bencher *b, uint32_t repeat, size_t at)
{
    const bench_options *o = b->options;
    if (o->ids)
        return o->ids[(at + (o->starts ? o->starts[repeat % o->start_count] : 0)) % o->id_count];
    return (int32_t)(random_at(0, at) % b->info.vocabulary_size);
}

/* Feeds `count` tokens of a repetition, from number `from` on; output: the last one's logits are wanted. */
static hearth_status feed(bencher *b, lane *l, uint32_t repeat, size_t from, size_t count, bool output,
                          hearth_error *error)
{
    for (size_t i = 0; i < count; i++)
        b->rows[i] = (hearth_row){token_at(b, repeat, from + i), 0, output && i + 1 == count};
    return hearth_session_feed(l->session, b->rows, count, error);
}

/* Reads the logits and chooses a token of each sequence greedily, which belongs to the timed work; the choice is not fed. */
static hearth_status choose(bencher *b, lane *l, uint32_t batch, hearth_error *error)
{
    TRY(hearth_session_logits(l->session, 0, batch, b->logits, error));
    for (uint32_t k = 0; k < batch; k++)
        hearth_sampler_pick(b->sampler, b->logits + (size_t)k * b->info.vocabulary_size);
    return HEARTH_OK;
}

/* Feeds the tokens after the first `from` one by one, one of every sequence in a step. */
static hearth_status decode(bencher *b, lane *l, uint32_t repeat, size_t from, uint32_t batch, hearth_error *error)
{
    for (uint32_t i = 0; i < b->options->decode_tokens; i++) {
        for (uint32_t k = 0; k < batch; k++)
            b->rows[k] = (hearth_row){token_at(b, repeat, from + i + (size_t)k * SEQUENCE_APART), k, true};
        TRY(hearth_session_feed(l->session, b->rows, batch, error));
        TRY(choose(b, l, batch, error));
    }
    return HEARTH_OK;
}

/* Makes the further sequences of a batch, after the first one has read its prompt. */
static hearth_status fork_sequences(lane *l, uint32_t batch, hearth_error *error)
{
    for (uint32_t k = 1; k < batch; k++)
        TRY(hearth_session_fork(l->session, 0, k, error));
    return HEARTH_OK;
}

/* Returns the mean number of cached positions that a decoded token reads: its own and all before it. */
static double mean_positions(const bencher *b, uint32_t context, uint32_t prompt_length)
{
    return context + prompt_length + (b->options->decode_tokens + 1) / 2.0;
}

/* Returns the mean bytes of keys, values and recurrent states that a decoded token reads. */
static double mean_kv_bytes(const bencher *b, uint32_t context, uint32_t prompt_length)
{
    const hearth_engine *e = b->lanes[0].engine;
    double positions = mean_positions(b, context, prompt_length);
    return engine_side_reads_kept(e, b->options->kv, positions, false) +
           engine_side_reads_kept(e, b->options->kv, positions, true);
}

/* ------------------------------------------------------------------ one timed run */

/* Returns the bytes of weights that a token reads; of several sequences at most: each by itself, or all rows once. */
static double weight_bytes(const lane *l, uint32_t batch)
{
    double alone = hearth_session_token_bytes(l->session);
    return batch == 1 ? alone : fmin(alone, (double)hearth_engine_token_bytes(l->engine) / batch);
}

/* Computes what memory could do, of a run whose counts the session has. */
static void add_floor(const bencher *b, const lane *l, const bench_case *c, uint32_t context, double figures[FIGURES])
{
    floor_question question = {
        .engine = l->engine,
        .counts = l->session->counts,
        .device_counts = l->session->device_counts,
        .scale = weight_bytes(l, c->batch) / hearth_session_token_bytes(l->session),
        .positions = mean_positions(b, context, c->prompt_length),
        .kv = b->options->kv,
        .cpu_rate = figures[BANDWIDTH],
        .device_rate = b->options->device_bandwidth,
    };
    floor_answer answer = floor_find(&question);
    figures[FLOOR] = 1 / answer.seconds;
    figures[SHARE] = figures[DECODE] * answer.seconds;
    figures[DEVICE_BYTES] = answer.device_bytes;
}

/* Returns what predictors that hold a recall have found and missed in all layers, since the session was created. */
static hearth_status count_recall(const bencher *b, const lane *l, hearth_recall *out, hearth_error *error)
{
    *out = (hearth_recall){0};
    for (uint32_t i = 0; i < b->info.layer_count; i++) {
        hearth_recall r;
        TRY(hearth_session_recall(l->session, i, &r, error));
        out->found += r.found;
        out->missed += r.missed;
    }
    return HEARTH_OK;
}

/* Adds what the session counted since its counts were last reset. */
static hearth_status add_counts(const bencher *b, const lane *l, uint32_t batch, tally *t, hearth_error *error)
{
    t->weight_bytes += weight_bytes(l, batch);
    for (uint32_t i = 0; i < b->info.layer_count; i++) {
        hearth_counts c;
        TRY(hearth_session_counts(l->session, i, &c, error));
        t->counts[i].rows += c.rows;
        t->counts[i].computed += c.computed;
        t->counts[i].fired += c.fired;
        t->counts[i].active += c.active;
        t->active += c.active;
        t->on_device += l->session->device_counts[i].active;
    }
    return HEARTH_OK;
}

static hearth_status time_run(bencher *b, lane *l, tally *t, uint32_t repeat, uint32_t context, bench_case c,
                              hearth_error *error)
{
    double figures[FIGURES] = {0};
    uint32_t prompt_length = c.prompt_length;
    hearth_recall begun, ended;
    TRY(hearth_session_truncate(l->session, 0, context, error));
    double start = clock_seconds();
    TRY(feed(b, l, repeat, context, prompt_length, true, error));
    TRY(choose(b, l, 1, error));
    figures[PREFILL] = prompt_length / (clock_seconds() - start);

    TRY(fork_sequences(l, c.batch, error));
    hearth_session_reset_counts(l->session);
    TRY(count_recall(b, l, &begun, error));
    double before = bandwidth_measure(b->memory);
    start = clock_seconds();
    TRY(decode(b, l, repeat, (size_t)context + prompt_length, c.batch, error));
    figures[DECODE] = (double)c.batch * b->options->decode_tokens / (clock_seconds() - start);
    figures[BANDWIDTH] = (before + bandwidth_measure(b->memory)) / 2;
    add_floor(b, l, &c, context, figures);
    for (size_t i = 0; i < FIGURES; i++)
        t->figures[i * b->options->repeats + repeat] = figures[i];
    TRY(count_recall(b, l, &ended, error));
    t->found += ended.found - begun.found;
    t->missed += ended.missed - begun.missed;
    return add_counts(b, l, c.batch, t, error);
}

static uint32_t traced_runs(const bencher *b)
{
    uint32_t most = b->options->repeats < TRACED_RUNS ? b->options->repeats : TRACED_RUNS;
    return b->options->traced ? most : 0;
}

/* Reports the runs done so far; also called from within a feed, where only cancelling matters. */
static bool report(void *user, const char *what, uint64_t done, uint64_t total)
{
    (void)what, (void)done, (void)total;
    bencher *b = user;
    const bench_options *o = b->options;
    uint64_t runs = (uint64_t)o->context_count * b->case_count * (o->repeats + traced_runs(b)) * b->lane_count;
    return !o->progress.report || o->progress.report(o->progress.user, "benchmark", b->done, runs);
}

/* Runs all cases and engines once. */
static hearth_status time_round(bencher *b, uint32_t repeat, uint32_t context, hearth_error *error)
{
    const bench_options *o = b->options;
    for (size_t p = 0; p < b->case_count; p++) {
        tally *round = b->tallies + p * b->lane_count;
        for (size_t i = 0; i < b->lane_count; i++, b->done++)
            TRY(time_run(b, &b->lanes[i], &round[i], repeat, context, b->cases[p], error));
        double first = round[0].figures[DECODE * o->repeats + repeat];
        for (size_t i = 0; i < b->lane_count; i++)
            round[i].figures[SPEED * o->repeats + repeat] = round[i].figures[DECODE * o->repeats + repeat] / first;
    }
    return HEARTH_OK;
}

/* ------------------------------------------------------------------ rows */

/* Empties the tallies and points each to its range of the common blocks. */
static void clear_tallies(bencher *b)
{
    uint32_t layers = b->info.layer_count;
    for (size_t i = 0; i < b->case_count * b->lane_count; i++) {
        b->tallies[i] =
            (tally){.figures = b->figures + i * FIGURES * b->options->repeats, .counts = b->counts + i * layers};
        for (uint32_t layer = 0; layer < layers; layer++)
            b->tallies[i].counts[layer] = (hearth_counts){0};
    }
}

static void make_layers(const bencher *b, const tally *t, bench_layer *layers, bench_row *row)
{
    uint32_t count = b->info.layer_count;
    const model_layer *of = hearth_engine_model(b->lanes[0].engine)->layers;
    uint32_t networks = model_networks(hearth_engine_model(b->lanes[0].engine));
    row->density = row->let_through = 0;
    row->layers = layers;
    for (uint32_t i = 0; i < count; i++) {
        const hearth_counts *c = &t->counts[i];
        double neurons = (double)c->rows * of[i].ffn.neuron_count;
        if (of[i].ffn.neuron_count == 0) {
            layers[i] = (bench_layer){NAN, NAN, NAN};
            continue;
        }
        layers[i] =
            (bench_layer){(double)c->computed / neurons, (double)c->fired / neurons, (double)c->active / neurons};
        row->density += layers[i].active;
        row->let_through += layers[i].computed;
    }
    if (networks > 0) {
        row->density /= networks;
        row->let_through /= networks;
    } else {
        row->density = row->let_through = 1; /* nothing was left out */
    }
}

static void make_row(const bencher *b, const lane *l, const tally *t, bench_layer *layers, bench_row *row)
{
    uint32_t repeats = b->options->repeats;
    double kv = mean_kv_bytes(b, row->context, row->prompt_length);
    row->mode = hearth_mode_name(hearth_engine_mode(l->engine));
    row->guarantee = hearth_guarantee_name(hearth_engine_guarantee(l->engine));
    row->prefill_tokens_per_second = median(t->figures + PREFILL * repeats, repeats);
    row->decode_tokens_per_second = median(t->figures + DECODE * repeats, repeats);
    row->read_bandwidth = median(t->figures + BANDWIDTH * repeats, repeats);
    row->share_of_bandwidth = median(t->figures + SHARE * repeats, repeats);
    row->floor_tokens_per_second = median(t->figures + FLOOR * repeats, repeats);
    row->device_bytes_per_token = median(t->figures + DEVICE_BYTES * repeats, repeats);
    row->relative_speed = median(t->figures + SPEED * repeats, repeats);
    row->bytes_per_token = t->weight_bytes / repeats + kv;
    row->kv_bytes_per_token = kv;
    row->on_device = t->active > 0 ? (double)t->on_device / (double)t->active : 0;
    row->recall = t->found + t->missed > 0 ? (double)t->found / (double)(t->found + t->missed) : (double)NAN;
    make_layers(b, t, layers, row);
}

/* Measures all cases and engines at one context. Each session reads the context once and is truncated to it
 * before every run. */
static hearth_status bench_context(bencher *b, uint32_t context, bench_row *rows, bench_layer *layers,
                                   hearth_error *error)
{
    const bench_options *o = b->options;
    clear_tallies(b);
    for (size_t i = 0; i < b->lane_count; i++) {
        TRY(hearth_session_truncate(b->lanes[i].session, 0, 0, error));
        if (context > 0)
            TRY(feed(b, &b->lanes[i], 0, 0, context, false, error));
    }
    for (uint32_t repeat = 0; repeat < o->repeats; repeat++)
        TRY(time_round(b, repeat, context, error));
    for (size_t i = 0; i < b->case_count * b->lane_count; i++) {
        rows[i].context = context;
        rows[i].prompt_length = b->cases[i / b->lane_count].prompt_length;
        rows[i].batch = b->cases[i / b->lane_count].batch;
        make_row(b, &b->lanes[i % b->lane_count], &b->tallies[i], layers + i * b->info.layer_count, &rows[i]);
    }
    return HEARTH_OK;
}

/* ------------------------------------------------------------------ overlap */

/* Adds a span to what its side was busy with: sides do nothing in a "wait" or before a "join". */
static void add_busy(bencher *b, const hearth_span *seen)
{
    double seconds = seen->end - seen->begin;
    if (strcmp(seen->what, "wait") == 0 || strcmp(seen->what, "join") == 0)
        return;
    if (strcmp(seen->side, "cpu") == 0)
        b->cpu_seconds += seconds;
    else if (strcmp(seen->side, "bus") != 0)
        b->device_seconds += seconds;
}

/* Passes a span on while a traced run is decoding. */
static void see_span(void *user, const hearth_span *seen)
{
    bencher *b = user;
    if (!b->watching)
        return;
    add_busy(b, seen);
    overlap_see(&b->overlap, seen);
    if (b->options->tracer.see)
        b->options->tracer.see(b->options->tracer.user, seen);
}

/* Collects the samples of one row. Prompts are not traced: they divide the work differently. */
static hearth_status trace_row(bencher *b, lane *l, bench_row *row, hearth_error *error)
{
    overlap_clear(&b->overlap);
    b->cpu_seconds = b->device_seconds = 0;
    for (uint32_t run = 0; run < traced_runs(b); run++, b->done++) {
        TRY(hearth_session_truncate(l->session, 0, row->context, error));
        TRY(feed(b, l, run, row->context, row->prompt_length, true, error));
        TRY(fork_sequences(l, row->batch, error));
        b->watching = true;
        hearth_status status = decode(b, l, run, (size_t)row->context + row->prompt_length, row->batch, error);
        b->watching = false;
        TRY(status);
    }
    row->cpu_seconds = b->cpu_seconds / ((double)traced_runs(b) * b->options->decode_tokens);
    row->device_seconds = b->device_seconds / ((double)traced_runs(b) * b->options->decode_tokens);
    return overlap_conclude(&b->overlap, &row->overlap, error);
}

/* Traces all rows of an engine, in a session with a tracer. */
static hearth_status trace_lane(bencher *b, size_t index, const hearth_session_options *session, bench_row *rows,
                                hearth_error *error)
{
    const bench_options *o = b->options;
    lane *l = &b->lanes[index];
    hearth_session_destroy(l->session); /* the device may not have room for both */
    l->session = NULL;
    TRY(hearth_session_create(&l->session, l->engine, session, error));
    for (size_t i = 0; i < o->context_count * b->case_count; i++) {
        bench_row *row = &rows[i * b->lane_count + index];
        if (i % b->case_count == 0) {
            TRY(hearth_session_truncate(l->session, 0, 0, error));
            if (row->context > 0)
                TRY(feed(b, l, 0, 0, row->context, false, error));
        }
        TRY(trace_row(b, l, row, error));
    }
    return HEARTH_OK;
}

static hearth_session_options reporting_session(bencher *b)
{
    hearth_session_options session = bench_session(b->options);
    session.progress = (hearth_progress){report, b};
    return session;
}

/* Adds the overlap to rows (of all contexts) that are otherwise complete. */
static hearth_status trace_all(bencher *b, bench_row *rows, hearth_error *error)
{
    hearth_session_options session = reporting_session(b);
    session.tracer = (hearth_tracer){see_span, b};
    size_t tokens = (size_t)b->options->decode_tokens * traced_runs(b);
    TRY(overlap_open(&b->overlap, b->info.layer_count, tokens * b->info.layer_count, error));
    for (size_t i = 0; i < b->lane_count; i++)
        TRY(trace_lane(b, i, &session, rows, error));
    return HEARTH_OK;
}

/* ------------------------------------------------------------------ all of it */

/* Returns the longest feed that the rows need. */
static size_t longest_feed(const bencher *b)
{
    const bench_options *o = b->options;
    size_t prompt = largest_of(o->prompt_lengths, o->prompt_length_count);
    size_t before = largest_of(o->contexts, o->context_count);
    size_t longest = before > prompt ? before : prompt;
    return b->largest > longest ? b->largest : longest;
}

static hearth_status take_memory(bencher *b, size_t longest, hearth_error *error)
{
    const bench_options *o = b->options;
    size_t tallies = b->case_count * b->lane_count;
    b->logits = mem_new_array(b->info.vocabulary_size, b->largest * sizeof *b->logits);
    b->rows = mem_new_array(longest, sizeof *b->rows);
    b->tallies = mem_new_array(tallies, sizeof *b->tallies);
    b->figures = mem_new_array(tallies * FIGURES, o->repeats * sizeof *b->figures);
    b->counts = mem_new_array(tallies * b->info.layer_count, sizeof *b->counts);
    if (!b->logits || !b->rows || !b->tallies || !b->figures || !b->counts)
        return fail_memory(error, "benchmark", longest * sizeof *b->rows);
    return HEARTH_OK;
}

/* Creates a session for each engine and decodes once, so that everything is in memory before anything is timed. */
static hearth_status prepare_lanes(bencher *b, const hearth_engine *const *engines, hearth_error *error)
{
    hearth_session_options session = reporting_session(b);
    for (size_t i = 0; i < b->lane_count; i++) {
        b->lanes[i].engine = engines[i];
        TRY(hearth_session_create(&b->lanes[i].session, engines[i], &session, error));
        TRY(decode(b, &b->lanes[i], 0, 0, 1, error));
    }
    return HEARTH_OK;
}

/* Lists every prompt length with every batch. */
static hearth_status take_cases(bencher *b, hearth_error *error)
{
    static const int32_t alone = 1;
    const bench_options *o = b->options;
    const int32_t *batches = o->batches ? o->batches : &alone;
    size_t count = o->batches ? o->batch_count : 1;
    b->case_count = o->prompt_length_count * count;
    b->cases = mem_new_array(b->case_count, sizeof *b->cases);
    if (!b->cases)
        return fail_memory(error, "benchmark", b->case_count * sizeof *b->cases);
    for (size_t i = 0; i < b->case_count; i++) {
        b->cases[i] = (bench_case){(uint32_t)o->prompt_lengths[i / count], (uint32_t)batches[i % count]};
        b->largest = b->cases[i].batch > b->largest ? b->cases[i].batch : b->largest;
    }
    return HEARTH_OK;
}

static hearth_status prepare(bencher *b, const hearth_engine *const *engines, unsigned threads, const char *cpu_level,
                             hearth_error *error)
{
    hearth_sampling greedy = hearth_sampling_default();
    greedy.temperature = 0;
    TRY(bench_check(b->options, &b->info, error));
    TRY(take_memory(b, longest_feed(b), error));
    TRY(hearth_sampler_create(&b->sampler, &greedy, b->info.vocabulary_size, error));
    TRY(bandwidth_create(&b->memory, threads, cpu_level, error));
    return prepare_lanes(b, engines, error);
}

static hearth_status take_result(const bencher *b, bench_result *out, hearth_error *error)
{
    out->count = b->options->context_count * b->case_count * b->lane_count;
    out->layer_count = b->info.layer_count;
    out->rows = mem_new_array(out->count, sizeof *out->rows);
    out->layers = mem_new_array(out->count, out->layer_count * sizeof *out->layers);
    return out->rows && out->layers ? HEARTH_OK : fail_memory(error, "benchmark", out->count * sizeof *out->rows);
}

static void clean_up(bencher *b)
{
    for (size_t i = 0; b->lanes && i < b->lane_count; i++)
        hearth_session_destroy(b->lanes[i].session);
    overlap_close(&b->overlap);
    bandwidth_destroy(b->memory);
    hearth_sampler_destroy(b->sampler);
    mem_free(b->lanes);
    mem_free(b->cases);
    mem_free(b->logits);
    mem_free(b->rows);
    mem_free(b->tallies);
    mem_free(b->figures);
    mem_free(b->counts);
}

hearth_status bench_run(bench_result *out, const hearth_engine *const *engines, size_t engine_count, unsigned threads,
                        const char *cpu_level, const bench_options *options, hearth_error *error)
{
    bencher b = {.options = options, .lanes = mem_new_array(engine_count, sizeof(lane)), .lane_count = engine_count};
    if (!b.lanes)
        return fail_memory(error, "benchmark", engine_count * sizeof(lane));
    hearth_model_describe(hearth_engine_model(engines[0]), &b.info);
    bench_result result = {0};
    hearth_status status = take_cases(&b, error);
    if (status == HEARTH_OK)
        status = take_result(&b, &result, error);
    if (status == HEARTH_OK)
        status = prepare(&b, engines, threads, cpu_level, error);
    size_t rows = b.case_count * engine_count;
    for (size_t i = 0; status == HEARTH_OK && i < options->context_count; i++)
        status = bench_context(&b, (uint32_t)options->contexts[i], result.rows + i * rows,
                               result.layers + i * rows * result.layer_count, error);
    if (status == HEARTH_OK && options->traced)
        status = trace_all(&b, result.rows, error);
    clean_up(&b);
    if (status == HEARTH_OK)
        *out = result;
    else
        bench_result_free(&result);
    return status;
}

void bench_result_free(bench_result *result)
{
    mem_free(result->rows);
    mem_free(result->layers);
    *result = (bench_result){0};
}
