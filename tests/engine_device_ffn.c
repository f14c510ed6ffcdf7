/* engine_device_ffn.c - the neurons of a layer on both sides: built networks of every form (ffn_build.h) in every form of
 * a layer, against a plain loop in double precision; and of real models what an observer sees and what is counted,
 * against the CPU alone. */
#include "ffn_watch.h"

#include "placements.h"

#include "../src/device/driver.h"
#include "../src/engine/device_state.h"

/* ------------------------------------------------------------------ built networks */

static placed_shape shape_of_built(const built *b, hearth_mode mode)
{
    return (placed_shape){1, b->shape.f, &b->model, mode, b->threshold};
}

static void open_built(stack *s, hearth_runtime *runtime, built *b, placed_form form, hearth_mode mode, bool plain,
                       uint32_t seed)
{
    placed_shape shape = shape_of_built(b, mode);
    *s = (stack){.runtime = runtime, .model = &b->model, .info = {.vocabulary_size = b->shape.d}};
    char *json = print_placed(&shape, &form, seed % 2, seed / 2 % 2, &seed);
    open_placed(s, json, mode, plain, (hearth_session_options){.context = 64, .output_rows = 64, .kv = HEARTH_KV_F32});
    free(json);
}

/* Returns the distance from the reference, which has been computed. */
static double check_network(hearth_runtime *runtime, built *b, placed_form form, hearth_mode mode, bool plain,
                            uint32_t seed)
{
    stack s;
    size_t n = (size_t)BUILT_TOKENS * b->shape.d;
    float *logits = malloc(n * sizeof *logits), *want = malloc(n * sizeof *want);
    open_built(&s, runtime, b, form, mode, plain, seed);
    watch w = watch_begin(b, mode);
    if (plain)
        hearth_session_observe(s.session, &(hearth_observer){.see = watch_row, .user = &w});
    read_portions(&s, logits);
    if (plain) {
        assert_int_equal(w.calls, BUILT_TOKENS);
        check_counts(&s, b, mode);
    }
    for (size_t i = 0; i < n; i++)
        want[i] = (float)b->out[i];
    double distance = relative_l2(logits, want, n);
    if (!(distance <= (plain ? 2e-6 : 5e-4))) /* see engine_ffn.c */
        fail_msg("%s, form %d of a layer: relative distance %.2e", describe(&b->shape, mode, plain), (int)form,
                 distance);
    close_placed(&s);
    free(logits);
    free(want);
    return distance;
}

/* A stock down that the placement wants transposed is rounded once more on dense, too. */
static hearth_mode arithmetic(hearth_mode mode, placed_form form)
{
    return mode == HEARTH_MODE_DENSE && form == PLACED_SPLIT ? HEARTH_MODE_EXACT : mode;
}

/* Every network meets each mode in one form of a layer, and the next network in another. */
static void every_network(void **state)
{
    (void)state;
    const device_specs *specs = usable_devices();
    hearth_runtime *runtimes[MOST_SPECS];
    double worst[MOST_SPECS][2] = {{0}};
    unsigned networks = 0;
    built_shape shape;
    for (size_t i = 0; i < specs->count; i++)
        runtimes[i] = open_runtime(specs->text[i], 1);
    for (size_t k = 0; next_shape(&shape, &k);) {
        if (!device_has_format(shape.format) || !device_has_format(shape.down))
            continue;
        shape.normed = k % 2; /* the predictor's input, on whichever side it is computed */
        built *b = built_new(&shape);
        bool rounds = number_is_block(shape.format) || number_is_block(shape.down);
        for (int mode = HEARTH_MODE_DENSE; mode <= HEARTH_MODE_PREDICTED; mode++)
            for (int plain = !rounds; plain < 2; plain++, networks++) {
                placed_form form = (placed_form)(PLACED_FFN_HOST + (networks + k / 3) % 3);
                built_compute(b, arithmetic((hearth_mode)mode, form), !plain);
                for (size_t i = 0; i < specs->count; i++)
                    worst[i][plain] =
                        fmax(worst[i][plain], check_network(runtimes[i], b, form, (hearth_mode)mode, plain, networks));
            }
        built_free(b);
    }
    for (size_t i = 0; i < specs->count; i++) {
        print_message("%-9s %u networks, worst distance %.1e with rounded activations, %.1e without\n", specs->text[i],
                      networks, worst[i][0], worst[i][1]);
        assert_int_equal(device_used(runtimes[i]), 0);
        hearth_runtime_destroy(runtimes[i]);
    }
}

