/* immintrin.h - AVX-512 F BW DQ VL, VNNI, VBMI and BF16 in plain C, for machines that lack them: what the kernels use of it,
 * each by its definition in Intel's manual, one lane after the other. AVX2, FMA and F16C are the machine's own.
 *
 * A build with HEARTH_EMULATE finds this file in place of the compiler's header of that name, so the kernels' sources
 * stay as they are and kcheck can hold every level against scalar on any machine with AVX2. Slow, and for tests alone.
 * What is undefined is filled with a pattern, what must be aligned is checked, and what a mask hides is not touched.
 *
 * An intrinsic that is missing is a compile error ("target specific option mismatch"): add its definition below. They
 * are macros because the compiler's header has claimed the names. */
#ifndef EMULATE_IMMINTRIN_H
#define EMULATE_IMMINTRIN_H

#include_next <immintrin.h>

#include <math.h>
#include <stdint.h>
#include <string.h>

#pragma GCC diagnostic ignored "-Wshadow" /* macros within macros */
#pragma GCC diagnostic ignored "-Wconversion"
#pragma GCC diagnostic ignored "-Wsign-conversion"

/* A register of 512 bits by its lanes. */
typedef union emulated {
    __m512 ps;
    __m512d pd;
    __m512i si;
    __m256 half_ps[2];
    __m256i half[2];
    __m128 quarter_ps[4];
    __m128i quarter[4];
    float f[16];
    int8_t b[64];
    uint8_t ub[64];
    int16_t w[32];
    uint16_t uw[32];
    int32_t d[16];
    uint32_t ud[16];
    int64_t q[8];
    uint64_t uq[8];
} emulated;

/* The result has `count` lanes `of`, each `value`: an expression of its number i and of the lanes of A, B and C, which
 * hold the operands x, y and z. `as` is the register's type, a member of `lanes`. */
#define MAP(as, of, count, from_x, x, from_y, y, from_z, z, value)                 \
    ({                                                                             \
        emulated A = {.from_x = (x)}, B = {.from_y = (y)}, C = {.from_z = (z)}, R; \
        (void)A, (void)B, (void)C;                                                 \
        for (int i = 0; i < (count); i++)                                          \
            R.of[i] = (value);                                                     \
        R.as;                                                                      \
    })
#define MAP_PS(x, y, z, value)            MAP(ps, f, 16, ps, x, ps, y, ps, z, value)
#define MAP_SI(of, count, x, y, z, value) MAP(si, of, count, si, x, si, y, si, z, value)
#define NO_PS                             ((__m512){0})
#define NO_SI                             ((__m512i){0})

/* Bits as another type; what is undefined is 0xa5. */
#define AS(to, from, x) (((emulated){.from = (x)}).to)
#define WIDEN(to, from, x)          \
    ({                              \
        emulated R;                 \
        memset(&R, 0xa5, sizeof R); \
        R.from[0] = (x);            \
        R.to;                       \
    })

/* ---- constants and casts ---- */

#define _mm512_setzero_ps()    NO_PS
#define _mm512_setzero_si512() NO_SI
#define _mm512_set1_ps(x)               \
    ({                                  \
        float S = (x);                  \
        MAP_PS(NO_PS, NO_PS, NO_PS, S); \
    })
#define SET1(of, count, x)                          \
    ({                                              \
        __typeof__(((emulated *)0)->of[0]) S = (x); \
        MAP_SI(of, count, NO_SI, NO_SI, NO_SI, S);  \
    })
#define _mm512_set1_epi8(x)  SET1(b, 64, x)
#define _mm512_set1_epi16(x) SET1(w, 32, x)
#define _mm512_set1_epi32(x) SET1(d, 16, x)
#define _mm512_set1_epi64(x) SET1(q, 8, x)
#define REVERSED(as, of, n, ...) \
    MAP(as, of, n, si, NO_SI, si, NO_SI, si, NO_SI, ((__typeof__(A.of[0])[]){__VA_ARGS__})[n - 1 - i])
