/* fuzz_safetensors.c - any bytes as a safetensors file, or as a folder of two shards with their index.
 * Covers: src/file/safetensors.c
 *
 * The first byte decides: 'F', the rest is one file in memory; 'D', the rest is three parts, each but
 * the last behind its length in two bytes: index, shard "1", shard "2". Anything else is a file as it is. */
#include "touch.h"

#include "../src/file/safetensors.h"
#include "../src/file/weights.h"

#include "parts.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static const char *const names[] = {"model.safetensors.index.json", "1", "2"};

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    checkpoint *c;
    hearth_error error = {0};
    long before = mem_live();
    hearth_status status;
    if (checkpoint_create(&c, "fuzz", NULL) != HEARTH_OK)
        return 0;
    if (size && data[0] == 'D') {
        parts_write(names, 3, data + 1, size - 1);
        status = weights_add_folder(c, parts_folder, &error);
    } else {
        size_t skip = size && data[0] == 'F';
        status = safetensors_parse(c, data + skip, size - skip, "fuzz.safetensors", &error);
    }
    touch_checkpoint(c);
    checkpoint_close(c);
    check_end(status, &error, before);
    return 0;
}
