/* guard.c - decides with a few tokens of the model's own text where skipping pays.
 *
 * For a file of stock layout, survey() decodes on the plain dense engine and counts what fires; this decides whether
 * copies are made. Unless a stock file stays as it is, race() then decodes alternately on the exact engine and on its
 * dense twin, which shares its neuron-major weights, and compares layer by layer. The text is what the model generates
 * greedily from BOS on: made-up tokens would fire other neurons than real ones.
 *
 * Rejected: choosing between the stock layout and a copy by the clock as well. Where the two are close, a machine with
 * shared memory answers differently from one run to the next, and the same command would give other digits. */
#include "guard.h"

#include "../base/clock.h"
#include "../base/median.h"
#include "../base/memory.h"
#include "../engine/engine.h"
#include "../model/neuron_major.h"
#include "guard_memory.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

/* A difference above this share is more than noise: the medians of
 * two runs of the same layer differ by this much on a shared machine. */
#define NOISE 0.03
/* A copy costs memory and load time, and scattered rows are read less evenly than whole matrices, so skipping must read
 * fewer bytes by this factor. */
#define COPY_GAIN 1.25
/* A model that takes at most half of the cache is taken to stay in it. */
#define CACHE_SHARE 2

/* The first token only warms up. The survey reads a fixed number of tokens, so that its counts are the same every time.
 * The race ends after RACE_SECONDS, but not before RACE_LEAST tokens. */
#define SURVEY_TOKENS 4
#define RACE_TOKENS   8
#define RACE_LEAST    3
#define RACE_SECONDS  0.4
#define PROBE_CONTEXT (RACE_TOKENS + 1)

/* ------------------------------------------------------------------ decisions */

bool guard_worth_a_copy(const guard_bytes *bytes, const double *density, size_t layers)
{
    double stock = 0, needed = 0;
    for (size_t i = 0; i < layers; i++) {
        stock += bytes[i].stock;
        needed += bytes[i].first + density[i] * bytes[i].listed;
    }
    return needed * COPY_GAIN <= stock;
}

void guard_choose(bool *sparse, const double *dense, const double *exact, size_t layers)
{
    for (size_t i = 0; i < layers; i++)
        sparse[i] = !(dense[i] < exact[i] * (1 - NOISE));
}

bool guard_is_steady(const double *times, size_t count, double scatter)
{
    double sorted[RACE_TOKENS];
    if (count == 0 || count > RACE_TOKENS)
        return count == 0;
    memcpy(sorted, times, count * sizeof *times);
    double middle = median(sorted, count), best = times[0];
    for (size_t i = 1; i < count; i++)
        best = times[i] < best ? times[i] : best;
    return middle <= best * (1 + scatter);
}

/* Returns the bytes of a layer of stock layout. */
static guard_bytes layer_bytes(const model_layer *l)
{
    const matrix *first = l->gate.data ? &l->gate : &l->up, *second = l->gate.data ? &l->up : NULL;
    matrix copy;
    double listed = INFINITY; /* no copy of down can be made */
    if (neuron_major_shape(&copy, &l->down, ffn_experts(&l->ffn), "", "", NULL) == HEARTH_OK)
        listed = (double)(matrix_bytes(&copy) + (second ? matrix_bytes(second) : 0));
    size_t dense = matrix_bytes(&l->gate) + matrix_bytes(&l->up) + matrix_bytes(&l->down);
    return (guard_bytes){(double)dense, (double)matrix_bytes(first), listed};
}

/* ------------------------------------------------------------------ decoding a few tokens */

/* One engine under test, with what was measured on it. */
typedef struct probe {
    hearth_session *session;
    uint32_t layers;
    uint32_t tokens;  /* tokens measured, without the first                               */
    double *seconds;  /* [layers][RACE_TOKENS]                                            */
    uint64_t *active; /* [layers] neurons that fired, over all tokens; set by an observer */
} probe;

