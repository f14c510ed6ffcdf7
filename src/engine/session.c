/* session.c - a session: its sizes, its memory, feeding its sequences, and checkpoints. */
#include "device_session.h"
#include "device_stream.h"
#include "engine.h"
#include "finite.h"
#include "forward.h"
#include "recall.h"
#include "scratch.h"
#include "state.h"

#include "../base/memory.h"
#include "../base/sized.h"
#include "../base/text.h"

#include <stdio.h>
#include <string.h>

/* Default rows of a batch, and the scratch memory that the default may take: wide models get smaller batches rather
 * than more memory. */
#define CONTEXT_STEP          256 /* of a context chosen by what fits */
#define DEFAULT_BATCH         512
#define DEFAULT_SCRATCH_BYTES ((size_t)96 << 20)
#define MIN_BATCH             32
/* The part of a device's budget, one of so many, that steps of more than STEP_ROWS rows may take. */
#define LONG_STEP_SHARE 16
/* Bytes of a buffer for neurons that are streamed to a device: about a thousand of a large model, which take a bus less than a
 * millisecond, but much longer than it takes to start a copy and the kernels for them. Two such buffers may take as large a part
 * of the budget as long steps. */
#define STREAM_BYTES ((uint64_t)8 << 20)
/* Default states of earlier lengths that are kept of a sequence, where layers are recurrent. */
#define DEFAULT_MARKS 4
#define MOST_MARKS    1024
#define MOST_SPARE    65536u

/* ------------------------------------------------------------------ sizes */

/* Sets the positions of each sequence, and what follows from it. Returns false if there are too many. */
static bool set_context(hearth_session *s, uint32_t context)
{
    s->context = context;
    return kv_pages_plan(&s->pages, s->sequences, s->spare, context, s->cache_positions);
}

/* Bytes that are available for a session: main memory, what is left of the device budget, and the whole budget. */
typedef struct session_room {
    uint64_t main, device, budget;
} session_room;

/* Limits the rows of a batch to those of a step on a device. Steps of more than STEP_ROWS read prompts faster, but
 * their vectors take memory that weights could have. So their rows are halved until what they take beyond steps of
 * STEP_ROWS is a small part of the budget, and fits into what is left of it. */
static void choose_step(hearth_session *s, const session_room *room)
{
    uint32_t rows = s->batch < PROMPT_ROWS ? s->batch : PROMPT_ROWS, least_rows = rows < STEP_ROWS ? rows : STEP_ROWS;
    s->batch = least_rows;
    uint64_t most = device_session_bytes(s, DEVICE_MEMORY) + room->budget / LONG_STEP_SHARE;
    most = most < room->device ? most : room->device;
    for (s->batch = rows; s->batch > least_rows && device_session_bytes(s, DEVICE_MEMORY) > most;)
        s->batch = s->batch / 2 > least_rows ? s->batch / 2 : least_rows;
}

static size_t session_threads(const hearth_session *s)
{
    return pool_threads(s->engine->runtime->threads);
}

static bool fits(hearth_session *s, const session_room *room);

/* Sets the bytes of the buffers for neurons that are streamed: as many as the options say, or fewer where these do not fit, or
 * none. */
static void choose_stream(hearth_session *s, const session_room *room)
{
    const hearth_engine *e = s->engine;
    s->stream_bytes = 0;
    s->stream_refusal = device_stream_refusal(s);
    if (s->stream_refusal)
        return;
    uint64_t most = device_session_bytes(s, DEVICE_MEMORY) + room->budget / LONG_STEP_SHARE;
    uint64_t whole = device_stream_bytes_for(e, UINT32_MAX), least = device_stream_bytes_for(e, STREAM_NEURONS);
    s->stream_bytes = e->stream_bytes ? e->stream_bytes : STREAM_BYTES;
    s->stream_bytes = s->stream_bytes < whole ? s->stream_bytes : whole;
    while (s->stream_bytes >= least && (device_session_bytes(s, DEVICE_MEMORY) > most || !fits(s, room)))
        s->stream_bytes /= 2;
    if (s->stream_bytes >= least)
        return;
    s->stream_bytes = 0;
    s->stream_refusal = "two buffers, with the vectors for them, do not fit into what memory has left for them";
}

