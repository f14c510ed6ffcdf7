/* device_record_rwkv.c - records the mixer of RWKV-7, and the mixture that its networks read, as rwkv.c computes them on the CPU. */
#include "device_record_internal.h"

/* Returns the floats of so many rows, rounded up so that what follows them can be the argument of a kernel. */
static size_t region(size_t rows, size_t width)
{
    return stacked((uint32_t)(rows * width));
}

/* Mixes `inputs` inputs of a layer with the rows before, which its state keeps `at` floats behind the first of such rows. */
static void mix(const recorder *r, uint32_t layer, device_argument with, size_t at, uint32_t inputs, device_buffer *to)
{
    const recurrent_states *states = &r->ds->recurrent;
    const recurrent_shape *shape = &r->model->layers[layer].recurrent;
    uint32_t width = recurrent_width(shape);
    size_t begin = states->layers[r->s->engine->layers[layer].cache_index].begin + recurrent_inputs_at(shape) + at;
    LAUNCH(r, DEVICE_mix_inputs, items_of(width, CONVOLVE_CHANNELS), BUFFER(r->v->normed), with,
           BUFFER_FROM(r->v->states, begin * sizeof(float)), BUFFER(to), UINT(width), UINT(inputs),
           UINT(region(r->rows, width)), UINT(states->length));
    record_changed(r);
}

void record_mix_network(const recorder *r, uint32_t layer)
{
    const device_layer *l = &r->s->engine->uploaded->layers[layer];
    mix(r, layer, BUFFER(l->network_mix), recurrent_width(&r->model->layers[layer].recurrent), 1, r->v->normed);
}

/* Where the hidden units of each map of low rank begin: those with an activation first. */
typedef struct hidden_places {
    size_t at[RWKV_LOW_RANKS];
} hidden_places;

static hidden_places places_of(const recurrent_shape *shape, size_t rows)
{
    static const rwkv_low_rank order[RWKV_LOW_RANKS] = {RWKV_DECAY, RWKV_GATE, RWKV_RATE, RWKV_VALUE};
    hidden_places p = {{0}};
    size_t at = 0;
    for (size_t i = 0; i < RWKV_LOW_RANKS; i++) {
        p.at[order[i]] = at;
        at += region(rows, shape->ranks[order[i]]);
    }
    return p;
}

size_t device_low_rank_values(const recurrent_shape *shape, size_t rows)
{
    size_t values = 0;
    for (size_t i = 0; i < RWKV_LOW_RANKS; i++)
        values += region(rows, shape->ranks[i]);
    return values;
}