/* Observer: counts the neurons that fired. */
static void count_active(void *user, const hearth_observation *o)
{
    probe *p = user;
    for (size_t i = 0; i < o->neuron_count; i++)
        p->active[o->layer] += o->activations[i] != 0;
}

static void probe_close(probe *p)
{
    hearth_session_destroy(p->session);
    mem_free(p->seconds);
    mem_free(p->active);
    *p = (probe){0};
}

static hearth_status probe_open(probe *p, const hearth_engine *engine, hearth_error *error)
{
    const hyperparameters *h = &engine->model->hyper;
    *p = (probe){.layers = h->layer_count};
    hearth_session_options options = {.context = h->context_length < PROBE_CONTEXT ? h->context_length : PROBE_CONTEXT,
                                      .batch = 1};
    p->seconds = mem_new_array(p->layers, RACE_TOKENS * sizeof *p->seconds);
    p->active = mem_new_array(p->layers, sizeof *p->active);
    hearth_status status = p->seconds && p->active
                               ? hearth_session_create(&p->session, engine, &options, error)
                               : fail_memory(error, "guard", p->layers * RACE_TOKENS * sizeof *p->seconds);
    if (status != HEARTH_OK)
        probe_close(p);
    return status;
}

/* Feeds a token and stores each layer's time; the first token only warms up. */
static hearth_status probe_feed(probe *p, int32_t token, hearth_error *error)
{
    bool counts = hearth_session_length(p->session, 0) > 0;
    hearth_session_reset_counts(p->session);
    TRY(hearth_session_feed(p->session, &(hearth_row){token, 0, true}, 1, error));
    for (uint32_t i = 0; counts && i < p->layers; i++)
        p->seconds[(size_t)i * RACE_TOKENS + p->tokens] = p->session->ffn_seconds[i];
    p->tokens += counts;
    return HEARTH_OK;
}

/* Returns the median of a layer's times; 0 where no token counted. */
static double probe_median(const probe *p, uint32_t layer)
{
    double times[RACE_TOKENS];
    memcpy(times, p->seconds + (size_t)layer * RACE_TOKENS, sizeof times);
    return p->tokens > 0 ? median(times, p->tokens) : 0;
}

/* Returns the shortest of a layer's times; 0 where no token counted. */
static double probe_best(const probe *p, uint32_t layer)
{
    const double *times = p->seconds + (size_t)layer * RACE_TOKENS;
    double best = p->tokens > 0 ? times[0] : 0;
    for (uint32_t i = 1; i < p->tokens; i++)
        best = times[i] < best ? times[i] : best;
    return best;
}

/* Generates the text that all probes read. */
typedef struct timing_probe {
    const hearth_model *model;
    hearth_progress progress;
    float *logits; /* [vocabulary_size] */
    int32_t token; /* to read next      */
} timing_probe;

static hearth_status timing_probe_open(timing_probe *r, const hearth_model *model, hearth_progress progress,
                                       hearth_error *error)
{
    hearth_model_info info;
    hearth_model_describe(model, &info);
    *r = (timing_probe){model, progress, mem_new_array(info.vocabulary_size, sizeof *r->logits),
                        info.bos > 0 ? info.bos : 0};
    return r->logits ? HEARTH_OK : fail_memory(error, "guard", info.vocabulary_size * sizeof *r->logits);
}

/* Sets the next token to the most likely one after those that p has read. */
static hearth_status choose_token(timing_probe *r, const probe *p, hearth_error *error)
{
    TRY(hearth_session_logits(p->session, 0, 1, r->logits, error));
    r->token = 0;
    for (uint32_t i = 1; i < r->model->hyper.vocabulary_size; i++)
        if (r->logits[i] > r->logits[r->token])
            r->token = (int32_t)i;
    return HEARTH_OK;
}

/* Reports progress. HEARTH_CANCELLED where the caller asks to stop. */
static hearth_status goes_on(const timing_probe *r, uint32_t done, uint32_t total, hearth_error *error)
{
    if (!r->progress.report || r->progress.report(r->progress.user, "comparing dense and exact", done, total))
        return HEARTH_OK;
    return fail(error, HEARTH_CANCELLED, "guard: cancelled");
}

