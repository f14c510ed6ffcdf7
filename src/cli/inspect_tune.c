/* inspect_tune.c - shows what a tune file says about its model: hot neurons, predictors, thresholds. */
#include "inspect_internal.h"

#include "../engine/placement.h"
#include "../learn/profile.h"
#include "output.h"

#include <math.h>
#include <string.h>

/* Texts and lists of a report are cut to this. */
#define SHOWN_BYTES 120
#define SHOWN_ITEMS 6

/* ------------------------------------------------------------------ opening */

static hearth_status open_tune(inspected_tune *out, const char *named, const hearth_model *model, hearth_error *error)
{
    if (!out->path)
        return fail_memory(error, "tune file", 0);
    if (named)
        return tune_open(&out->tune, out->path, model, error);
    if (file_exists(out->path) && tune_open(&out->tune, out->path, model, &out->why) == HEARTH_OK)
        out->why.text[0] = 0;
    return HEARTH_OK;
}

hearth_status inspect_tune_open(inspected_tune *out, const char *model_path, const char *named,
                                const hearth_model *model, hearth_error *error)
{
    *out = (inspected_tune){0};
    if (named && strcmp(named, "none") == 0)
        return HEARTH_OK;
    out->path = named ? mem_copy_text(named, strlen(named)) : tune_path(model_path);
    hearth_status status = open_tune(out, named, model, error);
    if (status != HEARTH_OK)
        inspect_tune_close(out);
    return status;
}

void inspect_tune_close(inspected_tune *t)
{
    tune_close(t->tune);
    mem_free(t->path);
    *t = (inspected_tune){0};
}

/* ------------------------------------------------------------------ figures */

/* What the counts of a layer say. */
typedef struct heat {
    double density;   /* mean share of neurons that fire                             */
    double hot_share; /* share of neurons that makes up INSPECT_HOT_ACTIVATIONS of all activations */
} heat;

static heat find_heat(const tune *t, const tune_layer *l)
{
    uint64_t all = 0, so_far = 0;
    uint32_t hot = 0, f = l->neuron_count;
    for (uint32_t i = 0; i < f; i++)
        all += (uint64_t)l->counts[i];
    while (hot < f && (double)so_far < INSPECT_HOT_ACTIVATIONS * (double)all)
        so_far += (uint64_t)l->counts[l->order[hot++]];
    return (heat){(double)all / ((double)t->tokens * f), (double)hot / f};
}

/* Describes a predictor: "low-rank 64, q8_0", "coarse q4_0", "none". */
static void describe_predictor(char *out, size_t size, const learned_predictor *p)
{
    const char *kind = predictor_kind_name(p->kind);
    if (p->kind == PREDICTOR_LOW_RANK)
        snprintf(out, size, "%s %u, %s", kind, p->fc1.rows, number_formats[p->fc2.format].name);
    else if (p->kind == PREDICTOR_COARSE)
        snprintf(out, size, "%s %s", kind, number_formats[p->coarse_format].name);
    else
        snprintf(out, size, "%s", kind);
}

static const char *input_name(const learned_predictor *p)
{
    return p->kind == PREDICTOR_NONE ? "" : p->kind == PREDICTOR_COARSE || p->reads_normed ? "normed" : "residual";
}

/* Returns the values that a row of a layer's first matrix has. */
static uint32_t input_width(const hearth_model *model, uint32_t layer)
{
    return ffn_expert_width(&model->layers[layer].ffn, model->hyper.embedding_length);
}

/* Sums over all layers; *count: the layers that have a predictor. */
static uint64_t all_predictor_bytes(const tune *t, const hearth_model *model, uint32_t *count)
{
    uint64_t bytes = 0;
    *count = 0;
    for (uint32_t i = 0; i < t->layer_count; i++) {
        bytes += predictor_bytes(&t->layers[i].predictor, t->layers[i].neuron_count, input_width(model, i));
        *count += t->layers[i].predictor.kind != PREDICTOR_NONE;
    }
    return bytes;
}

/* Finds the share of the model's neurons, taken over all layers at once, that makes up INSPECT_HOT_ACTIVATIONS. false:
 * no memory. */
