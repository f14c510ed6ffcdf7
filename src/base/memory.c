/* memory.c - aligned allocation on top of malloc, with counters and a fault injector.
 *
 *     start            block (64-byte aligned)
 *     |.... header ....|.......... size ..........|.. tail ..|
 *
 * The header lies directly before the block and stores where malloc's piece starts. A calloc of
 * size + 64 always has room for it: malloc aligns to 16 and the header takes 16, so the block
 * begins 16, 32, 48 or 64 bytes after the start. calloc leaves large blocks as untouched zero
 * pages until they are used. Rejected: aligned_alloc with memset, which touches every page, and
 * malloc_usable_size, which does not work well with the sanitizers. */
#include "memory.h"

#include <stdatomic.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

#ifndef __has_feature
#define __has_feature(x) 0
#endif
#if defined(__SANITIZE_ADDRESS__) || __has_feature(address_sanitizer)
#include <sanitizer/asan_interface.h>
#else
#define ASAN_POISON_MEMORY_REGION(address, size)   ((void)(address), (void)(size))
#define ASAN_UNPOISON_MEMORY_REGION(address, size) ((void)(address), (void)(size))
#endif

enum { ALIGNMENT = 64 }; /* the size of a cache line and of the widest vector */

typedef struct header {
    void *start;     /* of malloc's piece */
    size_t capacity; /* bytes from the block to the end of that piece */
} header;

_Static_assert(sizeof(header) == 16, "the header must fit before a 64-byte aligned block");

static const long fail_never = -1;
static atomic_long fail_after = -1; /* allocations that still succeed; fail_never: all */
static atomic_long live_blocks;
static atomic_size_t live_bytes;

void mem_fail_at(long n)
{
    atomic_store(&fail_after, n < 0 ? fail_never : n);
}

long mem_live(void)
{
    return atomic_load(&live_blocks);
}

size_t mem_live_bytes(void)
{
    return atomic_load(&live_bytes);
}

static void count_in(size_t size)
{
    atomic_fetch_add_explicit(&live_blocks, 1, memory_order_relaxed);
    atomic_fetch_add_explicit(&live_bytes, size, memory_order_relaxed);
}

static void count_out(size_t size)
{
    atomic_fetch_sub_explicit(&live_blocks, 1, memory_order_relaxed);
    atomic_fetch_sub_explicit(&live_bytes, size, memory_order_relaxed);
}

/* Returns true if the injector makes this allocation fail. The countdown stops at 0, so that all
 * later ones fail too: code that ignores the first failure meets the next. */
static bool must_fail(void)
{
    long left = atomic_load_explicit(&fail_after, memory_order_relaxed);
    while (left > 0) {
        if (atomic_compare_exchange_weak(&fail_after, &left, left - 1))
            return false;
    }
    return left == 0;
}

static header *header_of(void *block)
{
    return (header *)block - 1;
}

/* Marks what follows the block in malloc's piece as inaccessible for AddressSanitizer. */
static void guard_tail(void *block, size_t size, size_t capacity)
{
    ASAN_UNPOISON_MEMORY_REGION(block, size);
    ASAN_POISON_MEMORY_REGION((char *)block + size, capacity - size);
}

static void *block_new(size_t size, bool zeroed)
{
    size_t total;
    if (must_fail() || !size_add(size, ALIGNMENT, &total))
        return NULL;
    char *start = zeroed ? calloc(1, total) : malloc(total);
    if (!start)
        return NULL;
    size_t offset = ALIGNMENT - (uintptr_t)start % ALIGNMENT;
    char *block = start + offset;
    *header_of(block) = (header){start, total - offset};
    guard_tail(block, size, total - offset);
    count_in(total - offset);
    return block;
}

void *mem_new(size_t size_bytes)
{
    return block_new(size_bytes, true);
}

void *mem_new_array(size_t count, size_t size_bytes)
{
    size_t total;
    return size_multiply(count, size_bytes, &total) ? block_new(total, true) : NULL;
}

void *mem_resize(void *block, size_t size_bytes)
{
    if (!block)
        return block_new(size_bytes, false);
    size_t capacity = header_of(block)->capacity;
    /* Keep the block in place if it stays at least half full. */
    if (size_bytes <= capacity && size_bytes >= capacity / 2) {
        if (must_fail())
            return NULL;
        guard_tail(block, size_bytes, capacity);
        return block;
    }
    void *moved = block_new(size_bytes, false);
    if (!moved)
        return NULL;
    ASAN_UNPOISON_MEMORY_REGION(block, capacity);
    memcpy(moved, block, size_bytes < capacity ? size_bytes : capacity);
    mem_free(block);
    return moved;
}

void *mem_grow(void *items, size_t *capacity, size_t count, size_t more, size_t item_bytes)
{
    size_t wanted, size_bytes, doubled = *capacity > 0 ? 2 * *capacity : 32;
    if (!size_add(count, more, &wanted))
        return NULL;
    if (wanted <= *capacity)
        return items;
    if (wanted < doubled)
        wanted = doubled;
    void *grown = size_multiply(wanted, item_bytes, &size_bytes) ? mem_resize(items, size_bytes) : NULL;
    if (grown)
        *capacity = wanted;
    return grown;
}

char *mem_copy_text(const char *text, size_t size_bytes)
{
    size_t total;
    char *copy = size_add(size_bytes, 1, &total) ? block_new(total, false) : NULL;
    if (!copy)
        return NULL;
    if (size_bytes > 0)
        memcpy(copy, text, size_bytes);
    copy[size_bytes] = 0;
    return copy;
}

void mem_free(void *block)
{
    if (!block)
        return;
    count_out(header_of(block)->capacity);
    free(header_of(block)->start);
}

void *mem_reserve(size_t size_bytes, mem_use use)
{
    if (must_fail())
        return NULL;
    size_t size = size_bytes > 0 ? size_bytes : 1; /* mmap refuses 0 */
    void *block = mmap(NULL, size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (block == MAP_FAILED)
        return NULL;
    /* With huge pages every touched place takes 2 MiB, too much for memory that is used in few places. */
    (void)madvise(block, size, use == MEM_WHOLE ? MADV_HUGEPAGE : MADV_NOHUGEPAGE);
    count_in(size);
    return block;
}

void mem_release(void *block, size_t size_bytes)
{
    if (!block)
        return;
    size_t size = size_bytes > 0 ? size_bytes : 1;
    munmap(block, size);
    count_out(size);
}
