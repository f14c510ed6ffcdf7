/* vector_loops.h - kernels on vectors, the ones whose loops all vector levels share. vector_LEVEL.c includes it after
 * exponent_LEVEL.h and after it has defined
 *   SQUARE_SUMS      how many vectors sum_of_squares() adds to, 2 or 4
 *   READ_BYTES       size of a register
 *   keep_above       returns `value` in the lanes in which g is above the limit, 0 in the others */
#ifndef KERNEL_VECTOR_LOOPS_H
#define KERNEL_VECTOR_LOOPS_H

#include "recur.h"

/* Uses several sums, so that an addition need not wait for the one before it and rounding errors stay small. */
static float sum_of_squares(const float *x, size_t n)
{
    vector sum[4] = {vector_of(0), vector_of(0), vector_of(0), vector_of(0)};
    size_t i = 0;
    for (; i + SQUARE_SUMS * LANES <= n; i += SQUARE_SUMS * LANES)
        for (size_t k = 0; k < SQUARE_SUMS; k++) {
            vector value = vector_load(x + i + k * LANES);
            sum[k] = vector_fma(sum[k], value, value);
        }
    for (; i < n; i += LANES) {
        vector value = load_first(x + i, n - i);
        sum[0] = vector_fma(sum[0], value, value);
    }
    return sum_of(vector_add(vector_add(sum[0], sum[1]), vector_add(sum[2], sum[3])));
}

static void OF_LEVEL(rms_norm)(const float *x, const float *weight, float epsilon, size_t n, float *out)
{
    vector scale = vector_of(1 / sqrtf(sum_of_squares(x, n) / (float)n + epsilon));
    for (size_t i = 0; i < n; i += LANES) {
        vector value = vector_multiply(load_first(x + i, n - i), scale);
        store_first(out + i, n - i, vector_multiply(value, load_first(weight + i, n - i)));
    }
}

static float sum_of_values(const float *x, size_t n)
{
    vector sum = vector_of(0);
    for (size_t i = 0; i < n; i += LANES)
        sum = vector_add(sum, load_first(x + i, n - i));
    return sum_of(sum);
}

/* Two passes: the squares of the differences, not the difference of squares, which would lose digits. */
static void OF_LEVEL(layer_norm)(const float *x, const float *weight, const float *bias, float epsilon, size_t n,
                                 float *out)
{
    vector mean = vector_of(sum_of_values(x, n) / (float)n);
    for (size_t i = 0; i < n; i += LANES)
        store_first(out + i, n - i, vector_subtract(load_first(x + i, n - i), mean));
    vector scale = vector_of(1 / sqrtf(sum_of_squares(out, n) / (float)n + epsilon));
    for (size_t i = 0; i < n; i += LANES) {
        vector value = vector_multiply(load_first(out + i, n - i), scale);
        value = vector_multiply(value, load_first(weight + i, n - i));
        store_first(out + i, n - i, bias ? vector_add(value, load_first(bias + i, n - i)) : value);
    }
}

static void OF_LEVEL(add)(const float *x, size_t n, float *y)
{
    for (size_t i = 0; i < n; i += LANES)
        store_first(y + i, n - i, vector_add(load_first(y + i, n - i), load_first(x + i, n - i)));
}

static void OF_LEVEL(silu)(const float *gate, const float *up, activation_terms terms, size_t n, float *h)
{
    (void)terms;
    for (size_t i = 0; i < n; i += LANES) {
        vector g = load_first(gate + i, n - i);
        vector value = vector_divide(g, vector_add(vector_of(1), exponent(vector_subtract(vector_of(0), g))));
        if (up)
            value = vector_multiply(value, load_first(up + i, n - i));
        store_first(h + i, n - i, value);
    }
}

static void OF_LEVEL(logistic)(const float *gate, const float *up, activation_terms terms, size_t n, float *h)
{
    (void)terms;
    for (size_t i = 0; i < n; i += LANES) {
        vector through = exponent(vector_subtract(vector_of(0), load_first(gate + i, n - i)));
        vector value = up ? load_first(up + i, n - i) : vector_of(1);
        store_first(h + i, n - i, vector_divide(value, vector_add(vector_of(1), through)));
    }
}

static void OF_LEVEL(relu)(const float *gate, const float *up, activation_terms terms, size_t n, float *h)
{
    for (size_t i = 0; i < n; i += LANES) {
        vector g = load_first(gate + i, n - i), value = g;
        if (up)
            value = vector_multiply(g, load_first(up + i, n - i));
        store_first(h + i, n - i, keep_above(g, vector_of(terms.threshold), value));
    }
}

