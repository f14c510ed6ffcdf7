/* format.c - the table of number formats, generated from NUMBER_FORMATS. */
#include "codec.h"

#include <strings.h>

// clang-format off
const number_traits number_formats[FORMAT_STORED_COUNT] = {
#define X(id, name, gguf_type, file_type, values, bytes, largest) \
    [FORMAT_##id] = {name, gguf_type, file_type, values, bytes, largest, number_decode_##id, number_encode_##id},
    WRITTEN_FORMATS(X)
    COPY_FORMATS(X)
#undef X
#define X(id, name, gguf_type, file_type, values, bytes, largest) \
    [FORMAT_##id] = {name, gguf_type, file_type, values, bytes, largest, number_decode_##id, NULL},
    READ_FORMATS(X)
#undef X
    [FORMAT_I32] = {"i32", 26, 0, 1, 4, 0, NULL, NULL},
};
// clang-format on

number_format number_format_by_name(const char *name)
{
    size_t f = 0;
    while (f < FORMAT_COUNT && (!number_is_in_files((number_format)f) || strcasecmp(number_formats[f].name, name) != 0))
        f++;
    return (number_format)f;
}

number_format number_format_by_gguf_type(uint32_t gguf_type)
{
    size_t f = 0;
    while (f < FORMAT_STORED_COUNT &&
           (!number_is_in_files((number_format)f) || number_formats[f].gguf_type != gguf_type))
        f++;
    return (number_format)f;
}

/* Magnitudes are compared as integers, which have the same order, with NaN above infinity. Compilers vectorise the
 * first loop; the second searches only if there is something to find. */
size_t number_find_unfit(number_format f, const float *values, size_t n)
{
    float largest = number_formats[f].largest;
    uint32_t most = 0;
    for (size_t i = 0; i < n; i++) {
        uint32_t magnitude = float_bits(values[i]) & 0x7fffffff;
        most = magnitude > most ? magnitude : most;
    }
    size_t at = most > float_bits(largest) ? 0 : n;
    while (at < n && values[at] <= largest && values[at] >= -largest)
        at++;
    return at;
}

bool number_weighs(number_format f)
{
    static const number_format searching[] = {FORMAT_Q4_0, FORMAT_Q4_1,   FORMAT_Q5_0,  FORMAT_Q5_1,
                                              FORMAT_Q2_K, FORMAT_Q3_K,   FORMAT_Q4_K,  FORMAT_Q5_K,
                                              FORMAT_Q6_K, FORMAT_IQ4_NL, FORMAT_IQ4_XS};
    for (size_t i = 0; i < sizeof searching / sizeof *searching; i++)
        if (searching[i] == f)
            return true;
    return false;
}

bool number_row_bytes(number_format f, uint64_t columns, size_t *out)
{
    if ((unsigned)f >= FORMAT_STORED_COUNT)
        return false;
    const number_traits *traits = &number_formats[f];
    if (columns % traits->block_values != 0)
        return false;
    size_t size; /* the built-in takes operands of any width and checks against the width of the result */
    if (__builtin_mul_overflow(columns / traits->block_values, (uint64_t)traits->block_bytes, &size))
        return false;
    *out = size;
    return true;
}
