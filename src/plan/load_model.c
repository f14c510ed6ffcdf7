/* load_model.c - what a token takes of a model that is open: from its shapes, the formats of its matrices, and the counts
 * of its tune record. */
#include "load.h"

#include "../base/memory.h"
#include "../engine/device_weights.h"
#include "../engine/engine.h"
#include "../model/hyper.h"
#include "../model/tune.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* Shares of its neurons with which a layer is counted. */
#define SHARES 3

/* What makes layers alike. */
typedef struct layer_traits {
    uint64_t values[28]; /* as many as kind_of lists */
} layer_traits;

typedef struct describer {
    const hearth_engine *engine;
    const tune *learnt; /* NULL: nothing is */
    arena memory;
    double density; /* of layers of which nothing is counted */
    double value_bytes;
    hearth_placement *shares[SHARES]; /* every layer on the device, with no, half and all of its neurons */
    layer_traits *traits;             /* [layer_count] */
} describer;

/* ------------------------------------------------------------------ bytes */

/* Returns what is read of a network besides the rows of neurons: of experts that a token chose, where they select. */
static double network_matrix_bytes(const model_layer *l, const engine_layer *e)
{
    const router_shape *r = &l->ffn.router;
    double share = r->expert_count > 0 ? (double)r->used / r->expert_count : 1;
    const matrix *all[] = {&l->router, &l->latent_in, &l->latent_out, &l->per_layer_gate, &l->per_layer_output};
    double bytes = share * (double)matrix_bytes(&l->mask_in) + (double)layer_stream_bytes(l);
    for (size_t i = 0; i < sizeof all / sizeof *all; i++)
        bytes += (double)matrix_bytes(all[i]);
    return bytes + (e->selector == SELECTOR_LOW_RANK ? (double)matrix_bytes(&e->predictor.fc1) : 0);
}

static double position_values(const model_layer *l)
{
    return l->mixer == MIXER_ATTENTION ? (double)cached_width(attention_keys(&l->attention)) : 0;
}

/* Returns the share of a position in summaries. */
static double summary_values(const model_layer *l)
{
    cached_keys keys = summary_keys(&l->attention);
    return keys.heads > 0 ? (double)cached_width(keys) / keys.together : 0;
}

static double score_values(const model_layer *l)
{
    cached_keys keys = index_keys(&l->attention);
    return (double)cached_width(keys) / keys.together;
}

/* Returns those that are read to score a position, or of summaries that are all seen. */
static double read_to_score(const model_layer *l)
{
    const attention_shape *a = &l->attention;
    cached_keys scored = scored_keys(a);
    if (scored.heads > 0)
        return (double)cached_width(scored) / scored.together;
    return a->chosen > 0 ? 0 : summary_values(l);
}

static double state_values(const model_layer *l)
{
    const recurrent_shape *r = &l->recurrent;
    if (l->mixer != MIXER_RECURRENT)
        return (double)r->more;
    return (double)recurrent_width(r) * r->key_length + (double)recurrent_channels(r) * (r->window - 1) + r->more;
}

/* Sets the bytes of a neuron's rows, and how much of them is read of one that is in use and of one that fires. */
static void describe_rows(layer_load *to, const model_layer *l, const engine_layer *e)
{
    double down = e->down_t.data ? (double)e->down_t.row_bytes : (double)matrix_bytes(&l->down) / ffn_routed(&l->ffn);
    double second = l->ffn.gating != FFN_PLAIN ? (double)l->up.row_bytes : 0;
    to->first_bytes = (double)layer_first_matrix(l)->row_bytes;
    to->other_bytes = second + down;
    to->row_bytes = down;
    to->lists = selectors[e->selector].skips || l->mask_in.data;
    if (e->selector == SELECTOR_LOW_RANK)
        to->predictor_bytes = (double)e->predictor.fc2.row_bytes;
    if (e->selector == SELECTOR_COARSE)
        to->predictor_bytes = (double)coarse_bytes(&e->coarse) / ffn_routed(&l->ffn);
}

/* ------------------------------------------------------------------ hotness */

/* A neuron while they are sorted. */
typedef struct hot_neuron {
    float worth; /* bytes that are read of it per token */
    uint32_t number;
} hot_neuron;

static int hottest_first(const void *left, const void *right)
{
    const hot_neuron *a = left, *b = right;
    if (a->worth != b->worth)
        return a->worth > b->worth ? -1 : 1;
    return a->number < b->number ? -1 : a->number > b->number;
}

