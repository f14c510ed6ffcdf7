/* device_weights.c - uploads weights (see device_weights.h). They are packed in main memory, a stretch of rows at a
 * time. */
#include "device_weights.h"
#include "engine.h"

#include "../base/memory.h"
#include "../base/text.h"
#include "../device/packing.h"

#include <stdio.h>
#include <string.h>

/* Bytes packed at a time. */
#define STRETCH_BYTES ((size_t)16 << 20)

typedef struct loader {
    device_weights *to;
    const hearth_model *model;
    const engine_layer *layers; /* [layer_count] */
    const hearth_progress *progress;
    uint64_t done, total; /* bytes uploaded */
    hearth_error *error;
    bool counts; /* only counts bytes: nothing is created or uploaded */
} loader;

/* ------------------------------------------------------------------ uploading */

/* Creates the buffers for `rows` rows of m and those that follow them in its stack, stack_rows in all. */
static hearth_status make_room(const loader *l, device_matrix *out, const matrix *m, uint32_t rows, uint32_t stack_rows,
                               const char *what)
{
    char names[DEVICE_FORMAT_NAMES_SIZE];
    if (!device_has_format(m->format))
        return fail(l->error, HEARTH_UNSUPPORTED,
                    "%s: %s: is %s, for which devices have no kernels (they have %s); `hearth quantize` makes such a "
                    "file",
                    l->model->source->path, what, number_formats[m->format].name, device_format_names(names));
    size_t scale_bytes, bytes = device_packed_bytes(m->format, stack_rows, m->columns, &scale_bytes);
    out->format = m->format;
    out->rows = rows;
    out->columns = m->columns;
    out->stack_rows = stack_rows;
    l->to->bytes += bytes + scale_bytes;
    if (l->counts)
        return HEARTH_OK;
    TRY(device_buffer_create(&out->w, l->to->device, DEVICE_MEMORY, bytes, what, l->error));
    if (scale_bytes)
        TRY(device_buffer_create(&out->scales, l->to->device, DEVICE_MEMORY, scale_bytes, what, l->error));
    return HEARTH_OK;
}

/* Reports progress; returns false if the caller cancels. */
static bool goes_on(const loader *l)
{
    return !l->progress->report ||
           l->progress->report(l->progress->user, "bytes uploaded to the device", l->done, l->total);
}

/* Uploads rows list[0 .. rows) of m, or the first `rows`, to buffers that exist. */
static hearth_status fill(loader *l, const device_matrix *to, const matrix *m, const uint32_t *list, uint32_t rows,
                          const char *what)
{
    if (l->counts)
        return HEARTH_OK;
    size_t scale_bytes, row_bytes = device_packed_bytes(m->format, 1, m->columns, &scale_bytes);
    size_t stretch = STRETCH_BYTES / (row_bytes + scale_bytes) + 1;
    stretch = stretch < rows ? stretch : rows;
    char *packed = mem_new(stretch * (row_bytes + scale_bytes) + 1);
    if (!packed)
        return fail_memory(l->error, what, stretch * (row_bytes + scale_bytes));
    uint16_t *scales = (uint16_t *)(void *)(packed + stretch * row_bytes);
    hearth_status status = HEARTH_OK;
    for (size_t at = 0, n; status == HEARTH_OK && at < rows; at += n) {
        n = rows - at < stretch ? rows - at : stretch;
        if (!goes_on(l)) {
            status = fail(l->error, HEARTH_CANCELLED, "%s: uploading weights: cancelled", l->model->source->path);
            break;
        }
        device_pack(m, list ? list + at : NULL, at, n, packed, scales);
        status = device_write(to->w, to->w_at + at * row_bytes, packed, n * row_bytes, l->error);
        if (status == HEARTH_OK && scale_bytes)
            status = device_write(to->scales, to->scales_at + at * scale_bytes, scales, n * scale_bytes, l->error);
        l->done += n * (row_bytes + scale_bytes);
    }
    mem_free(packed);
    return status;
}

/* Creates the buffers of a matrix that is alone in its stack, and uploads it. */
static hearth_status upload(loader *l, device_matrix *out, const matrix *m, const uint32_t *list, uint32_t rows,
                            const char *what)
{
    TRY(make_room(l, out, m, rows, rows, what));
    return fill(l, out, m, list, rows, what);
}

