/* kcheck_vectors.c - everything in the table that is not a product: rounding, norms, activations, rotation, attention.
 *
 * What has one right answer (quantize, add, relu, to_half, to_bfloat) must have its bits. The rest is held against double
 * precision; each check says where its bound comes from, in units of EPSILON, the error of one float32 operation. */
#include "kcheck.h"

#include "../src/number/half.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* exp in float32 is within 2 units in the last place (4 EPSILON) in every implementation that is used here. */
#define EXP_ERROR (4 * EPSILON)
/* Results this small may be flushed: 2^-126 is the smallest normal number. */
#define TINY 0x1p-125

static const size_t sizes[] = {1, 3, 7, 8, 15, 16, 17, 31, 33, 63, 64, 65, 100, 257, 1000, 2048};
#define SIZES (sizeof(sizes) / sizeof(*sizes))

static buffer_guarded rough_new(size_t n, uint64_t *rng)
{
    buffer_guarded b = guarded_new(n * sizeof(float));
    for (size_t i = 0; i < n; i++)
        ((float *)b.data)[i] = random_rough(rng);
    return b;
}

static buffer_guarded copy_of(const buffer_guarded *from)
{
    buffer_guarded b = guarded_new(from->size);
    memcpy(b.data, from->data, from->size);
    return b;
}

static void check_quantize(check *c, const kernels *k, uint64_t *rng)
{
    kernels scalar;
    kernels_for(0, &scalar);
    for (size_t turn = 0; turn < 400; turn++) {
        size_t n = (1 + random_below(rng, 9)) * Q8_BLOCK;
        snprintf(c->size, sizeof(c->size), "%zu values", n);
        buffer_guarded x = rough_new(n, rng);
        float *values = x.data, unit = ldexpf(1, (int)random_below(rng, 260) - 140);
        for (size_t i = 0; i < n; i++) /* all magnitudes, and every fourth time nothing but halves to be rounded */
            values[i] = turn % 4 ? values[i] * unit : ldexpf((float)random_below(rng, 255) - 127.0f, -1);
        if (turn % 4 == 0)
            for (size_t b = 0; b < n; b += Q8_BLOCK)
                values[b] = 127;
        if (turn % 5 == 0)
            values[random_below(rng, n)] = random_below(rng, 2) ? NAN : -INFINITY;
        buffer_guarded q = guarded_new(n), scales = guarded_new(n / Q8_BLOCK * 4), sums = guarded_new(n / Q8_SUM * 2);
        buffer_guarded want_q = copy_of(&q), want_scales = copy_of(&scales), want_sums = copy_of(&sums);
        k->quantize(values, n, q.data, scales.data, sums.data);
        scalar.quantize(values, n, want_q.data, want_scales.data, want_sums.data);
        expect_same(c, "q", want_q.data, q.data, q.size);
        expect_same(c, "scales", want_scales.data, scales.data, scales.size);
        expect_same(c, "sums", want_sums.data, sums.data, sums.size);
        for (size_t i = 0; i < n; i++) { /* and both are what kernel.h says */
            const int8_t *got = q.data;
            float scale = ((float *)scales.data)[i / Q8_BLOCK];
            if (isfinite(scale) && scale > TINY)
                expect_close(c, i, values[i], (double)got[i] * scale, scale * 0.5 * (1 + 512 * EPSILON));
        }
        expect(c, "wrote before the output", guarded_intact(&q) && guarded_intact(&scales) && guarded_intact(&sums));
        buffer_guarded *all[] = {&x, &q, &scales, &sums, &want_q, &want_scales, &want_sums};
        for (size_t i = 0; i < sizeof(all) / sizeof(*all); i++)
            guarded_free(all[i]);
    }
}

static void check_rms_norm(check *c, const kernels *k, uint64_t *rng)
{
    for (size_t s = 0; s < SIZES; s++) {
        size_t n = sizes[s];
        snprintf(c->size, sizeof(c->size), "%zu values", n);
        buffer_guarded x = rough_new(n, rng), weight = rough_new(n, rng), out = guarded_new(n * sizeof(float));
        const float *from = x.data, *w = weight.data;
        double squares = 0;
        for (size_t i = 0; i < n; i++)
            squares += (double)from[i] * from[i];
        k->rms_norm(from, w, 1e-5f, n, out.data);
        /* The sum of n positive terms is off by at most n EPSILON of itself, its root by half of that; five
         * operations follow. Kernels have at least four sums, hence n / 4 (scalar: double). */
        double error = ((double)n / 8 + 8) * EPSILON;
        for (size_t i = 0; i < n; i++) {
            double want = from[i] / sqrt(squares / (double)n + 1e-5f) * w[i];
            expect_close(c, i, want, ((float *)out.data)[i], fabs(want) * error + TINY * (1 + fabs(w[i])));
        }
        expect(c, "wrote before the output", guarded_intact(&out));
        buffer_guarded place = copy_of(&x);
        k->rms_norm(place.data, w, 1e-5f, n, place.data);
        expect_same(c, "in place and apart", out.data, place.data, out.size);
        guarded_free(&x), guarded_free(&weight), guarded_free(&out), guarded_free(&place);
    }
}

