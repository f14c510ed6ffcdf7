/* kernel.h - the CPU's kernels: one table of function pointers per level, which is a set of instruction sets.
 *
 * kernels_for() is a pure function of a level, so a test can hold two tables side by side.
 * The scalar table is complete and defines what every kernel means; a level overrides what it
 * does better. Kernels know nothing of files, models or threads: callers split rows and
 * tokens, and a result never depends on how they were split (kcheck holds every kernel to
 * that), so that any number of threads gives the same bytes.
 *
 * Buffers need no alignment and have no padding: a kernel reads and writes exactly what its
 * shapes say. */
#ifndef KERNEL_KERNEL_H
#define KERNEL_KERNEL_H

#include "../base/error.h"
#include "../number/format.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* Values that share one scale when activations are rounded to 8 bits, for every block format. */
#define Q8_BLOCK 32
/* Values per entry of `sums`: half a block, since Q6_K's scales change every 16 values. */
#define Q8_SUM 16

/* Vectors that weights are multiplied with: `count` tokens of `columns` values each.
 *
 * float32 always; beside it the same rounded to 8 bits, where a block format reads it:
 * per block of 32, scale = max(|x|) / 127 and q = round-half-even(x * (127 / max)), q = 0 and scale = 0
 * where max is 0 or so small (below 2^-120) that 127 / max overflows; where a value is not finite q = 0 and
 * scale = NaN, so that the fault shows in every result. `sums` are the sums of 16 neighbouring q, which turn a
 * format's offset (Q4_0's -8, Q6_K's -32, Q4_K's minimum) into one multiplication per block. */
typedef struct kernel_input {
    size_t count, columns;
    const float *values; /* [count][columns]                                            */
    const int8_t *q;     /* [count][columns], or NULL: block formats read `values` too  */
    const float *scales; /* [count][columns / 32]                                       */
    const int16_t *sums; /* [count][columns / 16]                                       */
} kernel_input;

/* y[t * y_stride + i] = W[list ? list[i] : i] . x[t]   for i in [begin, end), t in [0, x->count)
 *
 * list: indices of rows of W, or NULL for all. One loop serves dense and sparse: a list only
 * says where the next row is. x->columns == w->columns. For x->q == NULL, or a float format, the product is
 * taken in float32 (block formats are decoded first). Otherwise the integers of a block are
 * summed exactly and only scales and block sums are float32. */
typedef void kernel_product(const matrix *w, const uint32_t *list, size_t begin, size_t end, const kernel_input *x,
                            float *y, size_t y_stride);

/* y[c] = fma(h[i], W[list ? list[i] : i][c], y[c])   for i = begin .. end - 1, one after the other, for every column c
 *
 * The third step of a feed-forward network whose down matrix is stored a row per neuron. A weight is what the format's
 * decode gives for it, rounded to float32 where it must be; h stays float32; a sum is one chain of fused
 * multiply-adds in the order of i. So every level gives the same bytes, and a coefficient of zero may be skipped. */
typedef void kernel_accumulate(const matrix *w, const uint32_t *list, size_t begin, size_t end, const float *h,
                               float *y);

/* The same for `tokens` tokens and the columns [column, column + columns) of W: y[t * y_stride + c] = fma(h[t *
 * h_stride + i], W[...][column + c], y[t * y_stride + c]). Zero coefficients are skipped. column and columns are
 * multiples of the format's block (or columns ends the row); columns <= ACCUMULATE_COLUMNS. */
typedef void kernel_accumulate_many(const matrix *w, const uint32_t *list, size_t begin, size_t end, size_t column,
                                    size_t columns, const float *h, size_t h_stride, size_t tokens, float *y,
                                    size_t y_stride);
#define ACCUMULATE_COLUMNS 256

/* Which of n values pass, and their numbers: value i has the number ids ? ids[i] : first + i. Passing numbers and
 * values are written in order to selected_ids and, unless it is NULL, selected; both may be the input itself. Returns how many.
 * ABOVE: value > threshold. FROM: not value < threshold (so NaN passes, as PowerInfer has it). BEYOND: not |value| <=
 * threshold (NaN passes too). */
typedef size_t kernel_select(const float *values, const uint32_t *ids, uint32_t first, size_t n, float threshold,
                             uint32_t *selected_ids, float *selected);
