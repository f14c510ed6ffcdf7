/* neuron_avx2.c - neuron-major networks: selects the neurons that fire, and adds up their rows. The plan is that of
 * neuron_avx512.h, with 32 columns in registers for one token, and tiles of 64 columns for many. */
#include "decode_avx2.h"

#define ROWS_AT_ONCE 8  /* rows at a time with one token */
#define TILE_ROWS    64 /* rows at a time with many tokens */
#define TILE_COLUMNS 64

/* Loads the sums of n columns: whole registers, or fewer than one. */
ALWAYS_INLINE void load_sums(const float *y, size_t n, __m256 *sum)
{
    for (size_t v = 0; v * LANES < n; v++)
        sum[v] = n > LANES ? _mm256_loadu_ps(y + v * LANES) : load_first(y, n);
}

ALWAYS_INLINE void store_sums(const __m256 *sum, size_t n, float *y)
{
    for (size_t v = 0; v * LANES < n; v++)
        if (n > LANES)
            _mm256_storeu_ps(y + v * LANES, sum[v]);
        else
            store_first(y, n, sum[v]);
}

/* ---- one token ---- */

/* Rows that are added together, each from the chunk's first column on, and the rows prefetched meanwhile. */
typedef struct adding {
    size_t count;
    const uint8_t *now[ROWS_AT_ONCE];
    uintptr_t next[ROWS_AT_ONCE]; /* addresses, not pointers: the last prefetch may lie behind the row */
    float h[ROWS_AT_ONCE];
    float scales[ROWS_AT_ONCE][WEIGHT_SCALES];
} adding;

/* Adds the rows to y, the sums of n columns from `column` of the chunk. */
ALWAYS_INLINE void add_columns(const adding *rows, size_t column, size_t n, float *y, weight_decoder format)
{
    __m256 sum[WEIGHT_VECTORS];
    load_sums(y, n, sum);
    size_t at = column / format.block_values * format.block_bytes;
    for (size_t r = 0; r < rows->count; r++) {
        size_t bytes = n * format.block_bytes / format.block_values;
        for (size_t i = 0; i < bytes; i += 64)
            _mm_prefetch((const char *)(rows->next[r] + at + i), _MM_HINT_T0);
        __m256 w[WEIGHT_VECTORS], h = _mm256_set1_ps(rows->h[r]);
        format.decode(rows->now[r], rows->scales[r], column, n, w);
        for (size_t v = 0; v * LANES < n; v++)
            sum[v] = _mm256_fmadd_ps(h, w[v], sum[v]);
    }
    store_sums(sum, n, y);
}

ALWAYS_INLINE void add_chunk(adding *rows, size_t columns, float *y, weight_decoder format)
{
    for (size_t r = 0; r < rows->count && format.scales; r++)
        format.scales(rows->now[r], columns, rows->scales[r]);
    size_t c = 0;
    for (; c + WEIGHT_STEP <= columns; c += WEIGHT_STEP)
        add_columns(rows, c, WEIGHT_STEP, y + c, format);
    for (; c < columns && format.block_values == 1; c += LANES)
        add_columns(rows, c, columns - c < LANES ? columns - c : LANES, y + c, format);
    size_t bytes = WEIGHT_CHUNK / format.block_values * format.block_bytes;
    for (size_t r = 0; r < rows->count; r++) {
        rows->now[r] += bytes;
        rows->next[r] += bytes;
    }
}

ALWAYS_INLINE void accumulate(const matrix *w, const uint32_t *list, size_t begin, size_t end, const float *h, float *y,
                              weight_decoder format)
{
    for (size_t i = begin; i < end; i += ROWS_AT_ONCE) {
        adding rows;
        rows.count = end - i < ROWS_AT_ONCE ? end - i : ROWS_AT_ONCE;
        for (size_t r = 0; r < rows.count; r++) {
            rows.now[r] = listed_row(w, list, i + r);
            rows.next[r] = (uintptr_t)listed_row(w, list, i + r + ROWS_AT_ONCE < end ? i + r + ROWS_AT_ONCE : end - 1);
            rows.h[r] = h[i + r];
        }
        for (size_t c = 0; c < w->columns; c += WEIGHT_CHUNK)
            add_chunk(&rows, w->columns - c < WEIGHT_CHUNK ? w->columns - c : WEIGHT_CHUNK, y + c, format);
    }
}

