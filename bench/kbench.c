/* kbench.c - times every kernel of every level this CPU has: kbench --help.
 *
 * A product is timed three ways: one thread on weights that stay in the second cache (what the
 * instructions allow), all threads on weights far larger than any cache (what the memory allows,
 * beside what kernels.read gets from the same bytes just before and after: memory that is
 * shared with other programs or virtual machines changes from minute to minute), and with
 * many tokens at once (arithmetic). Each figure is the best of several repeats, except shares of memory, which
 * are medians of runs that alternate with readings. */
#include "../src/base/clock.h"
#include "../src/base/memory.h"
#include "../src/base/pool.h"
#include "../src/kernel/kernel.h"
#include "../src/kernel/topology.h"

#include <getopt.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum {
    COLUMNS = 2048,
    CACHE_BYTES = 512 << 10,   /* of weights; fits the second cache of every CPU with AVX2 beside the activations */
    MANY_TOKENS = 128,
    MANY_ROWS = 256,
    REPEATS = 7,
};

typedef struct settings {
    const char *level, *format, *op;   /* NULL: all */
    bool csv;
    unsigned threads;
    size_t memory_bytes;
    double seconds;                    /* of one repeat */
} settings;

/* Everything that is measured on. */
typedef struct workbench {
    settings set;
    pool *threads;
    uint8_t *memory;      /* [set.memory_bytes] */
    float *values;        /* [MANY_TOKENS][COLUMNS] */
    int8_t *q;
    float *scales;
    int16_t *sums;
    float *y;             /* as many as there are rows in `memory`, or MANY_TOKENS * MANY_ROWS */
} workbench;

static void stop(const char *what)
{
    fprintf(stderr, "kbench: %s\n", what);
    exit(1);
}

static void *new_or_stop(size_t bytes)
{
    void *block = mem_new(bytes);
    if (!block)
        stop("out of memory");
    return block;
}

static uint32_t next_random(uint32_t *state)
{
    *state = *state * 1664525u + 1013904223u;
    return *state >> 8;
}

static void fill_values(float *x, size_t n, uint32_t seed)
{
    for (size_t i = 0; i < n; i++)
        x[i] = (float)next_random(&seed) / 8388608.0f - 1.0f;
}

/* ---- timing ---- */

typedef void work(void *context);

/* Seconds of one call: the best of REPEATS, each of calls that together take set.seconds. */
static double best_seconds(const workbench *bench, work *call, void *context)
{
    call(context);
    double best = 1e30;
    for (int r = 0; r < REPEATS; r++) {
        size_t calls = 0;
        double start = clock_seconds(), spent;
        do {
            call(context);
            calls++;
        } while ((spent = clock_seconds() - start) < bench->set.seconds);
        best = spent / (double)calls < best ? spent / (double)calls : best;
    }
    return best;
}

