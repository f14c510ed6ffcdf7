/* kv_cache.c - see kv_cache.h. */
#include "kv_cache.h"

#include "../base/memory.h"

#include <string.h>

static void store_f16(const kernels *k, const float *values, size_t n, void *at)
{
    k->to_half(values, n, at);
}

static void store_f32(const kernels *k, const float *values, size_t n, void *at)
{
    (void)k;
    memcpy(at, values, n * sizeof *values);
}

const kv_format_row kv_formats[HEARTH_KV_COUNT] = {
    [HEARTH_KV_F16] = {FORMAT_F16, store_f16, DEVICE_place_f16, DEVICE_attend_f16},
    [HEARTH_KV_F32] = {FORMAT_F32, store_f32, DEVICE_place_f32, DEVICE_attend_f32},
};

size_t kv_bytes(hearth_kv format, size_t n)
{
    const number_traits *t = &number_formats[kv_formats[format].stored];
    return n / t->block_values * t->block_bytes;
}

uint64_t kv_position_bytes(hearth_kv format, uint32_t layers, uint32_t heads, uint32_t head_length)
{
    return (uint64_t)2 * layers * heads * kv_bytes(format, head_length);
}

bool kv_cache_bytes(hearth_kv format, uint32_t layers, uint32_t sequences, uint32_t heads, uint32_t context,
                    uint32_t head_length, size_t *out)
{
    size_t positions;
    return size_multiply(sequences, context, &positions) &&
           size_multiply(positions, kv_position_bytes(format, layers, heads, head_length), out);
}

hearth_status kv_cache_create(kv_cache *out, hearth_kv format, uint32_t layers, uint32_t sequences, uint32_t heads,
                              uint32_t context, uint32_t head_length, hearth_error *error)
{
    *out = (kv_cache){.format = format,
                      .layers = layers,
                      .sequences = sequences,
                      .heads = heads,
                      .context = context,
                      .head_length = head_length};
    if (!kv_cache_bytes(format, layers, sequences, heads, context, head_length, &out->size_bytes))
        return fail(error, HEARTH_INVALID, "session: key/value cache: %u sequences of %u positions are too many",
                    sequences, context);
    /* Address space only: pages become resident when they are first written. */
    out->data = mem_reserve(out->size_bytes, MEM_HERE_AND_THERE);
    if (!out->data)
        return fail_memory(error, "session: key/value cache", out->size_bytes);
    return HEARTH_OK;
}

void kv_cache_destroy(kv_cache *c)
{
    mem_release(c->data, c->size_bytes);
    c->data = NULL;
}

/* Returns the bytes of the keys (or values) of one head for so many positions. */
static size_t head_bytes(const kv_cache *c, uint32_t positions)
{
    return positions * kv_bytes(c->format, c->head_length);
}

/* Returns where the keys (half 0) or values (half 1) of a head begin. */
static void *head_at(const kv_cache *c, uint32_t layer, uint32_t half, uint32_t sequence, uint32_t head)
{
    size_t index = (((size_t)layer * 2 + half) * c->sequences + sequence) * c->heads + head;
    return (char *)c->data + index * head_bytes(c, c->context);
}

void *kv_keys(const kv_cache *c, uint32_t layer, uint32_t sequence, uint32_t head)
{
    return head_at(c, layer, 0, sequence, head);
}

void *kv_values(const kv_cache *c, uint32_t layer, uint32_t sequence, uint32_t head)
{
    return head_at(c, layer, 1, sequence, head);
}

/* Stores the key or value of one head at a position, in the format of the cache. */
static void store_head(const kv_cache *c, const kernels *k, void *head, uint32_t position, const float *values)
{
    kv_formats[c->format].store(k, values, c->head_length, (char *)head + head_bytes(c, position));
}

void kv_store(const kv_cache *c, const kernels *k, uint32_t layer, uint32_t sequence, uint32_t position,
              const float *key, const float *value)
{
    for (uint32_t head = 0; head < c->heads; head++) {
        store_head(c, k, kv_keys(c, layer, sequence, head), position, key + (size_t)head * c->head_length);
        store_head(c, k, kv_values(c, layer, sequence, head), position, value + (size_t)head * c->head_length);
    }
}

/* Called for each head of a sequence in a fixed order: moves bytes between a block and the head. */
typedef void move_head(char *block, void *head, size_t bytes);

static void to_block(char *block, void *head, size_t bytes)
{
    memcpy(block, head, bytes);
}
static void from_block(char *block, void *head, size_t bytes)
{
    memcpy(head, block, bytes);
}

/* Moves the first `length` positions of a sequence to or from a compact block. */
static void move_sequence(const kv_cache *c, uint32_t sequence, uint32_t length, char *block, move_head *move)
{
    size_t bytes = head_bytes(c, length);
    for (uint32_t layer = 0; layer < c->layers; layer++)
        for (uint32_t half = 0; half < 2; half++)
            for (uint32_t head = 0; head < c->heads; head++, block += bytes)
                move(block, head_at(c, layer, half, sequence, head), bytes);
}

void kv_save(const kv_cache *c, uint32_t sequence, uint32_t length, void *block)
{
    move_sequence(c, sequence, length, block, to_block);
}

void kv_restore(const kv_cache *c, uint32_t sequence, uint32_t length, const void *block)
{
    move_sequence(c, sequence, length, (char *)block, from_block);
}

void kv_copy(const kv_cache *c, uint32_t from, uint32_t to, uint32_t length)
{
    for (uint32_t layer = 0; layer < c->layers; layer++)
        for (uint32_t half = 0; half < 2; half++)
            for (uint32_t head = 0; head < c->heads; head++)
                memcpy(head_at(c, layer, half, to, head), head_at(c, layer, half, from, head), head_bytes(c, length));
}
