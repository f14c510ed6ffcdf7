/* attention.c - see attention.h.
 *
 * Rows of a sequence that follow one another are taken together, as many as kernels have room for: prompts read each key once
 * for several rows. Rows that are few are taken one by one, so that they have the same bits as if each were alone. */
#include "attention.h"

#include "choice.h"
#include "forward.h"
#include "inputs_internal.h"
#include "latent.h"
#include "products.h"
#include "summaries.h"

#include <math.h>
#include <string.h>

typedef struct attention_job {
    hearth_session *s;
    const model_layer *l;
    uint32_t layer;
    uint32_t cached; /* index of the layer in the cache                      */
    size_t gathered; /* the one row sees so many keys, which were brought together; 0: those of the cache */
} attention_job;

/* Norms queries or keys of one row, each head alone or all together. */
static void norm_heads(const attention_job *job, const norm_weights *w, uint32_t heads, float *x)
{
    const hearth_engine *e = job->s->engine;
    const attention_shape *a = &job->l->attention;
    float epsilon = e->model->hyper.norm_epsilon;
    size_t length = a->head_length;
    if (w->weight && a->norm_whole)
        forward_norm_row(e, w, epsilon, x, heads * length, x);
    for (size_t i = 0; w->weight && !a->norm_whole && i < heads; i++)
        forward_norm_row(e, w, epsilon, x + i * length, length, x + i * length);
}

/* Rotates queries or keys of one row. */
static void turn_heads(const attention_job *job, uint32_t heads, size_t row, float *x)
{
    forward_turn(job->s, job->l->attention.rotary, heads, job->l->attention.head_length, row, x);
}

/* Norms the heads of one row, each alone, without weights. */
static void norm_plain(const attention_job *job, uint32_t heads, float *values)
{
    for (size_t i = 0, n = job->l->attention.head_length; i < heads; i++)
        forward_norm_values(job->s->engine, n, values + i * n);
}

/* Takes the queries of a row out of what is queries and gates in turns, head by head. */
static void take_queries(const attention_shape *a, const float *gated, float *query)
{
    size_t length = a->head_length;
    for (size_t h = 0; h < a->head_count; h++)
        memcpy(query + h * length, gated + 2 * h * length, length * sizeof *query);
}

/* Items are rows. Makes query and key those of the row's position; stores key and value, if they are the layer's own. */
static void place_rows(void *context, size_t begin, size_t end, unsigned worker)
{
    (void)worker;
    const attention_job *job = context;
    const scratch *b = &job->s->scratch;
    const attention_shape *a = &job->l->attention;
    for (size_t i = begin; i < end; i++) {
        float *query = b->query + i * query_width(a), *key = b->key + i * key_width(a);
        if (layer_gates_in_query(job->l))
            take_queries(a, b->gated_query + 2 * i * query_width(a), query);
        if (a->norm_plain || a->norm_queries)
            norm_plain(job, a->head_count, query);
        else if (!a->norm_turned)
            norm_heads(job, &job->l->query_norm, a->head_count, query);
        turn_heads(job, a->head_count, i, query);
        if (a->norm_turned)
            norm_heads(job, &job->l->query_norm, a->head_count, query);
        if (a->grows)
            forward_scale(1 + hyper_score_gain(&job->s->engine->model->hyper, b->position[i]), query_width(a), query);
        if (a->keys_back > 0)
            continue;
        if (a->norm_turned || a->norm_plain)
            norm_plain(job, a->kv_head_count, key);
        else
            norm_heads(job, &job->l->key_norm, a->kv_head_count, key);
        turn_heads(job, a->kv_head_count, i, key);
        if (a->norm_values)
            norm_plain(job, a->kv_head_count, b->value + i * value_width(a));
        kv_store(&job->s->cache, &job->s->engine->runtime->kernels, job->cached, b->sequence[i], b->position[i], key,
                 b->value + i * value_width(a));
    }
}

/* Rows that share the keys of a run, at least, where there are so many: a run has room for few queries of long heads. */
#define RUN_ROWS 4

static uint32_t group_of(const attention_shape *a)
{
    return a->head_count / a->kv_head_count;
}

