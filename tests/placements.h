/* placements.h - what the tests of two sides share: the devices there are, placements drawn at random, models to lay
 * over both sides, and reading a text in uneven pieces. */
#ifndef TESTS_PLACEMENTS_H
#define TESTS_PLACEMENTS_H

#include "../src/device/device.h"
#include "../src/model/model.h"

#include "golden.h"
#include "host_only.h"

/* ------------------------------------------------------------------ devices */

enum { MOST_SPECS = 8 };

typedef struct device_specs {
    char text[MOST_SPECS][64];
    size_t count;
} device_specs;

/* The host and every other device that works here; says which do not, and why. HEARTH_TEST_DEVICE in the environment, as
 * "cuda" or "cuda,launch=early": only those whose spec begins so, of which there must be one, with these keys. */
static inline const device_specs *usable_devices(void)
{
    static device_specs specs;
    static device_found found[MOST_SPECS];
    const char *only = getenv("HEARTH_TEST_DEVICE");
    size_t named = only ? strcspn(only, ",") : 0;
    if (specs.count > 0)
        return &specs;
    size_t count = device_list(found, MOST_SPECS, NULL);
    for (size_t i = 0; i < count && i < MOST_SPECS; i++) {
        bool is_host = strcmp(found[i].spec, "host") == 0;
        if (only && strncmp(found[i].spec, only, named) != 0)
            continue;
        if (!found[i].usable)
            print_message("without %s: %s\n", found[i].spec, found[i].problem);
        else if (is_host || (!host_only && (only || !MODELS_HOST_ONLY)))
            snprintf(specs.text[specs.count++], sizeof specs.text[0], "%.31s%.31s", found[i].spec,
                     only ? only + named : "");
    }
    if (specs.count == 0 && only && !host_only)
        fail_msg("HEARTH_TEST_DEVICE=%s: there is no such device", only);
    if (specs.count == 0) {
        print_message("skipped: there is no such device\n");
        skipped_tests++;
        skip();
    }
    return &specs;
}

static inline hearth_runtime *open_runtime(const char *spec, unsigned threads)
{
    hearth_runtime *runtime;
    hearth_error error;
    hearth_runtime_options options = {.threads = threads, .device = spec};
    stack_check(hearth_runtime_create(&runtime, &options, &error), &error);
    return runtime;
}

static inline uint64_t device_used(const hearth_runtime *runtime)
{
    hearth_device_info info;
    assert_true(hearth_runtime_device(runtime, &info));
    assert_true(info.used_bytes <= info.peak_bytes && info.peak_bytes <= info.budget_bytes);
    return info.used_bytes;
}

/* ------------------------------------------------------------------ placements */

enum { PLACEMENTS = 20 };

/* What a placement is made for. */
typedef struct placed_shape {
    uint32_t layers, neurons; /* neurons: the most of a layer */
    const hearth_model *model;
    hearth_mode mode; /* dense, exact or predicted */
    float threshold;
} placed_shape;

static inline uint32_t draw(uint32_t *seed, uint32_t below)
{
    *seed = *seed * 1664525u + 1013904223u;
    return (uint32_t)(((uint64_t)(*seed >> 8) * below) >> 24);
}

enum { MOST_CUTS = 9 }; /* ten ranges, five a side */

static inline int by_number(const void *a, const void *b)
{
    uint32_t x = *(const uint32_t *)a, y = *(const uint32_t *)b;
    return (x > y) - (x < y);
}

/* Where the neurons change sides: one to MOST_CUTS places within (0, f), now and then two that are neighbours, so that
 * a range is a single neuron. Ascending. */
static inline size_t draw_cuts(uint32_t *seed, uint32_t f, uint32_t cuts[MOST_CUTS])
{
    size_t wanted = 1 + draw(seed, MOST_CUTS), n = 0;
    for (size_t i = 0; i < wanted; i++) {
        uint32_t cut = i > 0 && draw(seed, 3) == 0 ? cuts[n - 1] + 1 : 1 + draw(seed, f - 1);
        bool is_new = cut < f;
        for (size_t k = 0; k < n; k++)
            is_new &= cuts[k] != cut;
        if (is_new)
            cuts[n++] = cut;
    }
    qsort(cuts, n, sizeof *cuts, by_number);
    return n;
}

