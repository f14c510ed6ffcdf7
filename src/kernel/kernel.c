/* kernel.c - the levels, worst first, and how a table is made of them.
 *
 * A level is what the one before it does, with what it does better written over it. To add one:
 * a row here, a flag in cpu.c, files NAME_LEVEL.c with their flags in CMakeLists.txt;
 * kcheck and kbench walk this table. */
#include "kernel.h"

#include "cpu.h"
#include "levels.h"

#define MOST_PARTS 6

static const struct level {
    const char *name;
    unsigned features; /* all of them must be there */
    const char *needs;
    const kernels *parts[MOST_PARTS];
} levels[] = {
    {"scalar", 0, "any x86-64", {&scalar_products, &scalar_vectors, &scalar_neurons, &scalar_transposes}},
    {"avx2",
     CPU_AVX2,
     "AVX2, FMA, F16C",
     {&avx2_floats, &avx2_blocks, &avx2_vectors, &avx2_attention, &avx2_neurons, &avx2_transposes}},
    {"avx512",
     CPU_AVX2 | CPU_AVX512,
     "AVX-512 F BW DQ VL, VNNI, VBMI",
     {&avx512_floats, &avx512_blocks, &avx512_vectors, &avx512_attention, &avx512_neurons, &avx512_transposes}},
};

/* Writes what `part` has over the table. */
static void overlay(kernels *k, const kernels *part)
{
#define TAKE(member) k->member = part->member ? part->member : k->member
    for (size_t f = 0; f < FORMAT_COUNT; f++) {
        TAKE(product[f]);
        TAKE(accumulate[f]);
        TAKE(accumulate_many[f]);
        TAKE(transpose[f]);
    }
    for (size_t s = 0; s < SELECT_COUNT; s++)
        TAKE(select[s]);
    for (size_t a = 0; a < ACTIVATION_COUNT; a++)
        TAKE(activate[a]);
    TAKE(quantize);
    TAKE(rms_norm);
    TAKE(add);
    TAKE(rope);
    TAKE(attend_f32);
    TAKE(attend_f16);
    TAKE(to_half);
    TAKE(read);
#undef TAKE
}

size_t kernel_level_count(void)
{
    return sizeof(levels) / sizeof(*levels);
}

const char *kernel_level_name(size_t level)
{
    return levels[level].name;
}

const char *kernel_level_needs(size_t level)
{
    return levels[level].needs;
}

bool kernel_level_present(size_t level)
{
    return (cpu_features() & levels[level].features) == levels[level].features;
}

size_t kernel_level_find(const char *name)
{
    size_t best = kernel_level_count();
    for (size_t i = 0; i < kernel_level_count(); i++)
        if (name ? strcmp(name, levels[i].name) == 0 : kernel_level_present(i))
            best = i;
    return best;
}

void kernels_for(size_t level, kernels *out)
{
    *out = (kernels){0};
    for (size_t i = 0; i <= level; i++)
        for (size_t p = 0; p < MOST_PARTS && levels[i].parts[p]; p++)
            overlay(out, levels[i].parts[p]);
    out->level = levels[level].name;
}
