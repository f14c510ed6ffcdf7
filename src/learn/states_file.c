/* states_file.c - the bytes of rows of hidden states and of their manifest, and their removal. */
#include "states_internal.h"

#include "../base/file.h"
#include "../base/memory.h"
#include "../base/text.h"
#include "../number/half.h"
#include "bits.h"

#include <math.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

/* More than the size of any manifest. */
#define MANIFEST_BYTES ((size_t)1 << 12)
#define LAYER_NAME     "layer-%u.states"

/* ------------------------------------------------------------------ rows */

row_shape row_shape_of(const hearth_model *m)
{
    row_shape s = {m->hyper.embedding_length, m->hyper.neuron_count, bits_words(m->hyper.neuron_count), 0};
    size_t raw = s.words * sizeof(uint64_t) + sizeof(float) + (size_t)s.d * sizeof(uint16_t);
    s.bytes = (raw + 7) / 8 * 8;
    return s;
}

void row_encode(const row_shape *s, const hearth_observation *seen, uint8_t *row)
{
    uint64_t *bits = (uint64_t *)(void *)row;
    float *size = (float *)(void *)(bits + s->words);
    uint16_t *stream = (uint16_t *)(void *)(size + 1);
    bits_pack(seen->activations, seen->neuron_count, 0, bits);
    double squares = 0;
    for (uint32_t i = 0; i < s->d; i++)
        squares += (double)seen->residual[i] * seen->residual[i];
    *size = (float)sqrt(squares / s->d);
    if (!isfinite(*size)) /* a broken model: its rows become zeros */
        *size = 0;
    for (uint32_t i = 0; i < s->d; i++)
        stream[i] = *size > 0 ? half_from_float(seen->residual[i] / *size) : 0;
}

void row_decode(const row_shape *s, const uint8_t *row, const float *norm, float epsilon, float *input)
{
    float size;
    uint16_t stream;
    const uint8_t *at = row + s->words * sizeof(uint64_t);
    memcpy(&size, at, sizeof size);
    at += sizeof size;
    float scale = norm ? (float)(size / sqrt((double)size * size + epsilon)) : size;
    for (uint32_t i = 0; i < s->d; i++) {
        memcpy(&stream, at + i * sizeof stream, sizeof stream);
        input[i] = half_to_float(stream) * scale;
    }
    for (uint32_t i = 0; norm && i < s->d; i++)
        input[i] *= norm[i];
}

/* ------------------------------------------------------------------ manifest */

uint64_t manifest_kept_of(const manifest *m, uint64_t group)
{
    uint64_t begin = group * m->stride, left = m->corpus_tokens - begin;
    hash128 h = hash_begin();
    hash_number(&h, group);
    return begin + (h.a >> 32) % (left < m->stride ? left : m->stride);
}

uint64_t manifest_rows_before(const manifest *m, uint64_t tokens)
{
    if (tokens >= m->corpus_tokens)
        return (m->corpus_tokens + m->stride - 1) / m->stride;
    uint64_t group = tokens / m->stride;
    return group + (manifest_kept_of(m, group) < tokens);
}

/* Prints the manifest as one line that ends with a hash of the rest. Returns false: no memory. */
static bool print(const manifest *m, buffer *text)
{
    char sum[HASH_TEXT_SIZE];
    if (!buffer_print(text, "hearth-states 1 %s %s %llu %llu %llu %u %u %u", m->fingerprint, m->digest,
                      (unsigned long long)m->corpus_tokens, (unsigned long long)m->stride,
                      (unsigned long long)m->tokens, m->layers, m->d, m->f))
        return false;
    hash128 h = hash_begin();
    hash_bytes(&h, text->data, text->size);
    hash_print(sum, &h);
    return buffer_print(text, " %s\n", sum);
}

/* Parses a manifest. Text that differs in any byte from what print makes is damaged: HEARTH_FORMAT. */
static hearth_status parse(manifest *m, const char *text, size_t size)
{
    unsigned long long corpus_tokens, stride, tokens;
    buffer again = {0};
    *m = (manifest){0};
    if (sscanf(text, "hearth-states 1 %32s %32s %llu %llu %llu %u %u %u", m->fingerprint, m->digest, &corpus_tokens,
               &stride, &tokens, &m->layers, &m->d, &m->f) != 8)
        return HEARTH_FORMAT;
    m->corpus_tokens = corpus_tokens;
    m->stride = stride;
    m->tokens = tokens;
    bool printed = print(m, &again);
    bool same = printed && again.size == size && memcmp(again.data, text, size) == 0;
    buffer_free(&again);
    if (!printed)
        return HEARTH_NO_MEMORY;
    return same && stride > 0 && corpus_tokens > 0 && tokens <= corpus_tokens ? HEARTH_OK : HEARTH_FORMAT;
}

hearth_status manifest_read(manifest *out, const char *folder, hearth_error *error)
{
    char *text = NULL, *path = file_join(folder, MANIFEST_NAME);
    size_t size;
    if (!path)
        return fail_memory(error, folder, strlen(folder));
    hearth_status status = file_read(&text, &size, path, MANIFEST_BYTES, error);
    hearth_status parsed = status == HEARTH_OK ? parse(out, text, size) : HEARTH_OK;
    if (parsed == HEARTH_FORMAT)
        status = fail(error, HEARTH_FORMAT, "%s: hidden states: the manifest is damaged", path);
    else if (parsed != HEARTH_OK)
        status = fail_memory(error, path, size);
    mem_free(text);
    mem_free(path);
    return status;
}

hearth_status manifest_write(const manifest *m, const char *folder, hearth_error *error)
{
    buffer text = {0};
    file_writer *writer = NULL;
    char *path = file_join(folder, MANIFEST_NAME);
    hearth_status status =
        path && print(m, &text) ? file_writer_open(&writer, path, error) : fail_memory(error, folder, MANIFEST_BYTES);
    if (status == HEARTH_OK) {
        status = file_writer_put(writer, text.data, text.size, error);
        if (status == HEARTH_OK)
            status = file_writer_commit(writer, error);
        else
            file_writer_discard(writer);
    }
    buffer_free(&text);
    mem_free(path);
    return status;
}

char *states_layer_path(const char *folder, uint32_t layer)
{
    char name[32];
    snprintf(name, sizeof name, LAYER_NAME, layer);
    return file_join(folder, name);
}

/* ------------------------------------------------------------------ removal */

static bool remove_layer(const char *folder, uint32_t layer)
{
    char *path = states_layer_path(folder, layer);
    bool removed = path && unlink(path) == 0;
    mem_free(path);
    return removed;
}

/* Returns whether a layer's file exists. */
static bool has_layer(const char *folder, uint32_t layer)
{
    char *path = states_layer_path(folder, layer);
    bool found = path && file_exists(path);
    mem_free(path);
    return found;
}

/* Removes the manifest first: without it the rows are meaningless. Layers are found by file name, since a damaged
 * manifest does not say how many there are. They are removed from the last on, so that a removal that was interrupted
 * can find the rest. */
void states_remove(const char *folder)
{
    uint32_t layers = 0;
    char *path = file_join(folder, MANIFEST_NAME);
    if (path)
        (void)unlink(path);
    mem_free(path);
    while (has_layer(folder, layers))
        layers++;
    while (layers > 0 && remove_layer(folder, layers - 1))
        layers--;
}