/* ---- many tokens ---- */

typedef struct tile {
    float values[TILE_ROWS][TILE_COLUMNS];
} tile;

/* Returns which of `rows` coefficients are not zero: bit r stands for row r. */
ALWAYS_INLINE uint64_t find_firing(const float *h, size_t rows)
{
    uint64_t fire = 0;
    for (size_t r = 0; r < rows; r += LANES) {
        __m256 values = load_first(h + r, rows - r);
        __m256 differ = _mm256_cmp_ps(values, _mm256_setzero_ps(), _CMP_NEQ_UQ); /* NaN is not zero */
        fire |= (uint64_t)(unsigned)_mm256_movemask_ps(differ) << r;
    }
    return fire;
}

/* Adds the firing rows for one token: n sums from `column` of the tile on. */
ALWAYS_INLINE void add_firing(const tile *t, size_t column, size_t n, uint64_t fire, const float *h, float *y)
{
    __m256 sum[TILE_COLUMNS / LANES];
    load_sums(y, n, sum);
    for (; fire; fire &= fire - 1) {
        size_t r = (size_t)__builtin_ctzll(fire);
        __m256 coefficient = _mm256_set1_ps(h[r]);
        for (size_t v = 0; v * LANES < n; v++) /* values after the last column are not stored */
            sum[v] = _mm256_fmadd_ps(coefficient, _mm256_load_ps(t->values[r] + column + v * LANES), sum[v]);
    }
    store_sums(sum, n, y);
}

static void add_tile(const tile *t, size_t rows, size_t columns, const float *h, size_t h_stride, size_t tokens,
                     float *y, size_t y_stride)
{
    for (size_t k = 0; k < tokens; k++) {
        const float *coefficients = h + k * h_stride;
        uint64_t fire = find_firing(coefficients, rows);
        float *out = y + k * y_stride;
        if (columns == TILE_COLUMNS)
            add_firing(t, 0, TILE_COLUMNS, fire, coefficients, out);
        else
            for (size_t c = 0; c < columns; c += LANES)
                add_firing(t, c, columns - c < LANES ? columns - c : LANES, fire, coefficients, out + c);
    }
}

ALWAYS_INLINE void accumulate_many(const matrix *w, const uint32_t *list, size_t begin, size_t end, size_t column,
                                   size_t columns, const float *h, size_t h_stride, size_t tokens, float *y,
                                   size_t y_stride, weight_decoder format)
{
    _Alignas(32) tile t;
    size_t at = column / format.block_values * format.block_bytes;
    for (size_t i = begin; i < end; i += TILE_ROWS)
        for (size_t c = 0; c < columns; c += TILE_COLUMNS) {
            size_t rows = end - i < TILE_ROWS ? end - i : TILE_ROWS;
            size_t n = columns - c < TILE_COLUMNS ? columns - c : TILE_COLUMNS;
            for (size_t r = 0; r < rows; r++)
                decode_columns(listed_row(w, list, i + r) + at, columns, c, n, t.values[r], format);
            add_tile(&t, rows, n, h + i, h_stride, tokens, y + c, y_stride);
        }
}

/* ---- which neurons fire ---- */

/* Returns which of 4 values pass, as bits. */
typedef int pass_function(__m128 value, __m128 threshold);

ALWAYS_INLINE int is_above(__m128 value, __m128 threshold)
{
    return _mm_movemask_ps(_mm_cmp_ps(value, threshold, _CMP_GT_OQ));
}

ALWAYS_INLINE int is_from(__m128 value, __m128 threshold)
{
    return _mm_movemask_ps(_mm_cmp_ps(value, threshold, _CMP_NLT_UQ));
}

/* !(|value| <= threshold), so that NaN passes */
ALWAYS_INLINE int is_beyond(__m128 value, __m128 threshold)
{
    return _mm_movemask_ps(_mm_cmp_ps(_mm_andnot_ps(_mm_set1_ps(-0.0f), value), threshold, _CMP_NLE_UQ));
}

