/* device_weights_neurons.c - uploads the neurons of a layer: their rows, the biases of what they give, and the routers of those
 * that belong to experts. */
#include "device_weights_internal.h"

#include "../base/memory.h"

#include <stdio.h>
#include <string.h>

/* Uploads one vector of down's biases, or of experts one each: then zeros follow, for the shared one. */
static hearth_status upload_down_bias(loader *l, device_layer *to, const model_layer *from)
{
    uint32_t d = l->model->hyper.embedding_length, experts = from->ffn.router.expert_count;
    if (!from->down_bias || experts == 0)
        return upload_floats(l, &to->down_bias, from->down_bias, NULL, d, "down bias");
    size_t all = (size_t)(experts + 1) * d;
    float *biases = mem_new_array(all, sizeof *biases);
    if (!biases)
        return fail_memory(l->error, "biases", all * sizeof *biases);
    memcpy(biases, from->down_bias, (size_t)experts * d * sizeof *biases);
    hearth_status status = upload_floats(l, &to->down_bias, biases, NULL, (uint32_t)all, "down bias");
    mem_free(biases);
    return status;
}

/* Returns the most neurons that a token uses: the `used` largest of so many experts cannot have more; and the shared one's. */
static uint32_t most_used(const router_shape *r, const uint32_t *ranges)
{
    const uint32_t *shared = ranges + 2 * (size_t)r->expert_count;
    uint32_t largest = 0, routed = shared[0];
    for (const uint32_t *of = ranges; of < shared; of += 2)
        largest = of[1] - of[0] > largest ? of[1] - of[0] : largest;
    uint64_t used = (uint64_t)largest * r->used;
    return (used < routed ? (uint32_t)used : routed) + shared[1] - shared[0];
}

/* Uploads the masks by which experts choose their own neurons. ranges [experts + 1][2]: room for those of their rows. */
static hearth_status upload_masks(loader *l, device_layer *to, const model_layer *from, uint32_t layer,
                                  uint32_t *ranges)
{
    uint32_t experts = from->ffn.router.expert_count, each = from->mask_out.columns;
    if (!from->mask_in.data)
        return HEARTH_OK;
    for (uint32_t e = 0; e <= experts; e++) /* the shared one, which is last, has none */
        ranges[2 * e] = e * each, ranges[2 * e + 1] = (e < experts ? e + 1 : e) * each;
    TRY(upload_whole(l, &to->mask_in, &from->mask_in, layer, "ffn_mask_in"));
    TRY(upload_rows(l, &to->mask_out, &from->mask_out, to, layer, "ffn_mask_out"));
    return upload_words(l, &to->mask_ranges, ranges, 2 * (experts + 1), "experts");
}

/* Values to a multiple of which a portion begins: those rounded to 8 bits, and the scales and sums of each block, are then arguments
 * of kernels, too. */
#define PORTION_ALIGNMENT (ARGUMENT_ALIGNMENT / sizeof(float) * Q8_BLOCK)

/* Finds and uploads which places belong to which expert, apart where the shared one is. own [n + 2 * (experts + 1)]: room. */
static hearth_status upload_ranges(loader *l, device_layer *to, const model_layer *from, uint32_t *own)
{
    uint32_t experts = from->ffn.router.expert_count, n = to->neuron_count, pairs = 2 * (experts + 1), at = 0;
    uint32_t *ranges = to->ranges, *owners = own + pairs;
    for (uint32_t e = 0; e <= experts; e++) {
        uint64_t end = (e + (uint64_t)1) * from->ffn.expert_neurons;
        ranges[2 * e] = at;
        for (; at < n && (e == experts || to->rows[at] < end); at++)
            owners[at] = e;
        ranges[2 * e + 1] = at;
    }
    to->shared_count = device_apart(from) ? n - ranges[2 * experts] : 0;
    ranges[2 * experts + 1] -= to->shared_count;
    to->own_width = most_used(&from->ffn.router, ranges);
    to->shared_at = (to->own_width + (size_t)PORTION_ALIGNMENT - 1) / PORTION_ALIGNMENT * PORTION_ALIGNMENT;
    to->width = to->shared_count > 0 ? (uint32_t)to->shared_at + to->shared_count : to->own_width;
    TRY(upload_words(l, &to->expert_ranges, ranges, pairs, "experts"));
    TRY(upload_words(l, &to->expert_owners, owners, n, "experts"));
    if (to->shared_count == 0)
        return HEARTH_OK;
    memset(own, 0, pairs * sizeof *own);
    own[pairs - 1] = to->shared_count;
    TRY(upload_words(l, &to->shared_ranges, own, pairs, "experts"));
    return upload_words(l, &to->shared_owners, owners + (n - to->shared_count), to->shared_count, "experts");
}

