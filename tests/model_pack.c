/* model_pack - neuron-major files, and neurons in another order.
 *
 * Expected values: the original's rows under their original numbers, and the definition of a transpose. Every
 * failure leaves no file behind. */
#include "pack_build.h"

#include "../src/model/neuron_major.h"

#include <math.h>

static hearth_model *packed(const char *from, convert_options o, seen *s)
{
    hearth_error error;
    must(convert(from, out_path, o, s, &error), &error);
    return open_model(out_path);
}

/* Value n of row i of any matrix. */
static void decode_row(const matrix *m, size_t row, float *values)
{
    number_formats[m->format].decode(matrix_row(m, row), values, m->columns);
}

static float *decode_all(const matrix *m)
{
    float *values = malloc((size_t)m->rows * m->columns * sizeof *values);
    for (size_t row = 0; row < m->rows; row++)
        decode_row(m, row, values + row * m->columns);
    return values;
}

static void same_bytes(const matrix *a, size_t row_a, const matrix *b, size_t row_b)
{
    assert_int_equal(a->format, b->format);
    assert_int_equal(a->row_bytes, b->row_bytes);
    assert_memory_equal(matrix_row(a, row_a), matrix_row(b, row_b), a->row_bytes);
}

/* ----------------------------------------------------------------- transposed */

/* A float matrix keeps every value: the definition, value by value. */
static void test_floats(void **state)
{
    (void)state;
    static const number_format formats[] = {FORMAT_F32, FORMAT_F16, FORMAT_BF16};
    static const char *const names[] = {"llama-relu", "llama-256", "pwri/llama/plain-f16.gguf"};
    for (size_t n = 0; n < sizeof names / sizeof *names; n++)
        for (size_t i = 0; i < 3; i++) {
            char path[512];
            seen s;
            hearth_error error;
            snprintf(path, sizeof path, GOLDEN "%s", names[n]);
            must(convert(path, more_path, (convert_options){.format = formats[i]}, &s, &error), &error);
            hearth_model *plain = open_model(more_path), *m = packed(more_path, (convert_options){PACK}, &s);
            assert_int_equal(s.transposed, m->hyper.layer_count);
            assert_true(s.relative_error == 0);
            assert_true(m->neuron_major && !m->requantised && !m->powerinfer);
            for (uint32_t l = 0; l < m->hyper.layer_count; l++) {
                const matrix *down = &plain->layers[l].down, *t = &m->layers[l].down_t;
                assert_null(m->layers[l].down.data);
                assert_int_equal(t->format, formats[i]);
                size_t bytes = number_formats[formats[i]].block_bytes;
                for (size_t row = 0; row < down->rows; row++)
                    for (size_t c = 0; c < down->columns; c++)
                        if (memcmp((const char *)matrix_row(down, row) + c * bytes,
                                   (const char *)matrix_row(t, c) + row * bytes, bytes) != 0)
                            fail_msg("%s: layer %u: [%zu][%zu]", path, l, row, c);
                same_bytes(&m->layers[l].gate, 3, &plain->layers[l].gate, 3);
            }
            hearth_model_close(plain);
            hearth_model_close(m);
        }
}

/* Rounded again: no value is further off than Q8_0 allows, and the error that is said is the error. */
static void test_blocks(void **state)
{
    (void)state;
    static const number_format formats[] = {FORMAT_Q8_0, FORMAT_Q4_0, FORMAT_Q4_K, FORMAT_Q6_K};
    for (size_t i = 0; i < sizeof formats / sizeof *formats; i++) {
        seen s;
        hearth_error error;
        must(convert(GOLDEN "llama-256", more_path, (convert_options){.format = formats[i]}, &s, &error), &error);
        hearth_model *plain = open_model(more_path), *m = packed(more_path, (convert_options){PACK}, &s);
        assert_true(m->requantised);
        double worst = 0;
        for (uint32_t l = 0; l < m->hyper.layer_count; l++) {
            const matrix *down = &plain->layers[l].down, *t = &m->layers[l].down_t;
            double distance = 0, size = 0;
            assert_int_equal(t->format, FORMAT_Q8_0);
            float *x = decode_all(down), *y = decode_all(t);
            for (size_t n = 0; n < t->rows; n++)
                for (size_t b = 0; b < t->columns; b += 32) {
                    double most = 0;
                    for (size_t c = b; c < b + 32; c++)
                        most = fmax(most, fabs((double)x[c * down->columns + n]));
                    for (size_t c = b; c < b + 32; c++) {
                        double want = (double)x[c * down->columns + n], off = (double)y[n * t->columns + c] - want;
                        /* half a step, and the scale in float16 */
                        assert_true(fabs(off) <= most * (0.5 / 127 + 0x1p-11) * 1.001);
                        distance += off * off;
                        size += want * want;
                    }
                }
            worst = fmax(worst, sqrt(distance / size));
            free(x);
            free(y);
        }
        assert_true(worst > 1e-4 && worst < 1e-2);
        if (fabs(s.relative_error - worst) > 1e-9)
            fail_msg("%g %g", s.relative_error, worst);
        hearth_model_close(plain);
        hearth_model_close(m);
    }
}

