/* float_formats.c - F32, F16 and BF16: formats whose blocks are one value. */
#include "codec.h"

void number_decode_F32(const void *blocks, float *values, size_t n)
{
    if (n > 0)
        memcpy(values, blocks, n * sizeof *values);
}

void number_encode_F32(const float *values, const float *importance, void *blocks, size_t n)
{
    (void)importance;
    if (n > 0)
        memcpy(blocks, values, n * sizeof *values);
}

/* Both sides may be misaligned, so values are copied by memcpy, which compilers turn into plain loads and stores. */
typedef float widen(uint16_t h);
typedef uint16_t to_16_bits(float f);

static inline void decode(const char *from, char *to, size_t n, widen *one)
{
    for (size_t i = 0; i < n; i++) {
        uint16_t h;
        memcpy(&h, from + i * sizeof h, sizeof h);
        float f = one(h);
        memcpy(to + i * sizeof f, &f, sizeof f);
    }
}

static inline void encode(const char *from, char *to, size_t n, to_16_bits *one)
{
    for (size_t i = 0; i < n; i++) {
        float f;
        memcpy(&f, from + i * sizeof f, sizeof f);
        uint16_t h = one(f);
        memcpy(to + i * sizeof h, &h, sizeof h);
    }
}

void number_decode_F16(const void *blocks, float *values, size_t n)
{
    decode(blocks, (char *)values, n, half_to_float);
}

void number_encode_F16(const float *values, const float *importance, void *blocks, size_t n)
{
    (void)importance;
    encode((const char *)values, blocks, n, half_from_float);
}

void number_decode_BF16(const void *blocks, float *values, size_t n)
{
    decode(blocks, (char *)values, n, bfloat_to_float);
}

void number_encode_BF16(const float *values, const float *importance, void *blocks, size_t n)
{
    (void)importance;
    encode((const char *)values, blocks, n, bfloat_from_float);
}
