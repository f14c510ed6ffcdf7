/* engine_device.c - a model laid over the CPU and a device in many ways, against the CPU alone: the same logits but for
 * rounding and the same greedy text, the same bytes every time, and memory that is what was announced. */
#include "placements.h"

/* Sanitizers look at who touches what and not at arithmetic, and everything takes five to twenty times as long. */
#if defined __SANITIZE_THREAD__ || defined __SANITIZE_ADDRESS__
enum { PLACEMENT_STEP = 6 };
#else
enum { PLACEMENT_STEP = 1 };
#endif

/* ------------------------------------------------------------------ against the CPU alone */

static int ascending(const void *a, const void *b)
{
    const double *x = a, *y = b;
    return (*x > *y) - (*x < *y);
}

/* What the CPU says alone, with a cache of either format. */
typedef struct reference {
    int32_t ids[TEXT];
    float *logits;
} reference;

static hearth_session_options options_for(unsigned number)
{
    return (hearth_session_options){.context = 64, .output_rows = 16, .kv = number % 2 ? HEARTH_KV_F32 : HEARTH_KV_F16};
}

static reference read_reference(hearth_runtime *runtime, const char *path, hearth_mode mode, bool plain,
                                unsigned number)
{
    stack s;
    reference r;
    open_placed_model(&s, runtime, path);
    open_placed(&s, NULL, mode, plain, options_for(number));
    r.logits = malloc(TEXT * s.info.vocabulary_size * sizeof *r.logits);
    draw_prompt(r.ids, s.info.vocabulary_size, 77);
    greedy_answer(&s, r.ids);
    read_pieces(&s, r.ids, r.logits);
    close_placed(&s);
    hearth_model_close(s.model);
    return r;
}

/* Reading the same text, the same token is the likeliest after every token from the prompt on: greedy text does not
 * leave the CPU's. */
static void expect_same_text(const reference *want, const float *logits, size_t vocabulary, const char *json)
{
    for (size_t i = PROMPT - 1; i < TEXT - 1; i++)
        if (argmax(logits + i * vocabulary, vocabulary) != want->ids[i + 1])
            fail_msg("token %zu is another than on the CPU alone, under %s", i + 1, json);
}

/* What the session announced is what it took. */
static void check_memory(const stack *s, hearth_session_options options)
{
    hearth_memory memory;
    assert_int_equal(hearth_session_memory(s->engine, &options, &memory, NULL), HEARTH_OK);
    assert_int_equal(device_used(s->runtime), memory.device_bytes);
}

/* Distances of the logits of a text, and of its first token alone, from those of the CPU alone. */
typedef struct distances {
    double text, first;
} distances;

/* With activations of 8 bits two sides that round alike differ all the same, once float32 sums in another order have put
 * a value on the other side of a boundary: then by up to the noise of rounding, which engine_golden.c derives. Two texts
 * with that noise, if nothing else is shared by them, are sqrt(2) times as far apart. */
static double rounding_bound(const stack *s)
{
    return sqrt(2) * 1.3e-2 * sqrt(4.0 * s->info.layer_count + 1);
}

/* Compares one placement with the CPU alone. */
static distances check_placement(stack *s, const reference *want, hearth_mode mode, bool plain, unsigned number)
{
    placed_shape shape = shape_of(s, mode);
    char *json = draw_placement(&shape, number);
    size_t n = (size_t)TEXT * s->info.vocabulary_size;
    float *got = malloc(n * sizeof *got);
    open_placed(s, json, mode, plain, options_for(number));
    check_memory(s, options_for(number));
    read_pieces(s, want->ids, got);
    distances d = {relative_l2(got, want->logits, n), relative_l2(got, want->logits, s->info.vocabulary_size)};
    double bound = plain ? 1e-4 : rounding_bound(s);
    if (!(d.text <= bound))
        fail_msg("%s, placement %u: relative distance %.2e, bound %.0e: %s", s->info.path, number, d.text, bound, json);
    if (plain)
        expect_same_text(want, got, s->info.vocabulary_size, json);
    if (number == 0) /* the CPU alone, whatever device is there */
        assert_memory_equal(got, want->logits, n * sizeof *got);
    check_memory(s, options_for(number));
    close_placed(s);
    assert_int_equal(device_used(s->runtime), 0);
    free(json);
    free(got);
    return d;
}

/* Most first tokens have no value at a boundary, and then agree as float32 does: the median over the placements, unlike
 * the distance of a whole text, would notice a wrong scale. */
static void check_median(double *first, size_t count, const char *model)
{
    qsort(first, count, sizeof *first, ascending);
    if (!(first[count / 2] <= 1e-5))
        fail_msg("%s: the first token's median distance is %.1e, expected at most 1e-5", model, first[count / 2]);
}

static void check_mode(hearth_runtime *alone, const char *spec, hearth_runtime *runtime,
                       const struct placed_model *model, hearth_mode mode)
{
    double worst[2] = {0}, first[PLACEMENTS];
    for (int plain = !model->rounds; plain < 2; plain++) { /* float weights: both are the same */
        stack s;
        reference want[2];
        for (unsigned kv = 0; kv < 2; kv++)
            want[kv] = read_reference(alone, model->path, mode, plain, kv);
        open_placed_model(&s, runtime, model->path);
        size_t count = 0;
        for (unsigned number = 0; number < PLACEMENTS; number += PLACEMENT_STEP) {
            distances d = check_placement(&s, &want[number % 2], mode, plain, number);
            worst[plain] = fmax(worst[plain], d.text);
            first[count++] = d.first;
        }
        check_median(first, count, s.info.path);
        hearth_model_close(s.model);
        free(want[0].logits);
        free(want[1].logits);
    }
    print_message("%-9s %-17s %-9s worst of %d placements: %.1e in float32", spec, model->name, hearth_mode_name(mode),
                  PLACEMENTS, worst[1]);
    print_message(model->rounds ? ", %.1e by default\n" : "\n", worst[0]);
}

