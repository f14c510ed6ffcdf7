/* engine_family_pack.c - what conversion may not change, for every family: a folder written as GGUF gives the same
 * logits; where neurons are often zero, so do neuron-major files, in which exact is dense byte for byte and the neurons
 * that fire are those of the goldens (tests/data). */
#include "../src/model/convert.h"
#include "../src/model/model.h"
#include "modes.h"

#include "family_cases.h"
#include "own_folder.h"

/* Those with zeros. activation: what the files do not say; their goldens then are of another activation. */
static const struct {
    const char *name, *activation;
} zeros[] = {{"arcee", NULL},
             {"bitnet", NULL},
             {"jais2", NULL},
             {"nemotron", NULL},
             {"opt", NULL},
             {"minicpm-s", NULL},
             {"bamboo", NULL},
             {"falcon-7b", "relu"},
             {"falcon-40b", "relu"},
             {"smallthinker", NULL},
             {"mixtral-drelu", NULL},
             {"gemma3n", NULL},
             {"nemotron-h", NULL},
             {"nemotron-h-moe", NULL},
             {"nemotron-h-latent", NULL},
             {"cosmos3-edge", NULL},
             {"persimmon", NULL}};
#define ZEROS (sizeof zeros / sizeof *zeros)

/* README.md of the goldens: float32 throughout. */
static const double bound = 1e-5;

static pool *threads;

static void write_to(const char *from, const char *to, convert_options o)
{
    hearth_error error;
    stack_check(convert_write(from, to, &o, threads, &error), &error);
}

/* Opens a model whose activation the test may name, and reads the golden's text with it, plain. Freed with free. */
static float *read_as(const char *path, const char *activation, const golden *g, bool one_by_one)
{
    stack s = {0};
    hearth_error error;
    hearth_model_options options = {.ffn_activation = activation};
    float *logits = malloc(g->total * g->vocabulary * sizeof *logits);
    stack_check(hearth_runtime_create(&s.runtime, &(hearth_runtime_options){.threads = 2}, &error), &error);
    stack_check(hearth_model_open(&s.model, path, &options, &error), &error);
    hearth_model_describe(s.model, &s.info);
    stack_open_engine(&s, &(setup){.mode = HEARTH_MODE_DENSE, .plain = true, .context = golden_session(g).context});
    stack_read(&s, g->ids, g->total, one_by_one, logits);
    stack_close(&s);
    return logits;
}

static double distance(const float *a, const float *b, const golden *g)
{
    return relative_l2(a, b, g->total * g->vocabulary);
}

/* ------------------------------------------------------------------ GGUF and back */

/* As stored, the same values give the same bytes; as float32 the kernels of another format may add in another order. */
static void gguf_and_back(void **state)
{
    (void)state;
    for (size_t i = 0; i < FAMILY_CASES; i++) {
        golden g;
        golden_load(&g, family_cases[i]);
        size_t size = g.total * g.vocabulary * sizeof(float);
        float *folder = read_as(g.folder, NULL, &g, false), *singly = read_as(g.folder, NULL, &g, true);
        write_to(g.folder, own_path, (convert_options){.format = FORMAT_COUNT, .down_format = FORMAT_COUNT});
        float *stored = read_as(own_path, NULL, &g, false);
        if (memcmp(folder, stored, size) != 0)
            fail_msg("%s: the GGUF that is written of the folder is %.2e from it", family_cases[i],
                     distance(stored, folder, &g));
        write_to(g.folder, own_path, (convert_options){.format = FORMAT_F32, .down_format = FORMAT_COUNT});
        float *wide = read_as(own_path, NULL, &g, false);
        print_message("%-14s %.2e from the golden, as float32 %.2e\n", family_cases[i], distance(stored, g.logits, &g),
                      distance(wide, g.logits, &g));
        assert_true(distance(stored, g.logits, &g) <= bound && distance(wide, g.logits, &g) <= bound);
        if (!(distance(singly, g.logits, &g) <= bound))
            fail_msg("%s: token by token it is %.2e from the golden", family_cases[i], distance(singly, g.logits, &g));
        free(wide);
        free(singly);
        free(stored);
        free(folder);
        golden_free(&g);
    }
}

