/* convert_tensor.c - writes one tensor from its source into the file, in one of three ways.
 *
 * A tensor that does not change is copied. Rows that change their format or their order pass through a buffer, a few
 * at a time, on all threads: a source larger than memory streams from its mapping through float32 into the file. A
 * matrix that is transposed is held in memory as a whole, in the form in which it will be written. */
#include "convert_tensor.h"

#include "neuron_major.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

/* Bytes written between two progress reports; also the size of the buffer. */
static const size_t chunk_bytes = (size_t)4 << 20;

/* Reports progress in bytes of the source; HEARTH_CANCELLED where the caller asks for it. */
static hearth_status report(convert_sink *s, uint64_t bytes)
{
    s->bytes_done += bytes;
    if (s->progress->report && !s->progress->report(s->progress->user, "converting", s->bytes_done, s->bytes_total))
        return fail(s->error, HEARTH_CANCELLED, "%s: conversion was cancelled", s->path);
    return HEARTH_OK;
}

/* -------------------------------------------------------------------- copy */

/* Copies a tensor from the mapping to the file. */
static hearth_status copy_tensor(convert_sink *s, const stored_tensor *t)
{
    for (size_t at = 0; at < t->size_bytes; at += chunk_bytes) {
        size_t part = t->size_bytes - at < chunk_bytes ? t->size_bytes - at : chunk_bytes;
        TRY(gguf_writer_put(s->writer, (const char *)t->data + at, part, s->error));
        TRY(report(s, part));
    }
    return HEARTH_OK;
}

/* ------------------------------------------------------------ unfit values */

/* The values of a row that its new format cannot hold. */
typedef struct misfit {
    uint64_t count;
    size_t column; /* of the first */
    float value;
} misfit;

/* Counts the values of a row that `to` cannot hold, and finds the first. */
static misfit find_misfit(number_format to, const float *values, size_t n)
{
    misfit m = {.column = number_find_unfit(to, values, n)};
    if (m.column == n)
        return m;
    m.value = values[m.column];
    for (size_t i = m.column; i < n; i += 1 + number_find_unfit(to, values + i + 1, n - i - 1))
        m.count++;
    return m;
}

/* Counts the misfits of a row, or refuses the row where they are not allowed. row: its number in the source. */
static hearth_status take_misfit(convert_sink *s, convert_item *item, const misfit *m, uint64_t row)
{
    if (m->count == 0)
        return HEARTH_OK;
    item->step.unfit += m->count;
    if (s->allow_nonfinite)
        return HEARTH_OK;
    const number_traits *to = &number_formats[item->step.to];
    char value[32], reason[64] = "";
    snprintf(value, sizeof value, "%g", (double)m->value);
    if (isfinite(m->value))
        snprintf(reason, sizeof reason, ", and %s holds %g at most", to->name, (double)to->largest);
    return fail(s->error, HEARTH_FORMAT,
                "%s: tensor %s: value %zu of row %llu is %s%s; --allow-nonfinite writes it all the same", s->path,
                item->from.name ? item->from.name : item->step.name, m->column, (unsigned long long)row,
                isnan(m->value) ? "NaN" : value, reason);
}

/* -------------------------------------------------------------------- rows */

/* Sums of squares: of the rounding errors of a row, and of its values. */
typedef struct row_sums {
    double distance, size;
} row_sums;

/* One chunk of rows that is converted. A vector whose values change their order is treated as rows of one value. */
typedef struct row_chunk {
    const stored_tensor *from;
    const uint32_t *order; /* stored row of each written row; NULL: as stored, as stored_tensor says */
    number_format to;
    float scale;
    const float *weights;      /* [weight_matrices][columns] of the errors; NULL: all alike */
    uint64_t rows_per_weights; /* rows that share weights */
    uint64_t first;            /* row of the tensor that is row 0 of the chunk */
    size_t columns, from_row_bytes, to_row_bytes;
    float *values;   /* [threads][2][columns]                */
    char *in;        /* [threads][from_row_bytes] rows that have been made; NULL: none has to be */
    char *out;       /* [rows][to_row_bytes]                 */
    misfit *misfits; /* [rows]                              */
    row_sums *sums;  /* [rows]; NULL: not measured           */
} row_chunk;

static void measure_row(row_sums *sums, const float *values, const float *rounded, size_t n)
{
    *sums = (row_sums){0};
    for (size_t i = 0; i < n; i++) {
        double difference = (double)rounded[i] - (double)values[i];
        sums->distance += difference * difference;
        sums->size += (double)values[i] * (double)values[i];
    }
}

static uint64_t source_row(const row_chunk *r, uint64_t row)
{
    return r->order ? r->order[row] : stored_tensor_row(r->from, row);
}