/* What a device has no kernels for is refused by name. */
static void formats_without_kernels(void **state)
{
    (void)state;
    hearth_runtime *runtime = open_runtime("host", 1);
    built *b = built_new(
        &(built_shape){.format = FORMAT_F32, .down = FORMAT_F32, .gating = FFN_GATED, .d = 256, .f = 37, .rank = 256});
    ((matrix *)&b->model.layers[0].gate)->format = FORMAT_Q2_K;
    for (placed_form form = PLACED_FFN_HOST; form < PLACED_FORMS; form++) {
        placed_shape shape = shape_of_built(b, HEARTH_MODE_EXACT);
        uint32_t seed = 1;
        hearth_error error = {0};
        stack s = {.runtime = runtime, .model = &b->model};
        char *json = print_placed(&shape, &form, false, false, &seed);
        hearth_status status = try_engine(&s, json, HEARTH_MODE_EXACT, false, &error);
        /* of form ffn-host only attention is there, which is float32 */
        assert_int_equal(status, form == PLACED_FFN_HOST ? HEARTH_OK : HEARTH_UNSUPPORTED);
        if (status != HEARTH_OK &&
            !strstr(error.text, "built: blk.0.ffn_gate: is q2_K, for which devices have no "
                                "kernels (they have f32, f16, bf16, q8_0, q4_0, q4_1, q4_K, q5_K, q6_K and mxfp4)"))
            fail_msg("%s", error.text);
        hearth_engine_destroy(s.engine);
        assert_int_equal(device_used(runtime), 0);
        free(json);
    }
    built_free(b);
    hearth_runtime_destroy(runtime);
}

/* ------------------------------------------------------------------ launches */

/* Kernels that a token launches in a layer. Its attention (float32) is norm, query with key and value, place, attend,
 * join and output: 6; the network is counted below. A step of several tokens launches gate and up apart. */
static void launches_of_a_layer(void **state)
{
    (void)state;
    static const struct {
        const char *what;
        built_shape shape;
        hearth_mode mode;
        unsigned network;
    } cases[] = {
        {"norm with quantize, gate with up, activate, accumulate, reduce",
         {.format = FORMAT_Q8_0, .down = FORMAT_Q8_0, .gating = FFN_GATED, .silu = true},
         HEARTH_MODE_DENSE,
         5},
        {"norm with quantize, gate with up, activate, quantize, down",
         {.format = FORMAT_Q4_K, .down = FORMAT_Q6_K, .gating = FFN_GATED, .silu = true, .stock = true},
         HEARTH_MODE_DENSE,
         5},
        {"norm, gate, compact, up, activate, accumulate, reduce",
         {.format = FORMAT_F16, .down = FORMAT_F16, .gating = FFN_GATED},
         HEARTH_MODE_EXACT,
         7},
    };
    hearth_runtime *runtime = open_runtime("host", 1);
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        built_shape shape = cases[i].shape;
        shape.d = 256, shape.f = 256, shape.rank = 256;
        built *b = built_new(&shape);
        stack s = {.runtime = runtime, .model = &b->model, .info = {.vocabulary_size = shape.d}};
        hearth_placement *placement;
        hearth_error error;
        stack_check(hearth_placement_create(&placement, s.model, cases[i].mode, &error), &error);
        stack_check(hearth_placement_use_device(placement, s.model, 1, UINT32_MAX, &error), &error);
        char *json;
        stack_check(hearth_placement_print(placement, &json, &error), &error);
        open_placed(&s, json, cases[i].mode, false, (hearth_session_options){.context = 64, .output_rows = 1});
        const device_program *p = s.session->device->programs[PROGRAM_ONE];
        unsigned launches = 0;
        for (size_t k = 0; p && k < p->command_count; k++)
            launches += p->commands[k].kind == COMMAND_LAUNCH;
        if (launches != 6 + cases[i].network)
            fail_msg("6 kernels and %s: %u are launched", cases[i].what, launches);
        close_placed(&s);
        hearth_free(json);
        hearth_placement_destroy(placement);
        built_free(b);
    }
    hearth_runtime_destroy(runtime);
}

