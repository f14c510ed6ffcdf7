/* format.h - the table of number formats, and the matrix type.
 *
 * A format stores blocks of `block_values` weights in `block_bytes` bytes; a row of a matrix is
 * a whole number of blocks. To add a format: add a line here, its layout in blocks.h, and decode (and encode) in a new
 * file or next to similar formats; its bound in tests/number_format.c. The scalar kernels follow from the table, and so
 * does the check against its known answers (tests/number_golden.c). A block has a divisor of 256
 * values, and where it has more than one a multiple of 32, since activations are rounded by 32. A format for coarse copies
 * (COPY_FORMATS) is for memory only: it has no GGUF type, no user can ask for it, and tests/number_copies.c checks it. */
#ifndef NUMBER_FORMAT_H
#define NUMBER_FORMAT_H

#include "../base/error.h"
#include "../base/text.h"

#include <stddef.h>
#include <stdint.h>

/* The last column is the largest magnitude that is safe to encode, whatever the other values of the block are.
 * Float formats: the largest value that still rounds to a finite one. Formats with a scale: the largest float16, 65504,
 * times the largest integer of a sub-block's scale, times the largest integer (or value of a list) in both directions.
 * Formats with an offset: limited by that. Q4_1, Q5_1 store it as float16; in Q2_K, Q4_K, Q5_K it is at most 15 or 63
 * times a float16, and half of that is safe, because the search may place it below the least value. Q1_0 ... NVFP4 are
 * only read: 0.
 * general.file_type of a format that llama.cpp has only as part of mixes is that of the commonest mix. */
/*    id         name     GGUF type  general.file_type  values  bytes of a block  largest */
// clang-format off
#define WRITTEN_FORMATS(X)                                                           \
    X(F32,     "f32",      0,   0,   1,   4, 0x1.fffffep127f)     /* every finite one */  \
    X(F16,     "f16",      1,   1,   1,   2, 0x1.ffdffep15f)      /* just below 65520 */  \
    X(BF16,    "bf16",    30,  32,   1,   2, 0x1.fefffep127f)                             \
    X(Q8_0,    "q8_0",     8,   7,  32,  34, 65504.0f * 127)                              \
    X(Q4_0,    "q4_0",     2,   2,  32,  18, 65504.0f * 8)                                \
    X(Q4_1,    "q4_1",     3,   3,  32,  20, 65504.0f)                                    \
    X(Q5_0,    "q5_0",     6,   8,  32,  22, 65504.0f * 16)                               \
    X(Q5_1,    "q5_1",     7,   9,  32,  24, 65504.0f)                                    \
    X(Q2_K,    "q2_K",    10,  10, 256,  84, 65504.0f * 15 / 2)                           \
    X(Q3_K,    "q3_K",    11,  12, 256, 110, 65504.0f * 31 * 3)                           \
    X(Q4_K,    "q4_K",    12,  15, 256, 144, 65504.0f * 63 / 2)                           \
    X(Q5_K,    "q5_K",    13,  17, 256, 176, 65504.0f * 63 / 2)                           \
    X(Q6_K,    "q6_K",    14,  18, 256, 210, 65504.0f * 127 * 31)                         \
    X(IQ4_NL,  "iq4_nl",  20,  25,  32,  18, 65504.0f * 113)                              \
    X(IQ4_XS,  "iq4_xs",  23,  30, 256, 136, 65504.0f * 31 * 113)                         \
    X(MXFP4,   "mxfp4",   39,  38,  32,  17, 0x1.8p127f)                                  \
    X(TQ1_0,   "tq1_0",   34,  36, 256,  54, 65504.0f)                                    \
    X(TQ2_0,   "tq2_0",   35,  37, 256,  66, 65504.0f)
#define READ_FORMATS(X)                                                                   \
    X(Q1_0,    "q1_0",    41,  40, 128,  18, 0)                                           \
    X(Q2_0,    "q2_0",    42,  41,  64,  18, 0)                                           \
    X(IQ1_S,   "iq1_s",   19,  24, 256,  50, 0)                                           \
    X(IQ1_M,   "iq1_m",   29,  31, 256,  56, 0)                                           \
    X(IQ2_XXS, "iq2_xxs", 16,  19, 256,  66, 0)                                           \
    X(IQ2_XS,  "iq2_xs",  17,  20, 256,  74, 0)                                           \
    X(IQ2_S,   "iq2_s",   22,  28, 256,  82, 0)                                           \
    X(IQ3_XXS, "iq3_xxs", 18,  23, 256,  98, 0)                                           \
    X(IQ3_S,   "iq3_s",   21,  26, 256, 110, 0)                                           \
    X(NVFP4,   "nvfp4",   40,  39,  64,  36, 0)
/* hearth's own, for the coarse selector's copies (engine/coarse.h); no file holds them. */
#define NOT_IN_FILES UINT32_MAX
#define COPY_FORMATS(X)                                                                   \
    X(SIGNS1,  "signs1",  NOT_IN_FILES, NOT_IN_FILES,  64,  10, 65504.0f)                 \
    X(LEVELS2, "levels2", NOT_IN_FILES, NOT_IN_FILES,  64,  18, 65504.0f) /* a block may be all d */
#define NUMBER_FORMATS(X) WRITTEN_FORMATS(X) READ_FORMATS(X) COPY_FORMATS(X)
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
    const char *name;   /* as GGUF's users write it; compared without regard to case */
    uint32_t gguf_type; /* NOT_IN_FILES: of copies in memory only */
    uint32_t file_type; /* GGUF's general.file_type of a file mostly in this format */
    uint32_t block_values;
    uint32_t block_bytes;
    float largest; /* largest magnitude that is encoded without being clamped */
    /* Convert n values, a multiple of block_values; neither side need be aligned. These scalar functions define the
     * format: kernels are checked against them. encode NULL: can be read, not written. importance [n]: how much the
     * squared error of each value counts, for encoders that search (the others ignore it); NULL: all count alike.
     * What is negative, infinite or NaN in it counts as 0. */
    void (*decode)(const void *blocks, float *values, size_t n);
    void (*encode)(const float *values, const float *importance, void *blocks, size_t n);
} number_traits;

extern const number_traits number_formats[FORMAT_STORED_COUNT];

/* Returns the format of weights in files with that name; FORMAT_COUNT if there is none. */
number_format number_format_by_name(const char *name);
/* Returns the format with that GGUF type, including FORMAT_I32; FORMAT_STORED_COUNT if there is none. */
number_format number_format_by_gguf_type(uint32_t gguf_type);

/* Returns whether files may hold the format. */
static inline bool number_is_in_files(number_format f)
{
    return number_formats[f].gguf_type != NOT_IN_FILES;
}

/* Returns whether rows can be encoded in the format, as a coarse copy is. */
static inline bool number_is_encoded(number_format f)
{
    return number_formats[f].encode != NULL;
}

/* Returns whether the weights of a file can be written in the format. */
static inline bool number_is_written(number_format f)
{
    return number_is_encoded(f) && number_is_in_files(f);
}

/* Returns whether its encoder minds the importance of values: it then searches for scales with the least weighed error. */
bool number_weighs(number_format f);

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
