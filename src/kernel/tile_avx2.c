/* tile_avx2.c - block formats times many tokens of 8 bits.
 *
 * The same plan as tile_avx512.c with half as many lanes: a panel of 8 rows x 1024 columns, rows in lanes, tiles of
 * 8 rows x 4 tokens. Products of bytes are added in 16 bits as long as they fit there (a format's `run`) and then
 * widened: two products of maddubs are at most 3810 for weights of 4 bits, so 8 of them fit; 16002 for 6 bits, two fit;
 * 32512 for 8 bits with signs, one fits (block_avx2.c has the proofs). */
#include "avx2.h"

#define PANEL_ROWS    LANES
#define PANEL_COLUMNS 1024
#define TILE_TOKENS   4
#define STEP          32 /* columns that are unpacked at a time: one block of activations */

/* [..][r]: of row r. */
typedef struct panel {
    uint8_t weights[PANEL_COLUMNS / 4][PANEL_ROWS][4];
    float scales[PANEL_COLUMNS / 16][PANEL_ROWS];
    float minima[PANEL_COLUMNS / 32][PANEL_ROWS];
} panel;

/* What a tile reads of its tokens, for the columns of the panel. */
typedef struct tokens {
    const int8_t *q;     /* [TILE_TOKENS][stride] */
    const float *scales; /* [TILE_TOKENS][stride / 32] */
    const int16_t *sums; /* [TILE_TOKENS][stride / 16] */
    size_t stride;
} tokens;

typedef struct tile_format {
    size_t group;  /* columns with one scale: 16 or 32 */
    size_t run;    /* products of four columns that can be added in 16 bits */
    int offset;    /* what was added to a weight to make it unsigned */
    bool has_sign; /* weights are signed bytes */
    bool has_minima;
    /* 32 weights of a row, from a column that is a multiple of 32, and their 32 / group scales and their minimum,
     * each PANEL_ROWS apart. */
    __m256i (*unpack)(const uint8_t *row, size_t column, float *scales, float *minimum);
} tile_format;

/* ---- unpacking ---- */

ALWAYS_INLINE __m256i low_nibbles(__m256i bytes)
{
    return _mm256_and_si256(bytes, _mm256_set1_epi8(15));
}

ALWAYS_INLINE __m256i unpack_q8_0(const uint8_t *row, size_t column, float *scales, float *minimum)
{
    (void)minimum;
    const block_q8_0 *block = (const void *)(row + column / 32 * sizeof(block_q8_0));
    scales[0] = _cvtsh_ss(block->d);
    return _mm256_loadu_si256((const void *)block->q);
}

ALWAYS_INLINE __m256i unpack_q4_0(const uint8_t *row, size_t column, float *scales, float *minimum)
{
    (void)minimum;
    const block_q4_0 *block = (const void *)(row + column / 32 * sizeof(block_q4_0));
    __m128i bytes = _mm_loadu_si128((const void *)block->nibbles);
    scales[0] = _cvtsh_ss(block->d);
    return low_nibbles(_mm256_set_m128i(_mm_srli_epi16(bytes, 4), bytes));
}

ALWAYS_INLINE __m256i unpack_q4_k(const uint8_t *row, size_t column, float *scales, float *minimum)
{
    const block_q4_k *block = (const void *)(row + column / 256 * sizeof(block_q4_k));
    size_t sub = column % 256 / 32;
    uint64_t sub_scale, sub_minimum;
    sub_scales(block->scales, &sub_scale, &sub_minimum);
    scales[0] = _cvtsh_ss(block->d) * (float)(sub_scale >> 8 * sub & 255);
    minimum[0] = _cvtsh_ss(block->dmin) * (float)(sub_minimum >> 8 * sub & 255);
    __m256i nibbles = _mm256_loadu_si256((const void *)(block->nibbles + sub / 2 * 32));
    return low_nibbles(sub % 2 ? _mm256_srli_epi16(nibbles, 4) : nibbles);
}

