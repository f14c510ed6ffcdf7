/* fuzz_split.c - a model that is split over three GGUF files: the first byte says which is opened (0 to 2; 3: a path that
 * is no part's), the rest are the parts (parts.h).
 * Covers: src/file/gguf_split.c */
#include "touch.h"

#include "../src/file/gguf.h"
#include "parts.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static const char *const names[] = {"m-00001-of-00003.gguf", "m-00002-of-00003.gguf", "m-00003-of-00003.gguf",
                                    "m.gguf"};

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    checkpoint *c;
    hearth_error error = {0};
    char path[128];
    long before = mem_live();
    if (size == 0)
        return 0;
    parts_write(names, 4, data + 1, size - 1);
    snprintf(path, sizeof(path), "%s/%s", parts_folder, names[data[0] % 4]);
    hearth_status status = gguf_open(&c, path, &error);
    if (status == HEARTH_OK) {
        touch_checkpoint(c);
        checkpoint_close(c);
    }
    check_end(status, &error, before);

    error = (hearth_error){0};
    status = gguf_open_any(&c, path, &error);
    if (status == HEARTH_OK) {
        for (size_t i = 0; i < c->tensor_count; i++)
            touch_bytes(c->tensors[i].data, c->tensors[i].size_bytes);
        checkpoint_close(c);
    }
    check_end(status, &error, before);
    return 0;
}
