/* attend_rows.h - attention of many rows of one sequence, as prompts have them: the loop, shared by all vector levels.
 * attend_LEVEL.c includes it after attend.h and after it has defined what panel.h needs.
 *
 * Positions are taken in blocks. The keys of a block fill panels, which are multiplied with all queries; each query turns its
 * scores into weights, of which it keeps the sum and the largest score so far (Milakov and Gimelshein 2018; Dao et al. 2022,
 * FlashAttention); the values of the block fill panels, too, and are added by weight. So a key is converted once for all
 * queries, no score outlives its block, and the multiplications are those of panel.h, at its speed.
 *
 * Blocks begin at multiples of their length, and positions that a query does not see have the weight 0, which adds nothing: a
 * row has the same bits whichever rows are computed with it. */
#ifndef KERNEL_ATTEND_ROWS_H
#define KERNEL_ATTEND_ROWS_H

#include "panel.h"

#define ROWS_BLOCK 128 /* positions of a block */
_Static_assert(KV_PAGE % ROWS_BLOCK == 0, "blocks do not cross pages");

/* Some rows and heads. Query t is head t % heads of row t / heads. */
typedef struct attending {
    const attend_run *run;
    size_t queries;
    float query[RUN_VALUES], out[RUN_VALUES];       /* [queries][length of a key, a value]  */
    float weights[RUN_QUERIES][ROWS_BLOCK];         /* of the block; before, its scores    */
    float largest[RUN_QUERIES], total[RUN_QUERIES]; /* scaled score; sum of exp(score - it) */
    _Alignas(64) panel panel;
} attending;

/* Adds (or, if `first`, stores) the products of the panel with rows of x to y: one for each query. */
ALWAYS_INLINE void multiply_queries(const attending *a, size_t columns, const float *x, size_t x_stride, bool first,
                                    size_t rows, float *y, size_t y_stride)
{
    for (size_t t = 0; t < a->queries; t += TILE_TOKENS) {
        size_t n = a->queries - t < TILE_TOKENS ? a->queries - t : TILE_TOKENS;
        tile_tokens some = {.values = x + t * x_stride, .stride = x_stride};
        tiles[n](&a->panel, columns, &some, first, rows, y + t * y_stride, y_stride);
    }
}

/* Computes the scores of all queries with the positions [begin, begin + count), not yet scaled. */
ALWAYS_INLINE void score_positions(attending *a, size_t begin, size_t count, load_values *load)
{
    const attend_half *key = &a->run->cache.key;
    size_t length = key->length, bytes = key->row_bytes;
    const uint8_t *keys = attend_at(&a->run->cache, key, begin);
    for (size_t p = 0; p < count; p += PANEL_ROWS) {
        const uint8_t *row[PANEL_ROWS];
        for (size_t r = 0; r < PANEL_ROWS; r++)
            row[r] = p + r < count ? keys + (p + r) * bytes : NULL;
        for (size_t c = 0; c < length; c += PANEL_COLUMNS) {
            size_t columns = length - c < PANEL_COLUMNS ? length - c : PANEL_COLUMNS;
            fill_rows(row, c, columns, load, a->panel.weights);
            fill_rows(row + LANES, c, columns, load, (float(*)[PANEL_ROWS])(a->panel.weights[0] + LANES));
            multiply_queries(a, columns, a->query + c, length, c == 0, count - p, a->weights[0] + p, ROWS_BLOCK);
        }
    }
}

/* Turns the scores of the positions [begin, end) of a block, which query t sees, into weights; the others get 0. What was
 * summed before is scaled to the largest score. */
ALWAYS_INLINE void weigh(attending *a, size_t t, size_t begin, size_t end, size_t count)
{
    const attend_scoring *how = &a->run->scoring;
    float *weights = a->weights[t], scale = how->scale, before = a->largest[t];
    memset(weights, 0, begin * sizeof *weights);
    memset(weights + end, 0, (count - end) * sizeof *weights);
    if (how->softcap > 0) {
        for (size_t i = begin; i < end; i++)
            weights[i] *= scale;
        cap_scores(weights + begin, end - begin, how->softcap);
        scale = 1;
    }
    float largest = largest_of(weights + begin, end - begin) * scale;
    largest = largest < before ? before : largest; /* NaN stays */
    vector sum = vector_of(0), factor = vector_of(scale), less = vector_of(largest);
    for (size_t i = begin; i < end; i += LANES) {
        vector score = vector_multiply(load_first(weights + i, end - i), factor);
        store_first(weights + i, end - i, exponent(vector_subtract(score, less)));
        sum = vector_add(sum, load_first(weights + i, end - i)); /* zeros after the last one */
    }
    size_t length = a->run->cache.value.length;
    float shrink = expf(before - largest), *out = a->out + t * length;
    a->largest[t] = largest;
    a->total[t] = a->total[t] * shrink + sum_of(sum);
    for (size_t i = 0; shrink != 1 && i < length; i++)
        out[i] *= shrink;
}

