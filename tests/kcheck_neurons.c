/* kcheck_neurons.c - the kernels of neuron-major networks: sums of rows, selection, columns as rows.
 *
 * A sum is one chain of fused multiply-adds in a written order, so every level must have the scalar bits; the scalar
 * kernels are held against fma() of double precision here, one rounding at a time. Only where something is not finite
 * are NaNs all alike, since their bits depend on the order of operands. Columns as rows have one right answer in
 * the float formats; in Q8_0 it is what number's encoder makes of the decoded column, a half apart. */
#include "kcheck.h"

#include "../src/number/half.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static void *new_array(size_t count, size_t size)
{
    void *p = calloc(count ? count : 1, size);
    if (!p) {
        fprintf(stderr, "kcheck: out of memory\n");
        exit(1);
    }
    return p;
}

/* ---- data ---- */

typedef enum content { ROUGH, NOT_FINITE, CONTENT_COUNT } content;

static uint16_t random_scale(content kind, uint64_t *rng)
{
    if (kind == NOT_FINITE && random_below(rng, 8) == 0)
        return random_below(rng, 2) ? 0x7c00 : 0xfe01;
    size_t rare = random_below(rng, 16);
    return half_from_float(random_value(rng) * (rare == 0 ? 0x1p-20f : rare == 1 ? 6e4f : 1));
}

static void fill_weights(uint8_t *data, size_t bytes, number_format format, content kind, uint64_t *rng)
{
    const number_traits *traits = &number_formats[format];
    for (uint8_t *block = data; block < data + bytes; block += traits->block_bytes) {
        if (scales_at[format].count == 0) {
            random_encoded(block, format, kind == NOT_FINITE, rng);
            continue;
        }
        for (size_t i = 0; i < traits->block_bytes; i++)
            block[i] = (uint8_t)random_bits(rng);
        for (size_t i = 0; i < scales_at[format].count; i++) {
            uint16_t scale = random_scale(kind, rng);
            memcpy(block + scales_at[format].at[i], &scale, sizeof(scale));
        }
    }
}

static matrix matrix_new(buffer_guarded *memory, number_format format, content kind, size_t rows, size_t columns,
                         uint64_t *rng)
{
    matrix w = {.format = format, .rows = (uint32_t)rows, .columns = (uint32_t)columns};
    if (!number_row_bytes(format, columns, &w.row_bytes)) {
        fprintf(stderr, "kcheck: bad columns\n");
        exit(1);
    }
    *memory = guarded_new(rows * w.row_bytes);
    w.data = memory->data;
    fill_weights(memory->data, memory->size, format, kind, rng);
    return w;
}

/* Coefficients, of which about one in `density` is not zero; a few are subnormal, -0, or not finite. */
static void fill_coefficients(float *h, size_t n, size_t density, content kind, uint64_t *rng)
{
    for (size_t i = 0; i < n; i++) {
        h[i] = random_below(rng, density) == 0 ? random_rough(rng) : random_below(rng, 4) ? 0.0f : -0.0f;
        if (kind == NOT_FINITE && random_below(rng, 32) == 0)
            h[i] = random_below(rng, 2) ? NAN : -INFINITY;
    }
}

/* Numbers of rows, ascending or not, some twice; or NULL. */
static uint32_t *list_new(buffer_guarded *memory, size_t listed, size_t rows, uint64_t *rng)
{
    *memory = guarded_new(listed * sizeof(uint32_t));
    uint32_t *list = memory->data;
    for (size_t i = 0; i < listed; i++)
        list[i] = (uint32_t)random_below(rng, rows);
    return list;
}

/* ---- sums of rows ---- */

/* NaNs become one NaN. */
static void same_nans(float *x, size_t n)
{
    for (size_t i = 0; i < n; i++)
        x[i] = x[i] == x[i] ? x[i] : NAN;
}

/* -0 becomes 0. */
static void same_zeros(float *x, size_t n)
{
    for (size_t i = 0; i < n; i++)
        x[i] = x[i] == 0 ? 0 : x[i];
}

