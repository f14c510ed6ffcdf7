/* engine_choice.c - layers whose tokens see chosen positions: which are chosen, that it matters, and that sides, sequences,
 * checkpoints and the length of a session do not. The goldens deepseek32, glm-dsa and hy-v4 see 12 positions; of glm-dsa three
 * layers see what two others choose. glm5-next sees 12 in three pools of four, and up to three after the last whole pool; most of
 * its layers are recurrent. deepseek4 sees 6 summaries of four positions each. Each head of keys of minimax-m3 sees three blocks of four
 * positions of its own choice, and the last one. */
#include "../src/engine/choice.h"

#include "../src/file/gguf.h"
#include "placements.h"

enum { CHOSEN = 12, LONG = 300 };

static const char *const models[] = {"deepseek32", "glm-dsa", "glm5-next", "qwen3-8-next",
                                     "deepseek4",  "hy-v4",   "minimax-m3"};
enum { MODELS = sizeof models / sizeof *models };
/* The first position whose token does not see all up to it. */
static const size_t limits[MODELS] = {CHOSEN, CHOSEN, CHOSEN + 3, CHOSEN + 3, 2 * CHOSEN + 3, CHOSEN, CHOSEN + 4};

static const hearth_session_options long_session = {.context = 320, .output_rows = LONG, .kv = HEARTH_KV_F32};

/* A text of so many tokens that some pages of the cache have no chosen position. Of its scores none that is just chosen is nearer
 * than 4e-5 to the next one, unless both are 0 (found with transformers, by trying): no rounding changes a choice. */
static void long_text(int32_t ids[LONG])
{
    uint32_t x = 3;
    ids[0] = 1;
    for (size_t i = 1; i < LONG; i++) {
        x = (x * 1103515245u + 12345u) & 0x7fffffffu;
        ids[i] = 3 + (int32_t)((x >> 16) % 269);
    }
}

/* As stack_feed, of any number of tokens. */
static void feed(stack *s, uint32_t sequence, const int32_t *ids, size_t count, float *logits)
{
    hearth_row rows[LONG];
    hearth_error error;
    for (size_t i = 0; i < count; i++)
        rows[i] = (hearth_row){.token = ids[i], .sequence = sequence, .output = logits != NULL};
    stack_check(hearth_session_feed(s->session, rows, count, &error), &error);
    if (logits)
        stack_check(hearth_session_logits(s->session, 0, count, logits, &error), &error);
}

/* ------------------------------------------------------------------ the choice */

/* A position is chosen if fewer than k are better: higher, or as high and earlier. Scores have few values, so that many are equal. */
static void the_highest_are_chosen(void **state)
{
    (void)state;
    enum { MOST = 700 };
    float scores[MOST];
    uint32_t seen[(MOST + KV_PAGE) / 32], seed = 1;
    for (size_t round = 0; round < 300; round++) {
        size_t n = 1 + draw(&seed, MOST), k = 1 + draw(&seed, (uint32_t)n), words = (n + KV_PAGE - 1) / KV_PAGE * 4;
        uint32_t values = 1 + draw(&seed, round % 2 ? 20 : 1u << 20), middle = values / 2;
        for (size_t i = 0; i < n; i++)
            scores[i] =
                ((float)draw(&seed, values) - (float)middle) / (draw(&seed, 2) ? 3.0f : -3.0f); /* some are -0 */
        memset(seen, 0xff, sizeof seen);
        choose_positions(scores, n, k, seen);
        for (size_t i = 0; i < 32 * words; i++) {
            size_t better = i < n ? 0 : k;
            for (size_t other = 0; other < n && better < k; other++)
                better += scores[other] > scores[i] || (other < i && scores[other] == scores[i]);
            assert_int_equal(seen[i / 32] >> i % 32 & 1, better < k);
        }
    }
}

static void open_model(stack *s, const char *name)
{
    char path[600];
    stack_open(s, golden_path(path, sizeof path, name, ""), 2, HEARTH_ACTIVATIONS_AUTO, long_session);
}