static void check_layer_norm(check *c, const kernels *k, uint64_t *rng)
{
    for (size_t s = 0; s < 2 * SIZES; s++) {
        size_t n = sizes[s % SIZES];
        bool has_bias = s / SIZES % 2;
        snprintf(c->size, sizeof(c->size), "%zu values%s", n, has_bias ? ", bias" : "");
        buffer_guarded x = rough_new(n, rng), weight = rough_new(n, rng), bias = rough_new(n, rng);
        buffer_guarded out = guarded_new(n * sizeof(float)), place = copy_of(&x);
        const float *from = x.data, *w = weight.data, *b = has_bias ? bias.data : NULL;
        double sum = 0, size = 0, squares = 0;
        for (size_t i = 0; i < n; i++)
            sum += (double)from[i], size += fabs((double)from[i]);
        double mean = sum / (double)n;
        for (size_t i = 0; i < n; i++)
            squares += ((double)from[i] - mean) * ((double)from[i] - mean);
        double deviation = sqrt(squares / (double)n + (double)1e-5f);
        k->layer_norm(from, w, b, 1e-5f, n, out.data);
        /* The mean is off by at most n / 8 + 2 roundings of the mean size of the values (there are at least 4 sums), so
         * a difference by that and its own rounding; the deviation by half of what its squares are off, relatively. */
        double shift = (((double)n / 4 + 2) * size / (double)n) * EPSILON;
        double relative = ((double)n / 8 + 8) * EPSILON + 2 * shift / deviation;
        for (size_t i = 0; i < n; i++) {
            double part = ((double)from[i] - mean) / deviation, added = b ? (double)b[i] : 0;
            double want = part * (double)w[i] + added;
            double error =
                (fabs(part) * relative + (shift + fabs((double)from[i]) * EPSILON) / deviation) * fabs((double)w[i]) +
                EPSILON * fabs(added);
            expect_close(c, i, want, ((float *)out.data)[i], error + TINY * (1 + fabs((double)w[i])));
        }
        expect(c, "wrote before the output", guarded_intact(&out));
        k->layer_norm(place.data, w, b, 1e-5f, n, place.data);
        expect_same(c, "in place and apart", out.data, place.data, out.size);
        buffer_guarded *all[] = {&x, &weight, &bias, &out, &place};
        for (size_t i = 0; i < sizeof(all) / sizeof(*all); i++)
            guarded_free(all[i]);
    }
}

static void check_add(check *c, const kernels *k, uint64_t *rng)
{
    for (size_t s = 0; s < SIZES; s++) {
        size_t n = sizes[s];
        snprintf(c->size, sizeof(c->size), "%zu values", n);
        buffer_guarded x = rough_new(n, rng), y = rough_new(n, rng), want = copy_of(&y);
        for (size_t i = 0; i < n; i++)
            ((float *)want.data)[i] += ((float *)x.data)[i];
        k->add(x.data, n, y.data);
        expect_same(c, "sums", want.data, y.data, y.size);
        expect(c, "wrote before the output", guarded_intact(&y));
        guarded_free(&x), guarded_free(&y), guarded_free(&want);
    }
}

/* A smooth activation in double precision, and the relative size of what rounding its argument may cost. */
typedef struct smooth {
    kernel_activation kind;
    double (*value)(double x);
    double slip; /* in roundings of x itself */
    activation_terms terms;
    double off; /* what it may cost besides, near zero too */
} smooth;

static double silu(double x)
{
    return x / (1 + exp(-x));
}

static double logistic(double x)
{
    return 1 / (1 + exp(-x));
}

static double gelu(double x)
{
    return x * erfc(-x / sqrt(2)) / 2;
}

/* (1 + tanh(y)) / 2 is 1 / (1 + exp(-2 y)), which loses no digits. */
static double gelu_tanh(double x)
{
    return x / (1 + exp(-2 * sqrt(2 / M_PI) * (x + 0.044715 * x * x * x)));
}

#define POSITIVE 1.25f
#define NEGATIVE 0.875f
#define LINEAR   0.5f

static double xielu(double x)
{
    return (double)LINEAR * x + (x > 0 ? (double)POSITIVE * x * x : (double)NEGATIVE * (expm1(x) - x));
}

static void check_smooth(check *c, const kernels *k, const smooth *a, uint64_t *rng)
{
    for (size_t s = 0; s < 4 * SIZES; s++) {
        size_t n = sizes[s % SIZES];
        bool has_up = s / SIZES % 2;
        snprintf(c->size, sizeof(c->size), "%zu values%s", n, has_up ? ", up" : "");
        buffer_guarded gate = rough_new(n, rng), up = rough_new(n, rng), h = guarded_new(n * sizeof(float));
        float *g = gate.data;
        for (size_t i = 0; i < n && s >= 2 * SIZES; i++) /* beyond what exp can hold, and where it matters most */
            g[i] *= random_below(rng, 2) ? 120 : 10;
        k->activate[a->kind](g, has_up ? up.data : NULL, a->terms, n, h.data);
        for (size_t i = 0; i < n; i++) {
            double u = has_up ? ((float *)up.data)[i] : 1, want = a->value(g[i]) * u;
            double bound = fabs(want) * (EXP_ERROR + 4 * EPSILON) + fabs(g[i] * u) * a->slip * EPSILON +
                           fabs(u) * a->off + TINY * (1 + fabs(g[i] * u));
            expect_close(c, i, want, ((float *)h.data)[i], bound);
        }
        expect(c, "wrote before the output", guarded_intact(&h));
        if (has_up) {
            buffer_guarded over = copy_of(&up);
            k->activate[a->kind](g, over.data, a->terms, n, over.data);
            expect_same(c, "over up and apart", h.data, over.data, h.size);
            guarded_free(&over);
        }
        k->activate[a->kind](g, has_up ? up.data : NULL, a->terms, n, g);
        expect_same(c, "in place and apart", h.data, g, h.size);
        guarded_free(&gate), guarded_free(&up), guarded_free(&h);
    }
}