/* ------------------------------------------------------------------ neuron-major */

/* An order of neurons without a fixed point in most places, for all layers. */
typedef struct orders {
    const uint32_t **rows;
    uint32_t *numbers;
} orders;

static orders make_orders(const hearth_model *m)
{
    uint32_t layers = m->hyper.layer_count, most = model_largest(m).neurons;
    orders o = {malloc(layers * sizeof *o.rows), malloc((size_t)layers * most * sizeof *o.numbers)};
    for (uint32_t i = 0; i < layers; i++) {
        uint32_t f = m->layers[i].ffn.neuron_count, step = 7;
        while (f > 0 && f % step == 0)
            step += 4; /* 11, 15, 19: one of them has no factor in common with f */
        for (uint32_t n = 0; n < f; n++)
            o.numbers[(size_t)i * most + n] = (uint32_t)(((uint64_t)n * step + i + 3) % f);
        o.rows[i] = o.numbers + (size_t)i * most;
    }
    return o;
}

/* Returns how many of the first `end` layers have zeros. */
static uint32_t layers_with_zeros(const hearth_model *m, uint32_t end)
{
    uint32_t count = 0;
    for (uint32_t i = 0; i < end; i++)
        count += ffn_skippable(&m->layers[i].ffn);
    return count;
}

/* What the reference says that fires, in layers that have zeros. */
typedef struct watch {
    const uint8_t *want;   /* [layers with zeros][rows][routed] from active.u8                          */
    const uint8_t *shared; /* [layers with zeros][rows][neurons - routed] from active_shared.u8, or NULL */
    const hearth_model *model;
    uint32_t rows, neurons, routed;
    uint64_t differing, seen; /* seen: layers of rows */
} watch;

/* Returns whether the reference says that a neuron fires. */
static bool is_wanted(const watch *w, const hearth_observation *o, uint32_t neuron)
{
    size_t row = (size_t)layers_with_zeros(w->model, o->layer) * w->rows + o->position;
    if (neuron < w->routed)
        return w->want[row * w->routed + neuron] != 0;
    return w->shared[row * (w->neurons - w->routed) + neuron - w->routed] != 0;
}

static void watch_layer(void *user, const hearth_observation *o)
{
    watch *w = user;
    if (!ffn_skippable(&w->model->layers[o->layer].ffn))
        return;
    uint8_t *fires = calloc(w->neurons, 1);
    assert_non_null(o->neurons); /* exact is what such a model runs on */
    for (size_t i = 0; i < o->neuron_count; i++)
        fires[o->neurons[i]] = o->activations[i] != 0;
    for (uint32_t i = 0; i < w->neurons; i++)
        w->differing += fires[i] != is_wanted(w, o, i);
    w->seen++;
    free(fires);
}

/* Reads a file of the golden that has `size` bytes. Freed with free. */
static uint8_t *read_active(const char *name, const char *file, size_t size)
{
    char path[600];
    uint8_t *bytes = malloc(size + 1);
    FILE *f = fopen(golden_path(path, sizeof path, name, file), "rb");
    assert_non_null(f);
    assert_int_equal(fread(bytes, 1, size + 1, f), size);
    fclose(f);
    return bytes;
}

