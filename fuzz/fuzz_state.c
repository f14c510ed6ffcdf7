/* fuzz_state.c - any bytes as the file of a saved sequence.
 * Covers: src/engine/state_file.c */
#include "touch.h"

#include "../src/engine/state_file.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static const state_identity identity = {.fingerprint = "0123456789abcdef0123456789abcdef",
                                        .layout = "fedcba9876543210fedcba9876543210",
                                        .format = HEARTH_KV_F16,
                                        .context = 8,
                                        .vocabulary = 300};

/* What is accepted can be read, and is what a writer would write of it. */
static void touch(const state_view *v, const uint8_t *data)
{
    uint8_t head[STATE_FILE_HEAD];
    touch_bytes(v->tokens, v->length * sizeof(int32_t));
    touch_bytes(v->state, v->state_bytes);
    state_file_head(head, &identity, v);
    if (v->length > identity.context || memcmp(head, data, sizeof head) != 0)
        abort();
}

/* Gives bytes that are long enough the hash that they should have, as no fuzzer finds it. The last byte says whether to. */
static void mend(uint8_t *data, size_t size)
{
    uint64_t length, state_bytes;
    memcpy(&length, data + 80, sizeof length);
    memcpy(&state_bytes, data + 88, sizeof state_bytes);
    if (data[size - 1] % 4 == 0 || length > size || state_bytes > size ||
        length * sizeof(int32_t) + state_bytes != size - STATE_FILE_HEAD)
        return;
    hash128 h = hash_begin();
    hash_bytes(&h, data, 96);
    hash_bytes(&h, data + STATE_FILE_HEAD, size - STATE_FILE_HEAD);
    memcpy(data + 96, &h, sizeof h);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    state_view v;
    hearth_error error = {0};
    long before = mem_live();
    uint8_t *own = malloc(size + 1); /* of its exact size but one, so that reading beyond it is noticed */
    if (!own)
        abort();
    if (size > 0)
        memcpy(own, data, size);
    if (size > STATE_FILE_HEAD)
        mend(own, size);
    hearth_status status = state_file_parse(&v, own, size, &identity, "fuzz.seq", &error);
    if (status == HEARTH_OK)
        touch(&v, own);
    free(own);
    check_end(status, &error, before);
    return 0;
}