/* What rows give that see everything is the same whatever is chosen; what the others give is not. */
static void it_matters(void **state)
{
    (void)state;
    static const char *const keys[] = {"deepseek32.attention.indexer.top_k", "glm-dsa.attention.indexer.top_k",
                                       "glm5-next.attention.indexer.top_k",  "qwen4exp.attention.indexer.top_k",
                                       "deepseek4.attention.indexer.top_k",  "hy_v4.attention.indexer.top_k",
                                       "minimax-m3.attention.indexer.top_k"};
    for (size_t i = 0; i < MODELS; i++) {
        golden g;
        char path[600];
        hearth_error error;
        checkpoint *c;
        hearth_model *m;
        golden_load(&g, models[i]);
        stack_check(gguf_open(&c, golden_path(path, sizeof path, models[i], "model.gguf"), &error), &error);
        stack_check(checkpoint_set_u32(c, keys[i], 40, &error), &error);
        stack_check(model_bind(&m, c, NULL, &error), &error);
        float *all = golden_compute(m, &g);
        size_t few = limits[i] * g.vocabulary;
        assert_true(relative_l2(all, g.logits, few) < 1e-5);
        assert_true(relative_l2(all + few, g.logits + few, (g.total - limits[i]) * g.vocabulary) > 0.1);
        free(all);
        golden_free(&g);
    }
}

/* A session in which nothing is chosen gives the bits of one in which something could be. */
static void short_sessions(void **state)
{
    (void)state;
    for (size_t i = 0; i < MODELS; i++) {
        int32_t ids[LONG];
        stack s;
        hearth_error error;
        open_model(&s, models[i]);
        size_t values = limits[i] * (size_t)s.info.vocabulary_size;
        float *far = malloc(values * sizeof *far), *near = malloc(values * sizeof *near);
        long_text(ids);
        feed(&s, 0, ids, limits[i], far);
        hearth_session_destroy(s.session);
        hearth_session_options options = long_session;
        options.context = (uint32_t)limits[i];
        stack_check(hearth_session_create(&s.session, s.engine, &options, &error), &error);
        feed(&s, 0, ids, limits[i], near);
        assert_memory_equal(near, far, values * sizeof *far);
        stack_close(&s);
        free(far), free(near);
    }
}

/* What is broken is chosen first, so that the result shows it. */
static void nan_is_chosen(void **state)
{
    (void)state;
    float scores[] = {1, 5, NAN, 7, -NAN, INFINITY};
    uint32_t seen[KV_PAGE / 32];
    choose_positions(scores, 6, 2, seen);
    assert_int_equal(seen[0], 1u << 2 | 1u << 4);
    choose_positions(scores, 6, 4, seen);
    assert_int_equal(seen[0], 1u << 2 | 1u << 3 | 1u << 4 | 1u << 5);
}

/* Opens a session on the CPU of a model, which it takes. */
static void open_bound(stack *s, hearth_model *model, hearth_session_options options)
{
    hearth_error error;
    hearth_placement *placement;
    hearth_runtime_options threads = {.threads = 2};
    s->model = model;
    stack_check(hearth_runtime_create(&s->runtime, &threads, &error), &error);
    hearth_model_describe(s->model, &s->info);
    stack_check(hearth_placement_create(&placement, s->model, HEARTH_MODE_DENSE, &error), &error);
    hearth_engine_options of = {.placement = placement};
    stack_check(hearth_engine_create(&s->engine, s->runtime, s->model, &of, &error), &error);
    hearth_placement_destroy(placement);
    stack_check(hearth_session_create(&s->session, s->engine, &options, &error), &error);
}

/* Opens a golden's file with another number of chosen positions. */
static void open_choosing(stack *s, const char *name, uint32_t chosen, hearth_session_options options)
{
    char path[600], key[80];
    hearth_error error;
    hearth_model *model;
    checkpoint *c;
    stack_check(gguf_open(&c, golden_path(path, sizeof path, name, "model.gguf"), &error), &error);
    snprintf(key, sizeof key, "%s.attention.indexer.top_k", name);
    stack_check(checkpoint_set_u32(c, key, chosen, &error), &error);
    stack_check(model_bind(&model, c, NULL, &error), &error);
    open_bound(s, model, options);
}

/* However many a file says are chosen, a session takes memory for no more positions than it has. */
static void any_number_may_be_chosen(void **state)
{
    (void)state;
    static const uint32_t numbers[] = {1, 2, 200, 320, 100000, UINT32_MAX};
    float *all = NULL;
    for (size_t i = sizeof numbers / sizeof *numbers; i-- > 0;) {
        int32_t ids[LONG];
        stack s;
        open_choosing(&s, "glm-dsa", numbers[i], long_session);
        size_t values = LONG * (size_t)s.info.vocabulary_size;
        float *logits = malloc(values * sizeof *logits);
        long_text(ids);
        feed(&s, 0, ids, LONG, logits);
        stack_close(&s);
        for (size_t k = 0; k < values; k++)
            assert_true(isfinite(logits[k]));
        if (all)
            assert_int_equal(memcmp(all, logits, values * sizeof *all) == 0, numbers[i] >= LONG);
        if (all)
            free(logits);
        else
            all = logits;
    }
    free(all);
}

