/* cpu_arm.c - asks Linux what a 64-bit ARM CPU has: the hardware capabilities that every process gets, and the
 * identification register MIDR_EL1, which Linux lets programs read. */
#include "cpu.h"

#include <asm/hwcap.h>
#include <stdint.h>
#include <stdio.h>
#include <sys/auxv.h>

/* A feature is present if all these bits of AT_HWCAP are set. */
static const struct row {
    unsigned feature;
    unsigned long bits;
} rows[] = {
    {CPU_NEON, HWCAP_FP | HWCAP_ASIMD},
    {CPU_DOTPROD, HWCAP_ASIMDDP},
};

unsigned cpu_features(void)
{
    unsigned long found = getauxval(AT_HWCAP);
    unsigned features = 0;
    for (size_t i = 0; i < sizeof(rows) / sizeof(*rows); i++)
        features |= (found & rows[i].bits) == rows[i].bits ? rows[i].feature : 0;
    return features;
}

unsigned cpu_streams(void)
{
    return 8;
}

/* ---- names ---- */

/* Implementer and part numbers, from the section "MIDR_EL1, Main ID Register" of Arm's manuals of these CPUs. */
#define MADE_BY_ARM 0x41

static const struct part {
    unsigned maker, number;
    const char *name;
} parts[] = {
    {MADE_BY_ARM, 0xd03, "Cortex-A53"},  {MADE_BY_ARM, 0xd04, "Cortex-A35"},  {MADE_BY_ARM, 0xd05, "Cortex-A55"},
    {MADE_BY_ARM, 0xd07, "Cortex-A57"},  {MADE_BY_ARM, 0xd08, "Cortex-A72"},  {MADE_BY_ARM, 0xd09, "Cortex-A73"},
    {MADE_BY_ARM, 0xd0a, "Cortex-A75"},  {MADE_BY_ARM, 0xd0b, "Cortex-A76"},  {MADE_BY_ARM, 0xd0c, "Neoverse-N1"},
    {MADE_BY_ARM, 0xd40, "Neoverse-V1"}, {MADE_BY_ARM, 0xd41, "Cortex-A78"},  {MADE_BY_ARM, 0xd44, "Cortex-X1"},
    {MADE_BY_ARM, 0xd49, "Neoverse-N2"}, {MADE_BY_ARM, 0xd4f, "Neoverse-V2"},
};

/* ARM CPUs do not report a name, so it is looked up by number; a CPU that is not in the table gets its numbers. */
bool cpu_brand(char *name, size_t size)
{
    uint64_t id;
    if (!(getauxval(AT_HWCAP) & HWCAP_CPUID))
        return false;
    __asm__("mrs %0, MIDR_EL1" : "=r"(id));
    unsigned maker = (unsigned)(id >> 24 & 0xff), number = (unsigned)(id >> 4 & 0xfff);
    for (size_t i = 0; i < sizeof(parts) / sizeof(*parts); i++)
        if (parts[i].maker == maker && parts[i].number == number) {
            snprintf(name, size, "%s", parts[i].name);
            return true;
        }
    snprintf(name, size, "ARM CPU, maker 0x%02x, part 0x%03x", maker, number);
    return true;
}
