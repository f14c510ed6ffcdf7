/* engine_session_file.c - sequences in files: another engine goes on behind one as its own would, on the CPU and on every
 * device; whatever is wrong with a file is refused and changes nothing; nothing is half-written. */
#include "../src/base/file.h"
#include "../src/base/memory.h"
#include "../src/engine/engine.h"
#include "../src/engine/state_file.h"

#include <unistd.h>

#include "file_build.h"
#include "placements.h"

#define STORIES HEARTH_MODELS "/stories-relu-q8_0.gguf"
enum { CONTEXT = 200, READ = 150 }; /* more than a page */

static char folder[64];
static char path[400];

static int group_setup(void **state)
{
    (void)state;
    make_folder(folder, sizeof folder);
    snprintf(path, sizeof path, "%s/read.seq", folder);
    return 0;
}

static int group_teardown(void **state)
{
    (void)state;
    remove_folder(folder);
    return 0;
}

static void open_with(stack *s, hearth_runtime *runtime, const char *model, bool all_on, hearth_session_options options)
{
    char *json = NULL;
    placed_form forms[MOST_LAYERS];
    uint32_t cuts = 1;
    open_placed_model(s, runtime, model);
    placed_shape shape = shape_of(s, HEARTH_MODE_DENSE);
    for (uint32_t i = 0; i < shape.layers; i++)
        forms[i] = PLACED_DEVICE;
    if (all_on)
        json = print_placed(&shape, forms, false, false, &cuts);
    open_placed(s, json, HEARTH_MODE_DENSE, false, options);
    free(json);
}

static void close_model(stack *s)
{
    close_placed(s);
    hearth_model_close(s->model);
}

/* Feeds tokens first to last - 1 of a text to a sequence, and returns the logits after the last. */
static float *feed(stack *s, uint32_t sequence, uint32_t first, uint32_t last)
{
    hearth_row rows[READ + 2];
    hearth_error error;
    float *logits = malloc(s->info.vocabulary_size * sizeof *logits);
    for (uint32_t i = first; i < last; i++)
        rows[i - first] = (hearth_row){(int32_t)(3 + i * 7 % (s->info.vocabulary_size - 3)), sequence, i + 1 == last};
    stack_check(hearth_session_feed(s->session, rows, last - first, &error), &error);
    stack_check(hearth_session_logits(s->session, 0, 1, logits, &error), &error);
    return logits;
}

/* ------------------------------------------------------------------ there and back */

/* One engine reads a text and saves it; another of the same model restores it and reads on. */
static void check_round_trip(hearth_runtime *runtime, const char *model, hearth_kv kv, bool all_on)
{
    stack s;
    hearth_error error;
    uint32_t read = READ;
    open_with(&s, runtime, model, all_on, (hearth_session_options){.context = 0, .kv = kv, .sequences = 2});
    uint32_t most = hearth_session_context(s.session) - 2;
    read = read < most ? read : most;
    size_t bytes = s.info.vocabulary_size * sizeof(float);
    free(feed(&s, 1, 0, read));
    stack_check(hearth_session_save_file(s.session, 1, path, &error), &error);
    float *want = feed(&s, 1, read, read + 1);
    close_model(&s);
    open_with(&s, runtime, model, all_on, (hearth_session_options){.context = 0, .kv = kv, .sequences = 2});
    free(feed(&s, 0, 0, 3)); /* gives way */
    stack_check(hearth_session_restore_file(s.session, 0, path, &error), &error);
    assert_int_equal(hearth_session_length(s.session, 0), read);
    for (uint32_t i = 0; i < read; i++)
        assert_int_equal(hearth_session_tokens(s.session, 0)[i], 3 + i * 7 % (s.info.vocabulary_size - 3));
    float *got = feed(&s, 0, read, read + 1);
    assert_memory_equal(got, want, bytes);
    stack_check(hearth_session_truncate(s.session, 0, 0, &error), &error);
    stack_check(hearth_session_save_file(s.session, 0, path, &error), &error); /* an empty one, too */
    stack_check(hearth_session_restore_file(s.session, 1, path, &error), &error);
    assert_int_equal(hearth_session_length(s.session, 1), 0);
    free(got), free(want);
    close_model(&s);
}

static void there_and_back(void **state)
{
    (void)state;
    static const char *const models[] = {STORIES,
                                         GOLDEN "/nemotron-h/model.gguf",
                                         GOLDEN "/qwen3-5/model.gguf",
                                         GOLDEN "/gemma3n/model.gguf",
                                         GOLDEN "/mixtral/model.gguf",
                                         GOLDEN "/glm4-moe-lite/model.gguf"};
    hearth_runtime *runtime = open_runtime(NULL, 2);
    for (size_t i = 0; i < sizeof models / sizeof *models; i++)
        for (hearth_kv kv = 0; kv < (i == 0 ? HEARTH_KV_Q8_0 : HEARTH_KV_COUNT - 1); kv++)
            check_round_trip(runtime, models[i], kv, false);
    check_round_trip(runtime, GOLDEN "/llama-256/model.gguf", HEARTH_KV_Q8_0, false);
    hearth_runtime_destroy(runtime);
    const device_specs *specs = usable_devices();
    for (size_t i = 0; i < specs->count; i++) {
        runtime = open_runtime(specs->text[i], 2);
        check_round_trip(runtime, STORIES, HEARTH_KV_F16, true);
        check_round_trip(runtime, GOLDEN "/llama-256/model.gguf", HEARTH_KV_Q8_0, true);
        check_round_trip(runtime, GOLDEN "/glm4-moe-lite/model.gguf", HEARTH_KV_Q8_0, true);
        check_round_trip(runtime, GOLDEN "/nemotron-h/model.gguf", HEARTH_KV_F16, true);
        hearth_runtime_destroy(runtime);
    }
}

