/* kbench.c - times every kernel of every level this CPU has: kbench --help.
 *
 * A product is timed on weights that stay in the second cache (what the instructions allow), on weights far larger
 * than any cache, by all threads at once, whole and by a list (what the memory allows), and with many tokens at once
 * (arithmetic). The memory of a shared machine changes from second to second, so every megabyte that
 * is multiplied comes between one that kernels.read reads and the next: shares are of medians of those. */
#include "kbench.h"

#include "../src/base/clock.h"
#include "../src/base/memory.h"
#include "../src/kernel/cpu.h"
#include "../src/kernel/topology.h"
#include "../src/number/half.h"

#include <getopt.h>
#include <math.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum {
    COLUMNS = 2048,
    CACHE_BYTES = 512 << 10, /* of weights; fits the second cache of every CPU with AVX2 beside the activations */
    MANY_TOKENS = 128,       /* at most */
    MANY_ROWS = 256,
    REPEATS = 25,
    PIECE_BYTES = 1 << 20, /* that are timed at once when reading memory: short, since others use the machine too */
    LISTED_SHARE = 8,      /* one row of so many is listed: what a sparse layer reads */
};

/* Everything that is measured on. */
typedef struct workbench {
    settings set;
    uint8_t *memory; /* [set.memory_bytes] */
    float *values;   /* [MANY_TOKENS][COLUMNS] */
    int8_t *q;
    float *scales;
    int16_t *sums;
    uint16_t *bfloats;
    float *y; /* [MANY_TOKENS][MANY_ROWS] */
} workbench;

void stop(const char *what)
{
    fprintf(stderr, "kbench: %s\n", what);
    exit(1);
}

void *new_or_stop(size_t bytes)
{
    void *block = mem_new(bytes);
    if (!block)
        stop("out of memory");
    return block;
}

uint32_t next_random(uint32_t *state)
{
    *state = *state * 1664525u + 1013904223u;
    return *state >> 8;
}

void fill_values(float *x, size_t n, uint32_t seed)
{
    for (size_t i = 0; i < n; i++)
        x[i] = (float)next_random(&seed) / 8388608.0f - 1.0f;
}

void fill_block(uint8_t *block, number_format format, uint32_t *seed)
{
    const number_traits *traits = &number_formats[format];
    float values[256], largest = 0;
    if (number_is_written(format)) {
        fill_values(values, traits->block_values, next_random(seed));
        traits->encode(values, NULL, block, traits->block_values);
        return;
    }
    while (!(largest > 0x1p-20f && largest < 0x1p20f)) {
        for (size_t i = 0; i < traits->block_bytes; i++)
            block[i] = (uint8_t)next_random(seed);
        traits->decode(block, values, traits->block_values);
        largest = 0;
        for (size_t i = 0; i < traits->block_values; i++) /* infinite where a value is not finite */
            largest = fabsf(values[i]) <= largest ? largest : isfinite(values[i]) ? fabsf(values[i]) : INFINITY;
    }
}

/* ---- timing ---- */

/* Seconds of one call: the best of REPEATS, each of calls that together take set.seconds. */
double best_seconds(const settings *set, work *call, void *context)
{
    call(context);
    double best = 1e30;
    for (int r = 0; r < REPEATS; r++) {
        size_t calls = 0;
        double start = clock_seconds(), spent;
        do {
            call(context);
            calls++;
        } while ((spent = clock_seconds() - start) < set->seconds);
        best = spent / (double)calls < best ? spent / (double)calls : best;
    }
    return best;
}

/* ---- products ---- */

typedef struct product_job {
    kernel_product *product;
    matrix w;
    const uint32_t *list;
    size_t rows; /* of w, or of the list */
    kernel_input x;
    float *y;
    size_t y_stride;
} product_job;

static void run_product(void *context)
{
    product_job *job = context;
    job->product(&job->w, job->list, 0, job->rows, &job->x, job->y, job->y_stride);
}

