/* kcheck_products.c - the products of kcheck: every format, odd sizes, lists, cuts, hostile blocks.
 *
 * The bound. A kernel adds a row's n terms in some order and in float32. Whatever the order, where no term takes
 * part in more than c additions, |got - exact| <= c * EPSILON * sum |w x| (Higham, Accuracy and Stability of
 * Numerical Algorithms, section 4.2; EPSILON is the error of one operation). depth() is c: with many tokens a lane
 * adds up the columns of a panel and then the panels; with one token each of at least 8 lanes takes n / 8 terms; and
 * a few for scales and the sum over lanes. Exact is computed in double from decoded weights, which
 * tests/number_golden.c holds against another implementation. Sums of integers are exact in every kernel, so they
 * add nothing. */
#include "kcheck.h"

#include "../src/number/half.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define SENTINEL 0x7fc0ffeeu /* a NaN that no kernel produces: "not written" */

/* panel: the columns of a level's panel of floats. */
static double depth(size_t n, size_t panel)
{
    return 12 + (double)(n < panel ? n : panel) + (double)n / 8;
}

typedef enum content { ROUGH, EXTREME, NOT_FINITE, CONTENT_COUNT } content;

/* What the tokens are given in besides float32. */
typedef enum rounding { TO_NOTHING, TO_8_BITS, TO_BFLOATS } rounding;
static const char *const roundings[] = {[TO_NOTHING] = "", [TO_8_BITS] = " of 8 bits", [TO_BFLOATS] = " of bfloat16"};

/* One set of shapes with its data. */
typedef struct product_case {
    content kind;
    matrix w;
    kernel_input x;
    buffer_guarded weights, values, q, scales, sums, bfloats;
    float *decoded;    /* [rows][columns] */
    float *magnitudes; /* [rows][columns] what each weight is made of, added up without sign */
} product_case;

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

static void fill_block(uint8_t *block, const product_case *p, uint64_t *rng)
{
    number_format format = p->w.format;
    const number_traits *traits = &number_formats[format];
    if (scales_at[format].count == 0) {
        random_encoded(block, format, p->kind == NOT_FINITE, rng);
        return;
    }
    static const uint8_t extremes[] = {0x80, 0x7f, 0x81, 0xff, 0x00};
    uint8_t extreme = extremes[random_below(rng, sizeof(extremes))];
    for (size_t i = 0; i < traits->block_bytes; i++)
        block[i] = p->kind == EXTREME ? extreme : (uint8_t)random_bits(rng);
    for (size_t i = 0; i < scales_at[format].count; i++) {
        uint16_t scale = half_from_float(random_value(rng) * (random_below(rng, 16) ? 1 : 0x1p-18f));
        if (p->kind == NOT_FINITE && random_below(rng, 4) == 0)
            scale = random_below(rng, 2) ? 0x7c00 : 0xfe01;
        memcpy(block + scales_at[format].at[i], &scale, sizeof(scale));
    }
}

/* Returns a value as to_bfloat rounds it. */
static float rounded_to_bfloat(float x)
{
    return fabsf(x) < 0x1p-126f ? 0 : bfloat_to_float(bfloat_from_float(x));
}

static void fill_input(product_case *p, uint64_t *rng)
{
    kernels scalar;
    kernels_for(0, &scalar);
    uint16_t *bfloats = p->bfloats.data;
    size_t n = p->x.count * p->x.columns;
    float *values = p->values.data;
    for (size_t i = 0; i < n; i++)
        values[i] = p->kind == EXTREME ? (random_bits(rng) & 1 ? 1.0f : -1.0f) : random_rough(rng);
    if (p->kind == NOT_FINITE)
        values[random_below(rng, n)] = random_below(rng, 2) ? NAN : INFINITY;
    if (p->q.size > 0)
        scalar.quantize(values, n, p->q.data, p->scales.data, p->sums.data);
    for (size_t i = 0; i < p->bfloats.size / sizeof *bfloats; i++)
        bfloats[i] = bfloat_from_float(rounded_to_bfloat(values[i]));
}

