/* load_shape.c - models that are not at hand, from files that give their shapes and published densities.
 *
 * Sizes are parameters times the bytes of a weight in the format asked for, as if every matrix were in it; norms and biases
 * are left out, which are less than a thousandth. Where a width is no whole number of the format's blocks, real files
 * take another format of about the same size for that matrix, so the product is right enough.
 *
 * What a token reads of a network follows from the mode:
 *     dense      all rows of the neurons in use (all, or those of the chosen experts)
 *     exact      the first row of every neuron in use, the others of those that fire
 *     predicted  the predictor's row of every neuron, the first row of those let through, the others of those that fire */
#include "load.h"

#include "../number/format.h"
#include "members.h"

#include <string.h>

/* Limits of a file, beyond any model and far from overflow: 2^22 neurons are eight layers of the largest mixture known. */
enum {
    MOST_LAYERS = 1024,
    MOST_ENTRIES = 64,
    MOST_WIDTH = 1 << 20,
    MOST_NEURONS = 1 << 22,
    MOST_VOCABULARY = 1 << 24,
    MOST_HEADS = 1 << 14,
    MOST_HEAD_LENGTH = 1 << 16,
};
#define MOST_PARAMETERS 1e15

/* Keys and values are in F16, recurrent states in F32: the defaults of a session. */
#define KV_VALUE_BYTES    2
#define STATE_VALUE_BYTES 4

/* A neuron that nothing is known of: a half of them has half of the activations. */
#define EVEN_SHARE 0.5

typedef enum shape_mode { MODE_DENSE, MODE_EXACT, MODE_PREDICTED, MODE_COUNT, MODE_BEST = MODE_COUNT } shape_mode;
static const char *const mode_names[MODE_COUNT] = {
    [MODE_DENSE] = "dense", [MODE_EXACT] = "exact", [MODE_PREDICTED] = "predicted"};

/* The file and the wishes, while it is read. */
typedef struct reading {
    model_load *load;
    hearth_error *error;
    double width;
    double weight_bytes;    /* of one weight                                                                */
    double predictor_bytes; /* of one weight of a predictor                                                 */
    shape_mode mode;
    double density; /* in place of the file's; 0: the file's                                        */
    size_t neurons; /* for which arrays were made                                                   */
    bool has_zeros, has_predictors;
} reading;

/* A feed-forward network as the file gives it. */
typedef struct network {
    uint32_t neurons;  /* of the network, or of one expert               */
    uint32_t matrices; /* 3: gate, up and down; 2: up and down           */
    uint32_t experts, used;
    uint32_t shared;   /* neurons of the shared expert                   */
    double width;      /* of its rows: the model's, or a latent one      */
    double parameters; /* others: router, matrices of a latent width     */
    bool has_zeros;    /* the file gives a density                       */
    double density;    /* among the neurons in use                       */
    double hot, share;
    uint32_t rank; /* of a predictor; 0: it has none                 */
    double let_through;
} network;

/* ------------------------------------------------------------------ mixers */

static hearth_status parse_attention(const reading *r, layer_load *l, const json_t *object, const char *name)
{
    static const char *const members[] = {"heads", "kv_heads", "head_length", "window"};
    uint32_t heads, kv_heads, length;
    bool found;
    TRY(members_known(object, members, sizeof members / sizeof *members, name, r->error));
    TRY(members_count(object, "heads", 1, MOST_HEADS, &heads, NULL, name, r->error));
    TRY(members_count(object, "kv_heads", 1, heads, &kv_heads, NULL, name, r->error));
    TRY(members_count(object, "head_length", 1, MOST_HEAD_LENGTH, &length, NULL, name, r->error));
    TRY(members_count(object, "window", 1, UINT32_MAX, &l->window, &found, name, r->error));
    double query = (double)heads * length, key = (double)kv_heads * length;
    l->mixer_bytes = 2 * (query + key) * r->width * r->weight_bytes; /* query and output, key and value */
    l->kv_bytes = l->kv_read_bytes = 2 * key * KV_VALUE_BYTES;
    return HEARTH_OK;
}

static hearth_status parse_mixer(const reading *r, layer_load *l, const json_t *object, const char *name)
{
    static const char *const members[] = {"parameters", "kv_values", "state_values"};
    double parameters, kv = 0, state = 0;
    bool found;
    TRY(members_known(object, members, sizeof members / sizeof *members, name, r->error));
    TRY(members_number(object, "parameters", 1, MOST_PARAMETERS, &parameters, NULL, name, r->error));
    TRY(members_number(object, "kv_values", 1, MOST_PARAMETERS, &kv, &found, name, r->error));
    TRY(members_number(object, "state_values", 1, MOST_PARAMETERS, &state, &found, name, r->error));
    l->mixer_bytes = parameters * r->weight_bytes;
    l->kv_bytes = l->kv_read_bytes = kv * KV_VALUE_BYTES;
    l->state_bytes = state * STATE_VALUE_BYTES;
    return HEARTH_OK;
}

