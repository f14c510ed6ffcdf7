/* placement_prune.c - sets the thresholds of mode pruned, by a share of activations or by a largest loss. */
#include "../model/tune.h"
#include "placement_internal.h"

#include <math.h>

/* A position between two levels of a tune file. At a level, and outside the range of the levels, `below` and `above`
 * are the same. */
typedef struct spot {
    uint32_t below, above;
    double way; /* from below to above, 0 to 1 */
} spot;

/* Finds the position of a share among the levels, which are ascending. */
static spot find_spot(const tune *t, double share)
{
    uint32_t above = 0, last = t->level_count - 1;
    while (above < last && (double)t->levels[above] < share)
        above++;
    double level = (double)t->levels[above];
    if (above == 0 || share >= level)
        return (spot){above, above, 0};
    double from = (double)t->levels[above - 1];
    return (spot){above - 1, above, (share - from) / (level - from)};
}

/* Interpolates between the values of two levels. */
static float between(const float *values, spot s)
{
    return values[s.below] + (float)s.way * (values[s.above] - values[s.below]);
}

/* Checks that the placement is of this model and that its tune file has levels. */
static hearth_status check_levels(const hearth_placement *p, const hearth_model *model, hearth_error *error)
{
    TRY(placement_check_model(p, model, error));
    if (!model->tune || model->tune->level_count == 0)
        return model_lacks_tune(model,
                                "mode pruned: it is not known which activations are small; `hearth tune` finds out, or "
                                "--threshold says it",
                                error);
    return HEARTH_OK;
}

/* Sets the thresholds of pruned layers and the pruning of the placement. */
static void prune_at(hearth_placement *p, const tune *t, spot s)
{
    for (uint32_t i = 0; i < p->layer_count; i++)
        if (p->layers[i].selector == SELECTOR_MAGNITUDE)
            p->layers[i].threshold = between(t->layers[i].prune, s);
    p->pruning = (hearth_pruning){.known = true, .share = (double)between(t->levels, s), .loss_known = t->losses};
    if (t->losses) {
        p->pruning.least_loss = (double)fminf(t->losses[s.below], t->losses[s.above]);
        p->pruning.most_loss = (double)fmaxf(t->losses[s.below], t->losses[s.above]);
    }
}

hearth_status hearth_placement_prune(hearth_placement *placement, const hearth_model *model, double share,
                                     hearth_error *error)
{
    TRY(check_levels(placement, model, error));
    if (!(share >= 0 && share <= 1))
        return fail(error, HEARTH_INVALID, "placement: a share of %g is not within 0 and 1", share);
    prune_at(placement, model->tune, find_spot(model->tune, share));
    return HEARTH_OK;
}

/* Returns whether a level skips more than zeros; one that does not is no pruning. */
static bool prunes(const tune *t, uint32_t level)
{
    for (uint32_t i = 0; i < t->layer_count; i++)
        if (t->layers[i].prune && t->layers[i].prune[level] > 0)
            return true;
    return false;
}

bool placement_find_level(const tune *t, double most_loss, uint32_t *level)
{
    for (uint32_t i = t->level_count; t->losses && i-- > 0;)
        if (prunes(t, i) && (double)t->losses[i] <= most_loss) {
            *level = i;
            return true;
        }
    return false;
}

/* Reports that no level will do, with the loss of the lowest one that prunes. */
static hearth_status refuse_levels(const hearth_model *model, double most_loss, hearth_error *error)
{
    const tune *t = model->tune;
    uint32_t gentlest = 0;
    while (gentlest + 1 < t->level_count && !prunes(t, gentlest))
        gentlest++;
    double share = 100 * (double)t->levels[gentlest];
    if (!t->losses)
        return fail(
            error, HEARTH_UNSUPPORTED,
            "%s: mode pruned: its tune file does not say what its levels cost; tune again, or --prune SHARE takes "
            "one all the same (from %.1f %% of the activations)",
            model->source->path, share);
    return fail(
        error, HEARTH_UNSUPPORTED,
        "%s: mode pruned: no level of its tune file costs %g nats (KL) at most: %.1f %% of the activations cost "
        "%.3g; --prune SHARE takes one all the same",
        model->source->path, most_loss, share, (double)t->losses[gentlest]);
}

hearth_status hearth_placement_prune_within(hearth_placement *placement, const hearth_model *model, double most_loss,
                                            hearth_error *error)
{
    uint32_t level;
    TRY(check_levels(placement, model, error));
    if (!(most_loss >= 0))
        return fail(error, HEARTH_INVALID, "placement: a loss of %g is below zero", most_loss);
    if (!placement_find_level(model->tune, most_loss, &level))
        return refuse_levels(model, most_loss, error);
    prune_at(placement, model->tune, (spot){level, level, 0});
    return HEARTH_OK;
}
