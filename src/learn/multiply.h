/* multiply.h - products of float32 matrices, for training.
 *
 * They run on the engine's own kernels: blocks of both factors are packed so that every sum is a dot product of two
 * rows, which the F32 prompt kernel computes. A BLAS was used before (OpenBLAS, loaded on demand); where memory was
 * limited, its allocator retried for ever inside a product, which cannot be stopped from outside.
 *
 * Nothing is allocated: a call takes about 100 kB of stack. Sums are cut at fixed places, so results depend neither on
 * the number of threads nor on how rows are divided among them; they do depend on the CPU level. */
#ifndef LEARN_MULTIPLY_H
#define LEARN_MULTIPLY_H

#include "../base/pool.h"
#include "../kernel/kernel.h"

#include <stdbool.h>

/* A matrix of floats as a product reads it; `stride` floats from row to row. */
typedef struct product_factor {
    const float *values;
    size_t stride;
    bool transposed; /* stored rows are the columns of the factor */
} product_factor;

/* Computes c [m][n] = scale * a [m][k] b [k][n] + keep * c, on the calling thread; keep 0: c is not read. */
void multiply_matrices(const kernels *by, size_t m, size_t n, size_t k, float scale, product_factor a, product_factor b,
                       float keep, float *c, size_t c_stride);
/* The same on all threads. */
void multiply_matrices_wide(const kernels *by, pool *threads, size_t m, size_t n, size_t k, float scale,
                            product_factor a, product_factor b, float keep, float *c, size_t c_stride);

#endif