static void OF_LEVEL(relu2)(const float *gate, const float *up, activation_terms terms, size_t n, float *h)
{
    (void)terms;
    for (size_t i = 0; i < n; i += LANES) {
        vector g = load_first(gate + i, n - i), value = vector_multiply(g, g);
        if (up)
            value = vector_multiply(value, load_first(up + i, n - i));
        store_first(h + i, n - i, keep_above(g, vector_of(0), value));
    }
}

/* (1 + tanh(y)) / 2 is 1 / (1 + exp(-2 y)). */
static void OF_LEVEL(gelu_tanh)(const float *gate, const float *up, activation_terms terms, size_t n, float *h)
{
    (void)terms;
    for (size_t i = 0; i < n; i += LANES) {
        vector g = load_first(gate + i, n - i), square = vector_multiply(g, g);
        vector inner = vector_fma(vector_of(1), square, vector_of(0.044715f));
        vector power = vector_multiply(vector_multiply(g, inner), vector_of(-2 * 0.79788456f));
        vector value = vector_divide(g, vector_add(vector_of(1), exponent(power)));
        if (up)
            value = vector_multiply(value, load_first(up + i, n - i));
        store_first(h + i, n - i, value);
    }
}

/* x Phi(x), with Phi(x) = 1 - q(x) for x > 0 and q(-x) for x < 0, q(x) = erfc(x / sqrt 2) / 2. erfc(z) is
 * exp(-z^2) times a polynomial in 1 / (1 + 0.3275911 z), with an error of at most 1.5e-7 (Abramowitz and Stegun,
 * Handbook of Mathematical Functions, 7.1.26). tests/kcheck_vectors.c derives what rounding adds. */
static void OF_LEVEL(gelu)(const float *gate, const float *up, activation_terms terms, size_t n, float *h)
{
    static const float coefficients[] = {1.061405429f / 2, -1.453152027f / 2, 1.421413741f / 2, -0.284496736f / 2,
                                         0.254829592f / 2};
    (void)terms;
    for (size_t i = 0; i < n; i += LANES) {
        vector g = load_first(gate + i, n - i), size = vector_max(vector_subtract(vector_of(0), g), g);
        vector t = vector_divide(vector_of(1), vector_fma(vector_of(1), size, vector_of(0.3275911f * 0.70710678f)));
        vector sum = vector_of(coefficients[0]);
        for (size_t k = 1; k < 5; k++)
            sum = vector_fma(vector_of(coefficients[k]), sum, t);
        vector power = vector_multiply(vector_multiply(g, g), vector_of(-0.5f));
        vector lost = vector_multiply(vector_multiply(size, vector_multiply(sum, t)), exponent(power));
        vector value = vector_subtract(vector_max(vector_of(0), g), lost); /* NaN stays: it is the second operand */
        if (up)
            value = vector_multiply(value, load_first(up + i, n - i));
        store_first(h + i, n - i, value);
    }
}

/* Returns the smaller of x and -least; NaN stays: it is the second operand. */
static inline vector limited(vector least, vector x)
{
    vector zero = vector_of(0);
    return vector_subtract(zero, vector_max(least, vector_subtract(zero, x)));
}

static void OF_LEVEL(swiglu_clamped)(const float *gate, const float *up, activation_terms terms, size_t n, float *h)
{
    vector least = vector_of(-terms.threshold), zero = vector_of(0);
    for (size_t i = 0; i < n; i += LANES) {
        vector minus =
            vector_max(least, vector_subtract(zero, load_first(gate + i, n - i))); /* -min(gate, threshold) */
        vector below = vector_add(vector_of(1), exponent(vector_multiply(minus, vector_of(1.702f))));
        vector value = vector_divide(vector_subtract(zero, minus), below);
        if (up) {
            vector u = limited(least, vector_max(least, load_first(up + i, n - i)));
            value = vector_multiply(value, vector_add(u, vector_of(1)));
        }
        store_first(h + i, n - i, value);
    }
}

/* limits_first (a constant): the limit is that of what silu reads, else of what it gives. */
ALWAYS_INLINE void limited_silu(const float *gate, const float *up, float threshold, size_t n, float *h,
                                bool limits_first)
{
    vector least = vector_of(threshold > 0 ? -threshold : -INFINITY);
    for (size_t i = 0; i < n; i += LANES) {
        vector g = load_first(gate + i, n - i);
        g = limits_first ? limited(least, g) : g;
        vector value = vector_divide(g, vector_add(vector_of(1), exponent(vector_subtract(vector_of(0), g))));
        value = limits_first ? value : limited(least, value);
        if (up)
            value = vector_multiply(value, limited(least, vector_max(least, load_first(up + i, n - i))));
        store_first(h + i, n - i, value);
    }
}

