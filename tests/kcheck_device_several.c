/* kcheck_device_several.c - product_heads, product_chosen and score of one device: kernels that read a matrix for each of several
 * heads or experts. Bounds are those of kcheck_device_products.c. */
#include "kcheck_device_matrix.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>

/* ---- heads ---- */

/* A matrix for each of some heads. */
static void check_heads_case(check *c, device *d, number_format format, bool rounded, uint32_t columns, uint64_t *rng)
{
    uint32_t heads = 1 + (uint32_t)random_below(rng, 5), rows = 1 + (uint32_t)random_below(rng, 20);
    uint32_t tokens = random_below(rng, 3) ? some_rows(rng) : 1, inputs = heads * tokens;
    snprintf(c->size, sizeof(c->size), "%s, %u heads of %u rows, %u columns, %u tokens%s", number_formats[format].name,
             heads, rows, columns, tokens, rounded ? " of 8 bits" : "");
    placed p = placed_new(d, format, heads * rows, columns, false, rng);
    input in = input_new(d, rounded, inputs, columns, rng);
    size_t n = (size_t)inputs * rows;
    float *got = array_new(n, sizeof(float));
    room step = step_new(d, tokens, NULL, NULL, NULL), y = room_new(d, NULL, n * sizeof(float));
    size_t items = heads * items_of(rows, PRODUCT_ROWS);
    if (rounded)
        DEVICE_DO(c, d, device_kernel_of(OF_PRODUCT_HEADS_8, format), items, room_of(&step), room_of(&p.w),
                  scales_argument(&p), room_of(&in.q), room_of(&in.scales), room_of(&in.sums), room_of(&y), UINT(heads),
                  UINT(rows), UINT(columns));
    else
        DEVICE_DO(c, d, device_kernel_of(OF_PRODUCT_HEADS, format), items, room_of(&step), room_of(&p.w),
                  scales_argument(&p), room_of(&in.x), room_of(&y), UINT(heads), UINT(rows), UINT(columns));
    room_read(c, &y, got);
    double limit = product_depth(d, columns, rounded) * EPSILON;
    for (size_t i = 0; i < n; i++) {
        size_t row = i / rows / tokens * rows + i % rows, of = i / rows;
        const float *weights = p.decoded + row * columns, *parts = rounded ? p.magnitudes + row * columns : weights;
        double want = 0, sum = 0;
        for (size_t k = 0; k < columns; k++) {
            want += (double)weights[k] * (double)in.values[of * columns + k];
            sum += fabs((double)parts[k] * (double)in.values[of * columns + k]);
        }
        expect_close(c, i, want, got[i], sum * limit + (double)columns * 0x1p-149);
    }
    free(got);
    room_free(&y);
    room_free(&step);
    input_free(&in);
    placed_free(&p);
}

/* The experts that each token of a case chose, and which places each of them has. */
typedef struct choice {
    uint32_t experts, own, from, to, rows, columns, tokens, stride;
    uint32_t *chosen, *counts, *ranges; /* [tokens][experts] ascending, [tokens], [experts][2] */
} choice;

/* Returns the matrix of an expert; UINT32_MAX: it has none. */
static uint32_t matrix_of(const choice *k, uint32_t e)
{
    uint32_t begin = k->ranges[2 * e], end = k->ranges[2 * e + 1];
    return end > begin && begin >= k->from && begin < k->to ? (begin - k->from) / k->columns : UINT32_MAX;
}

/* `own` experts that follow one another by their places, but not by their numbers, have matrices; of the others some have other
 * numbers of values, and some none. */
