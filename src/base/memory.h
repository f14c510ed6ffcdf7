/* memory.h - every allocation of the library, with counters and a fault injector.
 *
 * The counters and the injector are the one piece of global state in hearth: tests must be
 * able to make the n-th allocation fail anywhere below a call (SQLite's way). They are
 * atomic, and nothing but tests reads or sets them. */
#ifndef BASE_MEMORY_H
#define BASE_MEMORY_H

#include <stdbool.h>
#include <stddef.h>

/* NULL when there is no memory. A size of 0 gives a unique pointer. Zeroed; 64-byte aligned. */
void *mem_new(size_t size_bytes);
/* count * size_bytes, NULL also where the product overflows. Zeroed; 64-byte aligned. */
void *mem_new_array(size_t count, size_t size_bytes);
/* Grows or shrinks what mem_new gave, keeping its content; new bytes are not zeroed.
 * NULL: no memory, the old block is still valid. */
void *mem_resize(void *block, size_t size_bytes);
/* A terminated copy of size bytes; NULL: no memory. */
char *mem_copy_text(const char *text, size_t size_bytes);
void mem_free(void *block);

/* Address space that becomes resident as it is touched. NULL: no memory. Zeroed. HERE_AND_THERE: in small pages, for
 * what is filled slowly and maybe never (KV caches); WHOLE: in large ones where the system has them, for what is
 * filled at once (transposed weights). */
typedef enum mem_use { MEM_HERE_AND_THERE, MEM_WHOLE } mem_use;
void *mem_reserve(size_t size_bytes, mem_use use);
void mem_release(void *block, size_t size_bytes);

/* The n-th allocation from now on fails (0: the next), and every one after it too; -1: none. */
void mem_fail_at(long n);
/* Blocks that are allocated and not yet freed. */
long mem_live(void);
/* Their bytes, reservations included. */
size_t mem_live_bytes(void);

/* Overflow-checked sizes: false when the result does not fit. */
static inline bool size_multiply(size_t a, size_t b, size_t *out)
{
    return !__builtin_mul_overflow(a, b, out);
}
static inline bool size_add(size_t a, size_t b, size_t *out)
{
    return !__builtin_add_overflow(a, b, out);
}

/* A bump allocator: many small things that live and die together. Not thread-safe.
 * A zeroed arena is empty and ready. */
typedef struct arena {
    struct arena_block *blocks;
    size_t left;
    char *next;
} arena;

/* Zeroed, aligned to 16; NULL: no memory. */
void *arena_new(arena *a, size_t size_bytes);
void *arena_new_array(arena *a, size_t count, size_t size_bytes);
/* A terminated copy. */
char *arena_copy_text(arena *a, const char *text, size_t size_bytes);
void arena_clear(arena *a);

#endif