/* GELU's factor lies between 0 and 1 and changes by at most 0.8 |x| per rounding of x or so; both forms may lose what
 * adding to 1 rounds away. GELU by a polynomial in t = 1 / (1 + p |x|) (vector_loops.h), in EPSILON of the factor: the
 * formula errs by 0.75e-7 (1.3); t by three roundings, of which q gets at most 1.72 each (5.2); coefficients and sums
 * are rounded, which are at most 0.73 (4); exp's error and its argument's, times q <= 1/2 (2.2); products (1). */
static const smooth smooth_silu = {.kind = ACTIVATION_SILU, .value = silu},
                    smooth_gelu = {.kind = ACTIVATION_GELU, .value = gelu, .slip = 14},
                    smooth_gelu_tanh = {.kind = ACTIVATION_GELU_TANH, .value = gelu_tanh, .slip = 8},
                    smooth_logistic = {.kind = ACTIVATION_LOGISTIC, .value = logistic};
/* exp(x) is at most 1 where it matters; 1 is taken from it, and x, whose rounding and that of the sums count by its size. */
static const smooth smooth_xielu = {.kind = ACTIVATION_XIELU,
                                    .value = xielu,
                                    .slip = 3,
                                    .terms = {.curve = {POSITIVE, NEGATIVE, LINEAR}},
                                    .off = NEGATIVE * (EXP_ERROR + 3 * EPSILON)};

/* gpt-oss: both values are limited, then gate / (1 + exp(-1.702 gate)) * (up + 1). */
static double clamped(double gate, double up, bool has_up, double limit, double *bound)
{
    double a = fmin(gate, limit), b = has_up ? fmin(fmax(up, -limit), limit) + 1 : 1;
    double want = a / (1 + exp(-1.702 * a)) * b;
    /* the power's rounding changes the factor by at most |1.702 a| / 4 of it, and up + 1 is rounded to a number
     * of the size of up */
    *bound = fabs(want) * (EXP_ERROR + 6 * EPSILON) + fabs(a) * (fabs(b) + 8) * 2 * EPSILON + TINY;
    return want;
}

/* Step 3.5: silu(gate) and up are limited and multiplied. A limit moves no result further from the true one. */
static double limited(double gate, double up, bool has_up, double limit, double *bound)
{
    double b = has_up ? fmin(fmax(up, -limit), limit) : 1, want = fmin(silu(gate), limit) * b;
    *bound = fabs(want) * (EXP_ERROR + 6 * EPSILON) + TINY * (1 + fabs(gate * b));
    return want;
}

/* GLM-5.3-Flash: what silu reads is limited, in place of what it gives. */
static double limited_first(double gate, double up, bool has_up, double limit, double *bound)
{
    return limited(fmin(gate, limit), up, has_up, limit, bound);
}

/* An activation that limits its values: its limits, 0 for none, and what it computes. */
typedef struct limiting {
    kernel_activation kind;
    float limits[2];
    double (*value)(double gate, double up, bool has_up, double limit, double *bound);
} limiting;

static const limiting swiglu_clamped = {ACTIVATION_SWIGLU_CLAMPED, {7, 7}, clamped},
                      silu_limited = {ACTIVATION_SILU_LIMITED, {7, 0}, limited},
                      silu_clamped = {ACTIVATION_SILU_CLAMPED, {7, 0}, limited_first};

static void check_limiting(check *c, const kernels *k, const limiting *a, uint64_t *rng)
{
    for (size_t s = 0; s < 8 * SIZES; s++) {
        size_t n = sizes[s % SIZES];
        bool has_up = s / SIZES % 2;
        float limit = a->limits[s / SIZES / 4];
        snprintf(c->size, sizeof(c->size), "%zu values%s, limit %g", n, has_up ? ", up" : "", (double)limit);
        buffer_guarded gate = rough_new(n, rng), up = rough_new(n, rng), h = guarded_new(n * sizeof(float));
        float *g = gate.data, *u = up.data;
        for (size_t i = 0; i < n && s / SIZES % 4 >= 2; i++) /* beyond the limits, and where they matter most */
            g[i] *= 10, u[i] *= 10;
        k->activate[a->kind](g, has_up ? u : NULL, (activation_terms){.threshold = limit}, n, h.data);
        for (size_t i = 0; i < n; i++) {
            double bound, want = a->value(g[i], u[i], has_up, limit > 0 ? limit : INFINITY, &bound);
            expect_close(c, i, want, ((float *)h.data)[i], bound);
        }
        expect(c, "wrote before the output", guarded_intact(&h));
        k->activate[a->kind](g, has_up ? u : NULL, (activation_terms){.threshold = limit}, n, g);
        expect_same(c, "in place and apart", h.data, g, h.size);
        guarded_free(&gate), guarded_free(&up), guarded_free(&h);
    }
}

