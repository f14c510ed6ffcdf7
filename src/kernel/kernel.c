/* kernel.c - the kernel sets of the files, the levels, and how a level's table is built from them.
 *
 * Each file has a partial table of kernels and needs some features. The table of a level is built by overlaying, in the
 * order of parts[], all partial tables whose features the level has. So a level is just a set of features, and it
 * inherits every kernel that no later file overrides.
 * To add a file of kernels: the file THING_SUFFIX.c, a row in parts[], the suffix's flags in CMakeLists.txt; for a new
 * feature a row in cpu.h and one in cpu_ARCHITECTURE.c; for a new level name a row in levels[]. kcheck and kbench go
 * through these tables. */
#include "kernel.h"

#include "../base/error.h"
#include "cpu.h"
#include "levels.h"

#include <stdio.h>
#include <stdlib.h>

#define X86_512  (CPU_AVX2 | CPU_AVX512)
#define X86_VBMI (X86_512 | CPU_AVX512_VNNI | CPU_AVX512_VBMI)
#define X86_BF16 (X86_VBMI | CPU_AVX512_BF16)

static const struct part {
    unsigned features; /* all are needed */
    const kernels *table;
} parts[] = {
    {0, &scalar_products},
    {0, &scalar_vectors},
    {0, &scalar_neurons},
    {0, &scalar_transposes},
#ifdef __x86_64__
    {CPU_AVX2, &avx2_floats},
    {CPU_AVX2, &avx2_blocks},
    {CPU_AVX2, &avx2_bytes},
    {CPU_AVX2, &avx2_copies},
    {CPU_AVX2, &avx2_vectors},
    {CPU_AVX2, &avx2_attention},
    {CPU_AVX2, &avx2_neurons},
    {CPU_AVX2, &avx2_transposes},
    {CPU_AVX2 | CPU_AVX_VNNI, &avxvnni_tiles},
    {X86_512, &avx512_floats},
    {X86_512, &avx512_blocks},
    {X86_512, &avx512_vectors},
    {X86_512, &avx512_attention},
    {X86_512, &avx512_neurons},
    {X86_512, &avx512_transposes},
    {X86_512 | CPU_AVX512_VNNI, &avx512vnni_blocks},
    {X86_512 | CPU_AVX512_VNNI, &avx512vnni_bytes},
    {X86_512 | CPU_AVX512_VNNI, &avx512vnni_copies},
    {X86_VBMI, &avx512vbmi_neurons},
    {X86_VBMI, &avx512vbmi_bytes},
    {X86_BF16, &avx512bf16_floats},
#elif defined(__aarch64__)
    {CPU_NEON, &neon_floats},    {CPU_NEON, &neon_blocks},  {CPU_NEON, &neon_vectors},
    {CPU_NEON, &neon_attention}, {CPU_NEON, &neon_neurons}, {CPU_NEON | CPU_DOTPROD, &dotprod_blocks},
#endif
};

/* Slowest first. By default a CPU uses the last level whose features it has. */
static const struct level {
    const char *name;
    unsigned features;
} levels[] = {
    {"scalar", 0},
#ifdef __x86_64__
    {"avx2", CPU_AVX2},
    {"avx2-vnni", CPU_AVX2 | CPU_AVX_VNNI},     /* Alder Lake and later clients */
    {"avx512", X86_512},                        /* Skylake-X */
    {"avx512-vnni", X86_512 | CPU_AVX512_VNNI}, /* Cascade Lake */
    {"avx512-vbmi", X86_VBMI},                  /* Ice Lake */
    {"avx512-bf16", X86_BF16},                  /* Zen 4, Sapphire Rapids, ... */
#elif defined(__aarch64__)
    {"neon", CPU_NEON},
    {"neon-dotprod", CPU_NEON | CPU_DOTPROD}, /* Cortex-A76, Neoverse N1, ... */
#endif
};

static bool within(unsigned features, unsigned of)
{
    return (features & of) == features;
}

/* Replaces the kernels of the table that `part` has too. */
static void overlay(kernels *k, const kernels *part)
{
#define TAKE(member) k->member = part->member ? part->member : k->member
    for (size_t f = 0; f < FORMAT_COUNT; f++) {
        TAKE(product[f]);
        TAKE(accumulate[f]);
        TAKE(accumulate_many[f]);
        TAKE(transpose[f]);
        TAKE(attend[f]);
        TAKE(attend_rows[f]);
        TAKE(score[f]);
    }
    for (size_t s = 0; s < SELECT_COUNT; s++)
        TAKE(select[s]);
    for (size_t a = 0; a < ACTIVATION_COUNT; a++)
        TAKE(activate[a]);
    for (size_t r = 0; r < ROPE_COUNT; r++)
        TAKE(rope[r]);
    TAKE(quantize);
    TAKE(rms_norm);
    TAKE(layer_norm);
    TAKE(add);
    TAKE(recur);
    TAKE(to_half);
    TAKE(to_bfloat);
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

unsigned kernel_level_features(size_t level)
{
    return levels[level].features;
}

bool kernel_level_present(size_t level)
{
    return within(levels[level].features, cpu_features());
}

size_t kernel_level_find(const char *name)
{
    size_t best = kernel_level_count();
    for (size_t i = 0; i < kernel_level_count(); i++)
        if (name ? strcmp(name, levels[i].name) == 0 : kernel_level_present(i))
            best = i;
    return best;
}

/* Reports why level `name` cannot be used, and lists the present levels. from: where the name comes from. */
static hearth_status refuse(const char *name, const char *from, const char *why, hearth_error *error)
{
    char available[128] = "";
    for (size_t i = 0, n = 0; i < kernel_level_count() && n < sizeof available; i++)
        if (kernel_level_present(i))
            n += (size_t)snprintf(available + n, sizeof available - n, "%s%s", i ? ", " : "", kernel_level_name(i));
    return fail(error, HEARTH_INVALID, "cpu level %s%s: %s; this machine has %s", name, from, why, available);
}

hearth_status kernel_level_choose(size_t *level, const char *name, hearth_error *error)
{
    const char *from = "";
    if (!name && (name = getenv("HEARTH_CPU")) != NULL) {
        from = " (HEARTH_CPU)";
        name = *name ? name : NULL;
    }
    *level = kernel_level_find(name);
    if (*level == kernel_level_count())
        return refuse(name, from, "is not known", error);
    if (kernel_level_present(*level))
        return HEARTH_OK;
    char names[CPU_NAMES_SIZE], why[CPU_NAMES_SIZE + 32];
    cpu_feature_names(names, levels[*level].features & ~cpu_features());
    snprintf(why, sizeof why, "this CPU lacks %s", names);
    return refuse(name, from, why, error);
}

void kernels_for(size_t level, kernels *out)
{
    *out = (kernels){0};
    for (size_t i = 0; i < sizeof(parts) / sizeof(*parts); i++)
        if (within(parts[i].features, levels[level].features))
            overlay(out, parts[i].table);
    out->level = levels[level].name;
}
