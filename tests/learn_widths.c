/* learn_widths.c - a model whose layers differ in their number of neurons: placements, tune files, profiles, hidden
 * states and a whole tuning take that of the layer in question, and skipping changes nothing. */
#include "../src/base/file.h"
#include "../src/engine/placement.h"
#include "../src/learn/tuning.h"
#include "../src/learn/work.h"
#include "../src/model/tune.h"

#include "pack_build.h"

#include "tune_build.h"

#include <sys/stat.h>

enum { D = 32, HEADS = 4, LAYERS = 2, VOCABULARY = 64, CONTEXT = 64, TOKENS = 640 };
static const uint32_t widths[LAYERS] = {100, 40}; /* not the same number of 64-bit words either */

static char model_path[300], tune_path_of_it[300], learning_path[300];

/* ------------------------------------------------------------------ the model */

/* The file's tensors, each with values of its own. */
typedef struct file_tensors {
    stored_tensor tensors[32];
    size_t count;
    uint32_t seed;
    arena memory;
} file_tensors;

static void add_tensor(file_tensors *f, const char *name, uint64_t columns, uint64_t rows)
{
    size_t n = columns * (rows ? rows : 1);
    float *values = arena_new_array(&f->memory, n, sizeof *values);
    for (size_t i = 0; i < n; i++) {
        float value = (float)made_random(&f->seed) * 0x1p-24f - 0.5f;
        values[i] = rows ? value : 1 + value;
    }
    f->tensors[f->count++] = (stored_tensor){.name = arena_copy_text(&f->memory, name, strlen(name)),
                                             .format = FORMAT_F32,
                                             .rank = rows ? 2 : 1,
                                             .shape = {columns, rows ? rows : 1, 1, 1},
                                             .data = values,
                                             .size_bytes = n * sizeof *values};
}

static void add_of_layer(file_tensors *f, uint32_t layer, const char *name, uint64_t columns, uint64_t rows)
{
    char whole[TENSOR_NAME_SIZE];
    snprintf(whole, sizeof whole, "blk.%u.%s.weight", layer, name);
    add_tensor(f, whole, columns, rows);
}

/* Writes a llama with ReLU; stated [LAYERS]: its feed_forward_length. */
static void write_model(const char *path, const uint32_t *stated)
{
    file_tensors f = {.seed = 9};
    gguf_writer *file;
    hearth_error error;
    const key_value keys[] = {{.key = "general.architecture", .type = VALUE_STRING, .as.string = span_of("llama")},
                              {.key = "llama.block_count", .type = VALUE_U32, .as.u = LAYERS},
                              {.key = "llama.context_length", .type = VALUE_U32, .as.u = CONTEXT},
                              {.key = "llama.embedding_length", .type = VALUE_U32, .as.u = D},
                              {.key = "llama.feed_forward_length",
                               .type = VALUE_ARRAY,
                               .item_type = VALUE_U32,
                               .count = LAYERS,
                               .as.items = stated},
                              {.key = "llama.attention.head_count", .type = VALUE_U32, .as.u = HEADS},
                              {.key = "llama.attention.layer_norm_rms_epsilon", .type = VALUE_F32, .as.f = 1e-5},
                              {.key = "llama.hidden_activation", .type = VALUE_STRING, .as.string = span_of("relu")}};
    add_tensor(&f, "token_embd.weight", D, VOCABULARY);
    add_tensor(&f, "output.weight", D, VOCABULARY);
    add_tensor(&f, "output_norm.weight", D, 0);
    for (uint32_t i = 0; i < LAYERS; i++) {
        add_of_layer(&f, i, "attn_norm", D, 0);
        add_of_layer(&f, i, "attn_q", D, D);
        add_of_layer(&f, i, "attn_k", D, D);
        add_of_layer(&f, i, "attn_v", D, D);
        add_of_layer(&f, i, "attn_output", D, D);
        add_of_layer(&f, i, "ffn_norm", D, 0);
        add_of_layer(&f, i, "ffn_gate", D, widths[i]);
        add_of_layer(&f, i, "ffn_up", D, widths[i]);
        add_of_layer(&f, i, "ffn_down", widths[i], D);
    }
    must(gguf_writer_open(&file, path, false, keys, sizeof keys / sizeof *keys, f.tensors, f.count, &error), &error);
    for (size_t i = 0; i < f.count; i++)
        must(gguf_writer_put(file, f.tensors[i].data, f.tensors[i].size_bytes, &error), &error);
    must(gguf_writer_commit(file, &error), &error);
    arena_clear(&f.memory);
}

