/* scaled.h - rows of values that a folder has in another form than any number format: they are made when they are read, so
 * that a model of any size can be converted row by row.
 *
 * F8: a byte is a float of one sign, four exponent and three fraction bits (E4M3 without infinities, arXiv 2209.05433), and
 * rectangles of a matrix share a scale that it is multiplied with. They are read as float32, exactly.
 * MXFP4: blocks of 32 numbers of four bits (OCP Microscaling Formats 1.0), of which the scales lie apart; byte i holds values
 * 2i and 2i + 1. They are read as the number format of that name, in which nothing is rounded.
 * NVFP4: such numbers in blocks of 16, whose scales are floats as of F8 and lie apart, and a factor of the whole matrix.
 * TIMES: rows of a number format, and a factor of the whole matrix. Both are read as float32, and rounded once.
 * PACKED: numbers in words (packed.h). */
#ifndef FILE_SCALED_H
#define FILE_SCALED_H

#include "packed.h"

typedef enum scaled_kind { SCALED_F8, SCALED_MXFP4, SCALED_NVFP4, SCALED_TIMES, SCALED_PACKED } scaled_kind;

/* A matrix of NVFP4 or TIMES. */
typedef struct factored_matrix {
    const void *scales; /* NVFP4: a byte for each 16 values of a row; TIMES: NULL */
    double factor;
} factored_matrix;

/* How the rows of a tensor are made; a tensor of one matrix counts as one stacked matrix. */
typedef struct scaled_rows {
    scaled_kind kind;
    /* [matrices] where those of each matrix begin, row by row; NVFP4, TIMES: a factored_matrix; PACKED: a packed_matrix */
    const void **scales;
    number_format scale_format; /* F8: of the scales; TIMES: of the rows; MXFP4: a byte, the exponent plus 127 */
    uint64_t block_rows, block_columns; /* F8: values that share a scale; the last ones may be fewer      */
    uint64_t stored_rows;               /* of each matrix; those of two tensors may take turns            */
    unsigned bits;                      /* PACKED: of a number                                            */
    number_format made;                 /* PACKED: what rows become                                       */
    uint64_t first, step;               /* the tensor's row i is the stored row first + i * step; PACKED: i */
} scaled_rows;

/* Returns the name of what rows are made of: "f8", a number format's, "words". */
const char *scaled_source(const scaled_rows *s);
/* Returns the stored bytes of a row of so many columns. */
size_t scaled_row_bytes(const scaled_rows *s, uint64_t columns);
/* Makes row `row` of matrix `number`, whose stored rows begin at `values`: to `out`, in the tensor's number format. */
void scaled_read(const scaled_rows *s, const void *values, uint64_t number, uint64_t row, uint64_t columns, void *out);

#endif