/* Whether weights and tokens are multiplied as bfloat16. */
static bool in_bfloats(const product_case *p)
{
    return p->x.bfloats && p->x.count > FEW_OF_BFLOATS;
}

/* Decoded weights, as they are multiplied, and what bounds their parts. Formats with an offset (Q4_K: d * scale * nibble and dmin * minimum) have
 * two parts, which kernels add up apart: the first is what the block decodes to where the float16 of the offset is 0. */
static void decode_case(product_case *p)
{
    const number_traits *traits = &number_formats[p->w.format];
    for (size_t r = 0; r < p->w.rows; r++) {
        float *decoded = p->decoded + r * p->w.columns, *magnitude = p->magnitudes + r * p->w.columns;
        uint8_t *row = new_array(1, p->w.row_bytes);
        memcpy(row, matrix_row(&p->w, r), p->w.row_bytes);
        traits->decode(row, decoded, p->w.columns);
        for (size_t i = 0; i < p->w.columns && in_bfloats(p); i++)
            decoded[i] = rounded_to_bfloat(decoded[i]);
        const scale_places *places = &scales_at[p->w.format];
        for (size_t b = 0; places->count == 2 && b < p->w.row_bytes; b += traits->block_bytes)
            memset(row + b + places->at[1], 0, 2);
        traits->decode(row, magnitude, p->w.columns);
        for (size_t i = 0; i < p->w.columns; i++)
            magnitude[i] = fabsf(magnitude[i]) + fabsf(magnitude[i] - decoded[i]);
        free(row);
    }
}

static product_case case_new(number_format format, content kind, size_t rows, size_t columns, size_t tokens,
                             rounding to, uint64_t *rng)
{
    size_t n = tokens * columns, eights = to == TO_8_BITS ? n : 0;
    product_case p = {.kind = kind, .w = {.format = format, .rows = (uint32_t)rows, .columns = (uint32_t)columns}};
    if (!number_row_bytes(format, columns, &p.w.row_bytes)) {
        fprintf(stderr, "kcheck: bad columns\n");
        exit(1);
    }
    p.weights = guarded_new(rows * p.w.row_bytes);
    p.w.data = p.weights.data;
    p.values = guarded_new(n * sizeof(float));
    p.q = guarded_new(eights);
    p.scales = guarded_new(eights / Q8_BLOCK * sizeof(float));
    p.sums = guarded_new(eights / Q8_SUM * sizeof(int16_t));
    p.bfloats = guarded_new(to == TO_BFLOATS ? n * sizeof(uint16_t) : 0);
    p.x = (kernel_input){.count = tokens, .columns = columns, .values = p.values.data};
    if (to == TO_BFLOATS)
        p.x.bfloats = p.bfloats.data;
    if (to == TO_8_BITS) {
        p.x.q = p.q.data;
        p.x.scales = p.scales.data;
        p.x.sums = p.sums.data;
    }
    for (uint8_t *at = p.weights.data; at < (uint8_t *)p.weights.data + p.weights.size;
         at += number_formats[format].block_bytes)
        fill_block(at, &p, rng);
    fill_input(&p, rng);
    p.decoded = new_array(rows * columns, sizeof(float));
    p.magnitudes = new_array(rows * columns, sizeof(float));
    decode_case(&p);
    return p;
}

static void case_free(product_case *p)
{
    buffer_guarded *buffers[] = {&p->weights, &p->values, &p->q, &p->scales, &p->sums, &p->bfloats};
    for (size_t i = 0; i < sizeof(buffers) / sizeof(*buffers); i++)
        guarded_free(buffers[i]);
    free(p->decoded);
    free(p->magnitudes);
}

/* ---- checks ---- */

/* An output of [tokens][stride] that ends with the last row of the last token. */
static buffer_guarded output_new(size_t rows, size_t tokens, size_t stride)
{
    buffer_guarded y = guarded_new(((tokens - 1) * stride + rows) * sizeof(float));
    uint32_t *words = y.data;
    for (size_t i = 0; i < y.size / sizeof(*words); i++)
        words[i] = SENTINEL;
    return y;
}

