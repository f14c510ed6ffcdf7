/* device_pages.c - the pages of a session's cache in the memory of a device: where things lie in one, which pages a sequence has,
 * and how they are copied, saved and restored (kv_pages.h has the numbers). */
#include "device_state.h"

#include <string.h>

/* ------------------------------------------------------------------ a page */

/* Returns what a position has in a layer of the cache; index: among those of the device. */
static cached_keys keys_of(const hearth_session *s, uint32_t index)
{
    return s->engine->cached[s->engine->host_caches + index];
}

/* The bytes of one position of one head, of its key or its value. */
typedef struct row_bytes {
    size_t all, scales; /* the scales lie behind the values of all positions */
} row_bytes;

static row_bytes bytes_of(const hearth_session *s, uint32_t index, kv_half half)
{
    cached_keys keys = keys_of(s, index);
    uint32_t length = half == KV_KEYS ? keys.head_length : keys.value_length;
    const kv_format_row *kv = &kv_formats[s->cache.format];
    return (row_bytes){kv_row_bytes(s->cache.format, (cached_keys){1, length, 0, 1}),
                       length / number_formats[kv->stored].block_values * kv->scale_bytes};
}

page_layer device_page_layer(const hearth_session *s, uint32_t index)
{
    page_layer at = {0};
    for (uint32_t i = 0; i <= index; i++) {
        at = (page_layer){.begin = at.end, .end = at.end};
        if (i == s->engine->device_caches)
            break;
        at.halves = keys_of(s, i).value_length > 0 ? KV_HALVES : KV_VALUES;
        for (kv_half half = KV_KEYS; half < at.halves; half++) {
            size_t bytes = s->pages.positions / keys_of(s, i).together * bytes_of(s, i, half).all;
            at.piece_bytes[half] = items_of(bytes, ARGUMENT_ALIGNMENT) * ARGUMENT_ALIGNMENT;
            at.values = half == KV_VALUES ? at.end : at.begin;
            at.end += keys_of(s, i).heads * at.piece_bytes[half];
        }
    }
    return at;
}

size_t device_page_bytes(const hearth_session *s)
{
    return device_page_layer(s, s->engine->device_caches).begin;
}

/* ------------------------------------------------------------------ the table */

hearth_status device_pages_tell(const hearth_session *s, uint32_t sequence, hearth_error *error)
{
    const kv_pages *p = &s->pages;
    const uint32_t *now = kv_pages_row(p, sequence);
    uint32_t *seen = s->device->pages_seen + (size_t)sequence * p->per_sequence;
    uint32_t begin = 0, end = s->engine->device_caches > 0 ? p->taken[sequence] : 0;
    while (begin < end && now[begin] == seen[begin])
        begin++;
    while (end > begin && now[end - 1] == seen[end - 1])
        end--;
    if (begin == end)
        return HEARTH_OK;
    size_t offset = ((size_t)sequence * p->per_sequence + begin) * sizeof *now, bytes = (end - begin) * sizeof *now;
    TRY(device_write(s->device->vectors.pages, offset, now + begin, bytes, error));
    memcpy(seen + begin, now + begin, bytes);
    return HEARTH_OK;
}

/* ------------------------------------------------------------------ their content */

size_t device_kv_bytes(const hearth_session *s, uint32_t length)
{
    size_t bytes = 0;
    for (uint32_t i = 0; i < s->engine->device_caches; i++)
        bytes += kv_bytes(s->cache.format, keys_of(s, i), length);
    return bytes;
}

/* Moves bytes of the cache to or from a block. */
typedef hearth_status move_bytes(device_buffer *cache, size_t offset, char *block, size_t bytes, hearth_error *error);

static hearth_status to_block(device_buffer *cache, size_t offset, char *block, size_t bytes, hearth_error *error)
{
    return device_read(cache, offset, block, bytes, error);
}

static hearth_status from_block(device_buffer *cache, size_t offset, char *block, size_t bytes, hearth_error *error)
{
    return device_write(cache, offset, block, bytes, error);
}

/* Moves the first `count` positions of a page to or from a compact block: layer after layer, of each all keys, then all values.
 * A full page is such a block itself. */
static hearth_status move_page(const hearth_session *s, uint32_t page, uint32_t count, char *block, move_bytes *move,
                               hearth_error *error)
{
    device_buffer *cache = s->device->vectors.cache;
    size_t page_bytes = device_page_bytes(s), begin = page * page_bytes;
    if (device_kv_bytes(s, count) == page_bytes)
        return move(cache, begin, block, page_bytes, error);
    for (uint32_t i = 0; i < s->engine->device_caches; i++) {
        page_layer layer = device_page_layer(s, i);
        uint32_t heads = keys_of(s, i).heads, rows = count / keys_of(s, i).together;
        for (uint32_t piece = 0; piece < layer.halves * heads; piece++) {
            kv_half half = piece / heads;
            row_bytes row = bytes_of(s, i, half);
            size_t values = row.all - row.scales;
            size_t at =
                begin + (half == KV_VALUES ? layer.values : layer.begin) + piece % heads * layer.piece_bytes[half];
            if (rows == 0)
                continue;
            TRY(move(cache, at, block, rows * values, error));
            block += rows * values;
            size_t scales_at = s->pages.positions / keys_of(s, i).together * values;
            if (row.scales > 0)
                TRY(move(cache, at + scales_at, block, rows * row.scales, error));
            block += rows * row.scales;
        }
    }
    return HEARTH_OK;
}

/* Moves the first `length` positions of a sequence. */
static hearth_status move_sequence(const hearth_session *s, uint32_t sequence, uint32_t length, char *block,
                                   move_bytes *move, hearth_error *error)
{
    const uint32_t *pages = kv_pages_row(&s->pages, sequence);
    hearth_status status = HEARTH_OK;
    device_lock(s->device->runtime);
    for (uint32_t begin = 0, n; status == HEARTH_OK && begin < length; begin += n) {
        n = length - begin < s->pages.positions ? length - begin : s->pages.positions;
        status = move_page(s, pages[begin / s->pages.positions], n, block, move, error);
        block += device_kv_bytes(s, n);
    }
    device_unlock(s->device->runtime);
    return status;
}

hearth_status device_kv_copy_page(hearth_session *s, uint32_t from, uint32_t to, hearth_error *error)
{
    size_t bytes = device_page_bytes(s);
    if (bytes == 0)
        return HEARTH_OK;
    device_lock(s->device->runtime);
    hearth_status status =
        device_move(s->device->vectors.cache, to * bytes, s->device->vectors.cache, from * bytes, bytes, error);
    device_unlock(s->device->runtime);
    return status;
}

hearth_status device_kv_save(const hearth_session *s, uint32_t sequence, uint32_t length, void *block,
                             hearth_error *error)
{
    return move_sequence(s, sequence, length, block, to_block, error);
}

hearth_status device_kv_restore(hearth_session *s, uint32_t sequence, uint32_t length, const void *block,
                                hearth_error *error)
{
    return move_sequence(s, sequence, length, (char *)block, from_block, error);
}