static void check_device(const char *spec)
{
    hearth_runtime *alone = open_runtime(NULL, 1), *runtime = open_runtime(spec, 1);
    for (size_t i = 0; i < PLACED_MODELS; i++) {
        for (int mode = HEARTH_MODE_DENSE; mode <= HEARTH_MODE_EXACT + placed_models[i].predictors; mode++)
            check_mode(alone, spec, runtime, &placed_models[i], (hearth_mode)mode);
    }
    hearth_runtime_destroy(runtime);
    hearth_runtime_destroy(alone);
}

static void the_cpu_alone_and_every_device(void **state)
{
    (void)state;
    const device_specs *specs = usable_devices();
    for (size_t i = 0; i < specs->count; i++)
        check_device(specs->text[i]);
}

/* A file as `quantize` makes it: q and k in Q4_K, v and the head in Q6_K. All of it goes to the device, the head, too, and
 * computes what the CPU does. */
static void several_formats(void **state)
{
    (void)state;
    static const char path[] = GOLDEN "/llama-256-q4_k_m/model.gguf";
    const device_specs *specs = usable_devices();
    hearth_runtime *alone = open_runtime(NULL, 1);
    reference want = read_reference(alone, path, HEARTH_MODE_DENSE, true, 1);
    for (size_t i = 0; i < specs->count; i++) {
        stack s;
        hearth_placement *placement;
        hearth_error error;
        char *json;
        open_placed_model(&s, open_runtime(specs->text[i], 1), path);
        stack_check(hearth_placement_create(&placement, s.model, HEARTH_MODE_DENSE, &error), &error);
        stack_check(hearth_placement_use_device(placement, s.model, UINT32_MAX, UINT32_MAX, &error), &error);
        stack_check(hearth_placement_print(placement, &json, &error), &error);
        assert_non_null(strstr(json, "\"head\":\"device0\""));
        open_placed(&s, json, HEARTH_MODE_DENSE, true, options_for(1));
        size_t n = (size_t)TEXT * s.info.vocabulary_size;
        float *got = malloc(n * sizeof *got);
        read_pieces(&s, want.ids, got);
        double distance = relative_l2(got, want.logits, n);
        print_message("%-9s Q4_K and Q6_K, all there: %.1e in float32\n", specs->text[i], distance);
        assert_true(distance <= 1e-4);
        close_placed(&s);
        free(got);
        hearth_free(json);
        hearth_placement_destroy(placement);
        hearth_model_close(s.model);
        hearth_runtime_destroy(s.runtime);
    }
    free(want.logits);
    hearth_runtime_destroy(alone);
}

/* ------------------------------------------------------------------ the same every time */

/* Reads the text `runs` times under a mixed placement; all must be `want`, which the first ever fills in. */
static void expect_same_bytes(const char *spec, unsigned threads, const char *path, hearth_mode mode, unsigned runs,
                              float **want)
{
    stack s;
    int32_t ids[TEXT];
    open_placed_model(&s, open_runtime(spec, threads), path);
    placed_shape shape = shape_of(&s, mode);
    char *json = mixed_placement(&shape, PLACED_SPLIT, 5);
    size_t n = (size_t)TEXT * s.info.vocabulary_size;
    float *got = malloc(n * sizeof *got);
    draw_prompt(ids, s.info.vocabulary_size, 3);
    draw_prompt(ids + PROMPT - 4, s.info.vocabulary_size, 4); /* any text will do */
    open_placed(&s, json, mode, false, options_for(0));
    for (unsigned run = 0; run < runs; run++) {
        read_pieces(&s, ids, got);
        if (!*want) {
            *want = malloc(n * sizeof **want);
            memcpy(*want, got, n * sizeof *got);
        }
        if (memcmp(got, *want, n * sizeof *got) != 0)
            fail_msg("%s with %u threads, %s, %s: run %u gives other bytes", spec, threads, path,
                     hearth_mode_name(mode), run);
    }
    close_placed(&s);
    hearth_model_close(s.model);
    hearth_runtime_destroy(s.runtime);
    free(json);
    free(got);
}

static void the_same_every_time(void **state)
{
    (void)state;
    static const struct {
        const char *path;
        hearth_mode mode;
    } cases[] = {{HEARTH_MODELS "/stories-relu-q8_0.gguf", HEARTH_MODE_EXACT},
                 {GOLDEN "/pwri/llama/q4_0.gguf", HEARTH_MODE_PREDICTED},
                 {GOLDEN "/pwri/bamboo/f16.gguf", HEARTH_MODE_DENSE}};
    const device_specs *specs = usable_devices();
    for (size_t c = 0; c < sizeof cases / sizeof *cases; c++)
        for (size_t i = 0; i < specs->count; i++) {
            float *want = NULL;
            bool is_host = strcmp(specs->text[i], "host") == 0;
            expect_same_bytes(specs->text[i], 2, cases[c].path, cases[c].mode, host_only ? 5 : 50, &want);
            for (unsigned threads = 1; threads <= 3; threads++)
                expect_same_bytes(is_host ? "host,threads=2" : specs->text[i], threads, cases[c].path, cases[c].mode, 3,
                                  &want);
            expect_same_bytes(specs->text[i], 1, cases[c].path, cases[c].mode, 2, &want);
            free(want);
        }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_cpu_alone_and_every_device),
        cmocka_unit_test(several_formats),
        cmocka_unit_test(the_same_every_time),
    };
    return run_group(tests, NULL, NULL);
}
