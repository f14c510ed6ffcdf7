/* announce.c - what a run reports about itself: what runs where, in which mode, with which guarantee, and what it
 * skipped. */
#include "common.h"

#include "../base/text.h"
#include "../engine/placement.h"
#include "output.h"
#include "terminal.h"

#include <stdio.h>
#include <string.h>

/* What each guarantee promises (docs/design.md), in plain words for users. */
static const struct {
    const char *claim, *note;
} guarantees[HEARTH_GUARANTEE_COUNT] = {
    [HEARTH_GUARANTEE_BITWISE] = {"same answer as dense", NULL},
    [HEARTH_GUARANTEE_EXACT] = {"only zeros are skipped; sums may round differently than dense", NULL},
    [HEARTH_GUARANTEE_REQUANTISED] =
        {"only zeros are skipped, with down rounded once more",
         "; `hearth eval ppl` of this file and of its original, --sparsity dense, says what that costs"},
    [HEARTH_GUARANTEE_MARGIN] =
        {"neurons are skipped that a coarse copy of the gate puts far below zero; answers may differ from dense",
         "; `hearth eval kl MODEL TEXT --against dense` with the same options says by how much"},
    [HEARTH_GUARANTEE_LOSSY] = {"neurons that may not be zero are skipped; answers differ from dense",
                                "; `hearth eval kl MODEL TEXT --against dense` with the same options says by how much"},
};

/* Why the guard decided as it did: in JSON, and in the line of status where it made every layer dense. */
static const struct {
    const char *json, *status;
} guard_reasons[GUARD_REASON_COUNT] = {[GUARD_MEASURED] = {"measured", "measured faster"},
                                       [GUARD_FITS_CACHE] = {"fits cache", "fits cache"},
                                       [GUARD_TOO_DENSE] = {"too dense", "too dense"},
                                       [GUARD_NO_MEMORY] = {"no memory", "no memory"}};

static bool is_dense(const loaded *l)
{
    return hearth_engine_mode(l->engine) == HEARTH_MODE_DENSE;
}

/* Returns whether weights were rounded while loading, which the user did not ask for. */
static bool was_rounded(const loaded *l)
{
    return hearth_engine_guarantee(l->engine) == HEARTH_GUARANTEE_REQUANTISED && hearth_engine_own_bytes(l->engine) > 0;
}

/* ------------------------------------------------------------------ the guarantee */

/* Says what the guard chose, and the measurement or the reason behind it. */
static void say_guard(const loaded *l)
{
    const guard_report *r = &l->guarded.report;
    if (r->sparse_layers == 0)
        fputs("guard: dense in all layers", stderr);
    else
        fprintf(stderr, "guard: exact in %u of %u layers", r->sparse_layers, r->layers);
    if (r->reason == GUARD_FITS_CACHE)
        fputs(" (stock layout, and it fits into the processor's cache; --no-guard skips all the same)\n", stderr);
    else if (r->reason == GUARD_NO_MEMORY)
        fprintf(stderr, " (no memory for skipping: %s)\n", r->shortage);
    else if (r->reason == GUARD_TOO_DENSE)
        fprintf(stderr, " (measured: %.0f %% of the neurons fire%s; --no-guard skips all the same)\n", 100 * r->density,
                r->remembered ? "; from an earlier run" : "");
    else
        fprintf(stderr, " (measured: FFN %.3g ms dense, %.3g ms exact%s)\n", 1e3 * r->dense_seconds,
                1e3 * r->exact_seconds,
                r->remembered ? "; in an earlier run"
                : r->busy     ? "; on a busy machine: the next run measures again"
                              : "");
}

/* Says why the answers may differ from dense. */
static const char *what_was_done(const loaded *l, hearth_guarantee guarantee)
{
    if (hearth_engine_mode(l->engine) == HEARTH_MODE_PRUNED)
        return "activations that are small count as zero";
    if (hearth_engine_mode(l->engine) == HEARTH_MODE_PREDICTED)
        return "predictors decide what is computed";
    if (guarantee != HEARTH_GUARANTEE_REQUANTISED)
        return "the placement leaves neurons out";
    return was_rounded(l) ? "down was rounded again, to Q8_0, to lie neuron by neuron (not with --sparsity dense)"
                          : "down was rounded again when the file was packed";
}

