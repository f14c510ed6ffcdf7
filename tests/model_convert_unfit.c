/* model_convert_unfit.c - values that the new format cannot hold: the first is refused by tensor, place and value, and
 * nothing is written; where they are allowed they are counted, and written as the format says. */
#include "model_build.h"

#include "file_build.h"

#include "../src/base/pool.h"
#include "../src/file/gguf.h"
#include "../src/model/convert.h"

#include <math.h>

#define GOLDEN HEARTH_DATA "/golden/"

static pool *threads;
static char folder[256], plain_path[300], spoilt_path[300], out_path[300];

/* The golden model in float32 with one value of a tensor replaced, as spoilt_path. */
static void spoil(const char *tensor, size_t row, size_t column, float value)
{
    hearth_error error;
    checkpoint *c;
    gguf_writer *w;
    must(gguf_open(&c, plain_path, &error), &error);
    must(gguf_writer_open(&w, spoilt_path, false, c->entries, c->entry_count, c->tensors, c->tensor_count, &error),
         &error);
    for (size_t i = 0; i < c->tensor_count; i++) {
        const stored_tensor *t = &c->tensors[i];
        float *values = malloc(t->size_bytes);
        memcpy(values, t->data, t->size_bytes);
        if (strcmp(t->name, tensor) == 0) {
            assert_int_equal(t->format, FORMAT_F32);
            values[row * t->shape[0] + column] = value;
        }
        must(gguf_writer_put(w, values, t->size_bytes, &error), &error);
        free(values);
    }
    must(gguf_writer_commit(w, &error), &error);
    checkpoint_close(c);
}

static void count_unfit(void *user, const convert_step *step)
{
    *(uint64_t *)user += step->unfit;
}

/* Writes out_path; *unfit: values that were counted. */
static hearth_status convert(convert_options o, uint64_t *unfit, hearth_error *error)
{
    *unfit = 0;
    o.step = count_unfit;
    o.user = unfit;
    unlink(out_path);
    return convert_write(spoilt_path, out_path, &o, threads, error);
}

/* What became of the value. */
static float written(const char *tensor, size_t row, size_t column)
{
    hearth_error error;
    checkpoint *c;
    must(gguf_open(&c, out_path, &error), &error);
    const stored_tensor *t = checkpoint_find_tensor(c, tensor);
    assert_non_null(t);
    size_t columns = (size_t)t->shape[0], row_bytes;
    assert_true(number_row_bytes(t->format, columns, &row_bytes));
    float *values = malloc(columns * sizeof *values);
    number_formats[t->format].decode((const char *)t->data + row * row_bytes, values, columns);
    float value = values[column];
    free(values);
    checkpoint_close(c);
    return value;
}

#define TO(format_)                \
    {                              \
        .format = FORMAT_##format_ \
    }
#define PACK_TO(format_)                                                              \
    {                                                                                 \
        .format = FORMAT_COUNT, .neuron_major = true, .down_format = FORMAT_##format_ \
    }

static void test_refused(void **state)
{
    (void)state;
    /* expected: behind "tensor NAME: value 5 of row 3 is " */
    static const struct {
        const char *tensor;
        float value;
        convert_options options;
        const char *expected;
    } cases[] = {
        {"blk.0.ffn_up.weight", 70000, TO(F16), "70000, and f16 holds 65520 at most; --allow-nonfinite "},
        {"blk.1.attn_q.weight", -INFINITY, TO(F16), "-inf; --allow-nonfinite "},
        {"blk.1.attn_q.weight", NAN, TO(BF16), "NaN; --allow-nonfinite "},
        {"blk.0.ffn_gate.weight", NAN, TO(Q8_0), "NaN; --allow-nonfinite "},
        {"blk.0.ffn_gate.weight", 1e7f, TO(Q8_0), "1e+07, and q8_0 holds 8.31901e+06 at most"},
        {"blk.0.ffn_gate.weight", INFINITY, TO(Q4_0), "inf; --allow-nonfinite "},
        {"blk.0.ffn_gate.weight", -600000, TO(Q4_0), "-600000, and q4_0 holds 524032 at most"},
        {"blk.0.ffn_down.weight", 70000, PACK_TO(F16), "70000, and f16 holds 65520 at most"},
        {"blk.0.ffn_down.weight", NAN, PACK_TO(Q8_0), "NaN; --allow-nonfinite "},
    };
    long live = mem_live();
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        hearth_error error;
        uint64_t unfit;
        char where[600];
        spoil(cases[i].tensor, 3, 5, cases[i].value);
        assert_int_equal(convert(cases[i].options, &unfit, &error), HEARTH_FORMAT);
        snprintf(where, sizeof where, "%s: tensor %s: value 5 of row 3 is %s", spoilt_path, cases[i].tensor,
                 cases[i].expected);
        expect_text(&error, where);
        assert_int_equal(count_files(folder), 2); /* the plain model and the spoilt one */
        assert_int_equal(mem_live(), live);

        convert_options all = cases[i].options;
        all.allow_nonfinite = true;
        must(convert(all, &unfit, &error), &error);
        assert_int_equal(unfit, 1);
        unlink(out_path);
    }
}

/* Of vectors too, which become float32: an infinite one is told, one that is merely large is none. */
static void test_vectors(void **state)
{
    (void)state;
    hearth_error error;
    uint64_t unfit;
    spoil("output_norm.weight", 0, 5, 1e30f);
    must(convert((convert_options)TO(F16), &unfit, &error), &error);
    assert_int_equal(unfit, 0);
    assert_true(written("output_norm.weight", 0, 5) == 1e30f);
}

/* The largest value is none too many; what is allowed comes out as the format has it. */
static void test_written(void **state)
{
    (void)state;
    static const char tensor[] = "blk.0.ffn_up.weight";
    hearth_error error;
    uint64_t unfit;
    convert_options f16 = TO(F16), q8_0 = TO(Q8_0);
    spoil(tensor, 3, 5, 65519);
    must(convert(f16, &unfit, &error), &error);
    assert_int_equal(unfit, 0);
    assert_true(written(tensor, 3, 5) == 65504);
    f16.allow_nonfinite = q8_0.allow_nonfinite = true;
    spoil(tensor, 3, 5, 65520);
    must(convert(f16, &unfit, &error), &error);
    assert_int_equal(unfit, 1);
    assert_true(isinf(written(tensor, 3, 5)));
    spoil(tensor, 3, 5, NAN);
    must(convert(f16, &unfit, &error), &error);
    assert_true(isnan(written(tensor, 3, 5)));
    must(convert(q8_0, &unfit, &error), &error);
    assert_int_equal(unfit, 1);
    assert_true(written(tensor, 3, 5) == 0);
}

static int set_up(void **state)
{
    (void)state;
    make_folder(folder, sizeof folder);
    snprintf(plain_path, sizeof plain_path, "%s/plain.gguf", folder);
    snprintf(spoilt_path, sizeof spoilt_path, "%s/spoilt.gguf", folder);
    snprintf(out_path, sizeof out_path, "%s/out.gguf", folder);
    if (pool_create(&threads, 3, NULL) != HEARTH_OK)
        return 1;
    convert_options f32 = TO(F32);
    if (access(GOLDEN, R_OK) == 0 && convert_write(GOLDEN "llama", plain_path, &f32, threads, NULL) != HEARTH_OK)
        return 1;
    return 0;
}

static int tear_down(void **state)
{
    (void)state;
    pool_destroy(threads);
    remove_folder(folder);
    return 0;
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_refused),
        cmocka_unit_test(test_vectors),
        cmocka_unit_test(test_written),
    };
    return run_group(tests, set_up, tear_down);
}
