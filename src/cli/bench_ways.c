/* bench_ways.c - see bench_ways.h. */
#include "bench_ways.h"

#include "../base/text.h"
#include "../engine/placement.h"
#include "../kernel/topology.h"
#include "bench_ways_plot.h"
#include "options.h"
#include "output.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

/* Ways of using a device, the simplest first: name, as JSON and options have it. */
// clang-format off
#define WAYS(X)                                                                                    \
    X(WAY_CPU,      "cpu")      /* not at all                                                    */ \
    X(WAY_OFF,      "off")      /* whole layers, as many as fit, as other programs place them     */ \
    X(WAY_STATIC,   "static")   /* the plan, or as many hot neurons as fit (plan_hot)             */ \
    X(WAY_ADAPTIVE, "adaptive") /* that to begin with; then hot neurons change sides               */
// clang-format on

typedef enum way {
#define X(id, name) id,
    WAYS(X)
#undef X
        WAY_COUNT
} way;

static const char *const way_names[WAY_COUNT] = {
#define X(id, name) name,
    WAYS(X)
#undef X
};

/* A way is taken only where it is faster than simpler ones by more than this. */
#define WORTH     1.02
#define MAX_SIZES PLOTTED_SIZES
_Static_assert((int)WAY_COUNT == (int)PLOTTED_WAYS, "each is drawn");

/* A way under test. */
typedef struct lane {
    way way;
    hearth_runtime *runtime; /* NULL: that of the plan */
    hearth_engine *engine;
    bool owns;             /* the engine, which else is that of the plan's base */
    double predicted;      /* seconds of a token, by the plan        */
    uint32_t whole_layers; /* of WAY_OFF                        */
    hearth_memory memory;
} lane;

/* All ways with one size of memory. */
typedef struct contest {
    const ways_options *options;
    hearth_model *model;
    hearth_model_info info;
    const char *spec;          /* of the device, without a size */
    bool is_made_up;           /* of the CPU's own cores, so that its speed says nothing of other devices */
    double size;               /* of its memory, in bytes */
    loaded loaded;             /* plan, and the engine on the CPU alone */
    plan forced;               /* the hottest neurons that fit, where the plan is not taken; else empty */
    const plan *hot;           /* where WAY_STATIC begins: the plan, or that              */
    unsigned asked[WAY_COUNT]; /* ways */
    size_t asked_count;
    lane lanes[WAY_COUNT]; /* of the ways that differ: where nothing fits on the device, all are WAY_CPU */
    size_t count;
    bool left_out[WAY_COUNT]; /* ways that turned out to be like others when they were opened */
    bench_result result;
    ways_picture *picture; /* NULL: none was asked for */
} contest;

/* ------------------------------------------------------------------ what was asked for */

static hearth_status take_ways(contest *c, hearth_error *error)
{
    const name_choices ways = {"bench: --compare", "way",
                               "with --simulate-vram there are cpu, off, static and adaptive", way_names, WAY_COUNT};
    const char *list = c->options->names ? c->options->names : "cpu,off,static,adaptive";
    return options_names(&ways, list, c->asked, &c->asked_count, error);
}

static hearth_status take_sizes(const char *list, double sizes[MAX_SIZES], size_t *count, hearth_error *error)
{
    char word[32];
    for (*count = 0; list; ++*count) {
        uint64_t bytes;
        if (*count == MAX_SIZES)
            return fail(error, HEARTH_INVALID, "bench: --simulate-vram: more than %d sizes", MAX_SIZES);
        options_take_word(&list, word);
        TRY(options_size("bench: --simulate-vram", word, &bytes, error));
        sizes[*count] = (double)bytes;
    }
    return HEARTH_OK;
}

/* ------------------------------------------------------------------ engines */

/* Measures, and plans for a device of the size. The engine on the CPU alone is made on the way. */
static hearth_status open_plan(contest *c, progress *p, hearth_error *error)
{
    hearth_session_options session = bench_session(c->options->bench);
    engine_options o = *c->options->engine;
    o.vram = (uint64_t)c->size;
    o.context = session.context;
    o.sequences = session.sequences;
    c->loaded = (loaded){.model = c->model, .info = c->info};
    TRY(planning_open(&c->loaded, &o, c->spec, true, p, error));
    const machine_device *device = c->loaded.planned.cost.device;
    c->is_made_up = device && !device->is_gpu;
    return HEARTH_OK;
}

