/* make_model.c - writes a model of a named shape with ReLU networks whose sparsity is planted: make-model --help.
 *
 * The options and the shapes. What is planted and how: model_rows.h, with the mathematics in plant.h; model_file.h has
 * the file. */
#include "../src/base/clock.h"
#include "model_file.h"

#include <errno.h>
#include <getopt.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define LLAMA(shape_name, d, f, l, h, kv, v, r)                                                                     \
    {                                                                                                               \
        .name = shape_name, .family = &family_llama, .width = d, .neurons = f, .layers = l, .heads = h,             \
        .kv_heads = kv, .head_length = d / h, .vocabulary = v, .rank = r, .experts = 1, .used = 1, .density = 0.12, \
        .rope_base = 10000                                                                                          \
    }
// clang-format off
static const model_shape shapes[] = {
    /*    name   width neurons layers heads kv vocabulary rank */
    LLAMA("tiny",    256,  1024,  4,  8,  4,  2048,  128),
    LLAMA("small",   512,  2048,  8,  8,  8,  8192,  256),
    LLAMA("125m",    768,  3072, 12, 12, 12, 32000,  256),
    LLAMA("1b",     2048,  5632, 22, 32,  4, 32000,  512),
    LLAMA("7b",     4096, 11008, 32, 32, 32, 32000, 1024),
    LLAMA("13b",    5120, 13824, 40, 40, 40, 32000, 1024),
    LLAMA("33b",    6656, 17920, 60, 52, 52, 32000, 1024),
    LLAMA("70b",    8192, 28672, 80, 64,  8, 32000, 1024),
    /* Published models, and small ones of their families. Densities: OPT's are published as 0.02 to 0.04, that of a
     * Falcon with ReLU as 0.05 or so, SmallThinker's within the chosen experts as below 0.4. */
    {"opt-tiny", &family_opt, .width = 256, .neurons = 1024, .layers = 4, .heads = 8, .kv_heads = 8, .head_length = 32,
     .vocabulary = 2048, .rank = 128, .experts = 1, .used = 1, .density = 0.12},
    {"opt-6.7b", &family_opt, .width = 4096, .neurons = 16384, .layers = 32, .heads = 32, .kv_heads = 32,
     .head_length = 128, .vocabulary = 50272, .rank = 1024, .experts = 1, .used = 1, .density = 0.03},
    {"falcon-tiny", &family_falcon, .width = 288, .neurons = 1152, .layers = 4, .heads = 9, .kv_heads = 1,
     .head_length = 32, .vocabulary = 2048, .rank = 128, .experts = 1, .used = 1, .density = 0.12, .rope_base = 10000},
    {"falcon-7b", &family_falcon, .width = 4544, .neurons = 18176, .layers = 32, .heads = 71, .kv_heads = 1,
     .head_length = 64, .vocabulary = 65024, .rank = 1024, .experts = 1, .used = 1, .density = 0.05, .rope_base = 10000},
    {"smallthinker-tiny", &family_smallthinker, .width = 256, .neurons = 128, .layers = 4, .heads = 8, .kv_heads = 2,
     .head_length = 64, .vocabulary = 2048, .rank = 128, .experts = 8, .used = 2, .density = 0.3, .rope_base = 10000,
     .window = 4096, .gating = 2},
    {"smallthinker-21b", &family_smallthinker, .width = 2560, .neurons = 768, .layers = 52, .heads = 28, .kv_heads = 4,
     .head_length = 128, .vocabulary = 151936, .rank = 1024, .experts = 64, .used = 6, .density = 0.3,
     .rope_base = 1500000, .window = 4096, .gating = 2},
    {"qwen3-tiny-moe", &family_qwen3moe, .width = 256, .neurons = 128, .layers = 4, .heads = 8, .kv_heads = 2,
     .head_length = 64, .vocabulary = 2048, .rank = 128, .experts = 8, .used = 2, .density = 0.5, .rope_base = 1000000},
    {"qwen3-30b-a3b", &family_qwen3moe, .width = 2048, .neurons = 768, .layers = 48, .heads = 32, .kv_heads = 4,
     .head_length = 128, .vocabulary = 151936, .rank = 1024, .experts = 128, .used = 8, .density = 0.5,
     .rope_base = 1000000},
    /* Of these, no density is published; Qwen 3.5 has none. */
    {"nemotron-3-tiny", &family_nemotron_h_moe, .width = 256, .neurons = 128, .layers = 7, .heads = 8, .kv_heads = 2,
     .head_length = 64, .vocabulary = 2048, .rank = 128, .experts = 8, .used = 2, .shared_neurons = 256, .density = 0.3,
     .rope_base = 10000, .routed_scale = 2.5F, .pattern = "MEM*EME", .recurrent = {8, 32, 2, 64, 4}},
    {"nemotron-3-nano", &family_nemotron_h_moe, .width = 2688, .neurons = 1856, .layers = 52, .heads = 32, .kv_heads = 2,
     .head_length = 128, .vocabulary = 131072, .rank = 1024, .experts = 128, .used = 6, .shared_neurons = 3712,
     .density = 0.3, .rope_base = 10000, .routed_scale = 2.5F,
     .pattern = "MEMEM*EMEMEM*EMEMEM*EMEMEM*EMEMEM*EMEMEMEM*EMEMEMEME", .recurrent = {64, 64, 8, 128, 4}},
    {"qwen3.5-tiny", &family_qwen35moe, .width = 256, .neurons = 128, .layers = 4, .heads = 4, .kv_heads = 2,
     .head_length = 128, .vocabulary = 2048, .rank = 128, .experts = 8, .used = 2, .shared_neurons = 128, .density = 0.5,
     .rope_base = 10000000, .rotated = 32, .pattern = "MMM*", .recurrent = {8, 32, 4, 32, 4}},
    {"qwen3.5-35b-a3b", &family_qwen35moe, .width = 2048, .neurons = 512, .layers = 40, .heads = 16, .kv_heads = 2,
     .head_length = 256, .vocabulary = 248320, .rank = 1024, .experts = 256, .used = 8, .shared_neurons = 512,
     .density = 0.5, .rope_base = 10000000, .rotated = 64, .pattern = "MMM*", .recurrent = {32, 128, 16, 128, 4}},
};
// clang-format on
#define SHAPE_COUNT (sizeof shapes / sizeof shapes[0])

