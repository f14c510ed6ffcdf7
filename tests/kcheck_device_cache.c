/* kcheck_device_cache.c - see kcheck_device_cache.h. */
#include "kcheck_device_cache.h"

#include "../src/number/half.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

shape values_of(const shape *p)
{
    shape v = *p;
    v.length = p->value_length;
    v.piece = p->value_piece;
    return v;
}

static size_t piece_bytes(const shape *p, size_t length)
{
    const number_traits *t = &number_formats[p->format];
    size_t bytes = p->positions * (length / t->block_values) * t->block_bytes;
    return (bytes + ARGUMENT_ALIGNMENT - 1) / ARGUMENT_ALIGNMENT * ARGUMENT_ALIGNMENT;
}

void lay_out_pages(shape *p, uint64_t *rng)
{
    lay_out_pages_together(p, 1, rng);
}

shape with_one_key_head(shape p, uint64_t *rng)
{
    p.heads /= p.kv_heads;
    p.kv_heads = 1;
    free(p.pages);
    lay_out_pages(&p, rng);
    return p;
}

void lay_out_pages_together(shape *p, size_t together, uint64_t *rng)
{
    p->together = together;
    p->positions = (p->context < ATTEND_POSITIONS ? p->context : ATTEND_POSITIONS) / together;
    p->table = (p->context + ATTEND_POSITIONS - 1) / ATTEND_POSITIONS;
    p->piece = piece_bytes(p, p->length);
    p->value_piece = piece_bytes(p, p->value_length);
    p->page = p->kv_heads * p->piece + ARGUMENT_ALIGNMENT * random_below(rng, 3);
    size_t used = p->sequences * p->table, all = used + random_below(rng, 3);
    p->cached = all * p->page;
    uint32_t *numbers = array_new(all, sizeof *numbers);
    for (size_t i = 0; i < all; i++) {
        size_t other = random_below(rng, i + 1);
        numbers[i] = numbers[other];
        numbers[other] = (uint32_t)i;
    }
    p->pages = numbers;
}

static const size_t lengths[HEAD_LENGTHS] = {1, 2, 6, 8, 20, 48, 64, 80, 100, 128, 200, 256, 2056};
static const size_t ratios[] = {1, 4, 8, 3, 7};

/* Values of all queries of a case: a device that interprets its kernels takes seconds for so many. */
#define MOST_QUERY_VALUES (1u << 20)

shape random_shape(check *c, number_format format, size_t s, size_t most_context, bool shortens, uint64_t *rng)
{
    size_t block = number_formats[format].block_values;
    shape p = {.format = format, .kv_heads = 1 + random_below(rng, 3)};
    p.length = (lengths[s % COUNT_OF(lengths)] + block - 1) / block * block;
    p.value_length = shortens && s % 3 == 1 ? (1 + random_below(rng, p.length / block)) * block : p.length;
    p.heads = p.kv_heads * ratios[s % COUNT_OF(ratios)];
    p.count = random_count(rng);
    while (p.count > 1 && p.count * p.heads * p.length > MOST_QUERY_VALUES)
        p.count /= 2;
    size_t apart = p.count <= STEP_ROWS ? STEP_ROWS : CHECKED_ROWS;
    p.context = apart + random_below(rng, p.length > 256 ? 40 : most_context);
    p.sequences = 1 + random_below(rng, 3);
    p.stride_q = p.heads * p.length + 8 * random_below(rng, 3) + random_below(rng, 4) / 3;
    p.stride_k = p.kv_heads * p.length + random_below(rng, 5);
    lay_out_pages(&p, rng);
    for (size_t t = 0; t < p.count; t++) { /* no two rows at the same place */
        p.sequence[t] = (uint32_t)random_below(rng, p.sequences);
        p.position[t] = (uint32_t)(random_below(rng, p.context / apart) * apart + t);
    }
    if (random_below(rng, 4) == 0)
        p.position[p.count - 1] = (uint32_t)p.context - 1; /* the last there is; the multiples above may end before */
    for (size_t t = 0; t + 1 < p.count; t++)
        if (p.position[t] == p.context - 1)
            p.position[t] -= (uint32_t)apart;
    snprintf(c->size, sizeof(c->size), "%zu heads on %zu of %zu, %zu, context %zu, %u rows, first at %u", p.heads,
             p.kv_heads, p.length, p.value_length, p.context, p.count, p.position[0]);
    return p;
}

