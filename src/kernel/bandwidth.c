/* bandwidth.c - reads a large buffer repeatedly and takes the time. */
#include "bandwidth.h"

#include "../base/clock.h"
#include "../base/memory.h"
#include "../base/pool.h"
#include "../base/random.h"
#include "kernel.h"
#include "topology.h"

#include <assert.h>
#include <stdatomic.h>
#include <string.h>
#include <sys/mman.h>

/* The buffer is several times the last-level cache, so that little of a pass stays cached until the next one, but no
 * more than a small share of the memory. */
#define CACHE_MULTIPLE 4
#define MIN_BYTES      ((size_t)256 << 20)
#define MAX_BYTES      ((size_t)2 << 30)
#define MEMORY_SHARE   8
/* Bytes that a thread takes at once: large enough that handing out chunks costs nothing. */
#define CHUNK_BYTES ((size_t)1 << 20)
/* Scattered rows: one in so many is listed, as where a tenth of the neurons fire. After reading each list once the whole
 * buffer has been read, so that no row is left in the cache from its last time. */
#define LISTS 10
/* Listed rows that a thread takes at once: about as many as fire in a slice of a network. */
#define ROWS_AT_ONCE 64
/* A measurement ends after this time, but not before this number of passes. */
#define MEASURE_SECONDS 0.1
#define MIN_PASSES      3

struct bandwidth {
    pool *threads;
    kernels kernels;
    char *data;
    size_t size_bytes;
    atomic_uint_fast64_t sum; /* sum of everything read, so that the compiler cannot drop the reads */
};

static size_t choose_size(void)
{
    size_t size = CACHE_MULTIPLE * topology_cache_bytes(), memory = topology_memory_bytes();
    size = size < MIN_BYTES ? MIN_BYTES : size > MAX_BYTES ? MAX_BYTES : size;
    if (memory > 0 && size > memory / MEMORY_SHARE)
        size = memory / MEMORY_SHARE;
    return size / CHUNK_BYTES * CHUNK_BYTES + CHUNK_BYTES;
}

static void fill(void *context, size_t begin, size_t end, unsigned worker)
{
    (void)worker;
    bandwidth *b = context;
    memset(b->data + begin * CHUNK_BYTES, 0x5a, (end - begin) * CHUNK_BYTES);
}

static void read_chunks(void *context, size_t begin, size_t end, unsigned worker)
{
    (void)worker;
    bandwidth *b = context;
    uint64_t sum = b->kernels.read(b->data + begin * CHUNK_BYTES, (end - begin) * CHUNK_BYTES);
    atomic_fetch_add_explicit(&b->sum, sum, memory_order_relaxed);
}

hearth_status bandwidth_create(bandwidth **out, unsigned threads, const char *level, hearth_error *error)
{
    size_t found;
    TRY(kernel_level_choose(&found, level, error));
    bandwidth *b = mem_new(sizeof *b);
    if (!b)
        return fail_memory(error, "bandwidth", sizeof *b);
    hearth_status status;
    kernels_for(found, &b->kernels);
    b->size_bytes = choose_size();
    TRY_OR(failed, status, pool_create(&b->threads, threads, error));
    b->data = mem_reserve(b->size_bytes, MEM_HERE_AND_THERE);
    if (!b->data) {
        status = fail_memory(error, "bandwidth: buffer", b->size_bytes);
        goto failed;
    }
    /* Huge pages reduce TLB misses; where the system has none, ordinary pages serve. The buffer has to be written,
     * because pages never written all map to the same zero page. */
    madvise(b->data, b->size_bytes, MADV_HUGEPAGE);
    pool_run(b->threads, b->size_bytes / CHUNK_BYTES, 1, fill, b);
    *out = b;
    return HEARTH_OK;
failed:
    bandwidth_destroy(b);
    return status;
}

void bandwidth_destroy(bandwidth *b)
{
    if (!b)
        return;
    if (b->data)
        mem_release(b->data, b->size_bytes);
    pool_destroy(b->threads);
    mem_free(b);
}