/* The keys that are brought together are those in the cache, byte for byte, in the formats that hold heads of 40 values. */
static void keys_together(void **state)
{
    (void)state;
    static const hearth_kv formats[] = {HEARTH_KV_F16, HEARTH_KV_F32};
    for (size_t f = 0; f < 2; f++) {
        int32_t ids[LONG];
        stack s;
        hearth_session_options options = long_session;
        options.kv = formats[f];
        options.sequences = 2;
        open_choosing(&s, "deepseek32", CHOSEN, options);
        long_text(ids);
        feed(&s, 1, ids, 40, NULL); /* so that the pages of the other one are not the first */
        feed(&s, 0, ids, LONG, NULL);
        scratch *b = &s.session->scratch;
        b->sequence[0] = 0, b->position[0] = LONG - 1;
        memset(b->choice.seen, 0, choice_words(s.session) * sizeof *b->choice.seen);
        for (uint32_t i = 0; i < CHOSEN; i++)
            b->choice.seen[i * 27 / 32] |= 1u << i * 27 % 32;
        choice_gather(s.session, 1, 0);
        attend_cache got = choice_gathered(s.session, 1, 0),
                     cache = kv_head(&s.session->cache, s.engine->layers[1].cache_index, 0, 0);
        size_t bytes = cache.key.row_bytes;
        for (uint32_t i = 0; i < CHOSEN; i++)
            assert_memory_equal(attend_at(&got, &got.key, i), attend_at(&cache, &cache.key, i * 27), bytes);
        assert_ptr_equal(got.key.data, got.value.data);
        stack_close(&s);
    }
}

/* Which layers choose is said by booleans or numbers, or by what they have; one that shares needs one before it that chooses. */
static void who_chooses(void **state)
{
    (void)state;
    static const char key[] = "glm-dsa.attention.indexer.types";
    static const uint8_t booleans[] = {0, 1, 1, 1, 1};
    static const uint32_t numbers[] = {1, 0, 1, 0, 0}, backs[] = {0, 1, 0, 1, 2};
    for (int way = 0; way < 3; way++) {
        char path[600];
        hearth_error error;
        checkpoint *c;
        hearth_model *m;
        stack_check(gguf_open(&c, golden_path(path, sizeof path, "glm-dsa", "model.gguf"), &error), &error);
        stack_check(way == 0   ? checkpoint_set_numbers(c, key, VALUE_BOOL, booleans, 5, &error)
                    : way == 1 ? checkpoint_set_numbers(c, key, VALUE_U32, numbers, 5, &error)
                               : checkpoint_remove_key(c, key, &error),
                    &error);
        hearth_status status = model_bind(&m, c, NULL, &error);
        if (way == 0) {
            assert_int_equal(status, HEARTH_FORMAT);
            assert_non_null(strstr(error.text, "lets no layer choose positions before one that needs them"));
            continue;
        }
        stack_check(status, &error);
        for (uint32_t i = 0; i < 5; i++) {
            assert_int_equal(m->layers[i].attention.chosen_back, backs[i]);
            assert_int_equal(m->layers[i].attention.index.head_count > 0, backs[i] == 0);
        }
        hearth_model_close(m);
    }
}

/* What the key says of recurrent layers is not asked: one that shares sees the choice of the last layer before it that attends. */
static void recurrent_layers_choose_nothing(void **state)
{
    (void)state;
    static const char key[] = "glm5-next.attention.indexer.types";
    static const struct {
        uint8_t types[5];
        uint32_t back; /* of the last layer; 0: it is refused */
    } cases[] = {{{1, 1, 0, 1, 0}, 3}, {{0, 1, 0, 0, 0}, 3}, {{1, 0, 0, 1, 1}, 0}};
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        char path[600];
        hearth_error error;
        checkpoint *c;
        hearth_model *m;
        stack_check(gguf_open(&c, golden_path(path, sizeof path, "glm5-next", "model.gguf"), &error), &error);
        stack_check(checkpoint_set_numbers(c, key, VALUE_BOOL, cases[i].types, 5, &error), &error);
        hearth_status status = model_bind(&m, c, NULL, &error);
        if (cases[i].back == 0) {
            assert_int_equal(status, HEARTH_FORMAT);
            assert_non_null(strstr(error.text, "lets no layer choose positions before one that needs them"));
            continue;
        }
        stack_check(status, &error);
        assert_int_equal(m->layers[4].attention.chosen_back, cases[i].back);
        hearth_model_close(m);
    }
}

