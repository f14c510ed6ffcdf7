/* copy_avx512vnni.c - the formats of coarse copies (SIGNS1, LEVELS2) times one token of 8 bits, for AVX-512 with VNNI.
 *
 * As copy_avx2.c, with 16 runs in a register: 512 columns of SIGNS1, 256 of LEVELS2. dpbusd adds four products in a
 * lane of 32 bits, so that a place takes three instructions: shift, mask, dpbusd. Per row and register: SIGNS1 32
 * instructions for 80 bytes, LEVELS2 20 for 72. */
#include "avx512.h"
#include "spans.h"

#define RUNS   16 /* in a register */
#define PLACES 8  /* of a run, at most; a place of a register is a word of 32 bits in each run of the token */

/* Returns the word of 16 bits of a span of two registers that overlap: `bytes` long, the second ends with it. */
#define WORD(w, bytes)    (uint16_t)((w) < 32 ? (w) : 32 + (w) - ((bytes)-64) / 2)
#define FOUR(w, bytes)    WORD(w, bytes), WORD((w) + 1, bytes), WORD((w) + 2, bytes), WORD((w) + 3, bytes)
#define TIMES_2(w, bytes) WORD(w, bytes), WORD(w, bytes)
#define TIMES_4(w, bytes) TIMES_2(w, bytes), TIMES_2(w, bytes)
#define SIGNS1_BYTES      (RUNS / 2 * sizeof(block_signs1))
#define LEVELS2_BYTES     (RUNS / 4 * sizeof(block_levels2))

static const uint16_t signs1_numbers[32] = {FOUR(1, SIGNS1_BYTES),  FOUR(6, SIGNS1_BYTES),  FOUR(11, SIGNS1_BYTES),
                                            FOUR(16, SIGNS1_BYTES), FOUR(21, SIGNS1_BYTES), FOUR(26, SIGNS1_BYTES),
                                            FOUR(31, SIGNS1_BYTES), FOUR(36, SIGNS1_BYTES)};
static const uint16_t signs1_scales[32] = {
    TIMES_2(0, SIGNS1_BYTES),  TIMES_2(5, SIGNS1_BYTES),  TIMES_2(10, SIGNS1_BYTES), TIMES_2(15, SIGNS1_BYTES),
    TIMES_2(20, SIGNS1_BYTES), TIMES_2(25, SIGNS1_BYTES), TIMES_2(30, SIGNS1_BYTES), TIMES_2(35, SIGNS1_BYTES)};
static const uint16_t levels2_numbers[32] = {FOUR(1, LEVELS2_BYTES),  FOUR(5, LEVELS2_BYTES),  FOUR(10, LEVELS2_BYTES),
                                             FOUR(14, LEVELS2_BYTES), FOUR(19, LEVELS2_BYTES), FOUR(23, LEVELS2_BYTES),
                                             FOUR(28, LEVELS2_BYTES), FOUR(32, LEVELS2_BYTES)};
static const uint16_t levels2_scales[32] = {TIMES_4(0, LEVELS2_BYTES), TIMES_4(9, LEVELS2_BYTES),
                                            TIMES_4(18, LEVELS2_BYTES), TIMES_4(27, LEVELS2_BYTES)};

/* A weight is d * (2 * number - offset). */
typedef struct copy_format {
    size_t run;    /* values of a run                                                            */
    size_t places; /* run / 4: each takes 8 / places bits of a byte                              */
    size_t bytes;  /* of 16 runs                                                                 */
    int offset;
    const uint16_t *numbers, *scales; /* words of a span: the numbers; the scale of each run     */
} copy_format;

#define SIGNS1  ((copy_format){32, 8, SIGNS1_BYTES, 1, signs1_numbers, signs1_scales})
#define LEVELS2 ((copy_format){16, 4, LEVELS2_BYTES, 3, levels2_numbers, levels2_scales})

/* What is prepared of the token for 16 runs. */
typedef struct copy_span {
    __m512i q[PLACES]; /* register j holds word j of each run */
    __m512i start;     /* -offset times the sum of each run   */
    __m512 scale;      /* of each run                         */
} copy_span;

/* ---- the token ---- */

/* Takes the even and the odd words of two registers apart until every place has a register of its own. */
ALWAYS_INLINE void gather_places(const int8_t *q, size_t places, __m512i out[PLACES])
{
    const __m512i even = _mm512_set_epi32(30, 28, 26, 24, 22, 20, 18, 16, 14, 12, 10, 8, 6, 4, 2, 0);
    const __m512i odd = _mm512_add_epi32(even, _mm512_set1_epi32(1));
    __m512i v[PLACES], w[PLACES];
    UNROLLED
    for (size_t i = 0; i < places; i++)
        v[i] = _mm512_loadu_si512(q + i * 64);
    UNROLLED
    for (size_t length = places; length > 1; length /= 2) { /* lists of so many registers become two of half */
        UNROLLED
        for (size_t i = 0; i < places / 2; i++) {
            size_t first = i / (length / 2) * length, k = i % (length / 2);
            w[first + k] = _mm512_permutex2var_epi32(v[first + 2 * k], even, v[first + 2 * k + 1]);
            w[first + length / 2 + k] = _mm512_permutex2var_epi32(v[first + 2 * k], odd, v[first + 2 * k + 1]);
        }
        UNROLLED
        for (size_t i = 0; i < places; i++)
            v[i] = w[i];
    }
    UNROLLED
    for (size_t i = 0; i < places; i++) /* the lowest bit of a place was taken first: its bits are reversed */
        out[i] = v[places == 8 ? (i & 1) * 4 + (i & 2) + i / 4 : (i & 1) * 2 + i / 2];
}