double bandwidth_measure(bandwidth *b)
{
    double start = clock_seconds(), now = start, best = 0;
    for (int pass = 0; pass < MIN_PASSES || now - start < MEASURE_SECONDS; pass++) {
        double before = now;
        pool_run(b->threads, b->size_bytes / CHUNK_BYTES, 1, read_chunks, b);
        now = clock_seconds();
        double speed = (double)b->size_bytes / (now - before);
        best = speed > best ? speed : best;
    }
    return best;
}

/* ------------------------------------------------------------------ scattered rows */

/* The buffer as a matrix of float32, which takes the least work per byte, and which of its rows are listed. */
typedef struct scattered {
    const bandwidth *b;
    matrix rows;
    kernel_input input;
    uint32_t *numbers; /* [rows] list after list, each ascending */
    size_t begin[LISTS + 1];
    size_t list;     /* the one that is read */
    float *products; /* [rows] */
} scattered;

/* Divides the rows among the lists, by chance. */
static void fill_lists(scattered *s)
{
    size_t counts[LISTS] = {0};
    for (uint32_t row = 0; row < s->rows.rows; row++)
        counts[random_at(s->rows.row_bytes, row) % LISTS]++;
    for (size_t i = 0; i < LISTS; i++)
        s->begin[i + 1] = s->begin[i] + counts[i];
    size_t next[LISTS];
    memcpy(next, s->begin, sizeof next);
    for (uint32_t row = 0; row < s->rows.rows; row++)
        s->numbers[next[random_at(s->rows.row_bytes, row) % LISTS]++] = row;
}

static void read_rows(void *context, size_t begin, size_t end, unsigned worker)
{
    (void)worker;
    const scattered *s = context;
    size_t first = s->begin[s->list];
    s->b->kernels.product[FORMAT_F32](&s->rows, s->numbers + first, begin, end, &s->input, s->products + first,
                                      s->rows.rows);
}

/* Reads all lists, several times. Returns the bytes per second of the best time. */
static double time_rows(scattered *s)
{
    double start = clock_seconds(), now = start, best = 0;
    for (int pass = 0; pass < MIN_PASSES || now - start < MEASURE_SECONDS; pass++) {
        double before = now;
        for (s->list = 0; s->list < LISTS; s->list++)
            pool_run(s->b->threads, s->begin[s->list + 1] - s->begin[s->list], ROWS_AT_ONCE, read_rows, s);
        now = clock_seconds();
        double speed = (double)(s->rows.rows * s->rows.row_bytes) / (now - before);
        best = speed > best ? speed : best;
    }
    return best;
}

hearth_status bandwidth_measure_rows(bandwidth *b, size_t row_bytes, double *out, hearth_error *error)
{
    assert(row_bytes > 0 && row_bytes % 64 == 0 && row_bytes <= BANDWIDTH_ROW_BYTES);
    size_t count = b->size_bytes / row_bytes, columns = row_bytes / sizeof(float);
    scattered s = {.b = b};
    s.rows = (matrix){.data = b->data,
                      .format = FORMAT_F32,
                      .rows = (uint32_t)count,
                      .columns = (uint32_t)columns,
                      .row_bytes = row_bytes};
    s.numbers = mem_new_array(count, sizeof *s.numbers);
    s.products = mem_new_array(count, sizeof *s.products);
    float *values = mem_new_array(columns, sizeof *values);
    hearth_status status = HEARTH_OK;
    if (s.numbers && s.products && values) {
        s.input = (kernel_input){.count = 1, .columns = columns, .values = values};
        fill_lists(&s);
        *out = time_rows(&s);
    } else {
        status = fail_memory(error, "bandwidth: lists of rows", count * (sizeof *s.numbers + sizeof *s.products));
    }
    mem_free(values);
    mem_free(s.products);
    mem_free(s.numbers);
    return status;
}
