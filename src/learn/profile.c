/* profile.c - reads a corpus window by window while an observer counts; stores the counters and resumes from them. Also
 * tests the hot neurons alone. */
#include "profile.h"

#include "../base/clock.h"
#include "../base/file.h"
#include "../base/memory.h"
#include "../engine/placement.h"
#include "counts.h"
#include "loss.h"
#include "work.h"

#include <assert.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* Counters are saved this often: the most work that a crash may lose. */
#define SAVE_SECONDS 5.0
/* A window that ends within this time after a request to stop is still counted. */
#define PATIENCE_SECONDS 0.5
/* Magnitudes are counted one by one, which is slow: for about this many tokens of a longer corpus. */
#define MEASURED_TOKENS 16384
/* Tokens that are read in advance to find what a large activation
 * is, where none is zero; and the share that counts as large. */
#define PILOT_TOKENS 1024
#define LARGE_SHARE  0.25

const double profile_probe_shares[PROFILE_PROBES] = {0.2, 0.4, 0.6};

/* State of one profile_take. */
typedef struct taking {
    profile *out;
    const hearth_model *model;
    const hearth_engine *engine;
    const corpus *texts;
    const profile_options *options;
    hearth_error *error;
    hearth_session *session;
    hearth_row *rows; /* [longest window] */
    size_t longest;
    tallies counters;
    counts_state state;
    uint64_t window_token; /* number of the current window's first token        */
    uint64_t measured_of;  /* magnitudes of one in this many tokens are counted */
    double last_saved, began;
    double stop_asked;    /* time of the request to stop; 0: none */
    bool piloting, blind; /* blind: an observation had no gates   */
} taking;

/* ------------------------------------------------------------------ observing */

/* Returns whether the magnitudes of a token are counted. Drawn by the token's number, so that every run draws the same
 * and no place in the windows is favoured. */
static bool is_measured(const taking *t, uint64_t token)
{
    return t->measured_of == 1 || (token * 0x9e3779b97f4a7c15ull >> 32) % t->measured_of == 0;
}

/* Observer: counts one layer of one token. */
static void see(void *user, const hearth_observation *seen)
{
    taking *t = user;
    uint64_t token = t->window_token + seen->position;
    if (!seen->gates || seen->neuron_count != t->out->layers[seen->layer].neuron_count) {
        t->blind = true;
        return;
    }
    if (t->piloting) {
        tally_measure(&t->counters.layers[seen->layer], seen->activations, seen->neuron_count);
        return;
    }
    bool measured = is_measured(t, token);
    tally_see(&t->counters.layers[seen->layer], seen, measured);
    t->state.measured += measured && seen->layer == model_first_network(t->model);
    if (t->options->states && states_writer_wants(t->options->states, token))
        states_writer_add(t->options->states, token, seen);
    if (t->options->together)
        together_see(t->options->together, seen, token);
}

/* ------------------------------------------------------------------ stopping */

/* Reports progress; returns false on a request to stop. Tokens of earlier runs are left out, so that the estimate of
 * the remaining time is right. */
static bool report(taking *t, uint64_t tokens)
{
    const hearth_progress *p = &t->options->progress;
    uint64_t before = t->out->resumed_tokens;
    if (!p->report || p->report(p->user, "profiling", tokens - before, t->texts->id_count - before))
        return true;
    if (t->stop_asked == 0)
        t->stop_asked = clock_seconds();
    return false;
}

/* Reports progress from within a feed. A window that ends within
 * PATIENCE_SECONDS is finished, so that none of it is lost. */
static bool report_within(void *user, const char *what, uint64_t done, uint64_t total)
{
    (void)what, (void)total;
    taking *t = user;
    uint64_t before = t->piloting ? t->out->resumed_tokens : t->state.tokens;
    return report(t, before + (t->piloting ? 0 : done)) || clock_seconds() - t->stop_asked < PATIENCE_SECONDS;
}

