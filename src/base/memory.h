/* memory.h - every allocation of the library, with counters and a fault injector.
 *
 * The counters and the injector are global, so that tests can make the n-th allocation anywhere
 * below a call fail (as SQLite's tests do). They are atomic, and only tests and fuzzers read or set
 * them. */
#ifndef BASE_MEMORY_H
#define BASE_MEMORY_H

#include <stdbool.h>
#include <stddef.h>

/* Allocates a block, zeroed and 64-byte aligned; NULL: no memory. A size of 0 gives a unique pointer. */
void *mem_new(size_t size_bytes);
/* Allocates count * size_bytes, zeroed and 64-byte aligned; NULL: no memory, or the product overflows. */
void *mem_new_array(size_t count, size_t size_bytes);
/* Grows or shrinks a block of mem_new and keeps its content; new bytes are not zeroed. block NULL: allocates.
 * Returns NULL if there is no memory; the old block is then still valid. */
void *mem_resize(void *block, size_t size_bytes);
/* Makes room for `more` (at least 1) further items behind the first `count` of an array, which is NULL with *capacity 0
 * at first and at least doubles when it grows. Returns the array, which may have moved; NULL: no memory, or the size
 * overflows; the array and *capacity are then as before. */
void *mem_grow(void *items, size_t *capacity, size_t count, size_t more, size_t item_bytes);
/* Returns a copy of size_bytes bytes with a terminating 0 (free it with mem_free); NULL: no memory. */
char *mem_copy_text(const char *text, size_t size_bytes);
void mem_free(void *block);

/* Reserves zeroed address space whose pages become resident when they are first touched; NULL: no memory.
 * HERE_AND_THERE: small pages, for memory that is filled slowly and perhaps never completely (KV caches). WHOLE: huge
 * pages where the system has them, for memory that is filled at once (transposed weights). */
typedef enum mem_use { MEM_HERE_AND_THERE, MEM_WHOLE } mem_use;
void *mem_reserve(size_t size_bytes, mem_use use);
void mem_release(void *block, size_t size_bytes);

/* Makes the n-th allocation from now on (0: the next) and all later ones fail; -1: none. */
void mem_fail_at(long n);
/* Returns the number of blocks and reservations that are allocated and not yet freed. */
long mem_live(void);
/* Returns their bytes. */
size_t mem_live_bytes(void);

/* Compute sizes with an overflow check: false if the result does not fit. */
static inline bool size_multiply(size_t a, size_t b, size_t *out)
{
    return !__builtin_mul_overflow(a, b, out);
}
static inline bool size_add(size_t a, size_t b, size_t *out)
{
    return !__builtin_add_overflow(a, b, out);
}

/* A bump allocator for many small objects that are freed together. Not thread-safe.
 * A zeroed arena is empty and ready. */
typedef struct arena {
    struct arena_block *blocks;
    size_t left;
    char *next;
} arena;

/* Allocates zeroed memory, 16-byte aligned; NULL: no memory (arena_new_array: or count * size_bytes overflows). */
void *arena_new(arena *a, size_t size_bytes);
void *arena_new_array(arena *a, size_t count, size_t size_bytes);
/* Returns a copy with a terminating 0; NULL: no memory. */
char *arena_copy_text(arena *a, const char *text, size_t size_bytes);
/* Moves all that another arena holds into this one; `from` is empty then. */
void arena_take(arena *a, arena *from);
/* Frees everything; the arena can be used again. */
void arena_clear(arena *a);

#endif