/* Uploads the router, and which neurons of the device belong to which expert. */
static hearth_status upload_router(loader *l, device_layer *to, const model_layer *from, uint32_t layer)
{
    uint32_t experts = from->ffn.router.expert_count, pairs = 2 * (experts + 1);
    uint32_t d = l->model->hyper.embedding_length;
    const matrix shared_gate = {from->shared_gate, FORMAT_F32, 1, d, d * sizeof(float)};
    TRY(upload_whole(l, &to->router, &from->router, layer, "ffn_gate_inp"));
    TRY(upload_whole(l, &to->shared_gate, &shared_gate, layer, "ffn_gate_inp_shexp"));
    TRY(upload_floats(l, &to->router_bias, from->router_bias, NULL, experts, "router bias"));
    TRY(upload_floats(l, &to->router_correction, from->router_correction, NULL, experts, "router correction"));
    if (from->token_experts)
        TRY(upload_words(l, &to->token_experts, (const uint32_t *)from->token_experts,
                         l->model->hyper.vocabulary_size * from->ffn.router.used, "experts of tokens"));
    TRY(upload_floats(l, &to->expert_scales, from->expert_scales, NULL, experts, "expert scales"));
    TRY(upload_norm(l, &to->router_norm, &from->router_norm, NULL, d, "router norm"));
    TRY(upload_norm(l, &to->experts_norm, &from->experts_norm, NULL, d, "experts norm"));
    TRY(upload_norm(l, &to->experts_post_norm, &from->experts_post_norm, NULL, d, "experts post norm"));
    TRY(upload_norm(l, &to->shared_post_norm, &from->shared_post_norm, NULL, d, "network post norm"));
    uint32_t *room = mem_new_array((size_t)pairs + to->neuron_count, sizeof *room);
    to->ranges = mem_new_array(pairs, sizeof *to->ranges);
    hearth_status status =
        room && to->ranges ? HEARTH_OK : fail_memory(l->error, "experts", (pairs + to->neuron_count) * sizeof *room);
    if (status == HEARTH_OK)
        status = upload_ranges(l, to, from, room);
    if (status == HEARTH_OK)
        status = upload_masks(l, to, from, layer, room);
    mem_free(room);
    return status;
}

/* The rows of the device's neurons, by their numbers in matrices that have a row per neuron, and in gate and up, where the
 * rows of experts may lie further apart. Those of the shared expert, which come last, by their numbers there. */
typedef struct neuron_rows {
    const uint32_t *plain, *spread; /* [neuron_count] */
    uint32_t shared;
} neuron_rows;

matrix spread_matrix(const model_layer *l, const matrix *m)
{
    uint32_t last = ffn_experts(&l->ffn) - 1;
    return l->ffn.router.expert_count > 0 && m->data
               ? matrix_rows(m, 0, last * l->expert_stride + l->ffn.expert_neurons)
               : *m;
}

/* Uploads `down` as the file stores it: of a network whole, of experts the matrices of those that the device has, by their
 * places, and that of the shared one if it has that. */
