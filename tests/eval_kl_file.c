/* Logits files: what is written is what the format says, what is damaged is refused, and nothing is half written. */
#include "../src/base/memory.h"
#include "../src/eval/kl_file.h"

#include <math.h>

#include "own_folder.h"

/* ------------------------------------------------------------------ made-up logits */

typedef struct made {
    uint32_t context, vocabulary, windows;
    size_t rows; /* of all windows */
    int32_t *ids;
    float *logits; /* [rows][vocabulary] */
} made;

static uint32_t noise(uint32_t *state)
{
    *state = *state * 1664525u + 1013904223u;
    return *state >> 8;
}

/* spread: about how far the logits of a row lie apart. */
static made make(uint32_t context, uint32_t vocabulary, uint32_t windows, double spread)
{
    made m = {context, vocabulary, windows, (size_t)windows * (context - 1 - context / 2), NULL, NULL};
    uint32_t seed = context * 7 + vocabulary;
    m.ids = test_malloc((size_t)windows * context * sizeof *m.ids);
    for (size_t i = 0; i < (size_t)windows * context; i++)
        m.ids[i] = (int32_t)(noise(&seed) % vocabulary);
    m.logits = test_malloc(m.rows * vocabulary * sizeof *m.logits);
    for (size_t i = 0; i < m.rows * vocabulary; i++)
        m.logits[i] = (float)(spread * noise(&seed) / (1 << 24) - 3);
    return m;
}

static void free_made(made *m)
{
    test_free(m->ids);
    test_free(m->logits);
}

static hearth_status write_made(const made *m, hearth_error *error)
{
    kl_writer *w;
    hearth_status status = kl_writer_open(&w, own_path, m->context, m->vocabulary, m->ids, m->windows, error);
    if (status != HEARTH_OK)
        return status;
    status = kl_writer_add(w, m->logits, 1, error);
    if (status == HEARTH_OK)
        status = kl_writer_add(w, m->logits + m->vocabulary, m->rows - 1, error);
    if (status == HEARTH_OK)
        return kl_writer_commit(w, error);
    kl_writer_discard(w);
    return status;
}

/* ------------------------------------------------------------------ the way there and back */

/* Every value is within half a step of the logarithm of its probability, computed here; what is cut off lies below. */
static void check_row(const kl_row *row, const float *logits, size_t n)
{
    double sum = 0, most = logits[0], least = logits[0];
    for (size_t i = 0; i < n; i++) {
        sum += exp((double)logits[i]);
        most = fmax(most, logits[i]);
        least = fmin(least, logits[i]);
    }
    assert_int_equal(row->clipped, most - least > 16);
    assert_true(fabs(row->scale - fmin(most - least, 16) / 65535) < 1e-9);
    for (size_t i = 0; i < n; i++) {
        double exact = logits[i] - log(sum), got = row->min + (double)row->scale * row->values[i];
        if (logits[i] <= most - 16)
            assert_int_equal(row->values[i], 0);
        else
            assert_true(fabs(got - exact) <= row->scale / 2 + 4e-6); /* and the rounding of min and scale */
        if (logits[i] == (float)most)
            assert_int_equal(row->values[i], 65535);
    }
}

