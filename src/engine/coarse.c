/* coarse.c - copies rows in fewer bits and measures the error of each copy. */
#include "coarse.h"

#include "../base/memory.h"

#include <math.h>

typedef struct copy_job {
    const matrix *from;
    coarse_copy *to;
    char *rows;
    float *scratch; /* [threads][2][d] a row, and its copy decoded */
} copy_job;

/* Items are rows. Encodes each row, decodes it again and stores the norm of the difference. */
static void copy_rows(void *context, size_t begin, size_t end, unsigned worker)
{
    const copy_job *job = context;
    size_t d = job->from->columns;
    number_format from = job->from->format, to = job->to->rows.format;
    float *row = job->scratch + worker * 2 * d, *copy = row + d;
    for (size_t i = begin; i < end; i++) {
        char *out = job->rows + i * job->to->rows.row_bytes;
        number_formats[from].decode(matrix_row(job->from, i), row, d);
        number_formats[to].encode(row, NULL, out, d);
        number_formats[to].decode(out, copy, d);
        double squares = 0;
        for (size_t c = 0; c < d; c++)
            squares += ((double)row[c] - (double)copy[c]) * ((double)row[c] - (double)copy[c]);
        job->to->spread[i] = (float)sqrt(squares);
    }
}

hearth_status coarse_create(coarse_copy *out, pool *threads, const matrix *first, number_format format,
                            const char *thing, hearth_error *error)
{
    coarse_copy copy = {.rows = {.format = format, .rows = first->rows, .columns = first->columns}};
    if (!number_is_encoded(format))
        return fail(error, HEARTH_UNSUPPORTED, "%s: coarse copy: %s can be read, not written", thing,
                    number_formats[format].name);
    if (!number_row_bytes(format, first->columns, &copy.rows.row_bytes))
        return fail(error, HEARTH_UNSUPPORTED, "%s: coarse copy: rows of %u values are not whole blocks of %s", thing,
                    first->columns, number_formats[format].name);
    size_t bytes = first->rows * copy.rows.row_bytes;
    copy_job job = {.from = first, .to = &copy};
    job.scratch = mem_new_array((size_t)pool_threads(threads) * 2 * first->columns, sizeof *job.scratch);
    copy.spread = mem_new_array(first->rows, sizeof *copy.spread);
    copy.rows.data = job.rows = mem_new(bytes);
    if (!job.scratch || !copy.spread || !job.rows) {
        mem_free(job.scratch);
        coarse_free(&copy);
        return fail_memory(error, thing, bytes);
    }
    pool_run(threads, first->rows, 16, copy_rows, &job);
    mem_free(job.scratch);
    *out = copy;
    return HEARTH_OK;
}

void coarse_free(coarse_copy *c)
{
    mem_free((void *)c->rows.data);
    mem_free(c->spread);
    *c = (coarse_copy){0};
}

void coarse_widen(const coarse_copy *c, const uint32_t *list, size_t first, size_t n, float margin, float r,
                  float *score)
{
    float deviations = margin * r;
    for (size_t i = 0; i < n; i++)
        score[i] += deviations * c->spread[list ? list[i] : first + i];
}

/* Uses eight independent chains of additions, so that none waits for the one before: every token runs this. */
float coarse_magnitude(const float *x, size_t d)
{
    enum { CHAINS = 8 };
    double squares[CHAINS] = {0}, sum = 0;
    size_t whole = d / CHAINS * CHAINS;
    for (size_t i = 0; i < whole; i += CHAINS)
        for (size_t k = 0; k < CHAINS; k++)
            squares[k] += (double)x[i + k] * (double)x[i + k];
    for (size_t i = whole; i < d; i++)
        squares[i - whole] += (double)x[i] * (double)x[i];
    for (size_t k = 0; k < CHAINS; k++)
        sum += squares[k];
    return (float)sqrt(sum / (double)d);
}