/* --down-type: as the encoder of that format has it, from the float original; not counted as rounded twice. */
static void test_down_format(void **state)
{
    (void)state;
    for (number_format f = 0; f < FORMAT_COUNT; f++) {
        if (!number_is_written(f))
            continue;
        seen s;
        convert_options o = {PACK};
        o.down_format = f;
        hearth_model *plain = open_model(GOLDEN "llama-256"), *m = packed(GOLDEN "llama-256", o, &s);
        assert_false(m->requantised);
        for (uint32_t l = 0; l < m->hyper.layer_count; l++) {
            const matrix *t = &m->layers[l].down_t;
            size_t d = t->columns, columns = plain->layers[l].down.columns;
            float *x = decode_all(&plain->layers[l].down), *row = malloc(d * sizeof *row);
            char *wanted = malloc(t->row_bytes);
            assert_int_equal(t->format, f);
            assert_int_equal(m->layers[l].gate.format, FORMAT_BF16);
            for (size_t n = 0; n < t->rows; n++) {
                for (size_t i = 0; i < d; i++)
                    row[i] = x[i * columns + n];
                number_formats[f].encode(row, NULL, wanted, d);
                assert_memory_equal(wanted, matrix_row(t, n), t->row_bytes);
            }
            free(x);
            free(row);
            free(wanted);
        }
        assert_true((s.relative_error > 0) == (f != FORMAT_F32 && f != FORMAT_BF16));
        hearth_model_close(plain);
        hearth_model_close(m);
    }
}

/* ------------------------------------------------------------------- order */

/* A permutation of its own for every layer; mem of the caller's stack. */
typedef struct shuffle {
    uint32_t *layers[8];
    size_t count;
} shuffle;

static shuffle make_order(uint32_t layers, uint32_t f, uint32_t seed)
{
    shuffle s = {.count = layers};
    assert_true(layers <= 8);
    for (uint32_t l = 0; l < layers; l++) {
        s.layers[l] = malloc(f * sizeof(uint32_t));
        for (uint32_t i = 0; i < f; i++)
            s.layers[l][i] = i;
        for (uint32_t i = f - 1; i > 0; i--) {
            seed = seed * 1664525u + 1013904223u;
            uint32_t k = (seed >> 8) % (i + 1), kept = s.layers[l][i];
            s.layers[l][i] = s.layers[l][k];
            s.layers[l][k] = kept;
        }
    }
    return s;
}

static void free_order(shuffle *s)
{
    for (size_t i = 0; i < s->count; i++)
        free(s->layers[i]);
}

/* Row r of m holds neuron order[r] of the original, in every tensor that has a row per neuron. */
static void expect_order(const hearth_model *m, const hearth_model *original, const shuffle *s)
{
    for (uint32_t l = 0; l < m->hyper.layer_count; l++) {
        const model_layer *a = &m->layers[l], *b = &original->layers[l];
        assert_non_null(a->order);
        for (uint32_t r = 0; r < m->layers[0].ffn.neuron_count; r++) {
            uint32_t n = s->layers[l][r];
            assert_int_equal(a->order[r], n);
            same_bytes(&a->gate, r, &b->gate, n);
            same_bytes(&a->up, r, &b->up, n);
            same_bytes(&a->down_t, r, &b->down_t, n);
            if (b->fc2.data)
                same_bytes(&a->fc2, r, &b->fc2, n);
            if (b->gate_bias)
                assert_true(a->gate_bias[r] == b->gate_bias[n]);
            if (b->up_bias)
                assert_true(a->up_bias[r] == b->up_bias[n]);
        }
        if (b->fc1.data)
            expect_same_matrix(&a->fc1, &b->fc1);
        expect_same_matrix(&a->q, &b->q);
    }
}

