/* fake_ptx_operations.c - what instructions of PTX compute of their operands. */
#include "fake_ptx_module.h"

#include "../src/number/half.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

static uint32_t bits_of(float f)
{
    uint32_t bits;
    memcpy(&bits, &f, sizeof bits);
    return bits;
}

static float float_of(uint64_t word)
{
    uint32_t bits = (uint32_t)word;
    float f;
    memcpy(&f, &bits, sizeof f);
    return f;
}

/* Takes the bytes that a selector names from the eight of two words. */
static uint32_t permuted(uint32_t a, uint32_t b, uint32_t selector)
{
    uint64_t both = (uint64_t)b << 32 | a;
    uint32_t out = 0;
    for (unsigned i = 0; i < 4; i++)
        out |= (uint32_t)(both >> 8 * (selector >> 4 * i & 7) & 255) << 8 * i;
    return out;
}

static uint32_t dot_of_bytes(uint32_t a, uint32_t b, uint32_t sum)
{
    for (unsigned i = 0; i < 4; i++)
        sum += (uint32_t)((int8_t)(a >> 8 * i) * (int8_t)(b >> 8 * i));
    return sum;
}

static uint32_t inserted(uint64_t a, uint64_t b, unsigned at, unsigned count)
{
    uint32_t mask = (count < 32 ? (1u << count) - 1 : 0xffffffffu) << at;
    return ((uint32_t)a << at & mask) | ((uint32_t)b & ~mask);
}

static int32_t truncated(float f)
{
    return f != f ? 0 : f >= 2147483648.0f ? INT32_MAX : f <= -2147483648.0f ? INT32_MIN : (int32_t)f;
}