static hearth_status upload_down(loader *l, device_layer *to, const model_layer *from, uint32_t layer)
{
    uint32_t experts = from->ffn.router.expert_count, *list, n = 0;
    char name[48];
    if (experts == 0)
        return upload_whole(l, &to->down, &from->down, layer, "ffn_down");
    uint32_t d = from->down.rows / experts;
    list = mem_new_array((size_t)from->down.rows + 1, sizeof *list);
    if (!list)
        return fail_memory(l->error, "experts", from->down.rows * sizeof *list);
    for (uint32_t e = 0; e < experts; e++)
        for (uint32_t i = 0; to->ranges[2 * e] < to->ranges[2 * e + 1] && i < d; i++)
            list[n++] = e * d + i;
    snprintf(name, sizeof name, "blk.%u.ffn_down", layer);
    hearth_status status = n > 0 ? upload_matrix(l, &to->down, &from->down, list, n, name) : HEARTH_OK;
    mem_free(list);
    TRY(status);
    return to->ranges[2 * experts] < to->neuron_count
               ? upload_whole(l, &to->shared.down, &from->shared.down, layer, "ffn_down_shexp")
               : HEARTH_OK;
}

/* Uploads the rows of the device's neurons in a layer whose shared expert is computed apart. */
static hearth_status upload_apart(loader *l, device_layer *to, const layer_placement *p, uint32_t layer,
                                  const neuron_rows *rows)
{
    const model_layer *from = &l->model->layers[layer];
    const engine_layer *e = &l->layers[layer];
    const matrix gate = spread_matrix(from, &from->gate), up = spread_matrix(from, &from->up);
    uint32_t shared = to->shared_count, own = to->neuron_count - shared;
    const uint32_t *list = rows->plain;
    const member inputs[][2] = {{{&to->gate, &gate, own, "ffn_gate", rows->spread, NULL, 0},
                                 {&to->up, &up, own, "ffn_up", rows->spread, NULL, 0}},
                                {{&to->shared.gate, &from->shared.gate, shared, "ffn_gate_shexp", list + own, NULL, 0},
                                 {&to->shared.up, &from->shared.up, shared, "ffn_up_shexp", list + own, NULL, 0}}};
    const member down_t[] = {{&to->down_t, &e->down_t, own, "ffn_down_t", list, NULL, 0},
                             {&to->shared.down_t, &e->shared_down_t, shared, "ffn_down_t_shexp", list + own, NULL, 0}};
    const matrix *fc2 = &e->predictor.fc2;
    const member scores[] = {{&to->fc2, fc2, own, "fc2", to->rows, NULL, 0},
                             {&to->shared.fc2, fc2, shared, "fc2", to->rows + own, NULL, 0}};
    size_t absent = from->gate.data ? 0 : 1;
    bool predicts = p->selector == SELECTOR_LOW_RANK;
    TRY(predicts ? upload_whole(l, &to->fc1, &e->predictor.fc1, layer, "fc1") : HEARTH_OK);
    TRY(upload_whole(l, &to->latent_in, &from->latent_in, layer, "ffn_latent_down"));
    TRY(upload_whole(l, &to->latent_out, &from->latent_out, layer, "ffn_latent_up"));
    for (size_t i = 0; i < 2; i++)
        if (down_t[i].rows > 0) {
            TRY(upload_stacks(l, inputs[i] + absent, 2 - absent, layer));
            TRY(e->down_t.data ? upload_stacks(l, &down_t[i], 1, layer) : HEARTH_OK);
            TRY(predicts ? upload_stacks(l, &scores[i], 1, layer) : HEARTH_OK);
        }
    return e->down_t.data ? HEARTH_OK : upload_down(l, to, from, layer);
}

