/* Allocation: alignment, zeroing, counters, overflow, the fault injector; arenas. */
#include "../src/base/memory.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

static bool is_zero(const void *data, size_t size)
{
    const uint8_t *bytes = data;
    for (size_t i = 0; i < size; i++)
        if (bytes[i] != 0)
            return false;
    return true;
}

static void blocks_are_aligned_zeroed_and_counted(void **state)
{
    (void)state;
    static const size_t sizes[] = {0, 1, 15, 63, 64, 65, 1000, 4096, 1 << 20};
    enum { COUNT = sizeof sizes / sizeof *sizes };
    uint8_t *blocks[COUNT];
    long before = mem_live();
    for (size_t i = 0; i < COUNT; i++) {
        blocks[i] = mem_new(sizes[i]);
        assert_non_null(blocks[i]);
        assert_int_equal((uintptr_t)blocks[i] % 64, 0);
        assert_true(is_zero(blocks[i], sizes[i]));
        memset(blocks[i], (int)i + 1, sizes[i]);
    }
    assert_int_equal(mem_live(), before + COUNT);
    for (size_t i = 0; i < COUNT; i++) {
        for (size_t k = 0; k < sizes[i]; k++)
            assert_int_equal(blocks[i][k], i + 1);
        mem_free(blocks[i]);
    }
    mem_free(NULL);
    assert_int_equal(mem_live(), before);
}

static void arrays_grow(void **state)
{
    (void)state;
    long before = mem_live();
    size_t capacity = 0, moves = 0;
    uint32_t *items = NULL;
    for (size_t count = 0; count < 5000; count++) {
        uint32_t *grown = mem_grow(items, &capacity, count, 1, sizeof *items);
        assert_non_null(grown);
        assert_true(capacity > count);
        moves += grown != items;
        items = grown;
        items[count] = (uint32_t)count;
    }
    assert_true(moves < 10);
    for (uint32_t i = 0; i < 5000; i++)
        assert_int_equal(items[i], i);
    size_t full = capacity;
    assert_null(mem_grow(items, &capacity, SIZE_MAX, 1, 1));
    assert_null(mem_grow(items, &capacity, full, SIZE_MAX / 4, sizeof *items));
    mem_fail_at(0);
    assert_null(mem_grow(items, &capacity, full, 1, sizeof *items));
    mem_fail_at(-1);
    assert_int_equal(capacity, full);
    items = mem_grow(items, &capacity, 5000, 3 * full, sizeof *items);
    assert_non_null(items);
    assert_int_equal(capacity, 5000 + 3 * full);
    mem_free(items);
    assert_int_equal(mem_live(), before);
}

static void resizing_keeps_content_and_alignment(void **state)
{
    (void)state;
    static const size_t sizes[] = {10, 11, 100, 60, 5000, 4000, 1 << 20, 3, 0, 77};
    long before = mem_live();
    uint8_t *block = mem_resize(NULL, 8);
    size_t size = 8;
    for (size_t k = 0; k < size; k++)
        block[k] = (uint8_t)(k * 7);
    for (size_t i = 0; i < sizeof sizes / sizeof *sizes; i++) {
        block = mem_resize(block, sizes[i]);
        assert_non_null(block);
        assert_int_equal((uintptr_t)block % 64, 0);
        size_t kept = size < sizes[i] ? size : sizes[i];
        for (size_t k = 0; k < kept; k++)
            assert_int_equal(block[k], (uint8_t)(k * 7));
        size = sizes[i];
        for (size_t k = 0; k < size; k++)
            block[k] = (uint8_t)(k * 7);
    }
    mem_free(block);
    assert_int_equal(mem_live(), before);
}

static void sizes_that_do_not_fit_are_refused(void **state)
{
    (void)state;
    long before = mem_live();
    assert_null(mem_new(SIZE_MAX));
    assert_null(mem_new(SIZE_MAX - 63));
    assert_null(mem_new_array(SIZE_MAX / 2, 3));
    assert_null(mem_copy_text("x", SIZE_MAX));
    char *block = mem_new(4);
    assert_null(mem_resize(block, SIZE_MAX));
    block[3] = 1; /* the old block is still ours */
    mem_free(block);
    assert_int_equal(mem_live(), before);
    size_t out;
    assert_false(size_multiply(SIZE_MAX, 2, &out));
    assert_false(size_add(SIZE_MAX, 1, &out));
    assert_true(size_add(SIZE_MAX - 1, 1, &out));
    assert_int_equal(out, SIZE_MAX);
}

