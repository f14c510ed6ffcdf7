/* kv_cache.c - see kv_cache.h. */
#include "kv_cache.h"

#include "../base/memory.h"
#include "../number/blocks.h"

#include <math.h>
#include <string.h>

_Static_assert(KV_PAGE == ATTEND_POSITIONS, "the CPU's pages are the device's");

#define HALF_NAN 0x7e00

static void store_f16(const kernels *k, const float *values, size_t n, void *at)
{
    k->to_half(values, n, at);
}

static void store_f32(const kernels *k, const float *values, size_t n, void *at)
{
    (void)k;
    memcpy(at, values, n * sizeof *values);
}

/* Rounds as the format's encoder does. That would make a finite value of one that is not, or is beyond what the format holds;
 * here such a block gets the scale NaN, so that the fault shows. */
static void store_q8_0(const kernels *k, const float *values, size_t n, void *at)
{
    const number_traits *t = &number_formats[FORMAT_Q8_0];
    (void)k;
    t->encode(values, NULL, at, n);
    for (size_t i = 0; i < n; i++)
        if (!(fabsf(values[i]) <= t->largest))
            ((block_q8_0 *)at)[i / t->block_values].d = HALF_NAN;
}

const kv_format_row kv_formats[HEARTH_KV_COUNT] = {
    [HEARTH_KV_F16] = {FORMAT_F16, store_f16, DEVICE_place_f16, DEVICE_attend_f16, DEVICE_pool_keys_f16,
                       DEVICE_score_positions_f16, DEVICE_attend_chosen_f16, DEVICE_gather_f16,
                       DEVICE_attend_gathered_f16, 0},
    [HEARTH_KV_F32] = {FORMAT_F32, store_f32, DEVICE_place_f32, DEVICE_attend_f32, DEVICE_pool_keys_f32,
                       DEVICE_score_positions_f32, DEVICE_attend_chosen_f32, DEVICE_gather_f32,
                       DEVICE_attend_gathered_f32, 0},
    [HEARTH_KV_Q8_0] = {FORMAT_Q8_0, store_q8_0, DEVICE_place_q8_0, DEVICE_attend_q8_0, DEVICE_pool_keys_q8_0,
                        DEVICE_score_positions_q8_0, DEVICE_attend_chosen_q8_0, DEVICE_gather_q8_0,
                        DEVICE_attend_gathered_q8_0, sizeof(uint16_t)},
};

uint32_t kv_misfit(hearth_kv format, cached_keys keys)
{
    uint32_t block = number_formats[kv_formats[format].stored].block_values;
    return keys.head_length % block != 0 ? keys.head_length : keys.value_length % block != 0 ? keys.value_length : 0;
}

/* Returns the bytes of n values of a row, n a multiple of the format's block. */
static size_t bytes_of(hearth_kv format, size_t n)
{
    const number_traits *t = &number_formats[kv_formats[format].stored];
    return n / t->block_values * t->block_bytes;
}

size_t kv_row_bytes(hearth_kv format, cached_keys keys)
{
    return bytes_of(format, cached_width(keys));
}

size_t kv_bytes(hearth_kv format, cached_keys keys, size_t positions)
{
    return positions / keys.together * kv_row_bytes(format, keys);
}

/* Describes the layers and sums up their bytes; returns false if these overflow. */
static bool lay_out(kv_cache *c, const cached_keys *keys)
{
    size_t bytes;
    for (uint32_t i = 0; i < c->layer_count; i++) {
        c->layers[i] = (kv_layer){
            .has = keys[i],
            .row_bytes = {bytes_of(c->format, keys[i].head_length), bytes_of(c->format, keys[i].value_length)},
            .begin = c->size_bytes};
        if (!size_multiply(c->pages->count, kv_bytes(c->format, keys[i], c->pages->positions), &bytes) ||
            !size_add(c->size_bytes, bytes, &c->size_bytes))
            return false;
    }
    return true;
}