/* Says why the answers may differ from dense, and how to measure that. */
static void say_difference(const loaded *l)
{
    hearth_guarantee guarantee = hearth_engine_guarantee(l->engine);
    if (guarantees[guarantee].note)
        output_note("note", "%s%s", what_was_done(l, guarantee), guarantees[guarantee].note);
}

/* Prints, for example, "pruned: 91.0 % of all activations count as zero; KL 0.0081 nats, measured while tuning" */
static void say_pruning(const loaded *l)
{
    hearth_pruning p = hearth_engine_pruning(l->engine);
    if (!p.known)
        return;
    fprintf(stderr, "pruned: %.1f %% of all activations count as zero; ", 100 * p.share);
    if (!p.loss_known)
        fputs("what that costs was not measured while tuning\n", stderr);
    else if (p.least_loss == p.most_loss)
        fprintf(stderr, "KL %.3g nats, measured while tuning\n", p.most_loss);
    else
        fprintf(stderr, "KL between %.3g and %.3g nats, measured while tuning\n", p.least_loss, p.most_loss);
}

/* Prints, for example, "mode exact, guarantee bitwise: same answer as dense". */
static void say_mode(const loaded *l)
{
    hearth_guarantee guarantee = hearth_engine_guarantee(l->engine);
    fprintf(stderr, "mode %s, guarantee %s", hearth_mode_name(hearth_engine_mode(l->engine)),
            hearth_guarantee_name(guarantee));
    if (is_dense(l))
        fprintf(stderr, ": every neuron is computed%s\n",
                guarantee == HEARTH_GUARANTEE_REQUANTISED ? ", with down rounded once more"
                : guarantee == HEARTH_GUARANTEE_EXACT     ? "; sums may round differently"
                                                          : "");
    else
        fprintf(stderr, ": %s\n", guarantees[guarantee].claim);
}

void common_say_ignored(const hearth_model *model)
{
    if (model->tune_problem)
        output_note("warning", "%s; it is ignored", model->tune_problem);
}

/* Notes that weights take much more memory than the file has for them, as their rows are made when they are read, and what
 * helps: a type of about as many bits. */
static void say_widened(const loaded *l)
{
    const checkpoint *c = l->model->source;
    uint64_t stored = 0, made = 0, values = 0;
    char before[16], after[16];
    for (size_t i = 0; i < c->tensor_count; i++) {
        const stored_tensor *t = &c->tensors[i];
        if (!t->scaled || t->format != FORMAT_F32)
            continue;
        stored += stored_tensor_rows(t) * scaled_row_bytes(t->scaled, t->shape[0]);
        values += stored_tensor_rows(t) * t->shape[0];
        made += t->size_bytes;
    }
    if (made > 0)
        output_note("note",
                    "rounded weights became float32 when they were read, %s in place of %s; "
                    "`hearth convert %s -o FILE.gguf --type %s` makes a file in which they are small",
                    output_size(after, (double)made), output_size(before, (double)stored), c->path,
                    8 * stored < 6 * values ? "q6_k" : "q8_0");
}

void common_say_warnings(const loaded *l)
{
    const guard_report *r = &l->guarded.report;
    common_say_ignored(l->model);
    say_widened(l);
    if (l->is_guarded && r->reason == GUARD_NO_MEMORY)
        output_note("warning", "mode dense, since memory for skipping is short: %s", r->shortage);
    if (was_rounded(l))
        say_difference(l);
}

/* ------------------------------------------------------------------ the device */

/* How the layers are distributed. */
typedef struct layer_sums {
    uint32_t forms[FORM_COUNT];
    uint32_t layers, with_device;
    double split_share;  /* share of the split layers' neurons that is on the device */
    double device_share; /* the same over all layers */
} layer_sums;

