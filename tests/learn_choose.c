/* The arithmetic of the choice among predictors: bytes as docs/design.md counts them, and a budget that is dealt
 * nearly as well as by trying everything. */
#include "../src/learn/choose.h"

#include <math.h>
#include <string.h>

#include "skip.h"

/* A gated network in float16: d 128, f 512. */
static hearth_model small_model(model_layer *layer)
{
    *layer = (model_layer){.attention = {.head_count = 1, .kv_head_count = 1, .head_length = 2},
                           .ffn = {.neuron_count = 512, .gating = FFN_GATED},
                           .gate = {"", FORMAT_F16, 512, 128, 256},
                           .up = {"", FORMAT_F16, 512, 128, 256},
                           .down_t = {"", FORMAT_F16, 512, 128, 256}};
    return (hearth_model){.hyper = {.layer_count = 1, .embedding_length = 128}, .layers = layer};
}

static void bytes_are_those_of_the_design(void **state)
{
    (void)state;
    model_layer layer;
    hearth_model model = small_model(&layer);
    double d = 128, f = 512, b = 2, p = 0.1, r = 32, passed = 0.25, q = 0.09, low = 34.0 / 32;
    choose_layer l = choose_layer_of(&model, 0, p);
    assert_true(fabs(choose_exact_bytes(&l) - (d * f * b + 2 * p * d * f * b)) < 1e-6);

    candidate c = {
        .kind = PREDICTOR_LOW_RANK, .format = FORMAT_Q8_0, .rank = 32, .density = passed, .fired = q / passed};
    choose_count_bytes(&c, &model, &l);
    assert_true(fabs(c.own_bytes - r * (d + f) * low) < 1e-6);
    assert_true(fabs(c.token_bytes - (r * (d + f) * low + passed * d * f * b + 2 * q * d * f * b)) < 1e-6);

    candidate coarse = {.kind = PREDICTOR_COARSE, .format = FORMAT_Q4_0, .density = passed, .fired = q / passed};
    choose_count_bytes(&coarse, &model, &l);
    assert_true(fabs(coarse.own_bytes - (d * f * 18 / 32 + 4 * f)) < 1e-6); /* and a float32 per row for its error */

    candidate none = {.kind = PREDICTOR_NONE};
    choose_count_bytes(&none, &model, &l);
    assert_true(none.own_bytes == 0 && none.token_bytes == choose_exact_bytes(&l));

    layer.up.data = layer.gate.data;
    layer.gate.data = NULL; /* a plain network */
    layer.ffn.gating = FFN_PLAIN;
    l = choose_layer_of(&model, 0, p);
    assert_true(fabs(choose_exact_bytes(&l) - (d * f * b + p * d * f * b)) < 1e-6);
}

/* Of four experts a token uses one: it reads the rows of that one, in the predictor's second matrix as well. */
static void bytes_of_experts(void **state)
{
    (void)state;
    model_layer layer;
    hearth_model model = small_model(&layer);
    layer.ffn.expert_neurons = 128;
    layer.ffn.router = (router_shape){.expert_count = 4, .used = 1};
    double d = 128, f = 512, b = 2, p = 0.05, r = 32, passed = 0.5, low = 34.0 / 32;
    choose_layer l = choose_layer_of(&model, 0, p);
    assert_true(fabs(choose_exact_bytes(&l) - (d * f / 4 * b + 2 * p * d * f * b)) < 1e-6);
    candidate c = {.kind = PREDICTOR_LOW_RANK, .format = FORMAT_Q8_0, .rank = 32, .density = passed, .fired = 0.4};
    choose_count_bytes(&c, &model, &l);
    assert_true(fabs(c.own_bytes - r * (d + f) * low) < 1e-6);
    double read = r * (d + f / 4) * low + passed * d * f / 4 * b + 2 * 0.4 * passed * d * f / 4 * b;
    assert_true(fabs(c.token_bytes - read) < 1e-6);
}

static void a_stock_file_counts_the_copy(void **state)
{
    (void)state;
    model_layer layer;
    hearth_model model = small_model(&layer);
    layer.down_t = (matrix){0};
    layer.down = (matrix){"", FORMAT_Q4_0, 128, 512, 288};
    choose_layer l = choose_layer_of(&model, 0, 1);
    assert_true(l.listed == 512 * 256 + 512 * 136); /* up, and down rounded to q8_0 */
}

static void formats_of_copies_have_fewer_bytes(void **state)
{
    (void)state;
    model_layer layer;
    hearth_model model = small_model(&layer);
    number_format formats[CHOOSE_COARSE];
    assert_int_equal(choose_coarse_formats(formats, &model, 0), 4);
    assert_true(formats[0] == FORMAT_Q8_0 && formats[1] == FORMAT_Q4_0 && formats[2] == FORMAT_LEVELS2 &&
                formats[3] == FORMAT_SIGNS1);
    layer.gate = (matrix){"", FORMAT_Q8_0, 512, 128, 136};
    assert_int_equal(choose_coarse_formats(formats, &model, 0), 3);
    assert_int_equal(formats[0], FORMAT_Q4_0);
    layer.gate = (matrix){"", FORMAT_Q4_0, 512, 128, 72};
    assert_int_equal(choose_coarse_formats(formats, &model, 0), 2);
    assert_true(formats[0] == FORMAT_LEVELS2 && formats[1] == FORMAT_SIGNS1);
    layer.gate = (matrix){"", FORMAT_TQ2_0, 512, 256, 66}; /* 2.06 bits: only signs are clearly smaller */
    assert_int_equal(choose_coarse_formats(formats, &model, 0), 1);
    assert_int_equal(formats[0], FORMAT_SIGNS1);
    layer.gate = (matrix){"", FORMAT_F16, 512, 72, 144}; /* no whole blocks */
    assert_int_equal(choose_coarse_formats(formats, &model, 0), 0);
    assert_int_equal(choose_low_rank_format(&model), FORMAT_Q8_0);
    model.hyper.embedding_length = 72;
    assert_int_equal(choose_low_rank_format(&model), FORMAT_F16);
}

