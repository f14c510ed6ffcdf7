/* device_buffers.c - which buffers a session has on its device, and how large they are (see device_state.h). */
#include "device_state.h"

#include "../base/memory.h"

/* Goes through the buffers of a session: counts them and, if it has an owner, creates them. */
typedef struct taker {
    device_session *owner; /* NULL: only counts */
    uint64_t bytes[DEVICE_PLACES];
    size_t count;
    hearth_status status; /* of the first failure; no buffer is created after it */
    hearth_error *error;
} taker;

/* Counts one buffer and creates it if there is an owner; returns NULL if it was not created. */
static device_buffer *take(taker *t, device_place place, size_t count, size_t item_bytes, const char *what)
{
    device_buffer *b = NULL;
    size_t bytes;
    if (!size_multiply(count, item_bytes, &bytes))
        bytes = SIZE_MAX; /* more than any device has */
    if (__builtin_add_overflow(t->bytes[place], bytes, &t->bytes[place]))
        t->bytes[place] = UINT64_MAX;
    t->count++;
    if (!t->owner || t->status != HEARTH_OK)
        return NULL;
    t->status = device_buffer_create(&b, t->owner->device, place, bytes, what, t->error);
    if (t->status == HEARTH_OK)
        t->owner->buffers[t->owner->buffer_count++] = b;
    return b;
}

static uint32_t layers_of(const hearth_session *s)
{
    return s->engine->model->hyper.layer_count;
}

mixer_row device_mixer_row(const model_layer *l)
{
    mixer_input inputs[MIXER_INPUTS];
    mixer_row row = {0};
    size_t pitch = stacked(recurrent_width(&l->recurrent));
    if (recurrent_by_columns(&l->recurrent)) /* beside what these matrices make, what others do (WKV_...) */
        return (mixer_row){{[MIXER_QUERY] = WKV_QUERY * pitch,
                            [MIXER_KEY] = WKV_KEY * pitch,
                            [MIXER_VALUE] = WKV_VALUE * pitch,
                            [MIXER_BETA] = WKV_SHARE * pitch},
                           WKV_VECTORS * pitch};
    device_mixer_inputs(l, inputs);
    for (unsigned i = 0; i < MIXER_INPUTS; i++) {
        row.at[i] = row.stride;
        row.stride += stacked(inputs[i].rows);
    }
    return row;
}

/* Of the layers on the device the most neurons (that a token uses), hidden units of a predictor, hidden units of experts'
 * masks, neurons of the experts whose `down` is as stored, results of the matrices that read a mixer's input, and hidden units of
 * all rows of the maps of low rank. */
typedef struct widths {
    uint32_t neurons, hidden, masks, stock;
    size_t projected, low_rank;
} widths;

static widths widest_rows(const hearth_session *s)
{
    widths w = {0};
    for (uint32_t i = 0; i < layers_of(s); i++) {
        const device_layer *l = &s->engine->uploaded->layers[i];
        size_t projected = device_mixer_row(&s->engine->model->layers[i]).stride;
        if (s->engine->layers[i].form != FORM_HOST)
            w.projected = w.projected > projected ? w.projected : projected;
        size_t low_rank = device_low_rank_values(&s->engine->model->layers[i].recurrent, device_rows(s));
        w.low_rank = w.low_rank > low_rank ? w.low_rank : low_rank;
        w.neurons = w.neurons > l->width ? w.neurons : l->width;
        w.hidden = w.hidden > l->fc1.rows ? w.hidden : l->fc1.rows;
        if (l->router.w && (l->down.w || l->shared.down.w))
            w.stock = w.stock > l->width ? w.stock : l->width;
        w.masks = w.masks > device_mask_width(s, i) ? w.masks : device_mask_width(s, i);
    }
    uint32_t part = device_stream_widest(s);
    w.neurons = w.neurons > part ? w.neurons : part;
    return w;
}