static layer_sums sum_layers(const hearth_placement *p)
{
    layer_sums s = {.layers = p->layer_count};
    uint64_t split = 0, on_device = 0, split_neurons = 0, all = 0;
    for (uint32_t i = 0; i < p->layer_count; i++) {
        uint32_t neurons = layer_neurons(&p->layers[i], PLACEMENT_DEVICE);
        s.forms[p->layers[i].form]++;
        s.with_device += layer_uses_device(&p->layers[i]);
        bool is_split = p->layers[i].form == FORM_SPLIT;
        split += is_split ? neurons : 0;
        split_neurons += is_split ? p->layers[i].neuron_count : 0;
        on_device += neurons;
        all += p->layers[i].neuron_count;
    }
    s.split_share = split_neurons > 0 ? (double)split / (double)split_neurons : 0;
    s.device_share = all > 0 ? (double)on_device / (double)all : 0;
    return s;
}

bool common_has_split(const loaded *l)
{
    return l->placement && sum_layers(l->placement).forms[FORM_SPLIT] > 0;
}

/* Prints, for example, "device0: cuda, NVIDIA H200 (budget 126 GB): 20 of 32 layers, 12 of them split (38 % of their
 * neurons there); the head stays on the CPU; 512 MB". device_bytes: device memory that this run needs; 0: prints the
 * peak use instead. */
static void say_device(const loaded *l, uint64_t device_bytes)
{
    hearth_device_info d;
    if (!l->placement || !hearth_runtime_device(l->runtime, &d))
        return;
    layer_sums s = sum_layers(l->placement);
    char budget[16], bytes[16];
    fprintf(stderr, "%s: %s, ", l->placement->sides[PLACEMENT_DEVICE], d.driver);
    output_safe(stderr, span_of(d.name), 100);
    fprintf(stderr, " (budget %s): %u of %u layers", output_size(budget, (double)d.budget_bytes), s.with_device,
            s.layers);
    if (s.forms[FORM_SPLIT] > 0)
        fprintf(stderr, ", %u of them split (%.0f %% of their neurons there)", s.forms[FORM_SPLIT],
                100 * s.split_share);
    if (s.forms[FORM_FFN_HOST] > 0)
        fprintf(stderr, ", %u with all neurons on the CPU", s.forms[FORM_FFN_HOST]);
    fprintf(stderr, "%s; %s%s\n",
            l->placement->head == PLACEMENT_DEVICE ? ", and the head" : "; the head stays on the CPU",
            output_size(bytes, (double)(device_bytes ? device_bytes : d.peak_bytes)), device_bytes ? "" : " at most");
}

json_t *common_device_json(const loaded *l)
{
    hearth_device_info d;
    if (!l->placement || !hearth_runtime_device(l->runtime, &d))
        return json_null();
    return json_pack("{s:s, s:o, s:I, s:I, s:I, s:I}", "driver", d.driver, "name", json_text(span_of(d.name)),
                     "memory_bytes", (json_int_t)d.memory_bytes, "budget_bytes", (json_int_t)d.budget_bytes,
                     "used_bytes", (json_int_t)d.used_bytes, "peak_bytes", (json_int_t)d.peak_bytes);
}

json_t *common_placement_json(const loaded *l)
{
    const hearth_placement *p = l->placement;
    if (!p)
        return json_null();
    layer_sums s = sum_layers(p);
    json_t *o = json_pack("{s:s, s:s, s:s, s:o, s:o}", "kv", p->sides[p->kv], "embedding", p->sides[p->embedding],
                          "head", p->sides[p->head], "device_neurons", json_number(s.device_share), "split_neurons",
                          json_number(s.split_share));
    json_t *layers = json_object();
    for (int i = 0; i < FORM_COUNT; i++)
        json_object_set_new(layers, layer_form_name((layer_form)i), json_integer(s.forms[i]));
    if (json_object_set_new(o, "layers", layers) == 0)
        return o;
    json_decref(o);
    return NULL;
}

/* ------------------------------------------------------------------ all of it */

/* Ends with a note where the answers may differ, unless common_say_warnings has said so. device_bytes: as for
 * say_device. */