/* A matrix of a stack; fields as the parameters of `upload`. Different formats make different stacks. */
typedef struct member {
    device_matrix *out;
    const matrix *m;
    uint32_t rows;
    const char *what;
    const uint32_t *list; /* [rows] those of m, then those of its tail; NULL: the first ones   */
    const matrix *tail;   /* the last rows are of this matrix, of the same format; NULL: none */
    uint32_t tail_rows;
} member;

/* Uploads the rows of a member, for which there is room. */
static hearth_status fill_member(loader *l, const member *b, const char *what)
{
    uint32_t own = b->rows - b->tail_rows;
    TRY(fill(l, b->out, b->m, b->list, own, what));
    if (b->tail_rows == 0)
        return HEARTH_OK;
    device_matrix rest = *b->out;
    size_t scale_bytes;
    rest.w_at += device_packed_bytes(rest.format, own, rest.columns, &scale_bytes);
    rest.scales_at += scale_bytes;
    return fill(l, &rest, b->tail, b->list + own, b->tail_rows, what);
}

/* Uploads matrices that have the same input; neighbours of one format share a stack. */
static hearth_status upload_stacks(loader *l, const member *members, size_t count, uint32_t layer)
{
    device_matrix *first = NULL;
    uint32_t at = 0;
    for (size_t i = 0; i < count; i++) {
        const member *b = &members[i];
        char name[48];
        snprintf(name, sizeof name, "blk.%u.%s", layer, b->what);
        if (!first || first->format != b->m->format) {
            uint32_t all = b->rows;
            for (size_t k = i + 1; k < count && members[k].m->format == b->m->format; k++)
                all = stacked(all) + members[k].rows;
            TRY(make_room(l, b->out, b->m, b->rows, all, name));
            first = b->out;
            at = 0;
        } else {
            *b->out = (device_matrix){first->w, first->scales, 0, 0, first->format, b->rows, b->m->columns, 0};
            b->out->w_at = device_packed_bytes(first->format, at, first->columns, &b->out->scales_at);
        }
        TRY(fill_member(l, b, name));
        at += stacked(b->rows);
    }
    return HEARTH_OK;
}

/* Uploads floats list[0 .. n) of values, or the first n; nothing if values is NULL. */
static hearth_status upload_floats(loader *l, device_buffer **out, const float *values, const uint32_t *list,
                                   uint32_t n, const char *what)
{
    if (!values)
        return HEARTH_OK;
    l->to->bytes += n * sizeof(float);
    if (l->counts)
        return HEARTH_OK;
    TRY(device_buffer_create(out, l->to->device, DEVICE_MEMORY, n * sizeof(float), what, l->error));
    float *picked = mem_new_array((size_t)n + 1, sizeof *picked);
    if (!picked)
        return fail_memory(l->error, what, n * sizeof *picked);
    for (uint32_t i = 0; i < n; i++)
        picked[i] = values[list ? list[i] : i];
    hearth_status status = device_write(*out, 0, picked, n * sizeof *picked, l->error);
    mem_free(picked);
    return status;
}

/* ------------------------------------------------------------------ a layer */

/* Uploads all rows of a matrix of a layer; nothing if it has no data. */
static hearth_status upload_whole(loader *l, device_matrix *out, const matrix *m, uint32_t layer, const char *what)
{
    char name[48];
    snprintf(name, sizeof name, "blk.%u.%s", layer, what);
    return m->data ? upload(l, out, m, NULL, m->rows, name) : HEARTH_OK;
}

/* Uploads the rows of the neurons of the device; nothing if the matrix has no data. */
static hearth_status upload_rows(loader *l, device_matrix *out, const matrix *m, const device_layer *to, uint32_t layer,
                                 const char *what)
{
    char name[48];
    snprintf(name, sizeof name, "blk.%u.%s", layer, what);
    return m->data ? upload(l, out, m, to->rows, to->neuron_count, name) : HEARTH_OK;
}

/* Uploads the weights of a norm of n values, or of those in the list. */
static hearth_status upload_norm(loader *l, device_norm *to, const norm_weights *from, const uint32_t *list, uint32_t n,
                                 const char *what)
{
    TRY(upload_floats(l, &to->weight, from->weight, list, n, what));
    return upload_floats(l, &to->bias, from->bias, list, n, what);
}