/* ReLU with and without a threshold, or its square. */
static void check_relu(check *c, const kernels *k, kernel_activation kind, uint64_t *rng)
{
    for (size_t s = 0; s < 4 * SIZES; s++) {
        size_t n = sizes[s % SIZES];
        bool has_up = s / SIZES % 2;
        bool squared = kind == ACTIVATION_RELU2;
        float threshold = s < 2 * SIZES || squared ? 0 : 0.25f;
        activation_terms terms = {.threshold = threshold};
        snprintf(c->size, sizeof(c->size), "%zu values%s, threshold %g", n, has_up ? ", up" : "", (double)threshold);
        buffer_guarded gate = rough_new(n, rng), up = rough_new(n, rng), h = guarded_new(n * sizeof(float));
        buffer_guarded want = guarded_new(n * sizeof(float));
        float *g = gate.data, *u = up.data;
        for (size_t i = 0; i < n; i++) {
            if (random_below(rng, 8) == 0)
                g[i] = threshold;
            if (!(g[i] > threshold) && random_below(rng, 4) == 0) /* what a neuron that is zero must not let through */
                u[i] = random_below(rng, 2) ? NAN : INFINITY;
            float passed = squared ? g[i] * g[i] : g[i];
            ((float *)want.data)[i] = g[i] > threshold ? (has_up ? passed * u[i] : passed) : 0;
        }
        k->activate[kind](g, has_up ? u : NULL, terms, n, h.data);
        expect_same(c, "values", want.data, h.data, h.size);
        expect(c, "wrote before the output", guarded_intact(&h));
        if (has_up) {
            buffer_guarded over = copy_of(&up);
            k->activate[kind](g, over.data, terms, n, over.data);
            expect_same(c, "over up and apart", h.data, over.data, h.size);
            guarded_free(&over);
        }
        k->activate[kind](g, has_up ? u : NULL, terms, n, g);
        expect_same(c, "in place and apart", h.data, g, h.size);
        guarded_free(&gate), guarded_free(&up), guarded_free(&h), guarded_free(&want);
    }
}

static void check_rope(check *c, const kernels *k, rope_pairing pairing, uint64_t *rng)
{
    static const size_t lengths[] = {2, 6, 8, 16, 18, 64, 80, 128};
    for (size_t s = 0; s < 3 * sizeof(lengths) / sizeof(*lengths); s++) {
        size_t length = lengths[s / 3], heads = 1 + s % 3,
               pairs = s % 2 ? length / 2 : 1 + random_below(rng, length / 2);
        snprintf(c->size, sizeof(c->size), "%zu heads of %zu, %zu pairs", heads, length, pairs);
        buffer_guarded x = rough_new(heads * length, rng), before = copy_of(&x);
        buffer_guarded cosine = rough_new(pairs, rng), sine = rough_new(pairs, rng);
        k->rope[pairing](x.data, heads, length, cosine.data, sine.data, pairs);
        for (size_t i = 0; i < heads * length; i++) {
            const float *from = before.data, *got = x.data;
            size_t within = i % length, second = pairing == ROPE_HALVES ? within / pairs : within % 2;
            size_t pair = pairing == ROPE_HALVES ? within % pairs : within / 2, other = i + (pairing ? pairs : 1);
            if (within >= 2 * pairs) {
                expect_same(c, "values past the pairs", from + i, got + i, sizeof(float));
                continue;
            }
            double cos = ((float *)cosine.data)[pair], sin = ((float *)sine.data)[pair];
            other -= second ? 2 * (other - i) : 0;
            double a = from[i] * cos, b = from[other] * sin; /* two products and a sum: three roundings */
            expect_close(c, i, second ? a + b : a - b, got[i], 3 * EPSILON * (fabs(a) + fabs(b)) + TINY);
        }
        expect(c, "wrote before the output", guarded_intact(&x));
        guarded_free(&x), guarded_free(&before), guarded_free(&cosine), guarded_free(&sine);
    }
}

/* Returns a value in bfloat16, where numbers below the smallest normal one become zero. */
static uint16_t bfloat_without_subnormals(float value)
{
    return bfloat_from_float(fabsf(value) < 0x1p-126f ? copysignf(0, value) : value);
}

/* A conversion to 16 bits must give the bits of `want`; values above `infinity` are NaN. Numbers are any floats at all, or between
 * `from` and that plus `range`, of few bits. */
static void check_to_short(check *c, void (*convert)(const float *x, size_t n, uint16_t *out), uint16_t want_of(float),
                           uint16_t infinity, uint32_t from, uint32_t range, uint64_t *rng)
{
    for (size_t s = 0; s < 4 * SIZES; s++) {
        size_t n = sizes[s % SIZES];
        snprintf(c->size, sizeof(c->size), "%zu values", n);
        buffer_guarded x = rough_new(n, rng), out = guarded_new(n * sizeof(uint16_t));
        for (size_t i = 0; i < n; i++) {
            uint32_t any = (uint32_t)random_bits(rng), near = from + (any % range & 0xfffff000u);
            memcpy((float *)x.data + i, s < 2 * SIZES ? &any : &near, sizeof(float));
        }
        convert(x.data, n, out.data);
        for (size_t i = 0; i < n; i++) {
            float value = ((float *)x.data)[i];
            uint16_t want = want_of(value), got = ((uint16_t *)out.data)[i];
            if (isnan(value))
                expect(c, "a NaN became a number", (got & 0x7fff) > infinity);
            else
                expect_same(c, "values of 16 bits", &want, &got, sizeof(want));
        }
        expect(c, "wrote before the output", guarded_intact(&out));
        guarded_free(&x), guarded_free(&out);
    }
}

/* Near float16's subnormals, ties and limit. */
static void check_to_half(check *c, const kernels *k, uint64_t *rng)
{
    check_to_short(c, k->to_half, half_from_float, 0x7c00, 0x33000000u, 0x15000000u, rng);
}

/* Near the smallest normal number, and ties. */
static void check_to_bfloat(check *c, const kernels *k, uint64_t *rng)
{
    check_to_short(c, k->to_bfloat, bfloat_without_subnormals, 0x7f80, 0x00600000u, 0x00800000u, rng);
}

