/* kernel.h - the CPU kernels: one table of function pointers per level (a named set of instruction sets).
 *
 * kernels_for() is a pure function of the level, so a test can compare two tables.
 * The scalar table is complete and defines what every kernel computes; a level overrides the kernels
 * that it has faster versions of. Kernels know nothing of files, models or threads: callers split rows
 * and tokens. A result never depends on the split (kcheck tests this for every kernel), so any number
 * of threads gives the same bytes.
 *
 * Buffers need no alignment and have no padding: a kernel reads and writes exactly the elements that
 * its shapes name. */
#ifndef KERNEL_KERNEL_H
#define KERNEL_KERNEL_H

#include "../base/error.h"
#include "../number/format.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* Values that share one scale when activations are rounded to 8 bits; the same for every block format. */
#define Q8_BLOCK 32
/* Values per entry of `sums`: half a block, since Q6_K's scales change every 16 values. */
#define Q8_SUM 16

/* The vectors that weights are multiplied with: `count` tokens of `columns` values each.
 *
 * They are always given in float32 and, for block formats, also rounded to 8 bits. Per block of 32:
 * scale = max(|x|) / 127 and q = round-half-even(x * (127 / max)). If max is 0 or so small (below 2^-120) that
 * 127 / max may overflow, q = 0 and scale = 0. If a value is not finite, q = 0 and scale = NaN, so that the fault
 * shows in every result. `sums` are the sums of 16 neighbouring q; with them a format's offset (Q4_0's -8,
 * Q6_K's -32, Q4_K's minimum) costs one multiplication per block. */
typedef struct kernel_input {
    size_t count, columns;
    const float *values;     /* [count][columns]                                            */
    const int8_t *q;         /* [count][columns], or NULL: block formats then read `values` */
    const float *scales;     /* [count][columns / 32]                                       */
    const int16_t *sums;     /* [count][columns / 16]                                       */
    const uint16_t *bfloats; /* [count][columns] values rounded by to_bfloat, columns even; or NULL: F16 and
                                BF16 then read `values`                                     */
    unsigned streams;        /* rows that are best read from memory at once: 4, or 8 (or 0). It changes no result */
} kernel_input;

/* Returns tokens [first, first + count) alone. */
static inline kernel_input some_tokens(const kernel_input *x, size_t first, size_t count)
{
    size_t n = x->columns;
    kernel_input some = {.count = count, .columns = n, .values = x->values + first * n, .streams = x->streams};
    if (x->q) {
        some.q = x->q + first * n;
        some.scales = x->scales + first * (n / Q8_BLOCK);
        some.sums = x->sums + first * (n / Q8_SUM);
    }
    some.bfloats = x->bfloats ? x->bfloats + first * n : NULL;
    return some;
}

/* Returns token t alone. */
static inline kernel_input one_token(const kernel_input *x, size_t t)
{
    return some_tokens(x, t, 1);
}

/* Up to so many tokens, a product gives each token the same bytes as if it were alone. */
#define FEW_TOKENS 8
/* Up to so many tokens, weights of 16 bits are multiplied in float32, even if the tokens are given in bfloat16: by measurement. */
#define FEW_OF_BFLOATS 16

/* y[t * y_stride + i] = W[list ? list[i] : i] . x[t]   for i in [begin, end), t in [0, x->count)
 *
 * list: indices of rows of W, or NULL for consecutive rows. The same loop serves dense and sparse products: a list only
 * says where the next row is. x->columns == w->columns. If x->q is NULL or W has a float format, the product is
 * computed in float32 (block formats are decoded first). Otherwise the integers of a block are summed exactly
 * and only scales and block sums are float32, if scalar_product.c has a function for the format; if not, decoded
 * weights are multiplied with the integers of x in float32.
 *
 * If x->bfloats is given, W is in F16 or BF16 and there are more than FEW_OF_BFLOATS tokens, weights are rounded as to_bfloat does
 * and multiplied with x->bfloats; the sums are float32, and results below 2^-126 may be zero. Levels that do so have to_bfloat;
 * others do not look at bfloats. */
typedef void kernel_product(const matrix *w, const uint32_t *list, size_t begin, size_t end, const kernel_input *x,
                            float *y, size_t y_stride);

/* y[t * y_stride + c] = fma(h[t * h_stride + i], W[list ? list[i] : i][c], y[t * y_stride + c])
 * for i = begin .. end - 1 in this order, for every column c and t in [0, tokens)
 *
 * The third step of a feed-forward network whose down matrix is stored with one row per neuron. A weight is exactly the
 * float32 that the format's decode returns; h stays float32; a sum is one chain of fused multiply-adds in the order of
 * i. So every level gives the same bytes, and a coefficient of zero may be skipped. For one or a few tokens: rows are read
 * once, from end to end. */
