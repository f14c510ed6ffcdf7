/* kernels.c - tables of the kernels: names, parameters, which kernel is for which format, and which host table is for
 * which CPU. The first three follow from the list in kernels.h. */
#include "kernels.h"
#include "host_table.h"

#include "../../kernel/cpu.h"

#include <assert.h>
#include <stdio.h>

/* The letter of each kind of parameter, see device_kernel_row. */
#define LETTER_B(type, name) "b"
#define LETTER_V(name)       "u"
#define LETTER_F(name)       "f"

const device_kernel_row device_kernels[DEVICE_KERNEL_COUNT] = {
#define X(name, PARAMETERS, taker) {#name, "b" PARAMETERS(LETTER_B, LETTER_V, LETTER_F), taker},
    DEVICE_KERNELS(X)
#undef X
};

/* The row of a format that devices lack is zero. */
static const device_format formats[FORMAT_COUNT] = {
#define X(ID, name, values, value_size, scale_size)                    \
    [FORMAT_##ID] = {.value_bytes = (value_size),                      \
                     .scale_bytes = (scale_size),                      \
                     .embed = DEVICE_embed_##name,                     \
                     .product = DEVICE_product_##name,                 \
                     .product_many = DEVICE_product_many_##name,       \
                     .product_heads = DEVICE_product_heads_##name,     \
                     .product_chosen = DEVICE_product_chosen_##name,   \
                     .accumulate = DEVICE_accumulate_##name,           \
                     .accumulate_many = DEVICE_accumulate_many_##name, \
                     .score = DEVICE_score_##name},
    DEVICE_FORMATS(X)
#undef X
};

/* Those for activations of 8 bits, of few tokens, of many, of heads and of experts; only block formats have them. */
static const device_kernel products_8[FORMAT_COUNT][4] = {
#define X(ID, name, values, value_bytes, scale_bytes)                                                      \
    [FORMAT_##ID] = {DEVICE_product_8_##name, DEVICE_product_many_8_##name, DEVICE_product_heads_8_##name, \
                     DEVICE_product_chosen_8_##name},
    DEVICE_BLOCK_FORMATS(X)
#undef X
};

/* Checks that a packed block has as many values as in a file, and no more bytes but one for the alignment of scales. */
#define X(ID, name, type, file_type, values, bytes, largest) VALUES_##ID = (values), BYTES_##ID = (bytes),
enum { NUMBER_FORMATS(X) };
#undef X
#define X(ID, id, values, value_bytes, scale_bytes) \
    _Static_assert(VALUES_##ID == (values) && (unsigned)((value_bytes) + (scale_bytes)-BYTES_##ID) <= 1, #id);
DEVICE_FORMATS(X)
#undef X

const device_format *device_format_find(number_format format)
{
    return (unsigned)format < FORMAT_COUNT && formats[format].value_bytes > 0 ? &formats[format] : NULL;
}

const char *device_format_names(char out[DEVICE_FORMAT_NAMES_SIZE])
{
    size_t used = 0, left = 0;
    for (number_format f = 0; f < FORMAT_COUNT; f++)
        left += device_has_format(f);
    for (number_format f = 0; f < FORMAT_COUNT; f++)
        if (device_has_format(f) && used < DEVICE_FORMAT_NAMES_SIZE)
            used += (size_t)snprintf(out + used, DEVICE_FORMAT_NAMES_SIZE - used, "%s%s", number_formats[f].name,
                                     --left > 1  ? ", "
                                     : left == 1 ? " and "
                                                 : "");
    return out;
}

/* Returns the row of a format that devices have. */
static const device_format *row_of(number_format format)
{
    const device_format *row = device_format_find(format);
    assert(row);
    return row;
}

device_kernel device_embed(number_format format)
{
    return row_of(format)->embed;
}

device_kernel device_product(number_format format)
{
    return row_of(format)->product;
}

device_kernel device_product_8(number_format format)
{
    assert(device_has_format(format) && number_is_block(format));
    return products_8[format][0];
}

device_kernel device_product_many(number_format format)
{
    return row_of(format)->product_many;
}

device_kernel device_product_many_8(number_format format)
{
    assert(device_has_format(format) && number_is_block(format));
    return products_8[format][1];
}

device_kernel device_product_heads(number_format format)
{
    return row_of(format)->product_heads;
}

device_kernel device_product_heads_8(number_format format)
{
    assert(device_has_format(format) && number_is_block(format));
    return products_8[format][2];
}

device_kernel device_product_chosen(number_format format)
{
    return row_of(format)->product_chosen;
}

device_kernel device_product_chosen_8(number_format format)
{
    assert(device_has_format(format) && number_is_block(format));
    return products_8[format][3];
}

device_kernel device_accumulate(number_format format)
{
    return row_of(format)->accumulate;
}

device_kernel device_accumulate_many(number_format format)
{
    return row_of(format)->accumulate_many;
}

device_kernel device_score(number_format format)
{
    return row_of(format)->score;
}

/* The host tables, slowest first. */
static const struct compiled {
    unsigned features; /* the CPU must have all of them */
    const host_table *table;
} compiled[] = {
    {0, &host_table_c},
#ifdef __x86_64__
    {CPU_AVX2, &host_table_avx2},
#endif
};

const host_table *host_table_at(size_t i, unsigned *features)
{
    if (i >= sizeof(compiled) / sizeof(*compiled))
        return NULL;
    *features = compiled[i].features;
    return compiled[i].table;
}

const host_table *host_table_for(unsigned features)
{
    const host_table *best = NULL, *table;
    unsigned needed;
    for (size_t i = 0; (table = host_table_at(i, &needed)) != NULL; i++)
        best = (features & needed) == needed ? table : best;
    return best;
}