/* Returns the chance that a token uses each expert, and last the shared one: their share of all that fired. */
static float *expert_chances(describer *d, const ffn_shape *f, const int32_t *counts)
{
    uint32_t experts = ffn_experts(f);
    float *chances = arena_new_array(&d->memory, experts + 1, sizeof *chances);
    double all = 0;
    for (uint32_t i = 0; i < ffn_routed(f); i++)
        all += counts[i];
    for (uint32_t e = 0; chances && e < experts; e++) {
        double sum = 0;
        for (uint32_t i = 0; i < f->expert_neurons; i++)
            sum += counts[(size_t)e * f->expert_neurons + i];
        double chance = f->router.expert_count > 0 && all > 0 ? f->router.used * sum / all : 1;
        chances[e] = chance < 1 ? (float)chance : 1;
    }
    if (chances)
        chances[experts] = 1;
    return chances;
}

/* What is known of the neurons of one layer. */
typedef struct counted {
    const ffn_shape *ffn;
    const int32_t *counts; /* [f] */
    const float *experts;  /* [experts + 1] chance that a token uses each */
    double tokens;
    double through; /* neurons that the predictor lets through for each that fires; 0: there is none */
    bool lists;
} counted;

/* Computes the chances that the first row of a neuron is read, and its other rows. */
static void chances_of(const counted *c, uint32_t number, float *need, float *fire)
{
    bool shared = number >= ffn_routed(c->ffn);
    double used = c->experts[shared ? ffn_experts(c->ffn) : number / c->ffn->expert_neurons];
    double fired = c->counts[number] / c->tokens, needed = c->through > 0 ? fired * c->through : used;
    *need = (float)(needed < used ? needed : used);
    *fire = c->lists ? (float)fired : *need; /* without a list, all rows of those in use are read */
}

/* Sorts the neurons of a layer by what is read of them. Returns false if memory is out. */
static bool sort_neurons(describer *d, layer_load *to, const counted *c)
{
    uint32_t f = to->neurons;
    float *needs = arena_new_array(&d->memory, f, sizeof *needs);
    float *fires = arena_new_array(&d->memory, f, sizeof *fires);
    uint32_t *order = arena_new_array(&d->memory, f, sizeof *order);
    hot_neuron *sorted = mem_new_array(f, sizeof *sorted);
    bool ok = needs && fires && order && sorted;
    for (uint32_t i = 0; ok && i < f; i++) {
        float need, fire;
        chances_of(c, i, &need, &fire);
        bool leads = to->unit > 1 && i >= ffn_routed(c->ffn); /* a whole shared expert goes first */
        float bytes = (float)((double)need * to->first_bytes + (double)fire * to->other_bytes);
        sorted[i] = (hot_neuron){leads ? INFINITY : bytes, i};
    }
    if (ok)
        qsort(sorted, f, sizeof *sorted, hottest_first);
    for (uint32_t i = 0; ok && i < f; i++) {
        order[i] = sorted[i].number;
        chances_of(c, order[i], &needs[i], &fires[i]);
        to->need += (double)needs[i] / f;
        to->fire += (double)fires[i] / f;
    }
    mem_free(sorted);
    to->needs = needs;
    to->fires = fires;
    to->order = order;
    return ok;
}

/* Describes hotness by counts. Returns false if memory is out. */
static bool describe_counted(describer *d, layer_load *to, uint32_t layer)
{
    const model_layer *l = &d->engine->model->layers[layer];
    const tune_layer *learnt = &d->learnt->layers[layer];
    counted c = {.ffn = &l->ffn,
                 .counts = learnt->counts,
                 .experts = expert_chances(d, &l->ffn, learnt->counts),
                 .tokens = (double)d->learnt->tokens,
                 .lists = to->lists};
    double fired = 0;
    for (uint32_t i = 0; i < to->neurons; i++)
        fired += learnt->counts[i] / c.tokens / to->neurons;
    if (d->engine->layers[layer].selector == SELECTOR_LOW_RANK && fired > 0) /* of experts: among the chosen */
        c.through = (double)learnt->density * to->in_use / fired;
    to->need = to->fire = 0;
    return c.experts && sort_neurons(d, to, &c);
}

/* Describes neurons of which nothing is counted, in the file's order but those of a shared expert first. Returns false if memory
 * is out. */
static bool describe_alike(describer *d, layer_load *to, const model_layer *l)
{
    to->fire = to->lists ? to->need * d->density : to->need;
    to->first = to->always > 0 ? ffn_routed(&l->ffn) : 0;
    uint32_t *order = l->order ? arena_new_array(&d->memory, to->neurons, sizeof *order) : NULL;
    for (uint32_t i = 0; order && i < to->neurons; i++)
        order[i] = (uint32_t)l->order[(to->first + (uint64_t)i) % to->neurons];
    to->order = order;
    return order || !l->order;
}

/* ------------------------------------------------------------------ layers */