room step_of(device *d, const shape *p)
{
    return step_new(d, p->count, p->sequence, p->position, NULL);
}

size_t piece_at(const shape *p, size_t sequence, size_t kv_head, size_t position)
{
    return p->pages[sequence * p->table + position / ATTEND_POSITIONS] * p->page + kv_head * p->piece;
}

void lay_out_gathered(shape *p, size_t most, uint64_t *rng)
{
    p->sequences = p->count;
    p->context = most + ATTEND_POSITIONS;
    lay_out_pages(p, rng);
    p->page = p->piece;
    p->cached = p->sequences * p->table * p->page;
    for (size_t i = 0; i < p->sequences * p->table; i++)
        p->pages[i] = (uint32_t)i;
}

size_t key_of_piece(const shape *p, size_t position)
{
    return position % ATTEND_POSITIONS / p->together;
}

room pages_of(device *d, const shape *p)
{
    return room_new(d, p->pages, p->sequences * p->table * sizeof *p->pages);
}

float cached(const shape *p, const void *cache, size_t sequence, size_t kv_head, size_t position, size_t i)
{
    const uint8_t *piece = (const uint8_t *)cache + piece_at(p, sequence, kv_head, position);
    size_t at = key_of_piece(p, position) * p->length + i;
    if (p->format == FORMAT_Q8_0) {
        const uint16_t *scales = (const uint16_t *)(const void *)(piece + p->positions * p->length);
        return (float)((const int8_t *)piece)[at] * half_to_float(scales[at / 32]);
    }
    return p->format == FORMAT_F16 ? half_to_float(((const uint16_t *)(const void *)piece)[at])
                                   : ((const float *)(const void *)piece)[at];
}

/* Where a key lies in a cache, and its scales of Q8_0. */
typedef struct key_bytes {
    size_t at, size, scales_at, scales_size;
} key_bytes;

static key_bytes bytes_of_key(const shape *p, key_place at)
{
    size_t begin = piece_at(p, at.sequence, at.head, at.position), key = key_of_piece(p, at.position);
    size_t size = p->length * (p->format == FORMAT_F32 ? 4 : p->format == FORMAT_F16 ? 2 : 1);
    size_t scales = p->format == FORMAT_Q8_0 ? size / 16 : 0;
    return (key_bytes){begin + key * size, size, begin + p->positions * size + key * scales, scales};
}

void copy_key(const shape *to_shape, void *to, key_place to_place, const shape *from_shape, const void *from,
              key_place from_place)
{
    key_bytes a = bytes_of_key(to_shape, to_place), b = bytes_of_key(from_shape, from_place);
    memcpy((char *)to + a.at, (const char *)from + b.at, a.size);
    memcpy((char *)to + a.scales_at, (const char *)from + b.scales_at, a.scales_size);
}

void *random_cache(const shape *p, uint64_t *rng)
{
    uint8_t *cache = array_new(p->cached, 1);
    for (size_t begin = 0; begin < p->cached; begin += p->page)
        for (size_t head = 0; head < p->kv_heads; head++) {
            uint8_t *piece = cache + begin + head * p->piece;
            size_t n = p->positions * p->length;
            for (size_t i = 0; i < n; i++) {
                float value = random_rough(rng);
                if (p->format == FORMAT_Q8_0)
                    piece[i] = (uint8_t)random_bits(rng);
                else if (p->format == FORMAT_F16)
                    ((uint16_t *)(void *)piece)[i] = half_from_float(value);
                else
                    ((float *)(void *)piece)[i] = value;
                if (p->format == FORMAT_Q8_0 && i % 32 == 0)
                    ((uint16_t *)(void *)(piece + n))[i / 32] = half_from_float(value / 127);
            }
        }
    return cache;
}

void run_cache_checks(check *c, device *d, const cache_check *all, size_t count, uint64_t *rng)
{
    for (size_t i = 0; i < count; i++) {
        check_begin(c, all[i].name);
        all[i].run(c, d, all[i].kernel, all[i].format, rng);
    }
}