/* A case of either kernel: `tokens` rows of sums, y_stride apart. accumulate has few tokens and all columns. */
typedef struct sums_case {
    matrix w;
    const uint32_t *list;
    size_t begin, end, column, columns, tokens, h_stride, y_stride;
    const float *h;
} sums_case;

/* The definition, once more: fma() of the C library on decoded weights. */
static void sums_expected(const sums_case *s, bool skip_zeros, float *y)
{
    float *row = new_array(s->w.columns, sizeof(float));
    for (size_t i = s->begin; i < s->end; i++) {
        number_formats[s->w.format].decode(matrix_row(&s->w, s->list ? s->list[i] : i), row, s->w.columns);
        for (size_t t = 0; t < s->tokens; t++) {
            float h = s->h[t * s->h_stride + i];
            for (size_t c = 0; c < s->columns && !(skip_zeros && h == 0); c++)
                y[t * s->y_stride + c] = fmaf(h, row[s->column + c], y[t * s->y_stride + c]);
        }
    }
    free(row);
}

static void run_sums(const kernels *k, const sums_case *s, bool many, float *y)
{
    number_format f = s->w.format;
    if (many)
        k->accumulate_many[f](&s->w, s->list, s->begin, s->end, s->column, s->columns, s->h, s->h_stride, s->tokens, y,
                              s->y_stride);
    else
        k->accumulate[f](&s->w, s->list, s->begin, s->end, s->h, s->h_stride, s->tokens, y, s->y_stride);
}

/* The kernel's bytes, those between the tokens included. */
static void check_sums(check *c, const kernels *k, const sums_case *s, bool many, uint64_t *rng)
{
    size_t n = (s->tokens - 1) * s->y_stride + s->columns;
    buffer_guarded got = guarded_new(n * sizeof(float));
    float *y = got.data, *want = new_array(n, sizeof(float));
    for (size_t i = 0; i < n; i++)
        y[i] = want[i] = random_below(rng, 8) ? random_rough(rng) : -0.0f;
    sums_expected(s, many, want);
    /* In two calls: a cut changes nothing. */
    sums_case part = *s;
    part.end = s->begin + random_below(rng, s->end - s->begin + 1);
    run_sums(k, &part, many, y);
    part.begin = part.end;
    part.end = s->end;
    run_sums(k, &part, many, y);
    same_nans(y, n);
    same_nans(want, n);
    if (s->tokens > 1 && !many) { /* a zero coefficient may be skipped, which leaves -0 as it is */
        same_zeros(y, n);
        same_zeros(want, n);
    }
    expect_same(c, "sums", want, y, n * sizeof(float));
    expect(c, "wrote before the output", guarded_intact(&got));
    guarded_free(&got);
    free(want);
}

static void check_sums_of(check *c, const kernels *k, number_format format, bool many, size_t rows, size_t columns,
                          uint64_t *rng)
{
    static const char *const kinds[CONTENT_COUNT] = {"rough", "not finite"};
    size_t few = many || random_below(rng, 2) ? 1 : 2 + random_below(rng, 15);
    content kind = random_below(rng, 6) || few > 1 ? ROUGH : NOT_FINITE; /* zero times infinity may be skipped, too */
    buffer_guarded weights, numbers, coefficients;
    sums_case s = {.w = matrix_new(&weights, format, kind, rows, columns, rng), .columns = columns, .tokens = few};
    bool listed = random_below(rng, 2);
    size_t entries = listed ? 1 + random_below(rng, 2 * rows) : rows;
    uint32_t *list = list_new(&numbers, entries, rows, rng);
    s.list = listed ? list : NULL;
    s.begin = random_below(rng, 4) ? 0 : random_below(rng, entries);
    s.end = entries;
    if (many) {
        size_t block = number_formats[format].block_values, limit = ACCUMULATE_COLUMNS;
        s.tokens = 1 + random_below(rng, 20);
        s.column = random_below(rng, columns / block) * block;
        s.columns = columns - s.column < limit ? columns - s.column : limit;
        if (s.columns > block && random_below(rng, 2))
            s.columns = (1 + random_below(rng, s.columns / block)) * block;
    }
    s.h_stride = entries + random_below(rng, 3);
    s.y_stride = s.columns + random_below(rng, 3);
    coefficients = guarded_new(((s.tokens - 1) * s.h_stride + entries) * sizeof(float));
    s.h = coefficients.data;
    fill_coefficients(coefficients.data, coefficients.size / sizeof(float), 1 + random_below(rng, 6), kind, rng);
    snprintf(c->size, sizeof(c->size), "%s, %zu rows %s, columns %zu + %zu of %zu, %zu tokens, %s",
             number_formats[format].name, entries, listed ? "listed" : "", s.column, s.columns, columns, s.tokens,
             kinds[kind]);
    check_sums(c, k, &s, many, rng);
    guarded_free(&weights);
    guarded_free(&numbers);
    guarded_free(&coefficients);
}

