/* file_scaled.c - rows that are made when they are read: every float of 8 bits, blocks of scales that do not fill their last
 * row and column, the order of the values of a block of 4 bits, and factors of whole matrices. */
#include "../src/file/checkpoint.h"

#include "../src/number/blocks.h"

#include "skip.h"

#include <math.h>
#include <string.h>

#define COLUMNS 256

/* All 256 codes as one row with the scale 1: zero, 7 subnormal steps of 2^-9, then 8 steps in each power of two, up to 448. */
static void every_code(void **state)
{
    (void)state;
    uint8_t codes[COLUMNS];
    float one = 1, row[COLUMNS];
    const void *scales[] = {&one};
    const scaled_rows rows = {.scales = scales,
                              .scale_format = FORMAT_F32,
                              .block_rows = 1,
                              .block_columns = COLUMNS,
                              .stored_rows = 1,
                              .step = 1};
    for (size_t i = 0; i < COLUMNS; i++)
        codes[i] = (uint8_t)i;
    scaled_read(&rows, codes, 0, 0, COLUMNS, row);
    assert_true(row[0] == 0 && row[8] == 0x1p-6f && row[0x38] == 1 && row[0x7E] == 448 && isnan(row[0x7F]));
    for (size_t i = 1; i < 0x7F; i++) {
        double step = i < 16 ? 0x1p-9 : ldexp(1, (int)(i / 8) - 10);
        assert_true((double)row[i] - (double)row[i - 1] == (i % 8 > 0 || i < 16 ? step : step / 2));
        assert_true(row[i + 128] == -row[i]);
    }
    assert_true(signbit(row[128]) && isnan(row[255]));
}

/* Scales of 2 rows and 3 columns over a matrix of 3 rows and 5 columns, the second of two, in BF16. */
static void blocks_of_scales(void **state)
{
    (void)state;
    enum { ROWS = 3, WIDTH = 5 };
    uint8_t codes[2][ROWS][WIDTH];
    uint16_t numbers[2][4] = {{0}, {0x3F80, 0x4000, 0x4080, 0x4100}}; /* 1, 2, 4, 8 */
    static const float expected[ROWS][WIDTH] = {{1, 1, 1, 2, 2}, {1, 1, 1, 2, 2}, {4, 4, 4, 8, 8}};
    const void *scales[] = {numbers[0], numbers[1]};
    scaled_rows rows = {.scales = scales,
                        .scale_format = FORMAT_BF16,
                        .block_rows = 2,
                        .block_columns = 3,
                        .stored_rows = ROWS,
                        .step = 1};
    memset(codes, 0x38, sizeof codes); /* 1 */
    const stored_tensor t = {.format = FORMAT_F32,
                             .rank = 3,
                             .shape = {WIDTH, ROWS, 2, 1},
                             .data = codes,
                             .size_bytes = sizeof codes * sizeof(float),
                             .scaled = &rows};
    assert_true(stored_tensor_reordered(&t) && stored_tensor_is_made(&t));
    for (uint64_t i = 0; i < ROWS; i++) {
        float row[WIDTH];
        stored_tensor_read(&t, ROWS + i, sizeof row, row);
        assert_memory_equal(row, expected[i], sizeof row);
    }
}

/* Two blocks of every second row: byte i has values 2i and 2i + 1 in the folder, i and i + 16 in the format. */
static void order_of_values(void **state)
{
    (void)state;
    enum { BLOCKS = 2, ROWS = 2 };
    uint8_t bytes[2 * ROWS][BLOCKS * 16], exponents[2 * ROWS][BLOCKS];
    for (size_t row = 0; row < 2 * ROWS; row++) {
        for (size_t i = 0; i < BLOCKS * 16; i++)
            bytes[row][i] = (uint8_t)(i * 37 + i / 16 + row * 5);
        for (size_t i = 0; i < BLOCKS; i++)
            exponents[row][i] = (uint8_t)(120 + row * BLOCKS + i);
    }
    const void *scales[] = {exponents};
    const scaled_rows rows = {.kind = SCALED_MXFP4, .scales = scales, .stored_rows = 2 * ROWS, .first = 1, .step = 2};
    for (uint64_t i = 0; i < ROWS; i++) {
        block_mxfp4 made[BLOCKS];
        float values[BLOCKS * 32];
        scaled_read(&rows, bytes, 0, i, BLOCKS * 32, made);
        number_formats[FORMAT_MXFP4].decode(made, values, BLOCKS * 32);
        for (size_t k = 0; k < BLOCKS * 32; k++) {
            static const float numbers[] = {0, 0.5f, 1, 1.5f, 2, 3, 4, 6};
            unsigned code = bytes[2 * i + 1][k / 2] >> k % 2 * 4 & 15;
            float want = ldexpf(numbers[code & 7], exponents[2 * i + 1][k / 32] - 127);
            assert_true(values[k] == (code & 8 ? -want : want));
        }
    }
}

/* The second of two rows of NVFP4, all numbers twice, in two blocks with the scales 2 and -0.5. */
static void blocks_with_a_factor(void **state)
{
    (void)state;
    static const float numbers[] = {0, 0.5f, 1, 1.5f, 2, 3, 4, 6};
    static const uint8_t codes[2][2] = {{0}, {0x40, 0xB0}};
    const factored_matrix m = {codes, 0.75};
    const void *scales[] = {&m};
    const scaled_rows rows = {.kind = SCALED_NVFP4, .scales = scales, .stored_rows = 2, .step = 1};
    uint8_t bytes[2][16];
    float made[32];
    assert_int_equal(scaled_row_bytes(&rows, 32), sizeof bytes[0]);
    for (size_t i = 0; i < 16; i++)
        bytes[1][i] = (uint8_t)(2 * i % 16 | (2 * i + 1) % 16 << 4);
    scaled_read(&rows, bytes, 0, 1, 32, made);
    for (size_t i = 0; i < 32; i++) {
        float size = numbers[i % 8] * (i < 16 ? 2 : -0.5f) * 0.75f;
        assert_true(made[i] == (i % 16 < 8 ? size : -size));
    }
}

/* Rows of a number format in two matrices, each with its own factor. */
static void rows_with_a_factor(void **state)
{
    (void)state;
    enum { ROWS = 2, WIDTH = 3 };
    static const uint16_t halves[2][ROWS][WIDTH] = {{{0}}, {{0}, {0x3C00, 0xC000, 0x3800}}}; /* 1, -2, 0.5 */
    static const factored_matrix matrices[] = {{NULL, 100}, {NULL, 0.1}};
    const void *scales[] = {&matrices[0], &matrices[1]};
    scaled_rows rows = {
        .kind = SCALED_TIMES, .scales = scales, .scale_format = FORMAT_F16, .stored_rows = ROWS, .step = 1};
    const stored_tensor t = {.format = FORMAT_F32,
                             .rank = 3,
                             .shape = {WIDTH, ROWS, 2, 1},
                             .data = halves,
                             .size_bytes = 2 * sizeof halves,
                             .scaled = &rows};
    float row[WIDTH];
    stored_tensor_read(&t, 2 * ROWS - 1, sizeof row, row);
    assert_true(row[0] == 0.1f && row[1] == -0.2f && row[2] == 0.05f);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(every_code), cmocka_unit_test(blocks_of_scales),
                                       cmocka_unit_test(order_of_values), cmocka_unit_test(blocks_with_a_factor),
                                       cmocka_unit_test(rows_with_a_factor)};
    return run_group(tests, NULL, NULL);
}
