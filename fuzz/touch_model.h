/* touch_model.h - reads every weight of a model, and ends the program where a shape is not what the engine takes it for. */
#ifndef FUZZ_TOUCH_MODEL_H
#define FUZZ_TOUCH_MODEL_H

#include "touch.h"

#include "../src/model/model.h"

#include <math.h>

static inline void touch_matrix(const matrix *m)
{
    touch_bytes(m->data, m->rows * m->row_bytes);
}

static inline void touch_norm(const norm_weights *n, uint32_t count)
{
    touch_bytes(n->weight, n->weight ? count * sizeof(float) : 0);
    touch_bytes(n->bias, n->bias ? count * sizeof(float) : 0);
}

static inline void touch_values(const float *data, uint64_t count)
{
    touch_bytes(data, data ? (size_t)count * sizeof(*data) : 0);
}

/* One key for all heads, its summaries, and matrices of groups of heads. */
static inline void touch_summaries(const model_layer *l)
{
    const attention_shape *a = &l->attention;
    const summary_shape *s = &a->summary;
    uint32_t length = s->parts * a->head_length;
    touch_matrix(&l->summary_value);
    touch_matrix(&l->summary_gate);
    touch_values(l->summary_bias, (uint64_t)s->together * length);
    touch_norm(&l->summary_norm, a->head_length);
    if (a->one_key && (a->kv_head_count != 1 || a->window == 0 || a->output_groups == 0 || a->query_rank == 0 ||
                       l->q.columns != a->query_rank || l->output_in.rows != a->output_groups * a->output_rank ||
                       l->output_in.columns * a->output_groups != read_width(a)))
        abort();
    if (s->together > 0 && (!a->one_key || KV_PAGE % s->together != 0 || l->summary_value.rows != length ||
                            l->summary_gate.rows != length || !l->summary_bias || !l->summary_norm.weight ||
                            l->recurrent.more != 3 * s->parts * (a->head_length + a->index.head_length)))
        abort();
}

