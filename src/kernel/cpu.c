/* cpu.c - asks the CPU (CPUID) and the operating system (XGETBV).
 *
 * Both must agree: a CPU with AVX-512 under a system that does not save the wide registers on a
 * task switch would compute with another program's values. */
#include "cpu.h"

#include <cpuid.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

/* Bits of XCR0: which registers the system saves. */
#define SAVES_YMM 0x06u               /* SSE, AVX                                         */
#define SAVES_ZMM (SAVES_YMM | 0xe0u) /* and mask registers, upper halves, registers 16 up */

#define LEAF1_ECX        (bit_FMA | bit_OSXSAVE | bit_AVX | bit_F16C)
#define LEAF7_AVX512_EBX (bit_AVX512F | bit_AVX512BW | bit_AVX512DQ | bit_AVX512VL)
#define LEAF7_AVX512_ECX (bit_AVX512VBMI | bit_AVX512VNNI)

static uint32_t saved_registers(void)
{
    uint32_t low, high;
    __asm__ volatile("xgetbv" : "=a"(low), "=d"(high) : "c"(0));
    return low;
}

unsigned cpu_features(void)
{
    uint32_t a, b, c, d;
    if (!__get_cpuid(1, &a, &b, &c, &d) || (c & LEAF1_ECX) != LEAF1_ECX)
        return 0;
    uint32_t saved = saved_registers();
    if ((saved & SAVES_YMM) != SAVES_YMM || !__get_cpuid_count(7, 0, &a, &b, &c, &d) || !(b & bit_AVX2))
        return 0;
    bool wide = (saved & SAVES_ZMM) == SAVES_ZMM && (b & LEAF7_AVX512_EBX) == LEAF7_AVX512_EBX &&
                (c & LEAF7_AVX512_ECX) == LEAF7_AVX512_ECX;
    return wide ? CPU_AVX2 | CPU_AVX512 : CPU_AVX2;
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