static hearth_status fail_cancelled(const taking *t)
{
    return fail(t->error, HEARTH_CANCELLED, "%s: profile: cancelled after %llu of %zu tokens", t->model->source->path,
                (unsigned long long)t->state.tokens, t->texts->id_count);
}

/* ------------------------------------------------------------------ reading */

/* Feeds one window from position 0. */
static hearth_status read_window(taking *t, size_t window)
{
    size_t begin = t->texts->starts[window], count = t->texts->starts[window + 1] - begin;
    for (size_t i = 0; i < count; i++)
        t->rows[i] = (hearth_row){.token = t->texts->ids[begin + i]};
    t->window_token = begin;
    TRY(hearth_session_truncate(t->session, 0, 0, t->error));
    TRY(hearth_session_feed(t->session, t->rows, count, t->error));
    return t->blind ? fail(t->error, HEARTH_INVALID, "profile: every neuron has to be computed on the CPU") : HEARTH_OK;
}

/* Saves hidden states, then counters: the counters never cover more tokens than the states. */
static hearth_status save(taking *t)
{
    double now = clock_seconds();
    t->state.seconds += now - t->began;
    t->began = now;
    if (t->options->states)
        TRY(states_writer_flush(t->options->states, t->state.tokens, t->error));
    if (t->options->folder)
        TRY(counts_save(t->options->folder, &t->state, &t->counters, t->error));
    t->last_saved = clock_seconds();
    return HEARTH_OK;
}

/* Finds what a large activation is in each layer, for activations without zeros, and sets `above`. */
static hearth_status pilot(taking *t)
{
    t->piloting = true;
    for (size_t w = 0; w < t->texts->window_count && t->texts->starts[w] < PILOT_TOKENS; w++) {
        TRY(read_window(t, w));
        if (t->stop_asked > 0)
            return fail_cancelled(t);
    }
    t->piloting = false;
    for (uint32_t i = 0; i < t->counters.layer_count; i++) {
        tally *l = &t->counters.layers[i];
        *l->above = (float)tally_quantile(l, 1 - LARGE_SHARE);
    }
    tallies_clear(&t->counters);
    return HEARTH_OK;
}

/* Reads all windows that are left, and saves now and then. */
static hearth_status count_all(taking *t)
{
    t->began = t->last_saved = clock_seconds();
    if (t->state.tokens == 0 && !model_has_zeros(t->model))
        TRY(pilot(t));
    TRY(session_sum_inputs(t->session, t->options->inputs, t->error));
    while (t->state.windows < t->texts->window_count) {
        TRY(read_window(t, (size_t)t->state.windows));
        t->state.tokens = t->texts->starts[++t->state.windows];
        bool stop = t->stop_asked > 0 || !report(t, t->state.tokens);
        bool done = t->state.windows == t->texts->window_count;
        if (stop || done || clock_seconds() - t->last_saved > SAVE_SECONDS)
            TRY(save(t));
        if (stop && !done)
            return fail_cancelled(t);
    }
    return HEARTH_OK;
}

/* ------------------------------------------------------------------ going on */

/* Makes the key of the counters: model, corpus and settings. */
static void make_key(const taking *t, char out[HASH_TEXT_SIZE])
{
    char model[HASH_TEXT_SIZE];
    hash128 h = hash_begin();
    work_model_key(model, t->model);
    hash_text(&h, model);
    hash_text(&h, t->texts->digest);
    hash_text(&h, t->options->how ? t->options->how : "");
    if (t->options->inputs)
        hash_text(&h, "inputs");
    hash_print(out, &h);
}

/* Finds the window from which to resume. If hidden states are
 * wanted and do not reach that place, starts from the beginning. */