/* The neurons that an observer sees firing are those of active.u8 and active_shared.u8. */
static void check_neurons(const char *name, const char *path, const golden *g)
{
    const char *level;
    for (size_t l = 0; (level = level_at(l)) != NULL; l++) {
        stack s;
        stack_open_mode(&s, path, &(setup){.mode = HEARTH_MODE_AUTO, .level = level, .plain = true});
        const ffn_shape *shape = &s.model->layers[model_first_network(s.model)].ffn;
        size_t layers = (size_t)layers_with_zeros(s.model, s.info.layer_count) * g->total,
               n = layers * shape->neuron_count;
        uint8_t *want = read_active(name, "active.u8", layers * ffn_routed(shape));
        uint8_t *shared =
            shape->shared_neurons == 0 ? NULL : read_active(name, "active_shared.u8", layers * shape->shared_neurons);
        watch w = {.want = want,
                   .shared = shared,
                   .model = s.model,
                   .rows = (uint32_t)g->total,
                   .neurons = shape->neuron_count,
                   .routed = ffn_routed(shape)};
        hearth_session_observe(s.session, &(hearth_observer){.see = watch_layer, .user = &w});
        stack_feed(&s, 0, g->ids, g->total, NULL);
        assert_int_equal(w.seen, layers);
        if (w.differing * 10000 > 3 * n)
            fail_msg("%s: %s: %llu of %zu neurons differ", name, level, (unsigned long long)w.differing, n);
        stack_close(&s);
        free(shared);
        free(want);
    }
}

/* Packs and checks a family with zeros; format: of the matrices, FORMAT_COUNT: as stored. */
static void check_packed(size_t row, const char *source, const golden *g, const uint32_t *const *order,
                         number_format format)
{
    const char *name = zeros[row].name, *activation = zeros[row].activation;
    write_to(source, own_path,
             (convert_options){.format = format,
                               .down_format = FORMAT_COUNT,
                               .neuron_major = true,
                               .ffn_activation = activation,
                               .order = order});
    expect_exact_is_dense(own_path, g->ids, g->total, g->vocabulary);
    if (format != FORMAT_COUNT)
        return;
    float *packed = read_as(own_path, NULL, g, false),
          *want = activation ? read_as(source, activation, g, false) : NULL;
    double off = distance(packed, activation ? want : g->logits, g);
    print_message("%-10s %-12s%s: %.2e\n", name, strrchr(source, '/') + 1, order ? ", in order" : "", off);
    assert_true(off <= bound);
    if (!activation)
        check_neurons(name, own_path, g);
    free(packed);
    free(want);
}

/* None for models with experts, whose neurons stay where they are. */
static orders orders_of(const golden *g)
{
    hearth_model *m;
    hearth_error error;
    stack_check(hearth_model_open(&m, g->folder, NULL, &error), &error);
    orders o = {NULL, NULL};
    if (model_largest(m).experts == 0)
        o = make_orders(m);
    hearth_model_close(m);
    return o;
}

static void exact_is_dense_where_there_are_zeros(void **state)
{
    (void)state;
    for (size_t i = 0; i < ZEROS; i++) {
        golden g;
        char path[600];
        golden_load(&g, zeros[i].name);
        golden_path(path, sizeof path, zeros[i].name, "model.gguf");
        const char *sources[] = {g.folder, path};
        orders o = orders_of(&g);
        for (size_t from = 0; from < 2; from++)
            for (int ordered = 0; ordered < (o.rows ? 2 : 1) && file_exists(sources[from]); ordered++)
                check_packed(i, sources[from], &g, ordered ? o.rows : NULL, FORMAT_COUNT);
        check_packed(i, g.folder, &g, o.rows, FORMAT_Q8_0);
        free(o.rows);
        free(o.numbers);
        golden_free(&g);
    }
}

/* Also where nothing is skipped, and where gate and up are one matrix. */
static void every_family_in_another_order(void **state)
{
    (void)state;
    for (size_t i = 0; i < FAMILY_CASES; i++) {
        golden g;
        golden_load(&g, family_cases[i]);
        orders o = orders_of(&g);
        write_to(g.folder, own_path,
                 (convert_options){
                     .format = FORMAT_COUNT, .down_format = FORMAT_COUNT, .neuron_major = true, .order = o.rows});
        float *packed = read_as(own_path, NULL, &g, false);
        if (!(distance(packed, g.logits, &g) <= bound))
            fail_msg("%s: packed in another order it is %.2e from the golden", family_cases[i],
                     distance(packed, g.logits, &g));
        free(packed);
        free(o.rows);
        free(o.numbers);
        golden_free(&g);
    }
}

/* ------------------------------------------------------------------ small activations */

