/* kcheck_device_products.c - embed, product, product_8, quantize, accumulate, reduce and read of one device, every
 * format, odd sizes, lists, and packing on the way. What reads several matrices is in kcheck_device_several.c.
 *
 * The bound is that of kcheck_products.c: where no term takes part in more than c additions, |got - exact| <= c *
 * EPSILON * sum |w x| (Higham, Accuracy and Stability of Numerical Algorithms, section 4.2). A kernel may add up a row
 * in any order, so c is the number of terms that one lane can get, and a few for the lanes of a group, scales and
 * `finish`. What has one right answer (decoding, rounding to 8 bits, sums of integers) must have its bits. */
#include "kcheck_device_matrix.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* ---- lists ---- */

/* For each token some rows, ascending; some tokens have none. */
typedef struct lists {
    bool used;
    uint32_t *ids; /* [CHECKED_ROWS][stride] */
    uint32_t counts[CHECKED_ROWS];
    size_t stride;
    room on_device, counts_on_device;
} lists;

static lists lists_new(device *d, bool used, uint32_t rows, size_t stride, uint64_t *rng)
{
    lists l = {.used = used, .stride = stride, .ids = array_new(CHECKED_ROWS * stride, sizeof(uint32_t))};
    for (size_t t = 0; t < CHECKED_ROWS; t++) {
        size_t share = random_below(rng, 5); /* of four: none up to all */
        for (uint32_t r = 0; r < rows; r++)
            if (!used || random_below(rng, 4) < share)
                l.ids[t * stride + l.counts[t]++] = r;
    }
    l.on_device = room_new(d, l.ids, CHECKED_ROWS * stride * sizeof(uint32_t));
    l.counts_on_device = room_new(d, l.counts, sizeof(l.counts));
    return l;
}

static device_argument list_argument(const lists *l)
{
    return l->used ? room_of(&l->on_device) : NO_BUFFER;
}

static device_argument counts_argument(const lists *l)
{
    return l->used ? room_of(&l->counts_on_device) : NO_BUFFER;
}

static void lists_free(lists *l)
{
    room_free(&l->on_device);
    room_free(&l->counts_on_device);
    free(l->ids);
}

/* ---- decoding ---- */

static uint32_t bits_of(float value)
{
    uint32_t bits;
    memcpy(&bits, &value, sizeof(bits));
    return bits;
}

static bool same_float(float a, float b)
{
    return bits_of(a) == bits_of(b) || (isnan(a) && isnan(b));
}

static void check_embed_case(check *c, device *d, number_format format, uint32_t columns, uint32_t tokens,
                             uint64_t *rng)
{
    uint32_t rows = 1 + (uint32_t)random_below(rng, 9), first = (uint32_t)random_below(rng, rows), wanted[CHECKED_ROWS];
    bool hostile = random_below(rng, 2), by_position = random_below(rng, 2), adds = random_below(rng, 2);
    float factor = random_below(rng, 2) ? 1 : random_value(rng);
    snprintf(c->size, sizeof(c->size), "%s, %u rows, %u columns, %u tokens%s%s", number_formats[format].name, rows,
             columns, tokens, by_position ? ", positions" : "", adds ? ", added" : "");
    placed p = placed_new(d, format, rows, columns, hostile, rng);
    for (size_t t = 0; t < CHECKED_ROWS; t++)
        wanted[t] = (uint32_t)random_below(rng, by_position ? rows - first : rows);
    size_t n = (size_t)tokens * columns;
    float *before = array_new(n, sizeof(float)), *got = array_new(n, sizeof(float));
    for (size_t i = 0; i < n; i++)
        before[i] = random_rough(rng);
    room step = step_new(d, tokens, NULL, by_position ? wanted : NULL, by_position ? NULL : wanted);
    room x = room_new(d, before, n * sizeof(float));
    DEVICE_DO(c, d, device_kernel_of(OF_EMBED, format), CHECKED_ROWS, room_of(&step), room_of(&p.w),
              scales_argument(&p), room_of(&x), UINT(columns), UINT(by_position), UINT(first),
              UINT(adds ? FINISH_ADD : FINISH_STORE), FLOAT(factor));
    room_read(c, &x, got);
    size_t wrong = 0;
    for (size_t i = 0; i < n; i++) {
        size_t row = wanted[i / columns] + (by_position ? first : 0);
        float value = p.decoded[row * columns + i % columns], want = factor * value;
        if (!adds)
            wrong += !same_float(want, got[i]) && !(fabsf(want) < 0x1p-126f && got[i] == 0);
        else if (isfinite(value)) /* a product and a sum; the rounding of a small product is lost in the sum */
            expect_close(c, i, (double)factor * value + before[i], got[i],
                         2 * EPSILON * (fabs((double)want) + fabs((double)before[i])) + 0x1p-125);
        else
            wrong += isfinite(got[i]) ? 1 : 0;
    }
    expect(c, "a decoded value has other bits", wrong == 0);
    free(got);
    free(before);
    room_free(&x);
    room_free(&step);
    placed_free(&p);
}