static hearth_status go_on(taking *t)
{
    profile *p = t->out;
    make_key(t, t->state.key);
    if (!t->options->folder)
        return HEARTH_OK;
    TRY(work_make(t->options->folder, t->error));
    TRY(counts_load(t->options->folder, &t->state, &t->counters, p->note, sizeof p->note, t->error));
    const states_writer *s = t->options->states;
    const corpus *c = t->texts;
    bool fits = t->state.windows <= c->window_count && t->state.tokens == c->starts[t->state.windows];
    if (fits && (!s || states_writer_tokens(s) >= t->state.tokens)) {
        p->resumed_tokens = t->state.tokens;
        return HEARTH_OK;
    }
    snprintf(p->note, sizeof p->note, "counts of an earlier run came without hidden states; counting begins afresh");
    tallies_reset(&t->counters);
    t->state.windows = t->state.tokens = t->state.measured = 0;
    t->state.seconds = 0;
    return HEARTH_OK;
}

/* ------------------------------------------------------------------ results */

/* Counts the runs of k consecutive tokens in the windows. */
static void count_runs(const corpus *c, uint64_t runs[PROFILE_UNION + 1])
{
    memset(runs, 0, (PROFILE_UNION + 1) * sizeof *runs);
    for (size_t w = 0; w < c->window_count; w++) {
        size_t length = c->starts[w + 1] - c->starts[w];
        for (size_t k = 1; k <= PROFILE_UNION && k <= length; k++)
            runs[k] += length - k + 1;
    }
}

/* Returns the number of neurons of all layers. */
static size_t count_neurons(const profile *p)
{
    size_t count = 0;
    for (uint32_t i = 0; i < p->layer_count; i++)
        count += p->layers[i].neuron_count;
    return count;
}

static uint64_t sum_counts(const int32_t *counts, size_t n)
{
    uint64_t sum = 0;
    for (size_t i = 0; i < n; i++)
        sum += (uint32_t)counts[i];
    return sum;
}

static double share_of(uint64_t fired, double neurons)
{
    return neurons > 0 ? (double)fired / neurons : 0;
}

/* Computes the figures of a layer's experts, of which a token considers those that it chose and the shared one. */
static void finish_experts(const tally *counters, const ffn_shape *ffn, uint64_t tokens, profile_layer *out)
{
    uint64_t routed = 0, choices = 0, shared = sum_counts(out->counts + ffn_routed(ffn), ffn->shared_neurons);
    for (uint32_t e = 0; e < out->expert_count; e++) {
        uint64_t chosen = counters->chosen[e];
        uint64_t fired = sum_counts(out->counts + (size_t)e * ffn->expert_neurons, ffn->expert_neurons);
        out->experts[e] = (profile_expert){chosen, share_of(fired, (double)chosen * ffn->expert_neurons)};
        routed += fired;
        choices += chosen;
    }
    double of_chosen = (double)choices * ffn->expert_neurons, of_shared = (double)tokens * ffn->shared_neurons;
    out->routed_density = share_of(routed, of_chosen);
    out->shared_density = share_of(shared, of_shared);
    out->considered_density = out->expert_count > 0 ? share_of(routed + shared, of_chosen + of_shared) : out->density;
}

/* Computes the figures of the profile from the counters. */
static hearth_status finish(taking *t)
{
    profile *p = t->out;
    uint64_t runs[PROFILE_UNION + 1];
    size_t count = count_neurons(p);
    uint64_t *scratch = mem_new_array(count, sizeof *scratch);
    hearth_status status = scratch ? HEARTH_OK : fail_memory(t->error, "profile", count * sizeof *scratch);
    count_runs(t->texts, runs);
    for (uint32_t i = 0; status == HEARTH_OK && i < p->layer_count; i++) {
        if (p->layers[i].neuron_count == 0)
            continue;
        tally_finish(&t->counters.layers[i], runs, scratch, &p->layers[i]);
        finish_experts(&t->counters.layers[i], &t->model->layers[i].ffn, t->state.tokens, &p->layers[i]);
        p->density += p->layers[i].density / p->networks;
        p->considered_density += p->layers[i].considered_density / p->networks;
    }
    if (status == HEARTH_OK) { /* the counts of all layers are one block */
        p->hot_share[0] = profile_hot_share(p->layers[0].counts, count, 0.8, scratch);
        p->hot_share[1] = profile_hot_share(p->layers[0].counts, count, 0.95, scratch);
    }
    p->tokens = t->state.tokens;
    p->measured_tokens = t->state.measured;
    p->seconds = t->state.seconds;
    mem_free(scratch);
    return status;
}