/* Returns how many queries of a group an item computes for many rows: all that a run can have with RUN_ROWS rows, or with
 * fewer if a single query leaves no room for them. */
static uint32_t heads_together(const attention_shape *a)
{
    uint32_t most = RUN_VALUES / a->head_length, group = group_of(a);
    most = most < RUN_QUERIES ? most : RUN_QUERIES;
    most = most / RUN_ROWS < group ? most / RUN_ROWS : group;
    return most > 0 ? most : 1;
}

/* Returns how many items a group of queries makes, of one row or of many: one at least. */
static uint32_t group_items(const attention_shape *a)
{
    uint32_t together = heads_together(a), least = together < ITEM_QUERIES ? together : ITEM_QUERIES;
    uint32_t items = (group_of(a) + least - 1) / least;
    return items > 0 ? items : 1;
}

/* Returns how many rows of a sequence are computed together. Heads may be so long that a run has no room for the queries of
 * an item; then each row is taken alone. */
static size_t rows_together(const attention_shape *a)
{
    if (a->head_length > RUN_VALUES / ITEM_QUERIES)
        return 1;
    size_t heads = heads_together(a), by_values = RUN_VALUES / (heads * a->head_length);
    return RUN_QUERIES / heads < by_values ? RUN_QUERIES / heads : by_values;
}

/* Adds the rows [first, first + count) of a batch, which follow one another in a sequence, to the pieces that items are made
 * of: more than few in pieces of `most`, few one by one, so that they have the same bytes as if each were alone. */
static void add_pieces(scratch *b, size_t first, size_t count, size_t most)
{
    size_t rows = count > FEW_TOKENS ? most : 1;
    for (size_t i = 0; i < count; i += rows)
        b->pieces[b->piece_count++] =
            (row_piece){(uint32_t)(first + i), (uint32_t)(count - i < rows ? count - i : rows)};
}

/* Returns the first position that a layer with chunks sees of those up to `position`; 0 without chunks. */
static size_t chunk_begin(const attention_shape *a, size_t position)
{
    return a->chunked && a->window > 0 ? position / a->window * a->window : 0;
}

/* Returns whether the keys that a row sees are brought together: it sees chosen positions, or summaries. */
static bool gathers(const attention_shape *a, uint32_t position)
{
    return choice_limits(a, position) || summaries_seen(a, position) > 0;
}

/* Cuts the rows of a batch into pieces, but those whose keys are brought together. */
static void cut_rows(const attention_job *job, size_t count)
{
    scratch *b = &job->s->scratch;
    const attention_shape *a = &job->l->attention;
    size_t first = 0, most = rows_together(a);
    b->piece_count = 0;
    for (size_t i = 1; i <= count; i++)
        if (i == count || b->sequence[i] != b->sequence[i - 1] || b->position[i] != b->position[i - 1] + 1 ||
            gathers(a, b->position[i]) || (a->chunked && chunk_begin(a, b->position[i]) == b->position[i])) {
            if (!gathers(a, b->position[first]))
                add_pieces(b, first, i - first, most);
            first = i;
        }
}

/* Computes the attention of one row for `heads` query heads from `query` on, which share a key/value head. */
static void attend_one_row(const attention_job *job, size_t row, size_t query, size_t heads, float *scores)
{
    const hearth_session *s = job->s;
    const attention_shape *a = &job->l->attention;
    attend_kernel *attend = s->engine->runtime->kernels.attend[kv_formats[s->cache.format].stored];
    size_t position = s->scratch.position[row], seen = position + 1;
    size_t first = a->chunked ? chunk_begin(a, position) : a->window && seen > a->window ? seen - a->window : 0;
    uint32_t of = (uint32_t)(query / group_of(a));
    attend_cache cache = job->gathered ? choice_gathered(s, job->layer, of)
                                       : kv_head(&s->cache, job->cached, s->scratch.sequence[row], of);
    size_t head = row * a->head_count + query;
    const float *queries = s->scratch.query + head * a->head_length;
    float *out = s->scratch.mixed + head * read_length(a);
    attend_scoring scoring = {a->scale, a->softcap, job->l->sinks ? job->l->sinks + query : NULL};
    if (job->gathered) {
        first = 0;
        seen = job->gathered;
    }
    attend(queries, heads, &cache, first, seen - first, &scoring, scores, out);
}