/* Returns whether any layer has neurons on both sides. */
static bool has_both_sides(const plan *p)
{
    for (uint32_t i = 0; i < p->layer_count; i++)
        if (p->layers[i].form == FORM_SPLIT)
            return true;
    return false;
}

/* Plans anew with so many neurons of every layer on the device, the hottest. */
static hearth_status plan_hottest(plan *out, const planned *found, uint32_t neurons, hearth_error *error)
{
    plan_request request = found->request;
    request.layers = found->load.layer_count;
    request.neurons = neurons;
    return plan_make(out, &found->load, &found->cost, &request, error);
}

/* Plans for hot neurons on the device: as the plan has them; where that splits no layer, or cannot know what is fast, as many of
 * each layer as fit. Where none fit either, what the plan says. */
static void plan_hot(contest *c)
{
    const planned *found = &c->loaded.planned;
    uint32_t most = 0, fits = 0;
    c->hot = &found->plan;
    for (uint32_t i = 0; i < found->load.layer_count; i++)
        most = found->load.layers[i].neurons > most ? found->load.layers[i].neurons : most;
    bool fills = c->is_made_up || !has_both_sides(&found->plan);
    while (fills && fits < most) { /* so many fit, and more than `most` do not */
        plan tried;
        uint32_t neurons = most - (most - fits) / 2;
        if (plan_hottest(&tried, found, neurons, NULL) != HEARTH_OK) {
            most = neurons - 1;
            continue;
        }
        fits = neurons;
        plan_free(&c->forced);
        c->forced = tried;
        c->hot = &c->forced;
    }
}

/* Makes the placement of a way: of whole layers, or of hot neurons. */
static hearth_status place(hearth_placement **out, const contest *c, lane *l, hearth_error *error)
{
    const planned *found = &c->loaded.planned;
    hearth_status status;
    TRY(hearth_engine_placement(out, c->loaded.engine, error));
    if (l->way == WAY_OFF) {
        l->whole_layers = found->plan.whole_layers;
        status = hearth_placement_use_device(*out, c->model, l->whole_layers, UINT32_MAX, error);
    } else
        status = plan_apply(c->hot, &found->load, *out, c->model, error);
    if (status != HEARTH_OK) {
        hearth_placement_destroy(*out);
        *out = NULL;
    }
    return status;
}

/* Makes an engine with a device of its own. */
static hearth_status open_beside(contest *c, lane *l, progress *p, hearth_error *error)
{
    const engine_options *o = c->options->engine;
    char spec[512];
    char *folder = common_cache_folder();
    hearth_placement *placement = NULL;
    hearth_runtime_options runtime = {.threads = o->threads,
                                      .cpu_level = o->cpu,
                                      .device = spec,
                                      .cache_folder = folder,
                                      .log = common_log(&o->messages)};
    hearth_engine_options engine;
    hearth_status status;
    snprintf(spec, sizeof spec, "%s,memory=%.0f", c->spec, c->size);
    TRY_OR(done, status, place(&placement, c, l, error));
    TRY_OR(done, status, hearth_runtime_create(&l->runtime, &runtime, error));
    engine = common_engine_options(o, placement, p);
    TRY_OR(done, status, hearth_engine_create(&l->engine, l->runtime, c->model, &engine, error));
    l->owns = true;
    if (l->way == WAY_STATIC || l->way == WAY_ADAPTIVE) {
        hearth_hot_options hot = {.how = l->way == WAY_STATIC ? HEARTH_HOT_SET_STATIC : HEARTH_HOT_SET_ADAPTIVE};
        status = hearth_engine_follow(l->engine, &hot, error);
    }
done:
    hearth_placement_destroy(placement);
    mem_free(folder);
    return status;
}

/* Returns whether a way does what a simpler one does: nothing fits on the device, or nothing can change sides. */
static bool is_redundant(const contest *c, way w)
{
    if (c->left_out[w])
        return true;
    switch (w) {
    case WAY_OFF:
        return c->loaded.planned.plan.whole_layers == 0;
    case WAY_STATIC:
        return !c->hot->uses_device;
    case WAY_ADAPTIVE:
        return !has_both_sides(c->hot);
    default:
        return false;
    }
}

static hearth_status open_lane(contest *c, lane *l, progress *p, hearth_error *error)
{
    const plan *made = &c->loaded.planned.plan;
    hearth_session_options session = bench_session(c->options->bench);
    l->predicted = l->way == WAY_CPU ? made->cpu_seconds : l->way == WAY_OFF ? made->layers_seconds : c->hot->seconds;
    if (l->way == WAY_CPU)
        l->engine = c->loaded.engine;
    else
        TRY(open_beside(c, l, p, error));
    return hearth_session_memory(l->engine, &session, &l->memory, error);
}

