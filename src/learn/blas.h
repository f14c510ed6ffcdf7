/* blas.h - matrix products of training, through the OpenBLAS of the system.
 *
 * It is opened when it is first needed and not linked: linked, it costs every command three milliseconds and a thread
 * per core at its start, and a program that never trains would not run without it. It multiplies with one thread;
 * products are cut here, always at the same places, so that results do not depend on the number of threads. */
#ifndef LEARN_BLAS_H
#define LEARN_BLAS_H

#include "../base/pool.h"

#include <stdbool.h>

/* As cblas declares it; its enumerators are ints: 101 row-major, 111 as it is, 112 transposed. */
typedef void blas_sgemm(int order, int transpose_a, int transpose_b, int m, int n, int k, float alpha, const float *a,
                        int a_stride, const float *b, int b_stride, float beta, float *c, int c_stride);

typedef struct blas {
    void *library;
    blas_sgemm *sgemm;
} blas;

/* HEARTH_UNSUPPORTED: this machine has none; the text says what to install. */
hearth_status blas_open(blas *out, hearth_error *error);
void blas_close(blas *b);

/* A matrix of floats as a product reads it: `stride` floats from row to row. */
typedef struct blas_factor {
    const float *values;
    size_t stride;
    bool transposed; /* rows are columns */
} blas_factor;

/* c [m][n] = scale * a [m][k] b [k][n] + keep * c, on the calling thread. */
void blas_multiply(const blas *with, size_t m, size_t n, size_t k, float scale, blas_factor a, blas_factor b,
                   float keep, float *c, size_t c_stride);
/* The same on all threads. */
void blas_multiply_wide(const blas *with, pool *threads, size_t m, size_t n, size_t k, float scale, blas_factor a,
                        blas_factor b, float keep, float *c, size_t c_stride);

#endif
