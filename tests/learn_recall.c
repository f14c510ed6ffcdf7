/* Thresholds for a wanted recall against sorting all scores. */
#include "../src/learn/measure.h"

#include "learn_build.h"

/* The scores are a table; what fired lies in rows that have no inputs. */
typedef struct table {
    struct states rows;
    float *scores; /* [count][f] */
    unsigned kind;
} table;

static void look_up(void *context, const uint32_t *rows, size_t count, unsigned worker, float *scores)
{
    (void)worker;
    const table *t = context;
    assert_true(count <= RECALL_ROWS);
    for (size_t i = 0; i < count; i++)
        memcpy(scores + i * t->rows.f, t->scores + rows[i] * t->rows.f, t->rows.f * sizeof *scores);
}

enum { KIND_CONTINUOUS, KIND_TIES, KIND_ZEROS, KIND_NAN, KINDS };

static float make_score(unsigned kind, uint64_t *seed)
{
    float x = learnt_normal(seed);
    switch (kind) {
    case KIND_TIES:
        return roundf(4 * x);
    case KIND_ZEROS:
        return fabsf(x) < 0.7f ? copysignf(0, x) : x * 1e-30f;
    case KIND_NAN:
        return x > 1.5f ? NAN : x > 1.2f ? INFINITY : x * 100;
    default:
        return x;
    }
}

static table make_table(unsigned kind, size_t count, size_t f, double share)
{
    uint64_t seed = 5 + kind;
    table t = {.rows = {.count = count, .d = 1, .f = f}, .kind = kind};
    t.scores = malloc(count * f * sizeof *t.scores);
    t.rows.fired = calloc(count * states_words(&t.rows), sizeof *t.rows.fired);
    for (size_t i = 0; i < count * f; i++) {
        t.scores[i] = make_score(kind, &seed);
        if ((double)learnt_random(&seed) + 0.3 * (t.scores[i] > 0) < 2 * share - 1)
            t.rows.fired[i / f * states_words(&t.rows) + i % f / 64] |= (uint64_t)1 << i % f % 64;
    }
    return t;
}

static void free_table(table *t)
{
    free(t->scores);
    free(t->rows.fired);
}

static bool passes(float score, float threshold)
{
    return !(score < threshold);
}

/* What passes among rows first, first + stride ...: [0] all, [1] fired; returns how many fire altogether. */
static size_t count_passing(const recall_task *task, const table *t, float threshold, size_t out[2])
{
    size_t fired = 0;
    out[0] = out[1] = 0;
    for (size_t r = task->first; r < task->end; r += task->stride)
        for (size_t i = 0; i < t->rows.f; i++) {
            bool fires = t->rows.fired[r * states_words(&t->rows) + i / 64] >> i % 64 & 1;
            bool through = passes(t->scores[r * t->rows.f + i], threshold);
            fired += fires;
            out[0] += through;
            out[1] += through && fires;
        }
    return fired;
}

static recall_task task_of(table *t, pool *threads)
{
    return (recall_task){.rows = &t->rows,
                         .first = 3,
                         .end = t->rows.count,
                         .stride = 2,
                         .neuron_count = t->rows.f,
                         .threads = threads,
                         .score = look_up,
                         .context = t,
                         .thing = "table"};
}

static void check_result(const recall_task *task, const table *t, const recall_result *r)
{
    size_t through[2], fired = count_passing(task, t, r->threshold, through);
    size_t all = (task->end - task->first + task->stride - 1) / task->stride * t->rows.f;
    assert_true(r->recall == (double)through[1] / (double)fired);
    assert_true(r->density == (double)through[0] / (double)all);
    assert_true(r->fired == (double)through[1] / (double)through[0]);
}

static void check_best(const recall_task *task, const table *t, float recall, const recall_result *r)
{
    size_t through[2], fired = count_passing(task, t, r->threshold, through);
    double wanted = (double)recall * (double)fired - 1e-6;
    assert_true((double)through[1] >= wanted);
    /* Any score above it keeps less than was wanted. */
    float above = INFINITY;
    for (size_t row = task->first; row < task->end; row += task->stride)
        for (size_t i = 0; i < t->rows.f; i++) {
            float score = t->scores[row * t->rows.f + i];
            above = score > r->threshold && score < above ? score : above;
        }
    count_passing(task, t, above, through);
    assert_true((double)through[1] < wanted || isinf(above));
}