#define _mm512_set_ps(...)    REVERSED(ps, f, 16, __VA_ARGS__)
#define _mm512_set_epi32(...) REVERSED(si, d, 16, __VA_ARGS__)
#define _mm512_set_epi64(...) REVERSED(si, q, 8, __VA_ARGS__)

#define _mm512_castps_pd(x)       AS(pd, ps, x)
#define _mm512_castpd_ps(x)       AS(ps, pd, x)
#define _mm512_castps_si512(x)    AS(si, ps, x)
#define _mm512_castsi512_ps(x)    AS(ps, si, x)
#define _mm512_castps512_ps256(x) AS(half_ps[0], ps, x)
#define _mm512_castsi512_si256(x) AS(half[0], si, x)
#define _mm512_castsi512_si128(x) AS(quarter[0], si, x)
#define _mm512_castps128_ps512(x) WIDEN(ps, quarter_ps, x)
#define _mm512_castsi128_si512(x) WIDEN(si, quarter, x)
#define _mm512_castps256_ps512(x) WIDEN(ps, half_ps, x)
#define _mm512_castsi256_si512(x) WIDEN(si, half, x)
#define _mm512_zextsi256_si512(x)   \
    ({                              \
        emulated R = {.si = NO_SI}; \
        R.half[0] = (x);            \
        R.si;                       \
    })

/* ---- memory ---- */

#define LOAD(as, at)                \
    ({                              \
        emulated R;                 \
        memcpy(&R, (at), sizeof R); \
        R.as;                       \
    })
#define STORE(as, at, x)            \
    ({                              \
        emulated A = {.as = (x)};   \
        memcpy((at), &A, sizeof A); \
    })
#define ALIGNED(at)                                      \
    ({                                                   \
        void *P = (void *)(uintptr_t)(at);               \
        (uintptr_t) P % 64 ? __builtin_trap() : (void)0; \
        P;                                               \
    })
#define LOAD_MASKED(R, of, count, mask, at)                                    \
    ({                                                                         \
        uint64_t M = (mask);                                                   \
        const char *P = (const void *)(at);                                    \
        for (int i = 0; i < (count); i++)                                      \
            if (M >> i & 1)                                                    \
                memcpy(&R.of[i], P + i * (int)sizeof R.of[i], sizeof R.of[i]); \
    })
#define STORE_MASKED(A, of, count, mask, at)                                   \
    ({                                                                         \
        uint64_t M = (mask);                                                   \
        char *P = (void *)(at);                                                \
        for (int i = 0; i < (count); i++)                                      \
            if (M >> i & 1)                                                    \
                memcpy(P + i * (int)sizeof A.of[i], &A.of[i], sizeof A.of[i]); \
    })
#define LOAD_ZEROED(as, of, count, mask, at) \
    ({                                       \
        emulated R = {.si = NO_SI};          \
        LOAD_MASKED(R, of, count, mask, at); \
        R.as;                                \
    })
#define STORE_SOME(from, of, count, at, mask, x) \
    ({                                           \
        emulated A = {.from = (x)};              \
        STORE_MASKED(A, of, count, mask, at);    \
    })

#define _mm512_loadu_ps(at)             LOAD(ps, at)
#define _mm512_loadu_si512(at)          LOAD(si, at)
#define _mm512_load_ps(at)              LOAD(ps, ALIGNED(at))
#define _mm512_load_si512(at)           LOAD(si, ALIGNED(at))
#define _mm512_storeu_ps(at, x)         STORE(ps, at, x)
#define _mm512_storeu_si512(at, x)      STORE(si, at, x)
#define _mm512_store_ps(at, x)          STORE(ps, ALIGNED(at), x)
#define _mm512_stream_ps(at, x)         STORE(ps, ALIGNED(at), x)
#define _mm512_store_si512(at, x)       STORE(si, ALIGNED(at), x)
#define _mm512_maskz_loadu_ps(m, at)    LOAD_ZEROED(ps, f, 16, m, at)
#define _mm512_maskz_loadu_epi8(m, at)  LOAD_ZEROED(si, b, 64, m, at)
#define _mm512_maskz_loadu_epi16(m, at) LOAD_ZEROED(si, w, 32, m, at)
#define _mm512_maskz_loadu_epi32(m, at) LOAD_ZEROED(si, d, 16, m, at)
#define _mm256_maskz_loadu_epi16(m, at) LOAD_ZEROED(half[0], w, 16, m, at)
#define _mm_maskz_loadu_ps(m, at)       LOAD_ZEROED(quarter_ps[0], f, 4, m, at)
#define _mm512_mask_loadu_ps(x, m, at) \
    ({                                 \
        emulated R = {.ps = (x)};      \
        LOAD_MASKED(R, f, 16, m, at);  \
        R.ps;                          \
    })
