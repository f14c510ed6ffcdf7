/* arena.c - a bump allocator on top of mem_new. Pieces are only freed all together. */
#include "memory.h"

#include <stdint.h>
#include <string.h>

enum { PIECE_ALIGNMENT = 16 };

/* Block sizes double from the first size up to the last: small arenas stay small, and large ones
 * do not need thousands of blocks. */
static const size_t first_block_bytes = (size_t)4 << 10;
static const size_t last_block_bytes = (size_t)1 << 20;

typedef struct arena_block {
    struct arena_block *older;
    size_t size; /* bytes of `pieces` */
    _Alignas(PIECE_ALIGNMENT) char pieces[];
} arena_block;

static arena_block *block_new(size_t size)
{
    size_t total;
    arena_block *block = size_add(size, sizeof(arena_block), &total) ? mem_new(total) : NULL;
    if (block)
        block->size = size;
    return block;
}

/* Allocates a large piece in a block of its own, so that it does not waste the rest of the current block. The new
 * block comes second in the list: the current one stays first and is filled further. */
static void *large_piece(arena *a, size_t size)
{
    arena_block *block = block_new(size);
    if (!block)
        return NULL;
    if (a->blocks) {
        block->older = a->blocks->older;
        a->blocks->older = block;
    } else {
        a->blocks = block;
    }
    return block->pieces;
}

/* Makes a new, larger block the current one. */
static bool start_block(arena *a)
{
    size_t size = a->blocks ? 2 * a->blocks->size : first_block_bytes;
    if (size > last_block_bytes)
        size = last_block_bytes;
    arena_block *block = block_new(size);
    if (!block)
        return false;
    block->older = a->blocks;
    a->blocks = block;
    a->next = block->pieces;
    a->left = size;
    return true;
}

void *arena_new(arena *a, size_t size_bytes)
{
    size_t size;
    if (!size_add(size_bytes > 0 ? size_bytes : 1, PIECE_ALIGNMENT - 1, &size))
        return NULL;
    size -= size % PIECE_ALIGNMENT;
    if (size > a->left) {
        if (size > first_block_bytes / 2)
            return large_piece(a, size);
        if (!start_block(a))
            return NULL;
    }
    void *piece = a->next;
    a->next += size;
    a->left -= size;
    return piece;
}

void *arena_new_array(arena *a, size_t count, size_t size_bytes)
{
    size_t total;
    return size_multiply(count, size_bytes, &total) ? arena_new(a, total) : NULL;
}

char *arena_copy_text(arena *a, const char *text, size_t size_bytes)
{
    size_t total;
    char *copy = size_add(size_bytes, 1, &total) ? arena_new(a, total) : NULL;
    if (copy && size_bytes > 0)
        memcpy(copy, text, size_bytes);
    return copy;
}

void arena_take(arena *a, arena *from)
{
    arena_block *last = from->blocks;
    if (!last)
        return;
    while (last->older)
        last = last->older;
    /* Behind the current block of `a`, which goes on being filled. */
    last->older = a->blocks ? a->blocks->older : NULL;
    if (a->blocks)
        a->blocks->older = from->blocks;
    else
        a->blocks = from->blocks;
    *from = (arena){0};
}

void arena_clear(arena *a)
{
    for (arena_block *block = a->blocks; block;) {
        arena_block *older = block->older;
        mem_free(block);
        block = older;
    }
    *a = (arena){0};
}
