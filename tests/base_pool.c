/* The pool: every item once, whatever the sizes; results are seen; callers take turns. */
#include "../src/base/clock.h"
#include "../src/base/memory.h"
#include "../src/base/pool.h"

#include <pthread.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stdint.h>
#include <sys/resource.h>
#include <time.h>

#include <cmocka.h>

enum { MOST_ITEMS = 5000, MOST_WORKERS = 8 };

/* What a job did. Items are written without atomics: the pool itself must order them. */
typedef struct record {
    unsigned seen[MOST_ITEMS];
    size_t grain;
    unsigned workers;
    atomic_uint wrong_runs;
} record;

static void count_items(void *context, size_t begin, size_t end, unsigned worker)
{
    record *r = context;
    if (begin % r->grain != 0 || end <= begin || end - begin > r->grain || worker >= r->workers)
        atomic_fetch_add(&r->wrong_runs, 1);
    for (size_t i = begin; i < end; i++)
        r->seen[i]++;
}

static void every_item_is_dealt_once(void **state)
{
    (void)state;
    static const size_t counts[] = {0, 1, 2, 7, 64, 1000, MOST_ITEMS};
    static const size_t grains[] = {1, 2, 3, 64, 999, 10000};
    static record r;
    for (unsigned threads = 1; threads <= 5; threads++) {
        pool *p;
        assert_int_equal(pool_create(&p, threads, NULL), HEARTH_OK);
        assert_int_equal(pool_threads(p), threads);
        for (size_t c = 0; c < sizeof counts / sizeof *counts; c++) {
            for (size_t g = 0; g < sizeof grains / sizeof *grains; g++) {
                r = (record){.grain = grains[g], .workers = threads};
                pool_run(p, counts[c], grains[g], count_items, &r);
                for (size_t i = 0; i < MOST_ITEMS; i++)
                    assert_int_equal(r.seen[i], i < counts[c]);
                assert_int_equal(r.wrong_runs, 0);
            }
        }
        pool_destroy(p);
    }
}

/* Each job reads what all workers of the job before wrote. */
typedef struct chain {
    uint64_t values[2][256];
    int from;
} chain;

static void add_neighbour(void *context, size_t begin, size_t end, unsigned worker)
{
    (void)worker;
    chain *c = context;
    for (size_t i = begin; i < end; i++)
        c->values[1 - c->from][i] = c->values[c->from][i] + c->values[c->from][(i + 1) % 256];
}

static void jobs_see_the_results_of_earlier_jobs(void **state)
{
    (void)state;
    enum { JOBS = 20000 };
    static chain c, expected;
    for (size_t i = 0; i < 256; i++)
        c.values[0][i] = expected.values[0][i] = i * i + 1;
    pool *p;
    assert_int_equal(pool_create(&p, 4, NULL), HEARTH_OK);
    for (int job = 0; job < JOBS; job++) {
        c.from = expected.from = job % 2;
        pool_run(p, 256, 16, add_neighbour, &c);
        add_neighbour(&expected, 0, 256, 0);
        /* Now and then longer than workers spin, so that they sleep. */
        if (job % 1000 == 0)
            nanosleep(&(struct timespec){.tv_nsec = 300000}, NULL);
    }
    assert_memory_equal(c.values, expected.values, sizeof c.values);
    pool_destroy(p);
}

typedef struct caller {
    pool *p;
    atomic_int *inside;
    atomic_int overlaps;
    uint64_t sum;
} caller;

static void add_alone(void *context, size_t begin, size_t end, unsigned worker)
{
    caller *c = context;
    if (worker == 0) { /* only the caller itself is worker 0, one caller at a time */
        if (atomic_fetch_add(c->inside, 1) != 0)
            atomic_fetch_add(&c->overlaps, 1);
        atomic_fetch_sub(c->inside, 1);
    }
    uint64_t sum = 0;
    for (size_t i = begin; i < end; i++)
        sum += i;
    __atomic_fetch_add(&c->sum, sum, __ATOMIC_RELAXED);
}

static void *call_often(void *argument)
{
    caller *c = argument;
    for (int i = 0; i < 500; i++)
        pool_run(c->p, 100, 7, add_alone, c);
    return NULL;
}