/* ---- products ---- */

typedef struct product_shape {
    number_format format;
    uint32_t rows, columns, tokens, finish;
    bool rounded, listed, many; /* many: by product_many, which takes no lists */
} product_shape;

/* Additions of a sum. In a tile every term of a result meets in one lane, blocks with an offset twice. */
static double shape_depth(const device *d, const product_shape *s)
{
    return s->many ? (double)s->columns / (s->rounded ? 16 : 1) + DEPTH_BEHIND
                   : product_depth(d, s->columns, s->rounded);
}

static double finished(const product_shape *s, double sum, double before)
{
    return s->finish == FINISH_ADD ? before + sum : s->finish == FINISH_RELU && !(sum > 0) ? 0 : sum;
}

/* Every value against double precision; what no row belongs to against what was there before. */
static void check_sums(check *c, const device *d, const product_shape *s, const placed *p, const input *in,
                       const lists *l, const float *before, const float *got)
{
    double limit = shape_depth(d, s) * EPSILON;
    size_t moved = 0;
    for (size_t t = 0; t < s->tokens; t++)
        for (size_t i = 0; i < l->stride; i++) {
            size_t at = t * l->stride + i;
            if (i >= (l->used ? l->counts[t] : s->rows)) {
                moved += bits_of(before[at]) != bits_of(got[at]);
                continue;
            }
            const float *row = p->decoded + (size_t)l->ids[at] * s->columns;
            const float *parts = s->rounded ? p->magnitudes + (size_t)l->ids[at] * s->columns : row;
            double want = 0, sum = fabs(before[at]);
            for (size_t k = 0; k < s->columns; k++) {
                double term = (double)row[k] * in->values[t * s->columns + k];
                want += term;
                sum += fabs(parts[k] * (double)in->values[t * s->columns + k]);
            }
            double bound = sum * limit + (double)s->columns * 0x1p-149;
            expect_close(c, at, finished(s, want, before[at]), got[at], bound);
        }
    expect(c, "wrote where no row is", moved == 0);
}

static void check_product_case(check *c, device *d, const product_shape *s, uint64_t *rng)
{
    static const char *const finishes[] = {"stored", "added", "relu"};
    snprintf(c->size, sizeof(c->size), "%s, %u rows%s, %u columns, %u tokens%s, %s", number_formats[s->format].name,
             s->rows, s->listed ? " listed" : "", s->columns, s->tokens, s->rounded ? " of 8 bits" : "",
             finishes[s->finish]);
    size_t stride = s->rows + random_below(rng, 3), n = s->tokens * stride;
    placed p = placed_new(d, s->format, s->rows, s->columns, false, rng);
    input in = input_new(d, s->rounded, s->tokens, s->columns, rng);
    lists l = lists_new(d, s->listed, s->rows, stride, rng);
    float *before = array_new(n, sizeof(float)), *got = array_new(n, sizeof(float));
    for (size_t i = 0; i < n; i++)
        before[i] = random_value(rng);
    room step = step_new(d, s->tokens, NULL, NULL, NULL), y = room_new(d, before, n * sizeof(float));
    size_t items = items_of(s->rows, PRODUCT_ROWS),
           tiles = items_of(s->rows, TILE_ROWS) * items_of(s->tokens, TILE_TOKENS);
    if (s->many && s->rounded)
        DEVICE_DO(c, d, device_kernel_of(OF_PRODUCT_MANY_8, s->format), tiles, room_of(&step), room_of(&p.w),
                  scales_argument(&p), room_of(&in.q), room_of(&in.scales), room_of(&in.sums), room_of(&y),
                  UINT(s->rows), UINT(s->columns), UINT(stride), UINT(s->finish));
    else if (s->many)
        DEVICE_DO(c, d, device_kernel_of(OF_PRODUCT_MANY, s->format), tiles, room_of(&step), room_of(&p.w),
                  scales_argument(&p), room_of(&in.x), room_of(&y), UINT(s->rows), UINT(s->columns), UINT(stride),
                  UINT(s->finish));
    else if (s->rounded)
        DEVICE_DO(c, d, device_kernel_of(OF_PRODUCT_8, s->format), items, room_of(&step), room_of(&p.w),
                  scales_argument(&p), list_argument(&l), counts_argument(&l), room_of(&in.q), room_of(&in.scales),
                  room_of(&in.sums), room_of(&y), UINT(s->rows), UINT(s->columns), UINT(stride), UINT(s->finish));
    else
        DEVICE_DO(c, d, device_kernel_of(OF_PRODUCT, s->format), items, room_of(&step), room_of(&p.w),
                  scales_argument(&p), list_argument(&l), counts_argument(&l), room_of(&in.x), room_of(&y),
                  UINT(s->rows), UINT(s->columns), UINT(stride), UINT(s->finish));
    room_read(c, &y, got);
    check_sums(c, d, s, &p, &in, &l, before, got);
    free(before);
    free(got);
    room_free(&y);
    room_free(&step);
    lists_free(&l);
    input_free(&in);
    placed_free(&p);
}

