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
#define X(ID, name, values, value_size, scale_size) [FORMAT_##ID] = {(value_size), (scale_size)},
    DEVICE_FORMATS(X)
#undef X
};

static const device_kernel kernels_of[FORMAT_COUNT][OF_COUNT] = {
#define X(ID, name, values, value_bytes, scale_bytes)                                                 \
    [FORMAT_##ID][OF_EMBED] = DEVICE_embed_##name, [FORMAT_##ID][OF_PRODUCT] = DEVICE_product_##name, \
    [FORMAT_##ID][OF_PRODUCT_MANY] = DEVICE_product_many_##name,                                      \
    [FORMAT_##ID][OF_PRODUCT_HEADS] = DEVICE_product_heads_##name,                                    \
    [FORMAT_##ID][OF_PRODUCT_CHOSEN] = DEVICE_product_chosen_##name,                                  \
    [FORMAT_##ID][OF_ACCUMULATE] = DEVICE_accumulate_##name,                                          \
    [FORMAT_##ID][OF_ACCUMULATE_MANY] = DEVICE_accumulate_many_##name, [FORMAT_##ID][OF_SCORE] = DEVICE_score_##name,
    DEVICE_FORMATS(X)
#undef X
#define X(ID, name, values, value_bytes, scale_bytes)                  \
    [FORMAT_##ID][OF_PRODUCT_8] = DEVICE_product_8_##name,             \
    [FORMAT_##ID][OF_PRODUCT_MANY_8] = DEVICE_product_many_8_##name,   \
    [FORMAT_##ID][OF_PRODUCT_HEADS_8] = DEVICE_product_heads_8_##name, \
    [FORMAT_##ID][OF_PRODUCT_CHOSEN_8] = DEVICE_product_chosen_8_##name,
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

device_kernel device_kernel_of(format_kernel which, number_format format)
{
    assert(device_has_format(format) && (which < OF_PRODUCT_8 || number_is_block(format)));
    return kernels_of[format][which];
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