static matrix matrix_of(number_format format, const uint8_t *data, size_t bytes)
{
    matrix w = {.data = data, .format = format, .columns = COLUMNS};
    if (!number_row_bytes(format, COLUMNS, &w.row_bytes))
        stop("no whole number of blocks");
    w.rows = (uint32_t)(bytes / w.row_bytes);
    return w;
}

/* Fills the memory with rows of a format: a piece encoded, then copied, so that every piece begins with a row; or, if `dense`,
 * with nothing between the copies. (A block that is read from its middle may have any scale; products with subnormal ones take
 * four times as long.) */
static void fill_memory(const workbench *bench, number_format format, bool dense)
{
    size_t row_bytes = matrix_of(format, NULL, 0).row_bytes, filled = PIECE_BYTES / row_bytes * row_bytes;
    uint32_t seed = 1;
    for (size_t at = 0; at < filled; at += number_formats[format].block_bytes)
        fill_block(bench->memory + at, format, &seed);
    size_t step = dense ? filled : PIECE_BYTES;
    for (size_t at = step; at + step <= bench->set.memory_bytes; at += step)
        memcpy(bench->memory + at, bench->memory, filled);
}

/* One token, in all that kernels read. */
static kernel_input input_of(const workbench *b)
{
    return (kernel_input){.count = 1,
                          .columns = COLUMNS,
                          .values = b->values,
                          .q = b->q,
                          .scales = b->scales,
                          .sums = b->sums,
                          .bfloats = b->bfloats,
                          .streams = cpu_streams()};
}

/* ---- from memory: every thread walks through its part of it in pieces, and does with one piece after
 * the other: read it, multiply all its rows, multiply every eighth of its rows ---- */

enum { READ, ALL_ROWS, LISTED_ROWS, WAYS };

typedef struct walk {
    const workbench *bench;
    const kernels *k;
    number_format format;
    const uint8_t *data;
    size_t pieces;
    pthread_barrier_t *start;
    double *speeds[WAYS]; /* [pieces / WAYS] bytes per second, sorted */
    uint64_t sum;
} walk;