/* Converts rows [begin, end) of a chunk; run by the pool. */
static void convert_rows(void *context, size_t begin, size_t end, unsigned worker)
{
    const row_chunk *r = context;
    float *values = r->values + 2 * worker * r->columns, *rounded = values + r->columns;
    for (size_t i = begin; i < end; i++) {
        uint64_t stored = source_row(r, r->first + i);
        const char *in =
            r->in ? r->in + worker * r->from_row_bytes : stored_tensor_at(r->from, stored, r->from_row_bytes);
        char *out = r->out + i * r->to_row_bytes;
        if (r->in)
            stored_tensor_read(r->from, stored, r->from_row_bytes, r->in + worker * r->from_row_bytes);
        if (r->from->format == r->to && r->scale == 1) {
            memcpy(out, in, r->to_row_bytes);
            continue;
        }
        number_formats[r->from->format].decode(in, values, r->columns);
        for (size_t k = 0; r->scale != 1 && k < r->columns; k++)
            values[k] *= r->scale;
        r->misfits[i] = find_misfit(r->to, values, r->columns);
        const float *weights = r->weights ? r->weights + (r->first + i) / r->rows_per_weights * r->columns : NULL;
        number_formats[r->to].encode(values, weights, out, r->columns);
        if (!r->sums)
            continue;
        number_formats[r->to].decode(out, rounded, r->columns);
        measure_row(&r->sums[i], values, rounded, r->columns);
    }
}

/* Converts and writes `count` rows, `chunk` at a time. *all: sums over all rows. */
static hearth_status convert_chunks(convert_sink *s, convert_item *item, row_chunk *r, uint64_t count, size_t chunk,
                                    row_sums *all)
{
    for (r->first = 0; r->first < count; r->first += chunk) {
        size_t part = count - r->first < chunk ? (size_t)(count - r->first) : chunk;
        pool_run(s->threads, part, 1, convert_rows, r);
        for (size_t i = 0; i < part; i++)
            TRY(take_misfit(s, item, &r->misfits[i], source_row(r, r->first + i)));
        for (size_t i = 0; r->sums && i < part; i++) {
            all->distance += r->sums[i].distance;
            all->size += r->sums[i].size;
        }
        TRY(gguf_writer_put(s->writer, r->out, part * r->to_row_bytes, s->error));
        TRY(report(s, part * r->from_row_bytes));
    }
    return HEARTH_OK;
}

/* Converts a tensor row by row, in chunks. The error is measured for a down_t that is rounded and for scaled
 * tensors. */
static hearth_status write_rows(convert_sink *s, convert_item *item)
{
    convert_step *step = &item->step;
    bool values_move = item->rows && item->from.rank == 1;
    uint64_t count = values_move ? step->columns : step->rows;
    row_chunk r = {.from = &item->from, .order = item->rows, .to = step->to, .scale = item->scale};
    r.columns = values_move ? 1 : (size_t)step->columns;
    r.weights = item->weights;
    r.rows_per_weights = item->weights ? step->rows / item->weight_matrices : 1;
    r.from_row_bytes = item->from.size_bytes / (size_t)count;
    r.to_row_bytes = (size_t)(step->to_bytes / count);
    /* at least a row for every thread, and about chunk_bytes per write */
    unsigned threads = pool_threads(s->threads);
    size_t chunk = chunk_bytes / r.to_row_bytes;
    chunk = chunk > threads ? chunk : threads;
    if (chunk > count)
        chunk = (size_t)count;
    bool ordered = stored_tensor_is_made(&item->from),
         measured = (step->is_down_t && step->from != step->to) || item->scale != 1;
    r.values = mem_new_array(r.columns, 2 * threads * sizeof *r.values);
    r.in = ordered ? mem_new_array(threads, r.from_row_bytes) : NULL;
    r.out = mem_new_array(chunk, r.to_row_bytes);
    r.misfits = mem_new_array(chunk, sizeof *r.misfits);
    r.sums = measured ? mem_new_array(chunk, sizeof *r.sums) : NULL;
    row_sums all = {0};
    hearth_status status =
        r.values && r.out && r.misfits && (r.sums || !measured) && (r.in || !ordered)
            ? convert_chunks(s, item, &r, count, chunk, &all)
            : fail_memory(s->error, item->from.name ? item->from.name : step->name, chunk * r.to_row_bytes);
    mem_free(r.sums);
    mem_free(r.misfits);
    mem_free(r.out);
    mem_free(r.in);
    mem_free(r.values);
    if (all.size > 0)
        step->relative_error = sqrt(all.distance / all.size);
    return status;
}

/* --------------------------------------------------------------- transposed */

/* A check of all rows of a matrix that will be transposed, for values that the new format cannot hold. */
typedef struct inspection {
    const matrix *from;
    number_format to;
    float *values;   /* [threads][columns] */
    misfit *misfits; /* [rows]             */
} inspection;

static void inspect_rows(void *context, size_t begin, size_t end, unsigned worker)
{
    const inspection *c = context;
    float *values = c->values + worker * (size_t)c->from->columns;
    for (size_t row = begin; row < end; row++) {
        number_formats[c->from->format].decode(matrix_row(c->from, row), values, c->from->columns);
        c->misfits[row] = find_misfit(c->to, values, c->from->columns);
    }
}

