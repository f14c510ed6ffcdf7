/* inspect_plot.c - `hearth inspect --plot`: draws which neurons of a model fire, as curves and a heat map.
 *
 * All data comes from the tune file, where `hearth profile` stored its counts. */
#include "inspect_internal.h"

#include "../eval/chart.h"
#include "../model/tune.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define CURVE_POINTS 128
#define HEAT_COLUMNS 120
/* A heat map has at most this many rows; of more layers it shows every second, third ... */
#define HEAT_ROWS   256
#define LEAST_SHARE 1e-3
#define LEAST_SIZE  1e-4 /* smallest magnitude drawn, as a share of the largest */

enum { POWER_LAW, DENSITY, HEAT, MAGNITUDES, PANELS };

typedef struct picture {
    const tune *t;
    arena memory;
    chart_panel panels[PANELS];
    size_t count;
    char says[PANELS][256];
} picture;

static hearth_status no_room(hearth_error *error)
{
    return fail_memory(error, "picture", 0);
}

/* ------------------------------------------------------------------ the power law */

static int descending(const void *a, const void *b)
{
    int32_t x = *(const int32_t *)a, y = *(const int32_t *)b;
    return (x < y) - (x > y);
}

/* Returns the share of counts [n], hottest first, that makes up INSPECT_HOT_ACTIVATIONS of their sum (0 where nothing
 * fires), and fills the cumulative curve. */
static double add_up(const int32_t *counts, size_t n, chart_point curve[CURVE_POINTS + 1])
{
    double sum = 0, so_far = 0, hot = 0;
    for (size_t i = 0; i < n; i++)
        sum += counts[i];
    curve[0] = (chart_point){0, 0, NULL};
    for (size_t i = 0, next = 1; i < n; i++) {
        bool reached = so_far >= INSPECT_HOT_ACTIVATIONS * sum;
        so_far += counts[i];
        if (!reached && so_far >= INSPECT_HOT_ACTIVATIONS * sum)
            hot = (double)(i + 1) / (double)n;
        for (; next <= CURVE_POINTS && i + 1 >= next * n / CURVE_POINTS; next++)
            curve[next] = (chart_point){(double)(i + 1) / (double)n, sum > 0 ? so_far / sum : 0, NULL};
    }
    return hot;
}

/* Copies the counts of all layers one after another, each layer hottest first. */
static void gather(const tune *t, int32_t *counts)
{
    for (uint32_t layer = 0; layer < t->layer_count; layer++)
        for (uint32_t i = 0; i < t->layers[layer].neuron_count; i++)
            *counts++ = t->layers[layer].counts[t->layers[layer].order[i]];
}

static hearth_status add_power_law(picture *p, hearth_error *error)
{
    const tune *t = p->t;
    size_t all = 0, at = 0;
    for (uint32_t i = 0; i < t->layer_count; i++)
        all += t->layers[i].neuron_count;
    uint32_t networks = 0; /* layers that have a curve */
    chart_series *series = arena_new_array(&p->memory, t->layer_count + 2, sizeof *series);
    chart_point *points = arena_new_array(&p->memory, t->layer_count + 2, (CURVE_POINTS + 1) * sizeof *points);
    char *title = arena_new(&p->memory, 64);
    int32_t *counts = mem_new_array(all, sizeof *counts);
    if (!series || !points || !title || !counts) {
        mem_free(counts);
        return no_room(error);
    }
    double least = 1, most = 0;
    gather(t, counts);
    for (uint32_t i = 0; i < t->layer_count; at += t->layers[i++].neuron_count) {
        if (t->layers[i].neuron_count == 0)
            continue;
        double hot = add_up(counts + at, t->layers[i].neuron_count, points);
        series[2 + networks++] = (chart_series){"one layer", CHART_HAIR, 0, points, CURVE_POINTS + 1};
        points += CURVE_POINTS + 1;
        least = fmin(least, hot);
        most = fmax(most, hot);
    }
    qsort(counts, all, sizeof *counts, descending);
    double hot = add_up(counts, all, points);
    mem_free(counts);
    snprintf(title, 64, "%.3g %% of neurons do 80 %% of the work", 100 * hot);
    series[1] = (chart_series){"all layers", CHART_LINE, 1, points, CURVE_POINTS + 1};
    points += CURVE_POINTS + 1;
    points[0] = (chart_point){hot, INSPECT_HOT_ACTIVATIONS, NULL};
    series[0] = (chart_series){NULL, CHART_MARKS, 1, points, 1};
    snprintf(p->says[POWER_LAW], sizeof p->says[POWER_LAW],
             "%.3g %% of the neurons make 80 %% of all activations; in single layers %.3g to %.3g %%.", 100 * hot,
             100 * least, 100 * most);
    p->panels[p->count++] = (chart_panel){.title = title,
                                          .says = p->says[POWER_LAW],
                                          .x = {"share of the neurons, hottest first", .percent = true, .most = 1},
                                          .y = {"share of all activations", .percent = true, .most = 1},
                                          .series = series,
                                          .series_count = networks + 2};
    return HEARTH_OK;
}