#define _mm512_mask_storeu_ps(at, m, x)    STORE_SOME(ps, f, 16, at, m, x)
#define _mm512_mask_storeu_epi32(at, m, x) STORE_SOME(si, d, 16, at, m, x)
#define _mm256_mask_storeu_ps(at, m, x)    STORE_SOME(half_ps[0], f, 8, at, m, x)
#define _mm256_mask_storeu_epi16(at, m, x) STORE_SOME(half[0], w, 16, at, m, x)

/* ---- floats ---- */

#define _mm512_add_ps(x, y)         MAP_PS(x, y, NO_PS, A.f[i] + B.f[i])
#define _mm512_sub_ps(x, y)         MAP_PS(x, y, NO_PS, A.f[i] - B.f[i])
#define _mm512_mul_ps(x, y)         MAP_PS(x, y, NO_PS, A.f[i] * B.f[i])
#define _mm512_div_ps(x, y)         MAP_PS(x, y, NO_PS, A.f[i] / B.f[i])
#define _mm512_min_ps(x, y)         MAP_PS(x, y, NO_PS, A.f[i] < B.f[i] ? A.f[i] : B.f[i])
#define _mm512_max_ps(x, y)         MAP_PS(x, y, NO_PS, A.f[i] > B.f[i] ? A.f[i] : B.f[i])
#define _mm512_abs_ps(x)            MAP_PS(x, NO_PS, NO_PS, fabsf(A.f[i]))
#define _mm512_fmadd_ps(x, y, z)    MAP_PS(x, y, z, fmaf(A.f[i], B.f[i], C.f[i]))
#define _mm512_fmsub_ps(x, y, z)    MAP_PS(x, y, z, fmaf(A.f[i], B.f[i], -C.f[i]))
#define _mm512_fnmadd_ps(x, y, z)   MAP_PS(x, y, z, fmaf(-A.f[i], B.f[i], C.f[i]))
#define _mm512_fmaddsub_ps(x, y, z) MAP_PS(x, y, z, fmaf(A.f[i], B.f[i], i % 2 ? C.f[i] : -C.f[i]))
#define _mm512_roundscale_ps(x, mode) \
    MAP_PS(x, NO_PS, NO_PS, (mode) == _MM_FROUND_TO_NEAREST_INT ? rintf(A.f[i]) : (__builtin_trap(), 0.0f))
#define _mm512_scalef_ps(x, y) \
    MAP_PS(x, y, NO_PS, isnan(B.f[i]) ? B.f[i] : (float)ldexp(A.f[i], (int)fmax(-2000, fmin(2000, floor(B.f[i])))))
#define _mm512_mask_add_ps(x, m, y, z)                          \
    ({                                                          \
        uint32_t M = (m);                                       \
        MAP_PS(x, y, z, M >> i & 1 ? B.f[i] + C.f[i] : A.f[i]); \
    })
#define _mm512_maskz_mul_ps(m, x, y)                           \
    ({                                                         \
        uint32_t M = (m);                                      \
        MAP_PS(x, y, NO_PS, M >> i & 1 ? A.f[i] * B.f[i] : 0); \
    })