static void say_all(const loaded *l, uint64_t device_bytes)
{
    terminal_begin(stderr, STYLE_STATUS);
    say_mode(l);
    say_pruning(l);
    if (l->is_guarded)
        say_guard(l);
    say_device(l, device_bytes);
    terminal_end(stderr);
    if (!was_rounded(l))
        say_difference(l);
}

static void say_memory(const hearth_memory *m)
{
    char weights[16], own[16], kv[16], scratch[16];
    fprintf(stderr, "memory: weights %s%s%s, KV cache %s, scratch %s\n", output_size(weights, (double)m->weight_bytes),
            m->own_bytes ? ", transposed " : "", m->own_bytes ? output_size(own, (double)m->own_bytes) : "",
            output_size(kv, (double)m->kv_bytes), output_size(scratch, (double)m->scratch_bytes));
}

/* Of what the library logs only sessions know this; the rest is said in the command's own words. */
static void say_stream(void *user, hearth_log_level level, const char *text)
{
    static const char word[] = "stream: ";
    (void)user;
    if (level == HEARTH_LOG_INFO && strncmp(text, word, sizeof word - 1) == 0)
        output_note("stream", "%s", text + sizeof word - 1);
}

hearth_log common_log(const message_options *o)
{
    return o->verbose ? (hearth_log){say_stream, NULL} : (hearth_log){0};
}

hearth_status common_say_memory(const loaded *l, const hearth_session_options *o, hearth_error *error)
{
    hearth_memory m;
    TRY(hearth_session_memory(l->engine, o, &m, error));
    say_memory(&m);
    return HEARTH_OK;
}

hearth_status common_announce(const loaded *l, const hearth_session_options *o, hearth_error *error)
{
    hearth_memory m;
    unsigned threads = hearth_runtime_threads(l->runtime);
    TRY(hearth_session_memory(l->engine, o, &m, error));
    terminal_begin(stderr, STYLE_STATUS);
    fputs("model: ", stderr);
    output_safe(stderr, span_of(l->info.path), 200);
    fprintf(stderr, " (%s, %s)\n", l->info.family, l->info.activation);
    say_memory(&m);
    fprintf(stderr, "computing: %u thread%s, %s\n", threads, threads == 1 ? "" : "s",
            hearth_runtime_cpu_level(l->runtime));
    terminal_end(stderr);
    say_all(l, m.device_bytes);
    return HEARTH_OK;
}

json_t *common_pruning_json(const loaded *l)
{
    hearth_pruning p = hearth_engine_pruning(l->engine);
    if (!p.known)
        return json_null();
    json_t *o = json_pack("{s:f}", "share", p.share);
    if (o && p.loss_known) {
        json_object_set_new(o, "least_loss", json_real(p.least_loss));
        json_object_set_new(o, "most_loss", json_real(p.most_loss));
    }
    return o;
}

json_t *common_guard_json(const loaded *l)
{
    const guard_report *r = &l->guarded.report;
    if (!l->is_guarded)
        return json_null();
    return json_pack("{s:I, s:I, s:s, s:f, s:f, s:f, s:b, s:b}", "layers", (json_int_t)r->layers, "sparse_layers",
                     (json_int_t)r->sparse_layers, "reason", guard_reasons[r->reason].json, "dense_seconds",
                     r->dense_seconds, "exact_seconds", r->exact_seconds, "density", r->density, "remembered",
                     (int)r->remembered, "busy", (int)r->busy);
}

/* ------------------------------------------------------------------ what was skipped */

skipped common_skipped(const loaded *l, const hearth_session *session)
{
    double neurons = 0, computed = 0, active = 0, target = 0, found = 0, missed = 0;
    for (uint32_t i = 0; i < l->info.layer_count; i++) {
        hearth_counts c = {0};
        if (hearth_session_counts(session, i, &c, NULL) == HEARTH_OK) {
            neurons += (double)c.rows * l->model->layers[i].ffn.neuron_count;
            computed += (double)c.computed;
            active += (double)c.active;
        }
        hearth_recall r;
        if (hearth_session_recall(session, i, &r, NULL) == HEARTH_OK && r.target > 0) {
            target = r.target;
            found += (double)r.found;
            missed += (double)r.missed;
        }
    }
    if (neurons == 0)
        return (skipped){0};
    return (skipped){true,
                     computed / neurons,
                     active / neurons,
                     hearth_session_token_bytes(session),
                     (double)hearth_engine_token_bytes(l->engine),
                     target,
                     found + missed > 0 ? found / (found + missed) : 1};
}