static hearth_status allocate(taking *t)
{
    profile *p = t->out;
    t->longest = corpus_longest(t->texts);
    p->layers = mem_new_array(p->layer_count, sizeof *p->layers);
    if (!p->layers)
        return fail_memory(t->error, "profile", p->layer_count * sizeof *p->layers);
    size_t experts = 0, most = 0;
    for (uint32_t i = 0; i < p->layer_count; i++) {
        const ffn_shape *ffn = &t->model->layers[i].ffn;
        p->layers[i].neuron_count = ffn->neuron_count;
        p->layers[i].expert_count = ffn->router.expert_count;
        experts += ffn->router.expert_count;
        most = ffn->router.expert_count > most ? ffn->router.expert_count : most;
    }
    size_t counts = count_neurons(p);
    int32_t *all = mem_new_array(counts, sizeof *all); /* these two are blocks that the first layer owns */
    profile_expert *all_experts = mem_new_array(experts + 1, sizeof *all_experts);
    p->layers[0].counts = all;
    p->layers[0].experts = all_experts;
    for (uint32_t i = 1; all && all_experts && i < p->layer_count; i++) {
        p->layers[i].counts = p->layers[i - 1].counts + p->layers[i - 1].neuron_count;
        p->layers[i].experts = p->layers[i - 1].experts + p->layers[i - 1].expert_count;
    }
    t->rows = mem_new_array(t->longest, sizeof *t->rows);
    if (!all || !all_experts || !t->rows)
        return fail_memory(t->error, "profile", counts * sizeof *all);
    TRY(tallies_create(&t->counters, p->layer_count, model_largest(t->model).neurons, (uint32_t)most, t->error));
    if (t->options->inputs) {
        t->counters.beside = t->options->inputs->block;
        t->counters.beside_bytes = t->options->inputs->block_bytes;
    }
    return HEARTH_OK;
}

static hearth_status check(const taking *t)
{
    if (hearth_engine_mode(t->engine) != HEARTH_MODE_DENSE)
        return fail(t->error, HEARTH_INVALID, "profile: the engine is in mode %s, only dense sees every neuron",
                    hearth_mode_name(hearth_engine_mode(t->engine)));
    if (t->texts->window_count == 0)
        return fail(t->error, HEARTH_INVALID, "profile: the corpus is empty");
    assert(!t->options->together || !t->options->folder);
    if (t->out->networks == 0)
        return fail(t->error, HEARTH_UNSUPPORTED, "%s: profile: no layer has a feed-forward network",
                    t->model->source->path);
    return HEARTH_OK;
}

static hearth_status take(taking *t)
{
    TRY(check(t));
    TRY(allocate(t));
    TRY(go_on(t));
    if (t->state.windows < t->texts->window_count) {
        hearth_session_options options = {.context = (uint32_t)t->longest, .progress = {report_within, t}};
        TRY(hearth_session_create(&t->session, t->engine, &options, t->error));
        hearth_session_observe(t->session, &(hearth_observer){.see = see, .user = t, .gates = true});
        hearth_status status = count_all(t);
        if (status == HEARTH_CANCELLED)
            return fail_cancelled(t);
        TRY(status);
    }
    return finish(t);
}

