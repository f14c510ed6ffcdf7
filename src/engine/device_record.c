/* device_record.c - records what the device does in a step.
 *
 * The steps are those of the CPU (forward.c, ffn.c), expressed in kernels of device/kernels/kernels.h, with the copies
 * and exchanges between the sides (docs/hybrid.md). Here is a layer as a whole, and the programs; the operations are in
 * device_record_ops.c, mixers in device_record_mixers.c, neurons in device_record_neurons.c and device_record_stream.c, streams
 * of the residual and the inputs of layers' own in device_record_streams.c. */
#include "device_record_internal.h"

/* Notes the time of a moment of a layer, if the session is traced. */
static void stamp(const recorder *r, uint32_t layer, unsigned moment)
{
    if (r->traced)
        device_stamp(r->program, STAMP(layer, moment));
}

/* Publishes the input of the CPU's neurons. What observers need is copied here too, since these buffers must not be
 * written again while the CPU reads them. */
static void publish_input(const recorder *r, uint32_t layer, const device_buffer *normed)
{
    const device_layer *l = &r->s->engine->uploaded->layers[layer];
    uint32_t d = r->model->hyper.embedding_length;
    bool sends = device_sends_hidden(r->s, layer);
    record_copy_rows(r, r->mirror->normed, normed, d);
    if (sends)
        record_copy_rows(r, r->mirror->hidden, r->v->hidden, l->fc1.rows);
    if (r->observed || device_sends_stream(r->s, layer))
        record_copy_rows(r, r->mirror->x, r->v->x, d);
    if (l->router.w)
        record_copy_rows(r, r->mirror->shares, r->v->shares, l->router.rows + 1);
    device_publish(r->program, SLOT_NEURONS(layer));
}

/* Copies to the host what observers see of a layer and waits until they are done. */
static void stop_for_observer(const recorder *r, uint32_t layer, const device_buffer *normed)
{
    uint32_t n = r->s->engine->uploaded->layers[layer].width, d = r->model->hyper.embedding_length;
    if (r->s->engine->layers[layer].form == FORM_DEVICE) { /* else publish_input has copied them */
        record_copy_rows(r, r->mirror->x, r->v->x, d);
        record_copy_rows(r, r->mirror->normed, normed, d);
    }
    record_copy_rows(r, r->mirror->first, r->v->first, n);
    if (device_joins_norm(r->s, layer))
        record_copy_rows(r, r->mirror->squares, r->v->squares, 1);
    for (unsigned i = 0; i < TOTALS; i++) {
        record_copy_rows(r, r->mirror->lists[i], r->v->lists[i], n);
        record_copy_rows(r, r->mirror->listed[i], r->v->listed[i], 1);
        record_copy_rows(r, r->mirror->shared_listed[i], r->v->shared_listed[i], 1);
    }
    device_publish(r->program, SLOT_OBSERVED(layer));
    device_await(r->program, SLOT_OBSERVED(layer));
}

/* Norms the input of the feed-forward network and returns it. In a layer whose blocks are parallel, networks without a
 * norm of their own read the input of attention. */
static const device_buffer *ffn_input(const recorder *r, uint32_t layer)
{
    const model_layer *m = &r->model->layers[layer];
    const device_layer *l = &r->s->engine->uploaded->layers[layer];
    const device_matrix *readers[] = {&l->router, &l->fc1, &l->latent_in, &l->gate, &l->up};
    if (m->wiring == WIRING_PARALLEL && m->ffn_norm.weight && m->ffn_norm.weight == m->attention_norm.weight)
        return r->v->normed;
    const device_buffer *normed =
        record_norm_input(r, &l->ffn_norm, record_rounds(r, readers, sizeof readers / sizeof *readers));
    if (m->network_mix)
        record_mix_network(r, layer);
    return normed;
}

/* Notes the remaining moments of a layer that is a mixer alone. */
static void stamp_end(const recorder *r, uint32_t layer)
{
    for (unsigned moment = STAMP_NEURONS; moment < STAMPS; moment++)
        stamp(r, layer, moment);
}

/* Records a layer, with the exchange if the CPU has neurons of it. Parallel blocks read the same residual stream, so
 * the result of attention is not added before the neurons have been computed. */