hearth_status kv_cache_create(kv_cache *out, hearth_kv format, const cached_keys *keys, uint32_t count,
                              const kv_pages *pages, hearth_error *error)
{
    *out = (kv_cache){.format = format, .pages = pages, .layer_count = count};
    out->layers = mem_new_array(count, sizeof *out->layers);
    if (count > 0 && !out->layers)
        return fail_memory(error, "session: key/value cache", count * sizeof *out->layers);
    if (!lay_out(out, keys))
        return fail(error, HEARTH_INVALID, "session: key/value cache: %llu positions are too many",
                    (unsigned long long)kv_pages_positions(pages, pages->count));
    /* Address space only: it becomes resident where it is first written. */
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

/* Returns 2, or 1 where keys are values too or there are none. */
static kv_half halves_of(const kv_layer *l)
{
    return l->has.value_length > 0 ? KV_HALVES : KV_VALUES;
}

/* Returns the bytes of what a head has in a page, keys or values. */
static size_t piece_bytes(const kv_cache *c, uint32_t layer, kv_half half)
{
    return c->pages->positions / c->layers[layer].has.together * c->layers[layer].row_bytes[half];
}

/* Returns where the keys or values of a head begin in a page. */
static char *piece_at(const kv_cache *c, uint32_t layer, kv_half half, uint32_t head, uint32_t page)
{
    const kv_layer *l = &c->layers[layer];
    size_t all_keys = half == KV_VALUES ? (size_t)l->has.heads * c->pages->count * piece_bytes(c, layer, KV_KEYS) : 0;
    size_t before = (size_t)head * c->pages->count + page;
    return (char *)c->data + l->begin + all_keys + before * piece_bytes(c, layer, half);
}

attend_cache kv_head(const kv_cache *c, uint32_t layer, uint32_t sequence, uint32_t head)
{
    const kv_layer *l = &c->layers[layer];
    attend_half key = {piece_at(c, layer, KV_KEYS, head, 0), l->has.head_length, l->row_bytes[KV_KEYS],
                       piece_bytes(c, layer, KV_KEYS)};
    attend_half value = {piece_at(c, layer, KV_VALUES, head, 0), l->has.value_length, l->row_bytes[KV_VALUES],
                         piece_bytes(c, layer, KV_VALUES)};
    return (attend_cache){key, halves_of(l) == KV_HALVES ? value : key, kv_pages_row(c->pages, sequence)};
}

/* Writes the values [heads][length] of one half of a position. */
static void store_half(const kv_cache *c, const kernels *k, uint32_t layer, kv_half half, uint32_t sequence,
                       uint32_t position, const float *values)
{
    const kv_layer *l = &c->layers[layer];
    uint32_t length = half == KV_KEYS ? l->has.head_length : l->has.value_length;
    uint32_t page = kv_pages_row(c->pages, sequence)[position / c->pages->positions];
    size_t row = position % c->pages->positions / l->has.together;
    for (uint32_t head = 0; head < l->has.heads; head++) {
        char *at = piece_at(c, layer, half, head, page) + row * l->row_bytes[half];
        kv_formats[c->format].store(k, values + (size_t)head * length, length, at);
    }
}

void kv_store_key(const kv_cache *c, const kernels *k, uint32_t layer, uint32_t sequence, uint32_t position,
                  const float *key)
{
    store_half(c, k, layer, KV_KEYS, sequence, position, key);
}

void kv_store(const kv_cache *c, const kernels *k, uint32_t layer, uint32_t sequence, uint32_t position,
              const float *key, const float *value)
{
    store_half(c, k, layer, KV_KEYS, sequence, position, key);
    if (halves_of(&c->layers[layer]) == KV_HALVES)
        store_half(c, k, layer, KV_VALUES, sequence, position, value);
}

void kv_copy_page(const kv_cache *c, uint32_t from, uint32_t to, uint32_t length)
{
    for (uint32_t layer = 0; layer < c->layer_count; layer++)
        for (kv_half half = KV_KEYS; half < halves_of(&c->layers[layer]); half++)
            for (uint32_t head = 0; head < c->layers[layer].has.heads; head++)
                memcpy(piece_at(c, layer, half, head, to), piece_at(c, layer, half, head, from),
                       c->layers[layer].row_bytes[half] * (length / c->layers[layer].has.together));
}

size_t kv_saved_bytes(const kv_cache *c, uint32_t length)
{
    size_t bytes = 0;
    for (uint32_t i = 0; i < c->layer_count; i++)
        bytes += kv_bytes(c->format, c->layers[i].has, length);
    return bytes;
}

/* Called for each piece of a sequence in a fixed order: moves bytes between a block and the piece. */
typedef void move_piece(char *block, char *piece, size_t bytes);

static void to_block(char *block, char *piece, size_t bytes)
{
    memcpy(block, piece, bytes);
}
static void from_block(char *block, char *piece, size_t bytes)
{
    memcpy(piece, block, bytes);
}

/* Moves the first `length` positions of a sequence to or from a compact block. */
static void move_sequence(const kv_cache *c, uint32_t sequence, uint32_t length, char *block, move_piece *move)
{
    const uint32_t *pages = kv_pages_row(c->pages, sequence);
    uint32_t positions = c->pages->positions;
    for (uint32_t layer = 0; layer < c->layer_count; layer++) {
        const kv_layer *l = &c->layers[layer];
        for (uint32_t i = 0; i < halves_of(l) * l->has.heads; i++) { /* all keys, then all values */
            kv_half half = i / l->has.heads;
            for (uint32_t begin = 0; begin < length; begin += positions) {
                uint32_t count = length - begin < positions ? length - begin : positions;
                size_t bytes = count / l->has.together * l->row_bytes[half];
                move(block, piece_at(c, layer, half, i % l->has.heads, pages[begin / positions]), bytes);
                block += bytes;
            }
        }
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