int by_value(const void *a, const void *b)
{
    double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

static void *walk_memory(void *context)
{
    walk *me = context;
    enum { MOST_ROWS = PIECE_BYTES / (COLUMNS / 8) }; /* no format has less than a bit per weight */
    uint32_t list[MOST_ROWS / LISTED_SHARE];
    float *y = new_or_stop(sizeof(float) * MOST_ROWS);
    kernel_input x = input_of(me->bench);
    pthread_barrier_wait(me->start);
    for (size_t i = 0; i < me->pieces / WAYS * WAYS; i++) {
        const uint8_t *piece = me->data + i * PIECE_BYTES;
        product_job job = {me->k->product[me->format], matrix_of(me->format, piece, PIECE_BYTES), NULL, 0, x, y, 0};
        size_t way = i % WAYS, bytes = PIECE_BYTES;
        job.rows = job.w.rows;
        if (way == LISTED_ROWS) {
            job.list = list;
            job.rows = job.w.rows / LISTED_SHARE;
            for (uint32_t r = 0; r < job.rows; r++) /* one of every eight, not always the same */
                list[r] = r * LISTED_SHARE + (r * 2654435761u >> 29) % LISTED_SHARE;
        }
        double start = clock_seconds();
        if (way == READ) {
            me->sum += me->k->read(piece, PIECE_BYTES);
        } else {
            run_product(&job);
            bytes = job.rows * job.w.row_bytes;
        }
        me->speeds[way][i / WAYS] = (double)bytes / (clock_seconds() - start);
    }
    for (size_t way = 0; way < WAYS; way++)
        qsort(me->speeds[way], me->pieces / WAYS, sizeof(double), by_value);
    mem_free(y);
    return NULL;
}

/* GB/s of all threads together, for each way: sums of the threads' medians. */
static void time_memory(const workbench *bench, const kernels *k, number_format format, double speeds[WAYS])
{
    unsigned threads = bench->set.threads;
    size_t pieces = bench->set.memory_bytes / PIECE_BYTES / threads;
    walk walks[MOST_THREADS];
    pthread_t ids[MOST_THREADS];
    pthread_barrier_t start;
    pthread_barrier_init(&start, NULL, threads);
    for (unsigned t = 0; t < threads; t++) {
        walks[t] = (walk){bench, k, format, bench->memory + t * pieces * PIECE_BYTES, pieces, &start, {NULL}, 0};
        for (size_t way = 0; way < WAYS; way++)
            walks[t].speeds[way] = new_or_stop(sizeof(double) * (pieces / WAYS));
        if (pthread_create(&ids[t], NULL, walk_memory, &walks[t]) != 0)
            stop("cannot start threads");
    }
    memset(speeds, 0, WAYS * sizeof(*speeds));
    for (unsigned t = 0; t < threads; t++) {
        pthread_join(ids[t], NULL);
        for (size_t way = 0; way < WAYS; way++) {
            speeds[way] += walks[t].speeds[way][pieces / WAYS / 2] * 1e-9;
            mem_free(walks[t].speeds[way]);
        }
    }
    pthread_barrier_destroy(&start);
}

typedef struct product_figures {
    double cache;        /* GB/s of weights, one thread */
    double memory[WAYS]; /* GB/s, all threads */
    double many;         /* GFLOP/s, one thread */
} product_figures;

static product_figures time_product(const workbench *bench, const kernels *k, number_format format)
{
    product_figures out;
    kernel_input x = input_of(bench);
    matrix w = matrix_of(format, bench->memory, CACHE_BYTES);
    product_job job = {k->product[format], w, NULL, w.rows, x, bench->y, 0};
    out.cache = (double)(w.rows * w.row_bytes) / best_seconds(&bench->set, run_product, &job) * 1e-9;
    job.rows = job.y_stride = MANY_ROWS;
    job.x.count = bench->set.tokens;
    out.many = 2.0 * MANY_ROWS * (double)job.x.count * COLUMNS / best_seconds(&bench->set, run_product, &job) * 1e-9;
    time_memory(bench, k, format, out.memory);
    return out;
}

bool wanted(const char *choice, const char *name)
{
    return !choice || strcasecmp(choice, name) == 0;
}

bool next_level(const settings *set, size_t *level, kernels *k)
{
    for (; *level < kernel_level_count(); (*level)++)
        if (kernel_level_present(*level) && wanted(set->level, kernel_level_name(*level))) {
            kernels_for(*level, k);
            return true;
        }
    return false;
}

static void products(const workbench *bench)
{
    if (bench->set.csv)
        printf("level,format,cache_gb_per_s,read_gb_per_s,memory_gb_per_s,share,listed_gb_per_s,many_gflop_per_s\n");
    else
        printf("                 1 thread      all threads, GB/s                      1 thread, %zu tokens\n"
               "level    format  L2, GB/s   read  product  share  1 row of %d       GFLOP/s\n",
               bench->set.tokens, LISTED_SHARE);
    for (size_t f = 0; f < FORMAT_COUNT; f++) {
        if (!wanted(bench->set.format, number_formats[f].name))
            continue;
        fill_memory(bench, (number_format)f, false);
        kernels k;
        for (size_t level = 0; next_level(&bench->set, &level, &k); level++) {
            product_figures p = time_product(bench, &k, (number_format)f);
            printf(bench->set.csv ? "%s,%s,%.2f,%.2f,%.2f,%.3f,%.2f,%.1f\n"
                                  : "%-8s %-6s %9.1f %6.1f %8.1f %6.2f %10.1f %14.0f\n",
                   k.level, number_formats[f].name, p.cache, p.memory[READ], p.memory[ALL_ROWS],
                   p.memory[ALL_ROWS] / p.memory[READ], p.memory[LISTED_ROWS], p.many);
            fflush(stdout);
        }
    }
}

/* ---- kernels on vectors ---- */

enum { VECTOR = 5632, HEAD = 64, HEADS = 8, POSITIONS = 512 };

typedef struct vector_job {
    const kernels *k;
    const workbench *bench;
    size_t head; /* of run_recur */
} vector_job;

static void run_quantize(void *context)
{
    const vector_job *job = context;
    job->k->quantize(job->bench->values, VECTOR, job->bench->q, job->bench->scales, job->bench->sums);
}

static void run_rms_norm(void *context)
{
    const vector_job *job = context;
    job->k->rms_norm(job->bench->values, job->bench->values + VECTOR, 1e-5f, VECTOR, job->bench->y);
}

static void run_add(void *context)
{
    const vector_job *job = context;
    job->k->add(job->bench->values, VECTOR, job->bench->y);
}

static void run_silu(void *context)
{
    const vector_job *job = context;
    job->k->activate[ACTIVATION_SILU](job->bench->values, job->bench->values + VECTOR, no_terms, VECTOR, job->bench->y);
}

static void run_gelu(void *context)
{
    const vector_job *job = context;
    job->k->activate[ACTIVATION_GELU](job->bench->values, NULL, no_terms, VECTOR, job->bench->y);
}

static void run_relu(void *context)
{
    const vector_job *job = context;
    job->k->activate[ACTIVATION_RELU](job->bench->values, job->bench->values + VECTOR, no_terms, VECTOR, job->bench->y);
}

static void run_rope(void *context)
{
    const vector_job *job = context;
    const float *angles = job->bench->values;
    job->k->rope[ROPE_NEIGHBOURS](job->bench->y, VECTOR / HEAD, HEAD, angles, angles + HEAD, HEAD / 2);
}

static void run_to_half(void *context)
{
    const vector_job *job = context;
    job->k->to_half(job->bench->values, VECTOR, (uint16_t *)(void *)job->bench->y);
}

static const attend_scoring plain_scoring = {.scale = 0.125f};
enum { ATTEND_ROWS = 12, LONG_CONTEXT = 16384 };

/* Numbers of pages: in the order in which they lie in memory; in another one. */
static const uint32_t *pages_in_order(void)
{
    static uint32_t pages[LONG_CONTEXT / KV_PAGE];
    for (uint32_t i = 0; i < LONG_CONTEXT / KV_PAGE; i++)
        pages[i] = i;
    return pages;
}

static const uint32_t *pages_scattered(void)
{
    static uint32_t pages[LONG_CONTEXT / KV_PAGE];
    for (uint32_t i = 0; i < LONG_CONTEXT / KV_PAGE; i++)
        pages[i] = i * 37 % (LONG_CONTEXT / KV_PAGE);
    return pages;
}

/* Returns the bytes of a key. */
static size_t key_bytes(number_format format)
{
    return HEAD / number_formats[format].block_values * number_formats[format].block_bytes;
}

/* Keys, or values, of so many bytes each, in pages that follow one another. */
static attend_half half_at(const void *data, size_t row_bytes)
{
    return (attend_half){data, HEAD, row_bytes, KV_PAGE * row_bytes};
}

/* Keys of POSITIONS positions, of so many bytes each, and their values after them. */
static attend_cache short_cache(const void *keys, size_t bytes)
{
    const char *values = (const char *)keys + POSITIONS * bytes;
    return (attend_cache){half_at(keys, bytes), half_at(values, bytes), pages_in_order()};
}

/* Eight heads that share 512 positions of keys and values; the scores lie behind the output. */
static void run_attend_f32(void *context)
{
    const vector_job *job = context;
    const float *query = job->bench->values;
    attend_cache cache = short_cache(query + HEADS * HEAD, key_bytes(FORMAT_F32));
    float *out = job->bench->y;
    job->k->attend[FORMAT_F32](query, HEADS, &cache, 0, POSITIONS, &plain_scoring, out + HEADS * HEAD, out);
}

static void run_attend_f16(void *context)
{
    const vector_job *job = context;
    attend_cache cache = short_cache(job->bench->memory, key_bytes(FORMAT_F16));
    float *out = job->bench->y;
    job->k->attend[FORMAT_F16](job->bench->values, HEADS, &cache, 0, POSITIONS, &plain_scoring, out + HEADS * HEAD,
                               out);
}

/* Eight heads and a long context, whose keys and values come from memory: each call takes the next ones. The scores lie at the
 * end of the memory. */
static void attend_long(vector_job *job, number_format format, const uint32_t *pages)
{
    size_t row_bytes = key_bytes(format), bytes = LONG_CONTEXT * row_bytes,
           scores = HEADS * LONG_CONTEXT * sizeof(float);
    if (job->bench->set.memory_bytes < scores + 2 * bytes)
        stop("attend_16384 needs 5 megabytes");
    size_t contexts = (job->bench->set.memory_bytes - scores) / bytes / 2;
    const uint8_t *key = job->bench->memory + job->head++ % contexts * 2 * bytes;
    attend_cache cache = {half_at(key, row_bytes), half_at(key + bytes, row_bytes), pages};
    float *out = job->bench->y, *last = (float *)(void *)(job->bench->memory + contexts * 2 * bytes);
    job->k->attend[format](job->bench->values, HEADS, &cache, 0, LONG_CONTEXT, &plain_scoring, last, out);
}

static void run_attend_long(void *context)
{
    attend_long(context, FORMAT_F16, pages_in_order());
}

static void run_attend_long_q8_0(void *context)
{
    attend_long(context, FORMAT_Q8_0, pages_in_order());
}

static void run_attend_scattered(void *context)
{
    attend_long(context, FORMAT_F16, pages_scattered());
}

/* The last rows of these positions: of eight heads, and of one. */
static void attend_rows(const vector_job *job, number_format format, size_t rows, size_t heads)
{
    attend_run run = {.query = job->bench->values,
                      .out = job->bench->y,
                      .stride = heads * HEAD,
                      .out_stride = heads * HEAD,
                      .rows = rows,
                      .heads = heads,
                      .cache = short_cache(job->bench->memory, key_bytes(format)),
                      .seen = POSITIONS - rows + 1,
                      .scoring = plain_scoring};
    job->k->attend_rows[format](&run);
}

static void run_attend_rows(void *context)
{
    attend_rows(context, FORMAT_F16, ATTEND_ROWS, HEADS);
}

static void run_attend_rows_q8_0(void *context)
{
    attend_rows(context, FORMAT_Q8_0, ATTEND_ROWS, HEADS);
}

static void run_attend_rows_of_one(void *context)
{
    attend_rows(context, FORMAT_F16, ATTEND_ROWS * HEADS, 1);
}

/* The state of a head of Nemotron 3 Nano. */
enum { STATE_ROWS = 64, STATE_COLUMNS = 128, STATE_BYTES = STATE_ROWS * STATE_COLUMNS * 4, RECUR_TOKENS = 64 };

static recurrence_run recurrence_of(const vector_job *job, size_t tokens)
{
    const float *values = job->bench->values;
    return (recurrence_run){.rows = STATE_ROWS,
                            .columns = STATE_COLUMNS,
                            .tokens = tokens,
                            .key = values,
                            .query = values + STATE_COLUMNS,
                            .value = values + 2 * STATE_COLUMNS,
                            .stride = STATE_COLUMNS / 2,
                            .decay = values,
                            .gain = values + RECUR_TOKENS,
                            .number_stride = 1,
                            .out = job->bench->y,
                            .out_stride = STATE_ROWS};
}

/* One token and the next head, from one half of the memory to the other, so that no state is in a cache. */
static void run_recur(void *context)
{
    vector_job *job = context;
    recurrence_run run = recurrence_of(job, 1);
    size_t heads = job->bench->set.memory_bytes / 2 / STATE_BYTES;
    uint8_t *from = job->bench->memory + job->head++ % heads * STATE_BYTES;
    run.before = (const float *)(const void *)from;
    run.after = (float *)(void *)(from + heads * STATE_BYTES);
    job->k->recur(&run);
}

static void run_recur_many(void *context)
{
    const vector_job *job = context;
    recurrence_run run = recurrence_of(job, RECUR_TOKENS);
    run.after = (float *)(void *)job->bench->memory;
    job->k->recur(&run);
}

static const struct vector_op {
    const char *name;
    work *run;
    double bytes;         /* that the kernel reads; of recur also what it writes */
    number_format format; /* of the memory; F32: does not matter                 */
} vector_ops[] = {
    {"quantize", run_quantize, VECTOR * 4, FORMAT_F32},
    {"rms_norm", run_rms_norm, VECTOR * 8, FORMAT_F32},
    {"add", run_add, VECTOR * 8, FORMAT_F32},
    {"silu", run_silu, VECTOR * 8, FORMAT_F32},
    {"gelu", run_gelu, VECTOR * 4, FORMAT_F32},
    {"relu", run_relu, VECTOR * 8, FORMAT_F32},
    {"rope", run_rope, VECTOR * 4, FORMAT_F32},
    {"to_half", run_to_half, VECTOR * 4, FORMAT_F32},
    {"attend_f32", run_attend_f32, POSITIONS *HEAD * 8, FORMAT_F32},
    {"attend_f16", run_attend_f16, POSITIONS *HEAD * 4, FORMAT_F16},
    {"attend_16384", run_attend_long, LONG_CONTEXT *HEAD * 4, FORMAT_F16},
    {"attend_scattered", run_attend_scattered, LONG_CONTEXT *HEAD * 4, FORMAT_F16},
    {"attend_12_rows", run_attend_rows, POSITIONS *HEAD * 4, FORMAT_F16},
    {"attend_96_of_1", run_attend_rows_of_one, POSITIONS *HEAD * 4, FORMAT_F16},
    {"attend_16384_q8_0", run_attend_long_q8_0, LONG_CONTEXT *HEAD * 2.125, FORMAT_Q8_0},
    {"attend_12_rows_q8_0", run_attend_rows_q8_0, POSITIONS *HEAD * 2.125, FORMAT_Q8_0},
    {"recur", run_recur, 2 * STATE_BYTES, FORMAT_F32},
    {"recur_64", run_recur_many, 2.0 * STATE_BYTES *RECUR_TOKENS, FORMAT_F32},
};

static void vectors(const workbench *bench)
{
    number_format filled = FORMAT_F32;
    printf(bench->set.csv ? "level,op,microseconds,gb_per_s\n" : "\nlevel    op          microseconds     GB/s\n");
    for (size_t i = 0; i < sizeof(vector_ops) / sizeof(*vector_ops); i++) {
        if (!wanted(bench->set.op, vector_ops[i].name))
            continue;
        kernels k;
        for (size_t level = 0; next_level(&bench->set, &level, &k); level++) {
            if (vector_ops[i].format != FORMAT_F32 && vector_ops[i].format != filled)
                fill_memory(bench, filled = vector_ops[i].format, true);
            memset(bench->y, 0, VECTOR * sizeof(float));
            vector_job job = {&k, bench, 0};
            double spent = best_seconds(&bench->set, vector_ops[i].run, &job);
            printf(bench->set.csv ? "%s,%s,%.3f,%.2f\n" : "%-8s %-10s %13.2f %8.1f\n", k.level, vector_ops[i].name,
                   spent * 1e6, vector_ops[i].bytes / spent * 1e-9);
        }
    }
}

/* ---- the command ---- */

static const char help[] =
    "kbench [--level NAME] [--format NAME] [--op NAME] [--threads N] [--tokens N] [--megabytes N] [--seconds S]\n"
    "       [--csv]\n"
    "Times every kernel of every level. --op product: only the products; network: only sparse networks; neurons:\n"
    "only sums of rows, columns as rows and selection; order: only listed rows in runs of neighbours and in pairs,\n"
    "which nothing else measures; another op: only that one.\n"
    "--tokens: of the products with many, 1 to 128; 128. --megabytes: weights for the figures from memory, 512; "
    "--seconds: of each repeat, 0.002.\n";

static settings read_options(int argc, char **argv)
{
    static const struct option options[] = {
        {"level", 1, NULL, 'l'},  {"format", 1, NULL, 'f'},    {"op", 1, NULL, 'o'},      {"threads", 1, NULL, 't'},
        {"tokens", 1, NULL, 'n'}, {"megabytes", 1, NULL, 'm'}, {"seconds", 1, NULL, 's'}, {"csv", 0, NULL, 'c'},
        {"help", 0, NULL, 'h'},   {NULL, 0, NULL, 0},
    };
    settings set = {
        .threads = topology_cores(), .tokens = MANY_TOKENS, .memory_bytes = (size_t)512 << 20, .seconds = 0.002};
    for (int c; (c = getopt_long(argc, argv, "", options, NULL)) != -1;)
        switch (c) {
        case 'l':
            set.level = optarg;
            break;
        case 'f':
            set.format = optarg;
            break;
        case 'o':
            set.op = optarg;
            break;
        case 't':
            set.threads = (unsigned)strtoul(optarg, NULL, 10);
            break;
        case 'n':
            set.tokens = strtoul(optarg, NULL, 10);
            break;
        case 'm':
            set.memory_bytes = strtoul(optarg, NULL, 10) << 20;
            break;
        case 's':
            set.seconds = strtod(optarg, NULL);
            break;
        case 'c':
            set.csv = true;
            break;
        default:
            fputs(help, c == 'h' ? stdout : stderr);
            exit(c == 'h' ? 0 : 2);
        }
    if (set.threads < 1 || set.threads > MOST_THREADS || set.memory_bytes / PIECE_BYTES / set.threads < WAYS)
        stop("needs 1 to 256 threads and at least 3 MB for each");
    if (set.tokens < 1 || set.tokens > MANY_TOKENS)
        stop("--tokens: 1 to 128");
    return set;
}

int main(int argc, char **argv)
{
    workbench bench = {.set = read_options(argc, argv)};
    bench.memory = new_or_stop(bench.set.memory_bytes);
    bench.values = new_or_stop(sizeof(float) * MANY_TOKENS * COLUMNS);
    bench.q = new_or_stop(MANY_TOKENS * COLUMNS);
    bench.scales = new_or_stop(sizeof(float) * MANY_TOKENS * COLUMNS / Q8_BLOCK);
    bench.sums = new_or_stop(sizeof(int16_t) * MANY_TOKENS * COLUMNS / Q8_SUM);
    bench.bfloats = new_or_stop(sizeof(uint16_t) * MANY_TOKENS * COLUMNS);
    bench.y = new_or_stop(sizeof(float) * MANY_TOKENS * MANY_ROWS);
    fill_values(bench.values, MANY_TOKENS * COLUMNS, 1);
    kernels scalar;
    kernels_for(0, &scalar);
    scalar.quantize(bench.values, MANY_TOKENS * COLUMNS, bench.q, bench.scales, bench.sums);
    for (size_t i = 0; i < MANY_TOKENS * COLUMNS; i++)
        bench.bfloats[i] = bfloat_from_float(bench.values[i]);

    char cpu[128];
    topology_cpu_name(cpu, sizeof(cpu));
    if (!bench.set.csv)
        printf("%s, %u threads, %zu MB, last cache %zu MB\n", cpu, bench.set.threads, bench.set.memory_bytes >> 20,
               topology_cache_bytes() >> 20);
    if (wanted(bench.set.op, "product"))
        products(&bench);
    if (wanted(bench.set.op, "product") == false || !bench.set.op)
        vectors(&bench);
    if (wanted(bench.set.op, "network"))
        time_networks(&bench.set);
    if (bench.set.op && wanted(bench.set.op, "order")) /* minutes: only where it is asked for */
        time_orders(&bench.set);
    if (wanted(bench.set.op, "neurons"))
        time_neurons(&bench.set);

    void *blocks[] = {bench.memory, bench.values, bench.q, bench.scales, bench.sums, bench.bfloats, bench.y};
    for (size_t i = 0; i < sizeof(blocks) / sizeof(*blocks); i++)
        mem_free(blocks[i]);
    return 0;
}
