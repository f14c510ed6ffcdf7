/* device_record_columns.c - records mixers whose states have a decay for each column, as rwkv.c and kda.c compute them on the CPU:
 * RWKV-7's, with the mixture that its networks read, and Kimi Delta Attention. */
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
    size_t at[LOW_RANK_MAPS];
} hidden_places;

static hidden_places places_of(const recurrent_shape *shape, size_t rows)
{
    static const low_rank_use order[LOW_RANK_MAPS] = {MAP_DECAY, MAP_GATE, MAP_RATE, MAP_VALUE};
    hidden_places p = {{0}};
    size_t at = 0;
    for (size_t i = 0; i < LOW_RANK_MAPS; i++) {
        p.at[order[i]] = at;
        at += region(rows, shape->ranks[order[i]]);
    }
    return p;
}

size_t device_low_rank_values(const recurrent_shape *shape, size_t rows)
{
    size_t values = 0;
    for (size_t i = 0; i < LOW_RANK_MAPS; i++)
        values += region(rows, shape->ranks[i]);
    return values;
}

/* Multiplies with the second matrix of a map of low rank; the result is one of the vectors. */
static void widen(const recorder *r, uint32_t layer, low_rank_use which, unsigned to)
{
    const device_matrix *second = &r->s->engine->uploaded->layers[layer].low_rank[which].out;
    const recurrent_shape *shape = &r->model->layers[layer].recurrent;
    size_t pitch = stacked(recurrent_width(shape)), stride = device_mixer_row(&r->model->layers[layer]).stride;
    input in = record_prepare_at(r, r->v->low_rank, places_of(shape, r->rows).at[which], second->columns, &second, 1);
    record_stack(r, second, second->rows, &in, all_rows, (output){r->v->projected, to * pitch, stride}, FINISH_STORE);
}

/* Takes the states through the rows: to mixed. */
static void step_states(const recorder *r, uint32_t layer)
{
    const recurrent_states *states = &r->ds->recurrent;
    const recurrent_shape *shape = &r->model->layers[layer].recurrent;
    uint32_t heads = shape->head_count, n = shape->key_length, pitch = stacked(recurrent_width(shape));
    size_t begin = states->layers[r->s->engine->layers[layer].cache_index].begin;
    LAUNCH(r, DEVICE_recur_columns, heads * items_of(n, RECUR_ROWS), BUFFER(r->v->projected),
           BUFFER_FROM(r->v->states, begin * sizeof(float)), BUFFER(r->v->mixed), UINT(heads), UINT(n), UINT(pitch),
           UINT(device_mixer_row(&r->model->layers[layer]).stride), UINT(states->length));
}

