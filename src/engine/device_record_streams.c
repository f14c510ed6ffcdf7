/* device_record_streams.c - records what lies around the two blocks of a layer: several streams of the residual (streams.c), and
 * the input of a layer's own at its end (per_layer.c). */
#include "device_record_internal.h"

#include <math.h>

_Static_assert(STREAM_LIMIT == MOST_STREAMS, "streams that a model can have, a device can correct");

/* ------------------------------------------------------------------ streams */

/* Returns a stream of the residual. */
static device_argument stream(const recorder *r, uint32_t i)
{
    return BUFFER_FROM(r->v->streams, i * device_stream_bytes(&r->model->hyper, r->rows));
}

/* Norms rows of d values with the weights of an RMS norm, and stores the result or adds it. */
static void norm_rows(const recorder *r, const device_norm *w, device_argument from, device_argument to,
                      unsigned finish)
{
    const hyperparameters *h = &r->model->hyper;
    uint32_t d = h->embedding_length;
    LAUNCH(r, DEVICE_norm_ranges, r->rows, from, BUFFER(w->weight), BUFFER(w->bias), to, UINT(1), UINT(d), UINT(d),
           UINT(h->norm == NORM_LAYER), UINT(finish), FLOAT(h->norm_epsilon), FLOAT(1));
}

/* Multiplies the normed rows with the streams' router; `added` is overwritten. */
static void weigh(const recorder *r, const device_layer *l, device_argument rows)
{
    const device_matrix *router = &l->streams.router;
    norm_rows(r, &l->streams.router_norm, rows, BUFFER(r->v->added), FINISH_STORE);
    input in = record_prepare(r, r->v->added, router->columns, &router, 1);
    record_product(r, router, &in, all_rows, r->v->stream_weights, FINISH_STORE);
}

void record_predict_streams(const recorder *r, uint32_t layer)
{
    const device_layer *l = &r->s->engine->uploaded->layers[layer];
    const hyperparameters *h = &r->model->hyper;
    uint32_t d = h->embedding_length;
    weigh(r, l, stream(r, h->active_stream));
    LAUNCH(r, DEVICE_predict_streams, r->rows * items_of(d, STREAM_COLUMNS), BUFFER(r->v->streams),
           BUFFER(r->v->stream_weights), BUFFER(l->streams.predict), BUFFER(r->v->x), UINT(d), UINT(h->stream_count),
           UINT(h->active_stream), UINT(device_stream_bytes(h, r->rows) / sizeof(float)));
}

void record_beside(const recorder *r, uint32_t layer)
{
    const device_layer *l = &r->s->engine->uploaded->layers[layer];
    const device_matrix *in_matrix = &l->streams.laurel_in;
    input in = record_prepare(r, r->v->normed, in_matrix->columns, &in_matrix, 1);
    record_product(r, in_matrix, &in, all_rows, r->v->laurel_in, FINISH_STORE);
    record_output(r, &l->streams.laurel_out, r->v->laurel_in, false);
    norm_rows(r, &l->streams.laurel_norm, BUFFER(r->v->added), BUFFER(r->v->normed), FINISH_ADD);
    record_changed(r);
}

void record_join_laurel(const recorder *r)
{
    record_reduce(r, &(block_result){r->v->x, 1, NULL, r->v->normed}, r->v->x, FINISH_STORE, 1 / sqrtf(2));
}

/* ------------------------------------------------------------------ connections */