static void check_read(check *c, const kernels *k, uint64_t *rng)
{
    for (size_t turn = 0; turn < 200; turn++) {
        buffer_guarded b = guarded_new((1 + random_below(rng, 40)) * 64);
        uint8_t *bytes = b.data;
        snprintf(c->size, sizeof(c->size), "%zu bytes", b.size);
        for (size_t i = 0; i < b.size; i++)
            bytes[i] = (uint8_t)random_bits(rng);
        uint64_t before = k->read(bytes, b.size);
        bytes[random_below(rng, b.size)] ^= (uint8_t)(1 + random_below(rng, 255));
        expect(c, "a byte was not read", k->read(bytes, b.size) != before);
        guarded_free(&b);
    }
}

/* ---- attention ---- */

/* The most pages of a check. */
#define MOST_PAGES 4

/* Where the pages of a sequence of `count` positions lie: in any order, but the last one at the highest address, so that
 * nothing readable lies behind its last position. */
typedef struct page_order {
    size_t count, page_count, page_rows;
    uint32_t pages[MOST_PAGES];
} page_order;

static page_order order_pages(size_t count, uint64_t *rng)
{
    page_order o = {.count = count, .page_count = (count + KV_PAGE - 1) / KV_PAGE};
    o.page_rows = KV_PAGE + random_below(rng, 2) * random_below(rng, 200);
    uint32_t spare = (uint32_t)random_below(rng, 3); /* pages of other sequences */
    for (uint32_t i = 0; i < o.page_count; i++)
        o.pages[i] = i + spare;
    for (size_t i = 1; i + 1 < o.page_count; i++) {
        size_t other = random_below(rng, i + 1);
        uint32_t page = o.pages[i];
        o.pages[i] = o.pages[other];
        o.pages[other] = page;
    }
    return o;
}

/* Returns the bytes of a key in a format. */
static size_t key_bytes(number_format format, size_t length)
{
    return length / number_formats[format].block_values * number_formats[format].block_bytes;
}

/* Keys or values: [count][length] float32 values that a format holds exactly, and what it stores of them, in pages. */
typedef struct cached {
    float *values;
    buffer_guarded stored;
    attend_half half; /* of the cache */
} cached;

/* Returns where the key or value of a position lies. */
static uint8_t *place_of(const page_order *o, const cached *c, size_t p)
{
    return (uint8_t *)c->stored.data + o->pages[p / KV_PAGE] * c->half.page_bytes + p % KV_PAGE * c->half.row_bytes;
}

static cached cached_new(const page_order *o, number_format format, size_t length, uint64_t *rng)
{
    const number_traits *t = &number_formats[format];
    size_t last = o->page_count - 1, row_bytes = key_bytes(format, length), page_bytes = o->page_rows * row_bytes;
    cached c = {.values = malloc(o->count * length * sizeof(float)),
                .stored = guarded_new(o->pages[last] * page_bytes + (o->count - last * KV_PAGE) * row_bytes)};
    c.half = (attend_half){c.stored.data, length, row_bytes, page_bytes};
    memset(c.stored.data, 0xff, c.stored.size); /* NaN, where no position lies */
    for (size_t p = 0; p < o->count; p++) {
        float *values = c.values + p * length;
        uint8_t *at = place_of(o, &c, p);
        for (size_t i = 0; i < length; i++)
            values[i] = random_rough(rng);
        t->encode(values, NULL, at, length);
        t->decode(at, values, length);
    }
    return c;
}

static void cached_free(cached *c)
{
    free(c->values);
    guarded_free(&c->stored);
}

/* Returns the length of heads that is nearest to the wanted one in a format. */
static size_t whole_blocks(number_format format, size_t length)
{
    size_t block = number_formats[format].block_values;
    return (length + block - 1) / block * block;
}

/* One query against double precision. A score of `length` terms, scaled, is off by at most `slip`; a weight
 * exp(score - largest) then by a factor within exp(+-2 slip) and what exp itself errs, the sum of weights
 * likewise; the sum over `count` positions and its division by the total add their own. */
static void check_query(check *c, const float *query, const float *key, const float *value, size_t count, size_t length,
                        size_t value_length, const attend_scoring *how, const float *got)
{
    double scale = how->scale, cap = how->softcap, *score = calloc(count, sizeof(double)), slip = 0;
    double largest = how->sinks ? *how->sinks : -INFINITY, total = 0;
    for (size_t p = 0; p < count; p++) {
        double magnitude = 0;
        for (size_t i = 0; i < length; i++) {
            score[p] += (double)query[i] * key[p * length + i];
            magnitude += fabs((double)query[i] * key[p * length + i]);
        }
        score[p] = cap > 0 ? cap * tanh(score[p] * scale / cap) : score[p] * scale;
        largest = fmax(largest, score[p]);
        slip = fmax(slip, magnitude * scale * ((double)length + 2) * EPSILON);
    }
    slip += cap * (EXP_ERROR + 8 * EPSILON); /* of tanh, which itself never makes an error larger */
    if (how->sinks)
        total = exp(*how->sinks - largest);
    for (size_t p = 0; p < count; p++)
        total += score[p] = exp(score[p] - largest);
    /* The difference score - largest is rounded too: once, relative to at most the 100 beyond which exp is nothing. */
    double weight_error = expm1(2 * slip + 100 * EPSILON) + EXP_ERROR;
    double error = 2 * weight_error + (2 * (double)count + 4) * EPSILON;
    for (size_t i = 0; i < value_length; i++) {
        double want = 0, magnitude = 0, tiny = TINY;
        for (size_t p = 0; p < count; p++) {
            double own = value[p * value_length + i];
            want += score[p] / total * own;
            magnitude += score[p] / total * fabs(own);
            tiny += TINY * fabs(own); /* a weight that should be nothing may be that much */
        }
        expect_close(c, i, want, got[i], magnitude * error + tiny);
    }
    free(score);
}