/* relu makes 0 of a sum that is not a number; the other finishes let it be seen. */
static void check_not_finite(check *c, device *d, uint64_t *rng)
{
    for (uint32_t finish = FINISH_STORE; finish <= FINISH_RELU; finish++) {
        snprintf(c->size, sizeof(c->size), "a NaN, finish %u", finish);
        placed p = placed_new(d, FORMAT_F16, 5, 64, false, rng);
        float x[64] = {0}, y[5] = {1, 2, 3, 4, 5};
        x[random_below(rng, 64)] = NAN;
        room step = step_new(d, 1, NULL, NULL, NULL), in = room_new(d, x, sizeof(x)), out = room_new(d, y, sizeof(y));
        DEVICE_DO(c, d, DEVICE_product_f16, 2, room_of(&step), room_of(&p.w), NO_BUFFER, NO_BUFFER, NO_BUFFER,
                  room_of(&in), room_of(&out), UINT(5), UINT(64), UINT(5), UINT(finish));
        room_read(c, &out, y);
        for (size_t i = 0; i < COUNT(y); i++)
            expect(c, "NaN is lost, or not made zero", finish == FINISH_RELU ? same_float(y[i], 0) : isnan(y[i]));
        room_free(&in);
        room_free(&out);
        room_free(&step);
        placed_free(&p);
    }
}

/* ---- sums of rows ---- */

typedef struct sum_shape {
    number_format format;
    uint32_t rows, columns, tokens, parts;
    bool listed, many; /* many: by accumulate_many, which takes no lists */
} sum_shape;

static void check_parts(check *c, const sum_shape *s, const placed *p, const lists *l, const float *h, const float *got)
{
    for (size_t t = 0; t < s->tokens; t++)
        for (size_t part = 0; part < s->parts; part++) {
            size_t m = l->used ? l->counts[t] : s->rows, each = items_of(m, s->parts);
            size_t begin = part * each < m ? part * each : m, end = begin + each < m ? begin + each : m;
            for (size_t k = 0; k < s->columns; k++) {
                double want = 0, sum = 0;
                for (size_t i = begin; i < end; i++) {
                    double term = (double)h[t * s->rows + i] * p->decoded[l->ids[t * s->rows + i] * s->columns + k];
                    want += term;
                    sum += fabs(term);
                }
                size_t at = (t * s->parts + part) * s->columns + k;
                double n = (double)(end - begin);
                /* A scale may be multiplied with h first; where that is subnormal, what it loses counts up to 128 times. */
                expect_close(c, at, want, got[at], (n + 3) * (EPSILON * sum + 128 * 0x1p-149));
            }
        }
}