/* Counts or refuses values of down that the new format cannot hold, on all threads. */
static hearth_status inspect_matrix(convert_sink *s, convert_item *item, const matrix *down)
{
    inspection c = {.from = down, .to = item->step.to};
    c.values = mem_new_array(down->columns, pool_threads(s->threads) * sizeof *c.values);
    c.misfits = mem_new_array(down->rows, sizeof *c.misfits);
    hearth_status status = HEARTH_OK;
    if (!c.values || !c.misfits)
        TRY_OR(done, status, fail_memory(s->error, item->step.name, down->columns * sizeof *c.values));
    pool_run(s->threads, down->rows, 1, inspect_rows, &c);
    for (uint32_t row = 0; row < down->rows; row++)
        TRY_OR(done, status, take_misfit(s, item, &c.misfits[row], row));
done:
    mem_free(c.values);
    mem_free(c.misfits);
    return status;
}

/* Fills rows with down_t [f][d], in the source's order of neurons, and measures the rounding error. */
static hearth_status transpose(convert_sink *s, convert_item *item, const matrix *down, const matrix *shape, void *rows)
{
    double *relative_error = &item->step.relative_error;
    if (shape->format == neuron_major_format(down, item->experts)) /* as the engine does for a model in stock layout  */
        neuron_major_transpose(&s->kernels, s->threads, down, item->experts, shape, rows);
    else
        TRY(neuron_major_encode(s->threads, down, item->experts, shape, rows, s->error));
    if (shape->format == down->format && !number_is_block(shape->format))
        return HEARTH_OK;
    return neuron_major_distance(relative_error, s->threads, down, item->experts, shape, s->error);
}

/* Writes finished rows in the order of the new file. */
static hearth_status put_rows(convert_sink *s, const convert_item *item, const matrix *m)
{
    if (!item->rows)
        return gguf_writer_put(s->writer, m->data, matrix_bytes(m), s->error);
    for (size_t i = 0; i < m->rows; i++)
        TRY(gguf_writer_put(s->writer, matrix_row(m, item->rows[i]), m->row_bytes, s->error));
    return HEARTH_OK;
}

/* Transposes down in memory and writes it as down_t. */
static hearth_status write_transposed_matrix(convert_sink *s, convert_item *item, const void *data)
{
    const convert_step *step = &item->step;
    const stored_tensor *t = &item->from;
    uint32_t d = (uint32_t)stored_tensor_rows(t);
    matrix down = {data, t->format, d, (uint32_t)t->shape[0], t->size_bytes / d};
    matrix shape = {NULL, step->to, (uint32_t)step->rows, (uint32_t)step->columns,
                    (size_t)(step->to_bytes / step->rows)};
    if (step->to != t->format || number_is_block(t->format)) /* else no value changes             */
        TRY(inspect_matrix(s, item, &down));
    void *rows = mem_reserve((size_t)step->to_bytes, MEM_WHOLE);
    if (!rows)
        return fail_memory(s->error, step->name, (size_t)step->to_bytes);
    shape.data = rows;
    hearth_status status = transpose(s, item, &down, &shape, rows);
    if (status == HEARTH_OK)
        status = put_rows(s, item, &shape);
    mem_release(rows, (size_t)step->to_bytes);
    return status == HEARTH_OK ? report(s, t->size_bytes) : status;
}

/* As write_transposed_matrix; copies matrices that lie at different places, or whose rows are to be made, behind one another first. */
static hearth_status write_transposed(convert_sink *s, convert_item *item)
{
    const stored_tensor *t = &item->from;
    size_t rows = (size_t)stored_tensor_rows(t), row_bytes = t->size_bytes / rows;
    if (!t->parts && !t->scaled)
        return write_transposed_matrix(s, item, t->data);
    char *copy = mem_reserve(t->size_bytes, MEM_WHOLE);
    if (!copy)
        return fail_memory(s->error, item->step.name, t->size_bytes);
    for (size_t i = 0; i < rows; i++)
        stored_tensor_read(t, i, row_bytes, copy + i * row_bytes);
    hearth_status status = write_transposed_matrix(s, item, copy);
    mem_release(copy, t->size_bytes);
    return status;
}

/* Writes the rows of zeros before a tensor's own: bytes of 0 are zeros in every format. */
static hearth_status put_zeros(convert_sink *s, const convert_item *item)
{
    size_t bytes = (size_t)(item->zero_rows * (item->step.to_bytes / item->step.rows));
    void *zeros = mem_new(bytes);
    if (!zeros)
        return fail_memory(s->error, item->step.name, bytes);
    hearth_status status = gguf_writer_put(s->writer, zeros, bytes, s->error);
    mem_free(zeros);
    return status;
}

hearth_status convert_tensor(convert_sink *s, convert_item *item)
{
    const convert_step *step = &item->step;
    if (item->zero_rows > 0)
        TRY(put_zeros(s, item));
    if (step->transposed)
        return write_transposed(s, item);
    if (step->from == step->to && !stored_tensor_reordered(&item->from) && !item->rows && item->scale == 1)
        return copy_tensor(s, &item->from);
    return write_rows(s, item);
}
