/* state_file.c - see state_file.h. */
#include "state_file.h"

#include <string.h>

#define VERSION 1

static const char magic[8] = {'h', 'e', 'a', 'r', 't', 'h', 'S', 'Q'};

/* Where the members of the head lie. */
enum {
    AT_VERSION = 8,
    AT_FORMAT = 12,
    AT_FINGERPRINT = 16,
    AT_LAYOUT = 48,
    AT_LENGTH = 80,
    AT_STATE = 88,
    AT_HASH = 96
};

/* hearth runs on little-endian machines alone (file/gguf.h), so numbers are copied as they are. */
static uint32_t take_u32(const uint8_t *at)
{
    uint32_t n;
    memcpy(&n, at, sizeof n);
    return n;
}

static uint64_t take_u64(const uint8_t *at)
{
    uint64_t n;
    memcpy(&n, at, sizeof n);
    return n;
}

/* Returns the hash of a file that its head should have. */
static hash128 hash_of(const uint8_t *head, const state_view *v)
{
    hash128 h = hash_begin();
    hash_bytes(&h, head, AT_HASH);
    hash_bytes(&h, v->tokens, v->length * sizeof(int32_t));
    hash_bytes(&h, v->state, v->state_bytes);
    return h;
}

void state_file_head(uint8_t head[STATE_FILE_HEAD], const state_identity *is, const state_view *v)
{
    const uint32_t version = VERSION, format = is->format;
    const uint64_t length = v->length, bytes = v->state_bytes;
    memcpy(head, magic, sizeof magic);
    memcpy(head + AT_VERSION, &version, sizeof version);
    memcpy(head + AT_FORMAT, &format, sizeof format);
    memcpy(head + AT_FINGERPRINT, is->fingerprint, HASH_TEXT_SIZE - 1);
    memcpy(head + AT_LAYOUT, is->layout, HASH_TEXT_SIZE - 1);
    memcpy(head + AT_LENGTH, &length, sizeof length);
    memcpy(head + AT_STATE, &bytes, sizeof bytes);
    hash128 h = hash_of(head, v);
    memcpy(head + AT_HASH, &h.a, sizeof h.a);
    memcpy(head + AT_HASH + sizeof h.a, &h.b, sizeof h.b);
}

/* ------------------------------------------------------------------ reading */

static hearth_status check_head(const uint8_t *head, const state_identity *is, const char *path, hearth_error *error)
{
    uint32_t version = take_u32(head + AT_VERSION), format = take_u32(head + AT_FORMAT);
    if (version != VERSION)
        return fail(error, HEARTH_UNSUPPORTED, "%s: is of version %u, this hearth reads version %u", path, version,
                    VERSION);
    if (memcmp(head + AT_FINGERPRINT, is->fingerprint, HASH_TEXT_SIZE - 1) != 0)
        return fail(error, HEARTH_INVALID, "%s: is of another model than this one, which is %s", path, is->fingerprint);
    if (format != (uint32_t)is->format)
        return fail(error, HEARTH_INVALID, "%s: its keys and values have another format", path);
    if (memcmp(head + AT_LAYOUT, is->layout, HASH_TEXT_SIZE - 1) != 0)
        return fail(error, HEARTH_INVALID,
                    "%s: was saved with weights in other formats, other activations, or layers on other sides", path);
    return HEARTH_OK;
}

/* Checks the sizes that the head gives, and finds what they are of. */
static hearth_status find_parts(state_view *out, const uint8_t *data, size_t size, const char *path,
                                hearth_error *error)
{
    uint64_t length = take_u64(data + AT_LENGTH), state_bytes = take_u64(data + AT_STATE),
             rest = size - STATE_FILE_HEAD;
    if (length > rest / sizeof(int32_t) || state_bytes > rest - length * sizeof(int32_t))
        return fail(error, HEARTH_FORMAT, "%s: is cut short", path);
    if (state_bytes < rest - length * sizeof(int32_t))
        return fail(error, HEARTH_FORMAT, "%s: is longer than it says", path);
    out->length = (size_t)length;
    out->tokens = data + STATE_FILE_HEAD;
    out->state = out->tokens + length * sizeof(int32_t);
    out->state_bytes = (size_t)state_bytes;
    hash128 h = hash_of(data, out);
    if (h.a != take_u64(data + AT_HASH) || h.b != take_u64(data + AT_HASH + 8))
        return fail(error, HEARTH_FORMAT, "%s: is damaged: its bytes do not have the hash that they were saved with",
                    path);
    return HEARTH_OK;
}

hearth_status state_file_parse(state_view *out, const uint8_t *data, size_t size, const state_identity *identity,
                               const char *path, hearth_error *error)
{
    if (size < sizeof magic || memcmp(data, magic, sizeof magic) != 0)
        return fail(error, HEARTH_FORMAT, "%s: is not a saved sequence", path);
    if (size < STATE_FILE_HEAD)
        return fail(error, HEARTH_FORMAT, "%s: is cut short", path);
    TRY(check_head(data, identity, path, error));
    TRY(find_parts(out, data, size, path, error));
    if (out->length > identity->context)
        return fail(error, HEARTH_FULL, "%s: has %zu tokens, the context only %u", path, out->length,
                    identity->context);
    for (size_t i = 0; i < out->length; i++)
        if (take_u32(out->tokens + i * sizeof(int32_t)) >= identity->vocabulary)
            return fail(error, HEARTH_FORMAT, "%s: token %zu is not one of the vocabulary", path, i);
    return HEARTH_OK;
}