/* A plain file, and PowerInfer's; then that once more in another order, and a quantised one. */
static void test_order(void **state)
{
    (void)state;
    static const char *const names[] = {"llama/plain-f16.gguf", "llama/f16.gguf", "bamboo/q4_0.gguf"};
    for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
        char path[512];
        seen s;
        hearth_error error;
        snprintf(path, sizeof path, PWRI "%s", names[i]);
        hearth_model *original = packed(path, (convert_options){PACK}, &s);
        assert_null(original->layers[0].order);
        assert_false(original->powerinfer);
        uint32_t layers = original->hyper.layer_count, f = original->layers[0].ffn.neuron_count;
        shuffle once = make_order(layers, f, 1), twice = make_order(layers, f, 2);
        convert_options o = {PACK, .order = (const uint32_t *const *)once.layers};
        must(convert(path, more_path, o, &s, &error), &error);
        hearth_model *m = open_model(more_path);
        expect_order(m, original, &once);
        assert_int_equal(m->layers[0].ffn.activation, FFN_RELU);
        assert_int_equal(m->predictors, i > 0);
        hearth_model_close(m);

        o.order = (const uint32_t *const *)twice.layers; /* by original numbers, whatever the rows are now */
        char third[400];
        snprintf(third, sizeof third, "%s/third.gguf", folder);
        must(convert(more_path, third, o, &s, &error), &error);
        m = open_model(third);
        expect_order(m, original, &twice);
        hearth_model_close(m);

        o.order = NULL; /* another conversion keeps an order */
        must(convert(third, more_path, o, &s, &error), &error);
        m = open_model(more_path);
        expect_order(m, original, &twice);
        hearth_model_close(m);
        unlink(third);
        free_order(&once);
        free_order(&twice);
        hearth_model_close(original);
    }
}

static void test_bad_orders(void **state)
{
    (void)state;
    seen s;
    hearth_error error;
    unlink(out_path);
    shuffle order = make_order(2, 1056, 3);
    convert_options o = {PACK, .order = (const uint32_t *const *)order.layers};
    uint32_t kept = order.layers[1][7];
    order.layers[1][7] = order.layers[1][8];
    assert_int_equal(convert(PWRI "llama/f16.gguf", out_path, o, &s, &error), HEARTH_INVALID);
    expect_text(&error, "f16.gguf: order of layer 1: neuron ");
    expect_text(&error, " comes twice");
    order.layers[1][7] = 1056;
    assert_int_equal(convert(PWRI "llama/f16.gguf", out_path, o, &s, &error), HEARTH_INVALID);
    expect_text(&error, "order of layer 1: neuron 1056 does not exist");
    order.layers[1][7] = kept;
    o.neuron_major = false;
    assert_int_equal(convert(PWRI "llama/f16.gguf", out_path, o, &s, &error), HEARTH_INVALID);
    expect_text(&error, "order: needs a neuron-major file");
    assert_int_equal(access(out_path, F_OK), -1);
    free_order(&order);
}

/* A tiny model with every bias, as a GGUF file. */
static void write_biased(const char *path)
{
    hearth_error error;
    static const tiny_tensor biases[] = {{"blk.%d.ffn_gate.bias", NULL, 1, TINY_F, 1},
                                         {"blk.%d.ffn_up.bias", NULL, 1, TINY_F, 1},
                                         {"blk.%d.ffn_down.bias", NULL, 1, TINY_D, 1}};
    checkpoint *c = tiny_gguf(NULL);
    for (int layer = 0; layer < TINY_LAYERS; layer++)
        for (size_t i = 0; i < 3; i++) {
            char name[64];
            snprintf(name, sizeof name, biases[i].name, layer);
            stored_tensor t = {.name = name,
                               .format = FORMAT_F32,
                               .rank = 1,
                               .shape = {biases[i].columns, 1, 1, 1},
                               .data = tiny_values + 1000 * (size_t)(layer + 1) + 100 * i,
                               .size_bytes = biases[i].columns * sizeof(float)};
            must(checkpoint_add_tensor(c, &t, &error), &error);
        }
    gguf_writer *w;
    must(gguf_writer_open(&w, path, false, c->entries, c->entry_count, c->tensors, c->tensor_count, &error), &error);
    for (size_t i = 0; i < c->tensor_count; i++)
        must(gguf_writer_put(w, c->tensors[i].data, c->tensors[i].size_bytes, &error), &error);
    must(gguf_writer_commit(w, &error), &error);
    checkpoint_close(c);
}