/* Multiplies the mixtures with the matrices that read them, up to all vectors of the steps. */
static void project(const recorder *r, uint32_t layer)
{
    static const struct {
        rwkv_input input;
        rwkv_low_rank which; /* RWKV_LOW_RANKS: none */
        unsigned mixer, to;  /* the large matrix that reads it, MIXER_INPUTS: none; and its result */
        unsigned low_rank_to;
    } each[] = {
        {RWKV_IN_QUERY, RWKV_LOW_RANKS, MIXER_QUERY, WKV_QUERY, 0},
        {RWKV_IN_KEY, RWKV_LOW_RANKS, MIXER_KEY, WKV_KEY, 0},
        {RWKV_IN_VALUE, RWKV_VALUE, MIXER_VALUE, WKV_VALUE, WKV_SHARE},
        {RWKV_IN_DECAY, RWKV_DECAY, MIXER_INPUTS, 0, WKV_DECAY},
        {RWKV_IN_RATE, RWKV_RATE, MIXER_INPUTS, 0, WKV_RATE},
        {RWKV_IN_GATE, RWKV_GATE, MIXER_INPUTS, 0, WKV_GATE},
    };
    const device_layer *l = &r->s->engine->uploaded->layers[layer];
    const device_vectors *v = r->v;
    const recurrent_shape *shape = &r->model->layers[layer].recurrent;
    uint32_t width = recurrent_width(shape), pitch = stacked(width);
    size_t stride = device_mixer_row(&r->model->layers[layer]).stride;
    hidden_places hidden = places_of(shape, r->rows);
    for (size_t i = 0; i < sizeof each / sizeof *each; i++) {
        size_t at = each[i].input * region(r->rows, width);
        bool narrow = each[i].which != RWKV_LOW_RANKS && shape->ranks[each[i].which] > 0;
        const device_matrix *whole = each[i].mixer < MIXER_INPUTS ? &l->inputs[each[i].mixer] : NULL;
        const device_matrix *first = narrow ? &l->low_rank[each[i].which].in : NULL;
        if (whole) {
            input in = record_prepare_at(r, v->mixtures, at, width, &whole, 1);
            record_stack(r, whole, whole->rows, &in, all_rows, (output){v->projected, each[i].to * pitch, stride},
                         FINISH_STORE);
        }
        if (first) {
            input in = record_prepare_at(r, v->mixtures, at, width, &first, 1);
            record_stack(r, first, first->rows, &in, all_rows,
                         (output){v->low_rank, hidden.at[each[i].which], first->rows}, FINISH_STORE);
        }
    }
    uint32_t tanhs = shape->ranks[RWKV_DECAY], sigmoids = shape->ranks[RWKV_GATE];
    LAUNCH(r, DEVICE_squash, items_of(r->rows * (tanhs + sigmoids), SQUASHED_VALUES), BUFFER(v->low_rank), UINT(tanhs),
           UINT(sigmoids), UINT(hidden.at[RWKV_GATE]));
    for (size_t i = 0; i < sizeof each / sizeof *each; i++) {
        if (each[i].which == RWKV_LOW_RANKS || shape->ranks[each[i].which] == 0)
            continue;
        const device_matrix *second = &l->low_rank[each[i].which].out;
        input in = record_prepare_at(r, v->low_rank, hidden.at[each[i].which], second->columns, &second, 1);
        record_stack(r, second, second->rows, &in, all_rows,
                     (output){v->projected, each[i].low_rank_to * pitch, stride}, FINISH_STORE);
    }
}

void record_rwkv(const recorder *r, uint32_t layer)
{
    const device_layer *l = &r->s->engine->uploaded->layers[layer];
    const device_vectors *v = r->v;
    const recurrent_states *states = &r->ds->recurrent;
    const recurrent_shape *shape = &r->model->layers[layer].recurrent;
    uint32_t heads = shape->head_count, n = shape->key_length, pitch = stacked(recurrent_width(shape));
    size_t stride = device_mixer_row(&r->model->layers[layer]).stride;
    size_t begin = states->layers[r->s->engine->layers[layer].cache_index].begin;
    record_norm_input(r, &l->attention_norm, false);
    mix(r, layer, BUFFER(l->input_mix), 0, RWKV_INPUTS, v->mixtures);
    project(r, layer);
    LAUNCH(r, DEVICE_wkv_prepare, r->rows * heads, BUFFER(v->projected), BUFFER(l->wkv_parameters),
           BUFFER(v->first_value), UINT(heads), UINT(n), UINT(pitch), UINT(stride),
           UINT(shape->ranks[RWKV_VALUE] == 0));
    LAUNCH(r, DEVICE_recur_columns, heads * items_of(n, RECUR_ROWS), BUFFER(v->projected),
           BUFFER_FROM(v->states, begin * sizeof(float)), BUFFER(v->mixed), UINT(heads), UINT(n), UINT(pitch),
           UINT(stride), UINT(states->length));
    LAUNCH(r, DEVICE_wkv_finish, r->rows * heads, BUFFER(v->mixed), BUFFER(v->projected), BUFFER(l->recurrent_norm),
           BUFFER(l->recurrent_norm_bias), BUFFER(l->bonus), UINT(heads), UINT(n), UINT(pitch), UINT(stride),
           FLOAT(RWKV_HEAD_EPSILON));
    record_changed(r);
}