static bool find_model_heat(const tune *t, double *out)
{
    size_t count = 0, at = 0;
    for (uint32_t i = 0; i < t->layer_count; i++)
        count += t->layers[i].neuron_count;
    int32_t *counts = mem_new_array(count, sizeof *counts);
    uint64_t *scratch = mem_new_array(count, sizeof *scratch);
    if (counts && scratch) {
        for (uint32_t i = 0; i < t->layer_count; at += t->layers[i++].neuron_count)
            if (t->layers[i].neuron_count > 0)
                memcpy(counts + at, t->layers[i].counts, t->layers[i].neuron_count * sizeof *counts);
        *out = profile_hot_share(counts, count, INSPECT_HOT_ACTIVATIONS, scratch);
    }
    bool ok = counts && scratch;
    mem_free(counts);
    mem_free(scratch);
    return ok;
}

/* ------------------------------------------------------------------ for people */

static void print_profile(const tune *t, const hearth_model *model)
{
    double density = 0, hot = 0;
    uint32_t networks = model_networks(model);
    if (!tune_first(t)->counts)
        return;
    for (uint32_t i = 0; i < t->layer_count; i++) {
        if (t->layers[i].neuron_count == 0)
            continue;
        heat h = find_heat(t, &t->layers[i]);
        density += h.density / networks;
        hot += h.hot_share / networks;
    }
    printf("profile   %llu tokens; %.1f %% of the neurons fire, %.0f %% of activations come from %.1f %% of a layer's "
           "neurons",
           (unsigned long long)t->tokens, 100 * density, 100 * INSPECT_HOT_ACTIVATIONS, 100 * hot);
    if (find_model_heat(t, &hot))
        printf(", %.1f %% of the model's", 100 * hot);
    putchar('\n');
    ffn_activation activation = model->layers[model_first_network(model)].ffn.activation;
    if (!ffn_has_zeros(activation))
        printf("          %s is never zero: " INSPECT_SMOOTH_FIRES "\n", ffn_activations[activation].name);
}

static void print_losses(const tune *t)
{
    uint32_t level;
    for (uint32_t i = 0; i < t->level_count; i++)
        printf("          level %4.1f %%: KL %.3g nats\n", 100 * (double)t->levels[i], (double)t->losses[i]);
    if (placement_find_level(t, HEARTH_PRUNE_LOSS, &level))
        printf("          --sparsity pruned takes %.1f %%, the most that costs at most %g\n",
               100 * (double)t->levels[level], HEARTH_PRUNE_LOSS);
    else
        printf("          none that leaves out more than zeros costs at most %g\n", HEARTH_PRUNE_LOSS);
}

static void print_prune(const tune *t)
{
    if (t->level_count == 0)
        return;
    printf("pruning   thresholds at %u level%s: %.1f to %.1f %% of all activations count as zero\n", t->level_count,
           t->level_count == 1 ? "" : "s", 100 * (double)t->levels[0], 100 * (double)t->levels[t->level_count - 1]);
    if (t->losses)
        print_losses(t);
    else
        puts("          what they cost was not measured");
}

static void print_predictors(const tune *t, const hearth_model *model)
{
    char size[16];
    uint32_t count;
    uint64_t bytes = all_predictor_bytes(t, model, &count);
    if (t->has_predictors)
        printf("predicted in %u of %u layers, predictors of %s\n", count, model_networks(model),
               output_size(size, (double)bytes));
}

static void print_layer(const tune *t, const hearth_model *model, uint32_t i)
{
    const tune_layer *l = &t->layers[i];
    const learned_predictor *p = &l->predictor;
    char text[64], size[16];
    printf("%5u", i);
    if (l->counts) {
        heat h = find_heat(t, l);
        printf("  %5.1f %%  %5.1f %%", 100 * h.density, 100 * h.hot_share);
    }
    if (t->has_predictors) {
        describe_predictor(text, sizeof text, p);
        printf("  %-20s", text);
        if (p->kind != PREDICTOR_NONE)
            printf(" %-8s  %9.4g  %6.4f  %8.1f %%  %8s", input_name(p), (double)p->threshold, (double)l->recall,
                   100 * (double)l->density,
                   output_size(size, (double)predictor_bytes(p, l->neuron_count, input_width(model, i))));
    }
    putchar('\n');
}