static inline void touch_attention(const model_layer *l, uint32_t d)
{
    const attention_shape *a = &l->attention;
    const matrix *const all[] = {&l->q,          &l->k,        &l->v,           &l->attention_output, &l->query_in,
                                 &l->key_up,     &l->value_up, &l->index_query, &l->index_key,        &l->index_weight,
                                 &l->index_gate, &l->output_in};
    for (size_t k = 0; k < sizeof(all) / sizeof(*all); k++)
        touch_matrix(all[k]);
    uint32_t query = query_width(a), key = key_width(a);
    touch_norm(&l->attention_post_norm, d);
    touch_norm(&l->query_norm, a->norm_whole ? query : a->head_length);
    touch_norm(&l->key_norm, a->norm_whole ? key : a->head_length);
    touch_norm(&l->attention_inner_norm, read_width(a));
    touch_norm(&l->query_in_norm, a->query_rank);
    touch_norm(&l->compressed_norm, a->compressed);
    touch_norm(&l->index_key_norm, a->index.head_length);
    touch_norm(&l->index_query_norm, a->index.head_length);
    bool plain = a->index.plain && a->index.head_count > 0;
    uint32_t parts = a->summary.together > 0 ? a->summary.parts : 1;
    if (a->index.head_count > 0 &&
        (a->chosen == 0 || a->chosen_back > 0 || l->index_query.rows != a->index.head_count * a->index.head_length ||
         l->index_query.columns != (plain ? d : a->query_rank) || l->index_key.rows != parts * a->index.head_length ||
         l->index_weight.rows != (plain ? 0 : a->index.head_count) || !a->index.rotary != !a->rotary))
        abort();
    const rotary *of_pools =
        a->index.by_head ? NULL : a->rotary; /* there are no means of pools where heads choose alone */
    if (plain && (!l->index_query_norm.weight || !l->index_key_norm.weight || !a->index.pool_rotary != !of_pools ||
                  (a->rotary && 2 * a->rotary->pairs > a->index.head_length)))
        abort();
    if (a->chosen > 0 && (a->pool == 0 || KV_PAGE % a->pool != 0 || a->chosen % a->pool != 0))
        abort();
    bool gates = a->index.head_count > 0 && a->pool > 1 && !plain;
    if (l->index_gate.rows != (gates ? parts * a->index.head_length : 0) || !l->index_gate_bias != !gates)
        abort();
    touch_values(l->index_gate_bias, (uint64_t)a->pool * parts * a->index.head_length);
    touch_summaries(l);
    touch_values(l->sinks, a->head_count);
    touch_values(l->q_bias, query);
    touch_values(l->k_bias, key);
    touch_values(l->v_bias, a->compressed > 0 ? 0 : value_width(a));
    if (a->compressed == 0 && (a->value_length > a->head_length || (l->v.data && l->v.rows != value_width(a))))
        abort();
    touch_values(l->attention_output_bias, d);
    uint32_t made = a->compressed > 0 ? a->head_count * short_query(a) : query * (layer_gates_in_query(l) ? 2 : 1);
    if (a->head_count % a->kv_head_count != 0 || l->q.rows != made || l->attention_output.columns != result_width(a))
        abort();
    if (a->compressed > 0 && (l->key_up.rows != a->head_count * a->compressed || l->key_up.columns != a->unrotated ||
                              l->value_up.rows != a->head_count * a->value_length || l->v.data))
        abort();
    touch_matrix(&l->attention_gate);
    if (l->attention_gate.data && (a->gate_length == 0 || l->attention_gate.rows != gate_width(a)))
        abort();
    if (a->chunked && a->window == 0)
        abort();
    if (a->norm_turned && (!l->query_norm.weight || l->key_norm.weight || a->norm_whole))
        abort();
    if (a->keys_back == 0 && (l->k.rows != key || (l->v.data && l->v.rows != key)))
        abort();
}

static inline void touch_rwkv(const model_layer *l)
{
    const recurrent_shape *r = &l->recurrent;
    const matrix *const whole[] = {&l->q, &l->k, &l->v, &l->recurrent_output};
    const float *const vectors[] = {l->removal_scale,  l->rate_share,          l->bonus,
                                    l->recurrent_norm, l->recurrent_norm_bias, l->network_mix};
    uint32_t d = recurrent_width(r);
    for (size_t k = 0; k < sizeof(whole) / sizeof(*whole); k++) {
        touch_matrix(whole[k]);
        if (!whole[k]->data || whole[k]->rows != d || whole[k]->columns != d)
            abort();
    }
    for (size_t k = 0; k < sizeof(vectors) / sizeof(*vectors); k++) {
        touch_values(vectors[k], d);
        if (!vectors[k])
            abort();
    }
    touch_values(l->input_mix, (uint64_t)RWKV_INPUTS * d);
    for (size_t k = 0; k < LOW_RANK_MAPS; k++) {
        const low_rank_map *m = &l->low_rank[k];
        touch_matrix(&m->in);
        touch_matrix(&m->out);
        touch_values(m->bias, d);
        if (m->in.rows != r->ranks[k] || m->out.columns != r->ranks[k] || (r->ranks[k] > 0 && m->out.rows != d) ||
            (r->ranks[k] > 0 && !m->bias != (k == MAP_GATE)))
            abort();
    }
    if (!l->input_mix || r->window != 2 || r->key_length != r->value_length || r->head_count * r->key_length != d)
        abort();
}

/* Of two matrices of low rank the second gives the result, where the rank is 0 the first. */
static inline void touch_map(const low_rank_map *m, uint32_t rank, uint32_t width)
{
    touch_matrix(&m->in);
    touch_matrix(&m->out);
    if (m->in.rows != (rank > 0 ? rank : width) || m->out.columns != rank || (rank > 0 && m->out.rows != width))
        abort();
}

