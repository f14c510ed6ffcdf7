/* fuzz_importance.c - an importance matrix of either kind.
 *
 * Covers: src/file/importance.c
 *
 * Whatever it is: no fault, and every value is finite and not negative. */
#include "../src/file/importance.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    checkpoint *c;
    hearth_error error;
    if (importance_parse(&c, data, size, "fuzz", &error) != HEARTH_OK)
        return 0;
    for (size_t i = 0; i < c->tensor_count; i++) {
        const stored_tensor *t = &c->tensors[i];
        for (size_t k = 0; k < t->size_bytes / sizeof(float); k++) {
            float value;
            memcpy(&value, (const char *)t->data + k * sizeof value, sizeof value);
            if (!isfinite(value) || value < 0)
                abort();
        }
    }
    checkpoint_close(c);
    return 0;
}