static void print_layers(const tune *t, const hearth_model *model)
{
    if (!tune_first(t)->counts && !t->has_predictors)
        return;
    printf("\nlayer%s%s\n", tune_first(t)->counts ? "    fires  80 % by" : "",
           t->has_predictors ? "  predictor            reads     threshold  recall  lets through     size" : "");
    for (uint32_t i = 0; i < t->layer_count; i++)
        if (t->layers[i].neuron_count > 0)
            print_layer(t, model, i);
}

/* Returns whether the value is a text, a number, a boolean, or a list of texts. */
static bool is_plain(const json_t *value)
{
    size_t count = json_array_size(value);
    for (size_t i = 0; i < count; i++)
        if (!json_is_string(json_array_get(value, i)))
            return false;
    return count > 0 || json_is_string(value) || json_is_number(value) || json_is_boolean(value);
}

static void print_plain(const json_t *value)
{
    double number = json_number_value(value);
    size_t count = json_array_size(value);
    if (json_is_number(value))
        printf(fabs(number) >= 1000 ? "%.0f" : "%.4g", number);
    else if (json_is_boolean(value))
        fputs(json_is_true(value) ? "yes" : "no", stdout);
    else if (json_is_string(value))
        output_safe(stdout, span_of(json_string_value(value)), SHOWN_BYTES);
    for (size_t i = 0; i < count && i < SHOWN_ITEMS; i++) {
        fputs(i > 0 ? ", " : "", stdout);
        output_safe(stdout, span_of(json_string_value(json_array_get(value, i))), SHOWN_BYTES);
    }
    fputs(count > SHOWN_ITEMS ? ", ..." : "", stdout);
}

/* Prints "key: value", or an object as "key: its key value, its key value ..."; deeper values are left to the JSON
 * output. */
static void print_reported(const char *label, const char *key, json_t *value)
{
    const char *name, *between = ": ";
    json_t *member;
    printf("%-10s", label);
    output_safe(stdout, span_of(key), SHOWN_BYTES);
    if (is_plain(value)) {
        fputs(between, stdout);
        print_plain(value);
    }
    json_object_foreach(value, name, member)
    {
        if (!is_plain(member))
            continue;
        fputs(between, stdout);
        output_safe(stdout, span_of(name), SHOWN_BYTES);
        putchar(' ');
        print_plain(member);
        between = ", ";
    }
    putchar('\n');
}

static void print_report(const tune *t)
{
    const char *key, *label = "report";
    json_t *value, *report;
    if (!t->report[0] || json_parse(&report, t->report, strlen(t->report), "report", NULL) != HEARTH_OK)
        return;
    json_object_foreach(report, key, value)
    {
        if (!is_plain(value) && !json_is_object(value))
            continue;
        print_reported(label, key, value);
        label = "";
    }
    json_decref(report);
}

void inspect_tune_print(const inspected_tune *in, const hearth_model *model)
{
    if (!in->tune && !in->why.text[0])
        return;
    fputs("\ntune      ", stdout);
    output_safe(stdout, span_of(in->tune ? in->path : in->why.text), 4096);
    putchar('\n');
    if (!in->tune)
        return;
    print_profile(in->tune, model);
    print_prune(in->tune);
    print_predictors(in->tune, model);
    print_report(in->tune);
    print_layers(in->tune, model);
}

/* ------------------------------------------------------------------ for programs */

static json_t *json_prune(const tune *t, const tune_layer *l)
{
    json_t *thresholds = json_array();
    for (uint32_t i = 0; l->prune && i < t->level_count; i++)
        json_array_append_new(thresholds, json_real((double)l->prune[i]));
    return thresholds;
}

