/* scratch.c - see scratch.h. Buffers that no layer of a model needs have no bytes. */
#include "scratch.h"

#include "choice.h"
#include "ffn.h"
#include "recall.h"
#include "summaries.h"

#include "../base/memory.h"

/* Size of a cache line. */
#define PIECE_ALIGNMENT 64

/* Cuts the memory block of a session into pieces, each aligned to a cache line; without a block it only counts. */
typedef struct layout {
    char *block;       /* NULL: pieces are NULL                    */
    size_t size_bytes; /* of the pieces so far; SIZE_MAX: overflow */
} layout;

/* Takes a piece of count items; on overflow the size becomes SIZE_MAX. */
static void *take(layout *l, size_t count, size_t item_bytes)
{
    void *piece = l->block ? l->block + l->size_bytes : NULL;
    size_t bytes, end;
    if (!size_multiply(count, item_bytes, &bytes) || !size_add(bytes, PIECE_ALIGNMENT - 1, &bytes) ||
        !size_add(l->size_bytes, bytes / PIECE_ALIGNMENT * PIECE_ALIGNMENT, &end))
        end = SIZE_MAX;
    l->size_bytes = end;
    return piece;
}

uint32_t scratch_widest_input(const hearth_model *m)
{
    layer_sizes most = model_largest(m);
    uint32_t widest = m->hyper.embedding_length;
    widest = widest > most.result ? widest : most.result;
    widest = widest > most.head_in ? widest : most.head_in;
    widest = widest > most.query_rank ? widest : most.query_rank;
    widest = widest > most.recurrent ? widest : most.recurrent;
    widest = widest > most.latent ? widest : most.latent;
    widest = widest > most.low_rank ? widest : most.low_rank;
    widest = widest > m->hyper.per_layer_length ? widest : m->hyper.per_layer_length;
    uint32_t streams = most.connections > 0 ? m->hyper.stream_count * m->hyper.embedding_length : 0;
    widest = widest > streams ? widest : streams;
    widest = widest > m->hyper.connection_rank ? widest : m->hyper.connection_rank;
    for (uint32_t i = 0; i < m->hyper.layer_count; i++)
        widest = widest > m->layers[i].mask_out.columns ? widest : m->layers[i].mask_out.columns;
    return widest > most.network ? widest : most.network;
}

/* Takes the buffers of rounded rows; one extra entry per row covers an incomplete block. */
static rounded_rows take_rounded(layout *l, const hearth_engine *e, size_t rows, size_t columns)
{
    rounded_rows r = {0};
    r.q = take(l, rows * columns, sizeof *r.q);
    r.scales = take(l, rows * (columns / Q8_BLOCK + 1), sizeof *r.scales);
    r.sums = take(l, rows * (columns / Q8_SUM + 1), sizeof *r.sums);
    if (e->activations == HEARTH_ACTIVATIONS_BF16)
        r.bfloats = take(l, rows * columns, sizeof *r.bfloats);
    return r;
}

uint32_t scratch_widest_hidden(const hearth_engine *e)
{
    uint32_t widest = 0;
    for (uint32_t i = 0; i < e->model->hyper.layer_count; i++) {
        const model_layer *l = &e->model->layers[i];
        uint32_t rank = l->mask_in.data ? l->mask_out.columns : e->layers[i].predictor.fc1.rows;
        widest = widest > rank ? widest : rank;
    }
    return widest;
}

static size_t largest(size_t a, size_t b, size_t c)
{
    size_t most = a > b ? a : b;
    return most > c ? most : c;
}

/* The rows of all heads of latent attention that are multiplied together. */
static size_t head_rows(const layer_sizes *most, size_t rows)
{
    return (size_t)most->latent_heads * (rows < LATENT_ROWS ? rows : LATENT_ROWS);
}