/* Returns why a layer cannot be on a device, as far as its shape and selector say; NULL: nothing does. */
static const char *lacks(const model_layer *l, const engine_layer *e)
{
    if (!selectors[e->selector].on_device)
        return "its selector does not run there";
    if (e->rows)
        return "neurons of it are left out";
    if (l->ffn.router.expert_count > 0 && !e->down_t.data && !device_takes_stock_experts(l, e->selector))
        return "its experts have no row per neuron, which `hearth pack` gives them";
    return NULL;
}

/* Returns the number of the first layer that is like this one. */
static uint32_t kind_of(describer *d, uint32_t layer)
{
    const model_layer *l = &d->engine->model->layers[layer];
    const engine_layer *e = &d->engine->layers[layer];
    const layer_traits is = {{l->mixer,
                              l->wiring,
                              l->attention.head_count,
                              l->attention.kv_head_count,
                              l->attention.head_length,
                              attention_sees(&l->attention),
                              l->attention.index.head_count,
                              l->attention.keys_back > 0,
                              l->recurrent.head_count,
                              l->recurrent.key_length,
                              layer_mixer_bytes(l),
                              l->ffn.neuron_count,
                              l->ffn.router.expert_count,
                              l->ffn.router.used,
                              l->ffn.latent,
                              (uint64_t)l->ffn.gating,
                              l->ffn.activation,
                              matrix_bytes(&l->gate),
                              matrix_bytes(&l->up),
                              matrix_bytes(&e->down_t),
                              matrix_bytes(&l->down),
                              e->selector,
                              matrix_bytes(&e->predictor.fc1),
                              lacks(l, e) != NULL,
                              device_apart(l),
                              matrix_bytes(&l->per_layer_gate),
                              l->attention.summary.together,
                              l->recurrent.more}};
    d->traits[layer] = is;
    uint32_t first = 0;
    while (memcmp(&d->traits[first], &is, sizeof is) != 0)
        first++;
    return first;
}

/* Returns about half of the neurons of a layer, no part of an expert. */
static uint32_t half_of(const ffn_shape *f)
{
    return f->router.expert_count > 0 ? f->router.expert_count / 2 * f->expert_neurons : f->neuron_count / 2;
}

/* Sets the bytes of a layer on the device, from those without neurons, with half and with all of them; or why it cannot be
 * there. */
static hearth_status describe_device(describer *d, layer_load *to, uint32_t layer, hearth_error *error)
{
    uint64_t bytes[SHARES] = {0};
    uint32_t f = to->neurons, half = half_of(&d->engine->model->layers[layer].ffn);
    for (size_t i = 0; i < SHARES; i += to->splits ? 1 : SHARES - 1) {
        hearth_error why = {0};
        hearth_status status =
            device_weights_count(&bytes[i], d->engine->model, d->shares[i], d->engine->layers, layer, &why);
        if (status == HEARTH_UNSUPPORTED) {
            to->lacks = arena_copy_text(&d->memory, why.text, strlen(why.text));
            return to->lacks ? HEARTH_OK : fail_memory(error, "plan", strlen(why.text));
        }
        if (status != HEARTH_OK)
            return fail(error, status, "%s", why.text);
    }
    to->device_bytes = (double)bytes[0];
    to->device_neuron_bytes = to->splits && half > 0 ? (double)(bytes[2] - bytes[1]) / (f - half)
                              : f > 0                ? (double)(bytes[2] - bytes[0]) / f
                                                     : 0;
    to->device_network_bytes = (double)(bytes[2] - bytes[0]) - to->device_neuron_bytes * f;
    return HEARTH_OK;
}

static hearth_status describe_layer(describer *d, layer_load *to, uint32_t layer, hearth_error *error)
{
    const model_layer *l = &d->engine->model->layers[layer];
    const engine_layer *e = &d->engine->layers[layer];
    const ffn_shape *f = &l->ffn;
    *to = (layer_load){.kind = kind_of(d, layer),
                       .has_mixer = l->mixer != MIXER_NONE,
                       .has_network = f->neuron_count > 0,
                       .lacks = lacks(l, e),
                       .mixer_bytes = (double)layer_mixer_bytes(l),
                       .score_bytes = (double)layer_scoring_bytes(l),
                       .kv_bytes = l->attention.keys_back == 0
                                       ? (position_values(l) + summary_values(l) + score_values(l)) * d->value_bytes
                                       : 0,
                       .kv_read_bytes = position_values(l) * d->value_bytes,
                       .kv_score_bytes = read_to_score(l) * d->value_bytes,
                       .window = attention_sees(&l->attention),
                       .state_bytes = state_values(l) * sizeof(float),
                       .neurons = f->neuron_count,
                       .network_bytes = network_matrix_bytes(l, e),
                       .keys_back = l->attention.keys_back};
    bool stock = f->router.expert_count > 1 && device_takes_stock_experts(l, e->selector);
    to->splits = f->neuron_count > 1 && (e->down_t.data || stock) && !f->cuts;
    to->unit = e->down_t.data || !stock ? 1 : f->expert_neurons;
    to->always = f->shared_neurons;
    bool ok = true;
    if (to->has_network) {
        describe_rows(to, l, e);
        to->in_use = f->router.expert_count == 0
                         ? 1
                         : ((double)f->router.used * f->expert_neurons + f->shared_neurons) / f->neuron_count;
        to->need = to->in_use;
        bool counts = d->learnt && d->learnt->layers[layer].counts && d->learnt->tokens > 0;
        ok = counts ? describe_counted(d, to, layer) : describe_alike(d, to, l);
    }
    if (!ok)
        return fail_memory(error, "plan", f->neuron_count * sizeof(float));
    return to->lacks ? HEARTH_OK : describe_device(d, to, layer, error);
}

