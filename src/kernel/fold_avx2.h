/* fold_avx2.h - sums of four registers at once, for the products of block formats. */
#ifndef KERNEL_FOLD_AVX2_H
#define KERNEL_FOLD_AVX2_H

#include "avx2.h"

/* Adds up each 128-bit half of four registers of 16-bit integers. The result holds the sums of the lower halves of
 * v[0], v[1], v[2], v[3], then those of the upper halves. Four neighbours must add up to 16 bits. So four registers
 * need only one conversion and one multiplication with scales. */
ALWAYS_INLINE __m256i fold_four(const __m256i v[4])
{
    const __m256i ones = _mm256_set1_epi16(1);
    __m256i pairs[4], fours[2];
    UNROLLED
    for (int i = 0; i < 4; i++)
        pairs[i] = _mm256_madd_epi16(v[i], ones);
    UNROLLED
    for (int i = 0; i < 2; i++)
        fours[i] = _mm256_madd_epi16(_mm256_packs_epi32(pairs[2 * i], pairs[2 * i + 1]), ones);
    return _mm256_madd_epi16(_mm256_packs_epi32(fours[0], fours[1]), ones);
}

/* The same where only two neighbours must add up to 16 bits. */
ALWAYS_INLINE __m256i fold_four_large(const __m256i v[4])
{
    const __m256i ones = _mm256_set1_epi16(1);
    __m256i pairs[4], fours[2];
    UNROLLED
    for (int i = 0; i < 4; i++)
        pairs[i] = _mm256_madd_epi16(v[i], ones);
    UNROLLED
    for (int i = 0; i < 2; i++)
        fours[i] = _mm256_madd_epi16(_mm256_packs_epi32(pairs[2 * i], pairs[2 * i + 1]), ones);
    return _mm256_hadd_epi32(fours[0], fours[1]);
}

/* The same for registers of 32-bit integers. */
ALWAYS_INLINE __m256i add_four(const __m256i v[4])
{
    return _mm256_hadd_epi32(_mm256_hadd_epi32(v[0], v[1]), _mm256_hadd_epi32(v[2], v[3]));
}

#endif