static void test_biases(void **state)
{
    (void)state;
    seen s;
    hearth_error error;
    write_biased(more_path);
    hearth_model *original = packed(more_path, (convert_options){PACK}, &s);
    assert_true(original->layers[1].up_bias && original->layers[1].down_bias);
    assert_true(original->layers[1].up_bias[5] == 2105);
    assert_true(original->layers[0].down_bias[3] == 1203);
    shuffle order = make_order(TINY_LAYERS, TINY_F, 4);
    char third[400];
    snprintf(third, sizeof third, "%s/third.gguf", folder);
    convert_options o = {PACK, .order = (const uint32_t *const *)order.layers};
    must(convert(more_path, third, o, &s, &error), &error);
    hearth_model *m = open_model(third);
    expect_order(m, original, &order);
    assert_memory_equal(m->layers[1].down_bias, original->layers[1].down_bias, TINY_D * sizeof(float));
    hearth_model_close(m);
    hearth_model_close(original);
    free_order(&order);
    unlink(third);
}

/* ----------------------------------------------------------------- failure */

static void test_failures(void **state)
{
    (void)state;
    shuffle order = make_order(2, 1056, 5);
    convert_options o = {PACK, .order = (const uint32_t *const *)order.layers};
    fail_everywhere(PWRI "llama/plain-f16.gguf", &o);
    o.down_format = FORMAT_Q4_0;
    fail_everywhere(PWRI "llama/f16.gguf", &o);
    free_order(&order);
}

static bool refuse_second(void *user, const char *what, uint64_t done, uint64_t total)
{
    int *calls = user;
    assert_string_equal(what, "converting");
    assert_true(done <= total);
    return ++*calls < 2;
}

static void test_cancel(void **state)
{
    (void)state;
    seen s;
    int calls = 0;
    long live = mem_live();
    hearth_error error;
    convert_options o = {PACK, .progress = {refuse_second, &calls}};
    unlink(out_path);
    unlink(more_path);
    assert_int_equal(convert(PWRI "llama/plain-f16.gguf", out_path, o, &s, &error), HEARTH_CANCELLED);
    assert_int_equal(count_files(folder), 0);
    assert_int_equal(mem_live(), live);
}

/* One thread and three write the same bytes. */
static void test_threads(void **state)
{
    (void)state;
    seen s[2];
    size_t size[2];
    uint8_t *bytes[2];
    pool *all = threads;
    hearth_error error;
    for (int i = 0; i < 2; i++) {
        convert_options o = {.format = FORMAT_Q4_K, .neuron_major = true, .down_format = FORMAT_COUNT};
        if (i == 1)
            must(pool_create(&threads, 1, &error), &error);
        must(convert(GOLDEN "llama-256", out_path, o, &s[i], &error), &error);
        bytes[i] = load_file(out_path, &size[i]);
    }
    pool_destroy(threads);
    threads = all;
    assert_true(s[0].relative_error > 0 && s[0].relative_error == s[1].relative_error);
    assert_int_equal(size[0], size[1]);
    assert_memory_equal(bytes[0], bytes[1], size[0]);
    free(bytes[0]);
    free(bytes[1]);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_floats),   cmocka_unit_test(test_blocks),     cmocka_unit_test(test_down_format),
        cmocka_unit_test(test_order),    cmocka_unit_test(test_bad_orders), cmocka_unit_test(test_biases),
        cmocka_unit_test(test_failures), cmocka_unit_test(test_cancel),     cmocka_unit_test(test_threads),
    };
    return run_group(tests, set_up, tear_down);
}