/* Uploads the biases of query, key and value as one vector, as their products lie in the stack. */
static hearth_status upload_qkv_bias(loader *l, device_layer *to, const model_layer *from)
{
    const struct {
        const float *bias;
        uint32_t rows;
    } each[] = {{from->q_bias, query_width(&from->attention)},
                {from->k_bias, key_width(&from->attention)},
                {from->v_bias, key_width(&from->attention)}};
    uint32_t all = 0, at = 0;
    if (!from->q_bias && !from->k_bias && !from->v_bias)
        return HEARTH_OK;
    for (size_t i = 0; i < 3; i++)
        all += stacked(each[i].rows);
    float *biases = mem_new_array(all, sizeof *biases);
    if (!biases)
        return fail_memory(l->error, "biases", all * sizeof *biases);
    for (size_t i = 0; i < 3; at += stacked(each[i].rows), i++)
        if (each[i].bias)
            memcpy(biases + at, each[i].bias, each[i].rows * sizeof *biases);
    hearth_status status = upload_floats(l, &to->qkv_bias, biases, NULL, all, "biases");
    mem_free(biases);
    return status;
}

void device_mixer_inputs(const model_layer *l, mixer_input out[MIXER_INPUTS])
{
    const attention_shape *a = &l->attention;
    uint32_t query = query_width(a), key = a->keys_back > 0 ? 0 : key_width(a);
    const mixer_input attention[] = {[MIXER_QUERY] = {&l->q, query, "attn_q"},
                                     [MIXER_KEY] = {&l->k, key, "attn_k"},
                                     [MIXER_VALUE] = {l->v.data ? &l->v : &l->k, key, "attn_v"},
                                     [MIXER_GATE] = {&l->q, a->gated ? query : 0, "attn_q"}};
    const mixer_input recurrent[] = {[MIXER_CONVOLVED] = {&l->convolved, l->convolved.rows, "attn_qkv"},
                                     [MIXER_SILU_GATE] = {&l->recurrent_gate, l->recurrent_gate.rows, "attn_gate"},
                                     [MIXER_STEP] = {&l->step, l->step.rows, "ssm_alpha"},
                                     [MIXER_BETA] = {&l->beta, l->beta.data ? l->beta.rows : 0, "ssm_beta"}};
    memset(out, 0, MIXER_INPUTS * sizeof *out);
    if (l->mixer != MIXER_NONE)
        memcpy(out, l->mixer == MIXER_RECURRENT ? recurrent : attention, sizeof attention);
}

/* Lists the rows of the queries, or of the gates, of a matrix that has both in turns, head by head. */
static void list_heads(const attention_shape *a, bool gates, uint32_t *list)
{
    for (uint32_t i = 0; i < query_width(a); i++)
        list[i] = i + (i / a->head_length + gates) * a->head_length;
}

/* Uploads the matrices that read a mixer's input. */
static hearth_status upload_inputs(loader *l, device_layer *to, uint32_t layer)
{
    const model_layer *from = &l->model->layers[layer];
    const attention_shape *a = &from->attention;
    mixer_input inputs[MIXER_INPUTS];
    member members[MIXER_INPUTS];
    uint32_t *lists = NULL, query = query_width(a);
    size_t count = 0;
    if (a->gated && !(lists = mem_new_array(2 * (size_t)query, sizeof *lists)))
        return fail_memory(l->error, "attn_q", 2 * query * sizeof *lists);
    for (unsigned gates = 0; a->gated && gates < 2; gates++)
        list_heads(a, gates, lists + gates * query);
    device_mixer_inputs(from, inputs);
    for (unsigned i = 0; i < MIXER_INPUTS; i++) {
        const uint32_t *list = !a->gated ? NULL : i == MIXER_QUERY ? lists : i == MIXER_GATE ? lists + query : NULL;
        if (inputs[i].rows > 0)
            members[count++] = (member){&to->inputs[i], inputs[i].of, inputs[i].rows, inputs[i].what, list, NULL, 0};
    }
    hearth_status status = upload_stacks(l, members, count, layer);
    mem_free(lists);
    return status;
}