/* Makes the placements by which layers are counted: on the device without neurons, with half and with all of them. */
static hearth_status make_shares(describer *d, hearth_error *error)
{
    const hearth_model *m = d->engine->model;
    uint32_t count = m->hyper.layer_count;
    device_share *shares = mem_new_array(count, sizeof *shares);
    hearth_status status = shares ? HEARTH_OK : fail_memory(error, "plan", count * sizeof *shares);
    for (uint32_t k = 0; status == HEARTH_OK && k < SHARES; k++) {
        for (uint32_t i = 0; i < count; i++) {
            const ffn_shape *f = &m->layers[i].ffn;
            shares[i] = (device_share){.given = true, .neurons = k == 0 ? 0 : k == 1 ? half_of(f) : f->neuron_count};
        }
        status = hearth_placement_create(&d->shares[k], m, HEARTH_MODE_DENSE, error);
        if (status == HEARTH_OK)
            status = placement_share(d->shares[k], m, shares, false, error);
        for (uint32_t i = 0; status == HEARTH_OK && i < count; i++) /* asked of layers that can be there alone */
            d->shares[k]->layers[i].selector = d->engine->layers[i].selector;
    }
    mem_free(shares);
    return status;
}

/* Returns the bytes of the tables of n-grams, if they lie in a file as they are. */
static double mapped_tables(const hearth_model *m)
{
    const stored_tensor *t = m->ngram_rows.data ? checkpoint_find_tensor(m->source, PER_LAYER_TOKENS) : NULL;
    return t && !stored_tensor_reordered(t) ? (double)t->size_bytes : 0;
}

static hearth_status describe(describer *d, model_load *out, hearth_error *error)
{
    const hearth_model *m = d->engine->model;
    uint32_t count = m->hyper.layer_count;
    out->layers = arena_new_array(&d->memory, count, sizeof *out->layers);
    d->traits = mem_new_array(count, sizeof *d->traits);
    if (!out->layers || !d->traits)
        return fail_memory(error, "plan", count * sizeof *out->layers);
    TRY(make_shares(d, error));
    double known = out->embedding_bytes + (out->tied ? 0 : out->head_bytes);
    for (uint32_t i = 0; i < count; i++) {
        layer_load *l = &out->layers[i];
        TRY(describe_layer(d, l, i, error));
        known +=
            l->mixer_bytes + l->network_bytes + l->neurons * (l->first_bytes + l->other_bytes + l->predictor_bytes);
    }
    double all = (double)m->weight_bytes + (double)hearth_engine_own_bytes(d->engine);
    out->table_bytes = mapped_tables(m);
    known += out->table_bytes;
    out->other_bytes = all > known ? all - known : 0;
    return HEARTH_OK;
}

hearth_status load_of_engine(model_load *out, const hearth_engine *engine, double density, const char *from,
                             double value_bytes, hearth_error *error)
{
    const hearth_model *m = engine->model;
    const tune *learnt = m->tune;
    bool counts = learnt && learnt->tokens > 0 && tune_first(learnt)->counts;
    describer d = {engine, counts ? learnt : NULL, {0}, density, value_bytes, {0}, NULL};
    *out = (model_load){.layer_count = m->hyper.layer_count,
                        .embedding_bytes = (double)matrix_bytes(&m->embedding),
                        .head_bytes = (double)matrix_bytes(&m->head),
                        .tied = m->head.data == m->embedding.data,
                        .head_on_device = device_has_format(m->head.format),
                        .row_values = m->hyper.embedding_length,
                        .density_source = counts ? "counted while tuning" : from};
    snprintf(out->name, sizeof out->name, "%.127s", m->name ? m->name : m->source->path);
    hearth_status status = describe(&d, out, error);
    for (size_t k = 0; k < SHARES; k++)
        hearth_placement_destroy(d.shares[k]);
    mem_free(d.traits);
    out->memory = d.memory;
    if (status != HEARTH_OK)
        load_free(out);
    return status;
}
