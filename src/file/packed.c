/* packed.c - see packed.h. */
#include "packed.h"

#include "../number/blocks.h"
#include "../number/half.h"

#define BLOCK 32

/* Where AWQ has the numbers of rows 8 i to 8 i + 7 in a word, in nibbles. */
static const uint8_t across[8] = {0, 4, 1, 5, 2, 6, 3, 7};

uint64_t packed_groups(const packed_matrix *m)
{
    return m->columns / m->group + (m->columns % m->group != 0);
}

unsigned packed_zero(const packed_matrix *m, uint64_t row, uint64_t group)
{
    unsigned n = packed_in_word(m), place = (unsigned)(row % n);
    uint64_t by_row = row / n * packed_groups(m) + group, by_group = group * (m->rows / n) + row / n;
    if (!m->zeros)
        return m->zero;
    uint32_t word = packed_word(m->zeros, m->order == PACKED_ROWS ? by_row : by_group) + m->add;
    return word >> (m->order == PACKED_ACROSS ? across[place] : place) * m->bits & ((1u << m->bits) - 1);
}

float packed_scale(const packed_matrix *m, uint64_t row, uint64_t group)
{
    const number_traits *format = &number_formats[m->scale_format];
    uint64_t at = m->order == PACKED_ROWS ? row * packed_groups(m) + group : group * m->rows + row;
    float scale;
    format->decode((const char *)m->scales + at * format->block_bytes, &scale, 1);
    return scale;
}

/* Returns whether all zeros are the middle of the numbers. */
static bool all_are_middle(const packed_matrix *m)
{
    unsigned n = packed_in_word(m), middle = 1u << (m->bits - 1);
    uint64_t words = (m->rows / n + (m->rows % n != 0)) * packed_groups(m);
    uint32_t all = UINT32_MAX / ((1u << m->bits) - 1) * middle;
    if (!m->zeros)
        return m->zero == middle;
    for (uint64_t i = 0; i < words; i++)
        if (packed_word(m->zeros, i) + m->add != all)
            return false;
    return true;
}

number_format packed_format(const packed_matrix *m)
{
    if (m->groups || m->columns % BLOCK != 0 || (m->group % BLOCK != 0 && m->group < m->columns))
        return FORMAT_F32;
    bool middle = all_are_middle(m);
    if (m->bits == 8)
        return middle ? FORMAT_Q8_0 : FORMAT_F32;
    return middle ? FORMAT_Q4_0 : FORMAT_Q4_1;
}

/* Takes `count` numbers of a row from column `first` on: both are multiples of the numbers of a word, where words hold columns. */
static void take(const packed_matrix *m, const void *words, uint64_t row, uint64_t first, size_t count, uint8_t *out)
{
    unsigned n = packed_in_word(m), mask = (1u << m->bits) - 1;
    if (m->order == PACKED_ACROSS) {
        uint64_t of_column = m->rows / n, from = first * of_column + row / n;
        unsigned shift = across[row % n] * m->bits;
        for (size_t i = 0; i < count; i++)
            out[i] = (uint8_t)(packed_word(words, from + i * of_column) >> shift & mask);
        return;
    }
    uint64_t step = m->order == PACKED_ROWS ? 1 : m->rows;
    uint64_t from = (m->order == PACKED_ROWS ? row * (m->columns / n) : row) + first / n * step;
    for (size_t i = 0; i < count; i += n, from += step) {
        uint32_t word = packed_word(words, from);
        for (unsigned k = 0; k < n; k++, word >>= m->bits)
            out[i + k] = (uint8_t)((word & mask) ^ m->flip);
    }
}

/* Writes 32 numbers as a block with this zero and scale. */
static void make_block(const uint8_t *numbers, unsigned zero, float scale, number_format format, void *out)
{
    uint8_t nibbles[BLOCK / 2];
    for (size_t i = 0; i < BLOCK / 2; i++)
        nibbles[i] = (uint8_t)((numbers[i] & 15) | numbers[i + BLOCK / 2] << 4);
    if (format == FORMAT_Q4_0) {
        block_q4_0 *b = out;
        b->d = half_from_float(scale);
        memcpy(b->nibbles, nibbles, sizeof nibbles);
    } else if (format == FORMAT_Q4_1) {
        block_q4_1 *b = out;
        b->d = half_from_float(scale);
        b->minimum = half_from_float(-(float)zero * scale);
        memcpy(b->nibbles, nibbles, sizeof nibbles);
    } else {
        block_q8_0 *b = out;
        b->d = half_from_float(scale);
        for (size_t i = 0; i < BLOCK; i++)
            b->q[i] = (int8_t)(numbers[i] - 128);
    }
}

static void make_floats(const packed_matrix *m, uint64_t row, const uint8_t *numbers, uint64_t first, size_t count,
                        float *out)
{
    for (size_t i = 0; i < count; i++) {
        uint64_t group = m->groups ? packed_word(m->groups, first + i) : (first + i) / m->group;
        out[first + i] = (float)(numbers[i] - (int)packed_zero(m, row, group)) * packed_scale(m, row, group);
    }
}

void packed_read(const packed_matrix *m, const void *words, uint64_t row, number_format format, void *out)
{
    char *to = out;
    for (uint64_t c = 0; c < m->columns; c += BLOCK) {
        uint8_t numbers[BLOCK] = {0};
        uint64_t group = c / m->group, left = m->columns - c;
        size_t count = left < BLOCK ? (size_t)left : BLOCK;
        take(m, words, row, c, count, numbers);
        if (format == FORMAT_F32) {
            make_floats(m, row, numbers, c, count, out);
            continue;
        }
        make_block(numbers, packed_zero(m, row, group), packed_scale(m, row, group), format, to);
        to += number_formats[format].block_bytes;
    }
}