static inline void touch_kda(const model_layer *l)
{
    const recurrent_shape *r = &l->recurrent;
    const matrix *const whole[] = {&l->q, &l->k, &l->v};
    uint32_t width = recurrent_width(r);
    for (size_t k = 0; k < sizeof(whole) / sizeof(*whole); k++) {
        touch_matrix(whole[k]);
        if (!whole[k]->data || whole[k]->rows != width)
            abort();
    }
    touch_map(&l->low_rank[MAP_DECAY], r->ranks[MAP_DECAY], width);
    touch_map(&l->low_rank[MAP_GATE], r->ranks[MAP_GATE], width);
    touch_matrix(&l->beta);
    touch_matrix(&l->recurrent_output);
    touch_values(l->convolution, (uint64_t)recurrent_channels(r) * r->window);
    touch_values(l->low_rank[MAP_DECAY].bias, width);
    touch_values(l->decay, r->head_count);
    touch_values(l->recurrent_norm, r->value_length);
    if (l->beta.rows != r->head_count || l->recurrent_output.columns != width || r->key_length != r->value_length ||
        r->key_count != r->head_count || recurrent_channels(r) != 3 * width || !l->convolution || !l->decay ||
        !l->recurrent_norm || !l->low_rank[MAP_DECAY].bias || r->window < 2 || r->window > CONVOLUTION_LIMIT ||
        (r->ranks[MAP_DECAY] == 0 && !(r->decay_floor < 0)))
        abort();
}

static inline void touch_recurrent(const model_layer *l)
{
    const recurrent_shape *r = &l->recurrent;
    if (recurrent_by_columns(r)) {
        (r->rule == RECURRENCE_KDA ? touch_kda : touch_rwkv)(l);
        return;
    }
    const matrix *const all[] = {&l->recurrent_in, &l->recurrent_gate, &l->convolved,
                                 &l->step,         &l->beta,           &l->recurrent_output};
    for (size_t k = 0; k < sizeof(all) / sizeof(*all); k++)
        touch_matrix(all[k]);
    uint32_t channels = recurrent_channels(r);
    bool delta = r->rule == RECURRENCE_DELTA;
    touch_values(l->convolution, (uint64_t)channels * r->window);
    touch_values(l->convolution_bias, channels);
    touch_values(l->step_bias, r->head_count);
    touch_values(l->decay, r->head_count);
    touch_values(l->skip, r->head_count);
    touch_values(l->recurrent_norm, delta ? r->value_length : recurrent_width(r));
    if (r->head_count % r->key_count != 0 || r->window == 0 || r->window > CONVOLUTION_LIMIT)
        abort();
    if (l->convolved.rows != channels || l->recurrent_gate.rows != recurrent_width(r))
        abort();
    touch_matrix(&l->input_gate);
    if (r->rule == RECURRENCE_SHORT) {
        if (!l->convolution || l->input_gate.rows != channels)
            abort();
        return;
    }
    if (l->step.rows != r->head_count)
        abort();
    if (!l->convolution || !l->step_bias || !l->decay || !l->recurrent_norm || !l->beta.data == delta)
        abort();
}