/* Sets x, and a copy, to what gates make of the streams, and stream_weights to the products with `inject`. */
static void collapse_gates(const recorder *r, uint32_t layer, bool network)
{
    const device_layer *l = &r->s->engine->uploaded->layers[layer];
    const hyperparameters *h = &r->model->hyper;
    const device_vectors *v = r->v;
    const device_buffer *norm = network ? l->network_gates.norm : l->mixer_gates.norm;
    const device_matrix *up = network ? &l->network_gates.up : &l->mixer_gates.up;
    const device_matrix *readers[] = {network ? &l->network_gates.down : &l->mixer_gates.down,
                                      network ? &l->network_gates.inject : &l->mixer_gates.inject};
    uint32_t d = h->embedding_length, n = h->stream_count;
    LAUNCH(r, DEVICE_norm_streams, r->rows * n, BUFFER(v->streams), BUFFER(norm), BUFFER(v->stream_norms), UINT(d),
           UINT(n), FLOAT(h->norm_epsilon));
    record_changed(r);
    input in = record_prepare(r, v->stream_norms, (size_t)n * d, readers, 2);
    record_product(r, readers[0], &in, all_rows, v->stream_low, FINISH_STORE);
    record_product(r, readers[1], &in, all_rows, v->stream_weights, FINISH_STORE);
    LAUNCH(r, DEVICE_squeeze, items_of(r->rows * h->connection_rank, SQUASHED_VALUES), BUFFER(v->stream_low),
           UINT(h->connection_rank), FLOAT(1 / (float)n));
    record_changed(r);
    input low = record_prepare(r, v->stream_low, h->connection_rank, &up, 1);
    record_product(r, up, &low, all_rows, v->stream_gates, FINISH_STORE);
    LAUNCH(r, DEVICE_collapse_gates, r->rows * items_of(d, STREAM_COLUMNS), BUFFER(v->stream_norms),
           BUFFER(v->stream_gates), BUFFER(v->x), BUFFER(v->block_read), UINT(d), UINT(n));
    record_changed(r);
}

void record_collapse_streams(const recorder *r, uint32_t layer, bool network)
{
    if (r->model->hyper.connection_rank > 0) {
        collapse_gates(r, layer, network);
        return;
    }
    const device_layer *l = &r->s->engine->uploaded->layers[layer];
    const hyperparameters *h = &r->model->hyper;
    const device_vectors *v = r->v;
    const device_matrix *weights = network ? &l->network_connection.weights : &l->mixer_connection.weights;
    uint32_t d = h->embedding_length;
    record_changed(r);
    input in = record_prepare(r, v->streams, weights->columns, &weights, 1);
    record_product(r, weights, &in, all_rows, v->stream_weights, FINISH_STORE);
    LAUNCH(r, DEVICE_weigh_connections, r->rows, BUFFER(v->streams), BUFFER(v->stream_weights),
           BUFFER(network ? l->network_connection.base : l->mixer_connection.base),
           BUFFER(network ? l->network_connection.scale : l->mixer_connection.scale), UINT(d), UINT(h->stream_count),
           UINT(h->connection_steps), FLOAT(h->connection_magnitude), FLOAT(h->connection_epsilon),
           FLOAT(h->norm_epsilon));
    LAUNCH(r, DEVICE_collapse_streams, r->rows * items_of(d, STREAM_COLUMNS), BUFFER(v->streams),
           BUFFER(v->stream_weights), BUFFER(v->x), UINT(d), UINT(h->stream_count), UINT(h->connection_steps > 0));
}

void record_add_ngrams(const recorder *r, uint32_t layer)
{
    const device_layer *l = &r->s->engine->uploaded->layers[layer];
    const recurrent_states *states = &r->ds->recurrent;
    const recurrent_shape *shape = &r->model->layers[layer].recurrent;
    const hyperparameters *h = &r->model->hyper;
    const device_vectors *v = r->v;
    uint32_t d = h->embedding_length, n = h->stream_count;
    size_t begin = states->layers[r->s->engine->layers[layer].cache_index].begin + recurrent_more_at(shape);
    LAUNCH(r, DEVICE_gate_ngrams, r->rows * n, BUFFER(v->streams), BUFFER(v->ngram_keys), BUFFER(v->ngram_values),
           BUFFER(l->ngram.stream_norm), BUFFER(l->ngram.convolved_norm), BUFFER(v->stream_norms), UINT(d), UINT(n),
           FLOAT(h->norm_epsilon));
    LAUNCH(r, DEVICE_convolve_ngrams, items_of((size_t)n * d, CONVOLVE_CHANNELS), BUFFER(v->stream_norms),
           BUFFER(l->ngram.convolution), BUFFER_FROM(v->states, begin * sizeof(float)), BUFFER(v->streams),
           UINT((size_t)n * d), UINT(h->ngrams.window), UINT(h->ngrams.longest), UINT(states->length));
}

