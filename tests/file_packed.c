/* file_packed.c - numbers in words, put there one by one as packed.h describes it: the values that they stand for, as floats and as
 * blocks, in every order, with zeros and without, and with columns of other groups. */
#include "../src/file/packed.h"

#include "../src/number/blocks.h"

#include "skip.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

enum { ROWS = 16, COLUMNS = 96, GROUP = 32, GROUPS = COLUMNS / GROUP };

static const char *const order_names[] = {"rows", "columns", "across"};

typedef struct example {
    packed_matrix m;
    uint8_t numbers[ROWS][COLUMNS], zeros[ROWS][GROUPS];
    uint32_t words[ROWS * COLUMNS], of_zeros[ROWS * GROUPS];
    uint16_t scales[ROWS * GROUPS]; /* BF16 */
    int32_t groups[COLUMNS];
} example;

/* Puts a number behind others into words that follow each other by `apart`. */
static void put(uint32_t *words, size_t apart, size_t at, unsigned bits, unsigned number)
{
    words[at / (32 / bits) * apart] |= number << at % (32 / bits) * bits;
}

/* The nibble of AWQ's words that has the row. */
static size_t nibble_of(size_t row)
{
    static const size_t rows[] = {0, 2, 4, 6, 1, 3, 5, 7};
    for (size_t i = 0; i < 8; i++)
        if (rows[i] == row % 8)
            return row / 8 * 8 + i;
    abort();
}

static void fill(example *e, packed_order order, unsigned bits, bool zeros, bool shuffled)
{
    memset(e, 0, sizeof *e);
    srand((unsigned)order + bits);
    e->m = (packed_matrix){.order = order,
                           .bits = bits,
                           .rows = ROWS,
                           .columns = COLUMNS,
                           .group = GROUP,
                           .scale_format = FORMAT_BF16,
                           .scales = e->scales,
                           .zeros = zeros ? e->of_zeros : NULL,
                           .zero = 1u << (bits - 1),
                           .add = order == PACKED_COLUMNS ? UINT32_MAX / ((1u << bits) - 1) : 0,
                           .groups = shuffled ? e->groups : NULL};
    for (size_t c = 0; c < COLUMNS; c++)
        e->groups[c] = (int32_t)(shuffled ? c % GROUPS : c / GROUP);
    for (size_t row = 0; row < ROWS; row++) {
        for (size_t g = 0; g < GROUPS; g++) {
            unsigned zero = e->zeros[row][g] = (uint8_t)(rand() & ((1 << bits) - 1));
            if (order == PACKED_ROWS)
                put(e->of_zeros + g, GROUPS, row, bits, zero);
            else
                put(e->of_zeros + g * (ROWS * bits / 32), 1, order == PACKED_ACROSS ? nibble_of(row) : row, bits, zero);
            e->scales[order == PACKED_ROWS ? row * GROUPS + g : g * ROWS + row] = (uint16_t)(0x3C00 + row * 7 + g);
        }
        for (size_t c = 0; c < COLUMNS; c++) {
            unsigned number = e->numbers[row][c] = (uint8_t)(rand() & ((1 << bits) - 1));
            if (order == PACKED_ROWS)
                put(e->words + row * (COLUMNS * bits / 32), 1, c, bits, number);
            else if (order == PACKED_COLUMNS)
                put(e->words + row, ROWS, c, bits, number);
            else
                put(e->words + c * (ROWS * bits / 32), 1, nibble_of(row), bits, number);
        }
    }
    for (size_t i = 0; i < ROWS * GROUPS; i++) /* one less of each number, with a borrow from one to the next */
        e->of_zeros[i] -= e->m.add;
}

static double scale_at(const example *e, size_t row, size_t group)
{
    float scale;
    number_formats[FORMAT_BF16].decode(
        &e->scales[e->m.order == PACKED_ROWS ? row * GROUPS + group : group * ROWS + row], &scale, 1);
    return (double)scale;
}

