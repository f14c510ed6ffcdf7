/* profile_plot.c - `hearth profile --plot`: which share of the neurons fires, by layer and expert, and by token. */
#include "../base/memory.h"
#include "../eval/chart.h"
#include "profile_report.h"

#include <stdio.h>
#include <string.h>

enum { BY_LAYER, BY_TOKEN, PANELS };
/* The series of the first panel; the first is drawn on top. */
enum { MEANS, SHARED, EXPERTS, SERIES };

typedef struct picture {
    const profile *p;
    arena memory;
    chart_series by_layer[SERIES], by_token[1];
    char says[PANELS][256];
    chart_panel panels[PANELS];
} picture;

static bool has_experts(const profile *p)
{
    return p->considered_density > p->density;
}

/* Adds a bar for each layer with a network, a mark for each expert that was chosen, and one for each shared expert. */
static hearth_status add_layers(picture *k, hearth_error *error)
{
    const profile *p = k->p;
    size_t experts = 0, counts[SERIES] = {0};
    for (uint32_t i = 0; i < p->layer_count; i++)
        experts += p->layers[i].expert_count;
    chart_point *means = arena_new_array(&k->memory, p->layer_count, sizeof *means);
    chart_point *shared = arena_new_array(&k->memory, p->layer_count, sizeof *shared);
    chart_point *each = arena_new_array(&k->memory, experts + 1, sizeof *each);
    if (!means || !shared || !each)
        return fail_memory(error, "picture", experts * sizeof *each);
    for (uint32_t i = 0; i < p->layer_count; i++) {
        const profile_layer *l = &p->layers[i];
        if (l->neuron_count > 0)
            means[counts[MEANS]++] = (chart_point){i, l->considered_density, NULL};
        if (l->shared_density > 0)
            shared[counts[SHARED]++] = (chart_point){i, l->shared_density, NULL};
        for (uint32_t e = 0; e < l->expert_count; e++)
            if (l->experts[e].tokens > 0)
                each[counts[EXPERTS]++] = (chart_point){i, l->experts[e].density, NULL};
    }
    const char *mean = has_experts(p) ? "chosen and shared experts" : NULL;
    size_t series = 0;
    if (counts[SHARED] > 0)
        k->by_layer[series++] = (chart_series){"the shared expert", CHART_MARKS, 2, shared, counts[SHARED]};
    if (counts[EXPERTS] > 0)
        k->by_layer[series++] = (chart_series){"one expert, when chosen", CHART_MARKS, 0, each, counts[EXPERTS]};
    k->by_layer[series++] = (chart_series){mean, CHART_BARS, 1, means, counts[MEANS]};
    snprintf(k->says[BY_LAYER], sizeof k->says[BY_LAYER],
             "Of the neurons that a token considers %.3g %% fire, mean of the layers.", 100 * p->considered_density);
    k->panels[BY_LAYER] = (chart_panel){
        .title = "Neurons that fire, by layer",
        .says = k->says[BY_LAYER],
        .x = {"layer", .whole = true, .least = -0.5, .most = p->layer_count - 0.5},
        .y = {has_experts(p) ? "of the neurons that a token considers" : "of the layer's neurons", .percent = true},
        .series = k->by_layer,
        .series_count = series};
    return HEARTH_OK;
}

/* Adds the histogram of tokens by the share of a layer's neurons that fires, over all layers, up to the last bin that has
 * any. */
static hearth_status add_tokens(picture *k, hearth_error *error)
{
    const profile *p = k->p;
    uint64_t bins[PROFILE_BINS] = {0}, all = 0;
    size_t used = 0;
    chart_point *points = arena_new_array(&k->memory, PROFILE_BINS, sizeof *points);
    if (!points)
        return fail_memory(error, "picture", PROFILE_BINS * sizeof *points);
    for (uint32_t i = 0; i < p->layer_count; i++)
        for (size_t b = 0; b < PROFILE_BINS; b++) {
            bins[b] += p->layers[i].by_density[b];
            all += p->layers[i].by_density[b];
            used = p->layers[i].by_density[b] > 0 && b >= used ? b + 1 : used;
        }
    for (size_t b = 0; b < used; b++)
        points[b] = (chart_point){((double)b + 0.5) / PROFILE_BINS, (double)bins[b] / (double)all, NULL};
    k->by_token[0] = (chart_series){NULL, CHART_MARKED, 1, points, used};
    snprintf(k->says[BY_TOKEN], sizeof k->says[BY_TOKEN],
             "How many tokens have which density, in bins of 1/%d, over all layers.", PROFILE_BINS);
    k->panels[BY_TOKEN] = (chart_panel){.title = "Tokens by density",
                                        .says = k->says[BY_TOKEN],
                                        .x = {"share of a layer's neurons that fires for the token", .percent = true},
                                        .y = {"share of the tokens", .percent = true},
                                        .series = k->by_token,
                                        .series_count = 1};
    return HEARTH_OK;
}

static hearth_status draw(picture *k, const char *path, const chart *c, hearth_error *error)
{
    TRY(add_layers(k, error));
    TRY(add_tokens(k, error));
    return chart_write(path, c, error);
}

hearth_status profile_plot(const char *path, const profile *p, const hearth_model *model, const char *texts,
                           const char *command, hearth_error *error)
{
    hearth_model_info info;
    char title[256], note[1200];
    hearth_model_describe(model, &info);
    const char *slash = strrchr(info.path, '/'), *file = slash && slash[1] ? slash + 1 : info.path;
    snprintf(title, sizeof title, "%.160s: %.3g %% of its neurons fire", info.name && *info.name ? info.name : file,
             100 * p->considered_density);
    snprintf(note, sizeof note,
             "%s, %u of %u layers with a network, activation %s%s. %llu tokens of %.300s. hearth %s: %.600s",
             info.family, p->networks, p->layer_count, info.activation,
             model_has_zeros(model) ? ""
                                    : ", which is never zero: a neuron counts when it is among the largest quarter",
             (unsigned long long)p->tokens, texts, hearth_version(), command);
    picture k = {.p = p};
    chart c = {title, note, k.panels, PANELS, 1};
    hearth_status status = draw(&k, path, &c, error);
    arena_clear(&k.memory);
    return status;
}