/* ------------------------------------------------------------------ what is refused */

/* Restoring fails so, and leaves the sequence as it was. */
static void check_not_restored(stack *s, hearth_status expected, const char *fragment)
{
    hearth_error error = {0};
    uint32_t length = hearth_session_length(s->session, 0);
    hearth_status status = hearth_session_restore_file(s->session, 0, path, &error);
    check_refusal("restore", status, &error, expected, path, fragment);
    assert_int_equal(hearth_session_length(s->session, 0), length);
}

static void wrong_files(void **state)
{
    (void)state;
    stack s, other;
    hearth_error error;
    char *whole;
    size_t size;
    hearth_runtime *runtime = open_runtime(NULL, 2);
    const hearth_session_options options = {.context = CONTEXT};
    open_with(&s, runtime, STORIES, false, options);
    unlink(path);
    check_not_restored(&s, HEARTH_IO, "");
    free(feed(&s, 0, 0, READ));
    stack_check(hearth_session_save_file(s.session, 0, path, &error), &error);
    stack_check(file_read(&whole, &size, path, 1 << 24, &error), &error);
    for (size_t i = 0; i < size; i += i < 2 * STATE_FILE_HEAD ? 1 : 997) { /* one byte is another one */
        whole[i] ^= 0x20;
        write_file(path, whole, size);
        whole[i] ^= 0x20;
        assert_int_not_equal(hearth_session_restore_file(s.session, 0, path, &error), HEARTH_OK);
        assert_int_equal(hearth_session_length(s.session, 0), READ);
    }
    for (size_t i = 0; i < size; i += i < 2 * STATE_FILE_HEAD ? 1 : 997) {
        write_file(path, whole, i);
        check_not_restored(&s, HEARTH_FORMAT, i < 8 ? "is not a saved sequence" : "is cut short");
    }
    write_file(path, whole, size);
    open_with(&other, runtime, GOLDEN "/llama-relu/model.gguf", false, (hearth_session_options){.context = 100});
    check_not_restored(&other, HEARTH_INVALID, "is of another model");
    close_model(&other);
    open_with(&other, runtime, STORIES, false, (hearth_session_options){.context = CONTEXT, .kv = HEARTH_KV_F32});
    check_not_restored(&other, HEARTH_INVALID, "its keys and values have another format");
    close_model(&other);
    open_with(&other, runtime, HEARTH_DATA "/models/stories-relu", false, options);
    check_not_restored(&other, HEARTH_INVALID, "was saved with weights in other formats");
    close_model(&other);
    open_with(&other, runtime, STORIES, false, (hearth_session_options){.context = READ - 1});
    check_not_restored(&other, HEARTH_FULL, "has 150 tokens, the context only 149");
    close_model(&other);
    mem_free(whole);
    close_model(&s);
    hearth_runtime_destroy(runtime);
}

/* Every operation on files fails once, and every allocation: what was there before is still there, or the whole new one. */
static void nothing_is_half_written(void **state)
{
    (void)state;
    stack s;
    hearth_error error;
    hearth_runtime *runtime = open_runtime(NULL, 2);
    open_with(&s, runtime, STORIES, false, (hearth_session_options){.context = CONTEXT, .sequences = 2});
    free(feed(&s, 0, 0, 3));
    free(feed(&s, 1, 0, 5));
    stack_check(hearth_session_save_file(s.session, 0, path, &error), &error);
    long live = mem_live();
    for (int of_memory = 0; of_memory < 2; of_memory++) {
        hearth_status status = HEARTH_IO;
        for (long n = 0; status != HEARTH_OK; n++) {
            (of_memory ? mem_fail_at : file_fail_at)(n);
            status = hearth_session_save_file(s.session, 1, path, &error);
            mem_fail_at(-1);
            file_fail_at(-1);
            assert_true(status == HEARTH_OK || status == (of_memory ? HEARTH_NO_MEMORY : HEARTH_IO));
            assert_true(n < 100);
            assert_int_equal(mem_live(), live);
            stack_check(hearth_session_restore_file(s.session, 0, path, &error), &error);
            assert_int_equal(hearth_session_length(s.session, 0), status == HEARTH_OK ? 5 : 3);
        }
        stack_check(hearth_session_truncate(s.session, 0, 3, &error), &error);
        stack_check(hearth_session_save_file(s.session, 0, path, &error), &error);
    }
    hearth_status status = HEARTH_NO_MEMORY;
    for (long n = 0; status != HEARTH_OK; n++) {
        mem_fail_at(n);
        status = hearth_session_restore_file(s.session, 1, path, &error);
        mem_fail_at(-1);
        assert_int_equal(hearth_session_length(s.session, 1), status == HEARTH_OK ? 3 : 5);
        assert_int_equal(mem_live(), live);
    }
    close_model(&s);
    hearth_runtime_destroy(runtime);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(there_and_back),
        cmocka_unit_test(wrong_files),
        cmocka_unit_test(nothing_is_half_written),
    };
    return run_group(tests, group_setup, group_teardown);
}
