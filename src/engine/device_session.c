/* device_session.c - the state of a session on a device, and the steps (see device_session.h). */
#include "device_state.h"

#include "../base/memory.h"

#include <math.h>
#include <string.h>

/* ------------------------------------------------------------------ sizes */

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

/* Returns the shapes of the device's recurrent layers. */
static const recurrent_shape *const *recurrent_shapes(const hearth_session *s)
{
    return s->engine->recurrent + s->engine->host_recurrent;
}

/* Returns the bytes of their states. */
static size_t states_bytes(const hearth_session *s)
{
    return recurrent_bytes(recurrent_shapes(s), s->engine->device_recurrent, s->sequences, s->marks);
}

recurrent_states *device_recurrent(const hearth_session *s)
{
    return s->device ? &s->device->recurrent : NULL;
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

/* ------------------------------------------------------------------ life */

/* Creates all buffers; what was created before a failure is in ds->buffers. */
static hearth_status create_buffers(const hearth_session *s, device_session *ds, hearth_error *error)
{
    size_t count = count_buffers(s).count;
    ds->buffers = mem_new_array(count, sizeof *ds->buffers);
    if (!ds->buffers)
        return fail_memory(error, "session: device", count * sizeof *ds->buffers);
    taker t = {.owner = ds, .status = HEARTH_OK, .error = error};
    take_buffers(&t, s, &ds->vectors, &ds->mirror);
    return t.status;
}

hearth_status device_need_program(const hearth_session *s, device_session *ds, program_kind kind, hearth_error *error)
{
    return ds->programs[kind] ? HEARTH_OK : device_record(&ds->programs[kind], s, ds, kind, error);
}

/* Creates buffers and the programs that every session needs; needs the device lock. */
static hearth_status prepare(const hearth_session *s, device_session *ds, hearth_error *error)
{
    size_t totals = device_totals_at(layers_of(s), device_rows(s));
    ds->totals_seen = mem_new_array(totals, sizeof *ds->totals_seen);
    if (!ds->totals_seen)
        return fail_memory(error, "session: device", totals * sizeof *ds->totals_seen);
    size_t pages = (size_t)s->sequences * s->pages.per_sequence;
    ds->pages_seen = mem_new_array(pages, sizeof *ds->pages_seen);
    if (!ds->pages_seen)
        return fail_memory(error, "session: device", pages * sizeof *ds->pages_seen);
    if (device_page_bytes(s) > UINT32_MAX) /* a kernel's argument */
        return fail(error, HEARTH_UNSUPPORTED,
                    "session: device: %zu bytes of keys and values in %u positions are too many", device_page_bytes(s),
                    s->pages.positions);
    TRY(create_buffers(s, ds, error));
    TRY(recurrent_create(&ds->recurrent, recurrent_shapes(s), s->engine->device_recurrent, s->sequences, s->marks,
                         ds->vectors.states, ds->runtime, error));
    if (s->engine->device_layers == 0)
        return HEARTH_OK;
    TRY(device_need_program(s, ds, PROGRAM_ONE, error));
    return device_need_program(s, ds, PROGRAM_MANY, error);
}

hearth_status device_session_create(device_session **out, const hearth_session *s, hearth_error *error)
{
    device_session *ds = mem_new(sizeof *ds);
    if (!ds)
        return fail_memory(error, "session: device", sizeof *ds);
    ds->device = s->engine->uploaded->device;
    ds->runtime = s->engine->runtime;
    ds->tallies = s->engine->follower != NULL;
    device_lock(ds->runtime);
    hearth_status status = prepare(s, ds, error);
    device_unlock(ds->runtime);
    if (status == HEARTH_OK)
        *out = ds;
    else
        device_session_destroy(ds);
    return status;
}

void device_session_destroy(device_session *ds)
{
    if (!ds)
        return;
    device_lock(ds->runtime);
    for (size_t i = 0; i < PROGRAM_KINDS; i++)
        device_program_destroy(ds->programs[i]);
    for (size_t i = 0; i < ds->buffer_count; i++)
        device_buffer_destroy(ds->buffers[i]);
    device_unlock(ds->runtime);
    mem_free(ds->buffers);
    recurrent_destroy(&ds->recurrent);
    mem_free(ds->totals_seen);
    mem_free(ds->pages_seen);
    mem_free(ds);
}

/* ------------------------------------------------------------------ a step */

/* Returns the bytes of `count` rows of the residual stream. */
static size_t row_bytes(const hearth_session *s, size_t count)
{
    return count * s->engine->model->hyper.embedding_length * sizeof(float);
}

/* Read from a pinned buffer, and write to one. */
static void fetch(void *to, const device_buffer *from, size_t bytes)
{
    memcpy(to, device_buffer_host(from), bytes);
}

static void put(device_buffer *to, const void *from, size_t bytes)
{
    memcpy(device_buffer_host(to), from, bytes);
}

/* Returns whether the streams of a row lie side by side, as connections have them. */
static bool streams_by_row(const hearth_session *s)
{
    return hyper_connections(&s->engine->model->hyper) > 0;
}

/* Returns the rows of a stream of the residual in the mirror of the running step, and on the CPU; of streams that lie by row those of
 * the first one have all. */
static float *mirrored_stream(const hearth_session *s, uint32_t i)
{
    size_t apart = device_stream_bytes(&s->engine->model->hyper, s->device->running_rows);
    return (float *)(void *)((char *)device_buffer_host(s->device->mirror.streams) + i * apart);
}

static float *own_stream(const hearth_session *s, uint32_t i)
{
    return s->scratch.streams + i * s->batch * s->engine->model->hyper.embedding_length;
}

/* Read the residual stream from the mirror, all streams where there are several, and the first layer's values, and write it there. */
static void fetch_residual(const hearth_session *s, size_t count)
{
    fetch(s->scratch.x, s->device->mirror.x, row_bytes(s, count));
    if (device_has_first_values(s->engine->model))
        fetch(s->scratch.columns.first_value, s->device->mirror.first_value, row_bytes(s, count));
    if (device_shares_choice(s))
        fetch(s->scratch.choice.seen, s->device->mirror.seen, count * choice_words(s) * sizeof(uint32_t));
    size_t streams = device_streams(&s->engine->model->hyper);
    if (streams_by_row(s))
        memcpy(own_stream(s, 0), mirrored_stream(s, 0), streams * row_bytes(s, count));
    for (uint32_t i = 0; !streams_by_row(s) && i < streams; i++)
        memcpy(own_stream(s, i), mirrored_stream(s, i), row_bytes(s, count));
}

static void put_residual(const hearth_session *s, size_t count)
{
    put(s->device->mirror.x, s->scratch.x, row_bytes(s, count));
    if (device_has_first_values(s->engine->model))
        put(s->device->mirror.first_value, s->scratch.columns.first_value, row_bytes(s, count));
    if (device_shares_choice(s))
        put(s->device->mirror.seen, s->scratch.choice.seen, count * choice_words(s) * sizeof(uint32_t));
    size_t streams = device_streams(&s->engine->model->hyper);
    if (streams_by_row(s))
        memcpy(mirrored_stream(s, 0), own_stream(s, 0), streams * row_bytes(s, count));
    for (uint32_t i = 0; !streams_by_row(s) && i < streams; i++)
        memcpy(mirrored_stream(s, i), own_stream(s, i), row_bytes(s, count));
}

size_t device_program_rows(const hearth_session *s, program_kind kind)
{
    if (kind == PROGRAM_ONE || kind == PROGRAM_HEAD_ONE)
        return 1;
    bool is_long = kind == PROGRAM_PROMPT || kind == PROGRAM_STREAMED || kind == PROGRAM_STREAM_TIMED;
    return is_long ? device_rows(s) : STEP_ROWS;
}

/* Returns the program for a step of `count` rows. */
static program_kind kind_of_step(const hearth_session *s, size_t count)
{
    if (s->observer.see)
        return PROGRAM_OBSERVED;
    if (count <= STEP_ROWS)
        return count == 1 ? PROGRAM_ONE : PROGRAM_MANY;
    /* The sums of inputs need the activations of the CPU's neurons here. */
    bool streams = s->device->stream_least > 0 && count >= s->device->stream_least && !s->inputs;
    return streams ? PROGRAM_STREAMED : PROGRAM_PROMPT;
}

size_t device_step_most(const hearth_session *s)
{
    return s->observer.see && s->batch > STEP_ROWS ? STEP_ROWS : s->batch;
}

hearth_status device_step_begin(hearth_session *s, const hearth_row *rows, size_t count, hearth_error *error)
{
    device_session *ds = s->device;
    program_kind kind = kind_of_step(s, count);
    TRY(device_need_program(s, ds, kind, error));
    for (size_t i = 0; i < count; i++)
        if (i == 0 || rows[i].sequence != rows[i - 1].sequence)
            TRY(device_pages_tell(s, rows[i].sequence, error));
    ds->running_rows = device_program_rows(s, kind);
    device_describe_step(s, rows, count);
    if (!s->engine->uploaded->embedding.w)
        put_residual(s, count);
    TRY(device_start(ds->programs[kind], error));
    ds->running = ds->programs[kind];
    return HEARTH_OK;
}

hearth_status device_step_take(hearth_session *s, uint32_t layer, size_t count, hearth_error *error)
{
    TRY(device_await_published(s->device->running, SLOT_STREAM(layer), error));
    fetch_residual(s, count);
    return HEARTH_OK;
}

void device_step_give(hearth_session *s, uint32_t layer, size_t count)
{
    put_residual(s, count);
    device_answer(s->device->running, SLOT_STREAM(layer));
}

/* Fetches the shares of experts; those of the shared one are left out. */
static void fetch_shares(const hearth_session *s, uint32_t layer, size_t count)
{
    size_t experts = s->engine->model->layers[layer].ffn.router.expert_count;
    const float *from = device_buffer_host(s->device->mirror.shares);
    for (size_t t = 0; t < count; t++)
        memcpy(s->scratch.shares + t * experts, from + t * (experts + 1), experts * sizeof *from);
}

hearth_status device_step_input(hearth_session *s, uint32_t layer, size_t count, bool *hidden, hearth_error *error)
{
    const device_layer *l = &s->engine->uploaded->layers[layer];
    const device_mirror *m = &s->device->mirror;
    TRY(device_await_published(s->device->running, SLOT_NEURONS(layer), error));
    fetch(s->scratch.normed, m->normed, row_bytes(s, count));
    *hidden = device_sends_hidden(s, layer);
    if (*hidden)
        fetch(s->scratch.hidden, m->hidden, count * l->fc1.rows * sizeof(float));
    else if (device_sends_stream(s, layer) || device_step_is_observed(s)) /* experts tell observers at once */
        fetch(s->scratch.x, m->x, row_bytes(s, count));
    if (l->router.w)
        fetch_shares(s, layer, count);
    return HEARTH_OK;
}

const float *device_step_entered(const hearth_session *s)
{
    return device_buffer_host(s->device->mirror.entered);
}

bool device_answers_twice(const hearth_session *s, uint32_t layer)
{
    return s->engine->layers[layer].form == FORM_SPLIT && s->engine->model->layers[layer].experts_norm.weight;
}

void device_step_answer(hearth_session *s, uint32_t layer, size_t count)
{
    put(s->device->mirror.answer, s->scratch.added, row_bytes(s, count));
    if (device_answers_twice(s, layer))
        put(s->device->mirror.shared_answer, s->scratch.beside, row_bytes(s, count));
    if (device_joins_norm(s, layer))
        put(s->device->mirror.answer_squares, s->scratch.squares, count * sizeof *s->scratch.squares);
    device_answer(s->device->running, SLOT_NEURONS(layer));
}

hearth_status device_step_pass(hearth_session *s, uint32_t layer, hearth_error *error)
{
    device_session *ds = s->device;
    return device_tells_end(s->engine->layers[layer].form, ds->running_rows)
               ? device_await_published(ds->running, SLOT_NEURONS(layer), error)
               : HEARTH_OK;
}

bool device_step_tallies(const hearth_session *s)
{
    return s->device->tallies;
}

bool device_step_is_observed(const hearth_session *s)
{
    return s->device->running == s->device->programs[PROGRAM_OBSERVED];
}

hearth_status device_step_observe(hearth_session *s, uint32_t layer, size_t count, hearth_error *error)
{
    TRY(device_await_published(s->device->running, SLOT_OBSERVED(layer), error));
    fetch(s->scratch.x, s->device->mirror.x, row_bytes(s, count));
    fetch(s->scratch.normed, s->device->mirror.normed, row_bytes(s, count));
    return HEARTH_OK;
}

/* Returns the original number of a neuron of the device. */
static uint32_t number_of(const hearth_session *s, uint32_t layer, uint32_t neuron)
{
    const int32_t *order = s->engine->model->layers[layer].order;
    uint32_t row = s->engine->uploaded->layers[layer].rows[neuron];
    return order ? (uint32_t)order[row] : row;
}

float device_step_scale(const hearth_session *s, uint32_t layer, size_t t)
{
    if (!device_joins_norm(s, layer))
        return 1;
    const float *own = device_buffer_host(s->device->mirror.squares);
    float n = (float)s->engine->model->layers[layer].ffn.neuron_count;
    return 1 / sqrtf((own[t] + s->scratch.squares[t]) / n + s->engine->model->hyper.norm_epsilon);
}

/* The neurons of a row that a list of the device has: numbers [count], the first of which is the device's neuron `first`;
 * NULL: all. */
typedef struct shown_list {
    const uint32_t *numbers;
    size_t count;
    uint32_t first;
} shown_list;

/* Marks in scratch.wanted and .seen what became of the neurons of a list; activations NULL: they are only wanted. */
static void show_list(hearth_session *s, uint32_t layer, const shown_list *l, const float *activations)
{
    for (size_t i = 0; i < l->count; i++) {
        uint32_t number = number_of(s, layer, l->first + (l->numbers ? l->numbers[i] : (uint32_t)i));
        if (activations)
            s->scratch.seen[number] = activations[i];
        s->scratch.wanted[number] = !activations || activations[i] != 0;
    }
}

void device_step_show(hearth_session *s, uint32_t layer, size_t t)
{
    const device_mirror *m = &s->device->mirror;
    const device_layer *l = &s->engine->uploaded->layers[layer];
    selector_kind selector = s->engine->layers[layer].selector;
    const ffn_shape *shape = &s->engine->model->layers[layer].ffn;
    bool skips = selectors[selector].skips && ffn_skippable(shape);
    bool lists = skips || device_scores(s, layer) || shape->router.expert_count > 0;
    size_t row = t * l->width;
    if (l->width == 0)
        return;
    const float *values = (const float *)device_buffer_host(m->first) + row;
    /* The activations belong to the list that was filtered last. */
    unsigned last = !skips ? TOTAL_COMPUTED : shape->gating == FFN_GATED_BOTH ? TOTAL_ACTIVE : TOTAL_FIRED;
    const uint32_t *list = (const uint32_t *)device_buffer_host(m->lists[last]) + row;
    const uint32_t *listed = device_buffer_host(m->listed[last]), *shared = device_buffer_host(m->shared_listed[last]);
    /* without a list the width is the number of all neurons */
    shown_list own = {lists ? list : NULL, lists ? listed[t] : l->width, 0};
    if (l->shared_count > 0 && l->own_width == 0)
        own.count = 0; /* nothing was listed */
    show_list(s, layer, &own, values);
    if (l->shared_count > 0)
        show_list(s, layer, &(shown_list){list + l->shared_at, shared[t], l->neuron_count - l->shared_count},
                  values + l->shared_at);
    if (!device_scores(s, layer))
        return;
    listed = device_buffer_host(m->listed[TOTAL_COMPUTED]);
    list = (const uint32_t *)device_buffer_host(m->lists[TOTAL_COMPUTED]) + row;
    if (l->own_width > 0 || l->shared_count == 0)
        show_list(s, layer, &(shown_list){list, listed[t], 0}, NULL);
    shared = device_buffer_host(m->shared_listed[TOTAL_COMPUTED]);
    if (l->shared_count > 0)
        show_list(s, layer, &(shown_list){list + l->shared_at, shared[t], l->neuron_count - l->shared_count}, NULL);
}

void device_step_observed(hearth_session *s, uint32_t layer)
{
    device_answer(s->device->running, SLOT_OBSERVED(layer));
}

/* Adds to the counts what the rows of the step added to the totals of the device. Totals may wrap; differences stay
 * right. */
static void add_counts(hearth_session *s, size_t count)
{
    const device_session *ds = s->device;
    const uint32_t *totals = device_buffer_host(ds->mirror.totals);
    size_t numbers = device_totals_at(1, ds->running_rows); /* of each layer */
    for (uint32_t i = 0; i < layers_of(s); i++) {
        bool streamed = device_step_streams(s, i);
        uint64_t neurons = (uint64_t)s->engine->uploaded->layers[i].neuron_count +
                           (streamed ? device_stream_neurons(s->engine, i) : 0);
        uint64_t sums[TOTALS] = {0}, all = count * neurons;
        for (size_t k = 0; k < numbers; k++) {
            size_t at = i * numbers + k;
            sums[k % TOTALS] += totals[at] - ds->totals_seen[at];
            ds->totals_seen[at] = totals[at];
        }
        selector_kind selector = s->engine->layers[i].selector;
        const ffn_shape *shape = &s->engine->model->layers[i].ffn;
        bool skips = selectors[selector].skips && ffn_skippable(shape);
        bool lists = device_scores(s, i) || shape->router.expert_count > 0;
        uint64_t computed = lists ? sums[TOTAL_COMPUTED] : all;
        uint64_t fired = skips ? sums[TOTAL_FIRED] : computed;
        uint64_t active = skips && shape->gating == FFN_GATED_BOTH ? sums[TOTAL_ACTIVE] : fired;
        hearth_counts *both[] = {&s->counts[i], &s->device_counts[i]};
        for (size_t k = 0; k < sizeof both / sizeof *both; k++) {
            both[k]->computed += computed;
            both[k]->fired += fired;
            both[k]->active += active;
        }
        /* Layers with neurons that the CPU computed have counted their rows there. */
        bool alone = s->engine->layers[i].form == FORM_DEVICE || streamed;
        s->counts[i].rows += alone && shape->neuron_count > 0 ? count : 0;
    }
}

hearth_status device_step_end(hearth_session *s, size_t count, hearth_error *error)
{
    device_session *ds = s->device;
    TRY(device_finish(ds->running, error));
    if (s->engine->layers[layers_of(s) - 1].form != FORM_HOST)
        fetch_residual(s, count);
    add_counts(s, count);
    return HEARTH_OK;
}

void device_step_abandon(hearth_session *s)
{
    device_session *ds = s->device;
    if (!ds->running) /* not even the first step could begin */
        return;
    device_abandon(ds->running);
    /* The device ran its program to the end, on meaningless vectors; ignore what it counted. */
    memcpy(ds->totals_seen, device_buffer_host(ds->mirror.totals), device_buffer_bytes(ds->mirror.totals));
}

/* ------------------------------------------------------------------ head */

/* Runs a program of the head to its end; needs the device lock. */
static hearth_status run_head(hearth_session *s, program_kind kind, hearth_error *error)
{
    TRY(device_need_program(s, s->device, kind, error));
    TRY(device_start(s->device->programs[kind], error));
    return device_finish(s->device->programs[kind], error);
}

hearth_status device_head(hearth_session *s, const float *hidden, size_t count, float *logits, hearth_error *error)
{
    device_session *ds = s->device;
    uint32_t rows = (uint32_t)count;
    put(ds->mirror.step, &rows, sizeof rows); /* the rest of the record is not read */
    put(ds->mirror.normed, hidden, row_bytes(s, count));
    device_lock(ds->runtime);
    hearth_status status = run_head(s, count == 1 ? PROGRAM_HEAD_ONE : PROGRAM_HEAD_MANY, error);
    device_unlock(ds->runtime);
    if (status == HEARTH_OK)
        fetch(logits, ds->mirror.logits, count * s->engine->model->hyper.vocabulary_size * sizeof *logits);
    return status;
}