static void what_is_written_is_read(void **state)
{
    (void)state;
    static const struct {
        uint32_t context, vocabulary, windows;
        double spread;
    } cases[] = {{4, 2, 1, 8}, {5, 3, 2, 8}, {8, 64, 3, 12}, {9, 65, 2, 40}, {64, 301, 2, 100}, {16, 7, 2, 1e-4}};
    for (size_t c = 0; c < sizeof cases / sizeof *cases; c++) {
        made m = make(cases[c].context, cases[c].vocabulary, cases[c].windows, cases[c].spread);
        hearth_error error;
        kl_file f;
        int32_t ids[64];
        assert_int_equal(write_made(&m, &error), HEARTH_OK);
        assert_int_equal(kl_file_open(&f, own_path, &error), HEARTH_OK);
        assert_int_equal(f.context, m.context);
        assert_int_equal(f.vocabulary_size, m.vocabulary);
        assert_int_equal(f.window_count, m.windows);
        assert_int_equal(f.rows_per_window * m.windows, m.rows);
        /* As the format has it: head, ids, rows of an even number of values behind two floats. */
        size_t row = 8 + 2 * ((m.vocabulary + 1) / 2 * 2);
        assert_int_equal(f.map.size_bytes, 20 + 4 * m.windows * m.context + m.rows * row);
        for (uint32_t w = 0; w < m.windows; w++) {
            kl_file_window(&f, w, ids);
            assert_memory_equal(ids, m.ids + w * m.context, m.context * sizeof *ids);
            for (size_t i = 0; i < f.rows_per_window; i++) {
                kl_row r;
                assert_int_equal(kl_file_row(&f, w, i, &r, &error), HEARTH_OK);
                check_row(&r, m.logits + (w * f.rows_per_window + i) * m.vocabulary, m.vocabulary);
            }
            kl_file_drop(&f, w);
        }
        kl_file_close(&f);
        free_made(&m);
    }
}

/* Rows whose bytes follow from the format's words by hand. */
static void rows_are_those_of_the_format(void **state)
{
    (void)state;
    static const float logits[3][4] = {{-5, 11, 7, -100}, {2, 2, 2, 2}, {1, 0, 0, 0}};
    static const int32_t ids[8] = {0, 1, 2, 3, 3, 2, 1, 0};
    static const uint16_t values[3][4] = {{0, 65535, 49151, 0}, {0, 0, 0, 0}, {65535, 0, 0, 0}};
    const double scales[3] = {16.0 / 65535, 0, 1.0 / 65535};
    const double mins[3] = {-16 - log(1 + exp(-4) + exp(-16)), -log(4), -1 - log(1 + 3 * exp(-1))};
    kl_writer *w;
    kl_file f;
    assert_int_equal(kl_writer_open(&w, own_path, 8, 4, ids, 1, NULL), HEARTH_OK);
    assert_int_equal(kl_writer_add(w, logits[0], 3, NULL), HEARTH_OK);
    assert_int_equal(kl_writer_commit(w, NULL), HEARTH_OK);
    assert_int_equal(kl_file_open(&f, own_path, NULL), HEARTH_OK);
    assert_memory_equal(f.map.data, "_logits_\x08\0\0\0\x04\0\0\0\x01\0\0\0", 20);
    assert_memory_equal(f.map.data + 20, ids, sizeof ids);
    assert_int_equal(f.map.size_bytes, 20 + 32 + 3 * 16);
    for (size_t i = 0; i < 3; i++) {
        const uint8_t *row = f.map.data + 52 + i * 16;
        float head[2];
        memcpy(head, row, sizeof head);
        assert_true(fabs(head[0] - scales[i]) <= 1e-7 * scales[i]);
        assert_true(fabs(head[1] - mins[i]) <= 2e-6);
        assert_memory_equal(row + 8, values[i], 8);
    }
    kl_file_close(&f);
}

/* ------------------------------------------------------------------ damage */

typedef struct bytes {
    uint8_t data[4096];
    size_t size;
} bytes;

/* A small file: 2 windows of 6, a vocabulary of 5. */
static bytes small_file(void)
{
    bytes b;
    made m = make(6, 5, 2, 9);
    assert_int_equal(write_made(&m, NULL), HEARTH_OK);
    FILE *f = fopen(own_path, "rb");
    assert_non_null(f);
    b.size = fread(b.data, 1, sizeof b.data, f);
    fclose(f);
    free_made(&m);
    assert_int_equal(b.size, 20 + 48 + 4 * 20);
    return b;
}