/* Adds the values of the positions by weight. */
ALWAYS_INLINE void add_values(attending *a, size_t begin, size_t count, load_values *load)
{
    const attend_half *half = &a->run->cache.value;
    size_t length = half->length, bytes = half->row_bytes;
    const char *values = attend_at(&a->run->cache, half, begin);
    for (size_t d = 0; d < length; d += PANEL_ROWS) {
        size_t left = length - d, second = left > LANES ? left - LANES : 0;
        for (size_t p = 0; p < count; p++) {
            const char *value = values + p * bytes;
            vector_store(a->panel.weights[p], load(value, d, left));
            vector_store(a->panel.weights[p] + LANES, second > 0 ? load(value, d + LANES, second) : vector_of(0));
        }
        multiply_queries(a, count, a->weights[0], ROWS_BLOCK, false, left, a->out + d, length);
    }
}

/* Divides what is summed by the sum of weights, and writes it. A sink is one more score, whose value is 0. A sum of products
 * too small for a number may be -0, and stays so only if no weight 0 follows: + 0 makes it 0 in any case. */
ALWAYS_INLINE void finish_query(const attending *a, size_t t)
{
    const attend_run *run = a->run;
    size_t row = t / run->heads, head = t % run->heads, length = run->cache.value.length;
    float *out = run->out + row * run->out_stride + head * length, total = a->total[t], factor = 1;
    if (run->scoring.sinks) {
        float sink = run->scoring.sinks[head], largest = sink > a->largest[t] ? sink : a->largest[t];
        factor = expf(a->largest[t] - largest);
        total = total * factor + expf(sink - largest);
    }
    for (size_t i = 0; i < length; i++)
        out[i] = a->out[t * length + i] * factor / total + 0.0f;
}

ALWAYS_INLINE void attend_in_blocks(const attend_run *run, load_values *load)
{
    size_t length = run->cache.key.length;
    attending a;
    a.run = run;
    a.queries = run->rows * run->heads;
    for (size_t t = 0; t < a.queries; t++) {
        const float *from = run->query + t / run->heads * run->stride + t % run->heads * length;
        memcpy(a.query + t * length, from, length * sizeof *from);
        a.largest[t] = -INFINITY;
        a.total[t] = 0;
    }
    memset(a.out, 0, a.queries * run->cache.value.length * sizeof *a.out);
    size_t last = run->seen + run->rows - 1;
    for (size_t begin = attend_from(run, 0) / ROWS_BLOCK * ROWS_BLOCK; begin < last; begin += ROWS_BLOCK) {
        size_t count = last - begin < ROWS_BLOCK ? last - begin : ROWS_BLOCK;
        score_positions(&a, begin, count, load);
        for (size_t t = 0; t < a.queries; t++) {
            size_t end = run->seen + t / run->heads, from = attend_from(run, t / run->heads);
            from = from > begin ? from - begin : 0;
            end = end > begin ? end - begin : 0;
            end = end < count ? end : count;
            if (from < end)
                weigh(&a, t, from, end, count);
            else /* it sees none of them */
                memset(a.weights[t], 0, count * sizeof **a.weights);
        }
        add_values(&a, begin, count, load);
    }
    for (size_t t = 0; t < a.queries; t++)
        finish_query(&a, t);
}

#define ATTEND_ROWS(format, level)                                    \
    static void attend_rows_##format##_##level(const attend_run *run) \
    {                                                                 \
        attend_in_blocks(run, load_##format);                         \
    }

/* The kernels of the formats of a cache. */
#define ATTENTION(level)                                           \
    ATTEND(f32, level)                                             \
    ATTEND(f16, level)                                             \
    ATTEND_CONVERTED(q8_0, level)                                  \
    SCORE(f32, level)                                              \
    SCORE(f16, level)                                              \
    SCORE_CONVERTED(q8_0, level)                                   \
    ATTEND_ROWS(f32, level)                                        \
    ATTEND_ROWS(f16, level)                                        \
    ATTEND_ROWS(q8_0, level)                                       \
    const kernels level##_attention = {                            \
        .attend = {[FORMAT_F32] = attend_f32_##level,              \
                   [FORMAT_F16] = attend_f16_##level,              \
                   [FORMAT_Q8_0] = attend_q8_0_##level},           \
        .attend_rows = {[FORMAT_F32] = attend_rows_f32_##level,    \
                        [FORMAT_F16] = attend_rows_f16_##level,    \
                        [FORMAT_Q8_0] = attend_rows_q8_0_##level}, \
        .score = {                                                 \
            [FORMAT_F32] = score_f32_##level, [FORMAT_F16] = score_f16_##level, [FORMAT_Q8_0] = score_q8_0_##level}};

#endif