static int by_value(const void *a, const void *b)
{
    double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

/* ---- products ---- */

typedef struct product_job {
    kernel_product *product;
    matrix w;
    kernel_input x;
    float *y;
    size_t y_stride;
    pool *threads;   /* NULL: this thread alone */
} product_job;

static void product_part(void *context, size_t begin, size_t end, unsigned worker)
{
    (void)worker;
    product_job *job = context;
    job->product(&job->w, NULL, begin, end, &job->x, job->y, job->y_stride);
}

static void run_product(void *context)
{
    product_job *job = context;
    if (job->threads)
        pool_run(job->threads, job->w.rows, 64, product_part, job);
    else
        product_part(job, 0, job->w.rows, 0);
}

typedef struct read_job {
    const kernels *k;
    const uint8_t *data;
    size_t bytes;
    pool *threads;
    uint64_t sums[256];
} read_job;

#define READ_PART (1 << 20)

static void read_part(void *context, size_t begin, size_t end, unsigned worker)
{
    read_job *job = context;
    job->sums[worker % 256] += job->k->read(job->data + begin * READ_PART, (end - begin) * READ_PART);
}

static void run_read(void *context)
{
    read_job *job = context;
    pool_run(job->threads, job->bytes / READ_PART, 1, read_part, job);
}

static double seconds_of(work *call, void *context)
{
    double start = clock_seconds();
    call(context);
    return clock_seconds() - start;
}

static matrix matrix_of(const workbench *bench, number_format format, size_t bytes)
{
    matrix w = {.data = bench->memory, .format = format, .columns = COLUMNS};
    if (!number_row_bytes(format, COLUMNS, &w.row_bytes))
        stop("no whole number of blocks");
    w.rows = (uint32_t)(bytes / w.row_bytes);
    return w;
}

/* Fills the memory with rows of a format: a megabyte encoded, then copied. */
static void fill_memory(const workbench *bench, number_format format)
{
    size_t row_bytes = matrix_of(bench, format, 0).row_bytes, part = (1 << 20) / row_bytes * row_bytes;
    for (size_t at = 0; at < part; at += row_bytes)
        number_formats[format].encode(bench->values + at / row_bytes % MANY_TOKENS * COLUMNS, bench->memory + at, COLUMNS);
    for (size_t at = part; at < bench->set.memory_bytes; at += part) {
        size_t n = bench->set.memory_bytes - at < part ? bench->set.memory_bytes - at : part;
        memcpy(bench->memory + at, bench->memory, n);
    }
}

typedef struct product_figures {
    double cache, memory, read, share;   /* GB/s of weights */
    double many;                         /* GFLOP/s, one thread */
} product_figures;

static product_figures time_product(const workbench *bench, const kernels *k, number_format format)
{
    product_figures out;
    kernel_input x = {1, COLUMNS, bench->values, bench->q, bench->scales, bench->sums};
    product_job job = {k->product[format], matrix_of(bench, format, CACHE_BYTES), x, bench->y, 0, NULL};
    out.cache = (double)(job.w.rows * job.w.row_bytes) / best_seconds(bench, run_product, &job) * 1e-9;

    job.w.rows = MANY_ROWS;
    job.x.count = MANY_TOKENS;
    job.y_stride = MANY_ROWS;
    out.many = 2.0 * MANY_ROWS * MANY_TOKENS * COLUMNS / best_seconds(bench, run_product, &job) * 1e-9;

    job.w = matrix_of(bench, format, bench->set.memory_bytes);
    job.x.count = 1;
    job.threads = bench->threads;
    read_job reading = {.k = k, .data = bench->memory, .bytes = bench->set.memory_bytes, .threads = bench->threads};
    double speeds[REPEATS], reads[REPEATS], shares[REPEATS], before = seconds_of(run_read, &reading);
    for (int r = 0; r < REPEATS; r++) {
        double spent = seconds_of(run_product, &job), after = seconds_of(run_read, &reading);
        speeds[r] = (double)(job.w.rows * job.w.row_bytes) / spent * 1e-9;
        reads[r] = (double)reading.bytes / ((before + after) / 2) * 1e-9;
        shares[r] = speeds[r] / reads[r];
        before = after;
    }
    qsort(speeds, REPEATS, sizeof(*speeds), by_value);
    qsort(reads, REPEATS, sizeof(*reads), by_value);
    qsort(shares, REPEATS, sizeof(*shares), by_value);
    out.memory = speeds[REPEATS / 2];
    out.read = reads[REPEATS / 2];
    out.share = shares[REPEATS / 2];
    return out;
}

static bool wanted(const char *choice, const char *name) { return !choice || strcasecmp(choice, name) == 0; }

static void products(const workbench *bench)
{
    printf(bench->set.csv ? "level,format,cache_gb_per_s,memory_gb_per_s,read_gb_per_s,share,many_gflop_per_s\n"
                          : "level    format  L2 GB/s/thread  memory GB/s  read GB/s  share  %d tokens GFLOP/s/thread\n",
           MANY_TOKENS);
    for (size_t f = 0; f < FORMAT_COUNT; f++) {
        if (!wanted(bench->set.format, number_formats[f].name))
            continue;
        fill_memory(bench, (number_format)f);
        for (size_t level = 0; level < kernel_level_count(); level++) {
            if (!kernel_level_present(level) || !wanted(bench->set.level, kernel_level_name(level)))
                continue;
            kernels k;
            kernels_for(level, &k);
            product_figures p = time_product(bench, &k, (number_format)f);
            printf(bench->set.csv ? "%s,%s,%.2f,%.2f,%.2f,%.3f,%.1f\n" : "%-8s %-6s %15.1f %12.1f %10.1f %6.2f %12.0f\n",
                   k.level, number_formats[f].name, p.cache, p.memory, p.read, p.share, p.many);
            fflush(stdout);
        }
    }
}

/* ---- kernels on vectors ---- */

enum { VECTOR = 5632, HEAD = 64, HEADS = 8, POSITIONS = 512 };

typedef struct vector_job {
    const kernels *k;
    const workbench *bench;
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
    job->k->activate[ACTIVATION_SILU](job->bench->values, job->bench->values + VECTOR, 0, VECTOR, job->bench->y);
}

static void run_relu(void *context)
{
    const vector_job *job = context;
    job->k->activate[ACTIVATION_RELU](job->bench->values, job->bench->values + VECTOR, 0, VECTOR, job->bench->y);
}

static void run_rope(void *context)
{
    const vector_job *job = context;
    const float *angles = job->bench->values;
    job->k->rope(job->bench->y, VECTOR / HEAD, HEAD, angles, angles + HEAD, HEAD / 2);
}

static void run_to_half(void *context)
{
    const vector_job *job = context;
    job->k->to_half(job->bench->values, VECTOR, (uint16_t *)(void *)job->bench->y);
}

/* Eight heads that share 512 positions of keys and values; the scores lie behind the output. */
static void run_attend_f32(void *context)
{
    const vector_job *job = context;
    const float *query = job->bench->values, *key = query + HEADS * HEAD, *value = key + POSITIONS * HEAD;
    float *out = job->bench->y;
    job->k->attend_f32(query, HEADS, key, value, POSITIONS, HEAD, 0.125f, out + HEADS * HEAD, out);
}

static void run_attend_f16(void *context)
{
    const vector_job *job = context;
    const uint16_t *key = (const uint16_t *)(const void *)job->bench->memory, *value = key + POSITIONS * HEAD;
    float *out = job->bench->y;
    job->k->attend_f16(job->bench->values, HEADS, key, value, POSITIONS, HEAD, 0.125f, out + HEADS * HEAD, out);
}

static const struct vector_op {
    const char *name;
    work *run;
    double bytes;   /* that the kernel reads */
} vector_ops[] = {
    {"quantize", run_quantize, VECTOR * 4},
    {"rms_norm", run_rms_norm, VECTOR * 8},
    {"add", run_add, VECTOR * 8},
    {"silu", run_silu, VECTOR * 8},
    {"relu", run_relu, VECTOR * 8},
    {"rope", run_rope, VECTOR * 4},
    {"to_half", run_to_half, VECTOR * 4},
    {"attend_f32", run_attend_f32, POSITIONS * HEAD * 8},
    {"attend_f16", run_attend_f16, POSITIONS * HEAD * 4},
};

static void vectors(const workbench *bench)
{
    fill_memory(bench, FORMAT_F16);
    printf(bench->set.csv ? "level,op,microseconds,gb_per_s\n" : "\nlevel    op          microseconds     GB/s\n");
    for (size_t i = 0; i < sizeof(vector_ops) / sizeof(*vector_ops); i++)
        for (size_t level = 0; level < kernel_level_count(); level++) {
            if (!kernel_level_present(level) || !wanted(bench->set.level, kernel_level_name(level)) ||
                !wanted(bench->set.op, vector_ops[i].name))
                continue;
            kernels k;
            kernels_for(level, &k);
            memset(bench->y, 0, VECTOR * sizeof(float));
            vector_job job = {&k, bench};
            double spent = best_seconds(bench, vector_ops[i].run, &job);
            printf(bench->set.csv ? "%s,%s,%.3f,%.2f\n" : "%-8s %-10s %13.2f %8.1f\n", k.level, vector_ops[i].name,
                   spent * 1e6, vector_ops[i].bytes / spent * 1e-9);
        }
}

/* ---- the command ---- */

static const char help[] =
    "kbench [--level NAME] [--format NAME] [--op NAME] [--threads N] [--megabytes N] [--seconds S] [--csv]\n"
    "Times every kernel of every level. --op product: only the products; another op: only that one.\n"
    "--megabytes: weights for the figures from memory, 512; --seconds: of each repeat, 0.05.\n";

static settings read_options(int argc, char **argv)
{
    static const struct option options[] = {
        {"level", 1, NULL, 'l'},     {"format", 1, NULL, 'f'},  {"op", 1, NULL, 'o'},  {"threads", 1, NULL, 't'},
        {"megabytes", 1, NULL, 'm'}, {"seconds", 1, NULL, 's'}, {"csv", 0, NULL, 'c'}, {"help", 0, NULL, 'h'},
        {NULL, 0, NULL, 0},
    };
    settings set = {.threads = topology_cores(), .memory_bytes = (size_t)512 << 20, .seconds = 0.05};
    for (int c; (c = getopt_long(argc, argv, "", options, NULL)) != -1;)
        switch (c) {
        case 'l': set.level = optarg; break;
        case 'f': set.format = optarg; break;
        case 'o': set.op = optarg; break;
        case 't': set.threads = (unsigned)strtoul(optarg, NULL, 10); break;
        case 'm': set.memory_bytes = strtoul(optarg, NULL, 10) << 20; break;
        case 's': set.seconds = strtod(optarg, NULL); break;
        case 'c': set.csv = true; break;
        default: fputs(help, c == 'h' ? stdout : stderr); exit(c == 'h' ? 0 : 2);
        }
    if (set.memory_bytes < (size_t)4 << 20 || set.threads < 1 || set.threads > 256)
        stop("needs at least 4 MB and 1 to 256 threads");
    return set;
}

int main(int argc, char **argv)
{
    workbench bench = {.set = read_options(argc, argv)};
    size_t rows = bench.set.memory_bytes / (COLUMNS / 32 * 18);   /* of the smallest format */
    bench.memory = new_or_stop(bench.set.memory_bytes);
    bench.values = new_or_stop(sizeof(float) * MANY_TOKENS * COLUMNS);
    bench.q = new_or_stop(MANY_TOKENS * COLUMNS);
    bench.scales = new_or_stop(sizeof(float) * MANY_TOKENS * COLUMNS / Q8_BLOCK);
    bench.sums = new_or_stop(sizeof(int16_t) * MANY_TOKENS * COLUMNS / Q8_SUM);
    bench.y = new_or_stop(sizeof(float) * (rows > MANY_TOKENS * MANY_ROWS ? rows : MANY_TOKENS * MANY_ROWS));
    if (pool_create(&bench.threads, bench.set.threads, NULL) != HEARTH_OK)
        stop("cannot start threads");
    fill_values(bench.values, MANY_TOKENS * COLUMNS, 1);
    kernels scalar;
    kernels_for(0, &scalar);
    scalar.quantize(bench.values, MANY_TOKENS * COLUMNS, bench.q, bench.scales, bench.sums);

    char cpu[128];
    topology_cpu_name(cpu, sizeof(cpu));
    if (!bench.set.csv)
        printf("%s, %u threads, %zu MB, last cache %zu MB\n", cpu, bench.set.threads, bench.set.memory_bytes >> 20,
               topology_cache_bytes() >> 20);
    if (wanted(bench.set.op, "product"))
        products(&bench);
    if (wanted(bench.set.op, "product") == false || !bench.set.op)
        vectors(&bench);

    pool_destroy(bench.threads);
    void *blocks[] = {bench.memory, bench.values, bench.q, bench.scales, bench.sums, bench.y};
    for (size_t i = 0; i < sizeof(blocks) / sizeof(*blocks); i++)
        mem_free(blocks[i]);
    return 0;
}