/* ------------------------------------------------------------------ networks */

static hearth_status wrong(const reading *r, const char *name, const char *key, const char *text)
{
    return fail(r->error, HEARTH_FORMAT, "%s: %s: %s", name, key, text);
}

/* Reads the members about experts. */
static hearth_status parse_experts(const reading *r, network *n, const json_t *object, const char *name)
{
    bool experts, used, shared;
    n->experts = n->used = 1;
    TRY(members_count(object, "experts", 2, MOST_NEURONS, &n->experts, &experts, name, r->error));
    TRY(members_count(object, "used", 1, n->experts, &n->used, experts ? NULL : &used, name, r->error));
    TRY(members_count(object, "shared", 1, MOST_NEURONS, &n->shared, &shared, name, r->error));
    if (!experts && json_object_get(object, "used"))
        return wrong(r, name, "used", "goes with experts");
    if (shared && !experts)
        return wrong(r, name, "shared", "goes with experts");
    if ((double)n->neurons * n->experts + n->shared > MOST_NEURONS)
        return wrong(r, name, "neurons", "too many in all experts");
    return HEARTH_OK;
}

/* Reads the members about zeros: which neurons fire, and what is known of it before they are read. */
static hearth_status parse_zeros(const reading *r, network *n, const json_t *object, const char *name)
{
    static const char *const zeros[] = {"hot", "share", "rank"};
    bool density, hot, share, rank, let_through;
    n->density = 1;
    n->hot = n->share = EVEN_SHARE;
    n->let_through = 1;
    TRY(members_number(object, "density", 1e-6, 1, &n->density, &density, name, r->error));
    TRY(members_number(object, "hot", 1e-6, 0.999, &n->hot, &hot, name, r->error));
    TRY(members_number(object, "share", 1e-6, 0.999999, &n->share, &share, name, r->error));
    TRY(members_count(object, "rank", 1, MOST_WIDTH, &n->rank, &rank, name, r->error));
    TRY(members_number(object, "let_through", 1, 1e6, &n->let_through, &let_through, name, r->error));
    for (size_t i = 0; i < sizeof zeros / sizeof *zeros; i++)
        if (!density && json_object_get(object, zeros[i]))
            return wrong(r, name, zeros[i], "goes with density");
    if (hot != share)
        return wrong(r, name, hot ? "share" : "hot", "is missing");
    if (n->share < n->hot)
        return wrong(r, name, "share", "is less than hot");
    if (rank != let_through)
        return wrong(r, name, rank ? "let_through" : "rank", "is missing");
    if (rank && n->experts > 1)
        return wrong(r, name, "rank", "predictors of experts cannot be described");
    n->has_zeros = density;
    if (density && r->density > 0)
        n->density = r->density;
    return HEARTH_OK;
}

static hearth_status parse_network(const reading *r, network *n, const json_t *object, const char *name)
{
    static const char *const members[] = {"neurons",    "matrices", "experts", "used",  "shared", "width",
                                          "parameters", "density",  "hot",     "share", "rank",   "let_through"};
    uint32_t width;
    bool has_width, found;
    *n = (network){0};
    TRY(members_known(object, members, sizeof members / sizeof *members, name, r->error));
    TRY(members_count(object, "neurons", 1, MOST_NEURONS, &n->neurons, NULL, name, r->error));
    TRY(members_count(object, "matrices", 2, 3, &n->matrices, NULL, name, r->error));
    TRY(members_count(object, "width", 1, MOST_WIDTH, &width, &has_width, name, r->error));
    n->width = has_width ? width : r->width;
    TRY(members_number(object, "parameters", 1, MOST_PARAMETERS, &n->parameters, &found, name, r->error));
    TRY(parse_experts(r, n, object, name));
    return parse_zeros(r, n, object, name);
}

/* Fills the chances of neurons [from, from + count) that are in use with chance `use`. */
static void fill_chances(const network *n, shape_mode mode, float *needs, float *fires, size_t count, double use)
{
    load_hotness(fires, count, n->density, n->hot, n->share);
    for (size_t i = 0; i < count; i++) {
        double let = mode == MODE_PREDICTED ? n->let_through * fires[i] : 1;
        needs[i] = (float)(use * (let < 1 ? let : 1));
        fires[i] = (float)(use * fires[i]);
    }
}