/* Takes the buffers of attention before its result. */
static void take_attention(layout *l, scratch *b, const layer_sizes *most, size_t rows)
{
    bool own = most->latent_heads > 0; /* heads, or groups of them, have matrices of their own */
    b->query = take(l, rows * most->query, sizeof *b->query);
    b->key = take(l, rows * most->key, sizeof *b->key);
    b->value = take(l, rows * most->key, sizeof *b->value);
    b->query_in = take(l, rows * most->query_rank, sizeof *b->query_in);
    b->short_query = take(l, rows * most->short_query, sizeof *b->short_query);
    b->short_key = take(l, own ? rows * most->key : 0, sizeof *b->short_key);
    b->head_in = take(l, head_rows(most, rows) * most->head_in, sizeof *b->head_in);
    b->head_out = take(l, head_rows(most, rows) * most->head_out, sizeof *b->head_out);
    b->head_groups = take(l, most->latent_heads, sizeof *b->head_groups);
    b->result = take(l, own ? rows * most->result : 0, sizeof *b->result);
    b->gated_query = take(l, rows * most->gated_query, sizeof *b->gated_query);
}

/* Returns the most keys that are brought together for a row: those that are chosen, or of its window and of summaries. */
static size_t most_gathered(const hearth_session *s)
{
    const hearth_model *m = s->engine->model;
    size_t most = 0;
    for (uint32_t i = 0; i < m->hyper.layer_count; i++) {
        const attention_shape *a = &m->layers[i].attention;
        size_t keys = a->summary.together > 0 ? summaries_most(s, a) : choice_matters(s, a) ? choice_limit(a) : 0;
        most = keys > most ? keys : most;
    }
    return most;
}

/* Takes the buffers of layers that choose positions or have summaries. Those of a device need no more than what crosses the bus. */
static void take_choice(layout *l, const hearth_session *s, choice_buffers *b, const layer_sizes *most, size_t threads)
{
    bool limits = most->chosen > 0 && s->context > most->chosen, here = s->engine->host_caches > 0;
    size_t rows = s->batch, chosen = here ? most_gathered(s) : 0, scored = limits && here ? rows : 0;
    size_t row_bytes = 0;
    for (uint32_t i = 0; i < s->engine->host_caches; i++) {
        size_t bytes = kv_row_bytes(s->cache.format, s->engine->cached[i]);
        row_bytes = bytes > row_bytes ? bytes : row_bytes;
    }
    b->page_count = chosen > 0 ? chosen / KV_PAGE + 1 : 0;
    b->key = take(l, here ? rows * most->index_length : 0, sizeof *b->key);
    b->gate = take(l, here ? rows * most->pooled : 0, sizeof *b->gate);
    b->pooled = take(l, here ? threads * POOL_BUFFERS * most->pooled : 0, sizeof *b->pooled);
    b->weight = take(l, scored * most->index_heads, sizeof *b->weight);
    b->query = take(l, scored * most->index_heads * most->index_length, sizeof *b->query);
    b->scores =
        take(l, scored > 0 ? CHOICE_ROWS * (size_t)(s->context / most->pool) * most->choosers : 0, sizeof *b->scores);
    b->seen = take(l, limits ? rows * most->choosers * choice_words(s) : 0, sizeof *b->seen);
    b->list = take(l, chosen, sizeof *b->list);
    b->keys = take(l, b->page_count * KV_PAGE, row_bytes);
    b->pages = take(l, b->page_count, sizeof *b->pages);
}

/* Takes the buffers of summaries. */
static void take_summaries(layout *l, const hearth_session *s, summary_buffers *b, const layer_sizes *most)
{
    b->value = take(l, (size_t)s->batch * most->summary, sizeof *b->value);
    b->gate = take(l, (size_t)s->batch * most->summary, sizeof *b->gate);
    b->pooled = take(l, (size_t)s->batch * most->summary, sizeof *b->pooled);
}

/* Takes the buffers of mixers with decays by columns. */
static void take_columns(layout *l, column_buffers *b, const layer_sizes *most, size_t rows)
{
    float **const each[] = {&b->query, &b->key, &b->value, &b->decay, &b->asked, &b->removed, &b->first_value};
    for (size_t i = 0; i < sizeof each / sizeof *each; i++)
        *each[i] = take(l, rows * most->columns, sizeof **each[i]);
    b->hidden = take(l, 2 * rows * most->low_rank, sizeof *b->hidden); /* KDA has two at a time */
}