/* The numbers of the bits that are set, in order; the entries after them do not matter. */
// clang-format off
static const int32_t packed_lanes[16][4] = {
    {0, 0, 0, 0}, {0, 0, 0, 0}, {1, 0, 0, 0}, {0, 1, 0, 0}, {2, 0, 0, 0}, {0, 2, 0, 0}, {1, 2, 0, 0}, {0, 1, 2, 0},
    {3, 0, 0, 0}, {0, 3, 0, 0}, {1, 3, 0, 0}, {0, 1, 3, 0}, {2, 3, 0, 0}, {0, 2, 3, 0}, {1, 2, 3, 0}, {0, 1, 2, 3},
};
// clang-format on

/* Selects from four values at a time. The selected ones are stored as a whole register. That never writes beyond what
 * has been read, so it is safe in place and within the n entries. */
ALWAYS_INLINE size_t select_passing(const float *values, const uint32_t *ids, uint32_t first, size_t n, float threshold,
                                    uint32_t *selected_ids, float *selected, pass_function *passes)
{
    const __m128i counting = _mm_set_epi32(3, 2, 1, 0);
    const __m128 limit = _mm_set1_ps(threshold);
    size_t count = 0, i = 0;
    for (; i + 4 <= n; i += 4) {
        __m128 value = _mm_loadu_ps(values + i);
        __m128i id = ids ? _mm_loadu_si128((const void *)(ids + i))
                         : _mm_add_epi32(counting, _mm_set1_epi32((int)(first + (uint32_t)i)));
        int pass = passes(value, limit);
        __m128i lanes = _mm_loadu_si128((const void *)packed_lanes[pass]);
        _mm_storeu_si128((void *)(selected_ids + count),
                         _mm_castps_si128(_mm_permutevar_ps(_mm_castsi128_ps(id), lanes)));
        if (selected)
            _mm_storeu_ps(selected + count, _mm_permutevar_ps(value, lanes));
        count += (size_t)__builtin_popcount((unsigned)pass);
    }
    for (; i < n; i++) {
        float value = values[i];
        uint32_t id = ids ? ids[i] : first + (uint32_t)i;
        if (passes(_mm_set1_ps(value), limit)) {
            selected_ids[count] = id;
            if (selected)
                selected[count] = value;
            count++;
        }
    }
    return count;
}

static size_t select_above_avx2(const float *values, const uint32_t *ids, uint32_t first, size_t n, float threshold,
                                uint32_t *selected_ids, float *selected)
{
    return select_passing(values, ids, first, n, threshold, selected_ids, selected, is_above);
}

static size_t select_from_avx2(const float *values, const uint32_t *ids, uint32_t first, size_t n, float threshold,
                               uint32_t *selected_ids, float *selected)
{
    return select_passing(values, ids, first, n, threshold, selected_ids, selected, is_from);
}

static size_t select_beyond_avx2(const float *values, const uint32_t *ids, uint32_t first, size_t n, float threshold,
                                 uint32_t *selected_ids, float *selected)
{
    return select_passing(values, ids, first, n, threshold, selected_ids, selected, is_beyond);
}

/* ---- the table ---- */

#define X(id, name, scales, values, bytes)                                                                     \
    static void accumulate_##name##_avx2(const matrix *w, const uint32_t *list, size_t begin, size_t end,      \
                                         const float *h, float *y)                                             \
    {                                                                                                          \
        weight_decoder format = {values, bytes, scales, decode_##name};                                        \
        accumulate(w, list, begin, end, h, y, format);                                                         \
    }                                                                                                          \
    static void accumulate_many_##name##_avx2(const matrix *w, const uint32_t *list, size_t begin, size_t end, \
                                              size_t column, size_t columns, const float *h, size_t h_stride,  \
                                              size_t tokens, float *y, size_t y_stride)                        \
    {                                                                                                          \
        weight_decoder format = {values, bytes, scales, decode_##name};                                        \
        accumulate_many(w, list, begin, end, column, columns, h, h_stride, tokens, y, y_stride, format);       \
    }
WEIGHT_DECODERS(X)
#undef X

const kernels avx2_neurons = {
#define X(id, name, ...) [FORMAT_##id] = accumulate_##name##_avx2,
    .accumulate = {WEIGHT_DECODERS(X)},
#undef X
#define X(id, name, ...) [FORMAT_##id] = accumulate_many_##name##_avx2,
    .accumulate_many = {WEIGHT_DECODERS(X)},
#undef X
    .select =
        {[SELECT_ABOVE] = select_above_avx2, [SELECT_FROM] = select_from_avx2, [SELECT_BEYOND] = select_beyond_avx2},
};
