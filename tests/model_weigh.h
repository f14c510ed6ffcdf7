/* model_weigh.h - how far the matrices of a written model are from those of its source, weighed by an importance matrix. */
#ifndef TESTS_MODEL_WEIGH_H
#define TESTS_MODEL_WEIGH_H

#include "../src/model/convert.h"
#include "../src/model/model.h"

#include "model_build.h"

/* Returns the sum of the squared errors of all matrices of rank 2 that `weights` has, each times the weight of its
 * column. */
static inline double weighed_error(const checkpoint *model, const checkpoint *written, const checkpoint *weights)
{
    double sum = 0;
    for (size_t i = 0; i < weights->tensor_count; i++) {
        const stored_tensor *t = checkpoint_find_tensor(model, weights->tensors[i].name);
        const stored_tensor *w = checkpoint_find_tensor(written, weights->tensors[i].name);
        assert_non_null(t);
        assert_non_null(w);
        if (t->rank != 2)
            continue;
        const float *weight = weights->tensors[i].data;
        size_t columns = (size_t)t->shape[0], rows = (size_t)t->shape[1];
        assert_int_equal(weights->tensors[i].shape[0], columns);
        float *exact = malloc(2 * columns * sizeof *exact), *got = exact + columns;
        assert_non_null(exact);
        for (size_t row = 0; row < rows; row++) {
            number_formats[t->format].decode((const char *)t->data + row * (t->size_bytes / rows), exact, columns);
            number_formats[w->format].decode((const char *)w->data + row * (w->size_bytes / rows), got, columns);
            for (size_t k = 0; k < columns; k++)
                sum += (double)weight[k] * ((double)exact[k] - (double)got[k]) * ((double)exact[k] - (double)got[k]);
        }
        free(exact);
    }
    return sum;
}

/* Returns that error after `source` was written to `out` in a format, with an importance matrix or, NULL, without. */
static inline double error_of_format(const char *source, const char *out, number_format format, const char *importance,
                                     const checkpoint *weights, pool *threads)
{
    checkpoint *model, *written;
    hearth_error error;
    const convert_options options = {.format = format, .importance = importance};
    must(convert_write(source, out, &options, threads, &error), &error);
    must(model_open_checkpoint(&model, source, &error), &error);
    must(model_open_checkpoint(&written, out, &error), &error);
    double sum = weighed_error(model, written, weights);
    checkpoint_close(written);
    checkpoint_close(model);
    return sum;
}

#endif