typedef void kernel_accumulate(const matrix *w, const uint32_t *list, size_t begin, size_t end, const float *h,
                               size_t h_stride, size_t tokens, float *y, size_t y_stride);

/* The same for many tokens and the columns [column, column + columns) of W: y[t * y_stride + c] = fma(h[t *
 * h_stride + i], W[...][column + c], y[t * y_stride + c]). Zero coefficients are skipped. column and columns are
 * multiples of the format's block (or columns ends the row); columns <= ACCUMULATE_COLUMNS. */
typedef void kernel_accumulate_many(const matrix *w, const uint32_t *list, size_t begin, size_t end, size_t column,
                                    size_t columns, const float *h, size_t h_stride, size_t tokens, float *y,
                                    size_t y_stride);
#define ACCUMULATE_COLUMNS 256

/* Selects those of n values that pass a threshold. Value i has the number ids ? ids[i] : first + i. The numbers of the
 * passing values are written in order to selected_ids, and the values to selected unless it is NULL; selected_ids may
 * be ids, and selected may be values. Returns how many pass.
 * ABOVE: value > threshold. FROM: !(value < threshold), so NaN passes, as in PowerInfer. BEYOND: !(|value| <=
 * threshold), so NaN passes too. */
typedef size_t kernel_select(const float *values, const uint32_t *ids, uint32_t first, size_t n, float threshold,
                             uint32_t *selected_ids, float *selected);
typedef enum kernel_selection { SELECT_ABOVE, SELECT_FROM, SELECT_BEYOND, SELECT_COUNT } kernel_selection;

/* Transposes a part of W: value row + r of out's row c (rows of out_row_bytes bytes) becomes W[row + r][column + c],
 * for r in [0, rows), c in [0, columns). Float formats keep their format. A block format becomes Q8_0 with blocks along
 * the new rows: the decoded values are rounded as Q8_0's encoder does, except that ties go to even. row and rows are
 * multiples of 32, unless the rows end there in a float format; columns is a multiple of 32 unless the row ends
 * there. */
typedef void kernel_transpose(const matrix *w, size_t row, size_t rows, size_t column, size_t columns, void *out,
                              size_t out_row_bytes);

typedef enum kernel_activation {
    ACTIVATION_SILU,
    ACTIVATION_RELU,
    ACTIVATION_RELU2,
    ACTIVATION_GELU,
    ACTIVATION_GELU_TANH,
    ACTIVATION_SWIGLU_CLAMPED,
    ACTIVATION_SILU_LIMITED,
    ACTIVATION_SILU_CLAMPED,
    ACTIVATION_XIELU,
    ACTIVATION_LOGISTIC, /* of gates on results, not of networks */
    ACTIVATION_COUNT
} kernel_activation;

/* What a layer's xielu is made of (arXiv 2411.13010); of other activations zero. */
typedef struct activation_curve {
    float positive, negative, linear;
} activation_curve;

/* What an activation depends on besides its input: a threshold or a limit, and the curve. */
typedef struct activation_terms {
    float threshold;
    activation_curve curve;
} activation_terms;

static const activation_terms no_terms = {0};

/* Returns x, at most `limit` and at least -limit; limit 0: x as it is. NaN stays NaN. */
static inline float kernel_limited(float x, float limit)
{
    return limit > 0 && x > limit ? limit : limit > 0 && x < -limit ? -limit : x;
}

/* Which values of a head are rotated as a pair. */
typedef enum rope_pairing { ROPE_NEIGHBOURS, ROPE_HALVES, ROPE_COUNT } rope_pairing;

/* What attention does with the products q . k of a head: s = scale * q . k, then softcap * tanh(s / softcap) unless
 * softcap is 0. sinks [queries]: the score of one more position per head whose value is zero; NULL: none. */
typedef struct attend_scoring {
    float scale, softcap;
    const float *sinks;
} attend_scoring;

/* Positions of a page of the cache. Kernels take positions in blocks, and no block crosses the border of a page. */
#define KV_PAGE 128

/* The keys of one key/value head of a sequence, or the values. */
typedef struct attend_half {
    const void *data;         /* [KV_PAGE][length]  of this head, in page 0 */
    size_t length, row_bytes; /* of one key or value: its values, its bytes */
    size_t page_bytes;        /* from a page to the next one                */
} attend_half;

