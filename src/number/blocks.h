/* blocks.h - the memory layouts of the block formats, as GGUF stores them: little-endian, of any alignment (hence
 * packed). The codecs of this folder and the kernels read the same structs.
 *
 * In the comments a value is what weight j of a block decodes to. float16 fields are called d (a scale) and minimum or
 * dmin (an offset). "nibbles of a half" means: byte i of a group of 16 holds value i of the group's 32 in its low nibble
 * and value i + 16 in its high nibble. */
#ifndef NUMBER_BLOCKS_H
#define NUMBER_BLOCKS_H

#include <stdint.h>

#define PACKED __attribute__((packed))

/* ---- one scale per block of 32 */

/* d * q[j] */
typedef struct PACKED block_q8_0 {
    uint16_t d;
    int8_t q[32];
} block_q8_0;

/* d * (q - 8); nibbles of a half */
typedef struct PACKED block_q4_0 {
    uint16_t d; /* negative where the largest magnitude is positive */
    uint8_t nibbles[16];
} block_q4_0;

/* d * q + minimum; nibbles of a half */
typedef struct PACKED block_q4_1 {
    uint16_t d, minimum;
    uint8_t nibbles[16];
} block_q4_1;

/* d * (q - 16); q has its lower four bits as nibbles of a half, its fifth in bit j of the 32 bits `high` */
typedef struct PACKED block_q5_0 {
    uint16_t d;
    uint8_t high[4];
    uint8_t nibbles[16];
} block_q5_0;

/* d * q + minimum; q as in Q5_0 */
typedef struct PACKED block_q5_1 {
    uint16_t d, minimum;
    uint8_t high[4];
    uint8_t nibbles[16];
} block_q5_1;

/* ---- K-quants: blocks of 256, integer scales of sub-blocks */

/* 16 sub-blocks of 16: d * (scales[s] & 15) * q - dmin * (scales[s] >> 4), q of 2 bits. Of each half (128 values) byte i
 * of 32 holds values i, i + 32, i + 64, i + 96, the first in its lowest bits. */
typedef struct PACKED block_q2_k {
    uint8_t scales[16];
    uint8_t q[64];
    uint16_t d, dmin;
} block_q2_k;

/* 16 sub-blocks of 16: d * (scale - 32) * (q - 4), q of 3 bits: the lower two lie as in Q2_K. The third one of value
 * 32 k + i is bit k of high[i] (for k in 0..7, all of the block). The scales of 6 bits: their lower four bits are the
 * low nibbles (scales 0..7) and the high ones (8..15) of bytes 0..7, their upper two of scale s are the bits 2 (s / 4)
 * and up of byte 8 + s % 4. */
typedef struct PACKED block_q3_k {
    uint8_t high[32];
    uint8_t low[64];
    uint8_t scales[12];
    uint16_t d;
} block_q3_k;

/* 8 sub-blocks of 32: d * scale * q - dmin * minimum, q of 4 bits. 32 bytes hold two sub-blocks, the first in the low
 * nibbles. Scales and minima of 6 bits: the low six bits of bytes 0..3 and 4..7 are the scales and minima of sub-blocks
 * 0..3. Their upper two bits are the upper two bits of the scales and minima of sub-blocks 4..7, whose lower four bits
 * are the low (scale) and high (minimum) nibbles of bytes 8..11. */
typedef struct PACKED block_q4_k {
    uint16_t d, dmin;
    uint8_t scales[12];
    uint8_t nibbles[128];
} block_q4_k;

/* As Q4_K with q of 5 bits: the fifth one of value i of sub-block s is bit s of high[i]. */
typedef struct PACKED block_q5_k {
    uint16_t d, dmin;
    uint8_t scales[12];
    uint8_t high[32];
    uint8_t nibbles[128];
} block_q5_k;

/* 16 sub-blocks of 16: d * scales[s] * (q - 32), q of 6 bits. Of each half (128 values) 64 bytes `low` hold the lower
 * four bits of values 0..63 in their low and of 64..127 in their high nibbles, and byte i of the 32 `high` holds the two
 * upper bits of values i, i + 32, i + 64, i + 96, the first in its lowest bits. */
typedef struct PACKED block_q6_k {
    uint8_t low[128], high[64];
    int8_t scales[16];
    uint16_t d;
} block_q6_k;

/* ---- 4 bits that number the values of a list */

/* The lists: IQ4_NL and IQ4_XS; the values of a 4-bit float (E2M1), times two. */
static const int8_t iq4_values[16] = {-127, -104, -83, -65, -49, -35, -22, -10, 1, 13, 25, 38, 53, 69, 89, 113};
static const int8_t float4_values[16] = {0, 1, 2, 3, 4, 6, 8, 12, 0, -1, -2, -3, -4, -6, -8, -12};

/* d * iq4_values[q]; nibbles of a half */
typedef struct PACKED block_iq4_nl {
    uint16_t d;
    uint8_t nibbles[16];
} block_iq4_nl;

/* 8 sub-blocks of 32: d * (scale - 32) * iq4_values[q]; 16 bytes per sub-block, nibbles of a half. The lower four bits of
 * scale s are a nibble of low_scales[s / 2] (the low one of even s), the upper two the bits 2 s and up of high_scales. */
typedef struct PACKED block_iq4_xs {
    uint16_t d, high_scales;
    uint8_t low_scales[4];
    uint8_t nibbles[128];
} block_iq4_xs;

