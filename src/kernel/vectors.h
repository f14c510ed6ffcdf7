/* vectors.h - small functions on the vectors of a level, written once for all levels. It is included at the end of
 * avx2.h, avx512.h and neon.h, which have defined `vector` (LANES float32 values) and functions vector_NAME and
 * load_first_NAME. */
#ifndef KERNEL_VECTORS_H
#define KERNEL_VECTORS_H

/* The name of a kernel at this level: OF_LEVEL(add) is add_avx2. */
#define JOIN_NAMES(name, level) name##_##level
#define JOIN(name, level)       JOIN_NAMES(name, level)
#define OF_LEVEL(name)          JOIN(name, LEVEL)

/* Loads the first n (at most LANES) values from index i of a row as float32; the other lanes are 0. */
typedef vector load_values(const void *row, size_t i, size_t n);

ALWAYS_INLINE vector load_f32(const void *row, size_t i, size_t n)
{
    return load_first((const float *)row + i, n);
}

ALWAYS_INLINE vector load_f16(const void *row, size_t i, size_t n)
{
    return load_first_halves((const uint16_t *)row + i, n);
}

ALWAYS_INLINE vector load_bf16(const void *row, size_t i, size_t n)
{
    return load_first_bfloats((const uint16_t *)row + i, n);
}

/* Loads n values: whole registers, or fewer values than one has. */
ALWAYS_INLINE void load_columns(const float *at, size_t n, vector *v)
{
    for (size_t i = 0; i * LANES < n; i++)
        v[i] = n > LANES ? vector_load(at + i * LANES) : load_first(at, n);
}

ALWAYS_INLINE void store_columns(const vector *v, size_t n, float *at)
{
    for (size_t i = 0; i * LANES < n; i++)
        if (n > LANES)
            vector_store(at + i * LANES, v[i]);
        else
            store_first(at, n, v[i]);
}

/* Adds the first n (at most LANES) sums to `out`, or writes them if `first`. */
ALWAYS_INLINE void add_sums(vector sum, bool first, size_t n, float *out)
{
    if (!first)
        sum = vector_add(load_first(out, n), sum);
    store_first(out, n, sum);
}

/* Fetches the `rows` sums of each of `tokens` tokens, which add_sums will add to: with many tokens they lie in the third cache. */
ALWAYS_INLINE void fetch_sums(const float *y, size_t y_stride, size_t tokens, size_t rows)
{
    for (size_t t = 0; t < tokens; t++)
        for (size_t i = 0; i < rows; i += 64 / sizeof(*y))
            __builtin_prefetch(y + t * y_stride + i, 1);
}

/* Sets the sums of a group of rows to zero. */
ALWAYS_INLINE void clear(vector sum[GROUP])
{
    for (size_t r = 0; r < GROUP; r++)
        sum[r] = vector_of(0);
}

#endif
