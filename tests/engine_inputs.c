/* engine_inputs.c - the sums of squared inputs against a forward pass of the test's own, in double precision.
 *
 * Every token is the first and only one of its sequence. So attention gives it its own value, whatever query, key and
 * rotation are, and the pass is short. Fed together and one at a time, tokens take different ways through the engine
 * (above all with experts); the sums must be those of the pass both times. */
#include "../src/engine/inputs.h"
#include "../src/model/model.h"

#include "golden.h"

enum { TOKENS = 40, WIDEST = 1024 };

/* ------------------------------------------------------------------ the forward pass */

typedef struct pass {
    const hearth_model *model;
    input_sums *sums;
} pass;

/* y [rows] = rows [first, first + rows) of m times x, plus bias [rows]. */
static void times(const matrix *m, size_t first, size_t rows, const float *bias, const double *x, double *y)
{
    float row[WIDEST];
    assert_true(m->columns <= WIDEST && rows <= WIDEST);
    for (size_t r = 0; r < rows; r++) {
        number_formats[m->format].decode(matrix_row(m, first + r), row, m->columns);
        y[r] = bias ? (double)bias[r] : 0;
        for (size_t k = 0; k < m->columns; k++)
            y[r] += (double)row[k] * x[k];
    }
}

static void norm(const hyperparameters *h, const norm_weights *w, const double *x, size_t n, double *out)
{
    double mean = 0, squares = 0;
    for (size_t i = 0; h->norm == NORM_LAYER && i < n; i++)
        mean += x[i] / (double)n;
    for (size_t i = 0; i < n; i++)
        squares += (x[i] - mean) * (x[i] - mean) / (double)n;
    double scale = 1 / sqrt(squares + (double)h->norm_epsilon);
    for (size_t i = 0; i < n; i++)
        out[i] = w->weight ? (x[i] - mean) * scale * (double)w->weight[i] + (w->bias ? (double)w->bias[i] : 0) : x[i];
}

/* Adds an input to the sums that are expected. */
static void see(const input_squares *to, size_t expert, const double *x)
{
    for (size_t k = 0; k < to->columns; k++)
        to->sums[expert * to->columns + k] += x[k] * x[k];
    to->rows[expert]++;
}

static double activate(ffn_activation kind, double x)
{
    switch (kind) {
    case FFN_SILU:
        return x / (1 + exp(-x));
    case FFN_RELU:
        return x > 0 ? x : 0;
    case FFN_RELU2:
        return x > 0 ? x * x : 0;
    case FFN_GELU_TANH:
        return x / 2 * (1 + tanh(0.79788456080286536 * (x + 0.044715 * x * x * x)));
    default:
        fail_msg("the activation %d is not this test's", (int)kind);
        return 0;
    }
}

/* One network: rows [first, first + f) of gate and up, [down_first, down_first + d) of down. */
typedef struct network {
    const matrix *gate, *up, *down;
    const float *up_bias, *down_bias;
    const norm_weights *inner_norm;
    size_t first, f, down_first;
    const input_squares *reads, *down_reads;
    size_t expert;
    double share;
} network;

static void run_network(const pass *p, const model_layer *l, const network *n, const double *all, double *y)
{
    double gate[WIDEST], up[WIDEST], out[WIDEST], x[WIDEST];
    size_t d = p->model->hyper.embedding_length;
    bool weighs = l->ffn.router.weighs_input;
    for (size_t i = 0; i < d; i++)
        x[i] = weighs ? n->share * all[i] : all[i];
    bool plain = l->ffn.gating == FFN_PLAIN;
    see(n->reads, n->expert, x);
    times(n->up, n->first, n->f, n->up_bias, x, up);
    if (!plain)
        times(n->gate, n->first, n->f, NULL, x, gate);
    for (size_t i = 0; i < n->f; i++)
        up[i] = plain ? activate(l->ffn.activation, up[i]) : activate(l->ffn.activation, gate[i]) * up[i];
    norm(&p->model->hyper, n->inner_norm, up, n->f, up);
    see(n->down_reads, n->expert, up);
    times(n->down, n->down_first, d, n->down_bias, up, out);
    for (size_t i = 0; i < d; i++)
        y[i] += weighs ? out[i] : n->share * out[i];
}

#define NEVER (-1e9)