/* Returns what a token reads of a neuron on average. */
static double read_bytes(const layer_load *l, const float *needs, const float *fires, size_t i)
{
    return needs[i] * l->first_bytes + fires[i] * l->other_bytes;
}

static double mean(const float *values, size_t count)
{
    double sum = 0;
    for (size_t i = 0; i < count; i++)
        sum += values[i];
    return sum / (double)count;
}

/* Sets needs and fires of a network that is not read whole: those of the experts and of the shared expert, each by
 * hotness, merged by what they save. All experts are taken to be chosen equally often. */
static hearth_status set_chances(reading *r, layer_load *l, const network *n, shape_mode mode, const char *name)
{
    size_t count = l->neurons, routed = count - n->shared, a = 0, b = routed;
    arena scratch = {0};
    if (r->neurons + count > MOST_NEURONS)
        return wrong(r, name, "neurons", "too many in all layers");
    r->neurons += count;
    float *needs = arena_new_array(&r->load->memory, count, sizeof *needs);
    float *fires = arena_new_array(&r->load->memory, count, sizeof *fires);
    float *need = arena_new_array(&scratch, count, sizeof *need);
    float *fire = arena_new_array(&scratch, count, sizeof *fire);
    if (!needs || !fires || !need || !fire) {
        arena_clear(&scratch);
        return fail_memory(r->error, name, 4 * count * sizeof *needs);
    }
    fill_chances(n, mode, need, fire, routed, (double)n->used / n->experts);
    fill_chances(n, mode, need + routed, fire + routed, n->shared, 1);
    for (size_t i = 0; i < count; i++) {
        bool first = b == count || (a < routed && read_bytes(l, need, fire, a) >= read_bytes(l, need, fire, b));
        size_t from = first ? a++ : b++;
        needs[i] = need[from];
        fires[i] = fire[from];
    }
    arena_clear(&scratch);
    l->needs = needs;
    l->fires = fires;
    l->need = mean(needs, count);
    l->fire = mean(fires, count);
    return HEARTH_OK;
}

static hearth_status set_network(reading *r, layer_load *l, const network *n, const char *name)
{
    shape_mode mode = n->density == 1 ? MODE_DENSE : r->mode == MODE_BEST ? MODE_EXACT : r->mode;
    bool predicts = mode == MODE_PREDICTED && n->rank > 0; /* where no rank is given a layer has no predictor */
    r->has_zeros = r->has_zeros || n->has_zeros;
    r->has_predictors = r->has_predictors || n->rank > 0;
    mode = mode == MODE_PREDICTED && !predicts ? MODE_EXACT : mode;
    l->splits = true;
    l->unit = 1;
    l->lists = mode != MODE_DENSE;
    l->neurons = n->neurons * n->experts + n->shared;
    l->row_bytes = n->width * r->weight_bytes;
    l->first_bytes = l->row_bytes;
    l->other_bytes = (n->matrices - 1) * l->row_bytes;
    l->network_bytes = n->parameters * r->weight_bytes;
    l->in_use = ((double)n->neurons * n->used + n->shared) / l->neurons;
    if (predicts) {
        l->predictor_bytes = n->rank * r->predictor_bytes;
        l->network_bytes += n->rank * n->width * r->predictor_bytes;
    }
    if (mode == MODE_DENSE && n->shared == 0) {
        l->need = l->fire = (double)n->used / n->experts;
        return HEARTH_OK;
    }
    network whole = *n;
    if (mode == MODE_DENSE)
        whole.density = 1;
    return set_chances(r, l, &whole, mode, name);
}

/* ------------------------------------------------------------------ layers */

/* Reads what a layer of one kind is made of. */
static hearth_status parse_layer(reading *r, layer_load *l, const json_t *object, const char *name)
{
    static const char *const members[] = {"letter", "count", "attention", "mixer", "network"};
    const json_t *attention, *mixer, *feed;
    char place[MEMBERS_PLACE];
    TRY(members_known(object, members, sizeof members / sizeof *members, name, r->error));
    attention = json_object_get(object, "attention");
    mixer = json_object_get(object, "mixer");
    feed = json_object_get(object, "network");
    if (attention && mixer)
        return wrong(r, name, "mixer", "attention is there already");
    if (!attention && !mixer && !feed)
        return wrong(r, name, "network", "is missing, and so are attention and mixer");
    l->has_mixer = attention || mixer;
    l->has_network = feed != NULL;
    members_place(place, name, "%s", attention ? "attention" : "mixer");
    if (attention)
        TRY(parse_attention(r, l, attention, place));
    if (mixer)
        TRY(parse_mixer(r, l, mixer, place));
    if (feed) {
        network n;
        members_place(place, name, "network");
        TRY(parse_network(r, &n, feed, place));
        TRY(set_network(r, l, &n, place));
    }
    /* A device is taken to store what the file does. */
    l->device_bytes = l->mixer_bytes;
    l->device_network_bytes = l->network_bytes;
    l->device_neuron_bytes = l->first_bytes + l->other_bytes + l->predictor_bytes;
    return HEARTH_OK;
}