/* Uploads what a recurrent mixer has beside its matrices. */
static hearth_status upload_recurrent(loader *l, device_layer *to, const model_layer *from)
{
    const recurrent_shape *r = &from->recurrent;
    uint32_t channels = recurrent_channels(r), heads = r->head_count;
    const struct {
        device_buffer **to;
        const float *values;
        uint32_t n;
        const char *what;
    } each[] = {
        {&to->convolution, from->convolution, channels * r->window, "convolution"},
        {&to->convolution_bias, from->convolution_bias, channels, "convolution bias"},
        {&to->step_bias, from->step_bias, heads, "step bias"},
        {&to->decay, from->decay, heads, "decay"},
        {&to->skip, from->skip, heads, "skip"},
        {&to->recurrent_norm, from->recurrent_norm, r->rule == RECURRENCE_MAMBA2 ? recurrent_width(r) : r->value_length,
         "recurrent norm"},
    };
    for (size_t i = 0; i < sizeof each / sizeof *each; i++)
        TRY(upload_floats(l, each[i].to, each[i].values, NULL, each[i].n, each[i].what));
    return HEARTH_OK;
}

/* Uploads what a layer has beside its neurons: its mixer and norms. */
static hearth_status upload_mixer(loader *l, device_layer *to, uint32_t layer)
{
    const model_layer *from = &l->model->layers[layer];
    const attention_shape *a = &from->attention;
    uint32_t d = l->model->hyper.embedding_length, query = query_width(a), key = key_width(a);
    const struct {
        device_norm *to;
        const norm_weights *from;
        uint32_t n;
        const char *what;
    } norms[] = {
        {&to->attention_norm, &from->attention_norm, d, "attention norm"},
        {&to->query_norm, &from->query_norm, a->norm_whole ? query : a->head_length, "query norm"},
        {&to->key_norm, &from->key_norm, a->norm_whole ? key : a->head_length, "key norm"},
        {&to->attention_inner_norm, &from->attention_inner_norm, query, "attention inner norm"},
        {&to->attention_post_norm, &from->attention_post_norm, d, "attention post norm"},
        {&to->ffn_norm, &from->ffn_norm, d, "ffn norm"},
        {&to->ffn_post_norm, &from->ffn_post_norm, d, "ffn post norm"},
        {&to->per_layer_post_norm, &from->per_layer_post_norm, d, "post norm"},
    };
    for (size_t i = 0; i < sizeof norms / sizeof *norms; i++)
        TRY(upload_norm(l, norms[i].to, norms[i].from, NULL, norms[i].n, norms[i].what));
    TRY(upload_qkv_bias(l, to, from));
    TRY(upload_floats(l, &to->attention_output_bias, from->attention_output_bias, NULL, d, "attention bias"));
    TRY(upload_floats(l, &to->sinks, from->sinks, NULL, a->head_count, "sinks"));
    TRY(upload_inputs(l, to, layer));
    TRY(upload_whole(l, &to->per_layer_gate, &from->per_layer_gate, layer, "inp_gate"));
    TRY(upload_whole(l, &to->per_layer_output, &from->per_layer_output, layer, "proj"));
    if (from->mixer != MIXER_RECURRENT)
        return upload_whole(l, &to->mixer_output, &from->attention_output, layer, "attn_output");
    TRY(upload_recurrent(l, to, from));
    return upload_whole(l, &to->mixer_output, &from->recurrent_output, layer, "ssm_out");
}

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

/* Returns the most neurons that a token uses: the `used` largest experts cannot have more. begins as in device_layer. */
static uint32_t most_used(const router_shape *r, const uint32_t *begins)
{
    uint32_t experts = r->expert_count, largest = 0;
    for (uint32_t e = 0; e < experts; e++)
        largest = begins[e + 1] - begins[e] > largest ? begins[e + 1] - begins[e] : largest;
    uint64_t used = (uint64_t)largest * r->used;
    uint32_t routed = begins[experts], shared = begins[experts + 1] - routed;
    return (used < routed ? (uint32_t)used : routed) + shared;
}

/* Uploads `count` numbers. */
static hearth_status upload_words(loader *l, device_buffer **out, const uint32_t *words, uint32_t count,
                                  const char *what)
{
    l->to->bytes += count * sizeof *words;
    if (l->counts)
        return HEARTH_OK;
    TRY(device_buffer_create(out, l->to->device, DEVICE_MEMORY, count * sizeof *words, what, l->error));
    return device_write(*out, 0, words, count * sizeof *words, l->error);
}

