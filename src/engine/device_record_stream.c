/* device_record_stream.c - records the streamed neurons of a step: how parts travel through the copy queue, and how the main one
 * computes them (device_stream.h). */
#include "device_record_internal.h"

/* Adds the number of values that are above a threshold to a column of the layer's totals; the list that comes with it is not
 * used. */
static void count_above(const recorder *r, uint32_t layer, uint32_t neurons, device_argument bias, unsigned column,
                        float threshold)
{
    const device_vectors *v = r->v;
    size_t totals = device_totals_at(layer, r->rows) * sizeof(uint32_t);
    LAUNCH(r, DEVICE_compact, r->rows, BUFFER(v->first), bias, NO_BUFFER, NO_BUFFER, BUFFER(v->lists[column]),
           BUFFER(v->listed[column]), NO_BUFFER, BUFFER_FROM(v->totals, totals), UINT(neurons), UINT(RULE_ABOVE),
           UINT(column), FLOAT(threshold));
}

/* Computes a part: what its neurons give, in v->sums. counts: whether those that fire are counted. */
static void compute_part(const recorder *r, uint32_t layer, const stream_part *p, const input *in, bool counts)
{
    const model_layer *m = &r->model->layers[layer];
    const ffn_shape *f = &m->ffn;
    const device_vectors *v = r->v;
    bool gated = f->gating != FFN_PLAIN;
    const device_matrix *first = gated ? &p->gate : &p->up;
    device_argument gate_bias = m->gate_bias ? BUFFER_FROM(p->up.w, p->gate_bias_at) : NO_BUFFER;
    device_argument up_bias = m->up_bias ? BUFFER_FROM(p->up.w, p->up_bias_at) : NO_BUFFER;
    device_argument first_bias = gated ? gate_bias : up_bias;
    uint32_t parts = device_parts(r->rows), columns = p->down_t.columns;
    counts &= selectors[r->s->engine->layers[layer].selector].skips && ffn_skippable(f);
    record_stack(r, first, p->count, in, all_rows, (output){v->first, 0, p->count}, FINISH_STORE);
    if (gated)
        record_stack(r, &p->up, p->count, in, all_rows, (output){v->second, 0, p->count}, FINISH_STORE);
    if (counts)
        count_above(r, layer, p->count, first_bias, TOTAL_FIRED, f->threshold);
    LAUNCH(r, DEVICE_activate, r->rows * items_of(p->count, ACTIVATE_NEURONS), BUFFER(v->first),
           gated ? BUFFER(v->second) : NO_BUFFER, first_bias, gated ? up_bias : NO_BUFFER, LIST(all_rows),
           UINT(p->count), ACTIVATION_OF(f, record_gating[f->gating], f->threshold));
    if (counts && f->gating == FFN_GATED_BOTH)
        count_above(r, layer, p->count, NO_BUFFER, TOTAL_ACTIVE, 0);
    LAUNCH(r, device_kernel_of(OF_ACCUMULATE_MANY, p->down_t.format),
           items_of(r->rows, TILE_TOKENS) * parts * items_of(columns, TILE_ROWS),
           BUFFER_FROM(p->down_t.w, p->down_t.w_at), BUFFER_FROM(p->down_t.scales, p->down_t.scales_at),
           BUFFER(v->first), BUFFER(v->sums), UINT(p->count), UINT(columns), UINT(parts));
}

/* Prepares the input of the neurons of a layer's parts, which all have the formats of the first one. */
static input prepare_input(const recorder *r, const stream_part *p, const device_buffer *normed)
{
    return record_prepare(r, normed, p->up.columns, (const device_matrix *[]){&p->gate, &p->up}, 2);
}

/* Records how a part travels: when the CPU has packed it, and the device is done with what lay in the buffer before. */
static void send_part(const recorder *r, uint32_t number, const stream_part *p)
{
    uint32_t layers = r->model->hyper.layer_count;
    device_program *program = r->program;
    device_use_queue(program, QUEUE_COPY);
    if (number >= STREAM_BUFFERS)
        device_wait(program, EVENT_COMPUTED(number - STREAM_BUFFERS));
    device_await(program, SLOT_PART(layers, number));
    if (r->traced)
        device_stamp(program, STAMP_PART(layers, number, PART_STAMP_COPY));
    device_copy(program, r->v->stream[number % STREAM_BUFFERS], 0, r->mirror->stream[number % STREAM_BUFFERS], 0,
                p->bytes);
    if (r->traced)
        device_stamp(program, STAMP_PART(layers, number, PART_STAMP_COPIED));
    device_signal(program, EVENT_COPIED(number));
    device_publish(program, SLOT_PART(layers, number));
    device_use_queue(program, QUEUE_MAIN);
}

void record_streamed(const recorder *r, uint32_t layer, const device_buffer *normed, block_result *result)
{
    const device_vectors *v = r->v;
    uint32_t layers = r->model->hyper.layer_count, count = device_stream_parts(r->s, layer);
    uint32_t first = device_stream_first(r->s, layer);
    input in = {0};
    if (result->sums) /* of the device's own neurons; what parts give is added to them */
        record_reduce(r, &(block_result){result->sums, result->parts, NULL, NULL}, v->added, FINISH_STORE, 1);
    for (uint32_t i = 0; i < count; i++) {
        uint32_t number = first + i;
        stream_part p = device_stream_part(r->s, layer, i, v->stream[number % STREAM_BUFFERS]);
        send_part(r, number, &p);
        if (i == 0)
            in = prepare_input(r, &p, normed);
        device_wait(r->program, EVENT_COPIED(number));
        if (r->traced)
            device_stamp(r->program, STAMP_PART(layers, number, PART_STAMP_BEGIN));
        compute_part(r, layer, &p, &in, true);
        record_reduce(r, &(block_result){v->sums, device_parts(r->rows), NULL, NULL}, v->added,
                      result->sums || i > 0 ? FINISH_ADD : FINISH_STORE, 1);
        if (r->traced)
            device_stamp(r->program, STAMP_PART(layers, number, PART_STAMP_END));
        device_signal(r->program, EVENT_COMPUTED(number));
    }
    *result = (block_result){v->added, 1, result->bias, NULL};
}

void record_stream_timed(const recorder *r)
{
    uint32_t layer = device_stream_first_layer(r->s);
    stream_part p = device_stream_part(r->s, layer, 0, r->v->stream[0]);
    device_copy(r->program, r->v->step, 0, r->mirror->step, 0, device_step_layout(r->model, r->rows).end);
    record_copy_rows(r, r->v->normed, r->mirror->normed, r->model->hyper.embedding_length);
    device_stamp(r->program, TIMED_COPY);
    device_copy(r->program, r->v->stream[0], 0, r->mirror->stream[0], 0, p.bytes);
    device_stamp(r->program, TIMED_COMPUTE);
    input in = prepare_input(r, &p, r->v->normed);
    compute_part(r, layer, &p, &in, false);
    record_reduce(r, &(block_result){r->v->sums, device_parts(r->rows), NULL, NULL}, r->v->added, FINISH_STORE, 1);
    device_stamp(r->program, TIMED_END);
}
