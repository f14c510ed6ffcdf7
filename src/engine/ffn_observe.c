/* ffn_observe.c - what observers see of a feed-forward network: which neurons were computed, by original number, and
 * their activations; of both sides. */
#include "device_session.h"
#include "ffn_job.h"

#include <string.h>

/* Returns whether the first values of a layer with experts stay where they are, for the observer that asked for them. */
static bool keeps_gates(const ffn_job *job)
{
    return job->l->ffn.router.expert_count > 0 && job->h != job->s->scratch.gate;
}

void ffn_show(const ffn_job *job, size_t t)
{
    const scratch *b = &job->s->scratch;
    const int32_t *order = job->l->order;
    uint32_t first = job->first_neuron;
    size_t f = job->neuron_count, rows = job->rows ? job->row_count : f;
    for (size_t i = 0; i < b->part_count; i++)
        for (size_t k = 0; k < b->parts[i].count; k++) {
            uint32_t row = neuron_at(&b->parts[i], k), number = first + (order ? (uint32_t)order[row] : row);
            b->seen[number] = job->h[t * f + b->parts[i].begin + k];
            b->wanted[number] = b->seen[number] != 0;
            if (keeps_gates(job))
                ffn_activate_first(job, &b->gate[t * f + b->parts[i].begin + k], 1, &b->seen_gates[number]);
        }
    for (size_t i = 0; job->predicts && i < rows; i++) {
        uint32_t row = job->rows ? job->rows[i] : (uint32_t)i, number = first + (order ? (uint32_t)order[row] : row);
        b->wanted[number] = !(b->score[t * f + row] < job->passes);
    }
}

/* Compacts seen and seen_neurons to the wanted neurons of a layer (with SELECTOR_ALL all stay); returns how many there
 * are. */
static size_t gather_seen(const hearth_session *s, uint32_t layer)
{
    const scratch *b = &s->scratch;
    size_t n = 0, f = s->engine->model->layers[layer].ffn.neuron_count;
    if (s->engine->layers[layer].selector == SELECTOR_ALL)
        return f;
    for (size_t i = 0; i < f; i++)
        if (b->wanted[i]) {
            b->seen_neurons[n] = (uint32_t)i;
            b->seen[n++] = b->seen[i];
        }
    return n;
}

/* Computes the activations of the first matrix alone, by original neuron number. Returns NULL if its values are not
 * there: they were overwritten, or the CPU does not compute all neurons. */
static const float *gather_gates(const ffn_job *job, size_t t)
{
    const scratch *b = &job->s->scratch;
    const int32_t *order = job->l->order;
    size_t f = job->neuron_count;
    if (job->h == b->gate || job->e->form != FORM_HOST || job->rows)
        return NULL;
    const float *first = b->gate + t * f;
    for (size_t i = 0; order && i < f; i++)
        ffn_activate_first(job, first + i, 1, b->seen_gates + order[i]);
    if (!order)
        ffn_activate_first(job, first, f, b->seen_gates);
    return b->seen_gates;
}

/* Lists the experts that row t chose on the CPU; returns how many. */
static size_t gather_experts(const hearth_session *s, uint32_t layer, size_t t)
{
    const scratch *b = &s->scratch;
    size_t n = 0, experts = s->engine->model->layers[layer].ffn.router.expert_count;
    for (size_t i = 0; i < experts; i++)
        if (b->shares[t * experts + i] != 0)
            b->seen_experts[n++] = (uint32_t)i;
    return n;
}

/* Calls the observer of the session. */
static void tell(hearth_session *s, uint32_t layer, size_t t, const float *activations, size_t n, const float *gates,
                 size_t experts)
{
    const scratch *b = &s->scratch;
    size_t d = s->engine->model->hyper.embedding_length;
    hearth_observation seen = {
        .layer = layer,
        .sequence = b->sequence[t],
        .position = b->position[t],
        .residual = b->x + t * d,
        .ffn_input = b->normed + t * d,
        .neurons = s->engine->layers[layer].selector == SELECTOR_ALL ? NULL : b->seen_neurons,
        .activations = activations,
        .gates = gates,
        .neuron_count = n,
        .experts = experts > 0 ? b->seen_experts : NULL,
        .expert_count = experts,
    };
    s->observer.see(s->observer.user, &seen);
}

void ffn_tell(hearth_session *s, uint32_t layer, size_t t)
{
    size_t n = gather_seen(s, layer);
    const engine_layer *e = &s->engine->layers[layer];
    bool gates = s->observer.gates && e->selector == SELECTOR_ALL && !e->rows;
    tell(s, layer, t, s->scratch.seen, n, gates ? s->scratch.seen_gates : NULL, gather_experts(s, layer, t));
}

/* Returns the activations of row t by original number. If the CPU computed every neuron in that order, they are
 * returned in place. */
static const float *show_row(hearth_session *s, const ffn_job *job, uint32_t layer, size_t t)
{
    const scratch *b = &s->scratch;
    if (job->e->selector == SELECTOR_ALL && job->e->form == FORM_HOST && !job->rows && !job->l->order)
        return job->h + t * job->neuron_count;
    size_t f = job->l->ffn.neuron_count;
    memset(b->seen, 0, f * sizeof *b->seen);
    memset(b->wanted, 0, f * sizeof *b->wanted);
    if (job->e->form != FORM_DEVICE)
        ffn_show(job, t);
    if (job->e->form != FORM_HOST)
        device_step_show(s, layer, t);
    float scale = job->e->form == FORM_SPLIT ? device_step_scale(s, layer, t) : 1;
    for (size_t i = 0; scale != 1 && i < f; i++)
        b->seen[i] *= scale;
    return b->seen;
}

void feed_forward_observe(hearth_session *s, uint32_t layer, size_t count)
{
    const ffn_job job = ffn_describe(s, layer, count);
    for (size_t t = 0; s->observer.see && t < count; t++) {
        const float *activations = show_row(s, &job, layer, t);
        size_t n = gather_seen(s, layer);
        tell(s, layer, t, activations, n, gather_gates(&job, t), 0);
    }
}
