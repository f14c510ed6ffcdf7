/* engine_family.c - every family against its golden logits (tests/data), from the folder and from the GGUF, at every
 * level that this CPU has, as one feed, token by token and in pieces, with one thread and with three. */
#include "../src/file/gguf.h"
#include "../src/kernel/kernel.h"
#include "../src/model/model.h"

#include "family_cases.h"
#include "golden.h"

/* README.md of the goldens: float32 throughout. */
static const double bound = 1e-5;

/* Reads the text in feeds of these sizes, the last of which repeats, and returns the distance from the golden. */
static double read_in(stack *s, const golden *g, const size_t *sizes, size_t size_count, float *logits)
{
    assert_int_equal(hearth_session_truncate(s->session, 0, 0, NULL), HEARTH_OK);
    for (size_t at = 0, i = 0, n; at < g->total; at += n, i++) {
        n = sizes[i < size_count ? i : size_count - 1];
        n = n < g->total - at ? n : g->total - at;
        stack_feed(s, 0, g->ids + at, n, logits + at * g->vocabulary);
    }
    return relative_l2(logits, g->logits, g->total * g->vocabulary);
}

static void check_file(const char *name, const char *path, const golden *g, const char *level, unsigned threads)
{
    static const size_t whole[] = {GOLDEN_MOST}, single[] = {1}, pieces[] = {3, 1, 7, 2, 11, 5};
    stack s;
    float *logits = malloc(g->total * g->vocabulary * sizeof *logits);
    stack_open_at(&s, level, path, threads, HEARTH_ACTIVATIONS_AUTO, golden_session(g));
    assert_int_equal(s.info.vocabulary_size, g->vocabulary);
    double distances[] = {read_in(&s, g, whole, 1, logits), read_in(&s, g, single, 1, logits),
                          read_in(&s, g, pieces, 6, logits)};
    print_message("%-14s %-12s %-7s %u threads: %.2e %.2e %.2e\n", name, strrchr(path, '/') + 1, level, threads,
                  distances[0], distances[1], distances[2]);
    for (size_t i = 0; i < 3; i++)
        assert_true(distances[i] <= bound);
    for (size_t i = g->prompt - 1; i + 1 < g->total; i++)
        assert_int_equal(argmax(logits + i * g->vocabulary, g->vocabulary), g->ids[i + 1]);
    stack_close(&s);
    free(logits);
}

static void all_families(void **state)
{
    (void)state;
    for (size_t i = 0; i < FAMILY_CASES; i++) {
        golden g;
        char path[600];
        golden_load(&g, family_cases[i]);
        golden_path(path, sizeof path, family_cases[i], "model.gguf");
        for (size_t level = 0; level < kernel_level_count(); level++) {
            if (!kernel_level_present(level))
                continue;
            for (unsigned threads = 1; threads <= 3; threads += 2) {
                check_file(family_cases[i], g.folder, &g, kernel_level_name(level), threads);
                if (file_exists(path))
                    check_file(family_cases[i], path, &g, kernel_level_name(level), threads);
            }
        }
        golden_free(&g);
    }
}

/* Reads the text in a session of `context` positions. Freed with free. */
static float *read_within(stack *s, const golden *g, uint32_t context)
{
    hearth_error error;
    hearth_session_options options = golden_session(g);
    options.context = context;
    hearth_session_destroy(s->session);
    stack_check(hearth_session_create(&s->session, s->engine, &options, &error), &error);
    float *logits = malloc(g->total * g->vocabulary * sizeof *logits);
    stack_feed(s, 0, g->ids, g->total, logits);
    return logits;
}

/* In sessions of more positions than the model was first trained for, longrope's other divisors hold: the folder's
 * config.json has them, and 256 positions. */
static void long_contexts(void **state)
{
    (void)state;
    static const double divisors[] = {1.0, 1.2, 1.6, 2.2, 3.0, 4.0, 5.5, 7.0, 9.0};
    golden g;
    golden_load(&g, "phi3-longrope");
    size_t size = g.total * g.vocabulary * sizeof(float);
    char path[600];
    golden_path(path, sizeof path, "phi3-longrope", "model.gguf");
    const char *const paths[] = {g.folder, path};
    for (size_t p = 0; p < 2; p++) {
        stack s;
        stack_open_at(&s, NULL, paths[p], 2, HEARTH_ACTIVATIONS_AUTO, golden_session(&g));
        rotary *r = &s.model->rotaries[0];
        assert_int_equal(r->pairs, 9);
        assert_int_equal(r->long_from, 256);
        for (uint32_t i = 0; i < 9; i++)
            assert_true(fabs(r->long_frequencies[i] * divisors[i] * pow(10000, i / 9.0) - 1) < 1e-6);
        float *short_text = read_within(&s, &g, 256), *long_text = read_within(&s, &g, 257);
        assert_true(relative_l2(short_text, g.logits, g.total * g.vocabulary) <= bound);
        assert_true(relative_l2(long_text, g.logits, g.total * g.vocabulary) > bound);
        r->frequencies = r->long_frequencies;
        float *expected = read_within(&s, &g, 64);
        assert_memory_equal(long_text, expected, size);
        free(expected);
        free(long_text);
        free(short_text);
        stack_close(&s);
    }
    golden_free(&g);
}