/* Positions from any place of a page on: borders of pages and blocks, one position, several pages. */
static void check_attend(check *c, attend_kernel *attend, number_format format, uint64_t *rng)
{
    static const size_t lengths[] = {1, 8, 16, 20, 64, 80, 128, 200};
    static const size_t counts[] = {1, 2, 7, 8, 9, 16, 33, 100, KV_PAGE - 1, KV_PAGE, KV_PAGE + 1, 2 * KV_PAGE + 5};
    static const size_t firsts[] = {0, 0, 1, 31, 64, KV_PAGE - 1, KV_PAGE, KV_PAGE + 1};
    for (size_t s = 0; s < 192; s++) {
        size_t length = whole_blocks(format, lengths[s % 8]), count = counts[s / 8 % 12];
        size_t shorter = s % 7 == 3 ? whole_blocks(format, 1 + random_below(rng, length)) : length;
        size_t first = firsts[random_below(rng, 8)], queries = 1 + random_below(rng, 9);
        float sinks[9];
        for (size_t g = 0; g < 9; g++)
            sinks[g] = 2 * random_rough(rng);
        attend_scoring how = {.scale = 1 / sqrtf((float)length), .softcap = s % 3 == 1 ? 2 : 0};
        how.sinks = s % 5 == 1 ? sinks : NULL;
        snprintf(c->size, sizeof(c->size), "%zu queries, %zu positions from %zu on, length %zu, %zu%s%s", queries,
                 count, first, length, shorter, how.softcap > 0 ? ", soft cap" : "", how.sinks ? ", sinks" : "");
        buffer_guarded query = rough_new(queries * length, rng), scores = guarded_new(queries * count * sizeof(float));
        page_order order = order_pages(first + count, rng);
        cached key = cached_new(&order, format, length, rng), value = cached_new(&order, format, shorter, rng);
        for (size_t p = 0; p < first; p++) { /* NaN where nothing must be read */
            memset(place_of(&order, &key, p), 0xff, key.half.row_bytes);
            memset(place_of(&order, &value, p), 0xff, value.half.row_bytes);
        }
        buffer_guarded out = guarded_new(queries * shorter * sizeof(float));
        attend_cache cache = {key.half, value.half, order.pages};
        attend(query.data, queries, &cache, first, count, &how, scores.data, out.data);
        for (size_t g = 0; g < queries; g++) {
            attend_scoring one = {how.scale, how.softcap, how.sinks ? how.sinks + g : NULL};
            check_query(c, (float *)query.data + g * length, key.values + first * length,
                        value.values + first * shorter, count, length, shorter, &one, (float *)out.data + g * shorter);
        }
        expect(c, "wrote before the output", guarded_intact(&out) && guarded_intact(&scores));
        cached_free(&key), cached_free(&value);
        guarded_free(&query), guarded_free(&scores), guarded_free(&out);
    }
}

/* Checks some rows, alone and together: more and fewer positions than a block has, windows, several heads. */
static void check_attend_rows(check *c, kernel_attend_rows *attend, number_format format, uint64_t *rng)
{
    static const size_t lengths[] = {1, 8, 16, 20, 64, 80, 128, 300}, counts[] = {1, 5, 96, 128, 129, 200, 300};
    for (size_t s = 0; s < 112; s++) {
        size_t length = whole_blocks(format, lengths[s % 8]), heads = 1 + random_below(rng, 5),
               rows = 1 + random_below(rng, 12);
        while (heads * rows * length > RUN_VALUES)
            rows--;
        size_t seen = counts[s / 8 % 7], count = seen + rows - 1, stride = heads * length + random_below(rng, 3);
        size_t shorter = s % 3 == 2 ? whole_blocks(format, 1 + random_below(rng, length)) : length;
        size_t out_stride = heads * shorter + random_below(rng, 3);
        float sinks[5];
        for (size_t g = 0; g < 5; g++)
            sinks[g] = 2 * random_rough(rng);
        attend_run run = {.stride = stride,
                          .out_stride = out_stride,
                          .rows = rows,
                          .heads = heads,
                          .seen = seen,
                          .first = s % 4 == 2 ? random_below(rng, seen) : 0,
                          .window = s % 4 == 1 ? 1 + random_below(rng, 150) : 0,
                          .scoring = {.scale = 1 / sqrtf((float)length), .softcap = s % 3 == 1 ? 2 : 0}};
        run.scoring.sinks = s % 5 == 1 ? sinks : NULL;
        snprintf(c->size, sizeof(c->size), "%zu rows, %zu heads, %zu seen from %zu, window %zu, length %zu, %zu%s%s",
                 rows, heads, seen, run.first, run.window, length, shorter, run.scoring.softcap > 0 ? ", soft cap" : "",
                 run.scoring.sinks ? ", sinks" : "");
        buffer_guarded query = rough_new((rows - 1) * stride + heads * length, rng);
        buffer_guarded out = guarded_new(((rows - 1) * out_stride + heads * shorter) * sizeof(float));
        buffer_guarded alone = guarded_new(heads * shorter * sizeof(float));
        page_order order = order_pages(count, rng);
        cached key = cached_new(&order, format, length, rng), value = cached_new(&order, format, shorter, rng);
        run.query = query.data, run.out = out.data;
        run.cache = (attend_cache){key.half, value.half, order.pages};
        attend(&run);
        for (size_t i = 0; i < rows; i++) {
            size_t end = seen + i, from = run.window && end > run.window ? end - run.window : run.first;
            for (size_t g = 0; g < heads; g++) {
                attend_scoring one = {run.scoring.scale, run.scoring.softcap, run.scoring.sinks ? sinks + g : NULL};
                check_query(c, (float *)query.data + i * stride + g * length, key.values + from * length,
                            value.values + from * shorter, end - from, length, shorter, &one,
                            (float *)out.data + i * out_stride + g * shorter);
            }
            attend_run single = run;
            single.query += i * stride, single.out = alone.data, single.rows = 1, single.seen = end;
            attend(&single);
            expect(c, "a row alone differs",
                   memcmp(alone.data, (float *)out.data + i * out_stride, heads * shorter * sizeof(float)) == 0);
        }
        expect(c, "wrote before the output", guarded_intact(&out) && guarded_intact(&alone));
        cached_free(&key), cached_free(&value);
        guarded_free(&query), guarded_free(&out), guarded_free(&alone);
    }
}