/* The same for a piece of several rows. */
static void attend_piece(const attention_job *job, row_piece piece, size_t query, size_t heads)
{
    const hearth_session *s = job->s;
    const attention_shape *a = &job->l->attention;
    uint32_t sequence = s->scratch.sequence[piece.first], head = (uint32_t)(query / group_of(a));
    size_t first = piece.first * a->head_count + query;
    attend_run run = {.query = s->scratch.query + first * a->head_length,
                      .out = s->scratch.mixed + first * read_length(a),
                      .stride = query_width(a),
                      .out_stride = read_width(a),
                      .rows = piece.count,
                      .heads = heads,
                      .cache = kv_head(&s->cache, job->cached, sequence, head),
                      .seen = s->scratch.position[piece.first] + 1,
                      .first = chunk_begin(a, s->scratch.position[piece.first]),
                      .window = a->chunked ? 0 : a->window,
                      .scoring = {a->scale, a->softcap, job->l->sinks ? job->l->sinks + query : NULL}};
    s->engine->runtime->kernels.attend_rows[kv_formats[s->cache.format].stored](&run);
}

/* Items are (piece, key/value head, part of the query heads that share it). */
static void attend_heads(void *context, size_t begin, size_t end, unsigned worker)
{
    const attention_job *job = context;
    const hearth_session *s = job->s;
    const attention_shape *a = &job->l->attention;
    uint32_t group = group_of(a), parts = group_items(a), together = heads_together(a);
    size_t rows = group < ITEM_QUERIES ? group : ITEM_QUERIES;
    float *scores = s->scratch.scores + worker * rows * s->scratch.score_count;
    for (size_t item = begin; item < end; item++) {
        row_piece piece = s->scratch.pieces[item / parts / a->kv_head_count];
        uint32_t step = piece.count > 1 ? together : ITEM_QUERIES, from = (uint32_t)(item % parts) * step;
        if (from >= group)
            continue;
        size_t query = item / parts % a->kv_head_count * group + from,
               heads = group - from < step ? group - from : step;
        if (piece.count > 1)
            attend_piece(job, piece, query, heads);
        else
            attend_one_row(job, piece.first, query, heads, scores);
    }
}

/* Computes what the heads read of each row of the batch. */
static void attend_all(attention_job job, size_t count)
{
    scratch *b = &job.s->scratch;
    const attention_shape *a = &job.l->attention;
    pool *threads = job.s->engine->runtime->threads;
    size_t items = (size_t)a->kv_head_count * group_items(a);
    cut_rows(&job, count);
    pool_run(threads, b->piece_count * items, 1, attend_heads, &job);
    for (size_t i = 0; i < count; i++) {
        if (!gathers(a, b->position[i]))
            continue;
        job.gathered =
            a->summary.together > 0 ? summaries_gather(job.s, job.layer, i) : choice_gather(job.s, job.layer, i);
        b->pieces[0] = (row_piece){(uint32_t)i, 1};
        pool_run(threads, items, 1, attend_heads, &job);
    }
}

/* What the result of a head is multiplied with. */
static float opened(const attention_shape *a, float gate)
{
    return a->gate_softplus ? forward_softplus(gate) : 1 / (1 + expf(-gate));
}

/* Returns what heads have given for each row: what they have read, of latent attention what becomes of it. */
static float *results_of(const attention_job *job)
{
    return job->l->attention.compressed > 0 ? job->s->scratch.result : job->s->scratch.mixed;
}