#define _mm512_maskz_mov_ps(m, x)                         \
    ({                                                    \
        uint32_t M = (m);                                 \
        MAP_PS(x, NO_PS, NO_PS, M >> i & 1 ? A.f[i] : 0); \
    })
#define REDUCE(from, x, T, start, of, sum) \
    ({                                     \
        emulated A = {.from = (x)};        \
        T S = (start);                     \
        for (int i = 0; i < 16; i++)       \
            S = (sum);                     \
        S;                                 \
    })
#define _mm512_reduce_add_ps(x)    REDUCE(ps, x, float, 0, f, S + A.f[i])
#define _mm512_reduce_max_ps(x)    REDUCE(ps, x, float, A.f[0], f, S > A.f[i] ? S : A.f[i])
#define _mm512_reduce_add_epi32(x) REDUCE(si, x, int32_t, 0, d, S + A.d[i])
#define _mm512_reduce_max_epu32(x) REDUCE(si, x, uint32_t, 0, ud, S > A.ud[i] ? S : A.ud[i])

/* The predicates that are used. */
static inline unsigned emulated_compare(__m512 x, __m512 y, int predicate)
{
    emulated a = {.ps = x}, b = {.ps = y};
    unsigned mask = 0;
    for (int i = 0; i < 16; i++) {
        int truth = predicate == _CMP_GT_OQ    ? a.f[i] > b.f[i]
                    : predicate == _CMP_NEQ_UQ ? !(a.f[i] == b.f[i])
                    : predicate == _CMP_NLT_UQ ? !(a.f[i] < b.f[i])
                    : predicate == _CMP_NLE_UQ ? !(a.f[i] <= b.f[i])
                                               : (__builtin_trap(), 0);
        mask |= (unsigned)truth << i;
    }
    return mask;
}
#define _mm512_cmp_ps_mask(x, y, predicate) ((__mmask16)emulated_compare(x, y, predicate))

/* ---- integers ---- */

#define CLAMP(x, least, most)    ((x) < (least) ? (least) : (x) > (most) ? (most) : (x))
#define PRODUCT_UB_B(k)          (A.ub[k] * B.b[k])
#define _mm512_and_si512(x, y)   MAP_SI(uq, 8, x, y, NO_SI, A.uq[i] & B.uq[i])
#define _mm512_or_si512(x, y)    MAP_SI(uq, 8, x, y, NO_SI, A.uq[i] | B.uq[i])
#define _mm512_xor_si512(x, y)   MAP_SI(uq, 8, x, y, NO_SI, A.uq[i] ^ B.uq[i])
#define _mm512_add_epi8(x, y)    MAP_SI(ub, 64, x, y, NO_SI, A.ub[i] + B.ub[i])
#define _mm512_add_epi16(x, y)   MAP_SI(uw, 32, x, y, NO_SI, A.uw[i] + B.uw[i])
#define _mm512_add_epi32(x, y)   MAP_SI(ud, 16, x, y, NO_SI, A.ud[i] + B.ud[i])
#define _mm512_add_epi64(x, y)   MAP_SI(uq, 8, x, y, NO_SI, A.uq[i] + B.uq[i])
#define _mm512_sub_epi8(x, y)    MAP_SI(ub, 64, x, y, NO_SI, A.ub[i] - B.ub[i])
#define _mm512_sub_epi32(x, y)   MAP_SI(ud, 16, x, y, NO_SI, A.ud[i] - B.ud[i])
#define _mm512_mullo_epi32(x, y) MAP_SI(ud, 16, x, y, NO_SI, A.ud[i] * B.ud[i])
#define _mm512_max_epu32(x, y)   MAP_SI(ud, 16, x, y, NO_SI, A.ud[i] > B.ud[i] ? A.ud[i] : B.ud[i])
#define _mm512_abs_epi8(x)       MAP_SI(ub, 64, x, NO_SI, NO_SI, A.b[i] < 0 ? -A.b[i] : A.b[i])
#define _mm512_slli_epi32(x, n)  MAP_SI(ud, 16, x, NO_SI, NO_SI, A.ud[i] << (n))
#define _mm512_srli_epi32(x, n)  MAP_SI(ud, 16, x, NO_SI, NO_SI, A.ud[i] >> (n))
#define _mm512_slli_epi16(x, n)  MAP_SI(uw, 32, x, NO_SI, NO_SI, A.uw[i] << (n))
#define _mm512_srli_epi16(x, n)  MAP_SI(uw, 32, x, NO_SI, NO_SI, A.uw[i] >> (n))
#define _mm512_sllv_epi64(x, y)  MAP_SI(uq, 8, x, y, NO_SI, B.uq[i] > 63 ? 0 : A.uq[i] << B.uq[i])
#define _mm512_srlv_epi64(x, y)  MAP_SI(uq, 8, x, y, NO_SI, B.uq[i] > 63 ? 0 : A.uq[i] >> B.uq[i])
#define _mm512_madd_epi16(x, y) \
    MAP_SI(ud, 16, x, y, NO_SI, (uint32_t)(A.w[2 * i] * B.w[2 * i]) + (uint32_t)(A.w[2 * i + 1] * B.w[2 * i + 1]))
