/* engine_bfloats.c - prompts whose tokens and weights are multiplied in bfloat16 (activations bf16): near to float32, the same
 * bytes however many threads there are, those of float32 where tokens are few, and refused by levels without such products. */
#include "../src/kernel/kernel.h"

#include "golden.h"

#define MODEL HEARTH_DATA "/models/stories-relu" /* its weights are in BF16 */
#define COUNT 48                                 /* tokens of the prompt    */

static const hearth_session_options options = {.context = 64, .output_rows = COUNT};

/* Returns the name of a level that multiplies so; skips the test if this CPU has none. */
static const char *level_with_bfloats(void)
{
    for (size_t level = 0; level < kernel_level_count(); level++) {
        kernels k;
        kernels_for(level, &k);
        if (k.to_bfloat && kernel_level_present(level))
            return kernel_level_name(level);
    }
    print_message("skipped: no CPU level here multiplies bfloat16\n");
    skip();
    return NULL;
}

/* Reads the prompt in pieces of n tokens; returns the logits of all, [*values], which are freed with free. */
static float *read_in_pieces(hearth_activations activations, unsigned threads, size_t n, size_t *values)
{
    stack s;
    stack_open_at(&s, level_with_bfloats(), MODEL, threads, activations, options);
    size_t vocabulary = s.info.vocabulary_size;
    float *logits = malloc(COUNT * vocabulary * sizeof *logits);
    for (size_t at = 0; at < COUNT; at += n) {
        int32_t ids[COUNT];
        for (size_t i = 0; i < n; i++)
            ids[i] = (int32_t)(1 + 37 * (at + i) % (vocabulary - 1));
        stack_feed(&s, 0, ids, n, logits + at * vocabulary);
    }
    stack_close(&s);
    *values = COUNT * vocabulary;
    return logits;
}

/* Both factors of a product have 8 bits, so that each is wrong by 2^-9 at most, mostly by a third of that, and layer upon layer adds
 * to it. */
static void a_prompt_is_near_to_float32(void **state)
{
    (void)state;
    size_t values;
    float *floats = read_in_pieces(HEARTH_ACTIVATIONS_AUTO, 2, COUNT, &values);
    float *bfloats = read_in_pieces(HEARTH_ACTIVATIONS_BF16, 2, COUNT, &values);
    double distance = relative_l2(bfloats, floats, values);
    print_message("relative L2 %.2e\n", distance);
    assert_true(distance > 1e-5); /* or they were not rounded at all */
    assert_true(distance < 5e-3);
    free(floats), free(bfloats);
}

/* The prompt in pieces of n tokens has the same bytes in two ways. */
static void check_same(size_t n, hearth_activations a, unsigned a_threads, hearth_activations b, unsigned b_threads)
{
    size_t values;
    float *one = read_in_pieces(a, a_threads, n, &values), *other = read_in_pieces(b, b_threads, n, &values);
    assert_memory_equal(one, other, values * sizeof *one);
    free(one), free(other);
}

static void threads_do_not_matter(void **state)
{
    (void)state;
    check_same(COUNT, HEARTH_ACTIVATIONS_BF16, 1, HEARTH_ACTIVATIONS_BF16, 3);
}

static void few_tokens_are_multiplied_in_float32(void **state)
{
    (void)state;
    check_same(FEW_OF_BFLOATS, HEARTH_ACTIVATIONS_AUTO, 2, HEARTH_ACTIVATIONS_BF16, 2);
}

static void other_levels_refuse(void **state)
{
    (void)state;
    hearth_error error;
    hearth_runtime_options scalar = {.threads = 1, .cpu_level = "scalar"};
    hearth_engine_options bfloats = {.activations = HEARTH_ACTIVATIONS_BF16};
    stack s = {0};
    stack_check(hearth_runtime_create(&s.runtime, &scalar, &error), &error);
    stack_check(hearth_model_open(&s.model, MODEL, NULL, &error), &error);
    assert_int_equal(hearth_engine_create(&s.engine, s.runtime, s.model, &bfloats, &error), HEARTH_UNSUPPORTED);
    assert_string_equal(error.text, "engine: activations bf16: the CPU level scalar multiplies no bfloat16");
    bfloats.activations = HEARTH_ACTIVATIONS_COUNT;
    assert_int_equal(hearth_engine_create(&s.engine, s.runtime, s.model, &bfloats, &error), HEARTH_INVALID);
    stack_close(&s);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_prompt_is_near_to_float32),
        cmocka_unit_test(threads_do_not_matter),
        cmocka_unit_test(few_tokens_are_multiplied_in_float32),
        cmocka_unit_test(other_levels_refuse),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
