/* fuzz_kl.c - any bytes as a logits file.
 * Covers: src/eval/kl_file.c */
#include "touch.h"

#include "../src/eval/kl_file.h"

#include <math.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

/* A row that is accepted can be computed with: every logarithm is finite, and none is above that of certainty. */
static void touch_row(const kl_file *f, uint32_t window, size_t number)
{
    kl_row row;
    hearth_error error = {0};
    hearth_status status = kl_file_row(f, window, number, &row, &error);
    if ((status == HEARTH_OK) != (error.text[0] == 0))
        abort();
    for (uint32_t i = 0; status == HEARTH_OK && i < f->vocabulary_size; i++) {
        double log_p = row.min + (double)row.scale * row.values[i];
        if (!isfinite(log_p) || log_p > 1e-2)
            abort();
    }
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    kl_file f;
    hearth_error error = {0};
    long before = mem_live();
    hearth_status status = kl_file_parse(&f, data, size, "fuzz.kld", &error);
    if (status == HEARTH_OK) {
        int32_t *ids = mem_new_array(f.context, sizeof *ids);
        for (uint32_t w = 0; ids && w < f.window_count; w++) {
            kl_file_window(&f, w, ids);
            for (uint32_t i = 0; i < f.context; i++)
                if (ids[i] < 0 || (uint32_t)ids[i] >= f.vocabulary_size)
                    abort();
            for (size_t i = 0; i < f.rows_per_window; i++)
                touch_row(&f, w, i);
            kl_file_drop(&f, w);
        }
        mem_free(ids);
        kl_file_close(&f);
    }
    check_end(status, &error, before);
    return 0;
}