/* X(name, with _ for each point; what it computes of the words a, b, c and d) */
#define F(word)     float_of(word)
#define U(word)     ((uint32_t)(word))
#define S(word)     ((int32_t)(uint32_t)(word))
#define H(word)     ((uint16_t)(word))
#define SHIFT(word) ((uint32_t)(word) < 32 ? (uint32_t)(word) : 32)
// clang-format off
#define OPERATIONS(X)                                                                                              \
    X(mov_b32, U(a)) X(mov_u32, U(a)) X(mov_f32, U(a)) X(mov_u64, a) X(mov_b64, a) X(mov_pred, a) X(mov_u16, H(a)) \
    X(mov_b16, H(a)) X(mov_s32, U(a)) X(add_s32, U(a) + U(b)) X(add_u32, U(a) + U(b)) X(add_s64, a + b)            \
    X(add_u64, a + b) X(sub_s32, U(a) - U(b)) X(sub_u32, U(a) - U(b)) X(sub_s64, a - b) X(sub_u64, a - b)          \
    X(add_f32, bits_of(F(a) + F(b))) X(sub_f32, bits_of(F(a) - F(b))) X(mul_f32, bits_of(F(a) * F(b)))             \
    X(add_rn_f32, bits_of(F(a) + F(b))) X(sub_rn_f32, bits_of(F(a) - F(b))) X(mul_rn_f32, bits_of(F(a) * F(b)))    \
    X(div_rn_f32, bits_of(F(a) / F(b))) X(fma_rn_f32, bits_of(fmaf(F(a), F(b), F(c))))                             \
    X(sqrt_rn_f32, bits_of(sqrtf(F(a)))) X(ex2_approx_f32, bits_of(exp2f(F(a)))) X(neg_f32, U(a) ^ 0x80000000u)    \
    X(abs_f32, U(a) & 0x7fffffffu) X(max_f32, bits_of(fmaxf(F(a), F(b)))) X(min_f32, bits_of(fminf(F(a), F(b))))   \
    X(mul_lo_s32, U(a) * U(b)) X(mul_lo_u32, U(a) * U(b)) X(mul_lo_s64, a *b) X(mul_lo_u64, a *b)                  \
    X(mul_lo_s16, H(U(a) * U(b))) X(mul_lo_u16, H(U(a) * U(b))) X(mul_wide_u32, (uint64_t)U(a) * U(b))             \
    X(mul_wide_s32, (uint64_t)((int64_t)S(a) * S(b))) X(mul_wide_u16, (uint32_t)H(a) * H(b))                       \
    X(mul_hi_u32, U((uint64_t)U(a) * U(b) >> 32)) X(mad_lo_s32, U(a) * U(b) + U(c))                                \
    X(mad_lo_u32, U(a) * U(b) + U(c)) X(mad_lo_s64, a *b + c) X(mad_wide_u32, (uint64_t)U(a) * U(b) + c)           \
    X(div_u32, U(b) ? U(a) / U(b) : 0xffffffffu) X(rem_u32, U(b) ? U(a) % U(b) : U(a))                             \
    X(div_u64, b ? a / b : UINT64_MAX) X(rem_u64, b ? a % b : a) X(div_u16, H(b) ? (uint32_t)H(a) / H(b) : 0xffffu)          \
    X(rem_u16, H(b) ? (uint32_t)H(a) % H(b) : H(a)) X(min_u32, U(a) < U(b) ? U(a) : U(b))                                    \
    X(max_u32, U(a) > U(b) ? U(a) : U(b)) X(min_s32, S(a) < S(b) ? U(a) : U(b))                                    \
    X(max_s32, S(a) > S(b) ? U(a) : U(b)) X(and_b32, U(a) & U(b)) X(or_b32, U(a) | U(b)) X(xor_b32, U(a) ^ U(b))   \
    X(not_b32, ~U(a)) X(and_b64, a &b) X(or_b64, a | b) X(xor_b64, a ^ b) X(not_b64, ~a) X(and_b16, H(a &b))       \
    X(or_b16, H(a | b)) X(xor_b16, H(a ^ b)) X(not_b16, H(~a)) X(and_pred, a &b) X(or_pred, a | b)                 \
    X(xor_pred, a ^ b) X(not_pred, !a) X(shl_b32, U((uint64_t)U(a) << SHIFT(b)))                                   \
    X(shr_u32, U((uint64_t)U(a) >> SHIFT(b))) X(shr_s32, U((uint64_t)((int64_t)S(a) >> SHIFT(b))))                 \
    X(shl_b16, H(U(a) << (U(b) & 31))) X(shr_u16, H(H(a) >> (U(b) & 31)))                                          \
    X(shr_s16, H((int16_t)H(a) >> (U(b) & 31))) X(shl_b64, U(b) < 64 ? a << U(b) : 0)                              \
    X(shr_u64, U(b) < 64 ? a >> U(b) : 0) X(shr_s64, (uint64_t)((int64_t)a >> (U(b) & 63))) X(neg_s32, 0u - U(a))  \
    X(neg_s16, H(0u - U(a))) X(add_s16, H(a + b)) X(sub_s16, H(a - b)) X(selp_f32, c ? U(a) : U(b))                \
    X(selp_b32, c ? U(a) : U(b)) X(selp_u32, c ? U(a) : U(b)) X(selp_s32, c ? U(a) : U(b)) X(selp_b64, c ? a : b)  \
    X(selp_u16, c ? H(a) : H(b)) X(selp_b16, c ? H(a) : H(b)) X(selp_u64, c ? a : b) X(selp_s64, c ? a : b)        \
    X(setp_eq_s32, U(a) == U(b)) X(setp_ne_s32, U(a) != U(b)) X(setp_eq_b32, U(a) == U(b))                         \
    X(setp_eq_u32, U(a) == U(b)) X(setp_ne_u32, U(a) != U(b)) X(setp_ne_b32, U(a) != U(b))                         \
    X(setp_lt_u32, U(a) < U(b)) X(setp_le_u32, U(a) <= U(b)) X(setp_gt_u32, U(a) > U(b))                           \
    X(setp_ge_u32, U(a) >= U(b)) X(setp_lt_s32, S(a) < S(b)) X(setp_le_s32, S(a) <= S(b))                          \
    X(setp_gt_s32, S(a) > S(b)) X(setp_ge_s32, S(a) >= S(b)) X(setp_eq_s64, a == b) X(setp_ne_s64, a != b)         \
    X(setp_eq_b64, a == b) X(setp_lt_u64, a < b) X(setp_gt_u64, a > b) X(setp_le_u64, a <= b)                      \
    X(setp_ge_u64, a >= b) X(setp_ne_u64, a != b) X(setp_eq_u64, a == b) X(setp_eq_s16, H(a) == H(b))              \
    X(setp_ne_s16, H(a) != H(b)) X(setp_eq_b16, H(a) == H(b)) X(setp_lt_u16, H(a) < H(b))                          \
    X(setp_gt_u16, H(a) > H(b)) X(setp_eq_f32, F(a) == F(b)) X(setp_lt_f32, F(a) < F(b))                           \
    X(setp_le_f32, F(a) <= F(b)) X(setp_gt_f32, F(a) > F(b)) X(setp_ge_f32, F(a) >= F(b))                          \
    X(setp_ne_f32, F(a) < F(b) || F(a) > F(b)) X(setp_neu_f32, !(F(a) == F(b))) X(setp_ltu_f32, !(F(a) >= F(b)))   \
    X(setp_leu_f32, !(F(a) > F(b))) X(setp_gtu_f32, !(F(a) <= F(b))) X(setp_geu_f32, !(F(a) < F(b)))               \
    X(setp_equ_f32, !(F(a) < F(b) || F(a) > F(b))) X(setp_num_f32, F(a) == F(a) && F(b) == F(b))                   \
    X(setp_nan_f32, F(a) != F(a) || F(b) != F(b)) X(cvt_u64_u32, U(a)) X(cvt_s64_s32, (uint64_t)(int64_t)S(a))     \
    X(cvt_u32_u64, U(a)) X(cvt_u16_u32, H(a)) X(cvt_u32_u16, H(a)) X(cvt_s32_s16, U((int16_t)H(a)))                \
    X(cvt_s16_s8, H((int16_t)(int8_t)a)) X(cvt_s32_s8, U((int32_t)(int8_t)a)) X(cvt_u64_u16, H(a))                 \
    X(cvt_u32_u8, U(a) & 255u) X(cvt_u16_u64, H(a)) X(cvt_u8_u32, U(a) & 255u)                                     \
    X(cvt_rn_f32_s32, bits_of((float)S(a))) X(cvt_rn_f32_u32, bits_of((float)U(a)))                               \
    X(cvt_rn_f32_s16, bits_of((float)(int16_t)H(a))) X(cvt_rn_f32_u16, bits_of((float)H(a)))                      \
    X(cvt_rn_f32_s8, bits_of((float)(int8_t)a)) X(cvt_rzi_s32_f32, U(truncated(F(a))))                             \
    X(cvt_rni_f32_f32, bits_of(rintf(F(a)))) X(cvt_f32_f16, bits_of(half_to_float(H(a))))                          \
    X(cvt_rn_f16_f32, half_from_float(F(a))) X(dp4a_s32_s32, dot_of_bytes(U(a), U(b), U(c)))                       \
    X(prmt_b32, permuted(U(a), U(b), U(c)))                                                                        \
    X(bfe_u32, U(b) < 32 ? U(a) >> U(b) & (U(c) < 32 ? (1u << U(c)) - 1 : 0xffffffffu) : 0)                        \
    X(bfi_b32, inserted(a, b, U(c), U(d))) X(cvta_to_global_u64, a) X(cvta_global_u64, a)                          \
    X(cvta_shared_u64, a + shared_window) X(cvta_to_shared_u64, a - shared_window)                                 \
    X(cvta_local_u64, a + local_window) X(cvta_to_local_u64, a - local_window)
