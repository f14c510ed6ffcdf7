/* streams.h - the loop over rows with one token, the same at every level that has vectors: which rows are in flight, and
 * what is fetched ahead. Included by files with a level's flags; all `static inline`, so that nothing here becomes
 * a symbol that other code could be linked to. */
#ifndef KERNEL_STREAMS_H
#define KERNEL_STREAMS_H

#include "levels.h"

#include <immintrin.h>

#define ALWAYS_INLINE static inline __attribute__((always_inline))

#define GROUP 8   /* rows in flight */
#define FETCH_STEP 72
#define AHEAD 512 /* bytes by which a stream is fetched ahead; 256 to 1024 are as good */

#ifndef FOLLOW_HINT
#define FOLLOW_HINT _MM_HINT_T0
#endif
#ifndef SPREAD
#define SPREAD 2
#endif
#define RING 2048 /* lines that may wait; what is more is left to those who read it */

/* Lines that wait to be fetched beside the rows in flight. */
typedef struct line_queue {
    size_t head, tail; /* of the ring, modulo RING */
    size_t per_step;
    uintptr_t lines[RING];
} line_queue;

/* Rows in flight, and for each the bytes to fetch while it is multiplied. */
typedef struct row_group {
    const uint8_t *now[GROUP];
    uintptr_t ahead[GROUP]; /* addresses, not pointers: they may lie behind the matrix */
    line_queue *beside;     
} row_group;

/* The products of a group of rows with the only token of x. */
typedef __m256 dot_function(const row_group *rows, const kernel_input *x);

/* To be called at every step that multiplies `bytes` bytes of each row from byte `at`. */
ALWAYS_INLINE void fetch_ahead(const row_group *rows, size_t at, size_t bytes)
{
    for (size_t r = 0; r < GROUP; r++)
        for (size_t i = 0; i < bytes; i += 64)
            _mm_prefetch((const char *)(rows->ahead[r] + at + i), _MM_HINT_T0);
    line_queue *q = rows->beside;
    size_t left = q->tail - q->head, lines = q->per_step < left ? q->per_step : left;
    for (size_t k = 0; k < lines; k++)
        _mm_prefetch((const char *)q->lines[(q->head + k) % RING], FOLLOW_HINT);
    q->head += lines;
}

/* The lines of row `row` of every matrix that follows. */
static inline void add_followers(const kernel_follow *follow, size_t row, line_queue *q)
{
#ifdef MIXED
    uintptr_t at = (uintptr_t)matrix_row(follow->next[0], row), end = at + follow->next[0]->row_bytes;
    uintptr_t off = follow->count > 1 ? (uintptr_t)matrix_row(follow->next[1], row) - at : 0;
    for (; at < end && q->tail - q->head < RING - 2; at += 64) {
        q->lines[q->tail++ % RING] = at;
        if (off) q->lines[q->tail++ % RING] = at + off;
    }
#else
    for (size_t m = 0; m < follow->count; m++) {
        uintptr_t at = (uintptr_t)matrix_row(follow->next[m], row), end = at + follow->next[m]->row_bytes;
        for (at &= ~(uintptr_t)63; at < end && q->tail - q->head < RING; at += 64)
            q->lines[q->tail++ % RING] = at;
    }
#endif
}

/* The lines that the rows i, i + apart, ... with these products let follow. */
static inline void add_group(const kernel_follow *follow, const uint32_t *list, size_t i, size_t apart, size_t end,
                               const float sums[GROUP], line_queue *q)
{
    for (size_t r = 0; r < GROUP && i + r * apart < end; r++) {
        size_t row = list ? list[i + r * apart] : i + r * apart;
        if (!(sums[r] + (follow->bias ? follow->bias[row] : 0) < follow->threshold))
            add_followers(follow, row, q);
    }
}

/* The rows in flight are not neighbours but begin an eighth of the range apart, so that each is a stream of its own:
 * a CPU fetches ahead within a page, and one stream gets 12 GB/s out of a memory that gives 20 to eight (README.md).
 * Of listed rows the next one is fetched whole, since no CPU can guess where it is.
 * What a row gives does not depend on its company. */
ALWAYS_INLINE void rows_in_streams(const matrix *w, const uint32_t *list, size_t begin, size_t end,
                                   const kernel_input *x, float *y, dot_function *dot)
{
    size_t apart = (end - begin + GROUP - 1) / GROUP, steps = w->row_bytes / FETCH_STEP + 1;
    line_queue queue;
    queue.head = queue.tail = queue.per_step = 0;
    for (size_t i = begin; i < begin + apart; i++) {
        row_group rows = {.beside = &queue};
        for (size_t r = 0; r < GROUP; r++) { /* a group that is not full repeats the last row */
            size_t now = i + r * apart, next = now + 1;
            rows.now[r] = listed_row(w, list, now < end ? now : end - 1);
            rows.ahead[r] =
                list ? (uintptr_t)listed_row(w, list, next < end ? next : end - 1) : (uintptr_t)rows.now[r] + AHEAD;
        }
        if (i == begin) /* the streams' first bytes, at once: what follows is fetched on the way */
            for (size_t r = 0; r < GROUP; r++)
                for (size_t k = 0; k < AHEAD && k < w->row_bytes; k += 64)
                    _mm_prefetch((const char *)rows.now[r] + k, _MM_HINT_T0);
        float sums[GROUP];
        _mm256_storeu_ps(sums, dot(&rows, x));
        for (size_t r = 0; r < GROUP && i + r * apart < end; r++)
            y[i + r * apart] = sums[r];
        if (x->follow) {
            add_group(x->follow, list, i, apart, end, sums, &queue);
            queue.per_step = (queue.tail - queue.head + SPREAD * steps - 1) / (SPREAD * steps);
        }
    }
    for (; queue.head < queue.tail; queue.head++)
        _mm_prefetch((const char *)queue.lines[queue.head % RING], FOLLOW_HINT);
}

#endif
