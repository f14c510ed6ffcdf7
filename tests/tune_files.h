/* tune_files.h - what the tests of tune files share beside the records of tune_build.h: a file's name in the folder of
 * pack_build.h, models that take no folder, and a file of made parts. */
#ifndef TESTS_TUNE_FILES_H
#define TESTS_TUNE_FILES_H

#include "pack_build.h"

#include "tune_build.h"

static char tune_file[320];

/* The tiny model; with ReLU made records fit it: low-rank in layer 0, coarse in layer 1. */
static inline hearth_model *tiny_model(const char *activation)
{
    hearth_error error;
    hearth_model *m;
    checkpoint *c = tiny_gguf(NULL);
    must(checkpoint_set_string(c, "llama.hidden_activation", span_of(activation), &error), &error);
    must(model_bind(&m, c, NULL, &error), &error);
    return m;
}

static inline void write_made(const char *path, const hearth_model *m, unsigned parts, number_format format,
                              uint32_t rank)
{
    hearth_error error;
    tune *t = make_tune(m, parts, format, rank);
    must(tune_write(path, t, m, &error), &error);
    tune_close(t);
}

/* Hottest first, ties by number: by definition, one pair after the other. */
static inline void expect_order(const tune *t)
{
    for (uint32_t layer = 0; layer < t->layer_count; layer++) {
        const tune_layer *l = &t->layers[layer];
        assert_int_equal(l->order == NULL, l->counts == NULL);
        for (uint32_t i = 1; l->order && i < l->neuron_count; i++) {
            uint32_t a = l->order[i - 1], b = l->order[i];
            assert_true(a < l->neuron_count && b < l->neuron_count);
            bool in_order = a < b;
            assert_true(l->counts[a] > l->counts[b] || (l->counts[a] == l->counts[b] && in_order));
        }
    }
}

static inline int set_up_tune_files(void **state)
{
    int failed = set_up(state);
    snprintf(tune_file, sizeof tune_file, "%s/x.tune", folder);
    return failed;
}

#endif