/* Feeds up to `most` tokens after the first to probes [count], in alternating order; the first probe generates the
 * tokens. Ends early after `seconds`, but not before `least` tokens, or where the context is full. */
static hearth_status decode(timing_probe *r, probe *probes, uint32_t count, uint32_t least, uint32_t most,
                            double seconds, hearth_error *error)
{
    uint32_t room = hearth_session_context(probes->session) - 1;
    double start = clock_seconds();
    for (uint32_t i = 0; i <= (most < room ? most : room); i++) {
        if (i > least && clock_seconds() - start > seconds)
            break;
        TRY(goes_on(r, i, most + 1, error));
        for (uint32_t turn = 0; turn < count; turn++)
            TRY(probe_feed(&probes[i % 2 ? count - 1 - turn : turn], r->token, error));
        TRY(choose_token(r, probes, error));
    }
    return HEARTH_OK;
}

/* ------------------------------------------------------------------ survey and race */

/* Draws the conclusion of the survey: all layers become GUARD_STOCK unless copies pay. p->active includes the first
 * token, which p->tokens leaves out. */
static hearth_status conclude(guard_findings *f, const hearth_model *model, const probe *p, hearth_error *error)
{
    guard_bytes *bytes = mem_new_array(p->layers, sizeof *bytes);
    double *density = mem_new_array(p->layers, sizeof *density);
    hearth_status status = bytes && density ? HEARTH_OK : fail_memory(error, "guard", p->layers * sizeof *bytes);
    for (uint32_t i = 0; status == HEARTH_OK && i < p->layers; i++) {
        if (model->layers[i].ffn.neuron_count == 0) /* it reads nothing and takes no time */
            continue;
        density[i] = (double)p->active[i] / ((double)model->layers[i].ffn.neuron_count * (p->tokens + 1));
        bytes[i] = layer_bytes(&model->layers[i]);
        f->density += density[i] / model_networks(model);
        f->dense_seconds += probe_median(p, i);
    }
    f->surveyed = true;
    if (status == HEARTH_OK && !guard_worth_a_copy(bytes, density, p->layers))
        for (uint32_t i = 0; i < p->layers; i++)
            f->layers[i] = GUARD_STOCK;
    mem_free(bytes);
    mem_free(density);
    return status;
}

/* Counts on the plain dense engine what fires, and decides on copies. */
static hearth_status survey(timing_probe *r, guard_findings *f, const hearth_engine *plain, hearth_error *error)
{
    probe p;
    TRY(probe_open(&p, plain, error));
    hearth_session_observe(p.session, &(hearth_observer){.see = count_active, .user = &p});
    hearth_status status = decode(r, &p, 1, SURVEY_TOKENS, SURVEY_TOKENS, 0, error);
    if (status == HEARTH_OK)
        status = conclude(f, r->model, &p, error);
    probe_close(&p);
    return status;
}

/* Returns whether whole tokens took about the same time. */
static bool probe_is_steady(const probe *p, double scatter)
{
    double tokens[RACE_TOKENS] = {0};
    for (uint32_t i = 0; i < p->layers; i++)
        for (uint32_t t = 0; t < p->tokens; t++)
            tokens[t] += p->seconds[(size_t)i * RACE_TOKENS + t];
    return guard_is_steady(tokens, p->tokens, scatter);
}

/* Decides each layer by the race. Other load may disturb some of the few tokens, so a layer computes every neuron only
 * where medians and best times agree that this is faster. */