/* Both. They lie in pages, in any order: those of position p at place p % KV_PAGE of the page pages[p / KV_PAGE]. A value may have
 * fewer values than a key. */
typedef struct attend_cache {
    attend_half key, value;
    const uint32_t *pages; /* the sequence's pages, from position 0 on */
} attend_cache;

/* Returns the key (or value) of a position, where `half` is &cache->key (or &cache->value). */
static inline const void *attend_at(const attend_cache *cache, const attend_half *half, size_t position)
{
    return (const char *)half->data + cache->pages[position / KV_PAGE] * half->page_bytes +
           position % KV_PAGE * half->row_bytes;
}

typedef void attend_kernel(const float *query, size_t queries, const attend_cache *cache, size_t first, size_t count,
                           const attend_scoring *scoring, float *scores, float *out);

/* Heads that score positions (attention_shape.chosen), and the positions [first, first + count) that they score. */
typedef struct score_run {
    const float *query, *weights; /* [heads][length of a key], [heads] */
    size_t heads;
    attend_cache cache; /* of which only keys are read */
    size_t first, count;
    float *scores; /* [count] */
    bool apart;    /* other keys lie between those of two positions: row_bytes is more than a key's */
    bool below;    /* what a head scores may be below 0 */
} score_run;
typedef void kernel_score(const score_run *run);

/* Rows of one sequence that follow one another, and some of their query heads, which share a key/value head. */
typedef struct attend_run {
    const float *query; /* of row i and head h from value i * stride + h * length of a key on   */
    float *out;         /* from value i * out_stride + h * length of a value on                 */
    size_t stride, out_stride, rows, heads;
    attend_cache cache;     /* with the positions [0, seen + rows - 1)                         */
    size_t seen;            /* positions that row 0 sees; every row sees one more than the one before */
    size_t first;           /* the positions before it nobody sees                             */
    size_t window;          /* of these a row sees only the last so many; 0: all               */
    attend_scoring scoring; /* sinks [heads]                                                   */
} attend_run;
typedef void kernel_attend_rows(const attend_run *run);
/* Returns the first position that a row of a run sees. */
static inline size_t attend_from(const attend_run *run, size_t row)
{
    size_t end = run->seen + row, from = run->window && end > run->window ? end - run->window : 0;
    return from < run->first ? run->first : from;
}

/* The most queries (rows times heads) of a run, and the most values that they have. */
#define RUN_QUERIES 96
#define RUN_VALUES  12288

/* Takes rows of the state S [rows][columns] of one head of a recurrent mixer through some tokens. For each token, in order:
 * S = decay S + gain (v - answer) k', out = S q, where answer is decay S k with the S before, if `answers`, else 0. With `decays`
 * S = S diag(decays) + v k' - (S asked) removed', out = S q, each S on the right being that before. */
typedef struct recurrence_run {
    const float
        *before;  /* [rows][columns]; NULL: zero                                                                */
    float *after; /* [rows][columns] after the last token; may be before                                        */
    size_t rows, columns, tokens;
    const float *key,
        *query;         /* [columns] of the first token; those of the next lie `stride` values further           */
    const float *value; /* [rows] likewise                                                                       */
    size_t stride;
    const float *decay,
        *gain; /* of the first token; those of the next lie `number_stride` values further             */
    size_t number_stride;
    float
        *out; /* [rows] of the first token; those of the next lie `out_stride` values further                        */
    size_t out_stride;
    bool answers;
    const float *decays, *asked, *removed; /* [columns] as key; NULL: there is one decay for all columns          */
} recurrence_run;
typedef void kernel_recur(const recurrence_run *run);