#define _mm512_maddubs_epi16(x, y) \
    MAP_SI(w, 32, x, y, NO_SI, CLAMP(PRODUCT_UB_B(2 * i) + PRODUCT_UB_B(2 * i + 1), INT16_MIN, INT16_MAX))
#define _mm512_mask_sub_epi8(x, m, y, z)                                   \
    ({                                                                     \
        uint64_t M = (m);                                                  \
        MAP_SI(ub, 64, x, y, z, M >> i & 1 ? B.ub[i] - C.ub[i] : A.ub[i]); \
    })
#define _mm512_mask_blend_epi8(m, x, y)                          \
    ({                                                           \
        uint64_t M = (m);                                        \
        MAP_SI(ub, 64, x, y, NO_SI, (M >> i & 1 ? B : A).ub[i]); \
    })
#define _mm512_test_epi8_mask(x, y)                         \
    ({                                                      \
        emulated A = {.si = (x)}, B = {.si = (y)};          \
        uint64_t S = 0;                                     \
        for (int i = 0; i < 64; i++)                        \
            S |= (uint64_t)((A.ub[i] & B.ub[i]) != 0) << i; \
        S;                                                  \
    })
#define _mm512_movepi8_mask(x)                \
    ({                                        \
        emulated A = {.si = (x)};             \
        uint64_t S = 0;                       \
        for (int i = 0; i < 64; i++)          \
            S |= (uint64_t)(A.b[i] < 0) << i; \
        S;                                    \
    })
/* VNNI */
#define _mm512_dpbusd_epi32(start, x, y)                                                                  \
    MAP_SI(ud, 16, x, y, start,                                                                           \
           C.ud[i] + (uint32_t)(PRODUCT_UB_B(4 * i) + PRODUCT_UB_B(4 * i + 1) + PRODUCT_UB_B(4 * i + 2) + \
                                PRODUCT_UB_B(4 * i + 3)))

/* AVX-VNNI, the same in 256 bits */
#define _mm256_dpbusd_avx_epi32(start, x, y)                                        \
    ({                                                                              \
        emulated X = {.half = {(x)}}, Y = {.half = {(y)}}, Z = {.half = {(start)}}; \
        AS(half[0], si, _mm512_dpbusd_epi32(Z.si, X.si, Y.si));                     \
    })

/* ---- lanes moved ---- */

/* In each 128 bits, of n lanes: the low (or high) half of x and y, in turns. */
#define UNPACK(as, of, n, x, y, high) \
    MAP(as, of, 4 * (n), as, x, as, y, si, NO_SI, (i % 2 ? B : A).of[i / (n) * (n) + (high) * (n) / 2 + i % (n) / 2])
