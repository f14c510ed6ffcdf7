/* device_stream.c - see device_stream.h. */
#include "device_stream.h"

#include "device_state.h"

#include "../device/packing.h"

#include <string.h>

/* Rows of a matrix that a work item packs. */
#define PACK_ROWS 16

/* ------------------------------------------------------------------ which layers */

/* Returns whether the neurons of a layer can be computed part by part, whoever has them. */
static bool is_separable(const engine_layer *e, const model_layer *l)
{
    bool own_values = e->selector == SELECTOR_ALL || e->selector == SELECTOR_SIGN;
    bool joins = l->ffn.router.expert_count > 0 || l->ffn.cuts || l->ffn_inner_norm.weight || l->ffn.latent > 0;
    /* Where blocks are parallel, what attention adds would change an input that is the residual stream itself. */
    bool input_stays = l->wiring != WIRING_PARALLEL || l->ffn_norm.weight;
    return own_values && !joins && input_stays;
}

uint32_t device_stream_neurons(const hearth_engine *e, uint32_t layer)
{
    const engine_layer *own = &e->layers[layer];
    const model_layer *l = &e->model->layers[layer];
    if ((own->form != FORM_SPLIT && own->form != FORM_FFN_HOST) || !is_separable(own, l))
        return 0;
    const matrix *each[] = {&l->gate, &l->up, &own->down_t};
    for (size_t i = 0; i < sizeof each / sizeof *each; i++)
        if (each[i]->data ? !device_has_format(each[i]->format) : each[i] != &l->gate)
            return 0;
    return own->rows ? own->row_count : l->ffn.neuron_count;
}

/* ------------------------------------------------------------------ parts */

/* Takes bytes of a buffer, aligned for arguments of kernels; returns where they begin. */
static size_t take(size_t *end, size_t bytes)
{
    size_t at = *end;
    *end += items_of(bytes, ARGUMENT_ALIGNMENT) * ARGUMENT_ALIGNMENT;
    return at;
}

static device_matrix take_rows(size_t *end, const matrix *m, uint32_t rows, device_buffer *in)
{
    size_t scale_bytes, bytes = device_packed_bytes(m->format, rows, m->columns, &scale_bytes);
    device_matrix to = {.w = in, .format = m->format, .rows = rows, .columns = m->columns, .stack_rows = rows};
    to.w_at = take(end, bytes);
    to.scales_at = take(end, scale_bytes);
    to.scales = scale_bytes > 0 ? in : NULL;
    return to;
}

/* Lays `count` neurons of a layer into a buffer, from the place `begin` on. */
static stream_part lay_part(const hearth_engine *e, uint32_t layer, uint32_t begin, uint32_t count, device_buffer *in)
{
    const model_layer *l = &e->model->layers[layer];
    stream_part p = {.begin = begin, .count = count};
    if (l->gate.data)
        p.gate = take_rows(&p.bytes, &l->gate, count, in);
    p.up = take_rows(&p.bytes, &l->up, count, in);
    p.down_t = take_rows(&p.bytes, &e->layers[layer].down_t, count, in);
    p.gate_bias_at = take(&p.bytes, l->gate_bias ? count * sizeof(float) : 0);
    p.up_bias_at = take(&p.bytes, l->up_bias ? count * sizeof(float) : 0);
    return p;
}

size_t device_stream_bytes_for(const hearth_engine *e, uint32_t neurons)
{
    size_t most = 0;
    for (uint32_t i = 0; i < e->model->hyper.layer_count; i++) {
        uint32_t all = device_stream_neurons(e, i), n = neurons < all ? neurons : all;
        size_t bytes = n > 0 ? lay_part(e, i, 0, n, NULL).bytes : 0;
        most = bytes > most ? bytes : most;
    }
    return most;
}

/* Returns the neurons of a layer's parts, all but the last one: as many as a buffer holds, in whole tiles of the kernels if it
 * holds one. Of so many neurons as a multiple of STREAM_NEURONS nothing is lost to alignment. */
static uint32_t part_neurons(const hearth_session *s, uint32_t layer)
{
    uint32_t all = device_stream_neurons(s->engine, layer);
    if (all == 0 || lay_part(s->engine, layer, 0, all, NULL).bytes <= s->stream_bytes)
        return all;
    uint64_t n = s->stream_bytes / lay_part(s->engine, layer, 0, STREAM_NEURONS, NULL).bytes * STREAM_NEURONS;
    return (uint32_t)(n < TILE_ROWS ? n : n - n % TILE_ROWS);
}

uint32_t device_stream_parts(const hearth_session *s, uint32_t layer)
{
    uint32_t each = s->stream_bytes > 0 ? part_neurons(s, layer) : 0;
    return each > 0 ? (uint32_t)items_of(device_stream_neurons(s->engine, layer), each) : 0;
}