static inline void touch_network(const model_layer *l, uint32_t d, uint32_t tokens)
{
    const matrix *const all[] = {&l->gate,      &l->up,          &l->down,          &l->down_t,    &l->fc1,
                                 &l->fc2,       &l->router,      &l->mask_in,       &l->mask_out,  &l->shared.gate,
                                 &l->shared.up, &l->shared.down, &l->shared.down_t, &l->latent_in, &l->latent_out};
    for (size_t k = 0; k < sizeof(all) / sizeof(*all); k++)
        touch_matrix(all[k]);
    uint32_t f = ffn_routed(&l->ffn), experts = l->ffn.router.expert_count;
    const norm_weights *const norms[] = {&l->ffn_norm,          &l->ffn_post_norm,    &l->experts_norm,
                                         &l->experts_post_norm, &l->shared_post_norm, &l->router_norm};
    for (size_t k = 0; k < sizeof(norms) / sizeof(*norms); k++)
        touch_norm(norms[k], d);
    touch_norm(&l->ffn_inner_norm, f);
    touch_values(l->gate_bias, f);
    touch_values(l->up_bias, f);
    touch_values(l->down_bias, (uint64_t)d * ffn_experts(&l->ffn));
    touch_values(l->router_bias, experts);
    touch_values(l->router_correction, experts);
    touch_values(l->expert_scales, experts);
    touch_values(l->shared_gate, d);
    touch_bytes(l->token_experts, l->token_experts ? (size_t)tokens * l->ffn.router.used * sizeof(int32_t) : 0);
    for (uint64_t k = 0; l->token_experts && k < (uint64_t)tokens * l->ffn.router.used; k++)
        if (l->token_experts[k] < 0 || (uint32_t)l->token_experts[k] >= experts)
            abort();
    if (!l->token_experts != !l->ffn.router.by_token)
        abort();
    for (uint32_t k = 0; l->order && k < f; k++)
        if (l->order[k] < 0 || (uint32_t)l->order[k] >= f)
            abort();
    if (experts > 0 && (l->ffn.router.used == 0 || l->ffn.router.used > experts))
        abort();
    if (!l->down.data == !l->down_t.data || !l->fc1.data != !l->fc2.data || l->fc1.rows != l->fc2.columns)
        abort();
    if (!l->latent_in.data != (l->ffn.latent == 0) || !l->latent_out.data != (l->ffn.latent == 0))
        abort();
    if (l->ffn.cuts && !isfinite(l->ffn.cut))
        abort();
}

/* What makes one of all streams by gates, of a block or at the end. */
static inline void touch_gates(const gated_connection *c, const hyperparameters *h, bool injects)
{
    uint32_t all = h->stream_count * h->embedding_length, rank = h->connection_rank;
    touch_matrix(&c->down);
    touch_matrix(&c->up);
    touch_matrix(&c->inject);
    touch_values(c->norm, all);
    if (rank > 0 && (!c->norm || c->down.rows != rank || c->down.columns != all || c->up.rows != all ||
                     c->up.columns != rank || c->inject.rows != (injects ? h->stream_count : 0)))
        abort();
}

/* What adds n-grams: every row that a token can read is there. */
static inline void touch_ngrams(const hearth_model *m, const model_layer *l)
{
    const hyperparameters *h = &m->hyper;
    const ngram_shape *n = &h->ngrams;
    uint64_t all = (uint64_t)h->stream_count * h->embedding_length;
    if (!l->ngrams)
        return;
    touch_matrix(&l->ngram.key);
    touch_matrix(&l->ngram.value);
    touch_values(l->ngram.key_norm, all);
    touch_values(l->ngram.stream_norm, all);
    touch_values(l->ngram.convolved_norm, all);
    touch_values(l->ngram.convolution, all * n->window);
    if (l->mixer != MIXER_RECURRENT || l->recurrent.more != (n->window - 1) * n->longest * all ||
        ngram_heads(n) * n->row_length != h->embedding_length || m->ngram_rows.columns != n->row_length ||
        l->ngram.key.rows != all || l->ngram.value.rows != h->embedding_length || n->longest > NGRAM_LIMIT)
        abort();
    for (uint32_t i = 0; i < ngram_heads(n); i++)
        if (n->rows[i] == 0 || n->first[i] + n->rows[i] > m->ngram_rows.rows)
            abort();
}

