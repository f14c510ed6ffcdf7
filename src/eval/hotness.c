/* hotness.c - counts activations while a text is read or written, then sorts. */
#include "hotness.h"

#include "../base/memory.h"

#include <stdlib.h>
#include <string.h>

/* Tokens of a text that the model writes itself: enough to tell the hot half, seconds on small models. */
static const uint32_t own_tokens = 512;
/* Positions of a window: longer ones cost attention and tell nothing more about neurons. */
static const uint32_t window_most = 512;
static const uint64_t own_seed = 1;

typedef struct profile {
    hotness *result;
    const hearth_model *model;
    hearth_model_info info;
    const hotness_options *options;
    hearth_session *session;
    uint32_t window;
    hearth_error *error;
} profile;

static void count_activations(void *user, const hearth_observation *o)
{
    const hotness *h = user;
    uint32_t *counts = h->counts + (size_t)o->layer * h->neuron_count;
    for (size_t i = 0; i < o->neuron_count; i++)
        counts[o->neurons ? o->neurons[i] : i] += o->activations[i] != 0;
}

static hearth_status report(const profile *p, uint64_t done, uint64_t total)
{
    const hearth_progress *progress = &p->options->progress;
    if (progress->report && !progress->report(progress->user, "profiling", done, total))
        return fail(p->error, HEARTH_CANCELLED, "%s: profiling was cancelled", p->info.path);
    return HEARTH_OK;
}

/* ------------------------------------------------------------- a given text */

/* Windows behind BOS, as perplexity cuts them. */
static hearth_status read_ids(profile *p, const int32_t *ids, size_t count)
{
    hearth_row *rows = mem_new_array(p->window, sizeof *rows);
    if (!rows)
        return fail_memory(p->error, "profile", p->window * sizeof *rows);
    size_t bos = p->info.bos >= 0 && p->window > 1;
    hearth_status status = HEARTH_OK;
    for (size_t at = 0; at < count && status == HEARTH_OK;) {
        size_t taken = count - at < p->window - bos ? count - at : p->window - bos;
        rows[0].token = p->info.bos;
        for (size_t i = 0; i < taken; i++)
            rows[bos + i].token = ids[at + i];
        status = hearth_session_truncate(p->session, 0, 0, p->error);
        if (status == HEARTH_OK)
            status = hearth_session_feed(p->session, rows, bos + taken, p->error);
        p->result->tokens += bos + taken;
        at += taken;
        if (status == HEARTH_OK)
            status = report(p, at, count);
    }
    mem_free(rows);
    return status;
}

static hearth_status read_text(profile *p)
{
    int32_t *ids;
    size_t count;
    span text = p->options->text;
    TRY(hearth_tokenize(p->model, text.data, text.size, 0, &ids, &count, p->error));
    hearth_status status = count > 0 ? read_ids(p, ids, count)
                                     : fail(p->error, HEARTH_FORMAT, "%s: text: has no token", p->options->text_name);
    hearth_free(ids);
    return status;
}

/* ---------------------------------------------------- what the model writes */

/* A text that ends, or no longer fits, is followed by another one. */
static hearth_status write_tokens(profile *p, hearth_sampler *sampler, float *logits)
{
    uint32_t total = p->options->tokens ? p->options->tokens : own_tokens;
    int32_t first = p->info.bos >= 0 ? p->info.bos : 0, token = first;
    for (uint32_t i = 0; i < total; i++) {
        if (token == first || hearth_session_length(p->session, 0) == p->window) {
            TRY(hearth_session_truncate(p->session, 0, 0, p->error));
            token = first;
        }
        TRY(hearth_session_feed(p->session, &(hearth_row){.token = token, .output = true}, 1, p->error));
        TRY(hearth_session_logits(p->session, 0, 1, logits, p->error));
        token = hearth_sampler_pick(sampler, logits);
        if (hearth_token_ends_answer(p->model, token))
            token = first;
        p->result->tokens++;
        TRY(report(p, i + 1, total));
    }
    return HEARTH_OK;
}