typedef struct kernels {
    const char *level; /* "scalar", "avx2", ... */

    kernel_product *product[FORMAT_COUNT];
    kernel_accumulate *accumulate[FORMAT_COUNT];
    kernel_accumulate_many *accumulate_many[FORMAT_COUNT];
    kernel_transpose *transpose[FORMAT_COUNT];
    kernel_select *select[SELECT_COUNT];

    /* Rounds n values (a multiple of 32) to 8 bits as described at kernel_input. */
    void (*quantize)(const float *x, size_t n, int8_t *q, float *scales, int16_t *sums);

    /* out[i] = x[i] * weight[i] / sqrt(mean(x^2) + epsilon). out may be x. */
    void (*rms_norm)(const float *x, const float *weight, float epsilon, size_t n, float *out);

    /* out[i] = (x[i] - mean) * weight[i] / sqrt(mean((x - mean)^2) + epsilon) + bias[i]; bias NULL: without. out may be
     * x. */
    void (*layer_norm)(const float *x, const float *weight, const float *bias, float epsilon, size_t n, float *out);

    /* y[i] += x[i] */
    void (*add)(const float *x, size_t n, float *y);

    /* h[i] = act(gate[i]) * up[i]; up NULL: act(gate[i]). h may be gate or up. act: silu is x / (1 + exp(-x));
     * relu is x > threshold ? x : 0 (threshold 0 is ReLU, above 0 it is FATReLU; the others but those that have a limit ignore it);
     * relu2 is x > 0 ? x * x : 0; gelu is x * (1 + erf(x / sqrt(2))) / 2; gelu_tanh its approximation x * (1 +
     * tanh(sqrt(2 / pi) * (x + 0.044715 x^3))) / 2. swiglu_clamped (gpt-oss) limits both values by the threshold, gate
     * from above and up on both sides: gate / (1 + exp(-1.702 gate)) * (up + 1); up NULL: 0. silu_limited (Step 3.5)
     * limits silu(gate) from above and up on both sides, then multiplies them; threshold 0: without a limit. silu_clamped
     * (GLM-5.3-Flash) is the same, but limits gate from above in place of silu(gate). xielu (Apertus) is linear * x, plus
     * positive * x^2 above zero and negative * (exp(x) - 1 - x) below. logistic is 1 / (1 + exp(-x)). If relu or
     * relu2 gives zero the result is exactly 0 for any up, even one that is not finite. */
    void (*activate[ACTIVATION_COUNT])(const float *gate, const float *up, activation_terms terms, size_t n, float *h);

    /* Rotates the first 2 * pairs values of each head of x [heads][length] in place. The angles are given by their
     * cosine and sine [pairs]. Neighbours (2i, 2i + 1) form a pair, or halves (i, i + pairs). */
    void (*rope[ROPE_COUNT])(float *x, size_t heads, size_t length, const float *cosine, const float *sine,
                             size_t pairs);

    /* Computes attention of `queries` heads that share one key/value head, over the positions [first, first + count):
     * out[g] = sum_p softmax_p(score(query[g] . key[p])) value[p]
     * query [queries][length of a key], out [queries][length of a value] float32; the cache in the format, F32, F16 or Q8_0, where
     * both lengths are multiples of 32 (NULL for others);
     * scores [queries][count] is scratch memory. count > 0. */
    attend_kernel *attend[FORMAT_COUNT];
    /* The same for many rows. A row's result does not depend on the others. rows > 0, seen > 0. */
    kernel_attend_rows *attend_rows[FORMAT_COUNT];
    /* Scores positions: scores[p] = sum_h weights[h] * max(0, query[h] . key[first + p]), without the limit if `below`, by the same
     * bits whichever positions are scored with it. Formats as of attend. heads > 0, count > 0. */
    kernel_score *score[FORMAT_COUNT];

    /* The step of recurrent mixers. */
    kernel_recur *recur;

    /* Converts float32 to float16, rounding to nearest, ties to even. */
    void (*to_half)(const float *x, size_t n, uint16_t *out);

    /* The same to bfloat16, but values below 2^-126 become zero; NULL at levels whose products do not read these. */
    void (*to_bfloat)(const float *x, size_t n, uint16_t *out);

    /* Reads n bytes (a multiple of 64) as fast as possible, for measuring bandwidth. The result depends on every
     * byte, so that compilers cannot skip reads. */
    uint64_t (*read)(const void *data, size_t n);
} kernels;

/* Levels are named sets of features, from slowest to fastest: "scalar", then those of the architecture that the program
 * was built for. */
size_t kernel_level_count(void);
const char *kernel_level_name(size_t level);
/* Returns the features that the level needs, as bits of cpu.h. */
unsigned kernel_level_features(size_t level);
/* Returns true if this CPU and its operating system can run the level. */
bool kernel_level_present(size_t level);
/* Returns the index of the level of that name, or of the best present level if name is NULL; kernel_level_count() if
 * the name is unknown. */
size_t kernel_level_find(const char *name);

/* Chooses the level to compute with: `name`; if that is NULL, the one that the environment variable HEARTH_CPU names;
 * if that is unset or empty, the best present one. HEARTH_INVALID: the level is unknown, or this CPU lacks it; the
 * text lists the present levels. */
hearth_status kernel_level_choose(size_t *level, const char *name, hearth_error *error);

/* Fills the table of a level; does not check that this CPU can run it. */
void kernels_for(size_t level, kernels *out);

#endif
