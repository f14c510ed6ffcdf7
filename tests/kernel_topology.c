/* kernel_topology.c - what the CPU is made of, against the system's own answers. */
#include "../src/kernel/topology.h"

#include <sched.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

static void counts_what_it_may_use(void **state)
{
    (void)state;
    cpu_set_t all;
    assert_int_equal(sched_getaffinity(0, sizeof(all), &all), 0);
    assert_int_equal(topology_processors(), CPU_COUNT(&all));
    assert_in_range(topology_cores(), 1, topology_processors());
}

static void follows_the_affinity(void **state)
{
    (void)state;
    cpu_set_t all, one;
    assert_int_equal(sched_getaffinity(0, sizeof(all), &all), 0);
    CPU_ZERO(&one);
    for (size_t cpu = 0; cpu < CPU_SETSIZE && CPU_COUNT(&one) == 0; cpu++)
        if (CPU_ISSET(cpu, &all))
            CPU_SET(cpu, &one);
    assert_int_equal(sched_setaffinity(0, sizeof(one), &one), 0);
    unsigned processors = topology_processors(), cores = topology_cores();
    assert_int_equal(sched_setaffinity(0, sizeof(all), &all), 0);
    assert_int_equal(processors, 1);
    assert_int_equal(cores, 1);
}

static void knows_the_memory(void **state)
{
    (void)state;
    size_t bytes = topology_memory_bytes();
    assert_true(bytes == (size_t)sysconf(_SC_PHYS_PAGES) * (size_t)sysconf(_SC_PAGESIZE));
    size_t cache = topology_cache_bytes();
    assert_true(cache == 0 || (cache >= 16 << 10 && cache < bytes));
}

static void names_fit(void **state)
{
    (void)state;
    char name[128], cut[5];
    memset(cut, 'x', sizeof(cut));
    topology_cpu_name(name, sizeof(name));
    topology_cpu_name(cut, sizeof(cut));
    assert_true(strlen(name) > 0 && strlen(name) < sizeof(name));
    assert_int_equal(strlen(cut), strlen(name) < 4 ? strlen(name) : 4);
    assert_memory_equal(cut, name, strlen(cut));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(counts_what_it_may_use),
        cmocka_unit_test(follows_the_affinity),
        cmocka_unit_test(knows_the_memory),
        cmocka_unit_test(names_fit),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