typedef enum kernel_selection { SELECT_ABOVE, SELECT_FROM, SELECT_BEYOND, SELECT_COUNT } kernel_selection;

/* Columns as rows: out row c (of out_row_bytes bytes) gets, from value `row` on, W[row + r][column + c] for r in [0,
 * rows), c in [0, columns). Float formats keep their format; a block format becomes Q8_0, whose blocks run the other
 * way, as its encoder would round the decoded values but for halves (to even). row and rows are multiples of 32,
 * unless the rows end there in a float format; columns is a multiple of 32 unless the row ends there. */
typedef void kernel_transpose(const matrix *w, size_t row, size_t rows, size_t column, size_t columns, void *out,
                              size_t out_row_bytes);

typedef enum kernel_activation { ACTIVATION_SILU, ACTIVATION_RELU, ACTIVATION_COUNT } kernel_activation;

typedef struct kernels {
    const char *level; /* "scalar", "avx2", ... */

    kernel_product *product[FORMAT_COUNT];
    kernel_accumulate *accumulate[FORMAT_COUNT];
    kernel_accumulate_many *accumulate_many[FORMAT_COUNT];
    kernel_transpose *transpose[FORMAT_COUNT];
    kernel_select *select[SELECT_COUNT];

    /* Rounds n values (a multiple of 32) to 8 bits as kernel_input describes. */
    void (*quantize)(const float *x, size_t n, int8_t *q, float *scales, int16_t *sums);

    /* out[i] = x[i] * weight[i] / sqrt(mean(x^2) + epsilon). out may be x. */
    void (*rms_norm)(const float *x, const float *weight, float epsilon, size_t n, float *out);

    /* y[i] += x[i] */
    void (*add)(const float *x, size_t n, float *y);

    /* h[i] = act(gate[i]) * up[i]; up NULL: act(gate[i]). h may be gate or up. act: silu x / (1 + exp(-x));
     * relu x > threshold ? x : 0 (threshold 0 is ReLU, more is FATReLU; silu ignores it).
     * A neuron that ReLU makes zero yields exactly 0, whatever up is (also where up is not finite). */
    void (*activate[ACTIVATION_COUNT])(const float *gate, const float *up, float threshold, size_t n, float *h);

    /* Rotates heads [heads][length] in place: of each head the first 2 * pairs values, by the angles whose
     * cosine and sine are given [pairs]. Neighbours (2i, 2i + 1) form a pair. */
    void (*rope)(float *x, size_t heads, size_t length, const float *cosine, const float *sine, size_t pairs);

    /* Attention of `queries` heads that share one key/value head, over `count` positions:
     * out[g] = sum_p softmax_p(scale * query[g] . key[p]) value[p]
     * query, out [queries][length] float32; key, value [count][length] in float32 or float16;
     * scores [queries][count] is scratch. count > 0. One entry per KV format. */
    void (*attend_f32)(const float *query, size_t queries, const void *key, const void *value, size_t count,
                       size_t length, float scale, float *scores, float *out);
    void (*attend_f16)(const float *query, size_t queries, const void *key, const void *value, size_t count,
                       size_t length, float scale, float *scores, float *out);

    /* float32 to float16, nearest even. */
    void (*to_half)(const float *x, size_t n, uint16_t *out);

    /* Reads n bytes (a multiple of 64) as fast as they can be read, for measuring bandwidth. The result
     * depends on every byte. */
    uint64_t (*read)(const void *data, size_t n);
} kernels;

/* Levels, from worst to best: sets of features that have a name. "scalar", then what this program was built for. */
size_t kernel_level_count(void);
const char *kernel_level_name(size_t level);
/* The features it needs, bits of cpu.h. */
unsigned kernel_level_features(size_t level);
/* True where this CPU (and its operating system) can run it. */
bool kernel_level_present(size_t level);
/* Index of the level of that name; of the best present one for NULL; kernel_level_count() where there is none. */
size_t kernel_level_find(const char *name);

/* The level to compute with: `name`; for NULL what the environment variable HEARTH_CPU names; where that is not set or
 * empty the best there is. HEARTH_INVALID, with a list of what there is: it is unknown, or this CPU lacks it. */
hearth_status kernel_level_choose(size_t *level, const char *name, hearth_error *error);

/* The table of a level; whether this CPU can run it is not asked here. */
void kernels_for(size_t level, kernels *out);

#endif