/* Uploads the masks by which experts choose their own neurons. begins [count]: room for where each expert's begin. */
static hearth_status upload_masks(loader *l, device_layer *to, const model_layer *from, uint32_t layer,
                                  uint32_t *begins, uint32_t count)
{
    if (!from->mask_in.data)
        return HEARTH_OK;
    for (uint32_t e = 0; e < count; e++) /* the shared one, which is last, has none */
        begins[e] = (e + 1 < count ? e : e - 1) * from->mask_out.columns;
    TRY(upload_whole(l, &to->mask_in, &from->mask_in, layer, "ffn_mask_in"));
    TRY(upload_rows(l, &to->mask_out, &from->mask_out, to, layer, "ffn_mask_out"));
    return upload_words(l, &to->mask_begins, begins, count, "experts");
}

/* Takes the neurons of the shared expert, which come last, out of where those of each expert begin. */
static void set_apart(device_layer *to, uint32_t *begins, uint32_t count)
{
    to->shared_count = begins[count - 1] - begins[count - 2];
    begins[count - 1] = begins[count - 2];
}

/* Uploads the router, and which neurons of the device belong to which expert. */
static hearth_status upload_router(loader *l, device_layer *to, const model_layer *from, uint32_t layer)
{
    uint32_t experts = from->ffn.router.expert_count, count = experts + 2;
    uint32_t d = l->model->hyper.embedding_length;
    const matrix shared_gate = {from->shared_gate, FORMAT_F32, 1, d, d * sizeof(float)};
    TRY(upload_whole(l, &to->router, &from->router, layer, "ffn_gate_inp"));
    TRY(upload_whole(l, &to->shared_gate, &shared_gate, layer, "ffn_gate_inp_shexp"));
    TRY(upload_floats(l, &to->router_bias, from->router_bias, NULL, experts, "router bias"));
    TRY(upload_floats(l, &to->router_correction, from->router_correction, NULL, experts, "router correction"));
    uint32_t *begins = mem_new_array(count, sizeof *begins);
    if (!begins)
        return fail_memory(l->error, "experts", count * sizeof *begins);
    layer_expert_rows(&from->ffn, to->rows, to->neuron_count, begins);
    if (from->ffn.latent > 0)
        set_apart(to, begins, count);
    to->own_width = most_used(&from->ffn.router, begins);
    to->shared_at = stacked(to->own_width);
    to->width = to->shared_count > 0 ? (uint32_t)to->shared_at + to->shared_count : to->own_width;
    hearth_status status = upload_words(l, &to->expert_begins, begins, count, "experts");
    if (status == HEARTH_OK && to->shared_count > 0) {
        memset(begins, 0, count * sizeof *begins);
        begins[count - 1] = to->shared_count;
        status = upload_words(l, &to->shared_begins, begins, count, "experts");
    }
    if (status == HEARTH_OK)
        status = upload_masks(l, to, from, layer, begins, count);
    mem_free(begins);
    return status;
}

/* Uploads the rows of the device's neurons in a layer whose experts read vectors of another width than the shared one. */
static hearth_status upload_apart(loader *l, device_layer *to, const layer_placement *p, uint32_t layer,
                                  const uint32_t *list)
{
    const model_layer *from = &l->model->layers[layer];
    const engine_layer *e = &l->layers[layer];
    uint32_t shared = to->shared_count, own = to->neuron_count - shared;
    const member inputs[][2] = {
        {{&to->gate, &from->gate, own, "ffn_gate", list, NULL, 0}, {&to->up, &from->up, own, "ffn_up", list, NULL, 0}},
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
            TRY(upload_stacks(l, &down_t[i], 1, layer));
            TRY(predicts ? upload_stacks(l, &scores[i], 1, layer) : HEARTH_OK);
        }
    return HEARTH_OK;
}

/* Uploads the rows of the device's neurons, of a layer's own matrices and of its shared expert's: `list` has them by
 * their numbers there. */
static hearth_status upload_neuron_rows(loader *l, device_layer *to, const layer_placement *p, uint32_t layer,
                                        const uint32_t *list, uint32_t shared)
{
    const model_layer *from = &l->model->layers[layer];
    const engine_layer *e = &l->layers[layer];
    uint32_t n = to->neuron_count;
    if (from->ffn.latent > 0)
        return upload_apart(l, to, p, layer, list);
    const member inputs[] = {{&to->gate, &from->gate, n, "ffn_gate", list, &from->shared.gate, shared},
                             {&to->up, &from->up, n, "ffn_up", list, &from->shared.up, shared}};
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
    return e->down_t.data ? upload_stacks(l, &down_t, 1, layer)
                          : upload_whole(l, &to->down, &from->down, layer, "ffn_down");
}