/* ------------------------------------------------------------------ real models */

/* Everything that was seen of a text: of every layer and position. */
typedef struct record {
    const hearth_model *model;
    uint32_t layers, d, f;
    float *residual, *input; /* [layers][TEXT][d] */
    float *activation;       /* [layers][TEXT][f] */
    uint8_t *listed;         /* [layers][TEXT][f] */
    unsigned calls;
    hearth_counts counts[MOST_LAYERS];
} record;

static void see(void *user, const hearth_observation *o)
{
    record *r = user;
    size_t at = (size_t)o->layer * TEXT + o->position;
    r->calls++;
    memcpy(r->residual + at * r->d, o->residual, r->d * sizeof(float));
    memcpy(r->input + at * r->d, o->ffn_input, r->d * sizeof(float));
    for (size_t i = 0; i < o->neuron_count; i++) {
        size_t neuron = o->neurons ? o->neurons[i] : i;
        assert_true(neuron < r->f && (!o->neurons || i == 0 || o->neurons[i - 1] < o->neurons[i]));
        r->activation[at * r->f + neuron] = o->activations[i];
        r->listed[at * r->f + neuron] = 1;
    }
}

static record take_record(stack *s, const char *json, hearth_mode mode)
{
    const hearth_session_options options = {.context = 64, .output_rows = 16, .kv = HEARTH_KV_F32};
    record r = {
        .model = s->model, .layers = s->info.layer_count, .d = s->info.embedding_length, .f = s->info.neuron_count};
    size_t rows = (size_t)r.layers * TEXT;
    r.residual = calloc(rows * r.d + 1, sizeof(float));
    r.input = calloc(rows * r.d + 1, sizeof(float));
    r.activation = calloc(rows * r.f + 1, sizeof(float));
    r.listed = calloc(rows * r.f + 1, 1);
    int32_t ids[TEXT];
    draw_prompt(ids, s->info.vocabulary_size, 40);
    draw_prompt(ids + TEXT - PROMPT, s->info.vocabulary_size, 41);
    float *logits = malloc(TEXT * s->info.vocabulary_size * sizeof *logits);
    open_placed(s, json, mode, true, options);
    hearth_session_observe(s->session, &(hearth_observer){.see = see, .user = &r});
    read_pieces(s, ids, logits);
    assert_int_equal(r.calls, model_networks(s->model) * TEXT);
    for (uint32_t layer = 0; layer < r.layers; layer++)
        assert_int_equal(hearth_session_counts(s->session, layer, &r.counts[layer], NULL), HEARTH_OK);
    close_placed(s);
    free(logits);
    return r;
}

static void free_record(record *r)
{
    free(r->residual);
    free(r->input);
    free(r->activation);
    free(r->listed);
}

/* The activations of a row, as a share of its largest. */
static double most_apart(const float *got, const float *want, size_t n)
{
    double most = 1e-30, apart = 0;
    for (size_t i = 0; i < n; i++) {
        most = fmax(most, fabs((double)want[i]));
        apart = fmax(apart, fabs((double)got[i] - (double)want[i]));
    }
    return apart / most;
}

static void expect_same_counts(const record *got, const record *want, const char *json)
{
    for (uint32_t i = 0; i < want->layers; i++) {
        const hearth_counts *a = &got->counts[i], *b = &want->counts[i];
        if (a->rows != b->rows || a->computed != b->computed || a->fired != b->fired || a->active != b->active)
            fail_msg("layer %u: counts %llu rows, %llu, %llu, %llu; the CPU's are %llu, %llu, %llu, %llu: %s", i,
                     (unsigned long long)a->rows, (unsigned long long)a->computed, (unsigned long long)a->fired,
                     (unsigned long long)a->active, (unsigned long long)b->rows, (unsigned long long)b->computed,
                     (unsigned long long)b->fired, (unsigned long long)b->active, json);
    }
}

