/* blas.c - opens OpenBLAS and cuts products. Knows nothing of what is trained. */
#include "blas.h"

#include <dlfcn.h>

enum { ROW_MAJOR = 101, AS_IT_IS = 111, TRANSPOSED = 112 };

/* Rows or columns of one piece of a product: long enough that packing the other factor anew for each piece costs
 * little, short enough that a few threads find work. */
#define PIECE 256

static const char library_name[] = "libopenblas.so.0";

hearth_status blas_open(blas *out, hearth_error *error)
{
    /* Never out of the process again: it leaves threads behind. */
    blas b = {.library = dlopen(library_name, RTLD_NOW | RTLD_LOCAL | RTLD_NODELETE)};
    if (!b.library)
        return fail(error, HEARTH_UNSUPPORTED, "training: OpenBLAS: %s (Debian: apt-get install libopenblas0)",
                    dlerror());
    void (*set_threads)(int) = (__typeof__(set_threads))dlsym(b.library, "openblas_set_num_threads");
    b.sgemm = (blas_sgemm *)dlsym(b.library, "cblas_sgemm");
    if (!set_threads || !b.sgemm) {
        blas_close(&b);
        return fail(error, HEARTH_UNSUPPORTED, "training: OpenBLAS: %s lacks cblas_sgemm", library_name);
    }
    set_threads(1);
    *out = b;
    return HEARTH_OK;
}

void blas_close(blas *b)
{
    if (b->library)
        dlclose(b->library);
    *b = (blas){0};
}

void blas_multiply(const blas *with, size_t m, size_t n, size_t k, float scale, blas_factor a, blas_factor b,
                   float keep, float *c, size_t c_stride)
{
    with->sgemm(ROW_MAJOR, a.transposed ? TRANSPOSED : AS_IT_IS, b.transposed ? TRANSPOSED : AS_IT_IS, (int)m, (int)n,
                (int)k, scale, a.values, (int)a.stride, b.values, (int)b.stride, keep, c, (int)c_stride);
}

typedef struct wide_product {
    const blas *with;
    size_t m, n, k, c_stride;
    float scale, keep;
    blas_factor a, b;
    float *c;
    bool by_rows;
} wide_product;

/* Items are rows of c, or its columns. */
static void multiply_piece(void *context, size_t begin, size_t end, unsigned worker)
{
    (void)worker;
    const wide_product *p = context;
    blas_factor a = p->a, b = p->b;
    if (p->by_rows) {
        a.values += begin * (a.transposed ? 1 : a.stride);
        blas_multiply(p->with, end - begin, p->n, p->k, p->scale, a, b, p->keep, p->c + begin * p->c_stride,
                      p->c_stride);
    } else {
        b.values += begin * (b.transposed ? b.stride : 1);
        blas_multiply(p->with, p->m, end - begin, p->k, p->scale, a, b, p->keep, p->c + begin, p->c_stride);
    }
}

void blas_multiply_wide(const blas *with, pool *threads, size_t m, size_t n, size_t k, float scale, blas_factor a,
                        blas_factor b, float keep, float *c, size_t c_stride)
{
    wide_product p = {with, m, n, k, c_stride, scale, keep, a, b, c, m > n};
    pool_run(threads, p.by_rows ? m : n, PIECE, multiply_piece, &p);
}
