/* neuron_major.c - transposes down matrices on all threads.
 *
 * The work is divided into stripes of columns, which become whole rows: two threads write to the same cache line only
 * where stripes meet. A kernel gets a stripe in one call, because it prefetches what it transposes next: calling it
 * for 32 rows at a time was tried and was a third slower. */
#include "neuron_major.h"

#include "../number/blocks.h"

#include <math.h>
#include <string.h>

/* Columns of a stripe: a multiple of every format's block, and enough of each row to be read efficiently. */
#define STRIPE_COLUMNS 256

/* Returns whether all values of each expert's matrix are -s, 0 and s, and its columns whole blocks of TQ2_0. */
static bool has_three_values(const matrix *down, uint32_t experts)
{
    size_t d = down->rows / experts, blocks = down->columns / number_formats[FORMAT_TQ2_0].block_values;
    if (down->format != FORMAT_TQ2_0 || !down->data || d % number_formats[FORMAT_TQ2_0].block_values != 0)
        return false;
    for (size_t expert = 0; expert < experts; expert++) {
        uint16_t size = 0; /* of its first block that is not zero; a half float */
        for (size_t row = expert * d; row < (expert + 1) * d; row++) {
            const block_tq2_0 *of_row = matrix_row(down, row);
            for (size_t i = 0; i < blocks; i++) {
                size = size ? size : of_row[i].d;
                if (of_row[i].d != 0 && of_row[i].d != size)
                    return false;
            }
        }
    }
    return true;
}

number_format neuron_major_format(const matrix *down, uint32_t experts)
{
    return !number_is_block(down->format) || has_three_values(down, experts) ? down->format : FORMAT_Q8_0;
}

bool neuron_major_rounds(number_format down, number_format known, number_format to)
{
    return number_is_block(down) && to != FORMAT_F32 && !(to == FORMAT_TQ2_0 && known == FORMAT_TQ2_0);
}

hearth_status neuron_major_shape(matrix *out, const matrix *down, uint32_t experts, const char *path, const char *name,
                                 hearth_error *error)
{
    matrix m = {
        .format = neuron_major_format(down, experts), .rows = down->columns * experts, .columns = down->rows / experts};
    if (!number_row_bytes(m.format, m.columns, &m.row_bytes))
        return fail(error, HEARTH_UNSUPPORTED,
                    "%s: tensor %s: has %u rows; to transpose %s they must be a multiple of %u", path, name, m.columns,
                    number_formats[down->format].name, number_formats[m.format].block_values);
    *out = m;
    return HEARTH_OK;
}

/* Some columns of one expert's matrix. */
typedef struct stripe {
    size_t row, column, columns; /* its first row in down; its first column, and how many: the last may be narrower */
    size_t to;                   /* the row of down_t that its first column becomes */
} stripe;

static size_t stripes_of_expert(const matrix *down)
{
    return (down->columns + STRIPE_COLUMNS - (size_t)1) / STRIPE_COLUMNS;
}

/* Finds stripe `index` of all. d: rows of an expert's matrix. */
static stripe find_stripe(const matrix *down, size_t d, size_t index)
{
    size_t each = stripes_of_expert(down), expert = index / each, column = index % each * STRIPE_COLUMNS;
    size_t left = down->columns - column;
    return (stripe){expert * d, column, left < STRIPE_COLUMNS ? left : STRIPE_COLUMNS, expert * down->columns + column};
}

/* -------------------------------------------------- fast: kernels of each format */

/* Arguments of transpose_stripes. */
typedef struct transposition {
    kernel_transpose *kernel;
    const matrix *down, *shape;
    char *rows;
} transposition;

/* Transposes a stripe of a matrix of -s, 0 and s, which is all of a block wide, square by square. rows: where its first column
 * goes. */
static void transpose_three_values(const matrix *down, const stripe *s, char *rows, size_t row_bytes, size_t d)
{
    enum {
        SIDE = STRIPE_COLUMNS,
        FIELDS = 4,
        BYTES = 32
    };                          /* of 128 values byte i of 32 holds i, i + 32, i + 64, i + 96 */
    uint8_t square[SIDE][SIDE]; /* [row][column] values plus one */
    for (size_t first = 0; first < d; first += SIDE) {
        uint16_t size = 0;
        for (size_t row = 0; row < SIDE; row++) {
            const block_tq2_0 *block = matrix_row(down, s->row + first + row);
            block += s->column / SIDE;
            size = block->d ? block->d : size;
            for (size_t k = 0; k < SIDE; k++) {
                unsigned number = block->q[k / 128 * BYTES + k % BYTES] >> k / BYTES % FIELDS * 2 & 3;
                square[row][k] = block->d ? (uint8_t)number : 1;
            }
        }
        for (size_t column = 0; column < SIDE; column++) {
            block_tq2_0 to = {.d = size};
            for (size_t k = 0; k < SIDE; k++)
                to.q[k / 128 * BYTES + k % BYTES] |= (uint8_t)(square[k][column] << k / BYTES % FIELDS * 2);
            memcpy(rows + column * row_bytes + first / SIDE * sizeof to, &to, sizeof to);
        }
    }
}