/* 2^(exponent - 128) * float4_values[q]; nibbles of a half */
typedef struct PACKED block_mxfp4 {
    uint8_t exponent; /* E8M0; the list has doubled values, so the exponent is one less than 127 says */
    uint8_t nibbles[16];
} block_mxfp4;

/* 64 values, 4 sub-blocks of 16: s / 2 * float4_values[q], s the float of 7 bits in scales[k]: 4 bits exponent, 3 bits
 * fraction; 127 stands for 0 and the eighth bit for nothing. Byte i of a sub-block's 8 holds its values i and i + 8. */
typedef struct PACKED block_nvfp4 {
    uint8_t scales[4];
    uint8_t nibbles[32];
} block_nvfp4;

/* ---- two and three values */

/* 256 values, d * (q - 1), q in 0..2. Five to a byte: byte b is ceil(n * 256 / 243) of a number n of five digits to the
 * base of 3, the first value in the highest one, so digit k is the whole part of 3 * (b * 3^k mod 256) / 256. Bytes 0..31
 * of `five` hold values i, i + 32, ... i + 128, bytes 32..47 hold 160 + i, 176 + i, ... 224 + i; byte i of `four`
 * holds 240 + i, 244 + i, 248 + i, 252 + i, and its last digit is 0. */
typedef struct PACKED block_tq1_0 {
    uint8_t five[48];
    uint8_t four[4];
    uint16_t d;
} block_tq1_0;

/* 256 values, d * (q - 1), q of 2 bits, laid out as in Q2_K */
typedef struct PACKED block_tq2_0 {
    uint8_t q[64];
    uint16_t d;
} block_tq2_0;

/* 128 values: d where bit j of `bits` is set, else -d */
typedef struct PACKED block_q1_0 {
    uint16_t d;
    uint8_t bits[16];
} block_q1_0;

/* 64 values, d * (q - 1), q of 2 bits: byte i holds values 4 i to 4 i + 3, the first in its lowest bits */
typedef struct PACKED block_q2_0 {
    uint16_t d;
    uint8_t q[16];
} block_q2_0;

/* ---- coarse copies: 64 values. Numbers are packed so that words of the token's values meet bits at the same place:
 * value 4 j + k of a run lies in byte k of the run. */

/* d * (2 b - 1), b of one bit: a run is 32 values in four bytes, and bit j of its byte k is value 4 j + k */
typedef struct PACKED block_signs1 {
    uint16_t d;
    uint8_t bits[8];
} block_signs1;

/* d * (2 q - 3), q of two bits: a run is 16 values in four bytes, and bits 2 j and up of its byte k are value 4 j + k */
typedef struct PACKED block_levels2 {
    uint16_t d;
    uint8_t q[16];
} block_levels2;

/* ---- IQ: 256 values; indices into grids of codewords (grid_table.h). A group is 32 values, numbered g = 0..7. */

/* d * (2 s + 1) * (codeword value + delta): index 4 g + l has 8 lower bits in index[], 3 upper bits in bits 3 l and up of
 * high[g]; s is bits 12..14 of high[g], delta -1/8 where its bit 15 is set, else 1/8. */
typedef struct PACKED block_iq1_s {
    uint16_t d;
    uint8_t index[32];
    uint16_t high[8];
} block_iq1_s;

/* As IQ1_S with a scale for each 16 values: index 4 g + l has its upper 3 bits, and the sign of its delta above them,
 * in nibble l % 2 of high[2 g + l / 2]. Scale k of a group (its values 16 k and up) is bits 6 (g % 2) + 3 k and up of
 * scales[g / 2], of which the top four bits, together, are the float16 d (of scales[0] the lowest). */
typedef struct PACKED block_iq1_m {
    uint8_t index[32];
    uint8_t high[16];
    uint16_t scales[4];
} block_iq1_m;

/* d * (s + 1/2) / 4 * codeword value: each group has two words of 32 bits: four indices of 8 bits; four times 7 bits of
 * signs (grid_signs), from the lowest on, and s in the top four bits. */
typedef struct PACKED block_iq2_xxs {
    uint16_t d;
    uint32_t words[16];
} block_iq2_xxs;

/* The same with a scale for each 16 values, the low nibble of scales[g] for the first: a word per codeword of 8 values,
 * 9 bits index and 7 bits of signs above. */
typedef struct PACKED block_iq2_xs {
    uint16_t d;
    uint16_t words[32];
    uint8_t scales[8];
} block_iq2_xs;

/* The same with 8 bits of signs for each codeword and an index of 10 bits: index 4 g + l has 8 bits in index[], the upper
 * two in bits 2 l and up of high[g]. */
typedef struct PACKED block_iq2_s {
    uint16_t d;
    uint8_t index[32], signs[32], high[8];
    uint8_t scales[8];
} block_iq2_s;

/* d * (s + 1/2) / 2 * codeword value, codewords of 4 values: each group has 8 indices, and a word of four times 7 bits of
 * signs for 8 values, with s in its top four bits. */
typedef struct PACKED block_iq3_xxs {
    uint16_t d;
    uint8_t index[64];
    uint32_t words[8];
} block_iq3_xxs;

/* d * (2 s + 1) * codeword value, codewords of 4 values: index 8 g + l has 8 bits in index[], the ninth is bit l of
 * high[g]; signs[4 g + l] are those of 8 values; s is a nibble of scales[g / 2], the low one of even g. */
typedef struct PACKED block_iq3_s {
    uint16_t d;
    uint8_t index[64];
    uint8_t high[8];
    uint8_t signs[32];
    uint8_t scales[4];
} block_iq3_s;

#undef PACKED

#endif