/* What is 0 is as the shape, or the machine, has it. */
typedef struct settings {
    double density, hot, share, recall, over, together, shared; /* see plant.h and model_rows.h */
    double domains, seed, layers, rank, context, threads;       /* whole numbers */
    number_format format, head;                                 /* head FORMAT_COUNT: chosen by format */
    tensor_presence layout;
    const char *activation; /* NULL: as the family has it */
    const model_shape *shape;
    const char *path;
} settings;

// clang-format off
/* Options with a number. */
static const struct {
    const char *name;
    size_t field;
    double low, high;
    bool whole;
} numbers[] = {
#define N(name, field, low, high, whole) {name, offsetof(settings, field), low, high, whole}
    N("density",    density,  0.001,  0.9, false),
    N("hot",        hot,      0.01,   1,   false),
    N("share",      share,    0,      1,   false),
    N("recall",     recall,   0.5,    0.999, false),
    N("over",       over,     0.5,    100, false),
    N("together",   together, 0,      1,   false),
    N("shared",     shared,   0,      1,   false),
    N("domains",    domains,  1,      64,  true),
    N("seed",       seed,     0, 4294967295, true),
    N("layers",     layers,   1,      1024, true),
    N("rank",       rank,     64,     65536, true),
    N("context",    context,  1, 1073741824, true),
    N("threads",    threads,  1,      1024, true),
#undef N
};
// clang-format on
#define NUMBER_COUNT (sizeof numbers / sizeof numbers[0])

static const uint32_t default_context = 2048;

static const char help[] =
    "make-model [OPTION...] SHAPE FORMAT OUT\n"
    "Writes a model of a named shape whose feed-forward networks are as sparse as wanted: random weights, ReLU, and a\n"
    "known probability for each neuron to fire. For speed and for tests; it has nothing to say. The same options make\n"
    "the same bytes on every machine, with any number of threads. Mixtures of experts have no predictors.\n"
    "\n"
    "    make-model 1b q4_0 1b-q4_0.gguf                      # stock layout, what every program reads\n"
    "    make-model 1b q4_0 --powerinfer 1b-pi-q4_0.gguf      # the same weights, a row per neuron, with predictors\n"
    "    hearth bench 1b-pi-q4_0.gguf --compare dense,exact,predicted\n"
    "\n"
    "FORMAT: f32 f16 bf16 q8_0 q4_0 q4_K q6_K. Where a row is not a whole number of blocks a matrix gets Q8_0 or F16; "
    "the\n"
    "head gets Q6_K where FORMAT is smaller, as `hearth quantize` does it.\n"
    "  --powerinfer     PowerInfer's kind of file: down transposed, a predictor in each layer\n"
    "  --neuron-major   down transposed, without predictors: what `hearth pack` writes, but for a second rounding\n"
    "  --head FORMAT    of the output matrix\n"
    "  --activation A   relu or relu2, or silu or gelu, with which nothing is sparse (what sparse models of the shape "
    "have)\n"
    "  --density P      mean share of the neurons that fire (as the shape's published models, 0.12 for a llama)\n"
    "  --hot H --share S   the hottest H of the neurons make S of all activations (0.26, 0.8); --share 0: all are "
    "equal\n"
    "  --together C     correlation of neurons in a cluster, which are neighbours in hotness (0.5)\n"
    "  --recall R       of what fires, the share that predictors let through (0.95)\n"
    "  --over X         neurons that predictors let through for each that fires (1.3)\n"
    "  --rank N         width of the predictors, 32 units for each domain included\n"
    "  --domains N      ranges of token ids with hot neurons of their own (1)\n"
    "  --shared P       share of the neurons that are equally hot in every domain (0.3)\n"
    "  --layers N       in place of the shape's\n"
    "  --context N      that the file announces (2048)\n"
    "  --seed N         (1)\n"
    "  --threads N      one per processor\n"
    "SHAPE:\n";