/* Returns the first entry with the letter; `count`: none. letters [count]. */
static size_t find_letter(const char *letters, size_t count, char letter)
{
    size_t i = 0;
    while (i < count && letters[i] != letter)
        i++;
    return i;
}

/* Fills the layers from kinds [entries], which stand in the order of `pattern`, letters [entries]. */
static hearth_status place_pattern(reading *r, const layer_load *kinds, const char *letters, size_t entries,
                                   const char *pattern, const char *name)
{
    model_load *m = r->load;
    bool used[MOST_ENTRIES] = {false};
    m->layer_count = (uint32_t)strlen(pattern);
    m->layers = arena_new_array(&m->memory, m->layer_count + 1, sizeof *m->layers);
    if (!m->layers)
        return fail_memory(r->error, name, m->layer_count * sizeof *m->layers);
    for (uint32_t i = 0; i < m->layer_count; i++) {
        size_t kind = find_letter(letters, entries, pattern[i]);
        if (kind == entries)
            return fail(r->error, HEARTH_FORMAT, "%s: pattern: no layer has the letter %c", name, pattern[i]);
        used[kind] = true;
        m->layers[i] = kinds[kind];
    }
    for (size_t k = 0; k < entries; k++)
        if (!used[k])
            return fail(r->error, HEARTH_FORMAT, "%s: pattern: lacks the letter %c", name, letters[k]);
    return HEARTH_OK;
}

/* Fills the layers from kinds [entries], of each counts[i] one after the other. */
static hearth_status place_counts(reading *r, const layer_load *kinds, const uint32_t *counts, size_t entries,
                                  const char *name)
{
    model_load *m = r->load;
    size_t total = 0;
    for (size_t k = 0; k < entries; k++)
        total += counts[k];
    if (total > MOST_LAYERS)
        return fail(r->error, HEARTH_FORMAT, "%s: layers: are %zu, at most %d are possible", name, total, MOST_LAYERS);
    m->layers = arena_new_array(&m->memory, total, sizeof *m->layers);
    if (!m->layers)
        return fail_memory(r->error, name, total * sizeof *m->layers);
    for (size_t k = 0; k < entries; k++)
        for (uint32_t i = 0; i < counts[k]; i++)
            m->layers[m->layer_count++] = kinds[k];
    return HEARTH_OK;
}

/* Reads the list of layers: with a pattern each has a letter, without a count. */
static hearth_status parse_layers(reading *r, const json_t *root, const char *name)
{
    layer_load kinds[MOST_ENTRIES];
    uint32_t counts[MOST_ENTRIES];
    char pattern[MOST_LAYERS + 1], letters[MOST_ENTRIES];
    const json_t *list;
    bool has_pattern;
    TRY(members_text(root, "pattern", pattern, sizeof pattern, &has_pattern, name, r->error));
    TRY(members_list(root, "layers", MOST_ENTRIES, &list, NULL, name, r->error));
    size_t entries = json_array_size(list);
    if (entries == 0 || (has_pattern && !pattern[0]))
        return wrong(r, name, entries == 0 ? "layers" : "pattern", "is empty");
    for (size_t k = 0; k < entries; k++) {
        const json_t *item = json_array_get(list, k);
        char place[MEMBERS_PLACE], letter[2] = "";
        members_place(place, name, "layers[%zu]", k);
        kinds[k] = (layer_load){.kind = (uint32_t)k};
        TRY(parse_layer(r, &kinds[k], item, place));
        if (json_object_get(item, has_pattern ? "count" : "letter"))
            return wrong(r, place, has_pattern ? "count" : "letter",
                         has_pattern ? "the pattern counts" : "goes with a pattern");
        if (has_pattern)
            TRY(members_text(item, "letter", letter, sizeof letter, NULL, place, r->error));
        else
            TRY(members_count(item, "count", 1, MOST_LAYERS, &counts[k], NULL, place, r->error));
        if (has_pattern && (!letter[0] || find_letter(letters, k, letter[0]) < k))
            return wrong(r, place, "letter", letter[0] ? "another layer has it" : "is empty");
        letters[k] = letter[0];
    }
    return has_pattern ? place_pattern(r, kinds, letters, entries, pattern, name)
                       : place_counts(r, kinds, counts, entries, name);
}