/* Makes a run of every so many positions of the first page, from the last of the first so many on. */
static void take_every(score_run *run, size_t every)
{
    run->cache.key.data = attend_at(&run->cache, &run->cache.key, every - 1);
    run->cache.key.row_bytes *= every;
    run->apart = true;
    run->count = run->count < KV_PAGE / every ? run->count : KV_PAGE / every;
}

/* Scores of positions, one after the other or every so many, against double precision, and that those of one position alone have the
 * same bits. */
static void check_score(check *c, kernel_score *score, number_format format, uint64_t *rng)
{
    static const size_t lengths[] = {1, 8, 16, 20, 64, 80, 128, 320}, heads[] = {1, 2, 5, 16, 17, 32, 40};
    static const size_t counts[] = {1, 2, 7, 16, 33, KV_PAGE - 1, KV_PAGE, 2 * KV_PAGE + 5};
    for (size_t s = 0; s < 140; s++) {
        size_t length = whole_blocks(format, lengths[s % 8]), count = counts[s / 8 % 8], n = heads[s % 7];
        size_t every = s < 112 ? 1 : (size_t)2 << random_below(rng, 6),
               first = every > 1 ? 0 : random_below(rng, KV_PAGE + 2);
        snprintf(c->size, sizeof(c->size), "%zu heads, %zu positions from %zu on, one of %zu, length %zu%s", n, count,
                 first, every, length, s % 3 == 1 ? ", below 0 too" : "");
        buffer_guarded query = rough_new(n * length, rng), weights = rough_new(n, rng);
        buffer_guarded scores = guarded_new(count * sizeof(float)), alone = guarded_new(sizeof(float));
        page_order order = order_pages(every > 1 ? KV_PAGE : first + count, rng);
        cached key = cached_new(&order, format, length, rng);
        attend_cache cache = {.key = key.half, .pages = order.pages};
        score_run run = {query.data, weights.data, n, cache, first, count, scores.data, false, s % 3 == 1};
        static const uint32_t only = 0;
        if (every > 1) {
            take_every(&run, every);
            run.cache.pages = &only;
            count = run.count;
        }
        score(&run);
        for (size_t p = 0; p < count; p++) {
            size_t position = every > 1 ? p * every + every - 1 : first + p;
            double want = 0, magnitude = 0;
            for (size_t h = 0; h < n; h++) {
                double sum = 0, size = 0, weight = ((float *)weights.data)[h];
                for (size_t i = 0; i < length; i++) {
                    double term = (double)((float *)query.data)[h * length + i] * key.values[position * length + i];
                    sum += term;
                    size += fabs(term);
                }
                want += weight * (run.below ? sum : fmax(sum, 0));
                magnitude += fabs(weight) * size;
            }
            expect_close(c, p, want, ((float *)scores.data)[p], magnitude * (double)(length + n + 2) * EPSILON + TINY);
        }
        run.first = first + count / 2, run.count = 1, run.scores = alone.data;
        score(&run);
        expect(c, "a position alone differs", *(uint32_t *)alone.data == ((uint32_t *)scores.data)[count / 2]);
        ((float *)query.data)[n * length - 1] = NAN; /* of the last head, which then scores 0 unless it may be below */
        score(&run);
        expect(c, "NaN is not what the limit says", (bool)isnan(*(float *)alone.data) == run.below);
        expect(c, "wrote before the output", guarded_intact(&scores) && guarded_intact(&alone));
        cached_free(&key);
        guarded_free(&query), guarded_free(&weights), guarded_free(&scores), guarded_free(&alone);
    }
}

/* What was summed shrinks to -0 beside a far greater score, and a product too small for a number is -0, too. The sum stays so
 * unless a weight of 0 follows, of a position that only a later row sees: the sign must not tell whether there was one. */