hearth_status profile_take(profile *out, const hearth_engine *engine, const corpus *texts,
                           const profile_options *options, hearth_error *error)
{
    const hearth_model *model = hearth_engine_model(engine);
    *out = (profile){.layer_count = model->hyper.layer_count,
                     .networks = model_networks(model),
                     .hot_only_agreement = {NAN, NAN, NAN}};
    taking t = {.out = out,
                .model = model,
                .engine = engine,
                .texts = texts,
                .options = options,
                .error = error,
                .measured_of = 1 + texts->id_count / (MEASURED_TOKENS + 1)};
    hearth_status status = take(&t);
    hearth_session_destroy(t.session);
    tallies_free(&t.counters);
    mem_free(t.rows);
    return status;
}

void profile_free(profile *p)
{
    if (p->layers) {
        mem_free(p->layers[0].counts);
        mem_free(p->layers[0].experts);
    }
    mem_free(p->layers);
    *p = (profile){0};
}

void profile_forget(const char *folder)
{
    char *path = file_join(folder, COUNTS_NAME);
    if (path)
        (void)unlink(path);
    mem_free(path);
}

void profile_to_tune(const profile *p, tune *t)
{
    t->tokens = p->tokens;
    for (uint32_t i = 0; i < p->layer_count; i++) {
        bool network = p->layers[i].neuron_count > 0;
        t->layers[i].counts = network ? p->layers[i].counts : NULL;
        t->layers[i].magnitudes = network ? p->layers[i].magnitudes : NULL;
    }
}

/* ------------------------------------------------------------------ order */

static int descending(const void *a, const void *b)
{
    uint64_t x = *(const uint64_t *)a, y = *(const uint64_t *)b;
    return x < y ? 1 : x > y ? -1 : 0;
}

/* Sorts by count, descending. A key holds the count and the complement of the number: no two are equal, so any sorting
 * algorithm gives the same order. */
static void sort(const int32_t *counts, size_t count, uint64_t *keys)
{
    for (size_t n = 0; n < count; n++)
        keys[n] = (uint64_t)(uint32_t)counts[n] << 32 | (UINT32_MAX - (uint32_t)n);
    qsort(keys, count, sizeof *keys, descending);
}

void profile_rank(const int32_t *counts, size_t count, uint64_t *scratch, uint32_t *order)
{
    sort(counts, count, scratch);
    for (size_t i = 0; i < count; i++)
        order[i] = UINT32_MAX - (uint32_t)scratch[i];
}

double profile_hot_share(const int32_t *counts, size_t count, double share, uint64_t *scratch)
{
    uint64_t all = 0, hot = 0;
    size_t n = 0;
    sort(counts, count, scratch);
    for (size_t i = 0; i < count; i++)
        all += scratch[i] >> 32;
    while (all > 0 && n < count && (double)hot < share * (double)all)
        hot += scratch[n++] >> 32;
    return (double)n / (double)count;
}

/* ------------------------------------------------------------------ the hot neurons alone */

/* Copies the order, counts and magnitudes of a layer with neurons into the record's own memory. */
static hearth_status fill_layer(tune *t, uint32_t layer, const profile_layer *from, uint64_t *scratch)
{
    uint32_t f = from->neuron_count, *order = arena_new_array(&t->memory, f, sizeof *order);
    int32_t *counts = arena_new_array(&t->memory, f, sizeof *counts);
    float *magnitudes = arena_new_array(&t->memory, TUNE_QUANTILES, sizeof *magnitudes);
    if (!order || !counts || !magnitudes)
        return HEARTH_NO_MEMORY;
    profile_rank(from->counts, f, scratch, order);
    memcpy(counts, from->counts, f * sizeof *counts);
    memcpy(magnitudes, from->magnitudes, sizeof from->magnitudes);
    t->layers[layer].order = order;
    t->layers[layer].counts = counts;
    t->layers[layer].magnitudes = magnitudes;
    return HEARTH_OK;
}