static hearth_status judge(guard_findings *f, const probe *exact, const probe *dense, hearth_error *error)
{
    size_t n = f->layer_count;
    double *medians = mem_new_array(n, 2 * sizeof *medians), *bests = mem_new_array(n, 2 * sizeof *bests);
    bool *sparse = mem_new_array(n, 2 * sizeof *sparse);
    hearth_status status = medians && bests && sparse ? HEARTH_OK : fail_memory(error, "guard", n * sizeof *medians);
    double total = 0;
    f->exact_seconds = 0;
    for (uint32_t i = 0; status == HEARTH_OK && i < n; i++) {
        medians[i] = probe_median(dense, i);
        medians[n + i] = probe_median(exact, i);
        bests[i] = probe_best(dense, i);
        bests[n + i] = probe_best(exact, i);
        total += medians[i];
        f->exact_seconds += medians[n + i];
    }
    if (status == HEARTH_OK) {
        guard_choose(sparse, medians, medians + n, n);
        guard_choose(sparse + n, bests, bests + n, n);
        for (uint32_t i = 0; i < n; i++)
            f->layers[i] = sparse[i] || sparse[n + i] ? GUARD_SPARSE : GUARD_DENSE;
        if (!f->surveyed) /* else they stay those of the stock layout */
            f->dense_seconds = total;
    }
    mem_free(medians);
    mem_free(bests);
    mem_free(sparse);
    return status;
}

/* Returns the share of neurons that fired, for the last token fed. */
static double last_density(const probe *p, const hearth_model *model)
{
    uint64_t active = 0, neurons = 0;
    for (uint32_t i = 0; i < p->layers; i++) {
        neurons += model->layers[i].ffn.neuron_count;
        hearth_counts counts = {0};
        if (hearth_session_counts(p->session, i, &counts, NULL) == HEARTH_OK)
            active += counts.active;
    }
    return (double)active / (double)neurons;
}

/* Races both engines layer by layer; sets f->busy where the times cannot be relied on. */
static hearth_status race_once(timing_probe *r, guard_findings *f, const hearth_engine *exact,
                               const hearth_engine *dense, double scatter, hearth_error *error)
{
    probe probes[2] = {0}; /* exact, dense */
    hearth_status status;
    TRY_OR(done, status, probe_open(&probes[0], exact, error));
    TRY_OR(done, status, probe_open(&probes[1], dense, error));
    TRY_OR(done, status, decode(r, probes, 2, RACE_LEAST, RACE_TOKENS, RACE_SECONDS, error));
    if (f->density == 0)
        f->density = last_density(&probes[0], r->model);
    status = judge(f, &probes[0], &probes[1], error);
    f->busy = !probe_is_steady(&probes[0], scatter) || !probe_is_steady(&probes[1], scatter);
done:
    probe_close(&probes[0]);
    probe_close(&probes[1]);
    return status;
}

/* Races a second time if the machine was busy the first time. */
static hearth_status race(timing_probe *r, guard_findings *f, const hearth_engine *exact, const hearth_engine *dense,
                          double scatter, hearth_error *error)
{
    int32_t first = r->token;
    TRY(race_once(r, f, exact, dense, scatter, error));
    r->token = first;
    return f->busy ? race_once(r, f, exact, dense, scatter, error) : HEARTH_OK;
}

/* ------------------------------------------------------------------ engines */

static uint32_t count_layers(const guard_findings *f, guard_layer kind)
{
    uint32_t count = 0;
    for (uint32_t i = 0; i < f->layer_count; i++)
        count += f->layers[i] == kind;
    return count;
}

/* Makes a placement of mode exact in which layers compute every neuron where the findings say so. */
static hearth_status make_placement(hearth_placement **out, const hearth_model *model, const guard_findings *f,
                                    hearth_error *error)
{
    TRY(hearth_placement_create(out, model, HEARTH_MODE_EXACT, error));
    for (uint32_t i = 0; i < f->layer_count; i++)
        if (f->layers[i] != GUARD_SPARSE)
            (*out)->layers[i].selector = SELECTOR_ALL;
    return HEARTH_OK;
}

/* Arguments and state of one guard_open. */
typedef struct opener {
    guarded *out;
    hearth_runtime *runtime;
    const hearth_model *model;
    const guard_options *options;
    guard_findings findings;
} opener;