static void ranks_ascend_in_whole_blocks(void **state)
{
    (void)state;
    for (uint32_t d = 8; d < 20000; d += 56) {
        uint32_t ranks[CHOOSE_RANKS];
        size_t count = choose_ranks(ranks, d);
        assert_true(count >= 1 && count <= CHOOSE_RANKS);
        for (size_t i = 0; i < count; i++) {
            assert_int_equal(ranks[i] % 32, 0);
            assert_true(ranks[i] >= 32 && ranks[i] < d + 32);
            assert_true(i == 0 || ranks[i] > ranks[i - 1]);
        }
    }
    uint32_t ranks[CHOOSE_RANKS];
    assert_int_equal(choose_ranks(ranks, 4096), 5);
    assert_int_equal(ranks[0], 256);
    assert_int_equal(ranks[4], 4096);
}

/* ------------------------------------------------------------------ the budget */

enum { LAYERS = 6, OPTIONS = 4 };

static uint64_t next(uint64_t *seed)
{
    *seed = *seed * 6364136223846793005u + 1442695040888963407u;
    return *seed >> 33;
}

/* The greatest gain of all combinations. */
static double best_of_all(const choose_option *options, double budget)
{
    double best = 0;
    for (size_t n = 0; n < 4096; n++) { /* OPTIONS to the power of LAYERS */
        double cost = 0, gain = 0;
        for (size_t i = 0, left = n; i < LAYERS; i++, left /= OPTIONS) {
            cost += options[i * OPTIONS + left % OPTIONS].cost;
            gain += options[i * OPTIONS + left % OPTIONS].gain;
        }
        best = cost <= budget && gain > best ? gain : best;
    }
    return best;
}

static void budgets_are_dealt_nearly_as_well_as_can_be(void **state)
{
    (void)state;
    uint64_t seed = 7;
    double shortfall = 0;
    for (int round = 0; round < 300; round++) {
        choose_option options[LAYERS * OPTIONS] = {0};
        double largest = 0;
        for (size_t i = 0; i < LAYERS * OPTIONS; i++)
            if (i % OPTIONS > 0) {
                options[i] = (choose_option){(double)(1 + next(&seed) % 100), (double)(next(&seed) % 120) - 20};
                largest = fmax(largest, options[i].gain);
            }
        double budget = (double)(next(&seed) % 400), gain = 0, cost = 0, best = best_of_all(options, budget);
        size_t chosen[LAYERS] = {0};
        double spent = choose_within(chosen, options, LAYERS, OPTIONS, budget);
        for (size_t i = 0; i < LAYERS; i++) {
            gain += options[i * OPTIONS + chosen[i]].gain;
            cost += options[i * OPTIONS + chosen[i]].cost;
        }
        assert_true(spent == cost && cost <= budget);
        assert_true(gain <= best && gain >= best - largest);
        shortfall += best > 0 ? (best - gain) / best : 0;
    }
    print_message("mean shortfall %.4f\n", shortfall / 300);
    assert_true(shortfall / 300 < 0.05);
}

static void what_does_not_gain_is_not_taken(void **state)
{
    (void)state;
    const choose_option options[] = {{0, 0}, {10, 0}, {10, -5}, {0, 0}, {1, 1e-9}, {0, NAN}};
    size_t chosen[2] = {0};
    assert_true(choose_within(chosen, options, 2, 3, 100) == 1);
    assert_int_equal(chosen[0], 0);
    assert_int_equal(chosen[1], 1);
}

/* Whoever must have something names it beforehand: it is kept even beyond the budget, bettered only within it, and left
 * only for what gains more. */
static void what_is_chosen_before_stays(void **state)
{
    (void)state;
    const choose_option forced[] = {{0, -1e300}, {10, -5}, {20, -1}, {0, -1e300}, {10, -5}, {20, -4}};
    size_t chosen[2] = {1, 1};
    assert_true(choose_within(chosen, forced, 2, 3, 5) == 20);
    assert_true(chosen[0] == 1 && chosen[1] == 1);
    assert_true(choose_within(chosen, forced, 2, 3, 30) == 30);
    assert_true(chosen[0] == 2 && chosen[1] == 1);
    const choose_option free[] = {{0, 0}, {10, -5}, {20, -1}, {0, 0}, {10, -5}, {20, -4}};
    assert_true(choose_within(chosen, free, 2, 3, 5) == 0);
    assert_true(chosen[0] == 0 && chosen[1] == 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(bytes_are_those_of_the_design),   cmocka_unit_test(bytes_of_experts),
        cmocka_unit_test(a_stock_file_counts_the_copy),    cmocka_unit_test(formats_of_copies_have_fewer_bytes),
        cmocka_unit_test(ranks_ascend_in_whole_blocks),    cmocka_unit_test(budgets_are_dealt_nearly_as_well_as_can_be),
        cmocka_unit_test(what_does_not_gain_is_not_taken), cmocka_unit_test(what_is_chosen_before_stays),
    };
    return run_group(tests, NULL, NULL);
}
