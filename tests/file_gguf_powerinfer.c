/* file_gguf_powerinfer.c - PowerInfer's files: GGUF under another magic, and numbers of neurons beside the weights.
 *
 * The facts of the goldens were read by tests/reference/pwri.py. */
#include "torch_build.h"

#define GOLDEN HEARTH_DATA "/golden/pwri"

static const struct {
    const char *name;
    size_t keys, tensors;
    double threshold;   /* below 0: has no such key           */
    const char *down_t; /* type of blk.1.ffn_down_t.weight    */
    const char *last;   /* name of the last tensor            */
    uint32_t checksum;  /* of all tensors' bytes, in order    */
} goldens[] = {
    {"llama/f32", 23, 25, -1, "f16", "output.weight", 0x8936e0e8},
    {"llama/f16", 23, 25, -1, "f16", "output.weight", 0x7b758895},
    {"llama/q4_0", 24, 25, -1, "q4_0", "output.weight", 0x71a0bed0},
    {"bamboo/f32", 24, 25, 0.25, "f16", "output.weight", 0xbb7602d1},
    {"bamboo/f16", 23, 25, -1, "f16", "output.weight", 0x07b346bf},
    {"bamboo/q4_0", 24, 25, -1, "q4_0", "output.weight", 0x281d360b},
    {"opt/f32", 18, 40, -1, "f16", "output_norm.bias", 0x22838c42},
    {"opt/f16", 18, 40, -1, "f16", "output_norm.bias", 0x93361216},
    {"opt/q4_0", 19, 40, -1, "q4_0", "output_norm.bias", 0xea668ff6},
    {"falcon/f32", 20, 20, -1, "f16", "output.weight", 0x2c1ea47f},
    {"falcon/f16", 21, 20, 0.25, "f16", "output.weight", 0x81ebd35f},
    {"falcon/q4_0", 21, 20, -1, "q4_0", "output.weight", 0xbe7859ab},
};
enum { GOLDENS = sizeof goldens / sizeof *goldens };

static checkpoint *open_gguf(const char *path)
{
    checkpoint *c;
    hearth_error error = {0};
    if (gguf_open(&c, path, &error) != HEARTH_OK)
        fail_msg("%s", error.text);
    return c;
}

static checkpoint *open_golden(size_t i, char *path, size_t size)
{
    snprintf(path, size, GOLDEN "/%s.gguf", goldens[i].name);
    return open_gguf(path);
}

static void check_matrix(const checkpoint *c, const char *name, uint64_t columns, uint64_t rows)
{
    const stored_tensor *t = checkpoint_find_tensor(c, name);
    if (!t)
        fail_msg("%s: %s is missing", c->path, name);
    assert_int_equal(t->rank, 2);
    assert_true(t->shape[0] == columns && t->shape[1] == rows);
}

static void goldens_open(void **state)
{
    (void)state;
    for (size_t i = 0; i < GOLDENS; i++) {
        char path[1024];
        checkpoint *c = open_golden(i, path, sizeof path);
        assert_true(c->powerinfer);
        assert_int_equal(c->entry_count, goldens[i].keys);
        assert_int_equal(c->tensor_count, goldens[i].tensors);
        float threshold = -1;
        bool found;
        hearth_error error;
        assert_int_equal(checkpoint_get_f32(c, "powerinfer.sparse_threshold", &threshold, &found, &error), HEARTH_OK);
        assert_true((double)threshold == goldens[i].threshold);
        check_matrix(c, "blk.0.fc1.weight", 64, 64);
        check_matrix(c, "blk.1.fc2.weight", 64, 1056);
        check_matrix(c, "blk.0.ffn_up.weight", 64, 1056);
        check_matrix(c, "blk.1.ffn_down_t.weight", 64, 1056);
        assert_null(checkpoint_find_tensor(c, "blk.0.ffn_down.weight"));
        const stored_tensor *t = checkpoint_find_tensor(c, "blk.1.ffn_down_t.weight");
        assert_string_equal(number_formats[t->format].name, goldens[i].down_t);
        assert_string_equal(c->tensors[c->tensor_count - 1].name, goldens[i].last);
        buffer all = {0};
        for (size_t k = 0; k < c->tensor_count; k++)
            put(&all, c->tensors[k].data, c->tensors[k].size_bytes);
        assert_int_equal(checksum((const uint8_t *)all.data, all.size), goldens[i].checksum);
        buffer_free(&all);
        checkpoint_close(c);
    }
    checkpoint *plain = open_gguf(GOLDEN "/llama/plain-f16.gguf");
    assert_false(plain->powerinfer);
    checkpoint_close(plain);
}