/* Every value against double precision, the gaps between tokens against the sentinel. */
static void check_values(check *c, const product_case *p, const buffer_guarded *y, size_t stride)
{
    const float *got = y->data;
    size_t panel = in_bfloats(p) ? 1024 : !p->x.q && strncmp(c->level, "avx512", 6) == 0 ? 512 : 256;
    double limit = depth(p->w.columns, panel) * EPSILON;
    for (size_t t = 0; t < p->x.count; t++)
        for (size_t r = 0; r < p->w.rows; r++) {
            double want = 0, sum = 0;
            for (size_t i = 0; i < p->w.columns; i++) {
                size_t at = t * p->w.columns + i;
                double x = p->x.q          ? (double)p->x.q[at] * p->x.scales[at / Q8_BLOCK]
                           : in_bfloats(p) ? bfloat_to_float(p->x.bfloats[at])
                                           : p->x.values[at];
                want += p->decoded[r * p->w.columns + i] * x;
                sum += p->magnitudes[r * p->w.columns + i] * fabs(x);
            }
            /* The last term: what is below the smallest normal number loses up to half of the smallest subnormal, or is zero. */
            double bound = sum * limit + (double)p->w.columns * (in_bfloats(p) ? 0x1p-126 : 0x1p-149);
            expect_close(c, t * p->w.rows + r, want, got[t * stride + r], bound);
        }
    for (size_t t = 0; t + 1 < p->x.count; t++)
        for (size_t r = p->w.rows; r < stride; r++) {
            uint32_t word;
            memcpy(&word, got + t * stride + r, sizeof(word));
            expect(c, "wrote between two tokens", word == SENTINEL);
        }
}

/* The same rows in pieces of random length must give the same bytes, and touch nothing else. */
static void check_cuts(check *c, kernel_product *product, const product_case *p, const buffer_guarded *want,
                       size_t stride, uint64_t *rng)
{
    buffer_guarded y = output_new(p->w.rows, p->x.count, stride);
    for (size_t begin = 0, end; begin < p->w.rows; begin = end) {
        end = begin + 1 + random_below(rng, p->w.rows - begin);
        product(&p->w, NULL, begin, end, &p->x, y.data, stride);
    }
    expect_same(c, "rows at once and in pieces", want->data, y.data, y.size);
    expect(c, "wrote before the output", guarded_intact(&y));
    guarded_free(&y);
}

/* Listed rows, some of them twice, must have the bytes they have without a list. */
static void check_list(check *c, kernel_product *product, const product_case *p, const buffer_guarded *dense,
                       size_t stride, uint64_t *rng)
{
    size_t listed = 1 + random_below(rng, 2 * p->w.rows), begin = random_below(rng, listed);
    buffer_guarded list = guarded_new(listed * sizeof(uint32_t)), y = output_new(listed, p->x.count, listed);
    uint32_t *rows = list.data;
    for (size_t i = 0; i < listed; i++)
        rows[i] = (uint32_t)random_below(rng, p->w.rows);
    product(&p->w, rows, begin, listed, &p->x, y.data, listed);
    for (size_t t = 0; t < p->x.count; t++)
        for (size_t i = 0; i < listed; i++) {
            static const uint32_t untouched = SENTINEL;
            const float *want = (const float *)dense->data + t * stride + rows[i];
            const float *got = (const float *)y.data + t * listed + i;
            expect_same(c, i < begin ? "rows before the first" : "rows with and without a list",
                        i < begin ? (const void *)&untouched : want, got, sizeof(float));
        }
    guarded_free(&list);
    guarded_free(&y);
}

/* How many rows are read at once must not change a byte of the result. */
static void check_streams(check *c, kernel_product *product, const product_case *p, const buffer_guarded *want,
                          size_t stride)
{
    buffer_guarded y = output_new(p->w.rows, p->x.count, stride);
    kernel_input x = p->x;
    x.streams = 4;
    product(&p->w, NULL, 0, p->w.rows, &x, y.data, stride);
    expect_same(c, "eight streams and four", want->data, y.data, y.size);
    guarded_free(&y);
}