/* Lists and uploads the neurons of the device in a layer; with none of them only the bias of down. */
static hearth_status upload_neurons(loader *l, device_layer *to, const layer_placement *p, uint32_t layer)
{
    const model_layer *from = &l->model->layers[layer];
    uint32_t f = from->ffn.neuron_count, routed = ffn_routed(&from->ffn), shared = 0;
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
    uint32_t *list = mem_new_array(to->neuron_count, sizeof *list);
    if (!list)
        return fail_memory(l->error, "neurons", to->neuron_count * sizeof *list);
    for (uint32_t i = 0; i < to->neuron_count; i++) {
        shared += to->rows[i] >= routed;
        list[i] = to->rows[i] - (to->rows[i] >= routed ? routed : 0);
    }
    hearth_status status = upload_neuron_rows(l, to, p, layer, list, shared);
    mem_free(list);
    return status;
}

/* ------------------------------------------------------------------ all of them */

/* Estimates the bytes to upload, for progress: stored bytes, those of neurons by their share. */
static uint64_t estimate(const loader *l, const hearth_placement *p)
{
    uint64_t bytes = 0;
    for (uint32_t i = 0; i < p->layer_count; i++) {
        const model_layer *from = &l->model->layers[i];
        const engine_layer *e = &l->layers[i];
        if (!layer_uses_device(&p->layers[i]))
            continue;
        uint64_t neurons = layer_neurons(&p->layers[i], PLACEMENT_DEVICE), f = from->ffn.neuron_count;
        bytes += matrix_bytes(&from->q) + matrix_bytes(&from->k) + matrix_bytes(&from->v) +
                 matrix_bytes(&from->attention_output) + matrix_bytes(&from->convolved) +
                 matrix_bytes(&from->recurrent_gate) + matrix_bytes(&from->recurrent_output) +
                 matrix_bytes(&from->per_layer_gate) + matrix_bytes(&from->per_layer_output);
        bool predicts = p->layers[i].selector == SELECTOR_LOW_RANK && neurons > 0;
        bytes += predicts ? matrix_bytes(&e->predictor.fc1) + matrix_bytes(&e->predictor.fc2) * neurons / f : 0;
        uint64_t all = matrix_bytes(&from->gate) + matrix_bytes(&from->up) + matrix_bytes(&from->shared.gate) +
                       matrix_bytes(&from->shared.up) + matrix_bytes(&e->down_t) + matrix_bytes(&e->shared_down_t) +
                       (e->down_t.data ? 0 : matrix_bytes(&from->down));
        all += matrix_bytes(&from->mask_out);
        bytes += all * neurons / (f > 0 ? f : 1) +
                 (neurons > 0 ? matrix_bytes(&from->router) + matrix_bytes(&from->mask_in) : 0);
    }
    bytes += p->head == PLACEMENT_DEVICE ? matrix_bytes(&l->model->head) : 0;
    bool embeds = p->embedding == PLACEMENT_DEVICE;
    return bytes + (embeds ? matrix_bytes(&l->model->embedding) + matrix_bytes(&l->model->positions) : 0);
}

static hearth_status upload_all(loader *l, const hearth_placement *p)
{
    for (uint32_t i = 0; i < p->layer_count; i++) {
        if (!layer_uses_device(&p->layers[i]))
            continue;
        TRY(upload_mixer(l, &l->to->layers[i], i));
        TRY(upload_neurons(l, &l->to->layers[i], &p->layers[i], i));
    }
    const hearth_model *m = l->model;
    if (p->embedding == PLACEMENT_DEVICE)
        TRY(upload(l, &l->to->embedding, &m->embedding, NULL, m->embedding.rows, "token_embd"));
    if (p->embedding == PLACEMENT_DEVICE && m->positions.data)
        TRY(upload(l, &l->to->positions, &m->positions, NULL, m->positions.rows, "position_embd"));
    if (p->head == PLACEMENT_DEVICE)
        TRY(upload(l, &l->to->head, &m->head, NULL, m->head.rows, "output"));
    l->done = l->total;
    return goes_on(l) ? HEARTH_OK : fail(l->error, HEARTH_CANCELLED, "%s: cancelled", m->source->path);
}

/* ------------------------------------------------------------------ what would fit */

