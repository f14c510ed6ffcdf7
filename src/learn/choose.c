/* choose.c - counts the bytes of predictors, and spends a budget by gain per byte.
 *
 * The greedy choice is within one option of the best possible, because the gain of a further byte falls with every byte
 * that a layer has (tests/learn_choose.c compares it with an exhaustive search). */
#include "choose.h"

#include "../model/neuron_major.h"

/* Largest size of a coarse copy, as a share of the matrix that it stands for. */
#define COARSE_SHARE 0.75
/* Ranks are multiples of this: whole blocks of the block formats. */
#define RANK_MULTIPLE 32

/* ------------------------------------------------------------------ bytes */

static double used_share(const ffn_shape *f)
{
    if (f->router.expert_count == 0)
        return 1;
    return ((double)f->router.used * f->expert_neurons + f->shared_neurons) / f->neuron_count;
}

choose_layer choose_layer_of(const hearth_model *model, uint32_t layer, double fires)
{
    const model_layer *l = &model->layers[layer];
    const ffn_network *shared = &l->shared;
    bool gated = l->ffn.gating != FFN_PLAIN;
    size_t first = matrix_bytes(layer_first_matrix(l)) + matrix_bytes(gated ? &shared->gate : &shared->up);
    choose_layer out = {.first = (double)first,
                        .fires = fires,
                        .used = used_share(&l->ffn),
                        .width = ffn_expert_width(&l->ffn, model->hyper.embedding_length),
                        .neurons = l->ffn.neuron_count,
                        .copied = ffn_routed(&l->ffn)};
    matrix copy = l->down_t;
    if (!copy.data && neuron_major_shape(&copy, &l->down, ffn_experts(&l->ffn), "", "", NULL) != HEARTH_OK)
        copy = l->down; /* no engine can skip its rows, so the bytes do not matter */
    size_t down =
        matrix_bytes(&copy) + (shared->down_t.data ? matrix_bytes(&shared->down_t) : matrix_bytes(&shared->down));
    out.listed = (double)(down + (gated ? matrix_bytes(&l->up) + matrix_bytes(&shared->up) : 0));
    return out;
}

double choose_exact_bytes(const choose_layer *l)
{
    return l->used * l->first + l->fires * l->listed;
}

/* Returns the bytes per value of a format. */
static double format_bytes(number_format f)
{
    return (double)number_formats[f].block_bytes / number_formats[f].block_values;
}

void choose_count_bytes(candidate *c, const hearth_model *model, const choose_layer *l)
{
    double d = model->hyper.embedding_length;
    if (c->kind == PREDICTOR_NONE) {
        c->own_bytes = 0;
        c->token_bytes = choose_exact_bytes(l);
        return;
    }
    bool low_rank = c->kind == PREDICTOR_LOW_RANK;
    double f = low_rank ? l->neurons : l->copied;
    double each = low_rank ? c->rank * format_bytes(c->format) : l->width * format_bytes(c->format) + sizeof(float);
    double common = low_rank ? c->rank * d * format_bytes(c->format) : 0, density = l->used * c->density;
    c->own_bytes = common + f * each;
    c->token_bytes = common + l->used * f * each + density * l->first + density * c->fired * l->listed;
}

/* ------------------------------------------------------------------ what to try */

size_t choose_ranks(uint32_t ranks[CHOOSE_RANKS], uint32_t d)
{
    static const uint32_t divisors[CHOOSE_RANKS] = {16, 8, 4, 2, 1};
    size_t count = 0;
    for (size_t i = 0; i < CHOOSE_RANKS; i++) {
        uint64_t rank = ((uint64_t)d / divisors[i] + RANK_MULTIPLE - 1) / RANK_MULTIPLE * RANK_MULTIPLE;
        rank = rank == 0 ? RANK_MULTIPLE : rank;
        if (rank <= PREDICTOR_RANK_LIMIT && (count == 0 || rank > ranks[count - 1]))
            ranks[count++] = (uint32_t)rank;
    }
    return count;
}

size_t choose_coarse_formats(number_format formats[CHOOSE_COARSE], const hearth_model *model, uint32_t layer)
{
    static const number_format all[CHOOSE_COARSE] = {FORMAT_Q8_0, FORMAT_Q4_0, FORMAT_LEVELS2, FORMAT_SIGNS1};
    const matrix *first = layer_first_matrix(&model->layers[layer]);
    size_t count = 0, bytes;
    for (size_t i = 0; i < CHOOSE_COARSE; i++)
        if (number_row_bytes(all[i], first->columns, &bytes) &&
            (double)bytes <= COARSE_SHARE * (double)first->row_bytes)
            formats[count++] = all[i];
    return count;
}

number_format choose_low_rank_format(const hearth_model *model)
{
    size_t bytes;
    return number_row_bytes(FORMAT_Q8_0, model->hyper.embedding_length, &bytes) ? FORMAT_Q8_0 : FORMAT_F16;
}

/* ------------------------------------------------------------------ the budget */

/* Returns whether a change from `now` to `to` gains and fits.
 * *slope: gain per cost, infinite where it costs nothing. */
static bool is_gain(const choose_option *now, const choose_option *to, double left, double *slope)
{
    double cost = to->cost - now->cost, gain = to->gain - now->gain;
    if (!(gain > 0) || (cost > 0 && cost > left))
        return false;
    *slope = cost > 0 ? gain / cost : __builtin_inf();
    return true;
}

double choose_within(size_t *chosen, const choose_option *options, size_t layers, size_t count, double budget)
{
    double spent = 0;
    for (size_t i = 0; i < layers; i++)
        spent += options[i * count + chosen[i]].cost;
    for (;;) {
        double best = 0, slope;
        size_t layer = layers, option = 0;
        for (size_t i = 0; i < layers; i++)
            for (size_t k = 0; k < count; k++)
                if (is_gain(&options[i * count + chosen[i]], &options[i * count + k], budget - spent, &slope) &&
                    slope > best) {
                    best = slope;
                    layer = i;
                    option = k;
                }
        if (layer == layers)
            return spent;
        spent += options[layer * count + option].cost - options[layer * count + chosen[layer]].cost;
        chosen[layer] = option;
    }
}
