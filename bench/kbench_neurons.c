/* kbench_neurons.c - the kernels of neuron-major networks: sums of rows, columns as rows, selection; one thread.
 *
 * A sum for one token is timed on weights in the second cache, where the listed rows are when they have been fetched
 * ahead, and on weights from memory in the order they lie in; for many tokens with all coefficients and with one in
 * eight. GB/s are of weights, for columns as rows of the source; GFLOP/s of coefficients that are not zero. */
#include "kbench.h"

#include "../src/base/clock.h"
#include "../src/base/memory.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum {
    COLUMNS = 2048, /* of down_t */
    CACHE_BYTES = 512 << 10,
    PIECE_BYTES = 1 << 20,
    TOKENS = 256,
    NEURONS = 352, /* a slice of 5632 */
    SHARE = 8,     /* one coefficient of so many is not zero */
    TURNED_ROWS = 2048,
    TURNED_COLUMNS = 5632,
    TURNED_PART = 512, /* columns at a time */
    VALUES = 5632,
    SAMPLES = 100,
};

typedef struct neuron_bench {
    const settings *set;
    const kernels *k;
    number_format format;
    uint8_t *memory; /* [set->memory_bytes] */
    uint8_t *out;    /* what columns as rows become */
    float *h;        /* [TOKENS][NEURONS], or as many as a piece has rows */
    float *y;        /* [TOKENS][COLUMNS] */
    matrix w;
    float *values; /* [VALUES], of which one in SHARE is positive */
    uint32_t *ids;
} neuron_bench;

static matrix matrix_at(const neuron_bench *b, size_t at, size_t columns, size_t bytes)
{
    matrix w = {.data = b->memory + at, .format = b->format, .columns = (uint32_t)columns};
    if (!number_row_bytes(b->format, columns, &w.row_bytes))
        stop("no whole number of blocks");
    w.rows = (uint32_t)(bytes / w.row_bytes);
    return w;
}

/* ---- what is timed ---- */

static void run_accumulate(void *context)
{
    neuron_bench *b = context;
    b->k->accumulate[b->format](&b->w, NULL, 0, b->w.rows, b->h, 0, 1, b->y, 0);
}

static void run_many(void *context)
{
    neuron_bench *b = context;
    for (size_t c = 0; c < COLUMNS; c += ACCUMULATE_COLUMNS)
        b->k->accumulate_many[b->format](&b->w, NULL, 0, NEURONS, c, ACCUMULATE_COLUMNS, b->h, NEURONS, TOKENS,
                                         b->y + c, COLUMNS);
}

static void run_select(void *context)
{
    neuron_bench *b = context;
    b->k->select[SELECT_ABOVE](b->values, NULL, 0, VALUES, 0, b->ids, b->y);
}

/* Pieces of memory, each preceded by reading one: medians of both in GB/s. */
static void time_pieces(neuron_bench *b, double *read, double *added)
{
    double speeds[2][SAMPLES];
    size_t pieces = b->set->memory_bytes / PIECE_BYTES, row_bytes = matrix_at(b, 0, COLUMNS, 0).row_bytes;
    uint64_t sum = 0;
    for (size_t i = 0; i < 2 * SAMPLES; i++) { /* pieces begin with rows */
        b->w = matrix_at(b, i % pieces * (PIECE_BYTES / row_bytes * row_bytes), COLUMNS, PIECE_BYTES);
        double start = clock_seconds();
        if (i % 2)
            run_accumulate(b);
        else
            sum += b->k->read(b->w.data, PIECE_BYTES);
        speeds[i % 2][i / 2] = PIECE_BYTES / (clock_seconds() - start) * 1e-9;
    }
    b->y[0] += (float)(sum & 1);
    for (size_t i = 0; i < 2; i++)
        qsort(speeds[i], SAMPLES, sizeof(double), by_value);
    *read = speeds[0][SAMPLES / 2];
    *added = speeds[1][SAMPLES / 2];
}

/* Matrices of memory, a stripe of columns at a time: GB/s of the median stripe. */
static double time_transpose(neuron_bench *b)
{
    double speeds[SAMPLES];
    size_t row_bytes = matrix_at(b, 0, TURNED_COLUMNS, 0).row_bytes, matrix_bytes = row_bytes * TURNED_ROWS;
    size_t matrices = b->set->memory_bytes / matrix_bytes, stripes = TURNED_COLUMNS / TURNED_PART;
    size_t out_row_bytes =
        number_is_block(b->format) ? TURNED_ROWS / 32 * 34 : row_bytes / TURNED_COLUMNS * TURNED_ROWS;
    if (matrices == 0) {
        stop("columns as rows need more --megabytes");
        return 0;
    }
    for (size_t i = 0; i < SAMPLES; i++) {
        matrix w = matrix_at(b, i / stripes % matrices * matrix_bytes, TURNED_COLUMNS, matrix_bytes);
        size_t column = i % stripes * TURNED_PART;
        double start = clock_seconds();
        b->k->transpose[b->format](&w, 0, TURNED_ROWS, column, TURNED_PART, b->out + column * out_row_bytes,
                                   out_row_bytes);
        double bytes = (double)matrix_bytes * TURNED_PART / TURNED_COLUMNS;
        speeds[i] = bytes / (clock_seconds() - start) * 1e-9;
    }
    qsort(speeds, SAMPLES, sizeof(double), by_value);
    return speeds[SAMPLES / 2];
}