/* Returns the place of the largest of n values. */
static size_t largest(const double *values, size_t n)
{
    size_t best = 0;
    for (size_t i = 1; i < n; i++)
        best = values[i] > values[best] ? i : best;
    return best;
}

/* Rules out the experts of all groups but those with the greatest sums of their best two. */
static void rule_out(const router_shape *r, double *ranks)
{
    size_t each = r->expert_count / r->group_count;
    double sums[WIDEST];
    for (size_t g = 0; g < r->group_count; g++) {
        double group[WIDEST];
        memcpy(group, ranks + g * each, each * sizeof *group);
        size_t first = largest(group, each);
        sums[g] = group[first];
        group[first] = NEVER;
        sums[g] += group[largest(group, each)];
    }
    for (size_t i = 0; i < r->group_used; i++)
        sums[largest(sums, r->group_count)] = NEVER;
    for (size_t e = 0; e < r->expert_count; e++)
        ranks[e] = sums[e / each] == NEVER ? ranks[e] : NEVER;
}

/* The shares of the experts; 0 where one is not chosen. */
static void route(const model_layer *l, const double *x, double *shares)
{
    const router_shape *r = &l->ffn.router;
    double score[WIDEST], rank[WIDEST], sum = 0, chosen = 0;
    times(&l->router, 0, r->expert_count, l->router_bias, x, score);
    assert_false(r->early);
    for (size_t e = 0; e < r->expert_count; e++) {
        score[e] = r->scoring == ROUTER_SIGMOID ? 1 / (1 + exp(-score[e])) : exp(score[e]);
        sum += r->scoring == ROUTER_SIGMOID ? 0 : score[e];
    }
    for (size_t e = 0; e < r->expert_count; e++) {
        score[e] /= r->scoring == ROUTER_SIGMOID ? 1 : sum;
        rank[e] = score[e] + (l->router_correction ? (double)l->router_correction[e] : 0);
        shares[e] = 0;
    }
    if (r->group_count > 1)
        rule_out(r, rank);
    for (size_t used = 0; used < r->used; used++) {
        size_t best = largest(rank, r->expert_count);
        shares[best] = score[best];
        chosen += score[best];
        rank[best] = NEVER;
    }
    for (size_t e = 0; e < r->expert_count; e++)
        shares[e] *= (double)r->scale / (r->shares ? chosen : 1);
}

/* The layer's network, or those of the chosen experts and the shared one. */
static void run_networks(const pass *p, uint32_t layer, const double *x, double *y)
{
    const model_layer *l = &p->model->layers[layer];
    const input_squares *to = p->sums->layers[layer];
    const norm_weights none = {0};
    double shares[WIDEST] = {1};
    size_t experts = ffn_experts(&l->ffn), f = l->ffn.expert_neurons, d = p->model->hyper.embedding_length;
    network n = {&l->gate,           &l->up,          &l->down, l->up_bias, l->down_bias, &l->ffn_inner_norm, 0, f, 0,
                 &to[INPUT_NETWORK], &to[INPUT_DOWN], 0,        1};
    if (l->ffn.router.expert_count > 0)
        route(l, x, shares);
    memset(y, 0, d * sizeof *y);
    for (size_t e = 0; e < experts; e++) {
        n.first = e * f;
        n.down_first = e * d;
        n.expert = e;
        n.share = shares[e];
        if (shares[e] != 0)
            run_network(p, l, &n, x, y);
    }
    if (l->ffn.shared_neurons > 0)
        run_network(p, l,
                    &(network){&l->shared.gate, &l->shared.up, &l->shared.down, NULL, NULL, &none, 0,
                               l->ffn.shared_neurons, 0, &to[INPUT_SHARED], &to[INPUT_SHARED_DOWN], 0, 1},
                    x, y);
}

/* What attention adds: the value of the only position, for every query head. */
static void attend_alone(const pass *p, uint32_t layer, const double *x, double *y)
{
    const model_layer *l = &p->model->layers[layer];
    const attention_shape *a = &l->attention;
    double value[WIDEST], mixed[WIDEST];
    see(&p->sums->layers[layer][INPUT_ATTENTION], 0, x);
    times(&l->v, 0, key_width(a), l->v_bias, x, value);
    for (size_t i = 0; i < query_width(a); i++)
        mixed[i] = value[i / a->head_length / (a->head_count / a->kv_head_count) * a->head_length + i % a->head_length];
    if (l->attention_gate.data) {
        double gates[WIDEST];
        times(&l->attention_gate, 0, query_width(a), NULL, x, gates);
        for (size_t i = 0; i < query_width(a); i++)
            mixed[i] /= 1 + exp(-gates[i]);
    }
    norm(&p->model->hyper, &l->attention_inner_norm, mixed, query_width(a), mixed);
    see(&p->sums->layers[layer][INPUT_ATTENTION_OUTPUT], 0, mixed);
    times(&l->attention_output, 0, p->model->hyper.embedding_length, l->attention_output_bias, mixed, y);
}