/* ------------------------------------------------------------------ sequences */

/* Returns the logits of the text, alone in sequence 0. Freed with free. */
static float *read_alone(stack *s, const int32_t ids[LONG])
{
    float *logits = malloc(LONG * (size_t)s->info.vocabulary_size * sizeof *logits);
    assert_int_equal(hearth_session_truncate(s->session, 0, 0, NULL), HEARTH_OK);
    feed(s, 0, ids, LONG, logits);
    return logits;
}

/* Reads the last tokens of the text one by one; they must give the logits of `want`. */
static void go_on(stack *s, uint32_t sequence, const int32_t ids[LONG], size_t from, const float *want)
{
    size_t v = s->info.vocabulary_size;
    float *logits = malloc(v * sizeof *logits);
    for (size_t i = from; i < LONG; i++) {
        feed(s, sequence, ids + i, 1, logits);
        assert_true(relative_l2(logits, want + i * v, v) < 1e-5);
    }
    free(logits);
}

/* Sequences of one batch choose for themselves; copies, shorter ones and restored ones go on as if nothing had happened. want: the
 * logits of the text. */
static void check_sequences(stack *s, const float *want)
{
    int32_t ids[LONG];
    hearth_error error;
    hearth_row rows[40];
    hearth_checkpoint *saved;
    size_t v = s->info.vocabulary_size;
    long_text(ids);
    feed(s, 0, ids, 200, NULL);
    feed(s, 1, ids, 5, NULL);
    for (size_t k = 0; k < 40; k++) /* one sequence is limited all along, the other from the middle on */
        rows[k] = (hearth_row){.token = ids[(k % 2 ? 5 : 200) + k / 2], .sequence = k % 2, .output = true};
    stack_check(hearth_session_feed(s->session, rows, 40, &error), &error);
    float *logits = malloc(40 * v * sizeof *logits);
    stack_check(hearth_session_logits(s->session, 0, 40, logits, &error), &error);
    for (size_t k = 0; k < 40; k++)
        assert_true(relative_l2(logits + k * v, want + ((k % 2 ? 5 : 200) + k / 2) * v, v) < 1e-5);
    stack_check(hearth_session_fork(s->session, 0, 2, &error), &error);
    stack_check(hearth_session_save(s->session, 0, &saved, &error), &error);
    if (s->engine->host_recurrent + s->engine->device_recurrent ==
        0) { /* states of recurrent layers are not kept of so many tokens */
        stack_check(hearth_session_truncate(s->session, 0, 130, &error), &error);
        go_on(s, 0, ids, 130, want);
    }
    go_on(s, 2, ids, 220, want);
    stack_check(hearth_session_restore(s->session, 1, saved, &error), &error);
    go_on(s, 1, ids, 220, want);
    hearth_checkpoint_destroy(saved);
    free(logits);
}

static void sequences(void **state)
{
    (void)state;
    hearth_session_options options = long_session;
    options.sequences = 3;
    for (size_t i = 0; i < MODELS; i++) {
        int32_t ids[LONG];
        char path[600];
        stack s;
        hearth_error error;
        long_text(ids);
        open_model(&s, models[i]);
        float *want = read_alone(&s, ids);
        hearth_session_destroy(s.session);
        stack_check(hearth_session_create(&s.session, s.engine, &options, &error), &error);
        check_sequences(&s, want);
        stack_close(&s);

        placed_form forms[] = {PLACED_DEVICE, PLACED_DEVICE, PLACED_HOST, PLACED_SPLIT, PLACED_DEVICE, PLACED_SPLIT};
        uint32_t seed = 1;
        hearth_runtime *runtime = open_runtime("host", 2);
        open_placed_model(&s, runtime, golden_path(path, sizeof path, models[i], ""));
        placed_shape shape = shape_of(&s, HEARTH_MODE_DENSE);
        char *json = print_placed(&shape, forms, false, false, &seed);
        open_placed(&s, json, HEARTH_MODE_DENSE, false, options);
        check_sequences(&s, want);
        close_placed(&s);
        hearth_model_close(s.model);
        hearth_runtime_destroy(runtime);
        free(json), free(want);
    }
}

/* ------------------------------------------------------------------ sides */