/* GFLOP/s with one coefficient in `share`. */
static double time_many(neuron_bench *b, size_t share)
{
    uint32_t seed = 3;
    size_t firing = 0;
    for (size_t i = 0; i < (size_t)TOKENS * NEURONS; i++) {
        bool fire = next_random(&seed) % share == 0;
        b->h[i] = fire ? 0.001f * (float)(1 + i % 7) : 0;
        firing += fire;
    }
    memset(b->y, 0, sizeof(float) * TOKENS * COLUMNS);
    b->w = matrix_at(b, 0, COLUMNS, b->set->memory_bytes);
    return 2.0 * (double)firing * COLUMNS / best_seconds(b->set, run_many, b) * 1e-9;
}

static void time_format(neuron_bench *b)
{
    double read, added;
    for (size_t i = 0; i < (size_t)TOKENS * NEURONS; i++)
        b->h[i] = 0.001f * (float)(1 + i % 7);
    b->w = matrix_at(b, 0, COLUMNS, CACHE_BYTES);
    double cache = (double)(b->w.rows * b->w.row_bytes) / best_seconds(b->set, run_accumulate, b) * 1e-9;
    time_pieces(b, &read, &added);
    double all = time_many(b, 1), few = time_many(b, SHARE), turned = time_transpose(b);
    printf(b->set->csv ? "%s,%s,%.2f,%.2f,%.2f,%.1f,%.1f,%.2f\n" : "%-8s %-6s %9.1f %6.1f %9.1f %10.0f %8.0f %10.2f\n",
           b->k->level, number_formats[b->format].name, cache, read, added, all, few, turned);
    fflush(stdout);
}

/* Random blocks, a part of them again and again. */
static void fill_memory(const neuron_bench *b)
{
    const number_traits *traits = &number_formats[b->format];
    size_t part = PIECE_BYTES / traits->block_bytes * traits->block_bytes, bytes = b->set->memory_bytes;
    uint32_t seed = 1;
    for (size_t at = 0; at < part; at += traits->block_bytes)
        fill_block(b->memory + at, b->format, &seed);
    for (size_t at = part; at < bytes; at += part)
        memcpy(b->memory + at, b->memory, bytes - at < part ? bytes - at : part);
}

static void time_select(neuron_bench *b)
{
    uint32_t seed = 5;
    for (size_t i = 0; i < VALUES; i++)
        b->values[i] = next_random(&seed) % SHARE ? -1.0f : 1.0f;
    printf("%s", b->set->csv ? "level,op,microseconds\n" : "\nlevel    op          microseconds\n");
    static kernels k; /* b outlives this call */
    for (size_t level = 0; next_level(b->set, &level, &k); level++) {
        b->k = &k;
        printf(b->set->csv ? "%s,select,%.3f\n" : "%-8s select     %13.2f\n", k.level,
               best_seconds(b->set, run_select, b) * 1e6);
    }
}

void time_neurons(const settings *set)
{
    neuron_bench b = {.set = set};
    b.memory = new_or_stop(set->memory_bytes);
    b.out = new_or_stop((size_t)TURNED_COLUMNS * TURNED_ROWS * sizeof(float));
    b.h = new_or_stop(sizeof(float) * TOKENS * NEURONS);
    b.y = new_or_stop(sizeof(float) * TOKENS * COLUMNS);
    b.values = new_or_stop(sizeof(float) * VALUES);
    b.ids = new_or_stop(sizeof(uint32_t) * VALUES);
    memset(b.out, 1, (size_t)TURNED_COLUMNS * TURNED_ROWS * sizeof(float));
    printf(set->csv ? "level,format,cache_gb_per_s,read_gb_per_s,memory_gb_per_s,all_gflop_per_s,few_gflop_per_s,"
                      "transpose_gb_per_s\n"
                    : "\nneurons, 1 thread  sums, GB/s           %d tokens, GFLOP/s   as rows\n"
                      "level    format  L2, GB/s   read    memory    all       1 in %d       GB/s\n",
           TOKENS, SHARE);
    for (size_t f = 0; f < FORMAT_COUNT; f++) {
        if (!wanted(set->format, number_formats[f].name))
            continue;
        b.format = (number_format)f;
        fill_memory(&b);
        kernels k;
        for (size_t level = 1; next_level(set, &level, &k); level++) {
            b.k = &k;
            time_format(&b);
        }
    }
    time_select(&b);
    void *blocks[] = {b.memory, b.out, b.h, b.y, b.values, b.ids};
    for (size_t i = 0; i < sizeof(blocks) / sizeof(*blocks); i++)
        mem_free(blocks[i]);
}