/* RWKV-7's mixture of an input of the first token of a sequence, before which lies nothing. */
static void mix_input(const model_layer *l, rwkv_input input, const double *x, double *mixed)
{
    for (size_t i = 0, d = l->q.columns; i < d; i++)
        mixed[i] = x[i] - (double)l->input_mix[input * d + i] * x[i];
}

static double sigmoid(double x)
{
    return 1 / (1 + exp(-x));
}

static void run_map(const low_rank_map *map, const double *x, double (*between)(double), double *y)
{
    double hidden[WIDEST];
    times(&map->in, 0, map->in.rows, NULL, x, hidden);
    for (size_t i = 0; between && i < map->in.rows; i++)
        hidden[i] = between(hidden[i]);
    times(&map->out, 0, map->out.rows, map->bias, hidden, y);
}

/* What RWKV-7's mixer adds to the first token of a sequence (arXiv 2503.14456): the state is empty, so that a query finds the token's
 * own value, as much as it is like the token's own key. */
static void mix_alone(const pass *p, uint32_t layer, const double *x, double *first_value, double *y)
{
    const model_layer *l = &p->model->layers[layer];
    const input_squares *sums = p->sums->layers[layer];
    size_t d = l->q.columns, length = l->recurrent.key_length;
    double mixed[WIDEST], query[WIDEST], key[WIDEST], value[WIDEST], rate[WIDEST], share[WIDEST], gate[WIDEST];
    mix_input(l, RWKV_IN_QUERY, x, mixed);
    see(&sums[INPUT_ATTENTION], 0, mixed);
    times(&l->q, 0, d, NULL, mixed, query);
    mix_input(l, RWKV_IN_KEY, x, mixed);
    see(&sums[INPUT_MIXED_KEY], 0, mixed);
    times(&l->k, 0, d, NULL, mixed, key);
    mix_input(l, RWKV_IN_VALUE, x, mixed);
    see(&sums[INPUT_MIXED_VALUE], 0, mixed);
    times(&l->v, 0, d, NULL, mixed, value);
    if (layer > 0)
        run_map(&l->low_rank[MAP_VALUE], mixed, NULL, share);
    mix_input(l, RWKV_IN_RATE, x, mixed);
    run_map(&l->low_rank[MAP_RATE], mixed, NULL, rate);
    mix_input(l, RWKV_IN_GATE, x, mixed);
    run_map(&l->low_rank[MAP_GATE], mixed, sigmoid, gate);
    for (size_t i = 0; i < d; i++) {
        key[i] *= 1 + (sigmoid(rate[i]) - 1) * (double)l->rate_share[i];
        value[i] = layer > 0 ? value[i] + (first_value[i] - value[i]) * sigmoid(share[i]) : value[i];
        first_value[i] = layer > 0 ? first_value[i] : value[i];
    }
    for (size_t head = 0; head < d; head += length) {
        double like = 0, bonus = 0, mean = 0, squares = 0;
        for (size_t i = head; i < head + length; i++) {
            like += query[i] * key[i];
            bonus += query[i] * key[i] * (double)l->bonus[i];
        }
        for (size_t i = head; i < head + length; i++)
            mean += like * value[i] / (double)length;
        for (size_t i = head; i < head + length; i++)
            squares += (like * value[i] - mean) * (like * value[i] - mean) / (double)length;
        for (size_t i = head; i < head + length; i++)
            mixed[i] = gate[i] * ((like * value[i] - mean) / sqrt(squares + 64e-5) * (double)l->recurrent_norm[i] +
                                  (double)l->recurrent_norm_bias[i] + bonus * value[i]);
    }
    see(&sums[INPUT_ATTENTION_OUTPUT], 0, mixed);
    times(&l->recurrent_output, 0, d, NULL, mixed, y);
}