static choice choice_new(uint32_t columns, uint32_t tokens, uint32_t values, uint64_t *rng)
{
    choice k = {.experts = 1 + (uint32_t)random_below(rng, 7), .columns = columns, .tokens = tokens};
    uint32_t first = (uint32_t)random_below(rng, k.experts), by_place[7], at = 0;
    k.own = 1 + (uint32_t)random_below(rng, k.experts - first);
    k.rows = 1 + (uint32_t)random_below(rng, 20);
    k.chosen = array_new((size_t)tokens * k.experts, sizeof *k.chosen);
    k.counts = array_new(tokens, sizeof *k.counts);
    k.ranges = array_new(k.experts * 2u, sizeof *k.ranges);
    for (uint32_t i = 0; i < k.experts; i++) { /* shuffled */
        uint32_t other = (uint32_t)random_below(rng, i + 1);
        by_place[i] = by_place[other];
        by_place[other] = i;
    }
    for (uint32_t i = 0; i < k.experts; i++) {
        bool own = i >= first && i < first + k.own;
        uint32_t width = own ? columns : values * (uint32_t)random_below(rng, 3);
        k.from = i == first ? at : k.from;
        if (width > 0 || random_below(rng, 2)) /* else what left is told as places 0 to 0 */
            k.ranges[2 * by_place[i]] = at, k.ranges[2 * by_place[i] + 1] = at + width;
        at += width;
        k.to = own ? at : k.to;
    }
    k.stride = at;
    for (uint32_t t = 0; t < tokens; t++) {
        uint32_t n = 0;
        for (uint32_t e = 0; e < k.experts; e++)
            if (random_below(rng, 2))
                k.chosen[(size_t)t * k.experts + n++] = e;
        k.counts[t] = n;
    }
    return k;
}

static void choice_free(choice *k)
{
    free(k->chosen);
    free(k->counts);
    free(k->ranges);
}

/* Compares one value of a case with the sum over the experts that the token chose. */
static void check_chosen_value(check *c, const choice *k, const placed *p, const input *in, bool rounded, double limit,
                               size_t i, float before, float got)
{
    size_t token = i / k->rows, row = i % k->rows, at = token * k->stride;
    double want = (double)before, sum = fabs(want);
    for (uint32_t n = 0; n < k->counts[token]; n++) {
        uint32_t e = k->chosen[token * k->experts + n], own = matrix_of(k, e);
        for (size_t col = 0; own != UINT32_MAX && col < k->columns; col++) {
            size_t w = ((size_t)own * k->rows + row) * k->columns + col;
            double x = (double)in->values[at + col];
            want += (double)p->decoded[w] * x;
            sum += fabs((double)(rounded ? p->magnitudes[w] : p->decoded[w]) * x);
        }
        at += k->ranges[2 * e + 1] - k->ranges[2 * e];
    }
    expect_close(c, i, want, got, sum * limit + (double)k->columns * k->experts * 0x1p-149);
}

/* The matrices of the experts that each token chose. */
static void check_chosen_case(check *c, device *d, number_format format, bool rounded, uint32_t columns, uint64_t *rng)
{
    columns = (columns + 7) / 8 * 8; /* an expert's values lie behind the others', and are read eight at a time */
    uint32_t tokens = random_below(rng, 3) ? some_rows(rng) : 1;
    bool adds = random_below(rng, 2);
    choice k = choice_new(columns, tokens, rounded ? 32 : 8, rng);
    snprintf(c->size, sizeof(c->size), "%s, %u of %u experts, %u rows, %u columns, %u tokens%s%s",
             number_formats[format].name, k.own, k.experts, k.rows, k.columns, k.tokens, rounded ? " of 8 bits" : "",
             adds ? ", added" : "");
    placed p = placed_new(d, format, k.own * k.rows, columns, false, rng);
    input in = input_new(d, rounded, tokens, k.stride, rng);
    size_t n = (size_t)tokens * k.rows;
    float *got = array_new(n, sizeof(float)), *before = array_new(n, sizeof(float));
    for (size_t i = 0; i < n; i++)
        before[i] = random_value(rng);
    room step = step_new(d, tokens, NULL, NULL, NULL), y = room_new(d, before, n * sizeof(float));
    room chosen = room_new(d, k.chosen, (size_t)tokens * k.experts * sizeof(uint32_t));
    room counts = room_new(d, k.counts, tokens * sizeof(uint32_t));
    room ranges = room_new(d, k.ranges, k.experts * 2u * sizeof(uint32_t));
    size_t items = tokens * items_of(k.rows, PRODUCT_ROWS);
    uint32_t finish = adds ? FINISH_ADD : FINISH_STORE;
    if (rounded)
        DEVICE_DO(c, d, device_kernel_of(OF_PRODUCT_CHOSEN_8, format), items, room_of(&step), room_of(&p.w),
                  scales_argument(&p), room_of(&chosen), room_of(&counts), room_of(&ranges), room_of(&in.q),
                  room_of(&in.scales), room_of(&in.sums), room_of(&y), UINT(k.experts), UINT(k.from), UINT(k.to),
                  UINT(k.rows), UINT(k.columns), UINT(k.stride), UINT(finish));
    else
        DEVICE_DO(c, d, device_kernel_of(OF_PRODUCT_CHOSEN, format), items, room_of(&step), room_of(&p.w),
                  scales_argument(&p), room_of(&chosen), room_of(&counts), room_of(&ranges), room_of(&in.x),
                  room_of(&y), UINT(k.experts), UINT(k.from), UINT(k.to), UINT(k.rows), UINT(k.columns), UINT(k.stride),
                  UINT(finish));
    room_read(c, &y, got);
    double limit = (product_depth(d, (size_t)columns * k.own, rounded) + 1) * EPSILON;
    for (size_t i = 0; i < n; i++)
        check_chosen_value(c, &k, &p, &in, rounded, limit, i, adds ? before[i] : 0, got[i]);
    room *rooms[] = {&ranges, &counts, &chosen, &y, &step};
    for (size_t i = 0; i < COUNT(rooms); i++)
        room_free(rooms[i]);
    free(before);
    free(got);
    input_free(&in);
    placed_free(&p);
    choice_free(&k);
}

