/* file_importance.c - importance matrices of both kinds, and what is no importance matrix. */
#include "../src/file/importance.h"

#include "file_build.h"

#include <math.h>

static void put_float(buffer *b, float value)
{
    put(b, &value, sizeof value);
}

/* An entry of the older list. */
static void put_entry(buffer *b, const char *name, uint32_t calls, const float *values, uint32_t count)
{
    put_u32(b, (uint32_t)strlen(name));
    put(b, name, strlen(name));
    put_u32(b, calls);
    put_u32(b, count);
    for (uint32_t i = 0; i < count; i++)
        put_float(b, values[i]);
}

static hearth_status parse(const void *data, size_t size, hearth_error *error, checkpoint **out)
{
    uint8_t *copy = exact_copy(data, size);
    hearth_status status = importance_parse(out, copy, size, "imatrix", error);
    free(copy);
    return status;
}

static void expect_values(const checkpoint *c, const char *name, uint64_t columns, uint64_t matrices,
                          const float *values)
{
    const stored_tensor *t = checkpoint_find_tensor(c, name);
    assert_non_null(t);
    assert_int_equal(t->rank, 2);
    assert_int_equal(t->shape[0], columns);
    assert_int_equal(t->shape[1], matrices);
    assert_memory_equal(t->data, values, columns * matrices * sizeof *values);
}

static void reads_the_older_list(void **state)
{
    (void)state;
    static const float a[] = {2, 4, 0}, b[] = {1, 9};
    buffer file = {0};
    checkpoint *c;
    hearth_error error;
    put_u32(&file, 2);
    put_entry(&file, "blk.0.attn_q.weight", 2, a, 3);
    put_entry(&file, "blk.0.ffn_down.weight", 0, b, 2);
    put_u32(&file, 7); /* calls in all, and the text: not needed */
    assert_int_equal(parse(file.data, file.size, &error, &c), HEARTH_OK);
    expect_values(c, "blk.0.attn_q.weight", 3, 1, (float[]){1, 2, 0});
    expect_values(c, "blk.0.ffn_down.weight", 2, 1, (float[]){1, 1});
    checkpoint_close(c);
    for (size_t size = 0; size < file.size - 4; size++)
        assert_int_equal(parse(file.data, size, &error, &c), HEARTH_FORMAT);
    buffer_free(&file);
}

/* Writes a file with sums {2, 6, 8, 1} of two experts and their counts, and reads it. */
static hearth_status read_gguf(const char *folder, const stored_tensor *tensors, size_t count, hearth_error *error,
                               checkpoint **out)
{
    char path[300];
    gguf_writer *w;
    snprintf(path, sizeof path, "%s/imatrix.gguf", folder);
    assert_int_equal(gguf_writer_open(&w, path, false, NULL, 0, tensors, count, NULL), HEARTH_OK);
    for (size_t i = 0; i < count; i++)
        assert_int_equal(gguf_writer_put(w, tensors[i].data, tensors[i].size_bytes, NULL), HEARTH_OK);
    assert_int_equal(gguf_writer_commit(w, NULL), HEARTH_OK);
    hearth_status status = importance_open(out, path, error);
    unlink(path);
    return status;
}

static void reads_gguf(void **state)
{
    (void)state;
    static const float sums[] = {2, 6, 8, 1}, counts[] = {2, 0}, wrong[] = {NAN, -1};
    char folder[] = "/tmp/hearth-importance.XXXXXX";
    assert_non_null(mkdtemp(folder));
    stored_tensor tensors[] = {{.name = "blk.1.ffn_up_exps.weight.in_sum2",
                                .format = FORMAT_F32,
                                .rank = 2,
                                .shape = {2, 2, 1, 1},
                                .data = sums,
                                .size_bytes = sizeof sums},
                               {.name = "blk.1.ffn_up_exps.weight.counts",
                                .format = FORMAT_F32,
                                .rank = 2,
                                .shape = {1, 2, 1, 1},
                                .data = counts,
                                .size_bytes = sizeof counts}};
    hearth_error error = {0};
    checkpoint *c;
    if (read_gguf(folder, tensors, 2, &error, &c) != HEARTH_OK)
        fail_msg("%s", error.text);
    expect_values(c, "blk.1.ffn_up_exps.weight", 2, 2, (float[]){1, 3, 1, 1}); /* the second was never used */
    checkpoint_close(c);

    tensors[1].data = wrong;
    assert_int_equal(read_gguf(folder, tensors, 2, &error, &c), HEARTH_FORMAT);
    assert_non_null(strstr(error.text, "blk.1.ffn_up_exps.weight: a value is negative or not finite"));
    tensors[1].data = (float[]){1, 1e-38f}; /* the quotient is not finite */
    assert_int_equal(read_gguf(folder, tensors, 2, &error, &c), HEARTH_FORMAT);
    assert_non_null(strstr(error.text, "a value is negative or not finite"));
    assert_int_equal(read_gguf(folder, tensors, 1, &error, &c), HEARTH_FORMAT);
    assert_non_null(strstr(error.text, "does not go with its counts"));
    tensors[1].shape[1] = 1;
    tensors[1].size_bytes = 4;
    assert_int_equal(read_gguf(folder, tensors, 2, &error, &c), HEARTH_FORMAT);
    assert_int_equal(read_gguf(folder, tensors + 1, 1, &error, &c), HEARTH_FORMAT);
    assert_non_null(strstr(error.text, "holds no importance of any matrix"));
    rmdir(folder);
}

static void reads_what_was_written(void **state)
{
    (void)state;
    const double sums[] = {2, 6, 8, 1}, rows[] = {2, 0}, one[] = {3}, large[] = {1, 1e39};
    const importance_entry entries[] = {{"blk.1.ffn_up_exps.weight", 2, 2, sums, rows},
                                        {"blk.1.attn_q.weight", 1, 1, one, one}};
    const importance_entry wrong = {"a", 2, 1, large, one};
    const span name = span_of("text");
    const importance_text text = {&name, 1, 3, 512};
    char folder[] = "/tmp/hearth-importance.XXXXXX", path[64];
    hearth_error error = {0};
    checkpoint *c;
    assert_non_null(mkdtemp(folder));
    snprintf(path, sizeof path, "%s/imatrix.gguf", folder);
    assert_int_equal(importance_write(path, entries, 2, &text, &error), HEARTH_OK);
    assert_int_equal(importance_open(&c, path, &error), HEARTH_OK);
    assert_int_equal(c->tensor_count, 2);
    expect_values(c, "blk.1.ffn_up_exps.weight", 2, 2, (float[]){1, 3, 1, 1});
    expect_values(c, "blk.1.attn_q.weight", 1, 1, (float[]){1});
    checkpoint_close(c);
    unlink(path);
    assert_int_equal(importance_write(path, &wrong, 1, &text, &error), HEARTH_INVALID);
    assert_non_null(strstr(error.text, "a: a sum of squared inputs is too large for float32"));
    assert_int_equal(rmdir(folder), 0); /* nothing is left in it */
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(reads_the_older_list), cmocka_unit_test(reads_gguf),
                                       cmocka_unit_test(reads_what_was_written)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
