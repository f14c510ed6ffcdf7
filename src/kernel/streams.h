/* streams.h - the loop over rows with one token or few, shared by all vector levels: it decides which rows are processed
 * together and what is prefetched. It is included by files with a level's flags, so everything is `static inline`:
 * nothing here may become a symbol that other code could be linked to. The level's header must define group_sums
 * first: GROUP floats in the level's registers. */
#ifndef KERNEL_STREAMS_H
#define KERNEL_STREAMS_H

#include "levels.h"

#define ALWAYS_INLINE static inline __attribute__((always_inline))

/* Fully unrolls the next loop. Loops over an array of registers need it: otherwise gcc keeps the array in memory and
 * stores it at every step (the float tile then runs at a third of its speed). With sanitizers gcc warns that it cannot.
 * TWICE makes two steps of one, so that there are fewer instructions that only count. */
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
#define UNROLLED
#define TWICE
#else
#define UNROLLED _Pragma("GCC unroll 16")
#define TWICE    _Pragma("GCC unroll 2")
#endif

#define GROUP 8   /* rows that are multiplied together, at most */
#define AHEAD 512 /* prefetch distance in bytes; 256 to 1024 are as good */

/* Rows that are multiplied together, and for each the address to prefetch from meanwhile. Their number is a constant once the
 * functions below are inlined: GROUP, or half of it (kernel_input: streams), in which case the other sums mean nothing. */
typedef struct row_group {
    size_t count;
    const uint8_t *now[GROUP];
    uintptr_t ahead[GROUP]; /* addresses, not pointers: they may lie behind the matrix */
} row_group;

/* Returns the prefetch distance of each of so many streams: the fewer there are, the further. */
ALWAYS_INLINE size_t distance_ahead(size_t streams)
{
    return AHEAD * GROUP / streams;
}

/* Computes the products of a group of rows with `tokens` tokens: x[t], each alone, to sums[t]. What is unpacked of a row is
 * shared by the tokens: compilers find that all of them read the same. A token's sums do not depend on the others. */
typedef void dot_function(const row_group *rows, const kernel_input *x, size_t tokens, group_sums *sums);
#define TOKENS_AT_ONCE  4
#define FEWEST          2 /* tokens with which reading the rows takes longer than multiplying them */
#define TOKEN_COUNTS(X) X(1) X(2) X(3) X(4)

/* Repeats the next statement for every token; their number is a constant, so that what belongs to them can be registers. */
#define FOR_TOKENS UNROLLED for (size_t t = 0; t < tokens; t++)

/* Prefetches for `count` rows; called at every step that multiplies `bytes` bytes of each of them from byte `at`. */
ALWAYS_INLINE void fetch_rows_ahead(const row_group *rows, size_t first, size_t count, size_t at, size_t bytes)
{
    for (size_t r = first; r < first + count; r++)
        for (size_t i = 0; i < bytes; i += 64)
            __builtin_prefetch((const void *)(rows->ahead[r] + at + i));
}

/* Prefetches for all rows. */
ALWAYS_INLINE void fetch_ahead(const row_group *rows, size_t at, size_t bytes)
{
    fetch_rows_ahead(rows, 0, rows->count, at, bytes);
}

/* Returns how many of `left` tokens the next pass takes, at most `most`: so many that every pass has about the same number. */
ALWAYS_INLINE size_t tokens_of_pass(size_t left, size_t most)
{
    size_t passes = (left + most - 1) / most;
    return (left + passes - 1) / passes;
}

/* Multiplies a group of rows with tokens t, t + 1 ...; returns with how many. Half a group meets at most FEWEST tokens. */
ALWAYS_INLINE size_t dot_some(const row_group *rows, const kernel_input *x, size_t t, group_sums *sums,
                              dot_function *dot)
{
    const size_t most = rows->count < GROUP ? FEWEST : TOKENS_AT_ONCE;
    kernel_input some[TOKENS_AT_ONCE];
    size_t tokens = tokens_of_pass(x->count - t, most);
    for (size_t k = 0; k < tokens; k++)
        some[k] = one_token(x, t + k);
    switch (tokens) {
#define X(n)                          \
    case n:                           \
        if (n <= most)                \
            dot(rows, some, n, sums); \
        break;
        TOKEN_COUNTS(X)
#undef X
    default:
        break;
    }
    return tokens;
}

/* Returns `count` rows i, i + apart, i + 2 * apart ... of the range or list that ends at `end`. An incomplete group repeats the last
 * row. */
ALWAYS_INLINE row_group group_of_rows(const matrix *w, const uint32_t *list, size_t i, size_t apart, size_t end,
                                      size_t count)
{
    row_group rows;
    rows.count = count;
    for (size_t r = 0; r < count; r++) {
        size_t now = i + r * apart, next = now + 1;
        rows.now[r] = listed_row(w, list, now < end ? now : end - 1);
        rows.ahead[r] = list ? (uintptr_t)listed_row(w, list, next < end ? next : end - 1)
                             : (uintptr_t)rows.now[r] + distance_ahead(count);
    }
    return rows;
}