/* Sets the rows of a batch. asked 0: the default. Memory per thread is not counted, as the division of a prompt into
 * batches must not depend on the number of threads. */
static void choose_batch(hearth_session *s, uint32_t asked, const session_room *room)
{
    s->batch = asked ? asked : DEFAULT_BATCH;
    while (!asked && s->batch > MIN_BATCH && scratch_lay_out(s, 0, NULL) > DEFAULT_SCRATCH_BYTES)
        s->batch /= 2;
    if (s->batch > s->context * (uint64_t)s->sequences)
        s->batch = s->context * s->sequences;
    s->stream_bytes = 0;
    if (s->engine->device_layers > 0) {
        choose_step(s, room);
        choose_stream(s, room);
    }
}

/* ------------------------------------------------------------------ memory */

/* Bytes that a session takes. */
typedef struct session_bytes {
    size_t cache; /* of the CPU's layers */
    uint64_t scratch, device;
} session_bytes;

/* Counts what the session takes, with the sizes it has now. */
static session_bytes count_bytes(hearth_session *s)
{
    const hearth_engine *e = s->engine;
    session_bytes b = {.scratch = scratch_lay_out(s, session_threads(s), NULL)};
    for (uint32_t i = 0; i < e->host_caches; i++) /* resolve() has checked that nothing overflows */
        b.cache += s->pages.count * kv_bytes(s->cache.format, e->cached[i], s->pages.positions);
    size_t recurrent = recurrent_bytes(e->recurrent, e->host_recurrent, s->sequences, s->marks);
    b.cache = size_add(b.cache, recurrent, &b.cache) ? b.cache : SIZE_MAX;
    if (s->engine->uploaded) {
        b.scratch += device_session_bytes(s, DEVICE_PINNED);
        b.device = device_session_bytes(s, DEVICE_MEMORY);
    }
    return b;
}

/* Finds what is free: main memory without the copies of the engine, and the budget of the device. */
static session_room find_room(const hearth_session *s)
{
    const hearth_engine *e = s->engine;
    uint64_t own = hearth_engine_own_bytes(e), all = e->runtime->memory_bytes;
    session_room r = {all > own ? all - own : 0, UINT64_MAX, UINT64_MAX};
    if (e->uploaded) {
        device_info d;
        device_lock(e->runtime);
        device_describe(e->uploaded->device, &d);
        device_unlock(e->runtime);
        r.device = d.budget_bytes - d.used_bytes;
        r.budget = d.budget_bytes;
    }
    return r;
}

/* Returns whether the session fits, with the sizes it has now. */
static bool fits(hearth_session *s, const session_room *room)
{
    session_bytes b = count_bytes(s);
    return b.cache <= room->main && b.scratch <= room->main - b.cache && b.device <= room->device;
}

/* Returns the largest context that fits, by bisection; 0: none. batch: as in the options. Afterwards the session can
 * only be destroyed. */
static uint32_t largest_context(hearth_session *s, uint32_t batch, const session_room *room)
{
    uint32_t least = 0, most = s->context;
    while (least < most) {
        set_context(s, most - (most - least) / 2);
        choose_batch(s, batch, room);
        if (fits(s, room))
            least = s->context;
        else
            most = s->context - 1;
    }
    return least;
}

/* Takes the largest context that fits if that of the model does not, in whole steps, so that a little more memory or a
 * thread less seldom changes it. Where none fits the model's stays, for check_room() to refuse. */
static void choose_context(hearth_session *s, uint32_t batch, const session_room *room)
{
    if (fits(s, room))
        return;
    uint32_t whole = s->context, most = largest_context(s, batch, room);
    set_context(s, most >= CONTEXT_STEP ? most - most % CONTEXT_STEP : most ? most : whole);
    choose_batch(s, batch, room);
}