uint32_t device_stream_first_layer(const hearth_session *s)
{
    uint32_t layer = 0;
    while (device_stream_parts(s, layer) == 0)
        layer++;
    return layer;
}

uint32_t device_stream_first(const hearth_session *s, uint32_t layer)
{
    uint32_t parts = 0;
    for (uint32_t i = 0; i < layer; i++)
        parts += device_stream_parts(s, i);
    return parts;
}

stream_part device_stream_part(const hearth_session *s, uint32_t layer, uint32_t index, device_buffer *in)
{
    uint32_t each = part_neurons(s, layer), left = device_stream_neurons(s->engine, layer) - index * each;
    return lay_part(s->engine, layer, index * each, each < left ? each : left, in);
}

uint32_t device_stream_widest(const hearth_session *s)
{
    uint32_t most = 0;
    for (uint32_t i = 0; s->stream_bytes > 0 && i < s->engine->model->hyper.layer_count; i++) {
        uint32_t n = part_neurons(s, i);
        most = n > most ? n : most;
    }
    return most;
}

/* ------------------------------------------------------------------ packing */

/* The rows of a part: those in the list, or, if it is NULL, all from `first` on. */
typedef struct pack_job {
    stream_part part;
    const matrix *from[3]; /* gate, up, down_t */
    const uint32_t *list;
    uint32_t first;
    char *to;
} pack_job;

/* Items are neurons of the part. */
static void pack_rows(void *context, size_t begin, size_t end, unsigned worker)
{
    (void)worker;
    const pack_job *job = context;
    const device_matrix *to[] = {&job->part.gate, &job->part.up, &job->part.down_t};
    for (size_t i = 0; i < sizeof to / sizeof *to; i++) {
        if (!job->from[i]->data)
            continue;
        size_t scale_bytes, row_bytes = device_packed_bytes(to[i]->format, 1, to[i]->columns, &scale_bytes);
        char *w = job->to + to[i]->w_at + begin * row_bytes;
        char *scales = job->to + to[i]->scales_at + begin * scale_bytes;
        device_pack(job->from[i], job->list ? job->list + begin : NULL, job->first + begin, end - begin, w,
                    (uint16_t *)(void *)scales);
    }
}

/* Copies the biases of the neurons of a part; bias may be NULL. */
static void pack_bias(const pack_job *job, const float *bias, size_t at)
{
    float *to = (float *)(void *)(job->to + at);
    for (uint32_t i = 0; bias && i < job->part.count; i++)
        to[i] = bias[job->list ? job->list[i] : job->first + i];
}

void device_stream_pack(const hearth_session *s, uint32_t layer, uint32_t index, char *to)
{
    const model_layer *l = &s->engine->model->layers[layer];
    const engine_layer *e = &s->engine->layers[layer];
    stream_part part = device_stream_part(s, layer, index, NULL);
    pack_job job = {.part = part,
                    .from = {&l->gate, &l->up, &e->down_t},
                    .list = e->rows ? e->rows + part.begin : NULL,
                    .first = part.begin,
                    .to = to};
    pool_run(s->engine->runtime->threads, part.count, PACK_ROWS, pack_rows, &job);
    pack_bias(&job, l->gate_bias, part.gate_bias_at);
    pack_bias(&job, l->up_bias, part.up_bias_at);
}

/* ------------------------------------------------------------------ during a step */

bool device_step_streams(const hearth_session *s, uint32_t layer)
{
    return s->device->running == s->device->programs[PROGRAM_STREAMED] && device_stream_parts(s, layer) > 0;
}

hearth_status device_step_stream(hearth_session *s, uint32_t layer, hearth_error *error)
{
    device_session *ds = s->device;
    uint32_t layers = s->engine->model->hyper.layer_count, first = device_stream_first(s, layer),
             parts = device_stream_parts(s, layer);
    for (uint32_t i = 0; i < parts; i++) {
        uint32_t number = first + i;
        if (number >= STREAM_BUFFERS)
            TRY(device_await_published(ds->running, SLOT_PART(layers, number - STREAM_BUFFERS), error));
        device_stream_pack(s, layer, i, device_buffer_host(ds->mirror.stream[number % STREAM_BUFFERS]));
        device_answer(ds->running, SLOT_PART(layers, number));
    }
    return HEARTH_OK;
}

/* ------------------------------------------------------------------ whether it pays */

static double larger(double a, double b)
{
    return a > b ? a : b;
}

uint32_t device_stream_least_rows(const stream_figures *f, double own, double streamed)
{
    double sent = streamed * larger(f->pack_seconds, f->copy_seconds);
    for (uint32_t rows = STREAM_ROWS; rows <= PROMPT_ROWS; rows += STREAM_ROWS) {
        double with = larger(sent, rows * f->device_seconds * (own + streamed));
        if (with < rows * larger(f->cpu_seconds * streamed, f->device_seconds * own))
            return rows;
    }
    return 0;
}