/* ------------------------------------------------------------------ the whole file */

static double bytes_per_weight(number_format f)
{
    return (double)number_formats[f].block_bytes / number_formats[f].block_values;
}

/* Reads the texts and the format, in which options come first. Predictors are as `hearth tune` writes them: F16 beside
 * weights that are floats, and where those are in blocks Q8_0. */
static hearth_status parse_head(reading *r, const json_t *root, const char *name, const char *format)
{
    model_load *m = r->load;
    char stated[32] = "f16", source[64] = "published", note[2048];
    bool found;
    TRY(members_text(root, "name", m->name, sizeof m->name, NULL, name, r->error));
    TRY(members_text(root, "note", note, sizeof note, &found, name, r->error));
    TRY(members_text(root, "format", stated, sizeof stated, &found, name, r->error));
    TRY(members_text(root, "density_source", source, sizeof source, &found, name, r->error));
    number_format f = number_format_by_name(stated);
    if (f == FORMAT_COUNT)
        return wrong(r, name, "format", "unknown number format");
    if (format)
        f = number_format_by_name(format);
    if (f == FORMAT_COUNT)
        return fail(r->error, HEARTH_INVALID, "%s: unknown number format %s", name, format);
    r->weight_bytes = bytes_per_weight(f);
    r->predictor_bytes = bytes_per_weight(number_is_block(f) ? FORMAT_Q8_0 : FORMAT_F16);
    m->density_source = r->density > 0 ? "given" : arena_copy_text(&m->memory, source, strlen(source));
    return m->density_source ? HEARTH_OK : fail_memory(r->error, name, strlen(source));
}

static hearth_status parse_shape(reading *r, const json_t *root, const char *name, const char *format)
{
    static const char *const members[] = {"name",       "note", "format",  "density_source", "width",
                                          "vocabulary", "tied", "pattern", "layers"};
    model_load *m = r->load;
    uint32_t width, vocabulary;
    TRY(members_known(root, members, sizeof members / sizeof *members, name, r->error));
    TRY(parse_head(r, root, name, format));
    TRY(members_count(root, "width", 1, MOST_WIDTH, &width, NULL, name, r->error));
    TRY(members_count(root, "vocabulary", 1, MOST_VOCABULARY, &vocabulary, NULL, name, r->error));
    TRY(json_get_bool(root, "tied", &m->tied, NULL, name, r->error));
    r->width = width;
    m->row_values = width;
    m->head_on_device = true;
    m->embedding_bytes = m->head_bytes = (double)vocabulary * width * r->weight_bytes;
    TRY(parse_layers(r, root, name));
    if (r->mode == MODE_EXACT && !r->has_zeros)
        return fail(r->error, HEARTH_UNSUPPORTED, "%s: has no mode exact: no network has a density", name);
    if (r->mode == MODE_PREDICTED && !r->has_predictors)
        return fail(r->error, HEARTH_UNSUPPORTED, "%s: has no mode predicted: no network has a rank", name);
    return HEARTH_OK;
}

hearth_status load_parse_shape(model_load *out, const json_t *object, const char *name, const shape_options *options,
                               hearth_error *error)
{
    const shape_options none = {0}, *o = options ? options : &none;
    reading r = {.load = out, .error = error, .mode = MODE_BEST, .density = o->density};
    *out = (model_load){0};
    for (size_t i = 0; o->mode && i < MODE_COUNT; i++)
        if (strcmp(o->mode, mode_names[i]) == 0)
            r.mode = (shape_mode)i;
    if (o->mode && r.mode == MODE_BEST)
        return fail(error, HEARTH_INVALID, "%s: unknown mode %s: needs dense, exact or predicted", name, o->mode);
    if (!(o->density >= 0 && o->density <= 1))
        return fail(error, HEARTH_INVALID, "%s: density: is %g, not from 0 to 1", name, o->density);
    hearth_status status = parse_shape(&r, object, name, o->format);
    if (status != HEARTH_OK)
        load_free(out);
    return status;
}

hearth_status load_read_shape(model_load *out, const char *path, const char *folder, const shape_options *options,
                              hearth_error *error)
{
    json_t *root;
    *out = (model_load){0};
    TRY(members_read_file(&root, path, folder, "shape", error));
    hearth_status status = load_parse_shape(out, root, path, options, error);
    json_decref(root);
    return status;
}
