/* base_numbers - medians; random numbers against those of the generator's published code (prng.di.unimi.it/splitmix64.c),
 * computed once more with Python's integers. */
#include "../src/base/median.h"
#include "../src/base/random.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>

static void medians_lie_in_the_middle(void **state)
{
    (void)state;
    double odd[] = {3, 9, 1}, even[] = {8, 2, 4, 100}, one[] = {5};
    assert_true(median(odd, 3) == 3);
    assert_true(median(even, 4) == 6);
    assert_true(median(one, 1) == 5);
}

static void numbers_are_those_of_splitmix64(void **state)
{
    (void)state;
    const struct {
        uint64_t seed, numbers[3];
    } cases[] = {{0, {0xe220a8397b1dcdafu, 0x6e789e6aa1b965f4u, 0x06c45d188009454fu}},
                 {1234567, {0x599ed017fb08fc85u, 0x2c73f08458540fa5u, 0x883ebce5a3f27c77u}}};
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        uint64_t stream = cases[i].seed;
        for (size_t n = 0; n < 3; n++) {
            assert_true(random_next(&stream) == cases[i].numbers[n]);
            assert_true(random_at(cases[i].seed, n) == cases[i].numbers[n]);
        }
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(medians_lie_in_the_middle),
        cmocka_unit_test(numbers_are_those_of_splitmix64),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
