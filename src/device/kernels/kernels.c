/* kernels.c - what there is to know of the kernels without running one: names, parameters, and which is for which
 * format. All of it follows from the list in kernels.h. */
#include "kernels.h"
#include "host_table.h"

#include "../../kernel/cpu.h"

#include <assert.h>

/* The step, then a letter for each parameter. */
#define LETTER_B(type, name) "b"
#define LETTER_V(name)       "u"
#define LETTER_F(name)       "f"

const device_kernel_row device_kernels[DEVICE_KERNEL_COUNT] = {
#define X(name, PARAMETERS) {#name, "b" PARAMETERS(LETTER_B, LETTER_V, LETTER_F)},
    DEVICE_KERNELS(X)
#undef X
};

/* The kernels of each format that devices have. */
typedef struct format_row {
    bool present;
    device_kernel embed, product, accumulate;
} format_row;

static const format_row formats[FORMAT_COUNT] = {
#define X(ID, id) [FORMAT_##ID] = {true, DEVICE_embed_##id, DEVICE_product_##id, DEVICE_accumulate_##id},
    DEVICE_FORMATS(X)
#undef X
};

/* Of block formats only. */
static const device_kernel products_8[FORMAT_COUNT] = {
#define X(ID, id) [FORMAT_##ID] = DEVICE_product_8_##id,
    DEVICE_BLOCK_FORMATS(X)
#undef X
};

bool device_has_format(number_format format)
{
    return (unsigned)format < FORMAT_COUNT && formats[format].present;
}

device_kernel device_embed(number_format format)
{
    assert(device_has_format(format));
    return formats[format].embed;
}

device_kernel device_product(number_format format)
{
    assert(device_has_format(format));
    return formats[format].product;
}

device_kernel device_product_8(number_format format)
{
    assert(device_has_format(format) && number_is_block(format));
    return products_8[format];
}

device_kernel device_accumulate(number_format format)
{
    assert(device_has_format(format));
    return formats[format].accumulate;
}

/* Worst first. */
static const struct compiled {
    unsigned features; /* all of them must be there */
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