static hearth_model *open_with(const char *path, const char *tune_file)
{
    hearth_model *m;
    hearth_error error;
    hearth_model_options options = {.tune = tune_file};
    must(hearth_model_open(&m, path, &options, &error), &error);
    return m;
}

/* Reads CONTEXT tokens, in one feed or one by one, and takes the logits of all. placement: destroyed. */
static void read_logits(const hearth_model *m, hearth_placement *placement, unsigned workers, bool single,
                        float *logits)
{
    hearth_runtime *runtime;
    hearth_engine *engine;
    hearth_session *session;
    hearth_error error;
    hearth_row rows[CONTEXT];
    hearth_runtime_options by = {.threads = workers};
    hearth_engine_options placed = {.placement = placement, .activations = HEARTH_ACTIVATIONS_F32};
    hearth_session_options options = {.context = CONTEXT, .output_rows = CONTEXT};
    for (int32_t i = 0; i < CONTEXT; i++)
        rows[i] = (hearth_row){i * 7 % VOCABULARY, 0, true};
    must(hearth_runtime_create(&runtime, &by, &error), &error);
    must(hearth_engine_create(&engine, runtime, m, &placed, &error), &error);
    must(hearth_session_create(&session, engine, &options, &error), &error);
    for (size_t at = 0, n = single ? 1 : CONTEXT; at < CONTEXT; at += n) {
        must(hearth_session_feed(session, rows + at, n, &error), &error);
        must(hearth_session_logits(session, 0, n, logits + at * VOCABULARY, &error), &error);
    }
    hearth_session_destroy(session);
    hearth_engine_destroy(engine);
    hearth_runtime_destroy(runtime);
    hearth_placement_destroy(placement);
}

static hearth_placement *placed(const hearth_model *m, hearth_mode mode)
{
    hearth_placement *p;
    hearth_error error;
    must(hearth_placement_create(&p, m, mode, &error), &error);
    return p;
}

/* ------------------------------------------------------------------ tests */

/* Prints and parses a placement, which must not change. */
static void there_and_back(const hearth_model *m, const hearth_placement *p)
{
    char *text, *again;
    hearth_placement *read;
    hearth_error error;
    must(hearth_placement_print(p, &text, &error), &error);
    must(hearth_placement_parse(&read, m, text, strlen(text), &error), &error);
    must(hearth_placement_print(read, &again, &error), &error);
    assert_string_equal(text, again);
    for (uint32_t i = 0; i < LAYERS; i++) {
        assert_int_equal(read->layers[i].neuron_count, widths[i]);
        assert_int_equal(layer_neurons(&read->layers[i], PLACEMENT_CPU) +
                             layer_neurons(&read->layers[i], PLACEMENT_DEVICE) +
                             layer_neurons(&read->layers[i], PLACEMENT_NOBODY),
                         widths[i]);
    }
    hearth_placement_destroy(read);
    hearth_free(again);
    hearth_free(text);
}