/* Prefetches the first bytes of all streams; later bytes are prefetched on the way. */
ALWAYS_INLINE void fetch_begin(const row_group *rows, size_t row_bytes)
{
    for (size_t r = 0; r < rows->count; r++)
        for (size_t k = 0; k < distance_ahead(rows->count) && k < row_bytes; k += 64)
            __builtin_prefetch(rows->now[r] + k);
}

/* Stores a token's sums of `count` rows: y[r * apart] for those before the range's end, which is `left` rows away. */
ALWAYS_INLINE void store_sums(const group_sums *from, size_t count, size_t apart, size_t left, float *y)
{
    float sums[GROUP];
    memcpy(sums, from, sizeof(sums));
    for (size_t r = 0; r < count && r * apart < left; r++)
        y[r * apart] = sums[r];
}

/* Returns whether groups are halved: where the caller says that memory gives more to fewer streams (kernel_input), and it is memory
 * that limits. */
ALWAYS_INLINE bool halves_groups(const kernel_input *x, const uint32_t *list)
{
    return !list && x->streams == GROUP / 2 && x->count <= FEWEST;
}

/* Multiplies rows [begin, end) with every token, `count` at a time; further tokens find the rows in the cache. The rows of a
 * group are not neighbours: they are that part of the range apart, so that each is a stream of its own. The CPU's hardware
 * prefetch ends at a page, so one stream gets 12 GB/s where eight get 20 (README.md). With a list the whole next row of each
 * stream is prefetched, since the CPU cannot guess its address. A row's result does not depend on the other rows of its
 * group. */
ALWAYS_INLINE void rows_in_groups(const matrix *w, const uint32_t *list, size_t begin, size_t end,
                                  const kernel_input *x, float *y, size_t y_stride, size_t count, dot_function *dot)
{
    size_t apart = (end - begin + count - 1) / count;
    for (size_t i = begin; i < begin + apart; i++) {
        row_group rows = group_of_rows(w, list, i, apart, end, count);
        if (i == begin)
            fetch_begin(&rows, w->row_bytes);
        for (size_t t = 0, tokens; t < x->count; t += tokens) {
            group_sums sums[TOKENS_AT_ONCE] = {{0}};
            tokens = dot_some(&rows, x, t, sums, dot);
            for (size_t k = 0; k < tokens; k++)
                store_sums(&sums[k], count, apart, end - i, y + (t + k) * y_stride + i);
            for (size_t r = 0; r < count; r++) /* prefetched already */
                rows.ahead[r] = (uintptr_t)rows.now[r];
        }
    }
}

/* The same in groups of the size that is best. may_halve: a constant, false where it never is half a group. */
ALWAYS_INLINE void rows_in_streams(const matrix *w, const uint32_t *list, size_t begin, size_t end,
                                   const kernel_input *x, float *y, size_t y_stride, bool may_halve, dot_function *dot)
{
    if (may_halve && halves_groups(x, list))
        rows_in_groups(w, list, begin, end, x, y, y_stride, GROUP / 2, dot);
    else
        rows_in_groups(w, list, begin, end, x, y, y_stride, GROUP, dot);
}

/* Defines the product of a block format at a level whose file has dot_NAME: float32 activations are multiplied with
 * decoded weights; with 8-bit activations one token or few take the loop above, more take tiles. */
#define BLOCK_PRODUCT(name, level)                                                                        \
    static void product_##name##_##level(const matrix *w, const uint32_t *list, size_t begin, size_t end, \
                                         const kernel_input *x, float *y, size_t y_stride)                \
    {                                                                                                     \
        if (!x->q)                                                                                        \
            level##_product_decoded(w, list, begin, end, x, y, y_stride);                                 \
        else if (x->count > FEW_OF_BLOCKS)                                                                \
            level##_product_tiles(w, list, begin, end, x, y, y_stride);                                   \
        else                                                                                              \
            rows_in_streams(w, list, begin, end, x, y, y_stride, MAY_HALVE_GROUPS, dot_##name);           \
    }

/* Defines the products of a level and their table. */
#define BLOCK_PRODUCTS(level)                         \
    BLOCK_PRODUCT(q8_0, level)                        \
    BLOCK_PRODUCT(q4_0, level)                        \
    BLOCK_PRODUCT(q4_k, level)                        \
    BLOCK_PRODUCT(q6_k, level)                        \
    const kernels level##_blocks = {                  \
        .product =                                    \
            {                                         \
                [FORMAT_Q8_0] = product_q8_0_##level, \
                [FORMAT_Q4_0] = product_q4_0_##level, \
                [FORMAT_Q4_K] = product_q4_k_##level, \
                [FORMAT_Q6_K] = product_q6_k_##level, \
            },                                        \
    };

#endif