/* Every other range between the cuts, from the first or the second on. */
static inline void print_ranges(FILE *out, const char *side, const uint32_t *cuts, size_t n, uint32_t f, size_t first)
{
    fprintf(out, "{\"side\":\"%s\",\"neurons\":[", side);
    for (size_t i = first; i <= n; i += 2)
        fprintf(out, "%s[%u,%u]", i > first ? "," : "", i > 0 ? cuts[i - 1] : 0, i < n ? cuts[i] : f);
    fprintf(out, "]}");
}

typedef enum placed_form { PLACED_HOST, PLACED_FFN_HOST, PLACED_SPLIT, PLACED_DEVICE, PLACED_FORMS } placed_form;

static inline void print_placed_layer(FILE *out, const placed_shape *o, uint32_t layer, placed_form form,
                                      uint32_t *seed)
{
    static const char *const forms[] = {"host", "ffn-host", "split", "device"};
    static const char *const of_mode[] = {
        [HEARTH_MODE_DENSE] = "all", [HEARTH_MODE_EXACT] = "sign", [HEARTH_MODE_PREDICTED] = "low-rank"};
    uint32_t cuts[MOST_CUTS] = {0}, f = o->model->layers[layer].ffn.neuron_count;
    if (f == 0) { /* a mixer alone has no neurons to share */
        form = form == PLACED_SPLIT ? PLACED_DEVICE : form;
        fprintf(out, "{\"form\":\"%s\",\"selector\":\"all\",\"assignments\":[]}", forms[form]);
        return;
    }
    size_t n = form == PLACED_SPLIT ? draw_cuts(seed, f, cuts) : 0, there_first = draw(seed, 2);
    bool skips = o->mode != HEARTH_MODE_EXACT || ffn_skippable(&o->model->layers[layer].ffn);
    fprintf(out, "{\"form\":\"%s\",\"selector\":\"%s\",", forms[form], skips ? of_mode[o->mode] : "all");
    if (o->mode == HEARTH_MODE_PREDICTED)
        fprintf(out, "\"threshold\":%.9g,", (double)o->threshold);
    fprintf(out, "\"assignments\":[");
    if (form == PLACED_SPLIT) {
        print_ranges(out, "cpu", cuts, n, f, there_first);
        fprintf(out, ",");
        print_ranges(out, "device0", cuts, n, f, 1 - there_first);
    } else {
        print_ranges(out, form == PLACED_DEVICE ? "device0" : "cpu", NULL, 0, f, 0);
    }
    fprintf(out, "]}");
}

/* The JSON of a placement; freed with free. forms [layers]. */
static inline char *print_placed(const placed_shape *o, const placed_form *forms, bool embedding, bool head,
                                 uint32_t *seed)
{
    static const char *const sides[] = {"cpu", "device0"};
    char *text = NULL;
    size_t size;
    bool kv = false;
    for (uint32_t i = 0; i < o->layers; i++)
        kv |= forms[i] != PLACED_HOST;
    FILE *out = open_memstream(&text, &size);
    assert_non_null(out);
    fprintf(out, "{\"sides\":[\"cpu\",\"device0\"],\"kv\":\"%s\",\"embedding\":\"%s\",\"head\":\"%s\",\"layers\":[",
            sides[kv], sides[embedding], sides[head]);
    for (uint32_t i = 0; i < o->layers; i++) {
        fprintf(out, "%s", i > 0 ? "," : "");
        print_placed_layer(out, o, i, forms[i], seed);
    }
    fprintf(out, "]}");
    assert_int_equal(fclose(out), 0);
    return text;
}

enum { MOST_LAYERS = 64 };