static void placements(void **state)
{
    (void)state;
    hearth_error error;
    hearth_model *m = open_with(model_path, "");
    hearth_placement *p = placed(m, HEARTH_MODE_EXACT);
    there_and_back(m, p);
    must(hearth_placement_use_device(p, m, LAYERS, 60, &error), &error);
    assert_int_equal(p->layers[0].form, FORM_SPLIT);
    assert_int_equal(layer_neurons(&p->layers[0], PLACEMENT_DEVICE), 60);
    assert_int_equal(p->layers[1].form, FORM_DEVICE); /* all of its 40 */
    assert_int_equal(p->head, PLACEMENT_CPU);
    there_and_back(m, p);
    must(hearth_placement_use_device(p, m, LAYERS, UINT32_MAX, &error), &error);
    assert_int_equal(p->layers[0].form, FORM_DEVICE);
    assert_int_equal(p->head, PLACEMENT_DEVICE);
    there_and_back(m, p);
    hearth_placement_destroy(p);

    tune *t = make_tune(m, MADE_COUNTS, FORMAT_F32, 4);
    must(tune_write(tune_path_of_it, t, m, &error), &error);
    tune_close(t);
    hearth_model *counted = open_with(model_path, tune_path_of_it);
    p = placed(counted, HEARTH_MODE_DENSE);
    must(hearth_placement_keep(p, counted, 0.25, true, &error), &error);
    assert_int_equal(layer_neurons(&p->layers[0], PLACEMENT_CPU), 25);
    assert_int_equal(layer_neurons(&p->layers[1], PLACEMENT_CPU), 10);
    there_and_back(counted, p);
    hearth_placement_destroy(p);
    hearth_model_close(counted);

    static const char *const wrong[] = {
        "{\"sides\":[\"cpu\"],\"kv\":\"cpu\",\"embedding\":\"cpu\",\"head\":\"cpu\",\"layers\":["
        "{\"form\":\"host\",\"selector\":\"all\",\"assignments\":[{\"side\":\"cpu\",\"neurons\":[[0,100]]}]},"
        "{\"form\":\"host\",\"selector\":\"all\",\"assignments\":[{\"side\":\"cpu\",\"neurons\":[[0,100]]}]}]}",
        "{\"sides\":[\"cpu\"],\"kv\":\"cpu\",\"embedding\":\"cpu\",\"head\":\"cpu\",\"layers\":["
        "{\"form\":\"host\",\"selector\":\"all\",\"assignments\":[{\"side\":\"cpu\",\"neurons\":[[0,40]]}]},"
        "{\"form\":\"host\",\"selector\":\"all\",\"assignments\":[{\"side\":\"cpu\",\"neurons\":[[0,40]]}]}]}"};
    static const char *const says[] = {"layer 1: neurons [0, 100] are not a range within 40",
                                       "layer 0: neuron 40 is listed nowhere"};
    for (size_t i = 0; i < 2; i++) {
        assert_int_equal(hearth_placement_parse(&p, m, wrong[i], strlen(wrong[i]), &error), HEARTH_FORMAT);
        expect_text(&error, says[i]);
    }
    hearth_model_close(m);
}

static void tune_files(void **state)
{
    (void)state;
    hearth_error error;
    tune *read;
    hearth_model *m = open_with(model_path, "");
    tune *t = make_tune(m, MADE_ALL, FORMAT_F32, 4);
    must(tune_write(tune_path_of_it, t, m, &error), &error);
    checkpoint *file = open_file(tune_path_of_it);
    const key_value *e = checkpoint_find(file, "hearth.tune.neurons");
    assert_int_equal(e->type, VALUE_ARRAY);
    assert_int_equal(e->count, LAYERS);
    assert_memory_equal(e->as.items, widths, sizeof widths);
    checkpoint_close(file);
    must(tune_open(&read, tune_path_of_it, m, &error), &error);
    expect_same_tune(t, read);
    tune_close(read);
    char *bytes;
    size_t size;
    must(file_read(&bytes, &size, tune_path_of_it, 1 << 20, &error), &error);
    char *stated = memmem(bytes, size, widths, sizeof widths);
    assert_non_null(stated);
    stated[sizeof *widths]++;
    assert_int_equal(tune_parse(&read, (const uint8_t *)bytes, size, "x.tune", m, &error), HEARTH_FORMAT);
    expect_text(&error, "x.tune: key hearth.tune.neurons: is 41, layer 1 of the model has 40");
    mem_free(bytes);
    t->layers[1].neuron_count = widths[0];
    assert_int_equal(tune_write(tune_path_of_it, t, m, &error), HEARTH_INVALID);
    expect_text(&error, "layer 1 has 100 neurons, the model's has 40");
    tune_close(t);
    hearth_model_close(m);
}

