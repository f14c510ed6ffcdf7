/* engine_split.c - golden models split over several GGUF files compute what they should, whichever part is opened, and
 * are written into one file as if they had never been split. */
#include "../src/base/pool.h"
#include "../src/file/gguf.h"
#include "../src/model/convert.h"

#include "golden.h"
#include "own_folder.h"

/* README.md of the goldens: float32 throughout. */
static const double bound = 1e-5;

/* Grouped queries, experts, block formats of several kinds, a joined head. */
static const char *const names[] = {"llama-gqa", "mixtral", "gpt-oss", "llama-256-q4_k_m"};
enum { PARTS = 3 };

static char *part(char *out, size_t size, uint32_t number)
{
    snprintf(out, size, "%s/model-%05u-of-%05u.gguf", own_folder, number, (uint32_t)PARTS);
    return out;
}

/* Writes part `number` (from 1 on) of a model: the first has the keys, each its share of the tensors. */
static void write_part(checkpoint *c, uint32_t number)
{
    hearth_error error;
    gguf_writer *w;
    char path[600];
    key_value keys[256];
    size_t count = 0, from = c->tensor_count * (number - 1) / PARTS, to = c->tensor_count * number / PARTS;
    assert_true(c->entry_count + 3 < sizeof keys / sizeof *keys);
    keys[count++] = (key_value){.key = "split.no", .type = VALUE_U16, .as.u = number - 1};
    keys[count++] = (key_value){.key = "split.count", .type = VALUE_U16, .as.u = PARTS};
    keys[count++] = (key_value){.key = "split.tensors.count", .type = VALUE_I32, .as.i = (int64_t)c->tensor_count};
    for (size_t i = 0; number == 1 && i < c->entry_count; i++)
        keys[count++] = c->entries[i];
    stack_check(
        gguf_writer_open(&w, part(path, sizeof path, number), false, keys, count, c->tensors + from, to - from, &error),
        &error);
    for (size_t i = from; i < to; i++)
        stack_check(gguf_writer_put(w, c->tensors[i].data, c->tensors[i].size_bytes, &error), &error);
    stack_check(gguf_writer_commit(w, &error), &error);
}

static void split(const char *path)
{
    hearth_error error;
    checkpoint *c;
    stack_check(gguf_open(&c, path, &error), &error);
    for (uint32_t i = 1; i <= PARTS; i++)
        write_part(c, i);
    checkpoint_close(c);
}

static void remove_parts(void)
{
    char path[600];
    for (uint32_t i = 1; i <= PARTS; i++)
        remove(part(path, sizeof path, i));
}

/* Reads the golden's text; logits [total][vocabulary], freed with free. */
static float *read_text(const char *path, const golden *g)
{
    static const hearth_session_options all_rows = {.context = 64, .output_rows = 64, .kv = HEARTH_KV_F32};
    stack s;
    float *logits = malloc(g->total * g->vocabulary * sizeof *logits);
    stack_open(&s, path, 2, HEARTH_ACTIVATIONS_F32, all_rows);
    stack_feed(&s, 0, g->ids, g->total, logits);
    stack_close(&s);
    return logits;
}

static void goldens_in_parts(void **state)
{
    (void)state;
    for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
        golden g;
        char path[600];
        golden_load(&g, names[i]);
        split(golden_path(path, sizeof path, names[i], "model.gguf"));
        float *whole = read_text(path, &g);
        for (uint32_t number = 1; number <= PARTS; number++) {
            float *logits = read_text(part(path, sizeof path, number), &g);
            double distance = relative_l2(logits, g.logits, g.total * g.vocabulary);
            print_message("%-16s opened by part %u: %.2e\n", names[i], number, distance);
            assert_true(distance <= bound);
            assert_memory_equal(logits, whole, g.total * g.vocabulary * sizeof *logits);
            free(logits);
        }
        free(whole);
        remove_parts();
        golden_free(&g);
    }
}

static void expect_same_file(const char *a, const char *b)
{
    hearth_error error;
    file_map x, y;
    stack_check(file_map_open(&x, a, &error), &error);
    stack_check(file_map_open(&y, b, &error), &error);
    assert_int_equal(x.size_bytes, y.size_bytes);
    assert_memory_equal(x.data, y.data, x.size_bytes);
    file_map_close(&x);
    file_map_close(&y);
}

/* What convert, quantize and pack make of the parts is, byte for byte, what they make of the model in one file. No part
 * may be written over. */
static void parts_become_one_file(void **state)
{
    (void)state;
    static const convert_options kinds[] = {
        {.format = FORMAT_COUNT, .down_format = FORMAT_COUNT},
        {.format = FORMAT_Q8_0, .down_format = FORMAT_COUNT},
        {.format = FORMAT_COUNT, .down_format = FORMAT_COUNT, .neuron_major = true}};
    hearth_error error;
    pool *threads;
    char whole[600], path[600], from_whole[600], from_parts[600];
    stack_check(pool_create(&threads, 2, &error), &error);
    snprintf(from_whole, sizeof from_whole, "%s/whole", own_folder);
    snprintf(from_parts, sizeof from_parts, "%s/parts", own_folder);
    split(golden_path(whole, sizeof whole, "llama-256", "model.gguf"));
    for (size_t i = 0; i < sizeof kinds / sizeof *kinds; i++) {
        stack_check(convert_write(whole, from_whole, &kinds[i], threads, &error), &error);
        stack_check(convert_write(part(path, sizeof path, 2), from_parts, &kinds[i], threads, &error), &error);
        expect_same_file(from_whole, from_parts);
    }
    char third[600];
    assert_int_equal(convert_write(path, part(third, sizeof third, 3), &kinds[0], threads, &error), HEARTH_INVALID);
    assert_non_null(strstr(error.text, "-00003-of-00003.gguf: is what would be read"));
    remove(from_whole);
    remove(from_parts);
    remove_parts();
    pool_destroy(threads);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(goldens_in_parts), cmocka_unit_test(parts_become_one_file)};
    return run_group(tests, own_folder_make, own_folder_remove);
}
