/* sweep_settings.c - parses settings, and builds their placements. */
#include "sweep.h"

#include "../engine/placement.h"
#include "../model/tune.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* The steps of 0.3:0.9:0.1 reach their end within this rounding error. */
#define SLACK 1e-9

typedef enum value_use { TAKES_NOTHING, TAKES_NUMBER, TAKES_SHARE } value_use;

/* Rows in the order of sweep_kind. */
static const struct {
    const char *name;
    hearth_mode mode; /* HEARTH_MODE_AUTO: whichever lossless mode fits the model */
    value_use value;
} kinds[SWEEP_KINDS] = {
    {"dense", HEARTH_MODE_DENSE, TAKES_NOTHING},        {"exact", HEARTH_MODE_EXACT, TAKES_NOTHING},
    {"predicted", HEARTH_MODE_PREDICTED, TAKES_NUMBER}, {"pruned", HEARTH_MODE_PRUNED, TAKES_SHARE},
    {"hot-only", HEARTH_MODE_AUTO, TAKES_SHARE},        {"cold-only", HEARTH_MODE_AUTO, TAKES_SHARE},
};

const char *sweep_kind_name(sweep_kind kind)
{
    return kinds[kind].name;
}

void sweep_setting_name(char out[SWEEP_NAME], const sweep_setting *setting)
{
    if (isnan(setting->value))
        snprintf(out, SWEEP_NAME, "%s", kinds[setting->kind].name);
    else
        snprintf(out, SWEEP_NAME, "%s=%.6g", kinds[setting->kind].name, setting->value);
}

/* ------------------------------------------------------------------ placements */

hearth_status sweep_place(hearth_placement **out, const hearth_model *model, const sweep_setting *setting,
                          hearth_error *error)
{
    hearth_placement *p;
    bool by_heat = setting->kind == SWEEP_HOT_ONLY || setting->kind == SWEEP_COLD_ONLY;
    hearth_mode mode = kinds[setting->kind].mode;
    hearth_status status = HEARTH_OK;
    TRY(hearth_placement_create(&p, model, mode == HEARTH_MODE_AUTO ? placement_auto_mode(model) : mode, error));
    if (by_heat)
        status = hearth_placement_keep(p, model, setting->value, setting->kind == SWEEP_HOT_ONLY, error);
    else if (setting->kind == SWEEP_PRUNED)
        status = hearth_placement_prune(p, model, setting->value, error);
    else if (!isnan(setting->value))
        hearth_placement_set_threshold(p, (float)setting->value);
    if (status == HEARTH_OK)
        *out = p;
    else
        hearth_placement_destroy(p);
    return status;
}

/* ------------------------------------------------------------------ lists */

typedef struct list {
    sweep_setting *out; /* [SWEEP_SETTINGS] */
    size_t count;
} list;

static hearth_status add(list *l, sweep_kind kind, double value, hearth_error *error)
{
    for (size_t i = 0; i < l->count; i++)
        if (l->out[i].kind == kind && (l->out[i].value == value || (isnan(value) && isnan(l->out[i].value))))
            return HEARTH_OK; /* duplicates are run once */
    if (l->count == SWEEP_SETTINGS)
        return fail(error, HEARTH_INVALID, "settings: more than %d are too many", SWEEP_SETTINGS);
    l->out[l->count++] = (sweep_setting){kind, value};
    return HEARTH_OK;
}

static hearth_status add_range(list *l, sweep_kind kind, double from, double to, double step, hearth_error *error)
{
    for (int i = 0; from + i * step <= to + SLACK; i++)
        TRY(add(l, kind, round((from + i * step) / SLACK) * SLACK, error));
    return HEARTH_OK;
}

/* Adds what a kind of setting stands for without a value. */
static hearth_status add_plain(list *l, sweep_kind kind, const hearth_model *model, hearth_error *error)
{
    const tune *t = model->tune;
    if (kinds[kind].value != TAKES_SHARE)
        return add(l, kind, NAN, error);
    if (kind != SWEEP_PRUNED)
        return add_range(l, kind, 0.2, 0.8, 0.2, error);
    if (!t || t->level_count == 0)
        return model_lacks_tune(
            model,
            t ? "pruned: its tune file has no levels to go through; `hearth tune` finds some"
              : "pruned: without a tune file there are no levels to go through; `hearth tune` finds "
                "some",
            error);
    for (uint32_t i = 0; i < t->level_count; i++)
        /* Gives 0.3 again, although it is stored as float32 */
        TRY(add(l, kind, round((double)t->levels[i] * 1e6) / 1e6, error));
    return HEARTH_OK;
}

