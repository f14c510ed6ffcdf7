/* model_importance.c - quantizing with an importance matrix: in every format that searches for its scales the error, weighed
 * as the matrix says, is smaller than without one. */
#include "model_weigh.h"

#include "file_build.h"

#include "../src/base/pool.h"
#include "../src/base/random.h"
#include "../src/file/importance.h"

#include <math.h>

#define SOURCE HEARTH_DATA "/golden/llama-256/model.gguf"

static pool *threads;
static char folder[] = "/tmp/hearth-weighed.XXXXXX", weights_path[64], out_path[64];

/* Draws weights that differ widely: a few columns in a hundred are used much more than the others. */
static float draw_weight(uint64_t *random)
{
    double uniform = (double)(random_next(random) >> 11) * 0x1p-53;
    return (float)(1e-3 + pow(uniform, 8) * 100);
}

/* Writes an importance matrix for all matrices of layers. */
static void write_weights(const checkpoint *model)
{
    buffer file = {0};
    uint64_t random = 1;
    uint32_t count = 0;
    for (size_t i = 0; i < model->tensor_count; i++)
        count += model->tensors[i].rank == 2;
    put_u32(&file, count);
    for (size_t i = 0; i < model->tensor_count; i++) {
        const stored_tensor *t = &model->tensors[i];
        if (t->rank != 2)
            continue;
        put_u32(&file, (uint32_t)strlen(t->name));
        put(&file, t->name, strlen(t->name));
        put_u32(&file, 1);
        put_u32(&file, (uint32_t)t->shape[0]);
        for (uint64_t k = 0; k < t->shape[0]; k++) {
            float weight = draw_weight(&random);
            put(&file, &weight, sizeof weight);
        }
    }
    write_file(weights_path, file.data, file.size);
    buffer_free(&file);
}

static void weighed_errors_fall(void **state)
{
    (void)state;
    static const number_format searched[] = {FORMAT_Q4_0, FORMAT_Q4_1,   FORMAT_Q5_0,  FORMAT_Q5_1,
                                             FORMAT_Q2_K, FORMAT_Q3_K,   FORMAT_Q4_K,  FORMAT_Q5_K,
                                             FORMAT_Q6_K, FORMAT_IQ4_NL, FORMAT_IQ4_XS};
    checkpoint *model, *weights;
    hearth_error error;
    must(gguf_open(&model, SOURCE, &error), &error);
    write_weights(model);
    must(importance_open(&weights, weights_path, &error), &error);
    for (size_t i = 0; i < sizeof searched / sizeof *searched; i++) {
        double plain = error_of_format(SOURCE, out_path, searched[i], NULL, weights, threads);
        double weighed = error_of_format(SOURCE, out_path, searched[i], weights_path, weights, threads);
        print_message("%-7s weighed error %.3f of that without weights\n", number_formats[searched[i]].name,
                      weighed / plain);
        assert_true(weighed < plain);
    }
    checkpoint_close(weights);
    checkpoint_close(model);
}

static void expect_refusal(const buffer *file, hearth_status status, const char *text)
{
    hearth_error error = {0};
    const convert_options options = {.format = FORMAT_Q4_K, .importance = weights_path};
    write_file(weights_path, file->data, file->size);
    unlink(out_path);
    assert_int_equal(convert_write(SOURCE, out_path, &options, threads, &error), status);
    if (!strstr(error.text, text))
        fail_msg("%s", error.text);
    assert_int_not_equal(access(out_path, F_OK), 0);
}

static void weights_of_another_model_are_refused(void **state)
{
    (void)state;
    buffer file = {0};
    const float one = 1;
    put_u32(&file, 1);
    put_u32(&file, 5);
    put(&file, "other", 5);
    put_u32(&file, 1);
    put_u32(&file, 1);
    put(&file, &one, sizeof one);
    expect_refusal(&file, HEARTH_INVALID, "importance: has none of the model's matrices");
    file.size = 4;
    put_u32(&file, 19);
    put(&file, "blk.0.attn_q.weight", 19);
    put_u32(&file, 1);
    put_u32(&file, 1);
    put(&file, &one, sizeof one);
    expect_refusal(&file, HEARTH_FORMAT, "blk.0.attn_q.weight: has weights of 1 columns");
    file.size = 4;
    expect_refusal(&file, HEARTH_FORMAT, "is no importance matrix");
    buffer_free(&file);
}

static int set_up(void **state)
{
    (void)state;
    if (!mkdtemp(folder))
        return 1;
    snprintf(weights_path, sizeof weights_path, "%s/imatrix.dat", folder);
    snprintf(out_path, sizeof out_path, "%s/out.gguf", folder);
    return pool_create(&threads, 2, NULL) != HEARTH_OK;
}

static int tear_down(void **state)
{
    (void)state;
    unlink(weights_path);
    unlink(out_path);
    rmdir(folder);
    pool_destroy(threads);
    return 0;
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(weighed_errors_fall),
        cmocka_unit_test(weights_of_another_model_are_refused),
    };
    return cmocka_run_group_tests(tests, set_up, tear_down);
}