ALWAYS_INLINE __m256i unpack_q6_k(const uint8_t *row, size_t column, float *scales, float *minimum)
{
    (void)minimum;
    const block_q6_k *block = (const void *)(row + column / 256 * sizeof(block_q6_k));
    size_t part = column % 256 / 32, half = part / 4, quarter = part % 4;
    float d = _cvtsh_ss(block->d);
    scales[0] = d * (float)block->scales[2 * part];
    scales[PANEL_ROWS] = d * (float)block->scales[2 * part + 1];
    __m256i low = _mm256_loadu_si256((const void *)(block->low + half * 64 + quarter % 2 * 32));
    __m256i high = _mm256_loadu_si256((const void *)(block->high + half * 32));
    /* The upper bits lie 0, 2, 4 and 6 bits up in a byte and belong at bit 4. */
    __m128i up = _mm_cvtsi32_si128(quarter == 0   ? 4
                                   : quarter == 1 ? 2
                                                  : 0),
            down = _mm_cvtsi32_si128(quarter == 3 ? 2 : 0);
    high = _mm256_srl_epi16(_mm256_sll_epi16(high, up), down);
    low = quarter / 2 ? _mm256_srli_epi16(low, 4) : low;
    return _mm256_or_si256(low_nibbles(low), _mm256_and_si256(high, _mm256_set1_epi8(0x30)));
}

/* Columns [start, start + columns) of up to 8 rows (NULL: zeros) into the panel. */
ALWAYS_INLINE void fill(const uint8_t *const row[PANEL_ROWS], size_t start, size_t columns, panel *p,
                        tile_format format)
{
    for (size_t c = 0; c < columns; c += STEP) {
        __m256i v[LANES];
        for (size_t r = 0; r < PANEL_ROWS; r++) {
            float *scales = &p->scales[c / format.group][r], *minimum = &p->minima[c / 32][r];
            if (row[r]) {
                v[r] = format.unpack(row[r], start + c, scales, minimum);
            } else { /* lanes that are computed but never stored: any finite values do */
                v[r] = _mm256_setzero_si256();
                for (size_t g = 0; g < STEP / format.group; g++)
                    scales[g * PANEL_ROWS] = 0;
                minimum[0] = 0;
            }
        }
        transpose_8(v);
        for (size_t k = 0; k < STEP / 4; k++)
            _mm256_store_si256((void *)p->weights[c / 4 + k], v[k]);
    }
}

/* ---- multiplying ---- */

/* Exact sums of one group (columns [k, k + group) of the panel) for `count` tokens. */
ALWAYS_INLINE void dot_group(const panel *p, size_t k, const tokens *x, size_t count, __m256i dot[TILE_TOKENS],
                             tile_format format)
{
    for (size_t t = 0; t < count; t++)
        dot[t] = _mm256_setzero_si256();
    for (size_t end = k + format.group; k < end; k += 4 * format.run) {
        __m256i pairs[TILE_TOKENS];
        for (size_t i = 0; i < format.run; i++) {
            __m256i weights = _mm256_load_si256((const void *)p->weights[k / 4 + i]);
            __m256i magnitudes = format.has_sign ? _mm256_abs_epi8(weights) : weights;
            for (size_t t = 0; t < count; t++) {
                int32_t four;
                memcpy(&four, x->q + t * x->stride + k + 4 * i, sizeof(four));
                __m256i values = _mm256_set1_epi32(four);
                if (format.has_sign)
                    values = _mm256_sign_epi8(values, weights);
                __m256i products = _mm256_maddubs_epi16(magnitudes, values);
                pairs[t] = i == 0 ? products : _mm256_add_epi16(pairs[t], products);
            }
        }
        for (size_t t = 0; t < count; t++)
            dot[t] = _mm256_add_epi32(dot[t], _mm256_madd_epi16(pairs[t], _mm256_set1_epi16(1)));
    }
}