// clang-format on

/* A loop over all lanes is one that compilers vectorise. */
#define X(name, value)                                                                                               \
    static inline __attribute__((always_inline)) uint64_t one_##name(uint64_t a, uint64_t b, uint64_t c, uint64_t d) \
    {                                                                                                                \
        (void)a, (void)b, (void)c, (void)d;                                                                          \
        return (uint64_t)(value);                                                                                    \
    }                                                                                                                \
    static void do_##name(uint64_t *to, const uint64_t *const of[MOST_OPERANDS], uint32_t active)                    \
    {                                                                                                                \
        const uint64_t *a = of[0], *b = of[1], *c = of[2], *d = of[3];                                               \
        for (unsigned i = 0; i < WARP && active == UINT32_MAX; i++)                                                  \
            to[i] = one_##name(a[i], b[i], c[i], d[i]);                                                              \
        for (; active != UINT32_MAX && active; active &= active - 1) {                                               \
            unsigned i = (unsigned)__builtin_ctz(active);                                                            \
            to[i] = one_##name(a[i], b[i], c[i], d[i]);                                                              \
        }                                                                                                            \
    }
OPERATIONS(X)
#undef X

static const struct operation {
    const char *name;
    compute *compute;
} operations[] = {
#define X(name, value) {#name, do_##name},
    OPERATIONS(X)
#undef X
};

compute *ptx_operation(const char *opcode)
{
    char name[NAME];
    snprintf(name, sizeof name, "%s", opcode);
    for (char *c = name; *c; c++)
        *c = *c == '.' ? '_' : *c;
    for (size_t i = 0; i < sizeof operations / sizeof *operations; i++)
        if (strcmp(operations[i].name, name) == 0)
            return operations[i].compute;
    return NULL;
}