/* Creates an engine in a mode, with the caller's options but its own placement. */
static hearth_status create_engine(const opener *o, hearth_engine **engine, hearth_mode mode, hearth_error *error)
{
    hearth_engine_options options = o->options->engine;
    hearth_placement *placement;
    TRY(hearth_placement_create(&placement, o->model, mode, error));
    options.placement = placement;
    hearth_status status = hearth_engine_create(engine, o->runtime, o->model, &options, error);
    hearth_placement_destroy(placement);
    return status;
}

/* Opens the plain engine: computes every neuron, transposes nothing. */
static hearth_status open_plain(const opener *o, hearth_error *error)
{
    return create_engine(o, &o->out->engine, HEARTH_MODE_DENSE, error);
}

/* Opens the exact engine, which transposes stock layers, in place of the plain one. */
static hearth_status open_copies(const opener *o, hearth_error *error)
{
    hearth_engine_destroy(o->out->engine);
    o->out->engine = NULL;
    return create_engine(o, &o->out->copies, HEARTH_MODE_EXACT, error);
}

static bool is_all_stock(const guard_findings *f)
{
    return count_layers(f, GUARD_STOCK) == f->layer_count;
}

/* Opens an engine that shares the copies and computes every neuron where the findings say so. */
static hearth_status open_mixed(const opener *o, hearth_error *error)
{
    hearth_placement *placement;
    TRY(make_placement(&placement, o->model, &o->findings, error));
    hearth_status status = engine_with_placement(&o->out->engine, o->out->copies, o->model->tune, placement, error);
    hearth_placement_destroy(placement);
    return status;
}

/* Opens the engine that the findings ask for, unless it is open. For a file of stock layout, the plain engine or the
 * copies are open before. */
static hearth_status open_found(const opener *o, hearth_error *error)
{
    if (is_all_stock(&o->findings))
        return HEARTH_OK;
    if (!o->out->copies)
        TRY(open_copies(o, error));
    if (count_layers(&o->findings, GUARD_DENSE) > 0)
        return open_mixed(o, error);
    o->out->engine = o->out->copies;
    o->out->copies = NULL;
    return HEARTH_OK;
}

/* Opens the exact engine with its copies and races it against its dense twin. */
static hearth_status compare(opener *o, timing_probe *r, hearth_error *error)
{
    hearth_placement *dense;
    hearth_engine *twin;
    TRY(open_copies(o, error));
    TRY(hearth_placement_create(&dense, o->model, HEARTH_MODE_DENSE, error));
    hearth_status status = engine_with_placement(&twin, o->out->copies, o->model->tune, dense, error);
    hearth_placement_destroy(dense);
    TRY(status);
    double scatter = o->options->scatter != 0 ? o->options->scatter : GUARD_SCATTER;
    status = race(r, &o->findings, o->out->copies, twin, scatter, error);
    hearth_engine_destroy(twin);
    return status;
}

/* Measures and fills the findings. Afterwards the plain engine or the copies are open, as the findings require. */
static hearth_status measure_and_decide(opener *o, hearth_error *error)
{
    timing_probe r;
    guard_findings *f = &o->findings;
    *f = (guard_findings){.layer_count = f->layer_count, .layers = f->layers};
    for (uint32_t i = 0; i < f->layer_count; i++)
        f->layers[i] = GUARD_SPARSE;
    TRY(timing_probe_open(&r, o->model, o->options->engine.progress, error));
    int32_t first = r.token;
    hearth_status status = o->out->engine ? survey(&r, f, o->out->engine, error) : HEARTH_OK;
    r.token = first;
    if (status == HEARTH_OK && !is_all_stock(f))
        status = compare(o, &r, error);
    mem_free(r.logits);
    return status;
}

/* Reads stored findings. Whatever the file says, they are accepted only if no layer is GUARD_STOCK or, for a file of
 * stock layout, all are. */