static void expect_same_record(const record *got, const record *want, const char *json)
{
    size_t d = want->d, f = want->f;
    for (size_t row = 0; row < (size_t)want->layers * TEXT; row++) {
        if (want->model->layers[row / TEXT].ffn.neuron_count == 0)
            continue; /* a mixer alone shows nothing */
        if (memcmp(got->listed + row * f, want->listed + row * f, f) != 0)
            fail_msg("layer %zu, position %zu: other neurons, under %s", row / TEXT, row % TEXT, json);
        double apart = most_apart(got->activation + row * f, want->activation + row * f, f);
        if (!(apart <= 1e-4))
            fail_msg("layer %zu, position %zu: activations are %.1e apart, under %s", row / TEXT, row % TEXT, apart,
                     json);
        assert_true(relative_l2(got->residual + row * d, want->residual + row * d, d) <= 1e-4);
        assert_true(relative_l2(got->input + row * d, want->input + row * d, d) <= 1e-4);
    }
}

static const struct observed_model {
    const char *path, *activation;
    hearth_mode weakest;
} observed_models[] = {
    {HEARTH_MODELS "/stories-relu-q8_0.gguf", NULL, HEARTH_MODE_EXACT},
    {GOLDEN "/llama-relu-gqa/model.gguf", NULL, HEARTH_MODE_EXACT},
    {GOLDEN "/pwri/llama/q4_0.gguf", NULL, HEARTH_MODE_PREDICTED},
    {GOLDEN "/pwri/bamboo/f16.gguf", NULL, HEARTH_MODE_PREDICTED},
    /* what a predictor lets through is computed whatever its activation is */
    {GOLDEN "/pwri/llama/f32.gguf", "silu", HEARTH_MODE_PREDICTED},
    /* layer norms and biases; norms behind blocks; blocks side by side */
    {GOLDEN "/opt/model.gguf", NULL, HEARTH_MODE_EXACT},
    {GOLDEN "/gemma2/model.gguf", NULL, HEARTH_MODE_DENSE},
    {GOLDEN "/falcon-40b/model.gguf", NULL, HEARTH_MODE_DENSE},
    /* a norm that takes the activations of both sides together */
    {GOLDEN "/bitnet/model.gguf", NULL, HEARTH_MODE_EXACT},
    /* experts: whose router reads what enters; with two ReLUs; beside a layer without and with a shared one; with biases */
    {GOLDEN "/smallthinker/model.gguf", NULL, HEARTH_MODE_EXACT},
    {GOLDEN "/mixtral-drelu/model.gguf", NULL, HEARTH_MODE_EXACT},
    {GOLDEN "/mixtral-drelu-predictor", NULL, HEARTH_MODE_EXACT},
    {GOLDEN "/glm4-moe/model.gguf", NULL, HEARTH_MODE_DENSE},
    {GOLDEN "/gpt-oss/model.gguf", NULL, HEARTH_MODE_DENSE},
    /* in layers of their own, behind recurrent mixers or none; plain experts, and a shared one with a gate */
    {GOLDEN "/nemotron-h/model.gguf", NULL, HEARTH_MODE_EXACT},
    {GOLDEN "/nemotron-h-moe/model.gguf", NULL, HEARTH_MODE_EXACT},
    {GOLDEN "/deci/model.gguf", NULL, HEARTH_MODE_DENSE},
    {GOLDEN "/nemotron-h-latent/model.gguf", NULL, HEARTH_MODE_EXACT},
    {GOLDEN "/qwen3-5-moe/model.gguf", NULL, HEARTH_MODE_DENSE},
    {GOLDEN "/deepseek3/model.gguf", NULL, HEARTH_MODE_DENSE},
    /* experts beside a network, each with norms of their own */
    {GOLDEN "/gemma4-moe/model.gguf", NULL, HEARTH_MODE_DENSE},
    /* layers that read the keys of others; and several streams of the residual, with first values that are cut */
    {GOLDEN "/gemma4-e/model.gguf", NULL, HEARTH_MODE_DENSE},
    {GOLDEN "/gemma3n/model.gguf", NULL, HEARTH_MODE_EXACT},
};