/* Counts the bytes of one layer without uploading it. */
static hearth_status count_layer(const loader *l, const hearth_placement *p, uint32_t layer, uint64_t *bytes)
{
    device_weights counted = {0};
    device_layer to = {0};
    loader counter = {.to = &counted, .model = l->model, .layers = l->layers, .counts = true};
    hearth_status status = upload_mixer(&counter, &to, layer);
    if (status == HEARTH_OK)
        status = upload_neurons(&counter, &to, &p->layers[layer], layer);
    mem_free(to.rows);
    *bytes = counted.bytes;
    return status;
}

/* Adds to the error how many layers the budget would hold, counted from the last, as hearth_placement_use_device gives
 * them to a device. The weights that did not fit have already been freed. */
static void say_what_fits(const loader *l, const device *d, const hearth_placement *p)
{
    device_info info;
    uint32_t wanted = 0, fitting = 0;
    uint64_t sum = 0, bytes;
    device_describe(d, &info);
    for (uint32_t i = p->layer_count; i-- > 0;) {
        if (!layer_uses_device(&p->layers[i]))
            continue;
        if (count_layer(l, p, i, &bytes) != HEARTH_OK)
            return;
        sum += bytes;
        wanted++;
        if (sum <= info.budget_bytes - info.used_bytes)
            fitting = wanted;
    }
    char text[16], fits[64] = "not even one of them fits";
    if (fitting > 0)
        snprintf(fits, sizeof fits, "the last %u of them fit%s", fitting, fitting == 1 ? "s" : "");
    hearth_error first = *l->error;
    (void)fail(l->error, first.status, "%s; the weights of %u layer%s take %s there, %s", first.text, wanted,
               wanted == 1 ? "" : "s", text_size(text, (double)sum), fits);
}

/* ------------------------------------------------------------------ life */

/* Refuses a shared expert in another format than the others: their rows follow one another there. */
static hearth_status check_shared(const hearth_model *m, const engine_layer *e, uint32_t layer, hearth_error *error)
{
    const model_layer *from = &m->layers[layer];
    const matrix *const pairs[][2] = {
        {&from->gate, &from->shared.gate}, {&from->up, &from->shared.up}, {&e->down_t, &e->shared_down_t}};
    bool joined = from->ffn.shared_neurons > 0 && from->ffn.latent == 0;
    for (size_t i = 0; joined && i < sizeof pairs / sizeof *pairs; i++)
        if (pairs[i][0]->data && pairs[i][0]->format != pairs[i][1]->format)
            return fail(error, HEARTH_UNSUPPORTED,
                        "%s: layer %u: its shared expert is %s and the others are %s, which devices cannot do yet; "
                        "`hearth convert` makes them the same",
                        m->source->path, layer, number_formats[pairs[i][1]->format].name,
                        number_formats[pairs[i][0]->format].name);
    return HEARTH_OK;
}

const char *device_lacks(const model_layer *l)
{
    const struct {
        bool has;
        const char *what;
    } lacking[] = {
        {l->shared_gate && l->ffn.router.early, "has a gated shared expert, and a router that reads what enters"},
        {l->ffn.latent > 0 &&
             (l->gate_bias || l->up_bias || l->down_bias || l->mask_in.data || l->ffn_inner_norm.weight),
         "has experts of another width with biases, masks or a norm"},
        {l->wiring == WIRING_STREAMS, "has several streams of the residual"},
        {l->ffn.cuts, "cuts first values above their mean"},
        {l->experts_norm.weight != NULL, "has experts beside a network"},
    };
    for (size_t i = 0; i < sizeof lacking / sizeof *lacking; i++)
        if (lacking[i].has)
            return lacking[i].what;
    return NULL;
}

/* Refuses what devices do not compute yet. */
static hearth_status check_layer(const hearth_model *m, uint32_t layer, hearth_error *error)
{
    const char *what = device_lacks(&m->layers[layer]);
    return what ? fail(error, HEARTH_UNSUPPORTED, "%s: layer %u: %s, which devices cannot do yet", m->source->path,
                       layer, what)
                : HEARTH_OK;
}

/* Refuses a layer that reads the keys and values of one on the other side. */
static hearth_status check_side(const hearth_model *m, const hearth_placement *p, uint32_t layer, hearth_error *error)
{
    uint32_t from = layer - m->layers[layer].attention.keys_back;
    bool on_device = layer_uses_device(&p->layers[from]);
    if (on_device == layer_uses_device(&p->layers[layer]))
        return HEARTH_OK;
    return fail(error, HEARTH_UNSUPPORTED,
                "%s: layer %u: reads the keys and values of layer %u, which is on the %s; both must be on one side",
                m->source->path, layer, from, on_device ? "device" : "CPU");
}