#define _mm512_unpacklo_ps(x, y)    UNPACK(ps, f, 4, x, y, 0)
#define _mm512_unpackhi_ps(x, y)    UNPACK(ps, f, 4, x, y, 1)
#define _mm512_unpacklo_pd(x, y)    UNPACK(pd, q, 2, x, y, 0)
#define _mm512_unpackhi_pd(x, y)    UNPACK(pd, q, 2, x, y, 1)
#define _mm512_unpacklo_epi32(x, y) UNPACK(si, d, 4, x, y, 0)
#define _mm512_unpackhi_epi32(x, y) UNPACK(si, d, 4, x, y, 1)
#define _mm512_unpacklo_epi64(x, y) UNPACK(si, q, 2, x, y, 0)
#define _mm512_unpackhi_epi64(x, y) UNPACK(si, q, 2, x, y, 1)
/* Quarters: two of x, then two of y. */
#define QUARTERS(as, x, y, which) \
    MAP(as, q, 8, as, x, as, y, si, NO_SI, (i < 4 ? A : B).q[((which) >> i / 2 * 2 & 3) * 2 + i % 2])
#define _mm512_shuffle_f32x4(x, y, n)      QUARTERS(ps, x, y, n)
#define _mm512_shuffle_i32x4(x, y, n)      QUARTERS(si, x, y, n)
#define _mm512_shuffle_i64x2(x, y, n)      QUARTERS(si, x, y, n)
#define _mm512_movehdup_ps(x)              MAP_PS(x, NO_PS, NO_PS, A.f[i | 1])
#define _mm512_moveldup_ps(x)              MAP_PS(x, NO_PS, NO_PS, A.f[i & ~1])
#define _mm512_shuffle_epi32(x, n)         MAP_SI(d, 16, x, NO_SI, NO_SI, A.d[i / 4 * 4 + ((n) >> i % 4 * 2 & 3)])
#define _mm512_shuffle_epi8(x, n)          MAP_SI(b, 64, x, n, NO_SI, B.ub[i] & 128 ? 0 : A.b[i / 16 * 16 + B.ub[i] % 16])
#define _mm512_permute_ps(x, n)            MAP_PS(x, NO_PS, NO_PS, A.f[i / 4 * 4 + ((n) >> i % 4 * 2 & 3)])
#define _mm512_permutexvar_ps(n, x)        MAP(ps, f, 16, si, n, ps, x, si, NO_SI, B.f[A.ud[i] % 16])
#define _mm512_permutexvar_epi32(n, x)     MAP_SI(d, 16, n, x, NO_SI, B.d[A.ud[i] % 16])
#define _mm512_permutex2var_epi32(x, n, y) MAP_SI(d, 16, n, x, y, (A.ud[i] & 16 ? C : B).d[A.ud[i] % 16])
#define _mm512_permutex2var_epi16(x, n, y) MAP_SI(w, 32, n, x, y, (A.uw[i] & 32 ? C : B).w[A.uw[i] % 32])
#define _mm512_permutex2var_ps(x, n, y)    MAP(ps, f, 16, si, n, ps, x, ps, y, (A.ud[i] & 16 ? C : B).f[A.ud[i] % 16])
#define _mm512_permutexvar_epi16(n, x)     MAP_SI(w, 32, n, x, NO_SI, B.w[A.uw[i] % 32])
#define _mm512_mask_permutexvar_epi16(z, m, n, x)                        \
    ({                                                                   \
        uint32_t M = (m);                                                \
        MAP_SI(w, 32, n, x, z, M >> i & 1 ? B.w[A.uw[i] % 32] : C.w[i]); \
    })
#define _mm256_permutexvar_epi16(n, x)                        \
    ({                                                        \
        emulated A = {.half = {(n)}}, B = {.half = {(x)}}, R; \
        for (int i = 0; i < 16; i++)                          \
            R.w[i] = B.w[A.uw[i] % 16];                       \
        R.half[0];                                            \
    })
#define _mm512_maskz_shuffle_epi8(m, x, n)                                                                \
    ({                                                                                                    \
        uint64_t M = (m);                                                                                 \
        MAP_SI(b, 64, x, n, NO_SI, M >> i & 1 && !(B.ub[i] & 128) ? A.b[i / 16 * 16 + B.ub[i] % 16] : 0); \
    })