/* Sums of 8 rows x `count` tokens over the panel's `columns`: added to y, or written there where `first`. */
ALWAYS_INLINE void tile(const panel *p, size_t columns, const tokens *x, size_t count, bool first, size_t rows,
                        float *y, size_t y_stride, tile_format format)
{
    __m256 sum[TILE_TOKENS];
    for (size_t t = 0; t < count; t++)
        sum[t] = _mm256_setzero_ps();
    for (size_t g = 0; g < columns / format.group; g++) {
        __m256i dot[TILE_TOKENS];
        for (size_t t = 0; t < count; t++) /* the tokens that come next */
            _mm_prefetch((const char *)x->q + (TILE_TOKENS + t) * x->stride + g * format.group, _MM_HINT_T0);
        dot_group(p, g * format.group, x, count, dot, format);
        __m256 d = _mm256_load_ps(p->scales[g]), minimum = _mm256_load_ps(p->minima[g * format.group / 32]);
        for (size_t t = 0; t < count; t++) {
            const int16_t *sums = x->sums + t * (x->stride / 16) + g * (format.group / 16);
            int32_t total = format.group == 16 ? sums[0] : sums[0] + sums[1];
            float dx = x->scales[t * (x->stride / 32) + g * format.group / 32];
            if (format.offset)
                dot[t] = _mm256_sub_epi32(dot[t], _mm256_set1_epi32(format.offset * total));
            __m256 scale = _mm256_mul_ps(d, _mm256_set1_ps(dx));
            sum[t] = _mm256_fmadd_ps(_mm256_cvtepi32_ps(dot[t]), scale, sum[t]);
            if (format.has_minima)
                sum[t] = _mm256_fnmadd_ps(minimum, _mm256_set1_ps(dx * (float)total), sum[t]);
        }
    }
    for (size_t t = 0; t < count; t++) {
        float *out = y + t * y_stride;
        if (!first)
            sum[t] = _mm256_add_ps(load_first(out, rows), sum[t]);
        store_first(out, rows, sum[t]);
    }
}

ALWAYS_INLINE void tile_of(const panel *p, size_t columns, const tokens *x, size_t count, bool first, size_t rows,
                           float *y, size_t y_stride, tile_format format)
{
    /* A constant count lets the compiler keep the sums in registers. */
    switch (count) {
    case 1:
        tile(p, columns, x, 1, first, rows, y, y_stride, format);
        break;
    case 2:
        tile(p, columns, x, 2, first, rows, y, y_stride, format);
        break;
    case 3:
        tile(p, columns, x, 3, first, rows, y, y_stride, format);
        break;
    default:
        tile(p, columns, x, 4, first, rows, y, y_stride, format);
        break;
    }
}

/* ---- the loops, compiled once per format ---- */

ALWAYS_INLINE void product(const matrix *w, const uint32_t *list, size_t begin, size_t end, const kernel_input *x,
                           float *y, size_t y_stride, tile_format format)
{
    _Alignas(32) panel p;
    for (size_t i = begin; i < end; i += PANEL_ROWS) {
        const uint8_t *row[PANEL_ROWS];
        for (size_t r = 0; r < PANEL_ROWS; r++)
            row[r] = i + r < end ? listed_row(w, list, i + r) : NULL;
        for (size_t c = 0; c < x->columns; c += PANEL_COLUMNS) {
            size_t n = x->columns - c < PANEL_COLUMNS ? x->columns - c : PANEL_COLUMNS;
            fill(row, c, n, &p, format);
            for (size_t t = 0; t < x->count; t += TILE_TOKENS) {
                size_t count = x->count - t < TILE_TOKENS ? x->count - t : TILE_TOKENS, at = t * x->columns + c;
                tokens part = {x->q + at, x->scales + at / 32, x->sums + at / 16, x->columns};
                tile_of(&p, n, &part, count, c == 0, end - i, y + t * y_stride + i, y_stride, format);
            }
        }
    }
}

#define PRODUCT(name, group, run, offset, has_sign, has_minima)                                                    \
    static __attribute__((noinline)) void tiles_##name##_avx2(const matrix *w, const uint32_t *list, size_t begin, \
                                                              size_t end, const kernel_input *x, float *y,         \
                                                              size_t y_stride)                                     \
    {                                                                                                              \
        tile_format format = {group, run, offset, has_sign, has_minima, unpack_##name};                            \
        product(w, list, begin, end, x, y, y_stride, format);                                                      \
    }
PRODUCT(q8_0, 32, 1, 0, true, false)
PRODUCT(q4_0, 32, 8, 8, false, false)
PRODUCT(q4_k, 32, 8, 0, false, true)
PRODUCT(q6_k, 16, 2, 32, false, false)

static kernel_product *const products[FORMAT_COUNT] = {
    [FORMAT_Q8_0] = tiles_q8_0_avx2,
    [FORMAT_Q4_0] = tiles_q4_0_avx2,
    [FORMAT_Q4_K] = tiles_q4_k_avx2,
    [FORMAT_Q6_K] = tiles_q6_k_avx2,
};

void avx2_product_tiles(const matrix *w, const uint32_t *list, size_t begin, size_t end, const kernel_input *x,
                        float *y, size_t y_stride)
{
    products[w->format](w, list, begin, end, x, y, y_stride);
}