static void check_sums_format(check *c, const kernels *k, number_format format, bool many, uint64_t *rng)
{
    static const size_t rows[] = {1, 2, 3, 7, 8, 9, 16, 17, 31, 32, 33, 40, 65, 100};
    static const size_t values[] = {1, 7, 15, 16, 17, 33, 63, 64, 96, 127, 128, 129, 255, 256, 257, 384, 1100};
    static const size_t blocks[] = {1, 2, 3, 4, 5, 7, 8, 9, 12, 17, 33};
    bool block = number_is_block(format);
    size_t sizes = block ? sizeof(blocks) / sizeof(*blocks) : sizeof(values) / sizeof(*values);
    for (size_t s = 0; s < sizes; s++)
        for (size_t r = 0; r < sizeof(rows) / sizeof(*rows); r++)
            check_sums_of(c, k, format, many, rows[r],
                          block ? blocks[s] * number_formats[format].block_values : values[s], rng);
}

/* ---- selection ---- */

static const char *const select_names[SELECT_COUNT] = {
    [SELECT_ABOVE] = "select above", [SELECT_FROM] = "select from", [SELECT_BEYOND] = "select beyond"};

/* What is selected of n values, by the words of kernel.h. */
static size_t select_expected(kernel_selection rule, const float *values, const uint32_t *ids, uint32_t first, size_t n,
                              float threshold, uint32_t *selected_ids, float *selected)
{
    size_t count = 0;
    for (size_t i = 0; i < n; i++) {
        bool unordered = isnan(values[i]) || isnan(threshold),
             pass[SELECT_COUNT] = {[SELECT_ABOVE] = !unordered && values[i] > threshold,
                                   [SELECT_FROM] = unordered || values[i] >= threshold,
                                   [SELECT_BEYOND] =
                                       unordered || values[i] > threshold || values[i] < -threshold || threshold < 0};
        selected_ids[count] = ids ? ids[i] : first + (uint32_t)i;
        selected[count] = values[i];
        count += pass[rule];
    }
    return count;
}

typedef enum place { APART, IN_PLACE, NUMBERS_ONLY, PLACE_COUNT } place;

static void check_select_of(check *c, kernel_select *kernel, kernel_selection rule, size_t n, place where,
                            uint64_t *rng)
{
    static const float thresholds[] = {0, 0.25f, -0.5f, INFINITY, -INFINITY, NAN};
    static const char *const places[PLACE_COUNT] = {"", "in place", "numbers only"};
    float threshold = thresholds[random_below(rng, random_below(rng, 4) ? 3 : 6)];
    bool listed = random_below(rng, 2);
    snprintf(c->size, sizeof(c->size), "%zu values%s %s, threshold %g", n, listed ? " with numbers" : "", places[where],
             (double)threshold);
    buffer_guarded values = guarded_new(n * sizeof(float)), ids = guarded_new(n * sizeof(uint32_t));
    buffer_guarded out = guarded_new(n * sizeof(float)), out_ids = guarded_new(n * sizeof(uint32_t));
    float *value = values.data, *want = new_array(n + 1, sizeof(float));
    uint32_t *id = ids.data, *want_ids = new_array(n + 1, sizeof(uint32_t)), first = (uint32_t)random_bits(rng);
    size_t rare = 1 + random_below(rng, 12);
    for (size_t i = 0; i < n; i++) {
        value[i] = random_below(rng, rare) ? -1 : random_below(rng, 16) ? random_rough(rng) : NAN;
        float edges[] = {threshold, -threshold, INFINITY, -INFINITY};
        if (random_below(rng, 8) == 0)
            value[i] = edges[random_below(rng, 4)];
        id[i] = (uint32_t)random_bits(rng);
    }
    size_t count = select_expected(rule, value, listed ? id : NULL, first, n, threshold, want_ids, want);
    float *got = where == APART ? out.data : where == IN_PLACE ? value : NULL;
    uint32_t *got_ids = where == IN_PLACE ? id : out_ids.data;
    size_t selected = kernel(value, listed ? id : NULL, first, n, threshold, got_ids, got);
    if (expect(c, "another number of values", selected == count)) {
        expect_same(c, "numbers", want_ids, got_ids, count * sizeof(uint32_t));
        if (got)
            expect_same(c, "values", want, got, count * sizeof(float));
    }
    buffer_guarded *buffers[] = {&values, &ids, &out, &out_ids};
    for (size_t i = 0; i < sizeof(buffers) / sizeof(*buffers); i++) {
        expect(c, "wrote before a buffer", guarded_intact(buffers[i]));
        guarded_free(buffers[i]);
    }
    free(want);
    free(want_ids);
}