static bool recall(opener *o, const char *folder, const char *key)
{
    return folder && !o->options->again && guard_recall(&o->findings, folder, key) &&
           (count_layers(&o->findings, GUARD_STOCK) == 0 || (o->out->engine && is_all_stock(&o->findings)));
}

/* Returns how many layers skip zeros. */
static uint32_t count_sparse(const opener *o)
{
    uint32_t count = 0;
    for (uint32_t i = 0; i < o->findings.layer_count; i++)
        count += o->findings.layers[i] == GUARD_SPARSE && o->model->layers[i].ffn.neuron_count > 0;
    return count;
}

static void report(const opener *o, bool remembered)
{
    const guard_findings *f = &o->findings;
    o->out->report = (guard_report){.layers = model_networks(o->model),
                                    .sparse_layers = count_sparse(o),
                                    .dense_seconds = f->dense_seconds,
                                    .exact_seconds = f->exact_seconds,
                                    .density = f->density,
                                    .reason = is_all_stock(f) ? GUARD_TOO_DENSE : GUARD_MEASURED,
                                    .remembered = remembered,
                                    .busy = f->busy};
}

/* Returns whether the plain engine's weights fit into the cache. Then
 * reading them whole is as fast as anything, and no copy is needed. */
static bool fits_cache(const opener *o)
{
    return hearth_engine_token_bytes(o->out->engine) * CACHE_SHARE <= o->options->cache_bytes;
}

/* Opens the plain engine where memory for the copies is short. */
static hearth_status stay_dense(opener *o, const char *shortage, hearth_error *error)
{
    guard_close(o->out);
    o->out->report = (guard_report){.layers = model_networks(o->model), .reason = GUARD_NO_MEMORY};
    snprintf(o->out->report.shortage, sizeof o->out->report.shortage, "%.250s", shortage);
    return open_plain(o, error);
}

static hearth_status open_guarded(opener *o, hearth_error *error)
{
    const char *folder = o->options->folder;
    char key[GUARD_KEY_SIZE];
    hearth_placement *placement;
    TRY(hearth_placement_create(&placement, o->model, HEARTH_MODE_EXACT, error)); /* no mode exact: fails */
    hearth_placement_destroy(placement);
    if (!o->model->neuron_major) {
        TRY(open_plain(o, error));
        o->out->report = (guard_report){.layers = model_networks(o->model), .reason = GUARD_FITS_CACHE};
        if (fits_cache(o))
            return HEARTH_OK;
    }
    guard_key(key, o->runtime, o->model, o->options->engine.activations);
    bool remembered = recall(o, folder, key);
    hearth_error shortage = {0};
    hearth_status status = remembered ? HEARTH_OK : measure_and_decide(o, &shortage);
    if (status == HEARTH_OK)
        status = open_found(o, &shortage);
    if (status == HEARTH_NO_MEMORY && o->options->may_be_dense && !o->model->neuron_major)
        return stay_dense(o, shortage.text, error);
    if (status != HEARTH_OK)
        return fail(error, status, "%s", shortage.text);
    if (folder && !remembered)
        guard_remember(&o->findings, folder, key);
    report(o, remembered);
    return HEARTH_OK;
}

hearth_status guard_open(guarded *out, hearth_runtime *runtime, const hearth_model *model, const guard_options *options,
                         hearth_error *error)
{
    *out = (guarded){0};
    size_t layers = model->hyper.layer_count;
    opener o = {out, runtime, model, options, {.layer_count = model->hyper.layer_count}};
    o.findings.layers = mem_new_array(layers, sizeof *o.findings.layers);
    if (!o.findings.layers)
        return fail_memory(error, "guard", layers * sizeof *o.findings.layers);
    hearth_status status = open_guarded(&o, error);
    mem_free(o.findings.layers);
    if (status != HEARTH_OK)
        guard_close(out);
    return status;
}

void guard_close(guarded *g)
{
    hearth_engine_destroy(g->engine);
    hearth_engine_destroy(g->copies);
    *g = (guarded){0};
}