static void thresholds_are_those_of_sorting(void **state)
{
    (void)state;
    static const float recalls[] = {0.001f, 0.3f, 0.5f, 0.8f, 0.95f, 0.99f, 0.999f, 1};
    for (unsigned threads = 1; threads <= 3; threads += 2)
        for (unsigned kind = 0; kind < KINDS; kind++) {
            pool *p;
            table t = make_table(kind, 203, 77, 0.3);
            assert_int_equal(pool_create(&p, threads, NULL), HEARTH_OK);
            recall_task task = task_of(&t, p);
            for (size_t i = 0; i < sizeof recalls / sizeof *recalls; i++) {
                recall_result r, rough, at;
                hearth_error error;
                hearth_status status = recall_find(&task, recalls[i], false, &r, &error);
                if (status != HEARTH_OK) { /* so many are NaN or infinite */
                    assert_true(kind == KIND_NAN && recalls[i] < 0.2f);
                    assert_string_equal(error.text, "table: its scores are not finite");
                    continue;
                }
                check_result(&task, &t, &r);
                check_best(&task, &t, recalls[i], &r);
                assert_int_equal(recall_at(&task, r.threshold, &at, NULL), HEARTH_OK);
                assert_true(at.threshold == r.threshold && at.recall == r.recall && at.density == r.density);
                assert_int_equal(recall_find(&task, recalls[i], true, &rough, NULL), HEARTH_OK);
                check_result(&task, &t, &rough);
                assert_true(rough.threshold <= r.threshold && rough.recall >= r.recall);
                assert_true(fabsf(rough.threshold - r.threshold) <= fabsf(rough.threshold) / 256 + 1e-37f);
            }
            pool_destroy(p);
            free_table(&t);
        }
}

static void given_thresholds_are_counted(void **state)
{
    (void)state;
    pool *p;
    table t = make_table(KIND_TIES, 90, 65, 0.4);
    assert_int_equal(pool_create(&p, 2, NULL), HEARTH_OK);
    recall_task task = task_of(&t, p);
    for (int quarters = -12; quarters <= 12; quarters++) {
        float threshold = (float)quarters / 4;
        recall_result r;
        assert_int_equal(recall_at(&task, threshold, &r, NULL), HEARTH_OK);
        assert_true(r.threshold == threshold);
        check_result(&task, &t, &r);
    }
    pool_destroy(p);
    free_table(&t);
}

static void where_nothing_fires_nothing_is_missed(void **state)
{
    (void)state;
    pool *p;
    recall_result r;
    table t = make_table(KIND_CONTINUOUS, 40, 10, -1);
    assert_int_equal(pool_create(&p, 1, NULL), HEARTH_OK);
    recall_task task = task_of(&t, p);
    assert_int_equal(recall_find(&task, 0.9f, false, &r, NULL), HEARTH_OK);
    assert_true(isfinite(r.threshold) && r.recall == 1 && r.density == 0);
    long live = mem_live(), n = 0;
    hearth_status status;
    do {
        mem_fail_at(n++);
        status = recall_find(&task, 0.9f, false, &r, NULL);
        mem_fail_at(-1);
        assert_int_equal(mem_live(), live);
        assert_true(status == HEARTH_OK || status == HEARTH_NO_MEMORY);
    } while (status != HEARTH_OK);
    assert_true(n > 3);
    pool_destroy(p);
    free_table(&t);
}

/* Of experts only those count of which a neuron fired: here every other one of a row, by its parity. The one that every
 * token uses always counts. */
static void experts_that_were_chosen(void **state)
{
    (void)state;
    enum { ROWS = 40, EACH = 37, EXPERTS = 5, F = EACH * EXPERTS + 11 }; /* the last 11 are of a shared expert */
    pool *threads;
    assert_int_equal(pool_create(&threads, 2, NULL), HEARTH_OK);
    table t = make_table(KIND_CONTINUOUS, ROWS, F, 0.7);
    size_t words = states_words(&t.rows), through = 0, fired = 0, all = 0;
    for (size_t i = 0; i < ROWS * F; i++)
        if ((i / F + i % F / EACH) % 2) /* not chosen, or silent: nothing fires, whatever the score */
            t.rows.fired[i / F * words + i % F / 64] &= ~((uint64_t)1 << i % F % 64);
    recall_task task = task_of(&t, threads);
    task.first = 0, task.stride = 1, task.expert_neurons = EACH, task.routed = EACH * EXPERTS;
    recall_result r;
    assert_int_equal(recall_at(&task, 0.25f, &r, NULL), HEARTH_OK);
    for (size_t i = 0; i < ROWS * F; i++) {
        if (i % F < EACH * EXPERTS && (i / F + i % F / EACH) % 2)
            continue;
        bool fires = t.rows.fired[i / F * words + i % F / 64] >> i % F % 64 & 1;
        all++;
        through += t.scores[i] >= 0.25f;
        fired += fires && t.scores[i] >= 0.25f;
    }
    assert_true(r.density == (double)through / (double)all);
    assert_true(r.fired == (double)fired / (double)through);
    free_table(&t);
    pool_destroy(threads);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(experts_that_were_chosen),
        cmocka_unit_test(thresholds_are_those_of_sorting),
        cmocka_unit_test(given_thresholds_are_counted),
        cmocka_unit_test(where_nothing_fires_nothing_is_missed),
    };
    return run_group(tests, NULL, NULL);
}
