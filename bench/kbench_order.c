/* kbench_order.c - what the places of listed rows are worth: with one token from memory, up and down_t of the neurons that
 * fire, which lie alone or in runs of neighbours, and in matrices of their own or as pairs (a bundle).
 *
 * What is asked: how much faster would listed rows be if neurons that fire together lay together, or if a neuron's up and
 * down_t were neighbours? So the lists are made, not selected: in every part of a layer the same number of neurons, in runs
 * of the same length at random places. A bundle needs no kernel of its own: rows of both matrices are then as far apart as
 * two rows are long. As in kbench_network.c, every thread walks through parts of its own, the ways take turns part by part,
 * and no cache holds a part until its next turn. Figures are GB/s over the rows read, sums of the threads' medians. */
#include "kbench.h"

#include "../src/base/clock.h"
#include "../src/base/memory.h"

#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum {
    PARTS = 4,    /* of a layer: what the engine takes at a time with two threads */
    DENSITY = 12, /* per cent of the neurons that fire */
    MOST_LAYERS = 64,
    SAMPLES = 240, /* parts of each way and thread */
    MOST_ROWS = 11008,
    MOST_COLUMNS = 4096,
    ALL_TOGETHER = 0, /* as the length of runs: one run */
};

/* How the rows of a part are read. */
static const struct way {
    const char *name;
    size_t run;   /* neighbours that fire together          */
    bool whole;   /* all rows of the gate, without a list   */
    bool bundle;  /* up and down_t of a neuron side by side */
    size_t chunk; /* neurons that are multiplied, then added, before the next ones; 0: all */
} ways[] = {
    {"whole", ALL_TOGETHER, true, false, 0},
    {"1", 1, false, false, 0},
    {"2", 2, false, false, 0},
    {"4", 4, false, false, 0},
    {"8", 8, false, false, 0},
    {"16", 16, false, false, 0},
    {"all", ALL_TOGETHER, false, false, 0},
    {"b1", 1, false, true, 0},
    {"b4", 4, false, true, 0},
    {"b1 by 32", 1, false, true, 32},
    {"1 by 32", 1, false, false, 32},
};
enum { WAYS = sizeof(ways) / sizeof(*ways) };

typedef struct layer {
    matrix gate, up, down, up_of_pair, down_of_pair; /* pairs: the same memory as up and down */
} layer;

typedef struct network {
    const kernels *k;
    number_format format;
    size_t rows, columns, layers;
    layer layer[MOST_LAYERS];
    kernel_input x;
} network;

/* A thread; an equal share of the layers is its own. */
typedef struct walker {
    const network *net;
    unsigned index, threads;
    pthread_barrier_t *start;
    uint32_t seed, list[MOST_ROWS / PARTS];
    float y[MOST_ROWS], h[MOST_ROWS / PARTS], sum[MOST_COLUMNS];
    size_t taken[WAYS];
    double all[WAYS][SAMPLES], up[WAYS][SAMPLES]; /* bytes per second; of whole both are the gate's */
} walker;

/* ---- one part ---- */

/* Lists DENSITY per cent of the neurons [begin, end), ascending, in runs; every way to place the runs is equally likely
 * (selection sampling). Returns how many. */
static size_t make_list(walker *me, size_t begin, size_t end, size_t run)
{
    size_t n = (end - begin) * DENSITY / 100, length = run == ALL_TOGETHER ? n : run, runs = n / length, made = 0;
    n = runs * length;
    size_t places = end - begin - n + runs; /* of a run or of a neuron that is silent */
    for (size_t at = begin; runs > 0; places--) {
        bool here = (uint64_t)next_random(&me->seed) * places >> 24 < runs;
        for (size_t i = 0; here && i < length; i++)
            me->list[made++] = (uint32_t)(at + i);
        at += here ? length : 1;
        runs -= here;
    }
    return made;
}

static void take_part(walker *me, const layer *l, size_t part, size_t w)
{
    const network *net = me->net;
    const struct way *way = &ways[w];
    size_t begin = part * net->rows / PARTS, end = (part + 1) * net->rows / PARTS;
    const matrix *up = way->bundle ? &l->up_of_pair : &l->up, *down = way->bundle ? &l->down_of_pair : &l->down;
    size_t n = way->whole ? 0 : make_list(me, begin, end, way->run), chunk = way->chunk > 0 ? way->chunk : n;
    double start = clock_seconds(), first = 0;
    if (way->whole) {
        net->k->product[net->format](&l->gate, NULL, begin, end, &net->x, me->y, 0);
        first = clock_seconds() - start;
    } else {
        memset(me->sum, 0, net->columns * sizeof(float));
    }
    for (size_t i = 0; i < n; i += chunk) {
        size_t to = n - i < chunk ? n : i + chunk;
        double before = clock_seconds();
        net->k->product[net->format](up, me->list, i, to, &net->x, me->y, 0);
        first += clock_seconds() - before;
        net->k->accumulate[net->format](down, me->list, i, to, me->h, 0, 1, me->sum, 0);
    }
    double bytes = (double)((way->whole ? end - begin : n) * l->gate.row_bytes), all = clock_seconds() - start;
    if (me->taken[w] == SAMPLES)
        return;
    me->up[w][me->taken[w]] = bytes / first;
    me->all[w][me->taken[w]++] = (way->whole ? 1 : 2) * bytes / all;
}