static void layer_on_device(const recorder *r, uint32_t layer)
{
    const device_layer *l = &r->s->engine->uploaded->layers[layer];
    const engine_layer *e = &r->s->engine->layers[layer];
    bool streamed = r->streamed && device_stream_parts(r->s, layer) > 0;
    bool both = e->form != FORM_DEVICE && !streamed, parallel = r->model->layers[layer].wiring == WIRING_PARALLEL;
    bool streams = r->model->layers[layer].wiring == WIRING_STREAMS;
    bool connected = r->model->layers[layer].wiring == WIRING_CONNECTED;
    bool routes = l->router.w != NULL, early = r->model->layers[layer].ffn.router.early;
    block_result result = {NULL, 0, routes ? NULL : l->down_bias, both ? r->v->answer : NULL};

    stamp(r, layer, STAMP_BEGIN);
    if (streams)
        record_predict_streams(r, layer);
    if (r->model->layers[layer].ngrams)
        record_add_ngrams(r, layer);
    if (connected)
        record_collapse_streams(r, layer, false);
    if (early && routes)
        record_route(r, layer, r->v->x);
    else if (early)
        record_copy_rows(r, r->mirror->entered, r->v->x, r->model->hyper.embedding_length);
    record_mixer(r, layer);
    if (streams)
        record_beside(r, layer);
    if (!parallel)
        record_mixer_output(r, layer);
    if (streams)
        record_join_laurel(r);
    if (connected) {
        record_spread_streams(r);
        record_collapse_streams(r, layer, true);
    }
    if (r->model->layers[layer].ffn.neuron_count == 0) {
        record_finish(r, layer);
        stamp_end(r, layer);
        return;
    }
    const device_buffer *normed = ffn_input(r, layer);
    if (routes && !early)
        record_route(r, layer, normed);
    if (e->selector == SELECTOR_LOW_RANK && l->neuron_count)
        record_predict(r, layer, normed);
    if (both)
        publish_input(r, layer, normed);
    stamp(r, layer, STAMP_NEURONS);
    portion portions[PORTIONS];
    row_list rows[PORTIONS] = {all_rows, all_rows};
    size_t portion_count = record_divide(r, layer, normed, portions);
    for (size_t i = 0; i < portion_count; i++)
        rows[i] = record_activations(r, layer, &portions[i]);
    if (r->ds->tallies && e->form == FORM_SPLIT && l->fired &&
        !streamed) /* of streamed layers the CPU's are not counted either */
        LAUNCH(r, DEVICE_tally, items_of(l->neuron_count, TALLIED_NEURONS), LIST(rows[0]), BUFFER(l->fired),
               UINT(l->width), UINT(l->neuron_count));
    if (r->observed)
        stop_for_observer(r, layer, normed);
    if (parallel)
        record_mixer_output(r, layer);
    for (size_t i = 0; i < portion_count; i++)
        record_accumulate(r, layer, &portions[i], rows[i], &result);
    stamp(r, layer, STAMP_OWN_END);
    if (streamed)
        record_streamed(r, layer, normed, &result);
    if (both)
        device_await(r->program, SLOT_NEURONS(layer));
    stamp(r, layer, STAMP_JOIN);
    if (both)
        record_copy_rows(r, r->v->answer, r->mirror->answer, r->model->hyper.embedding_length);
    if (device_answers_twice(r->s, layer))
        record_copy_rows(r, r->v->shared_answer, r->mirror->shared_answer, r->model->hyper.embedding_length);
    if (l->experts_norm.weight && l->neuron_count > 0)
        record_join_beside(r, layer, &result);
    if (device_joins_norm(r->s, layer))
        record_join_norm(r, layer, &result);
    if (result.sums || result.bias || result.answer)
        record_add(r, &l->ffn_post_norm, result);
    record_finish(r, layer);
    stamp(r, layer, STAMP_END);
}

/* ------------------------------------------------------------------ programs */

/* Makes the embedding of every row; where positions are learned, theirs is added. */
static void embed(const recorder *r)
{
    const device_weights *w = r->s->engine->uploaded;
    const hyperparameters *h = &r->model->hyper;
    LAUNCH(r, device_kernel_of(OF_EMBED, w->embedding.format), r->rows, BUFFER(w->embedding.w),
           BUFFER(w->embedding.scales), BUFFER(r->v->x), UINT(h->embedding_length), UINT(0), UINT(0),
           UINT(FINISH_STORE), FLOAT(h->embedding_scale));
    if (w->embedding_norm.weight)
        record_norm_ranges(r, &w->embedding_norm, (ranges){r->v->x, 0, 1, h->embedding_length, h->embedding_length},
                           r->v->x, FINISH_STORE, 1);
    if (h->embedding_norm)
        record_norm_ranges(r, &(device_norm){NULL, NULL},
                           (ranges){r->v->x, 0, 1, h->embedding_length, h->embedding_length}, r->v->x, FINISH_STORE, 1);
    if (w->positions.w)
        LAUNCH(r, device_kernel_of(OF_EMBED, w->positions.format), r->rows, BUFFER(w->positions.w),
               BUFFER(w->positions.scales), BUFFER(r->v->x), UINT(h->embedding_length), UINT(1),
               UINT(h->position_offset), UINT(FINISH_ADD), FLOAT(1));
}

/* Hands the residual stream to the CPU, or takes it from there; all streams where there are several. Then x is the active one
 * of the last layer and comes along to be checked; the next layer makes its own. With it goes what all layers read of the first. */
static void send_residual(const recorder *r)
{
    const hyperparameters *h = &r->model->hyper;
    record_copy_rows(r, r->mirror->x, r->v->x, h->embedding_length);
    if (device_has_first_values(r->model))
        record_copy_rows(r, r->mirror->first_value, r->v->first_value, h->embedding_length);
    if (device_shares_choice(r->s))
        record_copy_rows(r, r->mirror->seen, r->v->seen, choice_words(r->s));
    if (device_streams(h) > 0)
        device_copy(r->program, r->mirror->streams, 0, r->v->streams, 0,
                    device_streams(h) * device_stream_bytes(h, r->rows));
}