/* Returns whether a block of a layer has a result that is not added to the residual stream as it is. */
static bool finishes_blocks(const hearth_model *m, const model_layer *l)
{
    return m->hyper.residual_scale != 1 || l->attention_post_norm.weight || l->ffn_post_norm.weight ||
           l->attention_output_bias || l->ffn_inner_norm.weight || device_apart(l) || l->per_layer_gate.data ||
           l->wiring == WIRING_STREAMS || l->router_norm.weight || (l->down_bias && l->ffn.router.expert_count > 0);
}

/* Returns the rows of the buffer for such results. */
static size_t added_rows(const hearth_session *s)
{
    const hearth_model *m = s->engine->model;
    size_t rows = s->stream_bytes > 0 ? device_rows(s) : 0; /* streamed parts are added up there */
    for (uint32_t i = 0; i < m->hyper.layer_count; i++)
        rows = finishes_blocks(m, &m->layers[i]) ? device_rows(s) : rows;
    return rows;
}

/* Returns the rows of the buffer for what enters layers whose router reads it. */
static size_t entered_rows(const hearth_session *s)
{
    const hearth_model *m = s->engine->model;
    size_t rows = 0;
    for (uint32_t i = 0; i < m->hyper.layer_count; i++)
        rows = m->layers[i].ffn.router.early ? device_rows(s) : rows;
    return rows;
}

/* Returns the values of what experts read, in layers where the shared one reads something else. */
static size_t apart_width(const hearth_model *m)
{
    size_t width = model_largest(m).latent, d = m->hyper.embedding_length;
    for (uint32_t i = 0; i < m->hyper.layer_count; i++)
        width = m->layers[i].experts_norm.weight && d > width ? d : width;
    return width;
}

/* Returns the rows of the buffer for the CPU's second sum. */
static size_t second_answer_rows(const hearth_session *s)
{
    size_t rows = 0;
    for (uint32_t i = 0; i < layers_of(s); i++)
        rows = device_answers_twice(s, i) ? device_rows(s) : rows;
    return rows;
}

/* Returns the bytes of what attention to one row makes of all splits of the context, or of the keys that are brought together for it. */
static size_t partial_bytes(const hearth_session *s)
{
    layer_sizes most = model_largest(s->engine->model);
    size_t gathered = device_gathered_keys(s), keys = gathered > 0 ? gathered : s->context;
    return most.heads * items_of(keys, ATTEND_POSITIONS) * (most.head_length + 2) * sizeof(float);
}

/* Returns the bytes of the keys that are brought together for a row. */
static size_t gathered_bytes(const hearth_session *s)
{
    const cached_keys key = {1, model_largest(s->engine->model).head_length, 0, 1};
    return items_of(device_gathered_keys(s), ATTEND_POSITIONS) * ATTEND_POSITIONS * kv_row_bytes(s->cache.format, key);
}

size_t device_attend_rows(const hearth_session *s)
{
    size_t rows = device_rows(s), each = partial_bytes(s);
    while (rows > STEP_ROWS && rows * each > ATTEND_BYTES)
        rows /= 2;
    return rows > STEP_ROWS ? rows : STEP_ROWS;
}

const recurrent_shape *const *device_recurrent_shapes(const hearth_session *s)
{
    return s->engine->recurrent + s->engine->host_recurrent;
}

/* Returns the bytes of their states. */
static size_t states_bytes(const hearth_session *s)
{
    return recurrent_bytes(device_recurrent_shapes(s), s->engine->device_recurrent, s->sequences, s->marks);
}

/* Returns the values of a row that a mixer makes before its output matrix, or before what comes between. */
static size_t widest_mixed(const layer_sizes *most)
{
    uint32_t widest = most->query > most->recurrent ? most->query : most->recurrent;
    return widest > most->result ? widest : most->result;
}

/* Returns how many scores a row has room for: of whole splits of the context. */
static size_t score_room(const hearth_session *s, const layer_sizes *most)
{
    return items_of(s->context, ATTEND_POSITIONS) * (ATTEND_POSITIONS / (most->pool > 0 ? most->pool : 1));
}

/* What buffers are for, in errors. */
static const char of_step[] = "vectors of a step", of_bus[] = "what crosses the bus";