static hearth_status write_text(profile *p)
{
    hearth_sampling sampling = {.temperature = 1, .top_p = 1, .repeat_penalty = 1, .seed = own_seed};
    hearth_sampler *sampler = NULL;
    TRY(hearth_sampler_create(&sampler, &sampling, p->info.vocabulary_size, p->error));
    float *logits = mem_new_array(p->info.vocabulary_size, sizeof *logits);
    hearth_status status = logits ? write_tokens(p, sampler, logits)
                                  : fail_memory(p->error, "profile", p->info.vocabulary_size * sizeof *logits);
    mem_free(logits);
    hearth_sampler_destroy(sampler);
    return status;
}

/* ------------------------------------------------------------------- order */

static int descending(const void *a, const void *b)
{
    uint64_t x = *(const uint64_t *)a, y = *(const uint64_t *)b;
    return x < y ? 1 : x > y ? -1 : 0;
}

/* Hottest first. Keys hold the count and, turned round, the number: no two are equal, so any way of sorting gives the
 * same order. */
static hearth_status sort_layers(hotness *h, hearth_error *error)
{
    uint64_t *keys = mem_new_array(h->neuron_count, sizeof *keys);
    if (!keys)
        return fail_memory(error, "profile", h->neuron_count * sizeof *keys);
    for (uint32_t layer = 0; layer < h->layer_count; layer++) {
        const uint32_t *counts = h->counts + (size_t)layer * h->neuron_count;
        uint64_t all = 0, hot = 0;
        for (uint32_t n = 0; n < h->neuron_count; n++)
            keys[n] = (uint64_t)counts[n] << 32 | (UINT32_MAX - n);
        qsort(keys, h->neuron_count, sizeof *keys, descending);
        for (uint32_t r = 0; r < h->neuron_count; r++) {
            h->order[layer][r] = UINT32_MAX - (uint32_t)keys[r];
            all += keys[r] >> 32;
            hot += r < h->neuron_count / 2 ? keys[r] >> 32 : 0;
        }
        h->share_half += all > 0 ? (double)hot / (double)all / h->layer_count : 0;
    }
    mem_free(keys);
    return HEARTH_OK;
}

/* What can be run exactly has neurons that are often exactly zero; counting others would tell nothing. */
static hearth_status check_zeros(const profile *p)
{
    hearth_placement *placement = NULL;
    hearth_status status = hearth_placement_create(&placement, p->model, HEARTH_RUNG_EXACT, p->error);
    hearth_placement_destroy(placement);
    return status == HEARTH_UNSUPPORTED
               ? fail(p->error, status, "%s: hotness: the activation of its neurons, %s, is never exactly zero",
                      p->info.path, p->info.activation)
               : status;
}

static hearth_status allocate(hotness *h, hearth_error *error)
{
    h->counts = mem_new_array((size_t)h->layer_count * h->neuron_count, sizeof *h->counts);
    h->order = mem_new_array(h->layer_count, sizeof *h->order);
    bool complete = h->counts && h->order;
    for (uint32_t layer = 0; complete && layer < h->layer_count; layer++) {
        h->order[layer] = mem_new_array(h->neuron_count, sizeof **h->order);
        complete = h->order[layer] != NULL;
    }
    return complete ? HEARTH_OK
                    : fail_memory(error, "profile", (size_t)h->layer_count * h->neuron_count * sizeof *h->counts);
}

hearth_status hotness_measure(hotness *out, const hearth_engine *engine, const hotness_options *options,
                              hearth_error *error)
{
    const hearth_model *model = hearth_engine_model(engine);
    profile p = {.result = out, .model = model, .options = options, .error = error};
    hearth_model_describe(model, &p.info);
    *out = (hotness){.layer_count = p.info.layer_count, .neuron_count = p.info.neuron_count};
    TRY(check_zeros(&p));
    TRY(allocate(out, error));
    p.window = p.info.context_length < window_most ? p.info.context_length : window_most;
    hearth_session_options session = {.context = p.window};
    TRY(hearth_session_create(&p.session, engine, &session, error));
    hearth_session_observe(p.session, &(hearth_observer){count_activations, out});
    hearth_status status = options->ids         ? read_ids(&p, options->ids, options->id_count)
                           : options->text.data ? read_text(&p)
                                                : write_text(&p);
    hearth_session_destroy(p.session);
    return status == HEARTH_OK ? sort_layers(out, error) : status;
}

void hotness_free(hotness *h)
{
    for (uint32_t layer = 0; h->order && layer < h->layer_count; layer++)
        mem_free(h->order[layer]);
    mem_free(h->order);
    mem_free(h->counts);
    *h = (hotness){0};
}