/* What connects a block with the streams. */
static inline void touch_connection(const stream_connection *c, const hyperparameters *h)
{
    uint32_t n = h->connection_rank > 0 ? 0 : hyper_connections(h);
    touch_matrix(&c->weights);
    touch_values(c->base, n);
    touch_values(c->scale, CONNECTION_SCALES);
    bool there = c->weights.data && c->base && c->scale;
    if (n > 0 && (!there || c->weights.rows != n || c->weights.columns != h->stream_count * h->embedding_length))
        abort();
}

/* What a layer has for its own inputs and for streams. */
static inline void touch_inputs(const model_layer *l, const hyperparameters *h)
{
    const stream_weights *s = &l->streams;
    const matrix *const all[] = {&l->per_layer_gate, &l->per_layer_output, &s->router, &s->laurel_in, &s->laurel_out};
    for (size_t k = 0; k < sizeof(all) / sizeof(*all); k++)
        touch_matrix(all[k]);
    touch_connection(&l->mixer_connection, h);
    touch_connection(&l->network_connection, h);
    touch_gates(&l->mixer_gates, h, true);
    touch_gates(&l->network_gates, h, true);
    touch_norm(&l->per_layer_post_norm, h->embedding_length);
    touch_norm(&s->router_norm, h->embedding_length);
    touch_norm(&s->laurel_norm, h->embedding_length);
    touch_values(s->predict, (uint64_t)h->stream_count * h->stream_count * h->stream_count);
    touch_values(s->correct, (uint64_t)h->stream_count * h->stream_count);
    touch_values(s->correct_scale, h->embedding_length);
    touch_values(l->output_scale, 1);
    bool predicted = h->stream_count > 1 && hyper_connections(h) == 0;
    if (!l->per_layer_gate.data != (h->per_layer_length == 0) || !s->router.data != !predicted)
        abort();
}

/* Layers that read the keys of another must find some, of their own shape. */
static inline void check_shared_keys(const hearth_model *m, uint32_t layer)
{
    const model_layer *l = &m->layers[layer];
    if (l->attention.keys_back == 0)
        return;
    if (l->attention.keys_back > layer)
        abort();
    const model_layer *owner = l - l->attention.keys_back;
    if (owner->attention.keys_back > 0 || owner->attention.head_length != l->attention.head_length ||
        owner->attention.kv_head_count != l->attention.kv_head_count)
        abort();
}

static inline void touch_model(const hearth_model *m)
{
    const hyperparameters *h = &m->hyper;
    const matrix *const all[] = {
        &m->embedding, &m->head,       &m->positions, &m->per_layer_tokens, &m->per_layer_projection,
        &m->stream_in, &m->stream_out, &m->ngram_rows};
    for (size_t k = 0; k < sizeof(all) / sizeof(*all); k++)
        touch_matrix(all[k]);
    touch_gates(&m->end_gates, h, false);
    touch_norm(&m->output_norm, h->embedding_length);
    touch_norm(&m->embedding_norm, h->embedding_length);
    touch_norm(&m->per_layer_norm, h->per_layer_length);
    for (uint32_t i = 0; i < h->layer_count; i++) {
        const model_layer *l = &m->layers[i];
        touch_norm(&l->attention_norm, h->embedding_length);
        if (l->mixer == MIXER_ATTENTION)
            touch_attention(l, h->embedding_length);
        if (l->mixer == MIXER_RECURRENT)
            touch_recurrent(l);
        if (l->ffn.neuron_count > 0)
            touch_network(l, h->embedding_length, h->vocabulary_size);
        else if (l->mixer == MIXER_NONE)
            abort();
        touch_inputs(l, h);
        touch_ngrams(m, l);
        check_shared_keys(m, i);
    }
    for (uint32_t r = 0; r < m->rotary_count; r++)
        for (uint32_t i = 0; i < m->rotaries[r].pairs; i++)
            if (!isfinite(m->rotaries[r].frequencies[i]) || !isfinite(m->rotaries[r].magnitude))
                abort();
    if (!(h->norm_epsilon >= 0))
        abort();
}

#endif
