/* lowrank_multiply.c - products of float32 matrices, for training.
 *
 * They run on the engine's own kernels: blocks of both factors are packed so that every sum is a dot product of two
 * rows, which the F32 prompt kernel computes. A BLAS was used before (OpenBLAS, loaded on demand); where memory was
 * limited, its allocator retried for ever inside a product, which cannot be stopped from outside.
 *
 * Nothing is allocated: a call takes about 100 kB of stack. Sums are cut at fixed places, so results depend neither on
 * the number of threads nor on how rows are divided among them; they do depend on the CPU level. */
#include "lowrank_internal.h"

/* A block of a is [ROWS][DEPTH], one of b [COLUMNS][DEPTH] (columns of b are packed as rows), their sums
 * [ROWS][COLUMNS]. The three fit into the second-level cache, and every packed value is used ROWS or COLUMNS times. */
enum { ROWS = 32, COLUMNS = 64, DEPTH = 256 };

/* Rows or columns of one work item of a product on all threads: large enough that packing the other factor again for
 * each item costs little, small enough that several threads have work. */
#define PIECE 256

/* Packs out [count][depth] = values [at, at + depth) of rows [first, first + count) of f. */
static void pack(const product_factor *f, size_t first, size_t count, size_t at, size_t depth, float *out)
{
    const float *from = f->values + (f->transposed ? at * f->stride + first : first * f->stride + at);
    for (size_t i = 0; !f->transposed && i < count; i++)
        for (size_t j = 0; j < depth; j++)
            out[i * depth + j] = from[i * f->stride + j];
    for (size_t j = 0; f->transposed && j < depth; j++)
        for (size_t i = 0; i < count; i++)
            out[i * depth + j] = from[j * f->stride + i];
}

/* Scales c [m][n] by `beta`; beta 0 writes zeros without reading c. */
static void begin_sums(size_t m, size_t n, float beta, float *c, size_t c_stride)
{
    for (size_t i = 0; i < m; i++)
        for (size_t j = 0; j < n; j++)
            c[i * c_stride + j] = beta == 0 ? 0 : beta * c[i * c_stride + j];
}

/* Adds alpha * a b' to c [m][n], for packed blocks a [m][depth] and b [n][depth]. */
static void add_block(const kernels *by, size_t m, size_t n, size_t depth, float alpha, const float *a, const float *b,
                      float *c, size_t c_stride)
{
    float sums[ROWS * COLUMNS];
    matrix w = {b, FORMAT_F32, (uint32_t)n, (uint32_t)depth, depth * sizeof *b};
    kernel_input x = {.count = m, .columns = depth, .values = a};
    by->product[FORMAT_F32](&w, NULL, 0, n, &x, sums, COLUMNS);
    for (size_t i = 0; i < m; i++)
        for (size_t j = 0; j < n; j++)
            c[i * c_stride + j] += alpha * sums[i * COLUMNS + j];
}

static size_t least(size_t a, size_t b)
{
    return a < b ? a : b;
}

void multiply_matrices(const kernels *by, size_t m, size_t n, size_t k, float alpha, product_factor a, product_factor b,
                       float beta, float *c, size_t c_stride)
{
    float rows[ROWS * DEPTH], columns[COLUMNS * DEPTH];
    b.transposed = !b.transposed; /* pack() then reads its columns */
    begin_sums(m, n, beta, c, c_stride);
    for (size_t j = 0; j < n; j += COLUMNS)
        for (size_t at = 0; at < k; at += DEPTH) {
            size_t width = least(n - j, COLUMNS), depth = least(k - at, DEPTH);
            pack(&b, j, width, at, depth, columns);
            for (size_t i = 0; i < m; i += ROWS) {
                size_t height = least(m - i, ROWS);
                pack(&a, i, height, at, depth, rows);
                add_block(by, height, width, depth, alpha, rows, columns, c + i * c_stride + j, c_stride);
            }
        }
}

/* A product that is divided among the threads. */
typedef struct wide_product {
    const kernels *by;
    size_t m, n, k, c_stride;
    float alpha, beta;
    product_factor a, b;
    float *c;
    bool by_rows;
} wide_product;

/* Work items are rows of c, or its columns. */
static void multiply_piece(void *context, size_t begin, size_t end, unsigned worker)
{
    (void)worker;
    const wide_product *p = context;
    product_factor a = p->a, b = p->b;
    if (p->by_rows) {
        a.values += begin * (a.transposed ? 1 : a.stride);
        multiply_matrices(p->by, end - begin, p->n, p->k, p->alpha, a, b, p->beta, p->c + begin * p->c_stride,
                          p->c_stride);
    } else {
        b.values += begin * (b.transposed ? b.stride : 1);
        multiply_matrices(p->by, p->m, end - begin, p->k, p->alpha, a, b, p->beta, p->c + begin, p->c_stride);
    }
}

void multiply_matrices_wide(const kernels *by, pool *threads, size_t m, size_t n, size_t k, float alpha,
                            product_factor a, product_factor b, float beta, float *c, size_t c_stride)
{
    wide_product p = {by, m, n, k, c_stride, alpha, beta, a, b, c, m > n};
    pool_run(threads, p.by_rows ? m : n, PIECE, multiply_piece, &p);
}