static void close_lane(lane *l)
{
    if (l->owns)
        hearth_engine_destroy(l->engine);
    hearth_runtime_destroy(l->runtime);
    *l = (lane){0};
}

/* Returns whether the hot set of an engine can change. */
static bool changes(const lane *l)
{
    hearth_hot_report r;
    return hearth_engine_hot_set(l->engine, &r, NULL) == HEARTH_OK && r.layers > 0;
}

static void close_contest(contest *c)
{
    for (size_t i = 0; i < c->count; i++)
        close_lane(&c->lanes[i]);
    c->count = 0;
    memset(c->left_out, 0, sizeof c->left_out);
    plan_free(&c->forced);
    c->hot = NULL;
    c->loaded.model = NULL; /* the caller's */
    common_unload(&c->loaded);
    bench_result_free(&c->result);
}

static hearth_status measure(contest *c, progress *p, hearth_error *error)
{
    const hearth_engine *engines[WAY_COUNT];
    TRY(open_plan(c, p, error));
    plan_hot(c);
    for (size_t i = 0; i < c->asked_count; i++) {
        if (is_redundant(c, (way)c->asked[i]))
            continue;
        lane *l = &c->lanes[c->count++];
        l->way = (way)c->asked[i];
        TRY(open_lane(c, l, p, error));
        if (l->way == WAY_ADAPTIVE && !changes(l)) {
            c->left_out[l->way] = true;
            close_lane(&c->lanes[--c->count]);
            continue;
        }
        engines[c->count - 1] = l->engine;
    }
    if (c->count == 0)
        return HEARTH_OK;
    const hearth_runtime *runtime = c->loaded.runtime;
    hearth_status status = bench_run(&c->result, engines, c->count, hearth_runtime_threads(runtime),
                                     hearth_runtime_cpu_level(runtime), c->options->bench, error);
    progress_clear(p);
    return status;
}

/* ------------------------------------------------------------------ results */

/* Returns which of the rows [count] of one case to take: the fastest, unless a simpler one is hardly slower. */
static size_t choose(const contest *c, const bench_row *rows)
{
    size_t best = 0;
    for (size_t i = 1; i < c->count; i++)
        if (rows[i].relative_speed > rows[best].relative_speed)
            best = i;
    size_t taken = best;
    for (size_t i = 0; i < c->count; i++)
        if (c->lanes[i].way < c->lanes[taken].way && rows[i].relative_speed * WORTH >= rows[best].relative_speed)
            taken = i;
    return taken;
}

static double main_memory(const lane *l)
{
    return (double)(l->memory.weight_bytes + l->memory.own_bytes + l->memory.kv_bytes + l->memory.scratch_bytes);
}

/* Returns the share of all neurons that the device begins with. */
static double neurons_on_device(const contest *c, const lane *l)
{
    uint32_t layers = c->info.layer_count;
    double there = 0, all = 0;
    for (uint32_t i = 0; i < layers; i++) {
        double n = c->loaded.planned.load.layers[i].neurons;
        all += n;
        if (l->way == WAY_OFF)
            there += i >= layers - l->whole_layers ? n : 0;
        else if (l->way != WAY_CPU)
            there += c->hot->layers[i].neurons;
    }
    return all > 0 ? there / all : 0;
}

/* Writes what the device has, in words: "12 of 32 layers", "26 % of the neurons". */
static void say_placed(char out[40], const contest *c, const lane *l)
{
    if (l->way == WAY_CPU)
        snprintf(out, 40, "nothing");
    else if (l->way == WAY_OFF)
        snprintf(out, 40, "%u of %u layers", l->whole_layers, c->info.layer_count);
    else
        snprintf(out, 40, "%.0f %% of the neurons", 100 * neurons_on_device(c, l));
}

static void print_row(const contest *c, const lane *l, const bench_row *row)
{
    char device[16], host[16], hits[16] = "-", placed[40], first[32];
    say_placed(placed, c, l);
    if (!isnan(row->on_device))
        snprintf(hits, sizeof hits, "%.3f", row->on_device);
    snprintf(first, sizeof first, "%.3g s", row->prompt_length / row->prefill_tokens_per_second);
    printf("%-8s  %-22s  %13.1f  %11s  %12.1f  %5.2f  %7.2f  %9s  %9s  %9s  %9.3g  %9.3g\n", way_names[l->way], placed,
           row->prefill_tokens_per_second, first, row->decode_tokens_per_second, row->relative_speed,
           row->decode_tokens_per_second * l->predicted, hits, output_size(device, (double)l->memory.device_bytes),
           output_size(host, main_memory(l)), 1e3 * row->cpu_seconds, 1e3 * row->device_seconds);
}