/* Lists those of several streams of the residual, and of n-grams. */
static void take_streams(taker *t, const hearth_session *s, device_vectors *v, device_mirror *m, size_t rows)
{
    const hyperparameters *h = &s->engine->model->hyper;
    uint32_t found = hyper_connections(h), weights = found > 0 ? found : device_streams(h);
    size_t d = h->embedding_length, word = sizeof(float), gated = h->connection_rank > 0 ? rows * d : 0;
    size_t ngrams = device_ngram_layer(s) < h->layer_count ? rows * d : 0;
    v->streams = take(t, DEVICE_MEMORY, device_streams(h), device_stream_bytes(h, rows), of_step);
    m->streams = take(t, DEVICE_PINNED, device_streams(h), device_stream_bytes(h, rows), of_bus);
    v->stream_weights = take(t, DEVICE_MEMORY, rows * weights, word, of_step);
    v->stream_norms = take(t, DEVICE_MEMORY, h->stream_count * gated, word, of_step);
    v->stream_gates = take(t, DEVICE_MEMORY, h->stream_count * gated, word, of_step);
    v->stream_low = take(t, DEVICE_MEMORY, rows * h->connection_rank, word, of_step);
    v->block_read = take(t, DEVICE_MEMORY, gated, word, of_step);
    v->ngram_keys = take(t, DEVICE_MEMORY, h->stream_count * ngrams, word, of_step);
    m->ngram_keys = take(t, DEVICE_PINNED, h->stream_count * ngrams, word, of_bus);
    v->ngram_values = take(t, DEVICE_MEMORY, ngrams, word, of_step);
    m->ngram_values = take(t, DEVICE_PINNED, ngrams, word, of_bus);
    v->laurel_in = take(t, DEVICE_MEMORY, rows * h->laurel_rank, word, of_step);
}