json_t *common_skipped_json(const loaded *l, const hearth_session *session)
{
    skipped s = common_skipped(l, session);
    if (!s.known)
        return json_null();
    return json_pack("{s:f, s:f, s:f, s:f, s:o, s:o}", "density", s.density, "computed", s.let_through,
                     "bytes_per_token", s.bytes_per_token, "dense_bytes_per_token", s.dense_bytes_per_token,
                     "recall_target", json_number(s.recall_target > 0 ? s.recall_target : NAN), "recall",
                     json_number(s.recall_target > 0 ? s.recall : NAN));
}

/* ------------------------------------------------------------------ the line of status */

/* Prints what the guard decided otherwise than the mode's name says: " (guard: dense in 2 of 6 layers)". */
static void put_guard(const loaded *l)
{
    const guard_report *r = &l->guarded.report;
    if (!l->is_guarded || r->sparse_layers == r->layers)
        return;
    if (r->sparse_layers == 0)
        fprintf(stderr, " (guard: %s)", guard_reasons[r->reason].status);
    else
        fprintf(stderr, " (guard: dense in %u of %u layers)", r->layers - r->sparse_layers, r->layers);
}

/* Prints how much a lossy mode lost while tuning, or at least that it is lossy where its guarantee has another name. */
static void put_loss(const loaded *l)
{
    hearth_pruning p = hearth_engine_pruning(l->engine);
    if (p.known && p.loss_known)
        fprintf(stderr, " (KL %.2g nats)", p.most_loss);
    else if (hearth_engine_guarantee(l->engine) == HEARTH_GUARANTEE_MARGIN)
        fputs(" (lossy)", stderr);
}

static void put_skipped(const loaded *l, const hearth_session *session)
{
    skipped s = common_skipped(l, session);
    char some[16], all[16];
    if (!s.known)
        return;
    if (is_dense(l))
        fprintf(stderr, "; no neurons skipped, %s read per token", output_size(some, s.bytes_per_token));
    else
        fprintf(stderr, "; %.0f %% of neurons skipped, %s of %s read per token", 100 * (1 - s.density),
                output_size(some, s.bytes_per_token), output_size(all, s.dense_bytes_per_token));
    if (s.recall_target > 0)
        fprintf(stderr, "; recall %.3f by probes, target %.3g", s.recall, s.recall_target);
}

void common_put_skipped(const loaded *l, const hearth_session *session)
{
    if (!is_dense(l))
        put_skipped(l, session);
}

static void put_device(const loaded *l)
{
    hearth_device_info d;
    if (!l->placement || !hearth_runtime_device(l->runtime, &d))
        return;
    layer_sums s = sum_layers(l->placement);
    fprintf(stderr, "; %u of %u layers (%.0f %% of neurons", s.with_device, s.layers, 100 * s.device_share);
    hearth_hot_report hot;
    if (hearth_engine_hot_set(l->engine, &hot, NULL) == HEARTH_OK && hot.swaps > 0)
        fprintf(stderr, ", %llu changes with the text", (unsigned long long)hot.swaps);
    fprintf(stderr, ") on %s", d.driver);
}

void common_put_status(const loaded *l, const hearth_session *session)
{
    fprintf(stderr, "mode %s", hearth_mode_name(hearth_engine_mode(l->engine)));
    put_guard(l);
    fprintf(stderr, ", guarantee %s", hearth_guarantee_name(hearth_engine_guarantee(l->engine)));
    put_loss(l);
    if (session)
        put_skipped(l, session);
    put_device(l);
}

void common_say_status(const loaded *l, const message_options *o)
{
    if (o->verbose)
        say_all(l, 0);
    if (o->verbose || o->quiet)
        return;
    terminal_begin(stderr, STYLE_STATUS);
    common_put_status(l, NULL);
    terminal_end(stderr);
    fputc('\n', stderr);
}