static void the_injector_fails_the_nth_and_all_later_ones(void **state)
{
    (void)state;
    mem_fail_at(2);
    void *first = mem_new(1), *second = mem_new_array(2, 3);
    assert_non_null(first);
    assert_non_null(second);
    assert_null(mem_new(1));
    assert_null(mem_resize(first, 1));
    assert_null(mem_resize(first, 1000));
    assert_null(mem_copy_text("a", 1));
    assert_null(mem_reserve(1, MEM_HERE_AND_THERE));
    mem_fail_at(-1);
    void *third = mem_new(1);
    assert_non_null(third);
    mem_free(first);
    mem_free(second);
    mem_free(third);
}

static void text_is_copied_and_terminated(void **state)
{
    (void)state;
    char *copy = mem_copy_text("hearth and home", 6);
    assert_string_equal(copy, "hearth");
    mem_free(copy);
    copy = mem_copy_text(NULL, 0);
    assert_string_equal(copy, "");
    mem_free(copy);
}

static void reservations_are_zero_and_cost_nothing_untouched(void **state)
{
    (void)state;
    long before = mem_live();
#if defined(__SANITIZE_THREAD__)
    size_t size = (size_t)1 << 30;
#else
    size_t size = (size_t)1 << 38; /* 256 GiB: more than this machine has */
#endif
    uint8_t *block = mem_reserve(size, MEM_HERE_AND_THERE);
    assert_non_null(block);
    assert_int_equal(mem_live(), before + 1);
    assert_int_equal(block[0] | block[size / 2] | block[size - 1], 0);
    block[size - 1] = 1;
    mem_release(block, size);
    void *empty = mem_reserve(0, MEM_HERE_AND_THERE);
    assert_non_null(empty);
    mem_release(empty, 0);
    mem_release(NULL, 5);
    assert_int_equal(mem_live(), before);
    assert_null(mem_reserve(SIZE_MAX, MEM_HERE_AND_THERE));
}

static void arenas_hand_out_zeroed_pieces_that_do_not_overlap(void **state)
{
    (void)state;
    enum { COUNT = 3000 };
    static uint8_t *pieces[COUNT];
    long before = mem_live();
    arena a = {0};
    for (size_t i = 0; i < COUNT; i++) {
        size_t size = i % 97 == 0 ? 10000 + i : i % 53;
        pieces[i] = arena_new(&a, size);
        assert_non_null(pieces[i]);
        assert_int_equal((uintptr_t)pieces[i] % 16, 0);
        assert_true(is_zero(pieces[i], size));
        memset(pieces[i], (int)(i % 251), size);
    }
    for (size_t i = 0; i < COUNT; i++) {
        size_t size = i % 97 == 0 ? 10000 + i : i % 53;
        for (size_t k = 0; k < size; k++)
            assert_int_equal(pieces[i][k], i % 251);
    }
    assert_string_equal(arena_copy_text(&a, "neuron", 4), "neur");
    assert_null(arena_new(&a, SIZE_MAX));
    assert_null(arena_new_array(&a, SIZE_MAX / 4, 5));
    arena_clear(&a);
    assert_null(a.blocks);
    assert_int_equal(mem_live(), before);
    arena_clear(&a);
}

static void arenas_survive_every_failing_allocation(void **state)
{
    (void)state;
    long before = mem_live();
    size_t failures = 0;
    for (long n = 0;; n++) {
        arena a = {0};
        bool complete = true;
        mem_fail_at(n);
        for (size_t i = 0; i < 200 && complete; i++)
            complete = arena_new(&a, i * 20) != NULL;
        mem_fail_at(-1);
        arena_clear(&a);
        assert_int_equal(mem_live(), before);
        if (complete)
            break;
        failures++;
    }
    assert_true(failures > 10);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(blocks_are_aligned_zeroed_and_counted),
        cmocka_unit_test(resizing_keeps_content_and_alignment),
        cmocka_unit_test(arrays_grow),
        cmocka_unit_test(sizes_that_do_not_fit_are_refused),
        cmocka_unit_test(the_injector_fails_the_nth_and_all_later_ones),
        cmocka_unit_test(text_is_copied_and_terminated),
        cmocka_unit_test(reservations_are_zero_and_cost_nothing_untouched),
        cmocka_unit_test(arenas_hand_out_zeroed_pieces_that_do_not_overlap),
        cmocka_unit_test(arenas_survive_every_failing_allocation),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