/* Lists every buffer that a session has on the device and every pinned buffer for the bus. */
static void take_buffers(taker *t, const hearth_session *s, device_vectors *v, device_mirror *m)
{
    const hyperparameters *h = &s->engine->model->hyper;
    widths w = widest_rows(s);
    layer_sizes most = model_largest(s->engine->model);
    size_t rows = device_rows(s), d = h->embedding_length;
    size_t step_bytes = device_step_layout(s->engine->model, rows).end;
    size_t totals = device_totals_at(layers_of(s), rows);
    size_t wide = s->widest > w.hidden ? s->widest : w.hidden, word = sizeof(float);
    size_t heads = most.latent_heads, head_in = heads * most.head_in;
    wide = wide > head_in ? wide : head_in;
    wide = wide > w.stock ? wide : w.stock;
    size_t vocabulary = s->engine->uploaded->head.w ? h->vocabulary_size : 0;
    size_t shares = most.experts > 0 ? most.experts + 1 : 0;
    bool attends = s->engine->device_caches > 0;
    size_t mixing = device_has_first_values(s->engine->model) ? most.columns : 0;
    v->cache = take(t, DEVICE_MEMORY, s->pages.count, device_page_bytes(s), "key/value cache");
    v->pages =
        take(t, DEVICE_MEMORY, attends ? (size_t)s->sequences * s->pages.per_sequence : 0, sizeof(uint32_t), of_step);
    v->step = take(t, DEVICE_MEMORY, step_bytes, 1, of_step);
    v->x = take(t, DEVICE_MEMORY, rows * d, word, of_step);
    take_streams(t, s, v, m, rows);
    v->normed = take(t, DEVICE_MEMORY, rows * d, word, of_step);
    v->added = take(t, DEVICE_MEMORY, added_rows(s) * d, word, of_step);
    v->q8 = take(t, DEVICE_MEMORY, rows * wide, 1, of_step);
    v->q8_scales = take(t, DEVICE_MEMORY, rows * (wide / 32 + 1), word, of_step);
    v->q8_sums = take(t, DEVICE_MEMORY, rows * (wide / 32 + 1), word, of_step);
    v->projected = take(t, DEVICE_MEMORY, rows * w.projected, word, of_step);
    v->query = take(t, DEVICE_MEMORY, heads > 0 ? rows * most.query : 0, word, of_step);
    v->key = take(t, DEVICE_MEMORY, heads > 0 ? rows * most.key : 0, word, of_step);
    v->query_in = take(t, DEVICE_MEMORY, rows * most.query_rank, word, of_step);
    v->short_query = take(t, DEVICE_MEMORY, rows * most.short_query, word, of_step);
    v->head_in = take(t, DEVICE_MEMORY, rows * head_in, word, of_step);
    v->head_out = take(t, DEVICE_MEMORY, rows * heads * most.head_out, word, of_step);
    v->mixtures = take(t, DEVICE_MEMORY, RWKV_INPUTS * stacked((uint32_t)(rows * mixing)), word, of_step);
    v->low_rank = take(t, DEVICE_MEMORY, w.low_rank, word, of_step);
    v->first_value = take(t, DEVICE_MEMORY, rows * mixing, word, of_step);
    bool chooses = attends && most.index_heads > 0 && choice_matters(s, model_first_choice(s->engine->model));
    size_t seen = chooses ? rows * most.choosers * choice_words(s) : 0, scored = score_room(s, &most);
    v->index_query =
        take(t, DEVICE_MEMORY, chooses && heads > 0 ? rows * most.index_heads : 0, most.index_length * word, of_step);
    v->position_scores =
        take(t, DEVICE_MEMORY, chooses ? device_attend_rows(s) * most.choosers : 0, scored * word, of_step);
    v->seen = take(t, DEVICE_MEMORY, seen, sizeof(uint32_t), of_step);
    m->seen = take(t, DEVICE_PINNED, device_shares_choice(s) ? seen : 0, sizeof(uint32_t), of_bus);
    v->partial = take(t, DEVICE_MEMORY, device_attend_rows(s), partial_bytes(s), of_step);
    v->pooled = take(t, DEVICE_MEMORY, rows * most.summary, word, of_step);
    v->gathered = take(t, DEVICE_MEMORY, device_attend_rows(s), gathered_bytes(s), of_step);
    v->mixed = take(t, DEVICE_MEMORY, rows * widest_mixed(&most), word, of_step);
    v->states = take(t, DEVICE_MEMORY, states_bytes(s), 1, "recurrent states");
    v->per_layer = take(t, DEVICE_MEMORY, device_own_input(h, h->layer_count, rows), 1, of_step);
    v->per_layer_gate = take(t, DEVICE_MEMORY, rows * h->per_layer_length, word, of_step);
    m->per_layer = take(t, DEVICE_PINNED, device_own_input(h, h->layer_count, rows), 1, of_bus);
    v->hidden = take(t, DEVICE_MEMORY, rows * (w.hidden > w.masks ? w.hidden : w.masks), word, of_step);
    v->score = take(t, DEVICE_MEMORY, w.hidden || w.masks ? rows * w.neurons : 0, word, of_step);
    v->mask_list = take(t, DEVICE_MEMORY, rows * w.masks, word, of_step);
    v->mask_listed = take(t, DEVICE_MEMORY, w.masks ? rows : 0, word, of_step);
    v->first = take(t, DEVICE_MEMORY, rows * ((size_t)w.neurons + STACK_ROWS), word, of_step);
    v->second = take(t, DEVICE_MEMORY, rows * w.neurons, word, of_step);
    for (unsigned i = 0; i < TOTALS; i++) {
        v->lists[i] = take(t, DEVICE_MEMORY, rows * w.neurons, word, of_step);
        v->listed[i] = take(t, DEVICE_MEMORY, rows, word, of_step);
        m->lists[i] = take(t, DEVICE_PINNED, STEP_ROWS * (size_t)w.neurons, word, of_bus);
        m->listed[i] = take(t, DEVICE_PINNED, STEP_ROWS, word, of_bus);
        v->shared_listed[i] = take(t, DEVICE_MEMORY, rows, word, of_step);
        m->shared_listed[i] = take(t, DEVICE_PINNED, STEP_ROWS, word, of_bus);
    }
    v->router = take(t, DEVICE_MEMORY, rows * most.experts, word, of_step);
    v->shares = take(t, DEVICE_MEMORY, rows * shares, word, of_step);
    v->shared_gate = take(t, DEVICE_MEMORY, shares > 0 ? rows : 0, word, of_step);
    v->chosen = take(t, DEVICE_MEMORY, rows * shares, word, of_step);
    v->chosen_shares = take(t, DEVICE_MEMORY, rows * shares, word, of_step);
    v->chosen_count = take(t, DEVICE_MEMORY, rows, word, of_step);
    m->shares = take(t, DEVICE_PINNED, rows * shares, word, of_bus);
    v->apart = take(t, DEVICE_MEMORY, rows * apart_width(s->engine->model), word, of_step);
    v->sums = take(t, DEVICE_MEMORY, device_sums(rows) * (d > most.latent ? d : most.latent), word, of_step);
    v->answer = take(t, DEVICE_MEMORY, rows * d, word, of_step);
    v->shared_answer = take(t, DEVICE_MEMORY, second_answer_rows(s) * d, word, of_step);
    v->squares = take(t, DEVICE_MEMORY, rows, word, of_step);
    v->answer_squares = take(t, DEVICE_MEMORY, rows, word, of_step);
    v->totals = take(t, DEVICE_MEMORY, totals, word, of_step);
    v->logits = take(t, DEVICE_MEMORY, STEP_ROWS * vocabulary, word, of_step);
    m->step = take(t, DEVICE_PINNED, step_bytes, 1, of_bus);
    m->x = take(t, DEVICE_PINNED, rows * d, word, of_bus);
    m->normed = take(t, DEVICE_PINNED, rows * d, word, of_bus);
    m->first_value = take(t, DEVICE_PINNED, rows * mixing, word, of_bus);
    m->entered = take(t, DEVICE_PINNED, entered_rows(s) * d, word, of_bus);
    m->hidden = take(t, DEVICE_PINNED, rows * w.hidden, word, of_bus);
    m->answer = take(t, DEVICE_PINNED, rows * d, word, of_bus);
    m->shared_answer = take(t, DEVICE_PINNED, second_answer_rows(s) * d, word, of_bus);
    m->squares = take(t, DEVICE_PINNED, STEP_ROWS, word, of_bus);
    m->answer_squares = take(t, DEVICE_PINNED, rows, word, of_bus);
    m->first = take(t, DEVICE_PINNED, STEP_ROWS * (size_t)w.neurons, word, of_bus);
    m->totals = take(t, DEVICE_PINNED, totals, word, of_bus);
    m->logits = take(t, DEVICE_PINNED, STEP_ROWS * vocabulary, word, of_bus);
    for (size_t i = 0; i < STREAM_BUFFERS; i++) {
        v->stream[i] = take(t, DEVICE_MEMORY, s->stream_bytes, 1, "streamed weights");
        m->stream[i] = take(t, DEVICE_PINNED, s->stream_bytes, 1, "streamed weights");
    }
}

/* Counts the buffers and their bytes. */
static taker count_buffers(const hearth_session *s)
{
    device_vectors vectors;
    device_mirror mirror;
    taker t = {.status = HEARTH_OK};
    take_buffers(&t, s, &vectors, &mirror);
    return t;
}

uint64_t device_session_bytes(const hearth_session *s, device_place place)
{
    return count_buffers(s).bytes[place];
}

hearth_status device_buffers_create(const hearth_session *s, device_session *ds, hearth_error *error)
{
    size_t count = count_buffers(s).count;
    ds->buffers = mem_new_array(count, sizeof *ds->buffers);
    if (!ds->buffers)
        return fail_memory(error, "session: device", count * sizeof *ds->buffers);
    taker t = {.owner = ds, .status = HEARTH_OK, .error = error};
    take_buffers(&t, s, &ds->vectors, &ds->mirror);
    return t.status;
}