/* Exact, and every neuron computed from a file of the hottest first, are dense byte for byte. */
static void skipping_changes_nothing(void **state)
{
    (void)state;
    static float dense[CONTEXT * VOCABULARY], exact[CONTEXT * VOCABULARY];
    uint32_t orders[LAYERS][100];
    const uint32_t *order[LAYERS];
    seen s;
    hearth_error error;
    for (uint32_t i = 0; i < LAYERS; i++) {
        for (uint32_t n = 0; n < widths[i]; n++)
            orders[i][n] = (n * 7 + 3) % widths[i]; /* a permutation: 7 divides no width */
        order[i] = orders[i];
    }
    convert_options options = {PACK};
    for (int ordered = 0; ordered < 2; ordered++) {
        options.order = ordered ? order : NULL;
        must(convert(model_path, out_path, options, &s, &error), &error);
        assert_int_equal(s.transposed, LAYERS);
        hearth_model *m = open_with(out_path, "");
        for (int single = 0; single < 2; single++)
            for (unsigned workers = 1; workers <= 3; workers += 2) {
                read_logits(m, placed(m, HEARTH_MODE_DENSE), workers, single, dense);
                read_logits(m, placed(m, HEARTH_MODE_EXACT), workers, single, exact);
                assert_memory_equal(dense, exact, sizeof dense);
            }
        hearth_model_close(m);
        unlink(out_path);
    }
}

/* ------------------------------------------------------------------ learning */

static void see_fired(void *user, const hearth_observation *o)
{
    int32_t(*counts)[100] = user;
    assert_int_equal(o->neuron_count, widths[o->layer]);
    for (size_t i = 0; i < o->neuron_count; i++)
        counts[o->layer][i] += o->activations[i] != 0;
}

/* Counts the neurons that fire, by an observer of the test's own. */
static void count_fired(const hearth_engine *engine, const corpus *c, int32_t counts[LAYERS][100])
{
    hearth_session *session;
    hearth_error error;
    must(hearth_session_create(&session, engine, NULL, &error), &error);
    hearth_session_observe(session, &(hearth_observer){.see = see_fired, .user = counts});
    for (size_t i = 0; i < c->window_count; i++) {
        hearth_row rows[CONTEXT] = {0};
        size_t n = c->starts[i + 1] - c->starts[i];
        for (size_t t = 0; t < n; t++)
            rows[t].token = c->ids[c->starts[i] + t];
        must(hearth_session_truncate(session, 0, 0, &error), &error);
        must(hearth_session_feed(session, rows, n, &error), &error);
    }
    hearth_session_destroy(session);
}

static corpus some_ids(const hearth_model *m)
{
    static int32_t ids[TOKENS];
    corpus c;
    hearth_error error;
    uint32_t seed = 3;
    for (size_t i = 0; i < TOKENS; i++)
        ids[i] = (int32_t)(made_random(&seed) % VOCABULARY);
    must(corpus_of_ids(&c, m, ids, TOKENS, CONTEXT, &error), &error);
    return c;
}

