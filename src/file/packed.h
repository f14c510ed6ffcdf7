/* packed.h - rows of a matrix whose numbers of 4 or 8 bits are packed in words of 32, as GPTQ (arXiv 2210.17323), AWQ (arXiv
 * 2306.00978) and compressed-tensors leave a folder: a value is (number - zero) * scale, and as many columns of a row as a group has
 * share zero and scale. Sources: GPTQModel's nn_modules/qlinear, AutoAWQ's gemm, compressed-tensors' pack_quantized.
 *
 * Rows become blocks. Where the zero is the middle of the numbers they are Q4_0 or Q8_0, in which nothing is rounded but scales to
 * half floats, which most are. Other zeros of 4 bits make Q4_1, whose half float is off by at most 2^-11 of zero * scale, where that
 * is a normal one: for zeros up to 15 by 1/128 of a step. All else becomes float32. */
#ifndef FILE_PACKED_H
#define FILE_PACKED_H

#include "../number/format.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

/* What a word holds, n numbers, and how words, scales and zeros lie:
 * ROWS (compressed-tensors): numbers of neighbouring columns of a row. words [rows][columns / n], scales [rows][groups], zeros
 *     [rows / n, rounded up][groups]. With bytes that have a sign in place of words ("int-quantized"), flip makes numbers of them whose
 *     zero is 128.
 * COLUMNS (GPTQ): the same numbers, by columns. words [columns / n][rows], scales [groups][rows], zeros [groups][rows / n].
 * ACROSS (AWQ): numbers of neighbouring rows of a column, the even ones first. words [columns][rows / n], scales [groups][rows], zeros
 *     [groups][rows / n], in the same order. */
typedef enum packed_order { PACKED_ROWS, PACKED_COLUMNS, PACKED_ACROSS } packed_order;

typedef struct packed_matrix {
    packed_order order;
    unsigned bits; /* 4 or 8 */
    unsigned flip; /* ROWS: bits of each number that are stored the other way around: 0 or 128 */
    /* multiples of the numbers of a word where words, or words of zeros, go along them */
    uint64_t rows, columns;
    uint64_t group;             /* columns that share a scale; multiples of 32 where blocks are made */
    number_format scale_format; /* floats */
    const void *scales;
    const void *zeros; /* NULL: all are `zero` */
    unsigned zero;
    /* to each word of zeros: GPTQ's first form has them less one, with a borrow from one number to the next */
    uint32_t add;
    const void *groups; /* [columns] of 32 bits, the group of a column; NULL: by its place */
} packed_matrix;

/* Returns number i of such as have 32 bits each, which may begin anywhere. */
static inline uint32_t packed_word(const void *words, uint64_t i)
{
    uint32_t word;
    memcpy(&word, (const char *)words + i * sizeof word, sizeof word);
    return word;
}

/* Returns the numbers of a word. */
static inline unsigned packed_in_word(const packed_matrix *m)
{
    return 32 / m->bits;
}
/* Returns how many groups a row has. */
uint64_t packed_groups(const packed_matrix *m);
/* Returns the zero of a row's numbers of a group, and their scale. */
unsigned packed_zero(const packed_matrix *m, uint64_t row, uint64_t group);
float packed_scale(const packed_matrix *m, uint64_t row, uint64_t group);
/* Returns the format of the blocks that rows become; F32: none. Reads the zeros. */
number_format packed_format(const packed_matrix *m);
/* Makes a row of words: as float32, Q4_0, Q4_1 or Q8_0. */
void packed_read(const packed_matrix *m, const void *words, uint64_t row, number_format format, void *out);

#endif