static void take_residual(const recorder *r)
{
    const hyperparameters *h = &r->model->hyper;
    if (device_has_first_values(r->model))
        record_copy_rows(r, r->v->first_value, r->mirror->first_value, h->embedding_length);
    if (device_shares_choice(r->s))
        record_copy_rows(r, r->v->seen, r->mirror->seen, choice_words(r->s));
    if (device_streams(h) == 0)
        record_copy_rows(r, r->v->x, r->mirror->x, h->embedding_length);
    else
        device_copy(r->program, r->v->streams, 0, r->mirror->streams, 0,
                    device_streams(h) * device_stream_bytes(h, r->rows));
}

/* Records a step through all layers. */
static void record_layers(const recorder *r)
{
    const hearth_engine *e = r->s->engine;
    uint32_t layers = r->model->hyper.layer_count;
    const device_matrix *embedding = &e->uploaded->embedding;

    device_copy(r->program, r->v->step, 0, r->mirror->step, 0, device_step_layout(r->model, r->rows).end);
    if (r->v->per_layer)
        device_copy(r->program, r->v->per_layer, 0, r->mirror->per_layer, 0,
                    device_own_input(&r->model->hyper, layers, r->rows));
    if (embedding->w)
        embed(r);
    if (device_ngram_layer(r->s) < layers) {
        record_copy_rows(r, r->v->ngram_keys, r->mirror->ngram_keys,
                         (size_t)r->model->hyper.stream_count * r->model->hyper.embedding_length);
        record_copy_rows(r, r->v->ngram_values, r->mirror->ngram_values, r->model->hyper.embedding_length);
    }
    bool on_host = !embedding->w; /* true: the residual stream is on the CPU */
    for (uint32_t i = 0; i < layers; i++) {
        if (e->layers[i].form == FORM_HOST) {
            if (!on_host) {
                send_residual(r);
                device_publish(r->program, SLOT_STREAM(i));
            }
            on_host = true;
            continue;
        }
        if (on_host) {
            if (i > 0) /* before layer 0 it is there when the step begins */
                device_await(r->program, SLOT_STREAM(i));
            take_residual(r);
        }
        on_host = false;
        layer_on_device(r, i);
        if (device_tells_end(e->layers[i].form, r->rows))
            device_publish(r->program, SLOT_NEURONS(i));
    }
    if (!on_host)
        send_residual(r);
    device_copy(r->program, r->mirror->totals, 0, r->v->totals, 0,
                device_totals_at(layers, r->rows) * sizeof(uint32_t));
}

static void record_head(const recorder *r)
{
    const device_matrix *head = &r->s->engine->uploaded->head;
    device_copy(r->program, r->v->step, 0, r->mirror->step, 0, offsetof(step_record, row)); /* only the count is read */
    record_copy_rows(r, r->v->normed, r->mirror->normed, head->columns);
    input in = record_prepare(r, r->v->normed, head->columns, &head, 1);
    record_product(r, head, &in, all_rows, r->v->logits, FINISH_STORE);
    record_copy_rows(r, r->mirror->logits, r->v->logits, head->rows);
}

hearth_status device_record(device_program **out, const hearth_session *s, const device_session *ds, program_kind kind,
                            hearth_error *error)
{
    static void (*const parts[PROGRAM_KINDS])(const recorder *r) = {
        [PROGRAM_ONE] = record_layers,      [PROGRAM_MANY] = record_layers,
        [PROGRAM_PROMPT] = record_layers,   [PROGRAM_OBSERVED] = record_layers,
        [PROGRAM_HEAD_ONE] = record_head,   [PROGRAM_HEAD_MANY] = record_head,
        [PROGRAM_STREAMED] = record_layers, [PROGRAM_STREAM_TIMED] = record_stream_timed};
    uint32_t layers = s->engine->model->hyper.layer_count;
    bool traced = s->tracer.see != NULL;
    uint32_t streamed = kind == PROGRAM_STREAMED ? device_stream_first(s, layers) : 0;
    unsigned stamps = kind == PROGRAM_STREAM_TIMED ? TIMED_STAMPS : traced ? STAMP_COUNT(layers, streamed) : 0;
    device_program *p;
    TRY(device_program_create(&p, ds->device, SLOT_COUNT(layers, streamed), stamps, error));
    const device_buffer *rounded = NULL;
    recorder r = {.program = p,
                  .s = s,
                  .model = s->engine->model,
                  .ds = ds,
                  .v = &ds->vectors,
                  .mirror = &ds->mirror,
                  .rows = device_program_rows(s, kind),
                  .observed = kind == PROGRAM_OBSERVED,
                  .traced = traced,
                  .streamed = kind == PROGRAM_STREAMED,
                  .rounded = &rounded};
    parts[kind](&r);
    hearth_status status = device_program_seal(p, error);
    if (status == HEARTH_OK)
        *out = p;
    else
        device_program_destroy(p);
    return status;
}