/* From a block of just that size, so that a byte read behind it is noticed. */
static hearth_status parse(const uint8_t *data, size_t size, hearth_error *error)
{
    kl_file f;
    uint8_t *exact = test_malloc(size > 0 ? size : 1);
    memcpy(exact, data, size);
    *error = (hearth_error){0};
    hearth_status status = kl_file_parse(&f, exact, size, "x.kld", error);
    for (uint32_t w = 0; status == HEARTH_OK && w < f.window_count; w++)
        for (size_t i = 0; status == HEARTH_OK && i < f.rows_per_window; i++) {
            kl_row row;
            status = kl_file_row(&f, w, i, &row, error);
        }
    test_free(exact);
    assert_int_equal(status == HEARTH_OK, error->text[0] == 0);
    return status;
}

static void files_cut_short_are_refused(void **state)
{
    (void)state;
    hearth_error error;
    bytes b = small_file();
    assert_int_equal(parse(b.data, b.size, &error), HEARTH_OK);
    for (size_t size = 0; size < b.size; size++) {
        assert_int_equal(parse(b.data, size, &error), HEARTH_FORMAT);
        assert_non_null(strstr(error.text, size < 20 ? "is not that of a logits file" : "cut short"));
    }
    assert_int_equal(parse(b.data, b.size + 1, &error), HEARTH_FORMAT);
    assert_non_null(
        strstr(error.text, "x.kld: size: is 149 bytes, 2 windows of 6 tokens with a vocabulary of 5 are 148"));
    assert_null(strstr(error.text, "short"));
}

static void hostile_heads_are_refused(void **state)
{
    (void)state;
    static const struct {
        int32_t context, vocabulary, windows;
        const char *text;
    } cases[] = {
        {3, 5, 2, "cannot be"},
        {0, 5, 2, "cannot be"},
        {-6, 5, 2, "cannot be"},
        {6, 0, 2, "cannot be"},
        {6, -5, 2, "cannot be"},
        {6, 5, 0, "cannot be"},
        {6, 5, -2, "cannot be"},
        {6, 5, 3, "cut short"},
        {6, 4, 2, "size: is 148 bytes"},
        {6, 5, 1, "size: is 148 bytes"},
        {INT32_MAX, 5, 2, "cut short"},
        {6, INT32_MAX, 2, "cut short"},
        {INT32_MAX, INT32_MAX, INT32_MAX, "overflows"},
        {INT32_MAX, 1 << 30, 16, "overflows"},
    };
    hearth_error error;
    bytes b = small_file();
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        const int32_t figures[3] = {cases[i].context, cases[i].vocabulary, cases[i].windows};
        memcpy(b.data + 8, figures, sizeof figures);
        assert_int_equal(parse(b.data, b.size, &error), HEARTH_FORMAT);
        if (!strstr(error.text, cases[i].text))
            fail_msg("'%s' lacks '%s'", error.text, cases[i].text);
    }
    b.data[0] = 'L';
    assert_int_equal(parse(b.data, b.size, &error), HEARTH_FORMAT);
}

static void hostile_contents_are_refused(void **state)
{
    (void)state;
    hearth_error error;
    bytes b = small_file();
    static const int32_t ids[] = {-1, 5, INT32_MAX, INT32_MIN};
    for (size_t i = 0; i < sizeof ids / sizeof *ids; i++) {
        bytes c = b;
        memcpy(c.data + 20 + 4 * 11, &ids[i], 4); /* the last of all */
        assert_int_equal(parse(c.data, c.size, &error), HEARTH_FORMAT);
        assert_non_null(strstr(error.text, "x.kld: token 11: is "));
    }
    static const float heads[][2] = {{NAN, -3},         {1e-4f, NAN},  {INFINITY, -3}, {1e-4f, -INFINITY},
                                     {1e-4f, INFINITY}, {-1e-4f, -1},  {1e-4f, 1},     {3e38f, -3e38f},
                                     {1e-4f, -6.5f},    {1.0f, -3.0f}, {1, -65535},    {INFINITY, -INFINITY},
                                     {2.5e-4f, -16.4f}};
    for (size_t i = 0; i < sizeof heads / sizeof *heads; i++) {
        bytes c = b;
        memcpy(c.data + c.size - 20, heads[i], 8); /* of the last row */
        assert_int_equal(parse(c.data, c.size, &error), HEARTH_FORMAT);
        assert_non_null(strstr(error.text, "x.kld: row 1 of window 1: "));
    }
}

