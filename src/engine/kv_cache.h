/* kv_cache.h - the keys and values of every position that the sequences of a session have read.
 *
 * Layout, per layer: keys [sequence][kv_head][context][head_length], then values likewise, so that the attention of one
 * head streams through consecutive memory. The space is reserved at once and becomes resident as sequences grow. */
#ifndef ENGINE_KV_CACHE_H
#define ENGINE_KV_CACHE_H

#include "../device/kernels/kernels.h"
#include "../kernel/kernel.h"

/* A format of the cache. number_formats has its size, kernels.attend its kernel on the CPU. */
typedef struct kv_format_row {
    number_format stored;
    void (*store)(const kernels *k, const float *values, size_t n, void *at); /* converts n values */
    device_kernel place, attend;                                              /* of a device: stores; reads */
} kv_format_row;

extern const kv_format_row kv_formats[HEARTH_KV_COUNT];

/* Returns the bytes of n values of a row, n a multiple of the format's block. */
size_t kv_bytes(hearth_kv format, size_t n);

typedef struct kv_cache {
    void *data;
    size_t size_bytes;
    hearth_kv format;
    uint32_t layers, sequences, heads, context, head_length;
} kv_cache;

/* Returns the bytes that one position of one sequence takes, in all layers. */
uint64_t kv_position_bytes(hearth_kv format, uint32_t layers, uint32_t heads, uint32_t head_length);

/* Computes the bytes of the whole cache; returns false if they overflow. */
bool kv_cache_bytes(hearth_kv format, uint32_t layers, uint32_t sequences, uint32_t heads, uint32_t context,
                    uint32_t head_length, size_t *out);

/* Reserves the memory of a cache and fills in *out.
 * HEARTH_INVALID: its size overflows.
 * HEARTH_NO_MEMORY: the text says how much was wanted. */
hearth_status kv_cache_create(kv_cache *out, hearth_kv format, uint32_t layers, uint32_t sequences, uint32_t heads,
                              uint32_t context, uint32_t head_length, hearth_error *error);
void kv_cache_destroy(kv_cache *c);

/* Return the keys or values [context][head_length] of one head. */
void *kv_keys(const kv_cache *c, uint32_t layer, uint32_t sequence, uint32_t head);
void *kv_values(const kv_cache *c, uint32_t layer, uint32_t sequence, uint32_t head);

/* Writes the key and value [heads][head_length] of one position. */
void kv_store(const kv_cache *c, const kernels *k, uint32_t layer, uint32_t sequence, uint32_t position,
              const float *key, const float *value);

/* Copies the first `length` positions of a sequence, of all layers and heads, to another one of the same cache. */
void kv_copy(const kv_cache *c, uint32_t from, uint32_t to, uint32_t length);

/* Copy the same positions to and from a compact block of length * kv_position_bytes. */
void kv_save(const kv_cache *c, uint32_t sequence, uint32_t length, void *block);
void kv_restore(const kv_cache *c, uint32_t sequence, uint32_t length, const void *block);

#endif
