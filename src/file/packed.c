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

static const void *word_from(const void *words, uint64_t i)
{
    return (const char *)words + i * sizeof(uint32_t);
}

/* Returns number `at` of those that follow each other in words. */
static unsigned number_at(const packed_matrix *m, const void *words, uint64_t at)
{
    unsigned in_word = packed_in_word(m), place = (unsigned)(at % in_word);
    if (m->order == PACKED_ACROSS)
        place = across[place];
    return packed_word(words, at / in_word) >> place * m->bits & ((1u << m->bits) - 1);
}

/* Returns number `at` of line `line` where lines lie side by side: word i of each follows word i of the line before. */
static unsigned number_down(const packed_matrix *m, const void *words, uint64_t lines, uint64_t line, uint64_t at)
{
    unsigned in_word = packed_in_word(m);
    return packed_word(words, at / in_word * lines + line) >> at % in_word * m->bits & ((1u << m->bits) - 1);
}

unsigned packed_zero(const packed_matrix *m, uint64_t row, uint64_t group)
{
    uint64_t of_group = m->rows / packed_in_word(m);
    if (!m->zeros)
        return m->add;
    return m->add + (m->order == PACKED_ROWS ? number_down(m, m->zeros, packed_groups(m), group, row)
                                             : number_at(m, word_from(m->zeros, group * of_group), row));
}

float packed_scale(const packed_matrix *m, uint64_t row, uint64_t group)
{
    const number_traits *format = &number_formats[m->scale_format];
    uint64_t at = m->order == PACKED_ROWS ? row * packed_groups(m) + group : group * m->rows + row;
    float scale;
    format->decode((const char *)m->scales + at * format->block_bytes, &scale, 1);
    return scale;
}

number_format packed_format(const packed_matrix *m, bool middle)
{
    if (m->groups || m->columns % BLOCK != 0 || (m->group % BLOCK != 0 && m->group < m->columns))
        return FORMAT_F32;
    if (m->bits == 8)
        return middle ? FORMAT_Q8_0 : FORMAT_F32;
    return middle ? FORMAT_Q4_0 : FORMAT_Q4_1;
}

static unsigned number_of(const packed_matrix *m, const void *words, uint64_t row, uint64_t column)
{
    switch (m->order) {
    case PACKED_ROWS:
        return number_at(m, word_from(words, row * (m->columns / packed_in_word(m))), column);
    case PACKED_COLUMNS:
        return number_down(m, words, m->rows, row, column);
    default:
        return number_at(m, word_from(words, column * (m->rows / packed_in_word(m))), row);
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

static void read_floats(const packed_matrix *m, const void *words, uint64_t row, float *out)
{
    for (uint64_t c = 0; c < m->columns; c++) {
        uint64_t group = m->groups ? packed_word(m->groups, c) : c / m->group;
        int number = (int)number_of(m, words, row, c) - (int)packed_zero(m, row, group);
        out[c] = (float)number * packed_scale(m, row, group);
    }
}

void packed_read(const packed_matrix *m, const void *words, uint64_t row, number_format format, void *out)
{
    if (format == FORMAT_F32) {
        read_floats(m, words, row, out);
        return;
    }
    char *to = out;
    for (uint64_t c = 0; c < m->columns; c += BLOCK, to += number_formats[format].block_bytes) {
        uint8_t numbers[BLOCK];
        uint64_t group = c / m->group;
        for (uint64_t i = 0; i < BLOCK; i++)
            numbers[i] = (uint8_t)number_of(m, words, row, c + i);
        make_block(numbers, packed_zero(m, row, group), packed_scale(m, row, group), format, to);
    }
}