/* Ends the program with a line and a status; 2: wrong use. */
static _Noreturn void stop(int status, const char *text)
{
    fprintf(stderr, "make-model: %s\n", text);
    exit(status);
}

/* ------------------------------------------------------------------ options */

static void print_help(void)
{
    fputs(help, stdout);
    printf("  %-17s %6s %8s %7s %7s %6s %9s %11s %5s %11s\n", "", "width", "neurons", "experts", "layers", "heads",
           "kv heads", "vocabulary", "rank", "parameters");
    for (size_t i = 0; i < SHAPE_COUNT; i++) {
        const model_shape *s = &shapes[i];
        model_design m = {.shape = *s};
        m.shape.positions = default_context;
        printf("  %-17s %6u %8u %7u %7u %6u %9u %11u %5u %9.2f G\n", s->name, s->width, s->neurons, s->experts,
               s->layers, s->heads, s->kv_heads, s->vocabulary, s->rank, model_file_parameters(&m) / 1e9);
    }
    exit(0);
}

static number_format read_format(const char *name)
{
    number_format format = number_format_by_name(name);
    char text[256];
    snprintf(text, sizeof text, "FORMAT: %.64s is unknown; there are f32, f16, bf16, q8_0, q4_0, q4_K and q6_K", name);
    if (format == FORMAT_COUNT)
        stop(2, text);
    return format;
}

static const char *read_activation(const char *name)
{
    static const char *const known[] = {"relu", "relu2", "silu", "gelu"};
    for (size_t i = 0; i < sizeof known / sizeof *known; i++)
        if (strcmp(known[i], name) == 0)
            return known[i];
    char text[256];
    snprintf(text, sizeof text, "--activation: %.64s is unknown; there are relu, relu2, silu and gelu", name);
    stop(2, text);
}

static const model_shape *read_shape(const char *name)
{
    for (size_t i = 0; i < SHAPE_COUNT; i++)
        if (strcmp(shapes[i].name, name) == 0)
            return &shapes[i];
    char text[512] = "";
    snprintf(text, sizeof text, "SHAPE: %.64s is unknown; there are", name);
    for (size_t i = 0; i < SHAPE_COUNT; i++)
        snprintf(text + strlen(text), sizeof text - strlen(text), "%s %s", i ? "," : "", shapes[i].name);
    stop(2, text);
}

static double read_number(size_t i, const char *given)
{
    char *end, text[256];
    errno = 0;
    double value = strtod(given, &end);
    bool good = end != given && !*end && !errno && value >= numbers[i].low && value <= numbers[i].high;
    if (good && (!numbers[i].whole || value == (double)(uint64_t)value))
        return value;
    snprintf(text, sizeof text, "--%s: %.64s is not a %snumber from %g to %.10g", numbers[i].name, given,
             numbers[i].whole ? "whole " : "", numbers[i].low, numbers[i].high);
    stop(2, text);
}

/* PowerInfer's kind of file is one of ReLU models. Other networks have no neurons that are hot. */
static void check_sparse(settings *s)
{
    bool relu = strcmp(s->activation, "relu") == 0, sparse = relu || strcmp(s->activation, "relu2") == 0;
    if (s->layout == IN_POWERINFER && !(relu && s->shape->family->powerinfer))
        stop(2, "--powerinfer: is for networks with relu, and not for mixtures of experts");
    if (!sparse) {
        s->share = 0;
        s->together = 0;
    }
}