/* Takes the buffers of several streams of the residual. */
static void take_streams(layout *l, scratch *b, const hyperparameters *h, uint32_t connections, size_t rows)
{
    size_t d = h->embedding_length;
    if (h->stream_count < 2)
        return;
    b->streams = take(l, h->stream_count * rows * d, sizeof *b->streams);
    b->stream_weights = take(l, rows * (connections > 0 ? connections : h->stream_count), sizeof *b->stream_weights);
    size_t gated = h->connection_rank > 0 ? rows * d : 0;
    b->stream_norms = take(l, h->stream_count * gated, sizeof *b->stream_norms);
    b->stream_gates = take(l, h->stream_count * gated, sizeof *b->stream_gates);
    b->stream_low = take(l, rows * h->connection_rank, sizeof *b->stream_low);
    b->block_read = take(l, gated, sizeof *b->block_read);
    b->ngrams = take(l, h->ngrams.longest > 0 ? rows * d : 0, sizeof *b->ngrams);
    b->laurel_in = take(l, rows * h->laurel_rank, sizeof *b->laurel_in);
    b->laurel = take(l, h->laurel_rank > 0 ? rows * d : 0, sizeof *b->laurel);
}

size_t scratch_lay_out(hearth_session *s, size_t threads, void *block)
{
    const hyperparameters *h = &s->engine->model->hyper;
    layer_sizes most = model_largest(s->engine->model);
    size_t rows = s->batch, d = h->embedding_length, f = most.neurons, query = most.query;
    size_t pairs = expert_pairs(rows, most.used), widest_expert = d > most.latent ? d : most.latent;
    /* rows of one network each, or of one expert each, or one row of all experts that it uses */
    size_t activations = largest(rows * most.network, pairs * most.expert, most.listed);
    size_t inputs =
        largest(rows * s->widest, pairs * (most.expert > widest_expert ? most.expert : widest_expert), most.listed);
    size_t of_heads = head_rows(&most, rows) * most.head_in;
    inputs = inputs > of_heads ? inputs : of_heads;
    size_t rounded = (inputs + s->widest - 1) / s->widest;
    scratch *b = &s->scratch;
    layout l = {block, 0};
    b->x = take(&l, rows * d, sizeof *b->x);
    b->normed = take(&l, rows * d, sizeof *b->normed);
    b->added = take(&l, rows * d, sizeof *b->added);
    bool beside = s->engine->model->family->wiring == WIRING_PARALLEL || s->engine->model->family->dense_beside;
    b->beside = take(&l, beside ? rows * d : 0, sizeof *b->beside);
    take_attention(&l, b, &most, rows);
    b->mixed = take(&l, rows * (query > most.recurrent ? query : most.recurrent), sizeof *b->mixed);
    b->convolved = take(&l, rows * most.channels, sizeof *b->convolved);
    b->recurrent_gate = take(&l, rows * most.recurrent, sizeof *b->recurrent_gate);
    b->step = take(&l, rows * most.recurrent_heads, sizeof *b->step);
    b->beta = take(&l, rows * most.recurrent_heads, sizeof *b->beta);
    take_columns(&l, &b->columns, &most, rows);
    take_choice(&l, s, &b->choice, &most, threads);
    take_summaries(&l, s, &b->summary, &most);
    b->runs = take(&l, rows, sizeof *b->runs);
    b->gate = take(&l, activations, sizeof *b->gate);
    b->up = take(&l, activations, sizeof *b->up);
    b->rounded = take_rounded(&l, s->engine, rounded, s->widest);
    if (most.experts > 0) {
        b->router = take(&l, rows * most.experts, sizeof *b->router);
        b->shares = take(&l, rows * most.experts, sizeof *b->shares);
        b->expert_in = take(&l, pairs * widest_expert, sizeof *b->expert_in);
        b->expert_out = take(&l, pairs * widest_expert, sizeof *b->expert_out);
        b->latent_in = take(&l, rows * most.latent, sizeof *b->latent_in);
        b->latent_out = take(&l, rows * most.latent, sizeof *b->latent_out);
        b->expert_normed = take(&l, s->engine->model->family->dense_beside ? rows * d : 0, sizeof *b->expert_normed);
        b->expert_rows = take(&l, most.listed, sizeof *b->expert_rows);
        b->expert_places = take(&l, most.listed, sizeof *b->expert_places);
        b->shared_shares = take(&l, rows, sizeof *b->shared_shares);
        b->seen_experts = take(&l, most.experts, sizeof *b->seen_experts);
        b->members = take(&l, pairs, sizeof *b->members);
        b->chosen = take(&l, pairs, sizeof *b->chosen);
        b->groups = take(&l, most.experts, sizeof *b->groups);
    }
    if (h->per_layer_length > 0) {
        size_t all = (size_t)h->per_layer_length * h->layer_count;
        b->per_layer = take(&l, rows * all, sizeof *b->per_layer);
        b->per_layer_row = take(&l, threads * all, sizeof *b->per_layer_row);
        b->per_layer_gate = take(&l, rows * h->per_layer_length, sizeof *b->per_layer_gate);
    }
    take_streams(&l, b, h, most.connections, rows);
    if (s->engine->uses_predictors) {
        b->rounded_hidden = take_rounded(&l, s->engine, rows, s->widest_hidden);
        b->hidden = take(&l, rows * s->widest_hidden, sizeof *b->hidden);
        b->score = take(&l, rows * most.network > f ? rows * most.network : f, sizeof *b->score);
        b->expert_x = take(&l, most.experts > 0 ? rows * d : 0, sizeof *b->expert_x);
        b->size = take(&l, rows, sizeof *b->size);
    }
    b->squares = take(&l, rows, sizeof *b->squares);
    b->parts = take(&l, FFN_SLICES, sizeof *b->parts);
    b->list = take(&l, f, sizeof *b->list);
    b->wanted = take(&l, f, sizeof *b->wanted);
    b->sums = take(&l, FFN_FEW * FFN_SLICES * (d > most.latent ? d : most.latent), sizeof *b->sums);
    b->chunk_sums = take(&l, threads * FFN_GROUP * ACCUMULATE_COLUMNS, sizeof *b->chunk_sums);
    b->seen = take(&l, f, sizeof *b->seen);
    b->seen_gates = take(&l, f, sizeof *b->seen_gates);
    b->seen_neurons = take(&l, f, sizeof *b->seen_neurons);
    b->pieces = take(&l, rows, sizeof *b->pieces);
    uint32_t together = most.group < ITEM_QUERIES ? most.group : ITEM_QUERIES;
    b->score_count = most_gathered(s) > s->context ? most_gathered(s) : s->context;
    b->scores = take(&l, threads * together * b->score_count, sizeof *b->scores);
    b->cosine = take(&l, rows * most.rotated, sizeof *b->cosine);
    b->sine = take(&l, rows * most.rotated, sizeof *b->sine);
    b->sequence = take(&l, rows, sizeof *b->sequence);
    b->position = take(&l, rows, sizeof *b->position);
    b->moments = take(&l, h->layer_count, sizeof *b->moments);
    s->counts = take(&l, h->layer_count, sizeof *s->counts);
    s->device_counts = take(&l, h->layer_count, sizeof *s->device_counts);
    s->counts_before = take(&l, h->layer_count, sizeof *s->counts_before);
    s->ffn_seconds = take(&l, h->layer_count, sizeof *s->ffn_seconds);
    s->recall = s->engine->recall > 0 ? take(&l, h->layer_count, sizeof *s->recall) : NULL;
    s->pages.references = take(&l, s->pages.count, sizeof *s->pages.references);
    s->pages.table = take(&l, (size_t)s->sequences * s->pages.per_sequence, sizeof *s->pages.table);
    s->pages.taken = take(&l, s->sequences, sizeof *s->pages.taken);
    s->pages.marked = take(&l, s->sequences, sizeof *s->pages.marked);
    s->lengths = take(&l, s->sequences, sizeof *s->lengths);
    s->lengths_before = take(&l, s->sequences, sizeof *s->lengths_before);
    s->tokens = take(&l, (size_t)s->sequences * s->context, sizeof *s->tokens);
    s->outputs = take(&l, s->output_rows * d, sizeof *s->outputs);
    return l.size_bytes;
}
