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

/* Returns the bytes of n values of a row, n a multiple of the format's block. */
static size_t bytes_of(hearth_kv format, size_t n)
{
    const number_traits *t = &number_formats[kv_formats[format].stored];
    return n / t->block_values * t->block_bytes;
}

size_t kv_position_bytes(hearth_kv format, const attention_shape *a)
{
    return 2 * bytes_of(format, key_width(a));
}

/* Describes the layers and sums up their bytes; returns false if these overflow. */
static bool lay_out(kv_cache *c, const attention_shape *const *shapes)
{
    size_t positions, bytes;
    if (!size_multiply(c->sequences, c->context, &positions))
        return false;
    for (uint32_t i = 0; i < c->layer_count; i++) {
        const attention_shape *a = shapes[i];
        c->layers[i] = (kv_layer){.heads = a->kv_head_count,
                                  .head_length = a->head_length,
                                  .row_bytes = bytes_of(c->format, a->head_length),
                                  .begin = c->size_bytes};
        if (!size_multiply(positions, kv_position_bytes(c->format, a), &bytes) ||
            !size_add(c->size_bytes, bytes, &c->size_bytes))
            return false;
    }
    return true;
}

hearth_status kv_cache_create(kv_cache *out, hearth_kv format, const attention_shape *const *shapes, uint32_t count,
                              uint32_t sequences, uint32_t context, hearth_error *error)
{
    *out = (kv_cache){.format = format, .sequences = sequences, .context = context, .layer_count = count};
    out->layers = mem_new_array(count, sizeof *out->layers);
    if (count > 0 && !out->layers)
        return fail_memory(error, "session: key/value cache", count * sizeof *out->layers);
    if (!lay_out(out, shapes))
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
    mem_free(c->layers);
    c->data = NULL;
    c->layers = NULL;
}

/* Returns where the keys (half 0) or values (half 1) of a head begin. */
static void *head_at(const kv_cache *c, uint32_t layer, uint32_t half, uint32_t sequence, uint32_t head)
{
    const kv_layer *l = &c->layers[layer];
    size_t index = ((size_t)half * c->sequences + sequence) * l->heads + head;
    return (char *)c->data + l->begin + index * c->context * l->row_bytes;
}

void *kv_keys(const kv_cache *c, uint32_t layer, uint32_t sequence, uint32_t head)
{
    return head_at(c, layer, 0, sequence, head);
}

void *kv_values(const kv_cache *c, uint32_t layer, uint32_t sequence, uint32_t head)
{
    return head_at(c, layer, 1, sequence, head);
}

void kv_store(const kv_cache *c, const kernels *k, uint32_t layer, uint32_t sequence, uint32_t position,
              const float *key, const float *value)
{
    const kv_layer *l = &c->layers[layer];
    const float *const halves[] = {key, value};
    for (uint32_t half = 0; half < 2; half++)
        for (uint32_t head = 0; head < l->heads; head++) {
            char *at = (char *)head_at(c, layer, half, sequence, head) + position * l->row_bytes;
            kv_formats[c->format].store(k, halves[half] + (size_t)head * l->head_length, l->head_length, at);
        }
}

size_t kv_saved_bytes(const kv_cache *c, uint32_t length)
{
    size_t bytes = 0;
    for (uint32_t i = 0; i < c->layer_count; i++)
        bytes += 2 * c->layers[i].heads * c->layers[i].row_bytes * length;
    return bytes;
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
    for (uint32_t layer = 0; layer < c->layer_count; layer++) {
        size_t bytes = c->layers[layer].row_bytes * length;
        for (uint32_t half = 0; half < 2; half++)
            for (uint32_t head = 0; head < c->layers[layer].heads; head++, block += bytes)
                move(block, head_at(c, layer, half, sequence, head), bytes);
    }
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
    for (uint32_t layer = 0; layer < c->layer_count; layer++)
        for (uint32_t half = 0; half < 2; half++)
            for (uint32_t head = 0; head < c->layers[layer].heads; head++)
                memcpy(head_at(c, layer, half, to, head), head_at(c, layer, half, from, head),
                       c->layers[layer].row_bytes * length);
}