/* Fills the tune record with the profile. On failure the caller frees the record. */
static hearth_status fill_record(tune *t, const profile *p, const hearth_model *model, hearth_error *error)
{
    size_t most = model_largest(model).neurons;
    uint64_t *scratch = mem_new_array(most, sizeof *scratch);
    tune_layer *layers = arena_new_array(&t->memory, p->layer_count, sizeof *layers);
    hearth_status status = scratch && layers ? HEARTH_OK : HEARTH_NO_MEMORY;
    if (layers)
        tune_set_layers(t, layers, model);
    for (uint32_t i = 0; status == HEARTH_OK && i < p->layer_count; i++)
        if (p->layers[i].neuron_count > 0)
            status = fill_layer(t, i, &p->layers[i], scratch);
    mem_free(scratch);
    return status == HEARTH_OK ? status : fail_memory(error, "profile", most * sizeof *scratch);
}

hearth_status profile_record(tune **out, const profile *p, const hearth_model *model, hearth_error *error)
{
    tune *t = mem_new(sizeof *t);
    if (!t)
        return fail_memory(error, "profile", sizeof *t);
    *t = (tune){.tokens = p->tokens, .report = ""};
    hearth_status status = fill_record(t, p, model, error);
    if (status == HEARTH_OK)
        *out = t;
    else
        tune_close(t);
    return status;
}

/* Returns the first token of the last windows that together have at most `tokens` tokens; at least one window. */
static uint64_t first_token(const corpus *c, uint64_t tokens)
{
    size_t w = c->window_count - 1;
    while (w > 0 && c->id_count - c->starts[w - 1] <= tokens)
        w--;
    return c->starts[w];
}

/* Compares dense with an engine that computes only the hottest `share` of each layer by the counts of a record. */
static hearth_status measure_hottest(loss *out, const hearth_engine *dense, const tune *counted,
                                     hearth_runtime *runtime, const corpus *texts, double share, uint64_t tokens,
                                     const hearth_progress *progress, hearth_error *error)
{
    const hearth_model *model = hearth_engine_model(dense);
    hearth_placement *hot;
    hearth_engine *engine = NULL;
    TRY(hearth_placement_create(&hot, model, HEARTH_MODE_DENSE, error));
    hearth_status status = placement_keep(hot, model, counted, share, true, error);
    hearth_engine_options options = {.placement = hot, .progress = *progress};
    if (status == HEARTH_OK)
        status = hearth_engine_create(&engine, runtime, model, &options, error);
    hearth_placement_destroy(hot);
    if (status == HEARTH_OK)
        status = loss_measure(out, dense, engine, texts, first_token(texts, tokens), tokens, *progress, error);
    hearth_engine_destroy(engine);
    return status;
}

/* Returns whether some layer's neurons fire by the values of all of them: then none can be left out. */
static bool needs_all(const hearth_model *m)
{
    for (uint32_t i = 0; i < m->hyper.layer_count; i++)
        if (m->layers[i].ffn.cuts)
            return true;
    return false;
}

hearth_status profile_probe(profile *p, const hearth_engine *dense, hearth_runtime *runtime, const corpus *texts,
                            uint64_t tokens, hearth_progress progress, hearth_error *error)
{
    tune *counted;
    if (needs_all(hearth_engine_model(dense)))
        return HEARTH_OK;
    TRY(profile_record(&counted, p, hearth_engine_model(dense), error));
    hearth_status status = HEARTH_OK;
    for (size_t i = 0; status == HEARTH_OK && i < PROFILE_PROBES; i++) {
        loss seen;
        status =
            measure_hottest(&seen, dense, counted, runtime, texts, profile_probe_shares[i], tokens, &progress, error);
        if (status == HEARTH_OK) {
            p->hot_only_agreement[i] = seen.same_top;
            p->probed_tokens = seen.tokens;
        }
    }
    tune_close(counted);
    return status;
}
