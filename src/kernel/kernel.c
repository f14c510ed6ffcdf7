/* kernel.c - the levels, worst first, and how a table is made of them.
 *
 * A level is what the one before it does, with what it does better written over it. To add one:
 * a row here, a flag in cpu.c, files NAME_LEVEL.c with their flags in CMakeLists.txt;
 * kcheck and kbench walk this table. */
#include "kernel.h"

#include "cpu.h"
#include "levels.h"

static void set_scalar(kernels *k)
{
    scalar_add_products(k);
    scalar_add_vectors(k);
}

static void set_avx2(kernels *k)
{
    avx2_add_floats(k);
    avx2_add_blocks(k);
    avx2_add_vectors(k);
    avx2_add_attention(k);
}

static void set_avx512(kernels *k)
{
    avx512_add_floats(k);
    avx512_add_blocks(k);
    avx512_add_vectors(k);
    avx512_add_attention(k);
}

static const struct level {
    const char *name;
    unsigned features; /* all of them must be there */
    const char *needs;
    void (*set)(kernels *k);
} levels[] = {
    {"scalar", 0, "any x86-64", set_scalar},
    {"avx2", CPU_AVX2, "AVX2, FMA, F16C", set_avx2},
    {"avx512", CPU_AVX2 | CPU_AVX512, "AVX-512 F BW DQ VL, VNNI, VBMI", set_avx512},
};

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
        levels[i].set(out);
    out->level = levels[level].name;
}
