/* kv_cache.h - the keys and values of every position that the sequences of a session have read, of the CPU's layers.
 *
 * Layout, per layer: keys [kv_head][page][positions of a page][length], or fewer rows where some positions have one together, then values likewise, so that the attention of
 * one head streams through consecutive memory where the pages of a sequence follow one another. Whole pages side by side,
 * each with all layers and heads, made attention to 16384 positions a fifth slower. The space is reserved at once and
 * becomes resident as sequences grow. Which pages a sequence has is not decided here (kv_pages.h). */
#ifndef ENGINE_KV_CACHE_H
#define ENGINE_KV_CACHE_H

#include "../device/kernels/kernels.h"
#include "../kernel/kernel.h"
#include "../model/layer.h"
#include "kv_pages.h"

/* A format of the cache. number_formats has its size, kernels.attend its kernel on the CPU. */
typedef struct kv_format_row {
    number_format stored;
    void (*store)(const kernels *k, const float *values, size_t n, void *at); /* converts n values */
    device_kernel place, attend; /* of a device: stores; reads; for chosen positions: */
    device_kernel pool_keys, score_positions, attend_chosen;
    device_kernel gather, attend_gathered; /* for windows and summaries                                     */
    size_t scale_bytes; /* of a block, that a device keeps behind the values of all positions (P_PAGES) */
} kv_format_row;

extern const kv_format_row kv_formats[HEARTH_KV_COUNT];

/* What is kept of a position, where keys are not values too. */
typedef enum kv_half { KV_KEYS, KV_VALUES, KV_HALVES } kv_half;

/* The keys and values of one layer, its summaries, or the keys by which it chooses positions: a layer of the cache of its own. */
typedef struct kv_layer {
    cached_keys has;
    size_t row_bytes[KV_HALVES]; /* one row of one head: one position, or those that are together */
    size_t begin;                /* of its keys in the cache; values follow */
} kv_layer;

typedef struct kv_cache {
    void *data;
    size_t size_bytes;
    hearth_kv format;
    const kv_pages *pages; /* of the session */
    uint32_t layer_count;
    kv_layer *layers; /* [layer_count] */
} kv_cache;

/* Returns the values of a key, or else of a value, which are no whole blocks of a format; 0: it can hold both. */
uint32_t kv_misfit(hearth_kv format, cached_keys keys);
/* Return the bytes of one row, keys and values together: of one position of one sequence, or of those that are together; and of the
 * first so many positions. */
size_t kv_row_bytes(hearth_kv format, cached_keys keys);
size_t kv_bytes(hearth_kv format, cached_keys keys, size_t positions);

/* Reserves the memory of a cache for `count` layers, each with such keys, and fills in *out. pages: must outlive it.
 * HEARTH_INVALID: its size overflows.
 * HEARTH_NO_MEMORY: the text says how much was wanted. */
hearth_status kv_cache_create(kv_cache *out, hearth_kv format, const cached_keys *keys, uint32_t count,
                              const kv_pages *pages, hearth_error *error);
void kv_cache_destroy(kv_cache *c);

/* Returns the keys and values of one head, as kernels read them. */
attend_cache kv_head(const kv_cache *c, uint32_t layer, uint32_t sequence, uint32_t head);

/* Writes the key [heads][head_length] of a position, or of those that are together with it, as kv_store does. */
void kv_store_key(const kv_cache *c, const kernels *k, uint32_t layer, uint32_t sequence, uint32_t position,
                  const float *key);
/* Writes the key [heads][head_length] and value [heads][value_length] of one position, whose page the sequence has alone. */
void kv_store(const kv_cache *c, const kernels *k, uint32_t layer, uint32_t sequence, uint32_t position,
              const float *key, const float *value);

/* Copies the first `length` positions of a page, of all layers and heads, to another page. */
void kv_copy_page(const kv_cache *c, uint32_t from, uint32_t to, uint32_t length);

/* Returns the bytes of the block that kv_save writes. */
size_t kv_saved_bytes(const kv_cache *c, uint32_t length);

/* Copy the first `length` positions of a sequence, of all layers and heads, to and from a compact block of
 * kv_saved_bytes. */
void kv_save(const kv_cache *c, uint32_t sequence, uint32_t length, void *block);
void kv_restore(const kv_cache *c, uint32_t sequence, uint32_t length, const void *block);

#endif