/* ------------------------------------------------------------------ by layer */

static chart_axis layer_axis(const tune *t)
{
    return (chart_axis){"layer", .whole = true, .least = -0.5, .most = t->layer_count - 0.5};
}

static hearth_status add_density(picture *p, hearth_error *error)
{
    const tune *t = p->t;
    chart_series *series = arena_new_array(&p->memory, 1, sizeof *series);
    chart_point *bars = arena_new_array(&p->memory, t->layer_count, sizeof *bars);
    if (!series || !bars)
        return no_room(error);
    double all = 0;
    size_t count = 0; /* bars: layers without a network have none */
    for (uint32_t layer = 0; layer < t->layer_count; layer++) {
        const tune_layer *l = &t->layers[layer];
        double sum = 0;
        if (l->neuron_count == 0)
            continue;
        for (uint32_t i = 0; i < l->neuron_count; i++)
            sum += l->counts[i];
        bars[count] = (chart_point){layer, sum / ((double)t->tokens * l->neuron_count), NULL};
        all += bars[count++].y;
    }
    *series = (chart_series){NULL, CHART_BARS, 1, bars, count};
    snprintf(p->says[DENSITY], sizeof p->says[DENSITY], "Of all neurons %.3g %% fire for a token, mean of the layers.",
             100 * all / (double)count);
    p->panels[p->count++] = (chart_panel){.title = "Density by layer",
                                          .says = p->says[DENSITY],
                                          .x = layer_axis(t),
                                          .y = {"neurons that fire, mean of the tokens", .percent = true},
                                          .series = series,
                                          .series_count = 1};
    return HEARTH_OK;
}

/* Fills each column with the mean frequency of its neurons, hottest first. */
static void fill_row(const tune *t, uint32_t layer, float *cells, size_t columns)
{
    const tune_layer *l = &t->layers[layer];
    for (size_t column = 0; column < columns; column++) {
        size_t from = column * l->neuron_count / columns, to = (column + 1) * l->neuron_count / columns;
        double sum = 0;
        for (size_t i = from; i < to; i++)
            sum += l->counts[l->order[i]];
        cells[column] = (float)(sum / ((double)(to - from) * (double)t->tokens));
    }
}

static hearth_status add_heat(picture *p, hearth_error *error)
{
    const tune *t = p->t;
    uint32_t networks = 0, *layers = arena_new_array(&p->memory, t->layer_count, sizeof *layers); /* with a network */
    size_t columns = HEAT_COLUMNS; /* no more than the narrowest layer has neurons */
    for (uint32_t i = 0; layers && i < t->layer_count; i++)
        if (t->layers[i].neuron_count > 0) {
            layers[networks++] = i;
            columns = t->layers[i].neuron_count < columns ? t->layers[i].neuron_count : columns;
        }
    uint32_t every = (networks + HEAT_ROWS - 1) / HEAT_ROWS, rows = (networks + every - 1) / (every > 0 ? every : 1);
    float *cells = layers ? arena_new_array(&p->memory, rows, columns * sizeof *cells) : NULL;
    if (!cells)
        return no_room(error);
    for (uint32_t row = 0; row < rows; row++)
        fill_row(t, layers[row * every], cells + row * columns, columns);
    char which[32] = "each layer";
    if (every > 1)
        snprintf(which, sizeof which, "one layer in %u", every);
    snprintf(p->says[HEAT], sizeof p->says[HEAT],
             "A row for %s, its neurons from the hottest to the coldest; the colour says how often they fire.", which);
    p->panels[p->count++] = (chart_panel){
        .title = "How often each neuron fires",
        .says = p->says[HEAT],
        .x = {"neurons of the layer, hottest first", .percent = true, .most = 1},
        .y = {rows == t->layer_count ? "layer; share of tokens"
                                     : "row of a layer, others are left out; share of tokens",
              .whole = true},
        .heat = {cells, rows, columns, {"", .log = true, .percent = true, .least = LEAST_SHARE, .most = 1}}};
    return HEARTH_OK;
}

/* ------------------------------------------------------------------ magnitudes */