/* Fills in the session from the options and their defaults, and checks them. */
static hearth_status resolve(hearth_session *s, const hearth_engine *engine, const hearth_session_options *options,
                             hearth_error *error)
{
    const hyperparameters *h = &engine->model->hyper;
    s->engine = engine;
    uint32_t own = options->sequences ? options->sequences : 1;
    s->spare = options->spare_sequences <= MOST_SPARE ? (uint32_t)options->spare_sequences : MOST_SPARE;
    s->spare = s->spare <= UINT32_MAX - own ? s->spare : UINT32_MAX - own;
    s->sequences = own + s->spare;
    s->cache_positions = options->cache_positions;
    bool counted = set_context(s, options->context ? options->context : h->context_length);
    s->output_rows = options->output_rows ? options->output_rows : own;
    s->widest = scratch_widest_input(engine->model);
    s->widest_hidden = engine->uses_predictors ? scratch_widest_hidden(engine) : 0;
    s->marks = options->marks ? (uint32_t)options->marks : DEFAULT_MARKS;
    s->progress = options->progress;
    s->tracer = options->tracer;
    if (options->kv < 0 || options->kv >= HEARTH_KV_COUNT)
        return fail(error, HEARTH_INVALID, "session: kv format %d: is not known", (int)options->kv);
    for (uint32_t i = 0; i < engine->host_caches + engine->device_caches; i++)
        if (kv_misfit(options->kv, engine->cached[i]) > 0)
            return fail(
                error, HEARTH_UNSUPPORTED, "%s: kv format %s: heads have %u values, which are no whole blocks of %u",
                engine->model->source->path, number_formats[kv_formats[options->kv].stored].name,
                kv_misfit(options->kv, engine->cached[i]), number_formats[kv_formats[options->kv].stored].block_values);
    if (options->marks > MOST_MARKS)
        return fail(error, HEARTH_INVALID, "session: %llu marks: at most %u are kept",
                    (unsigned long long)options->marks, MOST_MARKS);
    if (options->spare_sequences > MOST_SPARE)
        return fail(error, HEARTH_INVALID, "session: %llu spare sequences: at most %u",
                    (unsigned long long)options->spare_sequences, MOST_SPARE);
    s->cache.format = options->kv;
    size_t cache_bytes; /* on both sides together */
    if (!counted || !size_multiply(kv_pages_positions(&s->pages, s->pages.count),
                                   engine_position_bytes(engine, options->kv), &cache_bytes))
        return fail(error, HEARTH_INVALID, "session: key/value cache: %u sequences of %u positions are too many",
                    s->sequences, s->context);
    if (s->context > h->context_length)
        return fail(error, HEARTH_INVALID, "%s: context: %u positions asked for, the model was made for %u",
                    engine->model->source->path, s->context, h->context_length);
    session_room room = find_room(s);
    choose_batch(s, options->batch, &room);
    if (!options->context)
        choose_context(s, options->batch, &room);
    return HEARTH_OK;
}

/* Refuses a session that does not fit. The cache is only reserved and becomes resident as sequences grow; without this
 * check the system would end the program in the middle of a long text. */
static hearth_status check_room(hearth_session *s, uint32_t batch, hearth_error *error)
{
    session_room room = find_room(s);
    if (fits(s, &room))
        return HEARTH_OK;
    session_bytes b = count_bytes(s);
    uint32_t asked = s->context, most = largest_context(s, batch, &room);
    char wanted[16], left[16], budget[16], where[64], largest[48] = "not even one of 1 fits";
    if (b.device > room.device) {
        snprintf(where, sizeof where, "%s of the device's budget of %s left", text_size(left, (double)room.device),
                 text_size(budget, (double)room.budget));
        text_size(wanted, (double)b.device);
    } else {
        snprintf(where, sizeof where, "%s of main memory left", text_size(left, (double)room.main));
        text_size(wanted, (double)b.cache + (double)b.scratch);
    }
    if (most > 0)
        snprintf(largest, sizeof largest, "a context of %u fits", most);
    return fail(error, HEARTH_NO_MEMORY, "%s: a context of %u%s: %s wanted, %s; %s", s->engine->model->source->path,
                asked, s->sequences > 1 ? " for each sequence" : "", wanted, where, largest);
}