/* Each of a few tokens must have the bytes that it has alone. */
static void check_alone(check *c, kernel_product *product, const product_case *p, const buffer_guarded *together,
                        size_t stride)
{
    buffer_guarded y = output_new(p->w.rows, 1, p->w.rows);
    for (size_t t = 0; t < p->x.count; t++) {
        kernel_input one = one_token(&p->x, t);
        product(&p->w, NULL, 0, p->w.rows, &one, y.data, p->w.rows);
        expect_same(c, "a token alone and among others", y.data, (const float *)together->data + t * stride,
                    p->w.rows * sizeof(float));
    }
    guarded_free(&y);
}

static void check_case(check *c, kernel_product *product, number_format format, content kind, size_t rows,
                       size_t columns, size_t tokens, rounding to, uint64_t *rng)
{
    static const char *const kinds[CONTENT_COUNT] = {"rough", "extreme", "not finite"};
    size_t stride = rows + random_below(rng, 4);
    snprintf(c->size, sizeof(c->size), "%s, %zu rows, %zu columns, %zu tokens%s, %s values",
             number_formats[format].name, rows, columns, tokens, roundings[to], kinds[kind]);
    product_case p = case_new(format, kind, rows, columns, tokens, to, rng);
    buffer_guarded y = output_new(rows, tokens, stride);
    product(&p.w, NULL, 0, rows, &p.x, y.data, stride);
    if (kind != NOT_FINITE) { /* there it is enough not to trap and not to write elsewhere */
        check_values(c, &p, &y, stride);
        check_cuts(c, product, &p, &y, stride, rng);
        check_list(c, product, &p, &y, stride, rng);
        check_streams(c, product, &p, &y, stride);
        if (tokens <= FEW_TOKENS)
            check_alone(c, product, &p, &y, stride);
    }
    expect(c, "wrote before the output", guarded_intact(&y));
    guarded_free(&y);
    case_free(&p);
}

static void check_format(check *c, const kernels *k, number_format format, uint64_t *rng)
{
    /* Some on both sides of where levels begin to multiply in tiles, wherever that is. */
    static const size_t tokens[] = {1, 2, 3, 4, 5, 8, 13, 17, 27, 67};
    static const size_t rows[] = {1, 2, 3, 4, 5, 6, 7, 8, 9, 15, 16, 17, 31, 32, 33, 37};
    static const size_t values[] = {1, 7, 15, 16, 17, 33, 64, 255, 256, 257, 1100, 4096};
    static const size_t blocks[] = {1, 2, 3, 4, 5, 7, 8, 17, 33};
    kernel_product *product = k->product[format];
    bool block = number_is_block(format), bfloats = k->to_bfloat && (format == FORMAT_F16 || format == FORMAT_BF16);
    size_t sizes = block ? sizeof(blocks) / sizeof(*blocks) : sizeof(values) / sizeof(*values), turn = 0;
    for (size_t s = 0; s < sizes; s++) {
        size_t columns = block ? blocks[s] * number_formats[format].block_values : values[s];
        for (size_t t = 0; t < sizeof(tokens) / sizeof(*tokens); t++)
            for (size_t repeat = 0; repeat < 3; repeat++) {
                size_t n = rows[turn++ % (sizeof(rows) / sizeof(*rows))];
                content kind = repeat == 0 ? ROUGH : (content)random_below(rng, CONTENT_COUNT);
                check_case(c, product, format, kind, n, columns, tokens[t], block ? TO_8_BITS : TO_NOTHING, rng);
                if (block && repeat == 0)
                    check_case(c, product, format, ROUGH, n, columns, tokens[t], TO_NOTHING, rng);
                if (bfloats && columns % 2 == 0)
                    check_case(c, product, format, kind, n, columns, tokens[t], TO_BFLOATS, rng);
            }
    }
}

void check_products(check *c, const kernels *k, const kernels *previous, uint64_t seed)
{
    for (size_t f = 0; f < FORMAT_COUNT; f++) {
        if (k->product[f] == previous->product[f])
            continue;
        uint64_t rng = seed * 31 + f;
        check_begin(c, "product");
        check_format(c, k, (number_format)f, &rng);
    }
}