static void print_advice(const contest *c, const bench_row *rows)
{
    size_t taken = choose(c, rows);
    char size[16];
    printf("%s: take %s", output_size(size, c->size), way_names[c->lanes[taken].way]);
    for (size_t i = 0, said = 0; i < c->count; i++)
        if (i != taken)
            printf("%s%.2f times %s", said++ ? ", " : ": ", rows[taken].relative_speed / rows[i].relative_speed,
                   way_names[c->lanes[i].way]);
    puts("");
}

/* Prints all rows of one size. */
static void print_contest(const contest *c)
{
    char size[16];
    for (size_t i = 0; i < c->asked_count; i++)
        if (is_redundant(c, (way)c->asked[i]))
            printf("\n%s: %s is left out: %s\n", output_size(size, c->size), way_names[c->asked[i]],
                   c->asked[i] == WAY_OFF ? "not one whole layer fits"
                   : c->asked[i] == WAY_STATIC
                       ? "no neurons fit"
                       : "no layer has neurons or whole experts on both sides that could change");
    if (c->count == 0)
        return;
    for (size_t at = 0; c->count > 0 && at < c->result.count; at += c->count) {
        const bench_row *rows = c->result.rows + at;
        printf("\n%s of device memory, %u tokens before, %u of the prompt, %u together\n", output_size(size, c->size),
               rows->context, rows->prompt_length, rows->batch);
        puts("way       on the device           prompt tok/s  first token  decode tok/s  speed  of plan  on device  "
             "device      main      CPU busy  device busy\n"
             "                                                                                          of active  "
             "memory      memory    ms/token     ms/token");
        for (size_t i = 0; i < c->count; i++)
            print_row(c, &c->lanes[i], &rows[i]);
        print_advice(c, rows);
        if (c->hot == &c->forced && !c->is_made_up)
            puts(
                "(the plan itself would split no layer: as many neurons of each as fit are on the device, to compare)");
    }
}

/* Adds what one size gave to the picture. */
static void add_to_picture(const contest *c)
{
    for (size_t i = 0; i < c->count; i++) {
        const bench_row *row = &c->result.rows[i];
        way w = c->lanes[i].way;
        c->picture->ways[w].name = way_names[w];
        bench_ways_add(
            c->picture, (size_t)w,
            &(plotted_way){c->size, row->decode_tokens_per_second, w == WAY_CPU ? (double)NAN : row->on_device});
    }
}

/* Writes the picture of all sizes. cpu: its name. */
static hearth_status draw(const contest *c, const char *cpu, hearth_error *error)
{
    ways_picture *p = c->picture;
    const bench_options *o = c->options->bench;
    snprintf(p->title, sizeof p->title, "%.100s: what a device's memory is worth", output_base_name(c->info.path));
    snprintf(p->note, sizeof p->note, "%.100s; device %.100s; %u tokens decoded after %d.%s", cpu, c->spec,
             o->decode_tokens, o->contexts[0] + o->prompt_lengths[0],
             c->is_made_up ? " The device is made of the CPU's own cores: shares are those of any "
                             "device, speeds are not."
                           : "");
    return bench_ways_plot(p, c->options->plot, error);
}

static json_t *row_json(const contest *c, const lane *l, const bench_row *row)
{
    return json_pack("{s:s, s:i, s:i, s:i, s:f, s:f, s:f, s:f, s:f, s:f, s:o, s:I, s:f, s:f, s:f, s:s}", "way",
                     way_names[l->way], "context", (int)row->context, "prompt_length", (int)row->prompt_length, "batch",
                     (int)row->batch, "prefill_tokens_per_second", row->prefill_tokens_per_second,
                     "first_token_seconds", row->prompt_length / row->prefill_tokens_per_second,
                     "decode_tokens_per_second", row->decode_tokens_per_second, "relative_speed", row->relative_speed,
                     "predicted_tokens_per_second", 1 / l->predicted, "neurons", neurons_on_device(c, l), "on_device",
                     isnan(row->on_device) ? json_null() : json_real(row->on_device), "device_bytes",
                     (json_int_t)l->memory.device_bytes, "main_bytes", main_memory(l), "cpu_seconds", row->cpu_seconds,
                     "device_seconds", row->device_seconds, "guarantee", row->guarantee);
}