/* ---- scores of experts ---- */

typedef struct score_shape {
    number_format format;
    uint32_t experts, used, rows, columns, tokens;
} score_shape;

/* Experts with a range of the rows each, those that tokens chose, and some of their rows. */
typedef struct choices {
    uint32_t *begins, *owners, *chosen, *ids,
        *place; /* [experts + 1], [rows], [CHECKED_ROWS][experts], and of every listed row its number
                                              * and the place of its expert among the chosen: [CHECKED_ROWS][rows] */
    uint32_t counts[CHECKED_ROWS];
} choices;

static choices choices_new(const score_shape *s, uint64_t *rng)
{
    choices w = {.begins = array_new(s->experts + 1, sizeof(uint32_t)),
                 .owners = array_new(s->rows, sizeof(uint32_t)),
                 .chosen = array_new((size_t)CHECKED_ROWS * s->experts, sizeof(uint32_t)),
                 .ids = array_new((size_t)CHECKED_ROWS * s->rows, sizeof(uint32_t)),
                 .place = array_new((size_t)CHECKED_ROWS * s->rows, sizeof(uint32_t))};
    w.begins[s->experts] = s->rows;
    for (uint32_t e = s->experts - 1; e > 0; e--) /* some have no rows */
        w.begins[e] = (uint32_t)random_below(rng, w.begins[e + 1] + 1);
    for (uint32_t e = 0; e < s->experts; e++)
        for (uint32_t r = w.begins[e]; r < w.begins[e + 1]; r++)
            w.owners[r] = e;
    for (uint32_t t = 0; t < s->tokens; t++) {
        uint32_t place = 0;
        for (uint32_t e = 0; e < s->experts && place < s->used; e++) {
            if (s->experts - e > s->used - place && random_below(rng, 2))
                continue;
            for (uint32_t r = w.begins[e]; r < w.begins[e + 1]; r++)
                if (random_below(rng, 4)) {
                    w.place[t * s->rows + w.counts[t]] = place;
                    w.ids[t * s->rows + w.counts[t]++] = r;
                }
            w.chosen[t * s->experts + place++] = e;
        }
    }
    return w;
}

static void check_scores(check *c, const device *d, const score_shape *s, const placed *p, const choices *w,
                         const float *x, const float *got)
{
    double limit = depth(d, s->columns, 8) * EPSILON;
    for (size_t t = 0; t < s->tokens; t++)
        for (size_t i = 0; i < w->counts[t]; i++) {
            const float *row = p->decoded + (size_t)w->ids[t * s->rows + i] * s->columns;
            const float *own = x + (t * s->used + w->place[t * s->rows + i]) * s->columns;
            double want = 0, sum = 0;
            for (size_t k = 0; k < s->columns; k++) {
                want += (double)row[k] * own[k];
                sum += fabs((double)row[k] * own[k]);
            }
            expect_close(c, t * s->rows + i, want, got[t * s->rows + i], sum * limit + s->columns * 0x1p-149);
        }
}

