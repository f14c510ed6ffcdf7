/* learn_together - neurons that fire together become neighbours: planted clusters lie together, the chain is the one that its
 * definition gives, and what is recorded is what observers saw. */
#include "../src/base/memory.h"
#include "../src/base/random.h"
#include "../src/learn/profile.h"
#include "../src/learn/together.h"

#include "learn_watch.h"

#define STORIES HEARTH_DATA "/models/stories-relu"
#define LAYERS  3
#define MOST    300 /* neurons of a layer */
#define ROOMY   ((uint64_t)1 << 30)

/* A model of which only the numbers of neurons are known, and a corpus of which only the tokens are counted. */
typedef struct planted {
    hearth_model model;
    model_layer layers[LAYERS];
    corpus texts;
    uint32_t numbers[LAYERS][MOST], *orders[LAYERS];
} planted;

static void plant(planted *p, size_t tokens, uint32_t first, uint32_t second, uint32_t third)
{
    memset(p, 0, sizeof *p);
    uint32_t counts[LAYERS] = {first, second, third};
    p->model.layers = p->layers;
    p->model.hyper.layer_count = LAYERS;
    p->texts.id_count = tokens;
    for (uint32_t i = 0; i < LAYERS; i++) {
        p->layers[i].ffn.neuron_count = counts[i];
        p->orders[i] = p->numbers[i];
    }
}

static together make(const planted *p, uint64_t most_bytes)
{
    together t;
    assert_int_equal(together_create(&t, &p->model, &p->texts, most_bytes, NULL), HEARTH_OK);
    return t;
}

static void see(together *t, uint32_t layer, uint64_t token, const float *activations, size_t f)
{
    hearth_observation seen = {.layer = layer, .activations = activations, .neuron_count = f};
    together_see(t, &seen, token);
}

static pool *pool_of(unsigned threads)
{
    pool *p;
    assert_int_equal(pool_create(&p, threads, NULL), HEARTH_OK);
    return p;
}

static void put_in_order(planted *p, const together *t, unsigned threads)
{
    pool *workers = pool_of(threads);
    assert_int_equal(together_order(t, workers, p->orders, NULL), HEARTH_OK);
    pool_destroy(workers);
}

static double mean_run(const planted *p, const together *t)
{
    return together_mean_run(t, (const uint32_t *const *)p->orders);
}

/* ------------------------------------------------------------------ planted clusters */

/* Twelve clusters of twenty neurons, all equally hot, whose members lie twelve apart; each token fires one cluster. So every
 * run is a whole cluster; by number, which is also the order by hotness, every run is one neuron. */
static void clusters_lie_together(void **state)
{
    (void)state;
    enum { CLUSTERS = 12, SIZE = 20, F = CLUSTERS * SIZE, TOKENS = 1200 };
    static planted p;
    plant(&p, TOKENS, F, 0, F);
    together t = make(&p, ROOMY);
    assert_int_equal(t.every, 1);
    for (uint64_t token = 0; token < TOKENS; token++) {
        float h[F];
        for (uint32_t i = 0; i < F; i++)
            h[i] = i % CLUSTERS == token * 5 % CLUSTERS ? 0.5f : 0;
        see(&t, 0, token, h, F);
        see(&t, 2, token, h, F);
    }
    for (uint32_t i = 0; i < F; i++)
        p.numbers[0][i] = p.numbers[2][i] = i;
    assert_true(mean_run(&p, &t) == 1);
    put_in_order(&p, &t, 2);
    assert_true(mean_run(&p, &t) == SIZE);
    for (uint32_t i = 0; i < F; i++)
        assert_int_equal(p.numbers[0][i] % CLUSTERS, p.numbers[0][i / SIZE * SIZE] % CLUSTERS);
    assert_memory_equal(p.numbers[0], p.numbers[2], F * sizeof(uint32_t));
    together_free(&t);
}

/* The same with noise: each member misses a quarter of its cluster's tokens, and clusters of different heat. A neuron shares
 * 0.56 of a cluster's tokens with another member and none with others, so clusters still are not torn; the hottest comes
 * first. */
