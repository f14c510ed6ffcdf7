/* fuzz_sentencepiece.c - any bytes as a tokenizer.model.
 * Covers: src/file/sentencepiece.c */
#include "touch.h"

#include "../src/file/sentencepiece.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    checkpoint *c;
    hearth_error error = {0};
    long before = mem_live();
    if (checkpoint_create(&c, "fuzz", NULL) != HEARTH_OK)
        return 0;
    hearth_status status = sentencepiece_parse(c, data, size, "tokenizer.model", &error);
    touch_checkpoint(c);
    checkpoint_close(c);
    check_end(status, &error, before);
    return 0;
}