static void profiles(void **state)
{
    (void)state;
    static int32_t counts[LAYERS][100];
    hearth_runtime *runtime;
    hearth_engine *engine;
    hearth_error error;
    profile first, again;
    hearth_model *m = open_with(model_path, "");
    corpus c = some_ids(m);
    must(hearth_runtime_create(&runtime, &(hearth_runtime_options){.threads = 2}, &error), &error);
    hearth_placement *p = placed(m, HEARTH_MODE_DENSE);
    must(hearth_engine_create(&engine, runtime, m, &(hearth_engine_options){.placement = p}, &error), &error);
    hearth_placement_destroy(p);
    count_fired(engine, &c, counts);
    profile_options options = {.folder = learning_path};
    must(profile_take(&first, engine, &c, &options, &error), &error);
    must(profile_take(&again, engine, &c, &options, &error), &error); /* from the counters that were stored */
    assert_int_equal(again.resumed_tokens, TOKENS);
    uint64_t fired = 0, neurons = 0;
    for (uint32_t i = 0; i < LAYERS; i++) {
        uint64_t sum = 0;
        assert_int_equal(first.layers[i].neuron_count, widths[i]);
        assert_memory_equal(first.layers[i].counts, counts[i], widths[i] * sizeof **counts);
        assert_memory_equal(again.layers[i].counts, counts[i], widths[i] * sizeof **counts);
        for (uint32_t n = 0; n < widths[i]; n++)
            sum += (uint64_t)counts[i][n];
        assert_true(fabs(first.layers[i].density - (double)sum / ((double)TOKENS * widths[i])) < 1e-12);
        fired += sum;
        neurons += widths[i];
    }
    assert_true(fired > 0 && first.hot_share[1] > 0 && first.hot_share[1] * (double)neurons <= (double)neurons);
    must(profile_probe(&first, engine, runtime, &c, 100, (hearth_progress){0}, &error), &error);
    profile_forget(learning_path);
    profile_free(&first);
    profile_free(&again);
    corpus_free(&c);
    hearth_engine_destroy(engine);
    hearth_runtime_destroy(runtime);
    hearth_model_close(m);
}

/* A whole tuning; the engine of mode predicted runs what it wrote. */
static void a_tuning(void **state)
{
    (void)state;
    static float dense[CONTEXT * VOCABULARY], other[CONTEXT * VOCABULARY];
    hearth_runtime *runtime;
    hearth_error error;
    tuning_result r;
    hearth_model *m = open_with(model_path, "");
    corpus c = some_ids(m);
    tuning_options options = {.folder = learning_path,
                              .recall = 0.9f,
                              .budget = 1,
                              .choice = TUNING_BYTES,
                              .for_powerinfer = true,
                              .epochs = 2,
                              .disk_bytes = 1 << 24};
    must(hearth_runtime_create(&runtime, &(hearth_runtime_options){.threads = 2}, &error), &error);
    must(tuning_run(&r, runtime, m, &c, tune_path_of_it, &options, &error), &error);
    tuning_free(&r);
    must(records_end(learning_path, &error), &error);
    hearth_runtime_destroy(runtime);
    corpus_free(&c);
    hearth_model_close(m);

    m = open_with(model_path, tune_path_of_it);
    for (uint32_t i = 0; i < LAYERS; i++) {
        learned_predictor *p = &m->tune->layers[i].predictor;
        assert_int_equal(p->kind, PREDICTOR_LOW_RANK);
        assert_int_equal(p->fc2.rows, widths[i]);
        p->threshold = -1e30f; /* lets all through */
    }
    read_logits(m, placed(m, HEARTH_MODE_EXACT), 2, true, dense);
    read_logits(m, placed(m, HEARTH_MODE_PREDICTED), 2, true, other);
    assert_memory_equal(dense, other, sizeof dense);
    hearth_placement *p = placed(m, HEARTH_MODE_PRUNED);
    must(hearth_placement_prune(p, m, 0.8, &error), &error);
    read_logits(m, p, 2, true, other);
    hearth_model_close(m);
}

static int set_up_widths(void **state)
{
    int failed = set_up(state);
    snprintf(model_path, sizeof model_path, "%s/model.gguf", folder);
    snprintf(tune_path_of_it, sizeof tune_path_of_it, "%s/x.tune", folder);
    snprintf(learning_path, sizeof learning_path, "%s/work", folder);
    write_model(model_path, widths);
    return failed || mkdir(learning_path, 0700);
}

static int tear_down_widths(void **state)
{
    unlink(model_path);
    unlink(tune_path_of_it);
    rmdir(learning_path);
    return tear_down(state);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(placements), cmocka_unit_test(tune_files),
                                       cmocka_unit_test(skipping_changes_nothing), cmocka_unit_test(profiles),
                                       cmocka_unit_test(a_tuning)};
    return run_group(tests, set_up_widths, tear_down_widths);
}