static settings read_settings(int argc, char **argv)
{
    enum { HELP = 1, POWERINFER, NEURON_MAJOR, HEAD, ACTIVATION };
    struct option options[NUMBER_COUNT + 6] = {{"help", 0, NULL, HELP},
                                               {"powerinfer", 0, NULL, POWERINFER},
                                               {"neuron-major", 0, NULL, NEURON_MAJOR},
                                               {"head", 1, NULL, HEAD},
                                               {"activation", 1, NULL, ACTIVATION}};
    for (size_t i = 0; i < NUMBER_COUNT; i++)
        options[5 + i] = (struct option){numbers[i].name, 1, NULL, 256 + (int)i};
    settings s = {.layout = IN_STOCK,
                  .hot = 0.26,
                  .share = 0.8,
                  .recall = 0.95,
                  .over = 1.3,
                  .together = 0.5,
                  .shared = 0.3,
                  .domains = 1,
                  .seed = 1,
                  .context = default_context,
                  .head = FORMAT_COUNT};
    for (int c; (c = getopt_long(argc, argv, "", options, NULL)) != -1;) {
        if (c == HELP)
            print_help();
        else if (c == POWERINFER)
            s.layout = IN_POWERINFER;
        else if (c == NEURON_MAJOR)
            s.layout = IN_NEURON_MAJOR;
        else if (c == HEAD)
            s.head = read_format(optarg);
        else if (c == ACTIVATION)
            s.activation = read_activation(optarg);
        else if (c >= 256)
            *(double *)(void *)((char *)&s + numbers[c - 256].field) = read_number((size_t)c - 256, optarg);
        else
            exit(2);
    }
    if (argc - optind != 3)
        stop(2, "needs SHAPE, FORMAT and OUT (--help explains them)");
    s.shape = read_shape(argv[optind]);
    s.format = read_format(argv[optind + 1]);
    s.path = argv[optind + 2];
    s.activation = s.activation ? s.activation : s.shape->family->activation;
    s.density = s.density > 0 ? s.density : s.shape->density;
    check_sparse(&s);
    long processors = sysconf(_SC_NPROCESSORS_ONLN);
    if (s.threads == 0)
        s.threads = processors > 0 ? (double)processors : 1;
    return s;
}

/* ------------------------------------------------------------------ the work */

/* The shape with what the options change of it. */
static model_shape shape_of(const settings *s)
{
    model_shape shape = *s->shape;
    shape.layers = s->layers > 0 ? (uint32_t)s->layers : shape.layers;
    shape.rank = s->rank > 0 ? (uint32_t)s->rank : shape.rank;
    /* PowerInfer's files keep the two rows before OPT's first position. */
    shape.positions = shape.family->positions ? (uint32_t)s->context + (s->layout == IN_POWERINFER ? 2 : 0) : 0;
    char text[64];
    snprintf(text, sizeof text, "--rank: %u is not a multiple of 32", shape.rank);
    if (shape.rank % 32 != 0)
        stop(2, text);
    return shape;
}

static hearth_status make(const settings *s, model_design *m, uint64_t *size_bytes, hearth_error *error)
{
    model_file_options options = {.path = s->path,
                                  .layout = s->layout,
                                  .head = s->head,
                                  .context = (uint32_t)s->context,
                                  .activation = s->activation};
    plant_wish wish = {.neurons = m->shape.neurons,
                       .density = s->density,
                       .hot = s->hot,
                       .share = s->share,
                       .recall = s->recall,
                       .over = s->over};
    pool *threads = NULL;
    TRY(plant_curve_make(&m->curve, &wish, error));
    hearth_status status = model_design_finish(m, error);
    if (status == HEARTH_OK)
        status = pool_create(&threads, (unsigned)s->threads, error);
    if (status == HEARTH_OK)
        status = model_file_write(m, &options, threads, size_bytes, error);
    pool_destroy(threads);
    plant_curve_free(&m->curve);
    return status;
}

int main(int argc, char **argv)
{
    settings s = read_settings(argc, argv);
    model_design m = {.shape = shape_of(&s),
                      .format = s.format,
                      .seed = (uint64_t)s.seed,
                      .domains = (uint32_t)s.domains,
                      .shared = s.shared,
                      .squared = strcmp(s.activation, "relu2") == 0,
                      .together = s.together};
    hearth_error error = {0};
    uint64_t size_bytes = 0;
    double start = clock_seconds();
    if (make(&s, &m, &size_bytes, &error) != HEARTH_OK)
        stop(1, error.text);
    fprintf(stderr, "%s: %s %s, %.1f MB in %.1f s; density %g, recall %g at %g let through for each that fires\n",
            s.path, s.shape->name, number_formats[s.format].name, (double)size_bytes / 1e6, clock_seconds() - start,
            s.density, s.recall, s.over);
    return 0;
}
