/* fuzz_gguf.c - any bytes as a GGUF file.
 * Covers: src/file/gguf_read.c */
#include "touch.h"

#include "../src/file/gguf.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    checkpoint *c;
    hearth_error error = {0};
    long before = mem_live();
    hearth_status status = gguf_parse(&c, data, size, "fuzz.gguf", &error);
    if (status == HEARTH_OK) {
        touch_checkpoint(c);
        checkpoint_close(c);
    }
    check_end(status, &error, before);

    /* Types of tensors need not be known: their bytes are those up to the next one. */
    error = (hearth_error){0};
    status = gguf_parse_any(&c, data, size, "fuzz.gguf", &error);
    if (status == HEARTH_OK) {
        for (size_t i = 0; i < c->tensor_count; i++)
            touch_bytes(c->tensors[i].data, c->tensors[i].size_bytes);
        checkpoint_close(c);
    }
    check_end(status, &error, before);
    return 0;
}