hearth_status hearth_session_memory_sized(const hearth_engine *engine, const hearth_session_options *options,
                                          size_t options_size, hearth_memory *out, size_t out_size, hearth_error *error)
{
    hearth_session s = {0};
    hearth_session_options own;
    TRY(sized_read(&own, sizeof own, options, options_size, "hearth_session_options", error));
    TRY(resolve(&s, engine, &own, error));
    session_bytes b = count_bytes(&s);
    hearth_memory memory = {engine->model->weight_bytes, hearth_engine_own_bytes(engine), b.cache, b.scratch,
                            engine->uploaded ? engine->uploaded->bytes + b.device : 0};
    sized_write(out, out_size, &memory, sizeof memory);
    return HEARTH_OK;
}

/* ------------------------------------------------------------------ life */

/* Reports the sizes of a session. */
static void log_session(const hearth_session *s, size_t scratch_bytes)
{
    char kv[16], own[16];
    log_line(&s->engine->runtime->log, HEARTH_LOG_INFO,
             "session: %u sequence%s of %u positions, batches of %u rows; keys and values %s, scratch %s", s->sequences,
             s->sequences == 1 ? "" : "s", s->context, s->batch, text_size(kv, (double)s->cache.size_bytes),
             text_size(own, (double)scratch_bytes));
}

/* Begins with the thresholds of the placement. */
static void begin_recall(hearth_session *s)
{
    for (uint32_t i = 0; s->recall && i < s->engine->model->hyper.layer_count; i++) {
        const engine_layer *l = &s->engine->layers[i];
        s->recall[i] = (recall_layer){.target = s->engine->recall,
                                      .threshold = l->threshold,
                                      .widens = l->selector == SELECTOR_COARSE,
                                      .unit = 1};
    }
}

hearth_status hearth_session_create_sized(hearth_session **out, const hearth_engine *engine,
                                          const hearth_session_options *options, size_t options_size,
                                          hearth_error *error)
{
    hearth_session_options own;
    TRY(sized_read(&own, sizeof own, options, options_size, "hearth_session_options", error));
    hearth_session *s = mem_new(sizeof *s);
    if (!s)
        return fail_memory(error, "session", sizeof *s);
    hearth_status status;
    TRY_OR(failed, status, resolve(s, engine, &own, error));
    TRY_OR(failed, status, check_room(s, own.batch, error));
    size_t bytes = scratch_lay_out(s, session_threads(s), NULL);
    s->block = mem_new(bytes);
    if (!s->block) {
        status = fail_memory(error, "session: scratch", bytes);
        goto failed;
    }
    scratch_lay_out(s, session_threads(s), s->block);
    for (uint32_t i = 0; i < s->scratch.choice.page_count; i++)
        s->scratch.choice.pages[i] = i;
    begin_recall(s);
    TRY_OR(failed, status,
           kv_cache_create(&s->cache, s->cache.format, engine->cached, engine->host_caches, &s->pages, error));
    TRY_OR(failed, status,
           recurrent_create(&s->recurrent, engine->recurrent, engine->host_recurrent, s->sequences, s->marks, NULL,
                            NULL, error));
    if (engine->uploaded)
        TRY_OR(failed, status, device_session_create(&s->device, s, error));
    log_session(s, bytes);
    if (engine->device_layers > 0)
        TRY_OR(failed, status, device_stream_decide(s, error));
    *out = s;
    return HEARTH_OK;
failed:
    hearth_session_destroy(s);
    return status;
}

void hearth_session_destroy(hearth_session *session)
{
    if (!session)
        return;
    device_session_destroy(session->device);
    kv_cache_destroy(&session->cache);
    recurrent_destroy(&session->recurrent);
    mem_free(session->block);
    mem_free(session);
}

/* ------------------------------------------------------------------ feeding */

