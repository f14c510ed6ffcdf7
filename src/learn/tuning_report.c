/* tuning_report.c - describes the result of a tuning in words and as JSON. */
#include "tuning_internal.h"

#include <stdio.h>
#include <string.h>

void tuning_describe(char *out, size_t size, const candidate *c)
{
    if (c->kind == PREDICTOR_LOW_RANK)
        snprintf(out, size, "low-rank %u %s", c->rank, c->normed ? "normed" : "residual");
    else if (c->kind == PREDICTOR_COARSE)
        snprintf(out, size, "coarse %s", number_formats[c->format].name);
    else
        snprintf(out, size, "none");
}

/* ------------------------------------------------------------------ why */

/* Returns the time (or bytes) per token of a candidate as a share of the layer's without it; 0: unknown. */
static double relative(const tuning_result *r, const tuning_layer *l, const candidate *c)
{
    if (r->choice == TUNING_TIME)
        return c->exact_seconds > 0 ? c->seconds / c->exact_seconds : 0;
    return c->token_bytes / choose_exact_bytes(&l->shape);
}

/* Returns whether candidate a is better than b: one that meets the recall, then the one with the smaller share. */
static bool is_better(const tuning_result *r, const tuning_layer *l, const candidate *a, const candidate *b)
{
    if (tuning_meets_recall(r, a) != tuning_meets_recall(r, b))
        return tuning_meets_recall(r, a);
    return relative(r, l, a) < relative(r, l, b);
}

/* Returns the best candidate that was not chosen; NULL: there is none. */
static const candidate *best_other(const tuning_result *r, const tuning_layer *l)
{
    const candidate *best = NULL;
    for (size_t i = 1; i < TUNING_CANDIDATES; i++) {
        const candidate *c = &l->candidates[i];
        if (c->kind != PREDICTOR_NONE && i != l->chosen && (!best || is_better(r, l, c, best)))
            best = c;
    }
    return best;
}

void tuning_explain(char *out, size_t size, const tuning_result *r, uint32_t layer)
{
    const tuning_layer *l = &r->layers[layer];
    const candidate *other = best_other(r, l), *c = &l->candidates[l->chosen];
    const char *what = r->choice == TUNING_TIME ? "time" : "bytes";
    char name[48];
    if (l->chosen != TUNING_NONE) {
        snprintf(out, size, "%.2f of exact's %s at recall %.4f", relative(r, l, c), what, c->recall);
        return;
    }
    if (!other) {
        snprintf(out, size, "%s",
                 l->dropped[0] && l->start_count == 0 ? l->dropped
                 : r->no_low_rank[0]                  ? "there was nothing to try"
                                                      : "no rank promised to pay");
        return;
    }
    tuning_describe(name, sizeof name, other);
    if (!tuning_meets_recall(r, other))
        snprintf(out, size, "%s only reaches a recall of %.4f", name, other->recall);
    else if (!tuning_is_clearly_less(relative(r, l, other), 1))
        snprintf(out, size, "%s is not clearly better: %.2f of exact's %s", name, relative(r, l, other), what);
    else if (!tuning_reads_less(l, other))
        snprintf(out, size, "%s (%.2f of exact's %s) reads no less than exact", name, relative(r, l, other), what);
    else
        snprintf(out, size, "%s (%.2f of exact's %s) does not fit into the budget", name, relative(r, l, other), what);
}

/* ------------------------------------------------------------------ JSON */

static json_t *candidate_json(const tuning_result *r, const candidate *c)
{
    json_t *o = json_pack("{s:s, s:f, s:f, s:f, s:f, s:f, s:f}", "kind", predictor_kind_name(c->kind), "threshold",
                          (double)c->threshold, "recall", c->recall, "density", c->density, "fired", c->fired,
                          "own_bytes", c->own_bytes, "token_bytes", c->token_bytes);
    if (o && c->kind != PREDICTOR_NONE)
        json_object_set_new(o, "format", json_string(number_formats[c->format].name));
    if (o && c->kind == PREDICTOR_LOW_RANK) {
        json_object_set_new(o, "rank", json_integer(c->rank));
        json_object_set_new(o, "input", json_string(c->normed ? "normed" : "residual"));
    }
    if (o && r->choice == TUNING_TIME && c->exact_seconds > 0) {
        json_object_set_new(o, "seconds", json_real(c->seconds));
        json_object_set_new(o, "exact_seconds", json_real(c->exact_seconds));
    }
    return o;
}

static json_t *layer_json(const tuning_result *r, uint32_t layer)
{
    const tuning_layer *l = &r->layers[layer];
    char chosen[48], why[256];
    tuning_describe(chosen, sizeof chosen, &l->candidates[l->chosen]);
    tuning_explain(why, sizeof why, r, layer);
    json_t *tried = json_array(), *starts = json_array();
    for (size_t i = 1; i < TUNING_CANDIDATES; i++)
        if (l->candidates[i].kind != PREDICTOR_NONE)
            json_array_append_new(tried, candidate_json(r, &l->candidates[i]));
    for (size_t i = 0; i < l->start_count; i++)
        json_array_append_new(starts,
                              json_pack("{s:i, s:s, s:f}", "rank", (int)l->starts[i].rank, "input",
                                        l->starts[i].normed ? "normed" : "residual", "density", l->starts[i].density));
    json_t *o = json_pack("{s:f, s:f, s:s, s:s, s:f, s:f, s:o, s:o}", "density", r->counted.layers[layer].density,
                          "held_out_density", l->shape.fires, "chosen", chosen, "why", why, "exact_bytes",
                          choose_exact_bytes(&l->shape), "chosen_bytes", l->candidates[l->chosen].token_bytes,
                          "candidates", tried, "untrained", starts);
    if (o && l->dropped[0])
        json_object_set_new(o, "dropped", json_string(l->dropped));
    return o;
}

/* Returns the loss of the chosen predictors; null where it was not measured. */
static json_t *loss_json(const loss *p)
{
    if (p->tokens == 0)
        return json_null();
    return json_pack("{s:I, s:f, s:f, s:f, s:f}", "tokens", (json_int_t)p->tokens, "mean_kl", p->divergence, "same_top",
                     p->same_top, "exact_bytes_per_token", p->exact_bytes, "predicted_bytes_per_token", p->lossy_bytes);
}

/* Returns the losses of the levels of pruning; null where they were not measured. */
static json_t *levels_json(const prune_table *p)
{
    if (p->loss_tokens == 0)
        return json_null();
    json_t *losses = json_array();
    for (size_t i = 0; i < PRUNE_LEVELS; i++)
        json_array_append_new(losses, json_real((double)p->losses[i]));
    return json_pack("{s:I, s:o}", "tokens", (json_int_t)p->loss_tokens, "mean_kl", losses);
}

json_t *tuning_report(const tuning_result *r)
{
    json_t *layers = json_array();
    for (uint32_t i = 0; r->has_zeros && i < r->layer_count; i++)
        json_array_append_new(layers, layer_json(r, i));
    json_t *o = json_pack("{s:I, s:f, s:s, s:f, s:f, s:o, s:o, s:o}", "tokens", (json_int_t)r->counted.tokens, "recall",
                          (double)r->recall, "choice", r->choice == TUNING_TIME ? "time" : "bytes", "budget_bytes",
                          r->budget_bytes, "spent_bytes", r->spent_bytes, "loss", loss_json(&r->loss), "layers", layers,
                          "level_losses", levels_json(&r->prune));
    if (o && r->no_low_rank[0])
        json_object_set_new(o, "no_low_rank", json_string(r->no_low_rank));
    return o;
}