/* OLMo 3 is an olmo2 with windows: yarn scales only layers without one, which is every fourth if no key says which. */
static void windows_rotate_plainly(void **state)
{
    (void)state;
    static const uint8_t pattern[] = {1, 1, 0};
    char path[600];
    hearth_error error;
    checkpoint *c;
    hearth_model *m;
    golden_path(path, sizeof path, "olmo2", "model.gguf");
    stack_check(gguf_open(&c, path, &error), &error);
    stack_check(checkpoint_set_u32(c, "olmo2.attention.sliding_window", 8, &error), &error);
    stack_check(checkpoint_set_string(c, "olmo2.rope.scaling.type", span_of("yarn"), &error), &error);
    stack_check(checkpoint_set_f32(c, "olmo2.rope.scaling.factor", 8, &error), &error);
    for (int listed = 0; listed < 2; listed++) {
        if (listed)
            stack_check(
                checkpoint_set_numbers(c, "olmo2.attention.sliding_window_pattern", VALUE_BOOL, pattern, 3, &error),
                &error);
        stack_check(model_check(&m, c, NULL, &error), &error);
        assert_int_equal(m->hyper.layer_count, 3);
        for (uint32_t i = 0; i < 3; i++) {
            const attention_shape *a = &m->layers[i].attention;
            double slowest = pow(500000, -(double)(a->rotary->pairs - 1) / a->rotary->pairs);
            bool windowed = !listed || pattern[i];
            assert_int_equal(a->window, windowed ? 8 : 0);
            assert_true(fabs(a->rotary->frequencies[a->rotary->pairs - 1] / slowest - (windowed ? 1 : 1.0 / 8)) < 1e-6);
        }
        hearth_model_close(m);
    }
    checkpoint_close(c);
}

/* Joins what Qwen3-Next's recurrent layers have in two matrices to the one of its first files: of each key the rows of its
 * query, of itself, of its heads' values and of their gates. */
static void join_keys(checkpoint *c, const stored_tensor *convolved, const stored_tensor *gates,
                      const recurrent_shape *r)
{
    hearth_error error;
    char name[64];
    uint32_t layer;
    size_t n = r->key_length, values = recurrent_width(r) / r->key_count, keys = r->key_count;
    size_t rows = keys * (2 * n + 2 * values), row_bytes = convolved->size_bytes / (size_t)convolved->shape[1];
    char *to = arena_new_array(&c->memory, rows, row_bytes);
    const char *from = convolved->data;
    const struct {
        const char *first;
        size_t count;
    } parts[] = {
        {from, n}, {from + keys * n * row_bytes, n}, {from + 2 * keys * n * row_bytes, values}, {gates->data, values}};
    assert_int_equal(sscanf(convolved->name, "blk.%u.", &layer), 1);
    snprintf(name, sizeof name, "blk.%u.ssm_in.weight", layer);
    stored_tensor joined = {.name = name, .format = convolved->format, .rank = 2, .data = to};
    for (size_t k = 0; k < keys; k++)
        for (size_t i = 0; i < 4; i++) {
            memcpy(to, parts[i].first + k * parts[i].count * row_bytes, parts[i].count * row_bytes);
            to += parts[i].count * row_bytes;
        }
    joined.size_bytes = rows * row_bytes;
    joined.shape[0] = convolved->shape[0];
    joined.shape[1] = rows;
    joined.shape[2] = joined.shape[3] = 1;
    stack_check(checkpoint_add_tensor(c, &joined, &error), &error);
}

static void keys_that_lie_together(void **state)
{
    (void)state;
    char path[600], gate_name[64];
    hearth_error error;
    checkpoint *c;
    golden g;
    stack k = {0};
    recurrent_shape shape;
    size_t count, joined = 0;
    uint32_t layer;
    golden_load(&g, "qwen3-next");
    stack_check(hearth_model_open(&k.model, golden_path(path, sizeof path, "qwen3-next", "model.gguf"), NULL, &error),
                &error);
    shape = k.model->layers[0].recurrent;
    assert_int_equal(k.model->layers[0].mixer, MIXER_RECURRENT);
    hearth_model_close(k.model);
    stack_check(gguf_open(&c, path, &error), &error);
    stored_tensor *tensors = checkpoint_take_tensors(c, &count);
    for (size_t i = 0; i < count; i++) {
        if (strstr(tensors[i].name, "attn_gate"))
            continue;
        if (!strstr(tensors[i].name, "attn_qkv")) {
            stack_check(checkpoint_add_tensor(c, &tensors[i], &error), &error);
            continue;
        }
        assert_int_equal(sscanf(tensors[i].name, "blk.%u.", &layer), 1);
        snprintf(gate_name, sizeof gate_name, "blk.%u.attn_gate.weight", layer);
        for (size_t t = 0; t < count; t++)
            if (strcmp(tensors[t].name, gate_name) == 0)
                join_keys(c, &tensors[i], &tensors[t], &shape), joined++;
    }
    assert_int_equal(joined, 3);
    mem_free(tensors);
    stack_check(model_bind(&k.model, c, NULL, &error), &error);
    golden_expect(k.model, &g);
    golden_free(&g);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(all_families), cmocka_unit_test(long_contexts),
                                       cmocka_unit_test(windows_rotate_plainly),
                                       cmocka_unit_test(keys_that_lie_together)};
    return run_group(tests, NULL, NULL);
}