static void what_is_no_file_is_refused(void **state)
{
    (void)state;
    hearth_error error;
    kl_file f;
    assert_int_equal(kl_file_open(&f, own_folder, &error), HEARTH_IO);
    assert_int_equal(kl_file_open(&f, "/nonexistent/file", &error), HEARTH_IO);
    FILE *empty = fopen(own_path, "wb");
    assert_non_null(empty);
    fclose(empty);
    assert_int_equal(kl_file_open(&f, own_path, &error), HEARTH_FORMAT);
}

/* ------------------------------------------------------------------ writing that fails */

static void what_cannot_be_written_is_refused(void **state)
{
    (void)state;
    static const int32_t ids[8] = {0};
    static const uint32_t cases[][3] = {{3, 4, 1},
                                        {8, 0, 1},
                                        {8, 4, 0},
                                        {1u << 31, 4, 1},
                                        {8, 1u << 31, 1},
                                        {8, 4, 1u << 31},
                                        {INT32_MAX, INT32_MAX, INT32_MAX}};
    hearth_error error;
    kl_writer *w;
    unlink(own_path);
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++)
        assert_int_equal(kl_writer_open(&w, own_path, cases[i][0], cases[i][1], ids, cases[i][2], &error),
                         HEARTH_INVALID);
    static const float bad[] = {NAN, INFINITY, -INFINITY};
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++)
        for (size_t at = 0; at < 4; at++) {
            float logits[4] = {1, 2, 3, 4};
            logits[at] = bad[i];
            assert_int_equal(kl_writer_open(&w, own_path, 8, 4, ids, 1, &error), HEARTH_OK);
            assert_int_equal(kl_writer_add(w, logits, 1, &error), HEARTH_INVALID);
            kl_writer_discard(w);
        }
    kl_writer_discard(NULL);
    assert_int_equal(own_folder_files(), 0);
}

/* Whatever fails, an old file of that name stays what it was and nothing lies beside it. */
static void nothing_is_half_written(void **state)
{
    (void)state;
    made old = make(6, 5, 2, 9), new = make(40, 400, 40, 9);
    hearth_error error;
    kl_file f;
    assert_int_equal(write_made(&old, &error), HEARTH_OK);
    long live = mem_live(), tries[2] = {0};
    for (int kind = 0; kind < 2; kind++) {
        hearth_status status;
        do {
            if (kind)
                mem_fail_at(tries[kind]++);
            else
                file_fail_at(tries[kind]++);
            error = (hearth_error){0};
            status = write_made(&new, &error);
            mem_fail_at(-1);
            file_fail_at(-1);
            assert_int_equal(mem_live(), live);
            assert_int_equal(own_folder_files(), 1);
            assert_int_equal(status == HEARTH_OK, error.text[0] == 0);
            if (status != HEARTH_OK && kind == 0) {
                assert_int_equal(kl_file_open(&f, own_path, &error), HEARTH_OK);
                assert_int_equal(f.context, old.context);
                kl_file_close(&f);
            }
        } while (status != HEARTH_OK);
        assert_int_equal(kl_file_open(&f, own_path, &error), HEARTH_OK);
        assert_int_equal(f.context, new.context);
        kl_file_close(&f);
    }
    assert_true(tries[0] > 4 && tries[1] > 4);
    file_fail_at(0);
    assert_int_equal(kl_file_open(&f, own_path, &error), HEARTH_IO);
    file_fail_at(-1);
    free_made(&old);
    free_made(&new);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(what_is_written_is_read),           cmocka_unit_test(rows_are_those_of_the_format),
        cmocka_unit_test(files_cut_short_are_refused),       cmocka_unit_test(hostile_heads_are_refused),
        cmocka_unit_test(hostile_contents_are_refused),      cmocka_unit_test(what_is_no_file_is_refused),
        cmocka_unit_test(what_cannot_be_written_is_refused), cmocka_unit_test(nothing_is_half_written),
    };
    return run_group(tests, own_folder_make, own_folder_remove);
}