hearth_status device_weights_create(device_weights **out, device *d, const hearth_model *model,
                                    const hearth_placement *placement, const engine_layer *engine_layers,
                                    const hearth_progress *progress, hearth_error *error)
{
    for (uint32_t i = 0; i < placement->layer_count; i++) {
        if (layer_uses_device(&placement->layers[i]))
            TRY(check_layer(model, i, error));
        TRY(check_side(model, placement, i, error));
    }
    if (placement->embedding == PLACEMENT_DEVICE && model->hyper.stream_count > 1)
        return fail(error, HEARTH_UNSUPPORTED, "%s: the embedding must be on the CPU, which makes more of it",
                    model->source->path);
    for (uint32_t i = 0; i < placement->layer_count; i++)
        if (layer_neurons(&placement->layers[i], PLACEMENT_DEVICE) > 0)
            TRY(check_shared(model, &engine_layers[i], i, error));
    device_weights *w = mem_new(sizeof *w);
    device_layer *layers = mem_new_array(model->hyper.layer_count, sizeof *layers);
    if (!w || !layers) {
        mem_free(w);
        mem_free(layers);
        return fail_memory(error, "device weights", model->hyper.layer_count * sizeof *layers);
    }
    *w = (device_weights){.device = d, .layer_count = model->hyper.layer_count, .layers = layers};
    loader l = {.to = w, .model = model, .layers = engine_layers, .progress = progress, .error = error};
    l.total = estimate(&l, placement);
    hearth_status status = upload_all(&l, placement);
    if (status == HEARTH_OK) {
        *out = w;
        return status;
    }
    device_weights_destroy(w);
    if (status == HEARTH_NO_MEMORY && error)
        say_what_fits(&l, d, placement);
    return status;
}

/* Frees the buffers of a stack. */
static void drop(device_matrix *m)
{
    if (m->stack_rows == 0)
        return; /* the first matrix of the stack owns the buffers */
    device_buffer_destroy(m->w);
    device_buffer_destroy(m->scales);
}

void device_weights_destroy(device_weights *w)
{
    if (!w)
        return;
    for (uint32_t i = 0; i < w->layer_count; i++) {
        device_layer *l = &w->layers[i];
        device_matrix *matrices[] = {&l->mixer_output,  &l->gate,      &l->up,         &l->down_t,      &l->down,
                                     &l->fc1,           &l->fc2,       &l->router,     &l->mask_in,     &l->mask_out,
                                     &l->shared_gate,   &l->latent_in, &l->latent_out, &l->shared.gate, &l->shared.up,
                                     &l->shared.down_t, &l->shared.fc2};
        const device_norm norms[] = {
            l->attention_norm, l->ffn_norm, l->attention_post_norm, l->ffn_post_norm,      l->attention_inner_norm,
            l->query_norm,     l->key_norm, l->ffn_inner_norm,      l->per_layer_post_norm};
        device_buffer *floats[] = {
            l->qkv_bias,    l->attention_output_bias, l->sinks,         l->gate_bias,   l->up_bias,       l->down_bias,
            l->router_bias, l->router_correction,     l->expert_begins, l->mask_begins, l->step_bias,     l->decay,
            l->convolution, l->convolution_bias,      l->shared_begins, l->skip,        l->recurrent_norm};
        for (size_t k = 0; k < MIXER_INPUTS; k++)
            drop(&l->inputs[k]);
        for (size_t k = 0; k < sizeof matrices / sizeof *matrices; k++)
            drop(matrices[k]);
        drop(&l->per_layer_gate);
        drop(&l->per_layer_output);
        for (size_t k = 0; k < sizeof norms / sizeof *norms; k++) {
            device_buffer_destroy(norms[k].weight);
            device_buffer_destroy(norms[k].bias);
        }
        for (size_t k = 0; k < sizeof floats / sizeof *floats; k++)
            device_buffer_destroy(floats[k]);
        mem_free(l->rows);
    }
    drop(&w->embedding);
    drop(&w->positions);
    drop(&w->head);
    mem_free(w->layers);
    mem_free(w);
}
