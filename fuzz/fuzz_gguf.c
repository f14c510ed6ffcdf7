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
    return 0;
}