/* Uploads the rows of the device's neurons, of a layer's own matrices and of its shared expert's. */
static hearth_status upload_neuron_rows(loader *l, device_layer *to, const layer_placement *p, uint32_t layer,
                                        const neuron_rows *rows)
{
    const model_layer *from = &l->model->layers[layer];
    const engine_layer *e = &l->layers[layer];
    const matrix gate = spread_matrix(from, &from->gate), up = spread_matrix(from, &from->up);
    uint32_t n = to->neuron_count, shared = rows->shared;
    const uint32_t *list = rows->plain;
    if (device_apart(from))
        return upload_apart(l, to, p, layer, rows);
    const member inputs[] = {{&to->gate, &gate, n, "ffn_gate", rows->spread, &from->shared.gate, shared},
                             {&to->up, &up, n, "ffn_up", rows->spread, &from->shared.up, shared}};
    const member down_t = {&to->down_t, &e->down_t, n, "ffn_down_t", list, &e->shared_down_t, shared};
    /* Plain networks have no gate. */
    size_t absent = from->gate.data ? 0 : 1;
    TRY(upload_stacks(l, inputs + absent, 2 - absent, layer));
    TRY(upload_floats(l, &to->gate_bias, from->gate_bias, list, n, "gate bias"));
    TRY(upload_floats(l, &to->up_bias, from->up_bias, list, n, "up bias"));
    TRY(upload_norm(l, &to->ffn_inner_norm, &from->ffn_inner_norm, list, n, "ffn inner norm"));
    if (p->selector == SELECTOR_LOW_RANK) {
        TRY(upload_whole(l, &to->fc1, &e->predictor.fc1, layer, "fc1"));
        TRY(upload_rows(l, &to->fc2, &e->predictor.fc2, to, layer, "fc2"));
    }
    return e->down_t.data ? upload_stacks(l, &down_t, 1, layer) : upload_down(l, to, from, layer);
}

/* Returns whether it is counted how often each neuron of a layer is listed: so they may change sides while it runs, if both
 * have some. Where one has all, nothing is counted, but the bytes are the same for each neuron, as plans have it. */
static bool has_counts(const model_layer *from, const layer_placement *p)
{
    return selectors[p->selector].skips && ffn_skippable(&from->ffn) && from->ffn.router.expert_count == 0 &&
           layer_neurons(p, PLACEMENT_NOBODY) == 0;
}

hearth_status upload_neurons(loader *l, device_layer *to, const layer_placement *p, uint32_t layer)
{
    const model_layer *from = &l->model->layers[layer];
    uint32_t f = from->ffn.neuron_count, routed = ffn_routed(&from->ffn);
    bool experts = from->ffn.router.expert_count > 0;
    to->rows = mem_new_array(f, sizeof *to->rows);
    if (!to->rows)
        return fail_memory(l->error, "neurons", f * sizeof *to->rows);
    if (f > 0)
        TRY(layer_rows(p, PLACEMENT_DEVICE, from->order, f, to->rows, &to->neuron_count, l->error));
    to->width = to->neuron_count;
    if (!experts || to->neuron_count > 0) /* with all experts there, the CPU adds their biases */
        TRY(upload_down_bias(l, to, from));
    if (to->neuron_count == 0)
        return HEARTH_OK;
    if (experts)
        TRY(upload_router(l, to, from, layer));
    if (has_counts(from, p))
        TRY(upload_zeros(l, &to->fired, to->neuron_count, "counts of neurons"));
    uint32_t n = to->neuron_count, *plain = mem_new_array(2 * (size_t)n, sizeof *plain);
    if (!plain)
        return fail_memory(l->error, "neurons", 2 * (size_t)n * sizeof *plain);
    uint32_t *spread = plain + n;
    neuron_rows rows = {plain, spread, 0};
    for (uint32_t i = 0; i < n; i++) {
        uint32_t row = to->rows[i];
        rows.shared += row >= routed;
        plain[i] = row - (row >= routed ? routed : 0);
        spread[i] = row >= routed ? plain[i] : spread_row(from, row);
    }
    hearth_status status = upload_neuron_rows(l, to, p, layer, &rows);
    mem_free(plain);
    return status;
}