static void check_select(check *c, kernel_select *kernel, kernel_selection rule, uint64_t *rng)
{
    for (size_t n = 0; n <= 100; n++)
        for (size_t where = 0; where < PLACE_COUNT; where++)
            check_select_of(c, kernel, rule, n, (place)where, rng);
    for (size_t i = 0; i < 20; i++)
        check_select_of(c, kernel, rule, 1000 + random_below(rng, 1000), IN_PLACE, rng);
}

/* ---- columns as rows ---- */

/* A block of 32 values of a column: the encoder's bytes, but for values half way between two steps. */
static void check_block(check *c, const float column[32], const uint8_t *got)
{
    uint8_t want[34];
    number_formats[FORMAT_Q8_0].encode(column, NULL, want, 32);
    if (!expect_same(c, "scales", want, got, 2))
        return;
    float limit = 127 * 65504.0f, top = 0;
    for (size_t i = 0; i < 32; i++)
        top = isnan(column[i]) ? top : fmaxf(top, fminf(fabsf(column[i]), limit));
    for (size_t i = 0; i < 32; i++) {
        int32_t a = (want[2 + i] ^ 0x80) - 0x80, b = (got[2 + i] ^ 0x80) - 0x80; /* bytes with a sign */
        double steps = fmin(fabs((double)column[i]), limit) / top * 127, rest = steps - floor(steps);
        bool half = abs(a - b) == 1 && fabs(rest - 0.5) < 1e-3;
        expect(c, "a value is rounded to another step", a == b || half);
    }
}

typedef struct turn_case {
    matrix w;
    size_t row, rows, column, columns, out_row_bytes;
} turn_case;

static void check_turned(check *c, const turn_case *t, const uint8_t *out)
{
    const number_traits *format = &number_formats[t->w.format];
    float *decoded = new_array((size_t)t->w.rows * t->w.columns, sizeof(float));
    for (size_t r = 0; r < t->w.rows; r++)
        format->decode(matrix_row(&t->w, r), decoded + r * t->w.columns, t->w.columns);
    for (size_t i = 0; i < t->columns; i++) {
        const uint8_t *got = out + i * t->out_row_bytes;
        size_t at = t->column + i, bytes = format->block_bytes;
        if (!number_is_block(t->w.format)) {
            for (size_t r = t->row; r < t->row + t->rows; r++)
                expect_same(c, "values", (const uint8_t *)matrix_row(&t->w, r) + at * bytes, got + r * bytes, bytes);
            continue;
        }
        for (size_t b = t->row / 32; b < (t->row + t->rows) / 32; b++) {
            float column[32];
            for (size_t r = 0; r < 32; r++)
                column[r] = decoded[(b * 32 + r) * t->w.columns + at];
            check_block(c, column, got + b * 34);
        }
    }
    free(decoded);
}

