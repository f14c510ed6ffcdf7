/* kbench_network.c - feed-forward networks with one token from memory, as the engine takes them: slices of the neurons;
 * of each slice the first matrix, which neurons pass, the listed rows of the rest.
 *
 * What is asked: how near do listed rows come to whole ones, and what do slices cost, each of which begins its streams
 * and lists anew? Every thread walks through slices of its own. The ways take turns slice by slice, since the memory of
 * a shared machine changes from second to second; there are so many layers that no cache holds a slice until its next
 * turn. Figures are GB/s over all rows read, sums of the threads' medians. */
#include "kbench.h"

#include "../src/base/clock.h"
#include "../src/base/memory.h"
#include "../src/kernel/cpu.h"

#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum {
    FEWEST_SLICES = 4,
    RANK = 512,       /* of the predictor */
    DENSITY = 12,     /* per cent of the neurons that pass the first matrix */
    FIRING = 60,      /* per cent of those let through that pass the gate */
    MOST_LAYERS = 64, /* more than this leaves every cache as well */
    SAMPLES = 400,    /* slices of each way and thread */
    PART = 4 << 20,   /* bytes of random rows, which are then repeated */
    MOST_ROWS = 11008,
    MOST_COLUMNS = 4096,
};

enum { GATE, UP, DOWN, PREDICTOR, MATRICES };

/* WHOLE: the first matrix alone. PREDICTED: rows of the predictor, then of the listed neurons the first matrix too. */
enum { WHOLE, EXACT, PREDICTED, WAYS };

typedef struct layer {
    matrix w[MATRICES];
    float pass, fire, let_through; /* thresholds: of the gate for exact and predicted runs, of the predictor */
} layer;

typedef struct network {
    const kernels *k;
    number_format format;
    size_t rows, columns, layers, slices;
    layer layer[MOST_LAYERS];
    kernel_input x[2]; /* of the matrices, of the predictor */
} network;

/* A thread; an equal share of the layers is its own. */
typedef struct walker {
    const network *net;
    unsigned index, threads;
    pthread_barrier_t *start;
    const layer *now;
    uint32_t list[MOST_ROWS / FEWEST_SLICES];
    float values[MOST_ROWS]; /* products with the first matrix; a slice keeps those that pass at its beginning */
    float other[MOST_ROWS / FEWEST_SLICES], sum[MOST_COLUMNS];
    size_t taken[WAYS];
    double samples[WAYS][SAMPLES];
} walker;

/* ---- one slice: each returns the bytes of the rows that it read ---- */

/* The rest of a slice, whose `n` listed neurons have passed. */
static size_t listed_rest(walker *me, const float *h, size_t n)
{
    const network *net = me->net;
    const layer *l = me->now;
    net->k->product[net->format](&l->w[UP], me->list, 0, n, &net->x[0], me->other, 0);
    memset(me->sum, 0, net->columns * sizeof(float));
    net->k->accumulate[net->format](&l->w[DOWN], me->list, 0, n, h, 0, 1, me->sum, 0);
    return 2 * n * l->w[UP].row_bytes;
}

static size_t exact_slice(walker *me, size_t begin, size_t end, bool only_first)
{
    const network *net = me->net;
    const layer *l = me->now;
    float *values = me->values + begin;
    net->k->product[net->format](&l->w[GATE], NULL, begin, end, &net->x[0], me->values, 0);
    size_t bytes = (end - begin) * l->w[GATE].row_bytes;
    if (only_first)
        return bytes;
    size_t n = net->k->select[SELECT_ABOVE](values, NULL, (uint32_t)begin, end - begin, l->pass, me->list, values);
    return bytes + listed_rest(me, values, n);
}

static size_t predicted_slice(walker *me, size_t begin, size_t end)
{
    const network *net = me->net;
    const layer *l = me->now;
    float *values = me->values + begin;
    net->k->product[net->format](&l->w[PREDICTOR], NULL, begin, end, &net->x[1], me->values, 0);
    size_t n = net->k->select[SELECT_FROM](values, NULL, (uint32_t)begin, end - begin, l->let_through, me->list, NULL);
    net->k->product[net->format](&l->w[GATE], me->list, 0, n, &net->x[0], values, 0);
    size_t bytes = (end - begin) * l->w[PREDICTOR].row_bytes + n * l->w[GATE].row_bytes;
    n = net->k->select[SELECT_ABOVE](values, me->list, 0, n, l->fire, me->list, values);
    return bytes + listed_rest(me, values, n);
}