static void callers_take_turns(void **state)
{
    (void)state;
    enum { CALLERS = 3 };
    pool *p;
    assert_int_equal(pool_create(&p, 3, NULL), HEARTH_OK);
    atomic_int inside = 0;
    caller callers[CALLERS] = {0};
    pthread_t threads[CALLERS];
    for (int i = 0; i < CALLERS; i++) {
        callers[i] = (caller){.p = p, .inside = &inside};
        assert_int_equal(pthread_create(&threads[i], NULL, call_often, &callers[i]), 0);
    }
    for (int i = 0; i < CALLERS; i++) {
        pthread_join(threads[i], NULL);
        assert_int_equal(callers[i].sum, 500 * (99 * 100 / 2));
        assert_int_equal(callers[i].overlaps, 0);
    }
    pool_destroy(p);
}

static void wait_for_all(void *context, size_t begin, size_t end, unsigned worker)
{
    (void)begin;
    (void)end;
    (void)worker;
    atomic_int *missing = context;
    atomic_fetch_sub(missing, 1);
    for (double end_time = clock_seconds() + 20; atomic_load(missing) > 0 && clock_seconds() < end_time;)
        nanosleep(&(struct timespec){.tv_nsec = 10000}, NULL);
}

/* Each run waits for all others: that ends early only when all threads work at once. */
static void all_threads_work_at_once(void **state)
{
    (void)state;
    pool *p;
    assert_int_equal(pool_create(&p, 4, NULL), HEARTH_OK);
    for (int i = 0; i < 20; i++) {
        atomic_int missing = 4;
        pool_run(p, 4, 1, wait_for_all, &missing);
        assert_int_equal(missing, 0);
        nanosleep(&(struct timespec){.tv_nsec = 500000}, NULL);
    }
    pool_destroy(p);
}

static double processor_seconds(void)
{
    struct rusage use;
    getrusage(RUSAGE_SELF, &use);
    return (double)(use.ru_utime.tv_sec + use.ru_stime.tv_sec) +
           1e-6 * (double)(use.ru_utime.tv_usec + use.ru_stime.tv_usec);
}

static void do_nothing(void *context, size_t begin, size_t end, unsigned worker)
{
    (void)context;
    (void)begin;
    (void)end;
    (void)worker;
}

static void an_idle_pool_costs_nothing(void **state)
{
    (void)state;
    pool *p;
    assert_int_equal(pool_create(&p, 4, NULL), HEARTH_OK);
    pool_run(p, 4, 1, do_nothing, NULL);
    double before = processor_seconds();
    nanosleep(&(struct timespec){.tv_nsec = 300000000}, NULL);
    assert_true(processor_seconds() - before < 0.1); /* spinners would take 0.3 s and more */
    pool_destroy(p);
}

static void pools_come_and_go(void **state)
{
    (void)state;
    long before = mem_live();
    for (int i = 0; i < 100; i++) {
        pool *p;
        assert_int_equal(pool_create(&p, 1 + (unsigned)i % MOST_WORKERS, NULL), HEARTH_OK);
        if (i % 2 == 0)
            pool_run(p, 10, 1, do_nothing, NULL);
        pool_destroy(p);
    }
    pool_destroy(NULL);
    assert_int_equal(mem_live(), before);
}

static void creation_can_fail(void **state)
{
    (void)state;
    hearth_error error;
    pool *p;
    assert_int_equal(pool_create(&p, 0, &error), HEARTH_INVALID);
    assert_int_equal(pool_create(&p, 1000000, &error), HEARTH_INVALID);
    long before = mem_live();
    long n = 0;
    for (;; n++) {
        mem_fail_at(n);
        hearth_status status = pool_create(&p, 2, &error);
        mem_fail_at(-1);
        if (status == HEARTH_OK)
            break;
        assert_int_equal(status, HEARTH_NO_MEMORY);
        assert_int_equal(mem_live(), before);
    }
    assert_true(n > 0);
    pool_destroy(p);
    assert_int_equal(mem_live(), before);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_item_is_dealt_once),   cmocka_unit_test(jobs_see_the_results_of_earlier_jobs),
        cmocka_unit_test(callers_take_turns),         cmocka_unit_test(all_threads_work_at_once),
        cmocka_unit_test(an_idle_pool_costs_nothing), cmocka_unit_test(pools_come_and_go),
        cmocka_unit_test(creation_can_fail),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