ALWAYS_INLINE copy_span read_span(const int8_t *q, const int16_t *sums, const float *scales, copy_format format)
{
    const __m512i halves = _mm512_set_epi32(7, 7, 6, 6, 5, 5, 4, 4, 3, 3, 2, 2, 1, 1, 0, 0);
    copy_span t;
    gather_places(q, format.places, t.q);
    if (format.run == Q8_BLOCK) {
        t.start = _mm512_madd_epi16(_mm512_loadu_si512(sums), _mm512_set1_epi16((int16_t)-format.offset));
        t.scale = _mm512_loadu_ps(scales);
    } else {
        __m512i sum = _mm512_cvtepi16_epi32(_mm256_loadu_si256((const void *)sums));
        t.start = _mm512_mullo_epi32(sum, _mm512_set1_epi32(-format.offset));
        t.scale = _mm512_permutexvar_ps(halves, _mm512_castps256_ps512(_mm256_loadu_ps(scales)));
    }
    return t;
}

/* ---- a row ---- */

/* Adds a span, of which `bytes` bytes are there; the rest counts as zeros. */
ALWAYS_INLINE __m512 add_span(__m512 sum, const uint8_t *base, size_t bytes, const copy_span *token, copy_format format)
{
    const size_t behind = format.bytes - 64;
    const int bits = (int)(8 / format.places);
    const __m512i mask = _mm512_set1_epi8((char)((1 << (bits + 1)) - 2)); /* numbers are doubled */
    __m512i first, second;
    if (bytes == format.bytes) {
        first = _mm512_loadu_si512(base);
        second = _mm512_loadu_si512(base + behind);
    } else {
        first = _mm512_maskz_loadu_epi8(first_bytes(bytes), base);
        second = _mm512_maskz_loadu_epi8(first_bytes(bytes > behind ? bytes - behind : 0), base + behind);
    }
    __m512i packed = _mm512_permutex2var_epi16(first, _mm512_loadu_si512(format.numbers), second);
    __m512i halves = _mm512_permutex2var_epi16(first, _mm512_loadu_si512(format.scales), second);
    __m512i dot = _mm512_dpbusd_epi32(token->start, _mm512_and_si512(_mm512_slli_epi16(packed, 1), mask), token->q[0]);
    UNROLLED
    for (int j = 1; j < (int)format.places; j++) {
        __m512i numbers = _mm512_and_si512(_mm512_srli_epi32(packed, (unsigned)(bits * j - 1)), mask);
        dot = _mm512_dpbusd_epi32(dot, numbers, token->q[j]);
    }
    __m512 d = _mm512_mul_ps(_mm512_cvtph_ps(_mm512_castsi512_si256(halves)), token->scale);
    return _mm512_fmadd_ps(_mm512_cvtepi32_ps(dot), d, sum);
}

/* ---- the loop ---- */

/* Adds the last runs of rows, fewer than 16. b: the token's part of 32 columns that they begin with. */
ALWAYS_INLINE void add_last(__m512 sum[GROUP], const row_group *rows, size_t at, const kernel_input *x, size_t b,
                            copy_format format)
{
    size_t parts = x->columns / 32 - b;
    int8_t q[RUNS * 32] = {0};
    int16_t sums[RUNS * 2] = {0};
    float scales[RUNS] = {0};
    memcpy(q, x->q + b * 32, parts * 32);
    memcpy(sums, x->sums + b * 2, parts * 2 * sizeof(*sums));
    memcpy(scales, x->scales + b, parts * sizeof(*scales));
    copy_span token = read_span(q, sums, scales, format);
    size_t bytes = parts * 32 / format.run * format.bytes / RUNS;
    for (size_t r = 0; r < GROUP; r++)
        sum[r] = add_span(sum[r], rows->now[r] + at, bytes, &token, format);
}

ALWAYS_INLINE void dot_copies(const row_group *rows, const kernel_input *x, size_t tokens, copy_format format,
                              __m256 *sums)
{
    const size_t step = RUNS * format.run / 32;
    size_t parts = x->columns / 32, b = 0, at = 0;
    __m512 sum[TOKENS_AT_ONCE][GROUP];
    copy_span token[TOKENS_AT_ONCE];
    FOR_TOKENS clear(sum[t]);
    for (; b + step <= parts; b += step, at += format.bytes) {
        fetch_ahead(rows, at, format.bytes);
        FOR_TOKENS token[t] = read_span(x[t].q + b * 32, x[t].sums + b * 2, x[t].scales + b, format);
        for (size_t r = 0; r < GROUP; r++)
            FOR_TOKENS sum[t][r] = add_span(sum[t][r], rows->now[r] + at, format.bytes, &token[t], format);
    }
    for (size_t t = 0; b < parts && t < tokens; t++)
        add_last(sum[t], rows, at, &x[t], b, format);
    FOR_TOKENS sums[t] = sum_of_8(sum[t]);
}

ALWAYS_INLINE void dot_signs1(const row_group *rows, const kernel_input *x, size_t tokens, __m256 *sums)
{
    dot_copies(rows, x, tokens, SIGNS1, sums);
}

ALWAYS_INLINE void dot_levels2(const row_group *rows, const kernel_input *x, size_t tokens, __m256 *sums)
{
    dot_copies(rows, x, tokens, LEVELS2, sums);
}

#define avx512vnni_product_decoded avx512_product_decoded /* float activations gain nothing from VNNI */
SPAN_PRODUCT(avx512vnni, signs1, true, false)
SPAN_PRODUCT(avx512vnni, levels2, true, false)

const kernels avx512vnni_copies = {
    .product = {[FORMAT_SIGNS1] = product_signs1_avx512vnni, [FORMAT_LEVELS2] = product_levels2_avx512vnni},
};
