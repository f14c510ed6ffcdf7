/* products.c - matrix products on the pool, divided by rows of weights; results do not depend on the division. */
#include "products.h"

/* Weight bytes in one run of dealt work, where memory is the limit. The kernels read several streams of rows at once,
 * and long streams are faster (src/kernel/README.md): decoding Q4_0 gave 51 tokens/s with runs of at most 256 KiB and
 * 55 with 1 MiB; longer runs were no faster. Small matrices are cut shorter, so that no thread waits long for the last
 * run. */
#define RUN_BYTES_MOST  ((size_t)1024 * 1024)
#define RUN_BYTES_LEAST ((size_t)64 * 1024)
#define RUNS_PER_THREAD 4
/* Up to so many tokens rows are read end to end as for one: more take tiles (src/kernel/README.md). */
#define FEW 16
/* Rows of weights per run when many tokens share them: all panels that the matrix kernels fill at once, or a half or a
 * quarter of that if threads would have no work. Runs of few tokens are whole multiples of STREAMS rows. */
#define RUN_ROWS_MOST  128
#define RUN_ROWS_LEAST 32
#define STREAMS        8

typedef struct product_job {
    const kernels *kernels;
    const kernel_input *x;
    const expert_group *groups;
    const expert_product *products;
    size_t rows; /* of all products of a group */
} product_job;

/* Items are the rows of all products of a group, one matrix after the other; and so on, group after group. */
static void multiply_rows(void *context, size_t begin, size_t end, unsigned worker)
{
    (void)worker;
    const product_job *job = context;
    while (begin < end) {
        const expert_group *g = &job->groups[begin / job->rows];
        const expert_product *p = job->products;
        size_t row = begin % job->rows;
        while (row >= p->rows)
            row -= p++->rows;
        size_t stop = p->rows - row < end - begin ? p->rows : row + (end - begin);
        matrix w = matrix_rows(p->w, g->expert * p->stride, p->rows);
        kernel_input x = some_tokens(job->x, g->first, g->count);
        job->kernels->product[w.format](&w, NULL, row, stop, &x, p->y + (size_t)g->first * p->rows, p->rows);
        begin += stop - row;
    }
}

typedef struct rounding_job {
    const kernels *kernels;
    const rounded_rows *to;
    const float *x;
    size_t columns;
    bool to_8_bits, to_bfloats;
} rounding_job;

/* Items are rows of x. Rounds each. */
static void round_rows(void *context, size_t begin, size_t end, unsigned worker)
{
    (void)worker;
    const rounding_job *job = context;
    size_t n = job->columns;
    for (size_t i = begin; i < end; i++) {
        const float *x = job->x + i * n;
        if (job->to_8_bits)
            job->kernels->quantize(x, n, job->to->q + i * n, job->to->scales + i * (n / Q8_BLOCK),
                                   job->to->sums + i * (n / Q8_SUM));
        if (job->to_bfloats)
            job->kernels->to_bfloat(x, n, job->to->bfloats + i * n);
    }
}

kernel_input products_input(const hearth_session *s, const float *x, size_t count, size_t columns,
                            const matrix *const *matrices, size_t n, const rounded_rows *to)
{
    const hearth_runtime *r = s->engine->runtime;
    kernel_input input = {.count = count, .columns = columns, .values = x, .streams = r->streams};
    rounding_job rounding = {&r->kernels, to, x, columns, false, false};
    for (size_t i = 0; i < n; i++) {
        const matrix *w = matrices[i];
        rounding.to_8_bits |= w->data && number_is_block(w->format);
        rounding.to_bfloats |= w->data && (w->format == FORMAT_F16 || w->format == FORMAT_BF16);
    }
    rounding.to_8_bits &= s->engine->activations != HEARTH_ACTIVATIONS_F32;
    rounding.to_bfloats &=
        s->engine->activations == HEARTH_ACTIVATIONS_BF16 && count > FEW_OF_BFLOATS && columns % 2 == 0;
    if (rounding.to_8_bits || rounding.to_bfloats)
        pool_run(r->threads, count, 1, round_rows, &rounding);
    if (rounding.to_8_bits) {
        input.q = to->q;
        input.scales = to->scales;
        input.sums = to->sums;
    }
    if (rounding.to_bfloats)
        input.bfloats = to->bfloats;
    return input;
}

/* Returns the rows per run. */
static size_t choose_grain(size_t count, size_t rows, size_t bytes, unsigned threads)
{
    if (count > FEW || bytes == 0) {
        size_t run = RUN_ROWS_MOST;
        while (run > RUN_ROWS_LEAST && rows < run * threads * RUNS_PER_THREAD)
            run /= 2;
        return run;
    }
    size_t run = bytes / threads / RUNS_PER_THREAD;
    run = run < RUN_BYTES_LEAST ? RUN_BYTES_LEAST : run > RUN_BYTES_MOST ? RUN_BYTES_MOST : run;
    return (run * rows / bytes / STREAMS + 1) * STREAMS;
}

void multiply_experts(const hearth_session *s, const kernel_input *x, const expert_group *groups, size_t group_count,
                      const expert_product *products, size_t n)
{
    const hearth_runtime *r = s->engine->runtime;
    size_t rows = 0, bytes = 0;
    for (size_t i = 0; i < n; i++) {
        rows += products[i].rows;
        bytes += products[i].rows * products[i].w->row_bytes;
    }
    product_job job = {&r->kernels, x, groups, products, rows};
    size_t grain =
        choose_grain(x->count / group_count, group_count * rows, group_count * bytes, pool_threads(r->threads));
    pool_run(r->threads, group_count * rows, grain, multiply_rows, &job);
}

void multiply(const hearth_session *s, const float *x, size_t count, const product *products, size_t n)
{
    const matrix *matrices[MAX_PRODUCTS] = {products[0].w}; /* there is always one */
    expert_product whole[MAX_PRODUCTS] = {{0}};
    for (size_t i = 0; i < n; i++) {
        matrices[i] = products[i].w;
        whole[i] = (expert_product){products[i].w, products[i].y, products[i].w->rows, 0};
    }
    kernel_input input = products_input(s, x, count, products[0].w->columns, matrices, n, &s->scratch.rounded);
    multiply_experts(s, &input, &(expert_group){0, 0, (uint32_t)count}, 1, whole, n);
}