static void clusters_with_noise_lie_together(void **state)
{
    (void)state;
    enum { CLUSTERS = 6, SIZE = 30, F = CLUSTERS * SIZE, TOKENS = 2048 };
    static planted p;
    uint64_t random = 5;
    plant(&p, TOKENS, F, 0, 0);
    together t = make(&p, ROOMY);
    for (uint64_t token = 0; token < TOKENS; token++) {
        float h[F];
        uint64_t cluster = random_next(&random) % (CLUSTERS + 3); /* cluster 4 fires four times as often */
        for (uint32_t i = 0; i < F; i++)
            h[i] = i % CLUSTERS == (cluster < CLUSTERS ? cluster : 4) && random_next(&random) % 4 ? -2.0f : 0;
        see(&t, 0, token, h, F);
    }
    put_in_order(&p, &t, 1);
    for (uint32_t i = 0; i < F; i++)
        assert_int_equal(p.numbers[0][i] % CLUSTERS, p.numbers[0][i / SIZE * SIZE] % CLUSTERS);
    assert_int_equal(p.numbers[0][0] % CLUSTERS, 4);
    /* Three of four neighbours fire: a run ends with a chance of a quarter, or at the end of its cluster. */
    double run = mean_run(&p, &t), expected = SIZE * 0.75 / (1 + (SIZE - 1) * 0.75 * 0.25 - 0.25);
    print_message("runs of %.3f, expected %.3f\n", run, expected);
    assert_true(fabs(run / expected - 1) < 0.1); /* 256 tokens with 6 runs each */
    together_free(&t);
}

/* ------------------------------------------------------------------ by definition */

/* fired [neurons][tokens]; the chain by its definition. */
static void chain_by_definition(const uint8_t *fired, size_t f, size_t tokens, size_t learnt, uint32_t *order)
{
    uint32_t counts[MOST] = {0};
    bool used[MOST] = {false};
    for (size_t i = 0; i < f; i++)
        for (size_t t = 0; t < learnt; t++)
            counts[i] += fired[i * tokens + t];
    for (size_t n = 0; n < f; n++) {
        size_t best = f;
        uint32_t best_shared = 0;
        for (size_t i = 0; i < f; i++) {
            uint32_t shared = 0;
            if (used[i])
                continue;
            for (size_t t = 0; n > 0 && t < learnt; t++)
                shared += fired[order[n - 1] * tokens + t] && fired[i * tokens + t];
            if (best == f || shared > best_shared || (shared == best_shared && counts[i] > counts[best])) {
                best = i;
                best_shared = shared;
            }
        }
        order[n] = (uint32_t)best;
        used[best] = true;
    }
}

/* Counts runs token by token. */
static double mean_run_by_definition(uint8_t *const fired[LAYERS], const planted *p, const together *t)
{
    double total = 0, runs = 0;
    for (size_t layer = 0; layer < LAYERS; layer++)
        for (size_t token = t->learnt; token < t->tokens; token++)
            for (size_t n = 0, before = 0; n < t->neuron_counts[layer]; n++) {
                size_t now = fired[layer][p->orders[layer][n] * t->tokens + token];
                total += (double)now;
                runs += now && !before;
                before = now;
            }
    return runs > 0 ? total / runs : 0;
}

/* Random sets with many ties and neurons that never fire. Of `tokens` only every t.every-th is to be seen. */
static void check_definition(size_t tokens, uint64_t most_bytes, size_t every, size_t recorded, size_t learnt)
{
    static planted p;
    uint8_t *fired[LAYERS];
    uint64_t random = tokens;
    plant(&p, tokens, 97, 0, MOST);
    together t = make(&p, most_bytes);
    assert_int_equal(t.every, every);
    assert_int_equal(t.tokens, recorded);
    assert_int_equal(t.learnt, learnt);
    for (uint32_t layer = 0; layer < LAYERS; layer++) {
        uint32_t f = p.layers[layer].ffn.neuron_count;
        fired[layer] = calloc(f * recorded + 1, 1);
        for (uint64_t token = 0; token < tokens; token++) {
            float h[MOST];
            uint64_t topic = random_next(&random) % 7;
            for (uint32_t i = 0; i < f; i++) {
                bool fires = i % 10 > 1 && random_next(&random) % (i % 7 == topic ? 2 : 12) == 0;
                h[i] = fires ? 1e-30f : 0;
                if (token % every == 0)
                    fired[layer][i * recorded + token / every] = fires;
            }
            see(&t, layer, token, h, f);
        }
    }
    put_in_order(&p, &t, 1);
    for (uint32_t layer = 0; layer < LAYERS; layer++) {
        uint32_t order[MOST], f = t.neuron_counts[layer];
        chain_by_definition(fired[layer], f, recorded, learnt, order);
        assert_memory_equal(order, p.orders[layer], f * sizeof *order);
    }
    assert_true(fabs(mean_run(&p, &t) - mean_run_by_definition(fired, &p, &t)) < 1e-12);
    static planted other;
    plant(&other, tokens, 97, 0, MOST);
    put_in_order(&other, &t, 3);
    assert_memory_equal(other.numbers, p.numbers, sizeof p.numbers);
    together_free(&t);
    for (size_t layer = 0; layer < LAYERS; layer++)
        free(fired[layer]);
}