/* What the first layer with a network does: of mode dense the activations of the first matrix, of mode pruned what is not zero. */
typedef struct first_layer {
    float *gates;  /* [rows][f] */
    uint8_t *left; /* [rows][f] */
    size_t f;
    uint32_t layer;
} first_layer;

static void watch_first(void *user, const hearth_observation *o)
{
    first_layer *w = user;
    if (o->layer != w->layer)
        return;
    for (size_t i = 0; o->gates && i < w->f; i++)
        w->gates[o->position * w->f + i] = o->gates[i];
    for (size_t i = 0; o->neurons && i < o->neuron_count; i++)
        w->left[o->position * w->f + o->neurons[i]] = o->activations[i] != 0;
}

/* In mode pruned those neurons count whose activation by the first matrix is larger than the threshold. */
static void check_pruned(const char *path, const char *activation, const golden *g, const char *level, bool one_by_one)
{
    stack s = {0};
    hearth_error error;
    hearth_model_options options = {.ffn_activation = activation};
    hearth_runtime_options runtime = {.threads = 2, .cpu_level = level};
    float *logits = malloc(g->total * g->vocabulary * sizeof *logits);
    stack_check(hearth_runtime_create(&s.runtime, &runtime, &error), &error);
    stack_check(hearth_model_open(&s.model, path, &options, &error), &error);
    hearth_model_describe(s.model, &s.info);
    size_t f = s.info.neuron_count, n = g->total * f, left = 0;
    first_layer w = {calloc(n, sizeof *w.gates), calloc(n, 1), f, model_first_network(s.model)};
    stack_open_engine(&s, &(setup){.mode = HEARTH_MODE_DENSE, .plain = true});
    hearth_session_observe(s.session, &(hearth_observer){.see = watch_first, .user = &w, .gates = true});
    stack_read(&s, g->ids, g->total, one_by_one, logits);
    hearth_session_destroy(s.session);
    hearth_engine_destroy(s.engine);
    double mean = 0;
    for (size_t i = 0; i < n; i++)
        mean += fabs(w.gates[i]) / (double)n;
    stack_open_engine(&s, &(setup){.mode = HEARTH_MODE_PRUNED, .plain = true, .pruned_at = (float)mean});
    hearth_session_observe(s.session, &(hearth_observer){.see = watch_first, .user = &w});
    stack_read(&s, g->ids, g->total, one_by_one, logits);
    for (size_t i = 0; i < n; i++) {
        if ((fabs(w.gates[i]) > (double)(float)mean) != w.left[i])
            fail_msg("%s: %s: an activation of %g %s at a threshold of %g", path, level, (double)w.gates[i],
                     w.left[i] ? "counts" : "is left out", mean);
        left += w.left[i];
    }
    assert_true(left > 0 && left < n / 2);
    stack_close(&s);
    free(w.gates);
    free(w.left);
    free(logits);
}

static void pruned_leaves_out_what_is_small(void **state)
{
    (void)state;
    const char *level;
    for (size_t i = 0; i < ZEROS; i++) {
        golden g;
        if (strstr(zeros[i].name, "drelu") || strcmp(zeros[i].name, "bamboo") == 0)
            continue; /* where gate counts, up may still be zero */
        golden_load(&g, zeros[i].name);
        for (size_t l = 0; (level = level_at(l)) != NULL; l++)
            for (int one_by_one = 0; one_by_one < 2; one_by_one++)
                check_pruned(g.folder, zeros[i].activation, &g, level, one_by_one);
        golden_free(&g);
    }
}

static int set_up(void **state)
{
    return own_folder_make(state) || pool_create(&threads, 3, NULL) != HEARTH_OK;
}

static int tear_down(void **state)
{
    pool_destroy(threads);
    return own_folder_remove(state);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(gguf_and_back), cmocka_unit_test(exact_is_dense_where_there_are_zeros),
        cmocka_unit_test(every_family_in_another_order), cmocka_unit_test(pruned_leaves_out_what_is_small)};
    return run_group(tests, set_up, tear_down);
}