/* Number 0 leaves everything to the CPU, 1 all but the head; number PLACEMENTS - 1 nothing, the one before it embedding
 * and head; between them the forms are mixed, with more and more on the device. */
static inline char *draw_placement(const placed_shape *o, unsigned number)
{
    placed_form forms[MOST_LAYERS] = {0};
    uint32_t seed = 1000 * number + 7 * o->layers + o->neurons;
    assert_true(o->layers <= MOST_LAYERS);
    bool all = number == PLACEMENTS - 1;
    for (uint32_t i = 0; i < o->layers; i++) {
        /* of two draws the greater counts more often as the numbers rise */
        uint32_t a = draw(&seed, PLACED_FORMS), b = draw(&seed, PLACED_FORMS);
        bool more = draw(&seed, PLACEMENTS) < number;
        forms[i] = number + 2 >= PLACEMENTS ? PLACED_DEVICE
                   : number < 2             ? PLACED_HOST
                                            : (placed_form)((a > b) == more ? a : b);
    }
    bool mixed = number >= 2 && number + 2 < PLACEMENTS;
    bool embedding = all || (mixed && forms[0] != PLACED_HOST && draw(&seed, PLACEMENTS) < number);
    bool head = all || number == 1 || (mixed && draw(&seed, PLACEMENTS) < number);
    return print_placed(o, forms, embedding, head, &seed);
}

/* Moves layers that read the keys and values of another to its side. Returns whether there are any. */
static inline bool join_sides(const hearth_model *m, placed_form *forms)
{
    bool any = false;
    for (uint32_t i = 0; i < m->hyper.layer_count; i++) {
        uint32_t from = i - m->layers[i].attention.keys_back;
        any |= from != i;
        if ((forms[i] == PLACED_HOST) != (forms[from] == PLACED_HOST))
            forms[i] = forms[from];
    }
    return any;
}

/* Where first values are cut by the mean of all neurons, one side has them all: the device where all of the layer is asked for
 * there, else the CPU. Returns whether there are such layers. */
static inline bool join_neurons(const hearth_model *m, placed_form *forms)
{
    bool any = false;
    for (uint32_t i = 0; i < m->hyper.layer_count; i++) {
        any |= m->layers[i].ffn.cuts;
        if (m->layers[i].ffn.cuts && forms[i] == PLACED_SPLIT)
            forms[i] = i % 3 == 0 ? PLACED_DEVICE : PLACED_FFN_HOST;
    }
    return any;
}

/* All four forms in turn, beginning with `first`; embedding and head where they may be. */
static inline char *mixed_placement(const placed_shape *o, placed_form first, uint32_t seed)
{
    placed_form forms[MOST_LAYERS] = {0};
    assert_true(o->layers <= MOST_LAYERS);
    for (uint32_t i = 0; i < o->layers; i++)
        forms[i] = (placed_form)((first + i) % PLACED_FORMS);
    join_sides(o->model, forms);
    join_neurons(o->model, forms);
    return print_placed(o, forms, first != PLACED_HOST && o->model->hyper.stream_count <= 1, true, &seed);
}

/* ------------------------------------------------------------------ models */

static const struct placed_model {
    const char *name, *path;
    bool predictors;
    bool rounds; /* has block weights, which meet activations of 8 bits by default */
} placed_models[] = {
    {"stories-relu q8_0", HEARTH_MODELS "/stories-relu-q8_0.gguf", false, true},
    {"llama-relu", GOLDEN "/llama-relu/model.gguf", false, false},
    {"llama-relu-gqa", GOLDEN "/llama-relu-gqa/model.gguf", false, false},
    {"pwri llama f32", GOLDEN "/pwri/llama/f32.gguf", true, false},
    {"pwri llama f16", GOLDEN "/pwri/llama/f16.gguf", true, false},
    {"pwri llama q4_0", GOLDEN "/pwri/llama/q4_0.gguf", true, true},
    {"pwri bamboo f16", GOLDEN "/pwri/bamboo/f16.gguf", true, false},
    {"pwri bamboo q4_0", GOLDEN "/pwri/bamboo/q4_0.gguf", true, true},
};
enum { PLACED_MODELS = sizeof placed_models / sizeof *placed_models };