/* Refuses a feed for which the cache has no room. later [sequences]: the lengths after it. */
static hearth_status check_pages(hearth_session *s, const uint32_t *later, hearth_error *error)
{
    kv_pages *p = &s->pages;
    uint64_t wanted = kv_pages_wanted(p, s->lengths, later);
    if (wanted <= p->free_count)
        return HEARTH_OK;
    return fail(error, HEARTH_FULL,
                "session: its cache of %llu positions is full: %llu are free, the feed takes %llu more (%u at a time)",
                (unsigned long long)kv_pages_positions(p, p->count),
                (unsigned long long)kv_pages_positions(p, p->free_count), (unsigned long long)(wanted * p->positions),
                p->positions);
}

/* Checks a feed before it changes anything; lengths_before becomes the lengths after it. */
static hearth_status check_feed(hearth_session *s, const hearth_row *rows, size_t count, hearth_error *error)
{
    const char *path = s->engine->model->source->path;
    uint32_t vocabulary = s->engine->model->hyper.vocabulary_size;
    size_t outputs = 0;
    memcpy(s->lengths_before, s->lengths, s->sequences * sizeof *s->lengths);
    for (size_t i = 0; i < count; i++) {
        if (rows[i].token < 0 || (uint32_t)rows[i].token >= vocabulary)
            return fail(error, HEARTH_INVALID, "%s: token %d: is not one of the vocabulary's %u", path, rows[i].token,
                        vocabulary);
        if (rows[i].sequence >= s->sequences)
            return fail(error, HEARTH_INVALID, "session: sequence %u: there are only %u", rows[i].sequence,
                        s->sequences);
        if (s->lengths_before[rows[i].sequence]++ >= s->context)
            return fail(error, HEARTH_FULL, "session: sequence %u: its context of %u tokens is exceeded",
                        rows[i].sequence, s->context);
        outputs += rows[i].output;
    }
    if (outputs > s->output_rows)
        return fail(error, HEARTH_INVALID, "session: %zu output rows: the session has room for %u", outputs,
                    s->output_rows);
    return check_pages(s, s->lengths_before, error);
}

/* Runs the rows batch by batch and stores the hidden states of output rows. */
static hearth_status feed_batches(hearth_session *s, const hearth_row *rows, size_t count, hearth_error *error)
{
    size_t d = s->engine->model->hyper.embedding_length;
    for (size_t begin = 0, n; begin < count; begin += n) {
        size_t most = s->engine->device_layers > 0 ? device_step_most(s) : s->batch; /* observers come and go */
        n = count - begin < most ? count - begin : most;
        for (size_t i = 0; i < n; i++) {
            const hearth_row *row = &rows[begin + i];
            s->scratch.sequence[i] = row->sequence;
            s->scratch.position[i] = s->lengths[row->sequence]++;
            session_tokens(s, row->sequence)[s->scratch.position[i]] = row->token;
        }
        TRY(forward_batch(s, rows + begin, n, begin, count, error));
        for (size_t i = 0; i < n; i++)
            if (rows[begin + i].output)
                forward_output(s, i, s->outputs + s->output_count++ * d);
    }
    return HEARTH_OK;
}

hearth_status session_feed(hearth_session *session, const hearth_row *rows, size_t count, hearth_error *error)
{
    TRY(check_feed(session, rows, count, error));
    TRY(state_make_room(session, session->lengths_before, error));
    /* Now it is the state to restore. */
    memcpy(session->lengths_before, session->lengths, session->sequences * sizeof *session->lengths);
    session->output_count = 0;
    hearth_status status = feed_batches(session, rows, count, error);
    recurrent_states *each[RECURRENT_SIDES];
    for (size_t i = session_recurrents(session, each); i-- > 0;)
        recurrent_end_feed(each[i], status == HEARTH_OK, session->lengths, session->lengths_before);
    if (status != HEARTH_OK) {
        memcpy(session->lengths, session->lengths_before, session->sequences * sizeof *session->lengths);
        state_give_back(session);
        session->output_count = 0;
    }
    return status;
}

hearth_status hearth_session_feed(hearth_session *session, const hearth_row *rows, size_t count, hearth_error *error)
{
    session_forget_cancel(session);
    return session_feed(session, rows, count, error);
}