static void check_accumulate_case(check *c, device *d, const sum_shape *s, uint64_t *rng)
{
    snprintf(c->size, sizeof(c->size), "%s, %u rows%s in %u parts, %u columns, %u tokens",
             number_formats[s->format].name, s->rows, s->listed ? " listed" : "", s->parts, s->columns, s->tokens);
    placed p = placed_new(d, s->format, s->rows, s->columns, false, rng);
    lists l = lists_new(d, s->listed, s->rows, s->rows, rng);
    size_t n = (size_t)s->tokens * s->rows, sums = (size_t)s->tokens * s->parts * s->columns;
    float *h = array_new(n, sizeof(float)), *got = array_new(sums, sizeof(float));
    for (size_t i = 0; i < n; i++)
        h[i] = random_rough(rng);
    room step = step_new(d, s->tokens, NULL, NULL, NULL), in = room_new(d, h, n * sizeof(float));
    room out = room_new(d, NULL, sums * sizeof(float));
    if (s->many)
        DEVICE_DO(c, d, device_kernel_of(OF_ACCUMULATE_MANY, s->format),
                  items_of(s->tokens, TILE_TOKENS) * s->parts * items_of(s->columns, TILE_ROWS), room_of(&step),
                  room_of(&p.w), scales_argument(&p), room_of(&in), room_of(&out), UINT(s->rows), UINT(s->columns),
                  UINT(s->parts));
    else
        DEVICE_DO(c, d, device_kernel_of(OF_ACCUMULATE, s->format),
                  CHECKED_ROWS * s->parts * items_of(s->columns, ACCUMULATE_COLUMNS_ITEM), room_of(&step),
                  room_of(&p.w), scales_argument(&p), list_argument(&l), counts_argument(&l), room_of(&in),
                  room_of(&out), UINT(s->rows), UINT(s->columns), UINT(s->parts));
    room_read(c, &out, got);
    check_parts(c, s, &p, &l, h, got);
    free(h);
    free(got);
    room_free(&in);
    room_free(&out);
    room_free(&step);
    lists_free(&l);
    placed_free(&p);
}

/* ---- results of blocks ---- */

static void check_reduce_case(check *c, device *d, uint32_t tokens, uint32_t columns, uint32_t parts, unsigned with,
                              uint64_t *rng)
{
    bool bias = with & 1, answer = with & 2, adds = random_below(rng, 2), in_place = parts == 1 && random_below(rng, 2);
    double factor = random_below(rng, 2) ? 1 : random_value(rng);
    snprintf(c->size, sizeof(c->size), "%u tokens, %u columns, %u parts%s%s%s%s, factor %g", tokens, columns, parts,
             bias ? ", bias" : "", answer ? ", answer" : "", adds ? ", added" : "", in_place ? ", in place" : "",
             factor);
    size_t n = (size_t)tokens * columns, counts[4] = {n * parts, columns, n, n};
    float *values[4]; /* sums, bias, answer, x */
    room rooms[4];
    for (size_t i = 0; i < 4; i++) {
        values[i] = array_new(counts[i], sizeof(float));
        for (size_t k = 0; k < counts[i]; k++)
            values[i][k] = random_rough(rng);
        rooms[i] = room_new(d, values[i], counts[i] * sizeof(float));
    }
    room step = step_new(d, tokens, NULL, NULL, NULL);
    DEVICE_DO(c, d, DEVICE_reduce, CHECKED_ROWS * items_of(columns, REDUCE_COLUMNS_ITEM), room_of(&step),
              parts > 0 ? room_of(&rooms[0]) : NO_BUFFER, bias ? room_of(&rooms[1]) : NO_BUFFER,
              answer ? room_of(&rooms[2]) : NO_BUFFER, room_of(&rooms[in_place ? 0 : 3]), UINT(columns), UINT(parts),
              UINT(adds ? FINISH_ADD : FINISH_STORE), FLOAT((float)factor));
    float *got = array_new(n, sizeof(float));
    room_read(c, &rooms[in_place ? 0 : 3], got);
    for (size_t i = 0; i < n; i++) {
        size_t t = i / columns, k = i % columns;
        double want = adds ? values[in_place ? 0 : 3][i] : 0, sum = fabs(want);
        double add[2] = {bias ? values[1][k] : 0, answer ? values[2][i] : 0};
        for (size_t p = 0; p < parts; p++) {
            want += factor * values[0][(t * parts + p) * columns + k];
            sum += fabs(factor * values[0][(t * parts + p) * columns + k]);
        }
        want += factor * (add[0] + add[1]);
        sum += fabs(factor) * (fabs(add[0]) + fabs(add[1]));
        expect_close(c, i, want, got[i], (parts + 6) * EPSILON * sum + 0x1p-125); /* three products more */
    }
    free(got);
    for (size_t i = 0; i < 4; i++) {
        free(values[i]);
        room_free(&rooms[i]);
    }
    room_free(&step);
}

/* ---- integers ---- */