static void *walk_slices(void *context)
{
    walker *me = context;
    const network *net = me->net;
    pthread_barrier_wait(me->start);
    size_t own = net->layers / me->threads;
    for (size_t turn = 0; me->taken[WHOLE] < SAMPLES; turn++) {
        /* Slice after slice, layer after layer; in the next round a slice has another way. */
        size_t at = turn % (own * net->slices), begin = at % net->slices * net->rows / net->slices;
        size_t end = (at % net->slices + 1) * net->rows / net->slices, round = turn / (own * net->slices);
        size_t way = (turn + round) % WAYS;
        me->now = net->layer + me->index * own + at / net->slices;
        double start = clock_seconds();
        size_t bytes = way == PREDICTED ? predicted_slice(me, begin, end) : exact_slice(me, begin, end, way == WHOLE);
        if (me->taken[way] < SAMPLES)
            me->samples[way][me->taken[way]++] = (double)bytes / (clock_seconds() - start);
    }
    return NULL;
}

/* ---- weights and thresholds ---- */

static matrix next_matrix(number_format format, size_t rows, size_t columns, const uint8_t *memory, size_t *used)
{
    matrix w = {.data = memory ? memory + *used : NULL, .format = format, .rows = (uint32_t)rows};
    w.columns = (uint32_t)columns;
    if (!number_row_bytes(format, columns, &w.row_bytes))
        stop("no whole number of blocks");
    *used += rows * w.row_bytes;
    return w;
}

static size_t make_layer(const network *net, const uint8_t *memory, layer *out)
{
    size_t used = 0;
    for (int m = 0; m < MATRICES; m++)
        out->w[m] = next_matrix(net->format, net->rows, m == PREDICTOR ? RANK : net->columns, memory, &used);
    return used;
}

void fill_weights(number_format format, uint8_t *memory, size_t bytes)
{
    const number_traits *traits = &number_formats[format];
    size_t part = PART / traits->block_bytes * traits->block_bytes;
    uint32_t seed = 1;
    for (size_t at = 0; at < part && at + traits->block_bytes <= bytes; at += traits->block_bytes)
        fill_block(memory + at, format, &seed);
    for (size_t at = part; at < bytes; at += part)
        memcpy(memory + at, memory, bytes - at < part ? bytes - at : part);
}

/* Where `percent` of n values lie above; sorts them. */
static float quantile(float *values, size_t n, size_t percent)
{
    double *sorted = new_or_stop(n * sizeof(double));
    for (size_t i = 0; i < n; i++)
        sorted[i] = values[i];
    qsort(sorted, n, sizeof(double), by_value);
    float at = (float)sorted[n * (100 - percent) / 100];
    mem_free(sorted);
    return at;
}

static void set_thresholds(const network *net, layer *l)
{
    float *values = new_or_stop(net->rows * sizeof(float));
    net->k->product[net->format](&l->w[GATE], NULL, 0, net->rows, &net->x[0], values, 0);
    l->pass = quantile(values, net->rows, DENSITY);
    l->fire = quantile(values, net->rows, FIRING);
    net->k->product[net->format](&l->w[PREDICTOR], NULL, 0, net->rows, &net->x[1], values, 0);
    l->let_through = quantile(values, net->rows, DENSITY);
    mem_free(values);
}

/* ---- measuring ---- */

