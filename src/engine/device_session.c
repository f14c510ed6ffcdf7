/* device_session.c - the state of a session on a device, and the steps (see device_session.h). */
#include "device_state.h"

#include "../base/memory.h"

#include <math.h>
#include <string.h>

/* ------------------------------------------------------------------ life */

recurrent_states *device_recurrent(const hearth_session *s)
{
    return s->device ? &s->device->recurrent : NULL;
}

hearth_status device_need_program(const hearth_session *s, device_session *ds, program_kind kind, hearth_error *error)
{
    return ds->programs[kind] ? HEARTH_OK : device_record(&ds->programs[kind], s, ds, kind, error);
}

/* Creates buffers and the programs that every session needs; needs the device lock. */
static hearth_status prepare(const hearth_session *s, device_session *ds, hearth_error *error)
{
    size_t totals = device_totals_at(s->engine->model->hyper.layer_count, device_rows(s));
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
    TRY(device_buffers_create(s, ds, error));
    TRY(recurrent_create(&ds->recurrent, device_recurrent_shapes(s), s->engine->device_recurrent, s->sequences,
                         s->marks, ds->vectors.states, ds->runtime, error));
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
    for (uint32_t i = 0; i < s->engine->model->hyper.layer_count; i++) {
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
    if (s->engine->layers[s->engine->model->hyper.layer_count - 1].form != FORM_HOST)
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