/* Blocks that are hard to round: halves, zeros, tiny and huge values, and what is not finite. */
static void fill_hard(float *x, size_t n, uint64_t *rng)
{
    for (size_t b = 0; b < n / Q8_BLOCK; b++, x += Q8_BLOCK) {
        size_t kind = random_below(rng, 8);
        static const float scales[] = {[1] = 0, [2] = 0x1p-119f, [3] = 0x1p127f};
        float scale = kind > 0 && kind < 4 ? scales[kind] : ldexpf(1, (int)random_below(rng, 40) - 20);
        if (kind == 2) /* around 2^-120, from where on a block counts as zero */
            scale = ldexpf(scale, -(int)random_below(rng, 4));
        for (size_t i = 0; i < Q8_BLOCK; i++)
            x[i] = kind == 5 ? (float)((int)random_below(rng, 255) - 127) / 2 : random_value(rng) * scale;
        if (kind == 5)
            x[random_below(rng, Q8_BLOCK)] = 127; /* so the scale is 1 and halves stay halves */
        if (kind == 6 && random_below(rng, 2))
            x[random_below(rng, Q8_BLOCK)] = random_below(rng, 2) ? NAN : -INFINITY;
    }
}

static void check_quantize_case(check *c, device *d, uint32_t tokens, uint32_t columns, uint64_t *rng)
{
    snprintf(c->size, sizeof(c->size), "%u tokens, %u columns", tokens, columns);
    size_t n = (size_t)tokens * columns, blocks = n / Q8_BLOCK;
    float *x = array_new(n, sizeof(float)), *want_scales = array_new(blocks, sizeof(float));
    float *scales = array_new(blocks, sizeof(float));
    int8_t *want = array_new(n, 1), *got = array_new(n, 1);
    int16_t *halves = array_new(n / Q8_SUM, sizeof(int16_t));
    int32_t *sums = array_new(blocks, sizeof(int32_t));
    fill_hard(x, n, rng);
    kernels scalar;
    kernels_for(0, &scalar);
    scalar.quantize(x, n, want, want_scales, halves);
    room step = step_new(d, tokens, NULL, NULL, NULL), in = room_new(d, x, n * sizeof(float));
    room q = room_new(d, NULL, n), s = room_new(d, NULL, blocks * sizeof(float));
    room total = room_new(d, NULL, blocks * sizeof(int32_t));
    DEVICE_DO(c, d, DEVICE_quantize, items_of(CHECKED_ROWS * columns / Q8_BLOCK, QUANTIZE_BLOCKS), room_of(&step),
              room_of(&in), room_of(&q), room_of(&s), room_of(&total), UINT(columns));
    room_read(c, &q, got);
    room_read(c, &s, scales);
    room_read(c, &total, sums);
    expect_same(c, "rounded values", want, got, n);
    for (size_t b = 0; b < blocks; b++) {
        expect(c, "a scale has other bits", same_float(want_scales[b], scales[b]));
        expect(c, "a sum is wrong", sums[b] == halves[2 * b] + halves[2 * b + 1]);
    }
    room *rooms[] = {&step, &in, &q, &s, &total};
    for (size_t i = 0; i < COUNT(rooms); i++)
        room_free(rooms[i]);
    void *arrays[] = {x, want_scales, scales, want, got, halves, sums};
    for (size_t i = 0; i < COUNT(arrays); i++)
        free(arrays[i]);
}

static void check_read(check *c, device *d, size_t items, uint64_t *rng)
{
    snprintf(c->size, sizeof(c->size), "%zu items", items);
    size_t words = items * READ_BYTES / 4;
    uint32_t *data = array_new(words, 4), *got = array_new(items, 4), *want = array_new(items, 4);
    for (size_t i = 0; i < words; i++) {
        data[i] = (uint32_t)random_bits(rng);
        want[i / (READ_BYTES / 4)] += data[i];
    }
    room step = step_new(d, 1, NULL, NULL, NULL), in = room_new(d, data, words * 4), out = room_new(d, NULL, items * 4);
    DEVICE_DO(c, d, DEVICE_read, items, room_of(&step), room_of(&in), room_of(&out), UINT(items));
    room_read(c, &out, got);
    expect_same(c, "sums", want, got, items * 4);
    room_free(&step);
    room_free(&in);
    room_free(&out);
    free(data);
    free(got);
    free(want);
}

/* ---- all of them ---- */