static void check_observers(hearth_runtime *alone, hearth_runtime *runtime, const struct observed_model *m)
{
    stack s = {0};
    hearth_error error;
    stack_check(hearth_model_open(&s.model, m->path, &(hearth_model_options){.ffn_activation = m->activation}, &error),
                &error);
    hearth_model_describe(s.model, &s.info);
    for (int mode = HEARTH_MODE_DENSE; mode <= (int)m->weakest; mode++) {
        if (m->activation && mode == HEARTH_MODE_EXACT)
            continue; /* SiLU is never zero */
        if (s.model->layers[0].mask_in.data && mode == HEARTH_MODE_DENSE)
            continue; /* the CPU multiplies a stock file whole and counts so, a split layer the listed rows alone */
        s.runtime = alone;
        record want = take_record(&s, NULL, (hearth_mode)mode);
        s.runtime = runtime;
        for (placed_form first = PLACED_HOST; first < PLACED_FORMS; first++) {
            placed_shape shape = shape_of(&s, (hearth_mode)mode);
            char *json = mixed_placement(&shape, first, 3 + (uint32_t)first);
            record got = take_record(&s, json, (hearth_mode)mode);
            expect_same_record(&got, &want, json);
            expect_same_counts(&got, &want, json);
            free_record(&got);
            free(json);
        }
        free_record(&want);
    }
    hearth_model_close(s.model);
}

static void observers_and_counts(void **state)
{
    (void)state;
    const device_specs *specs = usable_devices();
    for (size_t i = 0; i < specs->count; i++) {
        hearth_runtime *alone = open_runtime(NULL, 1), *runtime = open_runtime(specs->text[i], 1);
        for (size_t m = 0; m < sizeof observed_models / sizeof *observed_models; m++)
            check_observers(alone, runtime, &observed_models[m]);
        hearth_runtime_destroy(runtime);
        hearth_runtime_destroy(alone);
    }
}

/* An observer that comes and goes changes no byte, if batches are no longer than observed steps. */
static void observing_changes_nothing(void **state)
{
    (void)state;
    stack s;
    const hearth_session_options options = {.context = 64, .batch = STEP_ROWS, .output_rows = 16};
    open_placed_model(&s, open_runtime("host", 1), GOLDEN "/pwri/bamboo/q4_0.gguf");
    placed_shape shape = shape_of(&s, HEARTH_MODE_PREDICTED);
    char *json = mixed_placement(&shape, PLACED_SPLIT, 3);
    size_t n = (size_t)TEXT * s.info.vocabulary_size;
    float *want = malloc(n * sizeof *want), *got = malloc(n * sizeof *got);
    int32_t ids[TEXT];
    draw_prompt(ids, s.info.vocabulary_size, 40);
    draw_prompt(ids + TEXT - PROMPT, s.info.vocabulary_size, 41);
    record r = take_record(&s, json, HEARTH_MODE_PREDICTED);
    open_placed(&s, json, HEARTH_MODE_PREDICTED, false, options);
    read_pieces(&s, ids, want);
    hearth_session_observe(s.session, &(hearth_observer){.see = see, .user = &r});
    read_pieces(&s, ids, got);
    assert_memory_equal(got, want, n * sizeof *got);
    hearth_session_observe(s.session, NULL);
    read_pieces(&s, ids, got);
    assert_memory_equal(got, want, n * sizeof *got);
    close_placed(&s);
    free_record(&r);
    free(json);
    free(want);
    free(got);
    hearth_model_close(s.model);
    hearth_runtime_destroy(s.runtime);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_network),
        cmocka_unit_test(formats_without_kernels),
        cmocka_unit_test(launches_of_a_layer),
        cmocka_unit_test(observers_and_counts),
        cmocka_unit_test(observing_changes_nothing),
    };
    return run_group(tests, NULL, NULL);
}
