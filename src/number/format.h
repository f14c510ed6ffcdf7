/* format.h - the table of number formats, and the matrix type.
 *
 * A format stores blocks of `block_values` weights in `block_bytes` bytes; a row of a matrix is
 * a whole number of blocks. To add a format: add a line here, and encode and decode in a new file
 * or next to similar formats; its known answers in tests/number_golden.c and its bound in
 * tests/number_format.c. The scalar kernels follow from the table. A block has a divisor of 256
 * values, and where it has more than one a multiple of 32, since activations are rounded by 32. */
#ifndef NUMBER_FORMAT_H
#define NUMBER_FORMAT_H

#include "../base/error.h"
#include "../base/text.h"

#include <stddef.h>
#include <stdint.h>

/* The last column is the largest magnitude that is safe to encode, whatever the other values of the block are.
 * Float formats: the largest value that still rounds to a finite one. Q8_0, Q4_0: the largest float16 scale, 65504,
 * times the largest quant (127; 8). Q6_K: 65504 times the largest sub-block scale (127) times the largest quant (31).
 * Q4_K: limited by its minima, at most 63 times a float16 scale; half of that, because the search may place a minimum
 * below the least value. */
/*    id    name    GGUF type  general.file_type  values  bytes of a block  largest */
// clang-format off
#define NUMBER_FORMATS(X)                                                           \
    X(F32,  "f32",   0,   0,   1,   4, 0x1.fffffep127f)     /* every finite one */  \
    X(F16,  "f16",   1,   1,   1,   2, 0x1.ffdffep15f)      /* just below 65520 */  \
    X(BF16, "bf16", 30,  32,   1,   2, 0x1.fefffep127f)                             \
    X(Q8_0, "q8_0",  8,   7,  32,  34, 65504.0f * 127)                              \
    X(Q4_0, "q4_0",  2,   2,  32,  18, 65504.0f * 8)                                \
    X(Q4_K, "q4_K", 12,  15, 256, 144, 65504.0f * 63 / 2)                           \
    X(Q6_K, "q6_K", 14,  18, 256, 210, 65504.0f * 127 * 31)
// clang-format on

typedef enum number_format {
#define X(id, ...) FORMAT_##id,
    NUMBER_FORMATS(X)
#undef X
        FORMAT_COUNT,
    /* Stored in files, but not for weights: numbers of neurons. number_formats has its name and size, but no codecs. */
    FORMAT_I32 = FORMAT_COUNT,
    FORMAT_STORED_COUNT
} number_format;

typedef struct number_traits {
    const char *name; /* as GGUF's users write it; compared without regard to case */
    uint32_t gguf_type;
    uint32_t file_type; /* GGUF's general.file_type of a file mostly in this format */
    uint32_t block_values;
    uint32_t block_bytes;
    float largest; /* largest magnitude that is encoded without being clamped */
    /* Convert n values, a multiple of block_values; neither side need be aligned. These scalar functions define the
     * format: kernels are checked against them. */
    void (*decode)(const void *blocks, float *values, size_t n);
    void (*encode)(const float *values, void *blocks, size_t n);
} number_traits;

extern const number_traits number_formats[FORMAT_STORED_COUNT];

/* Returns the format of weights with that name; FORMAT_COUNT if there is none. */
number_format number_format_by_name(const char *name);
/* Returns the format with that GGUF type, including FORMAT_I32; FORMAT_STORED_COUNT if there is none. */
number_format number_format_by_gguf_type(uint32_t gguf_type);

/* Block formats are multiplied with activations of 8 bits, float formats with float32 (docs/design.md). */
static inline bool number_is_block(number_format f)
{
    return number_formats[f].block_values > 1;
}

/* Returns the index of the first of n values that is NaN, infinite or larger in magnitude than the format's `largest`;
 * n if there is none. */
size_t number_find_unfit(number_format f, const float *values, size_t n);

/* Computes the bytes of a row of `columns` values; false if columns is not a whole number of blocks, the size
 * overflows, or the format is unknown. */
bool number_row_bytes(number_format f, uint64_t columns, size_t *out);

/* A matrix whose rows have one format. Does not own its data. */
typedef struct matrix {
    const void *data; /* [rows][columns] in blocks, row after row, any alignment */
    number_format format;
    uint32_t rows, columns;
    size_t row_bytes;
} matrix;

static inline const void *matrix_row(const matrix *m, size_t row)
{
    return (const char *)m->data + row * m->row_bytes;
}

/* Returns `rows` rows of a matrix from row `first` on; a zeroed matrix of a zeroed one. */
static inline matrix matrix_rows(const matrix *m, size_t first, uint32_t rows)
{
    matrix part = *m;
    if (m->data) {
        part.data = matrix_row(m, first);
        part.rows = rows;
    }
    return part;
}

/* Returns the bytes of its rows; 0 for a zeroed matrix. */
static inline size_t matrix_bytes(const matrix *m)
{
    return m->rows * m->row_bytes;
}

#endif