void record_spread_streams(const recorder *r)
{
    const hyperparameters *h = &r->model->hyper;
    uint32_t d = h->embedding_length;
    if (h->connection_rank > 0)
        LAUNCH(r, DEVICE_spread_gates, r->rows * items_of(d, STREAM_COLUMNS), BUFFER(r->v->streams),
               BUFFER(r->v->stream_weights), BUFFER(r->v->x), BUFFER(r->v->block_read), UINT(d), UINT(h->stream_count));
    else
        LAUNCH(r, DEVICE_spread_streams, r->rows * items_of(d, STREAM_COLUMNS), BUFFER(r->v->streams),
               BUFFER(r->v->stream_weights), BUFFER(r->v->x), UINT(d), UINT(h->stream_count),
               UINT(h->connection_steps > 0));
}

/* ------------------------------------------------------------------ the end of a layer */

/* Computes what the input of a layer's own makes of rows, in `added`. */
static void apply_own_input(const recorder *r, uint32_t layer, const device_buffer *rows)
{
    const device_layer *l = &r->s->engine->uploaded->layers[layer];
    const ffn_shape *f = &r->model->layers[layer].ffn;
    const device_matrix *gate = &l->per_layer_gate;
    const device_vectors *v = r->v;
    size_t own = device_own_input(&r->model->hyper, layer, r->rows);
    input in = record_prepare(r, rows, gate->columns, &gate, 1);
    record_product(r, gate, &in, all_rows, v->per_layer_gate, FINISH_STORE);
    LAUNCH(r, DEVICE_activate, r->rows * items_of(gate->rows, ACTIVATE_NEURONS), BUFFER(v->per_layer_gate),
           BUFFER_FROM(v->per_layer, own), NO_BUFFER, NO_BUFFER, LIST(all_rows), UINT(gate->rows),
           ACTIVATION_OF(f, GATING_GATED, f->threshold));
    record_output(r, &l->per_layer_output, v->per_layer_gate, false);
}

/* Corrects the streams by x, the result of the layer; the layer's own input reads the active one after that, and what it makes
 * of it is added to all but the first. */
static void correct_streams(const recorder *r, uint32_t layer)
{
    const device_layer *l = &r->s->engine->uploaded->layers[layer];
    const hyperparameters *h = &r->model->hyper;
    const device_vectors *v = r->v;
    uint32_t d = h->embedding_length;
    weigh(r, l, BUFFER(v->x));
    LAUNCH(r, DEVICE_correct_streams, r->rows * items_of(d, STREAM_COLUMNS), BUFFER(v->streams),
           BUFFER(v->stream_weights), BUFFER(l->streams.correct), BUFFER(l->streams.correct_scale), BUFFER(v->x),
           BUFFER(v->added), UINT(d), UINT(h->stream_count), UINT(h->active_stream),
           UINT(device_stream_bytes(h, r->rows) / sizeof(float)));
    if (!l->per_layer_gate.w)
        return;
    apply_own_input(r, layer, v->added);
    for (uint32_t i = 1; i < h->stream_count; i++)
        norm_rows(r, &l->per_layer_post_norm, BUFFER(v->added), stream(r, i), FINISH_ADD);
}

void record_finish(const recorder *r, uint32_t layer)
{
    const device_layer *l = &r->s->engine->uploaded->layers[layer];
    const model_layer *m = &r->model->layers[layer];
    if (m->wiring == WIRING_STREAMS) {
        correct_streams(r, layer);
    } else if (m->wiring == WIRING_CONNECTED) {
        record_spread_streams(r);
    } else if (l->per_layer_gate.w) {
        apply_own_input(r, layer, r->v->x);
        record_add(r, &l->per_layer_post_norm, (block_result){r->v->added, 1, NULL, NULL});
    }
    if (m->output_scale)
        record_reduce(r, &(block_result){r->v->x, 1, NULL, NULL}, r->v->x, FINISH_STORE, m->output_scale[0]);
}