static void write_again(const checkpoint *c, const char *path, bool powerinfer)
{
    gguf_writer *w;
    hearth_error error = {0};
    if (gguf_writer_open(&w, path, powerinfer, c->entries, c->entry_count, c->tensors, c->tensor_count, &error))
        fail_msg("%s", error.text);
    for (size_t i = 0; i < c->tensor_count; i++)
        assert_int_equal(gguf_writer_put(w, c->tensors[i].data, c->tensors[i].size_bytes, &error), HEARTH_OK);
    assert_int_equal(gguf_writer_commit(w, &error), HEARTH_OK);
}

/* Read and written, a file of pwri.py's comes back byte for byte; written as GGUF, only the magic differs. */
static void goldens_are_written_as_they_were(void **state)
{
    (void)state;
    char folder[512], path[1024], again[600];
    make_folder(folder, sizeof folder);
    snprintf(again, sizeof again, "%s/again.gguf", folder);
    for (size_t i = 0; i < GOLDENS; i++) {
        checkpoint *c = open_golden(i, path, sizeof path);
        for (int powerinfer = 0; powerinfer < 2; powerinfer++) {
            size_t size, written_size;
            write_again(c, again, powerinfer);
            uint8_t *data = load_file(path, &size), *written = load_file(again, &written_size);
            assert_int_equal(size, written_size);
            assert_memory_equal(written, powerinfer ? "PWRI" : "GGUF", 4);
            assert_memory_equal(data + 4, written + 4, size - 4);
            free(data);
            free(written);
            checkpoint *read = open_gguf(again);
            assert_int_equal(read->powerinfer, powerinfer);
            checkpoint_close(read);
        }
        checkpoint_close(c);
    }
    remove_folder(folder);
}

/* The order of the neurons is stored as whole numbers: four bytes each, type 26, and no weights. */
static void numbers_of_neurons(void **state)
{
    (void)state;
    static const stored_tensor order = {.name = "order", .format = FORMAT_I32, .rank = 1, .shape = {5, 1, 1, 1}};
    static const int32_t neurons[5] = {4, 0, 3, INT32_MIN, 1};
    char folder[512], path[600];
    gguf_writer *w;
    hearth_error error = {0};
    make_folder(folder, sizeof folder);
    snprintf(path, sizeof path, "%s/order.gguf", folder);
    assert_int_equal(gguf_writer_open(&w, path, true, NULL, 0, &order, 1, &error), HEARTH_OK);
    assert_int_equal(gguf_writer_put(w, neurons, sizeof neurons, &error), HEARTH_OK);
    assert_int_equal(gguf_writer_commit(w, &error), HEARTH_OK);

    /* magic, version, counts, then the record: name, rank, shape, type */
    size_t size;
    uint8_t *data = load_file(path, &size);
    uint32_t type;
    memcpy(&type, data + 24 + 8 + 5 + 4 + 8, sizeof type);
    assert_int_equal(type, 26);
    free(data);

    checkpoint *c = open_gguf(path);
    const stored_tensor *t = checkpoint_find_tensor(c, "order");
    assert_true(c->powerinfer);
    assert_int_equal(t->format, FORMAT_I32);
    assert_int_equal(t->size_bytes, sizeof neurons);
    assert_memory_equal(t->data, neurons, sizeof neurons);
    checkpoint_close(c);
    remove_folder(folder);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(goldens_open),
        cmocka_unit_test(goldens_are_written_as_they_were),
        cmocka_unit_test(numbers_of_neurons),
    };
    return run_group(tests, NULL, NULL);
}
