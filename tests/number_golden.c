/* number_golden.c - every format against golden/quants, which two other programs agree on: decoding must give the same
 * floats, encoding the same bytes where the format has a fixed rule, else no more than 1.02 times the error. */
#include "../src/base/file.h"
#include "../src/base/json.h"
#include "../src/base/memory.h"
#include "../src/number/format.h"

#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <string.h>
#include <strings.h>

#include "skip.h"

#define ROOM 0x20000

typedef struct golden {
    json_t *index, *entry;
    size_t rows, columns;
    float values[4096];
} golden;

static size_t load(const char *name, const char *end, void *out)
{
    char path[512];
    snprintf(path, sizeof path, "%s/golden/quants/%s%s", HEARTH_DATA, name, end);
    char *data;
    size_t size;
    hearth_error error;
    if (file_read(&data, &size, path, ROOM, &error) != HEARTH_OK)
        fail_msg("%s", error.text);
    memcpy(out, data, size);
    mem_free(data);
    return size;
}

static void load_index(golden *g)
{
    const char *path = HEARTH_DATA "/golden/quants/index.json";
    hearth_error error;
    if (json_parse_file(&g->index, path, &error) != HEARTH_OK)
        fail_msg("%s", error.text);
    uint32_t rows, columns;
    assert_int_equal(json_get_uint(g->index, "rows", &rows, NULL, path, &error), HEARTH_OK);
    assert_int_equal(json_get_uint(g->index, "n_per_row", &columns, NULL, path, &error), HEARTH_OK);
    g->rows = rows;
    g->columns = columns;
    assert_true(g->rows * g->columns <= 4096);
    assert_int_equal(load("rows", ".f32", g->values), g->rows * g->columns * sizeof(float));
}

/* The index's entry of a format, NULL for float32, which needs none. Its sizes and type must be those of the table. */
static json_t *find_entry(const golden *g, const number_traits *traits)
{
    size_t i;
    json_t *entry;
    json_array_foreach(json_object_get(g->index, "types"), i, entry)
    {
        if (strcasecmp(json_string_value(json_object_get(entry, "type")), traits->name) != 0)
            continue;
        assert_int_equal(json_integer_value(json_object_get(entry, "id")), traits->gguf_type);
        assert_int_equal(json_integer_value(json_object_get(entry, "block_size")), traits->block_values);
        assert_int_equal(json_integer_value(json_object_get(entry, "block_bytes")), traits->block_bytes);
        return entry;
    }
    return NULL;
}

static void for_each_format(void (*check)(const golden *g, const number_traits *traits, const json_t *entry))
{
    golden g = {0};
    load_index(&g);
    size_t checked = 0, stored = 0;
    for (size_t f = 0; f < FORMAT_COUNT; f++) {
        const json_t *entry = find_entry(&g, &number_formats[f]);
        stored += number_is_in_files((number_format)f);
        if (entry) {
            check(&g, &number_formats[f], entry);
            checked++;
        }
    }
    json_decref(g.index);
    assert_int_equal(checked, stored - 1);
}

static void check_decode(const golden *g, const number_traits *traits, const json_t *entry)
{
    (void)entry;
    size_t n = g->rows * g->columns;
    static char blocks[ROOM + 1];
    static float expected[ROOM / sizeof(float)], found[4096 + 1];
    assert_int_equal(load(traits->name, ".bin", blocks), n / traits->block_values * traits->block_bytes);
    assert_int_equal(load(traits->name, ".f32", expected), n * sizeof(float));
    traits->decode(blocks, found, n);
    assert_memory_equal(found, expected, n * sizeof(float));

    /* The same from and to odd addresses. */
    memmove(blocks + 1, blocks, ROOM);
    char *odd = (char *)found + 1;
    traits->decode(blocks + 1, (float *)(void *)odd, n);
    assert_memory_equal(odd, expected, n * sizeof(float));
}

static double relative_error(const float *x, const float *y, size_t n)
{
    double error = 0.0, size = 0.0;
    for (size_t i = 0; i < n; i++) {
        error += ((double)y[i] - (double)x[i]) * ((double)y[i] - (double)x[i]);
        size += (double)x[i] * (double)x[i];
    }
    return sqrt(error / size);
}

/* Formats whose rule has no search (golden/README.md). */
static bool has_rule(const char *name)
{
    const char *const names[] = {"f16", "bf16", "q8_0", "q4_0", "q4_1", "q5_0", "q5_1", "tq1_0", "tq2_0"};
    for (size_t i = 0; i < sizeof names / sizeof *names; i++)
        if (strcmp(names[i], name) == 0)
            return true;
    return false;
}

static void check_encode(const golden *g, const number_traits *traits, const json_t *entry)
{
    size_t n = g->rows * g->columns, size = n / traits->block_values * traits->block_bytes;
    static char blocks[ROOM], expected[ROOM], odd_values[ROOM], odd_blocks[ROOM];
    static float found[4096];
    if (!traits->encode)
        return;
    traits->encode(g->values, NULL, blocks, n);
    memcpy(odd_values + 1, g->values, n * sizeof(float));
    traits->encode((const float *)(const void *)(odd_values + 1), NULL, odd_blocks + 1, n);
    assert_memory_equal(odd_blocks + 1, blocks, size);
    if (has_rule(traits->name)) {
        load(traits->name, ".bin", expected);
        assert_memory_equal(blocks, expected, size);
        return;
    }
    traits->decode(blocks, found, n);
    double mean = 0.0;
    for (size_t row = 0; row < g->rows; row++) {
        double error = relative_error(g->values + row * g->columns, found + row * g->columns, g->columns);
        const json_t *rows = json_object_get(entry, "relative_rmse_rows");
        double reference = json_number_value(json_array_get(rows, row));
        mean += error / (double)g->rows;
        if (error > 1.02 * reference)
            fail_msg("%s row %zu: error %.6f, the reference has %.6f", traits->name, row, error, reference);
    }
    double reference = json_number_value(json_object_get(entry, "relative_rmse"));
    print_message("%s: relative error %.6f, %.3f of the reference\n", traits->name, mean, mean / reference);
    assert_true(mean <= 1.02 * reference);
}

static void decoding(void **state)
{
    (void)state;
    for_each_format(check_decode);
}

static void encoding(void **state)
{
    (void)state;
    for_each_format(check_encode);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(decoding), cmocka_unit_test(encoding)};
    return run_group(tests, NULL, NULL);
}