static void check_score_case(check *c, device *d, const score_shape *s, uint64_t *rng)
{
    snprintf(c->size, sizeof(c->size), "%s, %u rows of %u experts, %u used, %u columns, %u tokens",
             number_formats[s->format].name, s->rows, s->experts, s->used, s->columns, s->tokens);
    placed p = placed_new(d, s->format, s->rows, s->columns, false, rng);
    choices w = choices_new(s, rng);
    size_t values = (size_t)s->tokens * s->used * s->columns, n = (size_t)s->tokens * s->rows;
    float *x = array_new(values, sizeof(float)), *got = array_new(n, sizeof(float));
    for (size_t i = 0; i < values; i++)
        x[i] = random_rough(rng);
    room rooms[] = {step_new(d, s->tokens, NULL, NULL, NULL),
                    room_new(d, w.ids, (size_t)CHECKED_ROWS * s->rows * sizeof(uint32_t)),
                    room_new(d, w.counts, sizeof(w.counts)),
                    room_new(d, w.chosen, (size_t)CHECKED_ROWS * s->experts * sizeof(uint32_t)),
                    room_new(d, w.owners, s->rows * sizeof(uint32_t)),
                    room_new(d, x, values * sizeof(float)),
                    room_new(d, NULL, n * sizeof(float))};
    DEVICE_DO(c, d, device_kernel_of(OF_SCORE, s->format), items_of(s->rows, PRODUCT_ROWS), room_of(&rooms[0]),
              room_of(&p.w), scales_argument(&p), room_of(&rooms[1]), room_of(&rooms[2]), room_of(&rooms[3]),
              room_of(&rooms[4]), room_of(&rooms[5]), room_of(&rooms[6]), UINT(s->experts), UINT(s->used),
              UINT(s->rows), UINT(s->columns));
    room_read(c, &rooms[COUNT(rooms) - 1], got);
    check_scores(c, d, s, &p, &w, x, got);
    for (size_t i = 0; i < COUNT(rooms); i++)
        room_free(&rooms[i]);
    free(w.begins), free(w.owners), free(w.chosen), free(w.ids), free(w.place);
    free(x);
    free(got);
    placed_free(&p);
}

/* ---- all of them ---- */

typedef void check_shape(check *c, device *d, number_format format, bool rounded, uint32_t columns, uint64_t *rng);

/* Checks a kernel of a format, and where there is one the kernel for input of 8 bits. */
static void check_both(check *c, device *d, number_format format, const format_kernel both[2], size_t cases,
                       check_shape *check_case, uint64_t *rng)
{
    for (unsigned rounded = 0; rounded <= (unsigned)number_is_block(format); rounded++) {
        check_begin(c, device_kernels[device_kernel_of(both[rounded], format)].name);
        for (size_t i = 0; i < cases; i++)
            check_case(c, d, format, rounded, some_columns(format, i), rng);
    }
}

static void check_heads(check *c, device *d, number_format format, uint64_t *rng)
{
    static const format_kernel both[] = {OF_PRODUCT_HEADS, OF_PRODUCT_HEADS_8};
    check_both(c, d, format, both, 12, check_heads_case, rng);
}

static void check_chosen(check *c, device *d, number_format format, uint64_t *rng)
{
    static const format_kernel both[] = {OF_PRODUCT_CHOSEN, OF_PRODUCT_CHOSEN_8};
    check_both(c, d, format, both, 16, check_chosen_case, rng);
}

static void check_score(check *c, device *d, number_format format, uint64_t *rng)
{
    static const uint32_t rows[] = {1, 2, 3, 4, 5, 7, 8, 13, 37, 70};
    check_begin(c, device_kernels[device_kernel_of(OF_SCORE, format)].name);
    for (size_t i = 0; i < 16; i++) {
        uint32_t experts = 1 + (uint32_t)random_below(rng, 9);
        score_shape s = {.format = format,
                         .experts = experts,
                         .used = 1 + (uint32_t)random_below(rng, experts),
                         .rows = rows[random_below(rng, COUNT(rows))],
                         .columns = some_columns(format, i),
                         .tokens = some_rows(rng)};
        check_score_case(c, d, &s, rng);
    }
}

void check_device_several(check *c, device *d, number_format format, uint64_t *rng)
{
    check_heads(c, d, format, rng);
    check_chosen(c, d, format, rng);
    check_score(c, d, format, rng);
}