static void orders_are_the_definitions(void **state)
{
    (void)state;
    check_definition(1, ROOMY, 1, 1, 1);
    check_definition(63, ROOMY, 1, 63, 63);
    check_definition(255, ROOMY, 1, 255, 255); /* too few to leave some out */
    check_definition(256, ROOMY, 1, 256, 224);
    check_definition(501, ROOMY, 1, 501, 439);
    check_definition(TOGETHER_TOKENS, ROOMY, 1, 2048, 1792);
    check_definition(TOGETHER_TOKENS + 1, ROOMY, 2, 1025, 897);
    check_definition(5000, ROOMY, 3, 1667, 1459);
    check_definition(501, 397 * sizeof(uint64_t) * 2, 4, 126, 126); /* two words for each neuron: 128 tokens */
    check_definition(501, 1, 8, 63, 63);
}

/* ------------------------------------------------------------------ a real model */

/* Records a profile of the demo model's tokens. */
static together record(const dense *d, const corpus *c)
{
    together t;
    profile p;
    hearth_error error = {0};
    assert_int_equal(together_create(&t, d->model, c, ROOMY, &error), HEARTH_OK);
    if (profile_take(&p, d->engine, c, &(profile_options){.together = &t}, &error) != HEARTH_OK)
        fail_msg("%s", error.text);
    profile_free(&p);
    return t;
}

static void what_observers_saw_is_recorded(void **state)
{
    (void)state;
    dense one = dense_open(STORIES, 1), three = dense_open(STORIES, 3);
    corpus c = random_corpus(&one, 300, 64);
    watched w = watch(&one, &c);
    together t = record(&one, &c), again = record(&three, &c);
    assert_int_equal(t.tokens, 300);
    for (size_t i = 0; i < w.layers * w.f; i++)
        for (size_t k = 0; k < t.tokens; k++) {
            const uint64_t *set = t.sets[i / w.f] + i % w.f * t.words;
            bool fires = w.activations[(i / w.f * w.tokens + k) * w.f + i % w.f] != 0;
            assert_int_equal(set[k / 64] >> k % 64 & 1, fires);
        }
    assert_memory_equal(t.sets[0], again.sets[0], w.layers * w.f * t.words * sizeof(uint64_t));
    together_free(&t);
    together_free(&again);
    watched_free(&w);
    corpus_free(&c);
    dense_close(&one);
    dense_close(&three);
}

/* ------------------------------------------------------------------ faults */

static void allocations_may_fail(void **state)
{
    (void)state;
    static planted p;
    plant(&p, 100, 40, 0, 50);
    pool *threads = pool_of(2);
    long live = mem_live(), n = 0;
    hearth_status status;
    do {
        together t;
        hearth_error error = {0};
        mem_fail_at(n++);
        status = together_create(&t, &p.model, &p.texts, ROOMY, &error);
        if (status == HEARTH_OK)
            status = together_order(&t, threads, p.orders, &error);
        mem_fail_at(-1);
        assert_true(status == HEARTH_OK || status == HEARTH_NO_MEMORY);
        assert_int_equal(status == HEARTH_OK, error.text[0] == 0);
        together_free(&t);
        assert_int_equal(mem_live(), live);
    } while (status != HEARTH_OK);
    print_message("%ld allocations failed\n", n - 1);
    assert_true(n > 5);
    pool_destroy(threads);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(clusters_lie_together),      cmocka_unit_test(clusters_with_noise_lie_together),
        cmocka_unit_test(orders_are_the_definitions), cmocka_unit_test(what_observers_saw_is_recorded),
        cmocka_unit_test(allocations_may_fail),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