/* Compares all rows in a format; a block's value may be off by `slip` of zero * scale. */
static void compare(const example *e, number_format format, double slip)
{
    for (size_t row = 0; row < ROWS; row++) {
        float values[COLUMNS];
        char made[COLUMNS * sizeof(float)];
        packed_read(&e->m, e->words, row, format, made);
        number_formats[format].decode(made, values, COLUMNS);
        for (size_t c = 0; c < COLUMNS; c++) {
            size_t group = (size_t)e->groups[c];
            double zero = e->m.zeros ? e->zeros[row][group] : e->m.zero, scale = scale_at(e, row, group);
            double want = (e->numbers[row][c] - zero) * scale;
            if (!(fabs((double)values[c] - want) <= slip * zero * scale + 0x1p-22 * fabs(want)))
                fail_msg("%s, %u bits, %s: row %zu, column %zu: %.9g, expected %.9g", order_names[e->m.order],
                         e->m.bits, number_formats[format].name, row, c, (double)values[c], want);
        }
    }
}

static void every_order(void **state)
{
    (void)state;
    static example e;
    for (unsigned order = PACKED_ROWS; order <= PACKED_ACROSS; order++)
        for (unsigned bits = 4; bits <= (order == PACKED_ACROSS ? 4 : 8); bits += 4)
            for (unsigned way = 0; way < 4; way++) {
                bool zeros = way & 1, shuffled = way & 2;
                fill(&e, order, bits, zeros, shuffled);
                compare(&e, FORMAT_F32, 0);
                number_format format = packed_format(&e.m);
                assert_int_equal(format, shuffled    ? FORMAT_F32
                                         : bits == 8 ? (zeros ? FORMAT_F32 : FORMAT_Q8_0)
                                         : zeros     ? FORMAT_Q4_1
                                                     : FORMAT_Q4_0);
                compare(&e, format, format == FORMAT_Q4_1 ? 0x1p-11 : 0);
            }
}

/* Zeros that are all the middle, in words, and one that is not. */
static void middles(void **state)
{
    (void)state;
    uint32_t zeros[] = {0x77777777, 0x77777777};
    packed_matrix m = {
        .order = PACKED_COLUMNS, .bits = 4, .rows = 8, .columns = 64, .group = 32, .zeros = zeros, .add = 0x11111111};
    assert_int_equal(packed_format(&m), FORMAT_Q4_0);
    zeros[1] = 0x77777F77; /* a zero of 0, and the borrow of it */
    assert_int_equal(packed_format(&m), FORMAT_Q4_1);
    assert_int_equal(packed_zero(&m, 2, 1), 0);
    assert_int_equal(packed_zero(&m, 3, 1), 9);
    assert_int_equal(packed_zero(&m, 4, 1), 8);
}

/* Bytes with a sign. */
static void bytes(void **state)
{
    (void)state;
    int8_t values[COLUMNS];
    uint16_t scale = 0x3C00; /* 2^-7 */
    packed_matrix m = {.order = PACKED_ROWS,
                       .bits = 8,
                       .flip = 128,
                       .rows = 1,
                       .columns = COLUMNS,
                       .group = COLUMNS,
                       .scale_format = FORMAT_BF16,
                       .scales = &scale,
                       .zero = 128};
    float made[COLUMNS], decoded[COLUMNS];
    block_q8_0 blocks[COLUMNS / 32];
    for (int c = 0; c < COLUMNS; c++)
        values[c] = (int8_t)(c * 37 - 128);
    packed_read(&m, values, 0, FORMAT_F32, made);
    packed_read(&m, values, 0, packed_format(&m), blocks);
    number_formats[FORMAT_Q8_0].decode(blocks, decoded, COLUMNS);
    for (size_t c = 0; c < COLUMNS; c++)
        assert_true(made[c] == (float)values[c] * 0x1p-7f && decoded[c] == made[c]);
}

/* Groups that are no multiples of blocks, but for one that is all of a row. */
static void groups_and_blocks(void **state)
{
    (void)state;
    packed_matrix m = {.bits = 4, .rows = 8, .columns = 64, .group = 16, .zero = 8};
    assert_int_equal(packed_format(&m), FORMAT_F32);
    m.group = 64;
    assert_int_equal(packed_format(&m), FORMAT_Q4_0);
    m.columns = m.group = 48;
    assert_int_equal(packed_format(&m), FORMAT_F32);
    m.columns = 96;
    assert_int_equal(packed_format(&m), FORMAT_F32);
    assert_int_equal(packed_groups(&m), 2);
    m.columns = 97;
    assert_int_equal(packed_groups(&m), 3);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(every_order), cmocka_unit_test(bytes),
                                       cmocka_unit_test(middles), cmocka_unit_test(groups_and_blocks)};
    return run_group(tests, NULL, NULL);
}