/* Shapes that are no multiple of a tile, or several of them; on the host, columns of more than a strip. */
static void check_many(check *c, device *d, number_format format, uint64_t *rng)
{
    static const uint32_t rows[] = {1, 5, 63, 64, 65, 70, 150}, tokens[] = {1, 31, 32, 33, 100, CHECKED_ROWS};
    for (unsigned rounded = 0; rounded <= (unsigned)number_is_block(format); rounded++) {
        check_begin(c, device_kernels[rounded ? device_kernel_of(OF_PRODUCT_MANY_8, format)
                                              : device_kernel_of(OF_PRODUCT_MANY, format)]
                           .name);
        for (size_t i = 0; i < 12; i++) {
            product_shape s = {.format = format,
                               .rows = rows[random_below(rng, COUNT(rows))],
                               .columns = some_columns(format, i) * (i % 4 ? 1 : 3),
                               .tokens = i % 2 ? tokens[i / 2 % COUNT(tokens)] : some_rows(rng),
                               .finish = (uint32_t)random_below(rng, 3),
                               .rounded = rounded,
                               .many = true};
            check_product_case(c, d, &s, rng);
        }
    }
    check_begin(c, device_kernels[device_kernel_of(OF_ACCUMULATE_MANY, format)].name);
    for (size_t i = 0; i < 12; i++) {
        sum_shape s = {.format = format,
                       .rows = rows[random_below(rng, COUNT(rows))],
                       .columns = some_columns(format, i),
                       .tokens = i % 2 ? tokens[i / 2 % COUNT(tokens)] : some_rows(rng),
                       .parts = 1 + (uint32_t)random_below(rng, 4),
                       .many = true};
        check_accumulate_case(c, d, &s, rng);
    }
}

static void check_format(check *c, device *d, number_format format, uint64_t *rng)
{
    static const uint32_t rows[] = {1, 2, 3, 4, 5, 7, 8, 13, 37, 70}, parts[] = {1, 2, 3, 7, 40};
    check_begin(c, device_kernels[device_kernel_of(OF_EMBED, format)].name);
    for (size_t i = 0; i < 8; i++)
        check_embed_case(c, d, format, some_columns(format, i), some_rows(rng), rng);
    for (unsigned rounded = 0; rounded <= (unsigned)number_is_block(format); rounded++) {
        check_begin(
            c, device_kernels[rounded ? device_kernel_of(OF_PRODUCT_8, format) : device_kernel_of(OF_PRODUCT, format)]
                   .name);
        for (size_t i = 0; i < 24; i++) {
            product_shape s = {.format = format,
                               .rows = rows[random_below(rng, COUNT(rows))],
                               .columns = some_columns(format, i),
                               .tokens = i % 3 == 0 ? 1 : some_rows(rng),
                               .finish = (uint32_t)random_below(rng, 3),
                               .rounded = rounded,
                               .listed = i / 2 % 2};
            check_product_case(c, d, &s, rng);
        }
    }
    check_begin(c, device_kernels[device_kernel_of(OF_ACCUMULATE, format)].name);
    for (size_t i = 0; i < 16; i++) {
        sum_shape s = {.format = format,
                       .rows = rows[random_below(rng, COUNT(rows))],
                       .columns = some_columns(format, i),
                       .tokens = i % 3 == 0 ? 1 : some_rows(rng),
                       .parts = parts[random_below(rng, COUNT(parts))],
                       .listed = i / 2 % 2};
        check_accumulate_case(c, d, &s, rng);
    }
}

void check_device_products(check *c, device *d, uint64_t seed)
{
    for (number_format f = 0; f < FORMAT_COUNT; f++) {
        uint64_t rng = seed * 131 + f;
        if (!device_has_format(f))
            continue;
        check_format(c, d, f, &rng);
        check_many(c, d, f, &rng);
        check_device_several(c, d, f, &rng);
    }
    uint64_t rng = seed * 131 + FORMAT_COUNT;
    check_begin(c, "product");
    check_not_finite(c, d, &rng);
    check_begin(c, "quantize");
    for (size_t i = 0; i < 12; i++)
        check_quantize_case(c, d, some_rows(&rng), some_columns(FORMAT_Q8_0, i), &rng);
    check_begin(c, "reduce");
    for (unsigned i = 0; i < 16; i++)
        check_reduce_case(c, d, some_rows(&rng), some_columns(FORMAT_F32, i), (uint32_t)random_below(&rng, 4), i % 4,
                          &rng);
    check_begin(c, "read");
    check_read(c, d, 1, &rng);
    check_read(c, d, 5, &rng);
}
