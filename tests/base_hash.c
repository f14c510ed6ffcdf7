/* base_hash - the first half is FNV-1a as its authors publish it (www.isthe.com/chongo/tech/comp/fnv). */
#include "../src/base/hash.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

static void hash_of(char out[HASH_TEXT_SIZE], const char *text)
{
    hash128 h = hash_begin();
    hash_bytes(&h, text, strlen(text));
    hash_print(out, &h);
    assert_int_equal(strlen(out), 32);
}

static void test_published(void **state)
{
    (void)state;
    static const struct {
        const char *text, *hash;
    } known[] = {{"", "cbf29ce484222325"}, {"a", "af63dc4c8601ec8c"}, {"foobar", "85944171f73967e8"}};
    for (size_t i = 0; i < sizeof known / sizeof *known; i++) {
        char out[HASH_TEXT_SIZE];
        hash_of(out, known[i].text);
        assert_memory_equal(out, known[i].hash, 16);
    }
}

/* The second half is another function, and where texts end counts. */
static void test_halves(void **state)
{
    (void)state;
    char a[HASH_TEXT_SIZE], b[HASH_TEXT_SIZE];
    hash_of(a, "a");
    hash_of(b, "b");
    assert_int_not_equal(memcmp(a, a + 16, 16), 0);
    assert_int_not_equal(memcmp(a + 16, b + 16, 16), 0);
    hash128 one = hash_begin(), two = hash_begin(), three = hash_begin();
    hash_text(&one, "ab");
    hash_text(&one, "c");
    hash_text(&two, "a");
    hash_text(&two, "bc");
    hash_number(&three, 1);
    assert_true(one.a != two.a && one.b != two.b && three.a != one.a);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_published), cmocka_unit_test(test_halves)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
