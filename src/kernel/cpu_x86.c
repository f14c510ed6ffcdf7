/* cpu_x86.c - asks the CPU (CPUID) and the operating system (XGETBV) for features.
 *
 * Both must support a feature: if the system does not save the wide registers at a task switch,
 * another program can overwrite them. */
#include "cpu.h"

#include <cpuid.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

/* Bits of XCR0: which registers the system saves. */
#define SAVES_YMM 0x06u               /* SSE, AVX                                         */
#define SAVES_ZMM (SAVES_YMM | 0xe0u) /* and mask registers, upper halves, registers 16 up */

/* The CPUID registers that are read: of leaf 1, leaf 7 subleaf 0, and leaf 7 subleaf 1. */
typedef enum answer { LEAF1_ECX, LEAF7_EBX, LEAF7_ECX, LEAF7_1_EAX, ANSWER_COUNT } answer;

/* A feature is present if all these bits are set and the system saves its registers. */
static const struct row {
    unsigned feature;
    uint32_t bits[ANSWER_COUNT];
    uint32_t saved;
} rows[] = {
    {CPU_AVX2, {[LEAF1_ECX] = bit_FMA | bit_AVX | bit_F16C, [LEAF7_EBX] = bit_AVX2}, SAVES_YMM},
    {CPU_AVX_VNNI, {[LEAF7_1_EAX] = bit_AVXVNNI}, SAVES_YMM},
    {CPU_AVX512, {[LEAF7_EBX] = bit_AVX512F | bit_AVX512BW | bit_AVX512DQ | bit_AVX512VL}, SAVES_ZMM},
    {CPU_AVX512_VNNI, {[LEAF7_ECX] = bit_AVX512VNNI}, SAVES_ZMM},
    {CPU_AVX512_VBMI, {[LEAF7_ECX] = bit_AVX512VBMI}, SAVES_ZMM},
    {CPU_AVX512_BF16, {[LEAF7_1_EAX] = bit_AVX512BF16}, SAVES_ZMM},
};

static uint32_t saved_registers(void)
{
    uint32_t low, high;
    __asm__ volatile("xgetbv" : "=a"(low), "=d"(high) : "c"(0));
    return low;
}

unsigned cpu_features(void)
{
    uint32_t a, b, c, d, found[ANSWER_COUNT] = {0};
    if (!__get_cpuid(1, &a, &b, &c, &d) || !(c & bit_OSXSAVE))
        return 0;
    found[LEAF1_ECX] = c;
    if (!__get_cpuid_count(7, 0, &a, &b, &c, &d))
        return 0;
    found[LEAF7_EBX] = b;
    found[LEAF7_ECX] = c;
    if (a >= 1 && __get_cpuid_count(7, 1, &a, &b, &c, &d)) /* eax of leaf 7 is the number of its last subleaf */
        found[LEAF7_1_EAX] = a;
    uint32_t saved = saved_registers();
    unsigned features = 0;
    for (size_t i = 0; i < sizeof(rows) / sizeof(*rows); i++) {
        bool present = (saved & rows[i].saved) == rows[i].saved;
        for (size_t k = 0; k < ANSWER_COUNT; k++)
            present = present && (found[k] & rows[i].bits[k]) == rows[i].bits[k];
        features |= present ? rows[i].feature : 0;
    }
#ifdef HEARTH_EMULATE /* a build for tests: these features are emulated in plain C */
    if (features & CPU_AVX2)
        features |= CPU_AVX_VNNI | CPU_AVX512 | CPU_AVX512_VNNI | CPU_AVX512_VBMI | CPU_AVX512_BF16;
#endif
    return features;
}

/* Measured (README.md, Several streams): Zen 5 reads four faster than eight, a Sapphire Rapids eight faster than four. Others have
 * not been compared, and get eight. */
unsigned cpu_streams(void)
{
    uint32_t a, b, c, d;
    char maker[12];
    if (!__get_cpuid(0, &a, &b, &c, &d))
        return 8;
    memcpy(maker, &b, 4), memcpy(maker + 4, &d, 4), memcpy(maker + 8, &c, 4);
    if (memcmp(maker, "AuthenticAMD", sizeof maker) != 0 || !__get_cpuid(1, &a, &b, &c, &d))
        return 8;
    uint32_t family =
        (a >> 8 & 0xf) + (a >> 20 & 0xff); /* AMD64 Architecture Programmer's Manual 3, CPUID function 1 */
    return family >= 0x1a ? 4 : 8;
}

bool cpu_brand(char *name, size_t size)
{
    uint32_t words[3][4];
    for (uint32_t i = 0; i < 3; i++)
        if (!__get_cpuid(0x80000002u + i, &words[i][0], &words[i][1], &words[i][2], &words[i][3]))
            return false;
    char text[sizeof(words) + 1] = {0};
    memcpy(text, words, sizeof(words));
    const char *start = text + strspn(text, " ");
    snprintf(name, size, "%s", start);
    return *start != '\0';
}