/* For activations that are never zero: draws quantiles of their magnitudes by layer. */
static hearth_status add_magnitudes(picture *p, hearth_error *error)
{
    static const struct {
        const char *name;
        double share;
    } curves[] = {{"99 % are below", 0.99}, {"90 %", 0.9}, {"75 %", 0.75}, {"50 %", 0.5},
                  {"25 %", 0.25},           {"10 %", 0.1}};
    const tune *t = p->t;
    size_t count = sizeof curves / sizeof *curves;
    chart_series *series = arena_new_array(&p->memory, count, sizeof *series);
    chart_point *points = arena_new_array(&p->memory, count * t->layer_count, sizeof *points);
    if (!series || !points)
        return no_room(error);
    double most = 0;
    for (size_t i = 0; i < count; i++, points += t->layer_count) {
        size_t shown = 0;
        for (uint32_t layer = 0; layer < t->layer_count; layer++) {
            size_t at = (size_t)lround(curves[i].share * (TUNE_QUANTILES - 1));
            if (t->layers[layer].neuron_count == 0)
                continue;
            points[shown] = (chart_point){layer, (double)t->layers[layer].magnitudes[at], NULL};
            most = fmax(most, points[shown++].y);
        }
        series[i] = (chart_series){curves[i].name, t->layer_count <= 48 ? CHART_MARKED : CHART_LINE,
                                   (unsigned)((i + 1) % count), points, shown};
    }
    p->panels[p->count++] =
        (chart_panel){.title = "How large activations are",
                      .says = "By layer: the magnitudes below which these shares of them lie.",
                      .x = layer_axis(t),
                      .y = {"magnitude of the activated gate", .log = most > 0, .floor = LEAST_SIZE * most},
                      .series = series,
                      .series_count = count};
    return HEARTH_OK;
}

/* ------------------------------------------------------------------ all of it */

/* Returns whether some neurons fire more often than others; otherwise the counts say nothing. */
static bool counts_differ(const tune *t)
{
    for (uint32_t layer = 0; layer < t->layer_count; layer++)
        for (uint32_t i = 0; i < t->layers[layer].neuron_count; i++)
            if (t->layers[layer].counts[i] != tune_first(t)->counts[0])
                return true;
    return false;
}

/* Collects the panels. Where activations are never zero, firing is defined as a fixed share of them, so density is left
 * out. */
static hearth_status collect(picture *p, bool smooth, hearth_error *error)
{
    bool differ = counts_differ(p->t);
    if (differ)
        TRY(add_power_law(p, error));
    if (differ && !smooth)
        TRY(add_density(p, error));
    if (tune_first(p->t)->magnitudes && (smooth || !differ))
        TRY(add_magnitudes(p, error));
    return differ ? add_heat(p, error) : HEARTH_OK;
}

/* Writes the model's name, or that of its file. */
static void make_title(char *out, size_t size, const hearth_model_info *info)
{
    const char *slash = strrchr(info->path, '/'), *file = slash && slash[1] ? slash + 1 : info->path;
    snprintf(out, size, "%.200s: its neurons", info->name && *info->name ? info->name : file);
}

static hearth_status draw(const hearth_model *model, const char *path, hearth_error *error)
{
    hearth_model_info info;
    char title[256], note[256], neurons[NEURONS_TEXT];
    hearth_model_describe(model, &info);
    const tune *t = model->tune;
    if (!t || !tune_first(t)->counts || t->tokens == 0)
        return model_lacks_tune(
            model,
            t ? "--plot: its tune file has no counts; `hearth profile` counts which neurons fire"
              : "--plot: there is no tune file; `hearth profile` counts which neurons fire and writes one",
            error);
    picture *p = mem_new(sizeof *p);
    if (!p)
        return no_room(error);
    p->t = t;
    make_title(title, sizeof title, &info);
    bool smooth = !model_has_zeros(model);
    snprintf(note, sizeof note, "Counted by hearth profile: %llu tokens, %u layers of %s neurons, activation %s%s.",
             (unsigned long long)t->tokens, model_networks(model), common_neurons(neurons, model), info.activation,
             smooth ? ", which is never zero: " INSPECT_SMOOTH_FIRES : "");
    hearth_status status = collect(p, smooth, error);
    if (status == HEARTH_OK && p->count == 0)
        status = fail(error, HEARTH_UNSUPPORTED,
                      "%s: --plot: all neurons fire equally often, and the tune file has no magnitudes", info.path);
    if (status == HEARTH_OK) {
        chart c = {title, note, p->panels, p->count, 2};
        status = chart_write(path, &c, error);
    }
    arena_clear(&p->memory);
    mem_free(p);
    return status;
}

hearth_status inspect_plot(const model_options *o, const char *path, hearth_error *error)
{
    hearth_model *model;
    if (!*path || strcmp(path, "-") == 0)
        return fail(error, HEARTH_INVALID, "inspect: --plot: needs the name of a file");
    TRY(common_open_model(&model, o, NULL, error));
    hearth_status status = draw(model, path, error);
    hearth_model_close(model);
    return status;
}