static json_t *json_predictor(const hearth_model *model, const tune_layer *l, uint32_t i)
{
    const learned_predictor *p = &l->predictor;
    json_t *o = json_pack("{s:s}", "kind", predictor_kind_name(p->kind));
    if (p->kind == PREDICTOR_NONE)
        return o;
    bool low_rank = p->kind == PREDICTOR_LOW_RANK;
    json_object_set_new(o, "rank", low_rank ? json_integer(p->fc1.rows) : json_null());
    json_object_set_new(o, "format", json_string(number_formats[low_rank ? p->fc2.format : p->coarse_format].name));
    json_object_set_new(o, "input", json_string(input_name(p)));
    json_object_set_new(o, "threshold", json_real((double)p->threshold));
    json_object_set_new(o, "recall", json_real((double)l->recall));
    json_object_set_new(o, "density", json_real((double)l->density));
    uint64_t bytes = predictor_bytes(p, l->neuron_count, input_width(model, i));
    json_object_set_new(o, "size_bytes", json_integer((json_int_t)bytes));
    return o;
}

/* Returns null for a layer without a network. */
static json_t *json_layer(const tune *t, const hearth_model *model, uint32_t i)
{
    const tune_layer *l = &t->layers[i];
    if (l->neuron_count == 0)
        return json_null();
    json_t *o = json_object();
    if (l->counts) {
        heat h = find_heat(t, l);
        json_object_set_new(o, "density", json_real(h.density));
        json_object_set_new(o, "hot_share", json_real(h.hot_share));
    }
    if (t->has_predictors)
        json_object_set_new(o, "predictor", json_predictor(model, l, i));
    if (l->prune)
        json_object_set_new(o, "prune", json_prune(t, l));
    return o;
}

static json_t *json_report(const tune *t)
{
    json_t *report = NULL;
    if (!t->report[0] || json_parse(&report, t->report, strlen(t->report), "report", NULL) != HEARTH_OK)
        return json_null();
    return report;
}

json_t *inspect_tune_json(const inspected_tune *in, const hearth_model *model)
{
    const tune *t = in->tune;
    if (!t && !in->why.text[0])
        return json_null();
    json_t *o = json_pack("{s:o}", "path", json_text(span_of(in->path)));
    if (!t) {
        json_object_set_new(o, "why", json_text(span_of(in->why.text)));
        return o;
    }
    uint32_t count;
    uint64_t bytes = all_predictor_bytes(t, model, &count);
    json_t *levels = json_array(), *layers = json_array(), *losses = t->losses ? json_array() : json_null();
    for (uint32_t i = 0; i < t->level_count; i++)
        json_array_append_new(levels, json_real((double)t->levels[i]));
    for (uint32_t i = 0; t->losses && i < t->level_count; i++)
        json_array_append_new(losses, json_real((double)t->losses[i]));
    for (uint32_t i = 0; i < t->layer_count; i++)
        json_array_append_new(layers, json_layer(t, model, i));
    json_object_set_new(o, "tokens", tune_first(t)->counts ? json_integer((json_int_t)t->tokens) : json_null());
    json_object_set_new(o, "predictors", t->has_predictors ? json_integer(count) : json_null());
    json_object_set_new(o, "predictor_bytes", json_integer((json_int_t)bytes));
    json_object_set_new(o, "prune_levels", levels);
    json_object_set_new(o, "prune_losses", losses);
    json_object_set_new(o, "layers", layers);
    json_object_set_new(o, "report", json_report(t));
    return o;
}

/* ------------------------------------------------------------------ without its model */

/* Returns the text that the file stores under a key; empty if there is none. */
static span find_text(const checkpoint *file, const char *key)
{
    span text = {"", 0};
    bool found;
    if (checkpoint_get_string(file, key, &text, &found, NULL) != HEARTH_OK)
        return (span){"", 0};
    return text;
}

bool inspect_is_tune(const checkpoint *file)
{
    return span_equal(find_text(file, "general.architecture"), span_of(TUNE_ARCHITECTURE));
}

void inspect_tune_print_file(const checkpoint *file)
{
    fputs("tune file of the model with the fingerprint ", stdout);
    output_safe(stdout, find_text(file, TUNE_KEY_FINGERPRINT), SHOWN_BYTES);
    fputs("\nbeside that model, or by `hearth inspect MODEL --tune ", stdout);
    output_safe(stdout, span_of(file->path), 4096);
    puts("`, what it holds is shown in full");
}

json_t *inspect_tune_json_file(const checkpoint *file)
{
    return json_pack("{s:o}", "fingerprint", json_text(find_text(file, TUNE_KEY_FINGERPRINT)));
}