/* VBMI */
#define _mm512_permutexvar_epi8(n, x)     MAP_SI(b, 64, n, x, NO_SI, B.b[A.ub[i] % 64])
#define _mm512_permutex2var_epi8(x, n, y) MAP_SI(b, 64, n, x, y, (A.ub[i] & 64 ? C : B).b[A.ub[i] % 64])
/* Of each 64 bits eight bytes that begin at a bit, and continue at the first one. */
#define ROTATED(word, n)                   ((word) >> (n) | (word) << (64 - (n)) % 64)
#define _mm512_multishift_epi64_epi8(n, x) MAP_SI(ub, 64, n, x, NO_SI, (uint8_t)ROTATED(B.uq[i / 8], A.ub[i] % 64))
#define _mm512_maskz_permutexvar_epi8(m, n, x)                          \
    ({                                                                  \
        uint64_t M = (m);                                               \
        MAP_SI(b, 64, n, x, NO_SI, M >> i & 1 ? B.b[A.ub[i] % 64] : 0); \
    })

/* BF16 */
typedef int16_t emulated_bh __attribute__((vector_size(64), may_alias, aligned(64)));
typedef int16_t emulated_half_bh __attribute__((vector_size(32), may_alias, aligned(32)));
#define __m512bh emulated_bh
#define __m256bh emulated_half_bh
/* Rounds to nearest, ties to even; subnormals become zero, NaN stays NaN. */
static inline uint16_t emulated_bfloat(uint32_t bits)
{
    if ((bits & 0x7fffffffu) < 0x00800000u)
        return bits >> 16 & 0x8000u;
    return (uint16_t)((bits & 0x7fffffffu) > 0x7f800000u ? bits >> 16 | 0x40
                                                         : (bits + 0x7fff + (bits >> 16 & 1)) >> 16);
}
static inline float emulated_normal(uint32_t bits)
{
    return AS(f[0], ud[0], (bits & 0x7fffffffu) < 0x00800000u ? bits & 0x80000000u : bits);
}
/* Adds the product of each pair's upper halves, then of its lower ones, rounding each time. */
static inline float emulated_dot(uint32_t sum, uint32_t x, uint32_t y)
{
    float upper = fmaf(emulated_normal(x & 0xffff0000u), emulated_normal(y & 0xffff0000u), emulated_normal(sum));
    float both = fmaf(emulated_normal(x << 16), emulated_normal(y << 16), emulated_normal(AS(ud[0], f[0], upper)));
    return emulated_normal(AS(ud[0], f[0], both));
}
#define _mm512_cvtneps_pbh(x)                                                                                 \
    ({                                                                                                        \
        __m512i BH = MAP_SI(uw, 32, AS(si, ps, x), NO_SI, NO_SI, i < 16 ? emulated_bfloat(A.ud[i % 16]) : 0); \
        (emulated_half_bh) AS(half[0], si, BH);                                                               \
    })
#define _mm512_cvtne2ps_pbh(x, y) \
    ((emulated_bh)MAP_SI(uw, 32, AS(si, ps, x), AS(si, ps, y), NO_SI, emulated_bfloat((i < 16 ? B : A).ud[i % 16])))
#define _mm512_dpbf16_ps(z, x, y)                                                                                  \
    ({                                                                                                             \
        __m512i X = (__m512i)(x), Y = (__m512i)(y);                                                                \
        AS(ps, si, MAP_SI(ud, 16, AS(si, ps, z), X, Y, AS(ud[0], f[0], emulated_dot(A.ud[i], B.ud[i], C.ud[i])))); \
    })

static inline __m512i emulated_compress(unsigned mask, __m512i x)
{
    emulated a = {.si = x}, r = {.si = NO_SI};
    for (int i = 0, n = 0; i < 16; i++)
        if (mask >> i & 1)
            r.d[n++] = a.d[i];
    return r.si;
}
#define _mm512_maskz_compress_epi32(m, x) emulated_compress(m, x)
#define _mm512_maskz_compress_ps(m, x)    _mm512_castsi512_ps(emulated_compress(m, _mm512_castps_si512(x)))