static void OF_LEVEL(silu_limited)(const float *gate, const float *up, activation_terms terms, size_t n, float *h)
{
    limited_silu(gate, up, terms.threshold, n, h, false);
}

static void OF_LEVEL(silu_clamped)(const float *gate, const float *up, activation_terms terms, size_t n, float *h)
{
    limited_silu(gate, up, terms.threshold, n, h, true);
}

/* Of x the part above zero has a square, the part below an exponential; each part is 0 where the other one is not. NaN is in both. */
static void OF_LEVEL(xielu)(const float *gate, const float *up, activation_terms terms, size_t n, float *h)
{
    vector positive = vector_of(terms.curve.positive), negative = vector_of(terms.curve.negative);
    vector linear = vector_of(terms.curve.linear), zero = vector_of(0);
    for (size_t i = 0; i < n; i += LANES) {
        vector x = load_first(gate + i, n - i), above = vector_max(zero, x);
        vector below = vector_subtract(zero, vector_max(zero, vector_subtract(zero, x)));
        vector bend = vector_subtract(vector_subtract(exponent(below), vector_of(1)), below);
        vector value = vector_fma(vector_multiply(negative, bend), vector_multiply(positive, above), above);
        value = vector_fma(value, linear, x);
        if (up)
            value = vector_multiply(value, load_first(up + i, n - i));
        store_first(h + i, n - i, value);
    }
}

static void OF_LEVEL(rope_halves)(float *x, size_t heads, size_t length, const float *cosine, const float *sine,
                                  size_t pairs)
{
    for (size_t head = 0; head < heads; head++, x += length)
        for (size_t i = 0; i < pairs; i += LANES) {
            size_t left = pairs - i;
            vector c = load_first(cosine + i, left), s = load_first(sine + i, left);
            vector first = load_first(x + i, left), second = load_first(x + pairs + i, left);
            store_first(x + i, left, vector_subtract(vector_multiply(first, c), vector_multiply(second, s)));
            store_first(x + pairs + i, left, vector_fma(vector_multiply(first, s), second, c));
        }
}

static void OF_LEVEL(to_half)(const float *x, size_t n, uint16_t *out)
{
    for (size_t i = 0; i < n; i += LANES)
        store_first_halves(out + i, n - i, load_first(x + i, n - i));
}

typedef uint64_t read_words __attribute__((vector_size(READ_BYTES), aligned(1), may_alias));

/* Reads eight streams with prefetch, as products do (streams.h). */
static uint64_t OF_LEVEL(read)(const void *data, size_t n)
{
    const uint8_t *at = data;
    size_t apart = n / 512 * 64, i = 0;
    read_words sum[GROUP] = {{0}};
    for (; i < apart; i += 64)
        for (size_t k = 0; k < GROUP; k++) {
            const uint8_t *from = at + k * apart + i;
            __builtin_prefetch(from + AHEAD);
            for (size_t part = 0; part < 64; part += READ_BYTES)
                sum[k] += *(const read_words *)(const void *)(from + part);
        }
    for (i = GROUP * apart; i < n; i += READ_BYTES)
        sum[0] += *(const read_words *)(const void *)(at + i);
    uint64_t total = 0;
    for (size_t k = 0; k < GROUP; k++)
        for (size_t word = 0; word < READ_BYTES / sizeof(total); word++)
            total += sum[k][word];
    return total;
}

#define VECTOR_KERNELS(level)                                                            \
    const kernels level##_vectors = {                                                    \
        .quantize = quantize_##level,                                                    \
        .rms_norm = rms_norm_##level,                                                    \
        .add = add_##level,                                                              \
        .layer_norm = layer_norm_##level,                                                \
        .activate = {[ACTIVATION_SILU] = silu_##level,                                   \
                     [ACTIVATION_RELU] = relu_##level,                                   \
                     [ACTIVATION_RELU2] = relu2_##level,                                 \
                     [ACTIVATION_GELU] = gelu_##level,                                   \
                     [ACTIVATION_GELU_TANH] = gelu_tanh_##level,                         \
                     [ACTIVATION_SWIGLU_CLAMPED] = swiglu_clamped_##level,               \
                     [ACTIVATION_SILU_LIMITED] = silu_limited_##level,                   \
                     [ACTIVATION_SILU_CLAMPED] = silu_clamped_##level,                   \
                     [ACTIVATION_XIELU] = xielu_##level,                                 \
                     [ACTIVATION_LOGISTIC] = logistic_##level},                          \
        .rope = {[ROPE_NEIGHBOURS] = rope_##level, [ROPE_HALVES] = rope_halves_##level}, \
        .recur = recur_##level,                                                          \
        .to_half = to_half_##level,                                                      \
        .read = read_##level,                                                            \
    };

#endif