static json_t *contest_json(const contest *c)
{
    json_t *rows = json_array(), *take = json_array();
    for (size_t i = 0; i < c->result.count; i++)
        json_array_append_new(rows, row_json(c, &c->lanes[i % c->count], &c->result.rows[i]));
    for (size_t at = 0; c->count > 0 && at < c->result.count; at += c->count)
        json_array_append_new(take, json_string(way_names[c->lanes[choose(c, c->result.rows + at)].way]));
    return json_pack("{s:f, s:o, s:o, s:b}", "device_bytes", c->size, "rows", rows, "take", take, "forced",
                     c->hot == &c->forced);
}

static void print_head(const contest *c, const char *cpu)
{
    output_safe(stdout, span_of(cpu), 200);
    printf(", %u threads, %s; device %s", hearth_runtime_threads(c->loaded.runtime),
           hearth_runtime_cpu_level(c->loaded.runtime), c->spec);
    printf("; mode %s\n", hearth_mode_name(hearth_engine_mode(c->loaded.engine)));
    if (c->is_made_up)
        puts("(this device is made of the CPU's own cores: as many neurons of each layer as fit are there; their "
             "shares are "
             "those of any device, speeds are not)");
}

/* ------------------------------------------------------------------ the command */

/* Returns --device, or else the best GPU; where there is none, the device that every machine has. */
static const char *device_of(const engine_options *o, char found[32])
{
    const char *spec;
    return common_choose_device(&spec, found, o, NULL) == HEARTH_OK ? spec : "host";
}

static hearth_status check(const contest *c, hearth_error *error)
{
    const engine_options *o = c->options->engine;
    if (o->vram > 0 || o->hot_set || o->gpu_layers.given || o->gpu_neurons.given)
        return fail(error, HEARTH_INVALID, "bench: --simulate-vram: says itself what the device has and does");
    if (strstr(c->spec, "memory="))
        return fail(error, HEARTH_INVALID, "bench: --device: %s: --simulate-vram says how much memory it has", c->spec);
    const bench_options *b = c->options->bench;
    if (c->options->plot && (b->prompt_length_count > 1 || b->context_count > 1 || b->batch_count > 1))
        return fail(error, HEARTH_INVALID,
                    "bench: --plot: with --simulate-vram one prompt length, context and batch are drawn");
    return HEARTH_OK;
}

/* Measures one size, and prints it or appends it to `list`. */
static hearth_status run_size(contest *c, bool is_first, json_t *list, progress *p, hearth_error *error)
{
    char cpu[256];
    hearth_status status = measure(c, p, error);
    topology_cpu_name(cpu, sizeof cpu);
    if (status == HEARTH_OK && c->picture)
        add_to_picture(c);
    if (status == HEARTH_OK && c->options->json)
        json_array_append_new(list, contest_json(c));
    else if (status == HEARTH_OK) {
        if (is_first)
            print_head(c, cpu);
        print_contest(c);
        output_flush();
    }
    close_contest(c);
    return status;
}

hearth_status bench_ways(hearth_model *model, const ways_options *options, progress *p, hearth_error *error)
{
    double sizes[MAX_SIZES];
    size_t count;
    char found[32], cpu[256];
    ways_picture picture = {.note = ""};
    contest c = {.options = options,
                 .model = model,
                 .spec = device_of(options->engine, found),
                 .picture = options->plot ? &picture : NULL};
    hearth_model_describe(model, &c.info);
    TRY(check(&c, error));
    TRY(bench_check(options->bench, &c.info, error));
    TRY(take_sizes(options->sizes, sizes, &count, error));
    TRY(take_ways(&c, error));
    json_t *list = json_array();
    hearth_status status = HEARTH_OK;
    for (size_t i = 0; i < count && status == HEARTH_OK; i++) {
        c.size = sizes[i];
        status = run_size(&c, i == 0, list, p, error);
    }
    topology_cpu_name(cpu, sizeof cpu);
    if (status != HEARTH_OK || !options->json)
        json_decref(list);
    else
        status = output_json(json_pack("{s:o, s:o, s:s, s:o}", "machine", json_text(span_of(cpu)), "model",
                                       json_text(span_of(c.info.path)), "device", c.spec, "sizes", list),
                             JSON_INDENT(1), error);
    if (status == HEARTH_OK && options->plot) /* last, so that a failure to write it loses no results */
        status = draw(&c, cpu, error);
    return status;
}