static void transpose_stripes(void *context, size_t begin, size_t end, unsigned worker)
{
    const transposition *t = context;
    (void)worker;
    for (size_t i = begin; i < end; i++) {
        stripe s = find_stripe(t->down, t->shape->columns, i);
        matrix one = *t->down; /* of the expert */
        one.data = matrix_row(t->down, s.row);
        one.rows = t->shape->columns;
        if (t->shape->format == FORMAT_TQ2_0) {
            transpose_three_values(t->down, &s, t->rows + s.to * t->shape->row_bytes, t->shape->row_bytes,
                                   t->shape->columns);
            continue;
        }
        t->kernel(&one, 0, one.rows, s.column, s.columns, t->rows + s.to * t->shape->row_bytes, t->shape->row_bytes);
    }
}

void neuron_major_transpose(const kernels *k, pool *threads, const matrix *down, uint32_t experts, const matrix *shape,
                            void *rows)
{
    transposition t = {k->transpose[down->format], down, shape, rows};
    pool_run(threads, experts * stripes_of_expert(down), 1, transpose_stripes, &t);
}

/* ------------------------------------------------------ any format: by way of float32 */

typedef struct stripe_sums {
    double distance, size; /* sums of squares */
} stripe_sums;

/* Arguments of pass_stripes, which encodes stripes or measures the error of encoded ones. */
typedef struct passage {
    const matrix *down, *shape;
    char *rows;    /* down_t: written where sums is NULL, else read */
    float *values; /* [threads][STRIPE_COLUMNS + 1][d]: a stripe transposed, and a row of the result */
    size_t stripes;
    stripe_sums *sums; /* [stripes]; added up in order, so that the result does not depend on the threads */
} passage;

/* Decodes the columns of a stripe and transposes them into values [columns][d]. */
static void gather_stripe(const matrix *down, size_t d, const stripe *s, float *values)
{
    const number_traits *format = &number_formats[down->format];
    size_t offset = s->column / format->block_values * format->block_bytes;
    float piece[STRIPE_COLUMNS];
    for (size_t row = 0; row < d; row++) {
        format->decode((const char *)matrix_row(down, s->row + row) + offset, piece, s->columns);
        for (size_t c = 0; c < s->columns; c++)
            values[c * d + row] = piece[c];
    }
}

static void add_distance(stripe_sums *sums, const float *values, const float *rounded, size_t n)
{
    for (size_t i = 0; i < n; i++) {
        double difference = (double)rounded[i] - (double)values[i];
        sums->distance += difference * difference;
        sums->size += (double)values[i] * (double)values[i];
    }
}

/* Encodes stripes [begin, end), or adds up their errors; run by the pool. */
static void pass_stripes(void *context, size_t begin, size_t end, unsigned worker)
{
    const passage *p = context;
    const number_traits *format = &number_formats[p->shape->format];
    size_t d = p->shape->columns;
    float *values = p->values + worker * (STRIPE_COLUMNS + 1) * d, *rounded = values + STRIPE_COLUMNS * d;
    for (size_t i = begin; i < end; i++) {
        stripe s = find_stripe(p->down, d, i);
        gather_stripe(p->down, d, &s, values);
        for (size_t c = 0; c < s.columns; c++) {
            char *row = p->rows + (s.to + c) * p->shape->row_bytes;
            if (!p->sums) {
                format->encode(values + c * d, NULL, row, d);
                continue;
            }
            format->decode(row, rounded, d);
            add_distance(&p->sums[i], values + c * d, rounded, d);
        }
    }
}

/* Runs pass_stripes over all stripes; allocates the working memory. */
static hearth_status pass(passage *p, pool *threads, hearth_error *error)
{
    size_t floats = (size_t)pool_threads(threads) * (STRIPE_COLUMNS + 1);
    p->values = mem_new_array(floats, p->shape->columns * sizeof *p->values);
    if (!p->values)
        return fail_memory(error, "transposing", floats * p->shape->columns * sizeof *p->values);
    pool_run(threads, p->stripes, 1, pass_stripes, p);
    mem_free(p->values);
    return HEARTH_OK;
}

hearth_status neuron_major_encode(pool *threads, const matrix *down, uint32_t experts, const matrix *shape, void *rows,
                                  hearth_error *error)
{
    passage p = {.down = down, .shape = shape, .rows = rows, .stripes = experts * stripes_of_expert(down)};
    return pass(&p, threads, error);
}

hearth_status neuron_major_distance(double *out, pool *threads, const matrix *down, uint32_t experts,
                                    const matrix *down_t, hearth_error *error)
{
    size_t stripes = experts * stripes_of_expert(down);
    passage p = {.down = down, .shape = down_t, .rows = (char *)down_t->data, .stripes = stripes};
    p.sums = mem_new_array(stripes, sizeof *p.sums);
    if (!p.sums)
        return fail_memory(error, "transposing", stripes * sizeof *p.sums);
    hearth_status status = pass(&p, threads, error);
    stripe_sums all = {0};
    for (size_t i = 0; i < stripes; i++) {
        all.distance += p.sums[i].distance;
        all.size += p.sums[i].size;
    }
    mem_free(p.sums);
    if (status == HEARTH_OK)
        *out = all.size > 0 ? sqrt(all.distance / all.size) : 0;
    return status;
}