/* Items are rows. Multiplies the results of heads with their scale, and with what their gates let through. */
static void scale_rows(void *context, size_t begin, size_t end, unsigned worker)
{
    (void)worker;
    const attention_job *job = context;
    const attention_shape *a = &job->l->attention;
    size_t length = a->compressed > 0 ? a->value_length : read_length(a), width = a->head_count * length;
    const kernels *k = &job->s->engine->runtime->kernels;
    float *results = results_of(job);
    if (a->value_scale != 1)
        forward_scale(a->value_scale, (end - begin) * width, results + begin * width);
    if (a->gate_length == 0)
        return;
    bool in_turns = layer_gates_in_query(job->l);
    for (size_t head = begin * a->head_count; head < end * a->head_count; head++) {
        const float *gates = job->s->scratch.gated_query + (in_turns ? 2 * head + 1 : head) * a->gate_length;
        float *result = results + head * length;
        if (a->gate_length == 1)
            forward_scale(opened(a, gates[0]), length, result);
        else if (!a->gate_softplus)
            k->activate[ACTIVATION_LOGISTIC](gates, result, no_terms, length, result);
        for (size_t i = 0; a->gate_length > 1 && a->gate_softplus && i < length; i++)
            result[i] *= opened(a, gates[i]);
    }
}

/* Items are rows. Turns what the heads have read by the opposite angles: keys, which were turned, are values there. */
static void turn_back(void *context, size_t begin, size_t end, unsigned worker)
{
    (void)worker;
    const attention_job *job = context;
    const attention_shape *a = &job->l->attention;
    for (size_t i = begin; i < end; i++)
        forward_turn(job->s, a->back_rotary, a->head_count, a->head_length, i,
                     job->s->scratch.mixed + i * read_width(a));
}

/* Multiplies scratch.normed with the matrices of queries, keys and values. */
static void project(hearth_session *s, uint32_t layer, size_t count)
{
    const model_layer *l = &s->engine->model->layers[layer];
    const attention_shape *a = &l->attention;
    const scratch *b = &s->scratch;
    product each[4] = {{&l->q, layer_gates_in_query(l) ? b->gated_query : b->query}};
    size_t products = 1;
    if (a->query_rank > 0)
        each[0] = (product){&l->query_in, b->query_in};
    if (l->attention_gate.data)
        each[products++] = (product){&l->attention_gate, b->gated_query};
    if (a->keys_back == 0)
        each[products++] = (product){&l->k, b->key};
    if (a->keys_back == 0 && l->v.data)
        each[products++] = (product){&l->v, b->value};
    multiply(s, b->normed, count, each, products);
    if (a->query_rank > 0)
        latent_queries(s, layer, count, b->query);
    if (a->keys_back == 0 && !l->v.data && !a->one_key)
        memcpy(b->value, b->key, count * value_width(a) * sizeof *b->value);
    forward_add_bias(s, l->q_bias, query_width(a), count, b->query);
    forward_add_bias(s, l->k_bias, key_width(a), count, b->key);
    forward_add_bias(s, l->v_bias, value_width(a), count, b->value);
}

void attention_mix(hearth_session *s, uint32_t layer, size_t count, float *out)
{
    const model_layer *l = &s->engine->model->layers[layer];
    const attention_shape *a = &l->attention;
    const scratch *b = &s->scratch;
    pool *threads = s->engine->runtime->threads;
    attention_job job = {s, l, layer, s->engine->layers[layer].cache_index, 0};
    const float *result = a->compressed > 0 || a->output_groups > 0 ? b->result : b->mixed;

    inputs_see(s, layer, INPUT_ATTENTION, b->normed, count);
    if (a->compressed > 0)
        latent_project(s, layer, count);
    else
        project(s, layer, count);
    pool_run(threads, count, 1, place_rows, &job);
    if (a->summary.together > 0)
        summaries_make(s, layer, count);
    choice_make(s, layer, count);
    attend_all(job, count);
    if (a->back_rotary)
        pool_run(threads, count, 1, turn_back, &job);
    if (a->compressed > 0)
        latent_results(s, layer, count);
    if (a->gate_length > 0 || a->value_scale != 1)
        pool_run(threads, count, 1, scale_rows, &job);
    if (a->output_groups > 0)
        latent_groups(s, layer, count);
    forward_norm(s, &l->attention_inner_norm, read_width(a), count, b->mixed, b->mixed);
    inputs_see(s, layer, INPUT_ATTENTION_OUTPUT, result, count);
    multiply(s, result, count, &(product){&l->attention_output, out}, 1);
    forward_add_bias(s, l->attention_output_bias, s->engine->model->hyper.embedding_length, count, out);
}