/* Medians in GB/s of every way. */
static void time_ways(const network *net, unsigned threads, double speeds[WAYS])
{
    walker *walkers = new_or_stop(threads * sizeof(*walkers));
    pthread_t ids[MOST_THREADS];
    pthread_barrier_t start;
    pthread_barrier_init(&start, NULL, threads);
    memset(walkers, 0, threads * sizeof(*walkers));
    for (unsigned t = 0; t < threads; t++) {
        walkers[t].net = net;
        walkers[t].index = t;
        walkers[t].threads = threads;
        walkers[t].start = &start;
        if (pthread_create(&ids[t], NULL, walk_slices, &walkers[t]) != 0)
            stop("cannot start threads");
    }
    memset(speeds, 0, WAYS * sizeof(*speeds));
    for (unsigned t = 0; t < threads; t++) {
        pthread_join(ids[t], NULL);
        for (size_t way = 0; way < WAYS; way++) {
            qsort(walkers[t].samples[way], walkers[t].taken[way], sizeof(double), by_value);
            speeds[way] += walkers[t].samples[way][walkers[t].taken[way] / 2] * 1e-9;
        }
    }
    pthread_barrier_destroy(&start);
    mem_free(walkers);
}

kernel_input input_new(const kernels *k, size_t columns)
{
    float *values = new_or_stop(columns * sizeof(float));
    int8_t *q = new_or_stop(columns);
    float *scales = new_or_stop(columns / Q8_BLOCK * sizeof(float));
    int16_t *sums = new_or_stop(columns / Q8_SUM * sizeof(int16_t));
    fill_values(values, columns, 7);
    k->quantize(values, columns, q, scales, sums);
    return (kernel_input){.count = 1,
                          .columns = columns,
                          .values = values,
                          .q = q,
                          .scales = scales,
                          .sums = sums,
                          .streams = cpu_streams()};
}

void input_free(const kernel_input *x)
{
    mem_free((void *)(uintptr_t)x->values);
    mem_free((void *)(uintptr_t)x->q);
    mem_free((void *)(uintptr_t)x->scales);
    mem_free((void *)(uintptr_t)x->sums);
}

static void time_network(const settings *set, network *net, uint8_t *memory)
{
    layer one;
    size_t layer_bytes = make_layer(net, NULL, &one);
    net->layers = set->memory_bytes / layer_bytes < MOST_LAYERS ? set->memory_bytes / layer_bytes : MOST_LAYERS;
    if (net->layers < 2 * set->threads) /* too large for the memory to be measured on */
        return;
    net->x[0] = input_new(net->k, net->columns);
    net->x[1] = input_new(net->k, RANK);
    for (size_t i = 0; i < net->layers; i++) {
        make_layer(net, memory + i * layer_bytes, &net->layer[i]);
        set_thresholds(net, &net->layer[i]);
    }
    double speeds[WAYS];
    time_ways(net, set->threads, speeds);
    printf(set->csv ? "%s,%s,%zu,%zu,%zu,%.2f,%.2f,%.2f\n" : "%-8s %-6s %6zu x %4zu %8zu %8.1f %8.1f %10.1f\n",
           net->k->level, number_formats[net->format].name, net->rows, net->columns, net->slices, speeds[WHOLE],
           speeds[EXACT], speeds[PREDICTED]);
    fflush(stdout);
    input_free(&net->x[0]);
    input_free(&net->x[1]);
}

void time_networks(const settings *set)
{
    static const size_t shapes[][3] = {{5632, 2048, 16},
                                       {5632, 2048, FEWEST_SLICES},
                                       {MOST_ROWS, MOST_COLUMNS, 16},
                                       {MOST_ROWS, MOST_COLUMNS, FEWEST_SLICES}};
    uint8_t *memory = new_or_stop(set->memory_bytes);
    network net;
    printf(set->csv ? "level,format,rows,columns,slices,whole,exact,predicted\n"
                    : "\nsparse networks, all threads, GB/s      whole\n"
                      "level    format  neurons       slices     gate    exact  predicted\n");
    for (size_t f = 0; f < FORMAT_COUNT; f++) {
        if (!wanted(set->format, number_formats[f].name))
            continue;
        fill_weights((number_format)f, memory, set->memory_bytes);
        kernels k;
        for (size_t level = 1; next_level(set, &level, &k); level++) {
            net.k = &k;
            net.format = (number_format)f;
            for (size_t shape = 0; shape < sizeof(shapes) / sizeof(*shapes); shape++) {
                net.rows = shapes[shape][0];
                net.columns = shapes[shape][1];
                net.slices = shapes[shape][2];
                time_network(set, &net, memory);
            }
        }
    }
    mem_free(memory);
}