static void *walk_parts(void *context)
{
    walker *me = context;
    const network *net = me->net;
    pthread_barrier_wait(me->start);
    size_t own = net->layers / me->threads;
    for (size_t turn = 0; me->taken[WAYS - 1] < SAMPLES; turn++) {
        size_t at = turn % (own * PARTS), round = turn / (own * PARTS);
        take_part(me, net->layer + me->index * own + at / PARTS, at % PARTS, (turn + round) % WAYS);
    }
    return NULL;
}

/* ---- weights ---- */

static matrix matrix_at(const network *net, const uint8_t *memory, size_t rows_before)
{
    matrix w = {.format = net->format, .rows = (uint32_t)net->rows, .columns = (uint32_t)net->columns};
    if (!number_row_bytes(net->format, net->columns, &w.row_bytes))
        stop("no whole number of blocks");
    w.data = memory + rows_before * w.row_bytes;
    return w;
}

static void make_layer(const network *net, const uint8_t *memory, layer *l)
{
    l->gate = matrix_at(net, memory, 0);
    l->up = l->up_of_pair = matrix_at(net, memory, net->rows);
    l->down = matrix_at(net, memory, 2 * net->rows);
    l->down_of_pair = matrix_at(net, memory, net->rows + 1);
    l->up_of_pair.row_bytes *= 2;
    l->down_of_pair.row_bytes *= 2;
}

/* ---- measuring ---- */

/* Medians in GB/s of every way: of all rows, and of up's alone. */
static void time_ways(const network *net, unsigned threads, double all[WAYS], double up[WAYS])
{
    walker *walkers = new_or_stop(threads * sizeof(*walkers));
    pthread_t ids[MOST_THREADS];
    pthread_barrier_t start;
    pthread_barrier_init(&start, NULL, threads);
    memset(walkers, 0, threads * sizeof(*walkers));
    for (unsigned t = 0; t < threads; t++) {
        walkers[t].net = net;
        walkers[t].index = walkers[t].seed = t;
        walkers[t].threads = threads;
        walkers[t].start = &start;
        fill_values(walkers[t].h, MOST_ROWS / PARTS, t);
        if (pthread_create(&ids[t], NULL, walk_parts, &walkers[t]) != 0)
            stop("cannot start threads");
    }
    memset(all, 0, WAYS * sizeof(*all));
    memset(up, 0, WAYS * sizeof(*up));
    for (unsigned t = 0; t < threads; t++) {
        pthread_join(ids[t], NULL);
        for (size_t w = 0; w < WAYS; w++) {
            qsort(walkers[t].all[w], walkers[t].taken[w], sizeof(double), by_value);
            qsort(walkers[t].up[w], walkers[t].taken[w], sizeof(double), by_value);
            all[w] += walkers[t].all[w][walkers[t].taken[w] / 2] * 1e-9;
            up[w] += walkers[t].up[w][walkers[t].taken[w] / 2] * 1e-9;
        }
    }
    pthread_barrier_destroy(&start);
    mem_free(walkers);
}

static void print_ways(const settings *set, const network *net, const char *what, const double speeds[WAYS])
{
    printf(set->csv ? "%s,%s,%zu,%zu,%u,%s" : "%-11s %-6s %6zu x %4zu %u %-5s", net->k->level,
           number_formats[net->format].name, net->rows, net->columns, set->threads, what);
    for (size_t w = 0; w < WAYS; w++)
        printf(set->csv ? ",%.2f" : " %8.2f", speeds[w]);
    putchar('\n');
}

static void time_network(const settings *set, network *net, const uint8_t *memory)
{
    double all[WAYS], up[WAYS];
    size_t row_bytes = matrix_at(net, memory, 0).row_bytes, layer_bytes = 3 * net->rows * row_bytes;
    net->layers = set->memory_bytes / layer_bytes < MOST_LAYERS ? set->memory_bytes / layer_bytes : MOST_LAYERS;
    if (net->layers < 2 * set->threads) /* too large for the memory to be measured on */
        return;
    net->x = input_new(net->k, net->columns);
    for (size_t i = 0; i < net->layers; i++)
        make_layer(net, memory + i * layer_bytes, &net->layer[i]);
    time_ways(net, set->threads, all, up);
    print_ways(set, net, "both", all);
    print_ways(set, net, "up", up);
    fflush(stdout);
    input_free(&net->x);
}

void time_orders(const settings *set)
{
    static const size_t shapes[][2] = {{5632, 2048}, {MOST_ROWS, MOST_COLUMNS}};
    uint8_t *memory = new_or_stop(set->memory_bytes);
    network net;
    fputs(set->csv ? "level,format,rows,columns,threads,rows_of" : "\nlisted rows in runs, b: in pairs; GB/s\n",
          stdout);
    for (size_t w = 0; w < WAYS; w++)
        printf(set->csv ? ",%s" : w == 0 ? "%50s" : " %8s", ways[w].name);
    putchar('\n');
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
                time_network(set, &net, memory);
            }
        }
    }
    mem_free(memory);
}