static void run_token(const pass *p, int32_t token)
{
    const hearth_model *m = p->model;
    size_t d = m->hyper.embedding_length;
    double x[WIDEST], normed[WIDEST], added[WIDEST], first_value[WIDEST];
    float row[WIDEST], position[WIDEST] = {0};
    number_formats[m->embedding.format].decode(matrix_row(&m->embedding, (size_t)token), row, d);
    if (m->positions.data)
        number_formats[m->positions.format].decode(matrix_row(&m->positions, m->hyper.position_offset), position, d);
    for (size_t i = 0; i < d; i++)
        x[i] = (double)row[i] * (double)m->hyper.embedding_scale + (double)position[i];
    norm(&m->hyper, &m->embedding_norm, x, d, x);
    for (uint32_t layer = 0; layer < m->hyper.layer_count; layer++) {
        const model_layer *l = &m->layers[layer];
        assert_true(l->wiring == WIRING_SEQUENTIAL);
        norm(&m->hyper, &l->attention_norm, x, d, normed);
        if (l->input_mix)
            mix_alone(p, layer, normed, first_value, added);
        else
            attend_alone(p, layer, normed, added);
        norm(&m->hyper, &l->attention_post_norm, added, d, added);
        for (size_t i = 0; i < d; i++)
            x[i] += added[i];
        norm(&m->hyper, &l->ffn_norm, x, d, normed);
        for (size_t i = 0; l->network_mix && i < d; i++)
            normed[i] -= (double)l->network_mix[i] * normed[i];
        run_networks(p, layer, normed, added);
        norm(&m->hyper, &l->ffn_post_norm, added, d, added);
        for (size_t i = 0; i < d; i++)
            x[i] += added[i];
    }
    norm(&m->hyper, &m->output_norm, x, d, normed);
    see(&p->sums->head, 0, normed);
}

/* ------------------------------------------------------------------ the engine */

typedef struct dense_engine {
    hearth_runtime *runtime;
    hearth_model *model;
    hearth_engine *engine;
} dense_engine;

static dense_engine open_dense(const char *name, unsigned threads)
{
    char path[600];
    dense_engine d = {0};
    hearth_error error;
    hearth_placement *placement;
    hearth_runtime_options runtime = {.threads = threads};
    stack_check(hearth_runtime_create(&d.runtime, &runtime, &error), &error);
    stack_check(hearth_model_open(&d.model, golden_path(path, sizeof path, name, "model.gguf"), NULL, &error), &error);
    stack_check(hearth_placement_create(&placement, d.model, HEARTH_MODE_DENSE, &error), &error);
    hearth_engine_options options = {.placement = placement, .activations = HEARTH_ACTIVATIONS_F32};
    stack_check(hearth_engine_create(&d.engine, d.runtime, d.model, &options, &error), &error);
    hearth_placement_destroy(placement);
    return d;
}

static void close_dense(dense_engine *d)
{
    hearth_engine_destroy(d->engine);
    hearth_model_close(d->model);
    hearth_runtime_destroy(d->runtime);
}

/* Feeds every token to a sequence of its own, `at_once` tokens in a feed. */
static void feed(const dense_engine *d, const int32_t *ids, size_t at_once, input_sums *sums)
{
    hearth_session *session;
    hearth_error error;
    hearth_row rows[TOKENS];
    hearth_session_options options = {.context = 1, .sequences = TOKENS, .kv = HEARTH_KV_F32};
    stack_check(hearth_session_create(&session, d->engine, &options, &error), &error);
    stack_check(inputs_create(sums, d->model, &error), &error);
    stack_check(session_sum_inputs(session, sums, &error), &error);
    for (uint32_t i = 0; i < TOKENS; i++)
        rows[i] = (hearth_row){.token = ids[i], .sequence = i};
    for (size_t i = 0; i < TOKENS; i += at_once)
        stack_check(hearth_session_feed(session, rows + i, at_once, &error), &error);
    stack_check(session_sum_inputs(session, NULL, &error), &error);
    stack_check(hearth_session_truncate(session, 0, 0, &error), &error);
    stack_check(hearth_session_feed(session, rows, 1, &error), &error); /* not added any more */
    hearth_session_destroy(session);
}

