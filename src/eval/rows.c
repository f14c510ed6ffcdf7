/* rows.c - feeds ids in blocks. */
#include "rows.h"

#include "../base/memory.h"

#include <math.h>

/* Above this the rows do not fit the caches anyway, and longer feeds gain nothing. */
#define MAX_BLOCK       256
#define MAX_BLOCK_BYTES ((size_t)64 << 20)
#define MIN_BLOCK       8

size_t rows_block(size_t vocabulary_size)
{
    size_t fit = MAX_BLOCK_BYTES / sizeof(float) / vocabulary_size;
    return fit > MAX_BLOCK ? MAX_BLOCK : fit < MIN_BLOCK ? MIN_BLOCK : fit;
}

hearth_status rows_reader_init(rows_reader *r, hearth_session *session, size_t vocabulary_size, hearth_error *error)
{
    *r = (rows_reader){session, vocabulary_size, rows_block(vocabulary_size), NULL, NULL};
    size_t values;
    if (size_multiply(r->block, vocabulary_size, &values))
        r->logits = mem_new_array(values, sizeof *r->logits);
    r->rows = mem_new_array(r->block, sizeof *r->rows);
    if (!r->logits || !r->rows) {
        rows_reader_free(r);
        return fail_memory(error, "rows of logits", r->block * vocabulary_size * sizeof(float));
    }
    return HEARTH_OK;
}

void rows_reader_free(rows_reader *r)
{
    mem_free(r->logits);
    mem_free(r->rows);
    r->logits = NULL;
    r->rows = NULL;
}

hearth_status rows_read(rows_reader *r, const int32_t *ids, size_t count, size_t from, rows_visit *visit, void *user,
                        hearth_error *error)
{
    TRY(hearth_session_truncate(r->session, 0, 0, error));
    for (size_t begin = 0; begin < count; begin += r->block) {
        size_t n = count - begin < r->block ? count - begin : r->block;
        for (size_t i = 0; i < n; i++)
            r->rows[i] = (hearth_row){ids[begin + i], 0, begin + i >= from};
        TRY(hearth_session_feed(r->session, r->rows, n, error));
        size_t outputs = hearth_session_output_count(r->session);
        if (outputs == 0)
            continue;
        TRY(hearth_session_logits(r->session, 0, outputs, r->logits, error));
        TRY(visit(user, begin + n - outputs, outputs, r->logits, error));
    }
    return HEARTH_OK;
}

double rows_log_sum(const float *logits, size_t n, size_t *largest)
{
    size_t best = 0;
    for (size_t i = 1; i < n; i++)
        if (logits[i] > logits[best])
            best = i;
    double sum = exp((double)logits[0] - logits[best]);
    for (size_t i = 1; i < n; i++)
        sum += exp((double)logits[i] - logits[best]); /* the sum is between 1 and n: no overflow */
    *largest = best;
    return logits[best] + log(sum);
}