#define PUT(as, part, x, y, n)    \
    ({                            \
        emulated R = {.as = (x)}; \
        R.part[n] = (y);          \
        R.as;                     \
    })
#define _mm512_insertf32x8(x, y, n)     PUT(ps, half_ps, x, y, n)
#define _mm512_inserti64x4(x, y, n)     PUT(si, half, x, y, n)
#define _mm512_inserti32x4(x, y, n)     PUT(si, quarter, x, y, n)
#define _mm512_extracti64x4_epi64(x, n) AS(half[n], si, x)
#define _mm512_extractf32x8_ps(x, n)    AS(half_ps[n], ps, x)
#define _mm512_broadcast_i32x4(x)                                        \
    ({                                                                   \
        emulated R;                                                      \
        R.quarter[0] = R.quarter[1] = R.quarter[2] = R.quarter[3] = (x); \
        R.si;                                                            \
    })
#define _mm512_broadcast_i64x4(x)    \
    ({                               \
        emulated R;                  \
        R.half[0] = R.half[1] = (x); \
        R.si;                        \
    })

/* ---- conversions ---- */

#define FROM_TO(type, x, to, count, value)     \
    ({                                         \
        union {                                \
            __typeof__(x) all;                 \
            type of[sizeof(x) / sizeof(type)]; \
        } N = {.all = (x)};                    \
        emulated R;                            \
        for (int i = 0; i < (count); i++)      \
            R.to[i] = (value);                 \
        R.si;                                  \
    })
#define FROM(type, x, value)     FROM_TO(type, x, d, 16, value)
#define _mm512_cvtepu8_epi16(x)  FROM_TO(uint8_t, x, w, 32, N.of[i])
#define _mm512_cvtepu16_epi64(x) FROM_TO(uint16_t, x, q, 8, N.of[i])
#define _mm512_cvtepu32_epi64(x) FROM_TO(uint32_t, x, q, 8, N.of[i])
#define _mm512_cvtepi8_epi32(x)  FROM(int8_t, x, N.of[i])
#define _mm512_cvtepu8_epi32(x)  FROM(uint8_t, x, N.of[i])
#define _mm512_cvtepi16_epi32(x) FROM(int16_t, x, N.of[i])
#define _mm512_cvtepu16_epi32(x) FROM(uint16_t, x, N.of[i])
#define _mm512_cvtepi32_ps(x)    MAP(ps, f, 16, si, x, si, NO_SI, si, NO_SI, (float)A.d[i])
#define _mm512_maskz_cvtps_epi32(m, x)                                                        \
    ({                                                                                        \
        uint32_t M = (m);                                                                     \
        MAP(si, d, 16, ps, x, si, NO_SI, si, NO_SI, M >> i & 1 ? (int32_t)rintf(A.f[i]) : 0); \
    })
#define _mm512_cvtsepi32_epi8(x)               \
    ({                                         \
        emulated A = {.si = (x)}, R;           \
        for (int i = 0; i < 16; i++)           \
            R.b[i] = CLAMP(A.d[i], -128, 127); \
        R.quarter[0];                          \
    })
#define _mm512_cvtph_ps(x)                                              \
    ({                                                                  \
        __m256i H = (x);                                                \
        emulated R;                                                     \
        R.half_ps[0] = _mm256_cvtph_ps(_mm256_castsi256_si128(H));      \
        R.half_ps[1] = _mm256_cvtph_ps(_mm256_extracti128_si256(H, 1)); \
        R.ps;                                                           \
    })
#define _mm512_cvtps_ph(x, mode)                            \
    ({                                                      \
        emulated A = {.ps = (x)}, R;                        \
        R.quarter[0] = _mm256_cvtps_ph(A.half_ps[0], mode); \
        R.quarter[1] = _mm256_cvtps_ph(A.half_ps[1], mode); \
        R.half[0];                                          \
    })

#endif
