/* grid_table.c - the grids of the IQ formats: the codewords that a block's indices stand for, made by the compiler from
 * the lists of their numbers. */
#include "grid_table.h"

#include "grid_lists.h"

/* Byte j of a codeword: the value of number j. VALUE(n) is an expression of the number. */
#define EIGHT(numbers, VALUE)                                                                                \
    (PAIR(numbers, 0, VALUE) | PAIR(numbers, 1, VALUE) | PAIR(numbers, 2, VALUE) | PAIR(numbers, 3, VALUE) | \
     PAIR(numbers, 4, VALUE) | PAIR(numbers, 5, VALUE) | PAIR(numbers, 6, VALUE) | PAIR(numbers, 7, VALUE))
#define PAIR(numbers, j, VALUE) ((uint64_t)(uint8_t)VALUE((numbers) >> 2 * (j)&3) << 8 * (j))
#define FOUR(digits, VALUE) \
    (DIGIT(digits, 0, VALUE) | DIGIT(digits, 1, VALUE) | DIGIT(digits, 2, VALUE) | DIGIT(digits, 3, VALUE))
#define DIGIT(digits, j, VALUE) ((uint32_t)VALUE((digits) >> 3 * (j)&7) << 8 * (j))

#define VALUE_IQ1(n)     (8 * ((n)-1))
#define VALUE_IQ2(n)     (8 + 17 * (n) + (n) / 2)    /* 8, 25, 43 */
#define VALUE_IQ3_XXS(n) (4 + 8 * (n) + (n) / 7 * 2) /* 4, 12, ... 52, 62 */
#define VALUE_IQ3_S(n)   (2 * (n) + 1)

#define IQ1(numbers)    EIGHT(numbers, VALUE_IQ1)
#define IQ2(numbers)    EIGHT(numbers, VALUE_IQ2)
#define IQ3_XXS(digits) FOUR(digits, VALUE_IQ3_XXS)
#define IQ3_S(digits)   FOUR(digits, VALUE_IQ3_S)

const uint64_t grid_iq2_xxs[256] = {GRID_IQ2_XXS(IQ2)};
const uint64_t grid_iq2_xs[512] = {GRID_IQ2_XS(IQ2)};
const uint64_t grid_iq2_s[1024] = {GRID_IQ2_S(IQ2)};
const uint64_t grid_iq1[2048] = {GRID_IQ1(IQ1)};
const uint32_t grid_iq3_xxs[256] = {GRID_IQ3_XXS(IQ3_XXS)};
const uint32_t grid_iq3_s[512] = {GRID_IQ3_S(IQ3_S)};

/* Values j and j + 1 in the nibbles of a byte; numbers of values 0 to 3, or 4 to 7, in twos. */
#define NIBBLES(digits, j, VALUE) (VALUE((digits) >> 3 * (j)&7) | VALUE((digits) >> 3 * ((j) + 1) & 7) << 4)
#define NUMBER(n)                 (n)
#define NUMBERS_01(digits)        NIBBLES(digits, 0, NUMBER)
#define NUMBERS_23(digits)        NIBBLES(digits, 2, NUMBER)
#define VALUES_01(digits)         NIBBLES(digits, 0, VALUE_IQ3_S)
#define VALUES_23(digits)         NIBBLES(digits, 2, VALUE_IQ3_S)
#define FIRST_FOUR(numbers)       ((numbers)&255)
#define LAST_FOUR(numbers)        ((numbers) >> 8)

#define IN_TWO(LIST, FIRST, SECOND) \
    {                               \
        {LIST(FIRST)},              \
        {                           \
            LIST(SECOND)            \
        }                           \
    }

_Alignas(64) const uint8_t numbers_iq2_xxs[2][256] = IN_TWO(GRID_IQ2_XXS, FIRST_FOUR, LAST_FOUR);
_Alignas(64) const uint8_t numbers_iq2_xs[2][512] = IN_TWO(GRID_IQ2_XS, FIRST_FOUR, LAST_FOUR);
_Alignas(64) const uint8_t numbers_iq2_s[2][1024] = IN_TWO(GRID_IQ2_S, FIRST_FOUR, LAST_FOUR);
_Alignas(64) const uint8_t numbers_iq3_xxs[2][256] = IN_TWO(GRID_IQ3_XXS, NUMBERS_01, NUMBERS_23);
_Alignas(64) const uint8_t nibbles_iq3_s[2][512] = IN_TWO(GRID_IQ3_S, VALUES_01, VALUES_23);