/* A model on a device must give what it gives alone, all its layers there, and layers on both sides in turn. */
static void check_sides(stack *s, const char *name, const char *spec, const int32_t ids[LONG], const float *want)
{
    static const size_t pieces[] = {1, 7, STEP_ROWS + 1, 3, 90, 2, 5};
    placed_shape shape = shape_of(s, HEARTH_MODE_DENSE);
    float *logits = malloc(LONG * (size_t)s->info.vocabulary_size * sizeof *logits);
    for (unsigned way = 0; way < 4; way++) { /* whole; the first there, the second there; in pairs */
        placed_form forms[MOST_LAYERS];
        uint32_t seed = 1;
        for (uint32_t l = 0; l < shape.layers; l++)
            forms[l] = way == 0                                      ? PLACED_DEVICE
                       : (way == 3 ? (l + 1) / 2 : l) % 2 == way % 2 ? PLACED_SPLIT
                                                                     : PLACED_HOST;
        char *json = print_placed(&shape, forms, way == 0 && s->model->hyper.stream_count == 1, false, &seed);
        open_placed(s, json, HEARTH_MODE_DENSE, false, long_session);
        for (size_t at = 0, k = 0, n; at < LONG; at += n, k++) {
            n = pieces[k % 7] < LONG - at ? pieces[k % 7] : LONG - at;
            feed(s, 0, ids + at, n, logits + at * s->info.vocabulary_size);
        }
        double distance = relative_l2(logits, want, LONG * (size_t)s->info.vocabulary_size);
        print_message("%-11s %-10s way %u: %.2e\n", name, spec, way, distance);
        assert_true(distance < 1e-5);
        close_placed(s);
        free(json);
    }
    free(logits);
}

/* Who sees what another layer chose may lie on the other side. */
static void sides(void **state)
{
    (void)state;
    const device_specs *specs = usable_devices();
    for (size_t i = 0; i < MODELS * specs->count; i++) {
        int32_t ids[LONG];
        char path[600];
        const char *name = models[i % MODELS], *spec = specs->text[i / MODELS];
        stack alone, s;
        long_text(ids);
        open_model(&alone, name);
        float *want = read_alone(&alone, ids);
        stack_close(&alone);
        hearth_runtime *runtime = open_runtime(spec, 2);
        open_placed_model(&s, runtime, golden_path(path, sizeof path, name, ""));
        check_sides(&s, name, spec, ids, want);
        free(want);
        hearth_model_close(s.model);
        hearth_runtime_destroy(runtime);
    }
}

/* Returns a model whose first layer with attention sees all positions, and whose second one chooses. */
static hearth_model *bind_late_choice(void)
{
    static const uint32_t ratios[] = {0, 0, 0, 0, 4};
    char path[600];
    hearth_error error;
    hearth_model *model;
    checkpoint *c;
    stack_check(gguf_open(&c, golden_path(path, sizeof path, "qwen3-8-next", "model.gguf"), &error), &error);
    stack_check(checkpoint_set_numbers(c, "qwen4exp.attention.compress_ratios", VALUE_U32, ratios, 5, &error), &error);
    stack_check(model_bind(&model, c, NULL, &error), &error);
    assert_int_equal(model->layers[2].attention.chosen, 0);
    assert_ptr_equal(model_first_attention(model), &model->layers[2].attention);
    assert_ptr_equal(model_first_choice(model), &model->layers[4].attention);
    return model;
}

static void later_layers_choose(void **state)
{
    (void)state;
    const device_specs *specs = usable_devices();
    int32_t ids[LONG];
    stack alone;
    long_text(ids);
    open_bound(&alone, bind_late_choice(), long_session);
    float *want = read_alone(&alone, ids);
    stack_close(&alone);
    for (size_t i = 0; i < specs->count; i++) {
        stack s = {.runtime = open_runtime(specs->text[i], 2), .model = bind_late_choice()};
        hearth_model_describe(s.model, &s.info);
        check_sides(&s, "late choice", specs->text[i], ids, want);
        hearth_model_close(s.model);
        hearth_runtime_destroy(s.runtime);
    }
    free(want);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_highest_are_chosen),
        cmocka_unit_test(nan_is_chosen),
        cmocka_unit_test(it_matters),
        cmocka_unit_test(short_sessions),
        cmocka_unit_test(any_number_may_be_chosen),
        cmocka_unit_test(keys_together),
        cmocka_unit_test(who_chooses),
        cmocka_unit_test(recurrent_layers_choose_nothing),
        cmocka_unit_test(sequences),
        cmocka_unit_test(sides),
        cmocka_unit_test(later_layers_choose),
    };
    return run_group(tests, NULL, NULL);
}
