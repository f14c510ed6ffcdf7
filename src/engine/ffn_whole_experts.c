/* ffn_whole_experts.c - whole experts for several tokens, in the stock layout of files.
 *
 * Nothing is selected here, so the products of many experts are one job, however few tokens chose each of them. A pair is
 * a token and an expert that it chose. Pairs lie one after another by expert, so that those of one expert share its
 * weights; experts are taken together as long as there is room for their pairs (expert_pairs). */
#include "ffn_job.h"
#include "forward.h"
#include "products.h"

#include <string.h>

/* Columns per work item when the results of pairs are added up. */
#define ADD_COLUMNS 256

typedef struct expert_work {
    ffn_job job;               /* with the matrices and biases of all experts */
    const experts_io *io;      /* of the layer                                */
    size_t first, count;       /* rows of the batch                           */
    size_t group_count, pairs; /* in scratch.groups, scratch.members          */
} expert_work;

/* Lists the pairs of experts from `expert` on, while there is room. Returns the first expert that was left out. */
static uint32_t list_pairs(expert_work *w, uint32_t expert)
{
    const scratch *b = &w->job.s->scratch;
    const uint32_t experts = w->job.l->ffn.router.expert_count, *begins = w->job.e->expert_begins;
    size_t room = expert_pairs(w->job.s->batch, w->job.l->ffn.router.used);
    for (w->group_count = w->pairs = 0; expert < experts && w->pairs + w->count <= room; expert++) {
        if (w->job.e->rows && begins[expert] == begins[expert + 1])
            continue; /* it is the device's */
        expert_group g = {expert, (uint32_t)w->pairs, 0};
        for (size_t t = w->first; t < w->first + w->count; t++) {
            if (b->shares[t * experts + expert] == 0)
                continue;
            b->members[w->pairs] = (uint32_t)t;
            b->chosen[w->pairs++] = expert;
            g.count++;
        }
        if (g.count > 0)
            b->groups[w->group_count++] = g;
    }
    return expert;
}

/* Returns what the expert of a pair is multiplied with. */
static float share_of(const expert_work *w, size_t pair)
{
    const scratch *b = &w->job.s->scratch;
    return b->shares[b->members[pair] * (size_t)w->job.l->ffn.router.expert_count + b->chosen[pair]];
}

/* Items are pairs. Copies their inputs next to each other. */
static void collect(void *context, size_t begin, size_t end, unsigned worker)
{
    (void)worker;
    const expert_work *w = context;
    const scratch *b = &w->job.s->scratch;
    size_t width = w->io->width;
    bool weighs = w->job.l->ffn.router.weighs_input;
    for (size_t i = begin; i < end; i++) {
        memcpy(b->expert_in + i * width, w->io->from + b->members[i] * width, width * sizeof *b->expert_in);
        if (weighs)
            forward_scale(share_of(w, i), width, b->expert_in + i * width);
    }
}

/* Items are pairs. */
static void activate(void *context, size_t begin, size_t end, unsigned worker)
{
    (void)worker;
    const expert_work *w = context;
    const ffn_job *job = &w->job;
    const scratch *b = &job->s->scratch;
    size_t f = job->neuron_count;
    for (size_t i = begin; i < end; i++) {
        size_t row = b->chosen[i] * f;
        ffn_activate_row(job, job->first_bias ? job->first_bias + row : NULL,
                         job->second_bias ? job->second_bias + row : NULL, i);
    }
}

/* Items are columns. Adds the results of pairs to the rows of the batch, by their shares. */
static void add_up(void *context, size_t begin, size_t end, unsigned worker)
{
    (void)worker;
    const expert_work *w = context;
    const scratch *b = &w->job.s->scratch;
    const float *biases = ffn_down_biases(w->job.s, w->io->layer);
    size_t width = w->io->width;
    for (size_t i = 0; i < w->pairs; i++) {
        float share = w->job.l->ffn.router.weighs_input ? 1 : share_of(w, i);
        float *from = b->expert_out + i * width, *to = w->io->to + b->members[i] * width;
        if (biases)
            kernels_of(&w->job)->add(biases + b->chosen[i] * width + begin, end - begin, from + begin);
        for (size_t c = begin; c < end; c++)
            to[c] += share * from[c];
    }
}

/* Computes the pairs that are listed. */
static void compute_pairs(expert_work *w)
{
    hearth_session *s = w->job.s;
    const scratch *b = &s->scratch;
    const ffn_job *job = &w->job;
    pool *threads = s->engine->runtime->threads;
    uint32_t f = job->l->ffn.expert_neurons, width = (uint32_t)w->io->width;
    const matrix *reads[] = {&job->first, &job->second}, *down = &job->down;
    pool_run(threads, w->pairs, 1, collect, w);
    kernel_input in = products_input(s, b->expert_in, w->pairs, width, reads, 2, &b->rounded);
    multiply_experts(s, &in, b->groups, w->group_count,
                     (expert_product[]){{&job->first, b->gate, f, job->l->expert_stride},
                                        {&job->second, b->up, f, job->l->expert_stride}},
                     job->second.data ? 2 : 1);
    pool_run(threads, w->pairs, 1, activate, w);
    kernel_input h = products_input(s, job->h, w->pairs, f, &down, 1, &b->rounded);
    multiply_experts(s, &h, b->groups, w->group_count, &(expert_product){down, b->expert_out, width, width}, 1);
    pool_run(threads, width, ADD_COLUMNS, add_up, w);
}

bool ffn_takes_whole_experts(const hearth_session *s, uint32_t layer)
{
    const model_layer *l = &s->engine->model->layers[layer];
    const engine_layer *e = &s->engine->layers[layer];
    return !e->down_t.data && selectors[e->selector].predictor == PREDICTOR_NONE && !l->mask_in.data &&
           !l->ffn_inner_norm.weight && !s->inputs && !s->observer.see;
}

void ffn_compute_whole_experts(hearth_session *s, const experts_io *io, size_t first, size_t count)
{
    expert_work w = {.job = ffn_describe(s, io->layer, count), .io = io, .first = first, .count = count};
    hearth_counts *counts = &s->counts[io->layer];
    w.job.neuron_count = w.job.l->ffn.expert_neurons;
    for (uint32_t expert = 0; expert < w.job.l->ffn.router.expert_count;) {
        expert = list_pairs(&w, expert);
        if (w.pairs == 0)
            continue;
        compute_pairs(&w);
        counts->computed += w.pairs * w.job.neuron_count;
        counts->fired += w.pairs * w.job.neuron_count;
        counts->active += w.pairs * w.job.neuron_count;
    }
}