/* Counts must be equal, sums within `bound`, relative to the largest of the place. */
static double compare(const input_squares *got, const input_squares *want, double bound)
{
    size_t n = (size_t)want->columns * want->matrices;
    double worst = 0;
    for (size_t i = 0; i < n; i++)
        worst = fmax(worst, fabs(got->sums[i] - want->sums[i]) / want->sums[largest(want->sums, n)]);
    for (size_t i = 0; i < want->matrices; i++)
        assert_true(got->rows[i] == want->rows[i]);
    if (worst > bound)
        fail_msg("a sum is %g off", worst);
    return worst;
}

static void check_sums(const char *name, const input_sums *got, const input_sums *want, uint32_t layers, double bound)
{
    double worst = compare(&got->head, &want->head, bound);
    for (uint32_t i = 0; i < layers; i++)
        for (size_t k = 0; k < INPUT_PLACES; k++) {
            assert_int_equal(got->layers[i][k].columns, want->layers[i][k].columns);
            assert_int_equal(got->layers[i][k].matrices, want->layers[i][k].matrices);
            worst = fmax(worst, compare(&got->layers[i][k], &want->layers[i][k], bound));
        }
    print_message("%-10s %g off\n", name, worst);
}

/* ------------------------------------------------------------------ tests */

static const char *const models[] = {"llama",     "llama-gqa", "phi3",  "bitnet", "gpt2", "mixtral",
                                     "qwen3-moe", "glm4-moe",  "afmoe", "llama4", "rwkv7"};

static void draw_ids(int32_t *ids, uint32_t vocabulary)
{
    uint64_t seed = 11;
    for (size_t i = 0; i < TOKENS; i++) {
        seed = seed * 6364136223846793005u + 1442695040888963407u;
        ids[i] = (int32_t)((seed >> 33) % vocabulary);
    }
}

/* Rounding: two layers of float32 products of a few hundred terms. */
static void sums_are_those_of_a_forward_pass(void **state)
{
    (void)state;
    for (size_t i = 0; i < sizeof models / sizeof *models; i++) {
        int32_t ids[TOKENS];
        input_sums want, got;
        hearth_error error;
        dense_engine d = open_dense(models[i], 2);
        draw_ids(ids, d.model->hyper.vocabulary_size);
        stack_check(inputs_create(&want, d.model, &error), &error);
        for (size_t t = 0; t < TOKENS; t++)
            run_token(&(pass){d.model, &want}, ids[t]);
        for (size_t at_once = 1; at_once <= TOKENS; at_once += TOKENS - 1) {
            feed(&d, ids, at_once, &got);
            check_sums(models[i], &got, &want, d.model->hyper.layer_count, 1e-5);
            inputs_free(&got);
        }
        inputs_free(&want);
        close_dense(&d);
    }
}

/* Any number of threads gives the same sums, bit by bit. */
static void threads_change_nothing(void **state)
{
    (void)state;
    for (size_t i = 0; i < sizeof models / sizeof *models; i++) {
        int32_t ids[TOKENS];
        input_sums first = {0}, sums;
        for (unsigned threads = 1; threads <= 3; threads++) {
            dense_engine d = open_dense(models[i], threads);
            draw_ids(ids, d.model->hyper.vocabulary_size);
            feed(&d, ids, TOKENS / 2, threads == 1 ? &first : &sums);
            close_dense(&d);
            if (threads == 1)
                continue;
            assert_int_equal(sums.block_bytes, first.block_bytes);
            assert_memory_equal(sums.block, first.block, first.block_bytes);
            inputs_free(&sums);
        }
        inputs_free(&first);
    }
}

static void other_modes_are_refused(void **state)
{
    (void)state;
    stack s;
    input_sums sums;
    hearth_error error;
    stack_open(&s, GOLDEN "/llama-relu/model.gguf", 1, HEARTH_ACTIVATIONS_F32, (hearth_session_options){0});
    stack_check(inputs_create(&sums, s.model, &error), &error);
    assert_int_equal(session_sum_inputs(s.session, &sums, &error), HEARTH_INVALID);
    assert_string_equal(error.text, "session: inputs of layer 0: not every neuron is computed on the CPU");
    inputs_free(&sums);
    stack_close(&s);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(sums_are_those_of_a_forward_pass),
        cmocka_unit_test(threads_change_nothing),
        cmocka_unit_test(other_modes_are_refused),
    };
    return run_group(tests, NULL, NULL);
}