static void check_zero_rows(check *c, kernel_attend_rows *attend, uint64_t *rng)
{
    enum { SEEN = KV_PAGE + 2, LENGTH = 16 };
    float query[2 * LENGTH], out[2 * LENGTH] = {0}, alone[LENGTH] = {0};
    page_order order = order_pages(SEEN + 1, rng);
    cached key = cached_new(&order, FORMAT_F32, LENGTH, rng), value = cached_new(&order, FORMAT_F32, LENGTH, rng);
    for (size_t p = 0; p <= SEEN; p++)
        for (size_t i = 0; i < LENGTH; i++) {
            static const float keys[] = {1000, 994.375F, 0},
                               values[] = {-0.0F, -1e-8F, 1}; /* weights: 1, exp(-90), 0 */
            float k = p < KV_PAGE ? 0 : keys[p - KV_PAGE], v = p < KV_PAGE ? -1 : values[p - KV_PAGE];
            memcpy(place_of(&order, &key, p) + i * sizeof k, &k, sizeof k);
            memcpy(place_of(&order, &value, p) + i * sizeof v, &v, sizeof v);
        }
    for (size_t i = 0; i < 2 * LENGTH; i++)
        query[i] = 1;
    attend_run run = {.query = query,
                      .out = out,
                      .stride = LENGTH,
                      .out_stride = LENGTH,
                      .rows = 2,
                      .heads = 1,
                      .seen = SEEN,
                      .scoring = {.scale = 1},
                      .cache = {key.half, value.half, order.pages}};
    snprintf(c->size, sizeof(c->size), "a sum of -0");
    attend(&run);
    run.out = alone, run.rows = 1;
    attend(&run);
    for (size_t i = 0; i < LENGTH; i++)
        expect(c, "a row alone differs", alone[i] == out[i] && signbit(alone[i]) == signbit(out[i]));
    cached_free(&key), cached_free(&value);
}

void check_vectors(check *c, const kernels *k, const kernels *previous, uint64_t seed)
{
    uint64_t rng = seed * 37;
/* Runs a check where the kernel is new at this level. */
#define CHECK(member, name, run)         \
    if (k->member != previous->member) { \
        check_begin(c, name);            \
        run;                             \
    }
    CHECK(quantize, "quantize", check_quantize(c, k, &rng))
    CHECK(rms_norm, "rms_norm", check_rms_norm(c, k, &rng))
    CHECK(add, "add", check_add(c, k, &rng))
    CHECK(layer_norm, "layer_norm", check_layer_norm(c, k, &rng))
    CHECK(activate[ACTIVATION_SILU], "silu", check_smooth(c, k, &smooth_silu, &rng))
    CHECK(activate[ACTIVATION_RELU], "relu", check_relu(c, k, ACTIVATION_RELU, &rng))
    CHECK(activate[ACTIVATION_RELU2], "relu2", check_relu(c, k, ACTIVATION_RELU2, &rng))
    CHECK(activate[ACTIVATION_GELU], "gelu", check_smooth(c, k, &smooth_gelu, &rng))
    CHECK(activate[ACTIVATION_LOGISTIC], "logistic", check_smooth(c, k, &smooth_logistic, &rng))
    CHECK(activate[ACTIVATION_GELU_TANH], "gelu_tanh", check_smooth(c, k, &smooth_gelu_tanh, &rng))
    CHECK(activate[ACTIVATION_SWIGLU_CLAMPED], "swiglu_clamped", check_limiting(c, k, &swiglu_clamped, &rng))
    CHECK(activate[ACTIVATION_SILU_LIMITED], "silu_limited", check_limiting(c, k, &silu_limited, &rng))
    CHECK(activate[ACTIVATION_SILU_CLAMPED], "silu_clamped", check_limiting(c, k, &silu_clamped, &rng))
    CHECK(activate[ACTIVATION_XIELU], "xielu", check_smooth(c, k, &smooth_xielu, &rng))
    CHECK(rope[ROPE_NEIGHBOURS], "rope", check_rope(c, k, ROPE_NEIGHBOURS, &rng))
    CHECK(rope[ROPE_HALVES], "rope_halves", check_rope(c, k, ROPE_HALVES, &rng))
    CHECK(to_half, "to_half", check_to_half(c, k, &rng))
    CHECK(to_bfloat, "to_bfloat", check_to_bfloat(c, k, &rng))
    CHECK(read, "read", check_read(c, k, &rng))
    CHECK(attend[FORMAT_F32], "attend_f32", check_attend(c, k->attend[FORMAT_F32], FORMAT_F32, &rng))
    CHECK(attend[FORMAT_F16], "attend_f16", check_attend(c, k->attend[FORMAT_F16], FORMAT_F16, &rng))
    CHECK(attend[FORMAT_Q8_0], "attend_q8_0", check_attend(c, k->attend[FORMAT_Q8_0], FORMAT_Q8_0, &rng))
    CHECK(attend_rows[FORMAT_F32], "attend_rows_f32",
          check_attend_rows(c, k->attend_rows[FORMAT_F32], FORMAT_F32, &rng))
    CHECK(attend_rows[FORMAT_F32], "attend_rows_f32", check_zero_rows(c, k->attend_rows[FORMAT_F32], &rng))
    CHECK(attend_rows[FORMAT_F16], "attend_rows_f16",
          check_attend_rows(c, k->attend_rows[FORMAT_F16], FORMAT_F16, &rng))
    CHECK(attend_rows[FORMAT_Q8_0], "attend_rows_q8_0",
          check_attend_rows(c, k->attend_rows[FORMAT_Q8_0], FORMAT_Q8_0, &rng))
    CHECK(score[FORMAT_F32], "score_f32", check_score(c, k->score[FORMAT_F32], FORMAT_F32, &rng))
    CHECK(score[FORMAT_F16], "score_f16", check_score(c, k->score[FORMAT_F16], FORMAT_F16, &rng))
    CHECK(score[FORMAT_Q8_0], "score_q8_0", check_score(c, k->score[FORMAT_Q8_0], FORMAT_Q8_0, &rng))
#undef CHECK
}