void hearth_session_cancel(hearth_session *session)
{
    atomic_store(&session->cancelled, true);
}

void hearth_session_observe(hearth_session *session, const hearth_observer *observer)
{
    session->observer = observer ? *observer : (hearth_observer){0};
}

hearth_status hearth_session_counts(const hearth_session *session, uint32_t layer, hearth_counts *out,
                                    hearth_error *error)
{
    uint32_t layers = session->engine->model->hyper.layer_count;
    if (layer >= layers)
        return fail(error, HEARTH_INVALID, "session: counts of layer %u: the model has %u", layer, layers);
    *out = session->counts[layer];
    return HEARTH_OK;
}

hearth_status hearth_session_recall_sized(const hearth_session *session, uint32_t layer, hearth_recall *out,
                                          size_t out_size, hearth_error *error)
{
    uint32_t layers = session->engine->model->hyper.layer_count;
    if (layer >= layers)
        return fail(error, HEARTH_INVALID, "session: recall of layer %u: the model has %u", layer, layers);
    hearth_recall report = {0};
    bool predicts = selectors[session->engine->layers[layer].selector].predictor != PREDICTOR_NONE;
    if (session->recall && predicts) {
        const recall_layer *r = &session->recall[layer];
        report = (hearth_recall){r->target, (double)r->threshold, r->rows, r->found, RECALL_EVERY * r->missed};
    }
    sized_write(out, out_size, &report, sizeof report);
    return HEARTH_OK;
}

void hearth_session_reset_counts(hearth_session *session)
{
    uint32_t layers = session->engine->model->hyper.layer_count;
    memset(session->counts, 0, layers * sizeof *session->counts);
    memset(session->device_counts, 0, layers * sizeof *session->device_counts);
    memset(session->ffn_seconds, 0, layers * sizeof *session->ffn_seconds);
}

double hearth_session_token_bytes(const hearth_session *session)
{
    return engine_token_bytes(session->engine, session->counts);
}

size_t hearth_session_output_count(const hearth_session *session)
{
    return session->output_count;
}

/* Refuses output rows that the last feed did not have; what: is asked of them. */
static hearth_status check_outputs(const hearth_session *s, const char *what, size_t first, size_t count,
                                   hearth_error *error)
{
    if (first <= s->output_count && count <= s->output_count - first)
        return HEARTH_OK;
    return fail(error, HEARTH_INVALID, "session: %s of output rows %zu to %zu: the last feed had %zu", what, first,
                first + count, s->output_count);
}

hearth_status hearth_session_hidden(const hearth_session *session, size_t first, size_t count, float *hidden,
                                    hearth_error *error)
{
    TRY(check_outputs(session, "hidden states", first, count, error));
    size_t d = session->engine->model->hyper.embedding_length;
    if (count > 0)
        memcpy(hidden, session->outputs + first * d, count * d * sizeof *hidden);
    return HEARTH_OK;
}

hearth_status hearth_session_logits(hearth_session *session, size_t first, size_t count, float *logits,
                                    hearth_error *error)
{
    TRY(check_outputs(session, "logits", first, count, error));
    const hyperparameters *h = &session->engine->model->hyper;
    for (size_t n; count > 0; first += n, count -= n, logits += n * h->vocabulary_size) {
        n = count < session->batch ? count : session->batch;
        TRY(forward_head(session, session->outputs + first * h->embedding_length, n, logits, error));
        TRY(finite_check_logits(session, n, logits, error));
    }
    return HEARTH_OK;
}

/* ------------------------------------------------------------------ sequences */

uint32_t hearth_session_context(const hearth_session *session)
{
    return session->context;
}

uint64_t hearth_session_free_positions(const hearth_session *session)
{
    return kv_pages_positions(&session->pages, session->pages.free_count);
}

uint32_t hearth_session_length(const hearth_session *session, uint32_t sequence)
{
    return sequence < session->sequences ? session->lengths[sequence] : 0;
}

const int32_t *hearth_session_tokens(const hearth_session *session, uint32_t sequence)
{
    return sequence < session->sequences ? session_tokens(session, sequence) : NULL;
}