/* Of `rows` x `columns` a part, which must come out right and change nothing else. */
static void check_turn_of(check *c, const kernels *k, number_format format, size_t rows, size_t columns, uint64_t *rng)
{
    buffer_guarded weights;
    bool block = number_is_block(format);
    content kind = random_below(rng, 4) ? ROUGH : NOT_FINITE;
    turn_case t = {.w = matrix_new(&weights, format, kind, rows, columns, rng), .rows = rows, .columns = columns};
    if (random_below(rng, 2)) {
        t.row = random_below(rng, (rows + 31) / 32) * 32;
        t.column = random_below(rng, (columns + 31) / 32) * 32;
        t.rows = rows - t.row;
        t.columns = columns - t.column;
        if (t.columns > 32)
            t.columns = (1 + random_below(rng, t.columns / 32)) * 32;
        if (t.rows > 32)
            t.rows = (1 + random_below(rng, t.rows / 32)) * 32;
    }
    t.out_row_bytes = block ? rows / 32 * 34 : rows * number_formats[format].block_bytes;
    snprintf(c->size, sizeof(c->size), "%s, rows %zu + %zu of %zu, columns %zu + %zu of %zu",
             number_formats[format].name, t.row, t.rows, rows, t.column, t.columns, columns);
    buffer_guarded out = guarded_new(t.columns * t.out_row_bytes);
    memset(out.data, 0x5a, out.size);
    k->transpose[format](&t.w, t.row, t.rows, t.column, t.columns, out.data, t.out_row_bytes);
    check_turned(c, &t, out.data);
    expect(c, "wrote before the output", guarded_intact(&out));
    size_t value = block ? 0 : number_formats[format].block_bytes;
    size_t first = block ? t.row / 32 * 34 : t.row * value;
    size_t bytes = block ? t.rows / 32 * 34 : t.rows * value;
    bool beside = false;
    for (size_t i = 0; i < out.size; i++)
        if (i % t.out_row_bytes < first || i % t.out_row_bytes >= first + bytes)
            beside |= ((const uint8_t *)out.data)[i] != 0x5a;
    expect(c, "wrote beside the rows", !beside);
    guarded_free(&weights);
    guarded_free(&out);
}

static void check_turn(check *c, const kernels *k, number_format format, uint64_t *rng)
{
    static const size_t rows[] = {1, 7, 31, 32, 33, 64, 65, 96, 100};
    static const size_t values[] = {1, 15, 31, 32, 33, 64, 65, 100, 257, 300};
    static const size_t blocks[] = {1, 2, 3, 8, 9, 17};
    bool block = number_is_block(format);
    size_t sizes = block ? sizeof(blocks) / sizeof(*blocks) : sizeof(values) / sizeof(*values);
    for (size_t s = 0; s < sizes; s++)
        for (size_t r = 0; r < sizeof(rows) / sizeof(*rows); r++) {
            size_t values_per_block = number_formats[format].block_values;
            size_t columns = block ? (values_per_block > 32 ? (s + 2) / 2 : blocks[s]) * values_per_block : values[s];
            check_turn_of(c, k, format, block ? (rows[r] + 31) / 32 * 32 : rows[r], columns, rng);
        }
}

/* ---- all of them ---- */

void check_neurons(check *c, const kernels *k, const kernels *previous, uint64_t seed)
{
    uint64_t rng = seed * 37;
    for (size_t f = 0; f < FORMAT_COUNT; f++) {
        number_format format = (number_format)f;
        if (k->accumulate[f] != previous->accumulate[f]) {
            check_begin(c, "accumulate");
            check_sums_format(c, k, format, false, &rng);
        }
        if (k->accumulate_many[f] != previous->accumulate_many[f]) {
            check_begin(c, "accumulate_many");
            check_sums_format(c, k, format, true, &rng);
        }
        if (k->transpose[f] != previous->transpose[f]) {
            check_begin(c, "transpose");
            check_turn(c, k, format, &rng);
        }
    }
    for (size_t s = 0; s < SELECT_COUNT; s++)
        if (k->select[s] != previous->select[s]) {
            check_begin(c, select_names[s]);
            check_select(c, k->select[s], (kernel_selection)s, &rng);
        }
}