/* Parses "0.5" or "0.3:0.9:0.1" into from, to, step; returns the number of values given, 0 for anything else. */
static int read_values(const char *text, double out[3])
{
    int count = 0;
    for (;; text++) {
        char *end;
        if (count == 3 || strchr(" \t\n\v\f\rnNiI", *text)) /* rejects blanks, and words such as nan */
            return 0;
        out[count] = strtod(text, &end);
        if (end == text || !isfinite(out[count]))
            return 0;
        count++;
        text = end;
        if (!*text)
            return count;
        if (*text != ':')
            return 0;
    }
}

static hearth_status add_values(list *l, sweep_kind kind, const char *text, hearth_error *error)
{
    double v[3];
    int count = read_values(text, v);
    const char *name = kinds[kind].name;
    if (kinds[kind].value == TAKES_NOTHING)
        return fail(error, HEARTH_INVALID, "settings: %s: takes no value, '%.40s' is one", name, text);
    if (count != 1 && count != 3)
        return fail(error, HEARTH_INVALID, "settings: %s: '%.40s' is neither a number nor FROM:TO:STEP", name, text);
    if (count == 1)
        v[1] = v[0], v[2] = 1;
    if (!(v[1] >= v[0]) || !(v[2] > 0) || (v[1] - v[0]) / v[2] > 10.0 * SWEEP_SETTINGS)
        return fail(error, HEARTH_INVALID, "settings: %s: '%.40s' goes nowhere, or in too many steps", name, text);
    if (kinds[kind].value == TAKES_SHARE && (v[0] < 0 || v[1] > 1 + SLACK))
        return fail(error, HEARTH_INVALID, "settings: %s: '%.40s' is not a share, from 0 to 1", name, text);
    if (fabs(v[0]) > 1e6 || fabs(v[1]) > 1e6)
        return fail(error, HEARTH_INVALID, "settings: %s: '%.40s' is too large", name, text);
    return add_range(l, kind, v[0], v[1], v[2], error);
}

/* Adds the settings of "pruned=0.5", or of a name alone. */
static hearth_status add_word(list *l, char *word, const hearth_model *model, hearth_error *error)
{
    char *value = strchr(word, '=');
    size_t kind = 0;
    if (value)
        *value++ = 0;
    while (kind < SWEEP_KINDS && strcmp(word, kinds[kind].name) != 0)
        kind++;
    if (kind == SWEEP_KINDS)
        return fail(error, HEARTH_INVALID,
                    "settings: '%.40s' is none; there are dense, exact, predicted, pruned, hot-only and cold-only",
                    word);
    return value ? add_values(l, (sweep_kind)kind, value, error) : add_plain(l, (sweep_kind)kind, model, error);
}

hearth_status sweep_parse(sweep_setting out[SWEEP_SETTINGS], size_t *count, const char *text, const hearth_model *model,
                          hearth_error *error)
{
    list l = {out, 0};
    for (const char *at = text;; at++) {
        char word[96];
        size_t size = strcspn(at, ",");
        if (size >= sizeof word)
            return fail(error, HEARTH_INVALID, "settings: '%.40s' is too long", at);
        memcpy(word, at, size);
        word[size] = 0;
        TRY(add_word(&l, word, model, error));
        at += size;
        if (!*at)
            break;
    }
    *count = l.count;
    return HEARTH_OK;
}

/* Returns whether hottest and coldest neurons differ: where activations are never zero, every neuron fires for every
 * token. */
static bool has_hot_neurons(const tune *t)
{
    if (!t || !tune_first(t)->counts)
        return false;
    for (const tune_layer *l = t->layers; l < t->layers + t->layer_count; l++)
        if (l->neuron_count > 0 && l->counts[l->order[0]] != l->counts[l->order[l->neuron_count - 1]])
            return true;
    return false;
}

void sweep_defaults(sweep_setting out[SWEEP_SETTINGS], size_t *count, const hearth_model *model)
{
    list l = {out, 0};
    const tune *t = model->tune;
    bool hot = has_hot_neurons(t);
    const bool wanted[SWEEP_KINDS] = {
        [SWEEP_DENSE] = true,
        [SWEEP_EXACT] = placement_auto_mode(model) == HEARTH_MODE_EXACT,
        [SWEEP_PREDICTED] = tune_predicts(t, model),
        [SWEEP_PRUNED] = t && t->level_count > 0,
        [SWEEP_HOT_ONLY] = hot,
        [SWEEP_COLD_ONLY] = hot,
    };
    for (sweep_kind kind = 0; kind < SWEEP_KINDS; kind++)
        if (wanted[kind])
            add_plain(&l, kind, model, NULL); /* settings that do not fit the model are left out */
    *count = l.count;
}