/* Multiplies the mixtures with the matrices that read them, up to all vectors of the steps. */
static void project(const recorder *r, uint32_t layer)
{
    static const struct {
        rwkv_input input;
        low_rank_use which; /* LOW_RANK_MAPS: none */
        unsigned mixer, to; /* the large matrix that reads it, MIXER_INPUTS: none; and its result */
        unsigned low_rank_to;
    } each[] = {
        {RWKV_IN_QUERY, LOW_RANK_MAPS, MIXER_QUERY, WKV_QUERY, 0},
        {RWKV_IN_KEY, LOW_RANK_MAPS, MIXER_KEY, WKV_KEY, 0},
        {RWKV_IN_VALUE, MAP_VALUE, MIXER_VALUE, WKV_VALUE, WKV_SHARE},
        {RWKV_IN_DECAY, MAP_DECAY, MIXER_INPUTS, 0, WKV_DECAY},
        {RWKV_IN_RATE, MAP_RATE, MIXER_INPUTS, 0, WKV_RATE},
        {RWKV_IN_GATE, MAP_GATE, MIXER_INPUTS, 0, WKV_GATE},
    };
    const device_layer *l = &r->s->engine->uploaded->layers[layer];
    const device_vectors *v = r->v;
    const recurrent_shape *shape = &r->model->layers[layer].recurrent;
    uint32_t width = recurrent_width(shape), pitch = stacked(width);
    size_t stride = device_mixer_row(&r->model->layers[layer]).stride;
    hidden_places hidden = places_of(shape, r->rows);
    for (size_t i = 0; i < sizeof each / sizeof *each; i++) {
        size_t at = each[i].input * region(r->rows, width);
        bool narrow = each[i].which != LOW_RANK_MAPS && shape->ranks[each[i].which] > 0;
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
    uint32_t tanhs = shape->ranks[MAP_DECAY], sigmoids = shape->ranks[MAP_GATE];
    LAUNCH(r, DEVICE_squash, items_of(r->rows * (tanhs + sigmoids), SQUASHED_VALUES), BUFFER(v->low_rank), UINT(tanhs),
           UINT(sigmoids), UINT(hidden.at[MAP_GATE]));
    for (size_t i = 0; i < sizeof each / sizeof *each; i++)
        if (each[i].which != LOW_RANK_MAPS && shape->ranks[each[i].which] > 0)
            widen(r, layer, each[i].which, each[i].low_rank_to);
}

void record_rwkv(const recorder *r, uint32_t layer)
{
    const device_layer *l = &r->s->engine->uploaded->layers[layer];
    const device_vectors *v = r->v;
    const recurrent_shape *shape = &r->model->layers[layer].recurrent;
    uint32_t heads = shape->head_count, n = shape->key_length, pitch = stacked(recurrent_width(shape));
    size_t stride = device_mixer_row(&r->model->layers[layer]).stride;
    record_norm_input(r, &l->attention_norm, false);
    mix(r, layer, BUFFER(l->input_mix), 0, RWKV_INPUTS, v->mixtures);
    project(r, layer);
    LAUNCH(r, DEVICE_wkv_prepare, r->rows * heads, BUFFER(v->projected), BUFFER(l->wkv_parameters),
           BUFFER(v->first_value), UINT(heads), UINT(n), UINT(pitch), UINT(stride), UINT(shape->ranks[MAP_VALUE] == 0));
    step_states(r, layer);
    LAUNCH(r, DEVICE_wkv_finish, r->rows * heads, BUFFER(v->mixed), BUFFER(v->projected), BUFFER(l->recurrent_norm),
           BUFFER(l->recurrent_norm_bias), BUFFER(l->bonus), UINT(heads), UINT(n), UINT(pitch), UINT(stride),
           FLOAT(RWKV_HEAD_EPSILON));
    record_changed(r);
}

void record_kda(const recorder *r, uint32_t layer)
{
    static const struct {
        unsigned mixer, to;
    } whole[] = {{MIXER_QUERY, WKV_QUERY}, {MIXER_KEY, WKV_KEY}, {MIXER_VALUE, WKV_VALUE}, {MIXER_BETA, WKV_SHARE}};
    static const struct {
        low_rank_use which;
        unsigned to;
    } maps[] = {{MAP_DECAY, WKV_DECAY}, {MAP_GATE, WKV_GATE}};
    const device_layer *l = &r->s->engine->uploaded->layers[layer];
    const device_vectors *v = r->v;
    const recurrent_shape *shape = &r->model->layers[layer].recurrent;
    uint32_t heads = shape->head_count, n = shape->key_length, pitch = stacked(recurrent_width(shape));
    mixer_row row = device_mixer_row(&r->model->layers[layer]);
    hidden_places hidden = places_of(shape, r->rows);
    const device_matrix *readers[] = {&l->inputs[MIXER_QUERY], &l->inputs[MIXER_KEY],      &l->inputs[MIXER_VALUE],
                                      &l->inputs[MIXER_BETA],  &l->low_rank[MAP_DECAY].in, &l->low_rank[MAP_GATE].in};
    const size_t count = sizeof readers / sizeof *readers;
    const device_buffer *normed = record_norm_input(r, &l->attention_norm, record_rounds(r, readers, count));
    input in = record_prepare(r, normed, r->model->hyper.embedding_length, readers, count);
    for (size_t i = 0; i < sizeof whole / sizeof *whole; i++)
        record_stack(r, &l->inputs[whole[i].mixer], l->inputs[whole[i].mixer].rows, &in, all_rows,
                     (output){v->projected, whole[i].to * pitch, row.stride}, FINISH_STORE);
    for (size_t i = 0; i < sizeof maps / sizeof *maps; i++) {
        const device_matrix *first = &l->low_rank[maps[i].which].in;
        output narrow = {v->low_rank, hidden.at[maps[i].which], first->rows};
        output all = {v->projected, maps[i].to * pitch, row.stride};
        record_stack(r, first, first->rows, &in, all_rows, shape->ranks[maps[i].which] > 0 ? narrow : all,
                     FINISH_STORE);
    }
    for (size_t i = 0; i < sizeof maps / sizeof *maps; i++)
        if (shape->ranks[maps[i].which] > 0)
            widen(r, layer, maps[i].which, maps[i].to);
    record_convolve(r, layer, &row);
    LAUNCH(r, DEVICE_kda_prepare, r->rows * heads, BUFFER(v->projected), BUFFER(l->step_bias), BUFFER(l->decay),
           UINT(heads), UINT(n), UINT(pitch), UINT(row.stride), FLOAT(shape->decay_floor));
    step_states(r, layer);
    LAUNCH(r, DEVICE_norm_gated, r->rows * heads, BUFFER(v->mixed),
           BUFFER_FROM(v->projected, WKV_GATE * pitch * sizeof(float)), BUFFER(l->recurrent_norm), UINT(heads), UINT(n),
           UINT(row.stride), UINT(0), UINT(1), FLOAT(r->model->hyper.norm_epsilon));
    record_changed(r);
}