/* The runtime is open; engine and session follow later. */
static inline void open_placed_model(stack *s, hearth_runtime *runtime, const char *path)
{
    hearth_error error;
    *s = (stack){.runtime = runtime};
    stack_check(hearth_model_open(&s->model, path, NULL, &error), &error);
    hearth_model_describe(s->model, &s->info);
}

static inline placed_shape shape_of(const stack *s, hearth_mode mode)
{
    return (placed_shape){s->info.layer_count, s->info.neuron_count, s->model, mode, s->info.predictor_threshold};
}

/* ------------------------------------------------------------------ engines */

/* json NULL: the CPU alone, in a mode. */
static inline hearth_status try_engine(stack *s, const char *json, hearth_mode mode, bool plain, hearth_error *error)
{
    hearth_placement *placement;
    TRY(json ? hearth_placement_parse(&placement, s->model, json, strlen(json), error)
             : hearth_placement_create(&placement, s->model, mode, error));
    hearth_engine_options options = {.placement = placement,
                                     .activations = plain ? HEARTH_ACTIVATIONS_F32 : HEARTH_ACTIVATIONS_AUTO};
    hearth_status status = hearth_engine_create(&s->engine, s->runtime, s->model, &options, error);
    hearth_placement_destroy(placement);
    return status;
}

static inline void open_placed(stack *s, const char *json, hearth_mode mode, bool plain, hearth_session_options options)
{
    hearth_error error;
    stack_check(try_engine(s, json, mode, plain, &error), &error);
    stack_check(hearth_session_create(&s->session, s->engine, &options, &error), &error);
}

static inline void close_placed(stack *s)
{
    hearth_session_destroy(s->session);
    hearth_engine_destroy(s->engine);
    s->session = NULL;
    s->engine = NULL;
}

/* ------------------------------------------------------------------ reading */

enum { PROMPT = 20, ANSWER = 16, TEXT = PROMPT + ANSWER };

/* A prompt of any model: ids that mean nothing, behind BOS. */
static inline void draw_prompt(int32_t ids[PROMPT], uint32_t vocabulary, uint32_t seed)
{
    ids[0] = 1;
    for (size_t i = 1; i < PROMPT; i++)
        ids[i] = (int32_t)draw(&seed, vocabulary);
}

/* Logits [TEXT][vocabulary] of a text in sequence 0, from the beginning: the prompt in pieces of which one is more than
 * a step of a device, then token by token. */
static inline void read_pieces(stack *s, const int32_t ids[TEXT], float *logits)
{
    static const size_t pieces[] = {1, 7, 3, STEP_ROWS + 1};
    assert_int_equal(hearth_session_truncate(s->session, 0, 0, NULL), HEARTH_OK);
    for (size_t at = 0, i = 0, n; at < TEXT; at += n, i++) {
        n = i < sizeof pieces / sizeof *pieces ? pieces[i] : 1;
        stack_feed(s, 0, ids + at, n, logits + at * s->info.vocabulary_size);
    }
}

/* Behind a prompt, what the model says when it always takes the likeliest: into ids + PROMPT. */
static inline void greedy_answer(stack *s, int32_t ids[TEXT])
{
    size_t v = s->info.vocabulary_size;
    float *logits = malloc(v * sizeof *logits);
    assert_int_equal(hearth_session_truncate(s->session, 0, 0, NULL), HEARTH_OK);
    stack_feed(s, 0, ids, PROMPT - 1, NULL);
    for (size_t i = PROMPT; i < TEXT; i++) {
        stack_feed(s, 0, ids + i - 1, 1, logits);
        ids[i] = argmax(logits, v);
    }
    free(logits);
}

#endif
